//! What can go wrong with an emulated link.

use std::ffi::OsString;
use std::io;

use cellpace_os::process::start_problem;
use cellpace_path::PathError;
use thiserror::Error;

/// Why there is no link.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum EmuError {
    /// Neither privilege nor user namespaces.
    #[error(
        "user namespaces are forbidden here ({source}), and without them a link needs root: run as \
         root, or allow them (sysctl user.max_user_namespaces above 0, \
         kernel.unprivileged_userns_clone=1, kernel.apparmor_restrict_unprivileged_userns=0 where \
         they exist; in a container: --cap-add NET_ADMIN --cap-add SYS_ADMIN --device /dev/net/tun)"
    )]
    NotPermitted {
        /// The error of the system.
        source: io::Error,
    },
    /// No TUN devices.
    #[error(
        "there is no /dev/net/tun ({source}), which links need: load it with `modprobe tun`; in a \
         container: --device /dev/net/tun"
    )]
    NoTun {
        /// The error of the system.
        source: io::Error,
    },
    /// TUN devices are there, but not for this user.
    #[error(
        "/dev/net/tun may not be opened ({source}): links need it; make it open to all as most \
         systems have it (chmod 666 /dev/net/tun), or run as root; in a container: --device \
         /dev/net/tun"
    )]
    TunClosed {
        /// The error of the system.
        source: io::Error,
    },
    /// A link is asked to change, and none is there.
    #[error("no link of yours runs here; `cellpace link -- CMD` starts one")]
    NoLink,
    /// The link that is to change is not there.
    #[error("there is no link `{name}` of yours here, which $CELLPACE_LINK names")]
    NoSuchLink {
        /// The name as given.
        name: String,
    },
    /// Several links could be meant.
    #[error(
        "several links run here, processes {numbers}: say which one with CELLPACE_LINK={first} in \
         front of the command"
    )]
    SeveralLinks {
        /// Their process numbers.
        numbers: String,
        /// One of them.
        first: String,
    },
    /// A running link did not make a change.
    #[error("the link refuses: {why}")]
    Refused {
        /// Its reason.
        why: String,
    },
    /// The program on the far side failed at once.
    #[error("--far: {program} ended at once with exit code {code}")]
    FarEnded {
        /// The program.
        program: String,
        /// Its exit code; 128 and the signal's number if a signal ended it.
        code: u8,
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
    #[error("cannot run `{}`: {}", program.to_string_lossy(), start_problem(source))]
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
