//! The native half of the Python package `cellpace`. What people see is the layer above it, in
//! `python/cellpace`; what is here takes written forms and gives tables and documents.

#![expect(clippy::needless_pass_by_value, reason = "arguments from Python come as values")]

mod beside;
mod compare;
mod describe;
mod error;
mod events;
mod gym;
mod logs;
mod observe;
mod own;
mod report;
mod results;
mod runs;
mod sweep;
mod table;
mod trace;
mod training;
mod transfer;

/// The module `cellpace._native`.
#[pyo3::pymodule]
mod _native {
    use pyo3::prelude::*;

    #[pymodule_export]
    use crate::beside::BesideState;
    #[pymodule_export]
    use crate::compare::{compare, simulate};
    #[pymodule_export]
    use crate::describe::{
        check_controller, controllers, param_number, param_text, params, profiles, span_seconds,
    };
    #[pymodule_export]
    use crate::error::{CellpaceError, InternalError};
    #[pymodule_export]
    use crate::events::{AckEvent, EpochEvent, LossEvent, MarkEvent, PacketEvent, TimeoutEvent};
    #[pymodule_export]
    use crate::gym::{Environments, check_policy};
    #[pymodule_export]
    use crate::observe::observe;
    #[pymodule_export]
    use crate::report::{interval, page, short};
    #[pymodule_export]
    use crate::results::Results;
    #[pymodule_export]
    use crate::sweep::{OpenFolder, PlannedSweep, SweepUnit, sweep_table};
    #[pymodule_export]
    use crate::table::ArrowTable;
    #[pymodule_export]
    use crate::trace::{Trace, drive, trace_period_s};
    #[pymodule_export]
    use crate::training::{MarkovTable, Watched, check_states, watch};
    #[pymodule_export]
    use crate::transfer::send;

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        cellpace_lab::hand_notices_to(crate::error::warn);
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}
