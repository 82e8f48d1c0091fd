//! SOCKS 5 and the PROXY protocol over real connections, and clients of other protocols.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::time::Duration;

use crate::common::*;
use cellpace_proxy::proxy_header::{Header, ProxiedAddresses, Version, parse};
use cellpace_proxy::socks5::Credentials;
use cellpace_proxy::{ProxyConfig, ProxyMode};

fn request(to: SocketAddr) -> Vec<u8> {
    let SocketAddr::V4(to) = to else { panic!("{to}") };
    [&[5, 1, 0, 1], to.ip().octets().as_slice(), &to.port().to_be_bytes()].concat()
}

fn read<const N: usize>(stream: &mut impl Read) -> [u8; N] {
    let mut bytes = [0; N];
    stream.read_exact(&mut bytes).unwrap();
    bytes
}

#[test]
fn socks_connects_to_what_the_client_names() {
    let proxy = Running::start(config(ProxyMode::Socks5(None)));
    let mut client = proxy.connect();
    client.write_all(&[5, 1, 0]).unwrap();
    assert_eq!(read(&mut client), [5, 0]);
    client.write_all(&request(echo())).unwrap();
    let reply: [u8; 10] = read(&mut client);
    assert_eq!(reply[..8], [5, 0, 0, 1, 127, 0, 0, 1]);
    exchange(&mut client);
}

#[test]
fn socks_from_a_client_that_waits_for_nothing() {
    let proxy = Running::start(config(ProxyMode::Socks5(None)));
    let mut client = proxy.connect();
    let all = [&[5, 1, 0], request(echo()).as_slice(), b"early"].concat();
    for byte in &all {
        client.write_all(&[*byte]).unwrap();
    }
    let answer: [u8; 2 + 10 + 5] = read(&mut client);
    assert_eq!(&answer[12..], b"early");
    exchange(&mut client);
}

#[test]
fn socks_says_why_it_does_not_connect() {
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let proxy = Running::start(config(ProxyMode::Socks5(None)));
    let ask = |request: &[u8]| -> u8 {
        let mut client = proxy.connect();
        client.write_all(&[5, 1, 0]).unwrap();
        assert_eq!(read(&mut client), [5, 0]);
        client.write_all(request).unwrap();
        let mut answer = Vec::new();
        client.read_to_end(&mut answer).unwrap();
        assert_eq!(answer.len(), 10);
        answer[1]
    };
    assert_eq!(ask(&request(nobody)), 5, "refused");
    let mut bind = request(nobody);
    bind[1] = 2;
    assert_eq!(ask(&bind), 7, "not CONNECT");
    let name = b"no-such-host.invalid";
    let unknown = [&[5, 1, 0, 3, name.len() as u8], name.as_slice(), &[0, 80]].concat();
    assert_eq!(ask(&unknown), 4, "no such host");
}

#[test]
fn socks_with_a_password_serves_only_those_who_know_it() {
    let known = Credentials::new(b"me", b"secret").unwrap();
    let proxy = Running::start(config(ProxyMode::Socks5(Some(known))));
    let mut client = proxy.connect();
    client.write_all(&[5, 2, 0, 2]).unwrap();
    assert_eq!(read(&mut client), [5, 2]);
    client.write_all(b"\x01\x02me\x06secret").unwrap();
    assert_eq!(read(&mut client), [1, 0]);
    client.write_all(&request(echo())).unwrap();
    read::<10>(&mut client);
    exchange(&mut client);

    let mut wrong = proxy.connect();
    wrong.write_all(b"\x05\x01\x02\x01\x02me\x06Secret").unwrap();
    let mut answer = Vec::new();
    wrong.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [5, 2, 1, 1]);

    let mut none = proxy.connect();
    none.write_all(&[5, 1, 0]).unwrap();
    let mut answer = Vec::new();
    none.read_to_end(&mut answer).unwrap();
    assert_eq!(answer, [5, 0xff]);
}

/// The code with which a destination is answered to a client of SOCKS.
fn asked(proxy: &Running, to: &[u8]) -> u8 {
    let mut client = connect(([127, 0, 0, 1], proxy.address.port()).into());
    client.write_all(&[&[5, 1, 0], to].concat()).unwrap();
    read::<4>(&mut client)[3]
}

fn by_name(name: &str, port: u16) -> Vec<u8> {
    [&[5, 1, 0, 3, name.len() as u8], name.as_bytes(), &port.to_be_bytes()].concat()
}

const CONNECTED: u8 = 0;
const NOT_ALLOWED: u8 = 2;

#[test]
fn socks_for_other_machines_does_not_lead_to_this_one() {
    let echo = echo();
    let mut public = config(ProxyMode::Socks5(None));
    public.listen = vec!["0.0.0.0:0".parse().unwrap()];
    let proxy = Running::start(public.clone());
    let anywhere = SocketAddr::from(([0, 0, 0, 0], echo.port()));
    for to in [request(echo), request(anywhere), by_name("localhost", echo.port())] {
        assert_eq!(asked(&proxy, &to), NOT_ALLOWED, "{to:?}");
    }
    proxy.await_metric("cellpace_proxy_refused_total{reason=\"denied\"} 3");
    public.access.allow = vec!["127.0.0.1".parse().unwrap()];
    let proxy = Running::start(public);
    assert_eq!(asked(&proxy, &request(echo)), CONNECTED);
}

#[test]
fn socks_leads_only_where_the_rules_let_it() {
    let echo = echo();
    let mut ruled = config(ProxyMode::Socks5(None));
    ruled.access.deny = vec!["127.0.0.0/8".parse().unwrap(), "::/0".parse().unwrap()];
    let proxy = Running::start(ruled.clone());
    assert_eq!(asked(&proxy, &request(echo)), NOT_ALLOWED);
    assert_eq!(asked(&proxy, &by_name("localhost", echo.port())), NOT_ALLOWED);
    ruled.access.allow = vec!["127.0.0.1".parse().unwrap()];
    let proxy = Running::start(ruled);
    assert_eq!(asked(&proxy, &request(echo)), CONNECTED);
    assert_eq!(asked(&proxy, &by_name("localhost", echo.port())), CONNECTED, "its IPv4 address");
}

#[test]
fn socks_does_not_lead_to_the_proxy_itself() {
    let proxy = Running::start(config(ProxyMode::Socks5(None)));
    let port = proxy.address.port();
    for ip in [[127, 0, 0, 1], [0, 0, 0, 0]] {
        assert_eq!(asked(&proxy, &request(SocketAddr::from((ip, port)))), NOT_ALLOWED, "{ip:?}");
    }
    assert_eq!(asked(&proxy, &by_name("localhost", port)), NOT_ALLOWED);
}

#[test]
fn passwords_cannot_be_tried_one_after_the_other() {
    let known = Credentials::new(b"me", b"secret").unwrap();
    let proxy = Running::start(config(ProxyMode::Socks5(Some(known))));
    let start = std::time::Instant::now();
    let tries: Vec<_> = (0..20).map(|_| proxy.connect()).collect();
    for mut client in &tries {
        client.write_all(b"\x05\x01\x02\x01\x02me\x06Secret").unwrap();
    }
    for mut client in &tries {
        assert_eq!(read(&mut client), [5, 2, 1, 1]);
    }
    assert!(start.elapsed() >= Duration::from_secs(1), "a wrong one costs time");
    // Ten were looked at, and so many are enough: the right one is not looked at any more.
    let mut client = proxy.connect();
    client.write_all(b"\x05\x01\x02\x01\x02me\x06secret").unwrap();
    assert_eq!(read(&mut client), [5, 2, 1, 1]);
    let refusal = "too many wrong names or passwords";
    let end = std::time::Instant::now() + PATIENCE;
    while proxy.closed.lock().unwrap().iter().filter(|line| line.contains(refusal)).count() < 11 {
        assert!(std::time::Instant::now() < end, "{:?}", proxy.closed.lock().unwrap());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn the_destination_learns_who_the_client_is() {
    for version in [Version::V1, Version::V2] {
        let mut config = forward(echo());
        config.send_proxy = Some(version);
        let proxy = Running::start(config);
        let mut client = proxy.connect();
        let (source, destination) = (client.local_addr().unwrap(), proxy.address);
        let header = Header { ends: Some(ProxiedAddresses { source, destination }) };
        // Comes without a word from the client, which may be one that listens first.
        let mut bytes = vec![0; header.bytes(version).len()];
        client.read_exact(&mut bytes).unwrap();
        assert_eq!(parse(&bytes), Ok(Some((header, bytes.len()))), "{version:?}");
        exchange(&mut client);
    }
}

fn accepting(from: &str) -> ProxyConfig {
    let mut config = forward(echo());
    config.accept_proxy = vec![from.parse().unwrap()];
    config.send_proxy = Some(Version::V1);
    config
}

#[test]
fn a_header_from_a_listed_network_counts() {
    let proxy = Running::start(accepting("127.0.0.0/8"));
    let header = Header {
        ends: Some(ProxiedAddresses {
            source: "203.0.113.9:4321".parse().unwrap(),
            destination: "198.51.100.1:443".parse().unwrap(),
        }),
    };
    for version in [Version::V1, Version::V2] {
        let mut client = proxy.connect();
        let mut bytes = header.bytes(version);
        bytes.extend(b"hello");
        // In two parts, the second with data.
        client.write_all(&bytes[..9]).unwrap();
        std::thread::sleep(Duration::from_millis(20));
        client.write_all(&bytes[9..]).unwrap();
        let expected = [header.bytes(Version::V1).as_slice(), b"hello"].concat();
        let mut answer = vec![0; expected.len()];
        client.read_exact(&mut answer).unwrap();
        assert_eq!(answer, expected);
        drop(client);
    }
    proxy.await_metric("cellpace_proxy_connections_open 0");
    let closed = proxy.closed.lock().unwrap();
    assert!(closed.iter().all(|line| line.starts_with("203.0.113.9:4321 ")), "{closed:?}");
}

#[test]
fn a_header_from_elsewhere_is_data() {
    let proxy = Running::start(accepting("192.0.2.0/24"));
    let mut client = proxy.connect();
    let claimed = b"PROXY TCP4 203.0.113.9 198.51.100.1 1 2\r\n";
    client.write_all(claimed).unwrap();
    let real =
        format!("PROXY TCP4 127.0.0.1 127.0.0.1 {} {}\r\n", port(&client), proxy.address.port());
    let mut answer = vec![0; real.len() + claimed.len()];
    client.read_exact(&mut answer).unwrap();
    assert_eq!(answer, [real.as_bytes(), claimed].concat());
}

fn port(stream: &std::net::TcpStream) -> u16 {
    stream.local_addr().unwrap().port()
}

#[test]
fn no_header_from_a_listed_network_is_refused() {
    let proxy = Running::start(accepting("127.0.0.1"));
    let mut client = proxy.connect();
    client.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    let mut answer = Vec::new();
    let _ = client.read_to_end(&mut answer);
    assert!(answer.is_empty());
    proxy.await_metric("cellpace_proxy_refused_total{reason=\"proxy_header\"} 1");
}

#[test]
fn a_client_that_says_nothing_is_not_waited_for_for_ever() {
    let mut config = config(ProxyMode::Socks5(None));
    config.limits.handshake = MOMENT;
    let proxy = Running::start(config);
    let mut client = proxy.connect();
    client.write_all(&[5, 200]).unwrap();
    assert!(matches!(client.read(&mut [0]), Ok(0) | Err(_)));
    proxy.await_metric("cellpace_proxy_refused_total{reason=\"handshake_timeout\"} 1");
}

#[test]
fn garbage_harms_nobody_else() {
    let mut config = config(ProxyMode::Socks5(None));
    config.limits.handshake = MOMENT;
    let proxy = Running::start(config);
    let mut made = Made::new(1 << 20);
    for n in 0..60 {
        let mut client = proxy.connect();
        let chunk = made.next_chunk().map_or(&[][..], |chunk| &chunk[..n * 37 % 3000]);
        // Some of it passes for the beginning of SOCKS.
        let start: &[u8] = if n % 2 == 0 { &[5] } else { &[5, 1, 0, 5, 1, 0] };
        let _ = client.write_all(&[start, chunk].concat());
        if n % 3 == 0 {
            reset(client);
        }
    }
    let mut client = proxy.connect();
    client.write_all(&[&[5, 1, 0], request(echo()).as_slice()].concat()).unwrap();
    read::<12>(&mut client);
    exchange(&mut client);
}
