#!/bin/sh
# Installs what is in out/release in a fresh Debian without a compiler, and runs it there. `./dev release --check` calls it
# with the parts that it made; without any: all.
set -eu
# What we mount is seen by nobody else, and gone with us.
[ "$(id -u)" != 0 ] || [ -n "${CELLPACE_CHECK:-}" ] || CELLPACE_CHECK=1 exec unshare --mount sh "$0" "$@"
cd "$(dirname "$0")/.."
repository=$PWD
cd out/release

say() { printf '==> %s\n' "$*"; }
fail() { printf 'packaging/check.sh: %s\n' "$*" >&2; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }

work=$(mktemp -d)
chmod 755 "$work"
unmount() {
    for place in proc dev etc/ssl opt/cargo opt/rustup; do
        umount --recursive "$work/root/$place" 2>/dev/null || true
    done
}
cleanup() {
    [ ! -e "/run/netns/${network:=}" ] || [ -z "$network" ] || ip netns delete "$network"
    shut_down
    unmount
    rm -rf --one-file-system "$work"
}

COMPARE="compare --trace lte-driving --duration 10s --cc verus --cc cubic"
# From a package to the first result, in seconds.
LIMIT=60

inside() { chroot "$work/root" env PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin HOME=/root LC_ALL=C "$@"; }

# Inside a network of its own, so that every port is free.
in_a_network() {
    unshare --net -- chroot "$work/root" env PATH=/usr/local/bin:/usr/bin:/usr/sbin:/bin:/sbin:/root/.cargo/bin HOME=/root \
        LC_ALL=C CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup sh -euc 'ip link set lo up; cd /root/first; eval "$1"' sh "$1"
}

# timed WHAT COMMAND...: says how long it took; how many seconds, in $took.
timed() {
    begun=$(date +%s) timed=$1
    shift
    "$@"
    took=$(($(date +%s) - begun))
    say "$timed: $took s"
}

# fresh_debian [PACKAGE...]: Debian's smallest, with Python, sudo and more, and no compiler.
fresh_debian() {
    if [ ! -e "$work/fresh.tar" ]; then
        say "a fresh Debian"
        mmdebstrap --quiet --variant=minbase --include=python3,sudo,iproute2 bookworm "$work/fresh.tar" 2>"$work/log" ||
            { tail -n 5 "$work/log"; fail "mmdebstrap failed"; }
    fi
    mkdir "$work/root"
    tar -C "$work/root" -xf "$work/fresh.tar"
    cp -L /etc/resolv.conf "$work/root/etc/resolv.conf"
    echo "127.0.0.1 localhost $(uname -n)" >"$work/root/etc/hosts"
    mkdir -p "$work/root/root/first"
    mount -t proc proc "$work/root/proc"
    mount --rbind /dev "$work/root/dev"
    if have gcc && inside sh -c 'command -v cc clang'; then fail "a fresh Debian has a compiler"; fi
    [ $# = 0 ] || { inside apt-get update -qq && inside apt-get install -y -qq --no-install-recommends "$@" >/dev/null 2>&1; }
}

gone() {
    unmount
    rm -rf --one-file-system "$work/root"
}

# All files but those in which dpkg and apt keep their books.
files() {
    inside find / -xdev \( -path /proc -o -path /dev -o -path /var/lib/dpkg -o -path /var/lib/apt -o -path /var/log \
        -o -path /var/cache \) -prune -o -print | sort
}

# What `compare` finds, the same on every machine.
finds() {
    what=$1
    shift
    # shellcheck disable=SC2086
    "$@" $COMPARE --json - >"$work/found.json" || fail "$what: compare failed"
    [ -e "$work/first.json" ] || cp "$work/found.json" "$work/first.json"
    cmp "$work/found.json" "$work/first.json" || fail "$what finds something else"
}

first_link() { in_a_network "sudo cellpace link --trace constant:10mbit --rtt 40ms -- true"; }

# A server of Python's, whose clients sit behind an emulated link.
a_server() {
    cat >"$work/root/root/first/server.py" <<'PYTHON'
import http.server, subprocess, sys
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(bytes(500_000))
    def log_message(self, *_): pass
server = http.server.HTTPServer(("0.0.0.0", 8000), Page)
subprocess.Popen(sys.argv[1:] + [str(server.server_port)], env={"PATH": "/usr/local/bin:/usr/bin:/bin"})
server.handle_request()
server.server_close()
PYTHON
    cat >"$work/root/root/first/client.py" <<'PYTHON'
import os, sys, urllib.request
host = os.environ["CELLPACE_HOST"]
print(len(urllib.request.urlopen(f"http://{host}:{sys.argv[1]}/", timeout=60).read()))
PYTHON
    size=$(in_a_network "cellpace run --json run.json -- python3 server.py \
        sudo cellpace link --trace constant:10mbit --rtt 40ms -- python3 client.py 2>said" | tail -n 1)
    [ "$size" = 500000 ] || { cat "$work/root/root/first/said"; fail "run and link: $size bytes came"; }
    grep -q '"outcome":"finished"' "$work/root/root/first/run.json" || fail "run: no connection was under a controller"
}

# The newest C library that a program asks for must be one that the package asks for.
needs_no_newer_library() {
    needed=$(readelf --wide --dyn-syms "$1" | sed -n 's/.*@GLIBC_\([0-9.]*\).*/\1/p' | sort -uV | tail -n 1)
    printf '%s\n%s\n' "$needed" "$2" | sort -CV || fail "$1 needs glibc $needed, and the package says $2"
}

first_result() {
    inside apt-get install -y -qq /root/cellpace.deb >/dev/null 2>&1 || inside apt-get install -y /root/cellpace.deb
    finds "the package" inside cellpace
    first_link
}

debs() {
    fresh_debian
    inside sudo true
    files >"$work/before"
    cp cellpace_*_amd64.deb "$work/root/root/cellpace.deb"
    timed "from package to first result, sudo cellpace link included" first_result
    [ "$took" -lt $LIMIT ] || fail "that is longer than $LIMIT s"
    say "installed: $(inside cellpace --version)"
    [ "$(inside cellpace cc | wc -l)" -gt 5 ] || fail "cc lists no controllers"
    a_server
    ! inside cellpace kernel status | grep 'built without' || fail "the package has no kernel driver"
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
    rm -r "$work/root/root/cellpace.deb" "$work/root/root/first"
    mkdir "$work/root/root/first"
    files >"$work/after"
    diff "$work/before" "$work/after" >"$work/left" || { cat "$work/left"; fail "that was left"; }
    say "its commands ran, and nothing was left"
    gone
    unpacked amd64
    unpacked arm64
    arm_debian
    emulated "the package for arm64" "$work/arm64/usr/bin/cellpace" "$arm_root"
    upgrade
}

# unpacked MACHINE: what its package needs.
unpacked() {
    dpkg-deb -x cellpace_*_"$1".deb "$work/$1"
    asked=$(dpkg-deb -f cellpace_*_"$1".deb Depends | sed -n 's/.*libc6 (>= \([0-9.]*\)).*/\1/p')
    for file in "$work/$1/usr/bin/cellpace" "$work/$1"/usr/lib/*/libcellpace.so.0; do
        needs_no_newer_library "$file" "$asked"
        readelf -d "$file" | sed -n 's/.*NEEDED.*\[\(.*\)\]/\1/p' >"$work/needed"
        ! grep -vE '^(lib(c|m|pthread|dl|rt)\.so\.[0-9]|ld-linux.*)$' "$work/needed" || fail "$file needs that, too"
    done
    say "$1 runs with glibc $asked and newer"
}

# emulated WHAT PROGRAM [ROOT]: a program for arm64, with the C library in that folder.
emulated() {
    have qemu-aarch64-static || { say "skipped: no qemu-aarch64-static (qemu-user-static), so $1 was not run"; return 0; }
    what=$1 arm=$2
    finds "$what" qemu-aarch64-static ${3:+-L "$3"} "$arm"
    say "$what: the same figures"
}

# arm_debian: a Debian for arm64 to take libraries from, in $arm_root.
arm_debian() {
    arm_root=$work/arm-root
    [ -d "$arm_root" ] ||
        mmdebstrap --quiet --variant=extract --architectures=arm64 --include=libc6,libstdc++6,python3 bookworm "$arm_root"
}

tarballs() {
    sha256sum --quiet -c SHA256SUMS
    fresh_debian
    tar -C "$work/root/usr/local/bin" --strip-components=1 -xzf cellpace-*-x86_64-unknown-linux-musl.tar.gz --wildcards '*/cellpace'
    finds "the static program" inside cellpace
    first_link
    if inside cellpace run -- true 2>"$work/refused"; then fail "the static program has no library to preload"; fi
    grep -q 'without libcellpace.so' "$work/refused" || fail "run: $(cat "$work/refused")"
    gone
    tar -C "$work" --strip-components=1 -xzf cellpace-*-aarch64-unknown-linux-musl.tar.gz --wildcards '*/cellpace'
    emulated "the static program for arm64" "$work/cellpace"
    say "static programs ran"
}

# The wheel installs what it needs from a folder, so that the fresh Debian needs no registry.
wheels() {
    fresh_debian python3-pip
    for machine in x86_64 aarch64; do
        wheel=$(echo "$PWD"/cellpace-*-abi3-manylinux_*_$machine.whl)
        mkdir -p "$work/wheels/$machine"
        "${CARGO_TARGET_DIR:-$repository/target}/python/tools/bin/pip" download --quiet --dest "$work/wheels/$machine" --only-binary :all: \
            --python-version 3.11 --platform manylinux_2_28_$machine --platform manylinux_2_27_$machine \
            --platform "manylinux_2_31_$machine" "$wheel"
    done
    tar -C "$work/wheels" -c x86_64 | inside tar -C /srv -x
    timed "from wheel to first result, sudo cellpace link included" first_wheel
    [ "$took" -lt $LIMIT ] || fail "that is longer than $LIMIT s"
    a_server
    inside python3 -c "$FROM_PYTHON" >"$work/python.json"
    gone
    arm_wheel
}

first_wheel() {
    inside sudo pip install --quiet --root-user-action ignore --break-system-packages --no-index --find-links /srv/x86_64 cellpace
    finds "the program of the wheel" inside cellpace
    first_link
}

FROM_PYTHON="import cellpace; print(cellpace.compare(['verus'], 'lte-driving', duration='10s').to_json())"

# Program and module for arm64, emulated.
arm_wheel() {
    arm_debian
    mkdir "$work/arm-packages"
    for wheel in "$work"/wheels/aarch64/*.whl; do python3 -m zipfile -e "$wheel" "$work/arm-packages"; done
    program=$(echo "$work"/arm-packages/cellpace-*.data/scripts/cellpace)
    chmod +x "$program"
    emulated "the program of the wheel for arm64" "$program" "$arm_root"
    needs_no_newer_library "$work/arm-packages/cellpace/_native.abi3.so" 2.31
    have qemu-aarch64-static || return 0
    PYTHONPATH=$work/arm-packages qemu-aarch64-static -L "$arm_root" "$arm_root/usr/bin/python3.11" -c "$FROM_PYTHON" >"$work/arm.json"
    cmp "$work/arm.json" "$work/python.json" || fail "the wheel for arm64 finds something else"
    say "the wheel for arm64: the same figures"
}

# What the images are, and a proxy in one.
images() {
    for machine in amd64 arm64; do
        archive=$(echo cellpace-*-image-$machine.tar)
        skopeo copy --quiet "oci-archive:$archive" "oci:$work/oci-$machine:image"
        skopeo inspect --config "oci:$work/oci-$machine:image" >"$work/config.json"
        for part in "\"architecture\":\"$machine\"" '"User":"65534:65534"' '"Entrypoint":["/usr/bin/cellpace"]'; do
            tr -d ' \n' <"$work/config.json" | grep -qF "$part" || fail "$archive is without $part"
        done
        umoci unpack --image "$work/oci-$machine:image" "$work/bundle-$machine"
        say "$archive: $(du -sh "$work/bundle-$machine/rootfs" | cut -f1)"
    done
    emulated "the image for arm64" "$work/bundle-arm64/rootfs/usr/bin/cellpace" "$work/bundle-arm64/rootfs"
    if have runc; then
        network=cellpace-$$
        ip netns add "$network"
        finds "the image" contained
        proxied
        ip netns delete "$network"
    else
        say "skipped: no runc, so the image for amd64 was not run"
    fi
}

# contained ARGUMENT...: the program in the image, by runc: without capabilities, in a file system to read only.
contained() {
    python3 - "$work/bundle-amd64/config.json" "/run/netns/$network" "$@" <<'PYTHON'
import json, sys
file, network, *arguments = sys.argv[1:]
config = json.load(open(file))
config["process"].update(terminal=False, args=["/usr/bin/cellpace", *arguments], capabilities={}, noNewPrivileges=True)
config["root"]["readonly"] = True
for namespace in config["linux"]["namespaces"]:
    namespace.update({"path": network} if namespace["type"] == "network" else {})
json.dump(config, open(file, "w"))
PYTHON
    runc run --bundle "$work/bundle-amd64" "$network"
}

proxied() {
    mkdir "$work/site"
    head -c 300000 /dev/zero >"$work/site/page"
    ip -n "$network" link set lo up
    (cd "$work/site" && exec ip netns exec "$network" python3 -m http.server 80 --bind 127.0.0.1) >/dev/null 2>&1 &
    server=$!
    (contained proxy --quiet --listen 0.0.0.0:8080 --to 127.0.0.1:80) &
    size=$(ip netns exec "$network" curl -s --retry 30 --retry-delay 1 --retry-all-errors http://127.0.0.1:8080/page | wc -c)
    runc kill "$network" TERM
    kill $server
    wait
    [ "$size" = 300000 ] || fail "the proxy of the image: $size bytes came"
    say "a proxy ran in the image"
}

# A program of nothing but the library compiles.
java() {
    for kind in sources javadoc; do
        [ -s cellpace-alcc-*-$kind.jar ] || fail "no $kind of the library for apps"
    done
    jar=$(find "$PWD" -name 'cellpace-alcc-*[0-9].jar')
    echo 'class App { Class<?> socket = cellpace.alcc.AlccSocket.class; }' >"$work/App.java"
    javac -cp "$jar" -d "$work" "$work/App.java"
    say "the library for apps compiles into one"
}

sbom() {
    python3 -c 'import json, sys
names = [part["name"] for part in json.load(open(sys.argv[1]))["components"]]
assert len(names) > 100 and {"libbpf-sys", "cellpace-cc", "tokio"} <= set(names), names
print("==>", len(names), "parts of the program are listed")' cellpace-*.cdx.json
}

# The packed crates are tested where they are made; the source, as the README says.
crates() { first_steps; }

# shellcheck source=packaging/first-steps.sh
. "$repository/packaging/first-steps.sh"
# shellcheck source=packaging/upgrade.sh
. "$repository/packaging/upgrade.sh"

trap cleanup EXIT
trap 'exit 130' INT TERM
for checked in ${*:-debs tarballs wheels images java sbom crates}; do
    if [ "$(id -u)" != 0 ] || ! have mmdebstrap; then
        say "skipped: $checked, which takes root and mmdebstrap"
        continue
    fi
    check_begun=$(date +%s)
    "$checked"
    say "check of $checked: $(($(date +%s) - check_begun)) s"
done
