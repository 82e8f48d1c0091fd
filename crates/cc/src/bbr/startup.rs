//! STARTUP: doubles the rate each round until the pipe is full.

/// Pacing and window gain, 2/ln 2 (ACM Queue 2016).
pub(super) const GAIN: f64 = 2.885;

/// Bandwidth growth per round below which the pipe seems full (ACM Queue 2016).
const FULL_GROWTH: f64 = 1.25;
/// Rounds without that growth before STARTUP ends (ACM Queue 2016).
const FULL_ROUNDS: u64 = 3;

/// Whether the pipe is full.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FullPipe {
    /// The bandwidth that the next rounds should exceed, bytes per second.
    pub(super) bw: u64,
    rounds: u64,
    pub(super) reached: bool,
}

impl FullPipe {
    /// A round ended that was not application-limited, with the bandwidth `bw`.
    pub(super) fn end_round(&mut self, bw: u64) {
        if self.reached {
            return;
        }
        if bw as f64 >= FULL_GROWTH * self.bw as f64 {
            self.bw = bw;
            self.rounds = 0;
            return;
        }
        self.rounds += 1;
        self.reached = self.rounds >= FULL_ROUNDS;
    }

    /// Compares with nothing that was measured before.
    pub(super) fn start_over(&mut self) {
        self.bw = 0;
        self.rounds = 0;
    }
}
