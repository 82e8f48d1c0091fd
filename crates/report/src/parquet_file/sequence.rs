//! Takes the packets of flows from a log, for their time sequences.

use cellpace_base::Time;
use cellpace_path::{Fate, PacketRecord};

use crate::sequence::PacketSequence;

/// Packets of a page. Each takes about ten characters, and the page shall stay below 1.5 MB.
pub(crate) const MAX_POINTS: usize = 80_000;

/// Losses of a flow that are marked.
const MAX_LOSSES: usize = 5_000;

/// Takes the packets of some flows; of too many it keeps every second, fourth, ...
pub(crate) struct SequenceTaker {
    flows: Vec<TakenFlow>,
    every: u64,
    left: usize,
}

#[derive(Default)]
struct TakenFlow {
    packets: u64,
    arrived: u64,
    points: Vec<TakenPacket>,
    lost: Vec<Time>,
    losses: u64,
}

#[derive(Clone, Copy)]
struct TakenPacket {
    /// Which of the flow's packets that arrived.
    number: u64,
    sent: Time,
    left: Time,
    /// With it, since the flow began.
    bytes: u64,
}

impl SequenceTaker {
    /// Of `flows` flows, `points` packets at most.
    pub(crate) fn new(flows: usize, points: usize) -> Self {
        let flows = (0..flows).map(|_| TakenFlow::default()).collect();
        Self { flows, every: 1, left: points.max(2) }
    }

    /// What became of a packet of the flow at `place`; the records are in the order of their end.
    pub(crate) fn record(&mut self, record: &PacketRecord, place: usize) {
        let Some(flow) = self.flows.get_mut(place) else { return };
        let packet = &record.packet;
        match record.fate {
            Fate::Duplicate => return,
            Fate::Dropped(_) => {
                flow.losses += 1;
                if flow.lost.len() < MAX_LOSSES {
                    flow.lost.push(packet.sent_at);
                }
                return;
            }
            Fate::Delivered => {}
        }
        flow.arrived += u64::from(packet.size);
        let number = flow.packets;
        flow.packets += 1;
        if number.is_multiple_of(self.every) {
            let (sent, left) = (packet.sent_at, packet.departed_at);
            flow.points.push(TakenPacket { number, sent, left, bytes: flow.arrived });
            self.left -= 1;
        }
        if self.left == 0 {
            self.thin();
        }
    }

    fn thin(&mut self) {
        self.every *= 2;
        for flow in &mut self.flows {
            let before = flow.points.len();
            flow.points.retain(|point| point.number.is_multiple_of(self.every));
            self.left += before - flow.points.len();
        }
    }

    /// The sequences of the flows, by their names.
    pub(crate) fn finish(self, names: impl Iterator<Item = String>) -> Vec<PacketSequence> {
        let every = self.every;
        self.flows.into_iter().zip(names).map(|(flow, name)| flow.sequence(name, every)).collect()
    }
}

impl TakenFlow {
    fn sequence(mut self, name: String, every: u64) -> PacketSequence {
        let units = |at: Time| (at.as_nanos() / 10_000) as i64;
        self.lost.sort_unstable();
        let mut sequence =
            PacketSequence { name, every, losses: self.losses, ..PacketSequence::default() };
        let (mut sent, mut bytes) = (0, 0);
        for point in &self.points {
            sequence.sent.push(units(point.sent) - sent);
            sequence.took.push(units(point.left) - units(point.sent));
            sequence.bytes.push(point.bytes - bytes);
            (sent, bytes) = (units(point.sent), point.bytes);
        }
        sequence.lost = self.lost.iter().map(|at| units(*at)).collect();
        sequence
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;
    use cellpace_path::{DropReason, Packet};

    fn record(ms: u64, fate: Fate) -> PacketRecord {
        let sent = Time::from_millis(ms);
        let departed_at = sent + Span::from_millis(20);
        PacketRecord { packet: Packet { departed_at, ..Packet::new(0, 0, 1500, sent) }, fate }
    }

    #[test]
    fn packets_are_told_by_when_they_were_sent_and_how_long_they_took() {
        let mut taker = SequenceTaker::new(1, 100);
        for (ms, fate) in [
            (5, Fate::Delivered),
            (8, Fate::Dropped(DropReason::Overflow)),
            (9, Fate::Delivered),
            (9, Fate::Duplicate),
        ] {
            taker.record(&record(ms, fate), 0);
        }
        let [flow] = &taker.finish(["a".to_owned()].into_iter())[..] else { panic!() };
        assert_eq!((&flow.sent[..], &flow.took[..]), (&[500, 400][..], &[2000, 2000][..]));
        assert_eq!((&flow.bytes[..], &flow.lost[..]), (&[1500, 1500][..], &[800][..]));
        assert_eq!((flow.every, flow.losses), (1, 1));
    }

    #[test]
    fn of_a_million_packets_as_many_are_kept_as_a_page_holds() {
        let mut taker = SequenceTaker::new(1, 1_000);
        for number in 0..1_000_000 {
            taker.record(&record(number, Fate::Delivered), 0);
        }
        let [flow] = &taker.finish(["a".to_owned()].into_iter())[..] else { panic!() };
        assert!((400..=1_000).contains(&flow.sent.len()), "{}", flow.sent.len());
        assert_eq!(flow.every, 1 << 10);
        let last = flow.sent.iter().sum::<i64>() / 100;
        assert!(1_000_000 - last <= 2 << 10, "{last}");
        let bytes: u64 = flow.bytes.iter().sum();
        assert_eq!(bytes, 1500 * (u64::try_from(last).unwrap() + 1), "all that arrived counts");
    }
}
