//! The parameters of docs/spec/verus.md 4, and the choices between paper and code.

use cellpace_base::{Span, Window, params, words};

use super::profile::{Extension, FitSettings, MAX_WINDOW, Repair};
use super::slow_start::{CreditRule, ExitRule, VerusSlowStart};

const MS: Span = Span::from_millis(1);
const SEC: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3600);

const EQ4: &str = "Verus, eq. 4";
const CODE: &str = "Verus, original code";
const OURS: &str = "cellpace";

params! {
    /// Verus' parameters.
    pub(crate) struct VerusParams {
        /// Delay over base delay above which the set-point falls (R)
        r: f64 = "2" in 1.0..=1000.0, from "Verus, eq. 4; 2, 4 and 6 there", logarithmic;
        /// Time between two decisions
        epoch: Span = "5ms" in MS..=SEC, from "Verus, section 5.3", logarithmic;
        /// Fall of the set-point when delay rises
        delta1: Span = "1ms" in Span::ZERO..=SEC, from EQ4;
        /// Rise of the set-point, and fall above r
        delta2: Span = "2ms" in Span::ZERO..=SEC, from EQ4;
        /// What a loss leaves of the window (M)
        loss_factor: f64 = "0.7" in 0.0..=1.0, from "Verus, eq. 6; value: code";
        /// The largest window, at most 39999 packets
        max_window: Window = "39999pkts", from CODE, logarithmic;
    }
    expert {
        /// Weight of the old smoothed maximum delay
        alpha: f64 = "0.2" in 0.0..=1.0, from "Verus, eq. 2";
        /// Time between two fits of the profile
        refit: Span = "1s" in MS..=HOUR, from "Verus, section 5.3", logarithmic;
        /// Decimal logarithm of the curve's stiffness
        rho: f64 = "2" in -9.0..=9.0, from CODE;
        /// Whether each fit takes 15 windows per node afresh or what an earlier one lowered it to
        nodes: NodeRule = "fresh", from "sticky: code";
        /// Make the curve rise: highest rising curve below it, running maximum, or not at all
        monotone: Repair = "low", from "cellpace; off: code";
        /// How a rising curve goes on: a base delay per largest window, or with its own slope
        extend: Extension = "bdp", from OURS;
        /// Let the curve answer no less than the base delay
        floor: bool = "true", from "false: code";
        /// Drop points of the profile not visited for this long; unset: never
        age: Option<Span> = "" in MS..=HOUR, from OURS;
        /// Cut the window when a TCP below refuses data, too
        cut_on_wait: bool = "false", from "ALCC, 3.2";
        /// false: keep the first curve
        update_profile: bool = "true", from "Verus, figure 15";
        /// Eq. 4 clamped and draining, or as printed
        law: SetPointRule = "code", from EQ4;
        /// Let epochs set the window in the loss phase
        epochs_in_loss: bool = "true", from "false: paper";
        /// Which delay ends slow start: 500 ms, 15 base delays, or the smaller
        slow_start_exit: ExitRule = "min", from "absolute: code; ratio: Verus, section 5.1";
        /// Packets above which a loss ends slow start
        ss_exit_loss: u64 = "20" in 0..=39_999, from "code; 0: Verus, section 5.1";
        /// Packets acked that end slow start; 0: none
        ss_exit_packets: u64 = "0" in 0..=u64::MAX, from "Verus of ALCC; there 5000";
        /// Share of packets lost above which losses limit the window; 1: never
        ceiling_loss: f64 = "0.1" in 0.0..=1.0, from OURS;
        /// Whether slow start counts unspent credit
        credit: CreditRule = "alcc", from "ALCC; code";
        /// A lost packet is given up after 150 ms, or 3 delays if that is longer
        gap: GapRule = "fixed", from "fixed: code; safe: Verus, section 5.2";
        /// What acks of packets that were in flight at a timeout are worth
        late: LateAcks = "drop", from "drop: code";
        /// Whether only an ack raises the base delay when draining is futile, up to its RTT, or
        /// any epoch without limit
        bump_on: BumpOn = "ack", from "cellpace; epoch: code";
        /// Where the mean delay starts
        average: AverageStart = "sample", from "zero: code";
        /// Shortest timeout
        rto_min: Span = "150ms" in MS..=SEC, from CODE;
    }
    presets {
        original = "r=6,nodes=sticky,monotone=off,extend=mean,floor=false,slow_start_exit=absolute,\
                    ceiling_loss=1,credit=code,bump_on=epoch,average=zero",
            "as the original program decides", from "github.com/yzaki/verus";
        paper = "r=6,law=paper,epochs_in_loss=false,slow_start_exit=ratio,ss_exit_loss=0,gap=safe,\
                 ceiling_loss=1",
            "as printed", from "Verus (SIGCOMM'15), sections 4 and 5";
    }
}

words! {
    /// What windows per node a fit of the profile begins with.
    pub(crate) enum NodeRule {
        /// 15.
        Fresh = "fresh",
        /// What an earlier fit lowered it to.
        Sticky = "sticky",
    }
}

words! {
    /// Whose version of Eq. 4 moves the set-point.
    pub(crate) enum SetPointRule {
        Code = "code",
        Paper = "paper",
    }
}

words! {
    /// When a lost packet is given up.
    pub(crate) enum GapRule {
        /// After 150 ms.
        Fixed = "fixed",
        /// After three delays, if that is longer.
        Safe = "safe",
    }
}

words! {
    /// What acks of packets that were in flight at a timeout are worth.
    pub(crate) enum LateAcks {
        Drop = "drop",
        Sample = "sample",
    }
}

words! {
    /// What makes the base delay rise when draining is futile.
    pub(crate) enum BumpOn {
        Ack = "ack",
        Epoch = "epoch",
    }
}

words! {
    /// Where the mean delay starts.
    pub(crate) enum AverageStart {
        /// At the first sample.
        Sample = "sample",
        Zero = "zero",
    }
}

impl VerusParams {
    /// Returns the largest window in packets of `mss` bytes.
    fn max_packets(&self, mss: u64) -> f64 {
        let packets = self.max_window.bytes(mss) / mss.max(1);
        packets.clamp(1, u64::from(MAX_WINDOW)) as f64
    }

    /// Returns the rules of slow start.
    pub(super) fn slow_start(&self, mss: u64) -> VerusSlowStart {
        VerusSlowStart {
            exit_rule: self.slow_start_exit,
            exit_loss: self.ss_exit_loss as f64,
            credit: self.credit,
            m: self.loss_factor,
            max_window: self.max_packets(mss),
            ..VerusSlowStart::default()
        }
    }

    /// Returns how the profile's curve is made.
    pub(super) fn fit(&self) -> FitSettings {
        FitSettings {
            sticky: self.nodes == NodeRule::Sticky,
            rho: self.rho,
            repair: self.monotone,
            extension: self.extend,
            age: self.age,
        }
    }
}
