//! The frames of a video in an unreliable stream. No packet has parts of two frames.

use std::collections::VecDeque;

use cellpace_base::{Random, Span, Time};
use cellpace_cc::{Controller, RttEstimator};
use cellpace_recovery::{FrameRecord, VideoSource, VideoSpec};

/// A video as a stream of bytes, of which a frame is a range.
pub(crate) struct VideoStream {
    source: VideoSource,
    /// How long this side was not running in all, so that nothing was captured.
    paused: Span,
    /// Payload of a full packet.
    payload: u64,
    /// Frames whose packets may still leave or arrive, oldest first.
    frames: VecDeque<FrameRange>,
    /// The stream up to here is there to be sent.
    end: u64,
    /// Packets of all frames so far.
    packets: u64,
    clock: ReceiverClock,
}

#[derive(Debug, Clone, Copy)]
struct FrameRange {
    start: u64,
    end: u64,
    first_packet: u64,
}

/// Frames are captured late, one after the other, up to this time.
const MAX_LATE: Span = Span::from_millis(500);

/// Frames whose packets are remembered: two minutes at 30 a second.
const MAX_FRAMES: usize = 4096;

impl VideoStream {
    pub(crate) fn new(spec: &VideoSpec, now: Time, payload: usize, random: Random) -> Self {
        let payload = payload as u64;
        Self {
            source: VideoSource::new(spec, now, payload, random),
            paused: Span::ZERO,
            payload,
            frames: VecDeque::new(),
            end: 0,
            packets: 0,
            clock: ReceiverClock::default(),
        }
    }

    /// When the next frame is captured.
    pub(crate) fn next_capture(&self) -> Time {
        self.source.next_capture() + self.paused
    }

    /// A machine that slept does not capture at once what it has missed: the camera was off.
    pub(crate) fn skip_missed(&mut self, now: Time) {
        let late = now.since(self.next_capture());
        if late > MAX_LATE {
            self.paused += late;
        }
    }

    /// Captures the frame that is due. `next` is the first byte that has not been sent; returns it anew,
    /// as old frames may have been dropped.
    pub(crate) fn capture(
        &mut self,
        next: u64,
        controller: &mut dyn Controller,
        rtt: &RttEstimator,
    ) -> u64 {
        let sent = self.packet_at(next).unwrap_or(self.packets);
        let frame = self.source.capture(self.next_capture(), sent, controller, rtt);
        let start = self.end;
        self.end += frame.bytes;
        let (end, first_packet) = (self.end, self.packets);
        self.packets += frame.packets;
        if self.frames.len() == MAX_FRAMES {
            self.frames.pop_front();
        }
        self.frames.push_back(FrameRange { start, end, first_packet });
        if frame.discards { start } else { next }
    }

    fn frame_at(&self, offset: u64) -> Option<&FrameRange> {
        let behind = self.frames.partition_point(|frame| frame.start <= offset);
        self.frames.get(behind.checked_sub(1)?).filter(|frame| offset < frame.end)
    }

    /// The number of the packet that begins at this byte.
    fn packet_at(&self, offset: u64) -> Option<u64> {
        let frame = self.frame_at(offset)?;
        Some(frame.first_packet + (offset - frame.start) / self.payload)
    }

    /// Bytes of the packet that begins at `next`; zero where there is none.
    pub(crate) fn packet_bytes(&self, next: u64) -> u64 {
        self.frame_at(next).map_or(0, |frame| self.payload.min(frame.end - next))
    }

    /// The packet that begins at `offset`, sent at `sent_at`, is acknowledged at `now`.
    pub(crate) fn on_acked(
        &mut self,
        offset: u64,
        sent_at: Time,
        received_at: Option<Time>,
        now: Time,
        rtt: &RttEstimator,
    ) {
        let half = rtt.minimum().unwrap_or(Span::ZERO) / 2;
        let at = self.clock.arrival(sent_at, received_at, now, half);
        if let Some(packet) = self.packet_at(offset) {
            self.source.on_arrived(packet, at);
        }
    }

    /// A packet is lost.
    pub(crate) fn on_lost(&mut self) {
        self.source.on_lost();
    }

    /// The frames, in the order of capture, in times of the sender.
    pub(crate) fn frames(&self, rtt: &RttEstimator) -> Vec<FrameRecord> {
        let shift = self.clock.shift(rtt.minimum().unwrap_or(Span::ZERO) / 2);
        let shifted = |record: &FrameRecord| {
            let complete = record.complete.map(|complete| complete + shift);
            FrameRecord { complete, ..*record }
        };
        self.source.frames().map(shifted).collect()
    }

    pub(crate) fn spec(&self) -> &VideoSpec {
        self.source.spec()
    }
}

/// The receiver's clock by the sender's. The smallest one-way delay is taken for half of the smallest
/// RTT, so that of a path that is longer one way half the difference is wrong, in each delay alike.
#[derive(Debug, Default)]
struct ReceiverClock {
    /// The first difference of the clocks, in nanoseconds, and the smallest.
    first: Option<i64>,
    smallest: i64,
}

impl ReceiverClock {
    /// When a packet arrived, by a clock that [`shift`](Self::shift) corrects once all is known.
    fn arrival(&mut self, sent_at: Time, received_at: Option<Time>, now: Time, half: Span) -> Time {
        let Some(received_at) = received_at else {
            // The ack that said when was lost: at the latest so long ago that this ack could come.
            return Time::ZERO + (now - half).since(Time::ZERO + self.shift(half));
        };
        // The clocks may be any distance apart.
        let difference = received_at.as_nanos().wrapping_sub(sent_at.as_nanos()) as i64;
        let first = *self.first.get_or_insert_with(|| {
            self.smallest = difference;
            difference
        });
        self.smallest = self.smallest.min(difference);
        let from_first = difference.saturating_sub(first);
        Time::from_nanos(sent_at.as_nanos().saturating_add_signed(from_first))
    }

    /// What is to be added to arrivals. `half` of the smallest RTT is the smallest one-way delay.
    fn shift(&self, half: Span) -> Span {
        let first = self.first.unwrap_or(self.smallest);
        Span::from_nanos(first.saturating_sub(self.smallest).max(0) as u64) + half
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::Permit;

    struct Window;

    impl Controller for Window {
        fn permit(&self) -> Permit {
            Permit::Window(100_000)
        }
    }

    fn stream(text: &str) -> VideoStream {
        let spec = VideoSpec::read(text).unwrap();
        VideoStream::new(&spec, Time::from_secs(5), 1400, Random::seeded(1, 0))
    }

    fn rtt() -> RttEstimator {
        let mut rtt = RttEstimator::default();
        rtt.sample(Span::from_millis(40));
        rtt
    }

    #[test]
    fn packets_end_with_their_frame() {
        let mut video = stream("spread=0,rate=720kbit");
        // Frames of 3000 bytes.
        let next = video.capture(0, &mut Window, &rtt());
        video.capture(next, &mut Window, &rtt());
        let mut sizes = Vec::new();
        let mut at = 0;
        while video.packet_bytes(at) > 0 {
            sizes.push(video.packet_bytes(at));
            at += video.packet_bytes(at);
        }
        assert_eq!((sizes, at), (vec![1400, 1400, 200, 1400, 1400, 200], 6000));
    }

    #[test]
    fn frame_delays_do_not_depend_on_the_receivers_clock() {
        for offset_s in [0, 3600, -3600_i64] {
            let mut video = stream("spread=0,rate=240kbit");
            // One-way delays of 70, 50, 20 and 90 ms, where the smallest RTT is 40 ms.
            let mut next = 0;
            for delay_ms in [70, 50, 20, 90] {
                let sent = video.next_capture();
                next = video.capture(next, &mut Window, &rtt());
                let there = sent + Span::from_millis(delay_ms);
                let there = there.as_nanos().wrapping_add_signed(offset_s * 1_000_000_000);
                let there = Some(Time::from_nanos(there));
                video.on_acked(next, sent, there, sent + Span::from_millis(200), &rtt());
                next += video.packet_bytes(next);
            }
            let delays: Vec<u64> = video
                .frames(&rtt())
                .iter()
                .map(|frame| frame.complete.unwrap().since(frame.captured).as_nanos() / 1_000_000)
                .collect();
            assert_eq!(delays, [70, 50, 20, 90], "{offset_s}");
        }
    }

    #[test]
    fn an_arrival_without_its_time_is_dated_by_the_ack() {
        let mut video = stream("spread=0,rate=240kbit");
        let sent = video.next_capture();
        let next = video.capture(0, &mut Window, &rtt());
        video.on_acked(next, sent, None, sent + Span::from_millis(60), &rtt());
        let frame = video.frames(&rtt())[0];
        assert_eq!(frame.complete.unwrap().since(frame.captured), Span::from_millis(40));
    }

    #[test]
    fn a_machine_that_slept_does_not_make_up_for_it() {
        let mut video = stream("fps=25");
        video.capture(0, &mut Window, &rtt());
        let awake = Time::from_secs(3600);
        video.skip_missed(awake);
        assert_eq!(video.next_capture(), awake);
        video.skip_missed(awake + Span::from_millis(400));
        assert_eq!(video.next_capture(), awake, "a little late is late, not asleep");
    }

    #[test]
    fn old_frames_are_skipped() {
        let mut video = stream("spread=0,rate=240kbit,discard=100ms");
        let nexts: Vec<u64> = (0..6).map(|_| video.capture(0, &mut Window, &rtt())).collect();
        assert_eq!(nexts[..4], [0; 4]);
        assert_eq!(nexts[4], 4000);
    }
}
