//! The program `cellpace`: arguments in, calls to the libraries, text out.
//!
//! It is a library, so that a program of your own is `cellpace` with your controllers: every command takes them by
//! name, with their parameters, presets and help.
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! use cellpace_cc::{Controller, ControllerInfo, ControllerParams, Permit, Setup, params};
//!
//! params! {
//!     /// The parameters of a constant window.
//!     struct ConstantParams {
//!         /// The window
//!         packets: u64 = "10" in 1..=1000, unit "packets", from "this example";
//!     }
//! }
//!
//! impl ControllerParams for ConstantParams {
//!     fn build(&self, setup: Setup) -> Box<dyn Controller> {
//!         Box::new(Constant(self.packets * setup.mss))
//!     }
//! }
//!
//! struct Constant(u64);
//!
//! impl Controller for Constant {
//!     fn permit(&self) -> Permit {
//!         Permit::Window(self.0)
//!     }
//! }
//!
//! const CONSTANT: ControllerInfo =
//!     ControllerInfo::new::<ConstantParams>("constant", "a constant window");
//!
//! fn main() -> ExitCode {
//!     cellpace::main_with(&[CONSTANT])
//! }
//! ```

mod address;
mod arguments;
mod attach;
mod attack;
mod catalogue;
mod cc;
mod compare;
mod complaint;
mod config_file;
mod conform;
mod connection_outputs;
mod dashboard;
mod documents;
mod error;
mod experiment;
mod experiment_options;
mod flow_options;
mod hints;
mod kernel;
mod key;
mod line_writer;
mod link;
mod link_change;
mod link_dashboard;
mod link_report;
mod link_watch;
mod mdi;
mod options;
mod output;
mod outputs;
mod path_options;
mod privileges;
mod probe;
mod progress;
mod proxy;
mod proxy_log;
mod proxy_reload;
mod queue;
mod report;
mod result_files;
mod run;
mod sample_options;
mod sim;
#[cfg_attr(not(feature = "parquet"), path = "sweep_missing.rs")]
mod sweep;
mod trace;
mod transfer;

use std::ffi::OsString;
use std::process::ExitCode;

use cellpace_cc::ControllerInfo;
use clap::error::{ContextKind, ContextValue};
use clap::{CommandFactory, Parser, Subcommand};

use crate::config_file::ConfigFile;
use crate::error::CommandError;

/// Congestion control for cellular and other fast-changing networks.
#[derive(Debug, Parser)]
#[command(name = "cellpace", version, about, max_term_width = 100)]
#[command(after_help = "Example:
  cellpace compare --trace lte-driving --cc verus --cc cubic --report out.html")]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Compare controllers, each alone, on one or more traces, in virtual time
    Compare(compare::CompareArgs),
    /// Simulate one scenario: several flows that share a bottleneck
    Sim(sim::SimArgs),
    /// Run a plan: traces x controllers x parameters x seeds, into Parquet files, and go on where it stopped
    Sweep(sweep::SweepArgs),
    /// Search the path on which a controller does worst, and write it as a scenario
    Attack(attack::AttackArgs),
    /// Make one page of results that commands wrote with --json
    Report(report::ReportArgs),
    /// List, show, check, convert, generate and fit traces
    #[command(subcommand)]
    Trace(trace::TraceCommand),
    /// Markov tables: controllers that imitate other controllers
    #[command(subcommand)]
    Mdi(mdi::MdiCommand),
    /// Run a program behind an emulated link, in real time
    Link(link::LinkArgs),
    /// Ask of any server's congestion control what RFC 9743 asks, over emulated links, in real time
    Conform(Box<conform::ConformArgs>),
    /// List the controllers, or the parameters of one
    Cc(cc::CcArgs),
    /// List the queues, or the parameters of one
    Queue(queue::QueueArgs),
    /// Run a program with its TCP connections under a controller
    Run(Box<run::RunArgs>),
    /// Send a file, standard input or made-up bytes over UDP under any controller
    Send(transfer::SendArgs),
    /// Receive what `cellpace send` sends
    Recv(transfer::RecvArgs),
    /// Make a key for `send`, `recv` and `probe`
    Key(key::KeyArgs),
    /// Put TCP connections of any program under a controller: forwarder, SOCKS 5, transparent
    Proxy(proxy::ProxyArgs),
    /// Experiments on live traffic: how long one must run
    #[command(subcommand)]
    Experiment(experiment::ExperimentCommand),
    /// The kernel driver: install it, look at it, remove it
    #[command(subcommand)]
    Kernel(kernel::KernelCommand),
    /// Put connections of programs that cannot be preloaded under a controller, by the kernel driver
    Attach(Box<attach::AttachArgs>),
    /// Measure a path: delay, bursts, predictability, or its trace
    Probe(probe::ProbeArgs),
    /// Print what a shell needs to complete commands and options
    Completions(documents::CompletionsArgs),
    /// Write the manual pages, for packages
    #[command(hide = true)]
    ManPages(documents::ManPagesArgs),
}

/// Runs the program with the arguments of this process, and with controllers of your own beside those of cellpace.
/// Call it first in `main`, and once: it reads from standard input, writes to both outputs and handles signals.
///
/// # Panics
/// When a controller's name is taken, is given twice, or is more than lower-case letters, digits, `-` and `_`.
pub fn main_with(own: &'static [ControllerInfo]) -> ExitCode {
    let all = [&[cellpace_plugin::PLUGIN], own].concat();
    cellpace_cc::register(all.leak()).unwrap_or_else(|error| panic!("{error}"));
    cellpace_lab::hand_notices_to(output::complain);
    let args = arguments::with_negative_values(std::env::args_os());
    let (args, config) = match config_file::with_config(args) {
        Ok(read) => read,
        Err(error) => return complain(&error),
    };
    let mut cli = match Cli::try_parse_from(&args) {
        Ok(cli) => cli,
        Err(error) => return refuse(&args, config.as_ref(), error),
    };
    if let Command::Proxy(args) = &mut cli.command {
        args.file = config;
    }
    let code = run_command(cli.command).unwrap_or_else(|error| complain(&error));
    line_writer::finish_streams();
    code
}

fn complain(error: &CommandError) -> ExitCode {
    output::complain(&error.to_string());
    error.exit_code()
}

fn run_command(command: Command) -> Result<ExitCode, CommandError> {
    match command {
        Command::Compare(args) => compare::run(&args),
        Command::Sim(args) => sim::run(&args),
        Command::Sweep(args) => sweep::run(&args),
        Command::Attack(args) => attack::run(&args),
        Command::Report(args) => report::run(&args),
        Command::Trace(command) => trace::run(&command),
        Command::Mdi(command) => mdi::run(&command),
        Command::Link(args) => link::run(&args),
        Command::Conform(args) => conform::run(&args),
        Command::Cc(args) => cc::run(&args),
        Command::Queue(args) => queue::run(&args),
        Command::Run(args) => run::run(&args),
        Command::Send(args) => transfer::run_send(&args),
        Command::Recv(args) => transfer::run_recv(&args),
        Command::Key(args) => key::run(&args),
        Command::Proxy(args) => {
            let file = args.file.clone();
            proxy::run(&args).map_err(|error| config_file::located(error, file.as_ref()))
        }
        Command::Experiment(command) => experiment::run(&command),
        Command::Kernel(command) => kernel::run(&command),
        Command::Attach(args) => attach::run(&args),
        Command::Probe(args) => probe::run(&args),
        Command::Completions(args) => documents::print_completions(&args, Cli::command()),
        Command::ManPages(args) => documents::write_man_pages(&args, Cli::command()),
    }
}

/// Prints what is wrong with the command line, or the help that it asks for.
fn refuse(args: &[OsString], config: Option<&ConfigFile>, mut error: clap::Error) -> ExitCode {
    let line = config_file::first_line(&error);
    if let Some(located) = config.map(|file| file.located(&line)).filter(|text| *text != line) {
        return complain(&CommandError::usage(located));
    }
    let Some(advice) = arguments::advice(args, &error) else {
        // No option of ours is ever meant as a value behind `--`.
        if is_about_values(&error) {
            error.remove(ContextKind::Suggested);
        }
        error.exit()
    };
    complain(&CommandError::usage(advice))
}

/// Whether clap would suggest to write an option that it does not know behind `--`.
fn is_about_values(error: &clap::Error) -> bool {
    match error.get(ContextKind::Suggested) {
        Some(ContextValue::StyledStrs(tips)) => {
            tips.iter().any(|tip| tip.to_string().contains("as a value"))
        }
        _ => false,
    }
}
