//! What watches the packets of a link while it runs: figures, logs, the view on the terminal.

use std::path::Path;

use cellpace_base::{Span, Time};
use cellpace_emu::{
    LinkDirection, LinkObserver, LinkSide, LinkTally, PcapngLog, SeenPacket, is_pcapng,
};
use cellpace_report::{PacketLog, ReportError};

use crate::link_live::LiveView;
use crate::path_options::Directions;

/// Counts what goes through the link, writes it down and shows it.
pub(crate) struct Watch {
    pub(crate) down: LinkTally,
    pub(crate) up: LinkTally,
    /// The one-way delay that was last seen in each direction: down, up.
    latest: [Span; 2],
    /// The program, for the log.
    name: String,
    log: Option<Log>,
    /// The first error; afterwards nothing is logged any more.
    failed: Option<ReportError>,
    live: Option<LiveView>,
    snaplen: u32,
}

/// A log by the extension of its file.
pub(crate) enum Log {
    Packets(Box<PacketLog>),
    Capture(Box<PcapngLog>),
}

impl Log {
    pub(crate) fn create(path: &Path, snaplen: u32) -> Result<Self, ReportError> {
        if is_pcapng(path) {
            return PcapngLog::create(path, snaplen).map(|log| Self::Capture(Box::new(log)));
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

impl Watch {
    pub(crate) fn new(
        directions: &Directions,
        name: String,
        log: Option<Log>,
        snaplen: u32,
        live: Option<LiveView>,
    ) -> Self {
        let tally = || LinkTally::new(directions.skip);
        let latest = [directions.rtt / 2; 2];
        Self { down: tally(), up: tally(), latest, name, log, failed: None, live, snaplen }
    }

    /// Gives the terminal back, and the log its name.
    pub(crate) fn finish(&mut self) -> Result<(), ReportError> {
        self.live = None;
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

impl LinkObserver for Watch {
    fn on_packet(&mut self, seen: &SeenPacket) {
        let (tally, own, back) = match seen.direction {
            LinkDirection::Down => (&mut self.down, 0, 1),
            LinkDirection::Up => (&mut self.up, 1, 0),
        };
        if !seen.after_end {
            tally.record(&seen.record, self.latest[back]);
        }
        self.latest[own] = seen.record.one_way_delay();
        if let Some(live) = &mut self.live {
            live.record(seen);
        }
        if let Some(Log::Packets(log)) = &mut self.log {
            // The number of the run tells the direction.
            let pushed = log.push(own as u32, &self.name, &seen.record);
            self.keep(pushed);
        }
    }

    fn on_capture(&mut self, side: LinkSide, at: Time, length: u32, bytes: &[u8]) {
        if let Some(Log::Capture(log)) = &mut self.log {
            let pushed = log.push(side, at, length, bytes);
            self.keep(pushed);
        }
    }

    fn on_tick(&mut self, now: Time) {
        if let Some(live) = &mut self.live {
            live.draw(now);
        }
    }

    fn capture_bytes(&self) -> Option<usize> {
        matches!(self.log, Some(Log::Capture(_))).then_some(self.snaplen as usize)
    }
}
