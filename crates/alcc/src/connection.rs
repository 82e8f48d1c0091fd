//! One end of a connection that carries acks inside its stream.

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Controller, ControllerSpec, PeerHalf, Receiver, Setup};
use cellpace_recovery::AckPolicy;

use crate::error::AlccError;
use crate::frame::{FrameDecoder, FramePiece};
use crate::hello::{self, AlccHello, HelloError, HelloScan, Refusal, VERSION};
use crate::queue::BoundedQueue;
use crate::receiving::ReceivingHalf;
use crate::sending::{SegmentSizes, SendingHalf};

/// How an end of a connection behaves.
#[derive(Debug, Clone)]
pub struct AlccConfig {
    /// The controller of what this end sends.
    pub cc: ControllerSpec,
    /// Seed of the connection's own random source.
    pub seed: u64,
    /// TCP payload of a full packet in bytes, frame header included: TCP's own MSS, or packets do
    /// not match segments. 64 to 65535.
    pub segment: u16,
    /// What each packet counts for beside that: headers of IP and TCP. The controller's MSS is the
    /// sum of both.
    pub overhead: u16,
    /// Bytes from the application that wait to be sent at most: all of it is latency.
    pub outgoing: usize,
    /// Bytes from the other end that wait to be read at most, and so the most that can be under
    /// way: at least the path's bandwidth times its RTT. At least 4096.
    pub incoming: usize,
    /// How what comes is acknowledged. [`AckPolicy::EveryPacket`]: once per
    /// [`handle_input`](AlccConnection::handle_input) that completed packets. [`AckPolicy::Delayed`]: also
    /// not before two packets came or that time passed since the last ack, for ways back that are
    /// narrow. Some controllers become much worse by it: an ack that covers two packets is one event
    /// for them.
    pub ack: AckPolicy,
    /// How long a connecting end waits for the answer to its hello; `None`: for ever.
    pub answer_within: Option<Span>,
    /// How long packets may be in flight without a single ack until the other end is given up;
    /// `None`: for ever, as TCP's own timers end a dead connection anyway.
    pub ack_within: Option<Span>,
    /// Which controllers of the other end get their half here. The text comes from the network,
    /// and some parameters make a half large.
    pub halves: fn(&PeerHalf) -> bool,
}

impl AlccConfig {
    /// TCP payload of a full packet: what an MTU of 1500 leaves beside IPv4 and TCP with time
    /// stamps.
    pub const SEGMENT: u16 = 1448;

    /// The defaults for a controller.
    pub fn new(cc: ControllerSpec, seed: u64) -> Self {
        Self {
            cc,
            seed,
            segment: Self::SEGMENT,
            overhead: 1500 - Self::SEGMENT,
            outgoing: 256 << 10,
            incoming: 4 << 20,
            ack: AckPolicy::EveryPacket,
            answer_within: Some(Span::from_secs(10)),
            ack_within: None,
            halves: |_| true,
        }
    }
}

/// Which end of the connection this is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AlccRole {
    /// The one that connected: it says hello, and the other end must answer.
    Connect,
    /// The one that was connected to: if no hello comes, the connection is plain.
    Listen {
        /// For how long the silence of the other end may mean that it will say hello; `None`: for
        /// ever. Where the application itself speaks first, this delays its first word to plain
        /// clients.
        wait: Option<Span>,
    },
}

/// Figures of a connection. SegmentSizes in flight and windows count headers, all others do not.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct AlccStats {
    /// Packets that left.
    pub sent_packets: u64,
    /// Bytes of the stream that left.
    pub sent_bytes: u64,
    /// Bytes of the stream that the other end acknowledged.
    pub acked_bytes: u64,
    /// Bytes of the application that have not left.
    pub queued_bytes: u64,
    /// Packets that came.
    pub received_packets: u64,
    /// Bytes of the stream that came.
    pub received_bytes: u64,
    /// Bytes that have not been read.
    pub unread_bytes: u64,
    /// Acks that left.
    pub sent_acks: u64,
    /// Acks that came.
    pub received_acks: u64,
    /// Reports of the half here that left.
    pub sent_reports: u64,
    /// Reports of the controller's half at the other end that came.
    pub received_reports: u64,
    /// How often TCP refused data.
    pub blocks: u64,
    /// Bytes in flight.
    pub in_flight: u64,
    /// The controller's window; `u64::MAX` where it has none, 0 before the hello.
    pub cwnd: u64,
    /// Smoothed RTT, from the first byte given to TCP to the ack.
    pub srtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
}

/// One end of a connection that is cut into frames if the other end does so, too.
pub struct AlccConnection {
    config: AlccConfig,
    role: AlccRole,
    stage: Stage,
    /// From the application.
    queue: BoundedQueue,
    /// To the application.
    inbox: BoundedQueue,
    /// The application sends nothing more.
    finished: bool,
    /// The stream beneath has no more bytes.
    closed: bool,
    /// What was made and did not fit the room for it: part of one frame, or a hello.
    rest: Vec<u8>,
    failed: Option<AlccError>,
}

enum Stage {
    /// It is open what the other end is: these are its first bytes, and when to wait no longer.
    Greeting(Vec<u8>, Option<Time>),
    Agreed(Box<Active>),
    Plain,
}

struct Active {
    decoder: FrameDecoder,
    incoming: ReceivingHalf,
    outgoing: SendingHalf,
}

/// The least inbox: less makes windows in which no full packet fits.
const MIN_INCOMING: usize = 4096;

const MIN_SEGMENT: u16 = 64;

impl AlccConnection {
    /// An end of a new connection.
    ///
    /// # Errors
    /// When the controller's text is too long for a hello.
    pub fn new(now: Time, role: AlccRole, config: &AlccConfig) -> Result<Self, AlccError> {
        let mut config = config.clone();
        config.segment = config.segment.max(MIN_SEGMENT);
        config.incoming = config.incoming.max(MIN_INCOMING);
        let text = half_text(&config.cc);
        if text.len() > hello::MAX_TEXT_BYTES {
            return Err(AlccError::TextTooLong(text.len()));
        }
        let patience = match role {
            AlccRole::Connect => config.answer_within,
            AlccRole::Listen { wait } => wait,
        };
        let mut connection = Self {
            role,
            stage: Stage::Greeting(Vec::new(), patience.map(|patience| now + patience)),
            queue: BoundedQueue::new(config.outgoing),
            inbox: BoundedQueue::new(config.incoming),
            finished: false,
            closed: false,
            rest: Vec::new(),
            failed: None,
            config,
        };
        if role == AlccRole::Connect {
            connection.say_hello(None);
        }
        Ok(connection)
    }

    /// Bytes came from the connection. Returns how many were taken: all, but in a plain connection
    /// whose inbox is full. The others have to be passed again.
    ///
    /// # Errors
    /// When the connection cannot go on. It stays so.
    pub fn handle_input(&mut self, now: Time, bytes: &[u8]) -> Result<usize, AlccError> {
        self.check()?;
        let mut input = bytes;
        let done = self.take_input(now, &mut input);
        self.keep(done)?;
        Ok(bytes.len() - input.len())
    }

    /// The connection has no more bytes: the other end closed its side.
    ///
    /// # Errors
    /// When the other end has not finished its stream, or still owes acks.
    pub fn handle_eof(&mut self) -> Result<(), AlccError> {
        self.check()?;
        self.closed = true;
        let whole = match (&self.stage, self.role) {
            (Stage::Greeting(first, _), AlccRole::Listen { .. }) => {
                let nothing_or_little = first.len() < hello::MAGIC.len();
                if nothing_or_little {
                    self.become_plain();
                }
                nothing_or_little
            }
            (Stage::Greeting(..), AlccRole::Connect) => false,
            (Stage::Plain, _) => true,
            (Stage::Agreed(active), _) => {
                let (incoming, outgoing) = (&active.incoming, &active.outgoing);
                incoming.is_ended() && outgoing.is_acked() && active.decoder.is_between_frames()
            }
        };
        self.keep(if whole { Ok(()) } else { Err(AlccError::Truncated) })
    }

    /// What the other end's application sent, in two parts. Also after an error.
    pub fn readable(&self) -> (&[u8], &[u8]) {
        self.inbox.as_slices()
    }

    /// `count` of the readable bytes have been read.
    pub fn consume(&mut self, count: usize) {
        let count = self.inbox.consume(count);
        if let Stage::Agreed(active) = &mut self.stage {
            active.incoming.on_consumed(count, &self.inbox);
        }
    }

    /// Whether the other end's application sends nothing more and everything has been read.
    pub fn is_read(&self) -> bool {
        let ended = match &self.stage {
            Stage::Agreed(active) => active.incoming.is_ended(),
            Stage::Plain => self.closed,
            Stage::Greeting(..) => false,
        };
        ended && self.inbox.is_empty()
    }

    /// Takes as many of the application's bytes as there is room for, and says how many.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        if self.finished || self.failed.is_some() {
            return 0;
        }
        self.queue.push(bytes)
    }

    /// Bytes that [`write`](Self::write) takes now.
    pub fn room(&self) -> usize {
        if self.finished || self.failed.is_some() { 0 } else { self.queue.room() }
    }

    /// The application sends nothing more.
    pub fn finish(&mut self) {
        self.finished = true;
        if let Stage::Agreed(active) = &mut self.stage {
            active.outgoing.finish();
        }
    }

    /// Appends at most `room` bytes for the connection to `out`, and says how many. They count as
    /// sent: the owner keeps what TCP does not take, and offers it again before it asks for more.
    /// `room` is what TCP will probably take, for what it does not take lies in a queue that the
    /// controller believes to be the path's.
    pub fn poll_output(&mut self, now: Time, out: &mut Vec<u8>, room: usize) -> usize {
        let start = out.len();
        let end = start.saturating_add(room);
        let count = self.rest.len().min(room);
        out.extend(self.rest.drain(..count));
        while out.len() < end && self.poll_frame(now, out, end) {
            if out.len() > end {
                self.rest.extend(out.drain(end..));
            }
        }
        out.len() - start
    }

    /// TCP refused data that [`poll_output`](Self::poll_output) gave.
    pub fn on_block(&mut self, now: Time) {
        if let Stage::Agreed(active) = &mut self.stage {
            active.outgoing.on_block(now);
        }
    }

    /// Whether nothing will come out any more, so that the owner may end its side of the
    /// connection. With frames that is not when the application has finished: the other
    /// direction still needs its acks.
    pub fn is_drained(&self) -> bool {
        if !self.rest.is_empty() {
            return false;
        }
        match &self.stage {
            _ if self.failed.is_some() => true,
            Stage::Greeting(..) => false,
            Stage::Plain => self.finished && self.queue.is_empty(),
            Stage::Agreed(active) => {
                let (incoming, outgoing) = (&active.incoming, &active.outgoing);
                outgoing.is_sent() && incoming.is_ended() && incoming.is_acked()
            }
        }
    }

    /// Whether the other end has acknowledged everything, the end of the stream included. In a plain
    /// connection nobody here knows.
    pub fn is_delivered(&self) -> bool {
        matches!(&self.stage, Stage::Agreed(active) if active.outgoing.is_acked())
    }

    /// When [`on_timer`](Self::on_timer) wants to be called, if ever. After it,
    /// [`poll_output`](Self::poll_output) may have something.
    pub fn next_deadline(&self) -> Option<Time> {
        if self.failed.is_some() {
            return None;
        }
        match &self.stage {
            Stage::Greeting(_, until) => *until,
            Stage::Plain => None,
            Stage::Agreed(active) => {
                let outgoing = active.outgoing.next_deadline(&self.queue, self.config.ack_within);
                let incoming = active.incoming.next_deadline();
                [outgoing, incoming].into_iter().flatten().min()
            }
        }
    }

    /// A deadline may have passed.
    ///
    /// # Errors
    /// When the other end was silent for too long.
    pub fn on_timer(&mut self, now: Time) -> Result<(), AlccError> {
        self.check()?;
        let done = match &mut self.stage {
            Stage::Greeting(first, Some(until)) if *until <= now => match self.role {
                // It was all of the magic: nobody else says that.
                AlccRole::Listen { .. } if first.len() < hello::MAGIC.len() => {
                    self.become_plain();
                    Ok(())
                }
                AlccRole::Listen { .. } | AlccRole::Connect => Err(AlccError::NoAnswer),
            },
            Stage::Agreed(active) => {
                active.incoming.on_timer(now);
                active.outgoing.on_timer(now, self.config.ack_within)
            }
            Stage::Greeting(..) | Stage::Plain => Ok(()),
        };
        self.keep(done)
    }

    /// Whether both ends are known to speak the protocol.
    pub fn is_agreed(&self) -> bool {
        matches!(self.stage, Stage::Agreed(_))
    }

    /// Whether the other end is known not to speak the protocol: bytes pass unchanged, and no controller holds
    /// them back but the owner, by what room it gives to [`poll_output`](Self::poll_output).
    pub fn is_plain(&self) -> bool {
        matches!(self.stage, Stage::Plain)
    }

    /// Why the connection cannot go on.
    pub fn error(&self) -> Option<AlccError> {
        self.failed
    }

    /// The controller of what this end sends; none before both ends have agreed, and in a plain
    /// connection.
    pub fn controller_mut(&mut self) -> Option<&mut dyn Controller> {
        match &mut self.stage {
            Stage::Agreed(active) => Some(active.outgoing.controller_mut()),
            Stage::Greeting(..) | Stage::Plain => None,
        }
    }

    /// Why this end has no controller any more: it was a module that failed.
    pub fn controller_failure(&self) -> Option<&str> {
        match &self.stage {
            Stage::Agreed(active) => active.outgoing.failure(),
            Stage::Greeting(..) | Stage::Plain => None,
        }
    }

    /// The figures.
    pub fn stats(&self) -> AlccStats {
        let stats = AlccStats {
            queued_bytes: self.queue.len() as u64,
            unread_bytes: self.inbox.len() as u64,
            ..AlccStats::default()
        };
        let Stage::Agreed(active) = &self.stage else { return stats };
        let (outgoing, incoming) = (&active.outgoing, &active.incoming);
        let (sent, received) = (outgoing.counts(), incoming.counts());
        let rtt = outgoing.sent().rtt();
        AlccStats {
            sent_packets: sent.packets,
            sent_bytes: sent.bytes,
            acked_bytes: sent.acked_bytes,
            received_packets: received.packets,
            received_bytes: received.bytes,
            sent_acks: received.acks,
            received_acks: sent.acks,
            sent_reports: received.reports,
            received_reports: sent.reports,
            blocks: sent.blocks,
            in_flight: outgoing.sent().in_flight(),
            cwnd: outgoing.controller().cwnd(),
            srtt: rtt.smoothed(),
            min_rtt: rtt.minimum(),
            ..stats
        }
    }

    /// Gives back the memory of empty queues, for connections that rest.
    pub fn shrink(&mut self) {
        self.queue.shrink();
        self.inbox.shrink();
        self.rest.shrink_to_fit();
    }

    /// Bytes of memory, about, without the controller and its half.
    pub fn memory(&self) -> usize {
        let stage = match &self.stage {
            Stage::Greeting(first, _) => first.capacity(),
            Stage::Agreed(active) => size_of::<Active>() + active.outgoing.memory(),
            Stage::Plain => 0,
        };
        self.queue.memory() + self.inbox.memory() + self.rest.capacity() + stage
    }

    fn check(&self) -> Result<(), AlccError> {
        self.failed.map_or(Ok(()), Err)
    }

    /// Remembers an error.
    fn keep<T>(&mut self, result: Result<T, AlccError>) -> Result<T, AlccError> {
        if let Err(error) = &result {
            self.failed = Some(*error);
        }
        result
    }

    fn take_input(&mut self, now: Time, input: &mut &[u8]) -> Result<(), AlccError> {
        if matches!(self.stage, Stage::Greeting(..)) {
            self.take_greeting(now, input)?;
        }
        match &mut self.stage {
            Stage::Greeting(..) => Ok(()),
            Stage::Plain => {
                let count = self.inbox.push(input);
                *input = &input[count..];
                Ok(())
            }
            Stage::Agreed(active) => active.take_input(now, input, &mut self.inbox),
        }
    }

    /// Takes as much as belongs to the hello, or finds that there is none.
    fn take_greeting(&mut self, now: Time, input: &mut &[u8]) -> Result<(), AlccError> {
        loop {
            let Stage::Greeting(first, until) = &mut self.stage else { return Ok(()) };
            match hello::scan(first)? {
                HelloScan::Other => return self.meet_another(),
                HelloScan::Whole(_) => break,
                HelloScan::More { .. } => {}
            }
            let Some((byte, rest)) = input.split_first() else { return Ok(()) };
            first.push(*byte);
            *input = rest;
            if let AlccRole::Listen { wait } = self.role {
                // Somebody who has begun may go on as slowly as somebody may begin.
                *until = wait.map(|wait| now + wait);
            }
        }
        let Stage::Greeting(first, _) = &mut self.stage else { return Ok(()) };
        let first = std::mem::take(first);
        self.meet(now, &hello::decode(&first)?)
    }

    /// The other end does not speak the protocol.
    fn meet_another(&mut self) -> Result<(), AlccError> {
        if self.role == AlccRole::Connect {
            // It has already got a hello.
            return Err(AlccError::PlainPeer);
        }
        self.become_plain();
        Ok(())
    }

    fn become_plain(&mut self) {
        let stage = std::mem::replace(&mut self.stage, Stage::Plain);
        if let Stage::Greeting(first, _) = stage {
            // At most the magic, which the smallest inbox holds.
            self.inbox.push(&first);
        }
    }

    /// The other end says hello, or answers.
    fn meet(&mut self, now: Time, hello: &AlccHello<'_>) -> Result<(), AlccError> {
        if hello.answer != (self.role == AlccRole::Connect) {
            return Err(HelloError::Role.into());
        }
        if let Some(refusal) = hello.refusal {
            return Err(AlccError::Refused(refusal));
        }
        let half = self.agree(now, hello);
        if self.role != AlccRole::Connect {
            self.say_hello(half.as_ref().err().copied());
        }
        let half = half.map_err(AlccError::Refusing)?;
        let setup = self.setup(now);
        let sizes = SegmentSizes {
            segment: usize::from(self.config.segment),
            overhead: u64::from(self.config.overhead),
        };
        let stamped = !half_text(&self.config.cc).is_empty();
        let controller = self.config.cc.build(setup);
        let mut outgoing = SendingHalf::new(now, controller, sizes, stamped, hello.window);
        if self.finished {
            outgoing.finish();
        }
        let window = self.inbox.limit() as u64;
        let overhead = u64::from(hello.overhead);
        self.stage = Stage::Agreed(Box::new(Active {
            decoder: FrameDecoder::new(!hello.half.is_empty()),
            incoming: ReceivingHalf::new(self.config.ack, half, overhead, window),
            outgoing,
        }));
        Ok(())
    }

    /// Whether what the other end says can be done, and its controller's half if it has one.
    fn agree(
        &self,
        now: Time,
        hello: &AlccHello<'_>,
    ) -> Result<Option<Box<dyn Receiver>>, Refusal> {
        // A hello names the highest version spoken, an answer the one to speak.
        if hello.version < VERSION || (hello.answer && hello.version > VERSION) {
            return Err(Refusal::Version);
        }
        if hello.half.is_empty() {
            return Ok(None);
        }
        let half = hello.half.parse::<PeerHalf>().ok().filter(self.config.halves);
        let mss = u64::from(hello.segment) + u64::from(hello.overhead);
        let setup = Setup { mss: mss.max(1), ..self.setup(now) };
        let half = half.and_then(|half| half.build(setup));
        half.map(Some).ok_or(Refusal::Controller)
    }

    fn setup(&self, now: Time) -> Setup {
        let mss = u64::from(self.config.segment) + u64::from(self.config.overhead);
        Setup { mss, start: now, random: Random::seeded(self.config.seed, 0) }
    }

    fn say_hello(&mut self, refusal: Option<Refusal>) {
        let hello = AlccHello {
            version: VERSION,
            answer: self.role != AlccRole::Connect,
            refusal,
            segment: self.config.segment,
            overhead: self.config.overhead,
            window: self.inbox.limit() as u64,
            half: &half_text(&self.config.cc),
        };
        hello::write(&mut self.rest, &hello);
    }

    /// Appends the next frame, or in a plain connection what fits. Acks and reports come before
    /// data: they are small, and somebody waits for them.
    fn poll_frame(&mut self, now: Time, out: &mut Vec<u8>, end: usize) -> bool {
        match &mut self.stage {
            _ if self.failed.is_some() => false,
            Stage::Greeting(..) => false,
            Stage::Plain => {
                let count = self.queue.len().min(end - out.len());
                self.queue.move_to(out, count);
                count > 0
            }
            Stage::Agreed(active) => {
                active.incoming.poll_ack(now, &self.inbox, out)
                    || active.incoming.poll_report(now, out)
                    || active.outgoing.poll(now, &mut self.queue, out)
            }
        }
    }
}

/// The text that the other end needs: that of controllers with a half there.
fn half_text(cc: &ControllerSpec) -> String {
    if cc.has_receiver() { cc.to_string() } else { String::new() }
}

impl Active {
    fn take_input(
        &mut self,
        now: Time,
        input: &mut &[u8],
        inbox: &mut BoundedQueue,
    ) -> Result<(), AlccError> {
        while let Some(piece) = self.decoder.next(input)? {
            match piece {
                FramePiece::Data(data) => self.incoming.on_head(now, data)?,
                FramePiece::Bytes(bytes, left) => {
                    self.incoming.on_bytes(now, bytes, left, inbox)?;
                }
                FramePiece::Ack(ack) => self.outgoing.on_ack(now, &ack)?,
                FramePiece::Report(report) => self.outgoing.on_report(now, report),
            }
        }
        self.incoming.after_read(now);
        Ok(())
    }
}

impl std::fmt::Debug for AlccConnection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let stage = match &self.stage {
            Stage::Greeting(..) => "greeting",
            Stage::Agreed(_) => "agreed",
            Stage::Plain => "plain",
        };
        f.debug_struct("AlccConnection").field("role", &self.role).field("stage", &stage).finish()
    }
}
