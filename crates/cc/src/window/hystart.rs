//! HyStart: leaves slow start before it overflows the queue, when the acks of one round stretch
//! over half the base RTT (the train fills the pipe) or when the delay has grown.
//!
//! S. Ha, I. Rhee: Taming the elephants: new TCP slow start (Computer Networks, 2011), with the
//! thresholds that Linux uses.

use cellpace_base::{Span, Time, words};

use crate::Ack;

words! {
    /// The signs by which HyStart ends slow start.
    pub(crate) enum HyStartSigns {
        /// Either of the two.
        Both = "both",
        /// The acks of a round stretch over half the base RTT.
        Train = "train",
        /// The delay has grown.
        Delay = "delay",
        /// HyStart++ (RFC 9406): the delay has grown from round to round; a slower start first.
        Plus = "pp",
        /// None: slow start goes on until a loss.
        Off = "off",
    }
}

/// Packets; smaller windows are left alone (Linux tcp_cubic; HyStart section 4).
const LOW_WINDOW: f64 = 16.0;

/// Acks no farther apart than this form a train (Linux tcp_cubic; HyStart section 4).
const ACK_DELTA: Span = Span::from_millis(2);

/// Bounds of the increase in delay that ends slow start (Linux tcp_cubic; HyStart section 4).
const MIN_DELAY_INCREASE: Span = Span::from_millis(4);
const MAX_DELAY_INCREASE: Span = Span::from_millis(16);

/// Samples per round that count for the delay.
const SAMPLES: u32 = 8;

/// The detector.
#[derive(Debug, Clone)]
pub(crate) struct HyStart {
    watch_train: bool,
    watch_delay: bool,
    base_rtt: Span,
    round: Option<HyStartRound>,
}

/// One round trip, counted by packet numbers.
#[derive(Debug, Clone, Copy)]
struct HyStartRound {
    /// Over when this number is acked.
    end: u64,
    start: Time,
    last_of_train: Time,
    min_rtt: Span,
    samples: u32,
}

impl HyStart {
    /// Returns the detector of `signs`.
    pub(crate) fn new(signs: HyStartSigns) -> Self {
        Self {
            watch_train: matches!(signs, HyStartSigns::Both | HyStartSigns::Train),
            watch_delay: matches!(signs, HyStartSigns::Both | HyStartSigns::Delay),
            base_rtt: Span::MAX,
            round: None,
        }
    }

    /// Begins a new slow start. The base RTT stays.
    pub(crate) fn restart(&mut self) {
        self.round = None;
    }

    /// Forgets the path.
    pub(crate) fn forget(&mut self) {
        self.round = None;
        self.base_rtt = Span::MAX;
    }

    /// The smallest RTT so far; zero before the first sample.
    pub(crate) fn base_rtt_ms(&self) -> f64 {
        if self.base_rtt == Span::MAX { 0.0 } else { self.base_rtt.as_millis_f64() }
    }

    /// Takes an ack in slow start, whose highest number is `newest`, at a window of `cwnd`
    /// packets. Returns whether slow start should end here.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>, newest: u64, cwnd: f64) -> bool {
        let rtt = ack.min_rtt();
        self.base_rtt = self.base_rtt.min(rtt);
        let round = match &mut self.round {
            Some(round) if newest < round.end => round,
            ended => ended.insert(HyStartRound {
                end: ack.next_number,
                start: ack.now,
                last_of_train: ack.now,
                min_rtt: Span::MAX,
                samples: 0,
            }),
        };
        if round.samples < SAMPLES {
            round.samples += 1;
            round.min_rtt = round.min_rtt.min(rtt);
        }
        let in_train = ack.now.since(round.last_of_train) <= ACK_DELTA;
        if in_train {
            round.last_of_train = ack.now;
        }
        if cwnd < LOW_WINDOW {
            return false;
        }
        let filled = in_train && ack.now.since(round.start) > self.base_rtt / 2;
        let slack = (self.base_rtt / 8).clamp(MIN_DELAY_INCREASE, MAX_DELAY_INCREASE);
        let slower = round.samples >= SAMPLES && round.min_rtt > self.base_rtt + slack;
        (self.watch_train && filled) || (self.watch_delay && slower)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Boxed, ControllerFeed, Loop, build, feed};

    fn in_slow_start(feed: &ControllerFeed<Boxed>) -> bool {
        feed.shown("ssthresh_pkts") > 1e9
    }

    /// A round of `acks` acks, `gap_ms` apart.
    fn round(feed: &mut ControllerFeed<Boxed>, acks: u64, gap_ms: f64, rtt_ms: f64) {
        let flight = feed.shown("cwnd_pkts") as u64;
        for _ in 0..acks {
            feed.wait_ms(gap_ms);
            feed.ack(flight, rtt_ms);
        }
    }

    #[test]
    fn hystart_leaves_when_the_delay_grows() {
        let mut feed = feed("cubic");
        round(&mut feed, 10, 5.0, 100.0);
        round(&mut feed, 7, 5.0, 113.0); // an eighth of 100 ms is 12.5 ms
        assert!(in_slow_start(&feed), "eight samples are needed");
        round(&mut feed, 10, 5.0, 113.0);
        assert!(!in_slow_start(&feed));
        assert!(feed.shown("ssthresh_pkts") >= 16.0);
    }

    #[test]
    fn hystart_stays_while_the_delay_is_within_an_eighth() {
        let mut feed = feed("cubic");
        round(&mut feed, 10, 5.0, 100.0);
        round(&mut feed, 60, 5.0, 112.0);
        assert!(in_slow_start(&feed));
    }

    #[test]
    fn hystart_threshold_is_clamped_to_4_and_16_ms() {
        for (base, inside, outside) in [(8.0, 11.9, 12.1), (400.0, 415.9, 416.1)] {
            for (rtt, stays) in [(inside, true), (outside, false)] {
                let mut feed = feed("cubic");
                round(&mut feed, 10, 5.0, base);
                round(&mut feed, 60, 5.0, rtt);
                assert_eq!(in_slow_start(&feed), stays, "base {base} rtt {rtt}");
            }
        }
    }

    #[test]
    fn hystart_is_silent_below_16_packets() {
        let mut feed = feed("cubic:initial_window=2pkts");
        feed.ack(20, 20.0);
        for _ in 0..12 {
            feed.wait_ms(5.0);
            feed.ack(20, 300.0);
        }
        assert_eq!(feed.shown("cwnd_pkts"), 15.0);
        assert!(in_slow_start(&feed));
        feed.acks(20, 20, 300.0);
        assert!(!in_slow_start(&feed));
    }

    #[test]
    fn hystart_leaves_when_the_ack_train_fills_half_the_base_rtt() {
        let mut feed = feed("cubic");
        round(&mut feed, 10, 1.0, 100.0);
        feed.wait_ms(90.0);
        feed.ack(100, 100.0); // the round starts here and is 100 packets long
        round(&mut feed, 50, 1.0, 100.0);
        assert!(in_slow_start(&feed), "50 ms are not more than half of 100 ms");
        round(&mut feed, 1, 1.0, 100.0);
        assert!(!in_slow_start(&feed));
    }

    #[test]
    fn hystart_gaps_break_the_train() {
        let mut feed = feed("cubic");
        round(&mut feed, 10, 3.0, 100.0);
        round(&mut feed, 200, 3.0, 100.0);
        assert!(in_slow_start(&feed));
    }

    #[test]
    fn hystart_can_be_turned_off_and_halved() {
        for (text, stays) in [
            ("cubic:hystart=off", true),
            ("cubic:hystart=train", true),
            ("cubic:hystart=delay", false),
        ] {
            let mut feed = feed(text);
            round(&mut feed, 10, 5.0, 100.0);
            round(&mut feed, 60, 5.0, 150.0);
            assert_eq!(in_slow_start(&feed), stays, "{text}");
        }
    }

    #[test]
    fn hystart_keeps_slow_start_from_overflowing_the_queue() {
        // 12 Mbit/s, 40 ms, a queue of five times the path.
        let path = Loop {
            service: Span::from_millis(1),
            base: Span::from_millis(40),
            buffer: 200,
            drop_every: None,
        };
        let peak = |text: &str| {
            let seen = path.run(&mut *build(text), Span::from_secs(2));
            seen.iter().map(|ack| ack.cwnd_pkts).fold(0.0, f64::max)
        };
        assert!(peak("cubic") < 120.0, "{}", peak("cubic"));
        assert!(peak("cubic:hystart=off") > 240.0);
    }
}
