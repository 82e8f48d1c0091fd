//! One run, watched closely: beside its figures when packets arrive and what a controller has learnt.

use std::sync::Arc;

use cellpace_base::{Span, Time};
use cellpace_lab::{PlannedRun, Scenario, StackSpec, WorkClock, shown_name, simulate, trace_files};
use cellpace_path::{Fate, PacketRecord};
use cellpace_sim::{FlowView, Observer, Outcome};
use pyo3::prelude::*;
use serde_json::json;

use crate::error::{Failure, without_python};
use crate::table::{ArrowTable, integers};

/// What one call asks for.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Observing {
    /// What errors call the scenario.
    name: String,
    /// The scenario as TOML.
    text: String,
    /// A seed in place of the scenario's.
    seed: Option<u64>,
    series: bool,
    arrivals: bool,
    profiles: bool,
}

/// A delay profile: when it was looked at, its points and its curve, both by ascending window.
type Profile = (f64, Vec<(f64, f64)>, Vec<(f64, f64)>);

/// The document of the run, times of arrival, profiles.
type Observed = (String, Option<ArrowTable>, Vec<Profile>);

#[derive(Default)]
struct Watch {
    keeps_arrivals: bool,
    keeps_profiles: bool,
    arrivals: Vec<Time>,
    profiles: Vec<Profile>,
}

impl Observer for Watch {
    fn on_record(&mut self, record: &PacketRecord) {
        if self.keeps_arrivals && record.fate == Fate::Delivered {
            self.arrivals.push(record.packet.departed_at);
        }
    }

    fn interval(&self) -> Option<Span> {
        self.keeps_profiles.then(|| Span::from_secs(1))
    }

    fn on_interval(&mut self, at: Time, flow: FlowView<'_>) {
        if flow.flow() == 0
            && let Some(profile) = flow.controller().profile()
        {
            self.profiles.push((at.as_secs_f64(), profile.points, profile.curve));
        }
    }
}

/// Simulates a scenario once, without other threads: many calls at once use as many cores.
#[pyfunction]
pub(crate) fn observe(py: Python<'_>, wish: Observing) -> PyResult<Observed> {
    let (run, mut watch) = without_python(py, move || {
        let refused = |error: &dyn std::fmt::Display| Failure::Refused(error.to_string());
        let scenario = Scenario::from_toml(&wish.name, &wish.text, &mut trace_files());
        let mut scenario = scenario.map_err(|error| refused(&error))?;
        scenario.seed = wish.seed.unwrap_or(scenario.seed);
        let mut watch = Watch {
            keeps_arrivals: wish.arrivals,
            keeps_profiles: wish.profiles,
            ..Watch::default()
        };
        let outcome = simulate(&scenario, &mut watch, &WorkClock::default());
        let outcome = outcome.map_err(|error| refused(&error))?;
        let outcome = outcome.ok_or_else(|| Failure::Refused("the run was stopped".to_owned()))?;
        let run = document(scenario, outcome, wish.series).map_err(|error| refused(&error))?;
        Ok((run, watch))
    })?;
    watch.arrivals.sort_unstable();
    let at_ns = || integers(watch.arrivals.iter().map(|at| at.as_nanos()));
    let table = || ArrowTable::new("cellpace.arrivals/1", vec![("at_ns", at_ns())]);
    let arrivals = watch.keeps_arrivals.then(table).transpose()?;
    Ok((run, arrivals, watch.profiles))
}

/// The run as `cellpace sim --json` writes it, with what is asked of single runs only: packets sent
/// again, and the base RTT of each flow.
fn document(
    scenario: Scenario,
    outcome: Outcome,
    keeps_series: bool,
) -> Result<String, serde_json::Error> {
    let retransmissions = json!(outcome.retransmissions);
    let run = PlannedRun {
        cc: scenario.flow_names(),
        trace: shown_name(&scenario.trace().to_string()),
        seed: scenario.seed,
        scenario: Arc::new(scenario),
        stack: StackSpec::default(),
    };
    let mut document = serde_json::to_value(run.result(outcome, keeps_series))?;
    document["retransmissions"] = retransmissions;
    for (at, flow) in run.scenario.flows.iter().enumerate() {
        let rtt = flow.rtt.unwrap_or_else(|| run.scenario.base_rtt());
        document["per_flow"][at]["rtt_ms"] = json!(rtt.as_millis_f64());
    }
    Ok(document.to_string())
}
