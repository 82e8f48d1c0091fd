//! The place of `--quic` in a program that was built without the feature `quic`.

use std::process::ExitCode;

use cellpace_report::ReportError;

use super::recv::RecvArgs;
use super::send::SendArgs;
use crate::error::CommandError;

fn missing() -> CommandError {
    CommandError::failed(ReportError::Missing { feature: "quic", output: "--quic" })
}

pub(super) fn send(_: &SendArgs) -> Result<ExitCode, CommandError> {
    Err(missing())
}

pub(super) fn recv(_: &RecvArgs) -> Result<ExitCode, CommandError> {
    Err(missing())
}
