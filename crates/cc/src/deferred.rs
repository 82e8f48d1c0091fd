//! A controller that is made when its flow first fills the window that a new one has.
//!
//! Most connections of a server are too short for that, or send one answer at a time: they need no
//! controller, its memory and its deadlines. What a new controller would let leave is known without
//! it. Whoever wants to send more gets one that begins with the packets in flight, and learns of
//! them in the order in which they left, as if it had been there.

use std::sync::Arc;

use cellpace_base::{Ecn, Rate, Span, Time};

use crate::params::ControllerParams;
use crate::{
    Ack, AckedPacket, Block, Controller, Event, Frame, Loss, LostPacket, Mark, Pacing, Permit,
    Profile, SentPacket, Setup, Spurious, Stamp, Timeout,
};

/// A controller is made for a flow with so many packets in flight, however large its window: what
/// is remembered of each takes 40 bytes.
const MOST_IN_FLIGHT: usize = 64;

/// What a new controller answers while nothing has happened.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InitialAnswers {
    /// For flows whose full packets have so many bytes.
    pub(crate) mss: u64,
    allowed: u64,
    cwnd: u64,
    pacing: Option<Pacing>,
    rto: Option<Span>,
    ecn: Ecn,
    target_rate: Option<Rate>,
}

impl InitialAnswers {
    /// What `new` answers, for flows whose full packets have `mss` bytes.
    pub(crate) fn of(new: &dyn Controller, mss: u64) -> Self {
        Self {
            mss,
            allowed: new.permit().remaining(0),
            cwnd: new.cwnd(),
            pacing: new.pacing(),
            rto: new.rto(),
            ecn: new.ecn(),
            target_rate: new.target_rate(),
        }
    }

    /// Whether a first packet may leave: only then its ack can take the place of a controller.
    pub(crate) fn lets_a_packet_leave(&self) -> bool {
        self.allowed >= self.mss
    }

    /// Whether the flow wants to send more than this, now that `packet` leaves.
    fn is_filled(&self, packet: &SentPacket) -> bool {
        !packet.app_limited && packet.in_flight.saturating_add(self.mss) > self.allowed
    }
}

/// The controller of a flow that may never need one.
pub(crate) struct Deferred {
    params: Arc<dyn ControllerParams>,
    setup: Setup,
    stage: DeferredStage,
}

enum DeferredStage {
    /// There is none; these packets are in flight.
    Waiting {
        initial: InitialAnswers,
        sent: Vec<SentPacket>,
    },
    Begun(Begun),
}

/// A controller, and what it left on packets that had left before it was made.
struct Begun {
    controller: Box<dyn Controller>,
    stamps: Vec<(u64, Stamp)>,
}

impl Deferred {
    pub(crate) fn new(
        params: Arc<dyn ControllerParams>,
        setup: Setup,
        initial: InitialAnswers,
    ) -> Self {
        Self { params, setup, stage: DeferredStage::Waiting { initial, sent: Vec::new() } }
    }

    /// Makes the controller if there is none.
    fn begin(&mut self, now: Time) -> &mut Begun {
        if let DeferredStage::Waiting { sent, .. } = &self.stage {
            let start = sent.first().map_or(now, |oldest| oldest.now);
            let mut controller = self.params.build(Setup { start, ..self.setup.clone() });
            let stamps = tell(controller.as_mut(), sent);
            self.stage = DeferredStage::Begun(Begun { controller, stamps });
        }
        match &mut self.stage {
            DeferredStage::Begun(begun) => begun,
            DeferredStage::Waiting { .. } => unreachable!("the controller was made above"),
        }
    }

    /// The controller if there is one, or what a new one would answer.
    fn ask<T>(
        &self,
        initial: impl FnOnce(&InitialAnswers) -> T,
        controller: impl FnOnce(&dyn Controller) -> T,
    ) -> T {
        match &self.stage {
            DeferredStage::Waiting { initial: known, .. } => initial(known),
            DeferredStage::Begun(begun) => controller(begun.controller.as_ref()),
        }
    }

    fn new_controller(&self) -> Box<dyn Controller> {
        self.params.build(self.setup.clone())
    }
}

/// Tells a new controller of the packets in flight.
fn tell(controller: &mut dyn Controller, sent: &[SentPacket]) -> Vec<(u64, Stamp)> {
    let mut in_flight = 0;
    let told = sent.iter().map(|packet| {
        in_flight += packet.bytes;
        (packet.number, controller.on_sent(&SentPacket { in_flight, ..*packet }))
    });
    told.collect()
}

impl Begun {
    fn stamp_of(&self, number: u64) -> Option<Stamp> {
        let place = self.stamps.binary_search_by_key(&number, |(told, _)| *told).ok()?;
        Some(self.stamps[place].1)
    }

    /// Whether all of `numbers` left after the controller was made, and bear their stamps themselves.
    fn all_stamped(&self, mut numbers: impl Iterator<Item = u64>) -> bool {
        self.stamps.last().is_none_or(|(newest, _)| numbers.all(|number| number > *newest))
    }

    fn stamped(&self, packet: &AckedPacket) -> AckedPacket {
        let stamp = self.stamp_of(packet.number).unwrap_or(packet.stamp);
        AckedPacket { stamp, ..*packet }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if self.all_stamped(ack.packets.iter().map(|packet| packet.number)) {
            self.controller.on_ack(ack);
            return;
        }
        let packets: Vec<_> = ack.packets.iter().map(|packet| self.stamped(packet)).collect();
        self.controller.on_ack(&Ack { packets: &packets, ..*ack });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if self.all_stamped(loss.packets.iter().map(|packet| packet.number)) {
            self.controller.on_loss(loss);
            return;
        }
        let stamped = |packet: &LostPacket| {
            let stamp = self.stamp_of(packet.number).unwrap_or(packet.stamp);
            LostPacket { stamp, ..*packet }
        };
        let packets: Vec<_> = loss.packets.iter().map(stamped).collect();
        self.controller.on_loss(&Loss { packets: &packets, ..*loss });
    }
}

impl Controller for Deferred {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        match &mut self.stage {
            DeferredStage::Begun(begun) => return begun.controller.on_sent(packet),
            DeferredStage::Waiting { initial, sent } => {
                sent.push(*packet);
                if !initial.is_filled(packet) && sent.len() < MOST_IN_FLIGHT {
                    return Stamp::default();
                }
            }
        }
        // This packet takes its stamp with it.
        self.begin(packet.now).stamps.pop().map(|(_, stamp)| stamp).unwrap_or_default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        match &mut self.stage {
            DeferredStage::Begun(begun) => begun.on_ack(ack),
            DeferredStage::Waiting { sent, .. } => {
                let arrived = |number| ack.packets.iter().any(|packet| packet.number == number);
                sent.retain(|packet| !arrived(packet.number));
            }
        }
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.begin(loss.now).on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.begin(timeout.now).controller.on_timeout(timeout);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        match spurious {
            Spurious::Timeout { now } => self.begin(*now).controller.on_spurious(spurious),
            Spurious::Loss { now, packet } => {
                let begun = self.begin(*now);
                let packet = begun.stamped(packet);
                begun.controller.on_spurious(&Spurious::Loss { now: *now, packet: &packet });
            }
        }
    }

    fn on_block(&mut self, block: &Block) {
        self.begin(block.now).controller.on_block(block);
    }

    fn on_report(&mut self, now: Time, report: &[u8]) {
        self.begin(now).controller.on_report(now, report);
    }

    fn ecn(&self) -> Ecn {
        self.ask(|initial| initial.ecn, |controller| controller.ecn())
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.begin(mark.now).controller.on_mark(mark);
    }

    fn on_ecn_failed(&mut self, now: Time) {
        self.begin(now).controller.on_ecn_failed(now);
    }

    fn on_path_change(&mut self, now: Time) {
        match &mut self.stage {
            DeferredStage::Begun(begun) => begun.controller.on_path_change(now),
            DeferredStage::Waiting { sent, .. } => sent.clear(),
        }
    }

    fn on_frame(&mut self, frame: &Frame) {
        self.begin(frame.now).controller.on_frame(frame);
    }

    fn target_rate(&self) -> Option<Rate> {
        self.ask(|initial| initial.target_rate, |controller| controller.target_rate())
    }

    /// In place of a budget, which would need its controller to be renewed, a window as large.
    fn permit(&self) -> Permit {
        self.ask(|initial| Permit::Window(initial.allowed), |controller| controller.permit())
    }

    fn cwnd(&self) -> u64 {
        self.ask(|initial| initial.cwnd, |controller| controller.cwnd())
    }

    fn pacing(&self) -> Option<Pacing> {
        self.ask(|initial| initial.pacing, |controller| controller.pacing())
    }

    fn rto(&self) -> Option<Span> {
        self.ask(|initial| initial.rto, |controller| controller.rto())
    }

    fn next_deadline(&self) -> Option<Time> {
        self.ask(|_| None, |controller| controller.next_deadline())
    }

    fn on_deadline(&mut self, now: Time) {
        if let DeferredStage::Begun(begun) = &mut self.stage {
            begun.controller.on_deadline(now);
        }
    }

    fn failure(&self) -> Option<String> {
        match &self.stage {
            DeferredStage::Begun(begun) => begun.controller.failure(),
            DeferredStage::Waiting { .. } => None,
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        match &mut self.stage {
            DeferredStage::Begun(begun) => begun.controller.poll_event(),
            DeferredStage::Waiting { .. } => None,
        }
    }

    /// Those of a new controller, while there is none.
    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        match &self.stage {
            DeferredStage::Begun(begun) => begun.controller.inspect(show),
            DeferredStage::Waiting { .. } => self.new_controller().inspect(show),
        }
    }

    fn profile(&self) -> Option<Profile> {
        match &self.stage {
            DeferredStage::Begun(begun) => begun.controller.profile(),
            DeferredStage::Waiting { .. } => self.new_controller().profile(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Mutex;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use proptest::prelude::*;

    use super::*;
    use crate::drive::{MSS, setup};
    use crate::{ControllerSpec, RttEstimator, registry};

    const RTT: Span = Span::from_millis(40);

    /// A sender on a path of 40 ms that loses nothing, or one packet in 50.
    struct Sender {
        controller: Box<dyn Controller>,
        now: Time,
        next: u64,
        on_path: VecDeque<(SentPacket, Stamp)>,
        rtt: RttEstimator,
        loses: bool,
    }

    impl Sender {
        fn new(controller: Box<dyn Controller>) -> Self {
            let (on_path, rtt) = (VecDeque::new(), RttEstimator::default());
            Self { controller, now: Time::ZERO, next: 0, on_path, rtt, loses: false }
        }

        fn in_flight(&self) -> u64 {
            self.on_path.iter().map(|(packet, _)| packet.bytes).sum()
        }

        fn send(&mut self, bytes: u64, app_limited: bool) {
            let packet = SentPacket {
                now: self.now,
                number: self.next,
                bytes,
                in_flight: self.in_flight() + bytes,
                app_limited,
                retransmission: false,
            };
            self.next += 1;
            let stamp = self.controller.on_sent(&packet);
            self.on_path.push_back((packet, stamp));
        }

        fn ack(&mut self, place: usize) {
            let prior_in_flight = self.in_flight();
            let Some((packet, stamp)) = self.on_path.remove(place) else { return };
            self.now = self.now.max(packet.now + RTT);
            self.rtt.sample(self.now - packet.now);
            let acked = AckedPacket {
                number: packet.number,
                bytes: packet.bytes,
                sent_at: packet.now,
                rtt: self.now - packet.now,
                received_at: None,
                app_limited: packet.app_limited,
                ecn: Ecn::NotEct,
                stamp,
            };
            self.controller.on_ack(&Ack {
                now: self.now,
                packets: &[acked],
                prior_in_flight,
                in_flight: self.in_flight(),
                next_number: self.next,
                rtt: &self.rtt,
            });
        }

        fn lose(&mut self, place: usize) {
            let prior_in_flight = self.in_flight();
            let Some((packet, stamp)) = self.on_path.remove(place) else { return };
            let (number, bytes, sent_at) = (packet.number, packet.bytes, packet.now);
            self.controller.on_loss(&Loss {
                now: self.now,
                packets: &[LostPacket { number, bytes, sent_at, stamp }],
                prior_in_flight,
                in_flight: self.in_flight(),
                next_number: self.next,
                rtt: &self.rtt,
            });
        }

        /// Sends all that it may, 2000 packets at most, and notes windows and permits.
        fn transfer(mut self, end: Time) -> Vec<(Time, u64, Permit, Option<Pacing>)> {
            let mut seen = Vec::new();
            while self.now < end {
                while self.next < 2000
                    && self.controller.permit().remaining(self.in_flight()) >= MSS
                {
                    self.send(MSS, false);
                }
                let ack_at = self.on_path.front().map(|(packet, _)| packet.now + RTT);
                match self.controller.next_deadline() {
                    Some(due) if ack_at.is_none_or(|at| due <= at) => {
                        self.now = self.now.max(due);
                        self.controller.on_deadline(self.now);
                    }
                    _ if ack_at.is_none() => break,
                    _ if self.loses && self.next % 50 == 7 => self.lose(0),
                    _ => self.ack(0),
                }
                let controller = &self.controller;
                seen.push((self.now, controller.cwnd(), controller.permit(), controller.pacing()));
            }
            seen
        }
    }

    #[test]
    fn a_long_flow_has_the_controller_that_it_would_have_had_from_the_start() {
        for info in registry().iter().filter(|info| info.name != "policy") {
            for loses in [false, true] {
                let spec: ControllerSpec = info.name.parse().unwrap();
                let run = |controller| {
                    let sender = Sender { loses, ..Sender::new(controller) };
                    sender.transfer(Time::from_millis(1500))
                };
                let (at_once, deferred) =
                    (run(spec.build(setup())), run(spec.build_deferred(setup())));
                assert!(at_once.len() > 50, "{}: {}", info.name, at_once.len());
                let differs = at_once.iter().zip(&deferred).find(|(one, other)| one != other);
                assert_eq!((differs, at_once.len()), (None, deferred.len()), "{}", info.name);
            }
        }
    }

    /// What a controller was told, and how many there are.
    #[derive(Default)]
    struct Told {
        built: AtomicUsize,
        sent: Mutex<Vec<SentPacket>>,
        over: Mutex<Vec<(u64, Stamp)>>,
        start: Mutex<Option<Time>>,
    }

    struct Listener(Arc<Told>);

    fn stamp_for(number: u64) -> Stamp {
        Stamp { local: [number + 1; 4], wire: number + 1 }
    }

    impl Controller for Listener {
        fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
            self.0.sent.lock().unwrap().push(*packet);
            stamp_for(packet.number)
        }

        fn on_ack(&mut self, ack: &Ack<'_>) {
            let over = ack.packets.iter().map(|packet| (packet.number, packet.stamp));
            self.0.over.lock().unwrap().extend(over);
        }

        fn on_loss(&mut self, loss: &Loss<'_>) {
            let over = loss.packets.iter().map(|packet| (packet.number, packet.stamp));
            self.0.over.lock().unwrap().extend(over);
        }

        fn on_spurious(&mut self, spurious: &Spurious<'_>) {
            if let Spurious::Loss { packet, .. } = spurious {
                self.0.over.lock().unwrap().push((packet.number, packet.stamp));
            }
        }

        fn next_deadline(&self) -> Option<Time> {
            Some(Time::ZERO)
        }

        fn permit(&self) -> Permit {
            Permit::Budget(10 * MSS)
        }
    }

    /// A flow with a window of ten packets, and what its controller is told once there is one.
    fn flow() -> (Sender, Arc<Told>) {
        let told = Arc::new(Told::default());
        let known = Arc::clone(&told);
        let spec = ControllerSpec::new("listener", move |setup| {
            known.built.fetch_add(1, Ordering::Relaxed);
            *known.start.lock().unwrap() = Some(setup.start);
            Box::new(Listener(Arc::clone(&known)))
        });
        let sender = Sender::new(spec.build_deferred(setup()));
        assert_eq!(told.built.swap(0, Ordering::Relaxed), 1, "one to be asked for its window");
        (sender, told)
    }

    fn is_begun(told: &Told) -> bool {
        told.built.load(Ordering::Relaxed) > 0
    }

    #[test]
    fn answers_that_do_not_fill_the_window_need_no_controller() {
        let (mut sender, told) = flow();
        for _ in 0..1000 {
            (0..3).for_each(|_| sender.send(MSS, false));
            (3..10).for_each(|_| sender.send(MSS, true));
            assert_eq!(sender.controller.next_deadline(), None, "it has no epochs");
            assert_eq!(sender.controller.permit(), Permit::Window(10 * MSS));
            (0..10).for_each(|_| sender.ack(0));
        }
        assert!(!is_begun(&told));
        assert_eq!(sender.controller.poll_event(), None);
    }

    #[test]
    fn more_data_than_the_window_makes_one_that_knows_what_is_in_flight() {
        let (mut sender, told) = flow();
        sender.send(MSS, true);
        sender.ack(0);
        (0..9).for_each(|_| sender.send(MSS, false));
        assert!(!is_begun(&told));
        sender.send(MSS, false);
        assert_eq!(told.built.load(Ordering::Relaxed), 1);
        assert_eq!(*told.start.lock().unwrap(), Some(Time::from_millis(40)));
        let numbers: Vec<_> = told.sent.lock().unwrap().iter().map(|it| it.number).collect();
        assert_eq!(numbers, (1..=10).collect::<Vec<_>>());
        assert_eq!(sender.controller.next_deadline(), Some(Time::ZERO));
    }

    #[test]
    fn whatever_is_not_plain_success_makes_one() {
        let now = Time::from_millis(50);
        let rtt = RttEstimator::default();
        let (prior_in_flight, in_flight, next_number) = (MSS, 0, 1);
        let mark =
            Mark { now, packets: 1, newest: 0, prior_in_flight, in_flight, next_number, rtt: &rtt };
        let timeout = Timeout { now, prior_in_flight, in_a_row: 1, next_number };
        let block = Block { now, stamp: Stamp::default(), waits: true };
        let happenings: [&dyn Fn(&mut Sender); 5] = [
            &|sender| sender.lose(0),
            &|sender| sender.controller.on_timeout(&timeout),
            &|sender| sender.controller.on_mark(&mark),
            &|sender| sender.controller.on_block(&block),
            &|sender| (0..MOST_IN_FLIGHT).for_each(|_| sender.send(60, true)),
        ];
        for (place, happens) in happenings.iter().enumerate() {
            let (mut sender, told) = flow();
            sender.send(MSS, true);
            assert!(!is_begun(&told));
            happens(&mut sender);
            assert!(is_begun(&told), "{place}");
        }
    }

    #[test]
    fn what_left_on_an_old_path_is_forgotten() {
        let (mut sender, told) = flow();
        sender.send(MSS, true);
        sender.controller.on_path_change(sender.now);
        sender.on_path.clear();
        (0..10).for_each(|_| sender.send(MSS, false));
        assert_eq!(told.sent.lock().unwrap()[0].number, 1);
    }

    #[test]
    fn a_flow_without_one_is_small() {
        let size = size_of::<Deferred>() + 10 * size_of::<SentPacket>();
        assert!(size < 1000, "{size}");
    }

    #[test]
    fn a_half_at_the_receiver_is_answered_from_the_first_packet() {
        let spec: ControllerSpec = "sprout".parse().unwrap();
        // What stands in for a controller has a window.
        assert!(!spec.build_deferred(setup()).permit().is_window());
    }

    proptest! {
        /// Whatever happens before and after it is made: the controller is told once of each packet that
        /// is not over by then, in order, with the bytes in flight at the time, and gets its own
        /// stamp back with each.
        #[test]
        fn each_packet_comes_with_its_stamp(
            steps in proptest::collection::vec((0..10u8, any::<bool>(), 1..=MSS, 0..6usize), 1..200),
        ) {
            let (mut sender, told) = flow();
            let mut over_before = Vec::new();
            for (kind, app_limited, bytes, place) in steps {
                let number = sender.on_path.get(place).map(|(packet, _)| packet.number);
                match kind {
                    0..6 => sender.send(bytes, app_limited),
                    6..9 => {
                        sender.ack(place);
                        if !is_begun(&told) {
                            over_before.extend(number);
                        }
                    }
                    _ => sender.lose(place),
                }
            }
            let sent = told.sent.lock().unwrap();
            let expected: Vec<_> = (0..sender.next).filter(|it| !over_before.contains(it)).collect();
            let numbers: Vec<_> = sent.iter().map(|packet| packet.number).collect();
            if is_begun(&told) {
                prop_assert_eq!(numbers, expected);
                prop_assert_eq!(sent[0].in_flight, sent[0].bytes);
            } else {
                prop_assert!(numbers.is_empty());
                prop_assert!(sender.on_path.len() < MOST_IN_FLIGHT);
            }
            for (number, stamp) in told.over.lock().unwrap().iter() {
                prop_assert_eq!(*stamp, stamp_for(*number));
            }
        }
    }
}
