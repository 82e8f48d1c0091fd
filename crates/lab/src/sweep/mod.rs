//! Sweeps: every combination of traces, controllers, their parameters, paths and seeds, on all
//! cores or on many machines, with results that are kept as they come.
//!
//! A [`SweepPlan`] is what a person wrote, a [`Sweep`] what it means: cells, each of them one run.
//! A [`SweepFolder`] holds the results; [`run_sweep`] fills it on this machine.

mod cells;
mod controllers;
mod files;
mod folder;
mod local;
mod plan;
mod settings;
mod unit;

pub use cells::{Cell, MAX_CELLS, PARTITION_CELLS, Sweep};
pub use controllers::ParamScale;
pub use files::{PlanFiles, SweepFile};
pub use folder::{SWEEP_SCHEMA, SweepFolder, SweepManifest, SweepPart, read_results};
pub use local::{SweepEnd, run_sweep};
pub use plan::SweepPlan;
pub use unit::{CellRange, UnitTable, run_unit};
