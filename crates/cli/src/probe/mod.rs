//! `cellpace probe`: measures a path with UDP probes.

mod options;
mod run;

pub(crate) use options::ProbeArgs;
pub(crate) use run::run;
