//! Reports of connections that begin and end.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use cellpace_tcp::{DriverKind, FlowHandle, FlowOutcome, FlowStats, PlacementReason, TcpError};

/// A connection that was taken over.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AdoptedConnection {
    /// The flow's number, from 1.
    pub flow: u64,
    /// The program opened the connection.
    pub outgoing: bool,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
}

/// A connection whose flow has ended.
#[derive(Debug, Clone, PartialEq)]
pub struct ClosedConnection {
    /// Which connection it was.
    pub connection: AdoptedConnection,
    /// From when it was taken over to when its end was noticed.
    pub age: Duration,
    /// Its last figures.
    pub stats: FlowStats,
    /// How it ended, where the engine knows.
    pub outcome: Option<FlowOutcome>,
    /// It had not ended when [`Broker::cut`](crate::Broker::cut) was called.
    pub cut: bool,
    /// Which controller it had.
    pub controller: Arc<str>,
    /// Which driver served it.
    pub driver: DriverKind,
    /// Why that was not the kernel driver, where it was wished for.
    pub driver_reason: Option<PlacementReason>,
    /// Why the controller, a module, did not go on, so that the connection was plain from then on.
    pub controller_failure: Option<String>,
}

/// Why a connection that the rules are for is not under a controller.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum PlainReason {
    /// There are as many under a controller as there may be.
    Limit,
    /// A resource was missing: descriptors, memory, a thread.
    Resources,
    /// The program did not wait as long as it took.
    Late,
    /// It should have been the kernel driver's, which did not take it.
    Driver,
    /// It should have been the kernel driver's, and its program did not wait for it to open.
    NotOpen,
    /// It is of a program that the library cannot be preloaded into.
    NotPreloaded,
    /// Its controller, a module, did not go on.
    Failed,
}

impl PlainReason {
    /// All of them.
    pub const ALL: [Self; 7] = [
        Self::Limit,
        Self::Resources,
        Self::Late,
        Self::Driver,
        Self::NotOpen,
        Self::NotPreloaded,
        Self::Failed,
    ];

    /// Returns the reason of an error that leaves a connection plain.
    pub fn of(error: &TcpError) -> Self {
        match error {
            TcpError::NotPlaced(PlacementReason::NotOpen) => Self::NotOpen,
            TcpError::NotPlaced(_) => Self::Driver,
            TcpError::Setup { what: "flows", .. } => Self::Limit,
            TcpError::Setup { source, .. } if source.raw_os_error() == Some(libc::ECANCELED) => {
                Self::Late
            }
            _ => Self::Resources,
        }
    }

    /// A word for figures.
    pub fn word(self) -> &'static str {
        match self {
            Self::Limit => "limit",
            Self::Resources => "resources",
            Self::Late => "late",
            Self::Driver => "driver",
            Self::NotOpen => "not_open",
            Self::NotPreloaded => "not_preloaded",
            Self::Failed => "failed",
        }
    }

    /// A half sentence for people.
    pub fn text(self) -> &'static str {
        match self {
            Self::Limit => {
                "as many are under the controller as --max-connections or descriptors allow"
            }
            Self::Resources => "descriptors or memory are missing",
            Self::Late => "the program did not wait any longer",
            Self::Driver => "the kernel driver did not take them",
            Self::NotOpen => {
                "the program did not wait for them to open, and the kernel driver takes open ones only; \
                 --driver auto has the gate take them"
            }
            Self::NotPreloaded => "of programs that cannot be preloaded",
            Self::Failed => "their module failed",
        }
    }
}

/// Receives reports of a broker's connections, on the broker's threads, one call at a time. A
/// closure receives those of ends alone.
pub trait ConnectionWatcher: Send {
    /// A connection was taken over.
    fn opened(&mut self, connection: &AdoptedConnection, flow: &FlowHandle) {
        let _ = (connection, flow);
    }

    /// A connection that the rules are for stays without a controller; `why` is the reason in words.
    fn stayed_plain(
        &mut self,
        connection: Option<&AdoptedConnection>,
        reason: PlainReason,
        why: &str,
    ) {
        let _ = (connection, reason, why);
    }

    /// So many connections stay without a controller of which nothing else is known.
    fn missed(&mut self, reason: PlainReason, count: u64) {
        let _ = (reason, count);
    }

    /// Called several times a second while there are connections.
    fn look(&mut self) {}

    /// A flow has ended.
    fn closed(&mut self, closed: ClosedConnection);
}

impl<F: FnMut(ClosedConnection) + Send> ConnectionWatcher for F {
    fn closed(&mut self, closed: ClosedConnection) {
        self(closed);
    }
}

/// One watcher for all workers.
#[derive(Clone)]
pub(super) struct SharedWatcher(Arc<Mutex<dyn ConnectionWatcher>>);

impl SharedWatcher {
    pub(super) fn new(watcher: impl ConnectionWatcher + 'static) -> Self {
        Self(Arc::new(Mutex::new(watcher)))
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, dyn ConnectionWatcher + 'static> {
        // A panic before has not spoilt the reports of other connections.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
