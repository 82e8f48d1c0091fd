#!/usr/bin/env python3
"""An ordinary server: sends zeros to whoever connects, until they leave.

    alcc_server.py PORT BELOW [CONFIGURATION]

BELOW is what TCP itself uses (cubic, reno, bbr). With a CONFIGURATION it executes nginx, which
inherits the listening socket: nginx cannot choose what TCP uses, the socket can.
"""
import os
import socket
import sys
import threading

port, below = int(sys.argv[1]), sys.argv[2]
listener = socket.create_server(("", port), backlog=64)
listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, below.encode())
if len(sys.argv) > 3:
    os.set_inheritable(listener.fileno(), True)
    os.environ["NGINX"] = f"{listener.fileno()};"
    os.execvp("nginx", ["nginx", "-c", sys.argv[3]])


def serve(client):
    data = bytes(1 << 16)
    try:
        while True:
            client.sendall(data)
    except OSError:
        pass


while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
