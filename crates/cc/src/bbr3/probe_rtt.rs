//! ProbeRTT: a flight of half a bandwidth-delay product for 200 ms, so that the base RTT shows.

use crate::{Span, Time};

/// How far it is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bbr3RttProbe {
    /// Set once the flight is low.
    done_at: Option<Time>,
    round_done: bool,
    /// The rate of the round in which it began, where that bounds the flight.
    pub(super) bandwidth: Option<f64>,
}

/// What an ack changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bbr3RttProbeStep {
    Same,
    /// The flight is low: a round begins that must pass in this state.
    FlightIsLow,
    Over,
}

impl Bbr3RttProbe {
    /// A probe that begins, with the flight bounded by `bandwidth`, if any.
    pub(super) fn new(bandwidth: Option<f64>) -> Self {
        Self { bandwidth, ..Self::default() }
    }

    /// An ack after which the flight is `low` or not, and which began a round or not.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        low: bool,
        round_started: bool,
        time: Span,
    ) -> Bbr3RttProbeStep {
        if self.done_at.is_none() {
            if !low {
                return Bbr3RttProbeStep::Same;
            }
            self.done_at = Some(now + time);
            return Bbr3RttProbeStep::FlightIsLow;
        }
        self.round_done |= round_started;
        if self.round_done && self.is_past(now) {
            Bbr3RttProbeStep::Over
        } else {
            Bbr3RttProbeStep::Same
        }
    }

    /// Whether the flight has been low for long enough.
    pub(super) fn is_past(&self, now: Time) -> bool {
        self.done_at.is_some_and(|done_at| now > done_at)
    }
}

/// The base RTT: the smallest of about the last two intervals between probes.
#[derive(Debug, Clone, Copy)]
pub(super) struct MinRtt {
    /// [`Span::MAX`] before the first sample.
    pub(super) min: Span,
    min_at: Time,
    /// The smallest since the last probe.
    probed: Span,
    probed_at: Time,
}

impl MinRtt {
    /// Nothing known yet.
    pub(super) fn new(now: Time) -> Self {
        Self { min: Span::MAX, min_at: now, probed: Span::MAX, probed_at: now }
    }

    /// Takes a sample. Returns whether the last minimum is older than `interval`: time to probe.
    pub(super) fn on_sample(&mut self, now: Time, rtt: Span, interval: Span, window: Span) -> bool {
        let expired = now > self.probed_at + interval;
        if rtt < self.probed || expired {
            (self.probed, self.probed_at) = (rtt, now);
        }
        if self.probed < self.min || now > self.min_at + window {
            (self.min, self.min_at) = (self.probed, self.probed_at);
        }
        expired
    }

    /// A probe is over: the next one is due an interval from now.
    pub(super) fn end_probe(&mut self, now: Time) {
        self.probed_at = now;
    }

    /// The base RTT, if one is known.
    pub(super) fn known(&self) -> Option<Span> {
        (self.min != Span::MAX).then_some(self.min)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    #[test]
    fn bbr3_b14_min_rtt_clocks() {
        let at = |ms| Time::from_millis(ms);
        let mut rtt = MinRtt::new(at(0));
        rtt.on_sample(at(10_000), ms(41), ms(5000), ms(10_000));
        let mut seen = Vec::new();
        for (now, sample) in [(14_900, 50), (15_000, 48), (15_010, 47), (15_100, 52), (20_100, 55)]
        {
            let expired = rtt.on_sample(at(now), ms(sample), ms(5000), ms(10_000));
            seen.push((expired, rtt.probed, rtt.min));
        }
        let expected = [
            (false, ms(41), ms(41)),
            (false, ms(41), ms(41)),
            (true, ms(47), ms(41)),
            (false, ms(47), ms(41)),
            (true, ms(55), ms(55)),
        ];
        assert_eq!(seen, expected);
    }

    #[test]
    fn a_probe_lasts_its_time_and_a_round() {
        let at = |ms| Time::from_millis(ms);
        let mut probe = Bbr3RttProbe::default();
        assert_eq!(probe.on_ack(at(0), false, true, ms(200)), Bbr3RttProbeStep::Same);
        assert_eq!(probe.on_ack(at(10), true, false, ms(200)), Bbr3RttProbeStep::FlightIsLow);
        assert_eq!(probe.on_ack(at(300), true, false, ms(200)), Bbr3RttProbeStep::Same, "no round");
        assert_eq!(probe.on_ack(at(301), true, true, ms(200)), Bbr3RttProbeStep::Over);
        let mut probe = Bbr3RttProbe::default();
        probe.on_ack(at(10), true, false, ms(200));
        assert_eq!(probe.on_ack(at(50), true, true, ms(200)), Bbr3RttProbeStep::Same);
        assert_eq!(
            probe.on_ack(at(210), true, false, ms(200)),
            Bbr3RttProbeStep::Same,
            "not at it"
        );
        assert_eq!(probe.on_ack(at(211), true, false, ms(200)), Bbr3RttProbeStep::Over);
    }
}
