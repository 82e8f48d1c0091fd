//! `cellpace kernel install --cc mdi`: a controller that needs no process.

use std::process::ExitCode;

use cellpace_kernel::native::default_here;
use cellpace_kernel::table::{self, NAME};

use crate::error::CommandError;
use crate::output::print;

pub(super) fn remove(name: &str) -> Result<ExitCode, CommandError> {
    let name = ours(name);
    if !table::remove(name).map_err(CommandError::failed)? {
        return Err(CommandError::failed(format!("congestion control `{name}` is not installed")));
    }
    print("removed; connections that use it keep to it until they end\n")?;
    if is_default(name) {
        print(
            "it still is the default here: choose another by sysctl net.ipv4.tcp_congestion_control\n",
        )?;
    }
    Ok(ExitCode::SUCCESS)
}

/// The name that is the driver's stands for that of tables, unless a test chose one.
pub(super) fn ours(name: &str) -> &str {
    if name == cellpace_kernel::NAME { NAME } else { name }
}

fn is_default(name: &str) -> bool {
    default_here().as_deref() == Some(name)
}

#[cfg(feature = "kernel")]
pub(super) use with_program::install;

#[cfg(feature = "kernel")]
mod with_program {
    use cellpace_cc::{ControllerSpec, MarkovWalk};
    use cellpace_kernel::mdi::{self, Done, NativeError, TableInstallation};
    use cellpace_kernel::table::TableOrigin;
    use sha2::{Digest, Sha256};

    use crate::kernel::InstallArgs;

    use super::{CommandError, ExitCode, is_default, ours, print};
    use cellpace_kernel::native::set_default;

    pub(in crate::kernel) fn install(
        spec: &ControllerSpec,
        cc: &str,
        args: &InstallArgs,
    ) -> Result<ExitCode, CommandError> {
        let (seed, everyone) = (args.seed, args.everyone);
        let MarkovWalk { flat, slow_start, teacher } = spec
            .markov_walk()
            .ok_or_else(|| CommandError::usage("--cc: users=adapt does not run in the kernel"))?;
        let name = ours(&args.name).to_owned();
        let origin = TableOrigin {
            teacher,
            controller: cc.to_owned(),
            sha256: Sha256::digest(flat.to_bytes()).into(),
        };
        let settings = TableInstallation { flat, seed, slow_start, everyone, name, origin };
        let done = mdi::install(&settings).map_err(|error| match error {
            NativeError::Name(_) => CommandError::usage(error),
            error => CommandError::failed(error),
        })?;
        let name = &settings.name;
        let said = match done {
            Done::New => format!(
                "congestion control `{name}` installed: select it by \
                 `sysctl net.ipv4.tcp_congestion_control={name}`, \
                 `ip route change ... congctl {name}` or setsockopt(TCP_CONGESTION)\n"
            ),
            _ if renew_default(name)? => format!(
                "congestion control `{name}` replaced, also as the default here; connections and \
                 listening sockets that are there keep to the table before\n"
            ),
            _ => format!(
                "congestion control `{name}` replaced; connections, listening sockets and routes \
                 that are there keep to the table before\n"
            ),
        };
        print(&said)?;
        Ok(ExitCode::SUCCESS)
    }

    /// The default points at the congestion control of old, whatever its name means now.
    fn renew_default(name: &str) -> Result<bool, CommandError> {
        if !is_default(name) {
            return Ok(false);
        }
        set_default(name).map_err(|error| {
            CommandError::failed(format!("net.ipv4.tcp_congestion_control: {error}"))
        })?;
        Ok(true)
    }
}
