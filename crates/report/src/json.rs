//! The result document as text, and data for pages.

use serde::Serialize;

use crate::{Comparison, Run};

/// The document as JSON, indented, with a final line feed. The same comparison gives the same
/// bytes; what is not a number (NaN, infinite) becomes `null`. Series over time are left out.
pub fn to_json(comparison: &Comparison) -> String {
    let document = Comparison {
        schema: comparison.schema.clone(),
        version: comparison.version.clone(),
        runs: comparison.runs.iter().map(without_series).collect(),
        repeated: comparison.repeated.clone(),
    };
    let text = serde_json::to_string_pretty(&document);
    text.expect("keys are texts, so every document has a written form") + "\n"
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
    fn what_is_not_a_number_is_null_and_series_are_left_out() {
        let mut comparison = example::comparison();
        comparison.runs[0].figures.utilization = f64::NAN;
        comparison.runs[0].figures.jain = f64::INFINITY;
        assert!(comparison.runs[0].series.as_ref().unwrap().queue_delay_p50_ms[3].is_nan());
        let without: Value = serde_json::from_str(&to_json(&comparison)).unwrap();
        assert!(without["runs"][0]["utilization"].is_null());
        assert!(without["runs"][0]["jain"].is_null());
        assert!(without["runs"][0].get("series").is_none());
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
    fn embedded_text_cannot_end_a_script_and_reads_back_the_same() {
        let nasty = "</script><!-- \"\\\n\u{1} é \u{2028}";
        let text = embeddable(&nasty);
        assert!(!text.contains('<'));
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), nasty);
    }
}
