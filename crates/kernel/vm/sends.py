"""Sends a megabyte to itself."""

import socket
import threading

listener = socket.create_server(("127.0.0.1", 0))
sender = socket.create_connection(listener.getsockname())
receiver = listener.accept()[0]


def send():
    sender.sendall(bytes(1_000_000))
    sender.close()


threading.Thread(target=send).start()
count = 0
while chunk := receiver.recv(1 << 16):
    count += len(chunk)
assert count == 1_000_000, count
