//! The laws in C (`bpf/pace.h`, `bpf/copa.h`) are in the state of those in Rust after every event.

use std::collections::VecDeque;
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::{Mutex, Once};
use std::thread;

use cellpace_cc::{
    Ack, AckedPacket, Controller, ControllerInfo, ControllerParams, ControllerSpec, Loss,
    LostPacket, Mark, Pacing, Permit, Random, RttEstimator, SentPacket, Setup, Span, Spurious,
    Stamp, Time, Timeout, params, register,
};
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{Scenario, run};
use serde_json::Value;

/// Events as `bpf/host.h` reads them, and the state of the law in Rust after each.
#[derive(Default)]
struct Record {
    events: String,
    states: Vec<String>,
}

impl Record {
    fn take(&mut self, event: std::fmt::Arguments<'_>, state: String) {
        writeln!(self.events, "{event}").unwrap();
        self.states.push(state);
    }
}

/// A law in Rust, whose events are written down.
struct Witness<'a> {
    law: Box<dyn Controller>,
    state: fn(&dyn Controller, u64) -> String,
    mss: u64,
    path_since: Time,
    record: &'a Mutex<Record>,
}

impl<'a> Witness<'a> {
    fn new(text: &str, setup: Setup, record: &'a Mutex<Record>) -> Self {
        let spec: ControllerSpec = text.parse().unwrap();
        let Setup { mss, start, .. } = setup;
        let words = spec.kernel_settings().unwrap().words;
        let settings: Vec<String> = words[1..].iter().map(u64::to_string).collect();
        let state = if spec.name() == "copa" { copa_state } else { pace_state };
        let witness = Self { law: spec.build(setup), state, mss, path_since: start, record };
        witness.write(format_args!("n {} {mss} {}", start.as_nanos(), settings.join(" ")));
        witness
    }

    fn write(&self, event: std::fmt::Arguments<'_>) {
        let state = (self.state)(self.law.as_ref(), self.mss);
        self.record.lock().unwrap().take(event, state);
    }
}

/// As `pace_host.c` prints it.
fn pace_state(pace: &dyn Controller, mss: u64) -> String {
    let mut values = [0.0; 8];
    pace.inspect(&mut |name, value| match name {
        "cwnd_pkts" => values[0] = value * 65_536.0,
        "delivery_mbps" => values[1] = value * 1e6 / 8.0 / mss as f64 * 65_536.0,
        "headroom" => values[2] = value * 65_536.0,
        "base_rtt_ms" => values[3] = value * 1e3,
        "reach_ms" => values[4] = value * 1e3,
        "queueing_ms" => values[5] = value * 1e3,
        "slow_start" => values[6] = value,
        "competitive" => values[7] = value,
        name => panic!("an unknown value {name}"),
    });
    let values: Vec<String> = values.iter().map(|value| format!("{:.0}", value.round())).collect();
    let pacing = pace.pacing().map_or(0.0, |pacing| pacing.rate.as_bytes_per_sec());
    format!("{} {pacing:.0}", values.join(" "))
}

/// As `copa_host.c` prints it.
fn copa_state(copa: &dyn Controller, _: u64) -> String {
    let mut values = [0.0; 8];
    copa.inspect(&mut |name, value| match name {
        "cwnd_pkts" => values[0] = value * 4_294_967_296.0,
        "delta" => values[1] = 65_536.0 / value,
        "velocity" => values[2] = value,
        "slow_start" => values[3] = value,
        "competitive" => values[4] = value,
        "srtt_ms" => values[5] = value * 1e3,
        "base_rtt_ms" => values[6] = value * 1e3,
        "standing_rtt_ms" => values[7] = value * 1e3,
        _ => {}
    });
    let values: Vec<String> = values.iter().map(|value| format!("{:.0}", value.round())).collect();
    let pacing = copa.pacing().map_or(0.0, |pacing| pacing.rate.as_bytes_per_sec());
    format!("{} {pacing:.0}", values.join(" "))
}

impl Controller for Witness<'_> {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        let stamp = self.law.on_sent(packet);
        let was_idle = packet.in_flight <= packet.bytes;
        self.write(format_args!("s {} {}", packet.now.as_nanos(), u8::from(was_idle)));
        stamp
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        // TCP does not know when packets arrived.
        let blind = |packet: &AckedPacket| AckedPacket { received_at: None, ..*packet };
        let packets: Vec<_> = ack.packets.iter().map(blind).collect();
        self.law.on_ack(&Ack { packets: &packets, ..*ack });
        let newest = packets.iter().map(|packet| packet.stamp.local[0]).max().unwrap();
        let (now, bytes) = (ack.now.as_nanos(), ack.bytes());
        let of_this_path = packets.iter().filter(|packet| packet.sent_at >= self.path_since);
        let Some(fastest) = of_this_path.min_by_key(|packet| packet.rtt) else {
            let (number, count) = (ack.newest().number, packets.len());
            let (next, limited) = (ack.next_number, u8::from(ack.newest().app_limited));
            return self.write(format_args!(
                "a {now} {bytes} {newest} 0 0 0 0 0 {number} {next} {count} {limited} 0"
            ));
        };
        self.write(format_args!(
            "a {now} {bytes} {newest} 1 {} {} {} {} {} {} {} {} {}",
            fastest.sent_at.as_nanos(),
            (fastest.rtt.as_nanos() / 1000).max(1),
            fastest.stamp.local[0],
            u8::from(fastest.app_limited),
            ack.newest().number,
            ack.next_number,
            packets.len(),
            u8::from(ack.newest().app_limited),
            fastest.rtt.as_nanos().max(1),
        ));
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.law.on_loss(loss);
        let newest = loss.packets.iter().map(|packet| packet.number).max().unwrap();
        self.write(format_args!(
            "l {} {} {newest} {} {} {}",
            loss.now.as_nanos(),
            loss.bytes(),
            loss.next_number,
            loss.rtt.latest().as_nanos() / 1000,
            loss.packets.len(),
        ));
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.law.on_mark(mark);
        let Mark { now, packets, newest, next_number, rtt, .. } = mark;
        let latest = rtt.latest().as_nanos() / 1000;
        let now = now.as_nanos();
        self.write(format_args!("m {now} {packets} {newest} {next_number} {latest}"));
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.law.on_timeout(timeout);
        self.write(format_args!("t {}", timeout.now.as_nanos()));
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        self.law.on_spurious(spurious);
        match spurious {
            Spurious::Timeout { now } => self.write(format_args!("u {}", now.as_nanos())),
            Spurious::Loss { packet, .. } => self.write(format_args!("x {}", packet.bytes)),
        }
    }

    fn on_path_change(&mut self, now: Time) {
        self.law.on_path_change(now);
        self.path_since = now;
        self.write(format_args!("p {}", now.as_nanos()));
    }

    fn permit(&self) -> Permit {
        self.law.permit()
    }

    fn pacing(&self) -> Option<Pacing> {
        self.law.pacing()
    }
}

/// `bpf/LAW_host.c`, compiled. `None`: no compiler is here, which was said.
fn compiled(law: &str, folder: &Path) -> Option<std::path::PathBuf> {
    let program = folder.join(law);
    let source = format!("{}/bpf/{law}_host.c", env!("CARGO_MANIFEST_DIR"));
    let options = ["-O1", "-Wall", "-Wextra", "-Werror", "-fsanitize=undefined"];
    match Command::new("cc").args(options).arg("-o").arg(&program).arg(source).status() {
        Ok(status) => assert!(status.success()),
        Err(error) => {
            cellpace_testing::skip(format_args!("no cc: {error}"));
            return None;
        }
    }
    Some(program)
}

/// Lets the law in C go through the events, and returns how many there were.
fn same(law: &str, record: &Mutex<Record>) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(law, folder.path()) else { return usize::MAX };
    let Record { events, states } = std::mem::take(&mut *record.lock().unwrap());
    let mut child =
        Command::new(program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut input = child.stdin.take().unwrap();
    let lines = events.clone();
    let writer = thread::spawn(move || input.write_all(lines.as_bytes()));
    let output = child.wait_with_output().unwrap();
    writer.join().unwrap().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), states.len());
    for ((found, wanted), event) in text.lines().zip(&states).zip(events.lines()) {
        assert_eq!(found, wanted, "{event} (window, rate, headroom, base, …)");
    }
    states.len()
}

/// A flow of any events that a datapath may report, in any order that it may report them in.
struct Anything<'a> {
    witness: Witness<'a>,
    draws: Random,
    rtt: RttEstimator,
    now: Time,
    number: u64,
    flying: VecDeque<(SentPacket, Stamp)>,
    lost: Vec<(SentPacket, Stamp)>,
}

impl Anything<'_> {
    /// Every order of magnitude from a microsecond to a minute is as likely as another.
    fn wait(&mut self) {
        let bits = 10 + self.draws.below(26);
        let usual = 100_000 + self.draws.below(20_000_000);
        let rare = (1 << bits) + self.draws.below(1 << bits);
        let nanos = if self.draws.below(4) == 0 { rare } else { usual };
        self.now += Span::from_nanos(nanos);
    }

    fn in_flight(&self) -> u64 {
        self.flying.iter().map(|(packet, _)| packet.bytes).sum()
    }

    fn send(&mut self) {
        for _ in 0..=self.draws.below(64) {
            let in_flight = self.in_flight();
            if self.witness.permit().remaining(in_flight) < self.witness.mss {
                return;
            }
            let bytes =
                if self.draws.below(8) == 0 { 1 + self.witness.mss / 2 } else { self.witness.mss };
            let app_limited = self.draws.below(30) == 0;
            let packet = SentPacket {
                now: self.now,
                number: self.number,
                bytes,
                in_flight: in_flight + bytes,
                app_limited,
                retransmission: false,
            };
            self.number += 1;
            let stamp = self.witness.on_sent(&packet);
            self.flying.push_back((packet, stamp));
        }
    }

    fn arrived(&self, (packet, stamp): (SentPacket, Stamp)) -> AckedPacket {
        AckedPacket {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.now,
            rtt: self.now - packet.now,
            received_at: None,
            app_limited: packet.app_limited,
            ecn: Default::default(),
            stamp,
        }
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.in_flight();
        let count = (1 + self.draws.below(20) as usize).min(self.flying.len());
        let from = if self.draws.below(4) > 0 { 0 } else { self.flying.len() - count };
        let packets: Vec<_> = self.flying.drain(from..from + count).collect();
        if packets.is_empty() {
            return;
        }
        let packets: Vec<_> = packets.into_iter().map(|packet| self.arrived(packet)).collect();
        self.rtt.sample(packets[0].rtt);
        self.witness.on_ack(&Ack {
            now: self.now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.in_flight(),
            next_number: self.number,
            rtt: &self.rtt,
        });
    }

    fn lose(&mut self) {
        let prior_in_flight = self.in_flight();
        let count = (1 + self.draws.below(6) as usize).min(self.flying.len());
        let gone: Vec<_> = self.flying.drain(..count).collect();
        if gone.is_empty() {
            return;
        }
        let packets: Vec<_> = gone
            .iter()
            .map(|(packet, stamp)| LostPacket {
                number: packet.number,
                bytes: packet.bytes,
                sent_at: packet.now,
                stamp: *stamp,
            })
            .collect();
        self.lost.extend(gone);
        self.witness.on_loss(&Loss {
            now: self.now,
            packets: &packets,
            prior_in_flight,
            in_flight: self.in_flight(),
            next_number: self.number,
            rtt: &self.rtt,
        });
    }

    fn mark(&mut self) {
        if self.number == 0 {
            return;
        }
        self.witness.on_mark(&Mark {
            now: self.now,
            packets: 1 + self.draws.below(3),
            newest: self.draws.below(self.number),
            prior_in_flight: self.in_flight(),
            in_flight: self.in_flight(),
            next_number: self.number,
            rtt: &self.rtt,
        });
    }

    fn time_out(&mut self) {
        let prior_in_flight = self.in_flight();
        let (now, next_number) = (self.now, self.number);
        self.witness.on_timeout(&Timeout { now, prior_in_flight, in_a_row: 1, next_number });
        if self.draws.below(2) == 0 {
            self.wait();
            self.witness.on_spurious(&Spurious::Timeout { now: self.now });
        } else {
            self.lost.extend(self.flying.drain(..));
        }
    }

    fn arrive_late(&mut self) {
        let Some(packet) = self.lost.pop() else { return };
        let packet = self.arrived(packet);
        self.witness.on_spurious(&Spurious::Loss { now: self.now, packet: &packet });
    }

    fn step(&mut self) {
        match self.draws.below(24) {
            0..=6 => self.wait(),
            7..=12 => self.send(),
            13..=19 => self.acknowledge(),
            20 => self.lose(),
            21 if self.draws.below(4) == 0 => self.time_out(),
            22 if self.draws.below(4) == 0 => self.mark(),
            _ => self.arrive_late(),
        }
    }
}

/// Random histories of a law with these parameters in turn.
fn run_histories(law: &str, parameters: &[&str]) {
    let record = Mutex::new(Record::default());
    for seed in 0..10_000 {
        let text = parameters[seed as usize % parameters.len()];
        let mss = [1, 1200, 1500, 9000][seed as usize / 4 % 4];
        let start = Time::from_millis(7);
        let setup = Setup { mss, start, random: Random::seeded(seed, 0) };
        let mut flow = Anything {
            witness: Witness::new(text, setup, &record),
            draws: Random::seeded(seed, 1),
            rtt: RttEstimator::default(),
            now: start,
            number: 0,
            flying: VecDeque::new(),
            lost: Vec::new(),
        };
        (0..60).for_each(|_| flow.step());
    }
    let events = same(law, &record);
    assert!(events > 400_000, "{events}");
}

#[test]
fn ten_thousand_random_histories_leave_both_laws_of_pace_in_the_same_state() {
    let parameters =
        ["pace", "pace:empty=5%", "pace:extra=10,memory=40ms", "pace:search=1s,learning=0.3"];
    run_histories("pace", &parameters);
}

#[test]
fn ten_thousand_random_histories_leave_both_laws_of_copa_in_the_same_state() {
    let parameters = [
        "copa",
        "copa:delta=0.02,mode=constant",
        "copa:code",
        "copa:velocity=code,velocity_cap=off,min_delta=0,min_window=4pkts",
    ];
    run_histories("copa", &parameters);
}

/// What `pace_host.c` prints first, by its names in `vectors/pace.json`.
const STATE_OF_PACE: &[&str] = &["window", "rate", "headroom", "base_us", "reach_us"];
/// The same of Copa.
const STATE_OF_COPA: &[&str] = &[
    "window",
    "inverse_delta",
    "velocity",
    "slow_start",
    "competitive",
    "srtt_us",
    "base_us",
    "standing_us",
];

#[test]
fn the_vectors_of_pace_hold_the_state_of_the_law_in_c() {
    hold("pace", include_str!("../../../../vectors/pace.json"), STATE_OF_PACE);
}

#[test]
fn the_vectors_of_copa_hold_the_state_of_the_law_in_c() {
    hold("copa", include_str!("../../../../vectors/copa.json"), STATE_OF_COPA);
}

/// Goes through `vectors/NAME.json`, whose states the law in Rust has written.
fn hold(name: &str, vectors: &str, names: &[&str]) {
    let record = Mutex::new(Record::default());
    let vectors: Value = serde_json::from_str(vectors).unwrap();
    let words = name.parse::<ControllerSpec>().unwrap().kernel_settings().unwrap().words;
    let settings: Vec<String> = words[1..].iter().map(u64::to_string).collect();
    for flow in vectors["flows"].as_array().unwrap() {
        record
            .lock()
            .unwrap()
            .take(format_args!("n 0 {} {}", flow["mss"], settings.join(" ")), String::new());
        replay(flow["steps"].as_array().unwrap(), names, &record);
    }
    let folder = tempfile::tempdir().unwrap();
    let Some(program) = compiled(name, folder.path()) else { return };
    let Record { events, states } = record.into_inner().unwrap();
    let input = folder.path().join("events");
    std::fs::write(&input, events).unwrap();
    let input = std::fs::File::open(input).unwrap();
    let output = Command::new(program).stdin(input).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(text.lines().count(), states.len());
    for (found, wanted) in text.lines().zip(&states).filter(|(_, wanted)| !wanted.is_empty()) {
        assert!(found.starts_with(wanted.as_str()), "{found} is not {wanted}");
    }
}

/// A packet in flight.
struct Flying {
    number: u64,
    sent_at: u64,
    bytes: u64,
    /// Bytes delivered when it left.
    stamp: u64,
    starved: bool,
}

/// Turns the steps of a file, whose acks cover the oldest packets, into events.
fn replay(steps: &[Value], names: &[&str], record: &Mutex<Record>) {
    let mut flying: VecDeque<Flying> = VecDeque::new();
    let (mut sent, mut delivered) = (0, 0);
    for step in steps {
        let number = |name: &str| step[name].as_u64().unwrap();
        let now = number("at_ns");
        let state: String = names.iter().map(|name| format!("{} ", number(name))).collect();
        let mut record = record.lock().unwrap();
        if let Some(bytes) = step["sent"].as_u64() {
            let is_idle = u8::from(flying.is_empty());
            let starved = step["starved"].as_bool().unwrap();
            flying.push_back(Flying {
                number: sent,
                sent_at: now,
                bytes,
                stamp: delivered,
                starved,
            });
            sent += 1;
            record.take(format_args!("s {now} {is_idle}"), state);
            continue;
        }
        let packets: Vec<Flying> = flying.drain(..number("acked") as usize).collect();
        let bytes: u64 = packets.iter().map(|packet| packet.bytes).sum();
        let stamp = packets.iter().map(|packet| packet.stamp).max().unwrap();
        // The first of those with the shortest RTT.
        let youngest = packets.iter().map(|packet| packet.sent_at).max().unwrap();
        let fastest = packets.iter().find(|packet| packet.sent_at == youngest).unwrap();
        let newest = packets.last().unwrap();
        let rtt = now - fastest.sent_at;
        record.take(
            format_args!(
                "a {now} {bytes} {stamp} 1 {} {} {} {} {} {sent} {} {} {}",
                fastest.sent_at,
                (rtt / 1000).max(1),
                fastest.stamp,
                u8::from(fastest.starved),
                newest.number,
                packets.len(),
                u8::from(newest.starved),
                rtt.max(1),
            ),
            state,
        );
        delivered += bytes;
    }
}

/// A rate that varies, a constant one with loss and delayed acks, a base RTT that moves, rivals, handovers, and an
/// application that pauses.
const SCENARIOS: [&str; 6] = [
    "trace = \"random:4mbit..40mbit/1s\"\nrtt = \"40ms\"\nduration = \"60s\"\n[[flow]]\ncc = \"witness\"\n",
    "trace = \"constant:48mbit\"\nrtt = \"30ms\"\nloss = \"1%\"\nacks = \"delayed:40ms\"\nduration = \"30s\"\n\
     [[flow]]\ncc = \"witness\"\n",
    "trace = \"constant:24mbit\"\nrtt = \"random:20ms..60ms/500ms\"\nduration = \"60s\"\n[[flow]]\ncc = \"witness\"\n",
    "trace = \"constant:24mbit\"\nrtt = \"40ms\"\nqueue = \"droptail:2bdp\"\nduration = \"60s\"\n[[flow]]\n\
     cc = \"witness\"\n[[flow]]\ncc = \"cubic\"\nstart = \"5s\"\n",
    "trace = \"constant:12mbit\"\nrtt = \"50ms\"\nduration = \"40s\"\n[[flow]]\ncc = \"witness\"\n[[handover]]\n\
     at = \"20s\"\nlength = \"200ms\"\nrtt = \"90ms\"\nrate = \"x0.6\"\n",
    "trace = \"random:4mbit..12mbit/1s\"\nrtt = \"20ms\"\nduration = \"60s\"\n[[flow]]\ncc = \"witness\"\n\
     onoff = { mean = \"300kB\", off = \"2s\" }\n",
];

static SIMULATED: [Mutex<Record>; 2] =
    [const { Mutex::new(Record { events: String::new(), states: Vec::new() }) }; 2];

params! {
    /// None.
    struct PaceWitnessParams {}
}

params! {
    /// None.
    struct CopaWitnessParams {}
}

impl ControllerParams for PaceWitnessParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Witness::new("pace", setup, &SIMULATED[0]))
    }
}

impl ControllerParams for CopaWitnessParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Witness::new("copa", setup, &SIMULATED[1]))
    }
}

/// Runs a law over the scenarios: one flow of it at a time, whose events do not mix.
fn run_simulations(law: &str, record: &Mutex<Record>) {
    static OWN: [ControllerInfo; 2] = [
        ControllerInfo::new::<PaceWitnessParams>("witness-pace", "Pace, whose events are written"),
        ControllerInfo::new::<CopaWitnessParams>("witness-copa", "Copa, whose events are written"),
    ];
    static ONCE: Once = Once::new();
    ONCE.call_once(|| register(&OWN).unwrap());
    let mut acks = 0;
    for text in SCENARIOS {
        let text = text.replace("witness", &format!("witness-{law}"));
        let mut no_files = TraceFiles::new(|name| panic!("{name}: a scenario here has no file"));
        let scenario = Scenario::from_toml("scenario", &text, &mut no_files).unwrap();
        let figures = run(&scenario).unwrap().figures;
        assert!(figures.throughput_mbps > 0.3, "{text}: {} Mbit/s", figures.throughput_mbps);
        acks += same(law, record);
    }
    assert!(acks > 200_000, "{acks}");
}

#[test]
fn the_packets_of_whole_simulations_leave_both_laws_of_pace_in_the_same_state() {
    run_simulations("pace", &SIMULATED[0]);
}

#[test]
fn the_packets_of_whole_simulations_leave_both_laws_of_copa_in_the_same_state() {
    run_simulations("copa", &SIMULATED[1]);
}
