//! QUIC as users run it: `send --quic` and `recv --quic`, `h3`, and `compare --stack`.

#![allow(clippy::unwrap_used)]
#![cfg(all(unix, feature = "quic"))]

mod program;
mod transfers;

use std::fs;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command};

use program::{Folder, links, number};
use serde_json::Value;
use transfers::{Waiting, cellpace, content, hash, said, text};

/// A peer's `--quic --peer sha256:...`, as it prints it.
fn known(waiting: &Waiting) -> Vec<String> {
    let (_, options) = waiting.hint.split_once("connect with ").unwrap();
    options.split(' ').map(str::to_owned).collect()
}

fn connect(command: &str, waiting: &Waiting, args: &[&str]) -> std::process::Output {
    let known = known(waiting);
    let known: Vec<&str> = known.iter().map(String::as_str).collect();
    let all = [&[command, &waiting.address][..], &known, args].concat();
    cellpace(&all).output().unwrap()
}

#[test]
fn a_file_arrives_whoever_waits_and_both_know_how_it_went() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let events = folder.path().join("events.sqlog");
    let expected = content(&original, 300_000);
    for (cc, reverse) in [("verus", false), ("copa", true), ("bbr", false), ("mdi", true)] {
        let sender = [text(&original), "--cc", cc, "--json", "-", "--events", text(&events)];
        let receiver = ["--output", text(&copy), "--json", "-"];
        let (sent, received) = if reverse {
            let waiting = Waiting::start("send", &[&["--quic"][..], &sender].concat());
            let received = connect("recv", &waiting, &receiver);
            assert!(received.status.success(), "{cc}: {}", said(&received));
            (waiting.end(), String::from_utf8(received.stdout).unwrap())
        } else {
            let waiting = Waiting::recv(&[&["--quic", "--once"][..], &receiver].concat());
            let sent = connect("send", &waiting, &sender);
            assert!(sent.status.success(), "{cc}: {}", said(&sent));
            ((true, String::from_utf8(sent.stdout).unwrap()), waiting.end().1)
        };
        assert!(sent.0, "{cc}");
        assert_eq!(hash(&copy), expected, "{cc}");
        fs::remove_file(&copy).unwrap();
        let [sent, received]: [Value; 2] =
            [&sent.1, &received].map(|text| serde_json::from_str(text).unwrap());
        for document in [&sent, &received] {
            assert_eq!(document["transport"], "quic");
            assert_eq!(document["flows"][0]["bytes"], 300_000, "{cc}: {document}");
        }
        assert_eq!(received["flows"][0]["blake3"], expected.to_string());
        assert!(number(&sent, "/flows/0/rtt_ms_seen/p50") > 0.0);
        let log = fs::read(&events).unwrap();
        // The transfer takes less than the interval of metrics.
        assert!(log.windows(4).any(|part| part == b"qlog"), "{cc}: qlog");
    }
}

#[test]
fn two_flows_of_made_up_bytes_end_by_the_clock() {
    let waiting = Waiting::recv(&["--quic", "--once", "--json", "-"]);
    let args = ["--cc", "verus", "--cc", "cubic", "--duration", "2s", "--json", "-"];
    let sent = connect("send", &waiting, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let (is_good, received) = waiting.end();
    assert!(is_good);
    let received: Value = serde_json::from_str(&received).unwrap();
    for flow in [0, 1] {
        let of = |document, figure: &str| number(document, &format!("/flows/{flow}/{figure}"));
        let (left, came) = (of(&sent, "bytes"), of(&received, "bytes"));
        assert!(left > 10_000.0 && came > 10_000.0, "{left} {came}");
        let took = of(&sent, "stop_s") - of(&sent, "start_s");
        assert!((2.0..6.0).contains(&took), "{took}");
    }
}

#[test]
fn strangers_are_refused_in_words() {
    let folder = Folder::new();
    let none = format!("sha256:{}", "00".repeat(32));
    folder.refused("send 127.0.0.1:9 --quic", "who is there? Give --peer");
    folder.refused("send 127.0.0.1:9 --quic --peer sha256:12", "no fingerprint");
    folder.refused("send 127.0.0.1:9 --quic --peer none.pem", "no file `none.pem`");
    folder.refused(&format!("send 127.0.0.1:9 --peer {none}"), "--quic");
    folder.refused(&format!("send 127.0.0.1:9 --quic --peer {none} --unreliable"), "--unreliable");
    folder.refused(
        &format!("send 127.0.0.1:9 --quic --peer {none} --cc sprout"),
        "half at the receiver",
    );
    folder.refused("recv --quic --acks delayed:40ms", "--acks");
    let waiting = Waiting::recv(&["--quic", "--once"]);
    let wrong = cellpace(&["send", &waiting.address, "--quic", "--peer", &none]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    assert!(said(&wrong).contains("another fingerprint"), "{}", said(&wrong));
}

#[test]
fn a_key_makes_both_sides_known_to_each_other() {
    let folder = Folder::new();
    folder.good("key a.key");
    folder.good("key b.key");
    let (a, b) = (folder.path("a.key"), folder.path("b.key"));
    let (a, b) = (text(&a), text(&b));
    let other = Waiting::recv(&["--quic", "--key", a]);
    let wrong = cellpace(&["send", &other.address, "--quic", "--key", b]).output().unwrap();
    assert_eq!(wrong.status.code(), Some(1), "{}", said(&wrong));
    // Who knows the receiver but is nobody to it.
    let waiting = Waiting::recv(&["--quic", "--once", "--key", a]);
    let args = ["send", &waiting.address, "--quic", "--key", a, "--bytes", "100kB"];
    let sent = cellpace(&args).output().unwrap();
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
}

/// `cellpace h3 serve`, and where.
struct Serving {
    child: Child,
    url: String,
    peer: String,
}

impl Serving {
    fn start(folder: &std::path::Path, args: &[&str]) -> Self {
        let all = [&["h3", "serve", text(folder), "--listen", "127.0.0.1:0"][..], args].concat();
        let mut child = cellpace(&all).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap());
        let mut line = String::new();
        said.read_line(&mut line).unwrap();
        let (_, rest) = line.trim().split_once("serving at ").unwrap_or_else(|| panic!("{line}"));
        let (url, peer) = rest.split_once("; the certificate is ").unwrap();
        let (url, peer) = (url.to_owned(), peer.to_owned());
        std::thread::spawn(move || said.read_to_end(&mut Vec::new()));
        Self { child, url, peer }
    }

    fn get(&self, path: &str, output: &std::path::Path) -> std::process::Output {
        let url = format!("{}{path}", self.url);
        let args = ["h3", "get", &url, "--peer", &self.peer, "--output", text(output)];
        cellpace(&args).output().unwrap()
    }

    /// Interrupts it. Returns what it has printed.
    fn end(mut self) -> String {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").args(["-INT", &id]).status().unwrap().success());
        let left = Command::new("true").spawn().unwrap();
        let output = cellpace_testing::finished(std::mem::replace(&mut self.child, left));
        String::from_utf8(output.stdout).unwrap()
    }
}

impl Drop for Serving {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn files_of_a_folder_are_served_and_nothing_else() {
    let folder = tempfile::tempdir().unwrap();
    let root = folder.path().join("root");
    fs::create_dir(&root).unwrap();
    fs::write(folder.path().join("secret"), "no").unwrap();
    let expected = content(&root.join("a file.bin"), 2_000_000);
    let copy = folder.path().join("copy");
    let serving = Serving::start(&root, &["--cc", "copa"]);
    let got = serving.get("a%20file.bin", &copy);
    assert!(got.status.success(), "{}", said(&got));
    assert_eq!(hash(&copy), expected);
    for (path, status) in [("none", "404"), ("../secret", "400"), ("%2e%2e/secret", "400")] {
        let none = folder.path().join("none");
        let got = serving.get(path, &none);
        assert_eq!(got.status.code(), Some(1), "{path}");
        assert!(said(&got).contains(status), "{path}: {}", said(&got));
        assert!(!none.exists(), "{path}");
    }
    let lines = serving.end();
    assert!(lines.contains("GET /a%20file.bin: 200, 2000000 bytes"), "{lines}");
    assert!(lines.contains("1 requests") && lines.contains("queue delay p50"), "{lines}");
}

#[test]
fn a_download_over_a_cellular_link_is_whole() {
    if !links::possible() {
        return;
    }
    let folder = Folder::new();
    let expected = content(&folder.path("original"), 2_000_000);
    let program = env!("CARGO_BIN_EXE_cellpace");
    let far = format!(
        "exec '{program}' h3 serve . --listen $CELLPACE_PEER:4433 --cc verus >served 2>where"
    );
    let inside = format!(
        "until grep -qs sha256 where; do sleep 0.1; done; \
         exec '{program}' h3 get https://$CELLPACE_PEER:4433/original --output copy \
         --peer $(grep -o 'sha256:[0-9a-f]*' where)"
    );
    let link = "link --trace lte-driving --rtt 40ms --far";
    let commands = [&far, "--", "sh", "-c", &inside];
    let outcome = folder.run_args(link.split(' ').chain(commands));
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert_eq!(blake3::hash(&folder.read("copy")), expected);
}

#[test]
fn stacks_are_compared_over_the_same_path_with_the_same_bytes() {
    let folder = Folder::new();
    let args = "compare --trace constant:12mbit --duration 10s --cc verus --cc cubic --stack builtin \
                --stack noq --stack quinn:cc=cubic --json - --events events.jsonl";
    let first = folder.good(args);
    assert_eq!(first, folder.good(args), "the same bytes");
    let document: Value = serde_json::from_str(&first).unwrap();
    let names: Vec<&str> = document["runs"]
        .as_array()
        .unwrap()
        .iter()
        .map(|run| run["cc"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["verus", "verus in noq", "cubic", "cubic in noq", "quinn:cc=cubic"]);
    for (run, name) in names.iter().enumerate() {
        let rate = number(&document, &format!("/runs/{run}/throughput_mbps"));
        assert!((10.5..12.1).contains(&rate), "{name}: {rate}");
    }
    assert!(!folder.read("events.jsonl").is_empty());
    folder.refused("compare --cc sprout --stack noq", "half at the receiver");
    folder.refused("compare --stack quic", "write noq or quinn");
    folder.refused("compare --stack noq --transfer 2MB", "always have data");
}
