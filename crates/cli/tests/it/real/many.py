"""Many connections open in one program under `cellpace run`, some of them active.

    many.py CELLPACE CC COUNT ACTIVE SECONDS WORKERS
                                               runs the server under CELLPACE and talks to it;
                                               its last line is a JSON object with what was found

The server understands single bytes: `e` is echoed, `b` answered by 20 kB at once, and `s` by
10 kB/s for some seconds.
"""

import heapq
import json
import os
import re
import resource
import selectors
import socket
import subprocess
import sys
import time

BURST = 20_000
PIECE = 1_000
PAUSE = 0.1
TICKS = os.sysconf("SC_CLK_TCK")


def content(size):
    return bytes(index * 7 % 251 for index in range(size))


def serve(seconds):
    pieces = round(seconds / PAUSE)
    data = content(max(BURST, pieces * PIECE))
    listener = socket.create_server(("127.0.0.1", 0), backlog=4096)
    listener.setblocking(False)
    print(listener.getsockname()[1], flush=True)
    selector = selectors.DefaultSelector()
    selector.register(listener, selectors.EVENT_READ)
    due = []

    def accept():
        while True:
            try:
                connection, _ = listener.accept()
            except BlockingIOError:
                return
            selector.register(connection, selectors.EVENT_READ)

    def answer(connection):
        for command in connection.recv(64):
            if command == ord("e"):
                connection.sendall(b"e")
            elif command == ord("b"):
                connection.sendall(data[:BURST])
            elif command == ord("s"):
                # Not all at the same moment.
                start = time.monotonic() + connection.fileno() % 100 / 100 * PAUSE
                heapq.heappush(due, (start, connection.fileno(), 0, connection))

    while True:
        wait = max(0, due[0][0] - time.monotonic()) if due else None
        for key, _ in selector.select(wait):
            if key.fileobj is listener:
                accept()
            else:
                answer(key.fileobj)
        while due and due[0][0] <= time.monotonic():
            at, number, piece, connection = heapq.heappop(due)
            connection.sendall(data[piece * PIECE : (piece + 1) * PIECE])
            if piece + 1 < pieces:
                heapq.heappush(due, (at + PAUSE, number, piece + 1, connection))


def memory(process):
    """Bytes of a process in memory."""
    with open(f"/proc/{process}/status") as status:
        return int(re.search(r"VmRSS:\s+(\d+) kB", status.read())[1]) << 10


def cpu(process):
    """Seconds that a process computed, in the program and in the kernel."""
    with open(f"/proc/{process}/stat") as stat:
        fields = stat.read().rsplit(")", 1)[1].split()
    return [int(fields[11]) / TICKS, int(fields[12]) / TICKS]


def gather(connections, expected):
    """Reads until every connection has given what is expected; how many gave anything else."""
    selector = selectors.DefaultSelector()
    got = {connection: bytearray() for connection in connections}
    for connection in connections:
        selector.register(connection, selectors.EVENT_READ)
    wrong = 0
    until = time.monotonic() + 60
    while got and time.monotonic() < until:
        for key, _ in selector.select(1):
            bytes_ = key.fileobj.recv(1 << 16)
            so_far = got[key.fileobj]
            so_far += bytes_
            if not bytes_ or len(so_far) >= len(expected):
                wrong += bytes(so_far) != expected
                selector.unregister(key.fileobj)
                del got[key.fileobj]
    return wrong + len(got)


def ask(connections, command, expected):
    """Asks in portions, so that no more than some hundred are active at a time."""
    wrong = 0
    for start in range(0, len(connections), 500):
        portion = connections[start : start + 500]
        for connection in portion:
            connection.sendall(command)
        wrong += gather(portion, expected)
    return wrong


def main(cellpace, cc, count, active, seconds):
    flows = "flows.jsonl"
    command = [cellpace, "run", "--cc", cc, "--json", flows]
    command += ["--", sys.executable, "-u", __file__]
    server = subprocess.Popen([*command, "serve", str(seconds)], stdout=subprocess.PIPE, text=True)
    port = int(server.stdout.readline())
    launcher = server.pid
    # The launcher has two descriptors per flow, and some others.
    capacity = (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 50) // 2
    found = {"capacity": capacity}

    def connect():
        return socket.create_connection(("127.0.0.1", port), timeout=30)

    first = [connect() for _ in range(10)]
    wrong = ask(first, b"b", content(BURST))
    time.sleep(0.5)
    base = memory(launcher)
    started = time.monotonic()
    connections = [connect() for _ in range(count)]
    wrong += ask(connections, b"e", b"e")
    found["open_s"] = time.monotonic() - started
    time.sleep(0.5)
    found["idle_bytes"] = (memory(launcher) - base) / count
    wrong += ask(connections, b"b", content(BURST))
    time.sleep(0.5)
    found["used_idle_bytes"] = (memory(launcher) - base) / count

    before = cpu(launcher)
    time.sleep(seconds)
    found["idle_cpu_s"] = [round(b - a, 2) for a, b in zip(before, cpu(launcher))]

    chosen = connections[:: max(1, count // active)][:active]
    before = cpu(launcher)
    started = time.monotonic()
    for connection in chosen:
        connection.sendall(b"s")
    wrong += gather(chosen, content(round(seconds / PAUSE) * PIECE))
    found["active_s"] = time.monotonic() - started
    found["active_cpu_s"] = [round(b - a, 2) for a, b in zip(before, cpu(launcher))]
    found["active_bytes"] = (memory(launcher) - base) / count
    wrong += ask(first + connections, b"e", b"e")
    found["wrong"] = wrong
    for connection in first + connections:
        connection.close()
    server.terminate()
    server.wait(60)
    with open(flows) as lines:
        told = [json.loads(line) for line in lines]
    found["flows"] = len(told)
    found["retransmissions"] = sum(flow["retransmissions"] for flow in told)
    print(json.dumps(found))


if sys.argv[1] == "serve":
    serve(float(sys.argv[2]))
else:
    # Ours, and that of the programs that we start.
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (65536, 65536))
    except ValueError:
        limit = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        resource.setrlimit(resource.RLIMIT_NOFILE, (limit, limit))
    main(*sys.argv[1:3], *map(int, sys.argv[3:5]), float(sys.argv[5]))
