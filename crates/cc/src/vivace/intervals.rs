//! Monitor intervals: what was sent in each, and what became of it.

use std::collections::VecDeque;

use cellpace_base::{Span, Time};

use super::utility::Slope;

/// What an interval is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The rate of Starting.
    Start,
    /// One rate of a pair of Probing.
    Probe {
        /// Which pair.
        pair: usize,
        /// Whether it is the higher rate.
        up: bool,
    },
    /// Waits for the results of others.
    Filler,
}

/// A monitor interval.
#[derive(Debug, Clone, Copy)]
pub(super) struct MonitorInterval {
    serial: u64,
    /// In Mbit/s.
    pub(super) rate: f64,
    pub(super) role: Role,
    start: Time,
    pub(super) end: Time,
    pub(super) sent: u64,
    acked: u64,
    pub(super) lost: u64,
    /// The sender ran out of data in it: its rate was not tried.
    pub(super) app_limited: bool,
    slope: Slope,
}

impl MonitorInterval {
    /// Bytes lost as a share of those sent.
    pub(super) fn loss(&self) -> f64 {
        self.lost as f64 / self.sent.max(1) as f64
    }

    /// dRTT/dt over the packets' times of sending, in s/s.
    pub(super) fn gradient(&self) -> f64 {
        self.slope.value()
    }
}

/// Intervals not yet resolved, the present one last.
#[derive(Debug, Clone)]
pub(super) struct Intervals {
    open: VecDeque<MonitorInterval>,
    next_serial: u64,
}

impl Intervals {
    /// Two round trips of the window and ten packets are some four intervals of a round trip; more are
    /// only in flight on paths that stand still.
    const CAPACITY: usize = 64;

    pub(super) fn new(now: Time, length: Span, rate: f64, role: Role) -> Self {
        let mut intervals = Self { open: VecDeque::new(), next_serial: 1 };
        intervals.begin(now, length, rate, role);
        intervals
    }

    pub(super) fn current(&self) -> &MonitorInterval {
        self.open.back().expect("there is always one")
    }

    fn current_mut(&mut self) -> &mut MonitorInterval {
        self.open.back_mut().expect("there is always one")
    }

    /// Whether another interval can begin: the present one has packets, and there is room.
    pub(super) fn may_begin(&self) -> bool {
        self.open.len() < Self::CAPACITY || self.current().sent == 0
    }

    /// Lets the present interval go on.
    pub(super) fn extend(&mut self, end: Time) {
        self.current_mut().end = end;
    }

    /// Begins an interval. One without packets leaves no trace.
    pub(super) fn begin(&mut self, now: Time, length: Span, rate: f64, role: Role) {
        if self.open.back().is_some_and(|last| last.sent == 0) {
            self.open.pop_back();
        }
        let serial = self.next_serial;
        self.next_serial += 1;
        self.open.push_back(MonitorInterval {
            serial,
            rate,
            role,
            start: now,
            end: now + length,
            sent: 0,
            acked: 0,
            lost: 0,
            app_limited: false,
            slope: Slope::default(),
        });
    }

    /// Forgets all but a new one.
    pub(super) fn restart(&mut self, now: Time, length: Span, rate: f64, role: Role) {
        self.open.clear();
        self.begin(now, length, rate, role);
    }

    /// Counts a packet and returns the serial number that its stamp has to bring back.
    pub(super) fn on_sent(&mut self, bytes: u64, app_limited: bool) -> u64 {
        let current = self.current_mut();
        current.sent = current.sent.saturating_add(bytes);
        current.app_limited |= app_limited;
        current.serial
    }

    fn find(&mut self, serial: u64) -> Option<&mut MonitorInterval> {
        let at = self.open.binary_search_by_key(&serial, |interval| interval.serial).ok()?;
        self.open.get_mut(at)
    }

    pub(super) fn on_acked(&mut self, serial: u64, bytes: u64, sent_at: Time, rtt: Span) {
        let Some(interval) = self.find(serial) else { return };
        interval.acked = interval.acked.saturating_add(bytes);
        let at = sent_at.since(interval.start).as_secs_f64();
        interval.slope.add(at, rtt.as_secs_f64());
    }

    pub(super) fn on_lost(&mut self, serial: u64, bytes: u64) {
        let Some(interval) = self.find(serial) else { return };
        interval.lost = interval.lost.saturating_add(bytes);
    }

    /// Takes the oldest interval once it is closed and all its packets are acked or lost.
    pub(super) fn take_resolved(&mut self) -> Option<MonitorInterval> {
        let first = self.open.front().filter(|_| self.open.len() > 1)?;
        let is_resolved = first.acked.saturating_add(first.lost) >= first.sent;
        if is_resolved { self.open.pop_front() } else { None }
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }
}
