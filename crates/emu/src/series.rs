//! One direction over time, in bins, while nobody knows how long the run will be.

use cellpace_base::statistics::nearest_rank;
use cellpace_base::{Span, Time};
use cellpace_measure::Series;

/// Width of a bin.
const BIN: Span = Span::from_millis(100);
/// Bins that are kept: the first hour.
const MAX_BINS: usize = 36_000;

/// Takes departures in the order of time.
#[derive(Debug, Default)]
pub(crate) struct SeriesBins {
    series: Series,
    bytes: u64,
    delays_us: Vec<u32>,
}

impl SeriesBins {
    /// A packet left at `at`.
    pub(crate) fn departure(&mut self, at: Time, bytes: u32, queue_delay: Span) {
        // A bin includes its end, as for the link's capacity.
        let bin = at.as_nanos().saturating_sub(1) / BIN.as_nanos();
        if !self.close_until(bin) {
            return;
        }
        self.bytes += u64::from(bytes);
        self.delays_us.push(u32::try_from(queue_delay.as_nanos() / 1_000).unwrap_or(u32::MAX));
    }

    /// The series up to `end`; what a link offered is not known here.
    pub(crate) fn finish(&self, end: Time) -> Series {
        let mut own = Self {
            series: self.series.clone(),
            bytes: self.bytes,
            delays_us: self.delays_us.clone(),
        };
        own.close_until(end.as_nanos().div_ceil(BIN.as_nanos()));
        Series { bin_s: BIN.as_secs_f64(), ..own.series }
    }

    /// Closes the bins in front of number `bin`. Returns whether that one is kept.
    fn close_until(&mut self, bin: u64) -> bool {
        let bin = usize::try_from(bin).unwrap_or(usize::MAX);
        while self.series.throughput_mbps.len() < bin.min(MAX_BINS) {
            let mbps = self.bytes as f64 * 8.0 / 1e6 / BIN.as_secs_f64();
            self.series.throughput_mbps.push(mbps as f32);
            for (values, level) in [
                (&mut self.series.queue_delay_p50_ms, 0.5),
                (&mut self.series.queue_delay_p95_ms, 0.95),
            ] {
                let delay = nearest_rank(&mut self.delays_us, level);
                values.push(delay.map_or(f32::NAN, |us| us as f32 / 1e3));
            }
            self.bytes = 0;
            self.delays_us.clear();
        }
        bin < MAX_BINS
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn departures_are_counted_in_their_bins() {
        let mut bins = SeriesBins::default();
        for (ms, delay) in [(0, 1), (50, 2), (100, 3), (101, 9), (350, 4)] {
            bins.departure(Time::from_millis(ms), 1250, Span::from_millis(delay));
        }
        let series = bins.finish(Time::from_millis(450));
        assert_eq!((series.bin_s, series.throughput_mbps), (0.1, vec![0.3, 0.1, 0.0, 0.1, 0.0]));
        assert_eq!(series.queue_delay_p50_ms[..2], [2.0, 9.0]);
        assert_eq!((series.queue_delay_p95_ms[0], series.queue_delay_p95_ms[3]), (3.0, 4.0));
        assert!(series.queue_delay_p50_ms[2].is_nan() && series.queue_delay_p50_ms.len() == 5);
    }

    #[test]
    fn only_the_first_hour_is_kept() {
        let mut bins = SeriesBins::default();
        for hours in 1..4 {
            bins.departure(Time::from_secs(3600 * hours + 1), 1250, Span::ZERO);
        }
        let series = bins.finish(Time::from_secs(1 << 20));
        assert_eq!(series.throughput_mbps.len(), MAX_BINS);
        assert!(bins.delays_us.is_empty());
    }
}
