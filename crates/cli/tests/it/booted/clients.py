"""Servers, a download and clients of the proxy, inside of a booted systemd.

`clients.py restart COMMAND...` runs the command while a download is open, and 80 clients come meanwhile;
`clients.py serve` serves at 8080 and 8081 until it is killed; `clients.py name` prints who answers.
"""

import http.server
import json
import subprocess
import sys
import threading
import time
import urllib.request

SIZE, PARTS = 6_000_000, 60


class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/download":
            self.answer(SIZE // PARTS * b"d", PARTS)
        else:
            self.answer(str(self.server.server_port).encode(), 1)

    def answer(self, part, count):
        self.send_response(200)
        self.send_header("Content-Length", str(len(part) * count))
        self.end_headers()
        for _ in range(count):
            self.wfile.write(part)
            if count > 1:
                time.sleep(0.1)

    def log_message(self, *_):
        pass


def serve():
    for port in (8080, 8081):
        server = http.server.ThreadingHTTPServer(("127.0.0.1", port), Page)
        threading.Thread(target=server.serve_forever).start()


def fetch(path):
    begin = time.monotonic()
    with urllib.request.urlopen(f"http://127.0.0.1{path}", timeout=60) as page:
        return page.read(), time.monotonic() - begin


def note(found, path):
    try:
        found.append(fetch(path))
    except OSError as error:
        found.append((str(error).encode(), 0))


def restart(command):
    download, answers = [], []
    threads = [threading.Thread(target=note, args=(download, "/download"))]
    threads[0].start()
    time.sleep(1)
    begin = time.monotonic()
    running = subprocess.Popen(command)
    for _ in range(80):
        threads.append(threading.Thread(target=note, args=(answers, "/")))
        threads[-1].start()
        time.sleep(0.1)
    code = running.wait(60)
    for thread in threads:
        thread.join()
    failed = [text.decode() for text, _ in answers if text != b"8080"]
    waits = [wait for _, wait in answers]
    print(json.dumps({
        "code": code,
        "download": len(download[0][0]),
        "answers": len(answers),
        "failed": failed,
        "slowest_s": max(waits),
        "lasted_s": time.monotonic() - begin,
    }))


match sys.argv[1:]:
    case ["serve"]:
        serve()
    case ["name"]:
        print(fetch("/")[0].decode())
    case ["restart", *command]:
        restart(command)
