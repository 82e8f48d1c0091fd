//! `--json` and `--report`: the document of a command, and its page.

use std::path::PathBuf;

use clap::Args;

use crate::error::CommandError;
use crate::output::{OutputOption, is_stdout, write};
use crate::report::write_report;

/// Options for the document of a command and its page.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct ResultFiles {
    /// Write the figures as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write one HTML page that works offline
    #[arg(long, value_name = "FILE.html")]
    pub(crate) report: Option<PathBuf>,
}

impl ResultFiles {
    /// Both, for [`check_files`](crate::output::check_files).
    pub(crate) fn options(&self) -> [OutputOption<'_>; 2] {
        [("--json", self.json.as_deref()), ("--report", self.report.as_deref())]
    }

    /// Whether either goes to standard output, where there is nothing else then.
    pub(crate) fn use_stdout(&self) -> bool {
        self.options().iter().any(|(_, file)| file.is_some_and(is_stdout))
    }

    /// Writes what is wanted of a document. One that cannot be written does not keep the other back.
    pub(crate) fn write(&self, document: impl FnOnce() -> String) -> Result<(), CommandError> {
        if self.json.is_none() && self.report.is_none() {
            return Ok(());
        }
        let document = document();
        let page = self.report.as_ref().map_or(Ok(()), |path| write_report(path, &[&document]));
        let data = self.json.as_ref().map_or(Ok(()), |path| write(path, &document));
        page.and(data)
    }
}
