//! A policy as a file: a small network and the rules of its steps.

use std::sync::Arc;

use cellpace_base::math::exp;
use cellpace_base::{Time, parse_span};
use serde::Deserialize;

use super::{
    Action, ActionSpace, Convention, Observation, StepPolicy, StepRecord, StepRules,
    SteppedController,
};
use crate::{Controller, Setup};

/// What the field `format` says.
const FORMAT: &str = "cellpace-policy";
/// The version of the format that is read.
const VERSION: u64 = 1;
/// Layers at most.
const MAX_LAYERS: usize = 8;
/// Outputs of a layer at most.
const MAX_WIDTH: usize = 1024;

/// A policy: from the observation of the last steps to an action. A fully connected network with
/// tanh between its layers and none behind the last.
///
/// Its file is a JSON document:
///
/// ```json
/// {"format": "cellpace-policy", "version": 1, "about": "for people", "step": "20ms",
///  "decision_delay": "0ms", "observation": "aurora", "history": 1, "action": "default",
///  "layers": [{"weights": [[-0.5, -0.5, -0.1]], "bias": [0.7]}]}
/// ```
///
/// Weights have one row for each output. With discrete actions there is an output for each.
#[derive(Debug, Clone, PartialEq)]
pub struct PolicyModel {
    rules: StepRules,
    layers: Vec<Layer>,
}

#[derive(Debug, Clone, PartialEq)]
struct Layer {
    /// Row by row, one row for each output.
    weights: Vec<f64>,
    bias: Vec<f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct PolicyDocument {
    format: String,
    version: u64,
    #[serde(default)]
    #[allow(dead_code, reason = "for people")]
    about: String,
    step: String,
    decision_delay: String,
    observation: String,
    history: usize,
    action: String,
    layers: Vec<LayerDocument>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct LayerDocument {
    weights: Vec<Vec<f64>>,
    bias: Vec<f64>,
}

impl PolicyModel {
    /// Reads the file of a policy.
    ///
    /// # Errors
    /// When it is no such document, or its numbers do not fit together, in words that name the
    /// field.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        let document: PolicyDocument =
            serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
        if document.format != FORMAT || document.version != VERSION {
            let found = format!("`{}` version {}", document.format, document.version);
            return Err(format!("format: {found}; expected: `{FORMAT}` version {VERSION}"));
        }
        let named = |field: &str, error: String| format!("{field}: {error}");
        let rules = StepRules {
            step: document.step.parse().map_err(|error| named("step", error))?,
            decision_delay: parse_span(&document.decision_delay)
                .map_err(|error| named("decision_delay", error.to_string()))?,
            observation: (document.observation.parse::<Convention>())
                .map_err(|error| named("observation", error))?,
            history: document.history,
            action: document.action.parse().map_err(|error| named("action", error))?,
        };
        rules.check()?;
        let inputs = Observation::new(rules.observation, rules.history).width();
        let outputs = ActionSpace::of(rules.action).outputs();
        Ok(Self { rules, layers: read_layers(document.layers, inputs, outputs)? })
    }

    /// The rules of its steps.
    pub fn rules(&self) -> StepRules {
        self.rules
    }

    /// A controller that this policy decides for.
    pub fn build(self: &Arc<Self>, setup: Setup) -> Box<dyn Controller> {
        let deciding = Deciding { model: Arc::clone(self), scratch: self.scratch(), action: 0.0 };
        Box::new(SteppedController::new(self.rules, deciding, setup))
    }

    /// Returns what is kept between decisions, so that none of them takes memory.
    fn scratch(&self) -> PolicyScratch {
        let widest = self.layers.iter().map(|layer| layer.bias.len()).max().unwrap_or(0);
        let inputs = Observation::new(self.rules.observation, self.rules.history).width();
        let room = || Vec::with_capacity(widest.max(inputs));
        PolicyScratch { input: room(), output: room() }
    }

    /// The action for an observation.
    fn action(&self, observation: &[f32], scratch: &mut PolicyScratch) -> f64 {
        let PolicyScratch { input, output } = scratch;
        output.clear();
        output.extend(observation.iter().map(|value| f64::from(*value)));
        for (index, layer) in self.layers.iter().enumerate() {
            std::mem::swap(input, output);
            output.clear();
            let rows = layer.weights.chunks_exact(input.len());
            output.extend(rows.zip(&layer.bias).map(|(row, bias)| {
                bias + row.iter().zip(&*input).map(|(weight, value)| weight * value).sum::<f64>()
            }));
            if index + 1 < self.layers.len() {
                output.iter_mut().for_each(|value| *value = tanh(*value));
            }
        }
        ActionSpace::of(self.rules.action).action_of(output)
    }
}

/// Values of the layers.
#[derive(Debug, Clone, Default)]
struct PolicyScratch {
    input: Vec<f64>,
    output: Vec<f64>,
}

/// Decides by a network.
struct Deciding {
    model: Arc<PolicyModel>,
    scratch: PolicyScratch,
    action: f64,
}

impl StepPolicy for Deciding {
    fn on_step(&mut self, _record: &StepRecord, observation: &[f32], _next_end: Time) {
        self.action = self.model.action(observation, &mut self.scratch);
    }

    fn action(&mut self) -> Action {
        Action::Convention(self.action)
    }
}

fn tanh(x: f64) -> f64 {
    1.0 - 2.0 / (exp(2.0 * x) + 1.0)
}

fn read_layers(
    documents: Vec<LayerDocument>,
    inputs: usize,
    outputs: usize,
) -> Result<Vec<Layer>, String> {
    let count = documents.len();
    if !(1..=MAX_LAYERS).contains(&count) {
        return Err(format!("layers: there are {count}; allowed: 1 to {MAX_LAYERS}"));
    }
    let (mut width, mut layers) = (inputs, Vec::new());
    for (index, document) in documents.into_iter().enumerate() {
        let wrong = |reason: String| Err(format!("layers[{index}]: {reason}"));
        let rows = document.weights.len();
        if rows == 0 || rows > MAX_WIDTH || rows != document.bias.len() {
            let bias = document.bias.len();
            return wrong(format!(
                "{rows} rows of weights and {bias} of bias; both should be the same, 1 to \
                 {MAX_WIDTH}"
            ));
        }
        if let Some(row) = document.weights.iter().find(|row| row.len() != width) {
            return wrong(format!("a row has {} weights; its input has {width}", row.len()));
        }
        if document.weights.iter().flatten().chain(&document.bias).any(|one| one.abs() > 1e6) {
            return wrong("a weight is beyond 1000000".to_owned());
        }
        width = rows;
        layers.push(Layer { weights: document.weights.concat(), bias: document.bias });
    }
    match width == outputs {
        true => Ok(layers),
        false => Err(format!("layers: {width} outputs; the action has {outputs}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One hidden unit, three inputs of Aurora.
    const SMALL: &str = r#"{"format": "cellpace-policy", "version": 1, "step": "0.5rtt",
        "decision_delay": "0ms", "observation": "aurora", "history": 1, "action": "aurora",
        "layers": [{"weights": [[1, 0, -1]], "bias": [0.5]}, {"weights": [[10]], "bias": [1]}]}"#;

    fn refused(from: &str, to: &str) -> String {
        assert!(SMALL.contains(from));
        PolicyModel::from_bytes(SMALL.replace(from, to).as_bytes()).unwrap_err()
    }

    #[test]
    fn a_network_computes_its_layers() {
        let model = PolicyModel::from_bytes(SMALL.as_bytes()).unwrap();
        let mut scratch = model.scratch();
        // 10 tanh(1 - 1.25 + 0.5) + 1
        let expected = 10.0 * 0.25_f64.tanh() + 1.0;
        for _ in 0..2 {
            let action = model.action(&[1.0, 7.0, 1.25], &mut scratch);
            assert!((action - expected).abs() < 1e-12, "{action}");
        }
        assert!((tanh(-3.0) - (-3_f64).tanh()).abs() < 1e-14);
        assert_eq!((tanh(1e5), tanh(-1e5)), (1.0, -1.0));
    }

    #[test]
    fn errors_name_the_field() {
        for (from, to, expected) in [
            ("cellpace-policy", "pickle", "format: `pickle` version 1; expected"),
            ("\"version\": 1", "\"version\": 2", "format: `cellpace-policy` version 2"),
            ("0.5rtt", "0.5", "step: `0.5` needs a unit"),
            ("\"0ms\"", "\"x\"", "decision_delay: "),
            (
                "\"observation\": \"aurora\"",
                "\"observation\": \"arora\"",
                "observation: `arora`; there are default, aurora, orca, mvfst",
            ),
            ("\"history\": 1", "\"history\": 1000", "history: 1000 steps"),
            ("\"history\": 1", "\"history\": 2", "layers[0]: a row has 3 weights; its input has 6"),
            ("[0.5]", "[0.5, 1]", "layers[0]: 1 rows of weights and 2 of bias"),
            ("[[10]]", "[[1e300]]", "layers[1]: a weight is beyond"),
            (
                "\"action\": \"aurora\"",
                "\"action\": \"mvfst\"",
                "layers: 1 outputs; the action has 5",
            ),
            ("\"layers\"", "\"layer\"", "unknown field `layer`"),
            ("}]}", "", "EOF while parsing"),
        ] {
            let error = refused(from, to);
            assert!(error.starts_with(expected), "{error}");
        }
    }
}
