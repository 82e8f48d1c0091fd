//! `cellpace send` and `recv` over the loopback interface, for tests.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

pub(crate) fn cellpace(args: &[&str]) -> Command {
    cellpace_testing::heed_signals();
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    cellpace_testing::configured(&mut command);
    command
}

/// A `recv` that waits, and where.
pub(crate) struct Waiting {
    pub(crate) child: Child,
    pub(crate) address: String,
    /// What else it said of the address.
    pub(crate) hint: String,
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Waiting {
    pub(crate) fn start(command: &str, args: &[&str]) -> Self {
        Self::start_at("127.0.0.1:0", command, args)
    }

    pub(crate) fn start_at(address: &str, command: &str, args: &[&str]) -> Self {
        let all = [&[command, "--listen", address], args].concat();
        Self::spawn(&mut cellpace(&all))
    }

    /// With another environment or limits.
    pub(crate) fn start_with(
        change: impl FnOnce(&mut Command) -> &mut Command,
        command: &str,
        args: &[&str],
    ) -> Self {
        let all = [&[command, "--listen", "127.0.0.1:0"], args].concat();
        Self::spawn(change(&mut cellpace(&all)))
    }

    fn spawn(command: &mut Command) -> Self {
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (_, address) =
            line.trim().split_once("waiting at ").unwrap_or_else(|| panic!("{line}"));
        let (address, hint) = address.split_once(", ").unwrap_or((address, ""));
        let (address, hint) = (address.to_owned(), hint.to_owned());
        // Keeps the pipe open and empty.
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        Self { child, address, hint }
    }

    pub(crate) fn recv(args: &[&str]) -> Self {
        Self::start("recv", args)
    }

    /// Interrupts it. Returns what it has printed.
    pub(crate) fn interrupt(self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        self.end().1
    }

    pub(crate) fn end(self) -> (bool, String) {
        let output = self.finished();
        (output.status.success(), String::from_utf8(output.stdout).unwrap())
    }

    pub(crate) fn finished(mut self) -> Output {
        // What is left has ended, and may be killed.
        let left = Command::new("true").spawn().unwrap();
        cellpace_testing::finished(std::mem::replace(&mut self.child, left))
    }
}

pub(crate) fn send(address: &str, args: &[&str]) -> Output {
    cellpace(&[&["send", address], args].concat()).output().unwrap()
}

pub(crate) fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A file of bytes that look like nothing else.
pub(crate) fn content(path: &Path, bytes: usize) -> blake3::Hash {
    let mut random = cellpace_base::Random::seeded(bytes as u64, 0);
    let content: Vec<u8> = (0..bytes).map(|_| random.bits() as u8).collect();
    fs::write(path, &content).unwrap();
    blake3::hash(&content)
}

pub(crate) fn hash(path: &Path) -> blake3::Hash {
    blake3::hash(&fs::read(path).unwrap())
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}
