//! `cellpace paper`: claims of papers, each with a scenario and a verdict.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;

use cellpace_paper::{
    Cache, Claim, ClaimResult, Depth, Front, HEADLINES, Library, Measured, Mode, Plan, Recording,
    RunOptions, Unrun, Verdict, command_lines, document, training_lines,
};
use cellpace_report::{Document, PageTable, indented, page};
use clap::{Args, Subcommand};
use serde::Serialize;

use crate::error::CommandError;
use crate::output::{complain, print, write, write_json};
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
    /// Measure with real packets what claims rest on, and store it in the repository
    Record(RecordArgs),
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
    /// Measure recordings with real packets now, in the root of the repository, instead of using those of
    /// the program
    #[arg(long)]
    real: bool,
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

/// Arguments of `cellpace paper record`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  sudo cellpace paper record alcc-fig2

It runs in the root of the repository, for minutes to hours; `cellpace paper show` has the command. Figures
go to the file that evaluation/recordings.toml names, date and machine to papers/recorded. A recording on
a machine with late timers or other load is stored as invalid. The program has both when it is built again.")]
pub(crate) struct RecordArgs {
    /// Papers, ids, or patterns such as alcc-fig*
    #[arg(value_name = "CLAIM", required = true)]
    claims_wanted: Vec<String>,
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
        PaperCommand::Record(args) => record(args),
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
    #[serde(skip_serializing_if = "Option::is_none")]
    seconds: Option<f64>,
}

impl<'a> ListedClaim<'a> {
    fn of(claim: &'a Claim, seconds: Option<f64>) -> Self {
        Self {
            id: &claim.id,
            r#where: &claim.place,
            says: &claim.says,
            verdict: claim.expected,
            rests_on: rests_on(claim),
            seconds,
        }
    }
}

fn list(args: &ListArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let mut claims = library.select(&args.claims_wanted).map_err(CommandError::usage)?;
    claims.retain(|claim| args.state.is_empty() || args.state.contains(&claim.expected));
    let cache = Cache::of_user();
    let seconds = |claim: &Claim| cache.as_ref().and_then(|cache| cache.seconds(&claim.id));
    let document = || {
        let claims = claims.iter().map(|claim| ListedClaim::of(claim, seconds(claim))).collect();
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
            "{:id$}  {:place$}  {:17}  {:20}  {}\n",
            claim.id,
            claim.place,
            claim.expected.name(),
            rests_on(claim),
            seconds(claim).map_or_else(|| "-".to_owned(), |seconds| format!("{seconds:.1} s")),
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
    let measured = if args.real { measure(&claims)? } else { Vec::new() };
    let options = RunOptions {
        depth,
        jobs: args.jobs,
        traces: folder.as_deref().filter(|folder| folder.is_dir()),
        cache: Cache::of_user(),
        is_fresh: args.fresh,
        measured: measured.into_iter().map(|each| Arc::new(each.recording)).collect(),
    };
    let Some(results) = run_all(&claims, &options)? else { return Ok(interruption_code()) };
    let all: Vec<&ClaimResult<'_>> = results.iter().collect();
    let written = document(&all, depth, None).map_err(of_paper)?;
    if write_json(args.json.as_deref(), || written)? {
        print(&results.iter().map(result_text).collect::<String>())?;
        print(&summary(&results, options.traces))?;
    }
    Ok(exit_code(&results))
}

fn exit_code(results: &[ClaimResult<'_>]) -> ExitCode {
    if results.iter().any(ClaimResult::has_failed) {
        return ExitCode::FAILURE;
    }
    match results.iter().all(ClaimResult::is_expected) {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(DIFFERS),
    }
}

/// What these claims rest on, measured now.
fn measure(claims: &[&Claim]) -> Result<Vec<Measured>, CommandError> {
    let mut wanted: Vec<Arc<Recording>> = Vec::new();
    for recording in claims.iter().flat_map(|claim| claim.recordings()) {
        if !wanted.iter().any(|known| known.name == recording.name) {
            wanted.push(recording);
        }
    }
    if wanted.is_empty() {
        let why = "none of these claims rests on a recording: leave out --real";
        return Err(CommandError::usage(why));
    }
    let program = std::env::current_exe().map_err(CommandError::failed)?;
    let one = |recording: Arc<Recording>| {
        complain(&format!("measures {}: {}", recording.name, recording.conditions));
        Measured::now(&recording, Path::new("."), &program).map_err(of_paper)
    };
    wanted.into_iter().map(one).collect()
}

fn record(args: &RecordArgs) -> Result<ExitCode, CommandError> {
    let library = args.source.library()?;
    let claims = library.select(&args.claims_wanted).map_err(CommandError::usage)?;
    for measured in measure(&claims)? {
        let files = measured.store(Path::new(".")).map_err(of_paper)?;
        let invalid = measured.invalid().join("; ");
        let note = if invalid.is_empty() { invalid } else { format!(" (invalid: {invalid})") };
        print(&format!("{}: {}{note}\n", measured.recording.name, files.join(", ")))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Runs claims; `None` when it was interrupted.
fn run_all<'a>(
    claims: &[&'a Claim],
    options: &RunOptions<'_>,
) -> Result<Option<Vec<ClaimResult<'a>>>, CommandError> {
    end_cleanly_on_ctrl_c();
    let plan = Plan::new(claims, options);
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
        measured: Vec::new(),
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
    let mut by_fame: Vec<&ClaimResult<'_>> = results.iter().collect();
    by_fame.sort_by_key(|result| place_on_front(result));
    let index = document(&by_fame, options.depth, Some(&index(&by_fame))).map_err(of_paper)?;
    write_page(&args.output, "index", &index)?;
    Ok(exit_code(&results))
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

/// What runs over links that are not live cannot show.
fn limits(results: &[&ClaimResult<'_>]) -> String {
    let is_real = results.iter().any(|result| !result.claim.recordings().is_empty());
    let runs = match is_real {
        true => "Runs are in virtual time, or with real packets over an emulated link",
        false => "Runs are in virtual time over recorded or generated links",
    };
    format!(
        "{runs}. They cannot show what a live network does beside its capacity over time: other \
         users, schedulers, radio retransmissions, middleboxes."
    )
}

/// The head of a paper's page: how many claims have which verdict, what was recorded where, and the
/// way to each claim.
fn front(paper: &str, results: &[&ClaimResult<'_>]) -> Front {
    let count = |verdict: &Verdict| count(results.iter().copied(), *verdict).to_string();
    let verdicts = Verdict::ALL.iter().map(|verdict| verdict.name());
    let counts = table(
        "Verdicts",
        &verdicts.collect::<Vec<_>>(),
        vec![Verdict::ALL.iter().map(count).collect()],
    );
    let row = |result: &&ClaimResult<'_>| {
        let Claim { id, place, says, .. } = result.claim;
        let verdict = result.shown();
        vec![id.clone(), place.clone(), verdict, says.clone(), figure(result)]
    };
    let header = ["claim", "where", "verdict", "the paper says", "our first check"];
    let claims = table("Claims", &header, results.iter().map(row).collect());
    let links = results.iter().map(|result| format!("#{}", result.claim.id)).collect();
    Front {
        title: format!("{}: {} claims", citation(paper), results.len()),
        sentence: limits(results),
        tables: [counts]
            .into_iter()
            .chain(recordings(results))
            .chain([PageTable { links, ..claims }])
            .collect(),
        is_index: false,
    }
}

/// What was measured with real packets, when and on what.
fn recordings(results: &[&ClaimResult<'_>]) -> Option<PageTable> {
    let mut all: Vec<Arc<Recording>> =
        results.iter().flat_map(|result| result.claim.recordings()).collect();
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all.dedup_by(|a, b| a.name == b.name);
    let row = |recording: &Arc<Recording>| {
        let state = if recording.is_stale() { " (stale)" } else { "" };
        let date = format!("{}{state}", recording.date());
        vec![recording.name.clone(), date, recording.machine(), recording.conditions.clone()]
    };
    let header = ["recording", "date", "machine", "conditions"];
    let rows: Vec<Vec<String>> = all.iter().map(row).collect();
    (!rows.is_empty()).then(|| table("Measured with real packets", &header, rows))
}

fn count<'a>(results: impl Iterator<Item = &'a ClaimResult<'a>>, verdict: Verdict) -> usize {
    results.filter(|result| result.verdict == verdict).count()
}

/// What the first check found.
fn figure(result: &ClaimResult<'_>) -> String {
    let Some(check) = result.checks.first() else { return String::new() };
    format!("{}: {} against {}", check.name, check.value, check.bound)
}

fn table(title: &str, header: &[&str], rows: Vec<Vec<String>>) -> PageTable {
    let header = header.iter().map(ToString::to_string).collect();
    PageTable { title: title.to_owned(), header, rows, ..PageTable::default() }
}

/// The first page: the main claims of each paper, and how many claims have which verdict.
fn index(results: &[&ClaimResult<'_>]) -> Front {
    let famous: Vec<&&ClaimResult<'_>> =
        results.iter().filter(|result| result.claim.headline.is_some()).collect();
    let row = |result: &&&ClaimResult<'_>| {
        let headline = result.claim.headline.clone().unwrap_or_default();
        vec![headline, citation(result.claim.paper()), result.shown(), figure(result)]
    };
    let header = ["claim", "paper", "verdict", "our first check"];
    let known_for =
        table("What the papers are known for", &header, famous.iter().map(row).collect());
    let links = famous.iter().map(|result| format!("#{}", result.claim.id)).collect();
    let mut papers: Vec<&str> = Vec::new();
    for result in results {
        if !papers.contains(&result.claim.paper()) {
            papers.push(result.claim.paper());
        }
    }
    let names = Verdict::ALL.iter().map(|verdict| verdict.name());
    let header: Vec<&str> = ["paper", "claims"].into_iter().chain(names).collect();
    let row = |paper: &&str| {
        let own = || results.iter().copied().filter(|result| result.claim.paper() == *paper);
        let counts = Verdict::ALL.iter().map(|verdict| count(own(), *verdict).to_string());
        [citation(paper), own().count().to_string()].into_iter().chain(counts).collect()
    };
    let counts = table("All claims", &header, papers.iter().map(row).collect());
    let pages = papers.iter().map(|paper| format!("{paper}.html")).collect();
    Front {
        title: "Claims of papers, checked".to_owned(),
        sentence: limits(results),
        tables: [PageTable { links, ..known_for }, PageTable { links: pages, ..counts }]
            .into_iter()
            .filter(|table| !table.rows.is_empty())
            .collect(),
        is_index: true,
    }
}

/// Where a claim stands on the front page; those of claims of one's own come last.
fn place_on_front(result: &ClaimResult<'_>) -> usize {
    let place = HEADLINES.iter().position(|id| *id == result.claim.id);
    place.unwrap_or(HEADLINES.len())
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
        false if result.has_failed() => String::new(),
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

/// The names of the claims whose results are `wanted`.
fn ids<'a, 'c>(
    results: &'a [ClaimResult<'c>],
    wanted: impl Fn(&ClaimResult<'c>) -> bool,
) -> Vec<&'a str> {
    results.iter().filter(|result| wanted(result)).map(|result| &*result.claim.id).collect()
}

fn summary(results: &[ClaimResult<'_>], traces: Option<&Path>) -> String {
    let count = results.len();
    let mut text = format!("\n{count} claims, every verdict as expected.\n");
    let differing = ids(results, |result| !result.is_expected() && !result.has_failed());
    if !differing.is_empty() {
        let (number, names) = (differing.len(), differing.join(", "));
        text = format!("\n{count} claims, {number} with another verdict than expected: {names}.\n");
    }
    let failed = ids(results, ClaimResult::has_failed);
    if !failed.is_empty() {
        text = if differing.is_empty() { format!("\n{count} claims.\n") } else { text };
        text += &format!("{} failed: {}.\n", failed.len(), failed.join(", "));
    }
    let needing = ids(results, |result| result.unrun == Some(Unrun::NeedsTraces));
    if !needing.is_empty() {
        text +=
            &format!("Without recorded traces there is no verdict of {}.\n", needing.join(", "));
    }
    if traces.is_none() && results.iter().any(|result| result.is_generated) {
        text +=
            "CELLPACE_TRACES names no folder of recorded traces: generated ones stood for them.\n";
    }
    text
}
