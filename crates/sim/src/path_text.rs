//! A path in the written forms of options and keywords.

use std::collections::BTreeMap;
use std::fmt;

use cellpace_base::{Span, nearest, parse_span};
use cellpace_path::schedule::TraceFiles;
use cellpace_path::{FieldError, PATH_FIELDS, PathField};
use serde::de::{Deserialize, Deserializer, Error, MapAccess, Visitor};

use crate::Scenario;

/// Fields beside those of the path.
const CONDITIONS: [&str; 4] = ["from", "send_jitter", "acks", "skip"];

/// The conditions of a run as they are written: [`PATH_FIELDS`], `from` (where the traces of both
/// directions begin), `send_jitter`, `acks` and `skip`. Each field has the form, and without one the
/// default, of the option of `cellpace compare` with its name.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PathText {
    texts: BTreeMap<&'static str, Vec<String>>,
}

impl PathText {
    /// The texts of a field; none if it is left out.
    pub fn texts(&self, field: &str) -> &[String] {
        self.texts.get(field).map_or(&[], Vec::as_slice)
    }

    /// The text of a field, or that of its default.
    pub fn text(&self, field: &str) -> &str {
        let default = || PathField::find(field).and_then(|field| field.default);
        self.texts(field).first().map(String::as_str).or_else(default).unwrap_or_default()
    }

    /// Sets a field; several texts are for those that may be repeated.
    ///
    /// # Errors
    /// When there is no such field, with the nearest one's name.
    pub fn set(&mut self, field: &str, texts: Vec<String>) -> Result<(), String> {
        let mut names = PATH_FIELDS.iter().map(|field| field.name).chain(CONDITIONS);
        let Some(name) = names.find(|name| *name == field) else {
            return Err(format!("there is no field `{field}`{}", hint(field)));
        };
        self.texts.insert(name, texts);
        Ok(())
    }

    /// Returns a scenario on this path that has no duration or flow yet.
    ///
    /// # Errors
    /// When a text does not read, or handovers are not in the order of time.
    pub fn conditions(&self, files: &mut TraceFiles<'_>) -> Result<Scenario, FieldError> {
        let mut scenario = Scenario::default();
        for field in PATH_FIELDS {
            for text in self.texts(field.name) {
                field.read(&mut scenario.link, text, files)?;
            }
        }
        // After the traces are read: it shifts each of them.
        scenario.start_traces_at(self.start()?);
        if let Some(text) = self.texts("send_jitter").first() {
            scenario.send_jitter = FieldError::of("send_jitter", text.parse())?;
        }
        if let Some(text) = self.texts("acks").first() {
            scenario.acks = FieldError::of("acks", text.parse())?;
        }
        if let Some(text) = self.texts("skip").first() {
            scenario.skip = FieldError::of("skip", parse_span(text))?;
        }
        Ok(scenario)
    }

    /// Returns where the traces begin.
    ///
    /// # Errors
    /// When `from` is no time span.
    pub fn start(&self) -> Result<Span, FieldError> {
        let from = self.texts("from").first().map_or(Ok(Span::ZERO), |text| parse_span(text));
        FieldError::of("from", from)
    }

    /// Returns the options of `cellpace link` and `compare` for the path, without those that repeat
    /// a default.
    pub fn options(&self) -> Vec<String> {
        let of_field = |field: &'static PathField| {
            let texts = self.texts(field.name).iter();
            // A command line that says only what is unusual can be read.
            let unusual = texts.filter(|text| Some(text.as_str()) != field.default);
            unusual.flat_map(|text| [format!("--{}", field.option()), text.clone()])
        };
        PATH_FIELDS.iter().flat_map(of_field).collect()
    }
}

fn hint(field: &str) -> String {
    let names = || PATH_FIELDS.iter().map(|field| field.name).chain(CONDITIONS);
    match nearest(field, names()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
    }
}

/// One text or several, or none at all.
#[derive(serde::Deserialize)]
#[serde(untagged, expecting = "a text, such as \"40ms\", or a list of texts")]
enum Texts {
    One(String),
    Several(Vec<String>),
    None,
}

impl<'de> Deserialize<'de> for PathText {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(PathTextVisitor)
    }
}

struct PathTextVisitor;

impl<'de> Visitor<'de> for PathTextVisitor {
    type Value = PathText;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("fields of a path")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<PathText, A::Error> {
        let mut path = PathText::default();
        while let Some((field, texts)) = map.next_entry::<String, Texts>()? {
            let texts = match texts {
                Texts::One(text) => vec![text],
                Texts::Several(texts) => texts,
                Texts::None => continue,
            };
            path.set(&field, texts).map_err(A::Error::custom)?;
        }
        Ok(path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(toml: &str) -> Result<PathText, String> {
        toml::from_str(toml).map_err(|error: toml::de::Error| error.message().to_owned())
    }

    #[test]
    fn without_fields_it_is_as_the_defaults_say() {
        let mut defaults = PathText::default();
        for field in PATH_FIELDS {
            if let Some(text) = field.default {
                defaults.set(field.name, vec![text.to_owned()]).unwrap();
            }
        }
        let link = |path: &PathText| path.conditions(&mut TraceFiles::none()).unwrap().link;
        assert_eq!(link(&defaults), link(&PathText::default()));
        assert_eq!(defaults.options(), [""; 0]);
    }

    #[test]
    fn texts_are_read_and_wrong_ones_named() {
        let text = "rtt = '80ms'\nimpair = ['duplicate=1%', 'up:corrupt=2%']\nskip = '3s'\n\
                    uplink = 'constant:1mbit'\nfrom = '1min'\nacks = 'delayed:40ms'\n";
        let path = read(text).unwrap();
        let scenario = path.conditions(&mut TraceFiles::none()).unwrap();
        assert_eq!(scenario.link.rtt().to_string(), "80ms");
        assert_eq!(scenario.link.up.impair.to_string(), "corrupt=2%");
        assert_eq!(scenario.link.up.trace.unwrap().to_string(), "constant:1mbit from 60s");
        assert_eq!(scenario.skip, Span::from_secs(3));
        let options =
            "--rtt 80ms --uplink constant:1mbit --impair duplicate=1% --impair up:corrupt=2%";
        assert_eq!(path.options().join(" "), options);
        assert!(read("rt = '80ms'").unwrap_err().contains("did you mean `rtt`?"));
        assert!(read("rtt = 80").unwrap_err().contains("a text, such as"));
        let error = read("acks = 'never'").unwrap().conditions(&mut TraceFiles::none());
        assert_eq!(error.unwrap_err().field, "acks");
    }
}
