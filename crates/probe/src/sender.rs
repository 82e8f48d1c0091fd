//! When probes leave: at fixed intervals, or as the queue takes them.

use cellpace_base::{Span, Time};

use crate::plan::{OnOffStream, Pattern, Plan};
use crate::wire::{Probe, ReportHead, STREAMS};

/// A probe that is later than this is skipped: a burst of late probes would measure the sender.
const MAX_LATE: Span = Span::from_millis(50);

/// Initial and smallest window, in probes.
const MIN_WINDOW: u64 = 10;

/// Largest window, in probes: three seconds of 240 Mbit/s.
const MAX_WINDOW: u64 = 60_000;

/// The window does not grow where more than one probe in this many is lost: it would only lose
/// more.
const LOSS_THAT_HOLDS: u64 = 20;

/// Interval of probes while no arrival is reported.
const KNOCK: Span = Span::from_millis(100);

/// Sends the streams of one side.
#[derive(Debug)]
pub(crate) struct ProbeSender {
    began: Time,
    ends: Time,
    main: Main,
    rival: Option<(OnOffStream, Steady)>,
    sent: [u64; STREAMS],
    skipped: u64,
    paused: bool,
    over: bool,
}

#[derive(Debug)]
enum Main {
    Steady(Steady),
    Saturator(Saturator),
}

/// A stream at fixed intervals.
#[derive(Debug, Clone, Copy)]
struct Steady {
    interval: Span,
    due: Time,
}

impl Steady {
    /// Skips probes that are too late. Returns their number.
    fn catch_up(&mut self, now: Time) -> u64 {
        if now - self.due <= MAX_LATE {
            return 0;
        }
        let late = (now - self.due).as_nanos() / self.interval.as_nanos().max(1);
        self.due += self.interval * late;
        late
    }
}

/// Keeps the queue at the bottleneck from running empty: a window of probes in flight that grows
/// while the queue delay is below one bound and shrinks while it is above another.
#[derive(Debug)]
struct Saturator {
    lower: Span,
    upper: Span,
    /// Maximum number of probes in flight.
    window: u64,
    /// One more than the highest number that has arrived: lower numbers are not in flight.
    arrived_up_to: u64,
    arrived: u64,
    /// When an arrival was last reported, or a probe was sent because none was.
    progress_at: Time,
    knocking: bool,
    /// The highest rate, as the time between two probes.
    gap: Span,
    due: Time,
}

impl Saturator {
    fn on_report(&mut self, now: Time, head: &ReportHead, sent: u64) {
        let next = head.next_number.min(sent);
        if next <= self.arrived_up_to {
            return;
        }
        let passed = next - self.arrived_up_to;
        let arrived = head.arrived.saturating_sub(self.arrived).min(passed);
        (self.arrived_up_to, self.progress_at, self.knocking) = (next, now, false);
        self.arrived = self.arrived.max(head.arrived);
        if head.queue_delay > self.upper {
            // Probes that arrive are not replaced, so the queue shrinks.
            self.window = self.window.saturating_sub(arrived).max(MIN_WINDOW);
        } else if head.queue_delay < self.lower && (passed - arrived) * LOSS_THAT_HOLDS <= passed {
            self.window = (self.window + arrived).min(MAX_WINDOW);
        }
    }

    fn is_blocked(&self, sent: u64) -> bool {
        sent.saturating_sub(self.arrived_up_to) >= self.window
    }

    /// When a probe may be sent; `None`: not before an arrival is reported.
    fn next(&self, sent: u64) -> Time {
        if !self.is_blocked(sent) {
            return self.due;
        }
        let patience = if self.knocking { KNOCK } else { self.upper + Span::from_secs(1) };
        self.progress_at + patience
    }
}

impl ProbeSender {
    /// Sends by `plan` from `began` on, at most `most` bytes per second when it saturates.
    pub(crate) fn new(plan: &Plan, began: Time, gap: Span) -> Self {
        let steady = |interval: Span| Steady { interval, due: began };
        let main = match plan.pattern {
            Pattern::Every(interval) => Main::Steady(steady(interval)),
            Pattern::Saturate { lower, upper } => Main::Saturator(Saturator {
                lower,
                upper,
                window: MIN_WINDOW,
                arrived_up_to: 0,
                arrived: 0,
                progress_at: began,
                knocking: false,
                gap,
                due: began,
            }),
        };
        let rival = plan.rival.map(|rival| {
            let due = began + rival.next_on(Span::ZERO);
            (rival, Steady { interval: rival.interval, due })
        });
        let ends = began + plan.duration;
        Self {
            began,
            ends,
            main,
            rival,
            sent: [0; STREAMS],
            skipped: 0,
            paused: false,
            over: false,
        }
    }

    pub(crate) fn began(&self) -> Time {
        self.began
    }

    pub(crate) fn sent(&self) -> [u64; STREAMS] {
        self.sent
    }

    pub(crate) fn skipped(&self) -> u64 {
        self.skipped
    }

    pub(crate) fn is_done(&self, now: Time) -> bool {
        now >= self.ends
    }

    /// Stops sending until packets of the other side arrive again.
    pub(crate) fn pause(&mut self, paused: bool) {
        self.paused = paused;
    }

    pub(crate) fn on_report(&mut self, now: Time, head: &ReportHead) {
        if let Main::Saturator(saturator) = &mut self.main {
            saturator.on_report(now, head, self.sent[0]);
        }
    }

    /// When the next probe is due.
    pub(crate) fn next(&self) -> Option<Time> {
        if self.paused || self.over {
            return None;
        }
        let main = match &self.main {
            Main::Steady(steady) => steady.due,
            Main::Saturator(saturator) => saturator.next(self.sent[0]),
        };
        let rival = self.rival.map_or(Time::MAX, |(_, steady)| steady.due);
        Some(main.min(rival)).filter(|due| *due < self.ends)
    }

    /// Returns the probe to send now, if one is due.
    pub(crate) fn poll(&mut self, now: Time) -> Option<Probe> {
        // A probe that was due before the end of the plan is not sent after it.
        self.over |= self.is_done(now);
        if self.paused || now < self.began || self.over {
            return None;
        }
        self.poll_rival(now).or_else(|| self.poll_main(now))
    }

    fn poll_rival(&mut self, now: Time) -> Option<Probe> {
        let (rival, steady) = self.rival.as_mut()?;
        if steady.due > now {
            return None;
        }
        self.skipped += steady.catch_up(now);
        let on_at = self.began + rival.next_on(steady.due - self.began);
        if on_at > steady.due {
            steady.due = on_at;
            return None;
        }
        steady.due += steady.interval;
        Some(self.probe(now, 1))
    }

    fn poll_main(&mut self, now: Time) -> Option<Probe> {
        match &mut self.main {
            Main::Steady(steady) => {
                if steady.due > now {
                    return None;
                }
                self.skipped += steady.catch_up(now);
                steady.due += steady.interval;
            }
            Main::Saturator(saturator) => {
                if saturator.next(self.sent[0]) > now {
                    return None;
                }
                if saturator.is_blocked(self.sent[0]) {
                    (saturator.progress_at, saturator.knocking) = (now, true);
                }
                // Late probes are sent at shorter intervals until the sender has caught up.
                saturator.due = saturator.due.max(now - MAX_LATE) + saturator.gap;
            }
        }
        Some(self.probe(now, 0))
    }

    fn probe(&mut self, now: Time, stream: u8) -> Probe {
        let sent = &mut self.sent[usize::from(stream)];
        *sent += 1;
        Probe { stream, number: *sent - 1, sent_at: now }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Ecn;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn span(ms: u64) -> Span {
        Span::from_millis(ms)
    }

    fn plan(pattern: Pattern, rival: Option<OnOffStream>) -> Plan {
        let (duration, ecn) = (span(1000), Ecn::NotEct);
        Plan { up: true, down: false, size: 1500, pattern, duration, rival, ecn }
    }

    /// Polls the sender whenever a probe is due. Returns the number of probes of each stream.
    fn count(sender: &mut ProbeSender, until: Time) -> [usize; 2] {
        let mut counts = [0; 2];
        let mut now = Time::ZERO;
        while let Some(due) = sender.next().filter(|due| *due < until) {
            now = now.max(due);
            while let Some(probe) = sender.poll(now) {
                counts[usize::from(probe.stream)] += 1;
            }
        }
        counts
    }

    #[test]
    fn a_steady_stream_keeps_its_interval_and_ends() {
        let mut sender = ProbeSender::new(
            &plan(Pattern::Every(Span::from_micros(400)), None),
            ms(10),
            Span::ZERO,
        );
        assert_eq!(sender.poll(ms(9)), None);
        assert_eq!(count(&mut sender, Time::MAX), [2500, 0]);
        assert!(sender.is_done(ms(1010)) && sender.poll(ms(1010)).is_none());
    }

    #[test]
    fn a_late_sender_leaves_probes_out_instead_of_bursting() {
        let mut sender = ProbeSender::new(&plan(Pattern::Every(span(1)), None), ms(0), Span::ZERO);
        assert!(sender.poll(ms(0)).is_some());
        let late: Vec<u64> =
            std::iter::from_fn(|| sender.poll(ms(500)).map(|probe| probe.number)).collect();
        assert_eq!((late, sender.skipped()), (vec![1], 499));
        // Probes of the last 50 ms are still sent.
        let late = std::iter::from_fn(|| sender.poll(ms(540))).count();
        assert_eq!((late, sender.skipped()), (40, 499));
    }

    #[test]
    fn the_second_stream_comes_and_goes() {
        let rival = OnOffStream { interval: span(2), on: span(100), off: span(300) };
        let pattern = Pattern::Every(span(10));
        let mut sender = ProbeSender::new(&plan(pattern, Some(rival)), ms(0), Span::ZERO);
        assert_eq!(count(&mut sender, ms(300)), [30, 0]);
        assert_eq!(count(&mut sender, ms(400)), [10, 50]);
        assert_eq!(count(&mut sender, Time::MAX), [60, 50]);
    }

    fn saturator() -> ProbeSender {
        let pattern = Pattern::Saturate { lower: span(100), upper: span(300) };
        ProbeSender::new(&plan(pattern, None), ms(0), Span::ZERO)
    }

    fn drain(sender: &mut ProbeSender, now: Time) -> usize {
        std::iter::from_fn(|| sender.poll(now)).count()
    }

    fn report(next_number: u64, arrived: u64, queue_delay: u64) -> ReportHead {
        ReportHead { next_number, arrived, queue_delay: span(queue_delay), ..ReportHead::default() }
    }

    #[test]
    fn the_window_grows_below_the_lower_bound_stays_between_and_shrinks_above() {
        let mut sender = saturator();
        assert_eq!(drain(&mut sender, ms(0)), 10);
        sender.on_report(ms(40), &report(10, 10, 0));
        assert_eq!(drain(&mut sender, ms(40)), 20, "the window has doubled");
        sender.on_report(ms(80), &report(20, 20, 200));
        assert_eq!(drain(&mut sender, ms(80)), 10, "one for each that arrived");
        sender.on_report(ms(120), &report(25, 25, 301));
        assert_eq!(drain(&mut sender, ms(120)), 0, "none for those that arrived");
    }

    #[test]
    fn the_window_does_not_grow_into_a_queue_that_overflows() {
        let mut sender = saturator();
        drain(&mut sender, ms(0));
        // Ten passed by, of which two were lost.
        sender.on_report(ms(40), &report(10, 8, 20));
        assert_eq!(drain(&mut sender, ms(40)), 10);
    }

    #[test]
    fn after_a_long_silence_it_knocks_and_does_not_flood() {
        let mut sender = saturator();
        assert_eq!(drain(&mut sender, ms(0)), 10);
        assert_eq!(sender.next(), None, "after the end of the plan");
        sender.ends = ms(60_000);
        assert_eq!(sender.next(), Some(ms(1300)));
        assert_eq!(drain(&mut sender, ms(1300)), 1);
        assert_eq!(sender.next(), Some(ms(1400)));
        assert_eq!(drain(&mut sender, ms(5000)), 1);
    }

    #[test]
    fn lies_in_reports_do_no_harm() {
        let mut sender = saturator();
        drain(&mut sender, ms(0));
        sender.on_report(ms(1), &report(1 << 62, 1 << 62, 0));
        assert_eq!(drain(&mut sender, ms(1)), 20);
        sender.on_report(ms(2), &report(0, 0, 0));
        assert_eq!(drain(&mut sender, ms(2)), 0);
    }

    #[test]
    fn a_saturator_keeps_below_the_highest_rate() {
        let pattern = Pattern::Saturate { lower: span(100), upper: span(300) };
        let mut sender = ProbeSender::new(&plan(pattern, None), ms(0), span(1));
        let mut sent = 0;
        for at in 0..1000 {
            sent += drain(&mut sender, ms(at));
            sender.on_report(ms(at), &report(sent as u64, sent as u64, 0));
        }
        assert!((999..=1051).contains(&sent), "{sent}");
    }
}
