//! What runs keep beside their figures: what became of every packet, and what controllers decided.

use std::sync::Arc;

use arrow_array::types::Int8Type;
use arrow_array::{ArrayRef, DictionaryArray, Int8Array, StringArray};
use cellpace_base::Time;
use cellpace_cc::Event;
use cellpace_lab::describe_event;
use cellpace_path::PacketRecord;
use cellpace_report::SCHEMA;
use cellpace_sim::Observer;
use pyo3::prelude::*;

use crate::error::refused;
use crate::table::{ArrowTable, floats, integers, texts};

/// Packets and events of all runs together: two gigabytes at most.
const MAX_ROWS: usize = 30_000_000;

/// The logs of one run.
#[derive(Default)]
pub(crate) struct RunLog {
    packets: Vec<PacketRecord>,
    events: Vec<(Time, u32, Event)>,
    /// Rows that this run and those before it may still have.
    room: usize,
    is_full: bool,
}

impl RunLog {
    /// A log behind the others of the same call.
    pub(crate) fn after(others: &[Self]) -> Self {
        let used: usize = others.iter().map(|one| one.packets.len() + one.events.len()).sum();
        Self { room: MAX_ROWS - used.min(MAX_ROWS), ..Self::default() }
    }

    /// # Errors
    /// When not all had room.
    pub(crate) fn check(&self) -> Result<(), String> {
        let most = MAX_ROWS / 1_000_000;
        match self.is_full {
            true => {
                Err(format!("logs: more than {most} million packets and events; keep fewer runs"))
            }
            false => Ok(()),
        }
    }

    fn has_room(&mut self) -> bool {
        self.is_full |= self.room == 0;
        self.room = self.room.saturating_sub(1);
        !self.is_full
    }

    /// One row for each packet, with the columns of the program's packet log but those of runs and acks.
    pub(crate) fn packets_table(&self) -> PyResult<ArrowTable> {
        let number = |value: fn(&PacketRecord) -> u64| integers(self.packets.iter().map(value));
        let mut names: Vec<&str> = Vec::new();
        let fates: Vec<i8> = self.packets.iter().map(|record| fate(record, &mut names)).collect();
        let fates = DictionaryArray::<Int8Type>::try_new(
            Int8Array::from(fates),
            Arc::new(StringArray::from(names)),
        );
        let fates: ArrayRef = Arc::new(fates.map_err(refused)?);
        let columns = vec![
            ("flow", number(|record| record.packet.flow.into())),
            ("id", number(|record| record.packet.id)),
            ("size", number(|record| record.packet.size.into())),
            ("sent_ns", number(|record| record.packet.sent_at.as_nanos())),
            ("enqueued_ns", number(|record| record.packet.enqueued_at.as_nanos())),
            ("dequeued_ns", number(|record| record.packet.dequeued_at.as_nanos())),
            ("departed_ns", number(|record| record.packet.departed_at.as_nanos())),
            ("fate", fates),
        ];
        ArrowTable::new(SCHEMA, columns)
    }

    /// One row for each event, what belongs to it as JSON.
    pub(crate) fn events_table(&self) -> PyResult<ArrowTable> {
        let described = self.events.iter().map(|(_, _, event)| describe_event(event));
        let (names, data): (Vec<&str>, Vec<String>) =
            described.map(|(name, data)| (name, data.to_string())).unzip();
        let columns = vec![
            ("time_s", floats(self.events.iter().map(|(at, _, _)| at.as_secs_f64()))),
            ("flow", integers(self.events.iter().map(|(_, flow, _)| u64::from(*flow)))),
            ("event", texts(names.into_iter())),
            ("data", texts(data.iter().map(String::as_str))),
        ];
        ArrowTable::new(SCHEMA, columns)
    }
}

/// The place of a packet's fate among the names, of which there are fewer than ten.
fn fate(record: &PacketRecord, names: &mut Vec<&'static str>) -> i8 {
    let name = record.fate.name();
    let found = names.iter().position(|known| *known == name);
    let place = found.unwrap_or_else(|| {
        names.push(name);
        names.len() - 1
    });
    place as i8
}

impl Observer for RunLog {
    fn on_record(&mut self, record: &PacketRecord) {
        if self.has_room() {
            self.packets.push(*record);
        }
    }

    fn on_event(&mut self, flow: u32, at: Time, event: Event) {
        if self.has_room() {
            self.events.push((at, flow, event));
        }
    }
}
