//! Slow start in front of the walk: a table has no row for it, but teachers begin with one.

use cellpace_base::Time;

use crate::epochs::GAP_EXPIRY;
use crate::verus::VerusSlowStart;
use crate::{Ack, Loss, Stamp};

/// A flow in slow start, by the rules of Verus. Windows in packets.
#[derive(Debug, Clone, Default)]
pub(super) struct Start {
    rules: VerusSlowStart,
    w: f64,
    /// The least RTT so far, in ms.
    base: Option<f64>,
    /// The first loss that had no effect yet (until the gap expires, slow start goes on): when it will, and the window at its sending.
    lost: Option<(Time, u32)>,
}

impl Start {
    pub(super) fn new() -> Self {
        Self { w: 1.0, ..Self::default() }
    }

    pub(super) fn window(&self) -> f64 {
        self.w
    }

    /// Whether this ack ends slow start by its delay; then the window is what that leaves.
    pub(super) fn is_over(&mut self, ack: &Ack<'_>) -> bool {
        for packet in ack.packets {
            let delay = packet.rtt.as_millis_f64();
            let base = self.base.map_or(delay, |base| base.min(delay));
            self.base = Some(base);
            if delay > self.rules.exit_delay(base) {
                self.w = self.rules.after_delay(self.window_of(&packet.stamp));
                return true;
            }
            if !packet.app_limited {
                self.w = self.rules.grown(self.w);
            }
        }
        false
    }

    /// The credit after an ack.
    pub(super) fn granted(&self, in_flight: f64, credit: f64) -> f64 {
        self.rules.granted(self.w, in_flight, credit)
    }

    pub(super) fn lose(&mut self, loss: &Loss<'_>) {
        let Some(first) = loss.packets.first() else { return };
        let w = self.window_of(&first.stamp);
        self.lost.get_or_insert((loss.now + GAP_EXPIRY, w));
    }

    /// The window at which a packet was sent. An empty stamp is from another controller.
    fn window_of(&self, stamp: &Stamp) -> u32 {
        match stamp.local[0] >> 16 {
            0 => self.w as u32,
            w => u32::try_from(w).unwrap_or(u32::MAX),
        }
    }

    /// Whether a loss ends slow start by now; then the window is what that leaves. A small window
    /// is cut and goes on.
    pub(super) fn is_lost(&mut self, now: Time) -> bool {
        let Some((_, lost)) = self.lost.filter(|(due, _)| now >= *due) else { return false };
        self.lost = None;
        self.w = self.rules.after_loss(self.w, lost);
        self.rules.ends_by_loss(self.w)
    }
}
