//! What is logged of a teacher.

use crate::WindowQ16;

/// One epoch of one flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// The largest RTT acked in the epoch, in microseconds; where nothing was acked, the time
    /// since the last ack if that is longer than the epoch before's value, else that value.
    pub delay_us: u32,
    /// The window after the epoch's decision, in 1/65536 packets, at least one packet.
    pub window: WindowQ16,
    /// Packets that left in the epoch.
    pub sent: u32,
}

/// Consecutive epochs of one flow. Transitions are counted within a chain and never across two.
pub type Chain = Vec<Sample>;
