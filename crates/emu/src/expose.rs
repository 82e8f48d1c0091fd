//! Ports of the inside, reachable from where cellpace was started: a relay on the far side, for
//! TCP and UDP. Whoever is on the far side can reach the inside's address itself; this is for
//! others, and it needs neither privilege nor address translation.

use std::collections::HashMap;
use std::io::{self, Read, Write};
use std::net::{
    IpAddr, Ipv4Addr, Ipv6Addr, Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket,
};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use crate::EmuError;

/// Connections and peers that are relayed at the same time, per port.
const MOST: usize = 1024;
/// A UDP peer that is silent for so long is forgotten.
const SILENCE: Duration = Duration::from_secs(60);
/// How long the inside may take to accept a connection.
const CONNECT: Duration = Duration::from_secs(30);
/// Bytes that are relayed at a time.
const CHUNK: usize = 64 << 10;

/// A port that is taken, and not relayed yet. Sockets stay in the namespace they were made in, so
/// this belongs where the users are, before any namespace is entered.
pub(crate) struct Exposed {
    port: u16,
    tcp: TcpListener,
    udp: UdpSocket,
}

impl Exposed {
    /// Takes a port on all addresses.
    pub(crate) fn bind(port: u16) -> Result<Self, EmuError> {
        // The first takes IPv4 too; without IPv6 there is the second.
        let any = [
            SocketAddr::from((Ipv6Addr::UNSPECIFIED, port)),
            SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)),
        ];
        let taken = || Ok((TcpListener::bind(&any[..])?, UdpSocket::bind(&any[..])?));
        match taken() {
            Ok((tcp, udp)) => Ok(Self { port, tcp, udp }),
            Err(source) => Err(EmuError::Expose { port, source }),
        }
    }

    /// Relays to the inside from now on. The threads end with the process.
    pub(crate) fn relay(self, inside: IpAddr) -> io::Result<()> {
        let to = SocketAddr::new(inside, self.port);
        let (tcp, udp) = (self.tcp, self.udp);
        thread::Builder::new().name("expose-tcp".into()).spawn(move || relay_tcp(&tcp, to))?;
        thread::Builder::new().name("expose-udp".into()).spawn(move || relay_udp(&udp, to))?;
        Ok(())
    }
}

fn relay_tcp(listener: &TcpListener, to: SocketAddr) {
    let open = Arc::new(AtomicUsize::new(0));
    for outer in listener.incoming() {
        let Ok(outer) = outer else {
            // Out of descriptors, most likely: what is closed meanwhile makes room.
            thread::sleep(Duration::from_millis(10));
            continue;
        };
        let slot = Slot::take(&open);
        if let Some(slot) = slot {
            // A connection for which there is no thread is closed.
            let _ = thread::Builder::new().spawn(move || {
                let _slot = slot;
                // Its end, good or bad, is the end of both sides.
                let _ = join(&outer, to);
            });
        }
    }
}

/// A place among the connections, given back when it is dropped.
struct Slot(Arc<AtomicUsize>);

impl Slot {
    fn take(open: &Arc<AtomicUsize>) -> Option<Self> {
        let slot = Self(Arc::clone(open));
        (open.fetch_add(1, Ordering::Relaxed) < MOST).then_some(slot)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Copies both ways until both are at their end.
fn join(outer: &TcpStream, to: SocketAddr) -> io::Result<()> {
    let inner = TcpStream::connect_timeout(&to, CONNECT)?;
    outer.set_nodelay(true)?;
    inner.set_nodelay(true)?;
    thread::scope(|scope| {
        thread::Builder::new().spawn_scoped(scope, || copy(&inner, outer))?;
        copy(outer, &inner);
        Ok(())
    })
}

fn copy(mut from: &TcpStream, mut to: &TcpStream) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match from.read(&mut buffer) {
            Ok(length) if length > 0 => {
                if to.write_all(&buffer[..length]).is_err() {
                    let _ = from.shutdown(Shutdown::Read);
                    return;
                }
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(_) => {
                let _ = to.shutdown(Shutdown::Write);
                return;
            }
            Err(_) => {
                let _ = to.shutdown(Shutdown::Both);
                return;
            }
        }
    }
}

fn relay_udp(outer: &UdpSocket, to: SocketAddr) {
    let mut peers: HashMap<SocketAddr, Arc<UdpSocket>> = HashMap::new();
    let mut buffer = vec![0; CHUNK];
    loop {
        let Ok((length, peer)) = outer.recv_from(&mut buffer) else {
            // An answer that could not be delivered is told here; it is the sender's concern.
            thread::sleep(Duration::from_millis(1));
            continue;
        };
        peers.retain(|_, socket| Arc::strong_count(socket) > 1);
        if let Some(socket) = peers.get(&peer) {
            let _ = socket.send(&buffer[..length]);
            continue;
        }
        if peers.len() < MOST
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
