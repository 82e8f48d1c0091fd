//! The books and the rule for calls together, as the gate uses them.

use super::*;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex};

use cellpace_cc::{Ack, Loss, Pacing, Rate, SentPacket, Spurious, Timeout};
use proptest::prelude::*;

const MSS: u64 = 1448;
const WIRE: u64 = 1500;

#[derive(Default)]
struct Log {
    acks: Vec<Vec<(u64, Span, u64)>>,
    lost: Vec<u64>,
    blocks: Vec<Time>,
    timeouts: Vec<Time>,
    undone: u32,
    sent: u64,
    app_limited: Vec<bool>,
}

struct Probe {
    cwnd: u64,
    pacing: Option<Pacing>,
    log: Arc<Mutex<Log>>,
}

impl Controller for Probe {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let mut log = self.log.lock().unwrap();
        log.sent += packet.bytes;
        log.app_limited.push(packet.app_limited);
        Stamp { local: [packet.number + 100, 0, 0, 0], wire: 0 }
    }
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let packets = ack.packets.iter().map(|p| (p.number, p.rtt, p.stamp.local[0]));
        self.log.lock().unwrap().acks.push(packets.collect());
    }
    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.log.lock().unwrap().lost.extend(loss.packets.iter().map(|p| p.number));
    }
    fn on_timeout(&mut self, timeout: &Timeout) {
        self.log.lock().unwrap().timeouts.push(timeout.now);
    }
    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        if matches!(spurious, Spurious::Timeout { .. }) {
            self.log.lock().unwrap().undone += 1;
        }
    }
    fn on_block(&mut self, block: &Block) {
        self.log.lock().unwrap().blocks.push(block.now);
    }
    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd)
    }
    fn pacing(&self) -> Option<Pacing> {
        self.pacing
    }
}

/// What the gate has of a flow, but its socket.
struct TestGate {
    books: Books,
    rule: CallRule,
}

impl TestGate {
    fn new(controller: Box<dyn Controller>, now: Time, segment: u64, overhead: u64) -> Self {
        let rule = CallRule::default();
        Self { books: Books::new(controller, now, segment, overhead), rule }
    }

    fn next_call(&mut self, now: Time, queued: usize) -> usize {
        self.rule.next_call(&mut self.books, now, queued)
    }

    fn on_taken(&mut self, now: Time, count: usize, queued: usize) {
        self.rule.on_taken(&mut self.books, now, count, queued);
    }
}

impl Deref for TestGate {
    type Target = Books;

    fn deref(&self) -> &Books {
        &self.books
    }
}

impl DerefMut for TestGate {
    fn deref_mut(&mut self) -> &mut Books {
        &mut self.books
    }
}

fn gate(cwnd: u64) -> (TestGate, Arc<Mutex<Log>>) {
    let log = Arc::new(Mutex::new(Log::default()));
    let probe = Probe { cwnd, pacing: None, log: log.clone() };
    (TestGate::new(Box::new(probe), Time::ZERO, MSS, WIRE - MSS), log)
}

/// Gives TCP all that the gate lets through, and returns how many bytes that were.
fn release(gate: &mut TestGate, now: Time, queued: &mut usize) -> usize {
    let before = *queued;
    loop {
        let bytes = gate.next_call(now, *queued);
        if bytes == 0 {
            return before - *queued;
        }
        gate.on_taken(now, bytes, *queued);
        *queued -= bytes;
    }
}

#[test]
fn a_window_of_one_packet_has_room_for_the_pieces_of_one() {
    let (mut gate, _) = gate(WIRE);
    let mut header = 200;
    assert_eq!(release(&mut gate, Time::ZERO, &mut header), 200);
    let mut body = 1000;
    assert_eq!(release(&mut gate, Time::ZERO, &mut body), 1000);
    let mut next = MSS as usize - 1200;
    assert_eq!(release(&mut gate, Time::ZERO, &mut next), 0, "its own headers have no room");
}

#[test]
fn alcc_t6_no_more_leaves_than_the_window_has_room_for() {
    let (mut gate, _) = gate(20 * WIRE);
    let mut queued = 9 * MSS as usize;
    assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 9 * MSS as usize);
    queued = 3 * MSS as usize;
    release(&mut gate, Time::ZERO, &mut queued);
    assert_eq!(gate.in_flight(), 12 * WIRE);
    queued = 100 * MSS as usize;
    assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 8 * MSS as usize, "20 - 12");
    assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 0);
}

#[test]
fn alcc_t6_a_second_without_data_saves_nothing_up() {
    let (mut gate, _) = gate(20 * WIRE);
    assert_eq!(gate.next_call(Time::from_secs(1), 0), 0);
    let mut queued = 1000 * MSS as usize;
    let released = release(&mut gate, Time::from_secs(2), &mut queued);
    assert_eq!(released, 20 * MSS as usize);
}

fn report(acked: u64, sacked: usize, highest: u64) -> AckReport {
    AckReport { acked: acked * MSS, sacked, highest: highest * MSS, rtt: None, prompt: false }
}

/// A gate through which a TCP that has the data itself has sent a packet each millisecond.
fn sent_by_itself(packets: u64) -> (TestGate, Arc<Mutex<Log>>) {
    let (mut gate, log) = gate(100 * WIRE);
    for at in 0..packets {
        let at = Time::from_millis(at);
        gate.on_sent(at, at, MSS, 100 * MSS);
    }
    (gate, log)
}

/// RTTs in µs that were reported to the controller.
fn rtts(log: &Arc<Mutex<Log>>) -> Vec<u64> {
    let acks = &log.lock().unwrap().acks;
    acks.iter().flatten().map(|(_, rtt, _)| rtt.as_nanos() / 1000).collect()
}

#[test]
fn who_waited_for_the_ack_of_a_later_packet_came_halfway_between_the_acks() {
    let (mut gate, log) = sent_by_itself(8);
    gate.on_ack_report(Time::from_millis(41), &report(2, 0, 0));
    let rtt = Some(Span::from_micros(39_500));
    gate.on_ack_report(Time::from_millis(43), &AckReport { rtt, ..report(4, 0, 0) });
    assert_eq!(rtts(&log), [40_000, 40_000, 39_500, 39_500], "TCP's own measure counts");
    // At the same time as the ones before: they were in one burst. And 8 ms later.
    gate.on_ack_report(Time::from_millis(43), &report(6, 0, 0));
    gate.on_ack_report(Time::from_millis(51), &report(8, 0, 0));
    assert_eq!(rtts(&log)[4..], [39_000, 38_000, 44_000, 44_000]);
}

#[test]
fn who_is_asked_to_acknowledge_at_once_got_together_what_it_acknowledges_together() {
    let (mut gate, log) = sent_by_itself(4);
    let rtt = Some(Span::from_micros(39_500));
    gate.on_ack_report(Time::from_millis(43), &AckReport { rtt, prompt: true, ..report(4, 0, 0) });
    assert_eq!(rtts(&log), [42_500, 41_500, 40_500, 39_500]);
    assert_eq!(log.lock().unwrap().acks.len(), 4, "one after the other");
}

#[test]
fn what_left_before_a_timeout_and_is_told_after_it_was_limited_by_no_window() {
    let (mut gate, log) = sent_by_itself(4);
    let gives_up = gate.packet_deadline().unwrap();
    gate.on_timer(gives_up);
    assert_eq!(log.lock().unwrap().timeouts.len(), 1);
    let before = gives_up - Span::from_millis(100);
    gate.on_sent(before, gives_up, MSS, 100 * MSS);
    gate.on_sent(gives_up, gives_up, MSS, 100 * MSS);
    assert_eq!(log.lock().unwrap().app_limited, [false, false, false, false, true, false]);
}

#[test]
fn what_tcp_sent_twice_has_no_rtt_of_its_own() {
    let (mut gate, log) = sent_by_itself(6);
    gate.on_ack_report(Time::from_millis(40), &report(1, 0, 0));
    // The second is missing; the third to the sixth arrive.
    for highest in 3..=6 {
        gate.on_ack_report(
            Time::from_millis(39 + highest),
            &report(1, highest as usize - 2, highest),
        );
    }
    gate.on_retransmitted(Time::from_millis(80), 1);
    gate.on_ack_report(Time::from_millis(85), &report(6, 0, 0));
    let log = log.lock().unwrap();
    let last = log.acks.last().unwrap();
    assert_eq!(last.len(), 1);
    assert_eq!(last[0].1, gate.rtt().smoothed().unwrap(), "not the 5 ms since it was repeated");
    assert_eq!(gate.rtt().minimum(), Some(Span::from_millis(40)));
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn a_budget_is_told_from_a_window() {
    let (mut gate, _) = gate(20 * WIRE);
    gate.on_sent(Time::ZERO, Time::ZERO, 5 * MSS, MSS);
    assert_eq!(gate.limit(), None);
    let budget = Epochs { credit: 3, next: Time::ZERO, opens: false };
    let mut gate = TestGate::new(Box::new(budget), Time::ZERO, MSS, WIRE - MSS);
    assert_eq!(gate.limit(), Some(3 * MSS));
    gate.on_sent(Time::ZERO, Time::ZERO, 2 * MSS, MSS);
    assert_eq!(gate.limit(), Some(3 * MSS), "two of the three have left");
}

#[test]
fn alcc_t7_a_packet_taken_in_part_counts_once_and_is_finished_first() {
    let (mut gate, log) = gate(WIRE);
    let start = Time::from_millis(5);
    assert_eq!(gate.next_call(start, 5000), 1448);
    gate.on_taken(start, 700, 5000);
    gate.on_block(start);
    assert_eq!(gate.in_flight(), WIRE);
    assert_eq!(log.lock().unwrap().sent, WIRE);
    let later = Time::from_millis(9);
    assert_eq!(gate.next_call(later, 4300), 748, "the window is full, but the packet is owed");
    gate.on_taken(later, 748, 4300);
    assert_eq!(log.lock().unwrap().sent, WIRE, "counted once");
    assert_eq!(gate.next_call(later, 3552), 0);
    gate.on_acked(Time::from_millis(45), MSS);
    let log = log.lock().unwrap();
    assert_eq!(log.acks, [[(0, Span::from_millis(40), 100)]], "from its first byte on");
}

#[test]
fn alcc_t7_a_block_is_reported_once_an_rtt() {
    let (mut gate, log) = gate(100 * WIRE);
    release(&mut gate, Time::ZERO, &mut 1448);
    gate.on_acked(Time::from_millis(40), MSS);
    for ms in 50..150 {
        gate.on_block(Time::from_millis(ms));
    }
    assert_eq!(log.lock().unwrap().blocks, [50, 90, 130].map(Time::from_millis));
    assert_eq!(gate.blocks(), 100);
}

#[test]
fn alcc_t11_two_gates_keep_their_own_numbers() {
    let ((mut one, log_one), (mut two, log_two)) = (gate(5 * WIRE), gate(9 * WIRE));
    let (mut queued_one, mut queued_two) = (1 << 20, 1 << 20);
    release(&mut one, Time::ZERO, &mut queued_one);
    release(&mut two, Time::from_millis(1), &mut queued_two);
    one.on_acked(Time::from_millis(30), 5 * MSS);
    two.on_acked(Time::from_millis(61), 9 * MSS);
    assert_eq!(log_one.lock().unwrap().acks[0].len(), 5);
    assert_eq!(log_two.lock().unwrap().acks[0].len(), 9);
    assert_eq!(one.rtt().smoothed(), Some(Span::from_millis(30)));
    assert_eq!(two.rtt().smoothed(), Some(Span::from_millis(60)));
}

#[test]
fn alcc_t12_a_cumulative_ack_is_one_event_with_every_packets_rtt_and_stamp() {
    let (mut gate, log) = gate(100 * WIRE);
    for ms in 0..5 {
        release(&mut gate, Time::from_millis(ms), &mut 1448);
    }
    gate.on_acked(Time::from_millis(50), 5 * MSS);
    let expected: Vec<_> = (0..5).map(|n| (n, Span::from_millis(50 - n), 100 + n)).collect();
    assert_eq!(log.lock().unwrap().acks, [expected]);
}

#[test]
fn a_hole_that_tcp_fills_is_a_loss_and_a_retransmission() {
    let (mut gate, log) = gate(100 * WIRE);
    let mut queued = 8 * MSS as usize;
    release(&mut gate, Time::ZERO, &mut queued);
    gate.on_sacked(Time::from_millis(40), 1, 2);
    assert_eq!(gate.in_flight(), 6 * WIRE);
    gate.on_sacked(Time::from_millis(41), 1, 3);
    assert_eq!(log.lock().unwrap().lost, [0], "three packets overtook it");
    assert_eq!(gate.in_flight(), 4 * WIRE);
    gate.on_retransmitted(Time::from_millis(41), 1);
    assert_eq!(gate.in_flight(), 5 * WIRE, "sent again");
    gate.on_acked(Time::from_millis(82), 8 * MSS);
    let log = log.lock().unwrap();
    let last = &log.acks[2];
    assert_eq!(last[0], (8, Span::from_millis(41), 108), "RTT of the retransmission");
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn what_tcp_did_not_send_again_was_not_lost() {
    let (mut gate, log) = gate(100 * WIRE);
    release(&mut gate, Time::ZERO, &mut (8 * MSS as usize));
    gate.on_sacked(Time::from_millis(41), 1, 3);
    assert_eq!(log.lock().unwrap().lost, [0]);
    gate.on_acked(Time::from_millis(44), 8 * MSS);
    gate.on_retransmitted(Time::from_millis(44), 1);
    let log = log.lock().unwrap();
    let rtts: Vec<Span> = log.acks.iter().flatten().map(|packet| packet.1).collect();
    assert_eq!(rtts.iter().min(), Some(&Span::from_millis(41)));
    assert_eq!(gate.in_flight(), 0, "it was another packet, or one of before");
}

#[test]
fn a_call_waits_for_acks_until_half_of_it_may_leave() {
    let (mut gate, _) = gate(400 * WIRE);
    let mut queued = 1000 * MSS as usize;
    release(&mut gate, Time::ZERO, &mut queued);
    gate.on_acked(Time::from_millis(40), MSS);
    assert_eq!(gate.next_call(Time::from_millis(40), queued), 0, "1 of 10");
    gate.on_acked(Time::from_millis(40), 4 * MSS);
    assert_eq!(gate.next_call(Time::from_millis(40), queued), 0, "4 of 10");
    assert_eq!(
        gate.next_call(Time::from_millis(40), 2 * MSS as usize),
        2 * MSS as usize,
        "all there is"
    );
    gate.on_acked(Time::from_millis(40), 5 * MSS);
    assert_eq!(gate.next_call(Time::from_millis(40), queued), 5 * MSS as usize);
}

/// Lets two packets through every 5 ms, whatever was acknowledged; acks add one while `opens`.
struct Epochs {
    credit: u64,
    next: Time,
    opens: bool,
}

impl Controller for Epochs {
    fn on_sent(&mut self, _: &SentPacket) -> Stamp {
        self.credit -= 1;
        Stamp::default()
    }
    fn on_ack(&mut self, _: &Ack<'_>) {
        self.credit += u64::from(self.opens);
    }
    fn cwnd(&self) -> u64 {
        20 * WIRE
    }
    fn permit(&self) -> Permit {
        Permit::Budget(self.credit * WIRE)
    }
    fn next_deadline(&self) -> Option<Time> {
        Some(self.next)
    }
    fn on_deadline(&mut self, now: Time) {
        self.credit = 2;
        self.next = now + Span::from_millis(5);
    }
}

/// Whether acks may wait after so many epochs of such a controller.
fn acks_may_wait_after(epochs: u64, opens: bool) -> Option<Time> {
    let controller = Epochs { credit: 1, next: Time::ZERO, opens };
    let mut gate = TestGate::new(Box::new(controller), Time::ZERO, MSS, WIRE - MSS);
    for epoch in 0..epochs {
        let now = Time::from_millis(5 * epoch);
        let taken = gate.taken();
        gate.on_acked(now, taken.saturating_sub(2 * MSS));
        gate.on_timer(now);
        release(&mut gate, now, &mut (100 * MSS as usize));
    }
    gate.acks_may_wait()
}

#[test]
fn acks_may_wait_for_a_controller_that_sends_at_its_own_times() {
    assert_eq!(acks_may_wait_after(10, false), None, "that is not known yet");
    assert_eq!(acks_may_wait_after(30, false), Some(Time::from_millis(150)));
    assert_eq!(acks_may_wait_after(30, true), None);
}

#[test]
fn acks_do_not_wait_where_they_make_room_in_a_window() {
    let (mut gate, _) = gate(10 * WIRE);
    for round in 0..10 {
        let now = Time::from_millis(40 * round);
        let taken = gate.taken();
        gate.on_acked(now, taken);
        release(&mut gate, now, &mut (100 * MSS as usize));
    }
    assert_eq!(gate.acks_may_wait(), None);
}

/// Ten packets in flight on a path of 40 ms on which nothing comes any more.
fn silent() -> (TestGate, Arc<Mutex<Log>>) {
    let (mut gate, log) = gate(10 * WIRE);
    release(&mut gate, Time::ZERO, &mut 1448);
    gate.on_acked(Time::from_millis(40), MSS);
    release(&mut gate, Time::from_millis(40), &mut (10 * MSS as usize));
    (gate, log)
}

#[test]
fn an_outage_is_a_timeout_until_the_first_ack() {
    let (mut gate, log) = silent();
    let due = gate.next_deadline(false).unwrap();
    gate.on_timer(due);
    assert_eq!(log.lock().unwrap().timeouts, [due]);
    assert_eq!(gate.in_flight(), 0, "as the controller sees it");
    gate.on_acked(Time::from_millis(900), 3 * MSS);
    let log = log.lock().unwrap();
    assert_eq!(log.undone, 1, "the path was only slow");
    assert_eq!(log.acks[1][0], (1, Span::from_millis(860), 101));
    assert_eq!(gate.in_flight(), 8 * WIRE);
}

#[test]
fn what_timed_out_has_no_rtt_when_newer_packets_come_first() {
    let (mut gate, log) = silent();
    let deadline = gate.next_deadline(false).unwrap();
    gate.on_timer(deadline);
    release(&mut gate, Time::from_millis(500), &mut (4 * MSS as usize));
    gate.on_sacked(Time::from_millis(541), 10, 1);
    gate.on_acked(Time::from_millis(590), 15 * MSS);
    let log = log.lock().unwrap();
    assert_eq!(log.undone, 0);
    let newer: Vec<u64> = log.acks[1..].iter().flatten().map(|packet| packet.0).collect();
    assert_eq!(newer, [11, 12, 13, 14], "of those that TCP sent again the time is unknown");
    assert_eq!(gate.in_flight(), 0);
}

#[test]
fn a_window_below_a_segment_lets_a_small_packet_through() {
    let log = Arc::new(Mutex::new(Log::default()));
    let probe = Probe { cwnd: 30_000, pacing: None, log };
    let mut gate = TestGate::new(Box::new(probe), Time::ZERO, 32_741, 52);
    assert_eq!(gate.next_call(Time::ZERO, 1 << 20), 29_948);
    gate.on_taken(Time::ZERO, 29_948, 1 << 20);
    assert_eq!(gate.next_call(Time::ZERO, 1 << 20), 0);
}

/// A packet a millisecond.
fn paced_gate() -> (TestGate, Arc<Mutex<Log>>) {
    let log = Arc::new(Mutex::new(Log::default()));
    let pacing = Some(Pacing { rate: Rate::from_bps(12_000_000), burst: WIRE });
    let probe = Probe { cwnd: 100 * WIRE, pacing, log: log.clone() };
    (TestGate::new(Box::new(probe), Time::ZERO, MSS, WIRE - MSS), log)
}

#[test]
fn a_paced_controller_is_obeyed() {
    let (mut gate, _) = paced_gate();
    let mut queued = 1 << 20;
    assert_eq!(release(&mut gate, Time::ZERO, &mut queued), 1448);
    assert_eq!(gate.next_deadline(true), Some(Time::from_millis(1)));
    assert_eq!(release(&mut gate, Time::from_millis(1), &mut queued), 1448);
}

#[test]
fn what_tcp_sent_by_itself_for_a_paced_controller_left_one_after_the_other() {
    let (mut gate, log) = paced_gate();
    let at = Time::from_millis;
    gate.on_sent(at(10), at(20), 3 * MSS, MSS);
    gate.on_sent(at(12), at(20), 2 * MSS, MSS);
    // It reported these at 14.5 ms: they had left by then.
    gate.on_sent(at(12), Time::from_micros(14_500), 2 * MSS, MSS);
    let prompt = AckReport { prompt: true, ..report(7, 0, 0) };
    gate.on_ack_report(at(50), &prompt);
    assert_eq!(rtts(&log), [40_000, 39_000, 38_000, 37_000, 36_000, 35_500, 35_500]);
}

#[test]
fn an_idle_flow_has_no_deadline() {
    let verus: cellpace_cc::ControllerSpec = "verus".parse().unwrap();
    let setup = cellpace_cc::Setup {
        mss: WIRE,
        start: Time::ZERO,
        random: cellpace_base::Random::seeded(1, 0),
    };
    let mut gate = TestGate::new(verus.build(setup), Time::ZERO, MSS, WIRE - MSS);
    assert_eq!(gate.next_deadline(false), None);
    release(&mut gate, Time::ZERO, &mut 1448);
    assert!(gate.next_deadline(false).is_some());
    gate.on_acked(Time::from_millis(40), MSS);
    assert_eq!(gate.next_deadline(false), None);
}

#[derive(Debug, Clone)]
enum Op {
    Write(usize),
    Take { share: u8 },
    Ack { share: u8 },
    Sack { holes: usize, count: usize },
    Wait(u64),
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        (1usize..60_000).prop_map(Op::Write),
        any::<u8>().prop_map(|share| Op::Take { share }),
        any::<u8>().prop_map(|share| Op::Ack { share }),
        (0usize..4, 1usize..20).prop_map(|(holes, count)| Op::Sack { holes, count }),
        (0u64..30).prop_map(Op::Wait),
    ]
}

proptest! {
    /// Whatever TCP takes and acknowledges: the window is never exceeded by what the gate
    /// itself lets go, every packet is acked exactly once, and when all is acked nothing is
    /// in flight and nothing is remembered.
    #[test]
    fn the_books_balance(ops in prop::collection::vec(op(), 1..300), cwnd in 1u64..60) {
        let cwnd = cwnd * WIRE;
        let (mut gate, log) = gate(cwnd);
        let mut now = Time::ZERO;
        let mut queued = 0usize;
        for op in ops {
            match op {
                Op::Write(bytes) => queued += bytes,
                Op::Take { share } => {
                    let before = gate.in_flight();
                    let bytes = gate.next_call(now, queued);
                    let taken = bytes * usize::from(share) / 255;
                    gate.on_taken(now, taken, queued);
                    queued -= taken;
                    prop_assert!(gate.in_flight() <= cwnd.max(before));
                }
                Op::Ack { share } => {
                    let open = gate.taken() - gate.acked();
                    let acked = gate.acked() + open * u64::from(share) / 255;
                    gate.on_acked(now, acked);
                }
                Op::Sack { holes, count } => {
                    // The kernel counts only what it sent, and never the last hole's end.
                    let whole = gate.packets.len().saturating_sub(1);
                    gate.on_sacked(now, holes, count.min(whole.saturating_sub(holes)));
                }
                Op::Wait(ms) => {
                    now += Span::from_millis(ms);
                    gate.on_timer(now);
                }
            }
        }
        while gate.cut > gate.taken() {
            let owed = gate.next_call(now, queued);
            gate.on_taken(now, owed, queued);
            queued -= owed;
        }
        let taken = gate.taken();
        gate.on_acked(now, taken);
        prop_assert!(gate.is_idle());
        prop_assert_eq!(gate.in_flight(), 0);
        prop_assert_eq!(gate.packets.len(), 0);
        let log = log.lock().unwrap();
        let mut numbers: Vec<u64> = log.acks.iter().flatten().map(|packet| packet.0).collect();
        let acked = numbers.len();
        numbers.sort_unstable();
        numbers.dedup();
        prop_assert_eq!(numbers.len(), acked, "a packet was acked twice");
    }
}

/// A paced window that others may take away: a member's part of a shared one.
struct TakenWindow(Arc<Mutex<u64>>);

impl Controller for TakenWindow {
    fn permit(&self) -> Permit {
        Permit::Window(*self.0.lock().unwrap())
    }
    fn pacing(&self) -> Option<Pacing> {
        Some(Pacing { rate: Rate::from_bps(12_000_000), burst: WIRE })
    }
}

#[test]
fn a_window_that_goes_while_the_pacer_holds_leaves_no_deadline_in_the_past() {
    let window = Arc::new(Mutex::new(100 * WIRE));
    let controller = Box::new(TakenWindow(window.clone()));
    let mut gate = TestGate::new(controller, Time::ZERO, MSS, WIRE - MSS);
    let queued = 50 * MSS as usize;
    let sent = gate.next_call(Time::ZERO, queued);
    gate.on_taken(Time::ZERO, sent, queued);
    assert_eq!(gate.next_call(Time::ZERO, queued - sent), 0, "the pacer holds it");
    let release = gate.books.next_deadline(true).unwrap();
    *window.lock().unwrap() = 0;
    assert_eq!(gate.next_call(release, queued - sent), 0, "the window does");
    assert!(gate.books.next_deadline(true).is_none_or(|deadline| deadline > release));
}
