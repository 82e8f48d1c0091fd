//! The packet log: every packet's record as Parquet, for pandas, polars, DuckDB and R.

use std::collections::{HashMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use cellpace_path::{Fate, Packet, PacketRecord};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::ReportError;
use crate::atomic::Aside;
use crate::packet_ack::PacketAck;

/// Records that are held before they are written as one row group.
const ROW_GROUP: usize = 65_536;

/// Columns that say what acks did, and are null where there were none.
pub(crate) const ACK_COLUMNS: [&str; 4] = ["acked_ns", "in_flight", "cwnd", "permit"];

/// Columns that are stored as differences.
const GROWING: [&str; 6] =
    ["id", "sent_ns", "enqueued_ns", "dequeued_ns", "departed_ns", "acked_ns"];

/// Writes packet records to a Parquet file in row groups of 65 536, so that memory stays bounded
/// however long the run. The file appears under its name with [`PacketLog::finish`]; a log that
/// is dropped before leaves nothing.
///
/// Columns, one row a record, in the order of [`PacketLog::push`]: `run` (the caller's number),
/// `cc`, `flow`, `id`, `size` in bytes with IP header, the times `sent_ns`, `enqueued_ns`,
/// `dequeued_ns`, `departed_ns` in nanoseconds from the start of the run (those after a drop
/// repeat the time of the drop), and `fate`: `delivered`, `duplicate` (a copy of the packet, whose own
/// row follows), `random`, `overflow`, `aqm`, `handover` or `corrupt`. Then what [`PacketLog::ack`] says:
/// `acked_ns`, `in_flight`, `cwnd`, `permit`, null where it says nothing.
pub struct PacketLog {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<Aside>,
    controllers: Names,
    fates: Names,
    rows: VecDeque<Row>,
    /// How many rows are in the file already.
    written: u64,
    /// The rows of what may still be acknowledged, by flow and id.
    open: HashMap<(u32, u64), u64>,
    has_acks: bool,
}

struct Row {
    run: u32,
    cc: i32,
    fate: i32,
    packet: Packet,
    ack: Option<PacketAck>,
}

impl PacketLog {
    /// A log that will be at `path`.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        let aside = Aside::create(path)?;
        let schema = schema();
        let writer = ArrowWriter::try_new(aside, schema.clone(), Some(properties()))
            .map_err(|source| ReportError::Parquet { path: path.to_owned(), source })?;
        Ok(Self {
            path: path.to_owned(),
            schema,
            writer,
            controllers: Names::default(),
            fates: Names::default(),
            rows: VecDeque::new(),
            written: 0,
            open: HashMap::new(),
            has_acks: false,
        })
    }

    /// Adds what became of a packet of run number `run` under the controller text `cc`.
    pub fn push(&mut self, run: u32, cc: &str, record: &PacketRecord) -> Result<(), ReportError> {
        // Runs take turns, and the flows of each begin at 0.
        if self.rows.back().is_some_and(|row| row.run != run) {
            self.open.clear();
        }
        let packet = record.packet;
        if !matches!(record.fate, Fate::Dropped(_)) {
            self.open.insert((packet.flow, packet.id), self.written + self.rows.len() as u64);
        }
        let cc = self.controllers.key(cc);
        let fate = self.fates.key(record.fate.name());
        self.rows.push_back(Row { run, cc, fate, packet, ack: None });
        // Where acks come, a row group waits for them until the next one is full.
        let most = if self.has_acks { 2 * ROW_GROUP } else { ROW_GROUP };
        if self.rows.len() < most {
            return Ok(());
        }
        self.flush()
    }

    /// Notes the first ack of the packet `id` of a flow of the run whose records are pushed. One that comes more
    /// than 65 536 records after the packet's own is left out.
    pub fn ack(&mut self, flow: u32, id: u64, ack: PacketAck) {
        self.has_acks = true;
        let place = self.open.remove(&(flow, id)).and_then(|row| row.checked_sub(self.written));
        let row = place.and_then(|place| self.rows.get_mut(place as usize));
        if let Some(row) = row {
            row.ack = Some(ack);
        }
    }

    /// Writes what is left and gives the file its name.
    pub fn finish(mut self) -> Result<(), ReportError> {
        while !self.rows.is_empty() {
            self.flush()?;
        }
        let path = self.path;
        let aside =
            self.writer.into_inner().map_err(|source| ReportError::Parquet { path, source })?;
        aside.commit()
    }

    /// Writes the first row group.
    fn flush(&mut self) -> Result<(), ReportError> {
        self.write().map_err(|source| ReportError::Parquet { path: self.path.clone(), source })
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let rows: Vec<Row> = self.rows.drain(..self.rows.len().min(ROW_GROUP)).collect();
        self.written += rows.len() as u64;
        self.open.retain(|_, row| *row >= self.written);
        let u32s =
            |of: fn(&Row) -> u32| Arc::new(UInt32Array::from_iter_values(rows.iter().map(of)));
        let u64s =
            |of: fn(&Row) -> u64| Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)));
        let acks = |of: fn(&PacketAck) -> Option<u64>| {
            Arc::new(UInt64Array::from_iter(rows.iter().map(|row| row.ack.as_ref().and_then(of))))
        };
        let columns: Vec<ArrayRef> = vec![
            u32s(|row| row.run),
            Arc::new(self.controllers.column(rows.iter().map(|row| row.cc))?),
            u32s(|row| row.packet.flow),
            u64s(|row| row.packet.id),
            u32s(|row| row.packet.size),
            u64s(|row| row.packet.sent_at.as_nanos()),
            u64s(|row| row.packet.enqueued_at.as_nanos()),
            u64s(|row| row.packet.dequeued_at.as_nanos()),
            u64s(|row| row.packet.departed_at.as_nanos()),
            Arc::new(self.fates.column(rows.iter().map(|row| row.fate))?),
            acks(|ack| Some(ack.at.as_nanos())),
            acks(|ack| Some(ack.in_flight)),
            acks(|ack| ack.cwnd),
            acks(|ack| ack.permit),
        ];
        self.writer.write(&RecordBatch::try_new(self.schema.clone(), columns)?)?;
        self.writer.flush()
    }
}

/// Texts that come again and again, by number.
#[derive(Default)]
struct Names {
    names: Vec<String>,
    last: usize,
}

impl Names {
    fn key(&mut self, name: &str) -> i32 {
        // Records come in long stretches of the same name.
        if self.names.get(self.last).is_none_or(|last| last != name) {
            let found = self.names.iter().position(|known| known == name);
            self.last = found.unwrap_or(self.names.len());
            if found.is_none() {
                self.names.push(name.to_owned());
            }
        }
        self.last as i32
    }

    fn column(
        &self,
        keys: impl Iterator<Item = i32>,
    ) -> Result<DictionaryArray<Int32Type>, ArrowError> {
        let names = Arc::new(StringArray::from_iter_values(&self.names));
        DictionaryArray::try_new(Int32Array::from_iter_values(keys), names)
    }
}

fn properties() -> WriterProperties {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_max_row_group_row_count(Some(ROW_GROUP))
        .set_created_by(format!("cellpace {}", env!("CARGO_PKG_VERSION")));
    // Numbers that mostly grow: their differences are small, and no two are the same.
    GROWING
        .into_iter()
        .map(ColumnPath::from)
        .fold(properties, |properties, column| {
            properties
                .set_column_dictionary_enabled(column.clone(), false)
                .set_column_encoding(column, Encoding::DELTA_BINARY_PACKED)
        })
        .build()
}

fn schema() -> SchemaRef {
    let text = || DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8));
    let columns = [
        ("run", DataType::UInt32),
        ("cc", text()),
        ("flow", DataType::UInt32),
        ("id", DataType::UInt64),
        ("size", DataType::UInt32),
        ("sent_ns", DataType::UInt64),
        ("enqueued_ns", DataType::UInt64),
        ("dequeued_ns", DataType::UInt64),
        ("departed_ns", DataType::UInt64),
        ("fate", text()),
    ];
    let columns = columns.map(|(name, kind)| Field::new(name, kind, false));
    let acks = ACK_COLUMNS.map(|name| Field::new(name, DataType::UInt64, true));
    Arc::new(Schema::new(columns.into_iter().chain(acks).collect::<Vec<_>>()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt32Type, UInt64Type};
    use cellpace_base::Time;
    use cellpace_path::DropReason;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn record(id: u64) -> PacketRecord {
        let fate = match id % 4 {
            0 => Fate::Delivered,
            1 => Fate::Dropped(DropReason::Random),
            2 => Fate::Dropped(DropReason::Overflow),
            _ => Fate::Dropped(DropReason::Aqm),
        };
        let at = |offset| Time::from_nanos(id * 1_000 + offset);
        let packet = Packet {
            enqueued_at: at(1),
            dequeued_at: at(2),
            departed_at: at(3),
            ..Packet::new(id, (id % 3) as u32, 40 + (id % 1461) as u32, at(0))
        };
        PacketRecord { packet, fate }
    }

    #[test]
    fn the_documentation_has_every_column() {
        let page = include_str!("../../../docs/reference/packet-log.md");
        let kind = |field: &Field| match field.data_type() {
            DataType::Dictionary(..) => "dictionary of text".to_owned(),
            kind => kind.to_string().to_lowercase(),
        };
        let schema = schema();
        let expected: Vec<_> = schema
            .fields()
            .iter()
            .map(|field| format!("| `{}` | {} |", field.name(), kind(field)))
            .collect();
        let rows: Vec<_> = page.lines().filter(|line| line.starts_with("| `")).collect();
        assert_eq!(rows.len(), expected.len());
        for (row, expected) in rows.iter().zip(&expected) {
            assert!(row.starts_with(expected), "{row}\nis not {expected}");
        }
    }

    type RowBack = (u32, String, u32, u64, u32, [u64; 4], String);

    fn read(path: &Path) -> (Vec<RowBack>, usize) {
        let file = std::fs::File::open(path).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        let groups = builder.metadata().num_row_groups();
        let mut rows = Vec::new();
        for batch in builder.build().unwrap() {
            let batch = batch.unwrap();
            let column = |name| batch.column_by_name(name).unwrap().clone();
            let u32s = |name| column(name).as_primitive::<UInt32Type>().clone();
            let u64s = |name| column(name).as_primitive::<UInt64Type>().clone();
            let texts = |name| -> Vec<String> {
                let column = column(name);
                let column = column.as_dictionary::<Int32Type>();
                let values = column.downcast_dict::<StringArray>().unwrap();
                values.into_iter().map(|text| text.unwrap().to_owned()).collect()
            };
            let (run, cc, flow, id, size) =
                (u32s("run"), texts("cc"), u32s("flow"), u64s("id"), u32s("size"));
            let times = ["sent_ns", "enqueued_ns", "dequeued_ns", "departed_ns"].map(u64s);
            let fate = texts("fate");
            for i in 0..batch.num_rows() {
                let times = [0, 1, 2, 3].map(|k: usize| times[k].value(i));
                let (cc, fate) = (cc[i].clone(), fate[i].clone());
                rows.push((
                    run.value(i),
                    cc,
                    flow.value(i),
                    id.value(i),
                    size.value(i),
                    times,
                    fate,
                ));
            }
        }
        (rows, groups)
    }

    #[test]
    fn what_is_written_reads_back_in_row_groups() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.parquet");
        let total = ROW_GROUP as u64 * 2 + 5;
        let cc = |id: u64| if id < total / 2 { "verus:r=2" } else { "cubic" };
        let mut log = PacketLog::create(&path).unwrap();
        for id in 0..total {
            log.push((id / 1_000) as u32, cc(id), &record(id)).unwrap();
        }
        assert!(!path.exists(), "only a whole log has the name");
        log.finish().unwrap();
        println!("{total} records: {} bytes", std::fs::metadata(&path).unwrap().len());

        let (rows, groups) = read(&path);
        assert_eq!((rows.len() as u64, groups), (total, 3));
        for (id, row) in (0..total).zip(&rows) {
            let packet = record(id).packet;
            let times =
                [packet.sent_at, packet.enqueued_at, packet.dequeued_at, packet.departed_at];
            let fate = ["delivered", "random", "overflow", "aqm"][(id % 4) as usize];
            let expected = (
                (id / 1_000) as u32,
                cc(id).to_owned(),
                packet.flow,
                id,
                packet.size,
                times.map(Time::as_nanos),
                fate.to_owned(),
            );
            assert_eq!(*row, expected);
        }
    }

    #[test]
    fn an_ack_stands_beside_its_packet_and_an_old_one_nowhere() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.parquet");
        let mut log = PacketLog::create(&path).unwrap();
        let ack = |number: u64| PacketAck {
            at: Time::from_nanos(number),
            in_flight: 2 * number,
            cwnd: Some(3 * number),
            permit: None,
        };
        let arrived = |id: u64| PacketRecord {
            packet: Packet::new(id, 0, 1500, Time::ZERO),
            fate: Fate::Delivered,
        };
        let total = 3 * ROW_GROUP as u64;
        for id in 0..total {
            log.push(u32::from(id >= total - 10), "cubic", &arrived(id)).unwrap();
            // Each is acknowledged a thousand packets later, but for the first, which is far later.
            if id >= 1_001 {
                log.ack(0, id - 1_000, ack(id));
            }
            // A second ack says nothing.
            if id > 1_010 {
                log.ack(0, id - 1_010, ack(7));
            }
            if id == total / 2 + ROW_GROUP as u64 / 2 + 1 {
                log.ack(0, 0, ack(7));
            }
            assert!(log.rows.len() <= 2 * ROW_GROUP && log.open.len() <= 2 * ROW_GROUP);
        }
        log.finish().unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let mut row = 0;
        for batch in reader.map(Result::unwrap) {
            let column = |name| {
                let column = batch.column_by_name(name).unwrap().as_primitive::<UInt64Type>();
                column.iter().collect::<Vec<_>>()
            };
            let [acked, in_flight, cwnd, permit] = ACK_COLUMNS.map(column);
            for at in 0..acked.len() {
                // Those of the last thousand have none, and the next run's acks are of the next run's packets.
                let expected = (row > 0 && row + 1_000 < total - 10).then_some(row + 1_000);
                assert_eq!(acked[at], expected, "row {row}");
                let times = |factor| expected.map(|number| factor * number);
                assert_eq!((in_flight[at], cwnd[at], permit[at]), (times(2), times(3), None));
                row += 1;
            }
        }
        assert_eq!(row, total);
    }

    #[test]
    fn a_dropped_log_leaves_no_file() {
        let folder = tempfile::tempdir().unwrap();
        let mut log = PacketLog::create(&folder.path().join("packets.parquet")).unwrap();
        for id in 0..ROW_GROUP as u64 + 1 {
            log.push(0, "cubic", &record(id)).unwrap();
        }
        drop(log);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn an_empty_log_is_a_table_without_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("packets.parquet");
        PacketLog::create(&path).unwrap().finish().unwrap();
        assert_eq!(read(&path).0.len(), 0);
    }
}
