//! Completions of shells and manual pages.

use std::collections::BTreeSet;
use std::fs;
use std::process::{Command, Stdio};

use crate::program::Folder;

/// Runs a program of the machine with `input`, which must succeed without complaint.
fn succeeds(program: &str, args: &[&str]) {
    let mut command = Command::new(program);
    let Ok(output) = command.args(args).stdin(Stdio::null()).output() else {
        return cellpace_testing::skip(format_args!("no {program}"));
    };
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && complaint.is_empty(), "{program}: {complaint}");
}

#[test]
fn each_shell_takes_its_completions() {
    let folder = Folder::new();
    for shell in ["bash", "zsh", "fish"] {
        let script = folder.good(&format!("completions {shell}"));
        for word in ["compare", "kernel", "report"] {
            assert!(script.contains(word), "{shell}: {word}");
        }
        let file = folder.path(shell);
        fs::write(&file, script).unwrap();
        succeeds(shell, &["-n", file.to_str().unwrap()]);
    }
    folder.refused("completions tcsh", "bash");
}

#[test]
fn bash_completes_commands_options_and_names() {
    let folder = Folder::new();
    fs::write(folder.path("script"), folder.good("completions bash")).unwrap();
    folder.write("lte-own.down", "1\n2\n");
    for (words, expected) in [
        ("cellpace comp", "compare"),
        ("cellpace run --dr", "--drain"),
        ("cellpace run --cc cop", "copa"),
        ("cellpace compare --cc cop", "copa"),
        ("cellpace compare --trace lte", "lte-driving"),
        ("cellpace compare --trace lte", "lte-own.down"),
        ("cellpace mdi train --trace umts", "umts-driving"),
    ] {
        let line = format!(
            "cd {}; . {}; COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1)); \
             _cellpace cellpace \"${{COMP_WORDS[COMP_CWORD]}}\" \"${{COMP_WORDS[COMP_CWORD - 1]}}\"; \
             echo \"${{COMPREPLY[@]}}\"",
            folder.path(".").display(),
            folder.path("script").display()
        );
        let output = Command::new("bash").args(["--norc", "-c", &line]).output().unwrap();
        let reply = String::from_utf8(output.stdout).unwrap();
        let is_there = reply.split_whitespace().any(|word| word == expected);
        assert!(is_there, "{words}: {reply} {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Options that say where something is written or shown.
const OUTPUTS: &[&str] = &[
    "--dashboard",
    "--dashboard-allow-remote",
    "--events",
    "--events-every",
    "--json",
    "--log",
    "--mdi-samples",
    "--mdi-users",
    "--pcap",
    "--quiet",
    "--report",
    "--transfers",
    "--verbose",
];

#[test]
fn the_group_of_outputs_holds_outputs_only() {
    let folder = Folder::new();
    for command in
        ["compare", "sim", "run", "proxy", "attach", "link", "send", "recv", "probe", "conform"]
    {
        let help = folder.good(&format!("{command} --help"));
        let outputs = help.split("\nOutput:\n").nth(1).unwrap_or_default();
        let outputs = outputs.split("\n\n").take_while(|part| part.starts_with("  "));
        for line in outputs.flat_map(str::lines) {
            let Some(option) = line.split_whitespace().find(|word| word.starts_with("--")) else {
                continue;
            };
            let is_head = line.trim_start().starts_with('-');
            assert!(!is_head || OUTPUTS.contains(&option), "{command}: {line}");
        }
    }
}

#[test]
fn every_command_has_a_manual_page() {
    let folder = Folder::new();
    folder.good("man-pages pages");
    let pages = folder.path("pages");
    let names: BTreeSet<String> = fs::read_dir(&pages)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for command in ["", "-compare", "-trace", "-trace-show", "-kernel-install", "-completions"] {
        assert!(names.contains(&format!("cellpace{command}.1")), "{command}: {names:?}");
    }
    assert!(!names.contains("cellpace-man-pages.1"), "it is for packages alone");
    for name in names {
        let page = pages.join(name);
        assert!(fs::read_to_string(&page).unwrap().contains(".SH SYNOPSIS"), "{}", page.display());
        succeeds("mandoc", &["-Tlint", "-Werror", page.to_str().unwrap()]);
    }
}
