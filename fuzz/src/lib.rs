//! What fuzzers feed: one function for each kind of input that comes from outside. Each must
//! return for any bytes, without a panic and with memory in proportion to what it was given.
//!
//! `./dev fuzz` searches, beginning with the inputs in `corpus/` and keeping new ones apart. The
//! corpora are replayed by `cargo test`, and single files, such as those that a fuzzer found, by
//! `cargo run -p cellpace-fuzz --bin trace FILE...`.

mod alcc;
mod control;
// No program of tests of its own: cargo would build every fuzz target for it.
#[cfg(test)]
mod corpus;
mod endpoint;
mod files;
mod live;
mod on_path;
mod probe;
mod proxy;
mod quic;
mod script;
mod udp;

use std::io::{Cursor, Write};

use cellpace_base::{
    Ecn, Random, Rate, Span, Time, format_bytes, parse_bytes, parse_fraction, parse_number,
    parse_span, parse_window,
};
use cellpace_cc::{ControllerSpec, Setup};
use cellpace_mdi::{
    Analysis, Empty, Flat, Model, OutOfRange, Table, TableShape, matrix_csv, read_samples,
    test_vector, write_samples,
};
use cellpace_path::profile::LinkProfile;
use cellpace_path::queue::Bottleneck;
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_path::{Packet, QueueSpec, TraceSpec};
use cellpace_sim::{AckPolicy, FlowSpec, Scenario, run};

pub use alcc::{alcc_frames, alcc_hello};
pub use control::control;
pub use endpoint::{dial, listen};
pub use files::{document, parquet, policy, sweep, url_path};
pub use live::live;
pub use on_path::on_path;
pub use probe::{probe, probe_session};
pub use proxy::{proxy_header, socks5};
pub use quic::quic_stream;
pub use udp::{datagram, flow};

/// A target: something that reads bytes from outside.
pub type Target = fn(&[u8]);

/// All targets by name; each has a folder of that name in `corpus/`.
pub const TARGETS: &[(&str, Target)] = &[
    ("trace", trace),
    ("path", path),
    ("controller", controller),
    ("scenario", scenario),
    ("mdi_file", mdi_file),
    ("mdi_csv", mdi_csv),
    ("mdi_samples", mdi_samples),
    ("datagram", datagram),
    ("flow", flow),
    ("listen", listen),
    ("dial", dial),
    ("on_path", on_path),
    ("probe", probe),
    ("probe_session", probe_session),
    ("alcc_frames", alcc_frames),
    ("alcc_hello", alcc_hello),
    ("socks5", socks5),
    ("proxy_header", proxy_header),
    ("control", control),
    ("live", live),
    ("policy", policy),
    ("sweep", sweep),
    ("document", document),
    ("parquet", parquet),
    ("url_path", url_path),
    ("quic_stream", quic_stream),
];

/// The longest simulation: long enough for a few round trips.
const RUN: Span = Span::from_millis(100);

/// A window in bytes with which a simulation is started at most; more is right, and slow.
const START_WINDOW: u64 = 1_500_000;

/// A trace file, and what can be done with what was read.
pub fn trace(bytes: &[u8]) {
    for name in ["fuzz.csv", "fuzz.json", "fuzz.pcap"] {
        if let Ok(recording) =
            cellpace_lab::trace::read_trace(name, Box::new(Cursor::new(bytes.to_vec())))
        {
            assert!(recording.trace.period() >= Span::from_millis(1), "{name}");
            assert!(recording.loss.is_none_or(|loss| (0.0..=1.0).contains(&loss.mean())));
        }
    }
    let Ok(trace) = Trace::read("fuzz", bytes) else { return };
    let mut written = Vec::new();
    trace.write(&mut written).expect("memory takes everything");
    assert_eq!(Trace::read("again", written.as_slice()).as_ref(), Ok(&trace));
    assert!(trace.period() >= Span::from_millis(1));
    assert!(trace.mean_rate() > Rate::from_bps(0) || trace.period() > Span::from_secs(1));
    cellpace_path::fuzz::fuzz_inputs(bytes);
}

/// The written forms of everything that describes a path, profiles, and quantities.
pub fn path(bytes: &[u8]) {
    cellpace_path::fuzz::fuzz_inputs(bytes);
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    quantities(text);
    if let Ok(spec) = text.parse::<QueueSpec>() {
        assert_eq!(spec.to_string().parse(), Ok(spec.clone()));
        fill(&spec);
    }
    if let Ok(spec) = TraceSpec::parse(text, &mut files()) {
        let again = TraceSpec::parse(&spec.to_string(), &mut files());
        assert_eq!(again.as_ref(), Ok(&spec));
        assert!(spec.period().is_none_or(|period| !period.is_zero()));
    }
    if let Ok(profile) = text.parse::<LinkProfile>() {
        let again = profile.to_string().parse::<LinkProfile>();
        assert_eq!(again.as_ref().map(ToString::to_string), Ok(profile.to_string()));
    }
    let _ = text.parse::<AckPolicy>();
}

/// A controller string, and a short run of what it names.
pub fn controller(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let spec = match text.parse::<ControllerSpec>() {
        Ok(spec) => spec,
        Err(error) => {
            assert!(!error.to_string().is_empty());
            return;
        }
    };
    let again: ControllerSpec = spec.to_string().parse().expect("what is written reads back");
    assert_eq!(format!("{again:?}"), format!("{spec:?}"));
    simulate(Scenario { flows: vec![FlowSpec::bulk(spec)], ..Scenario::default() });
}

/// A scenario in TOML, and the beginning of its run.
pub fn scenario(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Scenario::from_toml("fuzz", text, &mut files()) {
        Ok(scenario) => simulate(scenario),
        Err(error) => assert!(error.to_string().starts_with("fuzz"), "{error}"),
    }
}

/// A Markov table's file, also with the length and the checksum that belong to its content: no
/// fuzzer guesses those.
pub fn mdi_file(bytes: &[u8]) {
    model(bytes);
    if let (Some(start), Some(content)) = (bytes.get(..10), bytes.get(18..bytes.len().max(22) - 4))
    {
        let length = (bytes.len() as u64).to_le_bytes();
        let mut whole = [start, &length, content].concat();
        whole.extend(crc32fast::hash(&whole).to_le_bytes());
        model(&whole);
    }
}

/// A matrix in CSV.
pub fn mdi_csv(bytes: &[u8]) {
    let Ok(model) = Model::from_matrix_csv(bytes) else { return };
    assert_eq!(Model::from_bytes(&model.to_bytes()).as_ref(), Ok(&model));
    let counts = model.combined();
    let written = matrix_csv(&model.states, &counts, 0.0).expect("it came from such a text");
    let again = Model::from_matrix_csv(written.as_bytes()).expect("what is written reads back");
    assert_eq!(again.states, model.states);
    assert_eq!(again.combined().cells().len(), counts.cells().len());
}

/// A file of samples.
pub fn mdi_samples(bytes: &[u8]) {
    let Ok(watched) = read_samples(bytes) else { return };
    let mut written = Vec::new();
    write_samples(&mut written, &watched).expect("memory takes everything");
    let again = read_samples(&written).expect("what is written reads back");
    let chains = |all: &[cellpace_mdi::LoggedFlows]| -> usize {
        all.iter().flat_map(|one| &one.chains).map(Vec::len).sum()
    };
    assert_eq!(chains(&again), chains(&watched));
}

fn model(bytes: &[u8]) {
    let Ok(model) = Model::from_bytes(bytes) else { return };
    assert_eq!(model.to_bytes(), bytes, "a model has one form");
    let counts = model.combined();
    let analysis = Analysis::of(&model.states, &counts, 3);
    assert!(analysis.cells as usize == counts.cells().len() && analysis.density <= 1.0);
    // A table has a word for each delay, whatever the model says of it.
    if model.states.len() > 100_000 {
        return;
    }
    let flat = Flat {
        table: Table::new(model.states, &counts, TableShape::default()),
        epoch_us: model.about.epoch_us,
        empty: Empty::Near,
        out_of_range: OutOfRange::default(),
        loss_factor: 45_875,
    };
    assert!(!flat.to_bytes().is_empty());
    assert_eq!(test_vector(&flat, 1, 200).len(), 200);
}

/// Runs a target on the files that the command line names.
///
/// # Errors
/// When a file cannot be read.
pub fn replay(target: Target) -> std::io::Result<()> {
    for name in std::env::args_os().skip(1) {
        target(&std::fs::read(&name)?);
        writeln!(std::io::stdout(), "{}: returned", name.display())?;
    }
    Ok(())
}

/// Whatever file is named holds a short trace, which no table of delays and no profile is.
fn files() -> TraceFiles<'static> {
    TraceFiles::new(|name| match name {
        "delays" => Ok(Box::new("0 10\n500 20.5\n".as_bytes())),
        _ => Ok(Box::new("1\n2\n4\n".as_bytes())),
    })
}

fn quantities(text: &str) {
    if let Ok(span) = parse_span(text) {
        assert_eq!(parse_span(&span.to_string()), Ok(span));
    }
    if let Ok(bytes) = parse_bytes(text) {
        // Above 2^53 the number in the text has fewer digits than the size.
        assert!(bytes > 1 << 53 || parse_bytes(&format_bytes(bytes)) == Ok(bytes));
    }
    if let Ok(rate) = text.parse::<Rate>() {
        assert!(rate.as_bps() > 1 << 53 || rate.to_string().parse() == Ok(rate));
    }
    if let Ok(fraction) = parse_fraction(text) {
        assert!((0.0..=1.0).contains(&fraction));
    }
    assert!(parse_number(text).is_ok_and(f64::is_finite) || parse_number(text).is_err());
    let _ = parse_window(text);
}

/// Every packet that enters a queue leaves it or is dropped, once.
fn fill(spec: &QueueSpec) {
    let link = || Bottleneck { rate: Rate::from_mbps(12.0), rtt: Span::from_millis(40) };
    let mut queue = spec.build(Random::seeded(1, 1), link);
    let mut drops = Vec::new();
    let mut left = 0;
    for id in 0..64 {
        let now = Time::from_millis(id);
        let size = if id % 7 == 0 { 60 } else { 1500 };
        let ecn = Ecn::from_bits((id / 3) as u8);
        let packet = Packet { ecn, ..Packet::new(id, (id % 3) as u32, size, now) };
        queue.enqueue(now, packet, &mut drops);
        left += usize::from(id % 2 == 0 && queue.dequeue(now, &mut drops).is_some());
    }
    while queue.packets() > 0 {
        left += usize::from(queue.dequeue(Time::from_secs(9), &mut drops).is_some());
    }
    assert_eq!((left + drops.len(), queue.bytes()), (64, 0));
}

/// Runs the beginning of a scenario, if that is not much work.
fn simulate(scenario: Scenario) {
    let setup = || Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 1) };
    let windows = scenario.flows.iter().filter_map(|flow| flow.cc.as_ref());
    let window = windows.map(|cc| cc.build(setup()).cwnd()).fold(0, u64::saturating_add);
    if scenario.flows.len() > 20 || window > START_WINDOW {
        return;
    }
    let duration = scenario.duration.min(RUN);
    let bin = scenario.bin.max(duration / 10).max(Span::from_millis(1));
    let scenario = Scenario { duration, bin, skip: Span::ZERO, ..scenario };
    if let Ok(outcome) = run(&scenario) {
        let figures = outcome.figures;
        // A packet that began to leave before the run may end in it.
        assert!((0.0..=2.0).contains(&figures.utilization) || figures.packets < 2);
        assert!(figures.jain > 0.0 && figures.jain <= 1.000_001, "{}", figures.jain);
        assert_eq!(figures.per_flow.len(), scenario.flows.len());
    }
}
