//! The figures of a proxy's connections under a controller, as they are written.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellpace_proxy::ControlledFlow;
use cellpace_run::{AdoptedConnection, ClosedConnection, ConnectionLog, ConnectionWatcher};

/// Time that flows get to report their ends after those of their connections.
const LAST_WAIT: Duration = Duration::from_millis(500);

/// Follows the flows of a proxy until they have ended.
pub(crate) struct ProxyLog(Mutex<FollowedFlows>);

struct FollowedFlows {
    log: ConnectionLog,
    open: Vec<FollowedFlow>,
}

struct FollowedFlow {
    controlled: ControlledFlow,
    since: Instant,
}

impl ProxyLog {
    pub(crate) fn new(log: ConnectionLog) -> Self {
        Self(Mutex::new(FollowedFlows { log, open: Vec::new() }))
    }

    pub(crate) fn opened(&self, controlled: &ControlledFlow) {
        let flow = FollowedFlow { controlled: controlled.clone(), since: Instant::now() };
        let mut flows = self.lock();
        flows.log.opened(&flow.connection(), &controlled.flow);
        flows.open.push(flow);
    }

    /// Takes samples, and reports flows that have ended. To be called several times a second.
    pub(crate) fn look(&self) {
        let FollowedFlows { log, open } = &mut *self.lock();
        log.look();
        open.retain(|flow| {
            let is_open = flow.controlled.flow.outcome().is_none();
            if !is_open {
                log.closed(flow.closed());
            }
            is_open
        });
    }

    /// Reports the flows that are left.
    pub(crate) fn finish(&self) {
        let until = Instant::now() + LAST_WAIT;
        let FollowedFlows { log, open } = &mut *self.lock();
        for flow in open.drain(..) {
            flow.controlled.flow.wait(until.saturating_duration_since(Instant::now()));
            log.closed(flow.closed());
        }
    }

    fn lock(&self) -> MutexGuard<'_, FollowedFlows> {
        // A panic elsewhere leaves lines unwritten, at worst.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl FollowedFlow {
    fn connection(&self) -> AdoptedConnection {
        let ControlledFlow { number, outgoing, local, peer, .. } = self.controlled;
        AdoptedConnection { flow: number + 1, outgoing, local, peer }
    }

    fn closed(&self) -> ClosedConnection {
        let flow = &self.controlled.flow;
        let outcome = flow.outcome();
        ClosedConnection {
            connection: self.connection(),
            age: self.since.elapsed(),
            stats: flow.stats(),
            outcome,
            cut: outcome.is_none(),
            controller: flow.controller().clone(),
            driver: flow.driver(),
            driver_reason: flow.driver_reason().cloned(),
            controller_failure: flow.controller_failure(),
        }
    }
}
