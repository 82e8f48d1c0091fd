//! A policer: what comes faster than a token bucket fills is dropped instead of queued, as providers hold customers to a
//! rate (Flach et al., "An Internet-Wide Analysis of Traffic Policing", SIGCOMM 2016).

use cellpace_base::{Rate, Time, Window, params};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, OPPORTUNITY_BYTES, Packet};

params! {
    /// The parameters of a policer.
    #[derive(Copy, PartialEq)]
    pub(super) struct PolicerParams {
        /// Rate at which tokens come
        rate: Rate = "10mbit" in Rate::from_bps(1_000)..=Rate::from_bps(1_000_000_000_000),
            from "own choice", logarithmic;
        /// Tokens that wait at most, in bytes from one packet on
        burst: Window = "100kB", from "own choice", logarithmic;
        /// What waits behind it for the link at most, bytes or packets
        limit: Limit = "2MB", from "own choice", logarithmic;
    }
}

/// A token bucket that drops, in front of a FIFO.
#[derive(Debug)]
pub(super) struct Policer {
    limit: Limit,
    fifo: Fifo,
    bytes_per_ns: f64,
    /// The most tokens, in bytes.
    burst: f64,
    tokens: f64,
    filled_at: Time,
}

impl Policer {
    /// With a full bucket and an empty queue.
    pub(super) fn new(params: PolicerParams) -> Self {
        let packet = u64::from(OPPORTUNITY_BYTES);
        let burst = params.burst.bytes(packet).max(packet) as f64;
        Self {
            limit: params.limit,
            fifo: Fifo::new(),
            bytes_per_ns: params.rate.as_bps() as f64 / 8e9,
            burst,
            tokens: burst,
            filled_at: Time::ZERO,
        }
    }

    fn fill(&mut self, now: Time) {
        let passed = (now - self.filled_at).as_nanos() as f64;
        self.tokens = (self.tokens + passed * self.bytes_per_ns).min(self.burst);
        self.filled_at = now;
    }
}

impl Queue for Policer {
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops) {
        self.fill(now);
        let size = f64::from(packet.size);
        if self.tokens < size {
            drops.push((packet, DropReason::Aqm));
            return;
        }
        if !self.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        self.tokens -= size;
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, _now: Time, _drops: &mut Drops) -> Option<Packet> {
        self.fifo.pop()
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

#[cfg(test)]
mod tests {
    use cellpace_base::ParamSet;

    use super::super::testing::arrive;
    use super::*;

    fn policer(text: &str) -> Policer {
        Policer::new(PolicerParams::parse("policer", text).unwrap())
    }

    #[test]
    fn a_burst_passes_and_then_the_rate() {
        // 12 Mbit/s: a packet of 1500 bytes each millisecond.
        let mut queue = policer("rate=12mbit,burst=4500B");
        let packets = [(1, 1500), (2, 1500), (3, 1500), (4, 1500)];
        assert_eq!(arrive(&mut queue, Time::ZERO, &packets), [4]);
        assert_eq!(arrive(&mut queue, Time::from_millis(1), &[(5, 1500), (6, 1500)]), [6]);
        // Never more than the burst.
        let later = Time::from_secs(9);
        assert_eq!(arrive(&mut queue, later, &packets), [4]);
    }

    #[test]
    fn what_the_queue_drops_costs_no_tokens() {
        let mut queue = policer("rate=12mbit,burst=6kB,limit=1pkts");
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(1, 1500), (2, 1500)]), [2]);
        queue.fifo.pop();
        assert_eq!(arrive(&mut queue, Time::ZERO, &[(3, 1500)]), [0_u64; 0]);
        assert_eq!(queue.tokens, 3000.0);
    }
}
