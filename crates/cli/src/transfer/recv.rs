//! `cellpace recv`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_lab::LabError;
use cellpace_lab::transfer::{
    DataSink, FlowData, SinkError, Transfer, TransferConditions, TransferFlow, shown_address,
};
use cellpace_os::descriptors::raise_limit;
use cellpace_report::Aside;
use cellpace_udp::{AckPolicy, Driver, FlowRequest, Listen, MTU_RANGE, Offer};
use clap::Args;

use super::options::Common;
use super::quic_options::QuicOptions;
use super::{Terminal, conclude};
use crate::address::{HostPort, ListenAddress, TRANSFER_PORT, connect_to};
use crate::error::CommandError;
use crate::line_writer::begin_service;
use crate::options::whole;
use crate::output::{command_line, is_stdout};
use crate::privileges::{FILES_AND_PORTS, give_up_all_but};
use crate::progress::end_cleanly_on_ctrl_c;

/// Arguments of `cellpace recv`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace recv --once & cellpace send 127.0.0.1       # 10 s of made-up bytes, on this machine
  cellpace recv --output copy.bin --once               # waits for one file from this machine
  cellpace recv --listen 0.0.0.0:5260                  # from all who have your own key

From other machines, with a key that both have:
  cellpace key path.key                                # then copy it to the sender
  cellpace recv --key path.key --output .              # each flow into a file of its own
  cellpace recv HOST --key path.key                    # from `cellpace send --listen 5260` at HOST

Inside QUIC, from a sender with the same key, or with the fingerprint that `cellpace key` prints there:
  cellpace recv --quic --key path.key --output .
  cellpace recv --quic --peer sha256:... --output .    # the sender gives this side's with --peer

All is encrypted, also inside QUIC, and only who has the key can send: without --key your own one, which the programs that you run on
this machine share. Then only senders on this machine are served, unless --listen has an address.")]
pub(crate) struct RecvArgs {
    /// Connect to `cellpace send --listen` there, without a port at 5260, instead of waiting
    #[arg(value_name = "HOST[:PORT]", conflicts_with_all = ["listen", "once"])]
    pub(super) target: Option<HostPort>,
    /// Where to wait for senders; a port alone is on loopback, with --key at every address
    #[arg(long, value_name = "[ADDR:]PORT", default_value = "5260")]
    pub(super) listen: ListenAddress,
    /// Where it goes: a file, a folder (a file for each flow), or - for standard output
    /// [default: nowhere, only counted]
    #[arg(long, value_name = "FILE|DIR|-")]
    pub(super) output: Option<PathBuf>,
    /// End after the flows of the first sender
    #[arg(long)]
    pub(super) once: bool,
    /// Receive at most this many flows at a time, and from one address a quarter of them, but at
    /// least 64
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = whole(1..=u16::MAX))]
    pub(super) max_connections: u16,
    /// When to acknowledge: every packet, or delayed:40ms (every second packet)
    #[arg(long, default_value = "every", value_name = "POLICY", value_parser = acks)]
    pub(super) acks: AckPolicy,
    #[command(flatten)]
    pub(super) quic: QuicOptions,
    #[command(flatten)]
    pub(super) common: Common,
}

/// The sender chooses the size of packets.
pub(super) const MAX_MTU: u16 = *MTU_RANGE.end();

fn acks(text: &str) -> Result<AckPolicy, String> {
    text.parse::<AckPolicy>().map_err(|error| error.to_string())
}

impl RecvArgs {
    /// Refuses what contradicts itself, and files that cannot be written.
    pub(super) fn check(&self) -> Result<(), CommandError> {
        let endless = !self.once && self.target.is_none();
        for (option, file) in self.common.files.options() {
            if endless && file.is_some() {
                return Err(CommandError::usage(format!("{option} needs an end: add --once")));
            }
        }
        self.common.check(("--output", self.output.as_deref().filter(|output| !output.is_dir())))
    }

    /// Gives up what a receiver does not need. The key was read, and there are no threads yet.
    pub(super) fn confine(&self) -> Result<(), CommandError> {
        // A file and a socket or more for each flow.
        raise_limit();
        let files = self.common.files.options().into_iter().filter_map(|(_, file)| file);
        give_up_all_but(FILES_AND_PORTS, files.chain(self.output.as_deref()))
    }
}

pub(super) fn run(args: &RecvArgs) -> Result<ExitCode, CommandError> {
    args.check()?;
    let quiet_stdout =
        args.common.files.use_stdout() || args.output.as_deref().is_some_and(is_stdout);
    let mut view = Terminal { quiet_stdout, verbosity: args.common.verbosity };
    let mut session = Transfer::new(args.common.driver(MAX_MTU, 1, args.acks)?, &mut view);
    args.confine()?;
    begin_service()?;
    let sinks = SinkMaker::new(args.output.as_deref())?;
    match &args.target {
        Some(target) => connect(target, sinks, &mut session)?,
        None => wait(args, sinks, &mut session)?,
    }
    end_cleanly_on_ctrl_c();
    let result = session.run(TransferConditions {
        role: "recv",
        command: command_line(),
        unreliable: false,
        mtu: MAX_MTU,
        seed: 1,
    })?;
    conclude(&result, &args.common)
}

fn wait(args: &RecvArgs, sinks: SinkMaker, session: &mut Transfer<'_>) -> Result<(), CommandError> {
    let is_keyed = args.common.key.is_given();
    let at = args.listen.bind(&mut session.driver, TRANSFER_PORT, is_keyed)?;
    let most_flows = if sinks.is_single() { 1 } else { usize::from(args.max_connections) };
    session.driver.endpoint.listen(Listen {
        most_flows,
        max_per_client: None,
        offer: Offer::Receive,
    });
    session.ends = args.once;
    args.common.verbosity.note(&format!("waiting at {at}"));
    let mut count = 0;
    session.welcome = Some(Box::new(move |_| {
        count += 1;
        sinks.make(count).map(|sink| (String::new(), FlowData::Sink(sink)))
    }));
    Ok(())
}

fn connect(
    target: &HostPort,
    sinks: SinkMaker,
    session: &mut Transfer<'_>,
) -> Result<(), CommandError> {
    let peer = target.resolve(TRANSFER_PORT)?;
    let begin = move |driver: &mut Driver, index: usize| {
        if index > 0 && sinks.is_single() {
            return Err(LabError::invalid("the sender has several flows: give --output a folder"));
        }
        let sink = sinks.make(index + 1).map_err(LabError::failed)?;
        let way = connect_to(driver, peer).map_err(LabError::failed)?;
        let connect = FlowRequest { controller: None, unreliable: false };
        let id = driver.endpoint.connect(driver.now(), peer, way, &connect);
        Ok(TransferFlow::new(id, String::new(), shown_address(peer), FlowData::Sink(sink)))
    };
    let first = begin(&mut session.driver, 0)?;
    session.flows.push(first);
    session.another = Some(Box::new(begin));
    Ok(())
}

/// Makes a sink for each flow.
pub(super) struct SinkMaker {
    output: Option<PathBuf>,
    is_folder: bool,
    /// The highest number of a file that an earlier run has left in the folder.
    before: usize,
}

impl SinkMaker {
    pub(super) fn new(output: Option<&Path>) -> Result<Self, CommandError> {
        let is_folder = output.is_some_and(Path::is_dir);
        let before = output.filter(|_| is_folder).map_or(Ok(0), highest_number)?;
        let sinks = Self { output: output.map(Path::to_owned), is_folder, before };
        if !is_folder {
            // Says at once what would only be found out when somebody sends.
            drop(sinks.make(0).map_err(CommandError::failed)?);
        }
        Ok(sinks)
    }

    /// One flow after the other.
    pub(super) fn is_single(&self) -> bool {
        self.output.is_some() && !self.is_folder
    }

    pub(super) fn make(&self, number: usize) -> Result<DataSink, SinkError> {
        let Some(output) = &self.output else { return Ok(DataSink::Nowhere) };
        if !self.is_folder {
            return DataSink::open(output);
        }
        let name = format!("flow-{:04}", self.before + number);
        Ok(DataSink::File(Aside::create_new(&output.join(name))?))
    }
}

/// The highest number of a `flow-NNNN` in a folder, 0 without any.
fn highest_number(folder: &Path) -> Result<usize, CommandError> {
    let failed = |error| CommandError::failed(format!("{}: {error}", folder.display()));
    let mut highest = 0_u32;
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let name = entry.map_err(failed)?.file_name();
        let number = name.to_str().and_then(|name| name.strip_prefix("flow-")?.parse().ok());
        highest = highest.max(number.unwrap_or(0));
    }
    Ok(highest as usize)
}
