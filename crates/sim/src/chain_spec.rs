//! Links in series as they are described.

use cellpace_base::{Span, Window};
use cellpace_cc::ControllerSpec;
use cellpace_path::{DelaySpec, LossSpec, OPPORTUNITY_BYTES, QueueSpec, TraceSpec};

/// Links that a chain may have.
pub const MAX_SEGMENTS: usize = 4;

/// Links in front of that of the scenario, and a proxy between.
#[derive(Debug, Clone)]
pub struct ChainSpec {
    /// The links between the servers and the last one, in the order of data.
    pub before: Vec<SegmentSpec>,
    /// The name of the last link, which is the scenario's own.
    pub last: String,
    /// The proxy in front of the last link.
    pub proxy: Option<ProxySpec>,
}

/// One link of a chain.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// Its name.
    pub name: String,
    /// When it may deliver; `None`: whatever arrives leaves at once.
    pub trace: Option<TraceSpec>,
    /// The queue in front of it.
    pub queue: QueueSpec,
    /// Round-trip delay without queueing, half of it in each direction.
    pub rtt: DelaySpec,
    /// Random loss of data packets.
    pub loss: LossSpec,
    /// Random loss of what goes back.
    pub uplink_loss: LossSpec,
}

/// A proxy that acknowledges data to the servers, keeps it, and sends it on.
#[derive(Debug, Clone)]
pub struct ProxySpec {
    /// The controller towards the receivers.
    pub cc: ControllerSpec,
    /// What it keeps of each connection at most: received, and not acknowledged by the receiver.
    /// A packet counts 1500 bytes. `None`: any amount.
    pub buffer: Option<Window>,
    /// Whether it answers SYNs itself while it connects to the server; otherwise SYNs go on.
    pub is_early: bool,
}

impl SegmentSpec {
    /// A link without a limit, a delay, or losses.
    pub fn named(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            trace: None,
            queue: QueueSpec::default(),
            rtt: DelaySpec::default(),
            loss: LossSpec::None,
            uplink_loss: LossSpec::None,
        }
    }
}

impl ProxySpec {
    /// A proxy that keeps 1 MB of each connection and hands SYNs on.
    pub const fn new(cc: ControllerSpec) -> Self {
        Self { cc, buffer: Some(Window::Bytes(1_000_000)), is_early: false }
    }

    /// Packets that it has room for, at least one; `u64::MAX`: any number.
    pub(crate) fn room(&self) -> u64 {
        let packet = u64::from(OPPORTUNITY_BYTES);
        self.buffer.map_or(u64::MAX, |buffer| (buffer.bytes(packet) / packet).max(1))
    }
}

impl ChainSpec {
    /// The mean round-trip delay of the links in front of the last.
    pub(crate) fn rtt_before(&self) -> Span {
        let rtts = self.before.iter().map(|segment| segment.rtt.mean());
        rtts.fold(Span::ZERO, |sum, rtt| sum + rtt)
    }

    /// Checks what the types cannot.
    ///
    /// # Errors
    /// When there are too many links, or none in front of the last.
    pub fn check(&self) -> Result<(), String> {
        let links = self.before.len() + 1;
        if links > MAX_SEGMENTS {
            return Err(format!("{links} links in series; the most are {MAX_SEGMENTS}"));
        }
        if self.before.is_empty() {
            return Err("links in series are at least two".into());
        }
        Ok(())
    }
}
