//! The connections that are open, what they add up to, and what happened lately.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use cellpace_base::Span;
use cellpace_base::statistics::nearest_rank;
use serde_json::{Value, json};

use crate::figures::{ConnectionFigures, LiveConnection, WatchedConnection};
use crate::histograms::ConnectionHistograms;
use crate::history::History;
use crate::summary::{Group, MedianAndTail, Summary, Totals};

/// Time from one reading of all connections' figures to the next, while somebody looks.
pub(crate) const SWEEP: Duration = Duration::from_millis(500);

/// The same while nobody does: for the history, of which the first look shows five minutes.
pub(crate) const IDLE_SWEEP: Duration = Duration::from_secs(5);

/// Figures that are younger than this are not read again.
const FRESH: Duration = Duration::from_millis(100);

/// A rate is that of the time since the reading before, if that is no longer ago than this.
const MAX_RATE_TIME: Duration = Duration::from_secs(6);

/// Openings and ends that are kept for clients, at most.
const MAX_NOTICES: usize = 256;

/// Which command is shown.
#[derive(Debug, Clone, Default)]
pub struct LiveAbout {
    /// Its name: `run`, `attach`, `proxy`, `link` or `probe`.
    pub command: &'static str,
    /// The controller, the trace, or what else decides on the figures.
    pub subject: String,
    /// The command line.
    pub command_line: String,
}

/// A connection that is shown from now on.
pub struct NewConnection {
    /// Its number, unlike any other one's.
    pub number: u64,
    /// What people call it: its addresses.
    pub name: String,
    /// Its controller; empty where it has none of ours, as with `link`.
    pub controller: Arc<str>,
    /// Who keeps to the window; empty where that means nothing.
    pub driver: &'static str,
    /// Its figures.
    pub source: Box<dyn LiveConnection>,
}

/// The connections that a command shows. Copies show the same ones.
#[derive(Clone)]
pub struct LiveConnections(Arc<SharedConnections>);

struct SharedConnections {
    about: LiveAbout,
    began: Instant,
    state: Mutex<LiveState>,
    /// The end has come.
    ended: Condvar,
    /// Clients with a stream.
    viewers: AtomicUsize,
}

/// What the streams read, under a lock.
#[derive(Default)]
pub(crate) struct LiveState {
    pub(crate) open: BTreeMap<u64, OpenConnection>,
    pub(crate) summary: Summary,
    history: History,
    /// Readings of all figures up to now.
    pub(crate) sweeps: u64,
    swept_at: Option<Instant>,
    /// How many there are and were, and sums of those that have ended.
    groups: BTreeMap<Group, Totals>,
    histograms: ConnectionHistograms,
    notices: VecDeque<Notice>,
    /// Notices up to now.
    noticed: u64,
    capacity_bps: Option<f64>,
    pub(crate) has_ended: bool,
}

/// A connection that is open.
pub(crate) struct OpenConnection {
    pub(crate) name: String,
    pub(crate) group: Group,
    /// Seconds since the command began.
    pub(crate) opened_s: f64,
    pub(crate) source: Box<dyn LiveConnection>,
    /// As of the last reading.
    pub(crate) figures: ConnectionFigures,
    /// Bit/s between the last two readings.
    pub(crate) rate_bps: f64,
    opened_at: Instant,
    read_at: Instant,
    /// When a reading last found that something more had arrived.
    moved_at: Instant,
    /// When it was last in the histograms, and what had arrived by then.
    observed_at: Instant,
    observed_bytes: u64,
}

/// Something that happened: the event's name, and its data as JSON.
pub(crate) struct Notice {
    pub(crate) name: &'static str,
    pub(crate) data: String,
}

impl LiveConnections {
    /// None yet.
    pub fn new(about: LiveAbout) -> Self {
        Self(Arc::new(SharedConnections {
            about,
            began: Instant::now(),
            state: Mutex::default(),
            ended: Condvar::new(),
            viewers: AtomicUsize::new(0),
        }))
    }

    /// Shows a connection from now on.
    pub fn opened(&self, new: NewConnection) {
        let NewConnection { number, name, controller, driver, source } = new;
        let opened_s = self.seconds();
        let notice = || {
            ("opened", json!({ "id": number, "t": opened_s, "connection": name, "driver": driver }))
        };
        let mut state = self.lock();
        self.note(&mut state, notice);
        let group = Group { controller, driver };
        let totals = state.groups.entry(group.clone()).or_default();
        (totals.open, totals.total) = (totals.open + 1, totals.total + 1);
        let open = OpenConnection::new(name, group, opened_s, source);
        state.open.insert(number, open);
    }

    /// A connection has ended, with these last figures; `outcome` says how in a word. Nothing
    /// happens if it was not open.
    pub fn closed(&self, number: u64, figures: ConnectionFigures, outcome: &str) {
        let mut state = self.lock();
        let Some(mut open) = state.open.remove(&number) else { return };
        let totals = state.groups.entry(open.group.clone()).or_default();
        totals.open -= 1;
        totals.add_bytes(&figures);
        open.end(Instant::now(), &figures, &state.histograms);
        self.note(&mut state, || {
            let data = json!({
                "id": number,
                "t": self.seconds(),
                "connection": open.name,
                "outcome": outcome,
                "sent_bytes": figures.sent_bytes,
                "delivered_bytes": figures.delivered_bytes,
                "received_bytes": figures.received_bytes,
                "lost": figures.lost,
            });
            ("closed", data)
        });
        drop(state);
        // It may hold a watch, whose end takes a lock of its own.
        drop(open);
    }

    /// What the link offers now, in bit/s.
    pub fn offer(&self, capacity_bps: f64) {
        self.lock().capacity_bps = Some(capacity_bps);
    }

    /// Whether somebody looks at the moment.
    pub fn has_viewers(&self) -> bool {
        self.0.viewers.load(Ordering::Relaxed) > 0
    }

    /// How often all figures were read: while nobody looks, every five seconds by a
    /// [server](crate::LiveServer).
    pub fn readings(&self) -> u64 {
        self.lock().sweeps
    }

    /// Reads all figures now, as is done twice a second while somebody looks.
    pub fn read_all(&self) {
        self.lock().sweep(Instant::now());
    }

    /// Nothing more comes: who looks gets the last figures.
    pub(crate) fn end(&self) {
        self.read_all();
        self.lock().has_ended = true;
        self.0.ended.notify_all();
    }

    /// Waits until a time, or for the end. Returns whether that has come.
    pub(crate) fn wait(&self, until: Instant) -> bool {
        let left = until.saturating_duration_since(Instant::now());
        let waited = self.0.ended.wait_timeout_while(self.lock(), left, |state| !state.has_ended);
        waited
            .map_or_else(|poisoned| poisoned.into_inner().0.has_ended, |(state, _)| state.has_ended)
    }

    pub(crate) fn about(&self) -> &LiveAbout {
        &self.0.about
    }

    /// Seconds since the command began, to the millisecond.
    pub(crate) fn seconds(&self) -> f64 {
        (self.0.began.elapsed().as_secs_f64() * 1e3).round() / 1e3
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, LiveState> {
        // A panic elsewhere leaves figures, at worst old ones.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn viewers(&self) -> &AtomicUsize {
        &self.0.viewers
    }

    /// What all connections add up to now.
    pub(crate) fn summary(&self) -> Summary {
        let mut state = self.lock();
        state.sweep_if_older(FRESH);
        let mut summary = state.summary.clone();
        // What has been counted since is known, too.
        (summary.all.open, summary.all.total) = (0, 0);
        for (group, Totals { open, total, .. }) in &state.groups {
            let known = summary.groups.entry(group.clone()).or_default();
            (known.open, known.total) = (*open, *total);
            summary.all.open += open;
            summary.all.total += total;
        }
        summary
    }

    /// Histograms up to now.
    pub(crate) fn histograms(&self) -> ConnectionHistograms {
        self.lock().histograms.clone()
    }

    /// Keeps the history going while nobody looks, until the end.
    pub(crate) fn keep_history(&self) {
        loop {
            let next = self.lock().swept_at.map_or_else(Instant::now, |at| at + IDLE_SWEEP);
            if self.wait(next) {
                return;
            }
            self.lock().sweep_if_older(IDLE_SWEEP);
        }
    }

    /// Moments of the last five minutes that are later than `since` seconds.
    pub(crate) fn history_since(&self, since: f64) -> Vec<Value> {
        self.lock().history.since(self.0.began, since)
    }

    /// Looks into a connection.
    pub(crate) fn watch(&self, number: u64) -> Option<Box<dyn WatchedConnection>> {
        self.lock().open.get(&number)?.source.watch()
    }

    /// Keeps what happened, for those who look.
    fn note(&self, state: &mut LiveState, notice: impl FnOnce() -> (&'static str, Value)) {
        state.noticed += 1;
        if !self.has_viewers() {
            state.notices.clear();
            return;
        }
        if state.notices.len() == MAX_NOTICES {
            state.notices.pop_front();
        }
        let (name, data) = notice();
        state.notices.push_back(Notice { name, data: data.to_string() });
    }
}

impl LiveState {
    /// Notices up to now: the number of the next one.
    pub(crate) fn noticed(&self) -> u64 {
        self.noticed
    }

    /// The notices from number `next` on that are left, and how many are not.
    pub(crate) fn notices_since(&self, next: u64) -> (u64, impl Iterator<Item = &Notice>) {
        let first = self.noticed - self.notices.len() as u64;
        let skipped = usize::try_from(next.saturating_sub(first)).unwrap_or(usize::MAX);
        (first.saturating_sub(next), self.notices.iter().skip(skipped))
    }

    /// Reads all figures, unless that was done a moment ago.
    pub(crate) fn sweep_if_older(&mut self, age: Duration) {
        let now = Instant::now();
        if self.swept_at.is_none_or(|at| now.duration_since(at) >= age) {
            self.sweep(now);
        }
    }

    fn sweep(&mut self, now: Instant) {
        let mut groups = self.groups.clone();
        let (mut rtts, mut delays) = (Vec::new(), Vec::new());
        for open in self.open.values_mut() {
            let figures = open.read(now);
            open.observe_if_due(now, &self.histograms);
            rtts.extend(figures.rtt.map(Span::as_secs_f64));
            delays.extend(figures.queue_delay.map(Span::as_secs_f64));
            if let Some(totals) = groups.get_mut(&open.group) {
                totals.add_open(&figures);
            }
        }
        let mut all = Totals::default();
        groups.values().for_each(|totals| all.add(totals));
        let rate_bps = self.swept_at.and_then(|before| {
            let delivered = all.sums.delivered.saturating_sub(self.summary.all.sums.delivered);
            rate(delivered, now.duration_since(before))
        });
        let (rtt, queue_delay) = (quantiles(&mut rtts), quantiles(&mut delays));
        let capacity_bps = self.capacity_bps;
        let summary = Summary { all, groups, rate_bps, rtt, queue_delay, capacity_bps };
        self.history.add(now, &summary);
        self.summary = summary;
        self.swept_at = Some(now);
        self.sweeps += 1;
    }
}

impl OpenConnection {
    fn new(name: String, group: Group, opened_s: f64, source: Box<dyn LiveConnection>) -> Self {
        let now = Instant::now();
        Self {
            name,
            group,
            opened_s,
            source,
            figures: ConnectionFigures::default(),
            rate_bps: 0.0,
            opened_at: now,
            read_at: now,
            moved_at: now,
            observed_at: now,
            observed_bytes: 0,
        }
    }

    fn read(&mut self, now: Instant) -> ConnectionFigures {
        let figures = self.source.figures();
        let delivered = figures.delivered_bytes.saturating_sub(self.figures.delivered_bytes);
        self.rate_bps = rate(delivered, now.duration_since(self.read_at)).unwrap_or(0.0);
        self.took(now, figures);
        figures
    }

    fn took(&mut self, now: Instant, figures: ConnectionFigures) {
        if figures.delivered_bytes > self.figures.delivered_bytes {
            self.moved_at = now;
        }
        (self.figures, self.read_at) = (figures, now);
    }

    /// Readings are more frequent while a page is open, which must not change what is observed.
    fn observe_if_due(&mut self, now: Instant, histograms: &ConnectionHistograms) {
        let has_moved = self.figures.delivered_bytes > self.observed_bytes;
        if has_moved && now.duration_since(self.observed_at) >= IDLE_SWEEP {
            histograms.observe(&self.group, &self.figures);
            (self.observed_at, self.observed_bytes) = (now, self.figures.delivered_bytes);
        }
    }

    /// Its last figures.
    fn end(
        &mut self,
        now: Instant,
        figures: &ConnectionFigures,
        histograms: &ConnectionHistograms,
    ) {
        self.took(now, *figures);
        if figures.delivered_bytes > self.observed_bytes {
            histograms.observe(&self.group, figures);
        }
        let lasted = self.moved_at.duration_since(self.opened_at);
        histograms.observe_end(&self.group, figures.delivered_bytes, lasted);
    }
}

/// Bit/s; `None` over no time, and over one that is too long to say something about now.
fn rate(bytes: u64, time: Duration) -> Option<f64> {
    (!time.is_zero() && time <= MAX_RATE_TIME).then(|| bytes as f64 * 8.0 / time.as_secs_f64())
}

fn quantiles(values: &mut [f64]) -> Option<MedianAndTail> {
    let (p50, p95) = (nearest_rank(values, 0.5)?, nearest_rank(values, 0.95)?);
    Some(MedianAndTail { p50, p95 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::SharedFigures;

    fn connections() -> LiveConnections {
        LiveConnections::new(LiveAbout::default())
    }

    fn open(connections: &LiveConnections, number: u64) -> SharedFigures {
        let figures = SharedFigures::default();
        connections.opened(NewConnection {
            number,
            name: format!("connection {number}"),
            controller: "copa".into(),
            driver: "gate",
            source: Box::new(figures.clone()),
        });
        figures
    }

    #[test]
    fn sums_never_fall_when_connections_end() {
        let connections = connections();
        let figures = [open(&connections, 1), open(&connections, 2)];
        figures[0].update(|figures| figures.delivered_bytes = 1000);
        figures[1].update(|figures| (figures.delivered_bytes, figures.lost) = (500, 3));
        let mut state = connections.lock();
        state.sweep(Instant::now());
        let all = &state.summary.all;
        assert_eq!((all.open, all.sums.delivered), (2, 1500));
        drop(state);
        connections.closed(2, figures[1].figures(), "finished");
        connections.closed(2, figures[1].figures(), "finished");
        let mut state = connections.lock();
        state.sweep(Instant::now());
        let Totals { open, total, sums, .. } = state.summary.all;
        assert_eq!((open, total, sums.delivered, sums.lost), (1, 2, 1500, 3));
    }

    #[test]
    fn rates_are_those_between_two_readings() {
        let connections = connections();
        let figures = open(&connections, 1);
        let start = Instant::now();
        let mut state = connections.lock();
        state.sweep(start);
        assert_eq!(state.summary.rate_bps, None, "nothing to compare with");
        figures.update(|figures| figures.delivered_bytes = 125_000);
        state.sweep(start + SWEEP);
        assert_eq!(state.summary.rate_bps, Some(2e6));
        assert_eq!(state.open[&1].rate_bps, 2e6);
        state.sweep(start + Duration::from_secs(60));
        assert_eq!(state.summary.rate_bps, None, "a mean over a minute says nothing about now");
    }

    #[test]
    fn percentiles_are_over_the_connections_that_know() {
        let connections = connections();
        for number in 1..=100 {
            let rtt = (number <= 20).then(|| Span::from_millis(number));
            open(&connections, number).update(|figures| figures.rtt = rtt);
        }
        let summary = connections.summary();
        assert_eq!(summary.rtt, Some(MedianAndTail { p50: 0.010, p95: 0.019 }));
        assert_eq!(summary.queue_delay, None);
        assert_eq!(summary.to_json()["rtt_ms"]["p95"], 19.0);
    }

    #[test]
    fn groups_add_up_to_all() {
        let connections = connections();
        let figures = [open(&connections, 1), open(&connections, 2)];
        let other = SharedFigures::default();
        connections.opened(NewConnection {
            number: 3,
            name: String::new(),
            controller: "pace".into(),
            driver: "kernel",
            source: Box::new(other.clone()),
        });
        for figures in figures.iter().chain([&other]) {
            figures.update(|figures| (figures.sent_bytes, figures.in_flight) = (10, Some(4)));
        }
        connections.closed(2, figures[1].figures(), "finished");
        let summary = connections.summary();
        let counts = |totals: &Totals| {
            (totals.open, totals.total, totals.sums.sent, totals.in_flight, totals.queued)
        };
        let groups: Vec<_> = summary
            .groups
            .iter()
            .map(|(group, totals)| (&*group.controller, group.driver, counts(totals)))
            .collect();
        assert_eq!(
            groups,
            [("copa", "gate", (1, 2, 20, 4, 0)), ("pace", "kernel", (1, 1, 10, 4, 0))]
        );
        assert_eq!(counts(&summary.all), (2, 3, 30, 8, 0));
    }

    #[test]
    fn histograms_have_each_connection_once_in_five_seconds_and_at_its_end() {
        let connections = connections();
        let figures = open(&connections, 1);
        let start = Instant::now();
        let observed = || connections.histograms().counts();
        let reading = |at: Duration, delivered: u64| {
            figures.update(|figures| {
                figures.delivered_bytes = delivered;
                figures.rtt = Some(Span::from_millis(40));
            });
            connections.lock().sweep(start + at);
        };
        reading(SWEEP, 1000);
        assert_eq!(
            observed(),
            [("cellpace_rtt_seconds", 0), ("cellpace_goodput_bytes_per_second", 0)]
        );
        reading(IDLE_SWEEP + SWEEP, 2000);
        reading(IDLE_SWEEP + 2 * SWEEP, 3000);
        assert_eq!(observed()[0].1, 1, "a page is open");
        reading(2 * IDLE_SWEEP + 2 * SWEEP, 3000);
        reading(3 * IDLE_SWEEP + 3 * SWEEP, 3000);
        assert_eq!(observed()[0].1, 2, "one that moves nothing shows nothing new");
        figures.update(|figures| figures.delivered_bytes = 100_000);
        connections.closed(1, figures.figures(), "finished");
        assert_eq!(
            observed(),
            [("cellpace_rtt_seconds", 3), ("cellpace_goodput_bytes_per_second", 1)]
        );
    }

    #[test]
    fn what_happens_is_kept_only_for_those_who_look_and_within_bounds() {
        let connections = connections();
        open(&connections, 1);
        assert_eq!(connections.lock().notices.len(), 0);
        connections.viewers().fetch_add(1, Ordering::Relaxed);
        let next = connections.lock().noticed();
        for number in 2..=301 {
            open(&connections, number);
        }
        let state = connections.lock();
        let (missed, left) = state.notices_since(next);
        let left: Vec<_> = left.collect();
        assert_eq!((missed, left.len()), (44, MAX_NOTICES));
        assert!(left[0].data.contains("\"id\":46"), "{}", left[0].data);
        assert_eq!(state.notices_since(300).1.count(), 1);
        assert_eq!(state.notices_since(1000).1.count(), 0);
    }
}
