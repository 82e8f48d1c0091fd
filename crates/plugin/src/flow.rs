//! A flow under a module: what happens is written into the module's memory, what it lets happen is read after each call.

use cellpace_base::{Ecn, Rate, Span, Time};
use cellpace_cc::{
    Ack, AckedPacket, Block, Controller, Frame, Loss, LostPacket, Mark, Pacing, Permit, RtoRule,
    RttEstimator, SentPacket, Setup, Spurious, Stamp, Timeout,
};
use cellpace_guest::abi;

use crate::engine::{Arguments, Function, Instance};
use crate::module::Module;

/// Bytes of a page of memory.
const PAGE: usize = 1 << 16;
/// From the answers, at the start of the room, to what happened.
const EVENT: usize = 128;

/// A call with a record; the second argument is where the answers are.
type Call = Function<(u32, u32), ()>;
/// A call with a time.
type Clock = Function<(u64, u32), ()>;

/// The controller of a flow, for as long as its module does not fail.
pub(crate) struct Plugin {
    file: String,
    flow: Result<Box<PluginFlow>, String>,
}

/// A module that controls a flow.
pub(crate) struct PluginFlow {
    instance: Instance,
    calls: Calls,
    /// Where the room for records is in the module's memory: pages behind its own.
    room: Room,
    answers: abi::Answers,
    ecn: Ecn,
}

#[derive(Clone, Copy)]
struct Room {
    at: usize,
    bytes: usize,
}

/// What the module exports to be called; what it lacks is not called.
struct Calls {
    start: Option<Call>,
    on_sent: Option<Call>,
    on_ack: Option<Call>,
    on_loss: Option<Call>,
    on_mark: Option<Call>,
    on_timeout: Option<Call>,
    on_spurious: Option<Call>,
    on_block: Option<Call>,
    on_frame: Option<Call>,
    on_deadline: Option<Clock>,
    on_path_change: Option<Clock>,
    on_ecn_failed: Option<Clock>,
}

impl Plugin {
    /// A flow under `module`, which is in `file`. One that fails at once lets nothing leave, and says why.
    pub(crate) fn new(file: &str, module: &Module, values: &[f64], setup: Setup) -> Self {
        let flow = PluginFlow::start(module, values, setup).map(Box::new);
        let flow = flow.map_err(|reason| format!("{file}: {reason}"));
        Self { file: file.to_owned(), flow }
    }

    /// Lets the module do something; if it fails, nothing is asked of it any more.
    #[inline]
    fn act<T: Default>(&mut self, act: impl FnOnce(&mut PluginFlow) -> Result<T, String>) -> T {
        let Ok(flow) = &mut self.flow else { return T::default() };
        act(flow).unwrap_or_else(|reason| self.fail(&reason))
    }

    #[cold]
    fn fail<T: Default>(&mut self, reason: &str) -> T {
        self.flow = Err(format!("{}: {reason}", self.file));
        T::default()
    }

    /// What the module last answered.
    #[inline]
    fn answers(&self) -> Option<&abi::Answers> {
        self.flow.as_ref().ok().map(|flow| &flow.answers)
    }
}

impl PluginFlow {
    /// Makes an instance and starts the flow.
    ///
    /// # Errors
    /// When the module fails. The caller knows its file.
    pub(crate) fn start(module: &Module, values: &[f64], setup: Setup) -> Result<Self, String> {
        let mut instance = module.instantiate()?;
        let calls = Calls::of(&mut instance);
        let room = Room::new(&mut instance, PAGE)?;
        let Setup { mss, start, mut random } = setup;
        let answers = abi::Answers::UNWRITTEN;
        let mut flow = Self { instance, calls, room, answers, ecn: Ecn::NotEct };
        flow.write(0, &answers.words());
        let params = values.len() as u64;
        let record =
            abi::Setup { mss, start: start.as_nanos(), seed: random.bits(), params }.words();
        flow.write(EVENT, &record);
        let values: Vec<u64> = values.iter().map(|value| value.to_bits()).collect();
        flow.write(EVENT + 8 * record.len(), &values);
        flow.run("cellpace_start", |calls| &calls.start, flow.room.event())?;
        flow.ecn = Ecn::from_bits(flow.answers.ecn as u8);
        match flow.ecn {
            Ecn::Ce => Err("cellpace_start: packets cannot leave with a mark (ecn: 3)".to_owned()),
            _ => Ok(flow),
        }
    }

    /// Writes words into the room.
    #[inline]
    fn write(&mut self, offset: usize, words: &[u64]) {
        let room = &mut self.instance.memory_mut()[self.room.at + offset..][..8 * words.len()];
        for (bytes, word) in room.chunks_exact_mut(8).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
    }

    /// Calls the module, if it exports that, and reads what it answers.
    #[inline]
    fn run<A>(
        &mut self,
        name: &str,
        which: impl Fn(&Calls) -> &Option<Function<(A, u32), ()>>,
        argument: A,
    ) -> Result<(), String>
    where
        (A, u32): Arguments,
    {
        let Some(call) = which(&self.calls) else { return Ok(()) };
        let called = self.instance.call(call, (argument, self.room.at as u32));
        called.map_err(|error| format!("{name}: {error}"))?;
        let bytes = &self.instance.memory()[self.room.at..][..8 * abi::Answers::WORDS];
        let mut words = [0; abi::Answers::WORDS];
        for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(8)) {
            *word = u64::from_le_bytes(bytes.try_into().expect("chunks of eight"));
        }
        self.answers = abi::Answers::from_words(words);
        if self.answers.pacing_rate.is_nan() || self.answers.target_rate.is_nan() {
            return Err(format!("{name}: a rate is not a number"));
        }
        Ok(())
    }

    /// Writes a record and calls the module with it.
    #[inline]
    fn tell(
        &mut self,
        name: &str,
        which: impl Fn(&Calls) -> &Option<Call>,
        record: &[u64],
    ) -> Result<(), String> {
        if which(&self.calls).is_none() {
            return Ok(());
        }
        self.write(EVENT, record);
        self.run(name, which, self.room.event())
    }

    /// The same with packets behind the record.
    #[inline]
    fn tell_of(
        &mut self,
        name: &str,
        which: impl Fn(&Calls) -> &Option<Call>,
        record: &[u64],
        packets: impl ExactSizeIterator<Item = abi::Packet>,
    ) -> Result<(), String> {
        if which(&self.calls).is_none() {
            return Ok(());
        }
        self.make_room(EVENT + 8 * (record.len() + packets.len() * abi::Packet::WORDS))
            .map_err(|reason| format!("{name}: {reason}"))?;
        let mut offset = EVENT + 8 * record.len();
        for packet in packets {
            self.write(offset, &packet.words());
            offset += 8 * abi::Packet::WORDS;
        }
        self.write(EVENT, record);
        self.run(name, which, self.room.event())
    }

    /// A large ack takes a larger room, behind all that the module has by then.
    fn make_room(&mut self, bytes: usize) -> Result<(), String> {
        if bytes <= self.room.bytes {
            return Ok(());
        }
        self.room = Room::new(&mut self.instance, bytes.next_power_of_two())?;
        self.write(0, &self.answers.words());
        Ok(())
    }

    fn on_deadline(&mut self, now: Time) -> Result<(), String> {
        self.run("cellpace_on_deadline", |calls| &calls.on_deadline, now.as_nanos())?;
        match self.answers.deadline > now.as_nanos() {
            true => Ok(()),
            false => {
                Err("cellpace_on_deadline: the next deadline is not behind this one".to_owned())
            }
        }
    }
}

impl Calls {
    fn of(instance: &mut Instance) -> Self {
        Self {
            start: instance.function("cellpace_start"),
            on_sent: instance.function("cellpace_on_sent"),
            on_ack: instance.function("cellpace_on_ack"),
            on_loss: instance.function("cellpace_on_loss"),
            on_mark: instance.function("cellpace_on_mark"),
            on_timeout: instance.function("cellpace_on_timeout"),
            on_spurious: instance.function("cellpace_on_spurious"),
            on_block: instance.function("cellpace_on_block"),
            on_frame: instance.function("cellpace_on_frame"),
            on_deadline: instance.function("cellpace_on_deadline"),
            on_path_change: instance.function("cellpace_on_path_change"),
            on_ecn_failed: instance.function("cellpace_on_ecn_failed"),
        }
    }
}

impl Room {
    /// Pages behind what the module has: its own allocator asks for others, wherever they are.
    fn new(instance: &mut Instance, bytes: usize) -> Result<Self, String> {
        let pages = bytes.div_ceil(PAGE);
        let before = instance.grow(pages as u64).map_err(|error| error.to_string())?;
        Ok(Self { at: before as usize * PAGE, bytes: pages * PAGE })
    }

    #[inline]
    fn event(self) -> u32 {
        (self.at + EVENT) as u32
    }
}

impl Controller for Plugin {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.act(|flow| {
            if flow.calls.on_sent.is_none() {
                return Ok(Stamp::default());
            }
            let record = abi::Sent {
                now: packet.now.as_nanos(),
                number: packet.number,
                bytes: packet.bytes,
                in_flight: packet.in_flight,
                flags: u64::from(packet.app_limited) | u64::from(packet.retransmission) << 1,
            };
            flow.tell("cellpace_on_sent", |calls| &calls.on_sent, &record.words())?;
            let abi::Answers { stamp0, stamp1, stamp2, stamp3, .. } = flow.answers;
            Ok(Stamp { local: [stamp0, stamp1, stamp2, stamp3], wire: 0 })
        })
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        let record = abi::Flow {
            count: ack.packets.len() as u64,
            extent: ack.bytes(),
            ..seen(ack.now, [ack.prior_in_flight, ack.in_flight, ack.next_number], ack.rtt)
        };
        let packets = ack.packets.iter().map(acked);
        self.act(|flow| {
            flow.tell_of("cellpace_on_ack", |calls| &calls.on_ack, &record.words(), packets)
        });
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        let record = abi::Flow {
            count: loss.packets.len() as u64,
            extent: loss.bytes(),
            ..seen(loss.now, [loss.prior_in_flight, loss.in_flight, loss.next_number], loss.rtt)
        };
        let packets = loss.packets.iter().map(lost);
        self.act(|flow| {
            flow.tell_of("cellpace_on_loss", |calls| &calls.on_loss, &record.words(), packets)
        });
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        let record = abi::Flow {
            count: mark.packets,
            extent: mark.newest,
            ..seen(mark.now, [mark.prior_in_flight, mark.in_flight, mark.next_number], mark.rtt)
        };
        self.act(|flow| flow.tell("cellpace_on_mark", |calls| &calls.on_mark, &record.words()));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        let record = abi::Timeout {
            now: timeout.now.as_nanos(),
            prior_in_flight: timeout.prior_in_flight,
            in_a_row: timeout.in_a_row.into(),
            next_number: timeout.next_number,
        };
        self.act(|flow| {
            flow.tell("cellpace_on_timeout", |calls| &calls.on_timeout, &record.words())
        });
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let (now, packet) = match *spurious {
            Spurious::Timeout { now } => (now, None),
            Spurious::Loss { now, packet } => (now, Some(acked(packet))),
        };
        let count = u64::from(packet.is_some());
        let record = abi::Spurious { now: now.as_nanos(), count }.words();
        self.act(|flow| {
            let packets = packet.into_iter();
            flow.tell_of("cellpace_on_spurious", |calls| &calls.on_spurious, &record, packets)
        });
    }

    fn on_block(&mut self, block: &Block) {
        let [stamp0, stamp1, stamp2, stamp3] = block.stamp.local;
        let (now, waits) = (block.now.as_nanos(), block.waits.into());
        let record = abi::Block { now, waits, stamp0, stamp1, stamp2, stamp3 };
        self.act(|flow| flow.tell("cellpace_on_block", |calls| &calls.on_block, &record.words()));
    }

    fn ecn(&self) -> Ecn {
        self.flow.as_ref().map_or(Ecn::NotEct, |flow| flow.ecn)
    }

    fn on_ecn_failed(&mut self, now: Time) {
        let now = now.as_nanos();
        self.act(|flow| flow.run("cellpace_on_ecn_failed", |calls| &calls.on_ecn_failed, now));
    }

    fn on_path_change(&mut self, now: Time) {
        let now = now.as_nanos();
        self.act(|flow| flow.run("cellpace_on_path_change", |calls| &calls.on_path_change, now));
    }

    fn on_frame(&mut self, frame: &Frame) {
        let record = abi::Frame {
            now: frame.now.as_nanos(),
            bytes: frame.bytes,
            waiting: frame.waiting.as_nanos(),
            interval: frame.interval.as_nanos(),
        };
        self.act(|flow| flow.tell("cellpace_on_frame", |calls| &calls.on_frame, &record.words()));
    }

    fn target_rate(&self) -> Option<Rate> {
        let rate = self.answers()?.target_rate;
        (rate >= 0.0).then(|| Rate::from_bytes_per_sec(rate))
    }

    fn permit(&self) -> Permit {
        match self.answers() {
            Some(answers) if answers.is_budget != 0 => Permit::Budget(answers.permit),
            answers => Permit::Window(answers.map_or(0, |answers| answers.permit)),
        }
    }

    fn cwnd(&self) -> u64 {
        self.answers().map_or(0, |answers| match answers.cwnd {
            0 => answers.permit,
            cwnd => cwnd,
        })
    }

    fn pacing(&self) -> Option<Pacing> {
        let answers = self.answers()?;
        let rate = Rate::from_bytes_per_sec(answers.pacing_rate);
        answers.pacing_rate.is_finite().then_some(Pacing { rate, burst: answers.pacing_burst })
    }

    fn rto(&self) -> Option<Span> {
        let rto = self.answers()?.rto;
        (rto != 0).then(|| Span::from_nanos(rto))
    }

    fn next_deadline(&self) -> Option<Time> {
        let deadline = self.answers()?.deadline;
        (deadline != abi::NONE).then(|| Time::from_nanos(deadline))
    }

    fn on_deadline(&mut self, now: Time) {
        self.act(|flow| flow.on_deadline(now));
    }

    fn failure(&self) -> Option<String> {
        self.flow.as_ref().err().cloned()
    }
}

/// The flow, of which packets in flight before and after and the next number are `[prior, after, next]`.
#[inline]
fn seen(now: Time, [prior, after, next]: [u64; 3], rtt: &RttEstimator) -> abi::Flow {
    let rtt = rtt.state();
    abi::Flow {
        now: now.as_nanos(),
        prior_in_flight: prior,
        in_flight: after,
        next_number: next,
        srtt: rtt.smoothed.map_or(abi::NONE, Span::as_nanos),
        rtt_variation: rtt.variation.as_nanos(),
        rtt_latest: rtt.latest.as_nanos(),
        rtt_minimum: rtt.minimum.as_nanos(),
        rto_floor: rtt.floor.as_nanos(),
        rto_rule: u64::from(rtt.rule == RtoRule::Linux),
        count: 0,
        extent: 0,
    }
}

#[inline]
fn acked(packet: &AckedPacket) -> abi::Packet {
    let [stamp0, stamp1, stamp2, stamp3] = packet.stamp.local;
    abi::Packet {
        number: packet.number,
        bytes: packet.bytes,
        sent_at: packet.sent_at.as_nanos(),
        rtt: packet.rtt.as_nanos(),
        received_at: packet.received_at.map_or(abi::NONE, Time::as_nanos),
        flags: u64::from(packet.app_limited) | u64::from(packet.ecn.bits()) << 8,
        stamp0,
        stamp1,
        stamp2,
        stamp3,
    }
}

#[inline]
fn lost(packet: &LostPacket) -> abi::Packet {
    let [stamp0, stamp1, stamp2, stamp3] = packet.stamp.local;
    abi::Packet {
        number: packet.number,
        bytes: packet.bytes,
        sent_at: packet.sent_at.as_nanos(),
        rtt: 0,
        received_at: abi::NONE,
        flags: 0,
        stamp0,
        stamp1,
        stamp2,
        stamp3,
    }
}
