//! `cellpace sweep`, run as users run it: interrupted, killed, started again.

use crate::program;
use crate::program::{Folder, code, ended, eventually, number, signal};
use crate::report::data;
use serde_json::Value;

/// Some hundred runs, a few tenths of a second in all.
const PLAN: &str = r#"
trace = ["constant:4mbit", "lte-driving"]
rtt = ["20ms", "80ms"]
duration = "3s"
seeds = "1..20"

[[cc]]
name = "cubic"

[[cc]]
name = "verus"
r = [2, 4]
"#;

/// Runs that take long enough to be caught at it, where there are enough of them.
fn long_plan(runs: u32) -> String {
    format!(
        r#"
        trace = "constant:100mbit"
        queue = "droptail:200kB"
        duration = "10s"
        seeds = "1..{runs}"
        cc = "copa"
        "#
    )
}

fn work_files(folder: &Folder) -> usize {
    let work = folder.path("plan/work");
    std::fs::read_dir(work).map_or(0, Iterator::count)
}

#[test]
fn a_plan_becomes_a_folder_with_the_same_bytes_on_any_number_of_cores() {
    let folder = Folder::with("plan.toml", PLAN);
    let said = folder.good("sweep plan.toml");
    assert_eq!(said, "240 runs in 1 file: plan/part-*.parquet\n");
    folder.good("sweep plan.toml --jobs 1 --out alone");
    assert!(folder.contents("plan") == folder.contents("alone"));
    let manifest: Value = serde_json::from_slice(&folder.read("plan/manifest.json")).unwrap();
    assert_eq!(manifest["schema"], "cellpace.sweep/1");
    assert_eq!(manifest["complete"], true);
    assert_eq!(manifest["parts"][0]["cells"], 240);
    assert_eq!(manifest["plan"]["cc"][1]["r"][1], 4);

    let again = folder.run("sweep plan.toml");
    assert_eq!(again.stderr, "cellpace: 240 of 240 runs are there already\n");
    assert_eq!(again.stdout, said);
    assert!(folder.good("sweep plan.toml --dry-run").starts_with("240 runs, roughly "));
}

#[test]
fn a_killed_sweep_goes_on_where_it_stopped() {
    // A fast machine may finish the shorter ones before the last signal comes.
    let is_caught = [32, 128, 512].into_iter().any(|runs| {
        let folder = Folder::with("plan.toml", long_plan(runs));
        let is_caught = ["KILL", "INT", "TERM"].into_iter().all(|name| is_caught(&folder, name));
        let rest = folder.run("sweep plan.toml");
        assert_eq!(rest.code, Some(0), "{}", rest.stderr);
        assert!(rest.stderr.ends_with(" runs are there already\n"), "{}", rest.stderr);
        folder.good("sweep plan.toml --out whole");
        assert!(folder.contents("plan") == folder.contents("whole"));
        is_caught
    });
    assert!(is_caught, "every sweep ended before the signals came");
}

/// Starts the sweep, or goes on with it, and sends a signal as soon as one more unit is done.
/// Returns whether it came in time.
fn is_caught(folder: &Folder, name: &str) -> bool {
    let before = work_files(folder);
    let mut child = folder.start("sweep plan.toml --jobs 2");
    eventually("one more unit is done", || {
        work_files(folder) > before || folder.path("plan/part-00000.parquet").exists()
    });
    signal(&child, name);
    let got = code(&mut child);
    let outcome = ended(child);
    if got == Some(0) {
        return false;
    }
    let expected = match name {
        "INT" => Some(130),
        "TERM" => Some(143),
        _ => None,
    };
    assert_eq!(got, expected, "{name}: {}", outcome.stderr);
    if expected.is_some() {
        assert!(outcome.stderr.contains("the same command goes on"), "{}", outcome.stderr);
    }
    true
}

#[test]
fn a_plan_that_is_wrong_leaves_nothing() {
    let folder = Folder::with("plan.toml", PLAN.replace("name = \"verus\"", "name = \"versu\""));
    folder.refused("sweep plan.toml", "there is no controller `versu`; did you mean `verus`?");
    folder.refused("sweep gone.toml", "there is no file `gone.toml`");
    folder.refused("sweep -", "cc: is missing");
    folder.write("plan.txt", "trace = \"constant:1mbit\"\ncc = \"cubic\"");
    folder.refused("sweep plan.txt", "name the folder of the results: --out DIR");
    assert_eq!(folder.names(), ["plan.toml", "plan.txt"]);
}

#[test]
fn a_disk_that_is_full_ends_the_sweep_and_loses_nothing() {
    let folder = Folder::with("plan.toml", PLAN);
    std::fs::create_dir_all(folder.path("plan")).unwrap();
    let full = "ulimit -f 0; trap '' XFSZ; exec \"$0\" sweep plan.toml";
    let mut shell = std::process::Command::new("sh");
    let program = env!("CARGO_BIN_EXE_cellpace");
    shell.args(["-c", full, program]).current_dir(folder.path(""));
    let outcome = program::Outcome::of(shell.output().unwrap());
    outcome.complains(1, "File too large");
    assert!(outcome.stderr.contains("plan/"), "the file is named: {}", outcome.stderr);
    folder.good("sweep plan.toml");
    folder.good("sweep plan.toml --out whole");
    assert!(folder.contents("plan") == folder.contents("whole"));
}

#[test]
fn the_arena_has_sixty_conditions_of_which_each_runs() {
    let plan =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/plans/arena.toml");
    let text = std::fs::read_to_string(plan).unwrap();
    let folder = Folder::with("arena.toml", &text);
    let said = folder.good("sweep arena.toml --dry-run");
    let runs: u32 = said.split_whitespace().next().unwrap().parse().unwrap();
    assert_eq!((runs / 60, runs % 60), (17, 0), "{said}");
    // Two controllers, one of which a row adds, and a second of each condition.
    let (start, end) = (text.find("cc = [").unwrap(), text.find("]\n").unwrap() + 2);
    let part = format!("{}cc = [\"copa\", \"fixed\"]\n{}", &text[..start], &text[end..]);
    let part = part.replace("\"30s\"", "\"1s\"").replace("\"5s\"", "\"100ms\"");
    folder.write("part.toml", part);
    assert_eq!(folder.good("sweep part.toml"), "120 runs in 1 file: part/part-*.parquet\n");

    let section = page_of(&folder, "part");
    let matrix = &section["matrix"];
    let conditions = matrix["conditions"].as_array().unwrap();
    assert_eq!(
        (conditions.len(), section["tables"][1]["rows"].as_array().unwrap().len()),
        (60, 120)
    );
    let mut names: Vec<&str> = conditions.iter().map(|of| of["name"].as_str().unwrap()).collect();
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), 60, "each has a name of its own: {names:?}");
    // One of each kind of path.
    for condition in conditions.iter().step_by(5) {
        let runs = pasted(&folder, condition["command"].as_str().unwrap());
        for (at, cc) in matrix["controllers"].as_array().unwrap().iter().enumerate() {
            let run = runs.iter().find(|run| run["cc"] == *cc).unwrap();
            for (figure, pointer, factor) in
                [("p95", "/queue_delay_ms/p95", 1.0), ("utilization", "/utilization", 100.0)]
            {
                let shown = number(&condition["figures"][figure], &format!("/{at}"));
                let again = factor * number(run, pointer);
                assert!((shown - again).abs() <= 1e-3 * again, "{condition}: {figure} {again}");
            }
        }
    }
}

/// What the page of a sweep shows.
fn page_of(folder: &Folder, sweep: &str) -> Value {
    let page = folder.good(&format!("report {sweep}/part-00000.parquet -o -"));
    data(&page, "sections-data")["sections"][0].take()
}

/// The runs of a command line from a page, as a shell runs it.
fn pasted(folder: &Folder, line: &str) -> Vec<Value> {
    let program = std::path::Path::new(env!("CARGO_BIN_EXE_cellpace"));
    let path = format!("PATH={}:$PATH; ", program.parent().unwrap().display());
    let line = line.replace("cellpace compare ", "cellpace compare --json - ");
    let mut shell = std::process::Command::new("sh");
    shell.args(["-c", &(path + &line)]).current_dir(folder.path(""));
    cellpace_testing::configured(&mut shell);
    let outcome = program::Outcome::of(shell.output().unwrap());
    assert_eq!((outcome.code, &*outcome.stderr), (Some(0), ""), "{line}");
    let results = serde_json::Deserializer::from_str(&outcome.stdout).into_iter::<Value>();
    results.flat_map(|result| result.unwrap()["runs"].as_array().unwrap().clone()).collect()
}

#[test]
fn the_command_of_a_row_gives_its_figures_with_every_field_of_a_plan() {
    let plan = r#"
        cc = ["copa:delta=0.1", "cubic"]
        seeds = [3, 9]
        duration = "3s"
        skip = "500ms"
        [[path]]
        trace = "my trace.down"
        rtt = ["30ms", "random:10ms..60ms/1s"]
        queue = "codel"
        loss = "1%"
        uplink = "constant:2mbit"
        uplink_queue = "droptail:50pkts"
        uplink_loss = "0.5%"
        impair = [["reorder=1%/3ms, duplicate=1%", "up:duplicate=2%"]]
        jitter = "harq:bler=10%,rtt=8ms"
        handover = [["1s", "2s/100ms/50ms/lost"]]
        from = "5s"
        acks = "delayed:40ms"
        [[path]]
        path = "leo-bent-pipe"
        uplink_impair = "corrupt=1%"
        rrc = "lte"
        flows = 2
        send_jitter = "0%"
        transfer = "100kB,count=3,gap=100ms"
    "#;
    let folder = Folder::with("plan.toml", plan);
    let trace: String = (1..9_000).map(|packet| format!("{}\n", packet * packet / 8_000)).collect();
    folder.write("my trace.down", trace);
    assert_eq!(folder.good("sweep plan.toml"), "12 runs in 1 file: plan/part-*.parquet\n");
    let table = page_of(&folder, "plan")["tables"][1].take();
    let header: Vec<&str> =
        table["header"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
    let at = |name: &str| header.iter().position(|column| column.starts_with(name)).unwrap();
    let commands = table["commands"].as_array().unwrap();
    assert_eq!(commands.len(), 6);
    for (row, command) in table["rows"].as_array().unwrap().iter().zip(commands) {
        let runs = pasted(&folder, command.as_str().unwrap());
        assert_eq!(runs.len(), 2, "two seeds");
        for (column, pointer, factor) in [
            ("p95", "/queue_delay_ms/p95", 1.0),
            ("utilization", "/utilization", 100.0),
            ("Mbit/s", "/throughput_mbps", 1.0),
        ] {
            let mean = factor * runs.iter().map(|run| number(run, pointer)).sum::<f64>() / 2.0;
            let shown: f64 = row[at(column)].as_str().unwrap().parse().unwrap();
            assert!((shown - mean).abs() <= 6e-3 * mean, "{command}: {column} {shown}, not {mean}");
        }
    }
}
