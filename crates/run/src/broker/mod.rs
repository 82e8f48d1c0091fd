//! The launcher's end of the control socket: takes TCP sockets over, lends them out again, and
//! notices when flows have ended.

mod clients;
mod config;
mod connections;
mod flow_count;
mod local_pair;
mod openings;
mod watcher;
mod worker;

use std::time::{Duration, Instant};

use cellpace_control::message::Token;
use cellpace_control::variables::worker_name;
use cellpace_tcp::RelayEngine;

use crate::RunError;
use connections::ABORT_WAIT;
use watcher::SharedWatcher;
use worker::Worker;

pub use config::BrokerConfig;
pub use watcher::{AdoptedConnection, ClosedConnection, ConnectionWatcher, PlainReason};

/// Serves control sockets, with one thread each.
#[derive(Debug)]
pub struct Broker {
    name: String,
    token: Token,
    workers: Vec<Worker>,
}

impl Broker {
    /// Opens the control sockets and serves them. `watcher` receives a report of every flow's
    /// beginning and end.
    ///
    /// # Errors
    /// When a socket or a thread cannot be made, or the system allows no second table of
    /// descriptors.
    pub fn start(
        engine: &RelayEngine,
        config: &BrokerConfig,
        watcher: impl ConnectionWatcher + 'static,
    ) -> Result<Self, RunError> {
        let token: Token = random()?;
        let name = format!("cellpace-run/{:016x}", u64::from_be_bytes(random()?));
        let watcher = SharedWatcher::new(watcher);
        let mut workers = Vec::new();
        for number in 0..config.workers {
            let engine = if number == 0 { engine.clone() } else { engine.sibling() };
            let mut name = name.clone().into_bytes();
            if number > 0 {
                name.extend(worker_name(number));
            }
            let (config, watcher) = (config.clone(), watcher.clone());
            workers.push(Worker::start(number, name, token, engine, config, watcher)?);
        }
        Ok(Self { name, token, workers })
    }

    /// The control socket's abstract name; others' begin with it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// How many control sockets there are.
    pub fn workers(&self) -> u32 {
        self.workers.len() as u32
    }

    /// What clients must know.
    pub fn token(&self) -> &Token {
        &self.token
    }

    /// Flows that have not ended.
    pub fn open_flows(&self) -> usize {
        self.workers.iter().map(Worker::open_flows).sum()
    }

    /// Waits until all flows have ended. Returns the number of flows that are still open.
    pub fn wait(&self, timeout: Duration) -> usize {
        self.workers.iter().for_each(Worker::wake);
        let until = Instant::now() + timeout;
        self.workers.iter().map(|worker| worker.wait(until)).sum()
    }

    /// Gives all flows up that have not ended, and reports them as cut. Those whose data have not
    /// all reached TCP are reset, so that their peers do not take what came for everything; the
    /// others' data are the kernel's business from now on.
    pub fn cut(&self) {
        self.workers.iter().for_each(Worker::cut);
        self.wait(2 * ABORT_WAIT);
    }
}

fn random<const N: usize>() -> Result<[u8; N], RunError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| {
        RunError::system("random numbers")(std::io::Error::other(error.to_string()))
    })?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    //! Helpers that the tests of the modules share.

    use std::net::{Ipv4Addr, TcpListener, TcpStream};
    use std::sync::atomic::{AtomicU16, Ordering};

    use cellpace_control::message::Token;
    use cellpace_control::{FlowName, Owner};

    pub(super) const TOKEN: Token = [0x5a; 32];

    /// A name that no other test binds.
    pub(super) fn flow_name(flow: u64) -> FlowName {
        static NEXT: AtomicU16 = AtomicU16::new(1);
        let local = (Ipv4Addr::LOCALHOST, NEXT.fetch_add(1, Ordering::Relaxed)).into();
        let peer = (Ipv4Addr::from(std::process::id()), 2).into();
        FlowName { flow, owner: Owner::Launcher, not_awaited: false, local, peer }
    }

    /// Both ends of a TCP connection.
    pub(super) fn tcp_pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let ours = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        (ours, listener.accept().unwrap().0)
    }
}
