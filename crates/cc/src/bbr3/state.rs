//! The states and their gains.

use super::params::Bbr3Params;
use crate::Phase;

/// What the flow is doing, in the order in which logs number it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Bbr3State {
    Startup,
    Drain,
    Down,
    Cruise,
    Refill,
    Up,
    ProbeRtt,
}

impl Bbr3State {
    /// The pacing rate as a multiple of the bandwidth.
    pub(super) fn pacing_gain(self, params: &Bbr3Params) -> f64 {
        match self {
            Self::Startup => params.startup_gain,
            Self::Drain => params.drain_gain,
            Self::Down => params.down_gain,
            Self::Cruise | Self::Refill | Self::ProbeRtt => 1.0,
            Self::Up => params.up_gain,
        }
    }

    /// The window as a multiple of the bandwidth-delay product.
    pub(super) fn cwnd_gain(self, params: &Bbr3Params) -> f64 {
        match self {
            Self::Up => params.up_cwnd_gain,
            Self::ProbeRtt => params.probe_rtt_cwnd_gain,
            _ => params.cwnd_gain,
        }
    }

    /// Whether it is one of the four that make the cycle.
    pub(super) fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up)
    }

    /// Whether the flow looks for more bandwidth: losses then do not lower the short-term bounds.
    pub(super) fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }

    /// The phase that events report.
    pub(super) fn phase(self) -> Phase {
        match self {
            Self::Startup => Phase::SlowStart,
            Self::Drain => Phase::Drain,
            Self::Down | Self::Cruise | Self::Refill | Self::Up => Phase::ProbeBw,
            Self::ProbeRtt => Phase::ProbeRtt,
        }
    }
}
