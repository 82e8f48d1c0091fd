//! The log of the decisions of connections' controllers, written as they happen.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use cellpace_lab::{EventFlow, EventLog, FlowMetrics, LabError, TcpMetrics};
use cellpace_tcp::{FlowHandle, FlowWatch};

/// How often events are fetched: a flow keeps the newest 64, and counts the others.
const LOOK: Duration = Duration::from_millis(100);
/// Writes the events of all open connections, on a thread of its own, until it is finished.
pub struct EventWriter {
    flows: SharedFlows,
    stop: Sender<()>,
    thread: JoinHandle<()>,
}

/// None once they are finished.
type SharedFlows = Arc<Mutex<Option<WatchedFlows>>>;

/// Reports to an [`EventWriter`] which connections are open.
#[derive(Clone)]
pub struct EventFlows(SharedFlows);

impl EventWriter {
    /// Begins to write to `log`: events as they come, and the state of each flow at this interval.
    ///
    /// # Errors
    /// When no thread can be started.
    pub fn start(log: EventLog<Box<dyn Write + Send>>, every: Duration) -> io::Result<Self> {
        let state_at = Instant::now() + every;
        let flows = WatchedFlows { log, flows: BTreeMap::new(), every, state_at };
        let flows = Arc::new(Mutex::new(Some(flows)));
        let (theirs, (stop, stopped)) = (EventFlows(flows.clone()), channel());
        let look = move || {
            while stopped.recv_timeout(LOOK.min(every)) == Err(RecvTimeoutError::Timeout) {
                theirs.with(WatchedFlows::look);
            }
        };
        let thread = thread::Builder::new().name("cellpace-events".to_owned()).spawn(look)?;
        Ok(Self { flows, stop, thread })
    }

    /// Returns what reports connections to this writer.
    pub fn flows(&self) -> EventFlows {
        EventFlows(self.flows.clone())
    }

    /// Writes the last state of connections that are still open, and ends.
    ///
    /// # Errors
    /// When not everything could be written.
    pub fn finish(self) -> Result<(), LabError> {
        drop(self.stop);
        let _ = self.thread.join();
        let flows = locked(&self.flows).take();
        flows.map_or(Ok(()), WatchedFlows::finish)
    }
}

fn locked(flows: &SharedFlows) -> MutexGuard<'_, Option<WatchedFlows>> {
    // A panic elsewhere leaves lines unwritten, at worst.
    flows.lock().unwrap_or_else(PoisonError::into_inner)
}

impl EventFlows {
    /// A connection is under control from now on.
    pub(crate) fn opened(&self, number: u64, flow: FlowHandle) {
        let watched = ReportedFlow { watch: flow.watch(), flow, missed: 0 };
        self.with(|flows| drop(flows.flows.insert(number, watched)));
    }

    /// A connection has ended; its last state is written, too.
    pub(crate) fn closed(&self, number: u64) {
        self.with(|flows| flows.closed(number));
    }

    fn with(&self, act: impl FnOnce(&mut WatchedFlows)) {
        if let Some(flows) = &mut *locked(&self.0) {
            act(flows);
        }
    }
}

struct WatchedFlows {
    log: EventLog<Box<dyn Write + Send>>,
    flows: BTreeMap<u64, ReportedFlow>,
    /// From one state to the next.
    every: Duration,
    state_at: Instant,
}

struct ReportedFlow {
    watch: FlowWatch,
    flow: FlowHandle,
    /// How many events have been reported as missing.
    missed: u64,
}

impl WatchedFlows {
    fn closed(&mut self, number: u64) {
        let Some(mut watched) = self.flows.remove(&number) else { return };
        watched.write_events(&mut self.log, number);
        watched.write_state(&mut self.log, number);
    }

    /// Writes the decisions since the last call, and when it is due the state of all connections.
    fn look(&mut self) {
        let is_due = Instant::now() >= self.state_at;
        for (&number, watched) in &mut self.flows {
            watched.write_events(&mut self.log, number);
            if is_due {
                watched.write_state(&mut self.log, number);
            }
        }
        if is_due {
            // In step, but nothing is made up for after a pause.
            self.state_at = (self.state_at + self.every).max(Instant::now());
            self.log.flush();
        }
    }

    fn finish(mut self) -> Result<(), LabError> {
        while let Some((&number, _)) = self.flows.first_key_value() {
            self.closed(number);
        }
        self.log.finish().map(drop)
    }
}

impl ReportedFlow {
    fn write_events(&mut self, log: &mut EventLog<Box<dyn Write + Send>>, flow: u64) {
        let controller = self.flow.controller().clone();
        let source = EventFlow { run: None, flow, cc: &controller };
        let missed = self.flow.missed_events();
        if missed > self.missed {
            log.missed(FlowHandle::now(), source, missed - self.missed);
            self.missed = missed;
        }
        while let Some((at, event)) = self.flow.poll_event() {
            log.event(at, source, &event);
        }
    }

    fn write_state(&self, log: &mut EventLog<Box<dyn Write + Send>>, flow: u64) {
        let stats = self.flow.stats();
        let metrics = FlowMetrics {
            cwnd: stats.cwnd,
            in_flight: stats.in_flight,
            srtt: stats.srtt,
            min_rtt: stats.min_rtt,
            values: self.watch.values().map(|inspected| inspected.values).unwrap_or_default(),
            tcp: Some(TcpMetrics {
                cwnd: stats.tcp_cwnd,
                ssthresh: stats.tcp_ssthresh,
                retransmissions: stats.retransmissions,
                unsent: stats.tcp_unsent,
            }),
        };
        let source = EventFlow { run: None, flow, cc: self.flow.controller() };
        log.metrics(FlowHandle::now(), source, &metrics);
    }
}
