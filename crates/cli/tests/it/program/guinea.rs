//! `cellpace run` with the programs of `guinea/program.py`.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::thread::{self, sleep};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::Folder;

pub(crate) const PYTHON: &str = "/usr/bin/python3";
pub(crate) const GUINEA: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/guinea/program.py");
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the tests can run; says so if not.
pub(crate) fn can_run() -> bool {
    let can = fs::exists(PYTHON).unwrap();
    if !can {
        cellpace_testing::skip("no python3");
    }
    can
}

/// What the program's `data()` makes.
pub(crate) fn data(size: usize) -> Vec<u8> {
    (0..size).map(|index| (index % 1000 * 7 % 251) as u8).collect()
}

/// `cellpace run` with a program in it.
pub(crate) struct Guinea {
    pub(crate) child: Child,
    pub(crate) out: BufReader<ChildStdout>,
    pub(crate) folder: Folder,
}

impl Guinea {
    /// Runs a mode under a controller.
    pub(crate) fn start(mode: &str) -> Self {
        Self::with("--cc cubic", mode)
    }

    pub(crate) fn with(options: &str, mode: &str) -> Self {
        Self::prepared(options, mode, |_| {})
    }

    pub(crate) fn prepared(options: &str, mode: &str, prepare: impl FnOnce(&mut Command)) -> Self {
        let folder = Folder::new();
        let program = ["--", PYTHON, "-u", GUINEA];
        let args = ["run"].into_iter().chain(options.split_whitespace()).chain(program);
        let mut command = folder.command(args.chain(mode.split_whitespace()));
        let errors = fs::File::create(folder.path("stderr")).unwrap();
        command.stdout(Stdio::piped()).stderr(errors).process_group(0);
        prepare(&mut command);
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        Self { child, out, folder }
    }

    /// The next line that the program says.
    #[track_caller]
    pub(crate) fn line(&mut self) -> String {
        let mut line = String::new();
        let count = self.out.read_line(&mut line).unwrap();
        assert!(count > 0, "the program ended: {}", self.stderr());
        line.trim_end().to_owned()
    }

    #[track_caller]
    pub(crate) fn says(&mut self, expected: &str) {
        assert_eq!(self.line(), expected, "{}", self.stderr());
    }

    #[track_caller]
    pub(crate) fn json(&mut self) -> Value {
        serde_json::from_str(self.line().strip_prefix("json ").unwrap()).unwrap()
    }

    #[track_caller]
    pub(crate) fn port(&mut self) -> u16 {
        self.line().strip_prefix("port ").unwrap().parse().unwrap()
    }

    /// Connects once the program listens.
    #[track_caller]
    pub(crate) fn connect(&mut self) -> TcpStream {
        connect(([127, 0, 0, 1], self.port()).into())
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8(self.folder.read("stderr")).unwrap()
    }

    /// Waits for the end, and returns the exit code.
    #[track_caller]
    pub(crate) fn code(&mut self) -> Option<i32> {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < until, "it does not end: {}", self.stderr());
            sleep(Duration::from_millis(5));
        }
    }

    #[track_caller]
    pub(crate) fn ends_well(&mut self) {
        assert_eq!(self.code(), Some(0), "{}", self.stderr());
        assert_eq!(self.stderr(), "");
    }
}

/// Nothing is left, whatever the test did.
impl Drop for Guinea {
    fn drop(&mut self) {
        let group = format!("-{}", self.child.id());
        let _ = Command::new("kill").args(["-KILL", "--", &group]).stderr(Stdio::null()).status();
        let _ = self.child.wait();
    }
}

pub(crate) fn connect(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect_timeout(&address, PATIENCE).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

pub(crate) fn read_all(mut stream: &TcpStream) -> Vec<u8> {
    let mut received = Vec::new();
    stream.read_to_end(&mut received).unwrap();
    received
}

/// Sends data, ends that direction, and returns what comes back.
pub(crate) fn exchange(stream: &TcpStream, sent: &[u8]) -> Vec<u8> {
    thread::scope(|scope| {
        scope.spawn(|| {
            (&*stream).write_all(sent).unwrap();
            stream.shutdown(Shutdown::Write).unwrap();
        });
        read_all(stream)
    })
}
