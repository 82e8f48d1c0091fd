//! `send --quic` and `recv --quic`.

use std::process::ExitCode;

use cellpace_lab::transfer::{
    DataSource, OnBound, QuicMeeting, QuicRole, QuicTransfer, TransferConditions, shown_address,
};
use cellpace_lab::{EventLog, LabError};
use cellpace_quic::identity::{Fingerprint, Identity, Peer};
use cellpace_udp::AckPolicy;

use super::options::Common;
use super::quic_options::QuicOptions;
use super::recv::{MAX_MTU, RecvArgs, SinkMaker};
use super::send::{SendArgs, SendPlan};
use super::{Terminal, conclude};
use crate::address::{HostPort, ListenAddress, TRANSFER_PORT};
use crate::error::CommandError;
use crate::flow_options::seed;
use crate::line_writer::begin_service;
use crate::options::read_text;
use crate::output::{command_line, is_stdout};
use crate::progress::end_cleanly_on_ctrl_c;

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
        None => {
            let at = args.listen.clone().unwrap_or(ListenAddress::Port(TRANSFER_PORT));
            parties.listen(&at, plan.controllers.len())?
        }
    };
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
        on_bound: parties.announce(&args.common),
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
        on_bound: parties.announce(&args.common),
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
    conclude(&transfer.run(conditions, &mut view)?, &args.common)
}

/// Who the two sides are.
struct Parties {
    identity: Identity,
    peer: Option<Peer>,
    is_keyed: bool,
}

impl Parties {
    fn new(options: &QuicOptions, common: &Common) -> Result<Self, CommandError> {
        if common.key.plain {
            return Err(CommandError::usage(
                "--plain: QUIC always encrypts; leave out one of both",
            ));
        }
        let key = common.key.given()?;
        let identity = match (&options.certificate, &key) {
            (Some(path), _) => {
                let text = read_text(&path.to_string_lossy(), "certificate")?;
                Identity::from_pem(text.as_bytes()).map_err(|error| {
                    CommandError::usage(format!("--certificate {}: {error}", path.display()))
                })?
            }
            (None, Some(key)) => Identity::from_secret(key).map_err(CommandError::failed)?,
            (None, None) => {
                Identity::generate(["cellpace.invalid".to_owned()]).map_err(CommandError::failed)?
            }
        };
        let peer = match (&options.peer, &key) {
            (Some(text), _) => Some(read_peer(text)?),
            (None, Some(key)) => {
                let same = Identity::from_secret(key).map_err(CommandError::failed)?;
                Some(Peer::Fingerprint(same.fingerprint()))
            }
            (None, None) => None,
        };
        Ok(Self { identity, peer, is_keyed: key.is_some() })
    }

    fn connect(&self, target: &HostPort) -> Result<QuicMeeting, CommandError> {
        let to = target.resolve(TRANSFER_PORT)?;
        let peer = self.peer.clone().ok_or_else(|| {
            CommandError::usage(
                "--quic: who is there? Give --peer with the fingerprint that the other side \
                 prints, or --key on both sides",
            )
        })?;
        Ok(QuicMeeting::Connect { to, peer })
    }

    fn listen(
        &self,
        at: &ListenAddress,
        max_connections: usize,
    ) -> Result<QuicMeeting, CommandError> {
        let at = at.addresses(TRANSFER_PORT, self.peer.is_some())?;
        Ok(QuicMeeting::Listen { at, peer: self.client(), max_connections })
    }

    fn client(&self) -> Option<Fingerprint> {
        self.peer.as_ref().and_then(Peer::fingerprint)
    }

    /// Says where this side waits, and what the other side has to know of it.
    fn announce<'a>(&self, common: &'a Common) -> OnBound<'a> {
        let fingerprint = self.identity.fingerprint();
        let how = match self.is_keyed {
            true => "the same --key".to_owned(),
            false => format!("--peer {fingerprint}"),
        };
        Box::new(move |bound| {
            let Some(at) = bound.first() else { return };
            let at = shown_address(*at);
            common.verbosity.note(&format!("waiting at {at}, connect with --quic {how}"));
        })
    }
}

/// Reads a fingerprint, or a file.
pub(crate) fn read_peer(text: &str) -> Result<Peer, CommandError> {
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
