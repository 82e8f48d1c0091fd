//! `cellpace trace` from end to end, with the program as it is built.

// The exemption for tests does not reach their common functions.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use serde_json::Value;
use tempfile::TempDir;

/// A folder of files, and the program run in it.
struct Desk(TempDir);

impl Desk {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn with(files: &[(&str, &str)]) -> Self {
        let desk = Self::new();
        for (name, text) in files {
            fs::write(desk.path(name), text).unwrap();
        }
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn text(&self, name: &str) -> String {
        fs::read_to_string(self.path(name)).unwrap()
    }

    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_cellpace"));
        command.args(args).current_dir(self.0.path());
        command
    }

    fn run(&self, args: &[&str]) -> Ran {
        Ran::of(self.command(args).output().unwrap())
    }

    fn trace(&self, args: &[&str]) -> Ran {
        self.run(&[&["trace"], args].concat())
    }

    /// What it printed, when all went well.
    fn said(&self, args: &[&str]) -> String {
        let ran = self.trace(args);
        assert_eq!((ran.code, &*ran.err), (0, ""), "{args:?}");
        ran.out
    }

    /// The one line that it failed with.
    fn failed(&self, code: i32, args: &[&str]) -> String {
        let ran = self.trace(args);
        assert_eq!((ran.code, &*ran.out), (code, ""), "{args:?}: {}", ran.err);
        assert_eq!(ran.err.lines().count(), 1, "{}", ran.err);
        ran.err.trim_end().to_owned()
    }

    fn files(&self) -> Vec<String> {
        let name = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(self.0.path()).unwrap().map(name);
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort();
        names
    }
}

struct Ran {
    code: i32,
    out: String,
    err: String,
}

impl Ran {
    fn of(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        let code = output.status.code().unwrap();
        Self { code, out: text(output.stdout), err: text(output.stderr) }
    }
}

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap()
}

/// A minute that is good and not all alike: 12 Mbit/s, and 6 in every other second.
fn good() -> String {
    let is_there = |ms: &u32| (ms / 1000).is_multiple_of(2) || ms.is_multiple_of(2);
    (1..=60_000).filter(is_there).map(|ms| format!("{ms}\n")).collect()
}

/// What people have by mistake, and what is said about it.
const BAD: [(&str, &str, &str); 8] = [
    ("empty", "", "empty: empty; a trace needs at least one line"),
    ("blank", "\n\n", "blank: empty; a trace needs at least one line"),
    ("decreasing", "1\n5\n3\n", "decreasing, line 3: 3 comes after 5"),
    ("negative", "1\n-5\n", "negative, line 2: `-5` is not a whole number of milliseconds, and"),
    ("words", "1\nabc\n", "words, line 2: `abc` is not a whole number"),
    ("gap", "1\n\n2\n", "gap, line 2: empty line in the middle"),
    ("zero", "0\n0\n", "zero: needs a last timestamp above 0"),
    ("late", "1\n4294967296\n", "late, line 2: 4294967296 is more than 4294967295 ms"),
];

fn bad_files() -> Desk {
    Desk::with(&BAD.map(|(name, text, _)| (name, text)))
}

#[test]
fn show_tells_figures_and_draws_a_picture() {
    let desk = Desk::with(&[("good.down", &good())]);
    let text = desk.said(&["show", "good.down"]);
    assert!(text.starts_with("good.down: 60 s, 9 Mbit/s on average, 45000 opportunities\n"));
    assert!(text.contains("rate in 1 s, Mbit/s p5 6"), "{text}");
    assert!(text.contains("outages             none"), "{text}");
    assert!(text.contains('█') && text.contains("60 s"), "{text}");
    // Without a terminal it is made for 80 columns.
    let widest = text.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(80), "{text}");
}

#[test]
fn show_writes_json() {
    let desk = Desk::with(&[("good.down", &good())]);
    desk.said(&["show", "good.down", "--json", "p.json"]);
    let document = json(&desk.text("p.json"));
    assert_eq!(document, json(&desk.said(&["show", "good.down", "--json", "-"])));
    assert_eq!(document["schema"], "cellpace.trace-show/1");
    let figures = &document["traces"][0];
    assert_eq!((&figures["seconds"], &figures["mean_mbps"]), (&60.0.into(), &9.0.into()));
    assert_eq!(figures["autocorrelation"]["5s"].as_f64().unwrap().round(), -1.0);
    assert_eq!(desk.files(), ["good.down", "p.json"]);
}

#[test]
fn show_puts_two_traces_side_by_side_and_more_below_each_other() {
    let desk = Desk::with(&[("a", "1\n2\n4\n"), ("b", "1\n2\n3\n4\n"), ("c", "4\n")]);
    let two = desk.said(&["show", "a", "b"]);
    let row = two.lines().find(|line| line.starts_with("mean Mbit/s")).unwrap();
    let words: Vec<&str> = row.split_whitespace().collect();
    assert_eq!(words, ["mean", "Mbit/s", "9", "12", "+33.3", "%"]);
    let document = json(&desk.said(&["show", "a", "b", "--json", "-"]));
    assert_eq!(document["comparison"][1]["right"], 12.0);
    let three = desk.said(&["show", "a", "b", "c"]);
    assert!(three.contains("\nc: 4 ms") && !three.contains("change"), "{three}");
}

#[test]
fn show_generates_what_is_not_a_file() {
    let desk = Desk::new();
    assert!(desk.said(&["show", "constant:12mbit"]).starts_with("constant:12mbit: 60 s, 12 Mb"));
    assert!(desk.said(&["show", "lte-driving"]).starts_with("lte-driving: 300 s, "));
    let random = "random:2mbit..20mbit/1s";
    let drawn = |seed| desk.said(&["show", random, "--duration", "10s", "--seed", seed]);
    assert!(drawn("1").starts_with("random:2mbit..20mbit/1s: 10 s, "));
    assert_eq!(drawn("1"), drawn("1"));
    assert_ne!(drawn("1"), drawn("2"));
}

#[test]
fn what_is_tolerated_in_a_file_is_shown() {
    let desk = Desk::with(&[("one", "5\n"), ("crlf", "1\r\n2\r\n"), ("blank-end", "1\n2\n\n")]);
    assert!(desk.said(&["show", "one"]).contains("5 ms, 2.4 Mbit/s on average, 1 opportunity\n"));
    for name in ["crlf", "blank-end"] {
        assert!(desk.said(&["show", name]).contains("2 ms, 12 Mbit/s on average"), "{name}");
        assert!(desk.said(&["check", name]).starts_with("note "), "{name}");
    }
    // One line has no gap, and no whole second: nothing is made up.
    let document = json(&desk.said(&["show", "one", "--json", "-"]));
    let figures = &document["traces"][0];
    assert!(figures["gap_ms"]["p50"].is_null() && figures["rate_1s_mbps"]["p50"].is_null());
}

#[test]
fn bad_files_are_refused_in_one_line_with_file_and_line() {
    let desk = bad_files();
    for (name, _, expected) in BAD {
        for args in [
            vec!["show", name],
            vec!["convert", name, "-o", "out.csv"],
            vec!["make", name, "-o", "out"],
            vec!["fit", name, "-o", "out.profile"],
        ] {
            let said = desk.failed(2, &args);
            assert!(said.starts_with(&format!("cellpace: {expected}")), "{args:?}: {said}");
        }
    }
    assert_eq!(desk.files().len(), BAD.len(), "nothing was written: {:?}", desk.files());
}

#[test]
fn check_reports_every_bad_file_and_goes_on() {
    let desk = bad_files();
    fs::write(desk.path("good.down"), good()).unwrap();
    fs::create_dir(desk.path("folder")).unwrap();
    let mut args = vec!["check", "folder", "missing"];
    args.extend(BAD.map(|(name, ..)| name));
    args.push("good.down");
    let ran = desk.trace(&args);
    assert_eq!((ran.code, &*ran.err), (1, "cellpace: 10 of 11 traces failed the check\n"));
    let lines: Vec<&str> = ran.out.lines().collect();
    assert_eq!(lines[0], "error    folder: this is a folder, not a file");
    assert!(lines[1].starts_with("error    there is no trace file `missing`"), "{}", lines[1]);
    for ((_, _, expected), line) in BAD.iter().zip(&lines[2..]) {
        assert!(line.starts_with(&format!("error    {expected}")), "{line}");
    }
    assert_eq!(lines[10..], ["ok       good.down"]);
}

#[test]
fn check_tells_errors_warnings_and_notes_apart() {
    let steady = |from: u32, without: std::ops::Range<u32>| {
        let there = (1..=60_000).filter(|ms| !without.contains(ms));
        there.map(|ms| format!("{}\n", ms + from)).collect::<String>()
    };
    let desk = Desk::with(&[
        ("good", &steady(0, 0..0)),
        ("noted", &steady(0, 20_000..22_000)),
        ("suspect", &steady(0, 20_000..40_000)),
        ("clock", &steady(1_700_000_000, 0..0)),
    ]);
    assert_eq!(desk.said(&["check", "good"]), "ok       good\n");
    let noted = desk.said(&["check", "--strict", "noted"]);
    assert_eq!(noted, "note     noted: the longest outage lasts 2.001 s, from 19.999 s\n");
    assert!(desk.said(&["check", "suspect"]).starts_with("warning  suspect: the longest outage"));
    assert_eq!(desk.trace(&["check", "--strict", "suspect"]).code, 1);
    let clock = desk.trace(&["check", "clock"]);
    assert_eq!(clock.code, 1);
    let expected = "error    clock: the first opportunity is at 1700000.001 s";
    assert!(clock.out.contains(expected), "{}", clock.out);
}

#[test]
fn check_writes_json() {
    let desk = Desk::with(&[("bad", "1\nx\n"), ("good", &good())]);
    let ran = desk.trace(&["check", "bad", "good", "--json", "-"]);
    assert_eq!(ran.code, 1);
    let document = json(&ran.out);
    assert_eq!(document["schema"], "cellpace.trace-check/1");
    let [bad, good] = [0, 1].map(|index| &document["traces"][index]);
    assert_eq!((&bad["result"], &bad["findings"][0]["line"]), (&"error".into(), &2.into()));
    assert_eq!((&good["result"], &good["findings"]), (&"ok".into(), &Value::Array(vec![])));
}

#[test]
fn convert_goes_to_csv_and_back() {
    let desk = Desk::with(&[("a.down", "1\n1\n3\n5\n8\n"), ("good.down", &good())]);
    desk.said(&["convert", "a.down", "-o", "a.csv", "--bin", "2ms"]);
    assert_eq!(desk.text("a.csv"), "time_s,mbps\n0,12\n0.002,6\n0.004,6\n0.006,6\n");
    desk.said(&["convert", "a.down", "-o", "a.csv", "--bin", "1ms"]);
    desk.said(&["convert", "a.csv", "-o", "again.down"]);
    assert_eq!(desk.text("again.down"), desk.text("a.down"));
    // Bins of 100 ms by default; the rate of each survives.
    desk.said(&["convert", "good.down", "-o", "good.csv"]);
    assert_eq!(desk.text("good.csv").lines().count(), 601);
    desk.said(&["convert", "good.csv", "-o", "coarse.down"]);
    desk.said(&["convert", "coarse.down", "-o", "again.csv"]);
    assert_eq!(desk.text("again.csv"), desk.text("good.csv"));
}

#[test]
fn convert_goes_to_json_and_back() {
    let desk = Desk::with(&[("a.down", "0\n1\n1\n5\n")]);
    let said = desk.said(&["convert", "a.down", "-o", "a.json"]);
    assert_eq!(said, "a.json: 5 ms, 9.6 Mbit/s on average, 4 opportunities\n");
    let expected = "{\"name\":\"a.down\",\"period_ms\":5,\"opportunities_ms\":[0,1,1,5]}\n";
    assert_eq!(desk.text("a.json"), expected);
    assert_eq!(desk.said(&["convert", "a.json", "-o", "-"]), desk.text("a.down"));
}

#[test]
fn convert_cuts_and_scales() {
    let desk = Desk::with(&[("a", "1\n2\n3\n4\n5\n6\n20\n")]);
    let cut = |options: &[&str]| {
        let said = desk.said(&[&["convert", "a", "-o", "-"], options].concat());
        said.lines().map(|line| line.parse().unwrap()).collect::<Vec<u32>>()
    };
    assert_eq!(cut(&["--start", "2ms", "--duration", "3ms"]), [1, 2, 3]);
    assert_eq!(cut(&["--duration", "10ms"]), [1, 2, 3, 4, 5, 6, 10], "the period is kept");
    assert_eq!(cut(&["--start", "5ms", "--duration", "1h"]), [1, 15]);
    assert_eq!(cut(&["--scale", "2", "--duration", "2ms"]), [1, 1, 2, 2]);
    assert_eq!(cut(&["--scale", "0.5"]), [2, 4, 6, 20]);
    let args = ["convert", "a", "-o", "b", "--start", "7ms", "--duration", "2ms"];
    let nothing = desk.failed(1, &args);
    assert_eq!(nothing, "cellpace: a: there is no opportunity between 7ms and 9ms");
    desk.failed(2, &["convert", "a", "-o", "b", "--start", "20ms"]);
    assert_eq!(desk.files(), ["a"]);
}

#[test]
fn convert_may_write_over_its_input_but_never_half() {
    let desk = Desk::with(&[("a", "1\n2\n"), ("b", "1\nx\n")]);
    desk.said(&["convert", "a", "-o", "a", "--scale", "2"]);
    assert_eq!(desk.text("a"), "1\n1\n2\n2\n");
    desk.failed(2, &["convert", "b", "-o", "a"]);
    desk.failed(2, &["convert", "a", "-o", "nowhere/a"]);
    assert_eq!(desk.text("a"), "1\n1\n2\n2\n");
    assert_eq!(desk.files(), ["a", "b"]);
}

#[test]
fn convert_says_what_of_a_recording_a_trace_does_not_hold() {
    let table = "time_s,mbps,rtt_ms,loss\n0,12,30,0\n1,12,40,1%\n";
    let desk = Desk::with(&[("a.csv", table)]);
    let refused = desk.failed(2, &["convert", "a.csv", "-o", "a.csv"]);
    assert!(refused.contains("its RTTs and losses would be lost"), "{refused}");
    assert_eq!(desk.text("a.csv"), table);
    let said = desk.trace(&["convert", "a.csv", "-o", "b.csv"]);
    assert!(said.code == 0 && said.err.contains("RTTs and losses are left out"), "{}", said.err);
}

/// The figures of the trace on standard input.
fn figures_of_stdin(desk: &Desk, bytes: &[u8]) -> Ran {
    let mut command = desk.command(&["trace", "show", "-", "--json", "-"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(bytes).unwrap();
    Ran::of(child.wait_with_output().unwrap())
}

#[test]
fn traces_come_from_standard_input_and_from_compressed_files() {
    let desk = Desk::with(&[("plain", "1\n2\n4\n")]);
    let gzip = |name: &str, file: &str| {
        let file = fs::File::open(desk.path(file)).unwrap();
        let status = Command::new("gzip").arg("-c").stdin(file).output().unwrap();
        fs::write(desk.path(name), status.stdout).unwrap();
    };
    gzip("packed.gz", "plain");
    let mean = |text: &str| json(text)["traces"][0]["mean_mbps"].as_f64().unwrap();
    assert_eq!(mean(&desk.said(&["show", "packed.gz", "--json", "-"])), 9.0);
    assert_eq!(mean(&figures_of_stdin(&desk, b"1\n2\n4\n").out), 9.0);
    assert_eq!(mean(&figures_of_stdin(&desk, &fs::read(desk.path("packed.gz")).unwrap()).out), 9.0);
    let wrong = figures_of_stdin(&desk, b"1\nx\n");
    assert_eq!(wrong.code, 2);
    assert!(wrong.err.contains("line 2: `x` is not a whole number"), "{}", wrong.err);
    desk.said(&["convert", "plain", "-o", "rates.csv", "--bin", "2ms"]);
    gzip("rates.csv.gz", "rates.csv");
    desk.said(&["convert", "rates.csv.gz", "-o", "again.csv", "--bin", "2ms"]);
    assert_eq!(desk.text("again.csv"), desk.text("rates.csv"));
}

#[test]
fn list_has_every_profile_with_its_figures_and_every_form() {
    let desk = Desk::new();
    let listed = desk.said(&["list"]);
    assert!(listed.lines().all(|line| line.chars().count() <= 80), "{listed}");
    let document = json(&desk.said(&["list", "--json", "-"]));
    let traces = document["traces"].as_array().unwrap();
    assert_eq!(traces.len(), 16);
    for trace in traces {
        let name = trace["trace"].as_str().unwrap();
        let line = listed.lines().find(|line| line.starts_with(name)).unwrap();
        let mean = format!("{:.1}", trace["mean_mbps"].as_f64().unwrap());
        assert_eq!(line.split_whitespace().nth(1), Some(&*mean), "{line}");
        assert!(json(&desk.said(&["show", name, "--json", "-"]))["traces"][0] == *trace);
    }
    for form in listed.lines().skip_while(|line| !line.starts_with("Other traces")).skip(1) {
        let form = form.split_whitespace().next().unwrap();
        if !form.contains("FILE") && !form.contains("=F,") && form != "-" {
            desk.said(&["show", form, "--duration", "10s"]);
        }
    }
}

#[test]
fn garbage_in_csv_is_named_with_line_and_field() {
    for (text, expected) in [
        ("time_s,mbps\n0,1\n1,NaN\n", "t.csv, line 3: mbps: `NaN` is not a number from 0"),
        ("0,1\n1,-2\n", "t.csv, line 2: mbps: `-2` is not a number from 0"),
        ("0,1\nsoon,2\n", "t.csv, line 2: time_s: `soon` is not a number from 0"),
        ("1,1\n0,2\n", "t.csv, line 2: time_s: `0` does not come after the time before it"),
        (
            "0,1,2\n",
            "t.csv, line 1: has 3 fields and no header: time_s,mbps is wanted, or say which they are: --time 1 \
             --rate 2 --unit kbit/s",
        ),
        ("", "t.csv: needs at least two lines with numbers, to know how long one lasts"),
        ("0,1e300\n1,1\n", "t.csv: the rates make more than 50000000 opportunities"),
    ] {
        let desk = Desk::with(&[("t.csv", text)]);
        let said = desk.failed(2, &["convert", "t.csv", "-o", "out"]);
        assert_eq!(said, format!("cellpace: {expected}"));
        assert_eq!(desk.files(), ["t.csv"]);
    }
}

/// A log of a phone, as it is: converted, and given to a run.
#[test]
fn tables_of_others_are_traces_at_once() {
    const LOG: &str = "Timestamp,Speed,DL_bitrate\n2019.12.16_13.40.04,3,12000\n2019.12.16_13.40.05,3,6000\n\
                       2019.12.16_13.40.07,3,6000\n2019.12.16_13.40.08,3,12000\n";
    let desk = Desk::with(&[("phone.csv", LOG), ("phone.log", LOG)]);
    let ran = desk.run(&["trace", "convert", "phone.csv", "-o", "a.down"]);
    assert_eq!(
        (ran.code, ran.err.as_str()),
        (0, "cellpace: phone.csv: time: `Timestamp`, date and time; rate: `DL_bitrate`, kbit/s\n")
    );
    assert_eq!(ran.out, "a.down: 5 s, 8.4 Mbit/s on average, 3500 opportunities\n");
    let asked = ["--time", "1", "--rate", "dl_bitrate", "--unit", "kbit/s"];
    desk.said(&[&["convert", "phone.log", "-o", "b.down"][..], &asked].concat());
    assert_eq!(desk.text("a.down"), desk.text("b.down"));
    let figures = |trace: &str, said: &str| {
        let ran = desk.run(&[
            "compare",
            "--trace",
            trace,
            "--cc",
            "cubic",
            "--duration",
            "4s",
            "--json",
            "-",
        ]);
        assert_eq!((ran.code, &*ran.err), (0, said));
        ran.out.replace(trace, "TRACE")
    };
    let guessed =
        "cellpace: phone.csv: time: `Timestamp`, date and time; rate: `DL_bitrate`, kbit/s\n";
    assert_eq!(figures("phone.csv", guessed), figures("a.down", ""));
    let said = desk.failed(2, &["convert", "phone.csv", "-o", "c.down", "--rate", "x"]);
    let there = "there are timestamp,speed,dl_bitrate";
    assert_eq!(said, format!("cellpace: phone.csv, line 2: --rate x: no such column; {there}"));
    for (option, value, problem) in [
        ("--unit", "furlongs", "is not a unit; allowed: bit/s, kbit/s"),
        ("--time", "0", "columns are counted from 1"),
        ("--gap", "x", "is neither hold nor zero"),
    ] {
        let ran = desk.run(&["trace", "convert", "phone.csv", "-o", "c.down", option, value]);
        assert!(ran.code == 2 && ran.err.contains(problem), "{}", ran.err);
    }
}

#[test]
fn make_gives_what_compare_draws_from_a_profile() {
    let desk = Desk::new();
    let said = desk.said(&["make", "lte-driving", "-o", "lte.down", "--seed", "3"]);
    assert!(said.starts_with("lte.down: 300 s, "), "{said}");
    let figures = |trace: &str| {
        let args = ["compare", "--trace", trace, "--seed", "3", "--cc", "cubic", "--cc", "copa"];
        let ran = desk.run(&[&args[..], &["--duration", "20s", "--json", "-"]].concat());
        assert_eq!(ran.code, 0, "{}", ran.err);
        ran.out.replace(trace, "TRACE")
    };
    assert_eq!(figures("lte.down"), figures("lte-driving"));
    let again = desk.said(&["make", "lte-driving", "-o", "-", "--seed", "3"]);
    assert_eq!(again, desk.text("lte.down"), "the same seed gives the same bytes");
}

#[test]
fn make_writes_generated_forms_with_their_period() {
    let desk = Desk::with(&[("a", "0\n1\n4\n")]);
    let made = |trace: &str, duration: &str| {
        desk.said(&["make", trace, "-o", "-", "--duration", duration]).replace('\n', " ")
    };
    assert_eq!(made("constant:10mbit", "6ms"), "2 3 4 5 6 ");
    assert_eq!(made("onoff:12mbit,on=2ms,off=3ms", "10ms"), "1 2 6 7 10 ");
    assert_eq!(made("a", "9ms"), "0 1 4 4 5 8 8 9 ");
    assert_eq!(
        desk.failed(2, &["make", "constant:0mbit", "-o", "b"]),
        "cellpace: constant:0mbit: nothing is delivered within 60s"
    );
    assert!(desk.failed(2, &["make", "lte-drivin", "-o", "b"]).contains("mean `lte-driving`?"));
    assert_eq!(desk.files(), ["a"]);
}

#[test]
fn fit_writes_a_profile_that_reads_and_generates() {
    let desk = Desk::new();
    desk.said(&["make", "umts-driving", "-o", "source.down", "--duration", "120s"]);
    let said = desk.said(&["fit", "source.down", "-o", "my.profile"]);
    assert!(said.contains("source.down  generated"), "{said}");
    assert!(said.ends_with("use it as --trace profile:my.profile\n"), "{said}");
    assert!(desk.text("my.profile").contains("about = fitted to 120 s of source.down\n"));
    assert!(desk.said(&["show", "profile:my.profile"]).starts_with("profile:my.profile: 300 s"));
    let again = desk.said(&["fit", "source.down", "-o", "-"]);
    assert_eq!(again, desk.text("my.profile"), "the same trace gives the same profile");
    let args = ["fit", "source.down", "-o", "my.profile", "--json", "-"];
    let document = json(&desk.said(&args));
    assert_eq!(document["schema"], "cellpace.trace-fit/1");
    let mean = &document["comparison"][1];
    assert_eq!(mean["figure"], "mean Mbit/s");
    assert!(mean["generated"].as_f64().unwrap() > 0.0);
}

/// A table of a minute with a column of each: two rates, two RTTs, losses in turn.
fn joint() -> String {
    let line = |second: u32| {
        let (rate, rtt) = if (second / 20).is_multiple_of(2) { (12, 30) } else { (24, 50) };
        format!("{second},{rate},{rtt},{}\n", if second.is_multiple_of(5) { "10%" } else { "0%" })
    };
    "time_s,mbps,rtt_ms,loss\n".to_owned() + &(0..60).map(line).collect::<String>()
}

#[test]
fn a_table_with_rates_rtts_and_losses_is_a_path() {
    let desk = Desk::with(&[("joint.csv", &joint())]);
    let figures = |options: &[&str]| {
        let run = ["compare", "--cc", "fixed:cwnd=10pkts", "--duration", "10s", "--json", "-"];
        let ran = desk.run(&[&run, options].concat());
        let guessed = "RTT: `rtt_ms`, ms; loss: `loss`, shares\n";
        assert_eq!((ran.code, &*ran.err), (0, &*format!("cellpace: joint.csv: {guessed}")));
        json(&ran.out)["runs"][0].clone()
    };
    let rtt = |run: &Value| run["rtt_ms_seen"]["p50"].as_f64().unwrap();
    let begun = figures(&["--path", "joint.csv"]);
    assert_eq!(begun["trace"], "joint.csv");
    assert!((30.0..35.0).contains(&rtt(&begun)), "{begun}");
    assert!(begun["lost"].as_u64().unwrap() > 20, "{begun}");
    // RTT and rate go on together.
    let later = figures(&["--path", "joint.csv", "--from", "21s"]);
    assert!((50.0..55.0).contains(&rtt(&later)), "{later}");
    assert_eq!(later["capacity_mbps"], 24.0);
    let other = figures(&["--path", "joint.csv", "--rtt", "10ms", "--loss", "0%"]);
    assert!((10.0..15.0).contains(&rtt(&other)), "{other}");
    assert_eq!(other["lost"], 0);
    let alone = figures(&["--trace", "joint.csv"]);
    assert!((40.0..45.0).contains(&rtt(&alone)), "{alone}");
}

#[test]
fn fit_takes_rtt_and_loss_and_says_how_far_off_they_are() {
    let desk = Desk::with(&[("joint.csv", &joint())]);
    let ran = desk.trace(&["fit", "joint.csv", "-o", "my.profile"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    assert!(ran.out.contains("base RTT p50 ms") && ran.out.contains("loss mean %"), "{}", ran.out);
    assert!(ran.out.ends_with("use it as --path profile:my.profile\n"), "{}", ran.out);
    let profile = desk.text("my.profile");
    assert!(profile.contains("\nrtt = random:30ms..") && profile.contains("\nloss = random:0%.."));
    let run = desk.run(&["compare", "--path", "profile:my.profile", "--duration", "20s"]);
    assert_eq!((run.code, &*run.err), (0, ""));
    // Of two recordings.
    fs::write(desk.path("rtts"), "0 20\n10000 25\n20000 35\n30000 20\n").unwrap();
    desk.said(&["make", "umts-driving", "-o", "source.down", "--duration", "60s"]);
    let ran = desk.trace(&["fit", "source.down", "--rtt", "file:rtts", "-o", "my.profile"]);
    assert_eq!(ran.code, 0, "{}", ran.err);
    let about = "about = fitted to 60 s of source.down, RTT to another recording, rtts\n";
    assert!(desk.text("my.profile").contains(about));
}

#[test]
fn fit_refuses_what_it_cannot_fit_and_never_eats_its_trace() {
    let desk = Desk::with(&[("short", "1\n2\n"), ("good.down", &good())]);
    let said = desk.failed(1, &["fit", "short", "-o", "p"]);
    assert!(said.starts_with("cellpace: short: a profile needs at least 20 s"), "{said}");
    let said = desk.failed(2, &["fit", "good.down", "-o", "./good.down"]);
    assert_eq!(said, "cellpace: --output is the trace itself; it would be lost");
    assert_eq!(desk.text("good.down"), good());
    assert_eq!(desk.files(), ["good.down", "short"]);
}

#[test]
fn missing_files_and_folders_are_said() {
    let desk = Desk::new();
    fs::create_dir(desk.path("folder")).unwrap();
    for command in [&["show"][..], &["convert", "-o", "out"], &["fit", "-o", "out"]] {
        let with = |name| [command, &[name]].concat();
        let said = desk.failed(2, &with("missing"));
        assert!(said.starts_with("cellpace: there is no"), "{said}");
        assert!(said.contains("`missing`"), "{said}");
        let said = desk.failed(2, &with("folder"));
        assert_eq!(said, "cellpace: folder: this is a folder, not a file");
    }
    let said = desk.failed(2, &["convert", "constant:12mbit", "-o", "out"]);
    assert!(said.ends_with("to write a generated trace, use `cellpace trace make`"), "{said}");
    assert_eq!(desk.files(), ["folder"]);
}

#[test]
fn a_huge_file_is_refused_with_its_size_before_it_is_read() {
    let desk = Desk::new();
    let file = fs::File::create(desk.path("huge")).unwrap();
    file.set_len(2 << 30).unwrap();
    let expected = "huge: 2048 MB is more than the 512 MB that are read";
    for args in [&["show", "huge"][..], &["convert", "huge", "-o", "out"]] {
        assert_eq!(desk.failed(2, args), format!("cellpace: {expected}"));
    }
    let ran = desk.trace(&["check", "huge"]);
    assert_eq!((ran.code, ran.out), (1, format!("error    {expected}\n")));
}

/// Root may read everything, so that as root there is nothing to test.
#[cfg(unix)]
#[test]
fn a_file_that_may_not_be_read_is_refused() {
    use std::os::unix::fs::PermissionsExt;
    let desk = Desk::with(&[("shut", "1\n2\n")]);
    fs::set_permissions(desk.path("shut"), fs::Permissions::from_mode(0o000)).unwrap();
    if fs::read(desk.path("shut")).is_ok() {
        cellpace_testing::skip("this user may read every file");
        return;
    }
    assert!(desk.failed(2, &["show", "shut"]).starts_with("cellpace: shut: Permission denied"));
}

#[test]
fn quantities_out_of_range_are_usage_errors() {
    let desk = Desk::with(&[("a", "1\n2\n")]);
    for args in [
        &["show", "a", "--duration", "0s"][..],
        &["show", "a", "--duration", "60"],
        &["make", "constant:12mbit", "-o", "b", "--duration", "0s"],
        &["make", "constant:12mbit", "-o", "b", "--duration", "50000h"],
        &["convert", "a", "-o", "b.csv", "--bin", "0ms"],
        &["convert", "a", "-o", "b.csv", "--bin", "1.5ms"],
        &["convert", "a", "-o", "b", "--bin", "1s"],
        &["convert", "a", "-o", "b", "--scale", "0"],
        &["convert", "a", "-o", "b", "--scale", "NaN"],
        &["convert", "a", "-o", "b", "--scale", "-1"],
        &["show"],
    ] {
        let ran = desk.trace(args);
        assert_eq!((ran.code, &*ran.out), (2, ""), "{args:?}: {}", ran.err);
    }
    assert_eq!(desk.files(), ["a"]);
}

#[test]
fn every_command_has_help_with_an_example() {
    let desk = Desk::new();
    for command in ["list", "show", "check", "convert", "make", "fit"] {
        let help = desk.said(&[command, "--help"]);
        let example = format!("\n  cellpace trace {command} ");
        assert!(help.contains("Examples:\n") && help.contains(&example), "{help}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_error() {
    let desk = Desk::new();
    let mut command = desk.command(&["trace", "make", "lte-driving", "-o", "-"]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!((ran.code, &*ran.err), (0, ""));
}

#[test]
fn fit_reproduces_the_built_in_profiles() {
    let Some(folder) = std::env::var_os("CELLPACE_TRACES") else {
        cellpace_testing::skip("no real traces (CELLPACE_TRACES)");
        return;
    };
    let desk = Desk::new();
    for (profile, trace) in [
        ("lte-driving", "att-lte-driving.down"),
        ("umts-driving", "tmobile-umts-driving.down"),
        ("hspa-walking", "campus-walk.down"),
    ] {
        let shipped = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../path/src/profile/{profile}.profile"));
        let shipped = fs::read_to_string(shipped).unwrap();
        let about = shipped.lines().find(|line| line.starts_with("about = ")).unwrap();
        let source = Path::new(&folder).join(trace);
        let source = source.to_str().unwrap();
        // The built-in ones say what was recorded, and not in which file it is.
        let fitted = desk.said(&["fit", source, "-o", "-"]);
        let own = fitted.lines().find(|line| line.starts_with("about = ")).unwrap();
        assert_eq!(fitted.replace(own, about), shipped, "{profile}");
    }
}
