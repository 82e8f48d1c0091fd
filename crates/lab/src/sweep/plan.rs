//! A plan as it is written: fields with one value or a list, in TOML or JSON.

use std::ops::RangeInclusive;

use cellpace_base::nearest;
use cellpace_path::PathField;
use serde_json::{Map, Value};

use crate::LabError;

use super::settings::{self, Alternative, example};

/// The fields of a plan beside those of a path.
const OTHER_FIELDS: [&str; 3] = ["cc", "seeds", "path"];
/// A plan is written by hand or by a small program; lists of a million seeds fit.
const MAX_PLAN_BYTES: usize = 16 << 20;

/// What a plan asks for, not yet read: which fields there are, and that each is a list of texts.
#[derive(Debug, Clone, PartialEq)]
pub struct SweepPlan {
    document: Map<String, Value>,
}

impl SweepPlan {
    /// Reads a plan in TOML; `name` stands in errors.
    ///
    /// # Errors
    /// When the text is no TOML or has a field that no plan has.
    pub fn from_toml(name: &str, text: &str) -> Result<Self, LabError> {
        check_length(name, text)?;
        let table: toml::Table = toml::from_str(text).map_err(|error| {
            let start = error.span().map_or(0, |span| span.start);
            let line =
                1 + text.as_bytes().iter().take(start).filter(|byte| **byte == b'\n').count();
            let reason = error.message().lines().next().unwrap_or_default();
            LabError::Invalid(format!("{name}, line {line}: {reason}"))
        })?;
        let value = serde_json::to_value(table).map_err(LabError::invalid)?;
        Self::of(value).map_err(|error| LabError::Invalid(format!("{name}: {error}")))
    }

    /// Reads a plan in JSON, the same fields as in TOML.
    ///
    /// # Errors
    /// When the text is no JSON object or has a field that no plan has.
    pub fn from_json(name: &str, text: &str) -> Result<Self, LabError> {
        check_length(name, text)?;
        let value = serde_json::from_str(text).map_err(LabError::invalid);
        value.and_then(Self::of).map_err(|error| LabError::Invalid(format!("{name}: {error}")))
    }

    fn of(value: Value) -> Result<Self, LabError> {
        let Value::Object(document) = value else {
            return Err(LabError::invalid("a plan has fields, such as trace = \"lte-driving\""));
        };
        check_fields(&document, |field| OTHER_FIELDS.contains(&field) || is_of_path(field))?;
        Ok(Self { document })
    }

    /// The plan in JSON with sorted keys: the same plan gives the same text.
    pub fn canonical(&self) -> String {
        Value::Object(self.document.clone()).to_string()
    }

    /// The plan as a JSON value, for the manifest.
    pub(super) fn document(&self) -> &Map<String, Value> {
        &self.document
    }

    /// The controllers: texts, or tables of a name and values.
    pub(super) fn controllers(&self) -> Result<Vec<&Value>, LabError> {
        const EXAMPLE: &str = "write, for example, cc = [\"verus\", \"copa\"]";
        match self.document.get("cc") {
            None => Err(LabError::Invalid(format!("cc: is missing; {EXAMPLE}"))),
            Some(Value::Array(list)) if list.is_empty() => Err(empty("cc")),
            Some(Value::Array(list)) => Ok(list.iter().collect()),
            Some(one) => Ok(vec![one]),
        }
    }

    /// The seeds: a list, or a range as text (`"1..50"`).
    pub(super) fn seeds(&self) -> Result<Seeds, LabError> {
        let wrong = |value: &Value| {
            let form = "write a list of whole numbers, or a range such as \"1..50\"";
            LabError::Invalid(format!("seeds: {value} is none; {form}"))
        };
        let Some(given) = self.document.get("seeds") else {
            return Ok(Seeds::Range(1..=1));
        };
        match given {
            Value::Array(list) if list.is_empty() => Err(empty("seeds")),
            Value::Array(list) => {
                let read = |value: &Value| value.as_u64().ok_or_else(|| wrong(value));
                let seeds = list.iter().map(read).collect::<Result<Vec<_>, _>>()?;
                let mut sorted = seeds.clone();
                // A copy: results keep the order that the plan has.
                sorted.sort_unstable();
                match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                    Some(pair) => {
                        Err(LabError::Invalid(format!("seeds: {} is given twice", pair[0])))
                    }
                    None => Ok(Seeds::List(seeds)),
                }
            }
            Value::String(text) => {
                let (first, last) = text.split_once("..").ok_or_else(|| wrong(given))?;
                let number = |text: &str| text.trim().parse::<u64>().map_err(|_| wrong(given));
                let (first, last) = (number(first)?, number(last)?);
                if last < first {
                    return Err(LabError::Invalid(format!(
                        "seeds: the range `{text}` is empty: no cell would remain"
                    )));
                }
                Ok(Seeds::Range(first..=last))
            }
            Value::Number(one) => Err(LabError::Invalid(format!(
                "seeds: {one} could be one seed or so many: write [{one}] or \"1..{one}\""
            ))),
            value => Err(wrong(value)),
        }
    }

    /// The alternatives of each field of each path: what `[[path]]` says, and else the plan.
    pub(super) fn paths(&self) -> Result<Vec<PathFields>, LabError> {
        let tables: Vec<&Value> = match self.document.get("path").filter(|path| !is_text(path)) {
            None => return Ok(vec![path_fields("", &self.document, &Map::new())?]),
            Some(Value::Array(list)) if list.is_empty() => return Err(empty("path")),
            Some(Value::Array(list)) => list.iter().collect(),
            Some(one) => vec![one],
        };
        let read = |(at, table): (usize, &Value)| {
            let place = format!("path[{at}].");
            let Value::Object(table) = table else {
                return Err(LabError::Invalid(format!(
                    "path: `{table}` is no table; write [[path]] and its fields below it"
                )));
            };
            check_fields(table, is_of_path)
                .map_err(|error| LabError::Invalid(format!("path[{at}]: {error}")))?;
            path_fields(&place, &self.document, table)
        };
        tables.into_iter().enumerate().map(read).collect()
    }
}

/// The seeds of a plan.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Seeds {
    Range(RangeInclusive<u64>),
    List(Vec<u64>),
}

impl Seeds {
    pub(super) fn count(&self) -> u64 {
        match self {
            Self::Range(range) => (range.end() - range.start()).saturating_add(1),
            Self::List(list) => list.len() as u64,
        }
    }

    /// The seed at a place below the count.
    pub(super) fn at(&self, place: u64) -> u64 {
        match self {
            Self::Range(range) => range.start() + place,
            Self::List(list) => list[place as usize],
        }
    }
}

/// A text, or a list of texts.
fn is_text(value: &Value) -> bool {
    match value {
        Value::Array(list) => list.first().is_some_and(Value::is_string),
        value => value.is_string(),
    }
}

/// The alternatives of each field that is given, in the order of [`settings::path_fields`].
pub(super) type PathFields = Vec<(&'static str, Vec<Alternative>)>;

fn path_fields(
    place: &str,
    plan: &Map<String, Value>,
    own: &Map<String, Value>,
) -> Result<PathFields, LabError> {
    let mut fields = Vec::new();
    for field in settings::path_fields() {
        // Tables of the name are the paths themselves.
        let of_all = plan.get(field).filter(|given| field != "path" || is_text(given));
        let (place, given) = match (own.get(field), of_all) {
            (Some(given), _) => (place, given),
            (None, Some(given)) => ("", given),
            (None, None) => continue,
        };
        fields.push((field, alternatives(&format!("{place}{field}"), field, given)?));
    }
    if fields.first().is_none_or(|(field, _)| !["trace", "path"].contains(field)) {
        return Err(LabError::Invalid(format!(
            "{place}trace: is missing; write, for example, trace = [\"lte-driving\", \
             \"constant:12mbit\"]"
        )));
    }
    Ok(fields)
}

fn alternatives(place: &str, field: &str, given: &Value) -> Result<Vec<Alternative>, LabError> {
    let list = match given {
        Value::Array(list) if list.is_empty() => return Err(empty(place)),
        Value::Array(list) => list.iter().map(|one| alternative(place, field, one)).collect(),
        one => alternative(place, field, one).map(|one| vec![one]),
    }?;
    match (1..list.len()).find(|at| list[..*at].contains(&list[*at])) {
        Some(at) => {
            Err(LabError::Invalid(format!("{place}: `{}` is given twice", list[at].join(", "))))
        }
        None => Ok(list),
    }
}

fn alternative(place: &str, field: &str, given: &Value) -> Result<Alternative, LabError> {
    match given {
        Value::String(text) => Ok(vec![text.clone()]),
        Value::Number(number) if field == "flows" => Ok(vec![number.to_string()]),
        Value::Number(number) => Err(LabError::Invalid(format!(
            "{place}: {number} has no unit; write a text such as {}",
            example(field)
        ))),
        // Several at once, as an option that is repeated.
        Value::Array(several)
            if PathField::find(field).is_some_and(|field| field.is_repeatable) =>
        {
            let text = |one: &Value| match one {
                Value::String(text) => Ok(text.clone()),
                other => Err(LabError::Invalid(format!("{place}: `{other}` is no text"))),
            };
            several.iter().map(text).collect()
        }
        other => Err(LabError::Invalid(format!(
            "{place}: `{other}` is neither a text nor a list of texts; write {}",
            example(field)
        ))),
    }
}

fn is_of_path(field: &str) -> bool {
    settings::path_fields().any(|name| name == field)
}

pub(super) fn empty(place: &str) -> LabError {
    LabError::Invalid(format!("{place}: an empty list: no cell would remain"))
}

fn check_length(name: &str, text: &str) -> Result<(), LabError> {
    if text.len() <= MAX_PLAN_BYTES {
        return Ok(());
    }
    let most = MAX_PLAN_BYTES >> 20;
    Err(LabError::Invalid(format!("{name}: more than {most} MB are no plan")))
}

fn check_fields(
    document: &Map<String, Value>,
    is_known: impl Fn(&str) -> bool,
) -> Result<(), LabError> {
    let Some(unknown) = document.keys().find(|field| !is_known(field)) else { return Ok(()) };
    let known =
        || OTHER_FIELDS.into_iter().chain(settings::path_fields()).filter(|field| is_known(field));
    let hint = match nearest(unknown, known()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("there are {}", known().collect::<Vec<_>>().join(", ")),
    };
    Err(LabError::Invalid(format!("there is no field `{unknown}`; {hint}")))
}
