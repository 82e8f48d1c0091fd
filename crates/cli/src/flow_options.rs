//! The options that say how a connection is controlled, for all commands that do so above TCP.

use std::sync::Arc;

use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER};
use cellpace_tcp::{
    BelowOnSystem, ClientServerOptions, ControlOptions, DriverChoice, FlowDriver, FlowShare,
    GateOptions, KernelDriver, PlacementReason, RelayOptions, TcpCongestionControl,
};
use clap::{Args, ValueEnum};

use crate::error::CommandError;
use crate::options::Verbosity;
use crate::sample_options::SampleOptions;

/// Where acks come from, and who keeps to the window.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum DriverArg {
    Auto,
    Kernel,
    Gate,
    ClientServer,
}

/// How connections are controlled.
#[derive(Debug, Args)]
pub(crate) struct FlowArgs {
    /// The controller
    #[arg(long, value_name = "CONTROLLER", default_value = DEFAULT_CONTROLLER)]
    cc: String,
    /// Where the controller is: in the kernel (see `cellpace kernel`), in a gate in front of TCP, or
    /// at both ends, with acks inside the stream (client-server; the other end needs cellpace, too,
    /// and sprout needs it). auto: the kernel if the driver is installed and we may use it, else the
    /// gate
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
    /// Reads the options, and takes a place at the kernel driver where that is to be used.
    pub(crate) fn options(&self) -> Result<ControlOptions, CommandError> {
        let cc = self
            .controller(&self.cc)
            .map_err(|error| CommandError::usage(format!("--cc: {error}")))?;
        self.check_options_of_drivers()?;
        self.below.check().map_err(|error| CommandError::usage(format!("--below: {error}")))?;
        let open = |name: &String| KernelDriver::open(name).map(Arc::new);
        let missing = |error| PlacementReason::NoKernelDriver(format!("{error}").into());
        let drivers = self.driver_choice().open(|name| open(name).map_err(missing));
        let drivers = drivers.map_err(CommandError::failed)?;
        let cc = self.samples.watch(&[cc])?.remove(0);
        Ok(ControlOptions { cc, seed: seed()?, drivers })
    }

    /// The same options with another controller.
    pub(crate) fn options_under(
        &self,
        options: &ControlOptions,
        cc: &str,
    ) -> Result<ControlOptions, CommandError> {
        let cc = self.controller(cc).map_err(CommandError::usage)?;
        Ok(ControlOptions { cc, ..options.clone() })
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

    /// Says whether TCP of this kernel could do it by itself, why the driver is not the kernel's where
    /// that was wished for, and what TCP below the controller is, where that is not what the system has.
    pub(crate) fn describe(&self, options: &ControlOptions, verbosity: Verbosity) {
        let native = format!("{}_{}", self.driver_name(), options.cc.name());
        if !self.is_client_server() && cellpace_kernel::native::is_registered(&native) {
            verbosity.note(&format!(
                "this kernel has `{native}`: sockets with this congestion control need no driver and cost \
                 what plain TCP costs"
            ));
        }
        let DriverChoice::Relay(driver, reason) = &options.drivers else { return };
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
            DriverArg::Kernel => self.gate().given_option(),
            DriverArg::ClientServer => self.share.then_some("--share"),
            DriverArg::Auto | DriverArg::Gate => None,
        };
        let failure = |option| CommandError::usage(format!("{option} needs --driver gate"));
        misplaced.map_or(Ok(()), |option| Err(failure(option)))
    }

    /// The kernel driver is its name.
    fn driver_choice(&self) -> DriverChoice<String> {
        let gate = self.gate();
        match self.driver {
            DriverArg::Auto => DriverChoice::KernelOrGate(self.driver_name(), gate),
            DriverArg::Kernel => DriverChoice::Kernel(self.driver_name()),
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

/// Seed of what is random in the controllers of connections. They run in real time, where no seed
/// repeats a run; so it is the environment that sets another one, for experiments.
pub(crate) fn seed() -> Result<u64, CommandError> {
    const NAME: &str = "CELLPACE_SEED";
    let Some(text) = std::env::var_os(NAME) else { return Ok(1) };
    let seed = text.to_str().and_then(|text| text.parse().ok());
    seed.ok_or_else(|| CommandError::usage(format!("{NAME}: a whole number, not {text:?}")))
}
