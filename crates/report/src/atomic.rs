//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use crate::ReportError;

/// Writes `bytes` to `path` so that readers see the old file or the new one, never a part: the
/// bytes go to a file aside in the same folder, reach the disk, and are renamed. A path that
/// exists and is no regular file (a pipe, `/dev/stdout`) is written to directly, a symbolic link
/// stays one, and an existing file keeps its permissions.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), ReportError> {
    let mut aside = Aside::create(path)?;
    aside.write_all(bytes).map_err(|source| ReportError::io(path, source))?;
    aside.commit()
}

/// A file being written beside the one that it will replace; without [`Aside::commit`] nothing of
/// it remains.
#[derive(Debug)]
pub struct Aside {
    file: File,
    /// The path as the caller gave it, for messages.
    asked: PathBuf,
    /// Where the bytes are and where they shall be; `None` when written in place.
    rename: Option<(PathBuf, PathBuf)>,
}

impl Aside {
    /// Begins the file that will be at `path`.
    ///
    /// # Errors
    /// When `path` names no file or its folder cannot be written to.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        let no_name = || ReportError::NoFileName { path: path.to_owned() };
        path.file_name().ok_or_else(no_name)?;
        Self::open(path).map_err(|source| ReportError::io(path, source))
    }

    fn open(path: &Path) -> io::Result<Self> {
        let asked = path.to_owned();
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { file, asked, rename: None });
        }
        let target = if existing.is_some() { fs::canonicalize(path)? } else { asked.clone() };
        let (file, temporary) = create_beside(&target)?;
        let aside = Self { file, asked, rename: Some((temporary, target)) };
        if let Some(found) = existing {
            aside.file.set_permissions(found.permissions())?;
        }
        Ok(aside)
    }

    /// Makes the file appear under its name.
    ///
    /// # Errors
    /// When the disk is full, or the file cannot be given its name.
    pub fn commit(mut self) -> Result<(), ReportError> {
        self.publish().map_err(|source| ReportError::io(&self.asked, source))
    }

    fn publish(&mut self) -> io::Result<()> {
        self.file.flush()?;
        let Some((temporary, target)) = &self.rename else { return Ok(()) };
        self.file.sync_all()?;
        fs::rename(temporary, target)?;
        self.rename = None;
        Ok(())
    }
}

impl Write for Aside {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        if let Some((temporary, _)) = &self.rename {
            // Nobody is left to tell, and the name says that the file is no result.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// A new file in the folder of `target`, so that the rename stays within one file system.
fn create_beside(target: &Path) -> io::Result<(File, PathBuf)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut aside = name.clone();
        aside.push(format!(".{}-{number}.partial", std::process::id()));
        let path = target.with_file_name(aside);
        match OpenOptions::new().write(true).create_new(true).open(&path) {
            Ok(file) => return Ok((file, path)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let name = |entry: io::Result<fs::DirEntry>| entry.unwrap().file_name();
        let names = fs::read_dir(folder).unwrap().map(name);
        names.map(|name| name.into_string().unwrap()).collect()
    }

    #[test]
    fn a_file_is_replaced_whole_and_nothing_else_remains() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        write_atomically(&path, b"a longer first text").unwrap();
        write_atomically(&path, b"second").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"second");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn what_is_not_committed_leaves_the_old_file_alone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.json");
        fs::write(&path, "old").unwrap();
        let mut aside = Aside::create(&path).unwrap();
        aside.write_all(b"half of a n").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"old");
        drop(aside);
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(names(folder.path()), ["out.json"]);
    }

    #[test]
    fn errors_name_the_file_that_was_asked_for() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("missing").join("out.html");
        let message = write_atomically(&path, b"").unwrap_err().to_string();
        assert!(message.contains("missing") && message.contains("out.html"), "{message}");
        assert!(!message.contains(".partial"), "{message}");
        let message = write_atomically(folder.path(), b"x").unwrap_err().to_string();
        assert!(message.contains(&folder.path().display().to_string()), "{message}");
        assert!(write_atomically(Path::new(".."), b"").is_err());
        assert!(write_atomically(Path::new(""), b"").is_err());
    }

    #[cfg(unix)]
    #[test]
    fn links_and_permissions_survive_and_devices_are_written_in_place() {
        use std::os::unix::fs::{PermissionsExt, symlink};
        let folder = tempfile::tempdir().unwrap();
        let (real, link) = (folder.path().join("real"), folder.path().join("link"));
        fs::write(&real, "old").unwrap();
        fs::set_permissions(&real, fs::Permissions::from_mode(0o640)).unwrap();
        symlink(&real, &link).unwrap();
        write_atomically(&link, b"new").unwrap();
        assert!(fs::symlink_metadata(&link).unwrap().is_symlink());
        assert_eq!(fs::read(&real).unwrap(), b"new");
        assert_eq!(fs::metadata(&real).unwrap().permissions().mode() & 0o777, 0o640);

        write_atomically(Path::new("/dev/null"), b"gone").unwrap();
        assert!(!fs::metadata("/dev/null").unwrap().is_file());
    }
}
