//! A TCP connection under a controller, for Rust programs.

use std::io::{self, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::time::Duration;

use crate::{FlowHandle, FlowOptions, FlowOutcome, FlowStats, RelayEngine, TcpError};

/// A TCP connection under a controller. Reads and writes as a [`TcpStream`] does.
///
/// Dropping it without [`shutdown`](Self::shutdown) ends the connection as closing a socket does:
/// what was written is still delivered, in the background, as long as the process lives.
#[derive(Debug)]
pub struct AlccStream {
    local: UnixStream,
    flow: FlowHandle,
}

impl AlccStream {
    /// Puts a connection under a controller.
    ///
    /// # Errors
    /// When a resource is missing; the connection is lost then.
    pub fn new(
        engine: &RelayEngine,
        tcp: TcpStream,
        options: &FlowOptions,
    ) -> Result<Self, TcpError> {
        let setup = |source| TcpError::Setup { what: "socket pair", source };
        let (local, far) = UnixStream::pair().map_err(setup)?;
        let flow = engine.adopt(OwnedFd::from(tcp), OwnedFd::from(far), options)?;
        Ok(Self { local, flow })
    }

    /// The flow: figures and events.
    pub fn flow(&self) -> &FlowHandle {
        &self.flow
    }

    /// The flow's figures.
    pub fn stats(&self) -> FlowStats {
        self.flow.stats()
    }

    /// Whether reads and writes wait.
    ///
    /// # Errors
    /// As [`UnixStream::set_nonblocking`].
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        self.local.set_nonblocking(nonblocking)
    }

    /// Ends the sending direction; what was written is still delivered.
    ///
    /// # Errors
    /// As [`UnixStream::shutdown`].
    pub fn finish(&self) -> io::Result<()> {
        self.local.shutdown(Shutdown::Write)
    }

    /// Ends the connection and waits until the peer has acknowledged everything.
    ///
    /// # Errors
    /// When that takes longer than `timeout`, or the connection failed. The connection is
    /// closed all the same.
    pub fn shutdown(self, timeout: Duration) -> Result<(), TcpError> {
        let Self { local, flow } = self;
        // Closing our end is what ends the stream, so that the wait below can end.
        drop(local);
        match flow.wait(timeout) {
            Some(FlowOutcome::Finished) => Ok(()),
            Some(FlowOutcome::Failed(code)) => {
                Err(TcpError::Ended(io::Error::from_raw_os_error(code)))
            }
            Some(FlowOutcome::Alcc(error)) => Err(TcpError::Alcc(error)),
            None => {
                let stats = flow.stats();
                let left =
                    (stats.sent_bytes + stats.queued_bytes).saturating_sub(stats.acked_bytes);
                Err(TcpError::TimedOut { left })
            }
        }
    }

    /// The two parts: the socket to read and write, and the flow.
    pub fn into_parts(self) -> (UnixStream, FlowHandle) {
        (self.local, self.flow)
    }
}

impl Read for AlccStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.local.read(buffer)
    }
}

impl Write for AlccStream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.local.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.local.flush()
    }
}

impl AsFd for AlccStream {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.local.as_fd()
    }
}
