//! `cellpace sim`, run as users run it.

use crate::program;
use crate::program::{Folder, number, signal};

/// Three kinds of flows that come and go over a changing path.
const MIXED: &str = r#"
trace = "random:4mbit..12mbit/1s"
rtt = "20ms"
loss = "random:0%..1%/1s"
queue = "droptail:200kB"
duration = "6s"
skip = "1s"
seed = 3

[[flow]]
cc = "verus:r=2"
count = 2

[[flow]]
cc = "cubic"
start = "1s"
stop = "4s"
rtt = "60ms"

[[flow]]
cc = "copa"
onoff = { mean = "300kB", deviation = "100kB", max = "1MB", off = "200ms" }

[[flow]]
udp = "500kbit"
"#;

/// The line of a trace.
const CONSTANT: &str = "trace = \"constant:12mbit\"\n";

/// A scenario of one flow with these lines in front, over 12 Mbit/s unless they name a trace.
fn one_flow(lines: &str) -> Folder {
    let trace = if lines.contains("trace = ") { "" } else { CONSTANT };
    Folder::with("s.toml", format!("{trace}{lines}\n[[flow]]\ncc = \"fixed\"\n"))
}

#[test]
fn a_scenario_runs_with_all_its_flows() {
    let folder = Folder::with("mixed.toml", MIXED);
    let run = folder.first_run("sim mixed.toml");
    assert_eq!(run["flows"], 5);
    assert_eq!(run["seed"], 3);
    assert_eq!(run["trace"], "random:4mbit..12mbit/1s");
    assert_eq!(run["cc"], "2 x verus:r=2 + cubic + copa + udp:500kbit");
    let flows = run["per_flow"].as_array().unwrap();
    assert_eq!(flows[2]["start_s"], 1.0);
    assert_eq!(flows[2]["stop_s"], 4.0);
    for flow in flows {
        assert!(number(flow, "/throughput_mbps") > 0.0, "{flow}");
    }
    // What is sent at a constant rate arrives but for losses.
    let udp = number(&flows[4], "/throughput_mbps");
    assert!((0.3..0.55).contains(&udp), "{udp}");
    let utilization = number(&run, "/utilization");
    assert!((0.5..=1.001).contains(&utilization), "{utilization}");
}

#[test]
fn a_scenario_comes_from_standard_input() {
    let folder = Folder::with("mixed.toml", MIXED);
    let file = std::fs::File::open(folder.path("mixed.toml")).unwrap();
    let piped = folder.command(["sim", "-", "-q"]).stdin(file).output().unwrap();
    assert_eq!(String::from_utf8(piped.stdout).unwrap(), folder.good("sim mixed.toml"));
}

#[test]
fn the_same_scenario_gives_the_same_bytes() {
    let write = "--json r.json --report r.html";
    let runs = [(); 3].map(|()| {
        let folder = Folder::with("mixed.toml", MIXED);
        let table = folder.good(&format!("sim mixed.toml --repeat 3 {write}"));
        (table, folder.read("r.json"), folder.read("r.html"))
    });
    assert!(runs[0] == runs[1] && runs[1] == runs[2]);
    let folder = Folder::with("mixed.toml", MIXED);
    folder.good("sim mixed.toml --repeat 3 --seed 4 --json r.json");
    assert_ne!(folder.read("r.json"), runs[0].1);
}

#[test]
fn the_seed_of_the_command_line_takes_the_place_of_the_scenarios() {
    let folder = Folder::with("mixed.toml", MIXED);
    folder.write("other.toml", MIXED.replace("seed = 3", "seed = 9"));
    let runs = |args: &str| folder.json(args)["runs"].clone();
    assert_eq!(runs("sim mixed.toml --seed 9"), runs("sim other.toml"));
    let seeds = folder.json("sim mixed.toml --seed 18446744073709551615 --repeat 2");
    let seeds: Vec<u64> =
        seeds["runs"].as_array().unwrap().iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [u64::MAX, 0]);
}

#[test]
fn wrong_scenarios_are_answered_with_line_and_field() {
    let flow = "[[flow]]\ncc = \"fixed\"\n";
    let cases = [
        (format!("\nspeed = 3\n{flow}"), "s.toml:2: unknown field `speed`"),
        (format!("{flow}pace = 3\n"), "s.toml:3: unknown field `pace`"),
        (format!("{flow}onoff = {{ sise = \"3MB\" }}\n"), "s.toml:3: unknown field `sise`"),
        (
            format!("{flow}start = \"5s\"\nstop = \"3s\"\n"),
            "s.toml:4: stop: it stops (at 3s) before",
        ),
        (format!("trace = \"gone.down\"\n{flow}"), "s.toml:1: trace: there is no trace file `gone"),
        (format!("\n\nrtt = \"40\"\n{flow}"), "s.toml:3: rtt: `40` needs a unit"),
        (
            format!("queue = \"droptail:1kB\"\n{flow}"),
            "s.toml:1: queue: droptail: `1kB` is smaller",
        ),
        (format!("queue = \"codle\"\n{flow}"), "did you mean `codel`?"),
        (format!("uplink_loss = \"200%\"\n{flow}"), "s.toml:1: uplink_loss: "),
        (format!("loss = \"200%\"\n{flow}"), "s.toml:1: loss: "),
        (format!("duration = \"NaNs\"\n{flow}"), "s.toml:1: duration: "),
        (format!("duration = \"0s\"\n{flow}"), "s.toml:1: duration: the duration is 0 s"),
        (format!("duration = \"2s\"\n{flow}"), "s.toml:1: duration: skip (2s) leaves nothing"),
        (format!("duration = \"25h\"\n{flow}"), "s.toml:1: duration: the duration is 90000s"),
        (format!("bin = \"0s\"\n{flow}"), "s.toml:1: bin: bins are at least 1 ms wide"),
        (format!("seed = -1\n{flow}"), "s.toml:1: seed: "),
        (
            format!("rtt = 40\n{flow}"),
            "s.toml:1: rtt: 40 should have a unit and quotes: rtt = \"40ms\"",
        ),
        (format!("rtt = \"1ms\"\nrtt = \"2ms\"\n{flow}"), "s.toml:2: duplicate key"),
        ("[[flow]]\ncc = \"vreus\"\n".into(), "s.toml:2: cc: there is no controller `vreus`; did"),
        ("[[flow]]\ncc = \"verus:rr=2\"\n".into(), "did you mean `r`?"),
        ("[[flow]]\ncc = \"verus:r=NaN\"\n".into(), "s.toml:2: cc: "),
        ("[[flow]]\nudp = \"0mbit\"\n".into(), "a rate of 0 sends nothing"),
        ("[[flow]]\nrtt = \"1s\"\n".into(), "s.toml:1: flow: a flow has either"),
        (format!("{flow}count = 0\n"), "s.toml:3: count: 0 flows"),
        ("duration = \"3s\"\n".into(), "s.toml: there is no flow"),
        (String::new(), "s.toml: there is no flow"),
        ("rtt = \"40ms\n".into(), "s.toml:1: "),
        ("\0".into(), "s.toml:1: "),
    ];
    for (text, said) in cases {
        let folder = Folder::with("s.toml", &text);
        folder.run("sim s.toml").complains(2, said);
    }
}

#[test]
fn missing_unreadable_and_foreign_files_are_refused() {
    let folder = Folder::with("binary.toml", b"\xff\xfe\x00rtt");
    folder.refused("sim gone.toml", "there is no file `gone.toml`");
    folder.refused("sim .", ".: this is a folder, not a file");
    folder.refused("sim binary.toml", "binary.toml: not text: no scenario");
    folder.refused("sim gone/s.toml", "there is no file `gone/s.toml`");
}

/// Nothing a file can contain takes much memory or time before it is refused.
#[test]
fn absurd_scenarios_are_refused_at_once() {
    let flows = |count: usize| "[[flow]]\ncc = \"fixed\"\n".repeat(count);
    let nest = |part: &str| format!("a = {}", part.repeat(100_000));
    let cases = [
        (flows(1_000_000), "more than 1 MB are no scenario"),
        ("[[flow]]\ncc = \"fixed\"\ncount = 1000000\n".into(), "1 to 10000 in all"),
        (flows(10_001), "s.toml:20001: count: "),
        (nest("["), "s.toml:1: "),
        (nest("{a="), "s.toml:1: "),
        (format!("{}1 = 1\n", "a.".repeat(100_000)), "s.toml:1: "),
        (format!("[{}a]\n", "a.".repeat(100_000)), "s.toml:1: "),
        (format!("{} = 1\n", "a".repeat(1_000_000)), "s.toml:1: unknown field"),
        (format!("trace = \"{}\"\n", "a".repeat(1_000_000)), "s.toml:1: trace: "),
        (format!("[[flow]]\ncc = \"{}\"\n", "a".repeat(1_000_000)), "there is no controller"),
        (format!("[[flow]]\ncc = \"verus:{}=1\"\n", "a".repeat(1_000_000)), "no parameter"),
    ];
    for (text, said) in cases {
        let folder = Folder::with("s.toml", &text);
        let outcome = folder.run_in_little_memory("sim s.toml");
        assert!(outcome.stderr.len() < 1_500, "{} bytes", outcome.stderr.len());
        outcome.complains(2, said);
    }
}

#[cfg(unix)]
#[test]
fn large_files_and_endless_devices_are_not_read_to_the_end() {
    let folder = Folder::new();
    let large = std::fs::File::create(folder.path("large.toml")).unwrap();
    large.set_len(100 << 20).unwrap();
    for file in ["large.toml", "/dev/zero"] {
        let outcome = folder.run_in_little_memory(&format!("sim {file}"));
        outcome.complains(2, "more than 1 MB are no scenario");
    }
}

#[test]
fn odd_scenarios_run() {
    for lines in [
        "rtt = \"0s\"",
        "duration = \"1ns\"\nskip = \"0s\"",
        "trace = \"constant:1bit\"",
        "acks = \"delayed:40ms\"\nuplink = \"constant:10kbit\"",
        "queue = \"infinite\"",
        "skip = \"0s\"\nduration = \"1s\"\nbin = \"1s\"",
    ] {
        let folder = one_flow(lines);
        let run = folder.first_run("sim s.toml");
        let utilization = number(&run, "/utilization");
        assert!((0.0..=1.001).contains(&utilization), "{lines}: {run}");
    }
}

/// Many small files without pauses over a path without delay: time must still pass.
#[test]
fn the_shortest_on_and_off_times_come_to_an_end() {
    for rate in ["", ", rate = \"1000gbit\""] {
        let folder = Folder::with(
            "s.toml",
            format!(
                "{CONSTANT}rtt = \"0s\"\nduration = \"1s\"\nskip = \"0s\"\n[[flow]]\ncc = \"fixed\"\n\
                 onoff = {{ mean = \"1B\", deviation = \"0B\", max = \"1B\", off = \"0s\"{rate} }}\n"
            ),
        );
        assert!(number(&folder.first_run("sim s.toml"), "/packets") > 500.0, "{rate}");
    }
}

/// A run that would fill the memory fails instead, and says what to change.
#[test]
fn what_would_fill_the_memory_fails_with_advice() {
    let too_many = "packets are in flight or unanswered";
    for text in [
        "trace = \"constant:1mbit\"\nqueue = \"infinite\"\n[[flow]]\nudp = \"1000gbit\"\n",
        "trace = \"constant:12mbit\"\n[[flow]]\ncc = \"fixed:cwnd=1000000000pkts\"\n",
        "trace = \"constant:12mbit\"\nqueue = \"infinite\"\n[[flow]]\n\
         cc = \"fixed:cwnd=100000pkts\"\ncount = 10000\n",
        "trace = \"constant:12mbit\"\nrtt = \"1h\"\nduration = \"24h\"\n[[flow]]\nudp = \"1gbit\"\n",
    ] {
        let folder = Folder::with("s.toml", text);
        folder.run_in_little_memory("sim s.toml").complains(1, too_many);
    }
    let bins = one_flow("duration = \"24h\"\nbin = \"1ms\"");
    bins.run_in_little_memory("sim s.toml").complains(2, "take wider bins");
}

#[test]
fn files_larger_than_any_disk_take_no_memory() {
    let folder = Folder::with(
        "s.toml",
        "trace = \"constant:12mbit\"\nduration = \"5s\"\n[[flow]]\ncc = \"cubic\"\n\
         onoff = { mean = \"10000GB\", max = \"10000GB\", off = \"1s\" }\n",
    );
    let outcome = folder.run_in_little_memory("sim s.toml");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
}

#[test]
fn a_killed_run_leaves_old_files_alone_and_no_new_ones() {
    let endless = "trace = \"constant:100gbit\"\nduration = \"24h\"\nqueue = \"infinite\"";
    let folder = one_flow(endless);
    folder.write("old.json", "old");
    let args = "sim s.toml --json old.json --report new.html --log new.parquet";
    let mut child = folder.start(args);
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert!(child.try_wait().unwrap().is_none(), "the run is not long enough");
    signal(&child, "KILL");
    let outcome = program::ended(child);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (None, ""));
    assert_eq!(folder.read("old.json"), b"old");
    let visible: Vec<String> =
        folder.names().into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(visible, ["old.json", "s.toml"]);
}

#[test]
fn a_quic_library_shares_the_link_with_the_simulators_own_sender() {
    let flows = "[[flow]]\ncc = \"cubic\"\nstack = \"noq\"\n[[flow]]\nstack = \"quinn:cc=cubic\"\n\
                 [[flow]]\ncc = \"cubic\"\n";
    let path = "queue = \"droptail:80pkts\"\nduration = \"30s\"\n";
    let folder = Folder::with("s.toml", format!("{CONSTANT}{path}{flows}"));
    let run = folder.json("sim s.toml")["runs"][0].clone();
    let flows = run["per_flow"].as_array().unwrap();
    let names: Vec<_> = flows.iter().map(|flow| flow["cc"].as_str().unwrap()).collect();
    assert_eq!(names, ["cubic in noq", "quinn:cc=cubic", "cubic"]);
    let rates: Vec<f64> = flows.iter().map(|flow| number(flow, "/throughput_mbps")).collect();
    assert!((rates.iter().sum::<f64>() - 12.0).abs() < 0.2, "{rates:?}");
    assert!(rates.iter().all(|rate| *rate > 1.0), "{rates:?}");
}
