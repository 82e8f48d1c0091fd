//! A video source: frames at a fixed rate whose sizes follow what the controller lets through, and what
//! becomes of each. It is limited by itself most of the time, unlike a source that always has more.

use std::collections::VecDeque;

use cellpace_base::math::exp;
use cellpace_base::{ParamSet, Random, Rate, Span, Time, params};
use cellpace_cc::{Controller, Frame, RttEstimator};

/// Where the parameters come from.
const SPEC: &str = "docs/spec/scream.md section 9";

params! {
    /// A video source.
    #[derive(PartialEq)]
    pub struct VideoSpec {
        /// Frames per second
        fps: f64 = "30" in 1.0..=240.0, from SPEC;
        /// The encoder's rate; what the controller lets through while unset
        rate: Option<Rate> = "" in Rate::from_bps(1_000)..=Rate::from_bps(10_000_000_000), from SPEC;
        /// The encoder's smallest rate
        min: Rate = "100kbit" in Rate::from_bps(1_000)..=Rate::from_bps(10_000_000_000), from SPEC;
        /// The encoder's largest rate
        max: Rate = "20mbit" in Rate::from_bps(1_000)..=Rate::from_bps(10_000_000_000), from SPEC;
        /// How fast the encoder follows, as the time constant of a first-order lag
        lag: Span = "100ms" in Span::ZERO..=Span::from_secs(10), from SPEC;
        /// Standard deviation of the logarithm of a frame's size
        spread: f64 = "0.15" in 0.0..=2.0, from SPEC;
        /// Frames from one key frame to the next; 0 is none
        gop: u64 = "0" in 0..=100_000, from SPEC;
        /// Size of a key frame, in mean frames
        key: f64 = "3" in 1.0..=100.0, from SPEC;
        /// A frame that lost a packet asks for a key frame
        key_on_loss: bool = "false", from SPEC;
        /// Drop what waits at the sender for longer than this, at most every 250 ms; 0 is never
        discard: Span = "0ms" in Span::ZERO..=Span::from_secs(60), from SPEC;
        /// Frames that take longer are late
        deadline: Span = "150ms" in Span::from_millis(1)..=Span::from_secs(60), from "RFC 8867";
    }
}

impl VideoSpec {
    /// Reads `KEY=VALUE,...`; what is left out is as documented, as is everything in an empty text.
    ///
    /// # Errors
    /// When a key is unknown, a value does not read, or they contradict each other.
    pub fn read(text: &str) -> Result<Self, String> {
        let video = Self::parse("video", text).map_err(|error| error.to_string())?;
        video.check().map(|()| video)
    }

    /// Checks what single values cannot show.
    ///
    /// # Errors
    /// In words that name the parameters.
    pub fn check(&self) -> Result<(), String> {
        let Self { min, max, gop, key, .. } = self;
        if min > max {
            return Err(format!("min={min} is above max={max}"));
        }
        if *gop == 1 {
            return Err("gop=1 makes every frame a key frame; write gop=0 for equal frames".into());
        }
        if *gop > 0 && *key > *gop as f64 {
            return Err(format!("key={key} leaves nothing for the other frames of gop={gop}"));
        }
        Ok(())
    }
}

/// The encoder's rate while nothing is known of the path.
const FIRST_RATE: Rate = Rate::from_bps(1_000_000);

/// Share of what a controller permits that a source takes where the controller has no media rate.
const PERMITTED_SHARE: f64 = 0.85;

/// Bytes of the smallest frame.
const MIN_FRAME: f64 = 200.0;

/// Time between two discards of the sender's queue.
const DISCARD_INTERVAL: Span = Span::from_millis(250);

/// Frames that are remembered: ten hours at 30 a second. Older ones are forgotten first.
const MAX_FRAMES: usize = 1 << 20;

/// The rate at which a controller lets a connection send at present: its pacing rate, and no more
/// than a window per smoothed RTT. `None` while there is no RTT or nothing limits it.
///
/// Sources that adapt to the path (the encoder of a video) go by this. They are application-limited
/// most of the time, so that the window limits what they may send and is rarely reached.
pub fn permitted_rate(controller: &dyn Controller, rtt: &RttEstimator) -> Option<Rate> {
    let paced = controller.pacing().map(|pacing| pacing.rate);
    let window = Some(controller.cwnd()).filter(|cwnd| *cwnd != u64::MAX);
    let windowed = window.zip(rtt.smoothed()).map(|(window, srtt)| {
        Rate::from_bytes_per_sec(window as f64 / srtt.as_secs_f64().max(1e-9))
    });
    match (paced, windowed) {
        (Some(paced), Some(windowed)) => Some(paced.min(windowed)),
        (paced, windowed) => paced.or(windowed),
    }
}

/// A frame and what became of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FrameRecord {
    /// When it was captured.
    pub captured: Time,
    /// Its size without headers.
    pub bytes: u64,
    /// When its last packet was at the receiver; `None` while a packet is missing.
    pub complete: Option<Time>,
    /// Whether packets of it were dropped at the sender.
    pub discarded: bool,
    /// The encoder's rate.
    pub rate: Rate,
}

/// A frame of which packets may still arrive.
#[derive(Debug)]
struct OpenFrame {
    /// Number of its record.
    number: u64,
    /// Its first packet, among those of all frames.
    first: u64,
    /// Which of its packets have arrived, and how many have not.
    arrived: Vec<bool>,
    missing: usize,
}

/// A frame that has just been captured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CapturedFrame {
    /// Its size without headers.
    pub bytes: u64,
    /// How many packets it makes.
    pub packets: u64,
    /// Whether all packets of earlier frames that have not been sent are to be dropped.
    pub discards: bool,
}

/// The source of one flow. Its owner queues the packets and sends them; they are numbered from zero
/// over all frames, and none is sent twice.
#[derive(Debug)]
pub struct VideoSource {
    spec: VideoSpec,
    start: Time,
    random: Random,
    /// Payload of a full packet.
    payload: u64,
    /// The encoder's rate in bit/s.
    used: f64,
    key_is_due: bool,
    last_discard: Option<Time>,
    next_packet: u64,
    open: VecDeque<OpenFrame>,
    records: VecDeque<FrameRecord>,
    /// Frames forgotten, in front of `records`.
    forgotten: u64,
}

impl VideoSource {
    /// A source that captures its first frame at `start`. Full packets carry `payload` bytes.
    pub fn new(spec: &VideoSpec, start: Time, payload: u64, random: Random) -> Self {
        let first = FIRST_RATE.clamp(spec.min, spec.max);
        Self {
            used: spec.rate.unwrap_or(first).as_bps() as f64,
            spec: spec.clone(),
            start,
            random,
            payload: payload.max(1),
            key_is_due: false,
            last_discard: None,
            next_packet: 0,
            open: VecDeque::new(),
            records: VecDeque::new(),
            forgotten: 0,
        }
    }

    /// When the next frame is captured: k / fps after the start.
    pub fn next_capture(&self) -> Time {
        self.start + Span::from_secs_f64(self.captured() as f64 / self.spec.fps)
    }

    /// What the source is made of.
    pub fn spec(&self) -> &VideoSpec {
        &self.spec
    }

    fn captured(&self) -> u64 {
        self.forgotten + self.records.len() as u64
    }

    /// Captures a frame, and informs the controller. All packets below `sent` have been sent.
    pub fn capture(
        &mut self,
        now: Time,
        sent: u64,
        controller: &mut dyn Controller,
        rtt: &RttEstimator,
    ) -> CapturedFrame {
        self.follow(controller, rtt);
        let bytes = self.draw_size();
        let discards = self.discard(now, sent);
        let waiting = self.oldest_unsent(sent).map_or(Span::ZERO, |at| now.since(at));
        let waiting = if discards { Span::ZERO } else { waiting };
        let packets = bytes.div_ceil(self.payload);
        self.open.push_back(OpenFrame {
            number: self.captured(),
            first: self.next_packet,
            arrived: vec![false; packets as usize],
            missing: packets as usize,
        });
        self.next_packet += packets;
        self.remember(FrameRecord {
            captured: now,
            bytes,
            complete: None,
            discarded: false,
            rate: Rate::from_bps(self.used as u64),
        });
        let interval = Span::from_secs_f64(1.0 / self.spec.fps);
        controller.on_frame(&Frame { now, bytes, waiting, interval });
        CapturedFrame { bytes, packets, discards }
    }

    fn remember(&mut self, record: FrameRecord) {
        if self.records.len() == MAX_FRAMES {
            self.records.pop_front();
            self.forgotten += 1;
        }
        self.records.push_back(record);
        // Frames of which a packet was lost never complete; those of the last minutes may.
        while self.open.len() > 4096 {
            self.open.pop_front();
        }
    }

    /// used += (target - used) (1 - e^(-1 / (fps lag)))
    fn follow(&mut self, controller: &dyn Controller, rtt: &RttEstimator) {
        if self.spec.rate.is_some() {
            return;
        }
        let permitted = || {
            let permitted = permitted_rate(controller, rtt)?;
            rtt.smoothed()?;
            Some(permitted.as_bps() as f64 * PERMITTED_SHARE)
        };
        let media = controller.target_rate().map(|rate| rate.as_bps() as f64);
        let target = media.or_else(permitted).unwrap_or(FIRST_RATE.as_bps() as f64);
        let (least, most) = (self.spec.min.as_bps() as f64, self.spec.max.as_bps() as f64);
        let target = target.clamp(least, most);
        let lag = self.spec.lag.as_secs_f64();
        let share = if lag > 0.0 { 1.0 - exp(-1.0 / (self.spec.fps * lag)) } else { 1.0 };
        self.used += (target - self.used) * share;
    }

    fn draw_size(&mut self) -> u64 {
        let sigma = self.spec.spread;
        // A log-normal factor of mean one.
        let spread = match sigma > 0.0 {
            true => exp(sigma * self.random.normal() - sigma * sigma / 2.0),
            false => 1.0,
        };
        let mean = self.used / 8.0 / self.spec.fps * self.group_factor();
        (mean * spread).max(MIN_FRAME) as u64
    }

    /// The size of the next frame in mean frames.
    fn group_factor(&mut self) -> f64 {
        let VideoSpec { gop, key, .. } = self.spec;
        let asked = std::mem::take(&mut self.key_is_due);
        if asked || gop > 0 && self.captured().is_multiple_of(gop) {
            return key;
        }
        if gop > 0 { (gop as f64 - key) / (gop as f64 - 1.0) } else { 1.0 }
    }

    /// When the frame was captured whose packets have waited longest.
    fn oldest_unsent(&self, sent: u64) -> Option<Time> {
        if sent >= self.next_packet {
            return None;
        }
        let at = self.open.partition_point(|frame| frame.first <= sent).checked_sub(1)?;
        self.record(self.open[at].number).map(|record| record.captured)
    }

    fn record(&self, number: u64) -> Option<&FrameRecord> {
        self.records.get(number.checked_sub(self.forgotten)? as usize)
    }

    /// Drops the queue if it has become too old. Returns whether it was.
    fn discard(&mut self, now: Time, sent: u64) -> bool {
        let Some(oldest) = self.oldest_unsent(sent) else { return false };
        let limit = self.spec.discard;
        let rests = self.last_discard.is_some_and(|last| now.since(last) <= DISCARD_INTERVAL);
        if limit.is_zero() || now.since(oldest) <= limit || rests {
            return false;
        }
        self.last_discard = Some(now);
        while let Some(frame) = self.open.back() {
            let end = frame.first + frame.arrived.len() as u64;
            if end <= sent {
                break;
            }
            let number = frame.number;
            self.open.pop_back();
            if let Some(record) =
                self.records.get_mut(number.saturating_sub(self.forgotten) as usize)
            {
                record.discarded = true;
            }
        }
        true
    }

    /// A packet reached the receiver at `at`. A copy of one that has changes nothing.
    pub fn on_arrived(&mut self, packet: u64, at: Time) {
        let Some(place) = self.open.partition_point(|frame| frame.first <= packet).checked_sub(1)
        else {
            return;
        };
        let frame = &mut self.open[place];
        let Some(arrived) = frame.arrived.get_mut((packet - frame.first) as usize) else { return };
        if std::mem::replace(arrived, true) {
            return;
        }
        frame.missing -= 1;
        if frame.missing > 0 {
            return;
        }
        let number = frame.number;
        self.open.remove(place);
        if let Some(record) = self.records.get_mut(number.saturating_sub(self.forgotten) as usize) {
            record.complete = Some(at);
        }
    }

    /// The sender has found a packet lost.
    pub fn on_lost(&mut self) {
        self.key_is_due |= self.spec.key_on_loss;
    }

    /// The frames, in the order of capture.
    pub fn frames(&self) -> impl Iterator<Item = &FrameRecord> {
        self.records.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::{Pacing, Permit};

    /// A controller with a media rate.
    struct Media {
        rate: u64,
        frames: Vec<Frame>,
    }

    impl Controller for Media {
        fn permit(&self) -> Permit {
            Permit::Window(1 << 20)
        }

        fn on_frame(&mut self, frame: &Frame) {
            self.frames.push(*frame);
        }

        fn target_rate(&self) -> Option<Rate> {
            Some(Rate::from_bps(self.rate))
        }
    }

    fn media(rate: u64) -> Media {
        Media { rate, frames: Vec::new() }
    }

    fn source(rest: &str) -> VideoSource {
        let spec = VideoSpec::parse("video", rest).unwrap();
        VideoSource::new(&spec, Time::ZERO, 1460, Random::seeded(1, 0))
    }

    fn capture(source: &mut VideoSource, controller: &mut Media, sent: u64) -> CapturedFrame {
        let now = source.next_capture();
        source.capture(now, sent, controller, &RttEstimator::default())
    }

    #[test]
    fn scream_s9_video() {
        let sizes = |lag: &str| {
            let mut source = source(&format!("spread=0,gop=4,key=2,lag={lag}"));
            source.used = 3e6;
            let mut frames = Vec::new();
            for index in 0..10 {
                // The target is 3 Mbit/s before 0.1 s.
                let mut controller = media(if index < 3 { 3_000_000 } else { 6_000_000 });
                frames.push(capture(&mut source, &mut controller, 0));
            }
            frames
        };
        let at_once = sizes("0s");
        let bytes: Vec<u64> = at_once.iter().map(|frame| frame.bytes).collect();
        assert_eq!(bytes[..6], [25000, 8333, 8333, 16666, 50000, 16666]);
        let packets: Vec<u64> = at_once.iter().map(|frame| frame.packets).collect();
        assert_eq!(packets[..6], [18, 6, 6, 12, 35, 12]);
        let lagging: Vec<u64> = sizes("100ms").iter().map(|frame| frame.bytes).collect();
        assert_eq!(lagging, [25000, 8333, 8333, 10695, 37164, 13601, 14470, 15092, 46616, 15858]);
    }

    #[test]
    fn scream_s14_a_frame_without_its_middle_packet_never_completes() {
        let mut source = source("spread=0,rate=960kbit");
        let mut controller = media(1);
        let frame = capture(&mut source, &mut controller, 0);
        assert_eq!((frame.bytes, frame.packets), (4000, 3));
        capture(&mut source, &mut controller, 3);
        let at = Time::from_millis;
        for packet in [0, 2, 2, 0, 3, 5] {
            source.on_arrived(packet, at(50 + packet));
        }
        source.on_arrived(4, at(99));
        source.on_arrived(400, at(100));
        let complete: Vec<_> = source.frames().map(|frame| frame.complete).collect();
        assert_eq!(complete, [None, Some(at(99))]);
        source.on_arrived(1, at(120));
        assert_eq!(source.frames().next().unwrap().complete, Some(at(120)), "it was only late");
    }

    #[test]
    fn frames_are_captured_at_exact_times_and_the_mean_size_is_that_of_the_rate() {
        let mut source = source("rate=2400kbit");
        let mut controller = media(1);
        for index in 0..3000_u64 {
            let expected = index as f64 / 30.0;
            assert!((source.next_capture().as_secs_f64() - expected).abs() < 1e-6);
            capture(&mut source, &mut controller, u64::MAX);
        }
        let mean = source.frames().map(|frame| frame.bytes as f64).sum::<f64>() / 3000.0;
        assert!((9_850.0..10_150.0).contains(&mean), "{mean}");
    }

    #[test]
    fn an_old_queue_is_discarded_and_its_frames_never_complete() {
        let mut source = source("spread=0,rate=960kbit,discard=100ms");
        let mut controller = media(1);
        // The first packet is sent, and no other.
        let discards: Vec<bool> =
            (0..6).map(|_| capture(&mut source, &mut controller, 1).discards).collect();
        assert_eq!(discards, [false, false, false, false, true, false]);
        let discarded: Vec<bool> = source.frames().map(|frame| frame.discarded).collect();
        assert_eq!(discarded, [true, true, true, true, false, false]);
        let waiting: Vec<u64> =
            controller.frames.iter().map(|frame| frame.waiting.as_nanos() / 1_000_000).collect();
        assert_eq!(waiting[..5], [0, 33, 66, 100, 0]);
    }

    #[test]
    fn any_controller_gives_a_rate() {
        struct Plain;
        impl Controller for Plain {
            fn permit(&self) -> Permit {
                Permit::Window(15_000)
            }
            fn pacing(&self) -> Option<Pacing> {
                Some(Pacing { rate: Rate::from_bps(800_000), burst: 1500 })
            }
        }
        let mut source = source("spread=0,lag=0s");
        let mut rtt = RttEstimator::default();
        source.capture(Time::ZERO, 0, &mut Plain, &rtt);
        assert_eq!(source.used, 1e6, "nothing is known");
        rtt.sample(Span::from_millis(100));
        source.capture(Time::ZERO, 0, &mut Plain, &rtt);
        assert_eq!(source.used, 0.85 * 800_000.0);
    }

    #[test]
    fn what_a_source_may_send_is_the_window_per_rtt_and_never_above_the_pacing_rate() {
        struct Paced(u64, Option<u64>);
        impl Controller for Paced {
            fn permit(&self) -> Permit {
                Permit::Window(self.0)
            }
            fn pacing(&self) -> Option<Pacing> {
                let rate = Rate::from_bps(self.1?);
                Some(Pacing { rate, burst: 1500 })
            }
        }
        let mut rtt = RttEstimator::default();
        assert_eq!(permitted_rate(&Paced(15_000, None), &rtt), None);
        rtt.sample(Span::from_millis(100));
        let mbit = |mbit: f64| Some(Rate::from_bytes_per_sec(mbit * 125_000.0));
        assert_eq!(permitted_rate(&Paced(15_000, None), &rtt), mbit(1.2));
        assert_eq!(permitted_rate(&Paced(15_000, Some(1_000_000)), &rtt), mbit(1.0));
        assert_eq!(permitted_rate(&Paced(15_000, Some(2_000_000)), &rtt), mbit(1.2));
        assert_eq!(permitted_rate(&Paced(u64::MAX, None), &rtt), None);
    }

    #[test]
    fn a_lost_packet_may_ask_for_a_key_frame() {
        let mut source = source("spread=0,rate=2400kbit,key_on_loss=true");
        let mut controller = media(1);
        let plain = capture(&mut source, &mut controller, 0).bytes;
        source.on_lost();
        assert_eq!(capture(&mut source, &mut controller, 0).bytes, 3 * plain);
        assert_eq!(capture(&mut source, &mut controller, 0).bytes, plain);
    }

    #[test]
    fn values_must_go_together() {
        for (rest, part) in [
            ("min=2mbit,max=1mbit", "min=2mbit is above max=1mbit"),
            ("gop=1", "every frame a key frame"),
            ("gop=4,key=5", "key=5 leaves nothing"),
        ] {
            let why = VideoSpec::parse("video", rest).unwrap().check().unwrap_err();
            assert!(why.contains(part), "{why}");
        }
    }
}
