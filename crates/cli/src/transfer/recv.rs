//! `cellpace recv`.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use cellpace_lab::LabError;
use cellpace_lab::transfer::{
    DataSink, FlowData, Transfer, TransferConditions, TransferFlow, shown_address,
};
use cellpace_report::Aside;
use cellpace_udp::{AckPolicy, Driver, FlowRequest, Listen, Offer};
use clap::Args;

use super::options::{Common, bind_for, listen_at, resolve};
use super::{Terminal, conclude};
use crate::error::CommandError;
use crate::output::{complain, is_stdout};
use crate::progress::end_cleanly_on_ctrl_c;

/// Arguments of `cellpace recv`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace recv --key path.key                              # waits, counts and forgets
  cellpace recv --key path.key --output copy.bin --once     # one file
  cellpace recv --reverse there --key path.key --output -   # from `cellpace send --listen`
  cellpace recv --listen 0.0.0.0:5260                       # from everybody who sends

Nothing is encrypted. With --key (made by `cellpace key`) only who has the key can send;
without it nothing is authenticated either, and only senders on this machine are served
unless --listen has an address.")]
pub(crate) struct RecvArgs {
    /// With --reverse: where `cellpace send --listen` waits
    #[arg(value_name = "HOST:PORT", requires = "reverse")]
    target: Option<String>,
    /// Where to wait for senders; a port alone is on loopback, with --key at every address
    /// [default: 5260]
    #[arg(long, value_name = "ADDR:PORT|PORT", conflicts_with = "reverse")]
    listen: Option<String>,
    /// Connect to a sender that waits
    #[arg(long, requires = "target")]
    reverse: bool,
    /// Where it goes: a file, a folder (a file for each flow), or - for standard output
    /// [default: nowhere]
    #[arg(long, value_name = "FILE|DIR|-")]
    output: Option<PathBuf>,
    /// End after the first sender's flows
    #[arg(long)]
    once: bool,
    /// Flows at the same time at most
    #[arg(long, default_value_t = 256, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    flows: u16,
    /// Flows of one address at the same time at most [default: a quarter of --flows, at least 64]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    max_per_client: Option<u16>,
    /// When to acknowledge: every packet, or delayed:40ms (every second packet)
    #[arg(long, default_value = "every", value_name = "POLICY", value_parser = acks)]
    acks: AckPolicy,
    #[command(flatten)]
    common: Common,
}

fn acks(text: &str) -> Result<AckPolicy, String> {
    text.parse::<AckPolicy>().map_err(|error| error.to_string())
}

pub(crate) fn run(args: &RecvArgs) -> Result<ExitCode, CommandError> {
    if args.common.json.is_some() && !args.once && !args.reverse {
        return Err(CommandError::usage("--json needs an end: add --once"));
    }
    let outputs = [&args.common.json, &args.output];
    let quiet_stdout = outputs.into_iter().flatten().any(|output| is_stdout(output));
    let mut view = Terminal { quiet_stdout };
    let mut session = Transfer::new(args.common.driver(1, args.acks)?, &mut view);
    let sinks = SinkMaker::new(args.output.as_deref())?;
    match &args.target {
        Some(target) => connect(target, sinks, &mut session)?,
        None => wait(args, sinks, &mut session)?,
    }
    end_cleanly_on_ctrl_c();
    let result = session.run(TransferConditions {
        role: "recv",
        unreliable: false,
        mtu: args.common.mtu,
        seed: 1,
    })?;
    conclude(&result, args.common.json.as_deref())
}

fn wait(args: &RecvArgs, sinks: SinkMaker, session: &mut Transfer<'_>) -> Result<(), CommandError> {
    let is_keyed = args.common.key.is_given();
    let at = listen_at(&mut session.driver, args.listen.as_deref(), is_keyed)?;
    let most_flows = if sinks.is_single() { 1 } else { usize::from(args.flows) };
    session.driver.endpoint.listen(Listen {
        most_flows,
        max_per_client: args.max_per_client.map(usize::from),
        offer: Offer::Receive,
    });
    session.ends = args.once;
    complain(&format!("waiting at {at}"));
    let mut count = 0;
    session.welcome = Some(Box::new(move |_| {
        count += 1;
        sinks.make(count).map(|sink| (String::new(), FlowData::Sink(sink)))
    }));
    Ok(())
}

fn connect(target: &str, sinks: SinkMaker, session: &mut Transfer<'_>) -> Result<(), CommandError> {
    let peer = resolve(target)?;
    let begin = move |driver: &mut Driver, index: usize| {
        if index > 0 && sinks.is_single() {
            return Err(LabError::invalid("the sender has several flows: give --output a folder"));
        }
        let sink = sinks.make(index + 1).map_err(LabError::failed)?;
        let way = bind_for(driver, peer).map_err(LabError::failed)?;
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
struct SinkMaker {
    output: Option<PathBuf>,
    is_folder: bool,
    /// The highest number of a file that an earlier run has left in the folder.
    before: usize,
}

impl SinkMaker {
    fn new(output: Option<&Path>) -> Result<Self, CommandError> {
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
    fn is_single(&self) -> bool {
        self.output.is_some() && !self.is_folder
    }

    fn make(&self, number: usize) -> Result<DataSink, String> {
        let Some(output) = &self.output else { return Ok(DataSink::Nowhere) };
        if output == Path::new("-") {
            return Ok(DataSink::Stdout);
        }
        let aside = if self.is_folder {
            Aside::create_new(&output.join(format!("flow-{:04}", self.before + number)))
        } else {
            Aside::create(output)
        };
        aside.map(DataSink::File).map_err(|error| error.to_string())
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
