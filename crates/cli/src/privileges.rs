//! What a command gives up before it serves strangers.

use std::io;
use std::path::{Path, PathBuf};

use landlock::{
    ABI, AccessFs, Ruleset, RulesetAttr, RulesetCreatedAttr, RulesetError, path_beneath_rules,
};
use rustix::thread::{
    CapabilitySet, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};

use crate::error::CommandError;
use crate::output::is_stdout;

/// What a command that runs as root needs to write into folders of other users, and to listen at low
/// ports.
pub(crate) const FILES_AND_PORTS: CapabilitySet =
    CapabilitySet::DAC_OVERRIDE.union(CapabilitySet::NET_BIND_SERVICE);

/// Gives up, for this thread and those that it will start, all privileges but `kept`, ways to get
/// others by running programs, and, on kernels with Landlock (Linux 5.13), making, changing and
/// removing files, but for these, what is in them, and what is beside them. What is open already
/// stays usable.
pub(crate) fn give_up_all_but<'a>(
    kept: CapabilitySet,
    files: impl IntoIterator<Item = &'a Path>,
) -> Result<(), CommandError> {
    let failed = |error| CommandError::failed(format!("giving up privileges: {error}"));
    let files = files.into_iter().filter(|file| !is_stdout(file));
    give_up_privileges(kept).map_err(failed)?;
    write_only(files.flat_map(places).collect()).map_err(io::Error::other).map_err(failed)
}

/// A folder, or a file and where it is put aside until it is whole.
fn places(file: &Path) -> Vec<PathBuf> {
    let resolved = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    if resolved.is_dir() {
        return vec![resolved];
    }
    let above = |path: &Path| match path.parent() {
        Some(folder) if folder != Path::new("") => folder.to_owned(),
        _ => PathBuf::from("."),
    };
    vec![above(file), above(&resolved), resolved]
}

fn give_up_privileges(kept: CapabilitySet) -> io::Result<()> {
    set_no_new_privs(true)?;
    let before = capabilities(None)?;
    // Whoever lacks this cannot win anything back either.
    if before.effective.contains(CapabilitySet::SETPCAP) {
        for (_, capability) in CapabilitySet::all().iter_names() {
            // An older kernel knows fewer.
            let is_there = capability_is_in_bounding_set(capability).unwrap_or(false);
            if is_there && !kept.contains(capability) {
                remove_capability_from_bounding_set(capability)?;
            }
        }
    }
    clear_ambient_capability_set()?;
    let mut after = before;
    after.effective &= kept;
    after.permitted &= kept;
    after.inheritable = CapabilitySet::empty();
    Ok(set_capabilities(None, after)?)
}

/// On kernels without Landlock, or with less of it, as far as they go.
fn write_only(places: Vec<PathBuf>) -> Result<(), RulesetError> {
    let writing = AccessFs::from_write(ABI::V3);
    let rules = Ruleset::default().handle_access(writing)?.create()?;
    rules.add_rules(path_beneath_rules(places, writing))?.restrict_self()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::thread::scope;

    /// In a thread of its own: what is given up does not come back.
    #[test]
    fn privileges_and_other_folders_are_given_up() {
        let [inside, outside] = [(); 2].map(|()| tempfile::tempdir().unwrap());
        let [mine, others] = [&inside, &outside].map(|folder| folder.path().join("file"));
        fs::write(&others, "before").unwrap();
        let kept = CapabilitySet::NET_BIND_SERVICE;
        let refused = scope(|scope| {
            let confined = || {
                give_up_all_but(kept, [&*mine, Path::new("-")]).unwrap();
                let sets = capabilities(None).unwrap();
                let left = (sets.effective | sets.permitted | sets.inheritable) - kept;
                assert!(left.is_empty() && rustix::thread::no_new_privs().unwrap());
                fs::write(inside.path().join("aside"), "whole").unwrap();
                fs::rename(inside.path().join("aside"), &mine).unwrap();
                assert_eq!(fs::read_to_string(&others).unwrap(), "before", "it may read");
                [
                    fs::write(&others, "after").is_err(),
                    fs::remove_file(&others).is_err(),
                    fs::create_dir(outside.path().join("new")).is_err(),
                ]
            };
            scope.spawn(confined).join().unwrap()
        });
        if !has_landlock() {
            return cellpace_testing::skip("this kernel has no Landlock");
        }
        assert_eq!(refused, [true; 3]);
    }

    fn has_landlock() -> bool {
        let restricted = || {
            let rules = Ruleset::default().handle_access(AccessFs::from_write(ABI::V1));
            rules.unwrap().create().unwrap().restrict_self().unwrap().ruleset
        };
        let status = scope(|scope| scope.spawn(restricted).join().unwrap());
        status != landlock::RulesetStatus::NotEnforced
    }

    #[test]
    fn a_file_is_written_with_what_is_beside_it_and_a_folder_with_what_is_in_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().canonicalize().unwrap();
        let (file, link) = (path.join("file"), path.join("below/link"));
        fs::create_dir(path.join("below")).unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        fs::write(&file, "").unwrap();
        assert_eq!(places(&path), std::slice::from_ref(&path));
        assert_eq!(places(&link), [path.join("below"), path.clone(), file]);
        assert_eq!(places(Path::new("no-such-file"))[0], Path::new("."));
    }
}
