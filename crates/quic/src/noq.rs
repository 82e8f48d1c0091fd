//! The skin for noq 1.4: each packet is told when it is sent, acked and lost, and the library's
//! pacer obeys the controller's rate and burst.

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use noq_proto::RttEstimator;
use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};

use crate::{Factory, Handle};

/// The rate of a controller that does not pace: too high to hold anything back, and low enough that
/// a missing byte still takes a nanosecond. With more, the pacer's timer fires at once for ever.
const UNPACED: u64 = 1_000_000_000;

/// A controller as noq calls it.
#[derive(Debug)]
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
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        // Acks alone have no size: they are not in flight.
        if bytes > 0 {
            self.handle.host().on_sent(self.handle.time(now), bytes.into(), pn);
        }
    }

    fn on_ack(
        &mut self,
        now: Instant,
        sent: Instant,
        _bytes: u64,
        pn: u64,
        app_limited: bool,
        // Of the ack before this one: the host has its own.
        _rtt: &RttEstimator,
    ) {
        let (now, sent) = (self.handle.time(now), self.handle.time(sent));
        self.handle.host().on_acked(now, sent, Some(pn), app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _: Option<u64>) {
        self.handle.host().on_end_acks(self.handle.time(now), in_flight);
    }

    fn on_packet_lost(&mut self, _lost_bytes: u16, pn: u64, now: Instant) {
        self.handle.host().on_lost(self.handle.time(now), pn);
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        is_ecn: bool,
        _lost_bytes: u64,
        _largest_lost_pn: u64,
    ) {
        let (now, sent) = (self.handle.time(now), self.handle.time(sent));
        let mut host = self.handle.host();
        if is_ecn {
            host.on_marked(now, sent);
        } else {
            host.on_end_losses(now, is_persistent_congestion);
        }
    }

    fn on_spurious_congestion_event(&mut self) {
        self.handle.host().on_spurious();
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.handle.host().on_mtu(new_mtu);
    }

    fn window(&self) -> u64 {
        self.handle.host().window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut host = self.handle.host();
        let (rate, burst) = host.pacing().unwrap_or((UNPACED, UNPACED));
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = host.window();
        metrics.pacing_rate = Some(rate.min(UNPACED));
        metrics.send_quantum = Some(burst);
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
