//! BBR's parameters.

use cellpace_base::{Window, params};

use crate::Span;

params! {
    /// BBR's parameters.
    pub(crate) struct BbrParams {
        /// Initial window
        initial_window: Window = "10pkts", from "RFC 6928; Linux 4.9", logarithmic;
        /// Smallest window, and the window of PROBE_RTT
        min_window: Window = "4pkts", from "BBR (ACM Queue 2016); Linux 4.9",
            logarithmic;
        /// Recognise a policer by steady loss and pace at the rate it lets through
        policer: bool = "true", from "Linux 4.9 (long-term bandwidth)";
        /// Widen the window by what arrives at once beyond the bandwidth
        aggregation: bool = "false", from "Linux 5.1";
        /// Share by which the pacing rate stays below the bandwidth
        margin: f64 = "0" in 0.0..=0.5, from "Linux, later than 4.9: 0.01";
    }
    expert {
        /// How long a minimum RTT is believed
        rtprop_window: Span = "10s" in Span::from_millis(100)..=Span::from_secs(3600),
            from "BBR (ACM Queue 2016)", logarithmic;
        /// Count the quanta of the window also in the flight that ends DRAIN and the phases
        phase_quanta: bool = "false", from "Linux 4.9";
    }
    presets {
        linux = "aggregation=true,margin=0.01,phase_quanta=true",
            "as Linux has it since 5.1", from "Linux tcp_bbr";
    }
}
