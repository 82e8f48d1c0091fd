//! The states of a model in their written form, such as `levels:delay=0..1.4/0.01,rejoin=160ms`.

use std::str::FromStr;

use cellpace_base::{Span, parse_number, parse_span};
use cellpace_mdi::{Absolute, Axis, Chain, Levels, Relative, States};

use crate::LabError;

/// Which states a model gets: given ones, or chosen for the samples.
///
/// ```
/// use cellpace_lab::StatesChoice;
///
/// for text in [
///     "levels",
///     "levels:delay=0..1.4/0.01,window=-60..60/4,rejoin=160ms",
///     "relative:delay=-10..10/2",
///     "absolute:bin=5ms",
///     "absolute:delay=20..727/2,window=0..35/1",
/// ] {
///     text.parse::<StatesChoice>()?;
/// }
/// # Ok::<(), cellpace_lab::LabError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StatesChoice {
    ranges: Ranges,
    rejoin: Option<Span>,
}

/// What is given; the rest is chosen for the samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ranges {
    /// All of it.
    Given(States),
    /// Absolute states with bins of this number of milliseconds.
    Absolute(u32),
    /// Relative ones; the axes of the delay and of the window.
    Relative(Option<Axis>, Option<Axis>),
    /// Levels; likewise.
    Levels(Option<Axis>, Option<Axis>),
}

/// The width of the bins in the evaluations of the 2017 paper.
const PAPER_BIN_MS: u32 = 2;

/// Longer than any outage.
const MAX_REJOIN: Span = Span::from_secs(60);

impl FromStr for StatesChoice {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let (kind, rest) = text.split_once(':').unwrap_or((text, ""));
        let (mut bin, mut rejoin, mut delay, mut window) = (None, None, None, None);
        for field in rest.split(',').map(str::trim).filter(|field| !field.is_empty()) {
            let known = field.split_once('=').map(|(key, value)| (kind.trim(), key.trim(), value));
            let twice = match known {
                Some(("absolute", "bin", value)) => bin.replace(milliseconds(value)?).is_some(),
                Some(("levels", "rejoin", value)) => rejoin.replace(pause(value)?).is_some(),
                Some((_, "delay", value)) => delay.replace(range(value)?).is_some(),
                Some((_, "window", value)) => window.replace(range(value)?).is_some(),
                _ => return Err(wrong(field, "no such key")),
            };
            if twice {
                return Err(wrong(field, "given twice"));
            }
        }
        let ranges = match kind.trim() {
            "absolute" => match (bin, delay, window) {
                (None, Some(delay), Some(window)) => Ranges::Given(absolute(delay, window)?),
                (_, None, None) => Ranges::Absolute(bin.unwrap_or(PAPER_BIN_MS)),
                _ => return Err(wrong(text, "give `bin`, or both `delay` and `window`")),
            },
            kind @ ("levels" | "relative") => {
                let d = delay.map(|range| axis("delay", range)).transpose()?;
                let w = window.map(|range| axis("window", range)).transpose()?;
                match (kind, d, w) {
                    ("levels", Some(d), Some(w)) => Ranges::Given(States::Levels(Levels { d, w })),
                    ("levels", ..) => Ranges::Levels(d, w),
                    (_, Some(d), Some(w)) => Ranges::Given(States::Relative(Relative { d, w })),
                    _ => Ranges::Relative(d, w),
                }
            }
            _ => return Err(wrong(text, "the states are `levels`, `relative` or `absolute`")),
        };
        // Too many states are refused before the work.
        if let Ranges::Given(states) = ranges {
            states.check().map_err(LabError::invalid)?;
        }
        Ok(Self { ranges, rejoin })
    }
}

impl StatesChoice {
    /// Returns the states, for these samples where they are not given.
    pub(crate) fn choose(&self, chains: &[&Chain]) -> Result<States, LabError> {
        let chosen = match self.ranges {
            Ranges::Given(states) => Ok(states),
            Ranges::Absolute(bin) => States::absolute_for(chains, bin),
            Ranges::Relative(d, w) => States::relative_for(chains, d, w),
            Ranges::Levels(d, w) => States::levels_for(chains, d, w),
        };
        chosen.map_err(LabError::failed)
    }

    /// Returns after how long a chain that has ended begins again, if ever.
    pub fn rejoin(&self) -> Option<Span> {
        self.rejoin
    }
}

fn wrong(text: &str, why: &str) -> LabError {
    LabError::Invalid(format!("`{text}`: {why}"))
}

fn absolute(delay: [i64; 3], window: [i64; 3]) -> Result<States, LabError> {
    let whole = |thousandths: i64| {
        // All ranges are read in thousandths; here they stand for whole milliseconds and packets.
        let value = u32::try_from(thousandths / 1000).ok().filter(|_| thousandths % 1000 == 0);
        value.ok_or_else(|| LabError::invalid("absolute states are whole numbers, 0 or more"))
    };
    if window[2] != 1000 {
        return Err(LabError::invalid(
            "absolute states distinguish all numbers of packets: the step of their window is 1",
        ));
    }
    Ok(States::Absolute(Absolute {
        d_min: whole(delay[0])?,
        d_max: whole(delay[1])?,
        quantization: whole(delay[2])?,
        w_min: whole(window[0])?,
        w_max: whole(window[1])?,
    }))
}

fn axis(name: &'static str, [min, max, step]: [i64; 3]) -> Result<Axis, LabError> {
    Axis::new(name, min, max, step).map_err(LabError::invalid)
}

/// `-10..10/2`: ends and step in thousandths.
fn range(text: &str) -> Result<[i64; 3], LabError> {
    let parts = text.split_once("..").and_then(|(min, rest)| {
        let (max, step) = rest.split_once('/')?;
        Some([min, max, step])
    });
    let parts = parts.ok_or_else(|| wrong(text, "not a range like -10..10/2"))?;
    let mut ends = [0; 3];
    for (end, part) in ends.iter_mut().zip(parts) {
        *end = thousandths(part)?;
    }
    Ok(ends)
}

fn thousandths(text: &str) -> Result<i64, LabError> {
    let scaled = parse_number(text.trim()).map_err(LabError::invalid)? * 1000.0;
    // States are whole thousandths in the file, so that two models compare without rounding.
    let whole = scaled.round();
    if (scaled - whole).abs() > 1e-6 || whole.abs() > 1e9 {
        return Err(wrong(text, "at most three decimals, and at most a million"));
    }
    Ok(whole as i64)
}

fn milliseconds(text: &str) -> Result<u32, LabError> {
    let span = parse_span(text).map_err(LabError::invalid)?;
    let ms = span.as_nanos() / 1_000_000;
    let is_whole = Span::from_millis(ms) == span && (1..=10_000).contains(&ms);
    if is_whole { Ok(ms as u32) } else { Err(wrong(text, "whole milliseconds, 1ms to 10s")) }
}

fn pause(text: &str) -> Result<Span, LabError> {
    let span = parse_span(text).map_err(LabError::invalid)?;
    // A pause of more than an outage would never come, and the option do nothing.
    if span <= MAX_REJOIN { Ok(span) } else { Err(wrong(text, "at most 60s")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_as_written() {
        assert_eq!(range("-1.5..3/0.25").unwrap(), [-1500, 3000, 250]);
    }

    #[test]
    fn given_states_are_shown_as_they_are_written() {
        for text in [
            "levels:delay=0..1.4/0.01,window=-60..60/4",
            "relative:delay=-10..10/2,window=-1.5..1.5/0.5",
            "absolute:delay=20..727/2,window=0..35/1",
        ] {
            let choice: StatesChoice = text.parse().unwrap();
            assert_eq!(choice.choose(&[]).unwrap().to_string(), text);
        }
    }

    #[test]
    fn wrong_ranges_are_refused() {
        for text in [
            "",
            "1..2",
            "1/2",
            "a..2/1",
            "2..1/1",
            "-3..4/2",
            "0..1/0",
            "0..1/0.0001",
            "nan..1/1",
            "-inf..1/1",
            "0..1e30/1",
        ] {
            let read = range(text).and_then(|range| axis("delay", range));
            assert!(read.is_err(), "{text}");
        }
    }

    #[test]
    fn bins_are_in_whole_milliseconds() {
        assert_eq!(milliseconds("20ms").unwrap(), 20);
        for text in ["0ms", "1.5ms", "11s", "2", "-2ms"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }

    #[test]
    fn what_does_not_go_together_is_refused() {
        let said = |text: &str| text.parse::<StatesChoice>().unwrap_err().to_string();
        for (text, expected) in [
            ("other", "`other`: the states are"),
            ("levels:bin=2ms", "`bin=2ms`: no such key"),
            ("relative:rejoin=1s", "`rejoin=1s`: no such key"),
            ("levels:rejoin=61s", "`61s`: at most 60s"),
            ("levels:delay=0..1/1,delay=0..1/1", "`delay=0..1/1`: given twice"),
            ("absolute:bin=2ms,delay=0..9/1", "`absolute:bin=2ms,delay=0..9/1`: give `bin`, or"),
            ("absolute:delay=-5..9/1,window=0..9/1", "absolute states are whole numbers"),
            ("relative:delay=0..9000/1,window=0..9000/1", "81018001 states are more than"),
        ] {
            assert!(said(text).starts_with(expected), "{text}: {}", said(text));
        }
    }
}
