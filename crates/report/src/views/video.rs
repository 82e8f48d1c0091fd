//! The videos of a comparison: late frames, freezes, delays; and of those that players fetch: rates, stalls.

use cellpace_base::statistics::mean;
use cellpace_measure::{FlowFigures, PlayerFigures, VideoFigures};

use crate::Comparison;
use crate::groups::{Group, groups};
use crate::number::short;
use crate::section::{Chart, Line, PageTable, Section};

/// A figure: name, unit, value.
type Figure<T> = (&'static str, &'static str, fn(&T) -> f64);

/// Of frames. The first are drawn.
const FRAMES: [Figure<VideoFigures>; 10] = [
    ("late frames", "%", |video| 100.0 * video.late),
    ("frame delay, 95 %", "ms", |video| delay(video, video.frame_delay_ms.p95)),
    ("freezes", "a run", |video| video.freezes as f64),
    ("rate of frames", "Mbit/s", |video| video.bitrate_mbps),
    ("frame delay, median", "ms", |video| delay(video, video.frame_delay_ms.p50)),
    ("frame delay, 99 %", "ms", |video| delay(video, video.frame_delay_ms.p99)),
    ("later than 100 ms", "%", |video| 100.0 * video.late_100ms),
    ("later than 200 ms", "%", |video| 100.0 * video.late_200ms),
    ("frozen", "s", |video| video.frozen_s),
    ("frames incomplete", "a run", |video| video.incomplete as f64),
];

/// Of players. The first are drawn.
const PLAYERS: [Figure<PlayerFigures>; 6] = [
    ("rate of the video", "Mbit/s", |player| player.bitrate_mbps),
    ("stalled", "s", |player| player.stalled_s),
    ("stalls", "a run", |player| player.stalls as f64),
    ("changes of the rate", "a run", |player| player.switches as f64),
    ("time to the first picture", "s", |player| player.startup_s.unwrap_or(f64::NAN)),
    ("chunks", "a run", |player| player.chunks as f64),
];
const DRAWN: usize = 4;

/// None where no frame is complete: a delay of 0 would be the best.
fn delay(video: &VideoFigures, ms: f64) -> f64 {
    if video.incomplete < video.frames { ms } else { f64::NAN }
}

/// What became of the frames; `None` where there is no video.
pub(crate) fn answer(comparison: &Comparison) -> Option<Section> {
    section(comparison, "Video", "Frames", &FRAMES, |flow| flow.video.as_ref())
}

/// What viewers saw; `None` where there is no player.
pub(crate) fn players(comparison: &Comparison) -> Option<Section> {
    section(comparison, "Video by a player", "Players", &PLAYERS, |flow| flow.player.as_ref())
}

/// Charts and a table of the figures that `of` finds of a flow.
fn section<T>(
    comparison: &Comparison,
    title: &str,
    table: &str,
    figures: &[Figure<T>],
    of: fn(&FlowFigures) -> Option<&T>,
) -> Option<Section> {
    let groups = groups(comparison);
    let rows: Vec<(String, Vec<f64>)> =
        groups.iter().flat_map(|group| rows(group, groups.len() > 1, figures, of)).collect();
    if rows.is_empty() {
        return None;
    }
    let chart = |(at, (name, unit, _)): (usize, &Figure<T>)| Chart {
        title: name[..1].to_uppercase() + &name[1..],
        unit: (*unit).to_owned(),
        lines: vec![Line {
            name: (*name).to_owned(),
            x: (0..rows.len()).map(|place| place as f64).collect(),
            y: rows.iter().map(|(_, values)| values[at] as f32).collect(),
            ..Line::default()
        }],
        names: rows.iter().map(|(name, _)| name.clone()).collect(),
        ..Chart::default()
    };
    let row = |(name, values): &(String, Vec<f64>)| {
        [name.clone()].into_iter().chain(values.iter().map(|value| short(*value))).collect()
    };
    let names = figures.iter().map(|(name, unit, _)| format!("{name}, {unit}"));
    Some(Section {
        title: title.to_owned(),
        charts: figures.iter().enumerate().take(DRAWN).map(chart).collect(),
        tables: vec![PageTable {
            title: table.to_owned(),
            note: "Means over the videos and seeds of each controller.".to_owned(),
            header: ["controller".to_owned()].into_iter().chain(names).collect(),
            rows: rows.iter().map(row).collect(),
            ..PageTable::default()
        }],
        ..Section::default()
    })
}

/// The means of each controller that has videos.
fn rows<T>(
    group: &Group<'_>,
    names_trace: bool,
    figures: &[Figure<T>],
    of: fn(&FlowFigures) -> Option<&T>,
) -> Vec<(String, Vec<f64>)> {
    let flows = group.runs.iter().flat_map(|run| {
        run.figures.per_flow.iter().map(|flow| {
            (if flow.cc.is_empty() { run.cc.as_str() } else { flow.cc.as_str() }, of(flow))
        })
    });
    let mut of_cc: Vec<(&str, Vec<&T>)> = Vec::new();
    for (cc, video) in flows.filter_map(|(cc, video)| Some((cc, video?))) {
        match of_cc.iter_mut().find(|(known, _)| *known == cc) {
            Some((_, videos)) => videos.push(video),
            None => of_cc.push((cc, vec![video])),
        }
    }
    let row = |(cc, videos): (&str, Vec<&T>)| {
        let name = if names_trace { format!("{cc} on {}", group.name) } else { cc.to_owned() };
        let of = |(_, _, value): &Figure<T>| mean(videos.iter().map(|video| value(video)));
        (name, figures.iter().map(of).collect())
    };
    of_cc.into_iter().map(row).collect()
}
