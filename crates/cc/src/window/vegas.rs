//! Vegas: keeps between `alpha` and `beta` packets of its own in the queue, judged once per RTT by
//! how far the RTT is above the smallest ever seen.
//!
//! L. Brakmo, L. Peterson: TCP Vegas (IEEE JSAC, 1995; SIGCOMM 1994), in the form that Linux has.

use cellpace_base::{Span, params, words};

use crate::window::flow::{
    Acked, CongestionWindow, MIN_SSTHRESH, WindowFlow, WindowLaw, WindowParams,
};
use crate::{Ack, Controller, ControllerParams, Setup};

params! {
    /// Vegas' parameters.
    pub(crate) struct VegasParams {
        /// Grow while fewer than this are queued
        alpha: u64 = "2" in 0..=1_000_000, unit "pkt", from "Linux tcp_vegas; Vegas section 3.2";
        /// Shrink while more than this are queued
        beta: u64 = "4" in 0..=1_000_000, unit "pkt", from "Linux tcp_vegas; Vegas section 3.2";
    }
    expert {
        /// Leave slow start when more than this are queued
        gamma: u64 = "1" in 0..=1_000_000, unit "pkt", from "Linux tcp_vegas; Vegas section 3.3";
        /// Queue as cwnd*(rtt-base)/base; 1994: /rtt, and slow start in every other round
        form: VegasForm = "linux", from "Linux tcp_vegas (linux); Vegas section 3.2 (1994)";
    }
    with { window: WindowParams }
}

words! {
    /// Whose Vegas it is.
    pub(crate) enum VegasForm {
        Linux = "linux",
        Paper = "1994",
    }
}

impl ControllerParams for VegasParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(WindowFlow::new(Vegas::new(self), &self.window, &setup))
    }

    fn check(&self) -> Result<(), String> {
        let Self { alpha, beta, .. } = self;
        if alpha > beta {
            return Err(format!("alpha={alpha} is above beta={beta}"));
        }
        Ok(())
    }
}

/// With fewer samples in a round a delayed ack may pass for a queue.
const MIN_SAMPLES: u64 = 3;

struct Vegas {
    params: VegasParams,
    base_rtt: Span,
    /// The running round; `None` in recovery and before the first ack.
    round: Option<VegasRound>,
    /// The 1994 form measures in every other round of slow start, with the window held.
    hold: bool,
    last_diff: u64,
}

#[derive(Debug, Clone, Copy)]
struct VegasRound {
    /// Over when this number is acked (`beg_snd_nxt`).
    end: u64,
    min_rtt: Span,
    samples: u64,
}

/// The queue as estimated over one round, in whole packets.
#[derive(Debug, Clone, Copy)]
struct QueueEstimate {
    /// The window that would just fill the path.
    target: f64,
    /// Packets beyond it.
    diff: u64,
}

impl Vegas {
    fn new(params: &VegasParams) -> Self {
        Self { params: params.clone(), base_rtt: Span::MAX, round: None, hold: false, last_diff: 0 }
    }

    fn queue(&self, cwnd: f64, rtt: Span) -> QueueEstimate {
        let cwnd = cwnd as u128;
        let base = u128::from(self.base_rtt.as_nanos().max(1));
        let rtt = u128::from(rtt.as_nanos()).max(base);
        // Whole packets, as in Linux; 128 bits because packets times nanoseconds overflow 64.
        let divisor = if self.params.form == VegasForm::Paper { rtt } else { base };
        let diff = cwnd * (rtt - base) / divisor; // Vegas section 3.2, Diff
        QueueEstimate {
            target: (cwnd * base / rtt) as f64,
            diff: u64::try_from(diff).unwrap_or(u64::MAX), // more than any bound, all the same
        }
    }

    fn slow_start(&self, window: &mut CongestionWindow, acked: Acked) {
        if !self.hold {
            window.slow_start(acked.growth, f64::INFINITY);
        }
    }

    fn end_of_round(&mut self, window: &mut CongestionWindow, rtt: Span, acked: Acked) {
        let QueueEstimate { target, diff } = self.queue(window.cwnd, rtt);
        self.last_diff = diff;
        if window.in_slow_start() {
            if diff <= self.params.gamma {
                self.slow_start(window, acked);
                self.hold = self.params.form == VegasForm::Paper && !self.hold;
                return;
            }
            window.cwnd = window.cwnd.min(target + 1.0);
            window.ssthresh = window.ssthresh.min(window.cwnd - 1.0);
        } else if diff > self.params.beta {
            window.cwnd -= 1.0;
            window.ssthresh = window.ssthresh.min(window.cwnd - 1.0);
        } else if diff < self.params.alpha && acked.growth > 0.0 {
            window.cwnd += 1.0;
        }
        window.cwnd = window.cwnd.max(MIN_SSTHRESH);
    }
}

impl WindowLaw for Vegas {
    type Memory = ();

    fn on_ack(&mut self, window: &mut CongestionWindow, ack: &Ack<'_>, acked: Acked) {
        // During recovery the delay does not depend on the window. The samples of an ack count
        // once: what several packets of a late ack have in common is that it is late.
        let rtt = ack.min_rtt();
        self.base_rtt = self.base_rtt.min(rtt);
        if window.recovering() {
            self.round = None;
            return;
        }
        let fresh = VegasRound { end: ack.next_number, min_rtt: Span::MAX, samples: 0 };
        let round = self.round.get_or_insert(fresh);
        round.min_rtt = round.min_rtt.min(rtt);
        round.samples += 1;
        let round = *round;
        if acked.newest < round.end {
            self.slow_start(window, acked);
            return;
        }
        self.round = Some(fresh);
        if round.samples < MIN_SAMPLES {
            window.grow_as_reno(acked.growth, f64::INFINITY);
            return;
        }
        self.end_of_round(window, round.min_rtt, acked);
    }

    fn on_loss(&mut self, window: &CongestionWindow, _: f64) -> f64 {
        self.round = None;
        self.hold = false;
        (window.cwnd / 2.0).max(MIN_SSTHRESH) // RFC 5681 Eq. 4, on the window as in Linux
    }

    fn on_path_change(&mut self) {
        self.base_rtt = Span::MAX;
        self.round = None;
        self.hold = false;
    }

    fn memory(&self) {}

    fn recall(&mut self, (): ()) {}

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let base = if self.base_rtt == Span::MAX { Span::ZERO } else { self.base_rtt };
        show("base_rtt_ms", base.as_millis_f64());
        show("diff_pkts", self.last_diff as f64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{ControllerFeed, Loop, build as spec, setup};
    use crate::{Span, Time};
    use cellpace_base::ParamSet;

    fn vegas(rest: &str, cwnd: f64, ssthresh: f64) -> ControllerFeed<WindowFlow<Vegas>> {
        let params = VegasParams::parse("vegas", rest).unwrap();
        let mut flow = WindowFlow::new(Vegas::new(&params), &params.window, &setup());
        (flow.window.cwnd, flow.window.ssthresh) = (cwnd, ssthresh);
        flow.law.base_rtt = Span::from_millis(100);
        ControllerFeed::new(flow)
    }

    /// One round of `samples` acks; the last of them ends it.
    fn round(feed: &mut ControllerFeed<WindowFlow<Vegas>>, samples: u64, rtt_ms: f64) {
        let flight = feed.flow.window.cwnd as u64;
        let end = feed.next.max(feed.oldest + flight);
        feed.flow.law.round =
            Some(VegasRound { end: feed.oldest + samples - 1, min_rtt: Span::MAX, samples: 0 });
        feed.next = end;
        feed.acks(samples, flight, rtt_ms);
    }

    fn avoidance(rest: &str, rtt_ms: f64) -> f64 {
        let mut feed = vegas(rest, 20.0, 10.0);
        round(&mut feed, 20, rtt_ms);
        feed.flow.window.cwnd
    }

    #[test]
    fn vegas_v1_shrinks_above_beta() {
        assert_eq!(avoidance("", 125.0), 19.0);
        assert_eq!(avoidance("form=1994", 125.0), 20.0, "the paper's form sees 4 packets");
    }

    #[test]
    fn vegas_v2_grows_below_alpha() {
        assert_eq!(avoidance("", 105.0), 21.0);
    }

    #[test]
    fn vegas_v3_holds_in_between() {
        assert_eq!(avoidance("", 115.0), 20.0);
    }

    #[test]
    fn vegas_v4_leaves_slow_start_above_gamma() {
        let mut feed = vegas("", 16.0, f64::INFINITY);
        feed.app_limited = true; // no growth on the way, so that the window is 16 at the end
        let flight = 16;
        feed.flow.law.round = Some(VegasRound { end: 4, min_rtt: Span::MAX, samples: 0 });
        feed.next = flight;
        feed.acks(5, 1, 113.0);
        assert_eq!(feed.shown("diff_pkts"), 2.0);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (15.0, 14.0));
    }

    #[test]
    fn vegas_v5_slow_start_goes_on_up_to_gamma() {
        let mut feed = vegas("", 16.0, f64::INFINITY);
        let queue = feed.flow.law.queue(16.0, Span::from_millis(107));
        assert_eq!(queue.diff, 1);
        round(&mut feed, 3, 106.0);
        assert_eq!(feed.flow.window.cwnd, 19.0);
        assert!(feed.flow.window.in_slow_start());
    }

    #[test]
    fn vegas_v6_two_samples_are_not_enough() {
        let mut feed = vegas("", 20.0, 10.0);
        round(&mut feed, 2, 200.0);
        assert_eq!(feed.flow.window.cwnd, 20.05, "as NewReno, for the ack that ends the round");
        round(&mut feed, 3, 200.0);
        assert_eq!(feed.flow.window.cwnd, 19.05);
    }

    #[test]
    fn vegas_v7_alone_it_queues_two_to_four_packets() {
        let path = Loop {
            service: Span::from_millis(1),
            base: Span::from_millis(39), // and one of service
            buffer: 1000,
            drop_every: None,
        };
        let seen = path.run(&mut *spec("vegas"), Span::from_secs(30));
        let late: Vec<_> = seen.iter().filter(|ack| ack.at > Time::from_secs(15)).collect();
        assert!(late.iter().all(|ack| (41.0..=45.0).contains(&ack.rtt_ms)), "{:?}", late.last());
        let mean = late.iter().map(|ack| ack.rtt_ms).sum::<f64>() / late.len() as f64;
        assert!((42.0..=44.5).contains(&mean), "{mean}");
        assert!(late.len() > 14_500, "{}", late.len());
    }

    #[test]
    fn vegas_slow_start_of_1994_holds_every_other_round() {
        let mut feed = vegas("form=1994", 10.0, f64::INFINITY);
        let windows: Vec<f64> = (0..4)
            .map(|_| {
                let flight = feed.flow.window.cwnd as u64;
                round(&mut feed, flight, 100.0);
                feed.flow.window.cwnd
            })
            .collect();
        assert_eq!(windows, [20.0, 20.0, 40.0, 40.0]);
    }

    #[test]
    fn vegas_halves_on_loss_and_is_silent_in_recovery() {
        let mut feed = vegas("", 20.0, 10.0);
        feed.lose(20);
        assert_eq!((feed.flow.window.cwnd, feed.flow.window.ssthresh), (10.0, 10.0));
        feed.acks(15, 19, 500.0);
        assert_eq!(feed.flow.window.cwnd, 10.0);
        assert!(feed.flow.law.round.is_none());
    }

    #[test]
    fn vegas_bounds_the_wrong_way_round_are_refused() {
        assert!("vegas:alpha=5,beta=4".parse::<crate::ControllerSpec>().is_err());
    }
}
