#!/usr/bin/env python3
"""Controllers that run in the kernel by themselves against themselves in user space and in virtual time,
over emulated links.

    python3 evaluation/kernel_native.py path/to/cellpace [OUT.json] [--cc pace] [--seconds 30] [--runs 3]

Needs root. What is compared, each alone on the link, with the same link for all:

  kernel    TCP under cellpace_CC: no process of cellpace at the sender
  native    cellpace send --cc CC, over UDP
  above     cellpace run --cc CC, above TCP with cubic
  verus     cellpace send --cc verus:r=2, over UDP: the teacher of MDI's table
  simulated cellpace compare --cc CC, in virtual time
  acks      the same with a receiver that delays acks as TCP's do

Every run has a seed, which is the walk's and the generated link's, and tells over which part of a
recorded trace it is: what is compared has had the same links.

Installs the controller in the kernel (`cellpace kernel install --cc CC`) where it is not installed yet, and
removes it then. Recorded traces are measured where CELLPACE_TRACES is set.
"""
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from alcc_statistics import ratio_interval
from trace_minutes import minute

HERE = Path(__file__).resolve().parent
SERVER = f"python3 {HERE}/alcc_server.py"
DOWNLOAD = "exec cat </dev/tcp/$CELLPACE_HOST/9000 >/dev/null"


def link(options, server, client, seconds):
    """Throughput in Mbit/s, median and 95th percentile of the queueing delay in ms."""
    with tempfile.TemporaryDirectory() as folder:
        out = f"{folder}/link.json"
        script = f"""
            ip link set lo up
            {server} & server=$!
            sleep 1
            '{ARGS.cellpace}' link --quiet --rtt 40ms --queue droptail:2MB --skip 3s --json {out} \
                {options} --duration {seconds}s -- bash -c '{client}' >/dev/null 2>&1
            kill $server; wait $server
            true
        """
        done = subprocess.run(["unshare", "--net", "bash", "-c", script], capture_output=True,
                              text=True, timeout=seconds + 60, check=False)
        if not Path(out).exists():
            sys.exit(f"no figures:\n{done.stderr}")
        return figures(json.loads(Path(out).read_text()))


def figures(document):
    run = document["runs"][0]
    delay = run["queue_delay_ms"]
    return run["throughput_mbps"], delay["p50"], delay["p95"]


def native(cc, seed):
    def measured(options, seconds):
        server = f"CELLPACE_SEED={seed} '{ARGS.cellpace}' send --listen 0.0.0.0:9000 --cc {cc} --duration 1h"
        return link(options, server, f"exec {ARGS.cellpace} recv $CELLPACE_HOST:9000",
                    seconds)
    return measured


def kernel(_seed):
    return lambda options, seconds: link(options, f"{SERVER} 9000 {ARGS.name}", DOWNLOAD, seconds)


def above(seed):
    server = f"CELLPACE_SEED={seed} '{ARGS.cellpace}' run --cc {ARGS.cc} --drain 1s -- {SERVER} 9000 cubic"
    return lambda options, seconds: link(options, server, DOWNLOAD, seconds)


def simulated(_seed, more=""):
    def measured(options, seconds):
        options = f"{options} {more}".split()
        run = [ARGS.cellpace, "compare", *options, "--cc", ARGS.cc, "--rtt", "40ms", "--skip", "3s",
               "--queue", "droptail:2MB", "--duration", f"{seconds}s", "--json", "-"]
        return figures(json.loads(subprocess.run(run, capture_output=True, check=True).stdout))
    return measured


WAYS = {
    "kernel": kernel,
    "native": lambda seed: native(ARGS.cc, seed),
    "above": above,
    "verus": lambda seed: native("verus:r=2", seed),
    "simulated": simulated,
    "acks": lambda seed: simulated(seed, "--acks delayed:40ms"),
}


def links():
    """Names of links, and what gives the link's options for a seed."""
    found = {"12 Mbit/s": lambda seed: f"--trace constant:12mbit --seed {seed}",
             "12 Mbit/s, 1 %": lambda seed: f"--trace constant:12mbit --loss 1% --seed {seed}"}
    for name in ["lte-driving", "hspa-walking", "5g-midband"]:
        found[name] = lambda seed, name=name: f"--trace {name} --seed {seed}"
    folder = os.environ.get("CELLPACE_TRACES")
    for name in ["highway-3g", "city-drive"] if folder else []:
        found[name] = recorded(f"{folder}/{name}.down")
    if not folder:
        print("CELLPACE_TRACES is not set: generated links only")
    return found


def recorded(trace):
    return lambda seed: f"--trace {minute(ARGS.cellpace, trace, seed, ARGS.seconds)} --seed {seed}"


def mean(rows):
    return [statistics.mean(column) for column in zip(*rows)]


def main():
    results = {}
    wanted = ARGS.only.split(",") if ARGS.only else list(WAYS)
    some = ARGS.links.split(";") if ARGS.links else list(links())
    print(f"{'link':<14}{'way':<11}{'Mbit/s':>8}{'p50 ms':>9}{'p95 ms':>9}   runs")
    cells = [(name, options, way) for name, options in links().items() if name in some for way in wanted]
    with ThreadPoolExecutor(ARGS.at_once) as pool:
        # Runs of a cell are far apart: what is compared is measured at about the same time.
        waiting = [[pool.submit(WAYS[way](seed), options(seed), ARGS.seconds)
                    for _, options, way in cells]
                   for seed in range(1, ARGS.runs + 1)]
        for (name, _, way), runs in zip(cells, zip(*waiting)):
            rows = [run.result() for run in runs]
            results.setdefault(name, {})[way] = rows
            rate, half, most = mean(rows)
            runs = " ".join(f"{row[0]:.2f}/{row[1]:.0f}/{row[2]:.0f}" for row in rows)
            print(f"{name:<14}{way:<11}{rate:>8.2f}{half:>9.1f}{most:>9.1f}   {runs}", flush=True)
    if "kernel" in wanted:
        against(results)
    if ARGS.out:
        Path(ARGS.out).write_text(json.dumps(results, indent=1))


# Of the base RTT, towards the program: what the queueing delay lacks of the one-way delay, in ms.
ONE_WAY = 20


def against(results):
    """What the kernel's figures are as a share of the others', with 95 % confidence intervals."""
    print(f"\n{'kernel against':<25}{'throughput':>22}{'p50 of the queue':>22}{'p50 one way':>22}")
    for name, ways in results.items():
        for way, rows in ways.items():
            if way == "kernel":
                continue
            shares = [share(ways["kernel"], rows, figure, more) for figure, more in ((0, 0), (1, 0), (1, ONE_WAY))]
            print(f"{name:<14}{way:<11}" + "".join(f"{text:>22}" for text in shares))


def share(rows, others, figure, more):
    above, below = ([row[figure] + more for row in which] for which in (rows, others))
    ratio = sum(above) / sum(below)
    interval = ratio_interval(above, below)
    return f"{ratio:.3f}" + (f" ({interval[0]:.3f}-{interval[1]:.3f})" if interval else "")


def installed():
    names = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    return ARGS.name in names


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cellpace")
    parser.add_argument("out", nargs="?")
    parser.add_argument("--seconds", type=int, default=30)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--at-once", type=int, default=1, help="as many runs at a time")
    parser.add_argument("--cc", default="pace", help="pace, copa or mdi")
    parser.add_argument("--links", help="some of the links, with semicolons")
    parser.add_argument("--only", help="some of the ways, with commas")
    ARGS = parser.parse_args()
    ARGS.name = f"cellpace_{ARGS.cc}"
    ARGS.cellpace = str(Path(ARGS.cellpace).resolve())
    ours = not installed()
    if ours:
        subprocess.run([ARGS.cellpace, "kernel", "install", "--cc", ARGS.cc], check=True)
    try:
        main()
    finally:
        if ours:
            subprocess.run([ARGS.cellpace, "kernel", "remove", "--cc", ARGS.cc], check=True)
