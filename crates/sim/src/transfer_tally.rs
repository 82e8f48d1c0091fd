//! What a connection notes of the transfer that it carries.

use std::ops::AddAssign;

use cellpace_base::statistics::nearest_rank;
use cellpace_base::{Span, Time};
use cellpace_measure::Transfer;

use crate::pieces::PACKET_BYTES;

/// What a sender has done so far.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct SenderCounts {
    pub(crate) sent: u64,
    pub(crate) retransmitted: u64,
    pub(crate) timeouts: u64,
    pub(crate) spurious_timeouts: u64,
    pub(crate) spurious_losses: u64,
}

impl AddAssign for SenderCounts {
    fn add_assign(&mut self, other: Self) {
        self.sent += other.sent;
        self.retransmitted += other.retransmitted;
        self.timeouts += other.timeouts;
        self.spurious_timeouts += other.spurious_timeouts;
        self.spurious_losses += other.spurious_losses;
    }
}

/// Figures of one transfer at its sender.
pub(crate) struct TransferTally {
    /// RTT of the handshake of its connection.
    base_rtt: Option<Span>,
    before: SenderCounts,
    first_sent: Option<Time>,
    /// The most that was in flight, each time that it grew.
    maxima: Vec<(Time, u64)>,
    rtts: u64,
    rtt_sum: Span,
    min_rtt: Option<Span>,
    /// Sum of what RTTs were above the base.
    above_base: Span,
    rtos_us: Vec<u32>,
}

impl TransferTally {
    /// A transfer begins on a connection whose sender has done `before`.
    pub(crate) fn new(base_rtt: Option<Span>, before: SenderCounts) -> Self {
        Self {
            base_rtt,
            before,
            first_sent: None,
            maxima: Vec::new(),
            rtts: 0,
            rtt_sum: Span::ZERO,
            min_rtt: None,
            above_base: Span::ZERO,
            rtos_us: Vec::new(),
        }
    }

    /// The first packet leaves.
    pub(crate) fn begin(&mut self, now: Time) {
        self.first_sent.get_or_insert(now);
    }

    /// A packet left, and `in_flight` bytes are in flight with it.
    pub(crate) fn on_sent(&mut self, now: Time, in_flight: u64) {
        self.begin(now);
        // Only new maxima: of them the ramp is found at the end, without every packet's value.
        if self.maxima.last().is_none_or(|(_, most)| in_flight > *most) {
            self.maxima.push((now, in_flight));
        }
    }

    /// An RTT was measured.
    pub(crate) fn on_rtt(&mut self, rtt: Span) {
        self.rtts += 1;
        self.rtt_sum += rtt;
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
        self.above_base += rtt - self.base_rtt.unwrap_or(Span::ZERO);
    }

    /// The retransmission timeout after an ack.
    pub(crate) fn on_rto(&mut self, rto: Span) {
        self.rtos_us.push(u32::try_from(rto.as_nanos() / 1_000).unwrap_or(u32::MAX));
    }

    /// When its first packet left.
    pub(crate) fn first_sent(&self) -> Option<Time> {
        self.first_sent
    }

    /// Fills in what the sender knows.
    pub(crate) fn fill(mut self, record: &mut Transfer, now: SenderCounts) {
        record.packets_sent = now.sent - self.before.sent;
        record.retransmitted = now.retransmitted - self.before.retransmitted;
        record.timeouts = now.timeouts - self.before.timeouts;
        record.spurious_timeouts = now.spurious_timeouts - self.before.spurious_timeouts;
        record.rto_ms = nearest_rank(&mut self.rtos_us, 0.5).map(|micros| f64::from(micros) / 1e3);
        let mean_ms = |sum: Span| round_ms(sum.as_millis_f64() / self.rtts as f64);
        record.min_rtt_ms = self.min_rtt.map(|rtt| round_ms(rtt.as_millis_f64()));
        if let Some(min) = self.min_rtt {
            record.mean_rtt_ms = Some(mean_ms(self.rtt_sum));
            record.self_inflicted_ms = Some(match self.base_rtt {
                Some(_) => mean_ms(self.above_base),
                // Without a handshake the smallest RTT of the transfer itself stands for the
                // path's.
                None => {
                    round_ms(self.rtt_sum.as_millis_f64() / self.rtts as f64 - min.as_millis_f64())
                }
            });
        }
        let most = self.maxima.last().map_or(0, |(_, most)| *most);
        record.largest_window_packets = most as f64 / PACKET_BYTES as f64;
        let high = self.maxima.iter().find(|(_, bytes)| *bytes as f64 >= 0.9 * most as f64);
        record.ramp_s = high
            .zip(self.first_sent)
            .map(|((reached, _), first)| round_ms((*reached - first).as_secs_f64() * 1e3) / 1e3);
    }
}

/// To whole microseconds.
pub(crate) fn round_ms(ms: f64) -> f64 {
    (ms * 1e3).round() / 1e3
}
