//! A window that does not react to anything: static, or redrawn at random at fixed intervals.
//! The shim of ALCC's figures 1 and 2, and the simplest controller there is.

use cellpace_base::{Args, Kind, Param, Span, Time};

use crate::{Controller, ControllerInfo, Permit, Random, Setup};

/// The registry's entry.
pub const INFO: ControllerInfo = ControllerInfo {
    name: "fixed",
    summary: "a constant window, or one redrawn at random every so often",
    params: PARAMS,
    check,
    load: None,
    build: |args, setup| Box::new(Fixed::new(args, setup)),
    receiver: None,
};

static PARAMS: &[Param] = &[
    Param {
        key: "cwnd",
        kind: Kind::Window,
        default: "20pkts",
        unit: "",
        help: "the window",
        source: "ALCC, figure 1",
    },
    Param {
        key: "max",
        kind: Kind::Window,
        default: "",
        unit: "",
        help: "redraw the window uniformly between cwnd and this",
        source: "ALCC, figure 2",
    },
    Param {
        key: "every",
        kind: Kind::Span(Span::from_millis(1), Span::from_secs(3600)),
        default: "1s",
        unit: "",
        help: "how often to redraw, when max is given",
        source: "ALCC, figure 2",
    },
];

fn check(args: &Args) -> Result<(), String> {
    match args.optional_window("max") {
        // Bytes and packets compare only for a known MSS; assume the common one.
        Some(max) if max.bytes(1500) < args.window("cwnd").bytes(1500) => {
            Err(format!("max={max} is below cwnd={}", args.window("cwnd")))
        }
        _ => Ok(()),
    }
}

/// The controller.
pub struct Fixed {
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
    fn new(args: &Args, setup: Setup) -> Self {
        let low = args.window("cwnd").bytes(setup.mss).max(setup.mss);
        let redraw = args.optional_window("max").map(|max| Redraw {
            low,
            high: max.bytes(setup.mss).max(low),
            every: args.span("every"),
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
