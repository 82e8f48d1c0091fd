//! Which states a model has, as the command line says it.

use std::path::PathBuf;

use cellpace_base::{Span, parse_number, parse_span};
use cellpace_mdi::{Axis, Chain, Levels, Relative, States};
use clap::{Args, ValueEnum};

use super::read::read;
use crate::error::Failure;

/// Options of the states.
#[derive(Debug, Args)]
#[command(next_help_heading = "States")]
pub(super) struct StateOptions {
    /// Levels of the delay above its base and changes of the window, changes of both (2021), or
    /// absolute values (2017) [default: levels]
    #[arg(long, value_name = "VARIANT")]
    variant: Option<Variant>,
    /// Width of the bins of absolute delays, in whole milliseconds [default: 2ms]
    #[arg(long, value_name = "TIME", value_parser = milliseconds)]
    quantization: Option<u32>,
    /// Delays told apart: for levels in decades above the base, e.g. 0..1.4/0.01 [default: up to
    /// the 99.9th percentile by 0.01], for changes e.g. -10..10/2 [default: 11 values around 0
    /// that hold 98 % of the changes]
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    delay_range: Option<String>,
    /// Changes of the window told apart, e.g. -20..20/2 [default: 21 values around 0 that hold
    /// 98 % of the changes]
    #[arg(long, value_name = "RANGE", allow_hyphen_values = true)]
    window_range: Option<String>,
    /// Take the states of this model, so that both can be merged
    #[arg(long, value_name = "FILE")]
    like: Option<PathBuf>,
    /// Levels: learn on so long after the teacher's window has been one packet, e.g. 160ms
    /// [default: a chain ends there]
    #[arg(long, value_name = "TIME")]
    rejoin: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Variant {
    Relative,
    Absolute,
    Levels,
}

/// What was asked for.
#[derive(Debug)]
pub(super) enum Wanted {
    /// These states.
    These(States),
    /// Absolute ones for the samples, with bins of so many milliseconds.
    Absolute(u32),
    /// Relative ones for the samples, where an axis is not given.
    Relative(Option<Axis>, Option<Axis>),
    /// Levels and changes, where an axis is not given.
    Levels(Option<Axis>, Option<Axis>),
}

const PAPERS_QUANTIZATION_MS: u32 = 2;

impl StateOptions {
    /// Reads the options.
    ///
    /// # Errors
    /// When they contradict each other or do not read.
    pub(super) fn wanted(&self) -> Result<Wanted, Failure> {
        let ranges = self.delay_range.is_some() || self.window_range.is_some();
        if let Some(path) = &self.like {
            if ranges || self.quantization.is_some() {
                let why = "--like takes the ranges of that model; leave the others out";
                return Err(Failure::usage(why));
            }
            let states = read(path)?.model.states;
            let is = variant_of(states);
            if self.variant.is_some_and(|asked| asked != is) {
                let (path, is) = (path.display(), name(is));
                return Err(Failure::usage(format!("--like: the states of {path} are {is}")));
            }
            return Ok(Wanted::These(states));
        }
        match self.variant.unwrap_or(Variant::Levels) {
            Variant::Absolute if ranges => Err(Failure::usage(
                "--delay-range and --window-range are not for --variant absolute",
            )),
            Variant::Absolute => {
                Ok(Wanted::Absolute(self.quantization.unwrap_or(PAPERS_QUANTIZATION_MS)))
            }
            Variant::Relative | Variant::Levels if self.quantization.is_some() => {
                Err(Failure::usage("--quantization is for --variant absolute"))
            }
            variant => {
                let d = axis("--delay-range", "delay", self.delay_range.as_deref())?;
                let w = axis("--window-range", "window", self.window_range.as_deref())?;
                // Too many states are refused before the work.
                if let (Some(d), Some(w)) = (d, w) {
                    let states = match variant {
                        Variant::Levels => States::Levels(Levels { d, w }),
                        _ => States::Relative(Relative { d, w }),
                    };
                    return states.check().map(Wanted::These).map_err(Failure::usage);
                }
                Ok(match variant {
                    Variant::Levels => Wanted::Levels(d, w),
                    _ => Wanted::Relative(d, w),
                })
            }
        }
    }
}

/// Longer than any outage; what is beyond would never be waited for.
const LONGEST_REJOIN: Span = Span::from_secs(60);

impl StateOptions {
    /// After how many epochs a chain that has ended begins anew, if ever.
    ///
    /// # Errors
    /// When the time does not read or is too long, or `states` are no levels.
    pub(super) fn rejoin(&self, states: &Wanted, epoch: Span) -> Result<Option<usize>, Failure> {
        let Some(text) = &self.rejoin else { return Ok(None) };
        let time =
            parse_span(text).map_err(|error| Failure::usage(format!("--rejoin: {error}")))?;
        if time > LONGEST_REJOIN {
            return Err(Failure::usage("--rejoin: at most 60s"));
        }
        if !matches!(states, Wanted::Levels(..) | Wanted::These(States::Levels(_))) {
            return Err(Failure::usage("--rejoin is for --variant levels"));
        }
        let epochs = time.as_nanos().div_ceil(epoch.as_nanos().max(1));
        Ok(Some(usize::try_from(epochs).unwrap_or(usize::MAX)))
    }

    /// The option as it was given, for the file; empty without.
    pub(super) fn rejoin_written(&self) -> String {
        self.rejoin.as_ref().map_or_else(String::new, |time| format!("--rejoin {}", time.trim()))
    }
}

impl Wanted {
    /// The states, for these samples where that is open.
    pub(super) fn choose(&self, chains: &[Chain]) -> Result<States, Failure> {
        let chosen = match self {
            Self::These(states) => Ok(*states),
            Self::Absolute(quantization) => States::absolute_for(chains, *quantization),
            Self::Relative(d, w) => States::relative_for(chains, *d, *w),
            Self::Levels(d, w) => States::levels_for(chains, *d, *w),
        };
        chosen.map_err(Failure::failed)
    }
}

/// The states in one line.
pub(super) fn shown(states: &States) -> String {
    let number = |thousandths: i64| thousandths as f64 / 1000.0;
    let axis = |a: &Axis| format!("{}..{}/{}", number(a.min()), number(a.max()), number(a.step()));
    let what = match states {
        States::Absolute(s) => format!(
            "absolute, delay {}..{} ms in bins of {} ms, window {}..{} packets",
            s.d_min, s.d_max, s.quantization, s.w_min, s.w_max
        ),
        States::Relative(s) => format!("relative, delay {}, window {}", axis(&s.d), axis(&s.w)),
        States::Levels(s) => format!("levels, delay {}, window {}", axis(&s.d), axis(&s.w)),
        _ => "of another kind".to_owned(),
    };
    format!("{} ({what})", states.len())
}

fn variant_of(states: States) -> Variant {
    match states {
        States::Absolute(_) => Variant::Absolute,
        States::Levels(_) => Variant::Levels,
        _ => Variant::Relative,
    }
}

fn name(variant: Variant) -> &'static str {
    match variant {
        Variant::Relative => "relative",
        Variant::Absolute => "absolute",
        Variant::Levels => "levels",
    }
}

/// `-10..10/2`.
fn axis(option: &str, name: &'static str, text: Option<&str>) -> Result<Option<Axis>, Failure> {
    let Some(text) = text else { return Ok(None) };
    let wrong = |why: &dyn std::fmt::Display| Failure::usage(format!("{option}: {why}"));
    let parts = text.split_once("..").and_then(|(min, rest)| {
        let (max, step) = rest.split_once('/')?;
        Some([min, max, step])
    });
    let Some(parts) = parts else {
        return Err(wrong(&format!("`{text}` is no range like -10..10/2")));
    };
    let mut ends = [0; 3];
    for (end, part) in ends.iter_mut().zip(parts) {
        *end = thousandths(part).map_err(|why| wrong(&why))?;
    }
    let [min, max, step] = ends;
    Axis::new(name, min, max, step).map(Some).map_err(|error| wrong(&error))
}

fn thousandths(text: &str) -> Result<i64, String> {
    let number = parse_number(text.trim()).map_err(|error| error.to_string())?;
    let scaled = number * 1000.0;
    let whole = scaled.round();
    if (scaled - whole).abs() > 1e-6 || whole.abs() > 1e9 {
        return Err(format!("`{text}`: at most three decimals, and at most a million"));
    }
    Ok(whole as i64)
}

fn milliseconds(text: &str) -> Result<u32, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    let ms = span.as_nanos() / 1_000_000;
    let whole = Span::from_millis(ms) == span && (1..=10_000).contains(&ms);
    if whole { Ok(ms as u32) } else { Err("must be whole milliseconds, 1ms to 10s".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_read_as_written() {
        let axis = axis("--delay-range", "delay", Some("-1.5..3/0.25")).unwrap().unwrap();
        assert_eq!((axis.min(), axis.max(), axis.step()), (-1500, 3000, 250));
    }

    #[test]
    fn wrong_ranges_are_refused_with_the_option() {
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
            let said = axis("--delay-range", "delay", Some(text)).unwrap_err().to_string();
            assert!(said.starts_with("--delay-range: "), "{text}: {said}");
        }
    }

    #[test]
    fn quantization_is_in_whole_milliseconds() {
        assert_eq!(milliseconds("20ms"), Ok(20));
        for text in ["0ms", "1.5ms", "11s", "2", "-2ms"] {
            assert!(milliseconds(text).is_err(), "{text}");
        }
    }
}
