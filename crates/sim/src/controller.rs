//! The controllers of flows: those of the registry, and those of anybody else.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cellpace_cc::{Controller, ControllerSpec, Receiver, Setup, SpecError};

/// Builds a controller for each connection of a flow.
type BuildController = dyn Fn(Setup) -> Box<dyn Controller> + Send + Sync;

/// The controller of a flow: one of the registry with its parameters, or one that the caller
/// brings along.
///
/// ```
/// use cellpace_cc::{Controller, Permit};
/// use cellpace_sim::{FlowController, FlowSpec, Scenario, run};
///
/// struct TenPackets(u64);
///
/// impl Controller for TenPackets {
///     fn permit(&self) -> Permit {
///         Permit::Window(10 * self.0)
///     }
/// }
///
/// let own = FlowController::new("ten", |setup| Box::new(TenPackets(setup.mss)));
/// let scenario = Scenario {
///     flows: vec![FlowSpec::bulk(own), FlowSpec::bulk("verus".parse()?)],
///     ..Scenario::default()
/// };
/// assert_eq!(run(&scenario)?.figures.per_flow[0].cc, "ten");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct FlowController(ControllerOrigin);

#[derive(Clone)]
enum ControllerOrigin {
    Registry(ControllerSpec),
    Caller { name: Arc<str>, build: Arc<BuildController> },
}

impl FlowController {
    /// A controller that `build` makes, once per connection; results bear `name`.
    pub fn new(
        name: &str,
        build: impl Fn(Setup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self(ControllerOrigin::Caller { name: name.into(), build: Arc::new(build) })
    }

    /// A new controller.
    pub fn build(&self, setup: Setup) -> Box<dyn Controller> {
        match &self.0 {
            ControllerOrigin::Registry(spec) => spec.build(setup),
            ControllerOrigin::Caller { build, .. } => build(setup),
        }
    }

    /// A new receiver half, if the algorithm has one. Controllers of the caller have none.
    pub fn build_receiver(&self, setup: Setup) -> Option<Box<dyn Receiver>> {
        match &self.0 {
            ControllerOrigin::Registry(spec) => spec.build_receiver(setup),
            ControllerOrigin::Caller { .. } => None,
        }
    }
}

impl From<ControllerSpec> for FlowController {
    fn from(spec: ControllerSpec) -> Self {
        Self(ControllerOrigin::Registry(spec))
    }
}

/// Reads a controller of the registry that needs no files.
impl FromStr for FlowController {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        text.parse::<ControllerSpec>().map(Self::from)
    }
}

impl fmt::Display for FlowController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ControllerOrigin::Registry(spec) => spec.fmt(f),
            ControllerOrigin::Caller { name, .. } => f.write_str(name),
        }
    }
}

impl fmt::Debug for FlowController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FlowController({self})")
    }
}
