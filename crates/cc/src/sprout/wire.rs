//! What goes over the network: a word on each packet, and the receiver's reports.

use super::belief::Forecast;
use super::model::HORIZON;

const SEQUENCE_BITS: u32 = 36;
const THROWAWAY_BITS: u32 = 20;

/// The word that travels with each packet ([`Stamp::wire`](crate::Stamp)): from the low end, 36
/// bits of the sequence number, 20 bits of the throwaway distance, 8 bits of time to next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Word {
    /// Bytes sent before this packet, modulo 2^36.
    pub(super) sequence: u64,
    /// Packets this many bytes before this one, or more, have arrived or never will.
    pub(super) throwaway: u64,
    /// When the next packet follows.
    pub(super) next: Next,
}

/// When the sender will send again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Next {
    /// Within this many milliseconds, up to 254; 0: at once.
    Within(u8),
    /// Not known: there is nothing more to send.
    Unknown,
}

impl Word {
    /// The largest throwaway distance.
    pub(super) const FARTHEST: u64 = (1 << THROWAWAY_BITS) - 1;

    pub(super) fn encode(self) -> u64 {
        let next = match self.next {
            Next::Within(ms) => ms.min(254),
            Next::Unknown => 255,
        };
        self.sequence & SEQUENCE_MASK
            | self.throwaway.min(Self::FARTHEST) << SEQUENCE_BITS
            | u64::from(next) << (SEQUENCE_BITS + THROWAWAY_BITS)
    }

    /// Any word is one.
    pub(super) fn decode(word: u64) -> Self {
        let next = (word >> (SEQUENCE_BITS + THROWAWAY_BITS)) as u8;
        Self {
            sequence: word & SEQUENCE_MASK,
            throwaway: word >> SEQUENCE_BITS & Self::FARTHEST,
            next: if next == 255 { Next::Unknown } else { Next::Within(next) },
        }
    }

    /// The whole sequence number: the one that is nearest to `near`.
    pub(super) fn unwrapped(&self, near: u64) -> u64 {
        const HALF: u64 = 1 << (SEQUENCE_BITS - 1);
        let ahead = self.sequence.wrapping_sub(near) & SEQUENCE_MASK;
        if ahead < HALF {
            return near.saturating_add(ahead);
        }
        // Nothing is before the first byte.
        near.checked_sub(SEQUENCE_MASK + 1 - ahead).unwrap_or(near.saturating_add(ahead))
    }
}

const SEQUENCE_MASK: u64 = (1 << SEQUENCE_BITS) - 1;

/// What the receiver reports to the sender each tick. On the wire, big-endian: version (1 byte), tick
/// (4), bytes received or lost (8), the forecast (2 each).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SproutReport {
    /// Number of the tick, from the receiver's first, modulo 2^32.
    pub(super) tick: u32,
    /// Bytes that are no longer in flight.
    pub(super) received_or_lost: u64,
    /// Never decreasing.
    pub(super) forecast: Forecast,
}

impl SproutReport {
    const VERSION: u8 = 1;
    /// Bytes of a report.
    pub(super) const BYTES: usize = 1 + 4 + 8 + 2 * HORIZON;

    pub(super) fn encode(&self, into: &mut Vec<u8>) {
        into.push(Self::VERSION);
        into.extend(self.tick.to_be_bytes());
        into.extend(self.received_or_lost.to_be_bytes());
        for count in self.forecast {
            into.extend(count.to_be_bytes());
        }
    }

    /// `None` if it is none.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; Self::BYTES] = bytes.try_into().ok()?;
        let (version, rest) = bytes.split_first()?;
        let (tick, rest) = rest.split_first_chunk()?;
        let (received_or_lost, counts) = rest.split_first_chunk()?;
        let mut forecast = [0; HORIZON];
        for (count, bytes) in forecast.iter_mut().zip(counts.as_chunks().0) {
            *count = u16::from_be_bytes(*bytes);
        }
        let report = Self {
            tick: u32::from_be_bytes(*tick),
            received_or_lost: u64::from_be_bytes(*received_or_lost),
            forecast,
        };
        (*version == Self::VERSION && forecast.is_sorted()).then_some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_come_back_and_too_much_is_capped() {
        let word = Word { sequence: 0x9_8765_4321, throwaway: 1500, next: Next::Within(50) };
        assert_eq!(Word::decode(word.encode()), word);
        let word = Word { sequence: 0, throwaway: 0, next: Next::Unknown };
        assert_eq!(Word::decode(word.encode()), word);
        let far = Word { sequence: u64::MAX, throwaway: u64::MAX, next: Next::Within(255) };
        let capped =
            Word { sequence: SEQUENCE_MASK, throwaway: Word::FARTHEST, next: Next::Within(254) };
        assert_eq!(Word::decode(far.encode()), capped);
    }

    #[test]
    fn sequence_numbers_continue_past_36_bits() {
        let word = |sequence: u64| {
            Word::decode(Word { sequence, throwaway: 0, next: Next::Unknown }.encode())
        };
        let wrap = 1 << SEQUENCE_BITS;
        for (sequence, near) in [(wrap + 5, wrap - 1500), (wrap - 1500, wrap + 5), (7, 0), (0, 7)] {
            assert_eq!(word(sequence).unwrapped(near), sequence, "{sequence} near {near}");
        }
        // Far behind zero is far ahead.
        assert_eq!(word(wrap - 1).unwrapped(0), wrap - 1);
        assert_eq!(word(3).unwrapped(u64::MAX), u64::MAX);
    }

    #[test]
    fn reports_come_back_and_anything_else_is_none() {
        let report = SproutReport {
            tick: 0xdead_beef,
            received_or_lost: 1 << 40,
            forecast: [5, 12, 20, 27, 35, 43, 51, 59],
        };
        let mut bytes = Vec::new();
        report.encode(&mut bytes);
        assert_eq!(bytes.len(), SproutReport::BYTES);
        assert_eq!(SproutReport::decode(&bytes), Some(report));
        for length in 0..bytes.len() {
            assert_eq!(SproutReport::decode(&bytes[..length]), None, "cut to {length}");
        }
        let with = |index: usize, value: u8| {
            let mut bytes = bytes.clone();
            bytes[index] = value;
            SproutReport::decode(&bytes)
        };
        assert_eq!(with(0, 2), None, "another version");
        assert_eq!(with(13, 1), None, "a forecast that decreases");
        bytes.push(0);
        assert_eq!(SproutReport::decode(&bytes), None, "something behind");
    }
}
