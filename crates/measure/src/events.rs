//! Marks for charts over time: what happened to a flow and what its controller decided, and when.

use cellpace_base::{Span, Time};
use serde::{Deserialize, Serialize};

/// The times of one kind of event, of one flow.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct FlowEvents {
    /// The flow; none where an event concerns all (a handover).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub flow: Option<usize>,
    /// What happened: `loss` (the path dropped a packet), `handover`, or the name of a controller's
    /// event in logs (`timeout`, `phase`, ...).
    pub event: String,
    /// The phase that began, where that is the event.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub phase: Option<String>,
    /// When, in seconds from the start of the run: the first of each bin of the series, of which a
    /// stored result keeps a hundred at most.
    pub at_s: Vec<f64>,
    /// How many there were in all.
    pub count: u64,
}

/// Flows with marks; a chart does not show more one by one.
const MAX_FLOWS: usize = 16;

/// Keeps the events of a run: of each flow and kind the first in each bin, and how many there were.
#[derive(Debug)]
pub(crate) struct EventTally {
    bin: u64,
    flows: Vec<Vec<EventKind>>,
}

#[derive(Debug)]
struct EventKind {
    event: &'static str,
    phase: Option<&'static str>,
    last_bin: Option<u64>,
    at: Vec<Time>,
    count: u64,
}

impl EventTally {
    pub(crate) fn new(bin: Span, flows: usize) -> Self {
        let flows = if flows <= MAX_FLOWS { flows } else { 0 };
        Self { bin: bin.as_nanos().max(1), flows: (0..flows).map(|_| Vec::new()).collect() }
    }

    pub(crate) fn add(
        &mut self,
        flow: usize,
        at: Time,
        event: &'static str,
        phase: Option<&'static str>,
    ) {
        let Some(kinds) = self.flows.get_mut(flow) else { return };
        let known = kinds.iter().position(|kind| kind.event == event && kind.phase == phase);
        let place = known.unwrap_or_else(|| {
            kinds.push(EventKind { event, phase, last_bin: None, at: Vec::new(), count: 0 });
            kinds.len() - 1
        });
        let kind = &mut kinds[place];
        kind.count += 1;
        let bin = Some(at.as_nanos() / self.bin);
        if kind.last_bin != bin {
            kind.last_bin = bin;
            kind.at.push(at);
        }
    }

    pub(crate) fn finish(self) -> Vec<FlowEvents> {
        let of_flow = |(flow, kinds): (usize, Vec<EventKind>)| {
            kinds.into_iter().map(move |kind| FlowEvents {
                flow: Some(flow),
                event: kind.event.to_owned(),
                phase: kind.phase.map(str::to_owned),
                at_s: kind.at.into_iter().map(seconds).collect(),
                count: kind.count,
            })
        };
        self.flows.into_iter().enumerate().flat_map(of_flow).collect()
    }
}

impl FlowEvents {
    /// Handovers of the path, none where there are none.
    pub fn handovers(at: impl Iterator<Item = Time>) -> Option<Self> {
        let at_s: Vec<f64> = at.map(seconds).collect();
        let (event, count) = ("handover".to_owned(), at_s.len() as u64);
        (count > 0).then_some(Self { flow: None, event, phase: None, at_s, count })
    }
}

/// Milliseconds are finer than any chart.
fn seconds(at: Time) -> f64 {
    (at.as_secs_f64() * 1e3).round() / 1e3
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_event_of_a_bin_is_kept_and_all_are_counted() {
        let mut tally = EventTally::new(Span::from_millis(100), 2);
        for ms in [10, 20, 99, 100, 350] {
            tally.add(1, Time::from_millis(ms), "loss", None);
        }
        tally.add(1, Time::from_millis(20), "phase", Some("recovery"));
        tally.add(1, Time::from_millis(21), "phase", Some("avoidance"));
        let events = tally.finish();
        assert_eq!(events.len(), 3);
        assert_eq!((&events[0].at_s[..], events[0].count), (&[0.01, 0.1, 0.35][..], 5));
        assert_eq!(events[2].phase.as_deref(), Some("avoidance"));
        assert_eq!(events[2].flow, Some(1));
    }

    #[test]
    fn what_no_chart_shows_is_not_kept() {
        let mut tally = EventTally::new(Span::from_millis(100), MAX_FLOWS + 1);
        tally.add(0, Time::ZERO, "loss", None);
        assert_eq!(tally.finish(), []);
        assert_eq!(FlowEvents::handovers(std::iter::empty()), None);
    }
}
