//! Copa's parameters.

use cellpace_base::{Window, params, words};

use crate::Span;

params! {
    /// Copa's parameters.
    pub(crate) struct CopaParams {
        /// One over the packets to keep queued on average; ALCC and MDI compare to 0.02
        delta: f64 = "0.5" in 0.0001..=10.0, unit "1/pkt", from "Copa (NSDI'18) section 2",
            logarithmic;
        /// Lower delta among flows that fill the buffer, or leave it constant
        mode: CopaMode = "auto", from "Copa section 2.2";
        /// How far auto mode may lower delta, as a share of delta; 0 removes the bound, and then a
        /// lone flow with a small delta never leaves competitive mode
        min_delta: f64 = "0.1" in 0.0..=1.0, from "cellpace";
        /// Double the velocity after three windows in one direction, or from the first RTT
        velocity: VelocityRule = "paper", from "Copa section 2.1; genericCC";
        /// Initial window
        initial_window: Window = "10pkts", from "RFC 6928; genericCC", logarithmic;
        /// Smallest window
        min_window: Window = "2pkts", from "genericCC", logarithmic;
    }
    expert {
        /// Halve the velocity once per ack while above cwnd*delta
        velocity_cap: bool = "true", from "genericCC";
        /// Compare with <= or, like the original code, with <
        near_empty: NearEmpty = "inclusive", from "Copa section 2.2; genericCC";
        /// Acks before the window moves; 19 is what the original code does
        probe: u64 = "0" in 0..=1000, unit "acks", from "genericCC";
        /// Start over after this long without an ack, keeping the minimum RTT
        idle: Span = "2s" in Span::from_millis(100)..=Span::from_secs(3600), from "genericCC",
            logarithmic;
    }
    presets {
        code = "velocity=code,near_empty=strict,probe=19,min_delta=0",
            "as the original program decides", from "genericCC";
        alcc = "delta=0.02,velocity=code",
            "as the runs that ALCC and MDI compare with were started", from "ALCC section 5; genericCC";
    }
}

words! {
    /// Whether delta changes.
    pub(crate) enum CopaMode {
        Auto = "auto",
        Constant = "constant",
    }
}

words! {
    /// When the velocity doubles.
    pub(crate) enum VelocityRule {
        PaperVelocity = "paper",
        CodeVelocity = "code",
    }
}

words! {
    /// How the delay is compared with the bound below which the queue is nearly empty.
    pub(crate) enum NearEmpty {
        Inclusive = "inclusive",
        Strict = "strict",
    }
}

/// One packet of a window.
pub(super) const PACKET: u64 = 1 << 32;
/// One packet of those to keep queued.
pub(super) const KEPT_ONE: u64 = 1 << 16;

/// The parameters in the units of the law.
#[derive(Debug, Clone, Copy)]
pub(super) struct CopaSettings {
    pub(super) mss: u64,
    /// Packets to keep queued, 1/delta, and at most among flows that fill the buffer.
    pub(super) kept: u64,
    pub(super) most_kept: u64,
    pub(super) initial_window: u64,
    pub(super) min_window: u64,
}

impl CopaSettings {
    /// More packets to keep queued than any buffer has.
    const MOST_KEPT: u64 = KEPT_ONE << 20;

    pub(super) fn new(params: &CopaParams, mss: u64) -> Self {
        let mss = mss.max(1);
        let packets = |window: Window| {
            let bytes = window.bytes(mss).min(mss << 20);
            bytes / mss * PACKET + bytes % mss * PACKET / mss
        };
        let kept =
            |delta: f64| (KEPT_ONE as f64 / delta).round().min(Self::MOST_KEPT as f64) as u64;
        let min_window = packets(params.min_window).clamp(PACKET, PACKET << 20);
        Self {
            mss,
            kept: kept(params.delta),
            most_kept: kept(params.delta * params.min_delta),
            initial_window: packets(params.initial_window).clamp(min_window, PACKET << 20),
            min_window,
        }
    }

    /// `struct copa_settings` of the program in the kernel.
    pub(super) fn words(&self, params: &CopaParams) -> Vec<u64> {
        let Self { mss, kept, most_kept, initial_window, min_window } = *self;
        let switches = [
            params.mode == CopaMode::Auto,
            params.velocity == VelocityRule::CodeVelocity,
            params.velocity_cap,
            params.near_empty == NearEmpty::Strict,
        ];
        let mut words = vec![mss, kept, most_kept, initial_window, min_window];
        words.extend(switches.map(u64::from));
        words.extend([params.probe, params.idle.as_nanos()]);
        words
    }
}
