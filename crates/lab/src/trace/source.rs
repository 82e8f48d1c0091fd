//! From the written form of a trace to its opportunities.

use std::sync::Arc;

use cellpace_base::{Span, Time};
use cellpace_path::profile::{self, LinkProfile};
use cellpace_path::radio::{Drive, RadioSpec};
use cellpace_path::schedule::{
    ENDLESS_DURATION, MAX_OPPORTUNITIES, PROFILE_PERIOD, Schedule, Trace, TraceFiles,
};
use cellpace_path::{PathError, TraceSpec};
use thiserror::Error;

use super::period::{ending_at, whole_millis};
use crate::trace_files;

/// The longest drive through a radio layer.
const MAX_DRIVE: Span = Span::from_secs(86_400);

/// Why there is no trace.
#[derive(Debug, Error)]
pub enum TraceSourceError {
    /// It does not read, or its file does not.
    #[error(transparent)]
    Path(#[from] PathError),
    /// A generated trace that is not one.
    #[error("{name}: {problem}")]
    Generated {
        /// The trace as written.
        name: String,
        /// What is wrong with it.
        problem: String,
    },
}

impl TraceSourceError {
    fn generated(name: &str, problem: impl Into<String>) -> Self {
        Self::Generated { name: name.to_owned(), problem: problem.into() }
    }
}

/// The opportunities of the trace with the written form `text`: of a file all, over and over up
/// to `duration`, of a generated one as many as there are in `duration`.
///
/// The last line of a file sets its period, so whatever is not a whole file as it is gets an
/// opportunity at its end where there is none.
///
/// # Errors
/// When the text or its file cannot be read, or it delivers nothing or too much.
pub fn load_trace(
    text: &str,
    duration: Option<Span>,
    seed: u64,
) -> Result<Arc<Trace>, TraceSourceError> {
    let text = text.trim();
    let mut files = trace_files();
    // Before it is read as a trace: a profile that repeats after 300 s is to be drawn as long as
    // asked.
    if let Some(profile) = profile(text, &mut files)? {
        return draw(text, &profile, duration.unwrap_or(PROFILE_PERIOD), seed);
    }
    let spec = TraceSpec::parse(text, &mut files)?;
    if let Some(radio) = spec.radio() {
        return Ok(Arc::clone(drive_through(text, radio, duration, seed)?.trace()));
    }
    let Some(recorded) = recorded(text, &spec, &mut files)? else {
        return play(text, &mut *spec.build(seed)?, duration.unwrap_or(ENDLESS_DURATION));
    };
    match duration {
        None => Ok(recorded),
        Some(duration) => repeat(text, &recorded, duration),
    }
}

/// The drive through the radio layer with the written form `text`: `duration` long, or as long as its
/// parameters say. `None`: the text is no radio layer's.
///
/// # Errors
/// When the text or its file cannot be read, or the drive would be longer than a trace can be.
pub fn drive(
    text: &str,
    duration: Option<Span>,
    seed: u64,
) -> Result<Option<Drive>, TraceSourceError> {
    let spec = TraceSpec::parse(text.trim(), &mut trace_files())?;
    let Some(radio) = spec.radio() else { return Ok(None) };
    drive_through(text, radio, duration, seed).map(Some)
}

fn drive_through(
    name: &str,
    radio: &RadioSpec,
    duration: Option<Span>,
    seed: u64,
) -> Result<Drive, TraceSourceError> {
    // Bounded, as a drive is drawn whole before its first opportunity.
    let length = duration.unwrap_or(radio.params().length).min(MAX_DRIVE);
    let drive = Drive::generate(radio, seed, length);
    // Against what was asked for, which may be longer than the longest drive.
    check_length(name, drive.trace(), duration.unwrap_or(length))?;
    Ok(drive)
}

/// The profile that `text` names, if it names one.
fn profile(text: &str, files: &mut TraceFiles<'_>) -> Result<Option<LinkProfile>, PathError> {
    if let Some(profile) = profile::builtin(text) {
        return Ok(Some(profile));
    }
    text.strip_prefix("profile:").map(|file| files.profile(file.trim())).transpose()
}

/// The recording behind `spec`; of a pair of traces the one that a saturating sender gets.
fn recorded(
    text: &str,
    spec: &TraceSpec,
    files: &mut TraceFiles<'_>,
) -> Result<Option<Arc<Trace>>, PathError> {
    if let Some(trace) = spec.trace() {
        return Ok(Some(Arc::clone(trace)));
    }
    let Some(parts) = text.strip_prefix("cellreplay:") else { return Ok(None) };
    let heavy = parts.split(',').find_map(|part| part.trim().strip_prefix("heavy="));
    heavy.map(|file| files.trace(file.trim())).transpose()
}

fn draw(
    name: &str,
    profile: &LinkProfile,
    duration: Span,
    seed: u64,
) -> Result<Arc<Trace>, TraceSourceError> {
    let trace = profile.generate(seed, duration);
    check_length(name, &trace, duration)?;
    Ok(Arc::new(trace))
}

/// Models end after a day, and when they have as much as anybody can want.
fn check_length(name: &str, trace: &Trace, duration: Span) -> Result<(), TraceSourceError> {
    // Steps of a radio layer are 10 ms.
    if Some(whole_period(trace).saturating_add(10)) > whole_millis(duration) {
        return Ok(());
    }
    let reached = trace.period().as_secs_f64();
    let problem = format!("at most {reached:.0} s can be generated; ask for less than that");
    Err(TraceSourceError::generated(name, problem))
}

fn whole_period(trace: &Trace) -> u32 {
    trace.millis().last().copied().unwrap_or(0)
}

/// Plays a generated trace. Times are rounded up, so that no opportunity comes before its time
/// and every whole millisecond ends with as many as it should.
fn play(
    name: &str,
    schedule: &mut dyn Schedule,
    duration: Span,
) -> Result<Arc<Trace>, TraceSourceError> {
    let end = whole_millis(duration).unwrap_or(u32::MAX);
    let mut millis = Vec::new();
    let within = |at: &Time| *at <= Time::from_millis(u64::from(end));
    while let Some(at) = schedule.peek().filter(within) {
        push(name, &mut millis, at.as_nanos().div_ceil(1_000_000) as u32)?;
        schedule.take();
    }
    if millis.is_empty() {
        let problem = format!("nothing is delivered within {duration}");
        return Err(TraceSourceError::generated(name, problem));
    }
    finish(name, millis, end)
}

/// As many laps of a recorded trace as it takes.
fn repeat(name: &str, trace: &Trace, duration: Span) -> Result<Arc<Trace>, TraceSourceError> {
    let end = whole_millis(duration).unwrap_or(u32::MAX);
    let mut millis = Vec::new();
    // At least a millisecond, as a step of zero would never get on.
    for lap in (0..end).step_by(whole_period(trace).max(1) as usize) {
        // Times end with 32 bits of milliseconds, 49 days: what would come later is left out.
        let within = trace.millis().iter().map_while(|at| lap.checked_add(*at));
        for at in within.take_while(|at| *at <= end) {
            push(name, &mut millis, at)?;
        }
    }
    if millis.is_empty() {
        let problem = format!("no opportunity within the first {duration}");
        return Err(TraceSourceError::generated(name, problem));
    }
    finish(name, millis, end)
}

fn push(name: &str, millis: &mut Vec<u32>, at: u32) -> Result<(), TraceSourceError> {
    if millis.len() >= MAX_OPPORTUNITIES {
        let problem = format!(
            "has {MAX_OPPORTUNITIES} opportunities after {} s, which is as many as a trace may \
             have; ask for a shorter --duration",
            at / 1000
        );
        return Err(TraceSourceError::generated(name, problem));
    }
    millis.push(at);
    Ok(())
}

fn finish(name: &str, millis: Vec<u32>, end: u32) -> Result<Arc<Trace>, TraceSourceError> {
    let trace = ending_at(millis, end);
    trace.map(Arc::new).map_err(|problem| TraceSourceError::generated(name, problem))
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::parse_span;

    fn millis(text: &str, duration: &str) -> Vec<u32> {
        let trace = load_trace(text, Some(parse_span(duration).unwrap()), 1).unwrap();
        trace.millis().to_vec()
    }

    #[test]
    fn times_are_rounded_up_so_that_milliseconds_end_full() {
        // 1.2 ms apart.
        assert_eq!(millis("constant:10mbit", "6ms"), [2, 3, 4, 5, 6]);
        assert_eq!(millis("constant:36mbit", "2ms"), [1, 1, 1, 2, 2, 2]);
    }

    #[test]
    fn the_period_is_what_was_asked_for() {
        assert_eq!(millis("onoff:12mbit,on=2ms,off=3ms", "10ms"), [1, 2, 6, 7, 10]);
        assert_eq!(millis("constant:12mbit", "2.9ms"), [1, 2]);
        let drawn = millis("umts-driving", "10s");
        assert_eq!(drawn.last(), Some(&10_000));
        assert_eq!(load_trace("umts-driving", None, 1).unwrap().period(), PROFILE_PERIOD);
        assert_eq!(load_trace("constant:1mbit", None, 1).unwrap().period(), ENDLESS_DURATION);
    }

    #[test]
    fn a_recording_repeats_with_its_period() {
        let trace = Trace::from_millis(vec![0, 1, 4]).unwrap();
        let laps = |ms| repeat("t", &trace, Span::from_millis(ms)).unwrap().millis().to_vec();
        assert_eq!(laps(4), [0, 1, 4], "the next lap's start is not part of this one");
        assert_eq!(laps(3), [0, 1, 3]);
        assert_eq!(laps(9), [0, 1, 4, 4, 5, 8, 8, 9]);
    }

    #[test]
    fn what_delivers_nothing_or_too_much_is_refused() {
        let said = |text: &str, duration: Span| {
            load_trace(text, Some(duration), 1).unwrap_err().to_string()
        };
        let second = Span::from_secs(1);
        assert_eq!(
            said("constant:0mbit", second),
            "constant:0mbit: nothing is delivered within 1s"
        );
        assert!(said("constant:100gbit", Span::from_secs(60)).contains("shorter --duration"));
        assert!(said("umts-driving", Span::from_secs(90_000)).contains("at most 86400 s"));
    }
}
