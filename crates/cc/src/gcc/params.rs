//! GCC's parameters.

use cellpace_base::{params, words};

use crate::{Rate, Span};

/// The draft.
const DRAFT: &str = "draft-ietf-rmcat-gcc-02";

/// Bounds of rates that can be set.
const MIN_BPS: Rate = Rate::from_bps(1_000);
const MAX_BPS: Rate = Rate::from_bps(10_000_000_000);

params! {
    /// The parameters of Google congestion control.
    pub(crate) struct GccParams {
        /// Smallest rate of the encoder
        min_rate: Rate = "30kbit" in MIN_BPS..=MAX_BPS, from "WebRTC", logarithmic;
        /// Largest rate of the encoder
        max_rate: Rate = "20mbit" in MIN_BPS..=MAX_BPS, from "the application's", logarithmic;
        /// How the growth of delay is estimated: by the draft's Kalman filter, or as WebRTC has done since 2016
        filter: FilterKind = "trendline", from "WebRTC; the draft has kalman";
    }
    expert {
        /// Rate at the start
        start_rate: Rate = "300kbit" in MIN_BPS..=MAX_BPS, from "WebRTC", logarithmic;
        /// Time between two reports of the receiver; 0ms is each ack
        feedback: Span = "100ms" in Span::ZERO..=Span::from_secs(1), from "WebRTC: 50 to 250 ms by rate";
        /// Two short bursts at the start that may raise the rate
        probe: bool = "true", from "WebRTC";
        /// Whether what is in flight is limited
        pushback: bool = "true", from "WebRTC, its congestion window";
        /// How much more than a round trip may be in flight, in time at the target rate
        queue: Span = "500ms" in Span::ZERO..=Span::from_secs(10), from "WebRTC";
        /// Growth per second far from convergence
        growth: f64 = "1.08" in 1.0..=2.0, from DRAFT;
        /// What over-use leaves of the rate that arrives
        beta: f64 = "0.85" in 0.5..=0.99, from DRAFT;
        /// Initial threshold of the over-use detector
        threshold: Span = "12.5ms" in Span::from_millis(1)..=Span::from_secs(1), from DRAFT;
        /// How fast the threshold grows
        threshold_up: f64 = "0.01" in 0.0..=1.0, from "draft-ietf-rmcat-gcc-02; WebRTC: 0.0087";
        /// How fast it falls
        threshold_down: f64 = "0.00018" in 0.0..=1.0, from "draft-ietf-rmcat-gcc-02; WebRTC: 0.039";
        /// How long over-use has to last
        overuse_time: Span = "10ms" in Span::ZERO..=Span::from_secs(1), from DRAFT;
        /// Pacing rate as a multiple of the target, where an encoder keeps to the target
        pace_headroom: f64 = "2.5" in 1.0..=10.0, from "WebRTC";
    }
}

words! {
    /// How the growth of delay is estimated.
    pub(crate) enum FilterKind {
        Trendline = "trendline",
        Kalman = "kalman",
    }
}
