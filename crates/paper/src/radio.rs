//! What a drive through a radio layer was like.

use cellpace_base::statistics::quantile;
use cellpace_path::radio::rate::Modulation;
use cellpace_path::radio::{Drive, RadioSample, STEP};
use serde_json::{Value, json};

/// Distribution of the SINR, shares of the modulations, and the largest rates of whole seconds: of
/// all, of those with QPSK alone, and of those with nothing above 16QAM.
pub(crate) fn radio_figures(drive: &Drive) -> Value {
    let samples = drive.samples();
    let mut sinrs: Vec<f64> = samples.iter().map(|sample| f64::from(sample.sinr_db)).collect();
    sinrs.sort_by(f64::total_cmp);
    let share = |of: &dyn Fn(&RadioSample) -> bool| {
        samples.iter().filter(|sample| of(sample)).count() as f64 / samples.len() as f64
    };
    let with = |modulation| share(&|sample: &RadioSample| sample.modulation() == modulation);
    let max_rate = |most: Modulation| {
        let seconds = samples.chunks_exact((1_000_000_000 / STEP.as_nanos()) as usize);
        let within =
            |second: &&[RadioSample]| second.iter().all(|sample| sample.modulation() <= most);
        seconds.filter(within).map(mbps).fold(f64::NAN, f64::max)
    };
    json!({ "radio": {
        "sinr_p5_db": quantile(&sinrs, 0.05),
        "sinr_p50_db": quantile(&sinrs, 0.5),
        "share_above_20db": share(&|sample| sample.sinr_db > 20.0),
        "share_10_to_20db": share(&|sample| (10.0..=20.0).contains(&sample.sinr_db)),
        "share_qpsk": with(Modulation::Qpsk),
        "share_16qam": with(Modulation::Qam16),
        "share_64qam": with(Modulation::Qam64),
        "max_mbps": max_rate(Modulation::Qam64),
        "max_qpsk_mbps": max_rate(Modulation::Qpsk),
        "max_16qam_mbps": max_rate(Modulation::Qam16),
    } })
}

/// The rate of a second.
fn mbps(second: &[RadioSample]) -> f64 {
    second.iter().map(|sample| f64::from(sample.bytes)).sum::<f64>() * 8.0 / 1e6
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::Span;
    use cellpace_path::radio::RadioSpec;

    #[test]
    fn figures_of_a_drive_add_up() {
        let spec = RadioSpec::parse("highway-700").unwrap();
        let figures = radio_figures(&Drive::generate(&spec, 1, Span::from_secs(600)));
        let of = |name: &str| figures["radio"][name].as_f64().unwrap();
        let modulated = of("share_qpsk") + of("share_16qam") + of("share_64qam");
        assert!(modulated > 0.9 && modulated <= 1.0, "{figures}");
        assert!(of("sinr_p5_db") < of("sinr_p50_db"));
        assert!(of("share_above_20db") + of("share_10_to_20db") < 1.0);
        assert!(of("max_qpsk_mbps") <= of("max_16qam_mbps"));
        assert!(of("max_16qam_mbps") <= of("max_mbps") && of("max_mbps") <= 50.0, "{figures}");
    }
}
