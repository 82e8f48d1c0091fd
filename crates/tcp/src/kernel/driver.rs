//! This process's place at the kernel driver.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::sync::{Arc, Weak};
use std::thread::JoinHandle;

use cellpace_base::Random;
use cellpace_cc::{ControllerSpec, Setup};
use cellpace_kernel::{Kernel, KernelError, NewControls};

use crate::error::TcpError;
use crate::flow::{FlowHandle, FlowServer, SharedFlow};
use crate::kernel::flow::KernelFlow;
use crate::kernel::remote_socket::RemoteSocket;
use crate::kernel::socket::{KernelSocket, SocketOwner};
use crate::kernel::thread::{DriverCommand, DriverInbox, DriverThread, NewKernelFlow};
use crate::options::DriverKind;
use crate::socket::TcpInfo;
use crate::thread::{now, spawn};

/// A connection that the kernel driver holds, as it is when it is taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct KernelConnection {
    /// Its cookie (`SO_COOKIE`).
    pub cookie: u64,
    /// Payload of a full segment in bytes.
    pub mss: u32,
    /// Headers that go with a segment, in bytes.
    pub overhead: u32,
    /// TCP's count of acknowledged bytes: 1 after an active connect, 0 after a passive one, and
    /// more if something was sent since.
    pub acked: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
}

/// Controllers above connections whose data stay in the kernel: windows go in, acks come out. One
/// thread serves all of them, for as long as this lives.
pub struct KernelDriver {
    inbox: Arc<DriverInbox>,
    slot: (u32, u64),
    new_controls: NewControls,
    name: String,
    /// Any socket of this process, if it may reach itself.
    own: Option<RemoteSocket>,
    thread: Option<JoinHandle<()>>,
}

impl KernelDriver {
    /// Takes a place at the kernel driver that was installed under a name: see
    /// [`cellpace_kernel::NAME`].
    ///
    /// # Errors
    /// Why there is none for us: not installed, not permitted, another version.
    pub fn open(name: &str) -> Result<Self, KernelError> {
        let system = |doing| move |source: io::Error| KernelError::System { doing, source };
        let kernel = Kernel::open_named(name)?;
        let slot = (kernel.slot() as u32, kernel.owner());
        let new_controls = kernel.new_controls();
        let inbox = DriverInbox::new().map_err(|error| system("making an event")(error.into()))?;
        let inbox = Arc::new(inbox);
        let server = DriverThread::new(kernel, inbox.clone());
        let thread =
            spawn("cellpace-kernel", move || server.run()).map_err(system("starting a thread"))?;
        let own = RemoteSocket::new(rustix::process::getpid(), -1).ok();
        Ok(Self { inbox, slot, new_controls, name: name.to_owned(), own, thread: Some(thread) })
    }

    /// The slot at the kernel driver and its owner, for programs in the kernel that put sockets
    /// under our control.
    pub fn slot(&self) -> (u32, u64) {
        self.slot
    }

    /// Puts a connected TCP socket under a controller. The descriptor is not kept. With an `owner` in reach
    /// TCP sends whenever the controller lets it; else it learns of that with the next ack. Bytes that were
    /// acknowledged before are counted as the flow's where `from_start` says so.
    ///
    /// # Errors
    /// When that is no TCP socket, or the kernel driver is gone. The socket is as it was.
    pub fn take(
        &self,
        socket: impl AsFd,
        owner: SocketOwner,
        from_start: bool,
        cc: &ControllerSpec,
        seed: u64,
    ) -> Result<FlowHandle, TcpError> {
        self.check_running()?;
        let socket = socket.as_fd();
        let info = TcpInfo::of(socket).map_err(TcpError::NotTcp)?;
        let (local, peer) = addresses(socket)?;
        let cookie = cellpace_kernel::select_named(socket, &self.name)
            .map_err(|source| TcpError::Setup { what: "TCP_CONGESTION", source })?;
        let connection = KernelConnection {
            cookie,
            mss: info.mss.max(1),
            overhead: info.overhead(local.ip().to_canonical().is_ipv6()) as u32,
            acked: info.bytes_acked,
            local,
            peer,
        };
        let remote = match owner {
            SocketOwner::ThisProcess => {
                self.own.as_ref().map(|own| own.with_descriptor(socket.as_raw_fd()))
            }
            SocketOwner::Remote(remote) => Some(remote),
            SocketOwner::Unknown => None,
        };
        let mut new = self.new_flow(&connection, remote, cc, seed);
        if from_start {
            new.flow.count_from_start();
        }
        // At once, as the program goes on meanwhile. From here on the end is reported, which cannot come
        // before this returns: the caller has the socket.
        let begun = new
            .flow
            .news(now(), false)
            .is_none_or(|(control, _)| self.new_controls.begin(cookie, control).is_ok());
        if !begun {
            new.flow.forget_news();
            new.kept = Some(socket.try_clone_to_owned().map_err(TcpError::NotTcp)?);
        }
        Ok(self.start(new, begun, cc))
    }

    /// Puts a connection that a program in the kernel has given to our slot under a controller. If it
    /// has closed since, the flow ends at once.
    ///
    /// # Errors
    /// When the kernel driver is gone.
    pub fn adopt(
        &self,
        connection: &KernelConnection,
        cc: &ControllerSpec,
        seed: u64,
    ) -> Result<FlowHandle, TcpError> {
        self.check_running()?;
        let new = self.new_flow(connection, None, cc, seed);
        Ok(self.start(NewKernelFlow { may_be_over: true, ..new }, false, cc))
    }

    /// Returns the cookies, in ascending order, of sockets that should be kicked and cannot be: their
    /// controllers have budgets, they are some RTTs old, and have something to send.
    pub fn unreachable(&self) -> Vec<u64> {
        self.inbox.unreachable().iter().copied().collect()
    }

    /// Sets where a program has the socket `cookie`, so that TCP can be kicked: it then sends whenever
    /// the controller lets it. When it is not there any more, it is unreachable again.
    pub fn set_remote_socket(&self, cookie: u64, remote: RemoteSocket) {
        self.inbox.command(DriverCommand::SetRemote(cookie, remote));
    }

    /// Whether any connection is under control: no longer once the kernel driver was removed, or this
    /// process was stopped for so long that another one has its place.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn check_running(&self) -> Result<(), TcpError> {
        if self.is_running() {
            return Ok(());
        }
        let source = io::Error::from_raw_os_error(libc::ENODEV);
        Err(TcpError::Setup { what: "kernel driver", source })
    }

    fn new_flow(
        &self,
        connection: &KernelConnection,
        remote: Option<RemoteSocket>,
        cc: &ControllerSpec,
        seed: u64,
    ) -> NewKernelFlow {
        let (segment, overhead) = (u64::from(connection.mss), u64::from(connection.overhead));
        let random = Random::seeded(seed, 0);
        let setup = Setup { mss: segment + overhead, start: now(), random };
        let controller = cc.build_deferred(setup);
        let mut flow = KernelFlow::new(controller, now(), segment, overhead, connection.acked);
        // Without a way to the socket TCP sends when acks come, and a window has to do.
        flow.can_kick(remote.is_some());
        let KernelConnection { cookie, local, peer, .. } = *connection;
        let socket = Arc::new(KernelSocket::new(cookie, local, peer, remote));
        let shared = Arc::new(SharedFlow::new(Weak::new()));
        NewKernelFlow { flow, socket, shared, kept: None, may_be_over: false }
    }

    /// Gives a flow to the thread. One that is under control has nothing to be done until the first ack.
    fn start(&self, new: NewKernelFlow, is_controlled: bool, cc: &ControllerSpec) -> FlowHandle {
        let (socket, shared) = (new.socket.clone(), new.shared.clone());
        let add = DriverCommand::Add(Box::new(new));
        if is_controlled {
            self.inbox.command_with_next_record(add);
        } else {
            self.inbox.command(add);
        }
        let server = Arc::new(KernelFlowServer { socket, inbox: self.inbox.clone() });
        let (driver, controller) = (DriverKind::Kernel, cc.to_string().into());
        FlowHandle { shared, server, driver, controller, reason: None }
    }
}

/// Both addresses of a connected TCP socket.
pub(super) fn addresses(socket: BorrowedFd<'_>) -> Result<(SocketAddr, SocketAddr), TcpError> {
    let address = |address: io::Result<socket2::SockAddr>| {
        let address = address.map(|address| address.as_socket());
        let none = || io::ErrorKind::Unsupported.into();
        address.and_then(|address| address.ok_or_else(none)).map_err(TcpError::NotTcp)
    };
    let socket = socket2::SockRef::from(&socket);
    Ok((address(socket.local_addr())?, address(socket.peer_addr())?))
}

/// What serves a flow: its socket, and the thread.
struct KernelFlowServer {
    socket: Arc<KernelSocket>,
    inbox: Arc<DriverInbox>,
}

impl FlowServer for KernelFlowServer {
    fn abort(&self, shared: &Arc<SharedFlow>) -> io::Result<()> {
        self.socket.abort(shared)
    }

    fn refresh(&self, _: &Arc<SharedFlow>) {
        self.inbox.command(DriverCommand::Publish(self.socket.cookie()));
    }
}

impl fmt::Debug for KernelFlowServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelFlowServer").field("socket", &self.socket).finish_non_exhaustive()
    }
}

impl fmt::Debug for KernelDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelDriver").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for KernelDriver {
    fn drop(&mut self) {
        self.inbox.command(DriverCommand::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
