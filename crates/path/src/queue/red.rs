//! RED: Floyd and Jacobson, "Random Early Detection Gateways for Congestion Avoidance",
//! IEEE/ACM Transactions on Networking, August 1993; the gentle variant is Floyd's
//! recommendation of March 2000.

use cellpace_base::{ParamError, ParamSet, Random, Rate, Span, Time, Window, params, words};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::error::PathError;
use crate::{DropReason, OPPORTUNITY_BYTES, Packet};

params! {
    /// The parameters of RED.
    #[derive(Copy, PartialEq)]
    pub(super) struct RedParams {
        /// Average queue from which packets are dropped (min_th); bytes, bits or packets
        min: Window = "3mbit", from "RED 1993 section 4; the value: Verus paper section 6.2",
            logarithmic;
        /// Average queue at which the drop probability is p (max_th); measured as min is
        max: Window = "9mbit", from "RED 1993 section 4; the value: Verus paper section 6.2",
            logarithmic;
        /// Drop probability at max (max_p)
        p: f64 = "0.1" in 0.0..=1.0, from "RED 1993 section 4; the value: Verus paper section 6.2",
            logarithmic;
        /// Weight of one arrival in the average queue (w_q)
        wq: f64 = "0.002" in 1e-6..=1.0, from "RED 1993 section 6", logarithmic;
        /// From max to twice max go from p to 1 instead of dropping everything
        gentle: bool = "true", from "Floyd 2000, gentle RED";
        /// byte: small packets are dropped less often, in proportion to 1500 bytes
        mode: RedMode = "packet", from "RED 1993 section 4; RFC 7141 section 2.2 advises packet";
        /// Up to max, mark packets in place of dropping them, where their senders understand that
        ecn: bool = "false", from "RED 1993 section 4; RFC 3168 section 5";
        /// Rate at which the average decays while the queue is empty (s); unset: as measured
        rate: Option<Rate> = "" in Rate::from_bps(1_000)..=Rate::from_bps(1_000_000_000_000),
            from "RED 1993 section 4", logarithmic;
        /// Hard limit, bytes or packets; unset: twice max
        limit: Option<Limit> = "", from "own choice; the papers do not say", logarithmic;
    }
    presets {
        classic = "min=3mbit,max=9mbit,p=0.1%,gentle=false",
            "as printed by MDI, and dropping everything above max", from "MDI section 5; RED 1993";
    }
}

words! {
    /// What the drop probability is for.
    pub(super) enum RedMode {
        Packet = "packet",
        Byte = "byte",
    }
}

/// How RED decides.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct RedConfig {
    params: RedParams,
    min: f64,
    max: f64,
    /// Whether `min` and `max` count packets; else bytes.
    in_packets: bool,
    limit: Limit,
}

impl RedConfig {
    pub(super) fn read(rest: &str) -> Result<Self, PathError> {
        let params = RedParams::parse("red", rest)?;
        let (min, max, in_packets) = match (params.min, params.max) {
            (Window::Bytes(min), Window::Bytes(max)) if min < max => (min, max, false),
            (Window::Packets(min), Window::Packets(max)) if min < max => (min, max, true),
            _ => return Err(not_above(params.min, params.max).into()),
        };
        // Gentle RED drops everything from twice max on: a longer queue would never be used.
        let twice = max.saturating_mul(2);
        let twice = if in_packets { Window::Packets(twice) } else { Window::Bytes(twice) };
        let limit = match params.limit {
            Some(limit) => limit,
            None => Limit::of(twice, "red: limit")?,
        };
        Ok(Self { params, min: min as f64, max: max as f64, in_packets, limit })
    }

    /// Returns the time of a typical packet on the link, if it is not to be measured.
    fn service(&self) -> Option<Span> {
        self.params.rate.map(|rate| rate.time_for(u64::from(OPPORTUNITY_BYTES)))
    }
}

fn not_above(min: Window, max: Window) -> ParamError {
    ParamError::OutOfRange {
        owner: "red".into(),
        key: "max".into(),
        value: max.to_string(),
        range: format!("more than min={min}, in the same unit (both packets or both bytes)"),
    }
}

/// A FIFO under RED.
#[derive(Debug)]
pub(super) struct Red {
    config: RedConfig,
    fifo: Fifo,
    random: Random,
    /// The average queue, in the unit of `min` and `max`.
    average: f64,
    /// Packets since the last drop; `None` while the average is below min (-1 in the paper).
    count: Option<u32>,
    service: ServiceTime,
}

impl Red {
    /// An empty queue.
    pub(super) fn new(config: RedConfig, random: Random) -> Self {
        Self {
            service: ServiceTime::new(config.service()),
            config,
            fifo: Fifo::new(),
            random,
            average: 0.0,
            count: None,
        }
    }

    /// RED 1993 section 4, the first half of the algorithm: the average at an arrival.
    fn update_average(&mut self, now: Time) {
        let wq = self.config.params.wq;
        if self.fifo.is_empty() {
            // m small packets could have left in the idle time: avg = (1 - w_q)^m avg.
            self.average *= power(1.0 - wq, self.service.use_up_idle(now));
            return;
        }
        let queue =
            if self.config.in_packets { self.fifo.len() as f64 } else { self.fifo.bytes() as f64 };
        // The queue as it was before this packet, as in the paper.
        self.average += wq * (queue - self.average);
    }

    /// Whether a mark is enough at the present average. Above max RED drops, as it must when
    /// senders do not react.
    fn marks(&self) -> bool {
        self.config.params.ecn && self.average < self.config.max
    }

    /// RED 1993 section 4, the second half: whether this arrival is dropped.
    fn drops_early(&mut self, size: u32) -> bool {
        // Below min the paper sets count to -1: the next stretch above it starts anew.
        let Some(p) = self.config.probability(self.average) else {
            self.count = None;
            return false;
        };
        let count = self.count.map_or(0, |count| count.saturating_add(1));
        let p = if self.config.params.mode == RedMode::Byte {
            // The paper's byte mode: p_b times the packet's size over the maximum size.
            p * f64::from(size) / f64::from(OPPORTUNITY_BYTES)
        } else {
            p
        };
        // p_a = p_b / (1 - count p_b): drops come evenly, not in bunches.
        let left = 1.0 - f64::from(count) * p;
        let drops = p >= left || self.random.unit() < p / left;
        self.count = Some(if drops { 0 } else { count });
        drops
    }
}

impl RedConfig {
    /// p_b of RED 1993 section 4 with the gentle extension; `None` below min.
    fn probability(&self, average: f64) -> Option<f64> {
        if average < self.min {
            return None;
        }
        if average < self.max {
            return Some(self.params.p * (average - self.min) / (self.max - self.min));
        }
        if self.params.gentle && average < 2.0 * self.max {
            return Some(self.params.p + (1.0 - self.params.p) * (average - self.max) / self.max);
        }
        Some(1.0)
    }
}

impl Queue for Red {
    fn enqueue(&mut self, now: Time, mut packet: Packet, drops: &mut Drops) {
        self.update_average(now);
        if self.drops_early(packet.size) && !(self.marks() && packet.mark()) {
            drops.push((packet, DropReason::Aqm));
        } else if !self.config.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            // A drop by the full queue counts as one of RED, whose next drop keeps its distance
            // from it.
            self.count = self.count.map(|_| 0);
        } else {
            self.fifo.push(packet);
        }
    }

    fn dequeue(&mut self, now: Time, _drops: &mut Drops) -> Option<Packet> {
        let packet = self.fifo.pop()?;
        self.service.on_dequeue(now, self.fifo.is_empty());
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

/// The time a typical packet takes on the link, given or measured, and since when the link has
/// had nothing to do.
#[derive(Debug)]
struct ServiceTime {
    given: Option<Span>,
    measured_ns: f64,
    last_dequeue: Time,
    idle: bool,
    idle_since: Time,
}

impl ServiceTime {
    /// What is assumed until something was measured: 1500 bytes at 12 Mbit/s.
    const GUESS_NS: f64 = 1e6;
    /// Weight of one packet: about a hundred packets are remembered.
    const WEIGHT: f64 = 0.01;

    const fn new(given: Option<Span>) -> Self {
        Self {
            given,
            measured_ns: Self::GUESS_NS,
            last_dequeue: Time::ZERO,
            idle: true,
            idle_since: Time::ZERO,
        }
    }

    fn on_dequeue(&mut self, now: Time, idle: bool) {
        // A gap after an idle time says when a packet came, not how long one takes.
        if !self.idle {
            let gap = (now - self.last_dequeue).as_nanos() as f64;
            // Gaps of a busy link are what its packets take, whatever its trace does.
            self.measured_ns += Self::WEIGHT * (gap - self.measured_ns);
        }
        self.last_dequeue = now;
        self.idle_since = now;
        self.idle = idle;
    }

    /// How many typical packets fit into the idle time that was not used up yet. What is less
    /// than a packet stays for the next time: arrivals that RED drops must not keep the average
    /// of an empty queue from decaying.
    fn use_up_idle(&mut self, now: Time) -> u64 {
        let one = self.given.map_or(self.measured_ns as u64, Span::as_nanos).max(1);
        let packets = (now - self.idle_since).as_nanos() / one;
        self.idle_since += Span::from_nanos(one) * packets;
        packets
    }
}

/// `base` to the power of `exponent` by squaring: the same bits on every platform, which the
/// power function of the system's library does not promise.
fn power(base: f64, exponent: u64) -> f64 {
    let (mut result, mut square, mut left) = (1.0, base, exponent);
    while left > 0 {
        if left & 1 == 1 {
            result *= square;
        }
        square *= square;
        left >>= 1;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, packet};
    use super::*;
    use cellpace_base::Ecn;

    fn red(rest: &str) -> Red {
        Red::new(RedConfig::read(rest).unwrap(), Random::seeded(7, 1))
    }

    /// Fills the queue to `level` packets of 1500 bytes, bypassing RED.
    fn fill(queue: &mut Red, level: u64) {
        for id in 0..level {
            queue.fifo.push(packet(id, 1500, Time::ZERO));
        }
    }

    /// Of each arrival at a queue that stands still, whether it was dropped.
    fn arrivals(queue: &mut Red, count: usize, size: u32) -> Vec<bool> {
        let mut drops = Drops::new();
        let dropped = (0..count as u64).map(|id| {
            drops.clear();
            let before = queue.packets();
            queue.enqueue(Time::ZERO, packet(id, size, Time::ZERO), &mut drops);
            if queue.packets() > before {
                // The newest goes again, so that the level stays.
                queue.fifo = Fifo::new();
                fill(queue, before as u64);
            }
            !drops.is_empty()
        });
        dropped.collect()
    }

    fn share(dropped: &[bool]) -> f64 {
        dropped.iter().filter(|dropped| **dropped).count() as f64 / dropped.len() as f64
    }

    const STILL: &str = "min=10pkts,max=30pkts,p=0.1,wq=1,limit=1000pkts";

    #[test]
    fn red_probability_is_linear_from_min_to_max_and_gentle_to_twice_max() {
        let config = RedConfig::read("min=3mbit,max=9mbit,p=0.1").unwrap();
        let at = |mbit: f64| config.probability(mbit * 1e6 / 8.0);
        assert_eq!(at(2.999), None);
        assert_eq!(at(3.0), Some(0.0));
        assert_eq!(at(6.0), Some(0.05));
        assert_eq!(at(9.0), Some(0.1));
        assert_eq!(at(13.5), Some(0.55));
        assert_eq!(at(18.0), Some(1.0));
        let hard = RedConfig { params: RedParams { gentle: false, ..config.params }, ..config };
        assert_eq!(hard.probability(9e6 / 8.0), Some(1.0));
    }

    #[test]
    fn red_drop_rate_follows_the_curve() {
        // Drops are uniform among 1 .. 1/p_b - 1 packets after the last: 2 p_b of all packets.
        for (level, p) in [(12, 0.01), (14, 0.02), (18, 0.04), (20, 0.05), (25, 0.075)] {
            let mut queue = red(STILL);
            fill(&mut queue, level);
            let share = share(&arrivals(&mut queue, 20_000, 1500));
            assert!((share / (2.0 * p) - 1.0).abs() < 0.1, "level {level}: {share}");
        }
    }

    #[test]
    fn red_gentle_part_drops_more_than_p_and_not_everything() {
        let mut queue = red(STILL);
        fill(&mut queue, 33);
        // p_b = 0.1 + 0.9 * 0.1 = 0.19: 1, 2, .. 5 packets apart.
        let gentle = share(&arrivals(&mut queue, 20_000, 1500));
        assert!((0.33..0.43).contains(&gentle), "{gentle}");
        let mut queue = red("min=10pkts,max=30pkts,p=0.1,wq=1,limit=1000pkts,gentle=false");
        fill(&mut queue, 33);
        assert_eq!(share(&arrivals(&mut queue, 100, 1500)), 1.0);
    }

    #[test]
    fn red_drops_nothing_below_min() {
        let mut queue = red(STILL);
        fill(&mut queue, 9);
        assert_eq!(share(&arrivals(&mut queue, 10_000, 1500)), 0.0);
    }

    #[test]
    fn red_drops_are_spread_evenly() {
        let mut queue = red(STILL);
        fill(&mut queue, 20);
        let dropped = arrivals(&mut queue, 40_000, 1500);
        let at: Vec<usize> = (0..dropped.len()).filter(|index| dropped[*index]).collect();
        let gaps: Vec<usize> = at.windows(2).map(|pair| pair[1] - pair[0]).collect();
        // p_b = 0.05: between 1 and 19 packets, each equally often; 1/19 is 5.3 %.
        for gap in 1..=19 {
            let share = gaps.iter().filter(|g| **g == gap).count() as f64 / gaps.len() as f64;
            assert!((0.04..0.065).contains(&share), "gap {gap}: {share}");
        }
        assert!(gaps.iter().all(|gap| (1..=20).contains(gap)));
    }

    #[test]
    fn red_byte_mode_spares_small_packets() {
        let mut queue = red("min=10pkts,max=30pkts,p=0.1,wq=1,limit=1000pkts,mode=byte");
        fill(&mut queue, 20);
        let small = share(&arrivals(&mut queue, 50_000, 150));
        assert!((0.009..0.011).contains(&small), "{small}");
    }

    #[test]
    fn red_average_moves_by_its_weight_at_arrivals() {
        let mut queue = red("min=10pkts,max=30pkts,wq=0.25");
        fill(&mut queue, 8);
        arrive(&mut queue, Time::ZERO, &[(1, 1500)]);
        assert_eq!(queue.average, 2.0);
        arrive(&mut queue, Time::ZERO, &[(2, 1500)]);
        assert_eq!(queue.average, 2.0 + 0.25 * (9.0 - 2.0));
    }

    #[test]
    fn red_average_is_in_bytes_when_thresholds_are() {
        let mut queue = red("min=10kB,max=30kB,wq=1,limit=1000pkts");
        fill(&mut queue, 4);
        arrive(&mut queue, Time::ZERO, &[(1, 1500)]);
        assert_eq!(queue.average, 6000.0);
    }

    #[test]
    fn red_average_decays_in_idle_time_by_the_packets_that_could_have_left() {
        let mut queue = red("min=10pkts,max=30pkts,wq=0.5,rate=12mbit");
        fill(&mut queue, 1);
        queue.average = 8.0;
        queue.dequeue(Time::from_millis(100), &mut Drops::new());
        // A packet takes 1 ms at 12 Mbit/s; three have passed.
        arrive(&mut queue, Time::from_micros(103_900), &[(1, 1500)]);
        assert_eq!(queue.average, 1.0);
    }

    #[test]
    fn red_idle_decay_goes_by_the_measured_rate_without_a_given_one() {
        let mut queue = red("min=1000pkts,max=3000pkts,wq=0.5");
        fill(&mut queue, 2000);
        let mut now = Time::ZERO;
        while queue.dequeue(now, &mut Drops::new()).is_some() {
            now += Span::from_millis(10);
        }
        now = queue.service.last_dequeue;
        queue.average = 8.0;
        arrive(&mut queue, now + Span::from_millis(35), &[(1, 1500)]);
        assert_eq!(queue.average, 1.0, "{}", queue.service.measured_ns);
    }

    #[test]
    fn red_average_of_an_empty_queue_decays_although_all_arrivals_are_dropped() {
        let mut queue = red("min=10pkts,max=30pkts,wq=0.5,rate=12mbit");
        queue.average = 1000.0;
        let mut now = Time::ZERO;
        while queue.packets() == 0 && now < Time::from_secs(1) {
            // Four arrivals in the time of one departure.
            now += Span::from_micros(250);
            arrive(&mut queue, now, &[(1, 1500)]);
        }
        assert!((4.0..8.0).contains(&now.as_millis_f64()), "{now:?}");
    }

    #[test]
    fn red_marks_below_max_and_drops_above() {
        for (average, ecn, marks) in
            [(20.0, Ecn::Ect1, true), (20.0, Ecn::NotEct, false), (40.0, Ecn::Ect1, false)]
        {
            let mut queue = red("min=10pkts,max=30pkts,p=1,wq=0.000001,limit=1000pkts,ecn=true");
            (queue.average, queue.count) = (average, Some(0));
            let mut drops = Drops::new();
            queue.fifo.push(packet(0, 1500, Time::ZERO));
            for id in 1..100 {
                let packet = Packet { ecn, ..packet(id, 1500, Time::ZERO) };
                queue.enqueue(Time::ZERO, packet, &mut drops);
            }
            let marked = queue.fifo.into_packets().iter().filter(|packet| packet.marked).count();
            let (signals, others) =
                if marks { (marked, drops.len()) } else { (drops.len(), marked) };
            assert!(signals > 30 && others == 0, "{average} {ecn}: {signals}, {others}");
        }
    }

    #[test]
    fn red_hard_limit_is_twice_max_unless_given() {
        let mut queue = red("min=10pkts,max=30pkts,wq=0.000001");
        let all: Vec<(u64, u32)> = (0..70).map(|id| (id, 1500)).collect();
        assert_eq!(arrive(&mut queue, Time::ZERO, &all).len(), 10);
        let config = RedConfig::read("").unwrap();
        assert_eq!(config.limit, Limit::Bytes(2_250_000));
    }

    #[test]
    fn power_is_repeated_multiplication() {
        assert_eq!(power(0.5, 0), 1.0);
        assert_eq!(power(0.5, 13), 0.5_f64.powi(13));
        assert_eq!(power(0.0, u64::MAX), 0.0);
        assert_eq!(power(0.0, 0), 1.0);
        assert!((power(0.998, 1000) / (-2.002_f64).exp() - 1.0).abs() < 1e-3);
    }
}
