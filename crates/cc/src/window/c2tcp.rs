//! C2TCP: a loss-based controller whose window is emptied when the RTT stays above a set point for
//! too long. Abbasloo et al., IFIP Networking 2018 (v1) and JSAC 37(4) 2019 (v2); CoDel's law
//! (RFC 8289) at the sender, on RTTs.

use cellpace_base::{ParamSet, Span, Time, params, words};

use crate::extremes::WindowedMin;
use crate::window::cubic::{Cubic, CubicParams};
use crate::window::flow::{Acked, CongestionWindow, WindowFlow, WindowLaw, WindowParams};
use crate::window::hystart::HyStartSigns;
use crate::window::newreno::{NewReno, NewRenoParams};
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// C2TCP's parameters.
    pub(crate) struct C2tcpParams {
        /// Average RTT that is aimed at, base RTT included; twice the smallest RTT while unset. With
        /// `mode=v1`: set point and interval, 100ms while unset
        target: Option<Span> = "" in Span::from_millis(1)..=Span::from_secs(10),
            from "JSAC 2019 section III; its tuner", logarithmic;
    }
    expert {
        /// The controller that moves the window in between
        base: BaseLaw = "cubic", from "JSAC 2019 section IV";
        /// Set point and interval at first, as a multiple of the smallest RTT
        alpha: f64 = "2" in 1.0..=100.0, from "C2TCP v2.2 kernel patch", logarithmic;
        /// Smallest alpha that the tuner sets
        alpha_min: f64 = "1" in 1.0..=100.0, from "JSAC 2019, tuner", logarithmic;
        /// Largest alpha that the tuner sets
        alpha_max: f64 = "10" in 1.0..=100.0, from "JSAC 2019, tuner", logarithmic;
        /// Time between two changes of alpha; 0 leaves it constant
        tune: Span = "500ms" in Span::ZERO..=Span::from_secs(60), from "JSAC 2019, tuner";
        /// Set point from the smallest RTT, or constant as in the first paper
        mode: C2tcpMode = "v2", from "JSAC 2019 (v2); IFIP 2018 (v1)";
        /// RTTs in whole milliseconds and the gain a whole number, or real numbers
        integer: bool = "true", from "C2TCP v2.2 kernel patch (whole numbers)";
        /// How long the smallest RTT is remembered; 0 is for ever
        min_rtt_window: Span = "0s" in Span::ZERO..=Span::from_secs(3600),
            from "C2TCP v2.2 kernel patch (for ever); cellpace";
    }
    with { window: WindowParams }
}

words! {
    /// The controller below.
    pub(crate) enum BaseLaw {
        Cubic = "cubic",
        NewReno = "newreno",
    }
}

words! {
    /// Whose rules.
    pub(crate) enum C2tcpMode {
        V1 = "v1",
        V2 = "v2",
    }
}

impl ControllerParams for C2tcpParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        match self.base {
            BaseLaw::Cubic => self.above(Cubic::new(&cubic()), &setup),
            BaseLaw::NewReno => self.above(NewReno::new(&NewRenoParams::defaults()), &setup),
        }
    }

    fn check(&self) -> Result<(), String> {
        let Self { alpha, alpha_min, alpha_max, .. } = self;
        if (alpha_min..=alpha_max).contains(&alpha) {
            return Ok(());
        }
        Err(format!(
            "alpha={alpha} should be between alpha_min={alpha_min} and alpha_max={alpha_max}"
        ))
    }
}

impl C2tcpParams {
    fn above<L: WindowLaw + 'static>(&self, base: L, setup: &Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(C2tcp::new(self, base, setup.start), &self.window, setup))
    }
}

/// CUBIC without HyStart: the queue that is left when the window is emptied would end each slow start
/// at once. Linux' HyStart acts in the first slow start only, which the set point ends, too.
fn cubic() -> CubicParams {
    CubicParams { hystart: HyStartSigns::Off, ..CubicParams::defaults() }
}

/// Set point and interval of the first version (IFIP 2018 section 3).
const V1_SET_POINT: Span = Span::from_millis(100);

/// The law below, and a watch over the RTT.
struct C2tcp<L> {
    params: C2tcpParams,
    base: L,
    alpha: f64,
    min_rtt: WindowedMin,
    bad: Option<BadCondition>,
    /// The window is to be emptied.
    due: bool,
    /// Windows emptied so far.
    emptied: u64,
    /// RTT samples since alpha was tuned, and their sum in seconds.
    samples: u64,
    sum_s: f64,
    tune_at: Option<Time>,
}

/// The RTT is above the set point.
#[derive(Debug, Clone, Copy)]
struct BadCondition {
    /// The window is emptied by the first bad ack after this.
    next: Time,
    /// CoDel's count: the interval is divided by its square root.
    count: u64,
}

impl<L: WindowLaw> C2tcp<L> {
    fn new(params: &C2tcpParams, base: L, start: Time) -> Self {
        let tunes = params.mode == C2tcpMode::V2 && !params.tune.is_zero();
        Self {
            params: params.clone(),
            base,
            alpha: params.alpha,
            min_rtt: WindowedMin::new(64),
            bad: None,
            due: false,
            emptied: 0,
            samples: 0,
            sum_s: 0.0,
            tune_at: tunes.then(|| start + params.tune),
        }
    }

    /// The RTT as the rules see it: the kernel has whole milliseconds. Below one the set point would
    /// be zero and every ack bad.
    fn rounded(&self, rtt: Span) -> Span {
        match self.params.integer {
            true => Span::from_millis((rtt.as_nanos() / 1_000_000).max(1)),
            false => rtt,
        }
    }

    fn sample(&mut self, now: Time, rtt: Span) {
        let window = match self.params.min_rtt_window {
            Span::ZERO => u64::MAX,
            window => window.as_nanos(),
        };
        self.min_rtt.push(now.as_nanos(), rtt.as_nanos(), window);
        self.sum_s += rtt.as_secs_f64();
        self.samples += 1;
    }

    /// Set point and interval: alpha * minRTT.
    fn set_point(&self) -> Span {
        if self.params.mode == C2tcpMode::V1 {
            return self.params.target.unwrap_or(V1_SET_POINT);
        }
        self.min_rtt().map_or(Span::ZERO, |rtt| self.rounded(rtt.mul_f64(self.alpha)))
    }

    fn min_rtt(&self) -> Option<Span> {
        self.min_rtt.extreme().map(Span::from_nanos)
    }

    /// Packets that a good ack adds over a whole window: S / r, in version 1 one more.
    fn gain(&self, set_point: Span, rtt: Span) -> f64 {
        let ratio = set_point.as_nanos() as f64 / rtt.as_nanos().max(1) as f64;
        let gain = if self.params.integer { ratio.floor() } else { ratio };
        match self.params.mode {
            C2tcpMode::V1 => 1.0 + gain,
            C2tcpMode::V2 => gain,
        }
    }

    /// A bad ack: whether the window is to be emptied now (CoDel's control law).
    fn bad_ack(&mut self, now: Time, interval: Span) -> bool {
        let Some(bad) = &mut self.bad else {
            self.bad = Some(BadCondition { next: now + interval, count: 1 });
            return false;
        };
        if now <= bad.next {
            return false;
        }
        bad.next = now + interval.mul_f64(1.0 / (bad.count as f64).sqrt());
        bad.count += 1;
        self.emptied += 1;
        true
    }

    /// JSAC 2019: the decrease is four times as strong as the increase.
    fn tune(&mut self) {
        if let Some(min_rtt) = self.min_rtt().filter(|_| self.samples > 0) {
            let average = self.sum_s / self.samples as f64;
            let target = self.params.target.unwrap_or(min_rtt * 2).as_secs_f64();
            if average > 0.0 {
                let error = (target - average) * self.alpha / average;
                self.alpha += if average > target { 2.0 * error } else { error / 2.0 };
            }
            let (least, most) = (self.params.alpha_min, self.params.alpha_max);
            self.alpha = self.alpha.clamp(least, most);
        }
        (self.samples, self.sum_s) = (0, 0.0);
    }
}

impl<L: WindowLaw> WindowLaw for C2tcp<L> {
    type Memory = L::Memory;

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        self.base.on_ack(window, ack, acked);
        // Linux hands its controllers the RTT of the newest packet of an ack. Older ones may have been
        // acknowledged before, by an ack that was lost: their RTT is no delay of the path.
        let rtt = self.rounded(ack.newest().rtt);
        self.sample(ack.now, rtt);
        let set_point = self.set_point();
        if rtt > set_point {
            self.due |= self.bad_ack(ack.now, set_point);
            return;
        }
        self.bad = None;
        window.cwnd += acked.growth * self.gain(set_point, rtt) / window.cwnd;
    }

    fn empties_window(&mut self) -> bool {
        std::mem::take(&mut self.due)
    }

    fn on_loss(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.base.on_loss(window, flight)
    }

    fn on_mark(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.base.on_mark(window, flight)
    }

    fn on_timeout(&mut self, window: &CongestionWindow, flight: f64) -> f64 {
        self.base.on_timeout(window, flight)
    }

    fn on_idle(&mut self, window: &mut CongestionWindow, idle: Span) {
        self.base.on_idle(window, idle);
    }

    fn on_path_change(&mut self) {
        self.base.on_path_change();
        self.min_rtt.clear();
        (self.bad, self.alpha) = (None, self.params.alpha);
        (self.samples, self.sum_s) = (0, 0.0);
    }

    fn in_slow_start(&self, window: &CongestionWindow) -> bool {
        self.base.in_slow_start(window)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.tune_at
    }

    fn on_deadline(&mut self, now: Time) {
        if self.tune_at.is_some_and(|at| at <= now) {
            self.tune();
            self.tune_at = Some(now + self.params.tune);
        }
    }

    fn memory(&self) -> L::Memory {
        self.base.memory()
    }

    fn recall(&mut self, memory: L::Memory) {
        self.base.recall(memory);
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.base.inspect(&mut |name, value| {
            if name != "base_rtt_ms" {
                show(name, value);
            }
        });
        show("base_rtt_ms", self.min_rtt().unwrap_or(Span::ZERO).as_millis_f64());
        show("set_point_ms", self.set_point().as_millis_f64());
        show("set_point_factor", self.alpha);
        show("emptied", self.emptied as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{ControllerFeed, feed, setup};
    use crate::{AckedPacket, Event, Stamp};

    /// A law that grows in slow start alone, by whole packets, and leaves 0.7 after a loss: CUBIC of
    /// the specification's model without its curve.
    struct Still;

    impl WindowLaw for Still {
        type Memory = ();

        fn on_ack(&mut self, window: &mut CongestionWindow, _: &Ack<'_>, acked: Acked) {
            if window.in_slow_start() {
                window.cwnd += acked.growth;
            }
        }

        fn on_loss(&mut self, _: &CongestionWindow, flight: f64) -> f64 {
            (0.7 * flight).max(2.0)
        }

        fn memory(&self) {}

        fn recall(&mut self, (): ()) {}
    }

    type Feed<L> = ControllerFeed<WindowFlow<C2tcp<L>>>;

    /// A window of 50 in avoidance, and a smallest RTT of 40 ms.
    fn above<L: WindowLaw>(rest: &str, base: L) -> Feed<L> {
        let params = C2tcpParams::parse("c2tcp", rest).unwrap();
        let law = C2tcp::new(&params, base, Time::ZERO);
        let mut flow = WindowFlow::new(law, &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (50.0, 50.0);
        flow.law.sample(Time::ZERO, Span::from_millis(40));
        ControllerFeed::new(flow)
    }

    fn still(rest: &str) -> Feed<Still> {
        above(rest, Still)
    }

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn c2tcp_t1_gain() {
        let rtts = [40.0, 41.0, 50.0, 60.0, 79.0, 80.0];
        for (rest, gains) in [
            ("integer=true", [2.0, 1.0, 1.0, 1.0, 1.0, 1.0]),
            ("integer=false", [2.0, 1.9512, 1.6, 1.3333, 1.0127, 1.0]),
        ] {
            for (rtt, gain) in rtts.into_iter().zip(gains) {
                let mut feed = still(rest);
                feed.ack(60, rtt);
                let seen = (feed.flow.window.cwnd - 50.0) * 50.0;
                assert!(near(seen, gain), "{rest}, {rtt} ms: {seen}");
                assert!(feed.flow.law.bad.is_none());
            }
            let mut feed = still(rest);
            feed.ack(60, 81.0);
            assert_eq!(feed.flow.window.cwnd, 50.0);
            assert!(feed.flow.law.bad.is_some());
        }
    }

    #[test]
    fn c2tcp_t2_law() {
        let mut feed = still("tune=0s");
        let mut seen = Vec::new();
        for ms in 0..400_u64 {
            let before = feed.flow.law.emptied;
            feed.ack(100, 100.0);
            if feed.flow.law.emptied > before {
                let bad = feed.flow.law.bad.unwrap();
                let next = bad.next.since(feed.now).as_millis_f64();
                assert_eq!(feed.flow.window.cwnd, 1.0);
                seen.push((ms, bad.count, next, feed.flow.window.ssthresh));
            }
            feed.wait_ms(1.0);
        }
        let expected = [
            (81, 2, 80.0, 35.0),
            (162, 3, 56.569, 24.5),
            (219, 4, 46.188, 17.5),
            (266, 5, 40.0, 12.6),
            (307, 6, 35.777, 9.1),
            (343, 7, 32.660, 7.0),
            (376, 8, 30.237, 4.9),
        ];
        assert_eq!(seen.len(), expected.len());
        for (seen, expected) in seen.iter().zip(expected) {
            assert_eq!((seen.0, seen.1), (expected.0, expected.1));
            assert!(near(seen.2, expected.2) && near(seen.3, expected.3), "{seen:?} {expected:?}");
        }
        let reduced =
            feed.events().into_iter().filter(|event| matches!(event, Event::Reduced { .. }));
        assert_eq!(reduced.count(), 7);
    }

    #[test]
    fn c2tcp_t3_one_good_ack_clears_the_condition() {
        let mut feed = still("tune=0s");
        let start = feed.now;
        for (ms, rtt) in [(0.0, 100.0), (50.0, 100.0), (70.0, 60.0), (90.0, 100.0), (150.0, 100.0)]
        {
            feed.now = start + Span::from_millis_f64(ms);
            feed.ack(100, rtt);
        }
        let bad = feed.flow.law.bad.unwrap();
        assert_eq!((bad.next, bad.count), (start + Span::from_millis(170), 1));
        feed.now = start + Span::from_millis(171);
        feed.ack(100, 100.0);
        let bad = feed.flow.law.bad.unwrap();
        assert_eq!((bad.next, bad.count), (start + Span::from_millis(251), 2));
        assert_eq!(feed.flow.law.emptied, 1);
    }

    #[test]
    fn c2tcp_t4_tuner() {
        for (rest, alpha, average, tuned) in [
            ("target=80ms", 2.0, 0.1, 1.2),
            ("target=80ms", 2.0, 0.06, 2.333_333),
            ("target=80ms", 2.0, 0.2, 1.0),
            ("target=80ms", 1.1, 0.1, 1.0),
            ("target=80ms", 9.0, 0.04, 10.0),
            ("", 2.0, 0.1, 1.2),
        ] {
            let mut feed = still(rest);
            let now = Time::from_secs(10);
            let law = &mut feed.flow.law;
            (law.alpha, law.samples, law.sum_s) = (alpha, 10, 10.0 * average);
            feed.flow.on_deadline(now);
            let seen = feed.flow.law.alpha;
            assert!((seen - tuned).abs() < 1e-6, "{rest} {alpha} {average}: {seen}");
            assert_eq!(feed.flow.next_deadline(), Some(now + Span::from_millis(500)));
            feed.flow.on_deadline(now + Span::from_millis(500));
            assert_eq!(feed.flow.law.alpha, seen, "without samples it stays");
        }
    }

    #[test]
    fn c2tcp_t5_a_smaller_rtt_lowers_the_set_point_at_once() {
        let mut feed = still("");
        feed.ack(60, 30.0);
        assert_eq!(feed.flow.law.set_point(), Span::from_millis(60));
    }

    #[test]
    fn c2tcp_t6_the_window_is_emptied_by_cubics_rule() {
        let empty = |feed: &mut Feed<Cubic>, cwnd: f64| {
            (feed.flow.window.cwnd, feed.flow.window.ssthresh) = (cwnd, cwnd);
            let before = feed.flow.law.emptied;
            while feed.flow.law.emptied == before {
                feed.wait_ms(90.0);
                // Out of data: CUBIC itself leaves the window alone.
                feed.app_limited = true;
                feed.ack(1, 100.0);
            }
            feed.flow.window.ssthresh
        };
        let mut feed = above("tune=0s", Cubic::new(&cubic()));
        assert!(near(empty(&mut feed, 100.0), 70.0));
        assert_eq!((feed.shown("w_max_pkts"), feed.flow.window.cwnd), (100.0, 1.0));
        assert!(near(empty(&mut feed, 60.0), 42.0));
        assert!(near(feed.shown("w_max_pkts"), 51.0), "{}", feed.shown("w_max_pkts"));
    }

    #[test]
    fn c2tcp_t7_no_gain_in_recovery_nor_below_the_window() {
        let mut feed = still("");
        feed.lose(60);
        let reduced = feed.flow.window.cwnd;
        feed.ack(60, 40.0);
        assert_eq!(feed.flow.window.cwnd, reduced, "in recovery");
        let mut idle = still("");
        idle.ack(2, 40.0);
        assert_eq!(idle.flow.window.cwnd, 50.0, "two packets in flight");
        // The delay is looked at all the same.
        for feed in [&mut feed, &mut idle] {
            feed.ack(2, 100.0);
            feed.wait_ms(81.0);
            feed.ack(2, 100.0);
            assert_eq!(feed.flow.window.cwnd, 1.0);
        }
    }

    #[test]
    fn c2tcp_t8_with_alpha_one_every_ack_above_the_smallest_rtt_is_bad() {
        let mut feed = still("alpha=1");
        feed.ack(60, 40.0);
        assert!(feed.flow.law.bad.is_none());
        feed.ack(60, 41.0);
        assert!(feed.flow.law.bad.is_some());
    }

    #[test]
    fn c2tcp_t9_without_tuning_there_is_no_deadline() {
        let mut feed = still("tune=0s");
        assert_eq!(feed.flow.next_deadline(), None);
        (0..100).for_each(|_| feed.ack(60, 300.0));
        feed.flow.on_deadline(feed.now);
        assert_eq!(feed.flow.law.alpha, 2.0);
        assert_eq!(still("mode=v1").flow.next_deadline(), None);
        assert_eq!(still("").flow.next_deadline(), Some(Time::from_millis(500)));
    }

    #[test]
    fn c2tcp_t10_another_path_forgets_the_smallest_rtt() {
        let mut feed = still("");
        feed.flow.law.alpha = 7.0;
        feed.ack(60, 300.0);
        feed.flow.on_path_change(feed.now);
        assert_eq!((feed.flow.law.min_rtt(), feed.flow.law.alpha), (None, 2.0));
        assert!(feed.flow.law.bad.is_none());
        feed.ack(10, 90.0);
        assert_eq!(feed.flow.law.min_rtt(), Some(Span::from_millis(90)));
    }

    #[test]
    fn c2tcp_the_smallest_rtt_can_be_forgotten() {
        let mut feed = still("min_rtt_window=10s");
        for _ in 0..12 {
            feed.wait_ms(1000.0);
            feed.ack(60, 90.0);
        }
        assert_eq!(feed.flow.law.min_rtt(), Some(Span::from_millis(90)));
    }

    #[test]
    fn c2tcp_v1_adds_one_more_and_has_a_constant_set_point() {
        let mut feed = still("mode=v1");
        feed.ack(60, 40.0);
        assert!(near((feed.flow.window.cwnd - 50.0) * 50.0, 3.0), "1 + 100 div 40");
        feed.ack(60, 100.0);
        assert!(feed.flow.law.bad.is_none());
        feed.ack(60, 101.0);
        assert_eq!(feed.flow.law.bad.unwrap().next, feed.now + Span::from_millis(100));
        assert_eq!(still("mode=v1,target=60ms").flow.law.set_point(), Span::from_millis(60));
    }

    #[test]
    fn c2tcp_an_emptied_window_is_not_brought_back_by_a_late_packet() {
        let mut feed = feed("c2tcp:base=newreno,tune=0s");
        feed.ack(10, 40.0);
        let late = feed.lose(10);
        feed.finish_recovery(5, 100.0);
        feed.wait_ms(81.0);
        feed.ack(5, 100.0);
        assert_eq!(feed.shown("cwnd_pkts"), 1.0);
        feed.late(late);
        assert_eq!(feed.shown("cwnd_pkts"), 1.0);
    }

    #[test]
    fn c2tcp_sub_millisecond_paths_have_a_set_point() {
        let mut feed = feed("c2tcp:tune=0s");
        for _ in 0..1000 {
            feed.wait_ms(1.0);
            feed.ack(20, 0.3);
        }
        assert_eq!((feed.shown("set_point_ms"), feed.shown("emptied")), (2.0, 0.0));
    }

    #[test]
    fn c2tcp_newest_packet_of_an_ack_decides() {
        let mut feed = still("");
        let packet = |number: u64, ms: u64| AckedPacket {
            number,
            bytes: 1500,
            sent_at: feed.now - Span::from_millis(ms),
            rtt: Span::from_millis(ms),
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp: Stamp::default(),
        };
        // The ack of the first was lost: only its report is late.
        let packets = [packet(0, 200), packet(1, 45)];
        let ack = Ack {
            now: feed.now,
            packets: &packets,
            prior_in_flight: 60 * 1500,
            in_flight: 58 * 1500,
            next_number: 60,
            rtt: &feed.rtt,
        };
        feed.flow.on_ack(&ack);
        assert!(near((feed.flow.window.cwnd - 50.0) * 50.0, 2.0));
        assert!(feed.flow.law.bad.is_none());
        assert_eq!(feed.flow.law.samples, 2);
    }

    #[test]
    fn c2tcp_limits_of_alpha_must_hold_it() {
        let refused = "c2tcp:alpha=2,alpha_min=3".parse::<crate::ControllerSpec>().unwrap_err();
        assert!(refused.to_string().contains("between alpha_min=3"), "{refused}");
    }
}
