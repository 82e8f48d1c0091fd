//! What a page says of comparisons as a whole: several joined, a title, who made them.

use crate::groups::{is_uplink, trace_name};
use crate::section::MadeBy;
use crate::{Comparison, Run, SCHEMA};

/// Several comparisons as one. A controller that two of them ran under the same conditions gets
/// the name of its result.
pub(crate) fn joined(results: Vec<(String, Comparison)>) -> Comparison {
    let mut all: Option<Comparison> = None;
    for (name, mut result) in results {
        let Some(all) = &mut all else {
            all = Some(result);
            continue;
        };
        let known =
            |cc: &str, trace: &str| all.runs.iter().any(|run| run.cc == cc && run.trace == trace);
        for run in &mut result.runs {
            if known(&run.cc, &run.trace) {
                run.cc = format!("{} ({name})", run.cc);
            }
        }
        for repeated in &mut result.repeated {
            if known(&repeated.cc, &repeated.trace) {
                repeated.cc = format!("{} ({name})", repeated.cc);
            }
        }
        all.runs.append(&mut result.runs);
        all.repeated.append(&mut result.repeated);
        if !result.command.is_empty() {
            all.command = format!("{}; {}", all.command, result.command);
        }
    }
    all.unwrap_or_else(|| Comparison {
        schema: SCHEMA.to_owned(),
        version: String::new(),
        command: String::new(),
        runs: Vec::new(),
        repeated: Vec::new(),
    })
}

/// What was compared on what.
pub(crate) fn title(comparison: &Comparison) -> String {
    let distinct = |texts: &mut dyn Iterator<Item = String>| {
        let mut known: Vec<String> = Vec::new();
        texts.for_each(|text| {
            if !known.contains(&text) {
                known.push(text);
            }
        });
        known
    };
    let runs = &comparison.runs;
    let has_uplink = runs.iter().any(is_uplink);
    let place = |run: &Run| match has_uplink {
        true => {
            format!("{} {}", trace_name(&run.trace), if is_uplink(run) { "up" } else { "down" })
        }
        false => trace_name(&run.trace).to_owned(),
    };
    let name = |run: &Run| run.cc.trim_end_matches(" (uplink)").to_owned();
    let (ccs, places) =
        (distinct(&mut runs.iter().map(name)), distinct(&mut runs.iter().map(place)));
    let on = match &places[..] {
        [] => "nothing".to_owned(),
        [place] => place.clone(),
        [down, up] if has_uplink => format!("{down}, {up}"),
        _ => format!("{} traces", places.len()),
    };
    match &ccs[..] {
        [] => "Nothing was run".to_owned(),
        [cc] => format!("{on}: {cc}"),
        _ if has_uplink => format!("{on}: {} programs", ccs.len()),
        _ => format!("{on}: {} controllers", ccs.len()),
    }
}

pub(crate) fn made_by(comparison: &Comparison) -> MadeBy {
    let seeds = || comparison.runs.iter().map(|run| run.seed);
    MadeBy {
        command: comparison.command.clone(),
        version: comparison.version.clone(),
        seeds: seeds().min().zip(seeds().max()),
    }
}
