//! The skin for quinn 0.11: what is sent and lost is told in bytes, and the library paces by a
//! window per round trip whatever the controller says.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use quinn_proto::RttEstimator;
use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::{Factory, Handle};

/// A controller as quinn calls it.
struct Skin {
    handle: Handle,
    initial_window: u64,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let handle = self.handle(now, current_mtu);
        let initial_window = handle.host().window();
        Box::new(Skin { handle, initial_window })
    }
}

/// The handle of a controller that a [`Factory`] made; `None` for the library's own.
pub fn handle(controller: Box<dyn Controller>) -> Option<Handle> {
    Some(controller.into_any().downcast::<Skin>().ok()?.handle)
}

impl Controller for Skin {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        self.handle.host().on_sent_batch(self.handle.time(now), bytes, last_packet_number);
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        _bytes: u64,
        app_limited: bool,
        // Of the ack before this one: the host has its own.
        _rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.handle.time(now), self.handle.time(sent));
        self.handle.host().on_acked(now, sent, None, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _: Option<u64>) {
        self.handle.host().on_end_acks(self.handle.time(now), in_flight);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (now, sent) = (self.handle.time(now), self.handle.time(sent));
        let mut host = self.handle.host();
        // A report of marks has no bytes.
        if lost_bytes == 0 {
            host.on_marked(now, sent);
            return;
        }
        host.on_lost_bytes(now, lost_bytes, sent);
        host.on_end_losses(now, is_persistent_congestion);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.handle.host().on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        // The library refuses what makes in flight reach the window, not only what exceeds it.
        self.handle.host().window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.handle.host().pacing().map(|(rate, _)| rate.saturating_mul(8));
        metrics
    }

    fn clone_box(&self) -> Box<dyn Controller> {
        let Self { handle, initial_window } = self;
        Box::new(Self { handle: handle.clone(), initial_window: *initial_window })
    }

    fn initial_window(&self) -> u64 {
        self.initial_window
    }

    fn into_any(self: Box<Self>) -> Box<dyn Any> {
        self
    }
}
