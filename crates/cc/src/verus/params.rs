//! The parameters of docs/spec/verus.md 4, and the choices between paper and code.

use cellpace_base::{Args, Kind, Param, Span};

use super::Verus;
use super::profile::{Extension, FitSettings, MAX_WINDOW, Repair};
use super::slow_start::{CreditRule, ExitRule, SlowStart};
use crate::ControllerInfo;

/// The registry's entry.
pub const INFO: ControllerInfo = ControllerInfo {
    name: "verus",
    summary: "learns delay as a function of the window and steers by it in 5 ms epochs",
    params: PARAMS,
    check,
    load: None,
    build: |args, setup| Box::new(Verus::new(Settings::new(args, setup.mss), &setup)),
    receiver: None,
};

static PARAMS: &[Param] = &[
    number("r", 1.0, 1000.0, "6", "delay over base delay above which the set-point falls", EQ4),
    span("epoch", MS, SEC, "5ms", "time between two decisions", "Verus, section 5.3"),
    span("delta1", Span::ZERO, SEC, "1ms", "fall of the set-point when delay rises", EQ4),
    span("delta2", Span::ZERO, SEC, "2ms", "rise of the set-point, and fall above r", EQ4),
    fraction("alpha", "0.2", "weight of the old smoothed maximum delay", "Verus, eq. 2"),
    fraction("ewma", "0.875", "weight of the old value of profile points and mean delay", CODE),
    fraction("m", "0.7", "what a loss leaves of the window", "Verus, eq. 6; value: code"),
    span("refit", MS, HOUR, "1s", "time between two fits of the profile", "Verus, section 5.3"),
    number("rho", -9.0, 9.0, "2", "decimal logarithm of the curve's stiffness", CODE),
    integer("windows_per_node", 1, 1000, "15", "windows per node of the curve", CODE),
    integer("max_nodes", 5, 1024, "128", "the most nodes of the curve", OURS),
    word(
        "nodes",
        &["fresh", "sticky"],
        "whether each fit takes windows_per_node afresh or what an earlier fit lowered it to",
        "sticky: code",
    ),
    word(
        "monotone",
        &["low", "high", "off"],
        "make the curve rise: highest rising curve below it, running maximum, or not at all",
        "cellpace; off: code",
    ),
    word(
        "extend",
        &["bdp", "mean"],
        "how a rising curve goes on: a base delay per largest window, or with its own slope",
        OURS,
    ),
    flag("floor", "true", "let the curve answer no less than the base delay", "false: code"),
    Param {
        key: "age",
        kind: Kind::Span(MS, HOUR),
        default: "",
        unit: "",
        help: "drop points of the profile not visited for so long; unset: never",
        source: OURS,
    },
    flag("cut_on_wait", "false", "cut the window when a TCP below refuses data, too", "ALCC, 3.2"),
    flag("update_profile", "true", "false: keep the first curve", "Verus, figure 15"),
    word("law", &["code", "paper"], "eq. 4 clamped and draining, or as printed", "Verus, eq. 4"),
    flag("epochs_in_loss", "true", "let epochs set the window in the loss phase", "false: paper"),
    word(
        "slow_start_exit",
        &["min", "absolute", "ratio"],
        "which delay ends slow start: the smaller, ss_exit_delay, or ss_exit_ratio",
        "absolute: code; ratio: Verus, section 5.1",
    ),
    span("ss_exit_delay", MS, HOUR, "500ms", "RTT that ends slow start", CODE),
    number(
        "ss_exit_ratio",
        1.0,
        1000.0,
        "15",
        "RTT over base delay that ends slow start",
        "Verus, section 5.1",
    ),
    integer(
        "ss_exit_loss",
        0,
        MAX_WINDOW as u64,
        "20",
        "packets above which a loss ends slow start",
        "code; 0: Verus, section 5.1",
    ),
    integer(
        "ss_exit_packets",
        0,
        u64::MAX,
        "0",
        "packets acked that end slow start; 0: none",
        ALCC,
    ),
    fraction(
        "ceiling_loss",
        "0.1",
        "share of packets lost above which losses limit the window; 1: never",
        OURS,
    ),
    fraction("ceiling_growth", "0.1", "rise of that limit per RTT", OURS),
    word("credit", &["alcc", "code"], "whether slow start counts unspent credit", "ALCC; code"),
    word(
        "gap",
        &["fixed", "safe"],
        "a lost packet is given up after gap_expiry, or gap_ratio delays if that is longer",
        "fixed: code; safe: Verus, section 5.2",
    ),
    span("gap_expiry", Span::ZERO, HOUR, "150ms", "time until a lost packet is given up", CODE),
    number(
        "gap_ratio",
        0.0,
        100.0,
        "3",
        "delays until a lost packet is given up",
        "Verus, section 5.2",
    ),
    word(
        "late",
        &["drop", "sample"],
        "what acks of packets that were in flight at a timeout are worth",
        "drop: code",
    ),
    span("bump", Span::ZERO, SEC, "10ms", "rise of the base delay when draining is futile", CODE),
    word(
        "bump_on",
        &["ack", "epoch"],
        "whether only an ack makes that rise, up to its RTT, or any epoch without limit",
        "cellpace; epoch: code",
    ),
    word("average", &["sample", "zero"], "where the mean delay starts", "zero: code"),
    number("rto_factor", 1.0, 100.0, "5", "timeout over last RTT", CODE),
    span("rto_min", MS, HOUR, "150ms", "shortest timeout", CODE),
    span("rto_max", MS, HOUR, "1s", "longest timeout", CODE),
    span("rto_initial", MS, HOUR, "1s", "timeout before the first ack", CODE),
    Param {
        key: "max_window",
        kind: Kind::Window,
        default: "39999pkts",
        unit: "",
        help: "the largest window, at most 39999 packets",
        source: CODE,
    },
];

const EQ4: &str = "Verus, eq. 4";
const CODE: &str = "Verus, original code";
const ALCC: &str = "Verus of ALCC; there 5000";
const OURS: &str = "cellpace";

const MS: Span = Span::from_millis(1);
const SEC: Span = Span::from_secs(1);
const HOUR: Span = Span::from_secs(3600);

type Text = &'static str;

const fn number(key: Text, low: f64, high: f64, default: Text, help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Number(low, high), default, unit: "", help, source }
}

const fn integer(key: Text, low: u64, high: u64, default: Text, help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Integer(low, high), default, unit: "", help, source }
}

const fn span(key: Text, low: Span, high: Span, default: Text, help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Span(low, high), default, unit: "", help, source }
}

const fn fraction(key: Text, default: Text, help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Fraction, default, unit: "", help, source }
}

const fn flag(key: Text, default: Text, help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Bool, default, unit: "", help, source }
}

/// The first word is the default.
const fn word(key: Text, words: &'static [Text], help: Text, source: Text) -> Param {
    Param { key, kind: Kind::Word(words), default: words[0], unit: "", help, source }
}

fn check(args: &Args) -> Result<(), String> {
    let (min, max) = (args.span("rto_min"), args.span("rto_max"));
    if min > max {
        return Err(format!("rto_min={min} is above rto_max={max}"));
    }
    Ok(())
}

/// The parameters, in the units of the formulas: ms and packets.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) r: f64,
    pub(super) epoch: Span,
    pub(super) delta1: f64,
    pub(super) delta2: f64,
    pub(super) alpha: f64,
    pub(super) m: f64,
    pub(super) refit: Span,
    pub(super) fit: FitSettings,
    pub(super) floor: bool,
    pub(super) update_profile: bool,
    pub(super) law: Law,
    pub(super) epochs_in_loss: bool,
    pub(super) slow_start: SlowStart,
    pub(super) exit_packets: Option<u64>,
    pub(super) gap_expiry: Span,
    /// Zero where the delay does not matter.
    pub(super) gap_ratio: f64,
    /// Whether acks of packets that were in flight at a timeout are samples.
    pub(super) late_samples: bool,
    /// Share of packets lost above which there is a ceiling.
    pub(super) ceiling_loss: f64,
    /// Share of itself by which the ceiling rises in an RTT.
    pub(super) ceiling_growth: f64,
    pub(super) bump: f64,
    pub(super) bump_on: BumpOn,
    pub(super) average_from_zero: bool,
    pub(super) rto_factor: f64,
    pub(super) rto_min: Span,
    pub(super) rto_max: Span,
    pub(super) rto_initial: Span,
    pub(super) max_window: f64,
    pub(super) cut_on_wait: bool,
}

/// Whose version of Eq. 4 moves the set-point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Law {
    Code,
    Paper,
}

/// What makes the base delay rise when draining is futile.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BumpOn {
    Ack,
    Epoch,
}

impl Settings {
    pub(super) fn new(args: &Args, mss: u64) -> Self {
        let millis = |key| args.span(key).as_millis_f64();
        let max_window = args.window("max_window").bytes(mss) / mss.max(1);
        let max_window = max_window.clamp(1, u64::from(MAX_WINDOW)) as f64;
        Self {
            r: args.number("r"),
            epoch: args.span("epoch"),
            delta1: millis("delta1"),
            delta2: millis("delta2"),
            alpha: args.number("alpha"),
            m: args.number("m"),
            refit: args.span("refit"),
            fit: FitSettings {
                windows_per_node: args.integer("windows_per_node") as u32,
                max_nodes: args.integer("max_nodes") as u32,
                sticky: args.word("nodes") == "sticky",
                rho: args.number("rho"),
                repair: match args.word("monotone") {
                    "high" => Repair::High,
                    "off" => Repair::Off,
                    _ => Repair::Low,
                },
                extension: match args.word("extend") {
                    "mean" => Extension::Mean,
                    _ => Extension::Bdp,
                },
                age: args.optional_span("age"),
                ewma: args.number("ewma"),
            },
            floor: args.flag("floor"),
            cut_on_wait: args.flag("cut_on_wait"),
            update_profile: args.flag("update_profile"),
            law: if args.word("law") == "paper" { Law::Paper } else { Law::Code },
            epochs_in_loss: args.flag("epochs_in_loss"),
            slow_start: SlowStart {
                exit_rule: match args.word("slow_start_exit") {
                    "absolute" => ExitRule::Absolute,
                    "ratio" => ExitRule::Ratio,
                    _ => ExitRule::Min,
                },
                exit_delay: millis("ss_exit_delay"),
                exit_ratio: args.number("ss_exit_ratio"),
                exit_loss: args.number("ss_exit_loss"),
                credit: match args.word("credit") {
                    "code" => CreditRule::Code,
                    _ => CreditRule::Alcc,
                },
                m: args.number("m"),
                max_window,
            },
            exit_packets: Some(args.integer("ss_exit_packets")).filter(|packets| *packets > 0),
            gap_expiry: args.span("gap_expiry"),
            gap_ratio: if args.word("gap") == "safe" { args.number("gap_ratio") } else { 0.0 },
            ceiling_loss: args.number("ceiling_loss"),
            ceiling_growth: args.number("ceiling_growth"),
            late_samples: args.word("late") == "sample",
            bump: millis("bump"),
            bump_on: if args.word("bump_on") == "epoch" { BumpOn::Epoch } else { BumpOn::Ack },
            average_from_zero: args.word("average") == "zero",
            rto_factor: args.number("rto_factor"),
            rto_min: args.span("rto_min"),
            rto_max: args.span("rto_max"),
            rto_initial: args.span("rto_initial"),
            max_window,
        }
    }
}
