//! Cells to scenarios: where traces come from, and where in them a run begins.

use std::cell::{Cell, RefCell, RefMut};
use std::collections::{BTreeMap, HashMap};
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::rc::Rc;

use cellpace_path::TraceSpec;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::Scenario;
use serde_json::Value;

use crate::Cache;
use crate::grid::quoted;
use crate::recorded::RecordedFiles;
use crate::trace_sets::{digest, stand_in};
use crate::trainings::{ClaimTraining, Trainer, Trainings, named_in};

/// The recorded traces of this machine, or what stands for them, and the tables trained on them.
pub(crate) struct TraceFolder {
    folder: Option<PathBuf>,
    files: TraceFiles<'static>,
    digests: HashMap<String, String>,
    /// The opener of files has it, too.
    trainer: Rc<RefCell<Trainer>>,
    /// Whether a recorded trace was asked for that is not there; the openers of files set it.
    is_missing: Rc<Cell<bool>>,
}

impl TraceFolder {
    /// The traces in this folder; `None`: generated ones in their place. Tables are kept in the
    /// cache, and taken from there unless all is to be fresh.
    pub(crate) fn new(folder: Option<&Path>, cache: Option<&Cache>, is_fresh: bool) -> Self {
        let folder = folder.filter(|folder| folder.is_dir()).map(Path::to_owned);
        let is_missing = Rc::new(Cell::new(false));
        let open = RecordedFiles { folder: folder.clone(), is_missing: Rc::clone(&is_missing) };
        let trainer = Trainer::new(open.clone(), cache.cloned(), is_fresh);
        let trainer = Rc::new(RefCell::new(trainer));
        let tables = Rc::clone(&trainer);
        let files = TraceFiles::new(move |name| {
            let table = tables.borrow_mut().table(name);
            if let Some(table) = table {
                return Ok(Box::new(Cursor::new(table.map_err(std::io::Error::other)?)));
            }
            open.open(name)
        });
        Self { folder, files, digests: HashMap::new(), trainer, is_missing }
    }

    fn trainer(&self) -> RefMut<'_, Trainer> {
        self.trainer.borrow_mut()
    }

    /// A scenario with the tables that it names under names by which they are found.
    pub(crate) fn with_tables(&self, text: String, own: &Trainings) -> Result<String, String> {
        let mut named = named_in(&text, own)?;
        // A name may be the beginning of another.
        named.sort_by_key(|(name, _)| std::cmp::Reverse(name.len()));
        named.into_iter().try_fold(text, |text, (name, training)| {
            let known = self.trainer().name(&training)?;
            Ok(text.replace(&format!("model={name}"), &format!("model={known}")))
        })
    }

    /// The figures of a training, as the record of a run.
    pub(crate) fn figures(&self, training: &ClaimTraining) -> Result<Value, String> {
        self.trainer().figures(training)
    }

    /// Whether generated traces stand for the recorded ones.
    pub(crate) fn is_generated(&self) -> bool {
        self.folder.is_none()
    }

    /// Whether a recorded trace that is not there was asked for since the last such question.
    pub(crate) fn take_missing(&self) -> bool {
        self.is_missing.replace(false)
    }

    /// A scenario in which generated traces stand for the recorded ones, where these are not there.
    pub(crate) fn with_stand_ins(&self, text: String) -> String {
        if self.folder.is_some() {
            return text;
        }
        let names: BTreeMap<String, &str> =
            quoted(&text).filter_map(|name| Some((name.to_owned(), stand_in(name)?))).collect();
        names.into_iter().fold(text, |text, (name, stand_in)| {
            ['"', '\''].into_iter().fold(text, |text, quote| {
                text.replace(&format!("{quote}{name}{quote}"), &format!("{quote}{stand_in}{quote}"))
            })
        })
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
