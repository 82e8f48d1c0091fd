//! `send --quic` and `recv --quic`.

use std::fmt::Display;
use std::path::Path;
use std::process::ExitCode;

use cellpace_lab::transfer::{
    DataSource, OnBound, QuicMeeting, QuicRole, QuicTransfer, TransferConditions, read_private,
    shown_address,
};
use cellpace_lab::{EventLog, LabError};
use cellpace_quic::identity::{Identity, Peer};
use cellpace_udp::AckPolicy;

use super::options::Common;
use super::quic_options::QuicOptions;
use super::recv::{MAX_MTU, RecvArgs, SinkMaker};
use super::send::{SendArgs, SendPlan};
use super::{Terminal, conclude};
use crate::address::{HostPort, ListenAddress, ONLY_HERE, TRANSFER_PORT};
use crate::error::CommandError;
use crate::flow_options::seed;
use crate::line_writer::begin_service;
use crate::options::read_text;
use crate::output::{command_line, is_stdout};
use crate::progress::{check_runtime, end_cleanly_on_ctrl_c};

pub(super) fn send(args: &SendArgs) -> Result<ExitCode, CommandError> {
    let plan = SendPlan::new(args)?;
    args.common.check(("--events", args.events.as_deref()))?;
    if args.unreliable {
        return Err(CommandError::usage(
            "--unreliable: QUIC sends again what is lost; leave out --quic",
        ));
    }
    if args.video.is_some() {
        return Err(CommandError::usage(
            "--video: a video is not sent inside QUIC; leave out --quic",
        ));
    }
    let parties = Parties::new(&args.quic, &args.common)?;
    let meeting = match &plan.target {
        Some(target) => {
            let read = target.parse::<HostPort>();
            let target =
                read.map_err(|error| CommandError::usage(format!("{target:?}: {error}")))?;
            parties.connect(&target)?
        }
        None => parties.listen(&args.waits_at(), plan.controllers.len())?,
    };
    args.confine()?;
    if args.listen.is_some() {
        begin_service()?;
    }
    // Says at once what cannot be read.
    drop(plan.source()?);
    let seed = seed()?;
    let quiet_stdout = args.common.files.use_stdout();
    let mut view = Terminal { quiet_stdout, verbosity: args.common.verbosity };
    let events = args.events.as_ref().map(|path| {
        let names: Vec<String> = args.controllers.iter().map(ToString::to_string).collect();
        EventLog::create(path, "cellpace send", &names.join(" "))
    });
    let transfer = QuicTransfer {
        meeting,
        role: QuicRole::Send {
            controllers: plan.controllers.clone(),
            source: Box::new(|| plan.source().map_err(LabError::failed)),
        },
        on_bound: parties.announce(args.listen.as_ref(), &args.common),
        identity: parties.identity,
        silence: args.common.timeout,
        events: events.transpose()?,
        duration: plan.duration,
        ends: true,
        cut_at_interrupt: plan.file.is_none(),
    };
    end_cleanly_on_ctrl_c();
    let conditions = TransferConditions {
        role: "send",
        command: command_line(),
        unreliable: false,
        mtu: args.mtu,
        seed,
    };
    check_runtime()?;
    conclude(&transfer.run(conditions, &mut view)?, &args.common)
}

pub(super) fn recv(args: &RecvArgs) -> Result<ExitCode, CommandError> {
    args.check()?;
    if args.acks != AckPolicy::default() {
        return Err(CommandError::usage("--acks: inside QUIC the sender asks for acks"));
    }
    let parties = Parties::new(&args.quic, &args.common)?;
    args.confine()?;
    begin_service()?;
    let sinks = SinkMaker::new(args.output.as_deref())?;
    let meeting = match &args.target {
        Some(target) => parties.connect(target)?,
        None => {
            let most = if sinks.is_single() { 1 } else { usize::from(args.max_connections) };
            parties.listen(&args.listen, most)?
        }
    };
    let quiet_stdout =
        args.common.files.use_stdout() || args.output.as_deref().is_some_and(is_stdout);
    let mut view = Terminal { quiet_stdout, verbosity: args.common.verbosity };
    let transfer = QuicTransfer {
        meeting,
        role: QuicRole::Receive { sink: Box::new(move |number| sinks.make(number + 1)) },
        on_bound: parties.announce(Some(&args.listen), &args.common),
        identity: parties.identity,
        silence: args.common.timeout,
        events: None,
        duration: None,
        ends: args.once || args.target.is_some(),
        cut_at_interrupt: false,
    };
    end_cleanly_on_ctrl_c();
    let conditions = TransferConditions {
        role: "recv",
        command: command_line(),
        unreliable: false,
        mtu: MAX_MTU,
        seed: 1,
    };
    check_runtime()?;
    conclude(&transfer.run(conditions, &mut view)?, &args.common)
}

/// Who the two sides are: each is known by its certificate, and names the other's.
struct Parties {
    identity: Identity,
    peer: Peer,
    /// Whether an option names the peer or the key, which makes strangers of all others.
    is_named: bool,
    /// What the other side is to be given.
    hint: String,
}

impl Parties {
    fn new(options: &QuicOptions, common: &Common) -> Result<Self, CommandError> {
        if common.key.plain {
            return Err(CommandError::usage(
                "--plain: QUIC always encrypts; leave out one of both",
            ));
        }
        let is_known = options.certificate.is_some() && options.peer.is_some();
        let of_key = match is_known && !common.key.is_given() {
            true => None,
            false => common.key.secret(common.verbosity)?,
        };
        let of_key = of_key.map(|key| Identity::from_secret(&key)).transpose();
        let of_key = of_key.map_err(CommandError::failed)?;
        let same = of_key.as_ref().map(Identity::fingerprint);
        let identity = match (&options.certificate, of_key) {
            (Some(path), _) => read_identity(path)?,
            (None, Some(identity)) => identity,
            (None, None) => return Err(unknown()),
        };
        let peer = match (&options.peer, same) {
            (Some(text), _) => read_peer(text)?,
            (None, Some(same)) => Peer::Fingerprint(same),
            (None, None) => return Err(unknown()),
        };
        let is_shared = options.peer.is_none() && options.certificate.is_none();
        let hint = match (is_shared, common.key.is_given()) {
            (true, true) => "the same --key".to_owned(),
            (true, false) => "your own key".to_owned(),
            (false, _) => format!("--peer {}", identity.fingerprint()),
        };
        let is_named = common.key.is_given() || options.peer.is_some();
        Ok(Self { identity, peer, is_named, hint })
    }

    fn connect(&self, target: &HostPort) -> Result<QuicMeeting, CommandError> {
        let to = target.resolve(TRANSFER_PORT)?;
        Ok(QuicMeeting::Connect { to, peer: self.peer.clone() })
    }

    fn listen(
        &self,
        at: &ListenAddress,
        max_connections: usize,
    ) -> Result<QuicMeeting, CommandError> {
        let at = at.addresses(TRANSFER_PORT, self.is_named)?;
        let peer = self.peer.fingerprint().ok_or_else(unknown)?;
        Ok(QuicMeeting::Listen { at, peer, max_connections })
    }

    /// Says where this side waits, and what the other side has to know of it.
    fn announce<'a>(&self, listen: Option<&ListenAddress>, common: &'a Common) -> OnBound<'a> {
        let is_only_here = !self.is_named && matches!(listen, Some(ListenAddress::Port(_)));
        let (hint, here) = (self.hint.clone(), if is_only_here { ONLY_HERE } else { "" });
        Box::new(move |bound| {
            let Some(at) = bound.first() else { return };
            let at = shown_address(*at);
            common.verbosity.note(&format!("waiting at {at}, connect with --quic {hint}{here}"));
        })
    }
}

fn unknown() -> CommandError {
    CommandError::usage(
        "--quic: who is there? Give --peer with the other side's fingerprint, or --key",
    )
}

/// A certificate and key are a few kB.
const MAX_IDENTITY_BYTES: u64 = 1 << 20;

/// Reads a certificate with its private key, which others may not read.
fn read_identity(path: &Path) -> Result<Identity, CommandError> {
    let named =
        |why: &dyn Display| CommandError::usage(format!("--certificate {}: {why}", path.display()));
    let text = read_private(path, MAX_IDENTITY_BYTES).map_err(|why| named(&why))?;
    Identity::from_pem(&text).map_err(|why| named(&why))
}

/// Reads a fingerprint, or a file.
fn read_peer(text: &str) -> Result<Peer, CommandError> {
    if text.starts_with("sha256:") {
        return text.parse().map_err(|error| CommandError::usage(format!("--peer: {error}")));
    }
    let pem = read_text(text, "certificate")?;
    Peer::from_pem(pem.as_bytes())
        .map_err(|error| CommandError::usage(format!("--peer {text}: {error}")))
}

impl SendPlan {
    fn source(&self) -> Result<DataSource, CommandError> {
        let Some(path) = &self.file else { return Ok(DataSource::made(self.bytes)) };
        DataSource::open(path)
            .map_err(|error| CommandError::usage(format!("{}: {error}", path.display())))
    }
}
