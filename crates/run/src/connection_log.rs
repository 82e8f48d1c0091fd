//! Reports how connections ended: lines for people, JSON for scripts.

use std::fs::File;
use std::io::{self, Write};

use cellpace_base::Span;
use cellpace_tcp::{FlowHandle, FlowOutcome};
use serde_json::{Value, json};

use crate::{AdoptedConnection, ClosedConnection, ConnectionWatcher, EventFlows};

/// Which command's connections are logged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoggingCommand {
    /// `cellpace run`, schema `cellpace.run/1`.
    Run,
    /// `cellpace attach`, schema `cellpace.attach/1`.
    Attach,
}

/// Writes a line or an object for each connection that has ended.
pub struct ConnectionLog {
    /// Whose connections they are.
    pub command: LoggingCommand,
    /// Where the lines are written.
    pub lines: Option<fn(&str)>,
    /// Where the objects are written, one per line.
    pub json: Option<File>,
    /// Where the controllers' decisions are written.
    pub events: Option<EventFlows>,
}

impl ConnectionWatcher for ConnectionLog {
    fn opened(&mut self, connection: &AdoptedConnection, flow: &FlowHandle) {
        if let Some(events) = &self.events {
            events.opened(connection.flow, flow.clone());
        }
    }

    fn closed(&mut self, closed: ClosedConnection) {
        if let Some(print) = self.lines {
            print(&self.line(&closed));
        }
        if let Some(mut file) = self.json.as_ref() {
            // A full disk must not end the connections.
            let _ = writeln!(file, "{}", self.to_json(&closed));
        }
        if let Some(events) = &self.events {
            events.closed(closed.connection.flow);
        }
    }
}

impl ConnectionLog {
    fn line(&self, closed: &ClosedConnection) -> String {
        let ClosedConnection { connection, age, stats, .. } = closed;
        let arrow = if connection.outgoing { "->" } else { "<-" };
        let rtt = |name, span: Option<Span>| {
            span.map_or_else(String::new, |span| format!(", {name} {:.1} ms", span.as_millis_f64()))
        };
        let bytes = match self.command {
            LoggingCommand::Run => {
                format!("sent {} bytes, received {}", stats.sent_bytes, stats.received_bytes)
            }
            LoggingCommand::Attach => format!("{} bytes acknowledged", stats.acked_bytes),
        };
        format!(
            "flow {}: {} {arrow} {}, {:.3} s, {bytes}{}{}, {} segments sent again, {}",
            connection.flow,
            connection.local,
            connection.peer,
            age.as_secs_f64(),
            rtt("RTT", stats.srtt),
            rtt("smallest", stats.min_rtt),
            stats.retransmissions,
            self.outcome_text(closed),
        )
    }

    fn outcome_text(&self, closed: &ClosedConnection) -> String {
        match closed.outcome {
            _ if closed.cut => "cut".to_owned(),
            Some(FlowOutcome::Failed(code)) => io::Error::from_raw_os_error(code).to_string(),
            Some(FlowOutcome::Alcc(error)) => error.to_string(),
            None if self.command == LoggingCommand::Attach => "released".to_owned(),
            Some(FlowOutcome::Finished) | None => "finished".to_owned(),
        }
    }

    fn to_json(&self, closed: &ClosedConnection) -> Value {
        let ClosedConnection { connection, age, stats, .. } = closed;
        let mut object = json!({
            "flow": connection.flow,
            "direction": if connection.outgoing { "out" } else { "in" },
            "local": connection.local.to_string(),
            "peer": connection.peer.to_string(),
            "duration_s": age.as_secs_f64(),
            "sent_bytes": stats.sent_bytes,
            "acked_bytes": stats.acked_bytes,
            "rtt_ms": stats.srtt.map(Span::as_millis_f64),
            "min_rtt_ms": stats.min_rtt.map(Span::as_millis_f64),
            "retransmissions": stats.retransmissions,
            // Where the algorithm has no window, it is infinite.
            "cwnd_bytes": Some(stats.cwnd).filter(|cwnd| *cwnd < u64::MAX),
            "tcp_cwnd_bytes": stats.tcp_cwnd,
            "outcome": self.outcome_text(closed),
        });
        match self.command {
            LoggingCommand::Run => {
                object["schema"] = "cellpace.run/1".into();
                object["received_bytes"] = stats.received_bytes.into();
                object["refusals"] = stats.blocks.into();
                // As granted, where --sndbuf chose.
                object["sndbuf_bytes"] = stats.send_buffer.into();
                object["driver"] = closed.driver.name().into();
            }
            LoggingCommand::Attach => {
                object["schema"] = "cellpace.attach/1".into();
                object["kicks"] = stats.kicks.into();
            }
        }
        object
    }
}
