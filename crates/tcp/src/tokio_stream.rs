//! The same for programs on tokio.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::UnixStream;

use crate::{AlccStream, FlowHandle};

/// An [`AlccStream`] on tokio.
#[derive(Debug)]
pub struct AsyncAlccStream {
    local: UnixStream,
    flow: FlowHandle,
}

impl AsyncAlccStream {
    /// Wraps a stream. To be called within a tokio runtime.
    ///
    /// # Errors
    /// When the runtime cannot take the descriptor.
    pub fn new(stream: AlccStream) -> io::Result<Self> {
        let (local, flow) = stream.into_parts();
        local.set_nonblocking(true)?;
        Ok(Self { local: UnixStream::from_std(local)?, flow })
    }

    /// The flow: figures and events.
    pub fn flow(&self) -> &FlowHandle {
        &self.flow
    }
}

impl AsyncRead for AsyncAlccStream {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.local).poll_read(context, buffer)
    }
}

impl AsyncWrite for AsyncAlccStream {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.local).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.local).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.local).poll_shutdown(context)
    }
}
