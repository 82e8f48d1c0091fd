//! The packet log: every packet's record as Parquet, for pandas, polars, DuckDB and R.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Int32Array, RecordBatch, StringArray};
use arrow_array::{UInt32Array, UInt64Array};
use arrow_schema::{ArrowError, DataType, Field, Schema, SchemaRef};
use cellpace_path::PacketRecord;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::schema::types::ColumnPath;

use crate::ReportError;
use crate::atomic::Aside;

/// Records that are held before they are written as one row group.
const ROW_GROUP: usize = 65_536;

/// Columns that are stored as differences.
const GROWING: [&str; 5] = ["id", "sent_ns", "enqueued_ns", "dequeued_ns", "departed_ns"];

/// Writes packet records to a Parquet file in row groups of 65 536, so that memory stays bounded
/// however long the run. The file appears under its name with [`PacketLog::finish`]; a log that
/// is dropped before leaves nothing.
///
/// Columns, one row a record, in the order of [`PacketLog::push`]: `run` (the caller's number),
/// `cc`, `flow`, `id`, `size` in bytes with IP header, the times `sent_ns`, `enqueued_ns`,
/// `dequeued_ns`, `departed_ns` in nanoseconds from the start of the run (those after a drop
/// repeat the time of the drop), and `fate`: `delivered`, `duplicate` (a copy of the packet, whose own
/// row follows), `random`, `overflow`, `aqm`, `handover` or `corrupt`.
pub struct PacketLog {
    path: PathBuf,
    schema: SchemaRef,
    writer: ArrowWriter<Aside>,
    controllers: Names,
    fates: Names,
    rows: Rows,
}

#[derive(Default)]
struct Rows {
    run: Vec<u32>,
    cc: Vec<i32>,
    flow: Vec<u32>,
    id: Vec<u64>,
    size: Vec<u32>,
    sent_ns: Vec<u64>,
    enqueued_ns: Vec<u64>,
    dequeued_ns: Vec<u64>,
    departed_ns: Vec<u64>,
    fate: Vec<i32>,
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
            rows: Rows::default(),
        })
    }

    /// Adds what became of a packet of run number `run` under the controller text `cc`.
    pub fn push(&mut self, run: u32, cc: &str, record: &PacketRecord) -> Result<(), ReportError> {
        let cc = self.controllers.key(cc);
        let fate = self.fates.key(record.fate.name());
        self.rows.push(run, cc, fate, record);
        if self.rows.run.len() < ROW_GROUP {
            return Ok(());
        }
        self.flush()
    }

    /// Writes what is left and gives the file its name.
    pub fn finish(mut self) -> Result<(), ReportError> {
        self.flush()?;
        let path = self.path;
        let aside =
            self.writer.into_inner().map_err(|source| ReportError::Parquet { path, source })?;
        aside.commit()
    }

    fn flush(&mut self) -> Result<(), ReportError> {
        if self.rows.run.is_empty() {
            return Ok(());
        }
        self.write().map_err(|source| ReportError::Parquet { path: self.path.clone(), source })
    }

    fn write(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        let columns: Vec<ArrayRef> = vec![
            Arc::new(UInt32Array::from(rows.run)),
            Arc::new(self.controllers.column(rows.cc)?),
            Arc::new(UInt32Array::from(rows.flow)),
            Arc::new(UInt64Array::from(rows.id)),
            Arc::new(UInt32Array::from(rows.size)),
            Arc::new(UInt64Array::from(rows.sent_ns)),
            Arc::new(UInt64Array::from(rows.enqueued_ns)),
            Arc::new(UInt64Array::from(rows.dequeued_ns)),
            Arc::new(UInt64Array::from(rows.departed_ns)),
            Arc::new(self.fates.column(rows.fate)?),
        ];
        self.writer.write(&RecordBatch::try_new(self.schema.clone(), columns)?)?;
        self.writer.flush()
    }
}

impl Rows {
    fn push(&mut self, run: u32, cc: i32, fate: i32, record: &PacketRecord) {
        let packet = &record.packet;
        self.run.push(run);
        self.cc.push(cc);
        self.flow.push(packet.flow);
        self.id.push(packet.id);
        self.size.push(packet.size);
        self.sent_ns.push(packet.sent_at.as_nanos());
        self.enqueued_ns.push(packet.enqueued_at.as_nanos());
        self.dequeued_ns.push(packet.dequeued_at.as_nanos());
        self.departed_ns.push(packet.departed_at.as_nanos());
        self.fate.push(fate);
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

    fn column(&self, keys: Vec<i32>) -> Result<DictionaryArray<Int32Type>, ArrowError> {
        let names = Arc::new(StringArray::from_iter_values(&self.names));
        DictionaryArray::try_new(Int32Array::from(keys), names)
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
    let field = |(name, kind)| Field::new(name, kind, false);
    Arc::new(Schema::new(columns.map(field).to_vec()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{UInt32Type, UInt64Type};
    use cellpace_base::Time;
    use cellpace_path::{DropReason, Fate, Packet};
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
