# shellcheck shell=sh
# What is released. Sourced by ./dev.

# package [--check]: what is released, in out/package. package --crates: what a registry takes, built from there.
package() {
    [ "${1:-}" != --crates ] || { crates; return; }
    compiler; rust; bpf
    has_bpf || die "the package has the kernel driver, which takes clang, make, libelf, zlib and pkg-config"
    packages dpkg-dev musl-tools gcc-aarch64-linux-gnu libc6-dev-arm64-cross ||
        die "without these there is no package"
    have cargo-deb || { say "installing cargo-deb"; cargo install --quiet --locked cargo-deb; }
    rm -rf out/package
    mkdir -p out/package
    build
    debian
    # Rust links musl by itself; musl-gcc would make a program that does not start.
    tarball x86_64-unknown-linux-musl musl-gcc cc
    tarball aarch64-unknown-linux-gnu aarch64-linux-gnu-gcc aarch64-linux-gnu-gcc
    python
    ! python_tools || { wheel "$PWD/out/wheel" && mv "$made" out/package/ && rmdir out/wheel; }
    (cd out/package && sha256sum -- *.deb *.tar.gz $(ls -- *.whl 2>/dev/null) >SHA256SUMS && cat SHA256SUMS)
    [ "${1:-}" != --check ] || sh packaging/check.sh
}

# Everything in its place below out/package/root, for cargo-deb.
debian() {
    say "Debian package"
    cp "$CELLPACE" out/package/cellpace
    root=out/package/root
    lib=$root/usr/lib/$(cc -print-multiarch)
    mkdir -p "$lib/pkgconfig" $root/usr/include $root/etc/cellpace $root/usr/lib/systemd/system \
        $root/usr/share/bash-completion/completions $root/usr/share/zsh/vendor-completions \
        $root/usr/share/fish/vendor_completions.d
    # The library that the program carries.
    cp "$(find "$CARGO_TARGET_DIR/release/build" -path '*/cellpace-run-*/out/libcellpace.so' -printf '%T@ %p\n' |
        sort -n | tail -n 1 | cut -d' ' -f2-)" "$lib/libcellpace.so.0"
    ln -s libcellpace.so.0 "$lib/libcellpace.so"
    cp crates/preload/include/cellpace.h $root/usr/include/
    version=$("$CELLPACE" --version | cut -d' ' -f2)
    sed -e '/^#/d' -e "s#@PREFIX@#/usr#; s#@LIBDIR@#/usr/lib/$(cc -print-multiarch)#; s#@VERSION@#$version#" \
        crates/preload/cellpace.pc.in >"$lib/pkgconfig/cellpace.pc"
    "$CELLPACE" man-pages $root/usr/share/man/man1
    "$CELLPACE" completions bash >$root/usr/share/bash-completion/completions/cellpace
    "$CELLPACE" completions zsh >$root/usr/share/zsh/vendor-completions/_cellpace
    "$CELLPACE" completions fish >$root/usr/share/fish/vendor_completions.d/cellpace.fish
    for unit in packaging/systemd/*.service; do
        sed 's#/usr/local/bin/#/usr/bin/#' "$unit" >"$root/usr/lib/systemd/system/${unit##*/}"
    done
    cp packaging/debian/cellpace-kernel.service packaging/debian/run-cellpace-bpf.mount $root/usr/lib/systemd/system/
    cp packaging/systemd/*.socket $root/usr/lib/systemd/system/
    cp packaging/systemd/*.env packaging/systemd/*.conf $root/etc/cellpace/
    cargo deb --quiet --no-build --no-strip --package cellpace --output out/package/
}

# tarball TARGET COMPILER LINKER: the program for another machine, without the kernel driver.
tarball() {
    say "program for $1"
    rustup target add "$1" >/dev/null 2>&1 || die "no standard library for $1: rustup downloads it once"
    name=$(printf %s "$1" | tr a-z- A-Z_)
    # shellcheck disable=SC2086
    env "CARGO_TARGET_${name}_LINKER=$3" "CC_$(printf %s "$1" | tr - _)=$2" \
        cargo build --release --quiet --package cellpace --target "$1" $PORTABLE
    folder=cellpace-$(cargo pkgid --package cellpace | sed 's/.*[#@]//')-$1
    mkdir "out/package/$folder"
    cp "$CARGO_TARGET_DIR/$1/release/cellpace" README.md LICENSE-MIT LICENSE-APACHE "out/package/$folder/"
    tar -C out/package --owner=0 --group=0 -czf "out/package/$folder.tar.gz" "$folder"
    rm -r "out/package/$folder"
}

# Each crate is packed and built from its package alone, then the example of a controller in a crate of its own with
# them, by its own tests. Nothing is uploaded. Six minutes.
crates() {
    compiler; rust; bpf
    say "crates as a registry takes them: packed, and each built from its package"
    # The program that is published carries no library; `run` is told of this one.
    cargo rustc --quiet --package cellpace-preload --lib --crate-type cdylib
    CELLPACE_PRELOAD=$CARGO_TARGET_DIR/debug/libcellpace_preload.so
    published=$CARGO_TARGET_DIR/published
    rm -rf "$published"
    mkdir -p "$published/home/registry"
    # Cargo unpacks crates into its home by their version alone: those of another day would be taken for these.
    for kept in registry/index registry/cache config.toml; do
        kept_there=${CARGO_HOME:-$HOME/.cargo}/$kept
        [ ! -e "$kept_there" ] || ln -s "$kept_there" "$published/home/$kept"
    done
    (
        export CARGO_HOME="$published/home" CELLPACE_PRELOAD CARGO_TARGET_DIR="$published"
        export CARGO_PROFILE_DEV_DEBUG=0 CARGO_INCREMENTAL=0
        cargo publish --workspace --dry-run --allow-dirty --quiet
        say "a controller in a crate of its own, with the packed crates"
        stranger
        cargo test --quiet --manifest-path "$published/examples/own_controller/Cargo.toml"
        said=$(env -u CELLPACE_PRELOAD "$published/debug/own_controller" run -- true 2>&1 || true)
        case $said in *'cargo install --git'*) ;; *) die "run without the library does not say what to do: $said" ;; esac
    )
    rm -r "$published"
}

# The example outside of this repository, with the packed crates in place of a registry's, and the page that it is in.
stranger() {
    example=$published/examples/own_controller
    mkdir -p "$example" "$published/docs/tutorial"
    cp -r examples/own_controller/src examples/own_controller/tests Cargo.lock "$example/"
    cp docs/tutorial/own-controller.md "$published/docs/tutorial/"
    {
        sed -e '/^\[lints\]/,$d' -e "s#\"../../crates/testing\"#\"$PWD/crates/testing\"#" \
            -e 's#{ path = "../../crates/.*" }#"*"#' examples/own_controller/Cargo.toml
        printf '[workspace]\n[patch.crates-io]\n'
        for package in "$published"/package/cellpace*; do
            name=${package##*/}
            echo "${name%-*} = { path = \"$package\" }"
        done
    } >"$example/Cargo.toml"
}
