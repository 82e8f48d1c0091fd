//! BBRv3's parameters. Where nothing else is said, a default is that of the draft.

use cellpace_base::{Window, params};

use crate::Span;

const DRAFT: &str = "draft-ietf-ccwg-bbr";
const SECOND: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3600);

params! {
    /// BBRv3's parameters.
    pub(crate) struct Bbr3Params {
        /// Probe the RTT at the rate of the last round where that is below the maximum
        probe_rtt_latest: bool = "false", from "ours: docs/spec/bbr3.md 9.3";
        /// Ask queues for classic marks, as version 3 in Linux does in data centres
        ecn: bool = "false", from "Linux v3";
    }
    expert {
        /// Initial window, also after a change of path
        initial_window: Window = "10pkts", from "RFC 6928", logarithmic;
        /// Smallest window, except after a timeout (MinPipeCwnd)
        min_window: Window = "4pkts", from DRAFT, logarithmic;
        /// Share of the flight whose loss says that a probe went too far (LossThresh)
        loss_threshold: f64 = "0.02" in 0.0..=0.5, from DRAFT;
        /// What losses leave of the bounds on flight and bandwidth (Beta)
        loss_factor: f64 = "0.7" in 0.1..=1.0, from DRAFT;
        /// Share of the bound on the flight that is left free while not probing (Headroom)
        headroom: f64 = "0.15" in 0.0..=0.5, from DRAFT;
        /// Separate losses in a round below which the loss threshold is not applied
        min_loss_events: u64 = "1" in 1..=100,
            from "draft-ietf-ccwg-bbr (1); quiche and s2n-quic (2)";
        /// Share by which the pacing rate stays below the bandwidth (PacingMarginPercent)
        margin: f64 = "0.01" in 0.0..=0.5, from DRAFT;
        /// Pacing gain of Startup
        startup_gain: f64 = "2.77" in 1.1..=10.0, from "draft-ietf-ccwg-bbr: 4 ln 2";
        /// Pacing gain of Drain
        drain_gain: f64 = "0.5" in 0.05..=1.0, from DRAFT;
        /// Window in bandwidth-delay products
        cwnd_gain: f64 = "2" in 1.0..=10.0, from DRAFT;
        /// Pacing gain of ProbeBW_DOWN
        down_gain: f64 = "0.9" in 0.1..=1.0, from DRAFT;
        /// Pacing gain of ProbeBW_UP
        up_gain: f64 = "1.25" in 1.0..=4.0, from DRAFT;
        /// Window in bandwidth-delay products in ProbeBW_UP
        up_cwnd_gain: f64 = "2.25" in 1.0..=10.0, from DRAFT;
        /// Window in bandwidth-delay products in ProbeRTT
        probe_rtt_cwnd_gain: f64 = "0.5" in 0.1..=1.0, from DRAFT;
        /// Separate losses in a round that end Startup, if the threshold is exceeded, too
        startup_loss_ranges: u64 = "6" in 1..=100,
            from "draft-ietf-ccwg-bbr (StartupFullLossCnt); quiche: 8";
        /// Growth per round below which the pipe seems full
        full_growth: f64 = "1.25" in 1.0..=4.0, from DRAFT;
        /// Rounds without that growth until it is
        full_rounds: u64 = "3" in 1..=100, from DRAFT;
        /// Rounds that Drain lasts at most
        drain_rounds: u64 = "3" in 1..=100, from DRAFT;
        /// Least time between two probes for bandwidth; a random part of a second comes on top
        probe_wait: Span = "2s" in Span::from_millis(10)..=HOUR, from DRAFT, logarithmic;
        /// Rounds between two probes at most, to leave Reno a fair share
        reno_rounds: f64 = "63" in 1.0..=1000.0, from DRAFT, logarithmic;
        /// How long a minimum RTT is believed (MinRTTFilterLen)
        min_rtt_window: Span = "10s" in SECOND..=HOUR, from DRAFT, logarithmic;
        /// Time without a new minimum after which the RTT is probed (ProbeRTTInterval)
        probe_rtt_interval: Span = "5s" in SECOND..=HOUR,
            from "draft-ietf-ccwg-bbr; quiche: 10 s", logarithmic;
        /// How long the flight stays low for that (ProbeRTTDuration)
        probe_rtt_time: Span = "200ms" in Span::from_millis(1)..=SECOND, from DRAFT, logarithmic;
        /// Rounds for which the largest bundle of acks is remembered (ExtraAckedFilterLen)
        extra_acked_rounds: u64 = "10" in 1..=100, from DRAFT;
        /// A bundle counts for no more than the bandwidth brings in this time
        extra_acked_max: Option<Span> = "" in Span::from_millis(1)..=HOUR,
            from "Linux v3: 100 ms", logarithmic;
    }
    presets {
        linux = "drain_gain=0.344,down_gain=0.906,extra_acked_max=100ms",
            "gains and bundles as the version 3 that Google maintains for Linux has them",
            from "github.com/google/bbr, branch v3";
        quiche = "min_loss_events=2,startup_loss_ranges=8,probe_rtt_interval=10s,margin=0",
            "what quiche does differently, as far as it is a parameter here",
            from "quiche, bbr3_sender";
        cellular = "min_loss_events=2,probe_rtt_latest=true",
            "one lost packet ends no probe, and a fall of the rate does not spoil the base RTT",
            from "ours: docs/spec/bbr3.md 9.3";
    }
}
