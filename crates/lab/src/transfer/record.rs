//! The figures of one flow while it goes on, and its lines for people.

use cellpace_base::{Span, Time};
use cellpace_measure::{DelaySketch, Summary, VideoFigures};
use cellpace_report::short;
use cellpace_udp::EcnState;

use super::document::{TransferFlowDocument, TransferInterval};
use super::series::{SeriesPoint, SeriesRecorder};

/// Figures from the beginning of a flow.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct FlowTotals {
    pub(super) bytes: u64,
    pub(super) ip_bytes: u64,
    pub(super) packets: u64,
    /// `None`: not known at this side.
    pub(super) lost: Option<u64>,
    pub(super) marked: u64,
    pub(super) ecn: EcnState,
    pub(super) retransmissions: Option<u64>,
    pub(super) timeouts: Option<u64>,
    pub(super) duplicates: Option<u64>,
    pub(super) acks: Option<u64>,
    pub(super) in_flight: Option<u64>,
    pub(super) cwnd: Option<u64>,
}

/// What is known of one flow.
pub(super) struct FlowRecord {
    /// The controller's name; empty at a receiver.
    pub(super) name: String,
    pub(super) peer: String,
    pub(super) began: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) error: Option<String>,
    pub(super) is_sender: bool,
    rtt: DelaySketch,
    min_rtt: Option<Span>,
    /// Sum and number of the samples of the interval.
    rtt_sum: (Span, u32),
    /// Of the whole flow.
    rtt_total: (Span, u64),
    series: SeriesRecorder,
    last: FlowTotals,
    interval_from: Time,
    pub(super) intervals: Vec<TransferInterval>,
    pub(super) hash: Option<[u8; 32]>,
    pub(super) video: Option<VideoFigures>,
}

impl FlowRecord {
    /// A flow whose handshake has begun.
    pub(super) fn new(name: String, peer: String, is_sender: bool) -> Self {
        Self {
            name,
            peer,
            began: None,
            ended: None,
            error: None,
            is_sender,
            rtt: DelaySketch::new(),
            min_rtt: None,
            rtt_sum: (Span::ZERO, 0),
            rtt_total: (Span::ZERO, 0),
            series: SeriesRecorder::default(),
            last: FlowTotals::default(),
            interval_from: Time::ZERO,
            intervals: Vec::new(),
            hash: None,
            video: None,
        }
    }

    /// The handshake is done.
    pub(super) fn begin(&mut self, now: Time) {
        self.began = Some(now);
        self.interval_from = now;
        // Bins count from the flow's beginning, however long its handshake took.
        self.series = SeriesRecorder::new(now);
    }

    pub(super) fn is_running(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// It is over, with these totals.
    pub(super) fn end(&mut self, now: Time, totals: FlowTotals) {
        if self.ended.is_some() {
            return;
        }
        // The last interval is shorter than the others, and none where it would be empty.
        if self.began.is_some() && now > self.interval_from {
            self.close_interval(now, totals);
        }
        self.last = totals;
        self.ended = Some(now);
    }

    /// The sender saw an RTT.
    pub(super) fn record_rtt(&mut self, rtt: Span) {
        self.rtt.record(rtt);
        self.rtt_sum = (self.rtt_sum.0 + rtt, self.rtt_sum.1 + 1);
        self.rtt_total = (self.rtt_total.0 + rtt, self.rtt_total.1 + 1);
        self.min_rtt = Some(self.min_rtt.map_or(rtt, |least| least.min(rtt)));
    }

    /// Ends a bin of the series.
    pub(super) fn close_bin(&mut self, now: Time, totals: &FlowTotals) {
        self.series.push(self.point(now, totals));
    }

    fn point(&self, at: Time, totals: &FlowTotals) -> SeriesPoint {
        let FlowTotals { ip_bytes, lost, cwnd, .. } = *totals;
        SeriesPoint { at, ip_bytes, lost, rtt: self.rtt_total, cwnd }
    }

    /// Ends the present interval.
    pub(super) fn close_interval(&mut self, now: Time, totals: FlowTotals) {
        let began = self.began.unwrap_or(now);
        let (sum, count) = std::mem::take(&mut self.rtt_sum);
        self.intervals.push(TransferInterval {
            start_s: seconds(self.interval_from - began),
            stop_s: seconds(now - began),
            bytes: totals.bytes.saturating_sub(self.last.bytes),
            throughput_mbps: mbps(
                totals.ip_bytes.saturating_sub(self.last.ip_bytes),
                now - self.interval_from,
            ),
            // Totals may fall: a packet that was taken for lost and comes late is lost no longer.
            lost: totals.lost.map(|lost| lost.saturating_sub(self.last.lost.unwrap_or(0))),
            rtt_ms: (count > 0).then(|| round((sum / u64::from(count)).as_millis_f64())),
            in_flight: totals.in_flight,
            cwnd: totals.cwnd,
        });
        self.last = totals;
        self.interval_from = now;
    }

    /// Its figures, once it is over, as one of `flows` in a document.
    pub(super) fn document(&self, flows: usize) -> TransferFlowDocument {
        let took = self.took();
        let end = self.point(self.ended.unwrap_or_default(), &self.last);
        TransferFlowDocument {
            cc: self.name.clone(),
            peer: self.peer.clone(),
            start_s: self.began.map(|time| round(time.as_secs_f64())),
            stop_s: self.ended.map(|time| round(time.as_secs_f64())),
            error: self.error.clone(),
            bytes: self.last.bytes,
            throughput_mbps: mbps(self.last.ip_bytes, took),
            goodput_mbps: mbps(self.last.bytes, took),
            packets: self.last.packets,
            lost: self.last.lost,
            marked: Some(self.last.marked).filter(|marked| *marked > 0),
            ecn: self.last.ecn.outcome(),
            retransmissions: self.last.retransmissions,
            timeouts: self.last.timeouts,
            rtt_ms_seen: self.is_sender.then(|| self.rtt.summary()),
            min_rtt_ms: self.min_rtt.map(|rtt| round(rtt.as_millis_f64())),
            // Above the shortest RTT, which takes no clock of the other side: acks may have waited
            // in that delay, too.
            queue_delay_ms: self.min_rtt.map(|least| above(&self.rtt.summary(), least)),
            duplicates: self.last.duplicates,
            acks: self.last.acks,
            blake3: self.hash.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect()),
            video: self.video,
            intervals: self.intervals.clone(),
            series: self.series.series(end, flows, self.is_sender),
        }
    }

    fn took(&self) -> Span {
        match (self.began, self.ended) {
            (Some(began), Some(ended)) => ended - began,
            _ => Span::ZERO,
        }
    }

    /// The line of the last interval.
    pub(super) fn line(&self) -> String {
        let Some(interval) = self.intervals.last() else { return String::new() };
        let mut line = format!(
            "{:5.1}-{:<5.1} s {:>9} {:>9.2} Mbit/s",
            interval.start_s,
            interval.stop_s,
            bytes_for_people(interval.bytes),
            interval.throughput_mbps,
        );
        if let Some(in_flight) = interval.in_flight {
            let rtt = interval.rtt_ms.map_or("-".into(), |rtt| format!("{rtt:.1} ms"));
            let cwnd = interval.cwnd.map_or("-".into(), bytes_for_people);
            line += &format!(
                "   rtt {rtt:>9}   in flight {:>9}   window {cwnd:>9}",
                bytes_for_people(in_flight)
            );
        }
        match interval.lost {
            Some(lost) => line + &format!("   lost {lost}"),
            None => line,
        }
    }

    /// The line of the whole flow; `None` if it never began.
    pub(super) fn summary(&self) -> Option<String> {
        self.began?;
        let took = self.took();
        let mut line = format!(
            "{} in {:.2} s: {:.2} Mbit/s (payload {:.2}), {} packets",
            bytes_for_people(self.last.bytes),
            took.as_secs_f64(),
            mbps(self.last.ip_bytes, took),
            mbps(self.last.bytes, took),
            self.last.packets,
        );
        if let Some(lost) = self.last.lost {
            line += &format!(", {lost} lost");
        }
        if self.last.marked > 0 {
            line += &format!(", {} marked", self.last.marked);
        }
        if let EcnState::Failed(why) = self.last.ecn {
            line += &format!(", no ECN on this path ({why})");
        }
        if let Some(least) = self.min_rtt {
            let queue = above(&self.rtt.summary(), least);
            line += &format!(
                ", rtt min {} ms, queue delay p50 {} p95 {} p99 {} ms",
                short(least.as_millis_f64()),
                short(queue.p50),
                short(queue.p95),
                short(queue.p99),
            );
        }
        if let Some(video) = &self.video {
            line += &format!(
                ", frames {} Mbit/s, frame delay p50 {} p95 {} ms, late {} %, freezes {}",
                short(video.bitrate_mbps),
                short(video.frame_delay_ms.p50),
                short(video.frame_delay_ms.p95),
                short(video.late * 100.0),
                video.freezes,
            );
        }
        Some(line)
    }
}

/// RTTs above the smallest: how long packets waited in queues.
fn above(rtt: &Summary, least: Span) -> Summary {
    let least = least.as_millis_f64();
    // Never below zero: the sketch rounds, and the smallest RTT is exact.
    let [mean, p50, p95, p99, max] =
        [rtt.mean, rtt.p50, rtt.p95, rtt.p99, rtt.max].map(|ms| round((ms - least).max(0.0)));
    Summary { mean, p50, p95, p99, max }
}

fn seconds(span: Span) -> f64 {
    round(span.as_secs_f64())
}

fn round(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Mean rate.
fn mbps(bytes: u64, span: Span) -> f64 {
    let seconds = span.as_secs_f64();
    if seconds > 0.0 { round(bytes as f64 * 8.0 / 1e6 / seconds) } else { 0.0 }
}

fn bytes_for_people(bytes: u64) -> String {
    match bytes as f64 {
        n if n >= 1e9 => format!("{:.2} GB", n / 1e9),
        n if n >= 1e6 => format!("{:.1} MB", n / 1e6),
        n if n >= 1e3 => format!("{:.1} kB", n / 1e3),
        _ => format!("{bytes} B"),
    }
}
