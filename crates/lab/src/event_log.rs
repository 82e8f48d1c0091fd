//! What controllers decide, as it happens: JSON lines, or qlog in JSON-SEQ.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use cellpace_base::{Span, Time};
use cellpace_cc::Event;
use cellpace_report::Aside;
use serde_json::{Map, Value, json};

use crate::LabError;

/// The flow that an event is about.
#[derive(Debug, Clone, Copy)]
pub struct EventFlow<'a> {
    /// The run that it belongs to, where there are several.
    pub run: Option<u32>,
    /// Its number.
    pub flow: u64,
    /// Its controller.
    pub cc: &'a str,
}

/// What TCP below a flow's controller does.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TcpMetrics {
    /// Its own window in bytes.
    pub cwnd: u64,
    /// Its own slow start threshold in bytes, where there is one.
    pub ssthresh: Option<u64>,
    /// Segments that it sent again.
    pub retransmissions: u64,
    /// Bytes that wait in it and were never sent.
    pub unsent: u64,
}

/// The state of a flow's congestion control.
#[derive(Debug, Clone, Default)]
pub struct FlowMetrics {
    /// Bytes; `u64::MAX` where the controller has no window.
    pub cwnd: u64,
    /// Bytes.
    pub in_flight: u64,
    /// Smoothed RTT.
    pub srtt: Option<Span>,
    /// Smallest RTT.
    pub min_rtt: Option<Span>,
    /// What the controller shows of itself, see [`INSPECTED_VALUES`](cellpace_cc::INSPECTED_VALUES).
    pub values: Vec<(&'static str, f64)>,
    /// TCP's own, for controllers above it.
    pub tcp: Option<TcpMetrics>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EventForm {
    /// One JSON object a line.
    Lines,
    /// qlog: records of RFC 7464, the first of which is the header.
    Qlog,
}

/// Bytes of whole records that are written in one call.
const CHUNK: usize = 32 << 10;

/// Writes the events of flows to `W`, only ever whole records in a call: a process that is killed
/// leaves no torn ones.
pub struct EventLog<W: Write> {
    out: W,
    records: Vec<u8>,
    path: PathBuf,
    form: EventForm,
    /// The first error; nothing is written after it.
    failed: Option<io::Error>,
}

impl EventLog<File> {
    /// A log that grows as events come, at `path`. The other arguments are those of
    /// [`new`](Self::new).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create(path: &Path, program: &str, controllers: &str) -> Result<Self, LabError> {
        // Not aside as a whole log: other programs follow it while the flows go on.
        let file = File::create(path).map_err(|error| named(path, &error))?;
        Ok(Self::new(file, path, program, controllers))
    }
}

impl EventLog<Aside> {
    /// A log that appears at `path` when it is [finished](Self::commit). The other arguments are
    /// those of [`new`](Self::new).
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn create_whole(path: &Path, program: &str, controllers: &str) -> Result<Self, LabError> {
        let file = Aside::create(path).map_err(LabError::failed)?;
        Ok(Self::new(file, path, program, controllers))
    }

    /// Gives the file its name.
    ///
    /// # Errors
    /// When not all could be written.
    pub fn commit(self) -> Result<(), LabError> {
        self.finish()?.commit().map_err(LabError::failed)
    }
}

fn named(path: &Path, error: &io::Error) -> LabError {
    LabError::Failed(format!("{}: {error}", path.display()))
}

impl<W: Write> EventLog<W> {
    /// A log that goes to `out`: qlog if `path` ends in `.sqlog`, otherwise a JSON object a line.
    /// `program` is the writer's name, and `controllers` are those whose events it has.
    pub fn new(out: W, path: &Path, program: &str, controllers: &str) -> Self {
        let mut log = Self::headless(out, path);
        log.records = Self::header(path, program, controllers);
        log
    }

    /// A log that goes to `out` where [`header`](Self::header) stands already.
    pub fn headless(out: W, path: &Path) -> Self {
        Self { out, records: Vec::new(), path: path.to_owned(), form: form(path), failed: None }
    }

    /// What such a log begins with: nothing, but for qlog.
    pub fn header(path: &Path, program: &str, controllers: &str) -> Vec<u8> {
        let mut records = Vec::new();
        if form(path) == EventForm::Qlog {
            push_record(&mut records, EventForm::Qlog, &header(program, controllers));
        }
        records
    }

    /// Writes that a run begins, whose flows' events follow.
    pub fn begin_run(&mut self, run: u32, cc: &str, trace: &str, seed: u64) {
        let flow = EventFlow { run: Some(run), flow: 0, cc };
        self.put(Time::ZERO, flow, "run", json!({ "trace": trace, "seed": seed }));
    }

    /// Writes what a controller decided.
    pub fn event(&mut self, at: Time, flow: EventFlow<'_>, event: &Event) {
        let (name, data) = describe_event(event);
        self.put(at, flow, name, data);
    }

    /// Writes how many events of a flow were lost before those that follow.
    pub fn missed(&mut self, at: Time, flow: EventFlow<'_>, count: u64) {
        self.put(at, flow, "missed", json!({ "count": count }));
    }

    /// Writes the state of a flow.
    pub fn metrics(&mut self, at: Time, flow: EventFlow<'_>, metrics: &FlowMetrics) {
        // A controller without a window has no number that a reader could chart.
        let cwnd = Some(metrics.cwnd).filter(|cwnd| *cwnd != u64::MAX);
        let (srtt, min_rtt) =
            (metrics.srtt.map(Span::as_millis_f64), metrics.min_rtt.map(Span::as_millis_f64));
        let mut data = match self.form {
            EventForm::Lines => json!({
                "cwnd": cwnd, "in_flight": metrics.in_flight, "srtt_ms": srtt, "min_rtt_ms": min_rtt,
            }),
            EventForm::Qlog => json!({
                "congestion_window": cwnd, "bytes_in_flight": metrics.in_flight,
                "smoothed_rtt": srtt, "min_rtt": min_rtt,
            }),
        };
        if let Some(tcp) = metrics.tcp {
            data["tcp_cwnd"] = tcp.cwnd.into();
            data["tcp_ssthresh"] = tcp.ssthresh.into();
            data["tcp_retransmissions"] = tcp.retransmissions.into();
            data["tcp_unsent"] = tcp.unsent.into();
        }
        if !metrics.values.is_empty() {
            let values = metrics.values.iter().map(|(name, value)| ((*name).into(), json!(value)));
            data["values"] = Value::Object(values.collect::<Map<_, _>>());
        }
        self.put(at, flow, "metrics", data);
    }

    fn put(&mut self, at: Time, flow: EventFlow<'_>, name: &str, data: Value) {
        let record = match self.form {
            EventForm::Lines => line(at, flow, name, data),
            EventForm::Qlog => qlog(at, flow, name, data),
        };
        self.write(&record);
    }

    fn write(&mut self, value: &Value) {
        push_record(&mut self.records, self.form, value);
        // Not each by itself: system calls would cost more than the records.
        if self.records.len() >= CHUNK {
            self.flush();
        }
    }

    /// Hands what was written so far to the file.
    pub fn flush(&mut self) {
        if self.failed.is_none() && !self.records.is_empty() {
            self.failed = self.out.write_all(&self.records).and_then(|()| self.out.flush()).err();
        }
        // Also after an error: memory must not grow while nothing can be written.
        self.records.clear();
    }

    /// Returns where the log went, with all of it written.
    ///
    /// # Errors
    /// The first error of writing, which names the file.
    pub fn finish(mut self) -> Result<W, LabError> {
        self.flush();
        match self.failed {
            Some(error) => Err(named(&self.path, &error)),
            None => Ok(self.out),
        }
    }
}

fn form(path: &Path) -> EventForm {
    let is_qlog = path.extension().is_some_and(|extension| extension == "sqlog");
    if is_qlog { EventForm::Qlog } else { EventForm::Lines }
}

fn push_record(records: &mut Vec<u8>, form: EventForm, value: &Value) {
    // RFC 7464: a record separator in front, so that a reader finds the next record after a torn
    // one.
    let separator = if form == EventForm::Qlog { "\x1e" } else { "" };
    records.extend_from_slice(format!("{separator}{value}\n").as_bytes());
}

/// One object for one event: whose it is, its name, and what belongs to it.
fn line(at: Time, flow: EventFlow<'_>, name: &str, data: Value) -> Value {
    let mut line = json!({
        "time_s": at.as_secs_f64(), "flow": flow.flow, "cc": flow.cc, "event": name,
    });
    if let Some(run) = flow.run {
        line["run"] = run.into();
    }
    if let (Value::Object(all), Value::Object(fields)) = (&mut line, data) {
        all.extend(fields);
    }
    line
}

/// draft-ietf-quic-qlog-quic-events has a state of congestion control and metrics; the rest is our
/// own.
fn qlog(at: Time, flow: EventFlow<'_>, name: &str, mut data: Value) -> Value {
    let name = match name {
        // The draft writes the name of this state in full.
        "phase" => {
            let phase = data["phase"].take();
            let new = if phase == "avoidance" { "congestion_avoidance".into() } else { phase };
            data = json!({ "new": new });
            "quic:congestion_state_updated"
        }
        "metrics" => "quic:recovery_metrics_updated",
        own => &format!("cellpace:{own}"),
    };
    // A group is one connection, and flows of different runs have the same numbers.
    let group = match flow.run {
        Some(run) => format!("{run}.{}", flow.flow),
        None => flow.flow.to_string(),
    };
    json!({ "time": at.as_millis_f64(), "name": name, "group_id": group, "data": data })
}

/// Returns the name of an event in logs, and what belongs to it.
pub fn describe_event(event: &Event) -> (&'static str, Value) {
    let data = match event {
        Event::Phase(phase) => json!({ "phase": phase.name() }),
        Event::Reduced { from, to } => json!({ "from": from, "to": to }),
        Event::ProfileRefit { points, nodes } => json!({ "points": points, "nodes": nodes }),
        Event::BaseDelay(delay) => json!({ "delay_ms": delay.as_millis_f64() }),
        _ => json!({}),
    };
    (event.name(), data)
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
                // Times are since the beginning of a run, which in virtual time is at no date.
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "vantage_point": { "type": "client", "name": program },
        },
    })
}
