//! Parquet files that commands write, read back as results: packet logs and logs of transfers.

mod ending;
mod packets;
mod rows;
mod sequence;

use std::fs::File;

use arrow_array::{Array, RecordBatch};
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::basic::{Encoding, PageType};
use parquet::column::page::PageReader;
use parquet::errors::ParquetError;
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::reader::{FileReader, SerializedFileReader};
use serde_json::Value;

use self::ending::Ending;
use crate::{Document, ReportError};

/// The columns by which a packet log is known.
const PACKET_COLUMNS: [&str; 10] = [
    "run",
    "cc",
    "flow",
    "id",
    "size",
    "sent_ns",
    "enqueued_ns",
    "dequeued_ns",
    "departed_ns",
    "fate",
];

/// Those of a log of transfers.
const TRANSFER_COLUMNS: [&str; 8] =
    ["run", "trace", "seed", "flow", "cc", "size_bytes", "completion_ms", "outcome"];

/// Those of the runs of a sweep.
const RUN_COLUMNS: [&str; 6] =
    ["cell", "cc", "trace", "seed", "throughput_mbps", "queue_delay_ms_p95"];

/// Rows that are kept one by one.
const MAX_ROWS: i64 = 200_000;

impl Document {
    /// Reads a Parquet file that a command wrote: a packet log (`--log`), of which the figures are
    /// computed, the log of transfers (`--transfers`), or the runs of a sweep. `name` is what errors call it.
    ///
    /// # Errors
    /// When it is no Parquet file, or one of other columns, or damaged.
    pub fn read_parquet(name: &str, file: &File) -> Result<Self, ReportError> {
        let stored = Stored { name, file };
        let builder = stored.builder()?;
        let columns: Vec<String> =
            builder.schema().fields().iter().map(|field| field.name().clone()).collect();
        let has = |wanted: &[&str]| wanted.iter().all(|name| columns.iter().any(|c| c == name));
        if has(&PACKET_COLUMNS) {
            return Self::of(name, &packets::runs(&stored)?);
        }
        let schema = match () {
            () if has(&TRANSFER_COLUMNS) => Some("cellpace.transfers/1"),
            () if has(&RUN_COLUMNS) => Some("cellpace.runs/1"),
            () => None,
        };
        if let Some(schema) = schema {
            let count = builder.metadata().file_metadata().num_rows();
            if count > MAX_ROWS {
                return Err(
                    stored.wrong(&format!("{count} rows are more than the {MAX_ROWS} of a page"))
                );
            }
            return Self::of(name, &rows::objects(&stored, schema)?);
        }
        let shown = columns.iter().take(8).map(String::as_str).collect::<Vec<_>>().join(", ");
        Err(stored.wrong(&format!(
            "its columns ({shown}{}) are not those of a packet log (--log), of a log of transfers (--transfers) or of a sweep",
            if columns.len() > 8 { ", ..." } else { "" },
        )))
    }
}

/// A file with its name.
pub(super) struct Stored<'a> {
    name: &'a str,
    file: &'a File,
}

impl Stored<'_> {
    fn wrong(&self, why: &impl ToString) -> ReportError {
        ReportError::document(self.name, why.to_string())
    }

    fn builder(&self) -> Result<ParquetRecordBatchReaderBuilder<Ending>, ReportError> {
        let file = self.file.try_clone().map_err(|error| self.wrong(&error))?;
        ParquetRecordBatchReaderBuilder::try_new(Ending(file))
            .map_err(|error| self.wrong(&format!("damaged, or not Parquet: {error}")))
    }

    /// All rows from the first.
    fn reader(&self) -> Result<ParquetRecordBatchReader, ReportError> {
        let file = self.file.try_clone().map_err(|error| self.wrong(&error))?;
        match find_damage(Ending(file)) {
            Ok(None) => {}
            Ok(Some(damage)) => return Err(self.wrong(&format!("damaged: {damage}"))),
            Err(error) => return Err(self.wrong(&format!("damaged: {error}"))),
        }
        self.builder()?.build().map_err(|error| self.wrong(&error))
    }

    /// Downcasts a column to its expected type.
    fn column<'b, A: 'static>(
        &self,
        batch: &'b RecordBatch,
        name: &str,
    ) -> Result<&'b A, ReportError> {
        if batch.column_by_name(name).is_some_and(|column| column.null_count() > 0) {
            return Err(self.wrong(&format!("column `{name}`: values are missing")));
        }
        self.typed(batch, name)
    }

    /// The same where values may be missing.
    fn typed<'b, A: 'static>(
        &self,
        batch: &'b RecordBatch,
        name: &str,
    ) -> Result<&'b A, ReportError> {
        let column = batch.column_by_name(name);
        let column = column.ok_or_else(|| self.wrong(&format!("has no column `{name}`")))?;
        let kind = column.data_type();
        let typed = column.as_any().downcast_ref::<A>();
        typed.ok_or_else(|| self.wrong(&format!("column `{name}`: {kind} is not its type")))
    }

    fn batch(
        &self,
        batch: Result<RecordBatch, arrow_schema::ArrowError>,
    ) -> Result<RecordBatch, ReportError> {
        batch.map_err(|error| self.wrong(&format!("damaged: {error}")))
    }
}

/// What the library would panic at, if anything.
fn find_damage(file: Ending) -> Result<Option<&'static str>, ParquetError> {
    let file = SerializedFileReader::new(file)?;
    for group in 0..file.num_row_groups() {
        let group = file.get_row_group(group)?;
        for column in 0..group.num_columns() {
            if begins_before_file(group.metadata().column(column)) {
                return Ok(Some("a column lies outside of the file"));
            }
            if needs_dictionary(&mut *group.get_column_page_reader(column)?)? {
                return Ok(Some("a dictionary is missing"));
            }
        }
    }
    Ok(None)
}

fn begins_before_file(column: &ColumnChunkMetaData) -> bool {
    let begins = column.dictionary_page_offset().unwrap_or(column.data_page_offset());
    begins < 0 || column.compressed_size() < 0
}

/// Whether a column has no dictionary, and a page that needs one.
fn needs_dictionary(pages: &mut dyn PageReader) -> Result<bool, ParquetError> {
    while let Some(page) = pages.get_next_page()? {
        if page.page_type() == PageType::DICTIONARY_PAGE {
            return Ok(false);
        }
        if matches!(page.encoding(), Encoding::PLAIN_DICTIONARY | Encoding::RLE_DICTIONARY) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Whole objects or nothing: what `Document::of` wants.
type Objects = Result<Vec<Value>, ReportError>;
