//! Figures that were measured with real packets, as tables for checks.
//!
//! `evaluation/recordings.toml` says what is in the files that the measuring programs write, and
//! `papers/recorded/NAME.json` on what machine they were measured; these are in the program as they are.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use serde::Deserialize;
use serde_json::Value;

use crate::cache;
use crate::claim_words::OneOrMany;
use crate::conditions::Conditions;
use crate::table::{Coordinates, Row, Table};
use crate::unit::of_field;

// The conditions of recordings.
include!(concat!(env!("OUT_DIR"), "/embedded.rs"));

const DESCRIPTIONS: &str = include_str!("../recordings/recordings.toml");

/// The files that descriptions name.
const FILES: [(&str, &str); 2] = [
    ("evaluation/alcc.json", include_str!("../recordings/alcc.json")),
    ("evaluation/mdi_samples.json", include_str!("../recordings/mdi_samples.json")),
];

/// The axis of the runs of a cell.
const RUN_AXIS: &str = "run";

/// A part of a file of figures: where it is, what its parts are called, how it was measured.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Recording {
    /// The file, from the root of the repository.
    pub file: String,
    /// The table in it: cells by keys such as `gate/city-drive/copa`. Without one the file has the
    /// documents that commands wrote with `--json`, each a cell.
    table: Option<String>,
    /// How the keys begin that belong to it; what comes next is on the axes.
    under: Option<String>,
    /// What the parts of a key are places of; of documents where in them the places stand, as `link.rate`.
    axes: Vec<String>,
    /// The last place of keys that lack it.
    otherwise: Option<String>,
    /// What parts of keys are called here.
    #[serde(default)]
    places: BTreeMap<String, String>,
    /// The values of a cell by their names here.
    fields: BTreeMap<String, Field>,
    /// The day, as `2026-11-23`, where it was measured without `paper record`.
    date: Option<String>,
    /// The command that measures it, or several; of its words `CELLPACE` is the program, and `OUT.json`
    /// the file that it writes or adds to.
    command: OneOrMany,
    /// How long, how often, over what.
    pub conditions: String,
    /// What is known of the machine, where it was measured without `paper record`.
    machine: Option<String>,
    /// Its name in the descriptions.
    #[serde(skip)]
    pub name: String,
    /// A short name of its description but for date and machine.
    #[serde(skip)]
    pub(crate) description: String,
    /// On what it was measured by `paper record`.
    #[serde(skip)]
    pub measured: Option<Conditions>,
    #[serde(skip)]
    tables: BTreeMap<String, Table>,
}

/// Where a value of a cell is.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Field {
    /// Under this name, in the unit of its name here.
    Name(String),
    /// A value that needs more said.
    Value(FieldValue),
}

#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
struct FieldValue {
    /// Its name in the cell; empty: the cell is the value.
    of: String,
    /// What one of it is, in the unit of its name here.
    #[serde(default = "one")]
    scale: f64,
    /// The axis of a list: `time` (seconds), or any other, whose places are 0, 1, 2.
    along: Option<String>,
    /// Whether a list has the counts of a histogram: they become shares of their sum.
    #[serde(default)]
    is_histogram: bool,
    /// Which percentile of such a histogram of delays is meant, in ms.
    percentile: Option<f64>,
}

const fn one() -> f64 {
    1.0
}

impl Field {
    fn value(&self) -> FieldValue {
        match self {
            Self::Name(of) => {
                let of = of.clone();
                FieldValue { of, scale: 1.0, along: None, is_histogram: false, percentile: None }
            }
            Self::Value(value) => value.clone(),
        }
    }
}

type Recordings = Result<BTreeMap<String, Arc<Recording>>, String>;

static RECORDINGS: LazyLock<Recordings> = LazyLock::new(|| {
    let read = |(name, text): &(&str, &str)| {
        Ok(((*name).to_owned(), Conditions::read(name, text)?))
    };
    let conditions: Result<_, String> = RECORDED.iter().map(read).collect();
    read_all(DESCRIPTIONS, &FILES, conditions?)
});

impl Recording {
    /// The recording of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Arc<Self>, String> {
        let recordings = RECORDINGS.as_ref().map_err(Clone::clone)?;
        recordings.get(name).cloned().ok_or_else(|| {
            let known: Vec<&str> = recordings.keys().map(|name| &**name).collect();
            format!("there is no recording `{name}`; there are {}", known.join(", "))
        })
    }

    /// What was done, when, and on what, in lines.
    pub(crate) fn text(&self) -> String {
        let (commands, note) = (self.command.texts().join("\n"), self.note());
        format!(
            "recorded {}{note}: {commands}\n{}\nmachine: {}",
            self.date(),
            self.conditions,
            self.machine()
        )
    }

    /// The day of the measurement, as `2026-11-23`.
    pub fn date(&self) -> &str {
        let measured = self.measured.as_ref().map(|measured| &*measured.date);
        measured.or(self.date.as_deref()).unwrap_or("at an unknown time")
    }

    /// What is known of the machine.
    pub fn machine(&self) -> String {
        let measured = self.measured.as_ref().map(|measured| measured.machine.text());
        measured.or_else(|| self.machine.clone()).unwrap_or_else(|| "unknown".to_owned())
    }

    /// The commands that measure it.
    pub(crate) fn commands(&self) -> Result<Vec<String>, String> {
        let commands = self.command.texts();
        if commands.is_empty() { Err("has no command".to_owned()) } else { Ok(commands) }
    }

    /// Whether something else was measured than what is described now. Of what was measured without
    /// `paper record` that is not known.
    pub fn is_stale(&self) -> bool {
        self.measured.as_ref().is_some_and(|measured| measured.description != self.description)
    }

    /// What speaks against it: that it is stale, or invalid.
    pub fn note(&self) -> &'static str {
        let is_invalid =
            self.measured.as_ref().is_some_and(|measured| !measured.invalid.is_empty());
        match (self.is_stale(), is_invalid) {
            (true, _) => " (stale)",
            (false, true) => " (invalid)",
            (false, false) => "",
        }
    }

    /// The same with figures that were measured now.
    pub(crate) fn measured(&self, figures: &str, conditions: Conditions) -> Result<Self, String> {
        let mut measured = self.clone();
        measured.tables.clear();
        measured.read(figures)?;
        Ok(Self { measured: Some(conditions), ..measured })
    }

    /// The values of a field. `only` keeps those at one place of an axis.
    pub(crate) fn field(&self, name: &str, only: Option<(&str, &str)>) -> Result<Table, String> {
        let mut table = self.table_of(name)?.clone();
        if let Some((axis, place)) = only
            && let Some(at) = table.axis(axis)
        {
            table.rows.retain(|row| *row.coordinates[at] == *place);
        }
        Ok(table)
    }

    /// The places of an axis.
    pub(crate) fn places(&self, axis: &str) -> Vec<Arc<str>> {
        let mut found: Vec<Arc<str>> = Vec::new();
        for table in self.tables.values() {
            let Some(at) = table.axis(axis) else { continue };
            for row in &table.rows {
                if !found.contains(&row.coordinates[at]) {
                    found.push(Arc::clone(&row.coordinates[at]));
                }
            }
        }
        found
    }

    fn table_of(&self, name: &str) -> Result<&Table, String> {
        self.tables.get(name).ok_or_else(|| {
            let known: Vec<&str> = self.tables.keys().map(|name| &**name).collect();
            format!("unknown field `{name}`; the recording has {}", known.join(", "))
        })
    }

    /// The cells of the table that belong to it, by their places.
    fn cells<'a>(&self, document: &'a Value) -> Vec<(Coordinates, &'a Value)> {
        let Some(table) = &self.table else { return self.documents(document) };
        let cells = document[table].as_object();
        let place =
            |part: &str| -> Arc<str> { self.places.get(part).map_or(part, |place| place).into() };
        let coordinates = |key: &str| -> Option<Coordinates> {
            let key = match &self.under {
                Some(under) => key.strip_prefix(&**under)?.strip_prefix('/')?,
                None => key,
            };
            let parts = key.split('/').map(&place);
            let missing = self.axes.len().checked_sub(key.split('/').count())?;
            let filled: Coordinates =
                parts.chain(self.otherwise.iter().take(missing).map(|text| place(text))).collect();
            (filled.len() == self.axes.len()).then_some(filled)
        };
        let found = |(key, cell): (&String, &'a Value)| Some((coordinates(key)?, cell));
        cells.into_iter().flatten().filter_map(found).collect()
    }

    /// Each document is a cell; those with the same places are its runs.
    fn documents<'a>(&self, documents: &'a Value) -> Vec<(Coordinates, &'a Value)> {
        let mut cells: Vec<(Coordinates, &Value)> = Vec::new();
        for document in documents.as_array().into_iter().flatten() {
            let place = |axis: &String| match at_path(document, axis) {
                Value::String(text) => Arc::from(&**text),
                other => Arc::from(&*other.to_string()),
            };
            let mut places: Coordinates = self.axes.iter().map(place).collect();
            let is_same = |cell: &&(Coordinates, &Value)| cell.0.starts_with(&places);
            let run = cells.iter().filter(is_same).count();
            places.push(run.to_string().into());
            cells.push((places, document));
        }
        cells
    }

    /// Whether the file has documents of commands instead of tables of a measuring program.
    pub(crate) const fn has_documents(&self) -> bool {
        self.table.is_none()
    }

    fn read(&mut self, text: &str) -> Result<(), String> {
        let values = serde_json::Deserializer::from_str(text).into_iter::<Value>();
        let mut values: Vec<Value> =
            values.collect::<Result<_, _>>().map_err(|error| error.to_string())?;
        let document = match (self.has_documents(), values.len()) {
            (true, _) => Value::Array(values),
            (false, 1) => values.remove(0),
            (false, _) => return Err(format!("{}: is no single JSON document", self.file)),
        };
        let cells = self.cells(&document);
        let mut axes = self.axes.clone();
        axes.extend(self.has_documents().then(|| RUN_AXIS.to_owned()));
        for (name, field) in &self.fields {
            let table = table(name, &field.value(), &axes, &cells);
            if table.rows.is_empty() {
                let part = self.table.as_deref().unwrap_or("its documents");
                return Err(format!("{} has no `{name}` in `{part}`", self.file));
            }
            self.tables.insert(name.clone(), table);
        }
        Ok(())
    }
}

fn read_all(
    descriptions: &str,
    files: &[(&str, &str)],
    mut conditions: BTreeMap<String, Conditions>,
) -> Recordings {
    let wrong = |error: toml::de::Error| format!("evaluation/recordings.toml: {error}");
    let mut recordings: BTreeMap<String, Recording> =
        toml::from_str(descriptions).map_err(wrong)?;
    let mut parts: BTreeMap<String, toml::Table> = toml::from_str(descriptions).map_err(wrong)?;
    for (name, recording) in &mut recordings {
        recording.name.clone_from(name);
        recording.measured = conditions.remove(name);
        let mut part = parts.remove(name).unwrap_or_default();
        part.retain(|key, _| key != "date" && key != "machine");
        recording.description = cache::key(&[&part.to_string()]);
        let wrong = |why: String| format!("evaluation/recordings.toml: [{name}]: {why}");
        let file = files.iter().find(|(file, _)| *file == recording.file);
        let (_, text) =
            file.ok_or_else(|| wrong(format!("no file `{}` is embedded", recording.file)))?;
        recording.read(text).map_err(wrong)?;
    }
    if let Some(unknown) = conditions.keys().next() {
        return Err(format!("papers/recorded/{unknown}.json: there is no recording `{unknown}`"));
    }
    Ok(recordings.into_iter().map(|(name, recording)| (name, Arc::new(recording))).collect())
}

/// What stands at a path such as `queue_delay_ms.p95`; `Null` where nothing does.
fn at_path<'a>(document: &'a Value, path: &str) -> &'a Value {
    document.pointer(&format!("/{}", path.replace('.', "/"))).unwrap_or(&Value::Null)
}

/// The values of a field in all cells.
fn table(
    name: &str,
    field: &FieldValue,
    keys: &[String],
    cells: &[(Coordinates, &Value)],
) -> Table {
    let (unit, of_unit) = of_field(name);
    let scale = of_unit * field.scale;
    let value = |cell: &'_ Value| match field.of.is_empty() {
        true => cell.clone(),
        false => at_path(cell, &field.of).clone(),
    };
    let values: Vec<(&Coordinates, &Value, Value)> =
        cells.iter().map(|(place, cell)| (place, *cell, value(cell))).collect();
    // A histogram ends with its last packet.
    let longest = values.iter().filter_map(|(_, _, value)| value.as_array()).map(Vec::len).max();
    let mut axes: Vec<Arc<str>> = keys.iter().map(|key| Arc::from(&**key)).collect();
    axes.extend(field.along.as_deref().map(Arc::from));
    if values.iter().any(|(_, _, value)| value["runs"].is_array()) {
        axes.push(RUN_AXIS.into());
    }
    let mut rows = Vec::new();
    for (place, cell, value) in &values {
        let along = match (value, &field.along) {
            (Value::Array(list), Some(axis)) => {
                listed(list, axis, field.is_histogram, longest.unwrap_or(0))
            }
            (Value::Array(list), None) => match field.percentile {
                Some(percent) => vec![(None, delay_ms(list, percent))],
                None => continue,
            },
            (Value::Object(_), None) => runs(&value["runs"], &cell["minutes"]),
            (Value::Number(number), None) => vec![(None, number.as_f64().unwrap_or(f64::NAN))],
            _ => continue,
        };
        for (own, value) in along {
            let place = place.iter().cloned().chain(own).collect();
            rows.push(Row::new(place, value * scale));
        }
    }
    Table { unit, axes, rows }
}

type Along = Vec<(Option<Arc<str>>, f64)>;

/// A list, by its places.
fn listed(list: &[Value], axis: &str, is_histogram: bool, longest: usize) -> Along {
    let unit = if axis == "time" { "s" } else { "" };
    let numbers = list.iter().map(|value| value.as_f64().unwrap_or(f64::NAN));
    let total: f64 = if is_histogram { numbers.clone().sum() } else { 1.0 };
    let padding = if is_histogram { longest - list.len() } else { 0 };
    let padded = numbers.chain(std::iter::repeat_n(0.0, padding)).enumerate();
    padded.map(|(at, number)| (Some(format!("{at}{unit}").into()), number / total)).collect()
}

/// Bins of delays of 1 ms, before those of a twentieth of a decade each (`alcc_statistics.py`).
const FINE_BINS: usize = 100;
const BINS_PER_DECADE: f64 = 20.0;

/// A percentile of a histogram of delays; within a bin they are as if spread evenly.
fn delay_ms(counts: &[Value], percent: f64) -> f64 {
    let begin = |bin: usize| match bin.checked_sub(FINE_BINS) {
        None => bin as f64,
        Some(above) => FINE_BINS as f64 * 10_f64.powf(above as f64 / BINS_PER_DECADE),
    };
    let counts: Vec<f64> = counts.iter().map(|count| count.as_f64().unwrap_or(f64::NAN)).collect();
    let mut left = counts.iter().sum::<f64>() * percent / 100.0;
    for (bin, count) in counts.iter().enumerate() {
        if *count > 0.0 && left <= *count {
            return begin(bin) + (begin(bin + 1) - begin(bin)) * left / count;
        }
        left -= count;
    }
    f64::NAN
}

/// The runs of a cell, by the minute of the trace over which each was where that is known.
fn runs(runs: &Value, minutes: &Value) -> Along {
    let place = |at: usize| match minutes[at].as_u64() {
        Some(minute) => minute.to_string(),
        None => at.to_string(),
    };
    let runs = runs.as_array().map_or(&[][..], Vec::as_slice);
    let number =
        |(at, run): (usize, &Value)| (Some(place(at).into()), run.as_f64().unwrap_or(f64::NAN));
    runs.iter().enumerate().map(number).collect()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    const MADE_UP: &str = r#"{"cells": {
        "gate/city/copa": {"throughput": {"mean": 2, "runs": [3, 1]}, "minutes": [4, 2],
                           "delays": [1, 3], "window": 5},
        "plain/city": {"throughput": {"mean": 4, "runs": [4]}, "delays": [0, 0, 2]},
        "other/1/2/3": {}
    }}"#;

    fn made_up(file: &str) -> Result<Recording, String> {
        let recording = read_made_up(file, "measure", None)?;
        Ok(Recording::clone(&recording))
    }

    /// A recording of which this is measured by this command.
    pub(crate) fn described(
        command: &str,
        conditions: Option<Conditions>,
    ) -> Result<Arc<Recording>, String> {
        read_made_up("made-up.json", command, conditions)
    }

    fn read_made_up(
        file: &str,
        command: &str,
        conditions: Option<Conditions>,
    ) -> Result<Arc<Recording>, String> {
        let description = format!(
            r#"
            [made-up]
            file = "{file}"
            table = "cells"
            axes = ["driver", "trace", "cc"]
            otherwise = "cubic"
            places = {{ city = "city-drive" }}
            fields.throughput_mbps = "throughput"
            fields.delay_share = {{ of = "delays", along = "bin", is_histogram = true }}
            fields.window_bytes = {{ of = "window", scale = 1000 }}
            date = "2026-11-23"
            command = "{command}"
            conditions = "none"
            machine = "unknown"
            "#
        );
        let conditions = conditions.map(|each| ("made-up".to_owned(), each)).into_iter().collect();
        let mut recordings = read_all(&description, &[("made-up.json", MADE_UP)], conditions)?;
        Ok(recordings.remove("made-up").unwrap())
    }

    fn places(table: &Table) -> Vec<(String, f64)> {
        let text = |row: &Row| (row.coordinates.join(" "), row.value);
        table.rows.iter().map(text).collect()
    }

    #[test]
    fn keys_are_places_and_runs_an_axis() {
        let recording = made_up("made-up.json").unwrap();
        let table = recording.field("throughput_mbps", None).unwrap();
        assert_eq!(table.axes.join(" "), "driver trace cc run");
        let expected = [
            ("gate city-drive copa 4".to_owned(), 3e6),
            ("gate city-drive copa 2".to_owned(), 1e6),
            ("plain city-drive cubic 0".to_owned(), 4e6),
        ];
        assert_eq!(places(&table), expected);
        let one = recording.field("throughput_mbps", Some(("run", "2"))).unwrap();
        assert_eq!(places(&one), expected[1..2]);
        assert_eq!(recording.places("run").len(), 3);
    }

    #[test]
    fn counts_become_shares_of_equally_many_bins() {
        let shares = made_up("made-up.json").unwrap().field("delay_share", None).unwrap();
        assert_eq!(shares.axes.join(" "), "driver trace cc bin");
        let values: Vec<f64> = shares.rows.iter().map(|row| row.value).collect();
        assert_eq!(values, [0.25, 0.75, 0.0, 0.0, 0.0, 1.0]);
    }

    #[test]
    fn percentiles_lie_within_their_bins() {
        let counts =
            |list: &[u64]| list.iter().map(|count| Value::from(*count)).collect::<Vec<_>>();
        assert_eq!(delay_ms(&counts(&[1, 2, 1]), 50.0), 1.5);
        assert_eq!(delay_ms(&counts(&[1, 2, 1]), 25.0), 1.0);
        let mut long = vec![0; 121];
        long[120] = 4;
        assert!((delay_ms(&counts(&long), 0.0) - 1000.0).abs() < 1e-9);
        assert!(delay_ms(&[], 50.0).is_nan());
    }

    #[test]
    fn values_of_a_cell_alone_have_no_axis_of_runs() {
        let window = made_up("made-up.json").unwrap().field("window_bytes", None).unwrap();
        assert_eq!(places(&window), [("gate city-drive copa".to_owned(), 40_000.0)]);
    }

    #[test]
    fn documents_of_commands_are_cells_and_the_same_again_is_a_run() {
        let description = r#"
            [link]
            file = "link.json"
            axes = ["queue", "flow.cc"]
            fields.throughput_mbps = "throughput_mbps"
            fields."queue_delay_ms.p95" = "queue_delay_ms.p95"
            command = ["CELLPACE link --json OUT.json", "CELLPACE link --json OUT.json"]
            conditions = "none"
        "#;
        let document = r#"{"queue": "codel", "flow": {"cc": "copa"}, "throughput_mbps": 5,
                           "queue_delay_ms": {"p95": 20}}"#;
        let twice = format!("{document}\n{document}\n");
        let recordings = read_all(description, &[("link.json", &twice)], BTreeMap::new()).unwrap();
        let delay = recordings["link"].field("queue_delay_ms.p95", None).unwrap();
        assert_eq!(delay.axes.join(" "), "queue flow.cc run");
        let expected = [("codel copa 0".to_owned(), 0.02), ("codel copa 1".to_owned(), 0.02)];
        assert_eq!(places(&delay), expected);
    }

    #[test]
    fn what_is_not_there_is_named() {
        let error = made_up("other.json").unwrap_err();
        assert!(error.contains("[made-up]: no file `other.json`"), "{error}");
        let error = made_up("made-up.json").unwrap().field("lost", None).unwrap_err();
        assert!(error.contains("unknown field `lost`"), "{error}");
        assert!(Recording::named("nothing").unwrap_err().contains("alcc-cells"));
    }
}
