//! Learnt policies: controllers that decide once per step, from an observation of the last steps.
//!
//! The same [`SteppedController`] runs while a policy is trained, when an environment decides from
//! outside, and afterwards, when a [`PolicyModel`] decides: both see and do the same.

mod action;
mod convention;
mod model;
mod observation;
mod params;
mod record;
mod signals;
mod stepped;

pub use action::{Action, ActionSpace};
pub use convention::Convention;
pub use model::PolicyModel;
pub use observation::{
    Feature, MAX_HISTORY, ORCA_DELAY_MARGIN, ORCA_LOSS_WEIGHT, Observation, orca_delay_metric,
};
pub(crate) use params::PolicyController;
pub use record::StepRecord;
pub use stepped::{StepLength, StepPolicy, StepRules, SteppedController};
