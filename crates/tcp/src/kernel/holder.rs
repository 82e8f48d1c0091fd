//! The kernel driver or a native controller, behind one interface.

use std::os::fd::AsFd;
use std::sync::Arc;

use cellpace_cc::ControllerSpec;

use crate::error::TcpError;
use crate::flow::FlowHandle;
use crate::kernel::driver::{KernelConnection, KernelDriver};
use crate::kernel::native::NativeDriver;
use crate::kernel::socket::SocketOwner;

/// What holds windows in the kernel.
#[derive(Debug, Clone)]
pub enum KernelHolder {
    /// The kernel driver, as a controller in this process tells it.
    Driver(Arc<KernelDriver>),
    /// The controller itself is there.
    Native(Arc<NativeDriver>),
}

impl KernelHolder {
    /// Puts a connected TCP socket under a controller: see [`KernelDriver::take`]. A controller of
    /// the kernel's own is what it is: `cc` names it.
    ///
    /// # Errors
    /// As [`KernelDriver::take`] and [`NativeDriver::take`]. The socket is as it was.
    pub fn take(
        &self,
        socket: impl AsFd,
        owner: SocketOwner,
        from_start: bool,
        cc: &ControllerSpec,
        seed: u64,
    ) -> Result<FlowHandle, TcpError> {
        match self {
            Self::Driver(driver) => driver.take(socket, owner, from_start, cc, seed),
            Self::Native(native) => native.take(socket, owner, from_start, cc),
        }
    }

    /// Takes over a connection that a program in the kernel has given to this process.
    ///
    /// # Errors
    /// As [`KernelDriver::adopt`].
    pub fn adopt(
        &self,
        connection: &KernelConnection,
        cc: &ControllerSpec,
        seed: u64,
    ) -> Result<FlowHandle, TcpError> {
        match self {
            Self::Driver(driver) => driver.adopt(connection, cc, seed),
            Self::Native(native) => Ok(native.adopt(connection, cc)),
        }
    }

    /// Whether any connection is, or its end will be noticed: see [`KernelDriver::is_running`].
    pub fn is_running(&self) -> bool {
        match self {
            Self::Driver(driver) => driver.is_running(),
            Self::Native(native) => native.is_running(),
        }
    }
}
