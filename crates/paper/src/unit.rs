//! Units of values: what may be added and compared, and how values are written.

use cellpace_report::short;

/// A product of powers of seconds, bits and packets. Values are kept in these three.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Unit {
    seconds: i8,
    bits: i8,
    packets: i8,
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

    /// The unit of a product.
    pub(crate) fn times(self, other: Self) -> Self {
        Self {
            seconds: self.seconds.saturating_add(other.seconds),
            bits: self.bits.saturating_add(other.bits),
            packets: self.packets.saturating_add(other.packets),
        }
    }

    /// The unit of a quotient.
    pub(crate) fn per(self, other: Self) -> Self {
        self.times(Self {
            seconds: other.seconds.saturating_neg(),
            bits: other.bits.saturating_neg(),
            packets: other.packets.saturating_neg(),
        })
    }

    /// What it measures, for errors.
    pub(crate) fn what(self) -> String {
        match self {
            Self::NONE => "a number".to_owned(),
            Self::TIME => "a time".to_owned(),
            Self::RATE => "a rate".to_owned(),
            Self::SIZE => "an amount of data".to_owned(),
            Self::PACKETS => "a number of packets".to_owned(),
            Self { seconds, bits, packets } => {
                format!("s^{seconds} bit^{bits} packet^{packets}")
            }
        }
    }

    /// The unit of charts, and how many of it one of ours is.
    pub(crate) fn of_charts(self) -> (&'static str, f64) {
        match self {
            Self::TIME => ("ms", 1e3),
            Self::RATE => ("Mbit/s", 1e-6),
            Self::SIZE => ("kB", 1.0 / 8e3),
            Self::PACKETS => ("packets", 1.0),
            _ => ("", 1.0),
        }
    }

    /// A value in the unit in which this field writes it.
    pub fn show(self, value: f64) -> String {
        match self {
            Self::TIME if value.abs() >= 10.0 => format!("{} s", short(value)),
            Self::TIME => format!("{} ms", short(value * 1e3)),
            Self::RATE => format!("{} Mbit/s", short(value / 1e6)),
            Self::SIZE => format!("{} kB", short(value / 8e3)),
            Self::PACKETS => format!("{} packets", short(value)),
            Self::NONE => short(value),
            other => format!("{value:.3e} {}", other.what()),
        }
    }
}

/// The unit of a written suffix and what one of it is: `ms` is a time of 0.001.
pub(crate) fn of_suffix(suffix: &str) -> Option<(Unit, f64)> {
    Some(match suffix {
        "" => (Unit::NONE, 1.0),
        "%" => (Unit::NONE, 0.01),
        "us" => (Unit::TIME, 1e-6),
        "ms" => (Unit::TIME, 1e-3),
        "s" => (Unit::TIME, 1.0),
        "min" => (Unit::TIME, 60.0),
        "kbit" => (Unit::RATE, 1e3),
        "mbit" => (Unit::RATE, 1e6),
        "gbit" => (Unit::RATE, 1e9),
        "B" => (Unit::SIZE, 8.0),
        "kB" => (Unit::SIZE, 8e3),
        "MB" => (Unit::SIZE, 8e6),
        "pkts" => (Unit::PACKETS, 1.0),
        _ => return None,
    })
}

/// Reads a number with its unit, such as `10ms`; also one below 0.
pub(crate) fn read_quantity(text: &str) -> Option<(f64, Unit)> {
    let (sign, text) = match text.trim().strip_prefix('-') {
        Some(rest) => (-1.0, rest.trim_start()),
        None => (1.0, text.trim()),
    };
    let end = text.find(|c: char| !(c.is_ascii_digit() || c == '.')).unwrap_or(text.len());
    let number: f64 = text[..end].parse().ok()?;
    let (unit, scale) = of_suffix(&text[end..])?;
    Some((sign * number * scale, unit))
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
