//! Elementary functions from additions, multiplications and square roots only.
//!
//! The standard library takes `exp`, `ln`, `cbrt` and `sin` from the platform, whose last bits differ
//! between systems; one such bit can move an opportunity or a window. IEEE 754 fixes the basic operations,
//! so these give the same run everywhere: on every system, and in a browser.

/// e^x; 0 and infinity beyond what a double holds. Relative error below 1e-14.
pub fn exp(x: f64) -> f64 {
    if x.is_nan() {
        return x;
    }
    if x < -708.0 {
        return 0.0;
    }
    if x > 709.0 {
        return f64::INFINITY;
    }
    let twos = (x / std::f64::consts::LN_2 + if x < 0.0 { -0.5 } else { 0.5 }) as i64;
    let rest = x - twos as f64 * std::f64::consts::LN_2;
    // |rest| <= 0.35: sixteen terms of Taylor's series are exact to the last bits.
    let series = (1..=16).rev().fold(1.0, |sum, n| 1.0 + sum * rest / f64::from(n));
    series * f64::from_bits(((1023 + twos) as u64) << 52)
}

/// Natural logarithm of a normal positive number; minus infinity for what is not positive.
pub fn ln(x: f64) -> f64 {
    if x.is_nan() || x < f64::MIN_POSITIVE {
        return f64::NEG_INFINITY;
    }
    let bits = x.to_bits();
    let exponent = ((bits >> 52) & 0x7ff) as i64 - 1023;
    let mantissa = f64::from_bits((bits & ((1 << 52) - 1)) | (1023 << 52));
    let (mantissa, exponent) = if mantissa > std::f64::consts::SQRT_2 {
        (mantissa / 2.0, exponent + 1)
    } else {
        (mantissa, exponent)
    };
    // ln m = 2 artanh((m-1)/(m+1)), |argument| <= 0.172.
    let t = (mantissa - 1.0) / (mantissa + 1.0);
    let t2 = t * t;
    let series = (0..11).rev().fold(0.0, |sum, n| sum * t2 + 1.0 / f64::from(2 * n + 1));
    2.0 * t * series + exponent as f64 * std::f64::consts::LN_2
}

/// x^y for positive x.
pub fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// 10^x; exact for whole numbers up to 22, as it is on every platform.
pub fn pow10(x: f64) -> f64 {
    if x.fract() != 0.0 || x.abs() > 22.0 {
        return pow(10.0, x);
    }
    let power = (0..x.abs() as u32).fold(1.0, |power, _| power * 10.0);
    if x < 0.0 { 1.0 / power } else { power }
}

/// Cube root.
pub fn cbrt(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let size = x.abs();
    // Two steps of Newton's method from an estimate that is right to 1e-14.
    let step = |root: f64| root - (root - size / (root * root)) / 3.0;
    let root = step(step(exp(ln(size) / 3.0)));
    if x < 0.0 { -root } else { root }
}

/// Sine and cosine of an angle of at most a few turns, in radians.
pub fn sin_cos(angle: f64) -> (f64, f64) {
    // Halving four times brings the angle near zero; the double-angle formulas bring it back.
    let x = angle / 16.0;
    let x2 = x * x;
    let mut sin =
        x * (1..=10).rev().fold(1.0, |s, n| 1.0 - s * x2 / f64::from(2 * n * (2 * n + 1)));
    let mut cos = (1..=10).rev().fold(1.0, |s, n| 1.0 - s * x2 / f64::from(2 * n * (2 * n - 1)));
    for _ in 0..4 {
        (sin, cos) = (2.0 * sin * cos, cos * cos - sin * sin);
    }
    (sin, cos)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn exp_and_ln_agree_with_the_platform() {
        for x in [-700.0, -20.5, -1.0, -1e-9, 0.0, 0.3, 1.0, 17.25, 700.0_f64] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-12, "exp {x}");
        }
        for x in [1e-300, 0.01, 0.7, 0.999_999, 1.0, 1.5, 2.0, 12_345.6, 1e300_f64] {
            assert!((ln(x) - x.ln()).abs() < 1e-12 * x.ln().abs().max(1.0), "ln {x}");
        }
        assert_eq!(exp(-1e9), 0.0);
        assert_eq!(exp(1e9), f64::INFINITY);
        assert!(exp(f64::NAN).is_nan());
        assert_eq!(ln(0.0), f64::NEG_INFINITY);
        assert_eq!(ln(-1.0), f64::NEG_INFINITY);
    }

    #[test]
    fn powers_of_ten_are_exact_where_they_can_be() {
        for (x, power) in [(0.0, 1.0), (2.0, 100.0), (-2.0, 0.01), (22.0, 1e22), (-9.0, 1e-9)] {
            assert_eq!(pow10(x), power);
        }
        for x in [0.5, -1.25, 30.0_f64] {
            assert!((pow10(x) / 10_f64.powf(x) - 1.0).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    #[cfg_attr(miri, ignore = "Miri draws the last bits of what the platform computes")]
    fn cube_roots_agree_with_the_platform() {
        for x in [1e-12, 0.001, 0.4, 1.0, 8.0, 27.0, 1234.5, 1e9, 1e200_f64] {
            assert!((cbrt(x) / x.cbrt() - 1.0).abs() < 3e-16, "{x}");
            assert_eq!(cbrt(-x), -cbrt(x));
        }
        assert_eq!((cbrt(0.0), cbrt(27.0), cbrt(1e9)), (0.0, 3.0, 1e3));
        assert!(cbrt(f64::NAN).is_nan() && cbrt(f64::INFINITY) == f64::INFINITY);
    }

    #[test]
    fn sine_and_cosine_agree_with_the_platform() {
        for x in [-6.0, -1.0, 0.0, 0.01, 0.628, 3.2, 6.2_f64] {
            let (sin, cos) = sin_cos(x);
            assert!((sin - x.sin()).abs() < 1e-12 && (cos - x.cos()).abs() < 1e-12, "{x}");
        }
    }
}
