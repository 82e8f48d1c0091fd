//! The queueing delay as what delays are above the smallest of the last minutes (RFC 6817 section
//! 2.4.2), for clocks that may be any distance apart.

use cellpace_base::{Span, Time};

use crate::AckedPacket;

const MINUTE: Span = Span::from_secs(60);

/// Base and current delay (RFC 6817 section 2.4.2), in nanoseconds with an arbitrary offset, which
/// cancels in the difference.
pub(crate) struct DelayHistory {
    /// Smallest delay of each of the last minutes, in a ring; `i64::MAX` where there was none.
    minutes: Vec<i64>,
    /// The running minute's place in the ring, and its end.
    slot: usize,
    minute_end: Time,
    /// The last samples, in a ring.
    recent: Vec<i64>,
    next: usize,
    /// The minima of the two rings.
    base: i64,
    current: i64,
    /// Which of the two kinds of delay is in the rings.
    one_way: Option<bool>,
}

impl DelayHistory {
    /// A history of so many minutes, whose current delay is the smallest of the last `filter` samples.
    pub(crate) fn new(minutes: u64, filter: u64, start: Time) -> Self {
        Self {
            minutes: vec![i64::MAX; minutes as usize],
            slot: 0,
            minute_end: start + MINUTE,
            recent: vec![i64::MAX; filter as usize],
            next: 0,
            base: i64::MAX,
            current: i64::MAX,
            one_way: None,
        }
    }

    /// Takes the delay of an acked packet: one way where its arrival is known, else the RTT.
    pub(crate) fn sample(&mut self, now: Time, packet: &AckedPacket) {
        let one_way = packet.received_at.is_some();
        if self.one_way != Some(one_way) {
            // The two kinds cannot be compared.
            self.forget();
            self.one_way = Some(one_way);
        }
        let delay = match packet.received_at {
            // The clocks may be any distance apart: wrapping gives the difference of nearby
            // values and something harmless for nonsense.
            Some(at) => at.as_nanos().wrapping_sub(packet.sent_at.as_nanos()) as i64,
            None => i64::try_from(packet.rtt.as_nanos()).unwrap_or(i64::MAX),
        };
        self.update_base(now, delay);
        self.update_current(delay);
    }

    /// RFC 6817 section 2.4.2, update_base_delay.
    fn update_base(&mut self, now: Time, delay: i64) {
        if now >= self.minute_end {
            self.turn_minutes(now);
        }
        let minute = &mut self.minutes[self.slot];
        *minute = delay.min(*minute);
        self.base = self.base.min(delay);
    }

    /// Minutes without samples count as minutes: after a long silence the old minima are gone.
    fn turn_minutes(&mut self, now: Time) {
        let passed = now.since(self.minute_end).as_nanos() / MINUTE.as_nanos() + 1;
        self.minute_end += MINUTE * passed;
        for _ in 0..passed.min(self.minutes.len() as u64) {
            self.slot = (self.slot + 1) % self.minutes.len();
            self.minutes[self.slot] = i64::MAX;
        }
        self.base = self.minutes.iter().copied().min().unwrap_or(i64::MAX);
    }

    /// RFC 6817 section 2.4.2, update_current_delay with the minimum as FILTER.
    fn update_current(&mut self, delay: i64) {
        let replaced = std::mem::replace(&mut self.recent[self.next], delay);
        self.next += 1;
        if self.next == self.recent.len() {
            self.next = 0;
        }
        if delay <= self.current {
            self.current = delay;
        } else if replaced == self.current {
            self.current = self.recent.iter().copied().min().unwrap_or(delay);
        }
    }

    /// The delay that is due to queues; zero before the first sample. Never negative, although
    /// the filter may still hold a sample of the minute that has just left the history.
    pub(crate) fn queueing_ns(&self) -> f64 {
        if self.one_way.is_none() {
            return 0.0;
        }
        self.current.saturating_sub(self.base).max(0) as f64
    }

    /// Whether the last delay was that of one way; with RTTs only, it was not.
    pub(crate) fn is_one_way(&self) -> bool {
        self.one_way == Some(true)
    }

    /// Starts over.
    pub(crate) fn forget(&mut self) {
        self.minutes.fill(i64::MAX);
        self.recent.fill(i64::MAX);
        self.base = i64::MAX;
        self.current = i64::MAX;
        self.one_way = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Stamp;

    fn base_ms(delay: &DelayHistory) -> f64 {
        delay.base as f64 / 1e6
    }

    fn packet(rtt: Span, received_at: Option<Time>, sent_at: Time) -> AckedPacket {
        AckedPacket {
            number: 0,
            bytes: 1500,
            sent_at,
            rtt,
            received_at,
            app_limited: false,
            ecn: Default::default(),
            stamp: Stamp::default(),
        }
    }

    #[test]
    fn ledbat_l9_base_delay_is_forgotten_after_ten_minutes() {
        let mut delay = DelayHistory::new(10, 4, Time::ZERO);
        for minute in 0..12 {
            let ms = if minute == 0 { 50 } else { 80 };
            for second in [0, 30, 59] {
                let now = Time::from_secs(minute * 60 + second);
                delay.sample(now, &packet(Span::from_millis(ms), None, now));
                assert_eq!(base_ms(&delay), if minute < 10 { 50.0 } else { 80.0 }, "{minute}");
            }
        }
        assert_eq!(delay.queueing_ns(), 0.0, "a newcomer to a standing queue takes it for base");
    }

    #[test]
    fn ledbat_base_delay_does_not_outlive_a_long_silence() {
        let mut delay = DelayHistory::new(10, 4, Time::ZERO);
        delay.sample(Time::ZERO, &packet(Span::from_millis(50), None, Time::ZERO));
        let later = Time::from_secs(24 * 3600);
        delay.sample(later, &packet(Span::from_millis(80), None, later));
        assert_eq!(base_ms(&delay), 80.0);
        assert_eq!(delay.queueing_ns(), 0.0, "the filter may lag behind the base, not below it");
    }

    #[test]
    fn ledbat_the_offset_between_the_clocks_cancels() {
        for offset in [0, 1_000_000_000, u64::MAX / 2, u64::MAX - 500_000_000] {
            let mut delay = DelayHistory::new(10, 1, Time::ZERO);
            for (at, ms) in [(0, 20), (100, 20), (200, 70)] {
                let sent = Time::from_millis(at);
                let nanos = (sent + Span::from_millis(ms)).as_nanos().wrapping_add(offset);
                let at = Some(Time::from_nanos(nanos));
                delay.sample(sent, &packet(Span::from_secs(9), at, sent));
            }
            assert_eq!(delay.queueing_ns(), 50e6, "{offset}");
        }
    }

    #[test]
    fn ledbat_filter_takes_the_smallest_of_the_last_samples() {
        let mut delay = DelayHistory::new(10, 4, Time::ZERO);
        let currents: Vec<i64> = [50, 90, 80, 70, 60, 95, 95, 95, 95]
            .into_iter()
            .map(|ms| {
                delay.sample(Time::ZERO, &packet(Span::from_millis(ms), None, Time::ZERO));
                delay.current / 1_000_000
            })
            .collect();
        assert_eq!(currents, [50, 50, 50, 50, 60, 60, 60, 60, 95]);
    }
}
