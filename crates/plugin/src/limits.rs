//! What a module may use, and why a call into it failed: the same for both engines.

use std::fmt;

/// Memory of one flow at most, in bytes.
pub(crate) const MAX_MEMORY: usize = 16 << 20;
/// Elements of a table at most.
pub(crate) const MAX_TABLE: usize = 10_000;
/// Tables of one flow at most.
pub(crate) const MAX_TABLES: usize = 4;
/// What one call may do: about as many instructions.
pub(crate) const MAX_STEPS: u64 = 100_000_000;
/// The stack of one call, in bytes: those of threads that run flows are larger.
pub(crate) const MAX_STACK: usize = 128 << 10;

/// What a module exports.
pub(crate) enum Export {
    /// A memory with addresses of 32 bits.
    Memory,
    /// A function and its type, as [`signature`] writes it.
    Function(String),
    Other,
}

/// A function's type: `(i32, i32)`, or `() -> i32`.
pub(crate) fn signature(takes: &[String], gives: &[String]) -> String {
    match gives {
        [] => format!("({})", takes.join(", ")),
        gives => format!("({}) -> {}", takes.join(", "), gives.join(", ")),
    }
}

/// Why a call into a module failed.
pub(crate) enum CallError {
    Steps,
    Stack,
    Memory,
    /// It called abort or panicked, or came to `unreachable`.
    Aborted,
    Other(String),
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Steps => {
                write!(f, "more than {} million steps in one call", MAX_STEPS / 1_000_000)
            }
            Self::Stack => write!(f, "more than the {} kB of its stack", MAX_STACK >> 10),
            Self::Memory => {
                write!(f, "more than the {} MB of memory that a flow has", MAX_MEMORY >> 20)
            }
            Self::Aborted => f.write_str("it gave up (abort, panic or `unreachable`)"),
            Self::Other(why) => f.write_str(why),
        }
    }
}

/// The error of what is no module, or one that needs what this engine lacks.
pub(crate) fn not_compiled(why: &str) -> String {
    format!("this is no module that runs here: {}", why.lines().next().unwrap_or_default())
}

/// The error of a module with an import: there is nothing to import.
pub(crate) fn imports(from: &str, name: &str) -> String {
    format!("it imports `{from}.{name}`; a controller has nothing to import")
}
