//! What the commands of cellpace make of a controller of another crate.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Output, Stdio};

use serde_json::Value;

fn program(args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_own_controller"));
    command.args(args);
    command
}

fn output(args: &[&str]) -> Output {
    program(args).output().unwrap()
}

/// What a command prints that succeeds.
pub(crate) fn printed(args: &[&str]) -> String {
    let output = output(args);
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Why a command line is refused.
fn refused(args: &[&str]) -> String {
    let output = output(args);
    assert_eq!(output.status.code(), Some(2), "{args:?}");
    String::from_utf8(output.stderr).unwrap()
}

#[test]
fn it_is_listed_and_described() {
    let list = printed(&["cc"]);
    assert!(list.contains("\nhalving   one packet more per round trip"), "{list}");
    assert!(list.starts_with("verus "), "{list}");
    let help = printed(&["cc", "halving"]);
    for part in ["beta=0.5", "What a loss leaves of the window", "gentle", "RFC 9438"] {
        assert!(help.contains(part), "no {part} in\n{help}");
    }
    assert!(printed(&["completions", "bash"]).contains("halving"));
}

#[test]
fn parameters_and_presets_change_its_figures() {
    let ccs = ["halving", "halving:beta=0.9", "halving:gentle", "halving:beta=0.7"];
    let mut args = vec!["compare", "--trace", "constant:12mbit", "--queue", "droptail:60kB"];
    args.extend(["--duration", "20s", "--json", "-"]);
    ccs.iter().for_each(|cc| args.extend(["--cc", cc]));
    let document: Value = serde_json::from_str(&printed(&args)).unwrap();
    let runs = document["runs"].as_array().unwrap();
    let figure = |cc: &str, name: &str| {
        let run = runs.iter().find(|run| run["cc"] == cc).unwrap();
        run.pointer(name).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {name} in {run}"))
    };
    assert!(figure("halving", "/utilization") > 0.5);
    assert!(
        figure("halving:beta=0.9", "/queue_delay_ms/mean")
            > figure("halving", "/queue_delay_ms/mean")
    );
    for name in ["/utilization", "/queue_delay_ms/mean"] {
        assert_eq!(figure("halving:gentle", name), figure("halving:beta=0.7", name));
    }
}

#[test]
fn a_queue_of_ones_own_is_listed_and_changes_who_waits() {
    assert!(printed(&["queue"]).contains("small_first  two FIFOs"), "{}", printed(&["queue"]));
    assert!(printed(&["queue", "small_first"]).contains("Packets up to this size go first"));
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("scenario.toml");
    let p95 = |queue: &str| {
        let text = format!(
            "trace = \"constant:12mbit\"\nduration = \"20s\"\nqueue = \"{queue}\"\n\
             [[flow]]\ncc = \"halving\"\n[[ping]]\nevery = \"100ms\"\n"
        );
        fs::write(&path, text).unwrap();
        let document = printed(&["sim", path.to_str().unwrap(), "--json", "-"]);
        let document: Value = serde_json::from_str(&document).unwrap();
        document["runs"][0]["pings"][0]["rtt_ms"]["p95"].as_f64().unwrap()
    };
    // Pings of 84 bytes do not wait for the download, and with `small` below them they do.
    assert!(p95("small_first:limit=200kB") < 45.0);
    assert!(p95("small_first:small=50B,limit=200kB") > 80.0);
    let text = refused(&["compare", "--cc", "halving", "--queue", "small_first:smal=50B"]);
    assert!(
        text.contains("`small_first` has no parameter `smal`; did you mean `small`?"),
        "{text}"
    );
    let text = refused(&["compare", "--cc", "halving", "--queue", "small_frist"]);
    assert!(text.contains("did you mean `small_first`?"), "{text}");
}

#[test]
fn wrong_parameters_and_names_are_refused() {
    let text = refused(&["compare", "--cc", "halving:beta=2"]);
    assert!(text.contains("`halving`: beta=2 is out of range; allowed: 0.1..0.9"), "{text}");
    let text = refused(&["compare", "--cc", "halving:bta=0.5"]);
    assert!(text.contains("`halving` has no parameter `bta`; did you mean `beta`?"), "{text}");
    let text = refused(&["compare", "--cc", "halvin"]);
    assert!(text.contains("did you mean `halving`?"), "{text}");
}

#[test]
fn sweeps_vary_its_parameters() {
    let folder = tempfile::tempdir().unwrap();
    let plan = "trace = \"constant:5mbit\"\nduration = \"4s\"\n[[cc]]\nname = \"halving\"\nbeta = [0.5, 0.7, 0.9]\n";
    fs::write(folder.path().join("plan.toml"), plan).unwrap();
    let output = program(&["sweep", "plan.toml"]).current_dir(folder.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(
        text.starts_with("3 runs in 1 file"),
        "{text}{}",
        String::from_utf8_lossy(&output.stderr)
    );
}

/// A program that sends itself a file over TCP.
const SENDS: &str = "
import socket, threading
server = socket.create_server(('127.0.0.1', 0))
server.settimeout(20)
def serve():
    with server.accept()[0] as peer: peer.sendall(b'x' * 100_000)
threading.Thread(target=serve).start()
with socket.create_connection(server.getsockname(), 20) as client:
    assert sum(iter(lambda: len(client.recv(65536)), 0)) == 100_000
";

#[test]
fn tcp_connections_of_a_program_are_under_it() {
    if Command::new("python3").arg("--version").output().is_err() {
        return cellpace_testing::skip("no python3");
    }
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("flows.jsonl");
    let text = log.to_str().unwrap();
    printed(&["run", "--cc", "halving:beta=0.8", "--json", text, "--", "python3", "-c", SENDS]);
    let flow: Value = serde_json::from_str(&fs::read_to_string(&log).unwrap()).unwrap();
    assert_eq!(flow["cc"], "halving:beta=0.8");
    assert_eq!(flow["acked_bytes"], 100_000);
    assert!(flow["cwnd_bytes"].as_u64() > Some(100_000), "{flow}");
}

#[test]
fn bytes_are_sent_under_it_to_the_same_program() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (key, sent, received) = (path("key"), path("sent"), path("received"));
    fs::write(&sent, vec![7; 300_000]).unwrap();
    printed(&["key", &key]);
    let mut receiver = program(&["recv", "--listen", "127.0.0.1:0", "--once", "--key", &key]);
    receiver.args(["--output", &received]).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut receiver = receiver.spawn().unwrap();
    let mut line = String::new();
    let mut errors = BufReader::new(receiver.stderr.take().unwrap());
    errors.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap();
    let send = ["send", address, "--key", &key, "--cc", "halving:gentle", "--json", "-", &sent];
    let document: Value = serde_json::from_str(&printed(&send)).unwrap();
    assert_eq!(document["flows"][0]["cc"], "halving:gentle");
    assert!(cellpace_testing::finished(receiver).status.success());
    assert_eq!(fs::read(&received).unwrap(), fs::read(&sent).unwrap());
}
