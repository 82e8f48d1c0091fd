//! Clients of the control socket: those whose first request has not arrived yet, and those that stay for
//! the next one.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::fs::File;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use cellpace_control::message::{ControlSession, HELLO_LEN, Token, read_hello};
use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketAddrUnix, SocketFlags, SocketType, accept_with,
    bind, listen, recv, send, socket_with,
};
use rustix::process::Pid;

/// Clients that are accepted before those with a place are served again.
const MAX_ACCEPTED: usize = 256;

/// The control socket, and the clients that wait at it.
pub(super) struct ControlClients {
    listener: OwnedFd,
    /// Given up when there are no other descriptors, so that a client can be sent away.
    reserve: Option<File>,
    waiting: Vec<ControlClient>,
    /// Whose clients are served; root serves all, since servers that it starts give up their
    /// privilege.
    user: u32,
    limits: ClientLimits,
    token: Token,
}

/// Limits of clients.
pub(super) struct ClientLimits {
    pub(super) most: usize,
    pub(super) patience: Duration,
}

/// A connection to the control socket.
pub(super) struct ControlClient {
    pub(super) socket: OwnedFd,
    uid: u32,
    /// None where it is in another namespace of processes.
    pub(super) process: Option<Pid>,
    /// Until when its request must be there; none once it has made one, and stays for the next.
    until: Option<Instant>,
    /// Once we have greeted it.
    session: Option<ControlSession>,
}

impl ControlClients {
    /// Opens the control socket with an abstract name.
    pub(super) fn listen(name: &[u8], token: Token, limits: ClientLimits) -> Result<Self, Errno> {
        let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
        let listener = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None)?;
        bind(&listener, &SocketAddrUnix::new_abstract_name(name)?)?;
        listen(&listener, 4096)?;
        let user = rustix::process::geteuid().as_raw();
        Ok(Self { listener, reserve: reserve(), waiting: Vec::new(), user, limits, token })
    }

    /// Returns the descriptors to poll: the listener, then each client.
    pub(super) fn poll_fds(&self) -> impl Iterator<Item = PollFd<'_>> {
        let has_room = self.serves_all() || !self.is_full() || self.idle().is_some();
        let listening = if has_room { PollFlags::IN } else { PollFlags::empty() };
        let clients = self.waiting.iter().map(|one| PollFd::new(&one.socket, PollFlags::IN));
        std::iter::once(PollFd::new(&self.listener, listening)).chain(clients)
    }

    /// When the first client will have waited for too long.
    pub(super) fn due(&self) -> Option<Instant> {
        self.waiting.iter().filter_map(|client| client.until).min()
    }

    /// Greets those that are `ready`, in the order of [`poll_fds`](Self::poll_fds), and returns
    /// those whose request is there.
    pub(super) fn take_ready(
        &mut self,
        ready: &[bool],
        now: Instant,
    ) -> Vec<(ControlClient, ControlSession)> {
        let (listener, ready) = ready.split_first().unwrap_or((&false, &[]));
        let mut with_request = Vec::new();
        // Backwards, so that what is removed does not move what is still to be looked at.
        for index in (0..ready.len()).rev().filter(|index| ready[*index]) {
            let client = self.waiting.swap_remove(index);
            match client.session {
                Some(session) => with_request.push((client, session)),
                None => self.waiting.extend(greet(client, &self.token)),
            }
        }
        self.waiting.retain(|client| client.until.is_none_or(|until| until > now));
        if *listener {
            self.accept(now);
        }
        with_request
    }

    /// Lets a client that was served stay for its next request.
    pub(super) fn keep(&mut self, client: ControlClient) {
        self.waiting.push(ControlClient { until: None, ..client });
    }

    /// One that stays, and can open another connection when it has a request.
    fn idle(&self) -> Option<usize> {
        self.waiting.iter().position(|client| client.until.is_none())
    }

    fn serves_all(&self) -> bool {
        self.user == 0
    }

    fn is_full(&self) -> bool {
        self.waiting.len() >= self.limits.most
    }

    /// Accepts clients, and closes strangers' connections before they have a place.
    fn accept(&mut self, now: Instant) {
        for _ in 0..MAX_ACCEPTED {
            if self.is_full() && !self.serves_all() && !self.send_away_idle() {
                return;
            }
            let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
            let socket = match accept_with(&self.listener, flags) {
                Ok(socket) => socket,
                Err(Errno::MFILE | Errno::NFILE) if self.send_away_idle() => continue,
                Err(Errno::MFILE | Errno::NFILE) => return self.turn_away(),
                Err(_) => return,
            };
            let Ok(peer) = getsockopt(&socket, PeerCredentials) else { continue };
            if !self.serves_all() && peer.uid() != self.user {
                continue;
            }
            if self.is_full()
                && let Some(index) = to_evict(&self.waiting)
            {
                self.waiting.swap_remove(index);
            }
            let (uid, process) = (peer.uid(), Pid::from_raw(peer.pid()));
            let until = Some(now + self.limits.patience);
            let client = ControlClient { socket, uid, process, until, session: None };
            self.waiting.extend(greet(client, &self.token));
        }
    }

    /// Has the place of a client that waits for nothing; false if there is none.
    fn send_away_idle(&mut self) -> bool {
        let idle = self.idle();
        idle.map(|index| self.waiting.swap_remove(index)).is_some()
    }

    /// Out of descriptors: lets the client know at once, so that it continues without us.
    fn turn_away(&mut self) {
        drop(self.reserve.take());
        drop(accept_with(&self.listener, SocketFlags::CLOEXEC));
        self.reserve = reserve();
        if self.reserve.is_none() {
            // Another thread took it. Clients wait a moment; this thread must not spin.
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

fn reserve() -> Option<File> {
    File::open("/dev/null").ok()
}

/// Proves to a client that has sent its nonce that we know the token. One that has not stays as
/// it is; `None` for one that is not to be served.
fn greet(mut client: ControlClient, token: &Token) -> Option<ControlClient> {
    let mut bytes = [0; HELLO_LEN + 1];
    let nonce = match recv(&client.socket, &mut bytes, RecvFlags::DONTWAIT) {
        Ok((count, _)) => read_hello(bytes.get(..count)?)?,
        Err(Errno::AGAIN | Errno::INTR) => return Some(client),
        Err(_) => return None,
    };
    let mut launcher = [0; 16];
    getrandom::fill(&mut launcher).ok()?;
    let session = ControlSession { client: nonce, launcher };
    // Its queue is empty: it cannot fail but for a client that is gone.
    send(&client.socket, &session.greeting(token), SendFlags::NOSIGNAL).ok()?;
    client.session = Some(session);
    Some(client)
}

/// The client that has waited longest of the user who has most places; first those that stay.
fn to_evict(clients: &[ControlClient]) -> Option<usize> {
    let mut places = HashMap::<u32, usize>::new();
    clients.iter().for_each(|client| *places.entry(client.uid).or_default() += 1);
    let oldest = clients.iter().enumerate().max_by_key(|(_, client)| {
        let most = places.get(&client.uid).copied();
        (most, Reverse(client.until))
    });
    oldest.map(|(index, _)| index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::broker::tests::TOKEN;
    use cellpace_control::message::{GREETING_LEN, hello};
    use rustix::net::socketpair;

    /// A client's socket, and the client as we see it.
    fn client(uid: u32, until: Instant) -> (OwnedFd, ControlClient) {
        let until = Some(until);
        let kind = SocketType::SEQPACKET;
        let (theirs, socket) =
            socketpair(AddressFamily::UNIX, kind, SocketFlags::CLOEXEC, None).unwrap();
        (theirs, ControlClient { socket, uid, process: None, until, session: None })
    }

    fn clients(waiting: Vec<ControlClient>) -> ControlClients {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let name = format!("cellpace-test/{:016x}", u64::from_be_bytes(random));
        let limits = ClientLimits { most: 4, patience: Duration::from_secs(60) };
        ControlClients {
            waiting,
            ..ControlClients::listen(name.as_bytes(), TOKEN, limits).unwrap()
        }
    }

    #[test]
    fn a_hello_is_answered_by_a_proof_and_then_a_request_is_awaited() {
        let until = Instant::now() + Duration::from_secs(60);
        let (theirs, ours) = client(0, until);
        let mut clients = clients(vec![ours]);
        assert!(clients.take_ready(&[false, false], Instant::now()).is_empty());
        send(&theirs, &hello(&[7; 16]), SendFlags::NOSIGNAL).unwrap();
        assert!(clients.take_ready(&[false, true], Instant::now()).is_empty());
        let mut greeting = [0; GREETING_LEN];
        assert_eq!(recv(&theirs, &mut greeting, RecvFlags::DONTWAIT).unwrap().0, GREETING_LEN);
        let session = ControlSession::greeted([7; 16], &greeting, &TOKEN).unwrap();
        let ready = clients.take_ready(&[false, true], Instant::now());
        assert_eq!(ready[0].1, session);
        assert_eq!(clients.poll_fds().count(), 1, "it gave up its place");
    }

    #[test]
    fn one_that_was_served_stays_until_somebody_needs_the_place() {
        let start = Instant::now();
        let (theirs, ours) = client(0, start);
        let session = Some(ControlSession { client: [1; 16], launcher: [2; 16] });
        let mut clients = clients(Vec::new());
        clients.limits.most = 1;
        clients.user = 1;
        clients.keep(ControlClient { session, ..ours });
        let much_later = start + Duration::from_secs(3600);
        assert!(clients.take_ready(&[false, false], much_later).is_empty());
        assert_eq!((clients.waiting.len(), clients.due()), (1, None), "it waits for ever");
        send(&theirs, b"a request", SendFlags::NOSIGNAL).unwrap();
        let mut ready = clients.take_ready(&[false, true], much_later);
        assert_eq!(Some(ready[0].1), session, "and is asked no second proof");
        let client = ready.remove(0).0;
        assert_eq!(recv(&client.socket, &mut [0; 16], RecvFlags::DONTWAIT).unwrap().0, 9);
        clients.keep(client);
        assert!(clients.is_full() && clients.send_away_idle(), "its place is free for a new one");
        assert_eq!(recv(&theirs, &mut [0; 1], RecvFlags::DONTWAIT).unwrap().0, 0);
        assert!(!clients.send_away_idle());
    }

    #[test]
    fn one_that_is_gone_or_says_something_else_loses_its_place() {
        let until = Instant::now() + Duration::from_secs(60);
        let (gone, first) = client(0, until);
        let (wrong, second) = client(0, until);
        let (_silent, third) = client(0, until);
        let mut clients = clients(vec![first, second, third]);
        drop(gone);
        send(&wrong, b"hello", SendFlags::NOSIGNAL).unwrap();
        assert!(clients.take_ready(&[false, true, true, true], Instant::now()).is_empty());
        assert_eq!(clients.waiting.len(), 1);
        assert_eq!(clients.due(), Some(until));
        clients.take_ready(&[false, false], until);
        assert!(clients.waiting.is_empty(), "its time was over");
    }

    #[test]
    fn the_oldest_client_of_the_user_with_most_places_is_evicted() {
        let start = Instant::now();
        let after = |seconds| start + Duration::from_secs(seconds);
        let waiting = [(1, 1), (2, 3), (2, 2), (2, 4), (3, 0)];
        let (_theirs, waiting): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|(uid, until)| client(uid, after(until))).unzip();
        assert_eq!(to_evict(&waiting), Some(2));
        assert_eq!(to_evict(&[]), None);
    }
}
