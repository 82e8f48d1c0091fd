//! Many environments, stepped by threads.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;

use cellpace_sim::SimError;

use crate::{Environment, EnvironmentSpec, StepOutcome};

/// When an environment whose episode is over begins the next one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Autoreset {
    /// With the next step, whose action is ignored and whose reward is 0.
    NextStep,
    /// In the same step: the observation is the first of the new episode.
    SameStep,
}

/// One of the environments, and what its last step gave.
pub struct Lane {
    environment: Environment,
    is_over: bool,
    /// The observations, one learner's behind the other's.
    pub observation: Vec<f32>,
    /// With [`Autoreset::SameStep`] the last observations of the episode that is over.
    pub last_observation: Vec<f32>,
    /// What the step gave each learner.
    pub outcomes: Vec<StepOutcome>,
    /// Whether the episode came to its end with this step.
    pub truncated: bool,
}

impl Lane {
    fn new(spec: &Arc<EnvironmentSpec>) -> Result<Self, SimError> {
        let environment = Environment::new(Arc::clone(spec))?;
        let observation = vec![0.0; environment.learners() * environment.width()];
        Ok(Self {
            outcomes: vec![StepOutcome::default(); environment.learners()],
            environment,
            is_over: false,
            last_observation: observation.clone(),
            observation,
            truncated: false,
        })
    }

    /// Numbers of the actions of all its learners.
    fn actions(&self) -> usize {
        self.environment.learners() * self.environment.action_width()
    }

    fn reset(&mut self, seed: Option<u64>) -> Result<(), SimError> {
        (self.is_over, self.truncated) = (false, false);
        self.environment.reset(seed, &mut self.observation)?;
        self.outcomes.copy_from_slice(self.environment.outcomes());
        self.outcomes.iter_mut().for_each(|outcome| outcome.reward = 0.0);
        Ok(())
    }

    fn step(&mut self, actions: &[f64], autoreset: Autoreset) -> Result<(), SimError> {
        if self.is_over {
            return self.reset(None);
        }
        self.truncated = self.environment.step(actions, &mut self.observation)?;
        self.outcomes.copy_from_slice(self.environment.outcomes());
        if !self.truncated {
            return Ok(());
        }
        match autoreset {
            Autoreset::NextStep => self.is_over = true,
            Autoreset::SameStep => {
                self.last_observation.copy_from_slice(&self.observation);
                self.environment.reset(None, &mut self.observation)?;
            }
        }
        Ok(())
    }
}

/// What to do with the lanes of a group.
#[derive(Clone, Copy, PartialEq)]
enum Task {
    Reset,
    Step(Autoreset),
}

/// Lanes that one thread steps. It travels to the thread and back, and takes its buffers along.
struct LaneGroup {
    lanes: Vec<Lane>,
    actions: Vec<f64>,
    seeds: Vec<Option<u64>>,
    task: Task,
    result: Result<(), SimError>,
}

impl LaneGroup {
    fn work(&mut self) {
        let work = || -> Result<(), SimError> {
            for (index, lane) in self.lanes.iter_mut().enumerate() {
                match self.task {
                    Task::Reset => lane.reset(self.seeds[index])?,
                    Task::Step(autoreset) => {
                        let width = lane.actions();
                        lane.step(&self.actions[width * index..][..width], autoreset)?;
                    }
                }
            }
            Ok(())
        };
        let panicked = || SimError::Invalid("a step ended in a panic".to_owned());
        self.result = catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| Err(panicked()));
    }
}

/// A thread with its own group.
struct LaneWorker {
    work: Option<Sender<Box<LaneGroup>>>,
    done: Receiver<Box<LaneGroup>>,
    thread: Option<JoinHandle<()>>,
}

impl LaneWorker {
    fn new() -> std::io::Result<Self> {
        let (work, incoming) = channel::<Box<LaneGroup>>();
        let (finished, done) = channel();
        let run = move || {
            while let Ok(mut group) = incoming.recv() {
                group.work();
                if finished.send(group).is_err() {
                    return;
                }
            }
        };
        let thread = std::thread::Builder::new().name("learn".to_owned()).spawn(run)?;
        Ok(Self { work: Some(work), done, thread: Some(thread) })
    }
}

impl Drop for LaneWorker {
    fn drop(&mut self) {
        self.work = None;
        if let Some(thread) = self.thread.take() {
            // It has caught its panics.
            let _ = thread.join();
        }
    }
}

/// Environments that are stepped together, by a number of threads. Each is as it would be alone:
/// the number of threads makes no difference.
pub struct VectorEnvironment {
    /// The first is the caller's own.
    groups: Vec<Option<Box<LaneGroup>>>,
    workers: Vec<LaneWorker>,
    autoreset: Autoreset,
}

impl VectorEnvironment {
    /// `count` environments (at least one) of the same specification, on up to `threads` threads,
    /// the caller's included.
    ///
    /// # Errors
    /// When the specification contradicts itself, or a thread cannot be started.
    pub fn new(
        spec: &Arc<EnvironmentSpec>,
        count: usize,
        threads: usize,
        autoreset: Autoreset,
    ) -> Result<Self, SimError> {
        let count = count.max(1);
        let size = count.div_ceil(threads.clamp(1, count));
        let mut groups = Vec::new();
        for start in (0..count).step_by(size) {
            let lanes = (start..count.min(start + size)).map(|_| Lane::new(spec));
            let lanes = lanes.collect::<Result<Vec<_>, _>>()?;
            let actions = vec![0.0; lanes.iter().map(Lane::actions).sum()];
            let seeds = vec![None; lanes.len()];
            let group = LaneGroup { lanes, actions, seeds, task: Task::Reset, result: Ok(()) };
            groups.push(Some(Box::new(group)));
        }
        let workers = (1..groups.len()).map(|_| LaneWorker::new()).collect::<Result<_, _>>();
        let workers = workers.map_err(|error| SimError::Invalid(format!("threads: {error}")))?;
        Ok(Self { groups, workers, autoreset })
    }

    /// The environments in their order.
    pub fn lanes(&self) -> impl Iterator<Item = &Lane> {
        self.groups.iter().flatten().flat_map(|group| &group.lanes)
    }

    /// Begins an episode in each, with its seed where it gets one.
    ///
    /// # Errors
    /// As [`Environment::reset`].
    pub fn reset(&mut self, seeds: &[Option<u64>]) -> Result<(), SimError> {
        let mut rest = seeds.iter().copied();
        for group in self.groups.iter_mut().flatten() {
            group.seeds.iter_mut().for_each(|seed| *seed = rest.next().flatten());
        }
        self.all(Task::Reset)
    }

    /// A step of each, with the actions of one behind those of the other.
    ///
    /// # Errors
    /// As [`Environment::step`].
    pub fn step(&mut self, actions: &[f64]) -> Result<(), SimError> {
        let mut rest = actions.iter().copied();
        for group in self.groups.iter_mut().flatten() {
            group.actions.iter_mut().for_each(|action| *action = rest.next().unwrap_or(0.0));
        }
        self.all(Task::Step(self.autoreset))
    }

    fn all(&mut self, task: Task) -> Result<(), SimError> {
        let gone = || SimError::Invalid("a thread of the environments has ended".to_owned());
        let (own, others) = self.groups.split_first_mut().ok_or_else(gone)?;
        for (slot, worker) in others.iter_mut().zip(&self.workers) {
            let mut group = slot.take().ok_or_else(gone)?;
            group.task = task;
            let sender = worker.work.as_ref().ok_or_else(gone)?;
            sender.send(group).map_err(|_| gone())?;
        }
        if let Some(group) = own {
            group.task = task;
            group.work();
        }
        for (slot, worker) in others.iter_mut().zip(&self.workers) {
            *slot = Some(worker.done.recv().map_err(|_| gone())?);
        }
        self.groups.iter().flatten().try_for_each(|group| group.result.clone())
    }
}

#[cfg(test)]
mod tests {
    use cellpace_base::Span;
    use cellpace_cc::policy::{Convention, StepRules};
    use cellpace_sim::Scenario;

    use super::*;
    use crate::RttRange;

    fn spec() -> Arc<EnvironmentSpec> {
        Arc::new(EnvironmentSpec {
            scenario: Scenario { duration: Span::from_secs(1), ..Scenario::default() },
            traces: vec!["umts-driving".parse().unwrap(), "constant:5mbit".parse().unwrap()],
            rtt: Some(RttRange { low: Span::from_millis(20), high: Span::from_millis(100) }),
            random_start: true,
            learners: 1,
            rules: StepRules::default(),
            direct: false,
            reward: Convention::Default,
        })
    }

    /// Three episodes of each environment, stepped alone.
    fn alone(lane: usize, steps: usize, autoreset: Autoreset) -> Vec<(Vec<f32>, f64, bool)> {
        let mut environment = Environment::new(spec()).unwrap();
        let mut observation = vec![0.0; environment.width()];
        environment.reset(Some(lane as u64), &mut observation).unwrap();
        let (mut seen, mut is_over) = (Vec::new(), false);
        for step in 0..steps {
            if is_over && autoreset == Autoreset::NextStep {
                environment.reset(None, &mut observation).unwrap();
                seen.push((observation.clone(), 0.0, false));
                is_over = false;
                continue;
            }
            let action = ((step + lane) % 5) as f64 / 2.0 - 1.0;
            is_over = environment.step(&[action], &mut observation).unwrap();
            let (reward, truncated) = (environment.outcomes()[0].reward, is_over);
            if is_over && autoreset == Autoreset::SameStep {
                environment.reset(None, &mut observation).unwrap();
            }
            seen.push((observation.clone(), reward, truncated));
        }
        seen
    }

    #[test]
    fn many_are_as_each_alone_on_any_number_of_threads() {
        const LANES: usize = 5;
        for autoreset in [Autoreset::NextStep, Autoreset::SameStep] {
            let expected: Vec<_> = (0..LANES).map(|lane| alone(lane, 120, autoreset)).collect();
            assert!(expected[0].iter().filter(|step| step.2).count() >= 2, "several episodes");
            for threads in [1, 2, 9] {
                let mut all = VectorEnvironment::new(&spec(), LANES, threads, autoreset).unwrap();
                all.reset(&[0, 1, 2, 3, 4].map(Some)).unwrap();
                for step in 0..120 {
                    let action = |lane| ((step + lane) % 5) as f64 / 2.0 - 1.0;
                    all.step(&(0..LANES).map(action).collect::<Vec<_>>()).unwrap();
                    for (lane, expected) in all.lanes().zip(&expected) {
                        let reward = lane.outcomes[0].reward;
                        let found = (lane.observation.clone(), reward, lane.truncated);
                        assert_eq!(found, expected[step], "{threads} threads, step {step}");
                    }
                }
            }
        }
    }
}
