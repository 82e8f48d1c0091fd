//! Random loss.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{ParamError, ParamSet, Random, Span, Time, params, parse_fraction, split_name};

use crate::error::PathError;
use crate::schedule::TraceFiles;
use crate::steps::{Level, Steps, StepsWalk};

/// Random loss by its written form.
///
/// | form | meaning |
/// |---|---|
/// | `1%`, `0%` | each packet with the same probability, independently; none |
/// | `step:0%/5s,1%/5s` | that probability in turn, over and over |
/// | `random:0%..1%/5s` | that probability redrawn uniformly every so often, seeded |
/// | `ge:p=1%,r=30%,good=0%,bad=100%` | bursts, see [`BurstLoss`] |
/// | `file:NAME` | the probability of each moment from a file |
///
/// A loss file has lines `AT LOSS`, such as `1500 0.5%`: milliseconds since the start, increasing
/// whole numbers, and the probability from then on. The first holds before its time too, the last
/// as long as the one before it; then all repeats.
#[derive(Debug, Clone, PartialEq, Default)]
pub enum LossSpec {
    /// None.
    #[default]
    None,
    /// Each packet with the same probability, independently.
    Independent(f64),
    /// Independently, with a probability that changes.
    Changing(Steps<f64>),
    /// Independently, with the probabilities of a file.
    File(String, Steps<f64>),
    /// In bursts.
    Bursts(BurstLoss),
}

params! {
    /// The loss process of Gilbert (1960) as generalised by Elliott (1963): a chain of two states,
    /// good and bad, that takes one step per packet. A packet is lost with the probability of the
    /// state it finds, then the chain steps. The first packet finds a state drawn from the long run.
    ///
    /// Gilbert's own model has `good` = 0; his `h`, the probability to get through in the bad state,
    /// is 1 - `bad`. With `bad` = 1 the lengths of loss bursts are geometric with mean 1 / `r`.
    #[derive(Copy, PartialEq)]
    pub struct BurstLoss {
        /// Probability per packet to go from good to bad (Gilbert's P)
        p: f64 = "1%" in 0.0..=1.0, from "Elliott 1963", logarithmic;
        /// Probability per packet to go from bad to good (Gilbert's p)
        r: f64 = "30%" in 0.0..=1.0, from "Elliott 1963", logarithmic;
        /// Loss probability in the good state (Elliott's 1 - k)
        good: f64 = "0%" in 0.0..=1.0, from "Elliott 1963", logarithmic;
        /// Loss probability in the bad state (1 - h)
        bad: f64 = "100%" in 0.0..=1.0, from "Elliott 1963";
    }
}

impl BurstLoss {
    /// The share of packets that find the bad state: p / (p + r), the stationary distribution of
    /// the chain (Gilbert 1960).
    pub fn share_bad(self) -> f64 {
        if self.p == 0.0 { 0.0 } else { self.p / (self.p + self.r) }
    }

    /// The share of packets lost in the long run.
    pub fn mean(self) -> f64 {
        let bad = self.share_bad();
        (1.0 - bad) * self.good + bad * self.bad
    }
}

impl LossSpec {
    /// The model itself.
    pub fn build(&self, mut random: Random) -> LossModel {
        let process = match self {
            Self::None => Process::None,
            Self::Independent(p) => Process::Independent(*p),
            Self::Changing(steps) | Self::File(_, steps) => {
                Process::Changing(steps.walk(&mut random))
            }
            Self::Bursts(bursts) => {
                // Drawn from the long run, so that a short run has the same expected loss as a long
                // one.
                Process::Bursts { bursts: *bursts, bad: random.unit() < bursts.share_bad() }
            }
        };
        LossModel { process, random }
    }

    /// The share of packets lost in the long run, if they come evenly.
    pub fn mean(&self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Independent(p) => *p,
            Self::Changing(steps) | Self::File(_, steps) => steps.mean(),
            Self::Bursts(bursts) => bursts.mean(),
        }
    }

    /// The share of the packets of the first `length` that are lost, if they come evenly; that in the long run
    /// where probabilities are drawn.
    pub fn mean_until(&self, length: Span) -> f64 {
        match self {
            Self::Changing(steps) | Self::File(_, steps) => steps.mean_until(length),
            _ => self.mean(),
        }
    }

    /// How its probability changes, if it does.
    pub const fn steps(&self) -> Option<&Steps<f64>> {
        match self {
            Self::Changing(steps) | Self::File(_, steps) => Some(steps),
            Self::None | Self::Independent(_) | Self::Bursts(_) => None,
        }
    }

    /// The same, begun at `start` if it comes from a file.
    pub(crate) fn starting_at(self, start: Span) -> Self {
        match self {
            Self::File(file, steps) => Self::File(file, steps.starting_at(start)),
            other => other,
        }
    }

    /// Reads a written form; `files` supplies the file it may name.
    ///
    /// # Errors
    /// When a value or the form does not read, or the file cannot be had or is no table of losses.
    pub fn parse(text: &str, files: &mut TraceFiles<'_>) -> Result<Self, PathError> {
        let text = text.trim();
        match text.strip_prefix("file:") {
            Some(name) => Ok(Self::File(name.to_owned(), files.losses(name)?)),
            None => Self::parse_model(text),
        }
    }

    fn parse_model(text: &str) -> Result<Self, PathError> {
        let split = split_name(text);
        if split.name == "ge" {
            return Self::parse_bursts(split.rest);
        }
        let steps = Steps::parse(text, "loss")?;
        Ok(match steps.as_constant() {
            Some(p) if p <= 0.0 => Self::None,
            Some(p) => Self::Independent(p),
            None => Self::Changing(steps),
        })
    }

    fn parse_bursts(rest: &str) -> Result<Self, PathError> {
        // Before the parser, which would take a bare 1 for a probability of 100 %.
        check_percent(rest)?;
        let bursts = BurstLoss::parse("ge", rest)?;
        // Such a chain ends in the bad state for ever.
        if bursts.r == 0.0 && bursts.p > 0.0 {
            return Err(PathError::Param(ParamError::OutOfRange {
                owner: "ge".into(),
                key: "r".into(),
                value: "0".into(),
                range: "above 0, or the bad state would never end".into(),
            }));
        }
        Ok(Self::Bursts(bursts))
    }
}

/// Refuses plain numbers among the parameters of bursts, which are all probabilities.
fn check_percent(rest: &str) -> Result<(), PathError> {
    for (key, value) in rest.split(',').filter_map(|part| part.split_once('=')) {
        if value.trim().parse::<f64>().is_ok() {
            let what = format!("ge: {}", key.trim());
            parse_fraction(value).map_err(|source| PathError::Quantity { what, source })?;
        }
    }
    Ok(())
}

/// Reads all forms but `file:`, which needs [`LossSpec::parse`].
impl FromStr for LossSpec {
    type Err = PathError;

    fn from_str(text: &str) -> Result<Self, PathError> {
        Self::parse(text, &mut TraceFiles::none())
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0%"),
            Self::Independent(p) => f.write_str(&p.written()),
            Self::Changing(steps) => steps.fmt(f),
            Self::File(name, _) => write!(f, "file:{name}"),
            Self::Bursts(BurstLoss { p, r, good, bad }) => {
                let [p, r, good, bad] = [p, r, good, bad].map(|share| share.written());
                write!(f, "ge:p={p},r={r},good={good},bad={bad}")
            }
        }
    }
}

/// A running loss process.
#[derive(Debug, Clone)]
pub struct LossModel {
    process: Process,
    random: Random,
}

#[derive(Debug, Clone)]
enum Process {
    None,
    Independent(f64),
    Changing(StepsWalk<f64>),
    Bursts { bursts: BurstLoss, bad: bool },
}

impl LossModel {
    /// Whether the next packet, which comes at `now`, is lost.
    #[inline]
    pub fn loses(&mut self, now: Time) -> bool {
        match &mut self.process {
            Process::None => false,
            Process::Independent(p) => self.random.unit() < *p,
            Process::Changing(walk) => self.random.unit() < walk.at(now),
            Process::Bursts { bursts, bad } => {
                let (loss, turn) =
                    if *bad { (bursts.bad, bursts.r) } else { (bursts.good, bursts.p) };
                // Two draws for each packet even where one is certain, so that `good` and `bad` do
                // not shift the course of the chain.
                let lost = self.random.unit() < loss;
                *bad ^= self.random.unit() < turn;
                lost
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;

    fn model(text: &str, seed: u64) -> LossModel {
        text.parse::<LossSpec>().unwrap().build(Random::seeded(seed, 2))
    }

    /// The fates of packets that come every millisecond.
    fn losses(text: &str, seed: u64, packets: u64) -> Vec<bool> {
        let mut model = model(text, seed);
        (0..packets).map(|n| model.loses(Time::from_millis(n))).collect()
    }

    fn share(losses: &[bool]) -> f64 {
        losses.iter().filter(|lost| **lost).count() as f64 / losses.len() as f64
    }

    #[test]
    fn long_run_loss_of_gilbert_elliott_equals_the_formula() {
        for text in [
            "ge:p=1%,r=30%,good=0%,bad=100%",
            "ge:p=0.5%,r=10%,good=0.1%,bad=40%",
            "ge:p=20%,r=5%,good=1%,bad=50%",
            "ge:p=0%,r=0%,good=2%",
        ] {
            let expected = text.parse::<LossSpec>().unwrap().mean();
            let seen = share(&losses(text, 1, 2_000_000));
            assert!((seen / expected - 1.0).abs() < 0.03, "{text}: {seen} for {expected}");
        }
        // 0.01 / 0.31, worked by hand.
        let mean = "ge:p=1%,r=30%,good=0%,bad=100%".parse::<LossSpec>().unwrap().mean();
        assert!((mean - 0.032_258).abs() < 1e-6);
    }

    #[test]
    fn bursts_of_gilbert_have_the_mean_length_one_over_r() {
        let losses = losses("ge:p=1%,r=25%", 3, 1_000_000);
        let bursts = losses.chunk_by(|a, b| a == b).filter(|burst| burst[0]);
        let lengths: Vec<_> = bursts.map(<[bool]>::len).collect();
        let mean = lengths.iter().sum::<usize>() as f64 / lengths.len() as f64;
        assert!((mean - 4.0).abs() < 0.1, "{mean}");
    }

    #[test]
    fn steps_of_loss_change_at_their_times() {
        let lost = losses("step:0%/5s,100%/5s", 1, 20_000);
        for (second, part) in lost.chunks(5_000).enumerate() {
            assert_eq!(share(part), (second % 2) as f64);
        }
    }

    #[test]
    fn random_loss_rates_are_redrawn() {
        let seen = share(&losses("random:0%..10%/50ms", 1, 2_000_000));
        assert!((seen - 0.05).abs() < 0.002, "{seen}");
        let whole = Span::from_secs(5);
        assert_eq!(
            "random:0%..1%/5s".parse(),
            Ok(LossSpec::Changing(Steps::random(0.0, 0.01, whole).unwrap()))
        );
    }

    #[test]
    fn the_same_seed_loses_the_same_packets() {
        for text in ["5%", "random:0%..10%/50ms", "ge:p=5%"] {
            assert_eq!(losses(text, 1, 1_000), losses(text, 1, 1_000));
            assert_ne!(losses(text, 1, 1_000), losses(text, 2, 1_000));
        }
    }

    #[test]
    fn forms_are_read_and_written() {
        for text in [
            "0%",
            "1%",
            "7%",
            "0.123%",
            "step:0%/5s,1%/5s",
            "random:0%..1%/5s",
            "ge:p=1%,r=30%,good=0%,bad=100%",
        ] {
            assert_eq!(text.parse::<LossSpec>().unwrap().to_string(), text);
        }
        assert_eq!("0%".parse(), Ok(LossSpec::None));
        assert_eq!("ge:".parse::<LossSpec>(), "ge:p=1%,r=30%,good=0%,bad=100%".parse());
    }

    #[test]
    fn wrong_forms_are_refused() {
        for (text, part) in [
            ("", "does not start with a number"),
            ("x", "does not start with a number"),
            ("101%", "out of range"),
            ("0.05", "`0.05` needs a unit; write 5%"),
            ("ge:p=0.02", "ge: p: `0.02` needs a unit; write 2%"),
            ("ge:p=200%", "out of range"),
            ("ge:q=1%", "no parameter `q`"),
            ("step:1%", "step:VALUE/TIME"),
            ("random:1%..0%/5s", "LOW up to HIGH"),
            ("file:x", "`x` is a file"),
        ] {
            let message = text.parse::<LossSpec>().unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
        let message = "ge:r=0%".parse::<LossSpec>().unwrap_err().to_string();
        assert!(message.contains("never end"), "{message}");
    }
    #[test]
    fn a_loss_file_is_read() {
        let mut files =
            TraceFiles::new(|_| Ok(Box::new("0 0%\n1000,100%\r\n2000\t50%\n".as_bytes())));
        let spec = LossSpec::parse("file:losses", &mut files).unwrap();
        assert_eq!((spec.to_string().as_str(), spec.mean()), ("file:losses", 0.5));
        let mut model = spec.build(Random::seeded(1, 2));
        let lost: Vec<bool> = (0..6_000).map(|n| model.loses(Time::from_millis(n))).collect();
        let seconds: Vec<f64> = lost.chunks(1_000).map(share).collect();
        assert_eq!((seconds[0], seconds[1], seconds[3], seconds[4]), (0.0, 1.0, 0.0, 1.0));
        assert!((seconds[2] - 0.5).abs() < 0.06 && seconds[5] > 0.4, "{seconds:?}");
    }

    #[test]
    fn bad_loss_files_are_refused_with_their_line() {
        for (text, part) in [
            ("", "empty"),
            ("0 1%\n5\n", "d, line 2: a line needs milliseconds since the start, and a loss"),
            ("0 0.05\n", "d, line 1: `0.05` needs a unit; write 5%"),
            ("0 1%\n0 2%\n", "line 2: time 0 does not come after"),
            ("0 101%\n", "line 1: `101%` is out of range"),
            ("0 nan%\n", "line 1: `nan%` does not start with a number"),
        ] {
            let mut files = TraceFiles::new(|_| Ok(Box::new(text.as_bytes())));
            let message = LossSpec::parse("file:d", &mut files).unwrap_err().to_string();
            assert!(message.contains(part), "{text:?}: {message}");
        }
    }
}
