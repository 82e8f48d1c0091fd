//! SCReAM's parameters.

use cellpace_base::{Window, params, words};

use crate::{Rate, Span};

/// The draft of version 2.
const DRAFT: &str = "draft-johansson-ccwg-rfc8298bis-screamv2";

/// Bounds of rates that can be set.
const MIN_BPS: Rate = Rate::from_bps(1_000);
const MAX_BPS: Rate = Rate::from_bps(10_000_000_000);

params! {
    /// The parameters of SCReAM v2.
    pub(crate) struct ScreamParams {
        /// Smallest rate of the encoder
        min_rate: Rate = "100kbit" in MIN_BPS..=MAX_BPS, from "the application's", logarithmic;
        /// Largest rate of the encoder, which the flow does not go beyond
        max_rate: Rate = "20mbit" in MIN_BPS..=MAX_BPS, from "the application's", logarithmic;
        /// Queueing delay that is aimed at
        target: Span = "60ms" in Span::from_millis(1)..=Span::from_secs(10), from DRAFT, logarithmic;
        /// Ask queues for marks: classic ones that stand for a loss, or those of the L4S service
        ecn: EcnUse = "off", from "the draft; RFC 3168, RFC 9331";
    }
    expert {
        /// Largest such delay where it follows competing flows
        max_target: Span = "400ms" in Span::from_millis(1)..=Span::from_secs(10), from DRAFT,
            logarithmic;
        /// Whether that delay follows flows that fill the buffer
        compete: bool = "false", from "the draft, section on competing flows";
        /// Initial reference window; the draft has 3000 bytes
        initial_window: Window = "10pkts", from "RFC 6928 section 2", logarithmic;
        /// Smallest reference window
        min_window: Window = "3000B", from DRAFT, logarithmic;
        /// How far the window may be above the flight of the last two round trips
        head_room: f64 = "1.5" in 1.0..=10.0, from "the draft; 2.0 earlier, WebRTC 1.1";
        /// Least that may be in flight, as a multiple of the window, where delays vary
        overhead_min: f64 = "1.5" in 1.0..=20.0, from DRAFT;
        /// Most that may be in flight, as a multiple of the window, where they do not
        overhead_max: f64 = "3" in 1.0..=20.0, from "the draft; 5.0 earlier";
        /// What a loss leaves of the window
        loss_factor: f64 = "0.7" in 0.1..=0.99, from DRAFT;
        /// What a classic mark leaves of the window
        mark_factor: f64 = "0.8" in 0.1..=0.99, from "the draft; RFC 8511";
        /// Weight of a larger share of marked packets in its average (l4s_alpha)
        alpha_up: f64 = "0.125" in 1e-3..=1.0, from DRAFT;
        /// What an update with a smaller share takes from that average
        alpha_down: f64 = "0.0078125" in 1e-4..=1.0, from DRAFT;
        /// Round trips without congestion after which the window grows fastest
        post_rtts: f64 = "100" in 1.0..=1e5, unit "RTT", from DRAFT;
        /// Growth in proportion to the window
        mul_increase: f64 = "0.02" in 0.0..=1.0, from DRAFT;
        /// RTT below which reactions are no faster
        vrtt: Span = "25ms" in Span::from_millis(1)..=Span::from_secs(1), from DRAFT;
        /// Weight of a sample of the queueing delay above its average
        qdelay_gain: f64 = "0.25" in 1e-3..=1.0, from DRAFT;
        /// Less growth, and less in flight, where delays vary
        stable: bool = "true", from "the draft (optional)";
        /// Weight of a sample of the variation of delays
        dev_gain: f64 = "0.015625" in 1e-4..=1.0, from DRAFT;
        /// Queueing delay that counts as a variation of one
        dev_norm: Span = "25ms" in Span::from_millis(1)..=Span::from_secs(1), from DRAFT;
        /// Least share of the growth that varying delays leave
        dev_min: f64 = "0.1" in 0.0..=1.0, from DRAFT;
        /// Pacing rate as a multiple of the media rate
        pace_headroom: f64 = "1.5" in 1.0..=10.0, from DRAFT;
        /// Smallest media rate that is paced
        pace_min: Rate = "50kbit" in MIN_BPS..=MAX_BPS, from DRAFT, logarithmic;
        /// How much faster pacing is at the encoder's largest rate
        relax_max: f64 = "4" in 1.0..=100.0, from DRAFT;
        /// Share of the largest rate from which pacing becomes faster
        relax_from: f64 = "0.8" in 0.0..=0.99, from DRAFT;
        /// Weight of the time that frames wait at the sender
        adjust_gain: f64 = "0.0625" in 1e-3..=1.0, from DRAFT;
        /// Weight of frames that are larger than asked for
        size_gain: f64 = "0.015625" in 1e-4..=1.0, from DRAFT;
        /// Bytes of headers in a full packet
        packet_overhead: u64 = "40" in 0..=500, unit "B", from "IPv4, UDP and a small header; the draft 20";
    }
}

words! {
    /// Which marks the flow asks for.
    pub(crate) enum EcnUse {
        Off = "off",
        Classic = "classic",
        L4s = "l4s",
    }
}
