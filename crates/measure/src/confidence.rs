//! Repeated runs: mean and confidence interval.

use serde::{Deserialize, Serialize};
use statrs::distribution::{ContinuousCDF, StudentsT};

/// Mean of repeated runs with the half width of its 95 % confidence interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// Arithmetic mean.
    pub mean: f64,
    /// Half width of the 95 % interval (Student's t); 0 for a single run.
    pub half_width: f64,
    /// Number of runs.
    pub runs: usize,
}

impl Interval {
    /// The interval of `samples`; `None` when there are none.
    pub fn of(samples: &[f64]) -> Option<Self> {
        let runs = samples.len();
        if runs == 0 {
            return None;
        }
        let n = runs as f64;
        let mean = samples.iter().sum::<f64>() / n;
        if runs == 1 {
            return Some(Self { mean, half_width: 0.0, runs });
        }
        let variance = samples.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
        let t = StudentsT::new(0.0, 1.0, n - 1.0).map_or(f64::NAN, |t| t.inverse_cdf(0.975));
        Some(Self { mean, half_width: t * (variance / n).sqrt(), runs })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_runs_use_students_t_with_four_degrees_of_freedom() {
        // t(0.975, 4) = 2.776; sd of 1..5 = 1.5811; 2.776 * 1.5811 / sqrt(5) = 1.963
        let interval = Interval::of(&[1.0, 2.0, 3.0, 4.0, 5.0]).unwrap();
        assert_eq!(interval.mean, 3.0);
        assert!((interval.half_width - 1.963).abs() < 1e-3, "{interval:?}");
    }

    #[test]
    fn one_run_has_no_width_and_none_no_interval() {
        assert_eq!(Interval::of(&[7.0]).unwrap().half_width, 0.0);
        assert_eq!(Interval::of(&[]), None);
        assert_eq!(Interval::of(&[2.0, 2.0, 2.0]).unwrap().half_width, 0.0);
    }
}
