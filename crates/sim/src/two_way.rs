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
use cellpace_measure::Collector;
use cellpace_path::{Fate, Packet, PacketRecord, Path};

use crate::observer::Observer;
use crate::sampler::SeriesSampler;
use crate::transfer_tally::SenderCounts;
use crate::world::Remains;
use crate::{FlowSpec, Scenario, SimError};

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

/// The flows and both directions between their ends. Direction 0 leads from the ends of index 0,
/// whose data the figures are about.
pub(crate) struct TwoWayWorld {
    now: Time,
    end: Time,
    directions: [Direction; 2],
    flows: Vec<TwoWayFlow>,
    collector: Collector,
    bin: Span,
}

struct TwoWayFlow {
    ends: [End; 2],
    stop: Time,
    /// Its own delay in each direction, on top of the path's.
    own_delay: Span,
}

impl TwoWayWorld {
    /// The flows at time zero; `own_delay` is that of a flow in each direction.
    pub(crate) fn new(
        scenario: &Scenario,
        [forward, reverse]: [Path; 2],
        own_delay: impl Fn(&FlowSpec) -> Span,
        collector: Collector,
    ) -> Result<Self, SimError> {
        let flow = |(index, spec): (u32, &FlowSpec)| {
            let (Some(cc), Some(back)) = (&spec.cc, &spec.reverse) else {
                return Err(SimError::Invalid("a flow that sends both ways needs `cc`".into()));
            };
            let end = |halves: [&ControllerSpec; 2], number: u64| {
                End::new(halves, spec.start, index, [scenario.seed, 2 * u64::from(index) + number])
            };
            // The half at a receiver is that of the sender opposite.
            let ends = [end([cc, back], 0)?, end([back, cc], 1)?];
            Ok(TwoWayFlow { ends, stop: spec.stop, own_delay: own_delay(spec) })
        };
        Ok(Self {
            now: Time::ZERO,
            end: scenario.end(),
            directions: [Direction::new(forward), Direction::new(reverse)],
            flows: (0..).zip(&scenario.flows).map(flow).collect::<Result<_, _>>()?,
            collector,
            bin: scenario.bin,
        })
    }

    /// What is left once the run is over. Windows are not sampled.
    pub(crate) fn finish(self) -> Remains {
        let mut sampler = SeriesSampler::new(self.bin, self.end, self.flows.len());
        sampler.leave_out();
        let refused = vec![0; self.flows.len()];
        let transfers = Vec::new();
        let counts = vec![SenderCounts::default(); self.flows.len()];
        Remains {
            collector: self.collector,
            sampler,
            counts,
            refused,
            transfers,
            videos: Vec::new(),
            pings: Vec::new(),
        }
    }

    pub(crate) fn now(&self) -> Time {
        self.now
    }

    /// Everything that happens up to and including `until`.
    pub(crate) fn advance(&mut self, until: Time, observer: &mut impl Observer) {
        let until = until.min(self.end);
        while let Some(now) = self.next().filter(|next| *next <= until) {
            self.now = now;
            self.step(now, observer);
        }
        self.now = self.now.max(until);
    }

    /// One order for events of the same instant: arrivals, then turns.
    fn step(&mut self, now: Time, observer: &mut impl Observer) {
        let (flows, collector) = (&mut self.flows, &mut self.collector);
        for (from, direction) in self.directions.iter_mut().enumerate() {
            direction.advance(now, |record, report| {
                if from == 0 {
                    collector.record(record);
                    observer.on_record(record);
                }
                if !matches!(record.fate, Fate::Dropped(_)) {
                    let flow = &mut flows[record.packet.flow as usize];
                    flow.ends[1 - from].receive(&record.packet, report);
                }
            });
        }
        for flow in flows {
            for (own, direction) in flow.ends.iter_mut().zip(&mut self.directions) {
                if own.wakes_at > now {
                    continue;
                }
                if now >= flow.stop {
                    own.wakes_at = Time::MAX;
                    continue;
                }
                own.turn(now, &mut |packet, report| direction.push(packet, report, flow.own_delay));
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let packets = self.directions.iter().filter_map(|direction| direction.path.next_deadline());
        let ends = self.flows.iter().flat_map(|flow| &flow.ends).map(|end| end.wakes_at);
        packets.chain(ends).min()
    }
}

/// One direction of the path and the packets in flight in it.
struct Direction {
    path: Path,
    /// The reports in flight, by flow and number of their packet.
    reports: BTreeMap<(u32, u64), Report>,
    fates: Vec<PacketRecord>,
}

impl Direction {
    fn new(path: Path) -> Self {
        Self { path, reports: BTreeMap::new(), fates: Vec::new() }
    }

    fn push(&mut self, packet: Packet, report: Option<Report>, own_delay: Span) {
        if let Some(report) = report {
            self.reports.insert((packet.flow, packet.id), report);
        }
        self.path.push_after(packet, own_delay);
    }

    fn advance(&mut self, now: Time, mut each: impl FnMut(&PacketRecord, Option<Report>)) {
        self.path.advance(now, &mut self.fates);
        for record in self.fates.drain(..) {
            let key = (record.packet.flow, record.packet.id);
            let report = match record.fate {
                // The packet itself follows.
                Fate::Duplicate => self.reports.get(&key).cloned(),
                _ => self.reports.remove(&key),
            };
            each(&record, report);
        }
    }
}

/// Sends a packet and the report that travels on it.
type SendPacket<'a> = dyn FnMut(Packet, Option<Report>) + 'a;

/// A sender and a receiver that share a loop.
struct End {
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

impl End {
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
        self.heartbeat_at = now + HEARTBEAT;
        let packet = Packet::new(number, self.flow, bytes as u32, now);
        send(Packet { tag: stamp.wire, ..packet }, self.report.clone());
    }
}
