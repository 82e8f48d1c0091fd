//! Why there is no kernel driver.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::driver::layout::{LAYOUT, SLOTS};

/// What lets this program have the driver.
const HOW_TO_INSTALL: &str = how_to_install(crate::HAS_PROGRAMS);

/// A program without the driver names no command that would fail.
const fn how_to_install(has_programs: bool) -> &'static str {
    if has_programs {
        return "root installs it with `cellpace kernel install`";
    }
    "this cellpace was built without it: build it with the feature `kernel`, one of the default ones, \
     and clang"
}

/// Why the kernel driver cannot be used, or not any more.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KernelError {
    /// Nobody has installed it, or it has been removed before we came.
    #[error("the kernel driver is not installed ({HOW_TO_INSTALL})")]
    NotInstalled,
    /// The congestion control is registered, and it is ours, but clients cannot reach its maps.
    #[error("registered, but its pins are gone: `cellpace kernel remove` removes it")]
    PinsGone,
    /// A congestion control with its name is registered, but has no pins that we see, and only root
    /// (CAP_SYS_ADMIN) may look whose it is.
    #[error(
        "a congestion control `{0}` is registered, but no pins of it are to be seen here; root sees \
         more by `cellpace kernel status` (CAP_SYS_ADMIN)"
    )]
    Unseen(String),
    /// A congestion control with its name is registered, and is not ours.
    #[error("a congestion control `{0}` is registered that is not the kernel driver of cellpace")]
    Foreign(String),
    /// The place of a pin is taken.
    #[error("{}: this is no congestion control of cellpace; remove it, or what made it", .0.display())]
    ForeignPin(PathBuf),
    /// Only the process that registered it may unregister it.
    #[error(
        "`{0}` stays registered: another process holds it (`bpftool link` shows which), and before \
         Linux 6.11 only its end removes it"
    )]
    Held(String),
    /// It is there for others.
    #[error("the kernel driver is installed, but not for this user: {} is open to {who}", .path.display())]
    NoPermission {
        /// What may not be opened.
        path: PathBuf,
        /// Who may, in words.
        who: String,
    },
    /// It was installed by another version of cellpace.
    #[error(
        "the kernel driver was installed by cellpace {version} with layout {layout}, this one needs \
         layout {LAYOUT}: run `cellpace kernel install` again"
    )]
    OtherVersion {
        /// Of whoever installed it.
        version: String,
        /// Of what is there.
        layout: u32,
    },
    /// As many processes as possible control sockets already.
    #[error(
        "{SLOTS} processes control sockets through the kernel driver already, which is all it can"
    )]
    NoSlot,
    /// The kernel has none of it.
    #[error("this kernel has no kernel driver: {0}")]
    Unsupported(String),
    /// Heartbeats were missing for so long that another process got our slot.
    #[error("no heartbeat for too long: another process has the slot now; open the driver again")]
    SlotLost,
    /// `cellpace kernel remove` was run meanwhile. Sockets look after themselves.
    #[error("the kernel driver was removed")]
    Removed,
    /// So many sockets are under control that there is room for no more.
    #[error("too many sockets are under control by the kernel driver")]
    TooManySockets,
    /// No controller runs in the kernel by itself under this name.
    #[error("congestion control `{0}` is not installed")]
    Absent(String),
    /// The controller in the kernel is of another build of cellpace.
    #[error("`{name}` was installed by another build, cellpace {version}: install it again")]
    OtherProgram {
        /// The congestion control.
        name: String,
        /// Of the cellpace that installed it.
        version: String,
    },
    /// The system refused.
    #[error("{doing}: {source}")]
    System {
        /// What we were doing.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

impl KernelError {
    pub(crate) fn system(doing: &'static str) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { doing, source }
    }
}

#[cfg(test)]
mod tests {
    use super::how_to_install;

    #[test]
    fn who_lacks_the_programs_is_not_told_to_install_them() {
        assert!(how_to_install(true).contains("cellpace kernel install"));
        let missing = how_to_install(false);
        assert!(missing.contains("was built without") && !missing.contains("kernel install"));
    }
}
