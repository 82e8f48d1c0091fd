//! The runs behind claims of papers: grids of scenarios over recorded traces or what stands for them,
//! trained Markov tables, and what was measured with real packets. The claims themselves and their
//! checks are the Python package `papers` of the repository.

#![forbid(unsafe_code)]

mod arrivals;
mod cache;
mod claim;
mod claim_words;
mod conditions;
mod depth;
mod error;
mod experiment;
mod fields;
mod grid;
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
mod table;
mod table_figures;
mod trace_sets;
mod trainings;
mod unit;

pub use cache::Cache;
pub use claim::{Analysis, Claim, ClaimRun};
pub use conditions::Conditions;
pub use depth::Depth;
pub use error::PaperError;
pub use experiment::Measured;
pub use machine::{Lateness, Machine};
pub use recording::Recording;
pub use records::Records;
pub use run::{ClaimResult, Plan, RunOptions, Unrun};
pub use table::{Row, Table};
pub use trace_sets::members;
pub use trainings::ClaimTraining;
pub use unit::Unit;
