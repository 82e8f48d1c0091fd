//! What the controllers of connections above TCP decide, written down as it happens.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::Path;
use std::time::{Duration, Instant};

use cellpace_cc::ControllerSpec;
use cellpace_lab::{EventFlow, EventLog, FlowMetrics};
use cellpace_tcp::FlowHandle;

use crate::error::Failure;
use crate::output::complain;

/// So often should be looked for events: a flow keeps the newest 64, and counts the others.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// So often the state of each flow is told.
const STATE: Duration = Duration::from_secs(1);

/// The events of all connections that are open.
pub(crate) struct FlowEvents {
    log: EventLog<File>,
    cc: String,
    flows: BTreeMap<u64, Watched>,
    state_at: Instant,
}

struct Watched {
    flow: FlowHandle,
    /// As many events as have been told to be missing.
    missed: u64,
}

impl FlowEvents {
    /// Begins the file, if there is to be one; `program` is who writes it.
    pub(crate) fn create(
        path: Option<&Path>,
        program: &str,
        cc: &ControllerSpec,
    ) -> Result<Option<Self>, Failure> {
        let Some(path) = path else { return Ok(None) };
        let cc = cc.to_string();
        let log = EventLog::create(path, program, &cc)
            .map_err(|error| Failure::failed(format!("--events: {error}")))?;
        Ok(Some(Self { log, cc, flows: BTreeMap::new(), state_at: Instant::now() + STATE }))
    }

    /// A connection is under control from now on.
    pub(crate) fn opened(&mut self, number: u64, flow: FlowHandle) {
        self.flows.insert(number, Watched { flow, missed: 0 });
    }

    /// A connection is not any more. What it was last like is told, too.
    pub(crate) fn closed(&mut self, number: u64) {
        let Some(mut watched) = self.flows.remove(&number) else { return };
        watched.decided(&mut self.log, number, &self.cc);
        watched.state(&mut self.log, number, &self.cc);
    }

    /// Writes what was decided since the last time, and each second the state of all connections.
    pub(crate) fn look(&mut self) {
        let is_due = Instant::now() >= self.state_at;
        for (&number, watched) in &mut self.flows {
            watched.decided(&mut self.log, number, &self.cc);
            if is_due {
                watched.state(&mut self.log, number, &self.cc);
            }
        }
        if is_due {
            self.state_at = Instant::now() + STATE;
            self.log.flush();
        }
    }

    /// The end; says so if not everything could be written.
    pub(crate) fn finish(mut self) {
        while let Some((&number, _)) = self.flows.first_key_value() {
            self.closed(number);
        }
        if let Err(error) = self.log.finish() {
            complain(&format!("--events: {error}"));
        }
    }
}

impl Watched {
    fn decided(&mut self, log: &mut EventLog<File>, flow: u64, cc: &str) {
        let source = EventFlow { run: None, flow, cc };
        let missed = self.flow.missed_events();
        if missed > self.missed {
            log.missed(FlowHandle::now(), source, missed - self.missed);
            self.missed = missed;
        }
        while let Some((at, event)) = self.flow.poll_event() {
            log.event(at, source, &event);
        }
    }

    fn state(&self, log: &mut EventLog<File>, flow: u64, cc: &str) {
        let stats = self.flow.stats();
        let metrics = FlowMetrics {
            cwnd: stats.cwnd,
            in_flight: stats.in_flight,
            srtt: stats.srtt,
            min_rtt: stats.min_rtt,
            values: Vec::new(),
        };
        log.metrics(FlowHandle::now(), EventFlow { run: None, flow, cc }, &metrics);
    }
}
