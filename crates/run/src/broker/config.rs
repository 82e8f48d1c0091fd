//! How a broker treats its clients and its flows.

use std::sync::Arc;
use std::time::Duration;

use cellpace_tcp::{DriverChoice, FlowOptions, KernelDriver};

/// How a broker treats its clients and its flows.
#[derive(Debug, Clone)]
pub struct BrokerConfig {
    /// How each connection is controlled; each flow's seed is this one plus its number.
    pub options: FlowOptions,
    /// Whether connections use the client/server driver: what the program opens then says hello,
    /// and what it accepts answers to one and is plain without. In `options` the driver is not
    /// looked at.
    pub framed: bool,
    /// The kernel driver, where it is to be used: connections then stay with the program, and
    /// only their windows are ours. What it cannot take, the engine takes. With one worker only.
    pub steerer: Option<Arc<KernelDriver>>,
    /// Clients that are served at a time; more wait. For root, which serves every user, a new one
    /// takes the oldest place of the user who has most of them.
    pub most_clients: usize,
    /// How long a client may take to send what it wants.
    pub patience: Duration,
    /// Control sockets, each with an engine, threads and a table of descriptors of its own, so
    /// that the limit on descriptors holds for each of them; up to
    /// [`MOST_WORKERS`](cellpace_control::variables::MOST_WORKERS). Flows of different workers share no
    /// controller.
    pub workers: u32,
}

impl BrokerConfig {
    /// The defaults.
    pub fn new(options: FlowOptions) -> Self {
        Self {
            options,
            framed: false,
            steerer: None,
            most_clients: 256,
            patience: Duration::from_secs(1),
            workers: 1,
        }
    }

    /// The options of one flow.
    pub(super) fn options_of(&self, flow: u64, outgoing: bool) -> FlowOptions {
        let mut options = self.options.clone();
        options.seed = options.seed.wrapping_add(flow - 1);
        options.driver = match self.framed {
            true => DriverChoice::client_server(outgoing),
            false => DriverChoice::Gate,
        };
        options
    }
}
