//! Which arm a connection gets: a keyed hash decides, so that all hosts of a site agree.

use std::net::IpAddr;
use std::time::Duration;

use crate::config::{AssignBy, Experiment};

/// Draws arms, and hashes clients.
#[derive(Clone)]
pub struct Assigner {
    experiment: Experiment,
    arms_key: [u8; 32],
    clients_key: [u8; 32],
}

/// What was drawn for a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Assignment {
    /// The arm's place among the experiment's; `None`: not in the experiment, so that it has the control.
    pub arm: Option<usize>,
    /// The slot in which the connection began.
    pub slot: u64,
    /// Whether it began in the washout of the slot.
    pub washout: bool,
}

/// Its keys stay hidden.
impl std::fmt::Debug for Assigner {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Assigner").field("experiment", &self.experiment).finish_non_exhaustive()
    }
}

impl Assigner {
    /// Of an experiment.
    pub fn new(experiment: Experiment) -> Self {
        let key = |context: &str| blake3::derive_key(context, experiment.secret.bytes());
        let arms_key = key("cellpace experiment 1: arms");
        let clients_key = key("cellpace experiment 1: clients");
        Self { experiment, arms_key, clients_key }
    }

    /// The experiment.
    pub fn experiment(&self) -> &Experiment {
        &self.experiment
    }

    /// Draws the arm of a connection that begins `now`, since 1970 in UTC. `connection` tells it from all
    /// others of the site; it counts only where connections are assigned for themselves.
    pub fn assign(&self, now: Duration, client: IpAddr, connection: &[u8]) -> Assignment {
        let slot = self.slot(now);
        let by_time = self.experiment.assign == AssignBy::Time;
        let arm = match self.experiment.assign {
            AssignBy::Time => self.arm_of_slot(slot),
            AssignBy::Client => self.draw(b"client", &network(client)),
            AssignBy::Connection => self.draw(b"connection", connection),
        };
        let in_slot = self.in_slot(now);
        let washout = by_time && in_slot < u128::from(self.experiment.washout.as_nanos());
        Assignment { arm, slot, washout }
    }

    /// The arm of all connections that begin in a slot; none where it is not in the experiment, and where
    /// arms are not those of slots.
    pub fn arm_of_slot(&self, slot: u64) -> Option<usize> {
        let by_time = self.experiment.assign == AssignBy::Time;
        by_time.then(|| self.draw(b"slot", &slot.to_le_bytes())).flatten()
    }

    /// The time until the next slot begins.
    pub fn until_next_slot(&self, now: Duration) -> Duration {
        let left = u128::from(self.experiment.slot.as_nanos()) - self.in_slot(now);
        Duration::from_nanos(u64::try_from(left).unwrap_or(u64::MAX))
    }

    /// Nanoseconds since the beginning of the slot.
    fn in_slot(&self, now: Duration) -> u128 {
        now.as_nanos() % u128::from(self.experiment.slot.as_nanos())
    }

    /// The number of the slot of this time since 1970 in UTC.
    pub fn slot(&self, now: Duration) -> u64 {
        let slot = now.as_nanos() / u128::from(self.experiment.slot.as_nanos());
        u64::try_from(slot).unwrap_or(u64::MAX)
    }

    /// Whether a connection that began in a slot has gone on into another one. Only slots of arms have
    /// borders.
    pub fn crosses(&self, slot: u64, end: Duration) -> bool {
        self.experiment.assign == AssignBy::Time && self.slot(end) != slot
    }

    /// A hash of a client's network, IPv4 /24 or IPv6 /64: 16 digits, which say nothing
    /// without the secret.
    pub fn client(&self, client: IpAddr) -> String {
        let hash = blake3::keyed_hash(&self.clients_key, &network(client));
        hash.to_hex()[..16].to_owned()
    }

    /// Whether what is drawn for is in the experiment, and its arm.
    fn draw(&self, what: &[u8], unit: &[u8]) -> Option<usize> {
        let Experiment { name, seed, share, arms, .. } = &self.experiment;
        let mut hasher = blake3::Hasher::new_keyed(&self.arms_key);
        for part in [name.as_bytes(), &seed.to_le_bytes(), what, unit] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        let hash = hasher.finalize();
        let uniform = |at: usize| {
            let bytes = hash.as_bytes()[at..at + 8].try_into().expect("a hash has 32 bytes");
            (u64::from_le_bytes(bytes) >> 11) as f64 / (1_u64 << 53) as f64
        };
        if uniform(0) >= *share {
            return None;
        }
        let mut left = uniform(8) * arms.iter().map(|arm| arm.weight).sum::<f64>();
        let drawn = arms.iter().position(|arm| {
            left -= arm.weight;
            left < 0.0
        });
        // The sum may be rounded up.
        Some(drawn.unwrap_or(arms.len() - 1))
    }
}

/// An address without the part that tells hosts of a network apart.
fn network(client: IpAddr) -> Vec<u8> {
    match client.to_canonical() {
        IpAddr::V4(ip) => ip.octets()[..3].to_vec(),
        IpAddr::V6(ip) => ip.octets()[..8].to_vec(),
    }
}
