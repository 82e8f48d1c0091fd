//! Whether a program can be preloaded at all. The loader reports nothing when it cannot, so that a
//! program would run without a controller and nobody would know.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use object::elf::FileHeader64;
use object::read::elf::{FileHeader, ProgramHeader};
use object::{Endianness, ReadCache, elf};
use rustix::fs::{Access, access};

use crate::RunError;

/// Scripts in scripts that Linux follows.
const DEEPEST: usize = 5;

/// Looks at the program that `name` would run, and at the interpreter of a script.
///
/// # Errors
/// When there is none, or the dynamic loader would not preload a library into it.
pub fn check_program(name: &OsStr) -> Result<(), RunError> {
    let start = |source| RunError::Start { program: name.to_string_lossy().into_owned(), source };
    let mut path = find(name).map_err(start)?;
    for _ in 0..DEEPEST {
        let mut file = File::open(&path).map_err(|source| {
            // An interpreter that a script names, say.
            RunError::Start { program: path.display().to_string(), source }
        })?;
        match interpreter(&mut file).map_err(start)? {
            Some(next) => path = next,
            None => {
                return match unfit(&path, file).map_err(start)? {
                    None => Ok(()),
                    Some(reason) => {
                        Err(RunError::Unfit { program: path.display().to_string(), reason })
                    }
                };
            }
        }
    }
    Err(start(io::Error::from_raw_os_error(libc::ELOOP)))
}

/// Why the dynamic loader does not preload a library into the program at `path`, as a half sentence;
/// `None` if it does, or the program cannot be read.
pub(crate) fn unfit_program(path: &Path) -> Option<String> {
    unfit(path, File::open(path).ok()?).ok().flatten()
}

/// The file that a name stands for, as the shell finds it.
fn find(name: &OsStr) -> io::Result<PathBuf> {
    if name.as_bytes().contains(&b'/') {
        access(name, Access::EXEC_OK)?;
        return Ok(name.into());
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/bin:/usr/bin"));
    let mut error = io::Error::from(io::ErrorKind::NotFound);
    for folder in std::env::split_paths(&path) {
        let file = folder.join(name);
        if !file.is_file() {
            continue;
        }
        match access(&file, Access::EXEC_OK) {
            Ok(()) => return Ok(file),
            Err(refused) => error = refused.into(),
        }
    }
    Err(error)
}

/// The program that the first line of a script names.
fn interpreter(file: &mut File) -> io::Result<Option<PathBuf>> {
    let mut head = Vec::new();
    file.take(256).read_to_end(&mut head)?;
    let Some(line) = head.strip_prefix(b"#!") else { return Ok(None) };
    let line = line.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let word = line.trim_ascii().split(u8::is_ascii_whitespace).next().unwrap_or_default();
    Ok(Some(PathBuf::from(OsStr::from_bytes(word))))
}

/// Why a library cannot be preloaded into an executable, as a half sentence.
fn unfit(path: &Path, file: File) -> io::Result<Option<String>> {
    let facts = file.metadata()?;
    let own = rustix::process::getuid().as_raw();
    if facts.mode() & libc::S_ISUID != 0 && facts.uid() != own
        || facts.mode() & libc::S_ISGID != 0 && facts.gid() != rustix::process::getgid().as_raw()
    {
        return Ok(Some("runs with another user's rights, and nothing is preloaded then".into()));
    }
    if own != 0 && has_capabilities(path) {
        return Ok(Some("has capabilities of its own, and nothing is preloaded then".into()));
    }
    let cache = ReadCache::new(file);
    // What is no ELF file, the kernel or the shell makes something of; then it is not for us to
    // judge.
    let Ok(header) = FileHeader64::<Endianness>::parse(&cache) else { return Ok(None) };
    Ok(unfit_elf(header, &cache).unwrap_or_else(|_| Some("is a damaged executable".into())))
}

fn unfit_elf(
    header: &FileHeader64<Endianness>,
    data: &ReadCache<File>,
) -> object::read::Result<Option<String>> {
    let endian = header.endian()?;
    if header.e_machine(endian) != MACHINE {
        return Ok(Some("is made for another kind of machine".into()));
    }
    let mut loader = None;
    for segment in header.program_headers(endian, data)? {
        if let Some(interpreter) = segment.interpreter(endian, data)? {
            loader = Some(interpreter);
        }
        let Some(mut notes) = segment.notes(endian, data)? else { continue };
        while let Some(note) = notes.next()? {
            if note.name() == b"Go" && note.n_type(endian) == GO_BUILD_ID {
                return Ok(Some("is a Go program, which calls the kernel itself".into()));
            }
        }
    }
    let Some(loader) = loader else {
        return Ok(Some("is linked statically, so that nothing can be preloaded".into()));
    };
    let is_musl = loader.windows(7).any(|part| part == b"ld-musl");
    Ok(is_musl.then(|| "uses musl, for which there is no libcellpace.so".into()))
}

const GO_BUILD_ID: elf::NoteType = elf::NoteType(4);

const MACHINE: elf::Machine = if cfg!(target_arch = "aarch64") {
    elf::EM_AARCH64
} else if cfg!(target_arch = "riscv64") {
    elf::EM_RISCV
} else {
    elf::EM_X86_64
};

fn has_capabilities(path: &Path) -> bool {
    let mut none: [u8; 0] = [];
    rustix::fs::getxattr(path, "security.capability", &mut none).is_ok()
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use proptest::prelude::*;

    use super::*;

    fn judged(bytes: &[u8]) -> Option<String> {
        let mut file = tempfile::NamedTempFile::new().unwrap();
        file.write_all(bytes).unwrap();
        unfit(file.path(), file.reopen().unwrap()).unwrap()
    }

    /// This test's own executable, up to where the segments' contents are of no interest.
    fn own() -> Vec<u8> {
        let path = std::env::current_exe().unwrap();
        let mut bytes = Vec::new();
        File::open(path).unwrap().take(1 << 16).read_to_end(&mut bytes).unwrap();
        bytes
    }

    #[test]
    fn this_executable_can_be_preloaded_and_others_machines_cannot() {
        let mut bytes = own();
        assert_eq!(judged(&bytes), None);
        // The field that names the machine.
        bytes[18..20].copy_from_slice(&[0xf3, 0xf3]);
        assert_eq!(judged(&bytes).unwrap(), "is made for another kind of machine");
    }

    #[test]
    fn what_is_no_elf_file_is_not_for_us_to_judge() {
        assert_eq!(judged(b""), None);
        assert_eq!(judged(b"echo a script without a first line\n"), None);
    }

    #[test]
    fn scripts_name_their_interpreter() {
        for (text, expected) in [
            ("#!/bin/sh\necho", Some("/bin/sh")),
            ("#! /usr/bin/env  python3 -u\n", Some("/usr/bin/env")),
            ("#!", Some("")),
            ("# !/bin/sh", None),
            ("\x7fELF", None),
        ] {
            let mut file = tempfile::NamedTempFile::new().unwrap();
            file.write_all(text.as_bytes()).unwrap();
            let found = interpreter(&mut file.reopen().unwrap()).unwrap();
            assert_eq!(found, expected.map(PathBuf::from), "{text}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn damaged_executables_are_judged_without_a_panic(
            changes in prop::collection::vec((0_usize..1024, any::<u8>()), 1..16),
            len in 0_usize..4096,
        ) {
            let mut bytes = own();
            for (place, value) in changes {
                bytes[place] = value;
            }
            judged(&bytes);
            judged(&bytes[..len]);
        }
    }
}
