//! Options of `--quic`, which both sides have.

use std::path::PathBuf;

use clap::Args;

/// Options of transfers inside QUIC.
#[derive(Debug, Clone, Args)]
#[command(next_help_heading = "QUIC")]
pub(crate) struct QuicOptions {
    /// Inside QUIC: the other side is known by its certificate; both sides need it
    #[arg(long)]
    pub(crate) quic: bool,
    /// Who the other side must be: the fingerprint of its certificate, which `cellpace key` prints there,
    /// or a PEM file with the certificate [default: who has the key]
    #[arg(long, value_name = "FINGERPRINT|FILE", requires = "quic")]
    pub(crate) peer: Option<String>,
    /// This side's certificate and private key, a PEM file that others may not read [default: those that
    /// follow from the key]
    #[arg(long, value_name = "FILE", requires = "quic")]
    pub(crate) certificate: Option<PathBuf>,
}
