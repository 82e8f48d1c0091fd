//! A run: begun, advanced as far as is wanted, and finished.

use std::sync::Arc;

use cellpace_base::statistics::nearest_rank;
use cellpace_base::{Span, Time};
use cellpace_measure::{
    Figures, FlowEvents, RtoFigures, SenderFigures, Series, Transfer, TransferSummary,
};
use cellpace_path::interrupted;
use cellpace_path::radio::Drive;
use cellpace_path::schedule::{capacity_between, capacity_bins};

use crate::ends::FlowEnds;
use crate::observer::{FlowView, Observer};
use crate::transfer_tally::{SenderCounts, round_ms};
use crate::world::{Remains, World};
use crate::{CellSpec, FlowSpec, FlowTraffic, Scenario, SimError};

/// What came out of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// The figures.
    pub figures: Figures,
    /// Figures over time.
    pub series: Series,
    /// Data packets sent again.
    pub retransmissions: u64,
    /// The transfers of all flows, flow by flow in the order in which they began.
    pub transfers: Vec<Transfer>,
    /// What the radio was like, where the trace is a radio layer.
    pub radio: Option<Arc<Drive>>,
}

/// Simulates a scenario.
///
/// # Errors
/// When the scenario is contradictory or its trace cannot be read.
pub fn run(scenario: &Scenario) -> Result<Outcome, SimError> {
    run_observed(scenario, &mut ())
}

/// Simulates a scenario and shows every packet and event to `observer`.
///
/// # Errors
/// When the scenario is contradictory or its trace cannot be read.
pub fn run_observed(
    scenario: &Scenario,
    observer: &mut impl Observer,
) -> Result<Outcome, SimError> {
    let mut simulation = Simulation::new(scenario)?;
    simulation.advance_observed(Time::MAX, observer)?;
    simulation.finish()
}

/// A run that its owner advances step by step; in which steps makes no difference to what comes
/// out. It may be dropped at any time.
///
/// ```
/// use cellpace_base::{Span, Time};
/// use cellpace_sim::{FlowSpec, Scenario, Simulation, run};
///
/// let scenario =
///     Scenario { flows: vec![FlowSpec::bulk("cubic".parse()?)], ..Scenario::default() };
/// let mut simulation = Simulation::new(&scenario)?;
/// while !simulation.is_over() {
///     simulation.advance(simulation.now() + Span::from_secs(1))?;
///     let flow = simulation.flow(0).expect("it starts at time zero");
///     assert!(flow.controller().cwnd() > 0);
/// }
/// assert_eq!(simulation.finish()?.figures, run(&scenario)?.figures);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Simulation {
    scenario: Scenario,
    world: Box<World>,
}

impl Simulation {
    /// The run at time zero, when nothing has been sent.
    ///
    /// # Errors
    /// When the scenario is contradictory or its trace cannot be read.
    pub fn new(scenario: &Scenario) -> Result<Self, SimError> {
        Self::with_ends(scenario, |_, _| Ok(None))
    }

    /// The same with ends that are not the simulator's own for the flows, by number, for which `build`
    /// returns some. They have data from their start to their stop, and keep to these themselves.
    ///
    /// # Errors
    /// As for [`new`](Self::new), and when `build` fails or such a flow is to have a traffic of its
    /// own or to go through a proxy.
    pub fn with_ends<E: From<SimError>>(
        scenario: &Scenario,
        mut build: impl FnMut(u32, &FlowSpec) -> Result<Option<Box<dyn FlowEnds>>, E>,
    ) -> Result<Self, E> {
        scenario.check()?;
        // Once, since the run and its capacity are both built from the trace that was drawn.
        let scenario = scenario.drawn();
        let mut ends = Vec::new();
        for (index, flow) in (0..).zip(&scenario.flows) {
            let of_flow = build(index, flow)?;
            // Without this the simulator's own sender would run under another stack's name.
            if let (None, Some(stack)) = (&of_flow, &flow.stack) {
                let why = "is not the simulator's own sender, and this program has no other";
                let text = format!("flow {}: stack: `{stack}` {why}", index + 1);
                return Err(SimError::Invalid(text).into());
            }
            if of_flow.is_some() {
                check_other_ends(&scenario, flow)
                    .map_err(|why| SimError::Invalid(why.to_owned()))?;
            }
            ends.push(of_flow);
        }
        let world = Box::new(World::new(&scenario, ends)?);
        Ok(Self { scenario, world })
    }

    /// The ends of a flow that are not the simulator's own.
    pub fn ends(&self, flow: usize) -> Option<&dyn FlowEnds> {
        self.world.ends(flow)
    }

    /// The same, to be changed.
    pub fn ends_mut(&mut self, flow: usize) -> Option<&mut dyn FlowEnds> {
        self.world.ends_mut(flow)
    }

    /// How far the run has come.
    pub fn now(&self) -> Time {
        self.world.now()
    }

    /// Whether it has come to its end.
    pub fn is_over(&self) -> bool {
        self.now() >= self.scenario.end()
    }

    /// Simulates all that happens up to and including `until`, or up to the end of the run if that
    /// is earlier.
    ///
    /// # Errors
    /// When more is in flight than memory should hold. The run cannot go on then.
    pub fn advance(&mut self, until: Time) -> Result<(), SimError> {
        self.advance_observed(until, &mut ())
    }

    /// Like [`advance`](Self::advance), and shows every packet and event to `observer`.
    ///
    /// # Errors
    /// When more is in flight than memory should hold. The run cannot go on then.
    pub fn advance_observed(
        &mut self,
        until: Time,
        observer: &mut impl Observer,
    ) -> Result<(), SimError> {
        self.world.advance(until, observer)
    }

    /// The present connection of a flow, counted from 0, if it has one. Flows that send both ways
    /// have none to be seen.
    pub fn flow(&self, index: usize) -> Option<FlowView<'_>> {
        self.world.flow(index)
    }

    /// What came out. What is left of the run is simulated first, unobserved.
    ///
    /// # Errors
    /// When more is in flight than memory should hold.
    pub fn finish(mut self) -> Result<Outcome, SimError> {
        self.advance(Time::MAX)?;
        let results = self.world.finish(self.scenario.chain.as_ref());
        conclude(&self.scenario, results)
    }
}

/// Refuses what only the simulator's own senders do.
fn check_other_ends(scenario: &Scenario, flow: &FlowSpec) -> Result<(), &'static str> {
    if !matches!(flow.traffic, FlowTraffic::Bulk) || flow.cc.is_none() {
        return Err("flows of another stack always have data, and a controller");
    }
    if flow.reverse.is_some() {
        return Err("flows of another stack send one way: `reverse` is for the built-in sprout");
    }
    match scenario.chain.as_ref().is_some_and(|chain| chain.proxy.is_some()) {
        true => Err("QUIC is encrypted from end to end, so that no proxy splits its flows"),
        false => Ok(()),
    }
}

/// Makes the outcome of what a run has left.
pub(crate) fn conclude(scenario: &Scenario, mut results: Remains) -> Result<Outcome, SimError> {
    let capacity = Capacity::offered(scenario)?;
    let chain = results.chain;
    note_network(&mut results.transfers, scenario);
    let (mut figures, mut series) = results.collector.finish(capacity.in_window);
    figures.pings = results.pings;
    figures.handovers = scenario.handovers().len() as u64;
    for (flow, spec) in figures.per_flow.iter_mut().zip(&scenario.flows) {
        flow.cc = spec.name();
    }
    for (flow, refused) in figures.per_flow.iter_mut().zip(results.refused) {
        flow.refused = refused;
    }
    for (flow, player) in figures.per_flow.iter_mut().zip(results.players) {
        flow.player = player;
    }
    for (flow, video) in figures.per_flow.iter_mut().zip(results.videos) {
        flow.video = video;
    }
    for (index, flow) in figures.per_flow.iter_mut().enumerate() {
        let own = results.transfers.iter().filter(|transfer| transfer.flow == index);
        flow.transfers = TransferSummary::of(&flow.cc, own);
    }
    let handovers = scenario.handovers().iter().map(|handover| handover.at);
    series.events.extend(FlowEvents::handovers(handovers));
    series.capacity_mbps = capacity.series_mbps;
    series.cwnd_packets = results.sampler.cwnd;
    series.inspected = results.sampler.inspected;
    series.profiles = results.sampler.profiles;
    let of_proxy = chain.as_ref().and_then(|chain| Some(chain.proxy.as_ref()?.radio.retransmitted));
    let of_flows: u64 = results.counts.iter().flatten().map(|counts| counts.retransmitted).sum();
    let retransmissions = of_flows + of_proxy.unwrap_or(0);
    if let Some(chain) = chain.as_ref().filter(|_| scenario.has_routes())
        && let Some(last) = chain.segments.last()
    {
        // What leads over other links alone does not use the last one.
        let window = (scenario.duration - scenario.skip).as_secs_f64();
        let bytes = last.throughput_mbps * 1e6 / 8.0 * window;
        figures.utilization = bytes / capacity.in_window.max(1) as f64;
    }
    figures.chain = chain;
    let skipped = scenario.skip.as_nanos() / scenario.bin.as_nanos();
    for (index, flow) in figures.per_flow.iter_mut().enumerate() {
        let of_cc = scenario.flows[index].cc.is_some();
        let rtos = results.sampler.rto_ms.get(index);
        let rtos = rtos.and_then(|rtos| rtos.get(skipped as usize..)).unwrap_or_default();
        flow.sender =
            results.counts[index].filter(|_| of_cc).map(|counts| sender_figures(&counts, rtos));
    }
    series.rto_ms = results.sampler.rto_ms;
    let transfers = results.transfers;
    let radio = scenario.trace().drive().cloned();
    Ok(Outcome { figures, series, retransmissions, transfers, radio })
}

/// Fills in what the network did during each transfer: handovers, and what the radio was like.
fn note_network(transfers: &mut [Transfer], scenario: &Scenario) {
    let end = scenario.end().as_secs_f64();
    // In a cell the handovers of a radio layer do not act, and users have traces of their own.
    let trace = Some(scenario.trace()).filter(|_| scenario.cell.is_none());
    for transfer in transfers {
        let during = transfer.start_s..=transfer.end_s.unwrap_or(end);
        let times = scenario.handovers().iter().map(|handover| handover.at.as_secs_f64());
        transfer.handovers = times.filter(|at| during.contains(at)).count() as u64;
        let [from, to] =
            [during.start(), during.end()].map(|at| Time::ZERO + Span::from_secs_f64(*at));
        let Some(radio) = trace.and_then(|trace| trace.radio_between(from, to)) else { continue };
        transfer.cells = Some(radio.cells);
        transfer.mean_sinr_db = Some((radio.mean_sinr_db * 1e3).round() / 1e3);
    }
}

/// What a flow's sender did, and its retransmission timeouts at the ends of the bins that count.
fn sender_figures(counts: &SenderCounts, rtos_ms: &[f32]) -> SenderFigures {
    let mut known: Vec<f32> = rtos_ms.iter().copied().filter(|rto| !rto.is_nan()).collect();
    let mut at = |level| nearest_rank(&mut known, level).map(|ms| round_ms(f64::from(ms)));
    SenderFigures {
        retransmitted: counts.retransmitted,
        timeouts: counts.timeouts,
        spurious_timeouts: counts.spurious_timeouts,
        spurious_losses: counts.spurious_losses,
        rto_ms: at(0.5).zip(at(0.95)).map(|(p50, p95)| RtoFigures { p50, p95 }),
    }
}

/// What the link offered.
struct Capacity {
    series_mbps: Vec<f32>,
    in_window: u64,
}

impl Capacity {
    /// Counts the opportunities of fresh copies of the schedule.
    fn offered(scenario: &Scenario) -> Result<Self, SimError> {
        let end = scenario.end();
        let skip = Time::ZERO + scenario.skip;
        let to_mbps = 8.0 / 1e6 / scenario.bin.as_secs_f64();
        let to_series = |bins: Vec<u64>| -> Vec<f32> {
            bins.iter().map(|bytes| (*bytes as f64 * to_mbps) as f32).collect()
        };
        if let Some(cell) = &scenario.cell {
            let (bins, in_window) = offered_by_cell(scenario, cell)?;
            return Ok(Self { series_mbps: to_series(bins), in_window });
        }
        let schedule = || -> Result<_, SimError> {
            Ok(interrupted(scenario.trace().build(scenario.seed)?, scenario.handovers()))
        };
        let bins = capacity_bins(schedule()?.as_mut(), scenario.bin, end);
        Ok(Self {
            series_mbps: to_series(bins),
            in_window: capacity_between(schedule()?.as_mut(), skip, end),
        })
    }
}

/// What a cell offers, in bins of the whole run and in the part of it that counts.
fn offered_by_cell(scenario: &Scenario, cell: &CellSpec) -> Result<(Vec<u64>, u64), SimError> {
    let (bin, end) = (scenario.bin.as_nanos(), scenario.end());
    let mut bins = vec![0.0; scenario.duration.as_nanos().div_ceil(bin) as usize];
    let mut in_window = 0.0;
    cell.offered(scenario.trace(), scenario.handovers(), scenario.seed, end, |at, bytes| {
        // A TTI belongs to the bin in which it ends, as a departure does.
        if let Some(sum) = bins.get_mut(((at.as_nanos() - 1) / bin) as usize) {
            *sum += bytes;
        }
        if at > Time::ZERO + scenario.skip {
            in_window += bytes;
        }
    })?;
    Ok((bins.into_iter().map(|bytes| bytes as u64).collect(), in_window as u64))
}
