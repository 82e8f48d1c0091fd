#!/usr/bin/env python3
"""Fetches a file from `examples/h3_server` with a foreign HTTP/3 client, aioquic (pip install aioquic).

    python3 evaluation/foreign_h3.py path/to/h3_server [BYTES]

Prints the controller, the bytes, and whether the SHA-256 is right; ends with 1 if it is not.
"""
import asyncio
import hashlib
import os
import re
import ssl
import subprocess
import sys
import tempfile
from pathlib import Path

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.h3.connection import H3_ALPN, H3Connection
from aioquic.h3.events import DataReceived
from aioquic.quic.configuration import QuicConfiguration

CONTROLLERS = ["verus", "copa", "bbr", "cubic", "pace"]
SECONDS = 60


class Download(QuicConnectionProtocol):
    """One GET."""

    def __init__(self, *arguments, **options):
        super().__init__(*arguments, **options)
        self.http = H3Connection(self._quic)
        self.digest = hashlib.sha256()
        self.ended = asyncio.get_running_loop().create_future()

    async def get(self, authority, path):
        stream = self._quic.get_next_available_stream_id()
        headers = [(b":method", b"GET"), (b":scheme", b"https"), (b":authority", authority.encode()),
                   (b":path", path.encode())]
        self.http.send_headers(stream, headers, end_stream=True)
        self.transmit()
        await asyncio.wait_for(self.ended, SECONDS)
        return self.digest.hexdigest()

    def quic_event_received(self, event):
        for part in self.http.handle_event(event):
            if isinstance(part, DataReceived):
                self.digest.update(part.data)
            if getattr(part, "stream_ended", False) and not self.ended.done():
                self.ended.set_result(None)


async def fetch(port):
    # The certificate is the server's own, which nobody vouches for.
    configuration = QuicConfiguration(alpn_protocols=H3_ALPN, is_client=True, verify_mode=ssl.CERT_NONE)
    async with connect("127.0.0.1", port, configuration=configuration, create_protocol=Download) as download:
        return await download.get(f"localhost:{port}", "/a.bin")


def main():
    program, size = sys.argv[1], int((sys.argv[2:] or ["3000000"])[0])
    data = os.urandom(size)
    expected = hashlib.sha256(data).hexdigest()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        Path(folder, "a.bin").write_bytes(data)
        for cc in CONTROLLERS:
            command = [program, folder, "--listen", "0", "--cc", cc]
            server = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
            try:
                port = next(int(found[1]) for line in server.stderr if (found := re.search(r":(\d+)/", line)))
                is_right = asyncio.run(fetch(port)) == expected
            finally:
                server.terminate()
                server.wait()
            wrong += not is_right
            print(cc, size, "right" if is_right else "wrong")
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
