//! What an experiment records of a connection through the proxy.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::atomic::Ordering;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use cellpace_experiment::ConnectionRecord;
use cellpace_tcp::{TcpSamples, TrialPart, Trials, goodput_mbps, rounded};
use tokio::time::{Instant, sleep};

use crate::notice::ConnectionEnd;
use crate::relay::Moved;
use crate::side::ConnectionSide;

/// From one look at a connection that moves bytes to the next.
const LOOK: Duration = Duration::from_millis(100);

/// A connection's part in a trial.
pub(crate) struct Part {
    drawn: TrialPart,
    accepted: Instant,
    driver: OnceLock<&'static str>,
    seen: Mutex<TcpSamples>,
}

impl Part {
    /// Draws what a new connection gets.
    pub(crate) fn begin(trials: &Trials, client: SocketAddr, accepted: Instant) -> Self {
        let (driver, seen) = (OnceLock::new(), Mutex::default());
        Self { drawn: trials.draw(client), accepted, driver, seen }
    }

    pub(crate) fn drawn(&self) -> &TrialPart {
        &self.drawn
    }

    /// What is recorded of a connection that ended; `None` where nothing is. The side that is measured is
    /// the client's where `is_client_measured`.
    pub(crate) fn record(
        self,
        trials: &Trials,
        is_client_measured: bool,
        how: ConnectionEnd,
        moved: &Moved,
    ) -> Option<ConnectionRecord> {
        let assigner = trials.assigner()?;
        let (sent, first, received) = match is_client_measured {
            true => (&moved.to_client, &moved.first_to_client, &moved.to_upstream),
            false => (&moved.to_upstream, &moved.first_to_upstream, &moved.to_client),
        };
        let first = first.get().copied();
        let sent = sent.load(Ordering::Relaxed);
        let seen = self.seen.into_inner().unwrap_or_else(PoisonError::into_inner);
        let acked = seen.last()?.acked_bytes.min(sent);
        let time = first.and_then(|first| transfer_time(&seen, first));
        let record = self.drawn.record(assigner, seen)?;
        Some(ConnectionRecord {
            duration_s: rounded(self.accepted.elapsed().as_secs_f64()),
            driver: (*self.driver.get()?).to_owned(),
            outcome: how.word().to_owned(),
            acked_bytes: acked,
            received_bytes: received.load(Ordering::Relaxed),
            goodput_mbps: time.and_then(|time| goodput_mbps(acked, time)),
            first_byte_ms: first.map(|at| rounded((at - self.accepted).as_secs_f64() * 1e3)),
            ..record
        })
    }

    /// Looks at the measured side for as long as it is awaited.
    pub(crate) async fn watch(&self, side: &ConnectionSide, moved: &Moved) -> Infallible {
        let _ = self.driver.set(side.flow().map_or("plain", |flow| flow.driver().name()));
        if !self.drawn.is_recorded() {
            return std::future::pending().await;
        }
        let count =
            || moved.to_client.load(Ordering::Relaxed) + moved.to_upstream.load(Ordering::Relaxed);
        let (mut before, mut is_draining) = (0, false);
        loop {
            sleep(LOOK).await;
            let now = count();
            // One look more than bytes move: the last ones are still under way.
            if now != before || is_draining {
                self.sample(side);
            }
            is_draining = now != before;
            before = now;
        }
    }

    /// Looks once.
    pub(crate) fn sample(&self, side: &ConnectionSide) {
        if !self.drawn.is_recorded() {
            return;
        }
        let _ = self.driver.set(side.flow().map_or("plain", |flow| flow.driver().name()));
        if let Ok(figures) = side.figures() {
            self.lock().add(figures);
        }
    }

    fn lock(&self) -> MutexGuard<'_, TcpSamples> {
        // A panic elsewhere leaves fewer samples, at worst.
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// From the first byte to the last one's ack.
fn transfer_time(seen: &TcpSamples, first: Instant) -> Option<Duration> {
    let rtt = Duration::from_micros(seen.last()?.rtt_us.into());
    let last = Instant::from_std(seen.last_sent()? + rtt);
    // The kernel's clock of data that were sent ticks every few milliseconds.
    Some(last.saturating_duration_since(first).max(rtt))
}
