//! The client/server driver between real sockets over loopback.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::time::{Duration, Instant};

use cellpace_alcc::{AlccConfig, AlccConnection, AlccError, AlccRole, frame, hello};
use cellpace_base::{Span, Time};
use cellpace_tcp::{
    AlccLimits, AlccStream, ClientServerOptions, FlowDriver, FlowHandle, FlowOptions, FlowOutcome,
    RelayEngine, TcpError,
};

const PATIENCE: Duration = Duration::from_secs(20);
const LISTEN: AlccRole = AlccRole::Listen { wait: None };

fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let two = listener.accept().unwrap().0;
    for end in [&one, &two] {
        end.set_read_timeout(Some(PATIENCE)).unwrap();
        end.set_write_timeout(Some(PATIENCE)).unwrap();
    }
    (one, two)
}

fn options(cc: &str, role: AlccRole) -> FlowOptions {
    limited(cc, role, AlccLimits::default())
}

fn limited(cc: &str, role: AlccRole, limits: AlccLimits) -> FlowOptions {
    let driver = ClientServerOptions { limits, ..ClientServerOptions::new(role) };
    FlowOptions {
        driver: FlowDriver::ClientServer(driver),
        ..FlowOptions::new(cc.parse().unwrap())
    }
}

fn both(engine: &RelayEngine, cc: &str) -> (AlccStream, AlccStream) {
    let (one, two) = pair();
    let client = AlccStream::new(engine, one, &options(cc, AlccRole::Connect)).unwrap();
    let server = AlccStream::new(engine, two, &options(cc, LISTEN)).unwrap();
    (client, server)
}

fn bytes(length: usize) -> Vec<u8> {
    (0..length as u64).map(|at| (at.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 56) as u8).collect()
}

fn soon(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

fn read_all(mut stream: AlccStream) -> (Vec<u8>, AlccStream) {
    let mut got = Vec::new();
    stream.read_to_end(&mut got).unwrap();
    (got, stream)
}

fn ends_with(flow: &FlowHandle, error: AlccError) {
    assert_eq!(flow.wait(PATIENCE), Some(FlowOutcome::Alcc(error)));
}

/// The hello of a peer that is played by hand.
fn hello() -> Vec<u8> {
    let mut first = Vec::new();
    let config = AlccConfig::new("fixed:cwnd=20pkts".parse().unwrap(), 1);
    let mut connection = AlccConnection::new(Time::ZERO, AlccRole::Connect, &config).unwrap();
    connection.poll_output(Time::ZERO, &mut first, usize::MAX);
    first
}

/// A listening stream and a client that has said hello, by hand, and read the answer.
fn server_of_a_client(engine: &RelayEngine, options: &FlowOptions) -> (AlccStream, TcpStream) {
    let (mut one, two) = pair();
    let server = AlccStream::new(engine, two, options).unwrap();
    one.write_all(&hello()).unwrap();
    let mut answer = [0; hello::MAGIC.len() + 2];
    one.read_exact(&mut answer).unwrap();
    assert_eq!(answer[..8], hello::MAGIC);
    let length = usize::from(u16::from_be_bytes([answer[8], answer[9]]));
    one.read_exact(&mut vec![0; length - answer.len()]).unwrap();
    (server, one)
}

#[test]
fn data_goes_both_ways_under_controllers_with_and_without_a_half() {
    for cc in ["copa", "verus", "sprout"] {
        let engine = RelayEngine::new();
        // Sprout's model ends at 12 Mbit/s.
        let length = if cc == "sprout" { 600_000 } else { 4_000_000 };
        let (client, server) = both(&engine, cc);
        let flows = [client.flow().clone(), server.flow().clone()];
        let ends = [client, server].map(|stream| {
            let (local, flow) = stream.into_parts();
            let mut writer = local.try_clone().unwrap();
            std::thread::spawn(move || {
                writer.write_all(&bytes(length)).unwrap();
                writer.shutdown(Shutdown::Write).unwrap();
            });
            std::thread::spawn(move || {
                let mut got = Vec::new();
                (&local).read_to_end(&mut got).unwrap();
                drop(flow);
                got
            })
        });
        for end in ends {
            assert!(end.join().unwrap() == bytes(length), "{cc}");
        }
        for flow in flows {
            assert_eq!(flow.wait(PATIENCE), Some(FlowOutcome::Finished), "{cc}");
            let stats = flow.stats();
            assert_eq!(stats.acked_bytes, length as u64, "{cc}");
            assert_eq!(stats.received_bytes, length as u64, "{cc}");
            assert!(stats.srtt.is_some() && stats.in_flight == 0, "{cc}: {stats:?}");
        }
    }
}

#[test]
fn a_half_close_leaves_the_other_direction_open() {
    let engine = RelayEngine::new();
    let (mut client, mut server) = both(&engine, "copa");
    client.write_all(b"question").unwrap();
    client.finish().unwrap();
    let mut got = Vec::new();
    server.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"question");
    std::thread::sleep(Duration::from_millis(50));
    let answer = bytes(1_000_000);
    let expected = answer.clone();
    let writer = std::thread::spawn(move || {
        server.write_all(&answer).unwrap();
        server.shutdown(PATIENCE).unwrap();
    });
    let (got, client) = read_all(client);
    assert!(got == expected);
    writer.join().unwrap();
    assert_eq!(client.flow().wait(PATIENCE), Some(FlowOutcome::Finished));
}

#[test]
fn shutdown_waits_for_the_peers_ack_and_no_longer() {
    let engine = RelayEngine::new();
    let (mut client, server) = both(&engine, "copa");
    let reader = std::thread::spawn(move || read_all(server));
    client.write_all(&bytes(1_000_000)).unwrap();
    client.shutdown(PATIENCE).unwrap();
    // The other direction is open all this time.
    let (got, server) = reader.join().unwrap();
    assert_eq!(got.len(), 1_000_000);
    let flow = server.flow().clone();
    drop(server);
    assert_eq!(flow.wait(PATIENCE), Some(FlowOutcome::Finished));
}

#[test]
fn what_comes_for_an_application_that_has_closed_ends_the_connection() {
    let engine = RelayEngine::new();
    let (client, mut server) = both(&engine, "copa");
    server.write_all(b"welcome").unwrap();
    drop(client);
    soon("writing fails", || {
        std::thread::sleep(Duration::from_millis(10));
        server.write(b"more").is_err()
    });
    assert!(!matches!(server.flow().wait(PATIENCE), None | Some(FlowOutcome::Finished)));
}

#[test]
fn a_listening_end_meets_a_plain_client() {
    let engine = RelayEngine::new();
    // The first bytes of the magic, too, belong to the application if the others do not follow.
    for first in [&b""[..], &[0xf5, b'C', b'P']] {
        let (one, two) = pair();
        let server = AlccStream::new(&engine, two, &options("copa", LISTEN)).unwrap();
        let sent = [first, &bytes(3_000_000)].concat();
        let expected = sent.clone();
        let mut client = one.try_clone().unwrap();
        let writer = std::thread::spawn(move || {
            client.write_all(&sent).unwrap();
            client.shutdown(Shutdown::Write).unwrap();
        });
        let (got, mut server) = read_all(server);
        assert!(got == expected);
        writer.join().unwrap();
        let answer = bytes(2_000_000);
        let expected = answer.clone();
        let writer = std::thread::spawn(move || {
            server.write_all(&answer).unwrap();
            let flow = server.flow().clone();
            server.shutdown(PATIENCE).unwrap();
            flow.stats()
        });
        let mut got = Vec::new();
        (&one).read_to_end(&mut got).unwrap();
        assert!(got == expected);
        let stats = writer.join().unwrap();
        assert_eq!(stats.acked_bytes, 2_000_000);
        assert!(stats.cwnd < u64::MAX && stats.srtt.is_some(), "under the controller: {stats:?}");
    }
}

#[test]
fn a_listening_end_that_speaks_first_waits_its_time() {
    let engine = RelayEngine::new();
    let (mut one, two) = pair();
    let role = AlccRole::Listen { wait: Some(Span::from_millis(50)) };
    let mut server = AlccStream::new(&engine, two, &options("copa", role)).unwrap();
    server.write_all(b"220 ready\r\n").unwrap();
    let mut got = [0; 11];
    one.read_exact(&mut got).unwrap();
    assert_eq!(&got, b"220 ready\r\n");
    one.write_all(b"QUIT").unwrap();
    drop(one);
    assert_eq!(read_all(server).0, b"QUIT");
}

#[test]
fn a_client_that_only_closes_is_plain() {
    let engine = RelayEngine::new();
    let (mut one, two) = pair();
    let mut server = AlccStream::new(&engine, two, &options("copa", LISTEN)).unwrap();
    one.shutdown(Shutdown::Write).unwrap();
    assert_eq!(server.read(&mut [0; 10]).unwrap(), 0);
    server.write_all(b"goodbye").unwrap();
    server.shutdown(PATIENCE).unwrap();
    let mut got = Vec::new();
    one.read_to_end(&mut got).unwrap();
    assert_eq!(got, b"goodbye");
}

#[test]
fn a_connecting_end_with_a_plain_server_fails() {
    let engine = RelayEngine::new();
    let (one, mut two) = pair();
    let mut client = AlccStream::new(&engine, one, &options("copa", AlccRole::Connect)).unwrap();
    client.write_all(b"GET /").unwrap();
    two.write_all(b"400 what?").unwrap();
    ends_with(client.flow(), AlccError::PlainPeer);
    assert_eq!(client.read(&mut [0; 10]).unwrap_or(0), 0);
    assert!(client.write(b"more").is_err());
    let mut got = Vec::new();
    two.read_to_end(&mut got).unwrap();
    assert_eq!(got.len(), hello().len(), "the application's bytes were never sent");
    let error = client.shutdown(PATIENCE).unwrap_err();
    assert!(matches!(error, TcpError::Alcc(AlccError::PlainPeer)), "{error}");
}

#[test]
fn a_connecting_end_without_an_answer_fails_in_time() {
    let engine = RelayEngine::new();
    let (one, mut two) = pair();
    let answer_within = Some(Span::from_millis(100));
    let limits = AlccLimits { answer_within, ..AlccLimits::default() };
    let options = limited("copa", AlccRole::Connect, limits);
    let client = AlccStream::new(&engine, one, &options).unwrap();
    ends_with(client.flow(), AlccError::NoAnswer);
    let mut got = Vec::new();
    two.read_to_end(&mut got).unwrap();
}

#[test]
fn a_half_that_is_not_allowed_is_refused_at_both_ends() {
    let engine = RelayEngine::new();
    let (one, two) = pair();
    let cc = "sprout:max_rate=16000";
    let client = AlccStream::new(&engine, one, &options(cc, AlccRole::Connect)).unwrap();
    let server = AlccStream::new(&engine, two, &options("copa", LISTEN)).unwrap();
    ends_with(client.flow(), AlccError::Refused(hello::Refusal::Controller));
    ends_with(server.flow(), AlccError::Refusing(hello::Refusal::Controller));
}

#[test]
fn garbage_ends_the_connection_and_what_came_before_is_read() {
    let engine = RelayEngine::new();
    let (server, mut client) = server_of_a_client(&engine, &options("copa", LISTEN));
    let mut out = Vec::new();
    frame::write_data(&mut out, &frame::DataHead { number: 1, length: 8, stamp: None });
    out.extend(b"cellpace");
    out.extend([0xee; 100]);
    client.write_all(&out).unwrap();
    assert!(matches!(server.flow().wait(PATIENCE), Some(FlowOutcome::Alcc(AlccError::Frame(_)))));
    assert_eq!(read_all(server).0, b"cellpace");
    let mut rest = Vec::new();
    client.read_to_end(&mut rest).unwrap();
}

#[test]
fn acks_of_what_was_never_sent_end_the_connection() {
    let engine = RelayEngine::new();
    let (server, mut client) = server_of_a_client(&engine, &options("copa", LISTEN));
    let ack = frame::AckFrame { number: 7, written_at: Time::ZERO, held_us: 0, window: 4 << 20 };
    let mut out = Vec::new();
    frame::write_ack(&mut out, &ack);
    client.write_all(&out).unwrap();
    ends_with(server.flow(), AlccError::AckBeyond { acked: 7, sent: 0 });
}

#[test]
fn a_peer_that_never_acks_gets_a_window_and_no_more() {
    let engine = RelayEngine::new();
    let ack_within = Some(Span::from_millis(700));
    let limits = AlccLimits { ack_within, ..AlccLimits::default() };
    let options = limited("fixed:cwnd=100kB", LISTEN, limits);
    let (mut server, mut client) = server_of_a_client(&engine, &options);
    let reader = std::thread::spawn(move || {
        let mut got = Vec::new();
        client.read_to_end(&mut got).unwrap();
        got.len()
    });
    server.set_nonblocking(true).unwrap();
    let sent = bytes(1 << 20);
    let mut accepted = 0;
    while server.flow().outcome().is_none() {
        accepted += server.write(&sent).unwrap_or(0);
        assert!(accepted < 16 << 20, "{accepted} bytes were taken");
        std::thread::sleep(Duration::from_millis(5));
    }
    ends_with(server.flow(), AlccError::Silent);
    assert!(reader.join().unwrap() <= 100_000);
}

#[test]
fn an_application_that_stops_reading_gets_all_when_it_returns() {
    let engine = RelayEngine::new();
    let (client, server) = both(&engine, "copa");
    let length = 12_000_000;
    let (local, flow) = client.into_parts();
    let mut out = local.try_clone().unwrap();
    let writer = std::thread::spawn(move || {
        out.write_all(&bytes(length)).unwrap();
        out.shutdown(Shutdown::Write).unwrap();
    });
    std::thread::sleep(Duration::from_secs(2));
    let waiting = flow.stats();
    assert!(waiting.sent_bytes <= 5 << 20, "the inbox and the socket pair: {waiting:?}");
    // Meanwhile the other direction goes on.
    let (mut server, local) = (server, local);
    server.write_all(b"still here").unwrap();
    let mut got = [0; 10];
    (&local).read_exact(&mut got).unwrap();
    assert_eq!(&got, b"still here");
    let (got, _server) = read_all(server);
    assert!(got == bytes(length));
    writer.join().unwrap();
    soon("everything is acknowledged", || flow.stats().acked_bytes == length as u64);
}

#[test]
fn a_peer_that_stops_reading_tcp_gets_all_when_it_returns() {
    let engine = RelayEngine::new();
    let (mut one, two) = pair();
    let mut server = AlccStream::new(&engine, two, &options("fixed:cwnd=8MB", LISTEN)).unwrap();
    let length = 6_000_000;
    let start = Instant::now();
    let now = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    let config = AlccConfig::new("copa".parse().unwrap(), 1);
    let mut connection = AlccConnection::new(now(), AlccRole::Connect, &config).unwrap();
    let writer = std::thread::spawn(move || {
        server.write_all(&bytes(length)).unwrap();
        server.finish().unwrap();
        server
    });
    connection.finish();
    let (mut got, mut buffer) = (Vec::new(), vec![0; 64 << 10]);
    let mut slept = false;
    while !(connection.is_read() && connection.is_drained()) {
        let mut out = Vec::new();
        connection.poll_output(now(), &mut out, usize::MAX);
        one.write_all(&out).unwrap();
        if connection.is_read() && connection.is_drained() {
            break;
        }
        let count = one.read(&mut buffer).unwrap();
        connection.handle_input(now(), &buffer[..count]).unwrap();
        let (first, second) = connection.readable();
        got.extend_from_slice(first);
        got.extend_from_slice(second);
        connection.consume(usize::MAX);
        if got.len() > 100_000 && !slept {
            slept = true;
            std::thread::sleep(Duration::from_secs(3));
        }
    }
    assert!(got == bytes(length));
    drop(one);
    let server = writer.join().unwrap();
    assert_eq!(server.flow().wait(PATIENCE), Some(FlowOutcome::Finished));
}

#[test]
fn an_abort_resets_a_client_server_connection() {
    let engine = RelayEngine::new();
    let (mut server, mut client) = server_of_a_client(&engine, &options("copa", LISTEN));
    server.write_all(&bytes(10_000)).unwrap();
    server.flow().abort().unwrap();
    assert_eq!(server.flow().wait(PATIENCE), Some(FlowOutcome::Failed(libc::ECONNABORTED)));
    let error = client.read_to_end(&mut Vec::new()).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset);
}

#[test]
fn a_reset_leaves_the_application_what_had_come() {
    let engine = RelayEngine::new();
    let (server, mut client) = server_of_a_client(&engine, &options("copa", LISTEN));
    let mut out = Vec::new();
    let data = bytes(1_000_000);
    frame::write_data(
        &mut out,
        &frame::DataHead { number: 1, length: data.len() as u32, stamp: None },
    );
    out.extend(&data);
    client.write_all(&out).unwrap();
    soon("it comes", || server.stats().received_bytes == 1_000_000);
    socket2::SockRef::from(&client).set_linger(Some(Duration::ZERO)).unwrap();
    drop(client);
    assert_eq!(server.flow().wait(PATIENCE), Some(FlowOutcome::Failed(libc::ECONNRESET)));
    assert!(read_all(server).0 == data);
}
