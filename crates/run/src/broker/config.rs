//! How a broker treats its clients and its flows.

use std::time::Duration;

use cellpace_tcp::ControlOptions;

/// How a broker treats its clients and its flows.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// How each connection is controlled; each flow's seed is this one plus its number. Through the
    /// kernel driver connections stay with the program, and only their windows are ours; with one
    /// worker only.
    pub options: ControlOptions,
    /// Clients that are served at a time; more wait. For root, which serves every user, a new one
    /// takes the oldest place of the user who has most of them.
    pub most_clients: usize,
    /// Timeout of a client's request.
    pub patience: Duration,
    /// Control sockets, each with an engine, threads and a table of descriptors of its own, so
    /// that the limit on descriptors holds for each of them; up to
    /// [`MAX_WORKERS`](cellpace_control::variables::MAX_WORKERS). Flows of different workers share no
    /// controller.
    pub workers: u32,
}

impl BrokerConfig {
    /// The defaults.
    pub fn new(options: ControlOptions) -> Self {
        Self { options, most_clients: 256, patience: Duration::from_secs(1), workers: 1 }
    }
}
