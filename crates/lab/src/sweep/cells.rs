//! The cells of a plan: each combination of path, controller and seed, by its number.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, StringArray};
use cellpace_base::parse_number;
use cellpace_path::PathField;
use cellpace_path::schedule::ENDLESS_DURATION;
use cellpace_report::{LeadingColumn, RunRequest};
use cellpace_sim::{FlowSpec, FlowTraffic, Scenario};
use serde_json::{Map, Value, json};

use crate::experiment::bin_width;
use crate::{LabError, shown_names};

use super::controllers::{PlannedController, read_controllers};
use super::files::PlanFiles;
use super::plan::{Seeds, SweepPlan};
use super::settings::{Alternative, PathSettings, Setting, path_fields};

/// Cells of a plan at most: their numbers and what is known of each fit into memory.
pub const MAX_CELLS: u64 = 100_000_000;
/// Cells of a finished file of results: some 10 MB in memory.
pub const PARTITION_CELLS: u64 = 50_000;

/// Fields that give the trace of a cell: the later in the order of fields counts.
const TRACE_FIELDS: [&str; 2] = ["path", "trace"];

/// Hexadecimal digits of a cell's id: 128 bits.
const ID_DIGITS: usize = 32;

/// A plan whose every name and unit is read: cells, by their numbers.
#[derive(Debug)]
pub struct Sweep {
    plan: SweepPlan,
    controllers: Vec<PlannedController>,
    seeds: Seeds,
    blocks: Vec<PathBlock>,
    files: PlanFiles,
    /// How traces are shown, by how they are written.
    shown: HashMap<String, String>,
    /// Parameters of controllers that the plan has lists of.
    parameters: Vec<SweptParameter>,
    /// Fields that a path has, in their order.
    fields: Vec<&'static str>,
    cells: u64,
}

/// A parameter that has a column of its own.
#[derive(Debug)]
struct SweptParameter {
    key: String,
    /// Whether all its values are plain numbers.
    is_number: bool,
}

/// All combinations of the alternatives of one path's fields.
#[derive(Debug)]
struct PathBlock {
    /// The number of its first cell.
    first: u64,
    axes: Vec<PathAxis>,
    combinations: u64,
}

#[derive(Debug)]
struct PathAxis {
    field: &'static str,
    alternatives: Vec<Arc<PathValue>>,
}

/// An alternative of a field.
#[derive(Debug)]
struct PathValue {
    written: Alternative,
    setting: Setting,
    /// The names of the files that it reads.
    files: Vec<String>,
}

/// One cell: a run to do.
#[derive(Debug)]
pub struct Cell {
    /// Its place in the plan, from 0.
    pub number: u64,
    /// The same for the same run by the same version, in every plan: BLAKE3 of its parameters as
    /// JSON, of the contents of its files and of the version; 32 hexadecimal digits.
    pub id: String,
    /// The run, which may contradict itself: [`Scenario::check`].
    pub scenario: Arc<Scenario>,
    /// The controller as written.
    pub cc: String,
    /// The trace as shown.
    pub trace: String,
    /// The texts of the columns that the plan adds: swept parameters, then fields of the path as they were written.
    pub(super) leading: Vec<Option<String>>,
}

impl Cell {
    /// What was asked, for a row of results.
    pub fn request(&self) -> RunRequest {
        let scenario = &self.scenario;
        RunRequest {
            cc: self.cc.clone(),
            trace: self.trace.clone(),
            seed: scenario.seed,
            rtt_ms: scenario.base_rtt().as_millis_f64(),
            queue: scenario.link.down.queue.to_string(),
            loss: scenario.link.down.loss.mean_until(scenario.duration),
            flows: scenario.flows.len() as u64,
            duration_s: scenario.duration.as_secs_f64(),
            skip_s: scenario.skip.as_secs_f64(),
        }
    }
}

/// A cell's parameters, by reference.
struct Parts<'a> {
    values: Vec<(&'static str, &'a PathValue)>,
    controller: &'a PlannedController,
    seed: u64,
}

impl Sweep {
    /// Reads everything that the plan names. Nothing runs yet.
    ///
    /// # Errors
    /// When a name is unknown (the nearest is named), a value has no or a wrong unit, a file
    /// cannot be read, nothing or too much would remain, or every cell contradicts itself. The
    /// text names the field.
    pub fn new(plan: SweepPlan, mut files: PlanFiles) -> Result<Self, LabError> {
        let controllers = read_controllers(&plan.controllers()?, &mut files)?;
        let seeds = plan.seeds()?;
        let per_path = seeds.count().saturating_mul(controllers.len() as u64);
        let mut known: HashMap<(&'static str, Alternative), Arc<PathValue>> = HashMap::new();
        let (mut blocks, mut cells) = (Vec::new(), 0_u64);
        for (at, fields) in plan.paths()?.into_iter().enumerate() {
            let (mut axes, mut combinations) = (Vec::new(), 1_u64);
            for (field, written) in fields {
                let read = |written| value(field, written, at, &mut known, &mut files);
                let alternatives = written.into_iter().map(read).collect::<Result<Vec<_>, _>>()?;
                combinations = combinations.saturating_mul(alternatives.len() as u64);
                axes.push(PathAxis { field, alternatives });
            }
            blocks.push(PathBlock { first: cells, axes, combinations });
            cells = cells.saturating_add(combinations.saturating_mul(per_path));
        }
        // Counted before any cell is made: a short plan may ask for any number.
        if cells > MAX_CELLS {
            return Err(LabError::Invalid(format!(
                "the plan has {cells} cells, {MAX_CELLS} at most: split it"
            )));
        }
        let traces = known.keys().filter(|(field, _)| TRACE_FIELDS.contains(field));
        let traces: BTreeSet<String> = traces.map(|(_, written)| written.join("")).collect();
        let traces: Vec<String> = traces.into_iter().collect();
        let shown = traces.iter().cloned().zip(shown_names(&traces)).collect();
        let fields = written_fields(&blocks);
        let parameters = swept_parameters(&controllers);
        let sweep =
            Self { plan, controllers, seeds, blocks, files, shown, parameters, fields, cells };
        sweep.check_any()?;
        Ok(sweep)
    }

    /// The number of cells.
    pub fn cells(&self) -> u64 {
        self.cells
    }

    /// The plan.
    pub fn plan(&self) -> &SweepPlan {
        &self.plan
    }

    /// The files that the plan names.
    pub fn files(&self) -> &PlanFiles {
        &self.files
    }

    /// What identifies the sweep: its plan, the contents of its files and the version.
    pub fn identity(&self) -> String {
        let text = json!({
            "plan": self.plan.document(),
            "files": self.hashes(self.files.files().keys()),
            "version": env!("CARGO_PKG_VERSION"),
        });
        short_hash(&text.to_string())
    }

    /// The cell with a number below [`cells`](Self::cells).
    ///
    /// # Panics
    /// When there is no such cell.
    pub fn cell(&self, number: u64) -> Cell {
        let parts = self.parts(number);
        let scenario = scenario(&parts);
        // A trace beside a whole path replaces that one's.
        let written = parts.values.iter().rfind(|(field, _)| TRACE_FIELDS.contains(field));
        let written = written.map(|(_, value)| value.written.join("")).unwrap_or_default();
        let name = self.shown.get(&written).cloned().unwrap_or(written);
        let from = parts.values.iter().find_map(|(_, value)| match value.setting {
            Setting::From(from) if !from.is_zero() => Some(from),
            _ => None,
        });
        Cell {
            number,
            id: self.id_of(&parts),
            cc: parts.controller.spec.to_string(),
            trace: from.map_or(name.clone(), |from| format!("{name} from {from}")),
            leading: self.leading_of(&parts),
            scenario: Arc::new(scenario),
        }
    }

    /// The id of the cell with this number; much less work than the whole [`cell`](Self::cell).
    ///
    /// # Panics
    /// When there is no such cell.
    pub fn id(&self, number: u64) -> String {
        self.id_of(&self.parts(number))
    }

    /// The seconds of one core that a cell should take, roughly: by the packets that its trace can
    /// carry.
    ///
    /// # Panics
    /// When there is no such cell.
    pub fn estimate_s(&self, number: u64) -> f64 {
        /// Packets of 1500 bytes that one core simulates in a second.
        const PACKETS_PER_SECOND: f64 = 4e6;
        /// What a run takes whatever its length.
        const PER_RUN_S: f64 = 1e-4;
        /// The rate of a trace that does not say.
        const USUAL_MBPS: f64 = 20.0;
        let parts = self.parts(number);
        let (mut mbps, mut length, mut trace_length) = (USUAL_MBPS, None, ENDLESS_DURATION);
        for (_, value) in &parts.values {
            if let Some(trace) = value.setting.trace() {
                mbps = trace.trace().map_or(USUAL_MBPS, |trace| trace.mean_rate().as_mbps());
                trace_length = trace.default_duration();
            }
            if let Setting::Duration(duration) = &value.setting {
                length = Some(*duration);
            }
        }
        let seconds = length.unwrap_or(trace_length).as_secs_f64();
        PER_RUN_S + seconds * mbps * 1e6 / 12e3 / PACKETS_PER_SECOND
    }

    /// The number behind the last cell with the same path as this one.
    pub(super) fn end_of_path(&self, number: u64) -> u64 {
        let at = self.blocks.partition_point(|block| block.first <= number) - 1;
        let first = self.blocks[at].first;
        let per_path = self.seeds.count() * self.controllers.len() as u64;
        first + ((number - first) / per_path + 1) * per_path
    }

    /// The columns in front of a run's own, of cells in the order of the rows.
    pub(super) fn leading_columns(
        &self,
        ids: &[String],
        leading: &[Vec<Option<String>>],
    ) -> Vec<LeadingColumn> {
        let ids: ArrayRef = Arc::new(StringArray::from_iter_values(ids));
        let mut columns = vec![("cell".to_owned(), ids)];
        let parameters = self.parameters.iter().map(|of| (format!("cc_{}", of.key), of.is_number));
        let fields = self.fields.iter().map(|field| (format!("plan_{field}"), false));
        for (at, (name, is_number)) in parameters.chain(fields).enumerate() {
            let texts = || leading.iter().map(|row| row[at].as_deref());
            let column: ArrayRef = if is_number {
                let number = |text: Option<&str>| text.and_then(|text| parse_number(text).ok());
                Arc::new(texts().map(number).collect::<Float64Array>())
            } else {
                Arc::new(texts().collect::<StringArray>())
            };
            columns.push((name, column));
        }
        columns
    }

    fn leading_of(&self, parts: &Parts<'_>) -> Vec<Option<String>> {
        let values = &parts.controller.values;
        let parameter = |of: &SweptParameter| {
            values.iter().find(|(key, _)| *key == of.key).map(|(_, value)| value.clone())
        };
        let field = |field: &&str| {
            let value = parts.values.iter().find(|(known, _)| known == field);
            value.map(|(_, value)| value.written.join(PathField::SEVERAL))
        };
        self.parameters.iter().map(parameter).chain(self.fields.iter().map(field)).collect()
    }

    fn parts(&self, number: u64) -> Parts<'_> {
        assert!(number < self.cells, "the sweep has {} cells, not {number}", self.cells);
        let at = self.blocks.partition_point(|block| block.first <= number) - 1;
        let block = &self.blocks[at];
        let seeds = self.seeds.count();
        let rest = number - block.first;
        // Seeds vary fastest: neighbours in a unit share their path, and cost the same.
        let (rest, seed) = (rest / seeds, rest % seeds);
        let controllers = self.controllers.len() as u64;
        let (mut rest, controller) = (rest / controllers, rest % controllers);
        debug_assert!(rest < block.combinations);
        let mut values = Vec::with_capacity(block.axes.len());
        // From the last axis, as in a number with mixed digits: the first field varies slowest.
        for axis in block.axes.iter().rev() {
            let count = axis.alternatives.len() as u64;
            values.push((axis.field, &*axis.alternatives[(rest % count) as usize]));
            rest /= count;
        }
        // Back in the order of the fields, in which ids and columns have them.
        values.reverse();
        let controller = &self.controllers[controller as usize];
        Parts { values, controller, seed: self.seeds.at(seed) }
    }

    fn id_of(&self, parts: &Parts<'_>) -> String {
        let mut fields = Map::new();
        // What is left out is the same as what is written with its default.
        for (field, default) in
            [("rtt", "40ms"), ("queue", "droptail:2MB"), ("loss", "0%"), ("flows", "1")]
        {
            fields.insert(field.to_owned(), default.into());
        }
        for (field, value) in &parts.values {
            fields.insert((*field).to_owned(), value.written.join(", ").into());
        }
        let opened = parts.values.iter().flat_map(|(_, value)| &value.files);
        let opened = opened.chain(&parts.controller.files);
        fields.insert("cc".to_owned(), parts.controller.spec.to_string().into());
        fields.insert("seed".to_owned(), parts.seed.into());
        // By contents, since a file may change under the same name.
        fields.insert("files".to_owned(), json!(self.hashes(opened)));
        // Another version may simulate otherwise, so its results are others.
        fields.insert("version".to_owned(), env!("CARGO_PKG_VERSION").into());
        short_hash(&Value::Object(fields).to_string())
    }

    fn hashes<'a>(&self, names: impl Iterator<Item = &'a String>) -> BTreeMap<&'a str, &str> {
        let files = self.files.files();
        names.filter_map(|name| Some((name.as_str(), files.get(name)?.hash.as_str()))).collect()
    }

    /// Refuses a plan of which no cell can run; one of many that contradicts itself is a row.
    fn check_any(&self) -> Result<(), LabError> {
        let per_path = self.seeds.count() * self.controllers.len() as u64;
        let mut first_error = None;
        for path in 0..self.cells / per_path {
            // One cell of each path: controllers and seeds do not contradict a path.
            let scenario = scenario(&self.parts(path * per_path));
            match scenario.check().and_then(|()| scenario.check_delivers()) {
                Ok(()) => return Ok(()),
                Err(error) => first_error.get_or_insert(error.to_string()),
            };
        }
        Err(LabError::Invalid(first_error.unwrap_or_else(|| "the plan has no cell".to_owned())))
    }
}

fn short_hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex()[..ID_DIGITS].to_owned()
}

fn value(
    field: &'static str,
    written: Alternative,
    path: usize,
    known: &mut HashMap<(&'static str, Alternative), Arc<PathValue>>,
    files: &mut PlanFiles,
) -> Result<Arc<PathValue>, LabError> {
    // Paths share what they write alike: a trace is read once for a thousand paths.
    let key = (field, written);
    if let Some(value) = known.get(&key) {
        return Ok(Arc::clone(value));
    }
    let written = &key.1;
    let (setting, opened) = files.reading(|files| Setting::read(field, written, files));
    let setting = setting.map_err(|error| {
        let place = if path == 0 { String::new() } else { format!("path[{path}].") };
        LabError::Invalid(format!("{place}{field}: {error}"))
    })?;
    let value = Arc::new(PathValue { written: written.clone(), setting, files: opened });
    known.insert(key, Arc::clone(&value));
    Ok(value)
}

fn swept_parameters(controllers: &[PlannedController]) -> Vec<SweptParameter> {
    let mut parameters: BTreeMap<&str, bool> = BTreeMap::new();
    for (key, value) in controllers.iter().flat_map(|controller| &controller.values) {
        // A column of numbers only where each of its values is one.
        *parameters.entry(key).or_insert(true) &= parse_number(value).is_ok();
    }
    let parameter =
        |(key, is_number): (&str, bool)| SweptParameter { key: key.to_owned(), is_number };
    parameters.into_iter().map(parameter).collect()
}

/// Fields that the plan or one of its paths has: with them a cell can be run alone.
fn written_fields(blocks: &[PathBlock]) -> Vec<&'static str> {
    let has = |field: &&str| {
        blocks.iter().any(|block| block.axes.iter().any(|axis| axis.field == *field))
    };
    path_fields().filter(has).collect()
}

fn scenario(parts: &Parts<'_>) -> Scenario {
    let mut path = PathSettings { flows: 1, ..PathSettings::default() };
    for (_, value) in &parts.values {
        path.set(&value.setting);
    }
    let PathSettings { mut scenario, flows, transfer, from, duration } = path;
    let traffic = transfer.map_or(FlowTraffic::Bulk, FlowTraffic::Transfers);
    let flow = FlowSpec { traffic, ..FlowSpec::bulk(parts.controller.spec.clone()) };
    scenario.flows = vec![flow; flows as usize];
    scenario.duration = duration.unwrap_or_else(|| scenario.trace().default_duration());
    scenario.start_traces_at(from);
    scenario.seed = parts.seed;
    scenario.bin = bin_width(&scenario, 1);
    scenario
}
