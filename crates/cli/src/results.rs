//! From simulated scenarios to what the user asked to see.

use std::collections::HashMap;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use cellpace_measure::{Figures, Interval};
use cellpace_path::Record;
use cellpace_report::{Comparison, PacketLog, Repeated, ReportError, Run, SCHEMA};
use cellpace_sim::{FlowSpec, Observer, Scenario, run_observed};
use clap::Args;
use rayon::prelude::*;

use crate::error::Failure;
use crate::output::{print, write};
use crate::progress::{Progress, interrupted};

/// Title of the page.
const TITLE: &str = "Congestion controllers compared";

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
    /// The scenario.
    pub(crate) scenario: Scenario,
}

/// Does all runs, `jobs` at a time (default: one per core), and shows and writes what is wanted.
/// Each run depends on nothing but its own scenario, so the results and their order are the same
/// whatever the number of jobs.
pub(crate) fn run_cells(
    cells: &[Cell],
    jobs: Option<u16>,
    outputs: &Outputs,
) -> Result<ExitCode, Failure> {
    let progress = Progress::new(cells.len(), "runs");
    let one = |index: usize, log: Option<&mut PacketLog>| {
        let run = (!interrupted()).then(|| cells[index].run(index, log, outputs));
        progress.step();
        run
    };
    let mut log = outputs.log()?;
    let runs: Vec<_> = if log.is_some() {
        // One log, one order of packets: the runs take turns.
        (0..cells.len()).map(|index| one(index, log.as_mut())).collect()
    } else {
        let threads = jobs.map_or(0, usize::from);
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
        let pool = pool.map_err(Failure::failed)?;
        pool.install(|| (0..cells.len()).into_par_iter().map(|index| one(index, None)).collect())
    };
    progress.finish();
    outputs.deliver(cells, runs, log)
}

impl Cell {
    /// Does the run.
    fn run(
        &self,
        index: usize,
        log: Option<&mut PacketLog>,
        outputs: &Outputs,
    ) -> Result<Run, Failure> {
        let started = Instant::now();
        let names = self.scenario.flows.iter().map(FlowSpec::name).collect();
        let mut logger = Logger { run: index as u32, names, log, failed: None };
        let outcome = run_observed(&self.scenario, &mut logger).map_err(Failure::failed)?;
        if let Some(error) = logger.failed {
            return Err(Failure::failed(error));
        }
        let wall = started.elapsed().as_secs_f64();
        let scenario = &self.scenario;
        Ok(Run {
            cc: self.cc.clone(),
            trace: self.trace.clone(),
            seed: scenario.seed,
            rtt_ms: scenario.base_rtt().as_millis_f64(),
            queue: scenario.queue.to_string(),
            loss: scenario.loss.mean(),
            flows: scenario.flows.len(),
            duration_s: scenario.duration.as_secs_f64(),
            skip_s: scenario.skip.as_secs_f64(),
            figures: outcome.figures,
            wall_s: outputs.timing.then_some(wall),
            series: outputs.wants_series().then_some(outcome.series),
        })
    }
}

impl Outputs {
    /// Refuses what cannot be written before the work is done, not after.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        for file in [&self.json, &self.report, &self.log].into_iter().flatten() {
            let folder = file.parent().filter(|folder| !folder.as_os_str().is_empty());
            if folder.is_some_and(|folder| !folder.is_dir()) {
                return Err(Failure::usage(format!("{}: no such folder", file.display())));
            }
            if file.is_dir() {
                return Err(Failure::usage(format!("{}: is a folder", file.display())));
            }
        }
        Ok(())
    }

    /// The packet log, if one is wanted.
    fn log(&self) -> Result<Option<PacketLog>, Failure> {
        let Some(path) = &self.log else { return Ok(None) };
        PacketLog::create(path).map(Some).map_err(Failure::failed)
    }

    fn wants_series(&self) -> bool {
        self.report.is_some() || self.svg.is_some()
    }

    /// Shows and writes everything. Runs that were not done (Ctrl-C) are left out and counted.
    fn deliver(
        &self,
        cells: &[Cell],
        runs: Vec<Option<Result<Run, Failure>>>,
        log: Option<PacketLog>,
    ) -> Result<ExitCode, Failure> {
        let done: Vec<Run> = runs.into_iter().flatten().collect::<Result<_, _>>()?;
        let missing = cells.len() - done.len();
        let comparison = Comparison {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            repeated: repeated(&done),
            runs: done,
        };
        self.write_all(&comparison)?;
        if let Some(log) = log {
            log.finish().map_err(Failure::failed)?;
        }
        if missing == 0 {
            return Ok(ExitCode::SUCCESS);
        }
        eprintln!("cellpace: interrupted; {missing} of {} runs are missing", cells.len());
        Ok(ExitCode::from(130))
    }

    fn write_all(&self, comparison: &Comparison) -> Result<(), Failure> {
        if let Some(path) = &self.report {
            write(path, &cellpace_report::html(comparison, TITLE))?;
        }
        if let Some(folder) = &self.svg {
            std::fs::create_dir_all(folder)
                .map_err(|error| Failure::failed(format!("{}: {error}", folder.display())))?;
            for (name, svg) in cellpace_report::svg_files(comparison) {
                write(&folder.join(name), &svg)?;
            }
        }
        if let Some(path) = &self.json {
            write(path, &cellpace_report::to_json(comparison, false))?;
            if path.as_os_str() == "-" {
                return Ok(());
            }
        }
        print(&cellpace_report::table(comparison))?;
        self.say_where()
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

/// Passes every record on to the packet log.
struct Logger<'a> {
    run: u32,
    /// The controller of each flow.
    names: Vec<String>,
    log: Option<&'a mut PacketLog>,
    /// The first error; afterwards nothing is logged any more.
    failed: Option<ReportError>,
}

impl Observer for Logger<'_> {
    fn on_record(&mut self, record: &Record) {
        let Some(log) = self.log.as_mut().filter(|_| self.failed.is_none()) else { return };
        let name = self.names.get(record.packet.flow as usize).map_or("", String::as_str);
        self.failed = log.push(self.run, name, record).err();
    }
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
