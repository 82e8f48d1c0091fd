//! The list of controllers and the way from `verus:r=2,epoch=5ms` to a running one.

use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use cellpace_base::{
    Param, ParamError, ParamSet, Preset, RegisterError, check_own_names, nearest, split_name,
};
use thiserror::Error;

use crate::deferred::{Deferred, InitialAnswers};
use crate::mdi::MdiController;
use crate::params::{
    ControllerParams, KernelSettings, MarkovWalk, PeerCost, ReadFile, ReceiverParams,
};
use crate::{Controller, Receiver, Setup};

/// Why a controller string was refused.
#[derive(Debug, Clone, PartialEq, Error)]
#[non_exhaustive]
pub enum SpecError {
    /// No controller has that name.
    #[error("there is no controller `{name}`{hint}")]
    UnknownName {
        /// The name as written.
        name: String,
        /// The nearest name, or all, as a half sentence.
        hint: String,
    },
    /// A parameter is unknown, does not read or is out of range.
    #[error(transparent)]
    Param(#[from] ParamError),
    /// Each parameter is fine, but not together.
    #[error("`{owner}`: {reason}")]
    Conflict {
        /// The controller's name.
        owner: String,
        /// What does not go together.
        reason: String,
    },
}

/// A controller by its name: what [`register`] takes, and [`registry`] has.
#[derive(Debug, Clone, Copy)]
pub struct ControllerInfo {
    /// The name in front of the colon.
    pub name: &'static str,
    /// What it is, in one line.
    pub summary: &'static str,
    /// Its named combinations of values.
    pub presets: &'static [Preset],
    table: fn() -> &'static [Param],
    parse: fn(&str) -> Result<Box<dyn ControllerParams>, ParamError>,
}

impl ControllerInfo {
    /// The controller that the parameters `P` build, with its name (lower-case letters, digits, `-` and `_`) and what
    /// it is, in one line.
    pub const fn new<P>(name: &'static str, summary: &'static str) -> Self
    where
        P: ParamSet + ControllerParams + 'static,
    {
        let parse = |text: &str| -> Result<Box<dyn ControllerParams>, ParamError> {
            let split = split_name(text);
            Ok(Box::new(P::parse(split.name, split.rest)?))
        };
        Self { name, summary, presets: P::PRESETS, table: P::table, parse }
    }

    /// Describes its parameters, those for experts last.
    pub fn params(&self) -> &'static [Param] {
        (self.table)()
    }
}

/// The controller of every command that is not told of one: what is recommended where nothing is known of the path
/// (`docs/reading-results.md`).
pub const DEFAULT_CONTROLLER: &str = "pace";

/// Returns all controllers that run by their name alone, in the order in which they are shown.
pub fn registry() -> &'static [ControllerInfo] {
    static REGISTRY: &[ControllerInfo] = &[
        ControllerInfo::new::<crate::verus::VerusParams>(
            "verus",
            "learns delay as a function of the window, steers by it in 5 ms epochs",
        ),
        ControllerInfo::new::<crate::copa::CopaParams>(
            "copa",
            "steers towards a small standing queue, 1/delta packets per flow",
        ),
        ControllerInfo::new::<crate::sprout::SproutParams>(
            "sprout",
            "sends what the receiver forecasts to leave the queue within 100 ms",
        ),
        ControllerInfo::new::<crate::pace::PaceParams>(
            "pace",
            "learns the window with which one packet in a hundred finds no queue",
        ),
        ControllerInfo::new::<crate::bbr::BbrParams>(
            "bbr",
            "BBR v1: paces at the measured bandwidth, probes bandwidth and base RTT",
        ),
        ControllerInfo::new::<crate::bbr3::Bbr3Params>(
            "bbr3",
            "BBR v3: as v1, but losses bound the flight; probes every 2 to 3 s",
        ),
        ControllerInfo::new::<crate::window::cubic::CubicParams>(
            "cubic",
            "TCP CUBIC with HyStart, the default of most systems",
        ),
        ControllerInfo::new::<crate::window::newreno::NewRenoParams>(
            "newreno",
            "TCP NewReno: additive increase, halving on loss",
        ),
        ControllerInfo::new::<crate::prague::PragueParams>(
            "prague",
            "Prague for L4S: reduces by half of the share of marked packets",
        ),
        ControllerInfo::new::<crate::window::bic::BicParams>(
            "bic",
            "TCP BIC: binary search towards the last maximum",
        ),
        ControllerInfo::new::<crate::window::vegas::VegasParams>(
            "vegas",
            "TCP Vegas: holds a few packets in the queue, by delay",
        ),
        ControllerInfo::new::<crate::window::westwood::WestwoodParams>(
            "westwood",
            "TCP Westwood+: NewReno, but a loss leaves the measured rate",
        ),
        ControllerInfo::new::<crate::window::ledbat::LedbatParams>(
            "ledbat",
            "LEDBAT: background transfer with a bound on its own queueing delay",
        ),
        ControllerInfo::new::<crate::window::c2tcp::C2tcpParams>(
            "c2tcp",
            "C2TCP: CUBIC, its window emptied when the RTT stays too high",
        ),
        ControllerInfo::new::<crate::vivace::VivaceParams>(
            "vivace",
            "PCC Vivace: tries two rates, moves towards the better one",
        ),
        ControllerInfo::new::<crate::scream::ScreamParams>(
            "scream",
            "SCReAM v2: window by queue delay, and the rate of a video encoder",
        ),
        ControllerInfo::new::<crate::gcc::GccParams>(
            "gcc",
            "GCC of WebRTC: the rate of a video, by growth of delay and by loss",
        ),
        ControllerInfo::new::<MdiController>(
            "mdi",
            "MDI: a Markov table learnt from another controller (by default Verus)",
        ),
        ControllerInfo::new::<crate::fixed::FixedParams>(
            "fixed",
            "a constant window, or one redrawn at random every so often",
        ),
    ];
    REGISTRY
}

/// Returns the controllers that are nothing without a file.
fn file_controllers() -> &'static [ControllerInfo] {
    static FROM_FILES: &[ControllerInfo] =
        &[ControllerInfo::new::<crate::policy::PolicyController>(
            "policy",
            "a policy that was learnt: policy:model=FILE",
        )];
    FROM_FILES
}

/// What the program registered.
static OWN: OnceLock<&[ControllerInfo]> = OnceLock::new();

/// Adds a program's own controllers to those that [`find_controller`] and controller strings know, for as long as
/// the process lives.
///
/// # Errors
/// When a name is taken or is none, or something was registered before.
pub fn register(own: &'static [ControllerInfo]) -> Result<(), RegisterError> {
    let names: Vec<&str> = own.iter().map(|info| info.name).collect();
    let taken = registry().iter().chain(file_controllers()).map(|info| info.name);
    check_own_names(&names, &taken.collect::<Vec<_>>())?;
    OWN.set(own).map_err(|_| RegisterError::Twice)
}

/// Returns all controllers of this process: those of cellpace, and behind them what was registered.
pub fn controllers() -> impl Iterator<Item = &'static ControllerInfo> {
    registry().iter().chain(file_controllers()).chain(OWN.get().copied().unwrap_or_default())
}

/// Finds a controller by its name.
///
/// # Errors
/// When there is none; the nearest name is named.
pub fn find_controller(name: &str) -> Result<&'static ControllerInfo, SpecError> {
    let names = || controllers().map(|info| info.name);
    controllers().find(|info| info.name == name).ok_or_else(|| {
        let hint = match nearest(name, names()) {
            Some("bbr" | "bbr3") if name.ends_with('2') => {
                "; `bbr` is version 1, and `bbr3` version 3".to_owned()
            }
            Some(near) => format!("; did you mean `{near}`?"),
            None => format!("; there are {}", names().collect::<Vec<_>>().join(", ")),
        };
        SpecError::UnknownName { name: name.to_owned(), hint }
    })
}

/// A controller that the caller builds.
struct ByCaller<F>(F);

impl<F> fmt::Debug for ByCaller<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ByCaller")
    }
}

impl<F: Fn(Setup) -> Box<dyn Controller> + Send + Sync> ControllerParams for ByCaller<F> {
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        (self.0)(setup)
    }

    fn may_fail(&self) -> bool {
        true
    }
}

/// A controller with something around it.
struct Wrapped<F> {
    inner: Arc<dyn ControllerParams>,
    wrap: F,
}

impl<F> fmt::Debug for Wrapped<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Wrapped").field(&self.inner).finish()
    }
}

impl<F> ControllerParams for Wrapped<F>
where
    F: Fn(Box<dyn Controller>, &Setup) -> Box<dyn Controller> + Send + Sync,
{
    fn build(&self, setup: Setup) -> Box<dyn Controller> {
        (self.wrap)(self.inner.build(setup.clone()), &setup)
    }

    fn receiver(&self) -> Option<&dyn ReceiverParams> {
        self.inner.receiver()
    }

    fn may_fail(&self) -> bool {
        self.inner.may_fail()
    }
}

/// A controller and its parameters, checked: what `verus:r=2` means. Also one that the caller
/// brings along.
///
/// ```
/// use cellpace_cc::{Controller, ControllerSpec, Permit};
///
/// struct TenPackets(u64);
///
/// impl Controller for TenPackets {
///     fn permit(&self) -> Permit {
///         Permit::Window(10 * self.0)
///     }
/// }
///
/// let own = ControllerSpec::new("ten", |setup| Box::new(TenPackets(setup.mss)));
/// assert_eq!(own.to_string(), "ten");
/// ```
#[derive(Debug, Clone)]
pub struct ControllerSpec {
    text: String,
    params: Arc<dyn ControllerParams>,
    /// For the size of packets that [`build_deferred`](ControllerSpec::build_deferred) was last given.
    initial: Arc<Mutex<Option<InitialAnswers>>>,
}

impl ControllerSpec {
    fn of(text: String, params: Arc<dyn ControllerParams>) -> Self {
        Self { text, params, initial: Arc::default() }
    }

    /// A controller that is not in the registry: `build` makes one per connection, and results
    /// bear `name`. It has no parameters and no half at the receiver.
    pub fn new(
        name: impl Into<String>,
        build: impl Fn(Setup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        Self::of(name.into(), Arc::new(ByCaller(build)))
    }

    /// The same controller, with the same name and half at the receiver, of which each that is built
    /// is handed to `wrap` with its setup: to be watched, for example.
    #[must_use]
    pub fn wrapped(
        &self,
        wrap: impl Fn(Box<dyn Controller>, &Setup) -> Box<dyn Controller> + Send + Sync + 'static,
    ) -> Self {
        let params = Wrapped { inner: Arc::clone(&self.params), wrap };
        Self::of(self.text.clone(), Arc::new(params))
    }

    /// Returns the name in front of the colon.
    pub fn name(&self) -> &str {
        split_name(&self.text).name
    }

    /// Builds a new controller.
    pub fn build(&self, setup: Setup) -> Box<dyn Controller> {
        self.params.build(setup)
    }

    /// Builds a new controller when its flow first fills the window that it would begin with, or loses a
    /// packet: until then a few hundred bytes stand in for it, which let that window leave. The
    /// controller then learns of the packets in flight as if it had been there. What lets no first
    /// packet leave, or has a half at the receiver, is built at once. For each size of packets one
    /// controller more is built, to be asked what that window is.
    pub fn build_deferred(&self, setup: Setup) -> Box<dyn Controller> {
        let initial = (!self.has_receiver()).then(|| self.initial_answers(&setup));
        match initial.filter(InitialAnswers::lets_a_packet_leave) {
            Some(initial) => Box::new(Deferred::new(Arc::clone(&self.params), setup, initial)),
            None => self.build(setup),
        }
    }

    fn initial_answers(&self, setup: &Setup) -> InitialAnswers {
        let latest = || self.initial.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(initial) = latest().filter(|initial| initial.mss == setup.mss) {
            return initial;
        }
        let initial = InitialAnswers::of(self.build(setup.clone()).as_ref(), setup.mss);
        *latest() = Some(initial);
        initial
    }

    /// Describes the parameters that its file declares; those of all others are [`ControllerInfo::params`].
    pub fn declared(&self) -> &'static [Param] {
        self.params.declared()
    }

    /// Whether the controller may [fail](Controller::failure).
    pub fn may_fail(&self) -> bool {
        self.params.may_fail()
    }

    /// Whether the controller has a half at the receiver.
    pub fn has_receiver(&self) -> bool {
        self.params.receiver().is_some()
    }

    /// Builds a new receiver half, if the algorithm has one.
    pub fn build_receiver(&self, setup: Setup) -> Option<Box<dyn Receiver>> {
        self.params.receiver().map(|half| half.build(setup))
    }

    /// Returns the walk of an `mdi` string over its one table, for other runtimes.
    pub fn markov_walk(&self) -> Option<MarkovWalk> {
        self.params.markov_walk()
    }

    /// Returns the parameters of a controller that also runs in the kernel by itself, as its program there
    /// takes them.
    pub fn kernel_settings(&self) -> Option<KernelSettings> {
        self.params.kernel_settings()
    }

    /// Reads a controller string; `read` supplies the files that it names.
    ///
    /// # Errors
    /// When the name, a parameter or a file does not read.
    pub fn parse(text: &str, read: &mut ReadFile<'_>) -> Result<Self, SpecError> {
        let mut params = parse_params(text)?;
        params.load(read).map_err(|reason| conflict(text, reason))?;
        Ok(Self::of(text.trim().to_owned(), params.into()))
    }
}

/// Reads name and parameters alone. What has files to load is not fit to be built.
fn parse_params(text: &str) -> Result<Box<dyn ControllerParams>, SpecError> {
    let info = find_controller(split_name(text).name)?;
    let params = (info.parse)(text)?;
    params.check().map_err(|reason| conflict(text, reason))?;
    Ok(params)
}

fn conflict(text: &str, reason: String) -> SpecError {
    SpecError::Conflict { owner: split_name(text).name.to_owned(), reason }
}

/// Without files: a parameter that names one is refused.
impl FromStr for ControllerSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        Self::parse(text, &mut |name| Err(format!("{name}: files cannot be read here")))
    }
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
        self.0.has_receiver()
    }

    /// Returns the cost of building the half. A controller without one costs nothing.
    ///
    /// # Errors
    /// When the half is larger than a peer may ask for, in words for that peer.
    pub fn cost(&self) -> Result<PeerCost, String> {
        self.0.params.receiver().map_or(Ok(PeerCost::Shared), ReceiverParams::peer_cost)
    }

    /// Builds a new receiver half, if the controller has one.
    pub fn build(&self, setup: Setup) -> Option<Box<dyn Receiver>> {
        self.0.build_receiver(setup)
    }
}

impl FromStr for PeerHalf {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let params = parse_params(text)?.into();
        Ok(Self(ControllerSpec::of(text.trim().to_owned(), params)))
    }
}

/// As the peer wrote it.
impl fmt::Display for PeerHalf {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
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
            for param in info.params() {
                assert!(!param.help.is_empty(), "{}:{} has no help", info.name, param.key);
                assert!(!param.source.is_empty(), "{}:{} has no source", info.name, param.key);
            }
            for preset in info.presets {
                let text = format!("{}:{}", info.name, preset.name);
                assert!(text.parse::<ControllerSpec>().is_ok(), "{text}");
            }
        }
    }

    /// The built-in Markov table takes 20 ms to read.
    #[test]
    fn a_peer_cannot_make_the_receiver_load_what_only_the_sender_needs() {
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
    fn names_that_are_taken_or_none_are_not_registered() {
        const fn fixed(name: &'static str) -> ControllerInfo {
            ControllerInfo::new::<crate::fixed::FixedParams>(name, "a test")
        }
        static TAKEN: [ControllerInfo; 2] = [fixed("own"), fixed("policy")];
        static REPEATED: [ControllerInfo; 2] = [fixed("own"), fixed("own")];
        static COLON: [ControllerInfo; 1] = [fixed("own:r")];
        static EMPTY: [ControllerInfo; 1] = [fixed("")];
        assert_eq!(register(&TAKEN), Err(RegisterError::Taken("policy")));
        assert_eq!(register(&REPEATED), Err(RegisterError::Taken("own")));
        assert_eq!(register(&COLON), Err(RegisterError::Name("own:r")));
        assert_eq!(register(&EMPTY), Err(RegisterError::Name("")));
        assert!(find_controller("own").is_err());
    }

    #[test]
    fn an_unknown_controller_gets_the_nearest_name() {
        let message = "fixd".parse::<ControllerSpec>().unwrap_err().to_string();
        assert_eq!(message, "there is no controller `fixd`; did you mean `fixed`?");
        let message = "bbr2".parse::<ControllerSpec>().unwrap_err().to_string();
        let expected = "there is no controller `bbr2`; `bbr` is version 1, and `bbr3` version 3";
        assert_eq!(message, expected);
    }

    #[test]
    fn presets_are_part_of_what_a_peer_is_asked_for() {
        let half: PeerHalf = "sprout:original,look_ahead=4".parse().unwrap();
        assert_eq!(half.cost(), Ok(PeerCost::Shared));
        assert_eq!(half.to_string(), "sprout:original,look_ahead=4");
        assert!(half.build(setup()).is_some());
    }

    #[test]
    fn controllers_show_at_most_four_parameters_on_average() {
        let params = registry().iter().flat_map(ControllerInfo::params);
        let shown = params.filter(|param| !param.expert).count();
        assert!(shown <= 4 * registry().len(), "{shown}");
    }
}
