//! Westwood+: NewReno whose loss events set the window to what the path carried, as measured by
//! the rate of acks.
//!
//! L. Grieco, S. Mascolo: Performance evaluation and comparison of Westwood+, New Reno, and Vegas
//! TCP congestion control (ACM CCR 34(2), 2004), in the form that Linux has.

use cellpace_base::{Span, Time, params};

use crate::window::flow::{
    Acked, CongestionWindow, MIN_SSTHRESH, WindowFlow, WindowLaw, WindowParams,
};
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// Westwood+'s parameters.
    pub(crate) struct WestwoodParams {}
    expert {
        /// Shortest time over which the rate of acks is measured, where the RTT is not longer
        sample_time: Span = "50ms" in Span::from_millis(1)..=Span::from_secs(10),
            from "Linux tcp_westwood";
    }
    with { window: WindowParams }
}

impl ControllerParams for WestwoodParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(Westwood::new(self), &self.window, &setup))
    }
}

/// What a loss event leaves of the flight while there is no estimate (RFC 5681 equation 4).
const WITHOUT_ESTIMATE: f64 = 0.5;

struct Westwood {
    sample_time: Span,
    min_rtt: Option<Span>,
    bandwidth: Bandwidth,
}

/// The rate at which acks come, in bytes per second.
#[derive(Debug, Default)]
struct Bandwidth {
    /// When the running sample began.
    since: Option<Time>,
    /// What was acked since.
    acked: u64,
    /// The filter's first and second stage; none before the first sample.
    stages: Option<(f64, f64)>,
}

impl Bandwidth {
    /// Counts the bytes of an ack, and takes a sample when it is due. The first ack begins the
    /// first sample: what it covers arrived before.
    fn on_ack(&mut self, now: Time, bytes: u64, at_least: Span) {
        let Some(since) = self.since else {
            self.since = Some(now);
            return;
        };
        self.acked = self.acked.saturating_add(bytes);
        let took = now.since(since);
        if took < at_least || took.is_zero() {
            return;
        }
        let rate = self.acked as f64 / took.as_secs_f64();
        // Westwood+ as in Linux: two stages of (7 old + new) / 8, the first sample sets both.
        let stages = self.stages.map(|(first, second)| {
            let first = (7.0 * first + rate) / 8.0;
            (first, (7.0 * second + first) / 8.0)
        });
        self.stages = Some(stages.unwrap_or((rate, rate)));
        (self.since, self.acked) = (Some(now), 0);
    }

    fn estimate(&self) -> Option<f64> {
        self.stages.map(|(_, estimate)| estimate)
    }
}

impl Westwood {
    fn new(params: &WestwoodParams) -> Self {
        let bandwidth = Bandwidth::default();
        Self { sample_time: params.sample_time, min_rtt: None, bandwidth }
    }
}

impl WindowLaw for Westwood {
    type Memory = ();

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        let rtt = ack.min_rtt();
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        self.bandwidth.on_ack(ack.now, ack.bytes(), rtt.max(self.sample_time));
        window.grow_as_reno(acked.growth, f64::INFINITY);
    }

    fn on_loss(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        let measured = self.bandwidth.estimate().zip(self.min_rtt);
        let ssthresh = match measured {
            // Westwood+: ssthresh = estimate * min RTT, in whole packets.
            Some((rate, rtt)) => window.packets((rate * rtt.as_secs_f64()) as u64).floor(),
            None => flight * WITHOUT_ESTIMATE,
        };
        ssthresh.max(MIN_SSTHRESH)
    }

    fn on_path_change(&mut self) {
        self.min_rtt = None;
        self.bandwidth = Bandwidth::default();
    }

    fn memory(&self) {}

    fn recall(&mut self, (): ()) {}

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("base_rtt_ms", self.min_rtt.unwrap_or(Span::ZERO).as_millis_f64());
        show("ack_rate_mbps", self.bandwidth.estimate().unwrap_or(0.0) * 8.0 / 1e6);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{ControllerFeed, setup};
    use cellpace_base::{ParamSet, Random};

    /// A law that has seen 100 packets of 1448 bytes in 100 ms, and the least RTT of 50 ms.
    fn measured() -> (Westwood, WindowFlow<Westwood>) {
        let params = WestwoodParams::defaults();
        let mut law = Westwood::new(&params);
        law.min_rtt = Some(Span::from_millis(50));
        law.bandwidth.on_ack(Time::from_millis(1000), 1448, Span::from_millis(50));
        law.bandwidth.on_ack(Time::from_millis(1100), 144_800, Span::from_millis(50));
        let setup = Setup { mss: 1448, start: Time::ZERO, random: Random::seeded(1, 0) };
        (law, WindowFlow::new(Westwood::new(&params), &params.window, &setup))
    }

    #[test]
    fn westwood_g9_samples_pass_two_filters() {
        let (mut law, flow) = measured();
        assert_eq!(law.bandwidth.stages, Some((1_448_000.0, 1_448_000.0)));
        assert_eq!(law.on_loss(&flow.window, 80.0), 50.0);
        law.bandwidth.on_ack(Time::from_millis(1200), 72_400, Span::from_millis(50));
        assert_eq!(law.bandwidth.stages, Some((1_357_500.0, 1_436_687.5)));
        assert_eq!(law.on_loss(&flow.window, 80.0), 49.0);
    }

    #[test]
    fn westwood_g9_a_sample_takes_an_rtt_or_50_ms() {
        let (mut law, _) = measured();
        law.bandwidth.on_ack(Time::from_millis(1149), 1448, Span::from_millis(50));
        assert_eq!(law.bandwidth.acked, 1448, "49 ms are too short");
        law.bandwidth.on_ack(Time::from_millis(1160), 1448, Span::from_millis(80));
        assert_eq!(law.bandwidth.acked, 2896, "so is less than an RTT");
        law.bandwidth.on_ack(Time::from_millis(1180), 1448, Span::from_millis(80));
        assert_eq!(law.bandwidth.acked, 0);
    }

    #[test]
    fn westwood_g9_half_of_the_flight_without_an_estimate() {
        let params = WestwoodParams::defaults();
        let flow = WindowFlow::new(Westwood::new(&params), &params.window, &setup());
        let mut feed = ControllerFeed::new(flow);
        feed.flow.window.cwnd = 40.0;
        feed.lose(40);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (20.0, 20.0));
    }

    #[test]
    fn westwood_g9_a_timeout_goes_to_one_packet_and_back_to_the_estimate() {
        let (law, mut flow) = measured();
        flow.law = law;
        flow.window.cwnd = 80.0;
        let mut feed = ControllerFeed::new(flow);
        feed.time_out(80, 1);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (1.0, 50.0));
        feed.flow.on_path_change(feed.now);
        assert_eq!(feed.shown("ack_rate_mbps"), 0.0);
        assert_eq!(feed.flow.law.on_loss(&feed.flow.window, 80.0), 40.0, "of another path");
    }
}
