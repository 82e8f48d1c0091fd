//! Claim files that are refused, and one claim from end to end.

use std::fs;

use cellpace_paper::{Claim, Depth, Library, Plan, RunOptions, Verdict, document};

const TINY: &str = r#"
id = "made-up"
where = "Nowhere"
says = "A window of 40 packets fills 12 Mbit/s over 40 ms, and one of 20 half of it."
kind = "text"
mode = "virtual"
expected = "reproduced"

[run.alone]
trace = "constant:12mbit"
cc = "fixed:cwnd={window}"
rtt = "40ms"
duration = "5s"
series = "1s"
sweep.window = ["20pkts", "40pkts"]

[[check]]
name = "40 packets fill the link"
level = "core"
run = "alone"
test = "mean(utilization[window=40pkts]) >= 0.95"

[[check]]
name = "20 packets fill half of it"
level = "full"
run = "alone"
test = "abs(mean(throughput_mbps[window=20pkts]) - 6mbit) <= 0.2mbit and max(queue_delay_ms.p95[window=20pkts]) < 2ms"

[[chart]]
kind = "lines"
run = "alone"
x = "time"
y = "mean(series.throughput_mbps; start, seed)"
group = "window"
"#;

#[test]
fn a_claim_from_end_to_end() {
    let folder = tempfile::tempdir().unwrap();
    let paper = folder.path().join("made");
    fs::create_dir(&paper).unwrap();
    fs::write(paper.join("up.toml"), TINY).unwrap();
    let library = Library::of_folder(folder.path()).unwrap();
    let claims = library.select(&["made-*".to_owned()]).unwrap();
    let options = RunOptions { depth: Depth::Quick, ..RunOptions::default() };
    let plan = Plan::new(&claims, &options);
    assert_eq!(plan.runs(), 2);
    let results = plan.run(&options, &mut ()).unwrap().unwrap();
    assert_eq!(results[0].verdict, Verdict::Reproduced, "{:?}", results[0].checks);
    assert!(results[0].is_expected() && !results[0].is_generated);
    let front = cellpace_paper::Front {
        title: "Made up".to_owned(),
        sentence: String::new(),
        tables: Vec::new(),
        is_index: false,
    };
    let text = document(&[&results[0]], options.depth, Some(&front)).unwrap();
    let written: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(written["claims"][0]["charts"][0]["lines"].as_array().unwrap().len(), 2);
    let page = cellpace_report::Document::read("made", &text).unwrap();
    let page = cellpace_report::page(&[page]).unwrap();
    assert!(page.contains("<title>Made up") && page.contains("40 packets fill the link"));
    assert!(page.len() < 3_000_000);
}

const RADIO: &str = r#"
id = "made-radio"
where = "Nowhere"
says = "Downloads in classes of what the radio was like."
kind = "text"
mode = "model"
expected = "reproduced"

[run.downloads]
trace = "radio:highway-700"
cc = "cubic"
duration = "300s"
flow = 'transfer = { size = "200kB", every = "20s" }'

[run.radio]
trace = "radio:highway-700"
cc = "cubic"
duration = "300s"
analysis = "radio"

[[check]]
name = "classes of SINR divide the downloads"
level = "core"
run = "downloads"
test = """count(transfer.mean_sinr_db[sinr_db=-40..15] < 15) + count(transfer.mean_sinr_db[sinr_db=15..80] >= 15) = 15
  and max(transfer.mean_sinr_db[sinr_db=-40..15]) < 15"""

[[check]]
name = "so do their handovers, and the flow knows how many there are"
level = "core"
run = "downloads"
test = """count(transfer.cells[handovers=0] = 1) + count(transfer.cells[handovers=1..9] >= 1)
  = sum(flow.transfers.complete) and max(transfer.cells[cells=1]) = 1"""

[[check]]
name = "the radio alone"
level = "core"
run = "radio"
test = "mean(radio.share_64qam) > 0 and max(radio.max_mbps) <= 50mbit"
"#;

#[test]
fn transfers_are_selected_by_their_radio() {
    let claim = Claim::read("made/radio", RADIO).unwrap();
    let options = RunOptions::default();
    let plan = Plan::new(&[&claim], &options);
    let results = plan.run(&options, &mut ()).unwrap().unwrap();
    assert_eq!(results[0].verdict, Verdict::Reproduced, "{:#?}", results[0].checks);
}

const TRAINED: &str = r#"
id = "made-up"
where = "Nowhere"
says = "A window that stays makes a table with one state, which keeps it."
kind = "text"
mode = "virtual"
expected = "reproduced"

[train.still]
teacher = "fixed:cwnd=20pkts"
traces = ["constant:12mbit"]
users = [1]

[run.table]
train = "still"

[run.alone]
trace = "constant:12mbit"
cc = "mdi:model=train.still,users=1"
rtt = "40ms"
duration = "5s"

[[check]]
name = "a number of samples"
level = "core"
run = "table"
test = "mean(table.samples) >= 100 and mean(table.diagonal) >= 0.5"

[[check]]
name = "the table runs"
level = "core"
run = "alone"
test = "abs(mean(throughput_mbps) - 6mbit) <= 1mbit"

[[chart]]
kind = "heatmap"
run = "table"
y = "transitions"

[[chart]]
kind = "scatter"
run = "table"
x = "sample.delay_ms"
y = "sample.window_packets"
group = "train"
"#;

#[test]
fn a_claim_trains_tables_keeps_them_and_draws_them() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("made")).unwrap();
    fs::write(folder.path().join("made/up.toml"), TRAINED).unwrap();
    let library = Library::of_folder(folder.path()).unwrap();
    let claims = library.select(&["made-up".to_owned()]).unwrap();
    let lines = cellpace_paper::training_lines(claims[0], None).unwrap();
    assert!(
        lines[0].starts_with("cellpace mdi train --cc fixed:cwnd=20pkts --trace constant:12mbit")
    );
    assert!(lines[0].ends_with("-o train.still"), "{lines:?}");
    let kept = folder.path().join("kept");
    let run = || {
        let cache = cellpace_paper::Cache::below(&kept);
        let options = RunOptions { depth: Depth::Quick, cache, ..RunOptions::default() };
        let plan = Plan::new(&claims, &options);
        let results = plan.run(&options, &mut ()).unwrap().unwrap();
        assert_eq!(results[0].verdict, Verdict::Reproduced, "{:?}", results[0].checks);
        let front = cellpace_paper::Front {
            title: "Made up".to_owned(),
            sentence: String::new(),
            tables: Vec::new(),
            is_index: false,
        };
        document(&[&results[0]], options.depth, Some(&front)).unwrap()
    };
    let first = run();
    let files = |folder: &std::path::Path| -> usize {
        let mut below = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
        let version = below.find(|path| !path.ends_with("seconds")).unwrap();
        fs::read_dir(version).unwrap().count()
    };
    assert_eq!(files(&kept), 3, "a table, its figures, a run");
    assert_eq!(run(), first, "from the cache it is the same");
    let page = cellpace_report::Document::read("made", &first).unwrap();
    let page = cellpace_report::page(&[page]).unwrap();
    assert!(page.contains("fixed:cwnd=20pkts: transitions"), "the heatmap is drawn");
}

#[test]
fn trainings_that_make_no_sense_are_refused() {
    let cases = [
        ("train = \"still\"", "train = \"stil\"", "there is no [train.stil]"),
        ("users = [1]", "users = []", "at least one user"),
        ("users = [1]", "users = [1]\nstates = \"relativ\"", "train.still: `relativ`"),
        ("table.samples", "delay.samples", "delay has value, cells_per_row, near"),
        ("table.samples", "jain", "`jain` is one of runs with `train` or of the others"),
        ("y = \"transitions\"", "y = \"table.cells\"", "y = transitions or zoom"),
    ];
    for (text, wrong, why) in cases {
        assert!(TRAINED.contains(text), "{text}");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("made")).unwrap();
        fs::write(folder.path().join("made/up.toml"), TRAINED.replace(text, wrong)).unwrap();
        let error = Library::of_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
}

#[test]
fn claims_that_make_no_sense_are_refused() {
    let cases = [
        ("mode = \"virtual\"", "mode = \"virtuall\"", "up.toml:6: "),
        ("series = ", "serious = ", "unknown field `serious`"),
        ("expected = \"reproduced\"", "expected = \"refuted\"", "needs `because`"),
        (">= 0.95", ">= 98ms", "units do not fit: a number and a time"),
        ("[window=40pkts]", "[window=41pkts]", "selects nothing"),
        ("mean(utilization[window=40pkts])", "utilization", "for each window"),
        ("max(queue_delay_ms.p95", "max(queue_delay_ms", "unknown field"),
        ("run = \"alone\"\ntest", "run = \"lonely\"\ntest", "there is no run `lonely`"),
        ("kind = \"lines\"", "kind = \"pie\"", "unknown kind `pie`"),
        ("group = \"window\"", "group = \"cwnd\"", "no axis `cwnd`"),
        ("id = \"made-up\"", "id = \"made-down\"", "not `made-up`"),
    ];
    for (text, wrong, why) in cases {
        assert!(TINY.contains(text), "{text}");
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir(folder.path().join("made")).unwrap();
        fs::write(folder.path().join("made/up.toml"), TINY.replace(text, wrong)).unwrap();
        let error = Library::of_folder(folder.path()).unwrap_err().to_string();
        assert!(error.contains(why), "{wrong}: {error}");
    }
    assert!(Claim::read("made/up", TINY).is_ok());
}

/// A claim that names recorded traces in a scenario, in a training and on an axis.
fn naming(trace: &str) -> String {
    TINY.replace("trace = \"constant:12mbit\"", &format!("trace = \"{trace}\""))
}

fn shown(texts: &[&str], traces: Option<&std::path::Path>) -> Vec<(String, bool)> {
    let claims: Vec<Claim> =
        texts.iter().map(|text| Claim::read("made/up", text).unwrap()).collect();
    let claims: Vec<&Claim> = claims.iter().collect();
    let options = RunOptions { depth: Depth::Quick, traces, ..RunOptions::default() };
    let results = Plan::new(&claims, &options).run(&options, &mut ()).unwrap().unwrap();
    results.iter().map(|result| (result.shown(), result.is_expected())).collect()
}

#[test]
fn a_claim_that_cannot_run_leaves_the_others_their_verdicts() {
    let needs =
        naming("city-drive").replace("kind = \"text\"", "kind = \"text\"\nneeds_traces = true");
    let unreadable = TINY.replace("duration = \"5s\"", "duration = \"5 turns\"");
    let found = shown(&[&needs, &unreadable, TINY], None);
    assert_eq!(found[0], ("needs traces".to_owned(), true));
    assert!(found[1].0.starts_with("failed: run.alone: ") && !found[1].1, "{found:?}");
    assert_eq!(found[2], ("reproduced".to_owned(), true));
    // A folder that has other traces only.
    let folder = tempfile::tempdir().unwrap();
    let found = shown(&[&naming("city-drive"), TINY], Some(folder.path()));
    assert_eq!(found[0], ("needs traces".to_owned(), true));
    assert_eq!(found[1].0, "reproduced");
}

#[test]
fn generated_traces_stand_in_wherever_a_recorded_one_is_named() {
    let scenario = r#"scenario = '''
trace = "att-lte-driving"
rtt = "40ms"
duration = "5s"
[[flow]]
cc = "fixed:cwnd={window}"
'''
"#;
    let from = TINY.find("trace = ").unwrap();
    let to = TINY.find("series = ").unwrap();
    let within = format!("{}{scenario}{}", &TINY[..from], &TINY[to..]);
    let trained = TRAINED.replace("traces = [\"constant:12mbit\"]", "traces = [\"mdi/channel00\"]");
    for text in [naming("city-drive"), within, trained] {
        let claim = Claim::read("made/up", &text).unwrap();
        let options = RunOptions { depth: Depth::Quick, ..RunOptions::default() };
        let plan = Plan::new(&[&claim], &options);
        let result = &plan.run(&options, &mut ()).unwrap().unwrap()[0];
        assert!(result.unrun.is_none() && result.is_generated, "{:?}\n{text}", result.unrun);
    }
}

#[test]
fn claims_that_would_run_without_end_are_refused() {
    let cases = [
        ("starts = 4000000000\n", "starts: 4000000000 are more than 1000"),
        ("flow = 'stagger = \"{a}{a}{a}{a}\"'\nsweep.a = [\"{b}\"]\n", "longer than 1048576"),
    ];
    for (more, why) in cases {
        let large = format!("sweep.b = [\"{}\"]\n", "x".repeat(300_000));
        let text = TINY.replace("series = ", &format!("{more}{large}series = "));
        let found = shown(&[&text], None);
        assert!(found[0].0.contains(why), "{found:?}");
    }
    let axes: String = (0..17).map(|at| format!("sweep.a{at} = [1]\n")).collect();
    let text = TINY.replace("series = ", &format!("{axes}series = "));
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join("made")).unwrap();
    fs::write(folder.path().join("made/up.toml"), text).unwrap();
    let error = Library::of_folder(folder.path()).unwrap_err().to_string();
    assert!(error.contains("axes; allowed: 16"), "{error}");
}

/// Training tables takes a minute; `./dev test --all` runs all claims.
#[test]
fn every_claim_that_trains_nothing_can_be_run_without_recorded_traces() {
    let library = Library::embedded().unwrap();
    let trains = |claim: &&Claim| {
        let texts = claim.runs.values().map(|run| format!("{run:?}")).collect::<String>();
        texts.contains("model=") || claim.runs.values().any(|run| run.train.is_some())
    };
    let claims: Vec<&Claim> = library.claims().iter().filter(|claim| !trains(claim)).collect();
    assert!(claims.len() > 100, "{}", claims.len());
    let options = RunOptions { depth: Depth::Quick, ..RunOptions::default() };
    let plan = Plan::new(&claims, &options);
    assert_eq!(plan.unrun().collect::<Vec<_>>(), []);
    let first: Vec<&Claim> = claims.into_iter().filter(|claim| claim.id == "verus-fig1").collect();
    let result = &Plan::new(&first, &options).run(&options, &mut ()).unwrap().unwrap()[0];
    assert!(result.is_generated && result.is_expected(), "{}", result.shown());
}
