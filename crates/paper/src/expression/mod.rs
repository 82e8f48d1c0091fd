//! The language of checks: arithmetic over tables of values, with units and named axes.
//!
//! ```text
//! mean(queue_delay_ms.mean[cc=cubic]; start) / mean(queue_delay_ms.mean[cc=verus:r=2]; start) >= 10
//! ```
//!
//! Operands are aligned by the axes that they share. `x[cc=cubic; trace=lte]` selects (a set of
//! traces stands for its members, `a|b` for both, `10s..20s` for what lies between), `f(x; a, b)`
//! reduces over the axes named, `f(x)` over all. `field@run` is a field of another run.

mod evaluate;
mod parse;
mod reduce;
mod select;
mod table;
#[cfg(test)]
mod tests;
mod types;

pub use evaluate::{Source, evaluate};
pub use parse::{Expression, parse};
pub use table::{Coordinates, Kind, Margin, Row, Table};
pub use types::{Type, TypeSource, type_of};
