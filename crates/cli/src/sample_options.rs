//! The options that have real flows leave samples for a Markov model.

use std::path::{Path, PathBuf};

use cellpace_cc::ControllerSpec;
use cellpace_lab::SampleFile;
use clap::Args;

use crate::error::CommandError;
use crate::output::complain;

/// Behind the other outputs, which more people ask for.
const LAST: usize = 900;

/// Options for samples.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct SampleOptions {
    /// Write a sample of each flow every 5 ms, of which `cellpace mdi convert` makes a model
    #[arg(long, value_name = "FILE.csv", display_order = LAST)]
    mdi_samples: Option<PathBuf>,
    /// How many flows share the bottleneck, as the samples say [default: unknown]
    #[arg(long, value_name = "N", requires = "mdi_samples", display_order = LAST,
        value_parser = clap::value_parser!(u32).range(1..=256))]
    mdi_users: Option<u32>,
}

impl SampleOptions {
    /// The file that is written.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.mdi_samples.as_deref()
    }

    /// The option that wants controllers in this process, where it was given.
    pub(crate) fn option(&self) -> Option<&'static str> {
        self.mdi_samples.as_ref().map(|_| "--mdi-samples")
    }

    /// The same controllers, watched where samples are asked for.
    pub(crate) fn watch(
        &self,
        ccs: &[ControllerSpec],
    ) -> Result<Vec<ControllerSpec>, CommandError> {
        let Some(path) = &self.mdi_samples else { return Ok(ccs.to_vec()) };
        let file = SampleFile::create(path, self.mdi_users.unwrap_or(0), complain);
        let file = file.map_err(|error| {
            CommandError::failed(format!("--mdi-samples: {}: {error}", path.display()))
        })?;
        Ok(ccs.iter().map(|cc| file.watching(cc)).collect())
    }
}
