//! `cellpace paper`: claims of papers, each with a scenario and a verdict.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_paper::{
    Cache, Claim, ClaimResult, Depth, Front, Library, Mode, Plan, RunOptions, Verdict,
    command_lines, document, training_lines,
};
use cellpace_report::{Document, PageTable, indented, page};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::error::CommandError;
use crate::output::{print, write, write_json};
use crate::progress::{Progress, end_cleanly_on_ctrl_c, interruption_code};

/// The commands of `cellpace paper`.
#[derive(Debug, Subcommand)]
pub(crate) enum PaperCommand {
    /// List the claims with their verdicts
    List(ListArgs),
    /// Show a claim: what the paper says, how it is checked, what came out and why
    Show(ShowArgs),
    /// Run claims and compare their verdicts with those expected
    Run(RunArgs),
    /// Write a page for each paper: every claim with our chart, values and verdict
    Page(PageArgs),
}

/// Where claims are read.
#[derive(Debug, Args)]
struct Source {
    /// Read the claims in DIR/PAPER/NAME.toml instead of those of the program
    #[arg(long, value_name = "DIR")]
    claims: Option<PathBuf>,
}

/// Arguments of `cellpace paper list`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace paper list verus")]
pub(crate) struct ListArgs {
    /// Papers, ids, or patterns such as verus-fig*
    #[arg(value_name = "CLAIM")]
    claims_wanted: Vec<String>,
    /// Those with these verdicts only, e.g. reproduced,refuted
    #[arg(long, value_name = "VERDICT", value_delimiter = ',', value_parser = verdict)]
    state: Vec<Verdict>,
    /// Write the list as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `cellpace paper show`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace paper show verus-table1")]
pub(crate) struct ShowArgs {
    /// The claim's id
    id: String,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `cellpace paper run`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace paper run --quick verus-sec53-epoch

Recorded traces are found in the folder that the environment's CELLPACE_TRACES names; without it
generated ones stand for them. Exit code: 0 when every verdict is the one expected, 3 when one is
another, 1 when a run failed.")]
pub(crate) struct RunArgs {
    /// Papers, ids, or patterns such as verus-fig* [default: all]
    #[arg(value_name = "CLAIM")]
    claims_wanted: Vec<String>,
    /// One seed, one start in the trace
    #[arg(long, conflicts_with = "full")]
    quick: bool,
    /// Five seeds, ten starts
    #[arg(long)]
    full: bool,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    /// Write verdicts and checks as JSON (`-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Run everything anew instead of using results of earlier times
    #[arg(long)]
    fresh: bool,
    #[command(flatten)]
    source: Source,
}

/// Arguments of `cellpace paper page`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace paper page verus-sec53-epoch --quick -o pages")]
pub(crate) struct PageArgs {
    /// Papers, ids, or patterns such as verus-fig* [default: all]
    #[arg(value_name = "CLAIM")]
    claims_wanted: Vec<String>,
    /// The folder for the pages and index.html
    #[arg(long, short, value_name = "DIR")]
    output: PathBuf,
    /// One seed, one start in the trace
    #[arg(long)]
    quick: bool,
    /// Runs at the same time [default: one per core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    jobs: Option<u16>,
    #[command(flatten)]
    source: Source,
}

/// Exit code when a verdict is another than expected.
const DIFFERS: u8 = 3;

pub(crate) fn run(command: &PaperCommand) -> Result<ExitCode, CommandError> {
    match command {
        PaperCommand::List(args) => list(args),
        PaperCommand::Show(args) => show(args),
        PaperCommand::Run(args) => run_claims(args),
        PaperCommand::Page(args) => write_pages(args),
    }
}

fn verdict(text: &str) -> Result<Verdict, String> {
    let names: Vec<&str> = Verdict::ALL.iter().map(|verdict| verdict.name()).collect();
    let found = Verdict::ALL.into_iter().find(|verdict| verdict.name() == text.trim());
    found.ok_or_else(|| format!("`{text}` is no verdict; there are {}", names.join(", ")))
}

impl Source {
    fn library(&self) -> Result<Library, CommandError> {
        let library = match &self.claims {
            Some(folder) => Library::of_folder(folder),
            None => Library::embedded(),
        };
        library.map_err(CommandError::usage)
    }
}

/// The folder of recorded traces.
fn trace_folder() -> Option<PathBuf> {
    std::env::var_os("CELLPACE_TRACES").map(PathBuf::from)
}

#[derive(Serialize)]
struct ListDocument<'a> {
    schema: &'static str,
    claims: Vec<ListedClaim<'a>>,
}

#[derive(Serialize)]
struct ListedClaim<'a> {
    id: &'a str,
    r#where: &'a str,
    says: &'a str,
    verdict: Verdict,
    rests_on: String,
}

impl<'a> ListedClaim<'a> {
    fn of(claim: &'a Claim) -> Self {
        Self {
            id: &claim.id,
            r#where: &claim.place,
            says: &claim.says,
            verdict: claim.expected,
            rests_on: rests_on(claim),
        }
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let mut claims = library.select(&args.claims_wanted).map_err(CommandError::usage)?;
    claims.retain(|claim| args.state.is_empty() || args.state.contains(&claim.expected));
    let document = || {
        let claims = claims.iter().map(|claim| ListedClaim::of(claim)).collect();
        indented(&ListDocument { schema: "cellpace.paper-list/1", claims })
    };
    if !write_json(args.json.as_deref(), document)? {
        return Ok(ExitCode::SUCCESS);
    }
    let longest = |text: fn(&Claim) -> &str| {
        claims.iter().map(|claim| text(claim).chars().count()).max().unwrap_or(0)
    };
    let widths = (longest(|claim| &claim.id), longest(|claim| &claim.place));
    let mut text = String::new();
    for claim in &claims {
        text += &format!(
            "{:id$}  {:place$}  {:17}  {}\n",
            claim.id,
            claim.place,
            claim.expected.name(),
            rests_on(claim),
            id = widths.0,
            place = widths.1,
        );
    }
    text += &counts(&claims);
    print(&text)?;
    Ok(ExitCode::SUCCESS)
}

fn rests_on(claim: &Claim) -> String {
    if let Some(date) = claim.recorded_on() {
        return format!("recorded {date}");
    }
    let text = match claim.mode {
        Mode::Virtual => "virtual",
        Mode::Real => "nothing recorded yet",
        Mode::Model => "a model",
        Mode::Field if claim.checks.is_empty() => "nothing here",
        Mode::Field => "a model",
        Mode::Component => "tests",
    };
    text.to_owned()
}

fn counts(claims: &[&Claim]) -> String {
    let number = claims.len();
    let counts = Library::counts(claims.iter().copied());
    let counts = counts.iter().filter(|(_, count)| *count > 0);
    let counts: Vec<String> =
        counts.map(|(verdict, count)| format!("{count} {}", verdict.name())).collect();
    let claims = if number == 1 { "claim" } else { "claims" };
    format!("\n{number} {claims}: {}\n", counts.join(", "))
}

fn show(args: &ShowArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let claims = library.select(std::slice::from_ref(&args.id)).map_err(CommandError::usage)?;
    for claim in claims {
        print(&describe(claim)?)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn describe(claim: &Claim) -> Result<String, CommandError> {
    let mut text = format!("{}  {}\n\n", claim.id, claim.place);
    text += &format!("Says: {}\n", claim.says);
    if !claim.original.is_empty() {
        text += "\nIn the paper:\n";
        for (key, value) in &claim.original {
            text += &format!("  {key} = {value}\n");
        }
    }
    let folder = trace_folder();
    let trainings = training_lines(claim, folder.as_deref()).map_err(CommandError::usage)?;
    if !trainings.is_empty() {
        text += &format!("\nTables:\n  {}\n", trainings.join("\n  "));
    }
    let lines = command_lines(claim, folder.as_deref()).map_err(CommandError::usage)?;
    for (name, line) in lines {
        let run = &claim.runs[&name];
        text += &format!("\nRun {name} ({}):\n", run.setup.name());
        for line in line.lines() {
            text += &format!("  {line}\n");
        }
        if !run.evidence.is_empty() {
            text += &format!("  Evidence: {}\n", run.evidence.trim());
        }
    }
    if !claim.checks.is_empty() {
        text += "\nChecks:\n";
    }
    for check in &claim.checks {
        let test = check.test.split_whitespace().collect::<Vec<_>>().join(" ");
        text +=
            &format!("  {}: {} (run {})\n    {test}\n", check.level.name(), check.name, check.run);
    }
    if let Some(tests) = &claim.tests {
        text += &format!("\nTests: {}\n", tests.names.join(", "));
    }
    text += &format!("\nVerdict: {}\n", claim.expected.name());
    if !claim.because.is_empty() {
        text += &format!("Because: {}\n", claim.because.trim());
    }
    Ok(text)
}

fn run_claims(args: &RunArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let claims = library.select(&args.claims_wanted).map_err(CommandError::usage)?;
    let depth = match (args.quick, args.full) {
        (true, _) => Depth::Quick,
        (_, true) => Depth::Full,
        _ => Depth::AsWritten,
    };
    let folder = trace_folder();
    let options = RunOptions {
        depth,
        jobs: args.jobs,
        traces: folder.as_deref().filter(|folder| folder.is_dir()),
        cache: Cache::of_user(),
        is_fresh: args.fresh,
    };
    let Some(results) = run_all(&claims, &options)? else { return Ok(interruption_code()) };
    let all: Vec<&ClaimResult<'_>> = results.iter().collect();
    let written = document(&all, depth, None).map_err(of_paper)?;
    if write_json(args.json.as_deref(), || written)? {
        print(&results.iter().map(result_text).collect::<String>())?;
        print(&summary(&results, options.traces))?;
    }
    let differs = results.iter().any(|result| !result.is_expected());
    Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

/// Runs claims; `None` when it was interrupted.
fn run_all<'a>(
    claims: &[&'a Claim],
    options: &RunOptions<'_>,
) -> Result<Option<Vec<ClaimResult<'a>>>, CommandError> {
    end_cleanly_on_ctrl_c();
    let plan = Plan::new(claims, options).map_err(of_paper)?;
    let mut progress = Progress::new(plan.runs(), "runs");
    let results = plan.run(options, &mut progress);
    progress.finish();
    results.map_err(of_paper)
}

fn write_pages(args: &PageArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let claims = library.select(&args.claims_wanted).map_err(CommandError::usage)?;
    let folder = trace_folder();
    let options = RunOptions {
        depth: if args.quick { Depth::Quick } else { Depth::AsWritten },
        jobs: args.jobs,
        traces: folder.as_deref().filter(|folder| folder.is_dir()),
        cache: Cache::of_user(),
        is_fresh: false,
    };
    let Some(results) = run_all(&claims, &options)? else { return Ok(interruption_code()) };
    std::fs::create_dir_all(&args.output)
        .map_err(|error| CommandError::failed(format!("{}: {error}", args.output.display())))?;
    let mut papers: Vec<&str> = claims.iter().map(|claim| claim.paper()).collect();
    papers.dedup();
    for paper in &papers {
        let own: Vec<&ClaimResult<'_>> =
            results.iter().filter(|result| result.claim.paper() == *paper).collect();
        let front = front(paper, &own);
        write_page(
            &args.output,
            paper,
            &document(&own, options.depth, Some(&front)).map_err(of_paper)?,
        )?;
    }
    let index = index(&results);
    write_page(
        &args.output,
        "index",
        &document(&[], options.depth, Some(&index)).map_err(of_paper)?,
    )?;
    let differs = results.iter().any(|result| !result.is_expected());
    Ok(if differs { ExitCode::from(DIFFERS) } else { ExitCode::SUCCESS })
}

fn write_page(folder: &Path, name: &str, document: &str) -> Result<(), CommandError> {
    let document = Document::read(name, document).map_err(CommandError::failed)?;
    let page = page(&[document]).map_err(CommandError::failed)?;
    write(&folder.join(format!("{name}.html")), &page)
}

/// The papers, as they are cited.
fn citation(paper: &str) -> String {
    match paper {
        "verus" => "Verus (SIGCOMM 2015)".to_owned(),
        "highway" => "Highway measurements (slides, 2017)".to_owned(),
        "mdi" => "MDI (2017)".to_owned(),
        "alcc" => "ALCC (2022)".to_owned(),
        other => other.to_owned(),
    }
}

/// What no page of runs in virtual time can show.
const LIMITS: &str = "These runs are in virtual time over recorded or generated links. They cannot \
                      show what a live network does beside its capacity over time: other users, \
                      schedulers, radio retransmissions, middleboxes.";

fn front(paper: &str, results: &[&ClaimResult<'_>]) -> Front {
    let rows = Verdict::ALL.iter().filter_map(|verdict| {
        let count = results.iter().filter(|result| result.verdict == *verdict).count();
        (count > 0).then(|| vec![verdict.name().to_owned(), count.to_string()])
    });
    let counts = table("Verdicts", &["verdict", "claims"], rows.collect());
    Front {
        title: format!("{}: {} claims", citation(paper), results.len()),
        sentence: LIMITS.to_owned(),
        tables: vec![counts],
    }
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>) -> PageTable {
    let header = header.iter().map(ToString::to_string).collect();
    PageTable { title: title.to_owned(), note: String::new(), header, rows }
}

/// The first page: the main claims of each paper, and how many claims have which verdict.
fn index(results: &[ClaimResult<'_>]) -> Front {
    let famous = results.iter().filter_map(|result| {
        let headline = result.claim.headline.clone()?;
        let figure = result.checks.first();
        let figure = figure.map(|check| format!("{}: {}", check.name, check.value));
        let paper = citation(result.claim.paper());
        Some(vec![paper, headline, result.shown(), figure.unwrap_or_default()])
    });
    let header = ["paper", "claim", "verdict", "figure"];
    let famous = table("What the papers are known for", &header, famous.collect());
    let mut papers: Vec<&str> = results.iter().map(|result| result.claim.paper()).collect();
    papers.dedup();
    let names = Verdict::ALL.iter().map(|verdict| verdict.name());
    let header: Vec<&str> = ["paper", "page", "claims"].into_iter().chain(names).collect();
    let row = |paper: &&str| {
        let own = || results.iter().filter(|result| result.claim.paper() == *paper);
        let count = |verdict: &Verdict| {
            own().filter(|result| result.verdict == *verdict).count().to_string()
        };
        let first = [citation(paper), format!("{paper}.html"), own().count().to_string()];
        first.into_iter().chain(Verdict::ALL.iter().map(count)).collect()
    };
    let counts = table("All claims", &header, papers.iter().map(row).collect());
    Front {
        title: "Claims of papers, checked".to_owned(),
        sentence: LIMITS.to_owned(),
        tables: vec![famous, counts],
    }
}

fn of_paper(error: cellpace_paper::PaperError) -> CommandError {
    match error {
        cellpace_paper::PaperError::Invalid(text) => CommandError::Usage(text),
        error => CommandError::failed(error),
    }
}

fn result_text(result: &ClaimResult<'_>) -> String {
    let expected = match result.is_expected() {
        true => String::new(),
        false => format!("  EXPECTED: {}", result.expected.name()),
    };
    let generated = if result.is_generated { ", on generated traces" } else { "" };
    let mut text = format!("{}: {}{generated}{expected}\n", result.claim.id, result.shown());
    for check in &result.checks {
        let passed = if check.passed { "pass" } else { "FAIL" };
        let noise = if check.is_noise { " ~" } else { "" };
        let place = match check.place.is_empty() {
            true => String::new(),
            false => format!(" ({})", check.place),
        };
        text += &format!(
            "  {passed}  {} {:8}  {}: {} against {}{place}{noise}\n",
            check.level.name(),
            check.setup.name(),
            check.name,
            check.value,
            check.bound,
        );
    }
    text
}

fn summary(results: &[ClaimResult<'_>], traces: Option<&Path>) -> String {
    let differing: Vec<&str> = results
        .iter()
        .filter(|result| !result.is_expected())
        .map(|result| &*result.claim.id)
        .collect();
    let count = results.len();
    let mut text = match differing.len() {
        0 => format!("\n{count} claims, every verdict as expected.\n"),
        other => format!(
            "\n{count} claims, {other} with another verdict than expected: {}.\n",
            differing.join(", ")
        ),
    };
    if traces.is_none() && results.iter().any(|result| result.is_generated) {
        text +=
            "CELLPACE_TRACES names no folder of recorded traces: generated ones stood for them.\n";
    }
    text
}
