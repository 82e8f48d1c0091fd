//! `policy:model=FILE`: a policy as a controller string.

use std::fmt;
use std::sync::Arc;

use cellpace_base::{GivenValues, Param, ParamError, ParamSet, Preset, params};

use super::PolicyModel;
use crate::{Controller, ControllerParams, ReadFile, Setup};

params! {
    /// What a policy takes.
    struct PolicyParams {
        /// The file with the policy, as `cellpace.gym.save_policy` of the Python package writes it
        model: Option<String> = "", from "docs/how-to/python.md";
    }
}

/// The parameters, and the policy that they name.
pub(crate) struct PolicyController {
    params: PolicyParams,
    /// `None` until it is loaded.
    model: Option<Arc<PolicyModel>>,
}

impl fmt::Debug for PolicyController {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.params.fmt(f)
    }
}

impl ParamSet for PolicyController {
    const PRESETS: &'static [Preset] = PolicyParams::PRESETS;

    fn table() -> &'static [Param] {
        PolicyParams::table()
    }

    fn take(given: &GivenValues<'_>) -> Result<Self, ParamError> {
        Ok(Self { params: PolicyParams::take(given)?, model: None })
    }
}

impl ControllerParams for PolicyController {
    fn check(&self) -> Result<(), String> {
        match self.params.model {
            Some(_) => Ok(()),
            None => Err("name the file of a policy: policy:model=FILE".to_owned()),
        }
    }

    fn load(&mut self, read: &mut ReadFile<'_>) -> Result<(), String> {
        let file = self.params.model.as_deref().unwrap_or_default();
        let model = PolicyModel::from_bytes(&read(file)?);
        self.model = Some(Arc::new(model.map_err(|error| format!("{file}: {error}"))?));
        Ok(())
    }

    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let model = self.model.as_ref().expect("a spec loads before anything is built from it");
        model.build(setup)
    }
}

#[cfg(test)]
mod tests {
    use crate::{ControllerSpec, Random, Setup, Time};

    const HALVING: &str = r#"{"format": "cellpace-policy", "version": 1, "step": "20ms",
        "decision_delay": "0ms", "observation": "aurora", "history": 1, "action": "default",
        "layers": [{"weights": [[0, 0, 0]], "bias": [-1]}]}"#;

    fn read(text: &str) -> Result<ControllerSpec, String> {
        let file = |name: &str| match name {
            "halving.json" => Ok(HALVING.into()),
            "broken.json" => Ok(HALVING.replace("[-1]", "[]").into()),
            other => Err(format!("there is no file `{other}`")),
        };
        ControllerSpec::parse(text, &mut { file }).map_err(|error| error.to_string())
    }

    #[test]
    fn a_policy_is_a_controller_by_the_name_of_its_file() {
        let spec = read("policy:model=halving.json").unwrap();
        let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
        let mut controller = spec.build(setup);
        assert_eq!((spec.name(), controller.cwnd()), ("policy", 15_000));
        for _ in 0..2 {
            let deadline = controller.next_deadline().unwrap();
            controller.on_deadline(deadline);
        }
        assert_eq!(controller.cwnd(), 7_500);
    }

    #[test]
    fn errors_name_the_file() {
        for (text, error) in [
            ("policy", "`policy`: name the file of a policy: policy:model=FILE"),
            ("policy:model=gone.json", "`policy`: there is no file `gone.json`"),
            ("policy:model=broken.json", "`policy`: broken.json: layers[0]: 1 rows of weights"),
            ("policy:modle=x", "`policy` has no parameter `modle`; did you mean `model`?"),
            ("polcy:model=x", "there is no controller `polcy`; did you mean `policy`?"),
        ] {
            let found = read(text).unwrap_err();
            assert!(found.starts_with(error), "{found}");
        }
    }
}
