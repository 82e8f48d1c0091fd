//! A controller that is asked for a decision once per step.

use std::str::FromStr;

use cellpace_base::{ParamSet, QuantityError, Span, Time, parse_number, parse_span};

use super::action::{Action, Steering};
use super::record::StepMeter;
use super::{Convention, Observation, StepRecord};
use crate::window::cubic::CubicParams;
use crate::{
    Ack, Block, Controller, ControllerParams, Ecn, Event, Loss, Mark, Pacing, Permit, SentPacket,
    Setup, Spurious, Stamp, Timeout,
};

/// How long a step is.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum StepLength {
    /// So long.
    Fixed(Span),
    /// So many smoothed RTTs, and never outside of 1 ms to 1 s; 100 ms before the first sample.
    Rtts(f64),
}

impl StepLength {
    const MIN: Span = Span::from_millis(1);
    const MAX: Span = Span::from_secs(1);
    const BEFORE_RTT: Span = Span::from_millis(100);

    fn span(self, srtt: Option<Span>) -> Span {
        match (self, srtt) {
            (Self::Fixed(span), _) => span,
            (Self::Rtts(count), Some(srtt)) => srtt.mul_f64(count).clamp(Self::MIN, Self::MAX),
            (Self::Rtts(_), None) => Self::BEFORE_RTT,
        }
    }
}

/// Reads `20ms` (1 ms to 1 s) or `0.5rtt` (0.1 to 10).
impl FromStr for StepLength {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |error: QuantityError| error.to_string();
        match text.trim().strip_suffix("rtt") {
            Some(count) => match parse_number(count).map_err(wrong)? {
                count if (0.1..=10.0).contains(&count) => Ok(Self::Rtts(count)),
                _ => Err(format!("`{text}`: a step is 0.1rtt to 10rtt")),
            },
            None => match parse_span(text).map_err(wrong)? {
                span if (Self::MIN..=Self::MAX).contains(&span) => Ok(Self::Fixed(span)),
                _ => Err(format!("`{text}`: a step is {} to {}", Self::MIN, Self::MAX)),
            },
        }
    }
}

/// How a flow is steered in steps.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StepRules {
    /// How long a step is.
    pub step: StepLength,
    /// From the end of a step to the time at which the action that was decided then takes effect:
    /// the time that a decision takes. At least a nanosecond, and less than a step.
    pub decision_delay: Span,
    /// The convention of observations.
    pub observation: Convention,
    /// Steps in an observation, 1 to [`MAX_HISTORY`](super::MAX_HISTORY).
    pub history: usize,
    /// The convention of actions.
    pub action: Convention,
}

impl Default for StepRules {
    /// Steps of 20 ms, no delay, and the default conventions.
    fn default() -> Self {
        Self {
            step: StepLength::Fixed(Span::from_millis(20)),
            decision_delay: Span::ZERO,
            observation: Convention::Default,
            history: Observation::default_history(Convention::Default),
            action: Convention::Default,
        }
    }
}

impl StepRules {
    /// Checks what the types cannot.
    ///
    /// # Errors
    /// When the history or the decision delay is out of range, in words that name it.
    pub fn check(&self) -> Result<(), String> {
        if !(1..=super::MAX_HISTORY).contains(&self.history) {
            let most = super::MAX_HISTORY;
            return Err(format!("history: {} steps; allowed: 1 to {most}", self.history));
        }
        match self.step {
            StepLength::Fixed(step) if self.decision_delay >= step => Err(format!(
                "decision_delay: {} is not below the step of {step}",
                self.decision_delay
            )),
            _ => Ok(()),
        }
    }
}

/// What decides at the end of each step.
pub trait StepPolicy: Send {
    /// A step has ended with this record and observation; the next one ends at `next_end`.
    fn on_step(&mut self, record: &StepRecord, observation: &[f32], next_end: Time);

    /// The action that takes effect now.
    fn action(&mut self) -> Action;
}

/// A controller whose window or rate a [`StepPolicy`] sets once per step.
pub struct SteppedController<P> {
    rules: StepRules,
    policy: P,
    meter: StepMeter,
    observation: Observation,
    steering: Steering,
    /// The controller whose window is scaled, for Orca's actions.
    below: Option<Box<dyn Controller>>,
    last_action: f64,
    step_end: Time,
    apply_at: Option<Time>,
}

impl<P: StepPolicy> SteppedController<P> {
    /// A controller that asks `policy`. `rules` have been [checked](StepRules::check).
    pub fn new(rules: StepRules, policy: P, setup: Setup) -> Self {
        let (start, mss) = (setup.start, setup.mss);
        let cubic = || CubicParams::defaults().build(setup);
        Self {
            policy,
            meter: StepMeter::new(start, mss, rules.observation == Convention::Mvfst),
            observation: Observation::new(rules.observation, rules.history),
            steering: Steering::new(rules.action, mss),
            below: (rules.action == Convention::Orca).then(cubic),
            last_action: 0.0,
            step_end: start + rules.step.span(None),
            apply_at: None,
            rules,
        }
    }

    /// The same with steps of a fixed length that end at multiples of it, whenever the flow begins: those of several
    /// flows end together. Steps that follow the RTT stay as they are.
    pub fn in_time(mut self) -> Self {
        if let StepLength::Fixed(step) = self.rules.step {
            let begun = self.step_end - step;
            let passed = begun.as_nanos() / step.as_nanos();
            self.step_end = Time::from_nanos((passed + 1) * step.as_nanos());
        }
        self
    }

    fn window(&self) -> u64 {
        self.steering.window(self.below.as_ref().map(|below| below.cwnd()))
    }

    fn apply(&mut self) {
        let action = self.policy.action();
        if let Action::Convention(action) = action {
            self.last_action = action;
        }
        self.steering.apply(action);
        self.apply_at = None;
    }

    fn end_step(&mut self, now: Time) {
        let record = self.meter.close(now, self.window(), self.steering.rate());
        self.observation.push(&record, self.meter.signals.as_deref(), self.last_action);
        let step = self.rules.step.span(self.meter.srtt());
        self.step_end = now + step;
        let instant = Span::from_nanos(1);
        self.apply_at = Some(now + self.rules.decision_delay.clamp(instant, step - instant));
        self.policy.on_step(&record, self.observation.values(), self.step_end);
        self.meter.begin();
    }
}

impl<P: StepPolicy> Controller for SteppedController<P> {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.meter.on_sent(packet);
        self.below.as_mut().map_or_else(Stamp::default, |below| below.on_sent(packet))
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(below) = &mut self.below {
            below.on_ack(ack);
        }
        let window = self.window();
        self.meter.on_ack(ack, window);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        if let Some(below) = &mut self.below {
            below.on_loss(loss);
        }
        let window = self.window();
        self.meter.on_loss(loss, window);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        if let Some(below) = &mut self.below {
            below.on_timeout(timeout);
        }
        self.meter.on_timeout(timeout);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        if let Some(below) = &mut self.below {
            below.on_spurious(spurious);
        }
    }

    fn on_block(&mut self, block: &Block) {
        if let Some(below) = &mut self.below {
            below.on_block(block);
        }
    }

    fn ecn(&self) -> Ecn {
        self.below.as_ref().map_or(Ecn::NotEct, |below| below.ecn())
    }

    fn on_ecn_failed(&mut self, now: Time) {
        if let Some(below) = &mut self.below {
            below.on_ecn_failed(now);
        }
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        if let Some(below) = &mut self.below {
            below.on_mark(mark);
        }
    }

    fn on_path_change(&mut self, now: Time) {
        if let Some(below) = &mut self.below {
            below.on_path_change(now);
        }
        self.meter.on_path_change();
    }

    fn permit(&self) -> Permit {
        Permit::Window(self.window())
    }

    fn pacing(&self) -> Option<Pacing> {
        self.steering.pacing()
    }

    fn next_deadline(&self) -> Option<Time> {
        let own = self.apply_at.map_or(self.step_end, |at| at.min(self.step_end));
        let below = self.below.as_ref().and_then(|below| below.next_deadline());
        Some(below.map_or(own, |below| below.min(own)))
    }

    fn on_deadline(&mut self, now: Time) {
        if let Some(below) = &mut self.below
            && below.next_deadline().is_some_and(|at| at <= now)
        {
            below.on_deadline(now);
        }
        if self.apply_at.is_some_and(|at| at <= now) {
            self.apply();
        }
        if self.step_end <= now {
            self.end_step(now);
        }
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.below.as_mut()?.poll_event()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        let mss = self.meter.mss() as f64;
        show("cwnd_pkts", self.window() as f64 / mss);
        show("pacing_mbps", self.steering.rate() * 8e-6);
        show("srtt_ms", self.meter.srtt().map_or(0.0, Span::as_millis_f64));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{AckedPacket, Random, RttEstimator};

    /// Keeps what it is shown, and decides the same every time.
    #[derive(Default)]
    struct Constant {
        action: f64,
        records: Vec<StepRecord>,
    }

    impl StepPolicy for Constant {
        fn on_step(&mut self, record: &StepRecord, _observation: &[f32], _next_end: Time) {
            self.records.push(*record);
        }

        fn action(&mut self) -> Action {
            Action::Convention(self.action)
        }
    }

    fn controller(rules: StepRules, action: f64) -> SteppedController<Constant> {
        let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) };
        SteppedController::new(rules, Constant { action, records: Vec::new() }, setup)
    }

    fn ms(ms: f64) -> Time {
        Time::ZERO + Span::from_millis_f64(ms)
    }

    fn send(controller: &mut impl Controller, at: f64, number: u64) {
        let (bytes, in_flight) = (1500, 1500 * (number + 1));
        let (app_limited, retransmission) = (false, false);
        let now = ms(at);
        let packet = SentPacket { now, number, bytes, in_flight, app_limited, retransmission };
        controller.on_sent(&packet);
    }

    fn ack(controller: &mut impl Controller, rtt: &mut RttEstimator, at: f64, rtts: &[f64]) {
        let packet = |rtt: &f64| AckedPacket {
            number: 0,
            bytes: 1500,
            sent_at: ms(at - rtt),
            rtt: Span::from_millis_f64(*rtt),
            received_at: None,
            app_limited: false,
            ecn: Default::default(),
            stamp: Stamp::default(),
        };
        let packets: Vec<_> = rtts.iter().map(packet).collect();
        rtts.iter().for_each(|sample| rtt.sample(Span::from_millis_f64(*sample)));
        controller.on_ack(&Ack {
            now: ms(at),
            packets: &packets,
            prior_in_flight: 30_000,
            in_flight: 30_000 - 1500 * packets.len() as u64,
            next_number: 20,
            rtt,
        });
    }

    #[test]
    fn a_step_sums_up_what_happened_in_it() {
        let mut controller = controller(StepRules::default(), 0.0);
        let mut rtt = RttEstimator::default();
        (0..3).for_each(|number| send(&mut controller, 1.0, number));
        ack(&mut controller, &mut rtt, 5.0, &[4.0]);
        ack(&mut controller, &mut rtt, 15.0, &[6.0, 8.0]);
        controller.on_timeout(&Timeout {
            now: ms(16.0),
            prior_in_flight: 4000,
            in_a_row: 1,
            next_number: 20,
        });
        controller.on_deadline(ms(20.0));
        let record = controller.policy.records[0];
        assert_eq!((record.start, record.end), (Time::ZERO, ms(20.0)));
        assert_eq!((record.sent_packets, record.sent_bytes), (3, 4500));
        assert_eq!((record.acked_packets, record.acked_bytes), (3, 4500));
        assert_eq!((record.lost_packets, record.lost_bytes, record.timeouts), (3, 4000, 1));
        assert!((record.mean_rtt() - 0.006).abs() < 1e-12);
        assert_eq!((record.rtt_min, record.rtt_max), (0.004, 0.008));
        // Least squares through (5, 4), (15, 6), (15, 8) ms: 3 ms in 10.
        assert!((record.gradient - 0.3).abs() < 1e-9, "{}", record.gradient);
        assert!((record.throughput() - 225_000.0).abs() < 1e-6);
        assert!((record.since_ack - 0.005).abs() < 1e-12);
        assert_eq!((record.window, record.min_rtt), (15_000, 0.004));
        controller.on_deadline(ms(40.0));
        let record = controller.policy.records[1];
        assert_eq!((record.acked_packets, record.sent_packets, record.gradient), (0, 0, 0.0));
        assert_eq!((record.min_rtt, record.max_throughput), (0.004, 225_000.0));
    }

    #[test]
    fn an_action_takes_effect_after_the_decision_delay() {
        let rules = StepRules { decision_delay: Span::from_millis(5), ..StepRules::default() };
        let mut controller = controller(rules, 1.0);
        assert_eq!(controller.next_deadline(), Some(ms(20.0)));
        controller.on_deadline(ms(20.0));
        assert_eq!((controller.cwnd(), controller.next_deadline()), (15_000, Some(ms(25.0))));
        controller.on_deadline(ms(25.0));
        assert_eq!((controller.cwnd(), controller.next_deadline()), (30_000, Some(ms(40.0))));
    }

    #[test]
    fn steps_follow_the_rtt() {
        let rules = StepRules { step: "0.5rtt".parse().unwrap(), ..StepRules::default() };
        let mut controller = controller(rules, 0.0);
        let mut rtt = RttEstimator::default();
        assert_eq!(controller.next_deadline(), Some(ms(100.0)));
        ack(&mut controller, &mut rtt, 60.0, &[50.0]);
        controller.on_deadline(ms(100.0));
        controller.on_deadline(controller.next_deadline().unwrap());
        assert_eq!(controller.next_deadline(), Some(ms(125.0)));
    }

    #[test]
    fn steps_in_time_end_at_multiples_of_their_length() {
        for (start, end) in [(0.0, 20.0), (13.0, 20.0), (20.0, 40.0), (45.5, 60.0)] {
            let setup = Setup { mss: 1500, start: ms(start), random: Random::seeded(1, 0) };
            let policy = Constant::default();
            let mut controller =
                SteppedController::new(StepRules::default(), policy, setup).in_time();
            assert_eq!(controller.next_deadline(), Some(ms(end)), "from {start}");
            controller.on_deadline(ms(end));
            controller.on_deadline(ms(end + 0.001));
            assert_eq!(controller.next_deadline(), Some(ms(end + 20.0)), "from {start}");
        }
    }

    #[test]
    fn an_rtt_that_is_always_the_same_has_no_gradient() {
        let mut controller = controller(StepRules::default(), 0.0);
        let mut rtt = RttEstimator::default();
        for at in 1..20 {
            ack(&mut controller, &mut rtt, f64::from(at), &[40.0, 40.0]);
        }
        controller.on_deadline(ms(20.0));
        assert!(controller.policy.records[0].gradient.abs() < 1e-9);
    }

    #[test]
    fn mvfst_sees_sums_of_the_states_at_each_ack() {
        let rules = StepRules {
            observation: Convention::Mvfst,
            action: Convention::Mvfst,
            history: 2,
            ..StepRules::default()
        };
        let mut controller = controller(rules, 4.0);
        let mut rtt = RttEstimator::default();
        ack(&mut controller, &mut rtt, 5.0, &[50.0]);
        ack(&mut controller, &mut rtt, 6.0, &[70.0]);
        controller.on_deadline(ms(20.0));
        let values = controller.observation.values();
        let row = |row: usize, field: usize| values[20 * row + field];
        // Latest RTT 0.5 and 0.7 of 100 ms; delay 0 and 0.2; window 15; acknowledged 1.5 twice.
        assert_eq!([0, 1, 3, 4].map(|at| row(at, 2)), [0.0, 0.6, 0.5, 0.7]);
        assert!((row(2, 2) - 0.02_f32.sqrt()).abs() < 1e-6);
        assert_eq!([1, 4].map(|at| row(at, 5)), [0.1, 0.2]);
        assert_eq!([0, 1].map(|at| row(at, 6)), [0.0, 15.0]);
        assert_eq!([0, 1].map(|at| row(at, 16)), [3.0, 1.5]);
        assert_eq!(row(1, 17), 30.0, "15 kB in 50 ms");
        assert_eq!(&values[106..], [1.0, 0.0, 0.0, 0.0, 0.0, 15.0], "nothing applied yet");
    }

    #[test]
    fn wrong_steps_are_refused_with_their_reason() {
        for (text, expected) in [
            ("20", "needs a unit"),
            ("2s", "`2s`: a step is 1ms to 1s"),
            ("0rtt", "0.1rtt to 10rtt"),
            ("xrtt", "x"),
        ] {
            let error = text.parse::<StepLength>().unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let late = StepRules { decision_delay: Span::from_millis(20), ..StepRules::default() };
        assert!(late.check().unwrap_err().starts_with("decision_delay: 20ms"));
        let short = StepRules { history: 0, ..StepRules::default() };
        assert!(short.check().unwrap_err().starts_with("history: 0"));
    }
}
