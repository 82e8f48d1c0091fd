//! Writes the list of the claim files and recordings below `papers/`, which the library embeds. The crate has a
//! link to the folder of the repository, which a published crate contains.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("papers").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let mut files = Vec::new();
    for entry in fs::read_dir(&folder)? {
        let paper = entry?.path();
        if paper.is_dir() {
            println!("cargo::rerun-if-changed={}", paper.display());
            for entry in fs::read_dir(&paper)? {
                files.push(entry?.path());
            }
        }
    }
    files.sort();
    let mut text = String::new();
    list(&mut text, "CLAIMS", &files, "toml");
    list(&mut text, "RECORDED", &files, "json");
    let target = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    fs::write(target.join("embedded.rs"), text)
}

/// Adds a constant with the files of this ending: `PAPER/NAME` and the text of each.
fn list(text: &mut String, constant: &str, files: &[PathBuf], ending: &str) {
    let _ = writeln!(text, "pub(crate) const {constant}: &[(&str, &str)] = &[");
    for file in files.iter().filter(|file| file.extension().is_some_and(|found| found == ending)) {
        let paper = file.parent().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "    ({:?}, include_str!({file:?})),", format!("{paper}/{name}"));
    }
    text.push_str("];\n");
}
