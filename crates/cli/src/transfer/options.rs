//! Options that both sides have.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::path::PathBuf;

use cellpace_base::{Span, parse_bytes};
use cellpace_lab::transfer::shown_address;
use cellpace_udp::{
    AckPolicy, Driver, Endpoint, EndpointConfig, Engine, MTU_RANGE, Patience, Protection,
};
use clap::Args;

use crate::error::CommandError;
use crate::key::KeyOption;
use crate::options::span;

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
    /// Give up when nothing arrives from the other side for so long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Span,
    #[command(flatten)]
    pub(crate) key: KeyOption,
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

impl Common {
    /// A driver without sockets and flows. It acknowledges by `acks` where it receives.
    pub(crate) fn driver(&self, seed: u64, acks: AckPolicy) -> Result<Driver, CommandError> {
        let key = self.key.secret()?;
        let (secret, new_id) = Driver::secrets().map_err(CommandError::failed)?;
        let config = EndpointConfig {
            mtu: self.mtu,
            buffer: self.buffer,
            patience: Patience { silence: self.timeout },
            seed,
            acks,
            protection: key.map_or_else(Protection::default, |key| Protection::transfer(&key)),
            ..EndpointConfig::default()
        };
        Ok(Driver::new(Endpoint::new(config, secret, new_id)))
    }
}

/// The address that `HOST:PORT` or `HOST` names.
pub(crate) fn resolve(text: &str) -> Result<SocketAddr, CommandError> {
    let wrong = |error: &dyn std::fmt::Display| CommandError::usage(format!("{text}: {error}"));
    let bare = text.parse::<IpAddr>().ok().map(|ip| SocketAddr::new(ip, PORT));
    if let Some(address) = bare {
        return Ok(address);
    }
    let with_port = text.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let resolved = if with_port { text.to_socket_addrs() } else { (text, PORT).to_socket_addrs() };
    let mut addresses = resolved.map_err(|error| wrong(&error))?;
    addresses.next().ok_or_else(|| wrong(&"no address"))
}

/// Opens the sockets to listen at, and says where that is. A port alone means every address where
/// strangers get no answer (`is_keyed`), and otherwise loopback.
pub(crate) fn listen_at<E: Engine>(
    driver: &mut Driver<E>,
    text: Option<&str>,
    is_keyed: bool,
) -> Result<String, CommandError> {
    let (bound, hint) = match text.map_or(Some(PORT), |text| text.parse().ok()) {
        Some(port) if is_keyed => (bind_everywhere(driver, port), ""),
        Some(port) => (bind_loopback(driver, port), ONLY_HERE),
        None => (driver.bind(resolve(text.unwrap_or_default())?), ""),
    };
    let named = |error: std::io::Error| {
        let shown = text.map_or_else(|| format!("port {PORT}"), str::to_owned);
        CommandError::failed(format!("cannot listen at {shown}: {error}"))
    };
    let at = bound.and_then(|way| driver.local_address(way)).map_err(named)?;
    Ok(format!("{}{hint}", shown_address(at)))
}

/// What loopback means to somebody who expects others.
const ONLY_HERE: &str =
    ", for this machine only; for others give --key, or --listen with an address";

fn bind_everywhere<E: Engine>(driver: &mut Driver<E>, port: u16) -> std::io::Result<usize> {
    let six = driver.bind((Ipv6Addr::UNSPECIFIED, port).into());
    // Where there is no IPv6.
    six.or_else(|_| driver.bind((Ipv4Addr::UNSPECIFIED, port).into()))
}

fn bind_loopback<E: Engine>(driver: &mut Driver<E>, port: u16) -> std::io::Result<usize> {
    let way = driver.bind((Ipv4Addr::LOCALHOST, port).into())?;
    let port = driver.local_address(way)?.port();
    match driver.bind((Ipv6Addr::LOCALHOST, port).into()) {
        // Somebody else would get what is sent to `localhost`.
        Err(error) if error.kind() == std::io::ErrorKind::AddrInUse => Err(error),
        // Where there is no IPv6.
        _ => Ok(way),
    }
}

/// Opens a socket from which `peer` can be reached.
pub(crate) fn bind_for<E: Engine>(
    driver: &mut Driver<E>,
    peer: SocketAddr,
) -> Result<usize, CommandError> {
    let any: IpAddr =
        if peer.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
    driver.bind(SocketAddr::new(any, 0)).map_err(CommandError::failed)
}
