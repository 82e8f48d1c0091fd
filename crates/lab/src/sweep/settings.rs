//! What the fields of a path say, read by the readers that `compare` uses.

use cellpace_base::{Span, parse_span};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{
    DelaySpec, Handover, ImpairSpec, JitterSpec, LossSpec, PathError, QueueSpec, SendJitterSpec,
    TraceSpec,
};
use cellpace_sim::{AckPolicy, Scenario, TransferSpec};

/// An alternative for one field: usually one text; several where a field may be repeated.
pub(super) type Alternative = Vec<String>;

/// The fields of a path, the trace first: those of a scenario, as `compare` has them as options.
/// The order is that of the cells: the first changes most slowly.
pub(super) const PATH_FIELDS: [&str; 17] = [
    "trace",
    "rtt",
    "queue",
    "loss",
    "uplink",
    "uplink_loss",
    "impair",
    "uplink_impair",
    "jitter",
    "send_jitter",
    "handover",
    "acks",
    "flows",
    "transfer",
    "from",
    "skip",
    "duration",
];

/// Flows of a cell at most, as in `compare`.
const MAX_FLOWS: u64 = 10_000;

/// What a field says, read.
#[derive(Debug, Clone)]
pub(super) enum Setting {
    Trace(TraceSpec),
    Rtt(DelaySpec),
    Queue(QueueSpec),
    Loss(LossSpec),
    Uplink(TraceSpec),
    UplinkLoss(LossSpec),
    Impair(ImpairSpec),
    UplinkImpair(ImpairSpec),
    Jitter(JitterSpec),
    SendJitter(SendJitterSpec),
    Handovers(Vec<Handover>),
    Acks(AckPolicy),
    Flows(u32),
    Transfer(Box<TransferSpec>),
    From(Span),
    Skip(Span),
    Duration(Span),
}

impl Setting {
    /// Reads an alternative of a field of [`PATH_FIELDS`].
    pub(super) fn read(
        field: &str,
        alternative: &Alternative,
        files: &mut TraceFiles<'_>,
    ) -> Result<Self, String> {
        let text = alternative.first().map_or("", String::as_str);
        let read = |error: &dyn std::fmt::Display| error.to_string();
        Ok(match field {
            "trace" => Self::Trace(TraceSpec::parse(text, files).map_err(|e| read(&e))?),
            "rtt" => Self::Rtt(DelaySpec::parse(text, files).map_err(|e| read(&e))?),
            "queue" => Self::Queue(text.parse::<QueueSpec>().map_err(|e| read(&e))?),
            "loss" => Self::Loss(LossSpec::parse(text, files).map_err(|e| read(&e))?),
            "uplink" => Self::Uplink(TraceSpec::parse(text, files).map_err(|e| read(&e))?),
            "uplink_loss" => Self::UplinkLoss(LossSpec::parse(text, files).map_err(|e| read(&e))?),
            "impair" => Self::Impair(text.parse::<ImpairSpec>().map_err(|e| read(&e))?),
            "uplink_impair" => {
                Self::UplinkImpair(text.parse::<ImpairSpec>().map_err(|e| read(&e))?)
            }
            "jitter" => Self::Jitter(text.parse::<JitterSpec>().map_err(|e| read(&e))?),
            "send_jitter" => Self::SendJitter(text.parse().map_err(|e: PathError| read(&e))?),
            "handover" => Self::Handovers(handovers(alternative)?),
            "acks" => Self::Acks(text.parse::<AckPolicy>().map_err(|e| read(&e))?),
            "flows" => Self::Flows(flows(text)?),
            "transfer" => Self::Transfer(Box::new(TransferSpec::parse(text, files)?)),
            "from" => Self::From(parse_span(text).map_err(|e| read(&e))?),
            "skip" => Self::Skip(parse_span(text).map_err(|e| read(&e))?),
            "duration" => Self::Duration(duration(text)?),
            other => return Err(format!("no field of a path: {other}")),
        })
    }
}

fn handovers(alternative: &Alternative) -> Result<Vec<Handover>, String> {
    let read = |text: &String| text.parse::<Handover>().map_err(|error| error.to_string());
    let handovers = alternative.iter().map(read).collect::<Result<Vec<_>, _>>()?;
    Handover::check_order(&handovers).map_err(|error| error.to_string())?;
    Ok(handovers)
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
            Setting::Trace(trace) => scenario.trace = trace,
            Setting::Rtt(rtt) => scenario.rtt = rtt,
            Setting::Queue(queue) => scenario.queue = queue,
            Setting::Loss(loss) => scenario.loss = loss,
            Setting::Uplink(uplink) => scenario.uplink = Some(uplink),
            Setting::UplinkLoss(loss) => scenario.uplink_loss = loss,
            Setting::Impair(impair) => scenario.impair = impair,
            Setting::UplinkImpair(impair) => scenario.uplink_impair = impair,
            Setting::Jitter(jitter) => scenario.jitter = jitter,
            Setting::SendJitter(jitter) => scenario.send_jitter = jitter,
            Setting::Handovers(handovers) => scenario.handovers = handovers,
            Setting::Acks(acks) => scenario.acks = acks,
            Setting::Flows(flows) => self.flows = flows,
            Setting::Transfer(transfer) => self.transfer = Some(*transfer),
            Setting::From(from) => self.from = from,
            Setting::Skip(skip) => scenario.skip = skip,
            Setting::Duration(duration) => self.duration = Some(duration),
        }
    }
}
