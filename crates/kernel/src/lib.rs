//! The kernel driver: a TCP congestion control in BPF whose window is set from user space, per
//! socket, and that reports every acknowledgment.
//!
//! One privileged step (`cellpace kernel install`) loads the program and pins its
//! maps below `/run/cellpace/bpf`. After it, any process that may open the pins controls sockets that
//! have selected the congestion control, with no privilege and outside their data path:
//!
//! ```no_run
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let socket = std::net::TcpStream::connect("192.0.2.1:80")?;
//! use cellpace_kernel::{SocketControl, Kernel, Policy};
//!
//! let mut kernel = Kernel::open()?;
//! let cookie = kernel.select(&socket)?;
//! let policy = Policy::Hold;
//! kernel.control(cookie, SocketControl { window: 100_000, limit: None, pacing: None, policy })?;
//! loop {
//!     kernel.beat()?; // at least every 250 ms; a second without, and TCP goes by RFC 5681
//!     kernel.drain(1000, |record| println!("{} us", record.rtt_us));
//!     # break;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! The socket is named by its cookie, so that nobody holds a second descriptor of it, which would
//! keep the connection from ending.

#[cfg(feature = "install")]
pub mod attach;
#[cfg(feature = "install")]
pub mod descriptors;
mod driver;
mod error;
pub mod facts;
mod host;
#[cfg(feature = "install")]
pub mod mdi;
pub mod native;
pub mod table;

pub use driver::client::{Kernel, NewControls, kick, select, select_named};
pub use driver::installed::{Installed, PromptAcks, Removed};
pub use driver::layout::{
    KernelRecord, LAYOUT, NAME, Policy, RECORD_BYTES, RecordKind, RecoveryState, SLOTS,
    SocketControl,
};
pub use driver::status::{installed, remove};
#[cfg(feature = "install")]
pub use driver::{install, load};
pub use error::KernelError;
pub use host::bpffs::remove_unfinished;
pub use host::btf::{BtfError, CallbackVariant, variant};
#[cfg(feature = "install")]
pub use host::cgroup;
pub use host::pins::pins;

/// Whether the programs for the kernel are part of this build: the feature `install` was on, and clang
/// was there.
pub const HAS_PROGRAMS: bool = {
    #[cfg(feature = "install")]
    {
        !load::CELLPACE.is_empty()
    }
    #[cfg(not(feature = "install"))]
    {
        false
    }
};
