//! One flow's part in a group.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::{Rate, Span, Time};
use cellpace_cc::{
    Ack, Block, Controller, Ecn, Event, Loss, Mark, Pacing, Permit, SentPacket, Spurious, Stamp,
    Timeout,
};

use super::group::WindowGroup;

/// A flow's part in a controller that several flows share. The flow leaves when all clones are gone.
#[derive(Debug, Clone)]
pub struct WindowMember {
    seat: Arc<OccupiedSeat>,
}

#[derive(Debug)]
struct OccupiedSeat {
    group: Arc<Mutex<WindowGroup>>,
    id: usize,
}

impl Drop for OccupiedSeat {
    fn drop(&mut self) {
        lock(&self.group).leave(self.id);
    }
}

fn lock(group: &Mutex<WindowGroup>) -> MutexGuard<'_, WindowGroup> {
    // A panic elsewhere leaves figures, at worst old ones.
    group.lock().unwrap_or_else(PoisonError::into_inner)
}

impl WindowMember {
    pub(super) fn new(group: Arc<Mutex<WindowGroup>>, weight: u32, mss: u64) -> Self {
        let id = lock(&group).enter(weight, mss);
        Self { seat: Arc::new(OccupiedSeat { group, id }) }
    }

    fn group(&self) -> (MutexGuard<'_, WindowGroup>, usize) {
        (lock(&self.seat.group), self.seat.id)
    }

    /// Sets what [`WindowWatch::wake`] reports the flow by.
    pub fn set_token(&self, token: usize) {
        let (mut group, id) = self.group();
        group.set_token(id, token);
    }

    /// The flow has this many bytes that could be sent. What it cannot use, others may.
    pub fn set_waiting(&self, now: Time, bytes: u64) {
        let (mut group, id) = self.group();
        group.set_waiting(id, now, bytes);
    }

    /// Returns a view of the group that outlives the flow's membership.
    pub fn watch(&self) -> WindowWatch {
        WindowWatch(self.seat.group.clone())
    }
}

/// Reports who may go on after something happened to a member.
#[derive(Debug)]
pub struct WindowWatch(Arc<Mutex<WindowGroup>>);

impl WindowWatch {
    /// Calls `wake` with the tokens of flows for which there may be room now, the one first that
    /// waits longest.
    pub fn wake(&self, wake: impl FnMut(usize)) {
        let mut group = lock(&self.0);
        if std::mem::take(&mut group.has_freed) {
            group.waiting_tokens().for_each(wake);
        }
    }
}

impl Controller for WindowMember {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let (mut group, id) = self.group();
        group.on_sent(id, packet)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let (mut group, id) = self.group();
        group.on_ack(id, ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let (mut group, id) = self.group();
        group.on_loss(id, loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let (mut group, id) = self.group();
        group.on_timeout(id, timeout);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let (mut group, id) = self.group();
        group.on_spurious(id, spurious);
    }

    fn on_block(&mut self, block: &Block) {
        let (mut group, id) = self.group();
        group.on_block(id, block);
    }

    fn on_report(&mut self, now: Time, report: &[u8]) {
        let (mut group, _) = self.group();
        let now = group.advance(now);
        group.controller.on_report(now, report);
        group.has_freed = true;
    }

    fn ecn(&self) -> Ecn {
        self.group().0.controller.ecn()
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.group().0.on_mark(mark);
    }

    fn on_ecn_failed(&mut self, now: Time) {
        let (mut group, _) = self.group();
        let now = group.advance(now);
        group.controller.on_ecn_failed(now);
    }

    fn on_path_change(&mut self, now: Time) {
        let (mut group, id) = self.group();
        group.on_path_change(id, now);
    }

    fn permit(&self) -> Permit {
        let (mut group, id) = self.group();
        group.permit(id)
    }

    fn cwnd(&self) -> u64 {
        let (mut group, id) = self.group();
        match group.controller.cwnd() {
            u64::MAX => u64::MAX,
            _ => group.share(id),
        }
    }

    fn pacing(&self) -> Option<Pacing> {
        let (mut group, id) = self.group();
        let pacing = group.controller.pacing()?;
        let rate = pacing.rate.as_bytes_per_sec() * group.fraction(id);
        Some(Pacing { rate: Rate::from_bytes_per_sec(rate), ..pacing })
    }

    fn rto(&self) -> Option<Span> {
        self.group().0.controller.rto()
    }

    fn next_deadline(&self) -> Option<Time> {
        let (group, id) = self.group();
        group.next_deadline(id)
    }

    fn on_deadline(&mut self, now: Time) {
        self.group().0.on_deadline(now);
    }

    fn failure(&self) -> Option<String> {
        self.group().0.controller.failure()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.group().0.controller.poll_event()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.group().0.controller.inspect(show);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared_window::SharedWindows;
    use crate::{Arrived, PacedSender, Sending};
    use cellpace_cc::{ControllerSpec, Random, Setup};
    use proptest::prelude::*;

    const WIRE: u64 = 1500;

    struct Flow {
        sender: PacedSender<()>,
        member: WindowMember,
        /// Packets that wait, were sent, and up to which all are acknowledged.
        queued: u64,
        sent: u64,
        acked: u64,
    }

    impl Flow {
        /// Sends what it may.
        fn release(&mut self, now: Time) {
            loop {
                self.member.set_waiting(now, self.queued * WIRE);
                if self.queued == 0 || !self.sender.ready(now, WIRE) {
                    return;
                }
                let (bytes, data) = (WIRE, ());
                let (retransmission, app_limited) = (false, false);
                self.sender.send(&Sending { now, bytes, data, retransmission, app_limited });
                self.queued -= 1;
                self.sent += 1;
            }
        }

        fn ack(&mut self, now: Time, numbers: std::ops::Range<u64>) {
            let arrived: Vec<_> = numbers.map(|number| Arrived::new(number, None)).collect();
            self.sender.on_ack(now, &arrived, |(), _| {});
        }

        fn ack_all(&mut self, now: Time) {
            self.ack(now, self.acked..self.sent);
            self.acked = self.sent;
        }

        fn in_flight(&self) -> u64 {
            self.sender.sent().in_flight() / WIRE
        }

        fn next_deadline(&self) -> Option<Time> {
            let (controller, packet) =
                (self.sender.controller_deadline(), self.sender.packet_deadline());
            [controller, packet].into_iter().flatten().min()
        }
    }

    fn flows(cc: &str, weights: &[u32]) -> Vec<Flow> {
        let windows = SharedWindows::default();
        let cc: ControllerSpec = cc.parse().unwrap();
        let setup = Setup { mss: WIRE, start: Time::ZERO, random: Random::seeded(1, 0) };
        let flow = |weight: &u32| {
            let member = windows.join((), *weight, WIRE, || cc.build(setup.clone()));
            let sender = PacedSender::new(Box::new(member.clone()), Time::ZERO);
            Flow { sender, member, queued: 0, sent: 0, acked: 0 }
        };
        weights.iter().map(flow).collect()
    }

    fn in_flight(flows: &[Flow]) -> Vec<u64> {
        flows.iter().map(Flow::in_flight).collect()
    }

    #[test]
    fn three_flows_share_one_window_by_weight() {
        let mut flows = flows("fixed:cwnd=40pkts", &[1, 1, 2]);
        flows[0].queued = 700;
        flows[0].release(Time::ZERO);
        assert_eq!(in_flight(&flows), [40, 0, 0], "alone it has all");
        for at in [1, 2] {
            flows[at].queued = 700;
            flows[at].release(Time::from_millis(1));
        }
        assert_eq!(in_flight(&flows), [40, 0, 0], "never more than the window");
        for round in 1..20 {
            let now = Time::from_millis(40 * round);
            for flow in &mut flows {
                flow.ack_all(now);
                flow.queued = 700;
                flow.member.set_waiting(now, 700 * WIRE);
            }
            for flow in &mut flows {
                flow.release(now);
            }
        }
        assert_eq!(in_flight(&flows), [10, 10, 20]);
    }

    #[test]
    fn a_flow_that_leaves_gives_its_share_back() {
        let mut flows = flows("fixed:cwnd=40pkts", &[1, 1]);
        for flow in &mut flows {
            flow.queued = 700;
            flow.member.set_waiting(Time::ZERO, 700 * WIRE);
        }
        for flow in &mut flows {
            flow.release(Time::ZERO);
        }
        assert_eq!(in_flight(&flows), [20, 20]);
        let watch = flows[0].member.watch();
        flows[1].member.set_token(7);
        drop(flows.remove(0));
        let mut woken = Vec::new();
        watch.wake(|token| woken.push(token));
        assert_eq!(woken, [7]);
        flows[0].release(Time::ZERO);
        assert_eq!(in_flight(&flows), [40]);
    }

    #[test]
    fn flows_take_turns_when_the_window_is_smaller_than_their_number() {
        let mut flows = flows("fixed:cwnd=2pkts", &[1; 5]);
        for flow in &mut flows {
            flow.queued = 100;
            flow.member.set_waiting(Time::ZERO, 100 * WIRE);
        }
        let mut most = 0;
        for round in 0..50 {
            let now = Time::from_millis(round);
            // Whoever has something in flight is acked and served first; that must not help it.
            for flow in &mut flows {
                flow.ack_all(now);
                flow.release(now);
            }
            let all: u64 = in_flight(&flows).iter().sum();
            assert!(all <= 2, "{all}");
            most = most.max(all);
        }
        assert_eq!(most, 2);
        let sent: Vec<u64> = flows.iter().map(|flow| flow.sent).collect();
        let (least, most) = (sent.iter().min().unwrap(), sent.iter().max().unwrap());
        assert!(*least > 10 && most - least <= 2, "{sent:?}");
    }

    #[test]
    fn a_flow_with_large_packets_gets_its_turn_in_a_small_window() {
        let windows = SharedWindows::default();
        let cc: ControllerSpec = "fixed:cwnd=4pkts".parse().unwrap();
        let setup = |mss| Setup { mss, start: Time::ZERO, random: Random::seeded(1, 0) };
        let join = |mss: u64| windows.join((), 1, mss, || cc.build(setup(mss)));
        let (small, large) = (join(1000), join(32_000));
        for member in [&small, &large] {
            member.set_waiting(Time::ZERO, 100_000);
        }
        // The window is 4000 bytes, and half of it the share of either.
        assert_eq!(large.permit(), Permit::Window(32_000));
        assert_eq!(small.permit(), Permit::Window(2000));
    }

    #[test]
    fn a_flow_without_acks_holds_nobody_up() {
        let mut flows = flows("fixed:cwnd=10pkts", &[1, 1]);
        flows[0].queued = 700;
        flows[0].release(Time::ZERO);
        flows[1].queued = 700;
        flows[1].release(Time::from_millis(1));
        assert_eq!(in_flight(&flows), [10, 0]);
        let deadline = flows[1].next_deadline().unwrap();
        assert_eq!(deadline, Time::from_secs(2), "a second, and the first timeout");
        flows[1].sender.on_timer(deadline);
        flows[1].release(deadline);
        assert_eq!(in_flight(&flows), [10, 10]);
        // It gets acks again, and counts.
        flows[0].ack(deadline, 0..4);
        assert_eq!(flows[0].in_flight(), 6);
        flows[1].ack(deadline, 0..2);
        flows[1].release(deadline);
        assert_eq!(in_flight(&flows), [6, 8], "16 are more than the window");
        drop(flows.remove(1));
        flows[0].release(deadline);
        assert_eq!(in_flight(&flows), [10]);
    }

    #[test]
    fn the_controller_sees_one_flow() {
        // Numbers that are used twice, or bytes in flight that do not add up, end in a panic of
        // the overflow checks, or in a window that does not open.
        for info in cellpace_cc::registry() {
            if info.name.parse::<ControllerSpec>().unwrap().has_receiver() {
                continue;
            }
            let mut flows = flows(info.name, &[1, 3, 2]);
            for round in 1..200u64 {
                for (at, flow) in flows.iter_mut().enumerate() {
                    let now = Time::from_millis(40 * round + at as u64);
                    flow.queued = 700;
                    if round % 17 == 0 {
                        // One is missing, and will be declared lost.
                        flow.ack(now, flow.acked + 1..flow.sent.min(flow.acked + 5));
                    } else {
                        flow.ack_all(now);
                    }
                    flow.sender.on_timer(now);
                    flow.release(now);
                }
            }
            for flow in &mut flows {
                flow.ack_all(Time::from_secs(100));
                assert!(flow.sent > 50, "{}: {}", info.name, flow.sent);
            }
            let (group, _) = flows[0].member.group();
            assert_eq!(group.in_flight, 0, "{}", info.name);
        }
    }

    /// How a member stops to take part, though it has data.
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum Stall {
        /// No ack comes any more.
        NoAcks,
        /// It sends nothing, and does not say so.
        NoCalls,
        /// TCP below it takes nothing: it says that nothing can be sent.
        Refused,
    }

    /// Flows that share a window and a bottleneck of 250 packets a second with a buffer of 40, 40 ms
    /// from end to end. Some stall.
    struct Bottleneck {
        flows: Vec<Flow>,
        /// When the flow stalls, in ms, and how.
        stalls: Vec<Option<(u64, Stall)>>,
        free_at: Time,
        /// Acks on their way: when, the flow, the packet.
        acks: std::collections::VecDeque<(Time, usize, u64)>,
    }

    impl Bottleneck {
        const SERVICE: Span = Span::from_millis(4);

        fn stall(&self, at: usize, ms: u64) -> Option<Stall> {
            self.stalls[at].filter(|(from, _)| ms >= *from).map(|(_, how)| how)
        }

        fn step(&mut self, ms: u64) {
            let now = Time::from_millis(ms);
            while let Some((_, at, number)) = self.acks.pop_front_if(|(time, ..)| *time <= now) {
                if self.stall(at, ms) != Some(Stall::NoAcks) {
                    self.flows[at].ack(now, number..number + 1);
                }
            }
            for at in 0..self.flows.len() {
                let stall = self.stall(at, ms);
                let flow = &mut self.flows[at];
                if flow.next_deadline().is_some_and(|time| time <= now) {
                    flow.sender.on_timer(now);
                }
                flow.queued = 4;
                let before = flow.sent;
                match stall {
                    None | Some(Stall::NoAcks) => flow.release(now),
                    Some(Stall::NoCalls) => {
                        flow.member.set_waiting(now, 4 * WIRE);
                        flow.sender.ready(now, WIRE);
                    }
                    Some(Stall::Refused) => {
                        flow.member.set_waiting(now, 4 * WIRE);
                        flow.sender.ready(now, WIRE);
                        flow.member.set_waiting(now, 0);
                        // The datapath looks at the window whatever happens.
                        flow.sender.remaining();
                    }
                }
                for number in before..flow.sent {
                    let start = self.free_at.max(now);
                    if start.since(now) < Self::SERVICE * 40 {
                        self.free_at = start + Self::SERVICE;
                        self.acks.push_back((self.free_at + Span::from_millis(40), at, number));
                    }
                }
            }
        }

        /// Whether what counts as in flight is what its members have there that are not stuck.
        fn check(&self) {
            let (group, _) = self.flows[0].member.group();
            let counted: u64 = group.counted_in_flight();
            assert_eq!(group.in_flight, counted);
        }
    }

    /// The first flow never stalls, and the others as `stalls` say. Returns what it has sent in the
    /// last of three times ten seconds.
    fn sent_beside_stalled(cc: &str, stalls: &[Option<(u64, Stall)>]) -> u64 {
        let flows = flows(cc, &vec![1; stalls.len() + 1]);
        let stalls = std::iter::once(None).chain(stalls.iter().copied()).collect();
        let acks = std::collections::VecDeque::new();
        let mut path = Bottleneck { flows, stalls, free_at: Time::ZERO, acks };
        let mut before = 0;
        for ms in (0..30_000).step_by(2) {
            if ms == 20_000 {
                before = path.flows[0].sent;
            }
            path.step(ms);
            path.check();
        }
        path.flows[0].sent - before
    }

    #[test]
    fn twenty_five_flows_that_stall_do_not_stop_another() {
        for cc in ["copa", "verus", "cubic", "pace", "bbr", "fixed:cwnd=2pkts"] {
            for stall in [Stall::NoAcks, Stall::NoCalls, Stall::Refused] {
                for from in [0, 300] {
                    let sent = sent_beside_stalled(cc, &[Some((from, stall)); 25]);
                    // Alone it would send 2500.
                    let least = if cc.starts_with("fixed") { 200 } else { 1000 };
                    assert!(sent > least, "{cc}, {stall:?} from {from} ms on: {sent}");
                }
            }
        }
    }

    /// Verus counts what is in flight by itself, and grants nothing while two packets are and the RTT is
    /// long. Those with which two members try again each second, and time out, are always there.
    #[test]
    fn two_flows_that_try_again_do_not_silence_the_others() {
        let stalls_at = [
            (1, 1465, Stall::NoCalls),
            (3, 7919, Stall::NoAcks),
            (6, 5367, Stall::NoAcks),
            (8, 3101, Stall::Refused),
            (10, 5491, Stall::NoAcks),
            (11, 8791, Stall::NoAcks),
            (13, 5949, Stall::NoCalls),
            (14, 3937, Stall::NoAcks),
            (15, 7883, Stall::NoAcks),
            (24, 2747, Stall::Refused),
            (27, 811, Stall::NoCalls),
            (31, 3421, Stall::Refused),
        ];
        let mut stalls = vec![None; 32];
        stalls_at.into_iter().for_each(|(at, ms, how)| stalls[at] = Some((ms, how)));
        let sent = sent_beside_stalled("verus", &stalls);
        assert!(sent >= 2500 / 21 / 4, "{sent}");
    }

    /// BBR's pacing is the limit here: the window keeps no member waiting, so that none stands in line.
    #[test]
    fn a_flow_that_sends_nothing_has_no_part_of_the_pacing_rate() {
        let sent = sent_beside_stalled("bbr", &[Some((509, Stall::NoCalls))]);
        assert!(sent >= 2000, "{sent}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(16))]
        #[test]
        fn flows_that_stall_at_any_point_do_not_stop_another(
            cc in prop::sample::select(vec!["copa", "verus", "cubic", "pace", "bbr", "fixed:cwnd=2pkts"]),
            stalls in prop::collection::vec(prop::option::weighted(0.8, (
                0_u64..15_000,
                prop::sample::select(vec![Stall::NoAcks, Stall::NoCalls, Stall::Refused]),
            )), 1..40),
        ) {
            let sent = sent_beside_stalled(cc, &stalls);
            let live = 1 + stalls.iter().filter(|stall| stall.is_none()).count() as u64;
            // A quarter of its fair part of the link; two packets a round trip are 50 a second.
            let all = if cc.starts_with("fixed") { 300 } else { 2500 };
            prop_assert!(sent >= all / live / 4, "{cc}: {sent} beside {} others that go on", live - 1);
        }
    }

    /// What a controller learnt of a packet: its number and its stamp.
    type Seen = (&'static str, u64, u64);

    /// A controller that stamps packets with their numbers.
    #[derive(Debug, Clone, Default)]
    struct NumberWitness(Arc<Mutex<Vec<Seen>>>);

    impl NumberWitness {
        fn note(&self, kind: &'static str, number: u64, stamp: Stamp) {
            self.0.lock().unwrap().push((kind, number, stamp.wire));
        }
    }

    impl Controller for NumberWitness {
        fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
            Stamp { wire: 100 + packet.number, ..Stamp::default() }
        }
        fn on_ack(&mut self, ack: &Ack<'_>) {
            ack.packets.iter().for_each(|packet| self.note("acked", packet.number, packet.stamp));
        }
        fn on_loss(&mut self, loss: &Loss<'_>) {
            loss.packets.iter().for_each(|packet| self.note("lost", packet.number, packet.stamp));
        }
        fn on_spurious(&mut self, spurious: &Spurious<'_>) {
            match spurious {
                Spurious::Loss { packet, .. } => self.note("late", packet.number, packet.stamp),
                Spurious::Timeout { .. } => self.note("undone", 0, Stamp::default()),
            }
        }
        fn on_timeout(&mut self, _: &Timeout) {
            self.note("timeout", 0, Stamp::default());
        }
        fn on_mark(&mut self, mark: &Mark<'_>) {
            assert_eq!((mark.prior_in_flight, mark.in_flight), (7 * WIRE, 5 * WIRE));
            self.note("marked", mark.newest, Stamp { wire: mark.packets, ..Stamp::default() });
        }
        fn permit(&self) -> Permit {
            Permit::Window(u64::MAX)
        }
    }

    #[test]
    fn a_mark_of_one_flow_is_one_of_the_group() {
        let witness = NumberWitness::default();
        let windows = SharedWindows::default();
        let mut flows = [5, 2].map(|queued| {
            let member = windows.join((), 1, WIRE, || Box::new(witness.clone()));
            let sender = PacedSender::new(Box::new(member.clone()), Time::ZERO);
            let mut flow = Flow { sender, member, queued, sent: 0, acked: 0 };
            flow.release(Time::ZERO);
            flow
        });
        // Packets 0 and 1 of the second flow are 5 and 6 of the group, which has seven in flight.
        let marked = |number| Arrived { ecn: Ecn::Ce, ..Arrived::new(number, None) };
        flows[1].sender.on_ack(Time::from_millis(40), &[marked(0), marked(1)], |(), _| {});
        let seen = std::mem::take(&mut *witness.0.lock().unwrap());
        assert_eq!(seen, [("acked", 5, 105), ("acked", 6, 106), ("marked", 6, 2)]);
    }

    #[test]
    fn the_controller_gets_its_own_stamps_and_numbers_of_the_group() {
        let witness = NumberWitness::default();
        let windows = SharedWindows::default();
        let flow = |()| {
            let member = windows.join((), 1, WIRE, || Box::new(witness.clone()));
            let sender = PacedSender::new(Box::new(member.clone()), Time::ZERO);
            Flow { sender, member, queued: 0, sent: 0, acked: 0 }
        };
        let mut flows = [(), ()].map(flow);
        // The first flow's packets are 0 to 4 of the group, the second one's 5 and 6.
        for (flow, packets) in flows.iter_mut().zip([5, 2]) {
            flow.queued = packets;
            flow.release(Time::ZERO);
        }
        flows[1].ack(Time::from_millis(40), 0..2);
        flows[0].ack(Time::from_millis(41), 4..5);
        flows[0].ack(Time::from_millis(42), 0..1);
        let seen = std::mem::take(&mut *witness.0.lock().unwrap());
        let expected = [
            ("acked", 5, 105),
            ("acked", 6, 106),
            ("acked", 4, 104),
            ("lost", 0, 100),
            ("lost", 1, 101),
            ("late", 0, 100),
        ];
        assert_eq!(seen, expected);
        // A timeout that was wrong is undone, and what it gave up is in flight again.
        flows[1].queued = 1;
        flows[1].release(Time::from_millis(50));
        let timeout = flows[1].sender.packet_deadline().unwrap();
        flows[1].sender.on_timer(timeout);
        flows[1].ack(timeout, 2..3);
        let seen = std::mem::take(&mut *witness.0.lock().unwrap());
        assert_eq!(seen, [("timeout", 0, 0), ("undone", 0, 0), ("acked", 7, 107)]);
    }
}
