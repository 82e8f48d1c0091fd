//! The result document as text, and data for pages.

use serde::Serialize;

use crate::Comparison;
use crate::thin::thinned;

/// The document as JSON, indented, with a final line feed. The same comparison gives the same
/// bytes; what is not a number (NaN, infinite) becomes `null`. Series over time are merged and
/// rounded to what a page shows of them.
pub fn to_json(comparison: &Comparison) -> String {
    indented(&thinned(comparison))
}

/// A document for people and scripts: indented, arrays of numbers in one line, with a line feed at
/// the end.
pub fn indented(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document);
    let text = text.expect("keys are texts, so every document has a written form");
    let mut layout = Layout { text: String::with_capacity(2 * text.len()), depth: 0 };
    layout.add(&text);
    layout.text + "\n"
}

/// Lays out compact JSON.
struct Layout {
    text: String,
    depth: usize,
}

impl Layout {
    fn add(&mut self, compact: &str) {
        let bytes = compact.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            let end = match bytes[at] {
                b'"' => string_end(bytes, at),
                b'[' | b'{' => match flat_end(bytes, at) {
                    Some(end) => end,
                    None => {
                        self.text.push(char::from(bytes[at]));
                        self.depth += 1;
                        self.line();
                        at += 1;
                        continue;
                    }
                },
                _ => at + 1,
            };
            match bytes[at] {
                b']' | b'}' => {
                    self.depth -= 1;
                    self.line();
                    self.text.push(char::from(bytes[at]));
                }
                b',' => {
                    self.text.push(',');
                    self.line();
                }
                b':' => self.text.push_str(": "),
                _ => self.text.push_str(&compact[at..end]),
            }
            at = end;
        }
    }

    fn line(&mut self) {
        self.text.push('\n');
        self.text.extend(std::iter::repeat_n("  ", self.depth));
    }
}

/// The byte after the string that begins at `start`.
fn string_end(bytes: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while bytes[at] != b'"' {
        at += if bytes[at] == b'\\' { 2 } else { 1 };
    }
    at + 1
}

/// The byte after an array of numbers, or an array or object of nothing, that begins at `start`.
fn flat_end(bytes: &[u8], start: usize) -> Option<usize> {
    let length = bytes[start + 1..].iter().position(|byte| b"[]{}\"".contains(byte))?;
    let end = start + 1 + length;
    let is_flat = bytes[end] == b']' || (bytes[end] == b'}' && length == 0);
    is_flat.then_some(end + 1)
}

/// JSON for a `<script>` element: compact, and free of every `<`, so that no name can end it.
pub(crate) fn embeddable(document: &impl Serialize) -> String {
    let text = serde_json::to_string(document);
    // Outside of texts, JSON has no such sign.
    text.expect("keys are texts, so every document has a written form").replace('<', "\\u003c")
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
        let document: Value = serde_json::from_str(&to_json(&comparison)).unwrap();
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
            "series",
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
        assert!(to_json(&comparison).contains("\"wall_s\": null"));
        comparison.runs.iter_mut().for_each(|run| run.wall_s = Some(0.25));
        let text = to_json(&comparison);
        assert!(text.contains("\"wall_s\": 0.25") && !text.contains("\"wall_s\": null"));
    }

    #[test]
    fn what_is_not_a_number_is_null_in_series_too() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.utilization = f64::NAN;
        comparison.runs[0].figures.jain = f64::INFINITY;
        assert!(comparison.runs[0].series.as_ref().unwrap().queue_delay_p50_ms[3].is_nan());
        let without: Value = serde_json::from_str(&to_json(&comparison)).unwrap();
        assert!(without["runs"][0]["utilization"].is_null());
        assert!(without["runs"][0]["jain"].is_null());
        let series = &without["runs"][0]["series"];
        assert_eq!(series["queue_delay_p50_ms"].to_string(), "[0.0,21.5,21.5,null,21.5]");
        comparison.runs[0].series = None;
        let document: Value = serde_json::from_str(&to_json(&comparison)).unwrap();
        assert!(document["runs"][0].get("series").is_none());
    }

    #[test]
    fn the_order_of_fields_is_that_of_the_schema_and_stable() {
        let text = to_json(&example::comparison());
        assert_eq!(text, to_json(&example::comparison()));
        let place = |key: &str| text.find(&format!("\"{key}\"")).unwrap();
        assert!(place("schema") < place("runs") && place("cc") < place("trace"));
        assert!(place("lost") < place("wall_s"));
    }

    #[test]
    fn documents_are_indented_with_numbers_in_one_line() {
        let document = serde_json::json!({
            "a": [1, 2.5, null], "b": [], "c": {}, "d": [[1, "x, [1]"], [2]], "e": "\"[,\\"
        });
        let expected = "{\n  \"a\": [1,2.5,null],\n  \"b\": [],\n  \"c\": {},\n  \"d\": [\n    \
                        [\n      1,\n      \"x, [1]\"\n    ],\n    [2]\n  ],\n  \"e\": \"\\\"[,\\\\\"\n}\n";
        assert_eq!(indented(&document), expected);
        assert_eq!(serde_json::from_str::<Value>(expected).unwrap(), document);
    }

    #[test]
    fn embedded_text_cannot_end_a_script_and_reads_back_the_same() {
        let nasty = "</script><!-- \"\\\n\u{1} é \u{2028}";
        let text = embeddable(&nasty);
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), nasty);
    }
}
