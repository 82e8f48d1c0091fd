//! Options and readers of option values that several commands share.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::str::FromStr;

use cellpace_base::{Span, parse_span};
use clap::Args;

use crate::output::complain;

/// Reads a seed.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| format!("`{text}` is not a whole number from 0 to {}", u64::MAX))
}

/// A reader of whole numbers in `range`.
pub(crate) fn whole<N>(
    range: RangeInclusive<N>,
) -> impl Fn(&str) -> Result<N, String> + Clone + Send + Sync + 'static
where
    N: FromStr + PartialOrd + Display + Send + Sync + Clone + 'static,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!("write a whole number from {} to {}", range.start(), range.end())
        })
    }
}

/// A length of time with its unit.
pub(crate) fn span(text: &str) -> Result<Span, String> {
    parse_span(text).map_err(|error| error.to_string())
}

/// How much a command writes on standard error. Errors are always written, by [`complain`].
#[derive(Debug, Clone, Copy, Default, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Verbosity {
    /// Print a line for each connection or event on standard error
    #[arg(long, short, conflicts_with = "quiet")]
    verbose: bool,
    /// Print nothing but errors on standard error
    #[arg(long, short)]
    quiet: bool,
}

impl Verbosity {
    /// Whether single connections and events are printed.
    pub(crate) fn is_verbose(self) -> bool {
        self.verbose
    }

    /// What prints notes: nothing with --quiet.
    pub(crate) fn printer(self) -> fn(&str) {
        if self.quiet { |_| {} } else { complain }
    }

    /// Prints what a person should know without having asked: warnings, addresses, summaries.
    pub(crate) fn note(self, text: &str) {
        self.printer()(text);
    }

    /// Whether nothing but errors is wanted.
    pub(crate) fn is_quiet(self) -> bool {
        self.quiet
    }

    /// Prints a line about one connection or event.
    pub(crate) fn detail(self, text: impl FnOnce() -> String) {
        if self.verbose {
            complain(&text());
        }
    }
}

/// A length of time that is not zero.
pub(crate) fn duration(text: &str) -> Result<Span, String> {
    match span(text)? {
        Span::ZERO => Err("nothing happens in no time: write at least 1ms".to_owned()),
        span => Ok(span),
    }
}
