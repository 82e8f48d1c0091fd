//! Ways to drive a controller in tests: by hand, ack for ack, and in a closed loop over a queue.

use std::collections::VecDeque;

use cellpace_base::{Random, Span, Time};

use crate::{
    Ack, AckedPacket, Controller, ControllerSpec, Ecn, Event, Loss, LostPacket, Mark, Permit,
    RttEstimator, SentPacket, Setup, Spurious, Stamp, Timeout,
};

pub(crate) const MSS: u64 = 1500;

pub(crate) fn setup() -> Setup {
    Setup { mss: MSS, start: Time::ZERO, random: Random::seeded(1, 0) }
}

pub(crate) fn build(text: &str) -> Box<dyn Controller> {
    text.parse::<ControllerSpec>().unwrap().build(setup())
}

/// Any controller as one that [`ControllerFeed`] takes.
pub(crate) struct Boxed(pub(crate) Box<dyn Controller>);

impl Controller for Boxed {
    fn on_sent(&mut self, packet: &SentPacket) -> Stamp {
        self.0.on_sent(packet)
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.0.on_ack(ack);
    }

    fn on_loss(&mut self, loss: &Loss<'_>) {
        self.0.on_loss(loss);
    }

    fn on_timeout(&mut self, timeout: &Timeout) {
        self.0.on_timeout(timeout);
    }

    fn on_spurious(&mut self, spurious: &Spurious<'_>) {
        self.0.on_spurious(spurious);
    }

    fn ecn(&self) -> Ecn {
        self.0.ecn()
    }

    fn on_mark(&mut self, mark: &Mark<'_>) {
        self.0.on_mark(mark);
    }

    fn on_path_change(&mut self, now: Time) {
        self.0.on_path_change(now);
    }

    fn permit(&self) -> Permit {
        self.0.permit()
    }

    fn cwnd(&self) -> u64 {
        self.0.cwnd()
    }

    fn poll_event(&mut self) -> Option<(Time, Event)> {
        self.0.poll_event()
    }

    fn inspect(&self, show: &mut dyn FnMut(&'static str, f64)) {
        self.0.inspect(show);
    }
}

pub(crate) fn feed(text: &str) -> ControllerFeed<Boxed> {
    ControllerFeed::new(Boxed(build(text)))
}

/// Feeds a controller by hand. Packets arrive in the order of their numbers; `flight` is always
/// what was in flight, in packets, before what is reported.
pub(crate) struct ControllerFeed<C> {
    pub(crate) flow: C,
    pub(crate) now: Time,
    pub(crate) rtt: RttEstimator,
    pub(crate) app_limited: bool,
    /// The oldest number not accounted for.
    pub(crate) oldest: u64,
    pub(crate) next: u64,
}

impl<C: Controller> ControllerFeed<C> {
    pub(crate) fn new(flow: C) -> Self {
        let (now, rtt) = (Time::from_secs(1), RttEstimator::default());
        Self { flow, now, rtt, app_limited: false, oldest: 0, next: 0 }
    }

    pub(crate) fn wait_ms(&mut self, ms: f64) {
        self.now += Span::from_millis_f64(ms);
    }

    /// One ack of one packet.
    pub(crate) fn ack(&mut self, flight: u64, rtt_ms: f64) {
        self.ack_many(1, flight, rtt_ms);
    }

    /// `count` acks of one packet each, all at the same instant.
    pub(crate) fn acks(&mut self, count: u64, flight: u64, rtt_ms: f64) {
        (0..count).for_each(|_| self.ack(flight, rtt_ms));
    }

    /// One ack of `count` packets.
    pub(crate) fn ack_many(&mut self, count: u64, flight: u64, rtt_ms: f64) {
        let packets: Vec<_> = (0..count).map(|i| self.packet(self.oldest + i, rtt_ms)).collect();
        self.ack_packets(&packets, flight, rtt_ms);
    }

    fn ack_packets(&mut self, packets: &[AckedPacket], flight: u64, rtt_ms: f64) {
        let count = packets.len() as u64;
        self.next = self.next.max(self.oldest + flight.max(count));
        self.oldest += count;
        self.rtt.sample(Span::from_millis_f64(rtt_ms));
        self.flow.on_ack(&Ack {
            now: self.now,
            packets,
            prior_in_flight: flight * MSS,
            in_flight: flight.saturating_sub(count) * MSS,
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    fn packet(&self, number: u64, rtt_ms: f64) -> AckedPacket {
        let rtt = Span::from_millis_f64(rtt_ms);
        AckedPacket {
            number,
            bytes: MSS,
            sent_at: self.now - rtt,
            rtt,
            received_at: None,
            app_limited: self.app_limited,
            ecn: Default::default(),
            stamp: Stamp::default(),
        }
    }

    /// The oldest packet is lost; its number.
    pub(crate) fn lose(&mut self, flight: u64) -> u64 {
        let number = self.oldest;
        self.next = self.next.max(self.oldest + flight);
        self.oldest += 1;
        let lost = LostPacket {
            number,
            bytes: MSS,
            sent_at: self.now - Span::from_millis(100),
            stamp: Stamp::default(),
        };
        self.flow.on_loss(&Loss {
            now: self.now,
            packets: &[lost],
            prior_in_flight: flight * MSS,
            in_flight: (flight - 1) * MSS,
            next_number: self.next,
            rtt: &self.rtt,
        });
        number
    }

    /// One ack of one packet that came marked, before the controller is told of the mark.
    pub(crate) fn ack_marked(&mut self, flight: u64, rtt_ms: f64) {
        let packet = AckedPacket { ecn: Ecn::Ce, ..self.packet(self.oldest, rtt_ms) };
        self.ack_packets(&[packet], flight, rtt_ms);
    }

    /// The oldest packet arrives with a mark.
    pub(crate) fn mark(&mut self, flight: u64, rtt_ms: f64) {
        let newest = self.oldest;
        self.ack_marked(flight, rtt_ms);
        self.flow.on_mark(&Mark {
            now: self.now,
            packets: 1,
            newest,
            prior_in_flight: flight * MSS,
            in_flight: (flight - 1) * MSS,
            next_number: self.next,
            rtt: &self.rtt,
        });
    }

    pub(crate) fn time_out(&mut self, flight: u64, in_a_row: u32) {
        self.next = self.next.max(self.oldest + flight);
        self.oldest = self.next;
        self.flow.on_timeout(&Timeout {
            now: self.now,
            prior_in_flight: flight * MSS,
            in_a_row,
            next_number: self.next,
        });
    }

    pub(crate) fn late(&mut self, number: u64) {
        let packet = self.packet(number, 300.0);
        self.flow.on_spurious(&Spurious::Loss { now: self.now, packet: &packet });
    }

    pub(crate) fn timeout_was_spurious(&mut self) {
        self.flow.on_spurious(&Spurious::Timeout { now: self.now });
    }

    /// Acks up to and including the first packet sent after the last reduction.
    pub(crate) fn finish_recovery(&mut self, flight: u64, rtt_ms: f64) {
        while self.oldest < self.next {
            // Keeps `next` where it is until the old window is through.
            self.ack(self.next - self.oldest, rtt_ms);
        }
        self.ack(flight, rtt_ms);
    }

    pub(crate) fn events(&mut self) -> Vec<Event> {
        std::iter::from_fn(|| self.flow.poll_event()).map(|(_, event)| event).collect()
    }

    pub(crate) fn shown(&self, wanted: &str) -> f64 {
        let mut found = None;
        self.flow.inspect(&mut |name, value| {
            if name == wanted {
                found = Some(value);
            }
        });
        found.unwrap()
    }
}

/// A FIFO bottleneck: packets leave it `service` apart and are acked `base` later.
pub(crate) struct Loop {
    pub(crate) service: Span,
    pub(crate) base: Span,
    /// Packets that the queue holds.
    pub(crate) buffer: usize,
    /// One packet in this many is lost on the way.
    pub(crate) drop_every: Option<u64>,
}

/// One ack in the closed loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LoopAck {
    pub(crate) at: Time,
    pub(crate) rtt_ms: f64,
    pub(crate) cwnd_pkts: f64,
}

impl Loop {
    /// Runs an endless transfer for `length` and returns every ack.
    pub(crate) fn run(&self, flow: &mut dyn Controller, length: Span) -> Vec<LoopAck> {
        let mut seen = Vec::new();
        let (mut now, mut free_at, mut next) = (Time::ZERO, Time::ZERO, 0_u64);
        let mut flying: VecDeque<(u64, Time, Time, Stamp)> = VecDeque::new();
        let mut missing: VecDeque<(u64, Time)> = VecDeque::new();
        let mut rtt = RttEstimator::default();
        let mut timeouts = 0;
        while now < Time::ZERO + length {
            let flight = |flying: &VecDeque<_>, missing: &VecDeque<_>| {
                (flying.len() + missing.len()) as u64 * MSS
            };
            while flow.permit().remaining(flight(&flying, &missing)) >= MSS {
                let queued = free_at.since(now).as_nanos() / self.service.as_nanos().max(1);
                let dropped = self.drop_every.is_some_and(|every| next % every == every - 1);
                let stamp = flow.on_sent(&SentPacket {
                    now,
                    number: next,
                    bytes: MSS,
                    in_flight: flight(&flying, &missing) + MSS,
                    app_limited: false,
                    retransmission: false,
                });
                if dropped || queued as usize >= self.buffer {
                    missing.push_back((next, now));
                } else {
                    free_at = free_at.max(now) + self.service;
                    flying.push_back((next, now, free_at + self.base, stamp));
                }
                next += 1;
            }
            let Some((number, sent_at, at, stamp)) = flying.pop_front() else {
                timeouts += 1;
                now += rtt.backed_off_rto(timeouts);
                let prior_in_flight = flight(&flying, &missing);
                missing.clear();
                flow.on_timeout(&Timeout {
                    now,
                    prior_in_flight,
                    in_a_row: timeouts,
                    next_number: next,
                });
                continue;
            };
            timeouts = 0;
            now = at;
            rtt.sample(now.since(sent_at));
            let in_flight = flight(&flying, &missing);
            let packet = AckedPacket {
                number,
                bytes: MSS,
                sent_at,
                rtt: now.since(sent_at),
                received_at: Some(now - self.base / 2),
                app_limited: false,
                ecn: Default::default(),
                stamp,
            };
            flow.on_ack(&Ack {
                now,
                packets: &[packet],
                prior_in_flight: in_flight + MSS,
                in_flight,
                next_number: next,
                rtt: &rtt,
            });
            while missing.front().is_some_and(|(lost, _)| lost + 3 <= number) {
                let prior_in_flight = flight(&flying, &missing);
                let Some((lost, sent_at)) = missing.pop_front() else { break };
                let packets =
                    [LostPacket { number: lost, bytes: MSS, sent_at, stamp: Stamp::default() }];
                flow.on_loss(&Loss {
                    now,
                    packets: &packets,
                    prior_in_flight,
                    in_flight: prior_in_flight - MSS,
                    next_number: next,
                    rtt: &rtt,
                });
            }
            seen.push(LoopAck {
                at: now,
                rtt_ms: now.since(sent_at).as_millis_f64(),
                cwnd_pkts: flow.cwnd() as f64 / MSS as f64,
            });
        }
        seen
    }
}
