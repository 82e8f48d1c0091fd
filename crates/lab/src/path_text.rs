//! A path in the written forms of options and keywords.

use std::fmt::{self, Display};

use cellpace_base::{Span, parse_span};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{
    DelaySpec, Handover, ImpairSpec, JitterSpec, LossSpec, QueueSpec, SendJitterSpec, TraceSpec,
};
use cellpace_sim::{AckPolicy, Scenario};
use serde::Deserialize;

use crate::LabError;

/// Why a written form was refused, and which.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    /// The field, as options and keywords are called, with `_` between words.
    pub field: &'static str,
    /// What is wrong with its text.
    pub error: String,
}

impl FieldError {
    /// Puts the name of the field to an error of reading its text.
    ///
    /// # Errors
    /// When `read` is one.
    pub fn of<T>(field: &'static str, read: Result<T, impl Display>) -> Result<T, Self> {
        read.map_err(|error| Self { field, error: error.to_string() })
    }
}

impl Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.error)
    }
}

impl From<FieldError> for LabError {
    fn from(error: FieldError) -> Self {
        Self::invalid(error)
    }
}

/// The conditions of a path as they are written: each field has the form, and without one the
/// default, of the option of `cellpace compare` with its name.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct PathText {
    /// Round-trip delay without queueing.
    pub rtt: String,
    /// Queue at the bottleneck.
    pub queue: String,
    /// Random loss.
    pub loss: String,
    /// Trace of the reverse direction; `None`: unlimited.
    pub uplink: Option<String>,
    /// Where the traces of both directions begin.
    pub from: String,
    /// Random loss on the way back.
    pub uplink_loss: String,
    /// Impairments of packets; with `up:` in front those of the way back.
    pub impair: Vec<String>,
    /// Jitter of the radio link.
    pub jitter: String,
    /// Jitter of senders that share the link, in shares of a packet's time.
    pub send_jitter: String,
    /// Handovers in the order of time.
    pub handover: Vec<String>,
    /// When receivers acknowledge.
    pub acks: String,
    /// Left out of the figures at the start; `None`: 2 s.
    pub skip: Option<String>,
}

impl Default for PathText {
    fn default() -> Self {
        Self {
            rtt: "40ms".to_owned(),
            queue: "droptail:2MB".to_owned(),
            loss: "0%".to_owned(),
            uplink: None,
            from: "0s".to_owned(),
            uplink_loss: "0%".to_owned(),
            impair: Vec::new(),
            jitter: "none".to_owned(),
            send_jitter: "100%".to_owned(),
            handover: Vec::new(),
            acks: "every".to_owned(),
            skip: None,
        }
    }
}

impl PathText {
    /// Returns a scenario on this path that has no trace, duration or flow yet.
    ///
    /// # Errors
    /// When a text does not read, or handovers are not in the order of time.
    pub fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, FieldError> {
        let uplink = self.uplink.as_deref().map(|text| TraceSpec::parse(text, files)).transpose();
        let uplink = FieldError::of("uplink", uplink)?;
        let from = self.start()?;
        let (impair, uplink_impair) = self.impairments()?;
        let skip = self.skip.as_deref().map(parse_span).transpose();
        Ok(Scenario {
            queue: FieldError::of("queue", self.queue.parse::<QueueSpec>())?,
            rtt: FieldError::of("rtt", DelaySpec::parse(&self.rtt, files))?,
            loss: FieldError::of("loss", LossSpec::parse(&self.loss, files))?,
            uplink: uplink.map(|uplink| uplink.starting_at(from)),
            uplink_loss: FieldError::of("uplink_loss", LossSpec::parse(&self.uplink_loss, files))?,
            impair,
            uplink_impair,
            jitter: FieldError::of("jitter", self.jitter.parse::<JitterSpec>())?,
            send_jitter: FieldError::of("send_jitter", self.send_jitter.parse::<SendJitterSpec>())?,
            handovers: self.handovers()?,
            acks: FieldError::of("acks", self.acks.parse::<AckPolicy>())?,
            skip: FieldError::of("skip", skip)?.unwrap_or(Scenario::default().skip),
            ..Scenario::default()
        })
    }

    /// Returns where the traces begin.
    ///
    /// # Errors
    /// When `from` is no time span.
    pub fn start(&self) -> Result<Span, FieldError> {
        FieldError::of("from", parse_span(&self.from))
    }

    fn impairments(&self) -> Result<(ImpairSpec, ImpairSpec), FieldError> {
        let (mut down, mut up) = (ImpairSpec::default(), ImpairSpec::default());
        for text in &self.impair {
            let (direction, text) = match text.trim().strip_prefix("up:") {
                Some(rest) => (&mut up, rest),
                None => (&mut down, text.trim()),
            };
            *direction = FieldError::of("impair", text.parse())?;
        }
        Ok((down, up))
    }

    fn handovers(&self) -> Result<Vec<Handover>, FieldError> {
        let handovers: Result<Vec<Handover>, _> =
            self.handover.iter().map(|text| text.parse()).collect();
        let handovers = FieldError::of("handover", handovers)?;
        FieldError::of("handover", Handover::check_order(&handovers))?;
        Ok(handovers)
    }
}
