//! Experiments as a library: what the commands of `cellpace` do, without its options and its text.
//!
//! ```
//! use cellpace_lab::Experiment;
//!
//! let experiment = Experiment {
//!     traces: vec!["lte-driving".parse()?],
//!     controllers: vec!["verus:r=2".parse()?, "cubic".parse()?],
//!     duration: Some(cellpace_base::Span::from_secs(5)),
//!     ..Experiment::default()
//! };
//! let comparison = experiment.run(None, &mut ())?;
//! assert!(comparison.runs[0].figures.utilization > 0.1);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod attack;
mod batch;
pub mod capture;
mod error;
mod event_log;
mod experiment;
mod files;
mod markov;
mod notice;
mod parallel;
pub mod recorded;
mod stack;
#[cfg(feature = "parquet")]
pub mod sweep;
pub mod trace;
#[cfg(feature = "transfer")]
pub mod transfer;

pub use cellpace_cc::ControllerSpec;
pub use cellpace_path::FieldError;
pub use cellpace_report::{Comparison, Run};
pub use cellpace_sim::{FlowSpec, PathText, Scenario};

pub use batch::{Batch, BatchResult, PlannedRun, RunResult, check_number};
pub use error::LabError;
pub use event_log::{EventFlow, EventLog, FlowMetrics, TcpMetrics, describe_event};
pub use experiment::{Experiment, NamedTrace};
pub use files::{open_file, read_controller, shown_name, shown_names, trace_files};
pub use markov::{
    ChainSink, EpochLog, Lesson, LoggedRun, ModelFigures, ModelPictures, SampleFile, StatesChoice,
    Training, check_name, learn, model_to_json, trace_source,
};
pub use notice::hand_notices_to;
pub use parallel::{WorkClock, WorkSink, run_all, simulate, threads};
pub use stack::StackSpec;
