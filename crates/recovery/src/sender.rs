//! One sender: a controller, its packets in flight and its pacer, asked for every packet anew.

use cellpace_cc::{Controller, Ecn, RttEstimator, Span, Stamp, Time};

use crate::{Arrived, EcnFailure, EcnState, Pacer, Sending, Sent};

/// What decides when a packet of a flow leaves. The owner has the data:
///
/// ```text
/// while there is data and sender.ready(now, bytes) { sender.send(...) }
/// ```
pub struct PacedSender<D> {
    controller: Box<dyn Controller>,
    sent: Sent<D>,
    pacer: Pacer,
    /// When the pacer lets the next packet go.
    release_at: Option<Time>,
    ecn: EcnState,
    /// The first packet number on the present path.
    path_start: u64,
}

impl<D: Copy> PacedSender<D> {
    /// A sender that has sent nothing yet.
    pub fn new(controller: Box<dyn Controller>, now: Time) -> Self {
        Self::with_rtt(controller, now, RttEstimator::default())
    }

    /// A sender that measures RTTs with `rtt`.
    pub fn with_rtt(controller: Box<dyn Controller>, now: Time, rtt: RttEstimator) -> Self {
        Self {
            controller,
            sent: Sent::new(rtt),
            pacer: Pacer::new(now),
            release_at: None,
            ecn: EcnState::Off,
            path_start: 0,
        }
    }

    /// The datapath can carry ECN: packets leave with the codepoint that the controller wants,
    /// for as long as that arrives. To be called before the first packet.
    pub fn use_ecn(&mut self) {
        if self.controller.ecn().is_capable() {
            self.ecn = EcnState::Testing { arrived: 0 };
        }
    }

    /// The codepoint with which the next packet leaves.
    #[inline]
    pub fn ecn(&self) -> Ecn {
        if self.ecn.is_used() { self.controller.ecn() } else { Ecn::NotEct }
    }

    /// What is known of ECN on the present path.
    pub fn ecn_state(&self) -> EcnState {
        self.ecn
    }

    /// The datapath has found that marks do not come back. Nothing happens where ECN is not used.
    pub fn fail_ecn(&mut self, now: Time, why: EcnFailure) {
        if self.ecn.is_used() {
            self.ecn = EcnState::Failed(why);
            self.controller.on_ecn_failed(now);
        }
    }

    fn judge_ecn(&mut self, now: Time, judge: impl FnOnce(&mut EcnState)) {
        let was_used = self.ecn.is_used();
        judge(&mut self.ecn);
        if was_used && !self.ecn.is_used() {
            self.controller.on_ecn_failed(now);
        }
    }

    /// The controller.
    pub fn controller(&self) -> &dyn Controller {
        self.controller.as_ref()
    }

    /// The controller, for its events and reports.
    pub fn controller_mut(&mut self) -> &mut dyn Controller {
        self.controller.as_mut()
    }

    /// Goes on under another controller, with the packets that are in flight.
    pub fn replace_controller(&mut self, controller: Box<dyn Controller>) {
        self.controller = controller;
    }

    /// The packets in flight.
    pub fn sent(&self) -> &Sent<D> {
        &self.sent
    }

    /// The packets in flight, for the data of lost ones.
    pub fn sent_mut(&mut self) -> &mut Sent<D> {
        &mut self.sent
    }

    /// The retransmission timeout at present.
    pub fn rto(&self) -> Span {
        self.sent.rto(self.controller.as_ref())
    }

    /// The owner has nothing to send for now: no packet waits for the pacer.
    pub fn rest(&mut self) {
        self.release_at = None;
    }

    /// Bytes that the controller lets leave now, whatever the pacer says.
    #[inline]
    pub fn remaining(&self) -> u64 {
        self.controller.permit().remaining(self.sent.in_flight())
    }

    /// Whether a packet of `bytes` may leave now, by permit and pacer. If the pacer holds it, its
    /// release is among the deadlines.
    #[inline]
    pub fn ready(&mut self, now: Time, bytes: u64) -> bool {
        self.release_at = None;
        if self.remaining() < bytes {
            return false;
        }
        match self.pacer.release_at(now, bytes, self.controller.pacing()) {
            Some(time) if time <= now => true,
            waits => {
                self.release_at = waits;
                false
            }
        }
    }

    /// A packet leaves. Returns its number and the controller's stamp, whose wire half travels
    /// with it.
    #[inline]
    pub fn send(&mut self, sending: &Sending<D>) -> (u64, Stamp) {
        self.pacer.on_sent(sending.bytes, self.controller.pacing());
        self.sent.send(sending, self.controller.as_mut())
    }

    /// See [`Sent::on_ack`].
    #[inline]
    pub fn on_ack(&mut self, now: Time, arrived: &[Arrived], on_acked: impl FnMut(D, Span)) {
        if self.ecn.is_used() {
            let (sent, first) = (self.controller.ecn(), self.path_start);
            let arrived = arrived.iter().filter(|arrived| arrived.number >= first);
            self.judge_ecn(now, |ecn| arrived.for_each(|a| ecn.on_arrival(sent, a.ecn)));
        }
        self.sent.on_ack(now, arrived, self.controller.as_mut(), on_acked);
    }

    /// What leaves from now on takes another path; see [`Sent::on_path_change`].
    pub fn on_path_change(&mut self, now: Time) {
        self.sent.on_path_change();
        self.path_start = self.sent.next_number();
        self.ecn.on_path_change();
        self.controller.on_path_change(now);
    }

    /// When the controller wants to be called, if ever.
    pub fn controller_deadline(&self) -> Option<Time> {
        self.controller.next_deadline()
    }

    /// When a packet is lost, the retransmission timer fires or the pacer lets go.
    #[inline]
    pub fn packet_deadline(&self) -> Option<Time> {
        let sent = self.sent.next_deadline(self.controller.as_ref());
        match (sent, self.release_at) {
            (Some(sent), Some(release)) => Some(sent.min(release)),
            (sent, release) => sent.or(release),
        }
    }

    /// Does what is due.
    pub fn on_timer(&mut self, now: Time) {
        if self.controller.next_deadline().is_some_and(|time| time <= now) {
            self.controller.on_deadline(now);
        }
        let timeouts = self.sent.counts().timeouts;
        self.sent.on_timer(now, self.controller.as_mut());
        if self.sent.counts().timeouts > timeouts {
            let sent = self.sent.next_number() - self.path_start;
            self.judge_ecn(now, |ecn| ecn.on_timeout(sent));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_cc::{Pacing, Permit, Rate};

    struct Paced;

    impl Controller for Paced {
        fn permit(&self) -> Permit {
            Permit::Window(4500)
        }
        fn pacing(&self) -> Option<Pacing> {
            Some(Pacing { rate: Rate::from_bps(12_000_000), burst: 3000 })
        }
    }

    fn send(sender: &mut PacedSender<u64>, now: Time, data: u64) {
        assert!(sender.ready(now, 1500));
        let sending = Sending { now, bytes: 1500, data, retransmission: false, app_limited: false };
        assert_eq!(sender.send(&sending).0, data);
    }

    #[test]
    fn a_packet_waits_for_the_pacer_then_for_the_window() {
        let mut sender = PacedSender::new(Box::new(Paced), Time::ZERO);
        send(&mut sender, Time::ZERO, 0);
        send(&mut sender, Time::ZERO, 1);
        assert!(!sender.ready(Time::ZERO, 1500), "the burst is used up");
        let release = Time::from_millis(1);
        assert_eq!(sender.packet_deadline(), Some(release));
        send(&mut sender, release, 2);
        assert!(!sender.ready(Time::from_millis(9), 1500), "the window is used up");
        assert_eq!(sender.packet_deadline(), Some(Time::from_secs(1)), "the retransmission timer");
        let arrived = [Arrived::new(0, None)];
        let mut acked = Vec::new();
        sender.on_ack(Time::from_millis(40), &arrived, |data, rtt| acked.push((data, rtt)));
        assert_eq!(acked, [(0, Span::from_millis(40))]);
        assert!(sender.ready(Time::from_millis(40), 1500));
    }

    #[test]
    fn whoever_rests_does_not_wait_for_the_pacer() {
        let mut sender: PacedSender<u64> = PacedSender::new(Box::new(Paced), Time::ZERO);
        send(&mut sender, Time::ZERO, 0);
        send(&mut sender, Time::ZERO, 1);
        assert!(!sender.ready(Time::ZERO, 1500));
        sender.rest();
        assert_eq!(sender.packet_deadline(), Some(Time::from_secs(1)));
    }
}
