//! What clients of the proxy say before they are connected.

use cellpace_proxy::proxy_header::{MAX_HEADER_BYTES, Version, parse};
use cellpace_proxy::socks5::{Credentials, Handshake, HandshakeStep, MAX_MESSAGE_BYTES, Reply};

/// The server's side of SOCKS 5, without and with a password, and with the bytes in pieces, the
/// size of which the first byte says.
pub fn socks5(bytes: &[u8]) {
    let Some((&piece, bytes)) = bytes.split_first() else { return };
    let known = Credentials::new(b"user", b"pass").expect("neither is empty or long");
    for credentials in [None, Some(&known)] {
        let whole = talk(credentials, bytes, bytes.len());
        assert_eq!(talk(credentials, bytes, piece.into()), whole, "pieces make no difference");
    }
}

/// What the server says, and how many bytes it consumed.
fn talk(credentials: Option<&Credentials>, bytes: &[u8], piece: usize) -> (Vec<u8>, usize) {
    let mut handshake = Handshake::new(credentials);
    let (mut pending, mut said, mut consumed) = (Vec::new(), Vec::new(), 0);
    for chunk in bytes.chunks(piece.max(1)) {
        pending.extend_from_slice(chunk);
        loop {
            let (count, step) = handshake.receive(&pending);
            pending.drain(..count);
            consumed += count;
            match step {
                HandshakeStep::More => {
                    assert!(pending.len() < MAX_MESSAGE_BYTES, "it never needs more than that");
                    break;
                }
                HandshakeStep::Send(bytes) => said.extend(bytes),
                HandshakeStep::Refuse(bytes, error) => {
                    assert!(!error.to_string().is_empty());
                    said.extend(bytes);
                    return (said, consumed);
                }
                HandshakeStep::Connect(target) => {
                    assert!(!target.to_string().bytes().any(|byte| byte.is_ascii_control()));
                    said.extend(Reply::Succeeded.bytes(None));
                    return (said, consumed);
                }
            }
        }
    }
    (said, consumed)
}

/// A header of the PROXY protocol: the verdict comes as early as it can and stays, and what was
/// read can be written and read again.
pub fn proxy_header(bytes: &[u8]) {
    let verdict = parse(bytes);
    if verdict == Ok(None) {
        assert!(bytes.len() < MAX_HEADER_BYTES);
    }
    let Ok(Some((header, length))) = verdict else { return };
    assert!(length <= bytes.len().min(MAX_HEADER_BYTES));
    assert_eq!(parse(&bytes[..length]), verdict);
    assert_eq!(parse(&bytes[..length - 1]), Ok(None));
    for version in [Version::V1, Version::V2] {
        let written = header.bytes(version);
        let (again, _) = parse(&written).expect("what is written reads back").expect("wholly");
        // Ends that are IPv4 in the form of IPv6 are written as IPv4, or not at all.
        assert_eq!(again.bytes(version), written);
    }
}
