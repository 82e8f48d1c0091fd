//! What can be seen of a run while it goes on.

use cellpace_base::{Rate, Span, Time};
use cellpace_cc::{Controller, Event, RttEstimator, Setup};
use cellpace_path::PacketRecord;
use cellpace_recovery::permitted_rate;

use crate::connection::Connection;

/// Watches a run: every packet's record, every controller's events.
pub trait Observer {
    /// What became of a data packet.
    fn on_record(&mut self, record: &PacketRecord) {
        let _ = record;
    }

    /// An ack tells a flow's sender that the packet with the id `packet` arrived. `flow` is what the sender has
    /// made of the whole ack, before it sends anything in answer. Ends that are not the simulator's own, and
    /// both legs of a proxy, show no acks.
    fn on_ack(&mut self, at: Time, flow: FlowView<'_>, packet: u64) {
        let _ = (at, flow, packet);
    }

    /// A controller decided something.
    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        let _ = (flow, at, event);
    }

    /// How often [`on_interval`](Self::on_interval) is called, by virtual time; `None`: never.
    fn interval(&self) -> Option<Span> {
        None
    }

    /// Shows the present state of a flow, once per [`interval`](Self::interval) for each flow that
    /// has a connection. Nothing that the flow does depends on it.
    fn on_interval(&mut self, at: Time, flow: FlowView<'_>) {
        let _ = (at, flow);
    }

    /// A flow opens a connection (an ON/OFF flow one per file) with this controller, which was
    /// built with `setup`. What is returned controls the connection: the same, or something
    /// around it.
    fn on_connect(
        &mut self,
        flow: u32,
        controller: Box<dyn Controller>,
        setup: &Setup,
    ) -> Box<dyn Controller> {
        let _ = (flow, setup);
        controller
    }
}

/// Watches nothing.
impl Observer for () {}

/// The present connection of a flow, to look at.
#[derive(Clone, Copy)]
pub struct FlowView<'a> {
    flow: u32,
    controller: &'a dyn Controller,
    in_flight: u64,
    rtt: &'a RttEstimator,
}

impl<'a> FlowView<'a> {
    /// The flow of number `flow` with its controller, its bytes in flight and its RTT statistics.
    pub fn new(
        flow: u32,
        controller: &'a dyn Controller,
        in_flight: u64,
        rtt: &'a RttEstimator,
    ) -> Self {
        Self { flow, controller, in_flight, rtt }
    }

    pub(crate) fn of(flow: u32, connection: &'a Connection) -> Self {
        Self::new(flow, connection.controller(), connection.in_flight(), connection.rtt())
    }

    /// The flow's number, from 0, in the order of the scenario.
    pub fn flow(&self) -> u32 {
        self.flow
    }

    /// Its controller, to be asked for [`cwnd`](Controller::cwnd) and
    /// [`inspect`](Controller::inspect)ed.
    pub fn controller(&self) -> &'a dyn Controller {
        self.controller
    }

    /// Bytes in flight.
    pub fn in_flight(&self) -> u64 {
        self.in_flight
    }

    /// RTT statistics of the connection.
    pub fn rtt(&self) -> &'a RttEstimator {
        self.rtt
    }

    /// The rate at which the connection may send at present: what a source that adapts goes by
    /// (the encoder of a video). `None` while nothing is known or nothing limits it.
    pub fn permitted_rate(&self) -> Option<Rate> {
        permitted_rate(self.controller(), self.rtt())
    }
}
