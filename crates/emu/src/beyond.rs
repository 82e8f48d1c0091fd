//! Destinations beyond the far side: packets to them would be lost without a word, so the link
//! answers them itself.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};

use cellpace_base::{Span, Time};

use crate::address;
use crate::devices::Devices;
use crate::wire;

/// Destinations that are remembered at most.
const MAX_KNOWN: usize = 4096;
/// How long one counts as unreachable before it is looked up again: addresses come and go.
const VALID: Span = Span::from_secs(1);

/// Decides which packets from inside can be delivered.
pub(crate) struct Beyond {
    /// The routes of the far side; `None`: all is delivered.
    routes: Option<FarRoutes>,
    known: HashMap<IpAddr, KnownDestination>,
    /// The address from which packets are answered, IPv4 and IPv6.
    far: [IpAddr; 2],
}

/// The routes of the far side, seen by packets that come through the link.
pub(crate) struct FarRoutes {
    pub(crate) devices: Devices,
    /// The number of the far device.
    pub(crate) index: u32,
    /// An address inside for each family.
    pub(crate) inside: [IpAddr; 2],
    /// IPv4 leaves this machine: `--nat`.
    pub(crate) nat: bool,
}

struct KnownDestination {
    is_reachable: bool,
    since: Time,
}

/// What is to be done with a packet.
pub(crate) enum DeliveryVerdict {
    Deliver,
    Beyond(BeyondPacket),
}

/// A packet that cannot be delivered.
pub(crate) struct BeyondPacket {
    pub(crate) destination: SocketAddr,
    /// The ICMP message for the sender; `None` where there must be none.
    pub(crate) answer: Option<Vec<u8>>,
}

impl Beyond {
    /// Judges by `routes`, and answers from the addresses `far`.
    pub(crate) fn new(routes: Option<FarRoutes>, far: [IpAddr; 2]) -> Self {
        Self { routes, known: HashMap::new(), far }
    }

    /// Judges a packet from inside.
    pub(crate) fn judge(&mut self, now: Time, packet: &[u8]) -> DeliveryVerdict {
        let Some(destination) = wire::destination(packet) else { return DeliveryVerdict::Deliver };
        if self.is_reachable(now, destination.ip()) {
            return DeliveryVerdict::Deliver;
        }
        let far = self.far[usize::from(destination.is_ipv6())];
        let answer = wire::unreachable(packet, far);
        DeliveryVerdict::Beyond(BeyondPacket { destination, answer })
    }

    fn is_reachable(&mut self, now: Time, destination: IpAddr) -> bool {
        let Some(routes) = &mut self.routes else { return true };
        if address::is_ours(destination) || (routes.nat && destination.is_ipv4()) {
            return true;
        }
        let known = self.known.get(&destination);
        if let Some(known) = known.filter(|k| k.is_reachable || now.since(k.since) < VALID) {
            return known.is_reachable;
        }
        let is_reachable = routes.lead_to(destination);
        if self.known.len() >= MAX_KNOWN {
            self.known.clear();
        }
        self.known.insert(destination, KnownDestination { is_reachable, since: now });
        is_reachable
    }
}

impl FarRoutes {
    /// Whether a packet to `destination` gets to this machine, or to a network that it forwards
    /// to; by the default route it would leave with an address to which nothing comes back.
    fn lead_to(&mut self, destination: IpAddr) -> bool {
        let inside = self.inside[usize::from(destination.is_ipv6())];
        match self.devices.find_route(destination, inside, self.index) {
            Ok(Some(route)) => route.is_local || (route.prefix > 0 && destination.is_ipv4()),
            Ok(None) | Err(_) => false,
        }
    }
}
