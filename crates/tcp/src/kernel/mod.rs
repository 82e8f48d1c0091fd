//! The kernel driver: windows go into the kernel, acks come out, and the data stay there.

mod batching;
mod driver;
mod flow;
mod remote_socket;
mod socket;
mod thread;

pub use driver::{KernelConnection, KernelDriver};
pub use remote_socket::RemoteSocket;
pub use socket::SocketOwner;
