//! Datagrams of `cellpace probe`.

use std::net::SocketAddr;

use cellpace_base::{Ecn, Span, Time};
use cellpace_probe::wire::{self, ProbePacket};
use cellpace_probe::{OnOffStream, Pattern, Plan, Prober, Responder, ResponderLimits, analyse};
use cellpace_udp::wire::HEADER_BYTES;
use cellpace_udp::{DatagramGuard, Engine, Protection, SenderSide};

/// One datagram, as it is and with a checksum that is right, read, and given to a responder.
pub fn probe(bytes: &[u8]) {
    read(bytes);
    let mut sealed = bytes.to_vec();
    cellpace_udp::wire::seal(&mut sealed);
    read(&sealed);
    answer(&sealed);
}

fn read(bytes: &[u8]) {
    let Some((_, packet)) = wire::decode(bytes) else { return };
    if let ProbePacket::Report(report) = packet {
        assert!(report.records().count() <= bytes.len());
        assert!(report.records().map(|record| record.received_at).is_sorted());
    }
    if let ProbePacket::Hello(_, _, Some(plan)) = packet {
        let _ = (plan.check(), plan.rate());
    }
}

/// No answer is longer than what is answered.
fn answer(bytes: &[u8]) {
    let mut responder = Responder::new(ResponderLimits::default(), [7; 32], || 9);
    let from = SocketAddr::from(([192, 0, 2, 1], 1000));
    let now = Time::from_secs(1);
    responder.handle_datagram(now, from, 0.into(), Ecn::NotEct, bytes);
    let mut out = Vec::new();
    while responder.poll_transmit(now, &mut out).is_some() {}
    assert!(out.len() <= bytes.len());
    responder.on_timer(now + Span::from_secs(1));
}

/// What follows after so many datagrams is not looked at.
const MAX_DATAGRAMS: usize = 32;

/// The connection ids of both sides.
const IDS: [u64; 2] = [0x9e37, 0x5e55];

/// A prober and a responder in the middle of a session, to which datagrams come that neither sent,
/// in the form of the target `flow`; the first byte says what is measured, and whether under a key,
/// which whoever made them right has, too. The figures of whatever was recorded are made at the end.
pub fn probe_session(bytes: &[u8]) {
    let Some((&choice, mut rest)) = bytes.split_first() else { return };
    let protection = match choice & 0x80 {
        0 => Protection::default(),
        _ => wire::protection(&[3; 32]),
    };
    let mut guard = protection.guard(1 << 63);
    let mut session = ProbeSession::new(plan(choice), &protection);
    session.talk(8);
    for _ in 0..MAX_DATAGRAMS {
        let [how, length, more @ ..] = rest else { break };
        let (datagram, after) = more.split_at(more.len().min(usize::from(*length)));
        rest = after;
        session.now += Span::from_millis(u64::from(how >> 2));
        let mut datagram = datagram.to_vec();
        let side = usize::from(how & 1);
        if how & 2 != 0 && datagram.len() >= HEADER_BYTES {
            datagram[1..9].copy_from_slice(&IDS[side].to_be_bytes());
            datagram[9..17].copy_from_slice(&IDS[1 - side].to_be_bytes());
            seal(&mut guard, side, &mut datagram);
        }
        session.deliver(side, &datagram);
        session.talk(1);
    }
    session.talk(10);
    session.prober.stop();
    let document = analyse(&session.prober.into_recording(), "fuzz", "0");
    assert!(document.up.is_some() || document.down.is_some());
}

/// Protects a datagram for this side.
fn seal(guard: &mut DatagramGuard, side: usize, datagram: &mut Vec<u8>) {
    cellpace_udp::wire::seal(datagram);
    let sender = [SenderSide::Responder, SenderSide::Initiator][side];
    guard.seal(sender, datagram, datagram.len());
}

fn plan(choice: u8) -> Plan {
    let ms = Span::from_millis;
    Plan {
        up: choice & 1 == 0 || choice & 2 == 0,
        down: choice & 1 != 0 || choice & 2 == 0,
        size: 200,
        pattern: if choice & 4 != 0 {
            Pattern::Saturate { lower: ms(20), upper: ms(100) }
        } else {
            Pattern::Every(ms(5))
        },
        duration: ms(400),
        rival: (choice & 8 != 0).then_some(OnOffStream {
            interval: ms(10),
            on: ms(50),
            off: ms(50),
        }),
        ecn: if choice & 16 != 0 { Ecn::Ect1 } else { Ecn::NotEct },
    }
}

struct ProbeSession {
    now: Time,
    prober: Prober,
    responder: Responder,
}

impl ProbeSession {
    fn new(plan: Plan, protection: &Protection) -> Self {
        let now = Time::from_millis(1);
        let prober = Prober::new(now, plan, end(1), 0, IDS[0], Span::from_millis(1));
        let responder = Responder::new(ResponderLimits::default(), [7; 32], || IDS[1]);
        Self {
            now,
            prober: prober.protected(protection),
            responder: responder.protected(protection),
        }
    }

    fn side(&mut self, side: usize) -> &mut dyn Engine {
        if side == 0 { &mut self.prober } else { &mut self.responder }
    }

    fn deliver(&mut self, side: usize, datagram: &[u8]) {
        self.deliver_with(side, datagram, Ecn::NotEct);
    }

    fn deliver_with(&mut self, side: usize, datagram: &[u8], ecn: Ecn) {
        let now = self.now;
        self.side(side).handle_datagram(now, end(1 - side), 0.into(), ecn, datagram);
    }

    /// Lets both sides exchange what they have to say, for a bounded number of rounds.
    fn talk(&mut self, rounds: usize) {
        for _ in 0..rounds {
            for side in 0..2 {
                let now = self.now;
                self.side(side).on_timer(now);
                self.exchange(side);
            }
            while self.responder.poll_line().is_some() {}
            assert!(self.responder.sessions() <= ResponderLimits::default().sessions);
            let due = [self.prober.next_deadline(), self.responder.next_deadline()];
            let Some(due) = due.into_iter().flatten().min() else { return };
            self.now = self.now.max(due);
        }
    }

    fn exchange(&mut self, side: usize) {
        let mut datagram = Vec::new();
        for _ in 0..200 {
            let now = self.now;
            let Some(departure) = self.side(side).poll_transmit(now, &mut datagram) else { return };
            self.deliver_with(1 - side, &datagram, departure.ecn);
            datagram.clear();
        }
    }
}

fn end(side: usize) -> SocketAddr {
    SocketAddr::from(([192, 0, 2, 1 + side as u8], 1000))
}
