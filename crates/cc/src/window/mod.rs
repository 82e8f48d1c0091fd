//! The window-based controllers: one flow around six laws of how the window moves.

pub mod bic;
pub mod cubic;
mod flow;
mod hystart;
pub mod ledbat;
pub mod newreno;
pub mod vegas;
