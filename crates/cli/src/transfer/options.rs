//! Options that both sides have.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use cellpace_base::{Span, parse_bytes, parse_span};
use cellpace_udp::{AckPolicy, Config, Driver, Endpoint, Engine, MTU_RANGE, Patience};
use clap::Args;

use crate::error::Failure;

/// Options of both sides.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Figures for scripts as JSON (schema cellpace.transfer/1)
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Largest IP packet in bytes; the smaller one of both sides counts
    #[arg(long, default_value_t = 1500, value_name = "BYTES", value_parser = mtu)]
    pub(crate) mtu: u16,
    /// Bytes of a flow that are held in memory at most
    #[arg(long, default_value = "16MB", value_name = "SIZE", value_parser = buffer)]
    pub(crate) buffer: u64,
    /// Give up when nothing is heard of the other side for so long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Span,
}

/// The port that is used where none is written.
pub(crate) const PORT: u16 = 5260;

fn mtu(text: &str) -> Result<u16, String> {
    let range = || format!("from {} to {} bytes", MTU_RANGE.start(), MTU_RANGE.end());
    text.parse().ok().filter(|mtu| MTU_RANGE.contains(mtu)).ok_or_else(range)
}

fn buffer(text: &str) -> Result<u64, String> {
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    let range = 64_000..=4_000_000_000;
    range.contains(&bytes).then_some(bytes).ok_or_else(|| "from 64kB to 4GB".to_owned())
}

fn timeout(text: &str) -> Result<Span, String> {
    let span = span(text)?;
    let range = Span::from_millis(500)..=Span::from_secs(86_400);
    range.contains(&span).then_some(span).ok_or_else(|| "from 500ms to 24h".to_owned())
}

/// A span of time with its unit.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|error| error.to_string())
}

impl Common {
    /// A driver without sockets and flows. It acknowledges by `acks` where it receives.
    pub(crate) fn driver(&self, seed: u64, acks: AckPolicy) -> Result<Driver, Failure> {
        let (secret, new_id) = Driver::secrets().map_err(Failure::failed)?;
        let config = Config {
            mtu: self.mtu,
            buffer: self.buffer,
            patience: Patience { silence: self.timeout },
            seed,
            acks,
            ..Config::default()
        };
        Ok(Driver::new(Endpoint::new(config, secret, new_id)))
    }
}

/// The address that `HOST:PORT` or `HOST` names.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, Failure> {
    let wrong = |error: &dyn std::fmt::Display| Failure::usage(format!("{text}: {error}"));
    let bare = text.parse::<std::net::IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    if let Some(address) = bare {
        return Ok(address);
    }
    let with_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let resolved = if with_port { text.to_socket_addrs() } else { (text, PORT).to_socket_addrs() };
    let mut addresses = resolved.map_err(|error| wrong(&error))?;
    addresses.next().ok_or_else(|| wrong(&"no address"))
}

/// Opens the socket to listen at.
pub(crate) fn listen_at<E: Engine>(
    driver: &mut Driver<E>,
    text: Option<&str>,
) -> Result<SocketAddr, Failure> {
    let bound = match text {
        Some(text) => driver.bind(resolve(text)?),
        None => {
            let every = |ip: std::net::IpAddr| SocketAddr::new(ip, PORT);
            let six = driver.bind(every(std::net::Ipv6Addr::UNSPECIFIED.into()));
            // Where there is no IPv6.
            six.or_else(|_| driver.bind(every(std::net::Ipv4Addr::UNSPECIFIED.into())))
        }
    };
    let named = |error: std::io::Error| {
        let shown = text.map_or_else(|| format!("port {PORT}"), str::to_owned);
        Failure::failed(format!("cannot listen at {shown}: {error}"))
    };
    let way = bound.map_err(named)?;
    driver.local_address(way).map_err(Failure::failed)
}

/// Opens a socket from which `peer` can be reached.
pub(crate) fn bind_for<E: Engine>(
    driver: &mut Driver<E>,
    peer: SocketAddr,
) -> Result<usize, Failure> {
    let any: std::net::IpAddr = if peer.is_ipv4() {
        std::net::Ipv4Addr::UNSPECIFIED.into()
    } else {
        std::net::Ipv6Addr::UNSPECIFIED.into()
    };
    driver.bind(SocketAddr::new(any, 0)).map_err(Failure::failed)
}
