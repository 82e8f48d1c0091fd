//! A controller of your own: one packet more per round trip, and less of the window when packets are lost.

pub mod queue;

use cellpace_cc::{Ack, Controller, ControllerInfo, ControllerParams, Loss, Permit, Setup, params};

/// What `cellpace::main_with` takes: the name in `--cc`, and what `cellpace cc` says of it.
pub const HALVING: ControllerInfo = ControllerInfo::new::<HalvingParams>(
    "halving",
    "one packet more per round trip, a part of the window after a loss",
);

params! {
    /// The parameters, as in `--cc halving:beta=0.7`.
    pub struct HalvingParams {
        /// What a loss leaves of the window
        beta: f64 = "0.5" in 0.1..=0.9, from "RFC 5681, section 3.1";
    }
    presets {
        gentle = "beta=0.7", "as CUBIC after a loss", from "RFC 9438, section 4.6";
    }
}

impl ControllerParams for HalvingParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let Setup { mss, .. } = setup;
        Box::new(Halving { mss, beta: self.beta, cwnd: 10 * mss, reduced_at: 0 })
    }
}

/// The controller of one flow; the window is in bytes.
struct Halving {
    mss: u64,
    beta: f64,
    cwnd: u64,
    /// Packets from this number on were sent after the last reduction.
    reduced_at: u64,
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
            self.cwnd = ((self.cwnd as f64 * self.beta) as u64).max(2 * self.mss);
            self.reduced_at = loss.next_number;
        }
    }
}
