#!/usr/bin/env python3
"""An experiment as an operator makes one: nginx behind `cellpace proxy --experiment`, a hundred clients that share one emulated
cellular link for half an hour, Pace against the kernel's BBR.

    python3 evaluation/live_experiment.py path/to/cellpace [--minutes M]

Keeps the report in evaluation/live_experiment.json, of which the table of docs/experiment.md is made. Takes root, nginx and a
kernel with BBR.
"""
import argparse
import asyncio
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from kernel_cost import NGINX
from program import CELLPACE, ROOT, call, table, write

RECORDED = ROOT / "evaluation" / "live_experiment.json"
CLIENTS = 100
# Of ten clients' requests: small ones, pictures, a download. With PAUSE_S between them they ask for 0.8 of the link's mean rate.
SIZES = {"10k": (10_000, 70), "100k": (100_000, 25), "1M": (1_000_000, 5)}
PAUSE_S = 4.5
SLOT_S, WASHOUT_S = 30, 5
LINK = "--trace lte-stationary --rtt 40ms --queue droptail:2MB"
EXPERIMENT = f"""
[experiment]
name = "pace against bbr"
slot = "{SLOT_S}s"
washout = "{WASHOUT_S}s"
share = "100%"
secret = "the same in each repetition"

[[arm]]
name = "bbr"
tcp = "bbr"

[[arm]]
name = "pace"
cc = "pace"

[guard]
retransmitted = "5 points worse"
goodput_p50 = "50 % worse"
"""
SHOWN = {"rtt_p50": "RTT, p50", "queue_delay_p50": "queue delay, p50", "queue_delay_p95": "queue delay, p95",
         "goodput_p50": "goodput, p50", "goodput_p5": "goodput, p5", "retransmitted": "sent again"}


def tables():
    kept = json.loads(RECORDED.read_text())
    return {"live-experiment": figures(kept), "answer-live-experiment": sentence(kept)}


def sentence(kept):
    counts = " and ".join(f"{arm['connections']} connections in {arm['slots']} slots under {arm['arm']}" for arm in kept["arms"])
    return f"{kept['sentence']} That is of {counts}."


def figures(kept):
    rows = [[SHOWN[figure["figure"]], number(figure["control"]["value"], figure["unit"]), number(figure["arm"]["value"], figure["unit"]),
             interval(figure)] for figure in kept["figures"] if figure["figure"] in SHOWN]
    return table(["", "BBR", "Pace", "difference, 95 %"], rows)


def number(value, unit):
    return f"{value:.2g} {unit}" if value < 1 else f"{value:.3g} {unit}"


def interval(figure):
    share = figure["relative"]
    found, unit = (share, "%") if share else (figure["difference"], "points" if figure["unit"] == "%" else figure["unit"])
    low, high = found["interval"]
    return f"{found['value']:+.3g} {unit} ({low:+.3g} to {high:+.3g})"


# The clients, inside of the link --------------------------------------------------------------------------


async def client(host, until, draw):
    names, weights = list(SIZES), [weight for _, weight in SIZES.values()]
    loop = asyncio.get_running_loop()
    while loop.time() < until:
        await asyncio.sleep(draw.expovariate(1 / PAUSE_S))
        await request(host, draw.choices(names, weights)[0])


async def request(host, name):
    """One connection for each, as an app that wakes up makes them. What fails the proxy records."""
    try:
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(host, 9000)
            writer.write(f"GET /{name} HTTP/1.0\r\n\r\n".encode())
            while await reader.read(1 << 16):
                pass
            writer.close()
    except (OSError, TimeoutError):
        pass


async def clients(host, seconds):
    until = asyncio.get_running_loop().time() + seconds
    await asyncio.gather(*(client(host, until, random.Random(number)) for number in range(CLIENTS)))


# The server's side ----------------------------------------------------------------------------------------


def measure(seconds):
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "experiment.toml").write_text(EXPERIMENT)
        (folder / "nginx.conf").write_text(NGINX.format(folder=folder, port=8080, files=10_000, places=4000))
        for name, (size, _) in SIZES.items():
            (folder / name).write_bytes(bytes(size))
        script = f"""
            cd {folder}; ip link set lo up
            nginx -c {folder}/nginx.conf & nginx=$!
            '{CELLPACE}' proxy --listen 0.0.0.0:9000 --to 127.0.0.1:8080 --driver gate --quiet --experiment experiment.toml \
                --experiment-log log.jsonl --drain 5s & proxy=$!
            '{CELLPACE}' link --quiet {LINK} --duration {seconds + 60}s -- \
                sh -c 'exec python3 {Path(__file__).resolve()} {CELLPACE} clients $CELLPACE_HOST {seconds}'
            kill $proxy; wait $proxy; kill $nginx; wait $nginx
        """
        done = subprocess.Popen(["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", script], start_new_session=True)
        try:
            done.wait(timeout=seconds + 180)
        finally:
            if done.poll() is None:
                os.killpg(done.pid, signal.SIGKILL)
        found = json.loads(call("report", folder / "log.jsonl", "--json", "-"))
        # The sentence stands last.
        sentence = call("report", folder / "log.jsonl", "--text").strip().splitlines()[-1]
    everything = next(group for group in found["comparisons"][0]["groups"] if group["by"] == "all")
    write(RECORDED, json.dumps({"sentence": sentence, "arms": found["arms"], "figures": everything["figures"]}, indent=1) + "\n")


def main():
    if sys.argv[2:3] == ["clients"]:
        return asyncio.run(clients(sys.argv[3], float(sys.argv[4])))
    parser = argparse.ArgumentParser()
    parser.add_argument("program")
    parser.add_argument("--minutes", type=float, default=30)
    if os.geteuid() != 0:
        sys.exit("this takes root, for `cellpace link`")
    # Ends by what ends the processes.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    measure(parser.parse_args().minutes * 60)


if __name__ == "__main__":
    main()
