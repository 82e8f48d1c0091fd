//! Runs the built program as a user would, in a folder of its own.

pub(crate) mod dashboard;
pub(crate) mod guinea;
pub(crate) mod links;
pub(crate) mod measured;

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use serde_json::Value;
use tempfile::TempDir;

/// A working folder.
pub(crate) struct Folder(TempDir);

/// What came out of a command.
pub(crate) struct Outcome {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Folder {
    pub(crate) fn new() -> Self {
        // Whatever a test starts can be interrupted, also where the tests cannot.
        cellpace_testing::heed_signals();
        Self(tempfile::tempdir().unwrap())
    }

    /// A folder with a file.
    pub(crate) fn with(name: &str, text: impl AsRef<[u8]>) -> Self {
        let folder = Self::new();
        folder.write(name, text);
        folder
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) {
        fs::write(self.path(name), text).unwrap();
    }

    pub(crate) fn read(&self, name: &str) -> Vec<u8> {
        fs::read(self.path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
    }

    /// Names of all files, sorted.
    pub(crate) fn names(&self) -> Vec<String> {
        names(self.0.path())
    }

    /// Every file below `name` with its name, sorted.
    pub(crate) fn contents(&self, name: &str) -> Vec<(String, Vec<u8>)> {
        let folder = self.path(name);
        names(&folder).into_iter().map(|n| (n.clone(), fs::read(folder.join(n)).unwrap())).collect()
    }

    /// `cellpace` with these arguments in this folder.
    pub(crate) fn command<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
        command.args(args).current_dir(self.0.path()).stdin(Stdio::null());
        cellpace_testing::configured(&mut command);
        command
    }

    /// Runs `cellpace`; the arguments stand in one text, parted by blanks.
    pub(crate) fn run(&self, args: &str) -> Outcome {
        self.run_args(args.split_whitespace())
    }

    pub(crate) fn run_args<S: AsRef<OsStr>>(&self, args: impl IntoIterator<Item = S>) -> Outcome {
        Outcome::of(self.command(args).output().unwrap())
    }

    /// Runs `cellpace` with so much memory that only what grows without bounds needs more.
    pub(crate) fn run_in_little_memory(&self, args: &str) -> Outcome {
        let mut shell = Command::new("sh");
        shell.args(["-c", "ulimit -v 3000000; exec \"$@\"", "sh", env!("CARGO_BIN_EXE_cellpace")]);
        shell.args(args.split_whitespace()).current_dir(self.0.path());
        cellpace_testing::configured(&mut shell);
        Outcome::of(shell.output().unwrap())
    }

    /// Runs `cellpace`, which must succeed and say nothing on standard error.
    #[track_caller]
    pub(crate) fn good(&self, args: &str) -> String {
        let outcome = self.run(args);
        assert_eq!(outcome.code, Some(0), "{args}\n{}", outcome.stderr);
        assert_eq!(outcome.stderr, "", "{args}");
        outcome.stdout
    }

    /// The same with `--json -`, read.
    #[track_caller]
    pub(crate) fn json(&self, args: &str) -> Value {
        let text = self.good(&format!("{args} --json -"));
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{args}: {error}\n{text}"))
    }

    /// The first run of [`json`](Self::json).
    #[track_caller]
    pub(crate) fn first_run(&self, args: &str) -> Value {
        self.json(args)["runs"][0].take()
    }

    /// Runs what must be refused as wrong usage with one line that contains `said`.
    #[track_caller]
    pub(crate) fn refused(&self, args: &str, said: &str) {
        self.refused_args(args.split_whitespace(), said);
    }

    #[track_caller]
    pub(crate) fn refused_args<S: AsRef<OsStr>>(
        &self,
        args: impl IntoIterator<Item = S>,
        said: &str,
    ) {
        self.run_args(args).complains(2, said);
    }

    /// Starts `cellpace` and leaves it running.
    pub(crate) fn start(&self, args: &str) -> Child {
        let mut command = self.command(args.split_whitespace());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    }
}

impl Outcome {
    pub(crate) fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let (stdout, stderr) = (text(output.stdout), text(output.stderr));
        Self { code: output.status.code(), stdout, stderr }
    }

    /// Nothing on standard output, one line on standard error.
    #[track_caller]
    pub(crate) fn complains(&self, code: i32, said: &str) {
        let Self { stdout, stderr, .. } = self;
        assert_eq!(self.code, Some(code), "{stdout}{stderr}");
        assert_eq!(stdout, "", "{stderr}");
        assert!(stderr.contains(said), "said {stderr}not  {said}");
        if let Some(clap) = stderr.strip_prefix("error: ") {
            assert!(clap.contains("--help"), "{stderr}");
        } else {
            assert!(stderr.starts_with("cellpace: "), "{stderr}");
            assert_eq!(stderr.lines().count(), 1, "{stderr}");
        }
        assert!(!stderr.contains("panicked") && !stderr.contains("RUST_BACKTRACE"), "{stderr}");
    }
}

/// Maximum time for a program to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits for the end, but not for ever. Returns the exit code.
#[track_caller]
pub(crate) fn code(child: &mut Child) -> Option<i32> {
    let started = Instant::now();
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status.code();
        }
        if started.elapsed() > PATIENCE {
            let _ = child.kill();
            panic!("process {} does not end", child.id());
        }
        sleep(Duration::from_millis(5));
    }
}

/// The same for a program whose output is read. Returns that, too.
#[track_caller]
pub(crate) fn ended(child: Child) -> Outcome {
    Outcome::of(cellpace_testing::finished(child))
}

/// Sends a signal, e.g. `INT`.
pub(crate) fn signal(child: &Child, name: &str) {
    let status = Command::new("kill").args([&format!("-{name}"), &child.id().to_string()]).status();
    assert!(status.unwrap().success());
}

/// Names in a folder, sorted.
pub(crate) fn names(folder: &Path) -> Vec<String> {
    let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
    let mut names: Vec<String> =
        fs::read_dir(folder).unwrap().map(name).map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A number in a JSON document, e.g. `number(&run, "/queue_delay_ms/p50")`.
#[track_caller]
pub(crate) fn number(value: &Value, pointer: &str) -> f64 {
    let found = value.pointer(pointer).and_then(Value::as_f64);
    found.unwrap_or_else(|| panic!("no number at {pointer} of {value}"))
}

/// The keys of a JSON object, sorted.
#[track_caller]
pub(crate) fn keys(value: &Value) -> Vec<&str> {
    let mut keys: Vec<&str> = value.as_object().unwrap().keys().map(String::as_str).collect();
    keys.sort_unstable();
    keys
}

/// Waits until something is so.
#[track_caller]
pub(crate) fn eventually(what: &str, is_so: impl Fn() -> bool) {
    let started = Instant::now();
    while !is_so() {
        assert!(started.elapsed() < Duration::from_secs(30), "never {what}");
        sleep(Duration::from_millis(10));
    }
}
