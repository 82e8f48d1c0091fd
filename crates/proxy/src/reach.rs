//! From a destination to a connection.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};

use crate::side::prepare;
use crate::socks5::{Reply, Target};

/// Connects within a time to one of the addresses that pass `check`. Of several, each gets an even
/// share of the time that is left.
pub(crate) async fn reach(
    target: &Target,
    patience: Duration,
    check: impl Fn(SocketAddr) -> io::Result<()>,
) -> io::Result<TcpStream> {
    let end = Instant::now() + patience;
    let mut addresses = addresses(target, end).await?;
    let mut last = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
    addresses.retain(|address| match check(*address) {
        Ok(()) => true,
        Err(error) => {
            last = error;
            false
        }
    });
    for (tried, address) in addresses.iter().enumerate() {
        let now = Instant::now();
        let left = (addresses.len() - tried) as u32;
        let share = now + end.saturating_duration_since(now) / left;
        match timeout_at(share, TcpStream::connect(address)).await {
            Ok(Ok(stream)) => {
                prepare(&stream);
                return Ok(stream);
            }
            Ok(Err(error)) => last = error,
            Err(_) => last = io::ErrorKind::TimedOut.into(),
        }
    }
    Err(last)
}

async fn addresses(target: &Target, end: Instant) -> io::Result<Vec<SocketAddr>> {
    let (name, port) = match target {
        Target::Address(address) => return Ok(vec![*address]),
        Target::Name(name, port) => (name.as_str(), *port),
    };
    match timeout_at(end, tokio::net::lookup_host((name, port))).await {
        Ok(Ok(found)) => Ok(found.collect()),
        Ok(Err(error)) => Err(io::Error::new(io::ErrorKind::NotFound, error)),
        Err(_) => Err(io::Error::new(io::ErrorKind::TimedOut, "no answer to the name")),
    }
}

/// The reply to a client of SOCKS.
pub(crate) fn reply(error: &io::Error) -> Reply {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => Reply::ConnectionRefused,
        io::ErrorKind::NetworkUnreachable => Reply::NetworkUnreachable,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NotFound => Reply::HostUnreachable,
        io::ErrorKind::TimedOut => Reply::TtlExpired,
        io::ErrorKind::PermissionDenied => Reply::NotAllowed,
        _ => Reply::GeneralFailure,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_have_their_reply_codes() {
        let code = |errno| reply(&io::Error::from_raw_os_error(errno)) as u8;
        assert_eq!(code(libc::ECONNREFUSED), 5);
        assert_eq!(code(libc::ENETUNREACH), 3);
        assert_eq!(code(libc::EHOSTUNREACH), 4);
        assert_eq!(code(libc::ETIMEDOUT), 6);
        assert_eq!(code(libc::EACCES), 2);
        assert_eq!(code(libc::EMFILE), 1);
    }
}
