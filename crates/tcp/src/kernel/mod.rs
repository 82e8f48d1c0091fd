//! Connections whose data stay in the kernel: under the kernel driver windows go in and acks come out; a
//! controller that the kernel has by itself needs neither.

mod batching;
mod driver;
mod ends;
mod flow;
mod holder;
mod native;
mod remote_socket;
mod sock_diag;
mod socket;
mod thread;

pub use driver::{KernelConnection, KernelDriver};
pub(crate) use ends::{SocketNews, follow_ends};
pub use holder::KernelHolder;
pub use native::NativeDriver;
pub use remote_socket::RemoteSocket;
pub(crate) use sock_diag::SocketName;
pub use socket::SocketOwner;
