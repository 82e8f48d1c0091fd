//! The end of a transfer: its document, and why flows failed.

use super::document::{SCHEMA, TransferDocument};
use super::record::FlowRecord;

/// Figures of a document that hold for all of its flows.
#[derive(Debug, Clone)]
pub struct TransferConditions {
    /// `send` or `recv`.
    pub role: &'static str,
    /// The command line, without where results go.
    pub command: String,
    /// Whether what is lost stays lost.
    pub unreliable: bool,
    /// Largest IP packet in bytes on this side.
    pub mtu: u16,
    /// Seed of the controllers.
    pub seed: u64,
}

/// How a transfer ended.
#[derive(Debug)]
pub struct TransferResult {
    /// The figures.
    pub document: TransferDocument,
    /// Whether one of its flows failed.
    pub failed: bool,
    /// Why, each reason once. A receiver that goes on for ever has reported them as they came.
    pub reasons: Vec<String>,
}

/// Makes the result of flows that are over, with their numbers in order. `any_failed`: one of those
/// that are not remembered.
pub(super) fn conclude(
    conditions: TransferConditions,
    transport: Option<&'static str>,
    refused: u64,
    flows: &[(usize, &FlowRecord)],
    any_failed: bool,
) -> TransferResult {
    let first = flows.iter().filter_map(|(_, flow)| flow.began).min();
    let last = flows.iter().filter_map(|(_, flow)| flow.ended).max();
    let document = TransferDocument {
        schema: SCHEMA,
        version: env!("CARGO_PKG_VERSION"),
        command: conditions.command,
        role: conditions.role,
        mode: if conditions.unreliable { "unreliable" } else { "reliable" },
        transport,
        mtu: conditions.mtu,
        seed: conditions.seed,
        duration_s: match (first, last) {
            (Some(first), Some(last)) => (last - first).as_secs_f64(),
            _ => 0.0,
        },
        refused_by_system: refused,
        flows: flows.iter().map(|(_, flow)| flow.document(flows.len())).collect(),
    };
    let reasons = reasons(flows);
    TransferResult { document, failed: any_failed || !reasons.is_empty(), reasons }
}

/// Why flows failed, each reason once, with the flows that it does not hold for all of.
fn reasons(flows: &[(usize, &FlowRecord)]) -> Vec<String> {
    let mut reasons: Vec<(&str, Vec<usize>)> = Vec::new();
    for (number, flow) in flows {
        let Some(error) = flow.error.as_deref() else { continue };
        match reasons.iter_mut().find(|(known, _)| *known == error) {
            Some((_, numbers)) => numbers.push(number + 1),
            None => reasons.push((error, vec![number + 1])),
        }
    }
    let all = flows.len();
    let text = |(error, numbers): (&str, Vec<usize>)| match numbers[..] {
        _ if numbers.len() == all => error.to_owned(),
        [number] => format!("flow {number}: {error}"),
        _ => format!("{} of {all} flows: {error}", numbers.len()),
    };
    reasons.into_iter().map(text).collect()
}

/// What stands in front of a line about a flow where there may be others.
pub(super) fn label(number: usize, name: &str, is_one_of_several: bool) -> String {
    match (name, is_one_of_several) {
        (_, false) => String::new(),
        ("", _) => format!("[{}] ", number + 1),
        (name, _) => format!("[{} {name}] ", number + 1),
    }
}
