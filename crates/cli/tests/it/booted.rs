//! The units of `packaging/systemd` under a systemd that has booted: this machine's own, in a container of which
//! nothing stays.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::program::links::is_root;
use crate::program::{Folder, eventually};

/// For a machine to boot, and to end.
const PATIENCE: Duration = Duration::from_secs(60);

/// Where the container has the program, and the clients of the proxy.
const PROGRAM: &str = "/opt/program";
const CLIENTS: &str = "/opt/clients/clients.py";

fn source(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

/// A container with this machine's programs, a network of its own, and systemd as its first process.
struct Machine {
    container: Child,
    /// Its first process.
    first: u32,
    /// Units, and what is to be in `/etc/cellpace`.
    folder: Folder,
}

impl Machine {
    /// `None` where there can be none.
    fn boot() -> Option<Self> {
        let tools = ["/usr/bin/systemd-nspawn", "/usr/bin/nsenter", "/usr/bin/python3"];
        if !is_root() || !tools.iter().all(|tool| Path::new(tool).exists()) {
            cellpace_testing::skip("no root, systemd-nspawn, nsenter or python3 to boot systemd");
            return None;
        }
        let folder = Folder::new();
        for part in ["units", "etc"] {
            fs::create_dir(folder.path(part)).unwrap();
        }
        write_units(&folder);
        let program = Path::new(env!("CARGO_BIN_EXE_cellpace")).parent().unwrap();
        let mut command = Command::new("systemd-nspawn");
        command.args(["--quiet", "--directory=/", "--volatile=yes", "--private-network", "--boot"]);
        command.args(["--register=no", "--keep-unit", "--console=pipe"]);
        for (here, there) in [
            (folder.path("units"), "/run/systemd/system"),
            (folder.path("etc"), "/etc/cellpace"),
            (source("tests/it/booted"), "/opt/clients"),
            (program.to_owned(), PROGRAM),
        ] {
            command.arg(format!("--bind-ro={}:{there}", here.display()));
        }
        command.arg("systemd.unit=basic.target");
        // One asks questions, the other waits for a network that never comes.
        for unit in ["systemd-firstboot.service", "systemd-networkd-wait-online.service"] {
            command.arg(format!("systemd.mask={unit}"));
        }
        let log = fs::File::create(folder.path("boot.log")).unwrap();
        let container = command
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .unwrap();
        let mut machine = Self { container, first: 0, folder };
        if !machine.has_booted() {
            let log = fs::read_to_string(machine.folder.path("boot.log")).unwrap();
            cellpace_testing::skip(format!(
                "systemd does not boot: {}",
                log.lines().last().unwrap_or_default()
            ));
            return None;
        }
        Some(machine)
    }

    fn has_booted(&mut self) -> bool {
        let start = Instant::now();
        let container = self.container.id();
        let children = format!("/proc/{container}/task/{container}/children");
        while start.elapsed() < PATIENCE && self.container.try_wait().unwrap().is_none() {
            let children = fs::read_to_string(&children).unwrap_or_default();
            if let Some(first) = children.split_whitespace().next() {
                self.first = first.parse().unwrap();
                if self.run(&["systemctl", "is-active", "basic.target"]).status.success() {
                    return true;
                }
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        false
    }

    fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new("nsenter");
        command.args(["--target", &self.first.to_string(), "--all", "--"]);
        command.args(["env", "-i", "PATH=/usr/bin:/usr/sbin:/bin:/sbin", "LC_ALL=C.UTF-8"]);
        command.args(words).stdin(Stdio::null());
        command
    }

    fn run(&self, words: &[&str]) -> Output {
        self.command(words).output().unwrap()
    }

    /// What a command that must succeed prints.
    #[track_caller]
    fn good(&self, words: &[&str]) -> String {
        let output = self.run(words);
        let journal = || self.run(&["journalctl", "--no-pager", "--unit", "cellpace-proxy"]);
        assert!(output.status.success(), "{words:?}: {output:?} {:?}", journal());
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn options(&self, to: u16, more: &str) {
        let options = format!("--listen 0.0.0.0:80\n--to 127.0.0.1:{to}\n{more}");
        fs::write(self.folder.path("etc/proxy.conf"), options).unwrap();
    }

    fn journal_has(&self, text: &str) {
        eventually(text, || {
            self.good(&["journalctl", "--no-pager", "--unit", "cellpace-proxy"]).contains(text)
        });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // Nothing is kept that a shutdown would have to save: all ends with the first process.
        if self.first > 0 {
            let _ = Command::new("kill").args(["-s", "KILL", &self.first.to_string()]).status();
        }
        let start = Instant::now();
        while start.elapsed() < PATIENCE {
            if self.container.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let _ = self.container.kill();
        let _ = self.container.wait();
    }
}

/// The units as they are, but for where the program is.
fn write_units(folder: &Folder) {
    for unit in ["cellpace-proxy.service", "cellpace-proxy.socket"] {
        let text = fs::read_to_string(source("../../packaging/systemd").join(unit)).unwrap();
        let text = text.replace("/usr/local/bin/cellpace", &format!("{PROGRAM}/cellpace"));
        fs::write(folder.path("units").join(unit), text).unwrap();
    }
    let options = source("../../packaging/systemd/proxy.env");
    fs::copy(options, folder.path("etc/proxy.env")).unwrap();
}

/// Lines of the page for operators that systemd answers.
fn commands_of_the_page() -> Vec<String> {
    let page = fs::read_to_string(source("../../docs/operate.md")).unwrap();
    let commands = page.lines().filter(|line| line.starts_with("systemctl "));
    let commands: Vec<_> = commands.map(str::to_owned).collect();
    assert_eq!(commands.len(), 4, "{commands:?}");
    commands
}

#[test]
#[ignore = "half a minute of real time, for ./dev test --all"]
fn restart_and_reload_of_the_proxy_are_noticed_by_nobody() {
    let Some(machine) = Machine::boot() else { return };
    machine.options(8080, "");
    let mut server = machine.command(&["python3", CLIENTS, "serve"]).spawn().unwrap();
    machine.good(&["systemctl", "start", "cellpace-proxy.socket"]);
    eventually("an answer", || machine.run(&["python3", CLIENTS, "name"]).stdout == b"8080\n");
    let process =
        || machine.good(&["systemctl", "show", "--value", "-p", "MainPID", "cellpace-proxy"]);
    let before = process();
    let found =
        machine.good(&["python3", CLIENTS, "restart", "systemctl", "restart", "cellpace-proxy"]);
    println!("systemctl restart: {found}");
    let found: Value = serde_json::from_str(&found).unwrap();
    assert_eq!((&found["code"], &found["download"]), (&0.into(), &6_000_000.into()));
    assert_eq!((&found["answers"], &found["failed"]), (&80.into(), &Value::Array(vec![])));
    assert!(found["slowest_s"].as_f64() < Some(3.0), "while the download drains they are served");
    let after = process();
    assert_ne!(before, after);

    machine.options(8081, "--cc cubicc\n");
    machine.good(&["systemctl", "reload", "cellpace-proxy"]);
    machine.journal_has("proxy.conf:3: --cc: ");
    assert_eq!(machine.good(&["python3", CLIENTS, "name"]), "8080");
    machine.options(8081, "--cc copa\n");
    machine.good(&["systemctl", "reload", "cellpace-proxy"]);
    machine.journal_has("read again; new connections are under copa");
    assert_eq!(machine.good(&["python3", CLIENTS, "name"]), "8081");
    assert_eq!(process(), after, "the same process");

    machine.good(&["kill", "-s", "KILL", &after]);
    assert_eq!(machine.good(&["python3", CLIENTS, "name"]), "8081", "the socket stays open");
    assert_ne!(process(), after);
    for command in commands_of_the_page() {
        let words: Vec<_> = command.split(' ').collect();
        machine.good(&words);
    }
    assert_eq!(machine.good(&["systemctl", "is-active", "cellpace-proxy"]), "active");
    drop(machine);
    let _ = server.wait();
}
