//! Name resolution inside, where this machine's own name server listens on loopback: the inside
//! has a loopback of its own, on which nobody would answer.

use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

/// The port of name servers.
const PORT: u16 = 53;
/// The largest query and answer.
const MAX_MESSAGE: usize = 4096;
/// How long the machine's name server may take; resolvers ask again after five seconds.
const TIMEOUT: Duration = Duration::from_secs(4);

/// Takes the place of the machine's name servers inside.
#[derive(Default)]
pub(crate) struct NameServers(Vec<(SocketAddr, UdpSocket)>);

impl NameServers {
    /// Listens inside, where the calling thread is, at the loopback addresses that resolv.conf
    /// names.
    pub(crate) fn bind() -> Self {
        let text = fs::read_to_string("/etc/resolv.conf").unwrap_or_default();
        let servers = loopback_servers(&text).into_iter();
        // Where a socket cannot be had, names just do not resolve.
        Self(servers.filter_map(|server| Some((server, UdpSocket::bind(server).ok()?))).collect())
    }

    /// Answers from now on, on threads that end with the process: passes queries on to the
    /// machine's name server with `nat`, else refuses them and says so by what is returned.
    pub(crate) fn serve(self, nat: bool) -> io::Result<RefusedNames> {
        let refused = RefusedNames::default();
        for (server, inside) in self.0 {
            let refused = refused.clone();
            thread::Builder::new().name("names".into()).spawn(move || {
                loop {
                    // Neither end can do anything about a query that is lost.
                    let _ = if nat { relay(&inside, server) } else { refuse(&inside, &refused) };
                }
            })?;
        }
        Ok(refused)
    }
}

/// Whether a query was refused since the last look.
#[derive(Clone, Default)]
pub(crate) struct RefusedNames(Arc<AtomicBool>);

impl RefusedNames {
    pub(crate) fn take(&self) -> Option<SocketAddr> {
        let server = SocketAddr::from((Ipv4Addr::LOCALHOST, PORT));
        self.0.swap(false, Ordering::Relaxed).then_some(server)
    }
}

fn relay(inside: &UdpSocket, server: SocketAddr) -> io::Result<()> {
    let mut buffer = [0; MAX_MESSAGE];
    let (length, client) = inside.recv_from(&mut buffer)?;
    let any: IpAddr = match server {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let outside = UdpSocket::bind((any, 0))?;
    outside.connect(server)?;
    outside.set_read_timeout(Some(TIMEOUT))?;
    outside.send(&buffer[..length])?;
    let length = outside.recv(&mut buffer)?;
    inside.send_to(&buffer[..length], client).map(drop)
}

fn refuse(inside: &UdpSocket, refused: &RefusedNames) -> io::Result<()> {
    let mut buffer = [0; MAX_MESSAGE];
    let (length, client) = inside.recv_from(&mut buffer)?;
    let Some(answer) = refusal(&buffer[..length]) else { return Ok(()) };
    refused.0.store(true, Ordering::Relaxed);
    inside.send_to(&answer, client).map(drop)
}

/// The query as an answer with the code for a failed server (RFC 1035 section 4.1.1).
fn refusal(query: &[u8]) -> Option<Vec<u8>> {
    const SERVER_FAILURE: u8 = 2;
    const IS_ANSWER: u8 = 0x80;
    if query.len() < 12 {
        return None;
    }
    let mut answer = query.to_vec();
    answer[2] |= IS_ANSWER;
    answer[3] = SERVER_FAILURE;
    Some(answer)
}

/// The name servers that only this machine itself reaches, if there are no others.
fn loopback_servers(text: &str) -> Vec<SocketAddr> {
    let address = |line: &str| line.split_whitespace().nth(1)?.parse::<IpAddr>().ok();
    let lines = text.lines().filter(|line| line.starts_with("nameserver"));
    let servers: Vec<IpAddr> = lines.filter_map(address).collect();
    // Resolvers take the first three.
    let own = servers.iter().take(3).filter(|server| server.is_loopback());
    own.map(|server| SocketAddr::new(*server, PORT)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_name_servers_on_loopback_are_replaced() {
        let text = "# nameserver 127.0.0.1\nnameserver 127.0.0.53\noptions edns0\n\
                    nameserver 192.0.2.1\nnameserver ::1\nnameserver x\nnameserver\n";
        let servers: Vec<String> =
            loopback_servers(text).iter().map(SocketAddr::to_string).collect();
        assert_eq!(servers, ["127.0.0.53:53", "[::1]:53"]);
        assert!(loopback_servers("").is_empty());
    }

    #[test]
    fn a_refusal_belongs_to_its_query() {
        let query = [7, 9, 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, b'x', 0, 0, 1, 0, 1];
        let answer = refusal(&query).unwrap();
        assert_eq!((&answer[..4], &answer[4..]), (&[7, 9, 0x81, 2][..], &query[4..]));
        assert_eq!(refusal(&query[..11]), None);
    }

    #[test]
    fn queries_are_passed_on_or_refused() {
        let (inside, server) =
            (UdpSocket::bind("127.0.0.1:0").unwrap(), UdpSocket::bind("127.0.0.1:0").unwrap());
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
        client.connect(inside.local_addr().unwrap()).unwrap();
        let (query, mut buffer) = ([1_u8; 20], [0; 64]);
        client.send(&query).unwrap();
        let refused = RefusedNames::default();
        refuse(&inside, &refused).unwrap();
        assert_eq!(client.recv(&mut buffer).unwrap(), 20);
        assert_eq!(buffer[3], 2);
        assert!(refused.take().is_some() && refused.take().is_none());

        let to = server.local_addr().unwrap();
        let answering = thread::spawn(move || {
            let (length, peer) = server.recv_from(&mut [0; 64]).unwrap();
            server.send_to(&vec![9; length + 1], peer).unwrap();
        });
        client.send(&query).unwrap();
        relay(&inside, to).unwrap();
        answering.join().unwrap();
        assert_eq!((client.recv(&mut buffer).unwrap(), buffer[0]), (21, 9));
    }
}
