//! Keys that both sides of a transfer share: files, and where the user's own one is.

use std::ffi::OsString;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use data_encoding::{HEXLOWER, HEXLOWER_PERMISSIVE};

/// The beginning of a key's file, with the version of its form.
const PREFIX: &str = "cellpace-key-1:";

/// Bytes of a secret.
pub const SECRET_BYTES: usize = 32;

/// More than this is not read of a file that should hold a key.
const MAX_FILE_BYTES: u64 = 1024;

/// The user's own key, which is used where no other one is given.
#[derive(Debug)]
pub struct OwnKey {
    /// Where it is.
    pub path: PathBuf,
    /// What both sides share.
    pub secret: [u8; SECRET_BYTES],
    /// Whether it was made just now.
    pub is_new: bool,
}

impl OwnKey {
    /// Reads the key in the user's configuration (`$XDG_CONFIG_HOME/cellpace/key`, or
    /// `~/.config/cellpace/key`), and makes it where there is none. Processes that do so at the same
    /// moment get the same key.
    ///
    /// # Errors
    /// When there is no such folder, it cannot be written, or the file is no key; the text names it.
    pub fn open() -> Result<Self, String> {
        let config = config_folder(|name| std::env::var_os(name))
            .ok_or("no place for your own key: neither XDG_CONFIG_HOME nor HOME is a path")?;
        Self::open_at(config.join("cellpace").join("key"))
    }

    /// The same with the key at this path.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn open_at(path: PathBuf) -> Result<Self, String> {
        let named = |why: String| format!("your own key {}: {why}", path.display());
        // Of a link itself: one that leads nowhere counts as a key that cannot be read, and none is
        // made where it points.
        let is_new = match fs::symlink_metadata(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                make_whole(&path).map_err(named)?
            }
            _ => false,
        };
        let secret = read_key(&path).map_err(named)?;
        Ok(Self { path, secret, is_new })
    }
}

/// The folder of the user's configuration. Relative paths do not count, as the standard has it.
fn config_folder(variable: impl Fn(&str) -> Option<OsString>) -> Option<PathBuf> {
    let folder = |name| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
    folder("XDG_CONFIG_HOME").or_else(|| Some(folder("HOME")?.join(".config")))
}

/// Makes a key that is nowhere to be seen before it is complete, and its folders. Returns whether it
/// is this one: another process may have been faster.
fn make_whole(path: &Path) -> Result<bool, String> {
    let folder = path.parent().ok_or("this is no file")?;
    let made = DirBuilder::new().recursive(true).mode(0o700).create(folder);
    made.map_err(|error| format!("cannot make its folder: {error}"))?;
    let mut draw = [0; 8];
    // A name of its own, as several processes may make the key at the same moment.
    getrandom::fill(&mut draw).map_err(|error| error.to_string())?;
    let unfinished = folder.join(format!(".key-{}", HEXLOWER.encode_display(&draw)));
    create_key(&unfinished).map_err(|why| format!("cannot be made: {why}"))?;
    // In contrast to a rename, this replaces nothing.
    let linked = fs::hard_link(&unfinished, path);
    let _ = fs::remove_file(&unfinished);
    match linked {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(format!("cannot be made: {error}")),
    }
}

/// Makes a key from the system's randomness, in a new file that only its owner may read.
///
/// # Errors
/// When the file exists or cannot be written.
pub fn create_key(path: &Path) -> Result<(), String> {
    let mut secret = [0; SECRET_BYTES];
    getrandom::fill(&mut secret).map_err(|error| error.to_string())?;
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    let file = file.map_err(|error| match error.kind() {
        io::ErrorKind::AlreadyExists => "it exists already, and may be in use".to_owned(),
        _ => error.to_string(),
    })?;
    write(file, &secret).map_err(|error| {
        // Half a key is of no use, and would be in the way of the next try.
        let _ = fs::remove_file(path);
        error.to_string()
    })
}

fn write(mut file: File, secret: &[u8]) -> io::Result<()> {
    writeln!(file, "{PREFIX}{}", HEXLOWER.encode_display(secret))?;
    // On the disk before it is used: a key that a power cut takes away opens nothing any more.
    file.sync_all()
}

/// Reads a key that only its owner may read.
///
/// # Errors
/// When there is none, or others may read it. Nothing of the content is in the errors.
pub fn read_key(path: &Path) -> Result<[u8; SECRET_BYTES], String> {
    let text = read_private(path, MAX_FILE_BYTES)?;
    parse(&text).map_err(|why| {
        format!("not a key: {why}; a key is one line that begins with {PREFIX}, see `cellpace key`")
    })
}

/// Reads at most so many bytes of a file that only its owner may read.
///
/// # Errors
/// When there is none, or others may read it. Nothing of the content is in the errors.
pub fn read_private(path: &Path, most_bytes: u64) -> Result<Vec<u8>, String> {
    let file = File::open(path).map_err(|error| error.to_string())?;
    // Of the open file, not of the path: what is checked is what is read.
    let facts = file.metadata().map_err(|error| error.to_string())?;
    if facts.is_dir() {
        return Err("this is a folder, not a file".to_owned());
    }
    let mode = facts.mode() & 0o777;
    // Refused rather than mended: others may have read it already.
    if mode & 0o077 != 0 {
        return Err(format!(
            "others may read or change this key (its mode is {mode:04o}); chmod 600 makes it yours"
        ));
    }
    let mut text = Vec::new();
    // Whatever the file is: a device may never end.
    file.take(most_bytes).read_to_end(&mut text).map_err(|error| error.to_string())?;
    Ok(text)
}

fn parse(text: &[u8]) -> Result<[u8; SECRET_BYTES], String> {
    // Editors and shells add a line end.
    let line = text.trim_ascii();
    if line.is_empty() {
        return Err("it is empty".to_owned());
    }
    let prefix = || format!("it does not begin with {PREFIX}");
    let digits = line.strip_prefix(PREFIX.as_bytes()).ok_or_else(prefix)?;
    // The length is said before the digits are read, and never the digits: errors end in logs.
    if digits.len() != 2 * SECRET_BYTES {
        let (found, right) = (digits.len(), 2 * SECRET_BYTES);
        return Err(format!("{found} characters in place of {right} follow {PREFIX}"));
    }
    let mut secret = [0; SECRET_BYTES];
    // The place alone is named: a wrong character may still be a part of the secret.
    HEXLOWER_PERMISSIVE.decode_mut(digits, &mut secret).map_err(|error| {
        format!("character {} is no hexadecimal digit", PREFIX.len() + error.error.position + 1)
    })?;
    Ok(secret)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    const DIGITS: &str = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f";

    /// A file with this content and these permissions.
    fn file(folder: &Path, content: &[u8], mode: u32) -> PathBuf {
        let path = folder.join("path.key");
        let _ = fs::remove_file(&path);
        fs::write(&path, content).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    #[test]
    fn a_key_is_read_as_it_was_made_and_no_two_are_alike() {
        let folder = tempfile::tempdir().unwrap();
        let [first, second] = ["a.key", "b.key"].map(|name| folder.path().join(name));
        create_key(&first).unwrap();
        create_key(&second).unwrap();
        assert_ne!(read_key(&first).unwrap(), read_key(&second).unwrap());
        let text = fs::read_to_string(&first).unwrap();
        assert_eq!((text.lines().count(), text.len()), (1, PREFIX.len() + 64 + 1));
        assert_eq!(fs::metadata(&first).unwrap().mode() & 0o777, 0o600);
        let error = create_key(&first).unwrap_err();
        assert!(error.contains("exists already"), "{error}");
        assert_eq!(fs::read_to_string(&first).unwrap(), text, "nothing is overwritten");
        let error = create_key(&folder.path().join("missing/a.key")).unwrap_err();
        assert!(error.contains("No such file"), "{error}");
    }

    #[test]
    fn a_key_is_one_line() {
        let folder = tempfile::tempdir().unwrap();
        let secret: [u8; 32] = std::array::from_fn(|at| at as u8);
        let good = format!("{PREFIX}{DIGITS}");
        for text in [
            good.clone(),
            good.clone() + "\n",
            good.to_uppercase().replace("CELLPACE-KEY", "cellpace-key") + "\r\n",
        ] {
            assert_eq!(
                read_key(&file(folder.path(), text.as_bytes(), 0o600)),
                Ok(secret),
                "{text:?}"
            );
        }
        assert_eq!(read_key(&file(folder.path(), good.as_bytes(), 0o400)), Ok(secret));
    }

    #[test]
    fn what_is_no_key_is_refused_with_the_reason_and_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let good = format!("{PREFIX}{DIGITS}");
        let cases: [(Vec<u8>, &str); 9] = [
            (b"".to_vec(), "it is empty"),
            (b" \n\n".to_vec(), "it is empty"),
            (DIGITS.into(), "does not begin with cellpace-key-1:"),
            (good.replace("-1:", "-2:").into(), "does not begin with cellpace-key-1:"),
            (good[..good.len() - 1].into(), "63 characters in place of 64"),
            ((good.clone() + "0").into(), "65 characters in place of 64"),
            ((good.clone() + "\n" + &good).into(), "in place of 64"),
            (good.replace("0102", "01g2").into(), "character 20 is no hexadecimal digit"),
            (vec![0xff; 1 << 20], "does not begin with cellpace-key-1:"),
        ];
        for (content, says) in cases {
            let error = read_key(&file(folder.path(), &content, 0o600)).unwrap_err();
            assert!(error.contains(says) && error.starts_with("not a key: "), "{error}");
            assert!(!error.contains("0405"), "nothing of it is shown: {error}");
        }
        assert!(read_key(folder.path()).is_err());
        assert!(read_key(&folder.path().join("missing")).unwrap_err().contains("No such file"));
    }

    #[test]
    fn a_key_that_others_may_read_or_change_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let good = format!("{PREFIX}{DIGITS}");
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602, 0o610] {
            let path = file(folder.path(), good.as_bytes(), mode);
            let link = folder.path().join("link");
            let _ = fs::remove_file(&link);
            symlink(&path, &link).unwrap();
            for path in [path, link] {
                let error = read_key(&path).unwrap_err();
                assert!(
                    error.contains("others may read") && error.contains("chmod 600"),
                    "{error}"
                );
                assert!(error.contains(&format!("{mode:04o}")), "{error}");
            }
        }
    }

    #[test]
    fn your_own_key_is_made_once_whoever_is_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("deep/cellpace/key");
        let open = || OwnKey::open_at(path.clone()).unwrap();
        let opened: Vec<OwnKey> = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect()
        });
        assert!(opened.iter().all(|key| key.secret == opened[0].secret && key.path == path));
        assert_eq!(opened.iter().filter(|key| key.is_new).count(), 1);
        assert!(!open().is_new);
        let left = fs::read_dir(path.parent().unwrap()).unwrap().count();
        assert_eq!(left, 1, "nothing but the key");
        for (path, mode) in [(&*path, 0o600), (path.parent().unwrap(), 0o700)] {
            assert_eq!(fs::metadata(path).unwrap().mode() & 0o777, mode);
        }
    }

    #[test]
    fn where_your_own_key_cannot_be_the_path_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let in_the_way = file(folder.path(), b"", 0o600);
        for (path, says) in [
            (in_the_way.join("cellpace/key"), "path.key/cellpace/key: "),
            (in_the_way, "path.key: not a key: it is empty"),
            (folder.path().to_owned(), "this is a folder"),
            (PathBuf::from("/proc/cellpace/key"), "/proc/cellpace/key: cannot make its folder"),
        ] {
            let error = OwnKey::open_at(path).unwrap_err();
            assert!(error.starts_with("your own key /") && error.contains(says), "{error}");
        }
    }

    #[test]
    fn the_configuration_is_where_the_standard_has_it() {
        let folder = |config: Option<&'static str>, home: Option<&'static str>| {
            config_folder(move |name| {
                match name {
                    "XDG_CONFIG_HOME" => config,
                    "HOME" => home,
                    _ => None,
                }
                .map(OsString::from)
            })
        };
        let at = |path: &str| Some(PathBuf::from(path));
        assert_eq!(folder(Some("/c"), Some("/h")), at("/c"));
        for config in [None, Some(""), Some("here")] {
            assert_eq!(folder(config, Some("/h")), at("/h/.config"));
            assert_eq!(folder(config, Some("h")), None);
            assert_eq!(folder(config, None), None);
        }
    }
}
