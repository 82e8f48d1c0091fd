//! The place of the view of a running link in a program that was built without the feature `live`.

use std::convert::Infallible;
use std::io;
use std::process::Command;

use cellpace_base::Time;
use cellpace_emu::SeenPacket;
use cellpace_path::TraceSpec;

use crate::error::Failure;

/// Refuses `--live`, so that nothing else is ever called here.
pub(crate) fn check() -> Result<(), Failure> {
    Err(missing())
}

fn missing() -> Failure {
    Failure::failed(
        "--live: this cellpace was built without the feature `live`; build it with \
         `cargo build --features live`",
    )
}

pub(crate) struct Live(Infallible);

impl Live {
    pub(crate) fn start(
        _: String,
        _: Option<&TraceSpec>,
        _: u64,
        _: Said,
    ) -> Result<Self, Failure> {
        Err(missing())
    }

    pub(crate) fn record(&mut self, _: &SeenPacket) {
        match self.0 {}
    }

    pub(crate) fn draw(&mut self, _: Time) {
        match self.0 {}
    }
}

#[derive(Clone, Default)]
pub(crate) struct Said(());

pub(crate) struct Listeners;

impl Said {
    pub(crate) fn listen(&self, _: &mut Command) -> io::Result<Listeners> {
        Ok(Listeners)
    }

    pub(crate) fn print(&self, _: Listeners) {}
}
