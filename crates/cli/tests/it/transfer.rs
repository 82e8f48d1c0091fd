//! `cellpace send` and `recv` as users run them, over the loopback interface.

use std::fs;
use std::io::{BufRead, BufReader, Write};
use std::net::UdpSocket;
use std::os::unix::fs::OpenOptionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::{Folder, links, measured::measured};
use crate::transfers::{Waiting, cellpace, content, hash, said, send, text};
use serde_json::Value;

#[test]
fn a_file_arrives_under_every_controller() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 300_000);
    for cc in ["verus", "copa", "sprout", "bbr", "bbr3", "cubic", "vegas", "fixed:cwnd=20pkts"] {
        let waiting = Waiting::recv(&["--once", "--output", text(&copy)]);
        let sent = send(&waiting.address, &[text(&original), "--cc", cc]);
        assert!(sent.status.success(), "{cc}: {}", said(&sent));
        assert!(waiting.end().0, "{cc}");
        assert_eq!(hash(&copy), expected, "{cc}");
        fs::remove_file(&copy).unwrap();
    }
}

#[test]
fn g8_samples_of_a_real_flow_make_a_table() {
    let folder = tempfile::tempdir().unwrap();
    let (samples, table) = (folder.path().join("samples.csv"), folder.path().join("own.mdi"));
    let waiting = Waiting::recv(&["--once"]);
    let args =
        ["--cc", "verus:r=2", "--duration", "2s", "--json", "-", "--mdi-samples", text(&samples)];
    let sent = send(&waiting.address, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    let document: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let packets = document["flows"][0]["packets"].as_u64().unwrap();
    let csv = fs::read_to_string(&samples).unwrap();
    assert!(csv.starts_with("chain,users,delay_ms,window_pkts,sent\n0,0,"), "{csv:.99}");
    let in_epoch = |row: &str| row.rsplit(',').next().unwrap().parse::<u64>().unwrap();
    let sum: u64 = csv.lines().skip(1).map(in_epoch).sum();
    // Those before the first ack and in the last epoch belong to no sample.
    assert!(sum <= packets && sum * 10 >= packets * 8, "{sum} of {packets}");
    // At most one row for each epoch.
    assert!((10..=420).contains(&csv.lines().count()), "{}", csv.lines().count());
    let convert = ["mdi", "convert", text(&samples), "--teacher", "verus:r=2", "-o", text(&table)];
    let converted = cellpace(&convert).output().unwrap();
    assert!(converted.status.success(), "{}", said(&converted));
    let cc = format!("mdi:model={}", text(&table));
    let run = ["compare", "--trace", "constant:12mbit", "--duration", "3s", "--cc", &cc];
    let run = cellpace(&run).output().unwrap();
    assert!(run.status.success(), "{}", said(&run));
}

/// All that leaves in 5 s is in the samples but what left before the first ack.
#[test]
fn g8_samples_are_all_epochs_and_all_packets() {
    if !links::possible() {
        return;
    }
    measured(|| {
        let folder = Folder::new();
        let program = env!("CARGO_BIN_EXE_cellpace");
        let far = format!("exec '{program}' recv --listen $CELLPACE_PEER:5260 --once >&2");
        let inside = format!(
            "exec '{program}' send $CELLPACE_PEER:5260 --cc verus:r=2 --duration 5s \
             --json sent.json --mdi-samples samples.csv >&2"
        );
        let link = "link --trace constant:12mbit --uplink constant:12mbit --rtt 40ms --far";
        let commands = [&far, "--", "sh", "-c", &inside];
        let outcome = folder.run_args(link.split(' ').chain(commands));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let document: Value = serde_json::from_slice(&folder.read("sent.json")).unwrap();
        let packets = document["flows"][0]["packets"].as_u64().unwrap();
        let read = cellpace_mdi::read_samples(&folder.read("samples.csv")).unwrap();
        let [flow] = &read[0].chains[..] else { panic!("{} chains", read[0].chains.len()) };
        let sent: u64 = flow.iter().map(|sample| u64::from(sample.sent)).sum();
        println!("{} rows, {sent} of {packets} packets", flow.len());
        assert!((985..=1015).contains(&flow.len()), "{} rows", flow.len());
        // Verus begins with one packet.
        assert!(sent <= packets && packets - sent <= 2, "{sent} of {packets}");
    });
}

/// The same video in the simulator: figures of frames may differ by what timers of a machine do.
#[test]
fn a_video_through_a_link_has_the_simulators_frame_delays() {
    if !links::possible() {
        return;
    }
    measured(|| {
        let folder = Folder::new();
        let program = env!("CARGO_BIN_EXE_cellpace");
        let far = format!("exec '{program}' recv --listen $CELLPACE_PEER:5260 --once >&2");
        let inside = format!(
            "exec '{program}' send $CELLPACE_PEER:5260 --cc scream:max_rate=4mbit \
             --video max=4mbit --duration 6s --json sent.json >&2"
        );
        let link = "link --trace constant:12mbit --uplink constant:12mbit --rtt 40ms --far";
        let commands = [&far, "--", "sh", "-c", &inside];
        let outcome = folder.run_args(link.split(' ').chain(commands));
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
        let sent: Value = serde_json::from_slice(&folder.read("sent.json")).unwrap();
        let simulated = folder.good(
            "compare --trace constant:12mbit --rtt 40ms --cc scream:max_rate=4mbit --skip 0s \
             --video max=4mbit --duration 6s --json -",
        );
        let simulated: Value = serde_json::from_str(&simulated).unwrap();
        let real = &sent["flows"][0]["video"];
        let expected = &simulated["runs"][0]["per_flow"][0]["video"];
        println!("{real}\n{expected}");
        let of = |video: &Value, path: &str| video.pointer(path).unwrap().as_f64().unwrap();
        let rates = [real, expected].map(|video| of(video, "/bitrate_mbps"));
        assert!((rates[0] / rates[1] - 1.0).abs() < 0.1, "{rates:?}");
        for quantile in ["/frame_delay_ms/p50", "/frame_delay_ms/p95"] {
            let delays = [real, expected].map(|video| of(video, quantile));
            assert!((delays[0] - delays[1]).abs() < 8.0, "{quantile} {delays:?}");
        }
        assert!(of(real, "/frames") > 150.0 && of(real, "/late") < 0.03, "{real}");
    });
}

#[test]
fn a_video_needs_no_file_and_refuses_one() {
    let waiting = Waiting::recv(&["--once"]);
    let args = ["--cc", "copa", "--video", "rate=1mbit,fps=50", "--duration", "2s", "--json", "-"];
    let sent = send(&waiting.address, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    let document: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let video = &document["flows"][0]["video"];
    assert_eq!(document["mode"], "unreliable");
    assert!(video["frames"].as_u64().unwrap() > 60, "{video}");
    assert!((0.8..1.2).contains(&video["bitrate_mbps"].as_f64().unwrap()), "{video}");
    for (args, part) in [
        (&["send", "127.0.0.1:9", "file", "--video", "fps=30"][..], "cannot be used with"),
        (&["send", "127.0.0.1:9", "--video", "fps=0"], "fps=0 is out of range"),
        (&["send", "127.0.0.1:9", "--video", "frames=1"], "no parameter `frames`"),
    ] {
        let refused = cellpace(args).output().unwrap();
        assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
        assert!(said(&refused).contains(part), "{}", said(&refused));
    }
}

#[test]
fn a_receiver_that_delays_acks_sends_half_as_many() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 2_000_000);
    let receiver =
        ["--output", text(&copy), "--json", "-", "--timeout", "20s", "--acks", "delayed:40ms"];
    // A window that fits into any buffer, so that next to nothing is lost.
    let sender = [text(&original), "--cc", "fixed:cwnd=20pkts", "--timeout", "20s"];
    for reverse in [false, true] {
        let (sent, received) = if reverse {
            let waiting = Waiting::start("send", &sender);
            let args = [&["recv", &waiting.address][..], &receiver].concat();
            let received = cellpace(&args).output().unwrap();
            assert!(received.status.success(), "{}", said(&received));
            (waiting.end().0, String::from_utf8(received.stdout).unwrap())
        } else {
            let waiting = Waiting::recv(&[&["--once"][..], &receiver].concat());
            let sent = send(&waiting.address, &sender);
            assert!(sent.status.success(), "{}", said(&sent));
            waiting.end()
        };
        assert!(sent, "reverse: {reverse}");
        assert_eq!(hash(&copy), expected, "reverse: {reverse}");
        fs::remove_file(&copy).unwrap();
        let received: Value = serde_json::from_str(&received).unwrap();
        let flow = &received["flows"][0];
        let figure = |name: &str| flow[name].as_u64().unwrap();
        let (packets, acks) = (figure("packets"), figure("acks"));
        // On a busy machine the sender may time out and send again, which is acknowledged at once.
        let more = 10 + 2 * (figure("duplicates") + figure("lost"));
        assert!((packets / 2..=packets / 2 + more).contains(&acks), "{acks} of {packets}");
    }
}

#[test]
fn bad_policies_of_acks_and_those_of_a_sender_are_refused() {
    for (args, says) in [
        (&["recv", "--acks", "sometimes"][..], "every or delayed:40ms"),
        (&["recv", "--acks", "delayed:40"], "delayed:40"),
        (&["send", "127.0.0.1:9", "--acks", "every"], "unexpected"),
    ] {
        let output = cellpace(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        let said = said(&output);
        assert!(said.contains("--acks") && said.contains(says), "{said}");
    }
}

#[test]
fn packets_of_1280_bytes_over_ipv6() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 1_000_000);
    if UdpSocket::bind("[::1]:0").is_err() {
        cellpace_testing::skip("no IPv6 here");
        return;
    }
    let waiting = Waiting::start_at("[::1]:0", "recv", &["--once", "--output", text(&copy)]);
    let args = [text(&original), "--cc", "cubic", "--mtu", "1280", "--json", "-"];
    let sent = send(&waiting.address, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
    let document: Value = serde_json::from_slice(&sent.stdout).unwrap();
    // 1280 - 48 - 41 bytes of payload in each.
    assert!(document["flows"][0]["packets"].as_u64().unwrap() >= 1_000_000 / 1191);
}

/// All of 127.0.0.0/8 is this machine, so a socket at every address has several.
#[cfg(target_os = "linux")]
#[test]
fn answers_come_from_the_address_that_was_asked() {
    for every in ["0.0.0.0:0", "[::]:0"] {
        if UdpSocket::bind(every).is_err() {
            cellpace_testing::skip(format_args!("{every} cannot be had here"));
            continue;
        }
        let waiting = Waiting::start_at(every, "recv", &["--once"]);
        let port = waiting.address.rsplit(':').next().unwrap();
        let args = ["--bytes", "100kB", "--cc", "cubic", "--timeout", "3s"];
        let sent = send(&format!("127.0.0.2:{port}"), &args);
        assert!(sent.status.success(), "{every}: {}", said(&sent));
        assert!(waiting.end().0);
    }
}

#[test]
fn standard_input_to_standard_output() {
    let waiting = Waiting::recv(&["--once", "--output", "-"]);
    let mut sender = cellpace(&["send", &waiting.address, "-", "--cc", "cubic"])
        .stdin(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = sender.stdin.take().unwrap();
    input.write_all(b"first, ").unwrap();
    input.flush().unwrap();
    std::thread::sleep(Duration::from_millis(300));
    input.write_all(b"then the rest").unwrap();
    drop(input);
    assert!(cellpace_testing::finished(sender).status.success());
    assert_eq!(waiting.end(), (true, "first, then the rest".into()));
}

#[test]
fn the_document_of_several_flows() {
    let waiting = Waiting::recv(&["--once", "--json", "-"]);
    let args = ["--cc", "verus", "--cc", "cubic", "--bytes", "2MB", "--json", "-"];
    let sent = send(&waiting.address, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    let (ok, received) = waiting.end();
    assert!(ok);
    let sent: Value = serde_json::from_slice(&sent.stdout).unwrap();
    let received: Value = serde_json::from_str(&received).unwrap();
    for document in [&sent, &received] {
        assert_eq!(document["schema"], "cellpace.transfer/1");
        assert_eq!(document["flows"].as_array().unwrap().len(), 2);
        for flow in document["flows"].as_array().unwrap() {
            assert_eq!((&flow["bytes"], &flow["error"]), (&2_000_000.into(), &Value::Null));
            assert!(!flow["intervals"].as_array().unwrap().is_empty());
            assert!(flow["throughput_mbps"].as_f64() > flow["goodput_mbps"].as_f64());
        }
    }
    assert_eq!((&sent["role"], &received["role"]), (&"send".into(), &"recv".into()));
    assert_eq!(sent["flows"][1]["cc"], "cubic");
    let series = &sent["flows"][0]["series"];
    let lengths = ["time_s", "throughput_mbps", "lost", "rtt_ms", "cwnd"]
        .map(|name| series[name].as_array().unwrap().len());
    assert!(lengths[0] > 0 && lengths.iter().all(|length| *length == lengths[0]), "{lengths:?}");
    assert!(sent["flows"][0]["queue_delay_ms"]["p95"].is_number());
    assert!(sent["command"].as_str().unwrap().starts_with("cellpace send 127.0.0.1:"), "{sent}");
    assert!(sent["flows"][0]["rtt_ms_seen"]["p50"].is_number());
    assert_eq!(received["flows"][0]["blake3"], received["flows"][1]["blake3"]);
}

/// Both sides make the page that `cellpace report` makes of their JSON.
#[test]
fn a_report_is_made_of_the_figures_in_the_json() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let outputs = |name: &str| {
        let [page, json] = ["html", "json"].map(|kind| path(&format!("{name}.{kind}")));
        ["--report".to_owned(), text(&page).to_owned(), "--json".to_owned(), text(&json).to_owned()]
    };
    let (sender, receiver) = (outputs("send"), outputs("recv"));
    let receiver: Vec<&str> = receiver.iter().map(String::as_str).collect();
    let waiting = Waiting::recv(&[&["--once"][..], &receiver].concat());
    let sender: Vec<&str> = sender.iter().map(String::as_str).collect();
    let sent =
        send(&waiting.address, &[&["--bytes", "1MB", "--cc", "cubic"][..], &sender].concat());
    assert!(sent.status.success() && waiting.end().0, "{}", said(&sent));
    for side in ["send", "recv"] {
        let (json, again) = (path(&format!("{side}.json")), path("again.html"));
        let args = ["report", text(&json), "-o", text(&again)];
        assert!(cellpace(&args).output().unwrap().status.success());
        let page = fs::read_to_string(path(&format!("{side}.html"))).unwrap();
        assert_eq!(page, fs::read_to_string(&again).unwrap(), "{side}");
        assert!(page.contains("Congestion window") || side == "recv");
    }
}

#[test]
fn unreliable_flows_and_events() {
    let folder = tempfile::tempdir().unwrap();
    let (lines, qlog) = (folder.path().join("events.jsonl"), folder.path().join("events.sqlog"));
    for path in [&lines, &qlog] {
        let waiting = Waiting::recv(&["--once"]);
        let args =
            ["--unreliable", "--duration", "1500ms", "--cc", "verus", "--events", text(path)];
        let sent = send(&waiting.address, &args);
        assert!(sent.status.success(), "{}", said(&sent));
        assert!(waiting.end().0);
        let shown = String::from_utf8(sent.stdout).unwrap();
        assert!(shown.contains("Mbit/s") && shown.contains("in flight"), "{shown}");
    }
    let events: Vec<Value> = fs::read_to_string(&lines)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert!(events.iter().any(|event| event["event"] == "phase"), "{events:?}");
    assert!(events.iter().any(|event| event["event"] == "metrics"));
    assert!(events.iter().all(|event| event["time_s"].is_number() && event["cc"] == "verus"));
    let qlog = fs::read_to_string(&qlog).unwrap();
    let mut records = qlog.split('\u{1e}').skip(1);
    let header: Value = serde_json::from_str(records.next().unwrap()).unwrap();
    assert_eq!(header["serialization_format"], "application/qlog+json-seq");
    let names: Vec<String> = records
        .map(|record| serde_json::from_str::<Value>(record).unwrap())
        .map(|record| record["name"].as_str().unwrap().to_owned())
        .collect();
    assert!(names.iter().any(|name| name == "quic:recovery_metrics_updated"), "{names:?}");
}

#[test]
fn a_sender_that_is_asked_to_end_says_what_it_did() {
    for signal in ["-INT", "-TERM"] {
        let folder = tempfile::tempdir().unwrap();
        let (events, figures) = (folder.path().join("events"), folder.path().join("figures"));
        let waiting = Waiting::recv(&["--once"]);
        let outputs = ["--events", text(&events), "--json", text(&figures)];
        let args = [&["send", &waiting.address, "--cc", "verus", "--duration", "1h"], &outputs[..]];
        let sender = cellpace(&args.concat()).spawn().unwrap();
        std::thread::sleep(Duration::from_millis(1_500));
        let id = sender.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let output = cellpace_testing::finished(sender);
        let code = if signal == "-INT" { 130 } else { 143 };
        assert_eq!(output.status.code(), Some(code), "{signal}: {}", said(&output));
        assert!(waiting.end().0, "the other end got all that was sent");
        assert!(fs::read_to_string(&events).unwrap().contains("\"metrics\""));
        let figures: Value = serde_json::from_slice(&fs::read(&figures).unwrap()).unwrap();
        assert!(figures["flows"][0]["bytes"].as_u64().unwrap() > 0, "{figures}");
    }
}

#[test]
fn the_sender_waits_and_the_receiver_connects() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 500_000);
    let waiting = Waiting::start("send", &[text(&original), "--cc", "cubic"]);
    let args = ["recv", &waiting.address, "--output", text(&copy)];
    let received = cellpace(&args).output().unwrap();
    assert!(received.status.success(), "{}", said(&received));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
}

#[test]
fn the_receiver_connects_to_each_flow_of_a_sender_that_waits() {
    let folder = tempfile::tempdir().unwrap();
    let args = ["--cc", "cubic", "--cc", "verus", "--cc", "vegas", "--bytes", "200kB"];
    let waiting = Waiting::start("send", &args);
    let args = ["recv", &waiting.address, "--output", text(folder.path())];
    let received = cellpace(&args).output().unwrap();
    assert!(received.status.success(), "{}", said(&received));
    assert!(waiting.end().0);
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap());
    let sizes: Vec<u64> = files.map(|entry| entry.metadata().unwrap().len()).collect();
    assert_eq!(sizes, [200_000; 3]);
}

#[test]
fn a_receiver_that_starts_late_is_found() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 100_000);
    // A port that is free, and most likely still is in a moment.
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sender = cellpace(&["send", &address, text(&original), "--cc", "cubic"]).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(1_200));
    let args = ["recv", "--listen", &address, "--once", "--output", text(&copy)];
    let received = cellpace(&args).output().unwrap();
    assert!(received.status.success(), "{}", said(&received));
    assert!(cellpace_testing::finished(sender).status.success());
    assert_eq!(hash(&copy), expected);
}

#[test]
fn a_receiver_that_is_killed_ends_the_sender_with_an_error_and_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let copy = folder.path().join("copy");
    let mut waiting = Waiting::recv(&["--once", "--output", text(&copy)]);
    let args = ["send", &waiting.address, "--duration", "60s", "--cc", "cubic", "--timeout", "1s"];
    let sender = cellpace(&args).spawn().unwrap();
    std::thread::sleep(Duration::from_millis(700));
    let killed = Instant::now();
    waiting.child.kill().unwrap();
    let output = cellpace_testing::finished(sender);
    assert!(!output.status.success() && killed.elapsed() < Duration::from_secs(30));
    assert_eq!(output.status.code(), Some(1));
    assert!(
        said(&output).contains("nothing received from the other side for 1s"),
        "{}",
        said(&output)
    );
    assert!(!copy.exists());
}

#[test]
fn a_receiver_that_is_killed_leaves_nothing_of_what_it_was_receiving() {
    let folder = tempfile::tempdir().unwrap();
    let nameless =
        fs::OpenOptions::new().write(true).custom_flags(libc::O_TMPFILE).open(folder.path());
    if nameless.is_err() {
        cellpace_testing::skip("no nameless files on this file system");
        return;
    }
    for output in [folder.path().to_owned(), folder.path().join("copy")] {
        let mut waiting = Waiting::recv(&["--output", text(&output)]);
        let args = ["send", &waiting.address, "--duration", "60s", "--timeout", "1s"];
        let mut sender =
            cellpace(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut lines = BufReader::new(waiting.child.stdout.take().unwrap());
        let mut line = String::new();
        lines.read_line(&mut line).unwrap();
        assert!(line.contains("flow from"), "{line}");
        waiting.child.kill().unwrap();
        waiting.child.wait().unwrap();
        sender.kill().unwrap();
        sender.wait().unwrap();
        let left: Vec<_> =
            fs::read_dir(folder.path()).unwrap().map(|e| e.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}

/// Of root nothing but low ports and files of other users is left, and of anybody no way to more.
#[test]
fn listeners_give_up_what_they_do_not_need() {
    /// CAP_DAC_OVERRIDE and CAP_NET_BIND_SERVICE.
    const KEPT: u64 = 1 << 1 | 1 << 10;
    let folder = tempfile::tempdir().unwrap();
    let receiver = ["--output", text(folder.path())];
    let commands = [("recv", &receiver[..]), ("send", &["--bytes", "1MB"])];
    let transports = [&[][..], &["--quic"]];
    let cases = commands.iter().flat_map(|one| transports.map(|transport| (one, transport)));
    for ((command, args), transport) in cases {
        let waiting = Waiting::start(command, &[args, transport].concat());
        for thread in fs::read_dir(format!("/proc/{}/task", waiting.child.id())).unwrap() {
            let status = fs::read_to_string(thread.unwrap().path().join("status")).unwrap();
            let of = |name: &str| {
                let value = status.lines().find_map(|line| line.strip_prefix(name)).unwrap();
                u64::from_str_radix(value.trim(), 16).unwrap()
            };
            assert_eq!(of("NoNewPrivs:"), 1);
            assert_eq!((of("CapEff:") | of("CapPrm:") | of("CapInh:")) & !KEPT, 0, "{status}");
        }
    }
}

#[test]
fn a_second_receiver_replaces_nothing_of_the_first() {
    let folder = tempfile::tempdir().unwrap();
    let (original, files) = (folder.path().join("original"), folder.path().join("files"));
    fs::create_dir(&files).unwrap();
    fs::write(files.join("flow-0006"), "of long ago").unwrap();
    fs::write(files.join("flow-of-water"), "of somebody").unwrap();
    let mut hashes = Vec::new();
    for bytes in [1000, 2000] {
        hashes.push(content(&original, bytes));
        let waiting = Waiting::recv(&["--once", "--output", text(&files)]);
        let sent = send(&waiting.address, &[text(&original), "--cc", "cubic"]);
        assert!(sent.status.success() && waiting.end().0, "{}", said(&sent));
    }
    assert_eq!(fs::read_to_string(files.join("flow-0006")).unwrap(), "of long ago");
    assert_eq!(hash(&files.join("flow-0007")), hashes[0]);
    assert_eq!(hash(&files.join("flow-0008")), hashes[1]);
    assert_eq!(fs::read_dir(&files).unwrap().count(), 4);
}

#[test]
fn a_file_that_appears_meanwhile_is_not_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let waiting = Waiting::recv(&["--output", text(folder.path())]);
    fs::write(folder.path().join("flow-0001"), "of somebody else").unwrap();
    let sent = send(&waiting.address, &["--bytes", "1kB", "--cc", "cubic"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(said(&sent).contains("flow-0001: "), "{}", said(&sent));
    assert_eq!(fs::read_to_string(folder.path().join("flow-0001")).unwrap(), "of somebody else");
}

#[test]
fn nobody_there_is_an_error_in_bounded_time() {
    let address = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().to_string();
    let sent = send(&address, &["--bytes", "1MB", "--timeout", "600ms"]);
    assert_eq!(sent.status.code(), Some(1));
    let said = said(&sent);
    assert!(said.contains("no answer within 600ms: no program has that UDP port"), "{said}");
    // Its lines: what it waits for, and the error, once. There are no figures to show.
    assert_eq!(said.lines().count(), 2, "{said}");
    assert!(said.lines().next().unwrap().contains(&format!("{address}: no program")), "{said}");
    assert!(sent.stdout.is_empty(), "{}", String::from_utf8_lossy(&sent.stdout));
}

/// Without an answer from the network, the error has the time that was waited, in words.
#[test]
fn a_silent_address_is_named_with_the_time_that_was_waited() {
    let silent = UdpSocket::bind("127.0.0.1:0").unwrap();
    let address = silent.local_addr().unwrap().to_string();
    let sent = send(&address, &["--bytes", "1MB", "--timeout", "1500ms"]);
    let said = said(&sent);
    assert_eq!((sent.status.code(), said.lines().count()), (Some(1), 1), "{said}");
    assert!(said.contains("no answer within 1500ms: is `cellpace` waiting there"), "{said}");
    assert!(sent.stdout.is_empty());
}

/// `--timeout` is for a peer that falls silent: whoever waits for one waits as long as it runs.
#[test]
fn a_sender_that_waits_has_no_timeout_until_somebody_connects() {
    let waiting = Waiting::start("send", &["--bytes", "1kB", "--timeout", "500ms"]);
    std::thread::sleep(Duration::from_millis(1_500));
    let received = cellpace(&["recv", &waiting.address]).output().unwrap();
    assert!(received.status.success(), "{}", said(&received));
    assert!(waiting.end().0);
}

#[test]
fn a_full_disk_leaves_no_half_file_and_the_sender_hears_why() {
    let waiting = Waiting::recv(&["--once", "--output", "/dev/full"]);
    let sent = send(&waiting.address, &["--bytes", "1MB", "--cc", "cubic"]);
    assert_eq!(sent.status.code(), Some(1));
    assert!(said(&sent).contains("cannot write: No space left"), "{}", said(&sent));
    assert!(!waiting.end().0);
}

#[test]
fn a_small_file_system_leaves_no_half_file() {
    let folder = tempfile::tempdir().unwrap();
    let small = folder.path().join("small");
    fs::create_dir(&small).unwrap();
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", "size=1m", "none", text(&small)])
        .stderr(Stdio::null())
        .status();
    if !mounted.is_ok_and(|status| status.success()) {
        cellpace_testing::skip("mounting is not permitted");
        return;
    }
    let copy = small.join("copy");
    fs::write(&copy, "what was there").unwrap();
    let waiting = Waiting::recv(&["--once", "--output", text(&copy)]);
    let sent = send(&waiting.address, &["--bytes", "5MB", "--cc", "cubic"]);
    let ended = waiting.end();
    let names: Vec<_> = fs::read_dir(&small).unwrap().map(|e| e.unwrap().file_name()).collect();
    let left = fs::read_to_string(&copy).unwrap();
    Command::new("umount").arg(&small).status().unwrap();
    assert_eq!(sent.status.code(), Some(1));
    assert!(said(&sent).contains("No space left"), "{}", said(&sent));
    assert!(!ended.0);
    assert_eq!((names.len(), left.as_str()), (1, "what was there"));
}

#[test]
fn a_port_scan_of_fifty_thousand_packets_a_second() {
    let folder = tempfile::tempdir().unwrap();
    let (original, copy) = (folder.path().join("original"), folder.path().join("copy"));
    let expected = content(&original, 3_000_000);
    let waiting = Waiting::recv(&["--once", "--output", text(&copy)]);
    let scanner = UdpSocket::bind("127.0.0.1:0").unwrap();
    scanner.connect(&waiting.address).unwrap();
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let scan = std::thread::spawn(move || {
        let mut random = cellpace_base::Random::seeded(3, 3);
        let (mut count, began) = (0_u64, Instant::now());
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            // Fifty in each millisecond.
            while count < began.elapsed().as_millis() as u64 * 50 {
                let bytes: Vec<u8> = (0..random.below(200)).map(|_| random.bits() as u8).collect();
                let _ = scanner.send(&bytes);
                count += 1;
            }
            std::thread::sleep(Duration::from_micros(500));
        }
        count as f64 / began.elapsed().as_secs_f64()
    });
    let sent = send(&waiting.address, &[text(&original), "--cc", "fixed:cwnd=10pkts"]);
    stop.send(()).unwrap();
    println!("scanned at {:.0} packets/s", scan.join().unwrap());
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    assert_eq!(hash(&copy), expected);
}

#[test]
fn two_hundred_flows_at_once() {
    let folder = tempfile::tempdir().unwrap();
    // One address gets a quarter of them.
    let limits = ["--max-connections", "800"];
    let waiting =
        Waiting::recv(&[&["--once", "--output", text(folder.path())], &limits[..]].concat());
    let controllers = ["cubic", "verus", "vegas", "fixed:cwnd=4pkts"];
    let mut args = vec!["--bytes", "100kB", "--json", "-"];
    (0..200).for_each(|flow| args.extend(["--cc", controllers[flow % 4]]));
    let sent = send(&waiting.address, &args);
    assert!(sent.status.success(), "{}", said(&sent));
    assert!(waiting.end().0);
    let document: Value = serde_json::from_slice(&sent.stdout).unwrap();
    assert_eq!(document["flows"].as_array().unwrap().len(), 200);
    let mut hashes: Vec<_> = fs::read_dir(folder.path())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .map(|path| (fs::metadata(&path).unwrap().len(), hash(&path).to_string()))
        .collect();
    assert_eq!(hashes.len(), 200);
    hashes.dedup();
    assert_eq!(hashes.len(), 1, "the same made-up bytes in each");
    assert_eq!(hashes[0].0, 100_000);
}

#[test]
fn wrong_usage_is_told_apart_from_failure() {
    for (args, hint) in [
        (&["send"][..], "Write HOST"),
        (&["send", "127.0.0.1:9", "--cc", "cubik"], "did you mean `cubic`"),
        (&["send", "127.0.0.1:9", "--bytes", "5"], "unit"),
        (&["send", "127.0.0.1:9", "--mtu", "100"], "1280"),
        (&["send", "127.0.0.1:9", "file", "--unreliable"], "cannot be used with"),
        (&["send", "127.0.0.1:9", "file", "--cc", "bbr", "--cc", "cubic"], "one flow"),
        (&["recv", "--json", "-"], "--once"),
        (&["recv", "--report", "x.html"], "--once"),
        (&["recv", "127.0.0.1:9", "--once"], "cannot be used with"),
        (&["recv", "--listen", "99999"], "a port is a number from 0 to 65535"),
        (&["recv", "--listen", "127.0.0.1:65536"], "a port is a number from 0 to 65535"),
        (&["recv", "--timeout", "0s"], "from 500ms to 24h"),
        (&["recv", "--once", "--json", "/no/such/file"], "no such folder"),
        (&["recv", "--output", "/no/such/file"], "no such folder"),
        (&["send", "127.0.0.1:9", "--events", "/no/such/file"], "no such folder"),
        (&["recv", "no.such.host.invalid"], "\"no.such.host.invalid\" is not known here"),
        (&["send", "--listen", "-1"], "a port is a number from 0 to 65535"),
        (&["send", "127.0.0.1:0"], "port 0 is none to connect to"),
        (&["send", "127.0.0.1:99999"], "a port is a number from 0 to 65535"),
        (&["send", "127.0.0.1:9", "--bytes", "0B"], "nothing to send"),
        (&["send", "127.0.0.1:9", "--bytes", "-5MB"], "-5MB"),
        (&["send", "127.0.0.1:9", "--duration", "0s"], "nothing happens in no time"),
        (&["send", "127.0.0.1:9", "/"], "a folder"),
        (&["send", "127.0.0.1:9", "/no/such/file"], "/no/such/file"),
        (&["send", "127.0.0.1:9", "--key", "/no/such/key"], "/no/such/key"),
    ] {
        let output = cellpace(args).output().unwrap();
        assert_eq!(output.status.code(), Some(2), "{args:?}");
        assert!(said(&output).contains(hint), "{args:?}: {}", said(&output));
    }
}
