//! What the HTML page gets to draw of a thinned comparison.

use std::collections::BTreeMap;

use cellpace_measure::{FlowEvents, FlowFigures, ProfileSample, Quantiles, Series};
use serde::Serialize;

use crate::groups::{
    FigureRow, FlowRow, Group, conditions, controllers, flow_rows, groups, is_uplink, queue_delay,
    rows, trace_name,
};
use crate::number::{Number, bytes, short, time};
use crate::palette;
use crate::profile::profile_charts;
use crate::scatter::{differ_in_capacity, scatter};
use crate::section::{Chart, serialize_drawn};
use crate::sentence::{lead, sentence};
use crate::{Comparison, RealTime, Run, comparisons};

#[derive(Serialize)]
pub(crate) struct Page<'a> {
    controllers: Vec<&'a str>,
    groups: Vec<PageGroup<'a>>,
    /// Distinct capacities: the runs on one trace share theirs.
    capacities: Vec<Vec<Number>>,
    /// Some groups are the other direction of a link.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    has_uplink: bool,
    /// Its own, where the page has other results beside it.
    #[serde(skip_serializing_if = "Option::is_none")]
    title: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    sentence: Option<String>,
}

/// How the controller or flow of the same number is drawn.
#[derive(Serialize)]
pub(crate) struct Look {
    colour: usize,
    dashes: &'static [u8],
    marker: &'static str,
    /// Outline with radius 1.
    outline: String,
}

#[derive(Serialize)]
struct PageGroup<'a> {
    name: &'a str,
    conditions: Vec<(String, String)>,
    rows: Vec<FigureRow<'a>>,
    /// The controller of which the sentence speaks.
    #[serde(skip_serializing_if = "Option::is_none")]
    lead: Option<usize>,
    #[serde(serialize_with = "serialize_drawn")]
    scatter: Chart,
    runs: Vec<PageRun<'a>>,
    /// What flows got in the mean over several seeds, by controller.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    flow_means: BTreeMap<usize, Vec<FlowRow<'a>>>,
}

#[derive(Serialize)]
struct PageRun<'a> {
    /// Its place among all runs, where the page may have their packets, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    number: Option<usize>,
    cc: usize,
    seed: u64,
    throughput: f64,
    p50: f64,
    p95: f64,
    flows: Vec<PageFlow<'a>>,
    /// How many flows are left out.
    #[serde(skip_serializing_if = "is_none")]
    more: usize,
    #[serde(skip_serializing_if = "Option::is_none")]
    series: Option<PageSeries<'a>>,
}

/// A flow: controller or addresses, start and stop in s, throughput in Mbit/s, median and 95th percentile of its
/// queue delay in ms, packets lost. Figures are whole: rounded twice they would differ from those in text.
type PageFlow<'a> = (&'a str, Number, Number, f64, f64, f64, u64);

/// Runs over time that all have a distribution; of more only those of the first seed do.
const MAX_CDFS: usize = 64;

/// More flows than this are no table that anyone reads.
const MAX_LISTED_FLOWS: usize = 200;

fn is_none(number: &usize) -> bool {
    *number == 0
}

#[derive(Serialize)]
struct PageSeries<'a> {
    bin: f64,
    capacity: usize,
    throughput: Vec<Number>,
    p50: Vec<Number>,
    p95: Vec<Number>,
    flows: Vec<Vec<Number>>,
    /// The 95th percentile of the queue delay of each flow, where there are several.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    flow_p95: Vec<Vec<Number>>,
    /// Percentiles of the throughputs of flows that are too many to be drawn.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    bands: Vec<Vec<Number>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    jain: Vec<Number>,
    #[serde(skip_serializing_if = "Option::is_none")]
    cdf: Option<PageCdf>,
    cwnd: Vec<Vec<Number>>,
    inside: PageInside<'a>,
    profiles: Vec<PageProfile>,
    #[serde(skip_serializing_if = "<[_]>::is_empty")]
    events: &'a [FlowEvents],
}

/// The delays in ms below which 0, 1, ..., 100 % of all lie.
#[derive(Serialize)]
struct PageCdf {
    queue: Vec<Number>,
    oneway: Vec<Number>,
    rtt: Vec<Number>,
}

/// What a controller shows of itself, in bins of its own.
#[derive(Serialize)]
struct PageInside<'a> {
    bin: f64,
    values: Vec<(&'a str, Vec<Number>)>,
}

/// What a controller has learnt, as a chart.
#[derive(Serialize)]
#[serde(transparent)]
struct PageProfile(#[serde(serialize_with = "serialize_drawn")] Chart);

impl<'a> Page<'a> {
    fn new(comparison: &'a Comparison, groups: &'a [Group<'a>], has_others: bool) -> Self {
        let controllers = controllers(comparison);
        let in_shares = differ_in_capacity(comparison);
        let mut capacities = Vec::new();
        let drawn = comparison.runs.iter().filter(|run| run.series.is_some()).count();
        let page_groups = groups
            .iter()
            .map(|group| {
                let run = |run: &&'a Run| {
                    let cc = controllers.iter().position(|name| *name == run.cc).unwrap_or(0);
                    let has_cdf = drawn <= MAX_CDFS || run.seed == group.runs[0].seed;
                    let number = comparison.runs.iter().position(|each| std::ptr::eq(each, *run));
                    let number = number.filter(|_| has_others);
                    page_run(run, number, (cc, has_cdf), &mut capacities)
                };
                let rows = rows(&group.runs, &comparison.repeated);
                PageGroup {
                    name: &group.name,
                    conditions: [
                        shown(group.runs[0]),
                        traffic(&group.runs),
                        exactness(&group.runs),
                    ]
                    .concat(),
                    lead: controllers.iter().position(|cc| lead(&rows) == Some(cc)),
                    scatter: scatter(group, &rows, &controllers, in_shares),
                    rows,
                    flow_means: flow_means(group, &controllers),
                    runs: group.runs.iter().map(run).collect(),
                }
            })
            .collect();
        let has_uplink = comparison.runs.iter().any(is_uplink);
        Self {
            controllers,
            groups: page_groups,
            capacities,
            has_uplink,
            title: has_others.then(|| comparisons::title(comparison)),
            sentence: has_others.then(|| sentence(comparison)),
        }
    }
}

/// How the first `count` controllers look, as JSON for a page that has [`palette_css`](crate::palette_css).
pub fn looks_json(count: usize) -> String {
    crate::json::embeddable(&looks(count))
}

/// The flows of controllers that ran with several seeds and had several flows.
fn flow_means<'a>(group: &Group<'a>, controllers: &[&str]) -> BTreeMap<usize, Vec<FlowRow<'a>>> {
    let mut means = BTreeMap::new();
    for (index, cc) in controllers.iter().enumerate() {
        let runs: Vec<&Run> = group.runs.iter().copied().filter(|run| run.cc == *cc).collect();
        if runs.len() > 1 && runs[0].figures.per_flow.len() > 1 {
            let mut rows = flow_rows(&runs);
            rows.truncate(MAX_LISTED_FLOWS);
            means.insert(index, rows);
        }
    }
    means
}

/// How the first `count` controllers, flows or lines look; those after them begin anew.
pub(crate) fn looks(count: usize) -> Vec<Look> {
    (0..count).map(look).collect()
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

fn page_run<'a>(
    run: &'a Run,
    number: Option<usize>,
    (cc, has_cdf): (usize, bool),
    capacities: &mut Vec<Vec<Number>>,
) -> PageRun<'a> {
    let delay = queue_delay(run);
    PageRun {
        number,
        cc,
        seed: run.seed,
        throughput: run.figures.throughput_mbps,
        p50: delay.p50,
        p95: delay.p95,
        flows: run.figures.per_flow.iter().take(MAX_LISTED_FLOWS).map(page_flow).collect(),
        more: run.figures.per_flow.len().saturating_sub(MAX_LISTED_FLOWS),
        series: run.series.as_ref().map(|series| {
            let flows = run.figures.per_flow.len();
            page_series(series, (cc, flows), has_cdf, capacities)
        }),
    }
}

fn page_flow(flow: &FlowFigures) -> PageFlow<'_> {
    let delay = flow.queue_delay_ms;
    // Zeros would make the worst flow look like the best.
    let [p50, p95] = match flow.throughput_mbps > 0.0 {
        true => [delay.p50, delay.p95],
        false => [f64::NAN; 2],
    };
    let times = [Number(flow.start_s), Number(flow.stop_s)];
    (flow.name(), times[0], times[1], flow.throughput_mbps, p50, p95, flow.lost)
}

fn page_cdf(quantiles: &Quantiles) -> Option<PageCdf> {
    // Every second one is as fine as a screen shows.
    let of = |values: &[f32]| {
        values.iter().step_by(2).map(|value| Number(f64::from(*value))).collect::<Vec<_>>()
    };
    (!quantiles.queue_delay_ms.is_empty()).then(|| PageCdf {
        queue: of(&quantiles.queue_delay_ms),
        oneway: of(&quantiles.one_way_delay_ms),
        rtt: of(&quantiles.rtt_ms_seen),
    })
}

fn page_series<'a>(
    series: &'a Series,
    (cc, flows): (usize, usize),
    has_cdf: bool,
    capacities: &mut Vec<Vec<Number>>,
) -> PageSeries<'a> {
    let capacity = numbers(&series.capacity_mbps);
    let place = capacities.iter().position(|known| *known == capacity).unwrap_or_else(|| {
        capacities.push(capacity);
        capacities.len() - 1
    });
    let every = |flows: &[Vec<f32>]| flows.iter().map(|flow| numbers(flow)).collect();
    let inside = series.inspected.iter();
    PageSeries {
        bin: series.bin_s,
        capacity: place,
        throughput: numbers(&series.throughput_mbps),
        p50: numbers(&series.queue_delay_p50_ms),
        p95: numbers(&series.queue_delay_p95_ms),
        flows: every(&series.flow_throughput_mbps),
        flow_p95: every(&series.flow_queue_delay_p95_ms),
        bands: every(&series.flow_bands_mbps),
        jain: numbers(&series.flow_jain),
        cdf: if has_cdf { page_cdf(&series.quantiles) } else { None },
        cwnd: every(&series.cwnd_packets),
        inside: PageInside {
            bin: series.inspected_bin_s.unwrap_or(series.bin_s),
            values: inside.map(|value| (value.name.as_str(), numbers(&value.values))).collect(),
        },
        profiles: page_profiles(&series.profiles, cc, flows),
        events: &series.events,
    }
}

/// What was asked of links in real time and what was reached, and how late packets were.
fn exactness(runs: &[&Run]) -> Vec<(String, String)> {
    let measured: Vec<RealTime> = runs.iter().filter_map(|run| run.real_time).collect();
    let each = |text: fn(&RealTime) -> String| {
        let mut texts: Vec<String> = measured.iter().map(text).collect();
        texts.dedup();
        texts.join(", then ")
    };
    if measured.is_empty() {
        return Vec::new();
    }
    let rates = |real: &RealTime| {
        let reached = short(real.reached_mbps);
        match real.asked_mbps {
            Some(asked) => format!("{reached} of {} Mbit/s", short(asked)),
            None => format!("{reached} Mbit/s, without a limit"),
        }
    };
    let late = |real: &RealTime| {
        format!("{} us, at worst {}", short(real.late_p99_us), short(real.late_max_us))
    };
    let mut facts = vec![
        ("Reached of what was asked", each(rates)),
        ("99 % of packets late by at most", each(late)),
    ];
    if measured.iter().any(|real| real.lost_by_devices > 0) {
        facts.push(("Lost by devices", each(|real| format!("{} packets", real.lost_by_devices))));
    }
    facts.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

/// The conditions with the trace's short name.
fn shown(run: &Run) -> Vec<(String, String)> {
    let mut all = conditions(run);
    all[0].1 = trace_name(&run.trace).to_owned();
    all
}

/// What flows had to send, where they did not always have data.
fn traffic(runs: &[&Run]) -> Vec<(String, String)> {
    let sizes = || runs.iter().flat_map(|run| &run.transfers).map(|each| each.size_bytes);
    let transfers = sizes().min().zip(sizes().max()).map(|(least, most)| match least == most {
        true => format!("transfers of {}", bytes(least)),
        false => format!("transfers of {} to {}", bytes(least), bytes(most)),
    });
    let flows = || runs.iter().flat_map(|run| &run.figures.per_flow);
    let deadline = flows().find_map(|flow| flow.video.as_ref()).map(|video| video.deadline_ms);
    let video = deadline.map(|ms| format!("video, frames late after {}", time(ms)));
    let all: Vec<String> = transfers.into_iter().chain(video).collect();
    if all.is_empty() { Vec::new() } else { vec![("Traffic".to_owned(), all.join(", "))] }
}

fn page_profiles(profiles: &[ProfileSample], cc: usize, flows: usize) -> Vec<PageProfile> {
    let all: Vec<&ProfileSample> = profiles.iter().collect();
    profile_charts(&all, cc, flows > 1).into_iter().map(PageProfile).collect()
}

pub(crate) fn numbers(values: &[f32]) -> Vec<Number> {
    values.iter().map(|value| Number(f64::from(*value))).collect()
}

/// The page's data for `comparison` as JSON fit for a script element. `has_others`: the page has other
/// results, too.
pub(crate) fn page_json(comparison: &Comparison, has_others: bool) -> String {
    let groups = groups(comparison);
    crate::json::embeddable(&Page::new(comparison, &groups, has_others))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::RealTimeDirection;
    use crate::example;
    use crate::thin::thinned;
    use cellpace_measure::InspectedSeries;
    use serde_json::Value;

    fn page(comparison: &Comparison) -> Value {
        serde_json::from_str(&page_json(&thinned(comparison), false)).unwrap()
    }

    #[test]
    fn a_link_in_real_time_says_how_exact_it_was() {
        let mut comparison = example::comparison();
        let real = RealTime {
            direction: RealTimeDirection::Down,
            late_p50_us: 40.0,
            late_p99_us: 81.0,
            late_max_us: 1050.0,
            asked_mbps: Some(4.8),
            reached_mbps: 3.5,
            lost_by_devices: 0,
            has_priority: true,
        };
        comparison.runs[0].real_time = Some(real);
        comparison.runs[1].real_time = Some(RealTime { asked_mbps: None, ..real });
        let conditions = page(&comparison)["groups"][0]["conditions"].clone();
        let value = |wanted: &str| {
            let all = conditions.as_array().unwrap().iter();
            all.filter(|pair| pair[0] == wanted).map(|pair| pair[1].clone()).collect::<Vec<_>>()
        };
        let rates = "3.5 of 4.8 Mbit/s, then 3.5 Mbit/s, without a limit";
        assert_eq!(value("Reached of what was asked"), [rates]);
        assert_eq!(value("99 % of packets late by at most"), ["81 us, at worst 1050"]);
        assert_eq!(value("Lost by devices"), [""; 0]);
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
}
