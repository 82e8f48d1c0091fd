//! Can the next window's throughput be predicted from the last ones? The Verus paper (section 3,
//! figure 4) tried linear and k-step-ahead predictors and found that neither follows the channel;
//! it does not define them. Here:
//!
//! - *last*: the next window is like the last one, as a yardstick;
//! - *linear*: the least-squares line through the last ten windows, one window further;
//! - *k-step ahead*: a model of the last five windows (autoregression, Yule-Walker), learnt from
//!   the first half of the series, and run k windows ahead through the second half.
//!
//! All are judged on the second half, in which none of them has learnt.

use serde::Serialize;

/// Windows that the line goes through.
const LINE: usize = 10;

/// Order of the autoregression.
const ORDER: usize = 5;

/// Steps ahead.
const STEPS: [usize; 4] = [1, 2, 5, 10];

/// How a predictor did.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Prediction {
    /// `last`, `linear` or `k-step`.
    pub predictor: &'static str,
    /// How many windows ahead.
    pub steps: usize,
    /// Root of the mean squared error over the mean throughput.
    pub nrmse: f64,
    /// Mean absolute error over the mean throughput.
    pub nmae: f64,
    /// Share of the variance that it explains: 1 is perfect, 0 is no better than the mean.
    pub r2: f64,
}

/// How each predictor does on `series`. Empty where there are less than 60 windows: half of them
/// is to learn from.
pub fn predictions(series: &[f32]) -> Vec<Prediction> {
    if series.len() < 60 {
        return Vec::new();
    }
    let values: Vec<f64> = series.iter().map(|value| f64::from(*value)).collect();
    let half = values.len() / 2;
    let (learnt, mean) = autoregression(&values[..half], ORDER);
    let judge = |predictor, steps, predict: &dyn Fn(&[f64]) -> f64| {
        judge(&values, half, predictor, steps, predict)
    };
    let mut all = vec![
        judge("last", 1, &|past| past[past.len() - 1]),
        judge("linear", 1, &|past| line_ahead(&past[past.len() - LINE..])),
    ];
    for steps in STEPS {
        all.push(judge("k-step", steps, &|past| ahead(past, &learnt, mean, steps)));
    }
    all
}

fn judge(
    values: &[f64],
    from: usize,
    predictor: &'static str,
    steps: usize,
    predict: &dyn Fn(&[f64]) -> f64,
) -> Prediction {
    let judged = &values[from..];
    let count = judged.len() as f64;
    let mean = judged.iter().sum::<f64>() / count;
    let variance = judged.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    let (mut square, mut absolute) = (0.0, 0.0);
    for (index, value) in judged.iter().enumerate() {
        // Nothing is sent at a negative rate.
        let error = predict(&values[..from + index + 1 - steps]).max(0.0) - value;
        square += error * error / count;
        absolute += error.abs() / count;
    }
    let over = |a: f64, b: f64| if b > 0.0 { a / b } else { 0.0 };
    Prediction {
        predictor,
        steps,
        nrmse: over(square.sqrt(), mean),
        nmae: over(absolute, mean),
        // A constant series has no variance to explain, and is explained if there is no error.
        r2: if variance > 0.0 { 1.0 - square / variance } else { f64::from(square == 0.0) },
    }
}

/// The least-squares line through `past`, at the next place.
fn line_ahead(past: &[f64]) -> f64 {
    let count = past.len() as f64;
    let (middle, mean) = ((count - 1.0) / 2.0, past.iter().sum::<f64>() / count);
    let (mut above, mut below) = (0.0, 0.0);
    for (index, value) in past.iter().enumerate() {
        let x = index as f64 - middle;
        above += x * (value - mean);
        below += x * x;
    }
    mean + above / below * (count - middle)
}

/// Runs the model `steps` ahead; each step uses the predictions of the steps before it.
fn ahead(past: &[f64], coefficients: &[f64], mean: f64, steps: usize) -> f64 {
    let order = coefficients.len();
    let mut recent = [0.0; ORDER];
    for (place, value) in recent.iter_mut().zip(past.iter().rev().take(order)) {
        *place = value - mean;
    }
    for _ in 0..steps {
        let next = coefficients.iter().zip(&recent).map(|(a, x)| a * x).sum();
        recent.copy_within(..ORDER - 1, 1);
        recent[0] = next;
    }
    mean + recent[0]
}

/// Coefficients of the autoregression of `order` (the newest value's first) and the mean, from the
/// Yule-Walker equations, solved by the Levinson-Durbin recursion.
pub fn autoregression(values: &[f64], order: usize) -> (Vec<f64>, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().sum::<f64>() / count;
    // Dividing by the whole count keeps the model stable.
    let covariance = |lag: usize| -> f64 {
        let pairs = values.iter().zip(values.iter().skip(lag));
        pairs.map(|(a, b)| (a - mean) * (b - mean)).sum::<f64>() / count
    };
    let covariances: Vec<f64> = (0..=order).map(covariance).collect();
    let mut coefficients = vec![0.0; order];
    let mut error = covariances[0];
    for step in 0..order {
        // A constant, or a model that has no error already.
        if error <= covariances[0] * 1e-12 {
            break;
        }
        let explained: f64 = (0..step).map(|i| coefficients[i] * covariances[step - i]).sum();
        let reflection = (covariances[step + 1] - explained) / error;
        let before = coefficients.clone();
        for i in 0..step {
            coefficients[i] = before[i] - reflection * before[step - 1 - i];
        }
        coefficients[step] = reflection;
        error *= 1.0 - reflection * reflection;
    }
    (coefficients, mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Random;

    fn of<'a>(all: &'a [Prediction], predictor: &str, steps: usize) -> &'a Prediction {
        all.iter().find(|one| one.predictor == predictor && one.steps == steps).unwrap()
    }

    #[test]
    fn a_constant_is_predicted_without_error() {
        for one in predictions(&[7.5; 100]) {
            assert!(one.nrmse < 1e-12 && one.nmae < 1e-12, "{one:?}");
        }
    }

    #[test]
    fn a_ramp_is_predicted_by_a_line_and_missed_by_one_step_by_the_last_value() {
        let ramp: Vec<f32> = (0..200).map(|n| n as f32).collect();
        let all = predictions(&ramp);
        assert!(of(&all, "linear", 1).nrmse < 1e-9);
        // The second half runs from 100 to 199, on average 149.5.
        assert!((of(&all, "last", 1).nmae - 1.0 / 149.5).abs() < 1e-9);
    }

    #[test]
    fn a_line_through_known_values() {
        assert!((line_ahead(&[1.0, 3.0, 2.0]) - 3.0).abs() < 1e-12);
        assert!((line_ahead(&[0.0, 2.0, 4.0, 6.0]) - 8.0).abs() < 1e-12);
    }

    #[test]
    fn white_noise_cannot_be_predicted() {
        let mut random = Random::seeded(1, 1);
        let noise: Vec<f32> = (0..20_000).map(|_| random.unit() as f32).collect();
        let all = predictions(&noise);
        for steps in STEPS {
            assert!(of(&all, "k-step", steps).r2.abs() < 0.01);
        }
        assert!(all.iter().all(|one| one.r2 <= 0.05), "{all:?}");
        // The difference of two independent values has twice the variance.
        assert!((of(&all, "last", 1).r2 + 1.0).abs() < 0.05);
    }

    #[test]
    fn an_autoregression_is_learnt_and_fades_with_its_steps() {
        // x' = 0.8 x + e: k steps ahead, 0.8^2k of the variance can be explained.
        let mut random = Random::seeded(2, 1);
        let mut x = 0.0;
        let series: Vec<f32> = (0..100_000)
            .map(|_| {
                x = 0.8 * x + (random.unit() - 0.5);
                (10.0 + x) as f32
            })
            .collect();
        let values: Vec<f64> = series.iter().map(|value| f64::from(*value)).collect();
        let (learnt, mean) = autoregression(&values, ORDER);
        assert!((learnt[0] - 0.8).abs() < 0.02 && (mean - 10.0).abs() < 0.05, "{learnt:?}");
        assert!(learnt[1..].iter().all(|a| a.abs() < 0.03), "{learnt:?}");
        let all = predictions(&series);
        for steps in STEPS {
            let expected = 0.8_f64.powi(2 * steps as i32);
            let r2 = of(&all, "k-step", steps).r2;
            assert!((r2 - expected).abs() < 0.03, "{steps}: {r2} {expected}");
        }
    }

    #[test]
    fn g13_one_step_of_an_autoregression_of_0_9_explains_0_81() {
        let mut random = Random::seeded(3, 1);
        let mut x = 0.0;
        let series: Vec<f32> = (0..50_000)
            .map(|_| {
                x = 0.9 * x + (random.unit() - 0.5);
                (20.0 + x) as f32
            })
            .collect();
        let r2 = of(&predictions(&series), "k-step", 1).r2;
        assert!((r2 - 0.81).abs() <= 0.03, "{r2}");
    }

    #[test]
    fn the_model_of_known_covariances() {
        // Alternating values: each is the negative of the last.
        let values: Vec<f64> = (0..1000).map(|n| if n % 2 == 0 { 1.0 } else { -1.0 }).collect();
        let (learnt, mean) = autoregression(&values, 1);
        assert!((learnt[0] + 0.999).abs() < 1e-9 && mean == 0.0, "{learnt:?}");
        assert!((ahead(&[3.0, 5.0], &[0.5], 1.0, 2) - 2.0).abs() < 1e-12);
    }

    #[test]
    fn short_series_are_not_judged() {
        assert!(predictions(&[1.0; 59]).is_empty());
        assert!(!predictions(&[1.0; 60]).is_empty());
    }
}
