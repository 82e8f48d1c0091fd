#!/usr/bin/env python3
"""Uploads of the library in Java behind emulated uplinks, beside plain TCP and the client/server driver in Rust.

    python3 evaluation/java_upload.py CELLPACE CLASSPATH [RUNS]

CLASSPATH is that of the tests of java/. Each kind of upload in turn, RUNS times (3), as root; prints a table as in
docs/how-to/android.md: medians over the runs of the goodput, the delay in the queue of the uplink, and the processor time of
who keeps to the window, per GB.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile

SIZE = 8_000_000
# Recorded ones are taken where they are.
RECORDED = ["verizon-lte-short.up"]
KINDS = ["plain TCP", "Java", "Java, OkHttp", "Rust"]
# The ports are this machine's: nothing else listens there while this runs.
SERVER, PROXY = 18180, 18181
WAIT = "sleep 1; "
TICKS = os.sysconf("SC_CLK_TCK")


def upload(how, to, size, classpath):
    return f"java -cp {classpath} cellpace.alcc.UploadMain {how} {to} {size}"


def inside(kind, size, cellpace, classpath):
    """What runs behind the link. All wait for a second, so that all meet the same part of the trace; with Rust, the last line
    says the processor time of the proxy."""
    server = f"$CELLPACE_HOST {PROXY}"
    if kind == "Rust":
        relay = (
            f"{cellpace} proxy --quiet --listen 9000 --to $CELLPACE_HOST:{PROXY} --control upstream "
            "--driver client-server --cc mdi & relay=$!; "
        )
        cpu = "; awk '{ print \"ticks\", $14 + $15 }' /proc/$relay/stat; kill $relay; wait $relay"
        return relay + WAIT + upload("plain", "127.0.0.1 9000", size, classpath) + cpu
    how = {"plain TCP": "plain", "Java": "alcc", "Java, OkHttp": "okhttp"}[kind]
    return WAIT + upload(how, server, size, classpath)


def run(kind, trace, size, cellpace, classpath):
    """Returns goodput in Mbit/s, delays p50 and p95 in ms, and seconds of processor time per GB."""
    with tempfile.NamedTemporaryFile(suffix=".json") as figures:
        link = [cellpace, "link", "--quiet", "--json", figures.name, "--rtt", "40ms", "--trace", "lte-driving"]
        command = link + ["--uplink", trace, "--", "sh", "-c", inside(kind, size, cellpace, classpath)]
        said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
        uplink = json.load(open(figures.name, encoding="utf-8"))["runs"][1]
    words = said.split()
    seconds = float(words[words.index("bytes") + 2])
    cpu = float(words[words.index("s,") + 1])
    if "ticks" in words:
        cpu = float(words[words.index("ticks") + 1]) / TICKS
    delay = uplink["queue_delay_ms"]
    return 8e-6 * size / seconds, delay["p50"], delay["p95"], cpu * 1e9 / size


def main(cellpace, classpath, runs="3"):
    folder = os.environ.get("CELLPACE_TRACES", "")
    traces = ["lte-driving"] + [os.path.join(folder, name) for name in RECORDED if folder]
    server = subprocess.Popen(["java", "-cp", classpath, "cellpace.alcc.HashServer", str(SERVER)])
    proxy = subprocess.Popen(
        [cellpace, "proxy", "--quiet", "--listen", f"0.0.0.0:{PROXY}", "--to", f"127.0.0.1:{SERVER}",
         "--driver", "client-server", "--cc", "copa"]
    )
    print("| uplink | upload by | Mbit/s | queue p50 / p95 | processor time |\n|---|---|---|---|---|")
    try:
        subprocess.run(["sleep", "2"], check=True)
        for trace in traces:
            found = {kind: [] for kind in KINDS}
            for _ in range(int(runs)):
                for kind in KINDS:
                    found[kind].append(run(kind, trace, SIZE, cellpace, classpath))
                    print(trace, kind, found[kind][-1], file=sys.stderr)
            for kind, values in found.items():
                rate, p50, p95, cpu = (statistics.median(column) for column in zip(*values))
                name = os.path.basename(trace)
                print(f"| {name} | {kind} | {rate:.2f} | {p50:.0f} / {p95:.0f} ms | {cpu:.0f} s/GB |", flush=True)
    finally:
        server.kill()
        proxy.kill()


if __name__ == "__main__":
    main(*sys.argv[1:])
