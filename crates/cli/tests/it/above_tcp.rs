//! `cellpace run` over `cellpace link`: what the controllers do to a real TCP connection. Coarse
//! bounds, since the packets are real; the figures proper stand in docs/validation/above-tcp.md.

use std::fs;
use std::process::Command;

use crate::program::{Folder, measured::measured};
use serde_json::Value;

const SERVER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../evaluation/alcc_server.py");
const PYTHON: &str = "/usr/bin/python3";
const SECONDS: u32 = 7;

/// What the link saw.
struct Seen {
    mbps: f64,
    median_ms: f64,
    p95_ms: f64,
    /// Of the flow under the controller: its smoothed RTT at the end.
    rtt_ms: Option<f64>,
}

/// Whether the tests can run; says so if not.
fn can_run() -> bool {
    if !fs::exists(PYTHON).unwrap() {
        cellpace_testing::skip("no python3");
        return false;
    }
    // What TCP itself uses can be chosen by root alone.
    let uid = Command::new("id").arg("-u").output().unwrap();
    if uid.stdout != b"0\n" {
        cellpace_testing::skip("not root");
        return false;
    }
    let outcome = Folder::new().run("link --quiet --rtt 0ms -- true");
    if outcome.code != Some(0) {
        cellpace_testing::skip(format_args!("no links here: {}", outcome.stderr));
    }
    outcome.code == Some(0)
}

/// A download through 12 Mbit/s with a base RTT of 40 ms, in a network namespace of its own.
fn download(cc: Option<&str>) -> Seen {
    downloads(cc, 1)
}

/// The same several times at once.
fn downloads(cc: Option<&str>, clients: u32) -> Seen {
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_cellpace");
    let under = cc.map(|cc| format!("'{program}' run --drain 1s --json flows --cc {cc} --"));
    let script = format!(
        "ip link set lo up
        {} {PYTHON} {SERVER} 9000 cubic & server=$!
        sleep 1
        '{program}' link --quiet --trace constant:12mbit --rtt 40ms --skip 2s --duration {SECONDS}s \
            --json out.json -- bash -c 'for i in $(seq {clients}); do
                cat </dev/tcp/$CELLPACE_HOST/9000 >/dev/null & done; wait'
        kill $server; wait $server; true",
        under.unwrap_or_default(),
    );
    let mut command = Command::new("unshare");
    let out = command.args(["--net", "sh", "-c", &script]).current_dir(folder.path(".")).output();
    let said = String::from_utf8_lossy(&out.unwrap().stderr).into_owned();
    assert!(folder.path("out.json").exists(), "{said}");
    let json: Value = serde_json::from_slice(&folder.read("out.json")).unwrap();
    let figure = |name: &str| json["runs"][0].pointer(name).and_then(Value::as_f64).unwrap();
    let flow = fs::read(folder.path("flows")).ok();
    let first = |text: Vec<u8>| serde_json::Deserializer::from_slice(&text).into_iter().next();
    let flow: Option<Value> = flow.and_then(first).map(Result::unwrap);
    Seen {
        rtt_ms: flow.and_then(|flow| flow["rtt_ms"].as_f64()),
        mbps: figure("/throughput_mbps"),
        median_ms: figure("/queue_delay_ms/p50"),
        p95_ms: figure("/queue_delay_ms/p95"),
    }
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn a_short_queue_at_nearly_the_throughput_of_plain_tcp() {
    measured(|| {
        if !can_run() {
            return;
        }
        let plain = download(None);
        assert!(plain.mbps > 11.0 && plain.p95_ms > 150.0, "{} ms", plain.p95_ms);
        for cc in ["copa", "fixed:cwnd=41pkts"] {
            let ours = download(Some(cc));
            assert!(ours.mbps > 0.85 * plain.mbps, "{cc}: {} Mbit/s", ours.mbps);
            assert!(ours.p95_ms < plain.p95_ms / 4.0, "{cc}: {} ms", ours.p95_ms);
        }
    });
}

#[test]
fn alcc_t8_alcc_t13_a_static_window_steers_tcp_and_its_rtt_is_the_paths() {
    measured(|| {
        if !can_run() {
            return;
        }
        // 20 packets a round trip of 40 ms: half the link, and no queue.
        let half = download(Some("fixed:cwnd=20pkts"));
        // T13: what waits in the program's socket and before the gate is not in the RTT. A busy machine delays acks.
        let rtt = half.rtt_ms.unwrap();
        assert!((40.0..55.0).contains(&rtt), "{rtt} ms");
        // Little's law, with headers that the window does not count.
        let expected = 20.0 * 1500.0 * 8.0 / (rtt * 1e3);
        assert!((half.mbps / expected - 1.0).abs() < 0.07, "{} of {expected} Mbit/s", half.mbps);
        assert!(half.median_ms < 5.0, "{} ms", half.median_ms);
        // Twice the path's 41: another 41 packets stand in the queue, a millisecond each.
        let double = download(Some("fixed:cwnd=83pkts"));
        assert!(double.mbps > 11.5, "{} Mbit/s", double.mbps);
        assert!((35.0..50.0).contains(&double.median_ms), "{} ms", double.median_ms);
    });
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn flows_that_share_a_window_keep_the_queue_of_one() {
    measured(|| {
        if !can_run() {
            return;
        }
        let shared = downloads(Some("fixed:cwnd=41pkts --share"), 4);
        assert!(shared.mbps > 0.85 * 12.0, "{} Mbit/s", shared.mbps);
        assert!(shared.median_ms < 10.0, "{} ms", shared.median_ms);
        let own = downloads(Some("fixed:cwnd=41pkts"), 4);
        assert!(
            own.median_ms > 80.0,
            "four windows where there is room for one: {}",
            own.median_ms
        );
    });
}
