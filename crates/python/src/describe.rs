//! What there is: controllers and their parameters, profiles, as JSON for the layer above.

use cellpace_base::{Param, ParamKind, split_name};
use cellpace_cc::{find_controller, registry};
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
