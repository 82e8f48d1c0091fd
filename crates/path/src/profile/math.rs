//! The few functions the generator needs, from additions, multiplications and square roots only.
//!
//! The standard library takes `exp`, `ln` and `sin` from the platform, whose last bits differ
//! between systems; one such bit can move an opportunity. IEEE 754 fixes the basic operations, so
//! these give the same trace everywhere.

use cellpace_base::Random;

/// e^x; 0 and infinity beyond what a double holds. Relative error below 1e-14.
pub(crate) fn exp(x: f64) -> f64 {
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
pub(crate) fn ln(x: f64) -> f64 {
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
pub(crate) fn pow(x: f64, y: f64) -> f64 {
    exp(y * ln(x))
}

/// Sine and cosine of an angle of at most a few turns, in radians.
pub(crate) fn sin_cos(angle: f64) -> (f64, f64) {
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

/// Draws from the standard normal distribution, two at a time (Marsaglia's polar method).
#[derive(Debug, Clone, Default)]
pub(crate) struct Normal {
    spare: Option<f64>,
}

impl Normal {
    /// The next draw.
    pub(crate) fn draw(&mut self, random: &mut Random) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        loop {
            let (u, v) = (2.0 * random.unit() - 1.0, 2.0 * random.unit() - 1.0);
            let s = u * u + v * v;
            if s > 0.0 && s < 1.0 {
                let factor = (-2.0 * ln(s) / s).sqrt();
                self.spare = Some(v * factor);
                return u * factor;
            }
        }
    }
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
    fn sine_and_cosine_agree_with_the_platform() {
        for x in [-6.0, -1.0, 0.0, 0.01, 0.628, 3.2, 6.2_f64] {
            let (sin, cos) = sin_cos(x);
            assert!((sin - x.sin()).abs() < 1e-12 && (cos - x.cos()).abs() < 1e-12, "{x}");
        }
    }

    #[test]
    fn normal_draws_have_mean_zero_and_variance_one() {
        let mut random = Random::seeded(3, 0);
        let mut normal = Normal::default();
        let draws: Vec<f64> = (0..40_000).map(|_| normal.draw(&mut random)).collect();
        let mean = draws.iter().sum::<f64>() / 40_000.0;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / 40_000.0;
        assert!(mean.abs() < 0.02 && (square - 1.0).abs() < 0.03, "{mean} {square}");
        let beyond = draws.iter().filter(|x| x.abs() > 1.959_964).count();
        assert!((1_800..2_200).contains(&beyond), "{beyond}");
    }
}
