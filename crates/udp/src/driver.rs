//! Sockets and clocks for an [`Engine`]: one thread, batches of datagrams, absolute deadlines.

use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cellpace_base::{Ecn, Span, Time};
use nix::sys::socket::{setsockopt, sockopt};
use quinn_udp::{EcnCodepoint, RecvMeta, Transmit, UdpSockRef, UdpSocketState};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::NanosleepRelativeResult;

use crate::endpoint::Endpoint;
use crate::local_path::{LocalPath, OutgoingDatagram};

/// What a [`Driver`] drives: something that deals in datagrams, and knows neither sockets nor
/// clocks. [`Endpoint`] is one.
pub trait Engine {
    /// Handles a datagram that arrived at `now` from `from` by this way, with the codepoint `ecn`.
    /// Kernels stamp arrivals, so `now` may be before the time of an earlier call.
    fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: LocalPath,
        ecn: Ecn,
        datagram: &[u8],
    );

    /// Writes the next datagram that may leave now at the end of `out`.
    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram>;

    /// Returns when something is due: a time in the past if something may leave at once.
    fn next_deadline(&self) -> Option<Time>;

    /// Returns until when datagrams that arrive may wait: a time in the past if they may not.
    fn rest_until(&self) -> Time {
        Time::ZERO
    }

    /// Reports that the system takes nothing more by the way `way` for now. What waits there is for
    /// `to`.
    fn on_blocked(&mut self, now: Time, to: SocketAddr, way: LocalPath) {
        let _ = (now, to, way);
    }

    /// Does what is due.
    fn on_timer(&mut self, now: Time);

    /// Whether there are events that the owner has to take before it waits.
    fn has_events(&self) -> bool;
}

/// What went wrong at the sockets, for a warning.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SocketTrouble {
    /// Datagrams that the system refused to send.
    pub refused: u64,
    /// Calls that failed because the system was short of memory, and were repeated.
    pub shortages: u64,
    /// Text of the last error.
    pub last_error: String,
    /// Whether an error was that packets are too large for the interface.
    pub too_large: bool,
    /// What the network last reported of a peer that a socket is connected to: most often
    /// [`io::ErrorKind::ConnectionRefused`], where no program has the peer's port.
    pub unreachable: Option<io::ErrorKind>,
}

impl SocketTrouble {
    fn note_unreachable(&mut self, error: &io::Error) {
        if error.kind() != io::ErrorKind::Interrupted && !quinn_udp::is_msg_size_err(error) {
            self.unreachable = Some(error.kind());
        }
    }
}

/// Buffers for one call of the system, each for as many datagrams as it puts together.
const BUFFERS: usize = 16;
const BUFFER_BYTES: usize = 1 << 16;

/// Receive calls in a row before everything else has its turn.
const RECEIVES_IN_A_ROW: usize = 8;

/// Bytes that the kernel may buffer until this process reads them.
const SOCKET_BUFFER: usize = 8 << 20;

/// Bytes that the kernel takes in one call at most.
const MAX_BATCH_BYTES: usize = 65_000;

/// How long `now` stays the same at most while the kernel takes no datagrams.
const BLOCKED: Span = Span::from_millis(1);

/// Calls in a row that may fail because the system is short of memory. With the waits in between
/// they take three seconds.
const MAX_SHORTAGES: u32 = 50;

/// The longest wait between them, in milliseconds.
const SHORTAGE_WAIT_MS: u64 = 64;

/// How often in a row a call has failed because the system was short of memory.
#[derive(Debug, Default)]
pub struct Shortage(u32);

impl Shortage {
    /// Takes the error of a failed call. Returns how long to wait before the next try, up to 64 ms, if one
    /// is worthwhile: after a shortage of memory that has not lasted for some three seconds.
    pub fn pause(&mut self, error: &io::Error) -> Option<Duration> {
        use rustix::io::Errno;
        let is_shortage = matches!(Errno::from_io_error(error), Some(Errno::NOMEM | Errno::NOBUFS));
        if !is_shortage || self.0 >= MAX_SHORTAGES {
            return None;
        }
        let pause = Duration::from_millis((1 << self.0.min(16)).min(SHORTAGE_WAIT_MS));
        self.0 += 1;
        Some(pause)
    }

    /// Notes that the call succeeded.
    pub fn end(&mut self) {
        self.0 = 0;
    }

    /// Handles a failed call: waits a little if another try is worthwhile.
    fn bear(&mut self, error: io::Error, trouble: &mut SocketTrouble) -> io::Result<()> {
        let Some(pause) = self.pause(&error) else { return Err(error) };
        trouble.shortages += 1;
        trouble.last_error = error.to_string();
        std::thread::sleep(pause);
        Ok(())
    }
}

struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    /// When the socket was last found empty.
    drained_at: Time,
}

impl Engine for Endpoint {
    fn handle_datagram(
        &mut self,
        now: Time,
        from: SocketAddr,
        way: LocalPath,
        ecn: Ecn,
        datagram: &[u8],
    ) {
        self.handle_datagram_with(now, from, way, ecn, datagram);
    }

    fn poll_transmit(&mut self, now: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram> {
        Self::poll_transmit(self, now, out)
    }

    fn next_deadline(&self) -> Option<Time> {
        Self::next_deadline(self)
    }

    fn rest_until(&self) -> Time {
        Self::rest_until(self)
    }

    fn on_blocked(&mut self, now: Time, to: SocketAddr, way: LocalPath) {
        Self::on_blocked(self, now, to, way);
    }

    fn on_timer(&mut self, now: Time) {
        Self::on_timer(self, now);
    }

    fn has_events(&self) -> bool {
        Self::has_events(self)
    }
}

/// Drives an engine, by default an endpoint, over sockets.
pub struct Driver<E = Endpoint> {
    /// The flows.
    pub endpoint: E,
    sockets: Vec<Socket>,
    coalesces: bool,
    began: Instant,
    buffers: Vec<Box<[u8]>>,
    outgoing: SendBatch,
    waiting: Shortage,
    receiving: Shortage,
    trouble: SocketTrouble,
}

/// Where a datagram goes, by which way, and with which codepoint.
type Destination = (SocketAddr, LocalPath, Ecn);

/// Datagrams to one address that leave in one call: all of one size but the last.
#[derive(Default)]
struct SendBatch {
    bytes: Vec<u8>,
    to: Option<Destination>,
    size: usize,
    count: usize,
    /// Bytes behind the batch that do not belong to it.
    next: Option<(Destination, usize)>,
}

impl Driver {
    /// Returns a secret for cookies, and a source of connection ids that cannot be guessed.
    ///
    /// # Errors If the system provides no random bytes.
    pub fn secrets() -> io::Result<([u8; 32], impl FnMut() -> u64 + Send + 'static)> {
        let mut secret = [0; 32];
        fill(&mut secret)?;
        let mut seed = [0; 32];
        fill(&mut seed)?;
        // A keyed hash of a counter: as good as the key, and it cannot fail later.
        let mut count = 0_u64;
        let new_id = move || {
            count += 1;
            let hash = blake3::keyed_hash(&seed, &count.to_be_bytes());
            let mut id = [0; 8];
            id.copy_from_slice(&hash.as_bytes()[..8]);
            u64::from_be_bytes(id)
        };
        Ok((secret, new_id))
    }
}

impl<E: Engine> Driver<E> {
    /// Creates a driver without sockets.
    pub fn new(endpoint: E) -> Self {
        // Makes sleeps end on time. Where this is not permitted, they end a little later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        Self {
            endpoint,
            sockets: Vec::new(),
            coalesces: true,
            began: Instant::now(),
            buffers: vec![vec![0; BUFFER_BYTES].into_boxed_slice(); BUFFERS],
            outgoing: SendBatch::default(),
            waiting: Shortage::default(),
            receiving: Shortage::default(),
            trouble: SocketTrouble::default(),
        }
    }

    /// Sockets that are opened from now on receive each datagram by itself. It costs a call for
    /// some that the kernel would have handed over as one, but each has a time of its own, and
    /// its codepoint: quinn-udp 0.6 has no room for that beside what else comes with several.
    pub fn without_coalescing(mut self) -> Self {
        self.coalesces = false;
        self
    }

    /// Opens a socket. Returns its number as a way of the endpoint.
    ///
    /// # Errors If the address is not available.
    pub fn bind(&mut self, address: SocketAddr) -> io::Result<usize> {
        self.add(UdpSocket::bind(address)?)
    }

    /// Opens a socket for `peer` alone. Returns its number as a way of the endpoint. Only such a
    /// socket learns from the network that the peer has no program at that port.
    ///
    /// # Errors If there is no way to the address.
    pub fn connect(&mut self, peer: SocketAddr) -> io::Result<usize> {
        let any: IpAddr = match peer {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let socket = UdpSocket::bind((any, 0))?;
        socket.connect(peer)?;
        self.add(socket)
    }

    fn add(&mut self, socket: UdpSocket) -> io::Result<usize> {
        let state = UdpSocketState::new(UdpSockRef::from(&socket))?;
        if !self.coalesces {
            // A kernel that does not know the option coalesces nothing.
            let _ = setsockopt(&socket, sockopt::UdpGroSegment, &false);
        }
        // The system may grant less.
        let _ = state.set_recv_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        let _ = state.set_send_buffer_size(UdpSockRef::from(&socket), SOCKET_BUFFER);
        self.sockets.push(Socket { socket, state, drained_at: self.now() });
        Ok(self.sockets.len() - 1)
    }

    /// The address of a way.
    ///
    /// # Errors If the system does not return it.
    pub fn local_address(&self, way: usize) -> io::Result<SocketAddr> {
        self.sockets[way].socket.local_addr()
    }

    /// Returns the time since the creation of the driver. It never steps.
    pub fn now(&self) -> Time {
        Time::from_nanos(u64::try_from(self.began.elapsed().as_nanos()).unwrap_or(u64::MAX))
    }

    /// Returns what the system has refused so far.
    pub fn trouble(&self) -> &SocketTrouble {
        &self.trouble
    }

    /// Sends what may leave, waits until something arrives or is due, or `until`, or until
    /// `input` is readable, and deals with it. Returns whether `input` is readable.
    ///
    /// # Errors
    /// When a socket fails for good.
    pub fn turn(&mut self, until: Time, input: Option<BorrowedFd<'_>>) -> io::Result<bool> {
        let now = self.now();
        let now = self.send(now)?;
        let until = if self.endpoint.has_events() {
            Time::ZERO
        } else if self.outgoing.count > 0 {
            // What is due cannot leave before the kernel takes what is in front of it.
            until.min(now + BLOCKED)
        } else {
            self.endpoint.next_deadline().map_or(until, |due| due.min(until))
        };
        let readable = if input.is_none() && self.rest(now, until)? {
            for way in 0..self.sockets.len() {
                self.receive(way)?;
            }
            false
        } else {
            let (ready, readable) = self.wait(until - now, input)?;
            for way in ready {
                self.receive(way)?;
            }
            readable
        };
        // What arrived comes before what is due: an ack moves deadlines.
        let now = self.now();
        let now = self.send(now)?;
        self.endpoint.on_timer(now);
        self.send(now)?;
        Ok(readable)
    }

    /// Sleeps for as long as the engine pauses, until `until` at most, whatever arrives. Returns
    /// whether it slept. Something has then almost certainly arrived, so a poll before receiving is
    /// not worth its cost.
    fn rest(&self, now: Time, until: Time) -> io::Result<bool> {
        let rest = self.endpoint.rest_until().min(until) - now;
        if rest.is_zero() || self.outgoing.count > 0 {
            return Ok(false);
        }
        match rustix::thread::nanosleep(&timespec(rest)) {
            // A signal: whoever set its handler wants to know.
            NanosleepRelativeResult::Ok | NanosleepRelativeResult::Interrupted(_) => Ok(true),
            NanosleepRelativeResult::Err(error) => Err(error.into()),
        }
    }

    fn wait(
        &mut self,
        wait: Span,
        input: Option<BorrowedFd<'_>>,
    ) -> io::Result<(Vec<usize>, bool)> {
        let blocked = self.outgoing.to.map(|(_, way, _)| way.socket);
        let mut fds: Vec<PollFd<'_>> = self
            .sockets
            .iter()
            .enumerate()
            .map(|(index, way)| {
                let writable =
                    if blocked == Some(index) { PollFlags::OUT } else { PollFlags::empty() };
                PollFd::from_borrowed_fd(way.socket.as_fd(), PollFlags::IN | writable)
            })
            .collect();
        fds.extend(input.map(|input| PollFd::from_borrowed_fd(input, PollFlags::IN)));
        let timeout = timespec(wait);
        match poll(&mut fds, Some(&timeout)) {
            Ok(_) => self.waiting.end(),
            // A signal: whoever set its handler wants to know.
            Err(rustix::io::Errno::INTR) => return Ok((Vec::new(), false)),
            Err(error) => {
                self.waiting.bear(error.into(), &mut self.trouble)?;
                return Ok((Vec::new(), false));
            }
        }
        let is_ready = |fd: &PollFd<'_>| !fd.revents().is_empty();
        let ready = (0..self.sockets.len()).filter(|index| is_ready(&fds[*index])).collect();
        Ok((ready, input.is_some() && fds.last().is_some_and(is_ready)))
    }

    fn receive(&mut self, way: usize) -> io::Result<()> {
        for _ in 0..RECEIVES_IN_A_ROW {
            let before = self.now();
            let mut metas = [RecvMeta::default(); BUFFERS];
            let mut slices = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
            let mut slices: [IoSliceMut<'_>; BUFFERS] =
                std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
            let at = &self.sockets[way];
            let received = at.state.recv(UdpSockRef::from(&at.socket), &mut slices, &mut metas);
            let now = self.now();
            let count = match received {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.sockets[way].drained_at = now;
                    return Ok(());
                }
                // An ICMP error: the peer does not listen any more, or not yet. Its silence has the
                // same effect.
                Err(error) if is_passing(&error) => {
                    self.trouble.note_unreachable(&error);
                    continue;
                }
                Err(error) => return self.receiving.bear(error, &mut self.trouble),
            };
            self.receiving.end();
            let wall = SystemTime::now().duration_since(UNIX_EPOCH).ok();
            let drained_at = self.sockets[way].drained_at;
            for (meta, buffer) in metas.iter().zip(&self.buffers).take(count) {
                let asked = LocalPath { socket: way, local: meta.dst_ip };
                let arrived = arrival_time(now, drained_at, wall, meta.timestamp);
                let ecn = meta.ecn.map_or(Ecn::NotEct, |ecn| Ecn::from_bits(ecn as u8));
                for datagram in buffer[..meta.len].chunks(meta.stride.max(1)) {
                    self.endpoint.handle_datagram(arrived, meta.addr, asked, ecn, datagram);
                }
            }
            if count < BUFFERS {
                // There was no more, and another call would cost as much as this one.
                self.sockets[way].drained_at = before;
                return Ok(());
            }
        }
        Ok(())
    }

    /// Sends until there is nothing more or the kernel takes no more. Returns the time afterwards.
    fn send(&mut self, mut now: Time) -> io::Result<Time> {
        loop {
            if self.outgoing.count == 0 && !self.collect(now) {
                return Ok(now);
            }
            let taken = self.flush()?;
            now = self.now();
            if !taken {
                if let Some((to, way, _)) = self.outgoing.to {
                    self.endpoint.on_blocked(now, to, way);
                }
                return Ok(now);
            }
        }
    }

    /// Collects a batch of what may leave at `now`. Returns whether there is anything in it.
    fn collect(&mut self, now: Time) -> bool {
        let batch = &mut self.outgoing;
        if let Some((to, bytes)) = batch.next.take() {
            let from = batch.bytes.len() - bytes;
            batch.bytes.drain(..from);
            (batch.to, batch.size, batch.count) = (Some(to), bytes, 1);
        } else {
            batch.bytes.clear();
        }
        loop {
            let room = batch.bytes.len() + batch.size <= MAX_BATCH_BYTES;
            let most =
                batch.to.map_or(1, |(_, way, _)| self.sockets[way.socket].state.max_gso_segments());
            if batch.count > 0 && (batch.count >= most || !room) {
                return true;
            }
            let Some(departure) = self.endpoint.poll_transmit(now, &mut batch.bytes) else {
                return batch.count > 0;
            };
            let to = (departure.to, departure.way, departure.ecn);
            if batch.count == 0 {
                (batch.to, batch.size, batch.count) = (Some(to), departure.bytes, 1);
                continue;
            }
            if batch.to != Some(to) || departure.bytes > batch.size {
                batch.next = Some((to, departure.bytes));
                return true;
            }
            batch.count += 1;
            if departure.bytes < batch.size {
                return true;
            }
        }
    }

    /// Sends the batch. Returns whether the kernel took it.
    fn flush(&mut self) -> io::Result<bool> {
        let batch = &mut self.outgoing;
        let Some((destination, way, ecn)) = batch.to else { return Ok(true) };
        let end = batch.bytes.len() - batch.next.map_or(0, |(_, bytes)| bytes);
        let transmit = Transmit {
            destination,
            ecn: EcnCodepoint::from_bits(ecn.bits()),
            contents: &batch.bytes[..end],
            segment_size: (batch.count > 1).then_some(batch.size),
            src_ip: way.local,
        };
        let at = &self.sockets[way.socket];
        match at.state.try_send(UdpSockRef::from(&at.socket), &transmit) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
            // An ICMP error that an earlier datagram caused; this one is lost like that.
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
                self.trouble.note_unreachable(&error);
            }
            // To a flow this is a lost packet.
            Err(error) => {
                self.trouble.refused += batch.count as u64;
                self.trouble.too_large |= quinn_udp::is_msg_size_err(&error);
                self.trouble.last_error = error.to_string();
            }
        }
        (batch.to, batch.count) = (None, 0);
        Ok(true)
    }
}

fn fill(bytes: &mut [u8]) -> io::Result<()> {
    getrandom::fill(bytes).map_err(|error| io::Error::other(error.to_string()))
}

fn is_passing(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable};
    matches!(error.kind(), ConnectionRefused | HostUnreachable | NetworkUnreachable | Interrupted)
        || quinn_udp::is_msg_size_err(error)
}

fn timespec(wait: Span) -> Timespec {
    // An hour is long enough: the loop then waits again.
    let nanos = wait.as_nanos().min(3_600_000_000_000);
    Timespec { tv_sec: (nanos / 1_000_000_000) as i64, tv_nsec: (nanos % 1_000_000_000) as _ }
}

/// Returns when a datagram arrived that the kernel stamped with `stamp` on the wall clock, which
/// now shows `wall`. The wall clock may have been set in between, so the stamp counts only within
/// the time for which the datagram can have waited.
fn arrival_time(
    now: Time,
    drained_at: Time,
    wall: Option<Duration>,
    stamp: Option<Duration>,
) -> Time {
    let (Some(wall), Some(stamp)) = (wall, stamp) else { return now };
    let age = wall.saturating_sub(stamp);
    let age = Span::from_nanos(u64::try_from(age.as_nanos()).unwrap_or(u64::MAX));
    if age > now - drained_at {
        return drained_at.min(now);
    }
    Time::from_nanos(now.as_nanos() - age.as_nanos())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pauses for ever, and counts what it receives.
    #[derive(Default)]
    struct Resting {
        until: Time,
        datagrams: usize,
        timers: usize,
    }

    impl Engine for Resting {
        fn handle_datagram(&mut self, _: Time, _: SocketAddr, _: LocalPath, _: Ecn, _: &[u8]) {
            self.datagrams += 1;
        }
        fn poll_transmit(&mut self, _: Time, _: &mut Vec<u8>) -> Option<OutgoingDatagram> {
            None
        }
        fn next_deadline(&self) -> Option<Time> {
            None
        }
        fn rest_until(&self) -> Time {
            self.until
        }
        fn on_timer(&mut self, _: Time) {
            self.timers += 1;
        }
        fn has_events(&self) -> bool {
            false
        }
    }

    #[test]
    fn whoever_rests_gets_all_that_came_meanwhile_and_its_owner_ends_the_rest() {
        let mut driver = Driver::new(Resting::default());
        let way = driver.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let at = driver.local_address(way).unwrap();
        let other = UdpSocket::bind("127.0.0.1:0").unwrap();
        (0..3).for_each(|_| assert_eq!(other.send_to(b"data", at).unwrap(), 4));
        driver.endpoint.until = Time::MAX;
        let until = driver.now() + Span::from_millis(2);
        assert!(!driver.turn(until, None).unwrap());
        assert!(driver.now() >= until);
        assert_eq!((driver.endpoint.datagrams, driver.endpoint.timers), (3, 1));
        // Nothing arrived: that is no error.
        driver.turn(Time::ZERO, None).unwrap();
        assert_eq!((driver.endpoint.datagrams, driver.endpoint.timers), (3, 2));
    }

    /// Sends datagrams of one size at once, and keeps the codepoints of those that arrive.
    #[derive(Default)]
    struct Burst {
        to: Option<SocketAddr>,
        left: usize,
        seen: Vec<Ecn>,
    }

    impl Engine for Burst {
        fn handle_datagram(&mut self, _: Time, _: SocketAddr, _: LocalPath, ecn: Ecn, _: &[u8]) {
            self.seen.push(ecn);
        }
        fn poll_transmit(&mut self, _: Time, out: &mut Vec<u8>) -> Option<OutgoingDatagram> {
            let to = self.to?;
            self.left = self.left.checked_sub(1)?;
            out.extend_from_slice(&[7; 100]);
            Some(OutgoingDatagram { to, way: 0.into(), bytes: 100, ecn: Ecn::Ect1 })
        }
        fn next_deadline(&self) -> Option<Time> {
            None
        }
        fn on_timer(&mut self, _: Time) {}
        fn has_events(&self) -> bool {
            false
        }
    }

    #[test]
    fn datagrams_that_leave_in_one_call_arrive_with_their_codepoint() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may lack IPv6.
            let Ok(any) = UdpSocket::bind(any).and_then(|socket| socket.local_addr()) else {
                continue;
            };
            let any = SocketAddr::new(any.ip(), 0);
            let mut receiver = Driver::new(Burst::default()).without_coalescing();
            let way = receiver.bind(any).unwrap();
            let to = Some(receiver.local_address(way).unwrap());
            let mut sender = Driver::new(Burst { to, left: 20, seen: Vec::new() });
            sender.bind(any).unwrap();
            sender.turn(Time::ZERO, None).unwrap();
            while receiver.endpoint.seen.len() < 20 && receiver.now() < Time::from_secs(10) {
                receiver.turn(receiver.now() + Span::from_millis(10), None).unwrap();
            }
            assert_eq!(receiver.endpoint.seen, [Ecn::Ect1; 20], "{any}");
        }
    }

    #[test]
    fn a_peer_without_a_program_at_its_port_is_unreachable_and_the_socket_goes_on() {
        for any in ["127.0.0.1:0", "[::1]:0"] {
            // A machine may lack IPv6.
            let Ok(free) = UdpSocket::bind(any) else { continue };
            let peer = free.local_addr().unwrap();
            drop(free);
            let mut driver = Driver::new(Resting::default());
            let way = driver.connect(peer).unwrap();
            let from = driver.local_address(way).unwrap();
            assert_eq!(driver.sockets[way].socket.send(b"data").unwrap(), 4);
            while driver.trouble().unreachable.is_none() && driver.now() < Time::from_secs(10) {
                driver.turn(driver.now() + Span::from_millis(10), None).unwrap();
            }
            assert_eq!(driver.trouble().unreachable, Some(io::ErrorKind::ConnectionRefused));
            let Ok(late) = UdpSocket::bind(peer) else { continue };
            late.send_to(b"data", from).unwrap();
            while driver.endpoint.datagrams == 0 && driver.now() < Time::from_secs(10) {
                driver.turn(driver.now() + Span::from_millis(10), None).unwrap();
            }
            assert_eq!(driver.endpoint.datagrams, 1);
        }
    }

    #[test]
    fn a_passing_shortage_of_memory_is_borne_and_counted_and_other_errors_are_not() {
        use rustix::io::Errno;
        let mut trouble = SocketTrouble::default();
        let mut shortage = Shortage::default();
        let failed = |errno: Errno| io::Error::from(errno);
        for errno in [Errno::NOMEM, Errno::NOBUFS] {
            shortage.bear(failed(errno), &mut trouble).unwrap();
        }
        assert_eq!((trouble.shortages, shortage.0), (2, 2));
        assert!(trouble.last_error.contains("buffer"), "{}", trouble.last_error);
        let error = shortage.bear(failed(Errno::BADF), &mut trouble).unwrap_err();
        assert_eq!(error.raw_os_error(), Some(Errno::BADF.raw_os_error()));
        shortage.0 = MAX_SHORTAGES;
        assert!(shortage.bear(failed(Errno::NOMEM), &mut trouble).is_err(), "it does not pass");
        shortage.end();
        shortage.bear(failed(Errno::NOMEM), &mut trouble).unwrap();
        assert_eq!(trouble.shortages, 3);
    }

    #[test]
    fn arrivals_have_the_kernels_time_and_clock_steps_do_not_matter() {
        let now = Time::from_millis(5_000);
        let drained_at = Time::from_millis(4_990);
        let wall = Duration::from_secs(1_700_000_000);
        let arrived = |stamp| arrival_time(now, drained_at, Some(wall), Some(stamp));
        let ms = Duration::from_millis;
        assert_eq!(arrived(wall - ms(3)), Time::from_millis(4_997));
        assert_eq!(arrived(wall - ms(10)), drained_at);
        // The wall clock was set forward by an hour, or back, while the datagram waited.
        assert_eq!(arrived(wall - ms(3_600_000)), drained_at);
        assert_eq!(arrived(wall + ms(3_600_000)), now);
        assert_eq!(arrival_time(now, drained_at, Some(wall), None), now);
        assert_eq!(arrival_time(now, drained_at, None, Some(wall)), now);
    }
}
