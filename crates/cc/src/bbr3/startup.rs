//! Startup: the rate grows with each round until the pipe is full, which a plateau of the
//! delivery rate shows, or losses.

use super::params::Bbr3Params;

/// Whether the delivery rate has stopped growing.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Bbr3FullPipe {
    /// The rate that the next rounds should exceed, in bytes per second.
    bw: f64,
    rounds: u64,
    /// Whether the pipe is full as far as this probe says (`full_bw_now`).
    pub(super) now: bool,
    /// Whether it was full once (`full_bw_reached`): Startup is over.
    pub(super) reached: bool,
}

impl Bbr3FullPipe {
    /// A round ended with a sample of the rate, in bytes per second, that did not suffer from a
    /// lack of data.
    pub(super) fn end_round(&mut self, rate: f64, params: &Bbr3Params) {
        if self.now || rate <= 0.0 {
            return;
        }
        if rate >= params.full_growth * self.bw {
            self.start_over(rate);
            return;
        }
        self.rounds += 1;
        self.now = self.rounds >= params.full_rounds;
        self.reached |= self.now;
    }

    /// Losses showed that the pipe is full.
    pub(super) fn fill(&mut self) {
        self.now = true;
        self.reached = true;
    }

    /// Looks for a plateau above `rate`. That the pipe was full once stays known.
    pub(super) fn start_over(&mut self, rate: f64) {
        *self = Self { bw: rate, rounds: 0, now: false, reached: self.reached };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::ParamSet;

    #[test]
    fn bbr3_b3_full_pipe() {
        let params = Bbr3Params::defaults();
        let mut pipe = Bbr3FullPipe::default();
        let mut seen = Vec::new();
        // 15 is application-limited, and not asked about.
        for rate in [10.0, 13.0, 14.0, 16.0, 16.2] {
            pipe.end_round(rate, &params);
            seen.push((pipe.bw, pipe.rounds, pipe.now));
        }
        let expected = [
            (10.0, 0, false),
            (13.0, 0, false),
            (13.0, 1, false),
            (13.0, 2, false),
            (13.0, 3, true),
        ];
        assert_eq!(seen, expected);
        assert!(pipe.reached);
        pipe.start_over(20.0);
        assert!(pipe.reached && !pipe.now);
    }

    #[test]
    fn a_round_without_a_reliable_rate_says_nothing() {
        let params = Bbr3Params::defaults();
        let mut pipe = Bbr3FullPipe::default();
        (0..20).for_each(|_| pipe.end_round(0.0, &params));
        assert!(!pipe.now && pipe.rounds == 0);
    }
}
