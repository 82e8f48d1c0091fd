//! What is to be simulated.

use cellpace_base::{Random, Rate, Span, SpanDistribution, Time};
use cellpace_cc::{ControllerSpec, RtoRule};
use cellpace_path::{
    DuplexSpec, FieldError, Handover, HandoverPlan, RrcSpec, SendJitterSpec, TraceSpec,
};

use crate::{
    AckPolicy, Bottleneck, CellSpec, ChainSpec, FlowTraffic, HostBuffers, PingSpec, SimError,
};

/// One bottleneck and the flows that share it.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The bottleneck: data goes down, and acks and the reports of receivers go up. At the end of
    /// each interruption of `down` it is reported to the controllers of all connections
    /// ([`cellpace_cc::Controller::on_path_change`]).
    pub link: DuplexSpec,
    /// Jitter of the senders. Only flows whose packets meet in one queue have it: two or more, those
    /// of a constant rate among them, but not pings. A flow alone has none.
    pub send_jitter: SendJitterSpec,
    /// More handovers, drawn with the seed. One that begins before another is over is left out.
    pub handover_plans: Vec<HandoverPlan>,
    /// A cell with several users in place of the one link. Users without a channel of their own
    /// share its trace.
    pub cell: Option<CellSpec>,
    /// Where the bottleneck is.
    pub bottleneck: Bottleneck,
    /// Links in front of this one, and a proxy between; everything else here is the last link's.
    pub chain: Option<ChainSpec>,
    /// The flows.
    pub flows: Vec<FlowSpec>,
    /// Echo requests beside them.
    pub pings: Vec<PingSpec>,
    /// How receivers acknowledge.
    pub acks: AckPolicy,
    /// How senders set their retransmission timeout.
    pub rto_rule: RtoRule,
    /// Length of the run.
    pub duration: Span,
    /// Left out of the figures at the start.
    pub skip: Span,
    /// Seed of everything random.
    pub seed: u64,
    /// Width of the bins of the series.
    pub bin: Span,
}

impl Default for Scenario {
    /// A constant 12 Mbit/s, 40 ms, a 2 MB drop-tail buffer, 60 s; no flow.
    fn default() -> Self {
        let mut link = DuplexSpec::default();
        link.down.trace = Some(TraceSpec::default());
        link.set_rtt(Span::from_millis(40).into());
        Self {
            link,
            send_jitter: SendJitterSpec::default(),
            handover_plans: Vec::new(),
            cell: None,
            bottleneck: Bottleneck::Network,
            chain: None,
            flows: Vec::new(),
            pings: Vec::new(),
            acks: AckPolicy::EveryPacket,
            rto_rule: RtoRule::default(),
            duration: Span::from_secs(60),
            skip: Span::from_secs(2),
            seed: 1,
            bin: Span::from_millis(100),
        }
    }
}

/// One flow.
#[derive(Debug, Clone)]
pub struct FlowSpec {
    /// Its controller; `None` for cross traffic that does not react to anything.
    pub cc: Option<ControllerSpec>,
    /// What it has to send.
    pub traffic: FlowTraffic,
    /// When it starts.
    pub start: Time,
    /// Drawn with the seed and added to `start`.
    pub start_after: Option<SpanDistribution>,
    /// When it stops sending.
    pub stop: Time,
    /// Its own round-trip delay in place of the scenario's.
    pub rtt: Option<Span>,
    /// Sends the other way as well, under this controller; both need a half at the receiver, and
    /// their reports travel on data, as in Sprout's original program.
    pub reverse: Option<ControllerSpec>,
    /// Who sends in place of the simulator's own sender, such as `noq`; what the name means is up to
    /// the owner of the run ([`crate::Simulation::with_ends`]). One with a controller of its own
    /// (`noq:cc=cubic`) does not use `cc`.
    pub stack: Option<String>,
    /// The user of the cell whose flow it is, where there is a cell.
    pub user: Option<String>,
    /// The links of a chain over which it leads, one behind the other; empty: all of them.
    pub path: Vec<String>,
}

impl FlowSpec {
    /// A flow that always has data, from the start to the end.
    pub const fn bulk(cc: ControllerSpec) -> Self {
        Self {
            cc: Some(cc),
            traffic: FlowTraffic::Bulk,
            start: Time::ZERO,
            start_after: None,
            stop: Time::MAX,
            rtt: None,
            reverse: None,
            stack: None,
            user: None,
            path: Vec::new(),
        }
    }

    /// Cross traffic at a constant rate that does not react to anything.
    pub const fn constant_rate(rate: Rate) -> Self {
        Self {
            cc: None,
            traffic: FlowTraffic::ConstantRate(rate),
            start: Time::ZERO,
            start_after: None,
            stop: Time::MAX,
            rtt: None,
            reverse: None,
            stack: None,
            user: None,
            path: Vec::new(),
        }
    }

    /// The name under which it is reported.
    pub fn name(&self) -> String {
        match (&self.cc, &self.traffic) {
            (Some(cc), _) => match &self.stack {
                Some(stack) if stack.contains(OWN_CC) => stack.clone(),
                Some(stack) => format!("{cc} in {stack}"),
                None => cc.to_string(),
            },
            (None, FlowTraffic::ConstantRate(rate)) => format!("udp:{rate}"),
            (None, _) => "udp".into(),
        }
    }
}

impl Scenario {
    /// When the run ends.
    pub fn end(&self) -> Time {
        Time::ZERO + self.duration
    }

    /// The same with another link.
    #[must_use]
    pub fn with_link(mut self, change: impl FnOnce(&mut DuplexSpec)) -> Self {
        change(&mut self.link);
        self
    }

    /// The trace of the bottleneck. One that delivers everything at once is no bottleneck, so that
    /// [`check`](Self::check) refuses it.
    ///
    /// # Panics
    /// When there is none.
    pub fn trace(&self) -> &TraceSpec {
        self.link.down.trace.as_ref().expect("a scenario has a trace, as it was checked for")
    }

    /// Handovers at fixed times, in their order.
    pub fn handovers(&self) -> &[Handover] {
        &self.link.down.handovers
    }

    /// Begins the traces of both directions at `from`, so that they stay together
    /// ([`TraceSpec::starting_at`]).
    pub fn start_traces_at(&mut self, from: Span) {
        self.link.start_traces_at(from);
        for segment in self.chain.iter_mut().flat_map(|chain| &mut chain.before) {
            segment.link.start_traces_at(from);
        }
        for user in self.cell.iter_mut().flat_map(|cell| &mut cell.users) {
            user.trace = user.trace.take().map(|trace| trace.starting_at(from));
        }
    }

    /// The scenario with what its seed alone decides: the trace, its handovers, and when flows start.
    pub(crate) fn drawn(&self) -> Self {
        let trace = self.trace().drawn(self.seed, self.duration);
        let mut handovers = self.handovers().to_vec();
        // In a cell users have traces of their own, and a radio layer's handovers would be one
        // user's.
        if self.cell.is_none() {
            handovers.extend(trace.handovers(self.end()));
        }
        let mut drawn = self.clone();
        drawn.link.down.trace = Some(trace);
        for (flow, index) in drawn.flows.iter_mut().zip(0..) {
            let Some(after) = flow.start_after else { continue };
            // A stream for each flow: another flow in the scenario does not move these starts.
            flow.start += after.draw(&mut Random::seeded(self.seed, STARTS_STREAM + index));
        }
        for (plan, index) in self.handover_plans.iter().zip(0..) {
            let mut random = Random::seeded(self.seed, HANDOVERS_STREAM + index);
            handovers.extend(plan.draw(self.end(), &mut random));
        }
        // Fixed handovers alone were checked to be in order and apart.
        if !self.handover_plans.is_empty() {
            handovers.sort_by_key(|handover| handover.at);
            let mut over = Time::ZERO;
            handovers.retain(|handover| {
                // The earlier one stays: the path is interrupted already when the later one would
                // begin.
                let is_free = handover.at >= over;
                over = if is_free { handover.end() } else { over };
                is_free
            });
        }
        drawn.link.set_handovers(handovers);
        drawn
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// When there is no flow, no time, or a flow contradicts itself.
    pub fn check(&self) -> Result<(), SimError> {
        let invalid = |text: String| Err(SimError::Invalid(text));
        if self.flows.is_empty() {
            return invalid("there is no flow to simulate".into());
        }
        // First: what follows compares with the end of the run.
        self.check_times()?;
        if self.link.down.trace.is_none() {
            let example = "trace = \"lte-driving\" or trace = \"constant:12mbit\"";
            let why = format!("is missing; write, for example, {example}");
            return Err(FieldError::new("trace", why).into());
        }
        FieldError::of("handover", self.check_handovers())?;
        self.check_chain().or_else(invalid)?;
        self.check_rtts().or_else(invalid)?;
        self.check_cell().or_else(invalid)?;
        self.check_bottleneck().or_else(invalid)?;
        self.check_two_way().or_else(invalid)?;
        self.check_pings().or_else(invalid)?;
        for (index, flow) in self.flows.iter().enumerate() {
            flow.check().or_else(|reason| invalid(format!("flow {}: {reason}", index + 1)))?;
            if flow.start >= self.end() {
                let start = flow.start - Time::ZERO;
                let number = index + 1;
                let why = format!(
                    "flow {number} starts at {start}, but the run ends at {}: its start should be \
                     earlier or the duration longer",
                    self.duration
                );
                return Err(FieldError::new("duration", why).into());
            }
        }
        Ok(())
    }

    /// Checks duration, skip and bins.
    fn check_times(&self) -> Result<(), FieldError> {
        let Self { duration, skip, bin, .. } = self;
        let wrong = |field, why: String| Err(FieldError { field, why });
        if duration.is_zero() {
            return wrong("duration", "the duration is 0 s; give at least a millisecond".into());
        }
        if skip >= duration {
            return wrong(
                "skip",
                format!(
                    "skip ({skip}) leaves nothing of the duration ({duration}); skip less or run \
                     longer"
                ),
            );
        }
        if *bin < Span::from_millis(1) {
            return wrong("bin", "bins are at least 1 ms wide".into());
        }
        if *duration > MAX_LENGTH {
            let why = format!("the duration is {duration}; the longest is {MAX_LENGTH}");
            return wrong("duration", why);
        }
        let values = duration.as_nanos().div_ceil(bin.as_nanos())
            // Refused before the run: series grow with its length, whatever happens in it.
            * (self.flows.len() as u64 + SERIES_OF_THE_RUN);
        if values > MAX_VALUES {
            return wrong(
                "bin",
                format!(
                    "bins of {bin} make {values} values of series; the most are {MAX_VALUES}, so \
                     take wider bins"
                ),
            );
        }
        Ok(())
    }

    /// Refuses a path over which no packet or no acknowledgment ever arrives. A simulation can have
    /// one; in a scenario that a person wrote it is a mistake.
    ///
    /// # Errors
    /// When a rate is always zero, a loss is always 100 %, or the RTT above an hour.
    pub fn check_delivers(&self) -> Result<(), SimError> {
        for segment in self.chain.iter().flat_map(|chain| &chain.before) {
            let checked = segment.link.check_delivers();
            checked.map_err(|why| SimError::Invalid(format!("path.{}: {why}", segment.name)))?;
        }
        Ok(self.link.check_delivers()?)
    }

    fn check_cell(&self) -> Result<(), String> {
        let Some(cell) = &self.cell else {
            let of_pings = self.pings.iter().filter_map(|ping| ping.user.as_ref());
            let mut users = self.flows.iter().filter_map(|flow| flow.user.as_ref()).chain(of_pings);
            return match users.next() {
                Some(name) => Err(format!("user: `{name}` needs a [cell] and a [[user]]")),
                None => Ok(()),
            };
        };
        cell.check()?;
        if self.link.down.rrc != RrcSpec::default() {
            return Err("rrc: each user of a cell would have states of its own, which are not \
                        modelled"
                .into());
        }
        let is_of_cell = |who: &str, user: Option<&str>| match user.map(|name| cell.user(name)) {
            None => Err(format!("{who}: needs `user`, one of the cell's")),
            Some(None) => Err(format!("{who}: no user is `{}`", user.unwrap_or_default())),
            Some(Some(_)) => Ok(()),
        };
        for (index, flow) in self.flows.iter().enumerate() {
            if self.crosses_last_link(flow) {
                is_of_cell(&format!("flow {}", index + 1), flow.user.as_deref())?;
            }
        }
        self.pings.iter().try_for_each(|ping| is_of_cell("ping", ping.user.as_deref()))?;
        if self.bottleneck.host().is_some() && self.chain.is_none() {
            return Err("one link is either a cell or the sender's own device: give the device a \
                        [path.NAME] in front of the cell"
                .into());
        }
        Ok(())
    }

    fn check_bottleneck(&self) -> Result<(), String> {
        self.bottleneck.host().map_or(Ok(()), HostBuffers::check)
    }

    fn check_pings(&self) -> Result<(), String> {
        for ping in &self.pings {
            ping.check(self.duration).map_err(|why| format!("ping: {why}"))?;
        }
        Ok(())
    }

    /// Checks flows that send both ways.
    fn check_two_way(&self) -> Result<(), String> {
        for flow in self.flows.iter().filter(|flow| flow.reverse.is_some()) {
            if !matches!(flow.traffic, FlowTraffic::Bulk) {
                return Err("a flow with `reverse` always has data".into());
            }
            let mut ccs = flow.cc.iter().chain(&flow.reverse);
            if let Some(cc) = ccs.find(|cc| !cc.has_receiver()) {
                return Err(format!(
                    "`{cc}` has no half at the receiver, whose reports could travel on data: \
                     `reverse` is for sprout"
                ));
            }
        }
        Ok(())
    }

    fn changes_rtt(&self) -> bool {
        let rtts = self.handovers().iter().map(|handover| handover.rtt);
        let mut rtts = rtts.chain(self.handover_plans.iter().map(|plan| plan.rtt));
        rtts.any(|rtt| rtt.is_some())
    }

    fn check_chain(&self) -> Result<(), String> {
        let Some(chain) = &self.chain else {
            return match self.flows.iter().position(|flow| !flow.path.is_empty()) {
                Some(index) => Err(format!("flow {}: path: there are no [path.NAME]", index + 1)),
                None => Ok(()),
            };
        };
        chain.check()?;
        for (index, flow) in self.flows.iter().enumerate() {
            chain.route(&flow.path).map_err(|why| format!("flow {}: path: {why}", index + 1))?;
        }
        let leaves_host =
            |flow: &FlowSpec| chain.route(&flow.path).is_ok_and(|route| route.first == 0);
        if self.bottleneck.host().is_some() && !self.flows.iter().all(leaves_host) {
            return Err(format!(
                "bottleneck: it is inside the sender, whose device is the first link: every `path` \
                 begins with `{}`",
                chain.before[0].name
            ));
        }
        chain.proxy.as_ref().map_or(Ok(()), |_| self.check_proxied())
    }

    /// Refuses flows that no proxy can split.
    fn check_proxied(&self) -> Result<(), String> {
        let any = |is_so: fn(&FlowSpec) -> bool| self.flows.iter().any(is_so);
        let why = if any(|flow| flow.rtt.is_some() || !flow.path.is_empty()) {
            "all flows lead over all links, without an RTT of their own"
        } else if any(|flow| matches!(flow.traffic, FlowTraffic::Video(_))) {
            "a video, which is not sent reliably, does not go through a proxy"
        } else if any(|flow| flow.cc.is_none()) {
            "traffic without a controller (udp) does not go through a proxy"
        } else if any(|flow| flow.reverse.is_some()) {
            "a flow with `reverse`, whose reports travel on its data, does not go through a proxy"
        } else if any(|flow| flow.stack.is_some()) {
            "QUIC is encrypted from end to end, so that no proxy splits a flow with `stack`"
        } else {
            return Ok(());
        };
        Err(format!("pep: {why}"))
    }

    /// Refuses flows whose RTT is below that of the path, where it cannot be a part of it.
    fn check_rtts(&self) -> Result<(), String> {
        for (index, flow) in self.flows.iter().enumerate() {
            // Flows without one have that of their path, which is never too short for it.
            let Some(rtt) = flow.rtt else { continue };
            let least = match &self.chain {
                Some(chain) => chain.rtt_of(chain.route(&flow.path)?, self.link.rtt()),
                // Then the path takes the smallest RTT of all, and none lies below it.
                None if self.has_one_rtt() => continue,
                None => self.link.rtt().mean(),
            };
            if rtt < least {
                let number = index + 1;
                return Err(format!("flow {number}: rtt: {rtt}; its path has {least} in the mean"));
            }
        }
        Ok(())
    }

    /// Whether a flow leads over the last link, which may be a cell.
    fn crosses_last_link(&self, flow: &FlowSpec) -> bool {
        let Some(chain) = &self.chain else { return true };
        chain.route(&flow.path).is_ok_and(|route| route.last == chain.before.len())
    }

    /// Whether flows lead over some of the links only.
    pub(crate) fn has_routes(&self) -> bool {
        self.flows.iter().any(|flow| !flow.path.is_empty())
    }

    /// Whether the RTT of the path stays as it is.
    pub(crate) fn has_one_rtt(&self) -> bool {
        self.link.rtt().as_constant().is_some() && !self.changes_rtt()
    }

    fn check_handovers(&self) -> Result<(), String> {
        let (trace, handovers) = (self.trace(), self.handovers());
        Handover::check_order(handovers)?;
        // The radio layer draws its own by the position on the road: others would contradict it.
        if trace.has_handovers() && !handovers.is_empty() {
            return Err(format!("`{trace}` brings its own handovers: leave others out"));
        }
        if let Some(late) = handovers.last().filter(|last| last.end() >= self.end()) {
            return Err(format!(
                "the handover at {} is not over before the end of the run ({})",
                late.at - Time::ZERO,
                self.duration
            ));
        }
        Ok(())
    }
}

/// In the name of a stack that comes with a controller of its own.
pub(crate) const OWN_CC: &str = ":cc=";

/// The random streams of the flows' starts begin here; those of the flows themselves lie below.
const STARTS_STREAM: u64 = 2_000_000;
/// Those of handovers.
const HANDOVERS_STREAM: u64 = 3_000_000;

/// The longest run: a day.
const MAX_LENGTH: Span = Span::from_secs(86_400);
/// Values that the series of a run have at most: a day of one flow in bins of 10 ms.
const MAX_VALUES: u64 = 50_000_000;
/// Series that do not belong to a flow.
const SERIES_OF_THE_RUN: u64 = 4;
/// Faster, several packets share a nanosecond.
const MAX_RATE: Rate = Rate::from_bps(1_000_000_000_000);

impl Scenario {
    /// The mean round-trip delay without queueing of the first flow, over all links.
    pub fn base_rtt(&self) -> Span {
        let own = self.flows.first().and_then(|flow| flow.rtt);
        let before = self.chain.as_ref().map_or(Span::ZERO, ChainSpec::rtt_before);
        own.unwrap_or_else(|| self.link.rtt().mean()) + before
    }

    /// The controllers of all flows, each named once, with their numbers.
    pub fn flow_names(&self) -> String {
        let mut names: Vec<(String, usize)> = Vec::new();
        for name in self.flows.iter().map(FlowSpec::name) {
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, count)) => *count += 1,
                None => names.push((name, 1)),
            }
        }
        let shown = |(name, count): &(String, usize)| match count {
            1 => name.clone(),
            _ => format!("{count} x {name}"),
        };
        names.iter().map(shown).collect::<Vec<_>>().join(" + ")
    }
}

impl FlowSpec {
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.stop <= self.start {
            let span = |time: Time| time - Time::ZERO;
            return Err(format!(
                "it stops (at {}) before it starts (at {})",
                span(self.stop),
                span(self.start)
            ));
        }
        match (&self.cc, &self.traffic) {
            (None, FlowTraffic::ConstantRate(rate)) if rate.as_bps() == 0 => {
                Err("a rate of 0 sends nothing".into())
            }
            (None, FlowTraffic::ConstantRate(rate)) if *rate > MAX_RATE => {
                Err(format!("{rate} is too much; the most is {MAX_RATE}"))
            }
            (None, FlowTraffic::ConstantRate(_)) => Ok(()),
            (None, _) => Err("only traffic of a constant rate goes without a controller".into()),
            (Some(_), FlowTraffic::ConstantRate(_)) => {
                Err("traffic of a constant rate does not react: leave the controller out".into())
            }
            (Some(_), traffic) => traffic.check(),
        }
    }
}
