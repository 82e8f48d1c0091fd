//! Runs as a table: one row a run, for Parquet files and other programs' data frames.

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, StringArray, UInt64Array};
use arrow_schema::{ArrowError, Field, Schema, SchemaRef};
use cellpace_measure::{Summary, TransferSummary};
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;

use crate::Run;

/// The schema of the table and its version. Columns are only added within a version.
pub const RUN_TABLE_SCHEMA: &str = "cellpace.runs/1";

/// What was asked of a run, the same whether or not it came to an end.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRequest {
    /// The controller as written.
    pub cc: String,
    /// The trace as shown.
    pub trace: String,
    /// The seed.
    pub seed: u64,
    /// Round-trip delay without queueing, in ms.
    pub rtt_ms: f64,
    /// The queue as written.
    pub queue: String,
    /// Share of packets lost at random, 0 to 1.
    pub loss: f64,
    /// Number of flows.
    pub flows: u64,
    /// Length of the run in seconds.
    pub duration_s: f64,
    /// Left out at the start, in seconds.
    pub skip_s: f64,
}

/// One row: what was asked, and what came out.
#[derive(Debug, Clone, PartialEq)]
pub struct RunRow {
    /// What was asked.
    pub request: RunRequest,
    /// The figures, or why there are none.
    pub result: Result<RunNumbers, String>,
}

/// The figures of a run, in the order of the columns.
#[derive(Debug, Clone, PartialEq)]
pub struct RunNumbers {
    numbers: [Option<f64>; NUMBERS.len()],
    counts: [Option<u64>; COUNTS.len()],
}

impl RunRow {
    /// The row of a run that came to its end.
    pub fn of(run: &Run) -> Self {
        let request = RunRequest {
            cc: run.cc.clone(),
            trace: run.trace.clone(),
            seed: run.seed,
            rtt_ms: run.rtt_ms,
            queue: run.queue.clone(),
            loss: run.loss,
            flows: run.flows as u64,
            duration_s: run.duration_s,
            skip_s: run.skip_s,
        };
        let finite = |value: Option<f64>| value.filter(|value| value.is_finite());
        let numbers = RunNumbers {
            numbers: NUMBERS.map(|(_, of)| finite(of(run))),
            counts: COUNTS.map(|(_, of)| of(run)),
        };
        Self { request, result: Ok(numbers) }
    }
}

type NumberOf = fn(&Run) -> Option<f64>;
type CountOf = fn(&Run) -> Option<u64>;

fn transfers(run: &Run, of: fn(&TransferSummary) -> f64) -> Option<f64> {
    run.transfer_summary.first().map(of)
}

/// Columns of figures that are numbers; none where the run has no such thing.
const NUMBERS: [(&str, NumberOf); 23] = {
    macro_rules! summary {
        ($field:ident, $of:ident) => {
            (concat!(stringify!($field), "_", stringify!($of)), |run| {
                let summary: &Summary = &run.figures.$field;
                Some(summary.$of)
            })
        };
    }
    [
        ("capacity_mbps", |run| Some(run.figures.capacity_mbps)),
        ("throughput_mbps", |run| Some(run.figures.throughput_mbps)),
        ("utilization", |run| Some(run.figures.utilization)),
        summary!(queue_delay_ms, mean),
        summary!(queue_delay_ms, p50),
        summary!(queue_delay_ms, p95),
        summary!(queue_delay_ms, p99),
        summary!(queue_delay_ms, max),
        summary!(one_way_delay_ms, mean),
        summary!(one_way_delay_ms, p50),
        summary!(one_way_delay_ms, p95),
        summary!(one_way_delay_ms, p99),
        summary!(one_way_delay_ms, max),
        summary!(rtt_ms_seen, mean),
        summary!(rtt_ms_seen, p50),
        summary!(rtt_ms_seen, p95),
        summary!(rtt_ms_seen, p99),
        summary!(rtt_ms_seen, max),
        ("jain", |run| Some(run.figures.jain)),
        ("transfer_summary_completion_ms_mean", |run| transfers(run, |of| of.completion_ms.mean)),
        ("transfer_summary_completion_ms_p50", |run| transfers(run, |of| of.completion_ms.p50)),
        ("transfer_summary_completion_ms_p95", |run| transfers(run, |of| of.completion_ms.p95)),
        ("transfer_summary_goodput_mbps_mean", |run| transfers(run, |of| of.goodput_mbps.mean)),
    ]
};

/// Columns of figures that are counts.
const COUNTS: [(&str, CountOf); 6] = [
    ("packets", |run| Some(run.figures.packets)),
    ("lost", |run| Some(run.figures.lost)),
    ("handover_drops", |run| Some(run.figures.handover_drops)),
    ("handovers", |run| Some(run.figures.handovers)),
    ("transfer_summary_count", |run| run.transfer_summary.first().map(|of| of.count)),
    ("transfer_summary_complete", |run| run.transfer_summary.first().map(|of| of.complete)),
];

/// A column in front of those of the runs: its name and its values.
pub type LeadingColumn = (String, ArrayRef);

/// Returns the table of `rows`, with `leading` columns of the same length in front, and
/// [`RUN_TABLE_SCHEMA`] in its metadata as `cellpace.schema`.
///
/// # Errors
/// When a leading column has another length or the name of one of a run's.
pub fn run_table(leading: Vec<LeadingColumn>, rows: &[RunRow]) -> Result<RecordBatch, ArrowError> {
    let mut columns: Vec<(String, bool, ArrayRef)> =
        leading.into_iter().map(|(name, column)| (name, true, column)).collect();
    let own = columns_of(rows).into_iter();
    columns.extend(own.map(|(name, may_miss, column)| (name.to_owned(), may_miss, column)));
    let twice = (1..columns.len()).find(|at| columns[..*at].iter().any(|c| c.0 == columns[*at].0));
    if let Some(at) = twice {
        return Err(ArrowError::SchemaError(format!("two columns are called {}", columns[at].0)));
    }
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, may_miss, column)| Field::new(name, column.data_type().clone(), *may_miss))
        .collect();
    let metadata = [
        ("cellpace.schema".to_owned(), RUN_TABLE_SCHEMA.to_owned()),
        ("cellpace.version".to_owned(), env!("CARGO_PKG_VERSION").to_owned()),
    ];
    let schema: SchemaRef = Arc::new(Schema::new_with_metadata(fields, HashMap::from(metadata)));
    RecordBatch::try_new(schema, columns.into_iter().map(|(_, _, column)| column).collect())
}

fn columns_of(rows: &[RunRow]) -> Vec<(&'static str, bool, ArrayRef)> {
    let text = |of: fn(&RunRequest) -> &str| -> ArrayRef {
        Arc::new(StringArray::from_iter_values(rows.iter().map(|row| of(&row.request))))
    };
    let number = |of: fn(&RunRequest) -> f64| -> ArrayRef {
        Arc::new(Float64Array::from_iter_values(rows.iter().map(|row| of(&row.request))))
    };
    let count = |of: fn(&RunRequest) -> u64| -> ArrayRef {
        Arc::new(UInt64Array::from_iter_values(rows.iter().map(|row| of(&row.request))))
    };
    let mut columns = vec![
        ("cc", false, text(|of| &of.cc)),
        ("trace", false, text(|of| &of.trace)),
        ("seed", false, count(|of| of.seed)),
        ("rtt_ms", false, number(|of| of.rtt_ms)),
        ("queue", false, text(|of| &of.queue)),
        ("loss", false, number(|of| of.loss)),
        ("flows", false, count(|of| of.flows)),
        ("duration_s", false, number(|of| of.duration_s)),
        ("skip_s", false, number(|of| of.skip_s)),
    ];
    let figures = || rows.iter().map(|row| row.result.as_ref().ok());
    for (at, (name, _)) in NUMBERS.iter().enumerate() {
        let column: Float64Array = figures().map(|of| of?.numbers[at]).collect();
        columns.push((name, true, Arc::new(column)));
    }
    for (at, (name, _)) in COUNTS.iter().enumerate() {
        let column: UInt64Array = figures().map(|of| of?.counts[at]).collect();
        columns.push((name, true, Arc::new(column)));
    }
    let errors: StringArray = rows.iter().map(|row| row.result.as_ref().err()).collect();
    columns.push(("error", true, Arc::new(errors)));
    columns
}

/// Writes a table as Parquet. The same table gives the same bytes.
///
/// # Errors
/// When `out` cannot be written to.
pub fn write_run_table<W: Write + Send>(out: W, table: &RecordBatch) -> Result<W, ParquetError> {
    let properties = WriterProperties::builder()
        .set_compression(Compression::ZSTD(ZstdLevel::default()))
        .set_created_by(format!("cellpace {}", env!("CARGO_PKG_VERSION")))
        .build();
    let mut writer = ArrowWriter::try_new(out, table.schema(), Some(properties))?;
    writer.write(table)?;
    writer.into_inner()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use arrow_array::Array;
    use arrow_array::cast::AsArray;
    use arrow_array::types::Float64Type;
    use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
    use serde_json::Value;

    /// The value of `document` behind a column's name: levels are joined by `_`.
    fn at<'a>(document: &'a Value, name: &str) -> Option<&'a Value> {
        let Value::Object(fields) = document else { return None };
        if let Some(value) = fields.get(name) {
            return Some(value);
        }
        let inner = |(key, value): (&String, &'a Value)| {
            at(value, name.strip_prefix(key.as_str())?.strip_prefix('_')?)
        };
        fields.iter().find_map(inner)
    }

    #[test]
    fn each_column_is_the_field_of_the_same_name() {
        let runs = example::comparison().runs;
        let rows: Vec<RunRow> = runs.iter().map(RunRow::of).collect();
        let table = run_table(Vec::new(), &rows).unwrap();
        let mut compared = 0;
        for (field, column) in table.schema().fields().iter().zip(table.columns()) {
            for (row, run) in runs.iter().enumerate() {
                let run = serde_json::to_value(run).unwrap();
                let Some(expected) = at(&run, field.name()) else { continue };
                compared += 1;
                match column.as_primitive_opt::<Float64Type>() {
                    Some(numbers) => assert_eq!(*expected, numbers.value(row), "{field}"),
                    None => {
                        let text = match column.as_string_opt::<i32>() {
                            Some(texts) => Value::from(texts.value(row)),
                            None => Value::from(
                                column.as_primitive::<arrow_array::types::UInt64Type>().value(row),
                            ),
                        };
                        assert_eq!(*expected, text, "{field}");
                    }
                }
            }
        }
        // All but transfers, handovers and errors, which these runs do not have.
        assert_eq!(compared, runs.len() * (9 + 19 + 2));
    }

    #[test]
    fn what_is_written_reads_back_with_its_schema_and_the_error_of_a_failed_run() {
        let mut rows: Vec<RunRow> = example::comparison().runs.iter().map(RunRow::of).collect();
        rows[1].result = Err("made up".to_owned());
        let leading: ArrayRef = Arc::new(StringArray::from_iter_values(rows.iter().map(|_| "x")));
        let table = run_table(vec![("cell".to_owned(), Arc::clone(&leading))], &rows).unwrap();
        let bytes = write_run_table(Vec::new(), &table).unwrap();
        assert_eq!(bytes, write_run_table(Vec::new(), &table).unwrap());

        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("runs.parquet");
        std::fs::write(&path, bytes).unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let reader = ParquetRecordBatchReaderBuilder::try_new(file).unwrap();
        assert_eq!(reader.schema().metadata()["cellpace.schema"], RUN_TABLE_SCHEMA);
        let read = reader.build().unwrap().next().unwrap().unwrap();
        assert_eq!(read.column(0).as_string::<i32>().value(1), "x");
        let error = read.column_by_name("error").unwrap().as_string::<i32>();
        assert!(error.is_null(0));
        assert_eq!(error.value(1), "made up");
        assert!(read.column_by_name("utilization").unwrap().is_null(1));
        assert!(run_table(vec![("cc".to_owned(), leading)], &rows).is_err(), "a name twice");
    }
}
