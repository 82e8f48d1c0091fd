//! Datagrams of `cellpace probe`.

use std::net::SocketAddr;

use cellpace_base::{Span, Time};
use cellpace_probe::wire::{self, Packet};
use cellpace_probe::{Limits, Responder};
use cellpace_udp::Engine;

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
    if let Packet::Report(report) = packet {
        assert!(report.records().count() <= bytes.len());
        assert!(report.records().map(|record| record.received_at).is_sorted());
    }
    if let Packet::Hello(_, _, Some(plan)) = packet {
        let _ = (plan.check(), plan.rate());
    }
}

/// No answer is longer than what is answered.
fn answer(bytes: &[u8]) {
    let mut responder = Responder::new(Limits::default(), [7; 32], || 9);
    let from = SocketAddr::from(([192, 0, 2, 1], 1000));
    let now = Time::from_secs(1);
    responder.handle_datagram(now, from, 0.into(), bytes);
    let mut out = Vec::new();
    while responder.poll_transmit(now, &mut out).is_some() {}
    assert!(out.len() <= bytes.len());
    responder.on_timer(now + Span::from_secs(1));
}
