//! Environments to learn policies in: a flow of the simulator whose controller is decided from
//! outside, once per step of virtual time.

#![forbid(unsafe_code)]

mod environment;
mod reward;
mod vector;

pub use cellpace_cc::policy::{ActionSpace, Convention, Observation, StepRecord, StepRules};
pub use environment::{Environment, EnvironmentSpec, LinkTruth, RttRange, StepOutcome};
pub use reward::reward;
pub use vector::{Autoreset, Lane, VectorEnvironment};
