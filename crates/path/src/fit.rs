//! Estimates the parameters of a [`LinkProfile`] from a trace.
//!
//! No simulation and no search at random: every parameter is a quantile or a moment of the trace,
//! so the same trace gives the same profile on every platform.
//!
//! 1. Gaps of more than 100 ms are outages, and those with less than 100 ms between them one
//!    blackout. Their quantiles are `outage_ms`, `blackout_gaps` and `blackout_ms`. All rates
//!    below are rates of the time with service.
//! 2. The quantiles of the local rate (windows of 0.5 s around every 0.1 s; longer ones across
//!    outages) are `rate_mbps`, stretched about their mean so that their variance becomes that of
//!    the rate without the noise of bursts. That variance is the autocovariance of the rate in
//!    100-ms windows, extrapolated to lag 0: the noise of bursts does not reach from one window to
//!    the next.
//! 3. The autocovariance at lags of 0.1 to 10 s, carried through the curve from quality to rate
//!    (Hermite expansion: `cov(f(x), f(y)) = sum_k c_k^2 rho^k`) and inverted, is the
//!    autocorrelation of the quality. Non-negative least squares give the weights.
//! 4. Outages counted by the rank of the local rate where they begin give `outage_per_s`.
//! 5. Mean burst sizes in twelve classes of the rate give the mean and the exponent (regression
//!    of logarithms); sizes and gaps relative to the mean at a like rate give the shapes.
//! 6. The variance of 100-ms windows beyond step 3 gives `catch_up_ms`.
//!
//! A trace that was made of rates (a log of one value a second) spreads its opportunities evenly
//! and says nothing of bursts. Its rates are taken as they are, without the stretch of step 2;
//! steps 5 and 6 are left out, so that the opportunities come as evenly as the model can; and the
//! curve is scaled so that the mean is kept.

use cellpace_base::statistics::quantile;
use thiserror::Error;

use crate::OPPORTUNITY_BYTES;
use crate::profile::{
    BAND_ENDS, BAND_SHARES, LEVELS, LOWEST_SCORE, LinkProfile, MAX_GAP_MS, MEMORY_S, SCORE_STEP,
    SCORES, ShapeTable, at_score, table_mean, table_square,
};
use crate::schedule::Trace;
use cellpace_base::math::{exp, ln, pow, sin_cos};

/// Variance of rounding up or down at random, averaged over fractions.
const ROUNDING_VARIANCE: f64 = 1.0 / 6.0;

/// Why no profile can be estimated from a trace.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum FitError {
    /// Not enough to go by.
    #[error(
        "a profile needs at least {MIN_SERVED_S} s with service and {MIN_BURSTS} bursts; \
         the trace has {served_s:.0} s and {bursts}"
    )]
    TooShort {
        /// Seconds outside outages.
        served_s: f64,
        /// Bursts.
        bursts: usize,
    },
    /// More than one profile can describe.
    #[error("the trace is {hours:.0} h long; fit at most {MAX_HOURS} h at a time")]
    TooLong {
        /// Its length in hours.
        hours: f64,
    },
    /// The rate is always the same.
    #[error("the rate never changes; write it as constant:RATE instead")]
    Constant,
}

/// Shares of the time below which the rate is slow and above which it is fast.
const SHAPE_ENDS: [f64; 2] = [0.2, 0.5];

/// Between which the time of catching up is looked for.
const CATCH_UP_MS: (f64, f64) = (10.0, 10_000.0);

const MIN_SERVED_S: u32 = 20;
const MIN_BURSTS: usize = 200;
const MAX_HOURS: u32 = 24;

/// Width of the windows of the autocovariance, in milliseconds.
const FINE_MS: u32 = 100;
/// Fine windows in one window of the local rate.
const COARSE: usize = 5;
/// Service in milliseconds that is enough to measure a rate.
const ENOUGH_MS: u64 = 250;
/// Opportunities in a fine window from which on its own rate says enough.
const MANY: u32 = 20;
/// Lags of the autocovariance, in fine windows.
const LAGS: [usize; 24] =
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 17, 20, 25, 30, 40, 50, 60, 80, 100];

/// The profile whose traces are most like `trace`.
///
/// # Errors
/// When the trace is too short, longer than a day, or has a constant rate.
pub fn fit(trace: &Trace) -> Result<LinkProfile, FitError> {
    fit_millis(trace.millis())
}

/// The same for a sorted list of milliseconds.
///
/// # Errors
/// As [`fit`].
pub fn fit_millis(millis: &[u32]) -> Result<LinkProfile, FitError> {
    let length = millis.last().copied().unwrap_or(0);
    if length / 3_600_000 >= MAX_HOURS {
        return Err(FitError::TooLong { hours: f64::from(length) / 3.6e6 });
    }
    let bursts = bursts(millis);
    let is_even = is_evenly_spread(millis);
    let service = FittedService::new(millis);
    let served_s = service.served.iter().sum::<u32>() as f64 / 1000.0;
    if served_s < f64::from(MIN_SERVED_S) || (bursts.len() < MIN_BURSTS && !is_even) {
        return Err(FitError::TooShort { served_s, bursts: bursts.len() });
    }

    let mut profile = LinkProfile::blank().with_about("fitted");
    if is_even {
        fit_rates(&mut profile, &service, millis)?;
    } else {
        fit_quality(&mut profile, &service)?;
        fit_outages(&mut profile, &service, &outages(millis));
        fit_bursts(&mut profile, &service, &bursts);
    }
    Ok(profile.tidy())
}

/// Share of neighbouring stretches of time whose opportunities differ by at most one, from which on
/// a trace counts as made of rates: those have 0.98 and more, recorded packets 0.76 and less.
const EVEN_SHARE: f64 = 0.9;
/// Opportunities in such a stretch; more where a millisecond has more.
const EVEN_COUNT: usize = 5;
/// The longest stretch, in milliseconds: what is slower is an outage.
const MAX_STRETCH_MS: u32 = 2_000;

/// Whether the opportunities are spread as evenly as rates have them, without bursts.
fn is_evenly_spread(millis: &[u32]) -> bool {
    let (mut at, mut even, mut stretches) = (0, 0_u32, 0_u32);
    while let (Some(start), Some(behind)) = (millis.get(at), millis.get(at + EVEN_COUNT)) {
        let length = behind.saturating_sub(*start).max(1);
        if length > MAX_STRETCH_MS {
            at += EVEN_COUNT;
            continue;
        }
        let count = |from: usize| {
            let end = u64::from(*start) + u64::from(length) * if from == at { 1 } else { 2 };
            millis[from..].iter().take_while(|ms| u64::from(**ms) < end).count()
        };
        let first = count(at);
        let second = count(at + first);
        stretches += 1;
        even += u32::from(first.abs_diff(second) <= 1);
        at += first + second;
    }
    f64::from(even) > EVEN_SHARE * f64::from(stretches)
}

/// Opportunities and time with service in each 100-ms window.
struct FittedService {
    count: Vec<u32>,
    /// Milliseconds outside outages.
    served: Vec<u32>,
    /// Rate in the surroundings in opportunities per ms of service.
    local: Vec<f64>,
}

impl FittedService {
    fn new(millis: &[u32]) -> Self {
        let windows = (millis.last().copied().unwrap_or(0) / FINE_MS) as usize;
        let mut count = vec![0; windows];
        // Whole windows only: one that the end of the trace cuts has no rate.
        let mut served = vec![FINE_MS; windows];
        for window in millis.iter().map(|ms| (ms / FINE_MS) as usize).filter(|w| *w < windows) {
            count[window] += 1;
        }
        for outage in outages(millis) {
            take_away(&mut served, outage.from, outage.to);
        }
        let mut service = Self { count, served, local: Vec::new() };
        service.local = service.local_rates();
        service
    }

    /// Rate over the windows `from..to`, if half of their time has service.
    fn rate(&self, from: usize, to: usize) -> Option<f64> {
        let served: u32 = self.served[from..to].iter().sum();
        let enough = served >= (to - from) as u32 * FINE_MS / 2;
        enough.then(|| f64::from(self.count[from..to].iter().sum::<u32>()) / f64::from(served))
    }

    /// Rates around each window, over 0.5 s or as much more as it takes to see 0.25 s of service.
    fn local_rates(&self) -> Vec<f64> {
        let windows = self.count.len();
        let mut sums = vec![(0_u64, 0_u64)];
        for (count, served) in self.count.iter().zip(&self.served) {
            let (counts, time) = sums[sums.len() - 1];
            sums.push((counts + u64::from(*count), time + u64::from(*served)));
        }
        let around = |window: usize| {
            let mut reach = COARSE / 2;
            loop {
                let (from, to) = (window.saturating_sub(reach), (window + reach + 1).min(windows));
                let served = sums[to].1 - sums[from].1;
                if served >= ENOUGH_MS || to - from == windows {
                    return (sums[to].0 - sums[from].0) as f64 / served.max(1) as f64;
                }
                // Around an outage there is little service: the window grows until a rate can be
                // seen.
                reach *= 2;
            }
        };
        (0..windows).map(around).collect()
    }

    /// Rate in each window; in an outage the local rate, as the quality is not seen there.
    fn fine_rates(&self) -> Vec<f64> {
        let rate = |(window, local): (usize, &f64)| self.rate(window, window + 1).unwrap_or(*local);
        self.local.iter().enumerate().map(rate).collect()
    }

    /// Rates of windows with many opportunities, and local ones around those with few, where a
    /// whole number says little; from the lowest to the highest.
    fn smooth_rates(&self) -> Vec<f64> {
        let rate = |(window, local): (usize, &f64)| match self.count[window] {
            0..MANY => *local,
            _ => self.rate(window, window + 1).unwrap_or(*local),
        };
        let mut rates: Vec<f64> = self.local.iter().enumerate().map(rate).collect();
        rates.sort_unstable_by(f64::total_cmp);
        rates
    }

    /// The local rates from the lowest to the highest.
    fn ranked(&self) -> Vec<f64> {
        let mut ranked = self.local.clone();
        ranked.sort_unstable_by(f64::total_cmp);
        ranked
    }

    fn local_at(&self, ms: u32) -> f64 {
        self.local.get((ms / FINE_MS) as usize).or(self.local.last()).copied().unwrap_or(0.0)
    }
}

/// Long gaps with next to no service between them.
struct Outage {
    from: u32,
    to: u32,
    /// Lengths of the gaps in ms.
    gaps: Vec<u32>,
}

fn outages(millis: &[u32]) -> Vec<Outage> {
    let mut outages: Vec<Outage> = Vec::new();
    for pair in millis.windows(2).filter(|pair| pair[1].saturating_sub(pair[0]) > MAX_GAP_MS) {
        let gap = pair[1] - pair[0];
        match outages.last_mut() {
            Some(last) if pair[0] - last.to < MAX_GAP_MS => {
                last.to = pair[1];
                last.gaps.push(gap);
            }
            _ => outages.push(Outage { from: pair[0], to: pair[1], gaps: vec![gap] }),
        }
    }
    outages
}

/// Takes the time from `from` to `to` out of the windows it lies in.
fn take_away(served: &mut [u32], from: u32, to: u32) {
    let mut at = from;
    while at < to {
        let window = at / FINE_MS;
        let until = to.min((window + 1) * FINE_MS);
        if let Some(left) = served.get_mut(window as usize) {
            *left = left.saturating_sub(until - at);
        }
        at = until;
    }
}

/// A run of opportunities in the same or back-to-back milliseconds.
struct Burst {
    start: u32,
    size: u32,
    /// Steps that stayed in the same millisecond.
    same: u32,
    /// To the next burst's start from the end of this, in ms; `None` for the last.
    gap: Option<u32>,
}

fn bursts(millis: &[u32]) -> Vec<Burst> {
    let Some(first) = millis.first() else { return Vec::new() };
    let mut bursts = Vec::new();
    let mut burst = Burst { start: *first, size: 1, same: 0, gap: None };
    for pair in millis.windows(2) {
        match pair[1].saturating_sub(pair[0]) {
            0 => {
                burst.size += 1;
                burst.same += 1;
            }
            1 => burst.size += 1,
            gap => {
                burst.gap = Some(gap);
                bursts.push(burst);
                burst = Burst { start: pair[1], size: 1, same: 0, gap: None };
            }
        }
    }
    bursts.push(burst);
    bursts
}

/// A profile from rates that were measured as such.
fn fit_rates(
    profile: &mut LinkProfile,
    service: &FittedService,
    millis: &[u32],
) -> Result<(), FitError> {
    let table = rate_table(&service.smooth_rates());
    let covariance = LAGS.map(|lag| autocovariance(&service.fine_rates(), lag));
    let middle = table[SCORES / 2];
    // Whole numbers of opportunities differ by one from window to window.
    let window =
        FINE_MS * if middle * f64::from(FINE_MS) < f64::from(MANY) { COARSE as u32 } else { 1 };
    let rounding = CONSTANT_SHARE * middle + 1.5 / f64::from(window);
    let is_constant = |rate: &f64| (rate - middle).abs() <= rounding;
    let outages = outages(millis);
    if outages.is_empty() && table.iter().all(is_constant) {
        return Err(FitError::Constant);
    }
    let curve = QualityCurve::new(&table);
    let correlation = covariance.map(|covariance| curve.correlation_for(covariance));
    fit_memory(profile, &correlation);
    // What a rate near 0 lets through between its gaps is no service.
    let whole = |outage: Outage| Outage { gaps: vec![outage.to - outage.from], ..outage };
    let outages: Vec<Outage> = outages.into_iter().map(whole).collect();
    fit_outages(profile, service, &outages);
    (profile.burst_mean, profile.burst_exponent, profile.burst_same_ms) = (1.0, 0.0, 0.0);
    profile.burst_excess = [1.0; LEVELS.len()];
    profile.gap_excess = [[1.0; LEVELS.len()]; 2];
    profile.catch_up_ms = f64::from(FINE_MS);
    let wanted = millis.len() as f64 / f64::from(millis.last().copied().unwrap_or(0).max(1));
    let factor = (wanted / mean_rate(profile, &table)).clamp(1.0 / MAX_SCALE, MAX_SCALE);
    set_rates(profile, &table.map(|rate| rate * factor));
    Ok(())
}

/// Rates that differ from their median by less than this share are one rate with rounding.
const CONSTANT_SHARE: f64 = 0.02;

/// The most by which all rates are scaled to keep their mean.
const MAX_SCALE: f64 = 1.2;

/// The rate in the long run, outages included, with these rates at the normal scores.
fn mean_rate(profile: &LinkProfile, table: &[f64; SCORES]) -> f64 {
    const STEP: f64 = 0.01;
    let served = profile.served_shares();
    let at = |index: i32| {
        let z = f64::from(index) * STEP;
        let weight = STEP * exp(-z * z / 2.0) / std::f64::consts::TAU.sqrt();
        weight * at_score(table, z) * served[BAND_ENDS.partition_point(|end| *end <= z)]
    };
    (-600..=600).map(at).sum()
}

/// The quantiles of rates at the normal scores.
fn rate_table(ranked: &[f64]) -> [f64; SCORES] {
    let score = |index: usize| LOWEST_SCORE + SCORE_STEP * index as f64;
    std::array::from_fn(|index| quantile(ranked, normal_share(score(index))))
}

/// Puts rates in opportunities per ms into a profile.
fn set_rates(profile: &mut LinkProfile, table: &[f64; SCORES]) {
    // Slower than one opportunity per outage threshold would be an outage.
    let lowest = 1.0 / f64::from(MAX_GAP_MS);
    let mbps = |rate: &f64| rate.max(lowest) * f64::from(OPPORTUNITY_BYTES) * 8.0 / 1000.0;
    profile.rate_mbps = table.each_ref().map(mbps);
}

/// Steps 2 and 3: the rate's distribution and memory.
fn fit_quality(profile: &mut LinkProfile, service: &FittedService) -> Result<(), FitError> {
    let ranked = service.ranked();
    let table = rate_table(&ranked);
    let fine = service.fine_rates();
    let covariance = LAGS.map(|lag| autocovariance(&fine, lag));
    // The noise of bursts is only in lag 0, so lag 0 without it lies on the line through 1 and 2.
    let variance = (2.0 * covariance[0] - covariance[1]).max(covariance[0]);
    let curve = QualityCurve::new(&table);
    if variance <= 0.0 || curve.variance() <= 0.0 {
        return Err(FitError::Constant);
    }
    let stretch = (variance / curve.variance()).sqrt();
    let mean = ranked.iter().sum::<f64>() / ranked.len() as f64;
    // Slower than one opportunity per outage threshold would be an outage.
    let lowest = 1.0 / f64::from(MAX_GAP_MS);
    let table = table.map(|rate| (mean + stretch * (rate - mean)).max(lowest));
    let curve = QualityCurve::new(&table);
    let correlation = covariance.map(|covariance| curve.correlation_for(covariance));
    fit_memory(profile, &correlation);
    set_rates(profile, &table);
    Ok(())
}

fn autocovariance(rates: &[f64], lag: usize) -> f64 {
    let mean = rates.iter().sum::<f64>() / rates.len().max(1) as f64;
    let pairs = rates.iter().zip(rates.iter().skip(lag));
    let sum: f64 = pairs.map(|(now, then)| (now - mean) * (then - mean)).sum();
    sum / rates.len().saturating_sub(lag).max(1) as f64
}

/// The curve from quality to rate as a sum of Hermite polynomials.
struct QualityCurve {
    /// Squares of the coefficients of orders 1, 2, ..: the variance each contributes.
    squares: [f64; 8],
}

impl QualityCurve {
    fn new(table: &[f64; SCORES]) -> Self {
        const STEP: f64 = 0.01;
        let mut coefficients = [0.0; 8];
        for index in -600..=600 {
            let z = f64::from(index) * STEP;
            let weight = STEP * exp(-z * z / 2.0) / std::f64::consts::TAU.sqrt();
            let rate = at_score(table, z);
            // Normalised Hermite polynomials: h_{n+1} = (z h_n - sqrt(n) h_{n-1}) / sqrt(n+1).
            let (mut before, mut here) = (1.0, z);
            for (n, coefficient) in coefficients.iter_mut().enumerate() {
                *coefficient += weight * rate * here;
                let n = (n + 1) as f64;
                (before, here) = (here, (z * here - n.sqrt() * before) / (n + 1.0).sqrt());
            }
        }
        Self { squares: coefficients.map(|c| c * c) }
    }

    fn variance(&self) -> f64 {
        self.covariance(1.0)
    }

    /// Covariance of the rates at two times when the qualities' correlation is `rho`.
    fn covariance(&self, rho: f64) -> f64 {
        self.squares.iter().rev().fold(0.0, |sum, square| (sum + square) * rho)
    }

    /// The qualities' correlation that gives the rates this covariance.
    fn correlation_for(&self, covariance: f64) -> f64 {
        let (mut low, mut high) = (-1.0, 1.0);
        // The covariance grows with rho, so that halving finds it; 50 times is all of a double.
        for _ in 0..50 {
            let middle = (low + high) / 2.0;
            if self.covariance(middle) < covariance { low = middle } else { high = middle }
        }
        (low + high) / 2.0
    }
}

/// Weights of the parts of the quality.
fn fit_memory(profile: &mut LinkProfile, correlation: &[f64; LAGS.len()]) {
    let target: Vec<f64> = std::iter::once(1.0).chain(correlation.iter().copied()).collect();
    let seconds: Vec<f64> =
        std::iter::once(0).chain(LAGS).map(|lag| (lag as u32 * FINE_MS) as f64 / 1000.0).collect();
    let mut columns: Vec<Vec<f64>> =
        MEMORY_S.iter().map(|tau| seconds.iter().map(|t| exp(-t / tau)).collect()).collect();
    let (mut best, plain_error) = non_negative_least_squares(&columns, &target);
    // An oscillation has to explain most of what is left to be worth three parameters.
    let mut best_error = plain_error * 0.4;
    for period in (4..=30).map(|tenths| f64::from(tenths) / 10.0) {
        for coherence in [1.0, 3.0, 10.0] {
            let wave =
                |t: &f64| exp(-t / coherence) * sin_cos(std::f64::consts::TAU * t / period).1;
            columns.push(seconds.iter().map(wave).collect());
            let (weights, error) = non_negative_least_squares(&columns, &target);
            columns.pop();
            if error < best_error && weights.last().is_some_and(|weight| *weight > 0.05) {
                (best, best_error) = (weights, error);
                (profile.wave_period_s, profile.wave_coherence_s) = (period, coherence);
            }
        }
    }
    let sum: f64 = best.iter().sum();
    for (place, weight) in profile.memory_weight.iter_mut().zip(&best) {
        *place = weight / sum;
    }
    profile.wave_weight = best.get(MEMORY_S.len()).map_or(0.0, |weight| weight / sum);
}

/// Non-negative weights of `columns` whose sum is nearest to `target`, and the squared error, by
/// descent along one coordinate after the other. The first entry (lag 0) counts a hundredfold.
fn non_negative_least_squares(columns: &[Vec<f64>], target: &[f64]) -> (Vec<f64>, f64) {
    // The weights have to add up to 1, which lag 0 says.
    let importance = |row: usize| if row == 0 { 100.0 } else { 1.0 };
    let dot = |a: &[f64], b: &[f64]| -> f64 {
        a.iter().zip(b).enumerate().map(|(row, (x, y))| importance(row) * x * y).sum()
    };
    let products: Vec<Vec<f64>> =
        columns.iter().map(|a| columns.iter().map(|b| dot(a, b)).collect()).collect();
    let wanted: Vec<f64> = columns.iter().map(|column| dot(column, target)).collect();
    let mut weights = vec![0.0; columns.len()];
    for _ in 0..2000 {
        for k in 0..columns.len() {
            let others: f64 = (0..columns.len()).map(|j| products[k][j] * weights[j]).sum();
            let step = (wanted[k] - others) / products[k][k];
            weights[k] = f64::max(weights[k] + step, 0.0);
        }
    }
    let fitted = |row: usize| columns.iter().zip(&weights).map(|(c, w)| c[row] * w).sum::<f64>();
    let miss = |(row, y): (usize, &f64)| {
        let off = y - fitted(row);
        importance(row) * off * off
    };
    let error = target.iter().enumerate().map(miss).sum();
    (weights, error)
}

/// Step 4: how often outages begin, and how long they are.
fn fit_outages(profile: &mut LinkProfile, service: &FittedService, outages: &[Outage]) {
    let ranked = service.ranked();
    // By rank, as the bands of the model are shares of the time (`BAND_SHARES`).
    let limits = [0.10, 0.25, 0.50].map(|share| quantile(&ranked, share));
    let band = |rate: f64| limits.partition_point(|limit| *limit <= rate);
    let mut served_s = [0.0; BAND_SHARES.len()];
    for (rate, served) in service.local.iter().zip(&service.served) {
        served_s[band(*rate)] += f64::from(*served) / 1000.0;
    }
    let mut starts = [0.0; BAND_SHARES.len()];
    let (mut lone, mut gaps, mut runs) = (Vec::new(), Vec::new(), Vec::new());
    for outage in outages {
        starts[band(service.local_at(outage.from))] += 1.0;
        match outage.gaps[..] {
            [gap] => lone.push(f64::from(gap)),
            ref several => {
                runs.push(several.len() as f64);
                gaps.extend(several.iter().map(|gap| f64::from(*gap)));
            }
        }
    }
    for ((rate, starts), served) in profile.outage_per_s.iter_mut().zip(starts).zip(served_s) {
        *rate = if served > 0.0 { starts / served } else { 0.0 };
    }
    // Two gaps or more are a blackout (step 1).
    profile.blackout_share = runs.len() as f64 / (runs.len() + lone.len()).max(1) as f64;
    profile.outage_ms = quantiles(lone, f64::from(MAX_GAP_MS + 1));
    profile.blackout_gaps = quantiles(runs, 1.0);
    profile.blackout_ms = quantiles(gaps, f64::from(MAX_GAP_MS + 1));
    let windows_s = (service.served.len() as u32 * FINE_MS) as f64 / 1000.0;
    scale_outages(profile, served_s.iter().sum::<f64>() / windows_s);
}

/// Scales the rates of outages so that they leave the share `served` of the time. The quality is
/// not seen during an outage, so that the counts by band are right among each other only.
fn scale_outages(profile: &mut LinkProfile, served: f64) {
    let counted = profile.outage_per_s;
    let (mut low, mut high) = (0.0, 4.0);
    for _ in 0..40 {
        let factor = (low + high) / 2.0;
        profile.outage_per_s = counted.map(|rate| rate * factor);
        if profile.served_share() > served { low = factor } else { high = factor }
    }
}

/// Quantiles at [`LEVELS`]; `none` if there is nothing.
fn quantiles(mut values: Vec<f64>, none: f64) -> [f64; LEVELS.len()] {
    values.sort_unstable_by(f64::total_cmp);
    if values.is_empty() {
        [none; LEVELS.len()]
    } else {
        LEVELS.map(|level| quantile(&values, level))
    }
}

/// Step 5: sizes of bursts and the gaps between them.
fn fit_bursts(profile: &mut LinkProfile, service: &FittedService, bursts: &[Burst]) {
    let steps: u32 = bursts.iter().map(|burst| burst.size - 1).sum();
    let same: u32 = bursts.iter().map(|burst| burst.same).sum();
    profile.burst_same_ms = f64::from(same) / f64::from(steps.max(1));
    let median = profile.rate_mbps[SCORES / 2] * 1000.0 / (f64::from(OPPORTUNITY_BYTES) * 8.0);
    (profile.burst_mean, profile.burst_exponent) = size_and_rate(service, bursts, median);

    let ranked = service.ranked();
    let [slow, fast] = SHAPE_ENDS.map(|share| quantile(&ranked, share));
    let mut sizes = Vec::new();
    let (mut slow_gaps, mut fast_gaps) = (Vec::new(), Vec::new());
    for burst in bursts {
        let rate = service.local_at(burst.start);
        // Longer ones are outages (step 4). Two milliseconds is the least that ends a burst.
        let gap = burst.gap.filter(|gap| *gap <= MAX_GAP_MS).map(|gap| (rate, gap - 2));
        // At low rates a size is mostly rounding; the shape shows at high ones.
        if rate >= fast {
            sizes.push((rate, burst.size - 1));
            fast_gaps.extend(gap);
        } else if rate <= slow {
            slow_gaps.extend(gap);
        }
    }
    profile.burst_excess = shape(&relative(sizes));
    profile.gap_excess = [slow_gaps, fast_gaps].map(|gaps| shape(&relative(gaps)));
    profile.catch_up_ms = fit_catch_up(profile, service, median);
}

/// Mean burst size at the rate `median`, and the exponent of its excess over one.
fn size_and_rate(service: &FittedService, bursts: &[Burst], median: f64) -> (f64, f64) {
    const CLASSES: usize = 12;
    let mut by_rate: Vec<(f64, u32)> =
        bursts.iter().map(|burst| (service.local_at(burst.start), burst.size)).collect();
    by_rate.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut points = Vec::new();
    for class in by_rate.chunks(by_rate.len().div_ceil(CLASSES)) {
        let number = class.len() as f64;
        let rate = class.iter().map(|(rate, _)| rate).sum::<f64>() / number;
        let excess = class.iter().map(|(_, size)| f64::from(size - 1)).sum::<f64>() / number;
        if rate > 0.0 && excess > 0.0 {
            points.push((ln(rate / median), ln(excess)));
        }
    }
    if points.is_empty() {
        return (1.0, 0.0);
    }
    let number = points.len() as f64;
    let x_mean = points.iter().map(|(x, _)| x).sum::<f64>() / number;
    let y_mean = points.iter().map(|(_, y)| y).sum::<f64>() / number;
    let xy: f64 = points.iter().map(|(x, y)| (x - x_mean) * (y - y_mean)).sum();
    let xx: f64 = points.iter().map(|(x, _)| (x - x_mean) * (x - x_mean)).sum();
    // Classes of one rate say nothing of how bursts grow with it.
    let slope = if xx > 1e-9 { (xy / xx).clamp(0.0, 3.0) } else { 0.0 };
    (1.0 + exp(y_mean - slope * x_mean), slope)
}

/// The time of catching up that gives 100-ms windows the noise they have in the trace.
///
/// What a scheduler without memory is behind its rate is a random walk; catching up in time `tau`
/// makes that walk an Ornstein-Uhlenbeck process, and the variance of a window `T` shrinks by
/// `(1 - exp(-T/tau)) tau/T`.
fn fit_catch_up(profile: &LinkProfile, service: &FittedService, median: f64) -> f64 {
    let fine = service.fine_rates();
    let [none, one, two] = [0, 1, 2].map(|lag| autocovariance(&fine, lag));
    // The autocovariance extrapolated to lag 0 is the rate's own; what is above it is the noise.
    let wanted = none - (2.0 * one - two).max(one);
    let ranked = service.ranked();
    let middle = quantile(&ranked, (SHAPE_ENDS[0] + SHAPE_ENDS[1]) / 2.0);
    let at = |rate: &f64| window_noise(profile, *rate, rate / median, *rate > middle);
    let free = service.local.iter().map(at).sum::<f64>() / service.local.len() as f64;
    let window = f64::from(FINE_MS);
    let (mut low, mut high) = CATCH_UP_MS;
    for _ in 0..40 {
        // The geometric middle, as times of catching up spread over three decades.
        let middle = (low * high).sqrt();
        let shrinks = (1.0 - exp(-window / middle)) * middle / window;
        if free * shrinks > wanted { high = middle } else { low = middle }
    }
    low
}

/// Variance of the rate in a 100-ms window at the steady rate `rate` without catching up, by the
/// central limit theorem for renewal-reward processes: Var(S - rate C) / (T E[C]) with size S and
/// cycle C.
fn window_noise(profile: &LinkProfile, rate: f64, relative: f64, fast: bool) -> f64 {
    let rate = rate.max(1.0 / f64::from(MAX_GAP_MS));
    let excess = (profile.burst_mean - 1.0) * pow(relative, profile.burst_exponent);
    let size = 1.0 + excess;
    let spread = 1.0 - profile.burst_same_ms;
    let gap = (size / rate - excess * spread - 2.0).max(0.0);
    let variance = |shape, mean: f64| (table_square(shape) - 1.0).max(0.0) * mean * mean;
    let size_variance = variance(&profile.burst_excess, excess) + excess.min(ROUNDING_VARIANCE);
    let gap_variance = variance(&profile.gap_excess[usize::from(fast)], gap) + ROUNDING_VARIANCE;
    // A large burst lasts longer, which takes part of it back.
    let kept = 1.0 - rate * spread;
    (kept * kept * size_variance + rate * rate * gap_variance) * rate / size / f64::from(FINE_MS)
}

/// Pairs of a value and the mean of the values at a like rate, from pairs of rate and value.
fn relative(mut by_rate: Vec<(f64, u32)>) -> Vec<(f64, f64)> {
    const CLASSES: usize = 8;
    by_rate.sort_unstable_by(|a, b| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    let mut pairs = Vec::with_capacity(by_rate.len());
    for class in by_rate.chunks(by_rate.len().div_ceil(CLASSES).max(1)) {
        let values = || class.iter().map(|(_, value)| f64::from(*value));
        let mean = values().sum::<f64>() / class.len() as f64;
        pairs.extend(values().map(|value| (value, mean)));
    }
    pairs
}

/// Shape of what came relative to what was expected; a point at 1 if there is nothing. Pairs
/// count by what was expected: where that is small, the ratio is mostly rounding.
fn shape(pairs: &[(f64, f64)]) -> ShapeTable {
    let total: f64 = pairs.iter().map(|(_, expected)| expected).sum();
    let mut ratios: Vec<(f64, f64)> = pairs
        .iter()
        .filter(|(_, expected)| *expected > 0.0)
        .map(|(came, expected)| (came / expected, expected / total))
        .collect();
    ratios.sort_unstable_by(|a, b| a.0.total_cmp(&b.0));
    let mut table = [0.0; LEVELS.len()];
    let top = LEVELS[LEVELS.len() - 2];
    let (mut below, mut next, mut beyond) = (0.0, 0, 0.0);
    for (ratio, share) in &ratios {
        below += share;
        while next < LEVELS.len() - 1 && below >= LEVELS[next] - 1e-9 {
            table[next] = *ratio;
            next += 1;
        }
        beyond += ratio * share.min((below - top).max(0.0));
    }
    // The largest ratio hangs on one pair; this end gives the last piece its mean.
    let last = table[LEVELS.len() - 2];
    table[LEVELS.len() - 1] = last.max(2.0 * beyond / (1.0 - top) - last);
    let mean = table_mean(&table);
    if mean <= 0.0 {
        return [1.0; LEVELS.len()];
    }
    let table = table.map(|value| value / mean);
    // The generator rounds to whole opportunities and milliseconds once more.
    let variance = table_square(&table) - 1.0;
    let rounding: f64 = pairs
        .iter()
        .map(|(_, expected)| ROUNDING_VARIANCE.min(*expected) / expected.max(1e-9))
        .sum();
    let rest = 1.0 - rounding / total / variance;
    let narrower = rest.clamp(0.25, 1.0).sqrt();
    let table = table.map(|value| (1.0 + narrower * (value - 1.0)).max(0.0));
    let mean = table_mean(&table);
    table.map(|value| value / mean)
}

/// Share of the standard normal distribution below `z`.
fn normal_share(z: f64) -> f64 {
    // Series by repeated integration by parts: Phi(z) = 1/2 + phi(z) (z + z^3/3 + z^5/15 + ..).
    let (mut term, mut sum) = (z, z);
    for n in 1..60 {
        term *= z * z / f64::from(2 * n + 1);
        sum += term;
    }
    0.5 + sum * exp(-z * z / 2.0) / std::f64::consts::TAU.sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::builtin;
    use cellpace_base::Span;

    /// A profile with every part in use, whose memory is short against the traces made from it.
    fn known() -> LinkProfile {
        let mut profile = builtin("lte-driving").unwrap();
        profile.rate_mbps = [1.0, 1.5, 2.2, 3.2, 4.4, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0];
        profile.memory_weight =
            [0.0, 0.0, 0.5, 0.5, 0.0, 0.0, 0.0][..MEMORY_S.len()].try_into().unwrap();
        profile.outage_per_s = [0.3, 0.1, 0.05, 0.02];
        profile.outage_ms = [110.0, 120.0, 150.0, 200.0, 300.0, 400.0, 500.0, 700.0, 900.0, 1000.0];
        profile.blackout_share = 0.0;
        profile
    }

    fn refitted(profile: &LinkProfile, seed: u64) -> LinkProfile {
        fit(&profile.generate(seed, Span::from_secs(1500))).unwrap()
    }

    fn near(found: f64, known: f64, tolerance: f64) {
        assert!((found / known - 1.0).abs() < tolerance, "{found} should be near {known}");
    }

    #[test]
    fn what_a_profile_generates_fits_to_that_profile() {
        let known = known();
        let found = refitted(&known, 1);
        for score in 3..=9 {
            near(found.rate_mbps[score], known.rate_mbps[score], 0.15);
        }
        // The two time scales share the variance; whatever the split, memory at 1 s is the same.
        let at_1s = |profile: &LinkProfile| -> f64 {
            profile.memory_weight.iter().zip(MEMORY_S).map(|(w, tau)| w * exp(-1.0 / tau)).sum()
        };
        near(at_1s(&found), at_1s(&known), 0.15);
        assert_eq!(found.wave_weight, 0.0);
        near(found.burst_mean, known.burst_mean, 0.1);
        near(found.burst_exponent, known.burst_exponent, 0.2);
        near(found.burst_same_ms, known.burst_same_ms, 0.03);
        near(1.0 - found.served_share(), 1.0 - known.served_share(), 0.25);
        near(found.outage_ms[3], known.outage_ms[3], 0.25);
        assert!(found.outage_per_s[0] > 2.0 * found.outage_per_s[3], "{:?}", found.outage_per_s);
    }

    #[test]
    fn a_wave_is_found_and_only_where_there_is_one() {
        let mut known = known();
        known.memory_weight = [0.2, 0.0, 0.0, 0.4, 0.0, 0.0];
        (known.wave_weight, known.wave_period_s, known.wave_coherence_s) = (0.4, 0.8, 10.0);
        let found = refitted(&known, 2);
        near(found.wave_period_s, 0.8, 0.15);
        near(found.wave_weight, 0.4, 0.3);
    }

    #[test]
    fn blackouts_are_distinguished_from_lone_gaps() {
        let mut known = known();
        known.blackout_share = 0.3;
        known.blackout_gaps = [4.0; LEVELS.len()];
        known.blackout_ms = [900.0; LEVELS.len()];
        let found = refitted(&known, 3);
        near(found.blackout_share, 0.3, 0.3);
        assert_eq!(found.blackout_gaps[4], 4.0);
        near(found.blackout_ms[3], 900.0, 0.01);
    }

    #[test]
    fn a_fit_is_reproducible_and_in_the_written_form() {
        let trace = known().generate(4, Span::from_secs(120));
        let found = fit(&trace).unwrap();
        assert_eq!(found, fit(&trace).unwrap());
        assert_eq!(found.to_string().parse::<LinkProfile>().unwrap(), found);
    }

    /// Opportunities of a log with a rate in Mbit/s for each second, as `trace convert` spreads them.
    fn of_rates(log: impl IntoIterator<Item = f64>) -> Trace {
        let (mut millis, mut due) = (Vec::new(), 0.0);
        for (second, mbps) in log.into_iter().enumerate() {
            let per_ms = mbps / 12.0;
            let total: f64 = due + per_ms * 1000.0;
            for packet in 1..=total as u32 {
                let at = second as f64 * 1000.0 + (f64::from(packet) - due) / per_ms;
                millis.push(at.ceil() as u32);
            }
            due = total.fract();
        }
        Trace::from_millis(millis).unwrap()
    }

    /// The mean, and the highest rate in 1-s windows, over hours of a profile's trace: as many as 20
    /// million opportunities last, a day at most.
    fn mean_and_highest(profile: &LinkProfile, mean_mbps: f64) -> (f64, f64) {
        let seconds = (20e6 * 0.012 / mean_mbps).min(86_400.0);
        let trace = profile.generate(1, Span::from_secs(seconds as u64));
        let mut counts = vec![0.0_f64; seconds as usize + 1];
        trace.millis().iter().for_each(|ms| counts[*ms as usize / 1000] += 0.012);
        (trace.mean_rate().as_mbps(), counts.into_iter().fold(0.0, f64::max))
    }

    #[test]
    fn the_mean_of_a_log_of_rates_is_kept_and_no_rate_is_above_its_highest() {
        let second = |at: u32| f64::from(at * 7919 % 101) / 101.0;
        let logs: [(&str, Vec<f64>); 5] = [
            ("bursty", (0..600).map(|at| if at % 30 < 27 { 0.3 } else { 30.0 }).collect()),
            ("uniform", (0..600).map(|at| 5.0 + 300.0 * second(at)).collect()),
            ("skewed", (0..600).map(|at| 400.0 * second(at).powi(6) + 0.5).collect()),
            ("slow", (0..600).map(|at| 0.3 + 4.0 * second(at)).collect()),
            ("steps", (0..600).map(|at| [2.0, 6.0, 24.0][at / 20 % 3]).collect()),
        ];
        for (name, log) in logs {
            let mean = log.iter().sum::<f64>() / log.len() as f64;
            let highest = log.iter().copied().fold(0.0, f64::max);
            let profile = fit(&of_rates(log)).unwrap();
            let (found, most) = mean_and_highest(&profile, mean);
            assert!((found / mean - 1.0).abs() < 0.05, "{name}: {found}, not {mean}");
            assert!(most < 1.2 * highest, "{name}: {most} of {highest}");
        }
    }

    #[test]
    fn idle_times_of_a_log_become_outages() {
        let log = |at: u32| if at % 40 < 10 { 0.01 } else { 40.0 + f64::from(at % 7) };
        let profile = fit(&of_rates((0..1200).map(log))).unwrap();
        assert!((profile.served_share() - 0.75).abs() < 0.02, "{}", profile.served_share());
        assert_eq!(profile.blackout_share, 0.0);
        let (found, _) = mean_and_highest(&profile, 32.0);
        assert!((found / (0.75 * 43.0) - 1.0).abs() < 0.05, "{found}");
    }

    #[test]
    fn a_constant_rate_is_named_as_such_however_high() {
        for mbps in [0.5, 12.0, 40.0, 123.4, 900.0] {
            let found = fit(&of_rates(std::iter::repeat_n(mbps, 60)));
            assert_eq!(found, Err(FitError::Constant), "{mbps}");
        }
    }

    #[test]
    fn packets_are_told_from_rates() {
        for name in crate::profile::NAMES {
            let trace = builtin(name).unwrap().generate(1, Span::from_secs(120));
            assert!(!is_evenly_spread(trace.millis()), "{name}");
        }
        let rates = of_rates((0..60).map(|at| f64::from(at * 37 % 60) + 0.5));
        assert!(is_evenly_spread(rates.millis()));
    }

    #[test]
    fn traces_that_say_too_little_are_refused() {
        let steady: Vec<u32> = (0..60_000).step_by(4).collect();
        assert_eq!(fit_millis(&steady), Err(FitError::Constant));
        let short = FitError::TooShort { served_s: 4.0, bursts: 1000 };
        assert_eq!(
            fit_millis(&steady[..1000]),
            Err(FitError::TooShort { served_s: 3.9, bursts: 1000 })
        );
        assert!(short.to_string().starts_with("a profile needs at least 20 s with service"));
        assert!(matches!(fit_millis(&[]), Err(FitError::TooShort { bursts: 0, .. })));
        assert!(matches!(fit_millis(&[0, u32::MAX]), Err(FitError::TooLong { .. })));
        let silent: Vec<u32> = (0..200).map(|i| i * 1000).collect();
        assert!(matches!(fit_millis(&silent), Err(FitError::TooShort { .. })));
    }

    #[test]
    fn odd_traces_fit_or_are_refused_but_never_panic() {
        let odd: [Vec<u32>; 4] = [
            (0..400_000).map(|i| i / 10).collect(),
            (0..40_000).filter(|ms| ms / 500 % 2 == 0).collect(),
            (0..40_000).filter(|ms| ms % 7 < 2 || ms / 1000 % 5 == 0).collect(),
            (0..3_000).flat_map(|i| vec![i * 20; (i % 50) as usize]).collect(),
        ];
        for millis in odd {
            if let Ok(profile) = fit_millis(&millis) {
                assert_eq!(profile.to_string().parse::<LinkProfile>().unwrap(), profile);
                assert!(!profile.generate(1, Span::from_secs(1)).millis().is_empty());
            }
        }
    }

    #[test]
    fn a_straight_curve_leaves_correlations_as_they_are() {
        let table = std::array::from_fn(|i| 20.0 + 2.0 * i as f64);
        let curve = QualityCurve::new(&table);
        // 4 per unit of quality; the table's ends at +-3 cut a little.
        near(curve.variance(), 16.0, 0.01);
        near(curve.correlation_for(8.0), 0.5, 0.01);
        near(curve.correlation_for(-8.0), -0.5, 0.01);
    }

    #[test]
    fn least_squares_find_the_weights_they_were_made_from() {
        let column = |tau: f64| (0..40).map(|t| (-f64::from(t) / tau).exp()).collect::<Vec<f64>>();
        let columns = vec![column(1.0), column(8.0), column(100.0)];
        let target: Vec<f64> = (0..40).map(|t| 0.3 * columns[0][t] + 0.7 * columns[2][t]).collect();
        let (weights, error) = non_negative_least_squares(&columns, &target);
        assert!((weights[0] - 0.3).abs() < 0.01 && (weights[2] - 0.7).abs() < 0.01, "{weights:?}");
        assert!(weights[1] < 0.01 && error < 1e-6, "{weights:?} {error}");
    }

    #[test]
    fn the_normal_distribution_has_its_known_shares() {
        for (z, share) in [(-3.0, 0.001_349_9), (-1.0, 0.158_655_3), (0.0, 0.5), (1.959_964, 0.975)]
        {
            assert!((normal_share(z) - share).abs() < 1e-6, "{z}");
        }
    }
}
