#!/usr/bin/env python3
"""Does a controller above TCP change what is sent? Captures of the same download, plain and with the gate.

    python3 evaluation/alcc_bytes.py path/to/cellpace OUT.json

Python's web server sends 5 MB to curl over 12 Mbit/s and 40 ms, the network of `link` between them. Of
what the server sends: bytes of the stream, options and flags of its segments. Needs curl. Nothing of
it depends on the speed of the machine.
"""
import json
import os
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

PORT = 8000
SIZE = 5_000_000
# Bytes in front of each packet of a capture of `link`: its family.
FAMILY = 4
FLAGS = ["fin", "syn", "rst", "psh", "ack", "urg", "ece", "cwr"]
WAYS = {
    "plain": [],
    "gate/verus:r=2": ["--driver", "gate", "--cc", "verus:r=2"],
    "gate/copa": ["--driver", "gate", "--cc", "copa"],
}


def packets(capture):
    """IP packets of a pcapng file with the interface that they were seen on."""
    data, at = capture.read_bytes(), 0
    while at < len(data):
        kind, length = struct.unpack_from("<II", data, at)
        if kind == 6:
            interface, _, _, size = struct.unpack_from("<IIII", data, at + 8)
            yield interface, data[at + 28 + FAMILY:at + 28 + size]
        at += length


def options(header):
    """Kinds of the TCP options of a header, without padding."""
    at, kinds = 20, []
    while at < len(header) and header[at] != 0:
        if header[at] == 1:
            at += 1
            continue
        kinds.append(header[at])
        at += max(header[at + 1], 2)
    return kinds


def of_server(capture):
    """Bytes of the stream, options, flags and segments of what the server sends on the connection of the
    download; an attempt to connect before the server listens is another one."""
    connections = {}
    for interface, packet in packets(capture):
        if packet[0] >> 4 != 4 or packet[9] != 6:
            continue
        tcp = packet[4 * (packet[0] & 15):struct.unpack_from(">H", packet, 2)[0]]
        source, port, number = struct.unpack_from(">HHI", tcp)
        if source == PORT:
            # Each packet is seen before and behind the link.
            connections.setdefault((port, interface), []).append((number, tcp))
    return max(map(of_connection, connections.values()), key=lambda figures: figures["segments"])


def of_connection(segments):
    begin = next((number for number, tcp in segments if tcp[13] & 2), 0)
    kinds, flags, end = set(), dict.fromkeys(FLAGS, 0), 0
    for number, tcp in segments:
        header = 4 * (tcp[12] >> 4)
        kinds.update(options(tcp[:header]))
        for bit, name in enumerate(FLAGS):
            flags[name] += tcp[13] >> bit & 1
        if len(tcp) > header:
            end = max(end, (number - begin - 1 + len(tcp) - header) % 2**32)
    return {"stream_bytes": end, "options": sorted(kinds), "flags": flags, "segments": len(segments)}


def download(cellpace, way, folder):
    capture = folder / "capture.pcapng"
    run = [cellpace, "run", "-q", *WAYS[way], "--"] if WAYS[way] else []
    server = f"cd {folder} && exec {' '.join([*run, sys.executable, '-m', 'http.server', str(PORT)])} > server 2>&1"
    client = (f"for i in $(seq 100); do curl -s -o {folder}/got http://$CELLPACE_HOST:{PORT}/file && break; "
              "sleep 0.1; done")
    link = [cellpace, "link", "-q", "--trace", "constant:12mbit", "--rtt", "40ms", "--log", str(capture)]
    subprocess.run([*link, "--far", server, "--", "sh", "-c", client], check=True, timeout=120)
    whole = (folder / "got").read_bytes() == (folder / "file").read_bytes()
    (folder / "got").unlink()
    return of_server(capture) | {"whole": whole}


def compared(run, plain):
    """What there is that plain TCP does not have."""
    new = [kind for kind in run["options"] if kind not in plain["options"]]
    flags = [name for name in FLAGS if run["flags"][name] and not plain["flags"][name]]
    return {"more_payload": run["stream_bytes"] - plain["stream_bytes"], "new_options": len(new),
            "new_flags": len(flags), "pushed": run["flags"]["psh"], "segments": run["segments"],
            "whole": float(run["whole"])}


def main():
    cellpace, out = os.path.abspath(sys.argv[1]), Path(sys.argv[2])
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        (folder / "file").write_bytes(os.urandom(SIZE))
        runs = {way: download(cellpace, way, folder) for way in WAYS}
    result = json.loads(out.read_text()) if out.exists() else {}
    result["bytes"] = {way: compared(run, runs["plain"]) for way, run in runs.items()}
    out.write_text(json.dumps(result, indent=1) + "\n")
    print(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
