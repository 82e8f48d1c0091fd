//! The delay in front of the queue.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Random, Span, Time, parse_span};

use crate::error::PathError;
use crate::schedule::TraceFiles;
use crate::steps::{MIN_STEP, Steps, StepsWalk};

/// A delay by its written form: `40ms`, `step:10ms/5s,100ms/5s`, `random:10ms..100ms/5s` (redrawn
/// uniformly every so often, seeded), or `file:NAME`.
///
/// A delay file has lines of two numbers, `AT DELAY`: milliseconds since the start, increasing
/// whole numbers, and the delay in milliseconds from then on, which may have decimals. The first
/// delay holds before its time too, the last as long as the one before it; then all repeats. With
/// `file:NAME,every=10ms` a line is one delay, and lines are so far apart. `oneway` behind that
/// doubles all: for an RTT from a file of one-way delays.
///
/// Packets that enter later never arrive earlier: when the delay falls, those behind wait for
/// those in front, as in the one queue of a radio link. So a fall shows only once the packets
/// sent before it have arrived.
#[derive(Debug, Clone, PartialEq)]
pub struct DelaySpec {
    steps: Steps<Span>,
    /// The file, for showing.
    file: Option<String>,
}

impl DelaySpec {
    /// The same delay for every packet.
    pub const fn constant(delay: Span) -> Self {
        Self { steps: Steps::constant(delay), file: None }
    }

    /// Reads a written form; `files` supplies the file it may name.
    ///
    /// # Errors
    /// When a value or the form does not read, or the file cannot be read or is no table of
    /// delays.
    pub fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, PathError> {
        match text.trim().strip_prefix("file:") {
            Some(written) => {
                let file = DelayFile::parse(written)?;
                let steps = match file.every {
                    Some(every) => files.delays_every(file.name, every)?,
                    None => files.delays(file.name)?,
                };
                let steps = if file.is_one_way { steps.map(|delay| delay * 2) } else { steps };
                Ok(Self { steps, file: Some(written.to_owned()) })
            }
            None => Ok(Steps::parse(text, "delay")?.into()),
        }
    }

    /// The delays of the file `name`, which has more than delays.
    pub(crate) fn recorded(name: &str, steps: Steps<Span>) -> Self {
        Self { steps, file: Some(name.to_owned()) }
    }

    /// The same, begun at `start`, if it comes from a file; what is drawn or written is no recording to
    /// begin within.
    pub(crate) fn of_file_starting_at(&self, start: Span) -> Option<Self> {
        let file = self.file.clone()?;
        Some(Self { steps: self.steps.starting_at(start), file: Some(file) })
    }

    /// Half of it at every moment: for an RTT of which both directions of a path take half. Two
    /// paths of the same seed draw the same delays at the same times.
    #[must_use]
    pub fn half(&self) -> Self {
        self.steps.map(|delay| delay / 2).into()
    }

    /// The delay, if it never changes.
    pub fn as_constant(&self) -> Option<Span> {
        self.steps.as_constant()
    }

    /// How it changes.
    pub const fn steps(&self) -> &Steps<Span> {
        &self.steps
    }

    /// The mean over time.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.steps.mean() as u64)
    }

    /// The running delay from time zero.
    pub fn build(&self, random: &mut Random) -> Delay {
        Delay { walk: self.steps.walk(random), latest: Time::ZERO, start: Span::ZERO }
    }
}

/// A delay file as it is named.
struct DelayFile<'a> {
    name: &'a str,
    every: Option<Span>,
    is_one_way: bool,
}

impl<'a> DelayFile<'a> {
    fn parse(written: &'a str) -> Result<Self, PathError> {
        let mut file = Self { name: written, every: None, is_one_way: false };
        while let Some((name, last)) = file.name.rsplit_once(',') {
            if last == "oneway" {
                file.is_one_way = true;
            } else if let Some(every) = last.strip_prefix("every=") {
                let every = parse_span(every).map_err(PathError::Value)?;
                file.every = Some(every).filter(|every| *every >= MIN_STEP);
                file.every.ok_or_else(|| PathError::Form {
                    text: format!("file:{written}"),
                    form: "file:NAME,every=TIME with a time from 1ms",
                })?;
            } else {
                break;
            }
            file.name = name;
        }
        Ok(file)
    }
}

impl Default for DelaySpec {
    /// None at all.
    fn default() -> Self {
        Self::constant(Span::ZERO)
    }
}

impl From<Span> for DelaySpec {
    fn from(delay: Span) -> Self {
        Self::constant(delay)
    }
}

impl From<Steps<Span>> for DelaySpec {
    fn from(steps: Steps<Span>) -> Self {
        Self { steps, file: None }
    }
}

/// Reads all forms but `file:`, which needs [`DelaySpec::parse`].
impl FromStr for DelaySpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text, &mut TraceFiles::none())
    }
}

impl fmt::Display for DelaySpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.file {
            Some(name) => write!(f, "file:{name}"),
            None => self.steps.fmt(f),
        }
    }
}

/// A running delay.
#[derive(Debug, Clone)]
pub struct Delay {
    walk: StepsWalk<Span>,
    /// The latest arrival given so far.
    latest: Time,
    /// Where in its course it is at time zero.
    start: Span,
}

impl Delay {
    /// When a packet arrives that enters at `now`: after the delay of that moment, but not before
    /// a packet that entered earlier.
    #[inline]
    pub fn arrival(&mut self, now: Time) -> Time {
        let step = self.walk.step();
        // A delay that never changes cannot put packets out of order: nothing is to be remembered.
        if step.end == Time::MAX && step.start == Time::ZERO && self.latest == Time::ZERO {
            return now + step.value;
        }
        // Not before an earlier packet: a radio link is one queue (see the docs of `DelaySpec`).
        self.latest = self.latest.max(now + self.walk.at(now + self.start));
        self.latest
    }

    /// The same delay, begun at `start`.
    pub(crate) fn starting_at(self, start: Span) -> Self {
        Self { start, ..self }
    }

    /// Is the delay of `other` for all packets that enter from now on; none of them arrives before
    /// `latest`.
    pub(crate) fn become_other(&mut self, other: Self, latest: Time) {
        // The other delay has its own course from time zero, but not its own past arrivals.
        *self = Self { latest: self.latest.max(latest), ..other };
    }

    /// Is `delay` for all packets that enter from now on; none of them arrives before `latest`.
    pub(crate) fn become_constant(&mut self, delay: Span, latest: Time) {
        // A constant draws nothing.
        let walk = Steps::constant(delay).walk(&mut Random::seeded(0, 0));
        self.become_other(Self { walk, latest: Time::ZERO, start: Span::ZERO }, latest);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schedule::{TraceError, read_delays};
    use proptest::prelude::*;

    fn delay(text: &str) -> Delay {
        text.parse::<DelaySpec>().unwrap().build(&mut Random::seeded(1, 3))
    }

    fn read(text: &str) -> Result<Steps<Span>, TraceError> {
        read_delays("d", text.as_bytes())
    }

    #[test]
    fn a_falling_delay_does_not_let_packets_overtake() {
        let mut delay = delay("step:100ms/5s,10ms/5s");
        assert_eq!(delay.arrival(Time::from_millis(4_990)), Time::from_millis(5_090));
        assert_eq!(delay.arrival(Time::from_millis(5_010)), Time::from_millis(5_090));
        assert_eq!(delay.arrival(Time::from_millis(5_080)), Time::from_millis(5_090));
        assert_eq!(delay.arrival(Time::from_millis(5_081)), Time::from_millis(5_091));
    }

    #[test]
    fn both_halves_of_an_rtt_change_together() {
        let rtt: DelaySpec = "random:10ms..100ms/5s".parse().unwrap();
        let (mut whole, mut there, mut back) = (
            rtt.build(&mut Random::seeded(7, 3)),
            rtt.half().build(&mut Random::seeded(7, 3)),
            rtt.half().build(&mut Random::seeded(7, 3)),
        );
        for second in (0..500).step_by(5) {
            let now = Time::from_secs(second);
            let (rtt, one) = (whole.arrival(now) - now, there.arrival(now) - now);
            assert_eq!(one, back.arrival(now) - now);
            assert!((rtt - one * 2) + (one * 2 - rtt) <= Span::from_nanos(2), "{rtt:?} {one:?}");
        }
    }

    #[test]
    fn forms_are_read_and_written() {
        for text in ["40ms", "step:10ms/5s,100ms/5s", "random:10ms..100ms/5s", "0s"] {
            assert_eq!(text.parse::<DelaySpec>().unwrap().to_string(), text);
        }
        assert_eq!("40ms".parse::<DelaySpec>().unwrap().half().to_string(), "20ms");
        assert_eq!("40ms".parse(), Ok(DelaySpec::constant(Span::from_millis(40))));
        assert!("40".parse::<DelaySpec>().unwrap_err().to_string().contains("needs a unit"));
        assert!("file:x".parse::<DelaySpec>().is_err());
        assert_eq!(
            "step:10ms/5s,100ms/5s".parse::<DelaySpec>().unwrap().mean(),
            Span::from_millis(55)
        );
    }

    #[test]
    fn a_delay_file_is_read() {
        let mut files =
            TraceFiles::new(|_| Ok(Box::new("100 20\n1000\t35.5\n1500,10\r\n".as_bytes())));
        let spec = DelaySpec::parse("file:base", &mut files).unwrap();
        assert_eq!(spec.to_string(), "file:base");
        let mut walk = spec.steps.walk(&mut Random::seeded(1, 1));
        let at = |walk: &mut StepsWalk<Span>, ms| walk.at(Time::from_millis(ms)).as_millis_f64();
        assert_eq!(at(&mut walk, 0), 20.0, "the first holds from the start");
        assert_eq!(at(&mut walk, 999), 20.0);
        assert_eq!(at(&mut walk, 1_000), 35.5);
        assert_eq!(at(&mut walk, 1_999), 10.0, "the last holds as long as the one before");
        assert_eq!(at(&mut walk, 2_000), 20.0, "and then all repeats");
        assert_eq!(read("0 5\n").unwrap(), Steps::constant(Span::from_millis(5)));
    }

    #[test]
    fn a_file_of_delays_alone_is_read() {
        let mut files = TraceFiles::new(|_| Ok(Box::new("12\n12.5\n16\n".as_bytes())));
        let mut parse = |text: &str| DelaySpec::parse(text, &mut files);
        let spec = parse("file:leo,every=10ms").unwrap();
        assert_eq!(spec.to_string(), "file:leo,every=10ms");
        let steps = |text| Steps::<Span>::parse(text, "delay").unwrap();
        assert_eq!(spec.steps, steps("step:12ms/10ms,12.5ms/10ms,16ms/10ms"));
        let twice = parse("file:leo,every=10ms,oneway").unwrap();
        assert_eq!(twice.steps, steps("step:24ms/10ms,25ms/10ms,32ms/10ms"));
        let error = parse("file:leo").unwrap_err().to_string();
        assert!(error.contains("line 1: a line needs two numbers"), "{error}");
        assert!(error.contains("file:NAME,every=10ms"), "{error}");
        assert!(parse("file:leo,every=0ms").unwrap_err().to_string().contains("from 1ms"));
        let mut pairs = TraceFiles::new(|_| Ok(Box::new("0 5\n".as_bytes())));
        let error = DelaySpec::parse("file:pairs,every=10ms", &mut pairs).unwrap_err();
        assert!(error.to_string().contains("line 1: a line needs one number"), "{error}");
    }

    #[test]
    fn bad_delay_files_are_refused_with_their_line() {
        for (text, part) in [
            ("", "empty"),
            ("5\n", "line 1: a line needs two numbers"),
            ("0 5\n0 6\n", "line 2: time 0 does not come after"),
            ("0 5\n1 -6\n", "line 2: the delay -6 is not between"),
            ("0 5\n1 nan\n", "line 2: the delay nan"),
            ("0 5\n1 1e99\n", "line 2: the delay 1e99"),
            ("0 5\n1 x\n", "line 2: a line needs"),
            ("x 5\n", "line 1: `x` is not a whole number"),
            ("0 5 6\n", "line 1: a line needs"),
        ] {
            let message = read(text).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
        assert!(read_delays("d", [b'0', b' ', 0xff].as_slice()).is_err());
    }

    proptest! {
        #[test]
        fn arrivals_never_reorder(
            seed: u64,
            gaps in prop::collection::vec(0_u64..30_000, 1..200),
        ) {
            let spec: DelaySpec = "random:0ms..300ms/20ms".parse().unwrap();
            let mut delay = spec.build(&mut Random::seeded(seed, 3));
            let (mut now, mut last) = (Time::ZERO, Time::ZERO);
            for gap in gaps {
                now += Span::from_micros(gap);
                let arrival = delay.arrival(now);
                prop_assert!(arrival >= last && arrival >= now);
                last = arrival;
            }
        }
    }
}
