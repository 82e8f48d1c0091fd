//! What the controllers of connections above TCP decide, written down as it happens.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use cellpace_cc::ControllerSpec;
use cellpace_tcp::FlowHandle;

use crate::error::Failure;
use crate::event_log::{EventLog, Metrics};
use crate::output::complain;

/// So often should be looked for events: a flow keeps the newest 64.
pub(crate) const LOOK: Duration = Duration::from_millis(100);
/// So often the state of each flow is told.
const STATE: Duration = Duration::from_secs(1);

/// The events of all connections that are open.
pub(crate) struct FlowEvents {
    log: EventLog,
    cc: String,
    flows: BTreeMap<u64, FlowHandle>,
    state_at: Instant,
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
        self.flows.insert(number, flow);
    }

    /// A connection is not any more. What it was last like is told, too.
    pub(crate) fn closed(&mut self, number: u64) {
        let Some(flow) = self.flows.remove(&number) else { return };
        decided(&mut self.log, number, &self.cc, &flow);
        state(&mut self.log, number, &self.cc, &flow);
    }

    /// Writes what was decided since the last time, and each second the state of all connections.
    pub(crate) fn look(&mut self) {
        let is_due = Instant::now() >= self.state_at;
        for (&number, flow) in &self.flows {
            decided(&mut self.log, number, &self.cc, flow);
            if is_due {
                state(&mut self.log, number, &self.cc, flow);
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

fn decided(log: &mut EventLog, number: u64, cc: &str, flow: &FlowHandle) {
    while let Some((at, event)) = flow.poll_event() {
        log.event(at, number, cc, &event);
    }
}

fn state(log: &mut EventLog, number: u64, cc: &str, flow: &FlowHandle) {
    let stats = flow.stats();
    let (cwnd, in_flight, srtt, min_rtt) = (stats.cwnd, stats.in_flight, stats.srtt, stats.min_rtt);
    log.metrics(FlowHandle::now(), number, cc, Metrics { cwnd, in_flight, srtt, min_rtt });
}
