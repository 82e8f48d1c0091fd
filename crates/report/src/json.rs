//! The result document as text: indented for people and diffs, yet a list of numbers on one
//! line, since a series of 3000 values on 3000 lines serves nobody.

use std::io::{self, Write};

use serde::Serialize;
use serde_json::ser::{CharEscape, Formatter, Serializer};

use crate::{Comparison, Run};

/// The document as JSON with a final line feed. The same comparison gives the same bytes; what
/// is not a number (NaN, infinite) becomes `null`. Series over time only `with_series`.
pub fn to_json(comparison: &Comparison, with_series: bool) -> String {
    if with_series {
        return render(comparison);
    }
    render(&Comparison {
        schema: comparison.schema.clone(),
        version: comparison.version.clone(),
        runs: comparison.runs.iter().map(without_series).collect(),
        repeated: comparison.repeated.clone(),
    })
}

/// A copy that leaves the series out before copying, not after.
fn without_series(run: &Run) -> Run {
    Run {
        cc: run.cc.clone(),
        trace: run.trace.clone(),
        queue: run.queue.clone(),
        figures: run.figures.clone(),
        series: None,
        ..*run
    }
}

fn render(document: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Layout::default());
    document.serialize(&mut serializer).expect("names are texts and a vector takes every write");
    bytes.push(b'\n');
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

/// Indents objects, and lists only where they hold objects.
#[derive(Default)]
struct Layout {
    /// For each open bracket: whether it has a line of its own to close on.
    open: Vec<Open>,
}

struct Open {
    is_list: bool,
    is_broken: bool,
}

impl Layout {
    fn line<W: ?Sized + Write>(&self, out: &mut W, depth: usize) -> io::Result<()> {
        out.write_all(b"\n")?;
        (0..depth).try_for_each(|_| out.write_all(b"  "))
    }

    fn close<W: ?Sized + Write>(&mut self, out: &mut W, bracket: &[u8]) -> io::Result<()> {
        let broken = self.open.pop().is_some_and(|open| open.is_broken);
        if broken {
            self.line(out, self.open.len())?;
        }
        out.write_all(bracket)
    }
}

impl Formatter for Layout {
    fn begin_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.open.push(Open { is_list: true, is_broken: false });
        out.write_all(b"[")
    }

    fn end_array<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"]")
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if first { Ok(()) } else { out.write_all(b",") }
    }

    fn begin_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        let depth = self.open.len();
        if let Some(list) = self.open.last_mut().filter(|open| open.is_list) {
            list.is_broken = true;
            self.line(out, depth)?;
        }
        self.open.push(Open { is_list: false, is_broken: false });
        out.write_all(b"{")
    }

    fn end_object<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        self.close(out, b"}")
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, out: &mut W, first: bool) -> io::Result<()> {
        if !first {
            out.write_all(b",")?;
        }
        if let Some(object) = self.open.last_mut() {
            object.is_broken = true;
        }
        self.line(out, self.open.len())
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, out: &mut W) -> io::Result<()> {
        out.write_all(b": ")
    }
}

/// JSON for a `<script>` element: compact, and free of every `<`, so that no name can end it.
pub(crate) fn embeddable(document: &impl Serialize) -> String {
    let mut bytes = Vec::new();
    let mut serializer = Serializer::with_formatter(&mut bytes, Embedded);
    document.serialize(&mut serializer).expect("names are texts and a vector takes every write");
    String::from_utf8(bytes).expect("JSON is UTF-8")
}

struct Embedded;

impl Formatter for Embedded {
    fn write_string_fragment<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        text: &str,
    ) -> io::Result<()> {
        let mut parts = text.split('<');
        out.write_all(parts.next().unwrap_or_default().as_bytes())?;
        parts.try_for_each(|part| {
            out.write_all(b"\\u003c")?;
            out.write_all(part.as_bytes())
        })
    }

    fn write_char_escape<W: ?Sized + Write>(
        &mut self,
        out: &mut W,
        escape: CharEscape,
    ) -> io::Result<()> {
        serde_json::ser::CompactFormatter.write_char_escape(out, escape)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use serde_json::Value;

    fn keys(value: &Value) -> Vec<&str> {
        value.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_document_has_exactly_the_fields_of_schema_1() {
        let mut comparison = example::comparison();
        comparison.repeated.clear();
        let document: Value = serde_json::from_str(&to_json(&comparison, false)).unwrap();
        assert_eq!(keys(&document), ["runs", "schema", "version"]);
        assert_eq!(document["schema"], "cellpace.compare/1");
        let mut expected = [
            "cc",
            "trace",
            "seed",
            "rtt_ms",
            "queue",
            "loss",
            "flows",
            "duration_s",
            "skip_s",
            "capacity_mbps",
            "throughput_mbps",
            "utilization",
            "queue_delay_ms",
            "one_way_delay_ms",
            "rtt_ms_seen",
            "packets",
            "lost",
            "jain",
            "per_flow",
            "wall_s",
        ];
        expected.sort_unstable();
        let run = &document["runs"][0];
        assert_eq!(keys(run), expected);
        let summary = ["max", "mean", "p50", "p95", "p99"];
        for delay in ["queue_delay_ms", "one_way_delay_ms", "rtt_ms_seen"] {
            assert_eq!(keys(&run[delay]), summary);
        }
        for key in ["throughput_mbps", "queue_delay_ms", "start_s", "stop_s"] {
            assert!(!run["per_flow"][0][key].is_null(), "{key}");
        }
    }

    #[test]
    fn wall_time_is_null_unless_it_was_taken() {
        let mut comparison = example::comparison();
        assert!(to_json(&comparison, false).contains("\"wall_s\": null"));
        comparison.runs.iter_mut().for_each(|run| run.wall_s = Some(0.25));
        let text = to_json(&comparison, false);
        assert!(text.contains("\"wall_s\": 0.25") && !text.contains("\"wall_s\": null"));
    }

    #[test]
    fn what_is_not_a_number_is_null_and_series_come_only_when_asked_for() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.utilization = f64::NAN;
        comparison.runs[0].figures.jain = f64::INFINITY;
        assert!(comparison.runs[0].series.as_ref().unwrap().queue_delay_p50_ms[3].is_nan());
        let with: Value = serde_json::from_str(&to_json(&comparison, true)).unwrap();
        assert!(with["runs"][0]["utilization"].is_null());
        assert!(with["runs"][0]["jain"].is_null());
        assert!(with["runs"][0]["series"]["queue_delay_p50_ms"][3].is_null());
        let without: Value = serde_json::from_str(&to_json(&comparison, false)).unwrap();
        assert!(without["runs"][0].get("series").is_none());
    }

    #[test]
    fn layout_breaks_objects_and_keeps_numbers_on_one_line() {
        let document = serde_json::json!({"a": [1, 2.5, null], "b": [{"c": []}, {}], "d": {}});
        let expected = "{\n  \"a\": [1,2.5,null],\n  \"b\": [\n    {\n      \"c\": []\n    },\n    {}\n  ],\n  \"d\": {}\n}\n";
        assert_eq!(render(&document), expected);
    }

    #[test]
    fn the_order_of_fields_is_that_of_the_schema_and_stable() {
        let text = to_json(&example::comparison(), true);
        assert_eq!(text, to_json(&example::comparison(), true));
        let place = |key: &str| text.find(&format!("\"{key}\"")).unwrap();
        assert!(place("schema") < place("runs") && place("cc") < place("trace"));
        assert!(place("lost") < place("wall_s"));
    }

    #[test]
    fn embedded_text_cannot_end_a_script_and_reads_back_the_same() {
        let nasty = "</script><!-- \"\\\n\u{1} é \u{2028}";
        let text = embeddable(&nasty);
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), nasty);
    }
}
