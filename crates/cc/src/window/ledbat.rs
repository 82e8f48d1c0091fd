//! LEDBAT: yields to everyone by holding its own queueing delay at a target. RFC 6817.
//!
//! The delay is one-way where the datapath knows when packets reached the receiver, and the RTT
//! otherwise; then a queue on the way back counts, too. The offset between the clocks cancels,
//! a drift between them does not.

use cellpace_base::{Span, Window, params};

use crate::delay_history::DelayHistory;
use crate::window::flow::{Acked, CongestionWindow, WindowFlow, WindowLaw, WindowParams};
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// LEDBAT's parameters.
    pub(crate) struct LedbatParams {
        /// Queueing delay to hold (TARGET; the RFC allows 100ms at most)
        target: Span = "100ms" in Span::from_micros(1)..=Span::from_secs(10),
            from "RFC 6817 section 2.5", logarithmic;
        /// Initial window, also after a change of path (INIT_CWND)
        initial_window: Window = "2pkts", from "RFC 6817 section 2.4.2", logarithmic;
        /// Most that the flow keeps in flight, as a socket buffer bounds it
        max_window: Option<Window> = "",
            from "RFC 9293 section 3.8.6 (usable window); Linux tcp_wmem", logarithmic;
    }
    expert {
        /// Smallest window, except after a timeout (MIN_CWND)
        min_window: Window = "2pkts", from "RFC 6817 section 2.4.2", logarithmic;
        /// Packets per RTT at an empty queue (GAIN; the RFC allows 1 at most)
        gain: f64 = "1" in 1e-3..=100.0, from "RFC 6817 section 2.5", logarithmic;
        /// The current delay is the smallest of this many samples (CURRENT_FILTER)
        filter: u64 = "4" in 1..=64, unit "samples", from "RFC 6817 section 2.4.2";
        /// Begin with slow start
        slow_start: bool = "false", from "RFC 6817 section 2.4.2 (optional)";
        /// Share of the target at which slow start ends
        slow_start_exit: f64 = "0.5" in 0.0..=1.0,
            from "docs/spec/baselines.md 6: between half the target and the target";
    }
}

impl ControllerParams for LedbatParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let &Self { initial_window, max_window, .. } = self;
        let law = Ledbat::new(self, &setup);
        Box::new(WindowFlow::new(
            law,
            &WindowParams { initial_window, max_window, ecn: false },
            &setup,
        ))
    }

    fn check(&self) -> Result<(), String> {
        // RFC 6817 section 2.4.2: MIN_CWND is not above INIT_CWND. Bytes and packets compare only
        // for a known MSS; assume the common one.
        let Self { initial_window, min_window, .. } = self;
        if initial_window.bytes(1500) < min_window.bytes(1500) {
            return Err(format!(
                "initial_window={initial_window} is below min_window={min_window}"
            ));
        }
        Ok(())
    }
}

/// Minutes for which a base delay is remembered (RFC 6817 section 2.4.2, BASE_HISTORY).
const BASE_HISTORY: u64 = 10;

/// Packets by which the window may be above the flight (RFC 6817 section 2.4.2, ALLOWED_INCREASE).
const ALLOWED_INCREASE: f64 = 1.0;

struct Ledbat {
    params: LedbatParams,
    /// In packets.
    min_window: f64,
    target_ns: f64,
    delay: DelayHistory,
}

impl Ledbat {
    fn new(params: &LedbatParams, setup: &Setup) -> Self {
        Self {
            min_window: params.min_window.bytes(setup.mss) as f64 / setup.mss.max(1) as f64,
            target_ns: params.target.as_nanos() as f64,
            delay: DelayHistory::new(BASE_HISTORY, params.filter, setup.start),
            params: params.clone(),
        }
    }

    fn move_towards_target(&mut self, window: &mut CongestionWindow, acked: Acked) {
        let queueing = self.delay.queueing_ns();
        // RFC 6817 section 2.4.2, off_target: at most 1, but not bounded below.
        let off_target = (self.target_ns - queueing) / self.target_ns;
        if self.in_slow_start(window) {
            if queueing < self.params.slow_start_exit * self.target_ns {
                window.slow_start(acked.growth, f64::INFINITY);
                return;
            }
            window.ssthresh = window.cwnd;
        }
        if off_target > 0.0 && window.recovering() {
            return;
        }
        // RFC 6817 section 2.4.2, cwnd += GAIN * off_target * bytes_newly_acked * MSS / cwnd
        window.cwnd += self.params.gain * off_target * acked.packets / window.cwnd;
    }
}

impl WindowLaw for Ledbat {
    type Memory = ();

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        for packet in ack.packets {
            self.delay.sample(ack.now, packet);
        }
        self.move_towards_target(window, acked);
        if !self.in_slow_start(window) {
            // RFC 6817 section 2.4.2, max_allowed_cwnd, in place of the rule about full windows
            window.cwnd = window.cwnd.min(acked.flight + ALLOWED_INCREASE);
        }
        window.cwnd = window.cwnd.max(self.min_window);
    }

    fn on_loss(&mut self, window: &CongestionWindow, _: f64) -> f64 {
        // RFC 6817 section 2.4.2, on data loss
        (window.cwnd / 2.0).max(self.min_window)
    }

    fn on_path_change(&mut self) {
        self.delay.forget();
    }

    fn in_slow_start(&self, window: &CongestionWindow) -> bool {
        self.params.slow_start && window.in_slow_start()
    }

    fn memory(&self) {}

    fn recall(&mut self, (): ()) {}

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("queueing_ms", self.delay.queueing_ns() / 1e6);
        show("one_way", f64::from(self.delay.is_one_way()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Time;
    use crate::drive::{ControllerFeed, Loop, build as spec, setup};
    use cellpace_base::ParamSet;

    fn ledbat(rest: &str, cwnd: f64) -> ControllerFeed<WindowFlow<Ledbat>> {
        let params = LedbatParams::parse("ledbat", rest).unwrap();
        let &LedbatParams { initial_window, max_window, .. } = &params;
        let window = WindowParams { initial_window, max_window, ecn: false };
        let mut flow = WindowFlow::new(Ledbat::new(&params, &setup()), &window, &setup());
        flow.window.cwnd = cwnd;
        ControllerFeed::new(flow)
    }

    /// Bytes that one ack of 1500 adds to 30000 at a queueing delay of `ms`.
    fn step(ms: f64) -> f64 {
        let mut feed = ledbat("filter=1", 20.0);
        feed.ack(20, 100.0);
        feed.flow.window.cwnd = 20.0;
        feed.ack(20, 100.0 + ms);
        (feed.flow.window.cwnd - 20.0) * 1500.0
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6
    }

    #[test]
    fn ledbat_l1_empty_queue() {
        assert!(near(step(0.0), 75.0));
    }

    #[test]
    fn ledbat_l2_half_the_target() {
        assert!(near(step(50.0), 37.5));
    }

    #[test]
    fn ledbat_l3_at_the_target() {
        assert!(near(step(100.0), 0.0));
    }

    #[test]
    fn ledbat_l4_twice_the_target() {
        assert!(near(step(200.0), -75.0));
    }

    #[test]
    fn ledbat_l5_is_not_bounded_below() {
        assert!(near(step(500.0), -300.0));
    }

    #[test]
    fn ledbat_window_has_a_floor() {
        let mut feed = ledbat("min_window=3pkts,initial_window=3pkts", 4.0);
        feed.ack(4, 100.0);
        for _ in 0..100 {
            feed.wait_ms(10.0);
            feed.ack(4, 900.0);
        }
        assert_eq!(feed.flow.window.cwnd, 3.0);
        assert!("ledbat:min_window=3pkts".parse::<crate::ControllerSpec>().is_err());
    }

    #[test]
    fn ledbat_l6_at_most_one_packet_above_the_flight() {
        let mut feed = ledbat("", 20.0);
        feed.ack(16, 100.0);
        assert_eq!(feed.flow.cwnd(), 25_500);
    }

    #[test]
    fn ledbat_l7_halves_once_per_round() {
        let mut feed = ledbat("", 20.0);
        feed.lose(20);
        assert_eq!(feed.flow.cwnd(), 15_000);
        feed.lose(19);
        assert_eq!(feed.flow.cwnd(), 15_000);
        feed.finish_recovery(10, 100.0);
        feed.flow.window.cwnd = 2.0;
        feed.lose(2);
        assert_eq!(feed.flow.cwnd(), 3000);
        feed.time_out(2, 1);
        assert_eq!(feed.flow.cwnd(), 1500);
    }

    #[test]
    fn ledbat_l8_alone_it_holds_the_target() {
        let path = Loop {
            service: Span::from_millis(1),
            base: Span::from_millis(39),
            buffer: 10_000,
            drop_every: None,
        };
        let seen = path.run(&mut *spec("ledbat"), Span::from_secs(60));
        let late: Vec<_> = seen.iter().filter(|ack| ack.at > Time::from_secs(40)).collect();
        let mean = late.iter().map(|ack| ack.rtt_ms).sum::<f64>() / late.len() as f64;
        assert!((138.0..142.0).contains(&mean), "{mean}");
        assert!(late.len() > 19_900, "{}", late.len());
    }

    #[test]
    fn ledbat_slow_start_is_an_option_and_ends_at_half_the_target() {
        let mut feed = ledbat("slow_start=true,filter=1", 2.0);
        for round in [2, 4, 8, 16] {
            feed.wait_ms(100.0);
            feed.acks(round, round, 100.0);
        }
        assert_eq!(feed.flow.window.cwnd, 32.0);
        feed.ack(32, 151.0);
        assert!(!feed.flow.window.in_slow_start());
        let slow = ledbat("", 2.0);
        assert!(!slow.flow.law.in_slow_start(&slow.flow.window));
    }
}
