//! `cellpace kernel` where pins are gone, and what it says of Markov tables. Needs root, a kernel
//! that permits it, and a program built with the feature `kernel`; says so otherwise.

#![cfg(target_os = "linux")]
#![allow(clippy::unwrap_used)]

mod program;

use std::fs;
use std::net::{TcpListener, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use cellpace_kernel::{pins, remove, select_named, table};
use program::{Folder, Outcome};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const NOBODY: u32 = 65_534;
const GONE: &str = "registered, but its pins are gone: `cellpace kernel remove` removes it";

/// A name for a congestion control, free again at the end, whatever happens.
struct Place {
    folder: Folder,
    name: String,
}

impl Place {
    /// `None`, and a line that says why, where nothing can be installed.
    fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let place =
            Self { folder: Folder::new(), name: format!("cp_g{:x}_{number}", std::process::id()) };
        let status = place.json();
        if status["can_install"] == false {
            eprintln!(
                "skipped: {} (feature kernel: {})",
                status["obstacles"], status["built_with_program"]
            );
            return None;
        }
        Some(place)
    }

    fn kernel(&self, command: &str) -> Outcome {
        self.folder.run(&format!("kernel {command} --name {}", self.name))
    }

    fn good(&self, command: &str) -> String {
        let outcome = self.kernel(command);
        assert_eq!(outcome.code, Some(0), "{command}: {} {}", outcome.stdout, outcome.stderr);
        outcome.stdout
    }

    /// The same, if a Markov table can be installed.
    fn for_a_table() -> Option<Self> {
        let place = Self::new()?;
        let obstacles = place.json()["mdi_obstacles"].take();
        if obstacles.as_array().is_some_and(Vec::is_empty) {
            return Some(place);
        }
        eprintln!("skipped: {obstacles}");
        None
    }

    /// What a command wrote into a file.
    fn said(&self, name: &str) -> Value {
        serde_json::from_slice(&self.folder.read(name)).unwrap()
    }

    fn json(&self) -> Value {
        serde_json::from_str(&self.good("status --json")).unwrap()
    }

    /// Commands of a shell in a mount namespace of its own, where `$cellpace COMMAND $name` is
    /// `cellpace kernel`. What they wrote.
    fn apart(&self, script: &str) -> String {
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-ec", script]).current_dir(self.folder.path("."));
        command.env("cellpace", format!("{} kernel", env!("CARGO_BIN_EXE_cellpace")));
        let out = command.env("name", format!("--name {}", self.name)).output().unwrap();
        let (said, error) =
            (String::from_utf8(out.stdout).unwrap(), String::from_utf8_lossy(&out.stderr));
        assert!(out.status.success(), "{said} {error}");
        said
    }

    fn is_listed(&self) -> bool {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.unwrap().split_whitespace().any(|listed| listed == self.name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = remove(&self.name);
        let _ = table::remove(&self.name);
        assert!(!self.is_listed() || std::thread::panicking());
    }
}

fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let opened = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (opened, listener.accept().unwrap().0)
}

#[test]
fn a_driver_whose_pins_are_deleted_is_told_and_removed() {
    use std::io::{Read, Write};
    let Some(place) = Place::new() else { return };
    place.good("install");
    let (mut sender, mut receiver) = connection();
    select_named(&sender, &place.name).unwrap();
    fs::remove_dir_all(pins(&place.name)).unwrap();
    let status = place.good("status");
    assert!(status.contains(&format!("installed                  {GONE}\n")), "{status}");
    let status = place.json();
    assert_eq!((&status["pins_gone"], &status["installed"]), (&json!(true), &Value::Null));
    assert_eq!((&status["uses"], &status["reason"]), (&json!("gate"), &json!(GONE)));
    assert_eq!(place.good("remove"), "removed; 1 socket that uses it goes on by itself\n");
    assert!(!place.is_listed());
    let again = place.kernel("remove");
    assert_eq!(again.code, Some(1));
    assert!(again.stderr.contains("not installed"), "{}", again.stderr);
    assert_eq!(place.json()["pins_gone"], false);
    sender.write_all(b"on").unwrap();
    let mut came = [0; 2];
    receiver.read_exact(&mut came).unwrap();
    assert_eq!(&came, b"on");
}

#[test]
fn who_may_not_look_is_told_that_root_may() {
    let Some(place) = Place::new() else { return };
    // Which also lets everybody pass through /sys/fs/bpf.
    place.good("install --everyone");
    fs::remove_dir_all(pins(&place.name)).unwrap();
    for (command, code) in [("status", 0), ("remove", 1)] {
        let mut command = place.folder.command(["kernel", command, "--name", &place.name]);
        let out = command.current_dir("/").uid(NOBODY).gid(NOBODY).output().unwrap();
        let said = [out.stdout, out.stderr].concat();
        let said = String::from_utf8(said).unwrap();
        assert!(out.status.code() == Some(code) && said.contains("root sees more"), "{said}");
    }
    assert!(place.is_listed());
    place.good("remove");
}

#[test]
fn a_driver_whose_file_system_is_unmounted_is_installed_again() {
    let Some(place) = Place::new() else { return };
    let said = place.apart(
        "umount /sys/fs/bpf 2>/dev/null || true
        $cellpace install $name >/dev/null
        umount /sys/fs/bpf
        $cellpace status $name | grep ^installed
        $cellpace install $name
        $cellpace status $name --json >status.json
        $cellpace remove $name",
    );
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].ends_with(GONE), "{said}");
    assert_eq!(lines[1], "mounted /sys/fs/bpf, which was missing");
    assert!(lines[2].starts_with("removed that of cellpace "), "{said}");
    assert!(lines[3].starts_with("congestion control"), "{said}");
    assert_eq!(lines[4..], ["removed; no socket uses it"]);
    assert_eq!(place.said("status.json")["uses"], "kernel");
    assert!(!place.is_listed());
}

/// Where the file system is hidden the pins stay behind, and are in nobody's way.
#[test]
fn a_driver_that_is_removed_where_its_pins_are_hidden_is_installed_again() {
    let Some(place) = Place::new() else { return };
    place.good("install");
    place.apart("mount -t tmpfs none /sys/fs/bpf; $cellpace remove $name");
    assert!(!place.is_listed() && pins(&place.name).exists());
    let status = place.json();
    assert_eq!((&status["uses"], &status["installed"]), (&json!("gate"), &Value::Null));
    place.good("install");
    assert_eq!(place.json()["uses"], "kernel");
    assert_eq!(place.good("remove"), "removed; no socket uses it\n");
}

#[test]
fn a_table_is_installed_told_and_removed() {
    let Some(place) = Place::for_a_table() else { return };
    let train = "mdi train --cc verus:r=2 --trace lte-driving --duration 20s -o model";
    place.folder.good(train);
    assert_eq!(place.json()["table"], Value::Null);
    place.good("install --cc mdi:model=model,empty=paper --seed 5");
    place.folder.good("mdi export model --format flat --rules empty=paper -o flat");
    let hash = Sha256::digest(place.folder.read("flat"));
    let hash: String = hash.iter().map(|byte| format!("{byte:02x}")).collect();
    let (sender, _receiver) = connection();
    select_named(&sender, &place.name).unwrap();
    let mut found = place.json()["table"].take();
    let (states, memory) = (found["states"].take(), found["memory_bytes"].take());
    assert!(states.as_u64() > Some(100) && memory.as_u64() > Some(10_000), "{states} {memory}");
    let expected = json!({
        "name": place.name, "teacher": "verus:r=2",
        "controller": "mdi:model=model,empty=paper", "sha256": hash, "kind": "levels",
        "states": null, "memory_bytes": null, "sockets": 1, "everyone": false,
        "slow_start": false, "seed": 5, "pinned": true,
    });
    assert_eq!(found, expected);
    let status = place.good("status");
    for line in [
        format!("table installed            `{}`, to be selected by root\n", place.name),
        format!("table SHA-256              {hash}\n"),
        "table sockets              1\n".to_owned(),
        "verus:r=2, installed as `mdi:model=model,empty=paper`\n".to_owned(),
    ] {
        assert!(status.contains(&line), "{line} {status}");
    }
    // Another takes its place: the connection keeps to the one before.
    place.good("install --cc mdi:start=slow");
    let found = place.json()["table"].take();
    assert_eq!((&found["sockets"], &found["seed"]), (&json!(0), &Value::Null));
    assert_eq!(
        (&found["slow_start"], &found["controller"]),
        (&json!(true), &json!("mdi:start=slow"))
    );
    place.good("remove --cc mdi");
    assert!(!place.is_listed() && !pins(&place.name).exists());
    assert_eq!(place.json()["table"], Value::Null);
    assert_eq!(place.kernel("remove --cc mdi").code, Some(1));
}

/// Another mount namespace may have the pins still, and keeps the table registered.
#[test]
fn a_table_whose_pin_is_elsewhere_is_told_and_removed() {
    let Some(place) = Place::for_a_table() else { return };
    place.good("install --cc mdi");
    let said = place.apart(
        "mount -t tmpfs none /sys/fs/bpf
        $cellpace status $name | grep '^table note'
        $cellpace status $name --json >status.json
        $cellpace remove $name --cc mdi 2>&1 || true",
    );
    assert!(said.contains("its pin is gone: `cellpace kernel remove --cc mdi` removes it\n"));
    assert_eq!(place.said("status.json")["table"]["pinned"], false);
    if said.contains("before Linux 6.11") {
        return eprintln!("skipped: {said}");
    }
    assert!(said.contains("removed; connections"), "{said}");
    assert!(!place.is_listed());
    assert_eq!(place.json()["table"], Value::Null);
    // The pin is one of nothing now, and takes no harm.
    place.good("install --cc mdi");
    assert_eq!(place.json()["table"]["pinned"], true);
}
