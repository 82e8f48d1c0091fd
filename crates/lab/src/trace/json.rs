//! A trace as JSON: its name, its period and the times of its opportunities.

use std::fmt;
use std::io::BufRead;

use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace, TraceError};
use serde::de::{Error, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

use super::source::ending_at;

/// A trace as a document.
#[derive(Debug, Serialize)]
struct WrittenTrace<'a> {
    name: &'a str,
    period_ms: u32,
    opportunities_ms: &'a [u32],
}

/// What is read of one.
#[derive(Debug, Deserialize)]
struct ReadTrace {
    period_ms: Option<u32>,
    #[serde(deserialize_with = "opportunities")]
    opportunities_ms: Vec<u32>,
}

fn opportunities<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<u32>, D::Error> {
    deserializer.deserialize_seq(OpportunityList)
}

/// Reads a list as long as a trace may be, so that an endless one ends with an error.
struct OpportunityList;

impl<'de> Visitor<'de> for OpportunityList {
    type Value = Vec<u32>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of times in milliseconds")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Vec<u32>, A::Error> {
        let mut millis = Vec::new();
        let mut last = 0;
        while let Some(at) = list.next_element::<u32>()? {
            if at < last {
                let problem = format!("{at} comes after {last}, but times must not decrease,");
                return Err(A::Error::custom(problem));
            }
            if millis.len() == MAX_OPPORTUNITIES {
                let problem = format!("more than {MAX_OPPORTUNITIES} opportunities");
                return Err(A::Error::custom(problem));
            }
            last = at;
            millis.push(at);
        }
        Ok(millis)
    }
}

/// Writes it on one line: nobody reads a hundred thousand lines with a number each.
pub(super) fn write(name: &str, trace: &Trace) -> String {
    let millis = trace.millis();
    let period_ms = millis.last().copied().unwrap_or(0);
    let text = serde_json::to_string(&WrittenTrace { name, period_ms, opportunities_ms: millis });
    text.expect("numbers and a text have a written form") + "\n"
}

/// Reads such a document; without a period it ends with its last opportunity.
pub(super) fn read(name: &str, reader: impl BufRead) -> Result<Trace, TraceError> {
    let wrong = |problem: String| TraceError::Unreadable { name: name.to_owned(), problem };
    let read = serde_json::from_reader::<_, ReadTrace>(reader);
    let ReadTrace { period_ms, opportunities_ms: millis } =
        read.map_err(|error| wrong(error.to_string()))?;
    let Some(last) = millis.last().copied() else {
        return Err(wrong("opportunities_ms: empty".to_owned()));
    };
    let period = period_ms.unwrap_or(last);
    if period < last {
        return Err(wrong(format!("period_ms: {period} is before the last opportunity, {last}")));
    }
    ending_at(millis, period).map_err(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    #[test]
    fn documents_are_checked_when_read() {
        let read = |text: &str| read("t", text.as_bytes());
        let said = |text: &str| read(text).unwrap_err().to_string();
        assert_eq!(read(r#"{"opportunities_ms": [1, 2]}"#).unwrap(), trace([1, 2]));
        let longer = r#"{"name": "x", "period_ms": 5, "opportunities_ms": [1, 2]}"#;
        assert_eq!(read(longer).unwrap(), trace([1, 2, 5]));
        let written = write("t", &trace([0, 3, 3]));
        assert_eq!(written, "{\"name\":\"t\",\"period_ms\":3,\"opportunities_ms\":[0,3,3]}\n");
        assert_eq!(read(&written).unwrap(), trace([0, 3, 3]));
        assert!(said(r#"{"opportunities_ms": [1, -2]}"#).contains("line 1 column"));
        assert!(said("{}").contains("missing field `opportunities_ms`"));
        assert!(said("").starts_with("t: EOF"));
        assert!(said(r#"{"opportunities_ms": []}"#).contains("empty"));
        assert!(said(r#"{"opportunities_ms": [0]}"#).contains("above 0"));
        assert!(said(r#"{"opportunities_ms": [5, 3]}"#).contains("3 comes after 5"));
        assert!(said(r#"{"period_ms": 1, "opportunities_ms": [5]}"#).contains("before the last"));
    }
}
