//! `cellpace send`.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_base::{Span, parse_bytes};
use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER};
use cellpace_lab::EventLog;
use cellpace_lab::transfer::{
    DataSource, FlowData, Transfer, TransferConditions, TransferFlow, made_up, shown_address,
};
use cellpace_udp::{AckPolicy, FlowRequest, Listen, MTU_RANGE, Offer, VideoSpec};
use clap::Args;

use super::options::Common;
use super::quic_options::QuicOptions;
use super::{Terminal, conclude};
use crate::address::{HostPort, ListenAddress, TRANSFER_PORT, connect_to};
use crate::error::CommandError;
use crate::flow_options::seed;
use crate::line_writer::begin_service;
use crate::options::{duration, whole};
use crate::output::command_line;
use crate::privileges::{FILES_AND_PORTS, give_up_all_but};
use crate::progress::end_cleanly_on_ctrl_c;
use crate::sample_options::SampleOptions;

/// Arguments of `cellpace send`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace recv --once & cellpace send 127.0.0.1       # 10 s of made-up bytes, on this machine
  cellpace send --listen 5260 --bytes 20MB &           # the sender waits, and the receiver ...
  cellpace recv 127.0.0.1                              # ... connects, as from behind a NAT

Between two machines, with a file and a key that both have:
  cellpace key path.key                                # here; then copy it to the other machine
  cellpace recv --key path.key --output copy.bin       # on the other machine
  cellpace send HOST --key path.key file.bin           # here

Inside QUIC, to a receiver that has the same key, or names this side's fingerprint as this side does its own:
  cellpace send HOST --quic --key path.key file.bin
  cellpace send HOST --quic --peer sha256:... file.bin # `cellpace key` there prints it

All is encrypted, also inside QUIC, and only who has the key can receive it: without --key your own one, which the
programs that you run on this machine share. A sender asks for its receiver until --timeout; with --listen it waits for one as
long as it runs.")]
pub(crate) struct SendArgs {
    /// Where `cellpace recv` waits; without a port at 5260. Not with --listen
    #[arg(value_name = "HOST[:PORT]")]
    target: Option<String>,
    /// What to send: a file, or - for standard input [default: made-up bytes]
    #[arg(value_name = "FILE|-")]
    file: Option<PathBuf>,
    /// The controller; repeated, one flow under each
    #[arg(long = "cc", value_name = "CONTROLLER", default_value = DEFAULT_CONTROLLER, value_parser = controller)]
    pub(super) controllers: Vec<ControllerSpec>,
    /// Send this many made-up bytes, in each flow
    #[arg(long, value_name = "SIZE", conflicts_with = "file", value_parser = bytes)]
    bytes: Option<u64>,
    /// Send for this long [default: 10s, without --bytes and FILE]
    #[arg(long, value_name = "TIME", conflicts_with = "file", value_parser = duration)]
    duration: Option<Span>,
    /// For measuring: do not send again what is lost
    #[arg(long, conflicts_with = "file")]
    pub(super) unreliable: bool,
    /// Send a video, whose rate follows the controller and of which nothing is sent again: fps=30,max=4mbit.
    /// More keys: rate, min, lag, spread, gop, key, key_on_loss, discard, deadline
    #[arg(
        long,
        value_name = "KEY=VALUE,...",
        conflicts_with_all = ["file", "bytes"],
        value_parser = VideoSpec::read
    )]
    pub(super) video: Option<VideoSpec>,
    /// Wait for `cellpace recv HOST` instead of connecting; a port alone is on loopback, with --key
    /// at every address
    #[arg(long, value_name = "[ADDR:]PORT")]
    pub(super) listen: Option<ListenAddress>,
    /// Largest IP packet in bytes, 1280 to 9000
    #[arg(long, default_value_t = 1500, value_name = "BYTES", value_parser = whole(MTU_RANGE))]
    pub(super) mtu: u16,
    #[command(flatten)]
    pub(super) quic: QuicOptions,
    #[command(flatten)]
    pub(super) common: Common,
    /// Write what the controllers decide, as JSON lines; as qlog if the name ends in .sqlog
    #[arg(long, value_name = "FILE", help_heading = "Output")]
    pub(super) events: Option<PathBuf>,
    #[command(flatten)]
    samples: SampleOptions,
}

/// More flows than this are a mistake.
const MAX_FLOWS: usize = 1000;

impl SendArgs {
    /// Where it waits, if it does.
    pub(super) fn waits_at(&self) -> ListenAddress {
        self.listen.clone().unwrap_or(ListenAddress::Port(TRANSFER_PORT))
    }

    /// Gives up what a sender does not need. The key was read, and no thread reads from the network.
    pub(super) fn confine(&self) -> Result<(), CommandError> {
        let files = self.common.files.options().into_iter().filter_map(|(_, file)| file);
        let others = [self.events.as_deref(), self.samples.file()];
        give_up_all_but(FILES_AND_PORTS, files.chain(others.into_iter().flatten()))
    }
}

fn controller(text: &str) -> Result<ControllerSpec, String> {
    text.parse::<ControllerSpec>().map_err(|error| error.to_string())
}

fn bytes(text: &str) -> Result<u64, String> {
    match parse_bytes(text).map_err(|error| error.to_string())? {
        0 => Err("there is nothing to send: write at least 1B".to_owned()),
        bytes => Ok(bytes),
    }
}

pub(super) fn run(args: &SendArgs) -> Result<ExitCode, CommandError> {
    let plan = SendPlan::new(args)?;
    args.common.check(("--events", args.events.as_deref()))?;
    let seed = seed()?;
    let driver = args.common.driver(args.mtu, seed, AckPolicy::default())?;
    args.confine()?;
    let quiet_stdout = args.common.files.use_stdout();
    let mut view = Terminal { quiet_stdout, verbosity: args.common.verbosity };
    let mut session = Transfer::new(driver, &mut view);
    session.duration = plan.duration;
    session.cut_at_interrupt = plan.file.is_none();
    if let Some(path) = &args.events {
        let names: Vec<String> = args.controllers.iter().map(ToString::to_string).collect();
        session.events = Some(EventLog::create(path, "cellpace send", &names.join(" "))?);
    }
    match &plan.target {
        Some(target) => connect(args, &plan, target, &mut session)?,
        None => wait(args, &plan, &mut session)?,
    }
    end_cleanly_on_ctrl_c();
    let result = session.run(TransferConditions {
        role: "send",
        command: command_line(),
        unreliable: plan.unreliable,
        mtu: args.mtu,
        seed,
    })?;
    conclude(&result, &args.common)
}

/// What the arguments ask for.
pub(super) struct SendPlan {
    pub(super) controllers: Vec<ControllerSpec>,
    pub(super) target: Option<String>,
    pub(super) file: Option<PathBuf>,
    pub(super) duration: Option<Span>,
    pub(super) bytes: Option<u64>,
    unreliable: bool,
}

impl SendPlan {
    pub(super) fn new(args: &SendArgs) -> Result<Self, CommandError> {
        let (target, file) = match (&args.listen, &args.target, &args.file) {
            (Some(_), Some(_), Some(_)) => {
                return Err(CommandError::usage("--listen and HOST: either wait or connect"));
            }
            // A sender that waits names no host.
            (Some(_), file, None) => (None, file.as_ref().map(PathBuf::from)),
            (_, target, file) => (target.clone(), file.clone()),
        };
        if target.is_none() && args.listen.is_none() {
            return Err(CommandError::usage("where to? Write HOST, or --listen PORT to wait"));
        }
        if args.controllers.len() > MAX_FLOWS {
            return Err(CommandError::usage(format!("more than {MAX_FLOWS} flows")));
        }
        if file.is_some() && args.controllers.len() > 1 {
            return Err(CommandError::usage("a file goes in one flow: give one --cc"));
        }
        if file.is_some() && (args.unreliable || args.bytes.is_some() || args.duration.is_some()) {
            return Err(CommandError::usage("a file goes whole and reliably, or not at all"));
        }
        let endless = file.is_none() && args.bytes.is_none();
        let duration = args.duration.or_else(|| endless.then_some(Span::from_secs(10)));
        Ok(Self {
            controllers: args.samples.watch(&args.controllers)?,
            target,
            file,
            duration,
            bytes: args.bytes,
            unreliable: args.unreliable || args.video.is_some(),
        })
    }

    fn end(&self) -> Result<FlowData, CommandError> {
        let Some(path) = &self.file else { return Ok(made_up(self.unreliable, self.bytes)) };
        let source = DataSource::open(path);
        source
            .map(FlowData::Source)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))
    }
}

fn connect(
    args: &SendArgs,
    plan: &SendPlan,
    target: &str,
    session: &mut Transfer<'_>,
) -> Result<(), CommandError> {
    let target: HostPort =
        target.parse().map_err(|error| CommandError::usage(format!("{target:?}: {error}")))?;
    let peer = target.resolve(TRANSFER_PORT)?;
    for spec in &plan.controllers {
        let end = plan.end()?;
        // A socket for each, so that queues that are fair among flows see them apart.
        let way = connect_to(&mut session.driver, peer)?;
        let now = session.driver.now();
        let connect = FlowRequest { controller: Some(spec.clone()), unreliable: plan.unreliable };
        let id = session.driver.endpoint.connect(now, peer, way, &connect);
        if let (Some(bytes), Some(flow)) = (plan.bytes, session.driver.endpoint.flow_mut(id)) {
            flow.limit_to(bytes);
        }
        if let (Some(video), Some(flow)) = (&args.video, session.driver.endpoint.flow_mut(id)) {
            flow.send_video(video.clone());
        }
        session.flows.push(TransferFlow::new(id, spec.to_string(), shown_address(peer), end));
    }
    Ok(())
}

fn wait(args: &SendArgs, plan: &SendPlan, session: &mut Transfer<'_>) -> Result<(), CommandError> {
    begin_service()?;
    let is_keyed = args.common.key.is_given();
    let at = args.waits_at().bind(&mut session.driver, TRANSFER_PORT, is_keyed)?;
    session.driver.endpoint.listen(Listen {
        most_flows: args.controllers.len(),
        max_per_client: None,
        offer: Offer::Send {
            controllers: plan.controllers.clone(),
            unreliable: plan.unreliable,
            bytes: plan.bytes,
            video: args.video.clone(),
        },
    });
    args.common.verbosity.note(&format!("waiting at {at}"));
    let names: Vec<String> = args.controllers.iter().map(ToString::to_string).collect();
    let mut ends = names.iter().map(|_| plan.end()).collect::<Result<Vec<_>, _>>()?;
    session.welcome = Some(Box::new(move |index| {
        let name = names.get(index).cloned().unwrap_or_default();
        match ends.pop() {
            Some(end) => Ok((name, end)),
            None => Err("all flows are taken".into()),
        }
    }));
    Ok(())
}
