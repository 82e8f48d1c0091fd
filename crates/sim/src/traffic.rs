//! What flows have to send.

use cellpace_base::Rate;
use cellpace_cc::{Controller, RttEstimator};

use crate::{OnOffFiles, TransferSpec};

/// What a flow has to send.
#[derive(Debug, Clone, PartialEq)]
pub enum FlowTraffic {
    /// Always more.
    Bulk,
    /// Files with pauses between them, each over a new connection.
    OnOffFiles(OnOffFiles),
    /// Downloads of a size each, whose completion times count.
    Transfers(TransferSpec),
    /// A constant rate, whatever happens.
    ConstantRate(Rate),
}

impl FlowTraffic {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::OnOffFiles(onoff) => onoff.check(),
            Self::Transfers(transfers) => transfers.check(),
            Self::Bulk | Self::ConstantRate(_) => Ok(()),
        }
    }
}

/// The rate at which a controller lets a connection send at present: its pacing rate, and no more
/// than a window per smoothed RTT. `None` while there is no RTT or nothing limits it.
///
/// Sources that adapt to the path (the encoder of a video) go by this. They are application-limited
/// most of the time, so that the window limits what they may send and is rarely reached.
pub(crate) fn permitted_rate(controller: &dyn Controller, rtt: &RttEstimator) -> Option<Rate> {
    let paced = controller.pacing().map(|pacing| pacing.rate);
    let window = Some(controller.cwnd()).filter(|cwnd| *cwnd != u64::MAX);
    let windowed = window.zip(rtt.smoothed()).map(|(window, srtt)| {
        Rate::from_bytes_per_sec(window as f64 / srtt.as_secs_f64().max(1e-9))
    });
    match (paced, windowed) {
        (Some(paced), Some(windowed)) => Some(paced.min(windowed)),
        (paced, windowed) => paced.or(windowed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;
    use cellpace_cc::{Pacing, Permit};

    #[test]
    fn what_a_source_may_send_is_the_window_per_rtt_and_never_above_the_pacing_rate() {
        struct Paced(u64, Option<u64>);
        impl Controller for Paced {
            fn permit(&self) -> Permit {
                Permit::Window(self.0)
            }
            fn pacing(&self) -> Option<Pacing> {
                let rate = Rate::from_bps(self.1?);
                Some(Pacing { rate, burst: 1500 })
            }
        }
        let mut rtt = RttEstimator::default();
        assert_eq!(permitted_rate(&Paced(15_000, None), &rtt), None);
        rtt.sample(Span::from_millis(100));
        let mbit = |mbit: f64| Some(Rate::from_bytes_per_sec(mbit * 125_000.0));
        assert_eq!(permitted_rate(&Paced(15_000, None), &rtt), mbit(1.2));
        assert_eq!(permitted_rate(&Paced(15_000, Some(1_000_000)), &rtt), mbit(1.0));
        assert_eq!(permitted_rate(&Paced(15_000, Some(2_000_000)), &rtt), mbit(1.2));
        assert_eq!(permitted_rate(&Paced(u64::MAX, None), &rtt), None);
    }
}
