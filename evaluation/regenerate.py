#!/usr/bin/env python3
"""Regenerates tables and pictures of README.md and docs/. A table stands between its marks, in every
page that has them; the text around it is written by hand.

    python3 evaluation/regenerate.py path/to/cellpace [PART...]

Parts: papers, attacks, quic (real time of evaluation/quic.json), requests (real time of evaluation/small_requests.json), readme, reading (docs/reading-results.md), originals, profiles, mdi, pace,
parity, alcc, servers, kernel, live_experiment and many_flows (the last six of evaluation/parity.json and its like, which real
time has filled), recorded (profiles, by evaluation/recorded_profiles.py), scenarios, media (docs/spec/gcc.md). Without one, all.

Real traces come from the folder CELLPACE_TRACES (Mahimahi format, <name>.down), the figures of the
original programs from originals.json in CELLPACE_REFERENCE (default: the folder `reference` beside the
traces). What needs those that are missing stays as it is. Every figure in what is written comes from a
run of the program; nothing is typed in.
"""
import os
import re
import sys
import tempfile
from pathlib import Path

import above_tcp
import attacks
import kernel_cost
import live_experiment
import many_flows
import mdi_evaluation
import media
import originals
import pace
import parity
import profiles
import quic
import reading
import recorded_profiles
import scenarios
import servers
import small_requests
from page_picture import picture
from program import ROOT, TRACES, call, write


PAPER_COUNTS = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target")) / "papers" / "counts.md"


def readme():
    """The picture of README.md."""
    with tempfile.TemporaryDirectory() as folder:
        drawn = ["verus", "verus:r=6", "copa", "bbr", "cubic", "ledbat"]
        args = [word for cc in drawn for word in ("--cc", cc)]
        page = Path(folder) / "page.html"
        call("compare", "--trace", "lte-driving", "--duration", "60s", *args, "--report", page)
        write(ROOT / "docs" / "img" / "lte-driving-scatter.svg", picture(page, "Throughput against queue delay"))
    return {}


def mdi():
    mdi_evaluation.pictures()
    return mdi_evaluation.tables() if TRACES else {}


def papers():
    """How many claims have which verdict, as `./dev papers page` has counted."""
    return {"paper-counts": PAPER_COUNTS.read_text()}


# What makes the tables of a part, and what it needs that may be missing.
PARTS = {
    "readme": (readme, True),
    "reading": (reading.tables, True),
    "originals": (originals.tables, TRACES and originals.REFERENCE.is_file()),
    "profiles": (profiles.tables, TRACES),
    "recorded": (recorded_profiles.fit, bool(TRACES)),
    "mdi": (mdi, True),
    "quic": (quic.tables, bool(TRACES)),
    "parity": (parity.tables, True),
    "servers": (servers.tables, True),
    "kernel": (kernel_cost.tables, kernel_cost.RECORDED.is_file()),
    "live_experiment": (live_experiment.tables, live_experiment.RECORDED.is_file()),
    "alcc": (above_tcp.tables, True),
    "many_flows": (many_flows.tables, many_flows.RECORDED.is_file()),
    "papers": (papers, TRACES and PAPER_COUNTS.is_file()),
    "pace": (pace.tables, True),
    "scenarios": (scenarios.tables, True),
    "requests": (small_requests.tables, bool(TRACES)),
    "attacks": (attacks.tables, True),
    "media": (media.tables, True),
}


def include(found):
    """Puts tables between their marks in all pages that have them, and leaves what is written around them."""
    pages = {path: path.read_text() for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]}
    for mark, block in found.items():
        # A mark that ends its line has a table below it; any other stands within a line.
        begin, end = re.escape(f"<!-- {mark} -->"), re.escape(f"<!-- end of {mark} -->")
        pattern = re.compile(f"({begin})(\n)?.*?({end})", re.S)
        put = lambda found: (found[1] + (found[2] + block.strip("\n") + "\n" if found[2] else block) + found[3])
        having = [path for path, text in pages.items() if pattern.search(text)]
        if not having:
            sys.exit(f"no page has the mark {mark}")
        for path in having:
            pages[path] = pattern.sub(put, pages[path])
    for path, text in pages.items():
        if text != path.read_text():
            write(path, text)


def main():
    wanted = sys.argv[2:] or list(PARTS)
    unknown = [part for part in wanted if part not in PARTS]
    if unknown:
        sys.exit(f"no part is called {', '.join(unknown)}: {', '.join(PARTS)}")
    for part in wanted:
        tables, possible = PARTS[part]
        if possible:
            include(tables())
        else:
            print(f"{part}: without real traces or reference figures its tables stay as they are")


if __name__ == "__main__":
    main()
