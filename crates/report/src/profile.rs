//! Learnt delay profiles: all of a run over the same axes.

use cellpace_measure::ProfileSample;

use crate::number::short;
use crate::section::{Chart, Line};

/// A small chart of each profile; `look` is that of the controller.
pub(crate) fn profile_charts(
    profiles: &[&ProfileSample],
    look: usize,
    has_several_flows: bool,
) -> Vec<Chart> {
    let most = |of: fn(&(f64, f64)) -> f64| {
        let pairs = profiles.iter().flat_map(|one| one.points.iter().chain(&one.curve));
        pairs.map(of).filter(|value| value.is_finite()).fold(1e-3, f64::max)
    };
    let (window, delay) = (most(|pair| pair.0), most(|pair| pair.1));
    let line = |name: &str, pairs: &[(f64, f64)], are_dots: bool| Line {
        name: name.to_owned(),
        look: Some(look),
        x: pairs.iter().map(|pair| pair.0).collect(),
        y: pairs.iter().map(|pair| pair.1 as f32).collect(),
        are_dots,
        ..Line::default()
    };
    let chart = |profile: &&ProfileSample| Chart {
        title: match has_several_flows {
            true => format!("{} s, flow {}", short(profile.at_s), profile.flow + 1),
            false => format!("{} s", short(profile.at_s)),
        },
        unit: "ms".to_owned(),
        x_label: "window [packets]".to_owned(),
        lines: vec![line("measured", &profile.points, true), line("curve", &profile.curve, false)],
        x_range: Some([0.0, 1.03 * window]),
        y_range: Some([0.0, 1.05 * delay]),
        ..Chart::default()
    };
    profiles.iter().map(chart).collect()
}
