//! One flow of the native transport: its data, and what it does with them.

use cellpace_base::Time;
use cellpace_measure::{MeasuredWindow, VideoFigures, VideoFrame};
use cellpace_udp::{CloseCode, FlowId, UdpFlow};

use super::data::{DataSink, DataSource, SourceState};
use super::record::{FlowRecord, FlowTotals};

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
    pub(super) end: FlowData,
    pub(super) record: FlowRecord,
    /// The source has nothing more.
    finished: bool,
}

impl FlowTotals {
    pub(super) fn of(flow: &UdpFlow) -> Self {
        if let Some(stats) = flow.outgoing() {
            return Self {
                bytes: stats.acked_bytes,
                ip_bytes: stats.acked_ip_bytes,
                packets: stats.packets,
                lost: Some(stats.lost),
                marked: stats.marked,
                ecn: stats.ecn,
                retransmissions: Some(stats.retransmissions),
                timeouts: Some(stats.timeouts),
                duplicates: None,
                acks: None,
                in_flight: Some(stats.in_flight),
                // Controllers without a window answer the largest number, which is no figure.
                cwnd: Some(stats.cwnd).filter(|cwnd| *cwnd != u64::MAX),
            };
        }
        let stats = flow.incoming().unwrap_or_default();
        Self {
            bytes: stats.bytes,
            ip_bytes: stats.ip_bytes,
            packets: stats.packets,
            // Numbers have no holes at the sender, so what is missing among them was lost or is
            // late.
            lost: Some(stats.next_number.saturating_sub(stats.packets)),
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
        let is_sender = matches!(end, FlowData::Source(_));
        Self { id, end, record: FlowRecord::new(name, peer, is_sender), finished: false }
    }

    pub(super) fn is_running(&self) -> bool {
        self.record.is_running()
    }

    /// Whether it runs and its source has not ended.
    pub(super) fn is_sending(&self) -> bool {
        self.is_running() && !self.finished
    }

    /// Whether [`work`](Self::work) would do anything.
    pub(super) fn has_work(&self, flow: &UdpFlow) -> bool {
        match &self.end {
            // An unreliable flow makes its bytes itself, when it may send.
            FlowData::Source(DataSource::None) => false,
            FlowData::Source(_) => !self.finished && flow.room() > 0,
            FlowData::Sink(_) => !flow.readable().0.is_empty(),
        }
    }

    /// Whether it waits for a reader of what it has received.
    pub(super) fn waits_for_reader(&self) -> bool {
        self.is_running() && matches!(&self.end, FlowData::Sink(sink) if sink.is_full())
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
        // The half-written file goes away with its sink, and gets no name.
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
        if self.record.ended.is_some() {
            return;
        }
        self.record.hash = flow.hash();
        let committed = match &mut self.end {
            // Before the sender hears that it is done: its exit code promises that the file has its
            // name.
            FlowData::Sink(sink) => sink.commit(),
            FlowData::Source(_) => Ok(()),
        };
        match committed {
            Ok(()) => {
                flow.close(now, CloseCode::Done, "");
                self.stop(now, flow);
            }
            Err(error) => self.storage_failed(now, flow, error.text),
        }
    }

    /// It failed.
    pub(super) fn fail(&mut self, now: Time, flow: &mut UdpFlow, reason: String) {
        if self.record.ended.is_none() {
            self.record.error = Some(reason);
            self.stop(now, flow);
        }
    }

    /// It is over.
    pub(super) fn stop(&mut self, now: Time, flow: &mut UdpFlow) {
        if self.record.ended.is_some() {
            return;
        }
        if let FlowData::Sink(sink) = &mut self.end {
            // A file without its name goes away.
            *sink = DataSink::Nowhere;
        }
        // Before the totals are taken: the last RTTs belong to the flow.
        self.observe(flow);
        if let Some(began) = self.record.began.filter(|_| self.record.ended.is_none()) {
            self.record.video = video_figures(flow, began, now);
        }
        self.record.end(now, FlowTotals::of(flow));
    }

    /// Takes what the flow has collected.
    pub(super) fn observe(&mut self, flow: &mut UdpFlow) {
        let record = &mut self.record;
        flow.take_rtts(|rtt| record.record_rtt(rtt));
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
