//! ProbeBW_UP: raises the bound on the flight, faster with each round.

/// How fast the bound rises: by 1, 2, 4, 8, … packets per round.
#[derive(Debug, Clone, Copy)]
pub(super) struct UpwardSlope {
    rounds: u32,
    /// Bytes acked that have not raised the bound yet.
    acked: f64,
    /// Bytes acked that raise it by one packet.
    acked_per_packet: f64,
}

impl UpwardSlope {
    /// Rounds after which the slope stays (draft-ietf-ccwg-bbr: BBRRaiseInflightLongtermSlope).
    const MAX_ROUNDS: u32 = 30;

    /// No growth before [`steepen`](Self::steepen).
    pub(super) fn flat() -> Self {
        Self { rounds: 0, acked: 0.0, acked_per_packet: f64::INFINITY }
    }

    /// A round of UP begins: twice as many packets in it as in the one before.
    pub(super) fn steepen(&mut self, cwnd: f64, mss: f64) {
        let growth = (1_u64 << self.rounds) as f64;
        self.rounds = (self.rounds + 1).min(Self::MAX_ROUNDS);
        self.acked_per_packet = (cwnd / growth).max(mss);
    }

    /// Returns the packets by which the bound rises for `acked` bytes.
    pub(super) fn on_ack(&mut self, acked: f64) -> f64 {
        self.acked += acked;
        if self.acked < self.acked_per_packet {
            return 0.0;
        }
        let packets = (self.acked / self.acked_per_packet).floor();
        self.acked -= packets * self.acked_per_packet;
        packets
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bbr3_b7_upward_slope() {
        const MSS: f64 = 1500.0;
        let (mut slope, mut bound, mut added) = (UpwardSlope::flat(), 60_000.0, Vec::new());
        for _ in 0..5 {
            slope.steepen(bound, MSS);
            let before = bound;
            for _ in 0..(before / MSS) as u64 {
                bound += slope.on_ack(MSS) * MSS;
            }
            added.push((bound - before) / MSS);
        }
        assert_eq!(added, [1.0, 2.0, 4.0, 8.0, 16.0]);
    }

    #[test]
    fn growth_is_capped_at_doubling() {
        let mut slope = UpwardSlope::flat();
        assert_eq!(slope.on_ack(1e9), 0.0, "flat");
        let mut slope = UpwardSlope::flat();
        (0..40).for_each(|_| slope.steepen(60_000.0, 1500.0));
        assert_eq!(slope.on_ack(60_000.0), 40.0);
    }
}
