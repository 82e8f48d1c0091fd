//! One direction of a path: delay, then random loss, then queue and link.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use cellpace_base::{ArgsError, QuantityError, Random, Span, Time};
use thiserror::Error;

use crate::{DropReason, Fate, Link, LossModel, LossSpec, Packet, QueueSpec, Record, TraceSpec};

/// What can be wrong with a path.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum PathError {
    /// A queue, trace or loss model that does not exist.
    #[error("there is no {what} `{name}`{hint}")]
    Unknown {
        /// What was looked for.
        what: &'static str,
        /// The name as written.
        name: String,
        /// The nearest name, or all, as a half sentence.
        hint: String,
    },
    /// A quantity does not read.
    #[error("{what}: {source}")]
    Quantity {
        /// Whose.
        what: String,
        /// Why.
        source: QuantityError,
    },
    /// A parameter of a queue or trace.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// A queue that holds no packet.
    #[error("{what}: `{text}` is smaller than one 1500-byte packet, so nothing would get through")]
    TooSmall {
        /// Whose.
        what: String,
        /// The size as written.
        text: String,
    },
}

impl PathError {
    pub(crate) fn unknown(
        what: &'static str,
        name: &str,
        near: Option<&str>,
        known: &[&str],
    ) -> Self {
        let hint = match near {
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; there are {}", known.join(", ")),
        };
        Self::Unknown { what, name: name.to_owned(), hint }
    }
}

/// A delay: constant, so far.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct DelaySpec {
    /// The delay of every packet.
    pub delay: Span,
}

/// Everything that makes one direction of a path.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct PathSpec {
    /// When the link may deliver.
    pub trace: TraceSpec,
    /// What waits in front of it.
    pub queue: QueueSpec,
    /// Delay in front of the queue.
    pub delay: DelaySpec,
    /// Random loss in front of the queue.
    pub loss: LossSpec,
}

impl PathSpec {
    /// The path at time zero; all its randomness comes from `seed`.
    ///
    /// # Errors
    /// When the trace cannot be had.
    pub fn build(&self, seed: u64) -> Result<Path, PathError> {
        let queue = self.queue.build(Random::seeded(seed, 1));
        let schedule = self.trace.build(seed)?;
        Ok(Path {
            delay: self.delay.delay,
            waiting: BinaryHeap::new(),
            arrivals: 0,
            loss: self.loss.build(Random::seeded(seed, 2)),
            link: Link::new(queue, schedule),
        })
    }
}

/// One direction of a path, advanced by whoever owns the clock.
pub struct Path {
    delay: Span,
    /// Packets on their way to the queue, by arrival, then by order of entry.
    waiting: BinaryHeap<Reverse<Waiting>>,
    arrivals: u64,
    loss: LossModel,
    link: Link,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Waiting {
    at: Time,
    order: u64,
    packet: Packet,
}

impl Ord for Waiting {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

impl PartialOrd for Waiting {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Path {
    /// A packet enters at `packet.sent_at`. Its flow's own delay, if any, comes on top of the
    /// path's and is given as `extra`.
    pub fn push_after(&mut self, packet: Packet, extra: Span) {
        let at = packet.sent_at + self.delay + extra;
        self.arrivals += 1;
        self.waiting.push(Reverse(Waiting { at, order: self.arrivals, packet }));
    }

    /// A packet enters at `packet.sent_at`.
    pub fn push(&mut self, packet: Packet) {
        self.push_after(packet, Span::ZERO);
    }

    /// When the model next wants to be advanced.
    pub fn next_deadline(&self) -> Option<Time> {
        let arrival = self.waiting.peek().map(|Reverse(waiting)| waiting.at);
        match (arrival, self.link.next_deadline()) {
            (Some(arrival), Some(departure)) => Some(arrival.min(departure)),
            (arrival, departure) => arrival.or(departure),
        }
    }

    /// Lets happen everything up to `now`; what became of packets is added to `fates` in the
    /// order of time. Opportunities go before arrivals of the same instant.
    pub fn advance(&mut self, now: Time, fates: &mut Vec<Record>) {
        while let Some(at) = self.waiting.peek().map(|Reverse(w)| w.at).filter(|at| *at <= now) {
            self.link.advance(at, fates);
            let Some(Reverse(Waiting { mut packet, .. })) = self.waiting.pop() else { break };
            packet.enqueued_at = at;
            if self.loss.loses() {
                packet.dequeued_at = at;
                packet.departed_at = at;
                fates.push(Record { packet, fate: Fate::Dropped(DropReason::Random) });
                continue;
            }
            self.link.push(packet, fates);
        }
        self.link.advance(now, fates);
    }

    /// Bytes at the bottleneck.
    pub fn backlog(&self) -> u64 {
        self.link.backlog()
    }
}
