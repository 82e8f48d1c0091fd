//! `cellpace probe`, run as users run it. What it records of an emulated link is the link.

use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::program;
use crate::program::{Folder, measured::measured};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_probe::ks_distance;
use cellpace_probe::wire::{self, ProbePacket, ReportHead};
use cellpace_udp::wire::Ids;
use serde_json::Value;

/// Ends the far side with the test.
struct Far(Child);

impl Drop for Far {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Waits for probers at a port of this machine.
fn listen(folder: &Folder, port: u16, more: &str) -> Far {
    let args = format!("probe --listen 127.0.0.1:{port} {more}");
    let mut command = folder.command(args.split_whitespace());
    let child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    Far(child)
}

#[test]
fn both_directions_over_loopback() {
    let folder = Folder::new();
    let far = listen(&folder, 15261, "");
    let args = "probe 127.0.0.1:15261 --rate 5.6mbit --duration 1s --report out.html \
                --onoff 1mbit:on=200ms,off=200ms";
    let document = folder.json(args);
    let status = std::fs::read_to_string(format!("/proc/{}/status", far.0.id())).unwrap();
    for given_up in ["CapEff:\t0000000000000000", "CapPrm:\t0000000000000000", "NoNewPrivs:\t1"] {
        assert!(status.contains(given_up), "{given_up}: {status}");
    }
    assert_eq!(document["schema"], "cellpace.probe/1");
    assert_eq!(document["complete"], true);
    for direction in ["up", "down"] {
        let found = &document[direction];
        let count = |name: &str| found[name].as_u64().unwrap();
        assert_eq!(count("sent") + count("skipped"), 500, "{direction}");
        assert_eq!(count("lost"), 0, "{direction}");
        assert!(found["onoff"]["on_ms"]["count"].as_u64().unwrap() > 0);
        assert_eq!(found["windows"][1]["width_ms"], 20);
    }
    let page = String::from_utf8(folder.read("out.html")).unwrap();
    assert!(page.contains("127.0.0.1:15261") && !page.contains("{{"));
}

#[test]
fn over_loopback_all_probes_keep_their_codepoint() {
    let folder = Folder::new();
    let _far = listen(&folder, 15265, "");
    let args = "probe 127.0.0.1:15265 --rate 5.6mbit --duration 500ms";
    let document = folder.json(&format!("{args} --ecn ect1"));
    for direction in ["up", "down"] {
        let found = &document[direction];
        let arrived = found["arrived"].as_u64().unwrap();
        assert!(arrived > 100, "{direction}: {arrived}");
        let expected = serde_json::json!(
            {"sent_as": "ect1", "not_ect": 0, "ect0": 0, "ect1": arrived, "ce": 0}
        );
        assert_eq!(found["ecn"], expected, "{direction}");
    }
    let said = folder.good(&format!("{args} --ecn ect0 --direction up"));
    assert!(said.contains(" probes as ECT(0): "), "{said}");
    assert!(said.contains("0 marked CE, 0 lost the codepoint (bleached), 0 changed"), "{said}");
    assert!(folder.json(args)["up"]["ecn"].is_null());
}

#[test]
fn g14_what_arrives_of_a_constant_rate_is_a_trace_that_says_so() {
    let folder = Folder::new();
    let _far = listen(&folder, 15263, "");
    let document =
        folder.json("probe 127.0.0.1:15263 --rate 5mbit --duration 2s --record five.down");
    assert!(document["down"]["trace"].is_null(), "the far side was not kept busy");
    let text = String::from_utf8(folder.read("five.down")).unwrap();
    assert!(text.starts_with("# recorded at a constant rate"), "{}", &text[..99]);
    let trace = Trace::read("five.down", text.as_bytes()).unwrap();
    assert!(trace.is_bounded_by_sender());
    // Whatever the machine does, no more arrives than was sent.
    assert!((1.0..5.2).contains(&trace.mean_rate().as_mbps()), "{:?}", trace.mean_rate());
    let checked = folder.json("trace check five.down");
    let findings = checked["traces"][0]["findings"].as_array().unwrap();
    assert!(findings.iter().any(|found| found["check"] == "sender"), "{findings:?}");
}

#[test]
fn what_cannot_be_measured_is_refused_with_the_reason() {
    let folder = Folder::new();
    let _far = listen(&folder, 15262, "--max-rate 1mbit");
    let outcome = folder.run("probe 127.0.0.1:15262 --rate 5mbit --direction down");
    outcome.complains(1, "refused: it sends 1mbit at most");
    for (args, said) in [
        ("--duration 0s", "write a time from 100ms to 1h"),
        ("--rate 0mbit", "a rate is above zero"),
        ("--rate -5mbit", "-5mbit"),
        ("--size 109", "from 110 to 9000"),
        ("--rate 300mbit", "--max-rate"),
        ("--ecn ce", "possible values: ect0, ect1"),
        ("--json missing/x.json", "missing/x.json: no such folder"),
        ("--report .", "is a folder"),
    ] {
        folder.refused(&format!("probe 127.0.0.1:1 {args}"), said);
    }
    for (target, said) in [
        ("127.0.0.1:99999", "a port is a number from 0 to 65535"),
        ("127.0.0.1:0", "port 0 is none to connect to"),
        ("--listen 99999", "a port is a number from 0 to 65535"),
        ("--listen -1", "a port is a number from 0 to 65535"),
        ("no.such.host.invalid", "the host \"no.such.host.invalid\" is not known here"),
    ] {
        folder.refused(&format!("probe {target}"), said);
    }
    assert!(folder.names().is_empty());
}

#[test]
fn a_port_without_a_program_is_named_within_three_seconds() {
    let folder = Folder::new();
    let free = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let started = Instant::now();
    folder
        .run(&format!("probe {free}"))
        .complains(1, &format!("{free}: no program has that UDP port"));
    assert!(started.elapsed() < Duration::from_secs(3), "{:?}", started.elapsed());
}

#[test]
fn a_far_side_that_does_not_answer_is_named_with_what_to_check() {
    let folder = Folder::new();
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap();
    let outcome = folder.run(&format!("probe {address}"));
    outcome.complains(1, &format!("no answer from {address} within 10s: is `cellpace probe"));
}

/// Both sides use the port that the documents name, where none is written.
#[test]
fn without_a_port_both_sides_use_5261() {
    let folder = Folder::new();
    if UdpSocket::bind("127.0.0.1:5261").is_err() {
        cellpace_testing::skip("port 5261 is in use here");
        return;
    }
    let mut far = Far(folder.start("probe --listen 127.0.0.1 -v"));
    let mut line = String::new();
    let mut said = BufReader::new(far.0.stderr.take().unwrap());
    said.read_line(&mut line).unwrap();
    assert!(line.contains("waiting for probers at 127.0.0.1:5261"), "{line}");
    let document = folder.json("probe 127.0.0.1 --rate 1.12mbit --duration 200ms");
    assert_eq!(document["settings"]["target"], "127.0.0.1");
    assert_eq!(document["up"]["lost"], 0);
    line.clear();
    said.read_line(&mut line).unwrap();
    assert!(line.contains("127.0.0.1:"), "one line for each prober with -v: {line}");
}

#[test]
fn an_interrupted_probe_keeps_what_it_measured_and_ends_with_130() {
    let folder = Folder::new();
    let _far = listen(&folder, 15265, "");
    let args = "probe 127.0.0.1:15265 --rate 5.6mbit --duration 60s --json out.json";
    let prober = folder.start(args);
    std::thread::sleep(Duration::from_millis(1_500));
    program::signal(&prober, "INT");
    let output = cellpace_testing::finished(prober);
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let document: Value = serde_json::from_slice(&folder.read("out.json")).unwrap();
    assert_eq!(document["complete"], false);
    assert!(document["up"]["arrived"].as_u64().unwrap() > 100, "{}", document["up"]["arrived"]);
}

/// A far side that reports nonsense to whoever asks, until it is ended.
fn lie(socket: &UdpSocket, stop: &AtomicBool) {
    let mut buffer = [0; 2000];
    while !stop.load(Ordering::Relaxed) {
        let Ok((bytes, from)) = socket.recv_from(&mut buffer) else { continue };
        let Some((Ids { from: id, .. }, packet)) = wire::decode(&buffer[..bytes]) else { continue };
        let (ids, mut answer) = (Ids { to: id, from: 7 }, Vec::new());
        match packet {
            ProbePacket::Hello(..) => wire::write_accept(&mut answer, ids),
            ProbePacket::Report(_) => {
                let head =
                    ReportHead { sent: [1 << 62; 2], total: 1 << 62, ..ReportHead::default() };
                wire::write_report(&mut answer, ids, &head, std::iter::empty()).0
            }
            _ => continue,
        };
        cellpace_udp::wire::seal(&mut answer);
        socket.send_to(&answer, from).unwrap();
    }
}

#[test]
fn a_far_side_that_lies_is_an_error_at_once_and_writes_nothing() {
    let folder = Folder::new();
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
    let address = socket.local_addr().unwrap();
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| lie(&socket, &stop));
        let args = format!("probe {address} --plain --direction up --duration 60s --json out.json");
        let outcome = folder.run(&args);
        stop.store(true, Ordering::Relaxed);
        outcome.complains(1, "reports something impossible: more probes of its own");
    });
    assert!(folder.names().is_empty());
}

#[test]
fn with_a_key_only_who_has_it_can_measure() {
    let folder = Folder::new();
    assert_eq!(folder.good("key a.key") + &folder.good("key b.key"), "");
    let _far = listen(&folder, 15264, "--key a.key");
    let document = folder.json("probe 127.0.0.1:15264 --key a.key --rate 5.6mbit --duration 500ms");
    assert_eq!((&document["complete"], &document["up"]["lost"]), (&true.into(), &0.into()));
    std::thread::scope(|scope| {
        for key in ["--key b.key", "", "--plain"] {
            let folder = &folder;
            scope.spawn(move || {
                let outcome = folder.run(&format!("probe 127.0.0.1:15264 --duration 500ms {key}"));
                outcome.complains(1, "is the key the same on both sides");
            });
        }
    });
}

fn gaps(millis: &[u32]) -> Vec<u32> {
    millis.windows(2).map(|pair| pair[1] - pair[0]).collect()
}

/// All opportunities of a trace, in ms, up to `until`.
fn opportunities_of(trace: &str, seed: u64, until: u32) -> Vec<u32> {
    let spec = TraceSpec::parse(trace, &mut TraceFiles::none()).unwrap();
    let mut schedule = spec.build(seed).unwrap();
    let mut all = Vec::new();
    while let Some(at) = schedule.peek().filter(|at| at.as_millis_f64() <= f64::from(until)) {
        schedule.take();
        all.push(at.as_millis_f64().round() as u32);
    }
    all
}

/// Whether there is `cellpace link`, and it may do what it must.
fn can_link(folder: &Folder) -> bool {
    let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
    command
        .args(["link", "--trace", "constant:12mbit", "-q", "--", "true"])
        .current_dir(folder.path(""));
    command.output().is_ok_and(|output| output.status.success())
}

/// The part of the link's trace in which the recording was made: where most of its opportunities
/// meet one. The link began before the recording, by less than ten seconds.
fn window_of<'a>(link: &'a [u32], recorded: &[u32]) -> &'a [u32] {
    let length = *recorded.last().unwrap();
    let met = |offset: u32| {
        recorded.iter().filter(|at| link.binary_search(&(*at + offset)).is_ok()).count()
    };
    let offset = (0..10_000).max_by_key(|offset| met(*offset)).unwrap();
    let from = link.partition_point(|at| *at <= offset);
    &link[from..link.partition_point(|at| *at <= offset + length)]
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn the_trace_recorded_of_an_emulated_link_is_the_links() {
    measured(|| {
        let folder = Folder::new();
        if !can_link(&folder) {
            cellpace_testing::skip("`cellpace link` does not exist or is not permitted here");
            return;
        }
        let cellpace = env!("CARGO_BIN_EXE_cellpace");
        let far = format!("{cellpace} probe --listen 0.0.0.0:15263");
        let inside = format!(
            "sleep 0.3; exec {cellpace} probe $CELLPACE_HOST:15263 --duration 8s \
         --record recorded.trace --json recorded.json"
        );
        let outcome = folder.run_args([
            "link",
            "--trace",
            "lte-driving",
            "--seed",
            "3",
            "--queue",
            "infinite",
            "-q",
            "--far",
            &far,
            "--",
            "sh",
            "-c",
            &inside,
        ]);
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let document: Value = serde_json::from_slice(&folder.read("recorded.json")).unwrap();
        let idle = document["down"]["trace"]["idle_share"].as_f64().unwrap();
        assert!(idle < 0.01, "{idle}");
        let recorded = Trace::read("recorded", folder.read("recorded.trace").as_slice()).unwrap();
        let link = opportunities_of("lte-driving", 3, 30_000);
        let expected = window_of(&link, recorded.millis());
        let (count, right) = (recorded.millis().len() as f64, expected.len() as f64);
        let distance = ks_distance(&gaps(recorded.millis()), &gaps(expected));
        println!("{count} of {right}, distance {distance:.4}");
        assert!((count / right - 1.0).abs() < 0.01, "{count} of {right}");
        assert!(distance < 0.05, "{distance}");
    });
}
