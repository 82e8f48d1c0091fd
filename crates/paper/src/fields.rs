//! What the records of runs hold, for checks: names, units, axes.

/// Values of a whole run, and those of each flow behind `flow.`: names as in the result document
/// `cellpace.compare/1`.
const RUN_FIELDS: &[&str] = &[
    "capacity_mbps",
    "throughput_mbps",
    "utilization",
    "queue_delay_ms",
    "one_way_delay_ms",
    "rtt_ms_seen",
    "packets",
    "lost",
    "jain",
    "retransmissions",
    // Jain's index and spread (standard deviation over mean) of the flows' throughputs in all.
    "shares",
    "spread",
];

/// Figures of a trace, of runs with `analysis = "trace"`: behind `trace.`.
const TRACE_FIELDS: &[&str] =
    &["mean_mbps", "burst_packets", "inter_burst_ms", "gap_ms", "outage_share", "cv_100ms"];

/// Figures of a trained Markov table and its samples, of runs with `train`: behind `table.`.
const TABLE_FIELDS: &[&str] = &[
    "samples",
    "states",
    "cells",
    "transitions",
    "dense_bytes",
    "file_bytes",
    "memory_bytes",
    // Shares of the transitions: to the same delay; of those among the first ten delays to larger
    // and to smaller ones.
    "diagonal",
    "above",
    "below",
    // Of the box with 99 % of the samples, in ms times packets.
    "area",
];

/// Values of such runs along an axis of that name.
const ALONG: [(&str, &[&str]); 3] = [
    ("window", &["packets", "cells_per_row"]),
    ("delay", &["value", "cells_per_row", "near"]),
    ("sample", &["delay_ms", "window_packets"]),
];

/// Figures of the learnt profile, of runs with `analysis = "profile"`: behind `profile.`.
const PROFILE_FIELDS: &[&str] =
    &["profile.correlation", "profile.least_step_ms", "profile.distance", "profile.follows_rate"];

/// Figures of times of arrival, of runs with `analysis = "arrivals"`: behind `arrivals.`.
const ARRIVAL_FIELDS: &[&str] =
    &["arrivals.together", "arrivals.burst_mean_packets", "arrivals.longest_gap_ms"];

/// Figures of predictors, of runs with `analysis = "predict"`: behind `predict.`.
const PREDICT_FIELDS: &[&str] = &[
    "predict.least_nrmse_20ms",
    "predict.least_nrmse_100ms",
    "predict.most_r2_20ms",
    "predict.most_r2_100ms",
    "predict.linear_r2_20ms",
    "predict.linear_r2_100ms",
];

const FLOW_FIELDS: &[&str] = &[
    "throughput_mbps",
    "queue_delay_ms",
    "one_way_delay_ms",
    "rtt_ms_seen",
    "lost",
    "start_s",
    "stop_s",
    "retransmitted",
    "timeouts",
    "spurious_timeouts",
    "spurious_losses",
    "rto_ms",
];

/// Values of each complete transfer.
const TRANSFER_FIELDS: &[&str] = &[
    "completion_ms",
    "goodput_mbps",
    "start_s",
    "handshake_rtt_ms",
    "min_rtt_ms",
    "mean_rtt_ms",
    "self_inflicted_ms",
    "largest_window_packets",
    "ramp_s",
    "packets_sent",
    "retransmitted",
    "timeouts",
    "spurious_timeouts",
    "rto_ms",
    "handovers",
    // On a radio layer only.
    "cells",
    "mean_sinr_db",
];

/// How the transfers of a flow ended: behind `flow.transfers.`.
const FLOW_TRANSFER_FIELDS: &[&str] =
    &["transfers.count", "transfers.complete", "transfers.timeout", "transfers.cut_off"];

/// Figures of a drive through a radio layer, of runs with `analysis = "radio"`: behind `radio.`.
const RADIO_FIELDS: &[&str] = &[
    "radio.sinr_p5_db",
    "radio.sinr_p50_db",
    "radio.share_above_20db",
    "radio.share_10_to_20db",
    "radio.share_qpsk",
    "radio.share_16qam",
    "radio.share_64qam",
    "radio.max_mbps",
    "radio.max_qpsk_mbps",
    "radio.max_16qam_mbps",
];

/// Values over time, where a run keeps its series.
const SERIES_FIELDS: &[&str] =
    &["capacity_mbps", "throughput_mbps", "queue_delay_p50_ms", "queue_delay_p95_ms"];

const FLOW_SERIES_FIELDS: &[&str] = &[
    "throughput_mbps",
    "cwnd_packets",
    "rto_ms",
    "queue_delay_mean_ms",
    "queue_delay_p95_ms",
    // How long packets of it have left the link in each bin.
    "busy_s",
];

const SUMMARIES: &[&str] = &["mean", "p50", "p95", "p99", "max"];

/// Where in a record a field is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// One value a run.
    Run,
    /// One a flow.
    Flow,
    /// One a transfer.
    Transfer,
    /// One a bin.
    Series,
    /// One a flow and bin.
    FlowSeries,
    /// One a place on an axis of this name.
    Along(&'static str),
}

/// Finds a field: where it is, and its name there. `queue_delay_ms.p95`, `flow.lost`,
/// `transfer.completion_ms`, `series.throughput_mbps`, `flow.series.throughput_mbps`.
pub(crate) fn find(name: &str) -> Result<(Place, &str), String> {
    let whole_runs = [PROFILE_FIELDS, PREDICT_FIELDS, ARRIVAL_FIELDS, RADIO_FIELDS];
    if whole_runs.iter().any(|known| known.contains(&name)) {
        return Ok((Place::Run, name));
    }
    if let Some(rest) =
        name.strip_prefix("flow.").filter(|rest| FLOW_TRANSFER_FIELDS.contains(rest))
    {
        return Ok((Place::Flow, rest));
    }
    if let Some((axis, rest)) = name.split_once('.')
        && let Some((axis, known)) = ALONG.iter().find(|(known, _)| *known == axis)
    {
        return match known.contains(&rest) {
            true => Ok((Place::Along(axis), rest)),
            false => Err(format!("unknown field `{name}`; {axis} has {}", known.join(", "))),
        };
    }
    let (place, rest, known) = if let Some(rest) = name.strip_prefix("trace.") {
        (Place::Run, rest, TRACE_FIELDS)
    } else if let Some(rest) = name.strip_prefix("table.") {
        (Place::Run, rest, TABLE_FIELDS)
    } else if let Some(rest) = name.strip_prefix("flow.series.") {
        (Place::FlowSeries, rest, FLOW_SERIES_FIELDS)
    } else if let Some(rest) = name.strip_prefix("transfer.") {
        (Place::Transfer, rest, TRANSFER_FIELDS)
    } else if let Some(rest) = name.strip_prefix("flow.") {
        (Place::Flow, rest, FLOW_FIELDS)
    } else if let Some(rest) = name.strip_prefix("series.") {
        (Place::Series, rest, SERIES_FIELDS)
    } else {
        (Place::Run, name, RUN_FIELDS)
    };
    let (field, summary) = rest.split_once('.').map_or((rest, None), |(a, b)| (a, Some(b)));
    let is_rto = place == Place::Flow && field == "rto_ms";
    let has_summary = is_rto
        || field.ends_with("_delay_ms")
        || field.ends_with("_seen")
        || matches!(field, "burst_packets" | "inter_burst_ms" | "gap_ms");
    let is_whole = match summary {
        Some(summary) if is_rto => ["p50", "p95"].contains(&summary),
        Some(summary) => has_summary && SUMMARIES.contains(&summary),
        None => !has_summary,
    };
    if known.contains(&field) && is_whole {
        return Ok((place, rest));
    }
    let hint = if known.contains(&field) { " (write, e.g., queue_delay_ms.p95)" } else { "" };
    Err(format!("unknown field `{name}`{hint}"))
}
