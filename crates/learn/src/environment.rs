//! One link, and the flows on it that are decided from outside.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::math::{exp, ln};
use cellpace_base::{Random, Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_cc::policy::{
    Action, ActionSpace, Convention, Observation, StepLength, StepPolicy, StepRecord, StepRules,
    SteppedController,
};
use cellpace_path::schedule::capacity_between;
use cellpace_path::{DelaySpec, Fate, PacketRecord, Schedule, TraceSpec};
use cellpace_sim::{FlowSpec, Observer, Scenario, SimError, Simulation};

use crate::reward::reward;

/// The stream of an episode's seed.
const EPISODE_STREAM: u64 = 0x6c65_6172_6e01;
/// The stream from which an episode's link is drawn.
const LINK_STREAM: u64 = 0x6c65_6172_6e02;

/// Learners of one environment at most.
pub const MAX_LEARNERS: usize = 64;

/// RTTs of which one is drawn for each episode, uniformly in its logarithm.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttRange {
    /// The shortest; above zero.
    pub low: Span,
    /// The longest.
    pub high: Span,
}

/// What an environment is made of.
#[derive(Debug, Clone)]
pub struct EnvironmentSpec {
    /// The path and its length. The trace is not used; the flows are those that compete with the
    /// flows that are decided from outside.
    pub scenario: Scenario,
    /// Traces of which one is drawn for each episode.
    pub traces: Vec<TraceSpec>,
    /// RTTs of which one is drawn, in place of the scenario's.
    pub rtt: Option<RttRange>,
    /// Whether each episode begins anywhere in its trace, where that repeats.
    pub random_start: bool,
    /// Flows that are decided from outside, 1 to [`MAX_LEARNERS`]. Steps of several have a fixed length.
    pub learners: usize,
    /// Steps, observations and actions.
    pub rules: StepRules,
    /// Whether an action sets window and rate directly, in place of the convention: two numbers, packets and bytes
    /// per second (0: nothing is paced).
    pub direct: bool,
    /// The convention of rewards.
    pub reward: Convention,
}

/// What a step gave one learner, beside its observation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepOutcome {
    /// The reward.
    pub reward: f64,
    /// What happened to the flow.
    pub record: StepRecord,
    /// What the link did.
    pub truth: LinkTruth,
}

/// What no sender knows: for plots and oracles, not for policies.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct LinkTruth {
    /// What the link offered in the step, in bytes per s.
    pub capacity: f64,
    /// Mean queue delay of the flow's packets that left the link in the step, in s; 0 without any.
    pub queue_delay: f64,
    /// The largest of them, in s.
    pub queue_delay_max: f64,
}

/// What controller and environment exchange, once per step.
struct Exchange {
    record: StepRecord,
    observation: Vec<f32>,
    next_end: Time,
    action: Action,
}

/// The controller's end of the exchange.
struct Outside(Arc<Mutex<Exchange>>);

fn locked(exchange: &Mutex<Exchange>) -> MutexGuard<'_, Exchange> {
    // Numbers are whole whoever panicked.
    exchange.lock().unwrap_or_else(PoisonError::into_inner)
}

impl StepPolicy for Outside {
    fn on_step(&mut self, record: &StepRecord, observation: &[f32], next_end: Time) {
        let mut exchange = locked(&self.0);
        exchange.record = *record;
        exchange.observation.clear();
        exchange.observation.extend_from_slice(observation);
        exchange.next_end = next_end;
    }

    fn action(&mut self) -> Action {
        locked(&self.0).action
    }
}

/// The queue delay of one flow.
#[derive(Clone, Default)]
struct QueueDelay {
    sum: f64,
    packets: u64,
    max: f64,
}

/// Adds up the queue delay of the first flows.
struct QueueWatch(Vec<QueueDelay>);

impl Observer for QueueWatch {
    fn on_record(&mut self, record: &PacketRecord) {
        let Some(flow) = self.0.get_mut(record.packet.flow as usize) else { return };
        if record.fate != Fate::Delivered {
            return;
        }
        let delay = record.queue_delay().as_secs_f64();
        flow.sum += delay;
        flow.packets += 1;
        flow.max = flow.max.max(delay);
    }
}

/// A running episode.
struct Episode {
    simulation: Simulation,
    /// The schedule once more, to count what it offers; a cell has none.
    capacity: Option<Box<dyn Schedule>>,
    end: Time,
}

/// Flows of the simulator whose controllers are decided from outside, once per step.
///
/// The seed decides everything: the link that is drawn, its randomness, and the episodes that
/// follow. Between steps there is nothing but the simulator.
pub struct Environment {
    spec: Arc<EnvironmentSpec>,
    /// One for each learner.
    exchanges: Vec<Arc<Mutex<Exchange>>>,
    outcomes: Vec<StepOutcome>,
    episode: Option<Episode>,
    seed: u64,
    episodes: u64,
}

impl Environment {
    /// An environment before its first episode.
    ///
    /// # Errors
    /// When the specification contradicts itself.
    pub fn new(spec: Arc<EnvironmentSpec>) -> Result<Self, SimError> {
        spec.rules.check().map_err(SimError::Invalid)?;
        if spec.traces.is_empty() {
            return Err(SimError::Invalid("trace: there is none".to_owned()));
        }
        if spec.rtt.is_some_and(|rtt| rtt.low.is_zero() || rtt.low > rtt.high) {
            return Err(SimError::Invalid("rtt: a range is from a shorter to a longer one".into()));
        }
        if !(1..=MAX_LEARNERS).contains(&spec.learners) {
            let why = format!("learners: {}; allowed: 1 to {MAX_LEARNERS}", spec.learners);
            return Err(SimError::Invalid(why));
        }
        if spec.learners > 1 && matches!(spec.rules.step, StepLength::Rtts(_)) {
            let why = "step: several learners decide at the same times; give a time such as 20ms";
            return Err(SimError::Invalid(why.to_owned()));
        }
        let exchange = || Exchange {
            record: StepRecord::default(),
            observation: Vec::new(),
            next_end: Time::ZERO,
            action: Action::Convention(0.0),
        };
        let new = Self {
            exchanges: (0..spec.learners).map(|_| Arc::new(Mutex::new(exchange()))).collect(),
            outcomes: vec![StepOutcome::default(); spec.learners],
            episode: None,
            seed: 0,
            episodes: 0,
            spec,
        };
        for index in 0..new.spec.traces.len() {
            let scenario = new.scenario(index, &mut Random::seeded(0, 0), 0);
            scenario.check().and_then(|()| scenario.check_delivers())?;
        }
        Ok(new)
    }

    /// Numbers of an observation of one learner.
    pub fn width(&self) -> usize {
        Observation::new(self.spec.rules.observation, self.spec.rules.history).width()
    }

    /// Flows that are decided from outside.
    pub fn learners(&self) -> usize {
        self.spec.learners
    }

    /// Numbers of an action of one learner.
    pub fn action_width(&self) -> usize {
        if self.spec.direct { 2 } else { 1 }
    }

    /// The values that an action may have.
    pub fn action_space(&self) -> ActionSpace {
        ActionSpace::of(self.spec.rules.action)
    }

    /// Begins an episode: that of `seed`, or without one the next of the seed before. Its first
    /// step is done with the initial window, and its observation returned in `observation`, one learner's behind the
    /// other's.
    ///
    /// # Errors
    /// When the duration has no room for a step, or memory does not suffice.
    pub fn reset(&mut self, seed: Option<u64>, observation: &mut [f32]) -> Result<(), SimError> {
        match seed {
            Some(seed) => (self.seed, self.episodes) = (seed, 0),
            None => self.episodes += 1,
        }
        let seed = match self.episodes {
            0 => self.seed,
            episode => Random::seeded(self.seed, EPISODE_STREAM.wrapping_add(episode)).bits(),
        };
        let mut random = Random::seeded(seed, LINK_STREAM);
        let trace = random.below(self.spec.traces.len() as u64) as usize;
        let mut scenario = self.scenario(trace, &mut random, seed);
        // Done once: the simulation and the count of what the link offers both need it.
        scenario.link.down.trace = Some(scenario.trace().drawn(seed, scenario.duration));
        let (end, has_link) = (scenario.end(), scenario.cell.is_none());
        let capacity = match has_link {
            true => Some(scenario.trace().build(seed)?),
            false => None,
        };
        for exchange in &self.exchanges {
            let mut exchange = locked(exchange);
            exchange.next_end = Time::ZERO;
            if self.spec.direct {
                exchange.action = Action::Keep;
            }
        }
        let simulation = Simulation::new(&scenario)?;
        self.episode = Some(Episode { simulation, capacity, end });
        // The first step's length is known once the connection is there; no step is shorter.
        self.advance(Time::ZERO + Span::from_millis(1))?;
        while self.next_end() == Time::ZERO {
            let now = self.now();
            if now >= end {
                return Err(SimError::Invalid(
                    "the duration ends before the first step".to_owned(),
                ));
            }
            self.advance(now + Span::from_millis(1))?;
        }
        self.read(observation);
        Ok(())
    }

    /// Decides for each learner, and simulates the next step. Returns whether the episode has come to its end: its
    /// duration leaves no room for another step.
    ///
    /// # Errors
    /// When there is no episode, or memory does not suffice.
    pub fn step(&mut self, actions: &[f64], observation: &mut [f32]) -> Result<bool, SimError> {
        let actions = actions.chunks(self.action_width());
        for (exchange, action) in self.exchanges.iter().zip(actions) {
            locked(exchange).action = match *action {
                [window, rate] => Action::Direct { window, rate },
                _ => Action::Convention(action.first().copied().unwrap_or(0.0)),
            };
        }
        self.advance(self.next_end())?;
        self.read(observation);
        for outcome in &mut self.outcomes {
            outcome.reward = reward(self.spec.reward, &outcome.record);
        }
        let end = self.episode.as_ref().map_or(Time::ZERO, |episode| episode.end);
        Ok(self.next_end() > end)
    }

    /// What the last step gave each learner.
    pub fn outcomes(&self) -> &[StepOutcome] {
        &self.outcomes
    }

    /// When the present step ends; zero before all learners have ended their first.
    fn next_end(&self) -> Time {
        let ends = self.exchanges.iter().map(|exchange| locked(exchange).next_end);
        ends.min().unwrap_or(Time::ZERO)
    }

    /// Virtual time since the episode began.
    pub fn now(&self) -> Time {
        self.episode.as_ref().map_or(Time::ZERO, |episode| episode.simulation.now())
    }

    fn advance(&mut self, until: Time) -> Result<(), SimError> {
        let Some(episode) = &mut self.episode else {
            return Err(SimError::Invalid("there is no episode: reset first".to_owned()));
        };
        let mut watch = QueueWatch(vec![QueueDelay::default(); self.spec.learners]);
        let from = episode.simulation.now();
        episode.simulation.advance_observed(until, &mut watch)?;
        let now = episode.simulation.now();
        let offered = episode.capacity.as_mut();
        let offered = offered.map_or(0, |schedule| capacity_between(schedule.as_mut(), from, now));
        let passed = (now - from).as_secs_f64();
        for (outcome, delay) in self.outcomes.iter_mut().zip(&watch.0) {
            outcome.truth = LinkTruth {
                capacity: if passed > 0.0 { offered as f64 / passed } else { 0.0 },
                queue_delay: delay.sum / delay.packets.max(1) as f64,
                queue_delay_max: delay.max,
            };
        }
        Ok(())
    }

    fn read(&mut self, observation: &mut [f32]) {
        let rows = observation.chunks_mut(self.width());
        for ((exchange, outcome), row) in self.exchanges.iter().zip(&mut self.outcomes).zip(rows) {
            let exchange = locked(exchange);
            outcome.record = exchange.record;
            for (slot, value) in row.iter_mut().zip(&exchange.observation) {
                *slot = *value;
            }
        }
    }

    fn scenario(&self, trace: usize, random: &mut Random, seed: u64) -> Scenario {
        let spec = &self.spec;
        let learners = self.exchanges.iter().map(|one| FlowSpec::bulk(self.controller(one)));
        let mut flows: Vec<FlowSpec> = learners.collect();
        flows.extend(spec.scenario.flows.iter().cloned());
        let mut trace = spec.traces[trace].clone();
        if let Some(period) = trace.period().filter(|_| spec.random_start) {
            let start_ms = random.below(period.as_nanos() / 1_000_000);
            trace = trace.starting_at(Span::from_millis(start_ms));
        }
        let rtt = match spec.rtt {
            Some(RttRange { low, high }) => {
                let (low, high) = (ln(low.as_secs_f64()), ln(high.as_secs_f64()));
                let secs = exp(low + (high - low) * random.unit());
                DelaySpec::constant(Span::from_secs_f64(secs))
            }
            None => spec.scenario.link.rtt().clone(),
        };
        // One bin and nothing left out: nobody reads series and figures.
        let bin = spec.scenario.duration.max(Span::from_millis(1));
        Scenario { flows, seed, bin, skip: Span::ZERO, ..spec.scenario.clone() }.with_link(|link| {
            link.down.trace = Some(trace);
            link.set_rtt(rtt);
        })
    }

    fn controller(&self, exchange: &Arc<Mutex<Exchange>>) -> ControllerSpec {
        let (rules, is_one) = (self.spec.rules, self.spec.learners == 1);
        let exchange = Arc::clone(exchange);
        ControllerSpec::new("agent", move |setup| {
            let outside = Outside(Arc::clone(&exchange));
            let controller = SteppedController::new(rules, outside, setup);
            Box::new(if is_one { controller } else { controller.in_time() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(observation: Convention, action: Convention, reward: Convention) -> EnvironmentSpec {
        let rules = StepRules {
            observation,
            history: Observation::default_history(observation),
            action,
            ..StepRules::default()
        };
        EnvironmentSpec {
            scenario: Scenario { duration: Span::from_secs(3), ..Scenario::default() },
            traces: vec!["lte-driving".parse().unwrap(), "constant:5mbit".parse().unwrap()],
            rtt: Some(RttRange { low: Span::from_millis(20), high: Span::from_millis(100) }),
            random_start: true,
            learners: 1,
            rules,
            direct: false,
            reward,
        }
    }

    /// Observations and rewards of an episode, with actions that depend on the number of the step.
    fn episode(environment: &mut Environment, seed: Option<u64>) -> (Vec<f32>, Vec<f64>) {
        let mut observation = vec![0.0; environment.width()];
        environment.reset(seed, &mut observation).unwrap();
        let (mut seen, mut rewards) = (observation.clone(), Vec::new());
        loop {
            let action = (rewards.len() % 5) as f64 - 1.0;
            let truncated = environment.step(&[action], &mut observation).unwrap();
            seen.extend_from_slice(&observation);
            rewards.push(environment.outcomes()[0].reward);
            if truncated {
                return (seen, rewards);
            }
        }
    }

    #[test]
    fn the_seed_decides_everything() {
        for convention in Convention::ALL {
            let spec = Arc::new(spec(convention, convention, convention));
            let new = || Environment::new(Arc::clone(&spec)).unwrap();
            let mut one = new();
            let (first, second) = (episode(&mut one, Some(7)), episode(&mut one, None));
            assert!(first.1.iter().all(|reward| reward.is_finite()));
            assert_ne!(first, second, "another episode is another link");
            assert_eq!(first, episode(&mut one, Some(7)));
            assert_eq!(second, episode(&mut one, None));
            assert_eq!(first, episode(&mut new(), Some(7)));
            assert_ne!(first, episode(&mut new(), Some(8)));
        }
    }

    #[test]
    fn an_episode_has_a_step_for_each_20_ms() {
        let spec = spec(Convention::Default, Convention::Default, Convention::Default);
        let mut environment = Environment::new(Arc::new(spec)).unwrap();
        let (seen, rewards) = episode(&mut environment, Some(1));
        // 3 s; the step before reset is over at 100 ms at the latest.
        assert!((145..=149).contains(&rewards.len()), "{}", rewards.len());
        assert_eq!(seen.len(), (rewards.len() + 1) * 24);
        assert!(environment.outcomes()[0].record.duration() == 0.02);
    }

    #[test]
    fn a_window_that_stays_fills_the_link_as_a_fixed_one_does() {
        let mut spec = spec(Convention::Default, Convention::Default, Convention::Default);
        spec.traces = vec!["constant:12mbit".parse().unwrap()];
        (spec.rtt, spec.random_start) = (None, false);
        let mut environment = Environment::new(Arc::new(spec)).unwrap();
        let mut observation = vec![0.0; environment.width()];
        environment.reset(Some(1), &mut observation).unwrap();
        for _ in 0..20 {
            environment.step(&[0.0], &mut observation).unwrap();
        }
        // Ten packets per 40 ms and a millisecond of the link: 10 / 41 of 12 Mbit/s.
        let (mut acked, mut capacity) = (0, 0.0);
        for _ in 0..82 {
            environment.step(&[0.0], &mut observation).unwrap();
            acked += environment.outcomes()[0].record.acked_packets;
            capacity += environment.outcomes()[0].truth.capacity / 82.0;
        }
        assert!((acked as i64 - 400).abs() <= 10, "{acked}");
        assert!((capacity - 1.5e6).abs() < 1.0, "{capacity}");
        assert_eq!(environment.outcomes()[0].record.window, 15_000);
        // Three doublings: 80 packets are 40 in the queue.
        for action in [1.0, 1.0, 1.0] {
            environment.step(&[action], &mut observation).unwrap();
        }
        for _ in 0..10 {
            environment.step(&[0.0], &mut observation).unwrap();
        }
        let truth = environment.outcomes()[0].truth;
        assert!((truth.queue_delay - 0.040).abs() < 0.003, "{truth:?}");
    }

    #[test]
    fn learners_share_a_link_and_end_their_steps_together() {
        let good = || spec(Convention::Default, Convention::Default, Convention::Default);
        let mut three = EnvironmentSpec { learners: 3, rtt: None, ..good() };
        three.traces = vec!["constant:12mbit".parse().unwrap()];
        let mut environment = Environment::new(Arc::new(three)).unwrap();
        let width = environment.width();
        let mut observation = vec![0.0; 3 * width];
        environment.reset(Some(1), &mut observation).unwrap();
        let mut acked = [0; 3];
        for step in 0..100 {
            // The last one doubles its window twice, the others keep theirs.
            let last = if step < 2 { 1.0 } else { 0.0 };
            assert!(!environment.step(&[0.0, 0.0, last], &mut observation).unwrap());
            let ends = environment.outcomes().iter().map(|outcome| outcome.record.end);
            let ends: Vec<Time> = ends.collect();
            assert_eq!(ends, [environment.now(); 3], "step {step}");
            assert_eq!(environment.now().as_nanos() % 20_000_000, 0);
            for (sum, outcome) in acked.iter_mut().zip(environment.outcomes()) {
                *sum += outcome.record.acked_packets;
            }
        }
        let windows = environment.outcomes().iter().map(|outcome| outcome.record.window);
        assert_eq!(windows.collect::<Vec<_>>(), [15_000, 15_000, 60_000]);
        assert!((acked[0] as f64 / acked[1] as f64 - 1.0).abs() < 0.1, "{acked:?}");
        assert!(acked[2] > 3 * acked[0], "{acked:?}");
        assert!(observation[..width] != observation[2 * width..]);
    }

    #[test]
    fn an_action_may_set_window_and_rate() {
        let mut direct = spec(Convention::Default, Convention::Default, Convention::Default);
        (direct.direct, direct.rtt) = (true, None);
        direct.traces = vec!["constant:12mbit".parse().unwrap()];
        let mut environment = Environment::new(Arc::new(direct)).unwrap();
        let mut observation = vec![0.0; environment.width()];
        environment.reset(Some(1), &mut observation).unwrap();
        assert_eq!(environment.outcomes()[0].record.window, 15_000);
        for (action, window, rate) in
            [([33.0, 0.0], 49_500, 0.0), ([33.0, 750_000.0], 49_500, 750_000.0)]
        {
            for _ in 0..2 {
                environment.step(&action, &mut observation).unwrap();
            }
            let record = environment.outcomes()[0].record;
            assert_eq!((record.window, record.rate), (window, rate));
        }
        for _ in 0..20 {
            environment.step(&[100.0, 750_000.0], &mut observation).unwrap();
        }
        let rate = environment.outcomes()[0].record.send_rate();
        assert!((rate / 750_000.0 - 1.0).abs() < 0.11, "paced: {rate}");
        environment.step(&[f64::NAN, f64::INFINITY], &mut observation).unwrap();
        environment.step(&[1e300, -1.0], &mut observation).unwrap();
        assert_eq!(environment.outcomes()[0].record.window, 15_000_000, "the largest");
        environment.step(&[0.0, 0.0], &mut observation).unwrap();
        assert_eq!(environment.outcomes()[0].record.window, 3000, "the smallest");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = || spec(Convention::Default, Convention::Default, Convention::Default);
        let none = EnvironmentSpec { traces: Vec::new(), ..good() };
        let mut steps = Environment::new(Arc::new(good())).unwrap();
        let learners = |learners| EnvironmentSpec { learners, ..good() };
        for count in [0, 65] {
            let error = Environment::new(Arc::new(learners(count))).err().unwrap().to_string();
            assert!(error.contains(&format!("learners: {count}; allowed: 1 to 64")), "{error}");
        }
        let mut by_rtt = learners(2);
        by_rtt.rules.step = StepLength::Rtts(1.0);
        let error = Environment::new(Arc::new(by_rtt)).err().unwrap().to_string();
        assert!(error.contains("step: several learners"), "{error}");
        assert!(steps.step(&[0.0], &mut []).unwrap_err().to_string().contains("reset first"));
        assert!(Environment::new(Arc::new(none)).err().unwrap().to_string().contains("trace"));
        let mut short = good();
        short.scenario.duration = Span::from_millis(10);
        let mut short = Environment::new(Arc::new(short)).unwrap();
        let error = short.reset(Some(1), &mut []).unwrap_err().to_string();
        assert!(error.contains("ends before the first step"), "{error}");
    }
}
