//! The kernel driver: a TCP congestion control in BPF whose window is set from user space, per
//! socket, and that reports every acknowledgment.

#[cfg(feature = "install")]
mod load;
#[cfg(feature = "install")]
mod mdi;

#[cfg(feature = "install")]
pub use load::{CELLPACE, Variant, open_object};
#[cfg(feature = "install")]
pub use mdi::{
    LoadedMdi, MDI_NAME, MdiError, MdiEvent, MdiInstalled, MdiModel, install_mdi, remove_mdi,
};
