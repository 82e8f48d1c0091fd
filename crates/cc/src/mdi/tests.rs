use std::cell::RefCell;

use cellpace_base::{Random, Span, Time};
use cellpace_mdi::{
    About, Absolute, Axis, Counts, Levels, Model, ModelPart, Relative, States, TransitionCount,
};

use crate::{
    Ack, AckedPacket, Controller, ControllerSpec, Event, Loss, LostPacket, RttEstimator,
    SentPacket, Setup, Stamp, Timeout,
};

fn relative(cells: &[(u32, u32, u64)]) -> Model {
    let d = Axis::new("delay", -10_000, 10_000, 2000).unwrap();
    let w = Axis::new("window", -20_000, 20_000, 2000).unwrap();
    model(States::Relative(Relative { d, w }), cells)
}

/// A table over levels of which every row changes the window by `change` and nothing else.
fn levels(change: i64) -> Model {
    let d = Axis::new("delay", 0, 2000, 100).unwrap();
    let w = Axis::new("window", -20_000, 20_000, 10_000).unwrap();
    let column = w.index(change).unwrap();
    let to = |row| (0..d.len()).map(move |level| (row, w.len() * level + column, 1));
    let cells: Vec<_> = (0..d.len() * w.len()).flat_map(to).collect();
    model(States::Levels(Levels { d, w }), &cells)
}

fn absolute(cells: &[(u32, u32, u64)]) -> Model {
    let states = Absolute { d_min: 20, d_max: 29, quantization: 1, w_min: 0, w_max: 9 };
    model(States::Absolute(states), cells)
}

fn model(states: States, cells: &[(u32, u32, u64)]) -> Model {
    let cells =
        cells.iter().map(|&(from, to, count)| TransitionCount { from, to, count }).collect();
    Model {
        about: About { teacher: "none".into(), epoch_us: 5000, ..About::default() },
        states,
        parts: vec![ModelPart { users: 1, samples: 2, counts: Counts::from_cells(cells) }],
    }
}

fn spec(model: &Model, parameters: &str) -> ControllerSpec {
    let bytes = model.to_bytes();
    ControllerSpec::parse(&format!("mdi:model=m{parameters}"), &mut |_| Ok(bytes.clone())).unwrap()
}

/// A sender of endless data over a path of one RTT, event by event.
struct Flow {
    controller: Box<dyn Controller>,
    now: Time,
    next: u64,
    in_flight: u64,
    rtt: RttEstimator,
    newest: Stamp,
}

const MSS: u64 = 1500;

impl Flow {
    fn new(model: &Model, parameters: &str, seed: u64) -> Self {
        Self::of(&spec(model, parameters), seed)
    }

    fn of(spec: &ControllerSpec, seed: u64) -> Self {
        let random = Random::seeded(seed, 0);
        let setup = Setup { mss: MSS, start: Time::ZERO, random };
        Self {
            controller: spec.build(setup),
            now: Time::ZERO,
            next: 0,
            in_flight: 0,
            rtt: RttEstimator::default(),
            newest: Stamp::default(),
        }
    }

    /// Sends what may leave. Returns how many packets did.
    fn send(&mut self) -> u64 {
        let first = self.next;
        while self.controller.permit().remaining(self.in_flight) >= MSS {
            self.in_flight += MSS;
            let packet = SentPacket {
                now: self.now,
                number: self.next,
                bytes: MSS,
                in_flight: self.in_flight,
                app_limited: false,
                retransmission: false,
            };
            self.newest = self.controller.on_sent(&packet);
            self.next += 1;
        }
        self.next - first
    }

    /// Acks everything, one after the other, after one RTT; what that releases leaves at once.
    /// Returns how many packets that was.
    fn round(&mut self, rtt: Span) -> u64 {
        let first = self.next;
        let flight = self.in_flight / MSS;
        self.now += rtt;
        for number in first - flight..first {
            self.ack_number(number, rtt);
            self.send();
        }
        self.next - first
    }

    fn ack(&mut self, rtt: Span) {
        self.ack_number(self.next - 1, rtt);
    }

    fn ack_number(&mut self, number: u64, rtt: Span) {
        let packet = AckedPacket {
            number,
            bytes: MSS,
            sent_at: Time::ZERO,
            rtt,
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp: Stamp::default(),
        };
        let prior_in_flight = self.in_flight;
        self.in_flight -= MSS;
        self.controller.on_ack(&Ack {
            now: self.now,
            packets: &[packet],
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    fn lose(&mut self, number: u64) {
        let lost = LostPacket { number, bytes: MSS, sent_at: Time::ZERO, stamp: self.newest };
        let prior_in_flight = self.in_flight;
        self.in_flight -= MSS;
        self.controller.on_loss(&Loss {
            now: self.now,
            packets: &[lost],
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    /// The next epoch; none is asked for where the flow is idle.
    fn epoch(&mut self) {
        let later = self.now + Span::from_millis(5);
        self.now = self.controller.next_deadline().unwrap_or(later);
        self.controller.on_deadline(self.now);
    }

    fn w(&self) -> f64 {
        let w = RefCell::new(f64::NAN);
        self.controller.inspect(&mut |name, value| {
            if name == "cwnd_pkts" {
                w.replace(value);
            }
        });
        w.into_inner()
    }
}

#[test]
fn mdi_t13_a_constant_teacher_stays_constant() {
    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), "", 1);
    assert_eq!(flow.send(), 10);
    for _ in 0..1000 {
        flow.ack(Span::from_millis(20));
        flow.epoch();
        flow.send();
        assert_eq!(flow.w(), 10.0);
    }
}

#[test]
fn mdi_t13_no_epoch_runs_before_the_first_rtt() {
    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), "", 1);
    flow.send();
    for _ in 0..8 {
        flow.epoch();
    }
    // 40 ms of silence would be a change of 130 from the 20 ms of the specification's start.
    flow.ack(Span::from_millis(40));
    flow.epoch();
    assert_eq!(flow.w(), 10.0);
}

#[test]
fn mdi_t11_silence_shrinks_the_window_by_the_epoch() {
    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), "", 1);
    flow.send();
    for _ in 0..3 {
        flow.epoch();
    }
    flow.now = Time::from_millis(20);
    flow.ack(Span::from_millis(20));
    flow.epoch();
    for _ in 0..40 {
        flow.epoch();
    }
    // The silence is longer than the last RTT by more than the table knows from 25 ms on: the
    // first four epochs of it change nothing.
    let expected = 10.0 * 0.975_f64.powi(36);
    assert!((flow.w() - expected).abs() < 0.01, "{} {expected}", flow.w());
}

#[test]
fn mdi_t12_the_same_seed_and_acks_give_the_same_windows() {
    let cells: Vec<_> = (0..231).flat_map(|from| [(from, 114, 1), (from, 116, 1)]).collect();
    let windows = |seed| {
        let mut flow = Flow::new(&relative(&cells), "", seed);
        let run = |_| {
            flow.send();
            flow.ack(Span::from_millis(50));
            flow.epoch();
            flow.w()
        };
        (0..500).map(run).collect::<Vec<f64>>()
    };
    assert_eq!(windows(1), windows(1));
    assert_ne!(windows(1), windows(2));
    assert!(windows(3).iter().all(|w| *w >= 1.0));
}

#[test]
fn a_loss_cuts_once_per_round_trip_and_the_walk_goes_on_from_there() {
    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), "", 1);
    flow.send();
    flow.ack(Span::from_millis(20));
    flow.epoch();
    flow.lose(3);
    flow.lose(4);
    assert!((flow.w() - 7.0).abs() < 0.001);
    flow.ack(Span::from_millis(20));
    // The cut is a change of -30, which the next epoch takes for -20; the table knows no way
    // from there, and the nearest larger window change is none.
    flow.epoch();
    assert!((flow.w() - 7.0).abs() < 0.001, "{}", flow.w());
    let reduced = |(_, event)| matches!(event, Event::Reduced { .. });
    let events = std::iter::from_fn(|| flow.controller.poll_event());
    assert_eq!(events.filter(|event| reduced(*event)).count(), 1);

    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), ",loss=ignore", 1);
    flow.send();
    flow.ack(Span::from_millis(20));
    flow.epoch();
    flow.lose(3);
    assert_eq!(flow.w(), 10.0);
}

#[test]
fn a_loss_stops_growth_until_its_round_trip_is_over() {
    // Up by ten from whatever was before.
    let grows: Vec<_> = (0..231).map(|from| (from, 120, 1)).collect();
    let mut flow = Flow::new(&relative(&grows), "", 1);
    flow.send();
    flow.ack(Span::from_millis(20));
    flow.epoch();
    flow.send();
    flow.lose(3);
    let cut = flow.w();
    for _ in 0..3 {
        flow.ack_number(4, Span::from_millis(20));
        flow.epoch();
        assert_eq!(flow.w(), cut);
    }
    flow.send();
    flow.ack(Span::from_millis(20));
    flow.epoch();
    assert!(flow.w() > 1.05 * cut, "{} {cut}", flow.w());
}

#[test]
fn a_timeout_halves_the_window_and_sends_again() {
    let mut flow = Flow::new(&relative(&[(115, 115, 1000)]), "", 1);
    flow.send();
    flow.ack(Span::from_millis(20));
    flow.epoch();
    for (in_a_row, w) in [(1, 5.0), (2, 2.5), (3, 1.25), (4, 1.0), (5, 1.0)] {
        flow.controller.on_timeout(&Timeout {
            now: flow.now,
            prior_in_flight: flow.in_flight,
            in_a_row,
            next_number: flow.next,
        });
        flow.in_flight = 0;
        assert_eq!(flow.w(), w);
        assert!(flow.send() >= 1);
    }
}

#[test]
fn timeouts_come_after_five_round_trips() {
    let mut flow = Flow::new(&relative(&[]), "", 1);
    assert_eq!(flow.controller.rto(), Some(Span::from_secs(1)));
    flow.send();
    for (rtt, rto) in [(10, 150), (50, 250), (900, 1000)] {
        flow.ack(Span::from_millis(rtt));
        assert_eq!(flow.controller.rto(), Some(Span::from_millis(rto)));
    }
}

/// A table of which the window never changes.
fn constant() -> Model {
    relative(&[(115, 115, 1000)])
}

fn time_out(flow: &mut Flow) {
    flow.controller.on_timeout(&Timeout {
        now: flow.now,
        prior_in_flight: flow.in_flight,
        in_a_row: 1,
        next_number: flow.next,
    });
    flow.in_flight = 0;
}

#[test]
fn a_slow_start_doubles_the_window_every_round_trip() {
    let mut flow = Flow::new(&constant(), ",start=slow", 1);
    assert_eq!(flow.send(), 1);
    let sent: Vec<u64> = (0..5).map(|_| flow.round(Span::from_millis(20))).collect();
    assert_eq!(sent, [2, 4, 8, 16, 32]);
    let mut flow = Flow::new(&constant(), "", 1);
    assert_eq!(flow.send(), 10, "not unless it is asked for");
}

#[test]
fn a_slow_start_is_that_of_verus_and_ends_where_that_does() {
    let verus = "verus".parse::<ControllerSpec>().unwrap();
    let model = constant();
    for (rtt, exit) in [(20, 301), (60, 501), (400, 601)] {
        let windows = |spec: &ControllerSpec| {
            let mut flow = Flow::of(spec, 1);
            flow.send();
            let mut windows: Vec<u64> = (0..7)
                .map(|_| {
                    flow.round(Span::from_millis(rtt));
                    flow.controller.cwnd() / MSS
                })
                .collect();
            for delay in [exit - 2, exit] {
                flow.ack(Span::from_millis(delay));
                windows.push(flow.controller.cwnd() / MSS);
            }
            windows
        };
        let ours = windows(&spec(&model, ",start=slow"));
        assert_eq!(ours, windows(&verus), "RTT {rtt} ms");
        assert_eq!(ours[6..], [128, 129, 90], "RTT {rtt} ms");
    }
}

#[test]
fn the_table_takes_over_where_slow_start_ends() {
    let mut flow = Flow::new(&levels(10_000), ",start=slow", 1);
    flow.send();
    for _ in 0..6 {
        flow.round(Span::from_millis(20));
        flow.epoch();
    }
    assert_eq!(flow.w(), 64.0, "the table only watches");
    let last = flow.next;
    flow.ack_number(last - 9, Span::from_millis(400));
    let left = flow.w();
    assert!((left - 0.7 * 64.0).abs() < 0.01, "{left}");
    flow.epoch();
    assert_eq!((flow.w(), flow.send()), (left, 0), "until the round trip is over");
    while flow.in_flight > 20 * MSS {
        flow.ack_number(last - 1, Span::from_millis(400));
    }
    flow.epoch();
    assert!(flow.send() > 0);
    flow.ack_number(last, Span::from_millis(400));
    flow.epoch();
    assert!(flow.w() > 1.04 * left, "{} {left}", flow.w());
}

#[test]
fn a_table_of_packets_per_epoch_takes_over_a_share_of_the_window() {
    let mut flow = Flow::new(&absolute(&[]), ",start=slow", 1);
    flow.send();
    for _ in 0..6 {
        flow.round(Span::from_millis(50));
    }
    assert_eq!(flow.controller.cwnd(), 64 * MSS);
    flow.ack(Span::from_millis(501));
    // 44.8 packets in 101 epochs: less than one in each.
    assert_eq!(flow.w(), 0.0);
    let mut flow = Flow::new(&absolute(&[]), ",start=slow", 1);
    flow.send();
    for _ in 0..6 {
        flow.round(Span::from_millis(50));
    }
    time_out(&mut flow);
    // 64 packets in ten epochs are six, of which a timeout leaves half.
    assert_eq!(flow.w(), 3.0);
}

#[test]
fn a_loss_ends_slow_start_when_the_packet_is_given_up() {
    let after = |rounds: u32| {
        let mut flow = Flow::new(&levels(0), ",start=slow", 1);
        flow.send();
        (0..rounds).for_each(|_| _ = flow.round(Span::from_millis(20)));
        flow.lose(flow.next - 1);
        let (lost, before) = (flow.now, flow.w());
        while flow.now < lost + Span::from_millis(145) {
            flow.epoch();
            assert_eq!(flow.w(), before);
        }
        flow.epoch();
        let slow = |flow: &Flow| {
            let mut slow = false;
            flow.controller.inspect(&mut |name, value| slow |= name == "slow_start" && value > 0.0);
            slow
        };
        (flow.w(), slow(&flow))
    };
    let (w, slow) = after(5);
    assert!((w - 0.7 * 32.0).abs() < 0.01 && !slow, "{w}");
    // What is left is not above 20 packets.
    let (w, slow) = after(4);
    assert!((w - 0.7 * 16.0).abs() < 0.01 && slow, "{w}");
}

#[test]
fn a_timeout_begins_slow_start_anew_or_ends_it() {
    let mut flow = Flow::new(&constant(), ",start=slow", 1);
    flow.send();
    time_out(&mut flow);
    assert_eq!((flow.w(), flow.send()), (1.0, 1), "nobody has answered yet");
    (0..4).for_each(|_| _ = flow.round(Span::from_millis(20)));
    assert_eq!(flow.w(), 16.0);
    time_out(&mut flow);
    assert_eq!((flow.w(), flow.send()), (8.0, 1));
    flow.controller.on_path_change(flow.now);
    assert_eq!(flow.w(), 1.0, "another path");
}

#[test]
fn a_number_of_users_takes_the_built_in_table_that_was_learnt_for_it() {
    let flat =
        |text: &str| text.parse::<ControllerSpec>().unwrap().markov_walk().unwrap().flat.table;
    let reach = |text: &str| {
        let States::Levels(levels) = *flat(text).states() else { panic!("{text}: no levels") };
        levels.w.max()
    };
    assert_eq!(reach("mdi"), 60_000);
    for users in 1..=4 {
        assert_eq!(reach(&format!("mdi:users={users}")), 30_000, "{users}");
    }
    assert!("mdi:users=adapt".parse::<ControllerSpec>().is_ok());
}

#[test]
fn a_slow_start_in_front_of_the_walk_is_known() {
    let model = constant();
    let starts = |rules| spec(&model, rules).markov_walk().map(|walk| walk.slow_start);
    assert_eq!([",start=slow", ""].map(starts), [Some(true), Some(false)]);
}

#[test]
fn absolute_tables_say_how_many_packets_leave_in_an_epoch() {
    // From (20, 9) to (21, 4) to (20, 0) and on to (20, 9).
    let model = absolute(&[(9, 14, 1), (14, 0, 1), (0, 9, 1), (9, 9, 1)]);
    let mut flow = Flow::new(&model, "", 1);
    assert_eq!(flow.send(), 9);
    let mut sent = Vec::new();
    for delay in [20, 21, 20, 20] {
        flow.ack(Span::from_millis(delay));
        flow.epoch();
        sent.push(flow.send());
    }
    assert_eq!(sent, [9, 4, 0, 9]);
}

#[test]
fn a_number_of_users_selects_its_part() {
    let mut model = relative(&[(115, 105, 1)]);
    let grows = Counts::from_cells(vec![TransitionCount { from: 115, to: 125, count: 1 }]);
    model.parts.push(ModelPart { users: 3, samples: 2, counts: grows });
    let after = |parameters: &str| {
        let mut flow = Flow::new(&model, parameters, 1);
        flow.send();
        flow.ack(Span::from_millis(20));
        flow.epoch();
        flow.w()
    };
    assert!((after(",users=1") - 8.0).abs() < 0.01);
    assert!((after(",users=3") - 12.0).abs() < 0.01);
    let bytes = model.to_bytes();
    let read = &mut |_: &str| Ok(bytes.clone());
    let message = ControllerSpec::parse("mdi:model=m,users=2", read).unwrap_err().to_string();
    assert_eq!(message, "`mdi`: m: nothing was learnt with 2 users, but with 1, 3");
}

#[test]
fn files_that_are_no_models_are_named() {
    let message = |read: &mut crate::ReadFile<'_>| {
        ControllerSpec::parse("mdi:model=x.mdi", read).unwrap_err().to_string()
    };
    assert_eq!(
        message(&mut |name| Err(format!("{name}: no such file"))),
        "`mdi`: x.mdi: no such file"
    );
    let text = message(&mut |_| Ok(b"hello".to_vec()));
    assert!(text.starts_with("`mdi`: x.mdi: not a Markov table"), "{text}");
    let message = "mdi:model=x.mdi".parse::<ControllerSpec>().unwrap_err().to_string();
    assert_eq!(message, "`mdi`: x.mdi: files cannot be read here");
}
