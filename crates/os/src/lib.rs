//! What several crates have of Linux: netlink and nftables, sockets, descriptors, signals,
//! processes and service managers. Internal to the workspace.
//!
//! What safe wrappers exist for is called where it is needed; here is what takes more than a call.

pub mod descriptors;
pub mod netlink;
pub mod nftables;
pub mod process;
pub mod service;
pub mod signals;
pub mod socket;
