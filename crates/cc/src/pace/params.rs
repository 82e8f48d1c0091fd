//! Pace's parameters.

use cellpace_base::{Window, params};

use crate::Span;

params! {
    /// Pace's parameters.
    pub(crate) struct PaceParams {
        /// Share of the packets that should find the queue empty: with less the link is fuller and
        /// the queue longer
        empty: f64 = "1%" in 0.0001..=0.5, from "docs/spec/pace.md section 4", logarithmic;
    }
    expert {
        /// Packets in the window beside its part for the rate; they make shares equal
        extra: f64 = "3" in 1.0..=100.0, unit "pkt", from "docs/spec/pace.md section 5", logarithmic;
        /// Time constant of the measured rate
        memory: Span = "150ms" in Span::from_millis(10)..=Span::from_secs(10),
            from "docs/spec/pace.md section 3", logarithmic;
        /// Step of the headroom per window of packets that find the queue empty
        learning: f64 = "0.04" in 0.001..=0.5, from "docs/spec/pace.md section 4", logarithmic;
        /// After this long without an empty queue the window shrinks for two round trips, to see it
        search: Span = "10s" in Span::from_millis(500)..=Span::from_secs(600),
            from "docs/spec/pace.md section 6", logarithmic;
        /// Initial window
        initial_window: Window = "10pkts", from "RFC 6928", logarithmic;
        /// Smallest window
        min_window: Window = "2pkts", from "docs/spec/pace.md section 2", logarithmic;
    }
}
