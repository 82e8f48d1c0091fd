//! Vivace's parameters.

use cellpace_base::{params, words};

use crate::Rate;

params! {
    /// The parameters of PCC Vivace.
    pub(crate) struct VivaceParams {
        /// Whether a growing RTT counts against a rate, or loss alone
        flavour: Flavour = "latency", from "PCC Vivace (NSDI'18) section 4";
    }
    expert {
        /// Share of the rate by which the two rates of a pair differ from it
        epsilon: f64 = "0.05" in 0.001..=0.5, from "Vivace section 5", logarithmic;
        /// Pairs of intervals behind each step
        pairs: u64 = "2" in 1..=4, from "PCC-Uspace, branch NSDI-2018; the paper has 1";
        /// Step per unit of the utility's gradient
        theta0: f64 = "1" in 1e-3..=100.0, unit "Mbit/s", from "Vivace section 5", logarithmic;
        /// Bound of a step as a share of the rate
        omega0: f64 = "0.05" in 1e-3..=1.0, from "Vivace section 5", logarithmic;
        /// What each step at the bound adds to the bound
        omega_step: f64 = "0.1" in 0.0..=1.0, from "Vivace section 5";
        /// Power of the rate that is its gain
        exponent: f64 = "0.9" in 0.1..=0.999, from "Vivace section 4";
        /// Weight of the RTT's growth
        latency_weight: f64 = "900" in 0.0..=1e6, from "Vivace section 4";
        /// Weight of loss
        loss_weight: f64 = "11.35" in 0.0..=1e6, from "Vivace section 4";
        /// Growth of the RTT that counts as none
        gradient_floor: f64 = "0.01" in 0.0..=1.0, unit "s/s", from "Vivace section 4";
        /// Smallest rate
        min_rate: Rate = "500kbit" in Rate::from_bps(1_000)..=Rate::from_bps(1_000_000_000),
            from "PCC-Uspace, branch master", logarithmic;
    }
}

words! {
    /// What lowers the utility of a rate.
    pub(crate) enum Flavour {
        Latency = "latency",
        Loss = "loss",
    }
}
