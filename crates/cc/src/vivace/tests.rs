use cellpace_base::ParamSet;

use super::*;
use crate::{AckedPacket, LostPacket, RttEstimator};

const MSS: u64 = 1500;

/// Sends and acks by hand.
struct Feed {
    flow: Vivace,
    now: Time,
    rtt: RttEstimator,
    number: u64,
}

impl Feed {
    fn new(rest: &str) -> Self {
        let params = VivaceParams::parse("vivace", rest).unwrap();
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) };
        let flow = Vivace::new(&params, setup);
        Self { flow, now: Time::ZERO, rtt: RttEstimator::default(), number: 0 }
    }

    /// A flow in Probing at `rate` Mbit/s with an RTT of 40 ms, all intervals empty.
    fn probing(rate: f64) -> Self {
        let mut feed = Self::new("");
        let first = feed.send();
        feed.wait_ms(40.0);
        feed.ack(&[first]);
        feed.flow.set_rate(rate);
        let now = feed.now;
        feed.flow.probe_afresh(now);
        feed
    }

    fn wait_ms(&mut self, ms: f64) {
        self.now += Span::from_millis_f64(ms);
    }

    fn send(&mut self) -> AckedPacket {
        self.send_with(false)
    }

    fn send_with(&mut self, app_limited: bool) -> AckedPacket {
        let number = self.number;
        self.number += 1;
        let stamp = self.flow.on_sent(&SentPacket {
            now: self.now,
            number,
            bytes: MSS,
            in_flight: 10 * MSS,
            app_limited,
            retransmission: false,
        });
        let (sent_at, rtt) = (self.now, Span::ZERO);
        AckedPacket {
            number,
            bytes: MSS,
            sent_at,
            rtt,
            received_at: None,
            app_limited,
            ecn: Default::default(),
            stamp,
        }
    }

    fn ack(&mut self, packets: &[AckedPacket]) {
        let packets: Vec<AckedPacket> = packets
            .iter()
            .map(|packet| AckedPacket { rtt: self.now.since(packet.sent_at), ..*packet })
            .collect();
        self.rtt.sample(packets[0].rtt);
        self.flow.on_ack(&Ack {
            now: self.now,
            packets: &packets,
            prior_in_flight: 10 * MSS,
            in_flight: 9 * MSS,
            next_number: self.number,
            rtt: &self.rtt,
        });
    }

    fn lose(&mut self, packets: &[AckedPacket]) {
        let packets: Vec<LostPacket> = packets
            .iter()
            .map(|packet| LostPacket {
                number: packet.number,
                bytes: MSS,
                sent_at: packet.sent_at,
                stamp: packet.stamp,
            })
            .collect();
        self.flow.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            prior_in_flight: 10 * MSS,
            in_flight: 9 * MSS,
            next_number: self.number,
            rtt: &self.rtt,
        });
    }

    /// Begins the next interval.
    fn turn(&mut self) {
        self.now = self.flow.intervals.current().end;
        self.flow.on_deadline(self.now);
    }

    fn set_results(&mut self, pairs: [(f64, f64); 2]) {
        for (place, (above, below)) in pairs.into_iter().enumerate() {
            self.flow.results[place] = [Some((10.5, above)), Some((9.5, below))];
        }
        let (now, rate) = (self.now, self.flow.rate);
        self.flow.todo = [None; 2 * MAX_PAIRS];
        self.flow.intervals.restart(now, Span::from_millis(40), rate, Role::Filler);
        self.flow.decide(now);
    }

    fn planned(&self) -> usize {
        self.flow.todo.iter().flatten().count()
    }
}

#[test]
fn vivace_v4_gradient_moves_the_rate_by_a_step_per_unit() {
    let mut feed = Feed::probing(10.0);
    // (7.5 - 7.3) / (10.5 - 9.5) = 0.2
    feed.set_results([(7.5, 7.3), (7.5, 7.3)]);
    assert!((feed.flow.rate - 10.2).abs() < 1e-9, "{}", feed.flow.rate);
}

#[test]
fn vivace_v5_decision() {
    let mut feed = Feed::probing(10.0);
    feed.set_results([(8.3, 7.6), (8.2, 7.7)]);
    assert!((feed.flow.rate - 10.5).abs() < 1e-9, "a mean of 0.6, bounded");
    assert_eq!(feed.flow.steps.run, 1);

    let mut feed = Feed::probing(10.0);
    feed.set_results([(8.3, 7.6), (7.6, 7.7)]);
    assert_eq!((feed.flow.rate, feed.flow.steps.run), (10.0, 0), "the signs differ");
    assert_eq!(feed.planned(), 3, "the first of four has begun");
    assert!(matches!(feed.flow.intervals.current().role, Role::Probe { .. }));

    let mut feed = Feed::probing(10.0);
    feed.set_results([(8.3, 7.6), (7.7, 7.7)]);
    assert_eq!(feed.flow.steps.run, 0, "zero agrees with nothing");
}

#[test]
fn vivace_v6_length_of_an_interval() {
    let mut flow = Feed::new("").flow;
    assert_eq!(flow.intervals.current().end, Time::from_millis(100));
    assert!((flow.rate - 1.2).abs() < 1e-9);
    flow.srtt = Some(Span::from_millis(40));
    for (rate, ms) in [(12.0, 40), (0.6, 200), (2.0, 60)] {
        let seen = flow.length(rate).as_millis_f64();
        assert!((seen - f64::from(ms)).abs() < 1e-6, "{rate}: {seen}");
    }
}

#[test]
fn vivace_v9_the_first_rtt_sets_the_rate() {
    let mut feed = Feed::new("");
    let (first, second) = (feed.send(), feed.send());
    feed.wait_ms(40.0);
    feed.ack(&[first]);
    assert!((feed.flow.rate - 3.0).abs() < 1e-9, "ten packets in 40 ms: {}", feed.flow.rate);
    assert_eq!((feed.flow.intervals.len(), feed.flow.intervals.current().sent), (1, 0));
    feed.ack(&[second]);
    assert_eq!(feed.flow.intervals.len(), 1, "sent before, so forgotten");
    assert!(matches!(feed.flow.mode, Mode::Starting { .. }));
}

#[test]
fn vivace_v10_starting_doubles_until_the_utility_falls() {
    let mut feed = Feed::probing(6.0);
    feed.flow.mode = Mode::Starting { previous: f64::NEG_INFINITY };
    let now = feed.now;
    let tried = |rate: f64, lost: u64, feed: &Feed| {
        let mut interval = *feed.flow.intervals.current();
        (interval.rate, interval.role) = (rate, Role::Start);
        (interval.sent, interval.lost) = (1000, lost);
        interval
    };
    // Utilities of x^0.9 - 11.35 x L: 5.0, 9.4, and far less for a loss of a fifth.
    for (rate, expected) in [(6.0, 12.0), (12.0, 24.0)] {
        let interval = tried(rate, 0, &feed);
        feed.flow.result(now, &interval);
        assert_eq!(feed.flow.rate, expected);
        assert_eq!(feed.flow.intervals.current().role, Role::Start);
    }
    let interval = tried(24.0, 200, &feed);
    feed.flow.result(now, &interval);
    assert_eq!((feed.flow.rate, feed.flow.mode), (12.0, Mode::Probing));
}

#[test]
fn vivace_v11_heavy_loss_halves_once() {
    let mut feed = Feed::probing(10.0);
    let first: Vec<AckedPacket> = (0..10).map(|_| feed.send()).collect();
    feed.turn();
    let second: Vec<AckedPacket> = (0..10).map(|_| feed.send()).collect();
    feed.turn();
    feed.send();
    feed.wait_ms(10.0);
    feed.ack(&first[..4]);
    feed.lose(&first[4..]);
    assert_eq!((feed.flow.rate, feed.flow.mode), (5.0, Mode::Probing));
    feed.lose(&second);
    assert_eq!(feed.flow.rate, 5.0, "sent before the reduction");
    let third: Vec<AckedPacket> = (0..10).map(|_| feed.send()).collect();
    feed.turn();
    feed.send();
    feed.lose(&third);
    assert_eq!(feed.flow.rate, 2.5, "sent after it");
}

#[test]
fn vivace_v12_timeout_halves_and_discards_all_intervals() {
    let mut feed = Feed::probing(10.0);
    for _ in 0..3 {
        feed.send();
        feed.turn();
    }
    assert_eq!(feed.flow.intervals.len(), 4);
    let (now, next_number) = (feed.now, feed.number);
    feed.flow.on_timeout(&Timeout { now, prior_in_flight: 3 * MSS, in_a_row: 1, next_number });
    assert_eq!((feed.flow.rate, feed.flow.mode), (5.0, Mode::Probing));
    assert_eq!((feed.flow.intervals.len(), feed.flow.intervals.current().sent), (1, 0));
    assert_eq!(feed.planned(), 3);
}

#[test]
fn vivace_pairs_are_tried_one_after_the_other_and_then_the_rate_itself() {
    let mut feed = Feed::probing(10.0);
    let mut rates = Vec::new();
    for _ in 0..6 {
        rates.push(feed.flow.intervals.current().rate);
        feed.send();
        feed.turn();
    }
    for pair in [&rates[..2], &rates[2..4]] {
        let mut pair = pair.to_vec();
        pair.sort_by(f64::total_cmp);
        assert_eq!(pair, [9.5, 10.5]);
    }
    assert_eq!(rates[4..], [10.0, 10.0]);
}

#[test]
fn vivace_an_interval_without_data_is_repeated() {
    let mut feed = Feed::probing(10.0);
    let rate = feed.flow.intervals.current().rate;
    let packet = feed.send_with(true);
    feed.turn();
    let others = feed.planned();
    feed.send();
    feed.ack(&[packet]);
    assert_eq!(feed.planned(), others + 1);
    assert!(feed.flow.todo.iter().flatten().any(|probe| probe.rate == rate));
    assert!(feed.flow.results.iter().flatten().all(Option::is_none));
}

#[test]
fn vivace_after_idle_it_probes_from_the_old_rate() {
    let mut feed = Feed::probing(10.0);
    let packets: Vec<AckedPacket> = (0..4).map(|_| feed.send()).collect();
    feed.wait_ms(40.0);
    feed.ack(&packets);
    feed.flow.steps.run = 3;
    feed.wait_ms(5_000.0);
    let number = feed.number;
    feed.flow.on_sent(&SentPacket {
        now: feed.now,
        number,
        bytes: MSS,
        in_flight: MSS,
        app_limited: false,
        retransmission: false,
    });
    assert_eq!((feed.flow.rate, feed.flow.steps.run), (10.0, 0));
    assert_eq!(feed.flow.intervals.len(), 1);
}

#[test]
fn vivace_intervals_do_not_pile_up_on_a_path_that_stands_still() {
    let mut feed = Feed::probing(10.0);
    for _ in 0..1000 {
        feed.send();
        feed.turn();
    }
    assert_eq!(feed.flow.intervals.len(), 64);
}

#[test]
fn vivace_the_window_is_two_round_trips_and_ten_packets() {
    let mut feed = Feed::new("");
    assert_eq!(feed.flow.cwnd(), 40 * MSS);
    let first = feed.send();
    feed.wait_ms(40.0);
    feed.ack(&[first]);
    // 3 Mbit/s for 40 ms are 15 kB.
    assert_eq!(feed.flow.cwnd(), 2 * 15_000 + 10 * MSS);
}
