//! A flow over time, in a bounded number of bins.

use cellpace_base::{Span, Time};
use serde::Serialize;

/// The length of a bin at first.
pub(super) const BIN: Span = Span::from_millis(100);

/// Bins of one flow at most: the first two minutes are kept in full. Beyond that, bins are joined
/// two by two.
const MAX_BINS: usize = 1_200;

/// Bins of all flows of a document at most.
const MAX_BINS_IN_ALL: usize = 24_000;

/// A flow over time. All lists are of one length; `null` stands where there was no sample.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct TransferSeries {
    /// The end of each bin, in seconds from the flow's beginning.
    pub time_s: Vec<f64>,
    /// Rate of the packets that arrived, IP headers included, in Mbit/s.
    pub throughput_mbps: Vec<f64>,
    /// Packets lost; not at a receiver over QUIC.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<u64>,
    /// Mean RTT in ms; only at a sender.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub rtt_ms: Vec<Option<f64>>,
    /// Congestion window in bytes at the end of the bin; only at a sender.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cwnd: Vec<Option<u64>>,
}

/// What is known of a flow at the end of a bin: sums from the flow's beginning.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct SeriesPoint {
    pub(super) at: Time,
    /// IP bytes that arrived.
    pub(super) ip_bytes: u64,
    pub(super) lost: Option<u64>,
    /// Sum and number of the RTT samples.
    pub(super) rtt: (Span, u64),
    pub(super) cwnd: Option<u64>,
}

/// Collects the points of a flow.
#[derive(Debug, Default)]
pub(super) struct SeriesRecorder {
    began: Time,
    /// Bins that make up one point.
    merge: usize,
    /// Bins since the last point.
    pending: usize,
    points: Vec<SeriesPoint>,
}

impl SeriesRecorder {
    pub(super) fn new(began: Time) -> Self {
        Self { began, merge: 1, ..Self::default() }
    }

    /// Ends a bin.
    pub(super) fn push(&mut self, point: SeriesPoint) {
        self.pending += 1;
        if self.pending < self.merge {
            return;
        }
        self.pending = 0;
        self.points.push(point);
        // Joined in place of dropped: a long flow keeps its whole course, only coarser.
        if self.points.len() >= MAX_BINS {
            self.points = every_second(&self.points);
            self.merge *= 2;
        }
    }

    /// The series of one of `flows` flows, which ends with `last`.
    pub(super) fn series(
        &self,
        last: SeriesPoint,
        flows: usize,
        is_sender: bool,
    ) -> TransferSeries {
        let mut points = self.points.clone();
        if points.last().map_or(self.began, |point| point.at) < last.at {
            points.push(last);
        }
        // A document of a thousand flows must not be a thousand times as large.
        // Two points at least, since a line needs a beginning and an end.
        while points.len() * flows > MAX_BINS_IN_ALL && points.len() > 2 {
            points = every_second(&points);
        }
        let mut series = TransferSeries::default();
        let mut before = SeriesPoint { at: self.began, ..SeriesPoint::default() };
        for point in points {
            series.add(self.began, &before, &point, is_sender);
            before = point;
        }
        series
    }
}

/// Joins points two by two: the sums of the second of each hold for both.
fn every_second(points: &[SeriesPoint]) -> Vec<SeriesPoint> {
    let pairs = points.chunks(2).filter_map(<[SeriesPoint]>::last);
    pairs.copied().collect()
}

impl TransferSeries {
    fn add(&mut self, began: Time, before: &SeriesPoint, point: &SeriesPoint, is_sender: bool) {
        let seconds = (point.at - before.at).as_secs_f64();
        // Points are sums from the beginning, so that joined bins need no adding up.
        let bits = point.ip_bytes.saturating_sub(before.ip_bytes) as f64 * 8.0;
        self.time_s.push(round((point.at - began).as_secs_f64()));
        self.throughput_mbps.push(if seconds > 0.0 { round(bits / 1e6 / seconds) } else { 0.0 });
        if let Some(lost) = point.lost {
            self.lost.push(lost.saturating_sub(before.lost.unwrap_or(0)));
        }
        if !is_sender {
            return;
        }
        let (sum, count) = (point.rtt.0 - before.rtt.0, point.rtt.1 - before.rtt.1);
        self.rtt_ms.push((count > 0).then(|| round((sum / count).as_millis_f64())));
        self.cwnd.push(point.cwnd);
    }
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A flow of 1 Mbit/s whose RTT is 40 ms, `bins` long.
    fn recorder(bins: u64) -> (SeriesRecorder, SeriesPoint) {
        let began = Time::from_secs(5);
        let mut recorder = SeriesRecorder::new(began);
        let point = |bin: u64| SeriesPoint {
            at: began + BIN * bin,
            ip_bytes: 12_500 * bin,
            lost: Some(bin),
            rtt: (Span::from_millis(40) * bin, bin),
            cwnd: Some(3_000),
        };
        (1..=bins).for_each(|bin| recorder.push(point(bin)));
        (recorder, point(bins))
    }

    #[test]
    fn a_short_flow_keeps_every_bin() {
        let (recorder, last) = recorder(30);
        let series = recorder.series(last, 1, true);
        assert_eq!((series.time_s.len(), series.time_s[0], series.time_s[29]), (30, 0.1, 3.0));
        assert!(series.throughput_mbps.iter().all(|rate| *rate == 1.0));
        assert!(series.rtt_ms.iter().all(|rtt| *rtt == Some(40.0)));
        assert_eq!((series.lost[7], series.cwnd[7]), (1, Some(3_000)));
        assert!(recorder.series(last, 1, false).rtt_ms.is_empty());
    }

    #[test]
    fn a_day_and_many_flows_stay_bounded_and_lose_nothing() {
        for (bins, flows) in [(864_000, 1), (864_001, 1), (1_199, 1_000), (100_000, 100)] {
            let (recorder, last) = recorder(bins);
            let series = recorder.series(last, flows, true);
            let count = series.time_s.len();
            assert!(count <= MAX_BINS && count * flows <= MAX_BINS_IN_ALL, "{count} of {flows}");
            assert!(count * flows * 4 > MAX_BINS_IN_ALL.min(MAX_BINS * flows), "{count}");
            assert!(series.throughput_mbps.iter().all(|rate| *rate == 1.0));
            assert_eq!(series.lost.iter().sum::<u64>(), bins);
            assert_eq!(series.time_s[count - 1], bins as f64 / 10.0);
        }
    }

    #[test]
    fn a_flow_without_a_packet_has_an_empty_series() {
        let recorder = SeriesRecorder::new(Time::ZERO);
        assert_eq!(recorder.series(SeriesPoint::default(), 1, true), TransferSeries::default());
    }
}
