//! The interface between cellpace and a module: version 1.
//!
//! `include/cellpace_plugin.h` is the same in C, and says what a module exports. All values are words of 64 bits, little-endian, in the
//! module's memory. Times and spans are in ns, sizes in bytes, and doubles are their bits.

/// The version that a module names.
pub const VERSION: u32 = 1;

/// In place of a time or a size that is not there or not bounded.
pub const NONE: u64 = u64::MAX;

/// Declares a record of words.
macro_rules! record {
    ($(#[$meta:meta])* $name:ident { $($(#[$field_meta:meta])* $field:ident: $type:ty,)+ }) => {
        $(#[$meta])*
        #[repr(C)]
        #[derive(Debug, Clone, Copy, PartialEq)]
        pub struct $name {
            $($(#[$field_meta])* pub $field: $type,)+
        }

        impl $name {
            /// Its size in words.
            pub const WORDS: usize = [$(stringify!($field)),+].len();

            /// Returns its fields in their order.
            #[inline]
            pub fn words(&self) -> [u64; Self::WORDS] {
                [$(Word::to_word(self.$field)),+]
            }

            /// The record of these fields.
            #[inline]
            pub fn from_words(words: [u64; Self::WORDS]) -> Self {
                let [$($field),+] = words;
                Self { $($field: Word::from_word($field)),+ }
            }
        }
    };
}

/// What fills one word.
trait Word {
    fn to_word(self) -> u64;
    fn from_word(word: u64) -> Self;
}

impl Word for u64 {
    fn to_word(self) -> u64 {
        self
    }

    fn from_word(word: u64) -> Self {
        word
    }
}

impl Word for f64 {
    fn to_word(self) -> u64 {
        self.to_bits()
    }

    fn from_word(word: u64) -> Self {
        Self::from_bits(word)
    }
}

record! {
    /// What `cellpace_start` gets. Behind it are the values of the parameters, doubles in the order of their
    /// declaration: ns, bytes, bytes per second, or a plain number; NaN where an optional one is not given.
    Setup {
        /// Bytes of a full packet.
        mss: u64,
        /// When the flow starts.
        start: u64,
        /// Of the flow's random numbers.
        seed: u64,
        /// Parameters behind this record.
        params: u64,
    }
}

record! {
    /// The flow as the datapath sees it.
    Flow {
        /// Now.
        now: u64,
        /// Bytes in flight before what is reported.
        prior_in_flight: u64,
        /// Bytes in flight after it.
        in_flight: u64,
        /// The number that the next packet will get.
        next_number: u64,
        /// Smoothed RTT; [`NONE`] before the first sample.
        srtt: u64,
        /// Its mean deviation.
        rtt_variation: u64,
        /// The newest sample.
        rtt_latest: u64,
        /// The smallest sample.
        rtt_minimum: u64,
        /// No retransmission timeout is shorter.
        rto_floor: u64,
        /// How the timeout follows: 0 as RFC 6298 has it, 1 as Linux.
        rto_rule: u64,
        /// Packets behind this record; of a mark: how many are marked.
        count: u64,
        /// Their bytes; of a mark: the highest packet number among the marked.
        extent: u64,
    }
}

record! {
    /// A packet that was acked or lost; of a lost one only number, bytes, time and stamp are known.
    Packet {
        /// Packet number.
        number: u64,
        /// Its size.
        bytes: u64,
        /// When it left.
        sent_at: u64,
        /// From leaving to the ack.
        rtt: u64,
        /// When it arrived, on the receiver's clock; [`NONE`] where unknown.
        received_at: u64,
        /// Bit 0: the sender had run out of data. Bits 8 and 9: its codepoint of ECN on arrival.
        flags: u64,
        /// What `cellpace_on_sent` left on it.
        stamp0: u64,
        /// The second word of it.
        stamp1: u64,
        /// The third.
        stamp2: u64,
        /// The fourth.
        stamp3: u64,
    }
}

record! {
    /// A packet that leaves.
    Sent {
        /// Now.
        now: u64,
        /// Packet number.
        number: u64,
        /// Its size.
        bytes: u64,
        /// Bytes in flight, with it.
        in_flight: u64,
        /// Bit 0: the sender has nothing more to send. Bit 1: it carries data that was sent before.
        flags: u64,
    }
}

record! {
    /// The retransmission timer fired.
    Timeout {
        /// Now.
        now: u64,
        /// Bytes that were in flight.
        prior_in_flight: u64,
        /// Timeouts in a row.
        in_a_row: u64,
        /// The number that the next packet will get.
        next_number: u64,
    }
}

record! {
    /// A loss or timeout was none. Behind it is the late packet of a loss.
    Spurious {
        /// Now.
        now: u64,
        /// Packets behind this record: 0 after a timeout, 1 after a loss.
        count: u64,
    }
}

record! {
    /// A full buffer below refused data.
    Block {
        /// Now.
        now: u64,
        /// Whether the data waits and leaves later.
        waits: u64,
        /// The stamp of the packet, or of the one before it.
        stamp0: u64,
        /// The second word of it.
        stamp1: u64,
        /// The third.
        stamp2: u64,
        /// The fourth.
        stamp3: u64,
    }
}

record! {
    /// A media source has a frame.
    Frame {
        /// Now.
        now: u64,
        /// Its size without headers.
        bytes: u64,
        /// How long the oldest data has waited.
        waiting: u64,
        /// From one frame to the next.
        interval: u64,
    }
}

record! {
    /// What the module lets happen. It stays as it is until the module writes it again, and is read after each call.
    Answers {
        /// Bytes that may be in flight, or, of a budget, that may leave; [`NONE`]: no bound.
        permit: u64,
        /// Whether `permit` is a budget.
        is_budget: u64,
        /// The window to show; 0: the same as `permit`.
        cwnd: u64,
        /// Bytes per second; infinity: nothing is paced.
        pacing_rate: f64,
        /// Bytes that may leave back to back.
        pacing_burst: u64,
        /// The retransmission timeout; 0: the datapath's own.
        rto: u64,
        /// When `cellpace_on_deadline` is to be called; [`NONE`]: never.
        deadline: u64,
        /// Bytes per second for a media source; negative: none.
        target_rate: f64,
        /// The codepoint of ECN that packets leave with; read after `cellpace_start` alone.
        ecn: u64,
        /// What `cellpace_on_sent` leaves on the packet.
        stamp0: u64,
        /// The second word of it.
        stamp1: u64,
        /// The third.
        stamp2: u64,
        /// The fourth.
        stamp3: u64,
    }
}

impl Answers {
    /// Before the module has written anything nothing may leave.
    pub const UNWRITTEN: Self = Self {
        permit: 0,
        is_budget: 0,
        cwnd: 0,
        pacing_rate: f64::INFINITY,
        pacing_burst: 0,
        rto: 0,
        deadline: NONE,
        target_rate: -1.0,
        ecn: 0,
        stamp0: 0,
        stamp1: 0,
        stamp2: 0,
        stamp3: 0,
    };
}

record! {
    /// A parameter, as `cellpace_params` points to them; a record whose `key` is 0 ends the list. The low half of a word
    /// is first in memory.
    Param {
        /// Low half: address of the key; high half: of what it does. Both end with a zero byte.
        key_and_help: u64,
        /// Low half: one of the kinds; high half: address of the source, or 0.
        kind_and_source: u64,
        /// What it is if it is not given; NaN: not given.
        default: f64,
        /// The smallest value.
        low: f64,
        /// The largest value.
        high: f64,
    }
}

/// A plain number.
pub const KIND_NUMBER: u32 = 0;
/// A whole number.
pub const KIND_INTEGER: u32 = 1;
/// 0 or 1.
pub const KIND_BOOL: u32 = 2;
/// A span, in ns.
pub const KIND_SPAN: u32 = 3;
/// A size, in bytes.
pub const KIND_BYTES: u32 = 4;
/// A rate, in bytes per second.
pub const KIND_RATE: u32 = 5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_their_words() {
        assert_eq!(size_of::<Answers>(), 8 * Answers::WORDS);
        assert_eq!(size_of::<Packet>(), 80);
        assert_eq!(Answers::from_words(Answers::UNWRITTEN.words()), Answers::UNWRITTEN);
    }
}
