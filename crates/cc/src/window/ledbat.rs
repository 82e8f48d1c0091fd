//! LEDBAT: yields to everyone by holding its own queueing delay at a target. RFC 6817.
//!
//! The delay is one-way where the datapath knows when packets reached the receiver, and the RTT
//! otherwise; then a queue on the way back counts, too. The offset between the clocks cancels,
//! a drift between them does not.

use cellpace_base::{Args, Kind, Param, Span, Time};

use crate::window::flow::{Acked, CongestionWindow, MAX_CWND, WindowFlow, WindowLaw};
use crate::{Ack, AckedPacket, ControllerInfo};

/// The registry's entry.
pub const INFO: ControllerInfo = ControllerInfo {
    name: "ledbat",
    summary: "LEDBAT: background transfer with a bound on its own queueing delay",
    params: PARAMS,
    check,
    load: None,
    build: |args, setup| {
        let flow = WindowFlow::new(Ledbat::new(args, setup.start), args.window("initial"), &setup);
        Box::new(flow.at_most(args.optional_window("max_cwnd"), setup.mss))
    },
    receiver: None,
};

static PARAMS: &[Param] = &[
    Param {
        key: "initial",
        kind: Kind::Window,
        default: "2pkts",
        unit: "",
        help: "initial window, also after a change of path",
        source: "RFC 6817 section 2.4.2, INIT_CWND",
    },
    MAX_CWND,
    Param {
        key: "min_cwnd",
        kind: Kind::Integer(1, 1000),
        default: "2",
        unit: "pkt",
        help: "smallest window, except after a timeout",
        source: "RFC 6817 section 2.4.2, MIN_CWND",
    },
    Param {
        key: "target",
        kind: Kind::Span(Span::from_micros(1), Span::from_secs(10)),
        default: "100ms",
        unit: "",
        help: "queueing delay to hold (the RFC allows 100ms at most)",
        source: "RFC 6817 section 2.5, TARGET",
    },
    Param {
        key: "gain",
        kind: Kind::Number(1e-3, 100.0),
        default: "1",
        unit: "",
        help: "packets per RTT at an empty queue (the RFC allows 1 at most)",
        source: "RFC 6817 section 2.5, GAIN",
    },
    Param {
        key: "allowed_increase",
        kind: Kind::Number(0.0, 1000.0),
        default: "1",
        unit: "pkt",
        help: "how far the window may be above the flight",
        source: "RFC 6817 section 2.4.2, ALLOWED_INCREASE",
    },
    Param {
        key: "base_history",
        kind: Kind::Integer(1, MAX_MINUTES as u64),
        default: "10",
        unit: "min",
        help: "how many minutes a base delay is remembered",
        source: "RFC 6817 section 2.4.2, BASE_HISTORY",
    },
    Param {
        key: "filter",
        kind: Kind::Integer(1, MAX_FILTER as u64),
        default: "4",
        unit: "samples",
        help: "the current delay is the smallest of this many samples",
        source: "RFC 6817 section 2.4.2, CURRENT_FILTER",
    },
    Param {
        key: "slow_start",
        kind: Kind::Bool,
        default: "false",
        unit: "",
        help: "begin with slow start",
        source: "RFC 6817 section 2.4.2 (optional)",
    },
    Param {
        key: "slow_start_exit",
        kind: Kind::Fraction,
        default: "0.5",
        unit: "",
        help: "fraction of the target at which slow start ends",
        source: "baselines section 6: between half the target and the target",
    },
];

const MAX_MINUTES: usize = 60;
const MAX_FILTER: usize = 64;
const MINUTE: Span = Span::from_secs(60);

fn check(args: &Args) -> Result<(), String> {
    // RFC 6817 section 2.4.2: MIN_CWND is not above INIT_CWND. Bytes and packets compare only for
    // a known MSS; assume the common one.
    let (initial, minimum) = (args.window("initial"), args.integer("min_cwnd"));
    if initial.bytes(1500) < minimum * 1500 {
        return Err(format!("initial={initial} is below min_cwnd={minimum}"));
    }
    Ok(())
}

struct Ledbat {
    min_cwnd: f64,
    target_ns: f64,
    gain: f64,
    allowed_increase: f64,
    slow_start: bool,
    slow_start_exit: f64,
    delay: Delay,
}

impl Ledbat {
    fn new(args: &Args, start: Time) -> Self {
        Self {
            min_cwnd: args.integer("min_cwnd") as f64,
            target_ns: args.span("target").as_nanos() as f64,
            gain: args.number("gain"),
            allowed_increase: args.number("allowed_increase"),
            slow_start: args.flag("slow_start"),
            slow_start_exit: args.number("slow_start_exit"),
            delay: Delay::new(args.integer("base_history"), args.integer("filter"), start),
        }
    }

    fn move_towards_target(&mut self, window: &mut CongestionWindow, acked: Acked) {
        let queueing = self.delay.queueing_ns();
        // RFC 6817 section 2.4.2, off_target: at most 1, but not bounded below.
        let off_target = (self.target_ns - queueing) / self.target_ns;
        if self.in_slow_start(window) {
            if queueing < self.slow_start_exit * self.target_ns {
                window.slow_start(acked.growth, f64::INFINITY);
                return;
            }
            window.ssthresh = window.cwnd;
        }
        if off_target > 0.0 && window.recovering() {
            return;
        }
        // RFC 6817 section 2.4.2, cwnd += GAIN * off_target * bytes_newly_acked * MSS / cwnd
        window.cwnd += self.gain * off_target * acked.packets / window.cwnd;
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
            window.cwnd = window.cwnd.min(acked.flight + self.allowed_increase);
        }
        window.cwnd = window.cwnd.max(self.min_cwnd);
    }

    fn on_loss(&mut self, window: &CongestionWindow, _: f64) -> f64 {
        // RFC 6817 section 2.4.2, on data loss
        (window.cwnd / 2.0).max(self.min_cwnd)
    }

    fn on_path_change(&mut self) {
        self.delay.forget();
    }

    fn in_slow_start(&self, window: &CongestionWindow) -> bool {
        self.slow_start && window.in_slow_start()
    }

    fn memory(&self) {}

    fn recall(&mut self, (): ()) {}

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("queueing_ms", self.delay.queueing_ns() / 1e6);
        show("one_way", f64::from(self.delay.one_way == Some(true)));
    }
}

/// Base and current delay (RFC 6817 section 2.4.2), in nanoseconds with an arbitrary offset, which
/// cancels in the difference.
struct Delay {
    /// Smallest delay of each of the last minutes, in a ring; `i64::MAX` where there was none.
    minutes: Vec<i64>,
    /// The running minute's place in the ring, and its end.
    slot: usize,
    minute_end: Time,
    /// The last samples, in a ring.
    recent: Vec<i64>,
    next: usize,
    /// The minima of the two rings.
    base: i64,
    current: i64,
    /// Which of the two kinds of delay is in the rings.
    one_way: Option<bool>,
}

impl Delay {
    fn new(minutes: u64, filter: u64, start: Time) -> Self {
        Self {
            minutes: vec![i64::MAX; minutes as usize],
            slot: 0,
            minute_end: start + MINUTE,
            recent: vec![i64::MAX; filter as usize],
            next: 0,
            base: i64::MAX,
            current: i64::MAX,
            one_way: None,
        }
    }

    fn sample(&mut self, now: Time, packet: &AckedPacket) {
        let one_way = packet.received_at.is_some();
        if self.one_way != Some(one_way) {
            // The two kinds cannot be compared.
            self.forget();
            self.one_way = Some(one_way);
        }
        let delay = match packet.received_at {
            // The clocks may be any distance apart: wrapping gives the difference of nearby
            // values and something harmless for nonsense.
            Some(at) => at.as_nanos().wrapping_sub(packet.sent_at.as_nanos()) as i64,
            None => i64::try_from(packet.rtt.as_nanos()).unwrap_or(i64::MAX),
        };
        self.update_base(now, delay);
        self.update_current(delay);
    }

    /// RFC 6817 section 2.4.2, update_base_delay.
    fn update_base(&mut self, now: Time, delay: i64) {
        if now >= self.minute_end {
            self.turn_minutes(now);
        }
        let minute = &mut self.minutes[self.slot];
        *minute = delay.min(*minute);
        self.base = self.base.min(delay);
    }

    /// Minutes without samples count as minutes: after a long silence the old minima are gone.
    fn turn_minutes(&mut self, now: Time) {
        let passed = now.since(self.minute_end).as_nanos() / MINUTE.as_nanos() + 1;
        self.minute_end += MINUTE * passed;
        for _ in 0..passed.min(self.minutes.len() as u64) {
            self.slot = (self.slot + 1) % self.minutes.len();
            self.minutes[self.slot] = i64::MAX;
        }
        self.base = self.minutes.iter().copied().min().unwrap_or(i64::MAX);
    }

    /// RFC 6817 section 2.4.2, update_current_delay with the minimum as FILTER.
    fn update_current(&mut self, delay: i64) {
        let replaced = std::mem::replace(&mut self.recent[self.next], delay);
        self.next += 1;
        if self.next == self.recent.len() {
            self.next = 0;
        }
        if delay <= self.current {
            self.current = delay;
        } else if replaced == self.current {
            self.current = self.recent.iter().copied().min().unwrap_or(delay);
        }
    }

    /// The delay that is due to queues; zero before the first sample. Never negative, although
    /// the filter may still hold a sample of the minute that has just left the history.
    fn queueing_ns(&self) -> f64 {
        if self.one_way.is_none() {
            return 0.0;
        }
        self.current.saturating_sub(self.base).max(0) as f64
    }

    fn forget(&mut self) {
        self.minutes.fill(i64::MAX);
        self.recent.fill(i64::MAX);
        self.base = i64::MAX;
        self.current = i64::MAX;
        self.one_way = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Feed, Loop, args, build as spec, setup};
    use crate::{Controller, Stamp};

    fn ledbat(rest: &str, cwnd: f64) -> Feed<WindowFlow<Ledbat>> {
        let law = Ledbat::new(&args(&INFO, rest), Time::ZERO);
        let mut flow = WindowFlow::new(law, cellpace_base::Window::Packets(2), &setup());
        flow.window.cwnd = cwnd;
        Feed::new(flow)
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
        let mut feed = ledbat("min_cwnd=3,initial=3pkts", 4.0);
        feed.ack(4, 100.0);
        for _ in 0..100 {
            feed.wait_ms(10.0);
            feed.ack(4, 900.0);
        }
        assert_eq!(feed.flow.window.cwnd, 3.0);
        assert!("ledbat:min_cwnd=3".parse::<crate::ControllerSpec>().is_err());
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

    fn base_ms(delay: &Delay) -> f64 {
        delay.base as f64 / 1e6
    }

    fn packet(rtt: Span, received_at: Option<Time>, sent_at: Time) -> AckedPacket {
        AckedPacket {
            number: 0,
            bytes: 1500,
            sent_at,
            rtt,
            received_at,
            app_limited: false,
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn ledbat_l9_base_delay_is_forgotten_after_ten_minutes() {
        let mut delay = Delay::new(10, 4, Time::ZERO);
        for minute in 0..12 {
            let ms = if minute == 0 { 50 } else { 80 };
            for second in [0, 30, 59] {
                let now = Time::from_secs(minute * 60 + second);
                delay.sample(now, &packet(Span::from_millis(ms), None, now));
                assert_eq!(base_ms(&delay), if minute < 10 { 50.0 } else { 80.0 }, "{minute}");
            }
        }
        assert_eq!(delay.queueing_ns(), 0.0, "a newcomer to a standing queue takes it for base");
    }

    #[test]
    fn ledbat_base_delay_does_not_outlive_a_long_silence() {
        let mut delay = Delay::new(10, 4, Time::ZERO);
        delay.sample(Time::ZERO, &packet(Span::from_millis(50), None, Time::ZERO));
        let later = Time::from_secs(24 * 3600);
        delay.sample(later, &packet(Span::from_millis(80), None, later));
        assert_eq!(base_ms(&delay), 80.0);
        assert_eq!(delay.queueing_ns(), 0.0, "the filter may lag behind the base, not below it");
    }

    #[test]
    fn ledbat_the_offset_between_the_clocks_cancels() {
        for offset in [0, 1_000_000_000, u64::MAX / 2, u64::MAX - 500_000_000] {
            let mut delay = Delay::new(10, 1, Time::ZERO);
            for (at, ms) in [(0, 20), (100, 20), (200, 70)] {
                let sent = Time::from_millis(at);
                let nanos = (sent + Span::from_millis(ms)).as_nanos().wrapping_add(offset);
                let at = Some(Time::from_nanos(nanos));
                delay.sample(sent, &packet(Span::from_secs(9), at, sent));
            }
            assert_eq!(delay.queueing_ns(), 50e6, "{offset}");
        }
    }

    #[test]
    fn ledbat_filter_takes_the_smallest_of_the_last_samples() {
        let mut delay = Delay::new(10, 4, Time::ZERO);
        let currents: Vec<i64> = [50, 90, 80, 70, 60, 95, 95, 95, 95]
            .into_iter()
            .map(|ms| {
                delay.sample(Time::ZERO, &packet(Span::from_millis(ms), None, Time::ZERO));
                delay.current / 1_000_000
            })
            .collect();
        assert_eq!(currents, [50, 50, 50, 50, 60, 60, 60, 60, 95]);
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
