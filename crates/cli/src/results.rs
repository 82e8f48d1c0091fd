//! From simulated scenarios to what the user asked to see.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Instant;

use cellpace_base::{Span, Time};
use cellpace_measure::{Figures, Interval};
use cellpace_path::Record;
use cellpace_report::{Comparison, PacketLog, Repeated, ReportError, Run, SCHEMA};
use cellpace_sim::{FlowSpec, Observer, Scenario, run_observed};
use clap::Args;

use crate::error::Failure;
use crate::output::{complain, print, write};
use crate::parallel::{self, Simulated, run_all};
use crate::progress::{end_cleanly_on_ctrl_c, interrupted};

/// Title of the page.
const TITLE: &str = "Congestion controllers compared";

/// Options for how often to run, and how much at a time.
#[derive(Debug, Args)]
pub(crate) struct Repetition {
    /// Run each cell with this many seeds, from the first on, and give 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub(crate) repeat: u32,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
}

/// Options for what comes out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Outputs {
    /// Write the results as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write one HTML page that works offline
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write the charts as SVG files
    #[arg(long, value_name = "DIR")]
    svg: Option<PathBuf>,
    /// Write what became of every packet, as Parquet (one run at a time)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Tell the wall time of each run (the results then differ from one call to the next)
    #[arg(long)]
    timing: bool,
}

/// One run to do.
#[derive(Debug)]
pub(crate) struct Cell {
    /// The controllers as shown.
    pub(crate) cc: String,
    /// The trace as shown.
    pub(crate) trace: String,
    /// The scenario, which the runs with other seeds share.
    pub(crate) scenario: Arc<Scenario>,
    /// The seed in place of the scenario's.
    pub(crate) seed: u64,
}

/// Does all runs, `jobs` at a time (default: one per core), and shows and writes what is wanted.
/// Each run depends on nothing but its own scenario, so the results and their order are the same
/// whatever the number of jobs.
pub(crate) fn run_cells(
    cells: Vec<Cell>,
    repetition: &Repetition,
    outputs: &Outputs,
) -> Result<ExitCode, Failure> {
    outputs.check_size(&cells)?;
    end_cleanly_on_ctrl_c();
    let log = outputs.log()?;
    let threads = match (&log, repetition.jobs) {
        // One log, one order of packets: the runs take turns.
        (Some(_), _) => 1,
        (None, jobs) => parallel::threads(jobs),
    };
    let work = Arc::new(Work {
        cells,
        simulated: Simulated::default(),
        log: Mutex::new(log),
        series: outputs.wants_series(),
        timing: outputs.timing,
    });
    let (running, total_ms) = (Arc::clone(&work), work.total_ms().max(1) as f64);
    let share = || work.simulated.ms() as f64 / total_ms;
    let runs = run_all(work.cells.len(), threads, move |index| running.run(index), share)?;
    outputs.deliver(&work, runs)
}

/// Flows of all runs together: each has its figures in the results.
const MOST_FLOWS: u64 = 250_000;

/// Refuses more runs than fit into the memory of one machine.
pub(crate) fn check_number(runs: u64, flows: u64) -> Result<(), Failure> {
    if runs.saturating_mul(flows) <= MOST_FLOWS {
        return Ok(());
    }
    Err(Failure::usage(format!(
        "{runs} runs of {flows} flows are more than {MOST_FLOWS} flows in all; split the work"
    )))
}

/// What the threads share.
struct Work {
    cells: Vec<Cell>,
    simulated: Simulated,
    /// The packet log, until it is finished.
    log: Mutex<Option<PacketLog>>,
    series: bool,
    timing: bool,
}

impl Work {
    fn total_ms(&self) -> u64 {
        self.cells.iter().map(|cell| millis(cell.scenario.duration)).sum()
    }

    fn run(&self, index: usize) -> Result<Run, Failure> {
        let cell = &self.cells[index];
        self.simulate(index, cell).map_err(|error| {
            Failure::failed(format!("{} on {}, seed {}: {error}", cell.cc, cell.trace, cell.seed))
        })
    }

    fn simulate(&self, index: usize, cell: &Cell) -> Result<Run, Failure> {
        let started = Instant::now();
        let scenario = Scenario { seed: cell.seed, ..Scenario::clone(&cell.scenario) };
        let mut watch = Watch::new(self, index, &scenario);
        let outcome = run_observed(&scenario, &mut watch).map_err(Failure::failed)?;
        watch.finish()?;
        let wall = started.elapsed().as_secs_f64();
        Ok(Run {
            cc: cell.cc.clone(),
            trace: cell.trace.clone(),
            seed: scenario.seed,
            rtt_ms: scenario.base_rtt().as_millis_f64(),
            queue: scenario.queue.to_string(),
            loss: scenario.loss.mean(),
            flows: scenario.flows.len(),
            duration_s: scenario.duration.as_secs_f64(),
            skip_s: scenario.skip.as_secs_f64(),
            figures: outcome.figures,
            wall_s: self.timing.then_some(wall),
            series: self.series.then_some(outcome.series),
        })
    }

    /// The log, if there is one that is not finished. A thread that panicked while it wrote one
    /// leaves a log that nobody should see.
    fn log(&self) -> Option<MutexGuard<'_, Option<PacketLog>>> {
        self.log.lock().ok().filter(|log| log.is_some())
    }
}

fn millis(span: Span) -> u64 {
    span.as_nanos() / 1_000_000
}

/// Passes every record of a run on to the packet log, and says now and then how far it is.
struct Watch<'a> {
    work: &'a Work,
    run: u32,
    /// The controller of each flow, where there is a log.
    names: Vec<String>,
    /// The first error; afterwards nothing is logged any more.
    failed: Option<ReportError>,
    /// Virtual time that was told already, and that of the whole run.
    told_ms: u64,
    total_ms: u64,
    /// When to tell again.
    tell_at: Time,
    tell_every: Span,
}

impl<'a> Watch<'a> {
    fn new(work: &'a Work, index: usize, scenario: &Scenario) -> Self {
        let names = match work.log() {
            Some(_) => scenario.flows.iter().map(FlowSpec::name).collect(),
            None => Vec::new(),
        };
        let tell_every = scenario.duration / 100;
        Self {
            work,
            run: index as u32,
            names,
            failed: None,
            told_ms: 0,
            total_ms: millis(scenario.duration),
            tell_at: Time::ZERO + tell_every,
            tell_every,
        }
    }

    fn tell(&mut self, now: Time) {
        let now_ms = millis(now - Time::ZERO).min(self.total_ms);
        self.work.simulated.add(now_ms.saturating_sub(self.told_ms));
        self.told_ms = now_ms.max(self.told_ms);
        self.tell_at = now + self.tell_every;
    }

    fn log(&mut self, record: &Record) {
        let Some(mut guard) = self.work.log() else { return };
        let Some(log) = guard.as_mut() else { return };
        let name = self.names.get(record.packet.flow as usize).map_or("", String::as_str);
        self.failed = log.push(self.run, name, record).err();
        if self.failed.is_some() {
            // A log with a hole must not get its name.
            *guard = None;
        }
    }

    fn finish(mut self) -> Result<(), Failure> {
        self.tell(Time::MAX);
        self.failed.map_or(Ok(()), |error| Err(Failure::failed(error)))
    }
}

impl Observer for Watch<'_> {
    fn on_record(&mut self, record: &Record) {
        if !self.names.is_empty() && self.failed.is_none() {
            self.log(record);
        }
        if record.packet.departed_at >= self.tell_at {
            self.tell(record.packet.departed_at);
        }
    }
}

/// Numbers that the series of all runs together may have: some hundred megabytes.
pub(crate) const MOST_SERIES_VALUES: u64 = 50_000_000;

impl Outputs {
    /// Refuses what cannot be written before the work is done, not after.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        let files = [("--json", &self.json), ("--report", &self.report), ("--log", &self.log)];
        let files: Vec<_> =
            files.iter().filter_map(|(option, file)| Some((*option, file.as_ref()?))).collect();
        for (index, (option, file)) in files.iter().enumerate() {
            if let Some((other, _)) = files[..index].iter().find(|(_, before)| before == file) {
                let what = file.display();
                return Err(Failure::usage(format!("{other} and {option} both write {what}")));
            }
            let to_stdout = is_stdout(file);
            if to_stdout && *option == "--log" {
                return Err(Failure::usage("--log: a packet log needs a file, not `-`"));
            }
            if !to_stdout {
                check_file(file)?;
            }
        }
        match &self.svg {
            Some(folder) if folder.exists() && !folder.is_dir() => {
                Err(Failure::usage(format!("{}: is a file, not a folder", folder.display())))
            }
            _ => Ok(()),
        }
    }

    /// Refuses more than fits into the memory of one machine.
    fn check_size(&self, cells: &[Cell]) -> Result<(), Failure> {
        if !self.wants_series() {
            return Ok(());
        }
        let values = |cell: &Cell| series_values(&cell.scenario, cell.scenario.bin);
        let values: u64 = cells.iter().map(values).sum();
        if values <= MOST_SERIES_VALUES {
            return Ok(());
        }
        Err(Failure::usage(format!(
            "the charts of {} runs would have {values} points, {MOST_SERIES_VALUES} at most: \
             fewer runs or flows, a shorter duration, or no --report and --svg",
            cells.len()
        )))
    }

    /// The packet log, if one is wanted.
    fn log(&self) -> Result<Option<PacketLog>, Failure> {
        let Some(path) = &self.log else { return Ok(None) };
        PacketLog::create(path).map(Some).map_err(Failure::failed)
    }

    fn wants_series(&self) -> bool {
        self.report.is_some() || self.svg.is_some()
    }

    /// Shows and writes everything. Runs that failed or were not done (Ctrl-C) are left out and
    /// spoken of; if all were, files of earlier runs stay as they are.
    fn deliver(
        &self,
        work: &Work,
        runs: Vec<Option<Result<Run, Failure>>>,
    ) -> Result<ExitCode, Failure> {
        let all = runs.len();
        let (mut done, mut failed) = (Vec::new(), Vec::new());
        for run in runs.into_iter().flatten() {
            match run {
                Ok(run) => done.push(run),
                Err(error) => failed.push(error),
            }
        }
        let missing = all - done.len() - failed.len();
        // The thread in the middle of a run logs nothing from here on.
        let log = work.log().and_then(|mut log| log.take());
        let written = if done.is_empty() { Ok(()) } else { self.write_all(done, log) };
        if interrupted() && missing > 0 {
            let log = if self.log.is_some() && all > missing {
                ", and the packet log ends within the next"
            } else {
                ""
            };
            complain(&format!("interrupted; {missing} of {all} runs are missing{log}"));
            written?;
            return Ok(ExitCode::from(130));
        }
        if missing > 0 {
            return Err(Failure::failed(format!("{missing} of {all} runs ended in the middle")));
        }
        match failed.into_iter().next() {
            Some(error) => Err(error),
            None => written.map(|()| ExitCode::SUCCESS),
        }
    }

    /// One output that cannot be written does not take the others along.
    fn write_all(&self, runs: Vec<Run>, log: Option<PacketLog>) -> Result<(), Failure> {
        let comparison = Comparison {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            repeated: repeated(&runs),
            runs,
        };
        let results = [
            self.write_report(&comparison),
            self.write_charts(&comparison),
            self.write_json(&comparison),
            log.map_or(Ok(()), |log| log.finish().map_err(Failure::failed)),
        ];
        let failed = results.into_iter().find_map(Result::err);
        if [&self.json, &self.report].into_iter().flatten().all(|file| !is_stdout(file)) {
            print(&cellpace_report::table(&comparison))?;
            if failed.is_none() {
                self.say_where()?;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn write_report(&self, comparison: &Comparison) -> Result<(), Failure> {
        let Some(path) = &self.report else { return Ok(()) };
        write(path, &cellpace_report::html(comparison, TITLE))
    }

    fn write_charts(&self, comparison: &Comparison) -> Result<(), Failure> {
        let Some(folder) = &self.svg else { return Ok(()) };
        std::fs::create_dir_all(folder)
            .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
        for (name, svg) in cellpace_report::svg_files(comparison) {
            write(&folder.join(name), &svg)?;
        }
        Ok(())
    }

    fn write_json(&self, comparison: &Comparison) -> Result<(), Failure> {
        let Some(path) = &self.json else { return Ok(()) };
        write(path, &cellpace_report::to_json(comparison, false))
    }

    fn say_where(&self) -> Result<(), Failure> {
        let said = [("page", &self.report), ("charts", &self.svg), ("packets", &self.log)];
        let lines: String = said
            .iter()
            .filter_map(|(what, path)| Some(format!("{what}: {}\n", path.as_ref()?.display())))
            .collect();
        print(&lines)
    }
}

fn is_stdout(file: &Path) -> bool {
    file.as_os_str() == "-"
}

/// Refuses a file that cannot be created where it shall be.
pub(crate) fn check_file(file: &Path) -> Result<(), Failure> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |why: &str| Err(Failure::usage(format!("{}: {why}", file.display())));
    if !folder.is_dir() {
        return wrong("no such folder");
    }
    if file.is_dir() {
        return wrong("is a folder");
    }
    if !file.exists() && folder.metadata().is_ok_and(|facts| facts.permissions().readonly()) {
        return wrong("the folder is read-only");
    }
    Ok(())
}

/// The values that a run's series have with bins of width `bin`: two for each flow, some more.
pub(crate) fn series_values(scenario: &Scenario, bin: Span) -> u64 {
    let bins = scenario.duration.as_nanos().div_ceil(bin.as_nanos().max(1));
    bins.saturating_mul(2 * scenario.flows.len() as u64 + 4)
}

/// Mean and confidence interval over the seeds of each controller and trace.
fn repeated(runs: &[Run]) -> Vec<Repeated> {
    let mut order: Vec<(&str, &str)> = Vec::new();
    let mut groups: HashMap<(&str, &str), Vec<&Figures>> = HashMap::new();
    for run in runs {
        let key = (run.cc.as_str(), run.trace.as_str());
        groups.entry(key).or_insert_with(|| {
            order.push(key);
            Vec::new()
        });
        groups.entry(key).or_default().push(&run.figures);
    }
    let several = order.into_iter().filter(|key| groups[key].len() > 1);
    several.filter_map(|key| interval(key, &groups[&key])).collect()
}

fn interval((cc, trace): (&str, &str), figures: &[&Figures]) -> Option<Repeated> {
    let of = |value: fn(&Figures) -> f64| {
        Interval::of(&figures.iter().map(|figures| value(figures)).collect::<Vec<_>>())
    };
    Some(Repeated {
        cc: cc.to_owned(),
        trace: trace.to_owned(),
        throughput_mbps: of(|f| f.throughput_mbps)?,
        utilization: of(|f| f.utilization)?,
        queue_delay_mean_ms: of(|f| f.queue_delay_ms.mean)?,
        queue_delay_p50_ms: of(|f| f.queue_delay_ms.p50)?,
        queue_delay_p95_ms: of(|f| f.queue_delay_ms.p95)?,
        jain: of(|f| f.jain)?,
    })
}
