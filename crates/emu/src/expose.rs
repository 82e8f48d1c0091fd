//! Ports of the inside, reachable from where cellpace was started: a relay on the far side, for
//! TCP and UDP. Whoever is on the far side can reach the inside's address itself; this is for
//! others, and it needs neither privilege nor address translation.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::str::FromStr;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::EmuError;

/// Maximum number of connections and peers that are relayed at the same time, per port.
const MAX_RELAYED: usize = 1024;
/// Maximum number of these from one address.
const MAX_PER_CLIENT: usize = 256;
/// A TCP connection is closed when it is idle for this long, or up to twice as long.
const IDLE: Duration = Duration::from_secs(600);
/// A UDP peer is removed when it is silent for this long.
const SILENCE: Duration = Duration::from_secs(60);
/// Timeout of a connection attempt to the inside.
const CONNECT: Duration = Duration::from_secs(30);
/// Size of a buffer in bytes.
const CHUNK: usize = 64 << 10;

/// A port of the inside to expose, as `PORT`, `ADDRESS:PORT` or `[ADDRESS6]:PORT`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Expose {
    /// The address of the machine to listen at. `None`: 127.0.0.1 and ::1.
    pub address: Option<IpAddr>,
    /// The port, here and inside; not 0.
    pub port: u16,
}

impl FromStr for Expose {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed = match text.parse::<SocketAddr>() {
            Ok(socket) => Some(Self { address: Some(socket.ip()), port: socket.port() }),
            Err(_) => text.parse().ok().map(|port| Self { address: None, port }),
        };
        parsed.filter(|expose| expose.port != 0).ok_or_else(|| {
            "a port from 1 to 65535, or an address before it: 8080, 0.0.0.0:8080, [::]:8080"
                .to_owned()
        })
    }
}

impl Expose {
    /// The addresses to listen on.
    fn sockets(self) -> Vec<SocketAddr> {
        let loopback = || vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
        let addresses = self.address.map_or_else(loopback, |address| vec![address]);
        addresses.into_iter().map(|address| SocketAddr::new(address, self.port)).collect()
    }
}

/// A port that is taken, and not relayed yet. Sockets stay in the namespace they were made in, so
/// this belongs where the users are, before any namespace is entered.
pub(crate) struct Exposed {
    port: u16,
    sockets: Vec<(TcpListener, UdpSocket)>,
}

impl Exposed {
    /// Takes a port on its addresses.
    pub(crate) fn bind(expose: Expose) -> Result<Self, EmuError> {
        let Expose { address, port } = expose;
        let mut sockets = Vec::new();
        for socket in expose.sockets() {
            let taken = || Ok((TcpListener::bind(socket)?, UdpSocket::bind(socket)?));
            match taken() {
                Ok(taken) => sockets.push(taken),
                // A machine without IPv6, or without IPv4.
                Err(error) if address.is_none() && has_no_such_address(&error) => {}
                Err(source) => return Err(EmuError::Expose { port, source }),
            }
        }
        match sockets.is_empty() {
            true => {
                let source = io::ErrorKind::AddrNotAvailable.into();
                Err(EmuError::Expose { port, source })
            }
            false => Ok(Self { port, sockets }),
        }
    }

    /// Relays to the inside from now on. The threads end with the process.
    pub(crate) fn relay(self, inside: IpAddr) -> io::Result<()> {
        let to = SocketAddr::new(inside, self.port);
        let places = ClientPlaces::default();
        for (tcp, udp) in self.sockets {
            let places = places.clone();
            thread::Builder::new()
                .name("expose-tcp".into())
                .spawn(move || relay_tcp(&tcp, to, &places))?;
            thread::Builder::new().name("expose-udp".into()).spawn(move || relay_udp(&udp, to))?;
        }
        Ok(())
    }
}

fn has_no_such_address(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EADDRNOTAVAIL | libc::EAFNOSUPPORT))
}

fn relay_tcp(listener: &TcpListener, to: SocketAddr, places: &ClientPlaces) {
    loop {
        let Ok((outer, client)) = listener.accept() else {
            // Out of descriptors, most likely: what is closed meanwhile makes room.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        if let Some(place) = places.take(client.ip()) {
            // A connection for which there is no thread is closed.
            let _ = thread::Builder::new().spawn(move || {
                let _place = place;
                // Its end, good or bad, is the end of both sides.
                let _ = join(&outer, to, IDLE);
            });
        }
    }
}

/// How many connections there are, by client.
#[derive(Clone, Default)]
struct ClientPlaces(Arc<Mutex<HashMap<IpAddr, usize>>>);

/// A place among the connections, given back when it is dropped.
struct ClientPlace {
    places: ClientPlaces,
    client: IpAddr,
}

impl ClientPlaces {
    fn take(&self, client: IpAddr) -> Option<ClientPlace> {
        let client = client.to_canonical();
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let own = open.get(&client).copied().unwrap_or(0);
        if own >= MAX_PER_CLIENT || open.values().sum::<usize>() >= MAX_RELAYED {
            return None;
        }
        open.insert(client, own + 1);
        Some(ClientPlace { places: self.clone(), client })
    }
}

impl Drop for ClientPlace {
    fn drop(&mut self) {
        let mut open = self.places.0.lock().unwrap_or_else(PoisonError::into_inner);
        match open.get_mut(&self.client) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(open.remove(&self.client)),
        }
    }
}

/// Copies both ways until both are at their end, or nothing has been copied for `idle`.
fn join(outer: &TcpStream, to: SocketAddr, idle: Duration) -> io::Result<()> {
    let inner = TcpStream::connect_timeout(&to, CONNECT)?;
    for stream in [outer, &inner] {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(idle))?;
        stream.set_write_timeout(Some(idle))?;
    }
    let copied = &Mutex::new(Instant::now());
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || copy(&inner, outer, copied, idle))?;
        copy(outer, &inner, copied, idle);
        Ok(())
    })
}

/// `copied` is when something was copied last, in either direction.
fn copy(mut from: &TcpStream, mut to: &TcpStream, copied: &Mutex<Instant>, idle: Duration) {
    let copied = || copied.lock().unwrap_or_else(PoisonError::into_inner);
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(length) if length > 0 => {
                *copied() = Instant::now();
                if to.write_all(&buffer[..length]).is_err() {
                    let _ = from.shutdown(Shutdown::Read);
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) if is_timeout(&error) && copied().elapsed() < idle => {}
            Ok(_) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Err(_) => {
                let _ = to.shutdown(Shutdown::Both);
                let _ = from.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn relay_udp(outer: &UdpSocket, to: SocketAddr) {
    let mut peers: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let Ok((length, peer)) = outer.recv_from(&mut buffer) else {
            // The error may be that of an earlier answer; its loss is the peer's concern.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        peers.retain(|_, socket| Arc::strong_count(socket) > 1);
        if let Some(socket) = peers.get(&peer) {
            let _ = socket.send(&buffer[..length]);
            continue;
        }
        let own = peers.keys().filter(|known| known.ip() == peer.ip()).count();
        if peers.len() < MAX_RELAYED
            && own < MAX_PER_CLIENT
            && let Ok(socket) = answer(outer, peer, to)
        {
            let _ = socket.send(&buffer[..length]);
            peers.insert(peer, socket);
        }
    }
}

/// A socket towards the inside for one peer; a thread carries the answers back.
fn answer(outer: &UdpSocket, peer: SocketAddr, to: SocketAddr) -> io::Result<Arc<UdpSocket>> {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let socket = UdpSocket::bind((any, 0))?;
    socket.connect(to)?;
    socket.set_read_timeout(Some(SILENCE))?;
    let (outer, inner) = (outer.try_clone()?, Arc::new(socket));
    let socket = Arc::clone(&inner);
    thread::Builder::new().spawn(move || {
        let mut buffer = vec![0; CHUNK];
        loop {
            match inner.recv(&mut buffer) {
                Ok(length) => drop(outer.send_to(&buffer[..length], peer)),
                // Nobody listens inside, yet.
                Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {}
                Err(_) => return,
            }
        }
    })?;
    Ok(socket)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_reached_on_this_machine_unless_an_address_is_named() {
        let expose = |text: &str| text.parse::<Expose>().map(Expose::sockets);
        let sockets = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect();
        assert_eq!(expose("8080"), Ok(sockets(&["127.0.0.1:8080", "[::1]:8080"])));
        assert_eq!(expose("0.0.0.0:80"), Ok(sockets(&["0.0.0.0:80"])));
        assert_eq!(expose("[::]:80"), Ok(sockets(&["[::]:80"])));
        for text in ["", "0", "0.0.0.0:0", "65536", "host:80", ":80", "::1", "127.0.0.1"] {
            assert!(expose(text).is_err(), "{text}");
        }
    }

    #[test]
    fn one_client_does_not_take_all_places() {
        let places = ClientPlaces::default();
        let client = |number: u8| IpAddr::from([192, 0, 2, number]);
        let taken: Vec<_> = (0..MAX_RELAYED).filter_map(|_| places.take(client(1))).collect();
        assert_eq!(taken.len(), MAX_PER_CLIENT);
        assert!(places.take("::ffff:192.0.2.1".parse().unwrap()).is_none(), "it is the same one");
        let others = (2..20).flat_map(|number| std::iter::repeat_n(client(number), MAX_PER_CLIENT));
        let others: Vec<_> = others.filter_map(|client| places.take(client)).collect();
        assert_eq!(taken.len() + others.len(), MAX_RELAYED);
        drop(taken);
        assert!(places.take(client(1)).is_some());
        drop(others);
        assert!(places.0.lock().unwrap().is_empty());
    }

    /// A client's end and a server's of a connection that is relayed.
    fn joined(idle: Duration) -> (TcpStream, TcpStream, thread::JoinHandle<()>) {
        let listener = || TcpListener::bind("127.0.0.1:0").unwrap();
        let (outside, inside) = (listener(), listener());
        let client = TcpStream::connect(outside.local_addr().unwrap()).unwrap();
        let (outer, to) = (outside.accept().unwrap().0, inside.local_addr().unwrap());
        let relay = thread::spawn(move || join(&outer, to, idle).unwrap());
        let (server, _) = inside.accept().unwrap();
        (client, server, relay)
    }

    #[test]
    fn a_connection_without_traffic_is_closed() {
        let (mut client, mut server, relay) = joined(Duration::from_secs(1));
        // One direction suffices to keep it.
        for _ in 0..15 {
            server.write_all(b"x").unwrap();
            thread::sleep(Duration::from_millis(100));
        }
        client.read_exact(&mut [0; 15]).unwrap();
        assert_eq!((client.read(&mut [0]).unwrap(), server.read(&mut [0]).unwrap()), (0, 0));
        relay.join().unwrap();
    }

    #[test]
    fn a_connection_whose_peer_takes_nothing_is_closed() {
        let (client, mut server, relay) = joined(Duration::from_millis(200));
        while server.write_all(&[0; CHUNK]).is_ok() {}
        relay.join().unwrap();
        drop(client);
    }
}
