//! How far above the measured rate the window is, learnt from how often the queue is empty.

/// A factor, and what it is learnt from.
#[derive(Debug, Clone)]
pub(super) struct Headroom {
    factor: f64,
    /// The share of packets that should find the queue empty.
    empty: f64,
    /// Step per window of packets.
    learning: f64,
    /// Packets in a row that found the queue empty.
    run: f64,
    /// Packets that the window has grown by because the queue stayed empty.
    boost: f64,
    /// Shortest queueing delay of this stretch, in seconds.
    valley: f64,
    /// Windows of packets since the stretch began.
    progress: f64,
}

const RANGE: (f64, f64) = (0.3, 6.0);
/// Headroom at the start, between that of a constant link and that of cellular ones.
const INITIAL: f64 = 1.1;
/// Packets by which the window grows per ack while the link is starved: one half more per round trip.
const BOOST: f64 = 0.5;
/// Share of the boost that each packet from a queue takes away.
const BOOST_DECAY: f64 = 0.1;
/// Windows of packets in a stretch, and the share of its shortest queueing delay that is given up.
const STRETCH: f64 = 20.0;
const VALLEY: f64 = 0.25;
/// What a lost or marked packet costs, in packets that find the queue empty.
const LOSS_PRICE: f64 = 0.5;

impl Headroom {
    pub(super) fn new(empty: f64, learning: f64) -> Self {
        Self {
            factor: INITIAL,
            empty,
            learning,
            run: 0.0,
            boost: 0.0,
            valley: f64::INFINITY,
            progress: 0.0,
        }
    }

    pub(super) fn factor(&self) -> f64 {
        self.factor
    }

    pub(super) fn boost(&self) -> f64 {
        self.boost
    }

    /// Section 4: whether a whole window of packets has found the queue empty.
    pub(super) fn starved(&self, window: f64) -> bool {
        self.run > window
    }

    /// Takes an ack of `packets` that waited `queue` seconds in a queue that counts as empty up to
    /// `nothing` seconds.
    pub(super) fn on_ack(
        &mut self,
        packets: f64,
        queue: f64,
        nothing: f64,
        base: f64,
        window: f64,
    ) {
        let empty = queue <= nothing;
        if empty {
            self.run += packets;
        } else {
            self.run = 0.0;
            self.boost *= (1.0 - BOOST_DECAY * packets).max(0.0);
        }
        if self.starved(window) {
            self.boost += BOOST * packets;
        } else {
            // Section 4: g += g k (1[empty] - e) / W
            let step = f64::from(u8::from(empty)) - self.empty;
            self.scale(self.learning * step * packets / window);
        }
        self.follow_valley(packets / window, queue, nothing, base);
    }

    /// Packets were lost, or arrived with a mark.
    pub(super) fn on_loss(&mut self, packets: f64, window: f64) {
        self.run = 0.0;
        self.boost = 0.0;
        self.scale(-self.learning * LOSS_PRICE * packets / window);
    }

    pub(super) fn restart(&mut self) {
        self.run = 0.0;
        self.boost = 0.0;
        self.valley = f64::INFINITY;
        self.progress = 0.0;
    }

    /// Section 4: a queue that was there all the time serves nothing.
    fn follow_valley(&mut self, windows: f64, queue: f64, nothing: f64, base: f64) {
        self.valley = self.valley.min(queue);
        self.progress += windows;
        if self.progress < STRETCH {
            return;
        }
        if self.valley > nothing && base > 0.0 {
            self.factor = (self.factor - VALLEY * self.valley / base).max(RANGE.0);
        }
        self.valley = f64::INFINITY;
        self.progress = 0.0;
    }

    fn scale(&mut self, step: f64) {
        self.factor = (self.factor * (1.0 + step.clamp(-0.5, 0.5))).clamp(RANGE.0, RANGE.1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: f64 = 0.04;
    const NOTHING: f64 = 0.001;

    fn ack(headroom: &mut Headroom, queue: f64) {
        headroom.on_ack(1.0, queue, NOTHING, BASE, 40.0);
    }

    #[test]
    fn pace_t3_one_empty_packet_weighs_as_ninety_nine_from_a_queue() {
        let mut headroom = Headroom::new(0.01, 0.04);
        let before = headroom.factor();
        ack(&mut headroom, 0.0);
        // 1.1 (1 + 0.04 x 0.99 / 40)
        assert!((headroom.factor() - 1.1 * 1.00099).abs() < 1e-9);
        (0..99).for_each(|_| ack(&mut headroom, 0.02));
        assert!((headroom.factor() / before - 1.0).abs() < 1e-4, "{}", headroom.factor());
    }

    #[test]
    fn pace_t4_a_standing_queue_is_given_up_by_a_quarter_per_twenty_windows() {
        let mut headroom = Headroom::new(0.01, 0.04);
        (0..801).for_each(|_| ack(&mut headroom, 0.008));
        // 1.1, less 20 windows of 0.04 x 0.01, less 0.25 x 8 ms / 40 ms.
        assert!((headroom.factor() - (1.1 * (1.0 - 0.008) - 0.05)).abs() < 1e-3);
    }

    #[test]
    fn pace_t5_a_starved_link_gets_half_a_window_more_per_round_trip() {
        let mut headroom = Headroom::new(0.01, 0.04);
        (0..40).for_each(|_| ack(&mut headroom, 0.0));
        assert_eq!((headroom.starved(40.0), headroom.boost()), (false, 0.0));
        (0..40).for_each(|_| ack(&mut headroom, 0.0));
        assert!(headroom.starved(40.0));
        assert_eq!(headroom.boost(), 20.0);
        (0..10).for_each(|_| ack(&mut headroom, 0.02));
        assert!(headroom.boost() < 7.0, "{}", headroom.boost());
    }

    #[test]
    fn pace_t6_losses_lower_the_headroom_and_end_a_boost() {
        let mut headroom = Headroom::new(0.01, 0.04);
        (0..80).for_each(|_| ack(&mut headroom, 0.0));
        let before = headroom.factor();
        headroom.on_loss(2.0, 40.0);
        assert_eq!(headroom.boost(), 0.0);
        assert!((headroom.factor() / before - (1.0 - 0.001)).abs() < 1e-9);
    }
}
