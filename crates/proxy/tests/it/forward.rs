//! Forwarding: every byte arrives, and every way to end a connection is carried to the other side.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::mpsc;
use std::time::Duration;

use crate::common::*;
use cellpace_proxy::socks5::Target;
use cellpace_proxy::{ProxyMode, ProxyOutcome, StopUrgency};

#[test]
fn downloads_of_every_size_arrive_whole() {
    let server = downloads();
    for control in SIDES {
        let mut config = forward(server);
        config.control = control;
        let proxy = Running::start(config);
        for bytes in [0, 1, 1_000_000, 50_000_000] {
            download(proxy.connect(), bytes);
        }
        proxy.await_metric("cellpace_proxy_ended_total{how=\"finished\"} 4");
        proxy.await_metric("cellpace_proxy_bytes_total{direction=\"to_client\"} 51000001");
        proxy.await_metric("cellpace_proxy_bytes_total{direction=\"to_upstream\"} 32");
    }
}

#[test]
fn uploads_of_every_size_arrive_whole_and_end_by_a_half_close() {
    let server = uploads();
    for control in SIDES {
        let mut config = forward(server);
        config.control = control;
        let proxy = Running::start(config);
        for bytes in [0, 1, 1_000_000, 50_000_000] {
            upload(proxy.connect(), bytes);
        }
    }
}

#[test]
fn twenty_at_once_arrive_whole() {
    let proxy = Running::start(forward(downloads()));
    std::thread::scope(|scope| {
        for n in 0..20 {
            let stream = proxy.connect();
            scope.spawn(move || download(stream, 1_000_000 + n));
        }
    });
    proxy.await_metric("cellpace_proxy_ended_total{how=\"finished\"} 20");
    assert_eq!(*proxy.uncontrolled.lock().unwrap(), 0);
}

#[test]
fn a_server_that_ends_first_still_gets_the_rest() {
    for control in SIDES {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let mut config = forward(server(move |mut stream| {
            stream.write_all(b"hello").unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
            let mut rest = Vec::new();
            stream.read_to_end(&mut rest).unwrap();
            sender.lock().unwrap().send(rest).unwrap();
        }));
        config.control = control;
        let proxy = Running::start(config);
        let mut client = proxy.connect();
        let mut hello = Vec::new();
        client.read_to_end(&mut hello).unwrap();
        assert_eq!(hello, b"hello");
        client.write_all(b"and goodbye").unwrap();
        drop(client);
        assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), b"and goodbye", "{control:?}");
    }
}

#[test]
fn a_reset_by_the_server_is_a_reset_for_the_client() {
    for control in SIDES {
        let mut config = forward(server(|mut stream| {
            stream.read_exact(&mut [0]).unwrap();
            reset(stream);
        }));
        config.control = control;
        let proxy = Running::start(config);
        let mut client = proxy.connect();
        client.write_all(b"x").unwrap();
        let error = client.read(&mut [0]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionReset, "{control:?}");
        proxy.await_metric("cellpace_proxy_ended_total{how=\"reset\"} 1");
    }
}

/// What a server sees of a client that does something and resets.
fn seen_by_the_server(
    control: cellpace_proxy::ControlledSide,
    client: impl FnOnce(TcpStream),
) -> Option<ErrorKind> {
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let mut config = forward(server(move |mut stream| {
        stream.write_all(b"hello").unwrap();
        // The first end may be one in order, of one direction.
        let mut seen = stream.read(&mut [0; 16]);
        while matches!(seen, Ok(1..)) {
            seen = stream.read(&mut [0; 16]);
        }
        while seen.is_ok() && stream.write_all(b"more").is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            seen = socket2::SockRef::from(&stream)
                .take_error()
                .map_or_else(Err, |error| error.map_or(Ok(0), Err));
        }
        sender.lock().unwrap().send(seen.err().map(|error| error.kind())).unwrap();
    }));
    config.control = control;
    let proxy = Running::start(config);
    let mut stream = proxy.connect();
    stream.read_exact(&mut [0; 5]).unwrap();
    client(stream);
    receiver.recv_timeout(PATIENCE).unwrap()
}

#[test]
fn a_reset_by_the_client_is_a_reset_for_the_server() {
    for control in SIDES {
        let seen = seen_by_the_server(control, reset);
        assert_eq!(seen, Some(ErrorKind::ConnectionReset), "{control:?}");
    }
}

#[test]
fn a_reset_after_a_half_close_is_found_out() {
    for control in SIDES {
        let (sender, receiver) = mpsc::channel();
        let sender = Mutex::new(sender);
        let mut config = forward(server(move |mut stream| {
            assert_eq!(stream.read(&mut [0]).unwrap(), 0);
            sender.lock().unwrap().send(()).unwrap();
            // The peer sends nothing, so only an error can end this read.
            let error = loop {
                match socket2::SockRef::from(&stream).take_error().unwrap() {
                    Some(error) => break error,
                    None => std::thread::sleep(Duration::from_millis(5)),
                }
            };
            // So Linux calls a reset after the other side's end.
            assert_eq!(error.kind(), ErrorKind::BrokenPipe);
            sender.lock().unwrap().send(()).unwrap();
        }));
        config.control = control;
        let proxy = Running::start(config);
        let client = proxy.connect();
        client.shutdown(Shutdown::Write).unwrap();
        receiver.recv_timeout(PATIENCE).unwrap();
        reset(client);
        receiver.recv_timeout(PATIENCE).unwrap_or_else(|_| panic!("no reset, {control:?}"));
    }
}

#[test]
fn an_idle_connection_is_closed_and_a_busy_one_is_not() {
    let mut config = forward(echo());
    config.limits.idle = MOMENT;
    let proxy = Running::start(config);
    let mut busy = proxy.connect();
    let mut idle = proxy.connect();
    exchange(&mut idle);
    idle.set_nonblocking(true).unwrap();
    // The idle one must go while the busy one is never idle for long.
    while let Err(error) = idle.read(&mut [0]) {
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        exchange(&mut busy);
        std::thread::sleep(Duration::from_millis(5));
    }
    exchange(&mut busy);
    proxy.await_metric("cellpace_proxy_ended_total{how=\"idle\"} 1");
    proxy.await_metric("cellpace_proxy_connections_open 1");
}

#[test]
fn connections_beyond_the_limit_wait_and_are_served_later() {
    let mut config = forward(echo());
    config.limits.connections = 2;
    let proxy = Running::start(config);
    let (mut one, mut two, mut three) = (proxy.connect(), proxy.connect(), proxy.connect());
    exchange(&mut one);
    exchange(&mut two);
    three.write_all(b"ping").unwrap();
    three.set_read_timeout(Some(MOMENT)).unwrap();
    let error = three.read(&mut [0; 4]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::WouldBlock, "there are two already");
    drop(one);
    three.set_read_timeout(Some(PATIENCE)).unwrap();
    three.read_exact(&mut [0; 4]).unwrap();
    exchange(&mut two);
}

/// A connection from another address of this machine.
fn connect_from(address: &str, proxy: &Running) -> TcpStream {
    let kind = socket2::Type::STREAM;
    let socket = socket2::Socket::new(socket2::Domain::IPV4, kind, None).unwrap();
    let from: std::net::SocketAddr = format!("{address}:0").parse().unwrap();
    socket.bind(&from.into()).unwrap();
    socket.connect(&proxy.address.into()).unwrap();
    let stream = TcpStream::from(socket);
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

#[test]
fn one_client_does_not_take_all_places() {
    let mut config = forward(echo());
    config.limits.connections = 64;
    config.limits.per_client = Some(16);
    let proxy = Running::start(config);
    let idle: Vec<_> = (0..64).map(|_| proxy.connect()).collect();
    proxy.await_metric("cellpace_proxy_refused_total{reason=\"client_limit\"} 48");
    proxy.await_metric("cellpace_proxy_connections_open 16");
    exchange(&mut connect_from("127.0.0.2", &proxy));
    // Which of them are served is the order of arrival.
    let error = (&idle[63]).read(&mut [0]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionReset);
    let mut first = idle.into_iter().next().unwrap();
    exchange(&mut first);
    // The places of the others are free again.
    proxy.await_metric("cellpace_proxy_connections_open 1");
    exchange(&mut proxy.connect());
}

#[test]
fn idle_connections_go_early_while_nearly_all_places_are_taken() {
    let mut config = forward(echo());
    config.limits.connections = 16;
    config.limits.crowded_idle = MOMENT;
    let proxy = Running::start(config);
    let mut kept: Vec<_> = (0..14).map(|_| proxy.connect()).collect();
    for stream in &mut kept {
        exchange(stream);
    }
    std::thread::sleep(2 * MOMENT);
    kept.iter_mut().for_each(exchange);
    let mut more: Vec<_> = (0..2).map(|_| proxy.connect()).collect();
    more.iter_mut().for_each(exchange);
    // Places become free, up to where there is no crowd; then the rest may stay idle.
    let start = std::time::Instant::now();
    let mut late = proxy.connect();
    exchange(&mut late);
    assert!(start.elapsed() < PATIENCE / 2);
    let text = proxy.metrics_text();
    assert!(text.contains("cellpace_proxy_ended_total{how=\"idle\"}"), "{text}");
}

#[test]
fn a_client_that_does_not_read_stops_the_server() {
    const ALL: u64 = 200_000_000;
    let (sender, receiver) = mpsc::channel();
    let sender = Mutex::new(sender);
    let server = server(move |mut stream| {
        stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
        let chunk = vec![7; 1 << 16];
        let mut sent = 0;
        while sent < ALL {
            match stream.write(&chunk) {
                Ok(count) => sent += count as u64,
                Err(_) => break,
            }
        }
        sender.lock().unwrap().send(sent).unwrap();
        // The client goes first.
        let _ = stream.read(&mut [0]);
    });
    let proxy = Running::start(forward(server));
    let mut client = proxy.connect();
    let sent = receiver.recv_timeout(PATIENCE).unwrap();
    assert!(sent < 100_000_000, "{sent} bytes went somewhere");
    // All of it is still there, and nothing else.
    let mut left = sent;
    let mut buffer = vec![0; 1 << 16];
    while left > 0 {
        let count = client.read(&mut buffer).unwrap();
        assert!(count > 0 && buffer[..count].iter().all(|&byte| byte == 7));
        left -= count as u64;
    }
    client.set_read_timeout(Some(MOMENT)).unwrap();
    assert_eq!(client.read(&mut buffer).unwrap_err().kind(), ErrorKind::WouldBlock);
}

#[test]
fn a_destination_that_refuses_closes_the_client() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Running::start(forward(nobody));
    let mut client = proxy.connect();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    proxy.await_metric("cellpace_proxy_refused_total{reason=\"unreachable\"} 1");
    // The metric comes first.
    let end = std::time::Instant::now() + PATIENCE;
    while proxy.closed.lock().unwrap().is_empty() && std::time::Instant::now() < end {
        std::thread::sleep(Duration::from_millis(2));
    }
    assert!(proxy.closed.lock().unwrap()[0].contains("cannot reach"));
}

#[test]
fn names_are_resolved_and_unknown_names_close_the_client() {
    let port = echo().port();
    let proxy = Running::start(config(ProxyMode::Forward(Target::Name("localhost".into(), port))));
    exchange(&mut proxy.connect());
    let unknown = Target::Name("no-such-host.invalid".into(), port);
    let proxy = Running::start(config(ProxyMode::Forward(unknown)));
    assert!(matches!(proxy.connect().read(&mut [0]), Ok(0) | Err(_)));
}

#[test]
fn draining_lets_open_connections_end_and_takes_no_more() {
    let proxy = Running::start(forward(echo()));
    let mut open = proxy.connect();
    exchange(&mut open);
    proxy.stop(StopUrgency::Drain);
    while TcpStream::connect(proxy.address).is_ok() {
        std::thread::sleep(Duration::from_millis(5));
    }
    exchange(&mut open);
    drop(open);
    assert_eq!(proxy.ended(), ProxyOutcome { cut: 0 });
}

#[test]
fn what_does_not_end_in_time_is_cut_by_a_reset() {
    let mut config = forward(echo());
    config.limits.drain = MOMENT;
    let proxy = Running::start(config);
    let mut open = proxy.connect();
    exchange(&mut open);
    proxy.stop(StopUrgency::Drain);
    assert_eq!(open.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(proxy.ended(), ProxyOutcome { cut: 1 });
}

#[test]
fn a_second_request_to_stop_cuts_at_once() {
    let mut config = forward(echo());
    config.limits.drain = PATIENCE * 60;
    let proxy = Running::start(config);
    let mut open = proxy.connect();
    exchange(&mut open);
    proxy.stop(StopUrgency::Drain);
    exchange(&mut open);
    proxy.stop(StopUrgency::Now);
    assert_eq!(open.read(&mut [0]).unwrap_err().kind(), ErrorKind::ConnectionReset);
    assert_eq!(proxy.ended(), ProxyOutcome { cut: 1 });
}

#[test]
fn several_listeners_serve_the_same() {
    let mut config = forward(echo());
    config.listen.push("127.0.0.1:0".parse().unwrap());
    let proxy = cellpace_proxy::Proxy::bind(config.clone(), Vec::new()).unwrap();
    assert_ne!(proxy.addresses()[0], proxy.addresses()[1]);
    config.listen = proxy.addresses().to_vec();
    drop(proxy);
    let running = Running::start(config.clone());
    for address in &config.listen {
        exchange(&mut connect(*address));
    }
    running.await_metric("cellpace_proxy_connections_total 2");
}
