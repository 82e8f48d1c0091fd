//! Connections under a controller that the kernel has by itself: TCP's congestion control is chosen, and
//! nothing is done for them until their figures are asked for or they end.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::TcpListener;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_os::netlink::Netlink;
use rustix::event::{EventfdFlags, eventfd};

use crate::error::TcpError;
use crate::flow::{FlowHandle, FlowOutcome, FlowServer, FlowStats, SharedFlow};
use crate::kernel::driver::{KernelConnection, addresses};
use crate::kernel::ends::{SocketNews, follow_ends};
use crate::kernel::socket::{KernelSocket, SocketOwner};
use crate::options::DriverKind;
use crate::relay::CongestionControlName;
use crate::socket::{TcpInfo, namespace_cookie};
use crate::thread::{now, spawn};

/// Puts connections under a congestion control of the kernel, and follows them until they end.
pub struct NativeDriver {
    name: String,
    /// Of the network namespace whose ends of connections are reported.
    namespace: Option<u64>,
    flows: Arc<NativeFlows>,
    wake: Arc<OwnedFd>,
    thread: Option<JoinHandle<()>>,
}

impl NativeDriver {
    /// For connections of this thread's network namespace, under the congestion control `name`.
    ///
    /// # Errors
    /// When there is none of that name, this process may not select it, or the kernel does not report when
    /// connections end.
    pub fn open(name: &str) -> io::Result<Self> {
        // A socket that is good for nothing else.
        let probe = TcpListener::bind("127.0.0.1:0")?;
        cellpace_kernel::select_named(&probe, name)?;
        let ends = Netlink::open_ends_of_tcp()?;
        let asks = Mutex::new(Netlink::open_sock_diag()?);
        let flows = Arc::new(NativeFlows { asks, known: Mutex::default() });
        let wake = Arc::new(eventfd(0, EventfdFlags::CLOEXEC)?);
        let (theirs, woken) = (flows.clone(), wake.clone());
        let thread = spawn("cellpace-native", move || {
            follow_ends(&ends, &woken, None, |news| theirs.on(&news));
        })?;
        Ok(Self {
            name: name.to_owned(),
            namespace: namespace_cookie(probe.as_fd()),
            flows,
            wake,
            thread: Some(thread),
        })
    }

    /// Name of the congestion control.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Puts a connected TCP socket under the controller; as [`KernelDriver::take`](super::KernelDriver::take).
    /// `cc` names the controller in what is reported.
    ///
    /// # Errors
    /// When that is no TCP socket, one of another network namespace, or the kernel has the controller no
    /// longer. The socket is as it was.
    pub fn take(
        &self,
        socket: impl AsFd,
        owner: SocketOwner,
        from_start: bool,
        cc: &ControllerSpec,
    ) -> Result<FlowHandle, TcpError> {
        let socket = socket.as_fd();
        if namespace_cookie(socket) != self.namespace {
            let source = io::Error::other("it is in another network namespace");
            return Err(TcpError::Setup { what: "the end of the connection", source });
        }
        let info = TcpInfo::of(socket).map_err(TcpError::NotTcp)?;
        let (local, peer) = addresses(socket)?;
        let cookie = cellpace_kernel::select_named(socket, &self.name)
            .map_err(|source| TcpError::Setup { what: "TCP_CONGESTION", source })?;
        let remote = match owner {
            SocketOwner::Remote(remote) => Some(remote),
            // The program's own close is the reset.
            SocketOwner::ThisProcess | SocketOwner::Unknown => None,
        };
        let overhead = info.overhead(local.ip().to_canonical().is_ipv6());
        let before = if from_start { Counted::default() } else { Counted::of(&info) };
        let socket = KernelSocket::new(cookie, local, peer, remote);
        Ok(self.follow(socket, overhead, before, cc))
    }

    /// Follows a connection that a program in the kernel has put under the controller. One that has closed
    /// since ends with the next question about it.
    pub fn adopt(&self, connection: &KernelConnection, cc: &ControllerSpec) -> FlowHandle {
        let KernelConnection { cookie, local, peer, overhead, .. } = *connection;
        let socket = KernelSocket::new(cookie, local, peer, None);
        let handle = self.follow(socket, overhead.into(), Counted::default(), cc);
        self.flows.end_if_gone(cookie);
        handle
    }

    /// Whether ends of connections are still noticed.
    pub fn is_running(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    fn follow(
        &self,
        socket: KernelSocket,
        overhead: u64,
        before: Counted,
        cc: &ControllerSpec,
    ) -> FlowHandle {
        let shared = Arc::new(SharedFlow::new(Weak::new()));
        let name = CongestionControlName::named(&self.name);
        let cookie = socket.cookie();
        let flow = NativeFlow { socket, shared: shared.clone(), overhead, before, name };
        let flow = Arc::new(flow);
        self.flows.known().insert(cookie, flow.clone());
        let server = Arc::new(NativeServer { flow, flows: self.flows.clone() });
        let (driver, controller) = (DriverKind::Native, cc.to_string().into());
        FlowHandle { shared, server, driver, controller, reason: None }
    }
}

impl fmt::Debug for NativeDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeDriver").field("name", &self.name).finish_non_exhaustive()
    }
}

impl Drop for NativeDriver {
    /// Connections keep to the controller.
    fn drop(&mut self) {
        // It cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The connections that are open.
struct NativeFlows {
    /// Held while an answer becomes figures, so that older ones never replace the last ones.
    asks: Mutex<Netlink>,
    known: Mutex<HashMap<u64, Arc<NativeFlow>>>,
}

impl NativeFlows {
    fn known(&self) -> MutexGuard<'_, HashMap<u64, Arc<NativeFlow>>> {
        // A panic elsewhere leaves flows, whose ends are noticed nonetheless.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn asks(&self) -> MutexGuard<'_, Netlink> {
        self.asks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn on(&self, news: &SocketNews) {
        match news {
            SocketNews::Gone(cookie, info) => self.on_end(*cookie, info),
            SocketNews::SomeGone => self.end_all_that_are_gone(),
            SocketNews::Look => {}
        }
    }

    /// The kernel reports a socket that is gone, with TCP's last figures.
    fn on_end(&self, cookie: u64, info: &TcpInfo) {
        let Some(flow) = self.known().remove(&cookie) else { return };
        let _last = self.asks();
        flow.publish(info);
        flow.shared.end(FlowOutcome::Finished);
    }

    fn end_all_that_are_gone(&self) {
        let cookies: Vec<u64> = self.known().keys().copied().collect();
        cookies.into_iter().for_each(|cookie| self.end_if_gone(cookie));
    }

    fn end_if_gone(&self, cookie: u64) {
        let Some(flow) = self.known().get(&cookie).cloned() else { return };
        if matches!(flow.socket.name.ask(&mut self.asks()), Ok(None)) {
            self.known().remove(&cookie);
            flow.shared.end(FlowOutcome::Finished);
        }
    }
}

struct NativeFlow {
    socket: KernelSocket,
    shared: Arc<SharedFlow>,
    /// Headers that go with a segment, in bytes.
    overhead: u64,
    /// What was there when the connection was taken over, and is not the flow's.
    before: Counted,
    name: CongestionControlName,
}

/// Bytes of data that TCP has counted.
#[derive(Debug, Clone, Copy, Default)]
struct Counted {
    sent: u64,
    acked: u64,
    received: u64,
}

impl Counted {
    /// TCP counts the beginning and the end of a stream as bytes that are acknowledged or received.
    fn of(info: &TcpInfo) -> Self {
        let figures = &info.figures;
        let sent = figures.sent_bytes.saturating_sub(figures.retransmitted_bytes);
        Self { sent, acked: info.bytes_acked.min(sent), received: info.bytes_received }
    }
}

impl NativeFlow {
    fn publish(&self, info: &TcpInfo) {
        self.shared.publish(now(), self.stats(info), None);
    }

    fn stats(&self, info: &TcpInfo) -> FlowStats {
        let counted = Counted::of(info);
        let packet = u64::from(info.mss) + self.overhead;
        let known =
            |micros: u32| (1..u32::MAX).contains(&micros).then(|| Span::from_micros(micros.into()));
        let cwnd = u64::from(info.cwnd) * packet;
        FlowStats {
            sent_bytes: counted.sent.saturating_sub(self.before.sent),
            acked_bytes: counted.acked.saturating_sub(self.before.acked),
            received_bytes: counted.received.saturating_sub(self.before.received),
            cwnd,
            tcp_cc: self.name,
            tcp_cwnd: cwnd,
            tcp_ssthresh: info.known_ssthresh().map(|packets| packets * packet),
            tcp_unsent: info.unsent.into(),
            in_flight: u64::from(info.in_network) * packet,
            srtt: known(info.figures.rtt_us),
            min_rtt: known(info.figures.min_rtt_us),
            retransmissions: info.retransmissions.into(),
            segment_bytes: info.mss.into(),
            ..FlowStats::default()
        }
    }
}

/// What serves a flow: the kernel.
struct NativeServer {
    flow: Arc<NativeFlow>,
    flows: Arc<NativeFlows>,
}

impl FlowServer for NativeServer {
    fn abort(&self, shared: &Arc<SharedFlow>) -> io::Result<()> {
        self.flow.socket.abort(shared)
    }

    fn refresh(&self, _: &Arc<SharedFlow>) {}

    fn renew(&self) {
        let mut asks = self.flows.asks();
        if self.flow.shared.lock().outcome.is_none()
            && let Ok(Some(info)) = self.flow.socket.name.ask(&mut asks)
        {
            self.flow.publish(&info);
        }
    }
}

impl fmt::Debug for NativeServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NativeServer").field("socket", &self.flow.socket).finish_non_exhaustive()
    }
}
