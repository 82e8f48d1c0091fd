//! What the tests of whole runs share.

#![allow(unreachable_pub, missing_docs)]

use cellpace_base::{Span, Time};
use cellpace_cc::Event;
use cellpace_path::{Fate, PacketRecord};
use cellpace_sim::{FlowSpec, Observer, Outcome, Scenario, run, run_observed};

/// A flow that always has data.
pub fn bulk(cc: &str) -> FlowSpec {
    FlowSpec::bulk(cc.parse().unwrap())
}

/// A constant rate that does not react.
pub fn udp(rate: &str) -> FlowSpec {
    FlowSpec::constant_rate(rate.parse().unwrap())
}

pub fn secs(secs: u64) -> Span {
    Span::from_secs(secs)
}

pub fn at_ms(ms: u64) -> Time {
    Time::from_millis(ms)
}

/// One flow of `cc` over `trace` and `queue`, 40 ms, for `seconds`, of which the second half
/// counts.
pub fn lone(cc: &str, trace: &str, queue: &str, seconds: u64) -> Scenario {
    Scenario {
        flows: vec![bulk(cc)],
        duration: secs(seconds),
        skip: secs(seconds) / 2,
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some(trace.parse().unwrap());
        link.down.queue = queue.parse().unwrap();
    })
}

pub fn outcome(scenario: &Scenario) -> Outcome {
    run(scenario).unwrap()
}

/// Keeps everything that it is shown.
#[derive(Default)]
pub struct Log {
    pub records: Vec<PacketRecord>,
    pub events: Vec<(u32, Time, Event)>,
}

impl Observer for Log {
    fn on_record(&mut self, record: &PacketRecord) {
        self.records.push(*record);
    }

    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        self.events.push((flow, at, event));
    }
}

impl Log {
    pub fn delivered(&self) -> impl Iterator<Item = &PacketRecord> {
        self.records.iter().filter(|record| record.fate == Fate::Delivered)
    }

    pub fn of_flow(&self, flow: u32) -> impl Iterator<Item = &PacketRecord> {
        self.records.iter().filter(move |record| record.packet.flow == flow)
    }
}

/// The run and everything that was to be seen of it.
pub fn observed(scenario: &Scenario) -> (Outcome, Log) {
    let mut log = Log::default();
    let outcome = run_observed(scenario, &mut log).unwrap();
    (outcome, log)
}
