# shellcheck shell=sh
# The program, its demonstration, and pages. Sourced by ./dev.

build() {
    say "building cellpace (release): about twenty minutes of processor time, the first time"
    # shellcheck disable=SC2046
    cargo build --release --package cellpace $(features)
}

# Built as fast as it can be: without optimisation of other crates, optional features and link-time optimisation.
demo() {
    compiler; rust
    say "1 of 3: building cellpace for a first look: about five minutes of processor time, the first time"
    say "left out: the kernel driver (cellpace kernel, attach, --driver kernel), QUIC libraries and logs in Parquet," \
        "which \`cargo install --path crates/cli --locked\` builds"
    cargo build --profile demo --package cellpace --no-default-features
    mkdir -p out
    say "2 of 3: five controllers on a driving LTE profile, 60 s of virtual time"
    "$CARGO_TARGET_DIR/demo/cellpace" compare --trace lte-driving --duration 60s \
        --cc pace --cc verus --cc copa --cc cubic --cc bbr --report out/demo.html --json out/demo.json
    say "3 of 3: the page to look at: out/demo.html (figures for scripts: out/demo.json)"
    say "the program: $CARGO_TARGET_DIR/demo/cellpace, slower than one that is installed"
}

# One page with the simulator as WebAssembly, which rustup brings the target for.
playground() {
    compiler; rust; wasm || die "the page needs Rust's target $WASM"
    mkdir -p out
    say "building the simulator for browsers"
    cargo run --quiet --package cellpace-web --example playground -- out/playground.html
    say "the page to open: out/playground.html"
}

# Once, mdBook takes some minutes to build; its server and its watcher are left out.
# The pages of docs/ and those that the program writes: fields of JSON, parameters, claims of papers.
book() {
    compiler; rust; python; build
    have mdbook || cargo install mdbook --locked --quiet --no-default-features --features search
    papers list --markdown >"$CARGO_TARGET_DIR/papers.md"
    python3 evaluation/book.py "$CELLPACE" "$CARGO_TARGET_DIR/book-pages" "$CARGO_TARGET_DIR/papers.md"
    mdbook build --dest-dir "$CARGO_TARGET_DIR/book" "$CARGO_TARGET_DIR/book-pages"
    say "the book: $CARGO_TARGET_DIR/book/index.html"
}
