//! Takes the packets of flows from a log, for their time sequences.

use cellpace_base::Time;
use cellpace_path::{Fate, PacketRecord};

use crate::packet_ack::PacketAck;
use crate::sequence::PacketSequence;

/// Packets of a page without and with acks. Each takes some 14 or 25 characters, and the page shall stay below 1.5 MB.
pub(crate) const MAX_POINTS: usize = 64_000;
pub(crate) const MAX_ACKED_POINTS: usize = 36_000;

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
    ack: Option<PacketAck>,
}

impl SequenceTaker {
    /// Of `flows` flows, `points` packets at most.
    pub(crate) fn new(flows: usize, points: usize) -> Self {
        let flows = (0..flows).map(|_| TakenFlow::default()).collect();
        Self { flows, every: 1, left: points.max(2) }
    }

    /// What became of a packet of the flow at `place`, and its ack; the records are in the order of their end.
    pub(crate) fn record(&mut self, record: &PacketRecord, ack: Option<PacketAck>, place: usize) {
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
            flow.points.push(TakenPacket { number, sent, left, bytes: flow.arrived, ack });
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
        if self.points.iter().any(|point| point.ack.is_some()) {
            self.add_acks(&mut sequence);
        }
        sequence
    }

    fn add_acks(&self, sequence: &mut PacketSequence) {
        let mut before = 0;
        for TakenPacket { left, ack, .. } in &self.points {
            let window = ack.and_then(|ack| ack.cwnd);
            let change = window.map(|window| signed(window) - before);
            before += change.unwrap_or(0);
            let beyond = |ack: PacketAck| {
                Some(
                    signed(ack.in_flight.saturating_add(ack.permit?)) - signed(window.unwrap_or(0)),
                )
            };
            sequence.acked.push(ack.map(|ack| units(ack.at) - units(*left)));
            sequence.window.push(change);
            sequence.permitted.push(ack.and_then(beyond));
        }
    }
}

/// In units of 10 microseconds.
fn units(at: Time) -> i64 {
    signed(at.as_nanos() / 10_000)
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
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
            taker.record(&record(ms, fate), None, 0);
        }
        let [flow] = &taker.finish(["a".to_owned()].into_iter())[..] else { panic!() };
        assert_eq!((&flow.sent[..], &flow.took[..]), (&[500, 400][..], &[2000, 2000][..]));
        assert_eq!((&flow.bytes[..], &flow.lost[..]), (&[1500, 1500][..], &[800][..]));
        assert_eq!((flow.every, flow.losses), (1, 1));
        assert!(flow.acked.is_empty() && flow.window.is_empty() && flow.permitted.is_empty());
    }

    #[test]
    fn acks_are_told_by_when_they_came_and_what_the_window_and_the_permit_then_were() {
        let mut taker = SequenceTaker::new(1, 100);
        let ack = |ms, cwnd, permit| {
            Some(PacketAck { at: Time::from_millis(ms), in_flight: 3_000, cwnd, permit })
        };
        for (sent, ack) in [
            (0, ack(40, Some(15_000), Some(12_000))),
            (1, None),
            (2, ack(45, Some(2_000), Some(0))),
            (3, ack(46, None, Some(500))),
            (4, ack(47, Some(4_000), None)),
        ] {
            taker.record(&record(sent, Fate::Delivered), ack, 0);
        }
        let [flow] = &taker.finish(["a".to_owned()].into_iter())[..] else { panic!() };
        // Each left the link 20 ms after it was sent.
        assert_eq!(flow.acked, [Some(2000), None, Some(2300), Some(2300), Some(2300)]);
        assert_eq!(flow.window, [Some(15_000), None, Some(-13_000), None, Some(2_000)]);
        assert_eq!(flow.permitted, [Some(0), None, Some(1_000), Some(3_500), None]);
    }

    #[test]
    fn of_a_million_packets_as_many_are_kept_as_a_page_holds() {
        let mut taker = SequenceTaker::new(1, 1_000);
        for number in 0..1_000_000 {
            taker.record(&record(number, Fate::Delivered), None, 0);
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
