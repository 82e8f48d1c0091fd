//! What is to be simulated.

use cellpace_base::{Rate, Span, Time};
use cellpace_cc::{ControllerSpec, SpecError};
use cellpace_path::{DelaySpec, LossSpec, PathError, QueueSpec, TraceSpec};
use thiserror::Error;

use crate::{AckPolicy, Traffic};

/// What can be wrong with a scenario.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SimError {
    /// The path.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A controller.
    #[error(transparent)]
    Controller(#[from] SpecError),
    /// Nothing to simulate.
    #[error("{0}")]
    Invalid(String),
}

/// One bottleneck and the flows that share it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// When the bottleneck may deliver data.
    pub trace: TraceSpec,
    /// The queue in front of it.
    pub queue: QueueSpec,
    /// Round-trip delay without queueing; half of it lies in each direction.
    pub rtt: DelaySpec,
    /// Random loss of data packets.
    pub loss: LossSpec,
    /// When the reverse direction may deliver acks; `None`: always.
    pub uplink: Option<TraceSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// How receivers acknowledge.
    pub acks: AckPolicy,
    /// Length of the run.
    pub duration: Span,
    /// Left out of the figures at the start.
    pub skip: Span,
    /// Seed of everything random.
    pub seed: u64,
    /// Width of the bins of the series.
    pub bin: Span,
}

impl Default for Scenario {
    /// A constant 12 Mbit/s, 40 ms, a 2 MB drop-tail buffer, 60 s; no flow.
    fn default() -> Self {
        Self {
            trace: TraceSpec::default(),
            queue: QueueSpec::default(),
            rtt: DelaySpec { delay: Span::from_millis(40) },
            loss: LossSpec::None,
            uplink: None,
            flows: Vec::new(),
            acks: AckPolicy::EveryPacket,
            duration: Span::from_secs(60),
            skip: Span::from_secs(2),
            seed: 1,
            bin: Span::from_millis(100),
        }
    }
}

/// One flow.
#[derive(Debug, Clone)]
pub struct FlowSpec {
    /// Its controller; `None` for cross traffic that does not react to anything.
    pub cc: Option<ControllerSpec>,
    /// What it has to send.
    pub traffic: Traffic,
    /// When it starts.
    pub start: Time,
    /// When it stops sending.
    pub stop: Time,
    /// Its own round-trip delay in place of the scenario's.
    pub rtt: Option<Span>,
}

impl FlowSpec {
    /// A flow that always has data, from the start to the end.
    pub const fn bulk(cc: ControllerSpec) -> Self {
        Self { cc: Some(cc), traffic: Traffic::Bulk, start: Time::ZERO, stop: Time::MAX, rtt: None }
    }

    /// Cross traffic at a constant rate that does not react to anything.
    pub const fn constant_rate(rate: Rate) -> Self {
        Self {
            cc: None,
            traffic: Traffic::ConstantRate(rate),
            start: Time::ZERO,
            stop: Time::MAX,
            rtt: None,
        }
    }

    /// The name under which it is reported.
    pub fn name(&self) -> String {
        match (&self.cc, &self.traffic) {
            (Some(cc), _) => cc.to_string(),
            (None, Traffic::ConstantRate(rate)) => format!("udp:{rate}"),
            (None, _) => "udp".into(),
        }
    }
}

impl Scenario {
    /// Checks what the types cannot.
    pub(crate) fn check(&self) -> Result<(), SimError> {
        let invalid = |text: String| Err(SimError::Invalid(text));
        if self.flows.is_empty() {
            return invalid("there is no flow to simulate".into());
        }
        if self.duration.is_zero() {
            return invalid("the duration is 0 s; give at least a millisecond".into());
        }
        if self.skip >= self.duration {
            return invalid(format!(
                "skip ({}) leaves nothing of the duration ({})",
                self.skip, self.duration
            ));
        }
        if self.bin.is_zero() {
            return invalid("bins of 0 s hold nothing".into());
        }
        for (index, flow) in self.flows.iter().enumerate() {
            flow.check().or_else(|reason| invalid(format!("flow {}: {reason}", index + 1)))?;
        }
        Ok(())
    }
}

impl FlowSpec {
    fn check(&self) -> Result<(), String> {
        if self.stop <= self.start {
            let span = |time: Time| time - Time::ZERO;
            return Err(format!(
                "it stops (at {}) before it starts (at {})",
                span(self.stop),
                span(self.start)
            ));
        }
        match (&self.cc, &self.traffic) {
            (None, Traffic::ConstantRate(rate)) if rate.as_bps() > 0 => Ok(()),
            (None, Traffic::ConstantRate(_)) => Err("a rate of 0 sends nothing".into()),
            (None, _) => Err("only traffic of a constant rate goes without a controller".into()),
            (Some(_), Traffic::ConstantRate(_)) => {
                Err("traffic of a constant rate does not react: leave the controller out".into())
            }
            (Some(_), traffic) => traffic.check(),
        }
    }
}
