//! The kernel driver: windows go into the kernel, acks come out, and the data stay there.

mod driver;
mod flow;
mod remote_socket;

pub use driver::{KernelConnection, KernelDriver};
pub use remote_socket::RemoteSocket;
