//! Counting what a schedule offers, whether it is used or not.

use cellpace_base::{Span, Time};

use super::Schedule;
use crate::OPPORTUNITY_BYTES;

/// The most bins that are counted.
const MAX_BINS: u64 = 1 << 24;

/// Bytes that `schedule` offers from its present position up to `end`, in bins of `bin`.
///
/// An opportunity ends the time it takes to send a packet, so it counts for the bin it ends:
/// bin `i` holds the opportunities after `i * bin` up to and including `(i + 1) * bin`, and the
/// first bin those at time zero too. The last bin ends at `end` and may be shorter. Bins after
/// the end of a finite schedule are zero. A bin of no length counts as one bin for all. There are
/// never more than 16 777 216 bins; later ones are left out.
pub fn capacity_bins(schedule: &mut dyn Schedule, bin: Span, end: Time) -> Vec<u64> {
    let (bin, end) = (bin.as_nanos(), end.as_nanos());
    let bin = if bin == 0 { end.max(1) } else { bin };
    let mut bins = vec![0; end.div_ceil(bin).min(MAX_BINS) as usize];
    while let Some(at) = schedule.peek().map(Time::as_nanos).filter(|at| *at <= end) {
        // Less one: an opportunity at the very end of a bin ends in it.
        let index = at.saturating_sub(1) / bin;
        let Some(bytes) = bins.get_mut(index as usize) else { break };
        *bytes += u64::from(OPPORTUNITY_BYTES);
        schedule.take();
    }
    bins
}

/// Bytes that `schedule` offers after `from`, up to and including `to`. Opportunities up to
/// `from` are let go.
pub fn capacity_between(schedule: &mut dyn Schedule, from: Time, to: Time) -> u64 {
    schedule.skip_through(from);
    let mut opportunities = 0;
    while schedule.peek().is_some_and(|at| at <= to) {
        opportunities += 1;
        schedule.take();
    }
    opportunities * u64::from(OPPORTUNITY_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TraceSpec;
    use crate::schedule::{Replay, Trace};
    use cellpace_base::Rate;
    use std::sync::Arc;

    fn schedule(text: &str) -> Box<dyn Schedule> {
        text.parse::<TraceSpec>().unwrap().build(1).unwrap()
    }

    struct Finite(Vec<u64>);

    impl Schedule for Finite {
        fn peek(&self) -> Option<Time> {
            self.0.first().copied().map(Time::from_millis)
        }

        fn take(&mut self) {
            self.0.remove(0);
        }
    }

    #[test]
    fn capacity_of_a_constant_rate_is_the_rate() {
        let (bin, end) = (Span::from_millis(100), Time::from_secs(10));
        assert_eq!(capacity_bins(&mut *schedule("constant:12mbit"), bin, end), vec![150_000; 100],);
        let from = Time::from_secs(2);
        assert_eq!(capacity_between(&mut *schedule("constant:12mbit"), from, end), 12_000_000);
    }

    #[test]
    fn capacity_of_steps_changes_with_them() {
        let bins = capacity_bins(
            &mut *schedule("step:12mbit/1s,24mbit/1s"),
            Span::from_secs(1),
            Time::from_millis(3_500),
        );
        assert_eq!(bins, [1_500_000, 3_000_000, 1_500_000, 1_500_000]);
    }

    #[test]
    fn capacity_of_a_lap_is_the_mean_rate_of_the_trace() {
        let trace = Arc::new(Trace::from_millis(vec![1, 1, 5, 8, 20]).unwrap());
        let end = Time::ZERO + trace.period();
        let bytes = capacity_between(&mut Replay::new(Arc::clone(&trace)), Time::ZERO, end);
        assert_eq!(Rate::from_bps(bytes * 8 * 1_000 / 20), trace.mean_rate());
    }

    #[test]
    fn finite_schedules_end_in_empty_bins() {
        let bin = Span::from_millis(10);
        let mut finite = Finite(vec![0, 10, 11, 95]);
        let bins = capacity_bins(&mut finite, bin, Time::from_millis(45));
        assert_eq!(bins, [3_000, 1_500, 0, 0, 0]);
        assert_eq!(finite.0, [95], "what is later stays");
        assert_eq!(capacity_bins(&mut Finite(vec![]), bin, Time::from_millis(20)), [0, 0]);
    }

    #[test]
    fn odd_bins_do_no_harm() {
        let mut twelve = schedule("constant:12mbit");
        assert_eq!(capacity_bins(&mut *twelve, Span::ZERO, Time::from_millis(3)), [4_500]);
        assert!(capacity_bins(&mut *twelve, Span::from_secs(1), Time::ZERO).is_empty());
        let bins = capacity_bins(&mut *twelve, Span::from_nanos(1), Time::from_secs(1));
        assert_eq!(bins.len() as u64, MAX_BINS);
    }
}
