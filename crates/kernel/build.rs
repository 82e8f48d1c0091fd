//! Compiles the programs in `bpf/` with clang, where there is one, and links what loads them statically, so
//! that a program which is copied elsewhere needs no library there.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    #[cfg(feature = "install")]
    {
        programs::compile();
        libraries::prefer_static();
    }
}

#[cfg(feature = "install")]
mod programs {
    use std::ffi::OsStr;
    use std::path::{Path, PathBuf};
    use std::process::{Command, Stdio};
    use std::{env, fs};

    use libbpf_cargo::SkeletonBuilder;

    /// Each `bpf/NAME.bpf.c` becomes `NAME.bpf.o` in the build's folder; an empty one without clang.
    pub(crate) fn compile() {
        // Below this folder wherever it is now: builds are copied together with their sources.
        let sources = Path::new("bpf");
        let out = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
        println!("cargo::rerun-if-changed={}", sources.display());
        println!("cargo::rerun-if-env-changed=CLANG");
        let clang = env::var_os("CLANG").unwrap_or("clang".into());
        let has_clang = runs(&clang);
        if !has_clang {
            println!(
                "cargo::warning=no {}: `cellpace kernel install` and `cellpace attach` will not work. \
                 Install clang, then `cargo clean -p cellpace-kernel`, and build again",
                clang.display()
            );
        }
        for entry in fs::read_dir(sources).expect("bpf/ is part of the source") {
            let source = entry.expect("a name in bpf/").path();
            let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
            let Some(stem) = name.strip_suffix(".bpf.c") else { continue };
            let object = out.join(format!("{stem}.bpf.o"));
            if has_clang {
                program(&source, &object, &clang);
            } else {
                fs::write(object, "").expect("cargo made the folder");
            }
        }
    }

    fn runs(clang: &OsStr) -> bool {
        let mut command = Command::new(clang);
        command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    }

    fn program(source: &Path, object: &Path, clang: &OsStr) {
        let mut builder = SkeletonBuilder::new();
        builder.source(source).obj(object).clang(clang).clang_args(["-Wall", "-Werror"]);
        if let Err(error) = builder.build() {
            panic!("{error:#}");
        }
    }
}

#[cfg(feature = "install")]
mod libraries {
    use std::path::{Path, PathBuf};
    use std::process::Command;
    use std::{env, fs};

    /// Has the linker find the static libelf and zlib before the shared ones, which other machines
    /// often lack. libelf may use zstd, too; then all three must be here as static libraries.
    ///
    /// Where libbpf's own variable says what to link for this target, that alone holds.
    pub(crate) fn prefer_static() {
        let target = env::var("TARGET").unwrap_or_default().replace('-', "_");
        let told = format!("LIBBPF_SYS_LIBRARY_PATH_{target}");
        println!("cargo::rerun-if-env-changed={told}");
        if env::var_os(told).is_some() {
            return;
        }
        let (Some(elf), Some(z)) = (archive("elf"), archive("z")) else { return };
        let mut group = vec![&elf, &z];
        let zstd = archive("zstd");
        if uses_zstd(&elf) {
            let Some(zstd) = &zstd else { return };
            group.push(zstd);
        }
        let group: Vec<_> = group.iter().map(|path| format!("\"{}\"", path.display())).collect();
        let script = format!("GROUP({})\n", group.join(" "));
        let folder =
            PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("link");
        fs::create_dir_all(&folder).expect("cargo made the folder above");
        for name in ["libelf.a", "libz.a"] {
            fs::write(folder.join(name), &script).expect("the folder was made");
        }
        println!("cargo::rustc-link-search=native={}", folder.display());
    }

    /// The static library of this name, where the compiler looks.
    fn archive(name: &str) -> Option<PathBuf> {
        let host = env::var("HOST").ok()?;
        if env::var("TARGET").ok()? != host {
            return None;
        }
        let compiler = env::var_os("CC").unwrap_or("cc".into());
        let output =
            Command::new(compiler).arg(format!("-print-file-name=lib{name}.a")).output().ok()?;
        let path = PathBuf::from(String::from_utf8(output.stdout).ok()?.trim_end());
        // The bare name means that there is none.
        path.is_absolute().then_some(path)
    }

    fn uses_zstd(elf: &Path) -> bool {
        fs::read(elf).is_ok_and(|bytes| bytes.windows(5).any(|part| part == b"ZSTD_"))
    }
}
