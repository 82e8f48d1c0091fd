//! Estimates how a base RTT and a share of loss change, from what was recorded.
//!
//! A recording is cut into seconds: of RTTs the least of each counts, which queues and retransmissions of the radio
//! raise least, of losses the mean. Their quantiles at equal distances are those of the draw. Draws that are renewed
//! every `T` have an autocorrelation of `1 - 1 s / T` at a second: so `T` is chosen.

use cellpace_base::Span;
use cellpace_base::statistics::quantile;

use crate::steps::{Level, Steps};

/// Between two samples of a recording.
const SAMPLE: Span = Span::from_millis(100);
const SAMPLES_PER_SECOND: usize = 10;
/// Fewer seconds say nothing of quantiles.
const MIN_SECONDS: usize = 20;
/// Between them lie a twentieth of the time each.
const QUANTILES: usize = 21;
/// A draw holds so long at least and at most.
const EVERY_S: (f64, f64) = (1.0, 60.0);

/// The least of each second of a recording of RTTs, in ms; empty: it has no end or is shorter than 20 s.
pub fn seconds_of_rtts(steps: &Steps<Span>) -> Vec<f64> {
    let least = |second: &[Span]| second.iter().min().map_or(0.0, |rtt| rtt.as_millis_f64());
    of_seconds(&steps.sampled(SAMPLE), least)
}

/// The mean of each second of a recording of shares of loss; empty: it has no end or is shorter than 20 s.
pub fn seconds_of_losses(steps: &Steps<f64>) -> Vec<f64> {
    of_seconds(&steps.sampled(SAMPLE), |second| second.iter().sum::<f64>() / second.len() as f64)
}

fn of_seconds<T>(samples: &[T], value: impl Fn(&[T]) -> f64) -> Vec<f64> {
    let seconds: Vec<f64> = samples.chunks_exact(SAMPLES_PER_SECOND).map(value).collect();
    if seconds.len() < MIN_SECONDS { Vec::new() } else { seconds }
}

/// The draw of a base RTT; what is no recording of 20 s stays as it is.
pub fn fit_rtt(steps: &Steps<Span>) -> Steps<Span> {
    let seconds = seconds_of_rtts(steps);
    drawn(&seconds, 1.0, |ms| Span::from_micros((ms * 1000.0).round() as u64))
        .unwrap_or_else(|| steps.clone())
}

/// The draw of a share of loss, whose mean is kept; what is no recording of 20 s stays as it is.
pub fn fit_loss(steps: &Steps<f64>) -> Steps<f64> {
    let seconds = seconds_of_losses(steps);
    let rounded = |share: f64| (share.min(1.0) * 1e6).round() / 1e6;
    let Some(first) = drawn(&seconds, 1.0, |share| share) else { return steps.clone() };
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let scale = if first.mean() > 0.0 { mean / first.mean() } else { 0.0 };
    match drawn(&seconds, scale, rounded).filter(|fitted| fitted.mean() > 0.0) {
        Some(fitted) => fitted,
        // Rarer than what quantiles show.
        None => Steps::constant(rounded(mean)),
    }
}

/// The draw with the quantiles of `seconds`, times `scale`; `None`: there are none.
fn drawn<T: Level>(seconds: &[f64], scale: f64, value: impl Fn(f64) -> T) -> Option<Steps<T>> {
    if seconds.is_empty() {
        return None;
    }
    let mut ranked = seconds.to_vec();
    ranked.sort_by(f64::total_cmp);
    // In the middle of each share, so that a single extreme is no part of it.
    let level = |index: usize| (index as f64 + 0.5) / QUANTILES as f64;
    let quantiles = (0..QUANTILES).map(|index| value(quantile(&ranked, level(index)) * scale));
    Steps::drawn(quantiles.collect(), every(seconds))
}

fn every(seconds: &[f64]) -> Span {
    let mean = seconds.iter().sum::<f64>() / seconds.len() as f64;
    let variance = seconds.iter().map(|value| (value - mean).powi(2)).sum::<f64>();
    let lagged = seconds.windows(2).map(|pair| (pair[0] - mean) * (pair[1] - mean)).sum::<f64>();
    let correlation = if variance > 0.0 { lagged / variance } else { 0.0 };
    let every = 1.0 / (1.0 - correlation.clamp(0.0, 0.999));
    let tenths = (every.clamp(EVERY_S.0, EVERY_S.1) * 10.0).round() as u64;
    Span::from_millis(tenths * 100)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::{Random, Time, parse_span};

    /// A value for each of these seconds.
    fn recorded<T: Level>(steps: &Steps<T>, seconds: u64) -> Steps<T> {
        let mut walk = steps.walk(&mut Random::seeded(1, 1));
        let value = |second| (walk.at(Time::from_secs(second)), Span::from_secs(1));
        Steps::cycle((0..seconds).map(value)).unwrap()
    }

    #[test]
    fn a_draw_is_found_again() {
        let rtt: Steps<Span> = Steps::parse("random:20ms..30ms..80ms/15s", "rtt").unwrap();
        let fitted = fit_rtt(&recorded(&rtt, 20_000));
        assert!((fitted.mean() / rtt.mean() - 1.0).abs() < 0.05, "{fitted}");
        let written = fitted.to_string();
        let every = parse_span(written.rsplit_once('/').unwrap().1).unwrap();
        assert!((Span::from_secs(12)..Span::from_secs(18)).contains(&every), "{fitted}");
    }

    #[test]
    fn a_mean_of_losses_is_kept() {
        let loss = Steps::cycle(
            (0..1000).map(|second| (if second % 20 == 0 { 0.2 } else { 0.0 }, Span::from_secs(1))),
        );
        let fitted = fit_loss(&loss.unwrap());
        assert!((fitted.mean() - 0.01).abs() < 1e-4, "{fitted}");
        let rare = Steps::cycle(
            (0..1000).map(|second| (if second == 7 { 0.5 } else { 0.0 }, Span::from_secs(1))),
        );
        assert_eq!(fit_loss(&rare.unwrap()), Steps::constant(0.0005));
    }

    #[test]
    fn what_is_no_recording_stays() {
        let rtt: Steps<Span> = Steps::constant(Span::from_millis(30));
        assert_eq!(fit_rtt(&rtt), rtt);
        let short = recorded(&Steps::parse("random:20ms..80ms/1s", "rtt").unwrap(), 5);
        assert_eq!(fit_rtt(&short), short);
    }
}
