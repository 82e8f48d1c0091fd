//! Controllers that run in the kernel by themselves: TCP congestion controls of the kernel's own kind, chosen
//! by sysctl, route or setsockopt, which need no process.

mod about;
#[cfg(feature = "install")]
mod install;
#[cfg(feature = "install")]
pub(crate) mod object;
pub(crate) mod removal;
#[cfg(feature = "install")]
mod sockets;

pub use about::{
    InstalledNative, NativeController, default_here, forget_default, installed, is_registered,
    other_defaults, remove, set_default,
};
#[cfg(feature = "install")]
pub use install::{NativeInstallation, install};
#[cfg(feature = "install")]
pub use object::{Done, NativeError};
#[cfg(feature = "install")]
pub use sockets::{SocketState, Watch, move_sockets};
