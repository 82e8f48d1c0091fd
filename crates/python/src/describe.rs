//! What there is: controllers and their parameters, profiles, as JSON for the layer above.

use cellpace_base::{Param, ParamKind, Span, parse_span, split_name};
use cellpace_cc::{find_controller, registry};
use cellpace_lab::read_controller;
use cellpace_lab::sweep::ParamScale;
use cellpace_path::profile;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::error::refused;

/// Name, summary and presets of each controller.
#[pyfunction]
pub(crate) fn controllers() -> String {
    let describe = |info: &cellpace_cc::ControllerInfo| {
        let presets: Vec<&str> = info.presets.iter().map(|preset| preset.name).collect();
        json!({ "name": info.name, "summary": info.summary, "presets": presets })
    };
    Value::Array(registry().iter().map(describe).collect()).to_string()
}

/// The parameters of a controller.
#[pyfunction]
pub(crate) fn params(name: &str) -> PyResult<String> {
    let info = find_controller(split_name(name).name).map_err(refused)?;
    Ok(Value::Array(info.params().iter().map(param).collect()).to_string())
}

/// Refuses a controller that cannot be built.
#[pyfunction]
pub(crate) fn check_controller(text: &str) -> PyResult<()> {
    read_controller(text).map(|_| ()).map_err(refused)
}

/// A value of a parameter with a range, in the units of its ends.
#[pyfunction]
pub(crate) fn param_number(controller: &str, key: &str, text: &str) -> PyResult<f64> {
    let scale = scale(controller, key)?;
    let value = scale.read(text).map_err(|error| refused(format!("{key}: {error}")))?;
    Ok(value * unit(scale))
}

/// Such a value as it is written.
#[pyfunction]
pub(crate) fn param_text(controller: &str, key: &str, value: f64) -> PyResult<String> {
    let scale = scale(controller, key)?;
    Ok(scale.write(value / unit(scale)))
}

/// A time in seconds.
#[pyfunction]
pub(crate) fn span_seconds(text: &str) -> PyResult<f64> {
    parse_span(text).map(Span::as_secs_f64).map_err(refused)
}

fn scale(controller: &str, key: &str) -> PyResult<ParamScale> {
    let info = find_controller(split_name(controller).name).map_err(refused)?;
    let param = info.params().iter().find(|param| param.key == key);
    let scale = param.and_then(ParamScale::of);
    scale.ok_or_else(|| refused(format!("`{}` has no range for `{key}`", info.name)))
}

/// The factor to seconds, bytes and bits per second.
fn unit(scale: ParamScale) -> f64 {
    match scale {
        ParamScale::Span => 1e-9,
        ParamScale::Rate => 8.0,
        ParamScale::Number | ParamScale::Integer | ParamScale::Bytes => 1.0,
    }
}

/// Names of the built-in profiles.
#[pyfunction]
pub(crate) fn profiles() -> Vec<&'static str> {
    profile::NAMES.to_vec()
}

/// Ends of ranges are in seconds, bytes and bits per second.
fn param(param: &Param) -> Value {
    let no_words: &[&str] = &[];
    let (kind, range, words) = match param.kind {
        ParamKind::Number(low, high) => ("number", Some((low, high)), no_words),
        ParamKind::Integer(low, high) => ("integer", Some((low as f64, high as f64)), no_words),
        ParamKind::Bool => ("bool", None, no_words),
        ParamKind::Span(low, high) => {
            ("time", Some((low.as_secs_f64(), high.as_secs_f64())), no_words)
        }
        ParamKind::Bytes(low, high) => ("bytes", Some((low as f64, high as f64)), no_words),
        ParamKind::Rate(low, high) => {
            ("rate", Some((low.as_mbps() * 1e6, high.as_mbps() * 1e6)), no_words)
        }
        ParamKind::Window => ("window", None, no_words),
        ParamKind::Word(words) => ("word", None, words),
        ParamKind::Text(_) => ("text", None, no_words),
    };
    json!({
        "key": param.key,
        "kind": kind,
        "default": Some(param.default).filter(|default| !default.is_empty()),
        "unit": param.unit,
        "low": range.map(|(low, _)| low),
        "high": range.map(|(_, high)| high),
        "words": words,
        "allowed": param.kind.to_string(),
        "logarithmic": param.logarithmic,
        "expert": param.expert,
        "help": param.help,
        "source": param.source,
    })
}
