//! How a broker treats its clients and its flows.

use std::sync::Arc;
use std::time::Duration;

use cellpace_tcp::{ControlOptions, Recorder, Trial};

/// How a broker treats its clients and its flows.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// How each connection is controlled; each flow's seed is this one plus its number. Through the
    /// kernel driver connections stay with the program, and only their windows are ours; with one
    /// worker only.
    pub options: ControlOptions,
    /// Which connections are controlled: all of them as `options` say, without. With one worker only.
    pub trial: Option<Trial>,
    /// Records the connections of an experiment.
    pub recorder: Option<Arc<Recorder>>,
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
        let (trial, recorder, patience) = (None, None, Duration::from_secs(1));
        Self { options, trial, recorder, most_clients: 256, patience, workers: 1 }
    }
}
