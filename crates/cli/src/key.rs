//! `cellpace key`, `--key` and `--plain`: the secret that both sides of `send`, `recv` and `probe` share.

use std::path::PathBuf;
use std::process::ExitCode;

use cellpace_lab::transfer::{OwnKey, SECRET_BYTES, create_key, read_key};
use clap::Args;

use crate::error::CommandError;
use crate::options::Verbosity;
use crate::output::print;

/// Arguments of `cellpace key`.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  cellpace key                       # where your own key is; makes it if there is none
  cellpace key path.key              # a new one, for one path or one peer
  cellpace recv --key path.key --once & cellpace send 127.0.0.1 --key path.key --bytes 5MB

send, recv and probe encrypt all that they send under a key. Without --key they take your own one, so nothing
has to be given between programs that you run on one machine. Between two machines, copy a key to the other one
(scp -p path.key HOST:) and give --key path.key there. Whoever has the key can send, receive, measure, and read
what is sent; nobody else gets an answer.")]
pub(crate) struct KeyArgs {
    /// Where a new key goes; only you may read it, and nothing is overwritten [default: says where
    /// your own one is]
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
}

/// `--key` and `--plain`.
#[derive(Debug, Clone, Args)]
pub(crate) struct KeyOption {
    /// The key that both sides have: who does not have it gets no answer [default: your own one, see
    /// `cellpace key`]
    #[arg(long, value_name = "FILE")]
    key: Option<PathBuf>,
    /// Do not encrypt: a checksum, and whoever is on the path reads and changes what is sent. For
    /// measuring; both sides need it
    #[arg(long, conflicts_with = "key")]
    pub(crate) plain: bool,
}

impl KeyOption {
    /// Whether there is a `--key`.
    pub(crate) fn is_given(&self) -> bool {
        self.key.is_some()
    }

    /// The secret of `--key`, or `None` without one.
    pub(crate) fn given(&self) -> Result<Option<[u8; SECRET_BYTES]>, CommandError> {
        let Some(path) = &self.key else { return Ok(None) };
        read_key(path)
            .map(Some)
            .map_err(|why| CommandError::usage(format!("--key {}: {why}", path.display())))
    }

    /// The secret of `--key` or the user's own one, which is made where there is none; `None` with
    /// `--plain`.
    pub(crate) fn secret(
        &self,
        verbosity: Verbosity,
    ) -> Result<Option<[u8; SECRET_BYTES]>, CommandError> {
        if self.plain || self.is_given() {
            return self.given();
        }
        let own = OwnKey::open()
            .map_err(|why| CommandError::usage(format!("{why}; give --key FILE, or --plain")))?;
        if own.is_new {
            let path = own.path.display();
            verbosity.note(&format!("made your own key {path}; see `cellpace key`"));
        }
        Ok(Some(own.secret))
    }
}

pub(crate) fn run(args: &KeyArgs) -> Result<ExitCode, CommandError> {
    match &args.file {
        Some(path) => create_key(path)
            .map_err(|why| CommandError::failed(format!("{}: {why}", path.display())))?,
        None => show_own()?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Says where the user's own key is, and how another machine gets it.
fn show_own() -> Result<(), CommandError> {
    let own = OwnKey::open().map_err(CommandError::failed)?;
    let (path, made) = (own.path.display(), if own.is_new { ", made just now" } else { "" });
    print(&format!(
        "your own key: {path}{made}\n{}\
         send, recv and probe take it without --key. For another machine, copy it:\n\
         \x20 scp -p '{path}' HOST:path.key\n\
         and give --key path.key there.\n",
        fingerprint(&own.secret)?
    ))
}

/// What others know the key's certificate by inside QUIC, as a line.
#[cfg(feature = "quic")]
fn fingerprint(secret: &[u8; SECRET_BYTES]) -> Result<String, CommandError> {
    let identity = cellpace_quic::identity::Identity::from_secret(secret);
    let identity = identity.map_err(CommandError::failed)?;
    Ok(format!("inside QUIC others know you by it as --peer {}\n", identity.fingerprint()))
}

#[cfg(not(feature = "quic"))]
fn fingerprint(_: &[u8; SECRET_BYTES]) -> Result<String, CommandError> {
    Ok(String::new())
}
