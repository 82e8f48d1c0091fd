//! SOCKS version 5, the server's half, without input and output: RFC 1928, and RFC 1929 for name
//! and password.
//!
//! Only CONNECT is served. Names travel as they are written: the proxy resolves them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use cellpace_base::ByteReader;
use thiserror::Error;

/// RFC 1928 section 3.
const VERSION: u8 = 5;
/// The version of the exchange of name and password; RFC 1929 section 2.
const PASSWORD_VERSION: u8 = 1;
const NO_AUTHENTICATION: u8 = 0;
const USERNAME_PASSWORD: u8 = 2;
const NO_ACCEPTABLE_METHOD: u8 = 0xff;
const CONNECT: u8 = 1;
const IPV4: u8 = 1;
const DOMAIN: u8 = 3;
const IPV6: u8 = 4;

/// Where a client wants to go: an address, or a name that somebody else resolves.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// An address and a port.
    Address(SocketAddr),
    /// A domain name and a port. The name is 1 to 255 characters of printable ASCII.
    Name(String, u16),
}

impl fmt::Display for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(address) => address.fmt(f),
            Self::Name(name, port) => write!(f, "{name}:{port}"),
        }
    }
}

/// The name and password that a client must send to be served.
#[derive(Clone, PartialEq, Eq)]
pub struct Credentials {
    name: Vec<u8>,
    password: Vec<u8>,
}

/// The password must not get into a log by a `{:?}`.
impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Credentials").finish_non_exhaustive()
    }
}

impl Credentials {
    /// Name and password, 1 to 255 bytes each; `None` where one is not (RFC 1929 section 2).
    pub fn new(name: &[u8], password: &[u8]) -> Option<Self> {
        let fits = |text: &[u8]| (1..=255).contains(&text.len());
        (fits(name) && fits(password))
            .then(|| Self { name: name.to_vec(), password: password.to_vec() })
    }

    fn agree(&self, name: &[u8], password: &[u8]) -> bool {
        // Both are always compared, so the time taken does not reveal which one was wrong.
        same(&self.name, name) & same(&self.password, password)
    }
}

/// Compares in a time that depends on the lengths only.
fn same(a: &[u8], b: &[u8]) -> bool {
    a.len() == b.len() && a.iter().zip(b).fold(0, |differences, (a, b)| differences | (a ^ b)) == 0
}

/// What the client did wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum SocksError {
    /// The first byte is not 5.
    #[error("SOCKS version {0} instead of 5")]
    Version(u8),
    /// The list of methods is empty.
    #[error("no authentication method offered")]
    NoMethods,
    /// None of the methods offered is the one that is required.
    #[error("the required authentication method was not offered")]
    NoAcceptableMethod,
    /// The version of the exchange of name and password is not 1.
    #[error("version {0} of the name and password exchange instead of 1")]
    PasswordVersion(u8),
    /// Name or password is wrong, or empty.
    #[error("wrong name or password")]
    WrongPassword,
    /// Name and password were not checked, because the client sent wrong ones too often.
    #[error("too many wrong names or passwords")]
    TooManyTries,
    /// BIND, UDP ASSOCIATE, or no command at all.
    #[error("command {0}, but only CONNECT is served")]
    Command(u8),
    /// Not an IPv4 or IPv6 address or a name.
    #[error("address type {0}")]
    AddressType(u8),
    /// The name is empty or holds what no name holds.
    #[error("not a domain name")]
    Name,
    /// The reserved byte is not 0.
    #[error("reserved byte {0} instead of 0")]
    Reserved(u8),
}

/// The answer to a request; RFC 1928 section 6.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Reply {
    /// Connected.
    Succeeded = 0,
    /// Anything that has no code of its own.
    GeneralFailure = 1,
    /// The rules of the proxy forbid it.
    NotAllowed = 2,
    /// No route to the network.
    NetworkUnreachable = 3,
    /// No route to the host, or no such name.
    HostUnreachable = 4,
    /// The destination refused.
    ConnectionRefused = 5,
    /// No answer in time.
    TtlExpired = 6,
    /// Not CONNECT.
    CommandNotSupported = 7,
    /// Not an address or a name.
    AddressTypeNotSupported = 8,
}

impl Reply {
    /// The bytes of a reply. `bound` is where the proxy's own connection comes from; what is not
    /// known is written as 0.0.0.0:0.
    pub fn bytes(self, bound: Option<SocketAddr>) -> Vec<u8> {
        let bound = bound.unwrap_or_else(|| (Ipv4Addr::UNSPECIFIED, 0).into());
        let mut bytes = vec![VERSION, self as u8, 0];
        put_address(&mut bytes, bound);
        bytes
    }
}

fn put_address(bytes: &mut Vec<u8>, address: SocketAddr) {
    match address.ip().to_canonical() {
        IpAddr::V4(ip) => {
            bytes.push(IPV4);
            bytes.extend_from_slice(&ip.octets());
        }
        IpAddr::V6(ip) => {
            bytes.push(IPV6);
            bytes.extend_from_slice(&ip.octets());
        }
    }
    bytes.extend_from_slice(&address.port().to_be_bytes());
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HandshakeStep {
    /// More bytes are needed; those that were consumed need not be shown again.
    More,
    /// Send this, then continue.
    Send(Vec<u8>),
    /// Send this, if it is not empty, and close: the client is not served.
    Refuse(Vec<u8>, SocksError),
    /// Connect, and answer with [`Reply::bytes`]. The handshake is over.
    Connect(Target),
}

/// The server's side of one handshake.
///
/// Pass it the bytes that arrived, remove the bytes that it consumed, carry out the step that it
/// returns, and repeat until that is [`HandshakeStep::More`]: it needs more bytes. No message is
/// longer than [`MAX_MESSAGE_BYTES`].
#[derive(Debug)]
pub struct Handshake<'a> {
    credentials: Option<&'a Credentials>,
    state: SocksState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SocksState {
    Greeting,
    Password,
    Request,
    Over,
}

/// The longest message: name and password of 255 bytes each, and three more.
pub const MAX_MESSAGE_BYTES: usize = 513;

impl<'a> Handshake<'a> {
    /// A handshake at its beginning. With `credentials`, only clients that know them are served;
    /// without, those that ask for no authentication.
    pub fn new(credentials: Option<&'a Credentials>) -> Self {
        Self { credentials, state: SocksState::Greeting }
    }

    /// Whether name and password come next.
    pub fn awaits_password(&self) -> bool {
        self.state == SocksState::Password
    }

    /// Refuses a client without checking its name and password.
    pub fn too_many_tries() -> HandshakeStep {
        HandshakeStep::Refuse(vec![PASSWORD_VERSION, 1], SocksError::TooManyTries)
    }

    /// Looks at the bytes that arrived and were not consumed yet. Returns how many are consumed
    /// now, and what to do.
    pub fn receive(&mut self, bytes: &[u8]) -> (usize, HandshakeStep) {
        let mut reader = ByteReader::new(bytes);
        let read = match self.state {
            SocksState::Greeting => self.greeting(&mut reader),
            SocksState::Password => self.password(&mut reader),
            SocksState::Request => request(&mut reader),
            SocksState::Over => None,
        };
        let Some(step) = read else { return (0, HandshakeStep::More) };
        self.state = match (&step, self.state) {
            (HandshakeStep::Send(_), SocksState::Greeting) if self.credentials.is_some() => {
                SocksState::Password
            }
            (HandshakeStep::Send(_), _) => SocksState::Request,
            _ => SocksState::Over,
        };
        (bytes.len() - reader.rest().len(), step)
    }

    /// RFC 1928 section 3: version, number of methods, methods.
    fn greeting(&self, reader: &mut ByteReader<'_>) -> Option<HandshakeStep> {
        let version = reader.u8()?;
        if version != VERSION {
            // Whoever speaks another protocol would not understand an answer.
            return Some(HandshakeStep::Refuse(Vec::new(), SocksError::Version(version)));
        }
        let methods = reader.counted()?;
        let wanted = match self.credentials {
            Some(_) => USERNAME_PASSWORD,
            None => NO_AUTHENTICATION,
        };
        if methods.contains(&wanted) {
            return Some(HandshakeStep::Send(vec![VERSION, wanted]));
        }
        let error = match methods {
            [] => SocksError::NoMethods,
            _ => SocksError::NoAcceptableMethod,
        };
        Some(HandshakeStep::Refuse(vec![VERSION, NO_ACCEPTABLE_METHOD], error))
    }

    /// RFC 1929 section 2: version, name, password. Any status but 0 is a failure.
    fn password(&self, reader: &mut ByteReader<'_>) -> Option<HandshakeStep> {
        let version = reader.u8()?;
        if version != PASSWORD_VERSION {
            let error = SocksError::PasswordVersion(version);
            return Some(HandshakeStep::Refuse(vec![PASSWORD_VERSION, 1], error));
        }
        let (name, password) = (reader.counted()?, reader.counted()?);
        if self.credentials.is_some_and(|known| known.agree(name, password)) {
            return Some(HandshakeStep::Send(vec![PASSWORD_VERSION, 0]));
        }
        Some(HandshakeStep::Refuse(vec![PASSWORD_VERSION, 1], SocksError::WrongPassword))
    }
}

/// RFC 1928 section 4: version, command, reserved, address type, address, port.
fn request(reader: &mut ByteReader<'_>) -> Option<HandshakeStep> {
    let refuse = |reply: Reply, error| Some(HandshakeStep::Refuse(reply.bytes(None), error));
    let version = reader.u8()?;
    if version != VERSION {
        return refuse(Reply::GeneralFailure, SocksError::Version(version));
    }
    let [command, reserved, kind] = reader.array()?;
    if reserved != 0 {
        return refuse(Reply::GeneralFailure, SocksError::Reserved(reserved));
    }
    if command != CONNECT {
        return refuse(Reply::CommandNotSupported, SocksError::Command(command));
    }
    let target = match kind {
        IPV4 => {
            let ip = Ipv4Addr::from(reader.array::<4>()?);
            Target::Address((ip, reader.u16()?).into())
        }
        IPV6 => {
            let ip = Ipv6Addr::from(reader.array::<16>()?);
            Target::Address((ip, reader.u16()?).into())
        }
        DOMAIN => {
            let name = reader.counted()?;
            let port = reader.u16()?;
            let Some(name) = domain_name(name) else {
                return refuse(Reply::GeneralFailure, SocksError::Name);
            };
            // Some clients send addresses as names.
            match name.parse::<IpAddr>() {
                Ok(ip) => Target::Address((ip, port).into()),
                Err(_) => Target::Name(name, port),
            }
        }
        kind => return refuse(Reply::AddressTypeNotSupported, SocksError::AddressType(kind)),
    };
    Some(HandshakeStep::Connect(target))
}

/// The name, if nothing in it can confuse a resolver or a log.
fn domain_name(bytes: &[u8]) -> Option<String> {
    let is_plain = !bytes.is_empty() && bytes.iter().all(u8::is_ascii_graphic);
    is_plain.then(|| bytes.iter().copied().map(char::from).collect())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Returns the server's reply to these bytes, fed in pieces of `piece`, and the last step.
    fn talk(
        credentials: Option<&Credentials>,
        bytes: &[u8],
        piece: usize,
    ) -> (Vec<u8>, HandshakeStep) {
        let mut handshake = Handshake::new(credentials);
        let (mut pending, mut replies) = (Vec::new(), Vec::new());
        for chunk in bytes.chunks(piece.max(1)) {
            pending.extend_from_slice(chunk);
            loop {
                let (consumed, step) = handshake.receive(&pending);
                pending.drain(..consumed);
                match step {
                    HandshakeStep::More => break,
                    HandshakeStep::Send(bytes) => replies.extend(bytes),
                    end => return (replies, end),
                }
            }
        }
        (replies, HandshakeStep::More)
    }

    fn known() -> Credentials {
        Credentials::new(b"user", b"pass").unwrap()
    }

    #[test]
    fn rfc1928_connect_by_ipv4_without_authentication() {
        let bytes = [5, 1, 0, 5, 1, 0, 1, 192, 0, 2, 7, 0x01, 0xbb];
        let (replies, step) = talk(None, &bytes, 100);
        assert_eq!(replies, [5, 0]);
        assert_eq!(step, HandshakeStep::Connect(Target::Address("192.0.2.7:443".parse().unwrap())));
    }

    #[test]
    fn rfc1928_connect_by_ipv6() {
        let mut bytes = vec![5, 2, 1, 0, 5, 1, 0, 4];
        bytes.extend("2001:db8::1".parse::<Ipv6Addr>().unwrap().octets());
        bytes.extend([0, 80]);
        let (_, step) = talk(None, &bytes, 100);
        assert_eq!(
            step,
            HandshakeStep::Connect(Target::Address("[2001:db8::1]:80".parse().unwrap()))
        );
    }

    #[test]
    fn rfc1928_connect_by_name_leaves_the_name_to_the_proxy() {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, 11];
        bytes.extend(b"example.com");
        bytes.extend([0x1f, 0x90]);
        let (_, step) = talk(None, &bytes, 100);
        assert_eq!(step, HandshakeStep::Connect(Target::Name("example.com".into(), 8080)));
    }

    #[test]
    fn an_address_written_as_a_name_is_an_address() {
        let mut bytes = vec![5, 1, 0, 5, 1, 0, 3, 9];
        bytes.extend(b"192.0.2.1");
        bytes.extend([0, 80]);
        let (_, step) = talk(None, &bytes, 100);
        assert_eq!(step, HandshakeStep::Connect(Target::Address("192.0.2.1:80".parse().unwrap())));
    }

    #[test]
    fn rfc1929_name_and_password() {
        let known = known();
        let mut bytes = vec![5, 2, 0, 2, 1, 4];
        bytes.extend(b"user\x04pass");
        bytes.extend([5, 1, 0, 1, 127, 0, 0, 1, 0, 22]);
        let (replies, step) = talk(Some(&known), &bytes, 100);
        assert_eq!(replies, [5, 2, 1, 0]);
        assert_eq!(step, HandshakeStep::Connect(Target::Address("127.0.0.1:22".parse().unwrap())));
    }

    #[test]
    fn rfc1929_wrong_passwords_are_refused() {
        let known = known();
        for wrong in
            [b"\x04user\x04pasS".as_slice(), b"\x00\x00", b"\x04user\x00", b"\x03use\x04pass"]
        {
            let bytes = [[5, 1, 2, 1].as_slice(), wrong].concat();
            let (replies, step) = talk(Some(&known), &bytes, 100);
            assert_eq!(replies, [5, 2]);
            assert_eq!(
                step,
                HandshakeStep::Refuse(vec![1, 1], SocksError::WrongPassword),
                "{wrong:?}"
            );
        }
    }

    #[test]
    fn a_password_is_required_where_one_is_set() {
        let known = known();
        let (_, step) = talk(Some(&known), &[5, 1, 0], 100);
        assert_eq!(step, HandshakeStep::Refuse(vec![5, 0xff], SocksError::NoAcceptableMethod));
        let (_, step) = talk(None, &[5, 1, 2], 100);
        assert_eq!(step, HandshakeStep::Refuse(vec![5, 0xff], SocksError::NoAcceptableMethod));
        let (_, step) = talk(None, &[5, 0], 100);
        assert_eq!(step, HandshakeStep::Refuse(vec![5, 0xff], SocksError::NoMethods));
    }

    #[test]
    fn other_protocols_get_no_answer() {
        for bytes in [b"GET / HTTP/1.1\r\n".as_slice(), &[4, 1, 0, 80, 1, 2, 3, 4, 0], &[0]] {
            let (replies, step) = talk(None, bytes, 100);
            assert!(replies.is_empty());
            assert_eq!(step, HandshakeStep::Refuse(vec![], SocksError::Version(bytes[0])));
        }
    }

    #[test]
    fn bind_and_udp_associate_and_unknown_addresses_get_their_codes() {
        let ask = |command, kind| {
            let bytes = [5, 1, 0, 5, command, 0, kind, 127, 0, 0, 1, 0, 80];
            match talk(None, &bytes, 100).1 {
                HandshakeStep::Refuse(reply, _) => reply[1],
                step => panic!("{step:?}"),
            }
        };
        assert_eq!(ask(2, 1), 7, "BIND");
        assert_eq!(ask(3, 1), 7, "UDP ASSOCIATE");
        assert_eq!(ask(1, 2), 8, "no such address type");
    }

    #[test]
    fn names_with_control_characters_or_nothing_in_them_are_refused() {
        for name in [b"".as_slice(), b"a\nb", b"a b", b"\xff\xfe", b"a\0"] {
            let length = name.len() as u8;
            let bytes = [&[5, 1, 0, 5, 1, 0, 3, length], name, &[0, 80]].concat();
            let (_, step) = talk(None, &bytes, 100);
            assert!(matches!(step, HandshakeStep::Refuse(_, SocksError::Name)), "{name:?}");
        }
    }

    #[test]
    fn replies_have_the_address_in_its_family() {
        let bound = "192.0.2.9:4096".parse().unwrap();
        assert_eq!(Reply::Succeeded.bytes(Some(bound)), [5, 0, 0, 1, 192, 0, 2, 9, 16, 0]);
        assert_eq!(Reply::ConnectionRefused.bytes(None), [5, 5, 0, 1, 0, 0, 0, 0, 0, 0]);
        let six = Reply::Succeeded.bytes(Some("[::1]:80".parse().unwrap()));
        assert_eq!((six.len(), six[3], six[19]), (22, 4, 1));
    }

    #[test]
    fn what_follows_the_request_is_left_for_the_destination() {
        let mut handshake = Handshake::new(None);
        let bytes = [5, 1, 0, 5, 1, 0, 1, 127, 0, 0, 1, 0, 80, b'h', b'i'];
        let (greeting, _) = handshake.receive(&bytes);
        let (request, step) = handshake.receive(&bytes[greeting..]);
        assert!(matches!(step, HandshakeStep::Connect(_)));
        assert_eq!(&bytes[greeting + request..], b"hi");
        assert_eq!(handshake.receive(b"hi"), (0, HandshakeStep::More), "it is over");
    }

    #[test]
    fn a_password_does_not_get_into_a_log() {
        assert!(!format!("{:?}", known()).contains("pass"));
        assert!(Credentials::new(b"", b"x").is_none());
        assert!(Credentials::new(b"x", &[b'y'; 256]).is_none());
    }

    proptest! {
        #[test]
        fn how_bytes_arrive_makes_no_difference(
            bytes in proptest::collection::vec(prop_oneof![0_u8..6, any::<u8>()], 0..700),
            piece in 1_usize..30,
            with_password: bool,
        ) {
            let known = known();
            let credentials = with_password.then_some(&known);
            prop_assert_eq!(talk(credentials, &bytes, piece), talk(credentials, &bytes, 1 << 20));
        }

        #[test]
        fn no_message_is_longer_than_the_limit(bytes in proptest::collection::vec(any::<u8>(), MAX_MESSAGE_BYTES)) {
            for state in [SocksState::Greeting, SocksState::Password, SocksState::Request] {
                let known = known();
                let mut handshake = Handshake { credentials: Some(&known), state };
                prop_assert_ne!(handshake.receive(&bytes).1, HandshakeStep::More);
            }
        }

        #[test]
        fn every_target_is_read_back(octets: [u8; 16], port: u16, name in "[a-z][a-z0-9.-]{0,254}") {
            let ip = Ipv6Addr::from(octets);
            let bytes = [&[5, 1, 0, 4], octets.as_slice(), &port.to_be_bytes()].concat();
            let mut handshake = Handshake { credentials: None, state: SocksState::Request };
            let wanted = HandshakeStep::Connect(Target::Address((ip, port).into()));
            prop_assert_eq!(handshake.receive(&bytes), (bytes.len(), wanted));
            let length = name.len() as u8;
            let bytes = [&[5, 1, 0, 3, length], name.as_bytes(), &port.to_be_bytes()].concat();
            let mut handshake = Handshake { credentials: None, state: SocksState::Request };
            let wanted = HandshakeStep::Connect(Target::Name(name, port));
            prop_assert_eq!(handshake.receive(&bytes), (bytes.len(), wanted));
        }
    }
}
