//! The flows of a transfer: those that go on, by number and by id, and those that are over.

use std::collections::{BTreeMap, HashMap};

use cellpace_udp::FlowId;

use super::flow::TransferFlow;

/// The flows of a transfer, counted from 0 in the order of their beginning.
#[derive(Default)]
pub struct TransferFlows {
    live: BTreeMap<usize, TransferFlow>,
    numbers: HashMap<FlowId, usize>,
    begun: usize,
}

impl TransferFlows {
    /// Flows that have begun so far; the number of the next.
    pub(super) fn begun(&self) -> usize {
        self.begun
    }

    /// Adds the next flow.
    pub fn push(&mut self, run: TransferFlow) {
        self.numbers.insert(run.id, self.begun);
        self.live.insert(self.begun, run);
        self.begun += 1;
    }

    /// The number of a flow that goes on.
    pub(super) fn number(&self, id: FlowId) -> Option<usize> {
        self.numbers.get(&id).copied()
    }

    pub(super) fn get_mut(&mut self, number: usize) -> Option<&mut TransferFlow> {
        self.live.get_mut(&number)
    }

    /// Takes a flow that is over.
    pub(super) fn remove(&mut self, number: usize) -> Option<TransferFlow> {
        let run = self.live.remove(&number)?;
        self.numbers.remove(&run.id);
        Some(run)
    }

    /// Numbers and flows that go on, in the order of their beginning.
    pub(super) fn iter(&self) -> impl Iterator<Item = (usize, &TransferFlow)> {
        self.live.iter().map(|(number, run)| (*number, run))
    }

    pub(super) fn iter_mut(&mut self) -> impl Iterator<Item = (usize, &mut TransferFlow)> {
        self.live.iter_mut().map(|(number, run)| (*number, run))
    }
}
