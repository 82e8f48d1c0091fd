//! PIE, RFC 8033: drops or marks at random on arrival, with a probability that a controller sets every
//! 15 ms so that the delay stays at its target.

use cellpace_base::{Random, Span, Time, params, words};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, OPPORTUNITY_BYTES, Packet};

params! {
    /// The parameters of PIE.
    #[derive(Copy, PartialEq)]
    pub(super) struct PieParams {
        /// Queue delay to be held (QDELAY_REF)
        target: Span = "15ms" in Span::from_micros(1)..=Span::from_secs(60),
            from "RFC 8033 section 4.2", logarithmic;
        /// How often the drop probability is set (T_UPDATE); alpha and beta belong to it
        tupdate: Span = "15ms" in Span::from_micros(100)..=Span::from_secs(60),
            from "RFC 8033 section 4.2", logarithmic;
        /// Weight of the distance from the target
        alpha: f64 = "0.125" in 0.0..=1000.0, unit "1/s", from "RFC 8033 section 4.2", logarithmic;
        /// Weight of the change since the last update
        beta: f64 = "1.25" in 0.0..=1000.0, unit "1/s", from "RFC 8033 section 4.2", logarithmic;
        /// How long a burst out of calm passes without drops (MAX_BURST)
        burst: Span = "150ms" in Span::ZERO..=Span::from_secs(60), from "RFC 8033 section 4.4";
        /// Measure the delay on packets, or as backlog over departure rate
        delay: DelayMeasure = "timestamp", from "RFC 8033 sections 4.3 and 5.2";
        /// Keep drops neither too close together nor too far apart
        derandomize: bool = "false", from "RFC 8033 section 5.4";
        /// From a drop probability of 10% on, raise it by at most 2% at a time
        cap: bool = "true", from "RFC 8033 section 5.5";
        /// Mark packets in place of dropping them, where their senders understand that
        ecn: bool = "false", from "RFC 8033 section 5.1";
        /// Above this drop probability packets are dropped, whatever their senders understand
        ecn_threshold: f64 = "0.1" in 0.0..=1.0, from "RFC 8033 section 5.1 (mark_ecnth)";
        /// Hard limit, bytes or packets
        limit: Limit = "1000pkts", from "own choice, as in Linux tc", logarithmic;
    }
}

words! {
    /// How the delay is measured.
    pub(super) enum DelayMeasure {
        /// On packets.
        Timestamp = "timestamp",
        /// As backlog over departure rate.
        Rate = "rate",
    }
}

/// A FIFO under PIE.
#[derive(Debug)]
pub(super) struct Pie {
    config: PieParams,
    fifo: Fifo,
    random: Random,
    control: PieState,
    next_update: Time,
    /// Drop probability gathered since the last drop (RFC 8033 section 5.4).
    gathered: f64,
    /// Sojourn time of the last packet that left, for the delay by time stamps.
    last_sojourn: Span,
    departures: Departures,
}

/// What the controller of RFC 8033 section 4.2 remembers from update to update.
#[derive(Debug, Clone, Copy, PartialEq)]
struct PieState {
    drop_prob: f64,
    old_delay: Span,
    burst_left: Span,
}

impl Pie {
    /// An empty queue.
    pub(super) fn new(config: PieParams, random: Random) -> Self {
        Self {
            config,
            fifo: Fifo::new(),
            random,
            control: PieState { drop_prob: 0.0, old_delay: Span::ZERO, burst_left: config.burst },
            next_update: Time::ZERO + config.tupdate,
            gathered: 0.0,
            last_sojourn: Span::ZERO,
            departures: Departures::default(),
        }
    }

    /// Makes the updates that were due up to `now`. Nothing entered or left between them, so
    /// that most of a long silence changes nothing; what a minute's updates (of 15 ms) did not
    /// settled is left as it is, to bound the work.
    fn catch_up(&mut self, now: Time) {
        const MAX_UPDATES: u32 = 4096;
        if now < self.next_update {
            return;
        }
        // The same for all missed updates, since nothing moved meanwhile.
        let delay = self.delay();
        for _ in 0..MAX_UPDATES {
            let before = self.control;
            self.control.update(&self.config, delay);
            self.next_update += self.config.tupdate;
            if now < self.next_update {
                return;
            }
            if self.control == before {
                break;
            }
        }
        let period = self.config.tupdate.as_nanos();
        let missed = (now - self.next_update).as_nanos() / period;
        self.next_update += self.config.tupdate * missed.saturating_add(1);
    }

    /// The queue delay now, measured one way or the other.
    fn delay(&self) -> Span {
        if self.fifo.is_empty() {
            Span::ZERO
        } else if self.config.delay == DelayMeasure::Rate {
            self.departures.time_for(self.fifo.bytes())
        } else {
            self.last_sojourn
        }
    }

    /// RFC 8033 section 4.1: whether this arrival is dropped.
    fn drops_early(&mut self) -> bool {
        const SMALL_BACKLOG: u64 = 2 * OPPORTUNITY_BYTES as u64;
        let PieState { drop_prob, old_delay, burst_left } = self.control;
        // Without congestion what was gathered means nothing any more (RFC 8033 section 5.4).
        if drop_prob == 0.0 {
            self.gathered = 0.0;
        }
        // Section 4.4.
        if !burst_left.is_zero() {
            return false;
        }
        // Section 4.1: the link must not run dry.
        let calm = old_delay < self.config.target / 2 && drop_prob < 0.2;
        if calm || self.fifo.bytes() <= SMALL_BACKLOG {
            return false;
        }
        let drops = match self.spread(drop_prob) {
            Some(decided) => decided,
            None => self.random.unit() < drop_prob,
        };
        if drops {
            self.gathered = 0.0;
        }
        drops
    }

    /// RFC 8033 section 5.1: whether a mark is enough at the present drop probability.
    fn marks(&self) -> bool {
        self.config.ecn && self.control.drop_prob <= self.config.ecn_threshold
    }

    /// RFC 8033 section 5.4: no drop too soon after the last, none too late.
    fn spread(&mut self, drop_prob: f64) -> Option<bool> {
        if !self.config.derandomize {
            return None;
        }
        self.gathered += drop_prob;
        match self.gathered {
            gathered if gathered < 0.85 => Some(false),
            gathered if gathered >= 8.5 => Some(true),
            _ => None,
        }
    }
}

impl PieState {
    /// One update (RFC 8033 section 4.2). At its limits 0 and 1 it is a fixed point.
    fn update(&mut self, config: &PieParams, delay: Span) {
        let error = delay.as_secs_f64() - config.target.as_secs_f64();
        let change = delay.as_secs_f64() - self.old_delay.as_secs_f64();
        // Scaled by the probability itself, so that the control stays stable where drops are rare.
        let mut step = (config.alpha * error + config.beta * change) * gain(self.drop_prob);
        // Section 5.5.
        if config.cap && self.drop_prob >= 0.1 {
            step = step.min(0.02);
        }
        self.drop_prob += step;
        // Section 4.2: let go exponentially once congestion is over.
        if delay.is_zero() && self.old_delay.is_zero() {
            self.drop_prob *= 0.98;
        }
        self.drop_prob = self.drop_prob.clamp(0.0, 1.0);

        // Section 4.4.
        let half = config.target / 2;
        // Spans end at zero, so this needs no bound.
        self.burst_left -= config.tupdate;
        if self.drop_prob == 0.0 && delay < half && self.old_delay < half {
            self.burst_left = config.burst;
        }
        self.old_delay = delay;
    }
}

/// RFC 8033 section 4.2: small drop probabilities are changed in small steps.
fn gain(drop_prob: f64) -> f64 {
    const TABLE: [(f64, f64); 6] = [
        (0.000_001, 2048.0),
        (0.000_01, 512.0),
        (0.000_1, 128.0),
        (0.001, 32.0),
        (0.01, 8.0),
        (0.1, 2.0),
    ];
    TABLE.iter().find(|(below, _)| drop_prob < *below).map_or(1.0, |(_, divisor)| 1.0 / divisor)
}

impl Queue for Pie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, drops: &mut Drops) {
        self.catch_up(now);
        if !self.config.limit.has_room(&self.fifo, packet.size) {
            // Drops by a full buffer are drops, too: the count for derandomization starts again.
            drops.push((packet, DropReason::Overflow));
            self.gathered = 0.0;
            return;
        }
        if self.drops_early() && !(self.marks() && packet.mark()) {
            drops.push((packet, DropReason::Aqm));
            return;
        }
        if self.fifo.is_empty() {
            // The delay of the last packet before the pause is unrelated to this one's.
            self.last_sojourn = Span::ZERO;
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops) -> Option<Packet> {
        self.catch_up(now);
        let packet = self.fifo.pop()?;
        self.last_sojourn = now - packet.enqueued_at;
        if self.config.delay == DelayMeasure::Rate {
            self.departures.on_dequeue(now, packet.size, self.fifo.bytes());
        }
        Some(packet)
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        self.fifo.into_packets()
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }
}

/// Departure rate, measured only while there is a backlog (RFC 8033 section 5.2).
#[derive(Debug, Default)]
struct Departures {
    /// When the running measurement began, and the bytes that left since.
    running: Option<(Time, u64)>,
    /// Average time that `THRESHOLD` bytes take, in nanoseconds.
    average: Option<f64>,
}

impl Departures {
    /// DQ_THRESHOLD.
    const THRESHOLD: u64 = 1 << 14;
    /// DQ_THRESHOLD / 2^16.
    const WEIGHT: f64 = 0.25;

    fn on_dequeue(&mut self, now: Time, size: u32, backlog: u64) {
        if let Some((start, bytes)) = self.running {
            let bytes = bytes + u64::from(size);
            self.running = Some((start, bytes));
            if bytes < Self::THRESHOLD {
                return;
            }
            // Per threshold, since the last packet may carry the measurement beyond it.
            let sample = (now - start).as_nanos() as f64 * Self::THRESHOLD as f64 / bytes as f64;
            self.average = Some(match self.average {
                Some(average) => average + Self::WEIGHT * (sample - average),
                None => sample,
            });
            self.running = None;
        }
        // The packet that starts a measurement took its time before it, so that it does not
        // count into it.
        // With a smaller backlog the link may run dry, and the rate would be the senders'.
        if self.running.is_none() && backlog >= Self::THRESHOLD {
            self.running = Some((now, 0));
        }
    }

    /// Little's law with the average rate.
    fn time_for(&self, bytes: u64) -> Span {
        // Without a measurement the delay counts as none, as in the RFC before the first.
        let average = self.average.unwrap_or(0.0);
        Span::from_nanos((bytes as f64 * average / Self::THRESHOLD as f64) as u64)
    }
}

#[cfg(test)]
mod tests {
    use std::cmp::Reverse;
    use std::collections::BinaryHeap;

    use super::super::testing::packet;
    use super::*;
    use cellpace_base::{Ecn, ParamSet};

    fn pie(rest: &str) -> Pie {
        Pie::new(PieParams::parse("pie", rest).unwrap(), Random::seeded(11, 1))
    }

    fn control(drop_prob: f64, old_delay_ms: u64) -> PieState {
        let old_delay = Span::from_millis(old_delay_ms);
        PieState { drop_prob, old_delay, burst_left: Span::ZERO }
    }

    /// The drop probability after one update.
    fn updated(rest: &str, mut control: PieState, delay_ms: u64) -> f64 {
        control.update(&PieParams::parse("pie", rest).unwrap(), Span::from_millis(delay_ms));
        control.drop_prob
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() <= 1e-12 + wanted.abs() * 1e-9, "{found} {wanted}");
    }

    #[test]
    fn rfc8033_constants() {
        let config = PieParams::parse("pie", "").unwrap();
        assert_eq!(config.target, Span::from_millis(15));
        assert_eq!(config.tupdate, Span::from_millis(15));
        assert_eq!((config.alpha, config.beta), (0.125, 1.25));
        assert_eq!(config.burst, Span::from_millis(150));
    }

    #[test]
    fn rfc8033_update_is_proportional_and_integral() {
        // alpha (35 - 15 ms) + beta (35 - 25 ms) = 0.0025 + 0.0125.
        near(updated("", control(0.5, 25), 35), 0.515);
        near(updated("", control(0.5, 35), 25), 0.5 + 0.001_25 - 0.0125);
    }

    #[test]
    fn rfc8033_small_probabilities_change_in_small_steps() {
        for (p, divisor) in [
            (0.0, 2048.0),
            (0.000_002, 512.0),
            (0.000_02, 128.0),
            (0.000_2, 32.0),
            (0.002, 8.0),
            (0.02, 2.0),
            (0.2, 1.0),
        ] {
            near(updated("", control(p, 25), 35), p + 0.015 / divisor);
        }
    }

    #[test]
    fn rfc8033_large_probabilities_rise_by_two_percent_at_most() {
        // beta * 100 ms alone would be 0.125.
        near(updated("", control(0.1, 15), 115), 0.12);
        near(updated("cap=false", control(0.1, 15), 115), 0.1 + 0.0125 + 0.125);
        near(updated("", control(0.099, 15), 115), 0.099 + 0.137_5 / 2.0);
    }

    #[test]
    fn rfc8033_probability_decays_by_two_percent_without_a_queue() {
        near(updated("", control(0.5, 0), 0), (0.5 - 0.125 * 0.015) * 0.98);
        near(updated("", control(0.5, 15), 15), 0.5);
        assert_eq!(updated("", control(0.000_001, 100), 0), 0.0);
        assert_eq!(updated("cap=false", control(0.99, 0), 1000), 1.0);
    }

    #[test]
    fn rfc8033_a_burst_of_150_ms_passes_after_calm() {
        let mut queue = pie("limit=1000000pkts");
        let mut drops = Drops::new();
        let mut first = None;
        for ms in 0..3_000 {
            let now = Time::from_millis(ms);
            for id in 0..4 {
                queue.enqueue(now, packet(id, 1500, now), &mut drops);
            }
            queue.dequeue(now, &mut drops);
            if first.is_none() && !drops.is_empty() {
                first = Some(ms);
            }
            if ms < 150 {
                assert_eq!(queue.control.burst_left, Span::from_millis(150 - ms / 15 * 15));
            }
        }
        assert!(first.unwrap() >= 150, "{first:?}");
        assert!(drops.iter().all(|(_, reason)| *reason == DropReason::Aqm));
    }

    #[test]
    fn rfc8033_bursts_are_allowed_again_only_after_two_samples_of_calm() {
        let config = PieParams::parse("pie", "").unwrap();
        let refilled = |drop_prob, old_us, delay_us| {
            let old_delay = Span::from_micros(old_us);
            let mut control = PieState { drop_prob, old_delay, burst_left: Span::ZERO };
            control.update(&config, Span::from_micros(delay_us));
            control.burst_left == Span::from_millis(150)
        };
        assert!(refilled(0.0, 7_499, 7_499));
        assert!(!refilled(0.0, 7_499, 7_500));
        assert!(!refilled(0.0, 7_500, 7_499));
        assert!(!refilled(0.5, 7_499, 7_499));
    }

    #[test]
    fn what_was_waited_before_a_pause_is_forgotten() {
        let mut queue = pie("");
        let mut drops = Drops::new();
        let mut now = Time::ZERO;
        queue.enqueue(now, packet(1, 1500, now), &mut drops);
        now += Span::from_secs(1);
        queue.dequeue(now, &mut drops);
        assert_eq!(queue.delay(), Span::ZERO, "the queue is empty");
        queue.enqueue(now, packet(2, 1500, now), &mut drops);
        assert_eq!(queue.delay(), Span::ZERO);
        queue.enqueue(now, packet(3, 1500, now), &mut drops);
        queue.dequeue(now + Span::from_millis(4), &mut drops);
        assert_eq!(queue.delay(), Span::from_millis(4));
    }

    #[test]
    fn rfc8033_the_link_does_not_run_dry() {
        let mut queue = pie("burst=0s");
        queue.control = control(1.0, 1000);
        let mut drops = Drops::new();
        for id in 0..100 {
            queue.enqueue(Time::ZERO, packet(id, 1500, Time::ZERO), &mut drops);
        }
        // Two packets are no backlog; the third makes it one.
        assert_eq!((queue.packets(), drops.len()), (3, 97));
    }

    #[test]
    fn rfc8033_marks_stand_for_drops_up_to_a_probability() {
        for (drop_prob, ecn, marks) in
            [(0.1, Ecn::Ect0, true), (0.1, Ecn::NotEct, false), (0.101, Ecn::Ect0, false)]
        {
            let mut queue = pie("ecn=true,burst=0s,limit=1000000pkts");
            queue.control = control(drop_prob, 1000);
            queue.fifo.push(packet(0, 1_000_000, Time::ZERO));
            let mut drops = Drops::new();
            for id in 0..1_000 {
                let packet = Packet { ecn, ..packet(id, 1500, Time::ZERO) };
                queue.enqueue(Time::ZERO, packet, &mut drops);
            }
            let marked = queue.fifo.into_packets().iter().filter(|packet| packet.marked).count();
            let signals = if marks { marked } else { drops.len() };
            assert_eq!(signals, marked + drops.len(), "one or the other: {drop_prob} {ecn}");
            assert!((60..150).contains(&signals), "{signals}");
        }
    }

    /// Gaps between drops of a queue with a backlog and a fixed drop probability of 1/8.
    fn gaps(rest: &str) -> Vec<usize> {
        let mut queue = pie(rest);
        queue.control = control(0.125, 1000);
        queue.fifo.push(packet(0, 1_000_000, Time::ZERO));
        let dropped = (0..50_000).map(|_| queue.drops_early()).collect::<Vec<_>>();
        let at: Vec<usize> = (0..dropped.len()).filter(|index| dropped[*index]).collect();
        at.windows(2).map(|pair| pair[1] - pair[0]).collect()
    }

    #[test]
    fn rfc8033_derandomization_keeps_drops_apart() {
        let spread = gaps("derandomize=true");
        // 0.85 and 8.5 of gathered probability at 0.125 each.
        assert!(spread.iter().all(|gap| (7..=68).contains(gap)));
        let plain = gaps("");
        assert!(plain.iter().any(|gap| *gap < 7));
        let share = plain.len() as f64 / 50_000.0;
        assert!((0.12..0.13).contains(&share), "{share}");
    }

    #[test]
    fn updates_are_caught_up_as_if_made_in_time() {
        let (mut lazy, mut diligent) = (pie(""), pie(""));
        for queue in [&mut lazy, &mut diligent] {
            queue.control = control(0.3, 40);
        }
        for n in 1..=1_000 {
            let now = Time::from_millis(15 * n);
            diligent.catch_up(now);
            if n % 37 == 0 {
                lazy.catch_up(now + Span::from_millis(14));
                assert_eq!(lazy.control, diligent.control, "{n}");
                assert_eq!(lazy.next_update, diligent.next_update);
            }
        }
    }

    #[test]
    fn an_hour_of_silence_ends_in_calm_and_on_the_grid() {
        let mut queue = pie("");
        queue.control = control(1.0, 1000);
        let hour = Time::from_secs(3600);
        queue.catch_up(hour);
        assert_eq!(queue.control.drop_prob, 0.0);
        assert_eq!(queue.control.burst_left, Span::from_millis(150));
        assert_eq!(queue.next_update, hour + Span::from_millis(15));
        queue.catch_up(Time::MAX);
        queue.catch_up(Time::MAX);
        assert_eq!(queue.control.drop_prob, 0.0);
    }

    /// Senders of Reno's kind over a link of one 1500-byte packet each `service`: the mean queue
    /// delay in ms and the share of the link used, after a while to settle.
    fn closed_loop(rest: &str, senders: usize, service: Span, rtt: Span) -> (f64, f64) {
        const SETTLE: Time = Time::from_secs(30);
        const END: Time = Time::from_secs(150);
        let mut queue = pie(rest);
        let mut cwnd = vec![2.0_f64; senders];
        let mut in_flight = vec![0.0_f64; senders];
        let mut deaf_until = vec![Time::ZERO; senders];
        // What a sender learns: (when, which, whether it was delivered).
        let mut feedback: BinaryHeap<Reverse<(Time, usize, bool)>> = BinaryHeap::new();
        let (mut now, mut waited, mut left) = (Time::ZERO, 0.0, 0.0);
        let mut drops = Drops::new();
        while now < END {
            now += service;
            while let Some(Reverse((at, who, delivered))) = feedback.peek().copied() {
                if at > now {
                    break;
                }
                feedback.pop();
                in_flight[who] -= 1.0;
                if delivered {
                    cwnd[who] += 1.0 / cwnd[who];
                } else if at >= deaf_until[who] {
                    cwnd[who] = (cwnd[who] / 2.0).max(1.0);
                    deaf_until[who] = at + rtt;
                }
            }
            for who in 0..senders {
                while in_flight[who] + 1.0 <= cwnd[who] {
                    in_flight[who] += 1.0;
                    queue.enqueue(now, packet(who as u64, 1500, now), &mut drops);
                }
            }
            if let Some(packet) = queue.dequeue(now, &mut drops) {
                feedback.push(Reverse((now + rtt, packet.id as usize, true)));
                if now > SETTLE {
                    waited += (now - packet.enqueued_at).as_millis_f64();
                    left += 1.0;
                }
            }
            for (packet, _) in drops.drain(..) {
                feedback.push(Reverse((now + rtt, packet.id as usize, false)));
            }
        }
        (waited / left, left * service.as_secs_f64() / (END - SETTLE).as_secs_f64())
    }

    #[test]
    fn rfc8033_holds_the_delay_near_its_target_against_aimd_senders() {
        let ms = Span::from_millis;
        for rest in ["", "derandomize=true", "delay=rate"] {
            for (senders, service) in [(5, ms(1)), (20, ms(1)), (10, Span::from_micros(250))] {
                let (delay, used) = closed_loop(rest, senders, service, ms(80));
                assert!((10.0..20.0).contains(&delay), "{rest} {senders} {service}: {delay}");
                assert!(used > 0.85, "{rest} {senders} {service}: {used}");
            }
        }
        let (delay, _) = closed_loop("target=50ms", 20, ms(1), ms(80));
        assert!((40.0..60.0).contains(&delay), "{delay}");
    }

    #[test]
    fn rfc8033_departure_rate_is_measured_on_a_backlog_only() {
        let mut departures = Departures::default();
        let mut now = Time::ZERO;
        // Little waits: nothing is measured however slowly it goes.
        for _ in 0..100 {
            now += Span::from_secs(1);
            departures.on_dequeue(now, 1500, 15_000);
        }
        assert_eq!(departures.time_for(1_000_000), Span::ZERO);
        for _ in 0..12 {
            now += Span::from_millis(1);
            departures.on_dequeue(now, 1500, 100_000);
        }
        // 1500 bytes each ms: 150 000 bytes take 100 ms.
        assert_eq!(departures.time_for(150_000).as_millis_f64().round(), 100.0);
        // The next measurement, twice as slow, weighs a quarter.
        for _ in 0..11 {
            now += Span::from_millis(2);
            departures.on_dequeue(now, 1500, 100_000);
        }
        assert_eq!(departures.time_for(150_000).as_millis_f64().round(), 125.0);
    }
}
