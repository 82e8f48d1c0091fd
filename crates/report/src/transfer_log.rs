//! The log of transfers: every transfer's record as Parquet, for pandas, polars, DuckDB and R.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::types::Int32Type;
use arrow_array::{ArrayRef, DictionaryArray, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{Field, Schema};
use cellpace_measure::Transfer;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::atomic::Aside;
use crate::{ReportError, Run};

/// Writes the transfers of runs to a Parquet file, one row a transfer. The file appears under its
/// name with [`TransferLog::finish`]; a log that is dropped before leaves nothing.
///
/// Columns: `run` (the place of the run, from 0), its `trace` and `seed`, then the fields of
/// [`Transfer`] in their order.
pub struct TransferLog {
    path: PathBuf,
    aside: Aside,
}

/// A transfer and its run.
type TransferRow<'a> = (u32, &'a Run, &'a Transfer);

impl TransferLog {
    /// A log that will be at `path`.
    ///
    /// # Errors
    /// When no file can be written there.
    pub fn create(path: &Path) -> Result<Self, ReportError> {
        Ok(Self { path: path.to_owned(), aside: Aside::create(path)? })
    }

    /// Writes the transfers of `runs` and gives the file its name.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn finish(self, runs: &[Run]) -> Result<(), ReportError> {
        let Self { path, aside } = self;
        let aside = encoded(aside, runs).map_err(|source| ReportError::Parquet { path, source })?;
        aside.commit()
    }
}

fn encoded(aside: Aside, runs: &[Run]) -> Result<Aside, ParquetError> {
    let of_run = |(at, run)| move |transfer| (at, run, transfer);
    let rows: Vec<TransferRow<'_>> =
        (0..).zip(runs).flat_map(|of| of.1.transfers.iter().map(of_run(of))).collect();
    let columns = columns(&rows);
    let field = |(name, is_optional, column): &(_, bool, ArrayRef)| {
        Field::new(*name, column.data_type().clone(), *is_optional)
    };
    let schema = Arc::new(Schema::new(columns.iter().map(field).collect::<Vec<_>>()));
    let columns = columns.into_iter().map(|(_, _, column)| column).collect();
    let mut writer = ArrowWriter::try_new(aside, schema.clone(), Some(properties()))?;
    writer.write(&RecordBatch::try_new(schema, columns)?)?;
    writer.into_inner()
}

fn properties() -> WriterProperties {
    WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("cellpace {}", env!("CARGO_PKG_VERSION")))
        .build()
}

/// The columns: their names, whether values may be missing, and the values.
fn columns(rows: &[TransferRow<'_>]) -> Vec<(&'static str, bool, ArrayRef)> {
    let text = |of: fn(&TransferRow<'_>) -> String| -> ArrayRef {
        let texts: Vec<String> = rows.iter().map(of).collect();
        Arc::new(texts.iter().map(|text| &**text).collect::<DictionaryArray<Int32Type>>())
    };
    let count = |of: fn(&TransferRow<'_>) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(of)))
    };
    let number = |of: fn(&Transfer) -> Option<f64>| -> ArrayRef {
        Arc::new(rows.iter().map(|(_, _, transfer)| of(transfer)).collect::<Float64Array>())
    };
    let run: ArrayRef = Arc::new(UInt32Array::from_iter_values(rows.iter().map(|row| row.0)));
    let cells: ArrayRef = Arc::new(rows.iter().map(|row| row.2.cells).collect::<UInt32Array>());
    vec![
        ("run", false, run),
        ("trace", false, text(|(_, run, _)| run.trace.clone())),
        ("seed", false, count(|(_, run, _)| run.seed)),
        ("flow", false, count(|(.., transfer)| transfer.flow as u64)),
        ("cc", false, text(|(.., transfer)| transfer.cc.clone())),
        ("index", false, count(|(.., transfer)| transfer.index)),
        ("size_bytes", false, count(|(.., transfer)| transfer.size_bytes)),
        ("start_s", false, number(|transfer| Some(transfer.start_s))),
        ("first_byte_s", true, number(|transfer| transfer.first_byte_s)),
        ("end_s", true, number(|transfer| transfer.end_s)),
        ("completion_ms", true, number(|transfer| transfer.completion_ms)),
        ("goodput_mbps", true, number(|transfer| transfer.goodput_mbps)),
        ("handshake_rtt_ms", true, number(|transfer| transfer.handshake_rtt_ms)),
        ("min_rtt_ms", true, number(|transfer| transfer.min_rtt_ms)),
        ("mean_rtt_ms", true, number(|transfer| transfer.mean_rtt_ms)),
        ("self_inflicted_ms", true, number(|transfer| transfer.self_inflicted_ms)),
        ("largest_window_packets", false, number(|t| Some(t.largest_window_packets))),
        ("ramp_s", true, number(|transfer| transfer.ramp_s)),
        ("packets_sent", false, count(|(.., transfer)| transfer.packets_sent)),
        ("retransmitted", false, count(|(.., transfer)| transfer.retransmitted)),
        ("timeouts", false, count(|(.., transfer)| transfer.timeouts)),
        ("spurious_timeouts", false, count(|(.., transfer)| transfer.spurious_timeouts)),
        ("rto_ms", true, number(|transfer| transfer.rto_ms)),
        ("handovers", false, count(|(.., transfer)| transfer.handovers)),
        ("cells", true, cells),
        ("mean_sinr_db", true, number(|transfer| transfer.mean_sinr_db)),
        ("outcome", false, text(|(.., transfer)| transfer.outcome.name().to_owned())),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float64Type, UInt32Type, UInt64Type};
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;

    fn transfer(index: u64, sinr: Option<f64>) -> Transfer {
        Transfer {
            largest_window_packets: 40.5,
            handovers: index,
            cells: sinr.map(|_| 2),
            mean_sinr_db: sinr,
            ..Transfer::begun(0, "cubic", index, 20_000_000, 30.0 * index as f64)
        }
    }

    #[test]
    fn the_columns_are_the_fields_of_a_record() {
        let record = serde_json::to_value(transfer(0, Some(1.0))).unwrap();
        let columns = columns(&[]);
        let own = ["run", "trace", "seed"];
        let names = columns.iter().map(|(name, ..)| *name).filter(|name| !own.contains(name));
        let names: Vec<&str> = names.collect();
        let fields = record.as_object().unwrap();
        assert!(fields.keys().all(|key| names.contains(&key.as_str())), "{fields:?}");
        assert_eq!(fields.len(), names.len());
    }

    #[test]
    fn what_is_written_reads_back() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transfers.parquet");
        let mut runs = example::comparison().runs;
        runs[0].transfers = vec![transfer(0, None)];
        runs[1].transfers = vec![transfer(0, Some(-1.5)), transfer(1, Some(17.25))];
        let log = TransferLog::create(&path).unwrap();
        assert!(!path.exists(), "only a whole log has the name");
        log.finish(&runs[..2]).unwrap();

        let file = std::fs::File::open(&path).unwrap();
        let mut reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap().build().unwrap();
        let batch = reader.next().unwrap().unwrap();
        let column = |name| batch.column_by_name(name).unwrap();
        assert_eq!(column("run").as_primitive::<UInt32Type>().values(), &[0, 1, 1]);
        assert_eq!(column("index").as_primitive::<UInt64Type>().values(), &[0, 0, 1]);
        let sinr = column("mean_sinr_db").as_primitive::<Float64Type>();
        assert!(sinr.is_null(0));
        assert_eq!((sinr.value(1), sinr.value(2)), (-1.5, 17.25));
        assert!(column("goodput_mbps").is_null(2));
    }

    #[test]
    fn a_log_without_transfers_is_a_table_without_rows() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("transfers.parquet");
        TransferLog::create(&path).unwrap().finish(&[]).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let builder = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(builder.metadata().file_metadata().num_rows(), 0);
    }
}
