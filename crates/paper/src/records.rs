//! What a run leaves, and its values as tables.

use std::sync::Arc;

use cellpace_lab::Run;
use cellpace_measure::{TransferSummary, jain_index};
use cellpace_sim::{Outcome, Scenario};
use serde_json::{Value, json};

use crate::fields::{self, Place};
use crate::recording::Recording;
use crate::table::{Coordinates, Row, Table};
use crate::unit::of_field;

/// The record of a run: the fields of `cellpace.compare/1`, and what only checks use.
pub(crate) fn record(scenario: &Scenario, outcome: Outcome, keeps_series: bool) -> Value {
    let throughputs: Vec<f64> =
        outcome.figures.per_flow.iter().map(|flow| flow.throughput_mbps).collect();
    let run = Run {
        cc: scenario.flow_names(),
        trace: scenario.trace().to_string(),
        seed: scenario.seed,
        rtt_ms: scenario.base_rtt().as_millis_f64(),
        queue: scenario.link.down.queue.to_string(),
        loss: scenario.link.down.loss.mean_until(scenario.duration),
        flows: scenario.flows.len(),
        duration_s: scenario.duration.as_secs_f64(),
        skip_s: scenario.skip.as_secs_f64(),
        figures: outcome.figures,
        wall_s: None,
        series: keeps_series.then_some(outcome.series),
        transfer_summary: TransferSummary::per_cc(&outcome.transfers),
        real_time: None,
        transfers: outcome.transfers,
    };
    let retransmissions = outcome.retransmissions;
    let mut record = serde_json::to_value(run).unwrap_or_default();
    record["retransmissions"] = json!(retransmissions);
    record["shares"] = json!(jain_index(&throughputs));
    record["spread"] = json!(spread(&throughputs));
    for (flow, spec) in scenario.flows.iter().enumerate() {
        let rtt = spec.rtt.unwrap_or_else(|| scenario.base_rtt());
        record["per_flow"][flow]["rtt_ms"] = json!(rtt.as_millis_f64());
    }
    if record["packets"] == 0 {
        // Zeros would make the worst run look like the best.
        record["queue_delay_ms"] = Value::Null;
        record["one_way_delay_ms"] = Value::Null;
    }
    record
}

/// Standard deviation over mean.
fn spread(values: &[f64]) -> f64 {
    let mean = values.iter().sum::<f64>() / values.len() as f64;
    let squares = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    (squares / (values.len() as f64 - 1.0)).sqrt() / mean
}

/// The records of a run of a claim.
#[derive(Debug, Clone, Default)]
pub struct Records {
    pub(crate) axes: Vec<Arc<str>>,
    pub(crate) cells: Vec<(Coordinates, Arc<Value>)>,
    /// What was measured with real packets, in place of cells.
    pub(crate) recording: Option<Arc<Recording>>,
}

impl Records {
    /// The places of an axis of runs.
    pub fn places(&self, axis: &str) -> Vec<Arc<str>> {
        if let Some(recording) = &self.recording {
            return recording.places(axis);
        }
        let mut places: Vec<Arc<str>> = Vec::new();
        let Some(at) = self.axes.iter().position(|name| **name == *axis) else { return places };
        for (coordinates, _) in &self.cells {
            if !places.contains(&coordinates[at]) {
                places.push(Arc::clone(&coordinates[at]));
            }
        }
        places
    }

    /// The pictures of the tables of a run of trainings: `transitions` or `zoom`.
    pub fn maps(&self, which: &str) -> Vec<&Value> {
        self.cells.iter().map(|(_, record)| &record["maps"][which]).collect()
    }

    /// The values of a field. `only` keeps the cells at one place of an axis.
    ///
    /// # Errors
    /// When there is no such field, or no run has it.
    pub fn field(&self, name: &str, only: Option<(&str, &str)>) -> Result<Table, String> {
        if let Some(recording) = &self.recording {
            return recording.field(name, only);
        }
        let (place, rest) = fields::find(name)?;
        let (unit, scale) = of_field(rest);
        let mut axes = self.axes.clone();
        match place {
            Place::Run => {}
            Place::Flow => axes.push("flow".into()),
            Place::Transfer => axes.push("transfer".into()),
            Place::Series => axes.push("time".into()),
            Place::FlowSeries => axes.extend(["flow".into(), "time".into()]),
            Place::Along(axis) => axes.push(axis.into()),
        }
        let mut table = Table { unit, axes, rows: Vec::new() };
        let at =
            only.map(|(axis, place)| (self.axes.iter().position(|name| **name == *axis), place));
        for (coordinates, record) in &self.cells {
            let is_wanted = match at {
                Some((Some(at), place)) => *coordinates[at] == *place,
                _ => true,
            };
            if is_wanted {
                push(&mut table.rows, place, rest, scale, coordinates, record);
            }
        }
        if table.rows.is_empty() { Err(format!("no run has `{name}`")) } else { Ok(table) }
    }
}

fn push(
    rows: &mut Vec<Row>,
    place: Place,
    name: &str,
    scale: f64,
    coordinates: &[Arc<str>],
    record: &Value,
) {
    let number = |value: Option<&Value>| value.and_then(Value::as_f64).unwrap_or(f64::NAN) * scale;
    let pointer = format!("/{}", name.replace('.', "/"));
    let with = |more: &[Arc<str>]| coordinates.iter().chain(more).cloned().collect();
    let flows = || record["per_flow"].as_array().map_or(&[][..], Vec::as_slice);
    let bin = record["series"]["bin_s"].as_f64().unwrap_or(1.0);
    let second =
        |at: usize| -> Arc<str> { format!("{}s", cellpace_report::short(bin * at as f64)).into() };
    let values = |series: &Value| series.as_array().cloned().unwrap_or_default();
    match place {
        Place::Run => rows.push(Row::new(with(&[]), number(record.pointer(&pointer)))),
        Place::Flow => {
            for (at, flow) in flows().iter().enumerate() {
                let row = Row::new(with(&[at.to_string().into()]), number(flow.pointer(&pointer)));
                rows.push(Row { labels: labels(flow), ..row });
            }
        }
        Place::Transfer => {
            let transfers = values(&record["transfers"]);
            let complete = transfers.iter().filter(|one| one["outcome"] == "complete");
            for (at, transfer) in complete.enumerate() {
                let flow = transfer["flow"].as_u64().unwrap_or_default() as usize;
                let row =
                    Row::new(with(&[at.to_string().into()]), number(transfer.pointer(&pointer)));
                let mut labels = flows().get(flow).map(labels).unwrap_or_default();
                labels.extend(transfer_labels(transfer));
                rows.push(Row { labels, ..row });
            }
        }
        Place::Along(axis) => {
            let of = &record[axis];
            for (place, value) in values(&of["place"]).iter().zip(values(&of[name])) {
                let place = place.as_str().unwrap_or_default();
                rows.push(Row::new(with(&[place.into()]), number(Some(&value))));
            }
        }
        Place::Series => {
            for (at, value) in values(&record["series"][name]).iter().enumerate() {
                rows.push(Row::new(with(&[second(at)]), number(Some(value))));
            }
        }
        Place::FlowSeries => {
            let of_flow = format!("flow_{name}");
            let series = &record["series"];
            let whole = if series[&of_flow].is_null() { name } else { &of_flow };
            let listed = match name {
                "busy_s" => busy(&series["flow_throughput_mbps"], bin),
                _ => values(&series[whole]),
            };
            for (flow, series) in listed.iter().enumerate() {
                let labels = flows().get(flow).map(labels).unwrap_or_default();
                for (at, value) in values(series).iter().enumerate() {
                    let place = with(&[flow.to_string().into(), second(at)]);
                    rows.push(Row {
                        labels: labels.clone(),
                        ..Row::new(place, number(Some(value)))
                    });
                }
            }
        }
    }
}

/// For each flow and bin the seconds since the last bin in which nothing of it left the link; 0 in
/// such a bin.
fn busy(throughputs: &Value, bin_s: f64) -> Vec<Value> {
    let of_flow = |throughputs: &Value| {
        let mut busy = 0.0;
        let after = |throughput: &Value| {
            busy = if throughput.as_f64() > Some(0.0) { busy + bin_s } else { 0.0 };
            json!(busy)
        };
        throughputs.as_array().into_iter().flatten().map(after).collect()
    };
    throughputs.as_array().into_iter().flatten().map(of_flow).collect()
}

/// By what else the values of a transfer can be selected than by those of its flow: what the network did
/// meanwhile.
fn transfer_labels(transfer: &Value) -> impl Iterator<Item = (&'static str, Arc<str>)> {
    let fields = [("handovers", "handovers"), ("cells", "cells"), ("sinr_db", "mean_sinr_db")];
    let known =
        fields.map(|(label, field)| Some((label, transfer[field].as_f64()?.to_string().into())));
    known.into_iter().flatten()
}

fn labels(flow: &Value) -> Vec<(&'static str, Arc<str>)> {
    let text = |value: &Value, unit: &str| -> Arc<str> {
        format!("{}{unit}", value.as_f64().unwrap_or(0.0)).into()
    };
    vec![
        ("cc", flow["cc"].as_str().unwrap_or_default().into()),
        ("rtt", text(&flow["rtt_ms"], "ms")),
        ("begin", text(&flow["start_s"], "s")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flow_is_busy_from_its_first_packet_to_its_last() {
        let throughputs = json!([[0.0, 1.5, 2.0, 0.0, 3.0], [1.0, null, 1.0, 1.0, 1.0]]);
        let expected = [json!([0.0, 0.5, 1.0, 0.0, 0.5]), json!([0.5, 0.0, 0.5, 1.0, 1.5])];
        assert_eq!(busy(&throughputs, 0.5), expected);
    }
}
