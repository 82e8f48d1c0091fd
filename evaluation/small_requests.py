#!/usr/bin/env python3
"""What a person feels: small requests beside a download of the same client, whose queue is the client's own. The first table of
README.md, in virtual time, and some of its cells with real packets above the kernel's TCP, kept in evaluation/small_requests.json:

    python3 evaluation/small_requests.py path/to/cellpace

That takes root (for `cellpace link`), curl, and the traces in the folder CELLPACE_TRACES.
"""
import http.server
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from originals import PROFILES
from program import CELLPACE, ROOT, TRACES, real, simulate, table, write

# Built-in profiles of cellular links beside the five of README.md.
MORE_PROFILES = ["hspa-city", "hspa-highway", "hspa-fast", "hspa-beach", "hspa-merged"]
# Downlinks on which Pace was not chosen (frontier.TEST).
RECORDED = ["campus-walk", "highway-3g", "rapid-change"]
CONTROLLERS = ["pace", "bbr", "cubic"]
SEEDS = [1, 2, 3]
REQUESTS = 200
# The last requests have half a minute.
SECONDS = 10 + REQUESTS // 2 + 30
SCENARIO = """
trace = "{trace}"
from = "{begin}s"
rtt = "40ms"
queue = "droptail:2MB"
duration = "{seconds}s"
seed = {seed}

[[flow]]
cc = "{cc}"

[[flow]]
cc = "{cc}"
start = "10s"
transfer = {{ size = "10kB", count = {requests}, every = "500ms", handshake = true }}
"""
REAL = ROOT / "evaluation" / "small_requests.json"
REAL_SECONDS = 60


def tables():
    found = {link: [felt(link, cc) for cc in CONTROLLERS] for link in [*PROFILES, *MORE_PROFILES, *RECORDED]}
    rows = {link: [link, *map(cell, cells), gain(*cells[:2])] for link, cells in found.items()}
    header = ["link", *(f"`{cc}`" for cc in CONTROLLERS), "Pace's p95 and rate, of BBR's"]
    # The front page has what Cubic does: seconds.
    beside_bbr = [[row[at] for at in (0, 1, 2, -1)] for row in (header, *rows.values())]
    front_page = table(header[:-1], [rows[link][:-1] for link in PROFILES])
    text, real_text, half = answers(found)
    return {"requests": front_page, "requests-all": table(beside_bbr[0], beside_bbr[1:]),
            "requests-real": real_table(), "answer-requests": text, "answer-requests-real": real_text, "answer-requests-half": half}


def answers(found):
    """What Pace has of BBR's p95 and rate, in virtual time and with real packets, and on how many links it has half of it."""
    recorded = json.loads(REAL.read_text())
    virtual = [ratios(*cells[:2]) for cells in found.values()]
    packets = [ratios(*(counted(recorded[f"{link}/{way}"]) for way in ("run --cc pace", "kernel bbr"))) for link in LINKS]
    half = sum(delay <= 0.5 and rate >= 1 for delay, rate in virtual)
    return in_words(virtual), in_words(packets), f"{half} of {len(virtual)}"


def in_words(pairs):
    delays, rates = zip(*pairs)
    return f"{min(delays):.2f} to {max(delays):.2f} of its p95, at {min(rates):.2f} to {max(rates):.2f} of its rate"


def felt(link, cc):
    """Completion times of all requests in ms, those that never complete as infinite, and the mean rate of all flows."""
    recorded = link in RECORDED
    runs = [simulate(SCENARIO.format(trace=real(link) if recorded else link, begin=40 * (seed - 1) if recorded else 0,
                                     seconds=SECONDS, seed=seed, cc=cc, requests=REQUESTS)) for seed in SEEDS]
    times = [math.inf if one["completion_ms"] is None else one["completion_ms"] for run in runs for one in run["transfers"]]
    assert len(times) == REQUESTS * len(SEEDS)
    return times, sum(run["throughput_mbps"] for run in runs) / len(runs)


def percentile(times, percent):
    """The nearest rank."""
    return sorted(times)[math.ceil(percent / 100 * len(times)) - 1]


def seconds_or_ms(time):
    if math.isinf(time):
        return "never"
    return f"{time:.0f} ms" if time < 1000 else f"{time / 1000:.1f} s"


def cell(found):
    times, rate = found
    return f"{seconds_or_ms(percentile(times, 50))} / {seconds_or_ms(percentile(times, 95))}, {rate:.1f}"


def gain(ours, theirs):
    return "{:.2f}, {:.2f}".format(*ratios(ours, theirs))


def ratios(ours, theirs):
    (times, rate), (other_times, other_rate) = ours, theirs
    return percentile(times, 95) / percentile(other_times, 95), rate / other_rate


# Real packets -------------------------------------------------------------------------------------------

# What the server's host does, by name: the kernel's congestion control, and what starts the server.
WAYS = {"kernel cubic": ("cubic", None), "kernel bbr": ("bbr", None), "run --cc pace": ("cubic", "pace"), "run --cc copa": ("cubic", "copa")}
LINKS = ["lte-driving", "campus-walk", "highway-3g"]
CLIENT = """
site=http://$CELLPACE_HOST:9000
curl --silent --retry 9 --retry-delay 1 --retry-all-errors -o /dev/null $site/download &
sleep 10
for request in $(seq {requests}); do
    curl --silent -o /dev/null -w "%{{http_code}} %{{time_total}}\\n" $site/request >>{folder}/times &
    sleep 0.5
done
sleep 20
"""


def serve(below):
    """Files over HTTP, under a congestion control of the kernel."""
    site = http.server.ThreadingHTTPServer(("", 9000), http.server.SimpleHTTPRequestHandler)
    site.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, below.encode())
    site.serve_forever()


def real_table():
    found = json.loads(REAL.read_text())
    rows = [[link, *(cell(counted(found[f"{link}/{way}"])) for way in WAYS)] for link in LINKS]
    return table(["link", *(f"`{way}`" for way in WAYS)], rows)


def counted(kept):
    """What was cut off at the end is infinitely late."""
    return kept["times"] + [math.inf] * (kept["requests"] - len(kept["times"])), kept["rate"]


def measured(link, below, cc):
    """How many requests were made, the completion times of those that were answered in ms, and the rate of all."""
    requests = 2 * (REAL_SECONDS - 30)
    trace = real(link) if link in RECORDED else link
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "client").write_text(CLIENT.format(requests=requests, folder=folder))
        (folder / "request").write_bytes(bytes(10_000))
        with open(folder / "download", "wb") as file:
            file.truncate(1 << 30)
        under = f"'{CELLPACE}' run --driver gate --cc {cc} --drain 1s --" if cc else ""
        script = f"""
            cd {folder}; ip link set lo up
            {under} python3 {Path(__file__).resolve()} '{CELLPACE}' serve {below} >server.log 2>&1 & server=$!
            sleep 2
            '{CELLPACE}' link --quiet --trace {trace} --rtt 40ms --queue droptail:2MB --skip 2s --json link.json \
                --duration {REAL_SECONDS}s -- bash client
            kill $server; wait $server; true
        """
        done = subprocess.Popen(["unshare", "--net", "--pid", "--fork", "--kill-child", "bash", "-c", script],
                                start_new_session=True)
        try:
            done.wait(timeout=REAL_SECONDS + 60)
        finally:
            if done.poll() is None:
                os.killpg(done.pid, signal.SIGKILL)
        lines = [line.split() for line in (folder / "times").read_text().splitlines()]
        times = [1000 * float(time) for code, time in lines if code == "200"]
        rate = json.loads((folder / "link.json").read_text())["runs"][0]["throughput_mbps"]
        return {"requests": requests, "times": [round(time) for time in times], "rate": round(rate, 2)}


def measure():
    if os.geteuid() != 0 or not TRACES:
        sys.exit("this takes root, for `cellpace link`, and the traces of CELLPACE_TRACES")
    found = {}
    for link in LINKS:
        # All at once, so that what else the machine does meets all.
        with ThreadPoolExecutor(len(WAYS)) as pool:
            for way, kept in zip(WAYS, pool.map(lambda way: measured(link, *way), WAYS.values())):
                found[f"{link}/{way}"] = kept
                print(link, way, cell(counted(kept)), flush=True)
    write(REAL, json.dumps(found) + "\n")


if __name__ == "__main__":
    serve(sys.argv[3]) if sys.argv[2:3] == ["serve"] else measure()
