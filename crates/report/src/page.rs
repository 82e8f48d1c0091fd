//! What the HTML page gets to draw: the comparison, thinned to what a screen shows.

use cellpace_base::statistics;
use cellpace_measure::{ProfileSample, Series};
use serde::{Serialize, Serializer};

use crate::groups::{FigureRow, Group, conditions, controllers, groups, queue_delay, rows};
use crate::number::significant;
use crate::palette;
use crate::{Comparison, Run};

/// Maximum number of bins of a series: a wide screen has no more columns.
const MAX_BINS: usize = 3_000;

/// Minimum number of bins of a series: fewer would hide the shape of the run.
const MIN_BINS: usize = 150;

/// Numbers in all series of a page together. One takes about five characters, and the page shall
/// stay below 3 MB.
const MAX_NUMBERS: usize = 420_000;

/// Numbers in the values that controllers show of themselves, of a page together, and the bins that
/// each value gets at least and at most.
const MAX_INSPECTED_NUMBERS: usize = 120_000;
const MIN_INSPECTED_BINS: usize = 30;
const MAX_INSPECTED_BINS: usize = 600;

/// Runs with more flows are drawn as their total.
const MAX_FLOWS: usize = 16;

/// Delay profiles shown of one run.
const MAX_PROFILES: usize = 9;

/// Points of all delay profiles of a page together.
const MAX_PROFILE_POINTS: usize = 24_000;

#[derive(Serialize)]
pub(crate) struct Page<'a> {
    controllers: Vec<&'a str>,
    looks: Vec<Look>,
    groups: Vec<PageGroup<'a>>,
    /// Distinct capacities: the runs on one trace share theirs.
    capacities: Vec<Vec<Number>>,
}

/// How the controller or flow of the same number is drawn.
#[derive(Serialize)]
struct Look {
    colour: usize,
    dashes: &'static [u8],
    marker: &'static str,
    /// Outline with radius 1.
    outline: String,
}

#[derive(Serialize)]
struct PageGroup<'a> {
    name: &'a str,
    conditions: Vec<(&'static str, String)>,
    rows: Vec<FigureRow<'a>>,
    runs: Vec<PageRun<'a>>,
}

#[derive(Serialize)]
struct PageRun<'a> {
    cc: usize,
    seed: u64,
    throughput: Number,
    capacity: Number,
    p50: Number,
    p95: Number,
    flows: Vec<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<PageSeries<'a>>,
}

#[derive(Serialize)]
struct PageSeries<'a> {
    bin: f64,
    capacity: usize,
    throughput: Vec<Number>,
    p50: Vec<Number>,
    p95: Vec<Number>,
    flows: Vec<Vec<Number>>,
    cwnd: Vec<Vec<Number>>,
    inside: PageInside<'a>,
    profiles: Vec<PageProfile>,
}

/// What a controller shows of itself, in bins of its own.
#[derive(Serialize)]
struct PageInside<'a> {
    bin: f64,
    values: Vec<(&'a str, Vec<Number>)>,
}

#[derive(Serialize)]
struct PageProfile {
    at: Number,
    flow: usize,
    points: Vec<(Number, Number)>,
    curve: Vec<(Number, Number)>,
}

impl<'a> Page<'a> {
    pub(crate) fn new(comparison: &'a Comparison, groups: &'a [Group<'a>]) -> Self {
        let controllers = controllers(comparison);
        let budget = Budget::of(groups);
        let mut capacities = Vec::new();
        let page_groups = groups
            .iter()
            .map(|group| {
                let run = |run: &&'a Run| {
                    let cc = controllers.iter().position(|name| *name == run.cc).unwrap_or(0);
                    let is_first_seed = run.seed == group.runs[0].seed;
                    page_run(run, cc, is_first_seed, &budget, &mut capacities)
                };
                PageGroup {
                    name: &group.name,
                    conditions: conditions(group.runs[0]),
                    rows: rows(&group.runs, &comparison.repeated),
                    runs: group.runs.iter().map(run).collect(),
                }
            })
            .collect();
        let looks = (0..controllers.len().max(MAX_FLOWS)).map(look).collect();
        Self { controllers, looks, groups: page_groups, capacities }
    }
}

fn look(index: usize) -> Look {
    let marker = palette::marker(index);
    Look {
        colour: palette::colour(index),
        dashes: palette::dashes(index),
        marker,
        outline: palette::marker_path(marker, 1.0),
    }
}

/// How much of each run fits into the page.
struct Budget {
    bins: usize,
    every_seed: bool,
    profile_points: usize,
    inspected_bins: usize,
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
        Self {
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
            .flat_map(|series| {
                let flows = if shows_flows(series) { series.flow_throughput_mbps.len() } else { 0 };
                let windows = if series.cwnd_packets.len() <= MAX_FLOWS {
                    series.cwnd_packets.len()
                } else {
                    0
                };
                std::iter::repeat_n(series.throughput_mbps.len(), 3 + flows + windows)
            })
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

fn shows_flows(series: &Series) -> bool {
    (2..=MAX_FLOWS).contains(&series.flow_throughput_mbps.len())
}

fn page_run<'a>(
    run: &'a Run,
    cc: usize,
    is_first_seed: bool,
    budget: &Budget,
    capacities: &mut Vec<Vec<Number>>,
) -> PageRun<'a> {
    let delay = queue_delay(run);
    let series = run.series.as_ref().filter(|_| is_first_seed || budget.every_seed);
    PageRun {
        cc,
        seed: run.seed,
        throughput: Number(run.figures.throughput_mbps),
        capacity: Number(run.figures.capacity_mbps),
        p50: Number(delay.p50),
        p95: Number(delay.p95),
        flows: run.figures.per_flow.iter().map(|flow| flow.cc.as_str()).collect(),
        series: series.map(|series| page_series(series, is_first_seed, budget, capacities)),
    }
}

fn page_series<'a>(
    series: &'a Series,
    is_first_seed: bool,
    budget: &Budget,
    capacities: &mut Vec<Vec<Number>>,
) -> PageSeries<'a> {
    let merge = series.throughput_mbps.len().div_ceil(budget.bins).max(1);
    let capacity = thin(&series.capacity_mbps, merge, mean);
    let place = capacities.iter().position(|known| *known == capacity).unwrap_or_else(|| {
        capacities.push(capacity);
        capacities.len() - 1
    });
    let every = |flows: &[Vec<f32>], merged: fn(&[f32]) -> f64| {
        flows.iter().map(|flow| thin(flow, merge, merged)).collect()
    };
    let windows: &[Vec<f32>] =
        if series.cwnd_packets.len() <= MAX_FLOWS { &series.cwnd_packets } else { &[] };
    let flows: &[Vec<f32>] = if shows_flows(series) { &series.flow_throughput_mbps } else { &[] };
    let profiles = if is_first_seed { &series.profiles[..] } else { &[] };
    PageSeries {
        bin: series.bin_s * merge as f64,
        capacity: place,
        throughput: thin(&series.throughput_mbps, merge, mean),
        p50: thin(&series.queue_delay_p50_ms, merge, median),
        p95: thin(&series.queue_delay_p95_ms, merge, highest),
        flows: every(flows, mean),
        cwnd: every(windows, last),
        inside: page_inside(series, is_first_seed, budget.inspected_bins),
        profiles: evenly(profiles, MAX_PROFILES)
            .map(|profile| page_profile(profile, budget.profile_points))
            .collect(),
    }
}

fn page_inside(series: &Series, is_first_seed: bool, bins: usize) -> PageInside<'_> {
    let merge = series.throughput_mbps.len().div_ceil(bins).max(1);
    let inspected = if is_first_seed { &series.inspected[..] } else { &[] };
    let values = inspected
        .iter()
        // The window has a finer series of its own.
        .filter(|value| value.name != "cwnd_pkts")
        .map(|value| (value.name.as_str(), thin(&value.values, merge, last)));
    PageInside { bin: series.bin_s * merge as f64, values: values.collect() }
}

fn page_profile(profile: &ProfileSample, most: usize) -> PageProfile {
    let numbers = |(window, delay): &(f64, f64)| (Number(*window), Number(*delay));
    PageProfile {
        at: Number(profile.at_s),
        flow: profile.flow,
        points: evenly(&profile.points, most).map(numbers).collect(),
        curve: evenly(&profile.curve, most / 2).map(numbers).collect(),
    }
}

/// At most `most` of `items`, evenly spaced, the first and the last among them.
pub(crate) fn evenly<T>(items: &[T], most: usize) -> impl Iterator<Item = &T> {
    let count = items.len().min(most.max(2));
    (0..count).map(move |i| &items[i * (items.len() - 1) / (count - 1).max(1)])
}

/// Merges every `merge` bins into one.
pub(crate) fn thin(values: &[f32], merge: usize, merged: fn(&[f32]) -> f64) -> Vec<Number> {
    values.chunks(merge).map(|bins| Number(merged(bins))).collect()
}

pub(crate) fn mean(bins: &[f32]) -> f64 {
    statistics::mean(bins.iter().copied().map(f64::from))
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

/// A number in the page: four significant digits, a whole number without a point, `null` for
/// what is none.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Number(pub(crate) f64);

impl Serialize for Number {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let value = significant(self.0, 4);
        if value.fract() == 0.0 && value.abs() < 1e15 {
            return serializer.serialize_i64(value as i64);
        }
        serializer.serialize_f64(value)
    }
}

/// The page's data for `comparison` as JSON fit for a script element.
pub(crate) fn page_json(comparison: &Comparison) -> String {
    let groups = groups(comparison);
    crate::json::embeddable(&Page::new(comparison, &groups))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::example;
    use cellpace_measure::InspectedSeries;
    use serde_json::Value;

    fn page(comparison: &Comparison) -> Value {
        serde_json::from_str(&page_json(comparison)).unwrap()
    }

    #[test]
    fn merged_bins_keep_means_peaks_and_gaps() {
        let nan = f32::NAN;
        let json = |numbers: Vec<Number>| serde_json::to_string(&numbers).unwrap();
        assert_eq!(json(thin(&[1.0, 2.0, 4.0, 5.0, 9.0], 2, mean)), "[1.5,4.5,9]");
        assert_eq!(json(thin(&[1.0, nan, nan, nan, 3.0, 8.0], 2, highest)), "[1,null,8]");
        assert_eq!(json(thin(&[5.0, nan, 1.0, 9.0, nan, nan, nan, nan], 4, median)), "[5,null]");
        assert_eq!(json(thin(&[0.123_456, 1234.56], 1, mean)), "[0.1235,1235]");
    }

    #[test]
    fn runs_on_one_trace_share_their_capacity() {
        let page = page(&example::comparison());
        assert_eq!(page["capacities"].as_array().unwrap().len(), 1);
        assert_eq!(page["groups"][0]["runs"][1]["series"]["capacity"], 0);
        assert!(page["groups"][0]["runs"][0]["series"]["p50"][3].is_null());
    }

    #[test]
    fn long_series_are_merged_to_three_thousand_bins() {
        let page = page(&example::large("long", 1, 1, 650));
        let series = &page["groups"][0]["runs"][0]["series"];
        assert_eq!(series["throughput"].as_array().unwrap().len(), 2_167);
        assert!((series["bin"].as_f64().unwrap() - 0.3).abs() < 1e-12);
    }

    #[test]
    fn what_a_controller_shows_of_itself_gets_bins_of_its_own() {
        let mut comparison = example::large("inside", 1, 1, 300);
        let series = comparison.runs[0].series.as_mut().unwrap();
        let values = |name: &str| InspectedSeries {
            name: name.to_owned(),
            values: (0..3_000u16).map(f32::from).collect(),
        };
        series.inspected = vec![values("cwnd_pkts"), values("set_point_ms")];
        let page = page(&comparison);
        let inside = &page["groups"][0]["runs"][0]["series"]["inside"];
        assert_eq!(inside["bin"], 0.5);
        assert_eq!(
            inside["values"].as_array().unwrap().len(),
            1,
            "the window is drawn from its own"
        );
        assert_eq!(inside["values"][0][0], "set_point_ms");
        assert_eq!(inside["values"][0][1].as_array().unwrap().len(), 600);
        assert_eq!(inside["values"][0][1][1], 9.0, "the last of the bins that are merged");
    }

    #[test]
    fn many_flows_are_drawn_as_their_total() {
        let few = page(&example::large("few", 1, 16, 2));
        assert_eq!(few["groups"][0]["runs"][0]["series"]["flows"].as_array().unwrap().len(), 16);
        let many = page(&example::large("many", 1, 17, 2));
        let series = &many["groups"][0]["runs"][0]["series"];
        assert_eq!(series["flows"].as_array().unwrap().len(), 0);
        assert_eq!(series["cwnd"].as_array().unwrap().len(), 0);
        assert_eq!(series["throughput"].as_array().unwrap().len(), 20);
    }

    #[test]
    fn evenly_chosen_items_include_both_ends() {
        let items: Vec<usize> = (0..100).collect();
        assert_eq!(evenly(&items, 4).copied().collect::<Vec<_>>(), [0, 33, 66, 99]);
        assert_eq!(evenly(&items[..3], 9).count(), 3);
        assert_eq!(evenly(&items[..1], 9).count(), 1);
        assert_eq!(evenly(&items[..0], 9).count(), 0);
    }
}
