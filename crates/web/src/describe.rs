//! What there is to choose, for the page's controls: from the declarations that also read and check.

use std::borrow::Cow;

use cellpace_base::{Param, ParamKind, Preset};
use cellpace_cc::{ControllerSpec, registry};
use cellpace_path::queue::{QueueSpec, queue_infos};
use cellpace_path::schedule::TRACE_FORMS;
use cellpace_path::{profile, radio};
use serde::Serialize;

use crate::Query;
use crate::query::TRACE;

#[derive(Serialize)]
struct Choices {
    version: &'static str,
    defaults: Defaults,
    traces: Vec<NamedThing>,
    trace_forms: Vec<(&'static str, &'static str)>,
    queues: Vec<QueueChoice>,
    controllers: Vec<ControllerChoice>,
}

/// What `cellpace compare` takes for options that are left out, but for the duration: the program's
/// depends on the trace.
#[derive(Serialize)]
struct Defaults {
    trace: String,
    rtt: String,
    queue: String,
    loss: String,
    flows: String,
    duration: String,
    seed: String,
}

#[derive(Serialize)]
struct NamedThing {
    name: String,
    about: String,
}

#[derive(Serialize)]
struct QueueChoice {
    name: &'static str,
    summary: &'static str,
    /// Whether its size stands behind the colon.
    is_sized: bool,
    params: Vec<Parameter>,
}

/// A controller, for the page's list of them.
#[derive(Debug, Serialize)]
pub struct ControllerChoice {
    name: Cow<'static, str>,
    summary: &'static str,
    presets: Vec<NamedValues>,
    params: Vec<Parameter>,
}

#[derive(Debug, Serialize)]
struct NamedValues {
    name: &'static str,
    values: &'static str,
    summary: &'static str,
    source: &'static str,
}

#[derive(Debug, Serialize)]
struct Parameter {
    key: &'static str,
    kind: ParameterKind,
    /// What is allowed, for people.
    allowed: String,
    default: &'static str,
    unit: &'static str,
    help: &'static str,
    source: &'static str,
    expert: bool,
    logarithmic: bool,
}

/// Type and ends of the range: spans in ms, rates in Mbit/s.
#[derive(Debug, Serialize)]
#[serde(tag = "type", rename_all = "lowercase")]
enum ParameterKind {
    Number { low: f64, high: f64 },
    Integer { low: u64, high: u64 },
    Bool,
    Span { low: f64, high: f64 },
    Bytes { low: u64, high: u64 },
    Rate { low: f64, high: f64 },
    Word { words: &'static [&'static str] },
    Text,
}

/// The document that the page makes its controls of.
pub(crate) fn describe() -> String {
    let choices = Choices {
        version: env!("CARGO_PKG_VERSION"),
        defaults: defaults(),
        traces: traces(),
        trace_forms: TRACE_FORMS.to_vec(),
        queues: queues(),
        controllers: controllers(),
    };
    serde_json::to_string(&choices).unwrap_or_default()
}

fn defaults() -> Defaults {
    let Query { path, flows, duration, seed, .. } = Query::default();
    let [rtt, queue, loss] = ["rtt", "queue", "loss"].map(|field| path.text(field).to_owned());
    Defaults { trace: TRACE.to_owned(), rtt, queue, loss, flows, duration, seed }
}

/// Profiles and radio layers.
fn traces() -> Vec<NamedThing> {
    let profiles = profile::NAMES.iter().map(|name| NamedThing {
        name: (*name).to_owned(),
        about: profile::builtin(name).map(|one| one.about().to_owned()).unwrap_or_default(),
    });
    let layers = radio::NAMES.iter().zip(radio::SUMMARIES).map(|(name, summary)| NamedThing {
        name: format!("radio:{name}"),
        about: summary.to_owned(),
    });
    profiles.chain(layers).collect()
}

fn queues() -> Vec<QueueChoice> {
    let queue = |info: &'static cellpace_path::queue::QueueInfo| QueueChoice {
        name: info.name,
        summary: info.summary,
        is_sized: format!("{}:1MB", info.name).parse::<QueueSpec>().is_ok(),
        params: info.params().iter().map(parameter).collect(),
    };
    queue_infos().map(queue).collect()
}

fn controllers() -> Vec<ControllerChoice> {
    let controller = |info: &'static cellpace_cc::ControllerInfo| ControllerChoice {
        name: info.name.into(),
        summary: info.summary,
        presets: info.presets.iter().map(preset).collect(),
        params: info.params().iter().map(parameter).collect(),
    };
    registry().iter().map(controller).collect()
}

/// The controller in a module, with the parameters that it declares.
pub(crate) fn module(module: &ControllerSpec) -> ControllerChoice {
    ControllerChoice {
        name: module.to_string().into(),
        summary: "one of your own, in a file",
        presets: Vec::new(),
        params: module.declared().iter().map(parameter).collect(),
    }
}

fn preset(preset: &'static Preset) -> NamedValues {
    let Preset { name, values, summary, source } = *preset;
    NamedValues { name, values, summary, source }
}

fn parameter(param: &'static Param) -> Parameter {
    let Param { key, kind, default, unit, help, source, expert, logarithmic, .. } = *param;
    let allowed = kind.to_string();
    Parameter { key, kind: kind.into(), allowed, default, unit, help, source, expert, logarithmic }
}

impl From<ParamKind> for ParameterKind {
    fn from(kind: ParamKind) -> Self {
        match kind {
            ParamKind::Number(low, high) => Self::Number { low, high },
            ParamKind::Integer(low, high) => Self::Integer { low, high },
            ParamKind::Bool => Self::Bool,
            ParamKind::Span(low, high) => {
                Self::Span { low: low.as_millis_f64(), high: high.as_millis_f64() }
            }
            ParamKind::Bytes(low, high) => Self::Bytes { low, high },
            ParamKind::Rate(low, high) => Self::Rate { low: low.as_mbps(), high: high.as_mbps() },
            ParamKind::Word(words) => Self::Word { words },
            ParamKind::Window | ParamKind::Text(_) => Self::Text,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_controller_queue_and_parameter_is_described() {
        let choices: serde_json::Value = serde_json::from_str(&describe()).unwrap();
        let described = choices["controllers"].as_array().unwrap();
        assert_eq!(described.len(), registry().len());
        for (found, info) in described.iter().zip(registry()) {
            assert_eq!(found["name"], info.name);
            assert_eq!(found["params"].as_array().unwrap().len(), info.params().len());
        }
        let r = &described[0]["params"].as_array().unwrap()[0];
        assert!(!r["allowed"].as_str().unwrap().is_empty(), "{r}");
        let sized = |name: &str| {
            let queues = choices["queues"].as_array().unwrap();
            queues.iter().find(|queue| queue["name"] == name).unwrap()["is_sized"].clone()
        };
        assert_eq!((sized("droptail"), sized("codel")), (true.into(), false.into()));
        assert_eq!(choices["defaults"]["rtt"], "40ms");
    }
}
