//! Every command line in README.md and `docs/` runs, and its output is what the page shows.
//!
//! A reader's session is what stands in the fences `console` of one page: `$ COMMAND` and below it
//! what it writes. The commands of a page run in one shell and one folder. `[..]` stands for a part of a
//! line, a line `...` for any lines. In a fence `console realtime` numbers and widths of columns may differ from
//! one run to the next: what the page shows is one such run. A fence `console fails` has commands that end
//! with an error. Pages with `sudo` need root. `SNAPSHOTS=overwrite cargo test -p cellpace --test
//! documentation` writes the output anew.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;

use snapbox::filter::NormalizeToExpected;
use snapbox::{Assert, Data};

use super::pages::{self, Block, Page};
use super::session::{self, Ended, User};

/// Programs that a page may use, and without which it is skipped.
const OTHER_PROGRAMS: [&str; 9] =
    ["curl", "nginx", "iperf3", "python3", "ping", "jq", "rsync", "caddy", "cc"];

/// Pages whose commands run as an ordinary user, too, since privileges change what they do.
const AS_USER_TOO: [&str; 2] = ["docs/how-to/run.md", "docs/tutorial/first-server.md"];

/// Pages whose command lines other tests run, and why.
const RUN_ELSEWHERE: [(&str, &str); 2] = [
    ("docs/validation/conformance.md", "measures for half an hour: tests/it/conform.rs"),
    (
        "docs/kernel.md",
        "changes the kernel of this machine: tests/it/{kernel,kernel_native,kernel_mdi,attach}.rs",
    ),
];

/// Pages at the same time: most of them wait for real time.
const AT_ONCE: usize = 4;

/// A command line, and what the page says that it writes.
struct Step {
    command: String,
    output: String,
    fails: bool,
    realtime: bool,
}

fn is_session(block: &Block) -> bool {
    block.info.split_whitespace().next() == Some("console")
}

/// The steps of a session: a command continues behind a backslash, and up to the end of a document
/// (`<<'END'`).
fn steps(block: &Block) -> Vec<Step> {
    let has = |word| block.info.split_whitespace().skip(1).any(|one| one == word);
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = block.text.lines();
    while let Some(line) = lines.next() {
        let Some(command) = line.strip_prefix("$ ") else {
            let step = steps.last_mut().unwrap_or_else(|| panic!("no command before: {line}"));
            step.output.push_str(line);
            step.output.push('\n');
            continue;
        };
        let mut command = command.to_owned();
        let document =
            command.split_once("<<'").map(|(_, word)| word.trim_end_matches('\'').to_owned());
        while command.ends_with('\\')
            || document.as_ref().is_some_and(|end| command.lines().last() != Some(end))
        {
            command.push('\n');
            command.push_str(lines.next().expect("a command ends inside of its fence"));
        }
        let output = String::new();
        steps.push(Step { command, output, fails: has("fails"), realtime: has("realtime") });
    }
    steps
}

/// The command lines of a page, in their order.
pub(crate) fn commands(page: &Page) -> Vec<String> {
    let sessions = page.blocks.iter().filter(|block| is_session(block));
    sessions.flat_map(steps).map(|step| step.command).collect()
}

/// Why the session of a page cannot run here.
pub(crate) fn lacking(page: &str, commands: &[String]) -> Option<String> {
    let word = |program: &str| {
        commands
            .iter()
            .any(|command| command.split([' ', '\n', '\'', '"']).any(|word| word == program))
    };
    let missing =
        OTHER_PROGRAMS.iter().find(|program| word(program) && !session::is_installed(program));
    missing.map(|program| format!("{page} needs {program}"))
}

/// The steps that run here: without root's privileges those before the first `sudo`.
fn runnable<'a>(page: &str, steps: &'a [Vec<Step>], user: User) -> Vec<&'a Step> {
    let all: Vec<_> = steps.iter().flatten().collect();
    let is_root = user == User::Same && session::is_root();
    let needs_root = |step: &&Step| step.command.starts_with("sudo ") && !is_root;
    let Some(first) = all.iter().position(needs_root) else { return all };
    if user == User::Same {
        cellpace_testing::skip(format!("{page} needs root"));
    }
    all[..first].to_vec()
}

/// The page with what its commands write now, where that differs.
fn rerun(page: &Page, user: User) -> Result<String, String> {
    let sessions: Vec<_> = page.blocks.iter().filter(|block| is_session(block)).collect();
    let steps: Vec<_> = sessions.iter().map(|block| steps(block)).collect();
    let runnable = runnable(&page.name, &steps, user);
    let commands: Vec<_> = runnable.iter().map(|step| step.command.clone()).collect();
    if let Some(reason) = lacking(&page.name, &commands) {
        cellpace_testing::skip(reason);
        return Ok(page.text.clone());
    }
    let mut ended = session::run(&commands, user).into_iter();
    let mut left = commands.len();
    let mut shown_now = |step: &Step| {
        if left == 0 {
            return Ok(format!("$ {}\n{}", step.command, step.output));
        }
        left -= 1;
        shown(step, ended.next()).map_err(|error| format!("{}: {error}", page.name))
    };
    let shown: Result<Vec<String>, String> =
        steps.iter().map(|steps| steps.iter().map(&mut shown_now).collect()).collect();
    let mut text = page.text.clone();
    for (block, shown) in sessions.iter().zip(shown?).rev() {
        text.replace_range(block.range.clone(), &shown);
    }
    Ok(text)
}

/// A step as the page shows it: wildcards stay where they fit.
fn shown(step: &Step, ended: Option<Ended>) -> Result<String, String> {
    let Step { command, output, fails, realtime } = step;
    let Some(ended) = ended else { return Err(format!("does not end in time: {command}")) };
    if (ended.code != 0) != *fails {
        return Err(format!("exit code {} of: {command}\n{}", ended.code, ended.output));
    }
    let mut actual = ended.output;
    if !actual.is_empty() && !actual.ends_with('\n') {
        actual.push('\n');
    }
    let agrees = |actual: String, shown: String| fitted(actual, &shown) == shown;
    let actual = match *realtime && agrees(blurred(&actual), blurred(output)) {
        true => output.clone(),
        false => fitted(actual, output),
    };
    Ok(format!("$ {command}\n{actual}"))
}

/// What was written, with the wildcards of what is shown where they fit.
fn fitted(actual: String, shown: &str) -> String {
    let shown = Data::text(shown.to_owned());
    NormalizeToExpected::new().redact().normalize(Data::text(actual), &shown).to_string()
}

/// A text without its numbers, the drawing of columns, and the widths that depend on them.
fn blurred(text: &str) -> String {
    let word = |word: &str| match word.contains(|c: char| c.is_ascii_digit()) {
        true => word.replace(|c: char| c.is_ascii_digit() || matches!(c, '.' | '+' | '-'), ""),
        false => word.to_owned(),
    };
    let is_drawn = |c: char| ('\u{2500}'..='\u{259f}').contains(&c);
    let line = |line: &str| {
        let line = line.replace(is_drawn, " ");
        line.split_whitespace().map(word).collect::<Vec<_>>().join(" ") + "\n"
    };
    text.lines().map(line).collect()
}

/// Calls `job` for each item, some at the same time, and returns what it returned, in order.
pub(crate) fn side_by_side<T: Sync, R: Send>(items: &[T], job: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let (next, done) = (AtomicUsize::new(0), Mutex::new(BTreeMap::new()));
    let work = || {
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(index) else { return };
            let result = job(item);
            done.lock().unwrap().insert(index, result);
        }
    };
    let at_once = if session::has_own_network() { AT_ONCE } else { 1 };
    thread::scope(|scope| (0..at_once).for_each(|_| _ = scope.spawn(work)));
    done.into_inner().unwrap().into_values().collect()
}

#[test]
fn what_pages_show_is_what_the_program_writes() {
    let mut runs = Vec::new();
    for page in pages::all().into_iter().filter(|page| page.blocks.iter().any(is_session)) {
        let page = Arc::new(page);
        if session::is_root() && AS_USER_TOO.contains(&page.name.as_str()) {
            runs.push((page.clone(), User::Nobody));
        }
        runs.push((page, User::Same));
    }
    let differs = side_by_side(&runs, |(page, user)| difference(page, *user));
    // What the machine does besides may spoil a measurement over real time: once more, alone.
    let alone = |((page, user), differs): (&(Arc<Page>, User), Option<String>)| match differs {
        Some(_) if is_realtime(page) => difference(page, *user),
        differs => differs,
    };
    let wrong: Vec<_> = runs.iter().zip(differs).filter_map(alone).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn is_realtime(page: &Page) -> bool {
    let sessions = page.blocks.iter().filter(|block| is_session(block));
    sessions.flat_map(steps).any(|step| step.realtime)
}

/// How a page differs from what its commands write now.
fn difference(page: &Page, user: User) -> Option<String> {
    let text = match rerun(page, user) {
        Err(error) => return Some(format!("as {user:?}: {error}")),
        Ok(text) => text,
    };
    let expected = Data::read_from(&pages::root().join(&page.name), None).raw();
    let asserting = Assert::new().action_env(snapbox::assert::DEFAULT_ACTION_ENV);
    let outcome = asserting.try_eq(Some(&page.name), Data::text(text), expected);
    outcome.err().map(|error| format!("as {user:?}: {error}"))
}

/// Whether a line of code is a command line of the program.
fn is_command_line(line: &str) -> bool {
    let line = line.trim_start().trim_start_matches("$ ");
    line.starts_with("cellpace ") || line.starts_with("sudo cellpace ")
}

#[test]
fn a_command_line_stands_where_it_is_run() {
    let mut found = Vec::new();
    let is_run_elsewhere = |page: &Page| RUN_ELSEWHERE.iter().any(|(name, _)| *name == page.name);
    for page in pages::all().iter().filter(|page| !is_run_elsewhere(page)) {
        for block in page.blocks.iter().filter(|block| !is_session(block)) {
            let lines = block.text.lines().filter(|line| is_command_line(line));
            found.extend(lines.map(|line| format!("{}: {line}", page.name)));
        }
    }
    assert!(found.is_empty(), "not in a fence `console`:\n{}", found.join("\n"));
}
