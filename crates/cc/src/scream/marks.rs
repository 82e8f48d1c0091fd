//! The share of packets that arrive marked, which a queue of the L4S service sets.

use cellpace_base::{Span, Time};

use super::averages::is_due;
use super::params::ScreamParams;

/// Least time between two updates.
const EVERY: Span = Span::from_millis(10);

/// l4s_alpha, and what it is computed from.
#[derive(Debug, Clone)]
pub(super) struct MarkedShare {
    up: f64,
    down: f64,
    pub(super) alpha: f64,
    /// Packets since the last update.
    delivered: u64,
    marked: u64,
    last: Option<Time>,
}

impl MarkedShare {
    pub(super) fn new(params: &ScreamParams) -> Self {
        let (up, down) = (params.alpha_up, params.alpha_down);
        Self { up, down, alpha: 0.0, delivered: 0, marked: 0, last: None }
    }

    pub(super) fn count(&mut self, delivered: u64, marked: u64) {
        self.delivered += delivered;
        self.marked += marked;
    }

    pub(super) fn forget(&mut self) {
        (self.alpha, self.delivered, self.marked, self.last) = (0.0, 0, 0, None);
    }

    /// Section 5.2 a: fast up, slow down.
    pub(super) fn update(&mut self, now: Time, srtt: Span) {
        if self.delivered == 0 || !is_due(self.last, now, EVERY.min(srtt)) {
            return;
        }
        self.last = Some(now);
        let share = (self.marked as f64 / self.delivered as f64).min(1.0);
        self.alpha = match share >= self.alpha {
            true => self.up * share + (1.0 - self.up) * self.alpha,
            false => (1.0 - self.down) * self.alpha,
        };
        (self.delivered, self.marked) = (0, 0);
    }
}
