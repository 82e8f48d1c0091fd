//! One flow: bytes between the application's socket and TCP.

use std::io;
use std::net::Shutdown;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::Setup;
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::flow::{Outcome, Shared};
use crate::gate::Gate;
use crate::queue::ByteQueue;
use crate::socket::{self, Stamps, TcpInfo};
use crate::{FlowOptions, FlowStats, TcpError};

/// How often the kernel is asked while something is in flight, although it stamps acks: selective
/// acks and lost stamps show in no other way.
const POLL: Span = Span::from_millis(2);

/// How often it is asked where it stamps nothing.
const POLL_WITHOUT_STAMPS: Span = Span::from_millis(1);

/// An answer is good for so long.
const FRESH: Span = Span::from_micros(500);

/// How often the figures that others see are renewed.
const PUBLISH: Span = Span::from_millis(5);

/// Bytes that one flow moves in a direction before others have their turn.
const TURN: usize = 1 << 20;

/// A flow has at least so many bytes at hand before it asks the application's socket for more.
const AT_HAND: usize = 64 << 10;

/// What is known of a descriptor, from the edges that the kernel reported.
#[derive(Debug, Clone, Copy)]
struct Ready {
    readable: bool,
    writable: bool,
}

/// What the kernel reports of one of the two descriptors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report {
    pub(crate) readable: bool,
    pub(crate) writable: bool,
    /// For TCP: stamps wait, or the connection broke. For the application's socket: broken.
    pub(crate) error: bool,
    /// Nobody holds the other end, in both directions.
    pub(crate) hung_up: bool,
}

/// What a flow wants of the engine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Next {
    /// To be called when something happens, or at this time.
    Wait(Option<Time>),
    /// To be called again soon: there is more to do, but others have their turn first.
    Again,
    /// It is over.
    Over(Outcome),
}

/// A flow.
pub(crate) struct Relay {
    tcp: OwnedFd,
    local: OwnedFd,
    gate: Gate,
    /// From the application, on its way to TCP.
    queue: ByteQueue,
    /// From TCP, on its way to the application, which has not read what came before.
    back: Vec<u8>,
    tcp_ready: Ready,
    local_ready: Ready,
    /// The application sends no more.
    local_ended: bool,
    /// The application has closed.
    local_gone: bool,
    /// The peer sends no more.
    tcp_ended: bool,
    /// The end of the application's stream was passed on.
    finished: bool,
    /// The end of the peer's stream was passed on.
    told_end: bool,
    stamps: Option<Stamps>,
    stamps_wait: bool,
    info: TcpInfo,
    asked_at: Time,
    /// `bytes_acked` of the kernel when the first byte of this flow was yet to be written.
    base: u64,
    unsent_allowed: u64,
    received: u64,
    published_at: Time,
    shared: Arc<Shared>,
}

impl Relay {
    /// Takes over a connected TCP socket.
    pub(crate) fn new(
        tcp: OwnedFd,
        local: OwnedFd,
        options: &FlowOptions,
        shared: Arc<Shared>,
        now: Time,
    ) -> Result<Self, TcpError> {
        let setup = |what| move |source: io::Error| TcpError::Setup { what, source };
        let info = TcpInfo::of(tcp.as_fd()).map_err(TcpError::NotTcp)?;
        rustix::io::ioctl_fionbio(&tcp, true).map_err(|e| setup("non-blocking")(e.into()))?;
        rustix::io::ioctl_fionbio(&local, true).map_err(|e| setup("non-blocking")(e.into()))?;
        // Without it a short packet waits for the ack of the one before.
        socket2::SockRef::from(&tcp).set_tcp_nodelay(true).map_err(setup("TCP_NODELAY"))?;
        if let Some(name) = &options.below {
            let set = socket2::SockRef::from(&tcp).set_tcp_congestion(name.as_bytes());
            set.map_err(setup("TCP_CONGESTION"))?;
        }
        let (info, base) = baseline(tcp.as_fd(), info).map_err(setup("TCP_INFO"))?;
        let address = socket2::SockRef::from(&tcp).local_addr().map_err(TcpError::NotTcp)?;
        let ipv6 = address.as_socket_ipv6().is_some_and(|a| a.ip().to_ipv4_mapped().is_none());
        let (segment, overhead) = (u64::from(info.mss.max(1)), info.overhead(ipv6));
        let random = Random::seeded(options.seed, 0);
        let controller = options.cc.build(Setup { mss: segment + overhead, start: now, random });
        let stamps = socket::stamp_acks(tcp.as_fd()).is_ok().then(Stamps::new);
        let unknown = Ready { readable: true, writable: true };
        Ok(Self {
            tcp,
            local,
            gate: Gate::new(controller, now, segment, overhead),
            queue: ByteQueue::new(options.queue),
            back: Vec::new(),
            tcp_ready: unknown,
            local_ready: unknown,
            local_ended: false,
            local_gone: false,
            tcp_ended: false,
            finished: false,
            told_end: false,
            stamps,
            stamps_wait: false,
            info,
            asked_at: now,
            base,
            unsent_allowed: 0,
            received: 0,
            published_at: Time::ZERO,
            shared,
        })
    }

    /// The TCP socket.
    pub(crate) fn tcp(&self) -> BorrowedFd<'_> {
        self.tcp.as_fd()
    }

    /// The application's socket, this end.
    pub(crate) fn local(&self) -> BorrowedFd<'_> {
        self.local.as_fd()
    }

    /// The kernel reports something of the TCP socket.
    pub(crate) fn on_tcp(&mut self, report: Report) {
        self.tcp_ready.readable |= report.readable || report.error || report.hung_up;
        self.tcp_ready.writable |= report.writable || report.error || report.hung_up;
        self.stamps_wait |= report.error;
    }

    /// The kernel reports something of the application's socket.
    pub(crate) fn on_local(&mut self, report: Report) {
        self.local_ready.readable |= report.readable || report.error || report.hung_up;
        self.local_ready.writable |= report.writable || report.error || report.hung_up;
        self.local_gone |= report.hung_up;
    }

    /// Does all that can be done now. `scratch` is a large buffer whose content does not matter.
    pub(crate) fn turn(&mut self, clock: &impl Fn() -> Time, scratch: &mut [u8]) -> Next {
        let now = clock();
        match self.try_turn(now, clock, scratch) {
            Ok(more) => self.next(now, more),
            Err(error) => {
                self.publish(now);
                Next::Over(Outcome::Failed(error.raw_os_error()))
            }
        }
    }

    fn try_turn(
        &mut self,
        now: Time,
        clock: &impl Fn() -> Time,
        scratch: &mut [u8],
    ) -> Result<bool, Errno> {
        self.learn(now);
        self.gate.on_timer(now);
        let more_out = self.forward(clock)?;
        let more_in = self.backward(scratch)?;
        self.pass_on_ends()?;
        if now.since(self.published_at) >= PUBLISH {
            self.publish(now);
        }
        Ok(more_out || more_in)
    }

    fn next(&mut self, now: Time, more: bool) -> Next {
        if self.is_over() {
            self.publish(now);
            return Next::Over(Outcome::Finished);
        }
        if more {
            return Next::Again;
        }
        if self.gate.is_idle() && self.queue.is_empty() {
            self.queue.rest();
            self.gate.rest();
            self.publish(now);
            return Next::Wait(None);
        }
        // What TCP refuses waits for TCP, not for the controller's pacer.
        let waits = !self.queue.is_empty() && self.tcp_ready.writable;
        let controller = self.gate.next_deadline(waits);
        let poll = (!self.gate.is_idle()).then(|| self.asked_at + self.poll_span());
        Next::Wait(match (controller, poll) {
            (Some(controller), Some(poll)) => Some(controller.min(poll)),
            (controller, poll) => controller.or(poll),
        })
    }

    fn poll_span(&self) -> Span {
        if self.stamps.is_some() { POLL } else { POLL_WITHOUT_STAMPS }
    }

    fn is_over(&self) -> bool {
        let in_over = self.local_gone || self.told_end;
        self.finished && in_over && self.gate.is_idle()
    }

    /// Asks the kernel what was acknowledged.
    fn learn(&mut self, now: Time) {
        if std::mem::take(&mut self.stamps_wait)
            && let Some(stamps) = &mut self.stamps
        {
            while let Some(stamped) = stamps.next(self.tcp.as_fd(), now) {
                self.gate.on_acked(stamped.when, stamped.offset);
            }
        }
        if self.gate.is_idle() || now.since(self.asked_at) < FRESH {
            return;
        }
        self.ask(now);
    }

    fn ask(&mut self, now: Time) {
        let Ok(info) = TcpInfo::of(self.tcp.as_fd()) else { return };
        self.asked_at = now;
        if info.mss != self.info.mss {
            self.gate.resegment(u64::from(info.mss));
        }
        self.info = info;
        self.gate.on_acked(now, info.bytes_acked.saturating_sub(self.base));
        if info.sacked > 0 {
            let holes = info.lost.max(1) as usize;
            self.gate.on_sacked(now, holes, info.sacked as usize);
        }
    }

    /// From the application to TCP, as far as the controller lets it.
    fn forward(&mut self, clock: &impl Fn() -> Time) -> Result<bool, Errno> {
        let mut moved = 0;
        while moved < TURN {
            self.refill();
            if !self.tcp_ready.writable {
                return Ok(false);
            }
            let now = clock();
            let bytes = self.gate.next_call(now, self.queue.len());
            if bytes == 0 {
                return Ok(false);
            }
            self.adjust_unsent_allowed();
            // A record per call, never merged with the next call's.
            let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL | SendFlags::EOR;
            match send(&self.tcp, &self.queue.bytes()[..bytes], flags) {
                Ok(taken) => {
                    self.gate.on_taken(now, taken, self.queue.len());
                    self.queue.consume(taken);
                    moved += taken;
                }
                Err(Errno::AGAIN) => self.on_refused(now),
                Err(Errno::INTR) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// TCP takes no more. That is for the controller to know if TCP's own window is the reason;
    /// for a moment it also happens when TCP paces, or has not come round to sending.
    fn on_refused(&mut self, now: Time) {
        self.tcp_ready.writable = false;
        self.ask(now);
        if self.info.in_network >= self.info.cwnd {
            self.gate.on_block(now);
        }
    }

    fn refill(&mut self) {
        while self.local_ready.readable && !self.local_ended && self.queue.len() < AT_HAND {
            let room = self.queue.room().min(AT_HAND);
            if room == 0 {
                return;
            }
            let local = &self.local;
            let read = |spare: &mut [u8]| recv(local, spare, RecvFlags::DONTWAIT).map(|got| got.0);
            match self.queue.fill(room, read) {
                Ok(0) => {
                    self.local_ended = true;
                    self.local_gone |= is_hung_up(&self.local);
                }
                Ok(_) | Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.local_ready.readable = false,
                // Closed with unread data: what was written before it was all read above.
                Err(_) => {
                    self.local_ended = true;
                    self.local_gone = true;
                }
            }
        }
    }

    fn adjust_unsent_allowed(&mut self) {
        let wanted = self.gate.unsent_allowed();
        if wanted.abs_diff(self.unsent_allowed) * 4 <= self.unsent_allowed {
            return;
        }
        // A kernel that refuses keeps more in its buffer; the window holds all the same.
        let _ = socket::set_unsent_allowed(self.tcp.as_fd(), wanted);
        self.unsent_allowed = wanted;
    }

    /// From TCP to the application, as far as it reads.
    fn backward(&mut self, scratch: &mut [u8]) -> Result<bool, Errno> {
        let mut moved = 0;
        while moved < TURN {
            if !self.hand_over_rest() {
                return Ok(false);
            }
            if !self.tcp_ready.readable || self.tcp_ended {
                return Ok(false);
            }
            match recv(&self.tcp, &mut *scratch, RecvFlags::DONTWAIT) {
                Ok((0, _)) => self.tcp_ended = true,
                Ok((count, _)) => {
                    moved += count;
                    self.received += count as u64;
                    self.hand_over(&scratch[..count]);
                }
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => self.tcp_ready.readable = false,
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }

    /// Returns whether nothing is left that the application has not taken.
    fn hand_over_rest(&mut self) -> bool {
        if self.back.is_empty() {
            return true;
        }
        if !self.local_ready.writable {
            return false;
        }
        let rest = std::mem::take(&mut self.back);
        self.hand_over(&rest);
        self.back.is_empty()
    }

    fn hand_over(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() && !self.local_gone {
            match send(&self.local, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
                Ok(taken) => bytes = &bytes[taken..],
                Err(Errno::INTR) => {}
                Err(Errno::AGAIN) => {
                    self.local_ready.writable = false;
                    self.back = bytes.to_vec();
                    return;
                }
                // It reads no more. What it wrote before is still to be sent.
                Err(_) => self.local_gone = true,
            }
        }
    }

    fn pass_on_ends(&mut self) -> Result<(), Errno> {
        if self.local_gone && !self.finished && socket::resets_on_close(self.tcp.as_fd()) {
            // Closing resets the connection and drops what waits, as with the plain socket.
            self.queue.clear();
            return Err(Errno::CONNRESET);
        }
        if self.local_ended && self.queue.is_empty() && !self.finished {
            self.finished = true;
            shutdown(&self.tcp, Shutdown::Write)?;
        }
        if self.tcp_ended && self.back.is_empty() && !self.told_end {
            self.told_end = true;
            // Whoever has closed need not be told.
            let _ = shutdown(&self.local, Shutdown::Write);
        }
        Ok(())
    }

    fn publish(&mut self, now: Time) {
        self.published_at = now;
        let stats = self.stats();
        let mut state = self.shared.lock();
        state.stats = stats;
        while let Some(event) = self.gate.controller_mut().poll_event() {
            if state.events.len() == 64 {
                state.events.pop_front();
            }
            state.events.push_back(event);
        }
    }

    fn stats(&self) -> FlowStats {
        let rtt = self.gate.rtt();
        FlowStats {
            sent_bytes: self.gate.taken(),
            acked_bytes: self.gate.acked(),
            received_bytes: self.received,
            queued_bytes: self.queue.len() as u64,
            cwnd: self.gate.controller().cwnd(),
            tcp_cwnd: u64::from(self.info.cwnd) * self.gate.packet_bytes(),
            in_flight: self.gate.in_flight(),
            srtt: rtt.smoothed(),
            min_rtt: rtt.minimum(),
            retransmissions: u64::from(self.info.retransmissions),
            blocks: self.gate.blocks(),
        }
    }
}

/// The kernel's count of acknowledged bytes when all that was written so far is acknowledged. Acks
/// may come between two questions: they are asked until nothing moved.
fn baseline(tcp: BorrowedFd<'_>, mut info: TcpInfo) -> io::Result<(TcpInfo, u64)> {
    loop {
        let open = socket::unacknowledged(tcp)?;
        let again = TcpInfo::of(tcp)?;
        if again.bytes_acked == info.bytes_acked {
            return Ok((again, again.bytes_acked + open));
        }
        info = again;
    }
}

/// Whether nobody holds the other end. The end of the stream can be read before it is reported.
fn is_hung_up(socket: &OwnedFd) -> bool {
    let mut asked = [PollFd::new(socket, PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    let _ = poll(&mut asked, Some(&now));
    asked[0].revents().contains(PollFlags::HUP)
}

fn shutdown(socket: &OwnedFd, how: Shutdown) -> Result<(), Errno> {
    match socket2::SockRef::from(socket).shutdown(how) {
        // It has ended already.
        Err(error) if error.kind() == io::ErrorKind::NotConnected => Ok(()),
        Err(error) => Err(Errno::from_io_error(&error).unwrap_or(Errno::IO)),
        Ok(()) => Ok(()),
    }
}
