//! What the halves of a flow are made of.

use std::net::SocketAddr;
use std::sync::Arc;

use cellpace_base::{Random, Time};
use cellpace_cc::{ControllerSpec, PeerCost, PeerHalf, Setup};

use crate::assembly::Assembly;
use crate::config::EndpointConfig;
use crate::connection::FlowHalf;
use crate::incoming::Incoming;
use crate::numbers::Numbers;
use crate::outgoing::{Outgoing, Sizes};
use cellpace_base::quota::MemoryBudget;

/// The random streams of videos begin here; those of controllers lie below.
const VIDEO_STREAMS: u64 = 1 << 40;

/// What the halves of a flow are made of.
pub(crate) struct HalfParts<'a> {
    pub(crate) config: &'a EndpointConfig,
    pub(crate) now: Time,
    pub(crate) mtu: u16,
    pub(crate) peer: SocketAddr,
    pub(crate) stream: u64,
    /// Memory for what arrives.
    pub(crate) memory: Arc<MemoryBudget>,
    /// Key of the draws that the peer cannot predict.
    pub(crate) key: [u8; 32],
}

impl HalfParts<'_> {
    fn setup(&self) -> Setup {
        Setup {
            mss: u64::from(self.mtu),
            start: self.now,
            random: Random::seeded(self.config.seed, self.stream),
        }
    }

    /// The random numbers of a video.
    pub(crate) fn video_random(&self) -> Random {
        Random::seeded(self.config.seed, VIDEO_STREAMS + self.stream)
    }

    pub(crate) fn outgoing(
        &self,
        spec: &ControllerSpec,
        unreliable: bool,
        window: u64,
        delayed_acks: bool,
        ecn: bool,
    ) -> Outgoing {
        let stamped = spec.has_receiver();
        let overhead = self.config.overhead(self.peer);
        let sizes = Sizes {
            datagram: usize::from(self.mtu) - overhead,
            overhead,
            buffer: usize::try_from(self.config.buffer).unwrap_or(usize::MAX),
        };
        let controller = spec.build(self.setup());
        let numbers = Numbers::new(self.key);
        let mut outgoing =
            Outgoing::new(controller, stamped, unreliable, sizes, window, numbers, self.now);
        if delayed_acks {
            outgoing.set_delayed_acks();
        }
        outgoing.use_ecn(self.now, ecn);
        outgoing
    }

    pub(crate) fn incoming(&self, half: &PeerHalf, unreliable: bool, ecn: bool) -> FlowHalf {
        let half = half.build(self.setup());
        let assembly =
            (!unreliable).then(|| Assembly::new(self.config.buffer, self.memory.clone()));
        let mut incoming = Incoming::new(half, self.config.acks, assembly);
        if ecn {
            incoming.report_ecn();
        }
        FlowHalf::In(Box::new(incoming))
    }
}

/// Whether a controller asks for marks.
pub(crate) fn wants_ecn(spec: &ControllerSpec) -> bool {
    let setup = Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(0, 0) };
    spec.build(setup).ecn().is_capable()
}

/// Parses the sender's controller, which may have a half here. Its text comes from the network, so
/// the cost of the half is bounded.
pub(crate) fn peer_controller(text: &str) -> Result<(PeerHalf, PeerCost), String> {
    let half: PeerHalf =
        text.parse().map_err(|error| format!("its cellpace says of the controller: {error}"))?;
    let cost = half
        .cost()
        .map_err(|error| format!("the receiver half of this controller is too large: {error}"))?;
    Ok((half, cost))
}
