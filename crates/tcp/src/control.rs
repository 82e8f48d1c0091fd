//! Puts connections under controllers, each by the driver that [`DriverChoice::place`] decides on.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use cellpace_cc::ControllerSpec;

use crate::error::PlacementReason;
use crate::kernel::SocketOwner;
use crate::options::GateOptions;
use crate::placement::{DriverChoice, Placement, ProgramSocket};
use crate::{FlowDriver, FlowHandle, FlowOptions, KernelHolder, RelayEngine, TcpError};

/// How connections are to be controlled.
#[derive(Debug, Clone)]
pub struct ControlOptions {
    /// The controller.
    pub cc: ControllerSpec,
    /// Seed of the first flow's own random source; each flow's is this one plus its number.
    pub seed: u64,
    /// Which drivers they may get.
    pub drivers: DriverChoice<KernelHolder>,
}

impl ControlOptions {
    /// The defaults for a controller: the gate.
    pub fn new(cc: ControllerSpec) -> Self {
        let gate = FlowDriver::Gate(GateOptions::default());
        Self { cc, seed: 1, drivers: DriverChoice::Relay(gate, None) }
    }
}

/// Puts connections under controllers.
#[derive(Debug, Clone)]
pub struct FlowControl {
    engine: RelayEngine,
    options: ControlOptions,
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
    pub fn new(engine: RelayEngine, options: ControlOptions) -> Self {
        Self { engine, options }
    }

    /// Whether a connection may stay with the program that has it, its data unrelayed.
    pub fn stays_in_kernel(&self) -> bool {
        self.options.drivers.kernel().is_some()
    }

    /// Whether another flow would be taken now, whichever driver it gets: see
    /// [`RelayEngine::has_room`].
    pub fn has_room(&self, coming: usize) -> bool {
        self.engine.has_room(coming)
    }

    /// Puts a connected TCP socket under a controller. What is in the kernel leaves it with `owner`; where
    /// data are relayed, `local` provides our end of the application's socket pair. It is not called
    /// for a `program` that already uses the TCP socket.
    ///
    /// # Errors
    /// As [`RelayEngine::adopt`], when `local` fails, and [`TcpError::NotPlaced`] when no driver that
    /// was chosen takes the connection. The socket is as it was.
    pub fn take(
        &self,
        flow: NewFlow,
        program: ProgramSocket,
        owner: SocketOwner,
        local: impl FnOnce() -> io::Result<OwnedFd>,
    ) -> Result<FlowHandle, TcpError> {
        // A seed for each flow, so that flows that draw do not do the same at the same time.
        let (cc, seed) = (&self.options.cc, self.options.seed.wrapping_add(flow.number));
        let refused = |error: TcpError| PlacementReason::Refused(error.to_string().into());
        let placement = self.options.drivers.place(program, |driver| {
            driver.take(&flow.tcp, owner, flow.from_start, cc, seed).map_err(refused)
        });
        let (driver, reason) = match placement {
            Placement::Kernel(handle) => return Ok(handle),
            Placement::Relay(driver, reason) => (driver, reason),
            Placement::Plain(reason) => return Err(TcpError::NotPlaced(reason)),
        };
        let local = local().map_err(|source| TcpError::Setup { what: "socket pair", source })?;
        let driver = driver.for_connection(flow.outgoing);
        let options = FlowOptions { cc: cc.clone(), seed, driver };
        let handle = self.engine.adopt(flow.tcp, local, &options)?;
        Ok(FlowHandle { reason, ..handle })
    }

    /// Checks that a connection may be relayed, before its program gets an end of a socket pair while
    /// TCP still connects.
    ///
    /// # Errors
    /// [`TcpError::NotPlaced`], where connections may get the kernel driver only.
    pub fn check_relay(&self) -> Result<(), TcpError> {
        match self
            .options
            .drivers
            .place(ProgramSocket::Local, |_| Err::<(), _>(PlacementReason::NotOpen))
        {
            Placement::Plain(reason) => Err(TcpError::NotPlaced(reason)),
            Placement::Kernel(()) | Placement::Relay(..) => Ok(()),
        }
    }
}
