//! A module: compiled, its exports looked through, its parameters read. Each is compiled once in the life of a process.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use cellpace_base::{Param, nearest};
use cellpace_guest::abi;

use crate::engine::{Code, Instance};
use crate::limits::Export;
use crate::table;

/// The largest file of a module, in bytes.
const MAX_MODULE_BYTES: usize = 8 << 20;

/// What a module may export to be called, and whether it takes a time in place of a record.
const CALLS: [(&str, bool); 12] = [
    ("cellpace_start", false),
    ("cellpace_on_sent", false),
    ("cellpace_on_ack", false),
    ("cellpace_on_loss", false),
    ("cellpace_on_mark", false),
    ("cellpace_on_timeout", false),
    ("cellpace_on_spurious", false),
    ("cellpace_on_block", false),
    ("cellpace_on_frame", false),
    ("cellpace_on_deadline", true),
    ("cellpace_on_path_change", true),
    ("cellpace_on_ecn_failed", true),
];

/// What a module may export beside, as functions that return an `i32`.
const FACTS: [&str; 2] = ["cellpace_abi", "cellpace_params"];

/// A module that can be instantiated.
pub(crate) struct Module {
    code: Code,
    params: &'static [Param],
}

/// Compiled modules by the bytes of their files.
static MODULES: Mutex<Option<HashMap<Vec<u8>, Arc<Module>>>> = Mutex::new(None);

/// Compiles a module, or finds it compiled.
///
/// # Errors
/// When it is none, or not one that controls a flow.
pub(crate) fn load(bytes: &[u8]) -> Result<Arc<Module>, String> {
    if bytes.len() > MAX_MODULE_BYTES {
        return Err(format!("more than the {} MB that a module may have", MAX_MODULE_BYTES >> 20));
    }
    let mut modules = MODULES.lock().unwrap_or_else(PoisonError::into_inner);
    let modules = modules.get_or_insert_default();
    if let Some(known) = modules.get(bytes) {
        return Ok(Arc::clone(known));
    }
    let module = Arc::new(Module::compile(bytes)?);
    modules.insert(bytes.to_vec(), Arc::clone(&module));
    Ok(module)
}

impl Module {
    fn compile(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(b"\0asm") {
            return Err("this is no WebAssembly module".to_owned());
        }
        let code = Code::compile(bytes)?;
        check_exports(&code)?;
        let mut module = Self { code, params: &[] };
        module.params = module.declared()?;
        Ok(module)
    }

    /// Describes its parameters.
    pub(crate) fn params(&self) -> &'static [Param] {
        self.params
    }

    /// Asks a first instance for version and parameters.
    fn declared(&self) -> Result<&'static [Param], String> {
        let mut first = self.instantiate()?;
        let version = ask(&mut first, "cellpace_abi")?;
        if version != Some(abi::VERSION) {
            let found = version.unwrap_or_default();
            return Err(format!(
                "cellpace_abi: it is made for version {found} of the interface; this program has {}",
                abi::VERSION
            ));
        }
        match ask(&mut first, "cellpace_params")? {
            None => Ok(&[]),
            Some(place) => table::read(first.memory(), place)
                .map_err(|reason| format!("cellpace_params: {reason}")),
        }
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// When its memory is too large, or its start function fails.
    pub(crate) fn instantiate(&self) -> Result<Instance, String> {
        self.code.instantiate().map_err(|error| format!("it does not begin: {error}"))
    }
}

/// Calls a function without arguments, if there is one.
fn ask(instance: &mut Instance, name: &str) -> Result<Option<u32>, String> {
    let Some(function) = instance.function::<(), u32>(name) else { return Ok(None) };
    let answer = instance.call(&function, ()).map_err(|error| format!("{name}: {error}"))?;
    Ok(Some(answer))
}

/// Refuses a module that lacks something, or exports what would never be called.
fn check_exports(code: &Code) -> Result<(), String> {
    for needed in ["memory", "cellpace_abi", "cellpace_start"] {
        if !code.exports().any(|(name, _)| name == needed) {
            return Err(format!("it does not export `{needed}`"));
        }
    }
    if !code.exports().any(|export| matches!(export, ("memory", Export::Memory))) {
        return Err("memory: it should be a memory of 32 bits".to_owned());
    }
    code.exports()
        .filter(|(name, _)| name.starts_with("cellpace_"))
        .try_for_each(|(name, found)| check_type(name, &found))
}

fn check_type(name: &str, found: &Export) -> Result<(), String> {
    let call = CALLS.iter().find(|(call, _)| *call == name);
    let form = match call {
        Some((_, false)) => "(i32, i32)",
        Some((_, true)) => "(i64, i32)",
        None if FACTS.contains(&name) => "() -> i32",
        None => {
            let known = CALLS.iter().map(|(call, _)| *call).chain(FACTS);
            let hint = nearest(name, known).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("`{name}` would never be called{}", hint.unwrap_or_default()));
        }
    };
    match found {
        Export::Function(found) if found == form => Ok(()),
        _ => Err(format!("{name}: it should be a function {form}")),
    }
}
