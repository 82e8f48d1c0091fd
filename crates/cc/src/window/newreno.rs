//! NewReno: slow start, one packet per RTT, half the flight on loss.
//!
//! RFC 5681, RFC 6582, RFC 3465. The datapath acks packet by packet, so this is the form of RFC
//! 6582 for senders with SACK: the window goes to ssthresh at once and stays there until a packet
//! sent after the reduction is acked. Partial acks and window inflation do not exist here.

use cellpace_base::params;

use crate::window::flow::{
    Acked, CongestionWindow, MIN_SSTHRESH, ReductionBase, WindowFlow, WindowLaw, WindowParams,
};
use crate::window::hystart::HyStartSigns;
use crate::window::slow_start::SlowStart;
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// NewReno's parameters.
    pub(crate) struct NewRenoParams {
        /// What a loss event leaves of the flight
        loss_factor: f64 = "0.5" in 0.1..=0.95, from "RFC 5681 equation 4";
    }
    expert {
        /// The signs of HyStart that end slow start early; pp is HyStart++
        hystart: HyStartSigns = "off", from "RFC 5681 (off); RFC 9406 (pp); Linux tcp_cubic";
        /// Most that one ack adds in slow start, however much it covers (L); 8 with HyStart++
        abc: f64 = "2" in 1.0..=1e6, unit "pkt", from "RFC 3465 section 2.2";
        /// What a loss event takes its share of; they differ where `max_window` binds
        reduce: ReductionBase = "flight", from "RFC 5681 equation 4 (flight); Linux (window)";
        /// With ecn, a mark leaves 0.8: queues that mark are short
        abe: bool = "true", from "RFC 8511 section 3 (ABE)";
    }
    with { window: WindowParams }
}

impl ControllerParams for NewRenoParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(NewReno::new(self), &self.window, &setup))
    }
}

/// beta_ecn: what a mark leaves of the flight (RFC 8511 section 3.1).
const ABE_FACTOR: f64 = 0.8;

pub(crate) struct NewReno {
    params: NewRenoParams,
    slow_start: SlowStart,
}

impl NewReno {
    pub(crate) fn new(params: &NewRenoParams) -> Self {
        // RFC 3465 section 2.3 lowers L to 1 after a timeout, because a cumulative ack may then
        // cover packets that arrived long ago. Acks of single packets cannot.
        let slow_start = SlowStart::new(params.hystart, params.abc);
        Self { params: params.clone(), slow_start }
    }
}

impl WindowLaw for NewReno {
    type Memory = ();

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        let left = self.slow_start.on_ack(window, ack, acked);
        window.cwnd += left / window.cwnd; // RFC 5681 Eq. 3
    }

    fn on_loss(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.slow_start.on_loss();
        let NewRenoParams { reduce, loss_factor, .. } = self.params;
        (reduce.packets(window, flight) * loss_factor).max(MIN_SSTHRESH) // RFC 5681 Eq. 4
    }

    fn on_timeout(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        let ssthresh = self.on_loss(window, flight);
        self.slow_start.on_timeout();
        ssthresh
    }

    fn on_path_change(&mut self) {
        self.slow_start.on_path_change();
    }

    /// Slow start has not found out how much the path holds, so that it ends as after a loss.
    fn on_mark(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        let NewRenoParams { loss_factor, reduce, abe, .. } = self.params;
        if !(abe && self.params.window.ecn) || window.in_slow_start() {
            return self.on_loss(window, flight);
        }
        self.slow_start.on_loss();
        (reduce.packets(window, flight) * ABE_FACTOR.max(loss_factor)).max(MIN_SSTHRESH)
    }

    fn memory(&self) {}

    fn recall(&mut self, (): ()) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{ControllerFeed, Loop, build, build as spec, feed, setup};
    use crate::{Ecn, Span, Time};
    use cellpace_base::ParamSet;

    fn newreno(cwnd: f64, ssthresh: f64) -> ControllerFeed<WindowFlow<NewReno>> {
        let params = NewRenoParams::defaults();
        let mut flow = WindowFlow::new(NewReno::new(&params), &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (cwnd, ssthresh);
        ControllerFeed::new(flow)
    }

    #[test]
    fn newreno_r1_slow_start_doubles() {
        let mut feed = feed("newreno");
        assert_eq!(feed.flow.cwnd(), 15_000);
        feed.acks(10, 10, 100.0);
        assert_eq!(feed.flow.cwnd(), 30_000);
    }

    #[test]
    fn newreno_r2_congestion_avoidance_adds_one_per_round() {
        let mut feed = newreno(20.0, 20.0);
        feed.acks(20, 20, 100.0);
        assert!((feed.flow.window.cwnd - 20.98).abs() < 0.005, "{}", feed.flow.window.cwnd);
        let mut feed = newreno(20.0, 20.0);
        feed.ack_many(20, 20, 100.0);
        assert_eq!(feed.flow.window.cwnd, 21.0);
    }

    #[test]
    fn newreno_r3_one_reduction_per_window() {
        let mut feed = newreno(40.0, 40.0);
        feed.lose(40);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (20.0, 20.0));
        feed.ack(39, 100.0);
        feed.lose(38);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (20.0, 20.0));
        feed.finish_recovery(20, 100.0);
        assert_eq!(feed.flow.window.cwnd, 20.0, "no growth until the repair is over");
        feed.ack(20, 100.0);
        assert_eq!(feed.flow.window.cwnd, 20.05);
        feed.wait_ms(100.0);
        feed.lose(20);
        assert_eq!(feed.flow.window.ssthresh, 10.0, "a later window is another event");
    }

    #[test]
    fn newreno_r4_timeout_starts_over_and_stops_at_ssthresh() {
        let mut feed = newreno(40.0, 40.0);
        feed.time_out(40, 1);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (1.0, 20.0));
        for (round, after) in [(1, 2.0), (2, 4.0), (4, 8.0), (8, 16.0), (16, 20.0)] {
            feed.wait_ms(100.0);
            feed.acks(round, round, 100.0);
            // The last round ends in congestion avoidance, with less than a packet of growth.
            assert_eq!(feed.flow.window.cwnd.floor(), after);
        }
    }

    #[test]
    fn newreno_r4_ssthresh_is_held_when_the_timer_fires_again() {
        let mut feed = newreno(40.0, 40.0);
        feed.time_out(40, 1);
        feed.time_out(1, 2);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (1.0, 20.0));
    }

    #[test]
    fn newreno_r5_ssthresh_is_at_least_two() {
        let mut feed = newreno(3.0, 3.0);
        feed.lose(3);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (2.0, 2.0));
        let mut feed = newreno(1.0, 8.0);
        feed.lose(1);
        assert_eq!(feed.flow.window.cwnd, 1.0, "loss never opens the window");
    }

    #[test]
    fn newreno_r6_mean_window_at_periodic_loss() {
        let path = Loop {
            service: Span::from_micros(1),
            base: Span::from_millis(100),
            buffer: usize::MAX,
            drop_every: Some(1000),
        };
        let seen = path.run(&mut *spec("newreno"), Span::from_secs(400));
        let late = seen.iter().filter(|ack| ack.at > Time::from_secs(100)).count();
        let mean = late as f64 / 3000.0; // 300 s hold 3000 RTTs
        // 1.22 / sqrt(0.001); the round of repair without growth costs a little.
        assert!((36.0..40.0).contains(&mean), "{mean}");
    }

    /// The window after marks on a packet, on the next, and on the first sent after the reduction.
    fn marked_windows(rest: &str) -> [f64; 3] {
        let params = NewRenoParams::parse("newreno", rest).unwrap();
        let mut flow = WindowFlow::new(NewReno::new(&params), &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (100.0, 100.0);
        let mut feed = ControllerFeed::new(flow);
        (feed.oldest, feed.next) = (10, 110);
        [10, 11, 110].map(|number| {
            while feed.oldest < number {
                feed.ack(110 - feed.oldest, 100.0);
            }
            feed.wait_ms(100.0);
            feed.mark(100, 100.0);
            feed.flow.window.cwnd
        })
    }

    #[test]
    fn abe_newreno_reduces_by_marks_once_per_window() {
        for (rest, windows) in [
            ("ecn=true,abe=false,reduce=window", [50.0, 50.0, 25.0]),
            ("ecn=true,reduce=window", [80.0, 80.0, 64.0]),
            ("reduce=window", [50.0, 50.0, 25.0]),
        ] {
            assert_eq!(marked_windows(rest), windows, "{rest}");
        }
    }

    #[test]
    fn abe_is_not_for_slow_start() {
        let mut feed = feed("newreno:ecn=true");
        feed.acks(10, 10, 100.0);
        feed.mark(20, 100.0);
        assert_eq!(feed.shown("cwnd_pkts"), 10.0);
        assert_eq!((feed.flow.ecn(), build("newreno").ecn()), (Ecn::Ect0, Ecn::NotEct));
    }

    #[test]
    fn newreno_byte_counting_limits_what_one_ack_adds() {
        for (text, cwnd) in [("newreno", 18_000), ("newreno:abc=1", 16_500)] {
            let mut feed = feed(text);
            feed.ack_many(5, 10, 100.0);
            assert_eq!(feed.flow.cwnd(), cwnd, "{text}");
        }
    }
}
