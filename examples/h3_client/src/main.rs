//! Fetches a file over HTTP/3:
//!
//!     h3_client https://there:4433/a.mp4 --peer there.pem --output a.mp4
//!
//! A file gets its name when all of it is there.

#![forbid(unsafe_code)]

use std::error::Error;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use cellpace_quic::identity::Peer;
use cellpace_report::Aside;
use clap::Parser;
use h3_client::{Url, get};

/// Fetch a file over HTTP/3.
#[derive(Debug, Parser)]
#[command(version)]
struct Args {
    /// https://HOST/PATH or https://HOST:PORT/PATH
    #[arg(value_name = "URL")]
    url: Url,
    /// Who the server must be: the fingerprint that it prints, or a PEM file with its certificate or
    /// one that vouches for it [default: whom this machine's authorities vouch for]
    #[arg(long, value_name = "FINGERPRINT|FILE")]
    peer: Option<String>,
    /// Where it goes: a file, or - for standard output
    #[arg(long, value_name = "FILE|-", default_value = "-")]
    output: PathBuf,
    /// Give up when nothing comes for this many seconds
    #[arg(long, default_value_t = 30, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=86_400))]
    timeout: u64,
}

/// Where Debian and others have the certificates of the authorities that they trust.
const AUTHORITIES: [&str; 2] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];

#[tokio::main]
async fn main() -> ExitCode {
    match fetch(&Args::parse()).await {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("h3_client: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn fetch(args: &Args) -> Result<(), Box<dyn Error>> {
    let peer = match &args.peer {
        Some(text) if text.starts_with("sha256:") => text.parse()?,
        Some(file) => read_peer(Path::new(file))?,
        None => {
            let file = AUTHORITIES.map(Path::new).into_iter().find(|file| file.exists());
            read_peer(file.ok_or("this machine has no list of authorities: give --peer")?)?
        }
    };
    let mut aside = match args.output == Path::new("-") {
        true => None,
        false => Some(Aside::create(&args.output)?),
    };
    let mut stdout = io::stdout();
    let body: &mut dyn Write = match &mut aside {
        Some(aside) => aside,
        None => &mut stdout,
    };
    let done = tokio::select! {
        done = get(&args.url, &peer, Duration::from_secs(args.timeout), body) => done?,
        _ = tokio::signal::ctrl_c() => return Err("interrupted".into()),
    };
    if let Some(aside) = aside {
        aside.commit()?;
    }
    let seconds = done.took.as_secs_f64();
    eprintln!(
        "{} bytes in {seconds:.2} s: {:.2} Mbit/s; handshake {:.1} ms",
        done.bytes,
        done.bytes as f64 * 8e-6 / seconds.max(1e-9),
        done.handshake.as_secs_f64() * 1e3
    );
    Ok(())
}

fn read_peer(path: &Path) -> Result<Peer, Box<dyn Error>> {
    let named = |why: &dyn std::fmt::Display| format!("{}: {why}", path.display());
    let text = std::fs::read(path).map_err(|error| named(&error))?;
    Ok(Peer::from_pem(&text).map_err(|error| named(&error))?)
}
