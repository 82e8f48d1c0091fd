#!/usr/bin/env python3
"""Several flows of Verus on one link in the simulator: how long is the queue, how even are the shares?

    python3 evaluation/verus_flows.py path/to/cellpace [CC...] [--held-out] [--each]

Nine flows of each CC (default: verus), started 0, 2 and 10 s apart, with R=2 and R=6, over 40 ms and a
drop-tail buffer of 2 MB: geometric means of the mean and 95th percentile of the queue delay, means of
Jain's index and utilization, and the packets lost, over all cells. Figures are of the two minutes that
begin with the last flow. --held-out takes the links that Verus' bounds were not chosen on, --each also
prints every cell. Recorded traces are measured where CELLPACE_TRACES is set.
"""
import argparse
import json
import os
import subprocess
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import geometric_mean, mean

GAPS = (0, 2, 10)
RS = (2, 6)
FLOWS = 9

# Recorded and generated links, the latter with their seeds.
CHOSEN_ON = (("verizon-lte-short", "att-lte-driving", "campus-walk", "city-drive"), {"lte-driving": (1, 2, 3)})
HELD_OUT = (("highway-3g", "highway-drive", "beachfront-walk", "rapid-change"),
            {"hspa-walking": (1, 2), "lte-stationary": (1, 2)})


def links(recorded, generated):
    folder = os.environ.get("CELLPACE_TRACES")
    found = {name: (str(Path(folder) / f"{name}.down"), 1) for name in recorded} if folder else {}
    for name, seeds in generated.items():
        found.update({f"{name} {seed}": (name, seed) for seed in seeds})
    return found


def scenario(cc, trace, seed, gap, r):
    last = gap * (FLOWS - 1)
    text = (f'trace = "{trace}"\nseed = {seed}\nrtt = "40ms"\nqueue = "droptail:2MB"\n'
            f'duration = "{last + 120}s"\nskip = "{last + 2}s"\n')
    cc += ("," if ":" in cc else ":") + f"r={r}"
    return text + "".join(f'[[flow]]\ncc = "{cc}"\nstart = "{gap * flow}s"\n' for flow in range(FLOWS))


def measured(text):
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as file:
        file.write(text)
        file.flush()
        run = [ARGS.cellpace, "sim", file.name, "--json", "-"]
        run = json.loads(subprocess.run(run, capture_output=True, check=True).stdout)["runs"][0]
    delay = run["queue_delay_ms"]
    return delay["mean"], delay["p95"], run["jain"], run["lost"], run["utilization"]


def compare(cc):
    cells = [(link, gap, r) for link in LINKS for gap in GAPS for r in RS]
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        rows = list(pool.map(lambda cell: measured(scenario(cc, *LINKS[cell[0]], *cell[1:])), cells))
    for (link, gap, r), row in zip(cells, rows) if ARGS.each else []:
        print(f"  {link}, {gap} s apart, R={r}: mean %.0f ms, p95 %.0f ms, Jain %.2f, lost %d, utilization %.3f" % row)
    means, tails, jain, lost, utilization = zip(*rows)
    print(f"{cc}, {len(cells)} cells: mean {geometric_mean(means):.0f} ms, p95 {geometric_mean(tails):.0f} ms, "
          f"Jain {mean(jain):.3f}, lost {sum(lost)}, utilization {mean(utilization):.3f}, "
          f"mean above 500 ms in {sum(value > 500 for value in means)}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cellpace")
    parser.add_argument("ccs", nargs="*", default=["verus"])
    parser.add_argument("--held-out", action="store_true", help="other links")
    parser.add_argument("--each", action="store_true", help="print every cell")
    ARGS = parser.parse_args()
    ARGS.cellpace = os.path.abspath(ARGS.cellpace)
    LINKS = links(*(HELD_OUT if ARGS.held_out else CHOSEN_ON))
    for cc in ARGS.ccs:
        compare(cc)
