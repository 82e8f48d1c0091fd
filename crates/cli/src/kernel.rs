//! `cellpace kernel`: the one privileged step.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_kernel::facts::{Facts, Obstacle};
use cellpace_kernel::native::NativeController;
use cellpace_kernel::{
    CallbackVariant, HAS_PROGRAMS, Installed, KernelError, NAME, PromptAcks, remove,
    remove_unfinished,
};
use cellpace_tcp::{DriverChoice, GateOptions, PlacementReason, ProgramSocket};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use crate::error::CommandError;
#[cfg(feature = "kernel")]
use crate::error::named;
use crate::output::{check_files, one_line, print, write_json};

mod markov;
mod mdi;
mod native;
mod unit;
mod watch;

/// Commands of `cellpace kernel`.
#[derive(Debug, Subcommand)]
pub(crate) enum KernelCommand {
    /// Load the congestion control `cellpace` and say who may control sockets (needs root)
    Install(InstallArgs),
    /// What this kernel can do, what is installed, and what cellpace will use
    Status(StatusArgs),
    /// Remove it from the kernel; sockets that use it continue without a controller (needs root)
    Remove(RemoveArgs),
    /// Show the sockets of a controller that runs in the kernel by itself (needs root)
    Watch(watch::WatchArgs),
}

/// Memory for the records of each controlling process, in KiB: some seconds of them.
const RING_KIB: u32 = 1024;

/// Arguments of `cellpace kernel install`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace kernel install --cc pace --default   # what `sysctl ...=bbr` does, with Pace
  cellpace kernel install --cc pace:empty=2%    # other parameters, also of open connections
  cellpace kernel install --persist             # the driver, again at each start of the system
  cellpace kernel install --prompt-acks eth0,wlan0

With --cc a controller runs in the kernel by itself, without any process. Without it the driver is
installed, for controllers in processes: everybody may select the congestion control, which without control goes by RFC 5681; the group may
set windows and see acknowledgments. To install again sets another group and other devices.")]
pub(crate) struct InstallArgs {
    /// Users that may control sockets, besides root [default: cellpace if there is that group]
    #[arg(long, value_name = "NAME")]
    group: Option<String>,
    /// Let every user control sockets: for machines of one user
    #[arg(long, conflicts_with = "group")]
    everyone: bool,
    /// Ask receivers behind these devices to acknowledge at once: packets of sockets under control
    /// leave with PSH (Linux 6.6); more acks
    #[arg(long, value_name = "DEV", value_delimiter = ',', conflicts_with = "cc")]
    prompt_acks: Vec<String>,
    /// Warn of devices that are not there, and leave them out
    #[arg(long, requires = "prompt_acks", hide = true)]
    skip_missing: bool,
    /// Install it at each start of the system, too, by a unit of systemd; the program must be where
    /// root alone can replace it
    #[arg(long)]
    persist: bool,
    /// Memory for the records of each controlling process, for tests: a power of two
    #[arg(long, value_name = "KIB", default_value_t = RING_KIB, hide = true, value_parser = clap::value_parser!(u32).range(64..=65_536))]
    ring: u32,
    /// Not the driver, but a controller that runs in the kernel by itself: pace, as congestion control
    /// `cellpace_pace`, copa, mdi, or mdi:model=FILE; with --everyone users may select it, too
    #[arg(long, value_name = "CONTROLLER", conflicts_with = "group")]
    cc: Option<String>,
    /// Make it the default of this network namespace; `remove` puts back the one before
    #[arg(long, requires = "cc")]
    default: bool,
    /// Seed of what is random in it, for tests; 0: drawn anew for each socket
    #[arg(long, value_name = "N", default_value_t = 0, requires = "cc", hide = true)]
    seed: u64,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

/// Arguments of `cellpace kernel status`.
#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace kernel status
  cellpace kernel status --json - | jq .uses")]
pub(crate) struct StatusArgs {
    /// Write it as JSON (`-`: standard output, and nothing else there)
    #[arg(long, value_name = "FILE")]
    json: Option<PathBuf>,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

/// Arguments of `cellpace kernel remove`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace kernel remove
  cellpace kernel remove --cc pace --now")]
pub(crate) struct RemoveArgs {
    /// Not the driver, but the controller that `install --cc` put into the kernel
    #[arg(long, value_name = "CONTROLLER", value_parser = removable())]
    cc: Option<String>,
    /// Open connections of this network namespace go on with `reno`; otherwise they keep to it
    #[arg(long, requires = "cc")]
    now: bool,
    /// Name of the congestion control
    #[arg(long, value_name = "NAME", default_value = NAME, hide = true)]
    name: String,
}

/// Names of controllers with a program of their own for the kernel.
fn native_names() -> Vec<&'static str> {
    NativeController::ALL.map(NativeController::controller).into()
}

fn removable() -> Vec<&'static str> {
    native_names().into_iter().chain([MDI]).collect()
}

/// The controller that runs in the kernel from a table.
const MDI: &str = "mdi";

pub(crate) fn run(command: &KernelCommand) -> Result<ExitCode, CommandError> {
    match command {
        KernelCommand::Install(_) if !HAS_PROGRAMS => Err(without_program()),
        KernelCommand::Install(args @ InstallArgs { cc: Some(cc), .. }) => {
            install_by_itself(args, cc)
        }
        KernelCommand::Install(args) => install(args),
        KernelCommand::Status(args) => status(args),
        KernelCommand::Remove(RemoveArgs { cc: Some(cc), name, now }) => {
            match NativeController::of(cc) {
                Some(native) => native::remove(native, name, *now),
                None if *now => Err(CommandError::usage(NOT_WITH_MDI)),
                None => mdi::remove(name),
            }
        }
        KernelCommand::Remove(args) => removal(args),
        KernelCommand::Watch(args) => watch::run(args),
    }
}

const NOT_WITH_MDI: &str = "--persist, --default and --now: not with mdi";

#[cfg(not(feature = "kernel"))]
fn install_by_itself(args: &InstallArgs, _: &str) -> Result<ExitCode, CommandError> {
    install(args)
}

#[cfg(feature = "kernel")]
fn install_by_itself(args: &InstallArgs, cc: &str) -> Result<ExitCode, CommandError> {
    let spec = named("--cc", cellpace_lab::read_controller(cc))?;
    if let Some(native) = NativeController::of(spec.name()) {
        no_obstacle(&args.name)?;
        return native::install(args, native, &spec);
    }
    match spec.name() {
        MDI if args.persist || args.default => Err(CommandError::usage(NOT_WITH_MDI)),
        MDI => mdi::install(&spec, cc, args),
        name => Err(CommandError::usage(format!(
            "--cc: {name} does not run in the kernel by itself, as pace, copa and mdi do; the driver \
             (`cellpace kernel install` alone) takes every controller"
        ))),
    }
}

#[cfg(not(feature = "kernel"))]
fn install(args: &InstallArgs) -> Result<ExitCode, CommandError> {
    let InstallArgs { group: _, everyone: _, persist: _, ring: _, cc: _, seed: _, name: _, .. } =
        args;
    let InstallArgs { prompt_acks: _, skip_missing: _, default: _, .. } = args;
    Err(without_program())
}

/// The error of commands that need the programs for the kernel, in a build without them.
pub(crate) fn without_program() -> CommandError {
    CommandError::failed(if cfg!(feature = "kernel") {
        "this cellpace was built without the programs for the kernel, since clang was missing: \
         install clang and build cellpace again"
    } else {
        "this cellpace was built without the feature `kernel`: build it with the default features"
    })
}

#[cfg(feature = "kernel")]
fn install(args: &InstallArgs) -> Result<ExitCode, CommandError> {
    use cellpace_kernel::install::{self, DriverAccess, InstallError, InstallOptions};

    let program = args.persist.then(unit::program).transpose()?;
    let access = match &args.group {
        _ if args.everyone => DriverAccess::Everyone,
        Some(name) => DriverAccess::Group(install::group(name).map_err(CommandError::usage)?),
        None => install::group(OUR_GROUP).map_or(DriverAccess::Root, DriverAccess::Group),
    };
    no_obstacle(&args.name)?;
    let options = InstallOptions {
        name: args.name.clone(),
        access,
        ring_bytes: args.ring << 10,
        prompt_acks: args.prompt_acks.clone(),
        skip_missing: args.skip_missing,
    };
    let done = install::install(&options).map_err(|error| match error {
        InstallError::Name(_) | InstallError::Ring(_) | InstallError::Device(_) => {
            CommandError::usage(error)
        }
        error => CommandError::failed(error),
    })?;
    let mut said = String::new();
    if done.was_unfinished {
        said += REMOVED_UNFINISHED;
    }
    if let Some((version, sockets)) = &done.replaced {
        // Whoever may control sockets can write this text.
        let version = one_line(version);
        said += &format!("removed that of cellpace {version}; {}\n", left(Some(*sockets)));
    }
    for device in &done.missing {
        eprintln!(
            "warning: there is no network device `{device}`: no prompt acknowledgments there"
        );
    }
    let what = if done.was_there { "is installed already" } else { "installed" };
    let facts = Facts::find(&args.name);
    let who = facts.open_to.unwrap_or_default();
    said += &format!(
        "congestion control `{}` {what}; control of sockets is open to {who}\n",
        args.name
    );
    if let Ok(Installed { prompt_acks, .. }) = &facts.installed
        && !prompt_acks.is_empty()
    {
        said += &format!("prompt acknowledgments on {}\n", devices(prompt_acks));
    }
    print(&said)?;
    if let Some(program) = program {
        print(&unit::persist(&program, None, &arguments(args))?)?;
    }
    Ok(ExitCode::SUCCESS)
}

/// Fails with the first reason why this process can install nothing in this kernel.
#[cfg(feature = "kernel")]
fn no_obstacle(name: &str) -> Result<(), CommandError> {
    let obstacles = Facts::find(name).obstacles();
    obstacles.first().map_or(Ok(()), |obstacle| Err(CommandError::failed(obstacle)))
}

/// What an installation at the system's start has to say to be the same.
#[cfg(feature = "kernel")]
fn arguments(args: &InstallArgs) -> Vec<String> {
    let mut words = Vec::new();
    if args.ring != RING_KIB {
        words.extend(["--ring".to_owned(), args.ring.to_string()]);
    }
    if let Some(group) = &args.group {
        words.extend(["--group".to_owned(), group.clone()]);
    }
    words.extend(args.everyone.then(|| "--everyone".to_owned()));
    if !args.prompt_acks.is_empty() {
        words.extend(["--prompt-acks".to_owned(), args.prompt_acks.join(",")]);
        // Devices may come later than the unit, which shall not fail for it.
        words.push("--skip-missing".to_owned());
    }
    words
}

/// Who may control sockets when no group is named.
#[cfg(feature = "kernel")]
const OUR_GROUP: &str = "cellpace";

const REMOVED_UNFINISHED: &str = "removed what an installation left that was killed\n";

fn removal(args: &RemoveArgs) -> Result<ExitCode, CommandError> {
    let was_unfinished = remove_unfinished(&args.name).map_err(CommandError::failed)?;
    let removed = remove(&args.name).map_err(CommandError::failed);
    // Also when nothing is installed now: it shall not come back.
    let forgotten = if args.name == NAME { unit::forget(None)? } else { false };
    if forgotten {
        print("it will not be installed at the system's start any more\n")?;
    }
    if was_unfinished {
        print(REMOVED_UNFINISHED)?;
    }
    match removed {
        Ok(removed) => print(&format!("removed; {}\n", left(removed.sockets)))?,
        Err(failure) if !forgotten && !was_unfinished => return Err(failure),
        Err(_) => {}
    }
    Ok(ExitCode::SUCCESS)
}

fn left(sockets: Option<u64>) -> String {
    match sockets {
        Some(0) => "no socket uses it".to_owned(),
        Some(1) => "1 socket that uses it continues without a controller".to_owned(),
        Some(count) => format!("{count} sockets that use it continue without a controller"),
        None => "sockets that use it continue without a controller".to_owned(),
    }
}

fn status(args: &StatusArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--json", args.json.as_deref())])?;
    let facts = Facts::find(&args.name);
    let markov = markov::TableStatus::look(&args.name);
    let native = native::NativeStatus::look(&args.name);
    let rows: String = native.iter().filter_map(native::NativeStatus::row).collect();
    let text = table(&facts) + &markov.rows() + &rows;
    let json = || {
        let mut document = markov.add_to(document(&facts));
        document["native"] = native.iter().filter_map(native::NativeStatus::document).collect();
        format!("{document:#}\n")
    };
    if write_json(args.json.as_deref(), json)? {
        print(&text)?;
    }
    Ok(ExitCode::SUCCESS)
}

fn document(facts: &Facts) -> Value {
    let texts = |list: &[Obstacle]| list.iter().map(ToString::to_string).collect::<Vec<_>>();
    let (driver, reason) = used_driver(facts);
    json!({
        "schema": "cellpace.kernel/1",
        "kernel": facts.release,
        "btf": facts.btf.is_some(),
        "callback": callback(facts),
        "missing_capabilities": facts.missing_capabilities(),
        "lockdown": facts.lockdown,
        "unprivileged_bpf_disabled": facts.unprivileged_bpf_disabled,
        "can_install": HAS_PROGRAMS && facts.obstacles().is_empty(),
        "built_with_program": HAS_PROGRAMS,
        "obstacles": texts(&facts.obstacles()),
        "mdi_obstacles": texts(&facts.obstacles_to_mdi()),
        "notes": facts.notes(),
        "installed": facts.installed.as_ref().ok().map(|installed| json!({
            "name": installed.name,
            "version": installed.version,
            "layout": installed.layout,
            "open_to": facts.open_to,
            "ring_bytes": installed.ring_bytes,
            "sockets": installed.sockets,
            "controllers": installed.slots,
            "slots": cellpace_kernel::SLOTS,
            "records_dropped": installed.dropped,
            "fallbacks": installed.fallbacks,
            "prompt_acks": installed.prompt_acks.iter().map(|PromptAcks { device, attached }| json!({
                "device": device,
                "attached": attached,
            })).collect::<Vec<_>>(),
        })),
        "pins_gone": matches!(facts.installed, Err(KernelError::PinsGone)),
        "uses": driver,
        "reason": reason,
    })
}

/// Which driver `--driver auto` uses for TCP of this process, and why.
fn used_driver(facts: &Facts) -> (&'static str, String) {
    let missing = |why: String| PlacementReason::NoKernelDriver(why.into());
    let auto = DriverChoice::KernelOrGate((), GateOptions::default());
    let usable = |(): &()| facts.check_usable().map_err(missing);
    let placement = auto.place(ProgramSocket::Undecided, usable);
    let reason = placement.reason().map(ToString::to_string);
    (placement.name(), reason.unwrap_or_else(|| "it is installed and open to us".to_owned()))
}

/// Which signature of `cong_control` the kernel has.
fn callback(facts: &Facts) -> Option<&'static str> {
    match facts.btf {
        Some(Ok(CallbackVariant::Ack)) => Some("from 6.10"),
        Some(Ok(CallbackVariant::Sample)) => Some("before 6.10"),
        _ => None,
    }
}

fn table(facts: &Facts) -> String {
    let missing = facts.missing_capabilities();
    let (driver, reason) = used_driver(facts);
    let uses = if driver == "kernel" { "kernel driver" } else { driver };
    let disabled = facts.unprivileged_bpf_disabled.map(|value| value.to_string());
    let rows = [
        ("kernel", facts.release.clone()),
        ("BTF", callback(facts).map_or("no".to_owned(), |when| format!("yes, callback as {when}"))),
        (
            "capabilities",
            if missing.is_empty() {
                "enough".into()
            } else {
                format!("lacks {}", missing.join(", "))
            },
        ),
        ("lockdown", facts.lockdown.clone().unwrap_or_else(|| "none".to_owned())),
        ("unprivileged_bpf_disabled", disabled.unwrap_or_else(|| "-".to_owned())),
        ("can be installed", can(&facts.obstacles())),
        ("MDI can be installed", can(&facts.obstacles_to_mdi())),
        ("installed", what(facts)),
    ];
    let mut rows = rows.to_vec();
    if let Ok(installed) = &facts.installed {
        rows.extend(use_of(installed));
    }
    rows.push(("cellpace uses", format!("{uses}: {reason}")));
    rows.extend(facts.notes().into_iter().map(|note| ("note", note)));
    // Some of the values stand in memory that others may write to.
    rows.iter().map(|(name, value)| format!("{name:<27}{}\n", one_line(value))).collect()
}

fn can(obstacles: &[Obstacle]) -> String {
    let obstacles: Vec<_> = obstacles.iter().map(ToString::to_string).collect();
    match () {
        () if !obstacles.is_empty() => format!("no: {}", obstacles.join("; ")),
        () if HAS_PROGRAMS => "yes".to_owned(),
        () => format!("no: {}", without_program()),
    }
}

fn what(facts: &Facts) -> String {
    match &facts.installed {
        Ok(Installed { name, version, layout, .. }) => {
            let who = facts.open_to.as_deref().unwrap_or("somebody");
            format!("`{name}` of cellpace {version}, layout {layout}, open to {who}")
        }
        Err(KernelError::NotInstalled) => "no".to_owned(),
        Err(error) => error.to_string(),
    }
}

fn use_of(installed: &Installed) -> Vec<(&'static str, String)> {
    let controllers =
        installed.slots.iter().map(|pid| format!(", process {pid}")).collect::<String>();
    vec![
        ("sockets", installed.sockets.to_string()),
        (
            "controllers",
            format!("{} of {}{controllers}", installed.slots.len(), cellpace_kernel::SLOTS),
        ),
        ("records dropped", installed.dropped.to_string()),
        ("fallbacks", format!("{} times a socket lost its controller", installed.fallbacks)),
        ("prompt acks", devices(&installed.prompt_acks)),
    ]
}

fn devices(prompt_acks: &[PromptAcks]) -> String {
    let names = prompt_acks.iter().map(|PromptAcks { device, attached }| match attached {
        Some(false) => format!("{device} (gone)"),
        _ => device.clone(),
    });
    let names: Vec<_> = names.collect();
    if names.is_empty() { "on no device".to_owned() } else { names.join(", ") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn facts() -> Facts {
        Facts {
            release: "6.1.0".to_owned(),
            btf: None,
            links: false,
            capabilities: 0,
            lockdown: None,
            unprivileged_bpf_disabled: Some(2),
            unfinished: false,
            installed: Err(KernelError::NotInstalled),
            open_to: None,
        }
    }

    #[test]
    fn a_kernel_without_btf_is_shown_with_what_is_used_instead() {
        let text = table(&facts());
        assert!(text.contains("cellpace uses              gate: this kernel has no BTF"), "{text}");
        let document = document(&facts());
        assert_eq!(document["uses"], "gate");
        assert_eq!(document["can_install"], false);
        assert_eq!(document["installed"], Value::Null);
        assert_eq!(document["obstacles"].as_array().unwrap().len(), 2);
    }

    #[test]
    fn texts_of_the_shared_page_are_one_line_and_obeyed_by_no_terminal() {
        let version = "\u{1b}[2J\ninstalled  yes".to_owned();
        let installed = Installed { version, ..Installed::default() };
        let text = table(&Facts { installed: Ok(installed), ..facts() });
        assert!(text.contains("of cellpace \\u{1b}[2J\\ninstalled  yes, layout"), "{text}");
        assert!(!text.contains('\u{1b}'), "{text}");
    }

    #[test]
    fn what_is_installed_is_shown_with_its_use() {
        let installed = Installed {
            name: "cellpace".to_owned(),
            version: "1.2.3".to_owned(),
            layout: cellpace_kernel::LAYOUT,
            sockets: 7,
            slots: vec![42],
            dropped: 3,
            prompt_acks: vec![
                PromptAcks { device: "eth0".to_owned(), attached: Some(true) },
                PromptAcks { device: "wg0".to_owned(), attached: Some(false) },
            ],
            ..Installed::default()
        };
        let open_to = Some("root and group net".to_owned());
        let facts = Facts { installed: Ok(installed), open_to, ..facts() };
        let text = table(&facts);
        assert!(text.contains("1.2.3") && text.contains("root and group net"), "{text}");
        assert!(text.contains("1 of 16, process 42"), "{text}");
        assert!(text.contains("prompt acks                eth0, wg0 (gone)\n"), "{text}");
        let document = document(&facts);
        assert_eq!(document["installed"]["prompt_acks"][1]["attached"], false);
        assert_eq!(document["uses"], "kernel");
        assert_eq!(document["installed"]["records_dropped"], 3);
        let schema = include_str!("../../../docs/reference/schemas/kernel.json");
        let schema: Value = serde_json::from_str(schema).unwrap();
        jsonschema::validate(&schema["properties"]["installed"], &document["installed"]).unwrap();
    }

    #[cfg(feature = "kernel")]
    #[test]
    fn an_installation_at_the_systems_start_does_without_devices_that_come_later() {
        use clap::Parser;

        #[derive(Parser)]
        struct Line {
            #[command(flatten)]
            args: InstallArgs,
        }
        let words = |line: &str| arguments(&Line::parse_from(line.split(' ')).args).join(" ");
        assert_eq!(words("install --persist"), "");
        assert_eq!(words("install --persist --ring 512"), "--ring 512");
        assert_eq!(
            words("install --prompt-acks eth0,wlan0 --persist --everyone"),
            "--everyone --prompt-acks eth0,wlan0 --skip-missing"
        );
    }

    #[test]
    fn sockets_that_are_left_are_counted() {
        assert_eq!(left(Some(1)), "1 socket that uses it continues without a controller");
        assert!(left(Some(2)).starts_with("2 sockets") && left(None).starts_with("sockets"));
    }
}
