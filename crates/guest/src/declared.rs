//! A set of parameters as the records that cellpace reads, and their values as the text that the set reads.

use cellpace_base::{Param, ParamKind, ParamSet, Rate, Span, format_bytes};

use crate::abi;

/// The parameters of a module, in the module's memory for as long as it lives.
pub struct Declared {
    params: Vec<DeclaredParam>,
    records: Vec<abi::Param>,
}

struct DeclaredParam {
    key: &'static str,
    kind: ParamKind,
    /// The texts that the record points to, each with a zero byte at its end.
    texts: [String; 3],
    default: f64,
}

impl Declared {
    /// Declares the parameters of `P`.
    pub fn of<P: ParamSet>() -> Self {
        let params: Vec<DeclaredParam> = P::table().iter().filter_map(DeclaredParam::of).collect();
        let mut records: Vec<abi::Param> = params.iter().map(DeclaredParam::record).collect();
        records.push(abi::Param::from_words([0; abi::Param::WORDS]));
        Self { params, records }
    }

    /// Returns where the records are.
    pub fn records(&self) -> *const abi::Param {
        self.records.as_ptr()
    }

    /// Writes the values as the text of a set.
    pub(crate) fn text(&self, values: &[f64]) -> String {
        let given = self.params.iter().zip(values).filter(|(_, value)| !value.is_nan());
        let texts: Vec<String> = given.map(|(param, value)| param.text(*value)).collect();
        texts.join(",")
    }
}

impl DeclaredParam {
    fn of(param: &Param) -> Option<Self> {
        let mut declared = Self {
            key: param.key,
            kind: param.kind,
            texts: [param.key, param.help, param.source].map(|text| format!("{text}\0")),
            default: f64::NAN,
        };
        declared.range()?;
        if !param.default.is_empty() {
            declared.default = declared.value(param.default)?;
        }
        Some(declared)
    }

    /// Its kind and range; `None` for what is no number.
    fn range(&self) -> Option<(u32, f64, f64)> {
        Some(match self.kind {
            ParamKind::Number(low, high) => (abi::KIND_NUMBER, low, high),
            ParamKind::Integer(low, high) => (abi::KIND_INTEGER, low as f64, high as f64),
            ParamKind::Bool => (abi::KIND_BOOL, 0.0, 1.0),
            ParamKind::Span(low, high) => {
                (abi::KIND_SPAN, low.as_nanos() as f64, high.as_nanos() as f64)
            }
            ParamKind::Bytes(low, high) => (abi::KIND_BYTES, low as f64, high as f64),
            ParamKind::Rate(low, high) => {
                (abi::KIND_RATE, low.as_bytes_per_sec(), high.as_bytes_per_sec())
            }
            ParamKind::Window | ParamKind::Word(_) | ParamKind::Text(_) => return None,
        })
    }

    fn value(&self, text: &str) -> Option<f64> {
        match self.kind {
            ParamKind::Bool => Some(f64::from(u8::from(text == "true"))),
            ParamKind::Span(..) => {
                cellpace_base::parse_span(text).ok().map(|span| span.as_nanos() as f64)
            }
            ParamKind::Bytes(..) => cellpace_base::parse_bytes(text).ok().map(|bytes| bytes as f64),
            ParamKind::Rate(..) => text.parse::<Rate>().ok().map(Rate::as_bytes_per_sec),
            _ => match text.strip_suffix('%') {
                Some(percent) => percent.parse::<f64>().ok().map(|percent| percent / 100.0),
                None => text.parse().ok(),
            },
        }
    }

    fn text(&self, value: f64) -> String {
        let value = match self.kind {
            ParamKind::Bool => (value != 0.0).to_string(),
            ParamKind::Span(..) => Span::from_nanos(value as u64).to_string(),
            ParamKind::Bytes(..) => format_bytes(value as u64),
            ParamKind::Rate(..) => Rate::from_bytes_per_sec(value).to_string(),
            _ => value.to_string(),
        };
        format!("{}={value}", self.key)
    }

    fn record(&self) -> abi::Param {
        let (kind, low, high) = self.range().expect("only numbers are declared");
        // Addresses in the module's memory, which has 32 bits.
        let [key, help, source] = self.texts.each_ref().map(|text| text.as_ptr() as usize as u64);
        abi::Param {
            key_and_help: key | help << 32,
            kind_and_source: u64::from(kind) | source << 32,
            default: self.default,
            low,
            high,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use cellpace_base::{ByteCount, Window, params};

    params! {
        /// Parameters of every kind.
        struct EveryKind {
            /// A share
            share: f64 = "50%" in 0.0..=1.0, from "a test";
            /// A number of packets
            packets: u64 = "3" in 1..=9, from "a test";
            /// A condition
            on: bool = "true", from "a test";
            /// A span
            every: Span = "5ms" in Span::from_millis(1)..=Span::from_secs(1), from "a test";
            /// A size
            size: ByteCount = "1500B" in 1..=1_000_000, from "a test";
            /// A rate
            rate: Option<Rate> = "" in Rate::from_bps(8)..=Rate::from_bps(1_000_000_000), from "a test";
            /// What has no number
            window: Window = "10pkts", from "a test";
        }
    }

    #[test]
    fn values_go_to_numbers_and_back() {
        let declared = Declared::of::<EveryKind>();
        let defaults: Vec<f64> = declared.params.iter().map(|param| param.default).collect();
        assert_eq!(defaults[..5], [0.5, 3.0, 1.0, 5e6, 1500.0]);
        assert!(defaults[5].is_nan() && defaults.len() == 6);
        let text = declared.text(&[0.25, 7.0, 0.0, 2e7, 2000.0, 125_000.0]);
        assert_eq!(text, "share=0.25,packets=7,on=false,every=20ms,size=2kB,rate=1mbit");
        let params = EveryKind::parse("test", &text).unwrap();
        assert_eq!((params.share, params.packets, params.on), (0.25, 7, false));
        assert_eq!((params.every, params.size.0), (Span::from_millis(20), 2000));
        assert_eq!(params.rate, Some(Rate::from_mbps(1.0)));
        assert_eq!(params.window, Window::Packets(10));
    }
}
