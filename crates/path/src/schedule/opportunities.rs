//! What all schedules have in common.

use cellpace_base::Time;

/// A sequence of delivery opportunities, in the order of time. Several may share one instant.
pub trait Schedule: Send {
    /// The next opportunity that was neither taken nor let go. `None`: there is none any more.
    fn peek(&self) -> Option<Time>;

    /// Takes the next opportunity.
    fn take(&mut self);

    /// Lets go of all opportunities at or before `now`.
    fn skip_through(&mut self, now: Time) {
        while self.peek().is_some_and(|next| next <= now) {
            self.take();
        }
    }

    /// Reports how much waits behind the packet in service, for links that serve sparse and
    /// saturating traffic differently.
    fn on_backlog(&mut self, now: Time, bytes: u64) {
        let _ = (now, bytes);
    }
}
