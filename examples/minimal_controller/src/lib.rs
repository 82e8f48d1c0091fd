//! A controller of your own: one packet more per round trip, half the window when packets are lost.

use cellpace_cc::{Ack, Controller, Loss, Permit, Setup};

/// The controller.
pub struct Halving {
    mss: u64,
    cwnd: u64,
    /// Packets from this number on were sent after the last reduction.
    reduced_at: u64,
}

impl Halving {
    /// A flow at its start.
    pub fn new(setup: &Setup) -> Self {
        Self { mss: setup.mss, cwnd: 10 * setup.mss, reduced_at: 0 }
    }
}

impl Controller for Halving {
    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.cwnd += (self.mss * ack.bytes()).div_ceil(self.cwnd);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        // Once per round trip: the packets of one burst of losses count as one.
        if loss.packets.iter().any(|packet| packet.number >= self.reduced_at) {
            self.cwnd = (self.cwnd / 2).max(2 * self.mss);
            self.reduced_at = loss.next_number;
        }
    }
}
