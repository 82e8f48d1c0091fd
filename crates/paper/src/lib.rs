//! Claims of papers as scenarios with verdicts.
//!
//! A claim is a file: what a paper says, runs of scenarios, checks of their figures, and the verdict
//! that is expected of them. [`Library`] has those that come with the program, a [`Plan`] runs them.
//!
//! ```
//! let library = cellpace_paper::Library::embedded()?;
//! assert!(library.claims().iter().any(|claim| claim.id == "verus-table1"));
//! # Ok::<(), cellpace_paper::PaperError>(())
//! ```

#![forbid(unsafe_code)]

mod arrivals;
mod cache;
mod charts;
mod check;
mod claim;
mod claim_words;
mod conditions;
mod depth;
mod document;
mod embedded;
mod error;
mod experiment;
pub mod expression;
mod fields;
mod grid;
mod headlines;
mod judge;
mod library;
mod machine;
mod predictions;
mod profiles;
mod radio;
mod recorded;
mod recording;
mod records;
mod run;
mod scenarios;
mod statistics;
mod table_figures;
mod trace_sets;
mod trainings;
mod unit;
mod verdict;

pub use cache::Cache;
pub use check::CheckResult;
pub use claim::{Analysis, Chart, Check, Claim, ClaimRun, Level, Mode, Setup};
pub use conditions::Conditions;
pub use depth::Depth;
pub use document::{Front, document};
pub use error::PaperError;
pub use experiment::Measured;
pub use headlines::HEADLINES;
pub use library::Library;
pub use machine::{Lateness, Machine};
pub use recording::Recording;
pub use run::{ClaimResult, Plan, RunOptions, Unrun, command_lines, training_lines};
pub use trainings::ClaimTraining;
pub use unit::Unit;
pub use verdict::Verdict;
