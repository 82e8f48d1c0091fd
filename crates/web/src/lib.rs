//! The simulator as a WebAssembly module: JSON in, JSON out. The playground page runs it in workers.
//!
//! What the module is asked and how it answers stands in [`session::Session`]; how bytes come in and
//! out in `exports`, which only the module has.

mod describe;
#[cfg(target_arch = "wasm32")]
pub mod exports;
mod query;
mod session;

pub use describe::ControllerChoice;
pub use query::{Query, QueryError};
pub use session::{Answer, Run, Session};
