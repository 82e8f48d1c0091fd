//! Results of runs as tables.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};
use cellpace_measure::{FlowFigures, Series, Summary, VideoFigures};
use cellpace_report::{Comparison, Run, SCHEMA};
use pyo3::exceptions::PyIndexError;
use pyo3::prelude::*;

use crate::error::refused;
use crate::logs::RunLog;
use crate::table::{ArrowTable, floats, integers, texts};

/// The result document of runs.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct Results {
    comparison: Comparison,
    /// Of each run, where they were kept.
    logs: Vec<RunLog>,
}

impl Results {
    pub(crate) fn new(comparison: Comparison, logs: Vec<RunLog>) -> Self {
        Self { comparison, logs }
    }

    fn log(&self, run: usize) -> PyResult<&RunLog> {
        if run >= self.comparison.runs.len() {
            return Err(PyIndexError::new_err(format!("there is no run {run}")));
        }
        let log = self.logs.get(run);
        log.ok_or_else(|| refused("no packets and events were kept: logs=True"))
    }
}

#[pymethods]
impl Results {
    /// Results from the document that [`Results::to_json`] writes.
    #[staticmethod]
    fn from_json(text: &str) -> PyResult<Self> {
        let read = serde_json::from_str(text);
        read.map(|comparison| Self::new(comparison, Vec::new())).map_err(refused)
    }

    /// One row for each run.
    fn runs(&self) -> PyResult<ArrowTable> {
        runs_table(&self.comparison.runs)
    }

    /// The document that `cellpace compare --json` writes.
    fn to_json(&self, py: Python<'_>) -> String {
        py.detach(|| cellpace_report::to_json(&self.comparison))
    }

    /// One row for each flow of each run.
    fn flows(&self) -> PyResult<ArrowTable> {
        flows_table(&self.comparison.runs)
    }

    /// Figures over time of one run, bin by bin.
    fn series(&self, run: usize) -> PyResult<ArrowTable> {
        let found = self.comparison.runs.get(run);
        let found = found.ok_or_else(|| PyIndexError::new_err(format!("there is no run {run}")))?;
        let series = found.series.as_ref();
        series_table(series.ok_or_else(|| refused("no figures over time were kept: series=True"))?)
    }

    /// What became of every packet of one run.
    fn packets(&self, run: usize) -> PyResult<ArrowTable> {
        self.log(run)?.packets_table()
    }

    /// What the controllers of one run decided.
    fn events(&self, run: usize) -> PyResult<ArrowTable> {
        self.log(run)?.events_table()
    }

    /// Number of runs.
    fn __len__(&self) -> usize {
        self.comparison.runs.len()
    }

    /// Whether figures over time were kept.
    fn has_series(&self) -> bool {
        self.comparison.runs.first().is_some_and(|run| run.series.is_some())
    }

    /// What to know of runs that do not vary over their seeds.
    fn unvaried(&self) -> Option<String> {
        self.comparison.unvaried()
    }

    /// The table that the program prints.
    fn text(&self) -> String {
        cellpace_report::table(&self.comparison)
    }
}

/// Columns named as the fields of the JSON document, with `_` between levels.
fn runs_table(runs: &[Run]) -> PyResult<ArrowTable> {
    let text = |value: fn(&Run) -> &str| texts(runs.iter().map(value));
    let float = |value: fn(&Run) -> f64| floats(runs.iter().map(value));
    let integer = |value: fn(&Run) -> u64| integers(runs.iter().map(value));
    let delays = |value: fn(&Run) -> &Summary| {
        let of = |part: fn(&Summary) -> f64| floats(runs.iter().map(|run| part(value(run))));
        [of(|s| s.mean), of(|s| s.p50), of(|s| s.p95), of(|s| s.p99), of(|s| s.max)]
    };
    let mut columns = vec![
        ("cc", text(|run| &run.cc)),
        ("trace", text(|run| &run.trace)),
        ("seed", integer(|run| run.seed)),
        ("rtt_ms", float(|run| run.rtt_ms)),
        ("queue", text(|run| &run.queue)),
        ("loss", float(|run| run.loss)),
        ("flows", integer(|run| run.flows as u64)),
        ("duration_s", float(|run| run.duration_s)),
        ("skip_s", float(|run| run.skip_s)),
        ("capacity_mbps", float(|run| run.figures.capacity_mbps)),
        ("throughput_mbps", float(|run| run.figures.throughput_mbps)),
        ("utilization", float(|run| run.figures.utilization)),
    ];
    let queue = delays(|run| &run.figures.queue_delay_ms);
    columns.extend(QUEUE_DELAY.into_iter().zip(queue));
    columns.extend(ONE_WAY_DELAY.into_iter().zip(delays(|run| &run.figures.one_way_delay_ms)));
    columns.extend(RTT_SEEN.into_iter().zip(delays(|run| &run.figures.rtt_ms_seen)));
    columns.extend([
        ("packets", integer(|run| run.figures.packets)),
        ("lost", integer(|run| run.figures.lost)),
        ("handover_drops", integer(|run| run.figures.handover_drops)),
        ("handovers", integer(|run| run.figures.handovers)),
        ("jain", float(|run| run.figures.jain)),
    ]);
    ArrowTable::new(SCHEMA, columns)
}

fn flows_table(runs: &[Run]) -> PyResult<ArrowTable> {
    let rows: Vec<(usize, usize, &FlowFigures)> = runs
        .iter()
        .enumerate()
        .flat_map(|(run, of)| {
            of.figures.per_flow.iter().enumerate().map(move |(at, f)| (run, at, f))
        })
        .collect();
    let float = |value: fn(&FlowFigures) -> f64| floats(rows.iter().map(|(_, _, f)| value(f)));
    let sent = |value: fn(&cellpace_measure::SenderFigures) -> u64| {
        let of = |row: &(usize, usize, &FlowFigures)| row.2.sender.as_ref().map(value);
        Arc::new(rows.iter().map(of).collect::<UInt64Array>()) as ArrayRef
    };
    let mut columns = vec![
        ("run", integers(rows.iter().map(|(run, _, _)| *run as u64))),
        ("flow", integers(rows.iter().map(|(_, flow, _)| *flow as u64))),
        ("cc", texts(rows.iter().map(|(_, _, f)| &*f.cc))),
        ("start_s", float(|f| f.start_s)),
        ("stop_s", float(|f| f.stop_s)),
        ("throughput_mbps", float(|f| f.throughput_mbps)),
    ];
    let delays = |value: fn(&FlowFigures) -> &Summary| {
        let of = |part: fn(&Summary) -> f64| floats(rows.iter().map(|(_, _, f)| part(value(f))));
        [of(|s| s.mean), of(|s| s.p50), of(|s| s.p95), of(|s| s.p99), of(|s| s.max)]
    };
    columns.extend(QUEUE_DELAY.into_iter().zip(delays(|f| &f.queue_delay_ms)));
    columns.extend(RTT_SEEN.into_iter().zip(delays(|f| &f.rtt_ms_seen)));
    columns.extend([
        ("lost", integers(rows.iter().map(|(_, _, f)| f.lost))),
        ("retransmitted", sent(|sender| sender.retransmitted)),
        ("timeouts", sent(|sender| sender.timeouts)),
    ]);
    // Missing where a flow is no video.
    let video = |value: fn(&VideoFigures) -> f64| {
        floats(rows.iter().map(|(_, _, f)| f.video.as_ref().map_or(f64::NAN, value)))
    };
    columns.extend([
        ("video_bitrate_mbps", video(|video| video.bitrate_mbps)),
        ("video_frame_delay_ms_mean", video(|video| video.frame_delay_ms.mean)),
        ("video_frame_delay_ms_p50", video(|video| video.frame_delay_ms.p50)),
        ("video_frame_delay_ms_p95", video(|video| video.frame_delay_ms.p95)),
        ("video_late", video(|video| video.late)),
        ("video_freezes", video(|video| video.freezes as f64)),
        ("video_frozen_s", video(|video| video.frozen_s)),
    ]);
    ArrowTable::new(SCHEMA, columns)
}

/// Columns of a flow's own have its number, from 0, at the end.
fn series_table(series: &Series) -> PyResult<ArrowTable> {
    let bins = series.throughput_mbps.len();
    let values = |values: &[f32]| {
        floats((0..bins).map(|bin| values.get(bin).map_or(f64::NAN, |value| f64::from(*value))))
    };
    let mut columns: Vec<(String, ArrayRef)> = vec![
        ("start_s".to_owned(), floats((0..bins).map(|bin| bin as f64 * series.bin_s))),
        ("capacity_mbps".to_owned(), values(&series.capacity_mbps)),
        ("throughput_mbps".to_owned(), values(&series.throughput_mbps)),
        ("queue_delay_p50_ms".to_owned(), values(&series.queue_delay_p50_ms)),
        ("queue_delay_p95_ms".to_owned(), values(&series.queue_delay_p95_ms)),
    ];
    let of_flows = [
        ("throughput_mbps", &series.flow_throughput_mbps),
        ("queue_delay_mean_ms", &series.flow_queue_delay_mean_ms),
        ("queue_delay_p95_ms", &series.flow_queue_delay_p95_ms),
        ("rto_ms", &series.rto_ms),
        ("cwnd_packets", &series.cwnd_packets),
    ];
    for (name, flows) in of_flows {
        let of_flow = flows.iter().enumerate();
        columns.extend(of_flow.map(|(flow, bins)| (format!("{name}_{flow}"), values(bins))));
    }
    let inside = series.inspected.iter().filter(|_| series.inspected_bin_s.is_none());
    columns.extend(inside.map(|value| (format!("inside_{}", value.name), values(&value.values))));
    ArrowTable::new(
        SCHEMA,
        columns.iter().map(|(name, column)| (&**name, column.clone())).collect(),
    )
}

const QUEUE_DELAY: [&str; 5] = [
    "queue_delay_ms_mean",
    "queue_delay_ms_p50",
    "queue_delay_ms_p95",
    "queue_delay_ms_p99",
    "queue_delay_ms_max",
];
const ONE_WAY_DELAY: [&str; 5] = [
    "one_way_delay_ms_mean",
    "one_way_delay_ms_p50",
    "one_way_delay_ms_p95",
    "one_way_delay_ms_p99",
    "one_way_delay_ms_max",
];
const RTT_SEEN: [&str; 5] = [
    "rtt_ms_seen_mean",
    "rtt_ms_seen_p50",
    "rtt_ms_seen_p95",
    "rtt_ms_seen_p99",
    "rtt_ms_seen_max",
];
