#!/usr/bin/env python3
"""Measures the controllers above TCP (`cellpace run`) with real packets, and writes what came out.

    python3 evaluation/alcc_evaluation.py path/to/cellpace OUT.json [full] [NAME=VALUE...] [PART...]

Every run has a network namespace and an emulated link of its own. Without `full` three runs of a
minute per cell, with it twenty. With PARTs only those are measured anew, and put beside what
OUT.json has of the others:

    loopback, tunnels, simulated, web, sprout, loss
    windows   windows that do not react
    cells     native, above TCP with the gate, and with the kernel driver, also with prompt acks
              (`--prompt-acks`) and with a receiver that delays no ack, and native with one that does;
              and native again, which tells what chance does
    others    Cubic, Reno and BBR alone below the gate; native has to be there already

In `cells`, `others` and `simulated` each run of a cell is over another minute of the trace and at
another base RTT between 40 and 41 ms, the same for all that is compared.

What a part has measured is in OUT.PART.partial until the part is finished: one that was cut off goes
on from there when it is called again. `at-once=4` runs so many at once (default 8), `repeats=2`,
`seconds=10` and `traces=city-drive,campus-walk` are for trying this out.

The pages are filled from OUT.json by regenerate.py. The kernel driver is installed for the time of
the parts that use it if it is not, which needs a cellpace with the feature `kernel`.
"""
import contextlib
import hashlib
import json
import math
import os
import re
import shutil
import signal
import statistics
import struct
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from alcc_statistics import histogram, pooled
from trace_minutes import minute

HERE = Path(__file__).resolve().parent
CELLPACE = str(Path(sys.argv[1]).resolve()) if len(sys.argv) > 1 else ""
TRACES = os.environ.get("CELLPACE_TRACES")
MEASURED = ["city-drive", "highway-3g", "beachfront-walk", "campus-walk", "rapid-change",
            "verizon-lte-short"]
SERVER = f"python3 {HERE}/alcc_server.py"
# Real packets on links of about 10 Mbit/s: so many at once keep two cores 40 % busy.
AT_ONCE = 8
SECONDS = 60
SKIP = 2
RTT_MS = 40
RUNNING = set()
# What becomes of every packet, for the queue delays: enough of each to tell it from the others.
CAPTURE = "capture.pcapng"
CAPTURED = f"--log $FOLDER/{CAPTURE}"


def link(options, server, client, seconds, folder):
    """One run: `server` outside, `client` inside the link. The link's figures, the server's CPU
    seconds and what `cellpace run` says of its flows."""
    out, flows = folder / "link.json", folder / "flows.json"
    if "--rtt" not in options:
        options += f" --rtt {RTT_MS}ms"
    script = f"""
        ip link set lo up
        FLOWS={flows}; FOLDER={folder}; OUTSIDE=/proc/$$/ns/net; export FLOWS OUTSIDE
        {server} & server=$!
        sleep 1
        '{CELLPACE}' link --quiet --queue droptail:2MB --skip {SKIP}s --json {out} {options} \
            --duration {seconds}s -- bash -c '{client}' >/dev/null
        kill $server; wait $server
        true
    """
    started = subprocess.Popen(["unshare", "--net", "bash", "-c", script],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)
    RUNNING.add(started)
    try:
        _, said = started.communicate(timeout=seconds + 60)
    except subprocess.TimeoutExpired:
        os.killpg(started.pid, signal.SIGKILL)
        return None
    finally:
        RUNNING.discard(started)
    if not out.exists():
        sys.exit(f"no figures:\n{said.decode()}")
    run = json.loads(out.read_text())["runs"][0]
    text = flows.read_text() if flows.exists() else ""
    return {"throughput": run["throughput_mbps"], "utilization": run["utilization"],
            "p50": run["queue_delay_ms"]["p50"], "p95": run["queue_delay_ms"]["p95"],
            "start": min((flow["start_s"] for flow in run["per_flow"]), default=0), "seconds": seconds,
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


def prompt(cc, options, seconds, folder):
    """With the kernel driver and prompt acks on the link's outer device. The list of devices is the
    driver's, so each run has a driver of its own."""
    name = f"cp_{hashlib.sha256(str(folder).encode()).hexdigest()[:8]}"
    install = f"'{CELLPACE}' kernel install --name {name}"
    server = f"'{CELLPACE}' run --driver kernel --driver-name {name} --cc {cc} --drain 1s --json $FLOWS -- {SERVER} 9000 cubic"
    attach = f"nsenter --net=$OUTSIDE {install.replace(chr(39), '')} --prompt-acks cellpace0 || exit; "
    subprocess.run(install, shell=True, check=True, stdout=subprocess.DEVNULL)
    try:
        return link(options, server, attach + DOWNLOAD, seconds, folder)
    finally:
        subprocess.run([CELLPACE, "kernel", "remove", "--name", name], check=False, stdout=subprocess.DEVNULL)


def plain(below, options, seconds, folder):
    return link(options, f"{SERVER} 9000 {below}", DOWNLOAD, seconds, folder)


def native(cc, options, seconds, folder, acks="every"):
    server = f"'{CELLPACE}' send --listen 0.0.0.0:9000 --cc {cc} --duration 1h"
    client = f'exec {CELLPACE} recv --acks {acks} $CELLPACE_HOST:9000 >/dev/null'
    return link(options, server, client, seconds, folder)


def queue_delays(capture, start, seconds, rtt_ms):
    """The queue delay, in ms, of every packet towards the program that left the link after SKIP, from
    a capture of both of its sides. The first of them left at `start`, on the link's clock."""
    one_way = rtt_ms / 2e3
    entered, zero, delays = {}, None, []
    for inside, at, packet in packets(capture.read_bytes()):
        # What comes from inside leaves at the far side and is never seen inside again.
        if not inside:
            entered.setdefault(packet, []).append(at)
            continue
        if packet not in entered:
            continue
        came = entered[packet].pop(0)
        if not entered[packet]:
            del entered[packet]
        left = at - one_way
        zero = left - start if zero is None else zero
        if SKIP < left - zero <= seconds:
            delays.append(1e3 * (left - came))
    return delays


def packets(capture):
    """(interface, seconds, bytes) of every packet of a pcapng file as `cellpace link` writes them."""
    ENHANCED_PACKET = 6
    header = struct.Struct("<6I")
    at = 0
    while at < len(capture):
        kind, length, interface, high, low, kept = header.unpack_from(capture, at)
        if kind == ENHANCED_PACKET:
            # As floats the nanoseconds since 1970 would be true to a quarter of a microsecond.
            yield interface, (high << 32 | low) / 1e9, capture[at + 28:at + 28 + kept]
        at += length


def many(jobs, partial=None):
    """Runs `jobs` (name, function, arguments), several at once; what came out by name, in lists. With
    `partial` it is kept in that file after each batch, and what is there is not run again."""
    found = kept(partial)
    there = {name: len(runs) for name, runs in found.items()}
    waiting = []
    for job in jobs:
        there[job[0]] = there.get(job[0], 0) - 1
        if there[job[0]] < 0:
            waiting.append(job)
    if len(waiting) < len(jobs):
        print(f"{len(jobs) - len(waiting)} of {len(jobs)} runs are in {partial}", flush=True)
    # A run that hangs has no figures, and is made once more at the end.
    failed = batches(waiting, found, len(jobs), partial)
    batches(failed, found, len(jobs), partial)
    return found


def batches(waiting, found, count, partial):
    """Adds what came out of the jobs `waiting` to `found`; those of which nothing came."""
    failed, began = [], time.monotonic()
    for first in range(0, len(waiting), AT_ONCE):
        batch = waiting[first:first + AT_ONCE]
        for job, run in zip(batch, together(batch)):
            if run is None:
                print(job[0], "hung", flush=True)
                failed.append(job)
            else:
                found.setdefault(job[0], []).append(run)
        if partial:
            replace(partial, {"of": identity(), "runs": found})
        done = min(first + AT_ONCE, len(waiting))
        left = (time.monotonic() - began) / done * (len(waiting) - done) / 60
        print(f"== {sum(map(len, found.values()))} of {count} runs, {math.ceil(left)} minutes left", flush=True)
    return failed


def together(batch):
    """One run of each job, all at once. What takes CPU comes when all are over."""
    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(len(batch)) as pool:
        folders = [Path(folder) / str(number) for number in range(len(batch))]
        for own in folders:
            own.mkdir()
        started = [pool.submit(function, *arguments, own)
                   for (_, function, *arguments), own in zip(batch, folders)]
        try:
            runs = [future.result() for future in started]
        except BaseException:
            for process in list(RUNNING):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, signal.SIGKILL)
            raise
        for (name, *_), run, own in zip(batch, runs, folders):
            capture = own / CAPTURE
            if run is None:
                continue
            if capture.exists():
                run["delays"] = histogram(queue_delays(capture, run["start"], run["seconds"], run.get("rtt_ms", RTT_MS)))
            print(name, {key: run[key] for key in ("throughput", "utilization", "p50", "p95")}, flush=True)
        return runs


def identity():
    """What runs must have in common to be put together."""
    return {"program": hashlib.sha256(Path(CELLPACE).read_bytes()).hexdigest(), "seconds": SECONDS}


def kept(partial):
    if partial is None or not partial.exists():
        return {}
    before = json.loads(partial.read_text())
    if before["of"] != identity():
        sys.exit(f"{partial} has runs of another program or length: finish it with that or remove it")
    return before["runs"]


def replace(path, document):
    """Writes `document` aside and gives it its name. A list of numbers is one line."""
    text = re.sub(r"\[\s*([-+.\d][-+.\de,\s]*?)\s*\]", lambda match: "[" + ", ".join(match[1].replace(",", " ").split()) + "]",
                  json.dumps(document, indent=1))
    aside = path.with_suffix(".new")
    aside.write_text(text + "\n")
    aside.replace(path)


def mean(runs, key):
    return statistics.fmean(run[key] for run in runs)


def summary(runs):
    keys = ("throughput", "utilization", "p50", "p95")
    # A run that hung was made once more, after the others.
    runs = sorted(runs, key=lambda run: run.get("minute", 0))
    text = {key: {"mean": mean(runs, key), "runs": [rounded(run[key]) for run in runs]} for key in keys}
    flows = [flow for run in runs for flow in run["flows"]]
    if flows:
        text["tcp_cwnd_kb"] = min(flow["tcp_cwnd_bytes"] for flow in flows) / 1e3
        text["cwnd_kb"] = max(flow["cwnd_bytes"] or 0 for flow in flows) / 1e3
        text["refusals"] = statistics.fmean(flow["refusals"] for flow in flows)
    delays = [run["delays"] for run in runs if "delays" in run]
    if delays:
        text["delays"] = pooled(delays)
    if "minute" in runs[0]:
        text |= {"minutes": [run["minute"] for run in runs], "rtts_ms": [run["rtt_ms"] for run in runs]}
    return text | {"runs": len(runs), "seconds": runs[0]["seconds"]}


def rounded(value):
    return float(f"{value:.5g}")


def windows():
    """Figures 1 and 2 of the ALCC paper: windows that do not react, above kernel Cubic."""
    ccs = ["plain", "fixed:cwnd=20pkts", "fixed:cwnd=41pkts", "fixed:cwnd=83pkts",
           "fixed:cwnd=20pkts,max=60pkts,every=1s"]
    path = "--trace constant:12mbit"
    return [(f"windows/{cc}", *((plain, "cubic") if cc == "plain" else (alcc, cc, "cubic")), path, 30)
            for cc in ccs]


def base_rtt(number):
    """Of the runs over this minute, in ms. Packets leave the link at the trace's whole milliseconds: at
    one RTT for all they came to its queue at one moment within the millisecond, a little later where a
    program answers than where the kernel does, and by that alone the queue differed by up to one."""
    return RTT_MS + 3 * number % 10 / 10


def numbered(number, way):
    """The same, and its runs say over which minute they were, and at which base RTT."""
    def measured(*arguments):
        run = way(*arguments)
        return run and run | {"minute": number, "rtt_ms": base_rtt(number)}
    return measured


def on_traces(ways, repeats, more=CAPTURED):
    """Jobs of Verus and Copa on the traces, by the `ways` (name, function, arguments before the path),
    each repeat over another minute. Runs of the same cell are far apart, and what is compared is
    measured at about the same time."""
    jobs = []
    for number in range(repeats):
        for trace in MEASURED:
            part = minute(CELLPACE, f"{TRACES}/{trace}.down", number, SECONDS)
            path = f"--rtt {base_rtt(number)}ms --trace {part} {more}"
            jobs += [(f"{name}/{trace}/{cc}", numbered(number, function), cc, *arguments, path, SECONDS)
                     for cc in ("verus:r=2", "copa") for name, function, *arguments in ways]
    return jobs


def delayed(cc, options, seconds, folder):
    """Native, with a receiver that acknowledges as TCP's do."""
    return native(cc, options, seconds, folder, "delayed:40ms")


# What is compared with native is measured beside it: machines are not alike at all times.
WAYS = [("native", native), ("again", native), ("gate", alcc, "gate"), ("kernel", alcc, "kernel"),
        ("kernel_prompt", prompt), ("delayed", delayed), ("quickack", alcc, "quickack")]


def above_others(repeats):
    return on_traces([(below, alcc, below) for below in ("cubic", "reno", "bbr")], repeats, "")


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


NGINX = """
user root; worker_processes 4; daemon off; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{ access_log off; sendfile {sendfile}; client_body_temp_path {folder}/body;
  proxy_temp_path {folder}/proxy; fastcgi_temp_path {folder}/fcgi; uwsgi_temp_path {folder}/uwsgi;
  scgi_temp_path {folder}/scgi;
  server {{ listen 0.0.0.0:9000; location / {{ root {folder}; }} }} }}
"""


# More bytes than any of its runs sends.
WARM = 400 << 20


def nginx(cc, options, seconds, size, driver, folder):
    """nginx and curl, unmodified. What is sent of the file is in memory before: to take memory costs more than to send."""
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, sendfile="on"))
    folder.chmod(0o755)
    with open(folder / "file", "wb") as file:
        file.truncate(size)
    server = f"{SERVER} 9000 cubic {folder}/nginx.conf"
    warm = f"head -c {WARM} {folder}/file >/dev/null; "
    if cc:
        server = f"'{CELLPACE}' run --driver {driver} --cc {cc} --drain 1s --json $FLOWS -- {server}"
    client = "while :; do curl -s -o /dev/null http://$CELLPACE_HOST:9000/file; done"
    return link(options, warm + server, client, seconds, folder)


def web(repeats):
    path = f"--trace {TRACES}/city-drive.down"
    ways = [("plain", None, "gate")]
    ways += [(f"{cc}{mark}", cc, driver) for cc in ("verus:r=2", "verus:r=4", "copa")
             for driver, mark in (("gate", ""), ("kernel", ", kernel driver"))]
    return [(f"nginx/{name}", nginx, cc, path, SECONDS, 1 << 30, driver)
            for _ in range(repeats) for name, cc, driver in ways]


def quoted(command):
    return command.replace("'", "'\\''")


TUNNEL = f"python3 {HERE}/alcc_tunnel.py"
OPENVPN = "openvpn --dev tun --disable-dco --cipher none --auth none"


def ends():
    """The commands of both ends of a tunnel over TCP: OpenVPN, or without it a program that queues more."""
    if shutil.which("openvpn") is None:
        return f"{TUNNEL} listen 7000 10.9.0.1", f"{TUNNEL} connect $CELLPACE_HOST 7000 10.9.0.2"
    return (f"{OPENVPN} --proto tcp-server --lport 7000 --ifconfig 10.9.0.1 10.9.0.2",
            f"{OPENVPN} --proto tcp-client --remote $CELLPACE_HOST 7000 --nobind --ifconfig 10.9.0.2 10.9.0.1")


def tunnel(first, second, seconds, folder):
    """Two flows in one TCP tunnel through 40 Mbit/s: bytes a second of each."""
    kind, _, cc = first.partition("-")
    cc = cc or "copa"
    servers = {"alcc": f"'{CELLPACE}' run --driver gate --cc {cc} --drain 1s -- {SERVER} 9000 cubic",
               "native": f"'{CELLPACE}' send --listen 0.0.0.0:9000 --mtu 1400 --cc {cc} --duration 1h",
               "plain": f"{SERVER} 9001 cubic"}
    readers = {"alcc": f"{TUNNEL} read 10.9.0.1 9000 {seconds} {folder}/first",
               "native": f"{CELLPACE} recv --output - 10.9.0.1:9000 2>{folder}/said "
                         f"| {TUNNEL} count {seconds} {folder}/first",
               "plain": f"{TUNNEL} read 10.9.0.1 9001 {seconds} {folder}/second",
               "onoff-tcp": f"{TUNNEL} parts 10.9.0.1 9001 {seconds} {folder}/second 5 5"}
    servers["onoff-tcp"] = servers["plain"]
    if second.startswith("onoff") and second != "onoff-tcp":
        servers[second] = f"{TUNNEL} onoff 9001 {second.partition('-')[2] or 10} 5 5"
        readers[second] = f"{TUNNEL} hear 10.9.0.1 9001 {seconds} {folder}/second"
    listens, connects = ends()
    server = f"bash -c 'trap : TERM; {listens} & {quoted(servers[kind])} & "
    server += f"{quoted(servers[second])} & wait; kill $(jobs -p); wait'"
    client = f"{connects} & {readers[kind]} & {readers[second]}; sleep 1; kill %1"
    # The link's own figures are those of the tunnel.
    found = link("--trace constant:40mbit", server, client, seconds + 20, folder)
    if found is None:
        return None
    counts = {}
    for which in ("first", "second"):
        path = folder / which
        counts[which] = json.loads(path.read_text()) if path.exists() else []
    return found | counts


def loopback():
    """Without a bottleneck: Gbit/s from nginx to a reader over loopback. The file is in memory before,
    since what takes memory first is slow, and plain comes first and last."""
    found = {}
    for name, options in (("plain", None), ("cubic", "--driver gate --cc cubic"),
                          ("fixed", "--driver gate --cc fixed:cwnd=4MB"),
                          ("fixed, kernel driver", "--driver kernel --cc fixed:cwnd=4MB"),
                          ("excluded", "--driver gate --cc verus --in 1"), ("plain again", None)):
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
                cat {folder}/file >/dev/null
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


TUNNELS = [(first, second) for first in ("alcc", "native") for second in ("plain", "onoff")]
# Figures 22, 23 and 24: Copa as the authors' program was started, and Verus, beside TCP and UDP that are on and off.
TUNNELS += [(f"{kind}-copa:alcc", "onoff-tcp") for kind in ("alcc", "native")]
TUNNELS += [(f"alcc-{cc}", f"onoff-{mbit}") for cc in ("copa:alcc", "verus:r=2") for mbit in (10, 20, 30)]


def tunnels(repeats, partial):
    jobs = [(f"{first}/{second}/{number}", tunnel, first, second, SECONDS)
            for number in range(repeats) for first, second in TUNNELS]
    return {name: {which: runs[0][which] for which in ("first", "second")}
            for name, runs in many(jobs, partial).items()}


def loss(repeats):
    """Random loss, at which the TCP below it backs off and holds a controller down (section 5.8)."""
    jobs = []
    for path in (f"--trace {TRACES}/verizon-lte-short.down", "--trace constant:12mbit"):
        for percent in ("0", "0.1", "0.5", "1", "2"):
            options, seconds = f"{path} --loss {percent}%", SECONDS // 2
            name = f"{path.split('/')[-1]}/{percent}"
            jobs += [(f"{name}/{below}", plain, below, options, seconds) for below in ("cubic", "bbr")]
            for cc in ("verus:r=2", "copa"):
                jobs.append((f"{name}/{cc}/native", native, cc, options, seconds))
                jobs += [(f"{name}/{cc}/{how}", alcc, cc, how, options, seconds)
                         for how in ("gate", "kernel")]
    # Runs of a cell are far apart, as on the traces.
    return jobs * repeats


def with_kernel_driver():
    """Installs the kernel driver if it is not there. Returns whether it has to be removed."""
    status = subprocess.run([CELLPACE, "kernel", "status", "--json", "-"], capture_output=True, text=True)
    if json.loads(status.stdout)["uses"] == "kernel":
        return False
    subprocess.run([CELLPACE, "kernel", "install"], check=True)
    return True


def summaries(jobs, partial):
    return {name: summary(cell) for name, cell in many(jobs, partial).items()}


def simulated(repeats):
    """The controllers in the simulator, and what acks of every second packet, TCP's habit, do to them."""
    found = {}
    for trace in MEASURED:
        for acks in ("every", "delayed:40ms"):
            of_cc = {}
            for number in range(repeats):
                part = minute(CELLPACE, f"{TRACES}/{trace}.down", number, SECONDS)
                args = [CELLPACE, "compare", "--trace", part, "--rtt", f"{base_rtt(number)}ms", "--duration", f"{SECONDS}s",
                        "--skip", f"{SKIP}s", "--acks", acks, "--cc", "verus:r=2", "--cc", "copa", "--json", "-"]
                for run in json.loads(subprocess.check_output(args))["runs"]:
                    delay = run["queue_delay_ms"]
                    of_cc.setdefault(run["cc"], []).append({
                        "throughput": run["throughput_mbps"], "utilization": run["utilization"], "p50": delay["p50"],
                        "p95": delay["p95"], "flows": [], "seconds": SECONDS, "minute": number, "rtt_ms": base_rtt(number)})
            found |= {f"{acks}/{trace}/{cc}": summary(runs) for cc, runs in of_cc.items()}
    return found


# Parts whose cells are together under `cells` in OUT.json, and those beside which native has to be.
AMONG_CELLS = ("windows", "cells", "others")
BESIDE_NATIVE = ("others",)
USE_KERNEL_DRIVER = ("loopback", "web", "cells", "loss")


def options(words):
    """Sets what is told as NAME=VALUE; the other words, and the repeats if they are told."""
    global AT_ONCE, MEASURED, SECONDS
    told = dict(word.split("=", 1) for word in words if "=" in word)
    AT_ONCE = int(told.pop("at-once", AT_ONCE))
    SECONDS = int(told.pop("seconds", SECONDS))
    MEASURED = told.pop("traces", ",".join(MEASURED)).split(",")
    repeats = told.pop("repeats", None)
    if told:
        sys.exit(f"no such option: {', '.join(told)}")
    return [word for word in words if "=" not in word], repeats


def main():
    out = Path(sys.argv[2])
    words, repeats = options(sys.argv[3:])
    repeats = int(repeats or (20 if "full" in words else 3))
    few = max(repeats // 6, 1)
    parts = {"loopback": lambda _: loopback(), "tunnels": lambda partial: tunnels(repeats, partial),
             "simulated": lambda _: simulated(repeats),
             "web": lambda partial: summaries(web(repeats), partial),
             "sprout": lambda partial: summaries(sprout(repeats), partial),
             "windows": lambda partial: summaries(windows(), partial),
             "cells": lambda partial: summaries(on_traces(WAYS, repeats), partial),
             "others": lambda partial: summaries(above_others(few), partial),
             "loss": lambda partial: summaries(loss(repeats), partial)}
    unknown = [word for word in words if word not in parts and word != "full"]
    if unknown:
        sys.exit(f"no such part: {', '.join(unknown)}")
    wanted = [part for part in parts if part in words] or list(parts)
    if shutil.which("nginx") is None or os.geteuid() != 0 or not TRACES:
        sys.exit("needs root, nginx and the real traces (CELLPACE_TRACES)")
    # Ends by what removes the kernel driver again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    remove = any(part in USE_KERNEL_DRIVER for part in wanted) and with_kernel_driver()
    try:
        for part in wanted:
            measure(part, parts[part], out)
    finally:
        if remove:
            subprocess.run([CELLPACE, "kernel", "remove"], check=False)


def measure(part, function, out):
    """Measures a part and puts it into OUT.json, beside the others."""
    if part in BESIDE_NATIVE:
        there = json.loads(out.read_text()).get("cells", {}) if out.exists() else {}
        lacking = [trace for trace in MEASURED if f"native/{trace}/copa" not in there]
        if lacking:
            sys.exit(f"{part}: {out} has no native run on {', '.join(lacking)} (measure the part cells first)")
    partial = out.with_suffix(f".{part}.partial")
    found = function(partial)
    # Read only now: another part may have been finished meanwhile.
    document = json.loads(out.read_text()) if out.exists() else {}
    if part in AMONG_CELLS:
        document["cells"] = document.get("cells", {}) | found
    else:
        document[part] = found
    replace(out, document)
    partial.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
