//! The result document that scripts rely on: `cellpace.compare/1`.

use std::collections::{BTreeMap, HashMap};

use cellpace_measure::{Figures, Interval, Series, Transfer, TransferSummary};
use serde::{Deserialize, Serialize};

/// The schema's name and version. Fields are only added within a version.
pub const SCHEMA: &str = "cellpace.compare/1";

/// The result of `compare` or `sim`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Comparison {
    /// [`SCHEMA`].
    pub schema: String,
    /// The version of the program.
    #[serde(default)]
    pub version: String,
    /// The command line that made it, without where its results go; empty where a program did.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub command: String,
    /// Every run.
    pub runs: Vec<Run>,
    /// Mean and confidence interval over the seeds, for each controller and trace that was run
    /// with more than one.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub repeated: Vec<Repeated>,
}

impl Comparison {
    /// The document of these runs, with intervals where a controller has several on a trace.
    pub fn of(runs: Vec<Run>) -> Self {
        let mut order: Vec<(&str, &str)> = Vec::new();
        let mut groups: HashMap<(&str, &str), Vec<&Figures>> = HashMap::new();
        for run in &runs {
            let key = (run.cc.as_str(), run.trace.as_str());
            let group = groups.entry(key).or_insert_with(|| {
                order.push(key);
                Vec::new()
            });
            group.push(&run.figures);
        }
        let repeated = order.into_iter().filter_map(|key| Repeated::of(key, &groups[&key]));
        Self {
            schema: SCHEMA.to_owned(),
            version: env!("CARGO_PKG_VERSION").to_owned(),
            command: String::new(),
            repeated: repeated.collect(),
            runs,
        }
    }
}

impl Repeated {
    /// `None` where there is only one run.
    fn of((cc, trace): (&str, &str), figures: &[&Figures]) -> Option<Self> {
        let of = |value: fn(&Figures) -> f64| {
            Interval::of(&figures.iter().map(|figures| value(figures)).collect::<Vec<_>>())
        };
        (figures.len() > 1).then_some(())?;
        Some(Self {
            cc: cc.to_owned(),
            trace: trace.to_owned(),
            throughput_mbps: of(|f| f.throughput_mbps)?,
            utilization: of(|f| f.utilization)?,
            queue_delay_mean_ms: of(|f| f.queue_delay_ms.mean)?,
            queue_delay_p50_ms: of(|f| f.queue_delay_ms.p50)?,
            queue_delay_p95_ms: of(|f| f.queue_delay_ms.p95)?,
            jain: of(|f| f.jain)?,
        })
    }
}

/// One run: what was asked and what came out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Run {
    /// The controller as written; for several kinds in one run, a list joined by ` + `.
    pub cc: String,
    /// The trace as written (a file without its folder).
    pub trace: String,
    /// The seed.
    pub seed: u64,
    /// Round-trip delay without queueing, in ms (of the first flow).
    pub rtt_ms: f64,
    /// The queue as written.
    pub queue: String,
    /// Share of packets lost at random, the mean over the run.
    pub loss: f64,
    /// Number of flows.
    pub flows: usize,
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// Left out at the start, in seconds.
    pub skip_s: f64,
    /// What else the path had, by the names of its fields: `uplink`, `handover`, `jitter`, ...
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub path: BTreeMap<String, String>,
    /// What came out.
    #[serde(flatten)]
    pub figures: Figures,
    /// How long the computation took, in seconds of wall time. `null` unless it was asked for:
    /// the same command gives the same bytes.
    pub wall_s: Option<f64>,
    /// Figures over time; not in documents of very many runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<Series>,
    /// Each transfer, where flows have them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfers: Vec<Transfer>,
    /// The transfers of each controller, all of its flows together.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub transfer_summary: Vec<TransferSummary>,
    /// How exact it was, where it ran in real time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub real_time: Option<RealTime>,
}

/// Which of the two directions of a link a run is of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum RealTimeDirection {
    /// Towards the program.
    #[default]
    Down,
    /// From the program.
    Up,
}

/// How exact a link was that forwarded real packets.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct RealTime {
    /// Which way the packets went; results of earlier versions do not say.
    #[serde(default)]
    pub direction: RealTimeDirection,
    /// Median of how much later than its time a packet left, in us.
    pub late_p50_us: f64,
    /// The same, 99th percentile.
    pub late_p99_us: f64,
    /// The same, at worst.
    pub late_max_us: f64,
    /// What the trace offered over the whole run, in Mbit/s; `null`: it had no limit.
    pub asked_mbps: Option<f64>,
    /// What left the link over the whole run, in Mbit/s.
    pub reached_mbps: f64,
    /// Packets that devices lost and not the model.
    pub lost_by_devices: u64,
    /// Whether the link had real-time priority.
    pub has_priority: bool,
}

/// Mean and 95 % confidence interval of one controller on one trace over several seeds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Repeated {
    /// The controller.
    pub cc: String,
    /// The trace.
    pub trace: String,
    /// Throughput in Mbit/s.
    pub throughput_mbps: Interval,
    /// Utilization.
    pub utilization: Interval,
    /// Mean queue delay in ms.
    pub queue_delay_mean_ms: Interval,
    /// Median queue delay in ms.
    pub queue_delay_p50_ms: Interval,
    /// 95th percentile of the queue delay in ms.
    pub queue_delay_p95_ms: Interval,
    /// Jain's index.
    pub jain: Interval,
}

/// A trace over time, for `trace show --plot`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TracePreview {
    /// The trace's name.
    pub name: String,
    /// Width of a bin in seconds.
    pub bin_s: f64,
    /// Length of the trace in seconds, the last bin may be cut.
    pub period_s: f64,
    /// Capacity in each bin, in Mbit/s.
    pub capacity_mbps: Vec<f32>,
}
