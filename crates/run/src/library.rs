//! Where the preloaded library is.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::RunError;

const FILE: &str = "libcellpace.so";

/// The library, by a path that `LD_PRELOAD` can express.
#[derive(Debug)]
pub struct PreloadLibrary {
    path: PathBuf,
    /// Holds a link to the library; removed with this.
    _link: Option<TempDir>,
}

impl PreloadLibrary {
    /// Finds the library: at the path in `CELLPACE_PRELOAD`, else beside the executable or in
    /// `../lib/cellpace`, `../lib` or `deps` seen from there.
    ///
    /// # Errors
    /// When it is at none of these places.
    pub fn find() -> Result<Self, RunError> {
        let tried = match std::env::var_os(cellpace_control::variables::LIBRARY) {
            Some(path) => vec![PathBuf::from(path)],
            None => candidates(&std::env::current_exe().unwrap_or_default()),
        };
        let found =
            tried.iter().find(|path| path.is_file()).and_then(|path| path.canonicalize().ok());
        match found {
            Some(path) => Self::at(path),
            None => Err(RunError::NoLibrary { tried }),
        }
    }

    fn at(path: PathBuf) -> Result<Self, RunError> {
        if is_expressible(&path) {
            return Ok(Self { path, _link: None });
        }
        let linked = || {
            let folder = tempfile::Builder::new().prefix("cellpace-").tempdir_in("/tmp")?;
            let link = folder.path().join(FILE);
            symlink(&path, &link)?;
            // Servers that give up root must still find it.
            std::fs::set_permissions(
                folder.path(),
                std::os::unix::fs::PermissionsExt::from_mode(0o755),
            )?;
            Ok((link, folder))
        };
        let (path, folder) =
            linked().map_err(RunError::system::<std::io::Error>("linking libcellpace.so"))?;
        Ok(Self { path, _link: Some(folder) })
    }

    /// The value of `LD_PRELOAD`, with what was there behind us.
    pub fn preload(&self, before: Option<&std::ffi::OsStr>) -> std::ffi::OsString {
        let mut value = self.path.clone().into_os_string();
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            value.push(":");
            value.push(before);
        }
        value
    }
}

fn candidates(executable: &Path) -> Vec<PathBuf> {
    let folder = executable.parent().unwrap_or(Path::new("."));
    ["deps", ".", "../lib/cellpace", "../lib"].map(|place| folder.join(place).join(FILE)).into()
}

/// The loader splits `LD_PRELOAD` at spaces and colons, and expands dollars.
fn is_expressible(path: &Path) -> bool {
    let bytes = path.as_os_str().as_encoded_bytes();
    !bytes.iter().any(|byte| byte.is_ascii_whitespace() || b":;$".contains(byte))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_the_loader_would_split_are_linked_to() {
        let folder = tempfile::Builder::new().prefix("a b:c").tempdir().unwrap();
        let file = folder.path().join(FILE);
        std::fs::write(&file, "x").unwrap();
        let library = PreloadLibrary::at(file.clone()).unwrap();
        assert!(is_expressible(&library.path));
        assert_eq!(library.path.canonicalize().unwrap(), file.canonicalize().unwrap());
        let link = library.path.clone();
        drop(library);
        assert!(!link.exists());
    }

    #[test]
    fn what_was_preloaded_stays_behind_ours() {
        let library = PreloadLibrary { path: "/x/libcellpace.so".into(), _link: None };
        assert_eq!(library.preload(None), "/x/libcellpace.so");
        assert_eq!(library.preload(Some("".as_ref())), "/x/libcellpace.so");
        assert_eq!(library.preload(Some("a.so b.so".as_ref())), "/x/libcellpace.so:a.so b.so");
    }
}
