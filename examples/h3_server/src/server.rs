//! The server.

use std::io::Read;
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cellpace_base::Span;
use cellpace_base::quota::{MemoryTally, Place, Places, network_places};
use cellpace_cc::ControllerSpec;
use cellpace_measure::Summary;
use cellpace_quic::identity::{Identity, IdentityError, server_config};
use cellpace_quic::{Factory, FactoryError};
use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use http::{Method, Request, Response, StatusCode, header};
use quinn::{IdleTimeout, VarInt};

use crate::ALPN;
use crate::folder::{Folder, Found, NotFound};
use crate::watch::PathWatch;

/// What strangers can make a server do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time; one network has a quarter of them, but at least 64.
    pub connections: usize,
    /// Files that are open at a time; one network has a quarter of them, but at least 64. Who gets none
    /// is answered 503.
    pub files: usize,
    /// Bytes of memory for what peers have not taken yet, all connections together; one network has a
    /// quarter.
    pub memory: u64,
    /// Requests at a time in one connection.
    pub requests: u32,
    /// Requests of one connection that its client gives up before their answer, beyond as many as
    /// were answered whole.
    pub given_up: u64,
    /// Bytes of the header of a request.
    pub header: u64,
    /// How long a connection may ask for nothing, whatever else it says.
    pub idle: Duration,
    /// How long a request may take to come, and a reader to take the next 64 kB of an answer.
    pub patience: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            files: 4096,
            memory: 512 << 20,
            requests: 64,
            given_up: 200,
            header: 16 << 10,
            idle: Duration::from_secs(30),
            patience: Duration::from_secs(30),
        }
    }
}

/// Bytes of a connection that are kept until they are acked: so many where there is memory, and
/// never fewer than the second.
const SEND_WINDOW: [u64; 2] = [4 << 20, 64 << 10];
/// Bytes of a connection that wait to be read: headers.
const RECEIVE_WINDOW: u64 = 128 << 10;
/// Bytes that a connection may send without asking for anything, beyond a quarter of what it gets.
const MAX_UNASKED: u64 = 1 << 20;
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PIECE: usize = 1 << 16;

/// Why a server cannot be started.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// The controller cannot run inside QUIC.
    #[error(transparent)]
    Factory(#[from] FactoryError),
    /// The certificate cannot be used.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// QUIC refuses the configuration.
    #[error("QUIC: {0}")]
    Configuration(String),
    /// A folder or a socket.
    #[error("{name}: {error}")]
    System {
        /// Which one.
        name: String,
        /// The system's words.
        error: std::io::Error,
    },
}

/// One request that was answered.
#[derive(Debug, Clone)]
pub struct RequestFigures {
    /// Who asked.
    pub peer: SocketAddr,
    /// The method.
    pub method: String,
    /// The path, as it came.
    pub path: String,
    /// The status.
    pub status: u16,
    /// Bytes of the body that were handed to QUIC.
    pub bytes: u64,
    /// From the request to the end of the answer.
    pub took: Duration,
    /// Whether the answer was cut short.
    pub is_cut: bool,
}

/// One connection that is over.
#[derive(Debug, Clone)]
pub struct ConnectionFigures {
    /// Who it was.
    pub peer: SocketAddr,
    /// Requests answered.
    pub requests: u64,
    /// How long it was open.
    pub took: Duration,
    /// Packets sent.
    pub packets: u64,
    /// Packets declared lost.
    pub lost: u64,
    /// The smallest RTT.
    pub min_rtt: Option<Span>,
    /// RTTs above the smallest, in ms: how long packets waited in queues.
    pub queue_delay: Option<Summary>,
}

/// Takes what a server reports, from several threads.
pub trait ServerView: Send + Sync + 'static {
    /// A request was answered.
    fn on_request(&self, figures: &RequestFigures) {
        let _ = figures;
    }

    /// A connection is over.
    fn on_connection(&self, figures: &ConnectionFigures) {
        let _ = figures;
    }
}

impl ServerView for () {}

/// A server of files.
pub struct Server {
    endpoint: quinn::Endpoint,
    /// TLS, to which each connection adds its controller.
    config: quinn::ServerConfig,
    cc: ControllerSpec,
    seed: u64,
    accepted: AtomicU64,
    shared: Arc<Shared>,
}

struct Shared {
    folder: Folder,
    limits: Limits,
    places: Arc<Places>,
    files: Arc<Places>,
    view: Box<dyn ServerView>,
}

impl Server {
    /// Binds `at` and serves the files below `folder` from the next poll of [`run`](Self::run) on, each
    /// connection under a controller of its own. Must be called on a tokio runtime.
    ///
    /// # Errors
    /// When the folder cannot be read, the address cannot be bound, the controller cannot run inside
    /// QUIC, or key and certificate do not match.
    pub fn bind(
        at: SocketAddr,
        folder: &Path,
        cc: ControllerSpec,
        seed: u64,
        identity: &Identity,
        limits: Limits,
        view: impl ServerView,
    ) -> Result<Self, ServerError> {
        let opened = Folder::open(folder);
        let folder = opened.map_err(|error| ServerError::System { name: shown(folder), error })?;
        // Says at once whether the controller can run inside QUIC.
        Factory::new(cc.clone(), seed)?;
        let refused = |error: &dyn std::fmt::Display| ServerError::Configuration(error.to_string());
        IdleTimeout::try_from(limits.idle).map_err(|error| refused(&error))?;
        let tls = server_config(identity, None, ALPN)?;
        let tls: quinn::crypto::rustls::QuicServerConfig =
            tls.try_into().map_err(|error| refused(&error))?;
        let config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        let endpoint = quinn::Endpoint::server(config.clone(), at)
            .map_err(|error| ServerError::System { name: at.to_string(), error })?;
        let shared = Arc::new(Shared {
            folder,
            limits,
            places: Places::new(
                limits.connections,
                network_places(limits.connections),
                limits.memory,
            ),
            files: Places::new(limits.files, network_places(limits.files), 0),
            view: Box::new(view),
        });
        Ok(Self { endpoint, config, cc, seed, accepted: AtomicU64::new(0), shared })
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_address(&self) -> Result<SocketAddr, ServerError> {
        let address = self.endpoint.local_addr();
        address.map_err(|error| ServerError::System { name: "the socket".to_owned(), error })
    }

    /// Serves until it is dropped or the endpoint is closed.
    pub async fn run(&self) {
        while let Some(incoming) = self.endpoint.accept().await {
            // Who asks must show that the address is its own. An address that was taken in vain gets
            // one Retry, and no handshake of three times what it sent or more.
            if !incoming.remote_address_validated() {
                let _ = incoming.retry();
                continue;
            }
            let Some((config, admitted)) = self.admit(incoming.remote_address()) else {
                incoming.refuse();
                continue;
            };
            let shared = self.shared.clone();
            let Ok(connecting) = incoming.accept_with(Arc::new(config)) else { continue };
            tokio::spawn(async move {
                let handshake = tokio::time::timeout(shared.limits.patience, connecting).await;
                if let Ok(Ok(connection)) = handshake {
                    serve(&shared, connection).await;
                }
                drop(admitted);
            });
        }
    }

    /// A place for a connection, and its configuration: a controller of its own, and windows that its
    /// network has the memory for.
    fn admit(&self, from: SocketAddr) -> Option<(quinn::ServerConfig, (MemoryTally, Place))> {
        let place = self.shared.places.take(from).ok()?;
        let mut memory = place.memory().tally();
        let [most, least] = SEND_WINDOW;
        // The least for each connection of the network, and of what is left beyond that a quarter.
        let Limits { connections, memory: all, .. } = self.shared.limits;
        let reserve =
            network_places(connections).min(connections) as u64 * (least + RECEIVE_WINDOW);
        let left = (all / 4).saturating_sub(place.memory().used());
        let window = (left.saturating_sub(reserve) / 4).clamp(least, most);
        let window =
            [window, least].into_iter().find(|window| memory.add(window + RECEIVE_WINDOW))?;
        let number = self.accepted.fetch_add(1, Ordering::Relaxed);
        let factory = Factory::new(self.cc.clone(), self.seed.wrapping_add(number)).ok()?;
        factory.set_send_window(window);
        let mut transport = quinn::TransportConfig::default();
        factory.install_quinn(&mut transport);
        let Limits { idle, requests, .. } = self.shared.limits;
        transport
            .max_idle_timeout(Some(IdleTimeout::try_from(idle).ok()?))
            .max_concurrent_bidi_streams(requests.into())
            // Control, and encoder and decoder of QPACK, and some to ignore.
            .max_concurrent_uni_streams(8_u8.into())
            .stream_receive_window(VarInt::from_u32(64 << 10))
            .receive_window(VarInt::from_u32(RECEIVE_WINDOW as u32))
            .datagram_receive_buffer_size(None);
        let mut config = self.config.clone();
        config.transport_config(Arc::new(transport));
        Some((config, (memory, place)))
    }

    /// Ends all connections, and waits until the other sides know.
    pub async fn close(&self) {
        self.endpoint.close(VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// What the requests of one connection have come to.
#[derive(Default)]
struct Requests {
    /// Those that have no whole answer yet.
    open: AtomicUsize,
    /// Those that were answered whole.
    answered: AtomicU64,
    /// Those that the client gave up.
    given_up: AtomicU64,
}

/// One request, from its first byte to the end of its answer.
struct OpenRequest(Arc<Requests>);

impl OpenRequest {
    fn new(requests: &Arc<Requests>) -> Self {
        requests.open.fetch_add(1, Ordering::Relaxed);
        Self(requests.clone())
    }

    fn end(self, is_whole: bool) {
        let counter = if is_whole { &self.0.answered } else { &self.0.given_up };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Requests {
    fn is_rapid_reset(&self, limits: &Limits) -> bool {
        let answered = self.answered.load(Ordering::Relaxed);
        self.given_up.load(Ordering::Relaxed) > limits.given_up + answered
    }
}

/// Answers the requests of one connection.
async fn serve(shared: &Arc<Shared>, connection: quinn::Connection) {
    let (peer, began) = (connection.remote_address(), Instant::now());
    let mut watch = cellpace_quic::quinn::attach(&connection).map(PathWatch::new);
    let mut builder = h3::server::builder();
    builder.max_field_section_size(shared.limits.header);
    let built = builder.build::<_, Bytes>(h3_quinn::Connection::new(connection.clone()));
    let Ok(Ok(mut http)) = tokio::time::timeout(shared.limits.patience, built).await else {
        close(&connection, Code::H3_REQUEST_REJECTED, "no HTTP/3 came");
        return;
    };
    let mut begun = 0_u64;
    let mut busy_at = Instant::now();
    let requests = Arc::new(Requests::default());
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = http.accept() => match accepted {
                Ok(Some(resolver)) => {
                    begun += 1;
                    let open = OpenRequest::new(&requests);
                    tokio::spawn(answer(shared.clone(), peer, resolver, open));
                }
                Ok(None) | Err(_) => break,
            },
            _ = look.tick() => {
                if let Some(watch) = &mut watch {
                    watch.take();
                }
                if requests.open.load(Ordering::Relaxed) > 0 {
                    busy_at = Instant::now();
                }
                if let Some((code, why)) = fault(shared, &connection, &requests, begun, busy_at) {
                    close(&connection, code, why);
                    break;
                }
            }
        }
    }
    if let Some(watch) = &mut watch {
        watch.take();
    }
    let (packets, lost) = watch.as_ref().map_or((0, 0), PathWatch::packets);
    shared.view.on_connection(&ConnectionFigures {
        peer,
        requests: begun,
        took: began.elapsed(),
        packets,
        lost,
        min_rtt: watch.as_ref().and_then(PathWatch::min_rtt),
        queue_delay: watch.as_ref().and_then(PathWatch::queue_delay),
    });
}

fn close(connection: &quinn::Connection, code: Code, why: &str) {
    connection.close(VarInt::from_u32(code.value() as u32), why.as_bytes());
}

/// Why a connection is to be closed, if it is.
fn fault(
    shared: &Shared,
    connection: &quinn::Connection,
    requests: &Requests,
    begun: u64,
    busy_at: Instant,
) -> Option<(Code, &'static str)> {
    let limits = &shared.limits;
    if busy_at.elapsed() > limits.idle {
        return Some((Code::H3_NO_ERROR, "nothing was asked for"));
    }
    if requests.is_rapid_reset(limits) {
        return Some((Code::H3_EXCESSIVE_LOAD, "too many requests were given up"));
    }
    // The library collects the header of a request whatever its size.
    let stats = connection.stats();
    let asked = MAX_UNASKED + stats.udp_tx.bytes / 4 + begun * limits.header;
    (stats.udp_rx.bytes > asked)
        .then_some((Code::H3_EXCESSIVE_LOAD, "more data than requests have"))
}

type Resolver = RequestResolver<h3_quinn::Connection, Bytes>;
type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

async fn answer(shared: Arc<Shared>, peer: SocketAddr, resolver: Resolver, open: OpenRequest) {
    let patience = shared.limits.patience;
    let Ok(Ok((request, mut stream))) =
        tokio::time::timeout(patience, resolver.resolve_request()).await
    else {
        open.end(false);
        return;
    };
    let began = Instant::now();
    // Nobody reads a body.
    stream.stop_sending(Code::H3_NO_ERROR);
    let mut sent = 0;
    let (status, result) = respond(&shared, peer, &request, &mut stream, &mut sent).await;
    let is_cut = result.is_none();
    if is_cut {
        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
    }
    open.end(!is_cut);
    shared.view.on_request(&RequestFigures {
        peer,
        method: request.method().to_string(),
        path: request.uri().path().to_owned(),
        status: status.as_u16(),
        bytes: sent,
        took: began.elapsed(),
        is_cut,
    });
}

/// The file that a request asks for and its place among those that are open, or the status without one.
fn find(
    shared: &Shared,
    peer: SocketAddr,
    request: &Request<()>,
) -> Result<(Found, Place), StatusCode> {
    if !matches!(request.method(), &Method::GET | &Method::HEAD) {
        return Err(StatusCode::METHOD_NOT_ALLOWED);
    }
    let place = shared.files.take(peer).map_err(|_| StatusCode::SERVICE_UNAVAILABLE)?;
    match shared.folder.find(request.uri().path()) {
        Ok(found) => Ok((found, place)),
        Err(NotFound::BadPath) => Err(StatusCode::BAD_REQUEST),
        Err(NotFound::Missing) => Err(StatusCode::NOT_FOUND),
        Err(NotFound::Busy) => Err(StatusCode::SERVICE_UNAVAILABLE),
    }
}

/// `None`: the answer was cut short.
async fn respond(
    shared: &Shared,
    peer: SocketAddr,
    request: &Request<()>,
    stream: &mut Stream,
    sent: &mut u64,
) -> (StatusCode, Option<()>) {
    let is_head = request.method() == Method::HEAD;
    let found = find(shared, peer, request);
    let status = found.as_ref().err().copied().unwrap_or(StatusCode::OK);
    let mut response = Response::builder().status(status);
    response = match (&found, status) {
        (Ok((found, _)), _) => response
            .header(header::CONTENT_LENGTH, found.size)
            .header(header::CONTENT_TYPE, found.media_type),
        (Err(_), StatusCode::METHOD_NOT_ALLOWED) => {
            response.header(header::CONTENT_LENGTH, 0).header(header::ALLOW, "GET, HEAD")
        }
        (Err(_), StatusCode::SERVICE_UNAVAILABLE) => {
            response.header(header::CONTENT_LENGTH, 0).header(header::RETRY_AFTER, 1)
        }
        (Err(_), _) => response.header(header::CONTENT_LENGTH, 0),
    };
    let Ok(response) = response.body(()) else { return (status, None) };
    let patience = shared.limits.patience;
    let result = async {
        let answered = tokio::time::timeout(patience, stream.send_response(response)).await;
        answered.ok()?.ok()?;
        if let Some((found, _)) = found.as_ref().ok().filter(|_| !is_head) {
            send_file(found, stream, patience, sent).await?;
        }
        tokio::time::timeout(patience, stream.finish()).await.ok()?.ok()
    };
    (status, result.await)
}

/// Sends exactly as many bytes as were announced.
async fn send_file(
    found: &Found,
    stream: &mut Stream,
    patience: Duration,
    sent: &mut u64,
) -> Option<()> {
    let mut file = &found.file;
    while *sent < found.size {
        let mut piece = vec![0; PIECE.min((found.size - *sent) as usize)];
        // From the page cache, as a rule; a disk holds up one of the runtime's threads.
        let count = file.read(&mut piece).ok().filter(|count| *count > 0)?;
        piece.truncate(count);
        tokio::time::timeout(patience, stream.send_data(piece.into())).await.ok()?.ok()?;
        *sent += count as u64;
    }
    Some(())
}
