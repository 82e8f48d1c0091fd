//! Markov tables (MDI): a delay-based congestion controller as a two-dimensional Markov chain,
//! learnt from another controller's samples and replayed by a guided random walk (Pötsch et al.,
//! "Model-driven delay-based congestion control for cellular networks", 2017, and its successor
//! of 2021).
//!
//! - A teacher is logged as [`Sample`]s, one per epoch, in [chains](Chain).
//! - [`States`] turn samples into states: absolute (2017) or relative (2021).
//! - [`Counts`] count the transitions; a [`Model`] keeps them per number of users with where they
//!   come from. Counts are integers, so models merge exactly.
//! - A [`Table`] is what a model becomes for running: flat integers, a [`TableWalk`] over which takes
//!   one binary search and one random draw per epoch.
//!
//! Everything that decides about a window is integer arithmetic, so that the same seed and the
//! same delays give the same windows in every runtime.

#![forbid(unsafe_code)]

mod analysis;
pub mod built_in;
mod change;
mod counts;
mod csv;
mod file;
mod flat;
mod matrix_csv;
mod mixture;
mod model;
mod normalise;
mod sample;
mod samples_csv;
mod states;
mod table;
mod vector;
mod walk;

pub use analysis::{Analysis, Stationary, TransitionMatrix};
pub use change::{LOG2_TABLE, WindowQ16, log10_q16, relative_change, relative_step};
pub use counts::{Counts, TransitionCount};
pub use file::{FileError, MAGIC, VERSION};
pub use flat::Flat;
pub use matrix_csv::{CsvError, matrix_csv};
pub use model::{About, MergeError, Model, ModelPart, TraceName};
pub use normalise::{PRUNE, normalise};
pub use sample::{Chain, Sample};
pub use samples_csv::{
    LoggedFlows, MAX_SAMPLES, MAX_USERS, SAMPLES_HEADER, SamplesError, read_samples, write_chain,
    write_samples,
};
pub use states::{Absolute, Axis, Base, Levels, Relative, States, StatesError};
pub use table::{Empty, Table, TableShape, WindowSampler};
pub use vector::{VectorEvent, VectorStep, test_vector};
pub use walk::{Draws, OutOfRange, TableWalk};
