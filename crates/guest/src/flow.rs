//! The one flow of an instance: records of the interface become calls of a controller.

#![allow(
    unsafe_code,
    reason = "what cellpace writes into the module's memory is reached by its address"
)]

use std::slice;
use std::sync::{Mutex, PoisonError};

use cellpace_base::{ParamSet, Rate};
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, ControllerParams, Ecn, Frame, Loss, LostPacket, Mark,
    Permit, Random, RtoRule, RttEstimator, RttState, SentPacket, Setup, Span, Spurious, Stamp,
    Time, Timeout,
};

use crate::abi;
use crate::declared::Declared;

/// Each flow has an instance of the module for itself, and a module has no threads.
static FLOW: Mutex<Option<GuestFlow>> = Mutex::new(None);

/// Calls `act` with the flow that `cellpace_start` began.
pub fn with_flow(act: impl FnOnce(&mut GuestFlow)) {
    let mut flow = FLOW.lock().unwrap_or_else(PoisonError::into_inner);
    act(flow.as_mut().expect("cellpace starts a flow before anything happens to it"));
}

/// A controller and what it is called with.
pub struct GuestFlow {
    controller: Box<dyn Controller>,
    acked: Vec<AckedPacket>,
    lost: Vec<LostPacket>,
    rtt: RttEstimator,
}

impl GuestFlow {
    /// Begins the flow.
    pub fn start<P: ParamSet + ControllerParams>(
        declared: &Declared,
        record: &abi::Setup,
        values: &[f64],
        answers: &mut abi::Answers,
    ) {
        let params = P::parse("plugin", &declared.text(values));
        let params =
            params.unwrap_or_else(|error| panic!("values that cellpace has checked: {error}"));
        if let Err(reason) = params.check() {
            panic!("{reason}");
        }
        let controller = params.build(Setup {
            mss: record.mss,
            start: Time::from_nanos(record.start),
            random: Random::seeded(record.seed, 0),
        });
        let flow =
            Self { controller, acked: Vec::new(), lost: Vec::new(), rtt: RttEstimator::default() };
        flow.answer(Stamp::default(), answers);
        *FLOW.lock().unwrap_or_else(PoisonError::into_inner) = Some(flow);
    }

    /// A packet leaves.
    pub fn on_sent(&mut self, event: &abi::Sent, answers: &mut abi::Answers) {
        let sent = *event;
        let stamp = self.controller.on_sent(&SentPacket {
            now: Time::from_nanos(sent.now),
            number: sent.number,
            bytes: sent.bytes,
            in_flight: sent.in_flight,
            app_limited: sent.flags & 1 != 0,
            retransmission: sent.flags & 2 != 0,
        });
        self.answer(stamp, answers);
    }

    /// Packets arrived.
    pub fn on_ack(
        &mut self,
        event: &abi::Flow,
        packets: &[abi::Packet],
        answers: &mut abi::Answers,
    ) {
        let flow = event;
        self.acked.clear();
        self.acked.extend(packets.iter().map(acked));
        self.rtt = estimator(flow);
        self.controller.on_ack(&Ack {
            now: Time::from_nanos(flow.now),
            packets: &self.acked,
            prior_in_flight: flow.prior_in_flight,
            in_flight: flow.in_flight,
            next_number: flow.next_number,
            rtt: &self.rtt,
        });
        self.answer(Stamp::default(), answers);
    }

    /// Packets are lost.
    pub fn on_loss(
        &mut self,
        event: &abi::Flow,
        packets: &[abi::Packet],
        answers: &mut abi::Answers,
    ) {
        let flow = event;
        self.lost.clear();
        self.lost.extend(packets.iter().map(lost));
        self.rtt = estimator(flow);
        self.controller.on_loss(&Loss {
            now: Time::from_nanos(flow.now),
            packets: &self.lost,
            prior_in_flight: flow.prior_in_flight,
            in_flight: flow.in_flight,
            next_number: flow.next_number,
            rtt: &self.rtt,
        });
        self.answer(Stamp::default(), answers);
    }

    /// Packets arrived with a mark.
    pub fn on_mark(&mut self, event: &abi::Flow, answers: &mut abi::Answers) {
        let flow = event;
        self.rtt = estimator(flow);
        self.controller.on_mark(&Mark {
            now: Time::from_nanos(flow.now),
            packets: flow.count,
            newest: flow.extent,
            prior_in_flight: flow.prior_in_flight,
            in_flight: flow.in_flight,
            next_number: flow.next_number,
            rtt: &self.rtt,
        });
        self.answer(Stamp::default(), answers);
    }

    /// The retransmission timer fired.
    pub fn on_timeout(&mut self, event: &abi::Timeout, answers: &mut abi::Answers) {
        let timeout = *event;
        self.controller.on_timeout(&Timeout {
            now: Time::from_nanos(timeout.now),
            prior_in_flight: timeout.prior_in_flight,
            in_a_row: timeout.in_a_row as u32,
            next_number: timeout.next_number,
        });
        self.answer(Stamp::default(), answers);
    }

    /// A loss or timeout was none.
    pub fn on_spurious(
        &mut self,
        event: &abi::Spurious,
        packets: &[abi::Packet],
        answers: &mut abi::Answers,
    ) {
        let spurious = event;
        let now = Time::from_nanos(spurious.now);
        let packet = packets.first().map(acked);
        self.controller.on_spurious(&match &packet {
            Some(packet) => Spurious::Loss { now, packet },
            None => Spurious::Timeout { now },
        });
        self.answer(Stamp::default(), answers);
    }

    /// The layer below refused data.
    pub fn on_block(&mut self, event: &abi::Block, answers: &mut abi::Answers) {
        let block = *event;
        self.controller.on_block(&Block {
            now: Time::from_nanos(block.now),
            stamp: stamp([block.stamp0, block.stamp1, block.stamp2, block.stamp3]),
            waits: block.waits != 0,
        });
        self.answer(Stamp::default(), answers);
    }

    /// A media source has a frame.
    pub fn on_frame(&mut self, event: &abi::Frame, answers: &mut abi::Answers) {
        let frame = *event;
        self.controller.on_frame(&Frame {
            now: Time::from_nanos(frame.now),
            bytes: frame.bytes,
            waiting: Span::from_nanos(frame.waiting),
            interval: Span::from_nanos(frame.interval),
        });
        self.answer(Stamp::default(), answers);
    }

    /// The deadline passed.
    pub fn on_deadline(&mut self, now: u64, answers: &mut abi::Answers) {
        self.controller.on_deadline(Time::from_nanos(now));
        self.answer(Stamp::default(), answers);
    }

    /// The path is another one.
    pub fn on_path_change(&mut self, now: u64, answers: &mut abi::Answers) {
        self.controller.on_path_change(Time::from_nanos(now));
        self.answer(Stamp::default(), answers);
    }

    /// The path does not carry ECN.
    pub fn on_ecn_failed(&mut self, now: u64, answers: &mut abi::Answers) {
        self.controller.on_ecn_failed(Time::from_nanos(now));
        self.answer(Stamp::default(), answers);
    }

    /// Writes what the controller lets happen.
    fn answer(&self, stamp: Stamp, answers: &mut abi::Answers) {
        let controller = self.controller.as_ref();
        let (permit, is_budget) = match controller.permit() {
            Permit::Window(bytes) => (bytes, 0),
            Permit::Budget(bytes) => (bytes, 1),
        };
        let pacing = controller.pacing();
        let rate = controller.target_rate();
        let written = abi::Answers {
            permit,
            is_budget,
            cwnd: controller.cwnd(),
            pacing_rate: pacing.map_or(f64::INFINITY, |pacing| pacing.rate.as_bytes_per_sec()),
            pacing_burst: pacing.map_or(0, |pacing| pacing.burst),
            rto: controller.rto().map_or(0, Span::as_nanos),
            deadline: controller.next_deadline().map_or(abi::NONE, Time::as_nanos),
            target_rate: rate.map_or(-1.0, Rate::as_bytes_per_sec),
            ecn: u64::from(controller.ecn().bits()),
            stamp0: stamp.local[0],
            stamp1: stamp.local[1],
            stamp2: stamp.local[2],
            stamp3: stamp.local[3],
        };
        *answers = written;
    }
}

/// A record, and `count` others behind it.
///
/// # Safety
/// All of them are in memory, and stay as they are for as long as the slice lives.
pub unsafe fn with_others<'a, T: Copy, U>(
    record: *const T,
    count: impl FnOnce(&T) -> u64,
) -> (T, &'a [U]) {
    // SAFETY: as the caller says.
    let first = unsafe { *record };
    // SAFETY: likewise, and the others begin where the record ends.
    let others = unsafe { record.add(1) }.cast();
    // SAFETY: all records are words, so that they are aligned.
    let others = unsafe { slice::from_raw_parts(others, count(&first) as usize) };
    (first, others)
}

fn stamp(local: [u64; 4]) -> Stamp {
    Stamp { local, wire: 0 }
}

fn time(word: u64) -> Option<u64> {
    (word != abi::NONE).then_some(word)
}

fn acked(packet: &abi::Packet) -> AckedPacket {
    AckedPacket {
        number: packet.number,
        bytes: packet.bytes,
        sent_at: Time::from_nanos(packet.sent_at),
        rtt: Span::from_nanos(packet.rtt),
        received_at: time(packet.received_at).map(Time::from_nanos),
        app_limited: packet.flags & 1 != 0,
        ecn: Ecn::from_bits((packet.flags >> 8) as u8),
        stamp: stamp([packet.stamp0, packet.stamp1, packet.stamp2, packet.stamp3]),
    }
}

fn lost(packet: &abi::Packet) -> LostPacket {
    LostPacket {
        number: packet.number,
        bytes: packet.bytes,
        sent_at: Time::from_nanos(packet.sent_at),
        stamp: stamp([packet.stamp0, packet.stamp1, packet.stamp2, packet.stamp3]),
    }
}

fn estimator(flow: &abi::Flow) -> RttEstimator {
    RttEstimator::from_state(RttState {
        smoothed: time(flow.srtt).map(Span::from_nanos),
        variation: Span::from_nanos(flow.rtt_variation),
        latest: Span::from_nanos(flow.rtt_latest),
        minimum: Span::from_nanos(flow.rtt_minimum),
        floor: Span::from_nanos(flow.rto_floor),
        rule: if flow.rto_rule == 1 { RtoRule::Linux } else { RtoRule::Rfc6298 },
    })
}
