//! What controllers decide, as it happens: JSON lines, or qlog in JSON-SEQ.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

use cellpace_base::{Span, Time};
use cellpace_cc::{Event, Phase};
use serde_json::{Value, json};

use crate::error::Failure;

/// The state of a flow's congestion control.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Metrics {
    /// Bytes; `u64::MAX` where the controller has no window.
    pub(crate) cwnd: u64,
    /// Bytes.
    pub(crate) in_flight: u64,
    pub(crate) srtt: Option<Span>,
    pub(crate) min_rtt: Option<Span>,
}

/// Writes the events of all flows of a run.
pub(crate) struct EventLog {
    out: BufWriter<File>,
    path: PathBuf,
    form: Form,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// One object a line.
    Lines,
    /// qlog: records of RFC 7464, the first of which is the header.
    Qlog,
}

impl EventLog {
    /// A log that is qlog if the name of its file ends in `.sqlog`. `program` is who writes it, and
    /// `controllers` are those that it is about.
    pub(crate) fn create(path: &Path, program: &str, controllers: &str) -> Result<Self, Failure> {
        let named = |error: io::Error| Failure::failed(format!("{}: {error}", path.display()));
        let is_qlog = path.extension().is_some_and(|extension| extension == "sqlog");
        let form = if is_qlog { Form::Qlog } else { Form::Lines };
        let out = BufWriter::new(File::create(path).map_err(named)?);
        let mut log = Self { out, path: path.to_owned(), form, failed: None };
        if form == Form::Qlog {
            log.record(&header(program, controllers));
        }
        Ok(log)
    }

    /// A controller decided something.
    pub(crate) fn event(&mut self, at: Time, flow: u64, cc: &str, event: &Event) {
        let record = match self.form {
            Form::Lines => line(at, flow, cc, event),
            Form::Qlog => qlog(at, flow, event),
        };
        self.record(&record);
    }

    /// So many events of a flow, before those that follow, were lost on the way here.
    pub(crate) fn missed(&mut self, at: Time, flow: u64, cc: &str, count: u64) {
        let record = match self.form {
            Form::Lines => json!({
                "time_s": at.as_secs_f64(), "flow": flow, "cc": cc, "event": "missed",
                "count": count,
            }),
            Form::Qlog => record(at, flow, "cellpace:missed", &json!({ "count": count })),
        };
        self.record(&record);
    }

    /// The state of a flow, about once a second.
    pub(crate) fn metrics(&mut self, at: Time, flow: u64, cc: &str, metrics: Metrics) {
        let cwnd = Some(metrics.cwnd).filter(|cwnd| *cwnd != u64::MAX);
        let (srtt, min_rtt) =
            (metrics.srtt.map(Span::as_millis_f64), metrics.min_rtt.map(Span::as_millis_f64));
        let record = match self.form {
            Form::Lines => json!({
                "time_s": at.as_secs_f64(), "flow": flow, "cc": cc, "event": "metrics",
                "cwnd": cwnd, "in_flight": metrics.in_flight, "srtt_ms": srtt, "min_rtt_ms": min_rtt,
            }),
            Form::Qlog => record(
                at,
                flow,
                "quic:recovery_metrics_updated",
                &json!({
                    "smoothed_rtt": srtt, "min_rtt": min_rtt,
                    "congestion_window": cwnd, "bytes_in_flight": metrics.in_flight,
                }),
            ),
        };
        self.record(&record);
    }

    fn record(&mut self, value: &Value) {
        if self.failed.is_some() {
            return;
        }
        let separator: &[u8] = if self.form == Form::Qlog { b"\x1e" } else { b"" };
        let written = self.out.write_all(separator).and_then(|()| writeln!(self.out, "{value}"));
        self.failed = written.err();
    }

    /// What has been said is in the file.
    pub(crate) fn flush(&mut self) {
        if self.failed.is_none() {
            self.failed = self.out.flush().err();
        }
    }

    /// Everything is written.
    pub(crate) fn finish(mut self) -> Result<(), Failure> {
        self.flush();
        let written = self.failed.map_or(Ok(()), Err);
        written.map_err(|error| Failure::failed(format!("{}: {error}", self.path.display())))
    }
}

/// One object for one event: its name, and what belongs to it.
fn line(at: Time, flow: u64, cc: &str, event: &Event) -> Value {
    let (name, fields) = described(event);
    let mut value = json!({ "time_s": at.as_secs_f64(), "flow": flow, "cc": cc, "event": name });
    if let (Value::Object(all), Value::Object(fields)) = (&mut value, fields) {
        all.extend(fields);
    }
    value
}

fn described(event: &Event) -> (&'static str, Value) {
    match event {
        Event::Phase(phase) => ("phase", json!({ "phase": phase_name(*phase) })),
        Event::Reduced { from, to } => ("reduced", json!({ "from": from, "to": to })),
        Event::Timeout => ("timeout", json!({})),
        Event::Undone => ("undone", json!({})),
        Event::ProfileRefit { points, nodes } => {
            ("profile_refit", json!({ "points": points, "nodes": nodes }))
        }
        Event::BaseDelay(delay) => ("base_delay", json!({ "delay_ms": delay.as_millis_f64() })),
        Event::Restart => ("restart", json!({})),
        _ => ("other", json!({})),
    }
}

fn phase_name(phase: Phase) -> &'static str {
    match phase {
        Phase::SlowStart => "slow_start",
        Phase::Avoidance => "avoidance",
        Phase::Recovery => "recovery",
        Phase::Drain => "drain",
        Phase::ProbeBw => "probe_bw",
        Phase::ProbeRtt => "probe_rtt",
        Phase::Default => "default",
        Phase::Competitive => "competitive",
        _ => "other",
    }
}

/// draft-ietf-quic-qlog-main-schema: the header of a sequence (QlogFileSeq).
fn header(program: &str, controllers: &str) -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": "cellpace",
        "trace": {
            "title": controllers,
            "event_schemas": ["urn:ietf:params:qlog:events:quic-12", "urn:cellpace:events"],
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "vantage_point": { "type": "client", "name": program },
        },
    })
}

fn record(at: Time, flow: u64, name: &str, data: &Value) -> Value {
    json!({
        "time": at.as_millis_f64(), "name": name, "group_id": flow.to_string(), "data": data,
    })
}

/// draft-ietf-quic-qlog-quic-events has a state of congestion control; the rest is our own.
fn qlog(at: Time, flow: u64, event: &Event) -> Value {
    if let Event::Phase(phase) = event {
        let new = match phase {
            Phase::Avoidance => "congestion_avoidance",
            other => phase_name(*other),
        };
        return record(at, flow, "quic:congestion_state_updated", &json!({ "new": new }));
    }
    let (name, data) = described(event);
    record(at, flow, &format!("cellpace:{name}"), &data)
}
