//! A schedule from a later moment on.

use cellpace_base::{Span, Time};

use super::Schedule;

/// Plays a schedule as if the run had begun at a later moment of it.
pub(super) struct Shifted {
    whole: Box<dyn Schedule>,
    start: Span,
}

impl Shifted {
    /// `whole` with its opportunities up to and including `start` gone; `start` is time zero.
    pub(super) fn boxed(mut whole: Box<dyn Schedule>, start: Span) -> Box<dyn Schedule> {
        // An opportunity at time zero could serve nothing: no packet has come by then.
        whole.skip_through(Time::ZERO + start);
        Box::new(Self { whole, start })
    }
}

impl Schedule for Shifted {
    fn peek(&self) -> Option<Time> {
        self.whole.peek().map(|at| at - self.start)
    }

    fn take(&mut self) {
        self.whole.take();
    }

    fn skip_through(&mut self, now: Time) {
        self.whole.skip_through(now + self.start);
    }

    fn on_backlog(&mut self, now: Time, bytes: u64) {
        self.whole.on_backlog(now + self.start, bytes);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::TraceSpec;
    use crate::schedule::Trace;

    fn next(schedule: &mut dyn Schedule, count: usize) -> Vec<Time> {
        let take = |_| {
            let at = schedule.peek().expect("a trace repeats");
            schedule.take();
            at
        };
        (0..count).map(take).collect()
    }

    /// The file cut at an opportunity, the front part joined to the end.
    fn cut_and_joined(millis: &[u32], cut: u32) -> TraceSpec {
        let period = millis.last().copied().expect("a trace is never empty");
        let tail = millis.iter().filter(|at| **at > cut).map(|at| at - cut);
        let front = millis.iter().filter(|at| **at <= cut).map(|at| at + period - cut);
        let joined = Trace::from_millis(tail.chain(front).collect()).unwrap();
        TraceSpec::recorded("joined", Arc::new(joined))
    }

    #[test]
    fn g14_a_trace_from_a_millisecond_is_the_file_cut_and_joined_there() {
        let millis = vec![2, 2, 3, 7, 7, 7, 12, 20, 21];
        let trace =
            || TraceSpec::recorded("t", Arc::new(Trace::from_millis(millis.clone()).unwrap()));
        for cut in [2, 3, 7, 12, 20, 21] {
            let from = trace().starting_at(Span::from_millis(u64::from(cut)));
            let joined = cut_and_joined(&millis, cut);
            let (mut from, mut joined) = (from.build(1).unwrap(), joined.build(1).unwrap());
            assert_eq!(next(&mut *from, 9), next(&mut *joined, 9), "{cut}");
            for at in [30, 31, 47, 1_000_000] {
                let at = Time::from_millis(at);
                from.skip_through(at);
                joined.skip_through(at);
                assert_eq!(next(&mut *from, 3), next(&mut *joined, 3), "{cut}, {at:?}");
            }
        }
    }

    #[test]
    fn g14_generated_rates_begin_there_as_well() {
        let spec = |text: &str| text.parse::<TraceSpec>().unwrap();
        let half = spec("step:12mbit/1s,24mbit/1s").starting_at(Span::from_millis(1_500));
        let times = next(&mut *half.build(1).unwrap(), 1002);
        assert_eq!(times[..2], [Time::from_micros(500), Time::from_millis(1)]);
        assert_eq!(times[1001] - times[1000], Span::from_millis(1));
        let profile = spec("lte-driving").starting_at(Span::from_secs(100));
        let drawn = profile.drawn(3, Span::ZERO);
        assert_eq!(
            next(&mut *profile.build(3).unwrap(), 1000),
            next(&mut *drawn.build(3).unwrap(), 1000)
        );
        assert_eq!(drawn.to_string(), "lte-driving from 100s");
    }

    #[test]
    fn handovers_of_a_radio_layer_begin_with_the_trace() {
        let radio = |start: u64| {
            let spec: TraceSpec = "radio:highway-700".parse().unwrap();
            let spec = spec.starting_at(Span::from_secs(start));
            spec.drawn(2, Span::from_secs(400)).handovers(Time::from_secs(400))
        };
        let (whole, late) = (radio(0), radio(100));
        let shifted: Vec<_> =
            late.iter().map(|handover| handover.at + Span::from_secs(100)).collect();
        let begun = Time::from_secs(100);
        let mut expected = whole.iter().map(|handover| handover.at).filter(|at| *at >= begun);
        assert!(shifted.len() > 3);
        assert!(
            expected.by_ref().eq(shifted.iter().copied().filter(|at| *at < Time::from_secs(400)))
        );
    }
}
