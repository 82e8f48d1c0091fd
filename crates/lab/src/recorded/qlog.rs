//! qlog: drafts 0.3 and later as JSON, and as JSON-SEQ or lines; also the first drafts, whose events are lists of fields
//! (`event_fields`). Events count by the last part of their name, since drafts moved them between categories.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;

use super::Recorded;
use super::flow::{RecordedFlow, Sample};

/// Begins each record of JSON-SEQ.
const RECORD: char = '\u{1e}';
/// The longest event in a text, in bytes.
const MAX_EVENT: usize = 1 << 20;
/// Values of an event at most, those in others counted: acks have hundreds of ranges.
const MAX_VALUES: usize = 20_000;
/// Traces of one file.
const MAX_TRACES: usize = 256;

/// Whether a text begins as a qlog does.
pub(super) fn is_one(text: &str) -> bool {
    let beginning: String = text.chars().take(4096).filter(|c| !c.is_whitespace()).collect();
    let is_qlog = ["\"qlog_version\":", "\"qlog_format\":", "ietf:params:qlog"];
    is_qlog.iter().any(|part| beginning.contains(part))
}

pub(super) fn read(text: &str) -> Result<Recorded, String> {
    let flows = match text.trim_start().starts_with(RECORD) {
        true => of_records(text.split(RECORD).filter(|it| !it.trim().is_empty()))?,
        false if is_of_lines(text) => of_records(text.lines().filter(|it| !it.trim().is_empty()))?,
        false => of_document(text)?,
    };
    Ok(Recorded { kind: "qlog", flows, notes: Vec::new() })
}

/// Whether the first line is a document of its own.
fn is_of_lines(text: &str) -> bool {
    let first = text.trim_start().lines().next().unwrap_or_default();
    first.len() < MAX_EVENT
        && text.trim_start().len() > first.len() + 2
        && serde_json::from_str::<IgnoredAny>(first).is_ok()
}

/// A header, and an event in each record behind it.
fn of_records<'a>(mut records: impl Iterator<Item = &'a str>) -> Result<Vec<RecordedFlow>, String> {
    let parse = |number: usize, record: &str| {
        if record.len() > MAX_EVENT {
            return Err(format!("record {number}: longer than 1 MB"));
        }
        serde_json::from_str::<Value>(record).map_err(|error| format!("record {number}: {error}"))
    };
    let header = parse(1, records.next().unwrap_or_default())?;
    let mut trace = TraceReader::default();
    if let Some(Value::Object(fields)) = header.get("trace") {
        fields.iter().for_each(|(name, value)| trace.describe(name, value));
    }
    if let Some(title) = header.get("title") {
        trace.describe("title", title);
    }
    for (number, record) in (2..).zip(records) {
        let event = parse(number, record)?;
        trace.event(&event).map_err(|why| format!("record {number}: {why}"))?;
    }
    Ok(trace.finish(1))
}

fn of_document(text: &str) -> Result<Vec<RecordedFlow>, String> {
    let mut flows = Vec::new();
    let mut reader = serde_json::Deserializer::from_str(text);
    Part::File(&mut flows).deserialize(&mut reader).map_err(|error| error.to_string())?;
    Ok(flows)
}

/// A part of a document that is read without being kept.
enum Part<'a> {
    File(&'a mut Vec<RecordedFlow>),
    Traces(&'a mut Vec<RecordedFlow>),
    Trace(&'a mut TraceReader),
    Events(&'a mut TraceReader),
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        match self {
            Self::File(_) | Self::Trace(_) => from.deserialize_map(self),
            Self::Traces(_) | Self::Events(_) => from.deserialize_seq(self),
        }
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::File(_) => "a qlog",
            Self::Traces(_) => "a list of traces",
            Self::Trace(_) => "a trace",
            Self::Events(_) => "a list of events",
        })
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<String>()? {
            match (&mut self, key.as_str()) {
                (Self::File(flows), "traces") => map.next_value_seed(Part::Traces(flows))?,
                (Self::Trace(trace), "events") => map.next_value_seed(Part::Events(trace))?,
                (Self::Trace(trace), key) => {
                    trace.describe(key, &map.next_value_seed(Kept::all())?);
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<(), A::Error> {
        match &mut self {
            Self::Traces(flows) => loop {
                let mut trace = TraceReader::default();
                if seq.next_element_seed(Part::Trace(&mut trace))?.is_none() {
                    return Ok(());
                }
                if flows.len() >= MAX_TRACES {
                    return Err(A::Error::custom(format!("more than {MAX_TRACES} traces")));
                }
                let number = flows.len() + 1;
                flows.extend(trace.finish(number));
            },
            Self::Events(trace) => {
                let mut number = 0;
                while let Some(event) = seq.next_element_seed(Kept::all())? {
                    number += 1;
                    let wrong = |why| A::Error::custom(format!("event {number}: {why}"));
                    trace.event(&event).map_err(wrong)?;
                }
                Ok(())
            }
            Self::File(_) | Self::Trace(_) => Err(A::Error::custom("a list was not expected")),
        }
    }
}

/// A value with a bound on its parts: one of a few bytes takes hundreds in memory.
struct Kept {
    left: usize,
}

impl Kept {
    const fn all() -> Self {
        Self { left: MAX_VALUES }
    }
}

impl<'de> DeserializeSeed<'de> for Kept {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(mut self, from: D) -> Result<Value, D::Error> {
        KeptPart { left: &mut self.left }.deserialize(from)
    }
}

struct KeptPart<'a> {
    left: &'a mut usize,
}

impl KeptPart<'_> {
    fn next<E: Error>(&mut self) -> Result<KeptPart<'_>, E> {
        let left = self.left.checked_sub(1);
        *self.left =
            left.ok_or_else(|| E::custom(format!("more than {MAX_VALUES} values in one event")))?;
        Ok(KeptPart { left: &mut *self.left })
    }
}

impl<'de> DeserializeSeed<'de> for KeptPart<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for KeptPart<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = serde_json::Map::new();
        while let Some(key) = map.next_key::<String>()? {
            fields.insert(key, map.next_value_seed(self.next::<A::Error>()?)?);
        }
        Ok(Value::Object(fields))
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Value, A::Error> {
        let mut parts = Vec::new();
        while let Some(part) = seq.next_element_seed(self.next::<A::Error>()?)? {
            parts.push(part);
        }
        Ok(Value::Array(parts))
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(text.into())
    }

    fn visit_f64<E>(self, number: f64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_u64<E>(self, number: u64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_i64<E>(self, number: i64) -> Result<Value, E> {
        Ok(number.into())
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// How times are meant.
#[derive(Debug, Clone, Copy, PartialEq)]
enum TimeFormat {
    /// Since whatever: the first event is the beginning.
    Since,
    /// Since the event before.
    Delta,
}

/// Reads the events of a trace.
#[derive(Debug)]
struct TraceReader {
    /// By the group that events name: a connection.
    flows: Vec<(Option<String>, RecordedFlow)>,
    title: Option<String>,
    format: TimeFormat,
    /// ms of a unit of time.
    unit: f64,
    /// What the parts of an event are that is a list.
    fields: Vec<String>,
    first: Option<f64>,
    /// In ms.
    now: f64,
}

impl Default for TraceReader {
    fn default() -> Self {
        Self {
            flows: Vec::new(),
            title: None,
            format: TimeFormat::Since,
            unit: 1.0,
            fields: Vec::new(),
            first: None,
            now: 0.0,
        }
    }
}

impl TraceReader {
    /// Takes a member of the trace beside its events.
    fn describe(&mut self, name: &str, value: &Value) {
        let text = |value: &Value| value.as_str().map(str::to_owned);
        match name {
            "title" => self.title = text(value).or(self.title.take()),
            "vantage_point" => {
                let name = value.get("name").and_then(text).filter(|name| !name.is_empty());
                self.title = self.title.take().or(name).or(value.get("type").and_then(text));
            }
            "event_fields" => {
                let names = value.as_array().into_iter().flatten();
                self.fields = names.map(|name| text(name).unwrap_or_default()).collect();
            }
            "configuration" | "common_fields" => {
                match value.get("time_format").and_then(Value::as_str) {
                    Some("delta" | "relative_to_previous_event") => self.format = TimeFormat::Delta,
                    Some(_) => self.format = TimeFormat::Since,
                    None => {}
                }
                if value.get("time_units").and_then(Value::as_str) == Some("us") {
                    self.unit = 1e-3;
                }
            }
            _ => {}
        }
    }

    fn event(&mut self, event: &Value) -> Result<(), String> {
        let (time, name, data, group) = match event {
            Value::Object(fields) => {
                let time = fields.get("time").or(fields.get("relative_time"));
                let name = fields.get("name").and_then(Value::as_str);
                (time, name, fields.get("data"), fields.get("group_id"))
            }
            Value::Array(parts) => {
                let part = |names: &[&str]| {
                    let place =
                        self.fields.iter().position(|field| names.contains(&field.as_str()));
                    place.and_then(|place| parts.get(place))
                };
                let name = part(&["event", "event_type", "name"]).and_then(Value::as_str);
                let time = part(&["relative_time", "time", "delta_time"]);
                (time, name, part(&["data"]), part(&["group_id"]))
            }
            _ => return Err("is neither an object nor a list".to_owned()),
        };
        let time = time.and_then(number).ok_or("time: there is none, or no number")?;
        let name = name.ok_or("name: there is none")?;
        let time = time * self.unit;
        self.now = match self.format {
            TimeFormat::Delta => self.now + time,
            TimeFormat::Since => time - *self.first.get_or_insert(time),
        };
        let Some(data) = data else { return Ok(()) };
        let name = name.rsplit(':').next().unwrap_or(name);
        let flow = self.flow_of(group.and_then(Value::as_str))?;
        self.take(name.strip_prefix("recovery_").unwrap_or(name), data, flow)
    }

    /// The place of the flow with this group.
    fn flow_of(&mut self, group: Option<&str>) -> Result<usize, String> {
        let known = self.flows.iter().position(|(other, _)| other.as_deref() == group);
        if known.is_none() {
            if self.flows.len() == MAX_TRACES {
                return Err(format!("group_id: more than {MAX_TRACES} groups"));
            }
            self.flows.push((group.map(str::to_owned), RecordedFlow::new("")));
        }
        Ok(known.unwrap_or(self.flows.len() - 1))
    }

    fn take(&mut self, name: &str, data: &Value, flow: usize) -> Result<(), String> {
        let field = |names: &[&str]| names.iter().find_map(|name| number(data.get(*name)?));
        let samples = match name {
            // A log with sent packets also has those that were lost.
            "packet_sent" => [length(data).map(Sample::Sent), Some(Sample::Lost(0.0)), None, None],
            "packet_received" => [length(data).map(Sample::Received), None, None, None],
            "packet_lost" => [Some(Sample::Lost(1.0)), None, None, None],
            "metrics_updated" | "metric_update" => [
                field(&["congestion_window", "cwnd"]).map(Sample::Window),
                field(&["bytes_in_flight"]).map(Sample::InFlight),
                field(&["latest_rtt", "smoothed_rtt"]).map(|rtt| Sample::Rtt(rtt * self.unit)),
                field(&["min_rtt"]).map(|rtt| Sample::MinRtt(rtt * self.unit)),
            ],
            _ => return Ok(()),
        };
        let flow = &mut self.flows[flow].1;
        samples.into_iter().flatten().try_for_each(|sample| flow.add(self.now, sample))
    }

    fn finish(self, number: usize) -> Vec<RecordedFlow> {
        let title = self.title.filter(|title| !title.trim().is_empty());
        let title = title.unwrap_or_else(|| format!("trace {number}"));
        let are_several = self.flows.len() > 1;
        let named = |(group, mut flow): (Option<String>, RecordedFlow)| {
            let group = group.filter(|_| are_several);
            let name = group.map_or(title.clone(), |group| format!("{title} {group}"));
            flow.name = name.chars().take(80).collect();
            flow
        };
        self.flows.into_iter().map(named).collect()
    }
}

/// A number from 0, which some write as a text.
fn number(value: &Value) -> Option<f64> {
    let number = match value {
        Value::String(text) => text.parse().ok()?,
        value => value.as_f64()?,
    };
    Some(number).filter(|number: &f64| number.is_finite() && *number >= 0.0)
}

/// Bytes of a packet, where drafts and programs have them.
fn length(data: &Value) -> Option<f64> {
    let within = |parent: &str, names: &[&str]| {
        names.iter().find_map(|name| number(data.get(parent)?.get(*name)?))
    };
    within("raw", &["length", "payload_length"])
        .or_else(|| within("header", &["packet_size", "payload_length"]))
        .or_else(|| data.get("packet_size").and_then(number))
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINAL: &str = "\u{1e}{\"file_schema\":\"urn:ietf:params:qlog:file:sequential\",\"serialization_format\":\"application/qlog+json-seq\",\"title\":\"ours\",\"trace\":{\"vantage_point\":{\"type\":\"client\"}}}\n\
        \u{1e}{\"time\":100,\"name\":\"quic:packet_sent\",\"data\":{\"raw\":{\"length\":1200}}}\n\
        \u{1e}{\"time\":140,\"name\":\"quic:recovery_metrics_updated\",\"data\":{\"congestion_window\":12000,\"latest_rtt\":40}}\n\
        \u{1e}{\"time\":150,\"name\":\"quic:packet_lost\",\"data\":{}}\n";
    const DRAFT: &str = r#"{"qlog_version":"draft-02","traces":[{"vantage_point":{"name":"quic-go"},
        "common_fields":{"time_format":"relative"},"events":[
        {"time":100,"name":"transport:packet_sent","data":{"raw":{"length":1200}}},
        {"time":140,"name":"recovery:metrics_updated","data":{"congestion_window":12000,"latest_rtt":"40"}},
        {"time":150,"name":"recovery:packet_lost","data":{}}]}]}"#;
    const OLDEST: &str = r#"{"qlog_version":"draft-00","traces":[{"vantage_point":{"name":"picoquic"},
        "event_fields":["relative_time","category","event","data"],"configuration":{"time_units":"us"},"events":[
        [100000,"transport","packet_sent",{"header":{"packet_size":1200}}],
        [140000,"recovery","metrics_updated",{"cwnd":12000,"latest_rtt":40000}],
        [150000,"recovery","packet_lost",{}]]}]}"#;

    #[test]
    fn all_forms_of_a_recording_say_the_same() {
        let lines = FINAL.replace('\u{1e}', "");
        for (text, name) in
            [(FINAL, "ours"), (&lines, "ours"), (DRAFT, "quic-go"), (OLDEST, "picoquic")]
        {
            assert!(is_one(text), "{name}");
            let flow = read(text).unwrap().flows.remove(0);
            assert_eq!((flow.name.as_str(), flow.bytes()), (name, 1200.0));
            let json = serde_json::to_value(&flow).unwrap();
            assert_eq!(json["lost"], 1.0, "{name}");
            assert_eq!(
                (&json["window"][40], &json["rtt_ms"][40]),
                (&12_000.0.into(), &40.0.into()),
                "{name}"
            );
        }
    }

    #[test]
    fn each_group_is_a_flow_with_its_own_smallest_rtt() {
        let event = |time: u32, group: &str, least: f64| {
            format!(
                "{{\"time\":{time},\"name\":\"quic:recovery_metrics_updated\",\"group_id\":\"{group}\",\"data\":{{\"smoothed_rtt\":50,\"min_rtt\":{least}}}}}\n"
            )
        };
        let header = FINAL.lines().next().unwrap().trim_start_matches('\u{1e}');
        let text = format!("{header}\n{}{}", event(0, "0.0", 40.5), event(1, "1.0", 30.0));
        let flows = read(&text).unwrap();
        let seen = flows.flows.iter().map(|flow| {
            let json = serde_json::to_value(flow).unwrap();
            (flow.name.clone(), json["min_rtt_ms"].as_f64(), flow.lost)
        });
        let expected = [("ours 0.0", 40.5), ("ours 1.0", 30.0)]
            .map(|(name, least)| (name.to_owned(), Some(least), None));
        assert_eq!(seen.collect::<Vec<_>>(), expected);
    }

    #[test]
    fn wrong_events_are_named() {
        for (text, part) in [
            (FINAL.replace("140", "\"x\""), "record 3: time: there is none, or no number"),
            (FINAL.replace("quic:packet_lost\"", "quic:packet_lost"), "record 4: "),
            (DRAFT.replace("\"time\":140", "\"at\":140"), "event 2: time: there is none"),
            (
                DRAFT.replace("\"name\":\"transport", "\"n\":\"transport"),
                "event 1: name: there is none",
            ),
            (OLDEST.replace("[150000,", "[\"x\","), "event 3: time"),
            (
                DRAFT.replace("\"data\":{}", &format!("\"data\":[{}0]", "0,".repeat(MAX_VALUES))),
                "more than 20000 values",
            ),
        ] {
            let error = read(&text).unwrap_err();
            assert!(error.contains(part), "{error}");
        }
    }
}
