//! PROBE_RTT: keeps the pipe nearly empty for a while, to see the base RTT.

use crate::{Span, Time};

/// How long (ACM Queue 2016).
const LENGTH: Span = Span::from_millis(200);

/// How far PROBE_RTT has come.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct RttProbe {
    /// When it may end; set once the pipe is nearly empty.
    pub(super) done_at: Option<Time>,
    round_done: bool,
}

/// What an ack in PROBE_RTT changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RttProbeStep {
    Same,
    /// The pipe is nearly empty: a round begins that must pass in this state.
    PipeEmpty,
    Over,
}

impl RttProbe {
    /// An ack after which the pipe is `nearly_empty` or not, and which began a round or not.
    pub(super) fn on_ack(
        &mut self,
        now: Time,
        nearly_empty: bool,
        round_started: bool,
    ) -> RttProbeStep {
        let Some(done_at) = self.done_at else {
            if !nearly_empty {
                return RttProbeStep::Same;
            }
            self.done_at = Some(now + LENGTH);
            return RttProbeStep::PipeEmpty;
        };
        self.round_done |= round_started;
        if self.round_done && now >= done_at { RttProbeStep::Over } else { RttProbeStep::Same }
    }
}
