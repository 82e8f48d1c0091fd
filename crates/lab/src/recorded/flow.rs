//! The series of one flow, in bins that grow with the length of the recording: any recording takes as much memory.

use serde::Serialize;
use serde::ser::{SerializeStruct, Serializer};

/// Bins at most; from one to the next width they become half as many.
const MAX_BINS: usize = 4000;
/// The narrowest bins, in ms.
const LEAST_WIDTH: f64 = 1.0;
/// The longest recording: a year.
const MAX_MS: f64 = 366.0 * 86_400_000.0;

/// What was recorded of a flow.
#[derive(Debug)]
pub(super) struct RecordedFlow {
    pub(super) name: String,
    width: f64,
    bins: Vec<Bin>,
    /// Packets that were lost; `None`: the recording does not say.
    pub(super) lost: Option<f64>,
    /// The smallest RTT in ms, where the recording has one of its own.
    min_rtt: Option<f64>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Bin {
    sent: f64,
    received: f64,
    lost: f64,
    /// The last of each in the bin.
    window: Option<f64>,
    in_flight: Option<f64>,
    /// Sum and number.
    rtt: (f64, u32),
}

impl Bin {
    fn with(self, next: Self) -> Self {
        Self {
            sent: self.sent + next.sent,
            received: self.received + next.received,
            lost: self.lost + next.lost,
            window: next.window.or(self.window),
            in_flight: next.in_flight.or(self.in_flight),
            rtt: (self.rtt.0 + next.rtt.0, self.rtt.1 + next.rtt.1),
        }
    }
}

/// What happened at a time.
#[derive(Debug, Clone, Copy)]
pub(super) enum Sample {
    /// Bytes left.
    Sent(f64),
    /// Bytes came.
    Received(f64),
    /// Packets were lost.
    Lost(f64),
    /// The smallest RTT so far in ms.
    MinRtt(f64),
    /// The congestion window in bytes.
    Window(f64),
    /// Bytes in flight.
    InFlight(f64),
    /// An RTT in ms.
    Rtt(f64),
}

impl RecordedFlow {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), width: LEAST_WIDTH, bins: Vec::new(), lost: None, min_rtt: None }
    }

    /// Adds what happened at a time in ms from the beginning of the recording. What is before that counts as at it.
    ///
    /// # Errors
    /// When it is more than a year later, or no number.
    pub(super) fn add(&mut self, at: f64, sample: Sample) -> Result<(), String> {
        let at = at.max(0.0);
        if !at.is_finite() || at > MAX_MS {
            return Err(format!("{at} ms is more than a year after the beginning"));
        }
        while at / self.width >= MAX_BINS as f64 {
            self.widen();
        }
        let place = (at / self.width) as usize;
        if self.bins.len() <= place {
            self.bins.resize(place + 1, Bin::default());
        }
        let bin = &mut self.bins[place];
        match sample {
            Sample::Sent(bytes) => bin.sent += bytes,
            Sample::Received(bytes) => bin.received += bytes,
            Sample::Lost(packets) => {
                bin.lost += packets;
                *self.lost.get_or_insert(0.0) += packets;
            }
            Sample::MinRtt(ms) => {
                self.min_rtt = Some(self.min_rtt.map_or(ms, |least| least.min(ms)));
            }
            Sample::Window(bytes) => bin.window = Some(bytes),
            Sample::InFlight(bytes) => bin.in_flight = Some(bytes),
            Sample::Rtt(ms) => bin.rtt = (bin.rtt.0 + ms, bin.rtt.1 + 1),
        }
        Ok(())
    }

    fn widen(&mut self) {
        let pair = |pair: &[Bin]| pair.iter().copied().fold(Bin::default(), Bin::with);
        self.bins = self.bins.chunks(2).map(pair).collect();
        self.width *= 2.0;
    }

    /// Bytes that left and came.
    pub(super) fn bytes(&self) -> f64 {
        self.bins.iter().map(|bin| bin.sent + bin.received).sum()
    }

    pub(super) fn is_empty(&self) -> bool {
        let is_empty = |bin: &Bin| {
            let counts = bin.sent + bin.received + bin.lost;
            counts == 0.0 && bin.window.is_none() && bin.in_flight.is_none() && bin.rtt.1 == 0
        };
        self.bins.iter().all(is_empty)
    }

    /// So many bins in one of the rate, so that a packet is not a peak.
    fn rate_bins(&self) -> usize {
        const RATE_MS: f64 = 100.0;
        ((RATE_MS / self.width).ceil() as usize).max(1)
    }
}

impl Serialize for RecordedFlow {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        let every =
            |value: fn(&Bin) -> Option<f64>| self.bins.iter().map(value).collect::<Vec<_>>();
        let sum = |value: fn(&Bin) -> f64| self.bins.iter().map(value).sum::<f64>();
        let gathered = |value: fn(&Bin) -> f64| {
            let add = |sum: &mut f64, bin: &Bin| {
                *sum += value(bin);
                Some(*sum)
            };
            self.bins.iter().scan(0.0, add).collect::<Vec<f64>>()
        };
        let wide = self.rate_bins();
        let rate = |value: fn(&Bin) -> f64| {
            let seconds = self.width * wide as f64 / 1000.0;
            let mbps = |bins: &[Bin]| bins.iter().map(value).sum::<f64>() * 8.0 / 1e6 / seconds;
            self.bins.chunks(wide).map(mbps).collect::<Vec<f64>>()
        };
        let mut fields = to.serialize_struct("flow", 15)?;
        fields.serialize_field("name", &self.name)?;
        fields.serialize_field("bin_s", &(self.width / 1000.0))?;
        fields.serialize_field("rate_bin_s", &(self.width * wide as f64 / 1000.0))?;
        fields.serialize_field("sent_bytes", &sum(|bin| bin.sent))?;
        fields.serialize_field("received_bytes", &sum(|bin| bin.received))?;
        fields.serialize_field("lost", &self.lost)?;
        fields.serialize_field("min_rtt_ms", &self.min_rtt)?;
        fields.serialize_field("sent", &gathered(|bin| bin.sent))?;
        fields.serialize_field("received", &gathered(|bin| bin.received))?;
        fields.serialize_field("sent_mbps", &rate(|bin| bin.sent))?;
        fields.serialize_field("received_mbps", &rate(|bin| bin.received))?;
        fields.serialize_field("window", &every(|bin| bin.window))?;
        fields.serialize_field("in_flight", &every(|bin| bin.in_flight))?;
        fields
            .serialize_field("losses", &self.bins.iter().map(|bin| bin.lost).collect::<Vec<_>>())?;
        let rtt = |bin: &Bin| (bin.rtt.1 > 0).then(|| bin.rtt.0 / f64::from(bin.rtt.1));
        fields.serialize_field("rtt_ms", &self.bins.iter().map(rtt).collect::<Vec<_>>())?;
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_recordings_take_as_much_as_short_ones_and_lose_nothing() {
        let mut flow = RecordedFlow::new("f");
        for second in 0..100_000 {
            flow.add(f64::from(second) * 1000.0, Sample::Sent(10.0)).unwrap();
            flow.add(f64::from(second) * 1000.0, Sample::Rtt(f64::from(second))).unwrap();
        }
        assert!(flow.bins.len() <= MAX_BINS);
        assert_eq!(flow.bytes(), 1e6);
        assert_eq!(
            flow.bins[0].rtt.0 / f64::from(flow.bins[0].rtt.1),
            16.0,
            "33 in a bin of 2^15 ms"
        );
        assert!(flow.add(f64::NAN, Sample::Lost(1.0)).is_ok(), "counts as at the beginning");
        assert!(flow.add(1e15, Sample::Lost(1.0)).unwrap_err().contains("more than a year"));
    }
}
