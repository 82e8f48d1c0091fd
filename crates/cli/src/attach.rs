//! `cellpace attach`: connections of programs that cannot be preloaded, under a controller.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER};
use cellpace_control::Ports;
use cellpace_kernel::NAME;
use clap::Args;

use crate::connection_outputs::ConnectionOutputs;
use crate::error::CommandError;
use crate::experiment_options::{ExperimentOptions, ReadExperiment};
use crate::flow_options::InKernelArg;
use crate::options::whole;
use crate::sample_options::SampleOptions;

/// Arguments of `cellpace attach`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace attach --in 443
  cellpace attach --in 80,443 --pid $(pidof caddy) -v
  cellpace attach --out 22     # connections that programs open

The programs need no restart and no library, so that static ones and those in Go work, too. New
connections at the ports are under the controller until this command ends; connections that exist
are not touched. Needs `cellpace kernel install` before, and CAP_BPF, CAP_PERFMON and
CAP_NET_ADMIN, as root has them; with Verus and Markov tables better CAP_SYS_PTRACE, too.

Exit code: 0 after SIGTERM, which is how services end; 130 after Ctrl-C.")]
pub(crate) struct AttachArgs {
    /// Connections that programs accept at these ports: 443, 80,8000-8100 or all
    #[arg(long = "in", value_name = "PORTS", required_unless_present = "outgoing")]
    incoming: Option<Ports>,
    /// Connections that programs open to these ports
    #[arg(long = "out", value_name = "PORTS")]
    outgoing: Option<Ports>,
    /// The controller
    #[arg(long, value_name = "CONTROLLER", default_value = DEFAULT_CONTROLLER)]
    cc: String,
    /// Where the controller is: in the kernel by itself (native; see `cellpace kernel`), or here with its
    /// window in the kernel (kernel). auto: native where it is installed, else kernel
    #[arg(long, value_enum, default_value_t = InKernelArg::Auto)]
    driver: InKernelArg,
    /// Programs in this cgroup, of version 2, and below it [default: all programs]
    #[arg(long, value_name = "PATH", conflicts_with = "pid")]
    cgroup: Option<PathBuf>,
    /// Programs in the cgroup of this process, and below it
    #[arg(long, value_name = "PID", value_parser = whole(1..=u32::MAX))]
    pid: Option<u32>,
    #[command(flatten)]
    samples: SampleOptions,
    #[command(flatten)]
    experiment: ExperimentOptions,
    #[command(flatten)]
    outputs: ConnectionOutputs,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

pub(crate) fn run(args: &AttachArgs) -> Result<ExitCode, CommandError> {
    args.experiment.check_files(&args.outputs, None)?;
    let cc = controller(&args.cc);
    let cc = cc.map_err(|error| CommandError::usage(format!("--cc: {error}")))?;
    let experiment = args.experiment.read(&args.outputs, controller)?;
    experiment.as_ref().map_or(Ok(()), ReadExperiment::check_without_first_bytes)?;
    daemon::run(args, &cc, experiment)
}

fn controller(text: &str) -> Result<ControllerSpec, String> {
    let cc = cellpace_lab::read_controller(text).map_err(|error| error.to_string())?;
    if cc.has_receiver() {
        return Err(format!(
            "{} needs a receiver half at the peer, which the kernel driver does not have",
            cc.name()
        ));
    }
    Ok(cc)
}

#[cfg(not(feature = "kernel"))]
mod daemon {
    use super::{AttachArgs, CommandError, ControllerSpec, ExitCode};
    use crate::experiment_options::ReadExperiment;

    pub(super) fn run(
        args: &AttachArgs,
        _: &ControllerSpec,
        _: Option<ReadExperiment>,
    ) -> Result<ExitCode, CommandError> {
        let AttachArgs { incoming: _, outgoing: _, cgroup: _, pid: _, name: _, driver: _, .. } =
            args;
        Err(crate::kernel::without_program())
    }
}

#[cfg(feature = "kernel")]
mod daemon {
    use std::path::Path;

    use cellpace_control::Ports;
    use cellpace_experiment::AssignBy;
    use cellpace_kernel::attach::{
        ArmDraw, AttachArm, AttachError, AttachOptions, Attachment, missing_capabilities,
    };
    use cellpace_kernel::cgroup;
    use cellpace_kernel::facts::Facts;
    use cellpace_run::{AttachPlan, AttachedArm, Attacher, LoggingCommand};
    use cellpace_tcp::{ControlOptions, DriverChoice, KernelHolder, Treatment};

    use super::{AttachArgs, CommandError, ControllerSpec, ExitCode, PathBuf};
    use crate::experiment_options::{OpenExperiment, ReadExperiment};
    use crate::flow_options::{installed_as, open_in_kernel, seed};
    use crate::progress::{end_cleanly_on_ctrl_c, interrupted, service_exit_code};

    pub(super) fn run(
        args: &AttachArgs,
        cc: &ControllerSpec,
        experiment: Option<ReadExperiment>,
    ) -> Result<ExitCode, CommandError> {
        if !cellpace_kernel::HAS_PROGRAMS {
            return Err(crate::kernel::without_program());
        }
        end_cleanly_on_ctrl_c();
        // One for each process that has connections of ours.
        cellpace_os::descriptors::raise_limit();
        check_capabilities(args)?;
        let cgroup = place(args)?;
        let verbosity = args.outputs.verbosity;
        let trial = experiment.as_ref().map(|read| {
            read.trial(|cc| controlled(args, &super::controller(cc).map_err(CommandError::usage)?))
        });
        let trial = trial.transpose()?;
        let mut treatments = match &trial {
            Some(trial) => trial.treatments().to_vec(),
            None => vec![Treatment::Controlled(Box::new(controlled(args, cc)?))],
        };
        let parts = experiment.as_ref().map(ReadExperiment::parts).unwrap_or_default();
        let draw = match experiment.as_ref().map(ReadExperiment::assign) {
            None | Some(AssignBy::Time) => ArmDraw::Chosen,
            Some(AssignBy::Client) => ArmDraw::Client,
            Some(AssignBy::Connection) => ArmDraw::Connection(&parts),
        };
        let attachment = attach(args, &cgroup, &treatments, draw)?;
        // Last of what can fail: a command that does not start leaves no file.
        if let [Treatment::Controlled(only)] = &mut treatments[..] {
            only.cc = args.samples.watch(std::slice::from_ref(&only.cc))?.remove(0);
        }
        let arms: Vec<AttachedArm> = treatments.into_iter().map(attached).collect();
        let first = arms.iter().find_map(|arm| match arm {
            AttachedArm::Controlled(_, cc) => Some(cc.clone()),
            AttachedArm::Plain => None,
        });
        let cc = first.unwrap_or_else(|| cc.clone());
        let what = what(args, trial.is_some());
        let experiment = experiment.map(|read| read.open(verbosity)).transpose()?;
        let recorder = experiment.as_ref().map(OpenExperiment::recorder).transpose()?;
        let metrics = experiment.as_ref().map(OpenExperiment::more_metrics);
        let (log, outputs) = args.outputs.open(LoggingCommand::Attach, &cc, metrics)?;
        let plan = AttachPlan { arms, trial, recorder: recorder.clone() };
        let attacher = Attacher::start(plan, attachment, seed()?, log, verbosity.printer());
        let mut attacher = attacher.map_err(CommandError::failed)?;
        verbosity.note(&format!("attached to {}: {}", cgroup.display(), what));
        let mut ended = Ok(());
        while !interrupted() && ended.is_ok() {
            ended = attacher.turn().map_err(CommandError::failed);
        }
        let open = attacher.end();
        let finished = outputs.finish();
        let recorded =
            experiment.map_or(Ok(()), |experiment| experiment.finish_with(recorder.as_deref()));
        ended.and(finished).and(recorded)?;
        match open {
            0 => {}
            1 => verbosity.note("1 connection continues without a controller (RFC 5681)"),
            count => verbosity
                .note(&format!("{count} connections continue without a controller (RFC 5681)")),
        }
        Ok(service_exit_code())
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

    /// How connections are controlled that are under this controller.
    fn controlled(args: &AttachArgs, cc: &ControllerSpec) -> Result<ControlOptions, CommandError> {
        let needs_process = args.samples.option().or(args.outputs.needs_decisions());
        let verbosity = args.outputs.verbosity;
        let holder = open_in_kernel(args.driver, &args.name, cc, needs_process, verbosity);
        let holder = holder.map_err(CommandError::failed)?;
        let cc = installed_as(&holder, cc);
        Ok(ControlOptions { cc, seed: seed()?, drivers: DriverChoice::Kernel(holder) })
    }

    fn attached(treatment: Treatment) -> AttachedArm {
        match treatment {
            Treatment::Plain(_) => AttachedArm::Plain,
            Treatment::Controlled(options) => {
                AttachedArm::Controlled(holder(&options).clone(), options.cc)
            }
        }
    }

    fn holder(options: &ControlOptions) -> &KernelHolder {
        options.drivers.kernel().expect("`controlled` chose the kernel")
    }

    fn arm<'a>(args: &'a AttachArgs, treatment: &'a Treatment) -> AttachArm<'a> {
        match treatment {
            Treatment::Plain(name) => AttachArm { name: name.as_deref().unwrap_or(""), slot: None },
            Treatment::Controlled(options) => match holder(options) {
                KernelHolder::Driver(driver) => {
                    AttachArm { name: &args.name, slot: Some(driver.slot()) }
                }
                KernelHolder::Native(native) => AttachArm { name: native.name(), slot: None },
            },
        }
    }

    fn attach(
        args: &AttachArgs,
        cgroup: &Path,
        treatments: &[Treatment],
        draw: ArmDraw<'_>,
    ) -> Result<Attachment, CommandError> {
        let arms: Vec<AttachArm<'_>> = treatments.iter().map(|of| arm(args, of)).collect();
        let options = AttachOptions {
            arms: &arms,
            draw,
            share: args.experiment.share_of.unwrap_or(1.0),
            accepted: args.incoming.as_ref().map_or(&[], Ports::ranges),
            opened: args.outgoing.as_ref().map_or(&[], Ports::ranges),
        };
        Attachment::new(cgroup, &options).map_err(|error| match error {
            AttachError::Ranges | AttachError::Arms => CommandError::usage(error),
            error => CommandError::failed(error),
        })
    }

    /// What is under control, in words.
    fn what(args: &AttachArgs, is_experiment: bool) -> String {
        let accepted = args.incoming.map(|ports| format!("accepted at {ports}"));
        let opened = args.outgoing.map(|ports| format!("opened to {ports}"));
        let which: Vec<String> = accepted.into_iter().chain(opened).collect();
        let under = match is_experiment {
            true => "in the experiment".to_owned(),
            false => format!("under {}", args.cc),
        };
        format!("connections {} are {under}", which.join(" and "))
    }
}
