//! What tests of links share.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Command;
use std::sync::OnceLock;

use super::{Folder, Outcome};

pub(crate) fn is_root() -> bool {
    fs::metadata("/proc/self").is_ok_and(|facts| std::os::unix::fs::MetadataExt::uid(&facts) == 0)
}

/// Whether links can be had here; says so if not.
pub(crate) fn possible() -> bool {
    static POSSIBLE: OnceLock<Option<String>> = OnceLock::new();
    let missing = POSSIBLE.get_or_init(|| {
        let outcome = Folder::new().run("link --quiet --rtt 0ms -- true");
        (outcome.code != Some(0)).then_some(outcome.stderr)
    });
    if let Some(why) = missing {
        cellpace_testing::skip(format_args!("no links here: {why}"));
    }
    missing.is_none()
}

/// `cellpace link` with these options around a shell command.
pub(crate) fn shell(options: &str, command: &str) -> Outcome {
    let folder = Folder::new();
    let args = ["link"].into_iter().chain(options.split_whitespace());
    folder.run_args(args.chain(["--", "sh", "-c", command]))
}

/// A shell command in namespaces of its own, as root.
pub(crate) fn unshared(folder: &Folder, namespaces: &[&str], command: &str) -> Outcome {
    let mut unshare = Command::new("unshare");
    unshare.args(namespaces).args(["sh", "-ec", command]).current_dir(folder.path("."));
    Outcome::of(unshare.output().unwrap())
}

/// A folder in which everybody finds the program.
pub(crate) fn open_folder() -> Folder {
    let folder = Folder::new();
    fs::set_permissions(folder.path("."), Permissions::from_mode(0o777)).unwrap();
    fs::copy(env!("CARGO_BIN_EXE_cellpace"), folder.path("cellpace")).unwrap();
    fs::set_permissions(folder.path("cellpace"), Permissions::from_mode(0o755)).unwrap();
    folder
}
