//! Sprout's parameters.

use cellpace_base::{ParamKind, ParamValue, QuantityError, params, words};

use crate::Span;

params! {
    /// Sprout's parameters.
    pub(crate) struct SproutParams {
        /// The fastest link of the model: a flow gets no more (1000 are 12 Mbit/s). auto: start at
        /// 1000 and double when the estimate leans on it
        max_rate: MaxRate = "1000", unit "pkt/s",
            from "Sprout section 3.1 has 1000 (11.5 Mbit/s); auto is ours", logarithmic;
        /// Risk that less is delivered than forecast; 25% and 50% trade delay for throughput
        confidence: f64 = "0.05" in 0.001..=0.99, from "Sprout sections 3.3 and 5.5", logarithmic;
        /// What is sent now should have left the queue after this many ticks
        look_ahead: u64 = "5" in 1..=7, unit "ticks", from "Sprout section 3.5: 100 ms";
        /// Time step of the inference, of the forecast and of the reports
        tick: Span = "20ms" in Span::from_millis(5)..=Span::from_millis(100),
            from "Sprout (NSDI'13) section 3";
    }
    expert {
        /// How fast the link's rate wanders (Brownian motion)
        sigma: f64 = "200" in 1.0..=10_000.0, unit "pkt/s/sqrt(s)", from "Sprout section 3.1",
            logarithmic;
        /// Rate at which outages end (lambda_z)
        escape: f64 = "1" in 0.001..=100.0, unit "1/s", from "Sprout section 3.1", logarithmic;
        /// Take what arrives in ticks in which the sender paused as a lower bound of the rate, or
        /// as the rate: then what the sender leaves out makes it send less
        observation: SproutObservation = "censored",
            from "censored is ours; exact is the original program";
        /// Whether staying in an outage is as unlikely as in the original program, whose row of
        /// the matrix sums to 0.55, or as likely as in the paper
        outage_row: OutageRow = "original", from "the original program; Sprout section 3.1";
        /// Forecast along paths of the rate, a little more cautiously, in place of ticks that are
        /// independent of each other
        joint: bool = "false", from "ours; independent ticks are the original program's";
    }
    presets {
        original = "observation=exact,outage_row=original",
            "takes what arrives for the rate, as the original program",
            from "the original program";
    }
}

words! {
    /// How arrivals in ticks in which the sender paused count for the rate.
    pub(crate) enum SproutObservation {
        Censored = "censored",
        Exact = "exact",
    }
}

words! {
    /// Whose row of the evolution matrix an outage has.
    pub(crate) enum OutageRow {
        Original = "original",
        Normalised = "normalised",
    }
}

/// The rate of the fastest link of the model.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum MaxRate {
    /// Grows with the estimate.
    Auto,
    /// Packets per second.
    Fixed(u32),
}

impl MaxRate {
    /// The largest rate that may be asked for: 192 Mbit/s in packets of 1500 bytes.
    pub(super) const MAX: u32 = 16_000;
    /// Where an automatic grid begins.
    pub(super) const MIN_AUTO: u32 = 1000;

    /// The rate to begin with, in packets per second.
    pub(super) fn first(self) -> u32 {
        match self {
            Self::Auto => Self::MIN_AUTO,
            Self::Fixed(rate) => rate,
        }
    }
}

impl ParamValue for MaxRate {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Text("auto, 100..16000")
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        if text == "auto" {
            return Ok(Some(Self::Auto));
        }
        let rate = text.parse().ok().filter(|rate| (100..=Self::MAX).contains(rate));
        Ok(rate.map(Self::Fixed))
    }
}
