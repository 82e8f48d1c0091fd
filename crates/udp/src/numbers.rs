//! Packet numbers on the wire. The sender leaves some out, so that a receiver that acknowledges
//! what it has not received gives itself away (RFC 9000 section 21.4): it would have to know which.
//!
//! Loss detection and controllers number packets without gaps, so nothing is lost or late to them
//! where a number was left out. The receiver learns from the next packet that there is no gap.

use std::collections::VecDeque;

/// The bit of *matters* that marks that the number before this one was left out. *Matters* itself
/// never grows so large.
const SKIPPED: u32 = 1 << 31;

/// *Matters* as it is sent: how far back packets matter, and whether the number before was left out.
pub(crate) fn join_matters(matters: u64, skipped: bool) -> u32 {
    let matters = u32::try_from(matters).unwrap_or(u32::MAX).min(SKIPPED - 1);
    if skipped { matters | SKIPPED } else { matters }
}

/// The parts of [`join_matters`].
pub(crate) fn split_matters(matters: u32) -> (u32, bool) {
    (matters & !SKIPPED, matters & SKIPPED != 0)
}

/// The first number that is left out is one of this many, from the second on.
const FIRST_GAP: u64 = 64;

/// Distance between numbers that are left out: the first value plus a random number below the
/// second.
const GAPS: (u64, u64) = (128, 1024);

/// The numbers that packets have on the wire.
#[derive(Debug)]
pub(crate) struct Numbers {
    /// Key of the random draws, so that nobody can guess them.
    key: [u8; 32],
    drawn: u64,
    /// The packet in front of which a number is left out next.
    skip_at: u64,
    /// Left out, and it may still be acknowledged: the packet behind it, and the number.
    skipped: VecDeque<(u64, u64)>,
    /// How many numbers were left out before those.
    forgotten: u64,
}

/// What a number in an acknowledgment means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// This packet. It may be so old that nobody remembers it, and is then another one as old.
    Packet(u64),
    /// No packet ever had it.
    Skipped,
}

impl Numbers {
    /// Numbers whose gaps follow from `key`.
    pub(crate) fn new(key: [u8; 32]) -> Self {
        let mut numbers =
            Self { key, drawn: 0, skip_at: 0, skipped: VecDeque::new(), forgotten: 0 };
        numbers.skip_at = 1 + numbers.draw(FIRST_GAP);
        numbers
    }

    /// Draws one of `0..count`.
    fn draw(&mut self, count: u64) -> u64 {
        self.drawn += 1;
        let hash = blake3::keyed_hash(&self.key, &self.drawn.to_be_bytes());
        let mut word = [0; 8];
        word.copy_from_slice(&hash.as_bytes()[..8]);
        u64::from_be_bytes(word) % count
    }

    /// `packet` is sent. Returns its number and whether the one before it was left out.
    pub(crate) fn assign(&mut self, packet: u64) -> (u64, bool) {
        let skips = packet == self.skip_at;
        if skips {
            self.skipped.push_back((packet, self.number(packet)));
            self.skip_at = packet + GAPS.0 + self.draw(GAPS.1);
        }
        (self.number(packet), skips)
    }

    /// The number of a packet that is remembered, or of the next one if nothing is left out.
    pub(crate) fn number(&self, packet: u64) -> u64 {
        let before = self.skipped.partition_point(|(behind, _)| *behind <= packet);
        packet + self.forgotten + before as u64
    }

    pub(crate) fn meaning(&self, number: u64) -> Meaning {
        let before = self.skipped.partition_point(|(_, skipped)| *skipped < number);
        if self.skipped.get(before).is_some_and(|(_, skipped)| *skipped == number) {
            return Meaning::Skipped;
        }
        Meaning::Packet(number.saturating_sub(self.forgotten + before as u64))
    }

    /// The lowest number from `first` to `last` that was left out.
    pub(crate) fn skipped_in(&self, first: u64, last: u64) -> Option<u64> {
        let before = self.skipped.partition_point(|(_, skipped)| *skipped < first);
        self.skipped.get(before).map(|(_, skipped)| *skipped).filter(|skipped| *skipped <= last)
    }

    /// Acknowledgments of packets in front of `oldest` mean nothing any more.
    pub(crate) fn forget_before(&mut self, oldest: u64) {
        while self.skipped.front().is_some_and(|(behind, _)| *behind <= oldest) {
            self.skipped.pop_front();
            self.forgotten += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_are_left_out_early_and_then_rarely_and_no_two_flows_agree() {
        let skipped = |key: u8| {
            let mut numbers = Numbers::new([key; 32]);
            let (mut skipped, mut next) = (Vec::new(), 0);
            for packet in 0..100_000 {
                let (number, skips) = numbers.assign(packet);
                assert_eq!(number, next + u64::from(skips), "one by one, or two");
                if skips {
                    skipped.push(next);
                }
                next = number + 1;
            }
            skipped
        };
        let (one, two) = (skipped(1), skipped(2));
        assert!(one[0] > 0 && one[0] <= FIRST_GAP && (100..300).contains(&one.len()));
        assert_ne!(one, two);
        assert_eq!(one, skipped(1));
    }

    #[test]
    fn matters_carries_the_mark_and_is_never_mistaken_for_it() {
        for (matters, skipped) in [(0, true), (7, false), (u64::MAX, true), (u64::MAX, false)] {
            let (read, mark) = split_matters(join_matters(matters, skipped));
            assert_eq!((u64::from(read), mark), (matters.min(u64::from(SKIPPED) - 1), skipped));
        }
    }

    proptest! {
        /// Each number means the packet that was sent under it, for as long as that matters.
        #[test]
        fn numbers_mean_packets(packets in 1u64..5_000, oldest in 0u64..5_000, key in any::<[u8; 32]>()) {
            let mut numbers = Numbers::new(key);
            let sent: Vec<_> = (0..packets).map(|packet| numbers.assign(packet)).collect();
            numbers.forget_before(oldest.min(packets));
            for (packet, (number, skips)) in sent.iter().enumerate() {
                let packet = packet as u64;
                let meaning = numbers.meaning(*number);
                if packet < oldest {
                    prop_assert!(matches!(meaning, Meaning::Packet(old) if old < oldest));
                    continue;
                }
                prop_assert_eq!(meaning, Meaning::Packet(packet));
                prop_assert_eq!(numbers.number(packet), *number);
                if *skips && packet > oldest {
                    prop_assert_eq!(numbers.meaning(number - 1), Meaning::Skipped);
                    prop_assert_eq!(numbers.skipped_in(number - 1, *number), Some(number - 1));
                }
                prop_assert_eq!(numbers.skipped_in(*number, *number), None);
            }
        }
    }
}
