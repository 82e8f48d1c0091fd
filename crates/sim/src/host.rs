//! A bottleneck inside the sending host: what its flows may have waiting there.

use cellpace_base::Rate;
use cellpace_cc::{Controller, ControllerSpec, RttEstimator};
use cellpace_recovery::permitted_rate;

/// Where the bottleneck is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Bottleneck {
    /// Behind the first half of the RTT.
    #[default]
    Network,
    /// In the one host from which all flows leave, as where `tc` limits a server's own device. A
    /// packet is in the queue as soon as it is sent, and the whole RTT lies behind the link. In a
    /// chain it is the first link.
    Sender(HostBuffers),
}

impl Bottleneck {
    /// The buffers of the host, where it has the bottleneck.
    pub(crate) fn host(&self) -> Option<&HostBuffers> {
        match self {
            Self::Network => None,
            Self::Sender(buffers) => Some(buffers),
        }
    }
}

/// How much one flow may have in the host's queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostBuffers {
    /// Send buffer of a flow over UDP in bytes: Linux' `net.core.wmem_default`. A packet costs
    /// 2304 of them, so that 92 wait at most, and one more is refused.
    pub sndbuf: u64,
    /// What a flow of the kernel's TCP may have there (TCP small queues, Linux since 3.6). It
    /// waits until some of it has left.
    pub tsq: SmallQueue,
}

impl Default for HostBuffers {
    /// As Linux had it when the papers measured: 212 992 and 131 072 bytes.
    fn default() -> Self {
        Self { sndbuf: 212_992, tsq: SmallQueue::Bytes(131_072) }
    }
}

/// The limit of TCP small queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SmallQueue {
    /// Bytes on the wire: `tcp_limit_output_bytes`.
    Bytes(u64),
    /// What leaves in 1 ms at the rate of the connection, and at least two packets (Linux since 4.x).
    Auto,
}

/// What Linux charges the send buffer for a packet up to 1500 bytes.
const CHARGE: u64 = 2304;
/// Ethernet's header, checksum, preamble and gap.
const WIRE_OVERHEAD: u64 = 38;
/// Bytes of a full packet, IP header included.
const FULL_PACKET: u64 = 1500;

impl HostBuffers {
    /// Refuses buffers in which no packet has room.
    pub(crate) fn check(&self) -> Result<(), String> {
        if self.sndbuf < CHARGE {
            return Err(format!(
                "sndbuf: {} B hold no packet, which is charged {CHARGE} B",
                self.sndbuf
            ));
        }
        match self.tsq {
            SmallQueue::Bytes(bytes) if bytes < FULL_PACKET + WIRE_OVERHEAD => Err(format!(
                "tsq: {bytes} B hold no packet, which has {} B on the wire",
                FULL_PACKET + WIRE_OVERHEAD
            )),
            _ => Ok(()),
        }
    }

    /// The share of a flow under `cc`; `None`: of traffic of a constant rate.
    pub(crate) fn share(&self, cc: Option<&ControllerSpec>) -> HostShare {
        let is_tcp = cc.is_some_and(|cc| KERNEL_TCP.contains(&cc.name()));
        let limit = match (is_tcp, self.tsq) {
            (false, _) => HostLimit::Packets(self.sndbuf / CHARGE),
            (true, SmallQueue::Bytes(bytes)) => HostLimit::WireBytes(bytes),
            (true, SmallQueue::Auto) => HostLimit::Millisecond,
        };
        HostShare { limit, packets: 0, wire_bytes: 0, waits: false, refused: 0 }
    }
}

/// Controllers whose flows stand for TCP connections of the kernel; all others send over UDP.
const KERNEL_TCP: [&str; 7] = ["cubic", "newreno", "bic", "vegas", "bbr", "bbr3", "westwood"];

/// What one flow has in the host's queue.
pub(crate) struct HostShare {
    limit: HostLimit,
    packets: u64,
    wire_bytes: u64,
    /// The flow asks again as soon as something of it leaves.
    waits: bool,
    /// Packets that its socket has refused.
    pub(crate) refused: u64,
}

#[derive(Clone, Copy)]
enum HostLimit {
    Packets(u64),
    WireBytes(u64),
    Millisecond,
}

/// What becomes of a packet at the host's queue.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Admission {
    Enters,
    /// It stays where it is, and its controller is not told.
    Waits,
    /// The socket returns an error, and its controller reacts.
    Refused,
}

impl HostShare {
    /// Whether `bytes` of a flow over UDP, which has no connection to ask, enter.
    pub(crate) fn admit_plain(&mut self, bytes: u64) -> bool {
        // Only the socket's buffer refuses traffic without a connection; small queues are TCP's.
        let HostLimit::Packets(most) = self.limit else { return true };
        if self.packets >= most {
            self.refused += 1;
            // Its socket can be written to again once something has left.
            self.waits = true;
            return false;
        }
        self.enter(bytes);
        true
    }

    /// Whether a packet of `bytes` enters the queue.
    pub(crate) fn admit(
        &mut self,
        bytes: u64,
        controller: &dyn Controller,
        rtt: &RttEstimator,
    ) -> Admission {
        let most = match self.limit {
            HostLimit::Packets(_) => {
                let enters = self.admit_plain(bytes);
                return if enters { Admission::Enters } else { Admission::Refused };
            }
            HostLimit::WireBytes(most) => most,
            HostLimit::Millisecond => of_a_millisecond(permitted_rate(controller, rtt)),
        };
        self.waits = self.wire_bytes + bytes + WIRE_OVERHEAD > most;
        if self.waits {
            return Admission::Waits;
        }
        self.enter(bytes);
        Admission::Enters
    }

    fn enter(&mut self, bytes: u64) {
        self.packets += 1;
        self.wire_bytes += bytes + WIRE_OVERHEAD;
    }

    /// A packet has left the queue. Returns whether the flow should go on sending.
    pub(crate) fn leave(&mut self, bytes: u64) -> bool {
        self.packets -= 1;
        self.wire_bytes -= bytes + WIRE_OVERHEAD;
        std::mem::take(&mut self.waits)
    }
}

/// The limit by the rate of a connection; two packets while that is not known.
fn of_a_millisecond(rate: Option<Rate>) -> u64 {
    let in_time = rate.map_or(0.0, |rate| rate.as_bytes_per_sec() / 1000.0);
    (in_time as u64).max(2 * (FULL_PACKET + WIRE_OVERHEAD))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::{Pacing, Permit};

    struct Paced(u64);

    impl Controller for Paced {
        fn permit(&self) -> Permit {
            Permit::Window(u64::MAX)
        }
        fn pacing(&self) -> Option<Pacing> {
            Some(Pacing { rate: Rate::from_bps(self.0), burst: 1500 })
        }
    }

    /// How many full packets enter before one does not, and what becomes of that.
    fn room(buffers: HostBuffers, cc: &str, rate: u64) -> (u64, Admission) {
        let mut share = buffers.share(Some(&cc.parse().unwrap()));
        for entered in 0.. {
            match share.admit(1500, &Paced(rate), &RttEstimator::default()) {
                Admission::Enters => {}
                other => return (entered, other),
            }
        }
        unreachable!("the buffers are finite")
    }

    #[test]
    fn g7_a_socket_has_92_packets_and_small_queues_85() {
        let linux = HostBuffers::default();
        assert_eq!(room(linux, "verus", 0), (92, Admission::Refused));
        assert_eq!(room(linux, "cubic", 0), (85, Admission::Waits));
        let auto = HostBuffers { tsq: SmallQueue::Auto, ..linux };
        assert_eq!(room(auto, "cubic", 0), (2, Admission::Waits));
        // 1 ms of 123.04 Mbit/s is ten packets with what Ethernet adds.
        assert_eq!(room(auto, "bbr", 123_040_000), (10, Admission::Waits));
    }

    #[test]
    fn a_flow_of_tcp_goes_on_once_one_of_its_packets_has_left() {
        let mut share = HostBuffers::default().share(Some(&"cubic".parse().unwrap()));
        let rtt = RttEstimator::default();
        while share.admit(1500, &Paced(0), &rtt) == Admission::Enters {}
        assert!(share.leave(1500));
        assert!(!share.leave(1500), "it is asked once");
        assert_eq!(share.admit(1500, &Paced(0), &rtt), Admission::Enters);
        assert_eq!(share.refused, 0);
    }

    #[test]
    fn buffers_without_room_for_a_packet_are_refused() {
        let small = HostBuffers { sndbuf: 2303, ..HostBuffers::default() };
        assert!(small.check().unwrap_err().starts_with("sndbuf: 2303 B hold no packet"));
        let small = HostBuffers { tsq: SmallQueue::Bytes(1537), ..HostBuffers::default() };
        assert!(small.check().unwrap_err().starts_with("tsq: 1537 B hold no packet"));
    }
}
