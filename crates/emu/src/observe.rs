//! What a run shows to those who watch it.

use std::net::SocketAddr;
use std::ops::Range;

use cellpace_base::Time;
use cellpace_path::{DuplexSpec, PacketRecord};

/// Which way a packet goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkDirection {
    /// Towards the inside, through the trace.
    Down,
    /// From the inside, through the uplink.
    Up,
}

/// Where a packet was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LinkSide {
    /// At the far side's device.
    Far,
    /// At the device inside.
    Inside,
}

impl LinkSide {
    pub(crate) const fn of_device(number: usize) -> Self {
        if number == 0 { Self::Far } else { Self::Inside }
    }
}

/// What became of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SeenPacket {
    /// Which way it went.
    pub direction: LinkDirection,
    /// The model's record of it. `flow` numbers flows in the order of their first packets, the
    /// same for both directions; `id` numbers packets; `tag` means nothing any more.
    pub record: PacketRecord,
    /// When it was really handed over; for a dropped packet, when it was dropped.
    pub written: Time,
    /// It left the link after the program's end, while the link waited for its last bytes.
    pub after_end: bool,
}

/// A change of a running link.
#[derive(Debug, Clone, PartialEq)]
pub struct LinkChange {
    /// When it was made.
    pub at: Time,
    /// What was asked for, as written.
    pub settings: Vec<String>,
    /// The link from then on.
    pub link: DuplexSpec,
}

/// A packet as it passed a device.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Capture {
    pub(crate) side: LinkSide,
    pub(crate) at: Time,
    pub(crate) length: u32,
    /// Where its bytes are in the batch.
    pub(crate) range: Range<usize>,
}

/// What the forwarding thread hands over at once.
#[derive(Debug, Default)]
pub(crate) struct SeenBatch {
    pub(crate) seen: Vec<SeenPacket>,
    pub(crate) captures: Vec<Capture>,
    pub(crate) bytes: Vec<u8>,
    pub(crate) changes: Vec<LinkChange>,
    /// Numbers and addresses of flows that begin.
    pub(crate) flows: Vec<(u32, String)>,
    /// A destination without a way, if there was one.
    pub(crate) unreachable: Option<SocketAddr>,
}

impl SeenBatch {
    pub(crate) fn with_room(records: usize) -> Self {
        Self { seen: Vec::with_capacity(records), ..Self::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        let Self { seen, captures, bytes: _, changes, flows, unreachable } = self;
        seen.is_empty()
            && captures.is_empty()
            && changes.is_empty()
            && flows.is_empty()
            && unreachable.is_none()
    }
}

/// Watches a run, on a thread of its own that may take its time.
pub trait LinkObserver: Send + 'static {
    /// What became of a packet.
    fn on_packet(&mut self, seen: &SeenPacket);

    /// A flow begins: its number, and its protocol, addresses and ports, the end inside first.
    fn on_flow(&mut self, flow: u32, addresses: &str) {
        let _ = (flow, addresses);
    }

    /// A packet passed a device. `bytes` are the first of the packet's `length`.
    fn on_capture(&mut self, side: LinkSide, at: Time, length: u32, bytes: &[u8]) {
        let _ = (side, at, length, bytes);
    }

    /// The link was changed.
    fn on_change(&mut self, change: &LinkChange) {
        let _ = change;
    }

    /// Something inside sent a packet to an address that cannot be reached from the far side, or
    /// asked a name server that is not there. Called again and again while that goes on.
    fn on_unreachable(&mut self, destination: SocketAddr) {
        let _ = destination;
    }

    /// Called some ten times a second, even when no packet passes.
    fn on_tick(&mut self, now: Time) {
        let _ = now;
    }

    /// How many bytes of each packet [`Self::on_capture`] wants; `None`: it wants no packets.
    fn capture_bytes(&self) -> Option<usize> {
        None
    }
}

/// Watches nothing.
impl LinkObserver for () {
    fn on_packet(&mut self, _: &SeenPacket) {}
}
