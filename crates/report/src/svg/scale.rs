//! Where a value lies on an axis and where its ticks are.

/// An axis from one value to another, linear or logarithmic.
#[derive(Debug, Clone, Copy)]
pub(super) struct AxisScale {
    from: f64,
    to: f64,
    is_log: bool,
    is_inverted: bool,
}

impl AxisScale {
    /// A linear axis. Ends that are no interval become one.
    pub(super) fn linear(from: f64, to: f64) -> Self {
        let is_interval = from.is_finite() && to.is_finite() && to > from;
        let (from, to) = if is_interval { (from, to) } else { (0.0, 1.0) };
        Self { from, to, is_log: false, is_inverted: false }
    }

    /// A logarithmic axis that holds `low..=high` with a factor `margin` at either end, over a
    /// decade at least.
    pub(super) fn log_around(low: f64, high: f64, margin: f64) -> Self {
        let (mut from, mut to) =
            if low > 0.0 && high >= low { (low / margin, high * margin) } else { (1.0, 100.0) };
        if to / from < 10.0 {
            let middle = (from * to).sqrt();
            (from, to) = (middle / 10f64.sqrt(), middle * 10f64.sqrt());
        }
        Self { from, to, is_log: true, is_inverted: false }
    }

    /// The same with its larger end first.
    pub(super) fn inverted(self) -> Self {
        Self { is_inverted: !self.is_inverted, ..self }
    }

    /// The share of the axis before `value`; outside 0..=1 when it lies outside.
    pub(super) fn share(&self, value: f64) -> f64 {
        let share = if self.is_log {
            (value / self.from).ln() / (self.to / self.from).ln()
        } else {
            (value - self.from) / (self.to - self.from)
        };
        if self.is_inverted { 1.0 - share } else { share }
    }

    /// Round values on the axis, about `most` of them.
    pub(super) fn ticks(&self, most: usize) -> Vec<f64> {
        if self.is_log { self.log_ticks(most) } else { self.linear_ticks(most) }
    }

    fn linear_ticks(&self, most: usize) -> Vec<f64> {
        let rough = (self.to - self.from) / most.max(1) as f64;
        let decade = 10f64.powi(rough.log10().floor() as i32);
        let factor = [1.0, 2.0, 5.0].into_iter().find(|f| f * decade >= rough).unwrap_or(10.0);
        let step = factor * decade;
        let first = (self.from / step - 1e-9).ceil() as i64;
        let last = (self.to / step + 1e-9).floor() as i64;
        (first..=last).map(|i| i as f64 * step).collect()
    }

    fn log_ticks(&self, most: usize) -> Vec<f64> {
        let decades = self.from.log10().floor() as i32..=self.to.log10().ceil() as i32;
        let within = |steps: &[f64]| -> Vec<f64> {
            let values = decades.clone().flat_map(|d| steps.iter().map(move |s| s * 10f64.powi(d)));
            values.filter(|value| (self.from..=self.to).contains(value)).collect()
        };
        let choices = [[1.0, 2.0, 5.0].as_slice(), &[1.0, 3.0], &[1.0]];
        let fitting = choices.iter().map(|steps| within(steps)).find(|ticks| ticks.len() <= most);
        fitting.unwrap_or_else(|| within(&[1.0]))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linear_ticks_are_round() {
        assert_eq!(AxisScale::linear(0.0, 10.6).ticks(6), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(AxisScale::linear(7.3, 10.1).ticks(4), [8.0, 9.0, 10.0]);
        assert_eq!(AxisScale::linear(3.0, 3.0).ticks(2), [0.0, 0.5, 1.0], "no interval");
        assert_eq!(AxisScale::linear(0.0, f64::NAN).share(0.5), 0.5);
    }

    #[test]
    fn log_ticks_thin_out() {
        let scale = AxisScale::log_around(2.0, 400.0, 1.0);
        let ticks = |most| scale.ticks(most).iter().map(|t| t.round() as u64).collect::<Vec<_>>();
        assert_eq!(ticks(8), [2, 5, 10, 20, 50, 100, 200]);
        assert_eq!(ticks(5), [3, 10, 30, 100, 300]);
        assert_eq!(ticks(2), [10, 100]);
    }

    #[test]
    fn an_inverted_axis_runs_the_other_way() {
        let scale = AxisScale::log_around(1.0, 100.0, 1.0);
        assert!((scale.share(10.0) - 0.5).abs() < 1e-12);
        assert!((scale.inverted().share(1.0) - 1.0).abs() < 1e-12);
        assert!(AxisScale::log_around(f64::INFINITY, 0.0, 2.0).share(10.0).is_finite());
    }
}
