//! The offset of two clocks, from packets in both directions.

use cellpace_base::{Span, Time};

use crate::recording::{DirectionRecording, Recording};

/// A straight line over time.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockLine {
    /// Its value at the origin of time.
    pub at_zero: f64,
    /// Its rise per second.
    pub slope: f64,
}

impl ClockLine {
    /// Its value `seconds` after the origin.
    pub fn at(&self, seconds: f64) -> f64 {
        self.at_zero + self.slope * seconds
    }
}

/// The line that lies below all points, at least as the mean of their distances counts: an edge of
/// the lower convex hull, the one at the mean of their times. Points are `(seconds, value)` in the
/// order of time. `None` for less than two different times.
///
/// Delays have a floor and no ceiling, so the floor's slope is that of the clocks, whatever queues
/// do in between.
pub fn lower_line(points: &[(f64, f64)]) -> Option<ClockLine> {
    let mut hull: Vec<(f64, f64)> = Vec::new();
    for point in points {
        while let [.., a, b] = hull[..] {
            let turn = (b.0 - a.0) * (point.1 - a.1) - (b.1 - a.1) * (point.0 - a.0);
            if turn > 0.0 {
                break;
            }
            hull.pop();
        }
        match hull.last_mut() {
            Some(last) if last.0 == point.0 => last.1 = last.1.min(point.1),
            _ => hull.push(*point),
        }
    }
    let mean = points.iter().map(|point| point.0).sum::<f64>() / points.len().max(1) as f64;
    let after = hull.partition_point(|point| point.0 < mean).clamp(1, hull.len().max(2) - 1);
    let (a, b) = (hull.get(after - 1)?, hull.get(after)?);
    let slope = (b.1 - a.1) / (b.0 - a.0);
    Some(ClockLine { at_zero: a.1 - slope * a.0, slope })
}

/// How far the responder's clock is ahead of the prober's.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ClockOffset {
    /// In nanoseconds, over the seconds of the prober's clock.
    pub offset: ClockLine,
    /// The least delay there and back in ms, after the offset is taken out of both.
    pub least_rtt_ms: f64,
    /// Whether the drift was measured; otherwise the slope is zero.
    pub has_drift: bool,
}

/// Drift is not measured in shorter recordings, in which the noise is larger than it.
const MIN_SECONDS_FOR_DRIFT: f64 = 10.0;

/// Crystals are better than this, in nanoseconds per second (200 ppm).
const MAX_DRIFT: f64 = 200e3;

/// The floors of both directions may rise or fall together by this much: 20 ppm.
const MAX_COMMON_DRIFT: f64 = 20e3;

/// Points nearer together than this are one, the lowest of them.
const BUCKET: Span = Span::from_millis(100);

impl ClockOffset {
    /// Compares the clocks of a recording, under the assumption that the shortest way there takes
    /// as long as the shortest way back. `None` if nothing came one way.
    pub fn of(recording: &Recording) -> Option<Self> {
        // Both are sorted by the prober's clock.
        let up = points(&recording.up, |sent_at, _| sent_at);
        let down = points(&recording.down, |_, received_at| received_at);
        Self::between(&up, &down)
    }

    fn between(up: &[(f64, f64)], down: &[(f64, f64)]) -> Option<Self> {
        let least = |points: &[(f64, f64)]| points.iter().map(|p| p.1).reduce(f64::min);
        let constant = |points| least(points).map(|at_zero| ClockLine { at_zero, slope: 0.0 });
        let lines = lower_line(up).zip(lower_line(down)).filter(|(up_line, down_line)| {
            let lasts = |points: &[(f64, f64)]| points[points.len() - 1].0 - points[0].0;
            lasts(up).min(lasts(down)) >= MIN_SECONDS_FOR_DRIFT
                && up_line.slope.abs().max(down_line.slope.abs()) <= MAX_DRIFT
                && (up_line.slope + down_line.slope).abs() <= MAX_COMMON_DRIFT
        });
        let has_drift = lines.is_some();
        let (there, back) = lines.or_else(|| constant(up).zip(constant(down)))?;
        // There: delay + offset. Back: delay - offset.
        let half = |a: f64, b: f64| (a - b) / 2.0;
        let offset = ClockLine {
            at_zero: half(there.at_zero, back.at_zero),
            slope: half(there.slope, back.slope),
        };
        let middle = up[up.len() / 2].0;
        let least_rtt_ms = (there.at(middle) + back.at(middle)) / 1e6;
        Some(Self { offset, least_rtt_ms, has_drift })
    }

    /// The drift in parts per million.
    pub fn drift_ppm(&self) -> f64 {
        self.offset.slope / 1e3
    }
}

/// The lowest raw delay of each bucket: seconds of the prober's clock, nanoseconds.
fn points(way: &DirectionRecording, time: impl Fn(Time, Time) -> Time) -> Vec<(f64, f64)> {
    let probes = way.arrivals.iter();
    let probes = probes.map(|a| (time(a.sent_at, a.received_at), a.raw_delay()));
    let mut all: Vec<(Time, i64)> = probes.chain(way.clock.iter().copied()).collect();
    all.sort_unstable();
    let bucket = |at: Time| at.as_nanos() / BUCKET.as_nanos();
    let buckets = all.chunk_by(|a, b| bucket(a.0) == bucket(b.0));
    let lowest = buckets.filter_map(|bucket| bucket.iter().min_by_key(|(_, raw)| *raw));
    lowest.map(|(at, raw)| (at.as_secs_f64(), *raw as f64)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Points above the line `floor`, every 0.1 s for `seconds`, each third on it.
    fn above(floor: ClockLine, seconds: u32) -> Vec<(f64, f64)> {
        (0..seconds * 10)
            .map(|index| {
                let at = f64::from(index) / 10.0;
                let queue = f64::from(index % 3) * 7e6 + f64::from(index / 50 % 4) * 1e5;
                (at, floor.at(at) + if index % 3 == 0 { 0.0 } else { queue })
            })
            .collect()
    }

    #[test]
    fn the_lower_line_is_the_floor() {
        let floor = ClockLine { at_zero: 20e6, slope: -3e3 };
        let line = lower_line(&above(floor, 60)).unwrap();
        assert!((line.slope - floor.slope).abs() < 1e-3, "{line:?}");
        assert!((line.at_zero - floor.at_zero).abs() < 1.0, "{line:?}");
    }

    #[test]
    fn the_lower_line_of_known_points() {
        // The hull is (0,1) (4,0) (6,2); the mean time is 2.8.
        let points = [(0.0, 1.0), (1.0, 3.0), (3.0, 2.0), (4.0, 0.0), (6.0, 2.0)];
        assert_eq!(lower_line(&points), Some(ClockLine { at_zero: 1.0, slope: -0.25 }));
        assert_eq!(lower_line(&points[..1]), None);
        assert_eq!(lower_line(&[(1.0, 5.0), (1.0, 3.0)]), None);
        assert_eq!(lower_line(&[]), None);
    }

    #[test]
    fn the_offset_is_half_the_difference_of_the_least_delays() {
        // 30 ms each way, the responder's clock 1 s ahead, both queues at times longer.
        let up = above(ClockLine { at_zero: 1_030e6, slope: 0.0 }, 2);
        let down = above(ClockLine { at_zero: -970e6, slope: 0.0 }, 2);
        let clock = ClockOffset::between(&up, &down).unwrap();
        assert_eq!((clock.offset.at_zero, clock.least_rtt_ms), (1e9, 60.0));
        assert!(!clock.has_drift, "two seconds are too short");
    }

    #[test]
    fn drift_is_measured_where_both_directions_agree_about_it() {
        let up = above(ClockLine { at_zero: 1_030e6, slope: 40e3 }, 60);
        let down = above(ClockLine { at_zero: -970e6, slope: -40e3 }, 60);
        let clock = ClockOffset::between(&up, &down).unwrap();
        assert!(clock.has_drift && (clock.drift_ppm() - 40.0).abs() < 0.01, "{clock:?}");
        assert!((clock.offset.at(30.0) - 1_001.2e6).abs() < 1e3, "{clock:?}");
        // A floor that rises both ways is a longer path and not a clock.
        let down = above(ClockLine { at_zero: -970e6, slope: 40e3 }, 60);
        assert!(!ClockOffset::between(&up, &down).unwrap().has_drift);
    }

    #[test]
    fn a_way_without_packets_tells_no_offset() {
        let up = above(ClockLine { at_zero: 0.0, slope: 0.0 }, 1);
        assert_eq!(ClockOffset::between(&up, &[]), None);
    }
}
