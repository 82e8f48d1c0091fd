//! The examples for Kubernetes, with what their security contexts leave: whether the commands in them do their work.
//! What a kubelet would do (mounts, user, capabilities, a root file system to read only) is done by namespaces here.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::kernel_pins::Place;
use crate::program::Folder;

fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/kubernetes").join(file);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The words of each list `name: [...]`, in the order of the file.
fn lists(text: &str, name: &str) -> Vec<Vec<String>> {
    let lists = text.lines().filter_map(|line| line.trim().strip_prefix(&format!("{name}: [")));
    let words = |list: &str| {
        let list = list.strip_suffix(']').expect("a list ends in its line");
        list.split(", ").map(|word| word.trim_matches('"').to_owned()).collect()
    };
    lists.map(words).collect()
}

/// Runs a shell in namespaces of its own, which end with it; `None`, and a line that says so, where that is not
/// permitted. `$confined COMMAND` runs one with `capabilities` alone.
fn in_a_pod(folder: &Folder, capabilities: &[String], script: &str) -> Option<String> {
    let namespaces = ["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc"];
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(namespaces);
        command
    };
    if !unshare().arg("true").output().is_ok_and(|output| output.status.success()) {
        cellpace_testing::skip("no namespaces of its own");
        return None;
    }
    let left = capabilities.iter().map(|name| format!(",+{}", name.to_lowercase()));
    let left = format!("-all{}", left.collect::<String>());
    let mut command = unshare();
    command.args(["sh", "-ec", script]).current_dir(folder.path("."));
    command.env("cellpace", env!("CARGO_BIN_EXE_cellpace"));
    command
        .env("confined", format!("setpriv --no-new-privs --inh-caps=-all --bounding-set={left}"));
    let output = command.output().unwrap();
    let (said, complaint) =
        (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{said} {complaint}");
    Some(said.into_owned())
}

#[test]
fn the_daemon_set_installs_and_watches_with_what_is_left() {
    let text = example("kernel.yaml");
    let added = lists(&text, "add");
    assert_eq!(lists(&text, "drop"), [["ALL"]]);
    let args = lists(&text, "args");
    let [install, watch] = &args[..] else { panic!("two containers: {text}") };
    let Some(place) = Place::new() else { return };
    place.good("install --cc pace");
    let can_watch = place.can_watch("pace");
    place.good("remove --cc pace");
    let name = format!("--name {}", place.name);
    // What the node has, then what a container sees of it, then a first and a second version.
    let script = format!(
        "mount -t bpf bpf /sys/fs/bpf
         mkdir -p /sys/fs/bpf/cellpace /run/cellpace
         mount -t tmpfs none /run/cellpace
         mkdir /run/cellpace/bpf
         mount --bind /sys/fs/bpf/cellpace /run/cellpace/bpf
         mount -o remount,bind,ro /
         mount -o remount,bind,ro /sys
         $confined $cellpace {install} {name}
         ls /sys/fs/bpf/cellpace
         $confined $cellpace {install} {name}
         {watch}
         $confined $cellpace kernel remove --cc pace {name}",
        install = install.join(" "),
        watch = match can_watch {
            true => format!("$confined $cellpace {} {name} --count 1", watch.join(" ")),
            false => String::new(),
        },
    );
    let Some(said) = in_a_pod(&place.folder, &added[0], &script) else { return };
    let lines: Vec<_> = said.lines().collect();
    assert!(lines.contains(&place.name.as_str()), "no pin on the node: {said}");
    let seen = "{\"schema\":\"cellpace.kernel_watch/1\"";
    assert_eq!(lines.iter().any(|line| line.starts_with(seen)), can_watch);
    assert!(said.contains("has these parameters now") && said.contains("\nremoved"), "{said}");
    assert!(!place.is_listed());
}

#[test]
fn the_sidecar_serves_without_any_privilege() {
    let text = example("sidecar.yaml");
    assert!(lists(&text, "add").is_empty() && lists(&text, "drop") == [["ALL"]], "{text}");
    assert!(text.contains("runAsUser: 65534\n"), "{text}");
    let args = lists(&text, "args").remove(0);
    let folder = Folder::new();
    if ["curl", "python3", "ip"].iter().any(|tool| Command::new(tool).output().is_err()) {
        return cellpace_testing::skip("no curl, python3 or ip");
    }
    let script = format!(
        "ip link set lo up
         head -c 300000 /dev/zero >page
         python3 -m http.server 80 --bind 127.0.0.1 >/dev/null 2>&1 &
         mount -o remount,bind,ro /
         $confined --reuid=65534 --regid=65534 --clear-groups $cellpace {} --quiet &
         curl -sS --retry 30 --retry-delay 1 --retry-all-errors http://127.0.0.1:8080/page | wc -c
         grep -h CapEff /proc/$!/status",
        args.join(" ")
    );
    let Some(said) = in_a_pod(&folder, &[], &script) else { return };
    assert_eq!(said, "300000\nCapEff:\t0000000000000000\n");
}
