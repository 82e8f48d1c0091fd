//! What an action does to window and pacing rate.

use cellpace_base::Rate;
use cellpace_base::math::pow;

use super::Convention;
use crate::Pacing;

/// The smallest window, in packets: below it a loss cannot be told from silence.
const MIN_WINDOW: f64 = 2.0;
/// The largest window, in packets.
const MAX_WINDOW: f64 = 10_000.0;
/// The window before the first action, in packets (RFC 6928 section 2).
const INITIAL_WINDOW: f64 = 10.0;
/// The lowest rate, in packets per s.
const MIN_RATE: f64 = 10.0;
/// The highest rate, in packets per s.
const MAX_RATE: f64 = 100_000.0;
/// The rate before the first action, in packets per s.
const INITIAL_RATE: f64 = 100.0;
/// Aurora, section 4.1: the factor alpha that dampens actions.
const ALPHA: f64 = 0.025;
/// The five actions of mvfst-rl (`cc_env_actions` = 0,/2,-10,+10,*2): factor and packets.
const CHOICES: [(f64, f64); 5] = [(1.0, 0.0), (0.5, 0.0), (1.0, -10.0), (1.0, 10.0), (2.0, 0.0)];

/// The values that an action may have.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum ActionSpace {
    /// A number from `-limit` to `limit`.
    Continuous {
        /// The largest absolute value.
        limit: f64,
    },
    /// A whole number below `choices`.
    Discrete {
        /// How many there are.
        choices: usize,
    },
}

impl ActionSpace {
    /// The action space of a convention.
    ///
    /// | convention | action `a` | effect | source |
    /// |---|---|---|---|
    /// | `default` | -1 to 1 | window times 2^a | |
    /// | `aurora` | -40 to 40 | pacing rate times 1 + 0.025 a, or over 1 - 0.025 a if a < 0 | Aurora (2019), section 4.1; the original has no bounds, here they are a factor of 2 |
    /// | `orca` | -1 to 1 | window is 4^a times Cubic's | Orca (2020), equation 1 with 2a for alpha, as `map_action` of its code |
    /// | `mvfst` | 0 to 4 | window kept, halved, 10 packets less, 10 more, doubled | mvfst-rl (2019), section 3 |
    pub fn of(convention: Convention) -> Self {
        match convention {
            Convention::Default | Convention::Orca => Self::Continuous { limit: 1.0 },
            Convention::Aurora => Self::Continuous { limit: 40.0 },
            Convention::Mvfst => Self::Discrete { choices: CHOICES.len() },
        }
    }

    /// Outputs of a network that decides: one number, or one for each choice.
    pub fn outputs(self) -> usize {
        match self {
            Self::Continuous { .. } => 1,
            Self::Discrete { choices } => choices,
        }
    }

    /// The action that a network's outputs mean: the number within its limits, or the choice with
    /// the largest output, the first of equal ones.
    pub fn action_of(self, outputs: &[f64]) -> f64 {
        match self {
            Self::Continuous { .. } => self.clip(outputs.first().copied().unwrap_or(0.0)),
            Self::Discrete { .. } => {
                let mut best = 0;
                for (index, output) in outputs.iter().enumerate() {
                    if *output > outputs[best] {
                        best = index;
                    }
                }
                best as f64
            }
        }
    }

    /// The nearest action that there is; no number means 0.
    pub fn clip(self, action: f64) -> f64 {
        let action = if action.is_nan() { 0.0 } else { action };
        match self {
            Self::Continuous { limit } => action.clamp(-limit, limit),
            Self::Discrete { choices } => action.round().clamp(0.0, choices as f64 - 1.0),
        }
    }
}

/// What takes effect at the beginning of a step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Action {
    /// An action by the convention.
    Convention(f64),
    /// Window and rate as they are given, bounded as those of conventions.
    Direct {
        /// In packets.
        window: f64,
        /// In bytes per second; nothing is paced at 0.
        rate: f64,
    },
    /// All stays as it is.
    Keep,
}

/// Window and rate as the actions so far have set them. In packets.
#[derive(Debug, Clone, Copy)]
pub(super) struct Steering {
    convention: Convention,
    mss: f64,
    window: f64,
    rate: f64,
    /// Of the window of the controller below.
    factor: f64,
    /// Whether window and rate were set directly.
    is_direct: bool,
}

impl Steering {
    pub(super) fn new(convention: Convention, mss: u64) -> Self {
        let mss = mss.max(1) as f64;
        let (window, rate) = (INITIAL_WINDOW, INITIAL_RATE);
        Self { convention, mss, window, rate, factor: 1.0, is_direct: false }
    }

    pub(super) fn apply(&mut self, action: Action) {
        match action {
            Action::Convention(action) => self.follow(action),
            Action::Direct { window, rate } => self.set(window, rate),
            Action::Keep => {}
        }
    }

    /// What is no number leaves all as it is.
    fn set(&mut self, window: f64, rate: f64) {
        if window.is_nan() || rate.is_nan() {
            return;
        }
        self.is_direct = true;
        self.window = window.clamp(MIN_WINDOW, MAX_WINDOW);
        let packets = rate / self.mss;
        self.rate = if rate > 0.0 { packets.clamp(MIN_RATE, MAX_RATE) } else { 0.0 };
    }

    fn follow(&mut self, action: f64) {
        let action = ActionSpace::of(self.convention).clip(action);
        match self.convention {
            Convention::Default => self.scale_window(pow(2.0, action), 0.0),
            // Aurora, section 4.1: x_t = x_{t-1} (1 + alpha a), or x_{t-1} / (1 - alpha a)
            Convention::Aurora if action >= 0.0 => self.scale_rate(1.0 + ALPHA * action),
            Convention::Aurora => self.scale_rate(1.0 / (1.0 - ALPHA * action)),
            // Orca, equation 1: cwnd = 2^alpha cwnd_u, alpha = 2a
            Convention::Orca => self.factor = pow(4.0, action),
            Convention::Mvfst => {
                let (factor, packets) = CHOICES[action as usize];
                self.scale_window(factor, packets);
            }
        }
    }

    fn scale_window(&mut self, factor: f64, packets: f64) {
        self.window = (self.window * factor + packets).clamp(MIN_WINDOW, MAX_WINDOW);
    }

    fn scale_rate(&mut self, factor: f64) {
        self.rate = (self.rate * factor).clamp(MIN_RATE, MAX_RATE);
    }

    /// The window in bytes, with that of the controller below where there is one.
    pub(super) fn window(&self, below: Option<u64>) -> u64 {
        let packets = match (self.convention, below) {
            _ if self.is_direct => self.window,
            (Convention::Aurora, _) => MAX_WINDOW,
            (_, Some(below)) => self.factor * below as f64 / self.mss,
            (_, None) => self.window,
        };
        (packets.clamp(MIN_WINDOW, MAX_WINDOW) * self.mss) as u64
    }

    pub(super) fn pacing(&self) -> Option<Pacing> {
        let rate = self.rate();
        let burst = 2 * self.mss as u64;
        (rate > 0.0).then(|| Pacing { rate: Rate::from_bytes_per_sec(rate), burst })
    }

    /// The pacing rate in bytes per s, 0 where nothing is paced.
    pub(super) fn rate(&self) -> f64 {
        let is_paced = self.is_direct || self.convention == Convention::Aurora;
        if is_paced { self.rate * self.mss } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn window_and_rate_may_be_set_whatever_the_convention() {
        for convention in Convention::ALL {
            let mut steering = Steering::new(convention, 1500);
            let before = steering.rate();
            steering.apply(Action::Keep);
            assert_eq!(steering.rate(), before);
            steering.apply(Action::Direct { window: 20.0, rate: 150_000.0 });
            assert_eq!((steering.window(Some(9000)), steering.rate()), (30_000, 150_000.0));
            steering.apply(Action::Direct { window: 1.0, rate: 1e9 });
            assert_eq!((steering.window(None), steering.rate()), (3000, 150e6), "bounded");
            steering.apply(Action::Direct { window: f64::INFINITY, rate: 0.0 });
            assert_eq!((steering.window(None), steering.pacing()), (15_000_000, None));
            steering.apply(Action::Direct { window: f64::NAN, rate: 5.0 });
            assert_eq!((steering.window(None), steering.pacing()), (15_000_000, None));
        }
    }

    fn after(convention: Convention, actions: &[f64]) -> Steering {
        let mut steering = Steering::new(convention, 1500);
        actions.iter().for_each(|action| steering.apply(Action::Convention(*action)));
        steering
    }

    #[test]
    fn default_actions_double_or_halve_the_window() {
        let window = |actions: &[f64]| after(Convention::Default, actions).window(None);
        assert_eq!(window(&[]), 15_000);
        assert_eq!(window(&[1.0, 7.0]), 60_000, "clipped to 1");
        assert_eq!(window(&[-1.0]), 7500);
        assert_eq!(window(&[-1.0; 9]), 3000);
        assert_eq!(window(&[1.0; 30]), 15_000_000);
        assert_eq!(window(&[f64::NAN]), 15_000);
    }

    #[test]
    fn aurora_changes_the_rate_by_two_and_a_half_percent() {
        let rate = |actions: &[f64]| after(Convention::Aurora, actions).rate() / 1500.0;
        assert!((rate(&[1.0]) - 102.5).abs() < 1e-9);
        assert!((rate(&[1.0, -1.0]) - 100.0).abs() < 1e-9);
        assert!((rate(&[40.0]) - 200.0).abs() < 1e-9);
        assert!((rate(&[-40.0]) - 50.0).abs() < 1e-9);
        let pacing = after(Convention::Aurora, &[]).pacing().unwrap();
        assert_eq!(pacing.rate.as_mbps(), 1.2);
    }

    #[test]
    fn orca_scales_the_window_below_by_four_to_the_action() {
        let window = |action: f64| after(Convention::Orca, &[action]).window(Some(30_000));
        assert_eq!((window(0.0), window(-1.0)), (30_000, 7500));
        assert!(
            (window(1.0) as i64 - 120_000).abs() <= 1 && (window(0.5) as i64 - 60_000).abs() <= 1
        );
    }

    #[test]
    fn mvfst_has_five_choices() {
        let window = |choice: f64| after(Convention::Mvfst, &[3.0, choice]).window(None) / 1500;
        assert_eq!([0.0, 1.0, 2.0, 3.0, 4.0].map(window), [20, 10, 10, 30, 40]);
        let space = ActionSpace::of(Convention::Mvfst);
        assert_eq!(space.action_of(&[0.1, 0.5, -1.0, 0.5, 0.2]), 1.0);
        assert_eq!((space.clip(9.0), space.clip(-3.0)), (4.0, 0.0));
    }
}
