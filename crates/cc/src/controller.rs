//! The seam between an algorithm and whatever carries its packets.

use cellpace_base::{Ecn, Rate, Span, Time};

use crate::{Event, Random, RttEstimator};

/// What a controller is built with.
#[derive(Debug, Clone)]
pub struct Setup {
    /// Bytes that a full packet counts for in every size and window of this flow (headers
    /// included if the datapath counts them; what matters is that it always does the same).
    pub mss: u64,
    /// The time at which the flow starts.
    pub start: Time,
    /// The flow's own random source, seeded by whoever runs it.
    pub random: Random,
}

/// What a controller leaves on a packet when it is sent and gets back with the packet's ack or
/// loss.
///
/// All words belong to the controller that returned the stamp. Whatever lies between it and the
/// wire copies them and writes none: a layer that needs words of its own for a packet keeps a table
/// by packet number. No word is filled in for packets that the controller was not asked about, so
/// zero means "not stamped" wherever a controller lets it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stamp {
    /// Words that stay at the sender: the window at send time, delivery counters.
    ///
    /// | controller | words |
    /// |---|---|
    /// | BBR v1 | `delivered`, `delivered_at`, `first_sent_at` (ns), whether the sender was short of data |
    /// | BBR v3 | `delivered`, `lost`, flight and whether the sender was short of data, both times relative |
    /// | Verus | window in packets, first packet number of the session |
    /// | MDI | window in 1/256 packets |
    /// | Pace | `delivered` |
    /// | GCC | number of the probe |
    /// | others | none |
    pub local: [u64; 4],
    /// The word that travels with the packet to the [`Receiver`] half. Used by Sprout.
    pub wire: u64,
}

/// What a controller lets leave. Every datapath asks [`Controller::permit`] before each packet and
/// obeys the answer; it does not find out by trial which of the two kinds it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Permit {
    /// At most this many bytes may be in flight: an ack lets as much leave as it takes away.
    /// `u64::MAX` where the algorithm sets no bound.
    Window(u64),
    /// This many bytes may leave, however many are in flight. Acks alone do not renew a budget:
    /// the controller does at its deadlines (a share per epoch) or when the peer reports.
    Budget(u64),
}

impl Permit {
    /// Bytes that may leave now, with `in_flight` bytes in flight.
    pub fn remaining(self, in_flight: u64) -> u64 {
        match self {
            Self::Window(window) => window.saturating_sub(in_flight),
            Self::Budget(budget) => budget,
        }
    }

    /// Whether acks let more leave by themselves.
    pub fn is_window(self) -> bool {
        matches!(self, Self::Window(_))
    }
}

/// A packet that is leaving now.
#[derive(Debug, Clone, Copy)]
pub struct SentPacket {
    /// Now.
    pub now: Time,
    /// Packet number: counts up by one with every transmission, retransmissions included.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// Bytes in flight, this packet included.
    pub in_flight: u64,
    /// Whether the sender has nothing more to send although more would be allowed.
    pub app_limited: bool,
    /// Whether it carries data that was sent before.
    pub retransmission: bool,
}

/// One packet of an acknowledgment.
#[derive(Debug, Clone, Copy)]
pub struct AckedPacket {
    /// Packet number.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// When it left.
    pub sent_at: Time,
    /// From leaving to this ack.
    pub rtt: Span,
    /// When it reached the receiver, on the receiver's clock, where the datapath knows.
    pub received_at: Option<Time>,
    /// Whether the sender ran out of data when it sent this packet.
    pub app_limited: bool,
    /// Its codepoint as it arrived; [`Ecn::NotEct`] where the datapath does not know.
    pub ecn: Ecn,
    /// What the controller left on it.
    pub stamp: Stamp,
}

/// An acknowledgment: one or more packets newly known to have arrived.
#[derive(Debug, Clone, Copy)]
pub struct Ack<'a> {
    /// Now.
    pub now: Time,
    /// The packets, in the order of their arrival at the receiver; never empty.
    pub packets: &'a [AckedPacket],
    /// Bytes in flight before this ack.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// The number that the next packet will get.
    pub next_number: u64,
    /// Smoothed RTT and friends, this ack's newest sample included.
    pub rtt: &'a RttEstimator,
}

impl Ack<'_> {
    /// Bytes that this ack covers.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| packet.bytes).sum()
    }

    /// The packet sent last of those acked.
    ///
    /// # Panics
    /// When the ack is empty, which the datapath must never pass.
    pub fn newest(&self) -> &AckedPacket {
        let newest = self.packets.iter().max_by_key(|packet| packet.number);
        newest.expect("an ack covers at least one packet")
    }

    /// How many of its packets arrived with a mark of congestion.
    pub fn marked(&self) -> u64 {
        self.packets.iter().filter(|packet| packet.ecn.is_marked()).count() as u64
    }

    /// Bytes of those packets.
    pub fn marked_bytes(&self) -> u64 {
        let marked = self.packets.iter().filter(|packet| packet.ecn.is_marked());
        marked.map(|packet| packet.bytes).sum()
    }

    /// The smallest RTT of the batch.
    pub fn min_rtt(&self) -> Span {
        self.packets.iter().map(|packet| packet.rtt).min().unwrap_or(Span::ZERO)
    }
}

/// One packet given up for lost.
#[derive(Debug, Clone, Copy)]
pub struct LostPacket {
    /// Packet number.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// When it left.
    pub sent_at: Time,
    /// What the controller left on it.
    pub stamp: Stamp,
}

/// Packets that the datapath declares lost (RFC 9002 section 6.1: packet or time threshold).
/// Where an ack both acks and reveals losses, [`Controller::on_ack`] comes first.
#[derive(Debug, Clone, Copy)]
pub struct Loss<'a> {
    /// Now.
    pub now: Time,
    /// The packets, oldest first; never empty.
    pub packets: &'a [LostPacket],
    /// Bytes in flight before the loss was declared.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// The number that the next packet will get.
    pub next_number: u64,
    /// Smoothed RTT and friends.
    pub rtt: &'a RttEstimator,
}

impl Loss<'_> {
    /// Bytes lost.
    pub fn bytes(&self) -> u64 {
        self.packets.iter().map(|packet| packet.bytes).sum()
    }
}

/// Packets that arrived with a mark of congestion (ECN, RFC 3168) in place of being dropped.
/// [`Controller::on_ack`] of the same packets comes first, and names each of them
/// ([`AckedPacket::ecn`]) where the datapath knows. Some only know that there was a mark: QUIC
/// libraries report one for any number.
#[derive(Debug, Clone, Copy)]
pub struct Mark<'a> {
    /// Now.
    pub now: Time,
    /// How many packets of the ack are marked; at least one.
    pub packets: u64,
    /// The highest packet number among them.
    pub newest: u64,
    /// Bytes in flight before the ack.
    pub prior_in_flight: u64,
    /// Bytes in flight after it.
    pub in_flight: u64,
    /// The number that the next packet will get.
    pub next_number: u64,
    /// Smoothed RTT and friends.
    pub rtt: &'a RttEstimator,
}

/// The retransmission timer fired: everything in flight counts as lost (RFC 6298 section 5.4 ff.).
/// No [`Loss`] is passed for those packets.
#[derive(Debug, Clone, Copy)]
pub struct Timeout {
    /// Now.
    pub now: Time,
    /// Bytes that were in flight.
    pub prior_in_flight: u64,
    /// How many timeouts came in a row, this one included.
    pub in_a_row: u32,
    /// The number that the next packet will get.
    pub next_number: u64,
}

/// A loss or timeout that turned out to be none.
#[derive(Debug, Clone, Copy)]
pub enum Spurious<'a> {
    /// The first ack after a timeout was for a packet sent before it (RFC 4015, RFC 5682):
    /// the packets were only late. They are in flight again.
    Timeout {
        /// Now.
        now: Time,
    },
    /// A packet declared lost was acked after all. It is not part of any [`Ack`] and is no
    /// longer in flight.
    Loss {
        /// Now.
        now: Time,
        /// The late packet.
        packet: &'a AckedPacket,
    },
}

/// The layer below refused more data (a full kernel buffer).
#[derive(Debug, Clone, Copy)]
pub struct Block {
    /// Now.
    pub now: Time,
    /// What the controller left on the packet that was refused, or on the one before it if it
    /// was not stamped yet.
    pub stamp: Stamp,
    /// Whether the refused data waits and leaves later (above TCP) rather than being dropped.
    pub waits: bool,
}

/// A frame of a media source whose rate follows [`Controller::target_rate`].
#[derive(Debug, Clone, Copy)]
pub struct Frame {
    /// Now, when it was captured.
    pub now: Time,
    /// Its size without headers.
    pub bytes: u64,
    /// How long the oldest data that has not been sent has waited at the sender.
    pub waiting: Span,
    /// From one frame to the next.
    pub interval: Span,
}

/// How fast, and in what bursts, packets may leave.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pacing {
    /// The rate. Zero stops the flow.
    pub rate: Rate,
    /// Bytes that may leave back to back.
    pub burst: u64,
}

/// What a controller has learnt about delay as a function of its window, for plots.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Profile {
    /// Measured points: window in packets, delay in ms.
    pub points: Vec<(f64, f64)>,
    /// The curve fitted to them, in the same units.
    pub curve: Vec<(f64, f64)>,
}

/// A congestion controller.
///
/// The datapath calls the `on_…` methods as things happen, in the order of time, and obeys the
/// answers of the others. A minimal controller implements [`permit`](Self::permit) alone.
/// Controllers that own a deadline (epochs, ticks) return it from
/// [`next_deadline`](Self::next_deadline) and do the work in [`on_deadline`](Self::on_deadline).
pub trait Controller: Send {
    /// A packet leaves. What is returned comes back with its ack or loss.
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let _ = packet;
        Stamp::default()
    }

    /// Packets arrived.
    fn on_ack(&mut self, ack: &Ack<'_>) {
        let _ = ack;
    }

    /// Packets are lost.
    fn on_loss(&mut self, loss: &Loss<'_>) {
        let _ = loss;
    }

    /// The retransmission timer fired.
    fn on_timeout(&mut self, timeout: &Timeout) {
        let _ = timeout;
    }

    /// A loss or timeout turned out to be none.
    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        let _ = spurious;
    }

    /// The layer below refused more data.
    fn on_block(&mut self, block: &Block) {
        let _ = block;
    }

    /// The [`Receiver`] half reported. The bytes come from the network: anything may be in them.
    fn on_report(&mut self, now: Time, report: &[u8]) {
        let _ = (now, report);
    }

    /// The codepoint that the next packet should leave with: [`Ecn::Ect0`] for controllers that
    /// take a mark for a loss (RFC 3168), [`Ecn::Ect1`] for those that react to each mark in
    /// proportion (L4S, RFC 9331 section 4), never [`Ecn::Ce`]. It does not change in the life of a controller. A
    /// datapath sends [`Ecn::NotEct`] in its place where marks do not come back, or where the
    /// packets are not its own.
    fn ecn(&self) -> Ecn {
        Ecn::NotEct
    }

    /// Packets arrived with a mark of congestion. A controller that reacts reduces at most once per
    /// round trip (RFC 3168 section 6.1.2), as after a loss but with nothing to send again.
    fn on_mark(&mut self, mark: &Mark<'_>) {
        let _ = mark;
    }

    /// The path turned out not to carry ECN: packets leave without the codepoint of
    /// [`ecn`](Self::ecn), and no marks come back, until the path changes.
    fn on_ecn_failed(&mut self, now: Time) {
        let _ = now;
    }

    /// The path is another one from now on (handover): what was learnt about the old one no longer
    /// holds. Called once the new path carries packets, so after an interruption, not before it.
    /// Packets sent on the old path are not reported any more: they do not measure the new one
    /// (RFC 9000 section 9.4), and no longer count as in flight.
    fn on_path_change(&mut self, now: Time) {
        let _ = now;
    }

    /// A media source has a new frame to send. Sources without frames never call it.
    fn on_frame(&mut self, frame: &Frame) {
        let _ = frame;
    }

    /// The rate that a media source should have, without headers, for algorithms that compute one.
    /// Sources above other algorithms go by what they may send.
    fn target_rate(&self) -> Option<Rate> {
        None
    }

    /// What may leave now.
    fn permit(&self) -> Permit;

    /// The window in bytes that the algorithm aims at, for logs and plots, for the size of buffers
    /// and for shares of a common window; [`permit`](Self::permit) decides what may be sent.
    /// Controllers that grant budgets return the window their budgets are shares of. `u64::MAX` where
    /// the algorithm has none.
    fn cwnd(&self) -> u64 {
        match self.permit() {
            Permit::Window(bytes) | Permit::Budget(bytes) => bytes,
        }
    }

    /// Rate and burst, if the algorithm paces.
    fn pacing(&self) -> Option<Pacing> {
        None
    }

    /// The retransmission timeout to use in place of RFC 6298's, never backed off, for algorithms
    /// that define their own. `None` until they have an opinion.
    fn rto(&self) -> Option<Span> {
        None
    }

    /// When [`on_deadline`](Self::on_deadline) wants to be called, if ever. A deadline in the
    /// past means at once.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The deadline passed. A late call does the work of one deadline, not of all missed ones;
    /// afterwards the next deadline lies after `now`.
    fn on_deadline(&mut self, now: Time) {
        let _ = now;
    }

    /// Why it cannot go on, for controllers that are code from outside. From then on it lets nothing leave and has no
    /// deadline: a datapath ends the flow with this error, or goes on without a controller where something else bounds
    /// what is in flight.
    fn failure(&self) -> Option<String> {
        None
    }

    /// The oldest event not yet taken. Events that nobody takes are dropped, oldest first.
    fn poll_event(&mut self) -> Option<(Time, Event)> {
        None
    }

    /// Shows the internal values of now, for logs and plots: always the same names in the same
    /// order, each one of [`INSPECTED_VALUES`](crate::INSPECTED_VALUES). It changes nothing and
    /// costs time, so it is called at intervals and only while somebody looks.
    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let _ = show;
    }

    /// The learnt delay profile, if the algorithm has one.
    fn profile(&self) -> Option<Profile> {
        None
    }
}

/// A packet at the receiver.
#[derive(Debug, Clone, Copy)]
pub struct Arrival {
    /// Now, on the receiver's clock.
    pub now: Time,
    /// Packet number.
    pub number: u64,
    /// Its size.
    pub bytes: u64,
    /// [`Stamp::wire`] of the sender.
    pub wire: u64,
    /// Its codepoint; [`Ecn::NotEct`] where the datapath does not know.
    pub ecn: Ecn,
}

/// The half of an algorithm that runs at the receiver. Most algorithms need only the ack.
pub trait Receiver: Send {
    /// A packet arrived.
    fn on_arrival(&mut self, arrival: &Arrival);

    /// When [`on_deadline`](Self::on_deadline) wants to be called.
    fn next_deadline(&self) -> Option<Time> {
        None
    }

    /// The deadline passed.
    fn on_deadline(&mut self, now: Time) {
        let _ = now;
    }

    /// Writes the report that is due into `report` (cleared by the caller) and returns whether
    /// there is one. At most 1200 bytes.
    fn poll_report(&mut self, now: Time, report: &mut Vec<u8>) -> bool;
}
