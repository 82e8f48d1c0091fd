//! One link, and the flow on it that is decided from outside.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::math::{exp, ln};
use cellpace_base::{Random, Span, Time};
use cellpace_cc::ControllerSpec;
use cellpace_cc::policy::{
    ActionSpace, Convention, Observation, StepPolicy, StepRecord, StepRules, SteppedController,
};
use cellpace_path::schedule::capacity_between;
use cellpace_path::{DelaySpec, Fate, PacketRecord, Schedule, TraceSpec};
use cellpace_sim::{FlowSpec, Observer, Scenario, SimError, Simulation};

use crate::reward::reward;

/// The stream of an episode's seed.
const EPISODE_STREAM: u64 = 0x6c65_6172_6e01;
/// The stream from which an episode's link is drawn.
const LINK_STREAM: u64 = 0x6c65_6172_6e02;

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
    /// flow that is decided from outside.
    pub scenario: Scenario,
    /// Traces of which one is drawn for each episode.
    pub traces: Vec<TraceSpec>,
    /// RTTs of which one is drawn, in place of the scenario's.
    pub rtt: Option<RttRange>,
    /// Whether each episode begins anywhere in its trace, where that repeats.
    pub random_start: bool,
    /// Steps, observations and actions.
    pub rules: StepRules,
    /// The convention of rewards.
    pub reward: Convention,
}

/// What a step gave, beside its observation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepOutcome {
    /// The reward.
    pub reward: f64,
    /// Whether the episode has come to its end: its duration leaves no room for another step.
    pub truncated: bool,
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
    action: f64,
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

    fn action(&mut self) -> f64 {
        locked(&self.0).action
    }
}

/// Adds up the queue delay of the first flow.
#[derive(Default)]
struct QueueWatch {
    sum: f64,
    packets: u64,
    max: f64,
}

impl Observer for QueueWatch {
    fn on_record(&mut self, record: &PacketRecord) {
        if record.packet.flow != 0 || record.fate != Fate::Delivered {
            return;
        }
        let delay = record.queue_delay().as_secs_f64();
        self.sum += delay;
        self.packets += 1;
        self.max = self.max.max(delay);
    }
}

/// A running episode.
struct Episode {
    simulation: Simulation,
    /// The schedule once more, to count what it offers; a cell has none.
    capacity: Option<Box<dyn Schedule>>,
    end: Time,
}

/// A flow of the simulator whose controller is decided from outside, once per step.
///
/// The seed decides everything: the link that is drawn, its randomness, and the episodes that
/// follow. Between steps there is nothing but the simulator.
pub struct Environment {
    spec: Arc<EnvironmentSpec>,
    exchange: Arc<Mutex<Exchange>>,
    episode: Option<Episode>,
    seed: u64,
    episodes: u64,
    record: StepRecord,
    truth: LinkTruth,
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
        let exchange = Exchange {
            record: StepRecord::default(),
            observation: Vec::new(),
            next_end: Time::ZERO,
            action: 0.0,
        };
        let new = Self {
            exchange: Arc::new(Mutex::new(exchange)),
            episode: None,
            seed: 0,
            episodes: 0,
            record: StepRecord::default(),
            truth: LinkTruth::default(),
            spec,
        };
        for index in 0..new.spec.traces.len() {
            let scenario = new.scenario(index, &mut Random::seeded(0, 0), 0);
            scenario.check().and_then(|()| scenario.check_delivers())?;
        }
        Ok(new)
    }

    /// Numbers of an observation.
    pub fn width(&self) -> usize {
        Observation::new(self.spec.rules.observation, self.spec.rules.history).width()
    }

    /// The values that an action may have.
    pub fn action_space(&self) -> ActionSpace {
        ActionSpace::of(self.spec.rules.action)
    }

    /// Begins an episode: that of `seed`, or without one the next of the seed before. Its first
    /// step is done with the initial window, and its observation returned in `observation`.
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
        locked(&self.exchange).next_end = Time::ZERO;
        let simulation = Simulation::new(&scenario)?;
        self.episode = Some(Episode { simulation, capacity, end });
        // The first step's length is known once the connection is there; no step is shorter.
        self.advance(Time::ZERO + Span::from_millis(1))?;
        while locked(&self.exchange).next_end == Time::ZERO {
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

    /// Decides, and simulates the next step.
    ///
    /// # Errors
    /// When there is no episode, or memory does not suffice.
    pub fn step(&mut self, action: f64, observation: &mut [f32]) -> Result<StepOutcome, SimError> {
        let until = {
            let mut exchange = locked(&self.exchange);
            exchange.action = action;
            exchange.next_end
        };
        self.advance(until)?;
        self.read(observation);
        let reward = reward(self.spec.reward, &self.record);
        let end = self.episode.as_ref().map_or(Time::ZERO, |episode| episode.end);
        let truncated = locked(&self.exchange).next_end > end;
        Ok(StepOutcome { reward, truncated })
    }

    /// The record of the last step.
    pub fn record(&self) -> &StepRecord {
        &self.record
    }

    /// What the link did in the last step.
    pub fn truth(&self) -> LinkTruth {
        self.truth
    }

    /// Virtual time since the episode began.
    pub fn now(&self) -> Time {
        self.episode.as_ref().map_or(Time::ZERO, |episode| episode.simulation.now())
    }

    fn advance(&mut self, until: Time) -> Result<(), SimError> {
        let Some(episode) = &mut self.episode else {
            return Err(SimError::Invalid("there is no episode: reset first".to_owned()));
        };
        let (from, mut watch) = (episode.simulation.now(), QueueWatch::default());
        episode.simulation.advance_observed(until, &mut watch)?;
        let now = episode.simulation.now();
        let offered = episode.capacity.as_mut();
        let offered = offered.map_or(0, |schedule| capacity_between(schedule.as_mut(), from, now));
        let passed = (now - from).as_secs_f64();
        self.truth = LinkTruth {
            capacity: if passed > 0.0 { offered as f64 / passed } else { 0.0 },
            queue_delay: watch.sum / watch.packets.max(1) as f64,
            queue_delay_max: watch.max,
        };
        Ok(())
    }

    fn read(&mut self, observation: &mut [f32]) {
        let exchange = locked(&self.exchange);
        self.record = exchange.record;
        for (slot, value) in observation.iter_mut().zip(&exchange.observation) {
            *slot = *value;
        }
    }

    fn scenario(&self, trace: usize, random: &mut Random, seed: u64) -> Scenario {
        let spec = &self.spec;
        let mut flows = vec![FlowSpec::bulk(self.controller())];
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

    fn controller(&self) -> ControllerSpec {
        let (rules, exchange) = (self.spec.rules, Arc::clone(&self.exchange));
        ControllerSpec::new("agent", move |setup| {
            Box::new(SteppedController::new(rules, Outside(Arc::clone(&exchange)), setup))
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
            rules,
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
            let outcome = environment.step(action, &mut observation).unwrap();
            seen.extend_from_slice(&observation);
            rewards.push(outcome.reward);
            if outcome.truncated {
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
        assert!(environment.record().duration() == 0.02);
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
            environment.step(0.0, &mut observation).unwrap();
        }
        // Ten packets per 40 ms and a millisecond of the link: 10 / 41 of 12 Mbit/s.
        let (mut acked, mut capacity) = (0, 0.0);
        for _ in 0..82 {
            environment.step(0.0, &mut observation).unwrap();
            acked += environment.record().acked_packets;
            capacity += environment.truth().capacity / 82.0;
        }
        assert!((acked as i64 - 400).abs() <= 10, "{acked}");
        assert!((capacity - 1.5e6).abs() < 1.0, "{capacity}");
        assert_eq!(environment.record().window, 15_000);
        // Three doublings: 80 packets are 40 in the queue.
        for action in [1.0, 1.0, 1.0] {
            environment.step(action, &mut observation).unwrap();
        }
        for _ in 0..10 {
            environment.step(0.0, &mut observation).unwrap();
        }
        let truth = environment.truth();
        assert!((truth.queue_delay - 0.040).abs() < 0.003, "{truth:?}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let good = || spec(Convention::Default, Convention::Default, Convention::Default);
        let none = EnvironmentSpec { traces: Vec::new(), ..good() };
        let mut steps = Environment::new(Arc::new(good())).unwrap();
        assert!(steps.step(0.0, &mut []).unwrap_err().to_string().contains("reset first"));
        assert!(Environment::new(Arc::new(none)).err().unwrap().to_string().contains("trace"));
        let mut short = good();
        short.scenario.duration = Span::from_millis(10);
        let mut short = Environment::new(Arc::new(short)).unwrap();
        let error = short.reset(Some(1), &mut []).unwrap_err().to_string();
        assert!(error.contains("ends before the first step"), "{error}");
    }
}
