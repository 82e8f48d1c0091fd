//! Echo requests: small packets through both queues, answered at once.

use cellpace_base::{Span, Time};
use cellpace_measure::{DelaySketch, MeasuredWindow, PingFigures};
use cellpace_path::Packet;

/// A series of echo requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PingSpec {
    /// The time from one request to the next, 1 ms or more.
    pub every: Span,
    /// Bytes of a request and of its answer, IP header included: 28 to 65535.
    pub size: u32,
    /// The user of the cell whose channel it uses, where there is a cell.
    pub user: Option<String>,
}

/// The shortest IPv4 header, and ICMP's.
const MIN_SIZE: u32 = 28;
/// The largest IPv4 packet.
const MAX_SIZE: u32 = 65_535;
/// As `ping` sends: 56 bytes and their headers.
const DEFAULT_SIZE: u32 = 84;
/// Requests of a series at most.
const MAX_REQUESTS: u64 = 1_000_000;

impl Default for PingSpec {
    /// 84 bytes each second.
    fn default() -> Self {
        Self { every: Span::from_secs(1), size: DEFAULT_SIZE, user: None }
    }
}

impl PingSpec {
    /// Checks size, interval and number.
    pub(crate) fn check(&self, duration: Span) -> Result<(), String> {
        if !(MIN_SIZE..=MAX_SIZE).contains(&self.size) {
            return Err(format!("size: {} B; allowed: {MIN_SIZE} to {MAX_SIZE} B", self.size));
        }
        if self.every < Span::from_millis(1) {
            return Err(format!("every: {}; the least is 1 ms", self.every));
        }
        let requests = duration.as_nanos().div_ceil(self.every.as_nanos());
        match requests > MAX_REQUESTS {
            true => Err(format!("every: {requests} requests; the most are {MAX_REQUESTS}")),
            false => Ok(()),
        }
    }
}

/// A series while it is run. Requests carry their number as the id of the packet.
#[derive(Debug)]
pub(crate) struct PingSeries {
    spec: PingSpec,
    sent: u64,
    /// No request leaves from here on.
    end: Time,
    /// The RTT of each request; none while there is no answer.
    rtts: Vec<Option<Span>>,
}

impl PingSeries {
    pub(crate) fn new(spec: PingSpec, end: Time) -> Self {
        Self { spec, sent: 0, end, rtts: Vec::new() }
    }

    /// When the next request leaves; the first at the beginning of the run.
    pub(crate) fn next(&self) -> Time {
        let next = Time::ZERO + self.spec.every * self.sent;
        if next < self.end { next } else { Time::MAX }
    }

    /// The request that leaves now, if one does, as a packet of the flow `flow`.
    pub(crate) fn due(&mut self, now: Time, flow: usize) -> Option<Packet> {
        if self.next() > now {
            return None;
        }
        self.sent += 1;
        self.rtts.push(None);
        Some(Packet::new(self.sent - 1, flow as u32, self.spec.size, now))
    }

    /// An answer came. Of several to one request the first counts.
    pub(crate) fn answered(&mut self, now: Time, number: u64) {
        let sent = Time::ZERO + self.spec.every * number;
        if let Some(rtt) = self.rtts.get_mut(number as usize) {
            // The request's time follows from its number, so that none has to be kept.
            rtt.get_or_insert(now - sent);
        }
    }

    /// The series, and the figures of the requests that left within the window.
    pub(crate) fn finish(self, window: MeasuredWindow) -> PingFigures {
        let (mut sketch, mut sent) = (DelaySketch::new(), 0);
        for (number, rtt) in (0..).zip(&self.rtts) {
            // By the time of sending, so that a request counts or not whatever becomes of it.
            if Time::ZERO + self.spec.every * number >= window.skip {
                sent += 1;
                rtt.iter().for_each(|rtt| sketch.record(*rtt));
            }
        }
        let millis = |rtt: &Option<Span>| rtt.map(|rtt| rtt.as_millis_f64() as f32);
        PingFigures {
            every_s: self.spec.every.as_secs_f64(),
            size_bytes: self.spec.size,
            sent,
            answered: sketch.count(),
            rtt_ms: (sketch.count() > 0).then(|| sketch.summary()),
            quantiles_ms: sketch.quantiles_ms(),
            rtts_ms: self.rtts.iter().map(millis).collect(),
        }
    }
}
