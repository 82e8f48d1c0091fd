//! The model of the link: a grid of rates, how the rate wanders from tick to tick, how many
//! packets a rate delivers per tick, and the forecast tables that follow from these. Everything
//! here depends on the parameters alone, is computed once and shared between flows.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cellpace_base::ParamSet;
use cellpace_base::math::{exp, ln};

use crate::{PeerCost, Span};

use super::params::{MaxRate, OutageRow, SproutParams};

/// Ticks that a forecast covers. Sprout section 3.3
pub(super) const HORIZON: usize = 8;

/// Width of a bin in packets per second, up to [`RateGrid::EVEN`].
const WIDTH: f64 = 1000.0 / 256.0;

/// The parameters of a model.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct ModelSpec {
    pub(super) tick: Span,
    /// In packets per second.
    pub(super) max_rate: u32,
    /// In packets per second per square root of a second.
    pub(super) sigma: f64,
    /// Per second.
    pub(super) escape: f64,
    pub(super) normalised_outage: bool,
    pub(super) joint: bool,
}

impl ModelSpec {
    pub(super) fn new(params: &SproutParams) -> Self {
        Self {
            tick: params.tick,
            max_rate: params.max_rate.first(),
            sigma: params.sigma,
            escape: params.escape,
            normalised_outage: params.outage_row == OutageRow::Normalised,
            joint: params.joint,
        }
    }

    fn tau(&self) -> f64 {
        self.tick.as_secs_f64()
    }

    /// Whether it is a size of the automatic grid with the other parameters at their defaults.
    fn is_automatic(&self) -> bool {
        let mut size = Some(Self::new(&SproutParams::defaults()));
        while let Some(spec) = size {
            if spec == *self {
                return true;
            }
            size = spec.grown();
        }
        false
    }

    /// The same with twice the rate; `None` at the end.
    pub(super) fn grown(&self) -> Option<Self> {
        let max_rate = self.max_rate * 2;
        (max_rate <= MaxRate::MAX).then_some(Self { max_rate, ..*self })
    }

    /// Counts per tick that the forecast tables know: 0 to this, exclusive.
    fn counts(&self) -> usize {
        let mean = f64::from(self.max_rate) * self.tau();
        if mean <= 20.0 {
            // What the original has for 1000 packets per second and 20 ms.
            return 30;
        }
        (mean + 30_f64.max(4.0 * mean.sqrt())).ceil() as usize
    }
}

/// The rates that the link may have. Bin 0 is the outage; the last bin has no upper end.
///
/// Up to 1000 packets per second all bins are equally wide. Above, each octave has bins twice as
/// wide as the one before, so that a faster link costs 128 bins per doubling and not twice the
/// bins; the width stays below two standard deviations of a tick's Brownian step. A larger grid
/// has all bins of a smaller one except for its last.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct RateGrid {
    /// Lower edges of the bins.
    lower: Vec<f64>,
    /// What stands for each bin, in packets per second.
    pub(super) rates: Vec<f64>,
}

impl RateGrid {
    /// Up to here bins are equally wide.
    const EVEN: f64 = 1000.0;

    pub(super) fn new(max_rate: u32) -> Self {
        let (mut lower, mut rates) = (Vec::new(), Vec::new());
        let (mut edge, mut width, mut octave_end) = (0.0, WIDTH, Self::EVEN);
        loop {
            let top = edge >= f64::from(max_rate);
            if edge >= octave_end && !top {
                width *= 2.0;
                octave_end *= 2.0;
            }
            lower.push(edge);
            rates.push(if edge == 0.0 { 0.0 } else { edge + width / 2.0 });
            if top {
                return Self { lower, rates };
            }
            edge += width;
        }
    }

    pub(super) fn len(&self) -> usize {
        self.rates.len()
    }

    /// The bin that holds `rate`.
    pub(super) fn bin(&self, rate: f64) -> usize {
        self.lower.partition_point(|edge| *edge <= rate).saturating_sub(1)
    }

    /// Lower edge of a bin for the Brownian step: all that goes below bin 1 is an outage.
    fn low(&self, bin: usize) -> f64 {
        if bin == 0 { f64::NEG_INFINITY } else { self.lower[bin] }
    }

    fn high(&self, bin: usize) -> f64 {
        self.lower.get(bin + 1).copied().unwrap_or(f64::INFINITY)
    }
}

/// A row of the evolution matrix: where the rate may be one tick later.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct EvolutionRow {
    pub(super) first: usize,
    pub(super) weights: Vec<f64>,
}

/// Everything that follows from the parameters.
#[derive(Debug)]
pub(super) struct SproutModel {
    pub(super) spec: ModelSpec,
    pub(super) grid: RateGrid,
    pub(super) rows: Vec<EvolutionRow>,
    /// Poisson probabilities of a count per bin, count by count.
    exact: Vec<Vec<f64>>,
    /// Probabilities of at least a count per bin, count by count.
    at_least: Vec<Vec<f64>>,
    /// Per tick of the horizon: cumulative probabilities of a count per starting bin, count by
    /// count. In f32, as a forecast needs two digits of them and they are most of the memory.
    cumulative: Vec<Vec<f32>>,
}

impl SproutModel {
    /// Nothing is impossible under censoring, or a burst would rule all rates out.
    const MIN: f64 = 1e-12;

    /// Tables of this many bytes are kept for flows to come: an automatic grid in all its sizes
    /// and a few more. Those that a flow uses are kept in any case.
    const KEPT_BYTES: usize = 128 << 20;

    /// While flows use more than this, no peer gets tables of parameters that no flow has yet.
    const PEER_BYTES: usize = 64 << 20;

    /// The model of `spec`, computed by the first flow that needs it.
    pub(super) fn shared(spec: &ModelSpec) -> Arc<Self> {
        // The lock is held while computing: others that want the same wait rather than doing it, too.
        let mut models = Self::models();
        let known = models.iter().position(|model| model.spec == *spec);
        let model = match known {
            Some(index) => models.remove(index),
            None => Arc::new(Self::new(*spec)),
        };
        // From the one not asked for the longest time to the newest.
        models.push(model.clone());
        Self::drop_unused(&mut models);
        model
    }

    /// What the tables of `spec` cost if a peer asks for them.
    pub(super) fn peer_cost(spec: &ModelSpec) -> Result<PeerCost, String> {
        let models = Self::models();
        if models.iter().any(|model| model.spec == *spec) {
            return Ok(PeerCost::Shared);
        }
        let in_use = models.iter().filter(|model| Arc::strong_count(model) > 1);
        if in_use.map(|model| model.bytes()).sum::<usize>() > Self::PEER_BYTES {
            return Err("the tables of other flows take up all memory for them just now".into());
        }
        Ok(PeerCost::Tables)
    }

    fn models() -> MutexGuard<'static, Vec<Arc<Self>>> {
        static MODELS: Mutex<Vec<Arc<SproutModel>>> = Mutex::new(Vec::new());
        MODELS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Drops the models that were not asked for the longest time and that no flow uses. Those of
    /// the automatic grid stay: strangers can order others in order to have them computed again.
    fn drop_unused(models: &mut Vec<Arc<Self>>) {
        let mut kept: usize = models.iter().map(|model| model.bytes()).sum();
        models.retain(|model| {
            let unused = Arc::strong_count(model) == 1 && !model.spec.is_automatic();
            let dropped = kept > Self::KEPT_BYTES && unused;
            kept -= if dropped { model.bytes() } else { 0 };
            !dropped
        });
    }

    pub(super) fn new(spec: ModelSpec) -> Self {
        let grid = RateGrid::new(spec.max_rate);
        let step = spec.sigma * spec.tau().sqrt();
        let rows = evolution(&spec, &grid, |distance| normal(distance / step));
        // Bursts may exceed what any rate explains; all above counts as this.
        let exact = poisson(&grid, spec.tau(), 2 * spec.counts());
        let at_least = tails(&exact);
        let counts = CountTables::new(&exact[..spec.counts()], grid.len());
        let cumulative = if spec.joint {
            cumulate(joint_tables(&counts, &rows), grid.len())
        } else {
            cumulate(independent_tables(&counts, &rows), grid.len())
        };
        Self { spec, grid, rows, exact, at_least, cumulative }
    }

    /// Probability of `count` packets in a tick, per bin.
    pub(super) fn exactly(&self, count: usize) -> &[f64] {
        &self.exact[count.min(self.exact.len() - 1)]
    }

    /// Probability of at least `count` packets in a tick, per bin.
    pub(super) fn at_least(&self, count: usize) -> &[f64] {
        &self.at_least[count.min(self.at_least.len() - 1)]
    }

    /// The smallest count, from `least` on, that the link delivers no more than within `ticks`
    /// (from 1) with probability `share`, when its rate is distributed as `belief`.
    pub(super) fn quantile(&self, belief: &[f64], ticks: usize, share: f64, least: usize) -> usize {
        let table = &self.cumulative[ticks - 1];
        let bins = self.grid.len();
        let last = table.len() / bins - 1;
        let (mut low, mut high) = (least.min(last), last);
        while low < high {
            let middle = (low + high) / 2;
            if dot(belief, &table[middle * bins..][..bins]) >= share {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        low
    }

    /// Bytes of the tables.
    fn bytes(&self) -> usize {
        let words = |tables: &[Vec<f64>]| tables.iter().map(Vec::len).sum::<usize>() * 8;
        let rows: usize = self.rows.iter().map(|row| row.weights.len() * 8).sum();
        let cumulative: usize = self.cumulative.iter().map(|table| table.len() * 4).sum();
        words(&self.exact) + words(&self.at_least) + rows + cumulative
    }
}

fn dot(belief: &[f64], probabilities: &[f32]) -> f64 {
    // Four sums that do not wait for each other.
    let mut sums = [0.0; 4];
    let (ps, cs) = (belief.chunks_exact(4), probabilities.chunks_exact(4));
    let rest: f64 = ps.remainder().iter().zip(cs.remainder()).map(|(p, c)| p * f64::from(*c)).sum();
    for (p, c) in ps.zip(cs) {
        for lane in 0..4 {
            sums[lane] += p[lane] * f64::from(c[lane]);
        }
    }
    sums.iter().sum::<f64>() + rest
}

/// The evolution matrix: Brownian motion of the rate over one tick, sticky outages.
/// `phi` is the probability of less than a step, in packets per second. Sprout section 3.1
fn evolution(spec: &ModelSpec, grid: &RateGrid, phi: impl Fn(f64) -> f64) -> Vec<EvolutionRow> {
    let step = spec.sigma * spec.tau().sqrt();
    let stays = exp(-spec.escape * spec.tau());
    (0..grid.len())
        .map(|bin| {
            let rate = grid.rates[bin];
            let first = grid.bin(rate - 5.0 * step);
            let last = (grid.bin(rate + 5.0 * step) + 1).min(grid.len() - 1);
            let mut below = phi(grid.low(first) - rate);
            let mut weights: Vec<f64> = (first..=last)
                .map(|to| {
                    let above = phi(grid.high(to) - rate);
                    let moves = above - below;
                    below = above;
                    match (bin, to) {
                        (0, 0) => stays * moves,
                        (0, _) => (1.0 - stays) * moves,
                        _ => moves,
                    }
                })
                .collect();
            if bin == 0 && spec.normalised_outage {
                let sum: f64 = weights.iter().sum();
                weights.iter_mut().for_each(|weight| *weight /= sum);
            }
            EvolutionRow { first, weights }
        })
        .collect()
}

/// The standard normal distribution function, to 1e-15: Marsaglia (2004), J. Stat. Soft. 11(4).
fn normal(x: f64) -> f64 {
    if x.abs() > 8.0 {
        return if x > 0.0 { 1.0 } else { 0.0 };
    }
    let (mut sum, mut term, mut odd) = (x, x, 1.0);
    while term.abs() > 1e-17 * sum.abs() {
        odd += 2.0;
        term *= x * x / odd;
        sum += term;
    }
    0.5 + sum * exp(-0.5 * x * x) / std::f64::consts::TAU.sqrt()
}

/// Poisson probabilities of each count below `counts`, per bin. Sprout section 3.2
fn poisson(grid: &RateGrid, tau: f64, counts: usize) -> Vec<Vec<f64>> {
    let mut log_factorial = 0.0;
    (0..counts)
        .map(|count| {
            let k = count as f64;
            log_factorial += ln(k.max(1.0));
            let probability = |rate: &f64| {
                let mean = rate * tau;
                match (mean > 0.0, count) {
                    (true, _) => exp(k * ln(mean) - mean - log_factorial),
                    (false, 0) => 1.0,
                    (false, _) => 0.0,
                }
            };
            grid.rates.iter().map(probability).collect()
        })
        .collect()
}

/// Probabilities of at least each count, per bin.
fn tails(exact: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut remaining = vec![1.0_f64; exact.first().map_or(0, Vec::len)];
    exact
        .iter()
        .map(|probabilities| {
            let tail = remaining.iter().map(|rest| rest.max(SproutModel::MIN)).collect();
            for (rest, probability) in remaining.iter_mut().zip(probabilities) {
                *rest -= probability;
            }
            tail
        })
        .collect()
}

/// Distributions of a number of packets, one per bin, all of the same length.
#[derive(Debug, Clone)]
struct CountTables {
    length: usize,
    values: Vec<f64>,
}

impl CountTables {
    /// Turns probabilities, count by count, into one distribution per bin.
    fn new(exact: &[Vec<f64>], bins: usize) -> Self {
        let values = (0..bins).flat_map(|bin| exact.iter().map(move |of| of[bin])).collect();
        Self { length: exact.len(), values }
    }

    /// The distribution of no packets at all.
    fn none(bins: usize) -> Self {
        Self { length: 1, values: vec![1.0; bins] }
    }

    fn of(&self, bin: usize) -> &[f64] {
        &self.values[bin * self.length..][..self.length]
    }

    /// What each bin expects after one tick of wandering, not normalised.
    fn evolved(&self, rows: &[EvolutionRow]) -> Self {
        let mut values = vec![0.0; self.values.len()];
        for (row, to) in rows.iter().zip(values.chunks_exact_mut(self.length)) {
            for (from, weight) in (row.first..).zip(&row.weights) {
                for (to, from) in to.iter_mut().zip(self.of(from)) {
                    *to += weight * from;
                }
            }
        }
        Self { length: self.length, values }
    }

    /// Divides the distribution of each bin by its own sum of weights.
    fn divided(&self, sums: &[f64]) -> Self {
        let values = self.values.chunks_exact(self.length).zip(sums);
        let values = values.flat_map(|(of, sum)| of.iter().map(move |value| value / sum)).collect();
        Self { length: self.length, values }
    }

    /// The distributions of the sums of two independent numbers of packets.
    fn plus(&self, other: &Self) -> Self {
        /// Too little to reach any digit of a forecast.
        const NOTHING: f64 = 1e-16;
        let length = self.length + other.length - 1;
        let mut values = vec![0.0; self.values.len() / self.length * length];
        for (bin, to) in values.chunks_exact_mut(length).enumerate() {
            let ours = self.of(bin);
            let first = ours.iter().position(|value| *value > NOTHING).unwrap_or(0);
            let last = ours.iter().rposition(|value| *value > NOTHING).map_or(0, |last| last + 1);
            let ours = &ours[first.min(last)..last];
            for (shift, theirs) in other.of(bin).iter().enumerate() {
                if *theirs > NOTHING {
                    for (to, ours) in to[first + shift..].iter_mut().zip(ours) {
                        *to += theirs * ours;
                    }
                }
            }
        }
        Self { length, values }
    }
}

fn evolved_sums(rows: &[EvolutionRow], sums: &[f64]) -> Vec<f64> {
    let sum = |row: &EvolutionRow| -> f64 {
        row.weights.iter().zip(&sums[row.first..]).map(|(weight, sum)| weight * sum).sum()
    };
    rows.iter().map(sum).collect()
}

/// The original's tables: the first tick has the starting rate, each later one a rate that has
/// wandered, and the numbers of packets of the ticks are summed as if they were independent.
/// Whatever evolves is linear, so it is carried per starting bin and normalised when it is used.
fn independent_tables(counts: &CountTables, rows: &[EvolutionRow]) -> Vec<CountTables> {
    let mut tick = counts.clone();
    let mut sums = vec![1.0; rows.len()];
    let mut total = CountTables::none(rows.len());
    (0..HORIZON)
        .map(|ahead| {
            if ahead > 0 {
                tick = tick.evolved(rows);
                sums = evolved_sums(rows, &sums);
            }
            total = total.plus(&tick.divided(&sums));
            total.clone()
        })
        .collect()
}

/// The same along paths of the rate: a tick's packets, and then what the later ticks bring from
/// wherever the rate went.
fn joint_tables(counts: &CountTables, rows: &[EvolutionRow]) -> Vec<CountTables> {
    let sums = evolved_sums(rows, &vec![1.0; rows.len()]);
    let mut total = counts.clone();
    (0..HORIZON)
        .map(|ahead| {
            if ahead > 0 {
                total = total.evolved(rows).divided(&sums).plus(counts);
            }
            total.clone()
        })
        .collect()
}

/// Cumulative probabilities, count by count.
fn cumulate(tables: Vec<CountTables>, bins: usize) -> Vec<Vec<f32>> {
    let cumulated = |table: CountTables| {
        let mut sums = vec![0.0; bins];
        let mut cumulative = Vec::with_capacity(table.values.len());
        for count in 0..table.length {
            for (bin, sum) in sums.iter_mut().enumerate() {
                *sum += table.values[bin * table.length + count];
                cumulative.push(*sum as f32);
            }
        }
        cumulative
    };
    tables.into_iter().map(cumulated).collect()
}

#[cfg(test)]
mod tests {
    use super::super::params;
    use super::*;

    fn spec(rest: &str) -> ModelSpec {
        ModelSpec::new(&params(rest))
    }

    fn close(value: f64, expected: f64, within: f64) {
        assert!((value - expected).abs() < within, "{value} instead of {expected}");
    }

    fn to(model: &SproutModel, from: usize, to: usize) -> f64 {
        let row = &model.rows[from];
        to.checked_sub(row.first).and_then(|index| row.weights.get(index)).copied().unwrap_or(0.0)
    }

    fn row_sum(model: &SproutModel, from: usize) -> f64 {
        model.rows[from].weights.iter().sum()
    }

    #[test]
    fn sprout_t1_grid() {
        let grid = RateGrid::new(1000);
        assert_eq!(grid.len(), 257);
        let expected = [(0, 0.0), (1, 5.859375), (128, 501.953125), (256, 1001.953125)];
        for (bin, rate) in expected {
            assert_eq!(grid.rates[bin], rate);
        }
        assert_eq!(grid.bin(3.9), 0);
        assert_eq!(grid.bin(3.90625), 1);
        assert_eq!(grid.bin(1e9), 256);
        assert_eq!(grid.bin(-1e9), 0);
    }

    #[test]
    fn a_larger_grid_has_the_bins_of_the_smaller_one() {
        let mut small = RateGrid::new(1000);
        for max_rate in [2000, 4000, 8000, 16_000] {
            let large = RateGrid::new(max_rate);
            let shared = small.len() - 1;
            assert_eq!(large.lower[..=shared], small.lower[..]);
            assert_eq!(large.rates[..shared], small.rates[..shared]);
            assert_eq!(large.len(), small.len() + 128);
            assert!(large.lower.is_sorted() && large.rates.is_sorted());
            assert_eq!(large.lower.last(), Some(&f64::from(max_rate)));
            small = large;
        }
        assert_eq!(RateGrid::new(100).len(), 27);
    }

    #[test]
    fn sprout_t2_evolution() {
        let model = SproutModel::shared(&spec(""));
        let expected = [
            (0, 0, 0.543934),
            (0, 1, 0.001067),
            (1, 1, 0.055053),
            (128, 128, 0.055053),
            (128, 127, 0.054531),
            (128, 129, 0.054531),
            (256, 256, 0.527526),
            (256, 255, 0.054531),
        ];
        for (from, bin, probability) in expected {
            close(to(&model, from, bin), probability, 1e-6);
        }
        close(row_sum(&model, 0), 0.552747, 1e-6);
        close(row_sum(&model, 128), 1.0, 1e-6);
        let row = &model.rows[128];
        assert_eq!((row.first, row.first + row.weights.len() - 1), (92, 165));
        let normalised = SproutModel::shared(&spec("outage_row=normalised"));
        close(to(&normalised, 0, 0), 0.984056, 1e-6);
        close(row_sum(&normalised, 0), 1.0, 1e-12);
        close(to(&normalised, 128, 128), 0.055053, 1e-6);
    }

    fn tables(phi: impl Fn(f64) -> f64) -> Vec<CountTables> {
        let spec = spec("");
        let grid = RateGrid::new(1000);
        let rows = evolution(&spec, &grid, phi);
        let exact = poisson(&grid, spec.tau(), spec.counts());
        independent_tables(&CountTables::new(&exact, grid.len()), &rows)
    }

    #[test]
    fn sprout_t3_tables() {
        let step = 200.0 * 0.02_f64.sqrt();
        // The original looks the normal distribution up in 32769 cells over -1000 to 1000.
        let cell = 2000.0 / 32768.0;
        let quantised = |x: f64| {
            normal(
                (((x.clamp(-1e6, 1e6) + 1000.0) / cell).floor() * cell - 1000.0 + cell / 2.0)
                    / step,
            )
        };
        let original = tables(quantised);
        let exact = tables(|distance| normal(distance / step));
        let cells = [
            (2, 0, 0, 0.994180447, 0.994168813),
            (8, 0, 0, 0.520731788, 0.518952963),
            (1, 128, 10, 0.125100516, 0.125100516),
            (8, 128, 80, 0.042239730, 0.042238085),
            (8, 256, 150, 0.027126578, 0.027118442),
        ];
        for (ticks, bin, count, shipped, ours) in cells {
            close(exact[ticks - 1].of(bin)[count], ours, 1e-9);
            close(original[ticks - 1].of(bin)[count], shipped, 1e-9);
        }
        assert_eq!(exact[0].of(0)[0], 1.0);
        assert!(exact[0].of(0)[1..].iter().all(|p| *p == 0.0));
        close(exact[0].of(256).iter().sum(), 0.97768859, 1e-8);
        for (index, table) in exact.iter().enumerate() {
            assert_eq!(table.length, 29 * (index + 1) + 1);
        }
    }

    #[test]
    fn the_tables_of_the_default_size_take_less_than_20_megabytes() {
        let model = SproutModel::shared(&spec(""));
        assert!(model.bytes() < 20_000_000, "{}", model.bytes());
        assert!(model.bytes() > 257 * 1052 * 4, "all of them are counted");
    }

    #[test]
    fn all_sizes_of_an_automatic_grid_are_kept() {
        let mut spec = spec("");
        let mut bytes = SproutModel::new(spec).bytes();
        while let Some(larger) = spec.grown() {
            spec = larger;
            bytes += SproutModel::new(spec).bytes();
        }
        assert_eq!(spec.max_rate, MaxRate::MAX);
        assert!(bytes < SproutModel::KEPT_BYTES, "{bytes}");
    }

    #[test]
    fn flows_share_one_model() {
        let model = SproutModel::shared(&spec("sigma=201"));
        assert!(Arc::ptr_eq(&model, &SproutModel::shared(&spec("sigma=201"))));
        assert!(!Arc::ptr_eq(&model, &SproutModel::shared(&spec("sigma=202"))));
        // Confidence and look-ahead are no part of it.
        assert!(Arc::ptr_eq(
            &model,
            &SproutModel::shared(&spec("sigma=201,confidence=50%,look_ahead=3"))
        ));
    }

    #[test]
    fn models_that_flows_use_are_shared_and_others_are_bounded() {
        let first = SproutModel::shared(&spec("sigma=301"));
        let default = Arc::downgrade(&SproutModel::shared(&spec("")));
        for sigma in 0..40 {
            SproutModel::shared(&spec(&format!("max_rate=2000,sigma=300.{sigma}")));
        }
        let models = SproutModel::models();
        let kept = models.iter().map(|model| model.bytes()).sum::<usize>();
        let in_use: usize = models
            .iter()
            .filter(|model| Arc::strong_count(model) > 1)
            .map(|model| model.bytes())
            .sum();
        assert!(kept - in_use <= SproutModel::KEPT_BYTES + (20 << 20), "{kept} bytes");
        drop(models);
        assert!(
            Arc::ptr_eq(&first, &SproutModel::shared(&spec("sigma=301"))),
            "in use all the while"
        );
        assert!(default.upgrade().is_some(), "strangers cannot make it be computed again");
    }

    #[test]
    fn the_normal_distribution_function_is_one() {
        // Abramowitz and Stegun, table 26.1
        let table = [
            (0.0, 0.5),
            (1.0, 0.841344746068543),
            (-1.0, 0.158655253931457),
            (2.5, 0.993790334674224),
            (-5.0, 2.866515719e-7),
            (f64::INFINITY, 1.0),
            (f64::NEG_INFINITY, 0.0),
        ];
        for (x, expected) in table {
            close(normal(x), expected, 1e-15);
        }
    }

    #[test]
    fn at_least_is_one_minus_less_and_never_impossible() {
        let model = SproutModel::shared(&spec(""));
        let bin = 128;
        let less: f64 = (0..10).map(|count| model.exactly(count)[bin]).sum();
        close(model.at_least(10)[bin], 1.0 - less, 1e-14);
        assert_eq!(model.at_least(0)[bin], 1.0);
        assert_eq!(model.at_least(1)[0], 1e-12);
        // Counts beyond all tables.
        assert!(model.at_least(1_000_000)[bin] >= 1e-12);
        assert!(model.exactly(1_000_000)[256] > model.exactly(1_000_000)[255]);
    }
}
