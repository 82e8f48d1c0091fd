//! `cellpace kernel install --cc pace`: a controller that runs in the kernel by itself. Needs root, a kernel that
//! permits it, and a program built with the feature `kernel`; says so otherwise.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;

use nix::sched::{CloneFlags, unshare};
use serde_json::{Value, json};

use crate::kernel_pins::{Place, connection};
use crate::program::{Outcome, eventually};
use cellpace_experiment::ExperimentRecords;
use cellpace_kernel::pins;

/// Runs a test in a network namespace of its own, with a loopback device.
pub(crate) fn apart(test: impl FnOnce() + Send + 'static) {
    let test = move || {
        unshare(CloneFlags::CLONE_NEWNET).unwrap();
        let status = Command::new("ip").args("link set lo mtu 1500 up".split(' ')).status();
        assert!(status.unwrap().success());
        test();
    };
    thread::spawn(test).join().unwrap();
}

pub(crate) fn default() -> String {
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

        if place.can_watch("pace") {
            let seen: Value =
                serde_json::from_str(&place.good("watch --count 1 --json -")).unwrap();
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
        }

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

/// A driver costs several times what TCP itself does, so what the kernel has by itself comes first.
#[test]
fn connections_of_run_are_left_to_the_controller_in_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    let driver = place.name.clone();
    place.name = format!("{driver}_pace");
    let address = sink();
    let run = |options: &str| {
        let send = format!("head -c 100000 /dev/zero >/dev/tcp/127.0.0.1/{}", address.port());
        let line = format!("run --driver-name {driver} --out all --json - {options} --");
        let mut command: Vec<&str> = line.split_whitespace().collect();
        command.extend(["bash", "-c", &send]);
        place.folder.run_args(command)
    };
    let flow = |ended: &Outcome| -> Value { serde_json::from_str(&ended.stdout).unwrap() };

    let missing = format!("this kernel has no `{}`", place.name);
    run("--driver native").complains(1, &missing);
    assert_eq!(flow(&run("")).pointer("/driver"), Some(&json!("gate")));
    place.good("install --cc pace:empty=2%");
    for options in ["", "--driver native", "--cc pace:empty=2% -v"] {
        let ended = run(options);
        let flow = flow(&ended);
        assert_eq!((&flow["driver"], &flow["driver_reason"]), (&json!("native"), &Value::Null));
        assert_eq!(flow["cc"], "pace:empty=2%");
        assert_eq!((&flow["tcp_cc"], &flow["outcome"]), (&json!(place.name), &json!("finished")));
        let bytes = (&flow["sent_bytes"], &flow["acked_bytes"]);
        assert_eq!(bytes, (&json!(100_000), &json!(100_000)));
        assert!(flow["min_rtt_ms"].as_f64() > Some(0.0), "{flow}");
        let schema = include_str!("../../../../docs/reference/schemas/connections.json");
        jsonschema::validate(&serde_json::from_str(schema).unwrap(), &flow).unwrap();
        let says = format!("driver native: `{}`", place.name);
        assert_eq!(ended.stderr.contains(&says), options.ends_with("-v"), "{}", ended.stderr);
    }
    for (options, why) in [
        ("--cc pace:empty=1%", "it is pace:empty=2%, and not pace:empty=1%"),
        ("--events events.jsonl", "--events needs the controller in this process"),
        ("--mdi-samples samples.csv", "--mdi-samples needs the controller in this process"),
    ] {
        let ended = run(options);
        assert_eq!(flow(&ended)["driver"], "gate");
        assert!(ended.stderr.contains(&format!("is not used: {why}")), "{}", ended.stderr);
        run(&format!("--driver native {options}")).complains(1, why);
    }
    run("--driver native --share").complains(2, "--share needs --driver gate");
    place.good("remove --cc pace");
}

/// An arm is left to the kernel like all connections of a command.
#[test]
fn an_arm_of_an_experiment_is_left_to_the_controller_in_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    let driver = place.name.clone();
    place.name = format!("{driver}_pace");
    let arms = "[[arm]]\nname = \"plain\"\n[[arm]]\nname = \"pace\"\ncc = \"pace\"\n";
    let head =
        "[experiment]\nname = \"e\"\nsecret = \"0123456789abcdef\"\nassign = \"connection\"\n";
    place.folder.write("e.toml", format!("{head}{arms}"));
    let port = sink().port();
    let send = format!("for i in $(seq 20); do echo hello >/dev/tcp/127.0.0.1/{port}; done");
    let run = |options: &str| {
        let experiment = "--experiment e.toml --experiment-log e.jsonl --driver-name";
        let line = format!("run --quiet --out all {experiment} {driver} {options} --");
        let command: Vec<&str> = line.split_whitespace().chain(["bash", "-c", &send]).collect();
        place.folder.run_args(command)
    };
    let missing = format!("arm `pace`: this kernel has no `{}`", place.name);
    run("--driver native").complains(1, &missing);
    place.good("install --cc pace");
    let ended = run("--driver native");
    assert_eq!((ended.code, ended.stderr.as_str()), (Some(0), ""));
    let log = String::from_utf8(place.folder.read("e.jsonl")).unwrap();
    let records = ExperimentRecords::read(&log).unwrap().connections;
    assert_eq!(records.len(), 20, "{log}");
    for (arm, driver) in [("plain", "plain"), ("pace", "native")] {
        let mut of_arm = records.iter().filter(|record| record.arm == arm);
        assert!(of_arm.clone().count() > 0, "{log}");
        assert!(of_arm.all(|record| record.driver == driver && record.acked_bytes == 6), "{log}");
    }
    place.good("remove --cc pace");
}

/// A server that reads all that comes.
pub(crate) fn sink() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for connection in listener.incoming() {
            thread::spawn(move || io::copy(&mut connection.unwrap(), &mut io::sink()));
        }
    });
    address
}

/// Those of a proxy, which has their sockets itself, and what it does when the controller goes.
#[test]
fn connections_of_a_proxy_are_left_to_the_controller_in_the_kernel() {
    let Some(mut place) = Place::new() else { return };
    let driver = place.name.clone();
    place.name = format!("{driver}_pace");
    place.good("install --cc pace --everyone");
    let said = place.folder.path("said");
    let options = format!(
        "proxy --listen 127.0.0.1:0 --to {} --control upstream --driver-name {driver} --json flows",
        sink()
    );
    let mut command = place.folder.command(options.split(' '));
    let child = command.stderr(File::create(&said).unwrap()).spawn().unwrap();
    let proxy = Ended(child);
    let text = || fs::read_to_string(&said).unwrap();
    eventually("it listens", || text().contains("waiting at "));
    let address = text().split_once("waiting at ").unwrap().1.lines().next().unwrap().to_owned();
    let send = |nth: usize| {
        let mut client = TcpStream::connect(&address).unwrap();
        client.write_all(&[7; 50_000]).unwrap();
        drop(client);
        let flows = || String::from_utf8(place.folder.read("flows")).unwrap_or_default();
        eventually("it is written", || flows().lines().count() == nth);
        serde_json::from_str::<Value>(flows().lines().last().unwrap()).unwrap()
    };
    let first = send(1);
    assert_eq!((&first["driver"], &first["tcp_cc"]), (&json!("native"), &json!(place.name)));
    assert_eq!((&first["acked_bytes"], &first["direction"]), (&json!(50_000), &json!("out")));
    place.good("remove --cc pace");
    let second = send(2);
    assert_eq!((&second["driver"], &second["acked_bytes"]), (&json!("gate"), &json!(50_000)));
    let reason = second["driver_reason"].as_str().unwrap();
    assert!(reason.starts_with("the kernel did not take the connection: "), "{reason}");
    drop(proxy);
}

/// Is killed when the test is over.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
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

/// The default of before may itself be one of ours that is gone by then.
#[test]
fn a_default_over_another_of_ours_is_put_back_whatever_goes_first() {
    let (Some(first), Some(second)) = (Place::new(), Place::new()) else { return };
    apart(move || {
        let before = default();
        first.good("install --cc pace --default --everyone");
        second.good("install --cc copa --default --everyone");
        let said = first.good("remove --cc pace");
        assert!(!said.contains("again"), "{said}");
        let said = second.good("remove --cc copa");
        assert!(said.contains(&format!("is `{before}` again\n")), "{said}");
        assert_eq!(default(), before);
    });
}

/// Linux keeps the program of a default, not its name.
#[test]
fn namespaces_in_which_a_default_stays_are_named() {
    let Some(place) = Place::new() else { return };
    apart(move || {
        place.good("install --cc pace --everyone");
        let set = format!(
            "echo {} >/proc/sys/net/ipv4/tcp_congestion_control && echo set && read line",
            place.name
        );
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", &set]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut other = command.spawn().unwrap();
        let mut said = [0; 4];
        other.stdout.as_mut().unwrap().read_exact(&mut said).unwrap();
        let said = place.good("remove --cc pace");
        assert!(
            said.contains("the program that is removed, until the default is set again"),
            "{said}"
        );
        assert!(said.contains(&format!("process {}", other.id())), "{said}");
        let said = place.good("install --cc pace --everyone");
        assert!(said.contains("get the program before") && said.contains("process"), "{said}");
        drop(other.stdin.take());
        other.wait().unwrap();
        let said = place.good("remove --cc pace");
        assert!(!said.contains("elsewhere"), "{said}");
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
    if !place.can_watch("copa") {
        place.good("remove --cc copa");
        return;
    }
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
