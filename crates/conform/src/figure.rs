//! The figures that scenarios ask for.

use serde::Deserialize;

/// A figure that a scenario asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Figure {
    /// What left the link, by what it offered.
    Utilization,
    /// What left the link, by what was asked for.
    Delivered,
    /// 95th percentile of the queue delay.
    QueueP95,
    /// Packets that were dropped, by those that came.
    Loss,
    /// From the event to the first half second in which 80 % of the link is used.
    Recovery,
    /// What the server under test had of what left the link.
    Share,
    /// Jain's index of the rates of all flows.
    Jain,
    /// Rate of the first flow, by that of the second.
    RateRatio,
    /// Median time of a short download, from the first packet of its connection to the last.
    Completion,
}

impl Figure {
    /// Returns its name for people.
    pub fn label(self) -> &'static str {
        match self {
            Self::Utilization => "utilization",
            Self::Delivered => "delivered of what was asked",
            Self::QueueP95 => "queue delay p95",
            Self::Loss => "packets lost",
            Self::Recovery => "time to 80 % of the link",
            Self::Share => "share of the link",
            Self::Jain => "Jain's index",
            Self::RateRatio => "ratio of the rates",
            Self::Completion => "median completion time",
        }
    }

    /// Returns its unit; empty for plain numbers.
    pub fn unit(self) -> &'static str {
        match self {
            Self::Utilization | Self::Delivered | Self::Loss | Self::Share => "%",
            Self::QueueP95 | Self::Completion => "ms",
            Self::Recovery => "s",
            Self::Jain | Self::RateRatio => "",
        }
    }
}
