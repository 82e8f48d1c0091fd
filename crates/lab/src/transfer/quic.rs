//! Transfers inside QUIC: the same figures as over the native transport, encrypted, with the peer
//! authenticated. Each flow is a connection with one stream; noq carries it.
//!
//! A peer that connects takes no place, no file and no flow before it has shown who it is.

use std::collections::BTreeMap;
use std::fs::File;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cellpace_base::quota::{MemoryBudget, Place, Places, network_places};
use cellpace_base::{Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_quic::identity::{Fingerprint, Identity, Peer, client_config, server_config};
use cellpace_quic::{Control, Factory};
use cellpace_udp::EcnState;
use noq::{Connection, ConnectionError, Endpoint, IdleTimeout, MtuDiscoveryConfig, VarInt};
use tokio::sync::{mpsc, watch};

use super::conclusion::{TransferConditions, TransferResult, conclude, label};
use super::data::{DataSink, DataSource, SinkError};
use super::quic_segments::{
    MAX_STREAMS, ReceiveWindow, SegmentError, SegmentWriter, WINDOW_MEMORY, first_window,
};
use super::quic_socket::{self, QuicSocketTrouble};
use super::quic_stream::{
    ALPN, QuicStreamError, QuicStreamReader, SEGMENT, StreamCloseCode, header,
};
use super::record::{FlowRecord, FlowTotals};
use super::series::BIN;
use super::session::{INTERVAL, TransferView};
use super::{FlowData, shown_address};
use crate::{EventFlow, EventLog, FlowMetrics, LabError};

/// IPv4 or IPv6 with UDP.
const HEADERS: [u64; 2] = [28, 48];
/// What a full packet has beside its payload: short header with a connection ID of 8 bytes, packet
/// number, header of the stream frame, tag of the encryption.
const PACKET_OVERHEAD: u64 = 34;
/// How often the figures of flows are taken.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PIECE: usize = 1 << 16;
const MAX_FLOWS: u16 = 1000;
/// How long a peer that connects may take to show who it is.
const HANDSHAKE_TIME: Duration = Duration::from_secs(30);
/// So many times the connections of one network may be in their handshake, all networks together.
const HANDSHAKING_NETWORKS: usize = 4;

/// How the two ends meet.
pub enum QuicMeeting {
    /// Connects to a peer that is known.
    Connect {
        /// Its address.
        to: SocketAddr,
        /// Who it must be.
        peer: Peer,
    },
    /// Waits for peers.
    Listen {
        /// Where.
        at: Vec<SocketAddr>,
        /// Who they must be.
        peer: Fingerprint,
        /// Connections at a time.
        max_connections: usize,
    },
}

/// What the flows do.
pub enum QuicRole<'a> {
    /// Sends, one flow under each controller.
    Send {
        /// The controllers.
        controllers: Vec<ControllerSpec>,
        /// Makes the data of a flow.
        source: Box<dyn FnMut() -> Result<DataSource, LabError> + 'a>,
    },
    /// Receives.
    Receive {
        /// Makes a place for what a flow brings, given its number.
        sink: Box<dyn FnMut(usize) -> Result<DataSink, SinkError> + 'a>,
    },
}

/// Takes the addresses where a transfer waits.
pub type OnBound<'a> = Box<dyn FnMut(&[SocketAddr]) + 'a>;

/// Flows that send or receive inside QUIC.
pub struct QuicTransfer<'a> {
    /// How the ends meet.
    pub meeting: QuicMeeting,
    /// What the flows do.
    pub role: QuicRole<'a>,
    /// This end's certificate and key.
    pub identity: Identity,
    /// Give up a flow when nothing arrives for this long.
    pub silence: Span,
    /// Where what the controllers decide is written.
    pub events: Option<EventLog<File>>,
    /// Sending ends after this time.
    pub duration: Option<Span>,
    /// Whether the run ends with the flows of the first peer. Otherwise it goes on until it is
    /// interrupted.
    pub ends: bool,
    /// Whether an interrupted flow is to end as if this were all.
    pub cut_at_interrupt: bool,
    /// Takes the addresses where the transfer waits.
    pub on_bound: OnBound<'a>,
}

/// What the task of a flow reports.
enum Note {
    /// A peer wants to begin.
    Incoming(Box<noq::Incoming>),
    /// Something went wrong at a socket.
    Trouble(QuicSocketTrouble),
    /// An endpoint takes no more peers.
    Closed(SocketAddr),
    /// Its handshake is over.
    Arrived(FinishedHandshake),
    Connected(usize, Connection, Option<Control>),
    /// A sender offers so many flows.
    Offered(u16),
    Ended(usize, Result<Option<[u8; 32]>, String>),
}

/// A connection of a peer whose handshake is over, for better or worse.
struct FinishedHandshake {
    from: SocketAddr,
    /// The flow under whose controller it would be.
    number: usize,
    /// The controller's name.
    name: String,
    connection: Result<Connection, String>,
    /// Its place among the handshakes.
    _handshake: Place,
}

/// What the task of a flow and the session share.
#[derive(Default)]
struct FlowProgress {
    /// Payload written or read.
    payload: AtomicU64,
    /// All of the payload arrived.
    complete: std::sync::atomic::AtomicBool,
}

/// One flow of a session.
struct LiveFlow {
    record: FlowRecord,
    progress: Arc<FlowProgress>,
    connection: Option<Connection>,
    control: Option<Control>,
    /// Ends made-up bytes.
    cut: watch::Sender<bool>,
    /// Its place among those of its network, where this side listens.
    place: Option<Place>,
}

struct QuicSession<'a, 'v> {
    plan: QuicTransfer<'a>,
    view: &'v mut dyn TransferView,
    conditions: TransferConditions,
    /// The native clock of records: since the session began.
    zero: Instant,
    notes: (mpsc::UnboundedSender<Note>, mpsc::UnboundedReceiver<Note>),
    endpoints: Vec<Endpoint>,
    /// Peers in their handshake.
    handshakes: Arc<Places>,
    /// Peers that have shown who they are.
    places: Arc<Places>,
    /// Peers in their handshake by the flow that they may begin.
    claims: BTreeMap<usize, usize>,
    /// By number: those that go on, and those that are over while the document wants them.
    flows: BTreeMap<usize, LiveFlow>,
    /// Flows that have begun.
    begun: usize,
    /// Flows that are to come before the run ends.
    expected: Option<usize>,
    ended: usize,
    next_line: Time,
    next_bin: Time,
    stopping: bool,
    any_failed: bool,
    /// A shortage of memory was reported.
    was_short: bool,
}

impl<'a> QuicTransfer<'a> {
    /// Goes on until all is done or it is cancelled.
    ///
    /// # Errors
    /// When the system fails, a controller cannot run inside QUIC, or the event log cannot be
    /// written. That a flow failed is part of the result.
    pub fn run(
        self,
        conditions: TransferConditions,
        view: &mut dyn TransferView,
    ) -> Result<TransferResult, LabError> {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            // Two, so that a flow that waits for its disk does not keep back the acks of the
            // others.
            .worker_threads(2)
            .thread_name("cellpace-quic")
            .enable_all()
            .build()
            .map_err(LabError::failed)?;
        let (most, of_network) = self.limits();
        let session = QuicSession {
            plan: self,
            view,
            conditions,
            zero: Instant::now(),
            notes: mpsc::unbounded_channel(),
            endpoints: Vec::new(),
            handshakes: Places::new(HANDSHAKING_NETWORKS * of_network, of_network, 0),
            places: Places::new(most, of_network, WINDOW_MEMORY),
            claims: BTreeMap::new(),
            flows: BTreeMap::new(),
            begun: 0,
            expected: None,
            ended: 0,
            next_line: Time::MAX,
            next_bin: Time::MAX,
            stopping: false,
            any_failed: false,
            was_short: false,
        };
        let result = runtime.block_on(session.run());
        // A thread that reads from a terminal never ends.
        runtime.shutdown_background();
        result
    }

    /// Connections at a time, in all and of one network.
    fn limits(&self) -> (usize, usize) {
        match (&self.meeting, &self.role) {
            (QuicMeeting::Listen { max_connections, .. }, QuicRole::Receive { .. }) => {
                (*max_connections, network_places(*max_connections))
            }
            // One receiver gets all that is offered.
            (_, QuicRole::Send { controllers, .. }) => {
                (controllers.len(), controllers.len().max(network_places(0)))
            }
            (QuicMeeting::Connect { .. }, QuicRole::Receive { .. }) => (0, 0),
        }
    }
}

impl QuicSession<'_, '_> {
    async fn run(mut self) -> Result<TransferResult, LabError> {
        self.meet()?;
        let mut look = tokio::time::interval(LOOK_EVERY);
        // After a pause of the machine one look is enough.
        look.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        while !self.is_done() {
            tokio::select! {
                note = self.notes.1.recv() => if let Some(note) = note { self.on_note(note)?; },
                _ = look.tick() => self.look(),
            }
        }
        // The last words are on their way.
        for endpoint in &self.endpoints {
            let _ = tokio::time::timeout(Duration::from_secs(1), endpoint.wait_idle()).await;
        }
        self.finish()
    }

    fn now(&self) -> Time {
        Time::from_nanos(self.zero.elapsed().as_nanos() as u64)
    }

    fn is_done(&self) -> bool {
        if self.stopping {
            return self.running() == 0;
        }
        self.plan.ends && self.expected.is_some_and(|expected| self.ended >= expected)
    }

    /// Flows that go on, those in their handshake included.
    fn running(&self) -> usize {
        self.flows.values().filter(|flow| flow.record.ended.is_none()).count()
    }

    /// The number of the next flow. Of those that are offered, the one that the fewest peers in their
    /// handshake may begin.
    fn next_number(&self) -> usize {
        let QuicRole::Send { controllers, .. } = &self.plan.role else { return self.begun };
        let free = (0..controllers.len()).filter(|number| !self.flows.contains_key(number));
        free.min_by_key(|number| self.claims.get(number).copied().unwrap_or(0))
            .unwrap_or(self.begun)
    }

    fn meet(&mut self) -> Result<(), LabError> {
        match &self.plan.meeting {
            QuicMeeting::Connect { to, .. } => {
                let to = *to;
                let count = match &self.plan.role {
                    QuicRole::Send { controllers, .. } => controllers.len(),
                    QuicRole::Receive { .. } => 1,
                };
                self.expected = Some(count);
                for _ in 0..count {
                    self.connect(to)?;
                }
            }
            QuicMeeting::Listen { at, .. } => {
                if let QuicRole::Send { controllers, .. } = &self.plan.role {
                    self.expected = Some(controllers.len());
                }
                let at = at.clone();
                self.listen(&at)?;
            }
        }
        Ok(())
    }

    fn listen(&mut self, at: &[SocketAddr]) -> Result<(), LabError> {
        let config = self.server(self.transport(None)?)?;
        let mut bound = Vec::new();
        for address in at {
            let endpoint = match self.open(*address, Some(config.clone())) {
                Ok(endpoint) => endpoint,
                // Where there is no IPv6.
                Err(error) if !bound.is_empty() && error.kind() != io::ErrorKind::AddrInUse => {
                    continue;
                }
                Err(error) => {
                    return Err(LabError::failed(format!("cannot listen at {address}: {error}")));
                }
            };
            let here = endpoint.local_addr().map_err(LabError::failed)?;
            bound.push(here);
            let (notes, accepting) = (self.notes.0.clone(), endpoint.clone());
            tokio::spawn(async move {
                while let Some(incoming) = accepting.accept().await {
                    if notes.send(Note::Incoming(Box::new(incoming))).is_err() {
                        return;
                    }
                }
                let _ = notes.send(Note::Closed(here));
            });
            self.endpoints.push(endpoint);
        }
        (self.plan.on_bound)(&bound);
        Ok(())
    }

    /// Opens an endpoint whose troubles become notes.
    fn open(&self, at: SocketAddr, server: Option<noq::ServerConfig>) -> io::Result<Endpoint> {
        let notes = self.notes.0.clone();
        quic_socket::open(at, server, move |trouble| {
            // The session is over where nothing takes notes.
            let _ = notes.send(Note::Trouble(trouble));
        })
    }

    fn transport(
        &self,
        factory: Option<&Arc<Factory>>,
    ) -> Result<Arc<noq::TransportConfig>, LabError> {
        let mut transport = noq::TransportConfig::default();
        if let Some(factory) = factory {
            factory.install_noq(&mut transport);
            let mut discovery = MtuDiscoveryConfig::default();
            // The option counts IP packets, and QUIC the payload of UDP.
            discovery.upper_bound(self.conditions.mtu.saturating_sub(HEADERS[0] as u16));
            transport.mtu_discovery_config(Some(discovery));
        }
        let silence = Duration::from_nanos(self.plan.silence.as_nanos());
        transport
            .max_idle_timeout(Some(IdleTimeout::try_from(silence).map_err(LabError::invalid)?))
            // A receiver gets nothing while a pipe has nothing to send.
            .keep_alive_interval(Some(silence / 3))
            .stream_receive_window(VarInt::from_u32(SEGMENT as u32))
            .receive_window(VarInt::from_u32(self.first_window() as u32))
            .max_concurrent_uni_streams(VarInt::from_u32(MAX_STREAMS))
            // Data goes one way; what a peer could open besides would only take memory.
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None);
        Ok(Arc::new(transport))
    }

    /// Bytes that a peer may have in flight or waiting at first.
    fn first_window(&self) -> u64 {
        match &self.plan.meeting {
            QuicMeeting::Listen { max_connections, .. } => first_window(*max_connections),
            QuicMeeting::Connect { .. } => first_window(1),
        }
    }

    fn server(&self, transport: Arc<noq::TransportConfig>) -> Result<noq::ServerConfig, LabError> {
        let QuicMeeting::Listen { peer, .. } = self.plan.meeting else {
            return Err(LabError::failed("this side does not listen"));
        };
        let own = &self.plan.identity;
        let tls = server_config(own, Some(peer), ALPN).map_err(LabError::invalid)?;
        let tls: noq::crypto::rustls::QuicServerConfig =
            tls.try_into().map_err(LabError::failed)?;
        let mut config = noq::ServerConfig::with_crypto(Arc::new(tls));
        config.transport_config(transport);
        Ok(config)
    }

    /// The controller of the next flow, where this end sends.
    fn next_factory(&self) -> Result<(Option<Arc<Factory>>, String), LabError> {
        let QuicRole::Send { controllers, .. } = &self.plan.role else {
            return Ok((None, String::new()));
        };
        let number = self.next_number();
        let Some(spec) = controllers.get(number) else {
            return Err(LabError::failed("all flows are taken"));
        };
        let seed = self.conditions.seed.wrapping_add(number as u64);
        let factory = Factory::new(spec.clone(), seed).map_err(LabError::invalid)?;
        Ok((Some(factory), spec.to_string()))
    }

    /// Begins a flow towards a peer that waits.
    fn connect(&mut self, to: SocketAddr) -> Result<(), LabError> {
        let QuicMeeting::Connect { peer, .. } = &self.plan.meeting else { return Ok(()) };
        let tls =
            client_config(peer, Some(&self.plan.identity), ALPN).map_err(LabError::invalid)?;
        let tls: noq::crypto::rustls::QuicClientConfig =
            tls.try_into().map_err(LabError::failed)?;
        let (factory, name) = self.next_factory()?;
        let mut config = noq::ClientConfig::new(Arc::new(tls));
        config.transport_config(self.transport(factory.as_ref())?);
        // Of the peer's family: a socket of IPv6 reaches IPv4 only where the system maps addresses.
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        // A socket for each, so that queues that are fair among flows see them apart.
        let endpoint = self.open(any, None).map_err(LabError::failed)?;
        let connecting =
            // TLS asks for a name. Fingerprints say who the peer is, and `.invalid` is no domain
            // (RFC 2606).
            endpoint.connect_with(config, to, "cellpace.invalid").map_err(LabError::failed)?;
        self.endpoints.push(endpoint);
        let number = self.next_number();
        let data = self.data(number).map_err(LabError::failed)?;
        let connecting = async move { connecting.await.map_err(|error| reason(&error)) };
        self.begin(number, name, to, data, None, connecting);
        Ok(())
    }

    /// A peer wants to begin.
    fn accept(&mut self, incoming: noq::Incoming) -> Result<(), LabError> {
        if self.busy().is_some() || self.stopping {
            incoming.refuse();
            return Ok(());
        }
        // Who asks must show that the address is its own: others take no place.
        if !incoming.remote_address_validated() {
            // One datagram, smaller than the one it answers: a false address makes no amplifier of
            // us.
            let _ = incoming.retry();
            return Ok(());
        }
        let from = incoming.remote_address();
        let Ok(handshake) = self.handshakes.take(from) else {
            incoming.refuse();
            return Ok(());
        };
        let (factory, name) = self.next_factory()?;
        let number = self.next_number();
        let config = self.server(self.transport(factory.as_ref())?)?;
        let connecting = match incoming.accept_with(Arc::new(config)) {
            Ok(connecting) => connecting,
            Err(error) => {
                self.view.on_detail(&format!("{}: {error}", shown_address(from)));
                return Ok(());
            }
        };
        // Strangers in their handshake take no flow: only a peer that has shown its key does.
        *self.claims.entry(number).or_default() += 1;
        let notes = self.notes.0.clone();
        tokio::spawn(async move {
            let connection = match tokio::time::timeout(HANDSHAKE_TIME, connecting).await {
                Ok(connected) => connected.map_err(|error| reason(&error)),
                Err(_) => Err("it did not show who it is in time".to_owned()),
            };
            let arrival =
                FinishedHandshake { from, number, name, connection, _handshake: handshake };
            let _ = notes.send(Note::Arrived(arrival));
        });
        Ok(())
    }

    /// Why this side takes no more flows.
    fn busy(&self) -> Option<String> {
        let QuicMeeting::Listen { max_connections, .. } = &self.plan.meeting else {
            return Some("this side does not listen".to_owned());
        };
        let all = self.flows.len();
        if self.plan.ends && self.expected.is_some_and(|expected| all >= expected) {
            return Some("all flows are taken".to_owned());
        }
        // By those that run: records of flows that are over stay in the list until the document is
        // written.
        let is_full = self.running() >= *max_connections;
        is_full.then(|| format!("it has {max_connections} connections already"))
    }

    /// A peer has shown who it is, or not.
    fn on_arrival(&mut self, arrival: FinishedHandshake) {
        let FinishedHandshake { from, number, name, connection, _handshake } = arrival;
        if let Some(count) = self.claims.get_mut(&number) {
            *count -= 1;
            if *count == 0 {
                self.claims.remove(&number);
            }
        }
        let connection = match connection {
            Ok(connection) => connection,
            // A stranger, or a peer that has gone: no flow of ours waits for it.
            Err(reason) => {
                self.view.on_detail(&format!("{}: {reason}", shown_address(from)));
                return;
            }
        };
        let refused =
            |code: StreamCloseCode, why: &str| connection.close(code.into(), why.as_bytes());
        if self.stopping {
            return refused(StreamCloseCode::Stopped, "it was interrupted");
        }
        if let Some(why) = self.busy() {
            return refused(StreamCloseCode::Busy, &why);
        }
        let is_sender = matches!(self.plan.role, QuicRole::Send { .. });
        if is_sender && self.flows.contains_key(&number) {
            return refused(StreamCloseCode::Busy, "another one has taken this flow; ask again");
        }
        // Receivers count those that were taken.
        let number = if is_sender { number } else { self.begun };
        let place = match self.places.take(from) {
            Ok(place) => place,
            Err(why) => return refused(StreamCloseCode::Busy, &why.to_string()),
        };
        let data = match self.data(number) {
            Ok(data) => data,
            Err(error) => {
                refused(StreamCloseCode::of(&error), &error.text);
                self.view.on_warning(&error.text);
                self.any_failed = true;
                return;
            }
        };
        self.begin(number, name, from, data, Some(place), std::future::ready(Ok(connection)));
    }

    /// The data of a flow.
    fn data(&mut self, number: usize) -> Result<FlowData, SinkError> {
        Ok(match &mut self.plan.role {
            QuicRole::Send { source, .. } => {
                FlowData::Source(source().map_err(|error| SinkError::from(&*error.to_string()))?)
            }
            QuicRole::Receive { sink } => FlowData::Sink(sink(number)?),
        })
    }

    /// Starts the task of a flow.
    fn begin(
        &mut self,
        number: usize,
        name: String,
        peer: SocketAddr,
        data: FlowData,
        place: Option<Place>,
        connecting: impl Future<Output = Result<Connection, String>> + Send + 'static,
    ) {
        let offered = self.expected.and_then(|all| u16::try_from(all).ok()).unwrap_or(1);
        let (cut, is_cut) = watch::channel(false);
        let progress = Arc::new(FlowProgress::default());
        let is_sender = matches!(data, FlowData::Source(_));
        // A peer that this side asked shares the memory of its window with no others.
        let memory = match &place {
            Some(place) => place.memory().clone(),
            None => MemoryBudget::new(WINDOW_MEMORY),
        };
        let window = ReceiveWindow::new(self.first_window(), memory.tally());
        self.begun += 1;
        let flow = LiveFlow {
            record: FlowRecord::new(name, shown_address(peer), is_sender),
            progress: progress.clone(),
            connection: None,
            control: None,
            cut,
            place,
        };
        self.flows.insert(number, flow);
        let notes = self.notes.0.clone();
        let task = FlowTask { number, notes, progress, window, is_cut };
        let running = tokio::spawn(task.run(connecting, data, offered));
        let notes = self.notes.0.clone();
        tokio::spawn(async move {
            // It panicked: its flow has ended, and not well.
            if let Err(error) = running.await {
                let _ = notes.send(Note::Ended(number, Err(format!("a fault of ours: {error}"))));
            }
        });
    }

    fn on_note(&mut self, note: Note) -> Result<(), LabError> {
        let now = self.now();
        match note {
            Note::Incoming(incoming) => self.accept(*incoming)?,
            Note::Arrived(arrival) => self.on_arrival(arrival),
            Note::Connected(number, connection, control) => {
                let Some(flow) = self.flows.get_mut(&number) else { return Ok(()) };
                (flow.connection, flow.control) = (Some(connection), control);
                // Only now: the time of the handshake is no time of the transfer.
                flow.record.begin(now);
                if self.next_line == Time::MAX {
                    self.next_line = now + INTERVAL;
                    self.next_bin = if self.plan.ends { now + BIN } else { Time::MAX };
                }
                let line = format!("flow {} is open with {}", number + 1, flow.record.peer);
                self.view.on_detail(&line);
                if matches!(self.plan.meeting, QuicMeeting::Listen { .. }) {
                    let line = format!("flow from {}", flow.record.peer);
                    let label = label(number, &flow.record.name, true);
                    self.view.on_lines(&[label + &line]);
                }
            }
            Note::Offered(count) => self.take_offer(count)?,
            Note::Trouble(trouble) => self.on_trouble(&trouble)?,
            // One that this side has closed ends by itself.
            Note::Closed(_) if self.stopping => {}
            Note::Closed(here) => {
                return Err(LabError::failed(format!("{here}: receiving has ended early")));
            }
            Note::Ended(number, result) => self.on_ended(number, result),
        }
        Ok(())
    }

    /// A socket that receives nothing any more is the end, unless all flows end anyway.
    fn on_trouble(&mut self, trouble: &QuicSocketTrouble) -> Result<(), LabError> {
        match trouble {
            QuicSocketTrouble::Failed(error) if !self.stopping => {
                return Err(LabError::failed(format!("receiving: {error}")));
            }
            QuicSocketTrouble::Short(error) if !self.was_short => {
                let text = format!("the system is short of memory, going on: {error}");
                self.view.on_warning(&text);
                self.was_short = true;
            }
            _ => {}
        }
        Ok(())
    }

    /// The number of flows of the sender.
    fn take_offer(&mut self, count: u16) -> Result<(), LabError> {
        // The number comes from the peer, and each flow takes a socket here.
        let count = usize::from(count.clamp(1, MAX_FLOWS));
        let QuicMeeting::Connect { to, .. } = &self.plan.meeting else {
            // The first peer's number holds: later ones could keep the run from ending.
            self.expected.get_or_insert(count);
            return Ok(());
        };
        self.expected = Some(count);
        let to = *to;
        while self.begun < count {
            self.connect(to)?;
        }
        Ok(())
    }

    fn on_ended(&mut self, number: usize, result: Result<Option<[u8; 32]>, String>) {
        // Before the record ends, so that the last RTTs and events are in it.
        self.look();
        let now = self.now();
        let Some(flow) = self.flows.get_mut(&number) else { return };
        match result {
            Ok(hash) => flow.record.hash = hash,
            Err(reason) => flow.record.error = Some(reason),
        }
        let totals = flow.totals();
        flow.record.end(now, totals);
        // Frees the flow's place for the next peer, although its record stays for the document.
        (flow.control, flow.connection, flow.place) = (None, None, None);
        self.any_failed |= flow.record.error.is_some();
        self.ended += 1;
        let record = &flow.record;
        let error = record.error.clone().filter(|_| !self.plan.ends);
        let lines = record.summary().map(|line| match error {
            Some(error) => format!("{line}; failed: {error}"),
            None => line,
        });
        let name = record.name.clone();
        let label = self.label(number, &name);
        if let Some(line) = lines {
            self.view.on_lines(&[label + &line]);
        }
        if self.expected.is_none() && self.plan.ends {
            self.expected = Some(1);
        }
        if !self.plan.ends {
            // Its figures were shown, and there is no document at the end.
            self.flows.remove(&number);
        }
    }

    fn label(&self, number: usize, name: &str) -> String {
        let is_listening = matches!(self.plan.meeting, QuicMeeting::Listen { .. });
        label(number, name, self.begun > 1 || is_listening)
    }

    /// RTTs, events, bins, lines, and what ends by the clock.
    fn look(&mut self) {
        let now = self.now();
        let is_line = now >= self.next_line;
        for (&number, flow) in &mut self.flows {
            if !flow.record.is_running() {
                continue;
            }
            flow.observe(number, now, self.plan.events.as_mut(), is_line);
            if now >= self.next_bin {
                let totals = flow.totals();
                flow.record.close_bin(now, &totals);
            }
        }
        if now >= self.next_bin {
            self.next_bin = (self.next_bin + BIN).max(now);
        }
        if is_line {
            self.next_line = (self.next_line + INTERVAL).max(now);
            self.show_interval(now);
        }
        if let Some(duration) = self.plan.duration {
            let over =
                |flow: &&LiveFlow| flow.record.began.is_some_and(|began| now >= began + duration);
            for flow in self.flows.values().filter(over) {
                flow.cut.send_replace(true);
            }
        }
        if self.view.is_cancelled() && !self.stopping {
            self.stop();
        }
    }

    fn show_interval(&mut self, now: Time) {
        let (mut lines, mut sum) = (Vec::new(), 0.0);
        for (&number, flow) in &mut self.flows {
            if !flow.record.is_running() {
                continue;
            }
            let totals = flow.totals();
            flow.record.close_interval(now, totals);
            sum += flow.record.intervals.last().map_or(0.0, |interval| interval.throughput_mbps);
            lines.push((number, flow.record.name.clone(), flow.record.line()));
        }
        let running = lines.len();
        let mut lines: Vec<String> = lines
            .into_iter()
            .map(|(number, name, line)| self.label(number, &name) + &line)
            .collect();
        if running > 1 {
            lines.push(format!("[sum] {running} flows: {sum:.2} Mbit/s"));
        }
        self.view.on_lines(&lines);
    }

    /// Ctrl-C: what has been sent is all, or the flows end as they are.
    fn stop(&mut self) {
        self.stopping = true;
        for flow in self.flows.values().filter(|flow| flow.record.ended.is_none()) {
            match &flow.connection {
                Some(_) if self.plan.cut_at_interrupt => {
                    flow.cut.send_replace(true);
                }
                Some(connection) => {
                    connection.close(StreamCloseCode::Stopped.into(), b"it was interrupted");
                }
                None => {}
            }
        }
        // A flow in its handshake has no connection yet that could be closed, only its endpoint.
        if self.flows.values().any(|flow| flow.connection.is_none() && flow.record.ended.is_none())
        {
            for endpoint in &self.endpoints {
                endpoint.close(StreamCloseCode::Stopped.into(), b"it was interrupted");
            }
        }
    }

    fn finish(mut self) -> Result<TransferResult, LabError> {
        if let Some(log) = self.plan.events.take() {
            log.finish()?;
        }
        let flows: Vec<(usize, &FlowRecord)> =
            self.flows.iter().map(|(number, flow)| (*number, &flow.record)).collect();
        let flows = if self.plan.ends { &flows[..] } else { &[] };
        Ok(conclude(self.conditions, Some("quic"), 0, flows, self.any_failed))
    }
}

impl LiveFlow {
    fn totals(&self) -> FlowTotals {
        let payload = self.progress.payload.load(Ordering::Relaxed);
        let headers = HEADERS[usize::from(self.record.peer.starts_with('['))];
        if let Some(control) = &self.control {
            let handle = control.handle();
            let host = handle.lock();
            let stats = host.stats();
            let bytes = match self.progress.complete.load(Ordering::Relaxed) {
                true => payload,
                false => {
                    // An estimate until the end: the library tells which packets were acked, and
                    // not what of the stream.
                    stats.acked_bytes.saturating_sub(PACKET_OVERHEAD * stats.acked).min(payload)
                }
            };
            return FlowTotals {
                bytes,
                ip_bytes: stats.acked_bytes + headers * stats.acked,
                packets: stats.sent,
                lost: Some(stats.lost),
                // The library says that there were marks, and not how many.
                marked: 0,
                ecn: EcnState::default(),
                retransmissions: None,
                timeouts: Some(stats.timeouts),
                duplicates: None,
                acks: None,
                in_flight: Some(host.in_flight()),
                cwnd: Some(host.controller().cwnd()).filter(|cwnd| *cwnd != u64::MAX),
            };
        }
        let received = self.connection.as_ref().map(Connection::stats);
        let datagrams = received.as_ref().map_or(0, |stats| stats.udp_rx.datagrams);
        FlowTotals {
            bytes: payload,
            ip_bytes: received.as_ref().map_or(0, |stats| stats.udp_rx.bytes) + headers * datagrams,
            packets: datagrams,
            // The library does not tell which never came.
            lost: None,
            acks: received.map(|stats| stats.frame_tx.acks),
            ..FlowTotals::default()
        }
    }

    fn observe(
        &mut self,
        number: usize,
        now: Time,
        log: Option<&mut EventLog<File>>,
        with_metrics: bool,
    ) {
        let Some(control) = &self.control else { return };
        let handle = control.handle();
        let mut host = handle.lock();
        // A path after a migration is a new one.
        host.watch_rtts();
        let record = &mut self.record;
        host.take_rtts(|_, rtt| record.record_rtt(rtt));
        let Some(log) = log else { return };
        let began = record.began.unwrap_or(now);
        let source = EventFlow { run: None, flow: number as u64, cc: &record.name };
        while let Some((at, event)) = host.poll_event() {
            // The controller's time begins with its connection.
            log.event(began + (at - Time::ZERO), source, &event);
        }
        if with_metrics {
            let mut values = Vec::new();
            host.controller().inspect(&mut |name, value| values.push((name, value)));
            let metrics = FlowMetrics {
                cwnd: host.controller().cwnd(),
                in_flight: host.in_flight(),
                srtt: host.rtt().smoothed(),
                min_rtt: host.rtt().minimum(),
                values,
                tcp: None,
            };
            log.metrics(now, source, &metrics);
        }
    }
}

/// The task of one flow.
struct FlowTask {
    number: usize,
    notes: mpsc::UnboundedSender<Note>,
    progress: Arc<FlowProgress>,
    /// What the peer may have in flight or waiting, where this end receives.
    window: ReceiveWindow,
    is_cut: watch::Receiver<bool>,
}

impl FlowTask {
    async fn run(
        mut self,
        connecting: impl Future<Output = Result<Connection, String>>,
        data: FlowData,
        offered: u16,
    ) {
        let result = self.transfer(connecting, data, offered).await;
        // The session lives as long as its flows.
        let _ = self.notes.send(Note::Ended(self.number, result));
    }

    async fn transfer(
        &mut self,
        connecting: impl Future<Output = Result<Connection, String>>,
        data: FlowData,
        offered: u16,
    ) -> Result<Option<[u8; 32]>, String> {
        let connection = connecting.await?;
        let control = cellpace_quic::noq::attach(&connection);
        if let Some(control) = &control {
            // At once: a short flow is over before its session looks at it.
            control.handle().lock().watch_rtts();
        }
        let _ = self.notes.send(Note::Connected(self.number, connection.clone(), control));
        match data {
            FlowData::Source(source) => {
                self.send(&connection, source, offered).await.map(|()| None)
            }
            FlowData::Sink(sink) => self.receive(&connection, sink).await,
        }
    }

    async fn send(
        &mut self,
        connection: &Connection,
        source: DataSource,
        offered: u16,
    ) -> Result<(), String> {
        let mut streams = SegmentWriter::open(connection).await.map_err(|error| reason(&error))?;
        let mut hash = blake3::Hasher::new();
        let mut pieces = pieces(source);
        let mut is_cut = self.is_cut.clone();
        let written = async {
            let failed = |error| lost(connection, &error);
            streams.write_all(&header(offered)).await.map_err(failed)?;
            while let Some(piece) = pieces.recv().await {
                let piece = piece?;
                // The end is said: a thread that died says nothing.
                if piece.is_empty() {
                    let hash = hash.finalize();
                    // Behind the payload and not in front of it: a pipe is read once, and its hash
                    // known at its end.
                    streams.write_all(hash.as_bytes()).await.map_err(failed)?;
                    return streams.finish().await.map_err(failed);
                }
                hash.update(&piece);
                streams.write_all(&piece).await.map_err(failed)?;
                self.progress.payload.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            Err("the thread that reads has ended early".to_owned())
        };
        let was_cut = tokio::select! {
            result = written => {
                if let Err(error) = result {
                    connection.close(StreamCloseCode::Storage.into(), b"the sender cannot read on");
                    return Err(error);
                }
                false
            }
            _ = is_cut.wait_for(|cut| *cut) => true,
        };
        if was_cut {
            streams.cut();
        }
        let cut = async {
            // A file goes whole; made-up bytes may be cut while the last of them are on their way.
            if !was_cut && is_cut.wait_for(|cut| *cut).await.is_ok() {
                streams.cut();
            }
            std::future::pending::<()>().await;
        };
        let stored = tokio::select! {
            stored = stored(connection) => stored?,
            () = cut => return Ok(()),
        };
        if was_cut {
            return Ok(());
        }
        // The receiver's word decides: that all was acknowledged says nothing of its disk.
        if stored[..] != hash.finalize().as_bytes()[..] {
            return Err("the other side has stored other bytes than were sent".to_owned());
        }
        self.progress.complete.store(true, Ordering::Relaxed);
        Ok(())
    }

    async fn receive(
        &mut self,
        connection: &Connection,
        mut sink: DataSink,
    ) -> Result<Option<[u8; 32]>, String> {
        let failed = |code: StreamCloseCode, error: String| {
            connection.close(code.into(), error.as_bytes());
            error
        };
        let refused = |error: QuicStreamError| failed(error.code(), error.to_string());
        let mut reader = QuicStreamReader::new(|bytes: &[u8]| {
            let is_over = || connection.close_reason().is_some();
            sink.write(bytes, is_over).map_err(|error| format!("cannot write: {error}"))?;
            self.progress.payload.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok(())
        });
        let mut was_offered = false;
        let mut stream = connection.accept_uni().await.map_err(|error| reason(&error))?;
        let hash = loop {
            match stream.read_chunk(PIECE).await {
                Ok(Some(bytes)) => {
                    reader.take(&bytes).map_err(refused)?;
                    self.window.on_read(connection, bytes.len());
                }
                Ok(None) if reader.end_stream() => break reader.finish().map_err(refused)?,
                Ok(None) => {
                    stream = connection.accept_uni().await.map_err(|error| reason(&error))?;
                }
                // Made-up bytes end here: what has arrived is all.
                Err(noq::ReadError::Reset(code)) if code == StreamCloseCode::Cut.into() => {
                    break reader.cut().map_err(refused)?;
                }
                Err(noq::ReadError::ConnectionLost(error)) => return Err(reason(&error)),
                Err(error) => return Err(failed(StreamCloseCode::Protocol, error.to_string())),
            }
            if let Some(count) = reader.offered().filter(|_| !was_offered) {
                was_offered = true;
                let _ = self.notes.send(Note::Offered(count));
            }
        };
        // Before the hash is sent: the sender takes it for the promise that the file has its name.
        sink.commit().map_err(|error| failed(StreamCloseCode::of(&error), error.text))?;
        // From here on it is stored, whatever becomes of the connection.
        if let Ok(mut stream) = connection.open_uni().await {
            let _ = stream.write_all(&hash).await;
            let _ = stream.finish();
            // Closing at once would drop the hash that is still on its way (see `stored`).
            let _ = stream.stopped().await;
        }
        connection.close(StreamCloseCode::Stored.into(), &hash);
        Ok(Some(hash))
    }
}

/// Reads a source piece by piece in a thread of its own, as pipes may block. An empty piece is the end.
fn pieces(source: DataSource) -> mpsc::Receiver<Result<Vec<u8>, String>> {
    // Bounded: a source that is faster than the path must not be read into memory.
    let (sender, receiver) = mpsc::channel(4);
    let mut source = source;
    let failed = sender.clone();
    let reading = move || {
        loop {
            let mut piece = vec![0; PIECE];
            let read = match source.read(&mut piece) {
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) => Err(format!("cannot read: {error}")),
            };
            // An error is the last thing that is said, as the end is.
            let is_over = read.as_ref().map_or(true, Vec::is_empty);
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    };
    if let Err(error) = std::thread::Builder::new().spawn(reading) {
        let _ = failed.try_send(Err(format!("cannot start a thread: {error}")));
    }
    receiver
}

/// Waits for the hash of what the receiver has stored. It comes in a stream, as the packet that closes
/// a connection is sent once and may be lost, and in that packet.
async fn stored(connection: &Connection) -> Result<Vec<u8>, String> {
    if let Ok(mut stream) = connection.accept_uni().await {
        let hash = stream.read_to_end(blake3::OUT_LEN).await;
        connection.close(StreamCloseCode::Stored.into(), b"");
        if let Ok(hash) = hash {
            return Ok(hash);
        }
    }
    match connection.closed().await {
        ConnectionError::ApplicationClosed(close)
            if close.error_code == StreamCloseCode::Stored.into() =>
        {
            Ok(close.reason.to_vec())
        }
        error => Err(reason(&error)),
    }
}

/// Why a write failed: what became of the connection says more.
fn lost(connection: &Connection, error: &SegmentError) -> String {
    connection.close_reason().map_or_else(|| error.to_string(), |why| reason(&why))
}

/// Why a connection ended, for people.
fn reason(error: &ConnectionError) -> String {
    match error {
        ConnectionError::TimedOut => "no answer within --timeout".to_owned(),
        ConnectionError::ApplicationClosed(close) => {
            let text = String::from_utf8_lossy(&close.reason);
            match text.is_empty() {
                true => "the other side ended it".to_owned(),
                false => format!("the other side ended it: {text}"),
            }
        }
        ConnectionError::LocallyClosed => "interrupted".to_owned(),
        ConnectionError::TransportError(error) if error.to_string().contains("certificate") => {
            "the peer is not the one that was asked for: its certificate has another fingerprint"
                .to_owned()
        }
        ConnectionError::ConnectionClosed(close) if close.to_string().contains("certificate") => {
            "the peer does not take this side for the one it waits for: give the same --key on \
             both, or the fingerprint that it prints"
                .to_owned()
        }
        ConnectionError::ConnectionClosed(close) if close.to_string().contains("refused") => {
            "the peer takes no more flows".to_owned()
        }
        error => error.to_string(),
    }
}
