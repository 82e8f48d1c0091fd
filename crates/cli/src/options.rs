//! Options and readers of option values that several commands share.

use std::fmt::Display;
use std::io::{ErrorKind, Read};
use std::ops::RangeInclusive;
use std::str::FromStr;

use cellpace_base::{Span, parse_span};
use cellpace_lab::open_file;
use clap::Args;

use crate::error::CommandError;
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

/// A scenario or a plan is written by hand; this is far more than anybody writes.
const MAX_TEXT_BYTES: u64 = 1 << 20;

/// Reads a text that a person wrote, from a file or standard input (`-`); `kind` is what it should
/// be.
pub(crate) fn read_text(file: &str, kind: &str) -> Result<String, CommandError> {
    let name = if file == "-" { "standard input" } else { file };
    let wrong = |error: std::io::Error| match error.kind() {
        ErrorKind::InvalidData => CommandError::usage(format!("{name}: not text: no {kind}")),
        ErrorKind::NotFound => CommandError::usage(format!("there is no file `{name}`")),
        _ => CommandError::usage(format!("{name}: {error}")),
    };
    let opened = open_file(file).map_err(wrong)?;
    let mut text = String::new();
    // What is no regular file (a pipe, a device) does not tell its size.
    let read = opened.take(MAX_TEXT_BYTES + 1).read_to_string(&mut text).map_err(wrong)?;
    if read as u64 > MAX_TEXT_BYTES {
        let most = MAX_TEXT_BYTES >> 20;
        return Err(CommandError::usage(format!("{name}: more than {most} MB are no {kind}")));
    }
    Ok(text)
}
