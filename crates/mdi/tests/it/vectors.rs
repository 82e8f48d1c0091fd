//! Writes and compares `vectors/mdi-*.json`: tables, and walks over them with what they release.

#[path = "../../../../vectors/compare.rs"]
mod compare;

use std::path::Path;
use std::process::Command;

use cellpace_mdi::{
    About, Absolute, Axis, Counts, Draws, Empty, Flat, Levels, Model, ModelPart, OutOfRange,
    Relative, States, Table, TableShape, TransitionCount, VectorEvent, VectorStep, WindowSampler,
    test_vector,
};
use compare::compare;
use data_encoding::BASE64;
use serde_json::json;

const STEPS: usize = 300;
const KINDS: [&str; 3] = ["absolute", "relative", "levels"];

fn states(kind: &str) -> States {
    let axis = |name, min, max, step| Axis::new(name, min, max, step).unwrap();
    match kind {
        "absolute" => States::Absolute(Absolute {
            d_min: 20,
            d_max: 220,
            quantization: 20,
            w_min: 0,
            w_max: 12,
        }),
        "relative" => States::Relative(Relative {
            d: axis("delay", -10_000, 10_000, 2_000),
            w: axis("window", -20_000, 20_000, 4_000),
        }),
        _ => States::Levels(Levels {
            d: axis("delay", 0, 1_000, 100),
            w: axis("window", -20_000, 20_000, 4_000),
        }),
    }
}

/// Transitions from somewhere to somewhere, so that there are subsets that were never seen.
fn model(kind: &str) -> Model {
    let states = states(kind);
    let (len, mut draws) = (states.len(), Draws::seeded(3));
    let mut below = |end: u32| draws.bits() % end;
    let cells = (0..400).map(|_| TransitionCount {
        from: below(len),
        to: below(len),
        count: below(20).into(),
    });
    let part = ModelPart { users: 1, samples: 401, counts: Counts::from_cells(cells.collect()) };
    let about = About { teacher: "made up".into(), epoch_us: 5000, ..About::default() };
    Model { about, states, parts: vec![part] }
}

/// Rules as in a controller string, and what they mean.
fn rules() -> [(&'static str, TableShape, Empty); 3] {
    let shape = |sampler, prune| TableShape { sampler, prune };
    [
        ("prune=0", shape(WindowSampler::Cumulative, 0.0), Empty::Near),
        (
            "sampler=closest,empty=paper,prune=0",
            shape(WindowSampler::ClosestMatch, 0.0),
            Empty::Paper,
        ),
        ("empty=code,prune=0.05", shape(WindowSampler::Cumulative, 0.05), Empty::Code),
    ]
}

fn step_text(step: &VectorStep) -> String {
    let VectorStep { window, credit, .. } = step;
    let step = match step.event {
        VectorEvent::Epoch { delay_us, acked, sent, in_flight, epochs } => json!({
            "delay_us": delay_us, "acked": acked, "sent": sent, "in_flight": in_flight,
            "epochs": epochs, "window": window, "credit": credit,
        }),
        VectorEvent::Set { window: set, forget } => {
            json!({ "set": set, "forget": forget, "window": window, "credit": credit })
        }
    };
    step.to_string()
}

/// One step a line, so that a difference is found by eye.
fn walk_text(rules: &str, flat: &Flat, seed: u64) -> String {
    let steps = test_vector(flat, seed, STEPS);
    let lines: Vec<String> = steps.iter().map(step_text).collect();
    // The seed is a text because not every reader of JSON has whole numbers of 64 bits.
    format!(
        "{{\"rules\": \"{rules}\", \"seed\": \"{seed}\", \"flat\": \"{}\", \"steps\": [\n{}\n]}}",
        BASE64.encode(&flat.to_bytes()),
        lines.join(",\n")
    )
}

#[test]
fn the_files_hold_what_the_library_gives() {
    for kind in KINDS {
        let model = model(kind);
        let walks = (77..).zip(rules()).map(|(seed, (rules, shape, empty))| {
            let flat = Flat {
                table: Table::new(model.states, &model.combined(), shape),
                epoch_us: model.about.epoch_us,
                empty,
                out_of_range: OutOfRange::default(),
                loss_factor: 45_875,
            };
            walk_text(rules, &flat, seed)
        });
        let walks: Vec<String> = walks.collect();
        let text = format!(
            "{{\"schema\": \"cellpace.vectors.mdi/1\", \"model\": \"{}\", \"walks\": [\n{}\n]}}\n",
            BASE64.encode(&model.to_bytes()),
            walks.join(",\n")
        );
        compare(&format!("mdi-{kind}.json"), &text);
    }
}

/// A second implementation, in another language and from the description alone.
#[test]
fn the_reference_in_python_takes_the_same_steps() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let files = KINDS.map(|kind| format!("vectors/mdi-{kind}.json"));
    let python = Command::new("python3")
        .current_dir(root)
        .arg("evaluation/mdi_walk.py")
        .args(files)
        .output();
    let output = match python {
        Ok(output) => output,
        Err(error) => return eprintln!("skipped, there is no python3: {error}"),
    };
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let expected = format!("{} steps agree\n", KINDS.len() * rules().len() * STEPS);
    assert_eq!(String::from_utf8_lossy(&output.stdout), expected);
}
