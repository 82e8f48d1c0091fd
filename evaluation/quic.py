#!/usr/bin/env python3
"""The tables of docs/validation/quic.md.

    python3 evaluation/quic.py path/to/cellpace        measures in real time, into evaluation/quic.json

What is in virtual time, `./dev docs quic` computes each time. Real time needs root (for `cellpace link`) and the
traces in the folder CELLPACE_TRACES. Figures are those that the sender reports: medians of three runs of 20 s each.
"""
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from program import CELLPACE, ROOT, call, compare, real, table, write

TRACES = ["city-drive", "verizon-lte-short"]
CONTROLLERS = ["verus", "copa", "bbr"]
OWN = ["cubic", "bbr"]
SECONDS = 60
REAL_SECONDS = 20
RUNS = 3
RECORDED = ROOT / "evaluation" / "quic.json"


def figures(run):
    return run["throughput_mbps"], run["queue_delay_ms"]["p50"], run["queue_delay_ms"]["p95"]


def virtual():
    """Senders of three kinds over the same path in virtual time, and the libraries' own controllers."""
    rows = []
    for trace in TRACES:
        stacks = [word for stack in ("builtin", "noq", "quinn") for word in ("--stack", stack)]
        runs = {run["cc"]: figures(run) for run in compare([real(trace)], CONTROLLERS, *stacks, "--duration", f"{SECONDS}s")["runs"]}
        for cc in CONTROLLERS:
            cells = ["{:.2f}, {:.1f} / {:.0f}".format(*runs[name]) for name in (cc, f"{cc} in noq", f"{cc} in quinn")]
            rows.append([trace, f"`{cc}`", *cells])
        for cc in OWN:
            rows.append([trace, f"the library's `{cc}`", "", *(own(trace, library, cc) for library in ("noq", "quinn"))])
    return table(["trace", "controller", "simulator", "noq", "quinn"], rows)


def own(trace, library, cc):
    """What a library's own controller has. A connection may end before its time, which is part of the answer."""
    done = subprocess.run([CELLPACE, "compare", "--trace", real(trace), "--cc", "fixed", "--stack", f"{library}:cc={cc}",
                           "--duration", f"{SECONDS}s", "--json", "-"], capture_output=True, text=True)
    if done.returncode != 0:
        return re.search(r"the connection ended after [\d.]+ s", done.stderr)[0]
    return "{:.2f}, {:.1f} / {:.0f}".format(*figures(json.loads(done.stdout)["runs"][0]))


def recorded():
    """What QUIC has of native throughput and median delay, least and most, and how late the timers of the links were."""
    document = json.loads(RECORDED.read_text())
    rates, medians = ([100 * (row["quic"][at] / row["send"][at] - 1) for row in document["parity"]] for at in (0, 1))
    return (f"{min(rates):+.1f} to {max(rates):+.1f} % of throughput, {min(medians):+.0f} to {max(medians):+.0f} % of the median delay",
            document["late_us"])


def tables():
    parity, late = recorded()
    return {"quic-virtual": virtual(), "quic-parity": parity, "quic-late": f"{late / 1e3:.1f} ms"}


def transfer(trace, options):
    """Sends down a link; returns the sender's figures, and how late the link's timers were at the 99th percentile, in us."""
    with tempfile.TemporaryDirectory() as folder:
        call("key", "path.key", cwd=folder)
        quic = "--quic" if "--quic" in options else ""
        far = (f"exec '{CELLPACE}' send --listen $CELLPACE_PEER:5260 --key path.key {options} --duration {REAL_SECONDS}s "
               "--json sent.json >&2")
        near = f"sleep 1; exec '{CELLPACE}' recv $CELLPACE_PEER:5260 {quic} --key path.key >&2"
        done = subprocess.run([CELLPACE, "link", "--trace", real(trace), "--rtt", "40ms", "--far", far, "--", "sh", "-c", near],
                              capture_output=True, text=True, cwd=folder, check=True)
        flow = json.loads((Path(folder) / "sent.json").read_text())["flows"][0]
        late = float(re.search(r"link: late p50 \S+ p99 (\S+)", done.stderr)[1])
        return [flow["throughput_mbps"], flow["queue_delay_ms"]["p50"], flow["queue_delay_ms"]["p95"]], late


def measure():
    if os.geteuid() != 0:
        sys.exit("`cellpace link` needs root here")
    rows, late = [], []
    for trace in TRACES:
        for cc in CONTROLLERS:
            runs = {"send": [], "quic": []}
            for _ in range(RUNS):
                for name, options in (("send", ""), ("quic", "--quic")):
                    cells, lateness = transfer(trace, f"--cc {cc} {options}")
                    runs[name].append(cells)
                    late.append(lateness)
                    print(trace, cc, name, cells, lateness, flush=True)
            medians = {name: [statistics.median(column) for column in zip(*cells)] for name, cells in runs.items()}
            rows.append({"trace": trace, "cc": cc, **medians})
    write(RECORDED, json.dumps({"parity": rows, "late_us": max(late)}, indent=1) + "\n")


if __name__ == "__main__":
    measure()
