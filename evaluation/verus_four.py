#!/usr/bin/env python3
"""Four flows of Verus on one link: with real packets by `send`, the gate and the kernel driver, and simulated.

    python3 evaluation/verus_four.py path/to/cellpace [CC] [--seconds 60] [--runs 3]

As root, in a network namespace and over an emulated link of its own for every run: 40 ms, 2 MB, receivers that
delay no ack. Throughput, median, mean and 95th percentile of the queue delay, and Jain's index over seconds, means
of the runs, on 12 Mbit/s, two generated links and, where CELLPACE_TRACES is set, a recorded one. The kernel
driver needs a cellpace with the feature `kernel`.
"""
import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from statistics import mean

FLOWS = 4
SERVER = f"python3 {Path(__file__).resolve().parent / 'alcc_server.py'} 9000 cubic"
DOWNLOADS = ("ip route replace $CELLPACE_HOST dev cellpace quickack 1; "
             + "cat </dev/tcp/$CELLPACE_HOST/9000 >/dev/null & " * FLOWS + "wait")


def links():
    found = ["constant:12mbit", "lte-driving", "hspa-walking"]
    folder = os.environ.get("CELLPACE_TRACES")
    return found + [f"{folder}/city-drive.down"] if folder else found


def ways():
    """How the server sends and what the client does, by name."""
    send = f"'{ARGS.cellpace}' send --listen 0.0.0.0:9000 --duration 1h" + f" --cc {ARGS.cc}" * FLOWS
    receive = f"exec '{ARGS.cellpace}' recv $CELLPACE_HOST:9000"
    found = {"send": (send, receive)}
    for driver in ("gate", "kernel"):
        below = " --below keep" if driver == "gate" else ""
        run = f"'{ARGS.cellpace}' run --driver {driver}{below} --cc {ARGS.cc} --drain 1s -- {SERVER}"
        found[driver] = (run, DOWNLOADS)
    return found


def real(trace, server, client, folder):
    out = Path(folder) / "link.json"
    script = f"""
        ip link set lo up
        {server} >/dev/null & server=$!
        sleep 1
        '{ARGS.cellpace}' link --quiet --trace '{trace}' --rtt 40ms --queue droptail:2MB --skip 2s \
            --json {out} --duration {ARGS.seconds}s -- bash -c '{client.replace("'", "")}' >/dev/null
        kill $server; wait $server
        true
    """
    subprocess.run(["unshare", "--net", "bash", "-c", script], check=True, timeout=ARGS.seconds + 60)
    return json.loads(out.read_text())["runs"][0]


def simulated(trace, folder):
    scenario = Path(folder) / "four.toml"
    scenario.write_text(f'trace = "{trace}"\nrtt = "40ms"\nqueue = "droptail:2MB"\nduration = "{ARGS.seconds}s"\n'
                        f'skip = "2s"\n[[flow]]\ncc = "{ARGS.cc}"\ncount = {FLOWS}\n')
    run = subprocess.run([ARGS.cellpace, "sim", scenario, "--json", "-"], capture_output=True, check=True)
    return json.loads(run.stdout)["runs"][0]


def report(trace, way, runs):
    def figure(key, of):
        return f"{mean(run[key][of] if of else run[key] for run in runs):.{1 if of else 2}f}"
    print(f"{Path(trace).stem:<18}{way:<11}{figure('throughput_mbps', ''):>8} Mbit/s, queue p50 "
          f"{figure('queue_delay_ms', 'p50')} mean {figure('queue_delay_ms', 'mean')} p95 "
          f"{figure('queue_delay_ms', 'p95')} ms, Jain {figure('jain', '')}", flush=True)


def main():
    with tempfile.TemporaryDirectory() as folder:
        for trace in links():
            report(trace, "simulated", [simulated(trace, folder)])
            for way, (server, client) in ways().items():
                report(trace, way, [real(trace, server, client, folder) for _ in range(ARGS.runs)])


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("cellpace")
    parser.add_argument("cc", nargs="?", default="verus:r=2")
    parser.add_argument("--seconds", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    ARGS = parser.parse_args()
    ARGS.cellpace = os.path.abspath(ARGS.cellpace)
    if os.geteuid() != 0:
        sys.exit("the link's namespaces need root")
    main()
