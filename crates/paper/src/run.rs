//! Runs claims: all cells of all claims as one batch, each once.

use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::sync::Arc;

use cellpace_base::{Span, Time};
use cellpace_lab::trace::TraceFigures;
use cellpace_lab::{WorkClock, WorkSink, run_all, simulate, threads};
use cellpace_sim::Scenario;
use serde_json::Value;

use crate::arrivals::ArrivalWatch;
use crate::claim::{Analysis, Claim, ClaimRun};
use crate::claim_words::OneOrMany;
use crate::depth::Depth;
use crate::grid::combinations;
use crate::predictions::predictions;
use crate::profiles::ProfileWatch;
use crate::radio::radio_figures;
use crate::recording::Recording;
use crate::records::{Records, record};
use crate::scenarios::TraceFolder;
use crate::table::Coordinates;
use crate::trainings::Trainings;
use crate::{Cache, PaperError, cache};

/// How claims are run.
#[derive(Debug, Clone, Default)]
pub struct RunOptions<'a> {
    /// How often runs are repeated.
    pub depth: Depth,
    /// How many at a time; `None`: one per core.
    pub jobs: Option<u16>,
    /// The folder of recorded traces; without it generated ones stand for them.
    pub traces: Option<&'a Path>,
    /// Where results are kept.
    pub cache: Option<Cache>,
    /// Whether results of earlier times are not used.
    pub is_fresh: bool,
}

/// What came out of the runs of a claim.
#[derive(Debug, Clone)]
pub struct ClaimResult {
    /// Whether generated traces stood for recorded ones.
    pub is_generated: bool,
    /// Processor time of its runs, in seconds; shared runs count for each claim.
    pub seconds: f64,
    /// Why there are no figures, where it could not be run.
    pub unrun: Option<Unrun>,
    /// The figures of its runs by their names.
    pub records: BTreeMap<String, Records>,
}

/// Why a claim has no figures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unrun {
    /// It needs recorded traces that are not there.
    NeedsTraces,
    /// Something went wrong.
    Failed(String),
}

impl ClaimResult {
    fn unrun(why: Unrun) -> Self {
        Self { is_generated: false, seconds: 0.0, unrun: Some(why), records: BTreeMap::new() }
    }
}

/// One simulation that claims need.
struct Job {
    key: String,
    scenario: Scenario,
    analysis: Option<Analysis>,
    start: Span,
    keeps_series: bool,
    cost: f64,
    /// What is known without a simulation: the figures of a training.
    figures: Option<Arc<Value>>,
}

/// Where the result of a job belongs.
struct Cell {
    claim: usize,
    run: String,
    coordinates: Coordinates,
    job: usize,
}

/// All runs that claims need, each once.
pub struct Plan<'a> {
    claims: Vec<&'a Claim>,
    jobs: Vec<Job>,
    cells: Vec<Cell>,
    /// The claims that cannot be run, by their places among the claims.
    unrun: HashMap<usize, Unrun>,
    is_generated: bool,
}

type JobResult = Result<(Arc<Value>, f64), String>;

impl<'a> Plan<'a> {
    /// The runs of these claims. A claim whose scenario does not read has none, and its result says
    /// why.
    pub fn new(claims: &[&'a Claim], options: &RunOptions<'_>) -> Self {
        let cache = options.cache.as_ref();
        let mut traces = TraceFolder::new(options.traces, cache, options.is_fresh);
        let (mut jobs, mut cells, mut unrun) = (Jobs::default(), Vec::new(), HashMap::new());
        for (at, claim) in claims.iter().enumerate() {
            match cells_of(claim, options.depth, &mut traces) {
                Ok(found) => {
                    let cell = |(run, coordinates, job)| Cell {
                        claim: at,
                        run,
                        coordinates,
                        job: jobs.place(job),
                    };
                    cells.extend(found.into_iter().map(cell));
                }
                Err(why) => drop(unrun.insert(at, why)),
            }
        }
        let jobs = jobs.longest_first(&mut cells);
        Self { claims: claims.to_vec(), jobs, cells, unrun, is_generated: traces.is_generated() }
    }

    /// The claims that cannot be run, with the reason.
    pub fn unrun(&self) -> impl Iterator<Item = (&'a str, &Unrun)> {
        self.unrun.iter().map(|(at, why)| (&*self.claims[*at].id, why))
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.jobs.len()
    }

    /// Does the runs. `None`: it was cancelled; what was done by then is
    /// in the cache.
    ///
    /// A claim of which a run fails has a result that says so.
    ///
    /// # Errors
    /// When no thread can be started, or a run panics.
    pub fn run(
        &self,
        options: &RunOptions<'_>,
        sink: &mut dyn WorkSink<JobResult>,
    ) -> Result<Option<Vec<ClaimResult>>, PaperError> {
        let total: u64 = self.jobs.iter().map(|job| job.scenario.duration.as_nanos()).sum();
        let work = |index: usize, clock: &WorkClock| {
            let job = &self.jobs[index];
            if let Some(figures) = &job.figures {
                let seconds = figures["cpu_s"].as_f64().unwrap_or(0.0);
                return Some(Ok((Arc::clone(figures), seconds)));
            }
            let known = options.cache.as_ref().filter(|_| !options.is_fresh);
            if let Some(kept) = known.and_then(|cache| cache.read(&job.key)) {
                clock.add(job.scenario.duration);
                let seconds = kept["cpu_s"].as_f64().unwrap_or(0.0);
                return Some(Ok((Arc::new(kept), seconds)));
            }
            do_job(job, clock, options.cache.as_ref()).transpose()
        };
        let threads = threads(options.jobs);
        let results = run_all(self.jobs.len(), threads, Span::from_nanos(total), work, sink);
        let results = results.map_err(|error| PaperError::Failed(error.to_string()))?;
        if results.iter().any(Option::is_none) {
            if sink.is_cancelled() {
                return Ok(None);
            }
            return Err(PaperError::Failed("a run panicked".to_owned()));
        }
        let results: Vec<JobResult> = results.into_iter().flatten().collect();
        let result = |at: usize| {
            if let Some(why) = self.unrun.get(&at) {
                return ClaimResult::unrun(why.clone());
            }
            gathered(self, at, &results, options)
                .unwrap_or_else(|why| ClaimResult::unrun(Unrun::Failed(why)))
        };
        Ok(Some((0..self.claims.len()).map(result).collect()))
    }
}

fn do_job(
    job: &Job,
    clock: &WorkClock,
    cache: Option<&Cache>,
) -> Result<Option<(Arc<Value>, f64)>, String> {
    let mut scenario = job.scenario.clone();
    scenario.start_traces_at(job.start);
    let started = std::time::Instant::now();
    let Some(mut record) = record_of(job, &scenario, clock)? else { return Ok(None) };
    let seconds = started.elapsed().as_secs_f64();
    record["cpu_s"] = seconds.into();
    if let Some(cache) = cache {
        cache.write(&job.key, &record);
    }
    Ok(Some((Arc::new(record), seconds)))
}

/// Simulates, or looks at the trace alone.
fn record_of(job: &Job, scenario: &Scenario, clock: &WorkClock) -> Result<Option<Value>, String> {
    let failed = |error: cellpace_sim::SimError| error.to_string();
    match job.analysis {
        Some(Analysis::Trace) => {
            clock.add(scenario.duration);
            let trace = scenario.trace().drawn(scenario.seed, Span::ZERO);
            let trace = trace.trace().ok_or("only recorded traces and profiles are analysed")?;
            let figures = TraceFigures::of(&scenario.trace().to_string(), trace);
            let mut record = serde_json::to_value(figures).map_err(|error| error.to_string())?;
            record["cv_100ms"] = record["cv"]["100ms"].take();
            Ok(Some(record))
        }
        Some(Analysis::Predict) => {
            clock.add(scenario.duration);
            let trace = scenario.trace().drawn(scenario.seed, Span::ZERO);
            let trace = trace.trace().ok_or("only recorded traces and profiles are analysed")?;
            Ok(Some(predictions(trace)))
        }
        Some(Analysis::Radio) => {
            clock.add(scenario.duration);
            let trace = scenario.trace().drawn(scenario.seed, scenario.duration);
            let drive = trace.drive().ok_or("analysis: only a radio layer has a radio")?;
            Ok(Some(radio_figures(drive)))
        }
        Some(Analysis::Profile) => {
            let mut watch = ProfileWatch::default();
            let outcome = simulate(scenario, &mut watch, clock).map_err(failed)?;
            Ok(outcome.map(|outcome| {
                let figures = watch.figures(&outcome);
                let mut record = record(scenario, outcome, job.keeps_series);
                record["profile"] = figures;
                record
            }))
        }
        Some(Analysis::Arrivals) => {
            let mut watch = ArrivalWatch::new(Time::ZERO + scenario.skip);
            let outcome = simulate(scenario, &mut watch, clock).map_err(failed)?;
            Ok(outcome.map(|outcome| {
                let mut record = record(scenario, outcome, job.keeps_series);
                record["arrivals"] = watch.figures();
                record
            }))
        }
        None => {
            let outcome = simulate(scenario, &mut (), clock).map_err(failed)?;
            Ok(outcome.map(|outcome| record(scenario, outcome, job.keeps_series)))
        }
    }
}

/// Simulations, each once.
#[derive(Default)]
struct Jobs {
    jobs: Vec<Job>,
    known: HashMap<String, usize>,
}

impl Jobs {
    /// The place of a job, which is that of the same one where it is there already.
    fn place(&mut self, job: Job) -> usize {
        *self.known.entry(job.key.clone()).or_insert_with(|| {
            self.jobs.push(job);
            self.jobs.len() - 1
        })
    }

    /// The jobs with the longest first, so that no core waits for one at the end.
    fn longest_first(self, cells: &mut [Cell]) -> Vec<Job> {
        let jobs = self.jobs;
        let mut order: Vec<usize> = (0..jobs.len()).collect();
        order.sort_by(|a, b| jobs[*b].cost.total_cmp(&jobs[*a].cost));
        let mut place = vec![0; jobs.len()];
        order.iter().enumerate().for_each(|(new, old)| place[*old] = new);
        cells.iter_mut().for_each(|cell| cell.job = place[cell.job]);
        let mut by_place: Vec<(usize, Job)> = place.into_iter().zip(jobs).collect();
        by_place.sort_by_key(|(place, _)| *place);
        by_place.into_iter().map(|(_, job)| job).collect()
    }
}

/// A run's name, where on its axes a cell is, and what is to be simulated there.
type FoundCell = (String, Coordinates, Job);

/// The most flows of a claim's runs together.
const MAX_FLOWS: usize = 200_000;

fn cells_of(
    claim: &Claim,
    depth: Depth,
    traces: &mut TraceFolder,
) -> Result<Vec<FoundCell>, Unrun> {
    let names_traces = names_recorded_traces(claim);
    if traces.is_generated() && names_traces && claim.needs_traces {
        return Err(Unrun::NeedsTraces);
    }
    let mut cells = Vec::new();
    let mut flows = 0;
    for (name, run) in &claim.runs {
        let unrun = |why, traces: &TraceFolder| match traces.take_missing() {
            true => Unrun::NeedsTraces,
            false => Unrun::Failed(format!("run.{name}: {why}")),
        };
        let found = jobs_of(claim, run, depth, traces, &mut flows);
        let found = found.map_err(|why| unrun(why, traces))?;
        cells.extend(found.into_iter().map(|(at, job)| (name.clone(), at, job)));
    }
    Ok(cells)
}

fn names_recorded_traces(claim: &Claim) -> bool {
    claim.runs.values().any(|run| run.names_recorded_traces(&claim.trainings))
}

/// The cells of a run: where they are on its axes, and what is to be simulated. `flows` counts those
/// of all runs of the claim.
fn jobs_of(
    claim: &Claim,
    run: &ClaimRun,
    depth: Depth,
    traces: &mut TraceFolder,
    flows: &mut usize,
) -> Result<Vec<(Coordinates, Job)>, String> {
    if run.recording.is_some() {
        return Ok(Vec::new());
    }
    if run.train.is_some() {
        return trained_of(&claim.trainings, run, traces);
    }
    let axes = run.axes()?;
    let mut found = Vec::new();
    for coordinates in combinations(&axes) {
        let mut digests = String::new();
        let mut period = None;
        let mut places = Vec::new();
        for (axis, place) in axes.iter().zip(&coordinates) {
            let mut place = Arc::clone(place);
            if matches!(&*axis.name, "trace" | "uplink") {
                let written = traces.written(&place);
                let (spec, digest) = traces.trace(written)?;
                digests += &digest;
                if &*axis.name == "trace" {
                    period = spec.period();
                }
                place = written.into();
            }
            places.push((Arc::clone(&axis.name), place));
        }
        for start in run.starts(depth, period)? {
            for seed in run.seeds(depth) {
                let text = run.scenario_text(&places, seed)?;
                let text = traces.with_tables(traces.with_stand_ins(text), &claim.trainings)?;
                let scenario = traces.scenario(&claim.id, &text, seed)?;
                *flows += scenario.flows.len();
                if *flows > MAX_FLOWS {
                    return Err(format!("the claim's runs have more than {MAX_FLOWS} flows"));
                }
                let at = format!("{}ms", start.as_nanos() / 1_000_000);
                let keeps = format!("{} {:?}", run.series.is_some(), run.analysis);
                let key = cache::key(&[&text, &seed.to_string(), &at, &digests, &keeps]);
                let own = [at.into(), seed.to_string().into()];
                let coordinates = coordinates.iter().cloned().chain(own).collect();
                let (cost, analysis) = (cost(&scenario), run.analysis);
                let (keeps_series, figures) = (run.series.is_some(), None);
                found.push((
                    coordinates,
                    Job { key, scenario, analysis, start, keeps_series, cost, figures },
                ));
            }
        }
    }
    Ok(found)
}

/// The trainings of a run, with the figures of each.
fn trained_of(
    trainings: &Trainings,
    run: &ClaimRun,
    traces: &TraceFolder,
) -> Result<Vec<(Coordinates, Job)>, String> {
    let of = |name: &String| {
        let training = trainings.get(name).ok_or_else(|| format!("there is no [train.{name}]"))?;
        let figures = traces.figures(training)?;
        let job = Job {
            key: format!("{training:?}"),
            scenario: Scenario { duration: Span::ZERO, ..Scenario::default() },
            analysis: None,
            start: Span::ZERO,
            keeps_series: false,
            cost: 0.0,
            figures: Some(Arc::new(figures)),
        };
        Ok((vec![Arc::from(&**name), "0ms".into(), "1".into()], job))
    };
    run.train.iter().flat_map(OneOrMany::texts).map(|name| of(&name)).collect()
}

/// About how much work a run is: what counts is the number of flows and the time.
fn cost(scenario: &Scenario) -> f64 {
    scenario.duration.as_secs_f64() * (3.0 + scenario.flows.len() as f64)
}

/// The figures of a claim's runs.
fn gathered(
    plan: &Plan<'_>,
    at: usize,
    results: &[JobResult],
    options: &RunOptions<'_>,
) -> Result<ClaimResult, String> {
    let claim = plan.claims[at];
    let mut records: BTreeMap<String, Records> = BTreeMap::new();
    let mut seconds = 0.0;
    for (name, run) in &claim.runs {
        let axes =
            run.axes()?.into_iter().map(|axis| axis.name).chain(["start".into(), "seed".into()]);
        let recording = run.recording.as_deref().map(Recording::named).transpose()?;
        let of_run = Records { axes: axes.collect(), recording, cells: Vec::new() };
        records.insert(name.clone(), of_run);
    }
    for cell in plan.cells.iter().filter(|cell| cell.claim == at) {
        let (record, took) =
            results[cell.job].as_ref().map_err(|why| format!("run.{}: {why}", cell.run))?;
        seconds += took;
        if let Some(records) = records.get_mut(&cell.run) {
            records.cells.push((cell.coordinates.clone(), Arc::clone(record)));
        }
    }
    let is_generated = plan.is_generated && names_recorded_traces(claim);
    if let Some(cache) = &options.cache {
        cache.write_seconds(&claim.id, seconds);
    }
    Ok(ClaimResult { is_generated, seconds, unrun: None, records })
}
