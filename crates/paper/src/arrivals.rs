//! When packets arrive: in bursts, or evenly.

use cellpace_base::{Span, Time};
use cellpace_path::{Fate, PacketRecord};
use cellpace_sim::Observer;
use serde_json::{Value, json};

/// Packets that arrive within this time of another arrive together: a sender of 10 Mbit/s has more
/// than a millisecond between two.
const TOGETHER: Span = Span::from_micros(200);

/// A longer gap ends a burst, as in the figures of traces: packets of successive milliseconds, the time
/// between two transmissions of LTE, are one burst.
const BURST_GAP: Span = Span::from_millis(1);

/// Notes when the packets of a run arrive, from a time on.
#[derive(Debug)]
pub(crate) struct ArrivalWatch {
    from: Time,
    times: Vec<Time>,
}

impl Observer for ArrivalWatch {
    fn on_record(&mut self, record: &PacketRecord) {
        let at = record.packet.departed_at;
        if record.fate == Fate::Delivered && at >= self.from {
            self.times.push(at);
        }
    }
}

impl ArrivalWatch {
    /// Arrivals before `from` do not count.
    pub(crate) fn new(from: Time) -> Self {
        Self { from, times: Vec::new() }
    }

    /// The share of packets that arrive together with another, the mean number of packets of a
    /// burst, and the longest time without an arrival between two of them. Nothing of fewer than two.
    pub(crate) fn figures(mut self) -> Value {
        self.times.sort_unstable();
        let gaps: Vec<Span> = self.times.windows(2).map(|pair| pair[1] - pair[0]).collect();
        let Some(longest) = gaps.iter().max() else { return Value::Null };
        let is_close = |gap: Option<&Span>| gap.is_some_and(|gap| *gap <= TOGETHER);
        let before = |packet: usize| packet.checked_sub(1).and_then(|gap| gaps.get(gap));
        let packets = self.times.len();
        let together =
            (0..packets).filter(|at| is_close(before(*at)) || is_close(gaps.get(*at))).count();
        let bursts = 1 + gaps.iter().filter(|gap| **gap > BURST_GAP).count();
        json!({
            "together": together as f64 / packets as f64,
            "burst_mean_packets": packets as f64 / bursts as f64,
            "longest_gap_ms": longest.as_millis_f64(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn figures(micros: &[u64]) -> Value {
        let times = micros.iter().map(|at| Time::ZERO + Span::from_micros(*at)).collect();
        ArrivalWatch { from: Time::ZERO, times }.figures()
    }

    #[test]
    fn bursts_end_with_a_gap_of_more_than_a_millisecond() {
        let figures = figures(&[0, 100, 900, 5_000, 5_200, 6_200]);
        let wanted =
            json!({ "together": 4.0 / 6.0, "burst_mean_packets": 3.0, "longest_gap_ms": 4.1 });
        assert_eq!(figures, wanted);
    }

    #[test]
    fn packets_of_an_even_sender_arrive_alone() {
        let figures = figures(&[0, 1_200, 2_400, 3_600]);
        let wanted = json!({ "together": 0.0, "burst_mean_packets": 1.0, "longest_gap_ms": 1.2 });
        assert_eq!(figures, wanted);
    }

    #[test]
    fn one_arrival_has_no_figures() {
        assert_eq!(figures(&[7]), Value::Null);
    }
}
