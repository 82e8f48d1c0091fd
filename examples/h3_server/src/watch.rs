//! What a server sees of the path of a connection.

use cellpace_base::Span;
use cellpace_measure::{DelaySketch, Summary};
use cellpace_quic::Control;

/// RTTs of one connection.
pub(crate) struct PathWatch {
    control: Control,
    rtts: DelaySketch,
    least: Option<Span>,
}

impl PathWatch {
    pub(crate) fn new(control: Control) -> Self {
        control.handle().lock().watch_rtts();
        Self { control, rtts: DelaySketch::new(), least: None }
    }

    /// Takes the RTTs since the last time.
    pub(crate) fn take(&mut self) {
        let handle = self.control.handle();
        let mut host = handle.lock();
        // After a migration it is another host.
        host.watch_rtts();
        host.take_rtts(|_, rtt| {
            self.rtts.record(rtt);
            self.least = Some(self.least.map_or(rtt, |least| least.min(rtt)));
        });
    }

    pub(crate) fn min_rtt(&self) -> Option<Span> {
        self.least
    }

    /// RTTs above the smallest, in ms.
    pub(crate) fn queue_delay(&self) -> Option<Summary> {
        let least = self.least?.as_millis_f64();
        let Summary { mean, p50, p95, p99, max } = self.rtts.summary();
        let [mean, p50, p95, p99, max] =
            [mean, p50, p95, p99, max].map(|rtt| (rtt - least).max(0.0));
        Some(Summary { mean, p50, p95, p99, max })
    }

    /// Packets sent, and those declared lost.
    pub(crate) fn packets(&self) -> (u64, u64) {
        let stats = self.control.stats();
        (stats.sent, stats.lost)
    }
}
