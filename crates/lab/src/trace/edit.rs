//! Parts of traces, and other rates.

use cellpace_base::Span;
use cellpace_path::schedule::{MAX_OPPORTUNITIES, Trace};

use super::period::{ending_at, whole_millis};
use crate::LabError;

/// Returns the part of a trace from `start` on, at most `duration` long (`None`: to the end).
///
/// # Errors
/// When `start` is not within the trace ([`LabError::Invalid`]) or nothing is in the part.
pub fn cut_trace(trace: &Trace, start: Span, duration: Option<Span>) -> Result<Trace, LabError> {
    let period = trace.period();
    if start >= period {
        let problem = format!("--start {start} is not before the end of the trace, {period}");
        return Err(LabError::Invalid(problem));
    }
    let end = (start + duration.unwrap_or(Span::MAX)).min(period);
    let [from, to] = [start, end].map(|span| whole_millis(span).unwrap_or(u32::MAX));
    // What ends with the start belongs to what comes before it, except at the very beginning.
    let within = |at: &&u32| (**at > from || from == 0) && **at <= to;
    let millis: Vec<u32> = trace.millis().iter().filter(within).map(|at| at - from).collect();
    if millis.is_empty() {
        let problem = format!("there is no opportunity between {start} and {end}");
        return Err(LabError::Failed(problem));
    }
    ending_at(millis, to - from).map_err(LabError::Failed)
}

/// Returns a trace of `factor` times the rate: each opportunity becomes `factor` of them on
/// average, spread evenly.
///
/// # Errors
/// When that makes none or too many.
pub fn scale_trace(trace: &Trace, factor: f64) -> Result<Trace, LabError> {
    let wanted = factor * trace.millis().len() as f64;
    if wanted > MAX_OPPORTUNITIES as f64 {
        let problem = format!("--scale {factor} makes more than {MAX_OPPORTUNITIES} opportunities");
        return Err(LabError::Failed(problem));
    }
    let mut millis = Vec::with_capacity(wanted as usize + 1);
    for (index, at) in trace.millis().iter().enumerate() {
        // Products, not a sum, so that nothing drifts.
        let upto = |index: usize| (index as f64 * factor).floor() as usize;
        millis.extend(std::iter::repeat_n(*at, upto(index + 1) - upto(index)));
    }
    if millis.is_empty() {
        return Err(LabError::Failed(format!("--scale {factor} leaves no opportunity")));
    }
    ending_at(millis, trace.millis().last().copied().unwrap_or(0)).map_err(LabError::Failed)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn trace(millis: impl IntoIterator<Item = u32>) -> Trace {
        Trace::from_millis(millis.into_iter().collect()).unwrap()
    }

    #[test]
    fn scaling_spreads_evenly_and_keeps_the_period() {
        let scaled = |millis: &[u32], factor| {
            scale_trace(&trace(millis.to_vec()), factor).unwrap().millis().to_vec()
        };
        assert_eq!(scaled(&[1, 2, 3, 4], 2.0), [1, 1, 2, 2, 3, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 0.5), [2, 4]);
        assert_eq!(scaled(&[1, 2, 3, 4], 1.5), [1, 2, 2, 3, 4, 4]);
        assert_eq!(scaled(&[1, 2, 3], 0.5), [2, 3], "the end is kept");
        assert!(scale_trace(&trace([1, 2]), 0.001).is_err());
        // A factor without an exact binary form does not drift.
        assert_eq!(scaled(&(1..=100_000).collect::<Vec<_>>(), 1.1).len(), 110_000);
    }
}
