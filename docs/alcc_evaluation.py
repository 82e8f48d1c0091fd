#!/usr/bin/env python3
"""Measures the controllers above TCP (`cellpace run`) with real packets, and writes what came out.

    python3 docs/alcc_evaluation.py path/to/cellpace OUT.json [full] [PART...]

Every run has a network namespace and an emulated link of its own. Without `full` three runs of a
minute per cell, with it twenty. With PARTs (loopback, cost, tunnels, simulated, web, sprout, cells,
loss) only those are measured anew. The pages are filled from OUT.json by regenerate.py. The kernel
driver is installed for the time if it is not, which needs a cellpace with the feature `kernel`.
"""
import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
CELLPACE = str(Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
TRACES = os.environ.get("CELLPACE_TRACES")
MEASURED = ["city-drive", "highway-3g", "beachfront-walk", "campus-walk", "rapid-change",
            "verizon-lte-short"]
SERVER = f"python3 {HERE}/alcc_server.py"
# Real packets on links of about 10 Mbit/s: so many at once keep two cores 40 % busy.
AT_ONCE = 8
SECONDS = 60


def link(options, server, client, seconds, folder):
    """One run: `server` outside, `client` inside the link. The link's figures, the server's CPU
    seconds and what `cellpace run` says of its flows."""
    out, flows = folder / "link.json", folder / "flows.json"
    script = f"""
        ip link set lo up
        FLOWS={flows}; export FLOWS
        {server} & server=$!
        sleep 1
        '{CELLPACE}' link --quiet --rtt 40ms --queue droptail:2MB --skip 2s --json {out} {options} \
            --duration {seconds}s -- bash -c '{client}' >/dev/null
        kill $server; wait $server
        true
    """
    started = subprocess.Popen(["unshare", "--net", "bash", "-c", script],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)
    try:
        _, said = started.communicate(timeout=seconds + 60)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        return None
    if not out.exists():
        sys.exit(f"no figures:\n{said.decode()}")
    run = json.loads(out.read_text())["runs"][0]
    text = flows.read_text() if flows.exists() else ""
    return {"throughput": run["throughput_mbps"], "utilization": run["utilization"],
            "p50": run["queue_delay_ms"]["p50"], "p95": run["queue_delay_ms"]["p95"],
            "flows": [json.loads(line) for line in text.splitlines()]}


# A receiver that delays no ack.
QUICKACK = "ip route replace $CELLPACE_HOST dev cellpace quickack 1; "
DOWNLOAD = 'exec cat </dev/tcp/$CELLPACE_HOST/9000 >/dev/null'


def alcc(cc, how, options, seconds, folder):
    """Under `cellpace run`. What TCP itself uses is Cubic for the system, unless `how` says else."""
    below = how if how in ("reno", "bbr") else "cubic"
    client = QUICKACK + DOWNLOAD if how == "quickack" else DOWNLOAD
    driver = {"gate": "--driver gate", "kernel": "--driver kernel", "quickack": "--driver kernel"}
    how = driver.get(how, "--driver gate --below keep")
    server = f"'{CELLPACE}' run {how} --cc {cc} --drain 1s --json $FLOWS -- {SERVER} 9000 {below}"
    return link(options, server, client, seconds, folder)


def plain(below, options, seconds, folder):
    return link(options, f"{SERVER} 9000 {below}", DOWNLOAD, seconds, folder)


def native(cc, options, seconds, folder):
    server = f"'{CELLPACE}' send --listen 0.0.0.0:9000 --cc {cc} --duration 1h"
    client = f'exec {CELLPACE} recv --reverse $CELLPACE_HOST:9000 >/dev/null'
    return link(options, server, client, seconds, folder)


def many(jobs):
    """Runs `jobs` (name, function, arguments), several at once; what came out by name, in lists."""
    def one(job):
        name, function, *arguments = job
        with tempfile.TemporaryDirectory() as folder:
            return name, function(*arguments, Path(folder))

    found = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for name, run in pool.map(one, jobs):
            if run is not None:
                found.setdefault(name, []).append(run)
            print(name, run and {k: v for k, v in run.items() if k != "flows"}, flush=True)
    return found


def mean(runs, key):
    return statistics.fmean(run[key] for run in runs)


def summary(runs):
    keys = ("throughput", "utilization", "p50", "p95")
    text = {key: {"mean": mean(runs, key), "runs": [run[key] for run in runs]} for key in keys}
    flows = [flow for run in runs for flow in run["flows"]]
    if flows:
        text["tcp_cwnd_kb"] = min(flow["tcp_cwnd_bytes"] for flow in flows) / 1e3
        text["cwnd_kb"] = max(flow["cwnd_bytes"] or 0 for flow in flows) / 1e3
        text["refusals"] = statistics.fmean(flow["refusals"] for flow in flows)
    return text | {"runs": len(runs)}


def windows():
    """Figures 1 and 2 of the ALCC paper: windows that do not react, above kernel Cubic."""
    ccs = ["plain", "fixed:cwnd=20pkts", "fixed:cwnd=41pkts", "fixed:cwnd=83pkts",
           "fixed:cwnd=20pkts,max=60pkts,every=1s"]
    path = "--rate 12mbit"
    return [(f"windows/{cc}", *((plain, "cubic") if cc == "plain" else (alcc, cc, "cubic")), path, 30)
            for cc in ccs]


def against_native(repeats):
    jobs = []
    for _ in range(repeats):
        for trace in MEASURED:
            path = f"--trace {TRACES}/{trace}.down"
            for cc in ("verus:r=2", "copa"):
                jobs.append((f"native/{trace}/{cc}", native, cc, path, SECONDS))
                jobs += [(f"{how}/{trace}/{cc}", alcc, cc, how, path, SECONDS)
                         for how in ("gate", "kernel")]
    return jobs


def framed(cc, options, seconds, folder):
    """Both ends under cellpace, with acks inside the stream."""
    under = f"{CELLPACE} run --driver client-server --below keep --cc {cc}"
    server = f"{under} --drain 1s --json $FLOWS -- {SERVER} 9000 cubic"
    client = f"exec {under} --out 9000 -- {TUNNEL} read $CELLPACE_HOST 9000 {seconds} {folder}/bytes"
    return link(options, server, client, seconds, folder)


def sprout(repeats):
    path = f"--trace {TRACES}/rapid-change.down"
    return [job for _ in range(repeats) for job in (
        ("sprout/native", native, "sprout", path, SECONDS),
        ("sprout/client-server", framed, "sprout", path, SECONDS))]


def above_others(repeats):
    jobs = []
    for _ in range(repeats):
        for trace in MEASURED:
            path = f"--trace {TRACES}/{trace}.down"
            jobs += [(f"{below}/{trace}/{cc}", alcc, cc, below, path, SECONDS)
                     for cc in ("verus:r=2", "copa") for below in ("quickack", "cubic", "reno", "bbr")]
    return jobs


NGINX = """
user root; worker_processes 4; daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile {sendfile}; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 0.0.0.0:9000; location / {{ root {folder}; }} }} }}
"""


def nginx(cc, options, seconds, size, driver, folder, sendfile="on"):
    """nginx and curl, unmodified. CPU seconds are those of everything outside the link."""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, sendfile=sendfile))
    folder.chmod(0o755)
    with open(folder / "file", "wb") as file:
        file.truncate(size)
    server = f"{SERVER} 9000 cubic {folder}/nginx.conf"
    if cc:
        server = f"'{CELLPACE}' run --driver {driver} --cc {cc} --drain 1s --json $FLOWS -- {server}"
    cpu = folder / "cpu"
    timed = f"/usr/bin/env bash -c 'trap : TERM; {quoted(server)} & s=$!; wait $s; kill $s; wait $s; times >{cpu}'"
    client = f"while :; do curl -s -o /dev/null http://$CELLPACE_HOST:9000/file; done"
    found = link(options, timed, client, seconds, folder)
    if found:
        found["cpu"] = sum(seconds_of(word) for word in cpu.read_text().split()[2:4])
    return found


def quoted(command):
    return command.replace("'", "'\\''")


def seconds_of(word):
    minutes, seconds = word.rstrip("s").split("m")
    return 60 * float(minutes) + float(seconds)


def web(repeats):
    path = f"--trace {TRACES}/city-drive.down"
    ways = [("plain", None, "gate")]
    ways += [(f"{cc}{mark}", cc, driver) for cc in ("verus:r=2", "verus:r=4", "copa")
             for driver, mark in (("gate", ""), ("kernel", ", kernel driver"))]
    return [(f"nginx/{name}", nginx, cc, path, SECONDS, 1 << 30, driver)
            for _ in range(repeats) for name, cc, driver in ways]


TUNNEL = f"python3 {HERE}/alcc_tunnel.py"


def tunnel(first, second, seconds, folder):
    """Two flows in one TCP tunnel through 40 Mbit/s: bytes a second of each."""
    servers = {"alcc": f"'{CELLPACE}' run --driver gate --cc copa --drain 1s -- {SERVER} 9000 cubic",
               "native": f"'{CELLPACE}' send --listen 0.0.0.0:9000 --mtu 1400 --cc copa --duration 1h",
               "plain": f"{SERVER} 9001 cubic", "onoff": f"{TUNNEL} onoff 9001 10 5 5"}
    readers = {"alcc": f"{TUNNEL} read 10.9.0.1 9000 {seconds} {folder}/first",
               "native": f"{CELLPACE} recv --output - --reverse 10.9.0.1:9000 2>{folder}/said "
                         f"| {TUNNEL} count {seconds} {folder}/first",
               "plain": f"{TUNNEL} read 10.9.0.1 9001 {seconds} {folder}/second",
               "onoff": f"{TUNNEL} hear 10.9.0.1 9001 {seconds} {folder}/second"}
    server = f"bash -c 'trap : TERM; {TUNNEL} listen 7000 10.9.0.1 & {quoted(servers[first])} & "
    server += f"{quoted(servers[second])} & wait; kill $(jobs -p); wait'"
    client = f"{TUNNEL} connect $CELLPACE_HOST 7000 10.9.0.2 & sleep 1.5; {readers[first]} & {readers[second]}; sleep 1"
    # The link's own figures are those of the tunnel.
    found = link("--rate 40mbit", server, client, seconds + 5, folder)
    if found is None:
        return None
    counts = {}
    for which in ("first", "second"):
        path = folder / which
        counts[which] = json.loads(path.read_text()) if path.exists() else []
    return found | counts


def cost():
    """CPU of the server's side per GB at 100 Mbit/s, and of a core at 10 Mbit/s: one at a time."""
    found = {}
    ways = [("plain", None, "gate"), ("verus:r=2", "verus:r=2", "gate"), ("copa", "copa", "gate"),
            ("verus:r=2, kernel driver", "verus:r=2", "kernel"),
            ("copa, kernel driver", "copa", "kernel"), ("plain again", None, "gate")]
    seconds = 22
    for rate in ("100mbit", "10mbit"):
        for name, cc, driver in ways:
            with tempfile.TemporaryDirectory() as folder:
                run = nginx(cc, f"--rate {rate}", seconds, 1 << 32, driver, Path(folder))
            moved = run["throughput"] * (seconds - 2) / 8e3
            found[f"{rate}/{name}"] = {
                "throughput": run["throughput"], "cpu_s": run["cpu"], "gb": moved,
                "cpu_per_gb": run["cpu"] / moved, "core": run["cpu"] / seconds}
            print(rate, name, found[f"{rate}/{name}"], flush=True)
    return found


def loopback():
    """Without a bottleneck: Gbit/s from nginx to a reader over loopback."""
    found = {}
    for name, options in (("plain", None), ("cubic", "--driver gate --cc cubic"),
                          ("fixed", "--driver gate --cc fixed:cwnd=4MB"),
                          ("fixed, kernel driver", "--driver kernel --cc fixed:cwnd=4MB"),
                          ("excluded", "--driver gate --cc verus --in 1")):
        with tempfile.TemporaryDirectory() as folder:
            folder = Path(folder)
            (folder / "nginx.conf").write_text(NGINX.format(folder=folder, sendfile="on"))
            folder.chmod(0o755)
            with open(folder / "file", "wb") as file:
                file.truncate(4 << 30)
            server = f"{SERVER} 9000 cubic {folder}/nginx.conf"
            server = f"'{CELLPACE}' run {options} --drain 1s -- {server}" if options else server
            script = f"""
                ip link set lo up
                {server} & server=$!
                sleep 1
                curl -s -o /dev/null -w '%{{speed_download}}' http://127.0.0.1:9000/file
                kill $server; wait $server
            """
            done = subprocess.run(["unshare", "--net", "bash", "-c", script], capture_output=True,
                                  text=True, timeout=120)
            found[name] = float(done.stdout or 0) * 8 / 1e9
            print("loopback", name, found[name], flush=True)
    return found


def tunnels():
    jobs = [(f"{first}/{second}", tunnel, first, second, SECONDS)
            for first in ("alcc", "native") for second in ("plain", "onoff")]
    return {name: {which: runs[0][which] for which in ("first", "second")}
            for name, runs in many(jobs).items()}


def loss():
    """Random loss, at which the TCP below backs off and holds a controller down (section 5.8)."""
    jobs = []
    for path in (f"--trace {TRACES}/verizon-lte-short.down", "--rate 12mbit"):
        for percent in ("0", "0.1", "0.5", "1", "2"):
            options, seconds = f"{path} --loss {percent}%", SECONDS // 2
            name = f"{path.split('/')[-1]}/{percent}"
            jobs += [(f"{name}/{below}", plain, below, options, seconds) for below in ("cubic", "bbr")]
            for cc in ("verus:r=2", "copa"):
                jobs.append((f"{name}/{cc}/native", native, cc, options, seconds))
                jobs += [(f"{name}/{cc}/{how}", alcc, cc, how, options, seconds)
                         for how in ("gate", "kernel")]
    return summaries(jobs)


def with_kernel_driver():
    """Installs the kernel driver if it is not there. Returns whether it has to be removed."""
    status = subprocess.run([CELLPACE, "kernel", "status", "--json"], capture_output=True, text=True)
    if json.loads(status.stdout)["uses"] == "kernel":
        return False
    subprocess.run([CELLPACE, "kernel", "install"], check=True)
    return True


def cells(repeats):
    return summaries(windows() + against_native(repeats) + above_others(1))


def summaries(jobs):
    return {name: summary(cell) for name, cell in many(jobs).items()}


def simulated():
    """What acks of every second packet, TCP's habit, do to a controller: in the simulator."""
    found = {}
    for trace in MEASURED:
        for acks in ("every", "delayed:40ms"):
            args = [CELLPACE, "compare", "--trace", f"{TRACES}/{trace}.down", "--rtt", "40ms",
                    "--duration", f"{SECONDS}s", "--skip", "2s", "--acks", acks, "--cc", "verus:r=2",
                    "--cc", "copa", "--json", "-"]
            for run in json.loads(subprocess.check_output(args))["runs"]:
                delay = run["queue_delay_ms"]
                found[f"{acks}/{trace}/{run['cc']}"] = {
                    "throughput": run["throughput_mbps"], "p50": delay["p50"], "p95": delay["p95"]}
    return found


def main():
    out, words = Path(sys.argv[2]), sys.argv[3:]
    repeats = 20 if "full" in words else 3
    parts = {"loopback": loopback, "cost": cost, "tunnels": tunnels, "simulated": simulated,
             "web": lambda: summaries(web(repeats)), "sprout": lambda: summaries(sprout(repeats)),
             "cells": lambda: cells(repeats), "loss": loss}
    wanted = [word for word in words if word in parts] or list(parts)
    if shutil.which("nginx") is None or os.geteuid() != 0 or not TRACES:
        sys.exit("needs root, nginx and the real traces (CELLPACE_TRACES)")
    document = json.loads(out.read_text()) if out.exists() else {}
    remove = with_kernel_driver()
    try:
        for part in wanted:
            document[part] = parts[part]()
            aside = out.with_suffix(".new")
            aside.write_text(json.dumps(document, indent=1) + "\n")
            aside.replace(out)
    finally:
        if remove:
            subprocess.run([CELLPACE, "kernel", "remove"], check=False)


if __name__ == "__main__":
    main()
