//! From SINR to rate: spectral efficiency, CQI, modulation.

use std::f64::consts::LN_2;

use cellpace_base::math::{exp, ln};

/// Efficiencies of CQI 1 to 15 in bit/s/Hz (3GPP TS 36.213, table 7.2.3-1).
pub const EFFICIENCIES: [f64; 15] = [
    0.1523, 0.2344, 0.3770, 0.6016, 0.8770, 1.1758, 1.4766, 1.9141, 2.4063, 2.7305, 3.3223, 3.9023,
    4.5234, 5.1152, 5.5547,
];

/// Modulation of a block.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Modulation {
    /// Nothing is sent.
    None,
    /// 2 bits a symbol, CQI 1 to 6.
    Qpsk,
    /// 4 bits a symbol, CQI 7 to 9.
    Qam16,
    /// 6 bits a symbol, CQI 10 to 15.
    Qam64,
}

impl Modulation {
    /// The modulation of a CQI (3GPP TS 36.213, table 7.2.3-1); 0: nothing is sent.
    pub const fn of(cqi: u8) -> Self {
        match cqi {
            0 => Self::None,
            1..=6 => Self::Qpsk,
            7..=9 => Self::Qam16,
            _ => Self::Qam64,
        }
    }

    /// The word for it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Qpsk => "QPSK",
            Self::Qam16 => "16QAM",
            Self::Qam64 => "64QAM",
        }
    }
}

/// The relation of SINR and CQI at one bit error rate.
#[derive(Debug, Clone, PartialEq)]
pub struct CqiTable {
    /// The lowest SINR (a ratio) of CQI 1 to 15.
    thresholds: [f64; EFFICIENCIES.len()],
}

impl CqiTable {
    /// The table at this bit error rate: an efficiency e needs `SINR = G (2^e - 1)` with the gap
    /// `G = -ln(5 BER)/1.5` of uncoded QAM (Piro et al. 2011, from Goldsmith and Chua 1997).
    pub fn new(ber: f64) -> Self {
        let gap = gap(ber);
        Self { thresholds: EFFICIENCIES.map(|efficiency| gap * (exp(efficiency * LN_2) - 1.0)) }
    }

    /// The highest CQI whose efficiency is possible at `sinr` (a ratio); 0: none.
    pub fn cqi(&self, sinr: f64) -> u8 {
        self.thresholds.partition_point(|threshold| *threshold <= sinr) as u8
    }

    /// Whether a block with `cqi` gets through at `sinr` (a ratio).
    pub fn suffices(&self, sinr: f64, cqi: u8) -> bool {
        // A block gets through where its own CQI would have been reported at the SINR that it met.
        self.cqi(sinr) >= cqi
    }
}

/// The gap to capacity, as a ratio of SINRs.
fn gap(ber: f64) -> f64 {
    -ln(5.0 * ber) / 1.5
}

/// The efficiency of a CQI as a share of the highest; 0 for CQI 0.
pub fn share_of_peak(cqi: u8) -> f64 {
    let efficiency = usize::from(cqi).checked_sub(1).and_then(|index| EFFICIENCIES.get(index));
    efficiency.copied().unwrap_or(0.0) / EFFICIENCIES[EFFICIENCIES.len() - 1]
}

#[cfg(test)]
mod tests {
    use super::super::propagation::decibels;
    use super::*;

    #[test]
    fn radio_g4_gap_thresholds_and_rates() {
        assert!((gap(5e-5) - 5.529).abs() < 1e-3);
        assert!((decibels(gap(5e-5)) - 7.43).abs() < 0.005);
        let table = CqiTable::new(5e-5);
        let expected = [
            -2.11, -0.11, 2.18, 4.57, 6.65, 8.43, 9.94, 11.85, 13.76, 14.94, 16.97, 18.87, 20.85,
            22.70, 24.05,
        ];
        for (threshold, expected) in table.thresholds.iter().zip(expected) {
            assert!((decibels(*threshold) - expected).abs() < 0.006, "{expected}");
        }
        for (cqi, mbit) in [(6, 10.58), (9, 21.66), (15, 50.0)] {
            assert!((50.0 * share_of_peak(cqi) - mbit).abs() < 0.005, "{cqi}");
        }
    }

    #[test]
    fn a_cqi_is_the_highest_that_fits() {
        let table = CqiTable::new(5e-5);
        assert_eq!(table.cqi(0.0), 0);
        assert_eq!(table.cqi(1e9), 15);
        for cqi in 1..=15 {
            let threshold = table.thresholds[usize::from(cqi) - 1];
            assert_eq!(table.cqi(threshold), cqi);
            assert_eq!(table.cqi(threshold * 0.999_999), cqi - 1);
            assert!(table.suffices(threshold, cqi) && !table.suffices(threshold * 0.99, cqi));
        }
        let shares: Vec<f64> = (0..=15).map(share_of_peak).collect();
        assert!(shares.is_sorted() && shares[0] == 0.0 && shares[15] == 1.0);
        assert_eq!((Modulation::of(6), Modulation::of(7)), (Modulation::Qpsk, Modulation::Qam16));
        assert_eq!((Modulation::of(9), Modulation::of(10)), (Modulation::Qam16, Modulation::Qam64));
    }
}
