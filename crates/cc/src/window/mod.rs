//! The window-based controllers: one flow around the laws of how the window moves.

pub(crate) mod bic;
pub(crate) mod c2tcp;
pub(crate) mod cubic;
pub(crate) mod flow;
mod hystart;
mod hystart_pp;
pub(crate) mod ledbat;
pub(crate) mod newreno;
mod slow_start;
pub(crate) mod vegas;
pub(crate) mod westwood;
