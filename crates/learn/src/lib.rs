//! Environments to learn policies in: flows of the simulator whose controllers are decided from
//! outside, once per step of virtual time.

#![forbid(unsafe_code)]

mod environment;
mod reward;
mod vector;

pub use cellpace_cc::policy::{ActionSpace, Convention, Observation, StepRecord, StepRules};
pub use environment::{
    Environment, EnvironmentSpec, LinkTruth, MAX_LEARNERS, RttRange, StepOutcome,
};
pub use reward::reward;
pub use vector::{Autoreset, Lane, VectorEnvironment};
