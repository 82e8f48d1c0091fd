//! When the driver's thread reads acks: each at once where they are few, several together where they
//! are many.

use cellpace_base::{Span, Time};

/// Acks that come this soon after others were read are read with the next ones: a window that is half
/// a millisecond late costs less than a thread that wakes up for each ack.
const MIN_PAUSE: Span = Span::from_micros(500);

/// Acks a second above which pauses become longer: those of 50 Mbit/s, with one for two packets.
const FAST: f64 = 2000.0;

/// Acks in a pause, where they come faster than [`FAST`].
const ACKS_IN_PAUSE: f64 = 16.0;

/// The longest pause while some controller reacts to acks at once.
const MAX_PAUSE: Span = Span::from_millis(4);

/// A pause takes at most this part of the shortest RTT among the flows, in which a controller
/// changes little.
const PAUSES_IN_RTT: u64 = 16;

/// How long acks are counted for their rate.
const COUNTING: Span = Span::from_millis(20);

/// Where all controllers send at their own times only, acks are read at these times, and at least this
/// often.
const MAX_WAIT: Span = Span::from_millis(10);

/// A flow whose controller reacts to each ack is remembered for this long.
const EAGER: Span = Span::from_millis(100);

/// Plans the pauses between reading acks.
#[derive(Debug)]
pub(crate) struct AckBatching {
    /// Acks since `counted_from`.
    counted: usize,
    counted_from: Time,
    /// A pause as the rate of acks asks for; zero where they are few.
    pause: Span,
    pause_until: Time,
    /// Until then some controller may react to an ack at once.
    eager_until: Time,
}

impl AckBatching {
    pub(crate) fn new(now: Time) -> Self {
        let (counted, pause, pause_until) = (0, Span::ZERO, Time::ZERO);
        Self { counted, counted_from: now, pause, pause_until, eager_until: now + EAGER }
    }

    /// A flow's controller reacts to acks at once, as each does in its slow start.
    pub(crate) fn on_eager_flow(&mut self, now: Time) {
        self.eager_until = now + EAGER;
    }

    /// A controller has planned what it does next: at its own time, or when it learns of acks.
    pub(crate) fn on_plan(&mut self, now: Time, acks_may_wait: Option<Time>) {
        if acks_may_wait.is_none_or(|until| until > now + MAX_WAIT) {
            self.on_eager_flow(now);
        }
    }

    /// Whether acks are few enough to be worked in one by one.
    pub(crate) fn is_slow(&self) -> bool {
        self.pause == Span::ZERO
    }

    /// Plans the next pause after `count` acks of flows with RTTs from `shortest_rtt` were read.
    pub(crate) fn plan(&mut self, now: Time, count: usize, shortest_rtt: Span) {
        self.counted += count;
        if now >= self.counted_from + COUNTING {
            let rate = self.counted as f64 / now.since(self.counted_from).as_secs_f64();
            let wanted = if rate > FAST { ACKS_IN_PAUSE / rate } else { 0.0 };
            self.pause = Span::from_secs_f64(wanted);
            (self.counted, self.counted_from) = (0, now);
        }
        if count == 0 {
            return;
        }
        self.pause_until = now
            + if now > self.eager_until {
                // A controller's own time, which is a timer of the thread, ends it earlier.
                MAX_WAIT
            } else {
                let longest = MAX_PAUSE.min(shortest_rtt / PAUSES_IN_RTT);
                self.pause.min(longest).max(MIN_PAUSE)
            };
    }

    /// Until when acks wait; `None` if they are to be read when they come.
    pub(crate) fn pause_until(&self, now: Time) -> Option<Time> {
        Some(self.pause_until).filter(|until| *until > now)
    }
}
