//! What `compare` and `sim` show and write.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_emu::is_pcapng;
use cellpace_lab::{Batch, BatchResult, EventLog, RunResult, WorkSink, threads};
use cellpace_report::{Aside, Comparison, PacketLog, TransferLog};
use clap::Args;
use terminal_size::{Width, terminal_size_of};

use crate::error::CommandError;
use crate::options::{Verbosity, whole};
use crate::output::{check_files, command_line, complain, keep_inputs, print, print_table};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interrupted, interruption_code};
use crate::result_files::ResultFiles;

/// With more runs than this, `--json` alone has no figures over time.
const MAX_RUNS_WITH_SERIES: usize = 64;

/// The environment variable with which results have the wall time of each run, for
/// `evaluation/runs.sh`. They then differ from one call to the next.
const TIMING: &str = "CELLPACE_TIMING";

/// Options for how often to run.
#[derive(Debug, Args)]
pub(crate) struct RepeatArgs {
    /// Run each cell with this many seeds, from the first on, and give 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = whole(1..=10_000_u32))]
    repeat: u32,
}

impl RepeatArgs {
    /// The seeds, from `first` on.
    pub(crate) fn seeds(&self, first: u64) -> impl ExactSizeIterator<Item = u64> {
        (0..self.repeat).map(move |offset| first.wrapping_add(u64::from(offset)))
    }
}

/// Options for what comes out.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct Outputs {
    #[command(flatten)]
    files: ResultFiles,
    /// Write what became of every packet, as Parquet (one run at a time)
    #[arg(long, value_name = "FILE")]
    log: Option<PathBuf>,
    /// Write a record of each transfer, as Parquet
    #[arg(long, value_name = "FILE")]
    transfers: Option<PathBuf>,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Does all runs and shows and writes what is wanted.
pub(crate) fn run_batch(
    mut batch: Batch,
    program: &str,
    jobs: Option<u16>,
    outputs: &Outputs,
) -> Result<ExitCode, CommandError> {
    batch.series = outputs.wants_series(batch.runs.len());
    batch.timing = std::env::var_os(TIMING).is_some();
    batch.check_size()?;
    end_cleanly_on_ctrl_c();
    batch.packets = outputs.packet_log()?;
    batch.events = outputs.events(&batch, program)?;
    let transfers = outputs.transfer_log()?;
    let all = batch.runs.len();
    let progress = Progress::with_verbosity(all, "runs", outputs.verbosity);
    let mut watch = RunWatch { progress, verbosity: outputs.verbosity };
    let finished = batch.run(threads(jobs), &mut watch)?;
    watch.progress.finish();
    outputs.deliver(finished, transfers, all)
}

/// Shows how far the runs are, and with `-v` each one that is done.
struct RunWatch {
    progress: Progress,
    verbosity: Verbosity,
}

impl WorkSink<RunResult> for RunWatch {
    fn on_done(&mut self, _index: usize, result: &RunResult) {
        self.progress.step();
        self.verbosity.detail(|| match result {
            Ok(run) => {
                let mbps = run.figures.throughput_mbps;
                format!("{} on {}, seed {}: {mbps:.2} Mbit/s", run.cc, run.trace, run.seed)
            }
            Err(error) => error.to_string(),
        });
    }

    fn on_progress(&mut self, share: f64) {
        self.progress.reached(share);
    }

    fn is_cancelled(&self) -> bool {
        interrupted()
    }
}

impl Outputs {
    /// Refuses what cannot be written before the work is done, not after.
    /// `inputs` are names of files, or of what is no file, that the command reads.
    pub(crate) fn check<'a>(
        &self,
        inputs: impl IntoIterator<Item = &'a String>,
    ) -> Result<(), CommandError> {
        let [json, report] = self.files.options();
        let log = ("--log", self.log.as_deref());
        let transfers = ("--transfers", self.transfers.as_deref());
        let files = [json, report, log, transfers, ("--events", self.events.as_deref())];
        check_files(&files)?;
        keep_inputs(&files, inputs.into_iter().map(Path::new))?;
        if let Some(file) = self.log.as_ref().filter(|file| is_pcapng(file)) {
            return Err(CommandError::usage(format!(
                "--log {}: packets in virtual time have no bytes to capture; name a .parquet \
                 file, or capture in real time with `cellpace link --log`",
                file.display()
            )));
        }
        Ok(())
    }

    fn packet_log(&self) -> Result<Option<PacketLog>, CommandError> {
        let Some(path) = &self.log else { return Ok(None) };
        PacketLog::create(path).map(Some).map_err(CommandError::failed)
    }

    fn transfer_log(&self) -> Result<Option<TransferLog>, CommandError> {
        let Some(path) = &self.transfers else { return Ok(None) };
        TransferLog::create(path).map(Some).map_err(CommandError::failed)
    }

    fn events(
        &self,
        batch: &Batch,
        program: &str,
    ) -> Result<Option<EventLog<Aside>>, CommandError> {
        let Some(path) = &self.events else { return Ok(None) };
        let mut controllers: Vec<&str> = Vec::new();
        for run in &batch.runs {
            if !controllers.contains(&run.cc.as_str()) {
                controllers.push(&run.cc);
            }
        }
        let events = EventLog::create_whole(path, program, &controllers.join(" "));
        Ok(Some(events?))
    }

    /// Charts need figures over time; a document of few runs has them, too, for charts later.
    fn wants_series(&self, runs: usize) -> bool {
        let is_small = runs <= MAX_RUNS_WITH_SERIES;
        self.files.report.is_some() || (self.files.json.is_some() && is_small)
    }

    /// Shows and writes everything. Runs that failed or were not done (Ctrl-C) are left out and
    /// reported; if all were, files of earlier runs stay as they are.
    fn deliver(
        &self,
        finished: BatchResult,
        transfers: Option<TransferLog>,
        all: usize,
    ) -> Result<ExitCode, CommandError> {
        let BatchResult { mut comparison, failed, missing, packets, events } = finished;
        comparison.command = command_line();
        let logged = packets.map_err(CommandError::failed).and(events.map_err(CommandError::from));
        let written = match comparison.runs.is_empty() {
            true => Ok(()),
            false => {
                let listed = transfers.map_or(Ok(()), |log| log.finish(&comparison.runs));
                self.write_all(&comparison, logged.and(listed.map_err(CommandError::failed)))
            }
        };
        if interrupted() && missing > 0 {
            let log = if self.log.is_some() && all > missing {
                ", and the packet log ends within the next"
            } else {
                ""
            };
            complain(&format!("interrupted; {missing} of {all} runs are missing{log}"));
            written?;
            return Ok(interruption_code());
        }
        if missing > 0 {
            return Err(CommandError::failed(format!(
                "{missing} of {all} runs ended in the middle"
            )));
        }
        if let Some(sentence) = comparison.unvaried() {
            complain(&sentence);
        }
        match failed.into_iter().next() {
            Some(error) => Err(error.into()),
            None => written.map(|()| ExitCode::SUCCESS),
        }
    }

    /// One output that cannot be written does not take the others along.
    fn write_all(
        &self,
        comparison: &Comparison,
        logged: Result<(), CommandError>,
    ) -> Result<(), CommandError> {
        let written = self.files.write(|| cellpace_report::to_json(comparison));
        let failed = written.and(logged).err();
        if !self.files.use_stdout() {
            print_table(&cellpace_report::table_for_terminal(comparison, room()))?;
            if failed.is_none() {
                self.say_where()?;
            }
        }
        failed.map_or(Ok(()), Err)
    }

    fn say_where(&self) -> Result<(), CommandError> {
        let said = [
            ("page", &self.files.report),
            ("packets", &self.log),
            ("transfers", &self.transfers),
            ("events", &self.events),
        ];
        let lines: String = said
            .iter()
            .filter_map(|(what, path)| Some(format!("{what}: {}\n", path.as_ref()?.display())))
            .collect();
        print(&lines)
    }
}

/// Columns of the terminal that standard output is; elsewhere a table stays whole.
fn room() -> usize {
    terminal_size_of(io::stdout()).map_or(usize::MAX, |(Width(width), _)| width.into())
}
