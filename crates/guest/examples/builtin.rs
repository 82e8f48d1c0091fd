//! The controllers of the registry as one module: `plugin:builtin.wasm,which=6` is CUBIC by another way.

#![allow(unsafe_code, reason = "names that cellpace calls")]

use cellpace_cc::{Controller, ControllerParams, ControllerSpec, Setup, params, registry};

params! {
    /// Which one.
    pub struct BuiltinParams {
        /// Its place in the registry
        which: u64 = "0" in 0..=99, from "registry.rs";
    }
}

cellpace_guest::export!(BuiltinParams);

impl ControllerParams for BuiltinParams {
    fn check(&self) -> Result<(), String> {
        let known = registry().len() as u64;
        if self.which < known { Ok(()) } else { Err(format!("which: there are {known}")) }
    }

    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let info = &registry()[self.which as usize];
        let spec: ControllerSpec = info.name.parse().expect("it is in the registry");
        spec.build(setup)
    }
}
