//! Every controller of the registry, in every mode that a preset or a word or a switch of
//! its parameters selects, lives through random but legal histories. What is checked is what a datapath relies
//! on, whatever the algorithm: windows and rates are usable numbers, deadlines move on, logs show
//! no NaN, and the same history gives the same answers.
//!
//! The histories are the same in every run; `PROPTEST_CASES=5000` tries more of them.

use std::collections::VecDeque;

use cellpace_base::{Param, ParamKind};
use cellpace_cc::{
    Ack, AckedPacket, Arrival, Block, Controller, ControllerSpec, Ecn, Event, INSPECTED_VALUES,
    Loss, LostPacket, Mark, Random, Rate, Receiver, RttEstimator, SentPacket, Setup, Span,
    Spurious, Stamp, Time, Timeout, registry,
};
use proptest::prelude::*;
use proptest::sample::Index;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

/// Controllers whose window may be below one packet, because they decide on other grounds when a
/// flow may stand still. They must have a deadline to wake up at.
const MAY_STAND_STILL: &[&str] = &["sprout", "mdi"];

/// Modes that numbers select.
const MORE_MODES: &[&str] = &["fixed:cwnd=2pkts,max=100pkts,every=10ms", "sprout:max_rate=auto"];

/// No window, allowance or burst may be above this many bytes unless there is no window at all.
const MAX_BYTES: u64 = 1 << 50;

/// No rate may be above this; what is above is a cast of nonsense.
const MAX_BPS: u64 = 1 << 60;

/// Deadlines that one waiting step serves on time; then it comes late.
const DEADLINES_PER_WAIT: usize = 16;

#[derive(Debug, Clone)]
enum Step {
    /// Time passes; deadlines are served on their way.
    Wait(Span),
    /// Time passes and nobody looks at deadlines before its end.
    Oversleep(Span),
    /// Packets leave as far as window and pacing allow.
    Send { count: usize, bytes_in_mss: f64, runs_dry: bool, again: bool },
    /// The oldest packets in flight are acked in one ack.
    AckOldest { count: usize, one_way: bool },
    /// The oldest packet in flight arrives with a mark of congestion.
    Mark,
    /// Any packets in flight are acked in one ack.
    AckAny { picks: Vec<Index>, one_way: bool },
    /// The oldest packets in flight are declared lost.
    Lose(usize),
    /// A packet declared lost is acked after all.
    Late(Index),
    /// The retransmission timer fires.
    TimeOut,
    /// Right after a timeout, a packet sent before it is acked.
    TimeOutWasNone,
    /// The layer below refuses a packet like the last one.
    Block,
    /// Bytes that no receiver has written.
    Garbage(Vec<u8>),
    /// The report of the receiver half, if there is one.
    Report,
    /// Handover.
    PathChange,
    /// Somebody reads the events.
    Poll,
}

fn span() -> impl Strategy<Value = Span> {
    // Every order of magnitude from a nanosecond to an hour is as likely as another.
    (0_u32..42, any::<u64>()).prop_map(|(bits, random)| {
        let nanos = (1_u64 << bits) + (random & ((1 << bits) - 1));
        Span::from_nanos(nanos).min(Span::from_secs(3600))
    })
}

fn usual_span() -> impl Strategy<Value = Span> {
    (100_000_u64..60_000_000).prop_map(Span::from_nanos)
}

fn step() -> impl Strategy<Value = Step> {
    let send = (1_usize..64, prop_oneof![4 => Just(1.0), 1 => 0.0..1.0], any::<[bool; 4]>());
    prop_oneof![
        8 => usual_span().prop_map(Step::Wait),
        3 => span().prop_map(Step::Wait),
        1 => span().prop_map(Step::Oversleep),
        10 => send.prop_map(|(count, bytes_in_mss, [a, b, c, d])| Step::Send {
            count,
            bytes_in_mss,
            runs_dry: a && b,
            again: c && d,
        }),
        8 => (1_usize..32, any::<bool>())
            .prop_map(|(count, one_way)| Step::AckOldest { count, one_way }),
        2 => (prop::collection::vec(any::<Index>(), 1..16), any::<bool>())
            .prop_map(|(picks, one_way)| Step::AckAny { picks, one_way }),
        2 => (1_usize..16).prop_map(Step::Lose),
        1 => any::<Index>().prop_map(Step::Late),
        1 => Just(Step::Mark),
        1 => Just(Step::TimeOut),
        1 => Just(Step::TimeOutWasNone),
        1 => Just(Step::Block),
        1 => prop::collection::vec(any::<u8>(), 0..1200).prop_map(Step::Garbage),
        3 => Just(Step::Report),
        1 => Just(Step::PathChange),
        1 => Just(Step::Poll),
    ]
}

fn history() -> impl Strategy<Value = (u64, Vec<Step>)> {
    let mss = prop::sample::select(vec![1, 40, 1200, 1500, 1500, 9000, 65_536]);
    (mss, prop::collection::vec(step(), 1..150))
}

/// All modes that presets, words and switches select, one at a time.
fn modes() -> Vec<String> {
    let mut modes = Vec::new();
    for info in registry() {
        modes.push(info.name.to_owned());
        modes.extend(info.presets.iter().map(|preset| format!("{}:{}", info.name, preset.name)));
        for param in info.params() {
            let other = values(param).into_iter().filter(|value| *value != param.default);
            modes.extend(other.map(|value| format!("{}:{}={value}", info.name, param.key)));
        }
    }
    modes.extend(MORE_MODES.iter().map(|&text| text.to_owned()));
    // What does not go with the defaults of the rest is not a mode of its own.
    modes.retain(|text| text.parse::<ControllerSpec>().is_ok());
    modes
}

fn values(param: &Param) -> Vec<&'static str> {
    match param.kind {
        ParamKind::Word(words) => words.to_vec(),
        ParamKind::Bool => vec!["true", "false"],
        _ => Vec::new(),
    }
}

#[test]
fn every_controller_survives_legal_histories() {
    let cases =
        if std::env::var_os("PROPTEST_CASES").is_some() { Config::default().cases } else { 32 };
    let modes = modes();
    // Two threads: it is the longest test of this crate.
    std::thread::scope(|scope| {
        for half in modes.chunks(modes.len().div_ceil(2)) {
            scope.spawn(move || half.iter().for_each(|mode| survives_legal_histories(mode, cases)));
        }
    });
}

fn survives_legal_histories(mode: &str, cases: u32) {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    let random = TestRng::deterministic_rng(RngAlgorithm::ChaCha);
    let mut runner = TestRunner::new_with_rng(config, random);
    let lived = runner.run(&history(), |(mss, steps)| {
        let mut datapath = Datapath::new(mode, mss);
        for (index, step) in steps.iter().enumerate() {
            datapath.live(step);
            datapath.check().map_err(|wrong| {
                TestCaseError::fail(format!("after step {index}, {step:?}: {wrong}"))
            })?;
        }
        Ok(())
    });
    if let Err(error) = lived {
        panic!("{mode}: {error}");
    }
}

#[test]
fn modes_cover_the_registry() {
    let modes = modes();
    assert!(registry().iter().all(|info| modes.iter().any(|mode| mode == info.name)));
    assert!(modes.contains(&"cubic:hystart=off".to_owned()));
    assert!(modes.contains(&"verus:original".to_owned()));
}

/// A packet on its way.
#[derive(Debug, Clone, Copy)]
struct Packet {
    number: u64,
    bytes: u64,
    sent_at: Time,
    app_limited: bool,
    stamp: Stamp,
}

/// The smallest datapath that keeps the promises of the seam.
struct Datapath {
    name: String,
    controller: Box<dyn Controller>,
    /// Built and fed the same; must stay the same.
    twin: Box<dyn Controller>,
    receiver: Option<Box<dyn Receiver>>,
    mss: u64,
    now: Time,
    next_number: u64,
    in_flight: VecDeque<Packet>,
    lost: VecDeque<Packet>,
    /// Given up by a timeout; until the next ack they may turn out to be only late.
    timed_out: VecDeque<Packet>,
    timeouts: u32,
    /// The codepoint of packets that arrive.
    ecn: Ecn,
    /// When pacing allows the next packet.
    paced_until: Time,
    rtt: RttEstimator,
    last_stamp: Stamp,
    report: Vec<u8>,
    names: Vec<&'static str>,
    wrong: Option<String>,
}

impl Datapath {
    const KEPT_LOST: usize = 256;

    fn new(text: &str, mss: u64) -> Self {
        let spec: ControllerSpec = text.parse().expect("modes() keeps only what parses");
        let setup = || Setup { mss, start: Time::ZERO, random: Random::seeded(9, 9) };
        let controller = spec.build(setup());
        let names = shown(&*controller).iter().map(|(name, _)| *name).collect();
        Self {
            name: spec.name().to_owned(),
            controller,
            twin: spec.build(setup()),
            receiver: spec.build_receiver(setup()),
            mss,
            now: Time::ZERO,
            next_number: 0,
            in_flight: VecDeque::new(),
            lost: VecDeque::new(),
            timed_out: VecDeque::new(),
            timeouts: 0,
            ecn: Ecn::NotEct,
            paced_until: Time::ZERO,
            rtt: RttEstimator::default(),
            last_stamp: Stamp::default(),
            report: Vec::new(),
            names,
            wrong: None,
        }
    }

    fn live(&mut self, step: &Step) {
        match step {
            Step::Wait(span) => self.wait(*span),
            Step::Oversleep(span) => self.now += *span,
            Step::Send { count, bytes_in_mss, runs_dry, again } => {
                let bytes = ((self.mss as f64 * bytes_in_mss) as u64).max(1);
                self.send(*count, bytes, *runs_dry, *again);
            }
            Step::AckOldest { count, one_way } => {
                let count = (*count).min(self.in_flight.len());
                let packets: Vec<_> = self.in_flight.drain(..count).collect();
                self.ack(&packets, *one_way);
            }
            Step::AckAny { picks, one_way } => {
                let packets = picks.iter().filter_map(|pick| take(&mut self.in_flight, pick));
                let packets: Vec<_> = packets.collect();
                self.ack(&packets, *one_way);
            }
            Step::Lose(count) => self.lose(*count),
            Step::Late(pick) => self.late(pick),
            Step::Mark => self.mark(),
            Step::TimeOut => self.time_out(),
            Step::TimeOutWasNone => self.time_out_was_none(),
            Step::Block => {
                let block = Block {
                    now: self.now,
                    stamp: self.last_stamp,
                    waits: self.now.as_nanos().is_multiple_of(2),
                };
                self.both(|controller| controller.on_block(&block));
            }
            Step::Garbage(bytes) => {
                let now = self.now;
                self.both(|controller| controller.on_report(now, bytes));
            }
            Step::Report => self.pass_report(),
            Step::PathChange => {
                let now = self.now;
                self.rtt = RttEstimator::default();
                self.both(|controller| controller.on_path_change(now));
            }
            Step::Poll => self.poll(),
        }
        self.serve_deadline();
    }

    fn both(&mut self, mut act: impl FnMut(&mut dyn Controller)) {
        act(&mut *self.controller);
        act(&mut *self.twin);
    }

    fn wait(&mut self, span: Span) {
        let end = self.now + span;
        for _ in 0..DEADLINES_PER_WAIT {
            match self.controller.next_deadline() {
                Some(deadline) if deadline < end => {
                    self.now = self.now.max(deadline);
                    self.serve_deadline();
                }
                _ => break,
            }
        }
        self.now = end;
    }

    fn serve_deadline(&mut self) {
        let now = self.now;
        if let Some(receiver) = self.receiver.as_mut()
            && receiver.next_deadline().is_some_and(|deadline| deadline <= now)
        {
            receiver.on_deadline(now);
            if receiver.next_deadline().is_some_and(|deadline| deadline <= now) {
                self.wrong = Some(format!("the receiver's deadline stays in the past at {now:?}"));
            }
        }
        if self.controller.next_deadline().is_none_or(|deadline| deadline > now) {
            return;
        }
        self.both(|controller| controller.on_deadline(now));
        if let Some(deadline) = self.controller.next_deadline().filter(|deadline| *deadline <= now)
        {
            self.wrong = Some(format!("deadline {deadline:?} after on_deadline({now:?})"));
        }
    }

    fn bytes_in_flight(&self) -> u64 {
        self.in_flight.iter().map(|packet| packet.bytes).sum()
    }

    fn send(&mut self, count: usize, bytes: u64, runs_dry: bool, again: bool) {
        for index in 0..count {
            let in_flight = self.bytes_in_flight();
            let allowance = self.controller.permit().remaining(in_flight);
            if allowance < bytes || !self.pace(bytes) {
                return;
            }
            let last = index + 1 == count;
            let sent = SentPacket {
                now: self.now,
                number: self.next_number,
                bytes,
                in_flight: in_flight + bytes,
                app_limited: runs_dry && last && allowance >= bytes.saturating_mul(2),
                retransmission: again,
            };
            let stamp = self.controller.on_sent(&sent);
            if self.twin.on_sent(&sent) != stamp {
                self.wrong = Some("the twin left another stamp".to_owned());
            }
            self.last_stamp = stamp;
            self.next_number += 1;
            self.in_flight.push_back(Packet {
                number: sent.number,
                bytes,
                sent_at: self.now,
                app_limited: sent.app_limited,
                stamp,
            });
        }
    }

    /// Whether pacing lets a packet of `bytes` go now.
    fn pace(&mut self, bytes: u64) -> bool {
        let Some(pacing) = self.controller.pacing() else { return true };
        if pacing.rate == Rate::from_bps(0) || self.paced_until > self.now {
            return false;
        }
        let burst = pacing.rate.time_for(pacing.burst.max(self.mss));
        self.paced_until = self.paced_until.max(self.now - burst) + pacing.rate.time_for(bytes);
        true
    }

    fn acked(&self, packet: &Packet, one_way: bool) -> AckedPacket {
        let rtt = self.now.since(packet.sent_at);
        // The receiver's clock began a day earlier.
        let received_at = packet.sent_at + rtt / 2 + Span::from_secs(86_400);
        AckedPacket {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.sent_at,
            rtt,
            received_at: one_way.then_some(received_at),
            app_limited: packet.app_limited,
            ecn: self.ecn,
            stamp: packet.stamp,
        }
    }

    /// Passes `packets`, which are no longer in flight, on as acked.
    fn ack(&mut self, packets: &[Packet], one_way: bool) {
        let Some(newest) = packets.iter().max_by_key(|packet| packet.number) else { return };
        self.rtt.sample(self.now.since(newest.sent_at));
        // Whoever was not acked by now was lost by the timeout.
        let gone = std::mem::take(&mut self.timed_out);
        self.keep_lost(gone);
        self.timeouts = 0;
        let acked: Vec<_> = packets.iter().map(|packet| self.acked(packet, one_way)).collect();
        for packet in packets {
            if let Some(receiver) = self.receiver.as_mut() {
                receiver.on_arrival(&Arrival {
                    now: self.now,
                    number: packet.number,
                    bytes: packet.bytes,
                    wire: packet.stamp.wire,
                    ecn: Default::default(),
                });
            }
        }
        let in_flight = self.bytes_in_flight();
        let covered: u64 = acked.iter().map(|packet| packet.bytes).sum();
        let (now, next_number, rtt) = (self.now, self.next_number, self.rtt.clone());
        let ack = Ack {
            now,
            packets: &acked,
            prior_in_flight: in_flight + covered,
            in_flight,
            next_number,
            rtt: &rtt,
        };
        self.both(|controller| controller.on_ack(&ack));
    }

    fn mark(&mut self) {
        let prior_in_flight = self.bytes_in_flight();
        let Some(packet) = self.in_flight.pop_front() else { return };
        // Some datapaths know which packet was marked, others only that one was.
        self.ecn = if packet.number % 2 == 0 { Ecn::Ce } else { Ecn::NotEct };
        self.ack(&[packet], false);
        self.ecn = Ecn::NotEct;
        let (now, next_number, rtt) = (self.now, self.next_number, self.rtt.clone());
        let mark = Mark {
            now,
            packets: 1,
            newest: packet.number,
            prior_in_flight,
            in_flight: self.bytes_in_flight(),
            next_number,
            rtt: &rtt,
        };
        self.both(|controller| controller.on_mark(&mark));
    }

    fn lose(&mut self, count: usize) {
        let prior_in_flight = self.bytes_in_flight();
        let gone: VecDeque<_> = self.in_flight.drain(..count.min(self.in_flight.len())).collect();
        if gone.is_empty() {
            return;
        }
        let lost = |packet: &Packet| LostPacket {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.sent_at,
            stamp: packet.stamp,
        };
        let packets: Vec<_> = gone.iter().map(lost).collect();
        self.keep_lost(gone);
        let rtt = self.rtt.clone();
        let loss = Loss {
            now: self.now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.bytes_in_flight(),
            next_number: self.next_number,
            rtt: &rtt,
        };
        self.both(|controller| controller.on_loss(&loss));
    }

    fn keep_lost(&mut self, packets: VecDeque<Packet>) {
        self.lost.extend(packets);
        let excess = self.lost.len().saturating_sub(Self::KEPT_LOST);
        self.lost.drain(..excess);
    }

    fn late(&mut self, pick: &Index) {
        let Some(packet) = take(&mut self.lost, pick) else { return };
        let acked = self.acked(&packet, false);
        let spurious = Spurious::Loss { now: self.now, packet: &acked };
        self.both(|controller| controller.on_spurious(&spurious));
    }

    fn time_out(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        self.timeouts += 1;
        let timeout = Timeout {
            now: self.now,
            prior_in_flight: self.bytes_in_flight(),
            in_a_row: self.timeouts,
            next_number: self.next_number,
        };
        self.timed_out.extend(std::mem::take(&mut self.in_flight));
        self.both(|controller| controller.on_timeout(&timeout));
    }

    fn time_out_was_none(&mut self) {
        if self.timed_out.is_empty() {
            return;
        }
        // Packets that were given up are in flight again, before those that were sent since.
        let since = std::mem::replace(&mut self.in_flight, std::mem::take(&mut self.timed_out));
        self.in_flight.extend(since);
        let spurious = Spurious::Timeout { now: self.now };
        self.both(|controller| controller.on_spurious(&spurious));
        if let Some(first) = self.in_flight.pop_front() {
            self.ack(&[first], false);
        }
    }

    fn pass_report(&mut self) {
        let now = self.now;
        let Some(receiver) = self.receiver.as_mut() else { return };
        self.report.clear();
        if !receiver.poll_report(now, &mut self.report) {
            return;
        }
        if self.report.len() > 1200 {
            self.wrong = Some(format!("a report of {} bytes", self.report.len()));
        }
        let report = std::mem::take(&mut self.report);
        self.both(|controller| controller.on_report(now, &report));
        self.report = report;
    }

    fn poll(&mut self) {
        for _ in 0..1000 {
            let (event, other): (Option<(Time, Event)>, _) =
                (self.controller.poll_event(), self.twin.poll_event());
            if event != other {
                self.wrong = Some(format!("the twin reports {other:?} instead of {event:?}"));
            }
            match event {
                None => return,
                Some((at, _)) if at > self.now => {
                    self.wrong = Some(format!("an event from the future, {event:?}"));
                }
                Some(_) => {}
            }
        }
        self.wrong = Some("the events do not end".to_owned());
    }

    fn check(&mut self) -> Result<(), String> {
        if let Some(wrong) = self.wrong.take() {
            return Err(wrong);
        }
        self.check_window()?;
        self.check_pacing()?;
        let values = shown(&*self.controller);
        if let Some((name, value)) = values.iter().find(|(_, value)| !value.is_finite()) {
            return Err(format!("{name} is {value}"));
        }
        let documented = |name| INSPECTED_VALUES.iter().any(|(known, _)| *known == name);
        if let Some((name, _)) = values.iter().find(|(name, _)| !documented(*name)) {
            return Err(format!("{name} is not one of INSPECTED_VALUES"));
        }
        if !values.iter().map(|(name, _)| name).eq(self.names.iter()) {
            return Err(format!("the controller shows other names now: {values:?}"));
        }
        self.check_twin(&values)
    }

    fn check_window(&self) -> Result<(), String> {
        let (cwnd, in_flight) = (self.controller.cwnd(), self.bytes_in_flight());
        let allowance = self.controller.permit().remaining(in_flight);
        if cwnd == u64::MAX {
            return Ok(());
        }
        if cwnd > MAX_BYTES || allowance > MAX_BYTES {
            return Err(format!("window {cwnd}, allowance {allowance}"));
        }
        let may_stand_still = MAY_STAND_STILL.contains(&&*self.name);
        if cwnd < self.mss && !may_stand_still {
            return Err(format!("window {cwnd} is less than a packet of {}", self.mss));
        }
        if may_stand_still && allowance == 0 && self.controller.next_deadline().is_none() {
            return Err("stands still without a deadline".to_owned());
        }
        Ok(())
    }

    fn check_pacing(&self) -> Result<(), String> {
        if let Some(pacing) = self.controller.pacing()
            && (pacing.rate > Rate::from_bps(MAX_BPS) || pacing.burst > MAX_BYTES)
        {
            return Err(format!("{pacing:?}"));
        }
        match self.controller.rto() {
            Some(rto) if rto.is_zero() || rto > Span::from_secs(24 * 3600) => {
                Err(format!("a retransmission timeout of {rto}"))
            }
            _ => Ok(()),
        }
    }

    fn check_twin(&self, values: &[(&'static str, f64)]) -> Result<(), String> {
        let answers = |controller: &dyn Controller| {
            (
                controller.cwnd(),
                controller.permit(),
                controller.pacing(),
                controller.rto(),
                controller.next_deadline(),
            )
        };
        let (ours, theirs) = (answers(&*self.controller), answers(&*self.twin));
        if ours != theirs {
            return Err(format!("the twin answers {theirs:?} instead of {ours:?}"));
        }
        let others = shown(&*self.twin);
        if values != others {
            return Err(format!("the twin shows {others:?} instead of {values:?}"));
        }
        Ok(())
    }
}

fn take(packets: &mut VecDeque<Packet>, pick: &Index) -> Option<Packet> {
    if packets.is_empty() {
        return None;
    }
    packets.remove(pick.index(packets.len()))
}

fn shown(controller: &dyn Controller) -> Vec<(&'static str, f64)> {
    let mut values = Vec::new();
    controller.inspect(&mut |name, value| values.push((name, value)));
    values
}
