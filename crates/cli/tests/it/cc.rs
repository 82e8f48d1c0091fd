//! `cellpace cc`, `--help`, `--version`, and what all commands have in common.

use std::fs::OpenOptions;
use std::process::Stdio;

use crate::program::{Folder, Outcome};

#[test]
fn all_controllers_are_listed_one_a_line() {
    let listed = Folder::new().good("cc");
    let (listed, advice) = listed.split_once("\n\n").unwrap();
    let names: Vec<&str> = listed.lines().map(|line| line.split(' ').next().unwrap()).collect();
    for name in ["verus", "copa", "bbr", "cubic", "newreno", "vegas"] {
        assert!(names.contains(&name), "{listed}");
    }
    assert!(listed.lines().all(|line| line.contains("  ")), "each has a summary:\n{listed}");
    assert!(advice.contains("not known"), "{advice}");
}

#[test]
fn every_controller_tells_defaults_units_ranges_and_sources() {
    let folder = Folder::new();
    for line in folder.good("cc").lines().take_while(|line| !line.is_empty()) {
        let name = line.split(' ').next().unwrap();
        if name == "plugin" {
            // What it has is in its file.
            continue;
        }
        let told = folder.good(&format!("cc {name}"));
        assert!(told.starts_with(&format!("{name}: ")), "{told}");
        assert!(told.contains("default") && told.contains("allowed"), "{told}");
    }
    let verus = folder.good("cc verus");
    for part in ["1..1000", "5ms", "original  as the original program", "--all"] {
        assert!(verus.contains(part), "{verus}");
    }
    let all = folder.good("cc verus --all");
    assert!(all.contains("(Verus, eq. 4;") && all.contains("rto_min=150ms"), "{all}");
    assert_eq!(folder.good("cc verus:r=2"), verus);
}

#[test]
fn an_unknown_controller_is_answered_with_the_nearest() {
    let folder = Folder::new();
    folder.refused("cc vreus", "there is no controller `vreus`; did you mean `verus`?");
    folder.refused("cc CUBIC", "did you mean `cubic`?");
    folder.refused("cc warp-drive", "there are verus, copa,");
    folder.refused_args(["cc", ""], "there is no controller ``");
    folder.refused_args(["cc", &"verus".repeat(10_000)], "there is no controller");
    folder.refused_args(["cc", "a\nb\u{1b}[2J"], "`a\\nb\\u{1b}[2J`");
}

#[test]
fn every_command_has_help_with_an_example() {
    let folder = Folder::new();
    for args in ["--help", "compare --help", "sim --help", "cc --help", "help compare"] {
        let help = folder.good(args);
        let example = help.split("Example").nth(1).unwrap_or_else(|| panic!("{args}: {help}"));
        assert!(example.contains("  cellpace "), "{args}: {help}");
        assert!(help.contains("Usage: cellpace"), "{args}: {help}");
    }
    let version = folder.good("--version");
    assert_eq!(version, format!("cellpace {}\n", env!("CARGO_PKG_VERSION")));
}

/// The help shows whole command lines: they must read.
#[test]
fn the_examples_of_the_help_work() {
    let folder = Folder::new();
    folder.write("city-drive.down", "1\n2\n4\n2500\n");
    for command in ["", "compare ", "cc "] {
        let help = folder.good(&format!("{command}--help"));
        let examples = help.split("Example").nth(1).unwrap().replace("\\\n", " ");
        let mut shown = 0;
        for line in examples.lines().filter_map(|line| line.trim().strip_prefix("cellpace ")) {
            let shorter = match line {
                _ if line.contains("--handover 30s") => " --skip 0s --duration 31s",
                _ if line.contains("--duration") => "",
                _ if line.starts_with("compare") => " --skip 0s --duration 200ms",
                _ => "",
            };
            folder.good(&format!("{line}{shorter}"));
            shown += 1;
        }
        assert!(shown > 0, "{examples}");
    }
}

#[test]
fn wrong_commands_and_options_end_with_2() {
    let folder = Folder::new();
    for (args, said) in [
        ("comapre", "unrecognized subcommand 'comapre'"),
        ("compare --trcae x", "unexpected argument '--trcae'"),
        ("compare stray", "unexpected argument 'stray'"),
        ("compare --json", "a value is required for '--json <FILE>'"),
        ("sim", "<SCENARIO>"),
    ] {
        folder.refused(args, said);
    }
    let nothing = folder.run("");
    assert_eq!(nothing.code, Some(2));
    assert!(nothing.stdout.is_empty() && nothing.stderr.contains("Usage: cellpace"));
}

#[cfg(unix)]
#[test]
fn arguments_that_are_no_text_are_refused() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let odd = OsString::from_vec(b"veru\xff".to_vec());
    Folder::new().run_args([OsString::from("cc"), odd]).complains(2, "is no text in UTF-8");
}

/// `cellpace ... | head` is no failure, whatever is left unread.
#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let folder = Folder::new();
    for args in ["cc", "compare --help", "compare --cc fixed --flows 500 --duration 3s --json -"] {
        let mut child = folder.start(args);
        drop(child.stdout.take());
        let outcome = Outcome::of(child.wait_with_output().unwrap());
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{args}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_behind_the_standard_streams_is_no_panic() {
    let folder = Folder::new();
    let full = || Stdio::from(OpenOptions::new().write(true).open("/dev/full").unwrap());
    for args in [&["cc"][..], &["compare", "--cc", "fixed", "--duration", "3s"]] {
        let output = folder.command(args).stdout(full()).output().unwrap();
        Outcome::of(output).complains(1, "standard output: No space left");
    }
    let output = folder.command(["cc", "vreus"]).stderr(full()).output().unwrap();
    assert_eq!(Outcome::of(output).code, Some(2));
}
