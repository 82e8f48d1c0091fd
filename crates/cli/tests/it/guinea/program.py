"""Programs as people write them, each with its own way to use a socket.

Run as `program.py MODE [ARG...]`. Says `port N` when it listens, then whatever the mode has to say.
Only the connection is looked at, never what is behind it, but by `plain`.
"""

import ctypes
import errno
import fcntl
import functools
import http.server
import json
import os
import resource
import select
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

SIZE = 5_000_000
# Two names have one number.
NAMES = {**errno.errorcode, errno.EOPNOTSUPP: "EOPNOTSUPP"}


def say(*words):
    print(*words, flush=True)


def listen(host="127.0.0.1", family=socket.AF_INET, dual=False):
    listener = socket.socket(family, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if family == socket.AF_INET6:
        listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0 if dual else 1)
    listener.bind((host, 0))
    listener.listen(64)
    say("port", listener.getsockname()[1])
    return listener


def accepted(**how):
    return listen(**how).accept()[0]


def data(size=SIZE):
    return bytes(index * 7 % 251 for index in range(1000)) * (size // 1000)


def plain(fd):
    """Whether a descriptor is really a TCP socket, as the kernel lists them."""
    inode = os.readlink(f"/proc/self/fd/{fd}")[len("socket:["):-1]
    lines = []
    for table in ["/proc/net/tcp", "/proc/net/tcp6"]:
        if os.path.exists(table):
            lines += open(table).read().splitlines()
    return any(len(line.split()) > 9 and line.split()[9] == inode for line in lines)


def echo(connection):
    while received := connection.recv(65536):
        connection.sendall(received)
    connection.close()


def mode_http(folder):
    """Python's own server, but for a queue of connections that holds as many as the test makes."""
    handler = functools.partial(http.server.SimpleHTTPRequestHandler, directory=folder)
    http.server.ThreadingHTTPServer.request_queue_size = 64
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    say("port", server.server_port)
    server.serve_forever()


# How programs wait.


class Buffered:
    """Echoes without ever blocking."""

    def __init__(self, connection):
        connection.setblocking(False)
        self.connection = connection
        self.waiting = bytearray()
        self.ended = False

    def step(self):
        """Reads and writes until the kernel says that either would block. False at the end."""
        moved = True
        while moved:
            moved = self.read() | self.write()
        return not (self.ended and not self.waiting)

    def read(self):
        if self.ended or len(self.waiting) >= 1 << 20:
            return False
        try:
            received = self.connection.recv(65536)
        except BlockingIOError:
            return False
        self.waiting += received
        self.ended = not received
        return True

    def write(self):
        if not self.waiting:
            return False
        try:
            del self.waiting[: self.connection.send(self.waiting[:65536])]
        except BlockingIOError:
            return False
        return True

    def wants_more(self):
        return not self.ended and len(self.waiting) < 1 << 20


def mode_epoll(kind):
    connection = accepted()
    echoed = Buffered(connection)
    poll = select.epoll()
    edge = kind == "et"
    always = select.EPOLLIN | select.EPOLLOUT | select.EPOLLET
    poll.register(connection, always if edge else select.EPOLLIN)
    wakes = 0
    while True:
        assert poll.poll(20), "nothing for 20 s"
        wakes += 1
        if not echoed.step():
            break
        if not edge:
            wanted = select.EPOLLIN * echoed.wants_more() | select.EPOLLOUT * bool(echoed.waiting)
            poll.modify(connection, wanted)
    connection.close()
    say("echoed", wakes < 200_000)


def mode_accept4():
    """As servers in C do it: the connection never blocks, and closes on exec."""
    listener = listen()
    libc = ctypes.CDLL(None, use_errno=True)
    both = socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC
    fd = libc.accept4(listener.fileno(), None, None, both)
    blocking, inherited = os.get_blocking(fd), os.get_inheritable(fd)
    connection = socket.socket(fileno=fd)
    echoed = Buffered(connection)
    poll = select.epoll()
    poll.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLET)
    while echoed.step():
        assert poll.poll(20), "nothing for 20 s"
    connection.close()
    say("echoed", not blocking and not inherited)


def mode_drop():
    """Gives up root before it accepts."""
    listener = listen()
    if os.getuid() == 0:
        os.setgroups([])
        os.setgid(65534)
        os.setuid(65534)
    connection, _ = listener.accept()
    # What is in /proc is root's after that.
    say("family", connection.getpeername()[0], plain(connection.fileno()) if os.access("/proc/self/fd", os.X_OK) else "?")
    echo(connection)


def mode_poll():
    connection = accepted()
    echoed = Buffered(connection)
    poll = select.poll()
    while True:
        wanted = select.POLLIN * echoed.wants_more() | select.POLLOUT * bool(echoed.waiting)
        poll.register(connection, wanted)
        assert poll.poll(20_000)
        if not echoed.step():
            break
    connection.close()
    say("echoed", True)


def mode_select():
    connection = accepted()
    echoed = Buffered(connection)
    while True:
        reading = [connection] if echoed.wants_more() else []
        ready = select.select(reading, [connection] if echoed.waiting else [], [], 20)
        assert any(ready)
        if not echoed.step():
            break
    connection.close()
    say("echoed", True)


def mode_idle():
    """Waits for what never comes: the number of wake-ups tells whether anything leaks in."""
    connection = accepted()
    connection.sendall(b"x" * 1_000_000)
    poll = select.epoll()
    poll.register(connection, select.EPOLLIN | select.EPOLLPRI | select.EPOLLERR)
    until = time.monotonic() + 0.5
    wakes = 0
    while (left := until - time.monotonic()) > 0:
        wakes += len(poll.poll(left))
    say("wakes", wakes)


def mode_threads():
    connection = accepted()
    sender = threading.Thread(target=lambda: connection.sendall(data()))
    sender.start()
    count = 0
    while received := connection.recv(65536):
        count += len(received)
    sender.join()
    connection.close()
    say("received", count)


# Processes.


def mode_prefork():
    listener = listen()
    workers = []
    for _ in range(3):
        worker = os.fork()
        if worker == 0:
            for _ in range(3):
                echo(listener.accept()[0])
            os._exit(0)
        workers.append(worker)
    say("statuses", [os.waitpid(worker, 0)[1] for worker in workers])


def mode_fork_after():
    listener = listen()
    for _ in range(3):
        connection, _ = listener.accept()
        worker = os.fork()
        if worker == 0:
            listener.close()
            echo(connection)
            os._exit(0)
        connection.close()
    say("statuses", [os.wait()[1] for _ in range(3)])


def mode_orphan():
    connection = accepted()
    if os.fork() == 0:
        os.setsid()
        time.sleep(0.3)
        say("parent", os.getppid() != int(os.environ["PARENT"]))
        echo(connection)
        os._exit(0)
    os._exit(3)


def mode_exec():
    connection = accepted()
    say("cloexec", not os.get_inheritable(connection.fileno()))
    status = subprocess.run(["cat"], stdin=connection, stdout=connection).returncode
    connection.close()
    say("status", status)


def mode_pass():
    """The descriptor goes to another process over a UNIX socket."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    if os.fork() == 0:
        ours.close()
        _, fds, _, _ = socket.recv_fds(theirs, 1, 1)
        connection = socket.socket(fileno=fds[0])
        say("family", connection.family.name, connection.getpeername()[0])
        echo(connection)
        os._exit(0)
    theirs.close()
    listener = listen()
    connection, _ = listener.accept()
    socket.send_fds(ours, [b"x"], [connection.fileno()])
    connection.close()
    say("status", os.wait()[1])


def mode_dup():
    connection = accepted()
    fd = connection.detach()
    second = os.dup(fd)
    os.close(fd)
    os.dup2(second, 200)
    os.closerange(3, 200)
    os.write(200, b"through 200\n")
    while received := os.read(200, 65536):
        os.write(200, received)
    os.close(200)
    say("done")


# Ways to send.


def mode_sendfile(name):
    connection = accepted()
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        sent = 0
        while sent < size:
            sent += os.sendfile(connection.fileno(), file.fileno(), sent, size - sent)
    connection.close()
    say("sent", sent)


def mode_splice(name):
    connection = accepted()
    with open(name, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        reader, writer = os.pipe()
        sent = 0
        while sent < size:
            piece = os.splice(file.fileno(), writer, 65536, offset_src=sent)
            while piece:
                moved = os.splice(reader, connection.fileno(), piece)
                piece -= moved
                sent += moved
    connection.close()
    say("sent", sent)


def mode_vectors():
    connection = accepted()
    left = data()
    while left:
        parts = [left[start:start + 100] for start in range(0, min(len(left), 50_000), 100)]
        left = left[connection.sendmsg(parts):]
    connection.close()
    say("sent", SIZE)


def mode_more():
    connection = accepted()
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 1)
    left = data(1_000_000)
    for start in range(0, len(left), 500):
        connection.sendall(left[start:start + 500], socket.MSG_MORE)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CORK, 0)
    connection.close()
    say("sent", len(left))


# Ends.


def mode_half():
    """Ends its own direction first and still reads."""
    connection = accepted()
    connection.sendall(b"that is all")
    connection.shutdown(socket.SHUT_WR)
    count = 0
    while received := connection.recv(65536):
        count += len(received)
    say("received", count)


def fill(connection):
    """Sends until the kernel takes no more."""
    connection.setblocking(False)
    count = 0
    quiet = 0
    while quiet < 20:
        try:
            count += connection.send(data(100_000))
            quiet = 0
        except BlockingIOError:
            time.sleep(0.02)
            quiet += 1
    return count


def mode_filled(count):
    """Sends until the kernel takes no more, on many connections, and waits."""
    listener = listen()
    connections = [listener.accept()[0] for _ in range(int(count))]
    threads = [threading.Thread(target=fill, args=[connection]) for connection in connections]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    say("filled")
    time.sleep(60)


def mode_linger():
    """Asks for a reset while much is not delivered yet."""
    connection = accepted()
    fill(connection)
    base = socket.SOL_SOCKET
    say("linger", *struct.unpack("ii", option(connection, base, socket.SO_LINGER, 8)))
    connection.setsockopt(base, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def mode_queued(how):
    """Sends until the kernel takes no more, and dies."""
    connection = accepted()
    say("accepted", fill(connection))
    if how == "close":
        connection.close()
        os._exit(0)
    os.kill(os.getpid(), {"term": signal.SIGTERM, "kill": signal.SIGKILL}[how])
    time.sleep(10)


def mode_gone():
    """The peer goes away: writing must fail as ever."""
    connection = accepted()
    assert connection.recv(1) == b"x"
    try:
        while True:
            connection.sendall(b"y" * 10_000)
            time.sleep(0.01)
    except (BrokenPipeError, ConnectionResetError):
        say("failed")
    worker = os.fork()
    if worker == 0:
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
        while True:
            connection.send(b"z")
    say("signal", os.waitpid(worker, 0)[1])


# What the socket says of itself.


def mode_names(host, dual):
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = listen(host, family, dual == "dual")
    connection, address = listener.accept()
    say("json", json.dumps({
        "accept": address,
        "peer": connection.getpeername(),
        "own": connection.getsockname(),
        "family": connection.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN),
        "plain": plain(connection.fileno()),
    }))
    libc = ctypes.CDLL(None, use_errno=True)
    room = ctypes.create_string_buffer(b"\xee" * 64)
    length = ctypes.c_uint(5)
    result = libc.getpeername(connection.fileno(), room, ctypes.byref(length))
    say("cut", result, length.value, room.raw[4:8].hex())
    pid = os.fork()
    if pid == 0:
        say("child", connection.getpeername() == address)
        os._exit(0)
    os.waitpid(pid, 0)
    say("listener", listener.getsockname()[0], listener.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
    connection.recv(1)


def option(connection, level, name, size=4):
    try:
        return connection.getsockopt(level, name, size)
    except OSError as error:
        return NAMES[error.errno]


def set_option(connection, level, name, value):
    try:
        connection.setsockopt(level, name, value)
    except OSError as error:
        return NAMES[error.errno]
    return "set"


def mode_options():
    connection = accepted()
    tcp, base = socket.IPPROTO_TCP, socket.SOL_SOCKET
    connection.setsockopt(tcp, socket.TCP_NODELAY, 0)
    connection.setsockopt(tcp, socket.TCP_CORK, 1)
    connection.setsockopt(base, socket.SO_KEEPALIVE, 1)
    connection.setsockopt(tcp, socket.TCP_KEEPIDLE, 77)
    connection.setsockopt(socket.IPPROTO_IP, socket.IP_TOS, 0x10)
    connection.setsockopt(base, socket.SO_LINGER, struct.pack("ii", 1, 5))
    connection.setsockopt(base, socket.SO_SNDBUF, 50_000)
    connection.setsockopt(base, socket.SO_RCVTIMEO, struct.pack("ll", 7, 0))
    credentials = option(connection, base, socket.SO_PEERCRED, 12)
    info = option(connection, tcp, socket.TCP_INFO, 104)
    said = {
        "nodelay": connection.getsockopt(tcp, socket.TCP_NODELAY),
        "cork": connection.getsockopt(tcp, socket.TCP_CORK),
        "short": set_option(connection, tcp, socket.TCP_CORK, b"1"),
        "keepalive": connection.getsockopt(base, socket.SO_KEEPALIVE),
        "idle": connection.getsockopt(tcp, socket.TCP_KEEPIDLE),
        "tos": connection.getsockopt(socket.IPPROTO_IP, socket.IP_TOS),
        "linger": struct.unpack("ii", option(connection, base, socket.SO_LINGER, 8)),
        "sndbuf": connection.getsockopt(base, socket.SO_SNDBUF),
        "timeout": struct.unpack("ll", option(connection, base, socket.SO_RCVTIMEO, 16))[0],
        "domain": connection.getsockopt(base, socket.SO_DOMAIN),
        "protocol": connection.getsockopt(base, socket.SO_PROTOCOL),
        "type": connection.getsockopt(base, socket.SO_TYPE),
        "error": connection.getsockopt(base, socket.SO_ERROR),
        "state": info[0],
        "mss": struct.unpack_from("I", info, 16)[0] > 500,
        "congestion": bool(option(connection, tcp, socket.TCP_CONGESTION, 16).strip(b"\0")),
        "credentials": struct.unpack("iii", credentials)[0],
        "ulp": set_option(connection, tcp, 31, b"tls"),
        "zerocopy": set_option(connection, base, 60, 1),
        "lowat": set_option(connection, tcp, 25, 16_384),
        "unknown": option(connection, tcp, 999),
        "unknown_base": option(connection, base, 999),
    }
    say("json", json.dumps(said))
    connection.sendall(b"x" * 100_000)
    out = fcntl.ioctl(connection, 0x5411, b"\0" * 4)
    say("unread", struct.unpack("i", out)[0] > 0)
    connection.sendall(b"end")
    until = time.monotonic() + 10
    while time.monotonic() < until:
        out = struct.unpack("i", fcntl.ioctl(connection, 0x5411, b"\0" * 4))[0]
        if out == 0:
            break
        time.sleep(0.01)
    say("left", out)


def mode_others():
    """Sockets that are none of ours, and what is no socket."""
    ours, theirs = socket.socketpair()
    say("unix", repr(ours.getpeername()), ours.getsockopt(socket.SOL_SOCKET, socket.SO_DOMAIN) == socket.AF_UNIX)
    say("tcp option", option(ours, socket.IPPROTO_TCP, socket.TCP_NODELAY))
    # A stranger with a name like ours.
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(b"\0cellpace/" + b"A" * 76)
    server.listen()
    client = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    client.connect(server.getsockname())
    say("stranger", client.getpeername()[:10] == b"\0cellpace/")
    unix = server.accept()[0]
    say("accepted", unix.family.name)
    udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    udp.connect(("127.0.0.1", 9))
    say("udp", udp.getpeername())
    reader, _ = os.pipe()
    libc = ctypes.CDLL(None, use_errno=True)
    for fd in [reader, 999]:
        length = ctypes.c_uint(16)
        result = libc.getpeername(fd, ctypes.create_string_buffer(16), ctypes.byref(length))
        say("not a socket", result, NAMES[ctypes.get_errno()])
    result = libc.accept(999, None, None)
    say("accept", result, NAMES[ctypes.get_errno()])


# When things fail.


def mode_plain(count):
    """Says of each of several connections whether it was taken over, and echoes."""
    listener = listen()
    for _ in range(int(count)):
        connection, _ = listener.accept()
        say("plain", plain(connection.fileno()))
        echo(connection)


def mode_kept(name):
    """The library keeps a connection of its own: it is none of the program's first numbers, and whatever
    the program does to it, later connections are taken over and files of the program are left alone."""
    listener = listen()

    def next_one(said):
        connection, _ = listener.accept()
        echo(connection.dup())
        say(said, plain(connection.fileno()))

    def kept():
        numbers = sorted(int(fd) for fd in os.listdir("/proc/self/fd"))
        return [fd for fd in numbers if fd >= 512]

    next_one("first")
    say("kept", kept())
    next_one("again")
    say("kept", kept())
    file = os.open(name, os.O_RDWR | os.O_CREAT)
    os.dup2(file, 512)
    next_one("replaced")
    say("written", os.fstat(512).st_size)
    os.closerange(512, 600)
    next_one("closed")
    if os.fork() == 0:
        next_one("child")
        os._exit(0)
    os.wait()
    next_one("parent")


def mode_known(count):
    """The same, and says before what every process of the program knows of the launcher."""
    say("control", os.environ["CELLPACE_CONTROL"])
    say("token", os.environ["CELLPACE_TOKEN"])
    mode_plain(count)


def mode_full():
    """No descriptor is left after that of the connection itself."""
    listener = listen()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    free = os.dup(0)
    os.close(free)
    resource.setrlimit(resource.RLIMIT_NOFILE, (free + 1, hard))
    connection, _ = listener.accept()
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    say("plain", plain(connection.fileno()))
    echo(connection)


def mode_open(port):
    """Opens a connection itself."""
    connection = socket.create_connection(("127.0.0.1", int(port)))
    say("plain", plain(connection.fileno()), connection.getpeername()[1] == int(port))
    say("cloexec", not os.get_inheritable(connection.fileno()))
    connection.sendall(data())
    connection.shutdown(socket.SHUT_WR)
    count = 0
    while received := connection.recv(65536):
        count += len(received)
    say("received", count)


def opened(port, before=lambda _: None):
    """Begins to open a connection without waiting for it."""
    connection = socket.socket()
    connection.setblocking(False)
    before(connection)
    code = connection.connect_ex(("127.0.0.1", int(port)))
    assert code == errno.EINPROGRESS, code
    return connection


def by_poll(port):
    connection = opened(port)
    poll = select.poll()
    poll.register(connection, select.POLLOUT | select.POLLIN)
    return connection, {number: event for number, event in poll.poll(9000)}[connection.fileno()]


def by_select(port):
    connection = opened(port)
    return connection, bool(select.select([], [connection], [], 9)[1])


def by_again(port):
    """Asks by calling connect again."""
    connection = opened(port)
    codes = []
    while not codes or codes[-1] == errno.EALREADY:
        codes.append(connection.connect_ex(("127.0.0.1", int(port))))
        time.sleep(0.01)
    return connection, codes[-1]


def by_epoll_after(port, flags=0):
    connection = opened(port)
    epoll = select.epoll()
    epoll.register(connection, select.EPOLLOUT | flags)
    return connection, epoll.poll(9)[0][0] == connection.fileno()


def by_epoll_before(port, flags=0):
    """As nginx does; the set is asked before, so that it has something to say already."""
    epoll, other = select.epoll(), select.epoll()

    def register(connection):
        epoll.register(connection, select.EPOLLIN | select.EPOLLOUT | select.EPOLLRDHUP | flags)
        other.register(connection, select.EPOLLIN)
        epoll.poll(9)

    connection = opened(port, register)
    first = epoll.poll(9)
    assert len(first) == 1 and first[0][0] == connection.fileno(), first
    epoll.modify(connection, select.EPOLLIN)
    found = first[0][1] & select.EPOLLOUT
    if found and is_connected(connection):
        assert not epoll.poll(0.2) and not other.poll(0), "something is reported without a reason"
        connection.send(b"?")
        assert epoll.poll(9) == [(connection.fileno(), select.EPOLLIN)]
        assert other.poll(9) == [(connection.fileno(), select.EPOLLIN)]
        assert connection.recv(9) == b"?"
    epoll.unregister(connection)
    return connection, bool(found)


def is_connected(connection):
    """Asked so that an error stays to be asked for."""
    try:
        return bool(connection.getpeername())
    except OSError:
        return False


def by_timeout(port):
    return socket.create_connection(("127.0.0.1", int(port)), timeout=9), True


WAYS = {
    "poll": by_poll,
    "select": by_select,
    "again": by_again,
    "after": by_epoll_after,
    "after-et": lambda port: by_epoll_after(port, select.EPOLLET),
    "before": by_epoll_before,
    "before-et": lambda port: by_epoll_before(port, select.EPOLLET),
    "timeout": by_timeout,
}


def mode_later(way, port):
    """Opens a connection without waiting for it, and echoes through the other end."""
    connection, found = WAYS[way](port)
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    say("found", int(found), error, plain(connection.fileno()))
    say("peer", connection.getpeername()[1] == int(port), connection.getsockname()[0])
    connection.setblocking(True)
    threading.Thread(target=lambda: (connection.sendall(data()), connection.shutdown(1))).start()
    received = bytearray()
    while part := connection.recv(65536):
        received += part
    say("right", received == data())


def mode_asyncio(host, port):
    import asyncio

    async def run():
        reader, writer = await asyncio.open_connection(host, int(port))
        say("plain", plain(writer.get_extra_info("socket").fileno()))
        say("peer", writer.get_extra_info("peername")[0])
        writer.write(data())
        writer.write_eof()
        say("right", await reader.read() == data())

    asyncio.run(run())


def mode_refused(way, port):
    """Opens a connection where nobody listens."""
    if way == "timeout":
        try:
            by_timeout(port)
        except OSError as error:
            return say("code", NAMES[error.errno])
    connection, found = WAYS[way](port)
    if way == "again":
        return say("code", NAMES[found])
    codes = [connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR) for _ in range(2)]
    say("code", "0" if not found else NAMES[codes[0]] if codes[1] == 0 else codes)
    try:
        connection.getpeername()
    except OSError as error:
        say("peer", NAMES[error.errno])


def mode_pending(port):
    """Opens a connection that does not come about for a while."""
    connection = opened(port)
    writable = select.select([], [connection], [], 0.3)[1]
    error = connection.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
    again = connection.connect_ex(("127.0.0.1", int(port)))
    codes = []
    for call in [lambda: connection.send(b"x"), lambda: connection.recv(1), connection.getpeername]:
        try:
            codes.append(call())
        except OSError as error_:
            codes.append(NAMES[error_.errno])
    say("pending", writable, error, NAMES[again], *codes, plain(connection.fileno()))
    sys.stdin.readline()
    connection.close()
    say("closed")
    sys.stdin.readline()


def mode_signalled():
    """Signals come all the time while connections are accepted."""
    signal.signal(signal.SIGALRM, lambda *_: None)
    signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
    listener = listen()
    for _ in range(20):
        connection, _ = listener.accept()
        taken = not plain(connection.fileno())
        echo(connection)
        say("taken", taken)
    signal.setitimer(signal.ITIMER_REAL, 0)


def mode_limits():
    say("files", *resource.getrlimit(resource.RLIMIT_NOFILE))
    say("blocked", sorted(map(int, signal.pthread_sigmask(signal.SIG_BLOCK, []))))


def mode_wait():
    for number in [signal.SIGTERM, signal.SIGUSR1, signal.SIGHUP]:
        signal.signal(number, lambda number, _: say("signal", number) or (number == signal.SIGTERM and sys.exit(7)))
    say("ready")
    while True:
        signal.pause()


os.environ.setdefault("PARENT", str(os.getpid()))
globals()["mode_" + sys.argv[1]](*sys.argv[2:])
