//! A row of a sweep.

use cellpace_path::PATH_FIELDS;
use serde::Deserialize;
use serde_json::{Map, Value};

/// One run; its figures are missing where it failed.
#[derive(Deserialize)]
pub(crate) struct SweptRun {
    pub(super) cc: String,
    pub(super) trace: String,
    #[serde(default)]
    pub(super) seed: Option<u64>,
    pub(super) throughput_mbps: Option<f64>,
    pub(super) utilization: Option<f64>,
    pub(super) queue_delay_ms_p50: Option<f64>,
    pub(super) queue_delay_ms_p95: Option<f64>,
    pub(super) packets: Option<u64>,
    pub(super) lost: Option<u64>,
    #[serde(flatten)]
    pub(super) others: Map<String, Value>,
}

/// Fields whose columns have the default where the plan has nothing.
const HAVE_DEFAULTS: [&str; 2] = ["queue", "flows"];

impl SweptRun {
    /// The fields of the plan that the run has, and what was written there.
    pub(super) fn plan(&self) -> impl Iterator<Item = (&str, &str)> {
        let fields = self.others.iter();
        fields.filter_map(|(name, value)| Some((name.strip_prefix("plan_")?, value.as_str()?)))
    }

    /// Where a field stands among others: those of a path first, in their order.
    pub(super) fn field_place(name: &str) -> usize {
        let place = PATH_FIELDS.iter().position(|field| field.name == name);
        place.unwrap_or(PATH_FIELDS.len())
    }

    /// What the plan has of a field; empty: nothing. Of runs without any plan it is what the column of the field has.
    pub(super) fn written(&self, field: &str) -> String {
        if field == "trace" {
            return self.trace.clone();
        }
        let plan = self.others.get(&format!("plan_{field}"));
        plan.or_else(|| self.others.get(field)).map_or(String::new(), text)
    }

    /// The same with the default of a field that the plan does not have.
    pub(super) fn value(&self, field: &str) -> String {
        let written = self.written(field);
        match self.others.get(field).filter(|_| HAVE_DEFAULTS.contains(&field)) {
            Some(own) if written.is_empty() => text(own),
            _ => written,
        }
    }

    /// A delay of the run; none where nothing was delivered: 0 would be the best.
    pub(super) fn delay(&self, ms: Option<f64>) -> Option<f64> {
        ms.filter(|_| self.packets != Some(0))
    }

    /// Share of the packets that were lost, in percent.
    pub(super) fn lost_percent(&self) -> Option<f64> {
        let (lost, packets) = (self.lost? as f64, self.packets? as f64);
        (lost + packets > 0.0).then(|| 100.0 * lost / (lost + packets))
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}
