# The commands of the README on a machine that has what it names: installation, first comparison, first server.
# packaging/check.sh reads it, with `$work/root` a fresh Debian, and shows how long each took.

# What the README asks for, and what its commands call. Rust is the one of this machine, and so are the certificates,
# because it may stand behind a proxy of its own.
what_the_readme_names() {
    inside apt-get update -qq
    inside apt-get install -y -qq --no-install-recommends gcc libc6-dev make clang libelf-dev zlib1g-dev pkg-config \
        python3 curl jq iproute2 git sudo >/dev/null 2>&1
    mkdir -p "$work/root/opt/cargo" "$work/root/opt/rustup"
    mount --bind "${CARGO_HOME:-$HOME/.cargo}" "$work/root/opt/cargo"
    mount --bind "${RUSTUP_HOME:-$HOME/.rustup}" "$work/root/opt/rustup"
    mkdir -p "$work/root/etc/ssl"
    mount --bind /etc/ssl "$work/root/etc/ssl"
    git clone --quiet "$repository" "$work/root/root/cellpace"
}

# The commands of the README's block for installation. Cargo's folder is that of this machine, so it shall put the
# program where it would without.
install_from_the_clone() {
    inside env CARGO_HOME=/opt/cargo RUSTUP_HOME=/opt/rustup CARGO_INSTALL_ROOT=/root/.cargo HOME=/root \
        PATH="/opt/cargo/bin:/usr/bin:/bin" sh -euc "cd /root/cellpace; $(readme_installation)"
}

readme_installation() { sed -n '/^```sh$/,/^```$/{/^```/d;p}' "$repository/README.md" | sed '/^$/q'; }

# The lines of the README that begin with a prompt, those of one block after the other.
readme_commands() { sed -n 's/^\$ //p' "$repository/README.md"; }

first_steps() {
    fresh_debian
    timed "what the README names, by apt" what_the_readme_names
    timed "cargo install" install_from_the_clone
    timed "the first comparison" in_a_network "$(readme_commands | grep '^cellpace compare')"
    timed "the first server, and its client behind a link" in_a_network "$(readme_commands | grep -v '^cellpace compare')"
    gone
}
