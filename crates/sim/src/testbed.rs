//! A scenario for senders that are not the simulator's own: its two paths, and what makes figures of
//! what becomes of their packets.

use cellpace_base::{Span, Time};
use cellpace_cc::{Controller, Event, RttEstimator};
use cellpace_measure::Collector;
use cellpace_path::{OPPORTUNITY_BYTES, PacketRecord, Path};

use crate::sampler::{SampledFlow, SeriesSampler};
use crate::simulation::conclude;
use crate::transfer_tally::SenderCounts;
use crate::world::{DelaySplit, Remains, collector, forward_spec, mark, reverse_spec};
use crate::{FlowTraffic, FlowView, Outcome, Scenario, SimError};

/// What a sender did during all of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderTotals {
    /// Packets declared lost, whose data went out again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that the first ack after them showed to be wrong.
    pub spurious_timeouts: u64,
    /// Packets declared lost that had arrived.
    pub spurious_losses: u64,
}

/// The controller of a flow and what it knows, to be sampled.
#[derive(Clone, Copy)]
pub struct FlowSample<'a> {
    /// The controller.
    pub controller: &'a dyn Controller,
    /// Bytes in flight.
    pub in_flight: u64,
    /// RTT statistics.
    pub rtt: &'a RttEstimator,
    /// The retransmission timeout.
    pub rto: Span,
}

impl<'a> FlowSample<'a> {
    /// The same as an observer sees it.
    pub fn view(&self, flow: u32) -> FlowView<'a> {
        FlowView::new(flow, self.controller, self.in_flight, self.rtt)
    }
}

impl SampledFlow for Option<FlowSample<'_>> {
    fn cwnd_packets(&self) -> Option<f32> {
        let cwnd = self.as_ref()?.controller.cwnd();
        Some((cwnd as f64 / f64::from(OPPORTUNITY_BYTES)) as f32)
    }

    fn rto_ms(&self) -> Option<f32> {
        Some(self.as_ref()?.rto.as_millis_f64() as f32)
    }

    fn controller(&self) -> Option<&dyn Controller> {
        Some(self.as_ref()?.controller)
    }
}

/// Takes records and samples of a run whose owner carries the packets, and ends with its outcome.
///
/// The owner sends over the paths from [`paths`](Self::paths), passes each record of the forward
/// path on, and calls [`sample`](Self::sample) at [`next_sample`](Self::next_sample).
pub struct Testbed {
    scenario: Scenario,
    collector: Collector,
    sampler: SeriesSampler,
}

impl Testbed {
    /// A test bed for `scenario`.
    ///
    /// # Errors
    /// When the scenario contradicts itself, or has what only the simulator's own senders do:
    /// anything but flows that always have data over one link.
    pub fn new(scenario: &Scenario) -> Result<Self, SimError> {
        scenario.check()?;
        check_plain(scenario).map_err(|text| SimError::Invalid(text.to_owned()))?;
        let scenario = scenario.drawn();
        let flows = scenario.flows.len();
        Ok(Self {
            collector: collector(&scenario),
            sampler: SeriesSampler::new(scenario.bin, scenario.end(), flows),
            scenario,
        })
    }

    /// The scenario with what its seed alone decides.
    pub fn scenario(&self) -> &Scenario {
        &self.scenario
    }

    /// The paths of data and of what goes back.
    ///
    /// # Errors
    /// When a trace cannot be read.
    pub fn paths(&self) -> Result<[Path; 2], SimError> {
        let delays = DelaySplit::new(&self.scenario);
        let seed = self.scenario.seed;
        Ok([
            forward_spec(&self.scenario, &delays).build(seed)?,
            reverse_spec(&self.scenario, &delays).build_reverse(seed)?,
        ])
    }

    /// What became of a data packet.
    pub fn record(&mut self, record: &PacketRecord) {
        self.collector.record(record);
    }

    /// The sender of a flow saw an RTT.
    pub fn rtt(&mut self, now: Time, flow: usize, rtt: Span) {
        self.collector.rtt(now, flow, rtt);
    }

    /// The controller of a flow decided something.
    pub fn event(&mut self, flow: usize, at: Time, event: &Event) {
        mark(&mut self.collector, flow, at, event);
    }

    /// When the series want their next sample.
    pub fn next_sample(&self) -> Time {
        self.sampler.next
    }

    /// Takes a sample of all flows; `None` for those whose controller is not known.
    pub fn sample(&mut self, flows: &[Option<FlowSample<'_>>]) {
        self.sampler.take(flows);
    }

    /// What came out, with a last sample and what each sender did; `None` where nobody knows.
    ///
    /// # Errors
    /// When the trace cannot be read again.
    pub fn finish(
        mut self,
        flows: &[Option<FlowSample<'_>>],
        totals: &[Option<SenderTotals>],
    ) -> Result<Outcome, SimError> {
        self.sampler.finish(flows);
        let counts = |totals: &Option<SenderTotals>| {
            let totals = totals.unwrap_or_default();
            SenderCounts {
                sent: 0,
                retransmitted: totals.retransmitted,
                timeouts: totals.timeouts,
                spurious_timeouts: totals.spurious_timeouts,
                spurious_losses: totals.spurious_losses,
            }
        };
        let remains = Remains {
            collector: self.collector,
            sampler: self.sampler,
            counts: totals.iter().map(counts).collect(),
            refused: vec![0; self.scenario.flows.len()],
            videos: Vec::new(),
            transfers: Vec::new(),
            pings: Vec::new(),
        };
        let mut outcome = conclude(&self.scenario, remains, None)?;
        for (flow, totals) in outcome.figures.per_flow.iter_mut().zip(totals) {
            flow.sender = flow.sender.filter(|_| totals.is_some());
        }
        Ok(outcome)
    }
}

/// Refuses what only the simulator's own senders do.
fn check_plain(scenario: &Scenario) -> Result<(), &'static str> {
    let flows = &scenario.flows;
    if flows.iter().any(|flow| !matches!(flow.traffic, FlowTraffic::Bulk) || flow.cc.is_none()) {
        return Err("flows of another stack always have data, and a controller");
    }
    let is_own = |flow: &crate::FlowSpec| {
        flow.rtt.is_some()
            || flow.reverse.is_some()
            || flow.start > Time::ZERO
            || flow.start_after.is_some()
            || flow.stop < Time::MAX
    };
    if flows.iter().any(is_own) {
        return Err("flows of another stack last the whole run, over the RTT of the path");
    }
    let is_plain = scenario.chain.is_none()
        && scenario.cell.is_none()
        && scenario.pings.is_empty()
        && scenario.bottleneck.host().is_none();
    if !is_plain {
        return Err("flows of another stack have one link without pings, in the network");
    }
    Ok(())
}
