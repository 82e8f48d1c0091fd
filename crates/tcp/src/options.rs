//! How a connection is to be controlled.

use cellpace_alcc::AlccRole;
use cellpace_base::Span;
use cellpace_cc::{ControllerSpec, PeerHalf};

use crate::TcpCongestionControl;

/// How a connection shall be controlled.
#[derive(Debug, Clone)]
pub struct FlowOptions {
    /// The controller.
    pub cc: ControllerSpec,
    /// Seed of the flow's own random source.
    pub seed: u64,
    /// Bytes that wait for the controller at most, beside what the local socket holds.
    pub queue: usize,
    /// What TCP itself uses below the controller.
    pub below: TcpCongestionControl,
    /// Bytes that TCP may hold, sent or not (`SO_SNDBUF`), which bounds what is in flight; `None`:
    /// as many as the kernel thinks right, which grow with the window. The kernel may grant less:
    /// [`FlowStats::send_buffer`].
    pub send_buffer: Option<u32>,
    /// How the controller learns what arrived.
    pub driver: DriverChoice,
    /// Bounds of the client/server driver.
    pub framing: AlccLimits,
    /// Whether flows to the same peer share one controller; not with the client/server driver.
    pub share: Option<FlowShare>,
}

/// How the controller learns what arrived.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DriverChoice {
    /// From TCP's own acks; the peer needs to know nothing.
    #[default]
    Gate,
    /// From acks inside the stream: `docs/alcc-wire.md`. The peer must do the same; a listening
    /// end whose peer does not goes on as with [`Books`](Self::Gate).
    ClientServer {
        /// Which end this is.
        role: AlccRole,
    },
}

impl DriverChoice {
    /// So long a peer that connected may be silent before what is said to it first goes out plain.
    const HELLO_WAIT: Span = Span::from_millis(500);

    /// The client/server driver as it fits who made the connection: who opened it says hello,
    /// and who accepted it answers to one and is plain without.
    pub fn client_server(outgoing: bool) -> Self {
        let role = match outgoing {
            true => AlccRole::Connect,
            false => AlccRole::Listen { wait: Some(Self::HELLO_WAIT) },
        };
        Self::ClientServer { role }
    }
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
    /// Bytes that wait at most for the application to read them, and so the most that can be on
    /// their way to it.
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
pub(crate) fn is_small_half(half: &PeerHalf) -> bool {
    half.exists() && half.cost().is_ok()
}

/// A flow's part in a controller that all flows of an engine to the same peer address under the
/// same controller string share. Those that have data divide its window; one that has none leaves
/// its part to the others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FlowShare {
    /// The flow's part in relation to those of the others; 0 counts as 1.
    pub weight: u32,
}

impl FlowOptions {
    /// Bytes that wait at most by default: all of it is latency for the application.
    pub const QUEUE: usize = 256 << 10;

    /// The defaults for a controller.
    pub fn new(cc: ControllerSpec) -> Self {
        Self {
            cc,
            seed: 1,
            queue: Self::QUEUE,
            below: TcpCongestionControl::default(),
            send_buffer: None,
            driver: DriverChoice::Gate,
            framing: AlccLimits::default(),
            share: None,
        }
    }
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
