//! The place of the view of a running link in a program that was built without the feature `live`.

use std::convert::Infallible;

use cellpace_base::Time;
use cellpace_emu::{LinkChange, SeenPacket};
use cellpace_path::TraceSpec;

use crate::error::CommandError;
use crate::link_output::ProgramOutput;

/// Refuses `--live`, so that nothing else is ever called here.
pub(crate) fn check() -> Result<(), CommandError> {
    Err(missing())
}

fn missing() -> CommandError {
    CommandError::failed(
        "--live: this cellpace was built without the feature `live`; build it with \
         `cargo build --features live`",
    )
}

pub(crate) struct LiveView(Infallible);

impl LiveView {
    pub(crate) fn start(
        _: String,
        _: Option<&TraceSpec>,
        _: u64,
        _: ProgramOutput,
    ) -> Result<Self, CommandError> {
        Err(missing())
    }

    pub(crate) fn record(&mut self, _: &SeenPacket) {
        match self.0 {}
    }

    pub(crate) fn change(&mut self, _: &LinkChange) {
        match self.0 {}
    }

    pub(crate) fn draw(&mut self, _: Time) {
        match self.0 {}
    }
}
