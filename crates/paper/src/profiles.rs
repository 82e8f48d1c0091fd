//! What a learnt delay profile is like, and how it follows the channel.

use cellpace_base::statistics::quantile;
use cellpace_base::{Span, Time};
use cellpace_sim::{FlowView, Observer, Outcome};
use serde_json::{Value, json};

use crate::statistics::spearman;

/// Looks at the profile of the first flow every second.
#[derive(Debug, Default)]
pub(crate) struct ProfileWatch {
    /// When, and the delay of the window that is followed, in ms.
    delays: Vec<(f64, f64)>,
    points: Vec<(f64, f64)>,
    curve: Vec<(f64, f64)>,
}

/// The window whose delay is followed, in packets: one that a flow has in good and bad times. The
/// slope at the end of the curve would not do, since points of large windows exist from good times
/// only.
const WINDOW: f64 = 40.0;

/// The time before a look over which the channel's rate is taken, in seconds.
const BEFORE_S: f64 = 5.0;

impl Observer for ProfileWatch {
    fn interval(&self) -> Option<Span> {
        Some(Span::from_secs(1))
    }

    fn on_interval(&mut self, at: Time, flow: FlowView<'_>) {
        if flow.flow() != 0 {
            return;
        }
        let Some(profile) = flow.controller().profile() else { return };
        self.delays.extend(value_at(&profile.curve, WINDOW).map(|delay| (at.as_secs_f64(), delay)));
        (self.points, self.curve) = (profile.points, profile.curve);
    }
}

impl ProfileWatch {
    /// The figures: of the last profile the rank correlation of window and delay of its points, the
    /// least step of its curve, and the median distance of points from it in proportion; of all the
    /// rank correlation of the delay of 40 packets with the channel's rate of the five seconds
    /// before.
    pub(crate) fn figures(&self, outcome: &Outcome) -> Value {
        let (windows, delays): (Vec<f64>, Vec<f64>) = self.points.iter().copied().unzip();
        let steps = self.curve.windows(2).map(|pair| pair[1].1 - pair[0].1);
        let distance = |(window, delay): &(f64, f64)| {
            value_at(&self.curve, *window).map(|curve| (curve - delay).abs() / delay)
        };
        let mut distances: Vec<f64> = self.points.iter().filter_map(distance).collect();
        distances.sort_by(f64::total_cmp);
        let median = if distances.is_empty() { f64::NAN } else { quantile(&distances, 0.5) };
        let series = &outcome.series;
        let rate_before = |at: f64| {
            let bin = |at: f64| ((at / series.bin_s) as usize).min(series.capacity_mbps.len());
            let bins = &series.capacity_mbps[bin(at - BEFORE_S)..bin(at)];
            bins.iter().map(|rate| f64::from(*rate)).sum::<f64>() / bins.len() as f64
        };
        let after = self.delays.iter().filter(|(at, _)| *at > BEFORE_S);
        let (rates, followed): (Vec<f64>, Vec<f64>) =
            after.map(|(at, delay)| (rate_before(*at), *delay)).unzip();
        json!({
            "correlation": spearman(&windows, &delays),
            "least_step_ms": steps.fold(f64::INFINITY, f64::min),
            "distance": median,
            "follows_rate": spearman(&rates, &followed),
        })
    }
}

/// The curve at a window, by straight lines; `None` beyond its ends.
fn value_at(curve: &[(f64, f64)], window: f64) -> Option<f64> {
    let right = curve.iter().position(|(at, _)| *at >= window)?;
    let (x1, y1) = curve[right];
    if x1 == window {
        return Some(y1);
    }
    let (x0, y0) = *curve.get(right.checked_sub(1)?)?;
    Some(y0 + (y1 - y0) * (window - x0) / (x1 - x0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn curves_are_read_between_their_points_and_not_beyond() {
        let curve = [(10.0, 20.0), (30.0, 40.0), (50.0, 100.0)];
        let read = |window| value_at(&curve, window);
        assert_eq!((read(10.0), read(40.0), read(50.0)), (Some(20.0), Some(70.0), Some(100.0)));
        assert_eq!((read(9.0), read(51.0), value_at(&[], 1.0)), (None, None, None));
    }
}
