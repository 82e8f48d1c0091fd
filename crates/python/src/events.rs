//! What methods of controllers in Python are called with. Times are seconds, sizes bytes.

use cellpace_base::{Span, Time};
use cellpace_cc::{Ack, AckedPacket, Loss, LostPacket, Mark, RttEstimator, SentPacket, Timeout};
use pyo3::prelude::*;

fn smoothed(rtt: &RttEstimator) -> f64 {
    rtt.smoothed().map_or(0.0, Span::as_secs_f64)
}

fn minimum(rtt: &RttEstimator) -> f64 {
    rtt.minimum().map_or(0.0, Span::as_secs_f64)
}

/// A packet.
#[pyclass(frozen, get_all, module = "cellpace._native", name = "PacketEvent")]
#[derive(Clone)]
pub(crate) struct PacketEvent {
    number: u64,
    bytes: u64,
    sent_at: f64,
    rtt: Option<f64>,
    in_flight: Option<u64>,
    app_limited: bool,
    retransmission: bool,
}

impl PacketEvent {
    pub(crate) fn sent(packet: &SentPacket) -> Self {
        Self {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.now.as_secs_f64(),
            rtt: None,
            in_flight: Some(packet.in_flight),
            app_limited: packet.app_limited,
            retransmission: packet.retransmission,
        }
    }

    pub(crate) fn acked(packet: &AckedPacket) -> Self {
        Self {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.sent_at.as_secs_f64(),
            rtt: Some(packet.rtt.as_secs_f64()),
            in_flight: None,
            app_limited: packet.app_limited,
            retransmission: false,
        }
    }

    fn lost(packet: &LostPacket) -> Self {
        Self {
            number: packet.number,
            bytes: packet.bytes,
            sent_at: packet.sent_at.as_secs_f64(),
            rtt: None,
            in_flight: None,
            app_limited: false,
            retransmission: false,
        }
    }
}

/// An acknowledgment.
#[pyclass(frozen, module = "cellpace._native", name = "AckEvent")]
pub(crate) struct AckEvent {
    #[pyo3(get)]
    now: f64,
    #[pyo3(get)]
    rtt: f64,
    #[pyo3(get)]
    srtt: f64,
    #[pyo3(get)]
    min_rtt: f64,
    #[pyo3(get)]
    bytes: u64,
    #[pyo3(get)]
    in_flight: u64,
    #[pyo3(get)]
    prior_in_flight: u64,
    #[pyo3(get)]
    next_number: u64,
    packets: Vec<AckedPacket>,
}

impl AckEvent {
    pub(crate) fn of(ack: &Ack<'_>) -> Self {
        Self {
            now: ack.now.as_secs_f64(),
            rtt: ack.newest().rtt.as_secs_f64(),
            srtt: smoothed(ack.rtt),
            min_rtt: minimum(ack.rtt),
            bytes: ack.bytes(),
            in_flight: ack.in_flight,
            prior_in_flight: ack.prior_in_flight,
            next_number: ack.next_number,
            packets: ack.packets.to_vec(),
        }
    }
}

#[pymethods]
impl AckEvent {
    /// Made when it is asked for: most controllers need the sums alone.
    #[getter]
    fn packets(&self) -> Vec<PacketEvent> {
        self.packets.iter().map(PacketEvent::acked).collect()
    }
}

/// Packets given up for lost.
#[pyclass(frozen, get_all, module = "cellpace._native", name = "LossEvent")]
pub(crate) struct LossEvent {
    now: f64,
    srtt: f64,
    min_rtt: f64,
    bytes: u64,
    in_flight: u64,
    prior_in_flight: u64,
    next_number: u64,
    packets: Vec<PacketEvent>,
}

impl LossEvent {
    pub(crate) fn of(loss: &Loss<'_>) -> Self {
        Self {
            now: loss.now.as_secs_f64(),
            srtt: smoothed(loss.rtt),
            min_rtt: minimum(loss.rtt),
            bytes: loss.bytes(),
            in_flight: loss.in_flight,
            prior_in_flight: loss.prior_in_flight,
            next_number: loss.next_number,
            packets: loss.packets.iter().map(PacketEvent::lost).collect(),
        }
    }
}

/// Packets that arrived with a mark of congestion.
#[pyclass(frozen, get_all, module = "cellpace._native", name = "MarkEvent")]
pub(crate) struct MarkEvent {
    now: f64,
    packets: u64,
    newest: u64,
    in_flight: u64,
    prior_in_flight: u64,
    next_number: u64,
}

impl MarkEvent {
    pub(crate) fn of(mark: &Mark<'_>) -> Self {
        Self {
            now: mark.now.as_secs_f64(),
            packets: mark.packets,
            newest: mark.newest,
            in_flight: mark.in_flight,
            prior_in_flight: mark.prior_in_flight,
            next_number: mark.next_number,
        }
    }
}

/// The retransmission timer fired.
#[pyclass(frozen, get_all, module = "cellpace._native", name = "TimeoutEvent")]
pub(crate) struct TimeoutEvent {
    now: f64,
    prior_in_flight: u64,
    in_a_row: u32,
    next_number: u64,
}

impl TimeoutEvent {
    pub(crate) fn of(timeout: &Timeout) -> Self {
        Self {
            now: timeout.now.as_secs_f64(),
            prior_in_flight: timeout.prior_in_flight,
            in_a_row: timeout.in_a_row,
            next_number: timeout.next_number,
        }
    }
}

/// Sums of what happened in an epoch.
#[pyclass(frozen, module = "cellpace._native", name = "EpochEvent")]
#[derive(Clone, Default)]
pub(crate) struct EpochEvent {
    #[pyo3(get)]
    now: f64,
    #[pyo3(get)]
    sent_bytes: u64,
    #[pyo3(get)]
    acked_bytes: u64,
    #[pyo3(get)]
    acked_packets: u64,
    #[pyo3(get)]
    lost_bytes: u64,
    #[pyo3(get)]
    lost_packets: u64,
    #[pyo3(get)]
    in_flight: u64,
    #[pyo3(get)]
    srtt: f64,
    #[pyo3(get)]
    min_rtt: f64,
    rtt_sum: f64,
    rtt_low: f64,
    rtt_high: f64,
}

impl EpochEvent {
    pub(crate) fn sent(&mut self, packet: &SentPacket) {
        self.sent_bytes += packet.bytes;
        self.in_flight = packet.in_flight;
    }

    pub(crate) fn acked(&mut self, ack: &Ack<'_>) {
        for packet in ack.packets {
            let rtt = packet.rtt.as_secs_f64();
            self.rtt_low = if self.acked_packets == 0 { rtt } else { self.rtt_low.min(rtt) };
            self.rtt_high = self.rtt_high.max(rtt);
            self.rtt_sum += rtt;
            self.acked_packets += 1;
            self.acked_bytes += packet.bytes;
        }
        (self.in_flight, self.srtt, self.min_rtt) =
            (ack.in_flight, smoothed(ack.rtt), minimum(ack.rtt));
    }

    pub(crate) fn lost(&mut self, loss: &Loss<'_>) {
        self.lost_bytes += loss.bytes();
        self.lost_packets += loss.packets.len() as u64;
        self.in_flight = loss.in_flight;
    }

    /// The sums up to `now`; those of the next epoch begin.
    pub(crate) fn take(&mut self, now: Time) -> Self {
        let kept = Self {
            in_flight: self.in_flight,
            srtt: self.srtt,
            min_rtt: self.min_rtt,
            ..Self::default()
        };
        let sums = std::mem::replace(self, kept);
        Self { now: now.as_secs_f64(), ..sums }
    }
}

#[pymethods]
impl EpochEvent {
    /// Mean RTT of the packets acknowledged, in seconds; None where there were none.
    #[getter]
    fn rtt_mean(&self) -> Option<f64> {
        (self.acked_packets > 0).then(|| self.rtt_sum / self.acked_packets as f64)
    }

    /// Smallest RTT of the epoch in seconds.
    #[getter]
    fn rtt_min(&self) -> Option<f64> {
        (self.acked_packets > 0).then_some(self.rtt_low)
    }

    /// Largest RTT of the epoch in seconds.
    #[getter]
    fn rtt_max(&self) -> Option<f64> {
        (self.acked_packets > 0).then_some(self.rtt_high)
    }
}
