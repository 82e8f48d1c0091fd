//! Options that both sides have.

use cellpace_base::Span;
use cellpace_udp::{AckPolicy, Driver, Endpoint, EndpointConfig, Patience, Protection};
use clap::Args;

use crate::error::CommandError;
use crate::key::KeyOption;
use crate::options::{Verbosity, span};
use crate::output::{OutputOption, check_files};
use crate::result_files::ResultFiles;

/// Options of both sides.
#[derive(Debug, Clone, Args)]
pub(crate) struct Common {
    /// Give up a flow when nothing arrives from the other side for this long
    #[arg(long, default_value = "30s", value_name = "TIME", value_parser = timeout)]
    pub(crate) timeout: Span,
    #[command(flatten)]
    pub(crate) key: KeyOption,
    #[command(flatten)]
    pub(crate) files: ResultFiles,
    #[command(flatten)]
    pub(crate) verbosity: Verbosity,
}

fn timeout(text: &str) -> Result<Span, String> {
    let span = span(text)?;
    let range = Span::from_millis(500)..=Span::from_secs(86_400);
    range.contains(&span).then_some(span).ok_or_else(|| "write a time from 500ms to 24h".to_owned())
}

impl Common {
    /// Refuses files that cannot be written: these, and `other`.
    pub(crate) fn check(&self, other: OutputOption<'_>) -> Result<(), CommandError> {
        let [json, report] = self.files.options();
        check_files(&[json, report, other])
    }

    /// A driver without sockets and flows, whose packets have `mtu` bytes at most. It acknowledges
    /// by `acks` where it receives.
    pub(crate) fn driver(
        &self,
        mtu: u16,
        seed: u64,
        acks: AckPolicy,
    ) -> Result<Driver, CommandError> {
        let key = self.key.secret(self.verbosity)?;
        let (secret, new_id) = Driver::secrets().map_err(CommandError::failed)?;
        let config = EndpointConfig {
            mtu,
            patience: Patience { silence: self.timeout },
            seed,
            acks,
            protection: key.map_or_else(Protection::default, |key| Protection::transfer(&key)),
            ..EndpointConfig::default()
        };
        Ok(Driver::new(Endpoint::new(config, secret, new_id)))
    }
}
