#!/usr/bin/env python3
"""What each constant of Pace does at half and at twice its value, on a panel of paths on which Pace was chosen: the table of
docs/spec/pace.md.

    python3 evaluation/pace_sensitivity.py [FOLDER]

The constants are no parameters, so the program is built from a copy of HEAD (in FOLDER, by default a temporary one) in which each of
them is a function that the environment variable PACE_SCALE ("headroom.INITIAL.0=2") scales. Recorded traces come from CELLPACE_TRACES.
"""
import json
import math
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import fmean

# The modules below take the program's path from here.
FOLDER = sys.argv.pop(1) if len(sys.argv) > 1 else None

import regenerate
from frontier import TRAINING
from pace import MOVING as MOVING_PATHS
from program import ROOT, TRACES, table

FILES = ["base", "elasticity", "headroom", "mod", "rate"]
# Bounds that keep the arithmetic within 64 bits, units, and the empty values of structures.
NO_CHOICE = {"EMPTY", "NO_CAP", "CLOCK_OFFSET", "FACTOR_ONE", "SHARE_ONE", "MAX_RATE", "MOST"}
# Declared in params.rs, with their units.
PARAMETERS = {"empty": (0.01, ""), "extra": (3, ""), "memory": (150, "ms"), "learning": (0.04, ""), "search": (10, "s"),
              "initial_window": (10, "pkts"), "min_window": (2, "pkts")}
CELLULAR, MOVING, STEADY, STEPS = "cellular", "moving", "constant", "steps"
BESIDE, ALIKE, SHORT = "share", "Jain", "300 kB"
# In the page; standard output has all.
SHOWN = [CELLULAR, BESIDE, ALIKE]
CONSTANT = re.compile(r"((?:^[ ]*///[^\n]*\n)*)^([ ]*)const (\w+): ([^=;]+) = ([^;]+);", re.M)

EXAMPLE = r'''
//! Runs the scenarios named; a line of JSON for each.
#![allow(missing_docs, clippy::unwrap_used)]
use std::io::BufReader;
fn main() {
    let mut files = cellpace_path::schedule::TraceFiles::new(|name| {
        Ok(Box::new(BufReader::new(std::fs::File::open(name)?)) as Box<dyn std::io::BufRead>)
    });
    for name in std::env::args().skip(1) {
        let text = std::fs::read_to_string(&name).unwrap();
        let outcome = cellpace_sim::run(&cellpace_sim::Scenario::from_toml(&name, &text, &mut files).unwrap()).unwrap();
        let figures = &outcome.figures;
        let rates: Vec<f64> = figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect();
        let times: Vec<f64> = outcome.transfers.iter().filter_map(|one| one.completion_ms).collect();
        println!("{{\"utilization\":{},\"p95\":{},\"rates\":{rates:?},\"times\":{times:?}}}", figures.utilization, figures.queue_delay_ms.p95);
    }
}
'''
SCALING = r'''
/// What PACE_SCALE makes of a constant.
pub(super) trait Scaled: Copy {
    fn scaled(self, name: &str) -> Self;
}

fn factor(name: &str) -> f64 {
    let text = std::env::var("PACE_SCALE").unwrap_or_default();
    text.split_once('=').filter(|(of, _)| *of == name).map_or(1.0, |(_, by)| by.parse().expect("a number"))
}

impl Scaled for u64 {
    fn scaled(self, name: &str) -> Self {
        let by = factor(name);
        if by == 1.0 { self } else { ((self as f64 * by) as u64).max(1) }
    }
}

impl Scaled for u32 {
    fn scaled(self, name: &str) -> Self {
        u64::from(self).scaled(name) as u32
    }
}

impl Scaled for i64 {
    fn scaled(self, name: &str) -> Self {
        (self as u64).scaled(name) as i64
    }
}

impl Scaled for Span {
    fn scaled(self, name: &str) -> Self {
        Span::from_nanos(self.as_nanos().scaled(name))
    }
}

impl<A: Scaled, B: Scaled> Scaled for (A, B) {
    fn scaled(self, name: &str) -> Self {
        (self.0.scaled(&format!("{name}.0")), self.1.scaled(&format!("{name}.1")))
    }
}

impl<A: Scaled, B: Scaled, C: Scaled> Scaled for (A, B, C) {
    fn scaled(self, name: &str) -> Self {
        let first = (self.0, self.1).scaled(name);
        (first.0, first.1, self.2.scaled(&format!("{name}.2")))
    }
}
'''


def read_constants(source, text):
    """(name with its file, parts, value) of each constant before the tests."""
    found = []
    for _, _, name, kind, value in CONSTANT.findall(text):
        if name not in NO_CHOICE:
            parts = kind.count(",") + 1 if kind.startswith("(") else 1
            found.append((f"{source}.{name}", parts, " ".join(value.split())))
    return found


def make_scalable(source, text):
    """The same source, with functions in place of its constants."""
    law, mark, tests = text.partition("#[cfg(test)]\n")
    names = {name.split(".")[1] for name, *_ in read_constants(source, law)}

    def function(match):
        comment, indent, name, kind, value = match.groups()
        if name not in names:
            return match[0]
        return (f"{comment}{indent}#[allow(non_snake_case)]\n{indent}fn {name}() -> {kind} {{\n"
                f"{indent}    static VALUE: std::sync::OnceLock<{kind}> = std::sync::OnceLock::new();\n"
                f"{indent}    *VALUE.get_or_init(|| super::units::Scaled::scaled({value}, \"{source}.{name}\"))\n{indent}}}")

    # What is used as a value, and not where it is declared.
    used = re.compile(r"(?<!const )\b(" + "|".join(sorted(names)) + r")\b(?!\()")
    code = "\n".join(line if line.lstrip().startswith("//") else used.sub(r"\1()", line) for line in law.split("\n"))
    code = CONSTANT.sub(function, code)
    if source == "mod":
        code = code.replace("super::units::Scaled", "self::units::Scaled")
    return code + mark + tests


def build(folder):
    subprocess.run(f"git -C '{ROOT}' archive HEAD | tar -x -C '{folder}'", shell=True, check=True)
    law = folder / "crates/cc/src/pace"
    for source in FILES:
        path = law / f"{source}.rs"
        path.write_text(make_scalable(source, path.read_text()))
    units = law / "units.rs"
    units.write_text(units.read_text() + SCALING)
    example = folder / "crates/sim/examples/sensitivity.rs"
    example.parent.mkdir(exist_ok=True)
    example.write_text(EXAMPLE)
    quick = {"CARGO_PROFILE_RELEASE_LTO": "off", "CARGO_PROFILE_RELEASE_CODEGEN_UNITS": "16"}
    subprocess.run(["cargo", "build", "--quiet", "--release", "-p", "cellpace-sim", "--example", "sensitivity"], cwd=folder, check=True,
                   env={**os.environ, **quick, "CARGO_TARGET_DIR": str(folder / "target"), "RUSTFLAGS": "-Awarnings"})
    return folder / "target/release/examples/sensitivity"


def scenario(cc, trace, *flows, rtt="40ms", queue="2MB", seconds=60, skip=2):
    return (f'trace = "{trace}"\nrtt = "{rtt}"\nqueue = "droptail:{queue}"\nduration = "{seconds}s"\nskip = "{skip}s"\n'
            + "".join(f"[[flow]]\n{flow}\n" for flow in (f'cc = "{cc}"', *flows)))


def panel(cc):
    """Scenarios by the column to which they belong."""
    cellular = [scenario(cc, f"{TRACES}/{trace}") for trace in TRAINING[1:9:2]]
    moving = [scenario(cc, trace, rtt=rtt.rstrip("*")) for trace, rtt in MOVING_PATHS if rtt.endswith("*")][::2]
    steady = [scenario(cc, f"constant:{rate}", seconds=30) for rate in ("1mbit", "100mbit")]
    steps = [scenario(cc, "step:12mbit/5s,2mbit/5s")]
    rivals = [scenario(cc, "constant:24mbit", f'cc = "{rival}"\nstart = "300ms"', queue=queue, skip=20)
              for rival in ("cubic", "bbr") for queue in ("120kB", "600kB")]
    alike = [scenario(cc, f"constant:{rate}mbit", *[f'cc = "{cc}"\nstart = "{start}s"' for start in starts], skip=20)
             for rate, starts in ((24, [1.3]), (100, [1.3, 2.1, 3.4]))]
    short = [scenario(cc, trace, f'cc = "{cc}"\nstart = "5s"\ntransfer = {{ size = "300kB", count = 10, every = "3s" }}',
                      seconds=40).replace(f'[[flow]]\ncc = "{cc}"\n[[flow]]', "[[flow]]") for trace in ("constant:12mbit", "lte-driving")]
    return {CELLULAR: cellular, MOVING: moving, STEADY: steady, STEPS: steps, BESIDE: rivals, ALIKE: alike, SHORT: short}


def measure(program, cc, scale):
    """The figure of each column."""
    columns = panel(cc)
    with tempfile.TemporaryDirectory() as name:
        files = []
        for number, text in enumerate(text for texts in columns.values() for text in texts):
            files.append(Path(name) / f"{number}.toml")
            files[-1].write_text(text)
        lines = subprocess.run([program, *files], env={**os.environ, "PACE_SCALE": scale}, check=True, capture_output=True, text=True).stdout
    runs = iter(map(json.loads, lines.splitlines()))
    return {column: figure(column, [next(runs) for _ in texts]) for column, texts in columns.items()}


def figure(column, runs):
    """The figures of a column: means over its paths."""
    if column == BESIDE:
        return (fmean(2 * run["rates"][0] / sum(run["rates"]) for run in runs),)
    if column == ALIKE:
        return (fmean(sum(run["rates"]) ** 2 / len(run["rates"]) / sum(rate ** 2 for rate in run["rates"]) for run in runs),)
    if column == SHORT:
        return (fmean(fmean(run["times"]) for run in runs),)
    return 100 * fmean(run["utilization"] for run in runs), math.exp(fmean(math.log(max(run["p95"], 0.1)) for run in runs))


def shown(column, found):
    if column in (BESIDE, ALIKE):
        return f"{column} {found[0]:.2f}"
    if column == SHORT:
        return f"{column} {found[0]:.0f} ms"
    return f"{column} {found[0]:.1f} % / {found[1]:.{1 if found[1] < 10 else 0}f} ms"


def differs(column, found, base):
    """Whether it is more than what any small change of the law does to where searches fall."""
    if column in (BESIDE, ALIKE):
        return abs(found[0] - base[0]) >= 0.05
    if column == SHORT:
        return abs(found[0] / base[0] - 1) >= 0.03
    points, ratio = (1.5, 1.5) if column == MOVING else (0.7, 1.5 if column == STEPS else 1.3 if column == STEADY else 1.06)
    return abs(found[0] - base[0]) >= points or max(found[1] / base[1], base[1] / found[1]) >= ratio


def variants():
    """(name, value, and controller and scale at half and at twice)."""
    for name, (value, unit) in PARAMETERS.items():
        yield name, f"{value} {unit}".strip(), [(f"pace:{name}={value * by:g}{unit}", "") for by in (0.5, 2)]
    for source in FILES:
        law = (ROOT / f"crates/cc/src/pace/{source}.rs").read_text().partition("#[cfg(test)]\n")[0]
        for name, parts, value in read_constants(source, law):
            values = re.split(r", (?![^(]*\))", value[1:-1]) if parts > 1 else [value]
            for part in range(parts):
                key = f"{name}.{part}" if parts > 1 else name
                yield key, plain(values[part]), [("pace", f"{key}={by}") for by in (0.5, 2)]


def plain(value):
    """An expression of the source as a person writes it."""
    value = re.sub(r"Span::from_(\w+)\((\d+)\)", lambda match: f"{match[2]} {dict(secs='s', millis='ms')[match[1]]}", value)
    value = re.sub(r" as i64|(FACTOR_)?ONE \* | \* ONE", "", value)
    return re.sub(r"^ONE", "1", value).replace(" / ", "/").replace("1_000_000", "1 s").replace("300_000", "300 ms")


def measured(program):
    """The figures as it is, and those at half and at twice by constant."""
    listed = list(variants())
    jobs = [("pace", "")] + [way for *_, ways in listed for way in ways]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        base, *found = pool.map(lambda job: measure(program, *job), jobs)
    return base, {one[0]: pair for one, *pair in zip(listed, found[::2], found[1::2])}


def changed(columns, found, base):
    return ", ".join(shown(column, found[column]) for column in columns if differs(column, found[column], base[column])) or "–"


def tables(base, found):
    rows, without = [], 0
    for name, value, _ in variants():
        print(name, value, *(changed(base, got, base) for got in found[name]), sep=" | ")
        cells = [changed(SHOWN, got, base) for got in found[name]]
        if cells == ["–", "–"]:
            without += 1
        else:
            rows.append([f"`{name}`", value, *cells])
    return {"pace-sensitivity": table(["constant", "value", "at half", "at twice"], rows),
            "pace-sensitivity-base": ", ".join(shown(column, base[column]) for column in SHOWN),
            "pace-sensitivity-without": str(without)}


def main():
    if not TRACES:
        sys.exit("the panel needs the traces of CELLPACE_TRACES")
    with tempfile.TemporaryDirectory() as name:
        program = build(Path(FOLDER) if FOLDER else Path(name))
        regenerate.include(tables(*measured(program)))


if __name__ == "__main__":
    main()
