//! The largest delivery rate of this cycle of probing and the one before.

/// Two slots, of which one is dropped once per cycle.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct MaxBandwidth {
    /// Bytes per second: last cycle, this cycle.
    slots: [f64; 2],
}

impl MaxBandwidth {
    /// Takes a sample in bytes per second.
    pub(super) fn add(&mut self, rate: f64) {
        self.slots[1] = self.slots[1].max(rate);
    }

    /// A cycle is over. One without a sample drops nothing.
    pub(super) fn advance(&mut self) {
        if self.slots[1] > 0.0 {
            self.slots = [self.slots[1], 0.0];
        }
    }

    /// Bytes per second; zero before the first sample.
    pub(super) fn max(&self) -> f64 {
        self.slots[0].max(self.slots[1])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bbr3_b12_max_filter() {
        let mut filter = MaxBandwidth::default();
        filter.add(10.0);
        filter.add(12.0);
        filter.advance();
        assert_eq!(filter.max(), 12.0);
        filter.add(9.0);
        assert_eq!(filter.max(), 12.0);
        filter.advance();
        assert_eq!(filter.max(), 9.0);
        filter.add(8.0);
        filter.advance();
        assert_eq!(filter.max(), 8.0);
        filter.advance();
        assert_eq!(filter.max(), 8.0, "an empty cycle drops nothing");
        filter.add(7.0);
        assert_eq!(filter.max(), 8.0);
        filter.advance();
        assert_eq!(filter.max(), 7.0);
    }
}
