//! The figures on a page are those of its JSON: on every kind of page, as a browser shows them.

use std::collections::BTreeMap;

use cellpace_measure::{FlowFigures, Summary, Transfer, TransferOutcome, VideoFigures};
use cellpace_report::{
    Comparison, Document, RealTime, RealTimeDirection, ResultDifference, Run, page, to_json,
};
use serde::Deserialize;
use serde_json::Value;

use super::{Browser, example, with_script};

/// What a page says, as `figures.js` reads it.
#[derive(Debug, Deserialize)]
struct Read {
    title: String,
    sentences: Vec<String>,
    conditions: BTreeMap<String, String>,
    notes: Vec<String>,
    headings: Vec<String>,
    tables: Vec<ReadTable>,
    charts: Vec<ReadChart>,
    labels: Vec<String>,
    /// The marks in the legend, by name.
    looks: BTreeMap<String, String>,
    mislabelled: Vec<String>,
    odd: Vec<String>,
}

#[derive(Debug, Deserialize)]
struct ReadTable {
    title: String,
    header: Vec<String>,
    rows: Vec<Vec<String>>,
}

#[derive(Debug, Deserialize)]
struct ReadChart {
    title: String,
    axes: Value,
    #[serde(rename = "isWhole")]
    is_whole: bool,
    lines: Vec<ReadLine>,
    at95: Option<BTreeMap<String, f64>>,
}

#[derive(Debug, Deserialize)]
struct ReadLine {
    name: String,
    pale: bool,
    x: Vec<f64>,
    y: Vec<Option<f64>>,
}

impl Read {
    fn table(&self, title: &str) -> &ReadTable {
        let found = self.tables.iter().find(|table| table.title.starts_with(title));
        found.unwrap_or_else(|| panic!("no table {title}: {:#?}", self.tables))
    }

    fn chart(&self, title: &str) -> &ReadChart {
        let found = self.charts.iter().find(|chart| chart.title.starts_with(title));
        let titles = || self.charts.iter().map(|chart| &chart.title).collect::<Vec<_>>();
        found.unwrap_or_else(|| panic!("no chart {title}: {:?}", titles()))
    }
}

impl ReadTable {
    /// The cell of the row that begins with `row`, in the column whose name begins with `column`.
    fn cell(&self, row: &str, column: &str) -> &str {
        let place = self.header.iter().position(|name| name.starts_with(column));
        let place = place.unwrap_or_else(|| panic!("no column {column}: {:?}", self.header));
        let found = self.rows.iter().find(|cells| cells[0] == row);
        &found.unwrap_or_else(|| panic!("no row {row}: {:?}", self.rows))[place]
    }
}

impl Browser {
    /// What the page of these says.
    fn read(&self, name: &str, documents: &[Document]) -> Read {
        self.read_page(name, &page(documents).unwrap())
    }

    /// What the page says, once whatever must hold of every page was checked.
    fn read_page(&self, name: &str, page: &str) -> Read {
        let page = with_script(page, include_str!("figures.js"));
        let file = self.write(&format!("figures-{name}"), &page);
        let dom = self.dump(&format!("figures-{name}"), &format!("file://{}", file.display()), &[]);
        let outcome = self.outcome(name, &dom, "data-cellpace=\"");
        let read = Read::deserialize(&outcome["read"]).unwrap_or_else(|error| {
            panic!("{name}: {error}: {outcome}");
        });
        for chart in &read.charts {
            assert!(chart.is_whole, "{name}: axes of {}: {}", chart.title, chart.axes);
        }
        assert_eq!(read.mislabelled, [""; 0], "{name}: labels beside another mark");
        assert_eq!(read.odd, [""; 0], "{name}: drawings with numbers that are none");
        let texts = read.sentences.iter().chain(&read.notes).chain(&read.headings);
        for text in texts.chain([&read.title]).chain(read.conditions.values()) {
            for odd in ["NaN", "undefined", "Infinity", ",,", "– %", "of nothing"] {
                assert!(!text.contains(odd), "{name}: {text}");
            }
        }
        read
    }
}

fn document(name: &str, text: &str) -> Document {
    Document::read(name, text).unwrap()
}

fn of(comparison: &Comparison) -> [Document; 1] {
    [document("result.json", &to_json(comparison))]
}

/// Controllers whose percentiles are those of their distributions, as results of runs have it.
fn consistent(mut comparison: Comparison) -> Comparison {
    for run in &mut comparison.runs {
        let Some(series) = &mut run.series else { continue };
        let quantiles: Vec<f32> = series.quantiles.queue_delay_ms.clone();
        if quantiles.len() < 201 {
            continue;
        }
        let at = |percent: usize| f64::from(quantiles[2 * percent]);
        let max = f64::from(quantiles[200]);
        run.figures.queue_delay_ms =
            Summary { p50: at(50), p95: at(95), p99: at(99), max, mean: at(50) };
    }
    comparison
}

fn close(text: &str, value: f64, decimals: usize) {
    let number = text.split([' ', '±']).next().unwrap();
    let found: f64 = number.parse().unwrap_or(f64::NAN);
    let within = 0.500_001 * 10_f64.powi(-(decimals as i32));
    assert!((found - value).abs() <= within, "{text} is not {value}");
}

/// Numbers of a table of results are those of the runs.
fn check_results(read: &Read, comparison: &Comparison) {
    let table = read.table("Results");
    for run in &comparison.runs {
        let figures = &run.figures;
        close(table.cell(&run.cc, "Throughput"), figures.throughput_mbps, 2);
        let utilization = table.cell(&run.cc, "Utilization");
        close(utilization, 100.0 * figures.utilization, 1);
        assert!(utilization.parse::<f64>().unwrap() <= 100.0, "{utilization} of the capacity");
        close(table.cell(&run.cc, "median"), figures.queue_delay_ms.p50, 1);
        close(table.cell(&run.cc, "95 %"), figures.queue_delay_ms.p95, 1);
        let all = figures.packets + figures.lost;
        close(table.cell(&run.cc, "Lost"), 100.0 * figures.lost as f64 / all as f64, 2);
    }
}

#[test]
fn a_comparison_says_what_its_json_has() {
    let Some(browser) = Browser::find() else { return };
    let comparison = consistent(example::large("city-drive.down", 6, 1, 60));
    let read = browser.read("compare", &of(&comparison));
    check_results(&read, &comparison);
    let table = read.table("Results");
    let distribution = read.chart("Distribution").at95.as_ref().unwrap();
    for run in &comparison.runs {
        let p95 = run.figures.queue_delay_ms.p95;
        let drawn = distribution[&run.cc];
        assert!((drawn / p95 - 1.0).abs() < 0.02, "{}: {drawn} is not {p95}", run.cc);
        assert!(read.labels.contains(&run.cc), "{} has a label", run.cc);
        let mean = mean_of(read.chart("Throughput"), &run.cc);
        let rate = run.figures.throughput_mbps;
        assert!((mean / rate - 1.0).abs() < 0.02, "{}: {mean} is not {rate}", run.cc);
    }
    let [sentence] = &read.sentences[..] else { panic!("{:?}", read.sentences) };
    let lead = comparison.runs.iter().find(|run| sentence.contains(&format!("{} keeps", run.cc)));
    let lead = lead.unwrap_or_else(|| panic!("{sentence}"));
    let share = 100.0 * lead.figures.utilization;
    assert!(sentence.contains(&format!("at {share:.0} % of the capacity")), "{sentence}");
    close(table.cell(&lead.cc, "Utilization"), share, 1);
}

fn mean_of(chart: &ReadChart, name: &str) -> f64 {
    let line = chart.lines.iter().find(|line| line.name == name).unwrap();
    let known: Vec<f64> = line.y.iter().flatten().copied().collect();
    known.iter().sum::<f64>() / known.len() as f64
}

#[test]
fn labels_of_crowded_marks_stay_with_their_own() {
    let Some(browser) = Browser::find() else { return };
    let mut crowd = consistent(example::large("city-drive.down", 8, 1, 10));
    for (at, run) in crowd.runs.iter_mut().enumerate() {
        run.figures.throughput_mbps = 8.0 + 0.02 * at as f64;
        run.figures.utilization = 0.9 + 0.002 * at as f64;
        run.figures.queue_delay_ms.p95 = 60.0 + 1.5 * (at % 3) as f64;
    }
    let read = browser.read("crowd", &of(&crowd));
    assert_eq!(read.labels.len(), 8, "{:?}", read.labels);
}

#[test]
fn pages_of_several_seeds_say_which_is_drawn() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = consistent(example::large("shared", 2, 3, 20));
    let first = comparison.runs.clone();
    comparison.runs.clear();
    for (run, seed) in first.iter().flat_map(|run| (1..=4).map(move |seed| (run, seed))) {
        let mut run = run.clone();
        run.seed = seed;
        run.figures.throughput_mbps += 0.1 * seed as f64;
        run.figures.per_flow[0].throughput_mbps = seed as f64;
        comparison.runs.push(run);
    }
    let comparison = Comparison::of(comparison.runs);
    let read = browser.read("seeds", &of(&comparison));
    let repeated = &comparison.repeated[0];
    let cell = read.table("Results").cell(&repeated.cc, "Throughput").to_owned();
    close(&cell, repeated.throughput_mbps.mean, 2);
    assert!(cell.contains("± "), "{cell}");
    // The mean of 1, 2, 3 and 4, and Student's t of three degrees of freedom times its standard error.
    let flows = read.table("Flows that share");
    let name = flows.rows[0][0].clone();
    assert_eq!(flows.cell(&name, "Mbit/s"), "2.50 ± 2.05", "{flows:?}");
    for heading in ["Distribution", "Throughput Mbit/s", "Queue delay ms", "Flows that share"] {
        let found = read.headings.iter().find(|words| words.starts_with(heading));
        let found = found.unwrap_or_else(|| panic!("{heading}: {:?}", read.headings));
        assert!(found.contains("seed 1 alone, of 4"), "{found}");
    }
    for chart in &read.charts {
        assert!(chart.title.contains("seed 1 alone, of 4"), "{}", chart.title);
    }
    assert!(
        read.notes.iter().any(|note| note.contains("The charts are of seed 1 alone, of 4.")),
        "{:?}",
        read.notes
    );
}

fn flow(of: &FlowFigures, cc: &str, mbps: f64) -> FlowFigures {
    FlowFigures { cc: cc.to_owned(), throughput_mbps: mbps, ..of.clone() }
}

/// One run of flows of several kinds, one of them without a controller.
fn shared() -> Comparison {
    let mut comparison = consistent(example::large("shared", 1, 3, 20));
    let run = &mut comparison.runs[0];
    let first = run.figures.per_flow[0].clone();
    run.figures.per_flow = vec![
        flow(&first, "verus", 3.8649),
        flow(&first, "cubic", 1.1351),
        flow(&first, "udp:1mbit", 1.0),
    ];
    run.figures.jain = 0.871;
    run.figures.jain_seconds = Some(18);
    comparison
}

#[test]
fn flows_that_share_a_link_have_the_same_figures_in_sentence_and_table() {
    let Some(browser) = Browser::find() else { return };
    let comparison = shared();
    let read = browser.read("sim", &of(&comparison));
    let table = read.table("Flows that share");
    close(table.cell("1: verus", "Mbit/s"), 3.8649, 2);
    let rate = table.cell("1: verus", "Mbit/s");
    let sentence = &read.sentences[0];
    assert!(
        sentence.contains(&format!("flow 1 (verus) gets the most, {rate} Mbit/s")),
        "{sentence}"
    );
    assert!(sentence.contains("Jain's index among those with a controller is 0.87"), "{sentence}");
    assert!(read.notes.iter().any(|note| note.contains("those of UDP are left out")));
    // The chart has the index of the same two flows as the figure.
    let drawn = read.chart("Jain's index");
    let rates = |name: &str| {
        &read.chart("Throughput").lines.iter().find(|line| line.name == name).unwrap().y
    };
    assert!(drawn.lines[0].y.iter().flatten().all(|index| (0.5..=1.0).contains(index)));
    assert_eq!(rates("1: verus").len(), drawn.lines[0].y.len());

    let mut apart = comparison;
    apart.runs[0].figures.jain = 1.0;
    apart.runs[0].figures.jain_seconds = Some(0);
    let read = browser.read("apart", &of(&apart));
    let sentence = &read.sentences[0];
    assert!(!sentence.contains("Jain's index"), "{sentence}");
    assert!(sentence.contains("no two of them were on for a whole second"), "{sentence}");
    assert_eq!(read.table("Results").cell(&apart.runs[0].cc, "Jain"), "–");
}

/// Runs of a plan of these RTTs and two queues.
pub(super) fn sweep(rtts: &[&str]) -> String {
    let rows = ["copa", "cubic"].iter().flat_map(|cc| {
        rtts.iter().flat_map(move |rtt| {
            ["codel", "droptail"].iter().map(move |queue| {
                let p95 = if *cc == "copa" { 30.0 } else { 400.0 } + rtt.len() as f64;
                serde_json::json!({
                    "schema": "cellpace.runs/1", "cc": cc, "trace": "lte", "seed": 1, "plan_trace": "lte",
                    "plan_rtt": rtt, "plan_queue": queue, "throughput_mbps": 5.0, "utilization": 0.8,
                    "queue_delay_ms_p50": p95 / 2.0, "queue_delay_ms_p95": p95, "packets": 99, "lost": 1,
                })
            })
        })
    });
    rows.map(|row| row.to_string() + "\n").collect()
}

/// Both directions of a link, with two flows of known addresses.
pub(super) fn link() -> Comparison {
    let mut comparison = consistent(example::large("lte-driving", 1, 1, 20));
    let real = |direction| RealTime {
        direction,
        late_p50_us: 40.0,
        late_p99_us: 80.0,
        late_max_us: 900.0,
        asked_mbps: Some(12.0),
        reached_mbps: 7.0,
        lost_by_devices: 0,
        has_priority: true,
    };
    let down = &mut comparison.runs[0];
    (down.cc, down.real_time) = ("sh".to_owned(), Some(real(RealTimeDirection::Down)));
    let flow = down.figures.per_flow[0].clone();
    down.figures.per_flow =
        ["TCP 100.64.0.2:5000 - 192.0.2.1:80", "UDP 100.64.0.2:9 - 192.0.2.7:53"]
            .map(|ends| FlowFigures {
                addresses: ends.to_owned(),
                cc: String::new(),
                ..flow.clone()
            })
            .into();
    down.figures.per_flow[1].throughput_mbps = 1.5;
    let series = down.series.as_mut().unwrap();
    let half: Vec<f32> = series.throughput_mbps.iter().map(|rate| rate / 2.0).collect();
    series.flow_throughput_mbps = vec![half.clone(), half];
    series.cwnd_packets.clear();
    let mut up = down.clone();
    (up.cc, up.real_time) = ("sh (uplink)".to_owned(), Some(real(RealTimeDirection::Up)));
    up.figures.throughput_mbps *= 0.5;
    up.figures.utilization *= 0.5;
    comparison.runs.push(up);
    comparison
}

#[test]
fn the_directions_of_a_link_are_told_apart_and_not_compared() {
    let Some(browser) = Browser::find() else { return };
    let comparison = link();
    let read = browser.read("link", &of(&comparison));
    assert_eq!(read.title, "lte-driving down, lte-driving up: sh");
    let [sentence] = &read.sentences[..] else { panic!("{:?}", read.sentences) };
    assert!(sentence.starts_with("On lte-driving the 2 flows use 91 %"), "{sentence}");
    assert!(sentence.contains("On lte-driving (up) the 2 flows use 45 %"), "{sentence}");
    let least = "flow 2 (UDP 100.64.0.2:9 - 192.0.2.7:53) the least, 1.50 Mbit/s";
    assert!(sentence.contains(least), "{sentence}");
    assert!(read.labels.is_empty(), "no scatter: {:?}", read.labels);
    assert!(!read.headings.contains(&"Controllers and traces".to_owned()), "{:?}", read.headings);
    check_results(&read, &Comparison::of(vec![comparison.runs[0].clone()]));

    // Flows by address, stacked under the capacity.
    let flows = read.table("Flows that share");
    assert_eq!(flows.rows[0][0], "1: TCP 100.64.0.2:5000 - 192.0.2.1:80");
    let shares = read.chart("Shares");
    assert_eq!(shares.lines.len(), 2);
    let is_whole = |chart: &&ReadChart| {
        chart.title.starts_with("Throughput") && chart.lines.iter().any(|line| line.name == "sh")
    };
    let whole = &read.charts.iter().find(is_whole).unwrap().lines[0].y;
    let close = |(sum, rate): (&Option<f64>, &Option<f64>)| {
        (sum.unwrap_or(0.0) - rate.unwrap_or(0.0)).abs() < 0.02
    };
    assert!(shares.lines[0].y.iter().zip(whole).all(close), "they add up");

    // A link without a limit has no capacity of which there could be a share.
    let mut free = link();
    free.runs.truncate(1);
    let run = &mut free.runs[0];
    (run.figures.capacity_mbps, run.figures.utilization) = (0.0, 0.0);
    let rate = run.figures.throughput_mbps;
    let read = browser.read("unlimited", &of(&free));
    let sentence = &read.sentences[0];
    assert!(sentence.contains(&format!("get {rate:.2} Mbit/s")), "{sentence}");
    assert!(!sentence.contains("capacity"), "{sentence}");
    assert_eq!(read.table("Results").cell("sh", "Utilization"), "–");
}

/// Two controllers, one transfer each.
pub(super) fn transfers() -> Comparison {
    let mut comparison = consistent(example::large("constant:100mbit", 2, 1, 20));
    for (run, seconds) in comparison.runs.iter_mut().zip([8.9, 29.7]) {
        let begun = Transfer::begun(0, &run.cc, 0, 100_000_000, 0.0);
        let outcome = TransferOutcome::Complete;
        let completion_ms = Some(1000.0 * seconds);
        run.transfers = vec![Transfer { completion_ms, outcome, ..begun }];
    }
    comparison
}

#[test]
fn transfers_are_told_by_their_times() {
    let Some(browser) = Browser::find() else { return };
    let comparison = transfers();
    let read = browser.read("transfers", &of(&comparison));
    assert_eq!(
        read.sentences,
        ["On constant:100mbit verus:r=2 completes its transfer in 8.9 s; cubic takes 30 s."]
    );
    // The question of the page comes first.
    assert_eq!(read.headings.iter().find(|words| **words != read.title).unwrap(), "Transfers");
    let [verus, cubic] = &read.chart("Completion time").lines[..] else { panic!("{read:?}") };
    assert_eq!((verus.x[0], cubic.x[0]), (8.9, 29.7));
    assert_eq!(read.table("Transfers").cell("cubic", "time p50, s"), "29.7");
    assert_eq!(read.conditions["Traffic"], "transfers of 100 MB");
}

/// Two controllers, a video each.
pub(super) fn videos() -> Comparison {
    let mut comparison = consistent(example::large("lte-driving", 2, 1, 20));
    for (run, (late, freezes)) in comparison.runs.iter_mut().zip([(0.012, 1), (0.43, 9)]) {
        let delay = Summary { p50: 40.0, p95: 80.0, p99: 120.0, max: 300.0, mean: 45.0 };
        run.figures.per_flow[0].video = Some(VideoFigures {
            frames: 600,
            bitrate_mbps: 2.5,
            frame_delay_ms: delay,
            incomplete: 3,
            discarded: 0,
            deadline_ms: 150.0,
            late,
            late_100ms: late,
            late_200ms: late,
            freezes,
            frozen_s: 2.0,
            rate_change_mbps_per_s: 0.1,
        });
    }
    comparison
}

#[test]
fn videos_are_told_by_their_late_frames() {
    let Some(browser) = Browser::find() else { return };
    let comparison = videos();
    let read = browser.read("video", &of(&comparison));
    assert_eq!(
        read.sentences,
        [
            "On lte-driving 1.2 % of the frames of verus:r=2 are late, 95 % come within 80 ms, with 1.0 freezes; \
          of cubic 43.0 %, with 9.0 freezes."
        ]
    );
    assert_eq!(read.chart("Late frames").lines[0].y, [Some(1.2), Some(43.0)]);
    assert_eq!(read.table("Frames").cell("cubic", "freezes"), "9");
    assert_eq!(read.conditions["Traffic"], "video, frames late after 150 ms");
}

/// 25 flows of one controller, of 1, 2, ... Mbit/s.
pub(super) fn many() -> Comparison {
    let mut comparison = consistent(example::large("lte-driving", 1, 25, 20));
    for (at, flow) in comparison.runs[0].figures.per_flow.iter_mut().enumerate() {
        flow.throughput_mbps = 1.0 + at as f64;
    }
    let series = comparison.runs[0].series.as_mut().unwrap();
    for (at, flow) in series.flow_throughput_mbps.iter_mut().enumerate() {
        flow.fill(1.0 + at as f32);
    }
    comparison.runs[0].path = [("handover".to_owned(), "10s/200ms".to_owned())].into();
    comparison
}

#[test]
fn many_flows_are_told_by_how_they_share() {
    let Some(browser) = Browser::find() else { return };
    let comparison = many();
    let read = browser.read("many", &of(&comparison));
    // Over time as bands, and Jain's index of 1, 2, ..., 25: 325² / (25 · 5525).
    let over_time: Vec<&ReadChart> =
        read.charts.iter().filter(|chart| chart.lines.iter().any(|l| l.name == "25 %")).collect();
    let [bands] = &over_time[..] else { panic!("{:?}", read.charts) };
    let at = |name: &str| bands.lines.iter().find(|line| line.name == name).unwrap().y[3];
    assert_eq!([at("5 %"), at("25 %"), at("median")], [Some(2.2), Some(7.0), Some(13.0)]);
    assert_eq!([at("75 %"), at("95 %")], [Some(19.0), Some(23.8)]);
    let jain = read.chart("Jain's index").lines[0].y[3].unwrap();
    assert!((jain - 0.7647).abs() < 1e-3, "{jain}");
    let rates = &read.chart("Rate of the flows").lines[0];
    assert_eq!((rates.x.len(), rates.x[24], rates.y[24]), (25, 25.0, Some(100.0)));
    assert_eq!(read.table("Rates").cell("verus:r=2", "p50"), "13");
    assert_eq!(read.conditions["Handover"], "10s/200ms");
}

#[test]
fn a_controller_looks_alike_on_every_page_and_of_many_one_is_highlighted() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = consistent(example::large("lte-driving", 4, 1, 20));
    let read = browser.read("looks", &of(&comparison));
    let cubic = read.looks["cubic"].clone();
    let throughput = read.chart("Throughput");
    assert_eq!(throughput.lines.iter().filter(|line| line.pale).count(), 3, "all but one");
    comparison.runs.reverse();
    comparison.runs.truncate(3);
    let read = browser.read("looks-other", &of(&comparison));
    assert_eq!(read.looks["cubic"], cubic);
    assert!(cubic.contains("var(") || cubic.contains('#'), "{cubic}");
    assert!(read.chart("Throughput").lines.iter().all(|line| !line.pale));
}

/// The log of a command with two connections under `cc`.
fn logged_connections(cc: &str) -> Document {
    let lines = (1..=2).map(|flow| {
        let mut one = value(include_str!("run.json")).remove(0);
        (one["cc"], one["flow"]) = (cc.into(), flow.into());
        one["series"] = serde_json::json!({
            "bin_s": 0.5, "throughput_mbps": [1.0, 2.0, 3.0], "rtt_ms": [50.0, 60.0, 70.0], "cwnd_bytes": [1e4, 2e4, 3e4],
        });
        one.to_string() + "\n"
    });
    document(&format!("{cc}.jsonl"), &lines.collect::<String>())
}

#[test]
fn connections_under_two_controllers_look_like_them() {
    let Some(browser) = Browser::find() else { return };
    let comparison = consistent(example::large("lte-driving", 3, 1, 20));
    let known = browser.read("looks-known", &of(&comparison)).looks;
    let all = [logged_connections("cubic"), logged_connections("copa")];
    let looks = browser.read("looks-connections", &all).looks;
    for flow in ["flow 1", "flow 2"] {
        assert_eq!(looks[&format!("cubic: {flow}")], known["cubic"]);
        assert_eq!(looks[&format!("copa: {flow}")], known["copa:delta=0.1"]);
    }
    // Of one result alone the connection that brought most has the look.
    let alone = browser.read("looks-alone", &all[1..]).looks;
    assert_eq!(alone["flow 1"], known["copa:delta=0.1"]);
    assert_ne!(alone["flow 2"], alone["flow 1"]);
}

fn value(text: &str) -> Vec<Value> {
    serde_json::Deserializer::from_str(text).into_iter().map(Result::unwrap).collect()
}

#[test]
fn send_and_recv_say_what_their_json_has() {
    let Some(browser) = Browser::find() else { return };
    let text = include_str!("transfer.json");
    let json = &value(text)[0];
    for (name, text) in [
        ("send", text.to_owned()),
        ("recv", text.replace("\"role\": \"send\"", "\"role\": \"recv\"")),
    ] {
        let read = browser.read(name, &[document("t.json", &text)]);
        let table = read.table("Flows");
        let flows = json["flows"].as_array().unwrap();
        assert_eq!(table.rows.len(), flows.len());
        let mut goodput = 0.0;
        for (flow, row) in flows.iter().zip(&table.rows) {
            let column = table.header.iter().position(|name| name.starts_with("goodput")).unwrap();
            assert_eq!(row[column], cellpace_report::short(flow["goodput_mbps"].as_f64().unwrap()));
            goodput += flow["goodput_mbps"].as_f64().unwrap();
        }
        let rate = cellpace_report::short(goodput);
        assert!(read.sentences[0].contains(&format!("{rate} Mbit/s")), "{:?}", read.sentences);
        assert_eq!(read.chart("Throughput").lines.len(), flows.len());
    }
}

#[test]
fn connections_say_what_their_json_has() {
    let Some(browser) = Browser::find() else { return };
    let run = include_str!("run.json");
    for (name, text) in [
        ("run", run.to_owned()),
        ("proxy", run.replace("cellpace.run/1", "cellpace.proxy/1")),
        ("attach", include_str!("attach.json").to_owned()),
    ] {
        let connections = value(&text);
        let read = browser.read(name, &[document("c.jsonl", &text)]);
        let table = read.table("Connections");
        assert_eq!(table.rows.len(), connections.len(), "{name}");
        let mut total = 0.0;
        for connection in &connections {
            let number = |field: &str| connection[field].as_f64().unwrap();
            let rate = number("acked_bytes") * 8e-6 / number("duration_s");
            let row = connection["flow"].to_string();
            assert_eq!(table.cell(&row, "Mbit/s"), cellpace_report::short(rate), "{name}");
            assert_eq!(table.cell(&row, "RTT"), cellpace_report::short(number("rtt_ms")), "{name}");
            total += number("acked_bytes");
        }
        if connections.len() > 1 {
            let rates = &read.chart("Rate of the connections").lines[0];
            assert_eq!((rates.x.len(), rates.y.last()), (connections.len(), Some(&Some(100.0))));
        }
        let megabytes = cellpace_report::short(total / 1e6);
        assert!(read.sentences[0].contains(&format!("{megabytes} MB")), "{:?}", read.sentences);
    }
}

/// The log of one run of two flows: every packet takes 50 ms, and every hundredth is lost.
#[cfg(feature = "parquet")]
fn logged(write: impl FnOnce(&mut cellpace_report::PacketLog)) -> Document {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("log.parquet");
    let mut log = cellpace_report::PacketLog::create(&path).unwrap();
    write(&mut log);
    log.finish().unwrap();
    Document::read_parquet("log.parquet", &std::fs::File::open(&path).unwrap()).unwrap()
}

/// A packet every 500 microseconds, which takes 50 ms, and the ack 30 ms more.
#[cfg(feature = "parquet")]
pub(super) fn packets(count: u64) -> Document {
    use cellpace_base::{Span, Time};
    use cellpace_path::{DropReason, Fate, Packet, PacketRecord};
    logged(|log| {
        for number in 0..count {
            let sent = Time::ZERO + Span::from_micros(500 * number);
            let left = sent + Span::from_millis(50);
            let (flow, cc) = if number % 4 == 3 { (1, "cubic") } else { (0, "copa") };
            let is_lost = number % 100 == 0;
            let fate = if is_lost { Fate::Dropped(DropReason::Overflow) } else { Fate::Delivered };
            let times = Packet::new(number, flow, 1250, sent);
            let packet =
                Packet { enqueued_at: sent, dequeued_at: left, departed_at: left, ..times };
            log.push(0, cc, &PacketRecord { packet, fate }).unwrap();
            let window = 150_000 + 1_250 * (number % 64);
            let ack = cellpace_report::PacketAck {
                at: left + Span::from_millis(30),
                in_flight: 120_000,
                cwnd: Some(window),
                // Copa's is its window; the other one gets some more.
                permit: Some(window - 120_000 + if flow == 1 { 5_000 } else { 0 }),
            };
            if !is_lost {
                log.ack(flow, number, ack);
            }
        }
    })
}

#[cfg(feature = "parquet")]
#[test]
fn packets_of_a_flow_are_drawn_in_their_order_and_opened_from_its_line() {
    let Some(browser) = Browser::find() else { return };
    let document = packets(20_000);
    let read = browser.read("packets", std::slice::from_ref(&document));
    let chart = read.chart("Time sequence, flow 0: copa");
    let [sent, arrived, acknowledged, window] = &chart.lines[..] else { panic!("{chart:?}") };
    let names = chart.lines.iter().map(|line| line.name.as_str()).collect::<Vec<_>>();
    assert_eq!(names, ["sent", "arrived", "acknowledged", "window"], "its permit is its window");
    // Three of four packets are of the first flow, and all that are lost, 200.
    assert_eq!(sent.x.len(), 15_000 - 200);
    assert_eq!(sent.y.last().unwrap().map(|mb| (mb * 1e3).round()), Some(14_800.0 * 1.25));
    for (sent, arrived) in sent.x.iter().zip(&arrived.x) {
        assert!((arrived - sent - 0.05).abs() < 2e-5, "{sent} {arrived}");
    }
    assert_eq!(acknowledged.y, arrived.y);
    for (acked, arrived) in acknowledged.x.iter().zip(&arrived.x) {
        assert!((acked - arrived - 0.03).abs() < 2e-5, "{arrived} {acked}");
    }
    let numbers = (0..20_000).filter(|number| number % 4 != 3 && number % 100 != 0);
    assert_eq!(window.x, acknowledged.x);
    for ((above, acked), number) in window.y.iter().zip(&acknowledged.y).zip(numbers) {
        let kb = (above.unwrap() - acked.unwrap()) * 1e3;
        assert!((kb - 150.0 - 1.25 * f64::from(number % 64)).abs() < 1e-6, "packet {number}: {kb}");
    }
    assert!(read.notes.iter().any(|note| note.contains("which is all that was let be on the way")));
    // A click on the other flow's line at 5 s.
    let script = "setTimeout(() => { \
        const part = [...document.querySelectorAll('main section')].find((part) => part.textContent.startsWith('Throughput of each flow')); \
        const plot = part.querySelector('.chart-place').plot; const over = plot.over; const box = over.getBoundingClientRect(); \
        const k = plot.chart.lines.findIndex((line) => line.name === 'flow 1: cubic'); const idx = plot.valToIdx(5); \
        const at = { bubbles: true, clientX: box.left + plot.valToPos(5, 'x'), clientY: box.top + plot.valToPos(plot.data[k + 1][idx], 'y') }; \
        for (const type of ['mouseenter', 'mousemove', 'mousedown', 'mouseup', 'click']) over.dispatchEvent(new MouseEvent(type, at)); \
        setTimeout(() => { const { chart, scales } = document.querySelector('.sequence').plot; \
        const last = (name) => chart.lines.find((line) => line.name === name).y.at(-1); \
        cellpace.opened = { title: chart.title, min: scales.x.min, max: scales.x.max, beyond: 1e3 * (last('permitted') - last('window')) }; \
        document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }, 50); }, 100);";
    let page = page(&[document]).unwrap();
    let file = browser.write("sequence", &with_script(&page, script));
    let dom = browser.dump("sequence", &format!("file://{}", file.display()), &[]);
    let seen = browser.outcome("sequence", &dom, "data-cellpace=\"");
    let opened = &seen["opened"];
    assert_eq!(opened["title"], "Time sequence, flow 1: cubic");
    let [min, max] = ["min", "max"].map(|end| opened[end].as_f64().unwrap());
    assert!(min < 5.0 && max > 5.0 && max - min < 2.0, "{opened}");
    assert!((opened["beyond"].as_f64().unwrap() - 5.0).abs() < 1e-6, "{opened}");
}

/// Runs of the controllers of `comparison`, 100 packets a second.
#[cfg(feature = "parquet")]
fn packets_of(comparison: &Comparison) -> Document {
    use cellpace_base::{Span, Time};
    use cellpace_path::{Fate, Packet, PacketRecord};
    logged(|log| {
        for (run, each) in (0..).zip(&comparison.runs) {
            for number in 0..2_000 {
                let packet =
                    Packet::new(number, 0, 1500, Time::ZERO + Span::from_millis(10 * number));
                log.push(run, &each.cc, &PacketRecord { packet, fate: Fate::Delivered }).unwrap();
            }
        }
    })
}

#[cfg(feature = "parquet")]
#[test]
fn packets_are_opened_from_an_event_and_a_line_of_their_comparison() {
    let Some(browser) = Browser::find() else { return };
    let comparison = example::large("city-drive.down", 3, 1, 20);
    let [result] = of(&comparison);
    let all = [result, packets_of(&comparison)];
    // Charts take what is asked of them a moment later.
    let script = "setTimeout(async () => { \
        const rest = () => new Promise((then) => setTimeout(then, 20)); \
        const place = document.querySelector('#throughput .chart'); const plot = () => place.plot; \
        const seen = () => { const { chart, scales } = document.querySelector('.sequence').plot; \
            return { title: chart.title, middle: (scales.x.min + scales.x.max) / 2 }; }; \
        const k = plot().chart.lines.findIndex((line) => line.name === 'cubic'); \
        const at = plot().chart.lines[k].events.find((event) => event.name === 'timeout').at[0]; \
        const value = plot().data[k + 1][plot().valToIdx(at)]; const box = plot().over.getBoundingClientRect(); \
        const mouse = { bubbles: true, clientX: box.left + plot().valToPos(at, 'x') + 3, clientY: box.top + plot().valToPos(value, 'y') + 3 }; \
        for (const type of ['mouseenter', 'mousemove', 'mousedown', 'mouseup', 'click']) plot().over.dispatchEvent(new MouseEvent(type, mouse)); \
        await rest(); cellpace.event = { ...seen(), at }; \
        place.focus(); place.dispatchEvent(new KeyboardEvent('keydown', { key: 'End', bubbles: true })); \
        for (let i = 0; i < 16; i++) place.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowLeft', bubbles: true })); \
        const last = plot().chart.lines.findIndex((line) => line.name.startsWith('copa')); \
        plot().setCursor({ left: plot().cursor.left, top: plot().valToPos(plot().data[last + 1][plot().cursor.idx], 'y') }); \
        place.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true })); \
        await rest(); cellpace.line = seen(); \
        document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }, 100);";
    let open = |name: &str, documents: &[Document]| {
        let page = page(documents).unwrap();
        assert!(page.len() < 1_500_000, "{}", page.len());
        let file = browser.write(name, &with_script(&page, script));
        let dom = browser.dump(name, &format!("file://{}", file.display()), &[]);
        browser.outcome(name, &dom, "data-cellpace=\"")
    };
    let seen = open("opened", &all);
    assert_eq!(seen["event"]["title"], "Time sequence, run 1, flow 0: cubic");
    let middle = |of: &Value| of["middle"].as_f64().unwrap();
    let at = seen["event"]["at"].as_f64().unwrap();
    assert!((middle(&seen["event"]) - at).abs() < 0.02, "{seen}");
    assert_eq!(seen["line"]["title"], "Time sequence, run 2, flow 0: copa:delta=0.1");
    assert!((middle(&seen["line"]) - 13.6).abs() < 0.5, "{seen}");

    // A log of other controllers is not that of these runs.
    let mut others = comparison;
    others.runs.rotate_left(1);
    let seen = open("not-opened", &[all[0].clone(), packets_of(&others)]);
    assert_eq!(seen["event"]["title"], "Time sequence, run 0, flow 0: cubic");
}

#[cfg(feature = "parquet")]
#[test]
fn a_million_packets_are_a_page_that_moves() {
    let Some(browser) = Browser::find() else { return };
    let page = page(&[packets(1_000_000)]).unwrap();
    assert!(page.len() < 1_500_000, "{}", page.len());
    let script = "setTimeout(() => { const plot = document.querySelector('.sequence').plot; \
        cellpace.points = plot.chart.lines[0].x.length; cellpace.note = document.querySelector('#sequence .note').textContent; \
        const begun = performance.now(); \
        for (let i = 0; i < 10; i++) { plot.setScale('x', { min: i, max: 400 - i }); plot.redraw(); } \
        cellpace.frameMs = (performance.now() - begun) / 10; \
        document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }, 100);";
    let file = browser.write("million", &with_script(&page, script));
    let dom = browser.dump("million", &format!("file://{}", file.display()), &[]);
    let seen = browser.outcome("million", &dom, "data-cellpace=\"");
    println!("a million packets: {} bytes, {} ms a frame", page.len(), seen["frameMs"]);
    assert!(seen["points"].as_u64().unwrap() > 20_000, "{seen}");
    assert!(seen["note"].as_str().unwrap().contains("One of 32 packets is drawn"), "{seen}");
}

#[test]
fn a_thousand_connections_are_searched_and_sorted() {
    let Some(browser) = Browser::find() else { return };
    let first = value(include_str!("run.json")).remove(0);
    let lines = (1..=1_000).map(|number| {
        let mut one = first.clone();
        // One a second, each for a minute: the longer it goes on, the less it gets.
        one["start_s"] = number.into();
        let rates: Vec<f64> = (0..60).map(|second| f64::from(60 - second)).collect();
        let rtts: Vec<f64> = rates.iter().map(|rate| 40.0 + rate).collect();
        one["series"] = serde_json::json!({
            "bin_s": 1.0, "throughput_mbps": rates, "rtt_ms": rtts, "cwnd_bytes": vec![1e4; 60],
        });
        one["flow"] = number.into();
        one["peer"] = format!("198.51.100.{}:{}", number % 250, 10_000 + number).into();
        one["acked_bytes"] = (number * 1_000_000).into();
        one.to_string() + "\n"
    });
    let all = [document("many.jsonl", &lines.collect::<String>())];
    let page = page(&all).unwrap();
    assert!(page.len() < 1_500_000, "{}", page.len());
    // Once the first has ended there are sixty at each moment, one of each age.
    let read = browser.read_page("thousand-read", &page);
    let sum = &read.chart("Throughput of all connections").lines[0];
    let at = |line: &ReadLine, second: f64| {
        line.y[line.x.iter().position(|x| *x >= second).unwrap()].unwrap()
    };
    assert!((at(sum, 500.0) - 1830.0).abs() < 35.0, "{}", at(sum, 500.0));
    let total: f64 = sum.y.iter().flatten().sum::<f64>() * (sum.x[1] - sum.x[0]);
    assert!((total / 1_830_000.0 - 1.0).abs() < 0.01, "{total}");
    for (title, base) in [("Throughput of a connection", 0.0), ("RTT of a connection", 40.0)] {
        let chart = read.chart(title);
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["5 %", "25 %", "median", "75 %", "95 %"]);
        for (line, share) in chart.lines.iter().zip([0.05, 0.25, 0.5, 0.75, 0.95]) {
            let expected = base + 1.0 + 59.0 * share;
            assert!((at(line, 500.0) - expected).abs() < 2.0, "{title} {}: {expected}", line.name);
        }
    }
    assert_eq!(
        read.chart("Throughput over time").lines[0].x[0],
        1000.0,
        "the one that brought most"
    );
    let script = "setTimeout(() => { const rows = () => [...document.querySelectorAll('.tall tbody tr')].filter((row) => !row.hidden); \
        const head = (name) => [...document.querySelectorAll('.tall thead th button')].find((button) => button.textContent === name); \
        head('acknowledged').click(); cellpace.most = rows()[0].cells[0].textContent; \
        head('acknowledged').click(); cellpace.least = rows()[0].cells[0].textContent; \
        const field = document.querySelector('input[type=search]'); field.value = ':10777'; field.dispatchEvent(new Event('input')); \
        cellpace.found = rows().map((row) => row.cells[0].textContent); \
        cellpace.count = field.closest('.head').querySelector('small').textContent; \
        document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }, 60);";
    let file = browser.write("thousand", &with_script(&page, script));
    let dom = browser.dump("thousand", &format!("file://{}", file.display()), &[]);
    let seen = browser.outcome("thousand", &dom, "data-cellpace=\"");
    assert_eq!((&seen["most"], &seen["least"]), (&"1000".into(), &"1".into()));
    assert_eq!(
        (&seen["found"], &seen["count"]),
        (&serde_json::json!(["777"]), &"1 of 1000".into())
    );
}

/// Records of 40 slots of two arms.
pub(super) fn experiment() -> String {
    let mut text = r#"{"schema":"cellpace.experiment/1","experiment":"trial","kind":"start","version":"1","assign":"time","slot_s":600.0,"washout_s":0.0,"share":1.0,"arms":[{"name":"bbr","cc":null,"tcp":"bbr"},{"name":"pace","cc":"pace","tcp":null}]}"#.to_owned();
    for number in 0..400 {
        let (slot, arm) = (number / 10, ["bbr", "pace"][number / 10 % 2]);
        let delay = if arm == "bbr" { 300 } else { 100 } + 7 * number % 90;
        text += &format!(
            "\n{}",
            serde_json::json!({
                "schema": "cellpace.experiment/1", "experiment": "trial", "kind": "connection", "arm": arm,
                "slot": slot, "client": "c", "start_s": 1.0, "duration_s": 1.0, "driver": "gate",
                "outcome": "finished", "acked_bytes": 5_000_000, "received_bytes": 1,
                "tcp_sent_bytes": 5_000_000, "retransmitted_bytes": number, "goodput_mbps": 8.0,
                "first_byte_ms": 1.0, "min_rtt_ms": 40.0, "rtt_p50_ms": 50.0, "rtt_p95_ms": 60.0,
                "queue_delay_p50_ms": 10.0, "queue_delay_p95_ms": delay,
            })
        );
    }
    text
}

#[test]
fn an_experiment_says_what_its_json_has() {
    let Some(browser) = Browser::find() else { return };
    let document = document("e.jsonl", &experiment());
    let result = document.experiment().unwrap().unwrap();
    let read = browser.read("experiment", &[document]);
    let table = read.table("All connections");
    let figures = &result.comparisons[0].groups[0].figures;
    assert_eq!(table.rows.len(), figures.len());
    for (figure, row) in figures.iter().zip(&table.rows) {
        let short = cellpace_report::short;
        assert_eq!(row[1..3], [short(figure.control.value), short(figure.arm.value)], "{row:?}");
    }
    let delay = cellpace_report::short(figures[0].arm.value);
    assert!(read.sentences[0].contains(&format!("→ {delay} ms")), "{:?}", read.sentences);
    assert_eq!(read.table("Arms").rows.len(), result.arms.len());
}

#[test]
fn a_sweep_says_what_its_runs_have() {
    let Some(browser) = Browser::find() else { return };
    let text = sweep(&["20ms", "80ms"]);
    let read = browser.read("plan", &[document("plan.jsonl", &text)]);
    let table = read.table("Each condition");
    let runs = value(&text);
    assert_eq!(table.rows.len(), runs.len());
    let column = |name: &str| table.header.iter().position(|one| one.starts_with(name)).unwrap();
    for run in &runs {
        let of = |name: &str| run[name].as_str().unwrap();
        let is_its = |row: &&Vec<String>| {
            row[0] == of("cc")
                && row[column("rtt")] == of("plan_rtt")
                && row[column("queue")] == of("plan_queue")
        };
        let row = table.rows.iter().find(is_its).unwrap();
        let p95 = run["queue_delay_ms_p95"].as_f64().unwrap();
        assert_eq!(row[column("p95")], cellpace_report::short(p95), "{row:?}");
        let percent = 100.0 * run["utilization"].as_f64().unwrap();
        assert_eq!(row[column("utilization")], cellpace_report::short(percent), "{row:?}");
    }
    let frontier = read.chart("Utilization against queue delay");
    for (line, (name, p95)) in frontier.lines.iter().zip([("copa", 34.0), ("cubic", 404.0)]) {
        assert_eq!((&*line.name, line.y[0].map(f64::round)), (name, Some(80.0)));
        assert!((line.x[0] - p95).abs() < 1e-6, "{line:?}");
    }
    assert!(read.headings.contains(&"copa: 95th percentile of the queue delay".to_owned()));
    assert!(read.sentences[0].contains("copa keeps 95 % of the packets below 34 ms at 80 %"));
    assert!(
        read.sentences[0].starts_with("Of 2 controllers, copa (1) has the best mean rank by delay")
    );
    let matrix = read.table("Controllers and conditions");
    assert_eq!(
        (matrix.rows.len(), &*matrix.header[1], &*matrix.rows[0][0]),
        (2, "Mean rank", "copa")
    );
    assert_eq!(["copa", "cubic"].map(|cc| matrix.cell(cc, "Mean rank")), ["1.0", "2.0"]);
    assert_eq!(matrix.cell("cubic", "rtt 80ms, droptail"), "404.0");
    assert_eq!(read.table("Over all conditions").cell("cubic", "mean rank by delay"), "2");
}

#[test]
fn a_matrix_of_many_conditions_stands_on_its_side() {
    let Some(browser) = Browser::find() else { return };
    let text = sweep(&["10ms", "20ms", "30ms", "40ms", "50ms"]);
    let read = browser.read("conditions", &[document("plan.jsonl", &text)]);
    let matrix = read.table("Controllers and conditions");
    assert_eq!(matrix.header, ["Condition", "copa", "cubic"]);
    assert_eq!((matrix.rows.len(), matrix.cell("Mean rank", "copa")), (12, "1.0"));
    assert_eq!(matrix.cell("rtt 50ms, codel", "cubic"), "404.0");
}

#[test]
fn a_probe_says_what_its_json_has() {
    let Some(browser) = Browser::find() else { return };
    let text = include_str!("probe.json");
    let json = &value(text)[0];
    let read = browser.read("probe", &[document("p.json", text)]);
    let all: Vec<&String> =
        read.tables.iter().flat_map(|table| table.rows.iter().flatten()).collect();
    for direction in ["up", "down"].iter().filter(|direction| json[**direction].is_object()) {
        let figures = &json[direction];
        for field in ["/throughput_mbps", "/delay_ms/p95"] {
            let figure = cellpace_report::short(figures.pointer(field).unwrap().as_f64().unwrap());
            assert!(
                all.iter().any(|cell| cell.starts_with(&figure)),
                "{direction}{field} {figure}: {all:?}"
            );
        }
    }
    assert!(!read.sentences[0].is_empty());
}

#[test]
fn a_markov_table_says_what_its_json_has() {
    let Some(browser) = Browser::find() else { return };
    let text = include_str!("table.json");
    let read = browser.read("table", &[document("t.json", text)]);
    let used = &value(text)[0]["most_used"][0];
    let shown: Vec<&String> =
        read.tables.iter().flat_map(|table| table.rows.iter().flatten()).collect();
    assert!(shown.contains(&&used["transitions"].to_string()), "{shown:?}");
}

#[test]
fn each_figure_of_a_conformance_has_its_own_verdict() {
    let Some(browser) = Browser::find() else { return };
    let text = include_str!("conform.json");
    let json = &value(text)[0];
    let read = browser.read("conform", &[document("c.json", text)]);
    let table = read.table("Verdicts");
    let scenarios = json["scenarios"].as_array().unwrap();
    let checks = scenarios.iter().flat_map(|scenario| {
        scenario["checks"].as_array().unwrap().iter().map(move |check| (scenario, check))
    });
    for ((scenario, check), row) in checks.zip(&table.rows) {
        assert_eq!(row[0], scenario["name"].as_str().unwrap());
        assert_eq!(row[1], if check["passed"] == true { "pass" } else { "fail" }, "{row:?}");
        assert_eq!(row[2], check["figure"].as_str().unwrap());
        let measured = cellpace_report::short(check["value"].as_f64().unwrap());
        assert!(row[4].starts_with(&measured), "{row:?}");
    }
    let passed = scenarios.iter().filter(|scenario| scenario["verdict"] == "pass").count();
    let said = format!("passes {passed} of {} scenarios", scenarios.len());
    assert!(read.sentences[0].contains(&said), "{:?}", read.sentences);
}

#[test]
fn a_paper_draws_distributions_that_hold_a_zero() {
    let Some(browser) = Browser::find() else { return };
    let text = include_str!("claims.json");
    let mut json = value(text).remove(0);
    let chart = serde_json::json!({
        "kind": "cdf", "title": "Gaps", "unit": "Share", "x_label": "gap [ms]", "caption": "", "log": "x",
        "lines": [{ "name": "a", "x": [0.0, 0.0, 12.0, 55.0], "y": [0.25, 0.5, 0.75, 1.0] }],
        "names": [], "table": null,
    });
    let charts = json["claims"][0]["charts"].as_array_mut().unwrap();
    charts.push(chart);
    let read = browser.read("paper", &[document("p.json", &json.to_string())]);
    let drawn = read.chart("Share");
    assert_eq!(drawn.lines[0].y.len(), 4);
    assert!(read.notes.iter().any(|note| note.contains("0 stands at 10.")), "{:?}", read.notes);
}

#[test]
fn results_of_several_kinds_keep_their_own_titles_and_sentences() {
    let Some(browser) = Browser::find() else { return };
    let comparison = consistent(example::large("city-drive.down", 2, 1, 20));
    let all = [
        document("c.json", &to_json(&comparison)),
        document("t.json", include_str!("transfer.json")),
        document("p.json", include_str!("probe.json")),
    ];
    let read = browser.read("joined", &all);
    assert_eq!(read.title, "A comparison, a UDP transfer and a probe");
    assert_eq!(read.sentences.len(), 3, "{:?}", read.sentences);
    assert!(read.headings.contains(&"city-drive.down: 2 controllers".to_owned()));
    check_results(&read, &comparison);

    // Other controllers on another trace: nothing can be said over both.
    let mut other = consistent(example::large("walk.down", 1, 1, 20));
    other.runs[0].cc = "copa".to_owned();
    let both = [document("a.json", &to_json(&comparison)), document("b.json", &to_json(&other))];
    let read = browser.read("two-traces", &both);
    let sentence = &read.sentences[0];
    assert!(
        sentence.contains("On city-drive.down ") && sentence.contains("On walk.down "),
        "{sentence}"
    );
}

#[test]
fn a_matrix_of_many_traces_stands_on_its_side() {
    let Some(browser) = Browser::find() else { return };
    let mut all = Vec::<Run>::new();
    for trace in 0..20 {
        let mut one = consistent(example::large(&format!("trace-{trace}"), 8, 1, 5));
        one.runs
            .iter_mut()
            .for_each(|run| run.figures.queue_delay_ms.p95 = 18_677.8 - f64::from(trace));
        all.extend(one.runs);
    }
    let comparison = Comparison::of(all);
    let read = browser.read("matrix", &of(&comparison));
    let matrix = read.table("Controllers and traces");
    assert_eq!((matrix.rows.len(), matrix.header.len()), (22, 9), "{:?}", matrix.header);
    // All are alike on every trace.
    assert_eq!((&*matrix.rows[0][0], matrix.cell("Mean rank", "cubic")), ("Mean rank", "4.5"));
    assert_eq!(matrix.cell("Mean", "cubic"), "18668");
    assert_eq!(matrix.cell("trace-3", "cubic"), "18675");
    let note = read.notes.iter().find(|note| note.contains("the better on its trace")).unwrap();
    assert!(note.starts_with("The more colour"), "in the dark the best is the lightest: {note}");
}

#[test]
fn a_difference_has_the_figures_of_its_json() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = example::repeated();
    comparison.runs[0].figures.queue_delay_ms.p95 += 0.3;
    for series in comparison.runs.iter_mut().filter_map(|run| run.series.as_mut()) {
        series.quantiles.rtt_ms_seen = vec![41.0, 60.0, 90.0];
    }
    let difference = ResultDifference::of(&of(&comparison)).unwrap();
    let read = browser.read_page("difference", &difference.page());
    assert_eq!(read.sentences, std::slice::from_ref(&difference.sentence));
    let table = read.table("Differences");
    for (figure, row) in difference.figures.iter().zip(&table.rows) {
        let shown = [&row[1], &row[2]].map(|cell| cell.parse::<f64>().unwrap());
        for (shown, value) in shown.into_iter().zip([figure.a, figure.b]) {
            assert!((shown - value).abs() <= 0.005 * value.abs() + 1e-4, "{row:?} {figure:?}");
        }
        let is_sure = figure.interval.is_some_and(|[low, high]| low * high > 0.0);
        assert_eq!(row[4].ends_with(" *"), is_sure, "{row:?}");
    }
    assert_eq!(table.rows.iter().filter(|row| row[4].ends_with(" *")).count(), 1);
    for chart in &read.charts {
        let names: Vec<&str> = chart.lines.iter().map(|line| line.name.as_str()).collect();
        assert_eq!(names, ["verus:r=2", "cubic"], "{}", chart.title);
    }
    let titles = ["Distribution of the RTT", "Throughput", "Queue delay", "Pair by pair: rate"];
    assert!(titles.iter().all(|title| read.chart(title).lines.len() == 2));
    assert_eq!(read.conditions["Runs"], "3 pairs under the same conditions");
}

#[test]
fn the_page_becomes_markdown() {
    let Some(browser) = Browser::find() else { return };
    let mut comparison = consistent(example::large("lte-driving", 4, 1, 20));
    comparison.command = "cellpace compare --cc verus".to_owned();
    let page = page(&of(&comparison)).unwrap();
    // Where the page may not write to the clipboard it saves a file, which goes where the test sees it.
    let script = "URL.createObjectURL = (blob) => { blob.text().then((words) => { cellpace.kept = words; \
                  document.documentElement.dataset.cellpace = JSON.stringify(cellpace); }); return 'data:,'; }; \
                  Object.defineProperty(navigator, 'clipboard', { value: undefined }); \
                  setTimeout(() => document.getElementById('copy-markdown').click(), 60);";
    let page = with_script(&page, script);
    let file = browser.write("markdown", &page);
    let dom = browser.dump("markdown", &format!("file://{}", file.display()), &[]);
    let seen = browser.outcome("markdown", &dom, "data-cellpace=\"");
    let words = seen["kept"].as_str().unwrap();
    assert!(words.starts_with("# lte-driving: 4 controllers\n\nOn lte-driving "), "{words}");
    assert!(words.contains("| Controller | Throughput"), "{words}");
    assert!(words.contains("cellpace compare --cc verus"), "{words}");
    // The playground gets the conditions, and the way back to this page.
    let link = dom.split("href=\"playground.html#").nth(1).and_then(|rest| rest.split('"').next());
    let link = link.expect("the page leads to the playground");
    assert!(link.starts_with("cc=verus&amp;duration="), "{link}");
    assert!(
        link.ends_with(&format!("&amp;back={}", file.file_name().unwrap().display())),
        "{link}"
    );
}
