//! Reports how connections ended: lines for people, JSON for scripts and pages.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_live::{LiveConnections, NewConnection};
use cellpace_tcp::{FlowHandle, FlowOutcome, FlowStats};
use serde_json::{Value, json};

use crate::flow_series::{FlowSeries, round};
use crate::{AdoptedConnection, ClosedConnection, ConnectionWatcher, EventFlows, PlainReason};

/// Time from one sample of a connection's figures to the next.
const SAMPLE: Duration = Duration::from_millis(200);

/// Bytes of the objects that are kept at most.
const MAX_KEPT_BYTES: usize = 64 << 20;

/// Which command's connections are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggingCommand {
    /// `cellpace run`, schema `cellpace.run/1`.
    Run,
    /// `cellpace attach`, schema `cellpace.attach/1`.
    Attach,
    /// `cellpace proxy`, schema `cellpace.proxy/1`.
    Proxy,
}

impl LoggingCommand {
    /// Returns the command's name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Run => "run",
            Self::Attach => "attach",
            Self::Proxy => "proxy",
        }
    }
}

/// The objects of all connections that have ended, one a line, up to 64 MiB.
#[derive(Debug, Clone, Default)]
pub struct KeptConnections(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    text: String,
    omitted: u64,
}

impl KeptConnections {
    /// Returns the text, and the number of connections for which there was no room.
    pub fn take(&self) -> (String, u64) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let Kept { text, omitted } = std::mem::take(&mut *kept);
        (text, omitted)
    }

    fn push(&self, line: &str) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match kept.text.len() + line.len() < MAX_KEPT_BYTES {
            true => kept.text.extend([line, "\n"]),
            false => kept.omitted += 1,
        }
    }
}

/// How many connections stayed without a controller, by reason. A clone counts the same.
#[derive(Debug, Clone, Default)]
pub struct PlainConnections(Arc<Mutex<BTreeMap<PlainReason, u64>>>);

impl PlainConnections {
    /// Counts some more.
    pub fn add(&self, reason: PlainReason, count: u64) {
        *self.counts().entry(reason).or_default() += count;
    }

    /// Returns how many had this reason.
    pub fn count(&self, reason: PlainReason) -> u64 {
        self.counts().get(&reason).copied().unwrap_or(0)
    }

    /// Returns the reasons that there were, with their counts.
    pub fn list(&self) -> Vec<(PlainReason, u64)> {
        self.counts().iter().map(|(reason, count)| (*reason, *count)).collect()
    }

    fn counts(&self) -> MutexGuard<'_, BTreeMap<PlainReason, u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Writes a line or an object for each connection that has ended.
pub struct ConnectionLog {
    /// Whose connections they are.
    pub command: LoggingCommand,
    /// The command line, for those who want to repeat it.
    pub command_line: String,
    /// Where the lines are written.
    pub lines: Option<fn(&str)>,
    /// Where the objects are written, one per line.
    pub json: Option<Box<dyn Write + Send>>,
    /// Where the objects are kept.
    pub kept: Option<KeptConnections>,
    /// Where the controllers' decisions are written.
    pub events: Option<EventFlows>,
    /// Where the connections are shown while they are open.
    pub live: Option<LiveConnections>,
    /// Samples of the connections that are open.
    pub samples: ConnectionSamples,
    /// Counts those that have no controller.
    pub plain: PlainConnections,
}

/// Samples of the connections that are open.
#[derive(Default)]
pub struct ConnectionSamples {
    flows: BTreeMap<u64, SampledConnection>,
    next: Option<Instant>,
    /// When the first connection was taken over.
    begun: Option<Instant>,
}

struct SampledConnection {
    handle: FlowHandle,
    series: FlowSeries,
    /// Seconds after the first one.
    start_s: f64,
}

impl ConnectionSamples {
    fn take(&mut self) {
        let now = Instant::now();
        if self.next.is_some_and(|next| now < next) {
            return;
        }
        // As a rule it is late by some milliseconds, which must not add up.
        let next = self.next.map_or(now + SAMPLE, |next| next + SAMPLE);
        self.next = Some(next.max(now));
        for SampledConnection { handle, series, .. } in self.flows.values_mut() {
            series.sample(&handle.stats());
        }
    }

    fn begin(&mut self, flow: u64, handle: FlowHandle) {
        let now = Instant::now();
        let start_s = (now - *self.begun.get_or_insert(now)).as_secs_f64();
        let series = FlowSeries::default();
        self.flows.insert(flow, SampledConnection { handle, series, start_s });
    }
}

impl ConnectionWatcher for ConnectionLog {
    fn opened(&mut self, connection: &AdoptedConnection, flow: &FlowHandle) {
        if let Some(events) = &self.events {
            events.opened(connection.flow, flow.clone());
        }
        if let Some(live) = &self.live {
            live.opened(NewConnection {
                number: connection.flow,
                name: shown_addresses(connection),
                controller: flow.controller().clone(),
                driver: flow.driver().name(),
                source: Box::new(flow.clone()),
            });
        }
        if self.wants_objects() {
            self.samples.begin(connection.flow, flow.clone());
        }
    }

    fn stayed_plain(
        &mut self,
        connection: Option<&AdoptedConnection>,
        reason: PlainReason,
        why: &str,
    ) {
        self.plain.add(reason, 1);
        if let Some(print) = self.lines {
            let which = connection.map_or_else(|| "a new connection".to_owned(), shown_addresses);
            print(&format!("{which} stays without a controller: {why}"));
        }
    }

    fn missed(&mut self, reason: PlainReason, count: u64) {
        self.plain.add(reason, count);
    }

    fn look(&mut self) {
        if self.wants_objects() {
            self.samples.take();
        }
    }

    fn closed(&mut self, closed: ClosedConnection) {
        if closed.controller_failure.is_some() {
            self.plain.add(PlainReason::Failed, 1);
        }
        if let Some(print) = self.lines {
            print(&self.line(&closed));
        }
        if self.wants_objects() {
            self.write_object(&closed);
        }
        if let Some(events) = &self.events {
            events.closed(closed.connection.flow);
        }
        if let Some(live) = &self.live {
            let outcome = self.outcome_text(&closed);
            live.closed(closed.connection.flow, closed.stats.into(), &outcome);
        }
    }
}

impl ConnectionLog {
    fn wants_objects(&self) -> bool {
        self.json.is_some() || self.kept.is_some()
    }

    fn write_object(&mut self, closed: &ClosedConnection) {
        let watched = self.samples.flows.remove(&closed.connection.flow);
        let start_s = watched.as_ref().map(|watched| watched.start_s);
        let mut series = watched.map(|watched| watched.series).unwrap_or_default();
        series.end_bin(&closed.stats);
        let line = self.to_json(closed, start_s, &series).to_string();
        if let Some(out) = &mut self.json {
            // A full disk must not end the connections.
            let _ = out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush());
        }
        if let Some(kept) = &self.kept {
            kept.push(&line);
        }
    }

    fn line(&self, closed: &ClosedConnection) -> String {
        let ClosedConnection { connection, age, stats, .. } = closed;
        let rtt = |name, span: Option<Span>| {
            span.map_or_else(String::new, |span| format!(", {name} {:.1} ms", span.as_millis_f64()))
        };
        let bytes = match self.command {
            LoggingCommand::Run | LoggingCommand::Proxy => {
                format!("sent {} bytes, received {}", stats.sent_bytes, stats.received_bytes)
            }
            LoggingCommand::Attach => format!("{} bytes acknowledged", stats.acked_bytes),
        };
        format!(
            "flow {}: {} under {}{}, {:.3} s, {bytes}{}{}, {} segments sent again, {}",
            connection.flow,
            shown_addresses(connection),
            closed.controller,
            driver_text(closed),
            age.as_secs_f64(),
            rtt("RTT", stats.srtt),
            rtt("smallest", stats.min_rtt),
            stats.retransmissions,
            self.outcome_text(closed),
        )
    }

    fn outcome_text(&self, closed: &ClosedConnection) -> String {
        let end = match closed.outcome {
            _ if closed.cut => "cut".to_owned(),
            Some(FlowOutcome::Failed(code)) => io::Error::from_raw_os_error(code).to_string(),
            Some(FlowOutcome::Alcc(error)) => error.to_string(),
            None if self.command == LoggingCommand::Attach => "released".to_owned(),
            Some(FlowOutcome::Finished) | None => "finished".to_owned(),
        };
        match &closed.controller_failure {
            Some(reason) => format!("{end}, without its controller since {reason}"),
            None => end,
        }
    }

    fn to_json(
        &self,
        closed: &ClosedConnection,
        start_s: Option<f64>,
        series: &FlowSeries,
    ) -> Value {
        let ClosedConnection { connection, age, stats, .. } = closed;
        let min_rtt_ms = stats.min_rtt.map(Span::as_millis_f64);
        let seconds = age.as_secs_f64();
        let mut object = json!({
            "schema": format!("cellpace.{}/1", self.command.name()),
            "version": env!("CARGO_PKG_VERSION"),
            "command": self.command_line,
            "cc": &*closed.controller,
            "driver": closed.driver.name(),
            "driver_reason": closed.driver_reason.as_ref().map(ToString::to_string),
            "flow": connection.flow,
            "direction": if connection.outgoing { "out" } else { "in" },
            "local": connection.local.to_string(),
            "peer": connection.peer.to_string(),
            "start_s": start_s.map(round),
            "duration_s": seconds,
            "sent_bytes": stats.sent_bytes,
            "acked_bytes": stats.acked_bytes,
            "throughput_mbps": round(stats.acked_bytes as f64 * 8e-6 / seconds.max(1e-6)),
            "rtt_ms": stats.srtt.map(Span::as_millis_f64),
            "min_rtt_ms": min_rtt_ms,
            "rtt_ms_seen": series.summary(0.0),
            "queue_delay_ms": min_rtt_ms.and_then(|base_ms| series.summary(base_ms)),
            "retransmissions": stats.retransmissions,
            "retransmitted": retransmitted(stats),
            // Where the algorithm has no window, it is infinite.
            "cwnd_bytes": Some(stats.cwnd).filter(|cwnd| *cwnd < u64::MAX),
            "tcp_cc": stats.tcp_cc.as_str(),
            "tcp_cwnd_bytes": stats.tcp_cwnd,
            "outcome": self.outcome_text(closed),
            "series": series.to_json(SAMPLE.as_secs_f64()),
        });
        let plain = self.plain.list();
        if !plain.is_empty() {
            let counts = plain.iter().map(|(why, count)| (why.word().to_owned(), (*count).into()));
            object["uncontrolled"] = Value::Object(counts.collect());
        }
        match self.command {
            LoggingCommand::Run | LoggingCommand::Proxy => {
                object["received_bytes"] = stats.received_bytes.into();
                object["refusals"] = stats.blocks.into();
                // TCP holds what the kernel sees fit; the field is one of this version of the schema.
                object["sndbuf_bytes"] = Value::Null;
            }
            LoggingCommand::Attach => object["kicks"] = stats.kicks.into(),
        }
        object
    }
}

/// Both addresses, ours first; the arrow points to the side that accepted.
fn shown_addresses(connection: &AdoptedConnection) -> String {
    let AdoptedConnection { outgoing, local, peer, .. } = connection;
    format!("{local} {} {peer}", if *outgoing { "->" } else { "<-" })
}

/// Why a connection has another driver than the command's other connections; empty for most.
fn driver_text(closed: &ClosedConnection) -> String {
    let reason = closed.driver_reason.as_ref().filter(|reason| reason.is_of_connection());
    reason.map_or_else(String::new, |reason| format!(" ({}: {reason})", closed.driver.name()))
}

/// Share of the bytes that TCP sent that it had sent before, from 0 to 1; none before it sent any.
fn retransmitted(stats: &FlowStats) -> Option<f64> {
    let again = stats.retransmissions * stats.segment_bytes;
    let all = stats.sent_bytes + again;
    (all > 0).then(|| (again as f64 / all as f64 * 1e6).round() / 1e6)
}
