//! The random source that is handed to controllers and paths.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;

use crate::math::{ln, sin_cos};

/// A seeded random source with a stream that never changes between versions and platforms
/// (PCG XSL 128/64 MCG). One per flow and per random part of a path, so that adding a flow does
/// not disturb the draws of another.
#[derive(Debug, Clone)]
pub struct Random(Pcg64Mcg);

impl Random {
    /// The source number `stream` of the run with seed `seed`.
    pub fn seeded(seed: u64, stream: u64) -> Self {
        // SplitMix64's finaliser spreads neighbouring seeds and streams over the whole state.
        let mix = |word: u64| {
            let z = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ (z >> 31)
        };
        let high = mix(seed.wrapping_add(0x9e37_79b9_7f4a_7c15));
        let low = mix(stream.wrapping_mul(0x9e37_79b9_7f4a_7c15).wrapping_add(high));
        let mut state = [0; 16];
        state[..8].copy_from_slice(&low.to_le_bytes());
        state[8..].copy_from_slice(&high.to_le_bytes());
        Self(Pcg64Mcg::from_seed(state))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in [0, 1).
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// A draw from the standard normal distribution (Box and Muller, 1958).
    pub fn normal(&mut self) -> f64 {
        let radius = (-2.0 * ln(1.0 - self.unit())).sqrt();
        radius * sin_cos(std::f64::consts::TAU * self.unit()).1
    }

    /// Uniform in `0..n`; zero if `n` is zero.
    pub fn below(&mut self, n: u64) -> u64 {
        // Multiply-shift; the bias of at most n / 2^64 does not matter to any user of it.
        ((u128::from(self.bits()) * u128::from(n)) >> 64) as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn same_seed_same_stream_other_stream_other_draws() {
        let draw = |seed, stream| {
            let mut random = Random::seeded(seed, stream);
            [random.bits(), random.bits(), random.bits()]
        };
        assert_eq!(draw(1, 0), draw(1, 0));
        assert_ne!(draw(1, 0), draw(1, 1));
        assert_ne!(draw(1, 0), draw(2, 0));
    }

    #[test]
    fn draws_stay_in_their_ranges_and_spread() {
        let mut random = Random::seeded(7, 7);
        let mean = (0..10_000).map(|_| random.unit()).sum::<f64>() / 10_000.0;
        assert!((0.48..0.52).contains(&mean), "{mean}");
        assert!((0..1000).all(|_| random.below(8) < 8));
        assert_eq!(random.below(0), 0);
    }
}
