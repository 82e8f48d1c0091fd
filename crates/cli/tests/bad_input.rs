//! Bad input, one line each: what is written, the exit code, and a phrase of the answer. None of it
//! panics, hangs or leaves a file behind.

#![allow(clippy::unwrap_used)]

mod program;

use std::fs;

use program::Folder;

/// Wrong usage, or input that cannot be read.
const USAGE: i32 = 2;
/// Input that is there and is not what it should be.
const FAILED: i32 = 1;

/// The files that the commands below find.
fn folder() -> Folder {
    let folder = Folder::new();
    for (name, text) in [
        ("drive.down", "1\n2\n4\n"),
        ("falls.down", "5\n3\n"),
        ("words.down", "one\ntwo\n"),
        ("negative.down", "-1\n2\n"),
        ("fraction.down", "0.5\n1.5\n"),
        ("zero.down", "0\n0\n"),
        ("empty.down", ""),
        ("gap.down", "1\n\n2\n"),
        ("rates.csv", "time_s,mbps\n0,12\n1,6\n"),
        ("no-json.json", "{\"opportunities_ms\": [3, 2]}"),
        ("half.down.gz", "\u{1f}"),
        ("a.profile", "mean = 3\n"),
        ("junk.mdi", "junk"),
        ("matrix.csv", "1,2,3\n"),
        ("samples.csv", "chain,users,delay_ms,window_pkts,sent\n0,1,20\n"),
        ("delays", "0 -20\n"),
        ("flow.toml", "trace = \"constant:12mbit\"\n[[flow]]\ncc = \"fixed\"\n"),
        ("no-trace.toml", "[[flow]]\ncc = \"cubic\"\n"),
        ("no-flow.toml", "trace = \"constant:12mbit\"\n"),
        ("bare.toml", "trace = \"lte-driving\"\nrtt = 40\n[[flow]]\ncc = \"cubic\"\n"),
        ("bare-size.toml", "[[flow]]\ncc = \"cubic\"\nonoff = { mean = 4 }\n"),
        ("late.toml", "trace = \"constant:9mbit\"\n[[flow]]\ncc = \"cubic\"\nstart = \"2h\"\n"),
        ("silent.toml", "trace = \"constant:0mbit\"\n[[flow]]\ncc = \"cubic\"\n"),
        ("two.toml", "trace = \"constant:9mbit\"\n[[flow]]\ncc = \"cubic,copa\"\n"),
        ("csv.toml", "trace = \"rates.csv\"\n[[flow]]\ncc = \"cubic\"\n"),
    ] {
        folder.write(name, text);
    }
    folder.write("cut.down.gz", [0x1f, 0x8b, 8, 0, 0]);
    fs::create_dir(folder.path("folder")).unwrap();
    folder
}

const BAD: &[(&str, i32, &str)] = &[
    // Controllers.
    (
        "compare --cc verus,copa",
        USAGE,
        "`verus,copa` has several controllers; write --cc verus --cc copa",
    ),
    ("compare --cc verus:r=4,delta1=2ms,copa", USAGE, "write --cc verus:r=4,delta1=2ms --cc copa"),
    ("compare --cc verus copa", USAGE, "--cc: repeat it: --cc verus --cc copa"),
    ("compare --cc verus copa bbr --rtt 40ms", USAGE, "--cc verus --cc copa --cc bbr"),
    ("compare --cc bbr3", USAGE, "there is no controller `bbr3`; `bbr` is version 1"),
    ("compare --cc bbrv2", USAGE, "`bbr` is version 1"),
    ("compare --cc vrus", USAGE, "did you mean `verus`?"),
    ("compare --cc reno", USAGE, "there is no controller `reno`"),
    ("compare --cc", USAGE, "--cc <CC>"),
    ("compare --cc=", USAGE, "--cc: there is no controller ``"),
    ("compare --cc verus:r", USAGE, "`r` should be key=value or a preset"),
    ("compare --cc verus:orignal", USAGE, "did you mean `original`?"),
    ("compare --cc verus:r=2,original", USAGE, "the preset `original` should come first"),
    ("compare --cc verus:r=-2", USAGE, "r=-2 is out of range"),
    ("compare --cc verus:epoch=-5ms", USAGE, "a time is not negative"),
    ("compare --cc copa:delta=", USAGE, "delta"),
    ("compare --cc mdi:model=gone.mdi", USAGE, "gone.mdi"),
    ("compare --cc mdi:model=junk.mdi", USAGE, "junk.mdi"),
    ("compare --cc mdi:model=folder", USAGE, "folder"),
    ("compare --cc cubic --cc cubic", USAGE, "`cubic` is given twice"),
    ("cc verus copa", USAGE, "unexpected argument 'copa'"),
    ("cc --all", USAGE, "<NAME>"),
    // Traces.
    ("compare --trace 12mbit", USAGE, "a constant rate is written `constant:12mbit`"),
    ("compare --trace lte-drivng", USAGE, "did you mean `lte-driving`?"),
    ("compare --trace gone.down", USAGE, "there is no trace file `gone.down`"),
    ("compare --trace gone.down", USAGE, "see `cellpace trace list`"),
    ("compare --trace rates.csv", USAGE, "cellpace trace convert rates.csv -o rates.down"),
    ("compare --trace folder", USAGE, "this is a folder, not a file"),
    ("compare --trace falls.down", USAGE, "line 2: 3 comes after 5"),
    ("compare --trace words.down", USAGE, "line 1: `one` is not a whole number"),
    ("compare --trace negative.down", USAGE, "line 1: `-1` is not a whole number"),
    ("compare --trace fraction.down", USAGE, "line 1: `0.5` is not a whole number"),
    ("compare --trace zero.down", USAGE, "needs a last timestamp above 0"),
    ("compare --trace empty.down", USAGE, "empty; a trace needs at least one line"),
    ("compare --trace gap.down", USAGE, "line 2: empty line in the middle"),
    ("compare --trace cut.down.gz", USAGE, "cut.down.gz: "),
    ("compare --trace half.down.gz", USAGE, "line 1"),
    ("compare --trace -", USAGE, "standard input: empty"),
    (
        "compare --trace constant:0mbit",
        USAGE,
        "--trace: `constant:0mbit`: a rate of zero delivers nothing",
    ),
    ("compare --trace constant:-5mbit", USAGE, "a rate is not negative"),
    ("compare --trace constant:12", USAGE, "`12` needs a unit"),
    ("compare --trace constant:12megs", USAGE, "unknown unit `megs`"),
    ("compare --trace step:0mbit/1s,0mbit/1s", USAGE, "a rate of zero delivers nothing"),
    ("compare --trace step:10mbit", USAGE, "step:VALUE/TIME"),
    ("compare --trace random:9mbit..2mbit/1s", USAGE, "LOW up to HIGH"),
    ("compare --trace random:2mbit..9mbit", USAGE, "random:LOW..HIGH/TIME"),
    ("compare --trace onoff:0mbit,on=1s", USAGE, "a rate of zero delivers nothing"),
    ("compare --trace onoff:9mbit,off=0s", USAGE, "out of range"),
    ("compare --trace profile:a.profile", USAGE, "a.profile"),
    ("compare --trace profile:gone", USAGE, "there is no file `gone`"),
    ("compare --trace cellreplay:light=drive.down", USAGE, "heavy is needed"),
    ("compare --uplink constant:0mbit", USAGE, "--uplink: `constant:0mbit`: a rate of zero"),
    // The path.
    ("compare --rtt 40", USAGE, "`40` needs a unit; write a time like 40ms"),
    ("compare --rtt -40ms", USAGE, "`-40ms`: a delay is not negative"),
    ("compare --rtt 40ms..80ms", USAGE, "--rtt"),
    ("compare --rtt file:delays", USAGE, "delays"),
    (
        "compare --queue 2MB",
        USAGE,
        "--queue: there is no queue `2MB`; a size is written `droptail:2MB`",
    ),
    ("compare --queue droptail:0", USAGE, "needs a unit"),
    ("compare --queue droptail:0pkts", USAGE, "nothing would get through"),
    ("compare --queue droptail:-1MB", USAGE, "not negative"),
    ("compare --queue infinite:2MB", USAGE, "infinite"),
    ("compare --queue codel:target=5", USAGE, "needs a unit"),
    ("compare --queue fqcodel", USAGE, "did you mean `fq_codel`?"),
    ("compare --loss 100%", USAGE, "when every packet is lost, nothing arrives"),
    ("compare --loss -1%", USAGE, "a loss is not negative"),
    ("compare --loss 101%", USAGE, "out of range"),
    ("compare --loss ge:p=100%,r=0%", USAGE, "above 0, or the bad state would never end"),
    (
        "compare --uplink-loss 100%",
        USAGE,
        "--uplink-loss: `100%`: when every packet is lost, nothing arrives",
    ),
    ("compare --handover soon", USAGE, "--handover"),
    ("compare --handover 90s --duration 60s", USAGE, "is not over before the end"),
    ("compare --acks never", USAGE, "--acks"),
    // Lengths and numbers.
    ("compare --duration 0s", USAGE, "the duration is 0 s"),
    ("compare --duration -5s", USAGE, "a time is not negative"),
    ("compare --duration 5", USAGE, "needs a unit"),
    ("compare --duration 1s", USAGE, "skip (2s) leaves nothing of the duration (1s)"),
    ("compare --duration 10s --skip 10s", USAGE, "skip less or run longer"),
    ("compare --duration 1000h", USAGE, "the longest is"),
    ("compare --flows 0", USAGE, "--flows"),
    ("compare --flows -1", USAGE, "--flows"),
    ("compare --repeat 1.5", USAGE, "--repeat"),
    ("compare --seed -1", USAGE, "`-1` is not a whole number from 0"),
    ("compare --timing", USAGE, "`cellpace compare` has no --timing"),
    // Outputs.
    ("compare --json folder", USAGE, "is a folder"),
    ("compare --json gone/out.json", USAGE, "no such folder"),
    ("compare --json x --report x", USAGE, "--json and --report both write x"),
    ("compare --log out.pcapng", USAGE, "name a .parquet file"),
    ("compare --log -", USAGE, "needs a file"),
    ("compare extra", USAGE, "unexpected argument 'extra'"),
    ("comapre", USAGE, "'compare'"),
    // Scenarios.
    ("sim", USAGE, "<SCENARIO>"),
    ("sim gone.toml", USAGE, "gone.toml: No such file"),
    ("sim folder", USAGE, "this is a folder"),
    ("sim -", USAGE, "standard input: there is no flow"),
    (
        "sim no-trace.toml",
        USAGE,
        "no-trace.toml: trace: is missing; write, for example, trace = \"lte-driving\"",
    ),
    ("sim no-flow.toml", USAGE, "there is no flow"),
    ("sim bare.toml", USAGE, "bare.toml:2: rtt: 40 should have a unit and quotes: rtt = \"40ms\""),
    ("sim bare-size.toml", USAGE, "mean = \"4MB\""),
    ("sim late.toml", USAGE, "flow 1 starts at 7200s, but the run ends at 60s"),
    ("sim silent.toml", USAGE, "silent.toml:1: trace: `constant:0mbit`: a rate of zero"),
    ("sim two.toml", USAGE, "two.toml:3: cc: "),
    ("sim csv.toml", USAGE, "cellpace trace convert rates.csv"),
    ("sim drive.down", USAGE, "drive.down:1: "),
    ("sim flow.toml --timing", USAGE, "`cellpace sim` has no --timing"),
    ("sim flow.toml --rtt 40ms", USAGE, "unexpected argument '--rtt'"),
    ("sim flow.toml --log x.pcapng", USAGE, "name a .parquet file"),
    // Traces as such.
    ("trace show", USAGE, "<TRACE>"),
    ("trace show gone", USAGE, "there is no trace file `gone`"),
    ("trace show drive.down --plot x.svg", USAGE, "`cellpace trace show` has no --plot"),
    ("trace show drive.down --duration 0s", USAGE, "out of range"),
    ("trace check falls.down --json out.json", FAILED, "1 of 1 traces failed the check"),
    ("trace convert rates.csv", USAGE, "--output"),
    ("trace convert rates.csv -o out.down --to csv", USAGE, "the name of the output says it"),
    ("trace convert no-json.json -o out.down", USAGE, "2 comes after 3"),
    ("trace convert matrix.csv -o out.down", USAGE, "matrix.csv, line 1: has 3 fields"),
    ("trace convert drive.down -o out.down --scale -2", USAGE, "is not a number above 0"),
    ("trace convert drive.down -o out.down --start 9s", USAGE, "--start"),
    ("trace convert constant:12mbit -o out.down", USAGE, "use `cellpace trace make`"),
    ("trace make constant:0mbit -o out.down", USAGE, "nothing is delivered"),
    ("trace make lte-driving -o folder", USAGE, "--output folder: is a folder"),
    ("trace make lte-driving -o out.down --duration 50000h", USAGE, "out of range"),
    ("trace fit drive.down -o out.profile", FAILED, "at least 20 s"),
    ("trace fit drive.down -o out.profile --name x", USAGE, "has no --name"),
    ("trace list extra", USAGE, "unexpected argument 'extra'"),
    // Markov tables.
    ("mdi train --cc verus --trace lte-driving", USAGE, "--output"),
    ("mdi train --cc verus --trace - -o out.mdi", USAGE, "empty"),
    ("mdi train --cc verus --trace lte-driving -o out.mdi --users 0", USAGE, "allowed: 1 to 256"),
    (
        "mdi train --cc verus --trace lte-driving -o out.mdi --handover 5s",
        USAGE,
        "has no --handover",
    ),
    (
        "mdi train --cc verus --trace lte-driving -o out.mdi --states x",
        USAGE,
        "`levels`, `relative` or `absolute`",
    ),
    (
        "mdi train --cc verus --trace lte-driving -o out.mdi --loss 100%",
        USAGE,
        "--loss: `100%`: when every",
    ),
    ("mdi show junk.mdi", USAGE, "junk.mdi"),
    ("mdi show gone.mdi", USAGE, "there is no file `gone.mdi`"),
    ("mdi export junk.mdi", USAGE, "write `cellpace mdi convert`"),
    ("mdi convert matrix.csv -o out.mdi", USAGE, "matrix.csv: line 1"),
    ("mdi convert samples.csv -o out.mdi", USAGE, "--teacher"),
    (
        "mdi convert samples.csv --teacher x -o out.mdi",
        USAGE,
        "samples.csv:2: window_pkts: is missing",
    ),
    ("mdi convert junk.mdi -o out.txt", USAGE, "junk.mdi"),
    ("mdi merge junk.mdi -o out.mdi", USAGE, "Usage"),
    // A program without `--`.
    (
        "run ping -c 1 localhost",
        USAGE,
        "run: put `--` in front of the program: -- ping -c 1 localhost",
    ),
    (
        "link --rtt 40ms ping -c 1 localhost",
        USAGE,
        "link: put `--` in front of the program: -- ping",
    ),
];

#[test]
fn bad_input_is_answered_with_what_to_write() {
    let folder = folder();
    let before = folder.names();
    let mut wrong = String::new();
    for (args, code, phrase) in BAD {
        let outcome = folder.run(args);
        let answer = outcome.stderr.trim_end();
        if outcome.code != Some(*code) || !answer.contains(phrase) {
            wrong +=
                &format!("{args}\n  wanted {code}: {phrase}\n  got {:?}: {answer}\n", outcome.code);
            continue;
        }
        // A check that failed shows its findings, too.
        if *code != FAILED {
            outcome.complains(*code, phrase);
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    let written: Vec<String> =
        folder.names().into_iter().filter(|name| !before.contains(name)).collect();
    // What `check` found is a result.
    assert_eq!(written, ["out.json"]);
}
