//! How much a queue holds.

use cellpace_base::{ParamKind, ParamValue, QuantityError, Window, parse_window};

use super::fifo::Fifo;
use crate::OPPORTUNITY_BYTES;
use crate::error::PathError;

/// How much a queue holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Everything.
    None,
    /// This many bytes.
    Bytes(u64),
    /// This many packets.
    Packets(u64),
}

/// Two megabytes: the buffer of the ALCC paper's evaluation.
pub(super) const DEFAULT_LIMIT: Limit = Limit::Bytes(2_000_000);

impl ParamValue for Limit {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Text("pkts, or bytes for one of 1500B or more")
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        parse_window(text).map(Self::new)
    }
}

impl Limit {
    /// Reads `2MB` or `100pkts` behind the name of a queue; without a text the default size.
    pub(super) fn parse(text: &str, owner: &'static str) -> Result<Self, PathError> {
        if text.is_empty() {
            return Ok(DEFAULT_LIMIT);
        }
        match parse_window(text) {
            Ok(window) => Self::of(window, owner),
            Err(source) => Err(PathError::Quantity { what: owner.into(), source }),
        }
    }

    /// The limit that `window` means, if a packet fits into it.
    pub(super) fn of(window: Window, owner: &'static str) -> Result<Self, PathError> {
        Self::new(window)
            .ok_or_else(|| PathError::TooSmall { what: owner.into(), text: window.to_string() })
    }

    fn new(window: Window) -> Option<Self> {
        match window {
            Window::Bytes(bytes) if bytes >= u64::from(OPPORTUNITY_BYTES) => {
                Some(Self::Bytes(bytes))
            }
            Window::Packets(packets) if packets > 0 => Some(Self::Packets(packets)),
            _ => None,
        }
    }

    /// Whether a queue of `packets` packets and `bytes` bytes is within the limit.
    pub const fn holds(self, bytes: u64, packets: u64) -> bool {
        match self {
            Self::None => true,
            Self::Bytes(limit) => bytes <= limit,
            Self::Packets(limit) => packets <= limit,
        }
    }

    /// Whether one more packet of `size` bytes fits behind what is in `fifo`.
    pub(super) fn has_room(self, fifo: &Fifo, size: u32) -> bool {
        self.holds(fifo.bytes() + u64::from(size), fifo.len() as u64 + 1)
    }
}
