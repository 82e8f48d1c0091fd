//! Inside QUIC, or over the transport of our own.

use std::process::ExitCode;

use super::{quic, recv, send};
use crate::error::CommandError;

pub(crate) fn run_send(args: &send::SendArgs) -> Result<ExitCode, CommandError> {
    if args.quic.quic { quic::send(args) } else { send::run(args) }
}

pub(crate) fn run_recv(args: &recv::RecvArgs) -> Result<ExitCode, CommandError> {
    if args.quic.quic { quic::recv(args) } else { recv::run(args) }
}
