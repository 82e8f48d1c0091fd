//! What an experiment writes: a line of JSON for itself, for each connection and for each look of
//! its guard.

use serde::{Deserialize, Serialize};

use crate::config::{Arm, AssignBy, Experiment};
use crate::error::RecordError;
use crate::figure::Figure;

/// The schema's name and version. Fields are only added within a version.
pub const EXPERIMENT_SCHEMA: &str = "cellpace.experiment/1";

/// Characters of a line at most: one of ours has some hundred.
const MAX_LINE: usize = 64 << 10;

/// A line of an experiment's file of records.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentLine {
    /// [`EXPERIMENT_SCHEMA`].
    pub schema: String,
    /// The experiment's name.
    pub experiment: String,
    /// What the line says.
    #[serde(flatten)]
    pub entry: ExperimentEntry,
}

/// What a line says.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum ExperimentEntry {
    /// How connections are assigned, at the head of each file and at each start.
    Start(ExperimentStart),
    /// A connection that ended.
    Connection(ConnectionRecord),
    /// The guard has looked.
    Guard(GuardLook),
    /// A slot has ended during all of which the command ran.
    Slot(SlotRecord),
}

/// How the connections of an experiment are assigned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ExperimentStart {
    /// The version of the program.
    pub version: String,
    /// What arms are drawn for.
    pub assign: AssignBy,
    /// Length of a slot in seconds.
    pub slot_s: f64,
    /// Time after the beginning of each slot that does not count, in seconds.
    pub washout_s: f64,
    /// Share of slots, clients or connections that are in the experiment, from 0 to 1.
    pub share: f64,
    /// The arms; the first one is the control.
    pub arms: Vec<ArmDescription>,
}

/// An arm as its records describe it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct ArmDescription {
    /// Its name.
    pub name: String,
    /// Its controller; plain TCP without.
    pub cc: Option<String>,
    /// The kernel's congestion control of plain TCP; that of the system without.
    pub tcp: Option<String>,
}

impl ArmDescription {
    pub(crate) fn of(arm: &Arm) -> Self {
        Self { name: arm.name.clone(), cc: arm.cc.clone(), tcp: arm.tcp.clone() }
    }
}

/// A connection that ended. Times are measured on the side under the controller, for plain TCP alike.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct ConnectionRecord {
    /// Its arm's name.
    pub arm: String,
    /// The number of its slot: seconds since 1970 in UTC by the length of a slot.
    pub slot: u64,
    /// A keyed hash of its client's network, IPv4 /24 or IPv6 /64.
    pub client: String,
    /// When it began, in seconds since 1970.
    pub start_s: f64,
    /// From accepting to closing, in seconds.
    pub duration_s: f64,
    /// Who keeps to the window: `plain`, `native`, `kernel`, `gate` or `client-server`.
    pub driver: String,
    /// How it ended, in a word.
    pub outcome: String,
    /// Whether it went on into another slot.
    #[serde(default)]
    pub crossed: bool,
    /// Whether it began in the washout of its slot.
    #[serde(default)]
    pub washout: bool,
    /// Bytes that the peer acknowledged.
    pub acked_bytes: u64,
    /// Bytes that came from the peer.
    pub received_bytes: u64,
    /// Bytes that TCP sent, those sent again among them.
    pub tcp_sent_bytes: u64,
    /// Bytes that TCP sent again.
    pub retransmitted_bytes: u64,
    /// Acknowledged bytes by the time from the first byte to the last one's ack, in Mbit/s; of `cellpace run`
    /// by the time in which any byte waited for its ack.
    pub goodput_mbps: Option<f64>,
    /// From accepting to the first byte for the peer, in ms.
    pub first_byte_ms: Option<f64>,
    /// Smallest RTT in ms.
    pub min_rtt_ms: Option<f64>,
    /// Median of the smoothed RTT in ms, over the time in which bytes moved.
    pub rtt_p50_ms: Option<f64>,
    /// Its 95th percentile.
    pub rtt_p95_ms: Option<f64>,
    /// Median of the RTT above the smallest, in ms.
    pub queue_delay_p50_ms: Option<f64>,
    /// Its 95th percentile.
    pub queue_delay_p95_ms: Option<f64>,
}

impl ConnectionRecord {
    /// Whether it was reset.
    pub fn is_error(&self) -> bool {
        self.outcome == "reset"
    }

    /// Returns what it adds to a figure: its value and 1, or the two parts of a share. `None` where it
    /// has no such value.
    pub fn part(&self, figure: Figure) -> Option<(f64, f64)> {
        let value = |value: Option<f64>| value.filter(|value| value.is_finite()).map(|v| (v, 1.0));
        match figure {
            Figure::QueueDelayP95 => value(self.queue_delay_p95_ms),
            Figure::QueueDelayP50 => value(self.queue_delay_p50_ms),
            Figure::RttP50 => value(self.rtt_p50_ms),
            Figure::GoodputP50 | Figure::GoodputP5 => value(self.goodput_mbps),
            Figure::FirstByteP50 | Figure::FirstByteP95 => value(self.first_byte_ms),
            Figure::Retransmitted => (self.tcp_sent_bytes > 0)
                .then_some((self.retransmitted_bytes as f64, self.tcp_sent_bytes as f64)),
            Figure::Errors => Some((f64::from(u8::from(self.is_error())), 1.0)),
            Figure::ProcessorTime => None,
        }
    }

    /// Whether it counts: it neither crossed the border of its slot nor began in the washout.
    pub fn counts(&self) -> bool {
        !self.crossed && !self.washout
    }
}

/// What a slot took.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct SlotRecord {
    /// The slot's number.
    pub slot: u64,
    /// The name of its arm.
    pub arm: String,
    /// Processor time of the command, user and system, in seconds.
    pub processor_s: f64,
}

/// What the guard found of one figure when it looked.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct GuardLook {
    /// When, in seconds since 1970.
    pub at_s: f64,
    /// The figure's name.
    pub figure: String,
    /// The arm's name.
    pub arm: String,
    /// Slots or clients of both arms so far.
    pub units: u64,
    /// How much worse the arm is: points of percent, or percent.
    pub worse: f64,
    /// The least that it is worse by, with all looks together at 95 %; none with too few units.
    pub at_least: Option<f64>,
    /// What is allowed.
    pub limit: f64,
    /// Whether this ended the experiment.
    pub fired: bool,
}

impl ExperimentLine {
    /// The line of an experiment's start.
    pub fn start(experiment: &Experiment) -> Self {
        let start = ExperimentStart {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            assign: experiment.assign,
            slot_s: experiment.slot.as_secs_f64(),
            washout_s: experiment.washout.as_secs_f64(),
            share: experiment.share,
            arms: experiment.arms.iter().map(ArmDescription::of).collect(),
        };
        Self::of(experiment, ExperimentEntry::Start(start))
    }

    /// A line of an experiment.
    pub fn of(experiment: &Experiment, entry: ExperimentEntry) -> Self {
        let schema = EXPERIMENT_SCHEMA.to_owned();
        Self { schema, experiment: experiment.name.clone(), entry }
    }

    /// Returns it as JSON with its end.
    pub fn to_json(&self) -> String {
        let line = serde_json::to_string(self).expect("texts, numbers and no maps");
        line + "\n"
    }
}

/// All lines of an experiment, in their order.
#[derive(Debug, Clone, PartialEq)]
pub struct ExperimentRecords {
    /// The experiment's name.
    pub name: String,
    /// How connections are assigned: as at the last start.
    pub start: ExperimentStart,
    /// The connections.
    pub connections: Vec<ConnectionRecord>,
    /// What the guard found.
    pub looks: Vec<GuardLook>,
    /// What slots took, where they have arms.
    pub slots: Vec<SlotRecord>,
}

impl ExperimentRecords {
    /// Reads the text of a file of records, or of several one after the other.
    ///
    /// # Errors
    /// With the line that is no record, or of another experiment.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        let numbered = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
        let read = |(at, line): (usize, &str)| {
            let wrong = |reason: String| RecordError { line: at + 1, reason };
            if line.len() > MAX_LINE {
                return Err(wrong(format!("longer than {MAX_LINE} bytes: no record")));
            }
            let line: ExperimentLine =
                serde_json::from_str(line).map_err(|error| wrong(error.to_string()))?;
            Ok((at + 1, line))
        };
        Self::gather(numbered.map(read))
    }

    /// The same from lines that were read before.
    ///
    /// # Errors
    /// With the number of the first line that does not belong to the others.
    pub fn of(lines: Vec<ExperimentLine>) -> Result<Self, RecordError> {
        Self::gather(lines.into_iter().enumerate().map(|(at, line)| Ok((at + 1, line))))
    }

    fn gather(
        lines: impl Iterator<Item = Result<(usize, ExperimentLine), RecordError>>,
    ) -> Result<Self, RecordError> {
        let mut name: Option<String> = None;
        let mut start: Option<ExperimentStart> = None;
        let (mut connections, mut looks, mut slots) = (Vec::new(), Vec::new(), Vec::new());
        let mut last = 1;
        for line in lines {
            let (at, line) = line?;
            last = at;
            let wrong = |reason: String| RecordError { line: at, reason };
            if line.schema != EXPERIMENT_SCHEMA {
                return Err(wrong(format!("its schema is not {EXPERIMENT_SCHEMA}")));
            }
            let named = name.get_or_insert_with(|| line.experiment.clone());
            if *named != line.experiment {
                let other = &line.experiment;
                return Err(wrong(format!(
                    "of the experiment `{other}`; those before of `{named}`"
                )));
            }
            match line.entry {
                ExperimentEntry::Start(next) => {
                    if start.as_ref().is_some_and(|start| !start.has_units_of(&next)) {
                        let reason = "another assignment, slot or arms than before: give such an \
                                      experiment another name";
                        return Err(wrong(reason.to_owned()));
                    }
                    start = Some(next);
                }
                ExperimentEntry::Connection(record) => {
                    check_arm(start.as_ref(), &record.arm).map_err(wrong)?;
                    connections.push(record);
                }
                ExperimentEntry::Guard(look) => looks.push(look),
                ExperimentEntry::Slot(slot) => {
                    check_arm(start.as_ref(), &slot.arm).map_err(wrong)?;
                    slots.push(slot);
                }
            }
        }
        let (Some(name), Some(start)) = (name, start) else {
            let reason = "no line says how connections are assigned".to_owned();
            return Err(RecordError { line: last, reason });
        };
        Ok(Self { name, start, connections, looks, slots })
    }
}

fn check_arm(start: Option<&ExperimentStart>, name: &str) -> Result<(), String> {
    let arms = start.map_or(&[][..], |start| &start.arms);
    match arms.iter().any(|arm| arm.name == name) {
        true => Ok(()),
        false => Err(format!("no line before names an arm `{name}`")),
    }
}

impl ExperimentStart {
    /// Whether slots, clients and arms mean the same in both.
    fn has_units_of(&self, other: &Self) -> bool {
        let Self { assign, slot_s, arms, .. } = self;
        (*assign, *slot_s, arms) == (other.assign, other.slot_s, &other.arms)
    }
}
