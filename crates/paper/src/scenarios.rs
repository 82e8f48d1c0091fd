//! Cells to scenarios: where traces come from, and where in them a run begins.

use std::collections::HashMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use cellpace_lab::open_file;
use cellpace_path::TraceSpec;
use cellpace_path::schedule::{Trace, TraceFiles};
use cellpace_sim::Scenario;
use sha2::{Digest, Sha256};

use crate::models::trained;
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
        let files = TraceFiles::new(move |name| {
            if let Some(table) = trained(name, below.as_deref()) {
                let table = table.map_err(std::io::Error::other)?;
                return Ok(Box::new(Cursor::new(table)));
            }
            match &below {
                Some(folder) if is_recorded(name) => {
                    open_file(&folder.join(file_name(name)).to_string_lossy())
                }
                _ => Err(std::io::Error::other("claims name recorded traces only")),
            }
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

fn digest(trace: &Trace) -> String {
    let mut hash = Sha256::new();
    for at in trace.millis() {
        hash.update(at.to_le_bytes());
    }
    let bytes: [u8; 32] = hash.finalize().into();
    bytes[..8].iter().map(|byte| format!("{byte:02x}")).collect()
}
