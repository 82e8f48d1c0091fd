//! What a result says of each of its connections, to be compared with another result.

use crate::section::Chart;

/// The connections of a result.
pub(crate) struct ConnectionSamples {
    /// Their controllers, each once.
    pub(crate) ccs: Vec<String>,
    pub(crate) command: String,
    pub(crate) facts: Vec<(String, String)>,
    /// The same ones of every result of a kind.
    pub(crate) figures: Vec<SampledFigure>,
    /// Charts over time, the connection that delivered most first.
    pub(crate) charts: Vec<Chart>,
    /// What they are: `connections` or `flows`.
    pub(crate) of: &'static str,
}

/// A figure of each connection that has it.
pub(crate) struct SampledFigure {
    pub(crate) figure: &'static str,
    pub(crate) title: &'static str,
    pub(crate) unit: &'static str,
    pub(crate) is_better_high: bool,
    pub(crate) values: Vec<f64>,
}

impl SampledFigure {
    /// The values of which less is better, or more by `is_better_high`.
    pub(crate) fn new(
        (figure, title, unit): (&'static str, &'static str, &'static str),
        is_better_high: bool,
        values: impl Iterator<Item = Option<f64>>,
    ) -> Self {
        let values = values.flatten().filter(|value| value.is_finite()).collect();
        Self { figure, title, unit, is_better_high, values }
    }
}
