//! Draws from the normal distribution for the generators of links.

use cellpace_base::Random;
use cellpace_base::math::ln;

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
            // Outside of the circle the pair would not be uniform in direction; at 0 there is no
            // logarithm.
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
