//! What was measured.

use cellpace_base::{Span, Time};
use cellpace_udp::wire::EcnCounts;

use crate::plan::Plan;
use crate::wire::STREAMS;

/// One probe that arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProbeArrival {
    /// 0: the probes, 1: the second stream.
    pub stream: u8,
    /// Counts up by one within its stream.
    pub number: u64,
    /// When it was sent, on the sender's clock.
    pub sent_at: Time,
    /// When it arrived, on the receiver's clock.
    pub received_at: Time,
}

impl ProbeArrival {
    /// Receiver's clock minus sender's clock, in nanoseconds: the delay plus the clocks' offset.
    pub fn raw_delay(&self) -> i64 {
        raw_delay(self.sent_at, self.received_at)
    }
}

/// The difference of two clocks' times, in nanoseconds.
pub(crate) fn raw_delay(sent_at: Time, received_at: Time) -> i64 {
    // Times are below 2^62, so the difference fits.
    received_at.as_nanos() as i64 - sent_at.as_nanos() as i64
}

/// One direction of a session.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct DirectionRecording {
    /// Arrivals in their order.
    pub arrivals: Vec<ProbeArrival>,
    /// When the sender began, on its clock.
    pub began: Time,
    /// Probes sent of each stream.
    pub sent: [u64; STREAMS],
    /// Probes that were left out because the sender was late.
    pub skipped: u64,
    /// Probes of the first stream that the receiver counted, copies too.
    pub counted: u64,
    /// With which codepoints these came; the others had none.
    pub ecn: EcnCounts,
    /// Arrivals that were not recorded, because there were too many.
    pub unrecorded: u64,
    /// Reports that arrived, when saturating: when, on the receiver's clock, and the bytes of the
    /// IP packet. The link delivered them, too.
    pub reports: Vec<(Time, u32)>,
    /// Samples of the clocks from the other packets: the time of arrival on the prober's clock and
    /// the raw delay in nanoseconds.
    pub clock: Vec<(Time, i64)>,
}

/// A session as the prober saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recording {
    /// What was asked for.
    pub plan: Plan,
    /// From the prober to the responder.
    pub up: DirectionRecording,
    /// From the responder to the prober.
    pub down: DirectionRecording,
    /// The shortest round trip.
    pub least_rtt: Option<Span>,
    /// Whether the session ended as it should, or was cut.
    pub complete: bool,
}
