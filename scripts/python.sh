# shellcheck shell=sh
# The wheel of the Python package, and its tests. Sourced by ./dev.

# python_tests [--released] [ARGUMENT...]: the package in a fresh environment, outside of the sources: with
# --released from the wheel that is released, otherwise with the native half that `cargo test --workspace`
# builds. What of other packages cannot be had is skipped by the tests.
python_tests() {
    compiler; rust; python
    python_tools || return 0
    fresh=$CARGO_TARGET_DIR/python/fresh
    python3 -m venv --clear --without-pip "$fresh"
    made=
    if [ "${1:-}" = --released ]; then
        shift
        wheel "$CARGO_TARGET_DIR/python/wheels"
        "$tools/bin/pip" --python "$fresh/bin/python" install --quiet --no-deps --no-index "$made"
    else
        native
        cp -r python/cellpace "$(packages_of "$fresh")/"
        cp "$CARGO_TARGET_DIR/debug/deps/lib_native.so" "$(packages_of "$fresh")/cellpace/_native.abi3.so"
    fi
    packages_of "$tools" >"$(packages_of "$fresh")/tools.pth"
    say "tests of the Python package"
    tests=$PWD/python
    # Pytest runs outside of the sources, where the package would be found in place of the wheel.
    for argument do
        shift
        [ ! -e "$argument" ] || argument=$PWD/$argument
        set -- "$@" "$argument"
    done
    program=$CARGO_TARGET_DIR/debug/cellpace
    (cd "$CARGO_TARGET_DIR/python" && CELLPACE_PROGRAM=$program CELLPACE_WHEEL=$made \
        timeout 900 "$fresh/bin/python" -m pytest -c "$tests/pyproject.toml" \
        --rootdir "$tests" -p no:cacheprovider "${@:-$tests/tests}")
}

# papers [ARGUMENT...]: the package papers/ on the Python package with a fast native half.
papers() {
    compiler; rust; python
    python_tools >&2 || die "the papers need Python 3.11 or newer, and numpy"
    cargo build --quiet --locked --profile wheel -p cellpace-python
    fast=$CARGO_TARGET_DIR/python/papers
    native=$CARGO_TARGET_DIR/wheel/lib_native.so
    rm -rf "$fast"
    mkdir -p "$fast"
    cp -r python/cellpace "$fast/"
    # Results of earlier times are known by its date.
    cp -p "$native" "$fast/cellpace/_native.abi3.so"
    PYTHONPATH=$fast:$PWD PYTHONDONTWRITEBYTECODE=1 "$tools/bin/python" -m papers "$@"
}

# An environment with maturin and what the tests take, made once.
python_tools() {
    tools=$CARGO_TARGET_DIR/python/tools
    if ! python3 -c 'import sys; sys.exit(sys.version_info < (3, 11))'; then
        say "skipped: the Python package needs Python 3.11 or newer"
        return 1
    fi
    cmp -s python/requirements-test.txt "$tools/requirements-test.txt" && return 0
    say "installing maturin and packages for tests"
    python3 -m venv "$tools" || { packages python3-venv && python3 -m venv "$tools"; } || return 1
    if ! "$tools/bin/pip" install --quiet --disable-pip-version-check -c python/requirements-test.txt \
        maturin pytest numpy; then
        say "skipped: the Python package takes maturin, pytest and numpy, which cannot be installed"
        return 1
    fi
    if "$tools/bin/pip" install --quiet --disable-pip-version-check -r python/requirements-test.txt; then
        cp python/requirements-test.txt "$tools/"
    else
        say "some packages cannot be installed: their tests are skipped"
    fi
}

# packages_of ENVIRONMENT: where it has its packages.
packages_of() { "$1/bin/python" -c 'import site; print(site.getsitepackages()[0])'; }

# The native half and the program, out of the one build of tests: another choice of packages would have
# other features, and build nearly everything again.
native() {
    say "building the native half of the Python package with the tests"
    # shellcheck disable=SC2046
    cargo test --workspace --quiet --no-run $(features)
}

# wheel FOLDER [ARGUMENT...]: the wheel that is released, in $made.
wheel() {
    say "building the wheel"
    out=$1
    shift
    rm -rf "$out"
    flags=$(nowhere)
    (cd python && RUSTFLAGS=$flags "$tools/bin/maturin" build --quiet --locked --profile "${WHEEL_PROFILE:-wheel}" \
        --out "$out" --target-dir "$CARGO_TARGET_DIR" --interpreter python3 "$@")
    made=$(echo "$out"/*.whl)
}

# Options of rustc: no path of this machine is in what it makes.
nowhere() { echo "--remap-path-prefix=$PWD=cellpace --remap-path-prefix=${CARGO_HOME:-$HOME/.cargo}=cargo"; }
