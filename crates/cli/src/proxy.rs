//! `cellpace proxy`: a controller for connections of programs that cannot be preloaded.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, SocketAddr, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_os::service::{ServiceState, passed_listeners, tell};
use cellpace_os::signals::{SIGINT, SIGTERM, is_ignored, note_interrupt};
use cellpace_proxy::proxy_header::Version;
use cellpace_proxy::rules::{MAX_DEVICE_NAME, Redirect};
use cellpace_proxy::socks5::{Credentials, Target};
use cellpace_proxy::{
    Access, AddressRange, ConnectionError, ControlledSide, Notice, Proxy, ProxyConfig, ProxyError,
    ProxyLimits, ProxyMode, ProxyOutcome, ServedConnection, StopUrgency, is_listener,
};
use cellpace_run::{LoggingCommand, PlainReason};
use cellpace_tcp::TcpError;
use clap::{ArgGroup, Args, FromArgMatches, ValueEnum};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::watch;

use crate::address::resolve_problem;
use crate::arguments::with_negative_values;
use crate::config_file::{ConfigFile, first_line, located, with_config};
use crate::connection_outputs::{ConnectionOutputs, OpenOutputs};
use crate::error::CommandError;
use crate::experiment_options::{ExperimentOptions, ReadExperiment};
use crate::flow_options::FlowArgs;
use crate::options::{Verbosity, span, whole};
use crate::output::print;
use crate::progress::{check_runtime, service_exit_code};
use crate::proxy_log::ProxyLog;
use crate::proxy_reload::Reload;

/// Arguments of `cellpace proxy`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("mode").required(true).args(["to", "socks5", "transparent"]))]
#[command(after_help = "Examples:
  cellpace proxy --listen 0.0.0.0:8081 --to 127.0.0.1:8080
  cellpace proxy --listen 1080 --socks5 --control upstream   # uploads from a vehicle
  cellpace proxy --listen 8080 --transparent --rules apply --ports 80,443

Clients' connections are under the controller unless --control says otherwise; the other side is
plain TCP. SIGTERM and Ctrl-C let open connections end for up to --drain; a second one cuts them.

Exit code: 0 after SIGTERM, which is how services end; 130 after Ctrl-C; 1 if connections were cut.")]
pub(crate) struct ProxyArgs {
    /// Read options from a file, one on a line as on the command line, # for comments; SIGHUP reads it
    /// again
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// What stands in it.
    #[arg(skip)]
    pub(crate) file: Option<ConfigFile>,
    /// Where clients connect; a port alone is one of the loopback interface; repeatable
    #[arg(long, required = true, value_name = "ADDR:PORT", value_parser = listen)]
    listen: Vec<SocketAddr>,
    /// Forward every connection to this destination
    #[arg(long, value_name = "HOST:PORT")]
    to: Option<Target>,
    /// Let clients name the destination by SOCKS 5 (CONNECT; names are resolved here)
    #[arg(long)]
    socks5: bool,
    /// Forward redirected connections to where they were made to (needs CAP_NET_ADMIN)
    #[arg(long)]
    transparent: bool,
    /// The side under the controller: the one that the radio link is on
    #[arg(long, value_enum, default_value_t = ControlArg::Client)]
    control: ControlArg,
    #[command(flatten)]
    flow: FlowArgs,
    #[command(flatten)]
    experiment: ExperimentOptions,

    /// Serve only clients that know this name and the password in the file's first line
    #[arg(long, value_name = "NAME:FILE", help_heading = "SOCKS 5")]
    user: Option<String>,
    /// Let clients reach this network; the longest prefix decides; repeatable
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', help_heading = "SOCKS 5")]
    allow: Vec<AddressRange>,
    /// Keep clients from this network; wins over --allow of the same length [default: loopback,
    /// link-local and this machine's own addresses, unless all listeners are on loopback]
    #[arg(long, value_name = "NETWORK", value_delimiter = ',', help_heading = "SOCKS 5")]
    deny: Vec<AddressRange>,

    /// Print the commands that redirect connections, or make the rules and remove them at the end
    #[arg(long, value_enum, help_heading = "Transparent")]
    rules: Option<RulesArg>,
    /// Destination ports that the rules redirect [default: 80,443]
    #[arg(long, value_name = "PORT,...", requires = "rules", value_delimiter = ',', value_parser = whole(1..=u16::MAX), help_heading = "Transparent")]
    ports: Vec<u16>,
    /// Redirect only what arrives at this device
    #[arg(long, value_name = "NAME", requires = "rules", value_parser = device, help_heading = "Transparent")]
    device: Option<String>,

    /// Tell the destination who the client is, by the PROXY protocol
    #[arg(long, value_enum, value_name = "VERSION", help_heading = "PROXY protocol")]
    send_proxy: Option<VersionArg>,
    /// Require a header of the PROXY protocol from clients in these networks
    #[arg(
        long,
        value_name = "NETWORK,...",
        value_delimiter = ',',
        help_heading = "PROXY protocol"
    )]
    accept_proxy: Vec<AddressRange>,

    /// Connections at once; more wait in the kernel. Fewer, with a note, where the limit on
    /// descriptors is too low
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = whole(1..=1_000_000_u32), help_heading = "Limits")]
    max_connections: u32,
    /// Connections at once of one IPv4 address or IPv6 /64, or none for no limit; more are reset
    /// [default: a quarter of --max-connections]
    #[arg(long, value_name = "N", value_parser = per_client, help_heading = "Limits")]
    max_per_client: Option<PerClient>,
    /// Close connections in which nothing moves for so long; after 10s while nearly all
    /// connections are taken
    #[arg(long, default_value = "5m", value_name = "TIME", value_parser = time, help_heading = "Limits")]
    idle: Span,
    /// Time that open connections get to end once the proxy shall end
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = span, help_heading = "Limits")]
    drain: Span,

    #[command(flatten)]
    outputs: ConnectionOutputs,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ControlArg {
    Client,
    Upstream,
    Both,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum RulesArg {
    Print,
    Apply,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum VersionArg {
    V1,
    V2,
}

fn listen(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "write an address and a port, as in 127.0.0.1:8080 or [::]:8080, or a port".into()
    })
}

fn time(text: &str) -> Result<Span, String> {
    let time = span(text)?;
    let range = Span::from_millis(10)..=Span::from_secs(30 * 86_400);
    range.contains(&time).then_some(time).ok_or_else(|| "write a time from 10ms to 720h".to_owned())
}

/// A limit, or that there is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PerClient(Option<usize>);

fn per_client(text: &str) -> Result<PerClient, String> {
    if text == "none" {
        return Ok(PerClient(None));
    }
    match text.parse() {
        Ok(0) => Ok(PerClient(None)),
        Ok(most @ 1..=1_000_000) => Ok(PerClient(Some(most))),
        _ => Err("write a whole number from 1 to 1000000, or none".to_owned()),
    }
}

fn device(text: &str) -> Result<String, String> {
    let fits = (1..=MAX_DEVICE_NAME).contains(&text.len());
    let is_plain = text.bytes().all(|byte| byte.is_ascii_graphic() && !b"/\"\\:*".contains(&byte));
    match fits && is_plain {
        true => Ok(text.to_owned()),
        false => Err("not a name of a device".to_owned()),
    }
}

pub(crate) fn run(args: &ProxyArgs) -> Result<ExitCode, CommandError> {
    check(args)?;
    if args.rules == Some(RulesArg::Print) {
        if args.listen.iter().any(|address| address.port() == 0) {
            return Err(CommandError::usage("--listen: rules need a port that is known before"));
        }
        print(&redirect(args, &args.listen).commands())?;
        return Ok(ExitCode::SUCCESS);
    }
    let file = args.file.as_ref().map(ConfigFile::path);
    args.experiment.check_files(&args.outputs, file)?;
    check_target(args)?;
    cellpace_os::descriptors::raise_limit();
    let experiment = args.experiment.read(&args.outputs, |cc| args.flow.controller(cc))?;
    let config = config(args, experiment.as_ref())?;
    check_runtime()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(RESOLVERS)
        .build()
        .map_err(CommandError::failed)?;
    let (ended, log, outputs) = runtime.block_on(serve(args, config, experiment))?;
    log.finish();
    // A name that is being resolved must not hold the end up.
    runtime.shutdown_background();
    outputs.finish()?;
    match ended.cut {
        0 => Ok(service_exit_code()),
        1 => Err(CommandError::failed("1 connection was cut")),
        cut => Err(CommandError::failed(format!("{cut} connections were cut"))),
    }
}

/// The configuration that the arguments of this process and the file that they name ask for now.
fn config_again() -> Result<(ProxyConfig, ConfigFile), CommandError> {
    let (args, file) = with_config(with_negative_values(std::env::args_os()))?;
    let file = file.ok_or_else(|| CommandError::failed("--config is not among the arguments"))?;
    let command = ProxyArgs::augment_args(clap::Command::new("proxy"));
    let read = command.try_get_matches_from(args.into_iter().skip(1));
    let read = read.and_then(|matches| ProxyArgs::from_arg_matches(&matches));
    let args = read.map_err(|error| CommandError::usage(file.located(&first_line(&error))))?;
    let checked = check(&args).and_then(|()| check_target(&args));
    // An experiment goes on as it began.
    let config = checked.and_then(|()| config(&args, None));
    Ok((config.map_err(|error| located(error, Some(&file)))?, file))
}

/// A name that has no address now would only fail later, for every client, and a target that is the
/// proxy itself would have it connect to itself without end.
fn check_target(args: &ProxyArgs) -> Result<(), CommandError> {
    let found = match &args.to {
        None => return Ok(()),
        Some(Target::Address(address)) => vec![*address],
        Some(Target::Name(name, port)) => resolve(name, *port)?,
    };
    match found.iter().find(|address| is_listener(**address, &args.listen)) {
        None => Ok(()),
        Some(address) => Err(CommandError::usage(format!(
            "--to: {address} is where this proxy listens: it would connect to itself; name the \
             address of the server"
        ))),
    }
}

fn resolve(name: &str, port: u16) -> Result<Vec<SocketAddr>, CommandError> {
    let failure =
        |why: &str| CommandError::usage(format!("--to: the name `{name}` does not resolve: {why}"));
    let found = (name, port).to_socket_addrs();
    let found: Vec<SocketAddr> =
        found.map_err(|error| failure(&resolve_problem(&error)))?.collect();
    if found.is_empty() { Err(failure("it has no address")) } else { Ok(found) }
}

/// Clap does not insist on an option that another one excludes.
fn check(args: &ProxyArgs) -> Result<(), CommandError> {
    if args.user.is_some() && !args.socks5 {
        return Err(CommandError::usage("--user: only with --socks5"));
    }
    let names_networks = !args.allow.is_empty() || !args.deny.is_empty();
    if names_networks && !args.socks5 {
        return Err(CommandError::usage("--allow and --deny: only with --socks5"));
    }
    if args.rules.is_some() && !args.transparent {
        return Err(CommandError::usage("--rules: only with --transparent"));
    }
    // Both are read before the connection is the engine's, which then finds no hello.
    let is_read_first = args.socks5 || !args.accept_proxy.is_empty();
    if args.flow.is_client_server()
        && is_read_first
        && !matches!(args.control, ControlArg::Upstream)
    {
        return Err(CommandError::usage(
            "--driver client-server: clients speak SOCKS or the PROXY protocol first, in plain; \
             it goes with --control upstream only",
        ));
    }
    Ok(())
}

/// Threads that resolve names, at most.
const RESOLVERS: usize = 16;

fn redirect(args: &ProxyArgs, listen: &[SocketAddr]) -> Redirect {
    let ports = match args.ports.as_slice() {
        [] => vec![80, 443],
        ports => ports.to_vec(),
    };
    Redirect { listen: listen.to_vec(), ports, device: args.device.clone() }
}

/// Connections at once for which there are descriptors: who is taken without them can only be reset.
fn most_connections(args: &ProxyArgs) -> usize {
    let asked = args.max_connections as usize;
    let sides = if matches!(args.control, ControlArg::Both) { 2 } else { 1 };
    // Two sockets, and a pair for each side that is under a controller.
    let each = 2 + 2 * sides;
    let limit = usize::try_from(cellpace_os::descriptors::limit()).unwrap_or(usize::MAX);
    // For listeners, files, names that are resolved, and the page.
    let others = (limit / 8).clamp(24, 100);
    let most = (limit.saturating_sub(others) / each).max(1);
    if most < asked {
        args.outputs.verbosity.note(&format!(
            "{most} connections at once and not {asked}: each takes {each} of the {limit} descriptors \
             that this process may have (ulimit -Hn, or LimitNOFILE= of a unit)"
        ));
    }
    asked.min(most)
}

fn config(
    args: &ProxyArgs,
    experiment: Option<&ReadExperiment>,
) -> Result<ProxyConfig, CommandError> {
    let connections = most_connections(args);
    let (flow, trial) = args.experiment.control(experiment, &args.flow, &args.outputs)?;
    Ok(ProxyConfig {
        listen: args.listen.clone(),
        mode: mode(args)?,
        flow,
        trial,
        control: match args.control {
            ControlArg::Client => ControlledSide::Client,
            ControlArg::Upstream => ControlledSide::Upstream,
            ControlArg::Both => ControlledSide::Both,
        },
        send_proxy: args.send_proxy.map(|version| match version {
            VersionArg::V1 => Version::V1,
            VersionArg::V2 => Version::V2,
        }),
        accept_proxy: args.accept_proxy.clone(),
        access: Access { allow: args.allow.clone(), deny: args.deny.clone() },
        limits: ProxyLimits {
            connections,
            per_client: match args.max_per_client {
                Some(PerClient(limit)) => limit,
                None => Some((connections / 4).max(1)),
            },
            idle: duration(args.idle),
            drain: duration(args.drain),
            ..ProxyLimits::default()
        },
    })
}

fn duration(span: Span) -> Duration {
    Duration::from_nanos(span.as_nanos())
}

fn mode(args: &ProxyArgs) -> Result<ProxyMode, CommandError> {
    if let Some(target) = &args.to {
        return Ok(ProxyMode::Forward(target.clone()));
    }
    if args.transparent {
        return Ok(ProxyMode::Transparent);
    }
    let user = args.user.as_deref().map(credentials).transpose();
    let user = user.map_err(|error| CommandError::usage(format!("--user: {error}")))?;
    let public = args.listen.iter().find(|address| !address.ip().to_canonical().is_loopback());
    if let (None, Some(public)) = (&user, public) {
        args.outputs.verbosity.note(&format!(
            "warning: whoever reaches {public} can use this proxy to reach others in its name; \
             set --user, or listen at a loopback address"
        ));
    }
    Ok(ProxyMode::Socks5(user))
}

/// `NAME:FILE`; the password is not on the command line, where everybody on the machine sees it.
fn credentials(text: &str) -> Result<Credentials, String> {
    /// A password has 255 bytes at most, and its line an end.
    const MAX_LINE: u64 = 258;
    let (name, file) = text.split_once(':').ok_or("write NAME:FILE, the password in the file")?;
    let mut bytes = Vec::new();
    let read =
        File::open(Path::new(file)).and_then(|file| file.take(MAX_LINE).read_to_end(&mut bytes));
    read.map_err(|error| format!("{file}: {error}"))?;
    let line = bytes.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    Credentials::new(name.as_bytes(), line)
        .ok_or_else(|| "name and password have 1 to 255 bytes each".to_owned())
}

async fn serve(
    args: &ProxyArgs,
    config: ProxyConfig,
    experiment: Option<ReadExperiment>,
) -> Result<(ProxyOutcome, Arc<ProxyLog>, OpenOutputs<'_>), CommandError> {
    let cc = config.flow.cc.clone();
    let (stop, stopped) = watch::channel(StopUrgency::No);
    // Before anything is printed: who waits for that may stop us from then on.
    let signals = EndSignals::new()?;
    let reload = Reload::new(args.file.as_ref(), experiment.is_some())?;
    let passed =
        passed_listeners().map_err(|error| CommandError::failed(format!("LISTEN_FDS: {error}")))?;
    let proxy = Proxy::bind(config, passed).map_err(|error| not_bound(&error))?;
    let _rules = match args.rules {
        Some(RulesArg::Apply) => Some(
            redirect(args, proxy.addresses())
                .apply()
                .map_err(|error| CommandError::failed(format!("--rules: {error}")))?,
        ),
        _ => None,
    };
    // Last of what can fail: a proxy that does not start leaves no file.
    let experiment = experiment.map(|read| read.open(args.outputs.verbosity)).transpose()?;
    let metrics = proxy.metrics();
    if let Some(reload) = reload {
        let verbosity = args.outputs.verbosity;
        tokio::spawn(reload.run(config_again, proxy.reconfigure(), metrics.clone(), verbosity));
    }
    let counted = experiment.clone();
    let more_metrics = Box::new(move || {
        let mut families = metrics.families();
        families.extend(counted.iter().flat_map(|experiment| experiment.families()));
        families
    });
    let (log, outputs) = args.outputs.open(LoggingCommand::Proxy, &cc, Some(more_metrics))?;
    let log = Arc::new(ProxyLog::new(log));
    for address in proxy.addresses() {
        args.outputs.verbosity.note(&format!("waiting at {address}"));
    }
    for address in proxy.taken_over() {
        args.outputs.verbosity.note(&format!(
            "another process listens at {address}, too: new connections come here from now on, and it \
             can be ended"
        ));
    }
    let verbosity = args.outputs.verbosity;
    if args.transparent && args.rules.is_none() {
        verbosity.note(
            "only connections that rules of yours redirect here are served: `--rules print` shows \
             such rules, `--rules apply` makes them",
        );
    }
    tell(ServiceState::Ready);
    tokio::spawn(watch_signals(stop, signals, verbosity));
    let watched = log.clone();
    tokio::spawn(async move {
        loop {
            tokio::time::sleep(LOOK).await;
            watched.look();
        }
    });
    let recorded = experiment.clone();
    let (opened, plain) = (log.clone(), outputs.plain.clone());
    let (unreachable, uncontrolled) = (RepeatedNote::default(), RepeatedNote::default());
    let is_forwarder = args.to.is_some();
    let ended = proxy.run(stopped, move |notice| match &notice {
        Notice::Controlled(controlled) => opened.opened(controlled),
        Notice::Recorded(record) => {
            recorded.iter().for_each(|experiment| experiment.record(record));
        }
        Notice::Closed(ServedConnection { how: Err(error), .. })
            if is_forwarder && !verbosity.is_verbose() =>
        {
            note_unreachable(&unreachable, error, verbosity);
        }
        Notice::Uncontrolled(error) => {
            plain.add(PlainReason::of(error), 1);
            note_uncontrolled(&uncontrolled, error, verbosity);
        }
        notice => print_notice(notice, verbosity),
    });
    let ended = ended.await.map_err(CommandError::failed)?;
    experiment.map_or(Ok(()), |experiment| experiment.finish())?;
    Ok((ended, log, outputs))
}

/// Why it cannot listen, and for a low port what would let it.
fn not_bound(error: &ProxyError) -> CommandError {
    let hint = match error {
        ProxyError::Listen { address, source }
            if source.kind() == ErrorKind::PermissionDenied && address.port() < 1024 =>
        {
            ": ports below 1024 need CAP_NET_BIND_SERVICE: run it as root, or by a unit with \
             AmbientCapabilities=CAP_NET_BIND_SERVICE, or listen at a higher port"
        }
        _ => "",
    };
    CommandError::failed(format!("--listen: {error}{hint}"))
}

/// Interval at which flows are looked at.
const LOOK: Duration = Duration::from_millis(100);

/// Ctrl-C and SIGTERM; one that the parent made this process ignore never comes.
struct EndSignals {
    interrupt: Option<Signal>,
    terminate: Option<Signal>,
}

impl EndSignals {
    fn new() -> Result<Self, CommandError> {
        let heeded = |number, kind| match is_ignored(number) {
            true => Ok(None),
            false => signal(kind).map(Some).map_err(CommandError::failed),
        };
        Ok(Self {
            interrupt: heeded(SIGINT, SignalKind::interrupt())?,
            terminate: heeded(SIGTERM, SignalKind::terminate())?,
        })
    }

    /// Waits for either.
    async fn next(&mut self) {
        tokio::select! {
            () = next(self.interrupt.as_mut()) => note_interrupt(SIGINT),
            () = next(self.terminate.as_mut()) => note_interrupt(SIGTERM),
        }
    }
}

async fn next(signal: Option<&mut Signal>) {
    match signal {
        Some(signal) => {
            signal.recv().await;
        }
        None => std::future::pending().await,
    }
}

async fn watch_signals(
    stop: watch::Sender<StopUrgency>,
    mut signals: EndSignals,
    verbosity: Verbosity,
) {
    for urgency in [StopUrgency::Drain, StopUrgency::Now] {
        signals.next().await;
        stop.send_replace(urgency);
        if urgency == StopUrgency::Drain {
            tell(ServiceState::Stopping);
            verbosity.note("taking no more connections; once more to cut those that are open");
        }
    }
    // Dropping the sender would look like a request, and a third signal has nothing to add.
    std::future::pending::<()>().await;
}

/// Says something that may happen to every connection, and from then on how often it happened.
#[derive(Default)]
struct RepeatedNote(Mutex<(u64, Option<Instant>)>);

impl RepeatedNote {
    /// From one line to the next.
    const EVERY: Duration = Duration::from_secs(10);

    /// Notes the `text` about so many connections, if it is time.
    fn note(&self, verbosity: Verbosity, text: impl FnOnce(u64) -> String) {
        let mut noted = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let (count, at) = &mut *noted;
        *count += 1;
        if at.is_some_and(|at| at.elapsed() < Self::EVERY) {
            return;
        }
        *at = Some(Instant::now());
        verbosity.note(&text(std::mem::take(count)));
    }
}

/// Says that the destination of a forwarder cannot be reached.
fn note_unreachable(repeated: &RepeatedNote, error: &ConnectionError, verbosity: Verbosity) {
    if !matches!(error, ConnectionError::Unreachable { .. } | ConnectionError::Loop) {
        return;
    }
    repeated.note(verbosity, |count| match count {
        1 => format!("a client was not served: {error}"),
        _ => format!("{count} clients were not served: {error}"),
    });
}

/// Says why connections have no controller.
fn note_uncontrolled(repeated: &RepeatedNote, error: &TcpError, verbosity: Verbosity) {
    repeated.note(verbosity, |count| match count {
        1 => format!("a connection continues without a controller: {error}"),
        _ => format!("{count} connections continue without a controller: {error}"),
    });
}

fn print_notice(notice: &Notice, verbosity: Verbosity) {
    match notice {
        Notice::Closed(closed) => verbosity.detail(|| line(closed)),
        Notice::AcceptFailed(error) => {
            verbosity.note(&format!("cannot accept a connection, trying again: {error}"));
        }
        notice => verbosity.note(&format!("{notice:?}")),
    }
}

/// What became of a connection.
fn line(closed: &ServedConnection) -> String {
    let ServedConnection { client, to_client, to_upstream, lasted, .. } = closed;
    let target = match &closed.target {
        Some(target) => format!(" -> {target}"),
        None => String::new(),
    };
    let how = match &closed.how {
        Ok(how) => how.word().to_owned(),
        Err(error) => error.to_string(),
    };
    let lasted = lasted.as_secs_f64();
    format!(
        "{client}{target}: {how}, {to_client} bytes to the client, {to_upstream} bytes from it, \
         {lasted:.3} s"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        assert_eq!(listen("8080"), Ok("127.0.0.1:8080".parse().unwrap()));
        assert_eq!(listen("[::]:80"), Ok("[::]:80".parse().unwrap()));
        assert!(listen("localhost:80").is_err() && listen("70000").is_err());
    }

    #[test]
    fn a_limit_per_client_may_be_none() {
        assert_eq!(per_client("7"), Ok(PerClient(Some(7))));
        for none in ["0", "none"] {
            assert_eq!(per_client(none), Ok(PerClient(None)));
        }
        for text in ["", "-1", "1000001", "all"] {
            assert!(per_client(text).is_err(), "{text}");
        }
    }

    #[test]
    fn devices_cannot_break_out_of_a_rule() {
        assert_eq!(device("eth1.5"), Ok("eth1.5".to_owned()));
        for text in ["", "a\" accept", "sixteen_letters_", "a/b", "a b", "é"] {
            assert!(device(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_password_is_the_first_line_of_its_file() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("password");
        let read = |content: &[u8]| {
            std::fs::write(&file, content).unwrap();
            credentials(&format!("me:{}", file.display()))
        };
        let expected = Credentials::new(b"me", b"secret").unwrap();
        assert!(read(b"secret") == Ok(expected.clone()));
        assert!(read(b"secret\n") == Ok(expected.clone()));
        assert!(read(b"secret\r\nmore") == Ok(expected));
        assert!(read(b"").is_err() && read(&[b'x'; 256]).is_err());
        assert!(read(&[b'x'; 255]).is_ok());
        assert!(credentials("me").is_err() && credentials("me:/nowhere/at/all").is_err());
    }
}
