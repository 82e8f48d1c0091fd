//! Builds `libcellpace.so`, which the program carries.
//!
//! A cargo of its own does it, below this crate's folder for output: as a dependency, the library would
//! get the features that the program wants of crates they share, C libraries among them, which have no
//! place in a program that is preloaded.
//!
//! A published crate is built without the sources of the library, and carries none.

use std::env;
use std::ffi::OsString;
use std::fs;
use std::hash::{DefaultHasher, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

const FILE: &str = "libcellpace.so";

/// What cargo calls it.
const BUILT: &str = "libcellpace_preload.so";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let file = out_dir().join(FILE);
    let missing = why_missing();
    // An empty file means that there is no library.
    let mut bytes = Vec::new();
    if missing.is_empty() {
        let built = build();
        bytes = fs::read(&built).unwrap_or_else(|error| panic!("{}: {error}", built.display()));
        watch(&built.with_extension("d"));
    }
    fs::write(&file, &bytes).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    // It only tells builds apart: content is compared as a whole where it matters.
    let mut hasher = DefaultHasher::new();
    hasher.write(&bytes);
    println!("cargo::rustc-env=CELLPACE_LIBRARY_HASH={:016x}", hasher.finish());
    println!("cargo::rustc-env=CELLPACE_LIBRARY_MISSING={missing}");
}

/// Says why there is no library, and what to do; empty where there is one.
fn why_missing() -> String {
    // Other C libraries load none that is built for glibc.
    if variable("CARGO_CFG_TARGET_OS") != "linux" || variable("CARGO_CFG_TARGET_ENV") != "gnu" {
        let target = variable("TARGET");
        return format!("built for {}: use a build for glibc", target.display());
    }
    if !manifest().is_file() {
        let (version, repository) = (env!("CARGO_PKG_VERSION"), env!("CARGO_PKG_REPOSITORY"));
        return format!(
            "built from the published crate {version}, which leaves the library out: \
             `cargo install --git {repository} --locked cellpace` builds a program with it, and CELLPACE_PRELOAD \
             takes that of a package"
        );
    }
    String::new()
}

fn variable(name: &str) -> OsString {
    env::var_os(name).unwrap_or_default()
}

fn out_dir() -> PathBuf {
    variable("OUT_DIR").into()
}

fn manifest() -> PathBuf {
    Path::new(&variable("CARGO_MANIFEST_DIR")).join("../preload/Cargo.toml")
}

/// Builds the library with the profile and for the target of this build; returns where it is.
fn build() -> PathBuf {
    let target_dir = out_dir().join("target");
    let target = variable("TARGET");
    let mut command = Command::new(variable("CARGO"));
    command.args(["rustc", "--quiet", "--lib", "--crate-type", "cdylib", "--manifest-path"]);
    command.arg(manifest());
    // What it needs is in the lock file, and cargo has downloaded it for the program.
    command.arg("--frozen");
    command.arg("--target-dir").arg(&target_dir).arg("--target").arg(&target);
    let is_release = variable("PROFILE") == "release";
    if is_release {
        command.args(["--release", "--config", "profile.release.strip=\"symbols\""]);
    } else {
        command.args(["--config", "profile.dev.debug=false"]);
    }
    // Of clippy, which would look at all of it again.
    for name in ["RUSTC_WORKSPACE_WRAPPER", "CLIPPY_ARGS"] {
        command.env_remove(name);
    }
    let status = command.status().expect("cargo runs, since it runs this");
    assert!(status.success(), "building {FILE} failed: {command:?}");
    let profile = if is_release { "release" } else { "debug" };
    target_dir.join(target).join(profile).join(BUILT)
}

/// Has cargo run this again when a file changes that the library is made of: all in `list`, which cargo
/// wrote, the manifests of their crates, and what holds for the whole workspace.
fn watch(list: &Path) {
    let text =
        fs::read_to_string(list).unwrap_or_else(|error| panic!("{}: {error}", list.display()));
    let sources = text.split_once(": ").map_or("", |(_, sources)| sources);
    let mut files: Vec<PathBuf> = Vec::new();
    for source in sources.replace("\\ ", "\0").split_whitespace() {
        let source = PathBuf::from(source.replace('\0', " "));
        let manifests = source.ancestors().map(|folder| folder.join("Cargo.toml"));
        files.extend(manifests.filter(|manifest| manifest.is_file()));
        files.push(source);
    }
    let workspace = fs::canonicalize("../..").expect("the sources of the library are there");
    files.push(workspace.join("Cargo.lock"));
    files.sort();
    files.dedup();
    for file in files {
        // Below this crate's folder wherever it is now: builds are copied together with their sources.
        let file = file
            .strip_prefix(&workspace)
            .map_or(file.clone(), |path| Path::new("../..").join(path));
        println!("cargo::rerun-if-changed={}", file.display());
    }
}
