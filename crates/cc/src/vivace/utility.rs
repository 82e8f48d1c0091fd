//! What a rate is worth (NSDI'18 section 4).

use cellpace_base::math::pow;

use super::params::{Flavour, VivaceParams};

/// The utility function.
#[derive(Debug, Clone, Copy)]
pub(super) struct Utility {
    exponent: f64,
    latency_weight: f64,
    loss_weight: f64,
    gradient_floor: f64,
}

impl Utility {
    pub(super) fn new(params: &VivaceParams) -> Self {
        Self {
            exponent: params.exponent,
            latency_weight: match params.flavour {
                Flavour::Latency => params.latency_weight,
                Flavour::Loss => 0.0,
            },
            loss_weight: params.loss_weight,
            gradient_floor: params.gradient_floor,
        }
    }

    /// U(x) = x^0.9 - 900 x dRTT/dt - 11.35 x L: `rate` in Mbit/s, `gradient` in s/s, `loss` a share.
    pub(super) fn of(&self, rate: f64, gradient: f64, loss: f64) -> f64 {
        let gradient = if gradient.abs() < self.gradient_floor { 0.0 } else { gradient };
        pow(rate, self.exponent)
            - self.latency_weight * rate * gradient
            - self.loss_weight * rate * loss
    }
}

/// The slope of a line through points by least squares, which keeps no point. Moments are taken about
/// the running mean, so that long intervals of small slopes are exact.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Slope {
    count: f64,
    mean_x: f64,
    mean_y: f64,
    /// Sums of (x - mean)^2 and (x - mean) (y - mean).
    xx: f64,
    xy: f64,
}

impl Slope {
    pub(super) fn add(&mut self, x: f64, y: f64) {
        self.count += 1.0;
        let dx = x - self.mean_x;
        self.mean_x += dx / self.count;
        self.mean_y += (y - self.mean_y) / self.count;
        self.xx += dx * (x - self.mean_x);
        self.xy += dx * (y - self.mean_y);
    }

    /// Zero for fewer than two points, and for points of one x.
    pub(super) fn value(&self) -> f64 {
        if self.xx > 0.0 { self.xy / self.xx } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::ParamSet;

    fn utility(rest: &str) -> Utility {
        Utility::new(&VivaceParams::parse("vivace", rest).unwrap())
    }

    #[test]
    fn vivace_v1_utility() {
        let utility = utility("");
        for (rate, gradient, loss, expected) in [
            (1.0, 0.0, 0.0, 1.0),
            (10.0, 0.0, 0.0, 7.943_282),
            (12.0, 0.0, 0.0, 9.359_726),
            (10.0, 0.01, 0.0, -82.056_718),
            (10.0, -0.01, 0.0, 97.943_282),
            (10.0, 0.0, 0.01, 6.808_282),
            (10.0, 0.0, 0.05, 2.268_282),
            (12.0, 0.05, 0.02, -533.364_274),
            (100.0, 0.0, 0.05, 6.345_734),
        ] {
            let seen = utility.of(rate, gradient, loss);
            assert!((seen - expected).abs() < 1e-6, "U({rate}, {gradient}, {loss}) = {seen}");
        }
    }

    #[test]
    fn vivace_utility_of_loss_alone_does_not_see_delay() {
        let utility = utility("flavour=loss");
        assert_eq!(utility.of(10.0, 0.5, 0.01), utility.of(10.0, 0.0, 0.01));
    }

    #[test]
    fn vivace_v2_slope() {
        let slope = |ys: &[f64]| {
            let mut slope = Slope::default();
            for (index, ms) in ys.iter().enumerate() {
                slope.add(0.01 * index as f64, ms / 1e3);
            }
            slope.value()
        };
        assert!((slope(&[40.0, 41.0, 42.0, 43.0, 44.0]) - 0.1).abs() < 1e-12);
        assert!(slope(&[40.0; 5]).abs() < 1e-12);
        assert!(slope(&[40.0, 50.0, 40.0, 50.0, 40.0]).abs() < 1e-12);
        assert_eq!(slope(&[40.0]), 0.0);
        assert_eq!(slope(&[]), 0.0);
        let utility = utility("");
        assert_eq!(utility.of(10.0, 0.0099, 0.0), utility.of(10.0, 0.0, 0.0));
        assert_eq!(utility.of(10.0, -0.0099, 0.0), utility.of(10.0, 0.0, 0.0));
    }

    /// Where dU/dx = 0.
    #[test]
    fn vivace_v7_indifference() {
        let utility = utility("gradient_floor=0");
        let slope = |rate: f64, gradient: f64, loss: f64| {
            let step = 1e-6 * rate;
            (utility.of(rate + step, gradient, loss) - utility.of(rate - step, gradient, loss))
                / (2.0 * step)
        };
        for (rate, loss, gradient) in
            [(1.0, 0.0793, 0.001), (12.0, 0.0618, 0.000_78), (100.0, 0.05, 0.000_63)]
        {
            assert!(slope(rate, 0.0, 0.99 * loss) > 0.0 && slope(rate, 0.0, 1.01 * loss) < 0.0);
            assert!(
                slope(rate, 0.98 * gradient, 0.0) > 0.0 && slope(rate, 1.02 * gradient, 0.0) < 0.0
            );
        }
    }
}
