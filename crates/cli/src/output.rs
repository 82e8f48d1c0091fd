//! Text out.

use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::time::Duration;

use cellpace_base::{Span, shell_quoted};
use cellpace_cc::ControllerSpec;
use cellpace_lab::EventLog;
use cellpace_report::{BEST_MARKS, write_atomically};
use cellpace_run::EventWriter;

pub(crate) use crate::complaint::one_line;
use crate::complaint::push_visible;
use crate::error::CommandError;
pub(crate) use crate::line_writer::complain;
use crate::line_writer::{LineWriter, service_stderr, service_stdout};

/// Prints text for people to standard output. A reader that went away (`| head`) is not an error.
pub(crate) fn print(text: &str) -> Result<(), CommandError> {
    print_while_read(text).map(drop)
}

/// A table whose best values are marked: bold and green on a terminal, unless `NO_COLOR` is set; elsewhere plain.
pub(crate) fn print_table(text: &str) -> Result<(), CommandError> {
    let wants_plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    let has_colours = io::stdout().is_terminal() && service_stdout().is_none() && !wants_plain;
    print_bytes(with_marks(&lines(text), has_colours).as_bytes()).map(drop)
}

fn with_marks(text: &str, has_colours: bool) -> String {
    let [from, to] = if has_colours { ["\x1b[1;32m", "\x1b[0m"] } else { [""; 2] };
    text.replace(BEST_MARKS[0], from).replace(BEST_MARKS[1], to)
}

/// The same for a command that prints again and again: returns whether the reader is still there.
pub(crate) fn print_while_read(text: &str) -> Result<bool, CommandError> {
    print_bytes(lines(text).as_bytes())
}

/// Text of several lines in which names from outside may stand: other control characters than line
/// ends and tabs are shown, not obeyed. A text that goes into it is first made [`one_line`].
fn lines(text: &str) -> String {
    let mut lines = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\n' | '\t' => lines.push(c),
            c => push_visible(&mut lines, c),
        }
    }
    lines
}

/// Prints lines of a transfer as they are, to standard output or standard error.
pub(crate) fn print_lines(text: &str, to_stderr: bool) {
    match (to_stderr, service_stderr()) {
        (true, Some(stderr)) => stderr.put(text.as_bytes()),
        (true, None) => drop(io::stderr().write_all(text.as_bytes())),
        // What fails here shows in the end.
        (false, _) => drop(print_bytes(text.as_bytes())),
    }
}

/// Prints bytes as they are. Returns whether standard output is still read.
pub(crate) fn print_bytes(bytes: &[u8]) -> Result<bool, CommandError> {
    if let Some(stdout) = service_stdout() {
        stdout.put(bytes);
        return Ok(true);
    }
    let mut out = io::stdout().lock();
    match out.write_all(bytes).and_then(|()| out.flush()) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
        Err(error) => Err(CommandError::failed(format!("standard output: {error}"))),
    }
}

/// Writes a document for scripts, if one is wanted. Returns whether standard output is then free
/// for people.
pub(crate) fn write_json(
    path: Option<&Path>,
    document: impl FnOnce() -> String,
) -> Result<bool, CommandError> {
    let Some(path) = path else { return Ok(true) };
    write(path, &document())?;
    Ok(!is_stdout(path))
}

/// Options that say where results go or how fast, not what comes out.
const NOT_RECORDED: [&str; 7] =
    ["--json", "--report", "--log", "--events", "--jobs", "--output", "--key"];

/// The command line for the record in a result: what was asked, without where the results go, so
/// that the same question has the same answer.
pub(crate) fn command_line() -> String {
    recorded(std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned()))
}

fn recorded(words: impl Iterator<Item = String>) -> String {
    let mut line = "cellpace".to_owned();
    let mut words = words.peekable();
    while let Some(word) = words.next() {
        if word == "--" {
            // What follows belongs to another program.
            return words
                .fold(line + " --", |line, word| format!("{line} {}", shell_quoted(&word)));
        }
        let (option, value) = word.split_once('=').map_or((&*word, None), |(o, v)| (o, Some(v)));
        if NOT_RECORDED.contains(&option) {
            // Its value is the next word. Without one it is not followed by a word that it takes.
            if value.is_none() && words.peek().is_some_and(|next| !next.starts_with("--")) {
                words.next();
            }
            continue;
        }
        line.push(' ');
        line += &shell_quoted(&word);
    }
    line
}

/// Whether output goes to standard output, where there is nothing else then.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path == Path::new("-")
}

/// Writes text to a file, or to standard output for `-`.
pub(crate) fn write(path: &Path, text: &str) -> Result<(), CommandError> {
    write_bytes(path, text.as_bytes())
}

/// Writes bytes to a file, or to standard output for `-`.
pub(crate) fn write_bytes(path: &Path, bytes: &[u8]) -> Result<(), CommandError> {
    if is_stdout(path) {
        return print_bytes(bytes).map(drop);
    }
    write_atomically(path, bytes).map_err(CommandError::failed)
}

/// Begins the event log of connections, if there is to be one; `program` is who writes it. What an
/// earlier run has written stays.
pub(crate) fn event_writer(
    path: Option<&Path>,
    program: &str,
    cc: &ControllerSpec,
    every: Span,
) -> Result<Option<(EventWriter, LineWriter)>, CommandError> {
    let Some(path) = path else { return Ok(None) };
    let cc = cc.to_string();
    let lines = append("--events", path, EventLog::<File>::header(path, program, &cc))?;
    let log = EventLog::headless(Box::new(lines.clone()) as Box<dyn Write + Send>, path);
    let writer = EventWriter::start(log, Duration::from_nanos(every.as_nanos()));
    let writer =
        writer.map_err(|error| CommandError::failed(format!("starting a thread: {error}")))?;
    Ok(Some((writer, lines)))
}

/// Appends lines to the file of an option, and says what a killed process has left there.
pub(crate) fn append(
    option: &'static str,
    path: &Path,
    header: Vec<u8>,
) -> Result<LineWriter, CommandError> {
    let opened = LineWriter::append(option, path, header);
    let (lines, removed) = opened
        .map_err(|error| CommandError::failed(format!("{option}: {}: {error}", path.display())))?;
    if removed > 0 {
        complain(&format!(
            "{option}: {}: removed an incomplete last line of {removed} bytes, which a killed process had left",
            path.display()
        ));
    }
    Ok(lines)
}

/// An option that names a file to write, and the file if there is to be one.
pub(crate) type OutputOption<'a> = (&'static str, Option<&'a Path>);

/// Options whose files are written bit by bit, or have a form of their own: not standard output.
const FILES_ONLY: [(&str, &str); 3] = [
    ("--log", "a packet log"),
    ("--transfers", "a log of transfers"),
    ("--events", "an event log"),
];

/// Refuses, before the work is done, files that cannot be written: where there is no folder for
/// them, a log at standard output, and two options for the same file.
pub(crate) fn check_files(options: &[OutputOption<'_>]) -> Result<(), CommandError> {
    let given = options.iter().filter_map(|(option, file)| Some((*option, (*file)?)));
    let given: Vec<(&str, &Path)> = given.collect();
    for (index, (option, file)) in given.iter().enumerate() {
        if let Some((other, _)) = given[..index].iter().find(|(_, before)| is_same(before, file)) {
            let what = if is_stdout(file) {
                "to standard output".into()
            } else {
                file.display().to_string()
            };
            return Err(CommandError::usage(format!("{other} and {option} both write {what}")));
        }
        if let Some((_, what)) = FILES_ONLY.iter().find(|(log, _)| log == option) {
            refuse_stdout(option, Some(file), what)?;
        }
        if !is_stdout(file) {
            check_file(option, file)?;
        }
    }
    Ok(())
}

/// Refuses, before the work is done, to write over what the command reads.
pub(crate) fn keep_inputs<'a>(
    options: &[OutputOption<'_>],
    inputs: impl IntoIterator<Item = &'a Path>,
) -> Result<(), CommandError> {
    for input in inputs.into_iter().filter(|input| !is_stdout(input)) {
        let written = |(_, file): &&OutputOption<'_>| file.is_some_and(|file| is_same(file, input));
        if let Some((option, _)) = options.iter().find(written) {
            let name = shell_quoted(&input.to_string_lossy());
            return Err(CommandError::usage(format!(
                "{option} would replace {name}, which is read"
            )));
        }
    }
    Ok(())
}

/// Refuses `-` where standard output belongs to others, or cannot take `what`.
pub(crate) fn refuse_stdout(
    option: &str,
    file: Option<&Path>,
    what: &str,
) -> Result<(), CommandError> {
    match file.is_some_and(is_stdout) {
        true => Err(CommandError::usage(format!("{option}: {what} needs a file, not `-`"))),
        false => Ok(()),
    }
}

fn is_same(one: &Path, other: &Path) -> bool {
    let absolute = |path: &Path| std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    one == other || absolute(one) == absolute(other)
}

fn check_file(option: &str, file: &Path) -> Result<(), CommandError> {
    let folder = match file.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let wrong = |why: &str| {
        Err(CommandError::usage(format!(
            "{option} {}: {why}",
            shell_quoted(&file.to_string_lossy())
        )))
    };
    if file.as_os_str().is_empty() {
        return wrong("the name of the file is empty");
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_text_has_lines_and_obeys_nothing_else() {
        assert_eq!(lines("a\tb\nc µs\n"), "a\tb\nc µs\n");
        assert_eq!(lines("a\u{1b}[2J\r\u{9b}b\n"), "a\\u{1b}[2J\\r\\u{9b}b\n");
    }

    #[test]
    fn the_best_value_is_bold_and_green_where_colours_are_wanted() {
        let [from, to] = BEST_MARKS;
        let text = format!("copa  {from}12{to}  3");
        assert_eq!(with_marks(&text, true), "copa  \u{1b}[1;32m12\u{1b}[0m  3");
        assert_eq!(with_marks(&text, false), "copa  12  3");
    }

    #[test]
    fn the_record_of_a_command_says_what_was_asked_and_not_where_results_go() {
        let record = |line: &str| recorded(line.split(' ').map(str::to_owned));
        assert_eq!(
            record("compare --json a.json --cc verus:r=2 --report=b.html --jobs 2 --timing"),
            "cellpace compare --cc verus:r=2 --timing"
        );
        assert_eq!(record("sim it's.toml"), "cellpace sim 'it'\\''s.toml'");
        assert_eq!(
            record("run --json a.json --cc copa -- iperf3 --json -c there"),
            "cellpace run --cc copa -- iperf3 --json -c there"
        );
    }
}
