//! Slow start with what may end it before a loss does.

use crate::Ack;
use crate::window::flow::{Acked, CongestionWindow};
use crate::window::hystart::{HyStart, HyStartSigns};
use crate::window::hystart_pp::{HyStartPlus, MAX_GROWTH};

/// Slow start of a law that has an early end.
#[derive(Debug, Clone)]
pub(crate) struct SlowStart {
    end: EarlyEnd,
    /// Most packets that one ack adds.
    limit: f64,
}

#[derive(Debug, Clone)]
enum EarlyEnd {
    Never,
    Classic(HyStart),
    Plus(HyStartPlus),
}

impl SlowStart {
    /// Slow start that `signs` end, in which an ack adds at most `limit` packets.
    pub(crate) fn new(signs: HyStartSigns, limit: f64) -> Self {
        let end = match signs {
            HyStartSigns::Off => EarlyEnd::Never,
            HyStartSigns::Plus => EarlyEnd::Plus(HyStartPlus::new()),
            _ => EarlyEnd::Classic(HyStart::new(signs)),
        };
        Self { end, limit }
    }

    /// Grows the window, if it is below ssthresh. Returns how many of the acked packets are left
    /// for congestion avoidance.
    pub(crate) fn on_ack(
        &mut self,
        window: &mut CongestionWindow,
        ack: &Ack<'_>,
        acked: Acked,
    ) -> f64 {
        if !window.in_slow_start() {
            return acked.growth;
        }
        if !window.recovering() && self.is_over(ack, acked.newest, window.cwnd) {
            window.ssthresh = window.cwnd;
        }
        match &self.end {
            EarlyEnd::Plus(plus) if plus.is_watching() => {
                // RFC 9406 section 4.2: min(N, L * SMSS), divided in CSS.
                let growth = acked.growth.min(MAX_GROWTH) / plus.divisor();
                window.slow_start(growth, f64::INFINITY)
            }
            _ => window.slow_start(acked.growth, self.limit),
        }
    }

    /// A loss event or mark.
    pub(crate) fn on_loss(&mut self) {
        if let EarlyEnd::Plus(plus) = &mut self.end {
            plus.finish();
        }
    }

    /// A timeout: slow start begins again.
    pub(crate) fn on_timeout(&mut self) {
        match &mut self.end {
            EarlyEnd::Never => {}
            EarlyEnd::Classic(hystart) => hystart.restart(),
            EarlyEnd::Plus(plus) => plus.finish(),
        }
    }

    /// Another path.
    pub(crate) fn on_path_change(&mut self) {
        match &mut self.end {
            EarlyEnd::Never => {}
            EarlyEnd::Classic(hystart) => hystart.forget(),
            EarlyEnd::Plus(plus) => *plus = HyStartPlus::new(),
        }
    }

    /// The smallest RTT that HyStart has seen; zero where it does not look.
    pub(crate) fn base_rtt_ms(&self) -> f64 {
        if let EarlyEnd::Classic(hystart) = &self.end { hystart.base_rtt_ms() } else { 0.0 }
    }

    fn is_over(&mut self, ack: &Ack<'_>, newest: u64, cwnd: f64) -> bool {
        match &mut self.end {
            EarlyEnd::Never => false,
            EarlyEnd::Classic(hystart) => hystart.on_ack(ack, newest, cwnd),
            EarlyEnd::Plus(plus) => plus.on_ack(ack),
        }
    }
}
