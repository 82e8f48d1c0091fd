//! Markov tables that claims run: trained when a run first names one, and kept as results are.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;
use std::sync::Arc;

use cellpace_base::{Span, parse_span};
use cellpace_lab::{LabError, NamedTrace, StatesChoice, Training, learn, read_controller};
use cellpace_mdi::{About, LoggedFlows, Model};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{QueueSpec, TraceSpec};
use cellpace_sim::Scenario;
use serde::Deserialize;
use serde_json::Value;

use crate::recorded::RecordedFiles;
use crate::table_figures::table_figures;
use crate::trace_sets::{digest, stand_in};
use crate::{Cache, cache};

/// The teacher of the MDI paper's evaluation.
const TEACHER: &str = "verus:r=2";
/// The paper's AQM.
const QUEUE: &str = "red:min=3mbit,max=9mbit,p=0.1%,gentle=false";
/// Channels that the teacher was watched on; the evaluation has others.
const CHANNELS: [&str; 8] = [
    "mdi/channel00",
    "mdi/channel01",
    "mdi/channel02",
    "mdi/channel03",
    "mdi/channel04",
    "mdi/channel05",
    "mdi/channel06",
    "mdi/channel07",
];

/// How a Markov table is made: a teacher is watched on traces with several numbers of flows.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct ClaimTraining {
    /// The controller that is watched.
    pub teacher: String,
    /// What it is watched on.
    pub traces: Vec<String>,
    /// How many flows of it share the link.
    pub users: Vec<u32>,
    /// Length of each run; without it that of the trace, as `mdi train` has it.
    pub duration: Option<String>,
    /// The states, as `mdi train --states` has them.
    pub states: String,
}

impl Default for ClaimTraining {
    fn default() -> Self {
        Self {
            teacher: TEACHER.to_owned(),
            traces: CHANNELS.map(str::to_owned).to_vec(),
            users: vec![1, 2, 3, 4],
            duration: None,
            states: "absolute:bin=2ms".to_owned(),
        }
    }
}

/// The trainings of a claim by their names.
pub(crate) type Trainings = BTreeMap<String, ClaimTraining>;

/// How the name of a table of a claim's own begins.
const OWN: &str = "train.";
/// How the name of a table begins that every claim has; `trained-absolute-2ms` has the states
/// `absolute:bin=2ms`, `trained-levels` the states `levels`.
const COMMON: &str = "trained-";

impl ClaimTraining {
    pub(crate) fn check(&self) -> Result<(), String> {
        self.choice()?;
        self.length()?;
        if self.traces.is_empty() || self.users.is_empty() {
            return Err("a table is trained on at least one trace, with at least one user".into());
        }
        Ok(())
    }

    fn choice(&self) -> Result<StatesChoice, String> {
        self.states.parse().map_err(|error: LabError| error.to_string())
    }

    fn length(&self) -> Result<Option<Span>, String> {
        let read = |text: &String| parse_span(text).map_err(|error| format!("duration: {error}"));
        self.duration.as_ref().map(read).transpose()
    }

    /// The training of a table that every claim has.
    fn common(name: &str) -> Option<Self> {
        let states = name.strip_prefix(COMMON)?;
        let states = match states.strip_prefix("absolute-") {
            Some(bin) => format!("absolute:bin={bin}"),
            None => states.to_owned(),
        };
        Some(Self { states, ..Self::default() })
    }

}

/// The tables that a text names (`model=train.NAME`), with how they are trained.
pub(crate) fn named_in(
    text: &str,
    own: &Trainings,
) -> Result<Vec<(String, ClaimTraining)>, String> {
    let mut found: Vec<(String, ClaimTraining)> = Vec::new();
    for rest in text.split("model=").skip(1) {
        let end = rest.find([',', '"', '\'', '\n', ' ']).unwrap_or(rest.len());
        let name = &rest[..end];
        let training = match name.strip_prefix(OWN) {
            Some(own_name) => {
                let known = || own.keys().map(|name| &**name).collect::<Vec<_>>().join(", ");
                let known = || format!("there is no [train.{own_name}]; there are {}", known());
                Some(own.get(own_name).cloned().ok_or_else(known)?)
            }
            None => ClaimTraining::common(name),
        };
        if let Some(training) = training.filter(|_| found.iter().all(|(known, _)| known != name)) {
            found.push((name.to_owned(), training));
        }
    }
    Ok(found)
}

/// Trains tables, each once, and a teacher that several have in common once.
pub(crate) struct Trainer {
    folder: Option<PathBuf>,
    cache: Option<Cache>,
    is_fresh: bool,
    files: TraceFiles<'static>,
    /// The trainings of the names that were given out.
    known: HashMap<String, ClaimTraining>,
    tables: HashMap<String, Arc<[u8]>>,
    /// The training whose teacher was watched last, and the samples by users.
    watched: (ClaimTraining, Vec<LoggedFlows>),
}

impl Trainer {
    pub(crate) fn new(recorded: RecordedFiles, cache: Option<Cache>, is_fresh: bool) -> Self {
        let folder = recorded.folder.clone();
        let files = TraceFiles::new(move |name| recorded.open(name));
        Self {
            folder,
            cache,
            is_fresh,
            files,
            known: HashMap::new(),
            tables: HashMap::new(),
            watched: <_>::default(),
        }
    }

    /// The name under which scenarios find the table of a training. It depends on all that the
    /// table does.
    pub(crate) fn name(&mut self, training: &ClaimTraining) -> Result<String, String> {
        let mut parts = vec![format!("{training:?}")];
        for trace in self.traces(training)? {
            parts
                .push(trace.spec.trace().map_or_else(|| trace.name.clone(), |trace| digest(trace)));
        }
        let parts: Vec<&str> = parts.iter().map(|part| &**part).collect();
        let name = format!("{COMMON}{}", cache::key(&parts));
        self.known.insert(name.clone(), training.clone());
        Ok(name)
    }

    /// Returns the bytes of the table with a name that was given out; `None` if it is none.
    pub(crate) fn table(&mut self, name: &str) -> Option<Result<Arc<[u8]>, String>> {
        let training = self.known.get(name)?.clone();
        if let Some(table) = self.tables.get(name) {
            return Some(Ok(Arc::clone(table)));
        }
        let table = match self.kept().and_then(|cache| cache.read_bytes(name)) {
            Some(kept) => Ok(kept),
            None => self.learnt(&training).map(|(_, model)| {
                let bytes = model.to_bytes();
                if let Some(cache) = &self.cache {
                    cache.write_bytes(name, &bytes);
                }
                bytes
            }),
        };
        Some(table.map(|table| {
            let table: Arc<[u8]> = table.into();
            self.tables.insert(name.to_owned(), Arc::clone(&table));
            table
        }))
    }

    /// The figures of a training's table and of its samples, as the record of a run.
    pub(crate) fn figures(&mut self, training: &ClaimTraining) -> Result<Value, String> {
        let key = format!("figures-{}", self.name(training)?);
        if let Some(kept) = self.kept().and_then(|cache| cache.read(&key)) {
            return Ok(kept);
        }
        let started = std::time::Instant::now();
        let (logged, model) = self.learnt(training)?;
        let mut figures = table_figures(&training.teacher, &logged, &model);
        figures["cpu_s"] = started.elapsed().as_secs_f64().into();
        if let Some(cache) = &self.cache {
            cache.write(&key, &figures);
        }
        Ok(figures)
    }

    fn kept(&self) -> Option<&Cache> {
        self.cache.as_ref().filter(|_| !self.is_fresh)
    }

    fn learnt(&mut self, training: &ClaimTraining) -> Result<(Vec<LoggedFlows>, Model), String> {
        let logged = self.watch(training)?;
        let about = About { teacher: training.teacher.clone(), ..About::default() };
        let lesson = learn(about, &logged, &training.choice()?);
        Ok((logged, lesson.map_err(|error| error.to_string())?.model))
    }

    /// What stands for several channels may be one profile for all.
    fn traces(&mut self, training: &ClaimTraining) -> Result<Vec<NamedTrace>, String> {
        let mut written: Vec<&str> = training
            .traces
            .iter()
            .map(|trace| match &self.folder {
                Some(_) => &**trace,
                None => stand_in(trace).unwrap_or(trace),
            })
            .collect();
        written.dedup();
        let read = |name: &str| {
            let spec =
                TraceSpec::parse(name, &mut self.files).map_err(|error| error.to_string())?;
            Ok(NamedTrace { name: name.to_owned(), spec })
        };
        written.into_iter().map(read).collect()
    }

    /// Watches the teacher with those numbers of users that have not been watched yet.
    fn watch(&mut self, training: &ClaimTraining) -> Result<Vec<LoggedFlows>, String> {
        let watched =
            |one: &ClaimTraining| (one.teacher.clone(), one.traces.clone(), one.duration.clone());
        if watched(&self.watched.0) != watched(training) {
            self.watched = (training.clone(), Vec::new());
        }
        let is_missing = |users: &u32| self.watched.1.iter().all(|flows| flows.users != *users);
        let missing: Vec<u32> = training.users.iter().copied().filter(is_missing).collect();
        if !missing.is_empty() {
            let wrong = |error: String| format!("training of {}: {error}", training.teacher);
            let queue = QUEUE.parse::<QueueSpec>().map_err(|error| error.to_string())?;
            let watching = Training {
                teacher: read_controller(&training.teacher)
                    .map_err(|error| wrong(error.to_string()))?,
                traces: self.traces(training)?,
                users: missing,
                duration: training.length()?,
                path: Scenario::default().with_link(|link| link.down.queue = queue),
            };
            let logged = watching.watch(None, &mut ()).map_err(|error| wrong(error.to_string()))?;
            self.watched.1.extend(logged.ok_or("the training was cancelled")?);
            self.watched.1.sort_by_key(|flows| flows.users);
        }
        let is_wanted = |flows: &&LoggedFlows| training.users.contains(&flows.users);
        Ok(self.watched.1.iter().filter(is_wanted).cloned().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_of_a_text_are_found() {
        let own = Trainings::from([("sprout:max_rate=auto".to_owned(), ClaimTraining::default())]);
        let text = "cc = \"mdi:model=train.sprout:max_rate=auto,users=2\"\ncc = \"mdi:model=a.mdi\"\n\
                    cc = \"mdi:users=1,model=trained-absolute-5ms\"";
        let found = named_in(text, &own).unwrap();
        let names: Vec<&str> = found.iter().map(|(name, _)| &**name).collect();
        assert_eq!(names, ["train.sprout:max_rate=auto", "trained-absolute-5ms"]);
        assert_eq!(found[1].1.states, "absolute:bin=5ms");
        let unknown = named_in("model=train.copa\"", &own).unwrap_err();
        assert!(unknown.starts_with("there is no [train.copa]; there are sprout"), "{unknown}");
    }
}
