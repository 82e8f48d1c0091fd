//! Tables for Python: Arrow's columns, which other libraries take as they are.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fmt::Display;
use std::path::PathBuf;
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::ffi::FFI_ArrowSchema;
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::Int8Type;
use arrow_array::{
    Array, ArrayRef, Float64Array, RecordBatch, RecordBatchIterator, StringArray, UInt64Array,
};
use arrow_schema::{DataType, Field, Schema};
use cellpace_report::Aside;
use parquet::arrow::ArrowWriter;
use pyo3::exceptions::PyKeyError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule};

use crate::error::{Failure, refused, without_python};

/// Name of the metadata that says which document a table's columns come from.
const SCHEMA_KEY: &str = "cellpace.schema";
/// Names that the Arrow PyCapsule interface prescribes.
const STREAM_NAME: &CStr = c"arrow_array_stream";
const SCHEMA_NAME: &CStr = c"arrow_schema";

/// Columns of equal length.
#[pyclass(frozen, module = "cellpace._native")]
pub(crate) struct ArrowTable {
    batch: RecordBatch,
}

impl ArrowTable {
    /// A table as it is, with its own metadata.
    pub(crate) fn of(batch: RecordBatch) -> Self {
        Self { batch }
    }

    /// A table of these columns, which come from a document of this schema.
    pub(crate) fn new(schema: &str, columns: Vec<(&str, ArrayRef)>) -> PyResult<Self> {
        let fields: Vec<Field> = columns
            .iter()
            .map(|(name, column)| Field::new(*name, column.data_type().clone(), true))
            .collect();
        let metadata: HashMap<String, String> = [(SCHEMA_KEY.to_owned(), schema.to_owned())].into();
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        let columns = columns.into_iter().map(|(_, column)| column).collect();
        Ok(Self { batch: RecordBatch::try_new(schema, columns).map_err(refused)? })
    }
}

#[pymethods]
impl ArrowTable {
    /// The table as a stream of the Arrow PyCapsule interface. Other schemas than its own are not
    /// made: the interface lets consumers convert.
    #[pyo3(signature = (requested_schema=None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let reader = RecordBatchIterator::new([Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(reader));
        PyCapsule::new_with_value(py, stream, STREAM_NAME)
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(refused)?;
        PyCapsule::new_with_value(py, schema, SCHEMA_NAME)
    }

    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    /// Names of the columns.
    #[getter]
    fn column_names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|field| field.name().clone()).collect()
    }

    /// A column for numpy: the type, its bytes, and for each row whether there is a value (where some
    /// are missing); texts as a list.
    fn column<'py>(&self, py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
        let column = self.batch.column_by_name(name);
        let column = column.ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        if let Some(texts) = column.as_string_opt::<i32>() {
            return texts.iter().collect::<Vec<_>>().into_pyobject(py);
        }
        if let Some(names) = column.as_dictionary_opt::<Int8Type>() {
            let texts = names.downcast_dict::<StringArray>().expect("dictionaries are of texts");
            return texts.into_iter().collect::<Vec<_>>().into_pyobject(py);
        }
        let (kind, width) = match column.data_type() {
            DataType::Float64 => ("<f8", 8),
            DataType::Float32 => ("<f4", 4),
            DataType::UInt64 => ("<u8", 8),
            DataType::Int64 => ("<i8", 8),
            DataType::UInt32 => ("<u4", 4),
            other => return Err(refused(format!("{name}: columns of {other} have no numpy form"))),
        };
        let data = column.to_data();
        let from = data.offset() * width;
        let bytes = &data.buffers()[0].as_slice()[from..from + data.len() * width];
        let valid = column.nulls().filter(|nulls| nulls.null_count() > 0);
        let valid = valid.map(|nulls| nulls.iter().map(u8::from).collect::<Vec<u8>>());
        let valid = valid.map(|valid| PyBytes::new(py, &valid));
        Ok((kind, PyBytes::new(py, bytes), valid).into_pyobject(py)?.into_any())
    }

    /// Writes it as a Parquet file, which appears when it is whole.
    fn write_parquet(&self, py: Python<'_>, path: PathBuf) -> PyResult<()> {
        without_python(py, || {
            let failed =
                |error: &dyn Display| Failure::Refused(format!("{}: {error}", path.display()));
            let aside =
                Aside::create(&path).map_err(|error| Failure::Refused(error.to_string()))?;
            let mut writer = ArrowWriter::try_new(aside, self.batch.schema(), None)
                .map_err(|error| failed(&error))?;
            writer.write(&self.batch).map_err(|error| failed(&error))?;
            let aside = writer.into_inner().map_err(|error| failed(&error))?;
            aside.commit().map_err(|error| Failure::Refused(error.to_string()))
        })
    }
}

/// A column of numbers; what is not a number is missing.
pub(crate) fn floats(values: impl Iterator<Item = f64>) -> ArrayRef {
    let values = values.map(|value| value.is_finite().then_some(value));
    Arc::new(values.collect::<Float64Array>())
}

pub(crate) fn integers(values: impl Iterator<Item = u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(values))
}

pub(crate) fn texts<'a>(values: impl Iterator<Item = &'a str>) -> ArrayRef {
    Arc::new(StringArray::from_iter_values(values))
}
