//! Links in series as they are described.

use cellpace_base::{Span, Window};
use cellpace_cc::ControllerSpec;
use cellpace_path::{DelaySpec, DuplexSpec, OPPORTUNITY_BYTES};

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

/// The links over which a flow leads: all from the first to the last, which have these places.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkRoute {
    pub(crate) first: usize,
    pub(crate) last: usize,
}

/// One link of a chain.
#[derive(Debug, Clone)]
pub struct SegmentSpec {
    /// Its name.
    pub name: String,
    /// Both directions. Without a trace whatever arrives leaves at once.
    pub link: DuplexSpec,
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

impl ProxySpec {
    /// A proxy that keeps 1 MB of each connection and hands SYNs on.
    pub const fn new(cc: ControllerSpec) -> Self {
        Self { cc, buffer: Some(Window::Bytes(1_000_000)), is_early: false }
    }

    /// Packets that it has room for, at least one; `u64::MAX`: any number.
    pub(crate) fn room(&self) -> u64 {
        let packet = u64::from(OPPORTUNITY_BYTES);
        // At least one, or a connection through the proxy would never begin.
        self.buffer.map_or(u64::MAX, |buffer| (buffer.bytes(packet) / packet).max(1))
    }
}

impl ChainSpec {
    /// The first and the last link of a flow that leads over `path`; over all if it is empty.
    ///
    /// # Errors
    /// When there is no link of a name, or they are not one behind the other.
    pub(crate) fn route(&self, path: &[String]) -> Result<LinkRoute, String> {
        let names: Vec<&String> = self.before.iter().map(|link| &link.name).collect();
        let names = [names, vec![&self.last]].concat();
        let mut places = Vec::new();
        for name in path {
            let place = names.iter().position(|link| *link == name);
            places.push(place.ok_or_else(|| format!("there is no [path.{name}]"))?);
        }
        // A flow cannot skip a link: data leaves each link into the next one.
        if places.windows(2).any(|pair| pair[1] != pair[0] + 1) {
            return Err(format!("`{}` are not one behind the other", path.join("`, `")));
        }
        let first = places.first().copied().unwrap_or(0);
        Ok(LinkRoute { first, last: places.last().copied().unwrap_or(self.before.len()) })
    }

    /// The mean RTT of a route; `last` is that of the last link.
    pub(crate) fn rtt_of(&self, route: LinkRoute, last: &DelaySpec) -> Span {
        let before = self.before.iter().map(|segment| segment.link.rtt().mean());
        let rtts = before.chain([last.mean()]).skip(route.first);
        rtts.take(route.last + 1 - route.first).fold(Span::ZERO, |sum, rtt| sum + rtt)
    }

    /// The mean round-trip delay of the links in front of the last.
    pub(crate) fn rtt_before(&self) -> Span {
        let rtts = self.before.iter().map(|segment| segment.link.rtt().mean());
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
