//! Command lines run one after the other by one shell, as a reader would who copies them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long the command lines of one session may take together.
const TIME_LIMIT: Duration = Duration::from_secs(60);

/// What becomes of what the shell left running.
const GRACE: Duration = Duration::from_secs(5);

/// The user without privileges as whom sessions run, too.
const NOBODY: u32 = 65534;

/// Stands before and behind the exit code of each command line.
const MARK: char = '\u{1}';

/// Who runs a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum User {
    /// Who runs the test.
    Same,
    Nobody,
}

/// What one command line wrote, and how it ended.
pub(crate) struct Ended {
    /// Standard output and standard error, as a terminal shows them.
    pub(crate) output: String,
    pub(crate) code: i32,
}

pub(crate) fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// Whether each session has a network of its own, and so all ports for itself.
pub(crate) fn has_own_network() -> bool {
    is_root() && is_installed("ip")
}

/// Whether the shell finds a program of this name.
pub(crate) fn is_installed(program: &str) -> bool {
    let search = format!("PATH=$PATH:/usr/sbin:/sbin; command -v {program}");
    Command::new("sh").args(["-c", &search]).output().unwrap().status.success()
}

/// Runs the command lines in a folder of their own, and returns how each ended. Fewer than there
/// were means that one did not end in time.
pub(crate) fn run(commands: &[String], user: User) -> Vec<Ended> {
    run_and_keep(commands, user).0
}

/// The same, with the files that were written, by their names.
pub(crate) fn run_and_keep(
    commands: &[String],
    user: User,
) -> (Vec<Ended>, BTreeMap<String, Vec<u8>>) {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path().join("here");
    fs::create_dir(&here).unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    if user == User::Nobody {
        chown(&here, Some(NOBODY), Some(NOBODY)).unwrap();
    }
    let script = folder.path().join("script");
    fs::write(&script, script_of(commands)).unwrap();
    let ended = output_of(&mut shell(&script, &here, user));
    let files = fs::read_dir(&here).unwrap().map(Result::unwrap);
    let files = files.filter(|file| file.file_type().unwrap().is_file());
    let name = |file: &fs::DirEntry| file.file_name().into_string().unwrap();
    let files = files.map(|file| (name(&file), fs::read(file.path()).unwrap())).collect();
    (parse(&ended), files)
}

fn script_of(commands: &[String]) -> String {
    let mut script = "exec 2>&1\nsudo() { \"$@\"; }\n".to_owned();
    for command in commands {
        script.push_str(command);
        script.push_str("\nprintf '\\001%d\\001' $?\n");
    }
    // What still runs in the background is the session's, not the reader's.
    script + "trap '' TERM\nkill 0\nwait\n"
}

fn shell(script: &Path, folder: &Path, user: User) -> Command {
    let program = Path::new(env!("CARGO_BIN_EXE_cellpace")).parent().unwrap();
    let path = std::env::var("PATH").unwrap_or_default();
    let mut words: Vec<&str> = Vec::new();
    if has_own_network() {
        words.extend(["unshare", "--net", "sh", "-c", "ip link set lo up; exec \"$@\"", "sh"]);
    }
    if user == User::Nobody {
        words.extend(["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    }
    words.push("sh");
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(script).current_dir(folder).process_group(0);
    command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", program.display()));
    command
        .env("HOME", folder)
        .env("COLUMNS", "100")
        .env_remove("CELLPACE_TRACES")
        .env_remove("XDG_CONFIG_HOME");
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command
}

/// What a shell and all that it started write, until the last of them has ended or time is over.
fn output_of(shell: &mut Command) -> String {
    let mut child = shell.spawn().unwrap();
    let group = Pid::from_child(&child);
    let mut pipe = child.stdout.take().unwrap();
    let reader = thread::spawn(move || {
        let mut bytes = Vec::new();
        pipe.read_to_end(&mut bytes).map(|_| bytes)
    });
    let signals = [(TIME_LIMIT, Signal::TERM), (GRACE, Signal::KILL)];
    for (patience, signal) in signals {
        let deadline = Instant::now() + patience;
        while !reader.is_finished() && Instant::now() < deadline {
            thread::sleep(Duration::from_millis(5));
        }
        if !reader.is_finished() {
            let _ = kill_process_group(group, signal);
        }
    }
    child.wait().unwrap();
    String::from_utf8_lossy(&reader.join().unwrap().unwrap()).into_owned()
}

fn parse(output: &str) -> Vec<Ended> {
    let mut parts = output.split(MARK);
    let mut ended = Vec::new();
    while let (Some(output), Some(code)) = (parts.next(), parts.next()) {
        ended.push(Ended { output: output.to_owned(), code: code.parse().unwrap() });
    }
    ended
}
