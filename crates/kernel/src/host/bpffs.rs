//! Where the pins are: a BPF file system of our own.
//!
//! That of the system, `/sys/fs/bpf`, has the pins of other programs, too, and is root's alone as
//! systemd mounts it. To let our users pass there would open the way to those as well.

use std::fs::File;
use std::io;

use super::bpf;
use super::pins::{remove_pins, unfinished};
use crate::KernelError;

/// What cellpace keeps until the system restarts. Mode 0711: users can traverse the
/// folder but not open it, and so cannot lock it.
const FOLDER: &str = "/run/cellpace";

/// Held by whoever installs, so that there is one at a time, and by whoever removes what an
/// installation left that was killed. The kernel releases it with the process.
#[derive(Debug)]
pub(crate) struct Installing {
    _folder: File,
}

impl Installing {
    /// Waits for an installation that runs. `None`: nothing has ever been installed here.
    fn wait() -> io::Result<Option<Self>> {
        let folder = match File::open(FOLDER) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            folder => folder?,
        };
        bpf::lock(&folder)?;
        Ok(Some(Self { _folder: folder }))
    }
}

/// Whether an installation was killed before it was complete, and left pins that nobody uses. Only
/// root can know; `false` for others.
pub(crate) fn is_unfinished(name: &str) -> bool {
    // While an installation runs, the folder is its own.
    let nobody_installs = || File::open(FOLDER).is_ok_and(|folder| !bpf::is_locked(&folder));
    unfinished(name).exists() && nobody_installs()
}

/// Removes the pins that an installation left which was killed before it was complete. They keep
/// some MB of the kernel's memory. Returns whether there were any; others than root find none.
///
/// # Errors
/// When they cannot be removed.
pub fn remove_unfinished(name: &str) -> Result<bool, KernelError> {
    match Installing::wait() {
        Ok(Some(_installing)) => remove_unfinished_held(name),
        Ok(None) => Ok(false),
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Ok(false),
        Err(error) => Err(KernelError::system("waiting for an installation that runs")(error)),
    }
}

/// The same for who holds [`Installing`].
pub(crate) fn remove_unfinished_held(name: &str) -> Result<bool, KernelError> {
    match remove_pins(&unfinished(name)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(KernelError::system("removing the pins of a killed installation")(error)),
        Ok(()) => Ok(true),
    }
}

#[cfg(feature = "install")]
mod install {
    use std::fs::{self, Permissions};
    use std::io;
    use std::os::unix::fs::PermissionsExt;

    use nix::mount::{MsFlags, mount};
    use nix::sys::statfs::{BPF_FS_MAGIC, statfs};

    use super::{FOLDER, Installing};
    use crate::KernelError;
    use crate::host::pins::BPFFS;

    impl Installing {
        /// Waits for other installations, and mounts the file system where that is missing.
        pub(crate) fn start() -> Result<Self, KernelError> {
            let making = "making /run/cellpace/bpf";
            fs::create_dir_all(BPFFS).map_err(KernelError::system(making))?;
            let way = Permissions::from_mode(0o711);
            fs::set_permissions(FOLDER, way).map_err(KernelError::system(making))?;
            let installing = Self::wait().map_err(KernelError::system(making))?;
            let installing = installing
                .ok_or_else(|| KernelError::system(making)(io::ErrorKind::NotFound.into()))?;
            if !is_mounted() {
                let flags = MsFlags::MS_NOSUID | MsFlags::MS_NODEV | MsFlags::MS_NOEXEC;
                mount(Some("bpf"), BPFFS, Some("bpf"), flags, Some("mode=0711"))
                    .map_err(io::Error::from)
                    .map_err(KernelError::system("mounting /run/cellpace/bpf"))?;
            }
            Ok(installing)
        }
    }

    fn is_mounted() -> bool {
        statfs(BPFFS).is_ok_and(|facts| facts.filesystem_type() == BPF_FS_MAGIC)
    }
}
