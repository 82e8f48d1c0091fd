//! CoDel, RFC 8289: drops at the head when packets have waited too long for too long.

use cellpace_base::{Args, Kind, Param, Span, Time};

use super::fifo::Fifo;
use super::{Drops, Limit, Queue};
use crate::{DropReason, Packet, PathError};

/// The parameters of CoDel.
pub const CODEL_PARAMS: &[Param] = &[
    TARGET,
    INTERVAL,
    MTU,
    Param {
        key: "limit",
        kind: Kind::Window,
        default: "1000pkts",
        unit: "",
        help: "hard limit, bytes or packets",
        source: "own choice, as in Linux tc",
    },
];

pub(super) const TARGET: Param = Param {
    key: "target",
    kind: Kind::Span(Span::from_micros(1), Span::from_secs(60)),
    default: "5ms",
    unit: "",
    help: "delay that may stand in the queue",
    source: "RFC 8289 section 4.4",
};

pub(super) const INTERVAL: Param = Param {
    key: "interval",
    kind: Kind::Span(Span::from_micros(1), Span::from_secs(60)),
    default: "100ms",
    unit: "",
    help: "how long the delay may stand above target before the first drop; about a worst-case RTT",
    source: "RFC 8289 section 4.3",
};

pub(super) const MTU: Param = Param {
    key: "mtu",
    kind: Kind::Bytes(0, 1_000_000),
    default: "1500B",
    unit: "",
    help: "a backlog up to this is never too long",
    source: "RFC 8289 section 4.2",
};

/// How CoDel decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CodelConfig {
    /// Standing delay that is fine.
    pub target: Span,
    /// For how long more than that is fine.
    pub interval: Span,
    /// A backlog of at most this many bytes is never dropped from.
    pub mtu: u64,
}

impl CodelConfig {
    pub(super) fn of(args: &Args) -> Self {
        Self {
            target: args.span("target"),
            interval: args.span("interval"),
            mtu: args.bytes("mtu"),
        }
    }
}

/// A FIFO under CoDel.
#[derive(Debug)]
pub struct Codel {
    config: CodelConfig,
    limit: Limit,
    control: Control,
    fifo: Fifo,
}

impl Codel {
    /// An empty queue.
    pub const fn new(config: CodelConfig, limit: Limit) -> Self {
        Self { config, limit, control: Control::new(), fifo: Fifo::new() }
    }

    pub(super) fn read(rest: &str) -> Result<(CodelConfig, Limit), PathError> {
        let args = Args::parse("codel", rest, CODEL_PARAMS)?;
        Ok((CodelConfig::of(&args), Limit::of(args.window("limit"), "codel: limit")?))
    }
}

impl Queue for Codel {
    fn enqueue(&mut self, _now: Time, packet: Packet, drops: &mut Drops) {
        if !self.limit.has_room(&self.fifo, packet.size) {
            drops.push((packet, DropReason::Overflow));
            return;
        }
        self.fifo.push(packet);
    }

    fn dequeue(&mut self, now: Time, drops: &mut Drops) -> Option<Packet> {
        self.control.dequeue(&self.config, &mut self.fifo, now, drops)
    }

    fn bytes(&self) -> u64 {
        self.fifo.bytes()
    }

    fn packets(&self) -> usize {
        self.fifo.len()
    }
}

/// The state of CoDel for one line of packets (RFC 8289 section 5.2), separate from the line
/// because FQ-CoDel has a thousand of them.
#[derive(Debug, Clone)]
pub(super) struct Control {
    /// When the delay will have been above target for an interval; `None` while it is below.
    first_above: Option<Time>,
    /// When to drop next, in drop state.
    drop_next: Time,
    /// Drops in this drop state, which set the pace.
    count: u32,
    /// `count` at the last entry into drop state.
    last_count: u32,
    dropping: bool,
}

/// What left the line, and whether it has waited too long for too long.
struct Head {
    packet: Option<Packet>,
    ok_to_drop: bool,
}

impl Control {
    pub(super) const fn new() -> Self {
        Self { first_above: None, drop_next: Time::ZERO, count: 0, last_count: 0, dropping: false }
    }

    /// Takes the next packet that may live, dropping those in front of it that may not
    /// (RFC 8289 section 5.5). Every round of its loop drops a packet, so that the work is
    /// bounded by the backlog however long nobody called.
    pub(super) fn dequeue(
        &mut self,
        config: &CodelConfig,
        fifo: &mut Fifo,
        now: Time,
        drops: &mut Drops,
    ) -> Option<Packet> {
        let mut head = self.take(config, fifo, now);
        if !head.ok_to_drop {
            self.dropping = false;
            return head.packet;
        }
        if !self.dropping {
            drop_packet(head.packet, drops);
            head = self.take(config, fifo, now);
            self.start_dropping(config, now);
            return head.packet;
        }
        while self.dropping && now >= self.drop_next {
            drop_packet(head.packet, drops);
            self.count = self.count.saturating_add(1);
            head = self.take(config, fifo, now);
            self.dropping = head.ok_to_drop;
            if self.dropping {
                self.drop_next = control_law(config, self.drop_next, self.count);
            }
        }
        head.packet
    }

    /// Takes the head of the line and judges its sojourn time (RFC 8289 section 5.6).
    fn take(&mut self, config: &CodelConfig, fifo: &mut Fifo, now: Time) -> Head {
        let Some(packet) = fifo.pop() else {
            self.first_above = None;
            return Head { packet: None, ok_to_drop: false };
        };
        let sojourn = now - packet.enqueued_at;
        if sojourn < config.target || fifo.bytes() <= config.mtu {
            self.first_above = None;
            return Head { packet: Some(packet), ok_to_drop: false };
        }
        let ok_to_drop = match self.first_above {
            Some(time) => now >= time,
            None => {
                self.first_above = Some(now + config.interval);
                false
            }
        };
        Head { packet: Some(packet), ok_to_drop }
    }

    /// RFC 8289 section 5.5: the pace of the last drop state was about right if it ended not
    /// long ago, so that the new one begins with it.
    fn start_dropping(&mut self, config: &CodelConfig, now: Time) {
        const RECENT_INTERVALS: u64 = 16;
        let delta = self.count.saturating_sub(self.last_count);
        let recent = now - self.drop_next < config.interval * RECENT_INTERVALS;
        self.dropping = true;
        self.count = if delta > 1 && recent { delta } else { 1 };
        self.drop_next = control_law(config, now, self.count);
        self.last_count = self.count;
    }
}

/// RFC 8289 section 3.3: the time of the next drop comes nearer with the root of the count.
fn control_law(config: &CodelConfig, from: Time, count: u32) -> Time {
    from + config.interval.mul_f64(f64::from(count).sqrt().recip())
}

fn drop_packet(packet: Option<Packet>, drops: &mut Drops) {
    drops.extend(packet.map(|packet| (packet, DropReason::Aqm)));
}
