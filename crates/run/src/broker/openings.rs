//! Connections that the program opened, did not wait for, and that are not there yet.

use std::collections::{HashMap, VecDeque};
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cellpace_os::socket::{state_of_tcp, tcp_state};
use cellpace_tcp::TrialPart;
use rustix::event::{PollFd, PollFlags};
use rustix::net::{Shutdown, shutdown};

use super::local_pair::{LendableSocket, drain, is_abandoned};
use super::watcher::AdoptedConnection;

/// Connections that are being opened at a time, at most: each holds a full buffer of the kernel,
/// some 200 kB, and one to nowhere may do so for minutes.
const MAX_OPENINGS: usize = 256;

/// How long a connection that did not come about is kept, for the program to ask why.
const REMEMBER: Duration = Duration::from_secs(30);
/// Maximum number of them.
const MAX_REMEMBERED: usize = 64;

/// A connection that is not there yet. The program waits until it can write to its end of the
/// pair, which is full until then.
#[derive(Debug)]
pub(super) struct Opening {
    pub(super) connection: AdoptedConnection,
    pub(super) since: Instant,
    pub(super) tcp: LendableSocket,
    pub(super) far: OwnedFd,
    /// Bytes in the pair that belong to nobody.
    pub(super) filler: usize,
    pub(super) part: TrialPart,
}

/// A connection that did not come about.
#[derive(Debug)]
struct FailedOpening {
    flow: u64,
    tcp: LendableSocket,
    until: Instant,
}

/// Connections that are being opened, by flow, and those that failed recently.
#[derive(Debug, Default)]
pub(super) struct Openings {
    waiting: HashMap<u64, Opening>,
    failed: VecDeque<FailedOpening>,
}

impl Openings {
    pub(super) fn len(&self) -> usize {
        self.waiting.len()
    }

    pub(super) fn is_full(&self) -> bool {
        self.len() >= MAX_OPENINGS
    }

    pub(super) fn insert(&mut self, opening: Opening) {
        self.waiting.insert(opening.connection.flow, opening);
    }

    /// Gives all of them up.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
    }

    /// Returns the descriptors to poll: two for each opening.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        // Of the program's end it is only of interest whether anybody holds it.
        self.waiting.values().flat_map(|opening| {
            let far = PollFd::new(&opening.far, PollFlags::empty());
            [PollFd::new(&*opening.tcp.tcp, PollFlags::OUT), far]
        })
    }

    /// The flows to which something happened; `ready` is in the order of
    /// [`poll_fds`](Self::poll_fds).
    pub(super) fn ready_flows(&self, ready: &[bool]) -> Vec<u64> {
        let pairs = self.waiting.keys().zip(ready.chunks(2));
        pairs.filter(|(_, ready)| ready.contains(&true)).map(|(flow, _)| *flow).collect()
    }

    /// When the first failed one is to be forgotten.
    pub(super) fn due(&self) -> Option<Instant> {
        self.failed.front().map(|failed| failed.until)
    }

    /// Looks at a connection to which something happened. Returns it when it is there, and its
    /// pair is empty.
    pub(super) fn proceed(&mut self, flow: u64, now: Instant) -> Option<Opening> {
        let opening = self.waiting.remove(&flow)?;
        if is_abandoned(&opening.far) {
            return None;
        }
        match state_of_tcp(&*opening.tcp.tcp) {
            Ok(tcp_state::SYN_SENT | tcp_state::SYN_RECEIVED) => self.insert(opening),
            Ok(tcp_state::CLOSED) | Err(_) => self.fail(opening, now),
            Ok(_) => return drain(&opening.far, opening.filler).then_some(opening),
        }
        None
    }

    /// Makes the program's end ready, and keeps the reason for it.
    fn fail(&mut self, opening: Opening, now: Instant) {
        let Opening { connection, tcp, far, filler, .. } = opening;
        // Remembered first: once the end is ready, the program asks.
        self.failed.push_back(FailedOpening { flow: connection.flow, tcp, until: now + REMEMBER });
        if self.failed.len() > MAX_REMEMBERED {
            self.failed.pop_front();
        }
        // As with TCP, nothing can be written from the moment on that it looks as if it could. The
        // hang-up comes last: alone it is not what the program waits for. What is left unread would
        // be an error of its own.
        let _ = shutdown(&far, Shutdown::Read);
        drain(&far, filler);
        let _ = shutdown(&far, Shutdown::Write);
    }

    pub(super) fn forget_old(&mut self, now: Instant) {
        while self.due().is_some_and(|until| until <= now) {
            self.failed.pop_front();
        }
    }

    /// The TCP socket of a flow that is not there yet, or failed.
    pub(super) fn tcp(&self, flow: u64) -> Option<&LendableSocket> {
        let failed = || self.failed.iter().find(|failed| failed.flow == flow);
        let waiting = self.waiting.get(&flow).map(|opening| &opening.tcp);
        waiting.or_else(|| failed().map(|failed| &failed.tcp))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::local_pair::{LocalPair, fill};
    use crate::broker::tests::{TOKEN, flow_name};
    use cellpace_tcp::{ControlOptions, RelayEngine, Trials};
    use rustix::io::Errno;
    use rustix::net::{
        AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, connect, recv, send,
        socket_with,
    };
    use std::net::{SocketAddr, TcpListener};

    /// An opening towards an address, and the application's end.
    fn open(flow: u64, peer: SocketAddr) -> (Opening, OwnedFd) {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let tcp = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
        let _ = connect(&tcp, &peer);
        let pair = LocalPair::new(tcp.into(), &flow_name(flow), &TOKEN, true).unwrap();
        let filler = fill(&pair.application).unwrap();
        let local = "127.0.0.1:1".parse().unwrap();
        let connection = AdoptedConnection { flow, outgoing: true, local, peer };
        let LocalPair { application, far, tcp } = pair;
        let options = ControlOptions::new("cubic".parse().unwrap());
        let part = Trials::new(&RelayEngine::new(), None, &options).draw(peer);
        let since = Instant::now();
        (Opening { connection, since, tcp, far, filler, part }, application)
    }

    /// Polls until something happens to an opening.
    fn wait(openings: &Openings) -> Vec<u64> {
        let mut fds: Vec<_> = openings.poll_fds().collect();
        rustix::event::poll(&mut fds, None).unwrap();
        let ready: Vec<_> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        openings.ready_flows(&ready)
    }

    #[test]
    fn one_that_is_there_is_returned_with_an_empty_pair() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut openings = Openings::default();
        let (opening, end) = open(5, listener.local_addr().unwrap());
        openings.insert(opening);
        assert!(openings.tcp(5).unwrap().belongs_to(&end));
        assert_eq!(wait(&openings), [5]);
        let opening = openings.proceed(5, Instant::now()).unwrap();
        assert_eq!(opening.connection.flow, 5);
        assert_eq!(recv(&opening.far, &mut [0; 1], RecvFlags::DONTWAIT), Err(Errno::AGAIN));
        assert_eq!(openings.len(), 0);
    }

    #[test]
    fn one_that_failed_is_kept_for_a_while_for_its_reason() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut openings = Openings::default();
        let (opening, end) = open(7, unused);
        openings.insert(opening);
        assert_eq!(wait(&openings), [7]);
        let now = Instant::now();
        assert!(openings.proceed(7, now).is_none());
        let written = send(&end, b"x", SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
        assert_eq!(written, Err(Errno::PIPE), "the program sees that it is over");
        let error = rustix::net::sockopt::socket_error(&*openings.tcp(7).unwrap().tcp).unwrap();
        assert_eq!(error, Err(Errno::CONNREFUSED));
        openings.forget_old(now);
        assert!(openings.tcp(7).is_some());
        openings.forget_old(openings.due().unwrap());
        assert!(openings.tcp(7).is_none());
        assert_eq!(openings.due(), None);
    }

    #[test]
    fn one_that_the_program_gave_up_is_dropped() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut openings = Openings::default();
        let (opening, end) = open(1, listener.local_addr().unwrap());
        openings.insert(opening);
        drop(end);
        assert!(openings.proceed(1, Instant::now()).is_none());
        assert!(openings.tcp(1).is_none());
    }

    #[test]
    fn only_so_many_failures_are_remembered() {
        let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let mut openings = Openings::default();
        for flow in 0..MAX_REMEMBERED as u64 + 1 {
            let (opening, _end) = open(flow, unused);
            openings.fail(opening, Instant::now());
        }
        assert!(openings.tcp(0).is_none());
        assert!(openings.tcp(1).is_some());
    }
}
