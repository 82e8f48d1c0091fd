//! Results kept from one time to the next.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use cellpace_report::write_atomically;
use serde_json::Value;
use sha2::{Digest, Sha256};

/// Folders of other versions of the program are removed after this time.
const MAX_AGE: Duration = Duration::from_secs(14 * 24 * 3600);

/// A folder with the records of runs, of one version of the program.
#[derive(Debug, Clone)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// The cache below the user's folder for such things, `$XDG_CACHE_HOME` or `~/.cache`. `None`
    /// where there is neither, or the program cannot find itself.
    pub fn of_user() -> Option<Self> {
        let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let base = named("XDG_CACHE_HOME").map(PathBuf::from);
        let base = base.or_else(|| named("HOME").map(|home| PathBuf::from(home).join(".cache")))?;
        Self::below(&base.join("cellpace/paper"))
    }

    /// A cache in this folder, for the program that runs.
    pub fn below(base: &Path) -> Option<Self> {
        let folder = base.join(identity()?);
        remove_old(base, &folder);
        fs::create_dir_all(&folder).ok()?;
        Some(Self { folder })
    }

    fn file(&self, key: &str) -> PathBuf {
        self.folder.join(format!("{key}.json"))
    }

    pub(crate) fn read(&self, key: &str) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.file(key)).ok()?).ok()
    }

    /// What was kept that is no record: a Markov table.
    pub(crate) fn read_bytes(&self, key: &str) -> Option<Vec<u8>> {
        fs::read(self.folder.join(key)).ok()
    }

    pub(crate) fn write_bytes(&self, key: &str, bytes: &[u8]) {
        let _ = write_atomically(&self.folder.join(key), bytes);
    }

    /// Keeps how long the runs of a claim take, for any version of the program.
    pub(crate) fn write_seconds(&self, id: &str, seconds: f64) {
        let Some(file) = self.seconds_file(id) else { return };
        if file.parent().is_some_and(|folder| fs::create_dir_all(folder).is_ok()) {
            let _ = write_atomically(&file, seconds.to_string().as_bytes());
        }
    }

    /// Processor time of the runs of a claim when they were last done, in seconds.
    pub fn seconds(&self, id: &str) -> Option<f64> {
        fs::read_to_string(self.seconds_file(id)?).ok()?.parse().ok()
    }

    fn seconds_file(&self, id: &str) -> Option<PathBuf> {
        Some(self.folder.parent()?.join("seconds").join(id))
    }

    /// A cache that cannot be written is none; the result is there all the same.
    pub(crate) fn write(&self, key: &str, record: &Value) {
        let _ = write_atomically(&self.file(key), record.to_string().as_bytes());
    }
}

/// The version of the program, and when its file was made: what it computes may change with both.
fn identity() -> Option<String> {
    let facts = fs::metadata(std::env::current_exe().ok()?).ok()?;
    let made = facts.modified().ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    let made = made.as_nanos();
    Some(format!("{}-{made:x}-{:x}", env!("CARGO_PKG_VERSION"), facts.len()))
}

fn remove_old(base: &Path, own: &Path) {
    let Ok(entries) = fs::read_dir(base) else { return };
    for entry in entries.flatten() {
        let age = entry.metadata().and_then(|facts| facts.modified());
        let age = age.ok().and_then(|made| made.elapsed().ok()).unwrap_or_default();
        if entry.path() != own && age > MAX_AGE {
            // Two programs may do so at the same time.
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// A short name of what a result depends on.
pub(crate) fn key(parts: &[&str]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update((part.len() as u64).to_le_bytes());
        hash.update(part);
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..16].iter().map(|byte| format!("{byte:02x}")).collect()
}
