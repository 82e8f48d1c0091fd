//! What watches the packets of a link while it runs: figures, logs, the dashboard.

use std::net::SocketAddr;
use std::path::Path;

use cellpace_base::{Span, Time};
use cellpace_emu::{
    LinkChange, LinkDirection, LinkObserver, LinkSide, LinkTally, PcapngLog, SeenPacket, is_pcapng,
};
use cellpace_report::{PacketLog, ReportError};

use crate::link_dashboard::LinkDashboard;
use crate::options::Verbosity;
use crate::path_options::Directions;

/// Counts what goes through the link, writes it down and shows it.
pub(crate) struct LinkWatch {
    pub(crate) down: LinkTally,
    pub(crate) up: LinkTally,
    /// How the link was changed while it ran.
    pub(crate) changes: Vec<LinkChange>,
    /// The one-way delay that was last seen in each direction: down, up.
    latest: [Span; 2],
    options: WatchOptions,
    log: Option<Log>,
    /// The first error; afterwards nothing is logged any more.
    failed: Option<ReportError>,
    dashboard: Option<LinkDashboard>,
    /// What was said about destinations that cannot be reached: the first, or with `-v` all.
    unreachable: Vec<SocketAddr>,
}

/// What the watch has to know of the link.
pub(crate) struct WatchOptions {
    /// The program, for the log.
    pub(crate) name: String,
    pub(crate) verbosity: Verbosity,
    /// Of everything random on the link.
    pub(crate) seed: u64,
    /// The inside can reach the world.
    pub(crate) nat: bool,
    /// It could, with `--nat`.
    pub(crate) may_nat: bool,
}

/// Destinations that are named at most.
const MAX_NAMED: usize = 100;

/// A log by the extension of its file.
pub(crate) enum Log {
    Packets(Box<PacketLog>),
    Capture(Box<PcapngLog>),
}

/// A capture holds whole packets.
const CAPTURED_BYTES: u32 = 65_535;

impl Log {
    pub(crate) fn create(path: &Path) -> Result<Self, ReportError> {
        if is_pcapng(path) {
            let log = PcapngLog::create(path, CAPTURED_BYTES);
            return log.map(|log| Self::Capture(Box::new(log)));
        }
        PacketLog::create(path).map(|log| Self::Packets(Box::new(log)))
    }

    fn finish(self) -> Result<(), ReportError> {
        match self {
            Self::Packets(log) => log.finish(),
            Self::Capture(log) => log.finish(),
        }
    }
}

impl LinkWatch {
    pub(crate) fn new(
        directions: &Directions,
        options: WatchOptions,
        log: Option<Log>,
        dashboard: Option<LinkDashboard>,
    ) -> Self {
        let tally = || LinkTally::new(directions.skip);
        Self {
            down: tally(),
            up: tally(),
            changes: Vec::new(),
            latest: [directions.rtt() / 2; 2],
            options,
            log,
            failed: None,
            dashboard,
            unreachable: Vec::new(),
        }
    }

    /// Ends the dashboard, and gives the log its name.
    pub(crate) fn finish(&mut self) -> Result<(), ReportError> {
        if let Some(dashboard) = self.dashboard.take() {
            dashboard.finish();
        }
        match (self.failed.take(), self.log.take()) {
            (Some(error), _) => Err(error),
            (None, Some(log)) => log.finish(),
            (None, None) => Ok(()),
        }
    }

    fn keep(&mut self, result: Result<(), ReportError>) {
        if let Err(error) = result {
            // A log with a hole must not get its name.
            self.log = None;
            self.failed = Some(error);
        }
    }
}

impl LinkObserver for LinkWatch {
    fn on_packet(&mut self, seen: &SeenPacket) {
        let (tally, own, back) = match seen.direction {
            LinkDirection::Down => (&mut self.down, 0, 1),
            LinkDirection::Up => (&mut self.up, 1, 0),
        };
        if !seen.after_end {
            tally.record(&seen.record, self.latest[back]);
        }
        self.latest[own] = seen.record.one_way_delay();
        if let Some(dashboard) = &mut self.dashboard {
            dashboard.record(seen);
        }
        if let Some(Log::Packets(log)) = &mut self.log {
            // The number of the run tells the direction.
            let pushed = log.push(own as u32, &self.options.name, &seen.record);
            self.keep(pushed);
        }
    }

    fn on_flow(&mut self, flow: u32, addresses: &str) {
        self.down.name(flow, addresses);
        self.up.name(flow, addresses);
        if let Some(dashboard) = &mut self.dashboard {
            dashboard.name(flow, addresses);
        }
    }

    fn on_capture(&mut self, side: LinkSide, at: Time, length: u32, bytes: &[u8]) {
        if let Some(Log::Capture(log)) = &mut self.log {
            let pushed = log.push(side, at, length, bytes);
            self.keep(pushed);
        }
    }

    fn on_change(&mut self, change: &LinkChange) {
        let at = (change.at - Time::ZERO).as_secs_f64();
        let text = || format!("link: {at:.3} s: {}", change.settings.join(" "));
        self.options.verbosity.detail(text);
        if let Some(dashboard) = &mut self.dashboard {
            // It was built once already, for the run.
            dashboard.change(change.link.down.schedule(self.options.seed).ok().flatten());
        }
        self.changes.push(change.clone());
    }

    fn on_unreachable(&mut self, destination: SocketAddr) {
        if self.unreachable.is_empty() {
            self.options.verbosity.note(&unreachable_text(destination, &self.options));
        } else if self.unreachable.len() >= MAX_NAMED || self.unreachable.contains(&destination) {
            return;
        } else {
            self.options.verbosity.detail(|| format!("link: {destination} cannot be reached"));
        }
        self.unreachable.push(destination);
    }

    fn on_tick(&mut self, now: Time) {
        if let Some(dashboard) = &mut self.dashboard {
            dashboard.tick(now);
        }
    }

    fn capture_bytes(&self) -> Option<usize> {
        matches!(self.log, Some(Log::Capture(_))).then_some(CAPTURED_BYTES as usize)
    }
}

/// Why nothing inside reaches a destination, and what to write.
fn unreachable_text(destination: SocketAddr, options: &WatchOptions) -> String {
    let ip = destination.ip();
    let advice = match (options.nat, options.may_nat) {
        (true, _) => "--nat lends it an IPv4 address only",
        (false, true) => "use --nat",
        (false, false) => "use --nat, which needs root",
    };
    if ip.is_loopback() {
        return format!(
            "link: the name server of this machine does not serve the inside: {advice}"
        );
    }
    let what = if destination.port() == 53 { "the name server " } else { "" };
    format!("link: {what}{ip} is beyond this machine, where nothing from inside gets: {advice}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cannot_be_reached_is_said_with_what_to_write() {
        let text = |to: &str, nat, may_nat| {
            let verbosity = Verbosity::default();
            let options = WatchOptions { name: String::new(), verbosity, seed: 1, nat, may_nat };
            unreachable_text(to.parse().unwrap(), &options)
        };
        let web = text("192.0.2.1:80", false, true);
        assert!(
            web.starts_with("link: 192.0.2.1 is beyond") && web.ends_with("use --nat"),
            "{web}"
        );
        assert!(text("192.0.2.1:53", false, false).contains("the name server 192.0.2.1 is beyond"));
        assert!(text("192.0.2.1:53", false, false).ends_with("which needs root"));
        assert!(text("127.0.0.1:53", false, true).contains("the name server of this machine"));
        assert!(text("[2001:db8::1]:80", true, true).ends_with("an IPv4 address only"));
    }
}
