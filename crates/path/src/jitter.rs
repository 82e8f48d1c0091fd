//! Jitter behind the link: blocks that fail and come again, delivered in order.

use std::collections::VecDeque;
use std::fmt;
use std::str::FromStr;

use cellpace_base::{ParamSet, Random, Span, Time, params, split_name};

use crate::error::PathError;
use crate::steps::Level;
use crate::{Fate, PacketRecord};

params! {
    /// The parameters of HARQ without a radio layer.
    #[derive(Copy, PartialEq)]
    struct HarqParams {
        /// Probability that a block fails, each time it is sent
        bler: f64 = "10%" in 0.0..=0.99, from "LTE's usual target";
        /// Time from a failed block to its repetition
        rtt: Span = "8ms" in Span::from_millis(1)..=Span::from_secs(1), from "3GPP TS 36.321";
        /// Repetitions before RLC takes over
        retries: u64 = "4" in 0..=20, from "3GPP TS 36.321";
        /// Time from the last repetition to delivery by RLC
        rlc: Span = "50ms" in Span::ZERO..=Span::from_secs(10), from "cellpace";
    }
}

/// Jitter by its written form: `none`, or `harq:bler=10%,rtt=8ms`.
///
/// What leaves the link within one millisecond is a block. A block that fails comes again after
/// `rtt`, up to `retries` times, then `rlc` later; delivery is in order, so a late block holds up
/// those behind it. The time counts as time on the link.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct JitterSpec {
    harq: Option<HarqParams>,
}

impl JitterSpec {
    /// The running jitter, if there is any.
    pub(crate) fn build(&self, random: Random) -> Option<Jitter> {
        let params = self.harq?;
        let late = VecDeque::new();
        Some(Jitter { params, random, block: None, release: Time::ZERO, late })
    }
}

impl FromStr for JitterSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let split = split_name(text);
        match split.name {
            "none" if split.rest.is_empty() => Ok(Self::default()),
            "harq" => Ok(Self { harq: Some(HarqParams::parse("harq", split.rest)?) }),
            _ => Err(PathError::Form {
                text: text.to_owned(),
                form: "harq:bler=SHARE,rtt=TIME, such as harq:bler=10%,rtt=8ms, or none",
            }),
        }
    }
}

impl fmt::Display for JitterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(HarqParams { bler, rtt, retries, rlc }) = self.harq else {
            return f.write_str("none");
        };
        let standard = HarqParams::defaults();
        write!(f, "harq:bler={},rtt={rtt}", bler.written())?;
        if retries != standard.retries {
            write!(f, ",retries={retries}")?;
        }
        if rlc != standard.rlc {
            write!(f, ",rlc={rlc}")?;
        }
        Ok(())
    }
}

/// A block lasts as long as a subframe of LTE.
const BLOCK_NS: u64 = 1_000_000;

/// Running jitter.
pub(crate) struct Jitter {
    params: HarqParams,
    random: Random,
    /// The block of the last packet, by its millisecond.
    block: Option<u64>,
    /// When that block is delivered.
    release: Time,
    /// Packets that have left the link and are not delivered, in order.
    late: VecDeque<PacketRecord>,
}

impl Jitter {
    /// When the next packet is delivered.
    pub(crate) fn next_deadline(&self) -> Option<Time> {
        self.late.front().map(|record| record.packet.departed_at)
    }

    /// Packets that are not delivered yet.
    pub(crate) fn packets(&self) -> usize {
        self.late.len()
    }

    /// Takes the packets from `from` on, which have just left the link, and puts in their place
    /// those that are delivered by `now`, in the order of time.
    pub(crate) fn apply(&mut self, now: Time, fates: &mut Vec<PacketRecord>, from: usize) {
        // Taken out, since late packets of earlier calls go in between by their time.
        let left = fates.split_off(from);
        for mut record in left {
            // First what was late and is due by then, so that records stay in the order of time.
            self.deliver(record.packet.departed_at, fates);
            if record.fate == Fate::Delivered {
                record.packet.departed_at = self.release_of(record.packet.departed_at);
                // Only what was delivered can be late: drops are known at once.
                self.late.push_back(record);
            } else {
                fates.push(record);
            }
        }
        self.deliver(now, fates);
    }

    fn deliver(&mut self, upto: Time, fates: &mut Vec<PacketRecord>) {
        while self.late.front().is_some_and(|record| record.packet.departed_at <= upto) {
            fates.extend(self.late.pop_front());
        }
    }

    /// When the block that leaves at `time` is delivered.
    fn release_of(&mut self, time: Time) -> Time {
        let block = time.as_nanos() / BLOCK_NS;
        if self.block != Some(block) {
            self.block = Some(block);
            // In order: a block is never delivered before one that was sent earlier.
            self.release = self.release.max(time + self.draw());
        }
        // A block's later packets leave the link after its first, and not before they have left it.
        self.release = self.release.max(time);
        self.release
    }

    /// How much later than at its first try a block arrives.
    fn draw(&mut self) -> Span {
        for failed in 0..=self.params.retries {
            if self.random.unit() >= self.params.bler {
                return self.params.rtt * failed;
            }
        }
        self.params.rtt * self.params.retries + self.params.rlc
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, PathSpec};

    #[test]
    fn forms_are_read_and_written() {
        for text in ["none", "harq:bler=10%,rtt=8ms", "harq:bler=1%,rtt=8ms,retries=2,rlc=20ms"] {
            assert_eq!(text.parse::<JitterSpec>().unwrap().to_string(), text);
        }
        assert_eq!("harq".parse::<JitterSpec>().unwrap(), "harq:bler=10%,rtt=8ms".parse().unwrap());
        for (text, part) in [
            ("hark", "write harq:bler=SHARE"),
            ("none:1", "write harq:bler=SHARE"),
            ("harq:bler=100%", "out of range"),
            ("harq:blr=1%", "did you mean `bler`?"),
            ("harq:rtt=8", "rtt: `8` needs a unit"),
        ] {
            let error = text.parse::<JitterSpec>().unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }

    /// Added delays in ms, sorted, of a packet per millisecond for 1000 s.
    fn added(jitter: &str) -> Vec<f64> {
        let spec = |jitter: &str| PathSpec {
            trace: Some("constant:12mbit".parse().unwrap()),
            jitter: jitter.parse().unwrap(),
            ..PathSpec::default()
        };
        let records = |spec: PathSpec| {
            let (mut path, mut fates) = (spec.build(1).unwrap(), Vec::new());
            for id in 0..1_000_000 {
                path.advance(Time::from_millis(id), &mut fates);
                path.push(Packet::new(id, 0, 1500, Time::from_millis(id)));
            }
            while let Some(next) = path.next_deadline() {
                path.advance(next, &mut fates);
            }
            assert_eq!(path.packets(), 0);
            fates
        };
        let (plain, late) = (records(spec("none")), records(spec(jitter)));
        assert!(late.is_sorted_by_key(|record| record.packet.departed_at));
        assert!(late.iter().map(|r| r.packet.id).eq(0..1_000_000), "in order, none lost");
        let delay = |(a, b): (&PacketRecord, &PacketRecord)| {
            (b.packet.departed_at - a.packet.departed_at).as_millis_f64()
        };
        let mut delays: Vec<f64> = plain.iter().zip(&late).map(delay).collect();
        delays.sort_by(f64::total_cmp);
        delays
    }

    #[test]
    fn radio_g4_jitter_of_harq() {
        let delays = added("harq:bler=10%,rtt=8ms");
        let mean = |delays: &[f64]| delays.iter().sum::<f64>() / delays.len() as f64;
        let at = |delays: &[f64], share: f64| delays[(share * delays.len() as f64) as usize];
        assert!((mean(&delays) - 3.75).abs() < 0.1, "{}", mean(&delays));
        assert_eq!([0.5, 0.9, 0.99].map(|share| at(&delays, share)), [3.0, 8.0, 16.0]);
        let none = delays.iter().filter(|delay| **delay == 0.0).count() as f64 / 1e6;
        assert!((none - 0.39).abs() < 0.01, "{none}");
        let delays = added("harq:bler=1%,rtt=8ms");
        assert!((mean(&delays) - 0.36).abs() < 0.02, "{}", mean(&delays));
        assert_eq!(at(&delays, 0.99), 8.0);
    }

    #[test]
    fn packets_of_one_millisecond_are_one_block() {
        let spec = PathSpec {
            trace: Some("constant:120mbit".parse().unwrap()),
            jitter: "harq:bler=50%,rtt=8ms".parse().unwrap(),
            ..PathSpec::default()
        };
        let (mut path, mut fates) = (spec.build(1).unwrap(), Vec::new());
        (0..5000).for_each(|id| path.push(Packet::new(id, 0, 1500, Time::ZERO)));
        while let Some(next) = path.next_deadline() {
            path.advance(next, &mut fates);
        }
        fates.retain(|record| record.fate == Fate::Delivered);
        let mut times: Vec<_> = fates.iter().map(|record| record.packet.departed_at).collect();
        times.dedup();
        // 500 ms in blocks of ten packets; each repeated one brings those behind it along.
        assert!(times.len() < 1000, "{}", times.len());
        assert_eq!(fates.len(), 1333, "what the queue of 2 MB holds");
    }
}
