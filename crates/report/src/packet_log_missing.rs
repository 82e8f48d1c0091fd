//! The place of the packet log in a program that was built without the feature `parquet`.

use std::convert::Infallible;
use std::path::Path;

use cellpace_path::PacketRecord;

use crate::ReportError;
use crate::packet_ack::PacketAck;

/// A packet log that cannot be made: the feature `parquet` is off.
pub struct PacketLog(Infallible);

impl PacketLog {
    /// Fails: [`ReportError::Missing`].
    pub fn create(_: &Path) -> Result<Self, ReportError> {
        Err(ReportError::Missing { feature: "parquet", output: "a packet log" })
    }

    /// Never called, as there is no log.
    pub fn push(&mut self, _: u32, _: &str, _: &PacketRecord) -> Result<(), ReportError> {
        match self.0 {}
    }

    /// Never called, as there is no log.
    pub fn ack(&mut self, _: u32, _: u64, _: PacketAck) {
        match self.0 {}
    }

    /// Never called, as there is no log.
    pub fn finish(self) -> Result<(), ReportError> {
        match self.0 {}
    }
}
