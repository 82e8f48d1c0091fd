//! The skin for noq 1.4: each packet is told when it is sent, acked and lost, and the library's
//! pacer obeys the controller's rate and burst.

use std::any::Any;
use std::sync::Arc;
use std::time::{Duration, Instant};

use noq_proto::congestion::{Controller, ControllerFactory, ControllerMetrics};
use noq_proto::{AckFrequencyConfig, RttEstimator, TransportConfig, VarInt};

use crate::{Factory, Handle, Host};

/// The rate of a controller that does not pace: too high to hold anything back, and low enough that
/// a missing byte still takes a nanosecond. With more, the pacer's timer fires at once for ever.
const UNPACED: u64 = 1_000_000_000;

/// A controller as noq calls it.
#[derive(Debug)]
struct NoqController {
    handle: Handle,
    initial_window: u64,
}

impl ControllerFactory for Factory {
    fn build(self: Arc<Self>, now: Instant, current_mtu: u16) -> Box<dyn Controller> {
        let handle = self.handle(now, current_mtu);
        let initial_window = handle.window();
        Box::new(NoqController { handle, initial_window })
    }
}

impl Factory {
    /// Puts connections with this configuration under these controllers: sets the factory, asks
    /// peers to acknowledge each packet within a millisecond (draft-ietf-quic-ack-frequency; peers
    /// that do not know it acknowledge as ever), and sets the send window.
    pub fn install_noq(self: &Arc<Self>, transport: &mut TransportConfig) {
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
#[cfg(feature = "noq")]
pub fn attach(connection: &::noq::Connection) -> Option<crate::Control> {
    crate::Control::start(TickedNoq(connection.clone()))
}

#[cfg(feature = "noq")]
struct TickedNoq(::noq::Connection);

#[cfg(feature = "noq")]
impl crate::control::Ticked for TickedNoq {
    fn handle(&self) -> Option<Handle> {
        let Self(connection) = self;
        handle(connection.congestion_state(noq_proto::PathId::ZERO)?)
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
    Some(controller.into_any().downcast::<NoqController>().ok()?.handle)
}

impl Controller for NoqController {
    fn on_packet_sent(&mut self, now: Instant, bytes: u16, pn: u64) {
        // Acks alone have no size: they are not in flight.
        if bytes > 0 {
            let now = self.handle.time(now);
            self.handle.with(|host| host.on_sent(now, bytes.into(), pn));
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
        // Nothing is asked before the end of the frame.
        self.handle.lock().on_acked(now, sent, Some(pn), app_limited);
    }

    fn on_end_acks(&mut self, now: Instant, in_flight: u64, _app_limited: bool, _: Option<u64>) {
        let now = self.handle.time(now);
        self.handle.with(|host| host.on_end_acks(now, in_flight));
    }

    fn on_packet_lost(&mut self, _lost_bytes: u16, pn: u64, now: Instant) {
        let now = self.handle.time(now);
        self.handle.with(|host| host.on_lost(now, pn));
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
        self.handle.with(|host| match is_ecn {
            true => host.on_marked(now, sent),
            false => host.on_end_losses(now, is_persistent_congestion),
        });
    }

    fn on_spurious_congestion_event(&mut self) {
        self.handle.with(Host::on_spurious);
    }

    fn on_mtu_update(&mut self, new_mtu: u16) {
        self.handle.with(|host| host.on_mtu(new_mtu));
    }

    fn window(&self) -> u64 {
        self.handle.window()
    }

    fn metrics(&self) -> ControllerMetrics {
        let (rate, burst) = self.handle.pacing().unwrap_or((UNPACED, UNPACED));
        let mut metrics = ControllerMetrics::default();
        metrics.congestion_window = self.handle.window();
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
