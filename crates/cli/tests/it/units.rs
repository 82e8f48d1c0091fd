//! The units of systemd in `packaging/systemd`: whether the program knows what they start it with.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::program::{Folder, Outcome, names};

const PROGRAM: &str = "/usr/local/bin/cellpace";

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../packaging/systemd")
}

/// What stands after `name=` in a file; there must be one such line.
fn value(file: &Path, name: &str) -> String {
    let text =
        fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let found: Vec<_> = text.lines().filter_map(|line| line.strip_prefix(name)).collect();
    let [value] = found[..] else { panic!("{}: {} lines {name}", file.display(), found.len()) };
    value.to_owned()
}

/// As systemd makes it, with the options of the example beside the unit.
fn command_line(unit: &Path) -> Vec<String> {
    let folder = unit.parent().unwrap();
    let environment = value(unit, "EnvironmentFile=/etc/cellpace/");
    let options = value(&folder.join(environment), "OPTIONS=");
    let line = value(unit, "ExecStart=").replace("${STATE_DIRECTORY}", "/var/lib/cellpace");
    let line = line.replace("$OPTIONS", &options);
    let examples = format!("{}/", folder.display());
    line.replace("/etc/cellpace/", &examples).split(' ').map(str::to_owned).collect()
}

#[test]
fn the_program_knows_the_options_of_its_units() {
    let units = names(&folder()).into_iter().filter(|name| name.ends_with(".service"));
    let units: Vec<_> = units.map(|name| folder().join(name)).collect();
    assert_eq!(units.len(), 4);
    for unit in units {
        let mut words = command_line(&unit);
        assert_eq!(words.remove(0), PROGRAM, "{}", unit.display());
        // All words before it are read, and nothing is started.
        words.push("--help".to_owned());
        let outcome = Folder::new().run_args(&words);
        assert_eq!(outcome.code, Some(0), "{}: {}", unit.display(), outcome.stderr);
        words.insert(1, "--no-such-option".to_owned());
        assert_eq!(Folder::new().run_args(&words).code, Some(2), "{}", unit.display());
    }
}

#[test]
fn the_socket_of_the_proxy_is_where_its_options_listen() {
    let address = value(&folder().join("cellpace-proxy.socket"), "ListenStream=");
    assert_eq!(value(&folder().join("proxy.conf"), "--listen "), address);
    assert_eq!(value(&folder().join("cellpace-proxy.service"), "Type="), "notify");
}

#[test]
fn every_unit_is_confined() {
    for name in names(&folder()).into_iter().filter(|name| name.ends_with(".service")) {
        let unit = folder().join(&name);
        for setting in ["NoNewPrivileges=", "MemoryDenyWriteExecute=", "RestrictNamespaces="] {
            assert_eq!(value(&unit, setting), "yes", "{name}: {setting}");
        }
        assert_eq!(value(&unit, "ProtectSystem="), "strict", "{name}");
        assert!(value(&unit, "CapabilityBoundingSet=").split(' ').count() <= 4, "{name}");
        assert!(!value(&unit, "MemoryMax=").is_empty(), "{name}");
        let root = fs::read_to_string(&unit).unwrap().contains("\nUser=root\n");
        assert_eq!(root, name == "cellpace-attach.service", "{name}");
    }
}

/// As systemd judges it, 0 to 100: less is better.
const MAX_EXPOSURE: u32 = 25;

#[test]
fn systemd_finds_little_exposed() {
    let analyze = |arguments: &[&str]| Command::new("systemd-analyze").args(arguments).output();
    let knows = |help: Output| String::from_utf8_lossy(&help.stdout).contains("--offline");
    if !analyze(&["--help"]).is_ok_and(knows) {
        return cellpace_testing::skip("no systemd-analyze with --offline (systemd 250)");
    }
    let units = names(&folder()).into_iter().filter(|name| name.ends_with(".service"));
    let units = units.map(|name| folder().join(name));
    let kernel = folder().join("../debian/cellpace-kernel.service");
    for unit in units.chain([kernel]) {
        let threshold = format!("--threshold={MAX_EXPOSURE}");
        let arguments = ["security", "--offline=true", &threshold, unit.to_str().unwrap()];
        let outcome = Outcome::of(analyze(&arguments).unwrap());
        assert_eq!(outcome.code, Some(0), "{}{}", outcome.stdout, outcome.stderr);
        println!("{}", outcome.stdout.lines().last().unwrap_or_default());
    }
}
