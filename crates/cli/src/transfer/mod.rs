//! `cellpace send` and `cellpace recv`: data over UDP under any controller.

mod document;
mod ends;
mod flow;
mod options;
mod recv;
mod runs;
mod send;
mod session;

pub(crate) use options::{bind_for, listen_at, resolve};
pub(crate) use recv::{RecvArgs, run as run_recv};
pub(crate) use send::{SendArgs, run as run_send};
