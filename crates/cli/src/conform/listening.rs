//! Which ports somebody listens at in this network namespace.

use std::fs;

/// A port that is listened at: TCP, or a UDP socket without a peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ListeningPort {
    /// The port.
    pub(crate) port: u16,
    /// It can be reached from here only, not through a link.
    pub(crate) is_loopback: bool,
}

/// The kernel's table for a protocol, and the state of a socket that takes whoever comes.
const TABLES: [(&str, &str); 4] = [("tcp", "0A"), ("tcp6", "0A"), ("udp", "07"), ("udp6", "07")];

/// Returns the ports of the network namespace of this thread, those of TCP first.
pub(crate) fn listening_ports() -> Vec<ListeningPort> {
    let of = |(table, state): &(&str, &str)| {
        let text = fs::read_to_string(format!("/proc/thread-self/net/{table}"));
        read_table(&text.unwrap_or_default(), state)
    };
    TABLES.iter().flat_map(of).collect()
}

fn read_table(text: &str, state: &str) -> Vec<ListeningPort> {
    text.lines().skip(1).filter_map(|line| read_line(line, state)).collect()
}

/// One line: number, local address, remote address, state, all in hexadecimal digits.
fn read_line(line: &str, wanted: &str) -> Option<ListeningPort> {
    let mut words = line.split_whitespace().skip(1);
    let (local, remote, state) = (words.next()?, words.next()?, words.next()?);
    let (address, port) = local.rsplit_once(':')?;
    if state != wanted || !remote.ends_with(":0000") {
        return None;
    }
    let port = u16::from_str_radix(port, 16).ok().filter(|port| *port > 0)?;
    Some(ListeningPort { port, is_loopback: is_loopback(address) })
}

/// Words of 32 bits in the byte order of the machine.
fn is_loopback(address: &str) -> bool {
    let word = |at: usize| {
        let word = address.get(8 * at..8 * at + 8)?;
        u32::from_str_radix(word, 16).ok().map(u32::to_ne_bytes)
    };
    match address.len() {
        8 => word(0).is_some_and(|bytes| bytes[0] == 127),
        32 => {
            let bytes: Option<Vec<[u8; 4]>> = (0..4).map(word).collect();
            let address: Vec<u8> = bytes.unwrap_or_default().concat();
            let address = <[u8; 16]>::try_from(address).map(std::net::Ipv6Addr::from);
            address.is_ok_and(|address| address.is_loopback())
        }
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, UdpSocket};

    #[test]
    fn ports_of_this_process_are_found_with_where_they_can_be_reached() {
        let local = TcpListener::bind(("127.0.0.1", 0)).unwrap();
        let open = UdpSocket::bind(("0.0.0.0", 0)).unwrap();
        let local6 = TcpListener::bind(("::1", 0));
        let ports = listening_ports();
        let find = |port: u16| ports.iter().find(|found| found.port == port).copied();
        assert!(find(local.local_addr().unwrap().port()).unwrap().is_loopback);
        assert!(!find(open.local_addr().unwrap().port()).unwrap().is_loopback);
        if let Ok(local6) = local6 {
            assert!(find(local6.local_addr().unwrap().port()).unwrap().is_loopback);
        }
    }

    #[test]
    fn connections_are_no_ports_and_rubbish_is_none() {
        let text = "  sl  local_address rem_address   st tx_queue\n\
                    0: 00000000:1F90 00000000:0000 0A 00000000:00000000\n\
                    1: 0100007F:1F90 0100007F:C350 01 00000000:00000000\n\
                    2: 00000000:0050 00000000:0000 07 00000000\n\
                    3: x\n\
                    4: 00000000:zzzz 00000000:0000 0A\n";
        let expected = ListeningPort { port: 8080, is_loopback: false };
        assert_eq!(read_table(text, "0A"), [expected]);
    }
}
