//! What can go wrong before the program runs.

use std::io;
use std::path::PathBuf;

use cellpace_os::process::start_problem;
use thiserror::Error;

/// Why a program is not run.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// There is no such program, or it may not be run.
    #[error("cannot run `{program}`: {}", start_problem(source))]
    Start {
        /// The program as written.
        program: String,
        /// The system's reason.
        source: io::Error,
    },
    /// The dynamic loader would not load our library into the program.
    #[error(
        "`{program}` {reason}; use `cellpace attach` (root) or, in front of it, `cellpace proxy`"
    )]
    Unfit {
        /// The file that would run.
        program: String,
        /// Why not, as a half sentence.
        reason: String,
    },
    /// `CELLPACE_PRELOAD` names no file that can be read.
    #[error("CELLPACE_PRELOAD: {}: {source}", .path.display())]
    NoLibrary {
        /// The path as written.
        path: PathBuf,
        /// The system's reason.
        source: io::Error,
    },
    /// This program carries no library to preload.
    #[error(
        "this cellpace is without libcellpace.so, since it was {reason}; or use `cellpace attach` (root) or \
         `cellpace proxy`"
    )]
    NotEmbedded {
        /// How it was built, and what to do.
        reason: &'static str,
    },
    /// There is no folder where the library could be put.
    #[error("no folder for libcellpace.so: {}; set TMPDIR to a folder that only you and root can change",
        .reasons.join("; "))]
    NoFolder {
        /// What is wrong with each that was tried.
        reasons: Vec<String>,
    },
    /// A system call failed.
    #[error("{what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// The system's reason.
        source: io::Error,
    },
}

impl RunError {
    pub(crate) fn system<E: Into<io::Error>>(what: &'static str) -> impl Fn(E) -> Self {
        move |source| Self::System { what, source: source.into() }
    }
}

/// Why connections are no longer taken over by [`Attacher`](crate::Attacher).
#[cfg(feature = "attach")]
#[derive(Debug, Error)]
pub enum AttacherError {
    /// A thread could not be started.
    #[error("starting a thread: {0}")]
    Thread(io::Error),
    /// The kernel driver does not take a connection.
    #[error(transparent)]
    Adopt(cellpace_tcp::TcpError),
    /// New connections do not get the arm of their time.
    #[error("choosing an arm: {0}")]
    Choose(io::Error),
    /// The kernel driver is no longer there.
    #[error(
        "no place at the kernel driver any more: it was removed, or this process was stopped for too \
         long; connections continue without a controller"
    )]
    Gone,
}
