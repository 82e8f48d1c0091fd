//! When the link may deliver: the sequence of 1500-byte opportunities.

mod capacity;
mod cellreplay;
mod constant;
mod files;
mod lines;
mod lint;
mod opportunities;
mod piecewise;
mod recording;
mod shifted;
mod step_file;
mod trace;

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use cellpace_base::{ParamSet, Random, Rate, Span, Time, nearest, params, split_name, words};

use crate::error::PathError;
use crate::profile::{self, LinkProfile};
use crate::radio::{self, Drive, DriveSummary, RadioSpec};
use crate::steps::{MIN_STEP, Steps};
use crate::{Delay, DelaySpec, Handover};

pub use crate::error::TraceError;
pub use capacity::{capacity_between, capacity_bins};
pub use cellreplay::{CellReplay, CellReplaySchedule, LightTrains};
pub use constant::Constant;
use files::LightRecording;
pub use files::TraceFiles;
pub use lines::LineReader;
pub use lint::{Check, Finding, Severity, lint};
pub use opportunities::Schedule;
pub use piecewise::Piecewise;
pub use recording::Recording;
use shifted::Shifted;
pub(crate) use step_file::{read_delays, read_delays_every, read_losses};
pub use trace::{MAX_OPPORTUNITIES, Replay, Trace};

/// A trace by its written form: a generated one, or else a file's name.
///
/// | form | meaning |
/// |---|---|
/// | `constant:12mbit` | one rate |
/// | `step:10mbit/5s,100mbit/5s` | rates in turn, over and over |
/// | `random:2mbit..20mbit/5s` | a rate redrawn uniformly every so often, seeded |
/// | `onoff:12mbit,on=5s,off=1s` | a rate with outages; `lengths=exp` makes `on` and `off` the means of exponential lengths, seeded |
/// | `cellreplay:heavy=FILE,light=FILE,delay=FILE` | a pair of traces with a changing base delay, see [`CellReplay`]; `light` and `delay` may be left out |
/// | `lte-driving` and the other [built-in profiles](crate::profile::NAMES) | five minutes drawn from a stochastic model, seeded |
/// | `profile:FILE` | the same from a file that [`fit`](crate::fit) made |
/// | `radio:highway-700` and the other [radio layers](crate::radio::NAMES), `radio:FILE.toml` | a drive past cells, with its handovers, seeded |
/// | anything else | a file in Mahimahi format, see [`Trace`] |
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSpec {
    text: String,
    kind: TraceKind,
    /// Where in the trace a run begins.
    start: Span,
}

#[derive(Debug, Clone, PartialEq)]
enum TraceKind {
    Constant(Rate),
    Steps(Steps<Rate>),
    Recorded(Arc<Trace>),
    LinkProfile(Arc<LinkProfile>),
    Radio(Arc<RadioSpec>),
    /// A radio layer whose draws are done.
    Drive(Arc<Drive>),
    CellReplay {
        link: Arc<CellReplay>,
        delay: Option<DelaySpec>,
    },
}

/// The forms in which a trace is written, with what they mean: for help and for documentation.
pub const TRACE_FORMS: [(&str, &str); 9] = [
    ("constant:12mbit", "one rate"),
    ("step:10mbit/5s,100mbit/5s", "rates in turn, over and over"),
    ("random:2mbit..20mbit/5s", "a rate redrawn uniformly every 5 s"),
    ("onoff:12mbit,on=5s,off=1s", "a rate with outages (lengths=exp: random)"),
    ("cellreplay:heavy=F,light=F,delay=F", "a pair of traces with a changing base delay"),
    ("profile:FILE", "a profile that `cellpace trace fit` made"),
    ("radio:FILE.toml", "a drive past cells with these parameters"),
    ("FILE", "a file in Mahimahi format, also gzipped"),
    ("-", "the same from standard input"),
];

/// The names that may stand in front of a colon.
const GENERATORS: &[&str] =
    &["constant", "step", "random", "onoff", "profile", "cellreplay", "radio"];

/// How much of a profile is drawn before it repeats.
pub const PROFILE_PERIOD: Span = Span::from_secs(300);

/// The longest run over a trace unless another length is given.
const MAX_DEFAULT_DURATION: Span = Span::from_secs(300);
/// Length of a run over a trace that has no end unless another one is given.
pub const ENDLESS_DURATION: Span = Span::from_secs(60);

/// The stream of draws for generated rates; those of the path are in `path.rs`.
const RATE_STREAM: u64 = 4;

params! {
    /// The parameters of a rate with outages.
    struct OnOffParams {
        /// How long the link works
        on: Span = "5s" in MIN_STEP..=Span::MAX, from "cellpace", logarithmic;
        /// How long it does not
        off: Span = "1s" in MIN_STEP..=Span::MAX, from "cellpace", logarithmic;
        /// Always as long, or exponentially distributed around these means
        lengths: OutageLengths = "fixed", from "cellpace";
    }
}

words! {
    /// How long outages and the times between them are.
    enum OutageLengths {
        Fixed = "fixed",
        Exponential = "exp",
    }
}

params! {
    /// The parameters of a pair of traces with a changing base delay.
    struct CellReplayParams {
        /// File with what a saturating sender gets (Mahimahi format)
        heavy: Option<String> = "", from "CellReplay, NSDI 2025";
        /// File with what short trains of packets get (Mahimahi format, or CellReplay's own)
        light: Option<String> = "", from "CellReplay, NSDI 2025";
        /// File with the base delay over time; CellReplay's own file of trains has it, too
        delay: Option<String> = "", from "CellReplay, NSDI 2025";
        /// Idle time after which the link serves a train again, and which ends a train
        gap: Span = "100ms" in MIN_STEP..=Span::from_secs(3600), from "cellpace", logarithmic;
    }
}

impl TraceSpec {
    /// Reads a written form; `files` supplies the files it names.
    ///
    /// # Errors
    /// When a generator's parameters do not read, or a file cannot be read or is no trace. A name
    /// that is no file but close to a generator's is answered with that generator.
    pub fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, PathError> {
        let text = text.trim();
        let kind = match generated(text, files) {
            // A generator's name wins over a file of that name.
            Some(kind) => kind?,
            None => TraceKind::Recorded(files.trace(text).map_err(|error| hinted(error, text))?),
        };
        Ok(Self { text: text.to_owned(), kind, start: Span::ZERO })
    }

    /// A recorded trace that is already there, called `name`.
    pub fn recorded(name: impl Into<String>, trace: Arc<Trace>) -> Self {
        Self { text: name.into(), kind: TraceKind::Recorded(trace), start: Span::ZERO }
    }

    /// The same trace, begun at `start`: what it offers up to there comes only with its next lap,
    /// where it has one. A recorded trace is then as the file cut and joined at that millisecond; a
    /// base delay that belongs to the trace begins there, too.
    #[must_use]
    pub fn starting_at(self, start: Span) -> Self {
        Self { start, ..self }
    }

    /// The recorded trace, where this is one: for its length, statistics and picture.
    pub const fn trace(&self) -> Option<&Arc<Trace>> {
        match &self.kind {
            TraceKind::Recorded(trace) => Some(trace),
            _ => None,
        }
    }

    /// The radio layer, where this is one.
    pub fn radio(&self) -> Option<&RadioSpec> {
        match &self.kind {
            TraceKind::Radio(radio) => Some(radio),
            _ => None,
        }
    }

    /// The drive, where this is a radio layer that is [drawn](Self::drawn).
    pub const fn drive(&self) -> Option<&Arc<Drive>> {
        match &self.kind {
            TraceKind::Drive(drive) => Some(drive),
            _ => None,
        }
    }

    /// Whether the trace brings handovers of its own.
    pub const fn has_handovers(&self) -> bool {
        matches!(self.kind, TraceKind::Radio(_) | TraceKind::Drive(_))
    }

    /// The handovers before `until` that a [drawn](Self::drawn) radio layer brings.
    pub fn handovers(&self, until: Time) -> Vec<Handover> {
        let Some(drive) = self.drive() else { return Vec::new() };
        let begun = Time::ZERO + self.start;
        let later = drive.handovers(until + self.start).into_iter().filter(|h| h.at >= begun);
        later
            .map(|handover| Handover { at: Time::ZERO + (handover.at - begun), ..handover })
            .collect()
    }

    /// What the radio of a [drawn](Self::drawn) radio layer was like between two times of the
    /// schedule; `None` on other traces, or where it was not drawn that far.
    pub fn radio_between(&self, from: Time, to: Time) -> Option<DriveSummary> {
        self.drive()?.summary(from + self.start, to + self.start)
    }

    /// How long the trace is before it repeats; `None` where it is generated without an end.
    pub fn period(&self) -> Option<Span> {
        match &self.kind {
            TraceKind::Recorded(trace) => Some(trace.period()),
            TraceKind::LinkProfile(_) => Some(PROFILE_PERIOD),
            TraceKind::Radio(radio) => Some(radio.params().length),
            TraceKind::Drive(drive) => Some(drive.length()),
            TraceKind::CellReplay { link, .. } => Some(link.heavy().period()),
            TraceKind::Constant(_) | TraceKind::Steps(_) => None,
        }
    }

    /// Returns the length of a run over the trace unless another one is given: the trace's, at most
    /// 300 s, or 60 s where it has no end.
    pub fn default_duration(&self) -> Span {
        self.period().map_or(ENDLESS_DURATION, |period| period.min(MAX_DEFAULT_DURATION))
    }

    /// The mean rate of the whole trace before it repeats, or of what generates it; of a radio layer over
    /// its own length, whatever length was drawn. `seed` matters to profiles and radio layers only.
    pub fn mean_rate(&self, seed: u64) -> Rate {
        match &self.kind {
            TraceKind::Constant(rate) => *rate,
            TraceKind::Steps(steps) => Rate::from_bps(steps.mean() as u64),
            TraceKind::Recorded(trace) => trace.mean_rate(),
            TraceKind::LinkProfile(profile) => profile.generate(seed, PROFILE_PERIOD).mean_rate(),
            TraceKind::Radio(radio) => {
                Drive::generate(radio, seed, radio.params().length).mean_rate()
            }
            TraceKind::Drive(drive) => drive.mean_rate(),
            TraceKind::CellReplay { link, .. } => link.heavy().mean_rate(),
        }
    }

    /// Whether it is a generated trace whose rate is always zero.
    pub fn is_silent(&self) -> bool {
        match &self.kind {
            TraceKind::Constant(rate) => rate.as_bps() == 0,
            TraceKind::Steps(steps) => steps.mean() < 1.0,
            _ => false,
        }
    }

    /// The changing base delay that belongs to the trace, on top of that of the path.
    pub const fn base_delay(&self) -> Option<&DelaySpec> {
        match &self.kind {
            TraceKind::CellReplay { delay, .. } => delay.as_ref(),
            _ => None,
        }
    }

    /// The same trace with its draws for `seed` done once, where that is much work: for those who
    /// build the schedule several times. A radio layer is drawn for at least `length`.
    #[must_use]
    pub fn drawn(&self, seed: u64, length: Span) -> Self {
        match &self.kind {
            TraceKind::LinkProfile(profile) => {
                Self::recorded(&*self.text, Arc::new(profile.generate(seed, PROFILE_PERIOD)))
                    .starting_at(self.start)
            }
            TraceKind::Radio(radio) => {
                // Past its own length a drive goes on, so that a long run does not see the same
                // cells again.
                let length = radio.params().length.max(length + self.start);
                let drive = Arc::new(Drive::generate(radio, seed, length));
                Self { kind: TraceKind::Drive(drive), ..self.clone() }
            }
            _ => self.clone(),
        }
    }

    /// The schedule from time zero. `seed` matters to generated traces only.
    ///
    /// # Errors
    /// When the trace cannot be built.
    pub fn build(&self, seed: u64) -> Result<Box<dyn Schedule>, PathError> {
        let schedule = self.build_whole(seed);
        Ok(if self.start.is_zero() { schedule } else { Shifted::boxed(schedule, self.start) })
    }

    fn build_whole(&self, seed: u64) -> Box<dyn Schedule> {
        match &self.kind {
            TraceKind::Constant(rate) => Box::new(Constant::new(*rate)),
            TraceKind::Steps(steps) => {
                Box::new(Piecewise::new(steps, &mut Random::seeded(seed, RATE_STREAM)))
            }
            TraceKind::Recorded(trace) => Box::new(Replay::new(Arc::clone(trace))),
            TraceKind::LinkProfile(profile) => {
                Box::new(Replay::new(Arc::new(profile.generate(seed, PROFILE_PERIOD))))
            }
            TraceKind::Radio(radio) => {
                let drive = Drive::generate(radio, seed, radio.params().length);
                Box::new(Replay::new(Arc::clone(drive.trace())))
            }
            TraceKind::Drive(drive) => Box::new(Replay::new(Arc::clone(drive.trace()))),
            TraceKind::CellReplay { link, .. } => Box::new(link.schedule()),
        }
    }

    /// The base delay that belongs to the trace, running from where the trace begins.
    pub(crate) fn build_base_delay(&self, random: &mut Random) -> Option<Delay> {
        Some(self.base_delay()?.build(random).starting_at(self.start))
    }
}

/// The generated trace that `text` names, if its name is a generator's.
fn generated(text: &str, files: &mut TraceFiles<'_>) -> Option<Result<TraceKind, PathError>> {
    if let Some(profile) = profile::builtin(text) {
        return Some(Ok(TraceKind::LinkProfile(Arc::new(profile))));
    }
    // Without a colon the rest is a file, even if a generator is called so.
    text.split_once(':')?;
    let split = split_name(text);
    Some(match split.name {
        "profile" => files.profile(split.rest).map(Arc::new).map(TraceKind::LinkProfile),
        "constant" => constant(split.rest),
        "step" => Steps::parse_cycle(split.rest, "rate").map(TraceKind::Steps),
        "random" => Steps::parse_random(split.rest, "rate").map(TraceKind::Steps),
        "onoff" => onoff(split.rest),
        "cellreplay" => cellreplay(split.rest, files),
        "radio" => radio_layer(split.rest, files),
        _ => return None,
    })
}

fn constant(rest: &str) -> Result<TraceKind, PathError> {
    parse_rate(rest, "constant").map(TraceKind::Constant)
}

fn onoff(rest: &str) -> Result<TraceKind, PathError> {
    let (rate, rest) = rest.split_once(',').unwrap_or((rest, ""));
    let (rate, none) = (parse_rate(rate, "onoff")?, Rate::from_bps(0));
    let OnOffParams { on, off, lengths } = OnOffParams::parse("onoff", rest)?;
    let steps = match lengths {
        OutageLengths::Exponential => Steps::switched(rate, none, on, off),
        OutageLengths::Fixed => Steps::cycle([(rate, on), (none, off)]),
    };
    steps.map(TraceKind::Steps).ok_or_else(|| PathError::Form {
        text: format!("onoff:{rest}"),
        form: "onoff:RATE,on=TIME,off=TIME with times from 1ms to some centuries",
    })
}

fn cellreplay(rest: &str, files: &mut TraceFiles<'_>) -> Result<TraceKind, PathError> {
    let params = CellReplayParams::parse("cellreplay", rest)?;
    let Some(heavy) = &params.heavy else {
        return Err(PathError::Form {
            text: format!("cellreplay:{rest}"),
            form: "cellreplay:heavy=FILE,light=FILE,delay=FILE, where heavy is needed",
        });
    };
    let heavy = files.trace(heavy)?;
    let light = params.light.as_ref().map(|name| files.light(name)).transpose()?;
    let (link, in_light) = match light {
        None => (CellReplay::saturated(heavy), None),
        Some(LightRecording::Trace(light)) => (CellReplay::new(heavy, &light, params.gap), None),
        Some(LightRecording::Trains(light)) => {
            let delays = light.delays().clone();
            (CellReplay::of_trains(heavy, light, params.gap), Some(delays))
        }
    };
    let delay = match params.delay {
        // CellReplay's own file has both.
        None => in_light,
        Some(_) if in_light.is_some() && params.delay == params.light => in_light,
        Some(name) => Some(files.delays(&name)?),
    };
    Ok(TraceKind::CellReplay { link: Arc::new(link), delay: delay.map(DelaySpec::from) })
}

/// One of the radio layers that are built in, or a file with the parameters of another.
fn radio_layer(text: &str, files: &mut TraceFiles<'_>) -> Result<TraceKind, PathError> {
    let (name, rest) = radio::split(text);
    let is_file = name.contains(['.', '/']) && !radio::is_named(name);
    let spec = if is_file {
        let bytes = files.bytes(name, radio::MAX_FILE_BYTES)?;
        RadioSpec::from_toml(name, &String::from_utf8_lossy(&bytes), rest)
    } else {
        RadioSpec::parse(text)
    };
    spec.map(Arc::new).map(TraceKind::Radio)
}

fn parse_rate(text: &str, what: &str) -> Result<Rate, PathError> {
    text.trim().parse().map_err(|source| PathError::Quantity { what: what.into(), source })
}

/// What is no file may be a misspelt generator.
fn hinted(error: PathError, text: &str) -> PathError {
    if text.parse::<Rate>().is_ok() {
        let hint = format!("; a constant rate is written `constant:{text}`");
        return PathError::Unknown { what: "trace file", name: text.to_owned(), hint };
    }
    let near = near_generator(text);
    let hint = match &near {
        Some(near) => format!(", and no such generator; did you mean `{near}`?"),
        None => format!(
            "; generated ones are {} and those that begin with {}: (see `cellpace trace list`)",
            profile::NAMES.join(", "),
            GENERATORS.join(":, ")
        ),
    };
    match error {
        PathError::NoFile { name } => PathError::Unknown { what: "trace file", name, hint },
        PathError::FileNotAllowed { name } if near.is_some() => {
            PathError::Unknown { what: "generated trace", name, hint }
        }
        error => error,
    }
}

/// The built-in profile or generator that `text` is nearly the name of.
fn near_generator(text: &str) -> Option<String> {
    if let Some(profile) = nearest(text, profile::NAMES) {
        return Some(profile.to_owned());
    }
    nearest(split_name(text).name, GENERATORS.iter().copied()).map(|near| format!("{near}:"))
}

impl Default for TraceSpec {
    fn default() -> Self {
        Self {
            text: "constant:12mbit".into(),
            kind: TraceKind::Constant(Rate::from_bps(12_000_000)),
            start: Span::ZERO,
        }
    }
}

/// Reads generated traces only; files need [`TraceSpec::parse`].
impl FromStr for TraceSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text, &mut TraceFiles::none())
    }
}

impl fmt::Display for TraceSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)?;
        if self.start.is_zero() { Ok(()) } else { write!(f, " from {}", self.start) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io;

    fn files() -> TraceFiles<'static> {
        TraceFiles::new(|name| match name {
            "drive.down" | "random" => Ok(Box::new("1\n2\n4\n".as_bytes())),
            "light" => Ok(Box::new("0\n3\n500\n".as_bytes())),
            "trains" => Ok(Box::new("0 25 0 1\n50 27 0 0\n".as_bytes())),
            "delays" => Ok(Box::new("0 20\n1000 35.5\n".as_bytes())),
            "bad" => Ok(Box::new("1\nx\n".as_bytes())),
            "rates.csv" => Ok(Box::new("time_s,mbps\n0,12\n".as_bytes())),
            _ => Err(io::ErrorKind::NotFound.into()),
        })
    }

    fn error_of(text: &str) -> String {
        TraceSpec::parse(text, &mut files()).unwrap_err().to_string()
    }

    #[test]
    fn files_and_generators_are_distinguished() {
        for text in [
            "constant:12mbit",
            "step:10mbit/5s,100mbit/5s",
            "random:2mbit..20mbit/5s",
            "onoff:12mbit,on=5s,off=1s",
            "onoff:12mbit,off=1s,lengths=exp",
            "onoff:12mbit",
            "drive.down",
            "cellreplay:heavy=drive.down,light=light,delay=delays",
            "cellreplay:heavy=drive.down",
            "cellreplay:heavy=drive.down,light=trains",
            "cellreplay:heavy=drive.down,light=trains,delay=trains",
            "cellreplay:heavy=drive.down,light=trains,delay=delays",
        ] {
            let spec = TraceSpec::parse(text, &mut files()).unwrap();
            assert_eq!(spec.to_string(), text);
            assert!(spec.build(1).unwrap().peek().is_some(), "{text}");
        }
        let mean = |text| {
            let spec = TraceSpec::parse(text, &mut files()).unwrap();
            spec.base_delay().map(DelaySpec::mean)
        };
        assert_eq!(mean("cellreplay:heavy=drive.down,light=trains"), Some(Span::from_millis(26)));
        assert_eq!(
            mean("cellreplay:heavy=drive.down,light=trains,delay=trains"),
            Some(Span::from_millis(26))
        );
        let named_like_one = TraceSpec::parse("random", &mut files()).unwrap();
        assert!(named_like_one.trace().is_some(), "without a colon it is a file");
    }

    #[test]
    fn a_misspelt_generator_is_answered_with_the_right_one() {
        assert_eq!(
            error_of("constnat:12mbit"),
            "there is no trace file `constnat:12mbit`, and no such generator; did you mean \
             `constant:`?"
        );
        assert!(error_of("city.down").contains("those that begin with constant:, step:"));
        let error = "constnat:12mbit".parse::<TraceSpec>().unwrap_err().to_string();
        assert!(error.contains("did you mean `constant:`?"), "{error}");
        let error = "city.down".parse::<TraceSpec>().unwrap_err().to_string();
        assert!(error.contains("`city.down` is a file"), "{error}");
    }

    #[test]
    fn a_bare_rate_and_a_table_get_the_form_to_write() {
        assert_eq!(
            error_of("12mbit"),
            "there is no trace file `12mbit`; a constant rate is written `constant:12mbit`"
        );
        assert_eq!(
            error_of("rates.csv"),
            "rates.csv, line 1: `time_s,mbps` is not a whole number of milliseconds; make a trace \
             of the CSV: cellpace trace convert rates.csv -o rates.down"
        );
    }

    #[test]
    fn mistakes_in_a_form_are_reported() {
        assert!(error_of("constant:12").contains("needs a unit"));
        assert!(error_of("constant:").contains("does not start with a number"));
        assert!(error_of("step:10mbit").contains("step:VALUE/TIME"));
        assert!(error_of("onoff:12mbit,of=1s").contains("did you mean `off`?"));
        assert!(error_of("onoff:12mbit,on=0s").contains("out of range"));
        assert!(error_of("cellreplay:light=light").contains("heavy is needed"));
        assert!(error_of("cellreplay:heavy=gone").contains("no file `gone`"));
        assert_eq!(error_of("bad"), "bad, line 2: `x` is not a whole number of milliseconds");
        assert!(error_of("").contains("no trace file ``"));
    }

    #[test]
    fn on_and_off_take_turns() {
        let mut schedule = "onoff:12mbit,on=2ms,off=10ms".parse::<TraceSpec>().unwrap();
        schedule.text.clear();
        let mut schedule = schedule.build(1).unwrap();
        let mut times = Vec::new();
        for _ in 0..5 {
            times.push(schedule.peek().unwrap().as_millis_f64());
            schedule.take();
        }
        assert_eq!(times, [1.0, 2.0, 13.0, 14.0, 25.0]);
    }

    #[test]
    fn the_same_seed_gives_the_same_opportunities() {
        for text in ["random:2mbit..20mbit/100ms", "onoff:12mbit,on=50ms,off=20ms,lengths=exp"] {
            let times = |seed| {
                let mut schedule = text.parse::<TraceSpec>().unwrap().build(seed).unwrap();
                let next = |_| {
                    schedule.take();
                    schedule.peek()
                };
                (0..1_000).map(next).collect::<Vec<_>>()
            };
            assert_eq!(times(1), times(1));
            assert_ne!(times(1), times(2));
        }
    }

    #[test]
    fn periods_and_base_delays_are_known() {
        let parse = |text| TraceSpec::parse(text, &mut files()).unwrap();
        assert_eq!(parse("drive.down").period(), Some(Span::from_millis(4)));
        for silent in ["constant:0mbit", "step:0mbit/1s,0bit/2s", "onoff:0bit"] {
            assert!(parse(silent).is_silent(), "{silent}");
        }
        assert!(!parse("onoff:1kbit").is_silent() && !parse("drive.down").is_silent());
        assert_eq!(parse("constant:1mbit").period(), None);
        assert!(parse("cellreplay:heavy=drive.down").base_delay().is_none());
        assert!(parse("cellreplay:heavy=drive.down,delay=delays").base_delay().is_some());
    }
}
