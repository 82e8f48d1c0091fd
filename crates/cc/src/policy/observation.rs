//! What a policy sees of the last steps.

use cellpace_base::math::ln;

use super::record::ratio;
use super::signals::{FIELDS, NORM_BYTES, ROWS, SignalStatistics};
use super::{Convention, StepRecord};

/// Orca's `delay_margin_coef`: RTTs up to this multiple of the least one count as the least.
pub const ORCA_DELAY_MARGIN: f64 = 1.25;
/// Orca's zeta: the weight of lost bytes against delivered ones.
pub const ORCA_LOSS_WEIGHT: f64 = 5.0;
/// Steps that a policy can look back at most.
pub const MAX_HISTORY: usize = 100;
/// Choices of mvfst-rl's actions, one-hot in its observation.
const MVFST_CHOICES: usize = 5;

/// One number of an observation for each step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feature {
    /// What it is.
    pub name: &'static str,
    /// The smallest value; smaller ones are cut.
    pub low: f32,
    /// The largest value; larger ones are cut.
    pub high: f32,
}

const fn feature(name: &'static str, low: f32, high: f32) -> Feature {
    Feature { name, low, high }
}

const DEFAULT_FEATURES: [Feature; 6] = [
    feature("log_rtt_ratio", 0.0, 5.0),
    feature("gradient", -2.0, 2.0),
    feature("delivered_ratio", 0.0, 5.0),
    feature("loss_ratio", 0.0, 1.0),
    feature("log_window_bdp", -5.0, 5.0),
    feature("silence", 0.0, 5.0),
];

const AURORA_FEATURES: [Feature; 3] = [
    feature("latency_gradient", -1.0, 10.0),
    feature("latency_ratio", 0.0, 10_000.0),
    feature("send_ratio", 0.0, 1_000.0),
];

const ORCA_FEATURES: [Feature; 7] = [
    feature("throughput", 0.0, 1.0),
    feature("pacing", 0.0, 10.0),
    feature("loss", 0.0, 10.0),
    feature("acks", 0.0, 10.0),
    feature("interval", 0.0, 10.0),
    feature("rtt_ratio", 0.0, 1.0),
    feature("delay_metric", 0.0, 1.0),
];

/// The largest value of a field of mvfst-rl's observation.
const MVFST_HIGH: f32 = 1e6;

/// Makes observations of the records of steps, by one convention.
///
/// | convention | for each of the last `history` steps, oldest first | source |
/// |---|---|---|
/// | `default` | ln(RTT / least RTT), RTT gradient, acknowledged / sent, loss ratio, ln(window / (largest throughput x least RTT)), time since the last ack / smoothed RTT | |
/// | `aurora` | RTT gradient, mean RTT / least mean RTT of a step, sent / acknowledged | Aurora (2019), section 4.1; the gradient by regression, the published code compares halves of the step |
/// | `orca` | throughput, pacing rate, 5 x loss rate, each over the largest throughput; acks / window; length of the step in RTTs; least RTT / smoothed RTT; delay metric | Orca (2020), section 4; without its running normalisation |
/// | `mvfst` | of the last step: sum, mean, deviation, minimum, maximum of 20 fields; then of each of the last `history` actions five words one-hot and the window in 1000 B | mvfst-rl (2019), section 3, `stateSummary` |
///
/// Values are cut to the bounds of their [`Feature`].
#[derive(Debug, Clone)]
pub struct Observation {
    convention: Convention,
    history: usize,
    values: Vec<f32>,
}

impl Observation {
    /// Steps that a convention looks back at unless another number is asked for.
    pub fn default_history(convention: Convention) -> usize {
        match convention {
            Convention::Default => 4,
            Convention::Aurora | Convention::Orca => 10,
            Convention::Mvfst => 2,
        }
    }

    /// An observation of nothing yet, of `history` steps (1 to [`MAX_HISTORY`]).
    pub fn new(convention: Convention, history: usize) -> Self {
        let history = history.clamp(1, MAX_HISTORY);
        let mut new = Self { convention, history, values: Vec::new() };
        new.reset();
        new
    }

    /// Forgets all steps.
    pub fn reset(&mut self) {
        self.values.clear();
        self.values.resize(self.width(), 0.0);
        if self.convention == Convention::Aurora {
            // A monitor interval without packets: gradient 0, latency 0, ratio 1.
            self.values.iter_mut().skip(2).step_by(3).for_each(|value| *value = 1.0);
        }
    }

    /// Numbers of an observation.
    pub fn width(&self) -> usize {
        match self.convention {
            Convention::Mvfst => FIELDS * ROWS + self.history * (MVFST_CHOICES + 1),
            convention => features(convention).len() * self.history,
        }
    }

    /// The bounds of each number.
    pub fn bounds(&self) -> Vec<(f32, f32)> {
        match self.convention {
            Convention::Mvfst => vec![(0.0, MVFST_HIGH); self.width()],
            convention => {
                let all = features(convention).iter().cycle().take(self.width());
                all.map(|feature| (feature.low, feature.high)).collect()
            }
        }
    }

    /// The names of the features of one step; empty for mvfst-rl's summary.
    pub fn features(&self) -> &'static [Feature] {
        features(self.convention)
    }

    /// The numbers.
    pub fn values(&self) -> &[f32] {
        &self.values
    }

    /// Takes in a step that has ended. `choice` is the action that was last applied.
    pub(super) fn push(
        &mut self,
        step: &StepRecord,
        signals: Option<&SignalStatistics>,
        choice: f64,
    ) {
        match self.convention {
            Convention::Default => self.push_features(&default_values(step), &DEFAULT_FEATURES),
            Convention::Aurora => self.push_features(&aurora_values(step), &AURORA_FEATURES),
            Convention::Orca => self.push_features(&orca_values(step), &ORCA_FEATURES),
            Convention::Mvfst => self.push_mvfst(step, signals, choice),
        }
    }

    fn push_features(&mut self, values: &[f64], features: &[Feature]) {
        let width = values.len();
        self.values.copy_within(width.., 0);
        let newest = self.values.len() - width;
        for ((slot, value), feature) in self.values[newest..].iter_mut().zip(values).zip(features) {
            *slot = cut(*value, feature.low, feature.high);
        }
    }

    fn push_mvfst(&mut self, step: &StepRecord, signals: Option<&SignalStatistics>, choice: f64) {
        let summary = signals.map(SignalStatistics::summary).unwrap_or([[0.0; FIELDS]; ROWS]);
        let (states, actions) = self.values.split_at_mut(FIELDS * ROWS);
        for (slot, value) in states.iter_mut().zip(summary.iter().flatten()) {
            *slot = cut(*value, 0.0, MVFST_HIGH);
        }
        actions.copy_within(MVFST_CHOICES + 1.., 0);
        let newest = actions.len() - MVFST_CHOICES - 1;
        for (index, slot) in actions[newest..].iter_mut().take(MVFST_CHOICES).enumerate() {
            *slot = f32::from(u8::from(choice == index as f64));
        }
        actions[newest + MVFST_CHOICES] = cut(step.window as f64 / NORM_BYTES, 0.0, MVFST_HIGH);
    }
}

fn features(convention: Convention) -> &'static [Feature] {
    match convention {
        Convention::Default => &DEFAULT_FEATURES,
        Convention::Aurora => &AURORA_FEATURES,
        Convention::Orca => &ORCA_FEATURES,
        Convention::Mvfst => &[],
    }
}

fn cut(value: f64, low: f32, high: f32) -> f32 {
    if value.is_nan() { low.max(0.0) } else { (value as f32).clamp(low, high) }
}

fn default_values(step: &StepRecord) -> [f64; 6] {
    let bdp = step.max_throughput * step.min_rtt;
    [
        ln(ratio(step.expected_rtt(), step.min_rtt, 1.0).max(1.0)),
        step.gradient,
        ratio(step.acked_bytes as f64, step.sent_bytes as f64, 1.0),
        step.loss_ratio(),
        ln(ratio(step.window as f64, bdp, 1.0)),
        ratio(step.since_ack, step.srtt, 0.0),
    ]
}

fn aurora_values(step: &StepRecord) -> [f64; 3] {
    [
        step.gradient,
        ratio(step.mean_rtt(), step.min_mean_rtt, 0.0),
        // `send ratio` of the published code: 1 where nothing comes back.
        match (step.send_rate(), step.throughput()) {
            (send, receive) if receive > 0.0 && send < 1000.0 * receive => send / receive,
            _ => 1.0,
        },
    ]
}

fn orca_values(step: &StepRecord) -> [f64; 7] {
    let of_max = |rate: f64| ratio(rate, step.max_throughput, 0.0);
    // The kernel's pacing rate where nothing is paced: the window once per RTT.
    let pacing =
        if step.rate > 0.0 { step.rate } else { ratio(step.window as f64, step.srtt, 0.0) };
    [
        of_max(step.throughput()),
        of_max(pacing),
        ORCA_LOSS_WEIGHT * of_max(step.loss_rate()),
        ratio(step.acked_bytes as f64, step.window as f64, 0.0),
        ratio(step.duration(), step.srtt, 0.0),
        ratio(step.min_rtt, step.srtt, 0.0),
        orca_delay_metric(step),
    ]
}

/// Orca's delay metric, 0 to 1: 1 up to 1.25 times the least RTT, then that over the smoothed RTT
/// (Orca, equation 3). 1 before the first sample.
pub fn orca_delay_metric(step: &StepRecord) -> f64 {
    ratio(ORCA_DELAY_MARGIN * step.min_rtt, step.srtt, 1.0).min(1.0)
}

#[cfg(test)]
mod tests {
    use cellpace_base::Time;

    use super::*;

    /// 20 ms with 12 packets sent, 10 acknowledged at a mean RTT of 60 ms, 2 lost.
    fn step() -> StepRecord {
        StepRecord {
            start: Time::from_millis(100),
            end: Time::from_millis(120),
            sent_packets: 12,
            sent_bytes: 18_000,
            acked_packets: 10,
            acked_bytes: 15_000,
            lost_packets: 2,
            lost_bytes: 3_000,
            rtt_sum: 0.6,
            rtt_min: 0.05,
            rtt_max: 0.07,
            gradient: 0.5,
            srtt: 0.0625,
            min_rtt: 0.04,
            min_mean_rtt: 0.048,
            max_throughput: 1_500_000.0,
            in_flight: 45_000,
            window: 60_000,
            since_ack: 0.0125,
            mss: 1500,
            ..StepRecord::default()
        }
    }

    fn close(found: &[f32], expected: &[f64]) {
        assert_eq!(found.len(), expected.len());
        for (found, expected) in found.iter().zip(expected) {
            assert!((f64::from(*found) - expected).abs() < 1e-5, "{found} is not {expected}");
        }
    }

    #[test]
    fn default_observation_of_a_hand_made_step() {
        let mut observation = Observation::new(Convention::Default, 2);
        observation.push(&step(), None, 0.0);
        close(&observation.values()[..6], &[0.0; 6]);
        // 60 / 40 ms; 15 of 18 kB; 3 of 18 kB; 60 kB over 1.5 MB/s x 40 ms; 12.5 / 62.5 ms
        close(&observation.values()[6..], &[1.5_f64.ln(), 0.5, 15.0 / 18.0, 3.0 / 18.0, 0.0, 0.2]);
        let silent = StepRecord { since_ack: 0.4, ..StepRecord::default() };
        let silent = StepRecord { srtt: 0.05, min_rtt: 0.04, ..silent };
        observation.push(&silent, None, 0.0);
        close(&observation.values()[6..9], &[10_f64.ln(), 0.0, 1.0]);
        assert_eq!(observation.values()[11], 5.0, "cut");
    }

    #[test]
    fn aurora_observation_of_a_hand_made_step() {
        let mut observation = Observation::new(Convention::Aurora, 10);
        assert_eq!(observation.width(), 30);
        observation.push(&step(), None, 0.0);
        // 60 / 48 ms; 18 / 15 kB; before it intervals without packets
        close(&observation.values()[24..], &[0.0, 0.0, 1.0, 0.5, 1.25, 1.2]);
    }

    #[test]
    fn orca_observation_of_a_hand_made_step() {
        let mut observation = Observation::new(Convention::Orca, 1);
        observation.push(&step(), None, 0.0);
        // 750 kB/s of 1.5 MB/s; 60 kB per 62.5 ms; 5 x 150 kB/s; 15 of 60 kB; 20 / 62.5 ms;
        // 40 / 62.5 ms; 1.25 x 40 / 62.5 ms
        close(observation.values(), &[0.5, 0.64, 0.5, 0.25, 0.32, 0.64, 0.8]);
    }

    #[test]
    fn mvfst_observation_has_actions_behind_the_summary() {
        let mut observation = Observation::new(Convention::Mvfst, 2);
        assert_eq!(observation.width(), 112);
        observation.push(&step(), Some(&SignalStatistics::default()), 3.0);
        close(&observation.values()[..100], &[0.0; 100]);
        close(&observation.values()[106..], &[0.0, 0.0, 0.0, 1.0, 0.0, 60.0]);
        observation.push(&step(), None, 0.0);
        close(&observation.values()[100..107], &[0.0, 0.0, 0.0, 1.0, 0.0, 60.0, 1.0]);
    }

    #[test]
    fn bounds_are_as_wide_as_observations() {
        for convention in Convention::ALL {
            let history = Observation::default_history(convention);
            let observation = Observation::new(convention, history);
            let bounds = observation.bounds();
            assert_eq!(bounds.len(), observation.width());
            let pairs = observation.values().iter().zip(&bounds);
            assert!(pairs.clone().all(|(value, (low, high))| low <= value && value <= high));
        }
    }
}
