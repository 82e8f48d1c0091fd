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
    /// What the schedule offers afterwards; `None`: as before.
    pub rate: Option<RateFactor>,
    /// `Some`: what waits at the begin reaches the new path's queue this long after the
    /// interruption, behind all that came directly meanwhile. `None`: the order is kept.
    pub reorder: Option<Span>,
    /// Whether its end is reported to controllers.
    pub signal: bool,
}

/// A share of the opportunities of a schedule, or a multiple. Written `x0.6`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateFactor {
    // Whole numbers, so that shares of opportunities add up exactly over a run of any length.
    thousandths: u32,
}

impl RateFactor {
    const ONE: Self = Self { thousandths: 1000 };
    const MIN: f64 = 0.001;
    const MAX: f64 = 100.0;
}

impl FromStr for RateFactor {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let factor = text.trim().strip_prefix('x').and_then(|number| number.parse::<f64>().ok());
        let Some(factor) = factor else {
            let example = "write a factor on what the trace offers, such as x0.6";
            return Err(match text.starts_with("trace:") {
                true => format!("`{text}`: the trace stays the same after a handover; {example}"),
                false => format!("`{text}` does not read; {example}"),
            });
        };
        if !(Self::MIN..=Self::MAX).contains(&factor) {
            let (min, max) = (Self::MIN, Self::MAX);
            return Err(format!("`{text}` is out of range; write a factor from x{min} to x{max}"));
        }
        Ok(Self { thousandths: (factor * 1000.0).round() as u32 })
    }
}

impl fmt::Display for RateFactor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "x{}", f64::from(self.thousandths) / 1000.0)
    }
}

impl Handover {
    /// The interruption where none is given: that of a handover in LTE with some margin (3GPP TR
    /// 36.881 section 5 adds up 45.5 ms).
    pub const LENGTH: Span = Span::from_millis(50);

    /// A handover with an interruption of [`LENGTH`](Self::LENGTH) to a path of the same RTT that
    /// keeps the queue.
    pub const fn at(at: Time) -> Self {
        Self {
            at,
            length: Self::LENGTH,
            rtt: None,
            queue_lost: false,
            rate: None,
            reorder: None,
            signal: true,
        }
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
    /// Whether what comes meanwhile overtakes what is forwarded, as without an end marker. The
    /// interruption then lasts no longer than `length`.
    pub reorder: bool,
    /// As for [`Handover::rtt`].
    pub rtt: Option<Span>,
    /// As for [`Handover::rate`].
    pub rate: Option<RateFactor>,
    /// As for [`Handover::queue_lost`].
    pub queue_lost: bool,
    /// Radio link failures in place of handovers.
    pub failure: Option<HandoverFailure>,
    /// As for [`Handover::signal`].
    pub signal: bool,
}

/// A radio link failure in place of a handover: the device finds the new cell by itself (3GPP TS
/// 36.331 section 5.3.7).
#[derive(Debug, Clone, PartialEq)]
pub struct HandoverFailure {
    /// Its probability, 0 to 1.
    pub share: f64,
    /// How long nothing is delivered.
    pub outage: SpanDistribution,
    /// As for [`Handover::queue_lost`].
    pub queue_lost: bool,
}

impl HandoverPlan {
    /// Handovers of one plan at most.
    const MAX: usize = 100_000;

    /// One handover that keeps order and queue.
    pub fn at(at: Time) -> Self {
        Self {
            from: at,
            every: None,
            length: Handover::LENGTH.into(),
            forward_delay: Span::ZERO,
            reorder: false,
            rtt: None,
            rate: None,
            queue_lost: false,
            failure: None,
            signal: true,
        }
    }

    /// The only handover of the plan, where nothing of it is drawn.
    pub fn as_fixed(&self) -> Option<Handover> {
        if self.every.is_some() || self.failure.is_some() {
            return None;
        }
        Some(self.handover(self.from, self.length.as_constant()?))
    }

    /// A handover without failure whose interruption takes so long.
    fn handover(&self, at: Time, length: Span) -> Handover {
        let Self { rtt, rate, queue_lost, signal, .. } = *self;
        let reorder = self.reorder.then_some(self.forward_delay);
        // An end marker keeps the order: the new cell sends nothing until what was forwarded is
        // there.
        let length = if self.reorder { length } else { length + self.forward_delay };
        Handover { at, length, rtt, queue_lost, rate, reorder, signal }
    }

    /// The radio link failure in its place, if this is one.
    fn draw_failure(&self, at: Time, random: &mut Random) -> Option<Handover> {
        let failure = self.failure.as_ref().filter(|failure| random.unit() < failure.share)?;
        let length = failure.outage.draw(random);
        let queue_lost = failure.queue_lost;
        Some(Handover { length, queue_lost, reorder: None, ..self.handover(at, Span::ZERO) })
    }

    /// Draws the handovers that are over before `end`.
    pub fn draw(&self, end: Time, random: &mut Random) -> Vec<Handover> {
        let mut handovers = Vec::new();
        let mut at = self.from;
        while handovers.len() < Self::MAX {
            if let Some(every) = &self.every {
                at += every.draw(random);
            }
            let length = self.length.draw(random);
            let failure = self.draw_failure(at, random);
            let handover = failure.unwrap_or_else(|| self.handover(at, length));
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
        // From the end, since all parts in the middle may be left out.
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

/// `schedule` without the opportunities that fall into an interruption, at the rates that the new
/// paths offer.
pub fn interrupted(schedule: Box<dyn Schedule>, handovers: &[Handover]) -> Box<dyn Schedule> {
    // No wrapper where there is nothing to leave out: schedules are asked for each packet.
    if handovers.is_empty() {
        return schedule;
    }
    let gaps = handovers.iter().map(|handover| (handover.at, handover.end())).collect();
    let mut interrupted = Interrupted { inner: schedule, gaps };
    // The very first opportunity may already lie in a gap.
    interrupted.leave_gaps();
    // A new rate holds from the end of the interruption, in which nothing is offered anyway.
    let rates = handovers.iter().filter_map(|handover| Some((handover.end(), handover.rate?)));
    let rates: VecDeque<_> = rates.collect();
    if rates.is_empty() { Box::new(interrupted) } else { Box::new(Scaled::new(interrupted, rates)) }
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
                // An opportunity at the very end of the gap is the new path's.
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

/// A schedule of which handovers leave a share, or that they multiply: what the opportunities so far
/// do not make up to a whole one is carried on to the next.
struct Scaled {
    inner: Interrupted,
    /// Factors to come, and from when.
    rates: VecDeque<(Time, RateFactor)>,
    rate: RateFactor,
    /// Of an opportunity, below 1000.
    carried_thousandths: u32,
    /// Opportunities at the time of the inner schedule's next.
    left: u32,
}

impl Scaled {
    fn new(inner: Interrupted, rates: VecDeque<(Time, RateFactor)>) -> Self {
        let rate = RateFactor::ONE;
        let mut scaled = Self { inner, rates, rate, carried_thousandths: 0, left: 0 };
        scaled.find_next();
        scaled
    }

    /// Goes on to the next opportunity of the inner schedule that makes up a whole one.
    fn find_next(&mut self) {
        while let Some(next) = self.inner.peek() {
            while let Some(&(_, rate)) = self.rates.front().filter(|(from, _)| *from <= next) {
                self.rate = rate;
                self.rates.pop_front();
            }
            // x0.6 lets three of five opportunities through, spread evenly: no draws, no bursts.
            self.carried_thousandths += self.rate.thousandths;
            // Above x1 one opportunity becomes several at the same instant.
            self.left = self.carried_thousandths / 1000;
            self.carried_thousandths %= 1000;
            if self.left > 0 {
                return;
            }
            self.inner.take();
        }
    }
}

impl Schedule for Scaled {
    fn peek(&self) -> Option<Time> {
        self.inner.peek()
    }

    fn take(&mut self) {
        self.left = self.left.saturating_sub(1);
        if self.left == 0 {
            self.inner.take();
            self.find_next();
        }
    }

    fn on_backlog(&mut self, now: Time, bytes: u64) {
        self.inner.on_backlog(now, bytes);
        if self.left == 0 {
            self.find_next();
        }
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

    fn factor(text: &str) -> Result<RateFactor, String> {
        text.parse()
    }

    #[test]
    fn factors_read_and_show() {
        for text in ["x0.6", "x1", "x0.001", "x100", "x2.5"] {
            assert_eq!(factor(text).unwrap().to_string(), text);
        }
        for (text, part) in [
            ("0.6", "write a factor on what the trace offers, such as x0.6"),
            ("60%", "`60%` does not read"),
            ("xfast", "`xfast` does not read"),
            ("trace:lte.down", "the trace stays the same after a handover"),
            ("x0", "`x0` is out of range; write a factor from x0.001 to x100"),
            ("x1e300", "out of range"),
            ("x-1", "out of range"),
            ("xnan", "out of range"),
            ("xinf", "out of range"),
            ("", "does not read"),
        ] {
            let error = factor(text).unwrap_err();
            assert!(error.contains(part), "{text:?}: {error}");
        }
    }

    #[test]
    fn a_factor_counts_from_the_end_of_its_handover_to_that_of_the_next() {
        let with = |text: &str, rate: Option<&str>| {
            let rate = rate.map(|rate| factor(rate).unwrap());
            Handover { rate, ..handover(text) }
        };
        let handovers = [
            with("1s/500ms", Some("x0.6")),
            with("3s/500ms", None),
            with("4s/500ms", Some("x2.5")),
            with("6s/0ms", Some("x1")),
        ];
        let link: TraceSpec = "constant:12mbit".parse().unwrap();
        let bins = |handovers: &[Handover], take: u64| {
            let mut schedule = interrupted(link.build(1).unwrap(), handovers);
            // Those who let go of some meet the same ones afterwards.
            schedule.skip_through(Time::from_millis(take));
            capacity_bins(&mut *schedule, Span::from_millis(500), Time::from_secs(7))
        };
        let whole = bins(&handovers, 0);
        let packets: Vec<i64> =
            whole.iter().map(|bytes| (*bytes as f64 / 1500.0).round() as i64).collect();
        let expected = [500, 500, 0, 300, 300, 300, 0, 300, 0, 1250, 1250, 1250, 500, 500];
        let near = |(seen, expected): (&i64, i64)| (seen - expected).abs() <= 3;
        assert!(packets.iter().zip(expected).all(near), "{packets:?}");
        for skipped_ms in [700, 1_200, 2_000, 5_500] {
            let bin = skipped_ms as usize / 500 + 1;
            assert_eq!(bins(&handovers, skipped_ms)[bin..], whole[bin..], "{skipped_ms}");
        }
    }

    #[test]
    fn what_is_forwarded_is_overtaken_with_reorder() {
        let reorder = Some(Span::from_millis(5));
        let spec = PathSpec {
            trace: Some("constant:12mbit".parse().unwrap()),
            handovers: vec![Handover { reorder, ..handover("2500us/7500us") }],
            ..PathSpec::default()
        };
        let sent = [0, 0, 0, 0, 5, 6, 20];
        let fates = fates(spec.build(1).unwrap(), &sent);
        assert!(fates.iter().all(|(_, fate, _)| *fate == Fate::Delivered));
        let times: Vec<_> = fates.iter().map(|(id, _, at)| (*id, *at)).collect();
        // Two wait when it begins, two come meanwhile.
        let expected = [(0, 1.0), (1, 2.0), (4, 10.0), (5, 11.0), (2, 16.0), (3, 17.0), (6, 21.0)];
        assert_eq!(times, expected);
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
                let rtt = Some(Span::from_millis(rtt));
                let handover = Handover { length, rtt, queue_lost, ..Handover::at(at) };
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
