//! Losses: gaps that wait, and the ceiling that losses set to the window (docs/spec/verus.md 9).

use std::collections::VecDeque;

use cellpace_base::{Span, Time};

use super::params::{GapRule, VerusParams};
use crate::epochs::{GAP_EXPIRY, RTO_MAX};

/// Gaps that wait at most; beyond, the oldest expires early. More than the largest window.
const MAX_MISSING: usize = 1 << 16;

/// Delays until a lost packet is given up (Verus, section 5.2).
const GAP_DELAYS: f64 = 3.0;

/// Share of itself by which the ceiling rises in an RTT (docs/spec/verus.md 9.1).
const CEILING_GROWTH: f64 = 0.1;

/// A packet declared lost that may yet arrive.
#[derive(Debug, Clone, Copy)]
pub(super) struct MissingPacket {
    pub(super) number: u64,
    /// The window at which it was sent.
    pub(super) w: u32,
    pub(super) expires_at: Time,
}

/// What is missing, and what losses leave to the window.
#[derive(Debug, Clone)]
pub(super) struct Losses {
    /// By packet number.
    pub(super) missing: VecDeque<MissingPacket>,
    /// Packets; infinite before the first loss.
    pub(super) ceiling: f64,
    /// Losses of packets below this belong to an event that has lowered the ceiling already.
    recover: u64,
    /// Share of packets lost lately, over about a window.
    share: f64,
}

impl Losses {
    /// Nothing was lost.
    pub(super) fn new() -> Self {
        Self { missing: VecDeque::new(), ceiling: f64::INFINITY, recover: 0, share: 0.0 }
    }

    /// A gap waits. Returns whether the oldest one expires for it.
    pub(super) fn wait_for(&mut self, gap: MissingPacket) -> bool {
        let is_full = self.missing.len() >= MAX_MISSING;
        if is_full {
            self.missing.pop_front();
        }
        if self.missing.back().is_none_or(|last| last.number < gap.number) {
            self.missing.push_back(gap);
        } else if let Err(index) = self.find(gap.number) {
            self.missing.insert(index, gap);
        }
        is_full
    }

    /// A packet declared lost arrived. Returns whether it was missing.
    pub(super) fn fill(&mut self, number: u64) -> bool {
        let found = self.find(number);
        if let Ok(index) = found {
            self.missing.remove(index);
        }
        found.is_ok()
    }

    fn find(&self, number: u64) -> Result<usize, usize> {
        self.missing.binary_search_by_key(&number, |gap| gap.number)
    }

    /// The oldest gap, if it has expired.
    pub(super) fn expire(&mut self, now: Time) -> Option<MissingPacket> {
        let is_due = self.missing.front().is_some_and(|gap| now >= gap.expires_at);
        if is_due { self.missing.pop_front() } else { None }
    }

    /// Where the buffer is full the delay no longer grows with the window: the profile is flat
    /// there, and the set-point, which a loss sets to f(W), leads right back to the windows that
    /// lost. The original finds no window on a flat curve and starts over; a repaired curve always
    /// has one. So when more is lost than links lose at random, a loss event, once per window of
    /// data, also limits the window to what eq. 6 leaves of it, and each RTT raises the limit by
    /// a share. It does so when the loss is detected: by the time a gap expires, 150 ms later, a flat
    /// curve has raised the window by 200 packets in each epoch.
    pub(super) fn lower_ceiling(
        &mut self,
        params: &VerusParams,
        gap: &MissingPacket,
        window: f64,
        next_number: u64,
    ) {
        self.share += (1.0 - self.share) * weight(window);
        if self.share <= params.ceiling_loss || gap.number < self.recover {
            return;
        }
        self.recover = next_number;
        // Eq. 6, Verus
        self.ceiling = (params.loss_factor * f64::from(gap.w)).min(self.ceiling).max(1.0);
    }

    /// By the same share in every RTT, whatever the window: `w` is the one at which the acked packet
    /// was sent, so about as many acks make an RTT. The current one may be a single packet.
    pub(super) fn raise_ceiling(&mut self, w: u32, window: f64, max_window: f64) {
        self.share -= self.share * weight(window);
        if self.share < NO_SHARE {
            self.share = 0.0;
        }
        if self.ceiling.is_finite() {
            self.ceiling *= 1.0 + CEILING_GROWTH / f64::from(w);
            if self.ceiling > max_window {
                self.ceiling = f64::INFINITY;
            }
        }
    }
}

/// How long a gap waits. While gaps wait nothing may be in flight, and then no timeout comes to
/// clear them: they wait no longer than the longest timeout.
pub(super) fn gap_expiry(rule: GapRule, last_rtt: Option<Span>) -> Span {
    if rule == GapRule::Fixed {
        return GAP_EXPIRY;
    }
    let delays = last_rtt.unwrap_or(Span::ZERO).mul_f64(GAP_DELAYS);
    GAP_EXPIRY.max(delays.min(RTO_MAX))
}

/// A share that makes no difference to the next loss. Below it, acks without a loss would lead to
/// subnormal numbers, with which processors take a hundred times as long.
const NO_SHARE: f64 = 1e-300;

/// One packet among a window's, or among enough that a single loss is not many.
fn weight(window: f64) -> f64 {
    1.0 / window.max(20.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::ParamSet;

    #[test]
    fn a_share_of_long_ago_is_none_and_the_next_loss_counts_the_same() {
        let params = VerusParams::parse("verus", "").unwrap();
        let gap = MissingPacket { number: 1, w: 100, expires_at: Time::ZERO };
        let mut losses = Losses::new();
        losses.lower_ceiling(&params, &gap, 100.0, 1);
        for _ in 0..100_000 {
            losses.raise_ceiling(100, 100.0, 1000.0);
            assert!(!losses.share.is_subnormal(), "{}", losses.share);
        }
        assert_eq!(losses.share, 0.0);
        losses.lower_ceiling(&params, &gap, 100.0, 1);
        assert_eq!(losses.share, weight(100.0));
    }
}
