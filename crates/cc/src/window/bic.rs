//! BIC: binary search for the window between the last reduction and the last maximum, bounded by
//! linear steps, and a slow probe beyond.
//!
//! L. Xu, K. Harfoush, I. Rhee: Binary increase congestion control (INFOCOM 2004), with the whole
//! numbers and constants that Linux uses.

use cellpace_base::{Args, Kind, Param, Span, Time};

use crate::window::flow::{
    Acked, CongestionWindow, INITIAL, MAX_CWND, MIN_SSTHRESH, WindowFlow, WindowLaw,
};
use crate::{Ack, ControllerInfo};

/// The registry's entry.
pub const INFO: ControllerInfo = ControllerInfo {
    name: "bic",
    summary: "TCP BIC: binary search towards the last maximum",
    params: PARAMS,
    check: |_| Ok(()),
    load: None,
    build: |args, setup| {
        let flow = WindowFlow::new(Bic::new(args), args.window("initial"), &setup);
        Box::new(flow.at_most(args.optional_window("max_cwnd"), setup.mss))
    },
    receiver: None,
};

static PARAMS: &[Param] = &[
    INITIAL,
    MAX_CWND,
    Param {
        key: "beta",
        kind: Kind::Integer(103, 1023),
        default: "819",
        unit: "1/1024",
        help: "what a loss event leaves of the window (896 is the paper's 0.875)",
        source: "Linux tcp_bic; BIC section III, beta",
    },
    Param {
        key: "smax",
        kind: Kind::Integer(1, 65_536),
        default: "16",
        unit: "pkt",
        help: "most that the window grows per RTT (the paper has 32)",
        source: "Linux tcp_bic; BIC section III, Smax",
    },
    Param {
        key: "b",
        kind: Kind::Integer(2, 1024),
        default: "4",
        unit: "",
        help: "how much of the distance one RTT covers: one part in this many",
        source: "Linux tcp_bic",
    },
    Param {
        key: "smooth",
        kind: Kind::Integer(1, 65_536),
        default: "20",
        unit: "",
        help: "slowness close to the maximum: RTTs per `b` packets",
        source: "Linux tcp_bic",
    },
    Param {
        key: "low_window",
        kind: Kind::Integer(0, 1_000_000),
        default: "14",
        unit: "pkt",
        help: "NewReno up to this window",
        source: "Linux tcp_bic; BIC section III",
    },
    Param {
        key: "first_cnt",
        kind: Kind::Integer(1, 1_000_000),
        default: "20",
        unit: "acks",
        help: "acks per packet of growth at most, before the first loss",
        source: "Linux tcp_bic",
    },
    Param {
        key: "fast_convergence",
        kind: Kind::Bool,
        default: "true",
        unit: "",
        help: "aim lower after a loss below the last maximum, to make room for new flows",
        source: "BIC section III.C",
    },
    Param {
        key: "counting",
        kind: Kind::Word(&["packets", "acks"]),
        default: "packets",
        unit: "",
        help: "grow by packets acked, or by acks weighted with their mean size as Linux does",
        source: "Linux tcp_bic, delayed_ack",
    },
];

/// Linux keeps the mean number of packets per ack in sixteenths, beginning with two.
const ACK_RATIO_ONE: u64 = 16;

/// How long a count stays good while the window does not move (Linux: a 32nd of a second).
const CACHE: Span = Span::from_micros(31_250);

struct Bic {
    beta: u64,
    smax: u64,
    b: u64,
    smooth: u64,
    low_window: u64,
    first_cnt: u64,
    fast_convergence: bool,
    by_acks: bool,
    /// The window at the last loss; zero before the first.
    last_max: u64,
    /// Packets per ack, in sixteenths.
    ack_ratio: u64,
    cached: Option<Cached>,
}

#[derive(Debug, Clone, Copy)]
struct Cached {
    cwnd: u64,
    at: Time,
    cnt: f64,
}

impl Bic {
    fn new(args: &Args) -> Self {
        let by_acks = args.word("counting") == "acks";
        Self {
            beta: args.integer("beta"),
            smax: args.integer("smax"),
            b: args.integer("b"),
            smooth: args.integer("smooth"),
            low_window: args.integer("low_window"),
            first_cnt: args.integer("first_cnt"),
            fast_convergence: args.flag("fast_convergence"),
            by_acks,
            last_max: 0,
            ack_ratio: if by_acks { 2 * ACK_RATIO_ONE } else { ACK_RATIO_ONE },
            cached: None,
        }
    }

    /// Acks per packet of growth at a window of `cwnd` packets, in whole numbers throughout.
    /// (baselines section 4; BIC section III)
    fn cnt(&self, cwnd: u64) -> u64 {
        let mut cnt = self.search(cwnd);
        if self.last_max == 0 {
            cnt = cnt.min(self.first_cnt);
        }
        (cnt.saturating_mul(ACK_RATIO_ONE) / self.ack_ratio.max(1)).max(1)
    }

    fn search(&self, cwnd: u64) -> u64 {
        let &Self { smax, b, smooth, last_max, .. } = self;
        let gentle = cwnd.saturating_mul(smooth) / b;
        if cwnd <= self.low_window {
            return cwnd;
        }
        if cwnd < last_max {
            return match (last_max - cwnd) / b {
                distance if distance > smax => cwnd / smax, // additive increase
                0 | 1 => gentle,
                distance => cwnd / distance, // binary search increase
            };
        }
        match cwnd - last_max {
            beyond if beyond < b => gentle,
            beyond if beyond < smax * (b - 1) => cwnd * (b - 1) / beyond, // slow start beyond
            _ => cwnd / smax,
        }
    }

    fn cached_cnt(&mut self, cwnd: u64, now: Time) -> f64 {
        if let Some(cached) = self.cached
            && cached.cwnd == cwnd
            && now.since(cached.at) <= CACHE
        {
            return cached.cnt;
        }
        let cnt = self.cnt(cwnd) as f64;
        self.cached = Some(Cached { cwnd, at: now, cnt });
        cnt
    }

    fn weigh_ack(&mut self, packets: f64) {
        // Linux: sixteenths, the newest ack counts for one of them.
        let packets = (packets as u64).min(1 << 20);
        self.ack_ratio = self.ack_ratio - self.ack_ratio / ACK_RATIO_ONE + packets;
    }
}

impl WindowLaw for Bic {
    type Memory = u64;

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        if self.by_acks && !window.recovering() {
            self.weigh_ack(acked.packets);
        }
        let left = window.slow_start(acked.growth, f64::INFINITY);
        if left <= 0.0 {
            return;
        }
        let counted = if self.by_acks { 1.0 } else { left };
        window.cwnd += counted / self.cached_cnt(window.cwnd as u64, ack.now);
    }

    fn on_loss(&mut self, window: &CongestionWindow, _: f64) -> f64 {
        let cwnd = window.cwnd as u64;
        let yielding = self.fast_convergence && cwnd < self.last_max;
        self.last_max = if yielding { cwnd * (1024 + self.beta) / 2048 } else { cwnd };
        self.cached = None;
        // At low windows as NewReno.
        let rest = if cwnd <= self.low_window { cwnd / 2 } else { cwnd * self.beta / 1024 };
        (rest as f64).max(MIN_SSTHRESH)
    }

    fn on_path_change(&mut self) {
        self.last_max = 0;
        self.cached = None;
    }

    fn memory(&self) -> u64 {
        self.last_max
    }

    fn recall(&mut self, memory: u64) {
        self.last_max = memory;
        self.cached = None;
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        show("w_max_pkts", self.last_max as f64);
        show("acks_per_pkt", self.cached.map_or(0.0, |cached| cached.cnt));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Feed, args, setup};

    fn bic(rest: &str, cwnd: f64, last_max: u64) -> Feed<WindowFlow<Bic>> {
        let mut flow = WindowFlow::new(
            Bic::new(&args(&INFO, rest)),
            cellpace_base::Window::Packets(10),
            &setup(),
        );
        (flow.window.cwnd, flow.window.ssthresh) = (cwnd, cwnd.min(2.0));
        flow.law.last_max = last_max;
        Feed::new(flow)
    }

    fn cnt(cwnd: u64) -> u64 {
        bic("", 10.0, 200).flow.law.cnt(cwnd)
    }

    /// Growth over one round trip.
    fn per_rtt(cwnd: u64) -> f64 {
        let mut feed = bic("", cwnd as f64, 200);
        feed.ack_many(cwnd, cwnd, 100.0);
        feed.flow.window.cwnd - cwnd as f64
    }

    #[test]
    fn bic_b1_binary_search() {
        assert_eq!(cnt(160), 16);
        assert_eq!(per_rtt(160), 10.0);
    }

    #[test]
    fn bic_b2_additive_increase_far_below() {
        assert_eq!(cnt(100), 6);
        assert!((per_rtt(100) - 16.7).abs() < 0.05);
    }

    #[test]
    fn bic_b3_gentle_close_below() {
        assert_eq!(cnt(197), 985);
    }

    #[test]
    fn bic_b4_gentle_close_above() {
        assert_eq!(cnt(202), 1010);
    }

    #[test]
    fn bic_b5_probes_beyond() {
        assert_eq!(cnt(210), 63);
        assert!((per_rtt(210) - 3.3).abs() < 0.05);
    }

    #[test]
    fn bic_b6_additive_increase_far_beyond() {
        assert_eq!(cnt(260), 16);
        assert!((per_rtt(260) - 16.25).abs() < 0.01);
    }

    #[test]
    fn bic_b7_fast_convergence() {
        let mut feed = bic("", 200.0, 0);
        feed.lose(200);
        assert_eq!((feed.flow.law.last_max, feed.flow.window.ssthresh), (200, 159.0));
        assert_eq!(feed.flow.window.cwnd, 159.0);
        feed.finish_recovery(159, 100.0);
        feed.flow.window.cwnd = 180.0;
        feed.lose(180);
        assert_eq!((feed.flow.law.last_max, feed.flow.window.ssthresh), (161, 143.0));
    }

    #[test]
    fn bic_b8_halves_low_windows() {
        let mut feed = bic("", 12.0, 0);
        feed.lose(12);
        assert_eq!(feed.flow.window.cwnd, 6.0);
    }

    #[test]
    fn bic_before_the_first_loss_and_at_low_windows() {
        let law = bic("", 10.0, 0).flow.law;
        assert_eq!(law.cnt(10), 10, "as NewReno");
        assert_eq!(law.cnt(30), 3);
        assert_eq!(law.cnt(1000), 20, "62 without the bound");
    }

    #[test]
    fn bic_counting_acks_weighs_them_with_their_size() {
        let mut feed = bic("counting=acks", 160.0, 200);
        assert_eq!(feed.flow.law.cnt(160), 8, "two packets per ack to begin with");
        for _ in 0..500 {
            feed.wait_ms(100.0);
            feed.flow.window.cwnd = 160.0;
            feed.ack_many(4, 160, 100.0);
        }
        assert_eq!(feed.flow.law.cnt(160), 4);
        assert_eq!(feed.flow.window.cwnd, 160.25, "one ack of four packets");
    }

    #[test]
    fn bic_constants_are_parameters() {
        let paper = bic("beta=896,smax=32", 200.0, 0);
        let mut feed = paper;
        feed.lose(200);
        assert_eq!(feed.flow.window.cwnd, 175.0);
        assert_eq!(bic("smax=32", 10.0, 400).flow.law.cnt(160), 5);
    }
}
