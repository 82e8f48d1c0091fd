//! Counts of values in buckets of about equal relative width.

/// Counts values in the buckets of an HDR histogram: of one width at first, then of twice the width
/// from each power of two on. It takes memory for the buckets from the smallest to the largest value
/// alone, and one cache line beside: ten thousand flows have three of them each.
#[derive(Debug, Clone)]
pub(crate) struct Histogram {
    /// How many values there are in each bucket, from bucket `first` on.
    counts: Vec<u32>,
    first: u32,
    resolution: Resolution,
    total: u64,
}

/// How wide the buckets are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Resolution {
    /// Binary logarithm of the least width.
    unit_bits: u8,
    /// Binary logarithm of the number of buckets of one width; of the least there are twice as many.
    half_bits: u8,
}

/// Memory is taken for so many buckets at least, one cache line.
const STEP: u32 = 16;

impl Resolution {
    /// Buckets of one unit's width up to 2047, and within 0.1 % from there.
    pub(crate) const FINE: Self = Self { unit_bits: 0, half_bits: 10 };
    /// Buckets of 32 units' width up to 8191, and within 1 % from there.
    pub(crate) const COARSE: Self = Self { unit_bits: 5, half_bits: 7 };

    fn bucket(self, value: u64) -> u32 {
        let units = value >> self.unit_bits;
        let narrow = (2 << self.half_bits) - 1;
        let doublings = (units | narrow).ilog2() - u32::from(self.half_bits);
        (doublings << self.half_bits) + (units >> doublings) as u32
    }

    /// The least and the largest value of a bucket.
    fn bounds(self, bucket: u32) -> (u64, u64) {
        let doublings = (bucket >> self.half_bits).saturating_sub(1);
        let units = u64::from(bucket - (doublings << self.half_bits));
        let width_bits = doublings + u32::from(self.unit_bits);
        let least = units << width_bits;
        (least, least + ((1 << width_bits) - 1))
    }
}

impl Histogram {
    /// No values.
    pub(crate) fn new(resolution: Resolution) -> Self {
        Self { counts: Vec::new(), first: 0, resolution, total: 0 }
    }

    /// Number of values.
    pub(crate) fn total(&self) -> u64 {
        self.total
    }

    /// Adds `value` so many times.
    #[inline]
    pub(crate) fn add(&mut self, value: u64, times: u32) {
        let bucket = self.resolution.bucket(value);
        if (bucket.wrapping_sub(self.first) as usize) >= self.counts.len() {
            self.make_room(bucket);
        }
        let count = &mut self.counts[(bucket - self.first) as usize];
        *count = count.saturating_add(times);
        self.total += u64::from(times);
    }

    /// Adds the values of `other`.
    pub(crate) fn merge(&mut self, other: &Self) {
        for (bucket, count) in (other.first..).zip(&other.counts) {
            if *count > 0 {
                self.add(other.resolution.bounds(bucket).0, *count);
            }
        }
    }

    /// The value that a share `quantile` of all do not exceed, which is the largest of its bucket, or
    /// for a share of 0 the least; 0 where there are no values.
    pub(crate) fn value_at(&self, quantile: f64) -> u64 {
        let wanted = ((quantile.min(1.0) * self.total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        for (bucket, count) in (self.first..).zip(&self.counts) {
            seen += u64::from(*count);
            if seen >= wanted {
                let (least, largest) = self.resolution.bounds(bucket);
                return if quantile == 0.0 { least } else { largest };
            }
        }
        0
    }

    /// Grows at one end, by a quarter at least.
    #[cold]
    fn make_room(&mut self, bucket: u32) {
        let len = self.counts.len() as u32;
        if len == 0 {
            self.first = bucket / STEP * STEP;
        }
        let spare = len / 4;
        let first = match bucket < self.first {
            true => bucket.saturating_sub(spare) / STEP * STEP,
            false => self.first,
        };
        let end = match bucket < self.first + len {
            true => self.first + len,
            false => (bucket + 1 + spare).next_multiple_of(STEP),
        };
        let mut counts = Vec::with_capacity((end - first) as usize);
        counts.resize((self.first - first) as usize, 0);
        counts.extend_from_slice(&self.counts);
        counts.resize((end - first) as usize, 0);
        (self.counts, self.first) = (counts, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The same values in HDR histograms of the crate of that name.
    fn reference(resolution: Resolution, values: &[u64]) -> hdrhistogram::Histogram<u32> {
        let digits = if resolution == Resolution::FINE { 3 } else { 2 };
        let unit = 1 << resolution.unit_bits;
        let mut histogram =
            hdrhistogram::Histogram::new_with_bounds(unit, 2 * unit, digits).unwrap();
        histogram.auto(true);
        values.iter().for_each(|value| histogram.record(*value).unwrap());
        histogram
    }

    proptest! {
        #[test]
        fn quantiles_are_those_of_an_hdr_histogram(
            values in prop::collection::vec((0_u32..40, 0_u64..1 << 40), 1..300),
            split in 0_usize..300,
            quantiles in prop::collection::vec(0.0..=1.0_f64, 8),
        ) {
            let values: Vec<u64> = values.into_iter().map(|(shift, bits)| bits >> shift).collect();
            for resolution in [Resolution::FINE, Resolution::COARSE] {
                let expected = reference(resolution, &values);
                let mut histogram = Histogram::new(resolution);
                let mut other = Histogram::new(resolution);
                let (own, others) = values.split_at(split.min(values.len()));
                own.iter().for_each(|value| histogram.add(*value, 1));
                others.iter().for_each(|value| other.add(*value, 1));
                histogram.merge(&other);
                prop_assert_eq!(histogram.total(), values.len() as u64);
                for quantile in quantiles.iter().copied().chain([0.0, 0.5, 1.0]) {
                    prop_assert_eq!(histogram.value_at(quantile), expected.value_at_quantile(quantile));
                }
            }
        }
    }

    #[test]
    fn values_of_any_size_have_a_bucket() {
        for resolution in [Resolution::FINE, Resolution::COARSE] {
            for value in [0, 1, 31, 32, 2047, 2048, 8191, 8192, u64::MAX - 1, u64::MAX] {
                let (least, largest) = resolution.bounds(resolution.bucket(value));
                assert!((least..=largest).contains(&value), "{value}: {least} to {largest}");
            }
        }
    }

    #[test]
    fn memory_is_taken_for_the_range_of_the_values() {
        let mut histogram = Histogram::new(Resolution::COARSE);
        (40_000..60_000).rev().for_each(|value| histogram.add(value, 1));
        assert!(histogram.counts.capacity() <= 160, "{}", histogram.counts.capacity());
    }
}
