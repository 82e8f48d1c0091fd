//! What is to be measured.

use cellpace_base::{Ecn, Rate, Span};
use thiserror::Error;

/// What one session does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Plan {
    /// The prober sends.
    pub up: bool,
    /// The responder sends.
    pub down: bool,
    /// Bytes of the IP packet of a probe.
    pub size: u16,
    /// How probes follow each other.
    pub pattern: Pattern,
    /// How long probes are sent.
    pub duration: Span,
    /// A second stream beside the probes, in the same directions.
    pub rival: Option<OnOffStream>,
    /// The codepoint with which the packets of both streams leave; it cannot be [`Ecn::Ce`].
    pub ecn: Ecn,
}

/// How probes follow each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pattern {
    /// One in each interval.
    Every(Span),
    /// As many as keep the delay in the bottleneck's queue between these bounds, or the queue
    /// full where it is too short for that.
    Saturate {
        /// The window grows below this queue delay.
        lower: Span,
        /// The window shrinks above this one.
        upper: Span,
    },
}

/// A stream that comes and goes. It begins with an off period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OnOffStream {
    /// Time from packet to packet while it is on.
    pub interval: Span,
    /// How long it is on.
    pub on: Span,
    /// How long it is off.
    pub off: Span,
}

/// Why a plan cannot be carried out.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum PlanError {
    /// Neither side sends.
    #[error("nobody sends")]
    NoDirection,
    /// Out of [`Plan::SIZES`].
    #[error("the size is not from 110 to 9000 bytes")]
    Size,
    /// Out of range.
    #[error("the interval is not from 5us to 10s")]
    Interval,
    /// Out of range.
    #[error("the duration is not from 100ms to 1h")]
    Duration,
    /// Out of range, or the upper bound is not above the lower one.
    #[error("the bounds of the queue delay are not from 10ms to 10s, the lower one first")]
    Bounds,
    /// Out of range.
    #[error("the periods of the second stream are not from 10ms to 1h")]
    Periods,
    /// More than [`Plan::MAX_PROBES`].
    #[error("more than 5 million probes: make it shorter or slower")]
    Probes,
    /// Only queues mark packets.
    #[error("probes leave as Not-ECT, ECT(0) or ECT(1), not as CE")]
    Codepoint,
}

impl Plan {
    /// Bytes that the IP packet of a probe can have. The smallest one is encrypted and in IPv6.
    pub const SIZES: std::ops::RangeInclusive<u16> = 110..=9000;

    /// Arrivals that are held of one direction.
    pub const MAX_PROBES: u64 = 5_000_000;

    /// Whether it can be carried out.
    ///
    /// # Errors
    /// When something is out of range. Plans come from the network, too.
    pub fn check(&self) -> Result<(), PlanError> {
        let intervals = Span::from_micros(5)..=Span::from_secs(10);
        let within = |what: &Span, from: Span, to: Span| (from..=to).contains(what);
        if !self.up && !self.down {
            return Err(PlanError::NoDirection);
        }
        if !Self::SIZES.contains(&self.size) {
            return Err(PlanError::Size);
        }
        if self.ecn.is_marked() {
            return Err(PlanError::Codepoint);
        }
        if !within(&self.duration, Span::from_millis(100), Span::from_secs(3600)) {
            return Err(PlanError::Duration);
        }
        let mut probes = 0;
        match self.pattern {
            Pattern::Every(interval) => {
                if !intervals.contains(&interval) {
                    return Err(PlanError::Interval);
                }
                probes += self.duration.as_nanos() / interval.as_nanos();
            }
            Pattern::Saturate { lower, upper } => {
                let (least, most) = (Span::from_millis(10), Span::from_secs(10));
                if !within(&lower, least, most) || !within(&upper, least, most) || lower >= upper {
                    return Err(PlanError::Bounds);
                }
            }
        }
        if let Some(rival) = self.rival {
            if !intervals.contains(&rival.interval) {
                return Err(PlanError::Interval);
            }
            let (least, most) = (Span::from_millis(10), Span::from_secs(3600));
            if !within(&rival.on, least, most) || !within(&rival.off, least, most) {
                return Err(PlanError::Periods);
            }
            probes += self.duration.as_nanos() / rival.interval.as_nanos();
        }
        if probes > Self::MAX_PROBES { Err(PlanError::Probes) } else { Ok(()) }
    }

    /// The highest rate in one direction, where it is known beforehand.
    pub fn rate(&self) -> Option<Rate> {
        let Pattern::Every(interval) = self.pattern else { return None };
        let rival = self.rival.map_or(0.0, |rival| self.rate_at(rival.interval));
        Some(Rate::from_bytes_per_sec(self.rate_at(interval) + rival))
    }

    /// Bytes per second.
    fn rate_at(&self, interval: Span) -> f64 {
        f64::from(self.size) / interval.as_secs_f64().max(1e-9)
    }
}

impl OnOffStream {
    /// When the stream is next on at or after `since`, a time from the beginning of the plan.
    pub fn next_on(&self, since: Span) -> Span {
        let cycle = (self.off + self.on).as_nanos().max(1);
        let within = since.as_nanos() % cycle;
        match self.off.as_nanos().checked_sub(within) {
            Some(left) => since + Span::from_nanos(left),
            None => since,
        }
    }

    /// Whether the stream is on at `since` from the beginning of the plan.
    pub fn is_on(&self, since: Span) -> bool {
        self.next_on(since) == since
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAN: Plan = Plan {
        up: true,
        down: false,
        size: 1500,
        pattern: Pattern::Every(Span::from_millis(1)),
        duration: Span::from_secs(10),
        rival: None,
        ecn: Ecn::NotEct,
    };

    #[test]
    fn each_thing_out_of_range_is_named() {
        let rival = OnOffStream {
            interval: Span::from_millis(1),
            on: Span::from_secs(1),
            off: Span::from_secs(1),
        };
        let every = |span| Plan { pattern: Pattern::Every(span), ..PLAN };
        let bounds = |lower, upper| Plan {
            pattern: Pattern::Saturate {
                lower: Span::from_millis(lower),
                upper: Span::from_millis(upper),
            },
            ..PLAN
        };
        assert_eq!(PLAN.check(), Ok(()));
        assert_eq!(Plan { rival: Some(rival), ..PLAN }.check(), Ok(()));
        assert_eq!(bounds(750, 3000).check(), Ok(()));
        assert_eq!(Plan { up: false, ..PLAN }.check(), Err(PlanError::NoDirection));
        assert_eq!(Plan { size: 99, ..PLAN }.check(), Err(PlanError::Size));
        assert_eq!(Plan { ecn: Ecn::Ect1, ..PLAN }.check(), Ok(()));
        assert_eq!(Plan { ecn: Ecn::Ce, ..PLAN }.check(), Err(PlanError::Codepoint));
        assert_eq!(Plan { duration: Span::MAX, ..PLAN }.check(), Err(PlanError::Duration));
        assert_eq!(every(Span::ZERO).check(), Err(PlanError::Interval));
        assert_eq!(bounds(750, 750).check(), Err(PlanError::Bounds));
        assert_eq!(bounds(0, 750).check(), Err(PlanError::Bounds));
        let rival = OnOffStream { on: Span::ZERO, ..rival };
        assert_eq!(Plan { rival: Some(rival), ..PLAN }.check(), Err(PlanError::Periods));
        let long = Plan { duration: Span::from_secs(3600), ..every(Span::from_micros(10)) };
        assert_eq!(long.check(), Err(PlanError::Probes));
    }

    #[test]
    fn the_rate_counts_both_streams() {
        assert_eq!(PLAN.rate(), Some(Rate::from_bps(12_000_000)));
        let rival = OnOffStream {
            interval: Span::from_millis(2),
            on: Span::from_secs(1),
            off: Span::from_secs(1),
        };
        assert_eq!(Plan { rival: Some(rival), ..PLAN }.rate(), Some(Rate::from_bps(18_000_000)));
    }

    #[test]
    fn the_second_stream_begins_with_an_off_period() {
        let ms = Span::from_millis;
        let rival = OnOffStream { interval: ms(1), on: ms(30), off: ms(20) };
        assert_eq!(rival.next_on(ms(0)), ms(20));
        assert!(!rival.is_on(ms(19)));
        assert!(rival.is_on(ms(20)) && rival.is_on(ms(49)));
        assert_eq!(rival.next_on(ms(50)), ms(70));
        assert_eq!(rival.next_on(ms(75)), ms(75));
    }
}
