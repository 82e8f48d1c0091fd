//! The flows of a link, as the live view shows them.

use std::collections::HashMap;

use cellpace_base::{Span, Time};
use cellpace_emu::{LinkDirection, SeenPacket};
use cellpace_live::{LiveConnection, LiveConnections, NewConnection, SharedFigures};
use cellpace_path::schedule::capacity_between;
use cellpace_path::{Fate, Schedule};

use crate::dashboard::OpenDashboard;

/// A flow without packets for this long is shown as ended.
const IDLE: Span = Span::from_secs(30);

/// Shows each flow's packets, one row for each direction.
pub(crate) struct LinkDashboard {
    open: OpenDashboard,
    flows: ShownFlows,
    /// What drives the link towards the program; `None`: nothing limits it.
    schedule: Option<Box<dyn Schedule>>,
    /// Up to when it was shown what the link offered.
    offered: Time,
}

/// Time over which it is shown what the link offers.
const OFFERED_OVER: Span = Span::from_millis(500);

struct ShownFlows {
    connections: LiveConnections,
    flows: HashMap<u64, ShownFlow>,
    /// Addresses by the link's numbers.
    names: HashMap<u32, String>,
}

struct ShownFlow {
    figures: SharedFigures,
    last: Time,
}

impl LinkDashboard {
    pub(crate) fn new(open: OpenDashboard, schedule: Option<Box<dyn Schedule>>) -> Self {
        let connections = open.connections();
        Self { open, flows: ShownFlows::new(connections), schedule, offered: Time::ZERO }
    }

    /// Says between which addresses a flow is.
    pub(crate) fn name(&mut self, flow: u32, addresses: &str) {
        self.flows.names.insert(flow, addresses.to_owned());
    }

    pub(crate) fn record(&mut self, seen: &SeenPacket) {
        self.flows.record(seen);
    }

    /// Ends flows that have been idle for long.
    pub(crate) fn tick(&mut self, now: Time) {
        self.flows.end_idle(now);
        let width = now - self.offered;
        let Some(schedule) = self.schedule.as_mut().filter(|_| width >= OFFERED_OVER) else {
            return;
        };
        let bytes = capacity_between(schedule.as_mut(), self.offered, now);
        self.flows.connections.offer(bytes as f64 * 8.0 / width.as_secs_f64());
        self.offered = now;
    }

    /// The link has another schedule from now on.
    pub(crate) fn change(&mut self, schedule: Option<Box<dyn Schedule>>) {
        self.schedule = schedule;
    }

    pub(crate) fn finish(self) {
        self.open.finish();
    }
}

impl ShownFlows {
    fn new(connections: LiveConnections) -> Self {
        Self { connections, flows: HashMap::new(), names: HashMap::new() }
    }

    fn record(&mut self, seen: &SeenPacket) {
        let packet = &seen.record.packet;
        if seen.record.fate == Fate::Duplicate {
            return;
        }
        let is_up = seen.direction == LinkDirection::Up;
        let number = 2 * u64::from(packet.flow) + u64::from(is_up);
        let (connections, names) = (&self.connections, &self.names);
        let flow = self.flows.entry(number).or_insert_with(|| {
            let way = if is_up { "up" } else { "down" };
            let figures = SharedFigures::default();
            let name = match names.get(&packet.flow) {
                Some(addresses) => format!("{addresses} {way}"),
                None => format!("flow {} {way}", packet.flow),
            };
            let source = Box::new(figures.clone());
            connections.opened(NewConnection {
                number,
                name,
                controller: "".into(),
                driver: "",
                source,
            });
            ShownFlow { figures, last: seen.written }
        });
        flow.last = seen.written;
        let (size, delay) = (u64::from(packet.size), seen.record.queue_delay());
        let is_delivered = seen.record.fate == Fate::Delivered;
        flow.figures.update(|figures| {
            figures.sent_bytes += size;
            if !is_delivered {
                figures.lost += 1;
                return;
            }
            figures.delivered_bytes += size;
            // Smoothed as RTTs are (RFC 6298).
            let smoothed = figures.queue_delay.map(|before| (before * 7 + delay) / 8);
            figures.queue_delay = Some(smoothed.unwrap_or(delay));
        });
    }

    fn end_idle(&mut self, now: Time) {
        let connections = &self.connections;
        self.flows.retain(|&number, flow| {
            let is_idle = now - flow.last >= IDLE;
            if is_idle {
                connections.closed(number, flow.figures.figures(), "idle");
            }
            !is_idle
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_live::LiveAbout;
    use cellpace_path::{DropReason, Packet, PacketRecord};

    fn seen(direction: LinkDirection, ms: u64, delay: u64, fate: Fate) -> SeenPacket {
        let at = Time::from_millis(ms);
        let enqueued_at = at - Span::from_millis(delay);
        let packet = Packet {
            enqueued_at,
            dequeued_at: at,
            departed_at: at,
            ..Packet::new(0, 3, 1500, enqueued_at)
        };
        let record = PacketRecord { packet, fate };
        SeenPacket { direction, record, written: at, after_end: false }
    }

    #[test]
    fn each_direction_of_a_flow_is_counted_apart_and_ends_when_it_is_idle() {
        let connections = LiveConnections::new(LiveAbout::default());
        let mut flows = ShownFlows::new(connections);
        flows.record(&seen(LinkDirection::Down, 100, 40, Fate::Delivered));
        flows.record(&seen(LinkDirection::Down, 110, 48, Fate::Delivered));
        flows.record(&seen(LinkDirection::Down, 110, 0, Fate::Dropped(DropReason::Overflow)));
        flows.record(&seen(LinkDirection::Down, 110, 0, Fate::Duplicate));
        flows.record(&seen(LinkDirection::Up, 20_000, 1, Fate::Delivered));
        let down = flows.flows[&6].figures.figures();
        assert_eq!((down.sent_bytes, down.delivered_bytes, down.lost), (4500, 3000, 1));
        assert_eq!(down.queue_delay, Some(Span::from_millis(41)));
        assert_eq!(flows.flows[&7].figures.figures().delivered_bytes, 1500);
        flows.end_idle(Time::from_millis(30_110));
        assert_eq!(flows.flows.keys().copied().collect::<Vec<_>>(), [7]);
    }
}
