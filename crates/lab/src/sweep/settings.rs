//! What the fields of a path say, read by the readers that `compare` uses.

use cellpace_base::{Span, parse_span};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{DuplexSpec, PATH_FIELDS, PathField, SendJitterSpec, TraceSpec};
use cellpace_sim::{AckPolicy, Scenario, TransferSpec};

/// An alternative for one field: usually one text; several where a field may be repeated.
pub(super) type Alternative = Vec<String>;

/// The fields of a plan beside [`PATH_FIELDS`] that a path may have, with an example of each.
const RUN_FIELDS: [(&str, &str); 7] = [
    ("send_jitter", "\"100%\""),
    ("acks", "\"delayed:40ms\""),
    ("flows", "2"),
    ("transfer", "\"2MB,count=20\""),
    ("from", "\"40ms\""),
    ("skip", "\"40ms\""),
    ("duration", "\"60s\""),
];

/// The fields of a path, the trace first, as `compare` has them as options. The order is that of the
/// cells: the first changes most slowly.
pub(super) fn path_fields() -> impl Iterator<Item = &'static str> {
    let of_run = RUN_FIELDS.iter().map(|(name, _)| *name);
    PATH_FIELDS.iter().map(|field| field.name).chain(of_run)
}

/// What to write for a field.
pub(super) fn example(field: &str) -> String {
    let of_run = || RUN_FIELDS.iter().find(|(name, _)| *name == field);
    match PathField::find(field) {
        Some(field) => format!("\"{}\"", field.example),
        None => of_run().map_or("\"40ms\"", |(_, example)| example).to_owned(),
    }
}

/// Flows of a cell at most, as in `compare`.
const MAX_FLOWS: u64 = 10_000;

/// What a field says, read.
#[derive(Debug, Clone)]
pub(super) enum Setting {
    /// A field of the path, in a link that has no other.
    Path(&'static PathField, Box<DuplexSpec>),
    SendJitter(SendJitterSpec),
    Acks(AckPolicy),
    Flows(u32),
    Transfer(Box<TransferSpec>),
    From(Span),
    Skip(Span),
    Duration(Span),
}

impl Setting {
    /// Reads an alternative of a field of [`path_fields`].
    pub(super) fn read(
        field: &str,
        alternative: &Alternative,
        files: &mut TraceFiles<'_>,
    ) -> Result<Self, String> {
        let text = alternative.first().map_or("", String::as_str);
        if let Some(field) = PathField::find(field) {
            // A link of its own, of which `set` copies this field alone: alternatives combine
            // freely.
            let mut link = DuplexSpec::default();
            for text in alternative {
                field.read(&mut link, text, files).map_err(|error| error.why)?;
            }
            return Ok(Self::Path(field, Box::new(link)));
        }
        let read = |error: &dyn std::fmt::Display| error.to_string();
        Ok(match field {
            "send_jitter" => {
                Self::SendJitter(text.parse::<SendJitterSpec>().map_err(|e| read(&e))?)
            }
            "acks" => Self::Acks(text.parse::<AckPolicy>().map_err(|e| read(&e))?),
            "flows" => Self::Flows(flows(text)?),
            "transfer" => Self::Transfer(Box::new(TransferSpec::parse(text, files)?)),
            "from" => Self::From(parse_span(text).map_err(|e| read(&e))?),
            "skip" => Self::Skip(parse_span(text).map_err(|e| read(&e))?),
            "duration" => Self::Duration(duration(text)?),
            other => return Err(format!("no field of a path: {other}")),
        })
    }

    /// The trace, if that is what it sets.
    pub(super) fn trace(&self) -> Option<&TraceSpec> {
        match self {
            Self::Path(PathField { name: "trace" | "path", .. }, link) => link.down.trace.as_ref(),
            _ => None,
        }
    }
}

fn flows(text: &str) -> Result<u32, String> {
    let flows = text.parse().ok().filter(|flows| (1..=MAX_FLOWS).contains(flows));
    let flows = flows.ok_or_else(|| format!("write a whole number from 1 to {MAX_FLOWS}"))?;
    Ok(flows as u32)
}

fn duration(text: &str) -> Result<Span, String> {
    match parse_span(text).map_err(|error| error.to_string())? {
        Span::ZERO => Err("nothing happens in no time: write at least 1ms".to_owned()),
        span => Ok(span),
    }
}

/// A path of which all fields are read.
#[derive(Debug, Clone, Default)]
pub(super) struct PathSettings {
    pub(super) scenario: Scenario,
    pub(super) flows: u32,
    pub(super) transfer: Option<TransferSpec>,
    pub(super) from: Span,
    pub(super) duration: Option<Span>,
}

impl PathSettings {
    /// Puts one more field in.
    pub(super) fn set(&mut self, setting: &Setting) {
        let scenario = &mut self.scenario;
        match setting.clone() {
            Setting::Path(field, link) => field.copy(&mut scenario.link, &link),
            Setting::SendJitter(jitter) => scenario.send_jitter = jitter,
            Setting::Acks(acks) => scenario.acks = acks,
            Setting::Flows(flows) => self.flows = flows,
            Setting::Transfer(transfer) => self.transfer = Some(*transfer),
            Setting::From(from) => self.from = from,
            Setting::Skip(skip) => scenario.skip = skip,
            Setting::Duration(duration) => self.duration = Some(duration),
        }
    }
}
