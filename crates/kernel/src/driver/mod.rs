//! The kernel driver: what its program shares with user space, clients, installation.

pub(crate) mod client;
#[cfg(feature = "install")]
pub mod install;
#[cfg(feature = "install")]
pub(crate) mod install_error;
pub(crate) mod installed;
pub(crate) mod layout;
#[cfg(feature = "install")]
pub mod load;
#[cfg(feature = "install")]
mod prompt;
pub(crate) mod ring;
pub(crate) mod shared_page;
pub(crate) mod status;
