//! BIC: binary search for the window between the last reduction and the last maximum, bounded by
//! linear steps, and a slow probe beyond.
//!
//! L. Xu, K. Harfoush, I. Rhee: Binary increase congestion control (INFOCOM 2004), with the whole
//! numbers and constants that Linux uses.

use cellpace_base::{Span, Time, params, words};

use crate::window::flow::{
    Acked, CongestionWindow, MIN_SSTHRESH, WindowFlow, WindowLaw, WindowParams,
};
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// BIC's parameters.
    pub(crate) struct BicParams {
        /// What a loss event leaves of the window, in steps of 1/1024 (beta; the paper has 0.875)
        loss_factor: f64 = "0.8" in 0.1..=0.999, from "Linux tcp_bic; BIC section III";
        /// Most that the window grows per RTT (Smax; the paper has 32)
        smax: u64 = "16" in 1..=65_536, unit "pkt", from "Linux tcp_bic; BIC section III", logarithmic;
    }
    expert {
        /// Aim lower after a loss below the last maximum, to make room for new flows
        fast_convergence: bool = "true", from "BIC section III.C";
        /// Grow by packets acked, or by acks weighted with their mean size as Linux does
        counting: GrowthUnit = "packets", from "Linux tcp_bic, delayed_ack";
    }
    with { window: WindowParams }
}

words! {
    /// What the window grows by.
    pub(crate) enum GrowthUnit {
        Packets = "packets",
        Acks = "acks",
    }
}

impl ControllerParams for BicParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(Bic::new(self), &self.window, &setup))
    }
}

/// How much of the distance one RTT covers: one part in this many (Linux tcp_bic).
const B: u64 = 4;

/// Slowness close to the maximum: RTTs per `B` packets (Linux tcp_bic).
const SMOOTH: u64 = 20;

/// NewReno up to this window, in packets (Linux tcp_bic; BIC section III).
const LOW_WINDOW: u64 = 14;

/// Acks per packet of growth at most, before the first loss (Linux tcp_bic).
const FIRST_CNT: u64 = 20;

/// Linux keeps the mean number of packets per ack in sixteenths, beginning with two.
const ACK_RATIO_ONE: u64 = 16;

/// How long a count stays good while the window does not move (Linux: a 32nd of a second).
const CACHE: Span = Span::from_micros(31_250);

struct Bic {
    /// What a loss leaves, in parts of 1024 (Linux).
    beta: u64,
    smax: u64,
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
    fn new(params: &BicParams) -> Self {
        let by_acks = params.counting == GrowthUnit::Acks;
        Self {
            beta: (params.loss_factor * 1024.0).round() as u64,
            smax: params.smax,
            fast_convergence: params.fast_convergence,
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
            cnt = cnt.min(FIRST_CNT);
        }
        (cnt.saturating_mul(ACK_RATIO_ONE) / self.ack_ratio.max(1)).max(1)
    }

    fn search(&self, cwnd: u64) -> u64 {
        let &Self { smax, last_max, .. } = self;
        let gentle = cwnd.saturating_mul(SMOOTH) / B;
        if cwnd <= LOW_WINDOW {
            return cwnd;
        }
        if cwnd < last_max {
            return match (last_max - cwnd) / B {
                distance if distance > smax => cwnd / smax, // additive increase
                0 | 1 => gentle,
                distance => cwnd / distance, // binary search increase
            };
        }
        match cwnd - last_max {
            beyond if beyond < B => gentle,
            beyond if beyond < smax * (B - 1) => cwnd * (B - 1) / beyond, // slow start beyond
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
        let rest = if cwnd <= LOW_WINDOW { cwnd / 2 } else { cwnd * self.beta / 1024 };
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
    use crate::drive::{ControllerFeed, setup};
    use cellpace_base::ParamSet;

    fn bic(rest: &str, cwnd: f64, last_max: u64) -> ControllerFeed<WindowFlow<Bic>> {
        let params = BicParams::parse("bic", rest).unwrap();
        let mut flow = WindowFlow::new(Bic::new(&params), &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (cwnd, cwnd.min(2.0));
        flow.law.last_max = last_max;
        ControllerFeed::new(flow)
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
        let paper = bic("loss_factor=0.875,smax=32", 200.0, 0);
        let mut feed = paper;
        feed.lose(200);
        assert_eq!(feed.flow.window.cwnd, 175.0);
        assert_eq!(bic("smax=32", 10.0, 400).flow.law.cnt(160), 5);
    }
}
