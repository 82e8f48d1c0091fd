//! Controllers of a plan: texts, and tables whose lists and ranges are multiplied out.

use cellpace_base::{
    Param, ParamKind, Rate, Span, format_bytes, math, nearest, parse_bytes, parse_number,
    parse_span, split_name,
};
use cellpace_cc::{ControllerSpec, find_controller};
use cellpace_sim::read_controller;
use serde_json::{Map, Value};

use crate::LabError;

use super::files::PlanFiles;
use super::plan::empty;

/// Controllers of a plan at most.
const MAX_CONTROLLERS: usize = 1_000_000;
/// Values of a range at most.
const MAX_STEPS: u64 = 10_000;

/// A controller of a plan, ready to run.
#[derive(Debug, Clone)]
pub(super) struct PlannedController {
    pub(super) spec: ControllerSpec,
    /// The parameters of which the plan has a list or range, with their values as written.
    pub(super) values: Vec<(String, String)>,
    /// The names of the files that it reads.
    pub(super) files: Vec<String>,
}

/// Reads the controllers of a plan.
pub(super) fn read_controllers(
    given: &[&Value],
    files: &mut PlanFiles,
) -> Result<Vec<PlannedController>, LabError> {
    let mut controllers: Vec<PlannedController> = Vec::new();
    for (at, one) in given.iter().enumerate() {
        let of = |error: String| LabError::Invalid(format!("cc[{at}]: {error}"));
        if let Value::String(name) = one
            && let Some(spec) = files.own(name).cloned()
        {
            controllers.push(PlannedController {
                spec,
                values: Vec::new(),
                files: vec![name.clone()],
            });
            continue;
        }
        let written = match one {
            Value::String(text) => vec![(text.trim().to_owned(), Vec::new())],
            Value::Object(table) => multiplied(at, table, files)?,
            other => {
                return Err(of(format!(
                    "`{other}` is neither a text nor a table such as {{ name = \"verus\", r = [2, 4] }}"
                )));
            }
        };
        if controllers.len() + written.len() > MAX_CONTROLLERS {
            return Err(of(format!("more than {MAX_CONTROLLERS} controllers in all")));
        }
        for (text, values) in written {
            let (spec, opened) = files.reading(|files| read_controller(&text, files));
            let spec = spec.map_err(|error| of(error.to_string()))?;
            controllers.push(PlannedController { spec, values, files: opened });
        }
    }
    let mut texts: Vec<String> = controllers.iter().map(|cc| cc.spec.to_string()).collect();
    // Twice the same controller would be twice the same cell, with one id.
    texts.sort_unstable();
    match texts.windows(2).find(|pair| pair[0] == pair[1]) {
        Some(pair) => Err(LabError::Invalid(format!("cc: `{}` is given twice", pair[0]))),
        None => Ok(controllers),
    }
}

/// A controller's text, and the values in it that vary.
type Written = (String, Vec<(String, String)>);

fn multiplied(
    at: usize,
    table: &Map<String, Value>,
    files: &mut PlanFiles,
) -> Result<Vec<Written>, LabError> {
    let of = |error: String| LabError::Invalid(format!("cc[{at}]: {error}"));
    let Some(Value::String(name)) = table.get("name") else {
        return Err(of(
            "name: is missing; write, for example, { name = \"verus\", r = [2, 4] }".to_owned()
        ));
    };
    let info = find_controller(split_name(name).name).map_err(|error| of(error.to_string()))?;
    // Those of a module are in its file.
    let params = match info.params() {
        [] => files
            .reading(|files| read_controller(name, files))
            .0
            .map_err(|e| of(e.to_string()))?
            .declared(),
        params => params,
    };
    let mut written: Vec<Written> = vec![(name.trim().to_owned(), Vec::new())];
    for (key, given) in table.iter().filter(|(key, _)| *key != "name") {
        let Some(param) = params.iter().find(|param| param.key == key) else {
            let hint = match nearest(key, params.iter().map(|param| param.key)) {
                Some(near) => format!("; did you mean `{near}`?"),
                None => format!("; `cellpace cc {}` lists them", info.name),
            };
            return Err(of(format!("`{}` has no parameter `{key}`{hint}", info.name)));
        };
        let place = format!("cc[{at}].{key}");
        let values = values(&place, param, given)?;
        if written.len().saturating_mul(values.len()) > MAX_CONTROLLERS {
            return Err(of(format!("more than {MAX_CONTROLLERS} combinations of parameters")));
        }
        let is_swept = matches!(given, Value::Array(_) | Value::Object(_));
        let with = |(text, swept): &Written, value: &String| {
            // The name may come with parameters of its own, as `verus:r=2` does; others follow
            // behind a comma.
            let mark = if text.contains(':') { ',' } else { ':' };
            let mut swept = swept.clone();
            if is_swept {
                swept.push((key.clone(), value.clone()));
            }
            (format!("{text}{mark}{key}={value}"), swept)
        };
        let each = |one: &Written| values.iter().map(|value| with(one, value)).collect::<Vec<_>>();
        written = written.iter().flat_map(each).collect();
    }
    Ok(written)
}

fn values(place: &str, param: &Param, given: &Value) -> Result<Vec<String>, LabError> {
    match given {
        Value::Array(list) if list.is_empty() => Err(empty(place)),
        Value::Array(list) => list.iter().map(|value| one_value(place, value)).collect(),
        Value::Object(range) => range_values(place, param, range),
        value => one_value(place, value).map(|value| vec![value]),
    }
}

fn one_value(place: &str, value: &Value) -> Result<String, LabError> {
    match value {
        // Within a controller's text a comma begins the next parameter, so that this would be read
        // as another key.
        Value::String(text) if text.contains(',') => Err(LabError::Invalid(format!(
            "{place}: `{text}`: several values are a list: [\"...\", \"...\"]"
        ))),
        Value::String(text) => Ok(text.trim().to_owned()),
        // Numbers of TOML and JSON have no unit; a parameter that wants one refuses the text.
        Value::Number(number) => Ok(plain(number.as_f64().unwrap_or_default())),
        Value::Bool(is) => Ok(is.to_string()),
        other => Err(LabError::Invalid(format!("{place}: `{other}` is no value"))),
    }
}

/// A number without more digits than its range needs: 0.3, not 0.30000000000000004.
fn plain(number: f64) -> String {
    // Three digits less than a double has: rounding errors of a range are in those.
    let rounded = format!("{number:.12e}").parse::<f64>().unwrap_or(number);
    rounded.to_string()
}

/// The values of `{ from, to, steps, scale }`, both ends included.
fn range_values(
    place: &str,
    param: &Param,
    range: &Map<String, Value>,
) -> Result<Vec<String>, LabError> {
    const KEYS: [&str; 4] = ["from", "to", "steps", "scale"];
    const FORM: &str = "a range is { from = ..., to = ..., steps = 5 }";
    let wrong = |why: String| LabError::Invalid(format!("{place}: {why}"));
    if let Some(unknown) = range.keys().find(|key| !KEYS.contains(&key.as_str())) {
        return Err(wrong(format!("there is no `{unknown}`; {FORM}")));
    }
    let scale = ParamScale::of(param).ok_or_else(|| {
        wrong(format!("`{}` has no range ({}): write a list", param.key, param.kind))
    })?;
    let end = |key: &str| -> Result<f64, LabError> {
        let value = range.get(key).ok_or_else(|| wrong(format!("{key} is missing; {FORM}")))?;
        let text = one_value(&format!("{place}.{key}"), value)?;
        scale.read(&text).map_err(|error| wrong(format!("{key}: {error}")))
    };
    let (from, to) = (end("from")?, end("to")?);
    let steps = range.get("steps").and_then(Value::as_u64).filter(|steps| *steps >= 2);
    let steps = steps.filter(|steps| *steps <= MAX_STEPS).ok_or_else(|| {
        wrong(format!("steps: write a whole number from 2 to {MAX_STEPS}; {FORM}"))
    })?;
    let is_log = match range.get("scale").map(Value::as_str) {
        None => param.logarithmic,
        Some(Some("log")) => true,
        Some(Some("linear")) => false,
        Some(_) => return Err(wrong("scale: write \"linear\" or \"log\"".to_owned())),
    };
    if from >= to {
        return Err(wrong("`from` is not below `to`".to_owned()));
    }
    if is_log && from <= 0.0 {
        return Err(wrong("a logarithmic scale begins above 0".to_owned()));
    }
    let at = |step: u64| {
        let share = step as f64 / (steps - 1) as f64;
        let value = match () {
            // The ends as written: rounding in the formula would move them.
            () if step == 0 => from,
            () if step == steps - 1 => to,
            () if is_log => from * math::pow(to / from, share),
            () => from + (to - from) * share,
        };
        scale.write(value)
    };
    let mut values: Vec<String> = (0..steps).map(at).collect();
    // Whole numbers in a short range come out several times.
    values.dedup();
    Ok(values)
}

/// How the values of a parameter with a range are read and written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamScale {
    /// A number.
    Number,
    /// A whole number.
    Integer,
    /// A time, in ns.
    Span,
    /// A size in bytes.
    Bytes,
    /// A rate, in bytes per second.
    Rate,
}

impl ParamScale {
    /// The scale of a parameter; `None`: its values are in no order.
    pub fn of(param: &Param) -> Option<Self> {
        match param.kind {
            ParamKind::Number(..) => Some(Self::Number),
            ParamKind::Integer(..) => Some(Self::Integer),
            ParamKind::Span(..) => Some(Self::Span),
            ParamKind::Bytes(..) => Some(Self::Bytes),
            ParamKind::Rate(..) => Some(Self::Rate),
            ParamKind::Bool | ParamKind::Window | ParamKind::Word(_) | ParamKind::Text(_) => None,
        }
    }

    /// Reads a value with its unit.
    ///
    /// # Errors
    /// When it is none of this scale.
    pub fn read(self, text: &str) -> Result<f64, String> {
        match self {
            Self::Number | Self::Integer => parse_number(text).map_err(|e| e.to_string()),
            Self::Span => {
                parse_span(text).map(|span| span.as_nanos() as f64).map_err(|e| e.to_string())
            }
            Self::Bytes => parse_bytes(text).map(|bytes| bytes as f64).map_err(|e| e.to_string()),
            Self::Rate => {
                text.parse::<Rate>().map(Rate::as_bytes_per_sec).map_err(|e| e.to_string())
            }
        }
    }

    /// Writes a value with its unit, without more digits than anybody means.
    pub fn write(self, value: f64) -> String {
        match self {
            Self::Number => plain(value),
            Self::Integer => plain(value.round()),
            // Whole microseconds, so that the text stays short.
            Self::Span if value > 1e6 => {
                Span::from_nanos((value / 1e3).round() as u64 * 1_000).to_string()
            }
            Self::Span => Span::from_nanos(value.round() as u64).to_string(),
            Self::Bytes => format_bytes(value.round() as u64),
            Self::Rate => Rate::from_bytes_per_sec(value).to_string(),
        }
    }
}
