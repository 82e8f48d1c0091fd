//! `--dashboard`: the live view of a command in the browser.

use std::net::{Ipv4Addr, SocketAddr};

use cellpace_live::{LiveAbout, LiveConnections, LiveServer, MoreMetrics};
use clap::Args;

use crate::error::CommandError;
use crate::options::Verbosity;
use crate::output::command_line;

/// Where the live view is served.
#[derive(Debug, Args)]
#[command(next_help_heading = "Output")]
pub(crate) struct DashboardOptions {
    /// Show the connections in the browser: prints a link with a token. Also serves /metrics for
    /// Prometheus, on loopback without the token [default address: 127.0.0.1, and a free port]
    #[arg(long, value_name = "[ADDR:]PORT", num_args = 0..=1, default_missing_value = "0", value_parser = address)]
    dashboard: Option<SocketAddr>,
    /// Let --dashboard listen at an address that other machines reach; nothing is encrypted
    #[arg(long, requires = "dashboard")]
    dashboard_allow_remote: bool,
}

fn address(text: &str) -> Result<SocketAddr, String> {
    if let Ok(port) = text.parse::<u16>() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| {
        "write a port, or an address and a port, as in 9100 or 127.0.0.1:9100; without either, \
         write another option after --dashboard"
            .to_owned()
    })
}

impl DashboardOptions {
    /// Refuses an address that strangers reach, unless they may.
    pub(crate) fn check(&self) -> Result<(), CommandError> {
        match self.dashboard {
            Some(address) if !is_local(address) && !self.dashboard_allow_remote => {
                Err(CommandError::usage(format!(
                    "--dashboard: other machines may reach {address}, and nothing is encrypted: use \
                     a port alone and `ssh -L`, or --dashboard-allow-remote"
                )))
            }
            _ => Ok(()),
        }
    }

    /// Begins to serve what a command shows, and prints the link.
    pub(crate) fn open(
        &self,
        command: &'static str,
        subject: String,
        more_metrics: Option<MoreMetrics>,
        verbosity: Verbosity,
    ) -> Result<Option<OpenDashboard>, CommandError> {
        let Some(address) = self.dashboard else { return Ok(None) };
        let about = LiveAbout { command, subject, command_line: command_line() };
        let connections = LiveConnections::new(about);
        let server = LiveServer::start(address, connections.clone(), more_metrics);
        let server = server
            .map_err(|error| CommandError::failed(format!("--dashboard: {address}: {error}")))?;
        verbosity.note(&format!("live view at {}", server.link()));
        if !is_local(address) {
            verbosity.note(
                "warning: whoever has the link sees peers' addresses and traffic, and who listens on \
                 the way has the link",
            );
        }
        Ok(Some(OpenDashboard { server, connections }))
    }
}

fn is_local(address: SocketAddr) -> bool {
    address.ip().to_canonical().is_loopback()
}

/// The live view while the command runs.
pub(crate) struct OpenDashboard {
    server: LiveServer,
    connections: LiveConnections,
}

impl OpenDashboard {
    /// What is shown.
    pub(crate) fn connections(&self) -> LiveConnections {
        self.connections.clone()
    }

    /// Shows the last figures and ends.
    pub(crate) fn finish(self) {
        self.server.finish();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_one_of_the_loopback_interface() {
        assert_eq!(address("9100"), Ok("127.0.0.1:9100".parse().unwrap()));
        assert_eq!(address("[::1]:0"), Ok("[::1]:0".parse().unwrap()));
        assert!(address("localhost:80").is_err() && address("70000").is_err());
    }

    #[test]
    fn an_address_that_others_reach_is_asked_for_twice() {
        let check = |text: &str, allow| {
            let dashboard = Some(address(text).unwrap());
            DashboardOptions { dashboard, dashboard_allow_remote: allow }.check().is_ok()
        };
        assert!(
            check("9100", false) && check("[::1]:1", false) && check("[::ffff:127.0.0.1]:1", false)
        );
        assert!(!check("0.0.0.0:9100", false) && !check("[::]:9100", false));
        assert!(check("0.0.0.0:9100", true));
    }
}
