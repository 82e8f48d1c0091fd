"""How exact the emulated link is on this machine: lateness at several rates, base RTT, and TCP
without a bottleneck. Usage: python3 evaluation/link.py ./target/release/cellpace [SECONDS]"""

import os
import re
import socket
import subprocess
import sys
import time

PORT = 7001


def blast(mbps):
    """On the far side: full packets at a rate, to whoever asks."""
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.bind((os.environ["CELLPACE_PEER"], PORT))
    peer = ours.recvfrom(64)[1]
    started, sent, packet = time.monotonic(), 0, bytes(1472)
    while True:
        due = (time.monotonic() - started) * mbps * 1e6 / 12_000
        while sent < due:
            try:
                ours.sendto(packet, peer)
            except OSError:
                pass
            sent += 1
        time.sleep(0.0005)


def sink(seconds):
    """Inside: asks, then takes what comes."""
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.connect((os.environ["CELLPACE_HOST"], PORT))
    ours.settimeout(0.2)
    started = None
    while started is None or time.monotonic() - started < seconds:
        try:
            if started is None:
                ours.send(b"go")
            ours.recv(2048)
            started = started or time.monotonic()
        except OSError:
            pass


def serve():
    """On the far side: bytes over TCP."""
    listener = socket.create_server((os.environ["CELLPACE_PEER"], PORT))
    stream, chunk = listener.accept()[0], bytes(1 << 18)
    try:
        while True:
            stream.sendall(chunk)
    except OSError:
        pass


def fetch(seconds):
    """Inside: reads them, and tells the rate of the payload."""
    stream = None
    while stream is None:
        try:
            stream = socket.create_connection((os.environ["CELLPACE_HOST"], PORT))
        except OSError:
            time.sleep(0.05)
    started, total, buffer = time.monotonic(), 0, bytearray(1 << 20)
    while time.monotonic() - started < seconds:
        total += stream.recv_into(buffer)
    print(f"{total * 8 / 1e6 / (time.monotonic() - started):.0f}")


def echo():
    """On the far side."""
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.bind((os.environ["CELLPACE_PEER"], PORT))
    while True:
        ours.sendto(*ours.recvfrom(64))


def rtt(count):
    """Inside: the median of round trips, in ms."""
    ours = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    ours.connect((os.environ["CELLPACE_HOST"], PORT))
    ours.settimeout(0.5)
    times, number = [], 0
    while len(times) < count:
        started, number = time.monotonic(), number + 1
        try:
            ours.send(str(number).encode())
            # Answers to earlier questions may still be on their way.
            while ours.recv(64) != str(number).encode():
                pass
            times.append((time.monotonic() - started) * 1e3)
        except OSError:
            time.sleep(0.05)
    print(f"{sorted(times)[count // 2]:.3f}")


def run(cellpace, options, far, inside):
    own = f"exec {sys.executable} {os.path.abspath(__file__)}"
    command = [cellpace, "link", *options.split(), "--far", f"{own} {far}", "--", "sh", "-c", f"{own} {inside}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return done.stdout.strip(), done.stderr.strip().splitlines()[-1]


def measure(cellpace, seconds):
    for rate in [1, 12, 120, 240]:
        _, line = run(cellpace, f"--trace constant:{rate}mbit --rtt 40ms", f"blast {rate * 1.2}", f"sink {seconds}")
        print(f"{rate:>4} Mbit/s, saturated: {line.removeprefix('cellpace: link: ')}")
    for asked in [0, 40]:
        median, _ = run(cellpace, f"--rtt {asked}ms", "echo", "rtt 101")
        print(f"base RTT, {asked} ms asked: {median} ms")
    rate, line = run(cellpace, "--rtt 0ms", "serve", f"fetch {seconds}")
    print(f"TCP without a bottleneck: {rate} Mbit/s; {re.sub('.*link: ', '', line)}")


if __name__ == "__main__":
    roles = {"blast": blast, "sink": sink, "fetch": fetch, "rtt": rtt}
    plain = {"serve": serve, "echo": echo}
    what = sys.argv[1]
    if what in plain:
        plain[what]()
    elif what in roles:
        roles[what](int(sys.argv[2]) if what == "rtt" else float(sys.argv[2]))
    else:
        measure(os.path.abspath(what), float(sys.argv[2]) if len(sys.argv) > 2 else 5)
