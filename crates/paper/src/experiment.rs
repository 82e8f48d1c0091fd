//! Measures a recording: runs its command, and writes down on what machine that was.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use cellpace_report::{indented, write_atomically};

use crate::PaperError;
use crate::conditions::{Conditions, FOLDER};
use crate::machine::{Lateness, Machine, date, load};
use crate::recording::Recording;

/// Where descriptions of recordings are, from the root of the repository.
const DESCRIPTIONS: &str = "evaluation/recordings.toml";
/// Timers that are later than this make a recording invalid, in microseconds.
const MAX_LATENESS: u64 = 1_000;

/// A recording as it was measured now, not stored yet.
#[derive(Debug)]
pub struct Measured {
    /// The recording with its values.
    pub recording: Recording,
    conditions: Conditions,
    figures: String,
}

impl Measured {
    /// Runs the commands of a recording in `root`, the root of the repository. `program` is the
    /// cellpace that they call. What they print goes to standard error.
    ///
    /// # Errors
    /// When `root` is another folder, a command fails, or what it writes is not what was described.
    pub fn now(recording: &Recording, root: &Path, program: &Path) -> Result<Self, PaperError> {
        if !root.join(DESCRIPTIONS).is_file() {
            let why =
                format!("there is no {DESCRIPTIONS} here: run it in the root of the repository");
            return Err(PaperError::Invalid(why));
        }
        let failed =
            |why: &dyn std::fmt::Display| PaperError::Failed(format!("{}: {why}", recording.name));
        let commands = recording.commands().map_err(|why| failed(&why))?;
        let folder = tempfile::tempdir().map_err(|error| failed(&error))?;
        let out = folder.path().join("figures.json");
        // A part of a file is measured beside the others, which it may be compared with.
        let stored = root.join(&recording.file);
        if stored.exists() && !recording.has_documents() {
            fs::copy(&stored, &out).map_err(|error| failed(&error))?;
        }
        let (machine, at_start, load) = (Machine::this(), Lateness::now(), load());
        let mut documents = String::new();
        for command in &commands {
            run(command, root, program, &out).map_err(|why| failed(&why))?;
            if recording.has_documents() {
                documents += &fs::read_to_string(&out).map_err(|error| failed(&error))?;
            }
        }
        let lateness_us = at_start.or(Lateness::now());
        let figures = match recording.has_documents() {
            true => documents,
            false => fs::read_to_string(&out).map_err(|error| failed(&error))?,
        };
        let conditions = Conditions {
            schema: crate::conditions::SCHEMA.to_owned(),
            date: date(SystemTime::now()),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            description: recording.description.clone(),
            commands,
            invalid: invalid(&machine, lateness_us, load),
            machine,
            lateness_us,
            load,
        };
        let measured = recording.measured(&figures, conditions.clone());
        Ok(Self { recording: measured.map_err(|why| failed(&why))?, conditions, figures })
    }

    /// Why it does not count; empty where it does.
    pub fn invalid(&self) -> &[String] {
        &self.conditions.invalid
    }

    /// Stores figures and conditions in the repository, and says where.
    ///
    /// # Errors
    /// When a file cannot be written.
    pub fn store(&self, root: &Path) -> Result<[String; 2], PaperError> {
        let failed = |file: &str, error: &dyn std::fmt::Display| {
            PaperError::Failed(format!("{file}: {error}"))
        };
        let conditions = format!("{FOLDER}/{}.json", self.recording.name);
        let files = [self.recording.file.clone(), conditions];
        let texts = [self.figures.clone(), indented(&self.conditions)];
        for (file, text) in files.iter().zip(&texts) {
            write_atomically(&root.join(file), text.as_bytes())
                .map_err(|error| failed(file, &error))?;
        }
        Ok(files)
    }
}

/// Why a recording does not count.
fn invalid(machine: &Machine, late: Lateness, load: f64) -> Vec<String> {
    let mut why = Vec::new();
    if late.p99 > MAX_LATENESS {
        why.push(format!("timers fired late: p99 {} us", late.p99));
    }
    if load > machine.cores as f64 {
        why.push(format!("load {load} at the start on {} cores", machine.cores));
    }
    why
}

/// Runs a command: its words, of which `CELLPACE` is the program and `OUT.json` the file to write.
fn run(command: &str, root: &Path, program: &Path, out: &Path) -> Result<(), String> {
    let word = |word: &str| match word {
        "CELLPACE" => program.as_os_str().to_owned(),
        "OUT.json" => out.as_os_str().to_owned(),
        word => word.into(),
    };
    let mut words = command.split_whitespace().map(word);
    let first = words.next().ok_or("its command is empty")?;
    let status = Command::new(&first)
        .args(words)
        .current_dir(root)
        .stdin(Stdio::null())
        .stdout(std::io::stderr())
        .status()
        .map_err(|error| format!("{}: {error}", first.to_string_lossy()))?;
    if status.success() { Ok(()) } else { Err(format!("`{command}` ended with {status}")) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recording::tests::described;

    /// A repository whose experiment is a shell script.
    fn repository(script: &str) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for below in ["evaluation", FOLDER] {
            fs::create_dir_all(folder.path().join(below)).unwrap();
        }
        fs::write(folder.path().join(DESCRIPTIONS), "").unwrap();
        fs::write(folder.path().join("measure.sh"), script).unwrap();
        folder
    }

    const WRITES: &str = r#"test "$1" = /the/program || exit 4
        echo '{"cells": {"gate/city/copa": {"throughput": {"runs": [7]}, "delays": [1], "window": 1}}}' > "$2""#;

    #[test]
    fn what_is_measured_is_stored_with_its_conditions_and_read_again() {
        let recording = described("sh measure.sh CELLPACE OUT.json", None).unwrap();
        let folder = repository(WRITES);
        let measured = Measured::now(&recording, folder.path(), Path::new("/the/program")).unwrap();
        let throughput = measured.recording.field("throughput_mbps", None).unwrap();
        assert_eq!(throughput.rows[0].value, 7e6);
        let [figures, conditions] = measured.store(folder.path()).unwrap();
        assert_eq!(conditions, "papers/recorded/made-up.json");
        assert!(fs::read_to_string(folder.path().join(figures)).unwrap().contains("city"));
        let text = fs::read_to_string(folder.path().join(conditions)).unwrap();
        let stored = Conditions::read("made-up", &text).unwrap();
        assert_eq!(stored, measured.conditions);
        let same = described("sh measure.sh CELLPACE OUT.json", Some(stored.clone())).unwrap();
        assert!(!same.is_stale());
        let other = described("sh measure.sh CELLPACE OUT.json twice", Some(stored)).unwrap();
        assert!(other.is_stale(), "the command is another");
    }

    #[test]
    fn what_fails_is_named_and_nothing_is_stored() {
        let why = |script: &str, command: &str| {
            let recording = described(command, None).unwrap();
            let folder = repository(script);
            Measured::now(&recording, folder.path(), Path::new("/")).unwrap_err().to_string()
        };
        assert!(
            why("exit 3", "sh measure.sh").contains("`sh measure.sh` ended with exit status: 3")
        );
        assert!(why("", "/no/such/program").contains("/no/such/program: "));
        assert!(why("echo '{}' > $1", "sh measure.sh OUT.json").contains("has no `"));
        let recording = described("true", None).unwrap();
        let error = Measured::now(&recording, Path::new("/proc"), Path::new("/")).unwrap_err();
        assert!(error.to_string().contains("root of the repository"), "{error}");
    }

    #[test]
    fn a_loaded_machine_and_late_timers_do_not_count() {
        let machine = Machine { cores: 2, ..Machine::this() };
        let late = |p99| Lateness { p50: 50, p99, max: 5_000 };
        assert!(invalid(&machine, late(900), 2.0).is_empty());
        assert_eq!(invalid(&machine, late(1_100), 2.1).len(), 2);
    }
}
