//! What a step is worth.

use cellpace_base::math::ln;
use cellpace_cc::policy::{Convention, ORCA_LOSS_WEIGHT, StepRecord, orca_delay_metric};

/// Throughput below which the default reward hardly falls any more, in bytes per s: 100 kbit/s.
const LEAST_THROUGHPUT: f64 = 12_500.0;

/// The reward of a step by a convention.
///
/// | convention | reward | source |
/// |---|---|---|
/// | `default` | ln(1 + throughput / 100 kbit/s) - ln(RTT / least RTT) - 10 loss ratio | log of the power of a flow, as Copa's objective with delta = 1; without acks the RTT is at least the silence |
/// | `aurora` | (10 throughput \[packets/s\] - 1000 mean RTT \[s\] - 2000 loss ratio) / 1000 | Aurora (2019), section 4.1; the factor from the published code |
/// | `orca` | (throughput - 5 loss rate) / largest throughput x delay metric | Orca (2020), equation 3 |
/// | `mvfst` | 0.1 throughput \[MB/s\] - 0.01 largest delay \[ms\] | mvfst-rl (2019), section 3, with the defaults of its code, in which losses count nothing; the delay is RTT less least RTT |
pub fn reward(convention: Convention, step: &StepRecord) -> f64 {
    match convention {
        Convention::Default => {
            let inflation = match step.min_rtt > 0.0 {
                true => (step.expected_rtt() / step.min_rtt).max(1.0),
                false => 1.0,
            };
            ln(1.0 + step.throughput() / LEAST_THROUGHPUT)
                - ln(inflation)
                - 10.0 * step.loss_ratio()
        }
        Convention::Aurora => {
            let packets = step.throughput() / step.mss.max(1) as f64;
            (10.0 * packets - 1000.0 * step.mean_rtt() - 2000.0 * step.loss_ratio()) / 1000.0
        }
        Convention::Orca if step.max_throughput > 0.0 => {
            (step.throughput() - ORCA_LOSS_WEIGHT * step.loss_rate()) / step.max_throughput
                * orca_delay_metric(step)
        }
        Convention::Orca => 0.0,
        Convention::Mvfst => {
            let delay_ms = (step.rtt_max - step.min_rtt).max(0.0) * 1000.0;
            0.1 * step.throughput() / 1e6 - 0.01 * delay_ms
        }
    }
}

#[cfg(test)]
mod tests {
    use cellpace_base::Time;

    use super::*;

    /// 20 ms with 10 packets acknowledged at a mean RTT of 60 ms, 2 lost.
    fn step() -> StepRecord {
        StepRecord {
            start: Time::from_millis(100),
            end: Time::from_millis(120),
            acked_packets: 10,
            acked_bytes: 15_000,
            lost_packets: 2,
            lost_bytes: 3_000,
            rtt_sum: 0.6,
            rtt_max: 0.07,
            srtt: 0.0625,
            min_rtt: 0.04,
            max_throughput: 1_500_000.0,
            mss: 1500,
            ..StepRecord::default()
        }
    }

    #[test]
    fn rewards_of_a_hand_made_step() {
        for (convention, expected) in [
            // 6 Mbit/s, 60 over 40 ms, a sixth lost
            (Convention::Default, 61_f64.ln() - 1.5_f64.ln() - 10.0 / 6.0),
            // 500 packets/s, 60 ms, a sixth lost
            (Convention::Aurora, 5.0 - 0.06 - 2.0 / 6.0),
            // (750 - 5 x 150) kB/s
            (Convention::Orca, 0.0),
            // 0.75 MB/s, 30 ms
            (Convention::Mvfst, 0.075 - 0.3),
        ] {
            let found = reward(convention, &step());
            assert!((found - expected).abs() < 1e-9, "{convention:?}: {found} is not {expected}");
        }
        let lossless = StepRecord { lost_bytes: 0, ..step() };
        assert!((reward(Convention::Orca, &lossless) - 0.5 * 0.8).abs() < 1e-9);
    }

    #[test]
    fn rewards_before_the_first_ack_are_numbers() {
        for convention in Convention::ALL {
            assert!(reward(convention, &StepRecord::default()).is_finite(), "{convention:?}");
        }
    }
}
