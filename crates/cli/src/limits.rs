//! What the system lets a process have.

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// As many descriptors as the process may have at all. Who set the lower limit did so for programs
/// that use `select`.
pub(crate) fn raise_descriptor_limit() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    // Callers get along with fewer.
    let _ = setrlimit(Resource::Nofile, raised);
}
