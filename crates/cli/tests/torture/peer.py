"""A server and its clients, both of which know every byte that they shall get.

    peer.py serve PORT
    peer.py fetch HOST PORT SEED CLIENTS LARGEST [steady]

The server sends or takes what a request asks for. `fetch` transfers without a pause, in both directions,
until its standard input ends, and writes a line for each transfer: its direction, and

- `whole`: every byte, in order;
- `cut`: an error said that bytes are missing (a reset, a refusal, an upload that nobody confirmed);
- `short`: the connection ended in order before the last byte;
- `wrong`: other bytes than were sent;
- `hung`: nothing moved for a minute.

With `steady` each client keeps one connection for all its transfers, and pauses between them.
"""

import hashlib
import os
import random
import socket
import sys
import threading
import time

PATIENCE = 60.0


def content(seed, size):
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size)


def say(*words):
    # One write for each line: many threads speak.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


def read(connection, size):
    """So many bytes, or those that came before the end."""
    parts = []
    while size > 0 and (part := connection.recv(min(size, 1 << 18))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def request(file):
    words = file.readline(100).split()
    if len(words) != 3:
        return None
    return words[0].decode(), int(words[1]), int(words[2])


def answer(connection):
    with connection, connection.makefile("rb") as file:
        while asked := request(file):
            verb, seed, size = asked
            if verb == "get":
                connection.sendall(content(seed, size))
                continue
            received = file.read(size)
            if received != content(seed, size)[: len(received)]:
                say("wrong", seed, size)
            connection.sendall(b"+" if len(received) == size else b"-")


def guarded(connection):
    try:
        answer(connection)
    except (OSError, ValueError):
        pass


def serve(port):
    listener = socket.create_server(("0.0.0.0", int(port)), backlog=1024)
    say("serving")
    while True:
        try:
            connection, _ = listener.accept()
        except OSError:  # No descriptors, or a connection that is gone already.
            time.sleep(0.01)
            continue
        threading.Thread(target=guarded, args=[connection], daemon=True).start()


def transfer(connection, verb, seed, size):
    expected = content(seed, size)
    connection.sendall(f"{verb} {seed} {size}\n".encode())
    if verb == "get":
        received = read(connection, size)
        if received != expected[: len(received)]:
            return "wrong"
        return "whole" if len(received) == size else "short"
    connection.sendall(expected)
    return {b"+": "whole", b"": "cut", b"-": "short"}.get(connection.recv(1), "wrong")


class Client(threading.Thread):
    def __init__(self, host, port, seed, largest, steady, ended):
        super().__init__()
        self.address = (host, int(port))
        self.random = random.Random(seed)
        self.largest = int(largest)
        self.steady = steady
        self.ended = ended
        self.connection = None

    def run(self):
        while not self.ended.is_set():
            verb = self.random.choice(["get", "get", "put"])
            size = int(self.largest ** self.random.random())
            outcome = self.outcome(verb, self.random.getrandbits(32), size)
            say(verb, outcome)
            if outcome != "whole":
                self.close()
            self.ended.wait(self.pause(outcome))

    def pause(self, outcome):
        if self.steady:
            # Some go on, others connect anew: that is churn.
            if self.random.random() < 0.05:
                self.close()
            return 5 + 10 * self.random.random()
        return 0.05 if outcome == "cut" else 0.0

    def close(self):
        if self.connection:
            self.connection.close()
        self.connection = None

    def outcome(self, verb, seed, size):
        try:
            if not self.connection:
                self.connection = socket.create_connection(self.address, timeout=PATIENCE)
            outcome = transfer(self.connection, verb, seed, size)
            if not self.steady:
                self.close()
            return outcome
        except TimeoutError:
            return "hung"
        except OSError:
            return "cut"


def fetch(host, port, seed, clients, largest, steady=""):
    threading.stack_size(256 << 10)
    ended = threading.Event()
    threads = [
        Client(host, port, f"{seed}.{index}", largest, bool(steady), ended)
        for index in range(int(clients))
    ]
    for thread in threads:
        thread.start()
        if steady:
            time.sleep(0.002)
    say("fetching")
    sys.stdin.read()
    ended.set()
    for thread in threads:
        thread.join()
    say("ended")


if __name__ == "__main__":
    {"serve": serve, "fetch": fetch}[sys.argv[1]](*sys.argv[2:])
