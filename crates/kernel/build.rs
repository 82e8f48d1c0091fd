//! Compiles the programs in `bpf/` with clang.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "install")]
    install::compile();
}

#[cfg(feature = "install")]
mod install {
    use std::path::{Path, PathBuf};
    use std::{env, fs};

    use libbpf_cargo::SkeletonBuilder;

    /// Each `bpf/NAME.bpf.c` becomes `NAME.bpf.o` in the build's folder.
    pub(crate) fn compile() {
        let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("bpf");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        println!("cargo::rerun-if-changed={}", sources.display());
        println!("cargo::rerun-if-env-changed=CLANG");
        for entry in fs::read_dir(&sources).expect("bpf/ is part of the source") {
            let source = entry.expect("a name in bpf/").path();
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".bpf.c") else { continue };
            program(&source, &out.join(format!("{stem}.bpf.o")));
        }
    }

    fn program(source: &Path, object: &Path) {
        let mut builder = SkeletonBuilder::new();
        builder.source(source).obj(object).clang_args(["-Wall", "-Werror"]);
        if let Some(clang) = env::var_os("CLANG") {
            builder.clang(PathBuf::from(clang));
        }
        if let Err(error) = builder.build() {
            panic!(
                "{error:#}\nThe feature `install` needs clang; build without it, or see `./dev setup`"
            );
        }
    }
}
