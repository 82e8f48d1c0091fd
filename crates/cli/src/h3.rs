//! `cellpace h3`: HTTP/3 under any controller.

use std::future::Future;
use std::io::{self, Write};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use cellpace_base::Span;
use cellpace_cc::ControllerSpec;
use cellpace_http3::{
    ConnectionFigures, Limits, RequestFigures, Server, ServerView, Url, get as download,
};
use cellpace_quic::identity::{Identity, Peer};
use cellpace_report::{Aside, short};
use clap::{Args, Subcommand};

use crate::address::ListenAddress;
use crate::error::CommandError;
use crate::flow_options::seed;
use crate::line_writer::begin_service;
use crate::options::{Verbosity, read_text, span, whole};
use crate::output::{check_files, is_stdout, one_line, print_lines};
use crate::progress::{end_cleanly_on_ctrl_c, interrupted, interruption_code};
use crate::transfer::read_peer;

/// `cellpace h3`.
#[derive(Debug, Subcommand)]
pub(crate) enum H3Command {
    /// Serve the files of a folder over HTTP/3
    Serve(ServeArgs),
    /// Fetch a file over HTTP/3
    Get(GetArgs),
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:
  mkdir -p files && echo hello > files/index.html
  cellpace h3 serve files                              # on this machine, at port 4433
  cellpace h3 serve files --listen 0.0.0.0:4443 --cc copa

With a certificate that browsers know:
  cellpace h3 serve files --listen 0.0.0.0:443 --certificate site.pem

Without --certificate the server makes one of its own for localhost, and prints its fingerprint; for
Chromium, the hash of its key, too. A folder's page is its index.html.")]
pub(crate) struct ServeArgs {
    /// The folder; nothing outside of it is served, whatever links lead there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The controller of each connection
    #[arg(long, value_name = "CONTROLLER", default_value = "verus", value_parser = controller)]
    cc: ControllerSpec,
    /// Where to listen; a port alone is on loopback
    #[arg(long, value_name = "[ADDR:]PORT", default_value = "4433")]
    listen: ListenAddress,
    /// The server's certificate, those that it needs and its private key, a PEM file [default: a new
    /// one]
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Serve at most this many connections at a time, and to one address a quarter of them, but at
    /// least 64
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = whole(1..=100_000_u32))]
    max_connections: u32,
    /// Close a connection that says nothing, and stop an answer that nobody reads, after this long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    timeout: Span,
    #[command(flatten)]
    verbosity: Verbosity,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:
  cellpace h3 get https://there:4433/a.mp4 --peer there.pem --output a.mp4")]
pub(crate) struct GetArgs {
    /// https://HOST/PATH or https://HOST:PORT/PATH
    #[arg(value_name = "URL", value_parser = url)]
    url: Url,
    /// Who the server must be: the fingerprint that it prints, or a PEM file with its certificate or
    /// one that vouches for it [default: whom this machine's authorities vouch for]
    #[arg(long, value_name = "FINGERPRINT|FILE")]
    peer: Option<String>,
    /// Where it goes: a file, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
    /// Give up when nothing comes for this long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    timeout: Span,
    #[command(flatten)]
    verbosity: Verbosity,
}

/// Where Debian and others have the certificates of the authorities that they trust.
const AUTHORITIES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

const H3_PORT: u16 = 4433;

fn controller(text: &str) -> Result<ControllerSpec, String> {
    text.parse::<ControllerSpec>().map_err(|error| error.to_string())
}

fn url(text: &str) -> Result<Url, String> {
    text.parse::<Url>().map_err(|error| error.to_string())
}

fn timeout(text: &str) -> Result<Span, String> {
    let span = span(text)?;
    let range = Span::from_millis(500)..=Span::from_secs(86_400);
    range.contains(&span).then_some(span).ok_or_else(|| "write a time from 500ms to 24h".to_owned())
}

pub(crate) fn run(command: &H3Command) -> Result<ExitCode, CommandError> {
    match command {
        H3Command::Serve(args) => serve(args),
        H3Command::Get(args) => get(args),
    }
}

fn runtime() -> Result<tokio::runtime::Runtime, CommandError> {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.thread_name("cellpace-h3").enable_all().build().map_err(CommandError::failed)
}

/// Returns once the program is to end.
async fn interruption() {
    while !interrupted() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn serve(args: &ServeArgs) -> Result<ExitCode, CommandError> {
    let identity = match &args.certificate {
        Some(path) => {
            let text = read_text(&path.to_string_lossy(), "certificate")?;
            Identity::from_pem(text.as_bytes()).map_err(|error| {
                CommandError::usage(format!("--certificate {}: {error}", path.display()))
            })?
        }
        None => {
            Identity::generate(["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()])
                .map_err(CommandError::failed)?
        }
    };
    let connections = args.max_connections as usize;
    let patience = Duration::from_nanos(args.timeout.as_nanos());
    let limits = Limits {
        connections,
        connections_per_address: (connections / 4).max(64).min(connections),
        idle: patience,
        patience,
        ..Limits::default()
    };
    begin_service()?;
    end_cleanly_on_ctrl_c();
    runtime()?.block_on(async {
        let mut servers: Vec<Server> = Vec::new();
        for at in args.listen.addresses(H3_PORT, false)? {
            let view = Lines { verbosity: args.verbosity };
            let made =
                Server::bind(at, &args.folder, args.cc.clone(), seed()?, &identity, limits, view);
            match made {
                Ok(server) => servers.push(server),
                // Where there is no IPv6.
                Err(_) if !servers.is_empty() => {}
                Err(error) => return Err(CommandError::failed(error)),
            }
        }
        let at = servers[0].local_address().map_err(CommandError::failed)?;
        args.verbosity.note(&format!(
            "serving at https://{at}/; the certificate is {}",
            identity.fingerprint()
        ));
        if let Some(hash) = identity.key_hash() {
            args.verbosity
                .detail(|| format!("for Chromium: --ignore-certificate-errors-spki-list={hash}"));
        }
        let all = servers.iter().map(Server::run);
        tokio::select! {
            () = join_all(all) => {}
            () = interruption() => {}
        }
        for server in &servers {
            server.close().await;
        }
        Ok(())
    })?;
    Ok(if interrupted() { interruption_code() } else { ExitCode::SUCCESS })
}

/// Waits for all.
async fn join_all(futures: impl Iterator<Item = impl Future<Output = ()>>) {
    let mut all: Vec<_> = futures.map(Box::pin).collect();
    std::future::poll_fn(move |context| {
        all.retain_mut(|future| future.as_mut().poll(context).is_pending());
        if all.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
}

/// Prints a line for each request and each connection.
struct Lines {
    verbosity: Verbosity,
}

impl Lines {
    fn print(&self, line: &str) {
        if !self.verbosity.is_quiet() {
            print_lines(&(one_line(line) + "\n"), false);
        }
    }
}

impl ServerView for Lines {
    fn on_request(&self, figures: &RequestFigures) {
        let RequestFigures { peer, request, status, bytes, took, is_cut } = figures;
        let cut = if *is_cut { ", cut short" } else { "" };
        self.print(&format!(
            "{peer} {request}: {status}, {bytes} bytes in {:.2} s{cut}",
            took.as_secs_f64()
        ));
    }

    fn on_connection(&self, figures: &ConnectionFigures) {
        let ConnectionFigures { peer, requests, took, packets, lost, .. } = figures;
        let mut line = format!(
            "{peer} closed after {:.2} s: {requests} requests, {packets} packets, {lost} lost",
            took.as_secs_f64()
        );
        if let (Some(least), Some(queue)) = (figures.min_rtt, &figures.queue_delay) {
            line += &format!(
                ", rtt min {} ms, queue delay p50 {} p95 {} p99 {} ms",
                short(least.as_millis_f64()),
                short(queue.p50),
                short(queue.p95),
                short(queue.p99),
            );
        }
        self.print(&line);
    }
}

fn get(args: &GetArgs) -> Result<ExitCode, CommandError> {
    check_files(&[("--output", Some(args.output.as_path()))])?;
    let peer = match &args.peer {
        Some(text) => read_peer(text)?,
        None => authorities()?,
    };
    let silence = Duration::from_nanos(args.timeout.as_nanos());
    end_cleanly_on_ctrl_c();
    let mut aside = match is_stdout(&args.output) {
        true => None,
        false => Some(Aside::create(&args.output).map_err(CommandError::failed)?),
    };
    let done = runtime()?.block_on(async {
        let mut stdout = io::stdout();
        let body: &mut dyn Write = match &mut aside {
            Some(aside) => aside,
            None => &mut stdout,
        };
        tokio::select! {
            done = download(&args.url, &peer, silence, body) => Some(done),
            () = interruption() => None,
        }
    });
    let Some(done) = done else { return Ok(interruption_code()) };
    let done = done.map_err(CommandError::failed)?;
    if let Some(aside) = aside {
        aside.commit().map_err(CommandError::failed)?;
    }
    let seconds = done.took.as_secs_f64();
    args.verbosity.note(&format!(
        "{} bytes in {seconds:.2} s: {:.2} Mbit/s; handshake {:.1} ms",
        done.bytes,
        done.bytes as f64 * 8e-6 / seconds.max(1e-9),
        done.handshake.as_secs_f64() * 1e3
    ));
    Ok(ExitCode::SUCCESS)
}

/// Whom this machine trusts.
fn authorities() -> Result<Peer, CommandError> {
    let text = AUTHORITIES.iter().find_map(|file| std::fs::read(file).ok());
    let peer = text.and_then(|text| Peer::from_pem(&text).ok());
    peer.ok_or_else(|| {
        CommandError::usage(
            "this machine has no list of authorities: give --peer with the fingerprint that the \
             server prints, or a PEM file",
        )
    })
}
