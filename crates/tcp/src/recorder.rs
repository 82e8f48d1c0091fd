//! Records connections of an experiment whichever driver they have: what TCP says of each socket while it
//! is open, and when it is gone.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::{AsFd, OwnedFd};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use cellpace_experiment::{Assigner, ConnectionRecord};
use cellpace_os::netlink::Netlink;
use rustix::event::{EventfdFlags, eventfd};

use crate::kernel::{SocketName, SocketNews, follow_ends};
use crate::socket::{TcpFigures, TcpInfo, namespace_cookie};
use crate::thread::spawn;
use crate::trial::{TcpSamples, TrialPart, goodput_mbps, rounded};

/// From one look at a connection to the next.
const LOOK: Duration = Duration::from_millis(100);
/// A connection to which nothing happens is looked at so seldom at last.
const LONGEST: Duration = Duration::from_millis(500);

/// A connection to record.
#[derive(Debug, Clone, Copy)]
pub struct RecordedSocket {
    /// Its cookie (`SO_COOKIE`).
    pub cookie: u64,
    /// Our address.
    pub local: SocketAddr,
    /// The peer's.
    pub peer: SocketAddr,
    /// We opened it.
    pub outgoing: bool,
    /// Who keeps to the window: a driver's name, or `plain`.
    pub driver: &'static str,
}

/// Records connections for as long as it lives.
pub struct Recorder {
    shared: Arc<Recordings>,
    /// The network namespace whose sockets it sees.
    namespace: Option<u64>,
    wake: OwnedFd,
    thread: Option<JoinHandle<()>>,
}

struct Recordings {
    assigner: Arc<Assigner>,
    asks: Mutex<Netlink>,
    open: Mutex<HashMap<u64, Recording>>,
    unseen: AtomicU64,
    report: Box<dyn Fn(&ConnectionRecord) + Send + Sync>,
}

struct Recording {
    socket: RecordedSocket,
    part: TrialPart,
    since: Instant,
    samples: TcpSamples,
    next: Instant,
    every: Duration,
    /// The kernel did not find it.
    is_missing: bool,
}

impl Recorder {
    /// For connections of this thread's network namespace; each record goes to `report`.
    ///
    /// # Errors
    /// When the kernel answers no questions about sockets.
    pub fn start(
        assigner: Arc<Assigner>,
        report: impl Fn(&ConnectionRecord) + Send + Sync + 'static,
    ) -> io::Result<Self> {
        // A socket that is good for nothing else.
        let probe = TcpListener::bind("127.0.0.1:0")?;
        let ends = Netlink::open_ends_of_tcp()?;
        let (asks, report) = (Mutex::new(Netlink::open_sock_diag()?), Box::new(report));
        let (open, unseen) = (Mutex::default(), AtomicU64::new(0));
        let shared = Arc::new(Recordings { assigner, asks, open, unseen, report });
        let wake = eventfd(0, EventfdFlags::CLOEXEC)?;
        let (theirs, woken) = (shared.clone(), wake.try_clone()?);
        let thread = spawn("cellpace-records", move || {
            follow_ends(&ends, &woken, Some(LOOK), |news| theirs.on(&news));
        })?;
        let namespace = namespace_cookie(probe.as_fd());
        Ok(Self { shared, namespace, wake, thread: Some(thread) })
    }

    /// Whether the sockets of a connection's network namespace are seen.
    pub fn sees(&self, socket: impl AsFd) -> bool {
        namespace_cookie(socket.as_fd()) == self.namespace
    }

    /// Connections that were not recorded because the kernel does not find them in this namespace.
    pub fn unseen(&self) -> u64 {
        self.shared.unseen.load(Ordering::Relaxed)
    }

    /// Begins to record a connection, if its part in the trial is recorded.
    pub fn begin(&self, socket: RecordedSocket, part: TrialPart) {
        if !part.is_recorded() {
            return;
        }
        let (since, samples) = (Instant::now(), TcpSamples::default());
        let recording = Recording {
            socket,
            part,
            since,
            samples,
            next: since + LOOK,
            every: LOOK,
            is_missing: false,
        };
        self.shared.open().insert(socket.cookie, recording);
    }

    /// Waits until no connection is open that is recorded, and records what is still open after `patience` as
    /// cut.
    pub fn finish(&self, patience: Duration) {
        let until = Instant::now() + patience;
        while !self.shared.open().is_empty() && Instant::now() < until {
            std::thread::sleep(LOOK / 10);
        }
        self.shared.cut_all();
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        // It cannot fail: the counter is far from full.
        let _ = rustix::io::write(&self.wake, &1_u64.to_ne_bytes());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl fmt::Debug for Recorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Recorder").finish_non_exhaustive()
    }
}

impl Recordings {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Recording>> {
        // A panic elsewhere leaves a connection with fewer samples, at worst.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn ask(&self, name: &SocketName) -> io::Result<Option<TcpInfo>> {
        name.ask(&mut self.asks.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn on(&self, news: &SocketNews) {
        match news {
            SocketNews::Gone(cookie, info) => {
                let gone = self.open().remove(cookie);
                if let Some(mut recording) = gone {
                    recording.samples.add(info.figures);
                    self.report(recording, false);
                }
            }
            SocketNews::SomeGone => self.look(true),
            SocketNews::Look => self.look(false),
        }
    }

    /// Asks about the connections that it is time for, or all.
    fn look(&self, all: bool) {
        let now = Instant::now();
        let due: Vec<SocketName> = self
            .open()
            .values()
            .filter(|recording| all || recording.next <= now)
            .map(|recording| recording.socket.name())
            .collect();
        for name in due {
            let Ok(found) = self.ask(&name) else { continue };
            let mut open = self.open();
            match found {
                Some(info) => {
                    if let Some(recording) = open.get_mut(&name.cookie) {
                        recording.add(info.figures, now);
                    }
                }
                None if all => {
                    let gone = open.remove(&name.cookie);
                    drop(open);
                    gone.into_iter().for_each(|recording| self.report(recording, false));
                }
                // Its last figures are about to come, unless it is of another network namespace.
                None => {
                    let known = open.get_mut(&name.cookie);
                    if known.is_some_and(|one| std::mem::replace(&mut one.is_missing, true)) {
                        open.remove(&name.cookie);
                        self.unseen.fetch_add(1, Ordering::Relaxed);
                    }
                }
            }
        }
    }

    fn cut_all(&self) {
        let open = std::mem::take(&mut *self.open());
        for mut recording in open.into_values() {
            if let Ok(Some(info)) = self.ask(&recording.socket.name()) {
                recording.samples.add(info.figures);
            }
            self.report(recording, true);
        }
    }

    fn report(&self, recording: Recording, is_cut: bool) {
        let Recording { socket, part, since, samples, .. } = recording;
        let Some(last) = samples.last().copied() else { return };
        let Some(record) = part.record(&self.assigner, samples) else { return };
        let sent = last.sent_bytes.saturating_sub(last.retransmitted_bytes);
        let acked = last.acked_bytes.min(sent);
        let busy = Duration::from_micros(last.busy_us.max(last.rtt_us.into()));
        let outcome = match is_cut {
            true => "cut",
            false if socket.has_finished(&last, sent) => "finished",
            false => "reset",
        };
        (self.report)(&ConnectionRecord {
            duration_s: rounded(since.elapsed().as_secs_f64()),
            driver: socket.driver.to_owned(),
            outcome: outcome.to_owned(),
            acked_bytes: acked,
            received_bytes: last.received_bytes,
            goodput_mbps: goodput_mbps(acked, busy),
            ..record
        });
    }
}

impl Recording {
    /// Idle connections are asked about less and less often.
    fn add(&mut self, figures: TcpFigures, now: Instant) {
        let moved = |figures: &TcpFigures| (figures.sent_bytes, figures.acked_bytes);
        let is_idle = self.samples.last().map(moved) == Some(moved(&figures));
        self.every = if is_idle { (2 * self.every).min(LONGEST) } else { LOOK };
        self.next = now + self.every;
        if !is_idle {
            self.samples.add(figures);
        }
    }
}

impl RecordedSocket {
    fn name(&self) -> SocketName {
        SocketName { cookie: self.cookie, local: self.local, peer: self.peer }
    }

    /// Whether the peer has acknowledged all and our end: TCP counts the latter as a byte, and the
    /// beginning of a connection that we opened.
    fn has_finished(&self, last: &TcpFigures, sent: u64) -> bool {
        last.acked_bytes > sent + u64::from(self.outgoing)
    }
}
