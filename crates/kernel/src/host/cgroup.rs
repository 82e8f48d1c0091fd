//! Where the cgroups are that programs of BPF can be attached to: those of version 2.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use nix::sys::statfs::{CGROUP2_SUPER_MAGIC, statfs};
use thiserror::Error;

/// Why there is no cgroup.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum CgroupError {
    /// Nothing of version 2 is mounted.
    #[error(
        "no cgroups of version 2 are mounted: `mkdir /sys/fs/cgroup/unified && mount -t cgroup2 \
         none /sys/fs/cgroup/unified`"
    )]
    NotMounted,
    /// Another file system, or cgroups of version 1.
    #[error("{} is no cgroup of version 2", .0.display())]
    NotOne(PathBuf),
    /// It ended, or never was.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// Only that of other cgroups is.
    #[error("the cgroup of process {0} is not below what is mounted here")]
    Elsewhere(u32),
    /// The system refused.
    #[error("{}: {source}", .path.display())]
    System {
        /// What we looked at.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
}

const MOUNTS: &str = "/proc/self/mountinfo";

/// The topmost cgroup that can be seen here: all programs.
///
/// # Errors
/// [`CgroupError::NotMounted`].
pub fn root() -> Result<PathBuf, CgroupError> {
    Ok(mounted()?.place)
}

/// The cgroup that a process is in.
///
/// # Errors
/// When there is no such process, or nothing is mounted by which its cgroup can be named.
pub fn of_process(pid: u32) -> Result<PathBuf, CgroupError> {
    let path = PathBuf::from(format!("/proc/{pid}/cgroup"));
    let text = fs::read_to_string(&path).map_err(|source| match source.raw_os_error() {
        Some(libc::ENOENT | libc::ESRCH) => CgroupError::NoProcess(pid),
        _ => CgroupError::System { path, source },
    })?;
    let mount = mounted()?;
    own(&text).and_then(|own| mount.find(own)).ok_or(CgroupError::Elsewhere(pid))
}

/// Makes sure that it is one of version 2.
///
/// # Errors
/// When it is none.
pub fn check(path: &Path) -> Result<(), CgroupError> {
    let system =
        |source: nix::Error| CgroupError::System { path: path.to_owned(), source: source.into() };
    if statfs(path).map_err(system)?.filesystem_type() != CGROUP2_SUPER_MAGIC {
        return Err(CgroupError::NotOne(path.to_owned()));
    }
    Ok(())
}

fn mounted() -> Result<Mount, CgroupError> {
    let text = fs::read_to_string(MOUNTS)
        .map_err(|source| CgroupError::System { path: MOUNTS.into(), source })?;
    mount(&text).ok_or(CgroupError::NotMounted)
}

/// A mounted hierarchy, or a part of one.
#[derive(Debug, PartialEq, Eq)]
struct Mount {
    /// What of the hierarchy is there.
    root: PathBuf,
    place: PathBuf,
}

impl Mount {
    fn find(&self, cgroup: &Path) -> Option<PathBuf> {
        let below = cgroup.strip_prefix(&self.root).ok()?;
        // The way out of what a cgroup namespace shows.
        if below.components().any(|part| part.as_os_str() == "..") {
            return None;
        }
        // Without a slash at the end where nothing is below.
        Some(self.place.join(below).components().collect())
    }
}

/// From `/proc/PID/mountinfo` (proc_pid_mountinfo(5)): the whole hierarchy, if it is there.
fn mount(text: &str) -> Option<Mount> {
    let mut mounts = text.lines().filter_map(|line| {
        let (before, after) = line.split_once(" - ")?;
        if after.split(' ').next() != Some("cgroup2") {
            return None;
        }
        let mut fields = before.split(' ').skip(3);
        Some(Mount { root: unescaped(fields.next()?), place: unescaped(fields.next()?) })
    });
    let first = mounts.next()?;
    if first.root == Path::new("/") {
        return Some(first);
    }
    Some(mounts.find(|mount| mount.root == Path::new("/")).unwrap_or(first))
}

/// Blanks and the like stand there as `\040`.
fn unescaped(field: &str) -> PathBuf {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field.as_bytes();
    while let Some((&byte, after)) = rest.split_first() {
        let digits =
            after.get(..3).filter(|digits| digits.iter().all(|d| (b'0'..=b'7').contains(d)));
        match digits {
            Some(digits) if byte == b'\\' => {
                let value = digits.iter().fold(0u32, |value, d| value * 8 + u32::from(d - b'0'));
                bytes.push(value as u8);
                rest = &after[3..];
            }
            _ => {
                bytes.push(byte);
                rest = after;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// The line of version 2 in `/proc/PID/cgroup` (cgroups(7)).
fn own(text: &str) -> Option<&Path> {
    text.lines().find_map(|line| line.strip_prefix("0::")).map(Path::new)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime shared:5 - cgroup2 cgroup2 rw
";

    fn at(root: &str, place: &str) -> Mount {
        Mount { root: root.into(), place: place.into() }
    }

    #[test]
    fn version_2_is_found_beside_version_1() {
        assert_eq!(mount(HYBRID), Some(at("/", "/sys/fs/cgroup/unified")));
        assert_eq!(mount(&HYBRID.replace("cgroup2", "cgroup")), None);
        assert_eq!(mount("no line\n"), None);
    }

    #[test]
    fn the_whole_hierarchy_goes_before_a_part_of_it() {
        let part = "50 1 0:38 /user.slice /mnt/a\\040part rw - cgroup2 none rw\n";
        assert_eq!(mount(part), Some(at("/user.slice", "/mnt/a part")));
        assert_eq!(mount(&format!("{part}{HYBRID}")), Some(at("/", "/sys/fs/cgroup/unified")));
    }

    #[test]
    fn a_process_is_found_below_what_is_mounted() {
        let text = "4:memory:/other\n0::/system.slice/nginx.service\n";
        assert_eq!(own(text), Some(Path::new("/system.slice/nginx.service")));
        assert_eq!(own("4:memory:/other\n"), None);
        let nginx = Path::new("/system.slice/nginx.service");
        assert_eq!(at("/", "/c").find(nginx).unwrap(), Path::new("/c/system.slice/nginx.service"));
        assert_eq!(at("/system.slice", "/c").find(nginx).unwrap(), Path::new("/c/nginx.service"));
        assert_eq!(at("/user.slice", "/c").find(nginx), None);
        assert_eq!(at("/", "/c").find(Path::new("/")).unwrap().as_os_str(), "/c");
        assert_eq!(at("/", "/c").find(Path::new("/../beside")), None);
    }

    #[test]
    fn what_is_no_cgroup_is_told_so() {
        assert!(matches!(check(Path::new("/proc")), Err(CgroupError::NotOne(_))));
        assert!(matches!(check(Path::new("/nowhere")), Err(CgroupError::System { .. })));
        assert!(matches!(of_process(u32::MAX), Err(CgroupError::NoProcess(_))));
    }
}
