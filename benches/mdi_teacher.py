#!/usr/bin/env python3
"""MDI beside its teacher in the simulator, on the links of kernel_mdi.py and with the acks of UDP and TCP.

    python3 benches/mdi_teacher.py path/to/cellpace [CC...] [--seeds 10] [--flows 1]

One user, 60 s, 40 ms, 2 MB: throughput, median and mean queueing delay of each CC (default: mdi)
divided by those of verus:r=2, means of all seeds. Recorded traces are measured where CELLPACE_TRACES
is set.
"""
import argparse
import json
import os
import subprocess
from statistics import mean

TEACHER = "verus:r=2"
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


def measured(trace, acks, ccs):
    """Figures by controller, means over the seeds."""
    run = [ARGS.cellpace, "compare", "--trace", trace, "--acks", acks, "--rtt", "40ms", "--queue",
           "droptail:2MB", "--duration", "60s", "--skip", "2s", "--flows", str(ARGS.flows),
           "--repeat", str(ARGS.seeds), "--json", "-"]
    for cc in ccs:
        run += ["--cc", cc]
    runs = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)["runs"]
    return {cc: {name: mean(figure(run) for run in runs if run["cc"] == cc)
                 for name, figure in FIGURES.items()} for cc in ccs}


def main():
    print(f"{'acks':<14}{'link':<13}{'controller':<24}{'Mbit/s':>14}{'p50 ms':>14}{'mean ms':>14}")
    for acks in ("every", "delayed:40ms"):
        for name, trace in links().items():
            found = measured(trace, acks, [TEACHER, *ARGS.ccs])
            for cc, figures in found.items():
                cells = (f"{value:.1f} ({value / found[TEACHER][key]:.2f})" for key, value in figures.items())
                print(f"{acks:<14}{name:<13}{cc:<24}" + "".join(f"{cell:>14}" for cell in cells))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cellpace")
    parser.add_argument("ccs", nargs="*", default=["mdi"])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--flows", type=int, default=1)
    ARGS = parser.parse_args()
    ARGS.cellpace = os.path.abspath(ARGS.cellpace)
    main()
