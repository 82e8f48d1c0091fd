//! Who sends in a simulated run: the simulator's own sender, or a QUIC library.

use std::fmt;
use std::str::FromStr;

use cellpace_sim::{Observer, Outcome, Scenario};

use crate::LabError;
use crate::parallel::{WorkClock, simulate};

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
        match self {
            Self::Builtin => simulate(scenario, observer, clock).map_err(LabError::failed),
            #[cfg(feature = "quic")]
            Self::Quic(sender) => quic(sender, scenario, observer, clock).map_err(LabError::failed),
        }
    }

    /// Refuses what this sender cannot do.
    #[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "nothing is refused"))]
    pub(crate) fn check(self, scenario: &Scenario) -> Result<(), LabError> {
        match self {
            Self::Builtin => Ok(()),
            #[cfg(feature = "quic")]
            Self::Quic(sender) => {
                let made = cellpace_quic::virtual_time::Simulation::new(scenario, sender);
                made.map(|_| ()).map_err(LabError::invalid)
            }
        }
    }
}

#[cfg(feature = "quic")]
fn quic(
    sender: cellpace_quic::virtual_time::Sender,
    scenario: &Scenario,
    observer: &mut impl Observer,
    clock: &WorkClock,
) -> Result<Option<Outcome>, cellpace_quic::virtual_time::VirtualTimeError> {
    let mut simulation = cellpace_quic::virtual_time::Simulation::new(scenario, sender)?;
    let step = crate::parallel::step_of(scenario);
    while !simulation.is_over() {
        if clock.is_stopped() {
            return Ok(None);
        }
        let before = simulation.now();
        simulation.advance_observed(before + step, observer)?;
        clock.add(simulation.now() - before);
    }
    let mut outcome = simulation.finish()?;
    if sender.own.is_some() {
        outcome.figures.per_flow.iter_mut().for_each(|flow| flow.cc = sender.to_string());
    }
    Ok(Some(outcome))
}
