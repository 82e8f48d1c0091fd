//! The sums of the last five minutes, for the charts of whoever begins to look.

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::summary::{Summary, round};

/// How far the history reaches back.
const KEPT: Duration = Duration::from_secs(300);

/// Time between two moments, at least: that of two readings while somebody looks, or a little less.
const MIN_GAP: Duration = Duration::from_millis(400);

/// What the charts show of one moment.
struct ChartedMoment {
    at: Instant,
    summary: Value,
}

/// The moments of the last five minutes, in order: at most 750.
#[derive(Default)]
pub(crate) struct History(VecDeque<ChartedMoment>);

impl History {
    /// Adds a reading, unless it follows closely on the one before, and forgets what is too old.
    pub(crate) fn add(&mut self, at: Instant, summary: &Summary) {
        if self.0.back().is_some_and(|last| at.duration_since(last.at) < MIN_GAP) {
            return;
        }
        while self.0.front().is_some_and(|first| at.duration_since(first.at) > KEPT) {
            self.0.pop_front();
        }
        self.0.push_back(ChartedMoment { at, summary: charted(summary) });
    }

    /// The moments later than `since` seconds after `began`: seconds, and what the charts show.
    pub(crate) fn since(&self, began: Instant, since: f64) -> Vec<Value> {
        let seconds = |at: Instant| round(at.duration_since(began).as_secs_f64());
        let moments = self.0.iter().map(|moment| (seconds(moment.at), &moment.summary));
        moments.filter(|(t, _)| *t > since).map(|(t, summary)| json!([t, summary])).collect()
    }
}

/// The part of the sums that the charts show.
fn charted(summary: &Summary) -> Value {
    let mut all = summary.to_json();
    let fields = [
        "rate_mbps",
        "rtt_ms",
        "queue_ms",
        "in_flight_bytes",
        "queued_bytes",
        "capacity_mbps",
        "controllers",
    ];
    fields.into_iter().map(|field| (field.to_owned(), all[field].take())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::Totals;

    #[test]
    fn five_minutes_are_kept_and_given_from_where_they_are_wanted() {
        let (mut history, began) = (History::default(), Instant::now());
        for tenths in 0..6_000 {
            let at = began + Duration::from_millis(100 * tenths);
            let all = Totals { in_flight: tenths, ..Totals::default() };
            let summary = Summary { all, ..Summary::default() };
            history.add(at, &summary);
        }
        let all = history.since(began, 0.0);
        assert_eq!((all.len(), history.0.len()), (751, 751), "one in four of five minutes");
        assert_eq!((&all[0][0], &all[0][1]["in_flight_bytes"]), (&299.6.into(), &2996.into()));
        assert_eq!(history.since(began, 599.0).len(), 2);
        assert_eq!(history.since(began, 1e9), [] as [Value; 0]);
    }
}
