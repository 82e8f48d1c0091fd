//! The one place that decides which driver a connection gets.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use crate::kernel::SocketOwner;
use crate::{FlowDriver, FlowHandle, FlowOptions, RelayEngine, TcpError};

/// Puts connections under controllers, each by the driver that it gets: the one of the options, and
/// the gate where that is the kernel driver and cannot take the connection.
#[derive(Debug, Clone)]
pub struct FlowControl {
    engine: RelayEngine,
    options: FlowOptions,
}

/// A connection that is to be put under a controller.
#[derive(Debug)]
pub struct NewFlow {
    /// Added to the seed of the options, so that flows differ.
    pub number: u64,
    /// The TCP socket.
    pub tcp: Arc<OwnedFd>,
    /// We opened the connection.
    pub outgoing: bool,
    /// Whatever was sent before counts as the flow's.
    pub from_start: bool,
}

impl FlowControl {
    /// Control as `options` say, by `engine` where data are relayed.
    pub fn new(engine: RelayEngine, options: FlowOptions) -> Self {
        Self { engine, options }
    }

    /// Whether a connection may stay with the program that has it, its data unrelayed.
    pub fn uses_kernel_driver(&self) -> bool {
        matches!(self.options.driver, FlowDriver::Kernel(_))
    }

    /// Whether another flow would be taken now, whichever driver it gets: see
    /// [`RelayEngine::has_room`].
    pub fn has_room(&self, coming: usize) -> bool {
        self.engine.has_room(coming)
    }

    /// Puts a connected TCP socket under a controller. The kernel driver leaves it with `owner`; where
    /// data are relayed, `local` provides our end of the application's socket pair.
    ///
    /// # Errors
    /// As [`RelayEngine::adopt`], and when `local` fails. The socket is as it was.
    pub fn take(
        &self,
        flow: NewFlow,
        owner: SocketOwner,
        local: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<FlowHandle, TcpError> {
        if let FlowDriver::Kernel(driver) = &self.options.driver {
            let (cc, seed) = (&self.options.cc, self.seed(&flow));
            if let Ok(handle) = driver.take(&flow.tcp, owner, flow.from_start, cc, seed) {
                return Ok(handle);
            }
        }
        let setup = |source| TcpError::Setup { what: "socket pair", source };
        self.relay(flow, local().map_err(setup)?)
    }

    /// Puts a connection whose application already has a socket pair under a controller, by a driver
    /// that relays data.
    ///
    /// # Errors
    /// As [`RelayEngine::adopt`].
    pub fn relay(&self, flow: NewFlow, local: OwnedFd) -> Result<FlowHandle, TcpError> {
        let options = FlowOptions {
            cc: self.options.cc.clone(),
            seed: self.seed(&flow),
            driver: self.options.driver.clone().for_connection(flow.outgoing),
        };
        self.engine.adopt(flow.tcp, local, &options)
    }

    fn seed(&self, flow: &NewFlow) -> u64 {
        self.options.seed.wrapping_add(flow.number)
    }
}
