//! Experiments on live traffic: which arm a connection gets, what is recorded of it, when a guard
//! ends the experiment, and what the records say.
//!
//! Nothing here reads a clock, a socket or a file.

#![forbid(unsafe_code)]

mod assign;
mod config;
mod error;
mod figure;
mod guard;
mod plan;
mod record;
mod statistics;

pub use assign::{Assigner, Assignment};
pub use config::{Arm, AssignBy, Experiment, ExperimentSecret, GuardLimit};
pub use error::{ExperimentError, RecordError};
pub use figure::{Figure, FigureKind};
pub use guard::Guard;
pub use plan::{EXPERIMENT_PLAN_SCHEMA, ExperimentPlan, PLAN_DIFFERENCES, PlannedFigure};
pub use record::{
    ArmDescription, ConnectionRecord, EXPERIMENT_SCHEMA, ExperimentEntry, ExperimentLine,
    ExperimentRecords, ExperimentStart, GuardLook, SlotRecord,
};
pub use statistics::{
    ArmComparison, ArmCounts, ArmFigure, EXPERIMENT_RESULT_SCHEMA, Estimate, ExperimentResult,
    FigureComparison, GroupComparison, LEVELS,
};
