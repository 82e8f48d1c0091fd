//! Two ends that both send, each a sender and a receiver: the loop of Sprout's authors' program.
//!
//! The simulator lets data go one way and reports by themselves. Here a forecast travels on data or
//! on a heartbeat, so it leaves when its end sends and waits behind what that end has sent before.
//!
//! What is known of the loop leaves open whether packets without news wake it, and whether a window
//! is read once per flight or before each packet. Here only a new forecast wakes an end, and each
//! packet reads the window: of many readings that were tried, the one nearest to the figures that an
//! earlier form of this example had. Others move single traces by several hundredths of utilization.

use std::collections::BTreeMap;
use std::rc::Rc;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Arrival, Controller, ControllerSpec, Receiver, SentPacket, Setup};
use cellpace_measure::{DelaySketch, MeasuredWindow};
use cellpace_path::schedule::capacity_between;
use cellpace_path::{DelaySpec, Fate, Packet, PacketRecord, Path, PathSpec, TraceSpec};
use cellpace_sim::SimError;

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
/// Generated traces are drawn from it; recorded ones leave nothing to chance.
const SEED: u64 = 1;

/// How the two ends are connected, and what of the run counts.
pub(crate) struct Setting {
    pub(crate) downlink: TraceSpec,
    pub(crate) uplink: TraceSpec,
    /// Without queueing, half of it in each direction.
    pub(crate) rtt: Span,
    /// When both ends begin.
    pub(crate) start: Time,
    pub(crate) duration: Span,
    /// What is left out of the figures at the beginning.
    pub(crate) skip: Span,
}

/// Of the downlink, but for the last.
pub(crate) struct Figures {
    /// Of what the link offered, headers included.
    pub(crate) utilization: f64,
    /// Median of the queue delay over packets.
    pub(crate) p50_ms: f64,
    /// Its 95th percentile.
    pub(crate) p95_ms: f64,
    /// How long packets wait in the uplink's queue, and the forecasts with them.
    pub(crate) uplink_mean_ms: f64,
}

/// Runs both ends with `cc`, which must have a half that thinks at the receiver.
///
/// # Errors
/// When it has none, or a trace cannot be had.
pub(crate) fn run(cc: &ControllerSpec, setting: &Setting) -> Result<Figures, SimError> {
    let end = Time::ZERO + setting.duration;
    let window = MeasuredWindow { skip: Time::ZERO + setting.skip, end };
    let link = |trace: &TraceSpec| PathSpec {
        trace: Some(trace.clone()),
        delay: DelaySpec::from(setting.rtt / 2),
        ..PathSpec::default()
    };
    let down = Direction::new(link(&setting.downlink).build(SEED)?, window);
    let up = Direction::new(link(&setting.uplink).build_reverse(SEED)?, window);
    let ends = [End::new(cc, setting.start, 0)?, End::new(cc, setting.start, 1)?];
    let mut world = World { directions: [down, up], ends };
    world.run(end);
    let [down, up] = world.directions;
    let offered = capacity_between(setting.downlink.build(SEED)?.as_mut(), window.skip, end);
    let (queue, uplink) = (down.queue.summary(), up.queue.summary());
    Ok(Figures {
        utilization: down.bytes as f64 / offered.max(1) as f64,
        p50_ms: queue.p50,
        p95_ms: queue.p95,
        uplink_mean_ms: uplink.mean,
    })
}

/// A report from one end's receiver to the other end's sender.
type Report = Rc<[u8]>;

/// The direction of an index leads from the end of that index to the other.
struct World {
    directions: [Direction; 2],
    ends: [End; 2],
}

impl World {
    fn run(&mut self, end: Time) {
        while let Some(now) = self.next().filter(|next| *next <= end) {
            // One order for events of the same instant: arrivals, then turns.
            for from in 0..2 {
                let to = &mut self.ends[1 - from];
                self.directions[from].advance(now, |packet, report| to.receive(packet, report));
            }
            for (own, direction) in self.ends.iter_mut().zip(&mut self.directions) {
                if own.wakes_at <= now {
                    own.turn(now, direction);
                }
            }
        }
    }

    fn next(&self) -> Option<Time> {
        let packets = self.directions.iter().filter_map(|direction| direction.path.next_deadline());
        packets.chain(self.ends.iter().map(|end| end.wakes_at)).min()
    }
}

/// One direction of the path, the packets in flight in it, and those that it has delivered.
struct Direction {
    path: Path,
    /// The reports in flight, by the number of their packet.
    reports: BTreeMap<u64, Report>,
    window: MeasuredWindow,
    bytes: u64,
    queue: DelaySketch,
    fates: Vec<PacketRecord>,
}

impl Direction {
    fn new(path: Path, window: MeasuredWindow) -> Self {
        Self {
            path,
            reports: BTreeMap::new(),
            window,
            bytes: 0,
            queue: DelaySketch::new(),
            fates: Vec::new(),
        }
    }

    fn push(&mut self, packet: Packet, report: Option<Report>) {
        if let Some(report) = report {
            self.reports.insert(packet.id, report);
        }
        self.path.push(packet);
    }

    fn advance(&mut self, now: Time, mut deliver: impl FnMut(&Packet, Option<Report>)) {
        self.path.advance(now, &mut self.fates);
        for record in self.fates.drain(..) {
            let report = self.reports.remove(&record.packet.id);
            if record.fate != Fate::Delivered {
                continue;
            }
            if self.window.contains(record.packet.departed_at) {
                self.bytes += u64::from(record.packet.size);
                self.queue.record(record.queue_delay());
            }
            deliver(&record.packet, report);
        }
    }
}

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
    fn new(cc: &ControllerSpec, start: Time, flow: u32) -> Result<Self, SimError> {
        let setup = |mss| Setup { mss, start, random: Random::seeded(SEED, u64::from(flow)) };
        let receiver = cc.build_receiver(setup(RECEIVER_UNIT)).ok_or_else(|| {
            SimError::Invalid(format!("`{cc}` has no half at the receiver; take sprout"))
        })?;
        Ok(Self {
            flow,
            sender: cc.build(setup(SENDER_UNIT)),
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
    fn turn(&mut self, now: Time, direction: &mut Direction) {
        self.take_report(now);
        let silent = self.heartbeat_at <= now;
        // At the heartbeat's own instant the controller would allow a full packet for it, and the
        // window could not be distinguished from that.
        self.sender.on_deadline(if silent { now - Span::from_nanos(1) } else { now });
        if silent && self.sender.permit().remaining(0) == 0 {
            self.send(now, 0, direction);
        } else {
            self.fill_window(now, direction);
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
    fn fill_window(&mut self, now: Time, direction: &mut Direction) {
        loop {
            let data = self.sender.permit().remaining(0).min(SENDER_UNIT);
            if data == 0 {
                return;
            }
            self.send(now, data, direction);
        }
    }

    fn send(&mut self, now: Time, data: u64, direction: &mut Direction) {
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
        direction.push(Packet { tag: stamp.wire, ..packet }, self.report.clone());
    }
}
