//! The flows of a run: those that go on, by number and by id, and those that are over.

use std::collections::{BTreeMap, HashMap};

use cellpace_udp::FlowId;

use super::flow::FlowRun;

/// The flows of a run, counted from 0 in the order of their beginning.
#[derive(Default)]
pub(crate) struct Runs {
    live: BTreeMap<usize, FlowRun>,
    numbers: HashMap<FlowId, usize>,
    begun: usize,
}

impl Runs {
    /// Flows that have begun so far; the number of the next.
    pub(crate) fn begun(&self) -> usize {
        self.begun
    }

    /// Adds the next flow.
    pub(crate) fn push(&mut self, run: FlowRun) {
        self.numbers.insert(run.id, self.begun);
        self.live.insert(self.begun, run);
        self.begun += 1;
    }

    /// The number of a flow that goes on.
    pub(crate) fn number(&self, id: FlowId) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    pub(crate) fn get_mut(&mut self, number: usize) -> Option<&mut FlowRun> {
        self.live.get_mut(&number)
    }

    /// Takes a flow that is over.
    pub(crate) fn remove(&mut self, number: usize) -> Option<FlowRun> {
        let run = self.live.remove(&number)?;
        self.numbers.remove(&run.id);
        Some(run)
    }

    /// Numbers and flows that go on, in the order of their beginning.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (usize, &FlowRun)> {
        self.live.iter().map(|(number, run)| (*number, run))
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut FlowRun)> {
        self.live.iter_mut().map(|(number, run)| (*number, run))
    }
}
