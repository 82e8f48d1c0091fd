//! `cellpace proxy` reads its options again at SIGHUP.

use cellpace_os::service::{ServiceState, tell};
use cellpace_os::signals::{Signal as SignalNumber, is_ignored};
use cellpace_proxy::{Metrics, ProxyConfig, Reconfigure};
use tokio::signal::unix::{Signal, SignalKind, signal};

use crate::config_file::ConfigFile;
use crate::error::CommandError;
use crate::options::Verbosity;
use crate::output::complain;

/// What holds for connections that begin later; all else takes a restart.
const CHANGEABLE: &[&str] = &[
    "--to",
    "--user",
    "--allow",
    "--deny",
    "--send-proxy",
    "--accept-proxy",
    "--max-connections",
    "--max-per-client",
    "--idle",
    "--drain",
];
/// The same of who controls them, but in an experiment.
const CONTROL: &[&str] = &["--control", "--cc", "--driver", "--share", "--below", "--share-of"];

/// Reads the configuration of a proxy again.
pub(crate) struct Reload {
    hangups: Signal,
    file: ConfigFile,
    is_experiment: bool,
}

impl Reload {
    /// Waits for SIGHUP from now on. `None` where the parent made this process ignore it, and without a file.
    pub(crate) fn new(
        file: Option<&ConfigFile>,
        is_experiment: bool,
    ) -> Result<Option<Self>, CommandError> {
        let Some(file) = file.filter(|_| !is_ignored(SignalNumber::SIGHUP)) else {
            return Ok(None);
        };
        let hangups = signal(SignalKind::hangup()).map_err(CommandError::failed)?;
        Ok(Some(Self { hangups, file: file.clone(), is_experiment }))
    }

    /// Has the options `read` whenever the signal comes. What is wrong with them changes nothing.
    pub(crate) async fn run(
        mut self,
        read: fn() -> Result<(ProxyConfig, ConfigFile), CommandError>,
        reconfigure: Reconfigure,
        metrics: Metrics,
        verbosity: Verbosity,
    ) {
        while self.hangups.recv().await.is_some() {
            tell(ServiceState::Reloading);
            // Names are resolved, and that waits.
            let found = tokio::task::spawn_blocking(read).await;
            let found = found.unwrap_or_else(|error| Err(CommandError::failed(error)));
            let found =
                found.and_then(|(config, file)| self.check_changes(&file).map(|()| (config, file)));
            metrics.reloaded(found.is_ok());
            match found {
                Ok((config, file)) => {
                    verbosity.note(&self.text(&config, &file));
                    self.file = file;
                    reconfigure.set(config);
                }
                Err(error) => {
                    let (error, file) = (error.to_string(), self.file.path().display().to_string());
                    // Of what is missing there is no line.
                    let place = if error.contains(&file) { String::new() } else { file + ": " };
                    complain(&format!("{place}{error}; what was in force stays so"));
                }
            }
            tell(ServiceState::Ready);
        }
    }

    fn check_changes(&self, newer: &ConfigFile) -> Result<(), CommandError> {
        let control = if self.is_experiment { &[] } else { CONTROL };
        self.file.check_changes(newer, &[CHANGEABLE, control].concat())
    }

    fn text(&self, config: &ProxyConfig, file: &ConfigFile) -> String {
        let path = file.path().display();
        match self.is_experiment {
            true => format!(
                "{path}: read again; the experiment goes on, of whose file only a restart reads changes"
            ),
            false => format!("{path}: read again; new connections are under {}", config.flow.cc),
        }
    }
}
