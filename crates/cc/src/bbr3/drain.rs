//! Drain: empties the queue that Startup built.

/// When it ends.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Drain {
    start_round: u64,
}

impl Drain {
    /// Begins in the round number `round`.
    pub(super) fn start(round: u64) -> Self {
        Self { start_round: round }
    }

    /// Whether `in_flight` bytes are no more than the path holds, or too many rounds have passed
    /// for a queue to be still there.
    pub(super) fn is_over(self, in_flight: f64, path_holds: f64, round: u64, rounds: u64) -> bool {
        in_flight <= path_holds || round > self.start_round + rounds
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drain_ends_by_flight_or_at_the_fourth_round_start() {
        let drain = Drain::start(10);
        assert!(drain.is_over(60_000.0, 60_000.0, 10, 3));
        assert!(!drain.is_over(60_001.0, 60_000.0, 13, 3));
        assert!(drain.is_over(60_001.0, 60_000.0, 14, 3));
    }
}
