//! The host between scripts of a library's callbacks and a controller that notes what it hears.

use std::collections::HashSet;
use std::sync::{Arc, Mutex};

use cellpace_base::{Rate, Span, Time};
use cellpace_cc::{
    Ack, Controller, Loss, Mark, Pacing, Permit, SentPacket, Spurious, Stamp, Timeout,
};
use cellpace_quic::Host;
use proptest::prelude::*;

const MTU: u16 = 1200;

#[derive(Debug, Clone, PartialEq)]
enum Heard {
    Sent { number: u64, bytes: u64, in_flight: u64 },
    Acked { numbers: Vec<u64>, prior: u64, in_flight: u64 },
    Lost { numbers: Vec<u64>, prior: u64, in_flight: u64 },
    Marked { newest: u64 },
    TimedOut { prior: u64, in_a_row: u32 },
    TimeoutWasSpurious,
    LossWasSpurious { number: u64, rtt_ms: u64 },
    Deadline,
}

/// What a controller is told, and the answers that it gives.
#[derive(Debug)]
struct Notes {
    heard: Vec<Heard>,
    permit: Permit,
    deadline: Option<Time>,
}

#[derive(Clone)]
struct Recorder(Arc<Mutex<Notes>>);

impl Recorder {
    fn new(permit: Permit) -> Self {
        Self(Arc::new(Mutex::new(Notes { heard: Vec::new(), permit, deadline: None })))
    }

    fn host(&self) -> Host {
        Host::new(Box::new(self.clone()), MTU, Time::ZERO)
    }

    fn take(&self) -> Vec<Heard> {
        std::mem::take(&mut self.0.lock().unwrap().heard)
    }

    fn note(&self, heard: Heard) {
        self.0.lock().unwrap().heard.push(heard);
    }
}

impl Controller for Recorder {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let SentPacket { number, bytes, in_flight, .. } = *packet;
        self.note(Heard::Sent { number, bytes, in_flight });
        let mut notes = self.0.lock().unwrap();
        if let Permit::Budget(budget) = &mut notes.permit {
            *budget = budget.saturating_sub(bytes);
        }
        Stamp { local: [number, 0, 0, 0], wire: 0 }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        for packet in ack.packets {
            assert_eq!(packet.stamp.local[0], packet.number, "the stamp of the packet comes back");
        }
        let numbers = ack.packets.iter().map(|packet| packet.number).collect();
        self.note(Heard::Acked { numbers, prior: ack.prior_in_flight, in_flight: ack.in_flight });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let numbers = loss.packets.iter().map(|packet| packet.number).collect();
        self.note(Heard::Lost { numbers, prior: loss.prior_in_flight, in_flight: loss.in_flight });
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.note(Heard::Marked { newest: mark.newest });
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let Timeout { prior_in_flight: prior, in_a_row, .. } = *timeout;
        self.note(Heard::TimedOut { prior, in_a_row });
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        self.note(match spurious {
            Spurious::Timeout { .. } => Heard::TimeoutWasSpurious,
            Spurious::Loss { packet, .. } => Heard::LossWasSpurious {
                number: packet.number,
                rtt_ms: packet.rtt.as_nanos() / 1_000_000,
            },
        });
    }

    fn permit(&self) -> Permit {
        self.0.lock().unwrap().permit
    }

    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: Rate::from_bps(1_200_000), burst: u64::from(MTU) })
    }

    fn next_deadline(&self) -> Option<Time> {
        self.0.lock().unwrap().deadline
    }

    fn on_deadline(&mut self, now: Time) {
        self.note(Heard::Deadline);
        self.0.lock().unwrap().deadline = Some(now + Span::from_millis(5));
    }
}

fn ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

fn window(packets: u64) -> Permit {
    Permit::Window(packets * u64::from(MTU))
}

#[test]
fn packets_of_spaces_that_count_from_zero_are_told_apart() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.on_sent(ms(10), 800, 0);
    host.on_sent(ms(10), 300, 1);
    recorder.take();
    // The second space's 0, sent at 10 ms, then the first one's.
    host.on_acked(ms(50), ms(10), Some(0), false);
    host.on_end_acks(ms(50), 1500);
    host.on_acked(ms(60), ms(0), Some(0), false);
    host.on_end_acks(ms(60), 300);
    assert_eq!(
        recorder.take(),
        [
            Heard::Acked { numbers: vec![1], prior: 2300, in_flight: 1500 },
            Heard::Acked { numbers: vec![0], prior: 1500, in_flight: 300 },
        ]
    );
}

#[test]
fn what_the_library_discards_leaves_the_book_with_the_next_ack() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.on_sent(ms(10), 1200, 0);
    // The first space is discarded at the end of the handshake, which nobody tells.
    host.on_acked(ms(50), ms(10), Some(0), false);
    host.on_end_acks(ms(50), 0);
    assert_eq!(host.in_flight(), 0);
    let acked = Heard::Acked { numbers: vec![1], prior: 2400, in_flight: 0 };
    assert_eq!(recorder.take().last(), Some(&acked));
    // Five seconds later it is forgotten: a loss of its number is that of the new packet.
    host.on_sent(ms(6000), 1200, 7);
    host.on_acked(ms(6040), ms(6000), Some(7), false);
    host.on_end_acks(ms(6040), 0);
    host.on_sent(ms(6050), 1200, 0);
    host.on_lost(ms(6100), 0);
    host.on_end_losses(ms(6100), false);
    let lost = Heard::Lost { numbers: vec![3], prior: 1200, in_flight: 0 };
    assert_eq!(recorder.take().last(), Some(&lost));
}

#[test]
fn a_lost_probe_of_the_mtu_is_no_loss() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1452, 0);
    host.on_sent(ms(1), 1200, 1);
    host.on_acked(ms(41), ms(1), Some(1), false);
    host.on_end_acks(ms(41), 0);
    assert_eq!(host.in_flight(), 0);
    assert!(!recorder.take().iter().any(|heard| matches!(heard, Heard::Lost { .. })));
}

#[test]
fn acks_come_before_the_losses_that_they_reveal() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    for number in 0..5 {
        host.on_sent(ms(number), 1200, number);
    }
    recorder.take();
    host.on_acked(ms(44), ms(4), Some(4), false);
    host.on_end_acks(ms(44), 4800);
    host.on_lost(ms(44), 0);
    host.on_lost(ms(44), 1);
    host.on_end_losses(ms(44), false);
    assert_eq!(
        recorder.take(),
        [
            Heard::Acked { numbers: vec![4], prior: 6000, in_flight: 4800 },
            Heard::Lost { numbers: vec![0, 1], prior: 4800, in_flight: 2400 },
        ]
    );
}

#[test]
fn losses_told_in_bytes_are_the_oldest_packets() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    host.on_sent_batch(ms(0), 3000, 2);
    host.on_sent(ms(5), 1200, 3);
    recorder.take();
    host.on_lost_bytes(ms(60), 2400, ms(0));
    host.on_end_losses(ms(60), true);
    assert_eq!(
        recorder.take(),
        [
            Heard::Lost { numbers: vec![0, 1], prior: 4200, in_flight: 1800 },
            Heard::TimedOut { prior: 4200, in_a_row: 1 },
        ]
    );
}

#[test]
fn marks_name_the_newest_packet_sent_until_then() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    for number in 0..3 {
        host.on_sent(ms(number), 1200, number);
    }
    recorder.take();
    host.on_marked(ms(50), ms(1));
    assert_eq!(recorder.take(), [Heard::Marked { newest: 1 }]);
}

#[test]
fn the_packets_of_a_spurious_loss_are_told_each() {
    let recorder = Recorder::new(window(10));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.on_sent(ms(1), 1200, 1);
    host.on_lost(ms(40), 0);
    host.on_lost(ms(40), 1);
    host.on_end_losses(ms(40), false);
    recorder.take();
    host.catch_up(ms(50));
    host.on_spurious();
    assert_eq!(
        recorder.take(),
        [
            Heard::LossWasSpurious { number: 0, rtt_ms: 50 },
            Heard::LossWasSpurious { number: 1, rtt_ms: 49 },
        ]
    );
}

#[test]
fn a_full_packet_counts_the_same_however_the_mtu_grows() {
    let recorder = Recorder::new(Permit::Budget(u64::from(MTU)));
    let mut host = recorder.host();
    host.on_mtu(1452);
    assert!(host.window() >= 1452, "a budget of one packet lets a larger one leave");
    assert_eq!(host.pacing(), Some((181_500, 1452)), "1.2 Mbit/s of packets that grew by 21 %");
    host.on_sent(ms(0), 1452, 0);
    assert_eq!(recorder.take(), [Heard::Sent { number: 0, bytes: 1200, in_flight: 1200 }]);
}

#[test]
fn a_connection_without_budget_and_without_packets_can_begin() {
    let recorder = Recorder::new(Permit::Budget(0));
    let mut host = recorder.host();
    assert_eq!(host.window(), 2400);
    host.on_sent(ms(0), 1200, 0);
    assert_eq!(host.window(), 1200, "what is in flight, and nothing more");
}

#[test]
fn a_new_budget_wakes_whoever_was_refused() {
    let recorder = Recorder::new(Permit::Budget(0));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.window();
    assert!(!host.take_wake());
    recorder.0.lock().unwrap().permit = Permit::Budget(1200);
    assert!(host.take_wake());
    assert!(!host.take_wake(), "once");
}

#[test]
fn silence_ends_in_a_timeout_that_only_the_controller_sees() {
    let recorder = Recorder::new(window(2));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.on_sent(ms(1), 1200, 1);
    recorder.take();
    assert_eq!(host.next_deadline(), Some(ms(1000)), "RFC 6298: a second before any sample");
    host.catch_up(ms(1000));
    assert_eq!(recorder.take(), [Heard::TimedOut { prior: 2400, in_a_row: 1 }]);
    assert_eq!(host.in_flight(), 2400, "the library has them still");
    assert_eq!(host.window(), 4800, "so two packets more may leave");
    host.on_sent(ms(1001), 1200, 2);
    assert_eq!(recorder.take(), [Heard::Sent { number: 2, bytes: 1200, in_flight: 1200 }]);
    assert_eq!(host.next_deadline(), Some(ms(3000)), "twice as long");
    // The library finds the old ones lost; the controller knows.
    host.on_acked(ms(1041), ms(1001), Some(2), false);
    host.on_end_acks(ms(1041), 2400);
    host.on_lost(ms(1041), 0);
    host.on_lost(ms(1041), 1);
    host.on_end_losses(ms(1041), false);
    assert_eq!(recorder.take(), [Heard::Acked { numbers: vec![2], prior: 1200, in_flight: 0 }]);
    assert_eq!(host.window(), 2400);
}

#[test]
fn packets_that_were_only_late_are_in_flight_again() {
    let recorder = Recorder::new(window(2));
    let mut host = recorder.host();
    host.on_sent(ms(0), 1200, 0);
    host.on_sent(ms(1), 1200, 1);
    host.catch_up(ms(1000));
    recorder.take();
    host.on_acked(ms(1100), ms(0), Some(0), false);
    host.on_end_acks(ms(1100), 1200);
    assert_eq!(
        recorder.take(),
        [
            Heard::TimeoutWasSpurious,
            Heard::Acked { numbers: vec![0], prior: 2400, in_flight: 1200 },
        ]
    );
}

#[test]
fn a_connection_that_rests_wants_nothing() {
    let recorder = Recorder::new(window(10));
    recorder.0.lock().unwrap().deadline = Some(ms(5));
    let mut host = recorder.host();
    host.window();
    assert_eq!(host.next_deadline(), None);
    host.on_sent(ms(1), 1200, 0);
    assert_eq!(host.next_deadline(), Some(ms(5)));
    host.on_acked(ms(3), ms(1), Some(0), true);
    host.on_end_acks(ms(3), 0);
    assert_eq!(host.next_deadline(), None);
}

#[test]
fn a_late_deadline_is_met_once() {
    let recorder = Recorder::new(window(10));
    recorder.0.lock().unwrap().deadline = Some(ms(5));
    let mut host = recorder.host();
    host.on_sent(ms(1), 1200, 0);
    recorder.take();
    host.catch_up(ms(50));
    assert_eq!(recorder.take(), [Heard::Deadline]);
    assert_eq!(host.next_deadline(), Some(ms(55)));
}

/// What a library does next.
#[derive(Debug, Clone)]
enum Step {
    /// Milliseconds.
    Wait(u64),
    /// Bytes.
    Send(u16),
    /// Acks some of what is in flight: each packet whose bit is set.
    Ack(u64),
    /// Loses some.
    Lose(u64),
    /// A packet number space is discarded: one packet leaves without a word.
    Discard,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        2 => (0..400u64).prop_map(Step::Wait),
        6 => (1..1453u16).prop_map(Step::Send),
        3 => any::<u64>().prop_map(Step::Ack),
        1 => any::<u64>().prop_map(Step::Lose),
        1 => Just(Step::Discard),
    ];
    prop::collection::vec(step, 1..120)
}

#[derive(Debug, Clone, Copy)]
struct InFlight {
    sent_at: Time,
    number: u64,
    bytes: u64,
}

fn bytes(book: &[InFlight]) -> u64 {
    book.iter().map(|packet| packet.bytes).sum()
}

/// Takes the packets whose bit is set out of the library's book.
fn settle(book: &mut Vec<InFlight>, bits: u64) -> Vec<InFlight> {
    let mut index = 0;
    let (settled, left) = book.iter().partition(|_| {
        index += 1;
        bits >> (index % 64) & 1 == 1
    });
    *book = left;
    settled
}

fn ack(host: &mut Host, now: Time, book: &mut Vec<InFlight>, bits: u64) {
    for packet in settle(book, bits) {
        host.on_acked(now, packet.sent_at, Some(packet.number), false);
    }
    host.on_end_acks(now, bytes(book));
}

proptest! {
    #[test]
    fn books_agree_and_no_packet_is_settled_twice(steps in steps(), budget in any::<bool>()) {
        let permit = if budget { Permit::Budget(50_000) } else { window(20) };
        let recorder = Recorder::new(permit);
        let mut host = recorder.host();
        let (mut now, mut next, mut book) = (ms(0), 0, Vec::new());
        for step in steps {
            match step {
                Step::Wait(wait) => now += Span::from_millis(wait),
                Step::Send(bytes) => {
                    host.on_sent(now, bytes.into(), next);
                    book.push(InFlight { sent_at: now, number: next, bytes: bytes.into() });
                    next += 1;
                }
                Step::Ack(bits) => {
                    ack(&mut host, now, &mut book, bits);
                    prop_assert_eq!(host.in_flight(), bytes(&book));
                }
                Step::Lose(bits) => {
                    for packet in settle(&mut book, bits) {
                        host.on_lost(now, packet.number);
                    }
                    host.on_end_losses(now, false);
                }
                Step::Discard => {
                    if !book.is_empty() {
                        book.remove(0);
                    }
                }
            }
            host.catch_up(now);
            prop_assert!(host.window() > 0);
            if budget {
                prop_assert!(host.window() >= host.in_flight());
            }
        }
        let mut settled = HashSet::new();
        for heard in recorder.take() {
            if let Heard::Acked { numbers, .. } | Heard::Lost { numbers, .. } = heard {
                for number in numbers {
                    prop_assert!(settled.insert(number), "{} twice", number);
                    prop_assert!(number < next);
                }
            }
        }
    }

    #[test]
    fn a_budget_is_spent_once(steps in steps()) {
        let recorder = Recorder::new(Permit::Budget(30_000));
        let mut host = recorder.host();
        let (mut now, mut next, mut book, mut spent) = (ms(0), 0, Vec::new(), 0);
        for step in steps {
            match step {
                Step::Wait(wait) => now += Span::from_millis(wait),
                // As a library does: what fits into the window.
                Step::Send(bytes) if host.in_flight() + u64::from(bytes) <= host.window() => {
                    if host.in_flight() > 0 {
                        spent += u64::from(bytes);
                    }
                    host.on_sent(now, bytes.into(), next);
                    book.push(InFlight { sent_at: now, number: next, bytes: bytes.into() });
                    next += 1;
                }
                Step::Send(_) | Step::Lose(_) | Step::Discard => {}
                Step::Ack(bits) => ack(&mut host, now, &mut book, bits),
            }
        }
        prop_assert!(spent <= 30_000, "{} of 30000", spent);
    }
}
