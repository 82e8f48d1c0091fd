//! `cellpace attach`: connections of programs that cannot be preloaded, under a controller.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_cc::ControllerSpec;
use cellpace_control::Ports;
use cellpace_kernel::NAME;
use clap::Args;

use crate::error::CommandError;

/// Arguments of `cellpace attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace attach --port 443 --cc verus
  cellpace attach --port 80,443 --pid $(pidof caddy) --cc copa --log
  cellpace attach --out 22 --cc copa     # connections that programs open

The programs need no restart and no library, so that static ones and those in Go work, too. New
connections at the ports are under the controller until this command ends; connections that exist
stay as they are. Needs `cellpace kernel install` before, and CAP_BPF, CAP_PERFMON and
CAP_NET_ADMIN, as root has them; with Verus and Markov tables better CAP_SYS_PTRACE, too.")]
pub(crate) struct AttachArgs {
    /// Connections that programs accept at these ports: 443 or 80,8000-8100
    #[arg(long, value_name = "PORTS", required_unless_present = "outgoing")]
    port: Option<Ports>,
    /// Connections that programs open to these ports
    #[arg(long = "out", value_name = "PORTS")]
    outgoing: Option<Ports>,
    /// The controller
    #[arg(long, value_name = "CONTROLLER", default_value = "verus")]
    cc: String,
    /// Seed of what is random in the controllers
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
    /// Programs in this cgroup, of version 2, and below it [default: all programs]
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    /// Programs in the cgroup of this process, and below it
    #[arg(long, value_name = "PID")]
    pid: Option<u32>,
    /// Say on standard error what became of each connection, one line each
    #[arg(long)]
    log: bool,
    /// Write the same as JSON, one object a line (schema cellpace.attach/1; `-`: standard output)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE")]
    events: Option<PathBuf>,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode, CommandError> {
    daemon::run(args, &controller(&args.cc)?)
}

fn controller(text: &str) -> Result<ControllerSpec, CommandError> {
    let cc = cellpace_lab::read_controller(text)
        .map_err(|error| CommandError::usage(format!("--cc: {error}")))?;
    if cc.has_receiver() {
        return Err(CommandError::usage(format!(
            "--cc: {} needs an answering half at the other end, which the kernel has not",
            cc.name()
        )));
    }
    Ok(cc)
}

#[cfg(not(feature = "kernel"))]
mod daemon {
    use super::{AttachArgs, CommandError, ControllerSpec, ExitCode};

    pub(super) fn run(args: &AttachArgs, _: &ControllerSpec) -> Result<ExitCode, CommandError> {
        let AttachArgs {
            port: _,
            outgoing: _,
            cgroup: _,
            pid: _,
            log: _,
            json: _,
            events: _,
            name: _,
            ..
        } = args;
        Err(crate::kernel::without_program())
    }
}

#[cfg(feature = "kernel")]
mod daemon {
    use std::fs::File;
    use std::io;
    use std::os::fd::AsFd;
    use std::path::Path;
    use std::sync::Arc;

    use cellpace_control::Ports;
    use cellpace_kernel::attach::{AttachError, AttachOptions, Attachment, missing_capabilities};
    use cellpace_kernel::cgroup;
    use cellpace_kernel::facts::Facts;
    use cellpace_run::{Attacher, ConnectionLog, EventWriter, LoggingCommand};
    use cellpace_tcp::KernelDriver;

    use super::{AttachArgs, CommandError, ControllerSpec, ExitCode, PathBuf};
    use crate::output::{complain, event_writer, is_stdout};
    use crate::progress::{end_cleanly_on_ctrl_c, interrupted};

    pub(super) fn run(args: &AttachArgs, cc: &ControllerSpec) -> Result<ExitCode, CommandError> {
        if !cellpace_kernel::HAS_PROGRAMS {
            return Err(crate::kernel::without_program());
        }
        end_cleanly_on_ctrl_c();
        // One for each process that has connections of ours.
        cellpace_os::descriptors::raise_limit();
        check_capabilities(args)?;
        let cgroup = place(args)?;
        let json = args.json.as_deref().map(open_json).transpose()?;
        let events = event_writer(args.events.as_deref(), "cellpace attach", cc)?;
        let log = ConnectionLog {
            command: LoggingCommand::Attach,
            lines: args.log.then_some(complain),
            json,
            events: events.as_ref().map(EventWriter::flows),
        };
        let driver = Arc::new(KernelDriver::open(&args.name).map_err(CommandError::failed)?);
        let attachment = attach(args, &cgroup, &driver)?;
        let attacher = Attacher::start(driver, attachment, cc.clone(), args.seed, log, complain);
        let mut attacher = attacher.map_err(CommandError::failed)?;
        complain(&format!("attached to {}: {}", cgroup.display(), what(args)));
        while !interrupted() {
            attacher.turn().map_err(CommandError::failed)?;
        }
        let open = attacher.end();
        if let Some(Err(error)) = events.map(EventWriter::finish) {
            complain(&format!("--events: {error}"));
        }
        match open {
            0 => {}
            1 => complain("1 connection goes on by itself (RFC 5681)"),
            count => complain(&format!("{count} connections go on by themselves (RFC 5681)")),
        }
        Ok(ExitCode::SUCCESS)
    }

    fn open_json(path: &Path) -> Result<File, CommandError> {
        let file = match is_stdout(path) {
            true => io::stdout().as_fd().try_clone_to_owned().map(File::from),
            false => File::create(path),
        };
        file.map_err(|error| CommandError::failed(format!("--json: {}: {error}", path.display())))
    }

    fn check_capabilities(args: &AttachArgs) -> Result<(), CommandError> {
        match missing_capabilities(&Facts::find(&args.name)).as_slice() {
            [] => Ok(()),
            missing => Err(CommandError::failed(format!(
                "this process lacks {}: run it as root, or with CAP_BPF, CAP_PERFMON and CAP_NET_ADMIN",
                missing.join(" and ")
            ))),
        }
    }

    fn place(args: &AttachArgs) -> Result<PathBuf, CommandError> {
        let place = match (&args.cgroup, args.pid) {
            (Some(path), _) => cgroup::check(path).map(|()| path.clone()),
            (None, Some(pid)) => cgroup::of_process(pid),
            (None, None) => cgroup::root(),
        };
        let option = match (&args.cgroup, args.pid) {
            (Some(_), _) => "--cgroup: ",
            (None, Some(_)) => "--pid: ",
            (None, None) => "",
        };
        place.map_err(|error| CommandError::failed(format!("{option}{error}")))
    }

    fn attach(
        args: &AttachArgs,
        cgroup: &Path,
        driver: &KernelDriver,
    ) -> Result<Attachment, CommandError> {
        let (slot, owner) = driver.slot();
        let options = AttachOptions {
            name: &args.name,
            slot,
            owner,
            accepted: args.port.as_ref().map_or(&[], Ports::ranges),
            opened: args.outgoing.as_ref().map_or(&[], Ports::ranges),
        };
        Attachment::new(cgroup, &options).map_err(|error| match error {
            AttachError::Ranges => CommandError::usage(error),
            error => CommandError::failed(error),
        })
    }

    /// What is under control, in words.
    fn what(args: &AttachArgs) -> String {
        let accepted = args.port.map(|ports| format!("accepted at {ports}"));
        let opened = args.outgoing.map(|ports| format!("opened to {ports}"));
        let which: Vec<String> = accepted.into_iter().chain(opened).collect();
        format!("connections {} are under {}", which.join(" and "), args.cc)
    }
}
