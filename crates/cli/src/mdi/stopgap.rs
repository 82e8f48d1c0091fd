//! TEMPORARY: stands in for `Model::to_bytes` and `Model::from_bytes` of `cellpace-mdi`. Methods of
//! a type go before those of a trait, so once they are there nothing uses this module any more:
//! delete it, its line in `mod.rs` and its `use` in `files.rs`.

use cellpace_mdi::{About, Absolute, Axis, Cell, Counts, Model, Part, Relative, States, TraceName};
use serde_json::{Value, json};

pub(super) trait Stopgap: Sized {
    fn to_bytes(&self) -> Vec<u8>;
    fn from_bytes(bytes: &[u8]) -> Result<Self, String>;
}

impl Stopgap for Model {
    fn to_bytes(&self) -> Vec<u8> {
        let axis = |a: &Axis| json!([a.min(), a.max(), a.step()]);
        let states = match &self.states {
            States::Relative(states) => json!({ "d": axis(&states.d), "w": axis(&states.w) }),
            States::Absolute(s) => json!([s.d_min, s.d_max, s.quantization, s.w_min, s.w_max]),
            _ => Value::Null,
        };
        let about = &self.about;
        let trace = |trace: &TraceName| json!([trace.name, trace.sha256]);
        let part = |part: &Part| {
            let cell = |cell: &Cell| json!([cell.from, cell.to, cell.count]);
            let cells: Vec<Value> = part.counts.cells().iter().map(cell).collect();
            json!([part.users, part.samples, cells])
        };
        let all = json!({
            "teacher": about.teacher,
            "traces": about.traces.iter().map(trace).collect::<Vec<_>>(),
            "scenario": about.scenario,
            "seed": about.seed,
            "epoch_us": about.epoch_us,
            "states": states,
            "parts": self.parts.iter().map(part).collect::<Vec<_>>(),
        });
        all.to_string().into_bytes()
    }

    fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        serde_json::from_slice::<Value>(bytes)
            .ok()
            .and_then(|all| model(&all))
            .ok_or_else(|| "is no model".to_owned())
    }
}

fn model(all: &Value) -> Option<Model> {
    let text = |key: &str| Some(all[key].as_str()?.to_owned());
    let trace = |value: &Value| {
        let sha256: [u8; 32] = serde_json::from_value(value[1].clone()).ok()?;
        Some(TraceName { name: value[0].as_str()?.to_owned(), sha256 })
    };
    let part = |value: &Value| {
        let cells: Vec<(u32, u32, u64)> = serde_json::from_value(value[2].clone()).ok()?;
        let cells = cells.into_iter().map(|(from, to, count)| Cell { from, to, count });
        let users = u32::try_from(value[0].as_u64()?).ok()?;
        let counts = Counts::from_cells(cells.collect());
        Some(Part { users, samples: value[1].as_u64()?, counts })
    };
    let about = About {
        teacher: text("teacher")?,
        traces: all["traces"].as_array()?.iter().map(trace).collect::<Option<_>>()?,
        scenario: text("scenario")?,
        seed: all["seed"].as_u64()?,
        epoch_us: u32::try_from(all["epoch_us"].as_u64()?).ok()?,
    };
    let parts = all["parts"].as_array()?.iter().map(part).collect::<Option<_>>()?;
    Some(Model { about, states: states(&all["states"])?, parts })
}

fn states(value: &Value) -> Option<States> {
    if let Ok([d_min, d_max, quantization, w_min, w_max]) = <[u32; 5]>::deserialize(value) {
        let states = Absolute { d_min, d_max, quantization, w_min, w_max };
        return States::Absolute(states).check().ok();
    }
    let axis = |name, value: &Value| {
        let [min, max, step] = <[i64; 3]>::deserialize(value).ok()?;
        Axis::new(name, min, max, step).ok()
    };
    let states = Relative { d: axis("delay", &value["d"])?, w: axis("window", &value["w"])? };
    States::Relative(states).check().ok()
}

use serde::Deserialize;
