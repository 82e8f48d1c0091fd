//! What `--help` says: the options that pages name are there, and the examples run as they stand.
//!
//! The examples of a command run in their order in one folder and one shell. One that serves or takes long is
//! ended by SIGTERM after some seconds, which it must do in good order.

use std::fmt::Write;
use std::process::Command;

use super::command_lines::{lacking, side_by_side};
use super::pages;
use super::session::{self, User};

/// What a home has, recordings of others among it; and what variables of one example are to the next.
const BEFORE: &str = "set -a; mkdir -p ~/.local/share/bash-completion/completions ~/.config/fish/completions; \
    printf 'Timestamp,Speed,DL_bitrate\\n2019.12.16_13.40.04,3,9000\\n2019.12.16_13.40.05,3,6000\\n' >phone.csv; \
    printf '1453121790686 0 51.0 3.7 1250000\\n1453121791687 1 51.0 3.7 2500000\\n' >ghent.log; \
    echo '{\"intervals\": [{\"sum\": {\"start\": 0, \"end\": 1, \"bits_per_second\": 1e7}}]}' >iperf3.json";

/// The log of an experiment: a connection in each of nine slots.
const BASELINE: &str = r#"
of='"schema":"cellpace.experiment/1","experiment":"e",'
echo '{'"$of"'"kind":"start","version":"0.1.0","assign":"time","slot_s":600,"washout_s":0,"share":1,
"arms":[{"name":"a"},{"name":"b"}]}' | tr -d '\n' >baseline.jsonl; echo >>baseline.jsonl
for i in 1 2 3 4 5 6 7 8 9; do
    echo '{'"$of"'"kind":"connection","arm":"a","slot":'$i',"client":"c","start_s":'${i}000',"duration_s":1,
"driver":"plain","outcome":"finished","crossed":false,"washout":false,"acked_bytes":9,"received_bytes":9,
"tcp_sent_bytes":9,"retransmitted_bytes":0,"goodput_mbps":'$i'}' | tr -d '\n' >>baseline.jsonl; echo >>baseline.jsonl
done"#;

/// Examples that are not run, and why.
const NOT_RUN: [(&str, &str); 7] = [
    ("cellpace kernel install", "changes the kernel of this machine; tests/it/kernel.rs does it"),
    ("cellpace kernel remove", "changes the kernel of this machine; tests/it/kernel.rs does it"),
    (
        "cellpace kernel watch",
        "needs a controller in the kernel; tests/it/kernel_native.rs does it",
    ),
    ("cellpace attach", "needs the kernel driver; tests/it/attach.rs does it"),
    (" there:", "needs another computer"),
    ("//there:", "needs another computer"),
    ("fpath", "is written for zsh"),
];

/// Commands of real time. Who is longer at it serves, or has shown that it works.
const REAL_TIME: [&str; 7] = ["link", "run", "proxy", "send", "recv", "probe", "conform"];
const PATIENCE_S: u32 = 3;

/// The others end by themselves.
const LONG_S: u32 = 40;

/// The help of a command, or what the program says instead.
fn help(command: &str) -> String {
    let mut program = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    let output = program.args(command.split_whitespace()).arg("--help").output().unwrap();
    String::from_utf8([output.stdout, output.stderr].concat()).unwrap()
}

/// The commands that a help lists, without `help` itself.
fn subcommands(help: &str) -> Vec<String> {
    let lines = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let lines = lines.take_while(|line| line.starts_with("  "));
    let names = lines
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next());
    names.filter(|name| *name != "help").map(str::to_owned).collect()
}

/// Every command that does something itself: `compare`, `trace show`, ..., and the program.
fn commands() -> Vec<String> {
    let mut all = vec![String::new()];
    for name in subcommands(&help("")) {
        match subcommands(&help(&name)) {
            of if of.is_empty() => all.push(name),
            of => all.extend(of.iter().map(|one| format!("{name} {one}"))),
        }
    }
    all
}

/// The examples of a help: lines below `Example:` or `Examples:`, as commands.
fn examples(help: &str) -> Vec<String> {
    let is_title = |line: &&str| line.starts_with("Example");
    let lines = help.lines().skip_while(|line| !is_title(line)).skip(1);
    let mut commands: Vec<String> = Vec::new();
    for line in lines.take_while(|line| line.starts_with("  ")) {
        match commands.last_mut().filter(|command| command.ends_with('\\')) {
            Some(command) => *command += &format!("\n{line}"),
            None => commands.push(line.trim_start().to_owned()),
        }
    }
    commands
}

/// Shell commands that run an example, and end it in good order where it does not end by itself.
fn bounded(example: &str) -> String {
    let is_one_command = example.starts_with("cellpace ") && !example.contains(" &");
    if example.contains("--once &") {
        return format!("{example}\ncode=$?; wait; (exit $code)");
    }
    if !is_one_command {
        return example.to_owned();
    }
    let name = example.split_whitespace().nth(1).unwrap_or_default();
    let patience = if REAL_TIME.contains(&name) { PATIENCE_S } else { LONG_S };
    format!(
        "cat > example.sh <<'END'\nexec {example}\nEND
sh example.sh & pid=$!
left={ticks}
while kill -0 $pid 2>/dev/null && [ $left -gt 0 ]; do sleep 0.05; left=$((left - 1)); done
if [ $left -gt 0 ]; then wait $pid; else kill $pid; wait $pid; code=$?; [ $code = 143 ] || [ $code = 0 ]; fi",
        ticks = patience * 20
    )
}

/// Whether an example is run here.
fn is_run(example: &str) -> bool {
    if let Some(reason) = lacking("the help", std::slice::from_ref(&example.to_owned())) {
        cellpace_testing::skip(reason);
        return false;
    }
    !NOT_RUN.iter().any(|(part, _)| example.contains(part))
}

/// What is wrong with the examples of a command.
fn complaints(command: &str) -> String {
    let examples = examples(&help(command));
    let examples: Vec<_> = examples.iter().filter(|example| is_run(example)).collect();
    let mut commands = vec![format!("{BEFORE}{BASELINE}")];
    commands.extend(examples.iter().map(|example| bounded(example)));
    let mut ended = session::run(&commands, User::Same).into_iter().skip(1);
    let mut wrong = String::new();
    for example in examples {
        match ended.next() {
            None => writeln!(wrong, "does not end: {example}").unwrap(),
            Some(ended) if ended.code != 0 => {
                writeln!(wrong, "exit code {} of: {example}\n{}", ended.code, ended.output)
                    .unwrap();
            }
            Some(_) => {}
        }
    }
    wrong
}

#[test]
fn examples_of_the_help_run_as_they_stand() {
    let commands = commands();
    assert!(commands.len() > 15, "{commands:?}");
    let without: Vec<_> =
        commands.iter().filter(|command| examples(&help(command)).is_empty()).collect();
    assert!(without.is_empty(), "no example in the help of {without:?}");
    let wrong: String = side_by_side(&commands, |command| complaints(command)).concat();
    assert!(wrong.is_empty(), "{wrong}");
}

/// The options in code like `cellpace run --cc copa -- nginx` that `cellpace run` does not have.
fn unknown_options(code: &str, commands: &[String]) -> Vec<String> {
    let rest = code.strip_prefix("cellpace ").unwrap_or_default();
    let is_of = |name: &&String| format!("{rest} ").starts_with(&format!("{name} "));
    let Some(name) = commands.iter().filter(|name| !name.is_empty()).find(is_of) else {
        return Vec::new();
    };
    let help = help(name);
    let known: Vec<_> = help.split([' ', ',', '\n', '[']).collect();
    // What stands in quotes is another program's.
    let rest: String = rest.split('\'').step_by(2).collect();
    let words = rest.split_whitespace().take_while(|word| !["--", "|"].contains(word));
    let options = words.filter(|word| word.starts_with('-') && word.len() > 1);
    let options = options.filter_map(|word| word.split('=').next());
    options.filter(|one| !known.contains(one)).map(|one| format!("{one} of {code}")).collect()
}

#[test]
fn options_that_sentences_name_exist() {
    let commands = commands();
    let mut unknown = Vec::new();
    for page in pages::all() {
        for span in &page.spans {
            let found = unknown_options(span, &commands);
            unknown.extend(found.iter().map(|one| format!("{}: {one}", page.name)));
        }
    }
    assert!(unknown.is_empty(), "options that are not there:\n{}", unknown.join("\n"));
}
