//! Flows that send both ways, each end a sender and a receiver: the loop of Sprout's authors'
//! program, as it was measured.
//!
//! Elsewhere in the simulator data goes one way and reports travel by themselves. Here a forecast
//! travels on data or on a heartbeat, so it leaves when its end sends and waits behind what that end
//! has sent before.
//!
//! What is known of the loop leaves open whether packets without news wake it, and whether a window
//! is read once per flight or before each packet. Here only a new forecast wakes an end, and each
//! packet reads the window: the one of many readings that is nearest to what was measured. Others
//! move single traces by several hundredths of utilization.

use std::collections::BTreeMap;
use std::sync::Arc;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Arrival, Controller, ControllerSpec, Receiver, SentPacket, Setup};
use cellpace_path::{Fate, Packet, PacketRecord};

use crate::ends::{FlowEnds, SenderTotals};
use crate::{FlowSpec, SimError};

/// Bytes of data that the sender takes for a packet, and the most that it puts into one.
const SENDER_UNIT: u64 = 1440;
/// Bytes of data that the receiver takes for a packet: the original's two halves differ.
const RECEIVER_UNIT: u64 = 1400;
/// What each packet has on top of its data, in the link and in sequence numbers, but not where the
/// receiver counts.
const HEADER: u64 = 50;
/// An end looks at its window at least this often.
const LOOP: Span = Span::from_millis(10);
/// An end that has sent nothing for this long sends a packet without data.
const HEARTBEAT: Span = Span::from_millis(50);

/// A report from one end's receiver to the other end's sender.
type Report = Arc<[u8]>;

/// A flow that sends both ways.
pub(crate) struct TwoWayFlow {
    ends: [LoopEnd; 2],
    stop: Time,
    /// The reports in flight in each direction, by the number of their packet.
    reports: [BTreeMap<u64, Report>; 2],
}

impl TwoWayFlow {
    /// The flow at time zero under `cc` and, the other way, `back`.
    pub(crate) fn new(
        [cc, back]: [&ControllerSpec; 2],
        spec: &FlowSpec,
        index: u32,
        seed: u64,
    ) -> Result<Self, SimError> {
        let end = |halves: [&ControllerSpec; 2], number: u64| {
            LoopEnd::new(halves, spec.start, index, [seed, 2 * u64::from(index) + number])
        };
        // The half at a receiver is that of the sender opposite.
        let ends = [end([cc, back], 0)?, end([back, cc], 1)?];
        Ok(Self { ends, stop: spec.stop, reports: Default::default() })
    }
}

impl FlowEnds for TwoWayFlow {
    fn next_deadline(&self) -> Time {
        self.ends[0].wakes_at.min(self.ends[1].wakes_at)
    }

    fn receive(&mut self, _: Time, direction: usize, PacketRecord { packet, fate }: &PacketRecord) {
        let reports = &mut self.reports[direction];
        let report = match fate {
            // The packet itself follows.
            Fate::Duplicate => reports.get(&packet.id).cloned(),
            _ => reports.remove(&packet.id),
        };
        if !matches!(fate, Fate::Dropped(_)) {
            self.ends[1 - direction].receive(packet, report);
        }
    }

    fn turn(
        &mut self,
        now: Time,
        push: &mut dyn FnMut(usize, Packet) -> bool,
    ) -> Result<(), SimError> {
        for (direction, own) in self.ends.iter_mut().enumerate() {
            if own.wakes_at > now {
                continue;
            }
            if now >= self.stop {
                // Both ends stop by the clock: what is in flight still arrives, unanswered.
                own.wakes_at = Time::MAX;
                continue;
            }
            let reports = &mut self.reports[direction];
            own.turn(now, &mut |packet, report| {
                if push(direction, packet)
                    && let Some(report) = report
                {
                    reports.insert(packet.id, report);
                }
            });
        }
        Ok(())
    }

    fn on_path_change(&mut self, now: Time) {
        self.ends.iter_mut().for_each(|end| end.sender.on_path_change(now));
    }

    fn totals(&self) -> Option<SenderTotals> {
        // Sprout sends nothing again, and has no timeouts.
        Some(SenderTotals::default())
    }
}

/// Sends a packet and the report that travels on it.
type SendPacket<'a> = dyn FnMut(Packet, Option<Report>) + 'a;

/// A sender and a receiver that share a loop.
struct LoopEnd {
    flow: u32,
    sender: Box<dyn Controller>,
    receiver: Box<dyn Receiver>,
    /// The newest of its own receiver.
    report: Option<Report>,
    /// The newest that came from the other end.
    last_report: Option<Report>,
    wakes_at: Time,
    heartbeat_at: Time,
    next_number: u64,
}

impl LoopEnd {
    fn new(
        [sender, opposite]: [&ControllerSpec; 2],
        start: Time,
        flow: u32,
        [seed, stream]: [u64; 2],
    ) -> Result<Self, SimError> {
        let setup = |mss| Setup { mss, start, random: Random::seeded(seed, stream) };
        let receiver = opposite.build_receiver(setup(RECEIVER_UNIT)).ok_or_else(|| {
            SimError::Invalid(format!("`{opposite}` has no half at the receiver; take sprout"))
        })?;
        Ok(Self {
            flow,
            sender: sender.build(setup(SENDER_UNIT)),
            receiver,
            report: None,
            last_report: None,
            wakes_at: start,
            heartbeat_at: start,
            next_number: 0,
        })
    }

    fn receive(&mut self, packet: &Packet, report: Option<Report>) {
        let now = packet.departed_at;
        self.receiver.on_arrival(&Arrival {
            now,
            number: packet.id,
            bytes: u64::from(packet.size) - HEADER,
            wire: packet.tag,
            ecn: packet.ecn,
        });
        // Only news wakes an end (see the module): packets in between carry the same forecast.
        if report.is_none() || report == self.last_report {
            return;
        }
        self.last_report = report;
        if let Some(report) = &self.last_report {
            self.sender.on_report(now, report);
        }
        self.wakes_at = now;
    }

    /// Once around the loop: sends what the window allows, or the heartbeat that is due.
    fn turn(&mut self, now: Time, send: &mut SendPacket<'_>) {
        self.take_report(now);
        let silent = self.heartbeat_at <= now;
        // At the heartbeat's own instant the controller would allow a full packet for it, and the
        // window could not be distinguished from that.
        self.sender.on_deadline(if silent { now - Span::from_nanos(1) } else { now });
        if silent && self.sender.permit().remaining(0) == 0 {
            self.send(now, 0, send);
        } else {
            self.fill_window(now, send);
        }
        self.wakes_at = self.heartbeat_at.min(now + LOOP);
    }

    fn take_report(&mut self, now: Time) {
        // Not only when a deadline of its own has passed: our receiver has none after a second of
        // silence, but the original's goes on counting.
        self.receiver.on_deadline(now);
        let mut report = Vec::new();
        if self.receiver.poll_report(now, &mut report) {
            self.report = Some(report.into());
        }
    }

    /// To the byte. Each packet makes the window smaller by more than its data, so this ends.
    fn fill_window(&mut self, now: Time, send: &mut SendPacket<'_>) {
        loop {
            let data = self.sender.permit().remaining(0).min(SENDER_UNIT);
            if data == 0 {
                return;
            }
            self.send(now, data, send);
        }
    }

    fn send(&mut self, now: Time, data: u64, send: &mut SendPacket<'_>) {
        let number = self.next_number;
        self.next_number += 1;
        let bytes = data + HEADER;
        let stamp = self.sender.on_sent(&SentPacket {
            now,
            number,
            bytes,
            in_flight: 0,
            app_limited: false,
            retransmission: false,
        });
        // Any packet carries the newest forecast, so each one puts the heartbeat off.
        self.heartbeat_at = now + HEARTBEAT;
        let packet = Packet::new(number, self.flow, bytes as u32, now);
        send(Packet { tag: stamp.wire, ..packet }, self.report.clone());
    }
}
