//! The options that say how a connection is controlled, for all commands that do so above TCP.

use std::io::ErrorKind;
use std::sync::Arc;

use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER};
use cellpace_kernel::native;
use cellpace_tcp::{
    BelowOnSystem, ClientServerOptions, ControlOptions, DriverChoice, FlowDriver, FlowShare,
    GateOptions, KernelDriver, KernelHolder, NativeDriver, PlacementReason, RelayOptions,
    TcpCongestionControl,
};
use clap::{Args, ValueEnum};

use crate::connection_outputs::ConnectionOutputs;
use crate::error::CommandError;
use crate::options::Verbosity;
use crate::sample_options::SampleOptions;

/// Where acks come from, and who keeps to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DriverArg {
    Auto,
    Native,
    Kernel,
    Gate,
    ClientServer,
}

/// Which of those that are in the kernel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum InKernelArg {
    Auto,
    Native,
    Kernel,
}

/// How connections are controlled.
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    /// The controller
    #[arg(long, value_name = "CONTROLLER", default_value = DEFAULT_CONTROLLER)]
    cc: String,
    /// Where the controller is: in the kernel by itself (native; see `cellpace kernel`), here with its
    /// window in the kernel (kernel), in a gate in front of TCP, or at both ends, with acks inside the
    /// stream (client-server; the other end needs cellpace, too, and sprout needs it). auto: the first
    /// of native, kernel and gate that is installed and that we may use
    #[arg(long, value_enum, default_value_t = DriverArg::Auto)]
    driver: DriverArg,
    /// Name of the kernel driver's congestion control [default: that of the environment's
    /// CELLPACE_KERNEL_DRIVER, or cellpace]
    #[arg(long, value_name = "NAME", hide = true)]
    driver_name: Option<String>,
    /// Connections to the same peer share one controller's window instead of having one each
    #[arg(long)]
    share: bool,
    /// What TCP itself uses below the controller: auto (Cubic, with Reno in its place until the first
    /// loss, because Cubic ends its slow start when delay grows; Reno alone where only root may choose
    /// Cubic), keep (what the system has, BBR say), or a congestion control of the kernel
    #[arg(long, default_value = "auto", value_name = "NAME")]
    below: TcpCongestionControl,
    #[command(flatten)]
    samples: SampleOptions,
}

impl FlowArgs {
    /// Reads the options, takes a place at the kernel driver where that is to be used, and says what a person
    /// should know of the choice.
    pub(crate) fn options(
        &self,
        outputs: &ConnectionOutputs,
    ) -> Result<ControlOptions, CommandError> {
        let cc = self
            .controller(&self.cc)
            .map_err(|error| CommandError::usage(format!("--cc: {error}")))?;
        let options = self.options_under(&cc, outputs)?;
        self.describe(&options.drivers, outputs.verbosity);
        let cc = self.samples.watch(&[options.cc])?.remove(0);
        Ok(ControlOptions { cc, ..options })
    }

    /// The same of an arm of an experiment.
    pub(crate) fn options_of_arm(
        &self,
        cc: &str,
        outputs: &ConnectionOutputs,
    ) -> Result<ControlOptions, CommandError> {
        let cc = self.controller(cc).map_err(CommandError::usage)?;
        self.options_under(&cc, outputs)
    }

    fn options_under(
        &self,
        cc: &ControllerSpec,
        outputs: &ConnectionOutputs,
    ) -> Result<ControlOptions, CommandError> {
        self.check_options_of_drivers()?;
        self.below.check().map_err(|error| CommandError::usage(format!("--below: {error}")))?;
        let verbosity = outputs.verbosity;
        let needs_process = self.samples.option().or(outputs.needs_decisions());
        let drivers = self.driver_choice().open(|name| {
            let holder = open_in_kernel(self.in_kernel(), name, cc, needs_process, verbosity);
            holder.map_err(|why| PlacementReason::NoKernelDriver(why.into()))
        });
        let drivers = drivers.map_err(CommandError::failed)?;
        let cc = drivers.kernel().map_or_else(|| cc.clone(), |holder| installed_as(holder, cc));
        Ok(ControlOptions { cc, seed: seed()?, drivers })
    }

    /// Reads a controller that goes with the driver.
    pub(crate) fn controller(&self, text: &str) -> Result<ControllerSpec, String> {
        let cc = cellpace_lab::read_controller(text).map_err(|error| error.to_string())?;
        if cc.has_receiver() && !self.is_client_server() {
            return Err(format!(
                "{} needs a receiver half at the peer: use --driver client-server here and there",
                cc.name()
            ));
        }
        Ok(cc)
    }

    /// Says why the driver is not the kernel's where that was wished for, and what TCP below the controller
    /// is, where that is not what the system has.
    fn describe(&self, drivers: &DriverChoice<KernelHolder>, verbosity: Verbosity) {
        if let Some(KernelHolder::Native(native)) = drivers.kernel() {
            verbosity.detail(|| format!("driver native: `{}`", native.name()));
        }
        let DriverChoice::Relay(driver, reason) = drivers else { return };
        if let Some(reason) = reason {
            verbosity.detail(|| format!("driver {}: {reason}", driver.kind().name()));
        }
        match BelowOnSystem::find(&self.below) {
            Some(BelowOnSystem::Unfit(warning)) => verbosity.note(&warning),
            Some(BelowOnSystem::Replaced(text)) => verbosity.detail(|| text),
            None => {}
        }
    }

    /// Whether acks come inside the stream.
    pub(crate) fn is_client_server(&self) -> bool {
        self.driver == DriverArg::ClientServer
    }

    fn check_options_of_drivers(&self) -> Result<(), CommandError> {
        let misplaced = match self.driver {
            DriverArg::Native | DriverArg::Kernel => self.gate().given_option(),
            DriverArg::ClientServer => self.share.then_some("--share"),
            DriverArg::Auto | DriverArg::Gate => None,
        };
        let failure = |option| CommandError::usage(format!("{option} needs --driver gate"));
        misplaced.map_or(Ok(()), |option| Err(failure(option)))
    }

    /// What may be in the kernel, where anything may.
    fn in_kernel(&self) -> InKernelArg {
        match self.driver {
            DriverArg::Native => InKernelArg::Native,
            DriverArg::Kernel => InKernelArg::Kernel,
            DriverArg::Auto | DriverArg::Gate | DriverArg::ClientServer => InKernelArg::Auto,
        }
    }

    /// The kernel driver is its name.
    fn driver_choice(&self) -> DriverChoice<String> {
        let gate = self.gate();
        match self.driver {
            DriverArg::Auto => DriverChoice::KernelOrGate(self.driver_name(), gate),
            DriverArg::Native | DriverArg::Kernel => DriverChoice::Kernel(self.driver_name()),
            DriverArg::Gate => DriverChoice::Relay(FlowDriver::Gate(gate), None),
            DriverArg::ClientServer => {
                let options =
                    ClientServerOptions { relay: gate.relay, ..ClientServerOptions::default() };
                DriverChoice::Relay(FlowDriver::ClientServer(options), None)
            }
        }
    }

    fn gate(&self) -> GateOptions {
        let relay = RelayOptions { below: self.below.clone(), ..RelayOptions::default() };
        GateOptions { relay, share: self.share.then_some(FlowShare { weight: 1 }) }
    }

    /// Tests must not depend on what is installed where they run.
    fn driver_name(&self) -> String {
        let named = self.driver_name.clone();
        let named = named.or_else(|| std::env::var("CELLPACE_KERNEL_DRIVER").ok());
        named.unwrap_or_else(|| cellpace_kernel::NAME.to_owned())
    }
}

/// The controller that the kernel has by itself, or the kernel driver, of which the name begins with `name`; or
/// why there is none for us. `needs_process` is an option that wants the controller in this process.
pub(crate) fn open_in_kernel(
    wanted: InKernelArg,
    name: &str,
    cc: &ControllerSpec,
    needs_process: Option<&str>,
    verbosity: Verbosity,
) -> Result<KernelHolder, String> {
    if wanted != InKernelArg::Kernel {
        let native = format!("{name}_{}", cc.name());
        match open_native(&native, cc, needs_process) {
            Ok(driver) => return Ok(KernelHolder::Native(Arc::new(driver))),
            Err(why) if wanted == InKernelArg::Native => return Err(why),
            Err(why) if native::is_registered(&native) => {
                verbosity.note(&format!("this kernel has `{native}`, which is not used: {why}"));
            }
            Err(_) => {}
        }
    }
    let driver = KernelDriver::open(name).map_err(|error| error.to_string())?;
    Ok(KernelHolder::Driver(Arc::new(driver)))
}

/// The controller that the kernel has by itself under a name, if it is the one that is asked for: without
/// parameters, whatever it was installed with.
fn open_native(
    name: &str,
    cc: &ControllerSpec,
    needs_process: Option<&str>,
) -> Result<NativeDriver, String> {
    if !native::is_registered(name) {
        return Err(format!(
            "this kernel has no `{name}`: `cellpace kernel install --cc` is for {}",
            native::NativeController::ALL.map(native::NativeController::controller).join(" and ")
        ));
    }
    if let Some(option) = needs_process {
        return Err(format!("{option} needs the controller in this process"));
    }
    if cc.to_string() != cc.name() {
        check_parameters(name, cc)?;
    }
    NativeDriver::open(name).map_err(|error| match error.kind() {
        ErrorKind::PermissionDenied => {
            format!("only root may select `{name}`: it was installed without --everyone")
        }
        _ => format!("`{name}`: {error}"),
    })
}

/// The controller as it was installed in the kernel, as far as this process may see that; `cc` for the kernel
/// driver, which has whichever is asked for.
pub(crate) fn installed_as(holder: &KernelHolder, cc: &ControllerSpec) -> ControllerSpec {
    let KernelHolder::Native(native) = holder else { return cc.clone() };
    let installed = native::installed(native.name()).ok().flatten();
    installed.and_then(|installed| installed.controller.parse().ok()).unwrap_or_else(|| cc.clone())
}

fn check_parameters(name: &str, cc: &ControllerSpec) -> Result<(), String> {
    let installed = native::installed(name).map_err(|error| error.to_string())?;
    let installed = installed.map_or_else(String::new, |installed| installed.controller);
    let runs = installed.parse::<ControllerSpec>().ok().and_then(|spec| spec.kernel_settings());
    match runs.is_some() && runs == cc.kernel_settings() {
        true => Ok(()),
        false => Err(format!("it is {installed}, and not {cc}")),
    }
}

/// Seed of what is random in the controllers of connections. They run in real time, where no seed
/// repeats a run; so it is the environment that sets another one, for experiments.
pub(crate) fn seed() -> Result<u64, CommandError> {
    const NAME: &str = "CELLPACE_SEED";
    let Some(text) = std::env::var_os(NAME) else { return Ok(1) };
    let seed = text.to_str().and_then(|text| text.parse().ok());
    seed.ok_or_else(|| CommandError::usage(format!("{NAME}: a whole number, not {text:?}")))
}
