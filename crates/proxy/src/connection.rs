//! One connection from beginning to end.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use cellpace_tcp::{ArmControl, RelayEngine, Trials};
use socket2::SockRef;
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::access::{is_listener, is_ourselves};
use crate::clients::{ConnectionPlace, ProxyClients};
use crate::config::{ProxyConfig, ProxyMode};
use crate::error::ConnectionError;
use crate::metrics::Metrics;
use crate::notice::{
    ConnectionEnd, ControlledFlow, Notice, NoticeSink, ServedConnection, StopUrgency, at_least,
};
use crate::proxy_header::{self, Header, ProxiedAddresses};
use crate::reach::{reach, reply};
use crate::relay::{Idle, Moved, RelayEnd, relay};
use crate::side::{ConnectionSide, prepare, set_congestion_control};
use crate::socks5::{
    Credentials, Handshake, HandshakeStep, MAX_MESSAGE_BYTES, Reply, SocksError, Target,
};
use crate::trial::Part;

/// Delay of the answer to a wrong password.
const FAILURE: Duration = Duration::from_secs(1);

/// What all connections share that began under one configuration.
#[derive(Clone)]
pub(crate) struct ProxyShared {
    pub(crate) config: ProxyConfig,
    pub(crate) trials: Arc<Trials>,
    /// Relays the data of all of them.
    pub(crate) engine: RelayEngine,
    pub(crate) metrics: Metrics,
    pub(crate) report: NoticeSink,
    pub(crate) flows: Arc<AtomicU64>,
    pub(crate) cut: Arc<AtomicU64>,
    /// Maximum number of concurrent connections since memory was last given back.
    pub(crate) peak: Arc<AtomicUsize>,
    pub(crate) clients: Arc<ProxyClients>,
    /// Whether nearly all places are taken.
    pub(crate) crowded: watch::Sender<bool>,
}

/// Serves one connection.
pub(crate) async fn serve(
    shared: Arc<ProxyShared>,
    client: TcpStream,
    from: SocketAddr,
    mut stop: watch::Receiver<StopUrgency>,
) {
    let _open = shared.metrics.accepted();
    let start = Instant::now();
    let (target, moved) = (None, Moved::default());
    let mut served = Served {
        shared: &shared,
        accepted: start,
        client: from,
        target,
        moved,
        place: None,
        part: OnceLock::new(),
    };
    let how = tokio::select! {
        how = served.run(client) => how,
        () = at_least(&mut stop, StopUrgency::Now) => {
            shared.cut.fetch_add(1, Ordering::Relaxed);
            Ok(ConnectionEnd::Cut)
        }
    };
    match &how {
        Ok(how) => shared.metrics.ended(how.word()),
        Err(error) => shared.metrics.refused(error.word()),
    }
    if let (Some(part), Ok(how)) = (served.part.take(), &how)
        && let Some(record) =
            part.record(&shared.trials, shared.config.control.client(), *how, &served.moved)
    {
        (shared.report)(Notice::Recorded(record));
    }
    (shared.report)(Notice::Closed(ServedConnection {
        client: served.client,
        target: served.target.take(),
        to_client: served.moved.to_client.load(Ordering::Relaxed),
        to_upstream: served.moved.to_upstream.load(Ordering::Relaxed),
        lasted: start.elapsed(),
        how,
    }));
}

struct Served<'a> {
    shared: &'a ProxyShared,
    accepted: Instant,
    client: SocketAddr,
    target: Option<Target>,
    moved: Moved,
    /// In an experiment.
    part: OnceLock<Part>,
    /// Among the client's connections.
    place: Option<ConnectionPlace>,
}

impl Served<'_> {
    async fn run(&mut self, client: TcpStream) -> Result<ConnectionEnd, ConnectionError> {
        prepare(&client);
        let client = Unserved(Some(client));
        let config = &self.shared.config;
        let local = client.local_addr().map_err(ConnectionError::Gone)?;
        let mut ends = ProxiedAddresses { source: self.client, destination: local };
        let mut pending = EarlyBytes::default();
        let limit = config.limits.handshake;
        let clients = &self.shared.clients;
        let asked = timeout(limit, async {
            if config.accept_proxy.iter().any(|network| network.contains(ends.source.ip())) {
                ends = pending.header(&client).await?.unwrap_or(ends);
            }
            let from = ends.source.ip();
            self.place = Some(clients.take(from).ok_or(ConnectionError::TooMany)?);
            match &config.mode {
                ProxyMode::Forward(target) => Ok(target.clone()),
                ProxyMode::Socks5(credentials) => {
                    pending.socks(&client, credentials.as_ref(), clients, from).await
                }
                ProxyMode::Transparent => Ok(Target::Address(local)),
            }
        });
        let asked = asked.await;
        self.client = ends.source;
        let target = match asked {
            Ok(Ok(target)) => target,
            Ok(Err(error @ ConnectionError::TooMany)) => return Err(error),
            Ok(Err(error)) => {
                close_refused(client.take()).await;
                return Err(error);
            }
            Err(_) => return Err(ConnectionError::Silent),
        };
        self.target = Some(target.clone());
        if matches!(config.mode, ProxyMode::Transparent) && is_ourselves(local, &config.listen) {
            return Err(ConnectionError::Loop);
        }
        let upstream = match self.reach(&client, &target).await {
            Ok(upstream) => upstream,
            Err(error) => {
                if matches!(config.mode, ProxyMode::Socks5(_)) {
                    // The reply must arrive before the connection is closed.
                    drop(client.take());
                }
                return Err(error);
            }
        };
        let mut first = Vec::new();
        if let Some(version) = config.send_proxy {
            first = Header { ends: Some(ends) }.bytes(version);
        }
        first.append(&mut pending.bytes);
        self.relay(client.take(), upstream, first).await
    }

    async fn reach(
        &self,
        client: &TcpStream,
        target: &Target,
    ) -> Result<TcpStream, ConnectionError> {
        let config = &self.shared.config;
        let speaks_socks = matches!(config.mode, ProxyMode::Socks5(_));
        let is_forwarded = matches!(config.mode, ProxyMode::Forward(_));
        let is_loop = AtomicBool::new(false);
        let check = |address| match speaks_socks {
            true => config.access.check(address, &config.listen),
            false if is_forwarded && is_listener(address, &config.listen) => {
                is_loop.store(true, Ordering::Relaxed);
                Err(io::ErrorKind::PermissionDenied.into())
            }
            false => Ok(()),
        };
        let reached = tokio::select! {
            reached = reach(target, config.limits.connect, check) => reached,
            error = gone(client) => return Err(ConnectionError::Gone(error)),
        };
        match reached {
            Ok(upstream) if speaks_socks => {
                let bound = upstream.local_addr().ok();
                send(client, &Reply::Succeeded.bytes(bound)).await?;
                Ok(upstream)
            }
            Ok(upstream) => Ok(upstream),
            Err(_) if is_loop.load(Ordering::Relaxed) => Err(ConnectionError::Loop),
            Err(source) => {
                if speaks_socks {
                    send(client, &reply(&source).bytes(None)).await?;
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
    ) -> Result<ConnectionEnd, ConnectionError> {
        let config = &self.shared.config;
        let trials = &self.shared.trials;
        let part = self.part.get_or_init(|| Part::begin(trials, self.client, self.accepted));
        let treatment = trials.treatment(part.drawn());
        let mut cut = Cut(vec![
            self.side(client, treatment, config.control.client(), false)?,
            self.side(upstream, treatment, config.control.upstream(), true)?,
        ]);
        let idle = config.limits.idle;
        let most = Idle {
            most: idle,
            most_in_a_crowd: config.limits.crowded_idle.min(idle),
            crowded: self.shared.crowded.subscribe(),
        };
        let moved = &self.moved;
        let measured = usize::from(!config.control.client());
        let passed = relay(&cut.0[0], &cut.0[1], first, most, moved, &self.shared.metrics);
        let end = tokio::select! {
            end = passed => end,
            never = part.watch(&cut.0[measured], moved) => match never {},
        };
        if end != RelayEnd::Finished {
            part.sample(&cut.0[measured]);
        }
        match end {
            RelayEnd::Finished => {
                // A peer that does not accept the rest counts as idle.
                for side in &cut.0 {
                    if !side.delivered(idle).await {
                        return Ok(ConnectionEnd::Idle);
                    }
                }
                part.sample(&cut.0[measured]);
                cut.0.clear();
                Ok(ConnectionEnd::Finished)
            }
            RelayEnd::Reset => Ok(ConnectionEnd::Reset),
            RelayEnd::Idle => {
                cut.0.clear();
                Ok(ConnectionEnd::Idle)
            }
        }
    }

    /// Returns one side; `outgoing` is true if we opened it.
    fn side(
        &self,
        tcp: TcpStream,
        treatment: &ArmControl,
        controlled: bool,
        outgoing: bool,
    ) -> Result<ConnectionSide, ConnectionError> {
        let control = match treatment {
            _ if !controlled => return Ok(ConnectionSide::Plain(tcp)),
            ArmControl::Plain(name) => {
                let named = name.as_ref().map_or(Ok(()), |name| set_congestion_control(&tcp, name));
                return named.map(|()| ConnectionSide::Plain(tcp)).map_err(ConnectionError::Setup);
            }
            ArmControl::Controlled(control) => control,
        };
        let shared = self.shared;
        let number = shared.flows.fetch_add(1, Ordering::Relaxed);
        let addresses = tcp.local_addr().and_then(|local| Ok((local, tcp.peer_addr()?)));
        let (side, failed) = ConnectionSide::control(tcp, control, number, outgoing);
        if let (Ok((local, peer)), Some(flow)) =
            (addresses, side.as_ref().ok().and_then(ConnectionSide::flow))
        {
            let flow = flow.clone();
            let controlled = ControlledFlow { number, outgoing, local, peer, flow };
            (shared.report)(Notice::Controlled(controlled));
        }
        if let Some(error) = failed {
            (shared.report)(Notice::Uncontrolled(error));
        }
        side.map_err(ConnectionError::Setup)
    }
}

/// A client that is not connected to anything yet. It is reset when it is not taken out: what it may
/// have sent will be read by nobody.
struct Unserved(Option<TcpStream>);

impl Unserved {
    fn take(mut self) -> TcpStream {
        self.0.take().expect("it is taken once")
    }
}

impl Deref for Unserved {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        self.0.as_ref().expect("who takes it has it no more")
    }
}

impl Drop for Unserved {
    fn drop(&mut self) {
        if let Some(client) = self.0.take() {
            ConnectionSide::Plain(client).abort();
        }
    }
}

/// Both sides; those that are not taken out are reset when it is dropped, so that whoever reads
/// knows that something is missing.
struct Cut(Vec<ConnectionSide>);

impl Drop for Cut {
    fn drop(&mut self) {
        for side in self.0.drain(..) {
            side.abort();
        }
    }
}

/// Bytes that the client sent before it is connected.
#[derive(Default)]
struct EarlyBytes {
    bytes: Vec<u8>,
}

impl EarlyBytes {
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

    async fn header(
        &mut self,
        client: &TcpStream,
    ) -> Result<Option<ProxiedAddresses>, ConnectionError> {
        loop {
            if let Some((header, length)) = proxy_header::parse(&self.bytes)? {
                self.bytes.drain(..length);
                return Ok(header.ends);
            }
            // The parser refuses messages that are too long, so this loop ends.
            self.read(client).await?;
        }
    }

    async fn socks(
        &mut self,
        client: &TcpStream,
        credentials: Option<&Credentials>,
        clients: &ProxyClients,
        from: IpAddr,
    ) -> Result<Target, ConnectionError> {
        let mut handshake = Handshake::new(credentials);
        loop {
            let is_refused = handshake.awaits_password() && clients.is_refused(from, now());
            let (consumed, step) = match is_refused {
                true => (0, Handshake::too_many_tries()),
                false => handshake.receive(&self.bytes),
            };
            self.bytes.drain(..consumed);
            match step {
                HandshakeStep::More => {
                    debug_assert!(self.bytes.len() < MAX_MESSAGE_BYTES);
                    self.read(client).await?;
                }
                HandshakeStep::Send(bytes) => send(client, &bytes).await?,
                HandshakeStep::Refuse(bytes, error) => {
                    if error == SocksError::WrongPassword {
                        clients.note_failure(from, now());
                        sleep(FAILURE).await;
                    }
                    send(client, &bytes).await?;
                    return Err(error.into());
                }
                HandshakeStep::Connect(target) => return Ok(target),
            }
        }
    }
}

fn now() -> std::time::Instant {
    std::time::Instant::now()
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
    const MAX_BYTES: usize = 64 << 10;
    let _ = SockRef::from(&client).shutdown(std::net::Shutdown::Write);
    let mut rest = EarlyBytes::default();
    let _ = timeout(MOMENT, async {
        while rest.bytes.len() < MAX_BYTES && rest.read(&client).await.is_ok() {}
    })
    .await;
}
