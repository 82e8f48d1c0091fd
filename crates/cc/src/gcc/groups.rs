//! Packets in groups, and how much longer one group took than the one before it.

use crate::{Span, Time};

/// Packets that left within this time of the first are a group.
const BURST: Span = Span::from_millis(5);

/// A packet that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrived {
    pub(super) sent: Time,
    pub(super) received: Time,
    pub(super) bytes: u64,
}

/// Packets that left nearly together.
#[derive(Debug, Clone, Copy)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    last_received: Time,
}

/// How a group compares with the one before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Variation {
    /// d(i), in ms.
    pub(super) delay_ms: f64,
    /// T(i) - T(i-1), in ms.
    pub(super) departure_ms: f64,
    /// t(i).
    pub(super) received: Time,
}

/// Section 2: groups by departure.
#[derive(Debug, Clone, Default)]
pub(super) struct Groups {
    current: Option<Group>,
    before: Option<Group>,
}

impl Groups {
    /// Takes a packet; returns the variation of the group that it completes.
    pub(super) fn on_arrival(&mut self, packet: &Arrived) -> Option<Variation> {
        let Some(current) = &mut self.current else {
            self.current = Some(Group::of(packet));
            return None;
        };
        if packet.sent < current.first_sent {
            // Reordered: its group is over.
            return None;
        }
        if current.takes(packet) {
            current.last_sent = current.last_sent.max(packet.sent);
            current.last_received = current.last_received.max(packet.received);
            return None;
        }
        let completed = *current;
        self.current = Some(Group::of(packet));
        let before = self.before.replace(completed)?;
        Some(completed.variation(&before))
    }
}

impl Group {
    fn of(packet: &Arrived) -> Self {
        let Arrived { sent, received, .. } = *packet;
        Self { first_sent: sent, last_sent: sent, last_received: received }
    }

    fn takes(&self, packet: &Arrived) -> bool {
        let arrival_ms = ms_between(self.last_received, packet.received);
        let delay_ms = arrival_ms - ms_between(self.last_sent, packet.sent);
        packet.sent.since(self.first_sent) <= BURST
            || (delay_ms < 0.0 && arrival_ms <= BURST.as_millis_f64())
    }

    fn variation(&self, before: &Self) -> Variation {
        let departure_ms = ms_between(before.last_sent, self.last_sent);
        let arrival_ms = ms_between(before.last_received, self.last_received);
        let delay_ms = arrival_ms - departure_ms;
        Variation { delay_ms, departure_ms, received: self.last_received }
    }
}

/// From one time to another, which may be earlier.
pub(super) fn ms_between(from: Time, to: Time) -> f64 {
    to.since(from).as_millis_f64() - from.since(to).as_millis_f64()
}
