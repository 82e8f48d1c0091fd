//! A module: compiled, its exports looked through, its parameters read. Each is compiled once in the life of a process.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use cellpace_base::{Param, nearest};
use cellpace_guest::abi;
use wasmtime::{
    Config, Engine, ExternType, InstancePre, Linker, Memory, OptLevel, Store, StoreLimits,
    StoreLimitsBuilder, Trap, ValType,
};

use crate::table;

/// The largest file of a module, in bytes.
const MAX_MODULE_BYTES: usize = 8 << 20;
/// Memory of one flow at most, in bytes.
const MAX_MEMORY: usize = 16 << 20;
/// What one call may do: about as many instructions.
pub(crate) const STEPS: u64 = 10_000_000;
/// The stack of one call, in bytes: those of threads that run flows are larger.
const MAX_STACK: usize = 128 << 10;

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
    instances: InstancePre<StoreLimits>,
    params: &'static [Param],
}

/// An instance and its memory.
pub(crate) struct Instance {
    pub(crate) store: Store<StoreLimits>,
    pub(crate) instance: wasmtime::Instance,
    pub(crate) memory: Memory,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        // The same bits on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .consume_fuel(true)
        .max_wasm_stack(MAX_STACK)
        // The signals of the process are its own, and a flow takes no more address space than memory.
        .signals_based_traps(false)
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_reservation_for_growth(0)
        .memory_init_cow(false)
        .wasm_backtrace(false);
    Engine::new(&config).expect("the settings go together on every machine that is compiled for")
});

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
        let compiled = wasmtime::Module::from_binary(&ENGINE, bytes)
            .map_err(|error| format!("this is no module that runs here: {}", one_line(&error)))?;
        check_exports(&compiled)?;
        let instances = Linker::new(&ENGINE).instantiate_pre(&compiled);
        let instances = instances.map_err(|error| one_line(&error))?;
        let mut module = Self { instances, params: &[] };
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
        let version = first.ask("cellpace_abi")?;
        if version != Some(abi::VERSION) {
            let found = version.unwrap_or_default();
            return Err(format!(
                "cellpace_abi: it is made for version {found} of the interface; this program has {}",
                abi::VERSION
            ));
        }
        match first.ask("cellpace_params")? {
            None => Ok(&[]),
            Some(place) => table::read(first.memory.data(&first.store), place)
                .map_err(|reason| format!("cellpace_params: {reason}")),
        }
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// When its memory is too large, or its start function fails.
    pub(crate) fn instantiate(&self) -> Result<Instance, String> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(MAX_MEMORY)
            .table_elements(10_000)
            .instances(1)
            .memories(1)
            .tables(4)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&ENGINE, limits);
        store.limiter(|limits| limits);
        refuel(&mut store);
        let instance = self.instances.instantiate(&mut store);
        let instance = instance.map_err(|error| format!("it does not begin: {}", why(&error)))?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.expect("a module without a memory is refused");
        Ok(Instance { store, instance, memory })
    }
}

impl Instance {
    /// Calls a function without arguments, if there is one.
    fn ask(&mut self, name: &str) -> Result<Option<u32>, String> {
        let Some(function) = self.instance.get_func(&mut self.store, name) else { return Ok(None) };
        let typed = function.typed::<(), u32>(&self.store).map_err(|error| one_line(&error))?;
        refuel(&mut self.store);
        typed
            .call(&mut self.store, ())
            .map(Some)
            .map_err(|error| format!("{name}: {}", why(&error)))
    }
}

/// Lets the next call do its share.
#[inline]
pub(crate) fn refuel(store: &mut Store<StoreLimits>) {
    store.set_fuel(STEPS).expect("the engine counts what calls do");
}

/// Refuses a module that lacks something, imports something, or exports what would never be called.
fn check_exports(module: &wasmtime::Module) -> Result<(), String> {
    if let Some(import) = module.imports().next() {
        let (from, name) = (import.module(), import.name());
        return Err(format!("it imports `{from}.{name}`; a controller has nothing to import"));
    }
    for needed in ["memory", "cellpace_abi", "cellpace_start"] {
        if module.get_export(needed).is_none() {
            return Err(format!("it does not export `{needed}`"));
        }
    }
    if !matches!(module.get_export("memory"), Some(ExternType::Memory(memory)) if !memory.is_64()) {
        return Err("memory: it should be a memory of 32 bits".to_owned());
    }
    module
        .exports()
        .filter(|export| export.name().starts_with("cellpace_"))
        .try_for_each(|export| check_type(export.name(), &export.ty()))
}

fn check_type(name: &str, found: &ExternType) -> Result<(), String> {
    let call = CALLS.iter().find(|(call, _)| *call == name);
    let (takes, gives, form): (&[ValType], &[ValType], _) = match call {
        Some((_, false)) => (&[ValType::I32, ValType::I32], &[], "(i32, i32)"),
        Some((_, true)) => (&[ValType::I64, ValType::I32], &[], "(i64, i32)"),
        None if FACTS.contains(&name) => (&[], &[ValType::I32], "() -> i32"),
        None => {
            let known = CALLS.iter().map(|(call, _)| *call).chain(FACTS);
            let hint = nearest(name, known).map(|near| format!("; did you mean `{near}`?"));
            return Err(format!("`{name}` would never be called{}", hint.unwrap_or_default()));
        }
    };
    let ExternType::Func(found) = found else {
        return Err(format!("{name}: it should be a function {form}"));
    };
    let same = |found: &mut dyn Iterator<Item = ValType>, wanted: &[ValType]| {
        let found: Vec<ValType> = found.collect();
        found.len() == wanted.len() && found.iter().zip(wanted).all(|(a, b)| ValType::eq(a, b))
    };
    match same(&mut found.params(), takes) && same(&mut found.results(), gives) {
        true => Ok(()),
        false => Err(format!("{name}: it should be a function {form}")),
    }
}

/// Why a call ended, in words of its own for what happens to controllers.
pub(crate) fn why(error: &wasmtime::Error) -> String {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => {
            format!("more than {} million steps in one call", STEPS / 1_000_000)
        }
        Some(Trap::UnreachableCodeReached) => {
            "it gave up (abort, panic or `unreachable`)".to_owned()
        }
        Some(Trap::StackOverflow) => format!("more than the {} kB of its stack", MAX_STACK >> 10),
        Some(trap) => trap.to_string(),
        None => {
            let text = error.root_cause().to_string();
            match text.contains("growing memory") || text.contains("memory minimum size") {
                true => format!("more than the {} MB of memory that a flow has", MAX_MEMORY >> 20),
                false => text,
            }
        }
    }
}

/// An error of the compiler without the places in its own code.
fn one_line(error: &wasmtime::Error) -> String {
    error.root_cause().to_string().lines().next().unwrap_or_default().to_owned()
}
