//! Files that are there whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, linkat, renameat_with};
use rustix::io::Errno;

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

/// A file being written in the folder of the one that it will be. Without [`Aside::commit`] nothing
/// of it remains: it has no name until it is complete, so that the system forgets it with the
/// process, however that ends. Where the file system has no such files, it has a name of its own,
/// which a process that is killed leaves behind.
#[derive(Debug)]
pub struct Aside {
    file: File,
    /// The path as the caller gave it, for messages.
    asked: PathBuf,
    place: AsidePlace,
    /// Whether a file that is there already is replaced.
    replaces: bool,
}

/// Where the bytes are until they are complete.
#[derive(Debug)]
enum AsidePlace {
    /// Where they belong.
    There,
    /// In a file without a name, which will be at `target`.
    Nameless { target: PathBuf },
    /// In a file beside `target`.
    Beside { temporary: PathBuf, target: PathBuf },
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

    /// Begins the file that will be at `path`, where nothing is and nothing will be replaced:
    /// [`commit`](Self::commit) fails if there is something by then.
    ///
    /// # Errors
    /// When something is at `path` or its folder cannot be written to.
    pub fn create_new(path: &Path) -> Result<Self, ReportError> {
        if fs::symlink_metadata(path).is_ok() {
            return Err(ReportError::io(path, io::ErrorKind::AlreadyExists.into()));
        }
        let mut aside = Self::create(path)?;
        aside.replaces = false;
        Ok(aside)
    }

    fn open(path: &Path) -> io::Result<Self> {
        let asked = path.to_owned();
        let existing = fs::metadata(path).ok();
        if existing.as_ref().is_some_and(|found| !found.is_file()) {
            let file = OpenOptions::new().write(true).open(path)?;
            return Ok(Self { file, asked, place: AsidePlace::There, replaces: true });
        }
        let target = if existing.is_some() { fs::canonicalize(path)? } else { asked.clone() };
        let (file, place) = match open_nameless(folder_of(&target)) {
            Some(file) => (file, AsidePlace::Nameless { target }),
            None => {
                let (file, temporary) = beside(&target, |path| {
                    OpenOptions::new().write(true).create_new(true).open(path)
                })?;
                (file, AsidePlace::Beside { temporary, target })
            }
        };
        let aside = Self { file, asked, place, replaces: true };
        if let Some(found) = existing {
            aside.file.set_permissions(found.permissions())?;
        }
        Ok(aside)
    }

    /// The path as the caller gave it, for messages.
    pub fn path(&self) -> &Path {
        &self.asked
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
        let target = match &self.place {
            AsidePlace::There => return Ok(()),
            AsidePlace::Nameless { target } => {
                self.file.sync_all()?;
                name(&self.file, target, self.replaces)?;
                target
            }
            AsidePlace::Beside { temporary, target } => {
                self.file.sync_all()?;
                rename(temporary, target, self.replaces)?;
                target
            }
        };
        let folder = folder_of(target).to_owned();
        self.place = AsidePlace::There;
        sync_folder(&folder)
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
        if let AsidePlace::Beside { temporary, .. } = &self.place {
            // There is no caller to report to, and the name shows that the file is no result.
            let _ = fs::remove_file(temporary);
        }
    }
}

fn folder_of(target: &Path) -> &Path {
    match target.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

/// Where the system shows the open files of this process, by which one of them gets a name.
const OPEN_FILES: &str = "/proc/self/fd";

/// A file in `folder` that has no name; `None` where there is no such thing, or no folder.
fn open_nameless(folder: &Path) -> Option<File> {
    if !Path::new(OPEN_FILES).is_dir() {
        return None;
    }
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    rustix::fs::open(folder, flags, Mode::from_raw_mode(0o666)).ok().map(File::from)
}

/// Gives a file without a name the name `target`.
fn name(file: &File, target: &Path, replaces: bool) -> io::Result<()> {
    let open = format!("{OPEN_FILES}/{}", file.as_raw_fd());
    let link = |path: &Path| linkat(CWD, &open, CWD, path, AtFlags::SYMLINK_FOLLOW);
    match link(target) {
        Err(Errno::EXIST) if replaces => {}
        linked => return Ok(linked?),
    }
    // A link replaces nothing: the complete file has another name for a moment.
    let ((), temporary) = beside(target, |path| Ok(link(path)?))?;
    fs::rename(&temporary, target).inspect_err(|_| _ = fs::remove_file(&temporary))
}

fn rename(temporary: &Path, target: &Path, replaces: bool) -> io::Result<()> {
    if replaces {
        return fs::rename(temporary, target);
    }
    match renameat_with(CWD, temporary, CWD, target, RenameFlags::NOREPLACE) {
        // Not every file system can do that.
        Err(Errno::INVAL) => {
            fs::hard_link(temporary, target)?;
            fs::remove_file(temporary)
        }
        renamed => Ok(renamed?),
    }
}

/// Makes a new name last. A folder that may be written to and not read cannot be synchronized, and
/// there are file systems that do not know how.
fn sync_folder(folder: &Path) -> io::Result<()> {
    let Ok(folder) = File::open(folder) else { return Ok(()) };
    match folder.sync_all() {
        Err(error) if error.kind() == io::ErrorKind::InvalidInput => Ok(()),
        synced => synced,
    }
}

/// Makes something of a new name in the folder of `target`, so that a rename stays within one file
/// system.
fn beside<T>(target: &Path, make: impl Fn(&Path) -> io::Result<T>) -> io::Result<(T, PathBuf)> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let mut name = std::ffi::OsString::from(".");
    name.push(target.file_name().unwrap_or_default());
    loop {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let mut aside = name.clone();
        aside.push(format!(".{}-{number}.partial", std::process::id()));
        let path = target.with_file_name(aside);
        match make(&path) {
            Ok(made) => return Ok((made, path)),
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
    fn nothing_is_replaced_where_that_was_promised() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out");
        let mut aside = Aside::create_new(&path).unwrap();
        aside.write_all(b"first").unwrap();
        let mut second = Aside::create_new(&path).unwrap();
        second.write_all(b"second").unwrap();
        aside.commit().unwrap();
        assert!(second.commit().unwrap_err().to_string().contains("exists"));
        assert_eq!(fs::read(&path).unwrap(), b"first");
        let error = Aside::create_new(&path).unwrap_err().to_string();
        assert!(error.contains("out") && error.contains("exists"), "{error}");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn without_nameless_files_it_is_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("out");
        let commit = |text: &[u8], replaces| {
            let create = |path: &Path| OpenOptions::new().write(true).create_new(true).open(path);
            let (mut file, temporary) = beside(&target, create).unwrap();
            file.write_all(text).unwrap();
            let place = AsidePlace::Beside { temporary, target: target.clone() };
            Aside { file, asked: target.clone(), place, replaces }.commit()
        };
        commit(b"first", false).unwrap();
        commit(b"second", false).unwrap_err();
        assert_eq!(fs::read(&target).unwrap(), b"first");
        commit(b"third", true).unwrap();
        assert_eq!(fs::read(&target).unwrap(), b"third");
        assert_eq!(names(folder.path()), ["out"]);
    }

    #[test]
    fn a_file_that_is_written_has_no_name() {
        let folder = tempfile::tempdir().unwrap();
        if open_nameless(folder.path()).is_none() {
            cellpace_testing::skip("no nameless files on this file system");
            return;
        }
        let mut aside = Aside::create(&folder.path().join("out")).unwrap();
        aside.write_all(b"half").unwrap();
        assert!(names(folder.path()).is_empty());
        aside.commit().unwrap();
        assert_eq!(names(folder.path()), ["out"]);
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
