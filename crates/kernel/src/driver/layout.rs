//! What the program and user space share: `bpf/layout.h` in Rust.

/// The congestion control's name, and that of the folder with its pins, by default.
pub const NAME: &str = "cellpace";
/// Grows with every change that an older client would misread.
pub const LAYOUT: u32 = 3;
/// Processes that can control sockets at a time.
pub const SLOTS: usize = 16;
/// Bytes of a record as the program writes it.
pub const RECORD_BYTES: usize = 72;

pub(crate) const MAGIC: u32 = 0x6563_6170;
pub(crate) const CONTROL_BYTES: usize = 40;

/// Where things stand in the shared page.
pub(crate) mod at {
    pub(crate) const MAGIC: usize = 0;
    pub(crate) const LAYOUT: usize = 4;
    pub(crate) const NAME: usize = 8;
    pub(crate) const VERSION: usize = 24;
    #[cfg(feature = "install")]
    pub(crate) const SLOTS: usize = 56;
    pub(crate) const RING_BYTES: usize = 60;
    pub(crate) const REMOVED: usize = 64;
    #[cfg(feature = "install")]
    pub(crate) const MAX_CONTROLS: usize = 68;
    pub(crate) const SOCKETS: usize = 72;
    pub(crate) const FALLBACKS: usize = 80;
    pub(crate) const FIRST_SLOT: usize = 112;
    pub(crate) const END: usize = FIRST_SLOT + super::SLOTS * SLOT_BYTES;

    const SLOT_BYTES: usize = 64;

    pub(crate) const fn owner(slot: usize) -> usize {
        FIRST_SLOT + slot * SLOT_BYTES
    }

    pub(crate) const fn beat(slot: usize) -> usize {
        owner(slot) + 8
    }

    pub(crate) const fn dropped(slot: usize) -> usize {
        owner(slot) + 16
    }

    pub(crate) const fn resting_until(slot: usize) -> usize {
        owner(slot) + 32
    }

    pub(crate) const fn pid(slot: usize) -> usize {
        owner(slot) + 24
    }
}

pub(crate) const NAME_BYTES: usize = 16;
pub(crate) const VERSION_BYTES: usize = 32;

/// Who decides about a socket's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Policy {
    /// User space alone, whatever gets lost.
    Hold,
    /// TCP as in RFC 5681, with the window as an upper bound.
    Follow,
}

/// What a socket shall do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketControl {
    /// Payload in flight, in bytes. In effect are the whole packets of it, at least two, and below
    /// eight an even number unless receivers are asked for prompt acknowledgments.
    pub window: u64,
    /// Instead of a window: so many bytes of payload may have been sent since the connection began,
    /// as [`KernelRecord::bytes_acked`] and [`KernelRecord::outstanding`] count them together. Acknowledgments
    /// make no room then. In effect with the next one, or with [`kick`](crate::kick).
    pub limit: Option<u64>,
    /// Pacing rate in bytes per second; `None`: unpaced.
    pub pacing: Option<u64>,
    /// Who decides.
    pub policy: Policy,
}

impl SocketControl {
    pub(crate) fn encode(&self, slot: u32, owner: u64) -> [u8; CONTROL_BYTES] {
        let policy: u32 = match self.policy {
            Policy::Hold => 0,
            Policy::Follow => 1,
        };
        // A pacing rate of nothing would stop the socket for ever.
        let pacing = self.pacing.map_or(0, |rate| rate.max(1));
        let mut bytes = [0; CONTROL_BYTES];
        bytes[0..8].copy_from_slice(&self.window.to_ne_bytes());
        // Nothing sent yet and nothing allowed is a limit, too.
        let limit = self.limit.map_or(0, |limit| limit.max(1));
        bytes[8..16].copy_from_slice(&limit.to_ne_bytes());
        bytes[16..24].copy_from_slice(&pacing.to_ne_bytes());
        bytes[24..32].copy_from_slice(&owner.to_ne_bytes());
        bytes[32..36].copy_from_slice(&policy.to_ne_bytes());
        bytes[36..40].copy_from_slice(&slot.to_ne_bytes());
        bytes
    }
}

/// The slot and the owner in an encoded control.
pub(crate) fn owner_of(control: &[u8; CONTROL_BYTES]) -> (u32, u64) {
    (u32_at(control, 36), u64_at(control, 24))
}

/// Why there is a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordKind {
    /// TCP worked in an acknowledgment.
    Ack,
    /// Loss recovery began or ended: see [`KernelRecord::recovery`].
    State,
    /// The socket closed, or selected another congestion control. Its control is gone.
    Release,
}

/// TCP's state of loss recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoveryState {
    /// Nothing is wrong.
    Open,
    /// Duplicate or selective acknowledgments: reordering or loss.
    Disorder,
    /// A congestion signal without loss (ECN, a full local queue).
    Reduced,
    /// Lost packets are retransmitted.
    Recovery,
    /// After a retransmission timeout.
    Timeout,
}

/// What the kernel saw of a socket at one moment. Totals are since the connection began and wrap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelRecord {
    /// The socket.
    pub cookie: u64,
    /// When, by CLOCK_MONOTONIC in nanoseconds.
    pub time_ns: u64,
    /// Cumulatively acknowledged payload in bytes, total.
    pub bytes_acked: u64,
    /// Why there is a record.
    pub kind: RecordKind,
    /// TCP's state of loss recovery.
    pub recovery: RecoveryState,
    /// TCP goes by RFC 5681 at present: no heartbeat in time, or [`Policy::Follow`].
    pub fallback: bool,
    /// The receiver is asked to acknowledge each packet as soon as it is read.
    pub prompt: bool,
    /// Packets that this acknowledgment acknowledged, selectively or cumulatively.
    pub acked: u32,
    /// Packets delivered, total.
    pub delivered: u32,
    /// Packets retransmitted, total.
    pub retransmitted: u32,
    /// The RTT sample in microseconds; 0: none.
    pub rtt_us: u32,
    /// Payload of a full packet in bytes.
    pub mss: u32,
    /// TCP's window in packets.
    pub cwnd: u32,
    /// Bytes that wait in the socket and have not been sent.
    pub unsent: u32,
    /// Bytes sent and not cumulatively acknowledged.
    pub outstanding: u32,
    /// Packets of those that were selectively acknowledged.
    pub sacked: u32,
    /// Bytes from the first that is not cumulatively acknowledged to the end of the last that is
    /// selectively acknowledged; 0: none is.
    pub highest_sacked: u32,
}

impl KernelRecord {
    /// `None` for what no program of this layout writes.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        if bytes.len() < RECORD_BYTES {
            return None;
        }
        let kind = match bytes[24] {
            1 => RecordKind::Ack,
            2 => RecordKind::State,
            3 => RecordKind::Release,
            _ => return None,
        };
        let recovery = match bytes[25] {
            0 => RecoveryState::Open,
            1 => RecoveryState::Disorder,
            2 => RecoveryState::Reduced,
            3 => RecoveryState::Recovery,
            _ => RecoveryState::Timeout,
        };
        let word = |number: usize| u32_at(bytes, 28 + 4 * number);
        Some(Self {
            cookie: u64_at(bytes, 0),
            time_ns: u64_at(bytes, 8),
            bytes_acked: u64_at(bytes, 16),
            kind,
            recovery,
            fallback: bytes[26] & 1 != 0,
            prompt: bytes[26] & 2 != 0,
            acked: word(0),
            delivered: word(1),
            retransmitted: word(2),
            rtt_us: word(3),
            mss: word(4),
            cwnd: word(5),
            unsent: word(6),
            outstanding: word(7),
            sacked: word(8),
            highest_sacked: word(9),
        })
    }
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_control_is_written_as_the_program_reads_it() {
        let control = SocketControl {
            window: 0x0102,
            limit: Some(0),
            pacing: Some(0),
            policy: Policy::Follow,
        };
        let bytes = control.encode(7, 0x0304);
        assert_eq!(u64_at(&bytes, 0), 0x0102);
        assert_eq!(u64_at(&bytes, 8), 1, "0 would mean: no limit");
        assert_eq!(u64_at(&bytes, 16), 1, "0 would mean: not paced");
        assert_eq!(u32_at(&bytes, 32), 1);
        assert_eq!(owner_of(&bytes), (7, 0x0304));
    }

    #[test]
    fn records_that_are_short_or_of_no_kind_are_none() {
        let mut bytes = [0u8; RECORD_BYTES];
        assert_eq!(KernelRecord::decode(&bytes), None);
        bytes[24] = 1;
        bytes[26] = 2;
        bytes[28 + 4 * 9] = 9;
        let record = KernelRecord::decode(&bytes).unwrap();
        assert!(!record.fallback && record.prompt);
        assert_eq!(record.highest_sacked, 9);
        assert_eq!(KernelRecord::decode(&bytes[1..]), None);
    }
}
