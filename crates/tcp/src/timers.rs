//! When flows want to be called.

use std::collections::BTreeSet;

use cellpace_base::Time;

/// Times of flows, by their keys. A flow's slot holds its time, too, so that it can be changed.
#[derive(Debug)]
pub(crate) struct TimerQueue<K>(BTreeSet<(Time, K)>);

impl<K> Default for TimerQueue<K> {
    fn default() -> Self {
        Self(BTreeSet::new())
    }
}

impl<K: Copy + Ord> TimerQueue<K> {
    /// Replaces the time `at` of the flow `key`; `None`: it does not want to be called.
    pub(crate) fn set(&mut self, key: K, at: &mut Option<Time>, new: Option<Time>) {
        // Most turns leave the time as it is, which must not cost two walks through the tree.
        if *at == new {
            return;
        }
        if let Some(old) = std::mem::replace(at, new) {
            self.0.remove(&(old, key));
        }
        if let Some(new) = new {
            self.0.insert((new, key));
        }
    }

    /// Takes out a flow whose time has come. Its slot is to forget the time.
    pub(crate) fn pop_due(&mut self, now: Time) -> Option<K> {
        let (_, key) = self.0.first().copied().filter(|(at, _)| *at <= now)?;
        self.0.pop_first();
        Some(key)
    }

    /// The earliest time.
    pub(crate) fn first(&self) -> Option<Time> {
        self.0.first().map(|(at, _)| *at)
    }
}
