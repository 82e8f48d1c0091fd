//! The Verus paper's claims about cellular links, on generated profiles and, where
//! `CELLPACE_TRACES` names a folder of traces in Mahimahi format, on those too:
//!
//! - delays an order of magnitude below those of Cubic at comparable throughput (abstract and
//!   section 6), here with some R of the three that the paper studies;
//! - R trades delay for throughput (section 5.3).
//!
//! The buffer has 2 MB, which makes a delay of a second and more on all links but 5g-midband: there
//! it is 60 ms, and nobody has a delay that could be cut by ten. That profile is left out.

use std::fs::File;
use std::io::BufReader;
use std::sync::LazyLock;

use crate::common::{bulk, outcome, secs};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::Scenario;

const PROFILES: [&str; 4] = ["lte-driving", "lte-stationary", "umts-driving", "hspa-walking"];

/// "An order of magnitude", of the mean queue delay.
const DELAY_SHARE: f64 = 0.1;
/// "Comparable throughput".
const THROUGHPUT_SHARE: f64 = 0.75;
/// What throughput may fall by from one R to the next and still counts as not falling.
const TIE: f64 = 0.02;

#[derive(Debug, Clone, Copy)]
struct Point {
    mbps: f64,
    mean_ms: f64,
    p50_ms: f64,
}

/// Cubic, and Verus with R = 2, 4 and 6, on one path.
struct Comparison {
    name: String,
    cubic: Point,
    verus: [Point; 3],
}

impl Comparison {
    fn on(name: &str, path: &Scenario) -> Self {
        let point = |cc: &str| {
            let figures = outcome(&Scenario { flows: vec![bulk(cc)], ..path.clone() }).figures;
            Point {
                mbps: figures.throughput_mbps,
                mean_ms: figures.queue_delay_ms.mean,
                p50_ms: figures.queue_delay_ms.p50,
            }
        };
        let comparison = Self {
            name: format!("{name}, seed {}", path.seed),
            cubic: point("cubic"),
            verus: ["verus:r=2", "verus:r=4", "verus:r=6"].map(point),
        };
        println!("{}", comparison.row());
        comparison
    }

    /// For those who want to see the figures: throughput in Mbit/s, mean and median delay in ms.
    fn row(&self) -> String {
        let cell = |point: &Point| {
            format!("{:6.2} {:6.0} {:6.0}", point.mbps, point.mean_ms, point.p50_ms)
        };
        let verus: Vec<String> = self.verus.iter().map(cell).collect();
        format!("{:<36} cubic {} | verus {}", self.name, cell(&self.cubic), verus.join(" | "))
    }

    fn is_tenth_of_the_delay(&self, verus: &Point) -> bool {
        verus.mean_ms <= DELAY_SHARE * self.cubic.mean_ms
            && verus.mbps >= THROUGHPUT_SHARE * self.cubic.mbps
    }

    fn holds_for_some_r(&self) -> bool {
        self.verus.iter().any(|verus| self.is_tenth_of_the_delay(verus))
    }

    fn r_trades_delay_for_throughput(&self) -> bool {
        self.verus.windows(2).all(|pair| {
            pair[1].p50_ms > pair[0].p50_ms && pair[1].mbps >= (1.0 - TIE) * pair[0].mbps
        })
    }
}

/// Drawn twice each, compared once for all tests.
static ON_PROFILES: LazyLock<Vec<Comparison>> = LazyLock::new(profiles);
static ON_TRACES: LazyLock<Vec<Comparison>> = LazyLock::new(traces);

fn profiles() -> Vec<Comparison> {
    let path = |name: &str, seed| {
        Scenario { duration: secs(150), seed, ..Scenario::default() }
            .with_link(|link| link.down.trace = Some(name.parse().unwrap()))
    };
    let on = |name| [1, 2].map(|seed| Comparison::on(name, &path(name, seed)));
    PROFILES.into_iter().flat_map(on).collect()
}

/// All traces of the folder.
fn traces() -> Vec<Comparison> {
    let Ok(folder) = std::env::var("CELLPACE_TRACES") else {
        println!("left out: CELLPACE_TRACES does not name a folder of traces");
        return Vec::new();
    };
    let entries = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
    let is_trace = |name: &String| name.ends_with(".down") || name.ends_with(".up");
    let mut names: Vec<String> =
        entries.map(|path| path.display().to_string()).filter(is_trace).collect();
    names.sort();
    assert!(!names.is_empty(), "no .down and no .up in {folder}");
    let mut files = TraceFiles::new(|name| Ok(Box::new(BufReader::new(File::open(name)?))));
    let on = |name: &String| {
        let trace = TraceSpec::parse(name, &mut files).unwrap();
        let duration = trace.period().unwrap().min(secs(300));
        let path = Scenario { duration, ..Scenario::default() }
            .with_link(|link| link.down.trace = Some(trace));
        Comparison::on(name.rsplit('/').next().unwrap(), &path)
    };
    names.iter().map(on).collect()
}

#[track_caller]
fn assert_all(claim: &str, comparisons: &[Comparison], holds: fn(&Comparison) -> bool) {
    let fail: Vec<String> =
        comparisons.iter().filter(|one| !holds(one)).map(Comparison::row).collect();
    assert!(fail.is_empty(), "{claim} does not hold on\n{}", fail.join("\n"));
}

#[test]
fn verus_has_a_tenth_of_cubics_delay_on_the_profiles() {
    assert_all("a tenth of the delay", &ON_PROFILES, Comparison::holds_for_some_r);
}

#[test]
fn verus_with_r_2_alone_has_a_tenth_of_cubics_delay_on_the_profiles() {
    let holds = |one: &Comparison| one.is_tenth_of_the_delay(&one.verus[0]);
    assert_all("a tenth of the delay with R = 2", &ON_PROFILES, holds);
}

#[test]
fn verus_with_r_6_gives_away_hardly_any_throughput_on_the_profiles() {
    let holds = |one: &Comparison| {
        let verus = &one.verus[2];
        verus.mbps >= 0.9 * one.cubic.mbps && verus.mean_ms <= one.cubic.mean_ms / 4.0
    };
    let claim = "nine tenths of the throughput with R = 6";
    assert_all(claim, &ON_PROFILES, holds);
}

#[test]
fn r_trades_delay_for_throughput_on_the_profiles() {
    assert_all("the order of R", &ON_PROFILES, Comparison::r_trades_delay_for_throughput);
}

#[test]
fn verus_has_a_tenth_of_cubics_delay_on_real_traces() {
    assert_all("a tenth of the delay", &ON_TRACES, Comparison::holds_for_some_r);
}

#[test]
fn r_trades_delay_for_throughput_on_real_traces() {
    assert_all("the order of R", &ON_TRACES, Comparison::r_trades_delay_for_throughput);
}
