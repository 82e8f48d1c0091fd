//! The parameters of a radio layer, and the forms in which they are written.

use cellpace_base::{ParamError, ParamSet, Rate, Span, nearest, params, words};

use crate::error::{PathError, TraceError};

params! {
    /// The parameters of a radio layer. Lengths are in metres, powers in dBm.
    #[derive(PartialEq)]
    pub struct RadioParams {
        /// Speed along the road
        speed: f64 = "30" in 0.1..=300.0, unit "m/s", from "highway slides";
        /// Distance between cells along the road
        spacing: f64 = "2400" in 50.0..=50_000.0, unit "m", from "cellpace, calibrated: 40 % of 20 MB downloads see a handover", logarithmic;
        /// Distance of the masts from the road
        offset: f64 = "100" in 0.0..=5000.0, unit "m", from "cellpace";
        /// Carrier frequency, for the Doppler shift
        frequency: f64 = "751" in 100.0..=100_000.0, unit "MHz", from "LTE band 13";
        /// Path loss at 1 km
        path_loss: f64 = "94.2" in 0.0..=250.0, unit "dB", from "Hata 1980, open, 751 MHz, mast of 45 m";
        /// Path loss per decade of distance
        path_slope: f64 = "34.1" in 10.0..=80.0, unit "dB", from "Hata 1980, mast of 45 m";
        /// Nearer than this the path loss does not fall
        min_distance: f64 = "35" in 1.0..=1000.0, unit "m", from "3GPP TR 36.942";
        /// Standard deviation of the shadowing
        shadow: f64 = "8" in 0.0..=20.0, unit "dB", from "3GPP TR 36.814";
        /// Distance after which the shadowing's correlation is 1/e
        shadow_distance: f64 = "50" in 1.0..=10_000.0, unit "m", from "Gudmundson 1991; 3GPP TR 36.814", logarithmic;
        /// Correlation of the shadowing of two cells
        shadow_shared: f64 = "0.5" in 0.0..=1.0, from "3GPP TR 36.814";
        /// Rayleigh branches that are averaged (0: no fading)
        diversity: u64 = "8" in 0..=64, from "cellpace: 2 antennas x 4 bands";
        /// Radiated power of a cell
        eirp: f64 = "58" in -30.0..=100.0, unit "dBm", from "3GPP TR 36.942";
        /// Loss into the car
        car_loss: f64 = "6" in 0.0..=60.0, unit "dB", from "cellpace";
        /// Occupied bandwidth
        bandwidth: f64 = "9" in 0.1..=1000.0, unit "MHz", from "LTE, 10 MHz";
        /// Noise figure of the phone
        noise_figure: f64 = "9" in 0.0..=30.0, unit "dB", from "3GPP TR 36.942";
        /// Share of the time in which the other cells send
        load: f64 = "0.5" in 0.0..=1.0, from "cellpace";
        /// Rate of CQI 15 without other users
        peak: Rate = "50mbit" in Rate::from_bps(1_000)..=Rate::from_bps(10_000_000_000), from "highway slides";
        /// Other users in the cell, on average
        users: f64 = "1.2" in 0.0..=100.0, from "cellpace, calibrated: 20 MB downloads at 14 Mbit/s";
        /// How long another user stays, on average
        stay: Span = "10s" in Span::from_millis(100)..=Span::from_secs(86_400), from "cellpace", logarithmic;
        /// Length that is drawn before it repeats, unless a run is longer
        length: Span = "300s" in Span::from_secs(1)..=Span::from_secs(86_400), from "cellpace", logarithmic;
    }
    expert {
        /// Bit error rate that the gap to capacity is for
        ber: f64 = "0.00005" in 1e-9..=0.1, from "Piro et al. 2011", logarithmic;
        /// Age of the CQI that a block is sent with
        cqi_delay: Span = "8ms" in Span::ZERO..=Span::from_secs(1), from "cellpace";
        /// Margin below the reported SINR
        backoff: f64 = "1" in -10.0..=20.0, unit "dB", from "cellpace";
        /// Time from a failed block to its repetition
        harq_rtt: Span = "8ms" in Span::from_millis(1)..=Span::from_millis(100), from "3GPP TS 36.321";
        /// Repetitions before RLC takes over
        harq_retries: u64 = "4" in 0..=20, from "3GPP TS 36.321";
        /// Time from the last repetition to delivery by RLC
        rlc_delay: Span = "50ms" in Span::ZERO..=Span::from_secs(10), from "cellpace";
        /// How much stronger a neighbour is before it is reported
        hysteresis: f64 = "3" in 0.0..=30.0, unit "dB", from "ns-3's default";
        /// For how long it must be stronger
        time_to_trigger: Span = "256ms" in Span::ZERO..=Span::from_secs(10), from "ns-3's default";
        /// Coefficient of the filter of measurements (0: none)
        filter_k: u64 = "4" in 0..=19, from "3GPP TS 36.331";
        /// From the report to the interruption
        preparation: Span = "50ms" in Span::ZERO..=Span::from_secs(10), from "3GPP TR 36.839";
        /// Mean interruption of a handover
        interruption: Span = "50ms" in Span::ZERO..=Span::from_secs(10), from "3GPP TR 36.881";
        /// Standard deviation of the interruption
        interruption_sd: Span = "15ms" in Span::ZERO..=Span::from_secs(10), from "cellpace";
        /// Shortest interruption (where the mean is shorter, the mean)
        interruption_min: Span = "20ms" in Span::ZERO..=Span::from_secs(10), from "cellpace";
        /// What becomes of the queue in a handover
        buffer: HandoverBuffer = "forward", from "3GPP TS 36.300 (X2)";
        /// From the interruption's end until forwarded data is there
        forward_delay: Span = "10ms" in Span::ZERO..=Span::from_secs(10), from "cellpace";
        /// Whether controllers are told of handovers
        signal: bool = "false", from "cellpace";
        /// SINR below which T310 runs
        out_of_sync: f64 = "-8" in -60.0..=60.0, unit "dB", from "3GPP TS 36.133";
        /// SINR above which T310 is stopped
        in_sync: f64 = "-6" in -60.0..=60.0, unit "dB", from "3GPP TS 36.133";
        /// Time out of sync after which the link has failed
        t310: Span = "1s" in Span::ZERO..=Span::from_secs(60), from "3GPP TS 36.331";
        /// Shortest outage after a failure; the queue is lost
        outage_min: Span = "200ms" in Span::ZERO..=Span::from_secs(60), from "cellpace";
        /// Longest outage after a failure
        outage_max: Span = "1s" in Span::ZERO..=Span::from_secs(60), from "cellpace";
    }
}

words! {
    /// What becomes of packets that wait when a handover begins.
    pub enum HandoverBuffer {
        /// They stay: the same base station serves the new cell.
        Keep = "keep",
        /// They are forwarded to the new base station, and arrive there some time later.
        Forward = "forward",
        /// They are lost.
        Lose = "lose",
    }
}

/// Names of the radio layers that come with the library.
pub const NAMES: [&str; 3] = ["highway-700", "highway-1900", "city-1900"];

/// What each of [`NAMES`] is, in half a line.
pub const SUMMARIES: [&str; NAMES.len()] = [
    "a phone at 30 m/s along LTE cells at 751 MHz",
    "the same road and masts at 1900 MHz",
    "a phone at 10 m/s in a city, cells of 500 m at 1900 MHz",
];

/// How they differ from the defaults. Path losses are those of COST 231's extension of Hata's model:
/// open country with masts of 45 m, large city with masts of 30 m.
const VALUES: [&str; NAMES.len()] = [
    "",
    "frequency=1900,path_loss=102.4",
    "frequency=1900,path_loss=137.0,path_slope=35.2,speed=10,spacing=500,offset=30,users=2.5",
];

/// The largest parameter file that is read, in bytes.
pub(crate) const MAX_FILE_BYTES: u64 = 1 << 16;

/// A radio layer by its written form: one of [`NAMES`] or the parameters in a file, and perhaps
/// values that differ: `highway-700,load=30%,interruption=0ms`.
#[derive(Debug, Clone, PartialEq)]
pub struct RadioSpec {
    params: RadioParams,
}

impl RadioSpec {
    /// Reads a form that names one of [`NAMES`].
    ///
    /// # Errors
    /// When there is no such name, or a value does not read.
    pub fn parse(text: &str) -> Result<Self, PathError> {
        let (name, rest) = split(text);
        let Some(values) = named(name) else {
            let (what, near) = ("radio layer", nearest(name, NAMES));
            return Err(PathError::unknown(what, name, near, &NAMES));
        };
        let owner = format!("radio:{name}");
        Self::read(&owner, &[values], rest)
    }

    /// Reads the parameters in TOML; `rest` are values that differ, as behind a name. The key
    /// `base` may name the layer from which the file differs; without it that is `highway-700`.
    ///
    /// ```
    /// let text = "base = \"city-1900\"\nspeed = 1.5\nusers = 4\ninterruption = \"40ms\"\n";
    /// let spec = cellpace_path::radio::RadioSpec::from_toml("walk.toml", text, "")?;
    /// assert_eq!(spec.params().speed, 1.5);
    /// # Ok::<(), cellpace_path::PathError>(())
    /// ```
    ///
    /// # Errors
    /// When the text is no TOML, or a field is unknown or does not read; the file is named.
    pub fn from_toml(file: &str, text: &str, rest: &str) -> Result<Self, PathError> {
        let problem = |problem: String| TraceError::Unreadable { name: file.to_owned(), problem };
        let table: toml::Table =
            text.parse().map_err(|error: toml::de::Error| problem(error.to_string()))?;
        let (mut base, mut fields) = (VALUES[0], String::new());
        for (key, value) in &table {
            let written = written(value).ok_or_else(|| {
                problem(format!("{key}: `{value}` is neither a number, a word nor true or false"))
            })?;
            if key == "base" {
                base = named(&written).ok_or_else(|| {
                    problem(format!("base: `{written}` is none of {}", NAMES.join(", ")))
                })?;
                continue;
            }
            fields += &format!("{key}={written},");
        }
        Self::read(file, &[base, &fields], rest)
    }

    /// Reads values, the later ones in place of the earlier ones.
    fn read(owner: &str, earlier: &[&str], rest: &str) -> Result<Self, PathError> {
        let mut layers = earlier.to_vec();
        layers.push(rest);
        let params = RadioParams::parse(owner, &overridden(&layers))?;
        let spec = Self { params };
        spec.check(owner)?;
        Ok(spec)
    }

    fn check(&self, owner: &str) -> Result<(), ParamError> {
        let p = &self.params;
        let out_of_range = |key: &str, value: String, range: String| {
            Err(ParamError::OutOfRange { owner: owner.into(), key: key.into(), value, range })
        };
        if p.outage_max < p.outage_min {
            return out_of_range("outage_max", p.outage_max.to_string(), "from outage_min".into());
        }
        if p.in_sync < p.out_of_sync {
            return out_of_range("in_sync", p.in_sync.to_string(), "from out_of_sync".into());
        }
        Ok(())
    }

    /// The parameters.
    pub const fn params(&self) -> &RadioParams {
        &self.params
    }
}

/// The name in front of the first comma, and what follows.
pub(crate) fn split(text: &str) -> (&str, &str) {
    let (name, rest) = text.split_once(',').unwrap_or((text, ""));
    (name.trim(), rest)
}

/// Whether `name` is one of [`NAMES`].
pub(crate) fn is_named(name: &str) -> bool {
    named(name).is_some()
}

fn named(name: &str) -> Option<&'static str> {
    NAMES.iter().position(|known| *known == name).map(|index| VALUES[index])
}

/// A value as it is written behind a key; `None`: not of a kind that parameters have.
fn written(value: &toml::Value) -> Option<String> {
    match value {
        toml::Value::String(text) if !text.contains(',') => Some(text.clone()),
        toml::Value::Integer(number) => Some(number.to_string()),
        toml::Value::Float(number) => Some(number.to_string()),
        toml::Value::Boolean(value) => Some(value.to_string()),
        _ => None,
    }
}

/// All assignments of all layers, but those whose key a later layer has, too.
fn overridden(layers: &[&str]) -> String {
    let key = |part: &str| part.split_once('=').map_or("", |(key, _)| key).trim().to_owned();
    let mut kept: Vec<&str> = Vec::new();
    for layer in layers {
        let parts: Vec<&str> = layer.split(',').filter(|part| !part.trim().is_empty()).collect();
        // A key may stand once in a text that is parsed, so earlier layers lose it.
        kept.retain(|old| !parts.iter().any(|part| key(part) == key(old)));
        kept.extend(parts);
    }
    kept.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn named_layers_and_files_read_and_values_override() {
        for name in NAMES {
            assert!(RadioSpec::parse(name).is_ok(), "{name}");
        }
        let city = RadioSpec::parse("city-1900, speed=1.5").unwrap();
        assert_eq!((city.params.speed, city.params.frequency), (1.5, 1900.0));
        let file = "base = 'city-1900'\nspeed = 2\ninterruption = '0ms'\nsignal = true\n";
        let read = RadioSpec::from_toml("a.toml", file, "speed=3").unwrap();
        assert_eq!(
            (read.params.speed, read.params.spacing, read.params.signal),
            (3.0, 500.0, true)
        );
        assert_eq!(RadioSpec::from_toml("a.toml", "", ""), RadioSpec::parse("highway-700"));
    }

    #[test]
    fn mistakes_are_reported_with_their_place() {
        for (text, part) in [
            ("highway-70", "there is no radio layer `highway-70`; did you mean `highway-700`?"),
            (
                "highway-700,lod=1",
                "`radio:highway-700` has no parameter `lod`; did you mean `load`?",
            ),
            ("highway-700,load=2", "load=2 is out of range; allowed: 0..1"),
            ("highway-700,load=1,load=1", "`load` is given twice"),
            ("highway-700,outage_max=1ms", "outage_max=1ms is out of range"),
            ("highway-700,in_sync=-9", "in_sync=-9 is out of range"),
            (
                "highway-700,buffer=gone",
                "buffer=gone is out of range; allowed: keep, forward, lose",
            ),
        ] {
            let error = RadioSpec::parse(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        for (text, part) in [
            ("speed = ", "a.toml: TOML parse error at line 1"),
            ("sped = 1", "`a.toml` has no parameter `sped`; did you mean `speed`?"),
            ("speed = [1]", "a.toml: speed: `[1]` is neither"),
            ("speed = 'a,b'", "a.toml: speed: "),
            ("base = 'moon'", "a.toml: base: `moon` is none of highway-700"),
        ] {
            let error = RadioSpec::from_toml("a.toml", text, "").unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
