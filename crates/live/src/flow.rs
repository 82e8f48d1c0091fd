//! TCP connections under a controller, as they are shown.

use cellpace_lab::describe_event;
use cellpace_tcp::{FlowHandle, FlowStats, FlowWatch};

use crate::figures::{ConnectionFigures, ConnectionInside, LiveConnection, WatchedConnection};

impl From<FlowStats> for ConnectionFigures {
    fn from(stats: FlowStats) -> Self {
        let above_base = |(rtt, base): (_, _)| rtt - base;
        Self {
            sent_bytes: stats.sent_bytes,
            delivered_bytes: stats.acked_bytes,
            received_bytes: stats.received_bytes,
            lost: stats.retransmissions,
            rtt: stats.srtt,
            min_rtt: stats.min_rtt,
            queue_delay: stats.srtt.zip(stats.min_rtt).map(above_base),
            cwnd: Some(stats.cwnd).filter(|cwnd| *cwnd < u64::MAX),
            tcp_cwnd: Some(stats.tcp_cwnd),
            in_flight: Some(stats.in_flight),
            queued: Some(stats.queued_bytes),
            phase: stats.phase.map(cellpace_cc::Phase::name),
        }
    }
}

impl LiveConnection for FlowHandle {
    fn figures(&self) -> ConnectionFigures {
        self.stats().into()
    }

    fn watch(&self) -> Option<Box<dyn WatchedConnection>> {
        Some(Box::new(WatchedFlow { watch: Self::watch(self), next_event: 0, looks: 0 }))
    }
}

/// Looks from one profile to the next: it changes slowly, and a thousand points are many to send.
const LOOKS_PER_PROFILE: u64 = 10;

struct WatchedFlow {
    watch: FlowWatch,
    next_event: u64,
    looks: u64,
}

impl WatchedConnection for WatchedFlow {
    fn look(&mut self) -> ConnectionInside {
        let now = FlowHandle::now();
        // What is asked for at one look is there at the next.
        let wants_profile = self.looks % LOOKS_PER_PROFILE < 2;
        self.looks += 1;
        let events =
            self.watch.events_since(&mut self.next_event).into_iter().map(|(at, event)| {
                let (name, data) = describe_event(&event);
                ((now - at).as_secs_f64(), name, data)
            });
        ConnectionInside {
            events: events.collect(),
            values: self.watch.values().map(|inspected| inspected.values).unwrap_or_default(),
            profile: if wants_profile { self.watch.profile() } else { None },
        }
    }
}
