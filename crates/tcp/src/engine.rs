//! The thread that serves all flows.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::net::UnixStream;
use std::sync::Arc;

use crate::{FlowHandle, FlowOptions, TcpError};

/// Serves the flows of a process.
#[derive(Debug, Clone, Default)]
pub struct Engine {}

impl Engine {
    /// An engine without flows, and without a thread until there is one.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes over a connected TCP socket. The application reads and writes the other end of the
    /// pair that `local` is one end of.
    ///
    /// # Errors
    /// When `tcp` is not a connected TCP socket, or a resource is missing. Both descriptors are
    /// closed then: who wants to go on without a controller keeps a duplicate.
    pub fn adopt(
        &self,
        tcp: OwnedFd,
        local: OwnedFd,
        options: &FlowOptions,
    ) -> Result<FlowHandle, TcpError> {
        let _ = options;
        let tcp = Arc::new(TcpStream::from(tcp));
        let local = Arc::new(UnixStream::from(local));
        let (tcp2, local2) = (tcp.clone(), local.clone());
        std::thread::spawn(move || {
            copy(&*local, &*tcp);
            let _ = tcp.shutdown(Shutdown::Write);
        });
        std::thread::spawn(move || {
            copy(&*tcp2, &*local2);
            let _ = local2.shutdown(Shutdown::Write);
        });
        Ok(FlowHandle { shared: Arc::default() })
    }
}

fn copy(mut from: impl Read, mut to: impl Write) {
    let mut buffer = vec![0; 1 << 16];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if to.write_all(&buffer[..count]).is_err() {
            return;
        }
    }
}
