#!/usr/bin/env python3
"""What the tunnels of alcc_evaluation.py are made of.

    alcc_tunnel.py listen PORT ADDRESS            a TUN device over one TCP connection, this end
    alcc_tunnel.py connect HOST PORT ADDRESS      the other end
    alcc_tunnel.py read HOST PORT SECONDS FILE    reads a TCP stream; bytes per second into FILE
    alcc_tunnel.py parts HOST PORT SECONDS FILE ON OFF   the same of one connection after the other, ON and OFF s in the mean
    alcc_tunnel.py count SECONDS FILE             the same of its standard input
    alcc_tunnel.py onoff PORT MBIT ON OFF         sends UDP to whoever says something, ON and OFF s
    alcc_tunnel.py hear HOST PORT SECONDS FILE    receives that
"""
import contextlib
import fcntl
import json
import os
import random
import socket
import struct
import subprocess
import sys
import threading
import time

TUNSETIFF, IFF_TUN, IFF_NO_PI = 0x400454CA, 1, 0x1000


def tunnel(stream, address):
    stream.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # What waits in the tunnel's own socket would be one more buffer.
    stream.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 128 << 10)
    device = os.open("/dev/net/tun", os.O_RDWR)
    fcntl.ioctl(device, TUNSETIFF, struct.pack("16sH22x", b"tunnel", IFF_TUN | IFF_NO_PI))
    subprocess.run(["ip", "address", "add", f"{address}/24", "dev", "tunnel"], check=True)
    # Two bytes of length go with every packet.
    subprocess.run(["ip", "link", "set", "tunnel", "mtu", "1400", "up"], check=True)

    def out():
        while True:
            packet = os.read(device, 2048)
            stream.sendall(struct.pack("!H", len(packet)) + packet)

    threading.Thread(target=out, daemon=True).start()
    reader = stream.makefile("rb", buffering=1 << 16)
    while head := reader.read(2):
        os.write(device, reader.read(struct.unpack("!H", head)[0]))


def connected(host, port):
    """A connection as soon as the tunnel is there."""
    end = time.monotonic() + 20
    while True:
        try:
            return socket.create_connection((host, port), timeout=1)
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)


def by_second(seconds, path, receive):
    counts, start = [0] * (seconds + 1), time.monotonic()
    while (passed := time.monotonic() - start) < seconds:
        counts[int(passed)] += receive()
    with open(path, "w") as file:
        json.dump(counts[:seconds], file)


def read(host, port, seconds, path):
    stream = connected(host, port)

    def receive():
        try:
            return len(stream.recv(1 << 16))
        except TimeoutError:
            return 0

    by_second(seconds, path, receive)


def parts(host, port, seconds, path, on, off):
    """Times are drawn, the same in each run."""
    drawn, start, state = random.Random(1), time.monotonic(), {"stream": None, "until": 0.0}

    def receive():
        if time.monotonic() - start >= state["until"]:
            was, state["stream"] = state["stream"], None
            if was is None:
                state["stream"] = connected(host, port)
            else:
                was.close()
            state["until"] = time.monotonic() - start + drawn.expovariate(1 / (on if was is None else off))
        if state["stream"] is None:
            time.sleep(0.01)
            return 0
        try:
            return len(state["stream"].recv(1 << 16))
        except TimeoutError:
            return 0

    by_second(seconds, path, receive)


def count(seconds, path):
    by_second(seconds, path, lambda: len(os.read(0, 1 << 16)))


def hear(host, port, seconds, path):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.settimeout(0.2)

    def receive():
        try:
            return len(sock.recv(2048))
        except TimeoutError:
            # Until the tunnel is there; who sends hears one only.
            with contextlib.suppress(OSError):
                sock.sendto(b"hello", (host, port))
            return 0

    by_second(seconds, path, receive)


def onoff(port, mbit, on, off):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.bind(("", port))
    _, peer = sock.recvfrom(100)
    gap, start = 1200 * 8 / (mbit * 1e6), time.monotonic()
    sent = 0
    while True:
        passed = time.monotonic() - start
        cycle, within = divmod(passed, on + off)
        due = int((cycle * on + min(within, on)) / gap)
        while sent < due:
            sock.sendto(bytes(1200), peer)
            sent += 1
        time.sleep(0.001)


def main():
    what, *rest = sys.argv[1:]
    if what == "listen":
        tunnel(socket.create_server(("", int(rest[0]))).accept()[0], rest[1])
    elif what == "connect":
        tunnel(socket.create_connection((rest[0], int(rest[1]))), rest[2])
    elif what == "onoff":
        onoff(int(rest[0]), *map(float, rest[1:]))
    elif what == "parts":
        parts(rest[0], int(rest[1]), int(rest[2]), rest[3], *map(float, rest[4:]))
    elif what == "count":
        count(int(rest[0]), rest[1])
    else:
        {"read": read, "hear": hear}[what](rest[0], int(rest[1]), int(rest[2]), rest[3])


if __name__ == "__main__":
    main()
