//! The kernel driver: a TCP congestion control in BPF whose window is set from user space, per
//! socket, and that reports every acknowledgment.

#[cfg(feature = "install")]
mod load;

#[cfg(feature = "install")]
pub use load::{CELLPACE, Variant, open_object};
