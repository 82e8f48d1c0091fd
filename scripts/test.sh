# shellcheck shell=sh
# Lints, tests and slow suites. Sourced by ./dev.

# lint [--all]
lint() {
    compiler; rust; rust_lints
    step "formatting" cargo fmt --all --check
    # shellcheck disable=SC2046
    step "clippy" cargo clippy --workspace --all-targets --quiet $(features) -- $(denied)
    dependencies licenses bans sources
    pure_crates
    [ "${1:-}" = --all ] || return 0
    step "documentation" env RUSTDOCFLAGS='-D warnings' cargo doc --workspace --no-deps --quiet
    # shellcheck disable=SC2046
    step "the skin of one QUIC library alone: noq" \
        cargo clippy --package cellpace-quic --features noq --quiet -- $(denied)
    # shellcheck disable=SC2046
    step "the skin of one QUIC library alone: quinn" \
        cargo clippy --package cellpace-quic --features quinn --quiet -- $(denied)
    # shellcheck disable=SC2046
    step "the program without the features that are on by default" \
        cargo clippy --package cellpace --no-default-features --quiet -- $(denied)
    # shellcheck disable=SC2046
    step "modules as controllers" cargo clippy --package cellpace --package cellpace-plugin --all-targets --quiet \
        --features cellpace/plugin,cellpace-plugin/host -- $(denied)
}

# dependencies WHAT...: what deny.toml says of them. To build the tool takes minutes, more than all other
# lints: so only `./dev test --all` installs it, and hosted CI has one that is built.
dependencies() {
    if ! have cargo-deny; then
        say "no cargo-deny: $* of dependencies are not checked (cargo install cargo-deny --locked)"
        return 0
    fi
    say "of dependencies: $*"
    cargo deny --offline --log-level error check --hide-inclusion-graph "$@"
}

# They name no operating system, and compile for a machine that has none.
pure_crates() {
    pure="alcc base cc guest mdi measure path plugin recovery sim web"
    say "no operating system in: $pure"
    # shellcheck disable=SC2046,SC2086
    if grep -rnE 'Instant::now|SystemTime|std::(net|thread|fs)|use std::\{[^}]*(net|thread|fs)' \
        $(printf 'crates/%s/src ' $pure); then
        die "the pure crates must not know the operating system"
    fi
    wasm || { say "not compiled for $WASM"; return 0; }
    # shellcheck disable=SC2046,SC2086
    cargo check --quiet --target $WASM $(printf -- '--package cellpace-%s ' $pure)
}

# run_tests [--all]
run_tests() {
    setup; traces; accessibility
    lint "$@"
    step "tests" rust_tests
    step "tests in other languages, and a minute of faults" other_tests
    [ "${1:-}" != --all ] || slow_suites
}

# Faults take a minute of real time and little of the processors, so they run beside the others and are shown at the end.
other_tests() {
    # Before two of them want to install something at the same time.
    torture_tools
    shown=$CARGO_TARGET_DIR/said.faults
    torture 60 --seed 1 >"$shown" 2>&1 &
    faults=$!
    (python_tests && java) &
    failed=
    wait $! || failed=yes
    wait "$faults" || failed=yes
    cat "$shown"
    [ -z "$failed" ]
}

# All of them are built once, by this one command. Many wait for real time: one more runs at once than there are cores.
rust_tests() {
    has_bpf || say "no clang, make, pkg-config, libelf or zlib: the kernel driver is not tested"
    CELLPACE_SKIPPED=$CARGO_TARGET_DIR/skipped
    export CELLPACE_SKIPPED
    said=$CARGO_TARGET_DIR/said
    rm -f "$CELLPACE_SKIPPED" "$said.status"
    # shellcheck disable=SC2046
    { RUST_TEST_THREADS=${RUST_TEST_THREADS:-$(($(nproc) + 1))} \
        cargo test --workspace --quiet --no-fail-fast $(features) 2>&1 || echo $? >"$said.status"; } | tee "$said"
    skipped
    [ ! -e "$said.status" ] || again_alone
}

# Tests of real time share two processors with other programs on hosted machines: what failed beside others runs
# once more with nothing beside it, and is named.
again_alone() {
    names=$(sed -n 's/^---- \(.*\) stdout ----$/\1/p' "$said" | sort -u)
    [ -n "$names" ] || return 1
    say "failed beside others; once more, alone: $(printf %s "$names" | paste -sd ' ' -)"
    # shellcheck disable=SC2046,SC2086
    RUST_TEST_THREADS=1 cargo test --workspace --quiet --no-fail-fast $(features) -- --exact $names
}

# slow WHAT COMMAND...: one of the slow suites. The others run also when it fails.
slow() {
    what=$1
    shift
    # As a condition it would go on after an error inside.
    set +e
    (set -e; step "slow suites: $what" "$@")
    status=$?
    set -e
    [ $status = 0 ] || failing="${failing:-}${failing:+, }$what"
}

slow_suites() {
    slow "a thousand random cases for every property" properties
    have cargo-deny || cargo install --quiet --locked cargo-deny
    slow "what dependencies bring" dependencies licenses bans sources
    slow "the wheel that is released" python_tests --released
    slow "the built-in model, trained anew" model --check
    slow "all that a reader can do on a page" slow_tests cellpace-report browser::
    slow "the playground" slow_tests cellpace playground::
    slow "pictures of pages" slow_tests cellpace documentation::pictures
    slow "seventy packets over chains" slow_tests cellpace-sim chains::
    slow "real time: TCP, proxies, probes, the kernel driver" \
        slow_tests cellpace above_tcp:: attach:: kernel_mdi:: pep:: probe::
    slow "the proxy under a booted systemd" booted
    slow "the emulated link on every real trace" slow_tests cellpace link::
    slow "every scenario of conform, under the kernel's CUBIC and BBR" slow_tests cellpace conform::
    slow "intervals and guards of a thousand experiments" slow_tests cellpace-experiment
    slow "real programs under a controller" real_programs
    slow "the library under the address sanitizer" asan
    slow "system calls that fail, and commands that are killed" faults
    slow "unit tests under Miri" miri
    slow "a peer that stops reading for a minute" slow_tests cellpace-tcp engine::
    packages lld || say "no lld: no module in C is tested"
    slow "controllers in modules" cargo test --quiet -p cellpace-plugin --features host
    slow "the same, interpreted" cargo test --quiet -p cellpace-plugin --features interpreter
    slow "a program that runs modules" cargo test --quiet -p cellpace --features plugin --test it plugin:: playground::a_module -- --include-ignored
    slow "a program without features" cargo test --quiet -p cellpace --no-default-features --test it features::
    build
    slow "every claim of the papers in virtual time" papers run
    slow "the same with generated traces" papers_without_traces
    slow "every controller with real packets and in the simulator" parity
    [ -z "${failing:-}" ] || die "these failed: $failing"
}

# The crates that have properties: the others would only do again what they have done.
properties() {
    # shellcheck disable=SC2046
    PROPTEST_CASES=1000 cargo test --release --quiet \
        $(grep -l '^proptest' crates/*/Cargo.toml | sed 's#crates/\(.*\)/.*#--package cellpace-\1#')
}

papers_without_traces() (
    unset CELLPACE_TRACES
    papers run --quick
)

# slow_tests PACKAGE MODULE...: the tests that are left out otherwise.
slow_tests() {
    package=$1
    shift
    cargo test --release --quiet -p "$package" --test it -- --ignored --nocapture "$@"
}

# One line about tests that were skipped, in part or as a whole. What they call cellpace_testing::skip
# with is in $CELLPACE_SKIPPED: program, test, reason; the most frequent reason comes first.
skipped() {
    touch "$CELLPACE_SKIPPED"
    tests=$(awk '/^test result:/ { sum += $4 + $6 + $8 } END { print sum + 0 }' "$said")
    number=$(cut -f1,2 "$CELLPACE_SKIPPED" | sort -u | wc -l)
    reasons=$(cut -f3 "$CELLPACE_SKIPPED" | sort | uniq -c | sort -rn | sed 's/^ *[0-9]* //' | paste -sd '|' -)
    say "$number of $tests tests skipped${reasons:+: }$(printf %s "$reasons" | sed 's/|/, /g')"
}

# The library for apps: lints, tests, Android's API level, Javadoc. Tests that need cellpace get it by the variable
# CELLPACE, and say so when they are skipped.
java() {
    { have javac && have mvn; } || packages default-jdk-headless maven ||
        { say "skipped: java/ needs a JDK and Maven"; return 0; }
    # shellcheck disable=SC2012
    program=$(ls -t "$CARGO_TARGET_DIR/debug/cellpace" "$CELLPACE" 2>/dev/null | head -n 1)
    say "java/: build and tests${program:+ against $program}"
    rm -rf java/target/surefire-reports
    CELLPACE_PROGRAM=$program mvn --batch-mode --quiet --file java/pom.xml verify || die "java/ failed"
    say "java/: $(cat java/target/surefire-reports/*.txt | awk -F '[:,]' '/^Tests run/ { run += $2; skipped += $8 }
        END { print run " tests, " skipped + 0 " skipped" }')"
    sed -n 's/^skipped: /==> skipped: /p' java/target/surefire-reports/*-output.txt 2>/dev/null | sort -u
}

# Four minutes of real time. Programs that are missing are skipped.
real_programs() {
    servers || say "servers that are missing are not tested"
    slow_tests cellpace real_programs::
}

# Half a minute of real time.
booted() {
    packages systemd-container || say "without it nothing boots"
    slow_tests cellpace booted::
}

# Eleven minutes of real time. The first argument is a file for what is found.
parity() {
    CELLPACE_PARITY=${1:-}
    export CELLPACE_PARITY
    slow_tests cellpace parity::
}

# The C-facing tests of libcellpace.so, with it and the C programs under AddressSanitizer. A child
# leaves its parent's engine alone, which would be reported as a leak. Only nightly Rust can do it.
asan() {
    if ! cargo +nightly --version >/dev/null 2>&1; then
        say "skipped: AddressSanitizer needs nightly Rust (rustup toolchain install nightly)"
        return 0
    fi
    ASAN_OPTIONS=detect_leaks=0 RUSTFLAGS=-Zsanitizer=address CELLPACE_C_FLAGS=-fsanitize=address \
        cargo +nightly test --quiet --target "$(rustc -vV | sed -n 's/^host: //p')" \
        --target-dir "$CARGO_TARGET_DIR/asan" -p cellpace-preload --test it
}

# Kernels that apt offers, each in a virtual machine. Arguments go to the script.
kernels() {
    compiler; rust; python; bpf
    if [ "${1:-}" = --arm64 ]; then
        shift
        packages qemu-system-arm gcc-aarch64-linux-gnu libc6-dev-arm64-cross mmdebstrap busybox-static ||
            say "without them it is skipped"
        rustup target add aarch64-unknown-linux-gnu >/dev/null 2>&1 || say "rustup has no target for arm64"
        python3 crates/kernel/vm/arm64.py "$@"
        return
    fi
    packages qemu-system-x86 busybox-static mmdebstrap e2fsprogs kmod || say "without them it is skipped"
    python3 crates/kernel/vm/kernels.py "$@"
}
