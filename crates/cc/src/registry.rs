//! The list of controllers and the way from `verus:r=2,epoch=5ms` to a running one.

use std::fmt;
use std::str::FromStr;

use cellpace_base::{Args, ArgsError, Param, nearest, split_name};
use thiserror::Error;

use crate::{Controller, Receiver, Setup};

/// Why a controller string was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// Nobody has that name.
    #[error("there is no controller `{name}`{hint}")]
    UnknownName {
        /// The name as written.
        name: String,
        /// The nearest name, or all, as a half sentence.
        hint: String,
    },
    /// A parameter is unknown, does not read or is out of range.
    #[error(transparent)]
    Args(#[from] ArgsError),
    /// Each parameter is fine, but not together.
    #[error("`{owner}`: {reason}")]
    Conflict {
        /// The controller's name.
        owner: &'static str,
        /// What does not go together.
        reason: String,
    },
}

/// The largest file that a controller's parameter may name, in bytes.
pub const MAX_FILE_BYTES: u64 = 256 << 20;

/// Reads a file that a parameter names: its bytes, at most [`MAX_FILE_BYTES`], or why not in
/// words that name the file.
pub type ReadFile<'a> = dyn FnMut(&str) -> Result<Vec<u8>, String> + 'a;

/// Makes something of the files that parameters name and keeps it with the values.
pub type Load = fn(&mut Args, &mut ReadFile<'_>) -> Result<(), String>;

/// The receiver's half of an algorithm.
pub struct ReceiverInfo {
    /// Builds it.
    pub build: fn(&Args, Setup) -> Box<dyn Receiver>,
    /// What building it for a peer costs, or why it is not built for one.
    pub peer_cost: fn(&Args) -> Result<PeerCost, String>,
}

/// What it costs to build a receiver half that a peer has asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PeerCost {
    /// Nothing that a peer could order again and again: its tables exist, or are computed once in
    /// the life of a process.
    Shared,
    /// New tables: some ten milliseconds and a few megabytes. Whoever listens to strangers should
    /// limit how often it computes them.
    Tables,
}

/// One entry of the registry.
pub struct ControllerInfo {
    /// The name in front of the colon.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its parameters.
    pub params: &'static [Param],
    /// Refuses values that are fine alone and wrong together.
    pub check: fn(&Args) -> Result<(), String>,
    /// Loads the files it needs, for algorithms that need any.
    pub load: Option<Load>,
    /// Builds the sender's half.
    pub build: fn(&Args, Setup) -> Box<dyn Controller>,
    /// Builds the receiver's half, for algorithms that have one.
    pub receiver: Option<ReceiverInfo>,
}

/// All controllers, in the order in which they are shown.
pub fn registry() -> &'static [ControllerInfo] {
    static REGISTRY: &[ControllerInfo] = &[
        crate::verus::INFO,
        crate::copa::INFO,
        crate::sprout::INFO,
        crate::bbr::INFO,
        crate::window::cubic::INFO,
        crate::window::newreno::INFO,
        crate::window::bic::INFO,
        crate::window::vegas::INFO,
        crate::window::ledbat::INFO,
        crate::mdi::INFO,
        crate::fixed::INFO,
    ];
    REGISTRY
}

/// A controller and its parameters, checked: what `verus:r=2` means.
#[derive(Clone)]
pub struct ControllerSpec {
    text: String,
    info: &'static ControllerInfo,
    args: Args,
}

impl ControllerSpec {
    /// The registry's entry.
    pub fn info(&self) -> &'static ControllerInfo {
        self.info
    }

    /// The parameters, defaults included.
    pub fn args(&self) -> &Args {
        &self.args
    }

    /// A new controller.
    pub fn build(&self, setup: Setup) -> Box<dyn Controller> {
        (self.info.build)(&self.args, setup)
    }

    /// A new receiver half, if the algorithm has one.
    pub fn build_receiver(&self, setup: Setup) -> Option<Box<dyn Receiver>> {
        self.info.receiver.as_ref().map(|half| (half.build)(&self.args, setup))
    }

    /// Reads a controller string; `read` supplies the files that it names.
    ///
    /// # Errors
    /// When the name, a parameter or a file does not read.
    pub fn parse(text: &str, read: &mut ReadFile<'_>) -> Result<Self, SpecError> {
        let mut spec = Self::without_files(text)?;
        if let Some(load) = spec.info.load {
            let conflict = |reason| SpecError::Conflict { owner: spec.info.name, reason };
            load(&mut spec.args, read).map_err(conflict)?;
        }
        Ok(spec)
    }

    /// Name and parameters alone: what has files to load is not fit to be built.
    fn without_files(text: &str) -> Result<Self, SpecError> {
        let split = split_name(text);
        let Some(info) = registry().iter().find(|info| info.name == split.name) else {
            return Err(unknown_name(split.name));
        };
        let conflict = |reason| SpecError::Conflict { owner: info.name, reason };
        let args = Args::parse(info.name, split.rest, info.params)?;
        (info.check)(&args).map_err(conflict)?;
        Ok(Self { text: text.trim().to_owned(), info, args })
    }
}

/// Without files: a parameter that names one is refused.
impl FromStr for ControllerSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text, &mut |name| Err(format!("{name}: files cannot be read here")))
    }
}

fn unknown_name(name: &str) -> SpecError {
    let names = || registry().iter().map(|info| info.name);
    let hint = match nearest(name, names()) {
        Some(near) => format!("; did you mean `{near}`?"),
        None => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
    };
    SpecError::UnknownName { name: name.to_owned(), hint }
}

/// As it was written.
impl fmt::Display for ControllerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The receiver's half of a controller that a peer names, by `from_str`. The peer chooses the
/// parameters, and this side pays in memory and time, so nothing is loaded that only the sender's
/// half needs.
#[derive(Debug, Clone)]
pub struct PeerHalf(ControllerSpec);

impl PeerHalf {
    /// Whether the controller has a half at the receiver.
    pub fn exists(&self) -> bool {
        self.0.info.receiver.is_some()
    }

    /// What it costs to build the half. A controller without one costs nothing.
    ///
    /// # Errors
    /// When the half is larger than a peer may ask for, in words for that peer.
    pub fn cost(&self) -> Result<PeerCost, String> {
        let half = self.0.info.receiver.as_ref();
        half.map_or(Ok(PeerCost::Shared), |half| (half.peer_cost)(&self.0.args))
    }

    /// A new receiver half, if the controller has one.
    pub fn build(&self, setup: Setup) -> Option<Box<dyn Receiver>> {
        self.0.build_receiver(setup)
    }
}

impl FromStr for PeerHalf {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        ControllerSpec::without_files(text).map(Self)
    }
}

/// As the peer wrote it.
impl fmt::Display for PeerHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for ControllerSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ControllerSpec").field(&self.text).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Random, Time};

    fn setup() -> Setup {
        Setup { mss: 1500, start: Time::ZERO, random: Random::seeded(1, 0) }
    }

    #[test]
    fn every_controller_builds_from_its_defaults_and_documents_its_parameters() {
        for info in registry() {
            let spec: ControllerSpec = info.name.parse().unwrap();
            let controller = spec.build(setup());
            assert!(controller.cwnd() > 0, "{}", info.name);
            assert!(!info.summary.is_empty());
            for param in info.params {
                assert!(!param.help.is_empty(), "{}:{} has no help", info.name, param.key);
                assert!(!param.source.is_empty(), "{}:{} has no source", info.name, param.key);
            }
        }
    }

    /// The built-in Markov table takes 20 ms to read.
    #[test]
    fn a_peer_makes_nobody_load_what_only_the_sender_needs() {
        for text in ["mdi", "mdi:users=adapt", "mdi:model=/etc/passwd"] {
            let half: PeerHalf = text.parse().unwrap();
            assert!(!half.exists() && half.build(setup()).is_none(), "{text}");
            assert_eq!(half.cost(), Ok(PeerCost::Shared), "{text}");
        }
        assert!("mdi:users=9".parse::<PeerHalf>().is_err());
    }

    #[test]
    fn a_peer_gets_receiver_halves_of_ordinary_size() {
        let cost = |text: &str| text.parse::<PeerHalf>().unwrap().cost();
        for shared in ["sprout", "sprout:confidence=25%", "sprout:max_rate=auto", "cubic"] {
            assert_eq!(cost(shared), Ok(PeerCost::Shared), "{shared}");
        }
        for new in ["sprout:confidence=25%,max_rate=2000", "sprout:max_rate=1000,tick=40ms"] {
            assert_eq!(cost(new), Ok(PeerCost::Tables), "{new}");
        }
        for (large, parameter) in [
            ("sprout:max_rate=16000", "max_rate=16000 should be 2000 or less, or auto"),
            ("sprout:max_rate=auto,joint=true", "max_rate=auto goes with the defaults"),
            ("sprout:tick=5ms", "tick=5ms should be 20ms or more"),
            ("sprout:tick=100ms", "tick=100ms should be 20ms or more"),
            ("sprout:sigma=401", "sigma=401 should be 400 or less"),
        ] {
            let refused = cost(large).unwrap_err();
            assert!(refused.contains(parameter) && refused.len() < 150, "{refused}");
        }
    }

    #[test]
    fn an_unknown_controller_gets_the_nearest_name() {
        let said = "fixd".parse::<ControllerSpec>().unwrap_err().to_string();
        assert_eq!(said, "there is no controller `fixd`; did you mean `fixed`?");
    }
}
