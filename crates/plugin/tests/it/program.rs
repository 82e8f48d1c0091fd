//! Modules for tests: written as text, or built from Rust and C.

use std::path::{Path, PathBuf};
use std::process::Command;

use cellpace_cc::{ControllerSpec, SpecError, register};

/// Registers `plugin`, once for all tests.
fn registered() {
    static PLUGIN: [cellpace_cc::ControllerInfo; 1] = [cellpace_plugin::PLUGIN];
    // Another test may have been first.
    let _ = register(&PLUGIN);
}

/// Reads a controller string whose every file is `module`.
pub(crate) fn spec(text: &str, module: &[u8]) -> Result<ControllerSpec, SpecError> {
    registered();
    ControllerSpec::parse(text, &mut |_| Ok(module.to_vec()))
}

/// A module with a memory of one page, the right version, and these definitions.
pub(crate) fn module(definitions: &str) -> Vec<u8> {
    whole(&format!(
        r#"(memory (export "memory") 1)
           (func (export "cellpace_abi") (result i32) i32.const 1) {definitions}"#
    ))
}

/// A module with these definitions alone.
pub(crate) fn whole(definitions: &str) -> Vec<u8> {
    wat::parse_str(format!("(module {definitions})")).unwrap()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where modules are built, away from what cargo builds at the moment.
fn target() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("modules")
}

/// Builds a module from Rust. `None` where the compiler has no WebAssembly.
pub(crate) fn rust_module(build: &[&str], path: &str) -> Option<Vec<u8>> {
    let libraries = Command::new("rustc")
        .args(["--print", "target-libdir", "--target", "wasm32-unknown-unknown"])
        .output();
    let libraries = String::from_utf8(libraries.ok()?.stdout).ok()?;
    if !Path::new(libraries.trim()).is_dir() {
        return None;
    }
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or("cargo".into()));
    cargo.args([
        "build",
        "--quiet",
        "--release",
        "--offline",
        "--target",
        "wasm32-unknown-unknown",
    ]);
    let built = cargo.args(build).arg("--target-dir").arg(target()).current_dir(root()).status();
    assert!(built.unwrap().success());
    Some(std::fs::read(target().join("wasm32-unknown-unknown/release").join(path)).unwrap())
}

/// Builds the example in C. `None` without a clang that links WebAssembly.
pub(crate) fn c_module() -> Option<Vec<u8>> {
    std::fs::create_dir_all(target()).unwrap();
    let out = target().join("halving.wasm");
    let clang = Command::new("clang")
        .args(["--target=wasm32", "-O2", "-nostdlib", "-ffreestanding", "-Wall", "-Wextra"])
        .args(["-Werror", "-Wl,--no-entry", "-Icrates/guest/include", "-o"])
        .arg(&out)
        .arg("examples/plugin_c/halving.c")
        .current_dir(root())
        .output();
    let clang = clang.ok()?;
    let said = String::from_utf8_lossy(&clang.stderr);
    if said.contains("wasm-ld") || said.contains("No available targets") {
        return None;
    }
    assert!(clang.status.success(), "{said}");
    Some(std::fs::read(out).unwrap())
}
