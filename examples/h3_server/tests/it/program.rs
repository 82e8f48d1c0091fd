//! The program as its users run it.

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use cellpace_quic::identity::Peer;
use h3_client::{Http3Error, get};

/// Only a fault takes as long.
const LONG: Duration = Duration::from_secs(30);

/// A server that runs, and where.
struct Serving {
    child: Child,
    url: String,
    peer: Peer,
}

impl Serving {
    fn start(command: &mut Command, folder: &Path) -> Self {
        cellpace_testing::heed_signals();
        command.arg(folder).args(["--listen", "127.0.0.1:0"]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (_, rest) = line.trim().split_once("serving at ").unwrap_or_else(|| panic!("{line}"));
        let (url, peer) = rest.split_once("; the certificate is ").unwrap();
        let (url, peer) = (url.to_owned(), peer.parse().unwrap());
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        Self { child, url, peer }
    }

    fn get(&self, path: &str) -> Result<Vec<u8>, Http3Error> {
        let url = format!("{}{path}", self.url).parse().unwrap();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut body = Vec::new();
        runtime.block_on(get(&url, &self.peer, LONG, &mut body)).map(|_| body)
    }

    fn signal(&self, signal: &str) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
    }

    /// Sends a signal, and returns what it has printed.
    fn end(mut self, signal: &str) -> String {
        self.signal(signal);
        let left = Command::new("true").spawn().unwrap();
        let output = cellpace_testing::finished(std::mem::replace(&mut self.child, left));
        assert!(output.status.success());
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn server() -> Command {
    Command::new(env!("CARGO_BIN_EXE_h3_server"))
}

#[test]
fn files_of_a_folder_are_served_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(folder.path().join("secret"), "no").unwrap();
    let content: Vec<u8> = (0..2_000_000_u32).map(|at| (at / 7) as u8).collect();
    fs::write(root.join("a file.bin"), &content).unwrap();
    let serving = Serving::start(server().args(["--cc", "copa"]), &root);
    assert_eq!(serving.get("a%20file.bin").unwrap(), content);
    for (path, status) in [("none", 404), ("../secret", 400), ("%2e%2e/secret", 400)] {
        match serving.get(path) {
            Err(Http3Error::Status(found)) => assert_eq!(found.as_u16(), status, "{path}"),
            other => panic!("{path}: {other:?}"),
        }
    }
    let lines = serving.end("-INT");
    assert!(lines.contains("GET /a%20file.bin: 200, 2000000 bytes"), "{lines}");
    assert!(lines.contains("1 requests") && lines.contains("queue delay p50"), "{lines}");
}

/// Nobody reads its lines, more than a pipe holds: it goes on, and ends when it is told to.
#[test]
fn output_that_is_not_read_stops_neither_answers_nor_the_end() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small"), "fine").unwrap();
    let serving = Serving::start(&mut server(), folder.path());
    // A line has some 150 bytes with its path, and a connection one of its own.
    let path = format!("small?{}", "q".repeat(50));
    for number in 0..400 {
        assert_eq!(serving.get(&path).unwrap(), b"fine", "request {number}");
    }
    let mut serving = serving;
    serving.signal("-TERM");
    let until = Instant::now() + LONG;
    let status = loop {
        if let Some(status) = serving.child.try_wait().unwrap() {
            break status;
        }
        assert!(Instant::now() < until, "it does not end");
        std::thread::yield_now();
    };
    assert!(status.success());
}

#[test]
fn a_private_key_that_others_may_read_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("site.pem");
    fs::write(&path, "-----BEGIN PRIVATE KEY-----\n").unwrap();
    for (mode, says) in [(0o644, "others may read"), (0o600, "no private key in PEM")] {
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        let mut command = server();
        command.arg(folder.path()).arg("--certificate").arg(&path);
        let output = command.output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(said.contains(says), "{said}");
    }
}

/// A file that is there is never told to be missing, whatever runs out.
#[test]
fn out_of_descriptors_is_busy_and_not_missing() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("small"), "fine").unwrap();
    let program = env!("CARGO_BIN_EXE_h3_server");
    let mut command = Command::new("sh");
    // It begins with about a dozen, and 64 files may be open: the system refuses first.
    command.args(["-c", "ulimit -n 20; exec \"$0\" \"$@\"", program]);
    let serving = Serving::start(&mut command, folder.path());
    let url = &serving.url;
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let statuses: Vec<u16> = runtime.block_on(async {
        let mut all = tokio::task::JoinSet::new();
        for _ in 0..40 {
            let (url, peer) = (format!("{url}small").parse().unwrap(), serving.peer.clone());
            all.spawn(async move {
                match get(&url, &peer, LONG, &mut Vec::new()).await {
                    Ok(_) => 200,
                    Err(Http3Error::Status(status)) => status.as_u16(),
                    Err(error) => panic!("{error}"),
                }
            });
        }
        all.join_all().await
    });
    assert!(statuses.iter().all(|status| [200, 503].contains(status)), "{statuses:?}");
    assert!(statuses.contains(&200));
    assert_eq!(serving.get("small").unwrap(), b"fine", "room comes back");
}
