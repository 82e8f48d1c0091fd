//! The skin for quinn 0.11: what is sent and lost is told in bytes, and the library paces by a
//! window per round trip whatever the controller says.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use quinn_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use quinn_proto::{AckFrequencyConfig, RttEstimator, TransportConfig, VarInt};

use crate::{Factory, Handle};

/// A controller as quinn calls it.
struct QuinnController {
    handle: Handle,
    initial_window: u64,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let handle = self.handle(now, current_mtu);
        let initial_window = handle.window();
        Box::new(QuinnController { handle, initial_window })
    }
}

impl Factory {
    /// Puts connections with this configuration under these controllers: sets the factory, asks
    /// peers to acknowledge each packet within a millisecond (draft-ietf-quic-ack-frequency; peers
    /// that do not know it acknowledge as ever), and sets the send window.
    pub fn install_quinn(self: &Arc<Self>, transport: &mut TransportConfig) {
        let mut acks = AckFrequencyConfig::default();
        acks.ack_eliciting_threshold(VarInt::from_u32(0))
            .max_ack_delay(Some(Duration::from_millis(1)));
        transport
            .congestion_controller_factory(self.clone())
            .ack_frequency_config(Some(acks))
            .send_window(self.send_window());
    }
}

/// Runs the deadlines of the controller of `connection` on the present tokio runtime. `None`: its
/// controller is the library's own.
#[cfg(feature = "quinn")]
pub fn attach(connection: &::quinn::Connection) -> Option<crate::Control> {
    crate::Control::start(TickedQuinn(connection.clone()))
}

#[cfg(feature = "quinn")]
struct TickedQuinn(::quinn::Connection);

#[cfg(feature = "quinn")]
impl crate::control::Ticked for TickedQuinn {
    fn handle(&self) -> Option<Handle> {
        let Self(connection) = self;
        handle(connection.congestion_state())
    }

    fn wake(&self, handle: &Handle) {
        // Sets what is set, and wakes the connection.
        self.0.set_send_window(handle.send_window());
    }

    fn is_closed(&self) -> bool {
        self.0.close_reason().is_some()
    }
}

/// The handle of a controller that a [`Factory`] made; `None` for the library's own.
pub fn handle(controller: Box<dyn Controller>) -> Option<Handle> {
    Some(controller.into_any().downcast::<QuinnController>().ok()?.handle)
}

impl Controller for QuinnController {
    fn on_sent(&mut self, now: Instant, bytes: u64, last_packet_number: u64) {
        let now = self.handle.time(now);
        self.handle.with(|host| host.on_sent_batch(now, bytes, last_packet_number));
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
        // Nothing is asked before the end of the frame.
        self.handle.lock().on_acked(now, sent, None, app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _: Option<u64>) {
        let now = self.handle.time(now);
        self.handle.with(|host| host.on_end_acks(now, in_flight));
    }

    fn on_congestion_event(
        &mut self,
        now: Instant,
        sent: Instant,
        is_persistent_congestion: bool,
        lost_bytes: u64,
    ) {
        let (now, sent) = (self.handle.time(now), self.handle.time(sent));
        self.handle.with(|host| {
            // A report of marks has no bytes.
            if lost_bytes == 0 {
                host.on_marked(now, sent);
                return;
            }
            host.on_lost_bytes(now, lost_bytes, sent);
            host.on_end_losses(now, is_persistent_congestion);
        });
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.handle.with(|host| host.on_mtu(new_mtu));
    }

    fn window(&self) -> u64 {
        // The library refuses what makes in flight reach the window, not only what exceeds it.
        self.handle.window().saturating_add(1)
    }

    fn metrics(&self) -> ControllerMetrics {
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.window();
        metrics.pacing_rate = self.handle.pacing().map(|(rate, _)| rate.saturating_mul(8));
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
