//! What losses say: the signals of a round, and the bounds that follow from them.

/// Bounds on flight and bandwidth that losses set. Infinite where there are none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct LossBounds {
    /// Bytes that the path seems to hold (`inflight_longterm`).
    pub(super) longterm: f64,
    /// Bytes per second for now (`bw_shortterm`).
    pub(super) bw_shortterm: f64,
    /// Bytes in flight for now (`inflight_shortterm`).
    pub(super) inflight_shortterm: f64,
}

impl LossBounds {
    pub(super) const NONE: Self = Self {
        longterm: f64::INFINITY,
        bw_shortterm: f64::INFINITY,
        inflight_shortterm: f64::INFINITY,
    };

    /// Forgets those that hold for now.
    pub(super) fn forget_shortterm(&mut self) {
        self.bw_shortterm = f64::INFINITY;
        self.inflight_shortterm = f64::INFINITY;
    }

    /// A round with losses, outside of a probe, ended: both short-term bounds fall, but not below
    /// what that round achieved.
    pub(super) fn lower_shortterm(
        &mut self,
        round: &RoundSignals,
        max_bw: f64,
        cwnd: f64,
        beta: f64,
    ) {
        let or = |bound: f64, first: f64| if bound.is_finite() { bound } else { first };
        self.bw_shortterm = round.bw_latest.max(beta * or(self.bw_shortterm, max_bw));
        self.inflight_shortterm =
            round.inflight_latest.max(beta * or(self.inflight_shortterm, cwnd));
    }

    /// A round with marks leaves this share of what may be in flight for now.
    pub(super) fn lower_flight(&mut self, left: f64, cwnd: f64) {
        let bound = self.inflight_shortterm;
        self.inflight_shortterm = left * if bound.is_finite() { bound } else { cwnd };
    }

    /// The looser of each bound.
    pub(super) fn loosest(&self, other: &Self) -> Self {
        Self {
            longterm: self.longterm.max(other.longterm),
            bw_shortterm: self.bw_shortterm.max(other.bw_shortterm),
            inflight_shortterm: self.inflight_shortterm.max(other.inflight_shortterm),
        }
    }

    /// Whether a bound is tighter than `before`.
    pub(super) fn is_below(&self, before: &Self) -> bool {
        self.longterm < before.longterm
            || self.bw_shortterm < before.bw_shortterm
            || self.inflight_shortterm < before.inflight_shortterm
    }

    /// The long-term bound less the room that is left to others.
    pub(super) fn with_headroom(&self, headroom: f64, mss: f64, least: f64) -> f64 {
        if self.longterm.is_infinite() {
            return f64::INFINITY;
        }
        (self.longterm - mss.max(headroom * self.longterm)).max(least)
    }
}

/// Rounds as losses count them: one is anchored at its first loss. And what happens in it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RoundSignals {
    /// Bytes delivered at the end of the last one.
    pub(super) end: u64,
    /// Whether the current ack began one.
    pub(super) started: bool,
    /// Whether there was a loss in it.
    pub(super) lossy: bool,
    /// The largest rate sample of it, in bytes per second, and the most that one delivered.
    pub(super) bw_latest: f64,
    pub(super) inflight_latest: f64,
    /// Runs of lost packets.
    pub(super) loss_ranges: u64,
    last_lost: Option<u64>,
}

impl RoundSignals {
    /// A round that ends with the first packet sent after `delivered` bytes were delivered.
    pub(super) fn new(delivered: u64) -> Self {
        Self { end: delivered, ..Self::default() }
    }

    /// An ack with a sample: `rate` in bytes per second, `volume` in bytes, of a packet that left
    /// when `prior` bytes were delivered; `delivered` are now.
    pub(super) fn on_sample(&mut self, rate: f64, volume: f64, prior: u64, delivered: u64) {
        self.bw_latest = self.bw_latest.max(rate);
        self.inflight_latest = self.inflight_latest.max(volume);
        self.started = prior >= self.end;
        if self.started {
            self.end = delivered;
        }
    }

    /// The next round begins with the sample that ended this one.
    pub(super) fn advance(&mut self, rate: f64, volume: f64) {
        if self.started {
            (self.bw_latest, self.inflight_latest) = (rate, volume);
        }
    }

    /// The packet `number` is lost, with `delivered` bytes delivered. Returns whether it is the
    /// first of the round.
    pub(super) fn on_lost(&mut self, number: u64, delivered: u64) -> bool {
        let continues = self.last_lost.is_some_and(|last| last.checked_add(1) == Some(number));
        self.last_lost = Some(number);
        self.loss_ranges += u64::from(!continues);
        self.on_congestion(delivered)
    }

    /// Something is lost. Returns whether it is the first of the round.
    pub(super) fn on_congestion(&mut self, delivered: u64) -> bool {
        let first = !self.lossy;
        if first {
            self.end = delivered;
        }
        self.lossy = true;
        first
    }

    /// Forgets what happened in this round, except its losses' ranges.
    pub(super) fn reset(&mut self) {
        self.lossy = false;
        self.bw_latest = 0.0;
        self.inflight_latest = 0.0;
    }
}

/// Whether `lost` of `in_flight` bytes are more than a probe may lose.
pub(super) fn is_too_high(lost: f64, in_flight: f64, threshold: f64) -> bool {
    lost > threshold * in_flight
}

/// The flight at which the losses of a probe exceeded the threshold: somewhere within the packet
/// of `size` bytes that left with `in_flight` bytes in flight, itself included, and with which
/// `lost` bytes were lost.
pub(super) fn in_flight_at_loss(in_flight: f64, lost: f64, size: f64, threshold: f64) -> f64 {
    let (before, lost_before) = (in_flight - size, lost - size);
    // (lost_before + prefix) / (before + prefix) = threshold
    let prefix = (threshold * before - lost_before) / (1.0 - threshold);
    before + prefix.max(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bbr3_b4_too_high_and_in_flight_at_loss() {
        let at_loss = |in_flight: f64, lost: f64| {
            is_too_high(lost, in_flight, 0.02).then(|| {
                (in_flight_at_loss(in_flight, lost, 1500.0, 0.02) * 1000.0).round() / 1000.0
            })
        };
        assert_eq!(at_loss(90_000.0, 1500.0), None);
        assert_eq!(at_loss(90_000.0, 3000.0), Some(88_775.510));
        assert_eq!(at_loss(60_000.0, 1500.0), Some(59_693.878));
        assert_eq!(at_loss(60_000.0, 3000.0), Some(58_500.0));
        assert_eq!(at_loss(150_000.0, 15_000.0), Some(148_500.0));
        assert_eq!(at_loss(75_000.0, 1500.0), None, "equal");
    }

    #[test]
    fn bbr3_b6_short_term_model() {
        let mut bounds = LossBounds::NONE;
        let mut seen = Vec::new();
        for (bw_latest, inflight_latest) in [(1.2e6, 48e3), (0.3e6, 12e3), (0.3e6, 12e3)] {
            let round = RoundSignals { bw_latest, inflight_latest, ..RoundSignals::default() };
            bounds.lower_shortterm(&round, 1.5e6, 120e3, 0.7);
            seen.push((bounds.bw_shortterm.round(), bounds.inflight_shortterm.round()));
        }
        assert_eq!(seen, [(1.2e6, 84e3), (0.84e6, 58_800.0), (0.588e6, 41_160.0)]);
    }

    #[test]
    fn bbr3_b5_headroom_of_a_small_bound() {
        let headroom = |longterm: f64| {
            LossBounds { longterm, ..LossBounds::NONE }.with_headroom(0.15, 1500.0, 6000.0)
        };
        assert_eq!(headroom(61_000.0), 51_850.0);
        assert_eq!(headroom(42_000.0), 35_700.0);
        assert_eq!(headroom(9000.0), 7500.0);
        assert_eq!(headroom(6000.0), 6000.0);
        assert_eq!(headroom(f64::INFINITY), f64::INFINITY);
    }

    #[test]
    fn neighbours_are_one_range() {
        let mut signals = RoundSignals::default();
        for number in [4, 5, 6, 9, 10, 12] {
            signals.on_lost(number, 0);
        }
        assert_eq!(signals.loss_ranges, 3);
    }
}
