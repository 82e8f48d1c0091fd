//! Names the library as the loader shall look for it, and gives its own calls a version.

use std::path::Path;
use std::process::{Command, Stdio};
use std::{env, fs};

/// The name of the interface's first version. Calls that come later get a later one.
const VERSIONS: &str = "CELLPACE_0 { alcc_*; };\n";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Raised when the C interface changes so that programs must be built anew.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcellpace.so.0");
    println!("cargo::rustc-check-cfg=cfg(symbol_versions)");
    let folder = env::var("OUT_DIR").expect("cargo says where");
    let script = Path::new(&folder).join("versions");
    if fs::write(&script, VERSIONS).is_ok() && versions_link(Path::new(&folder), &script) {
        println!("cargo::rustc-cfg=symbol_versions");
        println!("cargo::rustc-cdylib-link-arg=-Wl,--version-script={}", script.display());
    }
}

/// Whether symbols can have versions. The compiler gives the linker a script without versions of
/// its own, beside which GNU's linker takes no other, while LLVM's does. Which of them it will be
/// depends on the compiler, the target and the settings, so it is tried.
fn versions_link(folder: &Path, script: &Path) -> bool {
    const SOURCE: &str = "#![no_std]
        #[panic_handler] fn panic(_: &core::panic::PanicInfo<'_>) -> ! { loop {} }
        #[unsafe(no_mangle)] pub extern \"C\" fn alcc_try() {}
        core::arch::global_asm!(\".symver alcc_try, alcc_try@@@CELLPACE_0\");";
    let source = folder.join("try.rs");
    if fs::write(&source, SOURCE).is_err() {
        return false;
    }
    let [Ok(compiler), Ok(target)] = ["RUSTC", "TARGET"].map(env::var) else { return false };
    let mut command = Command::new(compiler);
    command.args(["--edition=2024", "--crate-type=cdylib", "-Cpanic=abort", "--target", &target]);
    if let Ok(linker) = env::var("RUSTC_LINKER") {
        command.arg(format!("-Clinker={linker}"));
    }
    let flags = env::var("CARGO_ENCODED_RUSTFLAGS").unwrap_or_default();
    command.args(flags.split('\x1f').filter(|flag| !flag.is_empty()));
    command.arg(format!("-Clink-arg=-Wl,--version-script={}", script.display()));
    command.arg("-o").args([folder.join("libtry.so"), source]);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}
