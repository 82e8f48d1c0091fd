//! The options that say how a connection is controlled, for all commands that do so above TCP.

use std::sync::Arc;

use cellpace_base::parse_bytes;
use cellpace_tcp::{
    ClientServerOptions, FlowDriver, FlowOptions, FlowShare, GateOptions, KernelDriver,
    RelayOptions, TcpCongestionControl, granted_send_buffer,
};
use clap::{Args, ValueEnum};

use crate::error::CommandError;
use crate::output::complain;

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
    #[arg(long, value_name = "CONTROLLER", default_value = "verus")]
    cc: String,
    /// How the controller learns what arrived and has its way: by the kernel driver (see
    /// `cellpace kernel`), by a gate in front of TCP, or by acks inside the stream, which the
    /// other end's cellpace must understand and which sprout needs. auto: the kernel driver if it
    /// is installed, for us, and no other option needs the gate; else the gate
    #[arg(long, value_enum, default_value_t = DriverArg::Auto)]
    driver: DriverArg,
    /// Name of the kernel driver's congestion control [default: that of the environment's
    /// CELLPACE_KERNEL_DRIVER, or cellpace]
    #[arg(long, value_name = "NAME", hide = true)]
    driver_name: Option<String>,
    /// Connections to the same peer share one controller's window instead of having one each
    #[arg(long)]
    share: bool,
    /// What TCP itself uses below the controller: auto (as it is, but Reno in place of Cubic until
    /// the first loss, because Cubic ends its slow start when delay grows), keep (as it is), or a
    /// name that the kernel knows
    #[arg(long, default_value = "auto", value_name = "NAME")]
    below: TcpCongestionControl,
    /// Bytes that TCP may hold for a connection [default: as the kernel sees fit]
    #[arg(long, value_name = "BYTES", value_parser = send_buffer)]
    sndbuf: Option<u32>,
    /// Seed of what is random in the controllers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

fn send_buffer(text: &str) -> Result<u32, String> {
    /// The kernel doubles it, in a signed number.
    const MAX_BYTES: u64 = 1 << 30;
    let bytes = parse_bytes(text).map_err(|error| error.to_string())?;
    match u32::try_from(bytes) {
        Ok(bytes @ 1..) if u64::from(bytes) <= MAX_BYTES => Ok(bytes),
        _ => Err("from 1B to 1GiB".to_owned()),
    }
}

impl FlowArgs {
    /// Reads the options, and takes a place at the kernel driver where that is to be used. Warns when
    /// the system does not grant what is asked for.
    pub(crate) fn options(&self) -> Result<FlowOptions, CommandError> {
        let cc = cellpace_lab::read_controller(&self.cc)
            .map_err(|error| CommandError::usage(format!("--cc: {error}")))?;
        if cc.has_receiver() && !self.is_client_server() {
            return Err(CommandError::usage(format!(
                "--cc: {} needs an answering half at the other end: --driver client-server there and here",
                cc.name()
            )));
        }
        self.check_options_of_drivers()?;
        self.warn_of_small_buffer();
        Ok(FlowOptions { cc, seed: self.seed, driver: self.driver()? })
    }

    /// Whether acks come inside the stream.
    pub(crate) fn is_client_server(&self) -> bool {
        self.driver == DriverArg::ClientServer
    }

    fn check_options_of_drivers(&self) -> Result<(), CommandError> {
        let misplaced = match self.driver {
            DriverArg::Kernel => self.option_of_gate(),
            DriverArg::ClientServer => self.share.then_some("--share"),
            DriverArg::Auto | DriverArg::Gate => None,
        };
        let failure = |option| CommandError::usage(format!("{option}: only with --driver gate"));
        misplaced.map_or(Ok(()), |option| Err(failure(option)))
    }

    fn driver(&self) -> Result<FlowDriver, CommandError> {
        let relay = RelayOptions {
            below: self.below.clone(),
            send_buffer: self.sndbuf,
            ..RelayOptions::default()
        };
        let kernel = || KernelDriver::open(&self.driver_name()).map(Arc::new);
        match self.driver {
            DriverArg::Kernel => kernel().map(FlowDriver::Kernel).map_err(CommandError::failed),
            DriverArg::ClientServer => Ok(FlowDriver::ClientServer(ClientServerOptions {
                relay,
                ..ClientServerOptions::default()
            })),
            DriverArg::Auto if self.option_of_gate().is_none() => {
                // `cellpace kernel status` says why it cannot be used.
                let gate = FlowDriver::Gate(GateOptions::default());
                Ok(kernel().map_or(gate, FlowDriver::Kernel))
            }
            DriverArg::Auto | DriverArg::Gate => {
                let share = self.share.then_some(FlowShare { weight: 1 });
                Ok(FlowDriver::Gate(GateOptions { relay, share }))
            }
        }
    }

    /// Tests must not depend on what is installed where they run.
    fn driver_name(&self) -> String {
        let named = self.driver_name.clone();
        let named = named.or_else(|| std::env::var("CELLPACE_KERNEL_DRIVER").ok());
        named.unwrap_or_else(|| cellpace_kernel::NAME.to_owned())
    }

    /// The option that the kernel driver does not have, if one was given.
    fn option_of_gate(&self) -> Option<&'static str> {
        let options = [
            ("--share", self.share),
            ("--sndbuf", self.sndbuf.is_some()),
            ("--below", self.below != TcpCongestionControl::default()),
        ];
        options.into_iter().find(|(_, given)| *given).map(|(option, _)| option)
    }

    /// The limit is the system's and the same for all connections: one question, one warning.
    fn warn_of_small_buffer(&self) {
        let Some(asked) = self.sndbuf else { return };
        match granted_send_buffer(asked) {
            Ok(granted) if granted < u64::from(asked) => complain(&format!(
                "warning: --sndbuf: the system grants {granted} of {asked} bytes (net.core.wmem_max)"
            )),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn send_buffers_have_a_size_with_a_unit() {
        assert_eq!(send_buffer("100kB"), Ok(100_000));
        assert_eq!(send_buffer("1GiB"), Ok(1 << 30));
        for wrong in ["", "0B", "2GiB", "5", "many", "-1kB"] {
            assert!(send_buffer(wrong).is_err(), "{wrong}");
        }
    }
}
