//! HyStart++ (RFC 9406): leaves slow start when the delay has grown from one round to the next, but
//! not for good at once. For five rounds the window grows at a quarter of the pace; if the delay
//! turns out to be jitter, slow start goes on.

use cellpace_base::Span;

use crate::Ack;

// The constants of RFC 9406 section 4.3.
const MIN_THRESHOLD: Span = Span::from_millis(4);
const MAX_THRESHOLD: Span = Span::from_millis(16);
const DIVISOR: u64 = 8;
const SAMPLES: u32 = 8;
const CSS_GROWTH: f64 = 4.0;
const CSS_ROUNDS: u32 = 5;

/// Most packets that one ack adds, for senders that do not pace (L; RFC 9406 section 4.3).
pub(crate) const MAX_GROWTH: f64 = 8.0;

/// The detector. It watches one slow start, the first of a path: after a loss, ssthresh is known.
#[derive(Debug, Clone)]
pub(crate) struct HyStartPlus {
    /// The smallest RTT of the round before and of this one; [`Span::MAX`] without a sample.
    last_min: Span,
    min: Span,
    samples: u32,
    /// The round is over when this number is acked.
    round_end: u64,
    conservative: Option<ConservativeSlowStart>,
    finished: bool,
}

/// Conservative slow start (CSS).
#[derive(Debug, Clone, Copy)]
struct ConservativeSlowStart {
    /// The smallest RTT when it began.
    base: Span,
    rounds: u32,
}

impl HyStartPlus {
    /// A detector for a slow start that begins.
    pub(crate) fn new() -> Self {
        Self {
            last_min: Span::MAX,
            min: Span::MAX,
            samples: 0,
            round_end: 0,
            conservative: None,
            finished: false,
        }
    }

    /// There was a loss, a mark or a timeout.
    pub(crate) fn finish(&mut self) {
        self.finished = true;
        self.conservative = None;
    }

    /// Whether its slow start may still go on.
    pub(crate) fn is_watching(&self) -> bool {
        !self.finished
    }

    /// Takes an ack in slow start. Returns whether slow start ends here.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) -> bool {
        let rtt = ack.min_rtt();
        ack.packets.iter().any(|packet| self.on_packet(packet.number, rtt, ack.next_number))
    }

    /// By how much the growth of slow start is divided now.
    pub(crate) fn divisor(&self) -> f64 {
        if self.conservative.is_some() { CSS_GROWTH } else { 1.0 }
    }

    fn on_packet(&mut self, number: u64, rtt: Span, next_number: u64) -> bool {
        if self.finished {
            return false;
        }
        if number >= self.round_end && self.end_round(next_number) {
            self.finish();
            return true;
        }
        self.min = self.min.min(rtt);
        self.samples += 1;
        if self.samples >= SAMPLES {
            self.compare();
        }
        false
    }

    /// Returns whether the last round of conservative slow start is over.
    fn end_round(&mut self, next_number: u64) -> bool {
        self.last_min = self.min;
        self.min = Span::MAX;
        self.samples = 0;
        self.round_end = next_number;
        self.conservative.as_mut().is_some_and(|css| {
            css.rounds += 1;
            css.rounds == CSS_ROUNDS
        })
    }

    fn compare(&mut self) {
        match self.conservative {
            Some(css) if self.min < css.base => self.conservative = None, // it was jitter
            Some(_) => {}
            None if self.last_min == Span::MAX => {}
            None if self.min >= self.last_min + threshold(self.last_min) => {
                self.conservative = Some(ConservativeSlowStart { base: self.min, rounds: 0 });
            }
            None => {}
        }
    }
}

/// The growth of the delay that counts (RFC 9406 section 4.2, RttThresh).
fn threshold(last_min: Span) -> Span {
    (last_min / DIVISOR).clamp(MIN_THRESHOLD, MAX_THRESHOLD)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::drive::{Boxed, ControllerFeed, Loop, build, feed};

    /// Acks of one packet each, in rounds.
    struct Rounds {
        detector: HyStartPlus,
        next: u64,
    }

    impl Rounds {
        fn new() -> Self {
            Self { detector: HyStartPlus::new(), next: 0 }
        }

        /// A round of acks with these RTTs in ms: the divisor of each, `x` where slow start ends.
        fn round(&mut self, rtts: &[f64]) -> String {
            let (first, end) = (self.next, self.next + 2 * rtts.len() as u64);
            self.next += rtts.len() as u64;
            let ack = |(index, rtt): (usize, &f64)| {
                let number = first + index as u64;
                let rtt = Span::from_millis_f64(*rtt);
                // The sender keeps a round in flight.
                let next_number = (number + rtts.len() as u64).min(end);
                if self.detector.on_packet(number, rtt, next_number) {
                    return "x".to_owned();
                }
                self.detector.divisor().to_string()
            };
            rtts.iter().enumerate().map(ack).collect()
        }

        fn rounds(&mut self, rtts: &[f64]) -> Vec<String> {
            rtts.iter().map(|rtt| self.round(&[*rtt; 10])).collect()
        }
    }

    #[test]
    fn hystart_pp_h1_thresholds() {
        let thresholds = [10.0, 32.0, 41.0, 100.0, 128.0, 300.0]
            .map(|ms| threshold(Span::from_millis_f64(ms)).as_millis_f64());
        assert_eq!(thresholds, [4.0, 4.0, 5.125, 12.5, 16.0, 16.0]);
    }

    #[test]
    fn hystart_pp_h2_five_rounds_of_conservative_slow_start() {
        let seen = Rounds::new().rounds(&[41.0, 41.0, 47.0, 47.0, 47.0, 47.0, 47.0, 47.0]);
        let slow = "4444444444";
        let expected = ["1111111111", "1111111111", "1111111444", slow, slow, slow, slow];
        assert_eq!(seen[..7], expected);
        assert!(seen[7].starts_with('x'), "{}", seen[7]);
    }

    #[test]
    fn hystart_pp_h3_a_smaller_growth_is_none() {
        let seen = Rounds::new().rounds(&[41.0, 41.0, 46.1, 46.1, 46.1, 46.1, 46.1, 46.1, 46.1]);
        assert!(seen.iter().all(|round| round == "1111111111"), "{seen:?}");
    }

    #[test]
    fn hystart_pp_h4_jitter_is_taken_back() {
        let seen = Rounds::new().rounds(&[41.0, 41.0, 50.0, 50.0, 43.0, 43.0, 43.0]);
        let expected = ["1111111111", "1111111111", "1111111444", "4444444444", "4444444111"];
        assert_eq!(seen[..5], expected);
        assert_eq!(seen[5..], ["1111111111", "1111111111"]);
    }

    #[test]
    fn hystart_pp_h5_the_smallest_of_a_round_counts() {
        let mut rounds = Rounds::new();
        rounds.rounds(&[41.0, 41.0]);
        let mut late = [60.0; 10];
        late[0] = 41.0;
        assert_eq!(rounds.round(&late), "1111111111");
        assert_eq!(rounds.round(&[60.0; 10]), "1111111444");
    }

    #[test]
    fn hystart_pp_h6_seven_acks_a_round_never_suffice() {
        let mut rounds = Rounds::new();
        for rtt in [41.0, 41.0, 60.0, 80.0, 100.0, 150.0, 200.0, 300.0] {
            assert_eq!(rounds.round(&[rtt; 7]), "1111111");
        }
    }

    #[test]
    fn hystart_pp_h7_growth_of_the_window() {
        let (mut detector, mut window) = (HyStartPlus::new(), 16.0_f64);
        let (mut next, mut rounds, mut round_end) = (16, Vec::new(), 0);
        for number in 0.. {
            if number >= round_end {
                round_end = next;
                rounds.push(window);
            }
            let rtt = if rounds.len() <= 2 { 41.0 } else { 50.0 };
            if detector.on_packet(number, Span::from_millis_f64(rtt), next) {
                assert_eq!((number, window), (602, 207.75));
                break;
            }
            window += 1.0 / detector.divisor();
            next = next.max(number + 1 + window as u64);
        }
        assert_eq!(rounds[1..], [32.0, 64.0, 85.25, 106.5, 133.0, 166.25, 207.75]);
    }

    fn round(feed: &mut ControllerFeed<Boxed>, rtt_ms: f64) {
        let flight = feed.shown("cwnd_pkts") as u64;
        for _ in 0..flight {
            feed.wait_ms(0.5);
            feed.ack(flight, rtt_ms);
        }
    }

    const BOTH: [&str; 2] = ["cubic:hystart=pp", "newreno:hystart=pp"];

    #[test]
    fn hystart_pp_h8_a_loss_ends_it_for_good() {
        for text in BOTH {
            let mut feed = feed(text);
            for rtt_ms in [41.0, 41.0, 50.0] {
                round(&mut feed, rtt_ms);
            }
            let before = feed.shown("cwnd_pkts");
            let flight = before as u64;
            feed.lose(flight);
            let factor = if text.starts_with("cubic") { 0.7 } else { 0.5 };
            let reduced = feed.shown("cwnd_pkts");
            assert!((reduced / (factor * before) - 1.0).abs() < 0.05, "{text}: {before} {reduced}");
            // A timeout makes a new slow start, which the detector leaves alone.
            feed.finish_recovery(reduced as u64, 41.0);
            feed.time_out(reduced as u64, 1);
            let ssthresh = feed.shown("ssthresh_pkts");
            for rtt_ms in [41.0, 41.0, 41.0, 80.0, 80.0, 80.0, 80.0] {
                let cwnd = feed.shown("cwnd_pkts");
                round(&mut feed, rtt_ms);
                let doubled = (2.0 * cwnd.floor()).min(ssthresh.floor());
                assert!(feed.shown("cwnd_pkts") >= doubled, "{text}");
            }
        }
    }

    #[test]
    fn hystart_pp_h8_a_mark_ends_it_too() {
        for text in BOTH {
            let mut feed = feed(text);
            for rtt_ms in [41.0, 41.0, 50.0] {
                round(&mut feed, rtt_ms);
            }
            let before = feed.shown("cwnd_pkts");
            feed.mark(before as u64, 50.0);
            let reduced = feed.shown("cwnd_pkts");
            assert!(reduced < before && feed.shown("ssthresh_pkts") == reduced, "{text}");
            feed.finish_recovery(reduced as u64, 41.0);
            feed.time_out(reduced as u64, 1);
            // In conservative slow start three acks would not add three packets.
            let cwnd = feed.shown("cwnd_pkts");
            feed.acks(3, 3, 80.0);
            assert_eq!(feed.shown("cwnd_pkts"), cwnd + 3.0, "{text}");
        }
    }

    #[test]
    fn hystart_pp_h9_without_a_full_window_rounds_go_on() {
        for text in BOTH {
            let mut feed = feed(text);
            round(&mut feed, 41.0);
            let before = feed.shown("cwnd_pkts");
            for rtt_ms in [41.0, 41.0, 50.0, 50.0, 50.0, 50.0, 50.0, 50.0] {
                for _ in 0..8 {
                    feed.wait_ms(5.0);
                    feed.ack(8, rtt_ms);
                }
            }
            assert_eq!(feed.shown("cwnd_pkts"), before, "{text}");
            assert_eq!(feed.shown("ssthresh_pkts"), before, "{text}: the rounds have passed");
        }
    }

    #[test]
    fn hystart_pp_h10_most_that_an_ack_adds() {
        for text in BOTH {
            let mut feed = feed(text);
            round(&mut feed, 41.0);
            let before = feed.shown("cwnd_pkts");
            feed.wait_ms(1.0);
            feed.ack_many(20, 20, 41.0);
            assert_eq!(feed.shown("cwnd_pkts"), before + 8.0, "{text}");
            round(&mut feed, 41.0);
            round(&mut feed, 60.0);
            let before = feed.shown("cwnd_pkts");
            feed.wait_ms(1.0);
            feed.ack_many(20, 60, 60.0);
            assert_eq!(feed.shown("cwnd_pkts"), before + 2.0, "{text}: conservative");
        }
    }

    #[test]
    fn hystart_pp_overflows_a_long_queue_less() {
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
        for (plus, plain) in [
            ("cubic:hystart=pp", "cubic:hystart=off"),
            ("newreno:hystart=pp", "newreno:hystart=off"),
        ] {
            assert!(peak(plus) < 0.9 * peak(plain), "{plus}: {} {}", peak(plus), peak(plain));
        }
    }
}
