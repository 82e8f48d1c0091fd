//! What the running kernel has of BPF: objects, pins, types, and what is registered.

pub(crate) mod bpf;
pub(crate) mod bpffs;
pub(crate) mod btf;
#[cfg(feature = "install")]
pub mod cgroup;
pub(crate) mod clock;
pub(crate) mod ids;
pub(crate) mod pins;
pub(crate) mod registered;
