//! The control socket, with clients as they should not be.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::mpsc::{Receiver, channel};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::client::{ADOPT, NONCE, ask, connection, dial, greeted, is_refused, receive, send};
use cellpace_control::message::{Ask, AskOutcome, ControlSession, GREETING_LEN, hello};
use cellpace_control::{FlowName, Owner};
use cellpace_run::{Broker, BrokerConfig, ClosedConnection};
use cellpace_tcp::{ControlOptions, RelayEngine};
use rustix::net::{
    AddressFamily, SendFlags, SocketAddrUnix, SocketFlags, SocketType, connect, getpeername,
    socket_with,
};

fn broker() -> (Broker, Receiver<ClosedConnection>) {
    with(|_| {})
}

fn with(change: impl FnOnce(&mut BrokerConfig)) -> (Broker, Receiver<ClosedConnection>) {
    let mut config = BrokerConfig::new(ControlOptions::new("cubic".parse().unwrap()));
    change(&mut config);
    let (sender, closed) = channel();
    let report = move |one| drop(sender.send(one));
    (Broker::start(&RelayEngine::new(), &config, report).unwrap(), closed)
}

/// The application's end of a connection that was taken over, and the peer.
fn adopted(broker: &Broker) -> (UnixStream, TcpStream) {
    let (ours, peer) = connection();
    let (answer, end) = ask(broker.name(), broker.token(), ADOPT, &[ours.as_fd()]).unwrap();
    assert_eq!(answer.outcome, AskOutcome::Done);
    (UnixStream::from(end.unwrap()), peer)
}

#[test]
fn a_connection_is_taken_over_and_its_end_is_reported() {
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
fn the_tcp_socket_of_a_flow_is_lent_to_who_has_its_end_and_to_nobody_else() {
    let (broker, _closed) = broker();
    let (end, peer) = adopted(&broker);
    let copy = end.try_clone().unwrap();
    for end in [&end, &copy] {
        let fetch = Ask::Fetch { flow: 1, linger: false };
        let (answer, tcp) = ask(broker.name(), broker.token(), fetch, &[end.as_fd()]).unwrap();
        assert_eq!(answer.outcome, AskOutcome::Done);
        let tcp = TcpStream::from(tcp.unwrap());
        assert_eq!(tcp.peer_addr().unwrap(), peer.local_addr().unwrap());
    }
    let (other, _other_peer) = adopted(&broker);
    let (stranger, _pair) = UnixStream::pair().unwrap();
    for (flow, fds) in [
        (1, [].as_slice()),
        (1, &[other.as_fd()]),
        (1, &[stranger.as_fd()]),
        (1, &[peer.as_fd()]),
        (1, &[end.as_fd(), end.as_fd()]),
        (0, &[end.as_fd()]),
        (2, &[end.as_fd()]),
        (u64::MAX, &[end.as_fd()]),
    ] {
        is_refused(&ask(broker.name(), broker.token(), Ask::Fetch { flow, linger: false }, fds));
    }
}

#[test]
fn one_greeting_is_enough_for_all_that_a_process_asks() {
    let (broker, _closed) = broker();
    let socket = dial(broker.name());
    let session = greeted(&socket);
    let mut kept = Vec::new();
    for flows in 1..=3 {
        let (ours, peer) = connection();
        send(&socket, &session.request(broker.token(), ADOPT), &[ours.as_fd()]);
        let (answer, end) = receive(&socket).unwrap();
        assert_eq!((answer.outcome, broker.open_flows()), (AskOutcome::Done, flows));
        kept.push((end, peer));
    }
    // What proves nothing ends it, here as at first.
    let (ours, _peer) = connection();
    send(&socket, &session.request(&[0; 32], ADOPT), &[ours.as_fd()]);
    assert!(receive(&socket).is_none());
}

#[test]
fn who_awaits_no_answer_keeps_its_socket_and_where_that_cannot_be_it_asks_anew() {
    let (broker, _closed) = broker();
    let socket = dial(broker.name());
    let session = greeted(&socket);
    let (mut ours, mut peer) = connection();
    let (nonblocking, outgoing, connecting, unawaited) = (true, false, false, true);
    let in_place = Ask::Adopt { nonblocking, outgoing, connecting, unawaited, descriptor: 9 };
    // The gate has to relay.
    send(&socket, &session.request(broker.token(), in_place), &[ours.as_fd()]);
    assert!(receive(&socket).is_none());
    assert_eq!(broker.open_flows(), 0);
    ours.write_all(b"plain").unwrap();
    let mut received = [0; 5];
    peer.read_exact(&mut received).unwrap();
    assert_eq!(&received, b"plain");
}

#[test]
fn a_nonblocking_end_is_made_on_request() {
    let (broker, _closed) = broker();
    for nonblocking in [false, true] {
        let (ours, _peer) = connection();
        let ask_for = Ask::Adopt {
            nonblocking,
            outgoing: false,
            connecting: false,
            unawaited: false,
            descriptor: 9,
        };
        let (_, end) = ask(broker.name(), broker.token(), ask_for, &[ours.as_fd()]).unwrap();
        let flags = rustix::fs::fcntl_getfl(end.unwrap()).unwrap();
        assert_eq!(flags.contains(rustix::fs::OFlags::NONBLOCK), nonblocking);
    }
}

#[test]
fn without_the_token_nothing_is_done_and_the_connection_is_as_it_was() {
    let (broker, _closed) = broker();
    let (mut ours, mut peer) = connection();
    let mut token = *broker.token();
    token[31] ^= 1;
    is_refused(&ask(broker.name(), &token, ADOPT, &[ours.as_fd()]));
    let (end, _other) = adopted(&broker);
    is_refused(&ask(broker.name(), &token, Ask::Fetch { flow: 1, linger: false }, &[end.as_fd()]));
    assert_eq!(broker.open_flows(), 1);
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
        is_refused(&ask(broker.name(), broker.token(), ADOPT, &[fd]));
    }
    let (ours, _peer) = connection();
    is_refused(&ask(broker.name(), broker.token(), ADOPT, &[]));
    is_refused(&ask(broker.name(), broker.token(), ADOPT, &[ours.as_fd(), ours.as_fd()]));
    assert_eq!(broker.open_flows(), 0);
}

#[test]
fn the_broker_proves_that_it_knows_the_token_before_it_is_asked() {
    let (broker, _closed) = broker();
    let mut seen = Vec::new();
    for _ in 0..2 {
        let socket = dial(broker.name());
        send(&socket, &hello(&NONCE), &[]);
        let mut bytes = [0; GREETING_LEN];
        rustix::io::read(&socket, &mut bytes).unwrap();
        assert!(ControlSession::greeted(NONCE, &bytes, broker.token()).is_some());
        assert!(ControlSession::greeted(NONCE, &bytes, &[0; 32]).is_none());
        assert!(!bytes.windows(4).any(|part| part == &broker.token()[..4]));
        seen.push(bytes);
    }
    assert_ne!(seen[0], seen[1], "the nonce is new each time");
}

#[test]
fn a_request_of_another_connection_is_not_served() {
    let (broker, _closed) = broker();
    let (ours, _peer) = connection();
    let first = greeted(&dial(broker.name())).request(broker.token(), ADOPT);
    let socket = dial(broker.name());
    greeted(&socket);
    send(&socket, &first, &[ours.as_fd()]);
    is_refused(&receive(&socket));
    assert_eq!(broker.open_flows(), 0);
}

#[test]
fn rubbish_is_answered_with_the_end_of_the_connection() {
    let (broker, _closed) = broker();
    for is_greeted in [false, true] {
        let request = greeted(&dial(broker.name()))
            .request(broker.token(), Ask::Fetch { flow: 1, linger: false });
        let rubbish: [&[u8]; 6] =
            [b"x", &[0; 32], &[0xff; 200], &request[..31], &request, &[0; 60_000]];
        for bytes in rubbish {
            let socket = dial(broker.name());
            if is_greeted {
                greeted(&socket);
            }
            let (ours, _peer) = connection();
            send(&socket, bytes, &[ours.as_fd(); 8]);
            is_refused(&receive(&socket));
        }
    }
    adopted(&broker);
}

#[test]
fn clients_that_say_nothing_are_sent_away_and_others_wait_for_their_place() {
    let (broker, _closed) = with(|config| {
        config.most_clients = 4;
        config.patience = Duration::from_millis(300);
    });
    for is_greeted in [false, true] {
        let silent: Vec<OwnedFd> = (0..12).map(|_| dial(broker.name())).collect();
        if is_greeted {
            // Some may have been sent away by now.
            let greet = |socket| rustix::net::send(socket, &hello(&NONCE), SendFlags::NOSIGNAL);
            silent.iter().for_each(|socket| _ = greet(socket));
        }
        let started = Instant::now();
        adopted(&broker);
        assert!(started.elapsed() < Duration::from_secs(5));
    }
}

#[test]
fn clients_that_go_away_do_no_harm() {
    let (broker, _closed) = broker();
    for _ in 0..50 {
        drop(dial(broker.name()));
        let socket = dial(broker.name());
        let session = greeted(&socket);
        let (ours, _peer) = connection();
        send(&socket, &session.request(broker.token(), ADOPT), &[ours.as_fd()]);
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

#[test]
fn a_broker_that_was_just_woken_ends() {
    let (sender, ended) = channel();
    std::thread::spawn(move || {
        for _ in 0..2000 {
            let (broker, _closed) = broker();
            broker.wait(Duration::ZERO);
            drop(broker);
        }
        sender.send(()).unwrap();
    });
    ended.recv_timeout(Duration::from_secs(20)).unwrap();
}

const OPEN: Ask = Ask::Adopt {
    nonblocking: true,
    outgoing: true,
    connecting: true,
    unawaited: false,
    descriptor: 9,
};

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
    let (answer, end) = ask(broker.name(), broker.token(), OPEN, &[socket.as_fd()]).unwrap();
    assert_eq!(answer.outcome, AskOutcome::Done);
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
    let connection = closed.recv_timeout(Duration::from_secs(10)).unwrap();
    assert!(connection.connection.outgoing && !connection.cut);
    assert_eq!((connection.stats.sent_bytes, connection.stats.received_bytes), (4, 6));
}

#[test]
fn beyond_the_limit_on_flows_connections_are_left_to_the_program() {
    let (sender, closed) = channel();
    let config = BrokerConfig::new(ControlOptions::new("cubic".parse().unwrap()));
    let report = move |one| drop(sender.send(one));
    let broker = Broker::start(&RelayEngine::limited(2), &config, report).unwrap();
    let (_first, _peer) = adopted(&broker);
    let (_listener, _waiting, socket) = opening();
    let (answer, _end) = ask(broker.name(), broker.token(), OPEN, &[socket.as_fd()]).unwrap();
    assert_eq!(answer.outcome, AskOutcome::Done);
    // One that is being opened counts.
    is_refused(&ask(broker.name(), broker.token(), OPEN, &[opening().2.as_fd()]));
    let (second, peer) = adopted(&broker);
    let (mut ours, mut other) = connection();
    is_refused(&ask(broker.name(), broker.token(), ADOPT, &[ours.as_fd()]));
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
fn cut_flows_are_reported_and_those_with_data_left_are_reset() {
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
    let mut closed_ones: Vec<ClosedConnection> = closed.try_iter().collect();
    closed_ones.sort_by_key(|one| one.connection.flow);
    assert_eq!(closed_ones.iter().map(|one| one.cut).collect::<Vec<_>>(), [true, true]);
    assert_eq!(closed_ones[0].stats.sent_bytes, 0);
    assert!(closed_ones[1].stats.sent_bytes < written, "{written}: {closed_ones:?}");
    let reset = busy_peer.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(reset.kind(), std::io::ErrorKind::ConnectionReset);
    // The other goes on as long as the engine does.
    drop(idle);
    assert_eq!(idle_peer.read(&mut [0]).unwrap(), 0);
}
