//! Controllers over traces and seeds, each alone.

use std::str::FromStr;
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;
use cellpace_report::Comparison;
use cellpace_sim::{FlowSpec, FlowTraffic, Scenario, TransferSpec, VideoSpec};

use crate::batch::{Batch, MAX_SERIES_VALUES, PlannedRun, RunResult, check_number, series_values};
use crate::files::{shown_name, shown_names, trace_files};
use crate::stack::StackSpec;
use crate::{LabError, WorkSink, threads};

/// A trace under the name that results show.
#[derive(Debug, Clone)]
pub struct NamedTrace {
    /// The name.
    pub name: String,
    /// The trace.
    pub spec: TraceSpec,
}

impl NamedTrace {
    /// Reads traces in their written form: a file in Mahimahi format, a profile (`lte-driving`) or
    /// a generated one (`constant:12mbit`). Files are shown without their folders, unless two would
    /// then have the same name.
    ///
    /// # Errors
    /// When one of them cannot be read.
    pub fn read_all(texts: &[String], files: &mut TraceFiles<'_>) -> Result<Vec<Self>, LabError> {
        let read = |(text, name): (&String, String)| {
            let spec = TraceSpec::parse(text, files).map_err(LabError::invalid)?;
            Ok(Self { name, spec })
        };
        texts.iter().zip(shown_names(texts)).map(read).collect()
    }

    /// The trace of a path whose field `path` has this text.
    pub fn of_path(text: &str, path: &Scenario) -> Self {
        Self { name: shown_name(text), spec: path.trace().clone() }
    }

    /// The same trace, begun at `start`; results show a start other than 0.
    #[must_use]
    pub fn starting_at(self, start: Span) -> Self {
        let Self { name, spec } = self;
        let name = if start.is_zero() { name } else { format!("{name} from {start}") };
        Self { name, spec: spec.starting_at(start) }
    }
}

/// Reads a trace in its written form, with files of this machine.
impl FromStr for NamedTrace {
    type Err = LabError;

    fn from_str(text: &str) -> Result<Self, LabError> {
        let spec = TraceSpec::parse(text, &mut trace_files()).map_err(LabError::invalid)?;
        Ok(Self { name: shown_name(text), spec })
    }
}

/// Every combination of trace, controller and seed, in this order.
#[derive(Debug, Clone)]
pub struct Experiment {
    /// The traces.
    pub traces: Vec<NamedTrace>,
    /// The controllers, those of the registry or your own; each has the link for itself.
    pub controllers: Vec<ControllerSpec>,
    /// Who sends: each controller runs in each of them, but in those that come with one of their own.
    pub stacks: Vec<StackSpec>,
    /// The seeds.
    pub seeds: Vec<u64>,
    /// Flows of the same controller that share the link.
    pub flows: u32,
    /// What each flow downloads; `None`: it always has data.
    pub transfer: Option<TransferSpec>,
    /// The video that each flow carries in place of downloads.
    pub video: Option<VideoSpec>,
    /// Length of a run; `None`: [`TraceSpec::default_duration`].
    pub duration: Option<Span>,
    /// Everything else about the path. Its trace, flows, seed, duration and bins are not used.
    pub path: Scenario,
}

impl Default for Experiment {
    /// One flow of the simulator's own sender, seed 1, and the path of [`Scenario::default`]; no trace and no controller yet.
    fn default() -> Self {
        Self {
            traces: Vec::new(),
            controllers: Vec::new(),
            stacks: vec![StackSpec::Builtin],
            seeds: vec![1],
            flows: 1,
            transfer: None,
            video: None,
            duration: None,
            path: Scenario::default(),
        }
    }
}

impl Experiment {
    /// Does all runs, `jobs` at a time (`None`: one per core). Each depends on nothing but its own
    /// scenario, so the results and their order are the same whatever the number of jobs. When the
    /// sink is cancelled, the comparison has the runs that are finished.
    ///
    /// # Errors
    /// When the experiment contradicts itself or is larger than memory, or a run fails.
    pub fn run(
        &self,
        jobs: Option<u16>,
        sink: &mut dyn WorkSink<RunResult>,
    ) -> Result<Comparison, LabError> {
        let finished = Batch::new(self.plan()?).run(threads(jobs), sink)?;
        match finished.failed.into_iter().next() {
            Some(error) => Err(error),
            None => Ok(finished.comparison),
        }
    }

    /// Returns the runs to do.
    ///
    /// # Errors
    /// When the experiment contradicts itself or is larger than memory.
    pub fn plan(&self) -> Result<Vec<PlannedRun>, LabError> {
        let senders = self.senders()?;
        let count = (self.traces.len() * senders.len() * self.seeds.len()) as u64;
        check_number(count, u64::from(self.flows))?;
        let mut runs = Vec::new();
        for trace in &self.traces {
            for (stack, cc) in &senders {
                let scenario = Arc::new(self.scenario(trace, cc, count)?);
                // Before anything runs, so that a mistake does not show after an hour.
                stack.check(&scenario)?;
                runs.extend(self.seeds.iter().map(|seed| PlannedRun {
                    cc: stack.run_name(&cc.to_string()),
                    trace: trace.name.clone(),
                    scenario: Arc::clone(&scenario),
                    seed: *seed,
                    stack: *stack,
                }));
            }
        }
        Ok(runs)
    }

    /// Controllers and who sends under them; those that come with their own are last.
    fn senders(&self) -> Result<Vec<(StackSpec, ControllerSpec)>, LabError> {
        let (own, others): (Vec<StackSpec>, Vec<StackSpec>) =
            self.stacks.iter().partition(|stack| stack.has_controller());
        let of = |cc: &ControllerSpec| -> Vec<_> {
            others.iter().map(|stack| (*stack, cc.clone())).collect()
        };
        let mut senders: Vec<_> = self.controllers.iter().flat_map(of).collect();
        // Stands for a controller that the scenario does not know.
        let unknown: ControllerSpec = "fixed".parse().map_err(LabError::invalid)?;
        senders.extend(own.into_iter().map(|stack| (stack, unknown.clone())));
        Ok(senders)
    }

    fn flow(&self, cc: &ControllerSpec) -> FlowSpec {
        let video = self.video.clone().map(FlowTraffic::Video);
        let transfer = self.transfer.clone().map(FlowTraffic::Transfers);
        let traffic = video.or(transfer).unwrap_or(FlowTraffic::Bulk);
        FlowSpec { traffic, ..FlowSpec::bulk(cc.clone()) }
    }

    fn scenario(
        &self,
        trace: &NamedTrace,
        cc: &ControllerSpec,
        runs: u64,
    ) -> Result<Scenario, LabError> {
        let mut scenario = Scenario {
            flows: vec![self.flow(cc); self.flows as usize],
            duration: self.duration.unwrap_or_else(|| trace.spec.default_duration()),
            ..self.path.clone()
        }
        .with_link(|link| link.down.trace = Some(trace.spec.clone()));
        scenario.bin = bin_width(&scenario, runs);
        scenario.check().and_then(|()| scenario.check_delivers())?;
        Ok(scenario)
    }
}

/// Values that the series of one run have at most, unless bins of a minute make more: several
/// runs go on at the same time.
const MAX_VALUES_OF_A_RUN: u64 = 20_000_000;

/// The width of the bins of the series: 100 ms, or as wide as long runs of many flows need for
/// charts that fit into memory.
pub(crate) fn bin_width(scenario: &Scenario, runs: u64) -> Span {
    const WIDTHS_MS: [u64; 9] = [100, 200, 500, 1_000, 2_000, 5_000, 10_000, 30_000, 60_000];
    // Series of all runs are in memory at the end, those of a few while they run.
    let most = (MAX_SERIES_VALUES / runs.max(1)).min(MAX_VALUES_OF_A_RUN);
    let widths = || WIDTHS_MS.iter().map(|ms| Span::from_millis(*ms));
    let fits = widths().find(|width| series_values(scenario, *width) <= most);
    fits.or(widths().next_back()).unwrap_or(scenario.bin)
}
