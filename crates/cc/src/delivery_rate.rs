//! Delivery-rate samples: how fast the network took packets away, seen from the sender
//! (draft-cheng-iccrg-delivery-rate-estimation).

use crate::{Ack, AckedPacket, SentPacket, Stamp, Time};

/// Counts what is delivered and turns acks into rate samples.
#[derive(Debug, Clone)]
pub(crate) struct DeliveryRate {
    delivered: u64,
    delivered_at: Time,
    /// When the packet left that opened the current sending interval.
    first_sent_at: Time,
    /// While this many bytes are not exceeded, packets sent count as application-limited.
    app_limited_until: Option<u64>,
}

/// A sample of the rate from one ack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct RateSample {
    /// Bytes per second; `None` where the ack allows no honest estimate.
    pub(crate) rate: Option<u64>,
    /// Bytes delivered when the packet left that was sent last of those acked.
    pub(crate) prior_delivered: u64,
    /// Whether that packet left while the sender was short of data: the rate is then a lower
    /// bound of what the path can do.
    pub(crate) app_limited: bool,
}

/// What was counted when a packet left. It comes back on the packet's stamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Departure {
    /// Bytes delivered by then.
    pub(crate) delivered: u64,
    /// When the last of them was.
    pub(crate) delivered_at: Time,
    /// When the packet left that opened the sending interval.
    pub(crate) first_sent_at: Time,
    /// Whether the sender was short of data.
    pub(crate) app_limited: bool,
}

impl DeliveryRate {
    /// Nothing delivered yet.
    pub(crate) fn new(start: Time) -> Self {
        Self { delivered: 0, delivered_at: start, first_sent_at: start, app_limited_until: None }
    }

    /// Nothing delivered over a new path yet, and `delivered` bytes before.
    pub(crate) fn resumed(start: Time, delivered: u64) -> Self {
        Self { delivered, ..Self::new(start) }
    }

    /// Bytes delivered so far.
    pub(crate) fn delivered(&self) -> u64 {
        self.delivered
    }

    /// Whether packets sent now count as application-limited.
    pub(crate) fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Counts everything sent until `in_flight` bytes more are delivered as application-limited.
    pub(crate) fn hold_app_limited(&mut self, in_flight: u64) {
        self.app_limited_until = Some(self.delivered.saturating_add(in_flight));
    }

    /// A packet leaves; what is returned must come back with its ack.
    pub(crate) fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.depart(packet).into()
    }

    /// The same, for controllers that write the stamp themselves.
    pub(crate) fn depart(&mut self, packet: &SentPacket) -> Departure {
        if packet.in_flight <= packet.bytes {
            // Nothing was in flight: idle time must not stretch the intervals.
            self.first_sent_at = packet.now;
            self.delivered_at = packet.now;
        }
        if packet.app_limited {
            self.hold_app_limited(packet.in_flight);
        }
        Departure {
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent_at: self.first_sent_at,
            app_limited: self.is_app_limited(),
        }
    }

    /// Packets arrived.
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) -> RateSample {
        let newest = ack.newest();
        self.sample(ack, newest, newest.stamp.into())
    }

    /// Packets arrived, of which `newest` was sent last, with `departure` on its stamp.
    pub(crate) fn sample(
        &mut self,
        ack: &Ack<'_>,
        newest: &AckedPacket,
        departure: Departure,
    ) -> RateSample {
        self.count(ack.now, ack.bytes());
        // The slower of the two clocks: acks that arrive in a bunch after a pause must not look
        // like a fast path, nor must a burst of sends.
        let send_interval = newest.sent_at - departure.first_sent_at;
        let ack_interval = ack.now - departure.delivered_at;
        let interval = send_interval.max(ack_interval);
        self.first_sent_at = self.first_sent_at.max(newest.sent_at);

        let delivered = self.delivered.saturating_sub(departure.delivered);
        // Shorter than any round trip: the packet cannot have been acked in that time.
        let honest = !interval.is_zero() && Some(interval) >= ack.rtt.minimum();
        let rate = honest.then(|| (delivered as f64 * 1e9 / interval.as_nanos() as f64) as u64);
        RateSample {
            rate,
            prior_delivered: departure.delivered,
            app_limited: departure.app_limited || newest.app_limited,
        }
    }

    /// Counts bytes as delivered without taking a sample, such as those of a packet that had been
    /// given up for lost.
    pub(crate) fn count(&mut self, now: Time, bytes: u64) {
        self.delivered = self.delivered.saturating_add(bytes);
        self.delivered_at = now;
        self.app_limited_until = self.app_limited_until.filter(|until| self.delivered <= *until);
    }
}

impl From<Departure> for Stamp {
    fn from(departure: Departure) -> Self {
        let local = [
            departure.delivered,
            departure.delivered_at.as_nanos(),
            departure.first_sent_at.as_nanos(),
            u64::from(departure.app_limited),
        ];
        Self { local, wire: 0 }
    }
}

impl From<Stamp> for Departure {
    fn from(stamp: Stamp) -> Self {
        let [delivered, delivered_at, first_sent_at, app_limited] = stamp.local;
        Self {
            delivered,
            delivered_at: Time::from_nanos(delivered_at),
            first_sent_at: Time::from_nanos(first_sent_at),
            app_limited: app_limited != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{RttEstimator, Span};

    const MSS: u64 = 1000;

    struct Bench {
        rate: DeliveryRate,
        rtt: RttEstimator,
        in_flight: u64,
        next: u64,
    }

    impl Bench {
        fn new() -> Self {
            let rate = DeliveryRate::new(Time::ZERO);
            Self { rate, rtt: RttEstimator::default(), in_flight: 0, next: 0 }
        }

        fn send(&mut self, at_ms: u64, app_limited: bool) -> AckedPacket {
            let now = Time::from_millis(at_ms);
            self.in_flight += MSS;
            let stamp = self.rate.on_sent(&SentPacket {
                now,
                number: self.next,
                bytes: MSS,
                in_flight: self.in_flight,
                app_limited,
                retransmission: false,
            });
            self.next += 1;
            AckedPacket {
                number: self.next - 1,
                bytes: MSS,
                sent_at: now,
                rtt: Span::ZERO,
                received_at: None,
                app_limited,
                ecn: Default::default(),
                stamp,
            }
        }

        fn ack(&mut self, at_ms: u64, packets: &[AckedPacket]) -> RateSample {
            let now = Time::from_millis(at_ms);
            let prior_in_flight = self.in_flight;
            self.in_flight -= MSS * packets.len() as u64;
            for packet in packets {
                self.rtt.sample(now - packet.sent_at);
            }
            self.rate.on_ack(&Ack {
                now,
                packets,
                prior_in_flight,
                in_flight: self.in_flight,
                next_number: self.next,
                rtt: &self.rtt,
            })
        }
    }

    #[test]
    fn a_steady_stream_is_measured_at_its_rate() {
        let mut bench = Bench::new();
        let packets: Vec<_> = (0..40).map(|i| bench.send(i, false)).collect();
        let samples: Vec<_> =
            packets.iter().map(|packet| bench.ack(packet.number + 40, &[*packet])).collect();
        let next = bench.send(80, false);
        // 40 packets in flight over 40 ms before it, and this one.
        assert_eq!(samples[0].rate, Some(MSS * 1000 / 40));
        assert_eq!(bench.ack(120, &[next]).rate, Some(MSS * 1000 / 40));
    }

    #[test]
    fn a_bunch_of_acks_is_not_a_fast_path() {
        let mut bench = Bench::new();
        let packets: Vec<_> = (0..10).map(|i| bench.send(i * 10, false)).collect();
        let sample = bench.ack(140, &packets);
        // Ten packets since the stream began 140 ms ago.
        assert_eq!(sample.rate, Some(10 * MSS * 1000 / 140));
    }

    #[test]
    fn a_burst_of_sends_is_not_a_fast_path() {
        let mut bench = Bench::new();
        let first = bench.send(0, false);
        bench.ack(40, &[first]);
        let packets: Vec<_> = (0..4).map(|_| bench.send(50, false)).collect();
        let mut sample = bench.ack(90, &packets[..1]);
        for packet in &packets[1..] {
            sample = bench.ack(90, &[*packet]);
        }
        assert_eq!(sample.rate, Some(4 * MSS * 1000 / 40));
    }

    #[test]
    fn an_interval_below_the_smallest_rtt_gives_no_rate() {
        let mut bench = Bench::new();
        let first = bench.send(0, false);
        bench.ack(40, &[first]);
        let mut liar = bench.send(50, false);
        liar.stamp.local[1] = Time::from_millis(80).as_nanos();
        liar.stamp.local[2] = Time::from_millis(80).as_nanos();
        assert_eq!(bench.ack(90, &[liar]).rate, None);
    }

    #[test]
    fn packets_count_as_app_limited_until_the_gap_is_delivered() {
        let mut bench = Bench::new();
        let (a, b) = (bench.send(0, false), bench.send(1, true));
        assert!(!bench.ack(40, &[a]).app_limited);
        let c = bench.send(41, false);
        assert!(bench.ack(42, &[b]).app_limited);
        assert!(bench.rate.is_app_limited(), "the gap is behind b, c fills it");
        assert!(bench.ack(81, &[c]).app_limited);
        assert!(!bench.rate.is_app_limited());
        let d = bench.send(82, false);
        assert!(!bench.ack(122, &[d]).app_limited);
    }
}
