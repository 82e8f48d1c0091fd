//! Which connections are under which controller, where not all are under one; and what an experiment
//! records of each.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use cellpace_base::statistics::quantile;
use cellpace_experiment::{AssignBy, Assigner, Assignment, ConnectionRecord};

use crate::{ControlOptions, FlowControl, RelayEngine, TcpFigures};

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
pub enum ArmControl {
    /// Plain TCP, under this congestion control of the kernel, or the system's.
    Plain(Option<String>),
    /// Under a controller.
    Controlled(Box<FlowControl>),
}

/// The trial of a command that runs.
#[derive(Debug)]
pub struct Trials {
    trial: Option<Trial>,
    /// The arms of an experiment; of a share: under the controller, and plain.
    arms: Vec<ArmControl>,
    connections: AtomicU64,
}

/// What a connection got in a trial.
#[derive(Debug, Clone, Copy)]
pub struct TrialPart {
    arm: usize,
    /// `None`: it is not recorded.
    assignment: Option<Assignment>,
    client: SocketAddr,
    /// Since 1970.
    start: Duration,
}

impl Trial {
    /// What each arm of an experiment is.
    pub fn treatments(&self) -> &[Treatment] {
        match self {
            Self::Experiment { arms, .. } => arms,
            Self::ShareOf(_) => &[],
        }
    }

    /// How the arms are controlled that are under a controller.
    pub fn controls(&self) -> impl Iterator<Item = &ControlOptions> {
        self.treatments().iter().filter_map(|arm| match arm {
            Treatment::Controlled(options) => Some(&**options),
            Treatment::Plain(_) => None,
        })
    }

    /// The arm that all connections get now; `None` where each client or connection has its own.
    pub fn arm_of_now(&self) -> Option<usize> {
        match self {
            Self::Experiment { ended, .. } if ended.load(Ordering::Relaxed) => Some(0),
            Self::Experiment { assigner, .. } => {
                let by_time = assigner.experiment().assign == AssignBy::Time;
                by_time.then(|| assigner.arm_of_slot(assigner.slot(since_1970())).unwrap_or(0))
            }
            Self::ShareOf(_) => Some(0),
        }
    }

    /// The arm of a client, where clients have arms; `None` in it: not in the experiment.
    pub fn arm_of_client(&self, client: IpAddr) -> Option<Option<usize>> {
        let Self::Experiment { assigner, .. } = self else { return None };
        let by_client = assigner.experiment().assign == AssignBy::Client;
        by_client.then(|| assigner.assign(since_1970(), client, &[]).arm)
    }

    /// The part of a connection that got this arm a moment ago. It is not recorded if its slot or client has
    /// another.
    pub fn part_with(&self, arm: usize, client: SocketAddr) -> TrialPart {
        let start = since_1970();
        let assignment = match self {
            Self::Experiment { assigner, ended, .. } if !ended.load(Ordering::Relaxed) => {
                let mut assignment = assigner.assign(start, client.ip(), &[]);
                if assigner.experiment().assign == AssignBy::Connection {
                    // It was drawn where the connection got it.
                    assignment.arm = Some(arm);
                }
                (assignment.arm == Some(arm)).then_some(assignment)
            }
            Self::Experiment { .. } | Self::ShareOf(_) => None,
        };
        TrialPart { arm, assignment, client, start }
    }
}

impl Trials {
    /// `flow` says how connections are controlled that are in no experiment.
    pub fn new(engine: &RelayEngine, trial: Option<Trial>, flow: &ControlOptions) -> Self {
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
            Some(Trial::ShareOf(_)) | None => vec![controlled(flow), ArmControl::Plain(None)],
        };
        Self { trial, arms, connections: AtomicU64::new(0) }
    }

    /// Draws what a new connection gets.
    pub fn draw(&self, client: SocketAddr) -> TrialPart {
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
        TrialPart { arm, assignment, client, start }
    }

    /// Whether not all connections are under one controller.
    pub fn is_trial(&self) -> bool {
        self.trial.is_some()
    }

    /// What a connection gets that was drawn for.
    pub fn treatment(&self, part: &TrialPart) -> &ArmControl {
        &self.arms[part.arm]
    }

    /// What each arm gets.
    pub fn arms(&self) -> &[ArmControl] {
        &self.arms
    }

    /// What draws the arms of an experiment.
    pub fn assigner(&self) -> Option<&Arc<Assigner>> {
        match &self.trial {
            Some(Trial::Experiment { assigner, .. }) => Some(assigner),
            Some(Trial::ShareOf(_)) | None => None,
        }
    }
}

impl TrialPart {
    /// Whether a record is written of it.
    pub fn is_recorded(&self) -> bool {
        self.assignment.is_some()
    }

    /// What is recorded of a connection that ends now, but for what only its command knows; `None` where
    /// nothing is, or TCP has said nothing of it.
    pub fn record(&self, assigner: &Assigner, samples: TcpSamples) -> Option<ConnectionRecord> {
        let (assignment, last) = (self.assignment?, samples.last?);
        let record = ConnectionRecord {
            arm: assigner.experiment().arms[self.arm].name.clone(),
            slot: assignment.slot,
            client: assigner.client(self.client.ip()),
            start_s: (self.start.as_secs_f64() * 1e3).round() / 1e3,
            crossed: assigner.crosses(assignment.slot, since_1970()),
            washout: assignment.washout,
            tcp_sent_bytes: last.sent_bytes,
            retransmitted_bytes: last.retransmitted_bytes,
            ..ConnectionRecord::default()
        };
        Some(samples.with_rtts(record))
    }
}

/// What TCP said of a connection while it was open.
#[derive(Debug, Default)]
pub struct TcpSamples {
    last: Option<TcpFigures>,
    /// When that was, less the time since data were last sent.
    last_sent: Option<Instant>,
    rtts_us: Vec<u32>,
    /// One of so many looks is kept.
    every: u32,
    looks: u32,
}

impl TcpSamples {
    /// Takes what TCP says now.
    pub fn add(&mut self, figures: TcpFigures) {
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

    /// What it said last.
    pub fn last(&self) -> Option<&TcpFigures> {
        self.last.as_ref()
    }

    /// When data were last sent, as far as the kernel's clock of that tells.
    pub fn last_sent(&self) -> Option<Instant> {
        self.last_sent
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

/// A figure of a record: microseconds of milliseconds, and as many digits of others.
pub fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// The shortest transfer whose goodput is told: the kernel's clock of what is under way ticks every 1 to 10 ms.
const SHORTEST_TRANSFER: Duration = Duration::from_millis(20);

/// Goodput of what was acknowledged in this time, in Mbit/s; `None`: nothing was, or the time is too short to be known.
pub fn goodput_mbps(acked: u64, time: Duration) -> Option<f64> {
    (acked > 0 && time >= SHORTEST_TRANSFER)
        .then(|| rounded(acked as f64 * 8e-6 / time.as_secs_f64()))
}

/// The time of day that slots go by, since 1970.
pub fn since_1970() -> Duration {
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
    fn goodput_of_a_time_below_the_kernels_clock_is_not_told() {
        assert_eq!(goodput_mbps(300_000, Duration::from_micros(18)), None, "133 Gbit/s");
        assert_eq!(goodput_mbps(300_000, Duration::from_millis(240)), Some(10.0));
        assert_eq!(goodput_mbps(0, Duration::from_secs(1)), None);
    }

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
        let mut seen = TcpSamples::default();
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
