//! A cell with several users: a queue for each, and a scheduler that gives each TTI to one of them.

use std::collections::VecDeque;

use cellpace_base::{ParamSet, Random, Span, Time, params, split_name};
use cellpace_path::queue::{Bottleneck, Drops};
use cellpace_path::schedule::Schedule;
use cellpace_path::{
    Fate, Handover, OPPORTUNITY_BYTES, Packet, PacketRecord, Queue, QueueSpec, SharedLink,
    TraceSpec, interrupted,
};

use crate::SimError;

/// A cell in place of the one link, with its users.
#[derive(Debug, Clone)]
pub struct CellSpec {
    /// How long a user is served at a time: 1 ms in LTE, 2 ms in HSDPA.
    pub tti: Span,
    /// Who is served.
    pub scheduler: Scheduler,
    /// The users, at least one.
    pub users: Vec<UserSpec>,
    /// The queue of each user.
    pub queue: QueueSpec,
}

/// A user of a cell.
#[derive(Debug, Clone)]
pub struct UserSpec {
    /// What flows call it.
    pub name: String,
    /// The channel that the user would have alone; `None`: that of the cell, which all share.
    pub trace: Option<TraceSpec>,
}

/// How a cell chooses among users that have data and, at that moment, a channel.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Scheduler {
    /// In turn.
    RoundRobin,
    /// The largest rate relative to what the user was served in the last `window`, which counts
    /// every TTI with the weight TTI / window (proportional fair).
    ProportionalFair {
        /// Time constant of that mean.
        window: Span,
    },
    /// The largest rate.
    MaxRate,
}

params! {
    /// The parameters of the proportional fair scheduler.
    struct FairParams {
        /// Time constant of the mean of what a user was served
        window: Span = "1s" in Span::from_millis(10)..=Span::from_secs(3600), from "cellpace";
    }
}

params! {
    /// No parameters at all.
    struct NoSchedulerParams {}
}

impl std::str::FromStr for Scheduler {
    type Err = SimError;

    /// Reads `rr`, `pf`, `pf:window=1s` or `max`.
    fn from_str(text: &str) -> Result<Self, SimError> {
        let split = split_name(text.trim());
        let wrong = |error: cellpace_base::ParamError| SimError::Invalid(error.to_string());
        let plain = |scheduler| NoSchedulerParams::parse(split.name, split.rest).map(|_| scheduler);
        match split.name {
            "rr" => plain(Self::RoundRobin).map_err(wrong),
            "max" => plain(Self::MaxRate).map_err(wrong),
            "pf" => {
                let FairParams { window } = FairParams::parse("pf", split.rest).map_err(wrong)?;
                Ok(Self::ProportionalFair { window })
            }
            other => Err(SimError::Invalid(format!(
                "there is no scheduler `{other}`; there are rr, pf, max"
            ))),
        }
    }
}

/// The shortest and the longest TTI: 0.125 ms is the shortest slot of 5G.
const TTIS: std::ops::RangeInclusive<Span> = Span::from_micros(125)..=Span::from_millis(100);
/// Users of one cell at most.
const MAX_USERS: usize = 1000;

impl CellSpec {
    /// Refuses cells that nothing can be served in.
    pub(crate) fn check(&self) -> Result<(), String> {
        if !TTIS.contains(&self.tti) {
            let (least, most) = (TTIS.start(), TTIS.end());
            return Err(format!("tti: {} is out of range; allowed: {least} to {most}", self.tti));
        }
        if self.users.is_empty() || self.users.len() > MAX_USERS {
            let users = self.users.len();
            return Err(format!("cell: {users} [[user]]; allowed: 1 to {MAX_USERS}"));
        }
        for (index, user) in self.users.iter().enumerate() {
            if self.users[..index].iter().any(|other| other.name == user.name) {
                return Err(format!("cell: two users are called `{}`", user.name));
            }
        }
        Ok(())
    }

    /// The number of the user that is called `name`.
    pub fn user(&self, name: &str) -> Option<usize> {
        self.users.iter().position(|user| user.name == name)
    }

    /// The channels of the users, over `shared` where they have none of their own. Handovers are the
    /// cell's: they interrupt all users.
    fn channels(
        &self,
        shared: &TraceSpec,
        handovers: &[Handover],
        seed: u64,
    ) -> Result<Vec<Channel>, SimError> {
        let channel = |(index, user): (usize, &UserSpec)| {
            // Users over one generated channel of their own each would otherwise fade together.
            let seed = if index == 0 || user.trace.is_none() {
                seed
            } else {
                Random::seeded(seed, USER_STREAM + index as u64).bits()
            };
            let trace = user.trace.as_ref().unwrap_or(shared);
            Ok(Channel::new(trace.build(seed)?, handovers, self.tti))
        };
        self.users.iter().enumerate().map(channel).collect()
    }

    /// Shows what the cell offers in each TTI up to `end`, with the end of the TTI: the bytes that
    /// the best of the users would have.
    pub(crate) fn offered(
        &self,
        shared: &TraceSpec,
        handovers: &[Handover],
        seed: u64,
        end: Time,
        mut each: impl FnMut(Time, f64),
    ) -> Result<(), SimError> {
        let mut channels = self.channels(shared, handovers, seed)?;
        for tti in 0..(end - Time::ZERO).as_nanos() / self.tti.as_nanos() {
            let best = channels.iter_mut().map(|channel| channel.take(tti)).fold(0.0, f64::max);
            each(Time::ZERO + self.tti * (tti + 1), best);
        }
        Ok(())
    }
}

/// Streams of draws of users' own channels.
const USER_STREAM: u64 = 3000;

/// A channel as bytes per TTI. The bytes of an opportunity are spread over the time since the one
/// before, so that a user at 5 Mbit/s has 625 bytes in every TTI of 1 ms and not 1500 in some: a
/// scheduler would otherwise prefer the user that happens to have an opportunity.
struct Channel {
    schedule: Box<dyn Schedule>,
    tti: u64,
    /// The ends of interruptions, over which nothing is spread.
    interruptions: Vec<u64>,
    /// The opportunity before the next.
    last: u64,
    /// The TTI that `bytes` begins with.
    first: u64,
    bytes: VecDeque<f64>,
}

/// An opportunity is spread over this many TTIs at most: what comes after a longer gap comes after
/// an outage.
const SPREAD: u64 = 10;

impl Channel {
    fn new(schedule: Box<dyn Schedule>, handovers: &[Handover], tti: Span) -> Self {
        Self {
            schedule: interrupted(schedule, handovers),
            tti: tti.as_nanos(),
            interruptions: handovers.iter().map(|handover| handover.end().as_nanos()).collect(),
            last: 0,
            first: 0,
            bytes: VecDeque::new(),
        }
    }

    /// What TTI number `tti` has in bytes; those before it are gone.
    fn take(&mut self, tti: u64) -> f64 {
        let gone = tti.saturating_sub(self.first);
        // TTIs in which no packet waited: what they had is gone with them.
        self.bytes.drain(..self.bytes.len().min(gone as usize));
        self.first = tti;
        if gone > SPREAD {
            self.skip_to(tti.saturating_sub(SPREAD) * self.tti);
        }
        // An opportunity up to SPREAD TTIs ahead may put bytes into this one.
        let ahead = (tti + 1 + SPREAD) * self.tti;
        while let Some(at) = self.next().filter(|at| *at <= ahead) {
            self.spread(at);
        }
        // What was taken is gone: the list begins with the next TTI.
        self.first += 1;
        self.bytes.pop_front().unwrap_or(0.0)
    }

    fn next(&self) -> Option<u64> {
        self.schedule.peek().map(Time::as_nanos)
    }

    /// Leaves out opportunities for which no packet waited.
    fn skip_to(&mut self, nanos: u64) {
        if nanos > self.last {
            self.schedule.skip_through(Time::from_nanos(nanos));
            self.last = nanos;
        }
    }

    /// Takes the opportunities of the instant `at`.
    fn spread(&mut self, at: u64) {
        let mut bytes = 0.0;
        while self.next() == Some(at) {
            self.schedule.take();
            bytes += f64::from(OPPORTUNITY_BYTES);
        }
        // One at the very beginning belongs to the first TTI.
        let at = at.max(1);
        let ended = self.interruptions.partition_point(|end| *end <= at);
        let resumed = ended.checked_sub(1).map_or(0, |last| self.interruptions[last]);
        // The latest of: the opportunity before, the end of an interruption, the longest spread.
        let from = self.last.max(resumed).max(at.saturating_sub(SPREAD * self.tti)).min(at - 1);
        self.last = at;
        for tti in from / self.tti..=(at - 1) / self.tti {
            let (start, end) = (tti * self.tti, (tti + 1) * self.tti);
            let share = (at.min(end) - from.max(start)) as f64 / (at - from) as f64;
            if let Some(index) = tti.checked_sub(self.first) {
                let index = index as usize;
                if self.bytes.len() <= index {
                    self.bytes.resize(index + 1, 0.0);
                }
                self.bytes[index] += share * bytes;
            }
        }
    }
}

/// A cell at run time: takes packets and serves them at the end of each TTI.
pub(crate) struct RadioCell {
    tti: Span,
    scheduler: Scheduler,
    users: Vec<User>,
    /// The user of each flow.
    user_of: Vec<usize>,
    /// The TTI that is to be served next.
    next_tti: u64,
    /// Packets in all queues and in service.
    waiting: usize,
    /// Who was served last.
    last: usize,
    drops: Drops,
}

struct User {
    queue: Box<dyn Queue>,
    channel: Channel,
    /// The packet in service and the bytes that it still needs.
    in_service: Option<(Packet, f64)>,
    /// T of proportional fairness, in bytes per TTI.
    served: f64,
    /// What it has in this TTI.
    bytes: f64,
}

impl RadioCell {
    /// An idle cell. `user_of` has the user of each flow; `rtt` is that of the path, in the mean.
    pub(crate) fn new(
        spec: &CellSpec,
        user_of: Vec<usize>,
        (shared, handovers): (&TraceSpec, &[Handover]),
        rtt: Span,
        seed: u64,
    ) -> Result<Self, SimError> {
        let bottleneck = |trace: Option<&TraceSpec>| Bottleneck {
            rate: trace.unwrap_or(shared).mean_rate(seed),
            rtt,
        };
        let user = |((index, channel), user): ((u64, Channel), &UserSpec)| User {
            queue: spec.queue.build(Random::seeded(seed, QUEUE_STREAM + index), || {
                bottleneck(user.trace.as_ref())
            }),
            channel,
            in_service: None,
            served: 0.0,
            bytes: 0.0,
        };
        let channels = spec.channels(shared, handovers, seed)?;
        Ok(Self {
            tti: spec.tti,
            scheduler: spec.scheduler,
            users: (0..).zip(channels).zip(&spec.users).map(user).collect(),
            user_of,
            next_tti: 0,
            waiting: 0,
            last: 0,
            drops: Vec::new(),
        })
    }

    /// TTIs that ended up to `now` served no user, and their bytes are gone.
    fn pass_idle(&mut self, now: Time) {
        let ended = (now - Time::ZERO).as_nanos() / self.tti.as_nanos();
        let passed = ended.saturating_sub(self.next_tti);
        self.next_tti += passed;
        // The mean decays over idle TTIs as over busy ones, or a pause would keep an old share
        // alive.
        let kept = (1.0 - self.weight()).powi(i32::try_from(passed).unwrap_or(i32::MAX));
        self.users.iter_mut().for_each(|user| user.served *= kept);
    }

    /// The weight of one TTI in what a user was served.
    fn weight(&self) -> f64 {
        match self.scheduler {
            Scheduler::ProportionalFair { window } => {
                (self.tti.as_secs_f64() / window.as_secs_f64()).min(1.0)
            }
            _ => 0.0,
        }
    }

    /// One TTI, at its end.
    fn serve(&mut self, end: Time, fates: &mut Vec<PacketRecord>) {
        let (tti, weight) = (self.next_tti, self.weight());
        for user in &mut self.users {
            user.bytes = user.channel.take(tti);
            // All users, also those without data: their share of the past fades, too.
            user.served *= 1.0 - weight;
        }
        // What one leaves of the TTI the next in turn has.
        let mut left = 1.0;
        while left > 1e-9 {
            let Some(index) = self.choose() else { break };
            let user = &mut self.users[index];
            let used = user.send(end, left, fates, &mut self.drops);
            user.served += weight * used * user.bytes;
            left -= used;
            // The search for the next user begins behind this one, which breaks ties in turn.
            self.last = index;
            // A user with more data has used all of the TTI.
            user.bytes = 0.0;
        }
        self.report_drops(end, fates);
    }

    /// The user that the scheduler prefers among those with data and a channel; where it prefers
    /// none, the next in turn.
    fn choose(&self) -> Option<usize> {
        let users = self.users.len();
        let in_turn = (1..=users).map(|step| (self.last + step) % users);
        let mut best: Option<(usize, f64)> = None;
        for index in in_turn {
            let user = &self.users[index];
            if !user.has_data() || user.bytes <= 0.0 {
                continue;
            }
            let merit = match self.scheduler {
                // The users are looked at in turn already, so the first with data is the one.
                Scheduler::RoundRobin => return Some(index),
                Scheduler::MaxRate => user.bytes,
                // Proportional fairness: r / T, and first a user that was never served.
                Scheduler::ProportionalFair { .. } => user.bytes / user.served.max(1e-9),
            };
            // Strictly more, so that ties go to the one whose turn comes first.
            if best.is_none_or(|(_, other)| merit > other) {
                best = Some((index, merit));
            }
        }
        best.map(|(index, _)| index)
    }

    fn deadline(&self) -> Option<Time> {
        (self.waiting > 0).then(|| Time::ZERO + self.tti * (self.next_tti + 1))
    }

    fn count(&mut self) {
        self.waiting = self.users.iter().map(User::packets).sum();
    }

    fn report_drops(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        for (mut packet, reason) in self.drops.drain(..) {
            packet.dequeued_at = now;
            packet.departed_at = now;
            fates.push(PacketRecord { packet, fate: Fate::Dropped(reason) });
        }
    }
}

impl SharedLink for RadioCell {
    fn push_at(&mut self, now: Time, packet: Packet, fates: &mut Vec<PacketRecord>) {
        if self.waiting == 0 {
            // TTIs without data passed unused: what they offered cannot be sent later.
            self.pass_idle(now);
        }
        self.users[self.user_of[packet.flow as usize]].queue.enqueue(now, packet, &mut self.drops);
        self.report_drops(now, fates);
        self.count();
    }

    fn next_deadline(&self) -> Option<Time> {
        self.deadline()
    }

    fn advance(&mut self, now: Time, fates: &mut Vec<PacketRecord>) {
        while let Some(end) = self.deadline().filter(|end| *end <= now) {
            self.serve(end, fates);
            self.next_tti += 1;
            self.count();
        }
    }

    fn take_all(&mut self, now: Time, fates: &mut Vec<PacketRecord>) -> Vec<Packet> {
        let mut packets = Vec::new();
        for user in &mut self.users {
            // The packet in service first: it was in front of all others of its user.
            packets.extend(user.in_service.take().map(|(packet, _)| packet));
            packets.extend(std::iter::from_fn(|| user.queue.dequeue(now, &mut self.drops)));
        }
        self.report_drops(now, fates);
        self.count();
        packets
    }

    fn backlog(&self) -> u64 {
        let in_service = |user: &User| user.in_service.map_or(0, |(packet, _)| packet.size.into());
        self.users.iter().map(|user| user.queue.bytes() + in_service(user)).sum()
    }

    fn packets(&self) -> usize {
        self.waiting
    }
}

/// Streams of draws of users' queues.
const QUEUE_STREAM: u64 = 4000;

impl User {
    fn packets(&self) -> usize {
        self.queue.packets() + usize::from(self.in_service.is_some())
    }

    fn has_data(&self) -> bool {
        self.packets() > 0
    }

    /// Sends for the share `left` of the TTI that ends at `end`. Returns the share that it used.
    fn send(
        &mut self,
        end: Time,
        left: f64,
        fates: &mut Vec<PacketRecord>,
        drops: &mut Drops,
    ) -> f64 {
        let mut room = left * self.bytes;
        loop {
            let Some((mut packet, needs)) = self.in_service.take().or_else(|| {
                let mut packet = self.queue.dequeue(end, drops)?;
                packet.dequeued_at = end;
                Some((packet, f64::from(packet.size)))
            }) else {
                return left - room / self.bytes;
            };
            // A millionth of a byte is what the division into TTIs leaves over.
            if needs > room + 1e-6 {
                self.in_service = Some((packet, needs - room));
                return left;
            }
            room = (room - needs).max(0.0);
            // At the end of the TTI: a transport block is there as a whole.
            packet.departed_at = end;
            fates.push(PacketRecord { packet, fate: Fate::Delivered });
        }
    }
}

#[cfg(test)]
mod tests {
    use cellpace_path::schedule::Trace;

    use super::*;

    fn channel(trace: &str, tti: Span) -> Channel {
        Channel::new(trace.parse::<TraceSpec>().unwrap().build(1).unwrap(), &[], tti)
    }

    #[test]
    fn a_channel_has_its_rate_in_every_tti() {
        let mut five = channel("constant:5mbit", Span::from_millis(1));
        for tti in 0..1000 {
            let bytes = five.take(tti);
            assert!((bytes - 625.0).abs() < 1e-6, "{tti}: {bytes}");
        }
        assert!((five.take(500_000) - 625.0).abs() < 1e-6, "after an idle time");
        let mut steps = channel("step:12mbit/1s,48mbit/1s", Span::from_millis(2));
        let sum: f64 = (0..1000).map(|tti| steps.take(tti)).sum();
        assert!((sum - 7_500_000.0).abs() < 3_000.0, "{sum}");
    }

    #[test]
    fn after_an_outage_the_first_opportunity_is_no_lower_rate_for_all_of_it() {
        let mut outage = channel("step:12mbit/1s,0bit/1s", Span::from_millis(1));
        let bytes: Vec<f64> = (0..3000).map(|tti| outage.take(tti)).collect();
        assert!(bytes[1000..1990].iter().all(|bytes| *bytes == 0.0));
        assert!((bytes[2500] - 1500.0).abs() < 1e-6);
    }

    #[test]
    fn nothing_is_spread_over_an_interruption() {
        let handover = ["5ms/20500us".parse().unwrap()];
        let trace = "constant:12mbit".parse::<TraceSpec>().unwrap().build(1).unwrap();
        let mut channel = Channel::new(trace, &handover, Span::from_millis(1));
        let bytes: Vec<f64> = (0..40).map(|tti| channel.take(tti)).collect();
        assert!(bytes[5..25].iter().all(|bytes| *bytes == 0.0), "{bytes:?}");
        // The link has had half of this TTI, and an opportunity at its end.
        assert!(bytes[..4].iter().chain(&bytes[25..]).all(|b| (b - 1500.0).abs() < 1e-6));
    }

    #[test]
    fn an_opportunity_at_the_very_beginning_is_the_first_ttis() {
        let trace = Trace::from_millis(vec![0, 0, 30]).unwrap();
        let trace = TraceSpec::recorded("from zero", trace.into());
        let mut channel = Channel::new(trace.build(1).unwrap(), &[], Span::from_millis(1));
        assert!((channel.take(0) - 3000.0).abs() < 1e-6);
    }

    #[test]
    fn schedulers_are_read_and_others_refused() {
        let read = |text: &str| text.parse::<Scheduler>().map_err(|error| error.to_string());
        let fair = Scheduler::ProportionalFair { window: Span::from_secs(1) };
        assert_eq!(read("pf"), Ok(fair));
        assert_eq!(read("pf:window=1s"), Ok(fair));
        assert_eq!((read("rr"), read("max")), (Ok(Scheduler::RoundRobin), Ok(Scheduler::MaxRate)));
        assert_eq!(read("fifo"), Err("there is no scheduler `fifo`; there are rr, pf, max".into()));
        assert!(read("pf:window=1").unwrap_err().contains("needs a unit"));
        assert!(read("rr:window=1s").unwrap_err().contains("has no parameter"));
    }
}
