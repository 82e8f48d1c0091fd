//! Simulated runs: done in parallel, watched, and collected.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use cellpace_base::{Span, Time};
use cellpace_path::Record;
use cellpace_report::{Comparison, PacketLog, ReportError, Run};
use cellpace_sim::{FlowSpec, Observer, Scenario, run_observed};

use crate::{LabError, VirtualTime, WorkSink, run_all};

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
    if runs.saturating_mul(flows) <= MAX_FLOWS {
        return Ok(());
    }
    Err(LabError::Invalid(format!(
        "{runs} runs of {flows} flows are more than {MAX_FLOWS} flows in all; split the work"
    )))
}

/// The values that a run's series have with bins of width `bin`: two for each flow, some more.
pub(crate) fn series_values(scenario: &Scenario, bin: Span) -> u64 {
    let bins = scenario.duration.as_nanos().div_ceil(bin.as_nanos().max(1));
    bins.saturating_mul(2 * scenario.flows.len() as u64 + 4)
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
        check_number(seeds.len() as u64, scenario.flows.len() as u64)?;
        let scenario = Arc::new(scenario);
        let runs = seeds.map(|seed| PlannedRun {
            cc: scenario.flow_names(),
            trace: trace.to_owned(),
            scenario: Arc::clone(&scenario),
            seed,
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
             fewer runs or flows, a shorter duration, or no --report and --svg",
            self.runs.len()
        )))
    }

    /// Does all runs, `threads` at a time. Each run depends on nothing but its own scenario, so the
    /// results and their order are the same whatever the number of threads. A packet log gets its
    /// name if there is any result.
    ///
    /// # Errors
    /// When the series are too large, or no thread can be started.
    pub fn run(
        self,
        threads: usize,
        sink: &mut dyn WorkSink<RunResult>,
    ) -> Result<BatchResult, LabError> {
        self.check_size()?;
        // One log, one order of packets: the runs take turns.
        let threads = if self.packets.is_some() { 1 } else { threads };
        let count = self.runs.len();
        let work = Arc::new(Work {
            runs: self.runs,
            passed: VirtualTime::default(),
            packets: Mutex::new(self.packets),
            series: self.series,
            timing: self.timing,
        });
        let (running, total_ms) = (Arc::clone(&work), work.total_ms().max(1) as f64);
        let share = || work.passed.ms() as f64 / total_ms;
        let results = run_all(count, threads, move |index| running.run(index), share, sink)?;
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for result in results.into_iter().flatten() {
            match result {
                Ok(run) => done.push(run),
                Err(error) => failed.push(error),
            }
        }
        // A thread that is still in the middle of a run logs nothing from here on.
        let packets = work.packets().and_then(|mut log| log.take());
        let packets = match packets {
            Some(log) if !done.is_empty() => log.finish(),
            _ => Ok(()),
        };
        let missing = count - done.len() - failed.len();
        Ok(BatchResult { comparison: Comparison::of(done), failed, missing, packets })
    }
}

/// What the threads share.
struct Work {
    runs: Vec<PlannedRun>,
    passed: VirtualTime,
    /// The packet log, until it is finished.
    packets: Mutex<Option<PacketLog>>,
    series: bool,
    timing: bool,
}

impl Work {
    fn total_ms(&self) -> u64 {
        self.runs.iter().map(|run| millis(run.scenario.duration)).sum()
    }

    fn run(&self, index: usize) -> RunResult {
        let run = &self.runs[index];
        self.simulate(index, run).map_err(|error| {
            LabError::Failed(format!("{} on {}, seed {}: {error}", run.cc, run.trace, run.seed))
        })
    }

    fn simulate(&self, index: usize, run: &PlannedRun) -> RunResult {
        let started = self.timing.then(Instant::now);
        let scenario = Scenario { seed: run.seed, ..Scenario::clone(&run.scenario) };
        let mut watch = RunWatch::new(self, index, &scenario);
        let outcome = run_observed(&scenario, &mut watch).map_err(LabError::failed)?;
        watch.finish()?;
        Ok(Run {
            cc: run.cc.clone(),
            trace: run.trace.clone(),
            seed: scenario.seed,
            rtt_ms: scenario.base_rtt().as_millis_f64(),
            queue: scenario.queue.to_string(),
            loss: scenario.loss.mean(),
            flows: scenario.flows.len(),
            duration_s: scenario.duration.as_secs_f64(),
            skip_s: scenario.skip.as_secs_f64(),
            figures: outcome.figures,
            wall_s: started.map(|started| started.elapsed().as_secs_f64()),
            series: self.series.then_some(outcome.series),
        })
    }

    /// The log, if there is one that is not finished. A thread that panicked while it wrote one
    /// leaves a log that nobody should see.
    fn packets(&self) -> Option<MutexGuard<'_, Option<PacketLog>>> {
        self.packets.lock().ok().filter(|log| log.is_some())
    }
}

fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

/// Passes every record of a run on to the packet log, and reports now and then how far it is.
struct RunWatch<'a> {
    work: &'a Work,
    run: u32,
    /// The controller of each flow, where there is a log.
    names: Vec<String>,
    /// The first error; nothing is logged after it.
    failed: Option<ReportError>,
    /// Virtual time that was reported already, and that of the whole run.
    reported_ms: u64,
    total_ms: u64,
    /// When to report again.
    report_at: Time,
    report_every: Span,
}

impl<'a> RunWatch<'a> {
    fn new(work: &'a Work, index: usize, scenario: &Scenario) -> Self {
        let names = match work.packets() {
            Some(_) => scenario.flows.iter().map(FlowSpec::name).collect(),
            None => Vec::new(),
        };
        let report_every = scenario.duration / 100;
        Self {
            work,
            run: index as u32,
            names,
            failed: None,
            reported_ms: 0,
            total_ms: millis(scenario.duration),
            report_at: Time::ZERO + report_every,
            report_every,
        }
    }

    fn report(&mut self, now: Time) {
        let now_ms = millis(now - Time::ZERO).min(self.total_ms);
        self.work.passed.add(now_ms.saturating_sub(self.reported_ms));
        self.reported_ms = now_ms.max(self.reported_ms);
        self.report_at = now + self.report_every;
    }

    fn log(&mut self, record: &Record) {
        let Some(mut guard) = self.work.packets() else { return };
        let Some(log) = guard.as_mut() else { return };
        let name = self.names.get(record.packet.flow as usize).map_or("", String::as_str);
        self.failed = log.push(self.run, name, record).err();
        if self.failed.is_some() {
            // A log with a hole must not get its name.
            *guard = None;
        }
    }

    fn finish(mut self) -> Result<(), LabError> {
        self.report(Time::MAX);
        self.failed.map_or(Ok(()), |error| Err(LabError::failed(error)))
    }
}

impl Observer for RunWatch<'_> {
    fn on_record(&mut self, record: &Record) {
        if !self.names.is_empty() && self.failed.is_none() {
            self.log(record);
        }
        if record.packet.departed_at >= self.report_at {
            self.report(record.packet.departed_at);
        }
    }
}
