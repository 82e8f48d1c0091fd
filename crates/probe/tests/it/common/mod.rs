//! A prober and a responder joined by modelled paths, in virtual time.

use std::collections::HashMap;
use std::net::SocketAddr;

use cellpace_base::{Ecn, Random, Span, Time};
use cellpace_path::{Fate, Packet, Path};
use cellpace_probe::{Plan, Prober, Recording, Responder, ResponderLimits};
use cellpace_udp::{Engine, Protection};

pub(crate) fn address(host: u8) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, host], 1000))
}

pub(crate) const PROBER: u8 = 1;
pub(crate) const RESPONDER: u8 = 2;

/// The ids of the first session.
pub(crate) const PROBER_ID: u64 = 0x9e37;
pub(crate) const RESPONDER_ID: u64 = 0x5e55_1012;

/// What happens to datagrams beside what the path does.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Faults {
    /// Shares of datagrams that are damaged, that come twice, and that come late.
    pub(crate) damage: f64,
    pub(crate) duplicate: f64,
    pub(crate) delay: f64,
}

/// The responder's clock is so far ahead of the prober's.
pub(crate) const AHEAD: Span = Span::from_secs(3);

pub(crate) struct World {
    pub(crate) now: Time,
    pub(crate) prober: Prober,
    pub(crate) responder: Responder,
    /// Up and down.
    pub(crate) paths: [Path; 2],
    in_flight: HashMap<u64, Vec<u8>>,
    next_id: u64,
    late: Vec<(Time, usize, Vec<u8>, Ecn)>,
    faults: Faults,
    random: Random,
    /// When each datagram left, up and down, and its bytes.
    pub(crate) left: [Vec<(Time, usize)>; 2],
    /// How many datagrams left with a codepoint, up and down.
    pub(crate) left_capable: [u64; 2],
    /// When packets left the link, up and down.
    pub(crate) departed: [Vec<Time>; 2],
    /// The prober vanishes.
    pub(crate) prober_gone: bool,
}

pub(crate) fn limits() -> ResponderLimits {
    ResponderLimits::default()
}

impl World {
    pub(crate) fn new(
        plan: Plan,
        paths: [Path; 2],
        faults: Faults,
        limits: ResponderLimits,
    ) -> Self {
        let mut next = RESPONDER_ID - 1;
        let responder = Responder::new(limits, [7; 32], move || {
            next += 1;
            next
        });
        let now = Time::from_millis(1);
        let prober =
            Prober::new(now, plan, address(RESPONDER), 0, PROBER_ID, Span::from_micros(20));
        Self {
            now,
            prober,
            responder,
            paths,
            in_flight: HashMap::new(),
            next_id: 0,
            late: Vec::new(),
            faults,
            random: Random::seeded(11, 1),
            left: [Vec::new(), Vec::new()],
            left_capable: [0; 2],
            departed: [Vec::new(), Vec::new()],
            prober_gone: false,
        }
    }

    /// Both sides protect their datagrams in this way.
    pub(crate) fn protected(mut self, prober: &Protection, responder: &Protection) -> Self {
        self.prober = self.prober.protected(prober);
        self.responder = self.responder.protected(responder);
        self
    }

    /// Runs until the prober is done or this time has come.
    pub(crate) fn run(&mut self, until: Time) {
        while self.now < until && (self.prober_gone || self.prober.outcome().is_none()) {
            self.send(0);
            self.send(1);
            let engines = [self.prober_deadline(), self.responder_deadline()];
            let paths = self.paths.iter().filter_map(Path::next_deadline);
            let late = self.late.iter().map(|late| late.0);
            let due = engines.into_iter().flatten().chain(paths).chain(late).min();
            self.now = self.now.max(due.unwrap_or(until)).min(until);
            self.arrive();
            if !self.prober_gone {
                self.prober.on_timer(self.now);
            }
            self.responder.on_timer(self.now + AHEAD);
            while self.responder.poll_line().is_some() {}
        }
    }

    fn prober_deadline(&self) -> Option<Time> {
        self.prober.next_deadline().filter(|_| !self.prober_gone)
    }

    fn responder_deadline(&self) -> Option<Time> {
        self.responder.next_deadline().map(|due| due - AHEAD)
    }

    fn send(&mut self, direction: usize) {
        let mut datagram = Vec::new();
        for _ in 0..100_000 {
            let departure = match direction {
                0 if self.prober_gone => None,
                0 => self.prober.poll_transmit(self.now, &mut datagram),
                _ => self.responder.poll_transmit(self.now + AHEAD, &mut datagram),
            };
            let Some(departure) = departure else { return };
            self.left_capable[direction] += u64::from(departure.ecn.is_capable());
            self.left[direction].push((self.now, datagram.len()));
            self.enter(direction, std::mem::take(&mut datagram), departure.ecn);
        }
        panic!("a hundred thousand datagrams at one instant");
    }

    fn enter(&mut self, direction: usize, datagram: Vec<u8>, ecn: Ecn) {
        self.next_id += 1;
        let size = datagram.len() as u32 + 28;
        self.paths[direction].push(Packet { ecn, ..Packet::new(self.next_id, 0, size, self.now) });
        self.in_flight.insert(self.next_id, datagram);
    }

    fn arrive(&mut self) {
        for direction in 0..2 {
            let mut fates = Vec::new();
            self.paths[direction].advance(self.now, &mut fates);
            for record in fates {
                let Some(mut datagram) = self.in_flight.remove(&record.packet.id) else { continue };
                if record.fate != Fate::Delivered {
                    continue;
                }
                let ecn = record.packet.ecn;
                self.departed[direction].push(record.packet.departed_at);
                if self.random.unit() < self.faults.damage {
                    let at = self.random.below(datagram.len() as u64) as usize;
                    datagram[at] ^= 1 << self.random.below(8);
                }
                if self.random.unit() < self.faults.duplicate {
                    self.deliver_with(direction, &datagram, ecn);
                }
                if self.random.unit() < self.faults.delay {
                    let at = self.now + Span::from_millis(self.random.below(80));
                    self.late.push((at, direction, datagram, ecn));
                } else {
                    self.deliver_with(direction, &datagram, ecn);
                }
            }
        }
        let now = self.now;
        let (due, late) = std::mem::take(&mut self.late).into_iter().partition(|l| l.0 <= now);
        self.late = late;
        let due: Vec<(Time, usize, Vec<u8>, Ecn)> = due;
        for (_, direction, datagram, ecn) in due {
            self.deliver_with(direction, &datagram, ecn);
        }
    }

    pub(crate) fn deliver(&mut self, direction: usize, datagram: &[u8]) {
        self.deliver_with(direction, datagram, Ecn::NotEct);
    }

    fn deliver_with(&mut self, direction: usize, datagram: &[u8], ecn: Ecn) {
        match direction {
            0 => {
                let at = self.now + AHEAD;
                self.responder.handle_datagram(at, address(PROBER), 0.into(), ecn, datagram);
            }
            _ if self.prober_gone => {}
            _ => {
                let from = address(RESPONDER);
                self.prober.handle_datagram(self.now, from, 0.into(), ecn, datagram);
            }
        }
    }

    pub(crate) fn finish(self) -> Recording {
        self.prober.into_recording()
    }
}
