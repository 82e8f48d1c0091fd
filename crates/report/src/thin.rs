//! What a stored result keeps of figures over time: as much as a screen shows, and a page can hold.

use cellpace_base::statistics;
use cellpace_measure::{
    BAND_LEVELS, FlowEvents, FlowFigures, InspectedSeries, ProfileSample, Series, jain_index,
};

use crate::groups::{Group, groups};
use crate::number::significant;
use crate::{Comparison, Run};

/// Maximum number of bins of a series: a wide screen has no more columns.
const MAX_BINS: usize = 3_000;

/// Minimum number of bins of a series: fewer would hide the shape of the run.
const MIN_BINS: usize = 150;

/// Numbers in all series of a document together. One takes about five characters, and the page
/// shall stay below 1.5 MB.
const MAX_NUMBERS: usize = 155_000;

/// Numbers in the values that controllers show of themselves, of a document together, and the bins
/// that each value gets at least and at most.
const MAX_INSPECTED_NUMBERS: usize = 47_000;
const MIN_INSPECTED_BINS: usize = 30;
const MAX_INSPECTED_BINS: usize = 600;

/// Windows over which rates of many flows are taken, in seconds.
const MANY_WINDOW_S: f64 = 1.0;

/// Runs with more flows keep their total only.
pub(crate) const MAX_FLOWS: usize = 16;

/// Delay profiles kept of one run.
const MAX_PROFILES: usize = 9;

/// Points of all delay profiles of a document together.
const MAX_PROFILE_POINTS: usize = 11_000;

/// Times of events kept of one flow and kind, and of a document together.
const MAX_MARKS: usize = 100;
const MIN_MARKS: usize = 8;
const MAX_ALL_MARKS: usize = 20_000;

/// Significant digits of a number in a series.
const DIGITS: i32 = 4;

/// A copy whose series are merged to so few bins that they fit into a page, and rounded. Where
/// even that is too much, the later seeds lose theirs, and then the later runs. A copy of the copy
/// is the same again.
pub(crate) fn thinned(comparison: &Comparison) -> Comparison {
    let groups = groups(comparison);
    let budget = Budget::of(&groups);
    let mut left = MAX_NUMBERS;
    let mut run = |run: &Run| {
        let group = groups.iter().find(|group| group.contains(run));
        let is_first_seed = group.is_some_and(|group| group.runs[0].seed == run.seed);
        let series = run.series.as_ref().filter(|_| is_first_seed || budget.every_seed);
        let series = series
            .map(|series| thinned_series(series, &run.figures.per_flow, is_first_seed, &budget));
        // What is not kept is not copied before.
        let kept = series.filter(|series| {
            let numbers = numbers(series);
            let fits = numbers <= left;
            left = left.saturating_sub(numbers);
            fits
        });
        Run {
            cc: run.cc.clone(),
            trace: run.trace.clone(),
            queue: run.queue.clone(),
            path: run.path.clone(),
            figures: run.figures.clone(),
            series: kept,
            transfers: run.transfers.clone(),
            transfer_summary: run.transfer_summary.clone(),
            real_time: run.real_time,
            ..*run
        }
    };
    Comparison {
        runs: comparison.runs.iter().map(&mut run).collect(),
        schema: comparison.schema.clone(),
        version: comparison.version.clone(),
        command: comparison.command.clone(),
        repeated: comparison.repeated.clone(),
    }
}

/// Numbers in those series that count against [`MAX_NUMBERS`].
fn numbers(series: &Series) -> usize {
    series.throughput_mbps.len() * lines(series)
}

/// Lines over time, each with a number a bin: three of the link, and those of the flows.
fn lines(series: &Series) -> usize {
    let delays = drawn_of(&series.flow_queue_delay_mean_ms).len() * 2;
    let rtos = drawn_of(&series.rto_ms).len();
    3 + drawn_flows(series) + bands(series) + drawn_windows(series) + delays + rtos
}

/// The flows whose throughput is drawn.
fn drawn_flows(series: &Series) -> usize {
    let flows = series.flow_throughput_mbps.len();
    // One flow is the total.
    if (2..=MAX_FLOWS).contains(&flows) { flows } else { 0 }
}

/// What stands for the flows that are not drawn: their bands and Jain's index.
fn bands(series: &Series) -> usize {
    let is_many = series.flow_throughput_mbps.len() > MAX_FLOWS;
    if is_many || !series.flow_bands_mbps.is_empty() { BAND_LEVELS.len() + 1 } else { 0 }
}

/// The flows that are kept, of series that have one a flow.
fn drawn_of(flows: &[Vec<f32>]) -> &[Vec<f32>] {
    if flows.len() <= MAX_FLOWS { flows } else { &[] }
}

/// The flows whose window is drawn.
fn drawn_windows(series: &Series) -> usize {
    let flows = series.cwnd_packets.len();
    if flows <= MAX_FLOWS { flows } else { 0 }
}

fn thinned_series(
    series: &Series,
    spans: &[FlowFigures],
    is_first_seed: bool,
    budget: &Budget,
) -> Series {
    let merge = series.throughput_mbps.len().div_ceil(budget.bins).max(1);
    let every = |flows: &[Vec<f32>], merged: fn(&[f32]) -> f64| {
        flows.iter().map(|flow| thin(flow, merge, merged)).collect()
    };
    let profiles = if is_first_seed { &series.profiles[..] } else { &[] };
    let (inspected, inspected_bin_s) = thinned_inspected(series, is_first_seed, budget);
    let (bands, jain) = many_flows(series, spans);
    Series {
        bin_s: series.bin_s * merge as f64,
        capacity_mbps: thin(&series.capacity_mbps, merge, mean),
        throughput_mbps: thin(&series.throughput_mbps, merge, mean),
        flow_throughput_mbps: every(&series.flow_throughput_mbps[..drawn_flows(series)], mean),
        queue_delay_p50_ms: thin(&series.queue_delay_p50_ms, merge, median),
        queue_delay_p95_ms: thin(&series.queue_delay_p95_ms, merge, highest),
        flow_queue_delay_mean_ms: every(drawn_of(&series.flow_queue_delay_mean_ms), mean_of_known),
        flow_queue_delay_p95_ms: every(drawn_of(&series.flow_queue_delay_p95_ms), highest),
        flow_bands_mbps: every(&bands, mean_of_known),
        flow_jain: thin(&jain, merge, mean_of_known),
        rto_ms: every(drawn_of(&series.rto_ms), last),
        quantiles: series.quantiles.clone(),
        cwnd_packets: every(&series.cwnd_packets[..drawn_windows(series)], last),
        inspected,
        inspected_bin_s,
        profiles: evenly(profiles, MAX_PROFILES)
            .map(|profile| thinned_profile(profile, budget.profile_points))
            .collect(),
        events: series.events.iter().map(|events| thinned_events(events, budget.marks)).collect(),
    }
}

/// What stands for flows that are too many to be drawn: percentiles of their throughputs, and Jain's
/// index.
fn many_flows(series: &Series, spans: &[FlowFigures]) -> (Vec<Vec<f32>>, Vec<f32>) {
    let flows = &series.flow_throughput_mbps;
    if flows.len() <= MAX_FLOWS {
        return (series.flow_bands_mbps.clone(), series.flow_jain.clone());
    }
    let bins = series.throughput_mbps.len();
    let mut bands = vec![vec![f32::NAN; bins]; BAND_LEVELS.len()];
    let mut jain = vec![f32::NAN; bins];
    // As of Jain's index of the run: a flow among many has no packet in most bins.
    let width = (MANY_WINDOW_S / series.bin_s).round().max(1.0) as usize;
    for first in (0..bins).step_by(width) {
        let window = first..(first + width).min(bins);
        let [from, to] = [window.start, window.end].map(|bin| bin as f64 * series.bin_s);
        // Bins are rounded, starts are not.
        let is_on = |span: &FlowFigures| {
            span.start_s < from + series.bin_s && span.stop_s > to - series.bin_s
        };
        let on = flows.iter().zip(spans).filter(|(_, span)| is_on(span));
        let mut rates: Vec<f64> = on.map(|(flow, _)| mean(&flow[window.clone()])).collect();
        if rates.len() > 1 && rates.iter().any(|rate| *rate > 0.0) {
            jain[window.clone()].fill(jain_index(&rates) as f32);
        }
        rates.sort_by(f64::total_cmp);
        for (band, level) in bands.iter_mut().zip(BAND_LEVELS).filter(|_| !rates.is_empty()) {
            let rate = statistics::quantile(&rates, f64::from(level) / 100.0);
            band[window.clone()].fill(rate as f32);
        }
    }
    (bands, jain)
}

/// What a controller shows of itself, in bins of its own, whose width comes along.
fn thinned_inspected(
    series: &Series,
    is_first_seed: bool,
    budget: &Budget,
) -> (Vec<InspectedSeries>, Option<f64>) {
    let inspected = if is_first_seed { &series.inspected[..] } else { &[] };
    let bins = inspected.iter().map(|value| value.values.len()).max().unwrap_or(0);
    let merge = bins.div_ceil(budget.inspected_bins).max(1);
    let values = inspected
        .iter()
        // The window has a finer series of its own.
        .filter(|value| value.name != "cwnd_pkts")
        .map(|value| InspectedSeries {
            name: value.name.clone(),
            values: thin(&value.values, merge, last),
        });
    let bin_s = series.inspected_bin_s.unwrap_or(series.bin_s) * merge as f64;
    (values.collect(), (bins > 0).then_some(bin_s))
}

fn thinned_profile(profile: &ProfileSample, most: usize) -> ProfileSample {
    let rounded =
        |(window, delay): &(f64, f64)| (significant(*window, DIGITS), significant(*delay, DIGITS));
    ProfileSample {
        at_s: profile.at_s,
        flow: profile.flow,
        points: evenly(&profile.points, most).map(rounded).collect(),
        curve: evenly(&profile.curve, most / 2).map(rounded).collect(),
    }
}

fn thinned_events(events: &FlowEvents, most: usize) -> FlowEvents {
    let at_s = evenly(&events.at_s, most).copied().collect();
    FlowEvents { at_s, event: events.event.clone(), phase: events.phase.clone(), ..*events }
}

/// At most `most` of `items`, evenly spaced, the first and the last among them.
pub(crate) fn evenly<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = items.len().min(most.max(2));
    (0..count).map(move |i| &items[i * (items.len() - 1) / (count - 1).max(1)])
}

/// Merges every `merge` bins into one, and rounds it.
pub(crate) fn thin(values: &[f32], merge: usize, merged: fn(&[f32]) -> f64) -> Vec<f32> {
    values.chunks(merge).map(|bins| significant(merged(bins), DIGITS) as f32).collect()
}

pub(crate) fn mean(bins: &[f32]) -> f64 {
    statistics::mean(bins.iter().copied().map(f64::from))
}

pub(crate) fn mean_of_known(bins: &[f32]) -> f64 {
    statistics::mean(bins.iter().filter(|value| !value.is_nan()).copied().map(f64::from))
}

/// The largest number; NaN when there is none.
pub(crate) fn highest(bins: &[f32]) -> f64 {
    f64::from(bins.iter().copied().fold(f32::NAN, f32::max))
}

/// The median of those that are numbers (the lower of two), NaN when there are none.
fn median(bins: &[f32]) -> f64 {
    let mut known: Vec<f32> = bins.iter().copied().filter(|value| !value.is_nan()).collect();
    statistics::nearest_rank(&mut known, 0.5).map_or(f64::NAN, f64::from)
}

fn last(bins: &[f32]) -> f64 {
    bins.last().map_or(f64::NAN, |value| f64::from(*value))
}

/// How much of each run fits.
struct Budget {
    bins: usize,
    every_seed: bool,
    profile_points: usize,
    inspected_bins: usize,
    /// Times of each kind of event.
    marks: usize,
}

impl Budget {
    fn of(groups: &[Group<'_>]) -> Self {
        let all =
            || groups.iter().flat_map(|group| group.runs.iter().map(move |run| (group, *run)));
        let first = |(group, run): &(&Group<'_>, &Run)| run.seed == group.runs[0].seed;
        let bins = Self::bins_for(all().map(|(_, run)| run));
        let every_seed = bins >= MAX_BINS / 5;
        let fewer = Self::bins_for(all().filter(first).map(|(_, run)| run));
        let profiles: usize = all()
            .filter(first)
            .filter_map(|(_, run)| run.series.as_ref())
            .map(|series| series.profiles.len().min(MAX_PROFILES))
            .sum();
        let inspected: usize = all()
            .filter(first)
            .filter_map(|(_, run)| run.series.as_ref())
            .map(|series| series.inspected.len())
            .sum();
        let kinds: usize =
            all().filter_map(|(_, run)| Some(run.series.as_ref()?.events.len())).sum();
        Self {
            marks: (MAX_ALL_MARKS / kinds.max(1)).clamp(MIN_MARKS, MAX_MARKS),
            inspected_bins: (MAX_INSPECTED_NUMBERS / inspected.max(1))
                .clamp(MIN_INSPECTED_BINS, MAX_INSPECTED_BINS),
            bins: if every_seed { bins } else { fewer },
            every_seed,
            profile_points: (MAX_PROFILE_POINTS / profiles.max(1)).clamp(12, 200),
        }
    }

    /// Bins for each series so that those of all `runs` together fit.
    fn bins_for<'r>(runs: impl Iterator<Item = &'r Run>) -> usize {
        let mut lengths: Vec<usize> = runs
            .filter_map(|run| run.series.as_ref())
            .flat_map(|series| std::iter::repeat_n(series.throughput_mbps.len(), lines(series)))
            .collect();
        lengths.sort_unstable();
        // Short series leave what they do not need to the long ones.
        let mut left = MAX_NUMBERS;
        for (done, length) in lengths.iter().enumerate() {
            let share = left / (lengths.len() - done);
            if *length > share {
                return share.clamp(MIN_BINS, MAX_BINS);
            }
            left -= length;
        }
        MAX_BINS
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{example, to_json};

    #[test]
    fn merged_bins_keep_means_peaks_and_gaps() {
        let nan = f32::NAN;
        let json = |numbers: Vec<f32>| serde_json::to_string(&numbers).unwrap();
        assert_eq!(json(thin(&[1.0, 2.0, 4.0, 5.0, 9.0], 2, mean)), "[1.5,4.5,9.0]");
        assert_eq!(json(thin(&[1.0, nan, nan, nan, 3.0, 8.0], 2, highest)), "[1.0,null,8.0]");
        assert_eq!(json(thin(&[5.0, nan, 1.0, 9.0, nan, nan, nan, nan], 4, median)), "[5.0,null]");
        assert_eq!(json(thin(&[0.123_456, 1234.56], 1, mean)), "[0.1235,1235.0]");
    }

    #[test]
    fn evenly_chosen_items_include_both_ends() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(evenly(&items, 4).copied().collect::<Vec<_>>(), [0, 33, 66, 99]);
        assert_eq!(evenly(&items[..3], 9).count(), 3);
        assert_eq!(evenly(&items[..1], 9).count(), 1);
        assert_eq!(evenly(&items[..0], 9).count(), 0);
    }

    #[test]
    fn a_copy_of_the_copy_is_the_same_again() {
        for comparison in [example::comparison(), example::large("a", 6, 4, 300), example::sweep()]
        {
            let read = |text: &str| serde_json::from_str::<Comparison>(text).unwrap();
            let series = |comparison: &Comparison| {
                let all = comparison.runs.iter().map(|run| serde_json::to_string(&run.series));
                all.map(Result::unwrap).collect::<Vec<_>>()
            };
            let once = read(&to_json(&comparison));
            assert!(series(&read(&to_json(&once))) == series(&once));
        }
    }

    #[test]
    fn more_runs_than_a_page_holds_lose_their_series_from_the_end() {
        let mut comparison = example::large("t0", 6, 1, 60);
        let first = comparison.runs.clone();
        for trace in 1..100 {
            comparison.runs.extend(first.iter().cloned().map(|mut run| {
                run.trace = format!("t{trace}");
                run
            }));
        }
        let thin = thinned(&comparison);
        let kept: Vec<bool> = thin.runs.iter().map(|run| run.series.is_some()).collect();
        assert!(kept[0] && !kept[599], "the first trace is drawn, the last is not");
        let numbers: usize =
            thin.runs.iter().filter_map(|run| run.series.as_ref()).map(numbers).sum();
        assert!(numbers <= MAX_NUMBERS && numbers > MAX_NUMBERS / 2, "{numbers}");
    }

    #[test]
    fn series_of_delays_and_timeouts_count_where_bins_are_shared_out() {
        let mut comparison = example::large("t0", 20, 1, 3_000);
        for run in &mut comparison.runs {
            let series = run.series.as_mut().unwrap();
            let one = vec![series.throughput_mbps.clone()];
            series.flow_queue_delay_mean_ms = one.clone();
            series.flow_queue_delay_p95_ms = one.clone();
            series.rto_ms = one;
        }
        let thin = thinned(&comparison);
        assert!(thin.runs.iter().all(|run| run.series.is_some()), "all coarser, none left out");
    }
}
