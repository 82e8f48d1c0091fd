//! What happened to a flow in one step.

use cellpace_base::{Span, Time};

use super::signals::SignalStatistics;
use crate::{Ack, AckedPacket, Loss, RttEstimator, SentPacket, Timeout};

/// What happened in one step, from after [`start`](Self::start) up to and including
/// [`end`](Self::end). Times are seconds, sizes bytes with headers.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StepRecord {
    /// When the step began.
    pub start: Time,
    /// When it ended.
    pub end: Time,
    /// Packets sent, retransmissions included.
    pub sent_packets: u64,
    /// Their bytes.
    pub sent_bytes: u64,
    /// Packets acknowledged.
    pub acked_packets: u64,
    /// Their bytes.
    pub acked_bytes: u64,
    /// Packets declared lost, those in flight at a timeout included.
    pub lost_packets: u64,
    /// Their bytes.
    pub lost_bytes: u64,
    /// Retransmission timeouts.
    pub timeouts: u64,
    /// Sum of the RTTs of the acknowledged packets, in s.
    pub rtt_sum: f64,
    /// The smallest of them, in s; 0 without any.
    pub rtt_min: f64,
    /// The largest of them, in s; 0 without any.
    pub rtt_max: f64,
    /// Slope of the RTT over the time of the ack, in s per s (least squares, as in PCC Vivace,
    /// section 3.1); 0 with fewer than two times.
    pub gradient: f64,
    /// Smoothed RTT at the end, in s; 0 before the first sample.
    pub srtt: f64,
    /// The smallest RTT of the connection, in s; 0 before the first sample.
    pub min_rtt: f64,
    /// The smallest mean RTT of any step so far, in s; 0 before the first sample.
    pub min_mean_rtt: f64,
    /// The largest [`throughput`](Self::throughput) of any step so far, in bytes per s.
    pub max_throughput: f64,
    /// Bytes in flight at the end.
    pub in_flight: u64,
    /// The window at the end, in bytes.
    pub window: u64,
    /// The pacing rate at the end, in bytes per s; 0 where nothing is paced.
    pub rate: f64,
    /// From the last ack to the end of the step, in s; from the start of the flow before any.
    pub since_ack: f64,
    /// Bytes of a full packet.
    pub mss: u64,
}

impl StepRecord {
    /// Length of the step, in s.
    pub fn duration(&self) -> f64 {
        (self.end - self.start).as_secs_f64()
    }

    /// Bytes acknowledged per s.
    pub fn throughput(&self) -> f64 {
        ratio(self.acked_bytes as f64, self.duration(), 0.0)
    }

    /// Bytes sent per s.
    pub fn send_rate(&self) -> f64 {
        ratio(self.sent_bytes as f64, self.duration(), 0.0)
    }

    /// Bytes declared lost per s.
    pub fn loss_rate(&self) -> f64 {
        ratio(self.lost_bytes as f64, self.duration(), 0.0)
    }

    /// Lost bytes among those acknowledged or lost, 0 to 1.
    pub fn loss_ratio(&self) -> f64 {
        ratio(self.lost_bytes as f64, (self.lost_bytes + self.acked_bytes) as f64, 0.0)
    }

    /// Mean RTT of the acknowledged packets, in s; 0 without any.
    pub fn mean_rtt(&self) -> f64 {
        ratio(self.rtt_sum, self.acked_packets as f64, 0.0)
    }

    /// The RTT that a sender would go by, in s: the mean, or without acks what is known of the
    /// next sample, which is at least the time since the last ack and the smoothed RTT.
    pub fn expected_rtt(&self) -> f64 {
        if self.acked_packets > 0 { self.mean_rtt() } else { self.srtt.max(self.since_ack) }
    }
}

/// `over / under`, or `without` where there is nothing below.
pub(super) fn ratio(over: f64, under: f64, without: f64) -> f64 {
    if under > 0.0 { over / under } else { without }
}

/// Sums for a slope by least squares.
#[derive(Debug, Clone, Copy, Default)]
struct SlopeSums {
    n: f64,
    t: f64,
    y: f64,
    tt: f64,
    ty: f64,
}

impl SlopeSums {
    fn add(&mut self, t: f64, y: f64) {
        self.n += 1.0;
        self.t += t;
        self.y += y;
        self.tt += t * t;
        self.ty += t * y;
    }

    fn slope(&self) -> f64 {
        let spread = self.n * self.tt - self.t * self.t;
        // Times of one instant differ by rounding alone.
        if spread <= 1e-12 * self.n * self.tt.max(1e-12) {
            return 0.0;
        }
        (self.n * self.ty - self.t * self.y) / spread
    }
}

/// Collects the record of the present step, and the signals of each ack if they are wanted.
#[derive(Debug, Clone)]
pub(super) struct StepMeter {
    record: StepRecord,
    slope: SlopeSums,
    last_ack: Time,
    pub(super) signals: Option<Box<SignalStatistics>>,
}

impl StepMeter {
    pub(super) fn new(start: Time, mss: u64, signals: bool) -> Self {
        let record = StepRecord { start, end: start, mss, ..StepRecord::default() };
        let signals = signals.then(Box::<SignalStatistics>::default);
        Self { record, slope: SlopeSums::default(), last_ack: start, signals }
    }

    pub(super) fn on_sent(&mut self, packet: &SentPacket) {
        self.record.sent_packets += 1;
        self.record.sent_bytes += packet.bytes;
        self.record.in_flight = packet.in_flight;
        if let Some(signals) = &mut self.signals {
            signals.on_sent(packet);
        }
    }

    pub(super) fn on_ack(&mut self, ack: &Ack<'_>, window: u64) {
        let at = (ack.now - self.record.start).as_secs_f64();
        for packet in ack.packets {
            self.take_rtt(at, packet);
        }
        self.last_ack = ack.now;
        self.record.in_flight = ack.in_flight;
        self.note_rtt(ack.rtt);
        if let Some(signals) = &mut self.signals {
            signals.on_ack(ack, window);
        }
    }

    fn take_rtt(&mut self, at: f64, packet: &AckedPacket) {
        let (record, rtt) = (&mut self.record, packet.rtt.as_secs_f64());
        record.rtt_min = if record.acked_packets == 0 { rtt } else { record.rtt_min.min(rtt) };
        record.rtt_max = record.rtt_max.max(rtt);
        record.rtt_sum += rtt;
        record.acked_packets += 1;
        record.acked_bytes += packet.bytes;
        self.slope.add(at, rtt);
    }

    fn note_rtt(&mut self, rtt: &RttEstimator) {
        self.record.srtt = rtt.smoothed().map_or(0.0, Span::as_secs_f64);
        self.record.min_rtt = rtt.minimum().map_or(0.0, Span::as_secs_f64);
    }

    pub(super) fn on_loss(&mut self, loss: &Loss<'_>, window: u64) {
        self.record.lost_packets += loss.packets.len() as u64;
        self.record.lost_bytes += loss.bytes();
        self.record.in_flight = loss.in_flight;
        if let Some(signals) = &mut self.signals {
            signals.on_loss(loss, window);
        }
    }

    pub(super) fn on_timeout(&mut self, timeout: &Timeout) {
        self.record.timeouts += 1;
        self.record.lost_bytes += timeout.prior_in_flight;
        self.record.lost_packets += timeout.prior_in_flight.div_ceil(self.record.mss.max(1));
        self.record.in_flight = 0;
        if let Some(signals) = &mut self.signals {
            signals.on_timeout();
        }
    }

    /// What was learnt of the old path no longer holds.
    pub(super) fn on_path_change(&mut self) {
        (self.record.srtt, self.record.min_rtt) = (0.0, 0.0);
        (self.record.min_mean_rtt, self.record.max_throughput) = (0.0, 0.0);
    }

    pub(super) fn mss(&self) -> u64 {
        self.record.mss
    }

    /// The smoothed RTT, once there is one.
    pub(super) fn srtt(&self) -> Option<Span> {
        (self.record.srtt > 0.0).then(|| Span::from_secs_f64(self.record.srtt))
    }

    /// Ends the step at `now`. The next one begins with [`begin`](Self::begin).
    pub(super) fn close(&mut self, now: Time, window: u64, rate: f64) -> StepRecord {
        let record = &mut self.record;
        record.end = now;
        record.gradient = self.slope.slope();
        record.since_ack = (now - self.last_ack).as_secs_f64();
        record.max_throughput = record.max_throughput.max(record.throughput());
        let mean = record.mean_rtt();
        if mean > 0.0 && (record.min_mean_rtt == 0.0 || mean < record.min_mean_rtt) {
            record.min_mean_rtt = mean;
        }
        (record.window, record.rate) = (window, rate);
        *record
    }

    pub(super) fn begin(&mut self) {
        let before = self.record;
        self.slope = SlopeSums::default();
        self.record = StepRecord {
            start: before.end,
            end: before.end,
            srtt: before.srtt,
            min_rtt: before.min_rtt,
            min_mean_rtt: before.min_mean_rtt,
            max_throughput: before.max_throughput,
            in_flight: before.in_flight,
            mss: before.mss,
            ..StepRecord::default()
        };
        if let Some(signals) = &mut self.signals {
            signals.begin();
        }
    }
}
