//! How a connection is to be controlled.

use cellpace_alcc::AlccRole;
use cellpace_base::Span;
use cellpace_cc::{ControllerSpec, PeerHalf};

use crate::relay::TcpCongestionControl;

/// How a connection is to be controlled whose data are relayed.
#[derive(Debug, Clone)]
pub struct FlowOptions {
    /// The controller.
    pub cc: ControllerSpec,
    /// Seed of the flow's own random source.
    pub seed: u64,
    /// Who keeps to the window, and how the controller learns what arrived.
    pub driver: FlowDriver,
}

impl FlowOptions {
    /// The defaults for a controller: the gate.
    pub fn new(cc: ControllerSpec) -> Self {
        Self { cc, seed: 1, driver: FlowDriver::Gate(GateOptions::default()) }
    }
}

/// Which driver serves a flow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DriverKind {
    /// A controller that the kernel has by itself: the data stay in the kernel, and nothing is done here.
    Native,
    /// The kernel driver: the data stay in the kernel.
    Kernel,
    /// The gate: data are relayed, and TCP's own acks count.
    Gate,
    /// Client/server: data are relayed, with acks inside the stream.
    ClientServer,
}

impl DriverKind {
    /// Returns its name in options and reports.
    pub fn name(self) -> &'static str {
        match self {
            Self::Native => "native",
            Self::Kernel => "kernel",
            Self::Gate => "gate",
            Self::ClientServer => "client-server",
        }
    }
}

/// A driver that relays data, with the options that it alone obeys.
#[derive(Debug, Clone)]
pub enum FlowDriver {
    /// Our process stands in front of TCP; TCP's own acks count, and the peer needs to know nothing.
    Gate(GateOptions),
    /// The same with acks inside the stream, `docs/alcc-wire.md`, which the peer must understand.
    ClientServer(ClientServerOptions),
}

impl FlowDriver {
    /// Returns which driver this is.
    pub fn kind(&self) -> DriverKind {
        match self {
            Self::Gate(_) => DriverKind::Gate,
            Self::ClientServer(_) => DriverKind::ClientServer,
        }
    }

    /// The same driver for a connection that we opened (`outgoing`) or accepted: with client/server
    /// the end that opened it says hello, and the other one answers to a hello and is plain
    /// without.
    #[must_use]
    pub(crate) fn for_connection(mut self, outgoing: bool) -> Self {
        if let Self::ClientServer(options) = &mut self {
            options.role = match outgoing {
                true => AlccRole::Connect,
                false => ClientServerOptions::LISTEN,
            };
        }
        self
    }
}

/// Options of the gate.
#[derive(Debug, Clone, Default)]
pub struct GateOptions {
    /// Those of both drivers that relay data.
    pub relay: RelayOptions,
    /// Whether flows to the same peer share one controller.
    pub share: Option<FlowShare>,
}

impl GateOptions {
    /// Returns the name of an option that was given and that the kernel driver does not have.
    pub fn given_option(&self) -> Option<&'static str> {
        let has_below = self.relay.below != TcpCongestionControl::default();
        let options = [("--share", self.share.is_some()), ("--below", has_below)];
        options.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Options of the client/server driver.
#[derive(Debug, Clone)]
pub struct ClientServerOptions {
    /// Those of both drivers that relay data.
    pub relay: RelayOptions,
    /// Which end this is. A listening end whose peer does not speak the protocol continues as the gate.
    pub role: AlccRole,
    /// Bounds on what the peer may ask for.
    pub limits: AlccLimits,
}

impl ClientServerOptions {
    /// The role of an end that was connected to. A peer that sends no hello for half a second does
    /// not speak the protocol.
    const LISTEN: AlccRole = AlccRole::Listen { wait: Some(Span::from_millis(500)) };

    /// The defaults for one end of a connection.
    pub fn new(role: AlccRole) -> Self {
        Self { relay: RelayOptions::default(), role, limits: AlccLimits::default() }
    }
}

impl Default for ClientServerOptions {
    /// Those of an end that was connected to.
    fn default() -> Self {
        Self::new(Self::LISTEN)
    }
}

/// Options of the drivers that stand between the application and TCP.
#[derive(Debug, Clone)]
pub struct RelayOptions {
    /// Bytes that wait for the controller at most, beside what the local socket holds. All of it is
    /// latency for the application.
    pub queue: usize,
    /// What TCP itself uses below the controller.
    pub below: TcpCongestionControl,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self { queue: 256 << 10, below: TcpCongestionControl::default() }
    }
}

/// A flow's part in a controller that all flows of an engine to the same peer address under the
/// same controller string share. Those that have data divide its window; one that has none leaves
/// its part to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowShare {
    /// The flow's part in relation to those of the others; 0 counts as 1.
    pub weight: u32,
}

/// Bounds of the client/server driver.
#[derive(Debug, Clone, Copy)]
pub struct AlccLimits {
    /// Which controllers of the peer get their receiver's half here.
    pub halves: fn(&PeerHalf) -> bool,
    /// How long a connecting end waits for the answer to its hello; `None`: for ever.
    pub answer_within: Option<Span>,
    /// How long packets may be in flight without a single ack until the peer is given up; `None`:
    /// for as long as TCP bears it. A peer that sleeps for longer than this loses the connection.
    pub ack_within: Option<Span>,
    /// Bytes that wait at most for the application to read them, and so the most that can be in
    /// flight towards it.
    pub incoming: usize,
}

impl Default for AlccLimits {
    fn default() -> Self {
        Self {
            halves: is_small_half,
            answer_within: Some(Span::from_secs(10)),
            ack_within: None,
            incoming: 4 << 20,
        }
    }
}

/// Whether a receiver's half that a peer asks for is of ordinary size: the peer chooses, and this
/// end pays in memory and time.
fn is_small_half(half: &PeerHalf) -> bool {
    half.exists() && half.cost().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_gets_a_small_sprout_and_nothing_else() {
        let allowed = |text: &str| is_small_half(&text.parse().unwrap());
        assert!(allowed("sprout"));
        assert!(allowed("sprout:confidence=25%,max_rate=2000"));
        assert!(!allowed("sprout:max_rate=16000"));
        assert!(!allowed("verus"));
    }
}
