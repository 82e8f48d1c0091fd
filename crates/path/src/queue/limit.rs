//! How much a queue holds.

use cellpace_base::{
    ParamKind, ParamValue, QuantityError, Rate, Span, Window, parse_number, parse_span,
    parse_window,
};

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

/// The link behind a queue, of which a size in time or in BDP is a multiple.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bottleneck {
    /// The mean rate of the link.
    pub rate: Rate,
    /// The mean RTT of the path without queues.
    pub rtt: Span,
}

/// The size of a queue as it is written.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Size {
    /// In bytes or packets.
    Fixed(Limit),
    /// What the link delivers in this time at its mean rate.
    Time(Span),
    /// This many bandwidth-delay products of the mean rate and the mean RTT.
    Bdp(f64),
}

impl Size {
    /// Reads `2MB`, `100pkts`, `500ms` or `2bdp` behind the name of a queue; without a text the
    /// default size.
    pub(super) fn parse(text: &str, owner: &'static str) -> Result<Self, PathError> {
        const FORM: &str = "more than zero, and at most 1h or 1000000bdp";
        let out_of_range = || PathError::Form { text: format!("{owner}:{text}"), form: FORM };
        if text.is_empty() {
            return Ok(Self::Fixed(DEFAULT_LIMIT));
        }
        if let Some(number) = text.strip_suffix("bdp") {
            let bdp = parse_number(number)
                .map_err(|source| PathError::Quantity { what: owner.into(), source })?;
            let is_allowed = bdp > 0.0 && bdp <= 1e6;
            return is_allowed.then_some(Self::Bdp(bdp)).ok_or_else(out_of_range);
        }
        // Times before sizes: none of their units reads as the other.
        if let Ok(span) = parse_span(text) {
            let is_allowed = !span.is_zero() && span <= Span::from_secs(3600);
            return is_allowed.then_some(Self::Time(span)).ok_or_else(out_of_range);
        }
        match parse_window(text) {
            Ok(window) => Limit::of(window, owner).map(Self::Fixed),
            Err(source) => {
                let source = with_all_units(source);
                Err(PathError::Quantity { what: owner.into(), source })
            }
        }
    }

    /// Whether it is a multiple of what the link delivers.
    pub(super) const fn is_relative(self) -> bool {
        !matches!(self, Self::Fixed(_))
    }

    /// The limit in front of a link; at least one packet.
    pub(super) fn limit(self, bottleneck: impl FnOnce() -> Bottleneck) -> Limit {
        let bytes = |link: Bottleneck, seconds: f64| {
            let bytes = (link.rate.as_bytes_per_sec() * seconds).round() as u64;
            Limit::Bytes(bytes.max(u64::from(OPPORTUNITY_BYTES)))
        };
        match self {
            Self::Fixed(limit) => limit,
            Self::Time(span) => bytes(bottleneck(), span.as_secs_f64()),
            Self::Bdp(bdp) => {
                let link = bottleneck();
                bytes(link, bdp * link.rtt.as_secs_f64())
            }
        }
    }
}

/// The error with the units of sizes and of times.
fn with_all_units(error: QuantityError) -> QuantityError {
    const EXAMPLE: &str = "a size like 100pkts, 150kB, 500ms or 2bdp";
    const KNOWN: &str = "pkts, B, kB, MB, GB, KiB, MiB, GiB, kbit, mbit, us, ms, s and bdp";
    match error {
        QuantityError::NotANumber { text, .. } => {
            QuantityError::NotANumber { text, example: EXAMPLE }
        }
        QuantityError::UnitMissing { text, .. } => {
            QuantityError::UnitMissing { text, example: EXAMPLE }
        }
        QuantityError::UnknownUnit { text, unit, .. } => {
            QuantityError::UnknownUnit { text, unit, known: KNOWN }
        }
        other => other,
    }
}
