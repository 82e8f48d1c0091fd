//! The figures of a recording: the document `cellpace.probe/1` (`docs/reference/schemas.md`).

use std::collections::HashSet;

use cellpace_base::{Ecn, Span, Time};
use cellpace_measure::{DelaySketch, Prediction, Summary, predictions};
use cellpace_path::stats::{Bar, Percentiles, bars, percentiles};
use cellpace_udp::wire::EcnCounts;
use serde::Serialize;

use crate::clock::ClockOffset;
use crate::plan::{Pattern, Plan};
use crate::recording::{DirectionRecording, ProbeArrival, Recording};
use crate::statistics::{bursts, mean_and_cv, throughput};
use crate::trace::{opportunities, used_opportunities};

/// The schema's name and version. Fields are only added within a version.
pub const SCHEMA: &str = "cellpace.probe/1";

/// One TTI of LTE: a burst does not last over a longer gap.
const TTI: Span = Span::from_millis(1);

/// Bins of the delay over time.
const DELAY_BIN: Span = Span::from_millis(100);

/// Everything that was measured.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeDocument {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The version of the program.
    pub version: String,
    /// The command line, without where results go.
    pub command: String,
    /// What was asked for.
    pub settings: ProbeSettings,
    /// Whether the session came to its end, so that nothing is missing.
    pub complete: bool,
    /// The shortest round trip of reports in ms, without the time that they were held.
    pub least_rtt_ms: Option<f64>,
    /// How far the responder's clock is ahead of the prober's in ms, at the prober's start;
    /// `null`: it could not be estimated, and delays count from the fastest packet.
    pub clock_offset_ms: Option<f64>,
    /// Its drift in parts per million; `null`: not measured, and taken for zero.
    pub clock_drift_ppm: Option<f64>,
    /// From the prober to the responder.
    pub up: Option<DirectionFigures>,
    /// From the responder to the prober.
    pub down: Option<DirectionFigures>,
}

/// What was asked for.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProbeSettings {
    /// The responder as written.
    pub target: String,
    /// Bytes of the IP packet of a probe.
    pub size: u16,
    /// Time between probes in ms; `null` when saturating.
    pub interval_ms: Option<f64>,
    /// Bounds of the queue delay in ms, when saturating.
    pub queue_delay_bounds_ms: Option<[f64; 2]>,
    /// How long probes were sent, in s.
    pub duration_s: f64,
    /// Time between packets, on and off period of the second stream, in ms.
    pub onoff_ms: Option<[f64; 3]>,
}

/// One direction.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DirectionFigures {
    /// Probes sent.
    pub sent: u64,
    /// Different probes that arrived.
    pub arrived: u64,
    /// Sent and never arrived.
    pub lost: u64,
    /// Arrived again.
    pub duplicates: u64,
    /// Arrived after one with a higher number.
    pub reordered: u64,
    /// Not sent because the sender was late.
    pub skipped: u64,
    /// Arrived, and not recorded because the limit was reached.
    pub unrecorded: u64,
    /// From the first to the last arrival, in s.
    pub seconds: f64,
    /// Bits of IP packets that arrived in that time, in Mbit/s.
    pub throughput_mbps: f64,
    /// One-way delay.
    pub delay_ms: DelayFigures,
    /// One-way delay above that of the fastest probe.
    pub queue_delay_ms: DelayFigures,
    /// Figures 1 and 2.
    pub bursts: BurstFigures,
    /// Figure 3: the delay with and without the second stream.
    pub onoff: Option<OnOffFigures>,
    /// What became of the probes' codepoint; `null`: they had none.
    pub ecn: Option<EcnFigures>,
    /// Figure 4, in windows of 100 and of 20 ms.
    pub windows: Vec<WindowFigures>,
    /// The recorded trace, when saturating.
    pub trace: Option<RecordedTrace>,
    /// Delay over time, in bins of 100 ms from the first arrival on.
    pub delay_series: DelaySeries,
}

/// Mean and percentiles of delays in ms.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct DelayFigures {
    /// Number of delays.
    pub count: u64,
    /// Shortest.
    pub min: f64,
    /// The others.
    #[serde(flatten)]
    pub summary: Summary,
}

/// Burst sizes and the times between bursts.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct BurstFigures {
    /// A burst ends where the next probe arrives so much later, in ms.
    pub gap_ms: f64,
    /// Number of bursts.
    pub count: usize,
    /// Probes per burst.
    pub size: Quantiles,
    /// From the last arrival of a burst to the first of the next, in ms.
    pub between_ms: Quantiles,
    /// Distribution of the sizes: from, to, share.
    pub size_shares: Vec<(u32, u32, f64)>,
    /// Distribution of the times between bursts: from and to in ms, share.
    pub between_shares: Vec<(f64, f64, f64)>,
}

/// Percentiles of a distribution.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Quantiles {
    /// Mean.
    pub mean: f64,
    /// Median.
    pub p50: f64,
    /// 90th percentile.
    pub p90: f64,
    /// 99th percentile.
    pub p99: f64,
    /// Largest.
    pub max: f64,
}

impl Quantiles {
    fn scaled(values: &Percentiles, by: f64) -> Self {
        let [mean, p50, p90, p99, max] =
            [values.mean, values.p50, values.p90, values.p99, values.max].map(|v| v * by);
        Self { mean, p50, p90, p99, max }
    }
}

/// Delays of the probes sent while the second stream was on, and while it was off.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct OnOffFigures {
    /// While it was on.
    pub on_ms: DelayFigures,
    /// While it was off.
    pub off_ms: DelayFigures,
    /// Packets of the second stream sent.
    pub rival_sent: u64,
    /// Packets of the second stream that arrived.
    pub rival_arrived: u64,
}

/// With which ECN codepoints probes arrived, as the receiver counted them: copies count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct EcnFigures {
    /// The codepoint with which they left, `ect0` or `ect1`.
    pub sent_as: &'static str,
    /// Arrived without one: somebody bleached them.
    pub not_ect: u64,
    /// Arrived as ECT(0).
    pub ect0: u64,
    /// Arrived as ECT(1).
    pub ect1: u64,
    /// Arrived marked: CE.
    pub ce: u64,
}

/// Throughput in windows, and whether it can be predicted.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct WindowFigures {
    /// Width in ms.
    pub width_ms: u64,
    /// Mean of the windows in Mbit/s.
    pub mean_mbps: f64,
    /// Standard deviation over the mean.
    pub cv: f64,
    /// How each predictor did.
    pub predictions: Vec<Prediction>,
    /// Each window in Mbit/s.
    pub mbps: Vec<f32>,
}

/// A recorded trace.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RecordedTrace {
    /// Opportunities of 1500 bytes.
    pub opportunities: usize,
    /// Its length in s.
    pub seconds: f64,
    /// Its mean rate in Mbit/s.
    pub mean_mbps: f64,
    /// Share of the time in which the queue may have been empty.
    pub idle_share: f64,
    /// How much the arrivals keep to whole milliseconds, from 0 to 1.
    pub grid: f64,
    /// The opportunities in whole ms; they are in the file that `--record` names.
    #[serde(skip)]
    pub millis: Vec<u32>,
}

/// Delay over time; NaN (`null`) where nothing arrived.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct DelaySeries {
    /// Width of a bin in s.
    pub bin_s: f64,
    /// Median in ms.
    pub p50_ms: Vec<f32>,
    /// Largest in ms.
    pub max_ms: Vec<f32>,
    /// Probes that never arrived, in the bin of the next one that did.
    pub lost: Vec<u32>,
}

/// The figures of a recording. `target` and `version` are put into the document; its `command` is
/// left empty. A gap of half the time between probes ends a burst, but at most 1 ms, one TTI.
pub fn analyse(recording: &Recording, target: &str, version: &str) -> ProbeDocument {
    let plan = &recording.plan;
    let clock = ClockOffset::of(recording);
    let gap = match plan.pattern {
        Pattern::Every(interval) => TTI.min(interval / 2),
        Pattern::Saturate { .. } => TTI,
    };
    let offset = |seconds: f64| clock.map(|clock| clock.offset.at(seconds));
    // There: delay + offset. Back: delay - offset. The offset is a function of the prober's clock.
    let up = |a: &ProbeArrival| Some(a.raw_delay() as f64 - offset(a.sent_at.as_secs_f64())?);
    let down = |a: &ProbeArrival| Some(a.raw_delay() as f64 + offset(a.received_at.as_secs_f64())?);
    ProbeDocument {
        schema: SCHEMA,
        version: version.to_owned(),
        command: String::new(),
        settings: settings(plan, target),
        complete: recording.complete,
        least_rtt_ms: recording.least_rtt.map(Span::as_millis_f64),
        clock_offset_ms: clock.map(|clock| clock.offset.at_zero / 1e6),
        clock_drift_ppm: clock.filter(|clock| clock.has_drift).map(|clock| clock.drift_ppm()),
        up: plan.up.then(|| direction(plan, &recording.up, gap, &up)),
        down: plan.down.then(|| direction(plan, &recording.down, gap, &down)),
    }
}

fn settings(plan: &Plan, target: &str) -> ProbeSettings {
    let ms = Span::as_millis_f64;
    let (interval_ms, queue_delay_bounds_ms) = match plan.pattern {
        Pattern::Every(interval) => (Some(ms(interval)), None),
        Pattern::Saturate { lower, upper } => (None, Some([ms(lower), ms(upper)])),
    };
    ProbeSettings {
        target: target.to_owned(),
        size: plan.size,
        interval_ms,
        queue_delay_bounds_ms,
        duration_s: plan.duration.as_secs_f64(),
        onoff_ms: plan.rival.map(|r| [r.interval, r.on, r.off].map(ms)),
    }
}

/// An arrival with its one-way delay in ms.
struct Delayed<'a> {
    arrival: &'a ProbeArrival,
    delay_ms: f64,
}

fn direction(
    plan: &Plan,
    way: &DirectionRecording,
    gap: Span,
    delay_ns: &dyn Fn(&ProbeArrival) -> Option<f64>,
) -> DirectionFigures {
    let unique = unique(way);
    let main = || unique.iter().copied().filter(|arrival| arrival.stream == 0);
    // Without a clock to compare with, delays count from the fastest.
    let least_raw = main().map(ProbeArrival::raw_delay).min().unwrap_or(0);
    let delayed: Vec<Delayed<'_>> = main()
        .map(|arrival| {
            let ns = delay_ns(arrival).unwrap_or((arrival.raw_delay() - least_raw) as f64);
            Delayed { arrival, delay_ms: ns / 1e6 }
        })
        .collect();
    let least = delayed.iter().map(|d| d.delay_ms).fold(f64::INFINITY, f64::min);
    let times: Vec<u64> = main().map(|arrival| arrival.received_at.as_nanos()).collect();
    let span = times.last().zip(times.first()).map_or(0, |(last, first)| last - first);
    let seconds = span as f64 / 1e9;
    let bits = times.len().saturating_sub(1) as f64 * f64::from(plan.size) * 8.0;
    let arrived = times.len() as u64;
    let all = way.arrivals.iter().filter(|arrival| arrival.stream == 0).count() as u64;
    DirectionFigures {
        sent: way.sent[0],
        arrived,
        lost: way.sent[0].saturating_sub(arrived),
        duplicates: all - arrived,
        reordered: reordered(main()),
        skipped: way.skipped,
        unrecorded: way.unrecorded,
        seconds,
        throughput_mbps: if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 },
        delay_ms: delays(delayed.iter().map(|d| d.delay_ms)),
        queue_delay_ms: delays(delayed.iter().map(|d| d.delay_ms - least)),
        bursts: burst_figures(&times, gap),
        onoff: onoff(plan, way, &unique, &delayed),
        ecn: ecn(plan, way),
        windows: [100, 20].into_iter().map(|width| windows(&times, plan.size, width)).collect(),
        trace: trace(plan, way, &unique),
        delay_series: delay_series(&delayed, way.sent[0]),
    }
}

/// The trace that probes at a constant rate leave: opportunities in whole milliseconds. Empty where
/// fewer than two arrived.
pub fn constant_rate_trace(plan: &Plan, way: &DirectionRecording) -> Vec<u32> {
    let unique = unique(way).into_iter().filter(|arrival| arrival.stream == 0);
    let times: Vec<u64> = unique.map(|arrival| arrival.received_at.as_nanos()).collect();
    used_opportunities(&times, plan.size)
}

/// The first arrival of each probe, in the order of time.
fn unique(way: &DirectionRecording) -> Vec<&ProbeArrival> {
    let mut seen = HashSet::with_capacity(way.arrivals.len());
    let is_first = |arrival: &&ProbeArrival| seen.insert((arrival.stream, arrival.number));
    let mut unique: Vec<&ProbeArrival> = way.arrivals.iter().filter(is_first).collect();
    unique.sort_by_key(|arrival| arrival.received_at);
    unique
}

fn reordered<'a>(arrivals: impl Iterator<Item = &'a ProbeArrival>) -> u64 {
    let (mut highest, mut count) = (0, 0);
    for arrival in arrivals {
        count += u64::from(arrival.number < highest);
        highest = highest.max(arrival.number);
    }
    count
}

fn delays(delays_ms: impl Iterator<Item = f64> + Clone) -> DelayFigures {
    let mut sketch = DelaySketch::new();
    // The offset may be wrong by a little, and the fastest packets be faster than light.
    delays_ms.clone().for_each(|delay| sketch.record(Span::from_millis_f64(delay)));
    let min = delays_ms.reduce(f64::min).unwrap_or(0.0);
    DelayFigures {
        count: sketch.count(),
        min: (min * 1e3).round() / 1e3,
        summary: sketch.summary(),
    }
}

fn burst_figures(times: &[u64], gap: Span) -> BurstFigures {
    let found = bursts(times, gap);
    let shares = |bar: &Bar| (bar.from, bar.to, bar.share);
    let ms = |us: u32| f64::from(us) / 1e3;
    BurstFigures {
        gap_ms: gap.as_millis_f64(),
        count: found.sizes.len(),
        size_shares: bars(&found.sizes).iter().map(shares).collect(),
        between_shares: bars(&found.between_us)
            .iter()
            .map(|bar| (ms(bar.from), ms(bar.to), bar.share))
            .collect(),
        size: Quantiles::scaled(&percentiles(found.sizes), 1.0),
        between_ms: Quantiles::scaled(&percentiles(found.between_us), 1e-3),
    }
}

fn onoff(
    plan: &Plan,
    way: &DirectionRecording,
    unique: &[&ProbeArrival],
    delayed: &[Delayed<'_>],
) -> Option<OnOffFigures> {
    let rival = plan.rival?;
    let is_on = |sent_at: Time| rival.is_on(sent_at - way.began);
    let of = |wanted: bool| {
        let sent_then = delayed.iter().filter(|d| is_on(d.arrival.sent_at) == wanted);
        delays(sent_then.map(|d| d.delay_ms).collect::<Vec<_>>().into_iter())
    };
    let rival_arrived = unique.iter().filter(|arrival| arrival.stream == 1).count() as u64;
    let rival_sent = way.sent[1];
    Some(OnOffFigures { on_ms: of(true), off_ms: of(false), rival_sent, rival_arrived })
}

fn ecn(plan: &Plan, way: &DirectionRecording) -> Option<EcnFigures> {
    if plan.ecn == Ecn::NotEct {
        return None;
    }
    let EcnCounts { ect0, ect1, ce } = way.ecn;
    let not_ect = way.counted.saturating_sub(ect0 + ect1 + ce);
    Some(EcnFigures { sent_as: plan.ecn.name(), not_ect, ect0, ect1, ce })
}

fn windows(times: &[u64], size: u16, width_ms: u64) -> WindowFigures {
    let mbps = throughput(times, u32::from(size), Span::from_millis(width_ms));
    let (mean_mbps, cv) = mean_and_cv(&mbps);
    WindowFigures { width_ms, mean_mbps, cv, predictions: predictions(&mbps), mbps }
}

fn trace(plan: &Plan, way: &DirectionRecording, unique: &[&ProbeArrival]) -> Option<RecordedTrace> {
    let Pattern::Saturate { .. } = plan.pattern else { return None };
    let times: Vec<(u64, u64)> =
        unique.iter().map(|a| (a.sent_at.as_nanos(), a.received_at.as_nanos())).collect();
    let mut reports: Vec<(u64, u32)> =
        way.reports.iter().map(|(at, bytes)| (at.as_nanos(), *bytes)).collect();
    reports.sort_unstable();
    let found = opportunities(&times, plan.size, &reports);
    let seconds = f64::from(found.millis.last().copied().unwrap_or(0)) / 1e3;
    let bits = found.millis.len() as f64 * 12_000.0;
    Some(RecordedTrace {
        opportunities: found.millis.len(),
        seconds,
        mean_mbps: if seconds > 0.0 { bits / seconds / 1e6 } else { 0.0 },
        idle_share: found.idle_share,
        grid: found.grid,
        millis: found.millis,
    })
}

/// The delays, in the order of arrival, of those of `sent` probes that arrived.
fn delay_series(delayed: &[Delayed<'_>], sent: u64) -> DelaySeries {
    const MAX_BINS: u64 = 100_000;
    let bin_s = DELAY_BIN.as_secs_f64();
    let mut series = DelaySeries { bin_s, ..DelaySeries::default() };
    let Some(first) = delayed.first() else { return series };
    let bin = |d: &Delayed<'_>| {
        let since = d.arrival.received_at - first.arrival.received_at;
        (since.as_nanos() / DELAY_BIN.as_nanos()).min(MAX_BINS) as usize
    };
    for bins in delayed.chunk_by(|a, b| bin(a) == bin(b)) {
        let index = bin(&bins[0]);
        series.p50_ms.resize(index, f32::NAN);
        series.max_ms.resize(index, f32::NAN);
        let mut delays: Vec<f64> = bins.iter().map(|d| d.delay_ms).collect();
        delays.sort_by(f64::total_cmp);
        series.p50_ms.push(delays[(delays.len() - 1) / 2] as f32);
        series.max_ms.push(delays[delays.len() - 1] as f32);
    }
    series.lost = vec![0; series.p50_ms.len()];
    let mut by_number: Vec<(u64, usize)> =
        delayed.iter().map(|d| (d.arrival.number, bin(d))).collect();
    by_number.sort_unstable();
    // Those after the last arrival belong to the last bin.
    by_number.push((sent, series.lost.len() - 1));
    let mut next = 0;
    for (number, bin) in by_number {
        series.lost[bin] += u32::try_from(number.saturating_sub(next)).unwrap_or(u32::MAX);
        next = number + 1;
    }
    series
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::OnOffStream;

    const MS: Span = Span::from_millis(1);

    /// Both ways every 10 ms for 4 s, 20 ms up and 20 ms down, and 30 ms more upwards while the
    /// second stream is on; the responder's clock is 5 s ahead.
    fn recording() -> Recording {
        let rival =
            OnOffStream { interval: MS, on: Span::from_millis(500), off: Span::from_millis(500) };
        let plan = Plan {
            up: true,
            down: true,
            size: 1250,
            pattern: Pattern::Every(Span::from_millis(10)),
            duration: Span::from_secs(4),
            rival: Some(rival),
            ecn: Ecn::NotEct,
        };
        let began = Time::from_secs(1);
        let ahead = Span::from_secs(5);
        let up = (0..400).map(|number| {
            let sent_at = began + Span::from_millis(10) * number;
            let queue = if rival.is_on(sent_at - began) { 30 } else { 0 };
            let received_at = sent_at + ahead + Span::from_millis(20 + queue);
            ProbeArrival { stream: 0, number, sent_at, received_at }
        });
        let down = (0..400).map(|number| {
            let sent_at = began + ahead + Span::from_millis(10) * number;
            let received_at = sent_at - ahead + Span::from_millis(20);
            ProbeArrival { stream: 0, number, sent_at, received_at }
        });
        let way = |arrivals: Vec<ProbeArrival>, began| DirectionRecording {
            arrivals,
            began,
            sent: [402, 0],
            skipped: 3,
            ..DirectionRecording::default()
        };
        Recording {
            plan,
            up: way(up.collect(), began),
            down: way(down.collect(), began + ahead),
            least_rtt: Some(Span::from_millis(40)),
            complete: true,
        }
    }

    #[test]
    fn delays_are_those_of_the_path_whatever_the_clocks_say() {
        let document = analyse(&recording(), "there", "1");
        assert_eq!(document.clock_offset_ms, Some(5000.0));
        let (up, down) = (document.up.unwrap(), document.down.unwrap());
        assert_eq!((down.delay_ms.min, down.delay_ms.summary.max), (20.0, 20.0));
        assert_eq!((up.delay_ms.min, up.delay_ms.summary.max), (20.0, 50.0));
        assert_eq!((up.queue_delay_ms.min, up.queue_delay_ms.summary.max), (0.0, 30.0));
        assert_eq!((up.sent, up.arrived, up.lost, up.skipped), (402, 400, 2, 3));
        assert!((down.throughput_mbps - 1.0).abs() < 1e-9, "{}", down.throughput_mbps);
        assert_eq!(down.bursts.gap_ms, 1.0);
        assert_eq!((down.bursts.count, down.bursts.between_ms.p50), (400, 10.0));
        assert_eq!((down.windows[0].mean_mbps, down.windows[0].cv), (1.0, 0.0));
    }

    #[test]
    fn delay_with_and_without_the_second_stream() {
        let document = analyse(&recording(), "there", "1");
        let figures = document.up.unwrap().onoff.unwrap();
        assert_eq!((figures.on_ms.summary.p50, figures.off_ms.summary.p50), (50.0, 20.0));
        assert_eq!((figures.on_ms.count, figures.off_ms.count), (200, 200));
    }

    #[test]
    fn codepoints_are_told_where_probes_had_one() {
        let mut recording = recording();
        recording.up.counted = 10;
        recording.up.ecn = EcnCounts { ect0: 1, ect1: 4, ce: 2 };
        assert_eq!(analyse(&recording, "there", "1").up.unwrap().ecn, None);
        recording.plan.ecn = Ecn::Ect1;
        let found = analyse(&recording, "there", "1");
        let expected = EcnFigures { sent_as: "ect1", not_ect: 3, ect0: 1, ect1: 4, ce: 2 };
        assert_eq!(found.up.as_ref().unwrap().ecn, Some(expected));
        let text = crate::summary(&found);
        let line = "     ECN: 402 probes as ECT(1): 4 arrived so, 2 marked CE, 3 lost the \
                    codepoint (bleached), 1 changed\n";
        assert!(text.contains(line), "{text}");
        recording.plan.ecn = Ecn::Ect0;
        let text = crate::summary(&analyse(&recording, "there", "1"));
        assert!(text.contains("402 probes as ECT(0): 1 arrived so,"), "{text}");
        assert!(text.contains(", 4 changed"), "{text}");
    }

    #[test]
    fn duplicates_and_reordering_are_counted_and_count_once() {
        let mut recording = recording();
        let arrivals = &mut recording.down.arrivals;
        arrivals.push(arrivals[7]);
        let (a, b) = (arrivals[20].received_at, arrivals[21].received_at);
        (arrivals[20].received_at, arrivals[21].received_at) = (b, a);
        let down = analyse(&recording, "there", "1").down.unwrap();
        assert_eq!((down.arrived, down.duplicates, down.reordered), (400, 1, 1));
    }

    #[test]
    fn without_the_other_direction_delays_count_from_the_fastest() {
        let mut recording = recording();
        recording.down = DirectionRecording::default();
        let document = analyse(&recording, "there", "1");
        assert_eq!(document.clock_offset_ms, None);
        let up = document.up.unwrap();
        assert_eq!((up.delay_ms.min, up.delay_ms.summary.max), (0.0, 30.0));
        assert_eq!(document.down.unwrap().arrived, 0);
    }

    #[test]
    fn delay_over_time_has_holes_where_nothing_arrived() {
        let mut recording = recording();
        recording.down.arrivals.retain(|arrival| !(100..130).contains(&arrival.number));
        let series = analyse(&recording, "there", "1").down.unwrap().delay_series;
        assert_eq!(series.p50_ms.len(), 40);
        assert!(series.p50_ms[10].is_nan() && series.max_ms[12].is_nan());
        assert_eq!((series.p50_ms[9], series.max_ms[13]), (20.0, 20.0));
        assert_eq!((series.lost[12], series.lost[13], series.lost[39]), (0, 30, 2));
        assert_eq!(series.lost.iter().sum::<u32>(), 32);
    }
}
