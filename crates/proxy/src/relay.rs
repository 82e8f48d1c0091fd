//! Bytes from one side to the other, both ways.

use std::cell::RefCell;
use std::io;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

use crate::metrics::Metrics;
use crate::side::ConnectionSide;

/// Maximum number of bytes per read, and so of bytes that wait here in one direction.
const CHUNK: usize = 64 << 10;
/// Number of chunks after which other connections get their turn.
const TURN: u32 = 16;

/// How a relay ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum RelayEnd {
    /// Both directions ended in order.
    Finished,
    /// A side was reset or failed.
    Reset,
    /// No byte moved for too long.
    Idle,
}

/// Bytes that were passed on, in each direction.
#[derive(Debug, Default)]
pub(crate) struct Moved {
    pub(crate) to_client: AtomicU64,
    pub(crate) to_upstream: AtomicU64,
    /// When the first byte was.
    pub(crate) first_to_client: OnceLock<Instant>,
    pub(crate) first_to_upstream: OnceLock<Instant>,
}

/// How long a connection may be idle.
pub(crate) struct Idle {
    pub(crate) most: Duration,
    pub(crate) most_in_a_crowd: Duration,
    /// Nearly all connections are taken.
    pub(crate) crowded: watch::Receiver<bool>,
}

thread_local! {
    // Nothing is held while a connection waits, so all of a thread share one buffer.
    static BUFFER: RefCell<Box<[u8]>> = RefCell::new(vec![0; CHUNK].into());
}

/// When a byte moved last.
struct Activity(Mutex<Instant>);

impl Activity {
    fn now(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn last(&self) -> Instant {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until nothing has moved for too long.
    async fn ceases(&self, mut idle: Idle) {
        loop {
            let is_crowded = *idle.crowded.borrow_and_update();
            let most = if is_crowded { idle.most_in_a_crowd } else { idle.most };
            let end = self.last() + most;
            if end <= Instant::now() {
                return;
            }
            tokio::select! {
                () = sleep_until(end) => {}
                Ok(()) = idle.crowded.changed() => {}
            }
        }
    }
}

/// Passes bytes both ways until both directions have ended. `first` goes upstream before
/// everything else.
pub(crate) async fn relay(
    client: &ConnectionSide,
    upstream: &ConnectionSide,
    first: Vec<u8>,
    idle: Idle,
    moved: &Moved,
    metrics: &Metrics,
) -> RelayEnd {
    let activity = Activity(Mutex::new(Instant::now()));
    let up_ended = Flag::default();
    let down_ended = Flag::default();
    let mut up = pin!(
        RelayDirection {
            from: client,
            to: upstream,
            moved: &moved.to_upstream,
            first: &moved.first_to_upstream,
            total: metrics.to_upstream(),
            activity: &activity,
            ended: &up_ended,
            reverse_ended: &down_ended,
            holds: AtomicBool::new(false),
        }
        .run(first)
    );
    let mut down = pin!(
        RelayDirection {
            from: upstream,
            to: client,
            moved: &moved.to_client,
            first: &moved.first_to_client,
            total: metrics.to_client(),
            activity: &activity,
            ended: &down_ended,
            reverse_ended: &up_ended,
            holds: AtomicBool::new(false),
        }
        .run(Vec::new())
    );
    let mut ceased = pin!(activity.ceases(idle));
    loop {
        let (up_over, down_over) = (up_ended.is_set(), down_ended.is_set());
        let ended = tokio::select! {
            ended = &mut up, if !up_over => ended,
            ended = &mut down, if !down_over => ended,
            () = client.broken(), if up_over => return RelayEnd::Reset,
            () = upstream.broken(), if down_over => return RelayEnd::Reset,
            () = &mut ceased => return RelayEnd::Idle,
        };
        if ended.is_err() {
            return RelayEnd::Reset;
        }
        if up_ended.is_set() && down_ended.is_set() {
            return RelayEnd::Finished;
        }
    }
}

/// Set once.
#[derive(Default)]
struct Flag(AtomicBool);

impl Flag {
    fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

struct RelayDirection<'a> {
    from: &'a ConnectionSide,
    to: &'a ConnectionSide,
    moved: &'a AtomicU64,
    /// When the first byte moved.
    first: &'a OnceLock<Instant>,
    /// Of all connections.
    total: &'a IntCounter,
    activity: &'a Activity,
    /// Whether this direction has ended and the end was passed on to `to`.
    ended: &'a Flag,
    reverse_ended: &'a Flag,
    /// `to` is set to be reset if the proxy is killed.
    holds: AtomicBool,
}

impl RelayDirection<'_> {
    async fn run(self, first: Vec<u8>) -> io::Result<()> {
        self.write(&first).await?;
        drop(first);
        while let Some(rest) = self.pass().await? {
            self.hold(true);
            self.write(&rest).await?;
        }
        self.hold(false);
        self.to.finish()?;
        self.ended.set();
        Ok(())
    }

    /// Passes bytes on until the receiving side blocks: then what it did not take; or until the
    /// end.
    async fn pass(&self) -> io::Result<Option<Vec<u8>>> {
        let mut chunks = 0_u32;
        loop {
            self.from.readable().await?;
            match BUFFER.with_borrow_mut(|buffer| self.pass_once(buffer)) {
                Ok(Passed::All) => {}
                Ok(Passed::Part(rest)) => return Ok(Some(rest)),
                Ok(Passed::End) => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.hold(false);
                    continue;
                }
                Err(error) => return Err(error),
            }
            chunks += 1;
            if chunks == TURN {
                chunks = 0;
                tokio::task::yield_now().await;
            }
        }
    }

    /// Nothing is held only once nothing more is there: a stream that goes on blocks again and again.
    fn hold(&self, waits: bool) {
        if self.holds.swap(waits, Ordering::Relaxed) != waits {
            self.to.hold(waits);
        }
    }

    fn pass_once(&self, buffer: &mut [u8]) -> io::Result<Passed> {
        let count = self.from.try_read(buffer, self.reverse_ended.is_set())?;
        if count == 0 {
            return Ok(Passed::End);
        }
        self.activity.now();
        let written = match self.to.try_write(&buffer[..count]) {
            Ok(written) => written,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => 0,
            Err(error) => return Err(error),
        };
        self.count(written);
        match &buffer[written..count] {
            [] => Ok(Passed::All),
            rest => Ok(Passed::Part(rest.to_vec())),
        }
    }

    async fn write(&self, mut bytes: &[u8]) -> io::Result<()> {
        while !bytes.is_empty() {
            self.to.writable().await?;
            match self.to.try_write(bytes) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(written) => {
                    self.activity.now();
                    self.count(written);
                    bytes = &bytes[written..];
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn count(&self, bytes: usize) {
        if bytes > 0 {
            self.first.get_or_init(Instant::now);
        }
        self.moved.fetch_add(bytes as u64, Ordering::Relaxed);
        self.total.inc_by(bytes as u64);
    }
}

enum Passed {
    All,
    Part(Vec<u8>),
    End,
}
