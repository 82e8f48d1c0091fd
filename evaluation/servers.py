"""Servers and proxies under load, beside their peers, in one interleaved run over loopback. Prints a table
of medians, each beside the first way of its group.

    python3 evaluation/servers.py path/to/cellpace [--seconds S] [--repeat N] [--connections N,...] [--record]

`--record` keeps the figures in evaluation/servers.json, of which a table of docs/validation/above-tcp.md is made.

Needs root (it makes a network namespace of its own), nginx and wrk; haproxy and nginx's stream module
are left out, with a word, where they are missing, as is the kernel driver where it is not installed."""
import argparse
import json
import os
import re
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from program import ROOT, table, write

RECORDED = ROOT / "evaluation/servers.json"
HEADER = ["", "load", "way", "requests/s", "of the first", "CPU, us per request", "of the first", "p99, ms", "lost", "MB"]
SIZES = {"1 kB": 1000, "100 kB": 100_000}
CC = "verus:r=2"
STREAM = Path("/usr/lib/nginx/modules/ngx_stream_module.so")
TICKS = os.sysconf("SC_CLK_TCK")
NGINX = """{modules}
user root; daemon off; master_process on; worker_processes 1; pid {folder}/{name}.pid; error_log {folder}/{name}.log;
worker_rlimit_nofile {files};
events {{ worker_connections {places}; }}
"""
HTTP = """http {{ access_log off; sendfile on; tcp_nopush {nopush}; keepalive_requests 100000000;
  client_body_temp_path {folder}; proxy_temp_path {folder}; fastcgi_temp_path {folder};
  uwsgi_temp_path {folder}; scgi_temp_path {folder};
  server {{ listen 127.0.0.1:{port} backlog=16384; root {folder}; }} }}
"""
RELAY = "stream {{ server {{ listen 127.0.0.1:{port} backlog=16384; proxy_pass 127.0.0.1:{behind}; }} }}\n"
HAPROXY = """global
  nbthread 1
  maxconn {places}
defaults
  mode tcp
  timeout connect 5s
  timeout client 60s
  timeout server 60s
listen relay
  bind 127.0.0.1:{port} backlog 16384
  server behind 127.0.0.1:{behind}
"""
BEHIND = 8100
FILES = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
# A relay has two descriptors for each connection.
PLACES = FILES // 2 - 100


def missing(program):
    return shutil.which(program) is None


def nginx(folder, name, port, nopush="on", behind=None):
    """The words that start nginx, as a server of files or as a relay."""
    modules = f"load_module {STREAM};" if behind and STREAM.exists() else ""
    text = NGINX.format(modules=modules, folder=folder, name=name, files=FILES, places=PLACES)
    text += RELAY.format(port=port, behind=behind) if behind else HTTP.format(folder=folder, port=port, nopush=nopush)
    path = folder / f"{name}.conf"
    path.write_text(text)
    return ["nginx", "-c", str(path)]


def ways(cellpace, folder, drivers, port):
    """What is measured: (group, name, command, port). The first of a group is its base."""
    found = []
    for nopush in ("on", "off"):
        group = f"nginx, tcp_nopush {nopush}"
        commands = [("plain", [])]
        commands += [(driver, [cellpace, "run", "--driver", driver, "--cc", CC, "--drain", "1s", "--"]) for driver in drivers]
        for name, before in commands:
            port += 1
            found.append((group, name, before + nginx(folder, f"nginx-{port}", port, nopush), port))
    group, relays = "proxy", []
    if missing("haproxy"):
        print("left out: haproxy is not installed", flush=True)
    else:
        port += 1
        path = folder / "haproxy.cfg"
        path.write_text(HAPROXY.format(port=port, behind=BEHIND, places=PLACES))
        relays.append((group, "haproxy", ["haproxy", "-db", "-f", str(path)], port))
    if STREAM.exists():
        port += 1
        relays.append((group, "nginx stream", nginx(folder, f"nginx-{port}", port, behind=BEHIND), port))
    else:
        print("left out: nginx has no stream module here (libnginx-mod-stream)", flush=True)
    for driver in drivers:
        port += 1
        command = [cellpace, "proxy", "--listen", f"127.0.0.1:{port}", "--to", f"127.0.0.1:{BEHIND}", "--driver", driver,
                   "--cc", CC, "--max-connections", str(PLACES // 2), "--max-per-client", "none"]
        relays.append((group, driver, command, port))
    return found + relays


def drivers_of(cellpace):
    """The drivers that can be measured here."""
    status = subprocess.run([cellpace, "kernel", "status", "--json", "-"], capture_output=True, text=True)
    if '"uses": "kernel"' in status.stdout or '"uses":"kernel"' in status.stdout:
        return ["gate", "kernel"]
    print("left out: the kernel driver is not installed (cellpace kernel install)", flush=True)
    return ["gate"]


def tree(pid):
    """A process and all below it."""
    found, waiting = [], [pid]
    while waiting:
        one = waiting.pop()
        found.append(one)
        for children in Path(f"/proc/{one}/task").glob("*/children"):
            try:
                waiting += [int(word) for word in children.read_text().split()]
            except OSError:
                pass
    return found


def cpu_of(pid):
    """CPU seconds of a process and all below it, so far."""
    total = 0
    for one in tree(pid):
        try:
            fields = Path(f"/proc/{one}/stat").read_text().rsplit(")", 1)[1].split()
        except OSError:
            continue
        total += int(fields[11]) + int(fields[12])
    return total / TICKS


def memory_of(pid):
    """Resident memory of a process and all below it, in MB; pages that they share count for each."""
    total = 0
    for one in tree(pid):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1])
        except OSError:
            continue
    return total * resource.getpagesize() / 1e6


def milliseconds(word):
    found = re.fullmatch(r"([\d.]+)(us|ms|s|m)", word)
    if not found:
        # Nothing was answered.
        return float("inf")
    number, unit = found.groups()
    return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3, "m": 6e4}[unit]


def load(pid, port, size, connections, new, seconds):
    """One measurement: requests a second, CPU of the server in us per request, p99 in ms, errors, memory in MB."""
    command = ["wrk", "--latency", "-t1", f"-c{connections}", f"-d{seconds}s"]
    command += ["-H", "Connection: close"] if new else []
    before = cpu_of(pid)
    wrk = subprocess.Popen(command + [f"http://127.0.0.1:{port}/{size}"], stdout=subprocess.PIPE, text=True)
    time.sleep(seconds * 0.8)
    memory = memory_of(pid)
    text = wrk.communicate(timeout=seconds + 60)[0]
    spent = cpu_of(pid) - before
    count = int(re.search(r"(\d+) requests in", text).group(1))
    rate = float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1))
    errors = re.search(r"Socket errors: connect (\d+), read (\d+), write (\d+), timeout (\d+)", text)
    wrong = re.search(r"Non-2xx or 3xx responses: (\d+)", text)
    # A server that closes as it was asked to is read as an error by some versions of wrk.
    lost = sum(int(errors.group(at)) for at in ((1, 3, 4) if new else (1, 2, 3, 4))) if errors else 0
    lost += int(wrong.group(1)) if wrong else 0
    late = re.search(r"(?m)^\s+99%\s+(\S+)", text)
    return {"rate": rate, "cpu": 1e6 * spent / max(count, 1), "p99": milliseconds(late.group(1)), "lost": lost, "memory": memory}


def wait_for(port, process):
    until = time.monotonic() + 10
    while time.monotonic() < until and process.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            time.sleep(0.02)
    sys.exit(f"nothing listens at {port}: {' '.join(process.args)}")


def end(process):
    process.terminate()
    try:
        process.wait(10)
    except subprocess.TimeoutExpired:
        for one in reversed(tree(process.pid)):
            os.kill(one, 9)
        process.wait(10)


def measure(options, folder):
    """Median figures by (group, way, case); all ways of a case are measured one after the other, and that
    again and again."""
    for name, size in SIZES.items():
        (folder / name.replace(" ", "")).write_bytes(bytes(size))
    folder.chmod(0o755)
    quiet = {"stdin": subprocess.DEVNULL, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    found, running = {}, []
    listed = ways(options.cellpace, folder, drivers_of(options.cellpace), BEHIND)
    try:
        behind = subprocess.Popen(nginx(folder, "behind", BEHIND), **quiet)
        running.append(behind)
        wait_for(BEHIND, behind)
        for group, name, command, port in listed:
            process = subprocess.Popen(command, **quiet)
            running.append(process)
            wait_for(port, process)
        cases = [(size, connections, new) for size in SIZES for connections in options.connections for new in (False, True)]
        for size, connections, new in cases:
            for _ in range(options.repeat):
                for (group, name, _, port), process in zip(listed, running[1:]):
                    figures = load(process.pid, port, size.replace(" ", ""), connections, new, options.seconds)
                    case = f"{size}, {connections} {'new each' if new else 'kept'}"
                    found.setdefault((group, case, name), []).append(figures)
                    print(group, case, name, {key: round(value, 2) for key, value in figures.items()}, flush=True)
    finally:
        for process in reversed(running):
            end(process)
    return {key: {field: statistics.median(one[field] for one in runs) for field in runs[0]} for key, runs in found.items()}


def rows(found):
    """Of each way, beside the first of its group in the same case."""
    bases, lines = {}, []
    for (group, case, name), one in found.items():
        base = bases.setdefault((group, case), one)
        ratio = lambda field: f"{one[field] / base[field]:.2f}" if base[field] else "-"
        lines.append([group, case, name, f"{one['rate']:.0f}", ratio("rate"), f"{one['cpu']:.0f}", ratio("cpu"),
                      f"{one['p99']:.1f}", f"{one['lost']:.0f}", f"{one['memory']:.0f}"])
    return lines


def tables():
    """The range of each way over all numbers of connections, beside the first way of its group."""
    columns = [(size, kind) for kind in ("kept", "new") for size in ("1 kB", "100 kB")]
    ranges = {}
    for group, case, way, *figures in json.loads(RECORDED.read_text()):
        column = case.split(",")[0], "kept" if "kept" in case else "new"
        ranges.setdefault((group, way), {}).setdefault(column, []).append((float(figures[1]), float(figures[3])))

    def cell(found):
        requests, cpu = zip(*found)
        return f"{min(requests):.2f}–{max(requests):.2f}, {min(cpu):.2f}–{max(cpu):.2f}"

    rows = [[group, way, *(cell(found[column]) for column in columns)]
            for (group, way), found in ranges.items() if any(set(one) != {(1.0, 1.0)} for one in found.values())]
    return {"servers": table(["", "way", *(f"{size}, {kind}" for size, kind in columns)], rows)}


def full_table():
    """Every figure, for the book."""
    return table(HEADER, json.loads(RECORDED.read_text()))


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("cellpace", type=lambda path: str(Path(path).resolve()))
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--connections", type=lambda text: [int(word) for word in text.split(",")], default=[1, 32, 1000])
    parser.add_argument("--record", action="store_true")
    options = parser.parse_args()
    if os.geteuid() != 0 or missing("nginx") or missing("wrk"):
        sys.exit("skipped: needs root, nginx and wrk")
    if os.environ.get("CELLPACE_SERVERS") != "inside":
        environment = {**os.environ, "CELLPACE_SERVERS": "inside"}
        script = 'ip link set lo up && exec "$@"'
        words = ["unshare", "--net", "sh", "-c", script, "sh", sys.executable, *sys.argv]
        os.execvpe(words[0], words, environment)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, FILES))
    if max(options.connections) > PLACES:
        sys.exit(f"{FILES} descriptors are not enough for {max(options.connections)} connections (ulimit -n)")
    with tempfile.TemporaryDirectory() as folder:
        found = rows(measure(options, Path(folder)))
    print(table(HEADER, found))
    if options.record:
        write(RECORDED, json.dumps(found, indent=1) + "\n")


if __name__ == "__main__":
    main()
