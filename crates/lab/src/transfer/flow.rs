//! One flow at run time: its data, its figures, its lines.

use cellpace_base::{Span, Time};
use cellpace_measure::{DelaySketch, MeasuredWindow, Summary, VideoFigures, VideoFrame};
use cellpace_report::short;
use cellpace_udp::{CloseCode, EcnState, FlowId, UdpFlow};

use super::data::{DataSink, DataSource, SourceState};
use super::document::{TransferFlowDocument, TransferInterval};
use super::series::{SeriesPoint, SeriesRecorder};

/// The data of a flow.
pub enum FlowData {
    /// What it sends.
    Source(DataSource),
    /// Where what it receives goes.
    Sink(DataSink),
}

/// One flow.
pub struct TransferFlow {
    pub(super) id: FlowId,
    pub(super) name: String,
    pub(super) peer: String,
    pub(super) end: FlowData,
    pub(super) began: Option<Time>,
    pub(super) ended: Option<Time>,
    pub(super) error: Option<String>,
    /// The source has nothing more.
    finished: bool,
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
    video: Option<VideoFigures>,
}

/// Figures from the beginning of a flow.
#[derive(Debug, Clone, Copy, Default)]
struct FlowTotals {
    bytes: u64,
    ip_bytes: u64,
    packets: u64,
    lost: u64,
    marked: u64,
    ecn: EcnState,
    retransmissions: Option<u64>,
    timeouts: Option<u64>,
    duplicates: Option<u64>,
    acks: Option<u64>,
    in_flight: Option<u64>,
    cwnd: Option<u64>,
}

impl FlowTotals {
    fn of(flow: &UdpFlow) -> Self {
        if let Some(stats) = flow.outgoing() {
            return Self {
                bytes: stats.acked_bytes,
                ip_bytes: stats.acked_ip_bytes,
                packets: stats.packets,
                lost: stats.lost,
                marked: stats.marked,
                ecn: stats.ecn,
                retransmissions: Some(stats.retransmissions),
                timeouts: Some(stats.timeouts),
                duplicates: None,
                acks: None,
                in_flight: Some(stats.in_flight),
                cwnd: Some(stats.cwnd).filter(|cwnd| *cwnd != u64::MAX),
            };
        }
        let stats = flow.incoming().unwrap_or_default();
        Self {
            bytes: stats.bytes,
            ip_bytes: stats.ip_bytes,
            packets: stats.packets,
            lost: stats.next_number.saturating_sub(stats.packets),
            marked: stats.marked,
            duplicates: Some(stats.duplicates),
            acks: Some(stats.acks),
            ..Self::default()
        }
    }
}

impl TransferFlow {
    /// A flow whose handshake has begun: its controller's name, its peer and its data.
    pub fn new(id: FlowId, name: String, peer: String, end: FlowData) -> Self {
        Self {
            id,
            name,
            peer,
            end,
            began: None,
            ended: None,
            error: None,
            finished: false,
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
        self.series = SeriesRecorder::new(now);
    }

    pub(super) fn is_running(&self) -> bool {
        self.began.is_some() && self.ended.is_none()
    }

    /// Whether it runs and its source has not ended.
    pub(super) fn is_sending(&self) -> bool {
        self.is_running() && !self.finished
    }

    /// Whether [`work`](Self::work) would do anything.
    pub(super) fn has_work(&self, flow: &UdpFlow) -> bool {
        match &self.end {
            FlowData::Source(DataSource::None) => false,
            FlowData::Source(_) => !self.finished && flow.room() > 0,
            FlowData::Sink(_) => !flow.readable().0.is_empty(),
        }
    }

    /// Moves data between the flow and its end.
    pub(super) fn work(&mut self, now: Time, flow: &mut UdpFlow) {
        match &mut self.end {
            FlowData::Source(source) => match source.fill(flow) {
                Ok(SourceState::No) => self.finish(flow),
                Ok(SourceState::Yes | SourceState::Later) => {}
                Err(error) => {
                    let reason = format!("cannot read: {error}");
                    flow.close(now, CloseCode::Stopped, "the sender cannot read on");
                    self.fail(now, flow, reason);
                }
            },
            FlowData::Sink(sink) => {
                if let Err(error) = sink.drain(flow) {
                    self.storage_failed(now, flow, format!("cannot write: {error}"));
                }
            }
        }
    }

    fn storage_failed(&mut self, now: Time, flow: &mut UdpFlow, reason: String) {
        flow.close(now, CloseCode::Storage, &reason);
        self.end = FlowData::Sink(DataSink::Nowhere);
        self.fail(now, flow, reason);
    }

    /// Nothing more is sent.
    fn finish(&mut self, flow: &mut UdpFlow) {
        self.finished = true;
        flow.finish();
    }

    /// Made-up bytes end here: those that have not left yet are as good as those that never do.
    pub(super) fn cut(&mut self, flow: &mut UdpFlow) {
        self.finished = true;
        flow.cut();
    }

    /// Everything was read: the file gets its name, and the sender is notified.
    pub(super) fn on_read(&mut self, now: Time, flow: &mut UdpFlow) {
        if self.ended.is_some() {
            return;
        }
        self.hash = flow.hash();
        let committed = match &mut self.end {
            FlowData::Sink(sink) => sink.commit(),
            FlowData::Source(_) => Ok(()),
        };
        match committed {
            Ok(()) => {
                flow.close(now, CloseCode::Done, "");
                self.stop(now, flow);
            }
            Err(reason) => self.storage_failed(now, flow, reason),
        }
    }

    /// It failed.
    pub(super) fn fail(&mut self, now: Time, flow: &mut UdpFlow, reason: String) {
        if self.ended.is_none() {
            self.error = Some(reason);
            self.stop(now, flow);
        }
    }

    /// It is over.
    pub(super) fn stop(&mut self, now: Time, flow: &mut UdpFlow) {
        if self.ended.is_some() {
            return;
        }
        if let FlowData::Sink(sink) = &mut self.end {
            // A file without its name goes away.
            *sink = DataSink::Nowhere;
        }
        self.observe(flow);
        if self.began.is_some() && now > self.interval_from {
            self.close_interval(now, flow);
        }
        self.last = FlowTotals::of(flow);
        self.video = self.began.and_then(|began| video_figures(flow, began, now));
        self.ended = Some(now);
    }

    /// Takes what the flow has collected.
    pub(super) fn observe(&mut self, flow: &mut UdpFlow) {
        let (sketch, (sum, count)) = (&mut self.rtt, &mut self.rtt_sum);
        let (total, min_rtt) = (&mut self.rtt_total, &mut self.min_rtt);
        flow.take_rtts(|rtt| {
            sketch.record(rtt);
            *sum += rtt;
            *count += 1;
            *total = (total.0 + rtt, total.1 + 1);
            *min_rtt = Some(min_rtt.map_or(rtt, |least| least.min(rtt)));
        });
    }

    /// Ends a bin of the series.
    pub(super) fn close_bin(&mut self, now: Time, flow: &UdpFlow) {
        self.series.push(self.point(now, &FlowTotals::of(flow)));
    }

    fn point(&self, at: Time, totals: &FlowTotals) -> SeriesPoint {
        let FlowTotals { ip_bytes, lost, cwnd, .. } = *totals;
        SeriesPoint { at, ip_bytes, lost, rtt: self.rtt_total, cwnd }
    }

    /// Ends the present interval.
    pub(super) fn close_interval(&mut self, now: Time, flow: &UdpFlow) {
        let (began, totals) = (self.began.unwrap_or(now), FlowTotals::of(flow));
        let (sum, count) = std::mem::take(&mut self.rtt_sum);
        self.intervals.push(TransferInterval {
            start_s: seconds(self.interval_from - began),
            stop_s: seconds(now - began),
            bytes: totals.bytes.saturating_sub(self.last.bytes),
            throughput_mbps: mbps(
                totals.ip_bytes.saturating_sub(self.last.ip_bytes),
                now - self.interval_from,
            ),
            lost: totals.lost.saturating_sub(self.last.lost),
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
        let is_sender = matches!(self.end, FlowData::Source(_));
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
            rtt_ms_seen: is_sender.then(|| self.rtt.summary()),
            min_rtt_ms: self.min_rtt.map(|rtt| round(rtt.as_millis_f64())),
            queue_delay_ms: self.min_rtt.map(|least| above(&self.rtt.summary(), least)),
            duplicates: self.last.duplicates,
            acks: self.last.acks,
            blake3: self.hash.map(|hash| hash.iter().map(|byte| format!("{byte:02x}")).collect()),
            video: self.video,
            intervals: self.intervals.clone(),
            series: self.series.series(end, flows, is_sender),
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
        line + &format!("   lost {}", interval.lost)
    }

    /// The line of the whole flow; `None` if it never began.
    pub(super) fn summary(&self) -> Option<String> {
        self.began?;
        let took = self.took();
        let mut line = format!(
            "{} in {:.2} s: {:.2} Mbit/s (payload {:.2}), {} packets, {} lost",
            bytes_for_people(self.last.bytes),
            took.as_secs_f64(),
            mbps(self.last.ip_bytes, took),
            mbps(self.last.bytes, took),
            self.last.packets,
            self.last.lost,
        );
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

/// The figures of a video's frames.
fn video_figures(flow: &UdpFlow, began: Time, ended: Time) -> Option<VideoFigures> {
    let (spec, frames) = flow.video()?;
    let frames = frames.into_iter().map(|frame| VideoFrame {
        captured: frame.captured,
        bytes: frame.bytes,
        complete: frame.complete,
        discarded: frame.discarded,
        rate: frame.rate,
    });
    let window = MeasuredWindow { skip: began, end: ended };
    Some(VideoFigures::of(frames, window, spec.fps, spec.deadline))
}

/// RTTs above the smallest: how long packets waited in queues.
fn above(rtt: &Summary, least: Span) -> Summary {
    let least = least.as_millis_f64();
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
