//! What predictors make of recorded traces: figure 4 of the Verus paper, in numbers that a second
//! program found.

use cellpace_base::Span;
use cellpace_lab::trace::{load_trace, predict_trace};

/// Error over the mean and explained share of the variance of last, linear, 1, 2, 5 and 10 steps.
type Known = [(f64, f64); 6];

const KNOWN: [(&str, u64, Known); 2] = [
    (
        "highway-3g",
        20,
        [(0.72, -0.43), (0.64, -0.11), (0.58, 0.07), (0.59, 0.04), (0.62, -0.07), (0.67, -0.25)],
    ),
    (
        "campus-walk",
        100,
        [(0.35, -0.11), (0.40, -0.48), (0.31, 0.14), (0.34, -0.05), (0.37, -0.22), (0.36, -0.16)],
    ),
];

#[test]
fn verus_fig4_known_answers() {
    let Ok(folder) = std::env::var("CELLPACE_TRACES") else {
        println!("left out: CELLPACE_TRACES does not name a folder of traces");
        return;
    };
    for (name, width, known) in KNOWN {
        let trace = load_trace(&format!("{folder}/{name}.down"), None, 1).unwrap();
        let predicted = predict_trace(name, &trace, &[Span::from_millis(width)]);
        let found = &predicted.windows[0].predictions;
        assert_eq!(found.len(), known.len());
        for (one, (nrmse, r2)) in found.iter().zip(known) {
            println!("{name}, {width} ms: {one:?}");
            assert!((one.nrmse - nrmse).abs() <= 0.01, "{name}: {one:?}, {nrmse}");
            assert!((one.r2 - r2).abs() <= 0.01, "{name}: {one:?}, {r2}");
        }
    }
}
