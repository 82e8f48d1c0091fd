//! Flows whose ends are not the simulator's own senders and receivers.

use std::any::Any;

use cellpace_base::{Span, Time};
use cellpace_cc::{Controller, Event, RttEstimator};
use cellpace_path::{Packet, PacketRecord};

use crate::{FlowView, SimError};

/// Both ends of a flow, which share the paths with all other flows of a scenario: flows that send
/// both ways, and the connections of a QUIC library. Direction 0 leads from the end that the
/// scenario's `cc` controls, direction 1 back.
pub trait FlowEnds: Any + Send {
    /// When one of the ends next has something to do; [`Time::MAX`]: never by itself.
    fn next_deadline(&self) -> Time;

    /// A packet has crossed a direction, or was dropped on its way. The ends send nothing yet.
    fn receive(&mut self, now: Time, direction: usize, record: &PacketRecord);

    /// The ends do all that they can do now. `push` takes a direction and a packet that enters it,
    /// and returns whether it did: the queue of a host may refuse it.
    ///
    /// # Errors
    /// When the flow cannot go on.
    fn turn(
        &mut self,
        now: Time,
        push: &mut dyn FnMut(usize, Packet) -> bool,
    ) -> Result<(), SimError>;

    /// The path is another one from now on.
    fn on_path_change(&mut self, now: Time) {
        let _ = now;
    }

    /// Passes on what the sender saw and decided since the last time.
    fn drain(&mut self, now: Time, note: &mut dyn FnMut(FlowNote)) {
        let _ = (now, note);
    }

    /// Shows the sender's controller and what it knows, if that can be seen.
    fn look(&self, show: &mut dyn FnMut(FlowSample<'_>)) {
        let _ = show;
    }

    /// What the sender did so far; `None`: it does not count.
    fn totals(&self) -> Option<SenderTotals> {
        None
    }
}

/// What a sender saw or decided.
#[derive(Debug)]
pub enum FlowNote {
    /// An RTT, and when it was measured.
    Rtt(Time, Span),
    /// An event of its controller.
    Event(Time, Event),
}

/// What a sender did during all of a run.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SenderTotals {
    /// Packets declared lost, whose data went out again.
    pub retransmitted: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Timeouts that the first ack after them showed to be wrong.
    pub spurious_timeouts: u64,
    /// Packets declared lost that had arrived.
    pub spurious_losses: u64,
}

/// The controller of a flow and what it knows, to be sampled.
#[derive(Clone, Copy)]
pub struct FlowSample<'a> {
    /// The controller.
    pub controller: &'a dyn Controller,
    /// Bytes in flight.
    pub in_flight: u64,
    /// RTT statistics.
    pub rtt: &'a RttEstimator,
    /// The retransmission timeout.
    pub rto: Span,
}

impl<'a> FlowSample<'a> {
    /// The same as an observer sees it.
    pub fn view(&self, flow: u32) -> FlowView<'a> {
        FlowView::new(flow, self.controller, self.in_flight, self.rtt)
    }
}
