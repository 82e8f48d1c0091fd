//! Which connections are under which controller, where not all are under one; and what an experiment
//! records of each.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cellpace_base::statistics::quantile;
use cellpace_experiment::{Assigner, Assignment, ConnectionRecord};
use cellpace_tcp::{ControlOptions, FlowControl, RelayEngine, TcpFigures};
use tokio::time::{Instant, sleep};

use crate::notice::ConnectionEnd;
use crate::relay::Moved;
use crate::side::ConnectionSide;

/// From one look at a connection that moves bytes to the next.
const LOOK: Duration = Duration::from_millis(100);
/// RTTs that are kept of a connection; of more, every second one goes, and half as many come.
const MAX_RTTS: usize = 512;

/// Which connections are under which controller.
#[derive(Debug, Clone)]
pub enum Trial {
    /// This share of connections, from 0 to 1, is under the controller, the others are plain TCP.
    ShareOf(f64),
    /// Those of an experiment are as their arms say.
    Experiment {
        /// Draws the arms.
        assigner: Arc<Assigner>,
        /// What each arm is, in the order of the experiment's.
        arms: Vec<Treatment>,
        /// Once it is set, all new connections get the first arm and none is recorded.
        ended: Arc<AtomicBool>,
    },
}

/// What an arm of an experiment is.
#[derive(Debug, Clone)]
pub enum Treatment {
    /// Plain TCP, under this congestion control of the kernel, or the system's.
    Plain(Option<String>),
    /// Under a controller.
    Controlled(Box<ControlOptions>),
}

/// What a connection gets.
#[derive(Debug)]
pub(crate) enum ArmControl {
    Plain(Option<String>),
    Controlled(Box<FlowControl>),
}

/// The trial of a proxy that runs.
pub(crate) struct Trials {
    trial: Option<Trial>,
    /// The arms of an experiment; of a share: under the controller, and plain.
    arms: Vec<ArmControl>,
    /// The side that is measured is the client's.
    is_client_measured: bool,
    connections: AtomicU64,
}

/// A connection's part in a trial.
pub(crate) struct Part {
    arm: usize,
    /// `None`: it is not recorded.
    assignment: Option<Assignment>,
    client: SocketAddr,
    /// Since 1970.
    start: Duration,
    accepted: Instant,
    driver: OnceLock<&'static str>,
    seen: Mutex<Seen>,
}

/// What was seen of the measured side.
#[derive(Default)]
struct Seen {
    last: Option<TcpFigures>,
    /// When that was, less the time since data were last sent.
    last_sent: Option<Instant>,
    rtts_us: Vec<u32>,
    /// One of so many looks is kept.
    every: u32,
    looks: u32,
}

impl Trials {
    /// `flow` says how connections are controlled that are in no experiment.
    pub(crate) fn new(
        engine: &RelayEngine,
        trial: Option<Trial>,
        flow: &ControlOptions,
        is_client_measured: bool,
    ) -> Self {
        let controlled = |options: &ControlOptions| {
            let control = FlowControl::new(engine.clone(), options.clone());
            ArmControl::Controlled(Box::new(control))
        };
        let arms = match &trial {
            Some(Trial::Experiment { arms, .. }) => {
                let arm = |arm: &Treatment| match arm {
                    Treatment::Plain(name) => ArmControl::Plain(name.clone()),
                    Treatment::Controlled(options) => controlled(options),
                };
                arms.iter().map(arm).collect()
            }
            Some(Trial::ShareOf(_)) | None => {
                vec![controlled(flow), ArmControl::Plain(None)]
            }
        };
        Self { trial, arms, is_client_measured, connections: AtomicU64::new(0) }
    }

    /// Draws what a new connection gets.
    pub(crate) fn begin(&self, client: SocketAddr, accepted: Instant) -> Part {
        let start = since_1970();
        let number = self.connections.fetch_add(1, Ordering::Relaxed);
        let (arm, assignment) = match &self.trial {
            None => (0, None),
            Some(Trial::ShareOf(share)) => (usize::from(!is_in_share(number, *share)), None),
            Some(Trial::Experiment { ended, .. }) if ended.load(Ordering::Relaxed) => (0, None),
            Some(Trial::Experiment { assigner, .. }) => {
                let id = format!("{client} {} {number}", start.as_nanos());
                let assignment = assigner.assign(start, client.ip(), id.as_bytes());
                (assignment.arm.unwrap_or(0), assignment.arm.map(|_| assignment))
            }
        };
        let (driver, seen) = (OnceLock::new(), Mutex::default());
        Part { arm, assignment, client, start, accepted, driver, seen }
    }

    pub(crate) fn treatment(&self, part: &Part) -> &ArmControl {
        &self.arms[part.arm]
    }

    /// What is recorded of a connection that ended; `None` where nothing is.
    pub(crate) fn record(
        &self,
        part: Part,
        how: ConnectionEnd,
        moved: &Moved,
    ) -> Option<ConnectionRecord> {
        let Some(Trial::Experiment { assigner, .. }) = &self.trial else { return None };
        let assignment = part.assignment?;
        let (sent, first, received) = match self.is_client_measured {
            true => (&moved.to_client, &moved.first_to_client, &moved.to_upstream),
            false => (&moved.to_upstream, &moved.first_to_upstream, &moved.to_client),
        };
        let first = first.get().copied();
        let sent = sent.load(Ordering::Relaxed);
        let seen = part.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let last = seen.last?;
        let millis = |span: Duration| span.as_secs_f64() * 1e3;
        let record = ConnectionRecord {
            arm: assigner.experiment().arms[part.arm].name.clone(),
            slot: assignment.slot,
            client: assigner.client(part.client.ip()),
            start_s: millis(part.start).round() / 1e3,
            duration_s: rounded(part.accepted.elapsed().as_secs_f64()),
            driver: (*part.driver.get()?).to_owned(),
            outcome: how.word().to_owned(),
            crossed: assigner.crosses(assignment.slot, since_1970()),
            washout: assignment.washout,
            acked_bytes: last.acked_bytes.min(sent),
            received_bytes: received.load(Ordering::Relaxed),
            tcp_sent_bytes: last.sent_bytes,
            retransmitted_bytes: last.retransmitted_bytes,
            goodput_mbps: first.and_then(|first| seen.goodput_mbps(first, sent)),
            first_byte_ms: first.map(|at| rounded(millis(at - part.accepted))),
            ..ConnectionRecord::default()
        };
        Some(seen.with_rtts(record))
    }
}

impl Part {
    /// Looks at the measured side for as long as it is awaited.
    pub(crate) async fn watch(&self, side: &ConnectionSide, moved: &Moved) -> Infallible {
        let _ = self.driver.set(side.flow().map_or("plain", |flow| flow.driver().name()));
        if self.assignment.is_none() {
            return std::future::pending().await;
        }
        let count =
            || moved.to_client.load(Ordering::Relaxed) + moved.to_upstream.load(Ordering::Relaxed);
        let (mut before, mut is_draining) = (0, false);
        loop {
            sleep(LOOK).await;
            let now = count();
            // One look more than bytes move: the last ones are still under way.
            if now != before || is_draining {
                self.sample(side);
            }
            is_draining = now != before;
            before = now;
        }
    }

    /// Looks once.
    pub(crate) fn sample(&self, side: &ConnectionSide) {
        if self.assignment.is_none() {
            return;
        }
        let _ = self.driver.set(side.flow().map_or("plain", |flow| flow.driver().name()));
        if let Ok(figures) = side.figures() {
            self.lock().add(figures);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Seen> {
        // A panic elsewhere leaves fewer samples, at worst.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seen {
    fn add(&mut self, figures: TcpFigures) {
        let since = Duration::from_millis(figures.since_sent_ms.into());
        self.last_sent = Instant::now().checked_sub(since);
        self.last = Some(figures);
        if figures.rtt_us == 0 {
            return;
        }
        self.every = self.every.max(1);
        if self.looks.is_multiple_of(self.every) {
            self.rtts_us.push(figures.rtt_us);
        }
        self.looks += 1;
        if self.rtts_us.len() == MAX_RTTS {
            let mut is_kept = false;
            self.rtts_us.retain(|_| {
                is_kept = !is_kept;
                is_kept
            });
            self.every *= 2;
        }
    }

    /// From the first byte to the last one's ack.
    fn goodput_mbps(&self, first: Instant, sent: u64) -> Option<f64> {
        let last = self.last?;
        let rtt = Duration::from_micros(last.rtt_us.into());
        let transfer = (self.last_sent? + rtt).saturating_duration_since(first);
        // The kernel's clock of data that were sent ticks every few milliseconds.
        let seconds = transfer.max(rtt).as_secs_f64();
        let bytes = last.acked_bytes.min(sent);
        (bytes > 0 && seconds > 0.0).then(|| rounded(bytes as f64 * 8e-6 / seconds))
    }

    fn with_rtts(mut self, record: ConnectionRecord) -> ConnectionRecord {
        let Some(last) = self.last.filter(|_| !self.rtts_us.is_empty()) else { return record };
        self.rtts_us.sort_unstable();
        let least = last.min_rtt_us.min(self.rtts_us[0]);
        let level = |level| quantile(&self.rtts_us, level);
        let millis = |us: f64| Some(rounded(us / 1e3));
        ConnectionRecord {
            min_rtt_ms: millis(f64::from(least)),
            rtt_p50_ms: millis(level(0.5)),
            rtt_p95_ms: millis(level(0.95)),
            queue_delay_p50_ms: millis(level(0.5) - f64::from(least)),
            queue_delay_p95_ms: millis(level(0.95) - f64::from(least)),
            ..record
        }
    }
}

/// Microseconds of milliseconds, and as many digits of other figures.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

fn since_1970() -> Duration {
    // A clock before 1970 is one that was never set.
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default()
}

/// Whether the connection of this number is in the share. Multiples of the golden ratio spread evenly,
/// without a period that clients could have, too.
fn is_in_share(number: u64, share: f64) -> bool {
    const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;
    let place = number.wrapping_add(1).wrapping_mul(GOLDEN) >> 11;
    (place as f64 / (1_u64 << 53) as f64) < share
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_of_connections_is_spread_evenly() {
        let count = |share: f64, from: u64, to: u64| {
            (from..to).filter(|number| is_in_share(*number, share)).count()
        };
        assert_eq!((count(0.0, 0, 10_000), count(1.0, 0, 10_000)), (0, 10_000));
        for from in (0..100_000).step_by(1000) {
            let taken = count(0.01, from, from + 1000);
            assert!((9..=11).contains(&taken), "{taken} from {from}");
        }
    }

    #[test]
    fn few_of_many_rtts_are_kept_and_represent_all() {
        let mut seen = Seen::default();
        for rtt_us in 1..=100_000 {
            seen.add(TcpFigures { rtt_us, min_rtt_us: 1, ..TcpFigures::default() });
        }
        assert!((MAX_RTTS / 2..=MAX_RTTS).contains(&seen.rtts_us.len()));
        let record = seen.with_rtts(ConnectionRecord::default());
        assert!((49.0..51.0).contains(&record.rtt_p50_ms.unwrap()), "{record:?}");
        assert!((94.0..96.0).contains(&record.queue_delay_p95_ms.unwrap()), "{record:?}");
        assert_eq!(record.min_rtt_ms, Some(0.001));
    }
}
