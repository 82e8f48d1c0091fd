//! The written form of a profile: `key = value` lines.

use std::fmt;
use std::str::FromStr;

use thiserror::Error;

use super::LinkProfile;
use crate::steps::{Level, Steps};

/// Longest text that is read, in bytes; a profile has about three thousand.
const MAX_TEXT: usize = 64 * 1024;

/// Why a text is no profile. Lines count from 1.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum ProfileError {
    /// More text than any profile has.
    #[error("a profile of {bytes} bytes is not plausible (at most {MAX_TEXT})")]
    TooLong {
        /// The size of the text.
        bytes: usize,
    },
    /// A line that is no `key = value`.
    #[error("line {line}: `{text}` should be key = value")]
    NotKeyValue {
        /// Where.
        line: usize,
        /// The line, or its beginning.
        text: String,
    },
    /// A key that profiles do not have.
    #[error("line {line}: a profile has no `{key}`{hint}")]
    UnknownKey {
        /// Where.
        line: usize,
        /// The key.
        key: String,
        /// The nearest, as a half sentence.
        hint: String,
    },
    /// The same key twice.
    #[error("line {line}: `{key}` is given twice")]
    Twice {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
    },
    /// A key that is needed is not there.
    #[error("`{key}` is missing: {help}")]
    Missing {
        /// The key.
        key: &'static str,
        /// What it means.
        help: &'static str,
    },
    /// Too few or too many numbers.
    #[error("line {line}: `{key}` has {found} numbers; it needs {wanted}")]
    Count {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// How many there are.
        found: usize,
        /// How many there should be.
        wanted: usize,
    },
    /// What should be a number is none.
    #[error("line {line}: `{key}`: `{text}` is not a number")]
    NotANumber {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// What is there.
        text: String,
    },
    /// A number that makes no sense.
    #[error("line {line}: `{key}`: {value} is out of range; allowed: {low} to {high}")]
    OutOfRange {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// The number.
        value: f64,
        /// Smallest allowed.
        low: f64,
        /// Largest allowed.
        high: f64,
    },
    /// Quantiles that go down.
    #[error("line {line}: `{key}` must not decrease, but {after} follows {before}")]
    Decreasing {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// The larger number.
        before: f64,
        /// The smaller one behind it.
        after: f64,
    },
    /// An RTT or a loss that is not written as the options are.
    #[error("line {line}: `{key}`: {why}")]
    Steps {
        /// Where.
        line: usize,
        /// The key.
        key: &'static str,
        /// What is wrong with it.
        why: String,
    },
    /// Shares that are no shares.
    #[error("`memory_weight` and `wave_weight` add up to {sum}; they should add up to 1")]
    Weights {
        /// Their sum.
        sum: f64,
    },
}

/// One key with numbers: what it means and what is allowed.
struct Field {
    key: &'static str,
    help: &'static str,
    low: f64,
    high: f64,
    /// Whether the numbers are quantiles.
    rising: bool,
}

impl Field {
    const fn new(key: &'static str, help: &'static str, low: f64, high: f64) -> Self {
        Self { key, help, low, high, rising: false }
    }

    const fn rising(mut self) -> Self {
        self.rising = true;
        self
    }
}

const ABOUT: &str = "about";
const ABOUT_HELP: &str = "where the numbers come from";
const RTT: &str = "rtt";
const RTT_HELP: &str = "RTT without queues, as --rtt has it; may be left out";
const LOSS: &str = "loss";
const LOSS_HELP: &str = "loss in front of the queue, as --loss has it; may be left out";

/// In the order in which they are written, and of [`Profile::slots`].
const FIELDS: [Field; 17] = [
    Field::new(
        "rate_mbps",
        "rate while served at the normal scores -3, -2.5 .. 3 of the quality, Mbit/s",
        0.12,
        10_000.0,
    )
    .rising(),
    Field::new(
        "memory_weight",
        "shares of the quality's variance that relax in 0.1, 0.3, 1, 3, 10 and 30 s",
        0.0,
        1.0,
    ),
    Field::new("wave_weight", "share of it that oscillates", 0.0, 1.0),
    Field::new("wave_period_s", "period of the oscillation, s", 0.05, 1000.0),
    Field::new("wave_coherence_s", "after which it has forgotten its phase, s", 0.05, 1000.0),
    Field::new(
        "outage_per_s",
        "outages per second in the worst 10 % of the quality, in 10-25 %, 25-50 % and above",
        0.0,
        5.0,
    ),
    Field::new(
        "outage_ms",
        "lengths of outages of one gap at 0 10 25 50 75 90 95 99 99.9 100 %, ms",
        1.0,
        600_000.0,
    )
    .rising(),
    Field::new("blackout_share", "share of the outages that are several gaps in a row", 0.0, 1.0),
    Field::new("blackout_gaps", "how many gaps, at the same levels", 1.0, 10_000.0).rising(),
    Field::new("blackout_ms", "lengths of these gaps at the same levels, ms", 1.0, 600_000.0)
        .rising(),
    Field::new("burst_mean", "mean opportunities per burst at the median rate", 1.0, 10_000.0),
    Field::new("burst_exponent", "growth of what exceeds one with the rate", 0.0, 3.0),
    Field::new("burst_same_ms", "share of a burst's steps that stay in the same ms", 0.0, 1.0),
    Field::new(
        "burst_excess",
        "burst size beyond 1 relative to its mean, at the same levels",
        0.0,
        1e4,
    )
    .rising(),
    Field::new(
        "catch_up_ms",
        "in which time the scheduler makes up for what it served too little or too much, ms",
        1.0,
        100_000.0,
    ),
    Field::new(
        "gap_slow_excess",
        "gap between bursts beyond 2 ms relative to its mean: slowest 20 % of the time",
        0.0,
        1e4,
    )
    .rising(),
    Field::new("gap_fast_excess", "the same in the faster half", 0.0, 1e4).rising(),
];

impl LinkProfile {
    /// Nothing yet: the maker of a profile fills in every field.
    pub(crate) fn blank() -> Self {
        Self {
            about: String::new(),
            rtt: None,
            loss: None,
            rate_mbps: Default::default(),
            memory_weight: Default::default(),
            wave_weight: 0.0,
            wave_period_s: 1.0,
            wave_coherence_s: 1.0,
            outage_per_s: Default::default(),
            outage_ms: Default::default(),
            blackout_share: 0.0,
            blackout_gaps: Default::default(),
            blackout_ms: Default::default(),
            burst_mean: 1.0,
            burst_exponent: 0.0,
            burst_same_ms: 0.0,
            burst_excess: Default::default(),
            catch_up_ms: 1.0,
            gap_excess: Default::default(),
        }
    }

    /// The numbers of each of [`FIELDS`].
    fn slots(&mut self) -> [&mut [f64]; FIELDS.len()] {
        use std::slice::from_mut;
        let [gap_slow, gap_fast] = &mut self.gap_excess;
        [
            &mut self.rate_mbps,
            &mut self.memory_weight,
            from_mut(&mut self.wave_weight),
            from_mut(&mut self.wave_period_s),
            from_mut(&mut self.wave_coherence_s),
            &mut self.outage_per_s,
            &mut self.outage_ms,
            from_mut(&mut self.blackout_share),
            &mut self.blackout_gaps,
            &mut self.blackout_ms,
            from_mut(&mut self.burst_mean),
            from_mut(&mut self.burst_exponent),
            from_mut(&mut self.burst_same_ms),
            &mut self.burst_excess,
            from_mut(&mut self.catch_up_ms),
            gap_slow,
            gap_fast,
        ]
    }

    /// Rounds every number to four digits and into its range, so that the written form contains
    /// exactly what the profile does.
    pub(crate) fn tidy(mut self) -> Self {
        for (field, slot) in FIELDS.iter().zip(self.slots()) {
            for value in slot {
                *value = four_digits(value.clamp(field.low, field.high));
            }
        }
        self
    }

    fn check_weights(self) -> Result<Self, ProfileError> {
        let sum = self.memory_weight.iter().sum::<f64>() + self.wave_weight;
        if (sum - 1.0).abs() > 0.01 {
            return Err(ProfileError::Weights { sum });
        }
        Ok(self)
    }
}

/// The decimal number of four digits next to `value`.
fn four_digits(value: f64) -> f64 {
    // Through text, because a product with a power of ten need not be the nearest double.
    format!("{value:.3e}").parse().unwrap_or(value)
}

impl fmt::Display for LinkProfile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "# {ABOUT_HELP}\n{ABOUT} = {}", self.about)?;
        if let Some(rtt) = &self.rtt {
            writeln!(f, "# {RTT_HELP}\n{RTT} = {rtt}")?;
        }
        if let Some(loss) = &self.loss {
            writeln!(f, "# {LOSS_HELP}\n{LOSS} = {loss}")?;
        }
        let mut copy = self.clone();
        for (field, slot) in FIELDS.iter().zip(copy.slots()) {
            write!(f, "# {}\n{} =", field.help, field.key)?;
            for value in slot {
                write!(f, " {value}")?;
            }
            writeln!(f)?;
        }
        Ok(())
    }
}

impl FromStr for LinkProfile {
    type Err = ProfileError;

    fn from_str(text: &str) -> Result<Self, ProfileError> {
        if text.len() > MAX_TEXT {
            return Err(ProfileError::TooLong { bytes: text.len() });
        }
        let mut profile = Self::blank();
        let mut about = None;
        let mut given = [false; FIELDS.len()];
        for (index, line) in text.lines().enumerate() {
            let (number, line) = (index + 1, line.trim());
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let Some((key, value)) = line.split_once('=') else {
                return Err(ProfileError::NotKeyValue { line: number, text: shorten(line) });
            };
            let (key, value) = (key.trim(), value.trim());
            if key == ABOUT {
                if about.replace(value.to_owned()).is_some() {
                    return Err(ProfileError::Twice { line: number, key: ABOUT });
                }
                continue;
            }
            if key == RTT {
                read_steps(number, RTT, value, &mut profile.rtt)?;
                continue;
            }
            if key == LOSS {
                read_steps(number, LOSS, value, &mut profile.loss)?;
                continue;
            }
            let Some(which) = FIELDS.iter().position(|field| field.key == key) else {
                return Err(unknown_key(number, key));
            };
            if std::mem::replace(&mut given[which], true) {
                return Err(ProfileError::Twice { line: number, key: FIELDS[which].key });
            }
            read_numbers(number, value, &FIELDS[which], profile.slots()[which])?;
        }
        let missing = |key, help| ProfileError::Missing { key, help };
        profile.about = about.ok_or(missing(ABOUT, ABOUT_HELP))?;
        match FIELDS.iter().zip(given).find(|(_, given)| !given) {
            Some((field, _)) => Err(missing(field.key, field.help)),
            None => profile.check_weights(),
        }
    }
}

fn read_steps<T: Level>(
    line: usize,
    key: &'static str,
    value: &str,
    slot: &mut Option<Steps<T>>,
) -> Result<(), ProfileError> {
    let steps = Steps::parse(value, key).map_err(|error| ProfileError::Steps {
        line,
        key,
        why: error.to_string(),
    })?;
    match slot.replace(steps) {
        None => Ok(()),
        Some(_) => Err(ProfileError::Twice { line, key }),
    }
}

fn read_numbers(
    line: usize,
    text: &str,
    field: &Field,
    slot: &mut [f64],
) -> Result<(), ProfileError> {
    let key = field.key;
    let found = text.split_whitespace().count();
    if found != slot.len() {
        return Err(ProfileError::Count { line, key, found, wanted: slot.len() });
    }
    let mut before = f64::NEG_INFINITY;
    for (word, place) in text.split_whitespace().zip(slot) {
        let Ok(value) = word.parse::<f64>() else {
            return Err(ProfileError::NotANumber { line, key, text: shorten(word) });
        };
        // Written so that NaN, too, is out of range.
        if !(field.low..=field.high).contains(&value) {
            return Err(ProfileError::OutOfRange {
                line,
                key,
                value,
                low: field.low,
                high: field.high,
            });
        }
        if field.rising && value < before {
            return Err(ProfileError::Decreasing { line, key, before, after: value });
        }
        before = value;
        *place = value;
    }
    Ok(())
}

fn unknown_key(line: usize, key: &str) -> ProfileError {
    let keys = FIELDS.iter().map(|field| field.key).chain([ABOUT]);
    let key = shorten(key);
    let hint = match cellpace_base::nearest(&key, keys) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => String::new(),
    };
    ProfileError::UnknownKey { line, key, hint }
}

/// The first characters of a text that may be long.
fn shorten(text: &str) -> String {
    text.chars().take(40).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::builtin;
    use proptest::prelude::*;

    fn text() -> String {
        builtin("lte-driving").unwrap().to_string()
    }

    /// The text with the line of `key` replaced.
    fn with_line(key: &str, line: &str) -> String {
        let starts = format!("{key} =");
        let replaced = |old| if str::starts_with(old, &starts) { line } else { old };
        text().lines().map(replaced).collect::<Vec<_>>().join("\n")
    }

    fn error_of(text: &str) -> String {
        text.parse::<LinkProfile>().unwrap_err().to_string()
    }

    #[test]
    fn malformed_texts_are_refused_with_line_and_field() {
        let cases = [
            ("burst_mean", "burst_mean 3", "line 24: `burst_mean 3` should be key = value"),
            ("burst_mean", "burst_mean = x", "line 24: `burst_mean`: `x` is not a number"),
            ("burst_mean", "burst_mean = 1 2", "line 24: `burst_mean` has 2 numbers; it needs 1"),
            ("burst_mean", "burst_mean =", "line 24: `burst_mean` has 0 numbers; it needs 1"),
            (
                "burst_mean",
                "burst_mean = 0",
                "line 24: `burst_mean`: 0 is out of range; allowed: 1 to 10000",
            ),
            (
                "burst_mean",
                "burst_mean = NaN",
                "line 24: `burst_mean`: NaN is out of range; allowed: 1 to 10000",
            ),
            (
                "burst_mean",
                "burst_men = 2",
                "line 24: a profile has no `burst_men`; did you mean `burst_mean`?",
            ),
            ("burst_mean", "wave_weight = 0", "line 24: `wave_weight` is given twice"),
            ("about", "", "`about` is missing: where the numbers come from"),
            (
                "blackout_gaps",
                "blackout_gaps = 1 2 3 2 5 6 7 8 9 10",
                "line 20: `blackout_gaps` must not decrease, but 2 follows 3",
            ),
            (
                "wave_weight",
                "wave_weight = 0.5",
                "`memory_weight` and `wave_weight` add up to 1.49999; they should add up to 1",
            ),
        ];
        for (key, line, error) in cases {
            assert_eq!(error_of(&with_line(key, line)), error);
        }
    }

    #[test]
    fn a_missing_key_is_named_with_its_meaning() {
        let error = error_of(&with_line("catch_up_ms", "# gone"));
        assert!(error.starts_with("`catch_up_ms` is missing: in which time"), "{error}");
    }

    #[test]
    fn comments_blank_lines_and_spaces_do_not_matter() {
        let loose = text().replace(" = ", "=").replace('\n', "\r\n\n  ");
        assert_eq!(loose.parse::<LinkProfile>().unwrap(), text().parse().unwrap());
    }

    #[test]
    fn a_text_beyond_the_bound_is_refused_unread() {
        let long = "#".repeat(MAX_TEXT + 1);
        assert_eq!(long.parse::<LinkProfile>(), Err(ProfileError::TooLong { bytes: MAX_TEXT + 1 }));
    }

    #[test]
    fn an_about_with_line_breaks_stays_one_line() {
        let profile = builtin("5g-midband").unwrap().with_about("two\nburst_mean = 1\r\nlines");
        assert_eq!(profile.about(), "two burst_mean = 1 lines");
        assert_eq!(profile.to_string().parse::<LinkProfile>().unwrap(), profile);
    }

    #[test]
    fn tidy_numbers_read_back_exactly() {
        let mut profile = builtin("lte-driving").unwrap();
        profile.burst_mean = 4.0 / 3.0;
        profile.catch_up_ms = f64::MAX;
        let tidy = profile.tidy();
        assert_eq!((tidy.burst_mean, tidy.catch_up_ms), (1.333, 100_000.0));
        assert_eq!(tidy.to_string().parse::<LinkProfile>().unwrap(), tidy);
    }

    proptest! {
        #[test]
        fn no_text_panics(text in "(([a-z_]{1,12}|rate_mbps|about|burst_mean)[ =]{0,3}[-0-9. eNa]{0,20}\n?){0,8}") {
            let _ = text.parse::<LinkProfile>();
        }

        #[test]
        fn no_damage_to_a_profile_panics(at in 0usize..1700, with in "\\PC{0,3}") {
            let text = text();
            let at = (0..=at.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
            let (head, tail) = text.split_at(at);
            let rest = tail.chars().skip(1).collect::<String>();
            if let Ok(profile) = format!("{head}{with}{rest}").parse::<LinkProfile>() {
                prop_assert!(!profile.generate(1, cellpace_base::Span::from_millis(200)).millis().is_empty());
            }
        }
    }
}
