//! Which packet of a group each of a member's packets is.

use std::collections::VecDeque;

/// Packets of a member that are remembered after they were declared lost, for the case that they
/// arrive all the same.
const MAX_LOST: usize = 4096;

/// Packets of a member that are remembered at most, whatever its window: two megabytes.
const MAX_PACKETS: usize = 1 << 17;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PacketFate {
    InFlight,
    Lost,
    Acked,
}

/// The numbers that one member's packets have in their group, by the member's own numbers, which
/// count up one by one.
#[derive(Debug, Default)]
pub(super) struct PacketNumbers {
    /// The member's number of the oldest packet in `packets`.
    first: u64,
    packets: VecDeque<(u64, PacketFate)>,
}

impl PacketNumbers {
    /// The member's packet `number` leaves as the group's packet `in_group`.
    pub(super) fn push(&mut self, number: u64, in_group: u64) {
        if number != self.first + self.packets.len() as u64 {
            // A datapath that left numbers out: acks of what it sent before are not understood.
            self.packets.clear();
            self.first = number;
        }
        self.packets.push_back((in_group, PacketFate::InFlight));
        self.forget();
    }

    /// The member's packet `number` arrived. Returns its number in the group, unless it was
    /// forgotten.
    pub(super) fn on_acked(&mut self, number: u64) -> Option<u64> {
        let in_group = self.settle(number, PacketFate::Acked);
        self.forget();
        in_group
    }

    /// The same for a packet that is declared lost.
    pub(super) fn on_lost(&mut self, number: u64) -> Option<u64> {
        self.settle(number, PacketFate::Lost)
    }

    /// All packets in flight are given up; they may arrive all the same.
    pub(super) fn give_up(&mut self) {
        let in_flight = |fate: &&mut (u64, PacketFate)| fate.1 == PacketFate::InFlight;
        self.packets.iter_mut().filter(in_flight).for_each(|packet| packet.1 = PacketFate::Lost);
    }

    fn settle(&mut self, number: u64, fate: PacketFate) -> Option<u64> {
        let index = usize::try_from(number.checked_sub(self.first)?).ok()?;
        let packet = self.packets.get_mut(index)?;
        packet.1 = fate;
        Some(packet.0)
    }

    fn forget(&mut self) {
        while let Some((_, fate)) = self.packets.front() {
            let length = self.packets.len();
            let is_needed = match fate {
                PacketFate::InFlight => length <= MAX_PACKETS,
                PacketFate::Lost => length <= MAX_LOST,
                PacketFate::Acked => false,
            };
            if is_needed {
                return;
            }
            self.packets.pop_front();
            self.first += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_is_found_until_it_has_arrived() {
        let mut numbers = PacketNumbers::default();
        for (number, in_group) in [(0, 0), (1, 4), (2, 5), (3, 9)] {
            numbers.push(number, in_group);
        }
        assert_eq!(numbers.on_acked(1), Some(4));
        assert_eq!(numbers.on_lost(0), Some(0));
        assert_eq!(numbers.on_acked(7), None, "never sent");
        assert_eq!(numbers.on_acked(0), Some(0), "late");
        assert_eq!((numbers.packets.len(), numbers.on_acked(0)), (2, None));
        numbers.give_up();
        assert_eq!([2, 3].map(|number| numbers.on_acked(number)), [Some(5), Some(9)]);
        assert_eq!(numbers.packets.len(), 0);
    }

    #[test]
    fn memory_is_bounded_whatever_becomes_of_packets() {
        let mut numbers = PacketNumbers::default();
        for number in 0..300_000 {
            numbers.push(number, 3 * number);
            assert!(numbers.packets.len() <= MAX_PACKETS);
        }
        assert_eq!(numbers.on_acked(299_999), Some(899_997));
        numbers.give_up();
        for number in 300_000..301_000 {
            numbers.push(number, 3 * number);
            numbers.on_acked(number);
        }
        assert!(numbers.packets.len() <= MAX_LOST, "{}", numbers.packets.len());
    }

    #[test]
    fn numbers_that_are_left_out_begin_anew() {
        let mut numbers = PacketNumbers::default();
        numbers.push(0, 0);
        numbers.push(5, 1);
        assert_eq!((numbers.on_acked(0), numbers.on_acked(5)), (None, Some(1)));
    }
}
