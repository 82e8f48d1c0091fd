//! Cells to scenarios: where traces come from, and where in them a run begins.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cellpace_base::Span;
use cellpace_lab::{open_file, trace::whole_millis};
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_sim::Scenario;
use sha2::{Digest, Sha256};

use crate::trace_sets::{file_name, is_recorded, stand_in};

/// The recorded traces of this machine, or what stands for them.
pub(crate) struct TraceFolder {
    folder: Option<PathBuf>,
    files: TraceFiles<'static>,
    digests: HashMap<String, String>,
}

impl TraceFolder {
    /// The traces in this folder; `None`: generated ones in their place.
    pub(crate) fn new(folder: Option<&Path>) -> Self {
        let folder = folder.filter(|folder| folder.is_dir()).map(Path::to_owned);
        let below = folder.clone();
        let files = TraceFiles::new(move |name| match &below {
            Some(folder) if is_recorded(name) => {
                open_file(&folder.join(file_name(name)).to_string_lossy())
            }
            _ => Err(std::io::Error::other("claims name recorded traces only")),
        });
        Self { folder, files, digests: HashMap::new() }
    }

    /// Whether generated traces stand for the recorded ones.
    pub(crate) fn is_generated(&self) -> bool {
        self.folder.is_none()
    }

    /// What a scenario writes for a trace of a claim.
    pub(crate) fn written<'a>(&self, trace: &'a str) -> &'a str {
        match &self.folder {
            Some(_) => trace,
            None => stand_in(trace).unwrap_or(trace),
        }
    }

    /// The trace in the form that claims write, with what a result depends on of it.
    pub(crate) fn trace(&mut self, written: &str) -> Result<(TraceSpec, String), String> {
        let spec = TraceSpec::parse(written, &mut self.files).map_err(|error| error.to_string())?;
        let Some(trace) = spec.trace() else { return Ok((spec, String::new())) };
        let known = self.digests.entry(written.to_owned());
        let digest = known.or_insert_with(|| digest(trace)).clone();
        Ok((spec, digest))
    }

    /// Reads a scenario.
    pub(crate) fn scenario(&mut self, id: &str, text: &str, seed: u64) -> Result<Scenario, String> {
        let scenario = Scenario::from_toml(id, text, &mut self.files);
        Ok(Scenario { seed, ..scenario.map_err(|error| error.to_string())? })
    }
}

/// The same scenario, whose runs begin at `start` of its trace.
pub(crate) fn starting_at(scenario: &Scenario, start: Span) -> Result<Scenario, String> {
    let mut scenario = scenario.clone();
    if scenario.trace.has_handovers() {
        // A drive goes on where it is; its handovers come along.
        scenario.trace = scenario.trace.starting_at(start);
    } else if !start.is_zero() {
        scenario.trace = turned(&scenario.trace.drawn(scenario.seed, Span::ZERO), start)?;
    }
    Ok(scenario)
}

fn digest(trace: &Trace) -> String {
    let mut hash = Sha256::new();
    for at in trace.millis() {
        hash.update(at.to_le_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The trace from `start` on, with what was before it behind its end.
fn turned(spec: &TraceSpec, start: Span) -> Result<TraceSpec, String> {
    let Some(trace) = spec.trace() else { return Ok(spec.clone()) };
    let (Some(start), Some(period)) = (whole_millis(start), whole_millis(trace.period())) else {
        return Err("a start is in whole milliseconds".to_owned());
    };
    let start = start % period;
    if start == 0 {
        return Ok(spec.clone());
    }
    let (before, after): (Vec<u32>, Vec<u32>) = trace.millis().iter().partition(|at| **at <= start);
    let after = after.into_iter().map(|at| at - start);
    let millis = after.chain(before.into_iter().map(|at| at + (period - start))).collect();
    let trace = Trace::from_millis(millis).map_err(|error| error.to_string())?;
    Ok(TraceSpec::recorded(spec.to_string(), Arc::new(trace)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_that_begins_elsewhere_is_the_file_cut_and_joined_there() {
        let trace = Arc::new(Trace::from_millis(vec![0, 1, 3, 7, 10]).unwrap());
        let spec = TraceSpec::recorded("made-up", trace);
        let turned = |at| turned(&spec, Span::from_millis(at)).unwrap();
        assert_eq!(turned(3).trace().unwrap().millis(), [4, 7, 7, 8, 10]);
        assert_eq!(turned(10), spec);
    }
}
