//! Named sets of traces, and what stands for a trace where its file is not there.

use cellpace_path::schedule::Trace;
use sha2::{Digest, Sha256};

/// Sets of traces by the names that claims use.
const SETS: [(&str, &[&str]); 6] = [
    ("hspa", &["campus-walk", "city-drive", "highway-drive", "highway-3g", "beachfront-walk"]),
    (
        "merged",
        &["mdi/channel00", "mdi/channel03", "mdi/channel05", "mdi/channel08", "mdi/channel11"],
    ),
    ("lte", &["verizon-lte-short", "att-lte-driving"]),
    ("umts", &["tmobile-umts-driving"]),
    (
        "alcc",
        &[
            "verizon-lte-short",
            "rapid-change",
            "highway-3g",
            "city-drive",
            "campus-walk",
            "highway-drive",
            "beachfront-walk",
        ],
    ),
    ("up", &["att-lte-driving.up", "verizon-lte-short.up", "tmobile-umts-driving.up"]),
];

/// What stands for each trace, the best first: the first that this version of the library has.
const STAND_INS: [(&str, &[&str]); 13] = [
    ("campus-walk", &["hspa-walking"]),
    ("city-drive", &["hspa-city", "hspa-walking"]),
    ("highway-drive", &["hspa-highway", "hspa-walking"]),
    ("highway-3g", &["hspa-fast", "hspa-walking"]),
    ("beachfront-walk", &["hspa-beach", "hspa-walking"]),
    ("mdi/", &["hspa-merged", "hspa-walking"]),
    ("verizon-lte-short", &["lte-driving"]),
    ("att-lte-driving", &["lte-driving"]),
    ("tmobile-umts-driving", &["umts-driving"]),
    ("rapid-change", &["random:3.5mbit..16.5mbit/5s"]),
    ("att-lte-driving.up", &["lte-driving"]),
    ("verizon-lte-short.up", &["lte-driving"]),
    ("tmobile-umts-driving.up", &["umts-driving"]),
];

/// The traces of a set.
pub fn members(set: &str) -> Option<&'static [&'static str]> {
    SETS.iter().find(|(name, _)| *name == set).map(|(_, members)| *members)
}

/// Whether this is a recorded trace that claims may name.
pub(crate) fn is_recorded(trace: &str) -> bool {
    stand_ins(trace).is_some()
}

fn stand_ins(trace: &str) -> Option<&'static [&'static str]> {
    // Several joined, or one at another rate.
    let trace = trace.split(['+', '*']).next()?;
    let is_it = |name: &str| name == trace || (name.ends_with('/') && trace.starts_with(name));
    STAND_INS.iter().find(|(name, _)| is_it(name)).map(|(_, names)| *names)
}

/// What is generated in place of a recorded trace.
pub(crate) fn stand_in(trace: &str) -> Option<&'static str> {
    let exists = |name: &&&str| name.parse::<cellpace_path::TraceSpec>().is_ok();
    stand_ins(trace)?.iter().find(exists).copied()
}

/// The file of a trace below the folder of traces.
pub(crate) fn file_name(trace: &str) -> String {
    if trace.ends_with(".up") { trace.to_owned() } else { format!("{trace}.down") }
}

/// What a result depends on of a trace.
pub(crate) fn digest(trace: &Trace) -> String {
    let mut hash = Sha256::new();
    for at in trace.millis() {
        hash.update(at.to_le_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
