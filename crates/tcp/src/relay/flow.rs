//! One flow: bytes between the application's socket and TCP.

use std::io;
use std::net::{IpAddr, Shutdown};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellpace_base::{Span, Time};
use cellpace_cc::{ControllerSpec, Setup};
use cellpace_recovery::{SharedWindows, WindowMember};
use rustix::io::Errno;
use rustix::net::{RecvFlags, recv, send};

use crate::TcpError;
use crate::flow::{FlowOutcome, SharedFlow};
use crate::options::{FlowDriver, FlowOptions, RelayOptions};
use crate::relay::alcc_half::AlccHalf;
use crate::relay::congestion_control;
use crate::relay::gate_half::GateHalf;
use crate::relay::half::Half;
use crate::relay::local_socket::{LocalSocket, Readiness, SocketEvents};
use crate::socket::{self, TcpInfo};
use cellpace_alcc::AlccError;

/// How often the figures that others see are renewed.
const PUBLISH: Span = Span::from_millis(5);

/// Bytes that one flow moves in a direction before others have their turn.
const TURN: usize = 1 << 20;

/// How long a client/server connection stays for what the peer still owes after the application has
/// closed and everything is delivered: the kernel's own patience in that state.
const LINGER: Span = Span::from_secs(60);

/// How long the peer of a connection that failed has to read why: closing at once could overtake
/// the last words by a reset.
const LAST_WORDS: Span = Span::from_secs(1);

/// Controllers that flows of the same process (a child of `fork` begins anew) to the same address
/// under the same controller string share.
pub(crate) type WindowsByPeer = SharedWindows<(u32, IpAddr, String)>;

/// What a flow wants of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NextTurn {
    /// To be called when something happens, or at this time.
    Wait(Option<Time>),
    /// To be called again soon: there is more to do, but others have their turn first.
    Again,
    /// It is over.
    Over(FlowOutcome),
}

/// A flow.
pub(crate) struct RelayFlow {
    tcp: Arc<OwnedFd>,
    tcp_ready: Readiness,
    local: LocalSocket,
    half: Half,
    stamps_wait: bool,
    /// The connection is to be reset when the process ends.
    is_armed: bool,
    /// The lower half knows that the application sends no more.
    passed_finish: bool,
    /// The peer sends no more.
    tcp_ended: bool,
    /// The end of what we send was passed on.
    finished: bool,
    /// The end of the peer's stream was passed on.
    passed_end: bool,
    /// Since when a client/server connection is only kept for the peer's sake.
    lingers_since: Option<Time>,
    failed: Option<FailedConnection>,
    unsent_allowed: u64,
    published_at: Time,
    shared: Arc<SharedFlow>,
    options: FlowOptions,
}

/// A client/server connection that cannot continue, while its application still reads what came before.
struct FailedConnection {
    outcome: FlowOutcome,
    /// For how long TCP is kept open.
    until: Time,
    tcp_over: bool,
}

impl From<Errno> for FlowOutcome {
    fn from(error: Errno) -> Self {
        Self::Failed(error.raw_os_error())
    }
}

impl From<AlccError> for FlowOutcome {
    fn from(error: AlccError) -> Self {
        Self::Alcc(error)
    }
}

impl RelayFlow {
    /// Takes over a connected TCP socket.
    pub(crate) fn new(
        tcp: Arc<OwnedFd>,
        local: OwnedFd,
        options: &FlowOptions,
        windows: &WindowsByPeer,
        shared: Arc<SharedFlow>,
        now: Time,
    ) -> Result<Self, TcpError> {
        let peer = socket2::SockRef::from(&tcp).peer_addr().map_err(TcpError::NotTcp)?;
        let half = match &options.driver {
            FlowDriver::Gate(gate) => {
                prepare(tcp.as_fd(), local.as_fd(), &gate.relay)?;
                let peer = peer.as_socket().map(|peer| peer.ip().to_canonical());
                let join = |setup: Setup| {
                    let key = (std::process::id(), peer?, options.cc.to_string());
                    let build = || options.cc.build(setup.clone());
                    Some(windows.join(key, gate.share?.weight, setup.mss, build))
                };
                let half = GateHalf::new(tcp.as_fd(), options, &gate.relay, join, now)?;
                Half::Gate(Box::new(half))
            }
            FlowDriver::ClientServer(both) => {
                prepare(tcp.as_fd(), local.as_fd(), &both.relay)?;
                Half::Alcc(Box::new(AlccHalf::new(tcp.as_fd(), options, both, now)?))
            }
        };
        Ok(Self {
            tcp,
            tcp_ready: Readiness::UNKNOWN,
            local: LocalSocket::new(local),
            half,
            stamps_wait: false,
            is_armed: false,
            passed_finish: false,
            tcp_ended: false,
            finished: false,
            passed_end: false,
            lingers_since: None,
            failed: None,
            unsent_allowed: 0,
            published_at: Time::ZERO,
            shared,
            options: options.clone(),
        })
    }

    /// The TCP socket.
    pub(crate) fn tcp(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }

    /// The application's socket, this end.
    pub(crate) fn local(&self) -> BorrowedFd<'_> {
        self.local.socket()
    }

    /// The flow's part of a group, if it is in one.
    pub(crate) fn member(&self) -> Option<&WindowMember> {
        match &self.half {
            Half::Gate(gate) => gate.member(),
            Half::Alcc(_) => None,
        }
    }

    /// The kernel reports something of the TCP socket.
    pub(crate) fn on_tcp(&mut self, report: SocketEvents) {
        // A stamp is reported as an error, and a connection that broke as readable, too.
        self.tcp_ready.on_report(SocketEvents { error: false, ..report });
        self.stamps_wait |= report.error;
    }

    /// Whether the TCP socket need not be watched until the time that the last turn named. What
    /// it would have reported is taken for reported then.
    pub(crate) fn naps(&self, now: Time) -> bool {
        // The end of one's stream or of the other's is passed on at once.
        let flows = self.tcp_ready.writable && !self.finished && !self.tcp_ended;
        flows && self.failed.is_none() && self.half.naps(now)
    }

    /// The TCP socket was not watched: anything may have happened.
    pub(crate) fn on_nap(&mut self) {
        self.tcp_ready.readable = true;
        self.stamps_wait = true;
    }

    /// The kernel reports something of the application's socket.
    pub(crate) fn on_local(&mut self, report: SocketEvents) {
        self.local.on_report(report);
    }

    /// Does all that can be done now. `scratch` is a large buffer whose content does not matter.
    pub(crate) fn turn(&mut self, clock: &impl Fn() -> Time, scratch: &mut [u8]) -> NextTurn {
        let now = clock();
        if self.shared.is_aborted() {
            self.publish(now);
            socket::reset(self.tcp.as_fd());
            return NextTurn::Over(FlowOutcome::Failed(libc::ECONNABORTED));
        }
        if self.failed.is_some() {
            return self.turn_failed(now, scratch);
        }
        match self.try_turn(now, clock, scratch) {
            Ok(more) => self.next(now, more),
            Err(outcome) => self.fail(now, outcome, scratch),
        }
    }

    fn try_turn(
        &mut self,
        now: Time,
        clock: &impl Fn() -> Time,
        scratch: &mut [u8],
    ) -> Result<bool, FlowOutcome> {
        let stamps = std::mem::take(&mut self.stamps_wait);
        self.half.learn(now, self.tcp.as_fd(), stamps);
        self.half.on_timer(now)?;
        self.go_on_plain(now)?;
        // What comes may open the window, and be answered by an ack.
        let more_in = self.backward(clock, scratch)?;
        let more_out = self.forward(clock, scratch)?;
        self.pass_on_ends()?;
        if self.half.is_starved() {
            // The rest of either stream is lost, and both ends must see that it is.
            socket::reset(self.tcp.as_fd());
            return Err(Errno::NOMEM.into());
        }
        if self.tcp_ended && self.half.is_cut_off() && !self.half.holds_input() {
            // A reset behind the peer's end: reading showed the end, and nothing is left to be sent
            // that would fail.
            return Err(Errno::CONNRESET.into());
        }
        self.choose_linger(now);
        if now.since(self.published_at) >= PUBLISH {
            self.publish(now);
        }
        Ok(more_out || more_in)
    }

    /// A flow that is killed while it holds bytes is to be reset. Once it has held some, that holds
    /// until all is acknowledged: a stream that goes on is not at its end whenever the queue is
    /// empty for a moment, and the option is not set for every write.
    fn choose_linger(&mut self, now: Time) {
        let sends =
            !self.finished && (self.half.holds_output() || self.is_armed && !self.half.is_idle());
        let is_armed = sends || self.half.holds_input();
        if is_armed {
            self.shared.linger.arm(self.tcp.as_fd(), now);
        } else if self.is_armed {
            self.shared.linger.disarm(self.tcp.as_fd());
        }
        self.is_armed = is_armed;
    }

    fn next(&mut self, now: Time, more: bool) -> NextTurn {
        if self.is_over(now) {
            self.shared.linger.disarm(self.tcp.as_fd());
            self.publish(now);
            return NextTurn::Over(FlowOutcome::Finished);
        }
        if more {
            return NextTurn::Again;
        }
        if self.half.is_idle() {
            self.half.rest();
            self.publish(now);
        }
        let linger = self.lingers_since.map(|since| since + LINGER);
        NextTurn::Wait([self.half_deadline(now), linger].into_iter().flatten().min())
    }

    fn half_deadline(&self, now: Time) -> Option<Time> {
        // A client/server stream sends nothing more, while a gate still learns of acks.
        let silent = self.finished && matches!(self.half, Half::Alcc(_));
        if silent { None } else { self.half.next_deadline(now, self.tcp_ready.writable) }
    }

    fn is_over(&mut self, now: Time) -> bool {
        if !self.half.is_delivered() {
            return false;
        }
        let in_over = self.local.is_gone() || self.passed_end;
        match self.half {
            Half::Gate(_) => self.finished && in_over,
            Half::Alcc(_) => {
                in_over && (self.finished || self.local.is_gone()) && self.lingered(now)
            }
        }
    }

    /// The application's part is over; the peer may still owe its end, or read our acks.
    fn lingered(&mut self, now: Time) -> bool {
        if self.lingers_since.is_none() {
            self.lingers_since = Some(now);
            self.publish(now);
            self.shared.end(FlowOutcome::Finished);
        }
        let unwanted = !self.finished && self.local.dropped() > 0;
        let late = self.lingers_since.is_some_and(|since| since + LINGER <= now);
        self.tcp_ended || unwanted || late
    }

    /// From the application to TCP, as far as the controller lets it.
    fn forward(&mut self, clock: &impl Fn() -> Time, scratch: &mut [u8]) -> Result<bool, Errno> {
        let mut moved = 0;
        while moved < TURN {
            self.half.refill(&mut self.local, scratch);
            if self.local.is_ended() && !std::mem::replace(&mut self.passed_finish, true) {
                self.half.finish();
            }
            if !self.tcp_ready.writable || self.finished {
                return Ok(false);
            }
            match self.send_once(clock())? {
                0 => return Ok(false),
                count => moved += count,
            }
        }
        Ok(true)
    }

    /// Gives TCP what it may have in one call. Returns how much it took: nothing if there is
    /// nothing to be done now.
    fn send_once(&mut self, now: Time) -> Result<usize, Errno> {
        self.adjust_unsent_allowed();
        let flags = self.half.flags();
        loop {
            let bytes = self.half.next_call(now);
            if bytes.is_empty() {
                return Ok(0);
            }
            match send(&self.tcp, bytes, flags) {
                Ok(taken) => {
                    self.half.on_taken(now, taken);
                    return Ok(taken);
                }
                Err(Errno::AGAIN) => {
                    self.tcp_ready.writable = false;
                    self.half.on_refused(now, self.tcp.as_fd());
                    return Ok(0);
                }
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn adjust_unsent_allowed(&mut self) {
        let wanted = self.half.unsent_allowed();
        if wanted.abs_diff(self.unsent_allowed) * 4 <= self.unsent_allowed {
            return;
        }
        // A kernel that refuses keeps more in its buffer; the window holds all the same.
        let _ = socket::set_unsent_allowed(self.tcp.as_fd(), wanted);
        self.unsent_allowed = wanted;
    }

    /// From TCP to the application, as far as it reads.
    fn backward(
        &mut self,
        clock: &impl Fn() -> Time,
        scratch: &mut [u8],
    ) -> Result<bool, FlowOutcome> {
        let mut moved = 0;
        while moved < TURN {
            self.half.hand_over(&mut self.local);
            if !self.half.takes_input() || !self.tcp_ready.readable || self.tcp_ended {
                return Ok(false);
            }
            match recv(&self.tcp, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) => {
                    self.tcp_ended = true;
                    self.half.handle_eof()?;
                }
                Ok((count, _)) => {
                    moved += count;
                    self.half.handle_input(clock(), &scratch[..count], &mut self.local)?;
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.tcp_ready.readable = false,
                Err(error) => return Err(error.into()),
            }
            self.go_on_plain(clock())?;
        }
        Ok(true)
    }

    /// A listening end whose peer does not speak the protocol continues with the gate.
    fn go_on_plain(&mut self, now: Time) -> Result<(), FlowOutcome> {
        let Half::Alcc(alcc) = &mut self.half else { return Ok(()) };
        if !alcc.is_plain() {
            return Ok(());
        }
        let (waiting, arrived) = alcc.take_plain(now);
        if self.options.cc.has_receiver() {
            // The other end has no half of it that would ever answer.
            self.options.cc = Self::in_place_of_both_halves();
        }
        let FlowDriver::ClientServer(both) = &self.options.driver else { return Ok(()) };
        let plain = GateHalf::new(self.tcp.as_fd(), &self.options, &both.relay, |_| None, now);
        let mut plain = plain.map_err(|error| match error {
            TcpError::Setup { source, .. } | TcpError::NotTcp(source) => {
                FlowOutcome::Failed(source.raw_os_error().unwrap_or(libc::EIO))
            }
            _ => FlowOutcome::Failed(libc::EIO),
        })?;
        plain.take_over(&waiting, arrived);
        self.half = Half::Gate(Box::new(plain));
        Ok(())
    }

    fn in_place_of_both_halves() -> ControllerSpec {
        "verus".parse().expect("it is registered, and all its parameters have defaults")
    }

    fn pass_on_ends(&mut self) -> Result<(), Errno> {
        let gone = self.local.is_gone();
        if gone && !self.finished && self.shared.linger.resets_on_close(self.tcp.as_fd()) {
            // Closing resets the connection and drops what waits, as with the plain socket. Others
            // may hold it, too: closing our descriptor alone would not.
            socket::reset(self.tcp.as_fd());
            return Err(Errno::CONNRESET);
        }
        if !self.finished && self.half.is_drained(self.local.is_ended()) {
            if self.shared.is_aborted() {
                // Aborted and closed since this turn began: the end that was read is no end.
                socket::reset(self.tcp.as_fd());
                return Err(Errno::CONNABORTED);
            }
            self.finished = true;
            shutdown(&self.tcp, Shutdown::Write)?;
        }
        if !self.passed_end && self.half.is_read(self.tcp_ended) {
            self.passed_end = true;
            self.local.end();
        }
        Ok(())
    }

    fn fail(&mut self, now: Time, outcome: FlowOutcome, scratch: &mut [u8]) -> NextTurn {
        self.publish(now);
        if matches!(self.half, Half::Gate(_)) {
            return NextTurn::Over(outcome);
        }
        self.shared.end(outcome);
        // The last words are to arrive.
        self.shared.linger.disarm(self.tcp.as_fd());
        self.local.refuse();
        let tcp_over = matches!(outcome, FlowOutcome::Failed(_));
        self.failed = Some(FailedConnection { outcome, until: now + LAST_WORDS, tcp_over });
        self.tcp_ready.readable = true;
        self.turn_failed(now, scratch)
    }

    /// The peer gets the last words, and the application reads what had come.
    fn turn_failed(&mut self, now: Time, scratch: &mut [u8]) -> NextTurn {
        let tcp_over = self.failed.as_ref().is_none_or(|failed| failed.tcp_over)
            || self.say_last_words(now, scratch);
        self.half.hand_over(&mut self.local);
        let Some(failed) = &mut self.failed else { return NextTurn::Wait(None) };
        failed.tcp_over = tcp_over;
        if !tcp_over {
            return NextTurn::Wait(Some(failed.until));
        }
        let read = match &self.half {
            Half::Alcc(alcc) => alcc.is_handed_over(),
            Half::Gate(_) => true,
        };
        if read || self.local.is_gone() {
            NextTurn::Over(failed.outcome)
        } else {
            NextTurn::Wait(None)
        }
    }

    /// Returns whether TCP is over.
    fn say_last_words(&mut self, now: Time, scratch: &mut [u8]) -> bool {
        while self.tcp_ready.writable && !self.finished {
            match self.send_once(now) {
                Ok(0) => break,
                Ok(_) => {}
                Err(_) => return true,
            }
        }
        if !self.finished && self.half.is_drained(true) {
            self.finished = true;
            let _ = shutdown(&self.tcp, Shutdown::Write);
        }
        if self.failed.as_ref().is_none_or(|failed| failed.until <= now) {
            socket::reset(self.tcp.as_fd());
            return true;
        }
        self.discard(scratch)
    }

    /// Reads and drops what still comes, and returns whether that was all.
    fn discard(&mut self, scratch: &mut [u8]) -> bool {
        while self.tcp_ready.readable {
            match recv(&self.tcp, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) => return self.finished,
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.tcp_ready.readable = false,
                Err(_) => return true,
            }
        }
        false
    }

    fn publish(&mut self, now: Time) {
        self.published_at = now;
        let stats = self.half.stats(self.tcp.as_fd());
        self.shared.publish(now, stats, self.half.controller_mut());
        if let Some(reason) = self.half.failure() {
            self.shared.note_failure(reason);
        }
    }
}

/// Sets up both sockets of a flow.
fn prepare(
    tcp: BorrowedFd<'_>,
    local: BorrowedFd<'_>,
    options: &RelayOptions,
) -> Result<(), TcpError> {
    let setup = |what| move |source: io::Error| TcpError::Setup { what, source };
    TcpInfo::of(tcp).map_err(TcpError::NotTcp)?;
    for socket in [tcp, local] {
        rustix::io::ioctl_fionbio(socket, true).map_err(|e| setup("non-blocking")(e.into()))?;
    }
    // Without it a short packet waits for the ack of the one before.
    socket2::SockRef::from(&tcp).set_tcp_nodelay(true).map_err(setup("TCP_NODELAY"))?;
    congestion_control::set_below(tcp, &options.below).map_err(setup("TCP_CONGESTION"))
}

fn shutdown(socket: &OwnedFd, how: Shutdown) -> Result<(), Errno> {
    match socket2::SockRef::from(socket).shutdown(how) {
        // It has ended already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Ok(()) => Ok(()),
    }
}
