//! Which driver a connection gets: [`DriverChoice::place`] decides between the kernel, a relay and plain TCP.
//!
//! A command asks it once when it starts, with the kernel driver's answer to being opened, and then
//! for each connection, with the kernel driver's answer to that connection. Whether the kernel has the controller
//! itself (native) or is told by a process is decided once, where a command opens the kernel; a share or an experiment
//! leaves connections plain before this is asked (`trial.rs`).

use crate::error::PlacementReason;
use crate::options::{DriverKind, FlowDriver, GateOptions};

/// Which drivers connections may get. `K` is what stands for the kernel driver: its name before it is
/// opened, the driver itself afterwards.
#[derive(Debug, Clone)]
pub enum DriverChoice<K> {
    /// `--driver kernel`: what the kernel driver does not take stays plain TCP.
    Kernel(K),
    /// `--driver auto`: what the kernel driver does not take gets the gate.
    KernelOrGate(K, GateOptions),
    /// A driver that relays data, and why it is not the kernel driver where that was wished for.
    Relay(FlowDriver, Option<PlacementReason>),
}

/// Where the controller of a connection is.
#[derive(Debug)]
pub enum Placement<T> {
    /// In the kernel.
    Kernel(T),
    /// In front of TCP, by a driver that relays data, and why not in the kernel where that was wished
    /// for.
    Relay(FlowDriver, Option<PlacementReason>),
    /// Nowhere: the connection stays plain TCP.
    Plain(PlacementReason),
}

/// Which socket the program of a connection uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ProgramSocket {
    /// It waits, and can be given either one.
    Undecided,
    /// It already uses the TCP socket, so that its data cannot be relayed.
    Tcp,
    /// It has, or is about to get, its end of a socket pair while TCP still connects, so that its data
    /// must be relayed.
    Local,
}

impl<T> Placement<T> {
    /// Returns the driver's name in options and reports, or `plain`.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Kernel(_) => DriverKind::Kernel.name(),
            Self::Relay(driver, _) => driver.kind().name(),
            Self::Plain(_) => "plain",
        }
    }

    /// Returns why it is not the kernel, where that was wished for.
    pub fn reason(&self) -> Option<&PlacementReason> {
        match self {
            Self::Kernel(_) => None,
            Self::Relay(_, reason) => reason.as_ref(),
            Self::Plain(reason) => Some(reason),
        }
    }
}

impl<K> DriverChoice<K> {
    /// Decides which driver a connection gets. `kernel` asks the kernel driver, which is only done
    /// where it may have the connection.
    pub fn place<T>(
        &self,
        program: ProgramSocket,
        kernel: impl FnOnce(&K) -> Result<T, PlacementReason>,
    ) -> Placement<T> {
        let ask = |driver| match program {
            ProgramSocket::Local => Err(PlacementReason::NotOpen),
            ProgramSocket::Undecided | ProgramSocket::Tcp => kernel(driver),
        };
        let (relay, reason) = match self {
            Self::Kernel(driver) => match ask(driver) {
                Ok(taken) => return Placement::Kernel(taken),
                Err(reason) => return Placement::Plain(reason),
            },
            Self::KernelOrGate(driver, gate) => {
                // An option that only the gate has decides for the gate: it would be ignored in the
                // kernel.
                let option = gate.given_option().map(PlacementReason::GateOption);
                match option.map_or_else(|| ask(driver), Err) {
                    Ok(taken) => return Placement::Kernel(taken),
                    Err(reason) => (FlowDriver::Gate(gate.clone()), Some(reason)),
                }
            }
            Self::Relay(driver, reason) => (driver.clone(), reason.clone()),
        };
        match program {
            // A relay would need the program to use another descriptor than it already does.
            ProgramSocket::Tcp => Placement::Plain(reason.unwrap_or(PlacementReason::InUse)),
            ProgramSocket::Undecided | ProgramSocket::Local => Placement::Relay(relay, reason),
        }
    }

    /// Replaces what stands for the kernel driver by the driver that `open` returns.
    ///
    /// # Errors
    /// Why there is none, where no other driver may take its place.
    pub fn open<T>(
        self,
        open: impl FnOnce(&K) -> Result<T, PlacementReason>,
    ) -> Result<DriverChoice<T>, PlacementReason> {
        match (self.place(ProgramSocket::Undecided, open), self) {
            (Placement::Kernel(driver), Self::KernelOrGate(_, gate)) => {
                Ok(DriverChoice::KernelOrGate(driver, gate))
            }
            (Placement::Kernel(driver), _) => Ok(DriverChoice::Kernel(driver)),
            (Placement::Relay(driver, reason), _) => Ok(DriverChoice::Relay(driver, reason)),
            (Placement::Plain(reason), _) => Err(reason),
        }
    }

    /// Returns the kernel driver, if connections may get it.
    pub fn kernel(&self) -> Option<&K> {
        match self {
            Self::Kernel(driver) | Self::KernelOrGate(driver, _) => Some(driver),
            Self::Relay(..) => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use cellpace_alcc::AlccRole;

    use super::*;
    use crate::options::{ClientServerOptions, FlowShare};

    /// What came of a question to the kernel driver.
    type Asked = Result<u32, PlacementReason>;

    fn refused() -> PlacementReason {
        PlacementReason::Refused("too many sockets".into())
    }

    fn shared() -> GateOptions {
        GateOptions { share: Some(FlowShare { weight: 1 }), ..GateOptions::default() }
    }

    /// Where a connection is placed when the kernel driver answers so, and why.
    fn place(
        choice: &DriverChoice<()>,
        program: ProgramSocket,
        answer: Asked,
    ) -> (&'static str, Option<PlacementReason>) {
        let placement = choice.place(program, |()| answer);
        (placement.name(), placement.reason().cloned())
    }

    #[test]
    fn the_kernel_driver_alone_is_never_replaced_by_the_gate() {
        let choice = DriverChoice::Kernel(());
        for program in [ProgramSocket::Undecided, ProgramSocket::Tcp] {
            assert_eq!(place(&choice, program, Ok(7)), ("kernel", None));
            assert_eq!(place(&choice, program, Err(refused())), ("plain", Some(refused())));
        }
        let not_open = Some(PlacementReason::NotOpen);
        assert_eq!(place(&choice, ProgramSocket::Local, Ok(7)), ("plain", not_open));
    }

    #[test]
    fn auto_has_the_gate_in_place_of_the_kernel_driver_and_keeps_the_reason() {
        let choice = DriverChoice::KernelOrGate((), GateOptions::default());
        let (undecided, refusal) = (ProgramSocket::Undecided, Some(refused()));
        assert_eq!(place(&choice, undecided, Ok(7)), ("kernel", None));
        assert_eq!(place(&choice, undecided, Err(refused())), ("gate", refusal.clone()));
        let not_open = Some(PlacementReason::NotOpen);
        assert_eq!(place(&choice, ProgramSocket::Local, Ok(7)), ("gate", not_open));
        assert_eq!(place(&choice, ProgramSocket::Tcp, Err(refused())), ("plain", refusal));
        let choice = DriverChoice::KernelOrGate((), shared());
        let option = Some(PlacementReason::GateOption("--share"));
        assert_eq!(place(&choice, undecided, Ok(7)), ("gate", option));
    }

    #[test]
    fn drivers_that_relay_do_not_ask_the_kernel_driver() {
        let client_server = FlowDriver::ClientServer(ClientServerOptions::new(AlccRole::Connect));
        for driver in [FlowDriver::Gate(GateOptions::default()), client_server] {
            let name = driver.kind().name();
            let choice = DriverChoice::Relay(driver, None);
            for program in [ProgramSocket::Undecided, ProgramSocket::Local] {
                assert_eq!(place(&choice, program, Ok(7)), (name, None));
            }
            let in_use = Some(PlacementReason::InUse);
            assert_eq!(place(&choice, ProgramSocket::Tcp, Ok(7)), ("plain", in_use));
        }
    }

    #[test]
    fn opening_keeps_the_choice_or_the_reason_against_it() {
        let open = |choice: DriverChoice<()>, answer: Asked| choice.open(|()| answer);
        let auto = || DriverChoice::KernelOrGate((), GateOptions::default());
        let reason = || PlacementReason::NoKernelDriver("not installed".into());
        assert!(matches!(open(auto(), Ok(7)), Ok(DriverChoice::KernelOrGate(7, _))));
        assert!(matches!(open(DriverChoice::Kernel(()), Ok(7)), Ok(DriverChoice::Kernel(7))));
        assert_eq!(open(DriverChoice::Kernel(()), Err(reason())).unwrap_err(), reason());
        let Ok(choice) = open(auto(), Err(reason())) else { panic!("auto has the gate") };
        assert!(choice.kernel().is_none());
        assert!(
            matches!(choice, DriverChoice::Relay(FlowDriver::Gate(_), Some(kept)) if kept == reason())
        );
    }
}
