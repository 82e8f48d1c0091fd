//! Simulated runs: done in parallel, watched, and collected.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use cellpace_base::{Span, Time};
use cellpace_cc::{Event, Permit};
use cellpace_measure::TransferSummary;
use cellpace_path::PacketRecord;
use cellpace_report::{Aside, Comparison, PacketAck, PacketLog, ReportError, Run};
use cellpace_sim::{FlowSpec, FlowView, Observer, Outcome, Scenario};

use crate::LabError;
use crate::event_log::{EventFlow, EventLog, FlowMetrics};
use crate::parallel::{WorkClock, WorkSink, run_all};
use crate::stack::StackSpec;

/// One run to do.
#[derive(Debug, Clone)]
pub struct PlannedRun {
    /// The controllers as shown.
    pub cc: String,
    /// The trace as shown.
    pub trace: String,
    /// The scenario, which the runs with other seeds share.
    pub scenario: Arc<Scenario>,
    /// The seed in place of the scenario's.
    pub seed: u64,
    /// Who sends.
    pub stack: StackSpec,
}

impl PlannedRun {
    /// Returns the scenario with the run's own seed.
    pub fn seeded(&self) -> Scenario {
        Scenario { seed: self.seed, ..Scenario::clone(&self.scenario) }
    }

    /// Returns what results say of the run, with figures over time if `series`.
    pub fn result(&self, outcome: Outcome, series: bool) -> Run {
        let scenario = &self.scenario;
        Run {
            cc: self.cc.clone(),
            trace: self.trace.clone(),
            seed: self.seed,
            rtt_ms: scenario.base_rtt().as_millis_f64(),
            queue: scenario.link.down.queue.to_string(),
            // Loss may change over time, and a column of results has one number.
            loss: scenario.link.down.loss.mean_until(scenario.duration),
            flows: scenario.flows.len(),
            duration_s: scenario.duration.as_secs_f64(),
            skip_s: scenario.skip.as_secs_f64(),
            path: other_conditions(scenario),
            figures: outcome.figures,
            // Left out by default, so that the same command gives the same bytes.
            wall_s: None,
            series: series.then_some(outcome.series),
            transfer_summary: TransferSummary::per_cc(&outcome.transfers),
            real_time: None,
            transfers: outcome.transfers,
        }
    }
}

fn other_conditions(scenario: &Scenario) -> BTreeMap<String, String> {
    let all = scenario.link.other_conditions().into_iter();
    all.map(|(name, value)| (name.to_owned(), value)).collect()
}

/// What came out of a run.
pub type RunResult = Result<Run, LabError>;

/// Runs to do, and what to keep of them beside their figures.
#[derive(Default)]
pub struct Batch {
    /// The runs.
    pub runs: Vec<PlannedRun>,
    /// Whether to keep figures over time, for charts.
    pub series: bool,
    /// Whether to report the wall time of each run. The results then differ from one time to the
    /// next.
    pub timing: bool,
    /// Where to write what became of every packet. The runs then take turns.
    pub packets: Option<PacketLog>,
    /// Where to write what the controllers decide. The runs then take turns.
    pub events: Option<EventLog<Aside>>,
}

/// What came out of a batch.
#[derive(Debug)]
pub struct BatchResult {
    /// The runs that succeeded, in the order of the batch.
    pub comparison: Comparison,
    /// The errors of the others.
    pub failed: Vec<LabError>,
    /// Runs that were not done, because the sink was cancelled or a run panicked.
    pub missing: usize,
    /// Whether the packet log could be written.
    pub packets: Result<(), ReportError>,
    /// Whether the event log could be written.
    pub events: Result<(), LabError>,
}

/// Flows of all runs together: each has its figures in the results.
const MAX_FLOWS: u64 = 250_000;

/// Numbers that the series of all runs together may have: some hundred megabytes.
pub(crate) const MAX_SERIES_VALUES: u64 = 50_000_000;

/// Refuses more runs than fit into the memory of one machine.
///
/// # Errors
/// When `runs` of `flows` flows each are too many.
pub fn check_number(runs: u64, flows: u64) -> Result<(), LabError> {
    // Saturating, as command lines and files may name any two numbers.
    if runs.saturating_mul(flows) <= MAX_FLOWS {
        return Ok(());
    }
    Err(LabError::Invalid(format!(
        "{runs} runs of {flows} flows are more than {MAX_FLOWS} flows in all; split the work"
    )))
}

/// Values that a controller shows of itself, about: a lone flow's are kept for its charts.
const INSPECTED_VALUES: u64 = 12;

/// The values that a run's series have with bins of width `bin`: five for each flow, some more.
pub(crate) fn series_values(scenario: &Scenario, bin: Span) -> u64 {
    let bins = scenario.duration.as_nanos().div_ceil(bin.as_nanos().max(1));
    let flows = scenario.flows.len() as u64;
    // Internal values are kept for a lone flow only (see the simulator's sampler).
    let inspected = if flows == 1 { INSPECTED_VALUES } else { 0 };
    bins.saturating_mul(5 * flows + 4 + inspected)
}

impl Batch {
    /// A batch of which only the figures are kept.
    pub fn new(runs: Vec<PlannedRun>) -> Self {
        Self { runs, ..Self::default() }
    }

    /// The runs of one scenario with these seeds.
    ///
    /// # Errors
    /// When there are too many of them.
    pub fn of_scenario(
        scenario: Scenario,
        trace: &str,
        seeds: impl ExactSizeIterator<Item = u64>,
    ) -> Result<Self, LabError> {
        // Before the list is made: a range of seeds may be any length.
        check_number(seeds.len() as u64, scenario.flows.len() as u64)?;
        StackSpec::Builtin.check(&scenario)?;
        let scenario = Arc::new(scenario);
        // One scenario for all seeds: a trace of hours would else be held once for each of them.
        let runs = seeds.map(|seed| PlannedRun {
            cc: scenario.flow_names(),
            trace: trace.to_owned(),
            scenario: Arc::clone(&scenario),
            seed,
            stack: StackSpec::Builtin,
        });
        Ok(Self::new(runs.collect()))
    }

    /// Refuses series that do not fit into the memory of one machine.
    ///
    /// # Errors
    /// When series are wanted, and they are too many or too long.
    pub fn check_size(&self) -> Result<(), LabError> {
        if !self.series {
            return Ok(());
        }
        let values = |run: &PlannedRun| series_values(&run.scenario, run.scenario.bin);
        let values: u64 = self.runs.iter().map(values).sum();
        if values <= MAX_SERIES_VALUES {
            return Ok(());
        }
        Err(LabError::Invalid(format!(
            "the charts of {} runs would have {values} points, {MAX_SERIES_VALUES} at most: \
             fewer runs or flows, a shorter duration, or no --report",
            self.runs.len()
        )))
    }

    /// Does all runs, `threads` at a time. Each run depends on nothing but its own scenario, so the
    /// results and their order are the same whatever the number of threads. Logs get their names
    /// if there is any result.
    ///
    /// # Errors
    /// When the series are too large, or no thread can be started.
    pub fn run(
        self,
        threads: usize,
        sink: &mut dyn WorkSink<RunResult>,
    ) -> Result<BatchResult, LabError> {
        self.check_size()?;
        // One log, one order of packets and events: the runs take turns.
        let is_logged = self.packets.is_some() || self.events.is_some();
        let threads = if is_logged { 1 } else { threads };
        let count = self.runs.len();
        let total = self.runs.iter().map(|run| run.scenario.duration.as_nanos());
        // Progress counts virtual time, as runs of one batch may take very different times.
        let total = Span::from_nanos(total.fold(0, u64::saturating_add));
        let work = Work {
            runs: self.runs,
            logs: Mutex::new(Logs { packets: self.packets, events: self.events }),
            is_logged,
            series: self.series,
            timing: self.timing,
        };
        let results = run_all(count, threads, total, |index, clock| work.run(index, clock), sink)?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for result in results.into_iter().flatten() {
            match result {
                Ok(run) => done.push(run),
                Err(error) => failed.push(error),
            }
        }
        // A thread that panicked while it wrote a log leaves one that must not get its name.
        let logs = work.logs.into_inner().unwrap_or_default();
        // Without any result an existing log of that name is not replaced.
        let logs = if done.is_empty() { Logs::default() } else { logs };
        Ok(BatchResult {
            missing: count - done.len() - failed.len(),
            comparison: Comparison::of(done),
            failed,
            packets: logs.packets.map_or(Ok(()), PacketLog::finish),
            events: logs.events.map_or(Ok(()), EventLog::commit),
        })
    }
}

/// What the threads share.
struct Work {
    runs: Vec<PlannedRun>,
    logs: Mutex<Logs>,
    is_logged: bool,
    series: bool,
    timing: bool,
}

/// The logs that are wanted, each until writing it fails: one with a hole must not get its name.
#[derive(Default)]
struct Logs {
    packets: Option<PacketLog>,
    events: Option<EventLog<Aside>>,
}

impl Work {
    fn run(&self, index: usize, clock: &WorkClock) -> Option<RunResult> {
        let run = &self.runs[index];
        let simulated = self.simulate(index, run, clock).map_err(|error| {
            LabError::Failed(format!("{} on {}, seed {}: {error}", run.cc, run.trace, run.seed))
        });
        simulated.transpose()
    }

    fn simulate(
        &self,
        index: usize,
        run: &PlannedRun,
        clock: &WorkClock,
    ) -> Result<Option<Run>, LabError> {
        let started = self.timing.then(Instant::now);
        let scenario = run.seeded();
        let outcome = if self.is_logged {
            self.simulate_logged(index, run, &scenario, clock)?
        } else {
            run.stack.simulate(&scenario, &mut (), clock)?
        };
        let Some(outcome) = outcome else { return Ok(None) };
        let wall_s = started.map(|started| started.elapsed().as_secs_f64());
        Ok(Some(Run { wall_s, ..run.result(outcome, self.series) }))
    }

    fn simulate_logged(
        &self,
        index: usize,
        run: &PlannedRun,
        scenario: &Scenario,
        clock: &WorkClock,
    ) -> Result<Option<Outcome>, LabError> {
        let poisoned = |_| LabError::failed("the log ended with an earlier run");
        // Held for the whole run: its packets and events stand together in the log.
        let mut logs = self.logs.lock().map_err(poisoned)?;
        if let Some(events) = &mut logs.events {
            events.begin_run(index as u32, &run.cc, &run.trace, run.seed);
        }
        let name = |flow: &FlowSpec| match run.stack.has_controller() {
            true => run.cc.clone(),
            // The scenario's own name, as flows of one run may have different controllers.
            false => flow.name(),
        };
        let names = scenario.flows.iter().map(name).collect();
        let mut logger = RunLogger { logs: &mut logs, run: index as u32, names, failed: None };
        let outcome = run.stack.simulate(scenario, &mut logger, clock)?;
        match logger.failed {
            Some(error) => Err(LabError::failed(error)),
            None => Ok(outcome),
        }
    }
}

/// Passes packets and events of a run on to its logs.
struct RunLogger<'a> {
    logs: &'a mut Logs,
    run: u32,
    /// The controller of each flow.
    names: Vec<String>,
    /// Why the packets are logged no longer.
    failed: Option<ReportError>,
}

/// How often the event log has the state of each flow, in virtual time.
const STATE_EVERY: Span = Span::from_secs(1);

impl Observer for RunLogger<'_> {
    fn on_record(&mut self, record: &PacketRecord) {
        // Taken out and put back only after a success: after an error the log stays without a name.
        let Some(mut log) = self.logs.packets.take() else { return };
        match log.push(self.run, &self.names[record.packet.flow as usize], record) {
            Ok(()) => self.logs.packets = Some(log),
            Err(error) => self.failed = Some(error),
        }
    }

    fn on_ack(&mut self, at: Time, flow: FlowView<'_>, packet: u64) {
        let Some(log) = &mut self.logs.packets else { return };
        let (controller, in_flight) = (flow.controller(), flow.in_flight());
        let bounded = |bytes: u64| Some(bytes).filter(|_| bytes != u64::MAX);
        let permit = match controller.permit() {
            Permit::Window(window) => {
                bounded(window).map(|window| window.saturating_sub(in_flight))
            }
            Permit::Budget(budget) => bounded(budget),
        };
        let ack = PacketAck { at, in_flight, cwnd: bounded(controller.cwnd()), permit };
        log.ack(flow.flow(), packet, ack);
    }

    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        let Some(events) = &mut self.logs.events else { return };
        let cc = &self.names[flow as usize];
        events.event(at, EventFlow { run: Some(self.run), flow: flow.into(), cc }, &event);
    }

    fn interval(&self) -> Option<Span> {
        self.logs.events.is_some().then_some(STATE_EVERY)
    }

    fn on_interval(&mut self, at: Time, flow: FlowView<'_>) {
        let Some(events) = &mut self.logs.events else { return };
        let cc = &self.names[flow.flow() as usize];
        let source = EventFlow { run: Some(self.run), flow: flow.flow().into(), cc };
        let mut metrics = FlowMetrics {
            cwnd: flow.controller().cwnd(),
            in_flight: flow.in_flight(),
            srtt: flow.rtt().smoothed(),
            min_rtt: flow.rtt().minimum(),
            values: Vec::new(),
            tcp: None,
        };
        flow.controller().inspect(&mut |name, value| metrics.values.push((name, value)));
        events.metrics(at, source, &metrics);
    }
}
