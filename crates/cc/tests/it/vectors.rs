//! Writes and compares `vectors/mdi-flow.json`, `vectors/pace.json` and `vectors/copa.json`, flows under these
//! controllers, and the built-in table as the library in Java carries it.

#[path = "../../../../vectors/compare.rs"]
mod compare;

use std::collections::VecDeque;
use std::fmt::Write;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerSpec, Random, RttEstimator, SentPacket, Setup, Span,
    Stamp, Time,
};
use compare::{compare, compare_bytes};

const MSS: u64 = 1500;
const STEPS: usize = 500;

/// A packet in flight, and when its ack comes.
struct Flying {
    packet: SentPacket,
    stamp: Stamp,
    acked_at: Time,
}

/// A flow over a link whose rate wanders, with an outage now and then, of an application that pauses at times.
struct Flow {
    controller: Box<dyn Controller>,
    draws: Random,
    rtt: RttEstimator,
    flying: VecDeque<Flying>,
    in_flight: u64,
    number: u64,
    link_free: Time,
    /// Packets that the application has.
    waiting: u64,
    lines: Vec<String>,
    /// When the next epoch ends, for which the controller does not ask where it has nothing to do.
    epoch_end: Time,
    state: fn(&dyn Controller) -> String,
}

/// That of the built-in table.
const EPOCH: Span = Span::from_millis(5);

impl Flow {
    fn new(name: &str, seed: u64, state: fn(&dyn Controller) -> String) -> Self {
        let spec: ControllerSpec = name.parse().unwrap();
        let setup = Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(seed, 0) };
        Self {
            controller: spec.build(setup),
            draws: Random::seeded(seed, 1),
            rtt: RttEstimator::default(),
            flying: VecDeque::new(),
            in_flight: 0,
            number: 0,
            link_free: Time::ZERO,
            waiting: 300,
            lines: Vec::new(),
            epoch_end: Time::ZERO + EPOCH,
            state,
        }
    }

    fn run(mut self) -> Vec<String> {
        self.send(Time::ZERO);
        while self.lines.len() < STEPS {
            let epoch = self.epoch_end;
            assert!(self.controller.next_deadline().is_none_or(|deadline| deadline == epoch));
            let ack = self.flying.front().map(|flying| flying.acked_at);
            let now = ack.map_or(epoch, |ack| ack.min(epoch));
            if now == epoch {
                // Somebody looks a little late.
                let now = now + Span::from_micros(self.draws.below(300));
                self.pass(now);
                self.send(now);
            } else {
                self.acknowledge(now);
                self.send(now);
            }
        }
        self.lines
    }

    /// The same of a controller without deadlines.
    fn run_by_acks(mut self) -> Vec<String> {
        self.waiting = 2000;
        self.send(Time::ZERO);
        while self.lines.len() < 4 * STEPS {
            assert_eq!(self.controller.next_deadline(), None);
            let acked_at = self.flying.front().map(|flying| flying.acked_at);
            let now = acked_at.unwrap_or(self.link_free + Span::from_millis(1500));
            if acked_at.is_some() {
                self.acknowledge(now);
            }
            if self.waiting == 0 && self.flying.is_empty() {
                self.waiting = 500;
            }
            self.send(now);
        }
        self.lines
    }

    fn pass(&mut self, now: Time) {
        self.controller.on_deadline(now);
        let epochs = now.since(Time::ZERO).as_nanos() / EPOCH.as_nanos();
        self.epoch_end = Time::ZERO + EPOCH * (epochs + 1);
        self.line(now, "\"due\": true");
        if self.waiting == 0 && self.draws.below(20) == 0 {
            self.waiting = self.draws.below(400);
        }
    }

    fn send(&mut self, now: Time) {
        while self.waiting > 0 && self.controller.permit().remaining(self.in_flight) >= MSS {
            self.waiting -= 1;
            let bytes = if self.waiting == 0 { 700 } else { MSS };
            self.in_flight += bytes;
            let app_limited = self.waiting == 0;
            let (number, in_flight) = (self.number, self.in_flight);
            let packet =
                SentPacket { now, number, bytes, in_flight, app_limited, retransmission: false };
            self.number += 1;
            let stamp = self.controller.on_sent(&packet);
            let outage = if self.draws.below(300) == 0 { 400_000 } else { 0 };
            let service = Span::from_micros(500 + self.draws.below(3_000) + outage);
            self.link_free = self.link_free.max(now) + service;
            let acked_at = self.link_free + Span::from_millis(20);
            self.flying.push_back(Flying { packet, stamp, acked_at });
            self.line(now, &format!("\"sent\": {bytes}, \"starved\": {app_limited}"));
        }
    }

    /// Some acks cover two packets.
    fn acknowledge(&mut self, now: Time) {
        let count = (1 + self.draws.below(2) as usize).min(self.flying.len());
        let prior_in_flight = self.in_flight;
        let packets: Vec<AckedPacket> = self
            .flying
            .drain(..count)
            .map(|Flying { packet, stamp, .. }| AckedPacket {
                number: packet.number,
                bytes: packet.bytes,
                sent_at: packet.now,
                rtt: now.since(packet.now),
                received_at: None,
                app_limited: packet.app_limited,
                ecn: Default::default(),
                stamp,
            })
            .collect();
        self.in_flight -= packets.iter().map(|packet| packet.bytes).sum::<u64>();
        self.controller.on_ack(&Ack {
            now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.in_flight,
            next_number: self.number,
            rtt: &self.rtt,
        });
        self.line(now, &format!("\"acked\": {count}"));
    }

    fn line(&mut self, now: Time, event: &str) {
        let mut line = String::new();
        let (ns, state) = (now.as_nanos(), (self.state)(self.controller.as_ref()));
        write!(line, "{{\"at_ns\": {ns}, {event}, {state}}}").unwrap();
        self.lines.push(line);
    }
}

fn mdi_state(controller: &dyn Controller) -> String {
    let (mut window, mut credit) = (0.0, 0.0);
    controller.inspect(&mut |name, value| match name {
        // In 1/65536 packets it is a whole number.
        "cwnd_pkts" => window = value * 65_536.0,
        "credit_pkts" => credit = value,
        _ => {}
    });
    format!("\"window\": {window}, \"credit\": {credit}")
}

/// The members of a state that `of` makes whole numbers of.
fn whole_numbers(
    controller: &dyn Controller,
    of: fn(&str, f64) -> Option<(&'static str, f64)>,
) -> String {
    let mut state = Vec::new();
    controller.inspect(&mut |name, value| {
        let member = of(name, value).map(|(name, whole)| format!("\"{name}\": {}", whole.round()));
        state.extend(member);
    });
    state.join(", ")
}

/// Windows, rates (packets per second) and ratios in 1/65536, durations in microseconds.
fn pace_state(controller: &dyn Controller) -> String {
    whole_numbers(controller, |name, value| match name {
        "cwnd_pkts" => Some(("window", value * 65_536.0)),
        "delivery_mbps" => Some(("rate", value * 1e6 / 8.0 / MSS as f64 * 65_536.0)),
        "headroom" => Some(("headroom", value * 65_536.0)),
        "base_rtt_ms" => Some(("base_us", value * 1e3)),
        "reach_ms" => Some(("reach_us", value * 1e3)),
        _ => None,
    })
}

/// The window in packets of 32 bits behind the point, 1/delta of 16, durations in microseconds.
fn copa_state(controller: &dyn Controller) -> String {
    whole_numbers(controller, |name, value| match name {
        "cwnd_pkts" => Some(("window", value * 4_294_967_296.0)),
        "delta" => Some(("inverse_delta", 65_536.0 / value)),
        "velocity" => Some(("velocity", value)),
        "slow_start" => Some(("slow_start", value)),
        "competitive" => Some(("competitive", value)),
        "srtt_ms" => Some(("srtt_us", value * 1e3)),
        "base_rtt_ms" => Some(("base_us", value * 1e3)),
        "standing_rtt_ms" => Some(("standing_us", value * 1e3)),
        _ => None,
    })
}

/// Compares a file of flows that acks alone drive.
fn compare_flows(name: &str, state: fn(&dyn Controller) -> String) {
    let flows = [1, 2].map(|seed| {
        let lines = Flow::new(name, seed, state).run_by_acks().join(",\n");
        format!("{{\"mss\": {MSS}, \"steps\": [\n{lines}\n]}}")
    });
    let flows = flows.join(",\n");
    compare(
        &format!("{name}.json"),
        &format!("{{\"schema\": \"cellpace.vectors.{name}/1\", \"flows\": [\n{flows}\n]}}\n"),
    );
}

#[test]
fn the_file_of_pace_holds_its_state_after_every_ack() {
    compare_flows("pace", pace_state);
}

#[test]
fn the_file_of_copa_holds_its_state_after_every_ack() {
    compare_flows("copa", copa_state);
}

#[test]
fn the_file_of_flows_holds_what_the_controller_gives() {
    let flows = [1, 2, 3].map(|seed| {
        // What the controller takes for its walk.
        let walk = Random::seeded(seed, 0).bits();
        let lines = Flow::new("mdi", seed, mdi_state).run().join(",\n");
        format!("{{\"seed\": \"{walk}\", \"mss\": {MSS}, \"steps\": [\n{lines}\n]}}")
    });
    let text = format!(
        "{{\"schema\": \"cellpace.vectors.mdi_flow/1\", \"flows\": [\n{}\n]}}\n",
        flows.join(",\n")
    );
    compare("mdi-flow.json", &text);
}

#[test]
fn the_file_of_the_built_in_table_in_java_is_the_one_here() {
    let spec: ControllerSpec = "mdi".parse().unwrap();
    let bytes = spec.markov_walk().unwrap().flat.to_bytes();
    compare_bytes("java/src/main/resources/cellpace/alcc/verus-r2.flat", &bytes);
}
