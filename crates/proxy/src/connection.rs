//! One connection from beginning to end.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use cellpace_tcp::{DriverChoice, Engine, FlowOptions};
use socket2::SockRef;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::{Instant, timeout};

use crate::config::{Config, Mode};
use crate::error::ConnectionError;
use crate::metrics::Metrics;
use crate::proxy_header::{self, Ends, Header};
use crate::reach::{reach, reply};
use crate::relay::{End, Moved, relay};
use crate::server::{Notice, Stop, Tell, at_least};
use crate::side::{Side, prepare};
use crate::socks5::{Handshake, LONGEST_MESSAGE, Reply, Step, Target};

/// What became of a connection.
#[derive(Debug)]
pub struct Closed {
    /// The client, as a header of the PROXY protocol told, or as it connected.
    pub client: SocketAddr,
    /// The destination, if it became known.
    pub target: Option<Target>,
    /// Bytes that were passed on towards the client.
    pub to_client: u64,
    /// Bytes that were passed on towards the destination.
    pub to_upstream: u64,
    /// From accepting to closing.
    pub lasted: Duration,
    /// How it ended, or why it was not served.
    pub how: Result<How, ConnectionError>,
}

/// How a connection that was served ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum How {
    /// Both directions ended in order.
    Finished,
    /// One side was reset, and so the other was.
    Reset,
    /// No byte moved for too long.
    Idle,
    /// The proxy ended before it.
    Cut,
}

impl How {
    /// A word for logs and metrics.
    pub fn word(self) -> &'static str {
        match self {
            Self::Finished => "finished",
            Self::Reset => "reset",
            Self::Idle => "idle",
            Self::Cut => "cut",
        }
    }
}

/// What all connections share.
pub(crate) struct Shared {
    pub(crate) config: Config,
    pub(crate) engine: Engine,
    pub(crate) metrics: Metrics,
    pub(crate) tell: Tell,
    pub(crate) flows: AtomicU64,
    pub(crate) cut: AtomicU64,
}

/// Serves one connection.
pub(crate) async fn serve(
    shared: Arc<Shared>,
    client: TcpStream,
    from: SocketAddr,
    mut stop: watch::Receiver<Stop>,
) {
    let _open = shared.metrics.accepted();
    let start = Instant::now();
    let mut served =
        Served { shared: &shared, client: from, target: None, moved: Moved::default() };
    let how = tokio::select! {
        how = served.run(client) => how,
        () = at_least(&mut stop, Stop::Now) => {
            shared.cut.fetch_add(1, Ordering::Relaxed);
            Ok(How::Cut)
        }
    };
    match &how {
        Ok(how) => shared.metrics.ended(how.word()),
        Err(error) => shared.metrics.refused(error.word()),
    }
    (shared.tell)(Notice::Closed(Closed {
        client: served.client,
        target: served.target.take(),
        to_client: served.moved.to_client.load(Ordering::Relaxed),
        to_upstream: served.moved.to_upstream.load(Ordering::Relaxed),
        lasted: start.elapsed(),
        how,
    }));
}

struct Served<'a> {
    shared: &'a Shared,
    client: SocketAddr,
    target: Option<Target>,
    moved: Moved,
}

impl Served<'_> {
    async fn run(&mut self, client: TcpStream) -> Result<How, ConnectionError> {
        prepare(&client);
        let config = &self.shared.config;
        let local = client.local_addr().map_err(ConnectionError::Gone)?;
        let mut ends = Ends { source: self.client, destination: local };
        let mut pending = Pending::default();
        let limit = config.limits.handshake;
        let asked = timeout(limit, async {
            if config.accept_proxy.iter().any(|network| network.contains(ends.source.ip())) {
                ends = pending.header(&client).await?.unwrap_or(ends);
            }
            match &config.mode {
                Mode::Forward(target) => Ok(target.clone()),
                Mode::Socks5(credentials) => {
                    pending.socks(&client, Handshake::new(credentials.as_ref())).await
                }
                Mode::Transparent => Ok(Target::Address(local)),
            }
        });
        let asked = asked.await;
        self.client = ends.source;
        let target = match asked {
            Ok(Ok(target)) => target,
            Ok(Err(error)) => {
                close_refused(client).await;
                return Err(error);
            }
            Err(_) => return Err(ConnectionError::Silent),
        };
        self.target = Some(target.clone());
        if matches!(config.mode, Mode::Transparent) && self.is_ourselves(local).await {
            return Err(ConnectionError::Loop);
        }
        let upstream = self.reach(&client, &target).await?;
        let mut first = Vec::new();
        if let Some(version) = config.send_proxy {
            first = Header { ends: Some(ends) }.bytes(version);
        }
        first.append(&mut pending.bytes);
        self.relay(client, upstream, first).await
    }

    /// Whether somebody connected to the proxy itself rather than through it: going on would be
    /// to connect to ourselves, again and again.
    async fn is_ourselves(&self, local: SocketAddr) -> bool {
        let is_our_port = self.shared.config.listen.iter().any(|at| at.port() == local.port());
        // Only an address of this machine can be bound to.
        is_our_port && UdpSocket::bind((local.ip(), 0)).await.is_ok()
    }

    async fn reach(
        &self,
        client: &TcpStream,
        target: &Target,
    ) -> Result<TcpStream, ConnectionError> {
        let config = &self.shared.config;
        let speaks_socks = matches!(config.mode, Mode::Socks5(_));
        let reached = tokio::select! {
            reached = reach(target, config.limits.connect) => reached,
            error = gone(client) => return Err(ConnectionError::Gone(error)),
        };
        match reached {
            Ok(upstream) if speaks_socks => {
                let bound = upstream.local_addr().ok();
                send(client, &Reply::Succeeded.bytes(bound)).await?;
                Ok(upstream)
            }
            Ok(upstream) => Ok(upstream),
            Err(source) => {
                if speaks_socks {
                    send(client, &reply(&source).bytes(None)).await?;
                } else {
                    // What the client may have sent will be read by nobody.
                    let _ = SockRef::from(client).set_linger(Some(Duration::ZERO));
                }
                Err(ConnectionError::Unreachable { target: target.to_string(), source })
            }
        }
    }

    async fn relay(
        &self,
        client: TcpStream,
        upstream: TcpStream,
        first: Vec<u8>,
    ) -> Result<How, ConnectionError> {
        let config = &self.shared.config;
        let mut cut = Cut(vec![
            self.side(client, config.control.client(), false)?,
            self.side(upstream, config.control.upstream(), true)?,
        ]);
        let followed: Vec<_> = cut.0.iter().filter_map(Side::flow).cloned().collect();
        let _followed: Vec<_> =
            followed.into_iter().map(|flow| self.shared.metrics.follow(flow)).collect();
        let idle = config.limits.idle;
        let end = relay(&cut.0[0], &cut.0[1], first, idle, &self.moved, &self.shared.metrics).await;
        match end {
            End::Finished => {
                // A peer that does not take the rest is as good as idle.
                for side in &cut.0 {
                    if !side.delivered(idle).await {
                        return Ok(How::Idle);
                    }
                }
                cut.0.clear();
                Ok(How::Finished)
            }
            End::Reset => Ok(How::Reset),
            End::Idle => {
                cut.0.clear();
                Ok(How::Idle)
            }
        }
    }

    /// One side; `outgoing` says that we opened it.
    fn side(
        &self,
        tcp: TcpStream,
        controlled: bool,
        outgoing: bool,
    ) -> Result<Side, ConnectionError> {
        if !controlled {
            return Ok(Side::Plain(tcp));
        }
        let shared = self.shared;
        let flow = shared.flows.fetch_add(1, Ordering::Relaxed);
        let seed = shared.config.flow.seed.wrapping_add(flow);
        let driver = match shared.config.framed {
            true => DriverChoice::client_server(outgoing),
            false => DriverChoice::Gate,
        };
        let options = FlowOptions { seed, driver, ..shared.config.flow.clone() };
        let tcp = match &shared.config.steerer {
            Some(steerer) => match Side::steer(tcp, steerer, &options) {
                Ok(side) => return Ok(side),
                Err(tcp) => tcp,
            },
            None => tcp,
        };
        let (side, failed) = Side::control(tcp, &shared.engine, &options);
        if let Some(error) = failed {
            shared.metrics.stayed_plain();
            (shared.tell)(Notice::Uncontrolled(error));
        }
        side.map_err(ConnectionError::Setup)
    }
}

/// Both sides; those that are not taken out are reset when it is dropped, so that whoever reads
/// knows that something is missing.
struct Cut(Vec<Side>);

impl Drop for Cut {
    fn drop(&mut self) {
        for side in self.0.drain(..) {
            side.abort();
        }
    }
}

/// Bytes that the client sent before it is connected.
#[derive(Default)]
struct Pending {
    bytes: Vec<u8>,
}

impl Pending {
    /// More bytes.
    async fn read(&mut self, client: &TcpStream) -> Result<(), ConnectionError> {
        loop {
            client.readable().await.map_err(ConnectionError::Gone)?;
            let mut part = [0; 1024];
            match client.try_read(&mut part) {
                Ok(0) => return Err(ConnectionError::Gone(io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => {
                    self.bytes.extend_from_slice(&part[..count]);
                    return Ok(());
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(ConnectionError::Gone(error)),
            }
        }
    }

    async fn header(&mut self, client: &TcpStream) -> Result<Option<Ends>, ConnectionError> {
        loop {
            if let Some((header, length)) = proxy_header::parse(&self.bytes)? {
                self.bytes.drain(..length);
                return Ok(header.ends);
            }
            // The parser refuses what is too long, so this ends.
            self.read(client).await?;
        }
    }

    async fn socks(
        &mut self,
        client: &TcpStream,
        mut handshake: Handshake<'_>,
    ) -> Result<Target, ConnectionError> {
        loop {
            let (consumed, step) = handshake.receive(&self.bytes);
            self.bytes.drain(..consumed);
            match step {
                Step::More => {
                    debug_assert!(self.bytes.len() < LONGEST_MESSAGE);
                    self.read(client).await?;
                }
                Step::Send(bytes) => send(client, &bytes).await?,
                Step::Refuse(bytes, error) => {
                    send(client, &bytes).await?;
                    return Err(error.into());
                }
                Step::Connect(target) => return Ok(target),
            }
        }
    }
}

/// Sends a short answer.
async fn send(client: &TcpStream, mut bytes: &[u8]) -> Result<(), ConnectionError> {
    while !bytes.is_empty() {
        client.writable().await.map_err(ConnectionError::Gone)?;
        match client.try_write(bytes) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(ConnectionError::Gone(error)),
        }
    }
    Ok(())
}

/// Waits for a reset of the client.
async fn gone(client: &TcpStream) -> io::Error {
    // An error of `ready` means that the runtime ends.
    let _ = client.ready(tokio::io::Interest::ERROR).await;
    io::ErrorKind::ConnectionReset.into()
}

/// Closes after a refusal. Bytes that were not read would make that a reset, which can overtake
/// the refusal, so they are read for a moment.
async fn close_refused(client: TcpStream) {
    const MOMENT: Duration = Duration::from_secs(1);
    const MOST: usize = 64 << 10;
    let _ = SockRef::from(&client).shutdown(std::net::Shutdown::Write);
    let mut rest = Pending::default();
    let _ = timeout(MOMENT, async {
        while rest.bytes.len() < MOST && rest.read(&client).await.is_ok() {}
    })
    .await;
}
