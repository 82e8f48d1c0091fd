//! Writes the list of the recordings below `papers/recorded`, which the library embeds. The crate has a
//! link to the folder of the repository, which a published crate contains.

use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::{env, fs, io};

fn main() -> io::Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("recordings/recorded").canonicalize()?;
    println!("cargo::rerun-if-changed={}", folder.display());
    let files: Result<Vec<PathBuf>, io::Error> =
        fs::read_dir(&folder)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = files?;
    files.retain(|file| file.extension().is_some_and(|found| found == "json"));
    files.sort();
    let mut text = String::from("const RECORDED: &[(&str, &str)] = &[\n");
    for file in &files {
        let name = file.file_stem().unwrap_or_default().to_string_lossy();
        let _ = writeln!(text, "    ({name:?}, include_str!({file:?})),");
    }
    text.push_str("];\n");
    let target = env::var_os("OUT_DIR").map(PathBuf::from).ok_or(io::ErrorKind::NotFound)?;
    fs::write(target.join("embedded.rs"), text)
}
