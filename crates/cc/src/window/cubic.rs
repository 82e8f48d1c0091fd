//! CUBIC: the window is a cubic function of the time since the last reduction, never slower than
//! Reno would be. RFC 9438, with HyStart as in Linux.

use cellpace_base::math::cbrt;
use cellpace_base::{Span, Time, params, words};

use crate::window::flow::{
    Acked, CongestionWindow, MIN_SSTHRESH, ReductionBase, WindowFlow, WindowLaw, WindowParams,
};
use crate::window::hystart::HyStartSigns;
use crate::window::slow_start::SlowStart;
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// CUBIC's parameters.
    pub(crate) struct CubicParams {
        /// What a loss event leaves of the flight (beta_cubic)
        loss_factor: f64 = "0.7" in 0.1..=0.95, from "RFC 9438 section 4.6";
        /// How fast the cubic curve rises (C)
        c: f64 = "0.4" in 1e-3..=1e3, unit "pkt/s^3", from "RFC 9438 section 5.1", logarithmic;
        /// Aim lower after a loss below the last maximum, to make room for new flows
        fast_convergence: bool = "true", from "RFC 9438 section 4.7";
        /// The signs of HyStart that end slow start early; pp is HyStart++
        hystart: HyStartSigns = "both",
            from "Linux tcp_cubic; RFC 9438 section 4.10; RFC 9406 (pp)";
    }
    expert {
        /// What a loss event takes its share of; they differ where `max_window` binds
        reduce: ReductionBase = "flight", from "RFC 5681 equation 4 (flight); Linux (window)";
        /// With ecn, a mark leaves 0.85: queues that mark are short
        abe: bool = "true", from "RFC 8511 section 3 (ABE)";
        /// Never grow more slowly than Reno
        tcp_friendly: bool = "true", from "RFC 9438 section 4.3";
        /// The last maximum after a timeout: start a new curve, or climb back to it
        after_timeout: LastMaximum = "forget",
            from "RFC 9438 section 4.8 (forget); RFC 9438 section 4.2 (keep)";
        /// The clock of the curve while there is nothing to send: it stands still, or runs on
        idle: IdleClock = "shift",
            from "RFC 9438 section 5.8, Linux since 4.3 (shift); Linux before 4.3 (continue)";
        /// The window after an idle time of a retransmission timeout or more
        after_idle: IdleWindow = "keep",
            from "RFC 9438 (keep); Linux tcp_slow_start_after_idle (restart)";
    }
    with { window: WindowParams }
    presets {
        linux319 = "reduce=window,idle=continue,after_idle=restart",
            "the clock of the curve runs on during idle times", from "Linux 3.19 tcp_cubic";
        linux48 = "reduce=window,idle=shift,after_idle=restart",
            "the clock of the curve stands still during idle times", from "Linux 4.8 tcp_cubic";
        linux6 = "reduce=window,idle=shift,after_idle=restart",
            "as linux48 in what is a parameter here", from "Linux 6 tcp_cubic";
    }
}

words! {
    /// What happens to the last maximum after a timeout.
    pub(crate) enum LastMaximum {
        Forget = "forget",
        Keep = "keep",
    }
}

words! {
    /// What the clock of the curve does while there is nothing to send.
    pub(crate) enum IdleClock {
        Shift = "shift",
        Continue = "continue",
    }
}

words! {
    /// What becomes of the window when there is something to send again.
    pub(crate) enum IdleWindow {
        Keep = "keep",
        Restart = "restart",
    }
}

impl ControllerParams for CubicParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(Cubic::new(self), &self.window, &setup))
    }
}

/// beta_ecn: what a mark leaves of the flight (RFC 8511 section 3.1).
const ABE_FACTOR: f64 = 0.85;

pub(crate) struct Cubic {
    params: CubicParams,
    /// Increase per RTT that makes Reno with `loss_factor` as fast as Reno with one half.
    alpha: f64,
    slow_start: SlowStart,
    curve: CubicCurve,
    last_ack: Time,
    /// The retransmission timeout at the last ack.
    rto: Span,
}

/// Where the window aims. All in packets and seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct CubicCurve {
    w_max: f64,
    cwnd_prior: f64,
    /// The running congestion avoidance stage; `None` until its first ack.
    stage: Option<CubicStage>,
}

#[derive(Debug, Clone, Copy)]
struct CubicStage {
    /// Beginning, moved on by idle times.
    start: Time,
    k: f64,
    w_est: f64,
}

impl Cubic {
    pub(crate) fn new(params: &CubicParams) -> Self {
        let beta = params.loss_factor;
        Self {
            params: params.clone(),
            alpha: 3.0 * (1.0 - beta) / (1.0 + beta), // RFC 9438 section 4.3, alpha_cubic
            slow_start: SlowStart::new(params.hystart, f64::INFINITY),
            curve: CubicCurve::default(),
            last_ack: Time::ZERO,
            rto: Span::MAX,
        }
    }

    fn avoid_congestion(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: f64) {
        let mut stage = match self.curve.stage {
            Some(stage) => stage,
            None => self.begin_stage(window.cwnd, ack.now),
        };
        let cwnd = window.cwnd;
        let t = ack.now.since(stage.start).as_secs_f64();
        let srtt = ack.rtt.smoothed().unwrap_or(Span::ZERO).as_secs_f64();
        // RFC 9438 section 4.2, target
        let target = self.w_cubic(stage.k, t + srtt).clamp(cwnd, 1.5 * cwnd);
        // RFC 9438 section 4.3, Eq. 4: from cwnd_prior on, as fast as Reno.
        let alpha = if stage.w_est >= self.curve.cwnd_prior { 1.0 } else { self.alpha };
        stage.w_est += alpha * acked / cwnd;
        self.curve.stage = Some(stage);
        if self.params.tcp_friendly && self.w_cubic(stage.k, t) < stage.w_est {
            window.cwnd = cwnd.max(stage.w_est); // RFC 9438 section 4.3
            return;
        }
        window.cwnd = cwnd + acked * (target - cwnd) / cwnd; // RFC 9438 sections 4.4 and 4.5
    }

    fn begin_stage(&mut self, cwnd: f64, now: Time) -> CubicStage {
        let curve = &mut self.curve;
        // Left slow start above the last maximum, or without any loss: the curve starts here.
        curve.w_max = curve.w_max.max(cwnd);
        let k = cbrt((curve.w_max - cwnd) / self.params.c); // RFC 9438 Eq. 2
        CubicStage { start: now, k, w_est: cwnd }
    }

    /// The clock of a stage stands still while the application, not the window, is the limit
    /// (RFC 9438 section 5.8): forgets the last `span` up to `now`.
    fn stop_clock(&mut self, span: Span, now: Time) {
        if self.params.idle == IdleClock::Continue {
            return;
        }
        if let Some(stage) = &mut self.curve.stage {
            stage.start = (stage.start + span).min(now);
        }
    }

    /// Begins another curve below the present window, of which a loss or mark leaves `factor`.
    fn reduce(&mut self, window: &CongestionWindow, flight: f64, factor: f64) -> f64 {
        self.slow_start.on_loss();
        let (cwnd, curve) = (window.cwnd, self.curve);
        let yielding = self.params.fast_convergence && cwnd < curve.w_max;
        // RFC 9438 section 4.7
        let w_max = if yielding { cwnd * (1.0 + factor) / 2.0 } else { cwnd };
        self.curve = CubicCurve { w_max, cwnd_prior: cwnd, stage: None };
        let from = self.params.reduce.packets(window, flight);
        (from * factor).max(MIN_SSTHRESH) // RFC 9438 section 4.6
    }

    /// RFC 9438 Eq. 1
    fn w_cubic(&self, k: f64, t: f64) -> f64 {
        let x = t - k;
        self.params.c * x * x * x + self.curve.w_max
    }
}

impl WindowLaw for Cubic {
    type Memory = CubicCurve;

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        let quiet = ack.now.since(self.last_ack);
        (self.last_ack, self.rto) = (ack.now, ack.rtt.rto());
        if acked.growth > 0.0 || window.in_slow_start() {
            let left = self.slow_start.on_ack(window, ack, acked);
            if left > 0.0 {
                self.avoid_congestion(window, ack, left);
            }
            return;
        }
        self.stop_clock(quiet, ack.now);
    }

    fn on_loss(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.reduce(window, flight, self.params.loss_factor)
    }

    /// Slow start has not found out how much the path holds, so that it ends as after a loss.
    fn on_mark(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        let is_gentle = self.params.abe && self.params.window.ecn && !window.in_slow_start();
        let factor = self.params.loss_factor;
        let factor = if is_gentle { ABE_FACTOR.max(factor) } else { factor };
        self.reduce(window, flight, factor)
    }

    fn on_timeout(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        let ssthresh = self.on_loss(window, flight);
        if self.params.after_timeout == LastMaximum::Forget {
            self.curve.w_max = 0.0; // RFC 9438 section 4.8: K = 0, W_max = cwnd of the stage
        }
        self.slow_start.on_timeout();
        ssthresh
    }

    fn on_idle(&mut self, window: &mut CongestionWindow, idle: Span) {
        if self.params.after_idle == IdleWindow::Restart {
            window.restart_after(idle, self.rto);
        }
        let now = self.last_ack + idle;
        self.stop_clock(idle, now);
        self.last_ack = now;
    }

    fn on_path_change(&mut self) {
        self.curve = CubicCurve::default();
        self.slow_start.on_path_change();
    }

    fn memory(&self) -> CubicCurve {
        self.curve
    }

    /// RFC 9438 section 4.9: everything the reduction changed.
    fn recall(&mut self, memory: CubicCurve) {
        self.curve = memory;
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let stage = self.curve.stage;
        show("w_max_pkts", self.curve.w_max);
        show("k_s", stage.map_or(0.0, |stage| stage.k));
        show("w_est_pkts", stage.map_or(0.0, |stage| stage.w_est));
        show("base_rtt_ms", self.slow_start.base_rtt_ms());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{ControllerFeed, setup};
    use cellpace_base::ParamSet;

    fn cubic(rest: &str, cwnd: f64, curve: CubicCurve) -> ControllerFeed<WindowFlow<Cubic>> {
        let params = CubicParams::parse("cubic", rest).unwrap();
        let mut flow = WindowFlow::new(Cubic::new(&params), &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (cwnd, cwnd);
        flow.law.curve = curve;
        ControllerFeed::new(flow)
    }

    fn seen(w_max: f64, cwnd_prior: f64) -> CubicCurve {
        CubicCurve { w_max, cwnd_prior, stage: None }
    }

    fn near(a: f64, b: f64, within: f64) -> bool {
        (a - b).abs() <= within
    }

    #[test]
    fn cubic_c1_curve() {
        let mut law = cubic("", 70.0, seen(100.0, 100.0)).flow.law;
        let k = law.begin_stage(70.0, Time::ZERO).k;
        assert!(near(k, 4.21716, 1e-5), "{k}");
        for (t, w) in [
            (0.0, 70.0),
            (1.0, 86.681),
            (1.1, 87.884),
            (2.0, 95.640),
            (k, 100.0),
            (6.21716, 103.2),
            (8.0, 121.65),
        ] {
            assert!(near(law.w_cubic(k, t), w, 5e-3), "W({t}) = {}", law.w_cubic(k, t));
        }
    }

    #[test]
    fn abe_cubic_reduces_by_marks_once_per_window() {
        for (rest, windows, w_max) in [
            ("ecn=true,abe=false,reduce=window", [70.0, 70.0, 49.0], 59.5),
            ("ecn=true,reduce=window", [85.0, 85.0, 72.25], 78.625),
            ("reduce=window", [70.0, 70.0, 49.0], 59.5),
        ] {
            let mut feed = cubic(rest, 100.0, CubicCurve::default());
            (feed.oldest, feed.next) = (10, 110);
            let mut maxima = Vec::new();
            let found = [10, 11, 110].map(|number| {
                while feed.oldest < number {
                    feed.ack(110 - feed.oldest, 100.0);
                }
                feed.wait_ms(100.0);
                feed.mark(100, 100.0);
                maxima.push(feed.flow.law.curve.w_max);
                feed.flow.window.cwnd
            });
            assert_eq!(found, windows, "{rest}");
            assert!(near(maxima[0], 100.0, 1e-9) && near(maxima[2], w_max, 1e-9), "{maxima:?}");
        }
    }

    #[test]
    fn cubic_c2_growth_per_ack() {
        let mut feed = cubic("", 85.0, seen(100.0, 100.0));
        let k = feed.flow.law.begin_stage(70.0, feed.now).k;
        let stage = CubicStage { start: feed.now, k, w_est: 70.0 };
        feed.flow.law.curve.stage = Some(stage);
        feed.wait_ms(1000.0);
        feed.ack(85, 100.0);
        let step = feed.flow.window.cwnd - 85.0;
        assert!(near(step, 0.03393, 1e-5), "{step}");
    }

    #[test]
    fn cubic_c3_fast_convergence() {
        let mut feed = cubic("", 80.0, seen(100.0, 100.0));
        feed.lose(80);
        assert!(near(feed.flow.law.curve.w_max, 68.0, 1e-9));
        assert_eq!(feed.flow.window.cwnd, 56.0);
        feed.finish_recovery(56, 100.0);
        feed.ack(56, 100.0);
        assert!(near(feed.shown("k_s"), 3.1072, 1e-4), "{}", feed.shown("k_s"));

        let mut feed = cubic("fast_convergence=false", 80.0, seen(100.0, 100.0));
        feed.lose(80);
        assert_eq!(feed.flow.law.curve.w_max, 80.0);
    }

    #[test]
    fn cubic_c4_first_loss() {
        let mut feed = cubic("", 1000.0, seen(0.0, 0.0));
        feed.lose(1000);
        assert_eq!(feed.flow.window.cwnd, 700.0);
        feed.finish_recovery(700, 100.0);
        feed.ack(700, 100.0);
        assert!(near(feed.shown("k_s"), 9.0856, 1e-4), "{}", feed.shown("k_s"));
    }

    /// A window of 70 below a maximum of 100, then a second of acks by the curve alone, then 10 s in
    /// which nothing is sent, then the ack of what is sent next.
    fn after_idle(rest: &str) -> (f64, ControllerFeed<WindowFlow<Cubic>>) {
        let rest = format!("tcp_friendly=false,{rest}");
        let mut feed = cubic(&rest, 70.0, seen(100.0, 100.0));
        for _ in 0..100 {
            let flight = feed.flow.window.cwnd as u64;
            feed.acks(flight, flight, 1.0);
            feed.wait_ms(10.0);
        }
        let before = feed.flow.window.cwnd;
        feed.wait_ms(9_990.0);
        let number = feed.next;
        feed.flow.on_sent(&crate::SentPacket {
            now: feed.now,
            number,
            bytes: 1500,
            in_flight: 1500,
            app_limited: false,
            retransmission: false,
        });
        (before, feed)
    }

    #[test]
    fn cubic_idle_the_clock_of_the_curve_runs_on_or_stands_still() {
        // C = 0.4, W_max = 100, window 70: K = 4.217 s, W(1 s) = 86.68, W(11 s) = 224.8.
        let grown = |rest: &str| {
            let (before, mut feed) = after_idle(rest);
            assert!(near(before, 86.68, 1.0), "{before}");
            let flight = feed.flow.window.cwnd as u64;
            feed.acks(flight, flight, 1.0);
            feed.flow.window.cwnd / before
        };
        // Towards 1.5 times the window: half a packet for each ack.
        let (on, still) = (grown("idle=continue"), grown("idle=shift"));
        assert!((1.45..=1.65).contains(&on), "{on}");
        assert!((1.0..1.02).contains(&still), "{still}");
    }

    #[test]
    fn cubic_idle_restarts_the_window() {
        let (before, feed) = after_idle("after_idle=restart");
        assert_eq!(feed.flow.window.cwnd, 10.0);
        assert_eq!(feed.flow.window.ssthresh, (0.75 * before).max(70.0));
        let (before, feed) = after_idle("after_idle=keep");
        assert_eq!(feed.flow.window.cwnd, before);
        let mut window = cubic("", 86.68, seen(0.0, 0.0)).flow.window;
        window.ssthresh = 60.0;
        window.restart_after(Span::from_millis(299), Span::from_millis(300));
        assert_eq!(window.cwnd, 86.68);
        window.restart_after(Span::from_millis(700), Span::from_millis(300));
        assert!(near(window.cwnd, 21.67, 1e-9) && near(window.ssthresh, 65.01, 1e-9));
    }

    #[test]
    fn cubic_c5_alpha() {
        assert!(near(cubic("", 10.0, CubicCurve::default()).flow.law.alpha, 9.0 / 17.0, 1e-12));
    }

    #[test]
    fn cubic_c6_target_is_at_most_half_above_the_window() {
        let mut feed = cubic("", 10.0, seen(10.0, 10.0));
        feed.wait_ms(100_000.0);
        let stage = CubicStage { start: Time::from_secs(1), k: 0.0, w_est: 10.0 };
        feed.flow.law.curve.stage = Some(stage);
        feed.ack(10, 100.0);
        assert_eq!(feed.flow.window.cwnd, 10.5);
    }

    /// 50 round trips of 20 ms, evenly spread acks.
    fn after_a_second(rest: &str) -> ControllerFeed<WindowFlow<Cubic>> {
        let mut feed = cubic(rest, 14.0, seen(20.0, 20.0));
        for _ in 0..50 {
            let flight = feed.flow.window.cwnd as u64;
            feed.wait_ms(20.0);
            feed.acks(flight, flight, 20.0);
        }
        feed
    }

    #[test]
    fn cubic_c7_as_fast_as_reno_on_short_paths() {
        let feed = after_a_second("");
        let k = feed.shown("k_s");
        assert!(near(feed.flow.law.w_cubic(k, 1.0), 18.74, 5e-3));
        let cwnd = feed.flow.window.cwnd;
        assert!((56.0..60.0).contains(&cwnd), "{cwnd}");
        assert!(near(cwnd, feed.shown("w_est_pkts"), 1e-9));
        let alone = after_a_second("tcp_friendly=false").flow.window.cwnd;
        assert!(near(alone, 18.8, 0.2), "{alone}");
    }

    #[test]
    fn cubic_timeout_forgets_or_keeps_the_maximum() {
        for (rest, k) in [("", 0.0), ("after_timeout=keep", 4.2172)] {
            let mut feed = cubic(rest, 100.0, seen(0.0, 0.0));
            feed.time_out(100, 1);
            assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (1.0, 70.0));
            while feed.flow.law.curve.stage.is_none() {
                feed.wait_ms(100.0);
                feed.acks(10, 80, 100.0);
            }
            assert!(near(feed.shown("k_s"), k, 1e-4), "{rest}: {}", feed.shown("k_s"));
        }
    }

    #[test]
    fn cubic_clock_stands_still_while_the_application_is_the_limit() {
        let mut feed = cubic("", 70.0, seen(100.0, 100.0));
        feed.ack(70, 100.0);
        feed.app_limited = true;
        for _ in 0..100 {
            feed.wait_ms(100.0);
            feed.ack(5, 100.0);
        }
        let before = feed.flow.window.cwnd;
        feed.app_limited = false;
        feed.wait_ms(100.0);
        feed.ack(70, 100.0);
        let step = feed.flow.window.cwnd - before;
        // W(0.2) - 70 over 70, not a jump of half a packet.
        assert!(step > 0.0 && step < 0.06, "{step}");
    }

    #[test]
    fn cubic_clock_stands_still_over_silence() {
        let mut feed = cubic("", 70.0, seen(100.0, 100.0));
        feed.ack(70, 100.0);
        let before = feed.flow.window.cwnd;
        feed.wait_ms(3_600_000.0);
        feed.flow.on_sent(&crate::SentPacket {
            now: feed.now,
            number: feed.next,
            bytes: 1500,
            in_flight: 1500,
            app_limited: false,
            retransmission: false,
        });
        feed.wait_ms(100.0);
        feed.ack(70, 100.0);
        let step = feed.flow.window.cwnd - before;
        assert!(step > 0.0 && step < 0.06, "{step}");
    }
}
