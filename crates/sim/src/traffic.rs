//! What flows have to send.

use cellpace_base::Rate;
use cellpace_recovery::VideoSpec;

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
    /// Frames of a video whose sizes follow what the controller lets through. Nothing is sent twice.
    Video(VideoSpec),
    /// A constant rate, whatever happens.
    ConstantRate(Rate),
}

impl FlowTraffic {
    pub(crate) fn check(&self) -> Result<(), String> {
        match self {
            Self::OnOffFiles(onoff) => onoff.check(),
            Self::Transfers(transfers) => transfers.check(),
            Self::Video(video) => video.check(),
            Self::Bulk | Self::ConstantRate(_) => Ok(()),
        }
    }
}
