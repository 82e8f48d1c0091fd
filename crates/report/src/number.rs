//! Numbers as people and plots want them.

use serde::{Serialize, Serializer};

/// `value` with about three significant digits, at most four decimals and no trailing zeros:
/// `1234`, `56.7`, `0.0123`, `0`. Something that is no number is a dash.
pub fn short(value: f64) -> String {
    if !value.is_finite() {
        return "–".to_owned();
    }
    let text = trim(&format!("{value:.*}", decimals(value, 3)));
    if text == "-0" { "0".to_owned() } else { text }
}

/// `value` with a fixed number of decimals, so that a column lines up; a dash for NaN.
pub(crate) fn fixed(value: f64, decimals: usize) -> String {
    if value.is_finite() { format!("{value:.decimals$}") } else { "–".to_owned() }
}

/// `value` rounded to `digits` significant digits.
pub(crate) fn significant(value: f64, digits: i32) -> f64 {
    if value == 0.0 || !value.is_finite() {
        return value;
    }
    let places = digits - 1 - value.abs().log10().floor() as i32;
    // Dividing by a whole power of ten gives the shortest text; multiplying by 0.1 does not.
    if places >= 0 {
        let scale = 10f64.powi(places);
        (value * scale).round() / scale
    } else {
        let scale = 10f64.powi(-places);
        (value / scale).round() * scale
    }
}

fn decimals(value: f64, digits: i32) -> usize {
    if value == 0.0 {
        return 0;
    }
    (digits - 1 - value.abs().log10().floor() as i32).clamp(0, 4) as usize
}

fn trim(text: &str) -> String {
    if !text.contains('.') {
        return text.to_owned();
    }
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A number in the page: four significant digits, a whole number without a point, `null` for
/// what is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = significant(self.0, 4);
        if value.fract() == 0.0 && value.abs() < 1e15 {
            return serializer.serialize_i64(value as i64);
        }
        serializer.serialize_f64(value)
    }
}

/// A length of time in milliseconds with its unit.
pub fn time(ms: f64) -> String {
    if ms < 1000.0 { format!("{} ms", short(ms)) } else { format!("{} s", short(ms / 1000.0)) }
}

/// A share as a percentage.
pub(crate) fn percent(share: f64) -> String {
    format!("{} %", short(share * 100.0))
}

/// Bytes with the unit that suits.
pub(crate) fn bytes(count: u64) -> String {
    let count = count as f64;
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    let unit = units.into_iter().find(|(size, _)| count >= *size);
    unit.map_or_else(
        || format!("{count} B"),
        |(size, unit)| format!("{} {unit}", short(count / size)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_the_unit_that_suits() {
        assert_eq!([time(0.5), time(999.0), time(1500.0)], ["0.5 ms", "999 ms", "1.5 s"]);
    }

    #[test]
    fn short_numbers_keep_three_digits() {
        for (value, text) in [
            (0.0, "0"),
            (1234.6, "1235"),
            (56.71, "56.7"),
            (0.012_34, "0.0123"),
            (12.0, "12"),
            (0.1, "0.1"),
            (100.0, "100"),
            (0.000_01, "0"),
            (-0.000_01, "0"),
            (-3.456, "-3.46"),
            (f64::NAN, "–"),
        ] {
            assert_eq!(short(value), text);
        }
    }

    #[test]
    fn significant_digits_make_short_texts() {
        assert_eq!(significant(12.345_678, 3).to_string(), "12.3");
        assert_eq!(significant(0.300_000_01, 3).to_string(), "0.3");
        assert_eq!(significant(98_765.0, 3).to_string(), "98800");
        assert_eq!(significant(0.0, 3), 0.0);
        assert!(significant(f64::NAN, 3).is_nan());
    }
}
