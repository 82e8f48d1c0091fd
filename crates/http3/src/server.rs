//! The server.

use std::collections::HashMap;
use std::io::Read;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_measure::Summary;
use cellpace_quic::Factory;
use cellpace_quic::identity::{Identity, server_config};
use h3::error::Code;
use h3::server::{RequestResolver, RequestStream};
use http::{Method, Request, Response, StatusCode, header};
use quinn::{IdleTimeout, VarInt};

use crate::folder::{Folder, Found, NotFound};
use crate::watch::PathWatch;
use crate::{ALPN, Http3Error};

/// What strangers can make a server do.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections at a time from one address.
    pub connections_per_address: usize,
    /// Requests at a time in one connection.
    pub requests: u32,
    /// Bytes of the header of a request.
    pub header: u64,
    /// How long a connection may say nothing.
    pub idle: Duration,
    /// How long a request may take to come, and a reader to take the next 64 kB of an answer.
    pub patience: Duration,
    /// Bytes of a connection that are kept until they are acked.
    pub send_window: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_address: 256,
            requests: 64,
            header: 16 << 10,
            idle: Duration::from_secs(30),
            patience: Duration::from_secs(30),
            send_window: 4 << 20,
        }
    }
}

/// Bytes that a connection may send without asking for anything, beyond a quarter of what it gets.
const MAX_UNASKED: u64 = 1 << 20;
/// How often that is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
const PIECE: usize = 1 << 16;

/// One request that was answered.
#[derive(Debug, Clone)]
pub struct RequestFigures {
    /// Who asked.
    pub peer: SocketAddr,
    /// The method and the path, as they came.
    pub request: String,
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
    shared: Arc<Shared>,
}

struct Shared {
    folder: Folder,
    limits: Limits,
    open: Mutex<HashMap<IpAddr, usize>>,
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
    ) -> Result<Self, Http3Error> {
        let opened = Folder::open(folder);
        let folder =
            opened.map_err(|error| Http3Error::system(folder.display().to_string(), error))?;
        let factory = Factory::new(cc, seed)?;
        factory.set_send_window(limits.send_window);
        let mut transport = quinn::TransportConfig::default();
        factory.install_quinn(&mut transport);
        let idle = IdleTimeout::try_from(limits.idle).map_err(Http3Error::connection)?;
        transport
            .max_idle_timeout(Some(idle))
            .max_concurrent_bidi_streams(limits.requests.into())
            // Control, and encoder and decoder of QPACK, and some to ignore.
            .max_concurrent_uni_streams(8_u8.into())
            .stream_receive_window(VarInt::from_u32(64 << 10))
            .receive_window(VarInt::from_u32(256 << 10))
            .datagram_receive_buffer_size(None);
        let tls = server_config(identity, None, ALPN)?;
        let tls: quinn::crypto::rustls::QuicServerConfig =
            tls.try_into().map_err(Http3Error::connection)?;
        let mut config = quinn::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(Arc::new(transport));
        let endpoint = quinn::Endpoint::server(config, at)
            .map_err(|error| Http3Error::system(at.to_string(), error))?;
        let open = Mutex::new(HashMap::new());
        let shared = Shared { folder, limits, open, view: Box::new(view) };
        Ok(Self { endpoint, shared: Arc::new(shared) })
    }

    /// Where it is bound.
    ///
    /// # Errors
    /// When the system does not say.
    pub fn local_address(&self) -> Result<SocketAddr, Http3Error> {
        self.endpoint.local_addr().map_err(|error| Http3Error::system("the socket", error))
    }

    /// Serves until it is dropped or the endpoint is closed.
    pub async fn run(&self) {
        while let Some(incoming) = self.endpoint.accept().await {
            let address = incoming.remote_address();
            let Some(place) = Place::take(&self.shared, address.ip()) else {
                incoming.refuse();
                continue;
            };
            // Half full: who asks must show that the address is its own.
            if !incoming.remote_address_validated()
                && place.number > self.shared.limits.connections / 2
            {
                let _ = incoming.retry();
                continue;
            }
            let shared = self.shared.clone();
            tokio::spawn(async move {
                let _place = place;
                let handshake = async { incoming.await };
                let Ok(Ok(connection)) =
                    tokio::time::timeout(shared.limits.patience, handshake).await
                else {
                    return;
                };
                serve(&shared, connection).await;
            });
        }
    }

    /// Ends all connections, and waits until the other sides know.
    pub async fn close(&self) {
        self.endpoint.close(VarInt::from_u32(Code::H3_NO_ERROR.value() as u32), b"");
        let _ = tokio::time::timeout(Duration::from_secs(1), self.endpoint.wait_idle()).await;
    }
}

/// Room for one connection, given back when it is dropped.
struct Place {
    shared: Arc<Shared>,
    address: IpAddr,
    /// How many connections there are with it.
    number: usize,
}

impl Place {
    fn take(shared: &Arc<Shared>, address: IpAddr) -> Option<Self> {
        let mut open = shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        let number = open.values().sum::<usize>() + 1;
        let of_address = open.get(&address).copied().unwrap_or(0);
        if number > shared.limits.connections || of_address >= shared.limits.connections_per_address
        {
            return None;
        }
        open.insert(address, of_address + 1);
        Some(Self { shared: shared.clone(), address, number })
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut open = self.shared.open.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = open.get_mut(&self.address) {
            *count -= 1;
            if *count == 0 {
                open.remove(&self.address);
            }
        }
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
        connection.close(VarInt::from_u32(Code::H3_REQUEST_REJECTED.value() as u32), b"");
        return;
    };
    let mut requests = 0_u64;
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            accepted = http.accept() => match accepted {
                Ok(Some(resolver)) => {
                    requests += 1;
                    tokio::spawn(answer(shared.clone(), peer, resolver));
                }
                Ok(None) | Err(_) => break,
            },
            _ = look.tick() => {
                if let Some(watch) = &mut watch {
                    watch.take();
                }
                // The library collects the header of a request whatever its size.
                let stats = connection.stats();
                let asked = MAX_UNASKED + stats.udp_tx.bytes / 4 + requests * shared.limits.header;
                if stats.udp_rx.bytes > asked {
                    let code = VarInt::from_u32(Code::H3_EXCESSIVE_LOAD.value() as u32);
                    connection.close(code, b"more data than requests have");
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
        requests,
        took: began.elapsed(),
        packets,
        lost,
        min_rtt: watch.as_ref().and_then(PathWatch::min_rtt),
        queue_delay: watch.as_ref().and_then(PathWatch::queue_delay),
    });
}

type Resolver = RequestResolver<h3_quinn::Connection, Bytes>;
type Stream = RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

async fn answer(shared: Arc<Shared>, peer: SocketAddr, resolver: Resolver) {
    let patience = shared.limits.patience;
    let Ok(Ok((request, mut stream))) =
        tokio::time::timeout(patience, resolver.resolve_request()).await
    else {
        return;
    };
    let began = Instant::now();
    // Nobody reads a body.
    stream.stop_sending(Code::H3_NO_ERROR);
    let mut sent = 0;
    let (status, result) = respond(&shared, &request, &mut stream, &mut sent).await;
    let is_cut = result.is_none();
    if is_cut {
        stream.stop_stream(Code::H3_REQUEST_CANCELLED);
    }
    shared.view.on_request(&RequestFigures {
        peer,
        request: format!("{} {}", request.method(), request.uri().path()),
        status: status.as_u16(),
        bytes: sent,
        took: began.elapsed(),
        is_cut,
    });
}

/// `None`: the answer was cut short.
async fn respond(
    shared: &Shared,
    request: &Request<()>,
    stream: &mut Stream,
    sent: &mut u64,
) -> (StatusCode, Option<()>) {
    let is_head = request.method() == Method::HEAD;
    let found = match request.method() {
        &Method::GET | &Method::HEAD => match shared.folder.find(request.uri().path()) {
            Ok(found) => Ok(found),
            Err(NotFound::BadPath) => Err(StatusCode::BAD_REQUEST),
            Err(NotFound::Missing) => Err(StatusCode::NOT_FOUND),
        },
        _ => Err(StatusCode::METHOD_NOT_ALLOWED),
    };
    let status = found.as_ref().err().copied().unwrap_or(StatusCode::OK);
    let mut response = Response::builder().status(status);
    match &found {
        Ok(found) => {
            response = response
                .header(header::CONTENT_LENGTH, found.size)
                .header(header::CONTENT_TYPE, found.media_type);
        }
        Err(_) => {
            response = response.header(header::CONTENT_LENGTH, 0);
            if status == StatusCode::METHOD_NOT_ALLOWED {
                response = response.header(header::ALLOW, "GET, HEAD");
            }
        }
    }
    let Ok(response) = response.body(()) else { return (status, None) };
    let patience = shared.limits.patience;
    let result = async {
        let answered = tokio::time::timeout(patience, stream.send_response(response)).await;
        answered.ok()?.ok()?;
        if let Some(found) = found.as_ref().ok().filter(|_| !is_head) {
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
