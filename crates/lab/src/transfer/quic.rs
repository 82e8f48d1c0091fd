//! Transfers inside QUIC: the same figures as over the native transport, encrypted, with the peer
//! authenticated. Each flow is a connection with one stream; noq carries it.
//!
//! The stream begins with [`MAGIC`] and the number of flows that its sender offers, two bytes in
//! network order. The receiver closes the connection with [`CloseCode::Done`] once it has stored
//! everything. Made-up bytes are cut by resetting the stream.

use std::collections::BTreeMap;
use std::fs::File;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use cellpace_base::{Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_quic::identity::{Fingerprint, Identity, Peer, client_config, server_config};
use cellpace_quic::{Control, Factory};
use cellpace_udp::EcnState;
use noq::{Connection, ConnectionError, Endpoint, IdleTimeout, MtuDiscoveryConfig, VarInt};
use tokio::sync::{mpsc, watch};

use super::conclusion::{TransferConditions, TransferResult, conclude, label};
use super::data::{DataSink, DataSource};
use super::reassembly::Reassembly;
use super::record::{FlowRecord, FlowTotals};
use super::series::BIN;
use super::session::{INTERVAL, TransferView};
use super::{FlowData, shown_address};
use crate::{EventFlow, EventLog, FlowMetrics, LabError};

const ALPN: &[u8] = b"cellpace/1";
const MAGIC: &[u8; 4] = b"CPQ1";
/// IPv4 or IPv6 with UDP.
const HEADERS: [u64; 2] = [28, 48];
/// What a full packet has beside its payload: short header with a connection ID of 8 bytes, packet
/// number, header of the stream frame, tag of the encryption.
const PACKET_OVERHEAD: u64 = 34;
/// How often the figures of flows are taken.
const LOOK_EVERY: Duration = Duration::from_millis(20);
const PIECE: usize = 1 << 16;
/// What a receiver keeps of one stream until it is read.
const RECEIVE_WINDOW: u32 = 1 << 24;
const MAX_FLOWS: u16 = 1000;

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum CloseCode {
    /// Everything arrived and is stored.
    Done = 0,
    /// It cannot be stored or read.
    Storage = 1,
    /// Somebody stopped it.
    Stopped = 2,
    /// The stream of made-up bytes ends here.
    Cut = 3,
}

impl From<CloseCode> for VarInt {
    fn from(code: CloseCode) -> Self {
        Self::from_u32(code as u32)
    }
}

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
        /// Who they must be; `None`: anybody.
        peer: Option<Fingerprint>,
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
        sink: Box<dyn FnMut(usize) -> Result<DataSink, String> + 'a>,
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
    Connected(usize, Connection, Option<Control>),
    /// A sender offers so many flows.
    Offered(u16),
    Ended(usize, Result<Option<[u8; 32]>, String>),
}

/// What the task of a flow and the session share.
#[derive(Default)]
struct Progress {
    /// Payload written or read.
    payload: AtomicU64,
    /// All of the payload arrived.
    complete: std::sync::atomic::AtomicBool,
}

/// One flow of a session.
struct LiveFlow {
    record: FlowRecord,
    progress: Arc<Progress>,
    connection: Option<Connection>,
    control: Option<Control>,
    /// Ends made-up bytes.
    cut: watch::Sender<bool>,
}

struct Session<'a, 'v> {
    plan: QuicTransfer<'a>,
    view: &'v mut dyn TransferView,
    conditions: TransferConditions,
    /// The native clock of records: since the session began.
    zero: Instant,
    notes: (mpsc::UnboundedSender<Note>, mpsc::UnboundedReceiver<Note>),
    endpoints: Vec<Endpoint>,
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
            .worker_threads(2)
            .thread_name("cellpace-quic")
            .enable_all()
            .build()
            .map_err(LabError::failed)?;
        let session = Session {
            plan: self,
            view,
            conditions,
            zero: Instant::now(),
            notes: mpsc::unbounded_channel(),
            endpoints: Vec::new(),
            flows: BTreeMap::new(),
            begun: 0,
            expected: None,
            ended: 0,
            next_line: Time::MAX,
            next_bin: Time::MAX,
            stopping: false,
            any_failed: false,
        };
        let result = runtime.block_on(session.run());
        // A thread that reads from a terminal never ends.
        runtime.shutdown_background();
        result
    }
}

impl Session<'_, '_> {
    async fn run(mut self) -> Result<TransferResult, LabError> {
        self.meet()?;
        let mut look = tokio::time::interval(LOOK_EVERY);
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

    /// The number of the next flow. One that never began gives its number back.
    fn next_number(&self) -> usize {
        match self.plan.role {
            QuicRole::Send { .. } => {
                let mut free = 0..;
                free.find(|number| !self.flows.contains_key(number)).unwrap_or(self.begun)
            }
            QuicRole::Receive { .. } => self.begun,
        }
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
            let endpoint = Endpoint::server(config.clone(), *address).map_err(|error| {
                LabError::failed(format!("cannot listen at {address}: {error}"))
            })?;
            bound.push(endpoint.local_addr().map_err(LabError::failed)?);
            let (notes, accepting) = (self.notes.0.clone(), endpoint.clone());
            tokio::spawn(async move {
                while let Some(incoming) = accepting.accept().await {
                    if notes.send(Note::Incoming(Box::new(incoming))).is_err() {
                        return;
                    }
                }
            });
            self.endpoints.push(endpoint);
        }
        (self.plan.on_bound)(&bound);
        Ok(())
    }

    fn transport(
        &self,
        factory: Option<&Arc<Factory>>,
    ) -> Result<Arc<noq::TransportConfig>, LabError> {
        let mut transport = noq::TransportConfig::default();
        if let Some(factory) = factory {
            factory.install_noq(&mut transport);
            let mut discovery = MtuDiscoveryConfig::default();
            discovery.upper_bound(self.conditions.mtu.saturating_sub(HEADERS[0] as u16));
            transport.mtu_discovery_config(Some(discovery));
        }
        let silence = Duration::from_nanos(self.plan.silence.as_nanos());
        transport
            .max_idle_timeout(Some(IdleTimeout::try_from(silence).map_err(LabError::invalid)?))
            // A receiver hears nothing while a pipe has nothing to send.
            .keep_alive_interval(Some(silence / 3))
            .stream_receive_window(VarInt::from_u32(RECEIVE_WINDOW))
            .receive_window(VarInt::from_u32(RECEIVE_WINDOW))
            .max_concurrent_uni_streams(VarInt::from_u32(1))
            .max_concurrent_bidi_streams(VarInt::from_u32(0))
            .datagram_receive_buffer_size(None);
        Ok(Arc::new(transport))
    }

    fn server(&self, transport: Arc<noq::TransportConfig>) -> Result<noq::ServerConfig, LabError> {
        let peer = match &self.plan.meeting {
            QuicMeeting::Listen { peer, .. } => *peer,
            QuicMeeting::Connect { .. } => None,
        };
        let tls = server_config(&self.plan.identity, peer, ALPN).map_err(LabError::invalid)?;
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
        let any: SocketAddr = match to {
            SocketAddr::V4(_) => (std::net::Ipv4Addr::UNSPECIFIED, 0).into(),
            SocketAddr::V6(_) => (std::net::Ipv6Addr::UNSPECIFIED, 0).into(),
        };
        // A socket for each, so that queues that are fair among flows see them apart.
        let endpoint = Endpoint::client(any).map_err(LabError::failed)?;
        let connecting =
            endpoint.connect_with(config, to, "cellpace.invalid").map_err(LabError::failed)?;
        self.endpoints.push(endpoint);
        self.begin(connecting, name, to).map_err(LabError::failed)
    }

    /// Somebody wants to begin.
    fn accept(&mut self, incoming: noq::Incoming) -> Result<(), LabError> {
        let QuicMeeting::Listen { max_connections, .. } = &self.plan.meeting else { return Ok(()) };
        let is_full = self.running() >= *max_connections;
        let all = self.flows.len();
        let is_more = self.plan.ends && self.expected.is_some_and(|expected| all >= expected);
        if is_full || is_more || self.stopping {
            incoming.refuse();
            return Ok(());
        }
        // Who asks must show that the address is its own: others take no place.
        if !incoming.remote_address_validated() {
            let _ = incoming.retry();
            return Ok(());
        }
        let from = incoming.remote_address();
        let (factory, name) = self.next_factory()?;
        let config = self.server(self.transport(factory.as_ref())?)?;
        match incoming.accept_with(Arc::new(config)) {
            Ok(connecting) => {
                if let Err(reason) = self.begin(connecting, name, from) {
                    self.view.on_warning(&reason);
                    self.any_failed = true;
                }
            }
            Err(error) => self.view.on_warning(&format!("{}: {error}", shown_address(from))),
        }
        Ok(())
    }

    /// Starts the task of a flow.
    fn begin(
        &mut self,
        connecting: noq::Connecting,
        name: String,
        peer: SocketAddr,
    ) -> Result<(), String> {
        let number = self.next_number();
        let data = match &mut self.plan.role {
            QuicRole::Send { source, .. } => {
                FlowData::Source(source().map_err(|error| error.to_string())?)
            }
            QuicRole::Receive { sink } => FlowData::Sink(sink(number)?),
        };
        let offered = self.expected.and_then(|all| u16::try_from(all).ok()).unwrap_or(1);
        let (cut, is_cut) = watch::channel(false);
        let progress = Arc::new(Progress::default());
        let is_sender = matches!(data, FlowData::Source(_));
        self.begun += 1;
        let flow = LiveFlow {
            record: FlowRecord::new(name, shown_address(peer), is_sender),
            progress: progress.clone(),
            connection: None,
            control: None,
            cut,
        };
        self.flows.insert(number, flow);
        let task = FlowTask { number, notes: self.notes.0.clone(), progress, is_cut };
        tokio::spawn(task.run(connecting, data, offered));
        Ok(())
    }

    fn on_note(&mut self, note: Note) -> Result<(), LabError> {
        let now = self.now();
        match note {
            Note::Incoming(incoming) => self.accept(*incoming)?,
            Note::Connected(number, connection, control) => {
                let Some(flow) = self.flows.get_mut(&number) else { return Ok(()) };
                if let Some(control) = &control {
                    control.handle().lock().watch_rtts();
                }
                (flow.connection, flow.control) = (Some(connection), control);
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
            Note::Ended(number, result) => self.on_ended(number, result),
        }
        Ok(())
    }

    /// The number of flows of the sender.
    fn take_offer(&mut self, count: u16) -> Result<(), LabError> {
        let count = usize::from(count.clamp(1, MAX_FLOWS));
        let QuicMeeting::Connect { to, .. } = &self.plan.meeting else {
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
        self.look();
        let now = self.now();
        let is_listening = matches!(self.plan.meeting, QuicMeeting::Listen { .. });
        let Some(flow) = self.flows.get_mut(&number) else { return };
        if is_listening && flow.record.began.is_none() {
            // A stranger, or somebody who has gone: nobody waits for it.
            if let Err(reason) = &result {
                self.view.on_detail(&format!("{}: {reason}", flow.record.peer));
            }
            self.flows.remove(&number);
            return;
        }
        match result {
            Ok(hash) => flow.record.hash = hash,
            Err(reason) => flow.record.error = Some(reason),
        }
        let totals = flow.totals();
        flow.record.end(now, totals);
        (flow.control, flow.connection) = (None, None);
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
            // Its figures were shown; nobody asks for them again.
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
                    connection.close(CloseCode::Stopped.into(), b"it was interrupted");
                }
                None => {}
            }
        }
        if self.flows.values().any(|flow| flow.connection.is_none() && flow.record.ended.is_none())
        {
            for endpoint in &self.endpoints {
                endpoint.close(CloseCode::Stopped.into(), b"it was interrupted");
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
    progress: Arc<Progress>,
    is_cut: watch::Receiver<bool>,
}

impl FlowTask {
    async fn run(mut self, connecting: noq::Connecting, data: FlowData, offered: u16) {
        let result = self.transfer(connecting, data, offered).await;
        // The session lives as long as its flows.
        let _ = self.notes.send(Note::Ended(self.number, result));
    }

    async fn transfer(
        &mut self,
        connecting: noq::Connecting,
        data: FlowData,
        offered: u16,
    ) -> Result<Option<[u8; 32]>, String> {
        let connection = connecting.await.map_err(|error| reason(&error))?;
        let control = cellpace_quic::noq::attach(&connection);
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
        let mut stream = connection.open_uni().await.map_err(|error| reason(&error))?;
        let mut header = MAGIC.to_vec();
        header.extend(offered.to_be_bytes());
        let mut pieces = pieces(source);
        let mut is_cut = self.is_cut.clone();
        let written = async {
            stream.write_all(&header).await.map_err(|error| lost(connection, &error))?;
            while let Some(piece) = pieces.recv().await {
                let piece = piece?;
                stream.write_all(&piece).await.map_err(|error| lost(connection, &error))?;
                self.progress.payload.fetch_add(piece.len() as u64, Ordering::Relaxed);
            }
            Ok::<(), String>(())
        };
        let was_cut = tokio::select! {
            result = written => {
                if let Err(error) = result {
                    connection.close(CloseCode::Storage.into(), b"the sender cannot read on");
                    return Err(error);
                }
                false
            }
            _ = is_cut.wait_for(|cut| *cut) => true,
        };
        match was_cut {
            true => drop(stream.reset(CloseCode::Cut.into())),
            false => drop(stream.finish()),
        }
        let cut = async {
            // A file goes whole; made-up bytes may be cut while the last of them are on their way.
            if !was_cut && is_cut.wait_for(|cut| *cut).await.is_ok() {
                let _ = stream.reset(CloseCode::Cut.into());
            }
            std::future::pending::<()>().await;
        };
        let closed = tokio::select! {
            closed = connection.closed() => closed,
            () = cut => return Ok(()),
        };
        match &closed {
            ConnectionError::ApplicationClosed(close)
                if close.error_code == CloseCode::Done.into() =>
            {
                self.progress.complete.store(!*self.is_cut.borrow(), Ordering::Relaxed);
                Ok(())
            }
            error => Err(reason(error)),
        }
    }

    async fn receive(
        &mut self,
        connection: &Connection,
        mut sink: DataSink,
    ) -> Result<Option<[u8; 32]>, String> {
        let mut stream = connection.accept_uni().await.map_err(|error| reason(&error))?;
        let mut header = [0; 6];
        if stream.read_exact(&mut header).await.is_err() || header[..4] != MAGIC[..] {
            connection.close(CloseCode::Stopped.into(), b"this is not a flow of cellpace");
            return Err("the peer does not send as cellpace does".to_owned());
        }
        let offered = u16::from_be_bytes([header[4], header[5]]);
        let _ = self.notes.send(Note::Offered(offered));
        let mut hash = blake3::Hasher::new();
        let failed = |error: String| {
            connection.close(CloseCode::Storage.into(), error.as_bytes());
            error
        };
        let mut keep = |bytes: &[u8]| {
            hash.update(bytes);
            sink.write(bytes).map_err(|error| failed(format!("cannot write: {error}")))?;
            self.progress.payload.fetch_add(bytes.len() as u64, Ordering::Relaxed);
            Ok::<(), String>(())
        };
        let mut stream = stream.into_unordered();
        let mut reassembly = Reassembly::starting_at(header.len() as u64);
        loop {
            match stream.read_chunk(PIECE).await {
                Ok(Some(chunk)) => {
                    if reassembly.take(chunk.offset, &chunk.bytes).map_err(failed)? {
                        keep(&chunk.bytes)?;
                    }
                    while let Some(bytes) = reassembly.next() {
                        keep(&bytes)?;
                    }
                }
                Ok(None) if reassembly.has_holes() => {
                    return Err(failed("the stream ended before all had arrived".to_owned()));
                }
                Ok(None) => break,
                // Made-up bytes end here: what has arrived is all.
                Err(noq::ReadError::Reset(code)) if code == CloseCode::Cut.into() => {
                    connection.close(CloseCode::Done.into(), b"");
                    return Ok(None);
                }
                Err(noq::ReadError::ConnectionLost(error)) => return Err(reason(&error)),
                Err(error) => return Err(error.to_string()),
            }
        }
        sink.commit().map_err(failed)?;
        connection.close(CloseCode::Done.into(), b"");
        Ok(Some(hash.finalize().into()))
    }
}

/// Reads a source piece by piece in a thread of its own, as pipes may block.
fn pieces(source: DataSource) -> mpsc::Receiver<Result<Vec<u8>, String>> {
    let (sender, receiver) = mpsc::channel(4);
    let mut source = source;
    std::thread::spawn(move || {
        loop {
            let mut piece = vec![0; PIECE];
            let read = match source.read(&mut piece) {
                Ok(0) => return,
                Ok(count) => {
                    piece.truncate(count);
                    Ok(piece)
                }
                Err(error) => Err(format!("cannot read: {error}")),
            };
            let is_over = read.is_err();
            if sender.blocking_send(read).is_err() || is_over {
                return;
            }
        }
    });
    receiver
}

/// Why a write failed: what became of the connection says more.
fn lost(connection: &Connection, error: &noq::WriteError) -> String {
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
