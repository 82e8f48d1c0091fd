//! What can go wrong with an emulated link.

use std::ffi::OsString;
use std::io;

use cellpace_path::PathError;
use thiserror::Error;

/// Why there is no link.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmuError {
    /// Neither privilege nor user namespaces.
    #[error(
        "making network namespaces is not permitted ({source}): run as root, or allow user \
         namespaces (sysctl user.max_user_namespaces above 0, kernel.unprivileged_userns_clone=1, \
         kernel.apparmor_restrict_unprivileged_userns=0 where they exist; in a container: \
         --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun)"
    )]
    NotPermitted {
        /// The error of the system.
        source: io::Error,
    },
    /// No TUN devices.
    #[error(
        "no TUN device can be had ({source}): /dev/net/tun must exist (modprobe tun; in a \
         container: --device /dev/net/tun)"
    )]
    NoTun {
        /// The error of the system.
        source: io::Error,
    },
    /// A system call failed that should not.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The error of the system.
        source: io::Error,
    },
    /// Links in links in links.
    #[error("links nest four deep at most: no addresses are left for one more")]
    TooDeep,
    /// Every block of addresses is in use.
    #[error("no addresses are left for another link: all of 100.64.0.0/10 is in use here")]
    NoAddress,
    /// A part of the path is not available.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A port cannot be made reachable.
    #[error("port {port} cannot be exposed: {source}")]
    Expose {
        /// The port.
        port: u16,
        /// The error of the system.
        source: io::Error,
    },
    /// The outside world needs privilege.
    #[error(
        "--nat needs root: without it the far side is a namespace of its own, which no packet can \
         leave"
    )]
    NatNeedsRoot,
    /// The program does not start.
    #[error("cannot run {}: {source}", program.to_string_lossy())]
    Start {
        /// The program.
        program: OsString,
        /// The error of the system.
        source: io::Error,
    },
}

impl EmuError {
    /// For `map_err`: names what was tried.
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl FnOnce(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}
