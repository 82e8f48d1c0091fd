//! How far the rate moves along the gradient of the utility (NSDI'18 section 5).

use super::params::VivaceParams;

/// The run of steps in one direction.
#[derive(Debug, Clone)]
pub(super) struct GradientSteps {
    theta0: f64,
    omega0: f64,
    omega_step: f64,
    min_rate: f64,
    /// The direction of the last step; 0 before the first.
    sign: i8,
    /// Steps in this direction (tau), and how often the bound was hit (k).
    pub(super) run: u32,
    pub(super) bounds: u32,
}

impl GradientSteps {
    pub(super) fn new(params: &VivaceParams) -> Self {
        Self {
            theta0: params.theta0,
            omega0: params.omega0,
            omega_step: params.omega_step,
            min_rate: params.min_rate.as_mbps(),
            sign: 0,
            run: 0,
            bounds: 0,
        }
    }

    pub(super) fn forget(&mut self) {
        (self.sign, self.run, self.bounds) = (0, 0, 0);
    }

    /// Returns the rate after a step from `rate` along `gradient`, in Mbit/s and per Mbit/s.
    pub(super) fn step(&mut self, rate: f64, gradient: f64) -> f64 {
        let sign = if gradient > 0.0 { 1 } else { -i8::from(gradient < 0.0) };
        if sign != self.sign {
            self.forget();
        }
        self.sign = sign;
        self.run = self.run.saturating_add(1);
        let delta = self.theta0 * self.amplifier() * gradient;
        let bound = self.bound(self.bounds) * rate;
        if delta.abs() > bound {
            self.bounds += 1;
            return (rate + bound * f64::from(sign)).max(self.min_rate);
        }
        while self.bounds > 0 && delta.abs() <= self.bound(self.bounds - 1) * rate {
            self.bounds -= 1;
        }
        (rate + delta).max(self.min_rate)
    }

    /// m(tau): tau up to three, 2 tau - 3 beyond.
    fn amplifier(&self) -> f64 {
        let run = f64::from(self.run);
        if self.run <= 3 { run } else { 2.0 * run - 3.0 }
    }

    /// omega = omega0 + k delta
    fn bound(&self, bounds: u32) -> f64 {
        self.omega0 + f64::from(bounds) * self.omega_step
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::ParamSet;

    #[test]
    fn vivace_v3_steps() {
        let mut steps = GradientSteps::new(&VivaceParams::defaults());
        let mut rate = 10.0;
        for (gradient, expected, run, bounds) in [
            (0.3, 10.3, 1, 0),
            (0.3, 10.815, 2, 1),
            (0.3, 11.715, 3, 1),
            (0.3, 13.215, 4, 1),
            (0.3, 15.197_25, 5, 2),
            (0.3, 17.897_25, 6, 2),
            (-0.2, 17.697_25, 1, 0),
            (5.0, 18.582_113, 1, 1),
            (5.0, 21.369_429, 2, 2),
            (5.0, 26.711_787, 3, 3),
            (0.01, 26.761_787, 4, 0),
        ] {
            rate = steps.step(rate, gradient);
            assert!((rate - expected).abs() < 1e-6, "{gradient}: {rate}, not {expected}");
            assert_eq!((steps.run, steps.bounds), (run, bounds), "{gradient} to {expected}");
        }
    }

    #[test]
    fn vivace_v8_floor() {
        let mut steps = GradientSteps::new(&VivaceParams::defaults());
        assert_eq!(steps.step(0.52, -100.0), 0.5);
    }
}
