//! A model: what was counted, and of what.

use thiserror::Error;

use crate::{Counts, States};

/// A channel that a teacher was watched on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TraceName {
    /// As it was given, a file without its folder.
    pub name: String,
    /// SHA-256 of the file; zeros where it was generated.
    pub sha256: [u8; 32],
}

/// Where a model comes from.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct About {
    /// The teacher, as it is written on the command line (`verus:r=2`).
    pub teacher: String,
    /// The channels, sorted, each once.
    pub traces: Vec<TraceName>,
    /// Queue, RTT and what else the runs had in common, as on the command line.
    pub scenario: String,
    /// Seed of the runs.
    pub seed: u64,
    /// Length of an epoch, in microseconds.
    pub epoch_us: u32,
}

/// What was counted with one number of users.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ModelPart {
    /// Flows that shared the bottleneck; 0: unknown.
    pub users: u32,
    /// Epochs that were logged.
    pub samples: u64,
    /// Their transitions.
    pub counts: Counts,
}

/// A learnt controller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Where it comes from.
    pub about: About,
    /// Its states.
    pub states: States,
    /// One part per number of users, in ascending order.
    pub parts: Vec<ModelPart>,
}

/// Why two models do not merge.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum MergeError {
    /// Other states.
    #[error(
        "their states differ; train the second with the first one's, which `mdi show` names \
         (`--states`): only then do the counts mean the same"
    )]
    States,
    /// Other epochs.
    #[error("their epochs differ: {0} and {1} microseconds")]
    Epoch(u32, u32),
    /// Other teachers.
    #[error("their teachers differ: `{0}` and `{1}`")]
    Teacher(String, String),
}

impl Model {
    /// Both together: counts of the same number of users add up.
    ///
    /// # Errors
    /// When states, epochs or teachers differ.
    pub fn merged(&self, other: &Self) -> Result<Self, MergeError> {
        let (about, others) = (&self.about, &other.about);
        if self.states != other.states {
            return Err(MergeError::States);
        }
        if about.epoch_us != others.epoch_us {
            return Err(MergeError::Epoch(about.epoch_us, others.epoch_us));
        }
        if about.teacher != others.teacher {
            return Err(MergeError::Teacher(about.teacher.clone(), others.teacher.clone()));
        }
        let mut merged = self.clone();
        for part in &other.parts {
            merged.add(part);
        }
        merged.about.traces.extend(others.traces.iter().cloned());
        merged.about.traces.sort();
        merged.about.traces.dedup();
        if about.scenario != others.scenario {
            let mut both = [about.scenario.as_str(), &others.scenario];
            both.sort_unstable();
            merged.about.scenario = both.join(" + ");
        }
        Ok(merged)
    }

    fn add(&mut self, part: &ModelPart) {
        match self.parts.binary_search_by_key(&part.users, |part| part.users) {
            Ok(index) => {
                let known = &mut self.parts[index];
                known.samples = known.samples.saturating_add(part.samples);
                known.counts = known.counts.merged(&part.counts);
            }
            Err(index) => self.parts.insert(index, part.clone()),
        }
    }

    /// The counts of all numbers of users together: the combined model of section 6.5 of the
    /// paper.
    pub fn combined(&self) -> Counts {
        let all = self.parts.iter().flat_map(|part| part.counts.cells());
        Counts::from_cells(all.copied().collect())
    }

    /// The counts of one number of users: the matching model of section 6.4 of the paper.
    pub fn matching(&self, users: u32) -> Option<&Counts> {
        self.parts.iter().find(|part| part.users == users).map(|part| &part.counts)
    }

    /// Epochs that were logged.
    pub fn samples(&self) -> u64 {
        self.parts.iter().map(|part| part.samples).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Axis, Relative, TransitionCount};

    fn model(users: u32, count: u64) -> Model {
        let axis = |name| Axis::new(name, -2000, 2000, 1000).unwrap();
        let counts = Counts::from_cells(vec![TransitionCount { from: 1, to: 2, count }]);
        Model {
            about: About { teacher: "verus".into(), epoch_us: 5000, ..About::default() },
            states: States::Relative(Relative { d: axis("delay"), w: axis("window") }),
            parts: vec![ModelPart { users, samples: count + 1, counts }],
        }
    }

    #[test]
    fn parts_of_the_same_users_add_up_and_others_stand_beside() {
        let merged = model(1, 5).merged(&model(1, 7)).unwrap().merged(&model(3, 1)).unwrap();
        assert_eq!(merged.parts.len(), 2);
        assert_eq!(merged.matching(1).unwrap().total(), 12);
        assert_eq!(merged.matching(2), None);
        assert_eq!(merged.combined().total(), 13);
        assert_eq!(merged.samples(), 16);
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let mut other = model(1, 1);
        other.about.teacher = "copa".into();
        let said = model(1, 1).merged(&other).unwrap_err().to_string();
        assert_eq!(said, "their teachers differ: `verus` and `copa`");
        let mut other = model(1, 1);
        let axis = Axis::new("delay", 0, 1000, 1000).unwrap();
        other.states = States::Relative(Relative { d: axis, w: axis });
        assert_eq!(model(1, 1).merged(&other), Err(MergeError::States));
    }
}
