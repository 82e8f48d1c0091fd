//! Names the library as the loader shall look for it.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    // Raised when the C interface changes so that programs must be built anew.
    println!("cargo::rustc-cdylib-link-arg=-Wl,-soname,libcellpace.so.0");
}
