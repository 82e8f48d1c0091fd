//! `cellpace kernel install --cc pace`: controllers that run in the kernel by themselves.

use std::io::ErrorKind;
use std::process::ExitCode;

use cellpace_base::utc_text;
use cellpace_kernel::native::{self, InstalledNative, NativeController, default_here, set_default};
use cellpace_kernel::{KernelError, NAME};
use serde_json::{Value, json};

use crate::error::CommandError;
use crate::output::print;

use super::unit;

/// What TCP has without any choice, and what open connections get.
const RENO: &str = "reno";

/// The name that is the driver's stands for that of the controller, unless a test chose one.
pub(super) fn ours(native: NativeController, name: &str) -> &str {
    if name == NAME { native.congestion_control() } else { name }
}

#[cfg(feature = "kernel")]
pub(super) fn install(
    args: &super::InstallArgs,
    native: NativeController,
    spec: &cellpace_cc::ControllerSpec,
) -> Result<ExitCode, CommandError> {
    use cellpace_kernel::native::{Done, NativeError, NativeInstallation, move_sockets};

    let program = args.persist.then(unit::program).transpose()?;
    let name = ours(native, &args.name);
    let settings = spec.kernel_settings().ok_or_else(super::without_program)?;
    let settings = NativeInstallation {
        controller: spec.to_string(),
        everyone: args.everyone,
        default: args.default,
        name: name.to_owned(),
        ..NativeInstallation::new(native, settings.words)
    };
    let done = native::install(&settings).map_err(|error| match error {
        NativeError::Name(_) => CommandError::usage(error),
        error => CommandError::failed(error),
    })?;
    let what = match done {
        Done::New => "installed",
        Done::Changed => "has these parameters now, for open connections, too",
        Done::Replaced => {
            move_sockets(name, name).map_err(|error| {
                CommandError::failed(format!(
                    "`{name}` is replaced, but open connections go on with the program before: {error}"
                ))
            })?;
            "replaced, for open connections of this network namespace, too"
        }
    };
    print(&format!("congestion control `{name}` {what}\n"))?;
    if default_here().as_deref() == Some(name) {
        print("it is the default of this network namespace\n")?;
    } else {
        print(&format!(
            "select it by `--default` or `sysctl net.ipv4.tcp_congestion_control={name}`, \
             `ip route change ... congctl {name}` or setsockopt(TCP_CONGESTION)\n"
        ))?;
    }
    if let Some(program) = program {
        print(&unit::persist(&program, Some(native.controller()), &arguments(args))?)?;
    }
    match done {
        Done::Changed => Ok(ExitCode::SUCCESS),
        _ => print_other_defaults(name, "get the program before, if there was one"),
    }
}

/// What an installation at the system's start has to say to be the same.
#[cfg(feature = "kernel")]
fn arguments(args: &super::InstallArgs) -> Vec<String> {
    let cc = args.cc.iter().flat_map(|cc| ["--cc".to_owned(), cc.clone()]);
    let switches = [(args.everyone, "--everyone"), (args.default, "--default")];
    let switches = switches.into_iter().filter(|(is_on, _)| *is_on);
    cc.chain(switches.map(|(_, name)| name.to_owned())).collect()
}

pub(super) fn remove(
    native: NativeController,
    name: &str,
    now: bool,
) -> Result<ExitCode, CommandError> {
    let is_test = name != NAME;
    let name = ours(native, name);
    let known = native::installed(name).map_err(CommandError::failed)?;
    let default = known.as_ref().and_then(|known| given_up(known, default_here().as_deref()));
    let default = default.map(|before| put_back(&before)).transpose()?;
    let removed = native::remove(name).map_err(CommandError::failed)?;
    // Also when nothing is installed now: it shall not come back.
    let forgotten = if is_test { false } else { unit::forget(Some(native.controller()))? };
    let before = known.and_then(|known| known.before);
    native::forget_default(name, before.as_deref().unwrap_or(RENO))
        .map_err(CommandError::failed)?;
    let moved = if now { moved(name)? } else { None };
    if !removed && !forgotten && moved.is_none_or(|moved| moved == 0) {
        return Err(CommandError::failed(format!("congestion control `{name}` is not installed")));
    }
    if forgotten {
        print("it will not be installed at the system's start any more\n")?;
    }
    if let Some(before) = default {
        print(&format!("the default of this network namespace is `{before}` again\n"))?;
    }
    print(&match moved {
        None if !removed => return Ok(ExitCode::SUCCESS),
        Some(1) => format!("removed; 1 socket of this network namespace goes on with {RENO}\n"),
        Some(moved) => {
            format!("removed; {moved} sockets of this network namespace go on with {RENO}\n")
        }
        None => "removed; connections that use it keep to it until they end\n".to_owned(),
    })?;
    if default_here().as_deref() == Some(name) {
        print(
            "it still is the default here: choose another by sysctl net.ipv4.tcp_congestion_control\n",
        )?;
    }
    print_other_defaults(name, "still get the program that is removed")
}

/// Names network namespaces in which new connections keep to a program, as Linux has it: a default is a
/// program, not a name.
fn print_other_defaults(name: &str, what: &str) -> Result<ExitCode, CommandError> {
    let others = native::other_defaults(name);
    if !others.is_empty() {
        print(&format!(
            "elsewhere it is the default, and new connections {what}, until the default is set again \
             (nsenter -t PID -n, or ip netns exec NAME, sysctl net.ipv4.tcp_congestion_control=...): {}\n",
            others.join(", ")
        ))?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Sets the default of before, or what every kernel has if that is gone; returns which.
fn put_back(before: &str) -> Result<String, CommandError> {
    let set = match set_default(before) {
        Err(error) if error.kind() == ErrorKind::NotFound => set_default(RENO).map(|()| RENO),
        set => set.map(|()| before),
    };
    set.map(str::to_owned).map_err(|error| {
        CommandError::failed(format!("net.ipv4.tcp_congestion_control={before}: {error}"))
    })
}

/// The default to put back, if it is still ours.
fn given_up(known: &InstalledNative, default: Option<&str>) -> Option<String> {
    known.before.clone().filter(|_| default == Some(&*known.name))
}

#[cfg(feature = "kernel")]
fn moved(name: &str) -> Result<Option<u64>, CommandError> {
    native::move_sockets(name, RENO).map(Some).map_err(CommandError::failed)
}

#[cfg(not(feature = "kernel"))]
fn moved(_: &str) -> Result<Option<u64>, CommandError> {
    Err(super::without_program())
}

/// What `cellpace kernel status` says of one of them.
pub(super) struct NativeStatus {
    name: String,
    found: Result<Option<InstalledNative>, KernelError>,
    is_default: bool,
}

impl NativeStatus {
    /// Under the names that go with this one of the kernel driver.
    pub(super) fn look(driver: &str) -> Vec<Self> {
        let look = |native| {
            let name = ours(native, driver).to_owned();
            let is_default = default_here().as_ref() == Some(&name);
            Self { found: native::installed(&name), name, is_default }
        };
        NativeController::ALL.map(look).into()
    }

    /// A line of the text.
    pub(super) fn row(&self) -> Option<String> {
        let what = match &self.found {
            Ok(None) => return None,
            Ok(Some(found)) => self.describe(found),
            Err(KernelError::Unseen(_)) => "registered; root sees more".to_owned(),
            Err(error) => error.to_string(),
        };
        Some(format!("{:<27}{what}\n", format!("`{}`", self.name)))
    }

    /// Without the namespace that has it as its default.
    fn sockets(&self, found: &InstalledNative) -> u64 {
        found.sockets.saturating_sub(self.is_default.into())
    }

    fn describe(&self, found: &InstalledNative) -> String {
        let InstalledNative { controller, version, installed_at, .. } = found;
        let sockets = self.sockets(found);
        let users = if sockets == 1 { "1 socket".to_owned() } else { format!("{sockets} sockets") };
        let mut text = format!(
            "{controller} of cellpace {version}, since {}; {users}",
            utc_text(*installed_at)
        );
        for (is_so, words) in [
            (self.is_default, ", the default here"),
            (found.everyone, ", to be selected by everyone"),
            (!found.pinned, "; its pin is gone: `cellpace kernel remove --cc` removes it"),
        ] {
            text += if is_so { words } else { "" };
        }
        text
    }

    /// An object of the document of the status.
    pub(super) fn document(&self) -> Option<Value> {
        match &self.found {
            Ok(None) => None,
            Ok(Some(found)) => Some(json!({
                "name": found.name,
                "controller": found.controller,
                "version": found.version,
                "installed_at": utc_text(found.installed_at),
                "sockets": self.sockets(found),
                "everyone": found.everyone,
                "default": self.is_default,
                "pinned": found.pinned,
            })),
            Err(error) => Some(json!({ "name": self.name, "error": error.to_string() })),
        }
    }
}
