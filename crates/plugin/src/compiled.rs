//! Modules compiled to instructions of the machine, by wasmtime.

use std::sync::LazyLock;

use wasmtime::{
    Config, Engine, Error, ExternType, FuncType, InstancePre, Linker, Memory, Module, OptLevel,
    Store, StoreLimits, StoreLimitsBuilder, Trap, ValType,
};
pub(crate) use wasmtime::{TypedFunc as Function, WasmParams as Arguments, WasmResults as Results};

use crate::limits::{self, CallError, Export};

/// A compiled module.
pub(crate) struct Code(InstancePre<StoreLimits>);

/// An instance and its memory.
pub(crate) struct Instance {
    store: Store<StoreLimits>,
    instance: wasmtime::Instance,
    memory: Memory,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut config = Config::new();
    config
        .cranelift_opt_level(OptLevel::Speed)
        // The same bits on every machine.
        .cranelift_nan_canonicalization(true)
        .relaxed_simd_deterministic(true)
        .consume_fuel(true)
        .max_wasm_stack(limits::MAX_STACK)
        // The signals of the process are its own, and a flow takes no more address space than memory.
        .signals_based_traps(false)
        .memory_reservation(0)
        .memory_guard_size(0)
        .memory_reservation_for_growth(0)
        .memory_init_cow(false)
        .wasm_backtrace(false);
    Engine::new(&config).expect("the settings go together on every machine that is compiled for")
});

impl Code {
    /// Compiles a module.
    ///
    /// # Errors
    /// When it is none, or imports something.
    pub(crate) fn compile(bytes: &[u8]) -> Result<Self, String> {
        let module = Module::from_binary(&ENGINE, bytes)
            .map_err(|error| limits::not_compiled(&error.root_cause().to_string()))?;
        if let Some(import) = module.imports().next() {
            return Err(limits::imports(import.module(), import.name()));
        }
        let instances = Linker::new(&ENGINE).instantiate_pre(&module);
        Ok(Self(instances.map_err(|error| limits::not_compiled(&error.root_cause().to_string()))?))
    }

    /// What it exports, by name.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (&str, Export)> {
        self.0.module().exports().map(|export| (export.name(), kind(&export.ty())))
    }

    /// Makes an instance.
    ///
    /// # Errors
    /// When its memory is too large, or its start function ends before its end.
    pub(crate) fn instantiate(&self) -> Result<Instance, CallError> {
        let limits = StoreLimitsBuilder::new()
            .memory_size(limits::MAX_MEMORY)
            .table_elements(limits::MAX_TABLE)
            .instances(1)
            .memories(1)
            .tables(limits::MAX_TABLES)
            .trap_on_grow_failure(true)
            .build();
        let mut store = Store::new(&ENGINE, limits);
        store.limiter(|limits| limits);
        refuel(&mut store);
        let instance = self.0.instantiate(&mut store).map_err(|error| why(&error))?;
        let memory = instance.get_memory(&mut store, "memory");
        let memory = memory.expect("a module without a memory is refused");
        Ok(Instance { store, instance, memory })
    }
}

fn kind(export: &ExternType) -> Export {
    match export {
        ExternType::Memory(memory) if !memory.is_64() => Export::Memory,
        ExternType::Func(function) => Export::Function(signature(function)),
        _ => Export::Other,
    }
}

fn signature(function: &FuncType) -> String {
    let names = |types: &mut dyn Iterator<Item = ValType>| -> Vec<String> {
        types.map(|one| one.to_string()).collect()
    };
    limits::signature(&names(&mut function.params()), &names(&mut function.results()))
}

impl Instance {
    /// A function by its name; its type was checked when the module was loaded.
    pub(crate) fn function<A, R>(&mut self, name: &str) -> Option<Function<A, R>>
    where
        A: Arguments,
        R: Results,
    {
        let function = self.instance.get_func(&mut self.store, name)?;
        Some(function.typed(&self.store).expect("types are checked when a module is loaded"))
    }

    /// Calls a function, which may do its share.
    #[inline]
    pub(crate) fn call<A, R>(
        &mut self,
        function: &Function<A, R>,
        arguments: A,
    ) -> Result<R, CallError>
    where
        A: Arguments,
        R: Results,
    {
        refuel(&mut self.store);
        function.call(&mut self.store, arguments).map_err(|error| why(&error))
    }

    #[inline]
    pub(crate) fn memory(&self) -> &[u8] {
        self.memory.data(&self.store)
    }

    #[inline]
    pub(crate) fn memory_mut(&mut self) -> &mut [u8] {
        self.memory.data_mut(&mut self.store)
    }

    /// Adds pages to the memory; returns how many there were.
    pub(crate) fn grow(&mut self, pages: u64) -> Result<u64, CallError> {
        self.memory.grow(&mut self.store, pages).map_err(|error| why(&error))
    }
}

#[inline]
fn refuel(store: &mut Store<StoreLimits>) {
    store.set_fuel(limits::MAX_STEPS).expect("the engine counts what calls do");
}

#[cold]
fn why(error: &Error) -> CallError {
    match error.downcast_ref::<Trap>() {
        Some(Trap::OutOfFuel) => CallError::Steps,
        Some(Trap::UnreachableCodeReached) => CallError::Aborted,
        Some(Trap::StackOverflow) => CallError::Stack,
        Some(trap) => CallError::Other(trap.to_string()),
        None => {
            let text = error.root_cause().to_string();
            match text.contains("growing memory") || text.contains("memory minimum size") {
                true => CallError::Memory,
                false => CallError::Other(text),
            }
        }
    }
}
