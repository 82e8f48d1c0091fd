# shellcheck shell=sh
# What is measured: figures of the documentation, speed, the built-in model, vectors. Sourced by ./dev.

bench() {
    if [ "${1:-}" = servers ]; then
        shift
        compiler; rust; python; bpf; build
        server_load "$@"
        return
    fi
    compiler; rust; python; traces; build
    say "controllers, queues, traces (criterion)"
    cargo bench --quiet -p cellpace -p cellpace-cc -p cellpace-live -p cellpace-path --bench '*' -- --quick --noplot
    if wasm; then
        say "controllers in modules, and the same without"
        cargo build --release --quiet -p cellpace-guest --example builtin --target $WASM
        MODULE=$CARGO_TARGET_DIR/$WASM/release/examples/builtin.wasm \
            cargo bench --quiet -p cellpace-plugin --features host --bench ack -- --quick --noplot
    fi
    say "QUIC libraries over loopback, our controllers beside their own"
    cargo bench --quiet -p cellpace-quic --features identity,noq,quinn --bench loopback
    sh evaluation/runs.sh "$CELLPACE"
    python3 evaluation/link.py "$CELLPACE"
    sh evaluation/udp.sh "$CELLPACE"
}

# The kernel driver is installed for as long as it takes, where the kernel has what it needs.
server_load() {
    packages nginx libnginx-mod-stream haproxy wrk || say "what is missing is left out"
    installed=
    if ! "$CELLPACE" kernel status --json - | grep -q '"uses": *"kernel"' && "$CELLPACE" kernel install; then
        installed=1
        trap '"$CELLPACE" kernel remove; exit 130' INT TERM
    fi
    python3 evaluation/servers.py "$CELLPACE" "$@" && status=0 || status=$?
    [ -z "$installed" ] || "$CELLPACE" kernel remove
    trap - INT TERM
    return $status
}

frontier() {
    compiler; rust; python; traces; build
    mkdir -p out
    python3 evaluation/frontier.py "$CELLPACE" traces | tr '\n' '\0' |
        xargs -0 cargo run --release --quiet -p cellpace-lab --no-default-features --example bound >out/bound.txt
    python3 evaluation/frontier.py "$CELLPACE" "$@"
}

docs() {
    compiler; rust; python; traces
    if [ "${1:-}" = parity ]; then
        rm -f evaluation/parity.json
        parity "$PWD/evaluation/parity.json" || [ -f evaluation/parity.json ]
        python3 evaluation/regenerate.py "$CELLPACE" parity
        return
    fi
    if [ "${1:-}" = servers ]; then
        # Ten minutes of real time. 20 000 descriptors are enough for 4900 connections of a proxy.
        bpf; build
        server_load --record --seconds 1 --connections 1,10,1000,4900
        python3 evaluation/regenerate.py "$CELLPACE" servers
        return
    fi
    if [ "${1:-}" = kernel ]; then
        # Twenty minutes of real time on an idle machine, and four for each pair of `--only capacity`.
        shift
        bpf; build
        packages nginx wrk curl
        python3 evaluation/kernel_cost.py "$CELLPACE" --record "$@"
        python3 evaluation/regenerate.py "$CELLPACE" kernel
        return
    fi
    if [ "${1:-}" = alcc ]; then
        # An hour of real time; with `full` many times that.
        shift
        bpf; build
        set -- "$CELLPACE" evaluation/alcc.json "$@"
        python3 evaluation/alcc_evaluation.py "$@"
        python3 evaluation/regenerate.py "$CELLPACE" alcc
        return
    fi
    build
    [ "${1:-}" != many_flows ] || python3 evaluation/many_flows.py "$CELLPACE" --record
    [ "${1:-}" != live_experiment ] || { packages nginx && python3 evaluation/live_experiment.py "$CELLPACE"; }
    [ "${1:-}" != requests ] || python3 evaluation/small_requests.py "$CELLPACE"
    case "${1:-papers}" in papers) papers page -o "$CARGO_TARGET_DIR/papers" || [ $? = 3 ] ;; esac
    python3 evaluation/regenerate.py "$CELLPACE" "$@"
}

# The ordinary tests compare the files with what the code gives; this writes them first.
vectors() {
    compiler; rust; python
    CELLPACE_VECTORS=write cargo test --quiet -p cellpace-alcc -p cellpace-cc -p cellpace-mdi --test it vectors::the_file
}

# Verus with R=2 on generated links at three round-trip times, in two files: for a number of users
# that is unknown, and for one that is given.
model() {
    compiler; rust; build
    parts=$(mktemp -d)
    profiles="--trace lte-stationary --trace umts-driving --trace hspa-walking"
    steady=$(printf -- '--trace constant:%smbit ' 3 4 5 6 8 10 15 20 25 30)
    for rtt in 20ms 40ms 80ms; do
        say "watching verus:r=2 at $rtt"
        # shellcheck disable=SC2086
        lesson together -60..60/4,rejoin=160ms $profiles --trace random:500kbit..4mbit/5s --duration 80s
        # shellcheck disable=SC2086
        lesson steady -60..60/4,rejoin=160ms $steady --users 1 --duration 100s
        "$CELLPACE" mdi merge "$parts/together" "$parts/steady" -o "$parts/$rtt"
        # shellcheck disable=SC2086
        lesson "users-$rtt" -30..30/3 $profiles --trace lte-driving
    done
    for kind in "" users-; do
        "$CELLPACE" mdi merge "$parts/${kind}20ms" "$parts/${kind}40ms" "$parts/${kind}80ms" \
            -o "$parts/${kind}all"
    done
    built_in "$parts/all" crates/mdi/models/verus-r2.mdi "$@"
    built_in "$parts/users-all" crates/mdi/models/verus-r2-users.mdi "$@"
    rm -r "$parts"
}

# lesson NAME WINDOW OPTION...: a model at $rtt in $parts, with these changes of the window.
lesson() {
    name=$1 window=$2
    shift 2
    "$CELLPACE" mdi train --cc verus:r=2 --rtt "$rtt" "$@" -o "$parts/$name" \
        --states "levels:delay=0..1.4/0.01,window=$window"
}

# built_in MADE FILE [--check]
built_in() {
    if [ "${3:-}" != --check ]; then
        cp "$1" "$2"
    elif cmp "$1" "$2"; then
        say "$2 is what this command makes"
    else
        die "$2 is not what this command makes; the new one is $1"
    fi
}
