//! What marks of congestion say, as BBRv3 in Linux takes them: the draft leaves them out.

/// Marks of the round that runs, and the smoothed share of marked packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct RoundMarks {
    /// Smoothed over rounds (`ecn_alpha`).
    pub(super) alpha: f64,
    delivered: u64,
    marked: u64,
    /// Marks that the last ack named, for datapaths that report more than they name.
    named: u64,
    /// Rounds in a row of which at least half came marked.
    heavy: u32,
}

impl RoundMarks {
    /// Weight of a round in alpha.
    const GAIN: f64 = 1.0 / 16.0;
    /// Of the flight, alpha times this goes after a round with marks.
    const FACTOR: f64 = 1.0 / 3.0;
    /// Share of marked packets that says that a probe went too far.
    const THRESHOLD: f64 = 0.5;
    /// Rounds with that share which end Startup.
    const STARTUP_ROUNDS: u32 = 2;

    pub(super) fn new() -> Self {
        Self { alpha: 1.0, delivered: 0, marked: 0, named: 0, heavy: 0 }
    }

    /// An ack of so many packets, of which so many came marked.
    pub(super) fn on_ack(&mut self, delivered: u64, marked: u64) {
        self.delivered += delivered;
        self.marked += marked;
        self.named = marked;
    }

    /// The report of marks that follows an ack.
    pub(super) fn on_mark(&mut self, marked: u64) {
        self.marked += marked.saturating_sub(std::mem::take(&mut self.named));
    }

    /// A round is over. Returns the share of its packets that came marked.
    pub(super) fn end_round(&mut self) -> f64 {
        let share = (self.marked as f64 / self.delivered.max(1) as f64).min(1.0);
        (self.delivered, self.marked) = (0, 0);
        self.alpha += Self::GAIN * (share - self.alpha);
        self.heavy = if share >= Self::THRESHOLD { self.heavy.saturating_add(1) } else { 0 };
        share
    }

    /// Whether the last round came marked so much that a probe has gone too far.
    pub(super) fn is_too_high(&self) -> bool {
        self.heavy > 0
    }

    /// Whether the last rounds have shown that the pipe is full.
    pub(super) fn ends_startup(&self) -> bool {
        self.heavy >= Self::STARTUP_ROUNDS
    }

    /// What a round with marks leaves of the flight.
    pub(super) fn left(&self) -> f64 {
        1.0 - self.alpha * Self::FACTOR
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bbr3_b21_alpha_follows_the_share_of_marks() {
        let mut marks = RoundMarks::new();
        for (marked, alpha, left) in [
            (0, 0.9375, 0.6875),
            (0, 0.878_906, 0.707_031),
            (5, 0.855_225, 0.714_925),
            (10, 0.864_273, 0.711_909),
        ] {
            marks.on_ack(10, marked);
            assert_eq!(marks.end_round(), marked as f64 / 10.0);
            assert!((marks.alpha - alpha).abs() < 1e-6, "{}", marks.alpha);
            assert!((marks.left() - left).abs() < 1e-6, "{}", marks.left());
        }
        assert!(marks.is_too_high() && marks.ends_startup());
        marks.on_ack(10, 4);
        marks.end_round();
        assert!(!marks.is_too_high());
    }

    #[test]
    fn marks_that_no_ack_names_count_once() {
        let mut marks = RoundMarks::new();
        marks.on_ack(10, 2);
        marks.on_mark(2);
        marks.on_ack(10, 0);
        marks.on_mark(3);
        assert_eq!(marks.end_round(), 0.25);
    }
}
