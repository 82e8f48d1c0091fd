//! Rows as JSON objects, one field a column.

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int32Type, UInt32Type, UInt64Type};
use arrow_array::{Array, StringArray};
use arrow_schema::DataType;
use serde_json::{Map, Value};

use super::{Objects, Stored};
use crate::ReportError;

pub(super) fn objects(stored: &Stored<'_>, schema: &str) -> Objects {
    let mut objects = Vec::new();
    for batch in stored.reader()? {
        let batch = stored.batch(batch)?;
        let first = objects.len();
        let empty = || Map::from_iter([("schema".to_owned(), Value::from(schema))]);
        objects.extend((0..batch.num_rows()).map(|_| empty()));
        for (field, column) in batch.schema().fields().iter().zip(batch.columns()) {
            let values = values(stored, field.name(), column)?;
            for (object, value) in objects[first..].iter_mut().zip(values) {
                object.insert(field.name().clone(), value);
            }
        }
    }
    Ok(objects.into_iter().map(Value::Object).collect())
}

/// The values of a column; `null` where one is missing.
fn values(stored: &Stored<'_>, name: &str, column: &dyn Array) -> Result<Vec<Value>, ReportError> {
    let all: Vec<Value> = match column.data_type() {
        DataType::UInt32 => column.as_primitive::<UInt32Type>().iter().map(Value::from).collect(),
        DataType::UInt64 => column.as_primitive::<UInt64Type>().iter().map(Value::from).collect(),
        DataType::Float64 => column.as_primitive::<Float64Type>().iter().map(Value::from).collect(),
        DataType::Utf8 => column.as_string::<i32>().iter().map(Value::from).collect(),
        DataType::Dictionary(key, _) if **key == DataType::Int32 => {
            let texts = column.as_dictionary::<Int32Type>();
            let texts = texts.downcast_dict::<StringArray>();
            let texts = texts.ok_or_else(|| stored.wrong(&format!("column `{name}`: not text")))?;
            texts.into_iter().map(Value::from).collect()
        }
        kind => return Err(stored.wrong(&format!("column `{name}`: {kind} is not its type"))),
    };
    Ok(all)
}
