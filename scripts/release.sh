# shellcheck shell=sh
# What a tag publishes. Sourced by ./dev.

RELEASE=out/release
# With another profile of cargo (demo) a trial takes a quarter of the time.
RELEASE_PROFILE=${RELEASE_PROFILE:-release}
# The oldest C library that programs from here run with: Debian 11, Ubuntu 20.04.
RELEASE_GLIBC=2.31
# The machines that all of it is for.
RELEASE_MACHINES="x86_64 aarch64"
RELEASE_PARTS="debs tarballs wheels images java sbom crates"

# release [--check] [PART...]: everything, or these parts, into out/release. With --check they are also installed and run.
# release tag TAG: whether all versions are the tag's.
release() {
    [ "${1:-}" != tag ] || { rust; release_tag "${2:-}"; return; }
    check=
    [ "${1:-}" != --check ] || { check=yes; shift; }
    # shellcheck disable=SC2086
    [ $# -gt 0 ] || set -- $RELEASE_PARTS
    for part in "$@"; do
        case " $RELEASE_PARTS " in *" $part "*) ;; *) die "release: no part $part; there are $RELEASE_PARTS" ;; esac
    done
    compiler; rust; python; bpf; release_tools
    has_bpf || die "a release has the kernel driver, which takes clang, make, libelf, zlib and pkg-config"
    version=$(cargo pkgid --package cellpace | sed 's/.*[#@]//')
    mkdir -p $RELEASE
    [ -z "$check" ] || packages binutils qemu-user-static systemd-container runc ||
        say "what takes these is not checked"
    for part in "$@"; do step "release: $part" "release_$part"; done
    (cd $RELEASE && find . -maxdepth 1 -type f ! -name SHA256SUMS -printf '%P\n' | sort | xargs sha256sum >SHA256SUMS &&
        cat SHA256SUMS)
    [ -z "$check" ] || as_root env CARGO_HOME="${CARGO_HOME:-$HOME/.cargo}" RUSTUP_HOME="${RUSTUP_HOME:-$HOME/.rustup}" \
        CARGO_TARGET_DIR="$CARGO_TARGET_DIR" CELLPACE_BEFORE="${CELLPACE_BEFORE:-}" sh packaging/check.sh "$@"
}

# A compiler and linker for all machines and C libraries, and what packs.
release_tools() {
    packages dpkg-dev mmdebstrap debian-archive-keyring || die "without these there is no release"
    have cargo-deb || { say "installing cargo-deb"; cargo install --quiet --locked cargo-deb; }
    tools=$CARGO_TARGET_DIR/release-tools
    if ! cmp -s packaging/requirements.txt "$tools/requirements.txt"; then
        say "installing zig and cargo-zigbuild"
        python3 -m venv "$tools" || { packages python3-venv && python3 -m venv "$tools"; }
        "$tools/bin/pip" install --quiet --disable-pip-version-check -r packaging/requirements.txt
        cp packaging/requirements.txt "$tools/"
    fi
    PATH=$tools/bin:$PATH
}

# program TARGET[.GLIBC] [ARGUMENT...]: the program for a machine and a C library; where, in $program.
program() {
    say "program for $1"
    built_for=$1
    shift
    standard_library "${built_for%%.*}"
    program=$CARGO_TARGET_DIR/${built_for%%.*}/$RELEASE_PROFILE/cellpace
    RUSTFLAGS=$(nowhere) cargo zigbuild --quiet --locked --profile "$RELEASE_PROFILE" --package cellpace --features plugin \
        --target "$built_for" "$@"
}

# standard_library TARGET: Rust's.
standard_library() {
    [ -e "$(rustc --print sysroot)/lib/rustlib/$1" ] || rustup target add "$1" >/dev/null 2>&1 ||
        die "no standard library for $1: rustup downloads it once"
}

# debian_name MACHINE: what Debian calls it.
debian_name() { case $1 in x86_64) echo amd64 ;; aarch64) echo arm64 ;; esac; }

# whole_program MACHINE: with the kernel driver, for the oldest C library; where, in $program.
whole_program() {
    elf "$1"
    program "$1-unknown-linux-gnu.$RELEASE_GLIBC"
}

# elf MACHINE: Debian's static libelf and zlib, which libbpf is linked with.
elf() {
    multiarch=$1-linux-gnu
    elf=$CARGO_TARGET_DIR/release-elf/$1-unknown-linux-gnu
    if [ ! -e "$elf/libz.so" ]; then
        rm -rf "$elf"
        mkdir -p "$elf"
        mmdebstrap --quiet --variant=extract --architectures="$(debian_name "$1")" --include=libelf-dev,zlib1g-dev \
            bookworm "$elf/root"
        # Under the names of shared libraries, for which the linker is asked.
        for name in elf z; do echo "INPUT($elf/root/usr/lib/$multiarch/lib$name.a)" >"$elf/lib$name.so"; done
    fi
    # Behind the headers of the C library that zig brings.
    LIBBPF_SYS_EXTRA_CFLAGS="-idirafter $elf/root/usr/include"
    export LIBBPF_SYS_EXTRA_CFLAGS "LIBBPF_SYS_LIBRARY_PATH_$1_unknown_linux_gnu=$elf"
}

release_debs() {
    # The check upgrades from it.
    for package in $RELEASE/cellpace_*_amd64.deb; do [ ! -e "$package" ] || cp -p "$package" out/before.deb; done
    for machine in $RELEASE_MACHINES; do
        whole_program "$machine"
        # The first is for this machine, and writes its own pages of the manual.
        native=${native:-$program}
        debian "$machine"
    done
}

# debian MACHINE: everything in its place below out/release/deb, for cargo-deb.
debian() {
    say "Debian package for $1"
    rm -rf $RELEASE/deb
    root=$RELEASE/deb/root
    libdir=/usr/lib/$1-linux-gnu
    lib=$root$libdir
    mkdir -p "$lib/pkgconfig" $root/usr/include $root/etc/cellpace $root/usr/lib/systemd/system \
        $root/usr/share/bash-completion/completions $root/usr/share/zsh/vendor-completions \
        $root/usr/share/fish/vendor_completions.d
    cp "$program" $RELEASE/deb/cellpace
    # The library that the program carries.
    cp "$(find "${program%/*}/build" -path '*/cellpace-run-*/out/libcellpace.so' -printf '%T@ %p\n' |
        sort -n | tail -n 1 | cut -d' ' -f2-)" "$lib/libcellpace.so.0"
    ln -s libcellpace.so.0 "$lib/libcellpace.so"
    cp crates/preload/include/cellpace.h $root/usr/include/
    sed -e '/^#/d' -e "s#@PREFIX@#/usr#; s#@LIBDIR@#$libdir#; s#@VERSION@#$version#" \
        crates/preload/cellpace.pc.in >"$lib/pkgconfig/cellpace.pc"
    "$native" man-pages $root/usr/share/man/man1
    "$native" completions bash >$root/usr/share/bash-completion/completions/cellpace
    "$native" completions zsh >$root/usr/share/zsh/vendor-completions/_cellpace
    "$native" completions fish >$root/usr/share/fish/vendor_completions.d/cellpace.fish
    for unit in packaging/systemd/*.service; do
        sed 's#/usr/local/bin/#/usr/bin/#' "$unit" >"$root/usr/lib/systemd/system/${unit##*/}"
    done
    cp packaging/debian/*.service packaging/debian/*.mount packaging/systemd/*.socket $root/usr/lib/systemd/system/
    cp packaging/systemd/*.env packaging/systemd/*.conf $root/etc/cellpace/
    # The profile only says whether cargo-deb would strip.
    cargo deb --quiet --no-build --no-strip --package cellpace --target "$1-unknown-linux-gnu" --output $RELEASE/
    rm -r $RELEASE/deb
}

# Programs for all Linux of a machine, without the kernel driver.
release_tarballs() {
    for machine in $RELEASE_MACHINES; do
        target=$machine-unknown-linux-musl
        # shellcheck disable=SC2086
        program $target $PORTABLE
        folder=cellpace-$version-$target
        mkdir "$RELEASE/$folder"
        cp "$program" README.md LICENSE-MIT LICENSE-APACHE "$RELEASE/$folder/"
        tar -C $RELEASE --owner=0 --group=0 -czf "$RELEASE/$folder.tar.gz" "$folder"
        rm -r "${RELEASE:?}/$folder"
    done
}

# Each crate is packed and built from its package alone, then the example of a controller in a crate of its own with
# them, by its own tests. Nothing is uploaded. Six minutes.
release_crates() {
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

# The packages in images of nothing but the C library: no shell, no packages to update, user nobody.
release_images() {
    packages umoci skopeo || die "images take umoci and skopeo"
    for machine in amd64 arm64; do
        image=$CARGO_TARGET_DIR/release-image
        rm -rf "$image"
        mkdir -p "$image"
        mmdebstrap --quiet --variant=extract --architectures=$machine --include=libc6 bookworm "$image/root"
        (cd "$image/root" && rm -rf dev etc/apt etc/hostname etc/resolv.conf usr/share/doc usr/share/man var/cache var/lib)
        dpkg-deb -x $RELEASE/cellpace_*_$machine.deb "$image/root"
        tar --sort=name --numeric-owner --mtime="@$(git log -1 --format=%ct)" -C "$image/root" -cf "$image/layer.tar" .
        umoci init --layout "$image/oci"
        umoci new --image "$image/oci:$version"
        umoci raw add-layer --image "$image/oci:$version" "$image/layer.tar"
        umoci config --image "$image/oci:$version" --os linux --architecture $machine --config.user 65534:65534 \
            --config.entrypoint /usr/bin/cellpace --config.cmd --help \
            --config.label "org.opencontainers.image.version=$version"
        rm -f "$RELEASE/cellpace-$version-image-$machine.tar"
        skopeo copy --quiet "oci:$image/oci:$version" "oci-archive:$RELEASE/cellpace-$version-image-$machine.tar:$version"
        rm -r "$image"
    done
}

# The wheels of the Python package, each with the program; `./dev python --released` tests this machine's, built alone.
release_wheels() {
    python_tools || die "the wheel takes Python 3.11 and maturin"
    for machine in $RELEASE_MACHINES; do
        whole_program "$machine"
        # What maturin takes into the wheel when it is there.
        data=python/cellpace._native.data
        rm -rf $data
        mkdir -p $data/scripts
        cp "$program" $data/scripts/
        [ "$RELEASE_PROFILE" = release ] || WHEEL_PROFILE=$RELEASE_PROFILE
        wheel "$PWD/out/wheel" --target "$machine-unknown-linux-gnu" --zig \
            --compatibility "manylinux_$(printf %s $RELEASE_GLIBC | tr . _)"
        rm -r $data
        mv "$made" $RELEASE/
    done
    rmdir out/wheel
}

# The library for apps, with its sources and its documentation.
release_java() {
    java
    cp java/target/cellpace-alcc-"$version"*.jar $RELEASE/
}

# What the program is made of, as CycloneDX.
release_sbom() {
    have cargo-cyclonedx || { say "installing cargo-cyclonedx"; cargo install --quiet --locked cargo-cyclonedx; }
    cargo cyclonedx --quiet --format json --spec-version 1.5 --target x86_64-unknown-linux-gnu \
        --override-filename cellpace-sbom --manifest-path crates/cli/Cargo.toml
    mv crates/cli/cellpace-sbom.json "$RELEASE/cellpace-$version.cdx.json"
    find . -path ./target -prune -o -name cellpace-sbom.json -exec rm {} +
}

# release_tag TAG: dies unless the versions of all languages and the changelog are that of the tag.
release_tag() {
    version=${1#v}
    [ "v$version" = "$1" ] || die "the tag of a release is v1.2.3, not $1"
    agrees() { [ "$2" = "$version" ] || die "$1 says ${2:-nothing}, and the tag $version"; }
    agrees Cargo.toml "$(cargo pkgid --package cellpace | sed 's/.*[#@]//')"
    agrees "the Python package" "$(cargo pkgid --package cellpace-python | sed 's/.*[#@]//')"
    agrees java/pom.xml "$(sed -n 's#^  <version>\(.*\)</version>#\1#p' java/pom.xml)"
    agrees CHANGELOG.md "$(sed -n 's/^## \[\([0-9].*\)\] - [0-9-]*$/\1/p' CHANGELOG.md | head -n 1)"
    say "$1: all versions agree"
}
