//! How far above the measured rate the window is, learnt from how often the queue is empty.

use super::units::{MAX_WINDOW, ONE};

/// A factor, and what it is learnt from. Packets have 16 bits behind the point, the factor 32.
#[derive(Debug, Clone)]
pub(super) struct Headroom {
    factor: u64,
    /// The share of packets that should find the queue empty, with 24 bits behind the point.
    empty: u64,
    /// Step per window of packets, with 16 bits behind the point.
    learning: u64,
    /// Packets in a row that found the queue empty.
    run: u64,
    /// Packets that the window has grown by because the queue stayed empty.
    boost: u64,
    /// Shortest queueing delay of this stretch, in microseconds.
    valley: u64,
    /// Windows of packets since the stretch began, with 16 bits behind the point.
    progress: u64,
}

const FACTOR_ONE: u64 = 1 << 32;
const SHARE_ONE: u64 = 1 << 24;
/// 0.3 to 6.
const RANGE: (u64, u64) = (FACTOR_ONE * 3 / 10, FACTOR_ONE * 6);
/// Headroom at the start, between that of a constant link and that of cellular ones.
const INITIAL: u64 = FACTOR_ONE * 11 / 10;
/// While the link is starved the window grows by half a packet per packet that arrives.
const BOOST_PARTS: u64 = 2;
/// Each packet from a queue takes away a tenth of the boost.
const BOOST_DECAY_PARTS: u64 = 10;
/// Windows of packets in a stretch; a quarter of its shortest queueing delay is given up.
const STRETCH: u64 = 20 * ONE;
const VALLEY_PARTS: u64 = 4;
/// A lost or marked packet costs half of what one that finds the queue empty gives.
const LOSS_PARTS: u64 = 2;
/// More packets than one ack has: keeps products below 64 bits.
const MOST: u64 = ONE << 12;

impl Headroom {
    /// `empty` with 24 bits behind the point, `learning` with 16.
    pub(super) fn new(empty: u64, learning: u64) -> Self {
        Self { factor: INITIAL, empty, learning, run: 0, boost: 0, valley: u64::MAX, progress: 0 }
    }

    /// The factor with 16 bits behind the point.
    pub(super) fn factor(&self) -> u64 {
        self.factor / ONE
    }

    pub(super) fn boost(&self) -> u64 {
        self.boost
    }

    /// Section 4: whether a whole window of packets has found the queue empty.
    pub(super) fn starved(&self, window: u64) -> bool {
        self.run > window
    }

    /// Takes an ack of `packets` that waited `queue` microseconds in a queue that counts as empty
    /// up to `nothing`.
    pub(super) fn on_ack(
        &mut self,
        packets: u64,
        queue: u64,
        nothing: u64,
        base: u64,
        window: u64,
    ) {
        let packets = packets.min(MOST);
        let empty = queue <= nothing;
        if empty {
            self.run = self.run.saturating_add(packets);
        } else {
            self.run = 0;
            let taken = self.boost * packets / (BOOST_DECAY_PARTS * ONE);
            self.boost = self.boost.saturating_sub(taken);
        }
        if self.starved(window) {
            self.boost = (self.boost + packets / BOOST_PARTS).min(MAX_WINDOW);
        } else {
            // Section 4: g <- g (1 + k (1[empty] - e) / W)
            let step = self.step(packets, window);
            if empty {
                self.raise(step * (SHARE_ONE - self.empty) / SHARE_ONE);
            } else {
                self.lower(step * self.empty / SHARE_ONE);
            }
        }
        self.follow_valley(packets * ONE / window.max(1), queue, nothing, base);
    }

    /// Packets were lost, or arrived with a mark.
    pub(super) fn on_loss(&mut self, packets: u64, window: u64) {
        self.run = 0;
        self.boost = 0;
        self.lower(self.step(packets.min(MOST), window) / LOSS_PARTS);
    }

    pub(super) fn restart(&mut self) {
        self.run = 0;
        self.boost = 0;
        self.valley = u64::MAX;
        self.progress = 0;
    }

    /// g k / W for each of the packets, at most half of the factor.
    fn step(&self, packets: u64, window: u64) -> u64 {
        (self.factor * self.learning / ONE * packets / window.max(1)).min(self.factor / 2)
    }

    /// Section 4: a queue that was there all the time serves nothing.
    fn follow_valley(&mut self, windows: u64, queue: u64, nothing: u64, base: u64) {
        self.valley = self.valley.min(queue);
        self.progress += windows;
        if self.progress < STRETCH {
            return;
        }
        if self.valley > nothing && base > 0 {
            // g <- g - q / 4B
            let queues = self.valley.min(6 * base) * FACTOR_ONE / base;
            self.lower(queues / VALLEY_PARTS);
        }
        self.valley = u64::MAX;
        self.progress = 0;
    }

    fn raise(&mut self, step: u64) {
        self.factor = (self.factor + step).min(RANGE.1);
    }

    fn lower(&mut self, step: u64) {
        self.factor = self.factor.saturating_sub(step).max(RANGE.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 40 ms, 1 ms, 40 packets.
    const BASE: u64 = 40_000;
    const NOTHING: u64 = 1000;
    const WINDOW: u64 = 40 * ONE;

    /// 1 % and 0.04.
    fn headroom() -> Headroom {
        Headroom::new(SHARE_ONE / 100, ONE * 4 / 100)
    }

    fn ack(headroom: &mut Headroom, queue: u64) {
        headroom.on_ack(ONE, queue, NOTHING, BASE, WINDOW);
    }

    fn factor(headroom: &Headroom) -> f64 {
        headroom.factor as f64 / FACTOR_ONE as f64
    }

    #[test]
    fn pace_t3_one_empty_packet_weighs_as_ninety_nine_from_a_queue() {
        let mut headroom = headroom();
        let before = factor(&headroom);
        ack(&mut headroom, 0);
        // 1.1 (1 + 0.04 x 0.99 / 40)
        assert!((factor(&headroom) - 1.1 * 1.00099).abs() < 1e-6);
        (0..99).for_each(|_| ack(&mut headroom, 20_000));
        assert!((factor(&headroom) / before - 1.0).abs() < 1e-4, "{}", factor(&headroom));
    }

    #[test]
    fn pace_t4_a_standing_queue_is_given_up_by_a_quarter_per_twenty_windows() {
        let mut headroom = headroom();
        (0..801).for_each(|_| ack(&mut headroom, 8000));
        // 1.1, less 20 windows of 0.04 x 0.01, less 0.25 x 8 ms / 40 ms.
        assert!((factor(&headroom) - (1.1 * (1.0 - 0.008) - 0.05)).abs() < 1e-3);
    }

    #[test]
    fn pace_t5_a_starved_link_gets_half_a_window_more_per_round_trip() {
        let mut headroom = headroom();
        (0..40).for_each(|_| ack(&mut headroom, 0));
        assert_eq!((headroom.starved(WINDOW), headroom.boost()), (false, 0));
        (0..40).for_each(|_| ack(&mut headroom, 0));
        assert!(headroom.starved(WINDOW));
        assert_eq!(headroom.boost(), 20 * ONE);
        (0..10).for_each(|_| ack(&mut headroom, 20_000));
        assert!(headroom.boost() < 7 * ONE + ONE / 4, "{}", headroom.boost());
    }

    #[test]
    fn pace_t6_losses_lower_the_headroom_and_end_a_boost() {
        let mut headroom = headroom();
        (0..80).for_each(|_| ack(&mut headroom, 0));
        let before = factor(&headroom);
        headroom.on_loss(2 * ONE, WINDOW);
        assert_eq!(headroom.boost(), 0);
        assert!((factor(&headroom) / before - (1.0 - 0.001)).abs() < 1e-6);
    }
}
