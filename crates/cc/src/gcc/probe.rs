//! Two short bursts at the start, faster than the rate, that show what the path can carry.

use super::groups::{Arrived, ms_between};
use crate::Time;

/// Multiples of the rate at the start.
const MULTIPLES: [f64; 2] = [3.0, 6.0];
/// Packets of a burst at least, and how long it lasts at least.
const PACKETS: u64 = 5;
const LENGTH_MS: f64 = 15.0;
/// What of the rate that arrived is believed.
const BELIEVED: f64 = 0.85;

/// One burst.
#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    sent: u64,
    first_sent: Option<Time>,
    last_sent: Option<Time>,
    arrived: u64,
    /// Bytes behind the first packet.
    bytes: u64,
    first: Option<Time>,
    last: Option<Time>,
}

/// Section 6: which burst packets belong to, and what came of it.
#[derive(Debug, Clone)]
pub(super) struct Probes {
    start_rate: f64,
    /// The burst that leaves now; past the last there are no more.
    at: usize,
    bursts: [Burst; MULTIPLES.len()],
}

impl Probes {
    pub(super) fn new(start_rate: f64, is_on: bool) -> Self {
        let at = if is_on { 0 } else { MULTIPLES.len() };
        Self { start_rate, at, bursts: Default::default() }
    }

    /// The pacing rate of the burst that leaves now, in bit/s.
    pub(super) fn rate(&self) -> Option<f64> {
        MULTIPLES.get(self.at).map(|multiple| multiple * self.start_rate)
    }

    /// A packet leaves: the number of its burst from 1 on, or 0.
    pub(super) fn on_sent(&mut self, now: Time) -> u64 {
        let Some(burst) = self.bursts.get_mut(self.at) else { return 0 };
        let number = self.at as u64 + 1;
        let first = *burst.first_sent.get_or_insert(now);
        (burst.sent, burst.last_sent) = (burst.sent + 1, Some(now));
        if burst.sent >= PACKETS && ms_between(first, now) >= LENGTH_MS {
            self.at += 1;
        }
        number
    }

    /// A packet of a burst arrived. Returns the rate that is believed, once all of the burst is there.
    pub(super) fn on_arrival(&mut self, number: u64, packet: &Arrived) -> Option<f64> {
        let index = usize::try_from(number.checked_sub(1)?).ok()?;
        let is_over = index < self.at;
        let burst = self.bursts.get_mut(index)?;
        burst.arrived += 1;
        match burst.first {
            None => burst.first = Some(packet.received),
            Some(_) => burst.bytes += packet.bytes,
        }
        burst.last = burst.last.max(Some(packet.received));
        if !is_over || burst.arrived < burst.sent {
            return None;
        }
        // What arrives faster than it left has waited somewhere, and says nothing of the bottleneck.
        let left = ms_between(burst.first_sent?, burst.last_sent?);
        let ms = ms_between(burst.first?, burst.last?).max(left);
        (ms > 0.0).then(|| BELIEVED * 8.0 * burst.bytes as f64 / (ms / 1e3))
    }
}
