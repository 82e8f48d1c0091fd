//! A folder that only this user can change and everybody can read: programs look there for the library
//! also after they have given up root.

use std::fmt::Display;
use std::fs::{self, Permissions};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::{
    FlockOperation, Mode, OFlags, StatVfsMountFlags, fchmod, flock, fstat, fstatvfs, open,
};
use rustix::process::geteuid;

/// Writing by others than the owner.
const OTHERS_WRITE: u32 = 0o022;
const STICKY: u32 = 0o1000;
const READABLE: u32 = 0o755;

/// A file in the folder, whose content was checked.
#[derive(Debug)]
pub(crate) struct PrivateFile {
    pub(crate) path: PathBuf,
    /// Open and locked: what cleans folders for temporary files leaves locked ones alone.
    _folder: OwnedFd,
}

/// Has `name` with these bytes in the first of the folders that can be used.
///
/// # Errors
/// What is wrong with each of them.
pub(crate) fn store(name: &str, bytes: &[u8]) -> Result<PrivateFile, Vec<String>> {
    store_below(&parents(), name, bytes)
}

fn store_below(parents: &[PathBuf], name: &str, bytes: &[u8]) -> Result<PrivateFile, Vec<String>> {
    let mut reasons = Vec::new();
    for parent in parents {
        match store_in(parent, name, bytes) {
            Ok(file) => return Ok(file),
            Err(reason) => reasons.push(reason),
        }
    }
    Err(reasons)
}

/// Where such a folder may be. Programs of other users reach the first alone.
fn parents() -> Vec<PathBuf> {
    let folder = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = folder("XDG_CACHE_HOME").or_else(|| Some(folder("HOME")?.join(".cache")));
    [Some(std::env::temp_dir()), folder("XDG_RUNTIME_DIR"), cache].into_iter().flatten().collect()
}

fn store_in(parent: &Path, name: &str, bytes: &[u8]) -> Result<PrivateFile, String> {
    let wrong = |path: &Path, reason: &dyn Display| format!("{}: {reason}", path.display());
    let parent = parent.canonicalize().map_err(|error| wrong(parent, &error))?;
    check_parents(&parent)?;
    let path = parent.join(format!("cellpace-{}", geteuid().as_raw()));
    if !is_expressible(&path) {
        return Err(wrong(&path, &"LD_PRELOAD cannot express blanks, colons and dollar signs"));
    }
    let folder = open_folder(&path).map_err(|reason| wrong(&path, &reason))?;
    let file = path.join(name);
    for _ in 0..3 {
        let _ = flock(&folder, FlockOperation::NonBlockingLockShared);
        if is_ours(&file, bytes) {
            return Ok(PrivateFile { path: file, _folder: folder });
        }
        // Without success somebody uses another build, or is about to.
        if flock(&folder, FlockOperation::NonBlockingLockExclusive).is_ok() {
            clear(&path);
        }
        write(&file, bytes).map_err(|error| wrong(&file, &error))?;
    }
    Err(wrong(&file, &"another process keeps changing it"))
}

/// Whoever can rename one of these folders can put another one in our folder's place.
fn check_parents(parent: &Path) -> Result<(), String> {
    let own = geteuid().as_raw();
    // In a user namespace that does not know root its files belong to somebody else.
    let root = fs::metadata("/").map_or(0, |facts| facts.uid());
    for folder in parent.ancestors() {
        let facts =
            fs::metadata(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
        let (owner, mode) = (facts.uid(), facts.mode());
        if ![own, 0, root].contains(&owner) || mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            return Err(format!(
                "{}: others can change it (it belongs to user {owner}, mode {:04o})",
                folder.display(),
                mode & 0o7777
            ));
        }
    }
    Ok(())
}

fn open_folder(path: &Path) -> Result<OwnedFd, String> {
    let created = fs::DirBuilder::new().mode(READABLE).create(path);
    if let Err(error) = created
        && error.kind() != io::ErrorKind::AlreadyExists
    {
        return Err(error.to_string());
    }
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::RDONLY | OFlags::CLOEXEC;
    let folder = open(path, flags, Mode::empty()).map_err(|error| error.to_string())?;
    let facts = fstat(&folder).map_err(|error| error.to_string())?;
    if facts.st_uid != geteuid().as_raw() || facts.st_mode & OTHERS_WRITE != 0 {
        let (owner, mode) = (facts.st_uid, facts.st_mode & 0o7777);
        return Err(format!("others can change it (it belongs to user {owner}, mode {mode:04o})"));
    }
    // Whatever the umask took away.
    fchmod(&folder, Mode::from_raw_mode(READABLE)).map_err(|error| error.to_string())?;
    let system = fstatvfs(&folder).map_err(|error| error.to_string())?;
    if system.f_flag.contains(StatVfsMountFlags::NOEXEC) {
        return Err("it is mounted noexec".into());
    }
    Ok(folder)
}

/// Whether the file is a regular one of ours with this content.
fn is_ours(file: &Path, bytes: &[u8]) -> bool {
    fs::symlink_metadata(file).is_ok_and(|facts| {
        facts.is_file()
            && facts.uid() == geteuid().as_raw()
            && facts.mode() & (OTHERS_WRITE | 0o444) == 0o444
            && facts.len() == bytes.len() as u64
    }) && fs::read(file).is_ok_and(|content| content == bytes)
}

/// Removes what other builds left.
fn clear(folder: &Path) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let _ = fs::remove_file(entry.path());
    }
}

fn write(file: &Path, bytes: &[u8]) -> io::Result<()> {
    let folder = file.parent().unwrap_or(Path::new("/"));
    let mut aside = tempfile::NamedTempFile::new_in(folder)?;
    aside.write_all(bytes)?;
    aside.as_file().set_permissions(Permissions::from_mode(0o644))?;
    aside.persist(file)?;
    Ok(())
}

/// The loader splits `LD_PRELOAD` at spaces and colons, and expands dollars.
pub(crate) fn is_expressible(path: &Path) -> bool {
    let bytes = path.as_os_str().as_bytes();
    !bytes.iter().any(|byte| byte.is_ascii_whitespace() || b":;$".contains(byte))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use tempfile::TempDir;

    use super::*;

    fn folder() -> (TempDir, PathBuf) {
        let parent = tempfile::tempdir().unwrap();
        let path = parent.path().canonicalize().unwrap();
        (parent, path)
    }

    fn ours(parent: &Path) -> PathBuf {
        parent.join(format!("cellpace-{}", geteuid().as_raw()))
    }

    fn stored(parent: &Path, name: &str, bytes: &[u8]) -> Result<PrivateFile, Vec<String>> {
        store_below(&[parent.to_owned()], name, bytes)
    }

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o7777
    }

    fn reason(parent: &Path) -> String {
        stored(parent, "x.so", b"bytes").unwrap_err().concat()
    }

    #[test]
    fn what_is_stored_can_be_read_by_all_and_changed_by_the_owner() {
        let (_parent, path) = folder();
        let file = stored(&path, "x.so", b"bytes").unwrap();
        assert_eq!(fs::read(&file.path).unwrap(), b"bytes");
        assert_eq!((mode(&file.path), mode(&ours(&path))), (0o644, 0o755));
    }

    #[test]
    fn what_was_changed_is_written_again_and_what_is_right_stays() {
        let (_parent, path) = folder();
        let file = ours(&path).join("x.so");
        drop(stored(&path, "x.so", b"bytes").unwrap());
        let first = fs::metadata(&file).unwrap().ino();
        drop(stored(&path, "x.so", b"bytes").unwrap());
        assert_eq!(fs::metadata(&file).unwrap().ino(), first);
        fs::write(&file, b"BYTES").unwrap();
        drop(stored(&path, "x.so", b"bytes").unwrap());
        assert_eq!(fs::read(&file).unwrap(), b"bytes");
        fs::remove_file(&file).unwrap();
        symlink("/etc/passwd", &file).unwrap();
        drop(stored(&path, "x.so", b"bytes").unwrap());
        assert!(fs::symlink_metadata(&file).unwrap().is_file());
    }

    #[test]
    fn other_builds_are_removed_unless_somebody_uses_them() {
        let (_parent, path) = folder();
        let names = || fs::read_dir(ours(&path)).unwrap().count();
        let first = stored(&path, "1.so", b"one").unwrap();
        let second = stored(&path, "2.so", b"two").unwrap();
        assert_eq!(names(), 2, "the first is in use");
        drop((first, second));
        drop(stored(&path, "3.so", b"three").unwrap());
        assert_eq!(names(), 1);
    }

    #[test]
    fn folders_that_others_can_change_are_refused() {
        let (_parent, path) = folder();
        fs::create_dir(ours(&path)).unwrap();
        fs::set_permissions(ours(&path), Permissions::from_mode(0o777)).unwrap();
        assert!(reason(&path).contains("others can change it"), "{}", reason(&path));
        fs::remove_dir(ours(&path)).unwrap();
        symlink("/tmp", ours(&path)).unwrap();
        assert!(reason(&path).contains("cellpace-"), "{}", reason(&path));
        fs::remove_file(ours(&path)).unwrap();
        fs::set_permissions(&path, Permissions::from_mode(0o777)).unwrap();
        assert!(reason(&path).contains("mode 0777"), "{}", reason(&path));
        fs::set_permissions(&path, Permissions::from_mode(0o1777)).unwrap();
        stored(&path, "x.so", b"bytes").unwrap();
    }

    #[test]
    fn folders_of_other_users_are_refused() {
        if !geteuid().is_root() {
            return cellpace_testing::skip("not root: no folder of another user");
        }
        let (_parent, path) = folder();
        fs::create_dir(ours(&path)).unwrap();
        std::os::unix::fs::chown(ours(&path), Some(65_534), None).unwrap();
        assert!(reason(&path).contains("belongs to user 65534"), "{}", reason(&path));
    }

    #[test]
    fn the_next_folder_is_taken_when_one_cannot_be_used() {
        let (_parent, path) = folder();
        let blank = path.join("a b");
        fs::create_dir(&blank).unwrap();
        let places = [path.join("missing"), blank, path.clone()];
        let stored = store_below(&places, "x.so", b"bytes").unwrap();
        assert_eq!(stored.path.parent().unwrap(), ours(&path));
        assert_eq!(store_below(&places[..2], "x.so", b"bytes").unwrap_err().len(), 2);
    }
}
