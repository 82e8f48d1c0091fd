//! Jitter of the senders: a random delay before each packet, against phase effects.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Random, Rate, Span, Time, parse_number};

use crate::OPPORTUNITY_BYTES;
use crate::error::PathError;

/// Jitter of the senders by its written form: the longest delay as a share of the time that a full
/// packet takes at the mean rate of the bottleneck, `100%`.
///
/// Each packet waits for a time drawn uniformly from zero up to this, and never overtakes an earlier
/// one of its flow. Without it, flows whose packets reach a full drop-tail queue always in the same
/// order share it by that order (phase effects: Floyd and Jacobson, "On traffic phase effects in
/// packet-switched gateways", 1991, who recommend the time of one packet).
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct SendJitterSpec {
    /// In packet times.
    share: f64,
}

/// The largest share in percent.
const MAX_PERCENT: f64 = 1000.0;

impl SendJitterSpec {
    /// None at all.
    pub const NONE: Self = Self { share: 0.0 };

    /// Whether packets leave without a random delay.
    pub fn is_none(self) -> bool {
        self.share <= 0.0
    }

    /// The longest delay where the bottleneck has this mean rate; zero where that is zero.
    pub fn longest(self, rate: Rate) -> Span {
        if rate.as_bps() == 0 {
            return Span::ZERO;
        }
        // The time of one packet breaks phases without a queue of its own (Floyd and Jacobson
        // 1991).
        let packet = rate.time_for(u64::from(OPPORTUNITY_BYTES));
        Span::from_nanos((packet.as_nanos() as f64 * self.share) as u64)
    }
}

impl Default for SendJitterSpec {
    /// The time of one packet.
    fn default() -> Self {
        Self { share: 1.0 }
    }
}

impl FromStr for SendJitterSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        let number = text.trim().strip_suffix('%').and_then(|number| parse_number(number).ok());
        match number.filter(|percent| (0.0..=MAX_PERCENT).contains(percent)) {
            Some(percent) => Ok(Self { share: percent / 100.0 }),
            None => Err(PathError::Form {
                text: text.to_owned(),
                form: "a share of the time of one packet at the bottleneck, from 0% to 1000%",
            }),
        }
    }
}

impl fmt::Display for SendJitterSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}%", self.share * 100.0)
    }
}

/// The running jitter of the senders of one path.
pub(crate) struct SendJitter {
    flows: Vec<JitteredFlow>,
}

/// One sender.
struct JitteredFlow {
    longest: Span,
    random: Random,
    /// When its last packet is where the flows meet.
    latest: Time,
}

/// The random streams of the flows begin here.
const FLOW_STREAMS: u64 = 4_000_000;

impl SendJitter {
    /// The jitter of flows with these longest delays; `None` where there is none.
    pub(crate) fn new(longest: &[Span], seed: u64) -> Option<Self> {
        if longest.iter().all(|longest| longest.is_zero()) {
            return None;
        }
        let flow = |(stream, longest): (u64, &Span)| JitteredFlow {
            longest: *longest,
            random: Random::seeded(seed, stream),
            latest: Time::ZERO,
        };
        Some(Self { flows: (FLOW_STREAMS..).zip(longest).map(flow).collect() })
    }

    /// When a packet of this flow arrives that would arrive at `at` without jitter.
    pub(crate) fn arrival(&mut self, flow: u32, at: Time) -> Time {
        let Some(flow) = self.flows.get_mut(flow as usize) else { return at };
        // A stream for each flow, so that another flow in the scenario does not change its draws.
        let delay = Span::from_nanos(flow.random.below(flow.longest.as_nanos()));
        // In order within a flow: an application's packets do not overtake each other in its host.
        flow.latest = flow.latest.max(at + delay);
        flow.latest
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Packet, PacketRecord, PathSpec};
    use proptest::prelude::*;

    #[test]
    fn forms_are_read_and_written() {
        for text in ["0%", "50%", "100%", "1000%"] {
            assert_eq!(text.parse::<SendJitterSpec>().unwrap().to_string(), text);
        }
        for text in ["", "1", "0.5", "-1%", "1001%", "x%", "NaN%", "1ms"] {
            let error = text.parse::<SendJitterSpec>().unwrap_err().to_string();
            assert!(error.contains("from 0% to 1000%"), "{error}");
        }
        assert_eq!(SendJitterSpec::default().to_string(), "100%");
    }

    #[test]
    fn the_longest_delay_is_a_share_of_a_packet_at_the_mean_rate() {
        let longest =
            |text: &str, bps| text.parse::<SendJitterSpec>().unwrap().longest(Rate::from_bps(bps));
        assert_eq!(longest("100%", 12_000_000), Span::from_millis(1));
        assert_eq!(longest("25%", 50_000_000), Span::from_micros(60));
        assert_eq!(longest("0%", 12_000_000), Span::ZERO);
        assert_eq!(longest("100%", 0), Span::ZERO);
    }

    fn spec(longest_us: &[u64]) -> PathSpec {
        PathSpec {
            delay: Span::from_millis(10).into(),
            send_jitter: longest_us.iter().map(|us| Span::from_micros(*us)).collect(),
            ..PathSpec::default()
        }
    }

    /// Sends packets of flows at times in microseconds, and returns what arrived.
    fn sent(spec: &PathSpec, seed: u64, packets: &[(u64, u32)]) -> Vec<PacketRecord> {
        let mut path = spec.build(seed).unwrap();
        for (id, (us, flow)) in (0..).zip(packets) {
            path.push(Packet::new(id, *flow, 1500, Time::from_micros(*us)));
        }
        let mut fates = Vec::new();
        path.advance(Time::from_secs(1_000), &mut fates);
        fates
    }

    #[test]
    fn delays_are_uniform_and_each_flow_draws_its_own() {
        let spec = spec(&[1_000, 1_000]);
        // Spaced by more than the jitter, so that no packet waits for the one in front.
        let packets: Vec<_> = (0..20_000).map(|k| (k * 1_500, (k % 2) as u32)).collect();
        let delays = |records: &[PacketRecord], flow| -> Vec<f64> {
            let of = records.iter().filter(|record| record.packet.flow == flow);
            of.map(|record| record.base_delay().as_millis_f64() - 10.0).collect()
        };
        let records = sent(&spec, 1, &packets);
        let first = delays(&records, 0);
        assert!(first.iter().all(|delay| (0.0..1.0).contains(delay)));
        let mean = first.iter().sum::<f64>() / first.len() as f64;
        let square = first.iter().map(|delay| (delay - mean).powi(2)).sum::<f64>();
        let variance = square / first.len() as f64;
        // 10 000 draws: the mean within 0.009, the variance 1/12.
        assert!((mean - 0.5).abs() < 0.009, "{mean}");
        assert!((variance - 1.0 / 12.0).abs() < 0.003, "{variance}");
        assert_ne!(first, delays(&records, 1));
        assert_eq!(first, delays(&sent(&spec, 1, &packets), 0), "the same seed, the same draws");
        assert_ne!(first, delays(&sent(&spec, 2, &packets), 0));
        let alone: Vec<_> = packets.iter().copied().filter(|(_, flow)| *flow == 0).collect();
        assert_eq!(first, delays(&sent(&spec, 1, &alone), 0), "another flow disturbs no draws");
    }

    #[test]
    fn flows_beyond_those_described_have_none() {
        let records = sent(&spec(&[1_000]), 1, &[(0, 1), (5, 2)]);
        assert!(records.iter().all(|record| record.base_delay() == Span::from_millis(10)));
    }

    proptest! {
        #[test]
        fn packets_of_a_flow_keep_their_order_and_their_bound(
            gaps in prop::collection::vec((0..2_000_u64, 0..3_u32), 1..200),
            longest in prop::collection::vec(0..3_000_u64, 3),
            step_us in 0..20_000_u64,
            seed in 0..100_u64,
        ) {
            let mut at = 0;
            let packets: Vec<_> = gaps.iter().map(|(gap, flow)| {
                at += gap;
                (at, *flow)
            }).collect();
            let delay = format!("step:20ms/5ms,{step_us}us/5ms");
            let spec = PathSpec { delay: delay.parse().unwrap(), ..spec(&longest) };
            let plain = PathSpec { send_jitter: Vec::new(), ..spec.clone() };
            let without = sent(&plain, seed, &packets);
            let with = sent(&spec, seed, &packets);
            prop_assert_eq!(with.len(), packets.len());
            prop_assert!(with.windows(2).all(|pair| {
                pair[0].packet.enqueued_at <= pair[1].packet.enqueued_at
            }), "the queue has them in the order of arrival");
            for flow in 0..3 {
                let of = |records: &[PacketRecord]| -> Vec<(u64, Time)> {
                    let of = records.iter().map(|record| record.packet);
                    let of = of.filter(|packet| packet.flow == flow);
                    of.map(|packet| (packet.id, packet.enqueued_at)).collect()
                };
                let longest = Span::from_micros(longest[flow as usize]);
                for ((id, late), (plain_id, plain)) in of(&with).iter().zip(of(&without)) {
                    prop_assert_eq!(*id, plain_id);
                    prop_assert!(plain <= *late && *late <= plain + longest);
                }
            }
        }
    }
}
