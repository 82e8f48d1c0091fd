//! A stored result: what `--json` wrote, read back.

use std::fmt;

use serde::Deserialize;
use serde::de::{
    DeserializeOwned, DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess,
    Visitor,
};
use serde_json::{Map, Value};

use crate::ReportError;

/// What a command wrote with `--json`: one JSON object, or one a line. It is kept as text and read as what its
/// schema says: as values of any kind it would take up to ninety times as much memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Document {
    /// Where it comes from: the file's name, for errors and to tell several apart.
    pub name: String,
    /// The schema that all objects name.
    pub(crate) schema: String,
    /// The objects, at least one.
    json: String,
}

impl Document {
    /// Reads the text of a result. `name` is what errors call it.
    ///
    /// # Errors
    /// When the text is empty, no JSON, cut off, or not the result of a command.
    pub fn read(name: &str, text: impl Into<String>) -> Result<Self, ReportError> {
        let json = text.into();
        let wrong = |why: String| ReportError::document(name, why);
        Density::of(json.as_bytes()).check(json.len()).map_err(wrong)?;
        let mut schema: Option<String> = None;
        for head in serde_json::Deserializer::from_str(&json).into_iter::<Head>() {
            let head = head.map_err(|error| wrong(reason(&error)))?;
            let Some(named) = head.0 else {
                let why = match schema {
                    None => "no result of cellpace: it has no field `schema`",
                    Some(_) => "has lines of another kind than the first",
                };
                return Err(wrong(why.to_owned()));
            };
            if schema.get_or_insert_with(|| named.clone()) != &named {
                return Err(wrong("has lines of another kind than the first".to_owned()));
            }
        }
        let schema = schema.ok_or_else(|| wrong("is empty: there is no result".to_owned()))?;
        Ok(Self { name: name.to_owned(), schema, json })
    }

    /// The document of these objects.
    ///
    /// # Errors
    /// When there are none, or they are not the result of a command.
    pub fn of(name: &str, objects: &[Value]) -> Result<Self, ReportError> {
        let lines: Vec<String> = objects.iter().map(Value::to_string).collect();
        Self::read(name, lines.join("\n"))
    }

    /// Results of one schema as one, under the name of the first.
    pub(crate) fn joined(documents: &[Self]) -> Option<Self> {
        let [first, ..] = documents else { return None };
        let lines: Vec<&str> = documents.iter().map(|document| document.json.as_str()).collect();
        let Self { name, schema, .. } = first.clone();
        Some(Self { name, schema, json: lines.join("\n") })
    }

    /// The objects as what their schema says.
    pub(crate) fn typed<T: DeserializeOwned>(&self) -> Result<Vec<T>, ReportError> {
        let objects = serde_json::Deserializer::from_str(&self.json).into_iter::<T>();
        objects.collect::<Result<Vec<T>, _>>().map_err(|error| {
            let why = format!("does not fit its schema {}: {error}", self.schema);
            ReportError::document(&self.name, why)
        })
    }

    /// The objects with their single values, and of arrays those that are called by one of `names`, whose
    /// elements are objects of the same kind.
    pub(crate) fn figures(&self, names: &[&str]) -> Result<Vec<Value>, ReportError> {
        let wrong =
            |error: &serde_json::Error| ReportError::document(&self.name, error.to_string());
        let mut left = MAX_ELEMENTS;
        let mut objects = Vec::new();
        let mut reader = serde_json::Deserializer::from_str(&self.json);
        while reader.end().is_err() {
            let figures = FigureSearch { names, left: &mut left, is_listed: false };
            objects.push(figures.deserialize(&mut reader).map_err(|error| wrong(&error))?);
        }
        Ok(objects)
    }
}

/// How many objects and arrays a text has.
#[derive(Default)]
struct Density {
    objects: usize,
    arrays: usize,
}

impl Density {
    /// Counts those that begin outside of texts.
    fn of(json: &[u8]) -> Self {
        let mut density = Self::default();
        let (mut is_text, mut is_escaped) = (false, false);
        for byte in json {
            match (is_text, byte) {
                (true, _) if is_escaped => is_escaped = false,
                (true, b'\\') => is_escaped = true,
                (_, b'"') => is_text = !is_text,
                (false, b'{') => density.objects += 1,
                (false, b'[') => density.arrays += 1,
                _ => {}
            }
        }
        density
    }

    /// Refuses what is much denser than any result: an object of a few bytes takes hundreds in memory.
    fn check(&self, bytes: usize) -> Result<(), String> {
        let Self { objects, arrays } = *self;
        if objects > 100_000 + bytes / 24 || arrays > 1_000_000 + bytes / 16 {
            return Err(format!(
                "{objects} objects and {arrays} arrays in {bytes} bytes: no result of cellpace"
            ));
        }
        Ok(())
    }
}

fn reason(error: &serde_json::Error) -> String {
    if error.is_eof() {
        return format!("ends in the middle of a result (line {})", error.line());
    }
    format!("not JSON: {error}")
}

/// The schema that an object names; `None` of any other value.
struct Head(Option<String>);

impl<'de> Deserialize<'de> for Head {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        Ok(Self(from.deserialize_any(TextVisitor { within: true })?))
    }
}

/// A text; `None` of any other value. `within`: the field `schema` of an object.
struct TextVisitor {
    within: bool,
}

impl<'de> DeserializeSeed<'de> for TextVisitor {
    type Value = Option<String>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for TextVisitor {
    type Value = Option<String>;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(key) = map.next_key::<String>()? {
            if self.within && key == "schema" {
                found = map.next_value_seed(Self { within: false })?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Self::Value, E> {
        Ok((!self.within).then(|| text.to_owned()))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }
}

/// Objects and arrays in all of a document that become figures. One more takes some hundred bytes.
const MAX_ELEMENTS: usize = 1_000_000;

/// Reads [`Document::figures`].
struct FigureSearch<'a> {
    names: &'a [&'a str],
    /// Elements that may still come.
    left: &'a mut usize,
    /// An array is one of those that are wanted.
    is_listed: bool,
}

impl FigureSearch<'_> {
    fn within(&mut self, is_listed: bool) -> FigureSearch<'_> {
        FigureSearch { names: self.names, left: self.left, is_listed }
    }

    fn count<E: Error>(&mut self) -> Result<(), E> {
        let more = || E::custom(format!("more than {MAX_ELEMENTS} rows"));
        *self.left = self.left.checked_sub(1).ok_or_else(more)?;
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for FigureSearch<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for FigureSearch<'_> {
    type Value = Value;

    fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        self.count()?;
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            let is_listed = self.names.contains(&key.as_str());
            let value = map.next_value_seed(self.within(is_listed))?;
            object.insert(key, value);
        }
        Ok(object.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut items = Vec::new();
        if !self.is_listed {
            while seq.next_element::<IgnoredAny>()?.is_some() {}
            return Ok(items.into());
        }
        while let Some(item) = seq.next_element_seed(self.within(false))? {
            self.count()?;
            items.push(item);
        }
        Ok(items.into())
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}
