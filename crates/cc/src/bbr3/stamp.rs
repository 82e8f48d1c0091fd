//! What BBRv3 leaves on a packet: six values in the four words of a stamp.

use crate::delivery_rate::Departure;
use crate::{Span, Stamp, Time};

/// What was counted when a packet left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StampedState {
    pub(super) departure: Departure,
    /// Bytes lost so far.
    pub(super) lost: u64,
    /// Bytes in flight, the packet included.
    pub(super) in_flight: u64,
}

/// Unit of the two time spans that share a word. 2^32 of them are 1099 s, and one is 6 millionths
/// of an interval of 40 ms.
const UNIT_NANOS: u64 = 256;

impl StampedState {
    /// Writes the stamp of a packet that leaves `now`. Both times of a departure are before it.
    pub(super) fn pack(&self, now: Time) -> Stamp {
        let Departure { delivered, delivered_at, first_sent_at, app_limited } = self.departure;
        let flight = self.in_flight.min(u64::MAX >> 1) << 1 | u64::from(app_limited);
        let times = units(now - delivered_at) << 32 | units(now - first_sent_at);
        Stamp { local: [delivered, self.lost, flight, times], wire: 0 }
    }

    /// Reads the stamp of a packet that left at `sent_at`.
    pub(super) fn unpack(stamp: &Stamp, sent_at: Time) -> Self {
        let [delivered, lost, flight, times] = stamp.local;
        let departure = Departure {
            delivered,
            delivered_at: sent_at - span(times >> 32),
            first_sent_at: sent_at - span(times & u64::from(u32::MAX)),
            app_limited: flight & 1 == 1,
        };
        Self { departure, lost, in_flight: flight >> 1 }
    }
}

fn units(span: Span) -> u64 {
    (span.as_nanos() / UNIT_NANOS).min(u64::from(u32::MAX))
}

fn span(units: u64) -> Span {
    Span::from_nanos(units * UNIT_NANOS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn packed(since_delivered: Span, sent_at: Time) -> StampedState {
        let state = StampedState {
            departure: Departure {
                delivered: 7,
                delivered_at: sent_at - since_delivered,
                first_sent_at: sent_at - Span::from_millis(3),
                app_limited: true,
            },
            lost: 3000,
            in_flight: 90_000,
        };
        StampedState::unpack(&state.pack(sent_at), sent_at)
    }

    #[test]
    fn bbr3_b20_stamp_packing() {
        let sent_at = Time::from_secs(100);
        let state = packed(Span::from_millis(41), sent_at);
        let elapsed = sent_at - state.departure.delivered_at;
        assert_eq!(elapsed, Span::from_nanos(160_156 * 256));
        assert_eq!(elapsed, Span::from_nanos(40_999_936));
        let error = 1.0 - elapsed.as_secs_f64() / 0.041;
        assert!((0.0..10e-6).contains(&error), "{error}");
        assert_eq!((state.departure.delivered, state.lost, state.in_flight), (7, 3000, 90_000));
        assert!(state.departure.app_limited);
    }

    #[test]
    fn spans_beyond_the_word_saturate() {
        let sent_at = Time::from_secs(5000);
        let state = packed(Span::from_secs(4000), sent_at);
        let elapsed = sent_at - state.departure.delivered_at;
        assert!((1099.0..1100.0).contains(&elapsed.as_secs_f64()), "{elapsed}");
    }

    proptest! {
        /// The rate of a sample never looks like that of a shorter time than a round trip.
        #[test]
        fn times_come_back_no_earlier_and_at_most_a_unit_later(nanos in 0_u64..1_000_000_000_000) {
            let sent_at = Time::from_secs(5000);
            let state = packed(Span::from_nanos(nanos), sent_at);
            let elapsed = (sent_at - state.departure.delivered_at).as_nanos();
            prop_assert!(elapsed <= nanos && nanos - elapsed < UNIT_NANOS);
        }
    }
}
