//! Handovers: the path is interrupted, and is another one afterwards.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use cellpace_base::{Random, Span, SpanDistribution, Time, parse_span};

use crate::Schedule;
use crate::error::PathError;

/// A change of the path, as between two cells or two networks. Written
/// `30s/200ms/80ms/lost`: when, then, each only if wanted, how long nothing is delivered, the new
/// RTT, and what becomes of the queue.
///
/// From [`at`](Self::at) on, the link delivers nothing and its opportunities are gone; what arrives
/// in front of it waits. [`length`](Self::length) later, the path is the new one: its RTT counts for packets that
/// are sent from then on (those in front of the queue keep theirs, and are not overtaken), and
/// what waits has come along, or is lost. That is also when it is reported to controllers, unless
/// it is a handover of a [radio layer](crate::radio), of which real senders learn nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Handover {
    /// When the old path stops to deliver.
    pub at: Time,
    /// How long the interruption lasts. May be zero.
    pub length: Span,
    /// Round-trip delay without queueing of the new path, half of it in each direction; `None`:
    /// that of the old one.
    pub rtt: Option<Span>,
    /// Whether what waits at the end of the interruption is dropped in place of being forwarded.
    pub queue_lost: bool,
    /// Whether controllers are told when it is over.
    pub signal: bool,
}

impl Handover {
    /// The interruption where none is given: that of a handover in LTE with some margin (3GPP TR
    /// 36.881 section 5 adds up 45.5 ms).
    pub const LENGTH: Span = Span::from_millis(50);

    /// A handover with an interruption of [`LENGTH`](Self::LENGTH) to a path of the same RTT that
    /// keeps the queue.
    pub const fn at(at: Time) -> Self {
        Self { at, length: Self::LENGTH, rtt: None, queue_lost: false, signal: true }
    }

    /// When the new path begins.
    pub fn end(&self) -> Time {
        self.at + self.length
    }

    /// Checks that handovers come in the order of time, one after the other.
    ///
    /// # Errors
    /// When two overlap or are in the wrong order.
    pub fn check_order(handovers: &[Self]) -> Result<(), String> {
        match handovers.windows(2).find(|pair| pair[1].at < pair[0].end()) {
            None => Ok(()),
            Some(pair) => Err(format!(
                "the handover at {} begins before the one at {} is over; write them in the order \
                 of time",
                pair[1].at - Time::ZERO,
                pair[0].at - Time::ZERO
            )),
        }
    }
}

/// Handovers that come again and again, or take a time drawn at random.
#[derive(Debug, Clone, PartialEq)]
pub struct HandoverPlan {
    /// The time from which the first interval counts; without intervals that of the only one.
    pub from: Time,
    /// From the end of one to the begin of the next; `None`: there is one.
    pub every: Option<SpanDistribution>,
    /// How long an interruption lasts.
    pub length: SpanDistribution,
    /// Added to each interruption: what waits is sent on to the new cell, and what comes meanwhile
    /// stays behind it (3GPP TS 36.300 section 10.1.2.1.1: forwarding over X2, with an end marker).
    pub forward_delay: Span,
    /// As for [`Handover::rtt`].
    pub rtt: Option<Span>,
    /// As for [`Handover::queue_lost`].
    pub queue_lost: bool,
    /// As for [`Handover::signal`].
    pub signal: bool,
}

impl HandoverPlan {
    /// Handovers of one plan at most.
    const MAX: usize = 100_000;

    /// Draws the handovers that are over before `end`.
    pub fn draw(&self, end: Time, random: &mut Random) -> Vec<Handover> {
        let mut handovers = Vec::new();
        let mut at = self.from;
        while handovers.len() < Self::MAX {
            if let Some(every) = &self.every {
                at += every.draw(random);
            }
            let length = self.length.draw(random) + self.forward_delay;
            let Self { rtt, queue_lost, signal, .. } = *self;
            let handover = Handover { at, length, rtt, queue_lost, signal };
            if handover.end() >= end {
                break;
            }
            handovers.push(handover);
            // An interval of no time would never get on.
            at = handover.end() + Span::from_nanos(1);
            if self.every.is_none() {
                break;
            }
        }
        handovers
    }
}

impl FromStr for Handover {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let span = |part: &str| parse_span(part).map_err(PathError::Value);
        let mut parts: Vec<&str> = text.trim().split('/').collect();
        let queue_lost = match parts.last() {
            Some(&"lost") => parts.pop().is_some(),
            Some(&"kept") => parts.pop().is_none(),
            _ => false,
        };
        let [at, rest @ ..] = parts.as_slice() else { return Err(wrong_form(text)) };
        let mut handover = Self { queue_lost, ..Self::at(Time::ZERO + span(at)?) };
        match rest {
            [] => {}
            [length] => handover.length = span(length)?,
            [length, rtt] => (handover.length, handover.rtt) = (span(length)?, Some(span(rtt)?)),
            _ => return Err(wrong_form(text)),
        }
        Ok(handover)
    }
}

fn wrong_form(text: &str) -> PathError {
    PathError::Form {
        text: text.to_owned(),
        form: "TIME[/INTERRUPTION[/RTT]][/kept or /lost], such as 30s/200ms/80ms/lost",
    }
}

impl fmt::Display for Handover {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.at - Time::ZERO, self.length)?;
        if let Some(rtt) = self.rtt {
            write!(f, "/{rtt}")?;
        }
        f.write_str(if self.queue_lost { "/lost" } else { "" })
    }
}

/// `schedule` without the opportunities that fall into an interruption.
pub fn interrupted(schedule: Box<dyn Schedule>, handovers: &[Handover]) -> Box<dyn Schedule> {
    if handovers.is_empty() {
        return schedule;
    }
    let gaps = handovers.iter().map(|handover| (handover.at, handover.end())).collect();
    let mut interrupted = Interrupted { inner: schedule, gaps };
    interrupted.leave_gaps();
    Box::new(interrupted)
}

/// A schedule whose next opportunity never lies in a gap.
struct Interrupted {
    inner: Box<dyn Schedule>,
    /// Gaps to come: from, including; until, excluding.
    gaps: VecDeque<(Time, Time)>,
}

impl Interrupted {
    fn leave_gaps(&mut self) {
        while let (Some(next), Some(&(from, until))) = (self.inner.peek(), self.gaps.front()) {
            if next < from {
                return;
            }
            if next < until {
                self.inner.skip_through(until - Span::from_nanos(1));
            }
            self.gaps.pop_front();
        }
    }
}

impl Schedule for Interrupted {
    fn peek(&self) -> Option<Time> {
        self.inner.peek()
    }

    fn take(&mut self) {
        self.inner.take();
        self.leave_gaps();
    }

    fn skip_through(&mut self, now: Time) {
        self.inner.skip_through(now);
        self.leave_gaps();
    }

    fn on_backlog(&mut self, now: Time, bytes: u64) {
        self.inner.on_backlog(now, bytes);
        self.leave_gaps();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::capacity_bins;
    use crate::{DropReason, Fate, Packet, PacketRecord, Path, PathSpec, TraceSpec};
    use proptest::prelude::*;

    fn handover(text: &str) -> Handover {
        text.parse().unwrap()
    }

    #[test]
    fn written_forms_read_and_show() {
        for (text, shown) in [
            ("30s", "30s/50ms"),
            ("30s/200ms", "30s/200ms"),
            ("30s/200ms/kept", "30s/200ms"),
            ("30s/lost", "30s/50ms/lost"),
            ("1min/0ms/80ms/lost", "60s/0s/80ms/lost"),
        ] {
            assert_eq!(handover(text).to_string(), shown, "{text}");
            assert_eq!(handover(shown), handover(text), "{text}");
        }
        for (text, part) in [
            ("30", "`30` needs a unit"),
            ("30s/200", "`200` needs a unit"),
            ("30s/1s/1s/1s", "write TIME[/INTERRUPTION[/RTT]]"),
            ("30s/gone", "`gone`"),
            ("lost", "write TIME"),
            ("", "does not start with a number"),
        ] {
            let error = text.parse::<Handover>().unwrap_err().to_string();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn handovers_come_one_after_the_other() {
        let check = |texts: &[&str]| {
            Handover::check_order(&texts.iter().map(|text| handover(text)).collect::<Vec<_>>())
        };
        assert_eq!(check(&["1s/1s", "2s/1s", "9s"]), Ok(()));
        assert!(check(&["1s/1s", "1999ms"]).unwrap_err().contains("at 1999ms begins before"));
        assert!(check(&["5s", "1s"]).is_err());
    }

    #[test]
    fn nothing_is_offered_while_interrupted() {
        let handovers = [handover("1s/500ms"), handover("2s/1s")];
        let link: TraceSpec = "constant:12mbit".parse().unwrap();
        let mut schedule = interrupted(link.build(1).unwrap(), &handovers);
        let bins = capacity_bins(&mut *schedule, Span::from_millis(500), Time::from_secs(4));
        // An opportunity ends the millisecond of its packet: that at 1 s is gone, that at 1.5 s
        // is the first of the new path.
        assert_eq!(bins, [750_000, 748_500, 1500, 748_500, 0, 1500, 750_000, 750_000]);
    }

    fn path(link: Option<&str>, delay: u64, handovers: &[&str]) -> Path {
        let spec = PathSpec {
            trace: link.map(|link| link.parse().unwrap()),
            delay: Span::from_millis(delay).into(),
            handovers: handovers.iter().map(|text| handover(text)).collect(),
            ..PathSpec::default()
        };
        spec.build(1).unwrap()
    }

    /// Number, fate and end of packets sent at `times_ms`, driven as the simulator does.
    fn fates(mut path: Path, times_ms: &[u64]) -> Vec<(u64, Fate, f64)> {
        let mut fates = Vec::new();
        for (id, ms) in (0..).zip(times_ms) {
            path.advance(Time::from_millis(*ms), &mut fates);
            path.push(Packet::new(id, 0, 1500, Time::from_millis(*ms)));
        }
        while let Some(next) = path.next_deadline() {
            path.advance(next, &mut fates);
        }
        let line = |r: &PacketRecord| (r.packet.id, r.fate, r.packet.departed_at.as_millis_f64());
        fates.iter().map(line).collect()
    }

    const LOST: Fate = Fate::Dropped(DropReason::Handover);

    #[test]
    fn a_queue_waits_for_the_new_path_or_is_lost() {
        let sent = [0, 0, 0, 0, 15, 25];
        let kept = fates(path(Some("constant:12mbit"), 0, &["2500us/17500us"]), &sent);
        let times: Vec<_> = kept.iter().map(|(id, _, at)| (*id, *at)).collect();
        assert_eq!(times, [(0, 1.0), (1, 2.0), (2, 20.0), (3, 21.0), (4, 22.0), (5, 26.0)]);
        assert!(kept.iter().all(|(_, fate, _)| *fate == Fate::Delivered));
        let lost = fates(path(Some("constant:12mbit"), 0, &["2500us/17500us/lost"]), &sent);
        let times: Vec<_> = lost.iter().map(|(id, fate, at)| (*id, *fate == LOST, *at)).collect();
        let expected =
            [(0, false, 1.0), (1, false, 2.0), (2, true, 20.0), (3, true, 20.0), (4, true, 20.0)];
        assert_eq!(times[..5], expected);
        assert_eq!(times[5], (5, false, 26.0));
    }

    #[test]
    fn a_path_without_a_bottleneck_is_interrupted_too() {
        let sent = [0, 5, 12, 40];
        let kept = fates(path(None, 10, &["12ms/20ms"]), &sent);
        let times: Vec<_> = kept.iter().map(|(id, _, at)| (*id, *at)).collect();
        assert_eq!(times, [(0, 10.0), (1, 32.0), (2, 32.0), (3, 50.0)]);
        let lost = fates(path(None, 10, &["12ms/20ms/lost"]), &sent);
        let dropped: Vec<_> = lost.iter().map(|(_, fate, _)| *fate == LOST).collect();
        assert_eq!(dropped, [false, true, true, false]);
    }

    #[test]
    fn the_new_delay_counts_for_what_is_sent_on_the_new_path() {
        // 20 ms there and back before, 80 ms then 10 ms afterwards.
        let handovers = ["100ms/0ms/80ms", "200ms/0ms/10ms"];
        let sent = [0, 95, 100, 150, 199, 200, 300];
        let arrived = fates(path(None, 10, &handovers), &sent);
        let times: Vec<_> = arrived.iter().map(|(_, _, at)| *at).collect();
        // What is sent at 200 ms waits for what is in front of it, as in one queue.
        assert_eq!(times, [10.0, 105.0, 140.0, 190.0, 239.0, 239.0, 305.0]);
    }

    proptest! {
        #[test]
        fn every_packet_has_one_fate_and_its_order(
            sends in prop::collection::vec(0_u64..20_000, 1..200),
            gaps in prop::collection::vec((1_u64..300, 0_u64..200, 0_u64..100, any::<bool>()), 0..5),
            link: bool,
        ) {
            let mut at = Time::ZERO;
            let handovers = gaps.iter().map(|&(wait, length, rtt, queue_lost)| {
                let length = Span::from_millis(length);
                at += Span::from_millis(wait);
                let handover = Handover { at, length, rtt: Some(Span::from_millis(rtt)), queue_lost, signal: true };
                at = handover.end();
                handover
            });
            let spec = PathSpec {
                trace: link.then(|| "random:1mbit..20mbit/50ms".parse().unwrap()),
                queue: "infinite".parse().unwrap(),
                delay: Span::from_millis(20).into(),
                handovers: handovers.collect(),
                ..PathSpec::default()
            };
            let (mut path, mut now, mut fates) = (spec.build(3).unwrap(), Time::ZERO, Vec::new());
            for (id, gap) in (0..).zip(&sends) {
                now += Span::from_micros(*gap);
                path.advance(now, &mut fates);
                path.push(Packet::new(id, 0, 1500, now));
            }
            while let Some(next) = path.next_deadline().filter(|next| *next < Time::from_secs(60)) {
                path.advance(next, &mut fates);
            }
            prop_assert_eq!(path.backlog(), 0);
            let delivered: Vec<_> = fates.iter().filter(|r| r.fate == Fate::Delivered).collect();
            prop_assert!(delivered.is_sorted_by_key(|record| record.packet.id));
            prop_assert!(fates.is_sorted_by_key(|record| record.packet.departed_at));
            let mut ids: Vec<_> = fates.iter().map(|record| record.packet.id).collect();
            ids.sort_unstable();
            prop_assert!(ids.into_iter().eq(0..sends.len() as u64));
            for record in delivered {
                let inside = |h: &Handover| (h.at..h.end()).contains(&record.packet.departed_at);
                prop_assert!(!spec.handovers.iter().any(inside));
            }
        }
    }
}
