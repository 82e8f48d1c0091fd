//! The library that is preloaded into programs.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

use cellpace_control::variables;

use crate::RunError;
use crate::private_folder::{PrivateFile, is_expressible, store};

/// `libcellpace.so` as this crate's build made it; empty where there is none.
const EMBEDDED: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/libcellpace.so"));

/// The name of a build of the library in the private folder.
const NAME: &str = concat!(env!("CELLPACE_LIBRARY_HASH"), "-libcellpace.so");

/// The library, by a path that `LD_PRELOAD` can express.
#[derive(Debug)]
pub struct PreloadLibrary {
    path: PathBuf,
    /// Keeps what is stored from being cleaned away.
    _stored: Option<PrivateFile>,
}

impl PreloadLibrary {
    /// Puts the library that this program carries where programs can load it, in a folder that only
    /// this user can change; or takes the one at the path in `CELLPACE_PRELOAD`.
    ///
    /// # Errors
    /// When this program carries none, or no folder is fit.
    pub fn find() -> Result<Self, RunError> {
        match std::env::var_os(variables::LIBRARY) {
            Some(path) => Self::at(Path::new(&path)),
            None if EMBEDDED.is_empty() => {
                Err(RunError::NotEmbedded { reason: env!("CELLPACE_LIBRARY_MISSING") })
            }
            None => Self::stored(NAME, EMBEDDED),
        }
    }

    fn at(path: &Path) -> Result<Self, RunError> {
        let missing = |source| RunError::NoLibrary { path: path.to_owned(), source };
        let found = path.canonicalize().map_err(missing)?;
        if is_expressible(&found) {
            return Ok(Self { path: found, _stored: None });
        }
        let bytes = std::fs::read(&found).map_err(missing)?;
        Self::stored("other-libcellpace.so", &bytes)
    }

    fn stored(name: &str, bytes: &[u8]) -> Result<Self, RunError> {
        let file = store(name, bytes).map_err(|reasons| RunError::NoFolder { reasons })?;
        Ok(Self { path: file.path.clone(), _stored: Some(file) })
    }

    /// The value of `LD_PRELOAD`, with what was there behind us.
    pub fn preload(&self, before: Option<&OsStr>) -> OsString {
        let mut value = self.path.clone().into_os_string();
        if let Some(before) = before.filter(|before| !before.is_empty()) {
            value.push(":");
            value.push(before);
        }
        value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_that_the_loader_would_split_are_copied() {
        let folder = tempfile::Builder::new().prefix("a b:c").tempdir().unwrap();
        let file = folder.path().join("libcellpace.so");
        std::fs::write(&file, "x").unwrap();
        let library = PreloadLibrary::at(&file).unwrap();
        assert!(is_expressible(&library.path));
        assert_eq!(std::fs::read(&library.path).unwrap(), b"x");
    }

    #[test]
    fn what_was_preloaded_stays_behind_ours() {
        let library = PreloadLibrary { path: "/x/libcellpace.so".into(), _stored: None };
        assert_eq!(library.preload(None), "/x/libcellpace.so");
        assert_eq!(library.preload(Some("".as_ref())), "/x/libcellpace.so");
        assert_eq!(library.preload(Some("a.so b.so".as_ref())), "/x/libcellpace.so:a.so b.so");
    }
}
