//! Smoothed RTT and retransmission timeout (RFC 6298).

use cellpace_base::Span;

/// Shorter RTTs count as this where delays are compared with the shortest one, whatever the datapath.
/// What differs below it are wake-ups and batches of both hosts: within a machine or a room they
/// multiply the shortest RTT, and would be taken for a queue. RFC 9002 has the same for timers
/// (section 6.1.2, kGranularity), and TCP's clocks were no finer for long.
pub(crate) const RTT_RESOLUTION: Span = Span::from_millis(1);

/// How the retransmission timeout follows from the RTT.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RtoRule {
    /// RFC 6298 (2.3): SRTT + 4 RTTVAR, not below the floor.
    #[default]
    Rfc6298,
    /// Linux: SRTT + max(floor, 4 RTTVAR).
    Linux,
}

/// RTT statistics of a flow.
#[derive(Debug, Clone)]
pub struct RttEstimator {
    smoothed: Option<Span>,
    variation: Span,
    latest: Span,
    minimum: Span,
    floor: Span,
    rule: RtoRule,
}

/// All that an estimator knows, for controllers that run in another memory than their datapath.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RttState {
    /// As [`RttEstimator::smoothed`].
    pub smoothed: Option<Span>,
    /// As [`RttEstimator::variation`].
    pub variation: Span,
    /// As [`RttEstimator::latest`].
    pub latest: Span,
    /// As [`RttEstimator::minimum`]; what it is before the first sample does not matter.
    pub minimum: Span,
    /// No timeout is shorter.
    pub floor: Span,
    /// How the timeout follows from the others.
    pub rule: RtoRule,
}

impl RttEstimator {
    /// RFC 6298 (2.1): the timeout before any sample.
    const INITIAL_RTO: Span = Span::from_secs(1);
    /// RFC 6298 (2.5): an upper bound may be placed, at least 60 s.
    const MAX_RTO: Span = Span::from_secs(60);
    /// Linux' floor; RFC 6298 (2.4) says 1 s.
    pub const LINUX_FLOOR: Span = Span::from_millis(200);

    /// An estimator without samples whose timeout is never below `floor`.
    pub fn new(floor: Span) -> Self {
        Self {
            smoothed: None,
            variation: Span::ZERO,
            latest: Span::ZERO,
            minimum: Span::MAX,
            floor,
            rule: RtoRule::default(),
        }
    }

    /// The same estimator with another rule for the timeout: RFC 6298 has SRTT + 4 RTTVAR, not
    /// below the floor; Linux SRTT + max(floor, 4 RTTVAR).
    #[must_use]
    pub fn with_rule(self, rule: RtoRule) -> Self {
        Self { rule, ..self }
    }

    /// An estimator with the same floor and rule that has no samples.
    #[must_use]
    pub fn without_samples(&self) -> Self {
        Self::new(self.floor).with_rule(self.rule)
    }

    /// Returns all that it knows.
    #[inline]
    pub fn state(&self) -> RttState {
        let Self { smoothed, variation, latest, minimum, floor, rule } = *self;
        RttState { smoothed, variation, latest, minimum, floor, rule }
    }

    /// The estimator that knows this.
    #[inline]
    pub fn from_state(state: RttState) -> Self {
        let RttState { smoothed, variation, latest, minimum, floor, rule } = state;
        Self { smoothed, variation, latest, minimum, floor, rule }
    }

    /// Takes a sample.
    #[inline]
    pub fn sample(&mut self, rtt: Span) {
        self.latest = rtt;
        self.minimum = self.minimum.min(rtt);
        let Some(smoothed) = self.smoothed else {
            // RFC 6298 (2.2)
            self.smoothed = Some(rtt);
            self.variation = rtt / 2;
            return;
        };
        // RFC 6298 (2.3): the variation first, from the old smoothed value.
        let error = if rtt > smoothed { rtt - smoothed } else { smoothed - rtt };
        self.variation = (self.variation * 3 + error) / 4;
        self.smoothed = Some((smoothed * 7 + rtt) / 8);
    }

    /// The smoothed RTT; `None` before the first sample.
    pub fn smoothed(&self) -> Option<Span> {
        self.smoothed
    }

    /// The last sample; zero before the first.
    pub fn latest(&self) -> Span {
        self.latest
    }

    /// The smallest sample ever; `None` before the first.
    pub fn minimum(&self) -> Option<Span> {
        self.smoothed.map(|_| self.minimum)
    }

    /// The mean deviation; zero before the first sample.
    pub fn variation(&self) -> Span {
        self.variation
    }

    /// The retransmission timeout without back-off.
    #[inline]
    pub fn rto(&self) -> Span {
        let Some(smoothed) = self.smoothed else { return Self::INITIAL_RTO };
        let rto = match self.rule {
            // RFC 6298 (2.3), clock granularity below a nanosecond
            RtoRule::Rfc6298 => (smoothed + self.variation * 4).max(self.floor),
            // Linux tcp_rtt_estimator, __tcp_set_rto: the floor is that of the variation.
            RtoRule::Linux => smoothed + (self.variation * 4).max(self.floor),
        };
        rto.min(Self::MAX_RTO)
    }

    /// The retransmission timeout after `in_a_row` timeouts without an ack between them.
    #[inline]
    pub fn backed_off_rto(&self, in_a_row: u32) -> Span {
        // RFC 6298 (5.5)
        (self.rto() * (1 << in_a_row.min(16))).min(Self::MAX_RTO)
    }
}

impl Default for RttEstimator {
    fn default() -> Self {
        Self::new(Self::LINUX_FLOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: f64) -> Span {
        Span::from_millis_f64(ms)
    }

    #[test]
    fn rto_by_rfc_and_by_linux() {
        // SRTT 105 ms and RTTVAR 47.5 ms: after samples of 100 and 140 ms.
        let mut rtt = RttEstimator::default();
        rtt.sample(ms(100.0));
        rtt.sample(ms(140.0));
        assert_eq!((rtt.smoothed(), rtt.variation()), (Some(ms(105.0)), ms(47.5)));
        assert_eq!(rtt.rto(), ms(295.0));
        let linux = rtt.clone().with_rule(RtoRule::Linux);
        assert_eq!(linux.rto(), ms(305.0));
        assert_eq!(linux.without_samples().rto(), RttEstimator::INITIAL_RTO);
    }

    #[test]
    fn baselines_0_rto_of_two_samples() {
        let mut rtt = RttEstimator::default();
        assert_eq!(rtt.rto(), Span::from_secs(1));
        rtt.sample(ms(100.0));
        assert_eq!(
            (rtt.smoothed(), rtt.variation(), rtt.rto()),
            (Some(ms(100.0)), ms(50.0), ms(300.0))
        );
        rtt.sample(ms(140.0));
        assert_eq!(
            (rtt.smoothed(), rtt.variation(), rtt.rto()),
            (Some(ms(105.0)), ms(47.5), ms(295.0))
        );
    }

    #[test]
    fn the_timeout_has_a_floor_a_back_off_and_a_cap() {
        let mut rtt = RttEstimator::default();
        for _ in 0..100 {
            rtt.sample(ms(10.0));
        }
        assert_eq!(rtt.rto(), ms(200.0));
        assert_eq!(rtt.backed_off_rto(3), ms(1600.0));
        assert_eq!(rtt.backed_off_rto(40), Span::from_secs(60));
    }
}
