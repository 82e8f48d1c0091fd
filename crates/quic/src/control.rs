//! The deadlines of a connection's controller on tokio, and what can be seen of it.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::Time;
use cellpace_cc::Event;

use crate::{Handle, HostStats};

/// A connection whose deadlines run.
pub(crate) trait Ticked: Send + 'static {
    /// The controller of its present path.
    fn handle(&self) -> Option<Handle>;
    /// Has it ask again what it may send.
    fn wake(&self, handle: &Handle);
    fn is_closed(&self) -> bool;
}

/// Runs the deadlines of a connection's controller, and shows the controller.
///
/// Keep it as long as the connection: without it, controllers that grant budgets (Verus, MDI) get
/// new ones only when something is sent or acked. After a migration it follows to the controller of
/// the new path.
#[must_use = "the deadlines run as long as this is kept"]
pub struct Control {
    current: Arc<Mutex<Handle>>,
    task: tokio::task::JoinHandle<()>,
}

/// How often a connection at rest is looked at: whether it is closed or has a new path.
const LOOK_EVERY: Duration = Duration::from_secs(1);

impl Control {
    pub(crate) fn start(connection: impl Ticked) -> Option<Self> {
        let current = Arc::new(Mutex::new(connection.handle()?));
        let task = tokio::spawn(tick(connection, current.clone()));
        Some(Self { current, task })
    }

    /// The controller of the present path.
    pub fn handle(&self) -> Handle {
        lock(&self.current).clone()
    }

    /// What has been counted on the present path.
    pub fn stats(&self) -> HostStats {
        self.handle().lock().stats()
    }

    /// Shows the controller's internal values of now, always the same names in the same order.
    pub fn snapshot(&self, mut show: impl FnMut(&'static str, f64)) {
        self.handle().lock().controller().inspect(&mut show);
    }

    /// The oldest decision of the controller that nobody has taken, with the time since the
    /// connection began.
    pub fn poll_event(&self) -> Option<(Time, Event)> {
        self.handle().lock().poll_event()
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        self.task.abort();
    }
}

fn lock(current: &Mutex<Handle>) -> MutexGuard<'_, Handle> {
    current.lock().unwrap_or_else(PoisonError::into_inner)
}

async fn tick(connection: impl Ticked, current: Arc<Mutex<Handle>>) {
    while !connection.is_closed() {
        let handle = lock(&current).clone();
        let next_look = Instant::now() + LOOK_EVERY;
        let due = handle.next_deadline().map_or(next_look, |due| due.min(next_look));
        tokio::select! {
            () = tokio::time::sleep_until(due.into()) => {}
            () = handle.changed() => continue,
        }
        if handle.catch_up(Instant::now()) {
            connection.wake(&handle);
        }
        if let Some(present) = connection.handle().filter(|present| !present.is_same(&handle)) {
            *lock(&current) = present;
        }
    }
}
