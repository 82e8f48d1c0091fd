//! The number of open flows, and a way to wait until there are none.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

#[derive(Debug, Default)]
pub(super) struct FlowCount {
    open: Mutex<usize>,
    changed: Condvar,
}

impl FlowCount {
    pub(super) fn open(&self) -> usize {
        *self.lock()
    }

    pub(super) fn set(&self, count: usize) {
        *self.lock() = count;
        self.changed.notify_all();
    }

    /// Waits until there are no flows; returns how many there are then.
    pub(super) fn wait(&self, until: Instant) -> usize {
        let timeout = until.saturating_duration_since(Instant::now());
        let waited = self.changed.wait_timeout_while(self.lock(), timeout, |open| *open > 0);
        *waited.unwrap_or_else(PoisonError::into_inner).0
    }

    fn lock(&self) -> MutexGuard<'_, usize> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn waiting_ends_with_the_last_flow_or_with_the_time() {
        let count = FlowCount::default();
        assert_eq!(count.wait(Instant::now()), 0);
        count.set(2);
        assert_eq!(count.wait(Instant::now() + Duration::from_millis(1)), 2);
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| count.wait(Instant::now() + Duration::from_secs(60)));
            count.set(1);
            count.set(0);
            assert_eq!(waiting.join().unwrap(), 0);
        });
    }
}
