//! What looks wrong with a trace.

use std::fmt;

use cellpace_base::{Rate, Span};

use super::Trace;

/// How much a finding matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Good to know when reading results.
    Note,
    /// Probably a mistake in recording or converting.
    Warning,
}

impl fmt::Display for Severity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Note => "note",
            Self::Warning => "warning",
        })
    }
}

/// What was checked, as a word for scripts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Check {
    /// A long time without an opportunity.
    Outage,
    /// The mean rate.
    Rate,
    /// The first opportunity.
    Start,
    /// Opportunities in the same millisecond.
    Burst,
    /// How long a lap is.
    Period,
    /// How fine the timestamps are.
    Resolution,
    /// Who bounds the rate.
    Sender,
}

impl Check {
    /// The word.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Outage => "outage",
            Self::Rate => "rate",
            Self::Start => "start",
            Self::Burst => "burst",
            Self::Period => "period",
            Self::Resolution => "resolution",
            Self::Sender => "sender",
        }
    }
}

/// One thing that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// How much it matters.
    pub severity: Severity,
    /// Which check found it.
    pub check: Check,
    /// Where in the trace, from its start.
    pub at: Span,
    /// A sentence for people.
    pub text: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.severity, self.text)
    }
}

/// Outages from here on are noted: a sender's retransmission timeout fires (RFC 6298 section 2.4
/// has a minimum of one second).
const OUTAGE_NOTED: u32 = 1_000;
/// Outages from here on outlast handovers and tunnels: rather the recording stopped.
const OUTAGE_WARNED: u32 = 10_000;
/// A recording starts with its first packet, so it has one early.
const LATE_START: u32 = 1_000;
const LOW_RATE: Rate = Rate::from_bps(64_000);
const HIGH_RATE: Rate = Rate::from_bps(2_000_000_000);
/// More in one millisecond (0.6 Gbit/s) is more than a radio frame of today's cells carries to
/// one phone on average, and rather a receiver that slept.
const BURST: usize = 50;
const SHORT_PERIOD: u32 = 10_000;

/// Looks for what is usually a mistake and for what one should know before trusting results.
/// Empty: nothing was found. The worst comes first.
pub fn lint(trace: &Trace) -> Vec<Finding> {
    let checks = [outage, rate, start, burst, period, resolution, sender];
    let mut findings: Vec<_> = checks.iter().filter_map(|check| check(trace)).collect();
    // A stable sort: findings of one severity stay in the order of the checks.
    findings.sort_by_key(|finding| std::cmp::Reverse(finding.severity));
    findings
}

fn finding(severity: Severity, check: Check, at: u32, text: String) -> Option<Finding> {
    Some(Finding { severity, check, at: Span::from_millis(u64::from(at)), text })
}

fn outage(trace: &Trace) -> Option<Finding> {
    // The gap in front of the first opportunity is checked by `start`.
    let gaps = trace.millis().windows(2).map(|pair| (pair[1] - pair[0], pair[0]));
    // Of several as long, the first.
    let (gap, at) = gaps.max_by_key(|(gap, at)| (*gap, std::cmp::Reverse(*at)))?;
    let severity = match gap {
        OUTAGE_WARNED.. => Severity::Warning,
        OUTAGE_NOTED.. => Severity::Note,
        _ => return None,
    };
    let text = format!("the longest outage lasts {}, from {}", millis(gap), millis(at));
    finding(severity, Check::Outage, at, text)
}

fn sender(trace: &Trace) -> Option<Finding> {
    trace.is_bounded_by_sender().then_some(())?;
    let text =
        "recorded at a constant rate: where the link could do more, this is the sender's rate";
    finding(Severity::Note, Check::Sender, 0, text.to_owned())
}

fn rate(trace: &Trace) -> Option<Finding> {
    let rate = trace.mean_rate();
    let (word, hint) = match rate {
        low if low < LOW_RATE => ("only ", "each line is one 1500-byte packet, not one byte"),
        high if high > HIGH_RATE => ("", "timestamps are milliseconds"),
        _ => return None,
    };
    let text = format!("the mean rate is {word}{:.3} Mbit/s: {hint}", rate.as_mbps());
    finding(Severity::Warning, Check::Rate, 0, text)
}

fn start(trace: &Trace) -> Option<Finding> {
    let first = trace.millis()[0];
    if first < LATE_START {
        return None;
    }
    // Timestamps of a clock that was not set to zero lie close together, far from zero.
    let clock = first > trace.period_millis() - first;
    let text = format!(
        "the first opportunity is at {}{}",
        millis(first),
        if clock {
            ", later than the rest lasts: subtract the first timestamp, times count from the \
             start of the trace"
        } else {
            ": every lap begins with that outage"
        },
    );
    finding(Severity::Warning, Check::Start, first, text)
}

fn burst(trace: &Trace) -> Option<Finding> {
    let bursts = || trace.millis().chunk_by(|a, b| a == b).filter(|burst| burst.len() > BURST);
    let longest = bursts().max_by_key(|burst| burst.len())?;
    let text = format!(
        "{} milliseconds have more than {BURST} opportunities; the most is {}, at {}",
        bursts().count(),
        longest.len(),
        millis(longest[0]),
    );
    finding(Severity::Note, Check::Burst, longest[0], text)
}

fn period(trace: &Trace) -> Option<Finding> {
    let period = trace.period_millis();
    let laps = trace.millis();
    if period < SHORT_PERIOD {
        let text = format!("the trace repeats every {}", millis(period));
        return finding(Severity::Note, Check::Period, period, text);
    }
    // The period is the last timestamp: a lone one far behind the others only marks the end.
    let last_gap = period - laps[laps.len().saturating_sub(2)];
    let mean_gap = period / u32::try_from(laps.len()).unwrap_or(u32::MAX);
    // On a slow link a gap of a second is nothing unusual.
    if last_gap < OUTAGE_NOTED || last_gap / 20 < mean_gap {
        return None;
    }
    let text = format!(
        "the last opportunity, which sets the period, comes {} after the one before it: the \
         trace may end earlier than its period",
        millis(last_gap),
    );
    finding(Severity::Note, Check::Period, period, text)
}

fn resolution(trace: &Trace) -> Option<Finding> {
    // From 0, which every number divides: the first timestamp becomes the step.
    let step = trace.millis().iter().fold(0, |step, at| greatest_divisor(step, *at));
    // Few timestamps may have a common divisor by chance.
    if step < 2 || trace.millis().len() < 100 {
        return None;
    }
    let text = format!("all timestamps are multiples of {step} ms: delays below that mean nothing");
    finding(Severity::Note, Check::Resolution, 0, text)
}

const fn greatest_divisor(mut a: u32, mut b: u32) -> u32 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn millis(ms: u32) -> String {
    if ms < 1_000 { format!("{ms} ms") } else { format!("{:.3} s", f64::from(ms) / 1e3) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(millis: impl IntoIterator<Item = u32>) -> Vec<(Check, Severity, String)> {
        let trace = Trace::from_millis(millis.into_iter().collect()).unwrap();
        lint(&trace).into_iter().map(|f| (f.check, f.severity, f.text)).collect()
    }

    fn only(millis: impl IntoIterator<Item = u32>) -> (Check, Severity, String) {
        let mut findings = found(millis);
        assert_eq!(findings.len(), 1, "{findings:?}");
        findings.remove(0)
    }

    /// Steady 12 Mbit/s for a minute.
    fn steady() -> impl Iterator<Item = u32> {
        1..=60_000
    }

    #[test]
    fn a_good_trace_has_no_findings() {
        assert_eq!(found(steady()), []);
    }

    #[test]
    fn an_outage_is_found_with_its_place() {
        let cut = |from: u32, to: u32| steady().filter(move |at| !(from + 1..to).contains(at));
        assert_eq!(found(cut(20_000, 20_900)), []);
        let (check, severity, text) = only(cut(20_000, 21_447));
        assert_eq!((check, severity), (Check::Outage, Severity::Note));
        assert_eq!(text, "the longest outage lasts 1.447 s, from 20.000 s");
        assert_eq!(only(cut(20_000, 30_000)).1, Severity::Warning);
    }

    #[test]
    fn rates_that_cannot_be_are_found() {
        let slow = only((1..=100).map(|n| n * 300 + n % 2));
        assert_eq!(slow.0, Check::Rate);
        assert!(slow.2.starts_with("the mean rate is only 0.040 Mbit/s"), "{}", slow.2);
        let fast = found(steady().take(20_000).flat_map(|at| std::iter::repeat_n(at, 200)));
        assert_eq!([fast[0].0, fast[1].0], [Check::Rate, Check::Burst]);
    }

    #[test]
    fn a_clock_that_does_not_start_at_zero_is_found() {
        let findings = found(steady().map(|at| at + 1_700_000_000));
        assert!(findings.iter().all(|finding| finding.1 == Severity::Warning));
        assert_eq!([findings[0].0, findings[1].0], [Check::Rate, Check::Start]);
        assert!(findings[1].2.contains("subtract the first timestamp"), "{findings:?}");
    }

    #[test]
    fn a_late_start_is_found() {
        let (check, _, text) = only(steady().skip(4_999));
        assert_eq!(check, Check::Start);
        assert!(text.contains("5.000 s: every lap begins"), "{text}");
        let text = only(steady().map(|at| at + 100_000)).2;
        assert!(text.contains("subtract the first timestamp"), "{text}");
    }

    #[test]
    fn bursts_are_counted() {
        let bursts = steady().flat_map(|at| {
            std::iter::repeat_n(at, if at % 20_000 == 7 { 51 + at as usize / 20_000 } else { 1 })
        });
        let text = only(bursts).2;
        assert_eq!(
            text,
            "3 milliseconds have more than 50 opportunities; the most is 53, at 40.007 s"
        );
    }

    #[test]
    fn a_short_period_and_a_lone_end_are_found() {
        assert_eq!(only(1..=5_000).0, Check::Period);
        let findings = found(steady().chain([65_000]));
        assert!(findings.iter().any(|f| f.2.contains("may end earlier")), "{findings:?}");
    }

    #[test]
    fn coarse_timestamps_are_found() {
        let text = only(steady().map(|at| at * 10)).2;
        assert!(text.contains("multiples of 10 ms"), "{text}");
    }
}
