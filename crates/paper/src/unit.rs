//! Units of values, by the names of fields.

/// A product of powers of seconds, bits and packets. Values are kept in these three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unit {
    /// The power of seconds.
    pub seconds: i8,
    /// The power of bits.
    pub bits: i8,
    /// The power of packets.
    pub packets: i8,
}

impl Unit {
    /// A number without a unit.
    pub const NONE: Self = Self { seconds: 0, bits: 0, packets: 0 };
    /// Time.
    pub const TIME: Self = Self { seconds: 1, ..Self::NONE };
    /// Data per time.
    pub const RATE: Self = Self { seconds: -1, bits: 1, packets: 0 };
    /// Data.
    pub const SIZE: Self = Self { bits: 1, ..Self::NONE };
    /// Packets.
    pub const PACKETS: Self = Self { packets: 1, ..Self::NONE };
}

/// The unit of a field of a record, by the end of the name of its part that has one:
/// `queue_delay_ms.p95` is a time in ms.
pub(crate) fn of_field(name: &str) -> (Unit, f64) {
    let unit_of = |part: &str| {
        Some(match part {
            part if part.ends_with("_ms") || part.ends_with("_ms_seen") => (Unit::TIME, 1e-3),
            part if part.ends_with("_mbps") => (Unit::RATE, 1e6),
            part if part.ends_with("_s") => (Unit::TIME, 1.0),
            part if part.ends_with("_bytes") => (Unit::SIZE, 8.0),
            part if part.ends_with("_packets") => (Unit::PACKETS, 1.0),
            _ => return None,
        })
    };
    name.split('.').rev().find_map(unit_of).unwrap_or((Unit::NONE, 1.0))
}
