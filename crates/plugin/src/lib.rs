//! Controllers in WebAssembly modules: `plugin:FILE.wasm,key=value`.
//!
//! Each flow has an instance of its own, without imports, with bounds on memory and on what one call may do, so that a
//! module can do nothing but decide, and decides the same in every run. `cellpace-guest` has the interface, and what
//! modules are written with.

#![forbid(unsafe_code)]

#[cfg(all(feature = "host", not(feature = "interpreter")))]
mod compiled;
#[cfg(feature = "host")]
mod flow;
#[cfg(feature = "interpreter")]
mod interpreted;
#[cfg(feature = "host")]
mod limits;
#[cfg(feature = "host")]
mod module;
#[cfg(feature = "host")]
mod table;

/// What runs modules.
#[cfg(all(feature = "host", not(feature = "interpreter")))]
use compiled as engine;
#[cfg(feature = "interpreter")]
use interpreted as engine;

use std::fmt;
#[cfg(feature = "host")]
use std::sync::Arc;

use cellpace_base::{GivenValues, Param, ParamError, ParamSet, Preset};
use cellpace_cc::{Controller, ControllerInfo, ControllerParams, ReadFile, Setup};

/// What a program registers to have `plugin`.
pub const PLUGIN: ControllerInfo =
    ControllerInfo::new::<PluginParams>("plugin", "one of your own, in a file: plugin:FILE.wasm");

/// A module and the values of its parameters.
pub struct PluginParams {
    /// The module's file.
    file: String,
    /// The values as written, behind the file.
    values: String,
    #[cfg(feature = "host")]
    loaded: Option<Loaded>,
}

/// A module that can be run.
#[cfg(feature = "host")]
struct Loaded {
    module: Arc<module::Module>,
    values: Vec<f64>,
}

impl fmt::Debug for PluginParams {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "plugin:{},{}", self.file, self.values)
    }
}

/// Which parameters there are, only the module knows: they are read when it is loaded.
impl ParamSet for PluginParams {
    const PRESETS: &'static [Preset] = &[];

    fn table() -> &'static [Param] {
        &[]
    }

    fn take(_: &GivenValues<'_>) -> Result<Self, ParamError> {
        Ok(Self::of(""))
    }

    fn parse(_: &str, rest: &str) -> Result<Self, ParamError> {
        Ok(Self::of(rest))
    }
}

impl PluginParams {
    fn of(rest: &str) -> Self {
        let (file, values) = rest.split_once(',').unwrap_or((rest, ""));
        Self {
            file: file.trim().to_owned(),
            values: values.to_owned(),
            #[cfg(feature = "host")]
            loaded: None,
        }
    }
}

impl ControllerParams for PluginParams {
    fn check(&self) -> Result<(), String> {
        match self.file.as_str() {
            "" => Err("name the file of a module: plugin:FILE.wasm".to_owned()),
            file if file.contains('=') => {
                Err(format!("the file of a module comes first: plugin:FILE.wasm,{file}"))
            }
            _ => Ok(()),
        }
    }

    #[cfg(feature = "host")]
    fn load(&mut self, read: &mut ReadFile<'_>) -> Result<(), String> {
        let in_file = |reason: String| format!("{}: {reason}", self.file);
        let module = module::load(&read(&self.file)?).map_err(in_file)?;
        let values = table::values(&self.file, &self.values, module.params())?;
        // What would fail at the start of every flow is said before there is one.
        let first = Setup {
            mss: 1500,
            start: cellpace_cc::Time::ZERO,
            random: cellpace_cc::Random::seeded(0, 0),
        };
        flow::PluginFlow::start(&module, &values, first).map_err(in_file)?;
        self.loaded = Some(Loaded { module, values });
        Ok(())
    }

    #[cfg(not(feature = "host"))]
    fn load(&mut self, _: &mut ReadFile<'_>) -> Result<(), String> {
        Err("this cellpace was built without the feature `plugin`; packages have it".to_owned())
    }

    #[cfg(feature = "host")]
    fn declared(&self) -> &'static [Param] {
        self.loaded.as_ref().map_or(&[], |loaded| loaded.module.params())
    }

    fn may_fail(&self) -> bool {
        true
    }

    #[cfg(feature = "host")]
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        let loaded = self.loaded.as_ref().expect("a spec loads before anything is built from it");
        Box::new(flow::Plugin::new(&self.file, &loaded.module, &loaded.values, setup))
    }

    #[cfg(not(feature = "host"))]
    fn build(&self, _: Setup) -> Box<dyn Controller> {
        unreachable!("no spec without modules loads")
    }
}
