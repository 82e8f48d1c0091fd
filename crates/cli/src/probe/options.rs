//! Arguments of `cellpace probe`, and the plan that they make.

use std::path::PathBuf;

use cellpace_base::{Rate, Span, parse_span};
use cellpace_probe::{OnOffStream, Pattern, Plan, ResponderLimits, wire};
use cellpace_udp::Protection;
use clap::{Args, ValueEnum};

use crate::error::CommandError;
use crate::key::KeyOption;
use crate::options::span;

/// Arguments of `cellpace probe`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace probe --listen 5261 --key path.key        # there
  cellpace probe there:5261 --key path.key --report out.html   # here: both ways
  cellpace probe there:5261 --key path.key --direction down --onoff 10mbit:on=60s,off=60s
  cellpace probe there:5261 --key path.key --saturate --trace-out lte.trace

Nothing is encrypted. With --key (made by `cellpace key`) only who has the key can measure;
without it nothing is authenticated either.")]
pub(crate) struct ProbeArgs {
    /// Where `cellpace probe --listen` waits
    #[arg(value_name = "HOST:PORT", required_unless_present = "listen", conflicts_with = "listen")]
    pub(crate) target: Option<String>,
    /// Be the far side: wait for probers; a port alone is on loopback, with --key at every address
    #[arg(long, value_name = "ADDR:PORT|PORT")]
    pub(crate) listen: Option<String>,
    /// Bytes of a probe with its IP header [default: 1400, with --saturate 1500]
    #[arg(long, value_name = "BYTES", value_parser = clap::value_parser!(u16).range(100..=9000))]
    size: Option<u16>,
    /// Time from probe to probe [default: 0.4ms]
    #[arg(long, value_name = "TIME", value_parser = span, conflicts_with_all = ["rate", "saturate"])]
    interval: Option<Span>,
    /// Rate of the probes, instead of an interval
    #[arg(long, value_name = "RATE", conflicts_with = "saturate")]
    rate: Option<Rate>,
    /// How long probes are sent
    #[arg(long, default_value = "60s", value_name = "TIME", value_parser = span)]
    duration: Span,
    /// Who sends: up is from here [default: both, with --saturate down]
    #[arg(long, value_enum, value_name = "up|down|both")]
    direction: Option<DirectionArg>,
    /// Keep the bottleneck's queue from running empty, and record when it delivers
    #[arg(long)]
    saturate: bool,
    /// With --saturate: the queue delay is kept between these
    #[arg(long, default_value = "750ms..3s", value_name = "FROM..TO", value_parser = bounds)]
    queue_delay: (Span, Span),
    /// A second stream that comes and goes, as in 10mbit:on=60s,off=60s; it begins with off
    #[arg(long, value_name = "RATE:on=TIME,off=TIME", value_parser = onoff)]
    onoff: Option<OnOffArg>,
    /// A burst ends where the next probe comes so much later [default: half the time between
    /// probes, at most 1ms]
    #[arg(long, value_name = "TIME", value_parser = span)]
    pub(crate) burst_gap: Option<Span>,
    /// The recorded trace in Mahimahi's format; both directions: FILE.up and FILE.down
    #[arg(long, value_name = "FILE", requires = "saturate")]
    pub(crate) trace_out: Option<PathBuf>,
    /// Report with charts, one HTML file
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
    /// Figures for scripts as JSON (schema cellpace.probe/1)
    #[arg(long, value_name = "FILE|-")]
    pub(crate) json: Option<PathBuf>,
    /// Highest rate that this side sends
    #[arg(long, default_value = "200mbit", value_name = "RATE")]
    pub(crate) max_rate: Rate,
    /// With --listen: probers at the same time
    #[arg(long, default_value_t = 4, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    max_sessions: u16,
    /// With --listen: the same of one address
    #[arg(long, default_value_t = 2, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=64))]
    max_per_client: u16,
    /// With --listen: the longest that a prober may ask for
    #[arg(long, default_value = "1h", value_name = "TIME", value_parser = span)]
    max_duration: Span,
    #[command(flatten)]
    pub(crate) key: KeyOption,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DirectionArg {
    Up,
    Down,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct OnOffArg {
    rate: Rate,
    on: Span,
    off: Span,
}

fn bounds(text: &str) -> Result<(Span, Span), String> {
    let (from, to) = text.split_once("..").ok_or("write two times, as in 750ms..3s")?;
    let read = |text: &str| parse_span(text).map_err(|error| error.to_string());
    Ok((read(from)?, read(to)?))
}

fn onoff(text: &str) -> Result<OnOffArg, String> {
    let form = || "write a rate and two times, as in 10mbit:on=60s,off=60s".to_owned();
    let (rate, periods) = text.split_once(':').ok_or_else(form)?;
    let rate = rate.parse::<Rate>().map_err(|error| error.to_string())?;
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

impl ProbeArgs {
    pub(crate) fn plan(&self) -> Result<Plan, CommandError> {
        let size = self.size.unwrap_or(if self.saturate { 1500 } else { 1400 });
        let default = if self.saturate { DirectionArg::Down } else { DirectionArg::Both };
        let direction = self.direction.unwrap_or(default);
        let interval_at = |rate: Rate| rate.time_for(u64::from(size));
        let pattern = if self.saturate {
            Pattern::Saturate { lower: self.queue_delay.0, upper: self.queue_delay.1 }
        } else {
            Pattern::Every(self.rate.map_or(self.interval.unwrap_or(INTERVAL), interval_at))
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
        };
        plan.check().map_err(CommandError::usage)?;
        if plan.up && plan.rate().is_some_and(|rate| rate > self.max_rate) {
            let error = format!("more than --max-rate {}", self.max_rate);
            return Err(CommandError::usage(error));
        }
        Ok(plan)
    }

    /// How datagrams are protected.
    pub(crate) fn protection(&self) -> Result<Protection, CommandError> {
        let key = self.key.secret()?;
        Ok(key.map_or_else(Protection::default, |key| wire::protection(&key)))
    }

    pub(crate) fn limits(&self) -> ResponderLimits {
        ResponderLimits {
            sessions: usize::from(self.max_sessions),
            sessions_per_client: usize::from(self.max_per_client),
            rate: self.max_rate,
            duration: self.max_duration,
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
    fn bounds_are_read() {
        assert_eq!(bounds("750ms..3s"), Ok((Span::from_millis(750), Span::from_secs(3))));
        assert!(bounds("750ms").is_err() && bounds("1..2").is_err());
    }
}
