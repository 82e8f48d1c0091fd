//! Why the kernel driver, or a table, is not installed.

use std::io;
use std::path::PathBuf;

use thiserror::Error;

use crate::facts::Obstacle;
use crate::{BtfError, KernelError};

/// Why it was not installed.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum InstallError {
    /// No name for a congestion control and a folder.
    #[error("`{0}` is no name for a congestion control: at most 15 letters, digits, `_` and `-`")]
    Name(String),
    /// No size for a ring buffer.
    #[error("a ring buffer of {0} bytes: it must be a power of two, 64 KiB to 64 MiB")]
    Ring(u32),
    /// No such group.
    #[error("there is no group `{0}`")]
    Group(String),
    /// The kernel does not export its types.
    #[error("this kernel has no BTF ({}: {source}); it needs CONFIG_DEBUG_INFO_BTF", .path.display())]
    NoBtf {
        /// Where we looked.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// The kernel has no congestion controls in BPF, or other ones.
    #[error("this kernel cannot run the kernel driver: {0}")]
    Kernel(#[from] BtfError),
    /// The kernel lacks something.
    #[error("{0}")]
    TooOld(Obstacle),
    /// libbpf or the kernel refused.
    #[error("{doing}: {source}{hint}")]
    Bpf {
        /// What we were doing.
        doing: &'static str,
        /// Why not.
        source: libbpf_rs::Error,
        /// What to do, as a half sentence.
        hint: &'static str,
    },
    /// No such device.
    #[error("there is no network device `{0}` in this network namespace")]
    Device(String),
    /// No links to devices.
    #[error("Linux {0} is too old for prompt acknowledgments: they need TCX, which came with 6.6")]
    NoTcx(String),
    /// The kernel refused a device.
    #[error("attaching to the device {device}: {source}{hint}")]
    Attach {
        /// Its name.
        device: String,
        /// Why not.
        source: io::Error,
        /// What to do, as a half sentence.
        hint: &'static str,
    },
    /// What is there cannot be looked at or removed.
    #[error(transparent)]
    Driver(#[from] KernelError),
    /// The system refused.
    #[error("{doing}: {source}")]
    System {
        /// What we were doing.
        doing: &'static str,
        /// Why not.
        source: io::Error,
    },
}

pub(crate) fn system<E: Into<io::Error>>(doing: &'static str) -> impl FnOnce(E) -> InstallError {
    move |source| InstallError::System { doing, source: source.into() }
}

pub(crate) fn bpf(doing: &'static str) -> impl FnOnce(libbpf_rs::Error) -> InstallError {
    move |source| {
        let hint = match source.kind() {
            libbpf_rs::ErrorKind::PermissionDenied => " (needs root, or CAP_BPF and CAP_PERFMON)",
            libbpf_rs::ErrorKind::AlreadyExists => {
                " (a congestion control of this name is there that is not ours, or that only root may \
                 look at)"
            }
            _ => "",
        };
        InstallError::Bpf { doing, source, hint }
    }
}
