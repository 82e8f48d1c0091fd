//! How strong a signal arrives: path loss, shadowing, fading.

use std::f64::consts::{LN_10, TAU};

use cellpace_base::Random;

use crate::profile::normal::Normal;
use cellpace_base::math::{exp, ln};

/// Speed of light in m/s.
const LIGHT: f64 = 299_792_458.0;

/// A ratio in decibels.
pub(crate) fn decibels(ratio: f64) -> f64 {
    10.0 * ln(ratio) / LN_10
}

/// The ratio that is `decibels`.
pub(crate) fn ratio(decibels: f64) -> f64 {
    exp(decibels * LN_10 / 10.0)
}

/// Path loss in dB at `metres`: `at_1km + slope log10(d/km)` (Hata, IEEE Transactions on Vehicular
/// Technology 29(3), 1980).
pub fn path_loss(at_1km: f64, slope: f64, metres: f64) -> f64 {
    at_1km + slope * ln(metres / 1000.0) / LN_10
}

/// The Bessel function of the first kind and order zero, by its power series; 0 beyond 20, where
/// the series loses its digits and the function is small.
pub fn bessel_j0(x: f64) -> f64 {
    if x.abs() > 20.0 {
        return 0.0;
    }
    let quarter = -x * x / 4.0;
    // sum of (-x²/4)^k / k!²
    // From the smallest term, by Horner's rule: no factorial that would overflow.
    (1..=60).rev().fold(1.0, |sum, k| 1.0 + sum * quarter / (f64::from(k) * f64::from(k)))
}

/// The largest Doppler shift in Hz at `speed` in m/s and `frequency` in MHz.
pub fn doppler(speed: f64, frequency: f64) -> f64 {
    speed * frequency * 1e6 / LIGHT
}

/// A stationary Gaussian process over distance with variance 1 (AR(1); Gudmundson 1991).
#[derive(Debug, Clone)]
pub struct Shadow {
    value: f64,
    normal: Normal,
    random: Random,
}

impl Shadow {
    /// A process with its own draws.
    pub fn new(mut random: Random) -> Self {
        let mut normal = Normal::default();
        Self { value: normal.draw(&mut random), normal, random }
    }

    /// The present value.
    pub fn value(&self) -> f64 {
        self.value
    }

    /// Moves by a step over which the correlation is `rho`.
    pub fn advance(&mut self, rho: f64) {
        // The weights keep the variance at 1, so that the deviation is the caller's factor alone.
        let innovation = self.normal.draw(&mut self.random);
        self.value = rho * self.value + (1.0 - rho * rho).sqrt() * innovation;
    }
}

/// The correlation of shadowing over `step` metres.
pub fn shadow_correlation(step: f64, distance: f64) -> f64 {
    exp(-step / distance)
}

/// Fading: the mean of several squared Rayleigh branches of mean 1, whose real and imaginary parts
/// are AR(1) processes of one correlation.
///
/// The sum of the `2 n` squared parts is drawn as a whole. It depends on its predecessor by that
/// one's length only, as the innovations have no direction: in coordinates along the old vector,
/// `sum' = (rho sqrt(sum) + s z)² + s² C`, where `s² = 1 - rho²`, `z` is normal, and `C` is
/// chi-squared with `2 n - 1` degrees of freedom. The distribution is the same; the draws are two
/// in place of `2 n`.
#[derive(Debug, Clone)]
pub struct Fading {
    /// Sum of the squared parts, each of variance 1.
    sum: f64,
    branches: u64,
    rho: f64,
    normal: Normal,
    random: Random,
}

impl Fading {
    /// Fading with this many branches (0: none at all) and correlation per step.
    pub fn new(branches: u64, rho: f64, random: Random) -> Self {
        let mut fading = Self { sum: 0.0, branches, rho: 0.0, normal: Normal::default(), random };
        if branches > 0 {
            fading.advance();
        }
        // The first step had a correlation of 0: a draw from the long run.
        Self { rho, ..fading }
    }

    /// The power relative to its mean.
    pub fn power(&self) -> f64 {
        if self.branches == 0 { 1.0 } else { self.sum / (2 * self.branches) as f64 }
    }

    /// One step on.
    pub fn advance(&mut self) {
        if self.branches == 0 {
            return;
        }
        let variance = 1.0 - self.rho * self.rho;
        let along =
            self.rho * self.sum.sqrt() + variance.sqrt() * self.normal.draw(&mut self.random);
        self.sum = along * along + variance * self.chi_squared(2 * self.branches - 1);
    }

    /// A chi-squared draw with an odd number of degrees of freedom (from three on: Marsaglia and
    /// Tsang, ACM Transactions on Mathematical Software 26(3), 2000, twice a gamma variate of
    /// half as many).
    fn chi_squared(&mut self, degrees: u64) -> f64 {
        if degrees == 1 {
            let draw = self.normal.draw(&mut self.random);
            return draw * draw;
        }
        // A gamma variate of half the degrees as its shape, by their names.
        let d = degrees as f64 / 2.0 - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = self.normal.draw(&mut self.random);
            let root = 1.0 + c * x;
            if root <= 0.0 {
                continue;
            }
            let (v, u) = (root * root * root, self.random.unit());
            // The cheap test accepts nearly all draws, so that logarithms are rarely taken.
            let squeezed = u < 1.0 - 0.0331 * x * x * x * x;
            if squeezed || ln(u) < x * x / 2.0 + d * (1.0 - v + ln(v)) {
                return 2.0 * d * v;
            }
        }
    }
}

/// The correlation of fading over `seconds` (Clarke's model): `J0(2 pi f_d t)`.
pub fn fading_correlation(doppler: f64, seconds: f64) -> f64 {
    bessel_j0(TAU * doppler * seconds)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn radio_g4_path_loss_shadow_and_doppler() {
        assert!((path_loss(94.2, 34.1, 1000.0) - 94.2).abs() < 1e-9);
        assert!((path_loss(94.2, 34.1, 4000.0) - 114.7).abs() < 0.05);
        let rho = shadow_correlation(10.0, 50.0);
        assert!((rho - 0.8187).abs() < 1e-4, "{rho}");
        assert!((8.0 * (1.0 - rho * rho).sqrt() - 4.593).abs() < 1e-3);
        assert!((doppler(30.0, 751.0) - 75.15).abs() < 0.01);
        assert!((fading_correlation(75.15, 0.001) - 0.9451).abs() < 1e-4);
    }

    #[test]
    fn bessel_j0_is_that_of_the_tables() {
        // Abramowitz and Stegun, table 9.1.
        for (x, value) in [
            (0.0, 1.0),
            (1.0, 0.765_197_686_6),
            (2.404_825_557_7, 0.0),
            (5.0, -0.177_596_771_3),
            (10.0, -0.245_935_764_5),
        ] {
            assert!((bessel_j0(x) - value).abs() < 1e-9, "{x}: {}", bessel_j0(x));
        }
    }

    #[test]
    fn fading_has_the_mean_variance_and_correlation_of_its_branches() {
        for branches in [1, 2, 8] {
            let mut fading = Fading::new(branches, 0.9, Random::seeded(1, 9));
            let powers: Vec<f64> = (0..400_000)
                .map(|_| {
                    fading.advance();
                    fading.power()
                })
                .collect();
            let n = powers.len() as f64;
            let mean = powers.iter().sum::<f64>() / n;
            let variance = powers.iter().map(|p| (p - mean).powi(2)).sum::<f64>() / n;
            let pairs = powers.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum::<f64>() / n;
            assert!((mean - 1.0).abs() < 0.02, "{branches}: {mean}");
            assert!((variance * branches as f64 - 1.0).abs() < 0.06, "{branches}: {variance}");
            // Powers correlate as the square of the amplitudes: 0.9².
            assert!((pairs / variance - 0.81).abs() < 0.01, "{branches}: {}", pairs / variance);
        }
        let none = Fading::new(0, 0.9, Random::seeded(1, 9));
        assert_eq!(none.power(), 1.0);
    }

    #[test]
    fn radio_g4_shadow_over_10_000_s() {
        // 10 000 s at 30 m/s in steps of 10 ms.
        let rho = shadow_correlation(0.3, 50.0);
        let mut shadow = Shadow::new(Random::seeded(1, 10));
        let values: Vec<f64> = (0..1_000_000)
            .map(|_| {
                shadow.advance(rho);
                8.0 * shadow.value()
            })
            .collect();
        let n = values.len() as f64;
        let mean = values.iter().sum::<f64>() / n;
        let sd = (values.iter().map(|v| (v - mean).powi(2)).sum::<f64>() / n).sqrt();
        // 50 m are 167 steps.
        let lag = values.iter().zip(&values[167..]).map(|(a, b)| (a - mean) * (b - mean));
        let correlation = lag.sum::<f64>() / n / (sd * sd);
        assert!((sd - 8.0).abs() < 0.3, "{sd}");
        assert!((correlation - 0.37).abs() < 0.03, "{correlation}");
    }
}
