//! Arguments of `cellpace probe`, and the plan that they make.

use std::ops::RangeInclusive;
use std::path::PathBuf;

use cellpace_base::{Ecn, Rate, Span, parse_span};
use cellpace_probe::{OnOffStream, Pattern, Plan, ResponderLimits, wire};
use cellpace_udp::Protection;
use clap::{Args, ValueEnum};

use crate::address::{HostPort, ListenAddress};
use crate::dashboard::DashboardOptions;
use crate::error::CommandError;
use crate::key::KeyOption;
use crate::options::{Verbosity, span, whole};
use crate::output::check_files;
use crate::result_files::ResultFiles;

/// Arguments of `cellpace probe`.
#[derive(Debug, Args)]
#[command(mut_arg("dashboard", |dashboard| dashboard.conflicts_with("listen")))]
#[command(after_help = "Examples:
  cellpace probe --listen 5261 & sleep 1
  cellpace probe 127.0.0.1 --duration 10s --report probe.html    # of this machine, both ways

Between two machines, with a key that both have:
  cellpace key path.key                                          # here; then copy it there
  cellpace probe --listen 5261 --key path.key                    # there
  cellpace probe HOST --key path.key --report probe.html         # here: 60 s, both ways
  cellpace probe HOST --key path.key --record lte.trace          # the downlink as a trace
  cellpace probe HOST --key path.key --ecn ect1 --rate 2mbit     # are codepoints carried, or marked?

All is encrypted, and only who has the key can measure: without --key your own one, which the programs
that you run on this machine share. The far side does not choose: what is measured is written here.")]
pub(crate) struct ProbeArgs {
    /// Where `cellpace probe --listen` waits; without a port at 5261
    #[arg(
        value_name = "HOST[:PORT]",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub(crate) target: Option<HostPort>,
    /// Be the far side: wait for probers; a port alone is on loopback, with --key at every address
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub(crate) listen: Option<ListenAddress>,
    /// How long probes are sent, from 100ms to 1h
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = duration)]
    duration: Span,
    /// Who sends probes: up is from here [default: both, with --record down]
    #[arg(long, value_enum, value_name = "up|down|both")]
    direction: Option<DirectionArg>,
    /// Bytes of a probe with its IP header, 110 to 9000 [default: 1400, with --record 1500]
    #[arg(long, value_name = "BYTES", value_parser = whole(110..=9000_u16))]
    size: Option<u16>,
    /// Rate of the probes [default: 28mbit, which is one of 1400 bytes every 0.4 ms]; with --record
    /// the trace is what of it arrives
    #[arg(long, value_name = "RATE", value_parser = rate)]
    rate: Option<Rate>,
    /// A second stream that comes and goes, as in 10mbit:on=60s,off=60s; it begins with off
    #[arg(long, value_name = "RATE:on=TIME,off=TIME", value_parser = onoff)]
    onoff: Option<OnOffArg>,
    /// Send the probes with this ECN codepoint, and count with which they arrive [default: with none]
    #[arg(long, value_enum, value_name = "ect0|ect1")]
    ecn: Option<CodepointArg>,
    /// Record the link as a trace for `compare` and `link`: keeps the bottleneck's queue from running
    /// empty, between 750 ms and 3 s. Of both directions: FILE.up and FILE.down
    #[arg(long, value_name = "FILE")]
    pub(crate) record: Option<PathBuf>,
    /// Send no faster than this
    #[arg(long, default_value = "200mbit", value_name = "RATE", value_parser = rate)]
    pub(crate) max_rate: Rate,
    /// With --listen: serve this many probers at a time, and half as many of one address
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = whole(1..=64_u16))]
    max_connections: u16,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) files: ResultFiles,
    #[command(flatten)]
    pub(crate) dashboard: DashboardOptions,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionArg {
    Up,
    Down,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum CodepointArg {
    Ect0,
    Ect1,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OnOffArg {
    rate: Rate,
    on: Span,
    off: Span,
}

/// A time in `range`, which `words` say.
fn within(text: &str, range: RangeInclusive<Span>, words: &str) -> Result<Span, String> {
    let span = span(text)?;
    range.contains(&span).then_some(span).ok_or_else(|| format!("write a time {words}"))
}

fn duration(text: &str) -> Result<Span, String> {
    within(text, Span::from_millis(100)..=Span::from_secs(3600), "from 100ms to 1h")
}

fn rate(text: &str) -> Result<Rate, String> {
    let rate = text.parse::<Rate>().map_err(|error| error.to_string())?;
    if rate == Rate::from_bps(0) { Err("a rate is above zero".to_owned()) } else { Ok(rate) }
}

fn onoff(text: &str) -> Result<OnOffArg, String> {
    let form = || "write a rate and two times, as in 10mbit:on=60s,off=60s".to_owned();
    let (rate, periods) = text.split_once(':').ok_or_else(form)?;
    let rate = self::rate(rate)?;
    let (mut on, mut off) = (None, None);
    for period in periods.split(',') {
        let (name, value) = period.split_once('=').ok_or_else(form)?;
        let value = parse_span(value).map_err(|error| error.to_string())?;
        match name.trim() {
            "on" => on = Some(value),
            "off" => off = Some(value),
            _ => return Err(form()),
        }
    }
    match (on, off) {
        (Some(on), Some(off)) => Ok(OnOffArg { rate, on, off }),
        _ => Err(form()),
    }
}

/// The paper's interval.
const INTERVAL: Span = Span::from_micros(400);

/// The bounds of the queue delay while a trace is recorded, as Saturator has them.
const QUEUE_DELAY: [Span; 2] = [Span::from_millis(750), Span::from_secs(3)];

/// The longest that a far side lets itself be used for.
const MAX_DURATION: Span = Span::from_secs(3600);

impl ProbeArgs {
    pub(crate) fn plan(&self) -> Result<Plan, CommandError> {
        let size = self.size.unwrap_or(if self.record.is_some() { 1500 } else { 1400 });
        let default = if self.record.is_some() { DirectionArg::Down } else { DirectionArg::Both };
        let direction = self.direction.unwrap_or(default);
        let interval_at = |rate: Rate| rate.time_for(u64::from(size));
        let pattern = match (self.rate, &self.record) {
            (Some(rate), _) => Pattern::Every(interval_at(rate)),
            (None, Some(_)) => Pattern::Saturate { lower: QUEUE_DELAY[0], upper: QUEUE_DELAY[1] },
            (None, None) => Pattern::Every(INTERVAL),
        };
        let plan = Plan {
            up: direction != DirectionArg::Down,
            down: direction != DirectionArg::Up,
            size,
            pattern,
            duration: self.duration,
            rival: self.onoff.map(|onoff| OnOffStream {
                interval: interval_at(onoff.rate),
                on: onoff.on,
                off: onoff.off,
            }),
            ecn: match self.ecn {
                None => Ecn::NotEct,
                Some(CodepointArg::Ect0) => Ecn::Ect0,
                Some(CodepointArg::Ect1) => Ecn::Ect1,
            },
        };
        plan.check().map_err(CommandError::usage)?;
        if plan.up && plan.rate().is_some_and(|rate| rate > self.max_rate) {
            let error = format!("the probes need more than --max-rate {}", self.max_rate);
            return Err(CommandError::usage(error));
        }
        Ok(plan)
    }

    /// How datagrams are protected.
    pub(crate) fn protection(&self) -> Result<Protection, CommandError> {
        let key = self.key.secret(self.verbosity)?;
        Ok(key.map_or_else(Protection::default, |key| wire::protection(&key)))
    }

    /// Refuses files that cannot be written.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        let [json, report] = self.files.options();
        self.dashboard.check()?;
        check_files(&[json, report, ("--record", self.record.as_deref())])
    }

    pub(crate) fn limits(&self) -> ResponderLimits {
        let sessions = usize::from(self.max_connections);
        ResponderLimits {
            sessions,
            sessions_per_client: sessions.div_ceil(2),
            rate: self.max_rate,
            duration: MAX_DURATION,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_stream_is_read_and_nonsense_is_not() {
        let secs = Span::from_secs;
        let read = OnOffArg { rate: Rate::from_bps(10_000_000), on: secs(60), off: secs(30) };
        assert_eq!(onoff("10mbit:on=60s,off=30s"), Ok(read));
        for wrong in ["10mbit", "10mbit:on=60s", "10mbit:on=60s,of=3s", "x:on=1s,off=1s", ":"] {
            assert!(onoff(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn times_and_rates_out_of_range_are_refused_with_the_range() {
        for text in ["0s", "99ms", "2h"] {
            assert_eq!(duration(text), Err("write a time from 100ms to 1h".to_owned()), "{text}");
        }
        assert!(rate("0mbit").unwrap_err().contains("above zero"));
        assert!(rate("-5mbit").is_err() && onoff("0bit:on=1s,off=1s").is_err());
    }
}
