//! Hosts for new connections, and the handle that skin and owner share.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
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
    send_window: AtomicU64,
}

impl Factory {
    /// Bytes that a connection keeps until they are acked, unless another number is set: as many as
    /// both libraries keep of themselves.
    const SEND_WINDOW: u64 = 10_000_000;

    /// Connections run under `spec`; what is random in them comes from `seed` and their order.
    ///
    /// # Errors
    /// When the controller needs a half at the receiver.
    pub fn new(spec: ControllerSpec, seed: u64) -> Result<Arc<Self>, FactoryError> {
        if spec.has_receiver() {
            return Err(FactoryError::NeedsReceiver(spec.name().to_owned()));
        }
        let (built, send_window) = (AtomicU64::new(0), AtomicU64::new(Self::SEND_WINDOW));
        Ok(Arc::new(Self { spec, seed, built, send_window }))
    }

    /// Has connections keep at most this many bytes until they are acked. Call it before the
    /// configuration of an endpoint is made; setting the window of its transport by hand does not
    /// last.
    pub fn set_send_window(&self, bytes: u64) {
        self.send_window.store(bytes, Ordering::Relaxed);
    }

    /// Bytes that a connection keeps until they are acked.
    pub fn send_window(&self) -> u64 {
        self.send_window.load(Ordering::Relaxed)
    }

    /// Controllers made so far: one for each path.
    pub fn built(&self) -> u64 {
        self.built.load(Ordering::Relaxed)
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
        let shared = Shared {
            host: Mutex::new(host),
            answers: CachedAnswers::default(),
            zero,
            initial_window: INITIAL_PACKETS * u64::from(mtu),
            is_driven: AtomicBool::new(false),
            #[cfg(feature = "tokio")]
            send_window: self.send_window(),
            #[cfg(feature = "tokio")]
            changed: tokio::sync::Notify::new(),
        };
        let handle = Handle { shared: Arc::new(shared) };
        handle.with(|_| {});
        handle
    }
}

/// One host, for the library that calls it and for whoever looks at it or runs its deadlines.
#[derive(Clone)]
pub struct Handle {
    shared: Arc<Shared>,
}

struct Shared {
    host: Mutex<Host>,
    answers: CachedAnswers,
    zero: Instant,
    /// The initial window of RFC 9002 section 7.2, in bytes.
    initial_window: u64,
    /// Somebody runs the host's deadlines.
    is_driven: AtomicBool,
    #[cfg(feature = "tokio")]
    send_window: u64,
    /// Its deadlines may have moved.
    #[cfg(feature = "tokio")]
    changed: tokio::sync::Notify,
}

/// Packets of the initial window (RFC 9002 section 7.2).
const INITIAL_PACKETS: u64 = 10;

/// What a library asks several times for each packet, as it was after the last call that changed
/// the host.
#[derive(Default)]
struct CachedAnswers {
    window: AtomicU64,
    /// Zero: the controller does not pace.
    rate: AtomicU64,
    burst: AtomicU64,
}

impl Handle {
    /// The window in bytes: the answer of [`Host::window`]; at least ten packets for the first ten, as
    /// long as nobody has run a deadline. Libraries show a connection when its handshake ends, and
    /// discard packets of the handshake without a word: a budget that nobody renews would stop it.
    pub fn window(&self) -> u64 {
        self.shared.answers.window.load(Ordering::Acquire)
    }

    /// The rate in bytes per second and the burst in bytes, if the controller paces: the answer of
    /// [`Host::pacing`]. A rate of zero is one byte per second, which stops a flow as well.
    pub fn pacing(&self) -> Option<(u64, u64)> {
        let answers = &self.shared.answers;
        let rate = answers.rate.load(Ordering::Acquire);
        (rate > 0).then(|| (rate, answers.burst.load(Ordering::Acquire)))
    }

    /// Does something with the host, and keeps its answers up to date.
    pub fn with<T>(&self, act: impl FnOnce(&mut Host) -> T) -> T {
        let mut host = self.lock();
        #[cfg(feature = "tokio")]
        let before = host.next_deadline();
        let result = act(&mut host);
        let answers = &self.shared.answers;
        let begins =
            !self.shared.is_driven.load(Ordering::Relaxed) && host.stats().sent < INITIAL_PACKETS;
        let least = if begins { self.shared.initial_window } else { 0 };
        answers.window.store(host.window().max(least), Ordering::Release);
        let (rate, burst) = host.pacing().map_or((0, 0), |(rate, burst)| (rate.max(1), burst));
        answers.burst.store(burst, Ordering::Release);
        answers.rate.store(rate, Ordering::Release);
        #[cfg(feature = "tokio")]
        if host.next_deadline().is_some_and(|due| before.is_none_or(|before| due < before)) {
            self.shared.changed.notify_one();
        }
        result
    }

    /// Runs the deadlines that are due by `now`. Returns whether the connection is to be woken:
    /// nothing fitted before, and something does now.
    pub fn catch_up(&self, now: Instant) -> bool {
        let now = self.time(now);
        self.shared.is_driven.store(true, Ordering::Relaxed);
        self.with(|host| {
            host.catch_up(now);
            host.take_wake()
        })
    }

    /// When [`catch_up`](Self::catch_up) has something to do.
    pub fn next_deadline(&self) -> Option<Instant> {
        let due = self.lock().next_deadline()?;
        Some(self.instant(due))
    }

    /// The host, to look at. A panic of another thread inside it does not spread: its figures may
    /// be off.
    pub fn lock(&self) -> MutexGuard<'_, Host> {
        self.shared.host.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether both are handles of one host.
    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.shared, &other.shared)
    }

    /// What wakes a connection sets this again.
    #[cfg(feature = "tokio")]
    pub(crate) fn send_window(&self) -> u64 {
        self.shared.send_window
    }

    /// Waits until a deadline is set where there was none, or an earlier one.
    #[cfg(feature = "tokio")]
    pub(crate) async fn changed(&self) {
        self.shared.changed.notified().await;
    }

    /// An instant of the library as the host's time; instants before the connection are zero.
    pub fn time(&self, instant: Instant) -> Time {
        let nanos = instant.saturating_duration_since(self.shared.zero).as_nanos();
        Time::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }

    /// The host's time as an instant.
    pub fn instant(&self, time: Time) -> Instant {
        let nanos = std::time::Duration::from_nanos(time.as_nanos());
        // No timer lives for a century.
        let century = std::time::Duration::from_secs(100 * 365 * 86_400);
        self.shared.zero + nanos.min(century)
    }
}

impl std::fmt::Debug for Handle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Handle").finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_handshake_needs_nobody_to_run_deadlines() {
        let factory = Factory::new("verus".parse().expect("a controller"), 1).expect("not Sprout");
        let zero = Instant::now();
        let handle = factory.handle(zero, 1200);
        for packet in 0..INITIAL_PACKETS {
            assert!(handle.window() >= 12_000, "packet {packet}");
            handle.with(|host| host.on_sent(Time::ZERO, 1200, packet));
        }
        assert_eq!(handle.window(), handle.lock().window(), "the controller's from then on");

        let driven = factory.handle(zero, 1200);
        driven.with(|host| host.on_sent(Time::ZERO, 1200, 0));
        driven.catch_up(zero);
        assert_eq!(driven.window(), driven.lock().window());
    }
}
