//! Statistics of a trace: what it carries, how its rate varies on several time scales, and how
//! bursty it is.
//!
//! Everything is computed in memory proportional to the number of opportunities, whatever the
//! times in the list: windows without an opportunity are counted, not stored.

use std::fmt;

use cellpace_base::statistics::quantile;

use crate::OPPORTUNITY_BYTES;
use crate::schedule::Trace;

/// Mbit/s of one opportunity per millisecond.
const MBPS_PER_PER_MS: f64 = OPPORTUNITY_BYTES as f64 * 8.0 / 1000.0;

/// A gap longer than this counts as an outage, in milliseconds.
pub const OUTAGE_MS: u32 = 100;

/// Percentiles of a quantity, interpolated between order statistics.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Percentiles {
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// 99.9th percentile.
    pub p999: f64,
    /// Largest.
    pub max: f64,
    /// Mean.
    pub mean: f64,
}

/// One bar of a histogram: the share of values in `from..=to`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Bar {
    /// Smallest value counted here.
    pub from: u32,
    /// Largest value counted here.
    pub to: u32,
    /// Share of all values, 0 to 1.
    pub share: f64,
}

/// Statistics of a trace over one period.
///
/// A *burst* is a run of opportunities in the same or in back-to-back milliseconds, as the radio
/// scheduler serves a user in 1-ms TTIs (Verus, section 3, "Burst Scheduling"). Windows that the
/// end of the trace cuts are left out; a rate's autocorrelation is that of 100-ms windows.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceStats {
    /// Length in seconds: the last timestamp.
    pub seconds: f64,
    /// Number of 1500-byte opportunities.
    pub opportunities: usize,
    /// Mean rate in Mbit/s.
    pub mean_mbps: f64,
    /// 5th percentile of the rate in 1-s windows, Mbit/s.
    pub rate_p5_mbps: f64,
    /// Median of the rate in 1-s windows, Mbit/s.
    pub rate_p50_mbps: f64,
    /// 95th percentile of the rate in 1-s windows, Mbit/s.
    pub rate_p95_mbps: f64,
    /// Standard deviation of the rate in 20-ms windows over its mean.
    pub cv_20ms: f64,
    /// The same for 100-ms windows.
    pub cv_100ms: f64,
    /// The same for 1-s windows.
    pub cv_1s: f64,
    /// Autocorrelation of the rate at a lag of 0.1 s.
    pub acf_100ms: f64,
    /// Autocorrelation of the rate at a lag of 1 s.
    pub acf_1s: f64,
    /// Autocorrelation of the rate at a lag of 5 s.
    pub acf_5s: f64,
    /// Times between milliseconds that have an opportunity.
    pub gap_ms: Percentiles,
    /// Share of the time in gaps of more than [`OUTAGE_MS`].
    pub outage_share: f64,
    /// Opportunities per burst.
    pub burst_size: Percentiles,
    /// From the last millisecond of a burst to the first of the next.
    pub inter_burst_ms: Percentiles,
    /// Distribution of the opportunities per burst (Verus, figure 2).
    pub burst_size_bars: Vec<Bar>,
    /// Distribution of the time between bursts (Verus, figure 2).
    pub inter_burst_bars: Vec<Bar>,
}

impl TraceStats {
    /// Statistics of a trace.
    pub fn of(trace: &Trace) -> Self {
        Self::of_millis(trace.millis())
    }

    /// Statistics of a sorted list of milliseconds; all zero for an empty one.
    pub fn of_millis(millis: &[u32]) -> Self {
        let length = millis.last().copied().unwrap_or(0);
        let [short, medium, second] = [20, 100, 1000].map(|width| WindowCounts::new(millis, width));
        let bursts = BurstRuns::new(millis);
        let outage: u64 =
            bursts.gaps.iter().filter(|g| **g > OUTAGE_MS).map(|g| u64::from(*g)).sum();
        let per_ms = |count: usize| ratio(count as f64, f64::from(length));
        Self {
            seconds: f64::from(length) / 1000.0,
            opportunities: millis.len(),
            mean_mbps: per_ms(millis.len()) * MBPS_PER_PER_MS,
            rate_p5_mbps: second.rate_quantile(0.05),
            rate_p50_mbps: second.rate_quantile(0.5),
            rate_p95_mbps: second.rate_quantile(0.95),
            cv_20ms: short.cv(),
            cv_100ms: medium.cv(),
            cv_1s: second.cv(),
            acf_100ms: medium.autocorrelation(1),
            acf_1s: medium.autocorrelation(10),
            acf_5s: medium.autocorrelation(50),
            outage_share: ratio(outage as f64, f64::from(length)),
            burst_size_bars: bars(&bursts.sizes),
            inter_burst_bars: bars(&bursts.between),
            gap_ms: percentiles(bursts.gaps),
            burst_size: percentiles(bursts.sizes),
            inter_burst_ms: percentiles(bursts.between),
        }
    }
}

/// Opportunities counted in windows of one width; those without any are not stored.
struct WindowCounts {
    width: u32,
    /// Number of whole windows.
    total: u64,
    /// Index and count of the windows that have an opportunity, by index.
    filled: Vec<(u32, u32)>,
}

impl WindowCounts {
    fn new(millis: &[u32], width: u32) -> Self {
        let total = millis.last().map_or(0, |last| last / width);
        let mut filled: Vec<(u32, u32)> = Vec::new();
        // The window that the end of the trace cuts would look slower than it was.
        for index in millis.iter().map(|ms| ms / width).take_while(|index| *index < total) {
            match filled.last_mut() {
                Some((last, count)) if *last == index => *count += 1,
                _ => filled.push((index, 1)),
            }
        }
        Self { width, total: u64::from(total), filled }
    }

    fn mean(&self) -> f64 {
        let sum: u64 = self.filled.iter().map(|(_, count)| u64::from(*count)).sum();
        ratio(sum as f64, self.total as f64)
    }

    fn variance(&self) -> f64 {
        let mean = self.mean();
        let square: f64 = self.filled.iter().map(|(_, count)| f64::from(*count).powi(2)).sum();
        // Rounding may take a variance of zero a little below it.
        (ratio(square, self.total as f64) - mean * mean).max(0.0)
    }

    fn cv(&self) -> f64 {
        ratio(self.variance().sqrt(), self.mean())
    }

    /// Quantile of the rate in Mbit/s.
    fn rate_quantile(&self, level: f64) -> f64 {
        // Windows without an opportunity come first among the ranks, without being stored.
        let empty = self.total - self.filled.len() as u64;
        let mut counts: Vec<u32> = self.filled.iter().map(|(_, count)| *count).collect();
        counts.sort_unstable();
        let at = |rank: u64| match rank.checked_sub(empty) {
            None => 0.0,
            Some(rank) => counts.get(rank as usize).map_or(0.0, |count| f64::from(*count)),
        };
        let rank = level * self.total.saturating_sub(1) as f64;
        let (below, part) = (rank.floor(), rank - rank.floor());
        let count = at(below as u64) + part * (at(rank.ceil() as u64) - at(below as u64));
        count / f64::from(self.width) * MBPS_PER_PER_MS
    }

    /// Autocorrelation at a lag of `lag` windows; 0 where it is not defined.
    fn autocorrelation(&self, lag: u32) -> f64 {
        let Some(pairs) = self.total.checked_sub(u64::from(lag)).filter(|pairs| *pairs > 0) else {
            return 0.0;
        };
        let mean = self.mean();
        let mut later = self.filled.iter().peekable();
        let (mut products, mut heads, mut tails) = (0.0, 0.0, 0.0);
        for (index, count) in &self.filled {
            let count = f64::from(*count);
            if u64::from(*index) < pairs {
                heads += count;
            }
            if *index >= lag {
                tails += count;
            }
            let wanted = u64::from(*index) + u64::from(lag);
            while later.next_if(|(other, _)| u64::from(*other) < wanted).is_some() {}
            if let Some((_, other)) = later.peek().filter(|(i, _)| u64::from(*i) == wanted) {
                products += count * f64::from(*other);
            }
        }
        let pairs = pairs as f64;
        // sum (x - m)(y - m) = sum xy - m (sum x + sum y) + m^2: empty windows only count in m.
        ratio((products - mean * (heads + tails)) / pairs + mean * mean, self.variance())
    }
}

struct BurstRuns {
    sizes: Vec<u32>,
    between: Vec<u32>,
    gaps: Vec<u32>,
}

impl BurstRuns {
    fn new(millis: &[u32]) -> Self {
        let mut bursts = Self { sizes: Vec::new(), between: Vec::new(), gaps: Vec::new() };
        let mut size = 0;
        for pair in millis.windows(2) {
            let gap = pair[1].saturating_sub(pair[0]);
            size += 1;
            if gap > 0 {
                bursts.gaps.push(gap);
            }
            if gap > 1 {
                bursts.between.push(gap);
                bursts.sizes.push(size);
                size = 0;
            }
        }
        // The last burst has no gap behind it, so the loop has not ended it.
        if !millis.is_empty() {
            bursts.sizes.push(size + 1);
        }
        bursts
    }
}

/// Percentiles of `values`; all zero if there are none.
pub fn percentiles(mut values: Vec<u32>) -> Percentiles {
    values.sort_unstable();
    let at = |level| quantile(&values, level);
    Percentiles {
        p50: at(0.5),
        p90: at(0.9),
        p99: at(0.99),
        p999: at(0.999),
        max: at(1.0),
        mean: ratio(values.iter().map(|v| f64::from(*v)).sum(), values.len() as f64),
    }
}

/// Last values of the bars: two to an octave, and one for the rest.
const BAR_ENDS: [u32; 32] = [
    1,
    2,
    3,
    4,
    6,
    8,
    12,
    16,
    24,
    32,
    48,
    64,
    96,
    128,
    192,
    256,
    384,
    512,
    768,
    1024,
    1536,
    2048,
    3072,
    4096,
    6144,
    8192,
    12_288,
    16_384,
    24_576,
    32_768,
    49_152,
    u32::MAX,
];

/// Shares of positive values; bars behind the largest value are left out.
pub fn bars(values: &[u32]) -> Vec<Bar> {
    let mut counts = [0_usize; BAR_ENDS.len()];
    for value in values {
        counts[BAR_ENDS.partition_point(|end| end < value)] += 1;
    }
    let used = counts.iter().rposition(|count| *count > 0).map_or(0, |last| last + 1);
    let first = |index: usize| if index == 0 { 1 } else { BAR_ENDS[index - 1] + 1 };
    let share = |count: usize| count as f64 / values.len() as f64;
    (0..used).map(|i| Bar { from: first(i), to: BAR_ENDS[i], share: share(counts[i]) }).collect()
}

fn ratio(a: f64, b: f64) -> f64 {
    if b > 0.0 { a / b } else { 0.0 }
}

/// One line of a side-by-side: a figure of two traces.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StatsRow {
    /// What it is, with its unit.
    pub what: &'static str,
    /// The first trace's figure.
    pub left: f64,
    /// The second's.
    pub right: f64,
}

impl StatsRow {
    /// The second figure against the first: 0.1 is 10 % more; `None` if the first is zero.
    pub fn change(&self) -> Option<f64> {
        (self.left != 0.0).then(|| self.right / self.left - 1.0)
    }
}

impl fmt::Display for StatsRow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:<24} {:>10.3} {:>10.3}", self.what, self.left, self.right)?;
        match self.change() {
            Some(change) => write!(f, " {:>+7.1} %", change * 100.0),
            None => Ok(()),
        }
    }
}

/// The figures of two traces side by side, for example of a source and of what a profile fitted
/// to it generates.
pub fn compare(left: &Trace, right: &Trace) -> Vec<StatsRow> {
    let (left, right) = (TraceStats::of(left), TraceStats::of(right));
    let row = |what, figure: fn(&TraceStats) -> f64| StatsRow {
        what,
        left: figure(&left),
        right: figure(&right),
    };
    vec![
        row("seconds", |s| s.seconds),
        row("mean Mbit/s", |s| s.mean_mbps),
        row("1-s rate p5 Mbit/s", |s| s.rate_p5_mbps),
        row("1-s rate p50 Mbit/s", |s| s.rate_p50_mbps),
        row("1-s rate p95 Mbit/s", |s| s.rate_p95_mbps),
        row("CV 20 ms", |s| s.cv_20ms),
        row("CV 100 ms", |s| s.cv_100ms),
        row("CV 1 s", |s| s.cv_1s),
        row("autocorrelation 0.1 s", |s| s.acf_100ms),
        row("autocorrelation 1 s", |s| s.acf_1s),
        row("autocorrelation 5 s", |s| s.acf_5s),
        row("gap p50 ms", |s| s.gap_ms.p50),
        row("gap p90 ms", |s| s.gap_ms.p90),
        row("gap p99 ms", |s| s.gap_ms.p99),
        row("gap p99.9 ms", |s| s.gap_ms.p999),
        row("longest gap ms", |s| s.gap_ms.max),
        row("time in outages %", |s| s.outage_share * 100.0),
        row("burst size mean", |s| s.burst_size.mean),
        row("burst size p50", |s| s.burst_size.p50),
        row("burst size p90", |s| s.burst_size.p90),
        row("burst size p99", |s| s.burst_size.p99),
        row("inter-burst mean ms", |s| s.inter_burst_ms.mean),
        row("inter-burst p50 ms", |s| s.inter_burst_ms.p50),
        row("inter-burst p90 ms", |s| s.inter_burst_ms.p90),
        row("inter-burst p99 ms", |s| s.inter_burst_ms.p99),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    fn every_ms(range: impl Iterator<Item = u32>) -> Vec<u32> {
        range.collect()
    }

    /// 100 ms with one opportunity each, 100 ms without, and an opportunity at the end.
    fn on_off(seconds: u32) -> Vec<u32> {
        every_ms((0..seconds * 1000).filter(|ms| ms / 100 % 2 == 0).chain([seconds * 1000]))
    }

    #[test]
    fn a_constant_rate_does_not_vary() {
        let stats = TraceStats::of_millis(&every_ms(0..=10_000));
        assert_eq!(stats.seconds, 10.0);
        assert_eq!(stats.opportunities, 10_001);
        assert!((stats.mean_mbps - 12.0012).abs() < 1e-9, "{}", stats.mean_mbps);
        assert_eq!((stats.rate_p5_mbps, stats.rate_p95_mbps), (12.0, 12.0));
        assert_eq!((stats.cv_20ms, stats.cv_100ms, stats.cv_1s), (0.0, 0.0, 0.0));
        assert_eq!(stats.acf_1s, 0.0);
        assert_eq!((stats.gap_ms.p50, stats.gap_ms.max), (1.0, 1.0));
        assert_eq!(stats.burst_size.max, 10_001.0);
        assert_eq!(stats.inter_burst_ms, Percentiles::default());
    }

    #[test]
    fn an_on_off_trace_has_the_figures_of_a_square_wave() {
        let stats = TraceStats::of_millis(&on_off(20));
        // Rates are 0 and 12 in turn: as far from the mean as the mean is from zero.
        assert!((stats.cv_20ms - 1.0).abs() < 1e-12 && (stats.cv_100ms - 1.0).abs() < 1e-12);
        assert_eq!(stats.cv_1s, 0.0);
        assert!((stats.acf_100ms + 1.0).abs() < 1e-12, "{}", stats.acf_100ms);
        assert!((stats.acf_1s - 1.0).abs() < 1e-12 && (stats.acf_5s - 1.0).abs() < 1e-12);
        assert_eq!((stats.burst_size.p50, stats.inter_burst_ms.p50), (100.0, 101.0));
        // 100 gaps of 101 ms in 20 s.
        assert!((stats.outage_share - 0.505).abs() < 1e-9, "{}", stats.outage_share);
    }

    #[test]
    fn percentiles_of_seconds_count_the_empty_ones() {
        // 1, 0, 3 and 4 opportunities in the seconds, then the end.
        let stats = TraceStats::of_millis(&[500, 2000, 2001, 2002, 3000, 3500, 3600, 3700, 4000]);
        // The order statistics are 0, 1, 3, 4; an opportunity per second is 0.012 Mbit/s.
        assert!((stats.rate_p50_mbps - 2.0 * 0.012).abs() < 1e-12, "{}", stats.rate_p50_mbps);
        assert!((stats.rate_p5_mbps - 0.15 * 0.012).abs() < 1e-12, "{}", stats.rate_p5_mbps);
        assert_eq!(stats.gap_ms.max, 1500.0);
        assert_eq!(stats.burst_size.max, 3.0);
    }

    #[test]
    fn bursts_join_neighbouring_milliseconds_only() {
        let stats = TraceStats::of_millis(&[5, 5, 6, 8, 8, 8, 8, 20, 21, 22, 23, 24]);
        // Bursts 5 5 6, 8 8 8 8, 20..24; between them 2 and 12 ms.
        assert_eq!((stats.burst_size.mean, stats.burst_size.max), (4.0, 5.0));
        assert_eq!((stats.inter_burst_ms.mean, stats.inter_burst_ms.max), (7.0, 12.0));
        let third = 1.0 / 3.0;
        let bar = |from, to, share| Bar { from, to, share };
        assert_eq!(
            stats.burst_size_bars[2..],
            [bar(3, 3, third), bar(4, 4, third), bar(5, 6, third)]
        );
        assert_eq!(stats.inter_burst_bars[1], bar(2, 2, 0.5));
        assert_eq!(stats.inter_burst_bars.last(), Some(&bar(9, 12, 0.5)));
    }

    #[test]
    fn bars_cover_everything_once() {
        let values: Vec<u32> = (1..2000).chain([70_000, u32::MAX]).collect();
        let bars = bars(&values);
        assert!((bars.iter().map(|bar| bar.share).sum::<f64>() - 1.0).abs() < 1e-9);
        assert!(bars.windows(2).all(|pair| pair[0].to + 1 == pair[1].from));
        assert_eq!(bars.last().map(|bar| bar.to), Some(u32::MAX));
    }

    #[test]
    fn degenerate_lists_have_figures_too() {
        for millis in [&[][..], &[0], &[7], &[0, u32::MAX], &[3, 3, 3]] {
            let stats = TraceStats::of_millis(millis);
            let figures = [stats.mean_mbps, stats.cv_20ms, stats.acf_5s, stats.rate_p95_mbps];
            assert!(figures.iter().all(|figure| figure.is_finite()), "{millis:?} {stats:?}");
        }
    }

    #[test]
    fn a_side_by_side_of_a_trace_with_itself_has_no_change() {
        let trace = Trace::from_millis(on_off(20)).unwrap();
        let rows = compare(&trace, &trace);
        assert_eq!(rows.len(), 25);
        assert!(rows.iter().all(|row| row.change().is_none_or(|change| change == 0.0)));
        let row = StatsRow { what: "CV 1 s", left: 0.5, right: 0.55 };
        assert_eq!(row.to_string(), "CV 1 s                        0.500      0.550   +10.0 %");
        assert_eq!(StatsRow { left: 0.0, ..row }.change(), None);
    }
}
