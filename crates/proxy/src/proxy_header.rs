//! The PROXY protocol, versions 1 and 2, without input and output: a header in front of a
//! connection that names the connection's real ends. After the protocol's specification,
//! "The PROXY protocol, versions 1 & 2".
//!
//! The parser is strict: whoever may send a header can claim any address, so what is not exactly
//! a header is refused rather than guessed at.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::str::FromStr;

use thiserror::Error;

/// Section 2.2: the twelve bytes that no other protocol starts with.
const SIGNATURE: [u8; 12] = *b"\r\n\r\n\0\r\nQUIT\n";
const V1_START: &[u8] = b"PROXY ";
/// Section 2.1: the longest line of version 1, its end included.
const V1_LONGEST: usize = 107;
/// Signature, version and command, family and transport, length.
const V2_FIXED: usize = 16;
/// Version in the upper, command in the lower half of the 13th byte.
const V2_LOCAL: u8 = 0x20;
const V2_PROXY: u8 = 0x21;
/// Family in the upper, transport in the lower half of the 14th byte.
const UNSPEC: u8 = 0x00;
const TCP4: u8 = 0x11;
const TCP6: u8 = 0x21;
const UNIX_STREAM: u8 = 0x31;
/// Two paths of 108 bytes.
const UNIX_BYTES: usize = 216;
/// Section 2.2.3: a TLV with the CRC-32C of the header.
const TYPE_CRC32C: u8 = 0x03;

/// Maximum length of a header. The format allows 64 kB; load balancers send far less.
pub const MAX_HEADER_BYTES: usize = 4096;

/// A version of the protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// One line of text.
    V1,
    /// Binary.
    V2,
}

impl FromStr for Version {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "v1" => Ok(Self::V1),
            "v2" => Ok(Self::V2),
            _ => Err(format!("{text}: v1 or v2")),
        }
    }
}

/// Both ends of the connection that a header speaks of; they are of the same family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProxiedAddresses {
    /// Where the connection comes from.
    pub source: SocketAddr,
    /// Where it went to.
    pub destination: SocketAddr,
}

/// The contents of a header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// `None` where the connection is the sender's own (LOCAL) or its ends are not known (UNKNOWN,
    /// UNSPEC, UNIX). The real ends of the connection count then.
    pub ends: Option<ProxiedAddresses>,
}

/// Why bytes are no header.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum HeaderError {
    /// They do not start as one.
    #[error("no PROXY protocol header")]
    NotAHeader,
    /// It does not end in time.
    #[error("the PROXY protocol header is too long")]
    TooLong,
    /// A line of version 1 that is not as it should be.
    #[error("wrong line of the PROXY protocol, version 1")]
    Line,
    /// Version or command of the binary form.
    #[error("unknown version or command {0:#04x} of the PROXY protocol")]
    Command(u8),
    /// Family or transport of the binary form.
    #[error("unknown or unexpected family or transport {0:#04x} in the PROXY protocol")]
    Family(u8),
    /// The length is smaller than the addresses, or the TLVs do not fill it.
    #[error("wrong lengths in the PROXY protocol header")]
    Length,
    /// The checksum in the header is not that of the header.
    #[error("wrong checksum of the PROXY protocol header")]
    Checksum,
}

/// Reads a header from the beginning of a connection: the header and its length, or `None` if
/// more bytes are needed.
///
/// # Errors
/// As soon as the bytes cannot become a header.
pub fn parse(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    if starts_alike(bytes, &SIGNATURE) {
        return parse_v2(bytes);
    }
    if starts_alike(bytes, V1_START) {
        return parse_v1(bytes);
    }
    Err(HeaderError::NotAHeader)
}

fn starts_alike(bytes: &[u8], start: &[u8]) -> bool {
    bytes.iter().zip(start).all(|(a, b)| a == b)
}

fn parse_v1(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    let window = &bytes[..bytes.len().min(V1_LONGEST)];
    let Some(end) = window.windows(2).position(|two| two == b"\r\n") else {
        return if window.len() == V1_LONGEST { Err(HeaderError::TooLong) } else { Ok(None) };
    };
    let line = std::str::from_utf8(&window[V1_START.len()..end]).map_err(|_| HeaderError::Line)?;
    let ends = v1_ends(line).ok_or(HeaderError::Line)?;
    Ok(Some((Header { ends }, end + 2)))
}

/// Section 2.1: "TCP4" or "TCP6", source, destination, source port, destination port, one space
/// between each; or "UNKNOWN" and whatever.
fn v1_ends(line: &str) -> Option<Option<ProxiedAddresses>> {
    if line == "UNKNOWN" || line.starts_with("UNKNOWN ") {
        return Some(None);
    }
    let mut fields = line.split(' ');
    let family = fields.next()?;
    let addresses = [fields.next()?, fields.next()?];
    let ports = [fields.next()?, fields.next()?];
    if fields.next().is_some() {
        return None;
    }
    let address = |text: &str| -> Option<IpAddr> {
        match family {
            "TCP4" => text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            "TCP6" => text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => None,
        }
    };
    let source = SocketAddr::new(address(addresses[0])?, v1_port(ports[0])?);
    let destination = SocketAddr::new(address(addresses[1])?, v1_port(ports[1])?);
    Some(Some(ProxiedAddresses { source, destination }))
}

/// A port in decimal, without sign and leading zeros.
fn v1_port(text: &str) -> Option<u16> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit());
    let is_canonical = text == "0" || !text.starts_with('0');
    (is_plain && is_canonical).then(|| text.parse().ok()).flatten()
}

fn parse_v2(bytes: &[u8]) -> Result<Option<(Header, usize)>, HeaderError> {
    if let Some(&command) = bytes.get(12)
        && command != V2_LOCAL
        && command != V2_PROXY
    {
        return Err(HeaderError::Command(command));
    }
    let Some(fixed) = bytes.get(..V2_FIXED) else { return Ok(None) };
    let total = V2_FIXED + usize::from(u16::from_be_bytes([fixed[14], fixed[15]]));
    if total > MAX_HEADER_BYTES {
        return Err(HeaderError::TooLong);
    }
    let Some(whole) = bytes.get(..total) else { return Ok(None) };
    if fixed[12] == V2_LOCAL {
        // Section 2.2: addresses in a LOCAL header must be ignored.
        return Ok(Some((Header { ends: None }, total)));
    }
    let (ends, used) = v2_ends(fixed[13], &whole[V2_FIXED..])?;
    check_tlvs(whole, V2_FIXED + used)?;
    Ok(Some((Header { ends }, total)))
}

/// The ends, and how many bytes they take.
fn v2_ends(family: u8, bytes: &[u8]) -> Result<(Option<ProxiedAddresses>, usize), HeaderError> {
    let ends = |source, destination| Some(ProxiedAddresses { source, destination });
    match family {
        // The addresses have no defined form, so the TLVs after them cannot be found.
        UNSPEC => Ok((None, bytes.len())),
        TCP4 => {
            let [a, b] = [array::<4>(bytes, 0)?, array::<4>(bytes, 4)?].map(Ipv4Addr::from);
            let ports = [array(bytes, 8)?, array(bytes, 10)?].map(u16::from_be_bytes);
            Ok((ends((a, ports[0]).into(), (b, ports[1]).into()), 12))
        }
        TCP6 => {
            let [a, b] = [array::<16>(bytes, 0)?, array::<16>(bytes, 16)?].map(Ipv6Addr::from);
            let ports = [array(bytes, 32)?, array(bytes, 34)?].map(u16::from_be_bytes);
            Ok((ends((a, ports[0]).into(), (b, ports[1]).into()), 36))
        }
        UNIX_STREAM if bytes.len() >= UNIX_BYTES => Ok((None, UNIX_BYTES)),
        UNIX_STREAM => Err(HeaderError::Length),
        // Datagrams do not arrive over TCP.
        family => Err(HeaderError::Family(family)),
    }
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N], HeaderError> {
    let field = bytes.get(at..at + N).and_then(|field| field.try_into().ok());
    field.ok_or(HeaderError::Length)
}

/// Section 2.2.1: type, length in two bytes, value; they must fill the header exactly.
fn check_tlvs(header: &[u8], from: usize) -> Result<(), HeaderError> {
    let mut at = from;
    while at < header.len() {
        let [kind, high, low] = array(header, at)?;
        let length = usize::from(u16::from_be_bytes([high, low]));
        let value = header.get(at + 3..at + 3 + length).ok_or(HeaderError::Length)?;
        if kind == TYPE_CRC32C {
            check_sum(header, at + 3, value)?;
        }
        at += 3 + length;
    }
    Ok(())
}

/// Section 2.2.3: over the whole header, with the field itself as zeros.
fn check_sum(header: &[u8], at: usize, value: &[u8]) -> Result<(), HeaderError> {
    let received: [u8; 4] = value.try_into().map_err(|_| HeaderError::Length)?;
    let mut zeroed = header.to_vec();
    zeroed[at..at + 4].fill(0);
    match crc32c(&zeroed) == u32::from_be_bytes(received) {
        true => Ok(()),
        false => Err(HeaderError::Checksum),
    }
}

/// RFC 9260 appendix A (the reflected polynomial 0x82f63b78). Headers are short: no table.
fn crc32c(bytes: &[u8]) -> u32 {
    let step = |crc: u32| (crc >> 1) ^ (0x82f6_3b78 & 0_u32.wrapping_sub(crc & 1));
    let crc = bytes
        .iter()
        .fold(u32::MAX, |crc, &byte| (0..8).fold(crc ^ u32::from(byte), |crc, _| step(crc)));
    !crc
}

impl Header {
    /// The bytes of a header. Ends of different families cannot be written and are left out.
    pub fn bytes(&self, version: Version) -> Vec<u8> {
        let ends = self.ends.map(canonical).and_then(same_family);
        match version {
            Version::V1 => v1_bytes(ends),
            Version::V2 => v2_bytes(ends),
        }
    }
}

/// IPv4 that came through an IPv6 socket is IPv4.
fn canonical(ends: ProxiedAddresses) -> ProxiedAddresses {
    let plain = |address: SocketAddr| SocketAddr::new(address.ip().to_canonical(), address.port());
    ProxiedAddresses { source: plain(ends.source), destination: plain(ends.destination) }
}

fn same_family(ends: ProxiedAddresses) -> Option<ProxiedAddresses> {
    (ends.source.is_ipv4() == ends.destination.is_ipv4()).then_some(ends)
}

fn v1_bytes(ends: Option<ProxiedAddresses>) -> Vec<u8> {
    let Some(ProxiedAddresses { source, destination }) = ends else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let [from, to] = [source.ip(), destination.ip()];
    let [from_port, to_port] = [source.port(), destination.port()];
    format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n").into_bytes()
}

fn v2_bytes(ends: Option<ProxiedAddresses>) -> Vec<u8> {
    let (family, body) = match ends {
        None => (UNSPEC, Vec::new()),
        Some(ProxiedAddresses { source, destination }) => {
            let mut body = octets(source.ip());
            body.extend(octets(destination.ip()));
            body.extend_from_slice(&source.port().to_be_bytes());
            body.extend_from_slice(&destination.port().to_be_bytes());
            (if source.is_ipv4() { TCP4 } else { TCP6 }, body)
        }
    };
    let length = [0, body.len() as u8];
    [SIGNATURE.as_slice(), &[V2_PROXY, family], &length, &body].concat()
}

fn octets(ip: IpAddr) -> Vec<u8> {
    match ip {
        IpAddr::V4(ip) => ip.octets().to_vec(),
        IpAddr::V6(ip) => ip.octets().to_vec(),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ends(source: &str, destination: &str) -> Header {
        let (source, destination) = (source.parse().unwrap(), destination.parse().unwrap());
        Header { ends: Some(ProxiedAddresses { source, destination }) }
    }

    fn v2(command: u8, family: u8, body: &[u8]) -> Vec<u8> {
        let length = (body.len() as u16).to_be_bytes();
        [SIGNATURE.as_slice(), &[command, family], &length, body].concat()
    }

    const BODY4: [u8; 12] = [192, 0, 2, 1, 198, 51, 100, 2, 0xdc, 0x04, 0x01, 0xbb];

    #[test]
    fn spec_2_1_lines_of_version_1() {
        let line = b"PROXY TCP4 192.168.0.1 192.168.0.11 56324 443\r\nGET / HTTP/1.1\r\n";
        let header = ends("192.168.0.1:56324", "192.168.0.11:443");
        assert_eq!(parse(line), Ok(Some((header, 47))));
        let line = b"PROXY TCP6 2001:db8::1 2001:db8::2 1 65535\r\n";
        let header = ends("[2001:db8::1]:1", "[2001:db8::2]:65535");
        assert_eq!(parse(line), Ok(Some((header, line.len()))));
    }

    #[test]
    fn spec_2_1_the_longest_lines_are_read() {
        let wide = "ffff:ffff:ffff:ffff:ffff:ffff:ffff:ffff";
        let line = format!("PROXY UNKNOWN {wide} {wide} 65535 65535\r\n");
        assert_eq!(line.len(), V1_LONGEST);
        assert_eq!(parse(line.as_bytes()), Ok(Some((Header { ends: None }, V1_LONGEST))));
        let line = format!("PROXY UNKNOWN {}\r\n", "x".repeat(92));
        assert_eq!(parse(line.as_bytes()), Err(HeaderError::TooLong));
        assert_eq!(parse(b"PROXY UNKNOWN\r\n"), Ok(Some((Header { ends: None }, 15))));
    }

    #[test]
    fn lines_that_are_nearly_right_are_refused() {
        for line in [
            "PROXY TCP4 1.2.3.4 5.6.7.8 1\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 3\r\n",
            "PROXY TCP4  1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 2 \r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 01 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 +1 2\r\n",
            "PROXY TCP4 1.2.3.4 5.6.7.8 1 65536\r\n",
            "PROXY TCP4 1.2.3.04 5.6.7.8 1 2\r\n",
            "PROXY TCP4 ::1 ::2 1 2\r\n",
            "PROXY TCP6 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY TCP5 1.2.3.4 5.6.7.8 1 2\r\n",
            "PROXY UNKNOWNS\r\n",
            "PROXY \r\n",
        ] {
            assert_eq!(parse(line.as_bytes()), Err(HeaderError::Line), "{line:?}");
        }
        assert_eq!(parse(b"proxy TCP4 "), Err(HeaderError::NotAHeader));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Err(HeaderError::NotAHeader));
        // A lone line feed ends no line.
        assert_eq!(parse(b"PROXY TCP4 1.2.3.4 5.6.7.8 1 2\n"), Ok(None));
    }

    #[test]
    fn spec_2_2_version_2_over_both_families() {
        let bytes = v2(0x21, 0x11, &BODY4);
        let header = ends("192.0.2.1:56324", "198.51.100.2:443");
        assert_eq!(parse(&bytes), Ok(Some((header, 28))));
        let mut body = Vec::new();
        body.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        body.extend("2001:db8::2".parse::<Ipv6Addr>().unwrap().octets());
        body.extend([0, 1, 0, 2]);
        let header = ends("[2001:db8::1]:1", "[2001:db8::2]:2");
        assert_eq!(parse(&v2(0x21, 0x21, &body)), Ok(Some((header, 52))));
    }

    #[test]
    fn spec_2_2_local_unspec_and_unix_have_no_ends() {
        let nothing = Header { ends: None };
        assert_eq!(parse(&v2(0x20, 0x00, &[])), Ok(Some((nothing, 16))));
        assert_eq!(parse(&v2(0x20, 0xff, &[1, 2, 3])), Ok(Some((nothing, 19))));
        assert_eq!(parse(&v2(0x21, 0x00, &[9; 7])), Ok(Some((nothing, 23))));
        assert_eq!(parse(&v2(0x21, 0x31, &[0; 216])), Ok(Some((nothing, 232))));
        assert_eq!(parse(&v2(0x21, 0x31, &[0; 215])), Err(HeaderError::Length));
    }

    #[test]
    fn version_2_with_wrong_fields_is_refused() {
        assert_eq!(parse(&v2(0x11, 0x11, &BODY4)), Err(HeaderError::Command(0x11)));
        assert_eq!(parse(&v2(0x22, 0x11, &BODY4)), Err(HeaderError::Command(0x22)));
        assert_eq!(parse(&v2(0x21, 0x12, &BODY4)), Err(HeaderError::Family(0x12)), "UDP");
        assert_eq!(parse(&v2(0x21, 0x41, &BODY4)), Err(HeaderError::Family(0x41)));
        assert_eq!(parse(&v2(0x21, 0x11, &BODY4[..11])), Err(HeaderError::Length));
        assert_eq!(parse(&v2(0x21, 0x21, &BODY4)), Err(HeaderError::Length));
        let long = v2(0x21, 0x11, &[0; MAX_HEADER_BYTES]);
        assert_eq!(parse(&long[..16]), Err(HeaderError::TooLong));
    }

    #[test]
    fn spec_2_2_1_tlvs_are_skipped_and_must_fit() {
        let with = |tlv: &[u8]| parse(&v2(0x21, 0x11, &[&BODY4, tlv].concat()));
        assert!(with(&[0x04, 0, 2, 0, 0]).unwrap().is_some());
        assert!(with(&[0x02, 0, 1, b'a', 0xee, 0, 0]).unwrap().is_some());
        assert_eq!(with(&[0x04]), Err(HeaderError::Length));
        assert_eq!(with(&[0x04, 0, 2, 0]), Err(HeaderError::Length));
        assert_eq!(with(&[0x03, 0, 3, 1, 2, 3]), Err(HeaderError::Length));
    }

    #[test]
    fn spec_2_2_3_the_checksum_is_checked() {
        // RFC 3720 appendix B.4 and the usual check value.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
        let tlv = [0x03, 0, 4, 0, 0, 0, 0];
        let mut bytes = v2(0x21, 0x11, &[BODY4.as_slice(), &tlv].concat());
        assert_eq!(parse(&bytes), Err(HeaderError::Checksum));
        let sum = crc32c(&bytes).to_be_bytes();
        let at = bytes.len() - 4;
        bytes[at..].copy_from_slice(&sum);
        assert!(parse(&bytes).unwrap().is_some());
        bytes[17] ^= 1;
        assert_eq!(parse(&bytes), Err(HeaderError::Checksum));
    }

    #[test]
    fn unknown_ends_are_written_as_unknown() {
        let mixed = ends("192.0.2.1:1", "[2001:db8::1]:2");
        assert_eq!(mixed.bytes(Version::V1), b"PROXY UNKNOWN\r\n");
        assert_eq!(mixed.bytes(Version::V2), v2(0x21, 0, &[]));
        let mapped = ends("[::ffff:192.0.2.1]:1", "[::ffff:192.0.2.2]:2");
        assert_eq!(mapped.bytes(Version::V1), b"PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
    }

    #[test]
    fn versions_have_names() {
        assert_eq!("v1".parse(), Ok(Version::V1));
        assert_eq!("v2".parse(), Ok(Version::V2));
        assert!("2".parse::<Version>().is_err());
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_back(a: [u8; 16], b: [u8; 16], ports: [u16; 2], four: bool) {
            let ip = |octets: [u8; 16]| match four {
                true => IpAddr::from([octets[0], octets[1], octets[2], octets[3]]),
                // Not an IPv4 address in IPv6 form: that would be written as IPv4.
                false => IpAddr::from([&[0x20], &octets[1..]].concat().try_into().unwrap_or(octets)),
            };
            let (source, destination) = ((ip(a), ports[0]).into(), (ip(b), ports[1]).into());
            let header = Header { ends: Some(ProxiedAddresses { source, destination }) };
            for version in [Version::V1, Version::V2] {
                let mut bytes = header.bytes(version);
                let length = bytes.len();
                for cut in 0..length {
                    prop_assert_eq!(parse(&bytes[..cut]), Ok(None));
                }
                bytes.extend(b"data");
                prop_assert_eq!(parse(&bytes), Ok(Some((header, length))));
            }
        }

        #[test]
        fn more_bytes_do_not_change_a_verdict(
            start in prop_oneof![Just(SIGNATURE.to_vec()), Just(b"PROXY ".to_vec()), Just(Vec::new())],
            rest in proptest::collection::vec(any::<u8>(), 0..300),
        ) {
            let bytes = [start, rest].concat();
            let mut verdict = None;
            for end in 0..=bytes.len() {
                let now = parse(&bytes[..end]);
                if let Some(verdict) = verdict {
                    prop_assert_eq!(now, verdict);
                } else if now != Ok(None) {
                    verdict = Some(now);
                }
            }
        }
    }
}
