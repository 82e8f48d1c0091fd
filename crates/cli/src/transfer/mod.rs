//! `cellpace send` and `cellpace recv`: data over UDP under any controller.

mod options;
#[cfg(feature = "quic")]
mod quic;
#[cfg(not(feature = "quic"))]
#[path = "quic_missing.rs"]
mod quic;
mod quic_options;
mod recv;
mod run;
mod send;

pub(crate) use recv::RecvArgs;
pub(crate) use run::{run_recv, run_send};
pub(crate) use send::SendArgs;

use std::process::ExitCode;

use cellpace_lab::transfer::{TransferResult, TransferView};
use cellpace_report::indented;

use self::options::Common;
use crate::error::CommandError;
use crate::options::Verbosity;
use crate::output::{one_line, print_lines};
use crate::progress::{interrupted, interruption_code};

/// Prints what a transfer shows.
struct Terminal {
    /// Whether lines for people go to standard error, as standard output is for data.
    quiet_stdout: bool,
    verbosity: Verbosity,
}

impl TransferView for Terminal {
    fn on_lines(&mut self, lines: &[String]) {
        if self.verbosity.is_quiet() {
            return;
        }
        let text: String = lines.iter().map(|line| one_line(line) + "\n").collect();
        print_lines(&text, self.quiet_stdout);
    }

    fn on_warning(&mut self, text: &str) {
        self.verbosity.note(text);
    }

    fn on_detail(&mut self, line: &str) {
        self.verbosity.detail(|| line.to_owned());
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}

/// Writes the figures, and returns an error if a flow failed.
fn conclude(result: &TransferResult, common: &Common) -> Result<ExitCode, CommandError> {
    common.files.write(|| indented(&result.document))?;
    match &result.reasons[..] {
        _ if interrupted() => Ok(interruption_code()),
        [] if result.failed => Ok(ExitCode::FAILURE),
        [] => Ok(ExitCode::SUCCESS),
        reasons => Err(CommandError::failed(reasons.join("; "))),
    }
}
