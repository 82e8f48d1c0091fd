//! Files with pauses between them.

use cellpace_base::math::{exp, ln};
use cellpace_base::{Random, Rate, Span};

/// The ON/OFF model of the MDI paper (Table 3): file sizes from a truncated log-normal
/// distribution, pauses from an exponential one.
#[derive(Debug, Clone, PartialEq)]
pub struct OnOffFiles {
    /// Mean file size in bytes, before truncation.
    pub mean: f64,
    /// Standard deviation of the file size in bytes, before truncation.
    pub deviation: f64,
    /// No file is larger; larger draws are drawn again.
    pub max: f64,
    /// Mean pause.
    pub off: Span,
    /// When given, an ON period lasts as long as the file takes at this rate, whatever the
    /// connection achieves: two controllers then see the same ON and OFF times (the MDI paper's
    /// time-synchronised form, about 4 Mbit/s). Otherwise it ends when the file has arrived.
    pub rate: Option<Rate>,
}

impl Default for OnOffFiles {
    /// Table 3 of the MDI paper: mean 4 MB, variance 3.3 MB², at most 10 MB, 60 s off.
    fn default() -> Self {
        Self {
            mean: 4e6,
            deviation: 3.3_f64.sqrt() * 1e6,
            max: 10e6,
            off: Span::from_secs(60),
            rate: None,
        }
    }
}

impl OnOffFiles {
    pub(crate) fn check(&self) -> Result<(), String> {
        if !(self.mean >= 1.0 && self.deviation >= 0.0 && self.mean.is_finite()) {
            return Err("an ON/OFF file needs a mean of at least 1 byte".into());
        }
        if self.max < self.mean {
            return Err("the largest ON/OFF file is smaller than the mean".into());
        }
        if self.rate.is_some_and(|rate| rate.as_bps() == 0) {
            return Err("an ON period at rate 0 never ends".into());
        }
        Ok(())
    }

    /// Draws a file size in bytes, at least 1.
    pub(crate) fn file(&self, random: &mut Random) -> u64 {
        // Mean and variance of a log-normal distribution, solved for mu and sigma (MDI, Table 3).
        let variance = ln(1.0 + (self.deviation / self.mean).powi(2));
        let mu = ln(self.mean) - variance / 2.0;
        // With max >= mean at least every third draw fits; the bound is for strange parameters.
        let fits = (0..1000)
            .map(|_| exp(mu + variance.sqrt() * random.normal()))
            .find(|size| *size <= self.max);
        // The mean is within the bounds, as it was checked.
        fits.unwrap_or(self.mean).max(1.0).round() as u64
    }

    /// Draws a pause.
    pub(crate) fn pause(&self, random: &mut Random) -> Span {
        // Inverse of the exponential distribution function.
        self.off.mul_f64(-ln(1.0 - random.unit()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mdi_table_3_files_and_pauses() {
        let onoff = OnOffFiles::default();
        let mut random = Random::seeded(5, 0);
        let files: Vec<f64> = (0..20_000).map(|_| onoff.file(&mut random) as f64).collect();
        let mean = files.iter().sum::<f64>() / files.len() as f64;
        // Truncation at 10 MB takes a little from the mean of 4 MB.
        assert!((3.85e6..4.0e6).contains(&mean), "{mean}");
        assert!(files.iter().all(|file| *file <= 10e6));
        let pauses = (0..20_000).map(|_| onoff.pause(&mut random).as_secs_f64());
        let mean = pauses.sum::<f64>() / 20_000.0;
        assert!((58.5..61.5).contains(&mean), "{mean}");
    }

    #[test]
    fn strange_parameters_end_too() {
        let onoff = OnOffFiles { mean: 5.0, deviation: 1e12, max: 5.0, ..OnOffFiles::default() };
        let mut random = Random::seeded(5, 0);
        assert!((1..=5).contains(&onoff.file(&mut random)));
        let always = OnOffFiles { mean: 4e6, deviation: 0.0, ..OnOffFiles::default() };
        assert_eq!(always.file(&mut random), 4_000_000, "nothing is lost in logarithms");
        assert!(OnOffFiles { max: 1.0, ..OnOffFiles::default() }.check().is_err());
    }
}
