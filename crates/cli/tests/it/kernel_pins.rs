//! `cellpace kernel` where pins are gone, and what it says of Markov tables. Needs root, a kernel
//! that permits it, and a program built with the feature `kernel`; says so otherwise.

use std::fs::{self, Permissions};
use std::net::{TcpListener, TcpStream};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::program::{Folder, Outcome, eventually};
use cellpace_kernel::{native, pins, remove, remove_unfinished, select_named, table};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

const NOBODY: u32 = 65_534;
const GONE: &str = "registered, but its pins are gone: `cellpace kernel remove` removes it";

/// A name for a congestion control, free again at the end, whatever happens.
pub(crate) struct Place {
    pub(crate) folder: Folder,
    pub(crate) name: String,
}

impl Place {
    /// `None`, and a line that says why, where nothing can be installed.
    pub(crate) fn new() -> Option<Self> {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let place =
            Self { folder: Folder::new(), name: format!("cp{:x}_{number}", std::process::id()) };
        let status = place.json();
        if status["can_install"] == false {
            cellpace_testing::skip(format_args!(
                "{} (feature kernel: {})",
                status["obstacles"], status["built_with_program"]
            ));
            return None;
        }
        Some(place)
    }

    pub(crate) fn kernel(&self, command: &str) -> Outcome {
        self.folder.run(&format!("kernel {command} --name {}", self.name))
    }

    pub(crate) fn good(&self, command: &str) -> String {
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
        cellpace_testing::skip(obstacles);
        None
    }

    /// Whether sockets under the controller that is installed can be seen; a line that says why where this kernel
    /// permits no iterators over maps.
    pub(crate) fn can_watch(&self, cc: &str) -> bool {
        let outcome = self.kernel(&format!("watch --cc {cc} --count 1"));
        if outcome.code == Some(0) {
            return true;
        }
        let refusal = "cellpace: loading what shows sockets: Operation not permitted";
        let line = outcome.stderr.lines().find(|line| line.starts_with(refusal));
        cellpace_testing::skip(line.unwrap_or_else(|| panic!("{}", outcome.stderr)));
        false
    }

    /// What a command wrote into a file.
    fn said(&self, name: &str) -> Value {
        serde_json::from_slice(&self.folder.read(name)).unwrap()
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.good("status --json -")).unwrap()
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

    pub(crate) fn is_listed(&self) -> bool {
        let names = fs::read_to_string("/proc/sys/net/ipv4/tcp_available_congestion_control");
        names.unwrap().split_whitespace().any(|listed| listed == self.name)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = remove(&self.name);
        let _ = remove_unfinished(&self.name);
        let _ = table::remove(&self.name);
        let _ = native::remove(&self.name);
        assert!(!self.is_listed() || std::thread::panicking());
    }
}

pub(crate) fn connection() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let opened = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    (opened, listener.accept().unwrap().0)
}

/// The capabilities that `packaging/debian/cellpace-kernel.service` leaves, as `setpriv` names them.
fn of_the_unit() -> String {
    let text = include_str!("../../../../packaging/debian/cellpace-kernel.service");
    let kept = text.lines().find_map(|line| line.strip_prefix("CapabilityBoundingSet=")).unwrap();
    let kept = kept.split(' ').map(|name| name.strip_prefix("CAP_").unwrap().to_lowercase());
    kept.fold("-all".to_owned(), |set, name| format!("{set},+{name}"))
}

/// Attached to devices, which Linux can from 6.6 on and which takes CAP_NET_ADMIN.
fn prompt_acks(place: &Place) -> &'static str {
    let json = place.json();
    let mut numbers = json["kernel"].as_str().unwrap().split('.');
    let mut number = || numbers.next().unwrap().parse::<u32>().unwrap();
    if (number(), number()) >= (6, 6) { "--prompt-acks lo" } else { "" }
}

/// As the units do it: one mounts for all, the other may write there alone.
#[test]
fn what_the_unit_leaves_is_enough_to_install_and_remove() {
    let Some(place) = Place::new() else { return };
    let options = include_str!("../../../../packaging/debian/run-cellpace-bpf.mount");
    let options = options.lines().find_map(|line| line.strip_prefix("Options=")).unwrap();
    let prompt_acks = prompt_acks(&place);
    let confined = format!(
        "unshare --mount --propagation slave sh -ec '
             mount --rbind /run/cellpace /run/cellpace
             mount -o remount,bind,ro /
             mount -o remount,bind,ro /sys
             exec setpriv --no-new-privs --inh-caps=-all --bounding-set={} \"$@\"' sh",
        of_the_unit()
    );
    let said = place.apart(&format!(
        "! mountpoint -q /run/cellpace/bpf || umount -l /run/cellpace/bpf
         mkdir -p /run/cellpace/bpf
         mount -t bpf -o {options} bpf /run/cellpace/bpf
         {confined} $cellpace install $name --group daemon {prompt_acks}
         ls /run/cellpace/bpf
         {confined} $cellpace remove $name"
    ));
    assert!(said.contains("control of sockets is open to root and group daemon"), "{said}");
    let prompt = said.contains("prompt acknowledgments on lo");
    assert_eq!(prompt, !prompt_acks.is_empty(), "{said}");
    assert!(said.lines().any(|line| line == place.name), "{said}");
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
    assert_eq!(
        place.good("remove"),
        "removed; 1 socket that uses it continues without a controller\n"
    );
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
        "$cellpace install $name >/dev/null
        umount /run/cellpace/bpf
        $cellpace status $name | grep ^installed
        $cellpace install $name
        $cellpace status $name --json - >status.json
        $cellpace remove $name",
    );
    let lines: Vec<_> = said.lines().collect();
    assert!(lines[0].ends_with(GONE), "{said}");
    assert!(lines[1].starts_with("removed that of cellpace "), "{said}");
    assert!(lines[2].starts_with("congestion control"), "{said}");
    assert_eq!(lines[3..], ["removed; no socket uses it"]);
    assert_eq!(place.said("status.json")["uses"], "kernel");
    assert!(!place.is_listed());
}

/// The system's BPF file system, with the pins of other programs, stays as closed as it was.
#[test]
fn users_pass_to_the_driver_and_to_no_other_pins() {
    let Some(place) = Place::new() else { return };
    let said = place.apart(
        "mount -t bpf -o mode=0700 bpf /sys/fs/bpf
        $cellpace install $name --everyone >/dev/null
        stat -c %a /sys/fs/bpf
        stat -c %a /run/cellpace /run/cellpace/bpf
        $cellpace remove $name
        stat -c %a /sys/fs/bpf",
    );
    assert_eq!(said, "1700\n711\n1711\nremoved; no socket uses it\n1700\n");
}

/// Kills an installation after it has begun to pin maps and before it shows them. `false`, and a
/// line that says so, where it is always faster than we are.
fn kill_an_installation(place: &Place) -> bool {
    let unfinished = pins(&format!("{}~new", place.name));
    for _ in 0..20 {
        let mut child = place.folder.start(&format!("kernel install --name {}", place.name));
        while !unfinished.exists() && child.try_wait().unwrap().is_none() {}
        child.kill().unwrap();
        child.wait().unwrap();
        if unfinished.exists() {
            return true;
        }
        place.good("remove");
    }
    cellpace_testing::skip("an installation is faster here than it can be killed");
    false
}

#[test]
fn what_a_killed_installation_left_is_shown_and_removed() {
    let Some(place) = Place::new() else { return };
    let left = || {
        let names = fs::read_dir(pins("")).unwrap().map(|entry| entry.unwrap().file_name());
        let ours = names.filter(|entry| entry.to_string_lossy().starts_with(&place.name));
        ours.collect::<Vec<_>>()
    };
    let removed = "removed what an installation left that was killed\n";
    if !kill_an_installation(&place) {
        return;
    }
    // Not while another test installs something.
    let shown = || place.good("status").contains("an installation was killed and left pins");
    eventually("shown", shown);
    assert!(place.good("remove").starts_with(removed));
    assert!(left().is_empty() && !place.is_listed(), "{:?}", left());
    assert!(!place.good("status").contains("killed"));
    // The next installation removes it, too.
    if !kill_an_installation(&place) {
        return;
    }
    assert!(place.good("install").starts_with(removed));
    assert_eq!(left(), [place.name.as_str()]);
    assert_eq!(place.good("remove"), "removed; no socket uses it\n");
    assert!(left().is_empty(), "{:?}", left());
}

/// systemd would run it as root at each start.
#[test]
fn a_program_that_others_can_replace_is_not_installed_for_good() {
    let Some(place) = Place::new() else { return };
    // Everybody may write to /tmp, so nothing below it will do.
    let Ok(folder) = tempfile::tempdir_in("/run") else {
        return cellpace_testing::skip("/run is not to be written to");
    };
    let program = folder.path().join("cellpace");
    // Not by ourselves: what other tests start at this moment would have it open for writing.
    let copied = Command::new("cp").arg(env!("CARGO_BIN_EXE_cellpace")).arg(&program).status();
    assert!(copied.unwrap().success());
    let refused = |part: &Path, owner: u32, mode: u32, kept: u32| {
        chown(part, Some(owner), None).unwrap();
        fs::set_permissions(part, Permissions::from_mode(mode)).unwrap();
        let mut command = Command::new(&program);
        let command = command.args(["kernel", "install", "--persist", "--name", &place.name]);
        let outcome = Outcome::of(command.output().unwrap());
        let wrong = format!(
            "{} belongs to user {owner} and group 0 with mode {mode:04o}; run `install -o root",
            part.display()
        );
        outcome.complains(1, &wrong);
        assert!(!place.is_listed());
        chown(part, Some(0), None).unwrap();
        fs::set_permissions(part, Permissions::from_mode(kept)).unwrap();
    };
    refused(folder.path(), NOBODY, 0o755, 0o755);
    refused(folder.path(), 0, 0o777, 0o755);
    refused(&program, NOBODY, 0o755, 0o755);
    refused(&program, 0, 0o757, 0o755);
}

/// Where the file system is hidden the pins stay behind, and are in nobody's way.
#[test]
fn a_driver_that_is_removed_where_its_pins_are_hidden_is_installed_again() {
    let Some(place) = Place::new() else { return };
    place.good("install");
    place.apart("mount -t tmpfs none /run/cellpace/bpf; $cellpace remove $name");
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
    place.folder.good("mdi convert model --rules empty=paper -o table.flat");
    let hash = Sha256::digest(place.folder.read("table.flat"));
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
        "mount -t tmpfs none /run/cellpace/bpf
        $cellpace status $name | grep '^table note'
        $cellpace status $name --json - >status.json
        $cellpace remove $name --cc mdi 2>&1 || true",
    );
    assert!(said.contains("its pin is gone: `cellpace kernel remove --cc mdi` removes it\n"));
    assert_eq!(place.said("status.json")["table"]["pinned"], false);
    if said.contains("before Linux 6.11") {
        return cellpace_testing::skip(said);
    }
    assert!(said.contains("removed; connections"), "{said}");
    assert!(!place.is_listed());
    assert_eq!(place.json()["table"], Value::Null);
    // The pin is one of nothing now, and takes no harm.
    place.good("install --cc mdi");
    assert_eq!(place.json()["table"]["pinned"], true);
}
