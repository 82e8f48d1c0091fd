//! Flows of a capture. Of TCP its sequence numbers and acknowledgments say what is in flight, what was sent again and
//! how long an answer took; of UDP there are only bytes.

use std::collections::{HashMap, VecDeque};
use std::io::BufRead;

use super::Recorded;
use super::flow::{RecordedFlow, Sample};
use crate::capture::{CapturedFlow, CapturedPacket, CapturedSegment, read_capture};

/// Flows that are kept; of others the packets are counted.
const MAX_FLOWS: usize = 256;
/// Segments of a flow that wait for their acknowledgment.
const MAX_WAITING: usize = 10_000;

pub(super) fn read(reader: impl BufRead) -> Result<Recorded, String> {
    let mut flows = Flows::default();
    let end = read_capture(reader, |packet| flows.take(&packet))?;
    let mut notes = vec![
        "Times, RTTs and what is in flight are those of the place of the capture: at the receiver an RTT is the time it takes \
         to acknowledge. What TCP sent again counts as lost."
            .to_owned(),
    ];
    if flows.uncounted > 0 {
        notes.push(format!(
            "{} packets of more than {MAX_FLOWS} flows are left out.",
            flows.uncounted
        ));
    }
    if end.is_cut {
        notes.push("The last packet is cut off.".to_owned());
    }
    let flows = flows.flows.into_values().map(|flow| flow.recorded).collect();
    Ok(Recorded { kind: "capture", flows, notes })
}

#[derive(Default)]
struct Flows {
    flows: HashMap<CapturedFlow, TcpFlow>,
    first: Option<u64>,
    uncounted: u64,
}

struct TcpFlow {
    recorded: RecordedFlow,
    /// The first byte that was never sent, and the first that is not acknowledged.
    next: Option<u32>,
    acknowledged: Option<u32>,
    /// The end of each segment, when it left, in ms.
    waiting: VecDeque<(u32, f64)>,
}

impl Flows {
    fn take(&mut self, packet: &CapturedPacket) -> Result<(), String> {
        let first = *self.first.get_or_insert(packet.at);
        let at = packet.at.saturating_sub(first) as f64 / 1e6;
        if let Some(acknowledges) = packet.segment.and_then(|segment| segment.acknowledges)
            && let Some(back) = self.flows.get_mut(&packet.flow.back())
        {
            back.acknowledge(at, acknowledges)?;
        }
        if self.flows.len() == MAX_FLOWS && !self.flows.contains_key(&packet.flow) {
            self.uncounted += 1;
            return Ok(());
        }
        let flow = self.flows.entry(packet.flow).or_insert_with(|| TcpFlow {
            recorded: RecordedFlow::new(packet.flow.to_string()),
            next: None,
            acknowledged: None,
            waiting: VecDeque::new(),
        });
        flow.recorded.add(at, Sample::Sent(packet.bytes.into()))?;
        let Some(segment) = packet.segment else { return Ok(()) };
        // Sequence numbers tell what was lost.
        flow.recorded.add(at, Sample::Lost(0.0))?;
        flow.send(at, segment)
    }
}

/// How far `to` is ahead of `from`, in the circle of sequence numbers.
const fn ahead(from: u32, to: u32) -> i32 {
    to.wrapping_sub(from) as i32
}

impl TcpFlow {
    fn send(&mut self, at: f64, segment: CapturedSegment) -> Result<(), String> {
        let length = segment.length + u32::from(segment.is_syn);
        if length == 0 {
            return Ok(());
        }
        let end = segment.sequence.wrapping_add(length);
        let is_new = self.next.is_none_or(|next| ahead(next, end) > 0);
        if !is_new {
            // An answer could be to the first one: neither has an RTT then.
            self.waiting.retain(|(waiting, _)| {
                ahead(*waiting, end) < 0 || ahead(segment.sequence, *waiting) <= 0
            });
            return self.recorded.add(at, Sample::Lost(1.0));
        }
        self.next = Some(end);
        if self.waiting.len() < MAX_WAITING {
            self.waiting.push_back((end, at));
        }
        self.in_flight(at)
    }

    fn acknowledge(&mut self, at: f64, up_to: u32) -> Result<(), String> {
        if self.acknowledged.is_some_and(|before| ahead(before, up_to) <= 0) {
            return Ok(());
        }
        self.acknowledged = Some(up_to);
        let mut answered = None;
        while let Some((end, sent)) = self.waiting.front().copied() {
            if ahead(end, up_to) < 0 {
                break;
            }
            answered = Some(sent);
            self.waiting.pop_front();
        }
        if let Some(sent) = answered {
            self.recorded.add(at, Sample::Rtt((at - sent).max(0.0)))?;
        }
        self.in_flight(at)
    }

    fn in_flight(&mut self, at: f64) -> Result<(), String> {
        let (Some(next), Some(acknowledged)) = (self.next, self.acknowledged) else {
            return Ok(());
        };
        self.recorded.add(at, Sample::InFlight(f64::from(ahead(acknowledged, next).max(0))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capture::Transport;

    #[test]
    fn sequence_numbers_say_what_was_lost_and_how_long_an_answer_took() {
        let flow = CapturedFlow {
            from: "192.0.2.1:443".parse().unwrap(),
            to: "192.0.2.2:5000".parse().unwrap(),
            transport: Transport::Tcp,
        };
        let data = |ms: u64, sequence| CapturedPacket {
            at: ms * 1_000_000,
            flow,
            bytes: 1040,
            segment: Some(CapturedSegment {
                sequence,
                acknowledges: None,
                length: 1000,
                is_syn: false,
            }),
        };
        let ack = |ms: u64, acknowledges| CapturedPacket {
            at: ms * 1_000_000,
            flow: flow.back(),
            bytes: 40,
            segment: Some(CapturedSegment {
                sequence: 1,
                acknowledges: Some(acknowledges),
                length: 0,
                is_syn: false,
            }),
        };
        let mut flows = Flows::default();
        // The first number is near the end of the circle; the second packet is sent twice.
        let first = u32::MAX - 500;
        let next = |packets: u32| first.wrapping_add(1000 * packets);
        for packet in [
            data(10, first),
            ack(50, next(1)),
            data(60, next(1)),
            data(90, next(1)),
            ack(130, next(2)),
            data(140, next(2)),
            ack(170, next(3)),
        ] {
            flows.take(&packet).unwrap();
        }
        let recorded = &flows.flows[&flow].recorded;
        let json = serde_json::to_value(recorded).unwrap();
        assert_eq!((&json["sent_bytes"], &json["lost"]), (&4160.0.into(), &1.0.into()));
        let rtts: Vec<f64> = json["rtt_ms"]
            .as_array()
            .unwrap()
            .iter()
            .filter_map(serde_json::Value::as_f64)
            .collect();
        assert_eq!(rtts, [40.0, 30.0], "none of what was sent twice");
        assert_eq!(json["in_flight"][160], 0.0);
    }
}
