//! `cellpace compare`, run as users run it.

use std::fs;
use std::time::{Duration, Instant};

use crate::program;
use crate::program::{Folder, keys, number, signal};
use serde_json::Value;

/// Opportunities every millisecond for four seconds, but for one second without: 12 Mbit/s and
/// an outage.
fn handmade() -> String {
    (1..=4000).filter(|ms| !(2001..3000).contains(ms)).map(|ms| format!("{ms}\n")).collect()
}

/// A path on which everything changes and is drawn at random.
const RESTLESS: &str = "--trace random:2mbit..20mbit/1s --trace lte-driving \
    --rtt random:10ms..100ms/5s --loss step:0%/1s,1%/1s --duration 4s --skip 1s";

fn runs(results: &Value) -> &Vec<Value> {
    results["runs"].as_array().unwrap()
}

#[test]
fn a_handmade_trace_gives_the_figures_that_can_be_worked_out() {
    let folder = Folder::with("outage.down", handmade());
    fs::create_dir(folder.path("deep")).unwrap();
    fs::rename(folder.path("outage.down"), folder.path("deep/outage.down")).unwrap();
    let args = "compare --trace deep/outage.down --cc fixed:cwnd=20pkts --skip 0s";
    let run = folder.first_run(args);
    assert_eq!(run["trace"], "outage.down");
    assert_eq!(run["duration_s"], 4.0, "the trace's length");
    // 3001 opportunities in 4 s.
    assert_eq!(number(&run, "/capacity_mbps"), 9.003);
    // 20 packets per round of 40 ms and the packet's own millisecond, in 3 of 4 seconds.
    let throughput = number(&run, "/throughput_mbps");
    assert!((4.3..4.5).contains(&throughput), "{throughput}");
    // Packets that were on their way when the outage began wait it out.
    let longest = number(&run, "/queue_delay_ms/max");
    assert!((960.0..=1000.0).contains(&longest), "{longest}");
    assert!(number(&run, "/queue_delay_ms/p50") <= 2.0);
    assert_eq!(run["lost"], 0);
}

#[test]
fn json_has_the_promised_fields_and_nothing_else_is_printed() {
    let results = Folder::new().json("compare --trace constant:12mbit --cc cubic --duration 3s");
    assert_eq!(results["schema"], "cellpace.compare/1");
    let run = &runs(&results)[0];
    let promised = [
        "capacity_mbps",
        "cc",
        "duration_s",
        "flows",
        "jain",
        "jain_seconds",
        "loss",
        "lost",
        "one_way_delay_ms",
        "packets",
        "per_flow",
        "queue",
        "queue_delay_ms",
        "rtt_ms",
        "rtt_ms_seen",
        "seed",
        "series",
        "skip_s",
        "throughput_mbps",
        "trace",
        "utilization",
        "wall_s",
    ];
    assert_eq!(keys(run), promised);
    for delay in ["queue_delay_ms", "one_way_delay_ms", "rtt_ms_seen"] {
        assert_eq!(keys(&run[delay]), ["max", "mean", "p50", "p95", "p99"]);
    }
    let flow = keys(&run["per_flow"][0]);
    for key in ["throughput_mbps", "queue_delay_ms", "start_s", "stop_s"] {
        assert!(flow.contains(&key), "{flow:?}");
    }
    let said = (&run["cc"], &run["trace"], &run["queue"], &run["rtt_ms"], &run["skip_s"]);
    let expected = ["cubic".into(), "constant:12mbit".into(), "droptail:2MB".into()];
    assert_eq!((said.0, said.1, said.2), (&expected[0], &expected[1], &expected[2]));
    assert_eq!((said.3.as_f64(), said.4.as_f64()), (Some(40.0), Some(2.0)));
    assert_eq!(number(run, "/one_way_delay_ms/max") - number(run, "/queue_delay_ms/max"), 20.0);
    let ratio = number(run, "/throughput_mbps") / number(run, "/capacity_mbps");
    assert!((ratio - number(run, "/utilization")).abs() < 1e-3);
    assert_eq!(run["wall_s"], Value::Null, "wall time would differ from call to call");
}

#[test]
fn the_same_command_gives_the_same_bytes_whatever_the_number_of_jobs() {
    let write = "--json r.json --report r.html";
    let all = |more: &str| {
        let folder = Folder::new();
        let ccs = "--cc verus:r=2 --cc cubic --cc bbr --repeat 2";
        let table = folder.good(&format!("compare {RESTLESS} {ccs} {write} {more}"));
        (table, folder.read("r.json"), folder.read("r.html"))
    };
    let one = all("--jobs 1");
    assert!(one == all("--jobs 4") && one == all(""));
    let other = all("--seed 2");
    assert!(one.0 != other.0 && one.1 != other.1 && one.2 != other.2);
}

#[test]
fn the_packet_log_is_the_same_every_time() {
    let log = |more: &str| {
        let folder = Folder::new();
        folder.good(&format!("compare {RESTLESS} --cc copa --cc cubic --log p.parquet {more}"));
        assert_eq!(folder.names(), ["p.parquet"]);
        folder.read("p.parquet")
    };
    let one = log("");
    assert_eq!((&one[..4], &one[one.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    assert!(one == log("--jobs 4"));
    assert!(one != log("--seed 2"));
}

#[test]
fn the_log_of_transfers_is_a_table_and_said_to_be_there() {
    let folder = Folder::new();
    let run =
        "--trace radio:highway-700 --cc copa --cc cubic --duration 20s --transfer 100kB,gap=5s";
    let said = folder.good(&format!("compare {run} --transfers t.parquet --json r.json"));
    assert!(said.contains("transfers: t.parquet"), "{said}");
    let one = folder.read("t.parquet");
    assert_eq!((&one[..4], &one[one.len() - 4..]), (&b"PAR1"[..], &b"PAR1"[..]));
    let results: Value = serde_json::from_slice(&folder.read("r.json")).unwrap();
    let transfer = &runs(&results)[0]["transfers"][0];
    assert!(transfer["mean_sinr_db"].is_f64() && transfer["cells"].as_u64() >= Some(1));
    folder.good(&format!("compare {run} --transfers t.parquet"));
    assert!(one == folder.read("t.parquet"), "the same every time");
    let outcome = folder.run(&format!("compare {run} --transfers gone/t.parquet"));
    assert_eq!(outcome.code, Some(2), "{}", outcome.stderr);
}

#[test]
fn what_controllers_decide_is_written_run_by_run() {
    let folder = Folder::new();
    let command = "compare --trace lte-driving --cc verus --cc cubic --duration 10s --flows 2";
    let written = |file: &str| {
        folder.good(&format!("{command} --jobs 2 --events {file}"));
        fs::read_to_string(folder.path(file)).unwrap()
    };
    let text = written("e.jsonl");
    assert_eq!(text, written("again.jsonl"));
    let lines: Vec<Value> = text.lines().map(|l| serde_json::from_str(l).unwrap()).collect();
    let of = |run: u32, event: &str| {
        let is_it = |line: &&Value| line["run"] == run && line["event"] == event;
        lines.iter().filter(is_it).collect::<Vec<_>>()
    };
    assert_eq!(of(0, "run")[0]["trace"], "lte-driving");
    for (run, cc) in [(0, "verus"), (1, "cubic")] {
        assert!(lines.iter().filter(|line| line["run"] == run).all(|line| line["cc"] == cc));
        assert!(!of(run, "phase").is_empty());
        let states = of(run, "metrics");
        assert!((18..=20).contains(&states.len()), "each second of each flow: {}", states.len());
        assert!(states.iter().any(|state| state["flow"] == 1 && state["in_flight"] != 0));
        assert!(states.iter().all(|state| state["values"]["cwnd_pkts"].is_number()));
    }
    let times = lines.iter().filter(|line| line["run"] == 1);
    assert!(times.map(|line| line["time_s"].as_f64().unwrap()).is_sorted());

    let qlog = written("e.sqlog");
    let records = qlog.split('\u{1e}').skip(1);
    let records: Vec<Value> = records.map(|text| serde_json::from_str(text).unwrap()).collect();
    assert_eq!(records[0]["trace"]["title"], "verus cubic");
    assert_eq!(records.len(), lines.len() + 1);
    let names = |name: &str| records.iter().filter(|record| record["name"] == name).count();
    assert!(names("quic:recovery_metrics_updated") >= 36 && names("cellpace:run") == 2);
    assert!(records.iter().any(|record| record["group_id"] == "1.1"));
}

#[test]
fn repeats_run_with_the_seeds_that_follow_and_give_intervals() {
    let folder = Folder::with("t.down", "3\n5\n9\n11\n20\n");
    let args = "compare --trace t.down --trace constant:2mbit --cc cubic --cc vegas --loss 1% \
                --duration 5s --repeat 3 --seed 7";
    let results = folder.json(args);
    let seeds: Vec<u64> = runs(&results).iter().map(|run| run["seed"].as_u64().unwrap()).collect();
    assert_eq!(seeds, [7, 8, 9].repeat(4));
    let repeated = results["repeated"].as_array().unwrap();
    let names: Vec<String> = repeated
        .iter()
        .map(|cell| format!("{} {}", cell["cc"], cell["trace"]).replace('"', ""))
        .collect();
    assert_eq!(
        names,
        ["cubic t.down", "vegas t.down", "cubic constant:2mbit", "vegas constant:2mbit"]
    );
    for (cell, three) in repeated.iter().zip(runs(&results).chunks(3)) {
        let mean = three.iter().map(|run| number(run, "/throughput_mbps")).sum::<f64>() / 3.0;
        assert!((number(cell, "/throughput_mbps/mean") - mean).abs() < 1e-3, "{cell}");
        assert_eq!(cell["throughput_mbps"]["runs"], 3);
        assert!(number(cell, "/queue_delay_mean_ms/half_width") > 0.0, "seeds differ: {cell}");
    }
    let table = folder.good(args);
    assert!(table.contains('±') && table.contains("t.down") && table.contains("constant:2mbit"));
}

#[test]
fn traces_of_the_same_name_in_two_folders_stay_apart() {
    let folder = Folder::new();
    for (name, text) in [("a", "10\n"), ("b", "5\n10\n")] {
        fs::create_dir(folder.path(name)).unwrap();
        folder.write(&format!("{name}/x.down"), text);
    }
    let args = "compare --trace a/x.down --trace b/x.down --cc fixed --duration 5s";
    let results = folder.json(args);
    let traces: Vec<_> = runs(&results).iter().map(|run| run["trace"].as_str().unwrap()).collect();
    assert_eq!(traces, ["a/x.down", "b/x.down"]);
    assert!(results.get("repeated").is_none(), "{results}");
}

/// The slashes of generated traces part no folders.
#[test]
fn generated_traces_are_shown_whole() {
    let folder = Folder::new();
    let args = "compare --trace step:1mbit/1s,2mbit/1s --trace step:2mbit/1s,1mbit/1s --cc fixed \
                --duration 3s --json r.json --report r.html";
    let table = folder.good(args);
    for trace in ["step:1mbit/1s,2mbit/1s", "step:2mbit/1s,1mbit/1s"] {
        assert!(table.contains(trace), "{table}");
    }
    assert_eq!(folder.names(), ["r.html", "r.json"]);
}

#[test]
fn flows_share_the_link() {
    let args = "compare --trace constant:12mbit --cc cubic --duration 20s --flows 4";
    let run = Folder::new().first_run(args);
    let flows = run["per_flow"].as_array().unwrap();
    assert_eq!((run["flows"].as_u64(), flows.len()), (Some(4), 4));
    let sum: f64 = flows.iter().map(|flow| number(flow, "/throughput_mbps")).sum();
    assert!((sum - number(&run, "/throughput_mbps")).abs() < 0.01, "{sum}");
    let jain = number(&run, "/jain");
    assert!((0.5..=1.0).contains(&jain), "{jain}");
    let table = Folder::new().good(args);
    assert!(table.contains("Jain"), "{table}");
}

#[test]
fn every_controller_makes_sane_use_of_a_constant_link() {
    let folder = Folder::new();
    let listed = folder.good("cc");
    let (listed, _) = listed.split_once("\n\n").unwrap();
    // Policies and modules are nothing without their files.
    let names = listed.lines().map(|line| line.split(' ').next().unwrap());
    let names: Vec<&str> = names.filter(|name| !["policy", "plugin"].contains(name)).collect();
    let ccs: String = names.iter().map(|name| format!(" --cc {name}")).collect();
    let results = folder.json(&format!("compare --trace constant:12mbit --duration 15s{ccs}"));
    assert_eq!(runs(&results).len(), names.len());
    for run in runs(&results) {
        // 20 packets of 40 ms fill half of it, and GCC, which begins at 300 kbit/s, grows by 8 % a second after its probes;
        // all others are made to fill the whole.
        let least = match run["cc"].as_str() {
            Some("fixed") => 0.45,
            Some("gcc") => 0.2,
            _ => 0.85,
        };
        let utilization = number(run, "/utilization");
        assert!((least..=1.0).contains(&utilization), "{run}");
        let (p50, p95) = (number(run, "/queue_delay_ms/p50"), number(run, "/queue_delay_ms/p95"));
        assert!(0.0 < p50 && p50 <= p95, "{run}");
    }
}

#[test]
fn every_option_of_the_path_does_something() {
    let folder = Folder::with("up.trace", "20\n40\n");
    let base = "compare --cc cubic --duration 6s --trace constant:6mbit";
    let plain = folder.json(base);
    for option in [
        "--uplink up.trace",
        "--uplink constant:20kbit",
        "--acks delayed:40ms",
        "--rtt 0ms",
        "--rtt 41ms",
        "--rtt step:10ms/1s,100ms/1s",
        "--rtt random:10ms..100ms/5s",
        "--loss 1%",
        "--loss ge:p=1%,r=30%",
        "--uplink-loss 20%",
        "--loss random:0%..1%/5s",
        "--queue droptail:30pkts",
        "--queue drophead:100kB",
        "--queue red:min=30kB,max=90kB,p=0.1",
        "--queue codel",
        "--queue pie",
        "--queue fq_codel",
        "--handover 3s/500ms/120ms/lost --handover 4s",
        "--skip 1s",
        "--flows 2",
    ] {
        let changed = folder.json(&format!("{base} {option}"));
        assert_ne!(changed["runs"][0]["rtt_ms_seen"], plain["runs"][0]["rtt_ms_seen"], "{option}");
        let utilization = number(&changed, "/runs/0/utilization");
        assert!((0.01..=1.001).contains(&utilization), "{option}: {utilization}");
    }
    // What never fills does not matter; what is said of it does.
    let infinite = folder.first_run(&format!("{base} --queue infinite"));
    assert_eq!(infinite["queue"], "infinite");
    assert_eq!(infinite["packets"], plain["runs"][0]["packets"]);
}

#[test]
fn changes_of_rate_delay_and_loss_go_together() {
    let args =
        format!("compare {RESTLESS} --cc verus --cc cubic --flows 2 --uplink constant:1mbit");
    let results = Folder::new().json(&args);
    assert_eq!(runs(&results).len(), 4);
    for run in runs(&results) {
        assert_eq!(number(run, "/rtt_ms"), 55.0, "the mean");
        assert!((number(run, "/loss") - 0.005).abs() < 1e-9);
        assert!((0.05..=1.001).contains(&number(run, "/utilization")), "{run}");
    }
}

#[test]
fn an_rtt_of_zero_is_allowed() {
    for cc in ["cubic", "copa", "bbr", "verus", "ledbat", "vegas"] {
        let args = format!("compare --trace constant:12mbit --rtt 0ms --cc {cc} --duration 5s");
        let run = Folder::new().first_run(&args);
        assert_eq!(number(&run, "/rtt_ms"), 0.0);
        assert!(number(&run, "/utilization") > 0.3, "{run}");
    }
}

#[test]
fn odd_but_right_traces_are_read() {
    for (text, packets) in [
        ("5\n", 400.0),
        ("5", 400.0),
        ("5\r\n10\r\n", 400.0),
        ("5\n10\n\n", 400.0),
        (" 5 \n\t10\n\n\n", 400.0),
        ("0\n0\n10\n", 600.0),
    ] {
        let folder = Folder::with("t", text);
        let args = "compare --trace t --cc fixed --duration 2s --skip 0s";
        let capacity = number(&folder.first_run(args), "/capacity_mbps");
        // One at time zero lies before the interval.
        let expected = packets * 12_000.0 / 2e6;
        assert!((capacity - expected).abs() <= 2.0 * 12_000.0 / 2e6, "{text:?}: {capacity}");
    }
}

#[test]
fn wrong_traces_are_answered_with_file_and_line() {
    for (text, said) in [
        (&b""[..], "--trace: t: empty"),
        (b"\n\n", "t: empty"),
        (b"0\n0\n", "t: needs a last timestamp above 0"),
        (b"5\n7\n3\n", "t, line 3: 3 comes after 7, but times must not decrease"),
        (
            b"5\n-7\n",
            "t, line 2: `-7` is not a whole number of milliseconds, and times are not neg",
        ),
        (b"5\nhello\n", "t, line 2: `hello` is not a whole number"),
        (b"1.5\n", "t, line 1: `1.5` is not a whole number"),
        (b"5 7\n", "t, line 1: `5 7` is not"),
        (b"5\n\n9\n", "t, line 2: empty line in the middle"),
        (b"NaN\n", "t, line 1: `NaN`"),
        (b"99999999999\n", "t, line 1: 99999999999 is more than 4294967295 ms"),
        (b"\xff\xfe\x00\n", "t, line 1: "),
        (b"5\n\x1b[2J\n", "t, line 2: `\\u{1b}[2J`"),
        (&[b'7'; 5000], "t, line 1: longer than 256 bytes"),
        (&[0; 100], "t, line 1: "),
    ] {
        let folder = Folder::with("t", text);
        folder.refused("compare --trace t --cc fixed", said);
    }
}

#[test]
fn traces_that_are_not_there_are_answered_with_what_is_near() {
    let folder = Folder::new();
    fs::create_dir(folder.path("folder")).unwrap();
    for (trace, said) in [
        ("lte-drivin", "did you mean `lte-driving`?"),
        ("constnat:12mbit", "did you mean `constant:`?"),
        ("my/city-drive.down", "there is no trace file `my/city-drive.down`"),
        ("folder", "folder: this is a folder, not a file"),
        ("constant:12", "constant: `12` needs a unit; write a rate like 12mbit"),
        ("constant:NaNmbit", "does not start with a number"),
        ("constant:-1mbit", "a rate is not negative"),
        ("step:1mbit/0s", "step:VALUE/TIME"),
        ("step:1mbit", "step:VALUE/TIME"),
        ("random:9mbit..1mbit/5s", "random:LOW..HIGH/TIME"),
        ("onoff:1mbit,onn=5s", "did you mean `on`?"),
        ("cellreplay:heavy=gone", "there is no file `gone`"),
        ("profile:gone", "there is no file `gone`"),
    ] {
        folder.refused(&format!("compare --trace {trace} --cc fixed"), said);
    }
    folder.refused_args(["compare", "--trace", ""], "there is no trace file ``");
    folder.refused_args(["compare", "--trace", "a\nb"], "`a\\nb`");
}

#[cfg(unix)]
#[test]
fn large_and_endless_traces_are_refused_without_reading_them() {
    let folder = Folder::new();
    fs::File::create(folder.path("large")).unwrap().set_len(2 << 30).unwrap();
    for (trace, said) in [
        ("large", "large: 2048 MB is more than the 512 MB that are read"),
        ("/dev/zero", "/dev/zero, line 1: longer than 256 bytes"),
        ("/dev/null", "/dev/null: empty"),
    ] {
        folder
            .run_in_little_memory(&format!("compare --trace {trace} --cc fixed"))
            .complains(2, said);
    }
}

#[cfg(unix)]
#[test]
fn what_may_not_be_read_or_written_is_named() {
    use std::os::unix::fs::PermissionsExt;
    let folder = Folder::with("shut.down", "5\n");
    fs::set_permissions(folder.path("shut.down"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::File::open(folder.path("shut.down")).is_ok() {
        cellpace_testing::skip("root");
        return;
    }
    folder.refused("compare --trace shut.down --cc fixed", "shut.down: Permission denied");
    folder.refused("sim shut.down", "shut.down: Permission denied");
    fs::create_dir(folder.path("shut")).unwrap();
    fs::set_permissions(folder.path("shut"), fs::Permissions::from_mode(0o555)).unwrap();
    for option in ["--json", "--report", "--log"] {
        folder.refused(&format!("compare --cc fixed {option} shut/x"), "shut/x: ");
    }
}

#[test]
fn wrong_options_are_answered_with_what_would_do() {
    let folder = Folder::new();
    for (args, said) in [
        ("--cc vreus", "--cc: there is no controller `vreus`; did you mean `verus`?"),
        ("--cc verus:R=2", "`verus` has no parameter `R`; did you mean `r`?"),
        ("--cc verus:epcoh=5ms", "did you mean `epoch`?"),
        ("--cc verus:r=0.1", "r=0.1 is out of range; allowed: 1..1000"),
        ("--cc verus:r=NaN", "r: `NaN` does not start with a number"),
        ("--cc verus:r", "`r` should be key=value"),
        ("--cc verus:epoch=5", "epoch: `5` needs a unit; write a time like 40ms or 60s"),
        ("--cc cubic --cc cubic", "--cc: `cubic` is given twice"),
        ("--trace lte-driving --trace lte-driving", "--trace: `lte-driving` is given twice"),
        ("--rtt 40", "--rtt: `40` needs a unit"),
        ("--rtt -40ms", "--rtt: `-40ms`: a delay is not negative"),
        ("--rtt NaNms", "--rtt: `NaNms` does not start with a number"),
        ("--rtt file:gone", "--rtt: there is no file `gone`"),
        (
            "--queue droptail:1499B",
            "--queue: droptail: `1499B` is smaller than one 1500-byte packet",
        ),
        ("--queue droptail:0pkts", "smaller than one 1500-byte packet"),
        ("--queue droptial:2MB", "did you mean `droptail`?"),
        ("--queue droptail:2", "needs a unit"),
        ("--loss NaN", "--loss"),
        ("--loss 0.05", "--loss: `0.05` needs a unit; write 5%"),
        ("--loss 0", "--loss: `0` needs a unit; write 0%"),
        ("--loss 100%", "--loss: `100%`: when every packet is lost, nothing arrives"),
        ("--loss ge:p=0.01", "--loss: ge: p: `0.01` needs a unit; write 1%"),
        ("--loss -1%", "--loss: `-1%`: a loss is not negative"),
        ("--loss file:gone", "--loss: there is no file `gone`"),
        ("--impair reorder=1%", "--impair: `reorder=1%` does not read; write reorder=SHARE/TIME"),
        ("--impair corrupt=0.1", "--impair: corrupt: `0.1` needs a unit; write 10%"),
        ("--impair corrupt=100%", "--impair: corrupt=100%: nothing would get through"),
        ("--impair up:reordr=1%/5ms", "did you mean `reorder`?"),
        ("--uplink-loss 101%", "--uplink-loss: `101%` is out of range"),
        ("--loss 101%", "--loss: `101%` is out of range"),
        ("--handover 30", "--handover: `30` needs a unit"),
        ("--handover 30s/1s/1s/1s", "--handover: `30s/1s/1s/1s` does not read; write TIME"),
        (
            "--handover 9s --handover 9s",
            "--handover: the handover at 9s begins before the one at 9s",
        ),
        ("--handover 60s --duration 60s", "the handover at 60s is not over before the end"),
        ("--acks sometimes", "--acks"),
        ("--acks delayed:40", "--acks: `40` needs a unit"),
        ("--uplink constant:1", "--uplink: constant: `1` needs a unit"),
        ("--duration 0s", "the duration is 0 s"),
        ("--duration 60", "'--duration <TIME>': `60` needs a unit"),
        ("--duration NaNs", "--duration"),
        ("--duration 25h", "the longest is 86400s"),
        ("--duration 1e300s", "--duration"),
        ("--skip 60s --duration 60s", "skip (60s) leaves nothing of the duration (60s)"),
        ("--skip 61s --duration 60s", "skip less or run longer"),
        ("--flows 0", "write a whole number from 1 to 10000"),
        ("--flows 10001", "write a whole number from 1 to 10000"),
        ("--repeat 0", "--repeat"),
        ("--jobs 0", "--jobs"),
        ("--seed x", "--seed"),
        ("--seed=-1", "--seed"),
    ] {
        folder.refused(&format!("compare {args}"), said);
    }
    assert!(folder.names().is_empty());
}

#[test]
fn outputs_that_cannot_be_written_are_refused_before_the_work() {
    let folder = Folder::with("file", "old");
    fs::create_dir(folder.path("folder")).unwrap();
    for (args, said) in [
        ("--json gone/x.json", "gone/x.json: no such folder"),
        ("--report gone/x.html", "gone/x.html: no such folder"),
        ("--log gone/x.parquet", "gone/x.parquet: no such folder"),
        ("--json folder", "folder: is a folder"),
        ("--report folder", "folder: is a folder"),
        ("--log folder", "folder: is a folder"),
        ("--log -", "--log: a packet log needs a file"),
        ("--transfers -", "--transfers: a log of transfers needs a file"),
        ("--events -", "--events: an event log needs a file"),
        ("--json - --report -", "--json and --report both write to standard output"),
        ("--json x --log x", "--json and --log both write x"),
    ] {
        // A day of a fast link: whoever began it would be noticed.
        let endless = "compare --cc fixed --trace constant:100gbit --duration 24h";
        folder.refused(&format!("{endless} {args}"), said);
    }
    assert_eq!(folder.read("file"), b"old");
    assert_eq!(folder.names(), ["file", "folder"]);
}

#[test]
fn a_report_on_standard_output_stands_there_alone() {
    let page = Folder::new().good("compare --cc fixed --duration 3s --report -");
    assert!(page.starts_with('<') && page.trim_end().ends_with("</html>"), "{page:.100}");
}

/// Where one output cannot be written, what was worked out is not lost.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_ends_with_1_and_keeps_the_other_outputs() {
    let folder = Folder::new();
    let outcome = folder.run("compare --cc fixed --duration 3s --json /dev/full --report r.html");
    assert_eq!(outcome.code, Some(1));
    assert!(outcome.stdout.contains("fixed"), "the table: {}", outcome.stdout);
    let said = "cellpace: cannot write /dev/full: No space left on device\n";
    assert_eq!(outcome.stderr, said);
    assert_eq!(folder.names(), ["r.html"]);
    for option in ["--log", "--report", "--json"] {
        let outcome = folder.run(&format!("compare --cc fixed --duration 3s {option} /dev/full"));
        assert_eq!(outcome.code, Some(1), "{option}");
        assert_eq!(outcome.stderr.lines().count(), 1, "{option}: {}", outcome.stderr);
    }
}

#[test]
fn more_than_fits_into_memory_is_refused() {
    let folder = Folder::new();
    for (args, said) in [
        ("--flows 10000 --repeat 10000", "are more than 250000 flows in all"),
        ("--flows 10000 --repeat 26", "104"),
        ("--cc fixed --flows 10000 --repeat 25 --duration 24h --report r.html", "points"),
    ] {
        folder.run_in_little_memory(&format!("compare {args}")).complains(2, said);
    }
}

/// Long runs of many flows take memory for flows and for time, not for their product.
#[test]
fn the_bins_of_long_runs_of_many_flows_are_wider() {
    let folder = Folder::new();
    let args = "compare --cc fixed:cwnd=1pkts --trace constant:100kbit --duration 20h --flows 1000 \
                --report r.html --json r.json";
    let outcome = folder.run_in_little_memory(args);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let size = folder.read("r.html").len();
    assert!(size < 30_000_000, "{size}");
}

#[test]
fn links_that_are_off_or_absurdly_fast_come_to_an_end() {
    let folder = Folder::new();
    for (args, most) in [
        ("--trace constant:1bit --duration 1h", 1.0),
        ("--trace constant:1000gbit --duration 50ms --skip 0s", 1.0),
        ("--trace constant:12mbit --loss 99%", 0.1),
        ("--trace constant:12mbit --duration 1ns --skip 0s", 0.0),
        ("--trace constant:12mbit --uplink-loss 99%", 1.0),
        ("--trace constant:12mbit --rtt 1h", 1.0),
        ("--trace constant:12mbit --uplink constant:1bit", 1.0),
    ] {
        let ccs = "--cc verus --cc copa --cc bbr --cc cubic";
        for run in runs(&folder.json(&format!("compare {args} {ccs}"))) {
            assert!((0.0..=most).contains(&number(run, "/utilization")), "{run}");
        }
    }
}

/// Two runs of which the first takes no time and the second does not end.
const ENDLESS: &str = "--trace constant:1bit --trace constant:100gbit --cc fixed --duration 24h \
    --jobs 1";

/// Waits until the process has worked for a while, so that it is in the middle of a run.
fn work_a_while(child: &std::process::Child, seconds: f64) {
    let ticks = (seconds * 100.0) as u64;
    let began = Instant::now();
    // On a machine without /proc it has to do without knowing.
    let worked = || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_whitespace().collect();
        fields.get(11)?.parse::<u64>().ok()
    };
    while worked().map_or(began.elapsed().as_secs_f64() < 2.0 * seconds, |used| used < ticks) {
        assert!(began.elapsed() < Duration::from_secs(120), "it does not work");
        std::thread::sleep(Duration::from_millis(20));
    }
}

#[cfg(unix)]
#[test]
fn ctrl_c_keeps_what_is_finished_and_says_what_is_missing() {
    let folder = Folder::new();
    let files = "--json r.json --report r.html --log p.parquet";
    let child = folder.start(&format!("compare {ENDLESS} {files}"));
    // Longer than it takes a progress bar to appear, which is for terminals only.
    work_a_while(&child, 2.5);
    signal(&child, "INT");
    let outcome = program::ended(child);
    assert_eq!(outcome.code, Some(130));
    let said = "interrupted; 1 of 2 runs are missing, and the packet log ends within the next";
    assert_eq!(outcome.stderr, format!("cellpace: {said}\n"));
    assert!(outcome.stdout.contains("fixed"), "{}", outcome.stdout);
    let results: Value = serde_json::from_slice(&folder.read("r.json")).unwrap();
    assert_eq!(runs(&results).len(), 1);
    assert_eq!(runs(&results)[0]["trace"], "constant:1bit");
    assert!(folder.read("p.parquet").ends_with(b"PAR1"));
    assert_eq!(folder.names(), ["p.parquet", "r.html", "r.json"]);
}

#[cfg(unix)]
#[test]
fn a_signal_before_the_first_run_is_finished_writes_nothing() {
    let folder = Folder::with("r.json", "old");
    let endless = ENDLESS.replace("--trace constant:1bit ", "");
    let child = folder.start(&format!("compare {endless} --json r.json --log p.parquet"));
    work_a_while(&child, 0.3);
    signal(&child, "TERM");
    let outcome = program::ended(child);
    outcome.complains(143, "interrupted; 1 of 1 runs are missing");
    assert_eq!(folder.read("r.json"), b"old");
    assert_eq!(folder.names(), ["r.json"]);
}

#[cfg(unix)]
#[test]
fn a_killed_run_leaves_old_files_alone_and_no_new_ones() {
    let folder = Folder::with("old.json", "old");
    folder.write("old.parquet", "old");
    let files = "--json old.json --report new.html";
    for log in ["--log old.parquet", "--log new.parquet", ""] {
        let child = folder.start(&format!("compare {ENDLESS} {files} {log}"));
        work_a_while(&child, 0.3);
        signal(&child, "KILL");
        let outcome = program::ended(child);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (None, ""));
    }
    assert_eq!(folder.read("old.json"), b"old");
    assert_eq!(folder.read("old.parquet"), b"old");
    let shown: Vec<String> =
        folder.names().into_iter().filter(|name| !name.starts_with('.')).collect();
    assert_eq!(shown, ["old.json", "old.parquet"]);
}

#[test]
fn what_is_said_on_standard_error_is_as_little_or_as_much_as_wanted() {
    let folder = Folder::new();
    let outcome = folder.run("compare --cc cubic --cc copa --duration 5s -v");
    let lines: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!((outcome.code, lines.len()), (Some(0), 2), "{}", outcome.stderr);
    for line in lines {
        assert!(line.contains(" on lte-driving, seed 1: ") && line.ends_with(" Mbit/s"), "{line}");
    }
    let quiet = folder.good("compare --cc cubic --duration 5s -q");
    assert_eq!(quiet, folder.good("compare --cc cubic --duration 5s"), "the table is the result");
    folder.refused("compare -q -v", "cannot be used with");
}
