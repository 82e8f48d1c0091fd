//! Tests of `cellpace-experiment` from outside: each module is one subject.

// The clippy setting for tests covers test functions, not what they call.
#![allow(clippy::unwrap_used)]

mod assignment;
mod comparing;
mod files;
mod guarding;
mod model;
mod records;

use cellpace_experiment::{Experiment, ExperimentError};

/// Head and arms of a file; more fields of the experiment, and more tables, come with it.
fn text(fields: &str, tables: &str) -> String {
    format!(
        "[experiment]\nname = \"bbr\"\nsecret = \"0123456789abcdef\"\n{fields}\n[[arm]]\nname = \"plain\"\n\
         [[arm]]\nname = \"pace\"\ncc = \"pace\"\n{tables}"
    )
}

/// Reads a file; there are the controllers `pace` and `copa`.
fn read(text: &str) -> Result<Experiment, ExperimentError> {
    Experiment::read(text, |cc| match cc {
        "pace" | "copa" => Ok(()),
        other => Err(format!("there is no controller `{other}`")),
    })
}

fn experiment(fields: &str, tables: &str) -> Experiment {
    read(&text(fields, tables)).unwrap()
}
