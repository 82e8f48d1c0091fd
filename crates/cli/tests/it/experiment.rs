//! Experiments on live traffic, as users run them.

use std::fs;
use std::io::Read;
use std::net::{Shutdown, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::Command;
use std::thread;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cellpace_experiment::{
    Assigner, ConnectionRecord, Experiment, ExperimentLine, ExperimentRecords, ExperimentResult,
};

use crate::kernel_native::sink;
use crate::program::{eventually, guinea::can_run};
use crate::proxy::{Running, echo, exchange, refused};

const PATIENCE: Duration = Duration::from_secs(60);

/// A folder with the file of an experiment, and the place of its log.
struct Files {
    _folder: tempfile::TempDir,
    toml: PathBuf,
    log: PathBuf,
}

impl Files {
    fn new(text: &str) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (toml, log) = (folder.path().join("e.toml"), folder.path().join("e.jsonl"));
        fs::write(&toml, text).unwrap();
        Self { _folder: folder, toml, log }
    }

    fn options(&self) -> [&str; 4] {
        let [toml, log] = [&self.toml, &self.log].map(|path| path.to_str().unwrap());
        ["--experiment", toml, "--experiment-log", log]
    }

    fn start(&self, target: &str) -> Running {
        let [one, toml, two, log] = self.options();
        Running::start(&["--to", target, "--driver", "gate", one, toml, two, log])
    }

    fn records(&self) -> ExperimentRecords {
        ExperimentRecords::read(&fs::read_to_string(&self.log).unwrap()).unwrap()
    }
}

fn text(fields: &str, more: &str) -> String {
    format!(
        "[experiment]\nname = \"copa\"\nsecret = \"0123456789abcdef\"\n{fields}\n[[arm]]\nname = \"reno\"\ntcp = \
         \"reno\"\n[[arm]]\nname = \"copa\"\ncc = \"copa\"\n{more}"
    )
}

#[test]
fn a_wrong_file_is_refused_with_its_line() {
    let cases = [
        (text("share = \"150%\"", ""), "line 4: share: "),
        (text("control = \"cubic\"", ""), "line 4: control: there is no arm `cubic`"),
        (text("", "[guard]\n"), "line 11: guard: it has no figure"),
        (text("", "[[arm]]\nname = \"x\"\ncc = \"verys\"\n"), "line 13: cc: "),
        (text("", "[[arm]]\nname = \"x\"\ncc = \"sprout\"\n"), "receiver half"),
        (text("", "[[arm]]\nname = \"x\"\ntcp = \"nothing\"\n"), "no congestion control `nothing`"),
    ];
    for (text, part) in cases {
        let files = Files::new(&text);
        let [one, toml, two, log] = files.options();
        let said = refused(&["--listen", "0", "--to", "127.0.0.1:9", one, toml, two, log]);
        assert!(said.contains("e.toml: ") && said.contains(part), "{text}\n{said}");
        assert!(!files.log.exists(), "{text}");
    }
    let files = Files::new(&text("", "[[arm]]\nname = \"pace\"\ncc = \"pace\"\n"));
    let [one, toml, two, log] = files.options();
    let proxy = ["--listen", "0", "--to", "127.0.0.1:9", one, toml];
    for (more, part) in [
        (&[][..], "--experiment-log"),
        (&[two, log, "--cc", "copa"], "--cc"),
        (&[two, log, "--share-of", "1%"], "--share-of"),
        (&[two, "-"], "--experiment-log"),
        (&[two, log, "--json", "-"], "its log has their figures"),
    ] {
        let said = refused(&[&proxy[..], more].concat());
        assert!(said.contains(part), "{more:?}\n{said}");
    }
}

#[test]
fn nothing_is_written_over_what_an_experiment_reads_or_writes() {
    let files = Files::new(&text("", ""));
    let [one, toml, two, log] = files.options();
    let config = files.log.with_extension("conf");
    fs::write(&config, "--to 127.0.0.1:9\n").unwrap();
    let (config, guard) = (config.to_str().unwrap(), format!("{log}.guard"));
    let proxy = ["--listen", "0", "--config", config, one, toml];
    for (more, part) in [
        (&[two, toml][..], "--experiment-log would replace"),
        (&[two, config], "--experiment-log would replace"),
        (&[two, log, "--json", toml], "--json would replace"),
        (&[two, log, "--report", log], "--report and --experiment-log both write"),
        (
            &[two, log, "--json", &guard],
            "--json and the state of the experiment's guard both write",
        ),
    ] {
        let said = refused(&[&proxy[..], more].concat());
        assert!(said.contains(part), "{more:?}\n{said}");
    }
    assert_eq!(fs::read_to_string(toml).unwrap(), text("", ""));
    assert!(!files.log.exists());
}

#[test]
fn connections_of_all_arms_are_measured_alike() {
    let files = Files::new(&text("assign = \"connection\"", "[[arm]]\nname = \"plain\"\n"));
    let running = files.start(&echo().to_string());
    for _ in 0..40 {
        let mut stream = running.connect();
        for _ in 0..3 {
            exchange(&mut stream);
        }
        stream.shutdown(Shutdown::Write).unwrap();
        stream.read_to_end(&mut Vec::new()).unwrap();
    }
    let count = || fs::read_to_string(&files.log).unwrap().lines().count();
    eventually("all are written", || count() == 41);
    running.signal("TERM");
    assert_eq!(running.code(), Some(0));
    let records = files.records();
    assert_eq!(records.name, "copa");
    for (arm, driver) in [("reno", "plain"), ("copa", "gate"), ("plain", "plain")] {
        for record in of_arm(&records, arm) {
            assert_eq!((record.driver.as_str(), record.outcome.as_str()), (driver, "finished"));
            assert_eq!((record.acked_bytes, record.received_bytes), (12, 12), "{record:?}");
            assert_eq!((record.tcp_sent_bytes, record.retransmitted_bytes), (12, 0), "{record:?}");
            assert!(record.counts() && record.client.len() == 16, "{record:?}");
            // Of loopback, which takes less time than the kernel's clock can tell.
            assert!(record.goodput_mbps.is_none_or(|mbps| mbps < 1.0), "{record:?}");
            assert!(record.first_byte_ms.is_some_and(|ms| ms < 10_000.0), "{record:?}");
            let (min, p95) = (record.min_rtt_ms.unwrap(), record.rtt_p95_ms.unwrap());
            assert!(0.0 < min && min <= p95 && p95 < 1000.0, "{record:?}");
        }
    }
    // A second run appends, and says again how connections are assigned.
    let running = files.start(&echo().to_string());
    running.signal("TERM");
    assert_eq!(running.code(), Some(0));
    assert_eq!(count(), 42);
    assert_eq!(files.records().connections, records.connections);
    the_report_says_what_the_log_has(&files);
}

/// Records of an arm, which has some of the forty connections.
fn of_arm<'a>(records: &'a ExperimentRecords, arm: &str) -> Vec<&'a ConnectionRecord> {
    let of_arm: Vec<_> = records.connections.iter().filter(|record| record.arm == arm).collect();
    assert!((1..40).contains(&of_arm.len()), "{arm}: {}", of_arm.len());
    of_arm
}

/// Connections that a program opens, each of ten kilobytes, by `cellpace run` with these options.
fn run(options: &[&str], connections: usize) -> (Option<i32>, String) {
    let send = format!(
        "for i in $(seq {connections}); do head -c 10000 /dev/zero >/dev/tcp/127.0.0.1/{}; done",
        sink().port()
    );
    cellpace(&[&["run", "--quiet", "--out", "all"], options, &["--", "bash", "-c", &send]].concat())
}

#[test]
fn connections_of_a_program_are_recorded_by_their_arms() {
    if !can_run() {
        return;
    }
    let files = Files::new(&text("assign = \"connection\"", "[[arm]]\nname = \"plain\"\n"));
    let options = [&["--driver", "gate"][..], &files.options()].concat();
    assert_eq!(run(&options, 40), (Some(0), String::new()));
    let records = files.records();
    assert_eq!(records.connections.len(), 40);
    for (arm, driver) in [("reno", "plain"), ("copa", "gate"), ("plain", "plain")] {
        for record in of_arm(&records, arm) {
            assert_eq!((record.driver.as_str(), record.outcome.as_str()), (driver, "finished"));
            assert_eq!((record.acked_bytes, record.tcp_sent_bytes), (10_000, 10_000), "{record:?}");
            assert!(record.counts() && record.client.len() == 16, "{record:?}");
            assert!(record.goodput_mbps.is_none_or(|mbps| mbps < 10.0), "{record:?}");
            let (min, p95) = (record.min_rtt_ms.unwrap(), record.rtt_p95_ms.unwrap());
            assert!(0.0 < min && min <= p95 && p95 < 1000.0, "{record:?}");
        }
    }
    assert!(files.log.with_extension("jsonl.guard").exists());
    let shared = ["--driver", "gate", "--share-of", "25%", "--json", "-"];
    let (code, text) = run(&shared, 40);
    assert!(code == Some(0) && (9..=11).contains(&text.lines().count()), "{text}");
}

#[test]
fn a_guard_that_cannot_look_and_a_log_of_another_experiment_are_refused() {
    let files = Files::new(&text("", "[guard]\nfirst_byte_p50 = \"10 % worse\"\n"));
    let (code, said) = run(&files.options(), 1);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("e.toml: guard: first_byte_p50: only `cellpace proxy`"), "{said}");
    assert!(!files.log.exists());
    let files = Files::new(&text("", ""));
    let guard = files.log.with_extension("jsonl.guard");
    let other = r#"{"experiment":"another","described":[],"looks":[],"looked":null,"arms":{},"fired":null}"#;
    fs::write(&guard, other).unwrap();
    let (code, said) = run(&files.options(), 1);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("of the experiment `another`: name another log"), "{said}");
    assert_eq!(fs::read_to_string(&guard).unwrap(), other);
}

#[test]
fn a_connection_of_a_program_that_is_reset_counts_as_an_error() {
    if !can_run() {
        return;
    }
    let files = Files::new(&text("assign = \"connection\"", ""));
    // Who closes with something unread resets.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        listener.incoming().for_each(|stream| {
            let mut stream = stream.unwrap();
            stream.read_exact(&mut [0]).unwrap();
        });
    });
    let send =
        format!("for i in 1 2 3 4 5 6; do cat /dev/zero >/dev/tcp/127.0.0.1/{port}; done; true");
    let options = files.options();
    let before = ["run", "--quiet", "--out", "all", "--driver", "gate"];
    let (code, _) = cellpace(&[&before[..], &options, &["--", "bash", "-c", &send]].concat());
    assert_eq!(code, Some(0));
    let records = files.records().connections;
    assert_eq!(records.len(), 6);
    assert!(records.iter().all(ConnectionRecord::is_error), "{records:?}");
}

/// Runs `cellpace`, and returns its code and what it prints.
fn cellpace(args: &[&str]) -> (Option<i32>, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_cellpace")).args(args).output().unwrap();
    let text = [output.stdout, output.stderr].concat();
    (output.status.code(), String::from_utf8(text).unwrap())
}

fn the_report_says_what_the_log_has(files: &Files) {
    let log = files.log.to_str().unwrap();
    let page = files.log.with_extension("html");
    let page = page.to_str().unwrap();
    let (code, json) = cellpace(&["report", log, "--json", "-", "-o", page]);
    assert_eq!(code, Some(0), "{json}");
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    let records = files.records();
    for (arm, name) in ["reno", "copa", "plain"].into_iter().enumerate() {
        let count = records.connections.iter().filter(|record| record.arm == name).count();
        assert_eq!(result["arms"][arm]["connections"], count, "{json}");
    }
    let compared = &result["comparisons"][0]["groups"][0]["figures"];
    let rtt = compared.as_array().unwrap().iter().find(|one| one["figure"] == "rtt_p50");
    let difference = rtt.unwrap()["difference"]["value"].as_f64().unwrap();
    let value = |arm: &str| rtt.unwrap()[arm]["value"].as_f64().unwrap();
    assert!((value("arm") - value("control") - difference).abs() < 1e-9);
    let (_, text) = cellpace(&["report", log, "--text"]);
    assert!(text.contains("copa instead of reno: p95 of the queue delay"), "{text}");
    assert!(text.contains("It cannot tell what all would gain"), "{text}");
    assert!(fs::read_to_string(page).unwrap().contains("Arms drawn for"));

    let (code, said) = cellpace(&["experiment", "plan", log]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("8 or more say how slots differ"), "{said}");
    let broken = format!("{}nonsense", fs::read_to_string(log).unwrap());
    fs::write(log, broken).unwrap();
    let (code, said) = cellpace(&["report", log, "--text"]);
    assert_eq!(code, Some(2), "{said}");
    assert!(said.contains("e.jsonl"), "{said}");
}

/// Throughput in Mbit/s of 20 flows on one link, of which the first ones are under BBR and the others
/// under CUBIC.
fn shared_link(bbr: usize, seed: u64) -> Vec<f64> {
    let folder = tempfile::tempdir().unwrap();
    let scenario = folder.path().join("s.toml");
    let flows = |cc: &str, count: usize| match count {
        0 => String::new(),
        _ => format!("[[flow]]\ncc = \"{cc}\"\ncount = {count}\nstagger = \"uniform:0s..1s\"\n"),
    };
    let path = "trace = \"constant:100mbit\"\nrtt = \"40ms\"\nqueue = \"droptail:3bdp\"\n";
    let text = format!(
        "{path}duration = \"30s\"\nskip = \"10s\"\nseed = {seed}\n{}{}",
        flows("bbr", bbr),
        flows("cubic", 20 - bbr)
    );
    fs::write(&scenario, text).unwrap();
    let (code, json) = cellpace(&["sim", scenario.to_str().unwrap(), "--json", "-"]);
    assert_eq!(code, Some(0), "{json}");
    let result: serde_json::Value = serde_json::from_str(&json).unwrap();
    let flows = result["runs"][0]["per_flow"].as_array().unwrap();
    flows.iter().map(|flow| flow["throughput_mbps"].as_f64().unwrap()).collect()
}

#[test]
fn arms_drawn_per_connection_mistake_the_sign_and_slots_of_time_do_not() {
    let mean = |flows: &[f64]| flows.iter().sum::<f64>() / flows.len() as f64;
    // "Unbiased Experiments in Congested Networks", IMC 2021: the share decides what seems to be better.
    let naive = |bbr: usize| {
        let flows = shared_link(bbr, 1);
        mean(&flows[..bbr]) / mean(&flows[bbr..]) - 1.0
    };
    let (few, most) = (naive(1), naive(19));
    assert!(few > 1.0 && most < -0.5, "5 %: {few:+.2}, 95 %: {most:+.2}");

    let experiment = Experiment::read(&text("", ""), |_| Ok(())).unwrap();
    let mut records = ExperimentRecords::of(vec![ExperimentLine::start(&experiment)]).unwrap();
    let mut sums = [0.0, 0.0];
    for slot in 0..12 {
        let arm = slot % 2;
        for mbps in shared_link(20 * arm, 100 + slot as u64) {
            sums[arm] += mbps;
            records.connections.push(ConnectionRecord {
                arm: ["reno", "copa"][arm].to_owned(),
                slot: slot as u64,
                goodput_mbps: Some(mbps),
                ..ConnectionRecord::default()
            });
        }
    }
    let truth = sums[1] / sums[0] - 1.0;
    assert!(truth.abs() < 0.03, "both fill the link: {truth:+.3}");
    let result = ExperimentResult::of(&records);
    let figures = &result.comparisons[0].groups[0].figures;
    let goodput = figures.iter().find(|figure| figure.figure == "goodput_p50").unwrap();
    let estimate = goodput.relative.unwrap();
    assert!(estimate.value.abs() < 15.0 && estimate.interval.is_some(), "{estimate:?}");
}

#[test]
fn what_crosses_the_border_of_a_slot_is_marked() {
    let files = Files::new(&text("slot = \"1s\"", ""));
    let running = files.start(&echo().to_string());
    let mut stream = running.connect();
    exchange(&mut stream);
    let begun = Instant::now();
    eventually("a second has passed", || begun.elapsed() > Duration::from_millis(1100));
    exchange(&mut stream);
    drop(stream);
    eventually("it is written", || files.log.exists() && files.records().connections.len() == 1);
    let record = files.records().connections.remove(0);
    assert!(record.crossed && !record.counts() && record.duration_s > 1.1, "{record:?}");
}

#[test]
fn the_processor_time_of_each_slot_is_recorded_with_its_arm() {
    let text = text("slot = \"1s\"", "");
    let files = Files::new(&text);
    let assigner = Assigner::new(Experiment::read(&text, |_| Ok(())).unwrap());
    let running = files.start(&echo().to_string());
    let begun = Instant::now();
    let slots = || fs::read_to_string(&files.log).unwrap().matches("\"kind\":\"slot\"").count();
    while slots() < 3 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", fs::read_to_string(&files.log));
        exchange(&mut running.connect());
    }
    running.signal("TERM");
    running.code();
    let records = files.records();
    for slot in &records.slots {
        assert_eq!(
            slot.arm,
            assigner.experiment().arms[assigner.arm_of_slot(slot.slot).unwrap()].name
        );
        // A process has few threads that work.
        assert!(0.0 < slot.processor_s && slot.processor_s < 4.0, "{slot:?}");
    }
    let first = records.connections.iter().map(|record| record.slot).min().unwrap();
    assert!(records.slots.iter().all(|slot| slot.slot > first), "the first was not whole");
}

/// Resets a connection, and waits until the proxy knows.
fn reset(mut stream: TcpStream) {
    exchange(&mut stream);
    let socket = rustix::net::sockopt::set_socket_linger(&stream, Some(Duration::ZERO));
    socket.unwrap();
}

#[test]
fn a_guard_that_fires_is_final_until_its_state_is_removed() {
    let table = "[guard]\nerrors = \"20 points worse\"\n";
    let text = text("slot = \"1s\"", table);
    let files = Files::new(&text);
    let assigner = Assigner::new(Experiment::read(&text, |_| Ok(())).unwrap());
    let target = echo().to_string();
    let running = files.start(&target);
    // Clients of the second arm give up in the middle; the test knows the arms as another host would.
    let ended = "the guard ends the experiment: `copa`: connections reset ";
    let begun = Instant::now();
    while !running.has_said(ended) {
        assert!(begun.elapsed() < PATIENCE, "{:?}", fs::read_to_string(&files.log));
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        let mut stream = running.connect();
        match assigner.assign(now, running.address.ip(), b"").arm {
            Some(1) => reset(stream),
            _ => exchange(&mut stream),
        }
        thread::sleep(Duration::from_millis(50));
    }
    running.signal("TERM");
    running.code();
    let records = files.records();
    let last = records.looks.last().unwrap();
    // One that came at the border of a slot may have had the other arm.
    assert!(last.fired && last.arm == "copa" && last.worse > 90.0, "{last:?}");
    assert!(records.looks.iter().rev().skip(1).all(|look| !look.fired));

    let count = records.connections.len();
    let running = files.start(&target);
    running.await_line("was ended by its guard (`copa`: connections reset ");
    exchange(&mut running.connect());
    running.signal("TERM");
    running.code();
    assert_eq!(files.records().connections.len(), count, "nothing is recorded any more");

    fs::remove_file(files.log.with_extension("jsonl.guard")).unwrap();
    let running = files.start(&target);
    drop({
        let mut stream = running.connect();
        exchange(&mut stream);
        stream
    });
    eventually("it is recorded again", || files.records().connections.len() > count);
}

#[test]
fn a_share_of_connections_is_under_the_controller() {
    let folder = tempfile::tempdir().unwrap();
    let json = folder.path().join("c.jsonl");
    let target = echo().to_string();
    let args = ["--to", &target, "--driver", "gate", "--share-of", "25%", "--json"];
    let running = Running::start(&[&args[..], &[json.to_str().unwrap()]].concat());
    for _ in 0..40 {
        exchange(&mut running.connect());
    }
    running.signal("TERM");
    running.code();
    let controlled = fs::read_to_string(&json).unwrap().lines().count();
    assert!((9..=11).contains(&controlled), "{controlled} of 40");
}
