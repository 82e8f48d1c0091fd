//! Hosts for new connections, and the handle that skin and owner share.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use cellpace_base::{Random, Time};
use cellpace_cc::{ControllerSpec, Setup};

use crate::Host;

/// Why a controller cannot run inside QUIC.
#[derive(Debug, thiserror::Error)]
pub enum FactoryError {
    /// It has a half at the receiver.
    #[error(
        "`{0}` has a half at the receiver, whose reports QUIC has no place for: \
         take another controller, or `cellpace send` without --quic"
    )]
    NeedsReceiver(String),
}

/// Makes a controller for each path of each connection of an endpoint.
pub struct Factory {
    spec: ControllerSpec,
    seed: u64,
    built: AtomicU64,
}

impl Factory {
    /// Connections run under `spec`; what is random in them comes from `seed` and their order.
    ///
    /// # Errors
    /// When the controller needs a half at the receiver.
    pub fn new(spec: ControllerSpec, seed: u64) -> Result<Arc<Self>, FactoryError> {
        if spec.has_receiver() {
            return Err(FactoryError::NeedsReceiver(spec.name().to_owned()));
        }
        Ok(Arc::new(Self { spec, seed, built: AtomicU64::new(0) }))
    }

    /// A host for a path that begins at `zero` with packets of `mtu` bytes.
    pub(crate) fn handle(&self, zero: Instant, mtu: u16) -> Handle {
        let stream = self.built.fetch_add(1, Ordering::Relaxed);
        let setup = Setup {
            mss: u64::from(mtu),
            start: Time::ZERO,
            random: Random::seeded(self.seed, stream),
        };
        let host = Host::new(self.spec.build(setup), mtu, Time::ZERO);
        Handle { host: Arc::new(Mutex::new(host)), zero }
    }
}

/// One host, for the library that calls it and for whoever looks at it or runs its deadlines.
#[derive(Clone)]
pub struct Handle {
    host: Arc<Mutex<Host>>,
    zero: Instant,
}

impl Handle {
    /// The host. A panic of another thread inside it does not spread: its figures may be off.
    pub fn host(&self) -> MutexGuard<'_, Host> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// An instant of the library as the host's time; instants before the connection are zero.
    pub fn time(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.zero).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The host's time as an instant.
    pub fn instant(&self, time: Time) -> Instant {
        self.zero + std::time::Duration::from_nanos(time.as_nanos())
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}
