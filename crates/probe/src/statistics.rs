//! Statistics of arrivals. Times are nanoseconds in increasing order.

use cellpace_base::Span;

/// Runs of arrivals close together.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArrivalBursts {
    /// Arrivals of each.
    pub sizes: Vec<u32>,
    /// From the last arrival of each to the first of the next, in microseconds.
    pub between_us: Vec<u32>,
}

/// Parts arrivals into bursts: a burst ends where the next arrival comes `gap` or more later. With
/// `gap` zero every arrival is a burst of one.
pub fn bursts(times: &[u64], gap: Span) -> ArrivalBursts {
    let mut bursts = ArrivalBursts::default();
    let mut size = 0;
    for pair in times.windows(2) {
        size += 1;
        let between = pair[1].saturating_sub(pair[0]);
        if between >= gap.as_nanos() {
            bursts.sizes.push(size);
            bursts.between_us.push(u32::try_from(between / 1_000).unwrap_or(u32::MAX));
            size = 0;
        }
    }
    if !times.is_empty() {
        bursts.sizes.push(size + 1);
    }
    bursts
}

/// Mbit/s in each whole window of `width` from the first arrival on, for arrivals of `bytes` each.
/// A window includes its beginning. At most ten million windows.
pub fn throughput(times: &[u64], bytes: u32, width: Span) -> Vec<f32> {
    const MAX_WINDOWS: u64 = 10_000_000;
    let (Some(first), Some(last)) = (times.first(), times.last()) else { return Vec::new() };
    let width = width.as_nanos().max(1);
    let windows = (last.saturating_sub(*first) / width).min(MAX_WINDOWS);
    let mut counts = vec![0_u32; windows as usize];
    for at in times {
        if let Some(count) = counts.get_mut(((at - first) / width) as usize) {
            *count += 1;
        }
    }
    let mbps = f64::from(bytes) * 8e3 / width as f64;
    counts.into_iter().map(|count| (f64::from(count) * mbps) as f32).collect()
}

/// The Kolmogorov-Smirnov distance of two samples: the largest difference between the shares
/// that lie at or below any value. 1 if one is empty.
pub fn ks_distance(left: &[u32], right: &[u32]) -> f64 {
    if left.is_empty() || right.is_empty() {
        return 1.0;
    }
    let sorted = |values: &[u32]| {
        let mut values = values.to_vec();
        values.sort_unstable();
        values
    };
    let (left, right) = (sorted(left), sorted(right));
    let (mut i, mut j, mut largest) = (0, 0, 0.0_f64);
    while i < left.len() && j < right.len() {
        let value = left[i].min(right[j]);
        i += left[i..].iter().take_while(|other| **other == value).count();
        j += right[j..].iter().take_while(|other| **other == value).count();
        let difference = i as f64 / left.len() as f64 - j as f64 / right.len() as f64;
        largest = largest.max(difference.abs());
    }
    largest
}

/// Mean and standard deviation over it (0 where there is no mean).
pub(crate) fn mean_and_cv(values: &[f32]) -> (f64, f64) {
    let count = values.len().max(1) as f64;
    let mean = values.iter().map(|value| f64::from(*value)).sum::<f64>() / count;
    let square = values.iter().map(|value| (f64::from(*value) - mean).powi(2)).sum::<f64>();
    let cv = if mean > 0.0 { (square / count).sqrt() / mean } else { 0.0 };
    (mean, cv)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(micros: &[u64]) -> Vec<u64> {
        micros.iter().map(|micros| micros * 1_000).collect()
    }

    #[test]
    fn bursts_of_known_arrivals() {
        let times = us(&[0, 10, 20, 1020, 1500, 1600, 9000]);
        let found = bursts(&times, Span::from_micros(500));
        assert_eq!(found.sizes, [3, 3, 1]);
        assert_eq!(found.between_us, [1000, 7400]);
        let found = bursts(&times, Span::from_micros(480));
        assert_eq!(found.sizes, [3, 1, 2, 1], "the gap itself parts");
        assert_eq!(bursts(&times, Span::ZERO).sizes, [1; 7]);
        assert_eq!(
            bursts(&times, Span::from_secs(1)),
            ArrivalBursts { sizes: vec![7], between_us: vec![] }
        );
        assert_eq!(bursts(&[], Span::from_secs(1)), ArrivalBursts::default());
    }

    #[test]
    fn every_arrival_is_in_one_burst() {
        let times: Vec<u64> = (0..1000_u64).map(|n| n * n * 37).collect();
        for gap in [0, 1_000, 20_000, 50_000] {
            let found = bursts(&times, Span::from_nanos(gap));
            assert_eq!(found.sizes.iter().sum::<u32>(), 1000);
            assert_eq!(found.sizes.len(), found.between_us.len() + 1);
        }
    }

    #[test]
    fn throughput_of_known_arrivals() {
        // 1250 bytes in 10 ms are 1 Mbit/s.
        let ten_ms = Span::from_millis(10);
        let times = us(&[5_000, 6_000, 14_999, 15_000, 40_000]);
        assert_eq!(throughput(&times, 1250, ten_ms), [3.0, 1.0, 0.0]);
        assert!(throughput(&times, 1250, Span::from_secs(1)).is_empty(), "no whole window");
        assert!(throughput(&[], 1250, ten_ms).is_empty());
    }

    #[test]
    fn mean_and_cv_of_known_values() {
        assert_eq!(mean_and_cv(&[2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0]), (5.0, 0.4));
        assert_eq!(mean_and_cv(&[]), (0.0, 0.0));
    }

    #[test]
    fn ks_distance_of_known_samples() {
        assert_eq!(ks_distance(&[1, 2, 3], &[3, 1, 2]), 0.0);
        assert_eq!(ks_distance(&[1, 1, 1], &[2, 2]), 1.0);
        assert_eq!(ks_distance(&[1, 2], &[1, 2, 3, 4]), 0.5);
        assert_eq!(ks_distance(&[1, 1, 1, 2], &[1, 2, 2, 2]), 0.5);
        assert_eq!(ks_distance(&[], &[1]), 1.0);
    }
}
