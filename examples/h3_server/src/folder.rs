//! Files below one folder, and nothing else.

use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;

/// A folder whose files are served.
#[derive(Debug)]
pub struct Folder {
    root: OwnedFd,
}

/// A file of a folder.
#[derive(Debug)]
pub struct Found {
    /// It, opened for reading.
    pub file: File,
    /// Its size in bytes.
    pub size: u64,
    /// Its type, by its name.
    pub media_type: &'static str,
}

/// Why there is nothing to serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotFound {
    /// The path of the URL is none.
    BadPath,
    /// No file of that name can be read.
    Missing,
    /// The system has no descriptor or memory for it now, or the disk fails: the file may be there.
    Busy,
}

impl NotFound {
    /// Only what says that there is no such file for us is that; the rest is trouble of the system.
    fn of(error: &io::Error) -> Self {
        let absent = [
            Errno::NOENT,
            Errno::NOTDIR,
            Errno::ISDIR,
            Errno::ACCESS,
            Errno::PERM,
            Errno::LOOP,
            Errno::NAMETOOLONG,
            Errno::INVAL,
            // Out of the folder.
            Errno::XDEV,
            // A pipe or a device without another end.
            Errno::NXIO,
            Errno::NODEV,
        ];
        match Errno::from_io_error(error) {
            Some(errno) if !absent.contains(&errno) => Self::Busy,
            _ => Self::Missing,
        }
    }
}

/// The longest path of a URL.
const MAX_PATH: usize = 4096;

impl Folder {
    /// Opens the folder.
    ///
    /// # Errors
    /// When it is none or cannot be read.
    pub fn open(path: &Path) -> io::Result<Self> {
        let flags = OFlags::DIRECTORY | OFlags::RDONLY | OFlags::CLOEXEC;
        Ok(Self { root: rustix::fs::open(path, flags, Mode::empty())? })
    }

    /// The file that the path of a URL (`/a/b%20c.html`) names; of a folder, its index.html.
    ///
    /// The system itself refuses what would lead out of the folder, by `..` or by symbolic links.
    ///
    /// # Errors
    /// When there is no such file, or it is no regular one.
    pub fn find(&self, path: &str) -> Result<Found, NotFound> {
        let name = file_name(path).ok_or(NotFound::BadPath)?;
        let name = if name.as_os_str().is_empty() { PathBuf::from(".") } else { name };
        if let Some(found) = self.open_file(&name)? {
            return Ok(found);
        }
        self.open_file(&name.join("index.html"))?.ok_or(NotFound::Missing)
    }

    /// `None`: a folder.
    fn open_file(&self, name: &Path) -> Result<Option<Found>, NotFound> {
        // A pipe without a writer must not hold anybody up.
        let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
        let inside = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
        let file = openat2(&self.root, name, flags, Mode::empty(), inside);
        let file = File::from(file.map_err(|errno| NotFound::of(&errno.into()))?);
        let facts = file.metadata().map_err(|error| NotFound::of(&error))?;
        if facts.is_dir() {
            return Ok(None);
        }
        if !facts.is_file() {
            return Err(NotFound::Missing);
        }
        Ok(Some(Found { size: facts.len(), media_type: media_type(name), file }))
    }
}

/// The relative name of a file. `None`: the path has what no name has, or leads upwards.
fn file_name(path: &str) -> Option<PathBuf> {
    if path.len() > MAX_PATH {
        return None;
    }
    let mut name = PathBuf::new();
    for part in path.strip_prefix('/')?.split('/') {
        let bytes = decoded(part.as_bytes())?;
        match &bytes[..] {
            b"" | b"." => {}
            b".." => return None,
            bytes if bytes.iter().any(|byte| matches!(byte, 0 | b'/')) => return None,
            _ => name.push(OsString::from_vec(bytes)),
        }
    }
    Some(name)
}

/// RFC 3986 section 2.1.
fn decoded(text: &[u8]) -> Option<Vec<u8>> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let [first, tail @ ..] = rest {
        rest = tail;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let [high, low, tail @ ..] = rest else { return None };
        let digit = |byte: u8| char::from(byte).to_digit(16);
        bytes.push((digit(*high)? * 16 + digit(*low)?) as u8);
        rest = tail;
    }
    Some(bytes)
}

/// By the ending of the name; what browsers show, and the segments of video.
fn media_type(name: &Path) -> &'static str {
    match name.extension().and_then(|ending| ending.to_str()) {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("txt" | "md" | "log") => "text/plain; charset=utf-8",
        Some("css") => "text/css",
        Some("js" | "mjs") => "text/javascript",
        Some("json") => "application/json",
        Some("wasm") => "application/wasm",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("mp4" | "m4s") => "video/mp4",
        Some("webm") => "video/webm",
        Some("ts") => "video/mp2t",
        Some("mpd") => "application/dash+xml",
        Some("m3u8") => "application/vnd.apple.mpegurl",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;

    #[test]
    fn names_are_decoded_and_lead_nowhere_else() {
        let name = |path| file_name(path).map(|name| name.to_string_lossy().into_owned());
        assert_eq!(name("/"), Some(String::new()));
        assert_eq!(name("/a//./b%20c.txt"), Some("a/b c.txt".to_owned()));
        for path in ["", "a", "/..", "/a/../b", "/%2e%2E/x", "/a%2fb", "/a%00", "/%", "/%4", "/%zz"]
        {
            assert_eq!(name(path), None, "{path}");
        }
        assert_eq!(name(&format!("/{}", "a".repeat(MAX_PATH))), None);
    }

    #[test]
    fn what_the_system_lacks_is_not_taken_for_a_missing_file() {
        let of = |errno: Errno| NotFound::of(&errno.into());
        for errno in [Errno::MFILE, Errno::NFILE, Errno::NOMEM, Errno::IO, Errno::STALE] {
            assert_eq!(of(errno), NotFound::Busy, "{errno}");
        }
        for errno in [Errno::NOENT, Errno::NOTDIR, Errno::ACCESS, Errno::LOOP, Errno::XDEV] {
            assert_eq!(of(errno), NotFound::Missing, "{errno}");
        }
    }

    #[test]
    fn nothing_outside_of_the_folder_is_opened() {
        let place = tempfile::tempdir().unwrap();
        let root = place.path().join("root");
        std::fs::create_dir_all(root.join("sub")).unwrap();
        std::fs::write(place.path().join("secret"), "no").unwrap();
        std::fs::write(root.join("sub/index.html"), "<p>").unwrap();
        std::os::unix::fs::symlink("../secret", root.join("out")).unwrap();
        std::os::unix::fs::symlink("/etc/passwd", root.join("far")).unwrap();
        std::os::unix::fs::symlink("sub/index.html", root.join("in")).unwrap();
        let folder = Folder::open(&root).unwrap();
        for path in ["/out", "/far", "/../secret", "/sub/../../secret", "/none", "/"] {
            assert!(folder.find(path).is_err(), "{path}");
        }
        for path in ["/sub", "/sub/", "/sub/index.html", "/in"] {
            let mut text = String::new();
            folder.find(path).unwrap().file.read_to_string(&mut text).unwrap();
            assert_eq!(text, "<p>", "{path}");
        }
    }
}
