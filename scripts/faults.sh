# shellcheck shell=sh
# Faults: fuzzing, Miri, system calls that fail, and programs that are broken while they run. Sourced by ./dev.

# fuzz [--keep] [SECONDS] [TARGET...]: libFuzzer and the address sanitizer. What a run finds stays
# below the target folder, for the next one; --keep: as few inputs as reach the same edges go to the corpus.
fuzz() {
    keep=
    [ "${1:-}" = --keep ] && keep=yes && shift
    seconds=60
    case ${1:-} in [0-9]*) seconds=$1; shift ;; esac
    [ $# -gt 0 ] || set -- $(cd fuzz/fuzz_targets && ls | sed 's/[.]rs$//')
    for target in "$@"; do
        [ -e "fuzz/fuzz_targets/$target.rs" ] || die "no fuzz target is called $target"
    done
    compiler
    have c++ || packages g++ || die "a C++ compiler (c++) is needed for libFuzzer"
    nightly rust-std || die "fuzzing needs nightly Rust"
    say "building the fuzz targets with nightly Rust and sanitizers"
    fuzz_build "$@"
    crashes=
    printf '%-14s %10s %9s %7s %9s  %s\n' target inputs inputs/s edges 'peak MB' crashes
    for target in "$@"; do
        fuzz_one "$target"
    done
    [ -z "$crashes" ] || die "inputs that fail:$crashes"
}

fuzz_build() {
    bins=
    for target in "$@"; do
        bins="$bins --bin $target"
    done
    coverage=-Cllvm-args=-sanitizer-coverage
    flags="-Zsanitizer=address --cfg fuzzing -Cpasses=sancov-module $coverage-level=4"
    flags="$flags $coverage-inline-8bit-counters $coverage-pc-table $coverage-trace-compares"
    triple=$(rustc -vV | sed -n 's/^host: //p')
    # The sanitizer looks for what std's own checks of preconditions do, which are slow.
    # shellcheck disable=SC2086
    RUSTFLAGS="$flags -Zub-checks=no" cargo +nightly build --quiet --profile fuzz \
        --target-dir "$CARGO_TARGET_DIR/fuzz" --target "$triple" -p cellpace-fuzz $bins
    programs=$CARGO_TARGET_DIR/fuzz/$triple/fuzz
}

# One line for one target; adds what it found to $crashes.
fuzz_one() {
    found=$CARGO_TARGET_DIR/fuzz/found/$1
    log=$CARGO_TARGET_DIR/fuzz/$1.log
    mkdir -p "$found" "$CARGO_TARGET_DIR/fuzz/crashes"
    ended=0
    "$programs/$1" "$found" "fuzz/corpus/$1" -max_total_time="$seconds" -timeout=30 -rss_limit_mb=2048 \
        -max_len=65536 -print_final_stats=1 -artifact_prefix="$CARGO_TARGET_DIR/fuzz/crashes/$1-" >"$log" 2>&1 || ended=$?
    figure() { sed -n "s/^stat::$1: *//p" "$log"; }
    inputs=$(figure number_of_executed_units)
    edges=$(sed -n 's/.* cov: \([0-9]*\) .*/\1/p' "$log" | tail -n 1)
    input=$(sed -n 's/.*Test unit written to //p' "$log" | tail -n 1)
    # Without an input it did not even begin.
    [ "$ended" = 0 ] || crashes="$crashes
  ${input:-$log}"
    [ "$ended" = 0 ] && crash=0 || crash=${input:-$log}
    printf '%-14s %10s %9s %7s %9s  %s\n' "$1" "${inputs:-0}" "$(figure average_exec_per_sec)" \
        "${edges:-0}" "$(figure peak_rss_mb)" "$crash"
    if [ -n "$keep" ] && [ "$ended" = 0 ]; then
        "$programs/$1" -set_cover_merge=1 -use_counters=0 -max_len=65536 "fuzz/corpus/$1" "$found" >"$log" 2>&1 ||
            die "merging failed: $log"
    fi
}

# Miri finds undefined behaviour, ours and that of dependencies, and runs code a thousand times slower:
# what it is given must not loop for long, and does no I/O.
miri() {
    compiler
    nightly miri rust-src || { say "no Miri: those tests are skipped"; return 0; }
    say "unit tests under Miri"
    cargo +nightly miri setup --quiet
    miri_tests base --skip memory_of_all_connections_stays --skip draws_have_their_moments --skip the_difference_of_medians
    miri_tests recovery --skip the_oldest_arrivals_make_room --skip nothing_is_lost_from_the_books \
        --skip memory_is_bounded_whatever --skip the_controller_sees_one --skip hours_of_timeouts
    miri_tests measure --skip what_leaves_after --skip merging_is_the_same --skip percentiles_are
    miri_tests mdi analysis::tests::a_chain change::tests::mdi counts file::tests::a_model_comes_back \
        file::tests::errors file::tests::disorder matrix_csv::tests::what_is_written
    miri_tests path schedule::trace::tests::a_failing schedule::trace::tests::a_trace_loops
    miri_tests cc registry::tests::an_unknown sprout::wire
    miri_tests udp cookie wire connection incoming::tests::a_gap incoming::tests::questions \
        incoming::tests::a_report incoming::tests::packets_found ranges
    miri_tests alcc frame::tests::alcc_t10_length_0 frame::tests::alcc_t10_a_wrong \
        frame::tests::unknown hello::tests::texts hello::tests::lengths \
        hello::tests::a_hello hello::tests::what_later
}

# miri_tests CRATE FILTER...: one case for each property, and four minutes at most.
miri_tests() {
    crate=$1
    shift
    PROPTEST_CASES=1 PROPTEST_DISABLE_FAILURE_PERSISTENCE=1 CARGO_PROFILE_DEV_OPT_LEVEL=0 \
        MIRIFLAGS='-Zmiri-env-forward=PROPTEST_CASES -Zmiri-env-forward=PROPTEST_DISABLE_FAILURE_PERSISTENCE' \
        timeout 240 cargo +nightly miri test --quiet -p "cellpace-$crate" --lib -- "$@" ||
        die "cellpace-$crate fails under Miri, or takes longer than four minutes"
}

# A few minutes of real time.
faults() {
    compiler; rust
    packages strace || say "no strace: calls that fail are not tested"
    cargo test --quiet -p cellpace --test it faults:: -- --ignored --nocapture
}

torture_tools() {
    packages libfaketime iproute2 nftables || say "libfaketime, iproute2 or nftables is missing: some faults are not tested"
}

# Everything in a case follows from its seed; without one, seeds begin at a random number.
torture() {
    kind=cases seed= seconds=3600
    while [ $# -gt 0 ]; do
        case $1 in
            --fuzz) kind=fuzz ;;
            --soak) kind=soak ;;
            --seed) [ $# -gt 1 ] || die "--seed N"; seed=$2; shift ;;
            *[!0-9]* | '') die "torture [SECONDS] [--seed N] | --soak [SECONDS] | --fuzz [SECONDS]" ;;
            *) seconds=$1 ;;
        esac
        shift
    done
    [ $kind != fuzz ] || { fuzz "$seconds"; return; }
    compiler; rust
    torture_tools
    CELLPACE_TORTURE_SECONDS=$seconds
    CELLPACE_TORTURE_SEED=${seed:-$(od -An -N3 -tu4 /dev/urandom | tr -d ' ')}
    export CELLPACE_TORTURE_SECONDS CELLPACE_TORTURE_SEED
    if [ $kind = soak ]; then
        # shellcheck disable=SC2046
        cargo test --release --quiet -p cellpace --test torture $(features) -- thousands --ignored --nocapture --test-threads 1
        return
    fi
    say "$seconds s of faults, from seed $CELLPACE_TORTURE_SEED"
    # shellcheck disable=SC2046
    cargo test --quiet --workspace --test torture $(features) -- whatever --ignored --nocapture
}
