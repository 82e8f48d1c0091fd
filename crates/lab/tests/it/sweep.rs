//! Sweeps as a library: what plans mean, what their folders hold, and that interruptions do not
//! show.

use std::fs::{self, File};
use std::path::Path;

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, UInt64Type};
use arrow_array::{Array, RecordBatch};
use cellpace_lab::sweep::{
    CellRange, PlanFiles, Sweep, SweepFolder, SweepPlan, UnitTable, run_sweep, run_unit,
};
use cellpace_lab::{Experiment, LabError, WorkClock, WorkSink};
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

const PLAN: &str = r#"
trace = ["constant:4mbit", "drive.down"]
rtt = ["20ms", "80ms"]
duration = "3s"
skip = "1s"
seeds = "1..2"

[[cc]]
name = "cubic"

[[cc]]
name = "copa"
delta = { from = 0.1, to = 0.9, steps = 3, scale = "linear" }
"#;

fn sweep(plan: &str) -> Result<Sweep, LabError> {
    let files = PlanFiles::given([("drive.down".to_owned(), b"1\n2\n4\n".to_vec())]);
    Sweep::new(SweepPlan::from_toml("plan.toml", plan)?, files)
}

fn refused(plan: &str) -> String {
    sweep(plan).unwrap_err().to_string()
}

fn table(path: &Path) -> RecordBatch {
    let reader = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    reader.build().unwrap().next().unwrap().unwrap()
}

/// Every file of a folder with its contents.
fn contents(root: &Path) -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(root).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<_> = entries
        .map(|path| (path.file_name().unwrap().to_str().unwrap().to_owned(), path))
        .map(|(name, path)| (name, fs::read(path).unwrap()))
        .collect();
    files.sort();
    files
}

/// A whole sweep in a folder of its own.
fn undisturbed(plan: &str, threads: usize) -> Vec<(String, Vec<u8>)> {
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(plan).unwrap();
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    let end = run_sweep(&sweep, &mut results, threads, &mut ()).unwrap();
    assert_eq!((end.done, end.new), (sweep.cells(), sweep.cells()));
    assert!(results.manifest().complete);
    contents(folder.path())
}

/// Or a plan would be another one in JSON than in TOML.
#[test]
fn numbers_come_back_from_json_to_the_last_digit() {
    for number in ["555555555555555.55555", "0.10000000000000002", "1.7976931348623157e308"] {
        let plan = PLAN.replace("from = 0.1", &format!("from = {number}"));
        let plan = SweepPlan::from_toml("plan.toml", &plan).unwrap().canonical();
        let again = SweepPlan::from_json("plan.json", &plan).unwrap().canonical();
        assert_eq!(again, plan);
    }
}

#[test]
fn cells_are_every_combination_in_the_order_of_the_plan() {
    let sweep = sweep(PLAN).unwrap();
    assert_eq!(sweep.cells(), 2 * 2 * 4 * 2);
    let cells: Vec<_> = (0..sweep.cells()).map(|number| sweep.cell(number)).collect();
    let shown =
        |at: usize| format!("{} {} {}", cells[at].trace, cells[at].cc, cells[at].scenario.seed);
    assert_eq!(shown(0), "constant:4mbit cubic 1");
    assert_eq!(shown(1), "constant:4mbit cubic 2");
    assert_eq!(shown(4), "constant:4mbit copa:delta=0.5 1");
    assert_eq!(shown(31), "drive.down copa:delta=0.9 2");
    assert_eq!(cells[31].scenario.base_rtt().as_millis_f64(), 80.0);
    let mut ids: Vec<_> = cells.iter().map(|cell| cell.id.clone()).collect();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), cells.len(), "each has an id of its own");
    assert!((0..32).all(|number| sweep.id(number) == cells[number as usize].id));
}

#[test]
fn the_id_of_a_cell_is_that_of_its_parameters_and_of_what_its_files_hold() {
    let of = |plan: &str, trace: &[u8]| {
        let files = PlanFiles::given([("drive.down".to_owned(), trace.to_vec())]);
        Sweep::new(SweepPlan::from_toml("p", plan).unwrap(), files).unwrap()
    };
    let small = "cc = \"cubic\"\ntrace = \"drive.down\"\nduration = \"3s\"\n";
    let one = of(small, b"1\n2\n4\n");
    let written_out = of(&format!("{small}rtt = \"40ms\"\nflows = 1\n"), b"1\n2\n4\n");
    assert_eq!(one.id(0), written_out.id(0), "a default that is written is the default");
    let among_others =
        of("cc = [\"copa\", \"cubic\"]\ntrace = \"drive.down\"\nduration = \"3s\"", b"1\n2\n4\n");
    assert_eq!(one.id(0), among_others.id(1));
    assert_ne!(one.id(0), of(small, b"1\n2\n5\n").id(0));
    assert_ne!(one.identity(), written_out.identity());
}

#[test]
fn rows_have_the_figures_of_an_experiment_and_the_parameters_of_the_plan() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(PLAN).unwrap();
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    run_sweep(&sweep, &mut results, 2, &mut ()).unwrap();
    let table = table(&folder.path().join("part-00000.parquet"));
    assert_eq!(table.num_rows(), 32);
    let number = |name: &str| table.column_by_name(name).unwrap().as_primitive::<Float64Type>();
    let text = |name: &str| table.column_by_name(name).unwrap().as_string::<i32>();
    assert!(number("cc_delta").is_null(0), "cubic has no delta");
    assert_eq!(number("cc_delta").value(4), 0.5);
    assert_eq!(text("plan_rtt").value(8), "80ms");
    assert_eq!(text("cell").value(7), sweep.id(7));
    assert_eq!(text("plan_duration").value(31), "3s", "what is the same everywhere, too");
    assert!(table.column_by_name("plan_queue").is_none(), "the plan has none");

    let experiment = Experiment {
        traces: vec!["constant:4mbit".parse().unwrap()],
        controllers: vec!["cubic".parse().unwrap(), "copa:delta=0.5".parse().unwrap()],
        seeds: vec![2],
        duration: Some(cellpace_base::Span::from_secs(3)),
        path: cellpace_lab::Scenario {
            skip: cellpace_base::Span::from_secs(1),
            ..Default::default()
        }
        .with_link(|link| link.set_rtt(cellpace_base::Span::from_millis(20).into())),
        ..Experiment::default()
    };
    let runs = experiment.run(Some(1), &mut ()).unwrap().runs;
    for (row, run) in [(1, &runs[0]), (5, &runs[1])] {
        assert_eq!(text("cc").value(row), run.cc);
        let seeds = table.column_by_name("seed").unwrap().as_primitive::<UInt64Type>();
        assert_eq!(seeds.value(row), run.seed);
        assert_eq!(number("throughput_mbps").value(row), run.figures.throughput_mbps);
        assert_eq!(number("queue_delay_ms_p95").value(row), run.figures.queue_delay_ms.p95);
        assert_eq!(number("rtt_ms_seen_mean").value(row), run.figures.rtt_ms_seen.mean);
    }
}

/// Stops after so many cells.
struct Until(u64);

impl WorkSink<u64> for Until {
    fn on_done(&mut self, _: usize, _: &u64) {
        self.0 = self.0.saturating_sub(1);
    }

    fn is_cancelled(&self) -> bool {
        self.0 == 0
    }
}

#[test]
fn the_bytes_are_the_same_on_any_number_of_threads_and_after_interruptions() {
    let whole = undisturbed(PLAN, 1);
    assert_eq!(
        whole.iter().map(|file| &*file.0).collect::<Vec<_>>(),
        ["manifest.json", "part-00000.parquet"]
    );
    assert!(undisturbed(PLAN, 3) == whole);

    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(PLAN).unwrap();
    let mut before = 0;
    for _ in 0..200 {
        let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
        assert!(results.done() >= before, "nothing that was done is lost");
        before = results.done();
        if run_sweep(&sweep, &mut results, 2, &mut Until(3)).unwrap().done == sweep.cells() {
            break;
        }
    }
    assert!(contents(folder.path()) == whole);
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    assert_eq!(run_sweep(&sweep, &mut results, 2, &mut ()).unwrap().new, 0);
    assert!(contents(folder.path()) == whole, "done is done");
}

#[test]
fn what_others_wrote_twice_torn_or_in_another_order_does_not_show() {
    let whole = undisturbed(PLAN, 1);
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(PLAN).unwrap();
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    let unit = |first, end| run_unit(&sweep, CellRange { first, end }, &WorkClock::default());
    for (first, end) in [(20, 32), (4, 16), (0, 8)] {
        SweepFolder::write_unit(&results.work(), &unit(first, end).unwrap()).unwrap();
    }
    // Half of a file, as where a file system lost the rest.
    let torn = unit(16, 20).unwrap().write(Vec::new()).unwrap();
    fs::write(results.work().join("000000016-000000020.parquet"), &torn[..torn.len() / 2]).unwrap();
    assert_eq!(results.done(), 0, "nobody has said so");
    drop(results);

    results = SweepFolder::open(folder.path(), &sweep).unwrap();
    assert_eq!(results.missing(), [CellRange { first: 16, end: 20 }]);
    SweepFolder::write_unit_bytes(&results.work(), CellRange { first: 16, end: 20 }, &torn)
        .unwrap();
    results.add(&sweep, CellRange { first: 16, end: 20 }).unwrap();
    assert!(contents(folder.path()) == whole);
}

#[test]
fn a_finished_file_that_was_cut_or_emptied_is_made_anew() {
    let whole = undisturbed(PLAN, 1);
    let part = &whole.iter().find(|(name, _)| name.starts_with("part-")).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(PLAN).unwrap();
    for left in [part.1.len(), part.1.len() / 2, 0] {
        let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
        run_sweep(&sweep, &mut results, 2, &mut ()).unwrap();
        assert!(contents(folder.path()) == whole, "{left}");
        drop(results);
        fs::write(folder.path().join(&part.0), &part.1[..left]).unwrap();
    }
}

#[test]
fn a_cell_that_cannot_run_is_a_row_with_the_reason_and_the_others_go_on() {
    // A handover after the end of the shorter run.
    let plan = r#"
        trace = "constant:4mbit"
        handover = "2s"
        duration = ["1s", "4s"]
        skip = "500ms"
        cc = "cubic"
    "#;
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(plan).unwrap();
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    assert_eq!(run_sweep(&sweep, &mut results, 1, &mut ()).unwrap().errors, 1);
    let table = table(&folder.path().join("part-00000.parquet"));
    let errors = table.column_by_name("error").unwrap().as_string::<i32>();
    assert!(errors.value(0).contains("the handover"), "{}", errors.value(0));
    assert!(errors.is_null(1));
    assert!(table.column_by_name("utilization").unwrap().is_null(0));

    let failed = UnitTable::of_failed(&sweep, CellRange { first: 1, end: 2 }, "made up").unwrap();
    assert_eq!(failed.errors, 1);
}

#[test]
fn a_folder_of_something_else_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = sweep(PLAN).unwrap();
    let open = |sweep: &Sweep| SweepFolder::open(folder.path(), sweep);
    let held = open(&first).unwrap();
    assert!(open(&first).unwrap_err().to_string().contains("another process works on"));
    drop(held);
    let other = sweep(&PLAN.replace("1..2", "1..3")).unwrap();
    let error = open(&other).unwrap_err().to_string();
    assert!(
        error.contains("another plan, which differs in `seeds`; name another folder"),
        "{error}"
    );
    let changed = PlanFiles::given([("drive.down".to_owned(), b"1\n2\n9\n".to_vec())]);
    let changed = Sweep::new(SweepPlan::from_toml("p", PLAN).unwrap(), changed).unwrap();
    let error = open(&changed).unwrap_err().to_string();
    assert!(error.contains("while `drive.down` had other contents"), "{error}");

    let used = tempfile::tempdir().unwrap();
    fs::write(used.path().join("thesis.tex"), "").unwrap();
    let error = SweepFolder::open(used.path(), &first).unwrap_err().to_string();
    assert!(error.contains("is no sweep's folder and not empty"), "{error}");
    assert_eq!(fs::read_dir(used.path()).unwrap().count(), 1);
}

#[test]
fn plans_are_refused_with_the_field_and_what_to_write() {
    let with = |line: &str| {
        format!("{line}\n{}", "trace = \"constant:4mbit\"\ncc = \"cubic\"\nduration = \"3s\"")
    };
    for (plan, expected) in [
        (with("rrt = \"40ms\""), "there is no field `rrt`; did you mean `rtt`?"),
        (with("rtt = 40"), "rtt: 40 has no unit; write a text such as \"40ms\""),
        (with("rtt = \"40\""), "rtt: `40` needs a unit"),
        (with("rtt = []"), "rtt: an empty list: no cell would remain"),
        (with("rtt = [\"40ms\", \"40ms\"]"), "rtt: `40ms` is given twice"),
        (with("loss = \"0.5\""), "loss: "),
        (with("queue = \"codle\""), "did you mean `codel`"),
        (with("flows = 0"), "flows: write a whole number from 1 to 10000"),
        (with("seeds = 50"), "seeds: 50 could be one seed or so many: write [50] or \"1..50\""),
        (with("seeds = \"5..1\""), "seeds: the range `5..1` is empty"),
        (with("seeds = [1, 1]"), "seeds: 1 is given twice"),
        (with("seeds = \"0..99999999999\""), "100000000 at most: split it"),
        (with("skip = \"9s\""), "skip (9s) leaves nothing"),
        (with("uplink = \"gone.down\""), "gone.down"),
        (with("path = []"), "path: an empty list"),
        (with("rtt = \"40ms"), "plan.toml, line 1: "),
        ("cc = \"cubic\"".to_owned(), "trace: is missing; write, for example,"),
        ("trace = \"lte-driving\"".to_owned(), "cc: is missing; write, for example,"),
        ("trace = \"lte-driven\"\ncc = \"copa\"".to_owned(), "did you mean `lte-driving`"),
        ("trace = \"lte-driving\"\ncc = \"verbus\"".to_owned(), "did you mean `verus`?"),
        ("trace = \"lte-driving\"\ncc = []".to_owned(), "cc: an empty list"),
    ] {
        let said = refused(&plan);
        assert!(said.contains(expected), "{plan}\n{said}");
    }
    for (cc, expected) in [
        (
            "{ name = \"verus\", rr = [2] }",
            "cc[0]: `verus` has no parameter `rr`; did you mean `r`?",
        ),
        ("{ name = \"verus\", r = [] }", "cc[0].r: an empty list"),
        ("{ name = \"verus\", r = [-1] }", "r=-1 is out of range"),
        ("{ name = \"verus\", epoch = [5] }", "epoch: `5` needs a unit"),
        ("{ name = \"verus\", r = { from = 2 } }", "cc[0].r: to is missing"),
        ("{ name = \"verus\", r = { from = 4, to = 2, steps = 2 } }", "`from` is not below `to`"),
        ("{ name = \"verus\", r = { from = 2, to = 4, step = 2 } }", "there is no `step`"),
        ("{ r = [2] }", "cc[0]: name: is missing"),
        ("[\"cubic\", \"cubic\"]", "cc: `cubic` is given twice"),
        ("5", "neither a text nor a table"),
    ] {
        let said = refused(&format!("trace = \"constant:4mbit\"\ncc = {cc}"));
        assert!(said.contains(expected), "{cc}\n{said}");
    }
}

#[test]
fn ranges_have_both_ends_and_the_scale_of_the_parameter() {
    let values = |cc: &str| {
        let sweep =
            sweep(&format!("trace = \"constant:4mbit\"\nduration = \"3s\"\ncc = {cc}")).unwrap();
        (0..sweep.cells()).map(|cell| sweep.cell(cell).cc).collect::<Vec<_>>()
    };
    assert_eq!(
        values("{ name = \"verus\", r = { from = 2, to = 6, steps = 3, scale = \"linear\" } }"),
        ["verus:r=2", "verus:r=4", "verus:r=6"]
    );
    assert_eq!(
        values("{ name = \"copa\", delta = { from = 0.1, to = 10, steps = 3, scale = \"log\" } }"),
        ["copa:delta=0.1", "copa:delta=1", "copa:delta=10"]
    );
    assert_eq!(
        values(
            "{ name = \"verus:original\", epoch = { from = \"5ms\", to = \"15ms\", steps = 2 } }"
        ),
        ["verus:original,epoch=5ms", "verus:original,epoch=15ms"]
    );
}

#[test]
fn a_path_has_its_own_fields_and_those_of_the_plan() {
    let sweep = sweep(
        r#"
        cc = "cubic"
        queue = ["droptail:100kB", "codel"]
        duration = "3s"
        [[path]]
        trace = "constant:4mbit"
        [[path]]
        trace = "constant:9mbit"
        rtt = ["10ms", "20ms", "30ms"]
        queue = "infinite"
        "#,
    )
    .unwrap();
    let all = (0..sweep.cells()).map(|cell| {
        let request = sweep.cell(cell).request();
        format!("{} {} {}", request.trace, request.rtt_ms, request.queue)
    });
    assert_eq!(
        all.collect::<Vec<_>>(),
        [
            "constant:4mbit 40 droptail:100kB",
            "constant:4mbit 40 codel",
            "constant:9mbit 10 infinite",
            "constant:9mbit 20 infinite",
            "constant:9mbit 30 infinite",
        ]
    );
    let wrong = "cc = \"cubic\"\n[[path]]\ntrace = \"constant:1mbit\"\nrrt = \"1ms\"";
    assert!(refused(wrong).contains("path[0]: there is no field `rrt`; did you mean `rtt`?"));
}

#[test]
fn columns_have_each_field_of_a_path_as_it_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let sweep = sweep(
        r#"
        cc = "cubic"
        duration = "1s"
        skip = "0s"
        [[path]]
        trace = "constant:4mbit"
        impair = [["reorder=1%/3ms, duplicate=1%", "up:duplicate=2%"]]
        [[path]]
        trace = "constant:9mbit"
        flows = 2
        "#,
    )
    .unwrap();
    let mut results = SweepFolder::open(folder.path(), &sweep).unwrap();
    run_sweep(&sweep, &mut results, 1, &mut ()).unwrap();
    let table = table(&folder.path().join("part-00000.parquet"));
    let schema = table.schema();
    let names = schema.fields().iter().map(|field| field.name().as_str());
    assert_eq!(
        names.filter(|name| name.starts_with("plan_")).collect::<Vec<_>>(),
        ["plan_trace", "plan_impair", "plan_flows", "plan_skip", "plan_duration"]
    );
    let text = |name: &str| table.column_by_name(name).unwrap().as_string::<i32>();
    assert_eq!(text("plan_impair").value(0), "reorder=1%/3ms, duplicate=1%; up:duplicate=2%");
    assert!(text("plan_impair").is_null(1) && text("plan_flows").is_null(0));
    assert_eq!((text("plan_trace").value(1), text("plan_flows").value(1)), ("constant:9mbit", "2"));
}

#[test]
fn units_end_with_finished_files_and_have_a_cell_at_least() {
    let sweep = sweep(
        "trace = \"constant:4mbit\"\nduration = \"3s\"\ncc = \"cubic\"\nseeds = \"1..60000\"",
    )
    .unwrap();
    let cut = |first, seconds, most| sweep.cut(CellRange { first, end: 60_000 }, seconds, most);
    assert_eq!(cut(10, 0.0, 100), CellRange { first: 10, end: 11 });
    assert_eq!(cut(10, 1e9, 100), CellRange { first: 10, end: 110 });
    assert_eq!(cut(10, 1e9, u64::MAX), CellRange { first: 10, end: 50_000 });
    let some = cut(50_000, 1.0, u64::MAX).count() as f64 * sweep.estimate_s(0);
    assert!((0.9..1.1).contains(&some), "{some}");
}

#[test]
fn units_over_several_paths_take_what_their_cells_take() {
    let sweep = sweep(
        "trace = [\"constant:4mbit\", \"constant:40mbit\", \"constant:9mbit\"]\n\
         duration = \"3s\"\ncc = [\"cubic\", \"copa\"]\nseeds = \"1..10\"",
    )
    .unwrap();
    let each: Vec<f64> = (0..60).map(|cell| sweep.estimate_s(cell)).collect();
    for (first, end) in [(0, 60), (3, 20), (19, 21), (25, 59), (7, 7)] {
        let sum: f64 = each[first..end].iter().sum();
        let cells = CellRange { first: first as u64, end: end as u64 };
        assert!((sweep.estimate_of(cells) - sum).abs() < 1e-9, "{first} to {end}");
        let unit = sweep.cut(CellRange { first: cells.first, end: 60 }, sum - 1e-9, u64::MAX);
        assert_eq!(unit.end, cells.end.max(cells.first + 1), "{first} to {end}");
    }
}
