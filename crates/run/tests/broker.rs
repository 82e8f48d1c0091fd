//! The control socket, with clients as they should not be.

#![cfg(all(target_os = "linux", feature = "launcher"))]
#![allow(clippy::unwrap_used)]

use std::io::{IoSlice, IoSliceMut, Read, Write};
use std::mem::MaybeUninit;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use cellpace_run::message::{ANSWER_LEN, Answer, Ask, GREETING, Request, Token};
use cellpace_run::{Broker, BrokerConfig, Closed, FlowName, Owner};
use cellpace_tcp::{Engine, FlowOptions};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername,
    recvmsg, sendmsg, socket_with,
};

fn broker() -> (Broker, Receiver<Closed>) {
    with(|_| {})
}

fn with(change: impl FnOnce(&mut BrokerConfig)) -> (Broker, Receiver<Closed>) {
    let mut config = BrokerConfig::new(FlowOptions::new("cubic".parse().unwrap()));
    change(&mut config);
    let (sender, closed) = channel();
    let told = move |one| drop(sender.send(one));
    (Broker::start(&Engine::new(), &config, told).unwrap(), closed)
}

/// A connection to the control socket, not yet greeted.
fn dial(broker: &Broker) -> OwnedFd {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::UNIX, SocketType::SEQPACKET, flags, None).unwrap();
    let patience = Some(Duration::from_secs(10));
    let kind = rustix::net::sockopt::Timeout::Recv;
    rustix::net::sockopt::set_socket_timeout(&socket, kind, patience).unwrap();
    connect(&socket, &SocketAddrUnix::new_abstract_name(broker.name().as_bytes()).unwrap())
        .unwrap();
    socket
}

fn greeted(broker: &Broker) -> OwnedFd {
    let socket = dial(broker);
    let mut bytes = [0; 8];
    assert_eq!(rustix::io::read(&socket, &mut bytes).unwrap(), GREETING.len());
    assert_eq!(bytes[..4], GREETING);
    socket
}

fn send(socket: &OwnedFd, bytes: &[u8], fds: &[BorrowedFd<'_>]) {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(8))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !fds.is_empty() {
        ancillary.push(SendAncillaryMessage::ScmRights(fds));
    }
    sendmsg(socket, &[IoSlice::new(bytes)], &mut ancillary, SendFlags::NOSIGNAL).unwrap();
}

/// The answer; `None` if the broker hung up without one.
fn receive(socket: &OwnedFd) -> Option<(Answer, Option<OwnedFd>)> {
    let mut bytes = [0; ANSWER_LEN];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let flags = RecvFlags::CMSG_CLOEXEC;
    let count = recvmsg(socket, &mut [IoSliceMut::new(&mut bytes)], &mut ancillary, flags);
    let count = match count {
        Ok(received) => received.bytes,
        Err(rustix::io::Errno::CONNRESET) => 0,
        Err(error) => panic!("{error}"),
    };
    let mut fds = ancillary.drain().flat_map(|message| match message {
        RecvAncillaryMessage::ScmRights(rights) => rights.collect::<Vec<_>>(),
        _ => Vec::new(),
    });
    let fd = fds.next();
    (count > 0).then(|| (Answer::decode(&bytes[..count]).unwrap(), fd))
}

const ADOPT: Ask =
    Ask::Adopt { nonblocking: false, outgoing: false, connecting: false, descriptor: 9 };

fn ask(
    broker: &Broker,
    token: &Token,
    ask: Ask,
    fds: &[BorrowedFd<'_>],
) -> Option<(Answer, Option<OwnedFd>)> {
    let socket = greeted(broker);
    send(&socket, &Request { token: *token, ask }.encode(), fds);
    receive(&socket)
}

#[track_caller]
fn is_refused(answer: &Option<(Answer, Option<OwnedFd>)>) {
    assert!(matches!(answer, None | Some((Answer { done: false, .. }, None))), "{answer:?}");
}

/// Both ends of a TCP connection: ours and the peer's.
fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let peer = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    peer.set_read_timeout(Some(Duration::from_secs(10))).unwrap();
    (listener.accept().unwrap().0, peer)
}

/// The application's end of a connection that was taken over, and the peer.
fn adopted(broker: &Broker) -> (UnixStream, TcpStream) {
    let (ours, peer) = connection();
    let (answer, end) = ask(broker, broker.token(), ADOPT, &[ours.as_fd()]).unwrap();
    assert!(answer.done);
    (UnixStream::from(end.unwrap()), peer)
}

#[test]
fn a_connection_is_taken_over_and_its_end_is_told() {
    let (broker, closed) = broker();
    let (mut end, mut peer) = adopted(&broker);
    assert_eq!(broker.open_flows(), 1);
    let name = getpeername(&end).unwrap().unwrap();
    let name = SocketAddrUnix::try_from(name).unwrap();
    let name = FlowName::decode(name.abstract_name().unwrap(), broker.token()).unwrap();
    assert_eq!((name.flow, name.owner), (1, Owner::Launcher));
    assert_eq!((name.local, name.peer), (peer.peer_addr().unwrap(), peer.local_addr().unwrap()));

    end.write_all(b"down").unwrap();
    peer.write_all(b"up").unwrap();
    end.shutdown(Shutdown::Write).unwrap();
    peer.shutdown(Shutdown::Write).unwrap();
    let mut received = [String::new(), String::new()];
    peer.read_to_string(&mut received[0]).unwrap();
    end.read_to_string(&mut received[1]).unwrap();
    assert_eq!(received, ["down", "up"]);
    let closed = closed.recv_timeout(Duration::from_secs(10)).unwrap();
    assert_eq!(closed.connection.peer, peer.local_addr().unwrap());
    assert_eq!(broker.wait(Duration::from_secs(10)), 0);
}

#[test]
fn the_tcp_socket_of_a_flow_is_lent_and_of_no_flow_is_not() {
    let (broker, _closed) = broker();
    let (_end, peer) = adopted(&broker);
    let (answer, tcp) = ask(&broker, broker.token(), Ask::Fetch { flow: 1 }, &[]).unwrap();
    assert!(answer.done);
    let tcp = TcpStream::from(tcp.unwrap());
    assert_eq!(tcp.peer_addr().unwrap(), peer.local_addr().unwrap());
    for flow in [0, 2, u64::MAX] {
        is_refused(&ask(&broker, broker.token(), Ask::Fetch { flow }, &[]));
    }
}

#[test]
fn a_nonblocking_end_is_made_on_request() {
    let (broker, _closed) = broker();
    for nonblocking in [false, true] {
        let (ours, _peer) = connection();
        let ask_for = Ask::Adopt { nonblocking, outgoing: false, connecting: false, descriptor: 9 };
        let (_, end) = ask(&broker, broker.token(), ask_for, &[ours.as_fd()]).unwrap();
        let flags = rustix::fs::fcntl_getfl(end.unwrap()).unwrap();
        assert_eq!(flags.contains(rustix::fs::OFlags::NONBLOCK), nonblocking);
    }
}

#[test]
fn without_the_token_nothing_is_done_and_the_connection_is_as_it_was() {
    let (broker, _closed) = broker();
    let (mut ours, mut peer) = connection();
    let mut token = *broker.token();
    token[15] ^= 1;
    is_refused(&ask(&broker, &token, ADOPT, &[ours.as_fd()]));
    is_refused(&ask(&broker, &token, Ask::Fetch { flow: 1 }, &[]));
    assert_eq!(broker.open_flows(), 0);
    ours.write_all(b"plain").unwrap();
    drop(ours);
    let mut received = String::new();
    peer.read_to_string(&mut received).unwrap();
    assert_eq!(received, "plain");
}

#[test]
fn what_is_no_connected_tcp_socket_is_refused() {
    let (broker, _closed) = broker();
    let (unix, _other) = UnixStream::pair().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let udp = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    udp.connect("127.0.0.1:9").unwrap();
    let file = std::fs::File::open("/dev/null").unwrap();
    for fd in [unix.as_fd(), listener.as_fd(), udp.as_fd(), file.as_fd()] {
        is_refused(&ask(&broker, broker.token(), ADOPT, &[fd]));
    }
    let (ours, _peer) = connection();
    is_refused(&ask(&broker, broker.token(), ADOPT, &[]));
    is_refused(&ask(&broker, broker.token(), ADOPT, &[ours.as_fd(), ours.as_fd()]));
    is_refused(&ask(&broker, broker.token(), Ask::Fetch { flow: 1 }, &[ours.as_fd()]));
    assert_eq!(broker.open_flows(), 0);
}

#[test]
fn rubbish_is_answered_with_the_end_of_the_connection() {
    let (broker, _closed) = broker();
    let request = Request { token: *broker.token(), ask: Ask::Fetch { flow: 1 } }.encode();
    let rubbish: [&[u8]; 5] = [b"x", &[0; 32], &[0xff; 200], &request[..31], &[0; 60_000]];
    for bytes in rubbish {
        let socket = greeted(&broker);
        let (ours, _peer) = connection();
        send(&socket, bytes, &[ours.as_fd(); 8]);
        is_refused(&receive(&socket));
    }
    adopted(&broker);
}

#[test]
fn clients_that_say_nothing_are_sent_away_and_others_wait_for_their_place() {
    let (broker, _closed) = with(|config| {
        config.most_clients = 4;
        config.patience = Duration::from_millis(300);
    });
    let silent: Vec<OwnedFd> = (0..12).map(|_| dial(&broker)).collect();
    let started = Instant::now();
    adopted(&broker);
    assert!(started.elapsed() < Duration::from_secs(5));
    drop(silent);
}

#[test]
fn clients_that_go_away_do_no_harm() {
    let (broker, _closed) = broker();
    for _ in 0..50 {
        drop(dial(&broker));
        let socket = greeted(&broker);
        let (ours, _peer) = connection();
        let request = Request { token: *broker.token(), ask: ADOPT };
        send(&socket, &request.encode(), &[ours.as_fd()]);
    }
    adopted(&broker);
}

#[test]
fn a_broker_that_ends_leaves_the_flows_alone() {
    let (broker, _closed) = broker();
    let (mut end, mut peer) = adopted(&broker);
    drop(broker);
    sleep(Duration::from_millis(50));
    end.write_all(b"still here").unwrap();
    drop(end);
    let mut received = String::new();
    peer.read_to_string(&mut received).unwrap();
    assert_eq!(received, "still here");
}

const OPEN: Ask = Ask::Adopt { nonblocking: true, outgoing: true, connecting: true, descriptor: 9 };

/// A connection that is being opened to a listener that has no room for it.
fn opening() -> (TcpListener, Vec<TcpStream>, OwnedFd) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    rustix::net::listen(&listener, 0).unwrap();
    let address = listener.local_addr().unwrap();
    let mut waiting = Vec::new();
    while let Ok(one) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        waiting.push(one);
    }
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::STREAM, flags, None).unwrap();
    assert_eq!(connect(&socket, &address), Err(rustix::io::Errno::INPROGRESS));
    (listener, waiting, socket)
}

#[test]
fn a_connection_that_comes_about_late_carries_everything() {
    let (broker, closed) = broker();
    let (listener, waiting, socket) = opening();
    let (answer, end) = ask(&broker, broker.token(), OPEN, &[socket.as_fd()]).unwrap();
    assert!(answer.done);
    drop(socket);
    let mut end = UnixStream::from(end.unwrap());
    let full = end.write(b"x").unwrap_err();
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock, "it is not there yet");
    assert_eq!(broker.open_flows(), 0);
    for _ in &waiting {
        drop(listener.accept().unwrap());
    }
    end.set_nonblocking(false).unwrap();
    end.write_all(b"late").unwrap();
    end.shutdown(Shutdown::Write).unwrap();
    let mut got = Vec::new();
    let mut peer = listener.accept().unwrap().0;
    peer.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"late", "what made the end look full is nobody's");
    peer.write_all(b"answer").unwrap();
    drop(peer);
    got.clear();
    end.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"answer");
    let told = closed.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(told.connection.outgoing && !told.cut);
    assert_eq!((told.stats.sent_bytes, told.stats.received_bytes), (4, 6));
}

#[test]
fn beyond_the_limit_on_flows_connections_are_left_to_the_program() {
    let (sender, closed) = channel();
    let config = BrokerConfig::new(FlowOptions::new("cubic".parse().unwrap()));
    let told = move |one| drop(sender.send(one));
    let broker = Broker::start(&Engine::limited(2), &config, told).unwrap();
    let (_first, _peer) = adopted(&broker);
    let (_listener, _waiting, socket) = opening();
    let (answer, _end) = ask(&broker, broker.token(), OPEN, &[socket.as_fd()]).unwrap();
    assert!(answer.done);
    // One that is being opened counts.
    is_refused(&ask(&broker, broker.token(), OPEN, &[opening().2.as_fd()]));
    let (second, peer) = adopted(&broker);
    let (mut ours, mut other) = connection();
    is_refused(&ask(&broker, broker.token(), ADOPT, &[ours.as_fd()]));
    // It is as it was: it waits, and nothing is reported as an error.
    assert!(!ours.nodelay().unwrap());
    ours.write_all(b"plain").unwrap();
    other.read_exact(&mut [0; 5]).unwrap();
    sleep(Duration::from_millis(20));
    let mut fds = [rustix::event::PollFd::new(&ours, rustix::event::PollFlags::empty())];
    let now = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
    assert_eq!(rustix::event::poll(&mut fds, Some(&now)).unwrap(), 0);
    other.write_all(b"later").unwrap();
    ours.read_exact(&mut [0; 5]).unwrap();
    // Where one ends, there is room again.
    drop((second, peer));
    closed.recv_timeout(Duration::from_secs(10)).unwrap();
    adopted(&broker);
}

#[test]
fn flows_that_are_cut_are_told_of_and_those_with_data_left_are_reset() {
    let (broker, closed) = broker();
    let (idle, mut idle_peer) = adopted(&broker);
    let (mut busy, mut busy_peer) = adopted(&broker);
    busy.set_nonblocking(true).unwrap();
    let mut written = 0;
    let started = Instant::now();
    while started.elapsed() < Duration::from_millis(300) {
        match busy.write(&[7; 65536]) {
            Ok(count) => written += count as u64,
            Err(_) => sleep(Duration::from_millis(5)),
        }
    }
    broker.cut();
    assert_eq!(broker.open_flows(), 0);
    let mut told: Vec<Closed> = closed.try_iter().collect();
    told.sort_by_key(|one| one.connection.flow);
    assert_eq!(told.iter().map(|one| one.cut).collect::<Vec<_>>(), [true, true]);
    assert_eq!(told[0].stats.sent_bytes, 0);
    assert!(told[1].stats.sent_bytes < written, "{written}: {told:?}");
    let reset = busy_peer.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    // The other goes on as long as the engine does.
    drop(idle);
    assert_eq!(idle_peer.read(&mut [0]).unwrap(), 0);
}
