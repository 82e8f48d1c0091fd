//! Prague's parameters.

use cellpace_base::{Span, Window, params};

params! {
    /// Prague's parameters.
    pub(crate) struct PragueParams {
        /// Initial window
        initial_window: Window = "10pkts", from "RFC 6928 section 2", logarithmic;
        /// The shortest RTT that growth and reductions go by
        virtual_rtt: Span = "25ms" in Span::from_micros(1)..=Span::from_secs(1),
            from "RFC 9331 section 4.3; Linux tcp_prague", logarithmic;
    }
    expert {
        /// Weight of a round trip in the smoothed share of marked packets (g)
        gain: f64 = "0.0625" in 0.001..=1.0, from "RFC 8257 section 4.2", logarithmic;
        /// What a loss event leaves of the window
        loss_factor: f64 = "0.5" in 0.1..=0.95, from "RFC 5681 equation 4; RFC 8257 section 3.5";
        /// Smallest window
        min_window: Window = "2pkts", from "Linux tcp_prague", logarithmic;
        /// The smoothed share before the first mark, which so halves the window
        initial_alpha: f64 = "1" in 0.0..=1.0, from "RFC 8257 section 4.2";
        /// From this RTT on growth goes by the RTT as it is
        max_scaled_rtt: Span = "100ms" in Span::from_micros(1)..=Span::from_secs(10),
            from "Linux tcp_prague", logarithmic;
        /// Virtual round trips before growth goes by the virtual RTT
        transition: u64 = "4" in 0..=1_000_000, unit "RTT", from "Linux tcp_prague";
        /// Share by which the pacing rate is above and below the mean, in turn
        pacing_swing: f64 = "0.03" in 0.0..=0.5, from "Linux tcp_prague";
        /// What may leave back to back, as time at the pacing rate; a packet at least
        burst: Span = "250us" in Span::ZERO..=Span::from_secs(1),
            from "RFC 9331 section 4.3; Linux tcp_prague", logarithmic;
    }
}
