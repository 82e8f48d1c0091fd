//! The links of a scenario in both directions: one, or several in series, of which the last may be a
//! cell.

use std::collections::HashMap;

use cellpace_base::{Random, Span, Time};
use cellpace_measure::{DelaySketch, MeasuredWindow, SegmentFigures};
use cellpace_path::{DelaySpec, Fate, Handover, PacketRecord, Path, PathSpec};

use crate::cell::RadioCell;
use crate::chain_spec::{ChainSpec, LinkRoute, SegmentSpec};
use crate::flow::OwnDelay;
use crate::send_jitter::{longest_delays, longest_delays_in_cell};
use crate::{FlowSpec, Scenario, SimError};

/// Seeds of the links in front of the last are drawn from these streams, far from those of the flows.
const SEGMENT_STREAMS: u64 = 1 << 41;

/// What a packet has behind it on the links before the present one.
#[derive(Clone, Copy)]
struct Carried {
    sent_at: Time,
    queued: Span,
}

#[derive(Default)]
struct SegmentTally {
    bytes: u64,
    lost: u64,
    queue: DelaySketch,
}

/// Links in series, in the order of data.
pub(crate) struct Links {
    pub(crate) down: Vec<Path>,
    /// The ways back over the same links.
    pub(crate) up: Vec<Path>,
    window: MeasuredWindow,
    /// Packets on the second link of their route or a later one, by flow and id.
    carried: HashMap<(u32, u64), Carried>,
    tallies: Vec<SegmentTally>,
}

impl Links {
    /// Idle links at time zero. `routes` has those of the flows.
    pub(crate) fn new(
        scenario: &Scenario,
        routes: &[LinkRoute],
        delays: &DelaySplit,
        window: MeasuredWindow,
    ) -> Result<Self, SimError> {
        let (down, up) = match &scenario.chain {
            None => one_link(scenario, delays)?,
            Some(chain) => in_series(scenario, chain, routes, delays)?,
        };
        let tallies = down.iter().map(|_| SegmentTally::default()).collect();
        Ok(Self { down, up, window, carried: HashMap::new(), tallies })
    }

    /// The number of the last one.
    pub(crate) fn last(&self) -> usize {
        self.down.len() - 1
    }

    /// When the first of them has something to do, or `Time::MAX`.
    #[inline]
    pub(crate) fn next_deadline(&self) -> Time {
        let mut next = Time::MAX;
        for path in self.down.iter().chain(&self.up) {
            next = next.min(path.next_deadline().unwrap_or(Time::MAX));
        }
        next
    }

    /// Whether anything has come back over a link, or was dropped there, at `now`.
    #[inline]
    pub(crate) fn is_up_due(&self, now: Time) -> bool {
        self.up.iter().any(|path| path.next_deadline().is_some_and(|due| due <= now))
    }

    /// A packet has left link `link` of `route`, or was dropped there. Returns whether its way ends here;
    /// the record is then one of all links that it crossed. Otherwise it is on the next link.
    #[inline]
    pub(crate) fn pass(
        &mut self,
        now: Time,
        link: usize,
        route: LinkRoute,
        record: &mut PacketRecord,
    ) -> bool {
        self.down.len() == 1 || self.pass_on(now, link, route, record)
    }

    fn pass_on(
        &mut self,
        now: Time,
        link: usize,
        route: LinkRoute,
        record: &mut PacketRecord,
    ) -> bool {
        self.tally(link, record);
        let (is_last, is_copy) = (link == route.last, record.fate == Fate::Duplicate);
        if is_copy && !is_last {
            // It has nothing that the packet itself does not bring to the next link.
            return false;
        }
        let queued = record.queue_delay();
        let packet = &mut record.packet;
        // Packets of one flow may be on several links at once, so each is found by its own number.
        let key = (packet.flow, packet.id);
        let before = match is_copy {
            // The packet itself still follows, and takes the entry.
            true => self.carried.get(&key).copied(),
            false => self.carried.remove(&key),
        };
        let mut carried = before.unwrap_or(Carried { sent_at: packet.sent_at, queued: Span::ZERO });
        carried.queued += queued;
        if record.fate == Fate::Delivered && !is_last {
            self.carried.insert(key, carried);
            packet.sent_at = now;
            self.down[link + 1].push(*packet);
            return false;
        }
        // As one link would have delivered it: the queues of all, behind the delays of all.
        packet.sent_at = carried.sent_at;
        packet.enqueued_at = packet.departed_at - carried.queued;
        true
    }

    fn tally(&mut self, link: usize, record: &PacketRecord) {
        if !self.window.contains(record.packet.departed_at) {
            return;
        }
        let tally = &mut self.tallies[link];
        match record.fate {
            Fate::Delivered => {
                tally.bytes += u64::from(record.packet.size);
                tally.queue.record(record.queue_delay());
            }
            Fate::Dropped(_) => tally.lost += 1,
            // A copy takes no capacity of the link (see `ImpairSpec`), so it has no part in its
            // rate.
            Fate::Duplicate => {}
        }
    }

    /// The figures of each link of a chain.
    pub(crate) fn figures(&self, chain: &ChainSpec) -> Vec<SegmentFigures> {
        let names = chain.before.iter().map(|segment| &segment.name).chain([&chain.last]);
        let figures = |(name, tally): (&String, &SegmentTally)| SegmentFigures {
            name: name.clone(),
            throughput_mbps: tally.bytes as f64 * 8.0 / 1e6 / self.window.seconds(),
            queue_delay_ms: tally.queue.summary(),
            lost: tally.lost,
        };
        names.zip(&self.tallies).map(figures).collect()
    }
}

/// Paths towards the receivers, and the ways back over the same links.
type BuiltPaths = (Vec<Path>, Vec<Path>);

fn one_link(scenario: &Scenario, delays: &DelaySplit) -> Result<BuiltPaths, SimError> {
    let mut down = last_down(scenario, &forward_spec(scenario, delays))?;
    let mut up = reverse_spec(scenario, delays).build_reverse(scenario.seed)?;
    up.share_radio(&down);
    if delays.is_behind {
        up.take_base_delay(&mut down);
    }
    Ok((vec![down], vec![up]))
}

fn in_series(
    scenario: &Scenario,
    chain: &ChainSpec,
    routes: &[LinkRoute],
    delays: &DelaySplit,
) -> Result<BuiltPaths, SimError> {
    let (mut down, mut up) = (Vec::new(), Vec::new());
    // The senders are in front of the links; behind a proxy there are others.
    let behind = chain.proxy.is_none().then_some(scenario.trace());
    let links = chain.before.iter().filter_map(|segment| segment.link.down.trace.as_ref());
    let send_jitter = longest_delays(scenario, links.chain(behind));
    let jitter_at = |place| senders_at(place, &send_jitter, routes);
    // A proxy ends the connection, so that each side of it has an RTT of its own.
    let (wired, radio) = (chain.rtt_before(), scenario.link.rtt().mean());
    let (rtt, last_rtt) = match chain.proxy {
        Some(_) => (wired, radio),
        None => (wired + radio, wired + radio),
    };
    for (place, segment) in chain.before.iter().enumerate() {
        // Each draws on its own.
        let seed = Random::seeded(scenario.seed, SEGMENT_STREAMS + place as u64).bits();
        let is_in_host = place == 0 && scenario.bottleneck.host().is_some();
        let [to, from] = segment_paths(segment, (rtt, jitter_at(place)), is_in_host, seed)?;
        down.push(to);
        up.push(from);
    }
    // The RTT here only sizes queues in BDP: it is that of the connections that cross the link.
    let mut last = PathSpec { rtt: last_rtt.into(), ..forward_spec(scenario, delays) };
    if chain.proxy.is_none() {
        last.send_jitter = jitter_at(down.len());
    }
    let to = last_down(scenario, &last)?;
    // The same seed as down: both directions draw the same delays at the same times.
    let mut from = reverse_spec(scenario, delays).build_reverse(scenario.seed)?;
    from.share_radio(&to);
    down.push(to);
    up.push(from);
    Ok((down, up))
}

/// Both directions of a link in front of the last, in a connection of this RTT. All of the delay of
/// one in the sending host is behind it.
fn segment_paths(
    segment: &SegmentSpec,
    (rtt, send_jitter): (Span, Vec<Span>),
    is_in_host: bool,
    seed: u64,
) -> Result<[Path; 2], SimError> {
    let mut down = PathSpec { rtt: rtt.into(), send_jitter, ..segment.link.down.clone() };
    let mut up = segment.link.up.clone();
    if is_in_host {
        (down.delay, up.delay) = (DelaySpec::default(), segment.link.rtt().clone());
    }
    let (mut down, mut up) = (down.build(seed)?, up.build_reverse(seed)?);
    up.share_radio(&down);
    if is_in_host {
        up.take_base_delay(&mut down);
    }
    Ok([down, up])
}

/// The longest delays of the flows that begin at this link; empty where there are none.
fn senders_at(place: usize, longest: &[Span], routes: &[LinkRoute]) -> Vec<Span> {
    let begins = |route: &LinkRoute| route.first == place;
    if !routes.iter().any(begins) {
        return Vec::new();
    }
    let flows = longest.iter().zip(routes);
    flows.map(|(longest, route)| if begins(route) { *longest } else { Span::ZERO }).collect()
}

/// The path of data over the last link, which is that of the scenario or leads to its cell.
fn last_down(scenario: &Scenario, spec: &PathSpec) -> Result<Path, SimError> {
    let mut path = spec.build(scenario.seed)?;
    if let Some(cell) = cell(scenario)? {
        path.end_at(Box::new(cell));
    }
    Ok(path)
}

fn cell(scenario: &Scenario) -> Result<Option<RadioCell>, SimError> {
    let Some(spec) = &scenario.cell else { return Ok(None) };
    let user =
        |name: &Option<String>| name.as_deref().and_then(|name| spec.user(name)).unwrap_or(0);
    let of_pings = scenario.pings.iter().map(|ping| user(&ping.user));
    let users = scenario.flows.iter().map(|flow| user(&flow.user)).chain(of_pings).collect();
    let channel = (scenario.trace(), scenario.handovers());
    RadioCell::new(spec, users, channel, scenario.link.rtt().mean(), scenario.seed).map(Some)
}

fn forward_spec(scenario: &Scenario, delays: &DelaySplit) -> PathSpec {
    PathSpec {
        trace: scenario.cell.is_none().then(|| scenario.trace().clone()),
        delay: delays.forward.clone(),
        handovers: delays.handovers(&scenario.link.down, 0),
        send_jitter: match &scenario.cell {
            Some(cell) => longest_delays_in_cell(scenario, cell),
            None => longest_delays(scenario, std::iter::once(scenario.trace())),
        },
        ..scenario.link.down.clone()
    }
}

fn reverse_spec(scenario: &Scenario, delays: &DelaySplit) -> PathSpec {
    // Data that goes this way has senders here; acks do not.
    let has_data = scenario.flows.iter().any(|flow| flow.reverse.is_some());
    let jittering = scenario.link.up.trace.iter().filter(|_| has_data);
    PathSpec {
        delay: delays.reverse.clone(),
        handovers: delays.handovers(&scenario.link.up, 2),
        send_jitter: longest_delays(scenario, jittering),
        ..scenario.link.up.clone()
    }
}

/// How the delays of the flows are split between the path of the last link, which all packets share,
/// and the flows' own.
pub(crate) struct DelaySplit {
    forward: DelaySpec,
    reverse: DelaySpec,
    /// RTT of flows without one of their own, and the RTT that lies in the path; when any flow
    /// has its own. In a chain each link has its own.
    shared: Option<(Span, Span)>,
    /// This link is in the host, and all of the delay behind it.
    is_behind: bool,
}

impl DelaySplit {
    pub(crate) fn new(scenario: &Scenario) -> Self {
        let general = scenario.link.rtt().mean();
        let own = scenario.flows.iter().filter_map(|flow| flow.rtt).min();
        // On a chain a flow's own delay is counted against the links that it crosses (`own`).
        let own = own.filter(|_| scenario.chain.is_none());
        let one_rtt = scenario.has_one_rtt();
        // The path has the smallest RTT of all, and flows add what is theirs: no delay is below
        // zero.
        let shared = own.map(|own| (general, if one_rtt { general.min(own) } else { general }));
        let is_behind = scenario.bottleneck.host().is_some() && scenario.chain.is_none();
        let rtt: DelaySpec = match shared {
            Some((_, shared)) if one_rtt => shared.into(),
            _ => scenario.link.rtt().clone(),
        };
        let (forward, reverse) = match is_behind {
            true => (DelaySpec::default(), rtt),
            false => (rtt.half(), rtt.half()),
        };
        Self { forward, reverse, shared, is_behind }
    }

    /// What a flow of this route needs beyond the delays of its links.
    pub(crate) fn own(&self, scenario: &Scenario, flow: &FlowSpec, route: LinkRoute) -> OwnDelay {
        match (&scenario.chain, flow.rtt) {
            (None, rtt) => self.own_of(rtt),
            (Some(_), None) => OwnDelay::NONE,
            (Some(chain), Some(rtt)) => {
                let own = rtt - chain.rtt_of(route, scenario.link.rtt());
                OwnDelay::of(own, scenario.bottleneck.host().is_some())
            }
        }
    }

    /// That of what has the RTT of the scenario.
    pub(crate) fn general(&self) -> OwnDelay {
        self.own_of(None)
    }

    /// The handovers of a direction. A path takes half of their RTT; with all of the delay behind the
    /// link, `halves` of it are in this direction.
    fn handovers(&self, path: &PathSpec, halves: u64) -> Vec<Handover> {
        if !self.is_behind {
            return path.handovers.clone();
        }
        let rtt = |handover: &Handover| handover.rtt.map(|rtt| rtt * halves);
        path.handovers.iter().map(|one| Handover { rtt: rtt(one), ..*one }).collect()
    }

    fn own_of(&self, rtt: Option<Span>) -> OwnDelay {
        let Some((general, shared)) = self.shared else { return OwnDelay::NONE };
        OwnDelay::of(rtt.unwrap_or(general) - shared, self.is_behind)
    }
}
