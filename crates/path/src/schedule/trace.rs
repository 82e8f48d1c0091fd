//! Traces in the format of Mahimahi, and the schedule that plays one.

use std::io::{self, BufRead, Write};
use std::sync::Arc;

use cellpace_base::{Rate, Span, Time};

use super::Schedule;
use super::lines::{LineReader, MAX_LINE_BYTES};
use crate::OPPORTUNITY_BYTES;
use crate::error::TraceError;

/// The most opportunities a trace may have: ten hours at 16 Mbit/s, 200 MB of memory.
pub const MAX_OPPORTUNITIES: usize = 50_000_000;

/// Recorded or generated delivery opportunities: the file format of Mahimahi.
///
/// One decimal integer per line, milliseconds since the start, not decreasing; each line is one
/// opportunity to deliver up to 1500 bytes. The trace starts again when it ends; its period is
/// the last timestamp. Share one between runs as `Arc<Trace>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trace {
    millis: Vec<u32>,
    /// Recorded at a constant rate, so that the link may have offered more.
    sender_bound: bool,
}

/// The comment in the file of a trace whose rate is bounded by the sender that recorded it.
const SENDER_BOUND: &str = "# recorded at a constant rate: bounded by the sender, not by the link";

impl Trace {
    /// A trace of these opportunities, in milliseconds since the start.
    ///
    /// # Errors
    /// When there are none or too many, they decrease, or the last is at 0.
    pub fn from_millis(millis: Vec<u32>) -> Result<Self, TraceError> {
        if millis.len() > MAX_OPPORTUNITIES {
            return Err(TraceError::TooLong { name: "trace".into(), limit: MAX_OPPORTUNITIES });
        }
        if let Some(before) = millis.windows(2).position(|pair| pair[1] < pair[0]) {
            let problem = decreases(millis[before], millis[before + 1]);
            return Err(TraceError::line("trace", before as u64 + 2, problem));
        }
        Self::complete("trace", millis)
    }

    /// Reads a trace; `name` is what errors call it, usually the file's.
    ///
    /// Accepted beside the plain format: CRLF, blanks around a number, no newline at the end,
    /// empty lines at the end, comments (lines that begin with #, which other programs do not
    /// know). An empty line in the middle is an error: it is what a cut or glued file looks like.
    ///
    /// # Errors
    /// With the line, when one is not a whole number from 0 to 4294967295 or smaller than the
    /// one before; when there is nothing, all is at 0, or there are more than
    /// [`MAX_OPPORTUNITIES`].
    pub fn read(name: &str, reader: impl BufRead) -> Result<Self, TraceError> {
        Self::read_up_to(name, reader, MAX_OPPORTUNITIES)
    }

    fn read_up_to(name: &str, reader: impl BufRead, limit: usize) -> Result<Self, TraceError> {
        let mut millis = Vec::new();
        let mut last = 0;
        let mut sender_bound = false;
        LineReader::new(name).read(reader, |line, text| {
            if text.first() == Some(&b'#') {
                // The one comment that means something: the file says how it was recorded.
                sender_bound |= text == SENDER_BOUND.as_bytes();
                return Ok(());
            }
            let at = parse_millis(text).map_err(|problem| TraceError::line(name, line, problem))?;
            if at < last {
                return Err(TraceError::line(name, line, decreases(last, at)));
            }
            // Before the push, so that a file without an end is refused and not held.
            if millis.len() == limit {
                return Err(TraceError::TooLong { name: name.to_owned(), limit });
            }
            last = at;
            millis.push(at);
            Ok(())
        })?;
        Ok(Self { sender_bound, ..Self::complete(name, millis)? })
    }

    /// The same trace, recorded at a constant rate: where the link could have delivered more, it
    /// has the sender's rate. Its file says so.
    #[must_use]
    pub fn bounded_by_sender(self) -> Self {
        Self { sender_bound: true, ..self }
    }

    /// Whether it was recorded at a constant rate.
    pub const fn is_bounded_by_sender(&self) -> bool {
        self.sender_bound
    }

    fn complete(name: &str, millis: Vec<u32>) -> Result<Self, TraceError> {
        match millis.last() {
            None => Err(TraceError::Empty { name: name.to_owned() }),
            Some(0) => Err(TraceError::NoPeriod { name: name.to_owned() }),
            Some(_) => Ok(Self { millis, sender_bound: false }),
        }
    }

    /// Writes the trace, one opportunity per line.
    ///
    /// # Errors
    /// When the writer fails.
    pub fn write(&self, writer: impl Write) -> io::Result<()> {
        let mut writer = io::BufWriter::new(writer);
        if self.sender_bound {
            writeln!(writer, "{SENDER_BOUND}")?;
        }
        for at in &self.millis {
            writeln!(writer, "{at}")?;
        }
        writer.flush()
    }

    /// The opportunities in milliseconds since the start, not decreasing, at least one.
    pub fn millis(&self) -> &[u32] {
        &self.millis
    }

    /// The time after which the trace repeats: the last timestamp, at least 1 ms.
    pub fn period(&self) -> Span {
        Span::from_millis(u64::from(self.period_millis()))
    }

    /// All bytes of a period over the period.
    pub fn mean_rate(&self) -> Rate {
        let bits = self.millis.len() as u128 * u128::from(OPPORTUNITY_BYTES) * 8;
        // In 128 bits: a long trace of a fast link passes 64.
        let bps = bits * 1_000 / u128::from(self.period_millis());
        Rate::from_bps(u64::try_from(bps).unwrap_or(u64::MAX))
    }

    pub(super) fn period_millis(&self) -> u32 {
        self.millis.last().copied().unwrap_or(1)
    }
}

fn decreases(before: u32, after: u32) -> String {
    format!("{after} comes after {before}, but times must not decrease")
}

/// Reads one line by hand: it is what most of the time of loading a trace goes into.
pub(crate) fn parse_millis(text: &[u8]) -> Result<u32, String> {
    let mut value = 0_u64;
    for byte in text {
        // Wraps for bytes below `0`, so that one comparison finds all that are no digits.
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return Err(not_a_number(text));
        }
        value = value * 10 + u64::from(digit);
        if value > u64::from(u32::MAX) {
            // It counts as a number that is too large only if all of it is digits.
            return Err(if text.iter().all(u8::is_ascii_digit) {
                format!("{} is more than {} ms", String::from_utf8_lossy(text), u32::MAX)
            } else {
                not_a_number(text)
            });
        }
    }
    Ok(value as u32)
}

fn not_a_number(text: &[u8]) -> String {
    let shown = String::from_utf8_lossy(text);
    let hint = if text.first() == Some(&b'-') { ", and times are not negative" } else { "" };
    format!("`{}` is not a whole number of milliseconds{hint}", shown.escape_debug())
}

const _: () = assert!(MAX_LINE_BYTES < 1 << 12, "an error shows a whole line");

/// Plays a trace over and over.
#[derive(Debug, Clone)]
pub struct Replay {
    trace: Arc<Trace>,
    /// The next opportunity of this lap.
    index: usize,
    /// When this lap began, in milliseconds since the start.
    lap: u64,
}

impl Replay {
    /// The trace from its beginning at time zero.
    pub const fn new(trace: Arc<Trace>) -> Self {
        Self { trace, index: 0, lap: 0 }
    }

    fn start_lap(&mut self, lap: u64) {
        self.lap = lap;
        self.index = 0;
    }
}

impl Schedule for Replay {
    fn peek(&self) -> Option<Time> {
        let at = self.lap.saturating_add(u64::from(self.trace.millis[self.index]));
        // Past the end of time there are no opportunities.
        at.checked_mul(1_000_000).map(Time::from_nanos)
    }

    fn take(&mut self) {
        self.index += 1;
        if self.index == self.trace.millis.len() {
            self.start_lap(self.lap.saturating_add(u64::from(self.trace.period_millis())));
        }
    }

    fn skip_through(&mut self, now: Time) {
        const NEAR: usize = 8;
        let now_millis = now.as_nanos() / 1_000_000;
        // This lap has not begun yet.
        if now_millis < self.lap {
            return;
        }
        let period = u64::from(self.trace.period_millis());
        // The end of a lap is an opportunity of that lap and the start of the next.
        let laps = (now_millis - self.lap) / period;
        if laps > 0 {
            // Whole laps at once: a link may be idle for hours.
            self.start_lap(self.lap + laps * period);
        }
        let within = now_millis - self.lap;
        let left = &self.trace.millis[self.index..];
        let passed = |at: &u32| u64::from(*at) <= within;
        // The usual gap between two packets passes over none or a few opportunities.
        self.index += match left.iter().take(NEAR).position(|at| !passed(at)) {
            Some(few) => few,
            None => left.partition_point(passed),
        };
        if self.index == self.trace.millis.len() {
            self.start_lap(self.lap.saturating_add(period));
            self.skip_through(now);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Result<Trace, TraceError> {
        Trace::read("t", text.as_bytes())
    }

    fn millis(text: &str) -> Vec<u32> {
        read(text).unwrap().millis().to_vec()
    }

    fn error_of(text: &str) -> String {
        read(text).unwrap_err().to_string()
    }

    #[test]
    fn what_people_have_is_read() {
        assert_eq!(millis("0\n1\n1\n5\n"), [0, 1, 1, 5]);
        assert_eq!(millis("1\r\n2\r\n"), [1, 2], "CRLF");
        assert_eq!(millis("1\n2"), [1, 2], "no newline at the end");
        assert_eq!(millis("1 \n 2\t\n"), [1, 2], "blanks around the number");
        assert_eq!(millis("1\n2\n\n \r\n\n"), [1, 2], "empty lines at the end");
        assert_eq!(millis("007\n4294967295\n"), [7, u32::MAX]);
        assert_eq!(millis("5"), [5], "one line is a period and a rate");
    }

    #[test]
    fn g14_a_file_says_that_its_rate_is_bounded_by_the_sender() {
        let trace = read("1\n2\n").unwrap().bounded_by_sender();
        let mut file = Vec::new();
        trace.write(&mut file).unwrap();
        let text = String::from_utf8(file).unwrap();
        assert!(text.starts_with("# recorded at a constant rate") && text.ends_with("\n1\n2\n"));
        assert_eq!(read(&text).unwrap(), trace);
        assert!(!read("# anything else\n1\n# and here\n2\n").unwrap().is_bounded_by_sender());
        assert_eq!(
            error_of("# one\n2\nx\n"),
            "t, line 3: `x` is not a whole number of milliseconds"
        );
    }

    #[test]
    fn each_bad_input_is_named_with_its_line() {
        assert_eq!(error_of(""), "t: empty; a trace needs at least one line");
        assert_eq!(error_of("\n\n"), "t: empty; a trace needs at least one line");
        assert!(error_of("0\n0\n").contains("needs a last timestamp above 0"));
        assert_eq!(
            error_of("1\n5\n3\n"),
            "t, line 3: 3 comes after 5, but times must not decrease"
        );
        assert!(error_of("1\n-5\n").starts_with("t, line 2: `-5` is not a whole number"));
        assert!(error_of("1\n-5\n").ends_with("times are not negative"));
        assert!(error_of("1\nabc\n").starts_with("t, line 2: `abc` is not a whole number"));
        assert!(error_of("1.5\n").contains("line 1: `1.5`"));
        assert!(error_of("1 2\n").contains("line 1: `1 2`"), "two numbers on a line");
        assert!(error_of("+1\n").contains("line 1"));
        assert!(
            error_of("1\n4294967296\n").contains("line 2: 4294967296 is more than 4294967295 ms")
        );
        assert!(error_of("99999999999999999999999\n").contains("is more than"));
        assert!(error_of("99999999999999999999999x\n").contains("not a whole number"));
        assert_eq!(error_of("1\n\n2\n"), "t, line 2: empty line in the middle");
        assert_eq!(error_of("1\n\n\r\n2\n"), "t, line 2: empty line in the middle");
        assert!(error_of("\n1\n").contains("line 1: empty line"));
        assert!(error_of("1\u{0}\n").contains("line 1: `1\\0`"));
        let long = format!("1\n{}\n", "1".repeat(MAX_LINE_BYTES + 1));
        assert_eq!(error_of(&long), "t, line 2: longer than 256 bytes");
        assert!(error_of(&"1".repeat(1 << 20)).contains("line 1: longer"), "without any newline");
    }

    #[test]
    fn a_trace_that_is_too_long_is_refused_with_the_limit() {
        let message = Trace::read_up_to("t", "1\n2\n3\n".as_bytes(), 2).unwrap_err().to_string();
        assert_eq!(message, "t: more than 2 lines; cut it into shorter traces");
        assert!(Trace::read_up_to("t", "1\n2\n\n".as_bytes(), 2).is_ok());
    }

    #[test]
    fn numbers_across_buffer_ends_are_whole() {
        let text = "10\n11\r\n12\n  13\n14";
        for capacity in 1..20 {
            let reader = io::BufReader::with_capacity(capacity, text.as_bytes());
            assert_eq!(Trace::read("t", reader).unwrap().millis(), [10, 11, 12, 13, 14]);
        }
    }

    #[test]
    fn a_failing_reader_is_an_error() {
        struct Broken;
        impl io::Read for Broken {
            fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
                Err(io::Error::other("cable cut"))
            }
        }
        let error = Trace::read("t", io::BufReader::new(Broken)).unwrap_err();
        assert_eq!(error.to_string(), "t: cable cut");
    }

    #[test]
    fn generated_traces_are_checked_too() {
        assert!(matches!(Trace::from_millis(vec![]), Err(TraceError::Empty { .. })));
        assert!(matches!(Trace::from_millis(vec![0]), Err(TraceError::NoPeriod { .. })));
        let error = Trace::from_millis(vec![1, 3, 2]).unwrap_err().to_string();
        assert_eq!(error, "trace, line 3: 2 comes after 3, but times must not decrease");
    }

    #[test]
    fn period_and_mean_rate() {
        let trace = Trace::from_millis(vec![0, 1, 2, 2, 4]).unwrap();
        assert_eq!(trace.period(), Span::from_millis(4));
        assert_eq!(trace.mean_rate(), Rate::from_bps(15_000_000));
    }

    fn taken(schedule: &mut dyn Schedule, count: usize) -> Vec<u64> {
        let next = |_| {
            let at = schedule.peek().unwrap().as_nanos() / 1_000_000;
            schedule.take();
            at
        };
        (0..count).map(next).collect()
    }

    fn replay(millis: &[u32]) -> Replay {
        Replay::new(Arc::new(Trace::from_millis(millis.to_vec()).unwrap()))
    }

    #[test]
    fn a_trace_loops_after_its_last_timestamp() {
        assert_eq!(taken(&mut replay(&[0, 3, 3, 7]), 9), [0, 3, 3, 7, 7, 10, 10, 14, 14]);
    }

    #[test]
    fn skipping_far_lands_in_the_right_lap() {
        // A billion laps of 7 ms, then 3.999 ms: 1 and 3 are gone.
        let laps = 7_000_000_000;
        let mut replay = replay(&[1, 3, 7]);
        replay.skip_through(Time::from_micros(laps * 1_000 + 3_999));
        assert_eq!(taken(&mut replay, 3), [laps + 7, laps + 8, laps + 10]);
    }

    #[test]
    fn nothing_lies_past_the_end_of_time() {
        let mut replay = replay(&[1, 3, 7]);
        replay.skip_through(Time::MAX);
        assert_eq!(replay.peek(), None);
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(mut millis in prop::collection::vec(0_u32..100_000, 1..200)) {
            millis.sort_unstable();
            millis.push(100_000);
            let trace = Trace::from_millis(millis).unwrap();
            let mut text = Vec::new();
            trace.write(&mut text).unwrap();
            prop_assert_eq!(Trace::read("t", text.as_slice()).unwrap(), trace);
        }

        #[test]
        fn skipping_is_taking_all_that_passed(
            mut millis in prop::collection::vec(0_u32..50, 1..30),
            skips in prop::collection::vec(0_u64..40_000, 1..20),
        ) {
            millis.sort_unstable();
            millis.push(50);
            let (mut skipping, mut taking) = (replay(&millis), replay(&millis));
            let mut now = Time::ZERO;
            for skip in skips {
                now += Span::from_micros(skip);
                skipping.skip_through(now);
                while taking.peek().unwrap() <= now {
                    taking.take();
                }
                prop_assert_eq!(skipping.peek(), taking.peek());
            }
        }
    }
}
