#!/usr/bin/env python3
"""Pace in the kernel beside the kernel's own congestion controls with real packets, and the same in virtual time.

    python3 evaluation/kernel_shares.py path/to/cellpace [--seconds 40] [--runs 3] [--rivals cubic,bbr]

Two downloads share an emulated link of 40 ms with two bandwidth-delay products of room; the first five seconds do not
count. Prints what part of all bytes Pace has. Needs root. Installs the controller (`cellpace kernel install
--cc pace`) where it is not installed yet, and removes it then.
"""
import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
LINKS = ["constant:12mbit", "constant:48mbit", "constant:100mbit", "lte-driving"]
QUEUE, RTT, SKIP = "droptail:2bdp", "40ms", 5
# Bytes that both servers have sent after the first seconds.
CLIENT = f"""
import os, socket, sys, threading, time
counts = [0, 0]
def read(place):
    with socket.create_connection((os.environ["CELLPACE_HOST"], 9000 + place)) as server:
        while data := server.recv(1 << 16):
            counts[place] += len(data)
for place in range(2):
    threading.Thread(target=read, args=(place,), daemon=True).start()
time.sleep({SKIP})
before = counts.copy()
time.sleep(float(sys.argv[1]) - {SKIP})
print(counts[0] - before[0], counts[1] - before[1], flush=True)
os._exit(0)
"""


def measured(link, rival, seed):
    """The part of Pace with real packets."""
    with tempfile.TemporaryDirectory() as folder:
        client = Path(folder, "client.py")
        client.write_text(CLIENT)
        script = f"""
            ip link set lo up
            python3 {HERE}/alcc_server.py 9000 cellpace_pace & first=$!
            python3 {HERE}/alcc_server.py 9001 {rival} & second=$!
            sleep 1
            '{ARGS.cellpace}' link --quiet --trace {link} --seed {seed} --rtt {RTT} --queue {QUEUE} -- \
                python3 {client} {ARGS.seconds}
            kill $first $second; wait
        """
        done = subprocess.run(["unshare", "--net", "bash", "-c", script], capture_output=True, text=True,
                              timeout=ARGS.seconds + 60, check=False)
    words = done.stdout.split()
    if len(words) != 2:
        sys.exit(f"no figures:\n{done.stderr}")
    ours, others = map(int, words)
    return ours / (ours + others)


def simulated(link, rival, seed):
    """The same in virtual time."""
    flows = "".join(f'[[flow]]\ncc = "{cc}"\n' for cc in ("pace", rival))
    scenario = f'trace = "{link}"\nseed = {seed}\nrtt = "{RTT}"\nqueue = "{QUEUE}"\nduration = "{ARGS.seconds}s"\n' \
               f'skip = "{SKIP}s"\n{flows}'
    done = subprocess.run([ARGS.cellpace, "sim", "-", "--json", "-"], input=scenario, capture_output=True, text=True,
                          check=True)
    ours, others = (flow["throughput_mbps"] for flow in json.loads(done.stdout)["runs"][0]["per_flow"])
    return ours / (ours + others)


def main():
    print(f"{'link':<18}{'beside':<8}{'real':>7}{'simulated':>11}   runs")
    for link in LINKS:
        for rival in ARGS.rivals.split(","):
            seeds = range(1, ARGS.runs + 1)
            real = [measured(link, rival, seed) for seed in seeds]
            virtual = [simulated(link, rival, seed) for seed in seeds]
            runs = " ".join(f"{ours:.2f}/{model:.2f}" for ours, model in zip(real, virtual))
            print(f"{link:<18}{rival:<8}{statistics.mean(real):>7.2f}{statistics.mean(virtual):>11.2f}   {runs}", flush=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cellpace", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seconds", type=int, default=40)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--rivals", default="cubic,bbr")
    ARGS = parser.parse_args()
    known = Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()
    ours = "cellpace_pace" not in known
    if ours:
        subprocess.run([ARGS.cellpace, "kernel", "install", "--cc", "pace"], check=True)
    try:
        main()
    finally:
        if ours:
            subprocess.run([ARGS.cellpace, "kernel", "remove", "--cc", "pace"], check=True)
