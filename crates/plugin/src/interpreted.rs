//! Modules interpreted, by wasmi: for machines without a compiler, such as a page in a browser. Bounds, results and
//! errors are those of compiled ones.

use std::sync::LazyLock;

use wasmi::errors::{ErrorKind, InstantiationError, MemoryError};
use wasmi::{
    CompilationMode, Config, Engine, Error, ExternType, FuncType, Memory, Module, Store,
    StoreLimits, StoreLimitsBuilder, TrapCode, ValType,
};
pub(crate) use wasmi::{TypedFunc as Function, WasmParams as Arguments, WasmResults as Results};

use crate::limits::{self, CallError, Export};

/// Calls inside each other at most. Compiled, each takes at least 32 bytes of the stack.
const MAX_DEPTH: usize = limits::MAX_STACK / 32;

/// A module that was read and checked.
pub(crate) struct Code(Module);

/// An instance and its memory.
pub(crate) struct Instance {
    store: Store<StoreLimits>,
    instance: wasmi::Instance,
    memory: Memory,
}

static ENGINE: LazyLock<Engine> = LazyLock::new(|| {
    let mut config = Config::default();
    config
        // No call pays for what is translated.
        .compilation_mode(CompilationMode::Eager)
        .ignore_custom_sections(true)
        .consume_fuel(true)
        .set_max_recursion_depth(MAX_DEPTH)
        .set_max_stack_height(limits::MAX_STACK);
    Engine::new(&config)
});

impl Code {
    /// Reads a module and checks it.
    ///
    /// # Errors
    /// When it is none, or imports something.
    pub(crate) fn compile(bytes: &[u8]) -> Result<Self, String> {
        let module = Module::new(&ENGINE, bytes)
            .map_err(|error| limits::not_compiled(&error.to_string()))?;
        if let Some(import) = module.imports().next() {
            return Err(limits::imports(import.module(), import.name()));
        }
        Ok(Self(module))
    }

    /// What it exports, by name.
    pub(crate) fn exports(&self) -> impl Iterator<Item = (&str, Export)> {
        self.0.exports().map(|export| (export.name(), kind(export.ty())))
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
        let instance =
            wasmi::Instance::new(&mut store, &self.0, &[]).map_err(|error| why(&error))?;
        let memory = instance.get_memory(&store, "memory");
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
    let names = |types: &[ValType]| -> Vec<String> {
        types.iter().map(|one| format!("{one:?}").to_lowercase()).collect()
    };
    limits::signature(&names(function.params()), &names(function.results()))
}

impl Instance {
    /// A function by its name; its type was checked when the module was loaded.
    pub(crate) fn function<A, R>(&mut self, name: &str) -> Option<Function<A, R>>
    where
        A: Arguments,
        R: Results,
    {
        let function = self.instance.get_func(&self.store, name)?;
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
        self.memory.grow(&mut self.store, pages).map_err(|_| CallError::Memory)
    }
}

#[inline]
fn refuel(store: &mut Store<StoreLimits>) {
    store.set_fuel(limits::MAX_STEPS).expect("the engine counts what calls do");
}

#[cold]
fn why(error: &Error) -> CallError {
    match (error.as_trap_code(), error.kind()) {
        (Some(trap), _) => trapped(trap),
        (
            None,
            ErrorKind::Memory(memory)
            | ErrorKind::Instantiation(InstantiationError::FailedToInstantiateMemory(memory)),
        ) if matches!(memory, MemoryError::ResourceLimiterDeniedAllocation) => CallError::Memory,
        _ => CallError::Other(error.to_string()),
    }
}

/// In the words of compiled modules.
fn trapped(trap: TrapCode) -> CallError {
    let words = match trap {
        TrapCode::OutOfFuel => return CallError::Steps,
        TrapCode::UnreachableCodeReached => return CallError::Aborted,
        TrapCode::StackOverflow => return CallError::Stack,
        TrapCode::GrowthOperationLimited | TrapCode::OutOfSystemMemory => return CallError::Memory,
        TrapCode::MemoryOutOfBounds => "out of bounds memory access",
        TrapCode::TableOutOfBounds => "undefined element: out of bounds table access",
        TrapCode::IndirectCallToNull => "uninitialized element",
        TrapCode::BadSignature => "indirect call type mismatch",
        TrapCode::IntegerOverflow => "integer overflow",
        TrapCode::IntegerDivisionByZero => "integer divide by zero",
        TrapCode::BadConversionToInteger => "invalid conversion to integer",
    };
    CallError::Other(format!("wasm trap: {words}"))
}
