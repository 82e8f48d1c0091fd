//! All connections of a command over the same time: their sum, and percentiles of each moment.

use std::collections::BTreeMap;

use cellpace_base::statistics::quantile;

/// Bins at most: a wide screen has no more columns.
const MAX_BINS: usize = 1_000;

/// A connection over time. NaN where nothing is known.
pub(crate) struct PlacedSeries {
    /// When it begins, in seconds.
    pub(crate) start_s: f64,
    pub(crate) bin_s: f64,
    pub(crate) values: Vec<f64>,
}

/// What a value of a bin is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mean {
    /// Over the whole bin: of rates, whose sum then stays what was sent.
    OfBin,
    /// Over the time in it of which something is known.
    OfKnown,
}

/// The same moments of all connections.
pub(crate) struct Moments {
    pub(crate) bin_s: f64,
    /// The values of those that are known in each bin, sorted.
    bins: Vec<Vec<f64>>,
}

impl Moments {
    /// In bins as wide as the widest of the connections'. `None` where there is no time.
    pub(crate) fn of(all: &[PlacedSeries], mean: Mean) -> Option<Self> {
        let widest = all.iter().map(|series| series.bin_s).fold(0.0, f64::max);
        let end = all.iter().map(PlacedSeries::end).fold(0.0, f64::max);
        // Values of a file may be anything.
        if !(widest > 0.0 && end > 0.0 && end.is_finite()) {
            return None;
        }
        let bin_s = widest.max(end / MAX_BINS as f64);
        let mut bins = vec![Vec::new(); (end / bin_s).ceil().max(1.0) as usize];
        for series in all.iter().filter(|series| series.bin_s > 0.0 && series.start_s >= 0.0) {
            series.spread(bin_s, mean, &mut bins);
        }
        bins.iter_mut().for_each(|values| values.sort_by(f64::total_cmp));
        Some(Self { bin_s, bins })
    }

    /// The sum of all; 0 where there is none.
    pub(crate) fn sums(&self) -> Vec<f32> {
        self.bins.iter().map(|values| values.iter().sum::<f64>() as f32).collect()
    }

    /// The value below which a share of the connections is; NaN where there is none.
    pub(crate) fn quantiles(&self, share: f64) -> Vec<f32> {
        let of = |values: &Vec<f64>| match values.is_empty() {
            true => f32::NAN,
            false => quantile(values, share) as f32,
        };
        self.bins.iter().map(of).collect()
    }
}

impl PlacedSeries {
    fn end(&self) -> f64 {
        self.start_s + self.bin_s * self.values.len() as f64
    }

    /// Adds its mean in each bin of `bin_s`.
    fn spread(&self, bin_s: f64, mean: Mean, bins: &mut [Vec<f64>]) {
        let mut sums = BTreeMap::<usize, [f64; 2]>::new();
        for (place, value) in self.values.iter().enumerate().filter(|(_, value)| value.is_finite())
        {
            let from = self.start_s + self.bin_s * place as f64;
            let to = from + self.bin_s;
            let (first, last) = ((from / bin_s) as usize, (to / bin_s).ceil() as usize);
            for bin in first..last.min(bins.len()) {
                let [begin, end] = [bin, bin + 1].map(|at| at as f64 * bin_s);
                let share = (to.min(end) - from.max(begin)).max(0.0) / bin_s;
                let [sum, known] = sums.entry(bin).or_default();
                (*sum, *known) = (*sum + share * value, *known + share);
            }
        }
        for (bin, [sum, known]) in sums.into_iter().filter(|(_, [_, known])| *known > 0.0) {
            bins[bin].push(if mean == Mean::OfBin { sum } else { sum / known });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn series(start_s: f64, bin_s: f64, values: &[f64]) -> PlacedSeries {
        PlacedSeries { start_s, bin_s, values: values.to_vec() }
    }

    #[test]
    fn bins_of_several_widths_are_summed_where_they_lie() {
        let all = [series(0.0, 1.0, &[4.0, 2.0]), series(1.5, 0.5, &[6.0, 3.0, f64::NAN])];
        let moments = Moments::of(&all, Mean::OfBin).unwrap();
        assert_eq!(moments.bin_s, 1.0);
        // The second one has half of the second bin, half of the third, and then nothing.
        assert_eq!(moments.sums(), [4.0, 5.0, 1.5]);
        assert_eq!(moments.quantiles(1.0), [4.0, 3.0, 1.5]);
        assert_eq!(moments.quantiles(0.0), [4.0, 2.0, 1.5]);
        let known = Moments::of(&all, Mean::OfKnown).unwrap();
        assert_eq!(known.quantiles(1.0), [4.0, 6.0, 3.0]);
    }

    #[test]
    fn what_was_sent_stays_the_same_however_long_it_took() {
        let long = series(86_000.0, 0.2, &[5.0; 600]);
        let moments = Moments::of(&[series(0.0, 0.2, &[8.0; 10]), long], Mean::OfBin).unwrap();
        assert!(moments.bins.len() <= MAX_BINS, "{}", moments.bins.len());
        let sent: f64 = moments.sums().iter().map(|rate| f64::from(*rate) * moments.bin_s).sum();
        assert!((sent - (16.0 + 600.0)).abs() < 0.01, "{sent}");
    }

    #[test]
    fn nothing_is_drawn_of_no_time_or_odd_ones() {
        assert!(Moments::of(&[], Mean::OfBin).is_none());
        assert!(Moments::of(&[series(f64::INFINITY, 1.0, &[1.0])], Mean::OfBin).is_none());
        assert!(Moments::of(&[series(0.0, 0.0, &[1.0])], Mean::OfBin).is_none());
        let negative =
            Moments::of(&[series(-5.0, 1.0, &[1.0]), series(0.0, 1.0, &[2.0])], Mean::OfBin)
                .unwrap();
        assert_eq!(negative.sums(), [2.0]);
    }
}
