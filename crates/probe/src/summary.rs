//! What was measured, for people: a few lines.

use cellpace_report::short;

use crate::{DirectionFigures, ProbeDocument};

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
