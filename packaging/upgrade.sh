# An upgrade of the package under load, below a booted systemd: the proxy has a download open, and a hundred clients
# come while the new package is installed and the service restarts. packaging/check.sh reads it.

# The package of before: $CELLPACE_BEFORE, the one that was made before, or the same program under an older version.
older_package() {
    package=${CELLPACE_BEFORE:-$repository/out/before.deb}
    if [ "${CELLPACE_BEFORE:-}" ] || [ -e "$package" ]; then
        cp "$package" "$work/older.deb"
        say "the package of before was made at $(date -r "$package" '+%F %T')"
        return
    fi
    say "the package of before is the same program under an older version"
    dpkg-deb -R cellpace_*_amd64.deb "$work/older"
    sed -i 's/^Version:.*/Version: 0.0.1-1/' "$work/older/DEBIAN/control"
    dpkg-deb --root-owner-group -b "$work/older" "$work/older.deb" >/dev/null
}

# Behind the proxy: /download takes fifteen seconds, all else is answered at once.
server_and_clients() {
    cat >"$work/root/root/server.py" <<'PYTHON'
import http.server, time
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        parts = 150 if self.path == "/download" else 1
        self.send_response(200)
        self.send_header("Content-Length", str(parts * 100_000))
        self.end_headers()
        for _ in range(parts):
            self.wfile.write(bytes(100_000))
            if parts > 1:
                time.sleep(0.1)
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("127.0.0.1", 8080), Page).serve_forever()
PYTHON
    cat >"$work/root/root/clients.py" <<'PYTHON'
import subprocess, sys, threading, time, urllib.request
def fetch(page, size, waits):
    begin = time.monotonic()
    try:
        came = len(urllib.request.urlopen(f"http://127.0.0.1{page}", timeout=60).read())
        waits.append(time.monotonic() - begin if came == size else f"{page}: {came} of {size} bytes")
    except OSError as error:
        waits.append(f"{page}: {error}")
download, waits = [], []
threads = [threading.Thread(target=fetch, args=("/download", 15_000_000, download))]
threads[0].start()
time.sleep(2)
upgrade = subprocess.Popen(sys.argv[1:])
for _ in range(100):
    threads.append(threading.Thread(target=fetch, args=("/page", 100_000, waits)))
    threads[-1].start()
    time.sleep(0.1)
for thread in threads:
    thread.join()
failed = [found for found in download + waits if isinstance(found, str)]
print(*failed, sep="\n", file=sys.stderr)
assert not failed and len(waits) == 100 and upgrade.wait(60) == 0, "an upgrade that clients notice"
print(f"a download of {download[0]:.0f} s is whole, 100 of 100 clients are served, the slowest in {max(waits):.1f} s")
PYTHON
}

# machine COMMAND...: inside the booted Debian.
machine() { nsenter --target "$leader" --all -- env PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C "$@"; }

boot() {
    unmount
    systemd-nspawn --quiet --directory="$work/root" --private-network --boot --register=no --keep-unit \
        --kill-signal=SIGRTMIN+4 --console=pipe >"$work/boot.log" 2>&1 </dev/null &
    booted=$!
    tries=0
    until leader=$(pgrep --parent "$booted" --exact systemd) && machine systemctl is-active --quiet multi-user.target; do
        [ "$((tries += 1))" -lt 120 ] || { cat "$work/boot.log"; fail "Debian does not boot"; }
        sleep 0.5
    done
}

# Also when the check fails.
shut_down() {
    [ -n "${booted:-}" ] || return 0
    kill "$booted" 2>/dev/null || true
    wait "$booted" || true
    booted=
}

upgrade() {
    have systemd-nspawn || { say "skipped: an upgrade under load takes systemd-nspawn (systemd-container)"; return 0; }
    fresh_debian systemd systemd-sysv
    older_package
    server_and_clients
    cp "$work/older.deb" "$work/root/root/older.deb"
    cp cellpace_*_amd64.deb "$work/root/root/newer.deb"
    inside dpkg -i /root/older.deb >/dev/null
    echo 'OPTIONS=--listen 0.0.0.0:80 --to 127.0.0.1:8080' >"$work/root/etc/cellpace/proxy.env"
    inside systemctl --quiet enable cellpace-proxy.socket
    boot
    machine systemd-run --quiet python3 /root/server.py
    machine systemctl start cellpace-proxy
    before=$(machine cellpace --version)
    said=$(machine python3 /root/clients.py \
        sh -euc 'dpkg --force-confold -i /root/newer.deb >/dev/null; systemctl restart cellpace-proxy')
    # A program that was replaced has no name any more.
    running=$(machine sh -c 'readlink /proc/$(systemctl show --property MainPID --value cellpace-proxy)/exe')
    [ "$running" = /usr/bin/cellpace ] || fail "after the upgrade, $running runs"
    say "from $before to $(machine cellpace --version): $said"
    shut_down
    gone
}
