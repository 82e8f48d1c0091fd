//! Queues in front of the link: plain and managed (AQM).

mod droptail;

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Random, Time, nearest, split_name};

use crate::{DropReason, Packet, PathError};

pub use droptail::{DropTail, Limit};

/// A queue. Every packet given to it comes out of [`dequeue`](Self::dequeue) once, or is handed
/// to `drops` once with the reason.
pub trait Queue: Send {
    /// A packet arrives.
    fn enqueue(&mut self, now: Time, packet: Packet, drops: &mut Drops);

    /// The link takes the next packet.
    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet>;

    /// Bytes waiting.
    fn bytes(&self) -> u64;

    /// Packets waiting.
    fn packets(&self) -> usize;
}

/// Where queues put what they drop.
pub type Drops = Vec<(Packet, DropReason)>;

/// A queue by its written form: `droptail:2MB`, `codel`, `red:min=3mbit,max=9mbit,p=0.1`.
#[derive(Debug, Clone, PartialEq)]
pub struct QueueSpec {
    text: String,
    kind: QueueKind,
}

#[derive(Debug, Clone, PartialEq)]
enum QueueKind {
    Infinite,
    DropTail(Limit),
}

const NAMES: &[&str] = &["droptail", "infinite"];

impl QueueSpec {
    /// The queue itself. `random` is used by queues that drop at random.
    pub fn build(&self, random: Random) -> Box<dyn Queue> {
        let _ = random;
        match &self.kind {
            QueueKind::Infinite => Box::new(DropTail::new(Limit::None)),
            QueueKind::DropTail(limit) => Box::new(DropTail::new(*limit)),
        }
    }
}

impl Default for QueueSpec {
    /// Two megabytes, drop-tail: the buffer of the ALCC paper's evaluation.
    fn default() -> Self {
        Self { text: "droptail:2MB".into(), kind: QueueKind::DropTail(Limit::Bytes(2_000_000)) }
    }
}

impl FromStr for QueueSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let split = split_name(text);
        let kind = match split.name {
            "infinite" => QueueKind::Infinite,
            "droptail" => QueueKind::DropTail(Limit::parse(split.rest, "droptail")?),
            other => {
                return Err(PathError::unknown(
                    "queue",
                    other,
                    nearest(other, NAMES.iter().copied()),
                    NAMES,
                ));
            }
        };
        Ok(Self { text: text.trim().to_owned(), kind })
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
