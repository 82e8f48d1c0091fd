//! When the link may deliver: the sequence of 1500-byte opportunities.

mod constant;

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Rate, Time, nearest, split_name};

use crate::PathError;

pub use constant::Constant;

/// A sequence of delivery opportunities, in the order of time. Several may share one instant.
pub trait Schedule: Send {
    /// The next opportunity that was neither taken nor let go. `None`: there is none any more.
    fn peek(&self) -> Option<Time>;

    /// Takes the next opportunity.
    fn take(&mut self);

    /// Lets go of all opportunities at or before `now`.
    fn skip_through(&mut self, now: Time) {
        while self.peek().is_some_and(|next| next <= now) {
            self.take();
        }
    }

    /// Tells how much waits behind the packet in service, for links that serve sparse and
    /// saturating traffic differently.
    fn on_backlog(&mut self, now: Time, bytes: u64) {
        let _ = (now, bytes);
    }
}

/// A trace by its written form: a file's name, or a generated one such as `constant:12mbit`.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpec {
    text: String,
    kind: TraceKind,
}

#[derive(Debug, Clone, PartialEq)]
enum TraceKind {
    Constant(Rate),
}

const NAMES: &[&str] = &["constant"];

impl TraceSpec {
    /// The schedule from time zero. `seed` matters to generated traces only.
    ///
    /// # Errors
    /// When the trace cannot be had.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Schedule>, PathError> {
        let _ = seed;
        match &self.kind {
            TraceKind::Constant(rate) => Ok(Box::new(Constant::new(*rate))),
        }
    }
}

impl Default for TraceSpec {
    fn default() -> Self {
        Self {
            text: "constant:12mbit".into(),
            kind: TraceKind::Constant(Rate::from_bps(12_000_000)),
        }
    }
}

impl FromStr for TraceSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let split = split_name(text);
        let kind = match split.name {
            "constant" => TraceKind::Constant(
                split
                    .rest
                    .parse()
                    .map_err(|source| PathError::Quantity { what: "constant".into(), source })?,
            ),
            other => {
                return Err(PathError::unknown(
                    "trace",
                    other,
                    nearest(other, NAMES.iter().copied()),
                    NAMES,
                ));
            }
        };
        Ok(Self { text: text.trim().to_owned(), kind })
    }
}

impl fmt::Display for TraceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}
