"""What congestion controls of the kernel cost a server: nginx under cubic, bbr and Pace in the kernel; and what an operator
plans with: nginx under each driver, with several controllers.

    python3 evaluation/kernel_cost.py path/to/cellpace [--seconds S] [--pairs N] [--connections N,...] [--only PART] [--record]

Two network namespaces, whose devices segment; the controls take turns in each case, chosen by the
sysctl of the server's namespace, and a figure is the ratio to cubic in the same turn: its geometric mean over all
turns, with a 95 % confidence interval. Processor time is the busy time of the whole machine less the client's
and, over `link`, less the emulator's. The machine must be idle.

`--record` keeps the figures in evaluation/kernel_cost.json, of which tables of docs/validation/above-tcp.md and
docs/operate.md are made. Parts: costs, watch, capacity.
Needs root, nginx, wrk and curl."""
import argparse
import contextlib
import json
import math
import os
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import ROOT, table, write

RECORDED = ROOT / "evaluation/kernel_cost.json"
CONTROLS = ["cubic", "bbr", "cellpace_pace"]
SIZES = {"1 kB": 1000, "100 kB": 100_000}
FILE = 3_000_000
CLIENTS = 50
SERVER, PORT = "10.77.0.1", 8090
TICKS = os.sysconf("SC_CLK_TCK")
NGINX = """user root; daemon off; worker_processes 1; pid {folder}/nginx.pid; error_log {folder}/nginx.log;
worker_rlimit_nofile {files};
events {{ worker_connections {places}; }}
http {{ access_log off; sendfile on; tcp_nopush on; keepalive_requests 100000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 0.0.0.0:{port} backlog=16384; root {folder}; }} }}
"""
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# Two-sided 95 % of Student's distribution by degrees of freedom.
STUDENT = {1: 12.71, 2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26, 14: 2.14, 19: 2.09}


def busy():
    """Processor seconds of the whole machine up to now, but for a constant: those that pass less those that are idle, which
    the kernel measures. What it says is busy it samples by ticks, and misses short runs after timers."""
    words = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    idle, waits, stolen = words[3], words[4], words[7]
    return time.monotonic() * os.cpu_count() - (idle + waits + stolen) / TICKS


def choose(control):
    Path("/proc/sys/net/ipv4/tcp_congestion_control").write_text(control)


def run(command):
    """Standard output, and the processor seconds of a command and all that it waited for."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    text = process.stdout.read()
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        sys.exit(f"{' '.join(command)}: status {status}")
    return text, usage.ru_utime + usage.ru_stime


def requests(size, connections, new, seconds):
    """Requests a second, and microseconds of processor time per request."""
    command = ["ip", "netns", "exec", CLIENT, "wrk", "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-H", "Connection: close"] if new else []
    before = busy()
    text, client = run(command + [f"http://{SERVER}:{PORT}/{size}"])
    spent = busy() - before - client
    count = int(re.search(r"(\d+) requests in", text).group(1))
    return float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)), 1e6 * spent / count


def download(cellpace):
    """Megabits a second over the emulated link, and processor seconds per gigabyte."""
    fetch = f"curl -s -o /dev/null http://$CELLPACE_HOST:{PORT}/file"
    script = f"for i in $(seq {CLIENTS}); do {fetch} & done; wait"
    before, began = busy(), time.monotonic()
    _, others = run([cellpace, "link", "--quiet", "--trace", "constant:100mbit", "--rtt", "40ms", "--", "bash", "-c", script])
    spent, took = busy() - before - others, time.monotonic() - began
    return CLIENTS * FILE * 8 / took / 1e6, spent / (CLIENTS * FILE / 1e9)


def bulk():
    """Gigabits a second of one connection between the namespaces, and processor seconds per gigabyte."""
    before = busy()
    text, client = run(["ip", "netns", "exec", CLIENT, "curl", "-s", "-o", "/dev/null", "-w", "%{speed_download}",
                        f"http://{SERVER}:{PORT}/big"])
    return float(text) * 8 / 1e9, (busy() - before - client) / (BIG / 1e9)


BIG = 8_000_000_000


def watched(cellpace):
    """Sockets under Pace, and the share of a processor that looking at all of them once a second takes, in percent."""
    choose(CONTROLS[-1])
    listener = socket.create_server((SERVER, PORT + 1), backlog=16384)
    pairs = []
    while len(pairs) < min(WATCHED, FILES - 100) // 2:
        opened = socket.create_connection((SERVER, PORT + 1))
        pairs.append((opened, listener.accept()[0]))
        opened.sendall(bytes(1000))
    seconds = 20
    _, spent = run([cellpace, "kernel", "watch", "--count", str(seconds), "--json", "/dev/null"])
    return 2 * len(pairs), 100 * spent / seconds


WATCHED = 10_000


# What an operator plans with: its name there, the control of the sockets below, and what starts the server.
CAPACITY = [("nginx alone, CUBIC", "cubic", None), ("nginx alone, BBR", "bbr", None),
            *((f"{cc} in the kernel", f"cellpace_{cc}", None) for cc in ("pace", "copa", "mdi")),
            *((f"`run`, {driver}, {cc}", "cubic", ["run", "--driver", driver, "--cc", cc, "--quiet", "--drain", "1s", "--"])
              for driver in ("kernel", "gate") for cc in ("pace", "verus", "copa", "bbr")),
            *((f"`proxy`, {driver}, pace", "cubic", ["proxy", "--driver", driver, "--cc", "pace", "--quiet", "--drain", "1s"])
              for driver in ("kernel", "gate"))]


def capacity(options, serve):
    """Of each way the server's own processor seconds per GB of fifty transfers over the link, and microseconds of the whole machine
    per new connection of a hundred clients: medians of the turns, in each of which all ways are measured."""
    found = {name: [] for name, *_ in CAPACITY}
    for _ in range(options.pairs):
        for name, control, under in random.sample(CAPACITY, len(CAPACITY)):
            choose(control)
            with serve(under) as spent:
                download(options.cellpace)
            with serve(under):
                new = requests("1kB", 100, True, options.seconds)[1]
            found[name].append((sum(spent) / (CLIENTS * FILE / 1e9), new))
            print(name, "{:.2f} s/GB, {:.0f} us".format(*found[name][-1]), flush=True)
    return {name: [statistics.median(column) for column in zip(*turns)] for name, turns in found.items()}


def ratio(values, bases):
    """Geometric mean of the ratios of pairs, with a 95 % confidence interval."""
    logs = [math.log(value / base) for value, base in zip(values, bases)]
    mean = statistics.mean(logs)
    if len(logs) < 2:
        return [math.exp(mean)] * 3
    half = STUDENT.get(len(logs) - 1, 2.0) * statistics.stdev(logs) / math.sqrt(len(logs))
    return [math.exp(at) for at in (mean, mean - half, mean + half)]


def cases(options):
    for size in SIZES:
        for new in (False, True):
            for connections in options.connections:
                name = f"{size}, {connections} {'new each' if new else 'kept'}"
                file = size.replace(" ", "")
                yield name, lambda file=file, connections=connections, new=new: requests(
                    file, connections, new, options.seconds)
    yield f"link, {CLIENTS} x 3 MB, 100 Mbit/s, 40 ms", lambda: download(options.cellpace)
    yield "one connection, 8 GB", bulk


def measure(options):
    found = []
    for case, figure in cases(options):
        turns = []
        for _ in range(options.pairs):
            order = CONTROLS.copy()
            random.shuffle(order)
            turn = {}
            for control in order:
                choose(control)
                turn[control] = figure()
            turns.append(turn)
        for control in CONTROLS:
            rate, cost = zip(*(turn[control] for turn in turns))
            base_rate, base_cost = zip(*(turn[CONTROLS[0]] for turn in turns))
            row = [case, control, statistics.median(rate), statistics.median(cost),
                   ratio(rate, base_rate), ratio(cost, base_cost), options.pairs]
            found.append(row)
            print(" | ".join(texts(row)), flush=True)
    return found


def texts(row):
    case, control, rate, cost, rates, costs, _ = row
    between = lambda ends: "{:.3f} ({:.3f}–{:.3f})".format(*ends)
    shown = f"{rate:.0f}" if rate >= 1000 else f"{rate:.3g}"
    return [case, control, shown, f"{cost:.3g}", between(rates), between(costs)]


HEADER = ["case", "requests, Mbit or Gbit a second", "rate, of cubic", "processor time, of cubic", "`bbr`'s"]


def shown(ours, bbr):
    """A row of the page: Pace's figures with intervals, BBR's without."""
    case, _, rate, _, rates, costs = texts(ours)
    return [case, rate, rates, costs, f"{bbr[4][0]:.2f}, {bbr[5][0]:.2f}"]


def tables():
    if not RECORDED.exists():
        return {}
    found = json.loads(RECORDED.read_text())
    rows = [shown(ours, bbr) for _, bbr, ours in zip(*[iter(found["costs"])] * len(CONTROLS))]
    per_gb = {name: figures[0] for name, figures in found["capacity"].items()}
    answer = "{:.2f} processor seconds per GB where CUBIC takes {:.2f} and BBR {:.2f} (Pace in the kernel)"
    return {"kernel-cost": table(HEADER, rows), "kernel-watch": "{} sockets: {:.2f} %".format(*found["watch"]),
            "capacity": capacity_table(found["capacity"]),
            "answer-cost": answer.format(per_gb["pace in the kernel"], per_gb["nginx alone, CUBIC"], per_gb["nginx alone, BBR"])}


def capacity_table(found):
    # A Gbit/s is an eighth of a GB each second.
    rows = [[name, f"{cost:.2f}", f"{cost / 8:.2f}", f"{new:.0f}"] for name, (cost, new) in found.items()]
    return table(["", "s per GB", "cores per Gbit/s", "us per new connection"], rows)


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("cellpace", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--pairs", type=int, default=20)
    parser.add_argument("--connections", type=lambda text: [int(word) for word in text.split(",")], default=[1, 100, 4900])
    parser.add_argument("--only", choices=["costs", "watch", "capacity"], action="append")
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    missing = [program for program in ("nginx", "wrk", "curl", "ip") if not shutil.which(program)]
    if os.geteuid() != 0 or missing:
        sys.exit(f"skipped: needs root and {', '.join(missing) or 'nothing else'}")
    # Ends by what takes everything out of the kernel again.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    if os.environ.get("CELLPACE_COST") != "inside":
        sys.exit(outside())
    inside(options)


def outside():
    """Measures in a namespace of its own, whose default may be any control meanwhile."""
    allowed = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
    before = allowed.read_text()
    allowed.write_text(" ".join([*before.split(), *CONTROLS[:2]]))
    try:
        return subprocess.run(["unshare", "--net", sys.executable, *sys.argv], check=False,
                              env={**os.environ, "CELLPACE_COST": "inside"}).returncode
    finally:
        allowed.write_text(before)


def inside(options):
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    wanted = options.only or ["costs", "watch", "capacity"]
    with controllers(options.cellpace, ["pace", "copa", "mdi"] if "capacity" in wanted else ["pace"], "capacity" in wanted), \
            client_network(), tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o755)
        for file, size in [(size.replace(" ", ""), count) for size, count in SIZES.items()] + [("file", FILE), ("big", BIG)]:
            with open(folder / file, "wb") as sparse:
                sparse.truncate(size)
        serve = lambda under: server(options.cellpace, under, folder)
        found = json.loads(RECORDED.read_text()) if RECORDED.exists() else {}
        if "costs" in wanted or "watch" in wanted:
            with serve(None):
                found |= {"costs": measure(options)} if "costs" in wanted else {}
                found |= {"watch": watched(options.cellpace)} if "watch" in wanted else {}
            print("watch: {} sockets, {:.2f} % of a processor".format(*found["watch"]))
        if "capacity" in wanted:
            found["capacity"] = capacity(options, serve)
            print(capacity_table(found["capacity"]))
    if options.record:
        write(RECORDED, json.dumps(found, indent=1) + "\n")


QUIET = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}


@contextlib.contextmanager
def controllers(cellpace, names, driver):
    """Congestion controls of ours, and the kernel driver, in the kernel meanwhile."""
    with contextlib.ExitStack() as installed:
        for words in [["--cc", name] for name in names] + ([[]] if driver else []):
            everyone = ["--everyone"] if words else []
            if subprocess.run([cellpace, "kernel", "install", *words, *everyone], **QUIET).returncode:
                sys.exit(f"skipped: this kernel does not take it (cellpace kernel install {' '.join(words)} says why)")
            # Markov tables have no `--now`.
            now = ["--now"] if words and words[-1] != "mdi" else []
            installed.callback(subprocess.run, [cellpace, "kernel", "remove", *words, *now], **QUIET, check=False)
        yield


@contextlib.contextmanager
def client_network():
    """A namespace for the client, and a pair of devices to it."""
    ip = lambda words: subprocess.run(["ip", *words.split()], check=True)
    ip(f"netns add {CLIENT}")
    try:
        ip("link set lo up")
        ip(f"link add cost0 type veth peer name cost1 netns {CLIENT}")
        ip(f"addr add {SERVER}/24 dev cost0")
        ip("link set cost0 up")
        ip(f"-n {CLIENT} addr add 10.77.0.2/24 dev cost1")
        ip(f"-n {CLIENT} link set cost1 up")
        subprocess.run(["ip", "netns", "exec", CLIENT, "sysctl", "-qw", "net.ipv4.ip_local_port_range=1024 65000",
                        "net.ipv4.tcp_tw_reuse=1"], check=True)
        yield
    finally:
        subprocess.run(["ip", "netns", "del", CLIENT], check=False)


@contextlib.contextmanager
def server(cellpace, under, folder):
    """nginx at PORT; under a command of ours, or behind its proxy. At the end the list has the processor seconds of each, of user
    and system; what the kernel does when packets arrive is in none."""
    spent = []
    proxied = under and under[0] == "proxy"
    (folder / "nginx.conf").write_text(NGINX.format(folder=folder, files=FILES, places=FILES - 100, port=PORT + 2 if proxied else PORT))
    nginx = ["nginx", "-c", str(folder / "nginx.conf")]
    commands = [[cellpace, *under, *nginx]] if under and not proxied else [nginx]
    if proxied:
        commands.append([cellpace, *under, "--listen", f"0.0.0.0:{PORT}", "--to", f"127.0.0.1:{PORT + 2}", "--max-connections", "4000"])
    started = [subprocess.Popen(command, **QUIET) for command in commands]
    try:
        wait_for_port(time.monotonic() + 10)
        yield spent
    finally:
        for process in reversed(started):
            # Not by force, which would leave the workers.
            before = of_children()
            process.terminate()
            process.wait(20)
            spent.append(of_children() - before)


def of_children():
    """Processor seconds of all children that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def wait_for_port(until):
    while True:
        try:
            return socket.create_connection((SERVER, PORT), timeout=1).close()
        except OSError:
            if time.monotonic() > until:
                sys.exit("the server does not answer")
            time.sleep(0.05)


CLIENT = f"cost-{os.getpid()}"

if __name__ == "__main__":
    main()
