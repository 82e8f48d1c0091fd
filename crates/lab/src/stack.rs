//! Who sends in a simulated run: the simulator's own sender, or a QUIC library.

use std::fmt;
use std::str::FromStr;

use cellpace_sim::{Observer, Outcome, Scenario, Simulation};

use crate::LabError;
use crate::parallel::{WorkClock, run_to_end, step_of};

/// Who sends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum StackSpec {
    /// The simulator's own sender.
    #[default]
    Builtin,
    /// A QUIC library over the same path, TLS and all.
    #[cfg(feature = "quic")]
    Quic(cellpace_quic::virtual_time::Sender),
}

impl FromStr for StackSpec {
    type Err = LabError;

    /// Reads `builtin`, `noq`, `quinn`, or `noq:cc=cubic` for the library's own controller.
    fn from_str(text: &str) -> Result<Self, LabError> {
        if text.trim() == "builtin" {
            return Ok(Self::Builtin);
        }
        #[cfg(feature = "quic")]
        {
            let sender = text.trim().parse();
            let wrong = |error| format!("{error}; or builtin for the simulator's own sender");
            sender.map(Self::Quic).map_err(|error| LabError::invalid(wrong(error)))
        }
        #[cfg(not(feature = "quic"))]
        Err(LabError::Invalid(format!(
            "`{text}`: this program was built without the feature `quic`, so there is builtin alone"
        )))
    }
}

impl fmt::Display for StackSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Builtin => f.write_str("builtin"),
            #[cfg(feature = "quic")]
            Self::Quic(sender) => sender.fmt(f),
        }
    }
}

impl StackSpec {
    /// Whether it comes with a controller of its own, in place of those of an experiment.
    pub fn has_controller(self) -> bool {
        match self {
            Self::Builtin => false,
            #[cfg(feature = "quic")]
            Self::Quic(sender) => sender.own.is_some(),
        }
    }

    /// What results call a run under `cc`.
    pub(crate) fn run_name(self, cc: &str) -> String {
        if self == Self::Builtin {
            return cc.to_owned();
        }
        // With a controller of the library's own, that of the scenario does nothing and has no
        // place in the name.
        if self.has_controller() { self.to_string() } else { format!("{cc} in {self}") }
    }

    /// Simulates a scenario with this sender and reports to `clock` how far it is. `None`: stopped by
    /// the clock.
    pub(crate) fn simulate(
        self,
        scenario: &Scenario,
        observer: &mut impl Observer,
        clock: &WorkClock,
    ) -> Result<Option<Outcome>, LabError> {
        let simulation = self.simulation(scenario).map_err(LabError::failed)?;
        let outcome = run_to_end(simulation, step_of(scenario), observer, clock);
        let mut outcome = outcome.map_err(LabError::failed)?;
        if self.has_controller()
            && let Some(outcome) = &mut outcome
        {
            // The scenario's controller stood for one that it does not know.
            outcome.figures.per_flow.iter_mut().for_each(|flow| flow.cc = self.to_string());
        }
        Ok(outcome)
    }

    /// Refuses what this sender, or that of a flow, cannot do.
    pub(crate) fn check(self, scenario: &Scenario) -> Result<(), LabError> {
        let is_builtin =
            self == Self::Builtin && scenario.flows.iter().all(|flow| flow.stack.is_none());
        if is_builtin {
            return Ok(());
        }
        // Built and dropped: what a library refuses shows only when its ends are made.
        self.simulation(scenario).map(|_| ())
    }

    /// The run at time zero. A flow may name a sender of its own.
    #[cfg(feature = "quic")]
    fn simulation(self, scenario: &Scenario) -> Result<Simulation, LabError> {
        // Libraries want an `Instant`; it stands for the zero of virtual time.
        let zero = std::time::Instant::now();
        Simulation::with_ends(scenario, |index, flow| {
            let stack = match &flow.stack {
                None => self,
                Some(text) => text.parse().map_err(|error| {
                    LabError::Invalid(format!("flow {}: stack: {error}", index + 1))
                })?,
            };
            let Self::Quic(sender) = stack else { return Ok(None) };
            let ends = cellpace_quic::virtual_time::flow_ends(scenario, index, flow, sender, zero);
            ends.map(Some).map_err(LabError::invalid)
        })
    }

    #[cfg(not(feature = "quic"))]
    fn simulation(self, scenario: &Scenario) -> Result<Simulation, LabError> {
        Ok(Simulation::new(scenario)?)
    }
}
