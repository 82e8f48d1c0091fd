//! What fuzzers feed.

use std::sync::Arc;

use cellpace_base::{Random, Span, Time};

use crate::schedule::{CellReplay, LightTrains, Replay, Schedule, Trace, lint};
use crate::schedule::{read_delays, read_delays_every, read_losses};
use crate::{DelaySpec, ImpairSpec, LossSpec, TraceSpec};

/// Everything in this crate that reads bytes from outside, on the same bytes: as a trace, as a
/// table of delays, and as written forms, and a little use of whatever reads. Must return for
/// any input, without a panic and with memory in proportion to the input.
pub fn fuzz_inputs(bytes: &[u8]) {
    if let Ok(trace) = Trace::read("fuzz", bytes) {
        let _ = (lint(&trace), trace.mean_rate());
        exercise(&mut Replay::new(trace.into()));
    }
    if let Ok(delays) = read_delays("fuzz", bytes) {
        let mut delay = DelaySpec::from(delays).build(&mut Random::seeded(1, 1));
        let early = delay.arrival(Time::from_secs(1));
        assert!(delay.arrival(Time::MAX) >= early);
    }
    if let Ok(delays) = read_delays_every("fuzz", bytes, Span::from_millis(10)) {
        assert!(delays.mean() >= 0.0);
    }
    if let Ok(light) = LightTrains::read("fuzz", bytes) {
        let heavy = Arc::new(Trace::from_millis(vec![1]).expect("one is enough"));
        let gap = Span::from_millis(100);
        let mut schedule = Arc::new(CellReplay::of_trains(heavy, light, gap)).schedule();
        schedule.on_backlog(Time::ZERO, 1);
        exercise(&mut schedule);
    }
    if let Ok(losses) = read_losses("fuzz", bytes) {
        assert!((0.0..=1.0).contains(&losses.mean()));
    }
    let text = String::from_utf8_lossy(bytes);
    if let Ok(spec) = text.parse::<ImpairSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(mut schedule) = text.parse::<TraceSpec>().map(|spec| spec.build(1)) {
        schedule.iter_mut().for_each(|schedule| exercise(&mut **schedule));
    }
    if let Ok(spec) = text.parse::<DelaySpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec));
    }
    if let Ok(spec) = text.parse::<LossSpec>() {
        assert!((0.0..=1.0).contains(&spec.mean()));
        spec.build(Random::seeded(1, 2)).loses(Time::from_secs(1));
    }
}

fn exercise(schedule: &mut dyn Schedule) {
    let mut last = Time::ZERO;
    for micros in [0, 1, 999, 1_000_000, 3_600_000_000] {
        schedule.skip_through(Time::from_micros(micros));
        for _ in 0..3 {
            let Some(next) = schedule.peek() else { return };
            assert!(next >= last, "times do not decrease");
            last = next;
            schedule.take();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn corners_do_not_panic() {
        for text in [
            "",
            "\n",
            "\r",
            "\u{feff}1\n2\n",
            "0\n4294967295\n",
            "0 0\n4294967295 0\n",
            "0 1e308\n",
            "constant:0bit",
            "constant:18446744073709551615bit",
            "constant:1e18bit",
            "step:1bit/1ms",
            "step:1e18bit/1ms,1e18bit/1e9s",
            "random:0bit..1e18bit/1ms",
            "onoff:1gbit,on=1ms,off=1ms,lengths=exp",
            "onoff:1bit,on=18446744073s,off=1s",
            "step:0%/1ms",
            "random:1ns..500y/5s",
            "random:0ns..18446744073s/1ms",
            "ge:p=1%,r=1%",
            "reorder=100%/1ns,duplicate=100%,corrupt=99.9%",
            "reorder=1%//,corrupt==",
            "0 100%\n4294967295 0%\n",
            "::::",
            "step::/",
        ] {
            fuzz_inputs(text.as_bytes());
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            fuzz_inputs(&bytes);
        }

        #[test]
        fn nearly_right_texts_are_read_or_refused(
            text in "(constant:|step:|random:|onoff:|ge:|cellreplay:|file:|reorder=|corrupt=)?\
                     [0-9.]{1,9}(mbit|bit|ms|s|%|=)?([/,]|\\.\\.)?[0-9]{0,4}(mbit|ms|s|%)?\
                     (/[0-9]{1,4}(ms|s|h))?(,(on|off|p|r|heavy)=[0-9]{0,3}(ms|%)?)?",
        ) {
            fuzz_inputs(text.as_bytes());
        }

        #[test]
        fn nearly_right_tables_are_read_or_refused(
            text in "([0-9]{1,4}([ ,][0-9]{1,3}(\\.[0-9])?)?(\r?\n)){0,30}",
        ) {
            fuzz_inputs(text.as_bytes());
        }
    }
}
