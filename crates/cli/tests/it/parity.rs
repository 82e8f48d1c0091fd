//! Parity: each controller on the same path in virtual time (`sim`) and with real packets (`link`
//! around `recv`, and `send` on its far side).
//!
//! Both are measured at the link: its own figures on one side, the simulator's on the other, over
//! the same time and without the same first seconds. A real flow begins when both programs have
//! started and shaken hands, some 0.3 s after the link; the capture of the link tells when, and the
//! simulated flow begins at that moment of the trace too.
//!
//! Some controllers depend on small differences: a millisecond decides whether a burst meets an
//! outage, and acks that come a little irregularly, as they do from any machine, are taken for more
//! bandwidth. So the simulator runs again with the flow a few milliseconds earlier and later, and
//! with a path whose delay varies by a fraction of a millisecond. A real run that lies outside of
//! all these differs.
//!
//! The short form is part of every run of the tests. The full form takes seven minutes and writes
//! what it finds to the file that `CELLPACE_PARITY` names.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

use crate::program::{Folder, number};
use pcap_file::pcapng::{Block, PcapNgReader};
use serde_json::{Value, json};

/// Controllers of the full form: all of the registry.
const CONTROLLERS: [&str; 19] = [
    "verus:r=2",
    "verus:r=6",
    "copa",
    "sprout",
    "pace",
    "bbr",
    "bbr3",
    "cubic",
    "newreno",
    "prague",
    "bic",
    "vegas",
    "westwood",
    "ledbat",
    "c2tcp",
    "vivace",
    "scream:max_rate=100mbit",
    "mdi",
    "fixed:cwnd=100kB",
];

/// Paths of the full form without recorded traces.
const PATHS: [&str; 4] = ["constant:12mbit", "lte-driving", "umts-driving", "hspa-walking"];

/// Recorded traces of the full form, where there are any.
const RECORDED: [&str; 2] = ["att-lte-driving", "city-drive"];

/// The queue of the full form.
const QUEUE: &str = "droptail:2MB";

/// What figures leave out: slow start is over by then.
const SKIP_S: f64 = 5.0;

/// How many milliseconds earlier and later a simulated flow begins to see what that changes. Whole
/// ones would leave it where it is among the opportunities of a link with one a millisecond.
const SHIFTS_MS: [f64; 16] =
    [-9.7, -6.9, -4.6, -2.8, -1.6, -0.8, -0.4, -0.2, 0.2, 0.4, 0.8, 1.6, 2.8, 4.6, 6.9, 9.7];

/// The base delay, and what timers and the scheduler of a machine make of it: a little more or less
/// all the time, or some 1.5 ms more for a moment, which is what the links' own lateness shows
/// at worst.
const RTTS: [&str; 4] =
    ["40ms", "random:40ms..40.2ms/10ms", "random:40ms..40.5ms/10ms", "step:40ms/490ms,41.5ms/10ms"];

/// One comparison.
#[derive(Clone)]
struct Case {
    cc: String,
    trace: String,
    queue: &'static str,
    seconds: u32,
}

/// The figures that are compared.
#[derive(Debug, Clone, Copy)]
struct Figures {
    mbps: f64,
    p50_ms: f64,
    p95_ms: f64,
}

/// A run with real packets.
struct Real {
    figures: Figures,
    lost: f64,
    /// When its first data entered the link, and when the run ended.
    start_s: f64,
    duration_s: f64,
    /// How late packets were: median, 99th percentile, maximum.
    late_us: [f64; 3],
    /// The link lost packets of its own, or says that something else was wrong.
    spoilt: bool,
}

/// How a real run lies to the simulated one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Verdict {
    /// Within the tolerances.
    Same,
    /// Within the tolerances of what the simulator does if little is changed.
    Within,
    Differs,
}

impl Figures {
    fn of(run: &Value) -> Self {
        Self {
            mbps: number(run, "/throughput_mbps"),
            p50_ms: number(run, "/queue_delay_ms/p50"),
            p95_ms: number(run, "/queue_delay_ms/p95"),
        }
    }

    fn parts(self) -> [f64; 3] {
        [self.mbps, self.p50_ms, self.p95_ms]
    }

    /// Each figure's tolerance about this run's: throughput 3 %, median 10 % or 2 ms, 95th
    /// percentile 15 % or 2 ms; `slack_ms` more for both delays.
    fn tolerances(self, slack_ms: f64) -> [f64; 3] {
        [
            0.03 * self.mbps,
            (0.10 * self.p50_ms).max(2.0) + slack_ms,
            (0.15 * self.p95_ms).max(2.0) + slack_ms,
        ]
    }

    fn json(self) -> Value {
        json!({ "throughput_mbps": self.mbps, "p50_ms": self.p50_ms, "p95_ms": self.p95_ms })
    }
}

fn judge(real: Figures, exact: Figures, changed: &[Figures], slack_ms: f64) -> Verdict {
    let lies_in = |range: &dyn Fn(usize) -> (Figures, Figures)| {
        (0..3).all(|part| {
            let (low, high) = range(part);
            let low = low.parts()[part] - low.tolerances(slack_ms)[part];
            let high = high.parts()[part] + high.tolerances(slack_ms)[part];
            (low..=high).contains(&real.parts()[part])
        })
    };
    if lies_in(&|_| (exact, exact)) {
        return Verdict::Same;
    }
    if lies_in(&|part| ends(part, exact, changed)) { Verdict::Within } else { Verdict::Differs }
}

/// The simulated runs with the smallest and the largest of a figure.
fn ends(part: usize, exact: Figures, changed: &[Figures]) -> (Figures, Figures) {
    let all = || changed.iter().copied().chain([exact]);
    let least = all().min_by(|a, b| a.parts()[part].total_cmp(&b.parts()[part]));
    let most = all().max_by(|a, b| a.parts()[part].total_cmp(&b.parts()[part]));
    (least.unwrap(), most.unwrap())
}

/// Whether links can be had here; says so if not.
fn possible() -> bool {
    let outcome = Folder::new().run("link --quiet --rtt 0ms -- true");
    if outcome.code != Some(0) {
        cellpace_testing::skip(format_args!("no links here: {}", outcome.stderr));
    }
    outcome.code == Some(0)
}

fn run_real(case: &Case) -> Real {
    let Case { cc, trace, queue, seconds } = case;
    let folder = Folder::new();
    let program = env!("CARGO_BIN_EXE_cellpace");
    let far =
        format!("exec '{program}' send --listen $CELLPACE_PEER:5260 --cc {cc} --duration 1h >&2");
    // The sender waits for the receiver, so it must be there first.
    let inside =
        format!("sleep 0.3; '{program}' recv $CELLPACE_PEER:5260 >&2 & exec sleep {seconds}");
    let skip = format!("{SKIP_S}s");
    let options = ["link", "--trace", trace, "--rtt", RTTS[0], "--queue", queue, "--skip", &skip];
    let outputs = ["--json", "out.json", "--log", "out.pcapng"];
    let commands = ["--far", &far, "--", "sh", "-c", &inside];
    let outcome = folder.run_args(options.into_iter().chain(outputs).chain(commands));
    assert_eq!(outcome.code, Some(0), "{cc} on {trace}: {}", outcome.stderr);
    let json: Value = serde_json::from_slice(&folder.read("out.json")).unwrap();
    let run = &json["runs"][0];
    Real {
        figures: Figures::of(run),
        lost: number(run, "/lost"),
        start_s: data_began(&folder.path("out.pcapng"), number(run, "/per_flow/0/start_s")),
        duration_s: number(run, "/duration_s"),
        late_us: lateness(&outcome.stderr),
        spoilt: outcome.stderr.contains("warning") || !outcome.stderr.contains(" 0 by devices"),
    }
}

/// When the first full packet entered the link, by the link's clock. The capture has a clock of
/// its own; the first packet inside left the link at `left_s`.
fn data_began(capture: &Path, left_s: f64) -> f64 {
    let mut reader = PcapNgReader::new(fs::File::open(capture).unwrap()).unwrap();
    let (mut first_inside, mut first_data) = (None, None);
    while let Some(block) = reader.next_block() {
        let Block::EnhancedPacket(packet) = block.unwrap() else { continue };
        let at = packet.timestamp.as_secs_f64();
        // The address family stands before each packet, in four bytes.
        match (packet.interface_id, packet.original_len) {
            (0, 1504) => first_data = first_data.or(Some(at)),
            // What comes from inside is seen there too, but its source is not the far side.
            (1, _) if is_from_far(&packet.data[4..]) => first_inside = first_inside.or(Some(at)),
            _ => {}
        }
        if let (Some(inside), Some(data)) = (first_inside, first_data) {
            return left_s + data - inside;
        }
    }
    panic!("no data in {}", capture.display());
}

/// Of the addresses of a link, the far side has the lower one.
fn is_from_far(packet: &[u8]) -> bool {
    packet[0] >> 4 == 4 && packet[9] == 17 && packet[12..16] < packet[16..20]
}

/// From the line that a link ends with.
fn lateness(said: &str) -> [f64; 3] {
    let line = said.lines().find(|line| line.contains("link: late")).unwrap();
    let words: Vec<&str> = line.split(' ').collect();
    ["p50", "p99", "max"].map(|name| {
        let place = words.iter().position(|word| *word == name).unwrap();
        words[place + 1].parse().unwrap()
    })
}

/// What else it could have been.
fn run_changed(case: &Case, real: &Real) -> Vec<Figures> {
    let all = SHIFTS_MS.iter().flat_map(|shift| RTTS.map(|rtt| (shift, rtt)));
    all.map(|(shift, rtt)| simulate(case, real, *shift, rtt)).collect()
}

fn simulate(case: &Case, real: &Real, shift_ms: f64, rtt: &str) -> Figures {
    let scenario = format!(
        "trace = \"{}\"\nrtt = \"{rtt}\"\nqueue = \"{}\"\nskip = \"{SKIP_S}s\"\n\
         duration = \"{}s\"\n[[flow]]\ncc = \"{}\"\nstart = \"{:.6}s\"\n",
        case.trace,
        case.queue,
        real.duration_s,
        case.cc,
        (real.start_s + shift_ms / 1e3).max(0.0)
    );
    let folder = Folder::with("run.toml", scenario);
    Figures::of(&folder.first_run("sim run.toml"))
}

/// One comparison's row of the table.
struct Row {
    case: Case,
    real: Real,
    sim: Figures,
    /// Simulated runs with little changed, if the exact one was another.
    changed: Vec<Figures>,
    verdict: Verdict,
}

impl Row {
    /// Runs both.
    fn new(case: &Case) -> Self {
        let real = run_real(case);
        let sim = simulate(case, &real, 0.0, RTTS[0]);
        // A packet that the machine hands over late waits longer than the model knows.
        let slack_ms = (real.late_us[1] / 1e3).min(2.0);
        let mut changed = Vec::new();
        let mut verdict = judge(real.figures, sim, &changed, slack_ms);
        if verdict != Verdict::Same {
            changed = run_changed(case, &real);
            verdict = judge(real.figures, sim, &changed, slack_ms);
        }
        Self { case: case.clone(), real, sim, changed, verdict }
    }

    /// The same, again if the machine was too busy, or if the runs differ: what only chance does
    /// is not there a second time.
    fn at_rest(case: &Case, attempts: usize) -> Self {
        let mut row = Self::new(case);
        for _ in 1..attempts {
            if row.verdict != Verdict::Differs && !row.is_disturbed() {
                break;
            }
            eprintln!("again: {}", row.line());
            let next = Self::new(case);
            if row.is_disturbed() || next.verdict != Verdict::Differs {
                row = next;
            }
        }
        row
    }

    /// Timers were so late that it shows in the figures.
    fn is_disturbed(&self) -> bool {
        self.real.spoilt || self.real.late_us[1] > 1_000.0
    }

    fn line(&self) -> String {
        let show = |figures: Figures| {
            format!("{:.3} Mbit/s {:.1} / {:.1} ms", figures.mbps, figures.p50_ms, figures.p95_ms)
        };
        let [p50, p99, max] = self.real.late_us;
        format!(
            "{:<17} {:<26} real {}, sim {}: {:?} (late {p50} {p99} {max} us, lost {})",
            self.case.cc,
            shown(&self.case.trace),
            show(self.real.figures),
            show(self.sim),
            self.verdict,
            self.real.lost,
        )
    }

    fn json(&self) -> Value {
        let range = |part: usize| {
            let (least, most) = ends(part, self.sim, &self.changed);
            [least.parts()[part], most.parts()[part]]
        };
        json!({
            "cc": self.case.cc,
            "trace": shown(&self.case.trace),
            "duration_s": self.real.duration_s,
            "start_s": self.real.start_s,
            "real": self.real.figures.json(),
            "sim": self.sim.json(),
            "sim_range": { "throughput_mbps": range(0), "p50_ms": range(1), "p95_ms": range(2) },
            "late_us": { "p50": self.real.late_us[0], "p99": self.real.late_us[1], "max": self.real.late_us[2] },
            "verdict": match self.verdict {
                Verdict::Same => "same",
                Verdict::Within => "within",
                Verdict::Differs => "differs",
            },
        })
    }
}

/// A trace's name without its folder.
fn shown(trace: &str) -> String {
    Path::new(trace).file_name().unwrap().to_string_lossy().into_owned()
}

/// Runs all cases, so many at a time; rows come in the order of the cases.
fn run_all(cases: &[Case], at_a_time: usize, attempts: usize) -> Vec<Row> {
    let waiting = Mutex::new(cases.iter().enumerate());
    let rows = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..at_a_time {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some((place, case)) = next else { return };
                    let row = Row::at_rest(case, attempts);
                    eprintln!("{}", row.line());
                    rows.lock().unwrap().push((place, row));
                }
            });
        }
    });
    let mut rows = rows.into_inner().unwrap();
    rows.sort_by_key(|(place, _)| *place);
    rows.into_iter().map(|(_, row)| row).collect()
}

#[test]
#[ignore = "takes long; part of ./dev test --all"]
fn controllers_do_with_real_packets_what_they_do_in_the_simulator() {
    if !possible() {
        return;
    }
    let case = |(cc, queue): (&str, &'static str)| Case {
        cc: cc.into(),
        trace: "constant:12mbit".into(),
        queue,
        seconds: 10,
    };
    let cases = [
        ("verus:r=2", QUEUE),
        ("copa", QUEUE),
        ("cubic", QUEUE),
        ("prague", "dualpi2:step=5ms"),
        ("cubic:ecn=true", "codel:ecn=true"),
    ];
    let rows = run_all(&cases.map(case), 3, 3);
    for row in rows {
        if row.is_disturbed() {
            eprintln!("not judged, since the machine was too busy each time: {}", row.line());
            continue;
        }
        assert_ne!(row.verdict, Verdict::Differs, "{}", row.line());
    }
}

#[test]
#[ignore = "takes seven minutes of real time; part of ./dev test --all"]
fn every_controller_does_with_real_packets_what_it_does_in_the_simulator() {
    if !possible() {
        return;
    }
    let cases: Vec<Case> = paths()
        .iter()
        .flat_map(|trace| {
            let case =
                |cc: &str| Case { cc: cc.into(), trace: trace.clone(), queue: QUEUE, seconds: 25 };
            CONTROLLERS.map(case)
        })
        .collect();
    let rows = run_all(&cases, 5, 2);
    if let Some(file) = std::env::var_os("CELLPACE_PARITY").filter(|file| !file.is_empty()) {
        let document = json!({ "skip_s": SKIP_S, "shifts_ms": SHIFTS_MS,
            "rtts": RTTS,
            "rows": rows.iter().map(Row::json).collect::<Vec<_>>() });
        fs::write(file, serde_json::to_string_pretty(&document).unwrap() + "\n").unwrap();
    }
    let differs = |row: &&Row| row.verdict == Verdict::Differs;
    let differing: Vec<String> = rows.iter().filter(differs).map(Row::line).collect();
    assert!(differing.is_empty(), "{}", differing.join("\n"));
}

fn paths() -> Vec<String> {
    let mut paths: Vec<String> = PATHS.iter().map(ToString::to_string).collect();
    if let Some(folder) = std::env::var_os("CELLPACE_TRACES").map(PathBuf::from) {
        let files = RECORDED.iter().map(|name| folder.join(format!("{name}.down")));
        paths.extend(files.filter(|file| file.is_file()).map(|file| file.display().to_string()));
    }
    paths
}

#[test]
fn a_run_is_judged_by_all_three_figures() {
    let figures = |mbps, p50_ms, p95_ms| Figures { mbps, p50_ms, p95_ms };
    let sim = figures(10.0, 30.0, 100.0);
    let judged = |real| judge(real, sim, &[figures(9.0, 40.0, 90.0)], 0.0);
    assert_eq!(judged(figures(9.8, 32.9, 114.0)), Verdict::Same);
    assert_eq!(judged(figures(9.8, 34.0, 100.0)), Verdict::Within);
    assert_eq!(judged(figures(9.0, 30.0, 77.0)), Verdict::Within);
    assert_eq!(judged(figures(9.0, 30.0, 76.0)), Verdict::Differs);
    assert_eq!(judged(figures(10.4, 30.0, 100.0)), Verdict::Differs);
    assert_eq!(judged(figures(10.0, 26.0, 100.0)), Verdict::Differs);
    assert_eq!(judged(figures(10.0, 30.0, 120.0)), Verdict::Differs);
}
