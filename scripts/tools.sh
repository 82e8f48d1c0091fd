# shellcheck shell=sh
# What commands need, installed when it is missing and we may. Sourced by ./dev.

RUST_MIN=1.88
RUST_LINTED=1.95
WASM=wasm32-unknown-unknown
PORTABLE="--no-default-features --features cellpace/parquet,cellpace/quic"

# Debian packages, by apt, when they are missing and we may.
packages() {
    missing=
    for package in "$@"; do
        dpkg -s "$package" >/dev/null 2>&1 || missing="$missing $package"
    done
    [ -n "$missing" ] || return 0
    if ! have apt-get || ! may_be_root; then
        say "not installed, and only root can:$missing (apt-get install$missing)"
        return 1
    fi
    say "installing Debian packages:$missing"
    as_root apt-get update -qq
    # shellcheck disable=SC2086
    as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing >/dev/null
}

# Root, or a user whose sudo needs no password or has a terminal to ask for it.
may_be_root() { [ "$(id -u)" = 0 ] || { have sudo && { sudo -n true 2>/dev/null || [ -t 0 ]; }; }; }

as_root() { if [ "$(id -u)" = 0 ]; then "$@"; else sudo "$@"; fi; }

newer_or_same() { # newer_or_same HAVE WANT
    [ "$(printf '%s\n%s\n' "$1" "$2" | sort -V | head -n 1)" = "$2" ]
}

rust() {
    [ -d "${CARGO_HOME:-$HOME/.cargo}/bin" ] && PATH="${CARGO_HOME:-$HOME/.cargo}/bin:$PATH" && export PATH
    if have cargo; then
        version=$(cargo --version | cut -d' ' -f2)
        newer_or_same "$version" "$RUST_MIN" && return 0
        say "cargo $version is older than $RUST_MIN"
    fi
    # Debian 12 has no such package.
    have rustup || { apt-cache show rustup >/dev/null 2>&1 && packages rustup; } || die "Rust $RUST_MIN or newer is needed. Install it and run this again:
  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh -s -- -y --profile minimal   # apt-get install curl ca-certificates"
    say "installing stable Rust with rustup"
    rustup toolchain install stable --profile minimal --component clippy,rustfmt
    rustup default stable
}

# Arguments of clippy: warnings are errors, but those of a Rust that is newer than the one that this source was
# last linted with.
denied() { ! newer_or_same "$RUST_LINTED.999" "$(cargo --version | cut -d' ' -f2)" || echo "-D warnings"; }

# What rustup's minimal profile leaves out.
rust_lints() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return 0
    have rustup || die "cargo fmt and cargo clippy are needed: Debian's rustfmt and rust-clippy, of the same version as cargo"
    say "installing clippy and rustfmt with rustup"
    rustup component add clippy rustfmt
}

# nightly COMPONENT...: the nightly toolchain, for what stable Rust cannot do.
nightly() {
    rust
    have rustup || { say "no rustup: this needs nightly Rust"; return 1; }
    missing=
    for component in "$@"; do
        installed=$(rustup component list --toolchain nightly 2>/dev/null | grep "^$component.*(installed)" || true)
        [ -n "$installed" ] || missing="$missing --component $component"
    done
    [ -n "$missing" ] || return 0
    say "installing nightly Rust with rustup:$(printf %s "$missing" | sed 's/--component//g')"
    # shellcheck disable=SC2086
    rustup toolchain install nightly --profile minimal $missing
}

python() { have python3 || packages python3-minimal || die "python3 is needed"; }

compiler() { have cc || packages gcc libc6-dev || die "a C linker (cc) is needed"; }

# What the kernel driver takes; all else is there without.
bpf() { packages clang make libelf-dev zlib1g-dev pkg-config || say "cellpace is built without the kernel driver"; }

has_bpf() { have clang && have make && have pkg-config && [ -e /usr/include/libelf.h ] && [ -e /usr/include/zlib.h ]; }

# Arguments of cargo: the features that can be built here.
features() { has_bpf || echo "$PORTABLE"; }

browser() {
    have chromium || packages chromium || say "no chromium: the test of the HTML page will be skipped"
    have pdftotext || packages poppler-utils || say "no pdftotext: what pages are on paper will not be tested"
}

javascript() { have node || packages nodejs || say "no node: the module of the playground is not tested"; }

# The target, by rustup, when it is missing.
wasm() {
    [ ! -e "$(rustc --print sysroot)/lib/rustlib/$WASM" ] || return 0
    have rustup || { say "no rustup, which brings the target $WASM"; return 1; }
    say "installing the target $WASM with rustup"
    rustup target add $WASM
}

# Rules of accessibility for the tests of pages; they do without where it cannot be had.
accessibility() {
    axe=$CARGO_TARGET_DIR/axe/node_modules/axe-core/axe.min.js
    if [ ! -e "$axe" ] && have npm; then
        say "installing axe-core for the tests of pages"
        npm install --silent --no-fund --no-audit --prefix "$CARGO_TARGET_DIR/axe" axe-core@4 >/dev/null || true
    fi
    [ ! -e "$axe" ] || { AXE_CORE=$axe; export AXE_CORE; }
}

setup() { compiler; rust; browser; bpf; javascript; wasm || say "without it the playground is not tested"; }

# Tests on real traces look for them here and skip with a line when they are missing.
traces() {
    if [ -z "${CELLPACE_TRACES:-}" ] && [ -d ../shared/traces ]; then
        CELLPACE_TRACES=$(cd ../shared/traces && pwd)
        export CELLPACE_TRACES
    fi
    if [ -n "${CELLPACE_TRACES:-}" ]; then
        say "real traces: found"
    else
        say "real traces: none (set CELLPACE_TRACES to a folder of them); those tests are skipped"
    fi
}

# What the tests of real programs run. Nothing of it is started as a service now.
servers() {
    policy=/usr/sbin/policy-rc.d
    made=
    if [ "$(id -u)" = 0 ] && [ ! -e $policy ]; then
        printf '#!/bin/sh\nexit 101\n' >$policy
        chmod +x $policy
        made=$policy
        trap 'rm -f /usr/sbin/policy-rc.d; exit 130' INT TERM
    fi
    packages nginx libnginx-mod-rtmp lighttpd mini-httpd vsftpd openssh-server openssh-client openvpn \
        iperf3 ffmpeg curl openssl python3 iproute2 && installed=0 || installed=1
    [ -z "$made" ] || rm "$made"
    trap - INT TERM
    return $installed
}
