"""A server and its clients, both of which know every byte that they shall get.

    peer.py serve PORT
    peer.py fetch HOST PORT SEED CLIENTS LARGEST [steady]

The server sends or takes what a request asks for. `fetch` transfers without a pause, in both directions,
until its standard input ends, and writes a line for each transfer: its direction, and

- `whole`: every byte, in order;
- `cut`: an error said that bytes are missing (a reset, a refusal, an upload that nobody confirmed);
- `short`: the connection ended in order before the last byte;
- `wrong`: other bytes than were sent;
- `hung`: nothing moved for a minute;
- `away`: it did not begin, since this side's own kernel knew no way.

With `steady` each client keeps one connection for all its transfers, and pauses between them. No connection
has a thread: ten thousand of them would spend their time waiting for each other.
"""

import asyncio
import errno
import hashlib
import os
import random
import socket
import sys

PATIENCE = 60.0

PIECE = 1 << 16


def content(seed, size):
    return hashlib.shake_128(seed.to_bytes(8, "big")).digest(size)


def say(*words):
    # One write for each line: processes share the file.
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


async def patiently(awaited):
    async with asyncio.timeout(PATIENCE):
        return await awaited


async def read(reader, size):
    """So many bytes, or those that came before the end."""
    parts = []
    while size > 0 and (part := await reader.read(min(size, PIECE))):
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


async def answer(reader, writer):
    while len(words := (await reader.readline()).split()) == 3:
        verb, seed, size = words[0], int(words[1]), int(words[2])
        if verb == b"get":
            writer.write(content(seed, size))
        else:
            received = await read(reader, size)
            if received != content(seed, size)[: len(received)]:
                say("wrong", seed, size)
            writer.write(b"+" if len(received) == size else b"-")
        await writer.drain()


async def guarded(connection):
    reader, writer = await asyncio.open_connection(sock=connection)
    try:
        await answer(reader, writer)
    except (OSError, ValueError):
        pass
    finally:
        writer.close()


async def serve(port):
    listener = socket.create_server(("0.0.0.0", int(port)), backlog=1024)
    listener.setblocking(False)
    say("serving")
    # The loop itself holds no task.
    running = set()
    while True:
        try:
            connection, _ = await asyncio.get_running_loop().sock_accept(listener)
        except OSError:  # No descriptors, or a connection that is gone already.
            await asyncio.sleep(0.01)
            continue
        task = asyncio.create_task(guarded(connection))
        running.add(task)
        task.add_done_callback(running.discard)


class Client:
    def __init__(self, host, port, seed, largest, steady, ended):
        self.address = (host, int(port))
        self.random = random.Random(seed)
        self.largest = int(largest)
        self.steady = steady
        self.ended = ended
        self.connection = None

    async def run(self):
        while not self.ended.is_set():
            verb = self.random.choice(["get", "get", "put"])
            size = int(self.largest ** self.random.random())
            outcome = await self.outcome(verb, self.random.getrandbits(32), size)
            say(verb, outcome)
            # Some go on, others connect anew: that is churn.
            if outcome != "whole" or not self.steady or self.random.random() < 0.05:
                self.close()
            await self.pause(outcome)
        self.close()

    async def pause(self, outcome):
        pause = 0.05 if outcome in ("cut", "away") else 0.0
        if self.steady:
            pause = 5 + 10 * self.random.random()
        try:
            await asyncio.wait_for(self.ended.wait(), pause)
        except TimeoutError:
            pass

    def close(self):
        if self.connection:
            self.connection[1].close()
        self.connection = None

    async def outcome(self, verb, seed, size):
        try:
            if not self.connection:
                self.connection = await patiently(asyncio.open_connection(*self.address))
            return await self.transfer(verb, seed, size)
        except TimeoutError:
            return "hung"
        except OSError as error:
            is_away = not self.connection and error.errno in (errno.EHOSTUNREACH, errno.ENETUNREACH)
            return "away" if is_away else "cut"

    async def transfer(self, verb, seed, size):
        reader, writer = self.connection
        expected = content(seed, size)
        writer.write(f"{verb} {seed} {size}\n".encode())
        if verb == "get":
            received = bytearray()
            while len(received) < size and (part := await patiently(reader.read(PIECE))):
                received += part
            if received != expected[: len(received)]:
                return "wrong"
            return "whole" if len(received) == size else "short"
        for start in range(0, size, PIECE):
            writer.write(expected[start : start + PIECE])
            await patiently(writer.drain())
        told = await patiently(reader.read(1))
        return {b"+": "whole", b"": "cut", b"-": "short"}.get(told, "wrong")


async def fetch(host, port, seed, clients, largest, steady=""):
    ended = asyncio.Event()
    running = []
    for index in range(int(clients)):
        client = Client(host, port, f"{seed}.{index}", largest, bool(steady), ended)
        running.append(asyncio.create_task(client.run()))
        if steady:
            await asyncio.sleep(0.002)
    say("fetching")
    await asyncio.to_thread(sys.stdin.read)
    ended.set()
    await asyncio.gather(*running)
    say("ended")


async def stall(host, port, clients):
    connections = []
    for seed in range(int(clients)):
        connection = socket.socket()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
        connection.connect((host, int(port)))
        connection.sendall(f"get {seed} 3000000\n".encode())
        connections.append(connection)
    say("stalled")
    await asyncio.to_thread(sys.stdin.read)


if __name__ == "__main__":
    asyncio.run({"serve": serve, "fetch": fetch, "stall": stall}[sys.argv[1]](*sys.argv[2:]))
