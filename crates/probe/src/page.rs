//! What was measured, for people: a page, and a few lines.

use cellpace_report::{Chart, ChartPage, PageTable, short};

use crate::{DelayFigures, DirectionFigures, ProbeDocument, Quantiles};

/// Returns the page of a document.
pub fn page(document: &ProbeDocument) -> ChartPage {
    let directions: Vec<(&str, &DirectionFigures)> =
        [("up", &document.up), ("down", &document.down)]
            .into_iter()
            .filter_map(|(name, direction)| Some((name, direction.as_ref()?)))
            .collect();
    ChartPage {
        title: format!("Path to {}", document.settings.target),
        version: document.version.clone(),
        facts: facts(document),
        tables: tables(&directions),
        charts: directions.iter().flat_map(|(name, direction)| charts(name, direction)).collect(),
    }
}

fn facts(document: &ProbeDocument) -> Vec<(String, String)> {
    let settings = &document.settings;
    let how = match (settings.interval_ms, settings.queue_delay_bounds_ms) {
        (Some(interval), _) => format!("every {} ms", short(interval)),
        (_, Some([from, to])) => format!("queue delay {} to {} ms", short(from), short(to)),
        _ => String::new(),
    };
    let ms = |value: Option<f64>| value.map_or("unknown".into(), |v| format!("{} ms", short(v)));
    let drift = document.clock_drift_ppm.map_or("not measured".into(), |v| format!("{v:.1} ppm"));
    [
        ("Probes", format!("{} bytes, {how}", settings.size)),
        ("Duration", format!("{} s", short(settings.duration_s))),
        ("Least RTT", ms(document.least_rtt_ms)),
        ("Clock drift", drift),
    ]
    .map(|(name, value)| (name.to_owned(), value))
    .to_vec()
}

fn words(header: &str) -> Vec<String> {
    header.split('|').map(str::to_owned).collect()
}

fn tables(directions: &[(&str, &DirectionFigures)]) -> Vec<PageTable> {
    let mut all = vec![totals(directions), delays(directions), bursts(directions)];
    for (name, direction) in directions {
        all.push(predictors(name, direction));
    }
    all
}

fn totals(directions: &[(&str, &DirectionFigures)]) -> PageTable {
    let row = |(name, d): &(&str, &DirectionFigures)| {
        let counts = [d.sent, d.arrived, d.lost, d.duplicates, d.reordered, d.skipped];
        let trace = d.trace.as_ref();
        let tail = [
            short(d.throughput_mbps),
            trace.map_or(String::new(), |trace| trace.opportunities.to_string()),
            trace.map_or(String::new(), |trace| format!("{:.2}", trace.idle_share * 100.0)),
        ];
        let counts = counts.iter().map(u64::to_string).chain(tail);
        std::iter::once((*name).to_owned()).chain(counts).collect()
    };
    PageTable {
        title: "Probes".into(),
        note: "Left out: not sent because the sender was late. Idle: share of the time in which \
               the queue may have been empty, so that opportunities may be missing."
            .into(),
        header: words("|sent|arrived|lost|twice|reordered|left out|Mbit/s|opportunities|idle %"),
        rows: directions.iter().map(row).collect(),
    }
}

fn delays(directions: &[(&str, &DirectionFigures)]) -> PageTable {
    let row = |name: String, d: &DelayFigures| {
        let s = &d.summary;
        let numbers = [d.min, s.mean, s.p50, s.p95, s.p99, s.max].map(short);
        std::iter::once(name).chain(numbers).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for (name, direction) in directions {
        rows.push(row((*name).to_owned(), &direction.delay_ms));
        if let Some(onoff) = &direction.onoff {
            rows.push(row(format!("{name}, second stream off"), &onoff.off_ms));
            rows.push(row(format!("{name}, second stream on"), &onoff.on_ms));
        }
    }
    PageTable {
        title: "One-way delay in ms".into(),
        note: "After the clocks were compared by the shortest way there and back, which are taken \
               to be alike."
            .into(),
        header: words("|min|mean|p50|p95|p99|max"),
        rows,
    }
}

fn bursts(directions: &[(&str, &DirectionFigures)]) -> PageTable {
    let row = |name: String, q: &Quantiles| {
        let numbers = [q.mean, q.p50, q.p90, q.p99, q.max].map(short);
        std::iter::once(name).chain(numbers).collect::<Vec<_>>()
    };
    let mut rows = Vec::new();
    for (name, direction) in directions {
        rows.push(row(format!("{name}, probes in a burst"), &direction.bursts.size));
        rows.push(row(format!("{name}, ms between bursts"), &direction.bursts.between_ms));
    }
    let gap = directions.first().map_or(0.0, |(_, direction)| direction.bursts.gap_ms);
    PageTable {
        title: "Bursts".into(),
        note: format!("A burst ends where the next probe arrives {} ms later or more.", short(gap)),
        header: words("|mean|p50|p90|p99|max"),
        rows,
    }
}

fn predictors(name: &str, direction: &DirectionFigures) -> PageTable {
    let mut rows = Vec::new();
    for windows in &direction.windows {
        for one in &windows.predictions {
            let what = format!("{} ms, {}, {} ahead", windows.width_ms, one.predictor, one.steps);
            let numbers = [one.nrmse, one.nmae].map(|error| format!("{:.1}", error * 100.0));
            let r2 = format!("{:.3}", one.r2);
            rows.push(std::iter::once(what).chain(numbers).chain([r2]).collect());
        }
    }
    PageTable {
        title: format!("Predicting the throughput, {name}"),
        note: "Judged on the second half of the recording. RMSE and mean absolute error over the \
               mean throughput; the share of the variance explained, 0 being no better than the \
               mean."
            .into(),
        header: words("|RMSE %|MAE %|explained"),
        rows,
    }
}

fn charts(name: &str, direction: &DirectionFigures) -> Vec<Chart> {
    let series = &direction.delay_series;
    let over_time = |bin: f64, count: usize| (0..count).map(|i| i as f64 * bin).collect();
    let mut all = vec![Chart {
        title: format!("One-way delay, {name}"),
        unit: "ms".into(),
        x_label: "time [s]".into(),
        x: over_time(series.bin_s, series.p50_ms.len()),
        lines: vec![
            ("median of 100 ms".into(), series.p50_ms.clone()),
            ("longest".into(), series.max_ms.clone()),
        ],
        ..Chart::default()
    }];
    all.extend(direction.windows.iter().map(|windows| Chart {
        title: format!("Throughput in windows of {} ms, {name}", windows.width_ms),
        unit: "Mbit/s".into(),
        x_label: "time [s]".into(),
        x: over_time(windows.width_ms as f64 / 1e3, windows.mbps.len()),
        lines: vec![("throughput".into(), windows.mbps.clone())],
        ..Chart::default()
    }));
    let sizes = direction.bursts.size_shares.iter().map(|bar| (f64::from(bar.0), bar.2));
    let between = direction.bursts.between_shares.iter().map(|bar| (bar.0, bar.2));
    all.push(histogram(&format!("Burst sizes, {name}"), "bursts", "probes in a burst", sizes));
    let title = format!("Time between bursts, {name}");
    all.push(histogram(&title, "gaps", "ms between bursts", between));
    all
}

/// Shares of `what` by size: where a bar begins, and its share.
fn histogram(
    title: &str,
    what: &str,
    x_label: &str,
    bars: impl Iterator<Item = (f64, f64)>,
) -> Chart {
    let (x, shares): (Vec<f64>, Vec<f32>) =
        bars.map(|(from, share)| (from, (share * 100.0) as f32)).unzip();
    Chart {
        title: title.to_owned(),
        unit: format!("% of the {what}"),
        x_label: x_label.to_owned(),
        x,
        lines: vec![(what.to_owned(), shares)],
        log_x: true,
        bars: true,
        ..Chart::default()
    }
}

/// Returns a line for each direction, and one for the RTT.
pub fn summary(document: &ProbeDocument) -> String {
    let mut text = String::new();
    if let Some(rtt) = document.least_rtt_ms {
        let drift =
            document.clock_drift_ppm.map_or("not measured".into(), |ppm| format!("{ppm:.1} ppm"));
        text += &format!("least RTT {} ms, clock drift {drift}\n", short(rtt));
    }
    for (name, direction) in [("up", &document.up), ("down", &document.down)] {
        let Some(direction) = direction else { continue };
        text += &summary_line(name, direction);
    }
    text
}

fn summary_line(name: &str, direction: &DirectionFigures) -> String {
    let delay = &direction.delay_ms;
    let mut text = format!(
        "{name:<4} {} of {} arrived, {} Mbit/s, one-way delay min {} p50 {} p95 {} max {} ms\n",
        direction.arrived,
        direction.sent,
        short(direction.throughput_mbps),
        short(delay.min),
        short(delay.summary.p50),
        short(delay.summary.p95),
        short(delay.summary.max),
    );
    if let Some(onoff) = &direction.onoff {
        text += &format!(
            "     second stream off: p50 {} p95 {} ms; on: p50 {} p95 {} ms\n",
            short(onoff.off_ms.summary.p50),
            short(onoff.off_ms.summary.p95),
            short(onoff.on_ms.summary.p50),
            short(onoff.on_ms.summary.p95),
        );
    }
    if let Some(trace) = &direction.trace {
        text += &format!(
            "     {} opportunities in {} s, {} Mbit/s, queue empty at most {:.2} % of the time\n",
            trace.opportunities,
            short(trace.seconds),
            short(trace.mean_mbps),
            trace.idle_share * 100.0,
        );
    }
    text
}
