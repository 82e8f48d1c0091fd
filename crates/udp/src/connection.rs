//! One flow between two endpoints: handshake, the half that sends or receives, signs of life, end.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};
use cellpace_cc::{ControllerSpec, Ecn, Event as ControllerEvent, Profile};
use cellpace_recovery::{FrameRecord, VideoSpec};
use thiserror::Error;

use crate::incoming::{Incoming, IncomingStats};
use crate::outgoing::{Outgoing, OutgoingStats};
use crate::protection::SenderSide;
use crate::wire::{self, CloseCode, Cookie, Hello, Ids, VERSION, WirePacket};

/// Why a flow failed.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// Nobody answered.
    #[error(
        "no answer within {0}: is `cellpace` waiting there, does a firewall let UDP pass, and is the \
         key the same on both sides, or --plain on both? A side that differs in that does not answer; \
         see `cellpace key`"
    )]
    NoAnswer(Span),
    /// The other side fell silent.
    #[error("nothing received from the other side for {0}")]
    Silent(Span),
    /// The other side has another version.
    #[error(
        "the other side speaks version {0} of the protocol, this program version {VERSION}; \
         use the same cellpace on both sides"
    )]
    Version(u32),
    /// The other side does not want this flow.
    #[error("the other side refused: {0}")]
    Refused(String),
    /// The other side closed the flow before its end.
    #[error("the other side gave up: {0}")]
    Closed(String),
    /// The receiver acknowledged packets that were never sent, to have more sent than it receives.
    #[error("the other side acknowledges packets that were never sent")]
    FalseAcks,
    /// The controller is code from outside, which did not go on.
    #[error("{0}")]
    Controller(String),
    /// The stream that arrived is not the one that was sent.
    #[error("what arrived is not what was sent: the checksums differ")]
    Checksum,
}

/// What happened to a flow.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum FlowEvent {
    /// The handshake is done. In an offer of several flows, how many the other side has.
    Connected(u16),
    /// All of the stream was read at the receiver, and it is what was sent. The receiver ends the
    /// flow with [`UdpFlow::close`], once it has put the stream where it belongs.
    Read,
    /// The flow is over: the receiver has everything, or why not.
    Ended(Result<(), FlowError>),
}

/// Timeouts of a flow.
#[derive(Debug, Clone, Copy)]
pub struct Patience {
    /// A flow that received nothing from the other side for this long is over.
    pub silence: Span,
}

impl Default for Patience {
    fn default() -> Self {
        Self { silence: Span::from_secs(30) }
    }
}

/// The time between two hellos, at first and at most.
const HELLO_AGAIN: [Span; 2] = [Span::from_millis(250), Span::from_secs(1)];

/// The intervals of pings: the first while something is outstanding, the second otherwise. Pings do
/// not count towards the window.
const PING: [Span; 2] = [Span::from_secs(1), Span::from_secs(5)];

/// A close is repeated after the first time, doubled each time up to the second, until it is
/// answered or the other side's silence has lasted too long: whoever has sent a file must learn
/// that it arrived, even if the path is down just then.
const CLOSE_AGAIN: [Span; 2] = [Span::from_millis(100), Span::from_secs(1)];

/// How often a close is repeated after the user interrupted the program, which should end soon.
const MAX_STOPS: u32 = 4;

/// How long a side that has received a close stays: its answer may be lost.
const LEAVE_AFTER: Span = Span::from_millis(300);

/// What an initiator asks for.
#[derive(Debug)]
pub(crate) struct Wish {
    pub(crate) unreliable: bool,
    /// Whether this side receives.
    pub(crate) reverse: bool,
    /// Whether this side receives and delays its acks.
    pub(crate) delayed_acks: bool,
    /// Whether acks should report codepoints: this side receives and can, or sends and wants it.
    pub(crate) ecn: bool,
    /// Largest IP packet.
    pub(crate) mtu: u16,
    /// Bytes of the stream that are taken.
    pub(crate) window: u64,
    /// The text of this side's controller, where it sends; else empty.
    pub(crate) controller: String,
    /// The controller itself: its text alone does not say what is around it.
    pub(crate) spec: Option<ControllerSpec>,
    /// What it sends, where that is a video.
    pub(crate) video: Option<VideoSpec>,
}

/// The half of a flow on this side.
pub(crate) enum FlowHalf {
    /// An initiator that waits for its answer.
    None,
    /// The sending half.
    Out(Box<Outgoing>),
    /// The receiving half.
    In(Box<Incoming>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FlowStage {
    /// The initiator sends hellos.
    Hello {
        cookie: Cookie,
        again_at: Time,
        gap: Span,
    },
    Open,
    /// This side has sent a close.
    Closing {
        again_at: Time,
        tries: u32,
    },
    /// The other side has sent a close, and may not have received the answer.
    Leaving {
        until: Time,
    },
    Over,
}

/// One flow.
pub struct UdpFlow {
    ids: Ids,
    /// What an initiator asks for.
    wish: Option<Wish>,
    state: FlowStage,
    pub(crate) half: FlowHalf,
    patience: Patience,
    /// IP and UDP headers, and what a tag adds.
    overhead: usize,
    /// Room for an acknowledgment.
    room: usize,
    received_at: Time,
    pinged: Time,
    ping_due: bool,
    closed_due: bool,
    close: Option<(CloseCode, String)>,
    reported_read: bool,
    limit: Option<u64>,
    events: VecDeque<FlowEvent>,
}

impl UdpFlow {
    /// Creates the flow of an initiator, which sends a hello.
    pub(crate) fn asking(
        id: u64,
        wish: Wish,
        patience: Patience,
        overhead: usize,
        now: Time,
    ) -> Self {
        let ids = Ids { to: id, from: 0 };
        let mtu = wish.mtu;
        let state =
            FlowStage::Hello { cookie: Cookie::default(), again_at: now, gap: HELLO_AGAIN[0] };
        Self {
            wish: Some(wish),
            state,
            ..Self::open(ids, mtu, FlowHalf::None, patience, overhead, now)
        }
    }

    /// Creates the flow of a responder whose initiator has confirmed the answer.
    pub(crate) fn confirmed(
        ids: Ids,
        mtu: u16,
        half: FlowHalf,
        patience: Patience,
        overhead: usize,
        now: Time,
    ) -> Self {
        let mut flow = Self::open(ids, mtu, half, patience, overhead, now);
        flow.events.push_back(FlowEvent::Connected(0));
        flow
    }

    fn open(
        ids: Ids,
        mtu: u16,
        half: FlowHalf,
        patience: Patience,
        overhead: usize,
        now: Time,
    ) -> Self {
        Self {
            ids,
            wish: None,
            state: FlowStage::Open,
            half,
            patience,
            overhead,
            room: usize::from(mtu).saturating_sub(overhead),
            received_at: now,
            pinged: now,
            ping_due: false,
            closed_due: false,
            close: None,
            reported_read: false,
            limit: None,
            events: VecDeque::new(),
        }
    }

    /// Returns the next event, oldest first.
    pub fn poll_event(&mut self) -> Option<FlowEvent> {
        self.events.pop_front()
    }

    /// Whether this side sends.
    pub fn is_sender(&self) -> bool {
        matches!(self.half, FlowHalf::Out(_))
    }

    /// Whether nothing more will happen.
    pub fn is_over(&self) -> bool {
        self.state == FlowStage::Over && !self.closed_due
    }

    /// Bytes that [`write`](Self::write) takes now.
    pub fn room(&self) -> usize {
        match &self.half {
            FlowHalf::Out(out) if self.is_open() => out.room(),
            _ => 0,
        }
    }

    /// Gives the sending side bytes of its stream; takes as many as there is room for.
    pub fn write(&mut self, bytes: &[u8]) -> usize {
        match &mut self.half {
            FlowHalf::Out(out) => out.write(bytes),
            _ => 0,
        }
    }

    /// Lets what was written leave although it does not fill a packet.
    pub fn flush(&mut self) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.flush();
        }
    }

    /// Ends the stream here.
    pub fn finish(&mut self) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.finish();
        }
    }

    /// Ends the stream with what has been sent so far. What was written beyond that is dropped.
    pub fn cut(&mut self) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.cut();
        }
    }

    /// Sets the length of an unreliable stream, which needs no writing.
    pub fn limit_to(&mut self, total: u64) {
        self.limit = Some(total);
        if let FlowHalf::Out(out) = &mut self.half {
            out.limit_to(total);
        }
    }

    /// Makes the unreliable stream of a flow that has just been begun a video. Its first frame is
    /// captured once the other side has accepted the flow.
    pub fn send_video(&mut self, video: VideoSpec) {
        if let Some(wish) = &mut self.wish {
            wish.video = Some(video);
        }
    }

    /// The frames of a video that this side sends, and what it is made of. Arrivals are dated by the
    /// receiver's clock; the smallest one-way delay is taken for half of the smallest RTT.
    pub fn video(&self) -> Option<(&VideoSpec, Vec<FrameRecord>)> {
        match &self.half {
            FlowHalf::Out(out) => out.video(),
            _ => None,
        }
    }

    /// Returns the bytes of the stream that come next, in two parts.
    pub fn readable(&self) -> (&[u8], &[u8]) {
        match &self.half {
            FlowHalf::In(incoming) => incoming.readable(),
            _ => (&[], &[]),
        }
    }

    /// Removes the first `count` readable bytes, which were read.
    pub fn consume(&mut self, count: usize) {
        if let FlowHalf::In(incoming) = &mut self.half {
            incoming.consume(count);
        }
        self.judge_end();
    }

    /// Returns the BLAKE3 hash of what was read.
    pub fn hash(&self) -> Option<[u8; 32]> {
        match &self.half {
            FlowHalf::In(incoming) => Some(incoming.hash()),
            _ => None,
        }
    }

    /// Ends the flow and reports the reason to the other side, until that answers.
    pub fn close(&mut self, now: Time, code: CloseCode, reason: &str) {
        match self.state {
            FlowStage::Over | FlowStage::Closing { .. } | FlowStage::Leaving { .. } => {}
            FlowStage::Hello { .. } => self.state = FlowStage::Over,
            FlowStage::Open => {
                self.close = Some((code, reason.to_owned()));
                self.received_at = self.received_at.max(now);
                self.state = FlowStage::Closing { again_at: now, tries: 0 };
                self.drop_unread();
            }
        }
    }

    fn drop_unread(&mut self) {
        if let FlowHalf::In(incoming) = &mut self.half {
            incoming.drop_unread();
        }
    }

    /// Returns the figures of the sending side.
    pub fn outgoing(&self) -> Option<OutgoingStats> {
        match &self.half {
            FlowHalf::Out(out) => Some(out.stats()),
            _ => None,
        }
    }

    /// Returns the figures of the receiving side.
    pub fn incoming(&self) -> Option<IncomingStats> {
        match &self.half {
            FlowHalf::In(incoming) => Some(incoming.stats()),
            _ => None,
        }
    }

    /// Gives each RTT sample since the last call to `take`. Samples that nobody takes for long
    /// are not kept.
    pub fn take_rtts(&mut self, take: impl FnMut(Span)) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.take_rtts(take);
        }
    }

    /// Returns the controller's next event, oldest first.
    pub fn poll_controller_event(&mut self) -> Option<(Time, ControllerEvent)> {
        match &mut self.half {
            FlowHalf::Out(out) => out.controller_mut().poll_event(),
            _ => None,
        }
    }

    /// Shows the controller's internal values of now; a receiver has none.
    pub fn inspect(&mut self, show: &mut dyn FnMut(&'static str, f64)) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.controller_mut().inspect(show);
        }
    }

    /// Returns what the controller has learnt of the path's delay.
    pub fn profile(&mut self) -> Option<Profile> {
        match &mut self.half {
            FlowHalf::Out(out) => out.controller_mut().profile(),
            _ => None,
        }
    }

    /// Returns the bytes of memory that the receiving side holds.
    pub fn memory(&self) -> usize {
        match &self.half {
            FlowHalf::In(incoming) => incoming.memory(),
            _ => 0,
        }
    }

    pub(crate) fn ids(&self) -> Ids {
        self.ids
    }

    /// Which side of the connection this is.
    pub(crate) fn side(&self) -> SenderSide {
        if self.wish.is_some() { SenderSide::Initiator } else { SenderSide::Responder }
    }

    fn is_open(&self) -> bool {
        self.state == FlowStage::Open
    }

    /// Handles a request for a hello with this cookie.
    pub(crate) fn on_retry(&mut self, now: Time, retry: Cookie) {
        let FlowStage::Hello { cookie, again_at, .. } = &mut self.state else { return };
        *cookie = retry;
        *again_at = now;
    }

    /// Handles a refusal by the responder.
    pub(crate) fn on_refusal(&mut self, error: FlowError) {
        if matches!(self.state, FlowStage::Hello { .. }) {
            self.end(Err(error));
        }
    }

    /// Handles the responder's acceptance. `half` is made by the endpoint.
    pub(crate) fn on_accept(&mut self, now: Time, from: u64, flows: u16, half: FlowHalf) {
        self.ids.from = from;
        self.half = half;
        if let Some(total) = self.limit {
            self.limit_to(total);
        }
        self.state = FlowStage::Open;
        self.received_at = now;
        // The responder sends nothing until it receives a packet with its id, so one leaves now.
        self.ping_due = true;
        self.events.push_back(FlowEvent::Connected(flows));
    }

    /// Whether this flow still waits for an acceptance.
    pub(crate) fn is_asking(&self) -> bool {
        matches!(self.state, FlowStage::Hello { .. })
    }

    /// Handles a packet with both ids right, of `bytes` without IP and UDP headers.
    pub(crate) fn on_packet(&mut self, now: Time, packet: &WirePacket<'_>, bytes: usize, ecn: Ecn) {
        self.received_at = self.received_at.max(now);
        let size = ((bytes + self.overhead) as u64, ecn);
        match (packet, &mut self.half) {
            (WirePacket::Close(code, reason), _) => return self.on_close(now, *code, reason),
            (WirePacket::Closed, _) => return self.on_closed(),
            _ if self.state != FlowStage::Open => return self.hurry_close(now),
            (WirePacket::Data(numbered, offset, payload), FlowHalf::In(incoming)) => {
                incoming.on_data(now, *numbered, size, *offset, payload);
            }
            (WirePacket::Fin(numbered, total, hash), FlowHalf::In(incoming)) => {
                incoming.on_fin(now, *numbered, size, *total, *hash);
            }
            (WirePacket::Ping, FlowHalf::In(incoming)) => incoming.on_ping(),
            (WirePacket::Ack(ack), FlowHalf::Out(out)) => {
                out.on_sign_of_life();
                if out.on_ack(now, ack).is_err() {
                    let reason = "it acknowledges packets that were never sent";
                    return self.fail(CloseCode::Stopped, reason, FlowError::FalseAcks);
                }
                self.judge_controller();
            }
            _ => {}
        }
        self.judge_end();
    }

    /// Returns until when arrivals may wait; `None` if they must be handled at once.
    pub(crate) fn rest_until(&self) -> Option<Time> {
        match &self.half {
            FlowHalf::In(incoming) if self.is_open() => Some(incoming.rest_until()),
            _ => None,
        }
    }

    /// Handles that the system takes nothing more for now.
    pub(crate) fn on_blocked(&mut self, now: Time) {
        if let FlowHalf::Out(out) = &mut self.half {
            out.on_blocked(now);
        }
    }

    /// Nothing else bounds what is in flight, so that the flow ends with its controller.
    fn judge_controller(&mut self) {
        let FlowHalf::Out(out) = &self.half else { return };
        if let Some(reason) = out.failure().filter(|_| self.is_open()) {
            self.fail(CloseCode::Stopped, "its controller failed", FlowError::Controller(reason));
        }
    }

    fn judge_end(&mut self) {
        let FlowHalf::In(incoming) = &self.half else { return };
        if self.reported_read || !self.is_open() || !incoming.is_read() {
            return;
        }
        self.reported_read = true;
        if incoming.is_intact() {
            self.events.push_back(FlowEvent::Read);
        } else {
            let reason = "the checksum of what arrived is another";
            self.fail(CloseCode::Checksum, reason, FlowError::Checksum);
        }
    }

    /// Ends the flow because the other side violates the protocol.
    fn fail(&mut self, code: CloseCode, reason: &str, error: FlowError) {
        let received_at = self.received_at;
        self.close(received_at, code, reason);
        self.events.push_back(FlowEvent::Ended(Err(error)));
    }

    /// Sends the close again soon: the other side goes on, so it has not received it.
    fn hurry_close(&mut self, now: Time) {
        if let FlowStage::Closing { again_at, tries } = &mut self.state
            && *tries > 1
        {
            *again_at = (*again_at).min(now + CLOSE_AGAIN[0]);
        }
    }

    fn on_close(&mut self, now: Time, code: CloseCode, reason: &str) {
        self.closed_due = true;
        let done = match (code, &mut self.half) {
            (CloseCode::Done, FlowHalf::Out(out)) => out.on_done(),
            _ => false,
        };
        let result = match code {
            CloseCode::Done if done => Ok(()),
            CloseCode::Done => Err(FlowError::Closed("it ended before everything was sent".into())),
            _ => Err(FlowError::Closed(reason.to_owned())),
        };
        match self.state {
            FlowStage::Over | FlowStage::Leaving { .. } => {}
            FlowStage::Closing { .. } => self.state = FlowStage::Over,
            _ => {
                self.end(result);
                self.state = FlowStage::Leaving { until: now + LEAVE_AFTER };
            }
        }
    }

    fn on_closed(&mut self) {
        if matches!(self.state, FlowStage::Closing { .. }) {
            self.state = FlowStage::Over;
        }
    }

    fn end(&mut self, result: Result<(), FlowError>) {
        self.state = FlowStage::Over;
        self.drop_unread();
        self.events.push_back(FlowEvent::Ended(result));
    }

    /// Returns when something is due.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        match self.state {
            FlowStage::Hello { again_at, .. } => Some(again_at.min(self.silent_at())),
            FlowStage::Open => {
                let half = match &self.half {
                    FlowHalf::None => None,
                    FlowHalf::Out(out) => out.next_deadline(),
                    FlowHalf::In(incoming) => incoming.next_deadline(),
                };
                let own = self.silent_at().min(self.ping_at().unwrap_or(Time::MAX));
                Some(half.map_or(own, |half| half.min(own)))
            }
            FlowStage::Closing { again_at, .. } => Some(again_at.min(self.silent_at())),
            FlowStage::Leaving { until } => Some(until),
            FlowStage::Over => None,
        }
    }

    fn silent_at(&self) -> Time {
        self.received_at + self.patience.silence
    }

    /// Returns when to send a ping. Only the sender does: the receiver does not know whether data
    /// is outstanding.
    fn ping_at(&self) -> Option<Time> {
        let FlowHalf::Out(out) = &self.half else { return None };
        let gap = if out.is_waiting() { PING[0] } else { PING[1] };
        Some(self.received_at.max(self.pinged) + gap)
    }

    /// Does what is due.
    pub(crate) fn on_timer(&mut self, now: Time) {
        if matches!(self.state, FlowStage::Hello { .. } | FlowStage::Open)
            && now >= self.silent_at()
        {
            return self.give_up();
        }
        match self.state {
            FlowStage::Leaving { until } if until <= now => self.state = FlowStage::Over,
            FlowStage::Closing { again_at, tries } => {
                let stopped = matches!(self.close, Some((CloseCode::Stopped, _)));
                if now >= self.silent_at() || (stopped && tries >= MAX_STOPS && again_at <= now) {
                    self.state = FlowStage::Over;
                }
            }
            _ => {}
        }
        if self.state != FlowStage::Open {
            return;
        }
        if self.ping_at().is_some_and(|at| at <= now) {
            self.ping_due = true;
        }
        match &mut self.half {
            FlowHalf::None => {}
            FlowHalf::Out(out) => out.on_timer(now),
            FlowHalf::In(incoming) => incoming.on_timer(now),
        }
        self.judge_controller();
    }

    fn give_up(&mut self) {
        match self.state {
            FlowStage::Hello { .. } => self.end(Err(FlowError::NoAnswer(self.patience.silence))),
            _ => self.end(Err(FlowError::Silent(self.patience.silence))),
        }
    }

    /// Writes the datagram that may leave now, if there is one. Returns its length and codepoint:
    /// only what the controller has let leave carries one.
    pub(crate) fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<(usize, Ecn)> {
        // On the way out a packet's `to` is the other side.
        let ids = Ids { to: self.ids.from, from: self.ids.to };
        if std::mem::take(&mut self.closed_due) {
            return Some((wire::write_closed(out, ids), Ecn::NotEct));
        }
        if matches!(self.state, FlowStage::Closing { tries: 0, .. })
            && let FlowHalf::In(incoming) = &mut self.half
            && let Some(bytes) = incoming.poll_ack(now, ids, self.room, out)
        {
            // The last arrivals are acknowledged before the close.
            return Some((bytes, Ecn::NotEct));
        }
        match self.state {
            FlowStage::Hello { again_at, .. } if again_at <= now => {
                Some((self.send_hello(now, out), Ecn::NotEct))
            }
            FlowStage::Closing { again_at, tries } if again_at <= now => {
                let gap = CLOSE_AGAIN[0] * (1 << tries.min(10));
                let again_at = now + gap.min(CLOSE_AGAIN[1]);
                self.state = FlowStage::Closing { again_at, tries: tries + 1 };
                let (code, reason) = self.close.as_ref()?;
                Some((wire::write_close(out, ids, *code, reason), Ecn::NotEct))
            }
            FlowStage::Open => self.poll_half(now, ids, out),
            _ => None,
        }
    }

    fn poll_half(&mut self, now: Time, ids: Ids, out: &mut Vec<u8>) -> Option<(usize, Ecn)> {
        if std::mem::take(&mut self.ping_due) {
            self.pinged = now;
            return Some((wire::write_ping(out, ids), Ecn::NotEct));
        }
        match &mut self.half {
            FlowHalf::None => None,
            FlowHalf::Out(outgoing) => outgoing.poll(now, ids, out),
            FlowHalf::In(incoming) => {
                Some((incoming.poll_ack(now, ids, self.room, out)?, Ecn::NotEct))
            }
        }
    }

    fn send_hello(&mut self, now: Time, out: &mut Vec<u8>) -> usize {
        let FlowStage::Hello { cookie, again_at, gap } = &mut self.state else { return 0 };
        *again_at = now + *gap;
        *gap = (*gap * 2).min(HELLO_AGAIN[1]);
        let mut hello = Hello { cookie: *cookie, ..Hello::default() };
        if let Some(wish) = &self.wish {
            hello = Hello {
                unreliable: wish.unreliable,
                reverse: wish.reverse,
                delayed_acks: wish.delayed_acks,
                ecn: wish.ecn,
                mtu: wish.mtu,
                window: wish.window,
                controller: &wish.controller,
                ..hello
            };
        }
        wire::write_hello(out, Ids { to: 0, from: self.ids.to }, &hello)
    }

    /// Returns what this side asked for, if it is the initiator.
    pub(crate) fn wish(&self) -> Option<&Wish> {
        self.wish.as_ref()
    }
}
