//! Serves the files of a folder over HTTP/3:
//!
//!     h3_server files                                   # on this machine, at port 4433
//!     h3_server files --listen 0.0.0.0:4443
//!     h3_server files --listen 0.0.0.0:443 --certificate site.pem
//!
//! It gives up no privileges: run it as a user of its own, and for port 443 with CAP_NET_BIND_SERVICE
//! alone (`AmbientCapabilities=` of a unit).

#![forbid(unsafe_code)]

use std::error::Error;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cellpace_base::{Span, parse_span};
use cellpace_cc::{ControllerSpec, DEFAULT_CONTROLLER};
use cellpace_quic::identity::Identity;
use clap::Parser;
use h3_server::{Limits, RequestLog, Server};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::signal::unix::{SignalKind, signal};

/// Serve the files of a folder over HTTP/3, each connection under a controller of its own.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// The folder; nothing outside of it is served, whatever links lead there
    #[arg(value_name = "DIR")]
    folder: PathBuf,
    /// The controller of each connection
    #[arg(long, value_name = "CONTROLLER", default_value = DEFAULT_CONTROLLER, value_parser = controller)]
    cc: ControllerSpec,
    /// Where to listen; a port alone is on loopback
    #[arg(long, value_name = "[ADDR:]PORT", default_value = "4433", value_parser = address)]
    listen: SocketAddr,
    /// The server's certificate, those that it needs and its private key, a PEM file that others may
    /// not read [default: a new one for localhost]
    #[arg(long, value_name = "FILE")]
    certificate: Option<PathBuf>,
    /// Serve at most this many connections at a time, and to one network a quarter of them, but at
    /// least 64
    #[arg(long, default_value_t = 1024, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=100_000))]
    max_connections: u32,
    /// Close a connection that asks for nothing, and stop an answer that nobody reads, after this long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    timeout: Span,
    /// Seed of what controllers draw at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Print no line for requests and connections
    #[arg(long, short)]
    quiet: bool,
}

fn controller(text: &str) -> Result<ControllerSpec, String> {
    text.parse::<ControllerSpec>().map_err(|error| error.to_string())
}

fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.parse::<u16>().map(|port| (Ipv4Addr::LOCALHOST, port).into());
    port.or_else(|_| text.parse()).map_err(|_| "write ADDR:PORT or a port".to_owned())
}

fn timeout(text: &str) -> Result<Span, String> {
    let span = parse_span(text).map_err(|error| error.to_string())?;
    let range = Span::from_millis(500)..=Span::from_secs(86_400);
    range.contains(&span).then_some(span).ok_or_else(|| "write a time from 500ms to 24h".to_owned())
}

#[tokio::main]
async fn main() -> ExitCode {
    match serve(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("h3_server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(args: &Args) -> Result<(), Box<dyn Error>> {
    // Installed before anything is said: what reads the line may end the server at once.
    let mut ends = [SignalKind::terminate(), SignalKind::interrupt()].map(signal);
    let identity = match &args.certificate {
        Some(path) => {
            read_identity(path).map_err(|why| format!("--certificate {}: {why}", path.display()))?
        }
        None => Identity::generate(["localhost", "127.0.0.1", "::1"].map(str::to_owned))?,
    };
    let patience = Duration::from_nanos(args.timeout.as_nanos());
    let limits = Limits {
        connections: args.max_connections as usize,
        files: open_files(),
        idle: patience,
        patience,
        ..Limits::default()
    };
    let (at, cc, seed) = (args.listen, args.cc.clone(), args.seed);
    let server = match args.quiet {
        true => Server::bind(at, &args.folder, cc, seed, &identity, limits, ()),
        false => {
            let log = RequestLog::new(std::io::stdout())?;
            Server::bind(at, &args.folder, cc, seed, &identity, limits, log)
        }
    }?;
    let at = server.local_address()?;
    eprintln!("serving at https://{at}/; the certificate is {}", identity.fingerprint());
    if let Some(hash) = identity.key_hash() {
        eprintln!("for Chromium: --ignore-certificate-errors-spki-list={hash}");
    }
    let [terminated, interrupted] = &mut ends;
    let (terminated, interrupted) = (terminated.as_mut(), interrupted.as_mut());
    let no_handler = |error: &mut std::io::Error| format!("no handler for signals: {error}");
    let (terminated, interrupted) =
        (terminated.map_err(no_handler)?, interrupted.map_err(no_handler)?);
    tokio::select! {
        () = server.run() => {}
        _ = terminated.recv() => {}
        _ = interrupted.recv() => {}
    }
    server.close().await;
    Ok(())
}

/// Raises the limit on descriptors, and returns how many of them files may be: sockets and the system
/// need some.
fn open_files() -> usize {
    let before = getrlimit(Resource::Nofile);
    // The server gets along with fewer.
    let _ = setrlimit(Resource::Nofile, Rlimit { current: before.maximum, ..before });
    let most = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    most.saturating_sub(32).clamp(1, Limits::default().files)
}

/// Reads a certificate with its private key, which others may not read.
fn read_identity(path: &Path) -> Result<Identity, Box<dyn Error>> {
    let mode = std::fs::metadata(path)?.mode() & 0o777;
    if mode & 0o077 != 0 {
        let why = format!("others may read or change its private key (its mode is {mode:04o})");
        return Err(why.into());
    }
    Ok(Identity::from_pem(&std::fs::read(path)?)?)
}
