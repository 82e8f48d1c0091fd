//! Where a case happens: two network namespaces joined by a cable, a folder, and processes that all
//! end with it.

use std::fs::{self, File};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::program::Folder;

pub(crate) const CELLPACE: &str = env!("CARGO_BIN_EXE_cellpace");

/// No program takes as long to do what it was asked for, however slow the machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(90);

/// The address of the near side, where servers are, ...
pub(crate) const NEAR: &str = "10.77.0.1";

/// ... and that of the far side.
pub(crate) const FAR: &str = "10.77.0.2";

/// The other address that the far side gets.
pub(crate) const OTHER: &str = "10.77.0.3";

/// The far side's end of the cable.
pub(crate) const CABLE: &str = "far";

/// Which side a process is on.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Near,
    Far,
}

/// Two namespaces and a folder. All is removed with the value.
pub(crate) struct Ground {
    pub(crate) folder: Folder,
    name: String,
    mounted: bool,
    cgroups: Vec<PathBuf>,
}

/// What the shell prepares before a program begins, e.g. `ulimit -n 64`.
pub(crate) type Preparation = String;

impl Ground {
    pub(crate) fn new() -> Self {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("ct{}-{number}", std::process::id());
        let ground = Self { folder: Folder::new(), name, mounted: false, cgroups: Vec::new() };
        let [near, far] = [Side::Near, Side::Far].map(|side| ground.namespace(side));
        for namespace in [&near, &far] {
            ground.must(&["ip", "netns", "add", namespace]);
            ground.must(&["ip", "-n", namespace, "link", "set", "lo", "up"]);
        }
        let cable =
            ["ip", "-n", &near, "link", "add", "near", "type", "veth", "peer", "name", CABLE];
        ground.must(&[&cable[..], &["netns", &far]].concat());
        for (namespace, device, address) in [(&near, "near", NEAR), (&far, CABLE, FAR)] {
            let address = format!("{address}/24");
            ground.must(&["ip", "-n", namespace, "addr", "add", &address, "dev", device]);
            ground.must(&["ip", "-n", namespace, "link", "set", device, "up"]);
        }
        ground
    }

    pub(crate) fn namespace(&self, side: Side) -> String {
        format!("{}{}", self.name, if side == Side::Near { "n" } else { "f" })
    }

    /// Runs a command that must succeed.
    #[track_caller]
    pub(crate) fn must(&self, command: &[&str]) -> String {
        let output = Command::new(command[0]).args(&command[1..]).output().unwrap();
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{command:?}: {errors}");
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// `ip` in the namespace of a side.
    pub(crate) fn ip(&self, side: Side, arguments: &str) -> String {
        let namespace = self.namespace(side);
        let command = ["ip", "-n", &namespace].into_iter().chain(arguments.split_whitespace());
        self.must(&command.collect::<Vec<_>>())
    }

    /// A small disk below the folder, and its name there.
    pub(crate) fn small_disk(&mut self) -> &'static str {
        let path = self.folder.path("disk");
        fs::create_dir(&path).unwrap();
        let path = path.to_str().unwrap();
        self.must(&["mount", "-t", "tmpfs", "-o", "size=256k", "cellpace-torture", path]);
        self.mounted = true;
        "disk/"
    }

    /// A cgroup with so much memory, in either version, as what the shell does to enter it.
    pub(crate) fn little_memory(&mut self, bytes: u64) -> Option<Preparation> {
        let kinds =
            [("/sys/fs/cgroup/memory", "memory.limit_in_bytes"), ("/sys/fs/cgroup", "memory.max")];
        for (root, limit) in kinds {
            let path = Path::new(root).join(&self.name);
            if fs::create_dir(&path).is_err() {
                continue;
            }
            self.cgroups.push(path.clone());
            if fs::write(path.join(limit), bytes.to_string()).is_ok() {
                return Some(format!("echo 0 >'{}/cgroup.procs'", path.display()));
            }
        }
        None
    }

    /// A cgroup of version 2, for what looks at these.
    pub(crate) fn unified_cgroup(&mut self) -> Option<PathBuf> {
        let roots = ["/sys/fs/cgroup/unified", "/sys/fs/cgroup"];
        let root = roots.iter().find(|root| Path::new(root).join("cgroup.procs").exists())?;
        let path = Path::new(root).join(format!("{}u", self.name));
        fs::create_dir(&path).ok()?;
        self.cgroups.push(path.clone());
        Some(path)
    }

    /// The same again, for a server that is started anew.
    pub(crate) fn cgroup_path(&self) -> PathBuf {
        self.cgroups.last().expect("one was made").clone()
    }

    /// Processes on a side.
    pub(crate) fn processes(&self, side: Side) -> Vec<String> {
        let pids = self.must(&["ip", "netns", "pids", &self.namespace(side)]);
        pids.split_whitespace().map(str::to_owned).collect()
    }

    /// What is pinned by the name of this case's driver.
    pub(crate) fn pins(&self) -> Vec<String> {
        let Ok(entries) = fs::read_dir("/run/cellpace/bpf") else { return Vec::new() };
        let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        names.filter(|name| name.starts_with(&self.driver())).collect()
    }

    /// Whether a congestion control has the name of this case's driver.
    pub(crate) fn is_registered(&self) -> bool {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.unwrap_or_default().split_whitespace().any(|name| name == self.driver())
    }

    /// The name of a driver that belongs to this case alone.
    pub(crate) fn driver(&self) -> String {
        self.name.replace('-', "_")
    }

    /// `cellpace kernel` for this case's driver, whose default is that of the near side.
    pub(crate) fn kernel(&self, words: &str) -> Command {
        let namespace = format!("--net=/run/netns/{}", self.namespace(Side::Near));
        let mut command = Command::new("nsenter");
        command.args([&namespace, CELLPACE, "kernel"]).args(words.split(' '));
        command.args(["--name", &self.driver()]);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command
    }

    /// Starts a program on a side; its output goes to files of the name.
    pub(crate) fn start(
        &self,
        name: &'static str,
        side: Side,
        prepare: &str,
        arguments: &[&str],
    ) -> Process {
        let script =
            format!("{prepare}\nexec nsenter --net=/run/netns/{} \"$@\"", self.namespace(side));
        let mut command = Command::new("sh");
        command.args(["-c", &script, "sh"]).args(arguments).current_dir(self.folder.path("."));
        let [stdout, stderr] =
            ["out", "err"].map(|kind| self.folder.path(&format!("{name}.{kind}")));
        cellpace_testing::configured(&mut command).stdin(Stdio::piped()).process_group(0);
        command.stdout(append(&stdout)).stderr(append(&stderr));
        let mut child = command.spawn().unwrap();
        let stdin = child.stdin.take();
        Process { name, child, stdin, stdout, stderr, ended: None }
    }

    /// What is left in the namespaces, other than what was there at the beginning.
    pub(crate) fn left(&self) -> Vec<String> {
        let until = Instant::now() + Duration::from_secs(10);
        loop {
            let left: Vec<String> =
                [Side::Near, Side::Far].iter().flat_map(|side| self.left_on(*side)).collect();
            if left.is_empty() || Instant::now() > until {
                return left;
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn left_on(&self, side: Side) -> Vec<String> {
        let namespace = self.namespace(side);
        let mut left: Vec<String> = self.processes(side).iter().map(|pid| describe(pid)).collect();
        let devices = self.ip(side, "-o link show");
        let names = devices.lines().filter_map(|line| line.split(':').nth(1));
        let known = ["lo", "near", CABLE];
        let others = names.filter_map(|name| name.trim().split('@').next());
        left.extend(
            others.filter(|name| !known.contains(name)).map(|name| format!("device {name}")),
        );
        let net = format!("--net=/run/netns/{namespace}");
        let sockets = self.must(&["nsenter", &net, "cat", "/proc/net/unix"]);
        let names = sockets.lines().filter_map(|line| line.split_whitespace().nth(7));
        left.extend(
            names.filter(|name| name.contains("cellpace")).map(|name| format!("socket {name}")),
        );
        let rules = Command::new("nsenter").args([&net, "nft", "list", "ruleset"]).output();
        let rules = rules.map(|output| output.stdout).unwrap_or_default();
        if !rules.is_empty() {
            left.push(format!("rules {}", String::from_utf8_lossy(&rules)));
        }
        left
    }

    /// Files that were not finished, anywhere below the folder.
    pub(crate) fn unfinished(&self) -> Vec<String> {
        let path = self.folder.path(".");
        let found = self.must(&["find", path.to_str().unwrap(), "-name", "*.partial"]);
        found.lines().map(str::to_owned).collect()
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        let run = |command: &[&str]| {
            let _ = Command::new(command[0]).args(&command[1..]).stderr(Stdio::null()).status();
        };
        for side in [Side::Near, Side::Far] {
            let namespace = self.namespace(side);
            for pid in self.processes(side) {
                signal("KILL", &pid);
            }
            run(&["ip", "netns", "del", &namespace]);
        }
        if self.mounted {
            run(&["umount", "-l", self.folder.path("disk").to_str().unwrap()]);
        }
        for cgroup in &self.cgroups {
            for _ in 0..50 {
                if fs::remove_dir(cgroup).is_ok() {
                    break;
                }
                sleep(Duration::from_millis(20));
            }
        }
    }
}

fn append(path: &Path) -> File {
    File::options().create(true).append(true).open(path).unwrap()
}

fn describe(pid: &str) -> String {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    format!("process {pid}: {}", String::from_utf8_lossy(&line).replace('\0', " "))
}

/// A program, and a process group of its own; all of it ends with the value.
pub(crate) struct Process {
    pub(crate) name: &'static str,
    child: Child,
    stdin: Option<ChildStdin>,
    stdout: PathBuf,
    stderr: PathBuf,
    ended: Option<Ended>,
}

/// How a program ended: its exit code, or the signal that ended it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ended {
    Code(i32),
    Signal(i32),
}

impl Process {
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn stdout(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stdout).unwrap()).into_owned()
    }

    pub(crate) fn stderr(&self) -> String {
        String::from_utf8_lossy(&fs::read(&self.stderr).unwrap()).into_owned()
    }

    /// Waits until either output has the text.
    #[track_caller]
    pub(crate) fn says(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.stdout().contains(text) && !self.stderr().contains(text) {
            assert!(self.ended().is_none(), "{} ended: {}", self.name, self.stderr());
            assert!(Instant::now() < until, "{} does not say {text}: {}", self.name, self.stderr());
            sleep(Duration::from_millis(10));
        }
    }

    pub(crate) fn ended(&mut self) -> Option<Ended> {
        if self.ended.is_none()
            && let Some(status) = self.child.try_wait().unwrap()
        {
            let signal = status.signal().map(Ended::Signal);
            self.ended = status.code().map(Ended::Code).or(signal);
        }
        self.ended
    }

    /// Waits for the end, but not for ever.
    pub(crate) fn end(&mut self) -> Option<Ended> {
        let until = Instant::now() + PATIENCE;
        while self.ended().is_none() && Instant::now() < until {
            sleep(Duration::from_millis(10));
        }
        self.ended
    }

    /// Ends its standard input.
    pub(crate) fn close_input(&mut self) {
        self.stdin = None;
    }

    /// Sends a signal to the program itself.
    pub(crate) fn signal(&self, name: &str) {
        signal(name, &self.pid().to_string());
    }

    /// Sends a signal to the program and all that it started.
    pub(crate) fn signal_all(&self, name: &str) {
        signal(name, &format!("-{}", self.pid()));
    }

    /// A process below this one whose command line has the word.
    pub(crate) fn descendant(&self, word: &str) -> Option<u32> {
        let mut waiting = vec![self.pid()];
        while let Some(pid) = waiting.pop() {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let mut words = line.split(|byte| *byte == 0);
            if pid != self.pid() && words.any(|one| one == word.as_bytes()) {
                return Some(pid);
            }
            let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
            let children = children.unwrap_or_default();
            waiting.extend(children.split_whitespace().filter_map(|pid| pid.parse::<u32>().ok()));
        }
        None
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if self.ended().is_none() {
            self.signal_all("KILL");
            let _ = self.child.wait();
        }
    }
}

/// Sends a signal to a process, or with a minus in front to a group.
pub(crate) fn signal(name: &str, target: &str) {
    let arguments = [&format!("-{name}"), "--", target];
    let _ = Command::new("kill").args(arguments).stderr(Stdio::null()).status();
}
