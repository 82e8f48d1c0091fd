//! A stored result: what `--json` wrote, read back.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::ReportError;

/// What a command wrote with `--json`: one JSON object, or one a line.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Where it comes from: the file's name, for errors and to tell several apart.
    pub name: String,
    /// The schema that all objects name.
    pub(crate) schema: String,
    /// The objects; at least one.
    pub(crate) objects: Vec<Value>,
}

impl Document {
    /// Reads the text of a result. `name` is what errors call it.
    ///
    /// # Errors
    /// When the text is empty, no JSON, cut off, or not the result of a command.
    pub fn read(name: &str, text: &str) -> Result<Self, ReportError> {
        let wrong = |why: String| ReportError::document(name, why);
        let mut objects = Vec::new();
        for value in serde_json::Deserializer::from_str(text).into_iter::<Value>() {
            objects.push(value.map_err(|error| wrong(reason(&error)))?);
        }
        Self::of(name, objects)
    }

    /// The document of these objects.
    ///
    /// # Errors
    /// When there are none, or they are not the result of a command.
    pub fn of(name: &str, objects: Vec<Value>) -> Result<Self, ReportError> {
        let wrong = |why: &str| Err(ReportError::document(name, why.to_owned()));
        let Some(first) = objects.first() else { return wrong("is empty: there is no result") };
        let Some(schema) = first.get("schema").and_then(Value::as_str) else {
            return wrong("no result of cellpace: it has no field `schema`");
        };
        if objects.iter().any(|object| object.get("schema").and_then(Value::as_str) != Some(schema))
        {
            return wrong("has lines of another kind than the first");
        }
        Ok(Self { name: name.to_owned(), schema: schema.to_owned(), objects })
    }

    /// The objects as what their schema says.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> Result<Vec<T>, ReportError> {
        let typed = |object: &Value| T::deserialize(object);
        let objects: Result<Vec<T>, _> = self.objects.iter().map(typed).collect();
        objects.map_err(|error| {
            let why = format!("does not fit its schema {}: {error}", self.schema);
            ReportError::document(&self.name, why)
        })
    }
}

fn reason(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("ends in the middle of a result (line {})", error.line());
    }
    format!("not JSON: {error}")
}
