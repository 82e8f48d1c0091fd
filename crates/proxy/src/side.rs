//! One side of a connection: plain TCP, or TCP under a controller, by the gate or in the kernel.

use std::io;
use std::net::{Shutdown, TcpStream as StdTcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream as StdUnixStream;
use std::sync::Arc;
use std::time::Duration;

use cellpace_tcp::{
    FlowControl, FlowHandle, FlowOutcome, NewFlow, ProgramSocket, SocketOwner, TcpError,
    TcpFigures, unacknowledged,
};
use socket2::{SockRef, TcpKeepalive};
use tokio::io::Interest;
use tokio::net::{TcpStream, UnixStream};
use tokio::time::timeout;

/// Interval at which the state of a controlled connection is polled where no event reports it.
const GLANCE: Duration = Duration::from_millis(100);
/// Peers that vanished without FIN or RST are detected after this time and a few probes.
const KEEPALIVE: Duration = Duration::from_secs(60);

/// One side.
#[derive(Debug)]
pub(crate) enum ConnectionSide {
    Plain(TcpStream),
    /// The kernel driver has the window; the data go as in plain TCP.
    InKernel(TcpStream, FlowHandle),
    Controlled(Controlled),
}

#[derive(Debug)]
pub(crate) struct Controlled {
    local: UnixStream,
    flow: FlowHandle,
    /// The same connection as the engine's. It distinguishes a reset from an end.
    tcp: Arc<OwnedFd>,
}

/// Sets the options of a TCP connection of either side.
pub(crate) fn prepare(tcp: &TcpStream) {
    // A connection works without these, too.
    let _ = tcp.set_nodelay(true);
    let probes = TcpKeepalive::new().with_time(KEEPALIVE);
    let _ = SockRef::from(tcp).set_tcp_keepalive(&probes);
}

/// Gives a connection a congestion control of the kernel.
pub(crate) fn set_congestion_control(tcp: &TcpStream, name: &str) -> io::Result<()> {
    SockRef::from(tcp).set_tcp_congestion(name.as_bytes())
}

impl ConnectionSide {
    /// Puts a connection under a controller; `outgoing`: we opened it. Where that fails, the
    /// connection stays as it is, and the reason comes with it.
    pub(crate) fn control(
        tcp: TcpStream,
        control: &FlowControl,
        number: u64,
        outgoing: bool,
    ) -> (io::Result<Self>, Option<TcpError>) {
        let tcp = match tcp.into_std() {
            Ok(tcp) => Arc::new(OwnedFd::from(tcp)),
            Err(error) => return (Err(error), None),
        };
        let mut local = None;
        let flow = NewFlow { number, tcp: tcp.clone(), outgoing, from_start: false };
        let taken = control.take(flow, ProgramSocket::Undecided, SocketOwner::ThisProcess, || {
            let (near, far) = StdUnixStream::pair()?;
            near.set_nonblocking(true)?;
            local = Some(near);
            Ok(far.into())
        });
        match (taken, local) {
            (Err(error), _) => (plain(tcp).map(Self::Plain), Some(error)),
            (Ok(flow), None) => (plain(tcp).map(|tcp| Self::InKernel(tcp, flow)), None),
            (Ok(flow), Some(local)) => {
                let side = |local| Self::Controlled(Controlled { local, flow, tcp });
                (UnixStream::from_std(local).map(side), None)
            }
        }
    }

    /// The flow, where there is one.
    pub(crate) fn flow(&self) -> Option<&FlowHandle> {
        match self {
            Self::Plain(_) => None,
            Self::InKernel(_, flow) => Some(flow),
            Self::Controlled(side) => Some(&side.flow),
        }
    }

    /// What TCP reports of it.
    pub(crate) fn figures(&self) -> io::Result<TcpFigures> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => TcpFigures::of(tcp.as_fd()),
            Self::Controlled(side) => TcpFigures::of(side.tcp.as_fd()),
        }
    }

    pub(crate) async fn readable(&self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => tcp.readable().await,
            Self::Controlled(side) => side.local.readable().await,
        }
    }

    pub(crate) async fn writable(&self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => tcp.writable().await,
            Self::Controlled(side) => side.local.writable().await,
        }
    }

    /// Reads. `finished` is whether we have ended the other direction already: the state of a
    /// connection is the same after a reset and after the end of both directions.
    pub(crate) fn try_read(&self, buffer: &mut [u8], finished: bool) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => tcp.try_read(buffer),
            Self::Controlled(side) => match side.local.try_read(buffer) {
                Ok(0) if side.is_reset(finished) => Err(io::ErrorKind::ConnectionReset.into()),
                result => result,
            },
        }
    }

    pub(crate) fn try_write(&self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => tcp.try_write(bytes),
            Self::Controlled(side) => side.local.try_write(bytes),
        }
    }

    /// Ends the sending direction.
    pub(crate) fn finish(&self) -> io::Result<()> {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => {
                SockRef::from(tcp).shutdown(Shutdown::Write)
            }
            Self::Controlled(side) => SockRef::from(&side.local).shutdown(Shutdown::Write),
        }
    }

    /// Waits until the connection is reset. For a side from which the end has been read, which
    /// would not report it by itself any more.
    pub(crate) async fn broken(&self) {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => {
                // An error here is one of the runtime, which is about to end.
                let _ = tcp.ready(Interest::ERROR).await;
            }
            Self::Controlled(side) => {
                while !side.is_reset(false) {
                    tokio::time::sleep(GLANCE).await;
                }
            }
        }
    }

    /// Bytes for the peer wait in the proxy, or none do any more. While some do, the kernel resets
    /// the connection if the proxy is killed, so that the peer does not take what it got for
    /// everything. A flow of the engine has that done by the engine.
    pub(crate) fn hold(&self, waits: bool) {
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => {
                // Where this fails, the connection is over.
                let _ = SockRef::from(tcp).set_linger(waits.then_some(Duration::ZERO));
            }
            Self::Controlled(_) => {}
        }
    }

    /// Drops what was not delivered, and lets the peer know by a reset.
    pub(crate) fn abort(self) {
        // Nothing can be done where this fails: the connection is then ended in order.
        match self {
            Self::Plain(tcp) | Self::InKernel(tcp, _) => {
                let _ = SockRef::from(&tcp).set_linger(Some(Duration::ZERO));
            }
            Self::Controlled(side) => {
                let _ = side.flow.abort();
            }
        }
    }

    /// Waits for `most` until everything is delivered, after both directions have ended. Returns
    /// false if something is left that nobody will deliver once we are gone: for plain TCP that is
    /// the kernel's business, and for one under the kernel driver, too, which only goes on more slowly
    /// where its controller cannot make TCP send between acks any more.
    pub(crate) async fn delivered(&self, most: Duration) -> bool {
        let is_over = || match self {
            Self::Plain(_) => true,
            Self::InKernel(tcp, _) => {
                !is_connected(tcp) || unacknowledged(tcp.as_fd()).is_ok_and(|bytes| bytes == 0)
            }
            Self::Controlled(side) => side.flow.outcome().is_some() || !is_connected(&side.tcp),
        };
        let delivered = timeout(most, async {
            while !is_over() {
                tokio::time::sleep(GLANCE / 10).await;
            }
        });
        delivered.await.is_ok() || !matches!(self, Self::Controlled(_))
    }
}

/// Whether the kernel still holds the connection: not after a reset, nor when both directions have
/// ended and are acknowledged.
fn is_connected(tcp: &impl AsFd) -> bool {
    SockRef::from(tcp).peer_addr().is_ok()
}

/// A connection that nobody else has.
fn plain(tcp: Arc<OwnedFd>) -> io::Result<TcpStream> {
    let tcp = Arc::try_unwrap(tcp).or_else(|tcp| tcp.try_clone())?;
    let tcp = StdTcpStream::from(tcp);
    tcp.set_nonblocking(true)?;
    TcpStream::from_std(tcp)
}

impl Controlled {
    fn is_reset(&self, finished: bool) -> bool {
        match self.flow.outcome() {
            Some(FlowOutcome::Failed(_) | FlowOutcome::Alcc(_)) => true,
            Some(FlowOutcome::Finished) => false,
            None => !finished && !is_connected(&self.tcp),
        }
    }
}
