//! `cellpace kernel install --cc pace`: a controller that runs in the kernel by itself. Needs root, a kernel that
//! permits it, and a program built with the feature `kernel`; says so otherwise.

use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::kernel_pins::{Place, connection};
use cellpace_kernel::pins;

/// Runs a test in a network namespace of its own, with a loopback device.
fn apart(test: impl FnOnce() + Send + 'static) {
    let test = move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let status = Command::new("ip").args("link set lo mtu 1500 up".split(' ')).status();
        assert!(status.unwrap().success());
        test();
    };
    thread::spawn(test).join().unwrap();
}

fn default() -> String {
    let text = fs::read_to_string("/proc/sys/net/ipv4/tcp_congestion_control").unwrap();
    text.trim_end().to_owned()
}

#[test]
fn a_default_is_given_used_seen_and_put_back() {
    let Some(place) = Place::new() else { return };
    apart(move || {
        let before = default();
        let said = place.good("install --cc pace:empty=2% --default --everyone");
        assert!(said.contains("it is the default of this network namespace\n"), "{said}");
        assert_eq!(default(), place.name);
        let (mut sender, mut receiver) = connection();
        let reader = thread::spawn(move || {
            let mut buffer = vec![0; 1 << 16];
            let mut bytes = 0;
            loop {
                match receiver.read(&mut buffer).unwrap() {
                    0 => return bytes,
                    count => bytes += count,
                }
            }
        });
        sender.write_all(&vec![7; 20_000_000]).unwrap();

        let seen: Value = serde_json::from_str(&place.good("watch --count 1 --json -")).unwrap();
        let schema = include_str!("../../../../docs/reference/schemas/kernel-watch.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        jsonschema::validate(&schema, &seen).unwrap();
        let ours = sender.local_addr().unwrap().to_string();
        let sockets = seen["sockets"].as_array().unwrap();
        let socket = sockets.iter().find(|socket| socket["local"] == ours.as_str()).unwrap();
        assert!(socket["acked_bytes"].as_u64() > Some(1_000_000), "{socket}");
        assert!(socket["window_packets"].as_u64() >= Some(2), "{socket}");
        let table = place.good("watch --count 2 --every 20ms");
        assert_eq!(table.matches(" sockets ").count(), 2, "{table}");
        assert!(table.contains(&ours), "{table}");

        let status = place.json();
        let native = &status["native"][0];
        let schema = include_str!("../../../../docs/reference/schemas/kernel.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        jsonschema::validate(&schema["properties"]["native"], &status["native"]).unwrap();
        assert_eq!((&native["name"], &native["default"]), (&json!(place.name), &json!(true)));
        assert_eq!(native["controller"], "pace:empty=2%");
        // Both ends of the connection, and not the namespace that has it as its default.
        assert_eq!(native["sockets"], 2);

        // Other parameters keep the connection where it is.
        let said = place.good("install --cc pace:empty=1% --everyone");
        assert!(said.contains("has these parameters now, for open connections, too"), "{said}");
        assert_eq!(place.json()["native"][0]["sockets"], 2);
        let said = place.good("remove --cc pace --now");
        assert!(said.contains(&format!("is `{before}` again\n")), "{said}");
        assert!(said.contains("sockets of this network namespace go on with reno\n"), "{said}");
        assert_eq!(default(), before);
        assert!(!place.is_listed() && !pins(&place.name).exists());
        sender.write_all(&vec![7; 1_000_000]).unwrap();
        sender.shutdown(Shutdown::Write).unwrap();
        assert_eq!(reader.join().unwrap(), 21_000_000);
    });
}

/// A driver costs several times what TCP itself does.
#[test]
fn programs_that_the_kernel_could_control_by_itself_are_told_so() {
    let Some(mut place) = Place::new() else { return };
    let driver = place.name.clone();
    place.name = format!("{driver}_pace");
    let run = |cc: &str| {
        let ended = place.folder.run(&format!("run --driver-name {driver} --cc {cc} -- true"));
        assert_eq!(ended.code, Some(0), "{}", ended.stderr);
        ended.stderr.contains(&format!("this kernel has `{}`", place.name))
    };
    assert!(!run("pace"));
    place.good("install --cc pace");
    assert!(run("pace") && !run("copa"));
    place.good("remove --cc pace");
    assert!(!run("pace"));
}

/// Without `--now` they keep to it, and `remove --now` finds them later, too.
#[test]
fn open_connections_keep_to_what_is_removed_until_they_are_moved() {
    let Some(place) = Place::new() else { return };
    apart(move || {
        place.good("install --cc pace --everyone");
        let (sender, _receiver) = connection();
        cellpace_kernel::select_named(&sender, &place.name).unwrap();
        let said = place.good("remove --cc pace");
        assert_eq!(said, "removed; connections that use it keep to it until they end\n");
        assert!(!place.is_listed());
        let said = place.good("remove --cc pace --now");
        assert_eq!(said, "removed; 1 socket of this network namespace goes on with reno\n");
        let outcome = place.kernel("remove --cc pace --now");
        outcome.complains(1, &format!("congestion control `{}` is not installed", place.name));
        let outcome = place.kernel("watch --count 1");
        outcome.complains(1, &format!("congestion control `{}` is not installed", place.name));
    });
}

/// Whenever it is killed, it is there or not, another one is installed over it, and nothing stays.
#[test]
fn an_installation_that_is_killed_leaves_nothing_that_is_in_the_way() {
    let Some(place) = Place::new() else { return };
    for step in 0..20 {
        let command = format!("kernel install --cc pace --name {}", place.name);
        let mut child = place.folder.start(&command);
        thread::sleep(Duration::from_millis(8 * step));
        child.kill().unwrap();
        child.wait().unwrap();
        let native = place.json()["native"].take();
        let is_there = native.as_array().is_some_and(|native| !native.is_empty());
        assert_eq!(is_there, place.is_listed(), "{native}");
        if step % 2 == 0 {
            place.good("install --cc pace:empty=3%");
        }
        let removed = place.kernel("remove --cc pace");
        assert_eq!(removed.code, Some(i32::from(!is_there && step % 2 == 1)), "{}", removed.stderr);
        assert!(!place.is_listed() && !pins(&place.name).exists(), "step {step}");
    }
}

/// Only the first network namespace may have a default that is for privileged users.
#[test]
fn a_default_that_the_namespace_refuses_changes_nothing() {
    let Some(place) = Place::new() else { return };
    apart(move || {
        let refused = "in a network namespace other than the first the default is for everyone: \
                       add --everyone";
        place.kernel("install --cc pace --default").complains(1, refused);
        assert!(!place.is_listed() && !pins(&place.name).exists());
        place.good("install --cc pace --default --everyone");
        let before = place.json()["native"].take();
        place.kernel("install --cc pace:empty=2%").complains(1, refused);
        assert_eq!((place.json()["native"].take(), default()), (before, place.name.clone()));
        place.good("remove --cc pace");
    });
}

/// As `cellpace kernel watch | head -1`.
#[test]
fn a_watch_whose_reader_goes_away_ends() {
    let Some(place) = Place::new() else { return };
    place.good("install --cc copa");
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    command.args(["kernel", "watch", "--cc", "copa", "--every", "20ms", "--name", &place.name]);
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    assert!(ended(&mut child), "the watch goes on");
    place.good("remove --cc copa");
}

fn ended(child: &mut Child) -> bool {
    for _ in 0..500 {
        if child.try_wait().unwrap().is_some() {
            return true;
        }
        thread::sleep(Duration::from_millis(20));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    false
}
