#!/bin/sh
# Runs the programs for other machines; installs the Debian package in a fresh Debian, runs its commands there, and
# removes it; installs from the clone in another one, and runs the README. `./dev package --check` calls it after
# building them into out/package. With arguments: only those parts (programs, debian, first_steps).
set -eu
# What we mount is seen by nobody else, and gone with us.
[ "$(id -u)" != 0 ] || [ -n "${CELLPACE_CHECK:-}" ] || CELLPACE_CHECK=1 exec unshare --mount sh "$0" "$@"
cd "$(dirname "$0")/.."
repository=$PWD
mkdir -p out/package
cd out/package

say() { printf '==> %s\n' "$*"; }
fail() { printf 'packaging/check.sh: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

work=$(mktemp -d)
unmount() {
    for place in proc dev etc/ssl opt/cargo opt/rustup; do
        umount --recursive "$work/root/$place" 2>/dev/null || true
    done
}
cleanup() {
    unmount
    rm -rf --one-file-system "$work"
}
trap cleanup EXIT
trap 'exit 130' INT TERM

COMPARE="compare --trace lte-driving --duration 10s --cc verus --cc cubic"

inside() { chroot "$work/root" env PATH=/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C "$@"; }

# All files but those in which dpkg and apt keep their books.
files() {
    inside find / -xdev \( -path /proc -o -path /var/lib/dpkg -o -path /var/log -o -path /var/cache \) -prune \
        -o -print | sort
}

fresh_debian() {
    # shellcheck disable=SC1091
    suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-stable}")
    # shellcheck disable=SC2016
    mirror=$(apt-get indextargets --format '$(REPO_URI)' "Codename: $suite" 'Created-By: Packages' | head -n 1)
    say "a fresh Debian $suite"
    debootstrap --variant=minbase --include=python3 "$suite" "$work/root" "$mirror" >"$work/log" 2>&1 ||
        { tail -n 5 "$work/log"; fail "debootstrap failed"; }
    mount -t proc proc "$work/root/proc"
}

# A server of Python's under the default controller gives a file away.
a_server() {
    cat >"$work/root/srv/server.py" <<'PYTHON'
import http.server, threading, urllib.request
server = http.server.HTTPServer(("127.0.0.1", 0), http.server.SimpleHTTPRequestHandler)
threading.Thread(target=server.serve_forever, daemon=True).start()
page = urllib.request.urlopen(f"http://127.0.0.1:{server.server_port}/usr/bin/cellpace").read()
print(len(page))
server.shutdown()
PYTHON
    size=$(inside cellpace run --json /srv/run.json -- python3 /srv/server.py 2>/dev/null)
    [ "$size" = "$(stat -c %s "$work/root/usr/bin/cellpace")" ] || fail "run: $size bytes came"
    # One line for each connection that it took over.
    grep -q '"outcome":"finished"' "$work/root/srv/run.json" || fail "run: no connection was under a controller"
    rm "$work/root/srv/server.py" "$work/root/srv/run.json"
}

debian() {
    fresh_debian
    files >"$work/before"
    cp cellpace_*.deb "$work/root/root/cellpace.deb"
    inside dpkg -i /root/cellpace.deb >/dev/null
    say "installed: $(inside cellpace --version)"
    # shellcheck disable=SC2086
    inside cellpace $COMPARE --json - >"$work/deb.json"
    [ "$(inside cellpace cc | wc -l)" -gt 5 ] || fail "cc lists no controllers"
    a_server
    inside cellpace kernel status >/dev/null
    inside python3 -c 'import ctypes; ctypes.CDLL("libcellpace.so.0").alcc_connect'
    for file in man/man1/cellpace.1.gz man/man1/cellpace-compare.1.gz bash-completion/completions/cellpace \
        zsh/vendor-completions/_cellpace fish/vendor_completions.d/cellpace.fish doc/cellpace/copyright; do
        [ -s "$work/root/usr/share/$file" ] || fail "no $file"
    done
    units=/usr/lib/systemd/system
    for file in /usr/include/cellpace.h $units/cellpace-kernel.service $units/run-cellpace-bpf.mount; do
        [ -s "$work/root$file" ] || fail "no $file"
    done
    inside sh -c 'test -s /usr/lib/*/pkgconfig/cellpace.pc && test -L /usr/lib/*/libcellpace.so'
    inside dpkg --purge cellpace >/dev/null
    rm "$work/root/root/cellpace.deb"
    files >"$work/after"
    [ ! -s "$work/x86_64-unknown-linux-musl.json" ] || cmp "$work/deb.json" "$work/x86_64-unknown-linux-musl.json" ||
        fail "the package finds something else"
    diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left"; fail "that was left"; }
    say "its commands ran, and nothing was left"
    unmount
    rm -rf --one-file-system "$work/root"
}

# program NAME COMMAND...: unpacks the tarball of a target and compares what it finds with the others.
program() {
    target=$1
    shift
    tar -C "$work" -xzf cellpace-*-"$target".tar.gz
    # shellcheck disable=SC2086
    "$@" "$work"/cellpace-*-"$target"/cellpace $COMPARE --json - >"$work/$target.json"
    cmp "$work/$target.json" "$work/x86_64-unknown-linux-musl.json" || fail "$target finds something else"
    say "$target: the same figures"
}

programs() {
    sha256sum --quiet -c SHA256SUMS
    program x86_64-unknown-linux-musl env
    if env "$work"/cellpace-*-x86_64-unknown-linux-musl/cellpace run -- true 2>"$work/refused"; then
        fail "the static program has no library to preload"
    fi
    grep -q 'without libcellpace.so' "$work/refused" || fail "run: $(cat "$work/refused")"
    if have qemu-aarch64-static; then
        program aarch64-unknown-linux-gnu qemu-aarch64-static -L /usr/aarch64-linux-gnu
    else
        say "skipped: no qemu-aarch64-static (qemu-user-static), so the program for aarch64 was not run"
    fi
}

# shellcheck source=packaging/first-steps.sh
. "$repository/packaging/first-steps.sh"

for part in ${*:-programs debian first_steps}; do
    if [ "$part" != programs ] && { [ "$(id -u)" != 0 ] || ! have debootstrap; }; then
        say "skipped: $part, which takes root and debootstrap"
        continue
    fi
    "$part"
done
