//! `cellpace report`, run as users run it.

use std::io::Write;
use std::process::Stdio;

use crate::program::{Folder, Outcome};

const COMPARE: &str = "compare --trace constant:5mbit --duration 4s --cc verus --cc cubic";

fn text(folder: &Folder, name: &str) -> String {
    String::from_utf8(folder.read(name)).unwrap()
}

fn title(page: &str) -> &str {
    page.split_once("<title>").unwrap().1.split_once("</title>").unwrap().0
}

#[test]
fn the_page_of_a_stored_result_is_the_page_that_its_command_made() {
    let folder = Folder::with(
        "s.toml",
        "duration = \"4s\"\ntrace = \"constant:5mbit\"\n[[flow]]\ncc = \"cubic\"\ncount = 2\n",
    );
    for command in [COMPARE, "sim s.toml"] {
        folder.good(&format!("{command} --json a.json --report a.html"));
        folder.good("report a.json -o b.html");
        let page = text(&folder, "a.html");
        assert!(page == text(&folder, "b.html"), "{command}");
        assert!(page.len() < 1_500_000 && !title(&page).is_empty(), "{command}");
        assert!(page.contains(&format!("cellpace {command}")), "the page says what made it");
        // Also without a page of its own a result has its series.
        folder.good(&format!("{command} --json c.json"));
        assert!(folder.read("a.json") == folder.read("c.json"), "{command}");
    }
}

#[test]
fn the_sentence_of_the_page_is_that_of_the_table() {
    let folder = Folder::new();
    let table = folder.good(&format!("{COMPARE} --report a.html"));
    let sentence = table.lines().rev().find(|line| line.starts_with("On ")).unwrap();
    assert!(sentence.contains("95 % of the packets"), "{sentence}");
    let page = text(&folder, "a.html");
    assert!(page.contains(&format!("<p id=\"sentence\">{sentence}</p>")), "{sentence}");
    assert_eq!(title(&page), "constant:5mbit: 2 controllers");
    assert!(table.starts_with("constant:5mbit, RTT 40 ms, queue droptail:2MB, 4 s"), "{table}");
}

#[test]
fn results_stand_side_by_side_under_the_names_of_their_files() {
    let folder = Folder::new();
    folder.good(&format!("{COMPARE} --json old.json"));
    folder.good(&format!("{COMPARE} --json new.json"));
    folder.good("report old.json new.json -o both.html");
    let page = text(&folder, "both.html");
    assert!(page.contains("\"cubic\"") && page.contains("\"cubic (new)\""));
    assert_eq!(title(&page), "constant:5mbit: 4 controllers");
}

#[test]
fn a_difference_is_one_sentence_in_terminal_page_and_json() {
    let folder = Folder::new();
    let compare = "compare --trace constant:5mbit --loss 1% --duration 4s --repeat 3";
    folder.good(&format!("{compare} --cc verus --cc cubic --json both.json"));
    let printed = folder.good("report both.json --diff -o d.html --json d.json");
    let json: serde_json::Value = serde_json::from_str(&text(&folder, "d.json")).unwrap();
    let sentence = json["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("cubic instead of verus: median RTT "), "{sentence}");
    assert!(sentence.contains(", 95 %: "), "{sentence}");
    assert_eq!(printed.lines().last(), Some(sentence));
    let page = text(&folder, "d.html");
    assert!(page.contains(&format!("<p id=\"sentence\">{sentence}</p>")));
    assert_eq!(title(&page), "constant:5mbit: cubic instead of verus");
    assert_eq!(json["values"], serde_json::json!([3, 3]));
    // The same of two files, the other way round.
    for (cc, file) in [("cubic", "a.json"), ("verus", "b.json")] {
        folder.good(&format!("{compare} --cc {cc} --json {file}"));
    }
    let other: serde_json::Value =
        serde_json::from_str(&folder.good("report a.json b.json --diff --json -")).unwrap();
    let [one, back] = [&json, &other].map(|json| json["figures"][0]["difference"].as_f64());
    assert!((one.unwrap() + back.unwrap()).abs() < 1e-9, "{one:?} {back:?}");
    assert!(folder.good("report a.json b.json --diff -o -").starts_with("<!doctype html>"));
    folder.refused("report a.json --diff", "two controllers, and it is of 1");
    folder.refused("report a.json a.json b.json --diff", "of one or two results");
    folder.refused("report both.json --diff --csv a.csv", "cannot be used with");
}

#[test]
fn a_sweep_is_one_page_with_pictures_of_two_conditions() {
    let plan = "cc = [\"copa\", \"cubic\"]\nduration = \"3s\"\nseeds = \"1..2\"\nrtt = [\"20ms\", \"80ms\"]\n\
                queue = [\"droptail:100kB\", \"codel\"]\n[[path]]\ntrace = \"constant:5mbit\"\n";
    let folder = Folder::with("plan.toml", plan);
    assert_eq!(folder.run("sweep plan.toml").code, Some(0));
    folder.good("report plan/part-00000.parquet -o a.html");
    let page = text(&folder, "a.html");
    assert_eq!(title(&page), "Sweep: 2 controllers under 4 conditions");
    let section = &data(&page, "sections-data")["sections"][0];
    assert_eq!(section["maps"].as_array().unwrap().len(), 2);
    assert_eq!(section["tables"][1]["rows"].as_array().unwrap().len(), 8);
    let sentence = section["sentence"].as_str().unwrap();
    assert!(sentence.starts_with("Of 2 controllers, "), "{sentence}");
    assert!(sentence.contains(" Over 4 conditions "), "{sentence}");
}

#[test]
fn the_page_names_all_conditions() {
    let folder = Folder::new();
    let table = folder.good(
        "compare --trace constant:5mbit --duration 4s --cc cubic --uplink constant:1mbit --handover 2s/100ms \
         --transfer 100kB --report a.html --json a.json",
    );
    assert!(
        table.contains("uplink constant:1mbit") && table.contains("handover 2s/100ms"),
        "{table}"
    );
    let group = &data(&text(&folder, "a.html"), "data")["groups"][0];
    let conditions = group["conditions"].to_string();
    for condition in ["Uplink", "constant:1mbit", "Handover", "transfers of 100 kB"] {
        assert!(conditions.contains(condition), "{condition}: {conditions}");
    }
    let run: serde_json::Value = serde_json::from_str(&text(&folder, "a.json")).unwrap();
    assert_eq!(run["runs"][0]["path"]["uplink"], "constant:1mbit");
}

#[test]
fn standard_input_and_output_are_dashes() {
    let folder = Folder::new();
    let json = folder.good(&format!("{COMPARE} --json -"));
    let mut command = folder.command(["report", "-", "-o", "-"]);
    let command = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(json.as_bytes()).unwrap();
    let outcome = Outcome::of(child.wait_with_output().unwrap());
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    assert!(outcome.stdout.starts_with("<!doctype html>") && outcome.stdout.ends_with("</html>\n"));
    folder.refused("report - - -o a.html", "standard input is one result; give it once");
}

#[test]
fn what_is_no_result_is_refused_by_name_and_nothing_is_written() {
    let folder = Folder::new();
    let json = folder.good(&format!("{COMPARE} --json -"));
    for (name, content, said) in [
        ("empty.json", "", "empty.json: is empty: there is no result"),
        ("cut.json", &json[..json.len() / 2], "cut.json: ends in the middle of a result (line "),
        ("text.json", "hello", "text.json: not JSON: expected value at line 1 column 1"),
        ("list.json", "[1, 2]", "list.json: no result of cellpace: it has no field `schema`"),
        ("other.json", "{\"schema\": \"x/1\"}", "other.json: a result of the kind `x/1`, of which"),
        (
            "future.json",
            "{\"schema\": \"cellpace.compare/9\"}",
            "future.json: a result of the kind `cellpace.compare/9`, of which there is no page",
        ),
        (
            "wrong.json",
            "{\"schema\": \"cellpace.transfer/1\", \"role\": 5}",
            "wrong.json: does not fit its schema cellpace.transfer/1: invalid type",
        ),
        (
            "mixed.json",
            "{\"schema\": \"cellpace.run/1\"}\n{\"schema\": \"cellpace.attach/1\"}",
            "mixed.json: has lines of another kind than the first",
        ),
    ] {
        folder.write(name, content);
        folder.refused(&format!("report {name} -o a.html"), said);
    }
    folder.write("bytes.json", b"\xff\xfe\x00");
    folder.refused("report bytes.json -o a.html", "bytes.json: not text: no result of cellpace");
    folder.refused("report gone.json -o a.html", "gone.json: no such file");
    folder.refused("report empty.json -o gone/a.html", "gone/a.html: no such folder");
    folder.refused("report -o a.html", "required arguments were not provided");
    folder.refused("report empty.json", "--output <FILE.html>");
    assert!(!folder.names().contains(&"a.html".to_owned()));
    folder.write("kept.json", &json);
    let why = "would replace kept.json, which is read";
    folder.refused("report kept.json -o ./kept.json", &format!("--output {why}"));
    folder.refused("report kept.json --csv kept.json", &format!("--csv {why}"));
    folder.write("trace", "1\n2\n3\n");
    folder.refused("compare --trace trace --cc cubic --json trace", "--json would replace trace");
    assert_eq!(text(&folder, "kept.json"), json);
}

const SHARED: &str = "duration = \"6s\"\nskip = \"0s\"\ntrace = \"constant:5mbit\"\n[[flow]]\ncc = \"cubic\"\n[[flow]]\ncc = \"verus\"\nstart = \"2s\"\n";

/// The data of a page that stand under `id`.
/// What the script of a page gets.
pub(crate) fn data(page: &str, id: &str) -> serde_json::Value {
    let marker = format!("id=\"{id}\">");
    let (_, rest) = page.split_once(&marker).unwrap();
    serde_json::from_str(rest.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_packet_log_has_the_figures_that_its_command_printed() {
    let folder = Folder::with("s.toml", SHARED);
    let run = folder.first_run("sim s.toml --log packets.parquet");
    folder.good("report packets.parquet -o a.html --csv a.csv");
    let page = text(&folder, "a.html");
    assert_eq!(title(&page), "Packet log: cubic + verus");
    let section = &data(&page, "sections-data")["sections"][0];
    let titles: Vec<&str> = section["charts"]
        .as_array()
        .unwrap()
        .iter()
        .map(|c| c["title"].as_str().unwrap())
        .collect();
    assert_eq!(titles[..3], ["Throughput", "Queue delay", "Throughput of each flow"]);
    assert_eq!(titles.last(), Some(&"Distribution of the queue delay"));
    // The log begins with the first packet that arrives, the run a little earlier.
    let csv = text(&folder, "a.csv");
    let column =
        |name: &str| csv.lines().next().unwrap().split(',').position(|c| c == name).unwrap();
    let value = |row: usize, name: &str| -> f64 {
        csv.lines().nth(row).unwrap().split(',').nth(column(name)).unwrap().parse().unwrap()
    };
    assert_eq!(csv.lines().count(), 3, "a row for each flow: {csv}");
    for (row, flow) in [(1, 0), (2, 1)] {
        let p95 = run["per_flow"][flow]["queue_delay_ms"]["p95"].as_f64().unwrap();
        assert_eq!(value(row, "per_flow_queue_delay_ms_p95"), p95);
        let rate = run["per_flow"][flow]["throughput_mbps"].as_f64().unwrap();
        let logged = value(row, "per_flow_throughput_mbps");
        assert!((logged / rate - 1.0).abs() < 0.05, "{logged} of {rate}");
    }
    assert_eq!(value(1, "packets"), run["packets"].as_f64().unwrap());

    for (flow, cc) in [(0, "cubic"), (1, "verus")] {
        let sequence = &section["sequences"][flow];
        let numbers = |name: &str| -> Vec<Option<i64>> {
            let values = sequence[name].as_array().unwrap_or_else(|| panic!("{cc} without {name}"));
            values.iter().map(serde_json::Value::as_i64).collect()
        };
        let acked = numbers("acked");
        assert_eq!(acked.len(), sequence["sent"].as_array().unwrap().len());
        // The way back has 20 ms, in units of 10 us; only the acks of the last packets are still on it.
        assert!(acked.iter().flatten().all(|after| *after >= 2_000), "{cc}: {acked:?}");
        assert!(acked.iter().filter(|ack| ack.is_none()).count() < 50, "{cc}");
        let windows = numbers("window").into_iter().flatten().scan(0, |sum, change| {
            *sum += change;
            Some(*sum)
        });
        assert!(windows.min() >= Some(1_500), "{cc}");
        // Cubic's window is all that bounds it; Verus gives its window in shares.
        let beyond = numbers("permitted").into_iter().flatten().any(|beyond| beyond < 0);
        assert_eq!(beyond, cc == "verus");
    }
}

#[test]
fn a_log_of_transfers_has_the_summary_that_its_command_wrote() {
    let scenario = "duration = \"20s\"\ntrace = \"constant:8mbit\"\n[[flow]]\ncc = \"cubic\"\ntransfer = { size = \"100kB\", count = 8 }\n";
    let folder = Folder::with("s.toml", scenario);
    let run = folder.first_run("sim s.toml --transfers transfers.parquet");
    folder.good("report transfers.parquet -o a.html --csv a.csv");
    let page = text(&folder, "a.html");
    let rows = &data(&page, "sections-data")["sections"][0]["tables"][0]["rows"];
    let summary = &run["transfer_summary"][0];
    assert_eq!(rows[0][0], "cubic");
    assert_eq!(rows[0][1], summary["count"].to_string());
    assert_eq!(
        rows[0][6],
        cellpace_report::short(summary["goodput_mbps"]["p50"].as_f64().unwrap())
    );
    let logged = run["transfers"].as_array().unwrap().len();
    assert_eq!(text(&folder, "a.csv").lines().count(), logged + 1);
}

#[test]
fn parquet_of_others_and_damaged_parquet_are_refused_by_name() {
    let folder = Folder::with("s.toml", SHARED);
    folder.good("sim s.toml --log packets.parquet");
    let whole = folder.read("packets.parquet");
    folder.write("cut.parquet", &whole[..whole.len() / 2]);
    folder.refused("report cut.parquet -o a.html", "cut.parquet: damaged, or not Parquet: ");
    folder.write("short.parquet", "PAR1");
    folder.refused("report short.parquet -o a.html", "short.parquet: damaged, or not Parquet: ");
    // Wherever a byte is wrong, the program says something and ends.
    for at in (4..whole.len()).step_by(whole.len() / 60) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0xff;
        folder.write("wrong.parquet", &bytes);
        let outcome = folder.run_in_little_memory("report wrong.parquet -o wrong.html");
        assert!([Some(0), Some(2)].contains(&outcome.code), "byte {at}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("panicked"), "byte {at}: {}", outcome.stderr);
    }
    let mut command = folder.command(["report", "-", "-o", "a.html"]);
    let command = command.stdin(std::fs::File::open(folder.path("packets.parquet")).unwrap());
    let outcome = Outcome::of(command.output().unwrap());
    outcome.complains(2, "standard input: ");
}

#[test]
fn a_folder_becomes_one_page_that_names_what_it_left_out() {
    let folder = Folder::new();
    std::fs::create_dir_all(folder.path("results/deeper/.hidden")).unwrap();
    folder.good(&format!("{COMPARE} --json results/b.json --log results/deeper/p.parquet"));
    for name in ["results/deeper/.hidden/c.json", "results/notes.txt"] {
        folder.write(name, "no result");
    }
    folder.write("results/cut.json", "{\"schema\": ");
    folder.write("results/future.json", "{\"schema\": \"cellpace.compare/9\"}");
    std::os::unix::fs::symlink(".", folder.path("results/circle")).unwrap();
    let outcome = folder.run("report results -o a.html");
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let said: Vec<&str> = outcome.stderr.lines().collect();
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].contains("results/cut.json: left out: ends in the middle of a result"));
    assert!(said[1].contains("results/future.json: left out: a result of the kind"));
    let index = &data(&text(&folder, "a.html"), "sections-data")["index"];
    let files = index["files"]["rows"].as_array().unwrap();
    let names: Vec<&str> = files.iter().map(|row| row[0].as_str().unwrap()).collect();
    assert_eq!(names, ["results/b.json", "results/deeper/p.parquet"]);
    assert_eq!(index["files"]["links"], serde_json::json!(["#comparison", "#packets-1"]));
    assert_eq!(index["left_out"]["rows"][0][0], "results/cut.json");

    std::fs::create_dir(folder.path("empty")).unwrap();
    folder.refused("report empty -o b.html", "empty: no file in it ends with .json");
    folder.write("empty/a.json", "");
    folder.refused(
        "report empty -o b.html",
        "empty: no result of cellpace in it (empty/a.json: is empty",
    );
}

#[test]
fn figures_become_a_table() {
    let folder = Folder::new();
    folder.good(&format!("{COMPARE} --json a.json"));
    let csv = folder.good("report a.json --csv -");
    let header: Vec<&str> = csv.lines().next().unwrap().split(',').collect();
    for column in
        ["file", "cc", "trace", "seed", "queue_delay_ms_p95", "throughput_mbps", "per_flow_lost"]
    {
        assert!(header.contains(&column), "{column} in {header:?}");
    }
    assert_eq!(csv.lines().count(), 3, "{csv}");
    assert!(csv.lines().skip(1).all(|row| row.split(',').count() == header.len()), "{csv}");
}

/// Titles of the charts of the one section of a page.
fn charts(page: &str) -> Vec<String> {
    let section = &data(page, "sections-data")["sections"][0];
    let charts = section["charts"].as_array().unwrap().iter();
    charts.map(|chart| chart["title"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn what_others_recorded_becomes_a_page() {
    let folder = Folder::new();
    folder.good("compare --trace constant:5mbit --duration 4s --cc cubic --events e.sqlog");
    folder.good("report e.sqlog -o a.html");
    let window = "Congestion window and what is in flight";
    let shown = charts(&text(&folder, "a.html"));
    assert!(
        shown.iter().any(|title| title == window) && shown.iter().any(|title| title == "RTT"),
        "{shown:?}"
    );
    let interval = |end: u32| {
        let counts =
            r#""bytes":1250000,"retransmits":2,"snd_cwnd":60000,"rtt":25000,"sender":true"#;
        format!(r#"{{"streams":[{{"socket":5,"start":{},"end":{end},{counts}}}]}}"#, end - 1)
    };
    let report = format!(
        r#"{{"start":{{"version":"iperf 3.9"}},"intervals":[{},{}]}}"#,
        interval(1),
        interval(2)
    );
    folder.write("run.json", &report);
    folder.good("report run.json -o a.html");
    let page = text(&folder, "a.html");
    assert_eq!(charts(&page), ["Data over time", "Throughput", window, "RTT", "Lost"]);
    assert!(page.contains("One flow carried 10 Mbit/s; 4 packets were lost."));
    // A folder shows it beside results of ours.
    folder.good("report . -o all.html");
    let cut = report.replace("\"end\":2", "\"stop\":2");
    folder.write("cut.json", &cut);
    folder.refused("report cut.json -o b.html", "cut.json: missing field `end` at line 1 column");
    folder.write(
        "cut.sqlog",
        "\u{1e}{\"qlog_version\":\"0.3\",\"trace\":{}}\n\u{1e}{\"name\":\"x\"}\n",
    );
    folder.refused(
        "report cut.sqlog -o b.html",
        "cut.sqlog: record 2: time: there is none, or no number",
    );
    let pcap = include_bytes!("../../../../fuzz/corpus/trace/pcap");
    folder.write("run.pcap", pcap);
    folder.good("report run.pcap -o c.html");
    assert!(charts(&text(&folder, "c.html")).contains(&"Data over time".to_owned()));
    // In the header of the first packet.
    folder.write("cut.pcap", &pcap[..30]);
    folder.refused("report cut.pcap -o b.html", "cut.pcap: ");
    assert!(!folder.names().contains(&"b.html".to_owned()));
}
