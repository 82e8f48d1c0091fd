//! The rules of slow start (docs/spec/verus.md 5), for Verus itself and for a table that
//! was learnt from it and begins as it does.

use cellpace_base::words;

use super::profile::MAX_WINDOW;

/// How slow start grows and what ends it. Windows in packets, delays in ms.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct VerusSlowStart {
    pub(crate) exit_rule: ExitRule,
    /// RTT that ends it.
    pub(crate) exit_delay: f64,
    /// RTT over base delay that ends it.
    pub(crate) exit_ratio: f64,
    /// Window above which a loss ends it.
    pub(crate) exit_loss: f64,
    pub(crate) credit: CreditRule,
    /// What the delay or a loss that ends it leaves of the window.
    pub(crate) m: f64,
    pub(crate) max_window: f64,
}

words! {
    /// Which delay ends slow start.
    pub(crate) enum ExitRule {
        Min = "min",
        Absolute = "absolute",
        Ratio = "ratio",
    }
}

words! {
    /// Whether slow start counts credit that is not spent yet.
    pub(crate) enum CreditRule {
        Alcc = "alcc",
        Code = "code",
    }
}

impl Default for VerusSlowStart {
    /// What Verus does where no parameter changes it.
    fn default() -> Self {
        Self {
            exit_rule: ExitRule::Min,
            exit_delay: 500.0,
            exit_ratio: 15.0,
            exit_loss: 20.0,
            credit: CreditRule::Alcc,
            m: 0.7,
            max_window: f64::from(MAX_WINDOW),
        }
    }
}

impl VerusSlowStart {
    /// Above this RTT slow start ends.
    pub(crate) fn exit_delay(&self, base: f64) -> f64 {
        let relative = self.exit_ratio * base;
        match self.exit_rule {
            ExitRule::Absolute => self.exit_delay,
            ExitRule::Ratio => relative,
            // On a path with a base RTT above the absolute limit every RTT exceeds it; only half
            // as much again means that there is a queue.
            ExitRule::Min => self.exit_delay.min(relative).max(1.5 * base),
        }
    }

    /// The window after exit a, by an ack of a packet that was sent at the window `acked`.
    pub(crate) fn after_delay(&self, acked: u32) -> f64 {
        (self.m * f64::from(acked)).clamp(1.0, self.max_window)
    }

    /// The window `w` after the loss of a packet that was sent at the window `lost`.
    pub(crate) fn after_loss(&self, w: f64, lost: u32) -> f64 {
        (self.m * f64::from(lost)).min(w).max(1.0) // Eq. 6, Verus
    }

    /// Whether a loss that left the window `w` ends slow start: exit b.
    pub(crate) fn ends_by_loss(&self, w: f64) -> bool {
        w.floor() > self.exit_loss
    }

    /// The window after an ack (docs/spec/verus.md 5.2).
    pub(crate) fn grown(&self, w: f64) -> f64 {
        (w + 1.0).min(self.max_window)
    }

    /// The credit after an ack, of which `credit` was there before (section 5.2).
    pub(crate) fn granted(&self, w: f64, in_flight: f64, credit: f64) -> f64 {
        let unspent = match self.credit {
            CreditRule::Alcc => credit,
            CreditRule::Code => 0.0,
        };
        let room = (w - in_flight - unspent).max(0.0);
        (credit + room).min(self.max_window)
    }
}
