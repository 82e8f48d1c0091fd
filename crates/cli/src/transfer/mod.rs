//! `cellpace send` and `cellpace recv`: data over UDP under any controller.

mod options;
mod recv;
mod send;

pub(crate) use options::{bind_for, listen_at, resolve};
pub(crate) use recv::{RecvArgs, run as run_recv};
pub(crate) use send::{SendArgs, run as run_send};

use std::io::{self, Write};
use std::path::Path;
use std::process::ExitCode;

use cellpace_lab::transfer::{TransferResult, TransferView};

use crate::error::CommandError;
use crate::output::{complain, one_line, pretty, write_json};
use crate::progress::interrupted;

/// Prints what a transfer shows.
struct Terminal {
    /// Whether lines for people go to standard error, as standard output is for data.
    quiet_stdout: bool,
}

impl TransferView for Terminal {
    fn on_lines(&mut self, lines: &[String]) {
        let text: String = lines.iter().map(|line| one_line(line) + "\n").collect();
        let _ = if self.quiet_stdout {
            io::stderr().lock().write_all(text.as_bytes())
        } else {
            let mut out = io::stdout().lock();
            out.write_all(text.as_bytes()).and_then(|()| out.flush())
        };
    }

    fn on_warning(&mut self, text: &str) {
        complain(text);
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}

/// Writes the figures, and says whether a flow failed.
fn conclude(result: &TransferResult, json: Option<&Path>) -> Result<ExitCode, CommandError> {
    write_json(json, || pretty(&result.document))?;
    match &result.failed {
        None => Ok(ExitCode::SUCCESS),
        Some(None) => Ok(ExitCode::FAILURE),
        Some(Some(reason)) => Err(CommandError::failed(reason)),
    }
}
