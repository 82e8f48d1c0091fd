//! DualPI2, RFC 9332 appendix A: a queue of low delay for senders that react to each mark in
//! proportion (L4S) beside a classic one, coupled so that flows in both get similar rates. The
//! form is that of Linux, which marks L packets by step and by coupling in turn.

use cellpace_base::{
    ByteCount, Ecn, ParamKind, ParamValue, QuantityError, Random, Span, Time, params, parse_span,
    words,
};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet};

params! {
    /// The parameters of DualPI2.
    #[derive(Copy, PartialEq)]
    pub(super) struct DualPi2Params {
        /// Delay that the classic queue is held at
        target: Span = "15ms" in Span::from_micros(1)..=Span::from_secs(60),
            from "RFC 9332 appendix A.1; Linux sch_dualpi2", logarithmic;
        /// How often the base probability is set; alpha and beta belong to it
        tupdate: Span = "16ms" in Span::from_micros(100)..=Span::from_secs(60),
            from "RFC 9332 appendix A.1; Linux sch_dualpi2", logarithmic;
        /// Weight of the distance from the target
        alpha: f64 = "0.16" in 0.0..=1000.0, unit "1/s", from "RFC 9332 appendix A.1", logarithmic;
        /// Weight of the change since the last update
        beta: f64 = "3.2" in 0.0..=1000.0, unit "1/s", from "RFC 9332 appendix A.1", logarithmic;
        /// Coupling: L4S packets are marked with this multiple of the base probability
        k: f64 = "2" in 0.0..=100.0, from "RFC 9332 section 4.1";
        /// Delay of the L4S queue beyond which every packet is marked; on a link that serves in
        /// bursts at least 1.5 times their distance
        step: Span = "1ms" in Span::ZERO..=Span::from_secs(60), from "Linux sch_dualpi2", logarithmic;
        /// In place of the step: marks begin at the first delay, and from the second on all are
        ramp: Option<SojournRamp> = "", from "RFC 9332 appendix A.1 (800us..1200us)";
        /// No mark by step or ramp with fewer packets than this in the L4S queue
        floor: u64 = "2" in 0..=1_000, unit "pkt",
            from "own choice; RFC 9332 appendix A.1 wants more than one packet";
        /// Share of the link that the classic queue has at least
        protection: f64 = "0.1" in 0.0..=1.0, from "Linux sch_dualpi2 (classic_protection)";
        /// Under overload: drop from both queues alike, or mark and drop only what does not fit
        overload: OverloadRule = "drop", from "RFC 9332 section 4.2.3; Linux drop_on_overload";
        /// ECT(0) also goes to the L4S queue
        any_ect: bool = "false", from "Linux sch_dualpi2";
        /// A backlog of less than two of these is never too long
        mtu: ByteCount = "1500B" in 64..=1_000_000, from "RFC 9332 appendix A.1";
        /// Hard limit of both queues together, bytes or packets
        limit: Limit = "10000pkts", from "Linux sch_dualpi2", logarithmic;
    }
}

words! {
    /// What happens when marks alone do not help any more.
    pub(super) enum OverloadRule {
        Drop = "drop",
        Mark = "mark",
    }
}

/// Delays between which the share of packets that are marked rises from none to all.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct SojournRamp {
    from: Span,
    to: Span,
}

impl ParamValue for SojournRamp {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Text("two delays, the second longer, such as 800us..1200us")
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        let Some((from, to)) = text.split_once("..") else { return Ok(None) };
        let (from, to) = (parse_span(from)?, parse_span(to)?);
        Ok((from < to && to <= Span::from_secs(60)).then_some(Self { from, to }))
    }
}

/// Credits are in thousandths of a byte, so that shares stay whole numbers.
const CREDIT_UNIT: f64 = 1000.0;

/// Two FIFOs with one limit, under DualPI2.
#[derive(Debug)]
pub(super) struct DualPi2 {
    params: DualPi2Params,
    random: Random,
    /// L: packets of L4S senders.
    low: Fifo,
    /// C: all others.
    classic: Fifo,
    control: BaseProbability,
    next_update: Time,
    /// Above zero it is the turn of the classic queue.
    credit: i64,
}

/// The PI controller of RFC 9332 appendix A.1.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
struct BaseProbability {
    /// p'
    p: f64,
    last_delay: Span,
}

impl BaseProbability {
    fn update(&mut self, params: &DualPi2Params, delay: Span) {
        let error = delay.as_secs_f64() - params.target.as_secs_f64();
        let change = delay.as_secs_f64() - self.last_delay.as_secs_f64();
        // RFC 9332 appendix A.1, dualpi2_update: p' += alpha (q - target) + beta (q - q_prev)
        let p = self.p + params.alpha * error + params.beta * change;
        self.p = p.clamp(0.0, params.max_probability());
        self.last_delay = delay;
    }
}

impl DualPi2Params {
    /// With marks alone under overload, p' stops where every L4S packet is marked.
    fn max_probability(&self) -> f64 {
        match self.overload {
            OverloadRule::Drop => 1.0,
            OverloadRule::Mark if self.k > 1.0 => 1.0 / self.k,
            OverloadRule::Mark => 1.0,
        }
    }

    /// What a byte of the L4S queue adds to the credit while the classic one waits.
    fn classic_weight(&self) -> i64 {
        (self.protection * CREDIT_UNIT).round() as i64
    }

    /// What a byte of the classic queue takes from it while the L4S one waits.
    fn low_weight(&self) -> i64 {
        CREDIT_UNIT as i64 - self.classic_weight()
    }

    /// The L4S queue goes first after a pause.
    fn initial_credit(&self) -> i64 {
        self.mtu.0 as i64 * (self.classic_weight() - self.low_weight())
    }

    /// The share of packets that are marked after `sojourn` in the L4S queue.
    fn native_probability(&self, sojourn: Span) -> f64 {
        match self.ramp {
            // RFC 9332 appendix A.1, laqm
            Some(SojournRamp { from, to }) => {
                let above = sojourn.as_secs_f64() - from.as_secs_f64();
                (above / (to - from).as_secs_f64()).clamp(0.0, 1.0)
            }
            None if sojourn > self.step => 1.0,
            None => 0.0,
        }
    }
}

/// What becomes of a packet at the head of its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum HeadVerdict {
    Pass,
    Mark,
    Drop,
}

impl DualPi2 {
    /// An empty queue.
    pub(super) fn new(params: DualPi2Params, random: Random) -> Self {
        Self {
            random,
            low: Fifo::new(),
            classic: Fifo::new(),
            control: BaseProbability::default(),
            next_update: Time::ZERO + params.tupdate,
            credit: params.initial_credit(),
            params,
        }
    }

    /// RFC 9332 section 2.3: ECT(1), and CE as its sender is not known.
    fn is_low(&self, ecn: Ecn) -> bool {
        matches!(ecn, Ecn::Ect1 | Ecn::Ce) || self.params.any_ect && ecn == Ecn::Ect0
    }

    /// Makes the updates that were due up to `now`. Nothing has entered or left between them, so
    /// that each finds the same heads, waiting for longer.
    fn catch_up(&mut self, now: Time) {
        const MAX_UPDATES: u32 = 4096;
        for _ in 0..MAX_UPDATES {
            if now < self.next_update {
                return;
            }
            let before = self.control;
            let delay = self.delay(self.next_update);
            self.control.update(&self.params, delay);
            self.next_update += self.params.tupdate;
            // Nothing waits and nothing changes: all further updates are the same.
            if self.control == before && delay.is_zero() {
                break;
            }
        }
        // What a minute's updates did not settle is left as it is, to bound the work.
        if now >= self.next_update {
            let period = self.params.tupdate.as_nanos();
            let missed = (now - self.next_update).as_nanos() / period;
            self.next_update += self.params.tupdate * missed.saturating_add(1);
        }
    }

    /// How long the packet that waits longest has waited at `now`.
    fn delay(&self, now: Time) -> Span {
        // RFC 9332 appendix A.1 (dualpi2_update) takes the longer of both waits.
        let oldest = self.low.front().into_iter().chain(self.classic.front());
        oldest.map(|packet| now - packet.enqueued_at).max().unwrap_or(Span::ZERO)
    }

    /// Takes the head of the queue whose turn it is. Returns whether that is the L4S queue, and
    /// what the credit changes by if the packet leaves.
    fn take(&mut self) -> Option<(Packet, bool, i64)> {
        // Weighted round robin: the credit sums up by how much the classic queue is behind its
        // share.
        let low_turn = self.classic.is_empty() || self.credit <= 0;
        let is_low = !self.low.is_empty() && low_turn;
        let (own, other) = match is_low {
            true => (&mut self.low, &self.classic),
            false => (&mut self.classic, &self.low),
        };
        let packet = own.pop()?;
        let weight = if is_low { self.params.classic_weight() } else { -self.params.low_weight() };
        // Shares count only while both wait, or an idle queue would save up turns.
        let change = if other.is_empty() { 0 } else { weight * i64::from(packet.size) };
        Some((packet, is_low, change))
    }

    /// The coupled signal (RFC 9332 section 4.1).
    fn judge(&mut self, is_low: bool, backlog: u64, ecn: Ecn) -> HeadVerdict {
        // The link must not run dry because of a mark or drop of the only packet.
        if backlog < 2 * self.params.mtu.0 {
            return HeadVerdict::Pass;
        }
        let coupled = self.params.k * self.control.p; // p_CL
        let overloaded = coupled > 1.0 && self.params.overload == OverloadRule::Drop;
        if is_low && !overloaded {
            return if self.random.unit() < coupled {
                HeadVerdict::Mark
            } else {
                HeadVerdict::Pass
            };
        }
        // p_C = p'^2: two draws in place of the square.
        let hit = self.random.unit() < self.control.p && self.random.unit() < self.control.p;
        // Under overload marks no longer slow senders down, so ECN-capable packets are dropped,
        // too.
        if hit && (overloaded || !ecn.is_capable()) {
            return HeadVerdict::Drop;
        }
        // RFC 9332 section 4.2.3: under overload what is not dropped from L is marked.
        if hit || is_low { HeadVerdict::Mark } else { HeadVerdict::Pass }
    }

    /// The L4S queue's own signal, for a packet that leaves it in front of `behind` others.
    fn marks_natively(&mut self, packet: &Packet, behind: usize, now: Time) -> bool {
        // A single packet waits for the link, not for a queue: a mark would say nothing.
        if behind as u64 + 1 < self.params.floor {
            return false;
        }
        match self.params.native_probability(now - packet.enqueued_at) {
            p if p >= 1.0 => true,
            p if p > 0.0 => self.random.unit() < p,
            _ => false,
        }
    }
}

impl Queue for DualPi2 {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) {
        self.catch_up(now);
        let (bytes, packets) = (self.bytes() + u64::from(packet.size), self.packets() as u64 + 1);
        if !self.params.limit.holds(bytes, packets) {
            drops.push((packet, DropReason::Overflow));
        } else if self.is_low(packet.ecn) {
            self.low.push(packet);
        } else {
            self.classic.push(packet);
        }
    }

    /// RFC 9332 appendix A.1, dualpi2_dequeue.
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.catch_up(now);
        loop {
            let backlog = self.bytes();
            let Some((mut packet, is_low, change)) = self.take() else {
                // Both are empty: shares of a busy time that is over count for nothing.
                self.credit = self.params.initial_credit();
                return None;
            };
            match self.judge(is_low, backlog, packet.ecn) {
                HeadVerdict::Drop => {
                    drops.push((packet, DropReason::Aqm));
                    // A dropped packet takes no time of the link, so it changes no credit.
                    continue;
                }
                HeadVerdict::Mark => {
                    packet.mark();
                }
                HeadVerdict::Pass
                    if is_low && self.marks_natively(&packet, self.low.len(), now) =>
                {
                    packet.mark();
                }
                HeadVerdict::Pass => {}
            }
            self.credit = self.credit.saturating_add(change);
            return Some(packet);
        }
    }

    fn into_packets(self: Box<Self>) -> Vec<Packet> {
        let mut packets = self.low.into_packets();
        packets.extend(self.classic.into_packets());
        packets.sort_by_key(|packet| packet.enqueued_at);
        packets
    }

    fn bytes(&self) -> u64 {
        self.low.bytes() + self.classic.bytes()
    }

    fn packets(&self) -> usize {
        self.low.len() + self.classic.len()
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::packet;
    use super::*;
    use cellpace_base::ParamSet;

    fn queue(rest: &str) -> DualPi2 {
        DualPi2::new(DualPi2Params::parse("dualpi2", rest).unwrap(), Random::seeded(5, 1))
    }

    fn with_ecn(id: u64, size: u32, ecn: Ecn) -> Packet {
        Packet { ecn, ..packet(id, size, Time::ZERO) }
    }

    fn arrive(queue: &mut DualPi2, count: u64, size: u32, ecn: Ecn) {
        let mut drops = Drops::new();
        for id in 0..count {
            queue.enqueue(Time::ZERO, with_ecn(id, size, ecn), &mut drops);
        }
        assert!(drops.is_empty());
    }

    /// L or C for each of the next `count` packets at time zero.
    fn order(queue: &mut DualPi2, count: usize) -> String {
        let mut next = || queue.dequeue(Time::ZERO, &mut Drops::new()).unwrap().ecn;
        (0..count).map(|_| if next() == Ecn::Ect1 { 'L' } else { 'C' }).collect()
    }

    fn near(found: f64, wanted: f64) {
        assert!((found - wanted).abs() < 1e-9, "{found} {wanted}");
    }

    #[test]
    fn dualpi2_d1_updates() {
        let (params, mut control) =
            (DualPi2Params::parse("dualpi2", "").unwrap(), BaseProbability::default());
        for (delay_ms, p) in [
            (0, 0.0),
            (20, 0.0648),
            (20, 0.0656),
            (18, 0.05968),
            (15, 0.05008),
            (12, 0.04),
            (5, 0.016),
            (0, 0.0),
        ] {
            control.update(&params, Span::from_millis(delay_ms));
            near(control.p, p);
        }
        assert!((0.0648_f64.powi(2) - 0.004_199).abs() < 1e-6);
    }

    #[test]
    fn dualpi2_d2_the_packet_that_waits_longest_counts() {
        let mut queue = queue("tupdate=30ms");
        let mut drops = Drops::new();
        queue.enqueue(Time::ZERO, with_ecn(0, 1500, Ecn::Ect1), &mut drops);
        let later = Time::from_millis(20);
        queue.enqueue(later, Packet::new(1, 0, 1500, later), &mut drops);
        queue.catch_up(Time::from_millis(30));
        near(queue.control.p, 0.0984);
    }

    #[test]
    fn dualpi2_d3_the_scheduler_gives_the_classic_queue_a_tenth() {
        let mut queue = queue("step=60s");
        arrive(&mut queue, 60, 1500, Ecn::Ect1);
        arrive(&mut queue, 60, 1500, Ecn::NotEct);
        let mut credits = Vec::new();
        let first: String = (0..10)
            .map(|_| {
                let next = order(&mut queue, 1);
                credits.push(queue.credit / 1000);
                next
            })
            .collect();
        assert_eq!(first, "LLLLLLLLLC");
        assert_eq!(credits, [-1050, -900, -750, -600, -450, -300, -150, 0, 150, -1200]);
        assert_eq!(order(&mut queue, 50), "LLLLLLLLLC".repeat(5));
        // Small packets: 40 of 300 B take less credit than one turn of the classic queue gives.
        let mut queue = self::queue("step=60s");
        arrive(&mut queue, 40, 300, Ecn::Ect1);
        arrive(&mut queue, 40, 1500, Ecn::NotEct);
        assert_eq!(order(&mut queue, 45), format!("{}{}", "L".repeat(40), "C".repeat(5)));
    }

    /// Shares of packets dropped and marked at a base probability, with a long backlog.
    fn shares(rest: &str, p: f64, ecn: Ecn) -> (f64, f64) {
        const PACKETS: u64 = 200_000;
        let mut queue = queue(&format!("step=60s,limit=1000000pkts,{rest}"));
        arrive(&mut queue, PACKETS + 2, 1500, ecn);
        queue.control.p = p;
        let mut drops = Drops::new();
        let mut marked = 0;
        while queue.packets() > 2 {
            let Some(packet) = queue.dequeue(Time::ZERO, &mut drops) else { break };
            marked += u64::from(packet.marked);
        }
        assert!(drops.iter().all(|(packet, why)| *why == DropReason::Aqm && !packet.marked));
        (drops.len() as f64 / PACKETS as f64, marked as f64 / PACKETS as f64)
    }

    #[test]
    fn dualpi2_d4_shares_of_drops_and_marks() {
        for (p, ecn, dropped, marked) in [
            (0.1, Ecn::NotEct, 0.010, 0.0),
            (0.1, Ecn::Ect0, 0.0, 0.010),
            (0.1, Ecn::Ect1, 0.0, 0.200),
            (0.3, Ecn::NotEct, 0.090, 0.0),
            (0.3, Ecn::Ect0, 0.0, 0.090),
            (0.3, Ecn::Ect1, 0.0, 0.600),
            (0.6, Ecn::NotEct, 0.360, 0.0),
            (0.6, Ecn::Ect0, 0.360, 0.0),
            (0.6, Ecn::Ect1, 0.360, 0.640),
            (1.0, Ecn::NotEct, 1.0, 0.0),
            (1.0, Ecn::Ect1, 1.0, 0.0),
        ] {
            let found = shares("", p, ecn);
            let near = |a: f64, b: f64| (a - b).abs() < 0.004;
            assert!(near(found.0, dropped) && near(found.1, marked), "{p} {ecn}: {found:?}");
        }
    }

    #[test]
    fn dualpi2_d5_step_and_ramp() {
        let micros = [500, 800, 900, 1000, 1001, 1100, 1200, 1300];
        let step = DualPi2Params::parse("dualpi2", "").unwrap();
        let ramp = DualPi2Params::parse("dualpi2", "ramp=800us..1200us").unwrap();
        for (us, (by_step, by_ramp)) in micros.into_iter().zip([
            (0.0, 0.0),
            (0.0, 0.0),
            (0.0, 0.25),
            (0.0, 0.5),
            (1.0, 0.5025),
            (1.0, 0.75),
            (1.0, 1.0),
            (1.0, 1.0),
        ]) {
            let sojourn = Span::from_micros(us);
            near(step.native_probability(sojourn), by_step);
            near(ramp.native_probability(sojourn), by_ramp);
        }
        // The last packet of a queue passes, however long it has waited.
        let mut queue = queue("");
        arrive(&mut queue, 2, 1500, Ecn::Ect1);
        let mut next = || queue.dequeue(Time::from_micros(1001), &mut Drops::new()).unwrap();
        assert_eq!((next().marked, next().marked), (true, false));
    }

    #[test]
    fn dualpi2_d6_classification() {
        for (rest, low) in
            [("", [false, true, false, true]), ("any_ect=true", [false, true, true, true])]
        {
            let queue = queue(rest);
            let found = [0, 1, 2, 3].map(|bits| queue.is_low(Ecn::from_bits(bits)));
            assert_eq!(found, low, "{rest}");
        }
        let mut queue = queue("step=0s,floor=0");
        arrive(&mut queue, 3, 1500, Ecn::Ce);
        let out = queue.dequeue(Time::from_secs(1), &mut Drops::new()).unwrap();
        assert_eq!((out.ecn, out.marked), (Ecn::Ce, false), "another queue's mark");
    }

    #[test]
    fn dualpi2_d7_a_single_packet_passes() {
        for ecn in [Ecn::NotEct, Ecn::Ect1] {
            let mut queue = queue("");
            arrive(&mut queue, 1, 1500, ecn);
            queue.control.p = 1.0;
            assert!(!queue.dequeue(Time::ZERO, &mut Drops::new()).unwrap().marked);
        }
    }

    #[test]
    fn dualpi2_d8_an_empty_queue_lets_go() {
        let mut queue = queue("");
        queue.control.p = 0.05;
        queue.catch_up(Time::from_millis(160));
        near(queue.control.p, 0.026);
        queue.catch_up(Time::from_secs(3600));
        assert_eq!(queue.control.p, 0.0);
        assert!(queue.next_update > Time::from_secs(3600));
        assert!(queue.next_update <= Time::from_secs(3600) + Span::from_millis(16));
    }

    #[test]
    fn dualpi2_d9_overload_that_only_marks() {
        let (dropped, marked) = shares("overload=mark", 0.5, Ecn::Ect1);
        assert_eq!((dropped, marked), (0.0, 1.0));
        let mut control = BaseProbability::default();
        let params = DualPi2Params::parse("dualpi2", "overload=mark").unwrap();
        for ms in 0..1000 {
            control.update(&params, Span::from_millis(ms));
            assert!(control.p <= 0.5);
        }
        assert_eq!(control.p, 0.5);
    }

    #[test]
    fn updates_while_the_link_is_down_count_how_long_the_head_waits() {
        let mut late = queue("");
        arrive(&mut late, 3, 1500, Ecn::NotEct);
        late.catch_up(Time::from_millis(16 * 9));
        let mut steady = queue("");
        arrive(&mut steady, 3, 1500, Ecn::NotEct);
        (1..=9).for_each(|update| steady.catch_up(Time::from_millis(16 * update)));
        assert_eq!(late.control, steady.control);
        assert!(late.control.p > 0.5, "{:?}", late.control);
    }

    #[test]
    fn what_two_queues_hold_is_bounded_by_one_limit() {
        let mut queue = queue("limit=10pkts");
        arrive(&mut queue, 6, 1500, Ecn::Ect1);
        arrive(&mut queue, 4, 1500, Ecn::NotEct);
        let mut drops = Drops::new();
        queue.enqueue(Time::ZERO, with_ecn(9, 1500, Ecn::Ect1), &mut drops);
        assert_eq!(drops[0].1, DropReason::Overflow);
        assert_eq!(queue.packets(), 10);
    }
}
