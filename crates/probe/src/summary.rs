//! What was measured, for people: a few lines.

use cellpace_report::short;

use crate::{DirectionFigures, EcnFigures, ProbeDocument};

/// Returns a line for each direction, or more, and one for the RTT.
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
    if let Some(ecn) = &direction.ecn {
        text += &ecn_line(direction.sent, ecn);
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

fn ecn_line(sent: u64, ecn: &EcnFigures) -> String {
    let (name, kept, changed) = match ecn.sent_as {
        "ect0" => ("ECT(0)", ecn.ect0, ecn.ect1),
        _ => ("ECT(1)", ecn.ect1, ecn.ect0),
    };
    format!(
        "     ECN: {sent} probes as {name}: {kept} arrived so, {} marked CE, {} lost the codepoint \
         (bleached), {changed} changed\n",
        ecn.ce, ecn.not_ect
    )
}
