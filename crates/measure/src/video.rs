//! Frames of a video: how long they took, which were late, and when the picture stood still.

use cellpace_base::{Rate, Span, Time};
use serde::{Deserialize, Serialize};

use crate::{DelaySketch, MeasuredWindow, Summary};

/// A frame and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct VideoFrame {
    /// When it was captured.
    pub captured: Time,
    /// Its size without headers.
    pub bytes: u64,
    /// When its last packet was at the receiver; `None` where a packet is missing.
    pub complete: Option<Time>,
    /// Whether packets of it were dropped at the sender.
    pub discarded: bool,
    /// The rate that the encoder had.
    pub rate: Rate,
}

/// The figures of a video flow.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct VideoFigures {
    /// Frames that count: captured in the part of the run that counts, and not so near to its end that
    /// nobody knows whether they are late.
    pub frames: u64,
    /// Mean rate of these frames, without headers, in Mbit/s.
    pub bitrate_mbps: f64,
    /// From capture to the arrival of the last packet, of frames that are complete.
    pub frame_delay_ms: Summary,
    /// Frames of which a packet is missing at the end, those dropped at the sender included.
    pub incomplete: u64,
    /// Frames dropped at the sender because they had waited too long.
    pub discarded: u64,
    /// The delay in ms beyond which a frame is late.
    pub deadline_ms: f64,
    /// Share of frames that are incomplete or later than that.
    pub late: f64,
    /// The same for 100 ms.
    pub late_100ms: f64,
    /// The same for 200 ms.
    pub late_200ms: f64,
    /// Times without a new complete frame that are longer than three frames and than one frame and
    /// 150 ms: the picture stood still.
    pub freezes: u64,
    /// Their sum in seconds.
    pub frozen_s: f64,
    /// Mean change of the encoder's rate, up or down, in Mbit/s per second.
    pub rate_change_mbps_per_s: f64,
}

/// The longest deadline by which frames may be counted as late.
const MAX_LATE: Span = Span::from_millis(200);

impl VideoFigures {
    /// The figures of frames in the order of capture, `fps` a second, that were captured in `window`,
    /// whose end is the flow's own if that is earlier.
    pub fn of(
        frames: impl IntoIterator<Item = VideoFrame>,
        window: MeasuredWindow,
        fps: f64,
        deadline: Span,
    ) -> Self {
        let undecided = deadline.max(MAX_LATE);
        let decided = |frame: &VideoFrame| {
            frame.captured >= window.skip && frame.captured + undecided <= window.end
        };
        let frames: Vec<VideoFrame> = frames.into_iter().filter(decided).collect();
        let mut delays = DelaySketch::new();
        for frame in &frames {
            if let Some(delay) = frame.delay() {
                delays.record(delay);
            }
        }
        let count = frames.len() as u64;
        let seconds = count as f64 / fps;
        let bytes: u64 = frames.iter().map(|frame| frame.bytes).sum();
        let share = |limit: Span| {
            let late =
                frames.iter().filter(|frame| frame.delay().is_none_or(|delay| delay > limit));
            round(late.count() as f64 / count.max(1) as f64)
        };
        let (freezes, frozen_s) = freezes(&frames, window.end, fps);
        Self {
            frames: count,
            bitrate_mbps: per_second(bytes as f64 * 8.0 / 1e6, seconds),
            frame_delay_ms: delays.summary(),
            incomplete: frames.iter().filter(|frame| frame.complete.is_none()).count() as u64,
            discarded: frames.iter().filter(|frame| frame.discarded).count() as u64,
            deadline_ms: deadline.as_millis_f64(),
            late: share(deadline),
            late_100ms: share(Span::from_millis(100)),
            late_200ms: share(MAX_LATE),
            freezes,
            frozen_s,
            rate_change_mbps_per_s: per_second(rate_changes(&frames), seconds),
        }
    }
}

impl VideoFrame {
    /// From capture to the arrival of the last packet.
    fn delay(&self) -> Option<Span> {
        self.complete.map(|complete| complete.since(self.captured))
    }
}

/// Gaps between complete frames, the last one up to `end`, that are longer than three frames and than
/// one and 150 ms (freezeCount of the W3C's webrtc-stats), and their sum in seconds.
fn freezes(frames: &[VideoFrame], end: Time, fps: f64) -> (u64, f64) {
    let Some(first) = frames.first() else { return (0, 0.0) };
    let frame = Span::from_secs_f64(1.0 / fps);
    let limit = (frame * 3).max(frame + Span::from_millis(150));
    let mut times: Vec<Time> = frames.iter().filter_map(|frame| frame.complete).collect();
    times.sort_unstable();
    let last = frames.last().map_or(end, |last| last.captured);
    let mut shown = first.captured;
    let (mut count, mut frozen) = (0, Span::ZERO);
    for time in times.into_iter().chain([last]) {
        let gap = time.since(shown);
        if gap > limit {
            count += 1;
            frozen += gap;
        }
        shown = shown.max(time);
    }
    (count, round(frozen.as_secs_f64()))
}

/// The sum of all changes of the encoder's rate, in Mbit/s.
fn rate_changes(frames: &[VideoFrame]) -> f64 {
    let change = |pair: &[VideoFrame]| (pair[1].rate.as_mbps() - pair[0].rate.as_mbps()).abs();
    frames.windows(2).map(change).sum()
}

fn per_second(amount: f64, seconds: f64) -> f64 {
    if seconds > 0.0 { round(amount / seconds) } else { 0.0 }
}

/// Six decimals.
fn round(value: f64) -> f64 {
    (value * 1e6).round() / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame(index: u64, delay_ms: Option<u64>) -> VideoFrame {
        let captured = Time::ZERO + Span::from_secs_f64(index as f64 / 25.0);
        VideoFrame {
            captured,
            bytes: 10_000,
            complete: delay_ms.map(|ms| captured + Span::from_millis(ms)),
            discarded: false,
            rate: Rate::from_bps(2_000_000 + 100_000 * (index % 2)),
        }
    }

    fn figures(frames: Vec<VideoFrame>) -> VideoFigures {
        let window = MeasuredWindow { skip: Time::from_secs(1), end: Time::from_secs(11) };
        VideoFigures::of(frames, window, 25.0, Span::from_millis(150))
    }

    #[test]
    fn a_steady_flow_has_its_rate_and_no_freeze() {
        let figures = figures((0..300).map(|index| frame(index, Some(40))).collect());
        // From 1 s up to 200 ms before the end at 11 s.
        assert_eq!(figures.frames, 246);
        assert_eq!((figures.bitrate_mbps, figures.late, figures.freezes), (2.0, 0.0, 0));
        assert_eq!((figures.frame_delay_ms.p50, figures.frame_delay_ms.max), (40.0, 40.0));
        // 100 kbit/s up or down with each frame but the first.
        assert!((figures.rate_change_mbps_per_s - 2.5 * 245.0 / 246.0).abs() < 1e-5);
    }

    #[test]
    fn late_and_missing_frames_are_counted_and_gaps_are_freezes() {
        let frames = (0..300).map(|index| match index {
            // Half a second without a frame.
            100..112 => frame(index, None),
            150 => frame(index, Some(120)),
            151 => frame(index, Some(180)),
            152 => frame(index, Some(400)),
            _ => frame(index, Some(40)),
        });
        let figures = figures(frames.collect());
        assert_eq!((figures.incomplete, figures.discarded), (12, 0));
        let late = |count: f64| round(count / 246.0);
        assert_eq!(figures.late_100ms, late(15.0));
        assert_eq!((figures.late, figures.late_200ms), (late(14.0), late(13.0)));
        assert_eq!((figures.freezes, figures.frozen_s), (1, 0.52));
    }

    #[test]
    fn a_picture_that_never_moves_again_is_a_freeze() {
        let figures =
            figures((0..300).map(|index| frame(index, (index < 100).then_some(40))).collect());
        assert_eq!(figures.freezes, 1);
        assert!((6.5..7.0).contains(&figures.frozen_s), "{}", figures.frozen_s);
    }

    #[test]
    fn no_frames_make_no_figures() {
        let figures = figures(Vec::new());
        assert_eq!((figures.frames, figures.late, figures.freezes), (0, 0.0, 0));
    }
}
