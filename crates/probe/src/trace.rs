//! Delivery opportunities from the arrivals of a saturating stream.

use cellpace_path::OPPORTUNITY_BYTES;

/// Opportunities of a link that was kept busy.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Opportunities {
    /// Whole milliseconds since the recording began, not decreasing: a Mahimahi trace.
    pub millis: Vec<u32>,
    /// Share of the recorded time in which the queue may have been empty, so that opportunities
    /// may be missing.
    pub idle_share: f64,
    /// How the arrivals lie relative to whole milliseconds: 1, all at the same place; 0, anywhere.
    pub grid: f64,
}

const OPPORTUNITY: u64 = OPPORTUNITY_BYTES as u64;

/// The queue counts as empty when a packet came this much later than it might have, in ns. Less
/// is noise of timestamps and clocks.
const TOLERANCE: i64 = 1_000_000;

/// The first idle times belong to the start, in which the queue is being filled: a fifth of the
/// recording, and 5 s at most.
const START_SHARE: u64 = 5;
const MAX_START: u64 = 5_000_000_000;

/// Opportunities of 1500 bytes from arrivals of packets of `size` bytes. An arrival is the
/// sender's and the receiver's time in ns, in the order of the receiver's. `reports` are other
/// packets that the link delivered: when, and how many bytes.
///
/// The recording begins with the last idle time of the start; the arrival with which it begins
/// sets the clock and is no opportunity. A packet that is smaller than an opportunity shares it
/// with the next, a larger one takes several, as on the modelled link.
///
/// Schedulers of radio links and traces serve at whole milliseconds, to which everything on the
/// way adds a constant and a little noise. The constant is estimated (the circular mean of the
/// arrivals' place within a millisecond) so that rounding does not tear apart what was together.
pub fn opportunities(arrivals: &[(u64, u64)], size: u16, reports: &[(u64, u32)]) -> Opportunities {
    let idle = idle_times(arrivals);
    let (Some(first), Some(last)) = (arrivals.first(), arrivals.last()) else {
        return Opportunities::default();
    };
    let start_ends = first.1 + ((last.1 - first.1) / START_SHARE).min(MAX_START);
    let started = arrivals.partition_point(|arrival| arrival.1 < start_ends);
    let begin = (0..started).rev().find(|index| idle[*index] > 0).unwrap_or(0);
    let origin = arrivals[begin].1;
    let times = || arrivals[begin + 1..].iter().map(|arrival| arrival.1 - origin);
    let (phase, grid) = place_in_millisecond(times());
    let mut millis = Vec::new();
    let (mut bytes, mut count) = (0_u64, 0);
    let mut others = reports.iter().skip_while(|report| report.0 <= origin).peekable();
    for time in times() {
        while let Some(report) = others.next_if(|report| report.0 <= origin + time) {
            bytes += u64::from(report.1);
        }
        bytes += u64::from(size);
        let at = ((time as f64 - phase) / 1e6).round().max(0.0) as u32;
        // On a busy link, the last byte of so many is in this opportunity.
        while count < bytes.div_ceil(OPPORTUNITY) {
            count += 1;
            millis.push(at);
        }
    }
    let recorded = (last.1 - origin).max(1) as f64;
    let idle = idle[begin + 1..].iter().sum::<u64>() as f64;
    Opportunities { millis, idle_share: (idle / recorded).min(1.0), grid }
}

/// Opportunities of 1500 bytes that the arrivals of a stream of a constant rate have used: of a link
/// that is faster than the stream, the stream's. Times in ns, in their order; the first sets the
/// clock and is no opportunity.
pub(crate) fn used_opportunities(arrivals: &[u64], size: u16) -> Vec<u32> {
    let Some((origin, rest)) = arrivals.split_first() else { return Vec::new() };
    let mut millis = Vec::new();
    for (number, time) in (1..).zip(rest) {
        let opportunities = (number * u64::from(size)).div_ceil(OPPORTUNITY);
        // No opportunity comes before its packet.
        let at = u32::try_from((time - origin).div_ceil(1_000_000)).unwrap_or(u32::MAX);
        millis.resize(opportunities as usize, at);
    }
    millis
}

/// For each arrival, how long the queue may have been empty before it. The packet reached the
/// queue when it was sent plus the least delay; if the one before it had not left by then, the
/// link was busy all the time between.
fn idle_times(arrivals: &[(u64, u64)]) -> Vec<u64> {
    let raw = |arrival: &(u64, u64)| arrival.1 as i64 - arrival.0 as i64;
    let least = arrivals.iter().map(raw).min().unwrap_or(0);
    let mut idle = vec![0; arrivals.len()];
    for (index, pair) in arrivals.windows(2).enumerate() {
        let reached_queue = pair[1].0 as i64 + least;
        let empty = reached_queue - pair[0].1 as i64;
        if empty > TOLERANCE {
            idle[index + 1] = (empty as u64).min(pair[1].1 - pair[0].1);
        }
    }
    idle
}

/// The circular mean of times within their milliseconds, from -0.5 to 0.5 ms in ns, and how much
/// they agree (the mean resultant length).
fn place_in_millisecond(times: impl Iterator<Item = u64>) -> (f64, f64) {
    let (mut sine, mut cosine, mut count) = (0.0, 0.0, 0.0_f64);
    for time in times {
        let angle = (time % 1_000_000) as f64 / 1e6 * std::f64::consts::TAU;
        sine += angle.sin();
        cosine += angle.cos();
        count += 1.0;
    }
    let phase = sine.atan2(cosine) / std::f64::consts::TAU * 1e6;
    (phase, sine.hypot(cosine) / count.max(1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Arrivals of packets that waited 100 ms each, so that the queue was never empty, but for the
    /// first, which took the least delay.
    fn busy(micros: &[u64]) -> Vec<(u64, u64)> {
        let arrival = |at: &u64| ((1_000_000 + at - 120_000) * 1_000, (1_000_000 + at) * 1_000);
        let mut arrivals: Vec<_> = micros.iter().map(arrival).collect();
        arrivals[0].0 += 100_000_000;
        arrivals
    }

    #[test]
    fn g14_a_stream_of_5_mbit_leaves_its_rate_of_a_faster_link_and_the_link_of_a_slower() {
        // 1500 bytes every 2.4 ms; over 3 Mbit/s they arrive every 4 ms.
        for (gap_us, mbps) in [(2_400, 5.0), (4_000, 3.0)] {
            let arrivals: Vec<u64> = (0..5_000).map(|n| 7_000 + n * gap_us * 1_000).collect();
            let millis = used_opportunities(&arrivals, 1500);
            let seconds = f64::from(*millis.last().unwrap()) / 1e3;
            let found = millis.len() as f64 * 12_000.0 / seconds / 1e6;
            assert!((found - mbps).abs() < 0.01, "{found}");
            assert!(millis.is_sorted());
        }
        assert_eq!(used_opportunities(&[5, 1_000_005, 2_000_004], 1000), [1, 2]);
        assert_eq!(
            (used_opportunities(&[], 1500), used_opportunities(&[9], 1500)),
            (vec![], vec![])
        );
    }

    #[test]
    fn full_packets_are_opportunities() {
        let found = opportunities(&busy(&[0, 1_000, 1_001, 3_000, 8_000]), 1500, &[]);
        assert_eq!(found.millis, [1, 1, 3, 8]);
        assert_eq!(found.idle_share, 0.0);
    }

    #[test]
    fn noise_and_phase_do_not_tear_milliseconds_apart() {
        // The first arrival lies 430 us beside the grid of the others.
        let times: Vec<u64> =
            std::iter::once(0).chain((1..2000).map(|ms| ms * 1_000 + 430 + ms * 7 % 50)).collect();
        let found = opportunities(&busy(&times), 1500, &[]);
        let expected: Vec<u32> = (1..2000).collect();
        assert_eq!(found.millis, expected);
        assert!(found.grid > 0.9, "{}", found.grid);
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        // Fifteen packets of 1400 bytes leave in fourteen opportunities, the last two together.
        let times: Vec<u64> = (0..15).map(|ms| ms * 1_000).chain([14_000]).collect();
        let expected: Vec<u32> = (1..15).collect();
        assert_eq!(opportunities(&busy(&times), 1400, &[]).millis, expected);
        // Packets of 3000 bytes leave with every second opportunity.
        assert_eq!(opportunities(&busy(&[0, 2_000, 4_000]), 3000, &[]).millis, [2, 2, 4, 4]);
    }

    #[test]
    fn reports_take_their_share_of_the_opportunities() {
        // Ten reports of 150 bytes take one opportunity, in which the eleventh packet began.
        let times: Vec<u64> = (0..12).map(|ms| ms * 1_000).collect();
        let arrivals = busy(&times);
        let reports: Vec<(u64, u32)> =
            arrivals[..10].iter().map(|arrival| (arrival.1 + 1, 150)).collect();
        assert_eq!(opportunities(&arrivals, 1500, &reports).millis.len(), 12);
        assert_eq!(opportunities(&arrivals, 1500, &[]).millis.len(), 11);
    }

    #[test]
    fn the_time_in_which_the_queue_may_have_been_empty_is_known() {
        // The third packet arrived 400 ms after the second, and was sent only 20 ms before.
        let mut arrivals = busy(&[0, 100_000, 500_000, 1_000_000]);
        arrivals[2].0 += 100_000_000;
        arrivals[3].0 -= 400_000_000;
        let found = opportunities(&arrivals, 1500, &[]);
        assert!((found.idle_share - 0.4).abs() < 1e-9, "{}", found.idle_share);
    }

    #[test]
    fn the_recording_begins_when_the_queue_is_full() {
        // For the first 100 ms each packet is sent when the last has arrived.
        let mut arrivals: Vec<(u64, u64)> =
            (0..10).map(|n| (n * 20_000_000, n * 20_000_000 + 20_000_000)).collect();
        // Then they wait, and arrive every ms for two seconds.
        arrivals.extend((201..2201).map(|ms| (150_000_000, ms * 1_000_000)));
        let found = opportunities(&arrivals, 1500, &[]);
        assert_eq!((found.millis.len(), found.millis.first()), (2000, Some(&1)));
        assert_eq!(found.idle_share, 0.0);
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        assert_eq!(opportunities(&[], 1500, &[]), Opportunities::default());
        assert!(opportunities(&[(0, 5)], 1500, &[]).millis.is_empty());
    }
}
