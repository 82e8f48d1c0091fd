#!/usr/bin/env python3
"""MDI beside its teacher in the simulator, on the links of kernel_native.py and with the acks of UDP and TCP.

    python3 evaluation/mdi_teacher.py path/to/cellpace [CC...] [--seeds 10] [--flows 1] [--all]

60 s, 40 ms, 2 MB: throughput, median and mean queueing delay of each CC (default: mdi) divided by
those of verus:r=2, means of all seeds. With --all instead their geometric means over many links, with
the links where they are least and most, and of several flows Jain's index over seconds, too. Recorded
traces are measured where CELLPACE_TRACES is set.
"""
import argparse
import json
import os
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean, mean

TEACHER = "verus:r=2"
ACKS = ("every", "delayed:40ms")
FIGURES = {
    "Mbit/s": lambda run: run["throughput_mbps"],
    "p50": lambda run: run["queue_delay_ms"]["p50"],
    "mean": lambda run: run["queue_delay_ms"]["mean"],
}


def links():
    found = {"12 Mbit/s": "constant:12mbit", "lte-driving": "lte-driving"}
    folder = os.environ.get("CELLPACE_TRACES")
    for name in ["highway-3g", "city-drive"] if folder else []:
        found[name] = f"{folder}/{name}.down"
    return found


def many_links():
    """Constant, random and stepped rates, generated channels, and whatever traces there are."""
    found = {rate: f"constant:{rate}" for rate in ("1mbit", "2mbit", "6mbit", "12mbit", "20mbit")}
    for name in ("lte-driving", "umts-driving", "hspa-walking", "random:500kbit..4mbit/5s",
                 "random:2mbit..20mbit/5s", "step:4mbit/10s,16mbit/10s"):
        found[name] = name
    folder = os.environ.get("CELLPACE_TRACES")
    for path in sorted(Path(folder).rglob("*.down")) if folder else []:
        found[path.stem] = str(path)
    return found


def measured(trace, acks, ccs):
    """Figures by controller, means over the seeds."""
    run = [ARGS.cellpace, "compare", "--trace", trace, "--acks", acks, "--rtt", "40ms", "--queue",
           "droptail:2MB", "--duration", "60s", "--skip", "2s", "--flows", str(ARGS.flows),
           "--repeat", str(ARGS.seeds), "--jobs", "1", "--json", "-"]
    for cc in ccs:
        run += ["--cc", cc]
    runs = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)["runs"]
    return {cc: {name: mean(figure(run) for run in runs if run["cc"] == cc)
                 for name, figure in FIGURES.items()} for cc in ccs}


def each_link():
    print(f"{'acks':<14}{'link':<13}{'controller':<24}{'Mbit/s':>14}{'p50 ms':>14}{'mean ms':>14}")
    for acks in ACKS:
        for name, trace in links().items():
            found = measured(trace, acks, [TEACHER, *ARGS.ccs])
            for cc, figures in found.items():
                cells = (f"{value:.1f} ({value / found[TEACHER][key]:.2f})" for key, value in figures.items())
                print(f"{acks:<14}{name:<13}{cc:<24}" + "".join(f"{cell:>14}" for cell in cells))


def all_together():
    chosen = many_links()
    print(f"{len(chosen)} links, {ARGS.flows} flows, as a share of {TEACHER}'s")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for acks in ACKS:
            found = list(pool.map(lambda trace: measured(trace, acks, [TEACHER, *ARGS.ccs]), chosen.values()))
            for cc in ARGS.ccs:
                for key in FIGURES:
                    shares = {name: one[cc][key] / one[TEACHER][key] for name, one in zip(chosen, found)}
                    least, most = min(shares, key=shares.get), max(shares, key=shares.get)
                    print(f"{acks:<14}{cc:<26}{key:<8}{geometric_mean(shares.values()):>6.2f}   "
                          f"{shares[least]:.2f} ({least}) to {shares[most]:.2f} ({most})")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cellpace")
    parser.add_argument("ccs", nargs="*", default=["mdi"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--flows", type=int, default=1)
    parser.add_argument("--all", action="store_true", help="many links, and their means alone")
    ARGS = parser.parse_args()
    ARGS.cellpace = os.path.abspath(ARGS.cellpace)
    if ARGS.all:
        if ARGS.flows > 1:
            FIGURES["Jain"] = lambda run: run["jain"]
        all_together()
    else:
        each_link()
