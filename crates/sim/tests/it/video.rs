//! Interactive video: SCReAM v2 on the links of its specification (12 Mbit/s, 40 ms, a buffer of 300 kB),
//! and other controllers under the same video. The figures there come from an independent simulation,
//! whose random numbers are others.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use crate::common::{bulk, outcome, secs};
use cellpace_base::{ParamSet, Time};
use cellpace_measure::VideoFigures;
use cellpace_path::schedule::TraceFiles;
use cellpace_sim::{FlowSpec, FlowTraffic, Scenario, VideoSpec};

fn video(cc: &str, source: &str) -> FlowSpec {
    let spec = VideoSpec::parse("video", source).unwrap();
    FlowSpec { traffic: FlowTraffic::Video(spec), ..bulk(cc) }
}

fn scenario(flows: Vec<FlowSpec>, from: u64, to: u64) -> Scenario {
    Scenario {
        flows,
        // Frames of the last 200 ms do not count.
        duration: secs(to) + cellpace_base::Span::from_millis(200),
        skip: secs(from),
        ..Scenario::default()
    }
    .with_link(|link| {
        link.down.trace = Some("constant:12mbit".parse().unwrap());
        link.down.queue = "droptail:300kB".parse().unwrap();
    })
}

fn figures(scenario: &Scenario) -> Vec<VideoFigures> {
    let figures = outcome(scenario).figures;
    figures.per_flow.into_iter().filter_map(|flow| flow.video).collect()
}

fn alone(cc: &str, source: &str, from: u64, to: u64) -> VideoFigures {
    figures(&scenario(vec![video(cc, source)], from, to))[0]
}

/// 12 Mbit/s, from 20 s on a fifth of it, from 40 s on 12 again.
fn stepped(cc: &str, source: &str, from: u64, to: u64) -> VideoFigures {
    let trace = "step:12mbit/20s,2400kbit/20s,12mbit/100s".parse().unwrap();
    figures(
        &scenario(vec![video(cc, source)], from, to)
            .with_link(|link| link.down.trace = Some(trace)),
    )[0]
}

#[track_caller]
fn within(seen: f64, range: std::ops::RangeInclusive<f64>) {
    assert!(range.contains(&seen), "{seen} is not in {range:?}");
}

#[test]
fn scream_section_11_the_first_seconds() {
    let (first, next) = (alone("scream", "", 0, 2), alone("scream", "", 2, 5));
    within(first.bitrate_mbps, 5.3..=8.0);
    within(next.bitrate_mbps, 10.0..=12.0);
    assert!(first.frame_delay_ms.p95 < 75.0 && next.frame_delay_ms.p95 < 115.0);
    assert_eq!((first.late, next.late), (0.0, 0.0));
}

#[test]
fn scream_section_11_steady() {
    let steady = alone("scream", "", 20, 59);
    within(steady.bitrate_mbps, 0.9 * 12.0..=12.0);
    assert!(steady.frame_delay_ms.p95 <= 100.0, "{steady:?}");
    assert_eq!((steady.late, steady.freezes, steady.incomplete), (0.0, 0, 0));
    let unstable = alone("scream:stable=false", "", 20, 59);
    assert!(unstable.frame_delay_ms.p95 > steady.frame_delay_ms.p95, "{unstable:?}");
    assert!(unstable.rate_change_mbps_per_s > steady.rate_change_mbps_per_s, "{unstable:?}");
}

#[test]
fn scream_section_11_a_capped_source() {
    let capped = alone("scream:max_rate=4mbit", "max=4mbit", 20, 59);
    within(capped.bitrate_mbps, 3.85..=4.1);
    assert!(capped.frame_delay_ms.p99 <= 45.0, "{capped:?}");
}

#[test]
fn scream_section_11_key_frames_cost_delay() {
    let keys = alone("scream", "gop=60,key=3", 20, 59);
    within(keys.bitrate_mbps, 10.0..=11.6);
    within(keys.frame_delay_ms.p95, 90.0..=140.0);
    assert!(keys.late < 0.02, "{keys:?}");
}

#[test]
fn scream_section_11_random_loss() {
    for (loss, mbps, incomplete) in [
        ("0.1%", 8.0..=11.0, 0.01..=0.04),
        ("1%", 2.8..=4.2, 0.07..=0.13),
        ("5%", 1.1..=1.8, 0.15..=0.26),
    ] {
        let lossy = scenario(vec![video("scream", "")], 20, 59);
        let seen = figures(&lossy.with_link(|link| link.down.loss = loss.parse().unwrap()))[0];
        within(seen.bitrate_mbps, mbps);
        within(seen.incomplete as f64 / seen.frames as f64, incomplete);
        assert!(seen.frame_delay_ms.p95 < 75.0, "{seen:?}");
    }
}

/// Marks keep the queue at the step; the source cannot fill the gaps that an empty queue leaves.
/// Not with a step of 1 ms, one packet's time: the specification says what we see there.
#[test]
fn scream_section_11_l4s() {
    for (step_ms, mbps, p95_ms) in [(2, 8.4, 51.0), (5, 9.2, 54.0)] {
        let over = scenario(vec![video("scream:ecn=l4s", "")], 20, 59);
        let queue = format!("dualpi2:step={step_ms}ms,floor=0").parse().unwrap();
        let figures = outcome(&over.with_link(|link| link.down.queue = queue)).figures;
        let (seen, queue) = (figures.per_flow[0].video.unwrap(), figures.queue_delay_ms);
        println!("{step_ms} ms: {seen:?}, {queue:?}");
        assert!((seen.bitrate_mbps / mbps - 1.0).abs() < 0.1, "{step_ms} ms: {seen:?}");
        assert!(seen.frame_delay_ms.p95 < 1.2 * p95_ms && seen.late == 0.0, "{step_ms}: {seen:?}");
    }
}

#[test]
fn scream_section_11_classic_marks_replace_losses() {
    let over = scenario(vec![video("scream:ecn=classic,target=400ms", "")], 20, 59);
    let queue = "codel:ecn=true".parse().unwrap();
    let seen = outcome(&over.with_link(|link| link.down.queue = queue));
    assert_eq!(seen.figures.per_flow[0].video.unwrap().incomplete, 0);
    assert!(seen.figures.utilization > 0.5, "{}", seen.figures.utilization);
}

#[test]
fn scream_section_11_two_flows() {
    let second = FlowSpec { start: Time::from_secs(5), ..video("scream", "") };
    let two = figures(&scenario(vec![video("scream", ""), second], 60, 120));
    let (a, b) = (two[0].bitrate_mbps, two[1].bitrate_mbps);
    assert!((a / b).max(b / a) < 1.6, "{a} {b}");
    within(a + b, 10.8..=12.0);
    assert!(two.iter().all(|flow| flow.frame_delay_ms.p95 < 100.0 && flow.late == 0.0));
}

/// A flow that fills the buffer leaves it little, as it leaves any flow that looks at delay.
#[test]
fn scream_section_11_beside_cubic() {
    let flows = vec![video("scream", ""), bulk("cubic")];
    let seen = figures(&scenario(flows, 40, 79))[0];
    within(seen.bitrate_mbps, 0.05..=0.6);
    assert!(seen.late > 0.9, "{seen:?}");
}

#[test]
fn scream_section_11_a_fall_and_a_rise() {
    let (first, then) = (stepped("scream", "", 20, 21), stepped("scream", "", 23, 26));
    assert!(first.late > 0.9, "{first:?}");
    assert!(then.frame_delay_ms.p95 < 150.0, "{then:?}");
    let settled = stepped("scream", "", 26, 40);
    within(settled.bitrate_mbps, 2.0..=2.4);
    assert!(settled.frame_delay_ms.p99 < 110.0 && settled.late == 0.0, "{settled:?}");
    within(stepped("scream", "", 40, 45).bitrate_mbps, 5.5..=9.0);
    within(stepped("scream", "", 45, 50).bitrate_mbps, 0.9 * 12.0..=12.0);
}

#[test]
fn scream_section_11_discarding_an_old_queue_shortens_the_fall() {
    let kept = stepped("scream", "", 21, 23);
    let (fall, then) =
        (stepped("scream", "discard=100ms", 20, 21), stepped("scream", "discard=100ms", 21, 23));
    assert!(fall.discarded > 5 && kept.discarded == 0, "{fall:?}");
    assert!(
        then.frame_delay_ms.p95 < 120.0 && kept.frame_delay_ms.p95 > 400.0,
        "{then:?} {kept:?}"
    );
}

/// Every controller carries a video; those that fill the buffer make its frames late.
#[test]
fn any_controller_carries_a_video() {
    for info in cellpace_cc::registry() {
        let seen = alone(info.name, "", 20, 59);
        assert!(seen.bitrate_mbps > 1.0, "{}: {seen:?}", info.name);
    }
    for (cc, late) in
        [("cubic", 0.7..=1.0), ("bic", 0.7..=1.0), ("copa", 0.0..=0.05), ("vegas", 0.0..=0.05)]
    {
        within(alone(cc, "", 20, 59).late, late);
    }
    // After a fall of the rate a window that only a loss reduces is full of old frames.
    let (cubic, scream) = (stepped("cubic", "", 26, 40), stepped("scream", "", 26, 40));
    assert!(cubic.frame_delay_ms.p50 > 5.0 * scream.frame_delay_ms.p50, "{cubic:?}");
}

#[test]
fn frames_of_a_fixed_rate_take_what_the_path_takes() {
    // Frames of 10 kB: seven packets of a millisecond each, at 12 Mbit/s.
    let seen = alone("fixed:cwnd=100pkts", "rate=2400kbit,spread=0", 2, 20);
    assert_eq!((seen.bitrate_mbps, seen.incomplete, seen.late), (2.4, 0, 0.0));
    within(seen.frame_delay_ms.p50, 26.5..=28.5);
    assert_eq!(seen.rate_change_mbps_per_s, 0.0);
}

#[test]
fn a_video_is_never_sent_twice() {
    let lossy = scenario(vec![video("cubic", "rate=4mbit")], 0, 20);
    let outcome = outcome(&lossy.with_link(|link| link.down.loss = "2%".parse().unwrap()));
    assert_eq!(outcome.retransmissions, 0);
    assert!(outcome.figures.per_flow[0].video.unwrap().incomplete > 50);
}

#[test]
fn a_video_goes_over_handovers_cells_and_links_in_series() {
    for toml in [
        "trace='constant:12mbit'\nduration='20s'\n[[flow]]\ncc='scream'\nvideo={}\n\
         [[handover]]\nat='10s'\nlength='300ms'\n",
        "trace='constant:12mbit'\nduration='20s'\n[cell]\n[[user]]\nname='a'\n\
         [[flow]]\nuser='a'\ncc='scream'\nvideo={fps=25,max='2mbit'}\n",
        "duration='20s'\n[path.core]\ntrace='constant:50mbit'\nrtt='20ms'\n[path.radio]\n\
         trace='constant:12mbit'\n[[flow]]\ncc='scream'\nvideo={fps=60}\n",
    ] {
        let mut files = TraceFiles::none();
        let scenario = Scenario::from_toml("s.toml", toml, &mut files).unwrap();
        let seen = figures(&scenario);
        assert!(seen.len() == 1 && seen[0].frames > 300 && seen[0].late < 0.2, "{toml}: {seen:?}");
    }
}

#[test]
fn what_does_not_go_with_a_video_is_refused() {
    for (flow, part) in [
        ("video={fps=0}", "video: `video`: fps=0 is out of range"),
        ("video={frames=30}", "video: `video` has no parameter `frames`"),
        ("video={discard=100}", "needs a unit"),
        ("video={min='2mbit',max='1mbit'}", "min=2mbit is above max=1mbit"),
        ("video={gop=1}", "gop=1 makes every frame a key frame"),
        ("video={}\nonoff={}", "either `onoff`, `transfer` or `video`"),
        ("video=30", "video: write a table, such as video = { fps = 30 }"),
    ] {
        let toml = format!("trace='constant:12mbit'\n[[flow]]\ncc='scream'\n{flow}\n");
        let mut files = TraceFiles::none();
        let why = Scenario::from_toml("s.toml", &toml, &mut files).unwrap_err().to_string();
        assert!(why.starts_with("s.toml:") && why.contains(part), "{flow}: {why}");
    }
}

/// RFC 8867's cases under GCC, and with SCReAM in its place: Mbit/s of each video, late frames of all of them and
/// p95 of the queue delay, coarse. `INSTA_UPDATE=always` takes over new figures.
#[test]
fn cases_of_rfc_8867() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/scenarios");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let is_case = |path: &PathBuf| path.to_str().is_some_and(|path| path.contains("/rfc8867-"));
    let mut files: Vec<_> = entries.filter(is_case).collect();
    files.sort();
    let mut text = String::new();
    for file in &files {
        let name = file.file_stem().unwrap().to_str().unwrap();
        for cc in ["gcc", "scream"] {
            let toml =
                std::fs::read_to_string(file).unwrap().replace("\"gcc:", &format!("\"{cc}:"));
            let scenario = Scenario::from_toml(name, &toml, &mut TraceFiles::none()).unwrap();
            let seen = outcome(&scenario).figures;
            let videos: Vec<_> = seen.per_flow.iter().filter_map(|flow| flow.video).collect();
            let rates = videos.iter().map(|video| format!("{:.1}", video.bitrate_mbps));
            let late = videos.iter().map(|video| video.late).sum::<f64>() / videos.len() as f64;
            let coarse = |value: f64, step: f64| (value / step).round() * step;
            writeln!(
                text,
                "{name} {cc}: {}, late {} %, p95 {} ms",
                rates.collect::<Vec<_>>().join(" + "),
                coarse(100.0 * late, 5.0),
                coarse(seen.queue_delay_ms.p95, 20.0),
            )
            .unwrap();
        }
    }
    insta::assert_snapshot!(text.trim_end());
}

/// 5.1 of RFC 8867: the rate follows the path within seconds, down and up, and the queue is short in between.
#[test]
fn gcc_follows_the_path() {
    let at = |from: u64, to: u64| {
        let toml =
            include_str!("../../../../examples/scenarios/rfc8867-5.1-variable-capacity.toml");
        let case = Scenario::from_toml("5.1", toml, &mut TraceFiles::none()).unwrap();
        let duration = secs(to) + cellpace_base::Span::from_millis(200);
        let case = Scenario { duration, skip: secs(from), ..case };
        figures(&case)[0]
    };
    let (steady, risen) = (at(5, 40), at(50, 60));
    within(steady.bitrate_mbps, 0.8..=0.98);
    within(steady.frame_delay_ms.p95, 60.0..=150.0);
    within(risen.bitrate_mbps, 1.3..=1.55);
    // At first the buffer is full of what the path no longer carries.
    within(at(60, 64).late, 0.8..=1.0);
    let fallen = at(67, 80);
    within(fallen.bitrate_mbps, 0.48..=0.6);
    within(fallen.late, 0.0..=0.5);
}

/// What GCC is known for: beside Cubic in a deep buffer hardly anything is left to it.
#[test]
fn gcc_section_8_starves_beside_cubic_in_a_deep_buffer() {
    let two = scenario(vec![video("gcc", ""), bulk("cubic")], 20, 59);
    let deep = two.with_link(|link| link.down.queue = "droptail:2MB".parse().unwrap());
    within(figures(&deep)[0].bitrate_mbps, 0.05..=0.08 * 12.0);
}

/// An interruption that nobody announces cuts the rate, which takes long to come back.
#[test]
fn gcc_section_8_a_handover_cuts_the_rate_for_long() {
    let rate = |handover: &str| {
        let toml = format!(
            "trace='constant:12mbit'\nduration='58s'\nskip='55s'\n[[flow]]\n\
             cc='gcc'\nvideo={{}}\n{handover}"
        );
        figures(&Scenario::from_toml("s", &toml, &mut TraceFiles::none()).unwrap())[0].bitrate_mbps
    };
    let without = rate("");
    within(without, 10.0..=12.0);
    // Five seconds after it.
    let after = rate("[[handover]]\nat='50s'\nlength='300ms'\nsignal=false\n");
    within(after, 0.3 * without..=0.6 * without);
}
