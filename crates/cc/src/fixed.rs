//! A window that does not react to anything: static, or redrawn at random at fixed intervals.
//! The shim of ALCC's figures 1 and 2, and the simplest controller there is.

use cellpace_base::{Span, Time, Window, params};

use crate::{Controller, ControllerParams, Permit, Random, Setup};

params! {
    /// The parameters of a fixed window.
    pub(crate) struct FixedParams {
        /// The window
        cwnd: Window = "20pkts", from "ALCC, figure 1", logarithmic;
        /// Redraw the window uniformly between cwnd and this
        max: Option<Window> = "", from "ALCC, figure 2", logarithmic;
        /// How often to redraw, when max is given
        every: Span = "1s" in Span::from_millis(1)..=Span::from_secs(3600), from "ALCC, figure 2";
    }
}

impl ControllerParams for FixedParams {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        Box::new(Fixed::new(self, setup))
    }

    fn check(&self) -> Result<(), String> {
        // Bytes and packets compare only for a known MSS; assume the common one.
        match self.max {
            Some(max) if max.bytes(1500) < self.cwnd.bytes(1500) => {
                Err(format!("max={max} is below cwnd={}", self.cwnd))
            }
            _ => Ok(()),
        }
    }
}

/// The controller.
struct Fixed {
    cwnd: u64,
    redraw: Option<Redraw>,
}

struct Redraw {
    low: u64,
    high: u64,
    every: Span,
    next: Time,
    random: Random,
}

impl Fixed {
    fn new(params: &FixedParams, setup: Setup) -> Self {
        let low = params.cwnd.bytes(setup.mss).max(setup.mss);
        let redraw = params.max.map(|max| Redraw {
            low,
            high: max.bytes(setup.mss).max(low),
            every: params.every,
            next: setup.start,
            random: setup.random,
        });
        let mut fixed = Self { cwnd: low, redraw };
        fixed.on_deadline(setup.start);
        fixed
    }
}

impl Controller for Fixed {
    fn permit(&self) -> Permit {
        Permit::Window(self.cwnd)
    }

    fn next_deadline(&self) -> Option<Time> {
        self.redraw.as_ref().map(|redraw| redraw.next)
    }

    fn on_deadline(&mut self, now: Time) {
        let Some(redraw) = self.redraw.as_mut().filter(|redraw| now >= redraw.next) else { return };
        let width = redraw.high - redraw.low;
        self.cwnd = redraw.low + redraw.random.below(width.saturating_add(1));
        redraw.next = now + redraw.every;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ControllerSpec;

    fn build(text: &str) -> Box<dyn Controller> {
        let spec: ControllerSpec = text.parse().unwrap();
        spec.build(Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(3, 0) })
    }

    #[test]
    fn a_fixed_window_is_in_bytes_or_packets() {
        assert_eq!(build("fixed").cwnd(), 30_000);
        assert_eq!(build("fixed:cwnd=1MB").cwnd(), 1_000_000);
        assert_eq!(build("fixed:cwnd=1B").cwnd(), 1500, "at least one packet");
        assert_eq!(build("fixed:cwnd=10pkts").permit().remaining(15_000), 0);
    }

    #[test]
    fn a_redrawn_window_stays_between_its_ends() {
        let mut fixed = build("fixed:cwnd=10pkts,max=100pkts,every=1s");
        let mut seen = Vec::new();
        for second in 0..50 {
            fixed.on_deadline(Time::from_secs(second));
            seen.push(fixed.cwnd());
            assert_eq!(fixed.next_deadline(), Some(Time::from_secs(second + 1)));
        }
        assert!(seen.iter().all(|cwnd| (15_000..=150_000).contains(cwnd)));
        seen.dedup();
        assert!(seen.len() > 40);
    }

    #[test]
    fn ends_the_wrong_way_round_are_refused() {
        assert!("fixed:cwnd=10pkts,max=1pkts".parse::<ControllerSpec>().is_err());
    }
}
