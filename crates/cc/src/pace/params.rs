//! Pace's parameters.

use cellpace_base::{Window, params};

use super::units::{MAX_WINDOW, ONE, micros, packets_of};
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

/// The parameters in the units of the law.
#[derive(Debug, Clone, Copy)]
pub(super) struct PaceSettings {
    pub(super) mss: u64,
    pub(super) extra: u64,
    pub(super) initial_window: u64,
    pub(super) min_window: u64,
    /// Time constant in microseconds.
    pub(super) memory: u64,
    /// With 24 bits behind the point.
    pub(super) empty: u64,
    pub(super) learning: u64,
    pub(super) search: Span,
}

impl PaceSettings {
    const SHARE_ONE: f64 = (1 << 24) as f64;

    pub(super) fn new(params: &PaceParams, mss: u64) -> Self {
        let mss = mss.max(1);
        let packets = |window: Window| packets_of(window.bytes(mss), mss);
        let min_window = packets(params.min_window).clamp(ONE, MAX_WINDOW);
        Self {
            mss,
            extra: (params.extra * ONE as f64) as u64,
            initial_window: packets(params.initial_window).clamp(min_window, MAX_WINDOW),
            min_window,
            memory: micros(params.memory).max(10_000),
            empty: (params.empty * Self::SHARE_ONE) as u64,
            learning: (params.learning * ONE as f64) as u64,
            search: params.search,
        }
    }

    /// `struct pace_settings` of the program in the kernel.
    pub(super) fn words(&self) -> Vec<u64> {
        let Self { mss, extra, initial_window, min_window, memory, empty, learning, search } =
            *self;
        vec![mss, extra, initial_window, min_window, memory, empty, learning, search.as_nanos()]
    }
}
