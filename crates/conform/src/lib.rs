//! Scenarios that ask of any stack's congestion control what RFC 9743 asks of a new algorithm: what is
//! downloaded over which path, which figure answers the question, and which bound it should keep.
//!
//! This crate knows scenarios and figures. Who carries the packets is left to its caller: `cellpace
//! conform` has real servers send over an emulated link, and [`reference()`] simulates the same scenario
//! under controllers of ours.
//!
//! ```
//! use cellpace_conform::{reference, trials};
//!
//! let trials = trials();
//! let deep = trials.iter().find(|trial| trial.name == "deep-buffer").expect("it is in the table");
//! let runs = reference(&[deep], &["copa".parse()?], &mut ())?;
//! let check = &deep.checks[0];
//! assert!(check.passes(check.figure.of(deep, &runs[0][0])));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

#![forbid(unsafe_code)]

mod error;
mod evaluation;
mod figure;
mod reference;
mod scenario;
mod verdict;

pub use error::ConformError;
pub use figure::Figure;
pub use reference::reference;
pub use scenario::{Check, Download, Fetch, Sender, Trial, trials};
pub use verdict::judge;
