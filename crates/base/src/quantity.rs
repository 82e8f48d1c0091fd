//! Written quantities. A unit is always required where one exists: `40` for an RTT is an error
//! that says so, because tools differ in what a bare number means.

use std::fmt;

use thiserror::Error;

use crate::Span;

/// What is wrong with a written quantity.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum QuantityError {
    /// No number at the start.
    #[error("`{text}` does not start with a number; write {example}")]
    NotANumber {
        /// What was written.
        text: String,
        /// A right form.
        example: &'static str,
    },
    /// A number and no unit.
    #[error("`{text}` needs a unit; write {example}")]
    UnitMissing {
        /// What was written.
        text: String,
        /// A right form.
        example: &'static str,
    },
    /// An unknown unit.
    #[error("`{text}` has the unknown unit `{unit}`; known are {known}")]
    UnknownUnit {
        /// What was written.
        text: String,
        /// The unit in it.
        unit: String,
        /// The units that would do.
        known: &'static str,
    },
    /// A share without `%`.
    #[error("`{text}` needs a unit; write {percent}")]
    PercentMissing {
        /// What was written.
        text: String,
        /// The same in percent.
        percent: String,
    },
    /// Below zero.
    #[error("`{text}`: a {what} is not negative")]
    Negative {
        /// What was written.
        text: String,
        /// What it should have been.
        what: &'static str,
    },
    /// Infinite, NaN or too large to hold.
    #[error("`{text}` is out of range: a {what} is a finite number from 0")]
    OutOfRange {
        /// What was written.
        text: String,
        /// What it should have been.
        what: &'static str,
    },
}

/// A data rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct Rate(u64);

impl Rate {
    /// A rate of `bits` bits per second.
    pub const fn from_bps(bits: u64) -> Self {
        Self(bits)
    }

    /// A rate of `mbit` million bits per second.
    pub fn from_mbps(mbit: f64) -> Self {
        Self((mbit * 1e6) as u64)
    }

    /// A rate of `bytes` bytes per second; negative and NaN become zero.
    pub fn from_bytes_per_sec(bytes: f64) -> Self {
        Self((bytes * 8.0) as u64)
    }

    /// Bits per second.
    pub const fn as_bps(self) -> u64 {
        self.0
    }

    /// Million bits per second.
    pub fn as_mbps(self) -> f64 {
        self.0 as f64 / 1e6
    }

    /// Bytes per second.
    pub fn as_bytes_per_sec(self) -> f64 {
        self.0 as f64 / 8.0
    }

    /// How long `bytes` take at this rate; the longest span at rate zero.
    pub fn time_for(self, bytes: u64) -> Span {
        if self.0 == 0 {
            return Span::MAX;
        }
        let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(self.0);
        Span::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

impl fmt::Debug for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Written in the largest unit that keeps it exact: `12mbit`, `2500kbit`.
impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            n if n > 0 && n % 1_000_000_000 == 0 => write!(f, "{}gbit", n / 1_000_000_000),
            n if n > 0 && n % 1_000_000 == 0 => write!(f, "{}mbit", n / 1_000_000),
            n if n > 0 && n % 1_000 == 0 => write!(f, "{}kbit", n / 1_000),
            n => write!(f, "{n}bit"),
        }
    }
}

impl std::str::FromStr for Rate {
    type Err = QuantityError;

    /// Reads `12mbit`, `1.5gbit`, `800kbit`, `9600bit` (also with `/s` or `ps` behind).
    fn from_str(text: &str) -> Result<Self, QuantityError> {
        const EXAMPLE: &str = "a rate like 12mbit";
        let (number, unit) = split(text, EXAMPLE)?;
        let unit = unit.to_ascii_lowercase();
        let unit = unit.strip_suffix("/s").or_else(|| unit.strip_suffix("ps")).unwrap_or(&unit);
        let factor = match unit {
            "" => return Err(missing(text, EXAMPLE)),
            "bit" | "b" => 1.0,
            "kbit" | "kb" => 1e3,
            "mbit" | "mb" => 1e6,
            "gbit" | "gb" => 1e9,
            _ => return Err(unknown(text, unit, "bit, kbit, mbit, gbit")),
        };
        in_range(text, "rate", number * factor).map(Self)
    }
}

/// A window as people write it: bytes (`30kB`) or packets (`20pkts`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Window {
    /// In bytes.
    Bytes(u64),
    /// In full-sized packets.
    Packets(u64),
}

impl Window {
    /// In bytes, with packets of `mss` bytes.
    pub const fn bytes(self, mss: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Packets(packets) => packets.saturating_mul(mss),
        }
    }
}

impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bytes(bytes) => f.write_str(&format_bytes(*bytes)),
            Self::Packets(packets) => write!(f, "{packets}pkts"),
        }
    }
}

/// Reads a span: `40ms`, `1.5s`, `20us`, `5ns`, `2min`, `1h`.
///
/// # Errors
/// When the number or the unit is missing, unknown or out of range.
pub fn parse_span(text: &str) -> Result<Span, QuantityError> {
    const EXAMPLE: &str = "a time like 40ms or 60s";
    let (number, unit) = split(text, EXAMPLE)?;
    let nanos = match unit {
        "" => return Err(missing(text, EXAMPLE)),
        "ns" => 1.0,
        "us" | "µs" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        "min" | "m" => 60e9,
        "h" => 3600e9,
        _ => return Err(unknown(text, unit, "ns, us, ms, s, min, h")),
    };
    in_range(text, "time", (number * nanos).round()).map(Span::from_nanos)
}

/// Reads a size in bytes: `2MB`, `64kB`, `1MiB`, `1500B`, also in bits as the papers write
/// queues: `3mbit` is 375000 bytes.
///
/// # Errors
/// When the number or the unit is missing, unknown or out of range.
pub fn parse_bytes(text: &str) -> Result<u64, QuantityError> {
    const EXAMPLE: &str = "a size like 2MB";
    let (number, unit) = split(text, EXAMPLE)?;
    let bytes = match unit.to_ascii_lowercase().as_str() {
        "" => return Err(missing(text, EXAMPLE)),
        "b" | "bytes" => 1.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "kib" => 1024.0,
        "mib" => 1024.0 * 1024.0,
        "gib" => 1024.0 * 1024.0 * 1024.0,
        "kbit" => 1e3 / 8.0,
        "mbit" => 1e6 / 8.0,
        "gbit" => 1e9 / 8.0,
        _ => return Err(unknown(text, unit, "B, kB, MB, GB, KiB, MiB, GiB, kbit, mbit")),
    };
    in_range(text, "size", (number * bytes).round())
}

/// Reads a window: packets (`20pkts`) or a size (`30kB`).
///
/// # Errors
/// When the number or the unit is missing, unknown or out of range.
pub fn parse_window(text: &str) -> Result<Window, QuantityError> {
    let (number, unit) = split(text, "a size like 100pkts or 150kB")?;
    match unit {
        "pkts" | "pkt" | "packets" | "p" => {
            in_range(text, "window", number.round()).map(Window::Packets)
        }
        "" => Err(missing(text, "a size like 100pkts or 150kB")),
        _ => parse_bytes(text).map(Window::Bytes),
    }
}

/// Reads a share in percent, `1%`, and returns it as a fraction from 0 to 1.
///
/// # Errors
/// When it is no number, has no `%`, or is not between 0 and 100 %.
pub fn parse_fraction(text: &str) -> Result<f64, QuantityError> {
    let (number, unit) = split(text, "a share like 1%")?;
    match unit {
        "%" => {}
        "" => return Err(percent_missing(text, number)),
        _ => return Err(unknown(text, unit, "%")),
    }
    let what = "share";
    if number < 0.0 {
        return Err(QuantityError::Negative { text: text.to_owned(), what });
    }
    if number > 100.0 {
        return Err(QuantityError::OutOfRange { text: text.to_owned(), what: "share up to 100%" });
    }
    Ok(shifted(text))
}

/// The number at the start of `text` divided by 100, to the last bit: dividing would round twice.
fn shifted(text: &str) -> f64 {
    let text = text.trim();
    let number = text[..number_end(text)].to_ascii_lowercase();
    let (digits, exponent) = number.split_once('e').unwrap_or((&number, "0"));
    let exponent = exponent.parse::<i32>().unwrap_or(0).saturating_sub(2);
    let shifted = format!("{digits}e{exponent}").parse();
    shifted.expect("it was read as a number before")
}

fn percent_missing(text: &str, number: f64) -> QuantityError {
    // Up to 1 it was meant as a fraction, as other tools have it.
    let percent = if (0.0..=1.0).contains(&number) { number * 100.0 } else { number };
    let percent = format!("{}%", (percent.abs() * 1e9).round() / 1e9);
    QuantityError::PercentMissing { text: text.to_owned(), percent }
}

/// Reads a bare finite number.
///
/// # Errors
/// When it is no number, or NaN or infinite.
pub fn parse_number(text: &str) -> Result<f64, QuantityError> {
    match text.trim().parse::<f64>() {
        Ok(number) if number.is_finite() => Ok(number),
        _ => Err(QuantityError::NotANumber { text: text.to_owned(), example: "a number like 2" }),
    }
}

/// Bytes in the largest decimal unit that keeps them exact: `2MB`, `1500B`.
pub fn format_bytes(bytes: u64) -> String {
    match bytes {
        n if n > 0 && n % 1_000_000_000 == 0 => format!("{}GB", n / 1_000_000_000),
        n if n > 0 && n % 1_000_000 == 0 => format!("{}MB", n / 1_000_000),
        n if n > 0 && n % 1_000 == 0 => format!("{}kB", n / 1_000),
        n => format!("{n}B"),
    }
}

fn split<'a>(text: &'a str, example: &'static str) -> Result<(f64, &'a str), QuantityError> {
    let trimmed = text.trim();
    let end = number_end(trimmed);
    match trimmed[..end].parse::<f64>() {
        Ok(number) => Ok((number, trimmed[end..].trim())),
        Err(_) => Err(QuantityError::NotANumber { text: text.to_owned(), example }),
    }
}

/// Where the number at the start of `text` ends. An `e` belongs to it only with digits behind.
fn number_end(text: &str) -> usize {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
    let mut end = usize::from(matches!(bytes.first(), Some(b'+' | b'-')));
    end += digits(end);
    if bytes.get(end) == Some(&b'.') {
        end += 1 + digits(end + 1);
    }
    if matches!(bytes.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
        let exponent = digits(end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end
}

fn in_range(text: &str, what: &'static str, value: f64) -> Result<u64, QuantityError> {
    if value < 0.0 {
        return Err(QuantityError::Negative { text: text.to_owned(), what });
    }
    // Two to the 63rd keeps sums of two quantities inside u64.
    if value.is_finite() && (0.0..9.2e18).contains(&value) {
        return Ok(value as u64);
    }
    Err(QuantityError::OutOfRange { text: text.to_owned(), what })
}

fn missing(text: &str, example: &'static str) -> QuantityError {
    QuantityError::UnitMissing { text: text.to_owned(), example }
}

fn unknown(text: &str, unit: &str, known: &'static str) -> QuantityError {
    QuantityError::UnknownUnit { text: text.to_owned(), unit: unit.to_owned(), known }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn quantities_are_read_with_their_units() {
        assert_eq!(parse_span("40ms"), Ok(Span::from_millis(40)));
        assert_eq!(parse_span("1.5s"), Ok(Span::from_millis(1500)));
        assert_eq!(parse_span("2min"), Ok(Span::from_secs(120)));
        assert_eq!("12mbit".parse(), Ok(Rate::from_bps(12_000_000)));
        assert_eq!("1.5Gbit/s".parse(), Ok(Rate::from_bps(1_500_000_000)));
        assert_eq!("10Mbps".parse(), Ok(Rate::from_bps(10_000_000)));
        assert_eq!(parse_bytes("2MB"), Ok(2_000_000));
        assert_eq!(parse_bytes("3mbit"), Ok(375_000));
        assert_eq!(parse_bytes("1KiB"), Ok(1024));
        assert_eq!(parse_bytes("1e3B"), Ok(1000));
        assert_eq!(parse_window("20pkts"), Ok(Window::Packets(20)));
        assert_eq!(parse_window("30kB"), Ok(Window::Bytes(30_000)));
        assert_eq!(parse_fraction("1%"), Ok(0.01));
        assert_eq!(parse_fraction("0.7%"), Ok(0.007));
        assert_eq!(parse_fraction("1.5e1 %"), Ok(0.15));
    }

    #[test]
    fn a_missing_unit_is_named() {
        let said = parse_span("40").unwrap_err().to_string();
        assert_eq!(said, "`40` needs a unit; write a time like 40ms or 60s");
        assert!("12".parse::<Rate>().is_err());
        assert!(parse_bytes("2").is_err());
        for (text, percent) in [("0.05", "5%"), ("5", "5%"), ("0", "0%"), ("1", "100%")] {
            let said = parse_fraction(text).unwrap_err().to_string();
            assert_eq!(said, format!("`{text}` needs a unit; write {percent}"));
        }
    }

    #[test]
    fn what_is_negative_is_named_so() {
        let message = parse_span("-5ms").unwrap_err().to_string();
        assert_eq!(message, "`-5ms`: a time is not negative");
        assert_eq!(
            parse_fraction("-1%").unwrap_err().to_string(),
            "`-1%`: a share is not negative"
        );
    }

    #[test]
    fn nonsense_is_refused() {
        for text in ["", "ms", "-5ms", "nan", "1e400s", "inf", "5 parsecs", "NaNms"] {
            assert!(parse_span(text).is_err(), "{text}");
        }
        assert!(parse_fraction("101%").is_err());
        assert!(parse_fraction("-0.1%").is_err() && parse_fraction("nan%").is_err());
        assert!(parse_number("NaN").is_err());
    }

    #[test]
    fn serialisation_time_of_a_packet() {
        assert_eq!(Rate::from_bps(12_000_000).time_for(1500), Span::from_millis(1));
        assert_eq!(Rate::from_bps(0).time_for(1), Span::MAX);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(n in 0u64..1u64 << 50) {
            let span = Span::from_nanos(n);
            prop_assert_eq!(parse_span(&span.to_string()), Ok(span));
            let rate = Rate::from_bps(n);
            prop_assert_eq!(rate.to_string().parse(), Ok(rate));
            prop_assert_eq!(parse_bytes(&format_bytes(n)), Ok(n));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,12}") {
            let _ = parse_span(&text);
            let _ = parse_bytes(&text);
            let _ = parse_window(&text);
            let _ = parse_fraction(&text);
            let _ = text.parse::<Rate>();
        }
    }
}
