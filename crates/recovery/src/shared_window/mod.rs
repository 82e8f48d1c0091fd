//! Several flows to one peer under one controller.
//!
//! To its datapath, a flow's [`WindowMember`] is a controller like any other. It passes what the
//! datapath reports to the group's controller, with numbers and bytes in flight of the whole group,
//! and answers with the flow's part of that controller's window.

mod division;
mod group;
mod member;
mod packets;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use cellpace_cc::Controller;

use group::WindowGroup;
pub use member::{WindowMember, WindowWatch};

/// The groups of a datapath, by what their flows have in common: the peer's address and the
/// controller's text, say.
#[derive(Debug)]
pub struct SharedWindows<K> {
    known: Mutex<HashMap<K, Weak<Mutex<WindowGroup>>>>,
}

impl<K> Default for SharedWindows<K> {
    fn default() -> Self {
        Self { known: Mutex::default() }
    }
}

impl<K: Eq + Hash> SharedWindows<K> {
    /// Makes a flow a member of the group `key`, and builds that group's controller if there is no
    /// group yet. The flow's part in relation to those of the others is `weight`; 0 counts as 1.
    /// Its packets have up to `mss` bytes.
    pub fn join(
        &self,
        key: K,
        weight: u32,
        mss: u64,
        build: impl FnOnce() -> Box<dyn Controller>,
    ) -> WindowMember {
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() == known.capacity() {
            // Before it grows: groups without members.
            known.retain(|_, group| group.strong_count() > 0);
        }
        let slot = known.entry(key).or_default();
        let group = slot.upgrade().unwrap_or_else(|| {
            let group = Arc::new(Mutex::new(WindowGroup::new(build(), mss)));
            *slot = Arc::downgrade(&group);
            group
        });
        WindowMember::new(group, weight.max(1), mss)
    }
}
