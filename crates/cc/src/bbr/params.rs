//! BBR's parameters.

use cellpace_base::{Args, Kind, Param};

use crate::Span;

pub(super) static PARAMS: &[Param] = &[
    Param {
        key: "init_cwnd",
        kind: Kind::Window,
        default: "10pkts",
        unit: "",
        help: "initial window",
        source: "RFC 6928; Linux 4.9",
    },
    Param {
        key: "min_cwnd",
        kind: Kind::Window,
        default: "4pkts",
        unit: "",
        help: "smallest window, and the window of PROBE_RTT",
        source: "BBR (ACM Queue 2016); Linux 4.9",
    },
    Param {
        key: "startup_gain",
        kind: Kind::Number(1.1, 10.0),
        default: "2.885",
        unit: "",
        help: "pacing and window gain of STARTUP, 2/ln 2; DRAIN paces with its inverse",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "cwnd_gain",
        kind: Kind::Number(1.0, 10.0),
        default: "2",
        unit: "",
        help: "window of PROBE_BW in bandwidth-delay products",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "up_gain",
        kind: Kind::Number(1.0, 10.0),
        default: "1.25",
        unit: "",
        help: "pacing gain of the phase of PROBE_BW that looks for more bandwidth",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "down_gain",
        kind: Kind::Number(0.05, 1.0),
        default: "0.75",
        unit: "",
        help: "pacing gain of the phase that empties the queue again",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "bw_window",
        kind: Kind::Integer(1, 1000),
        default: "10",
        unit: "rounds",
        help: "window of the maximum delivery rate",
        source: "Linux 4.9 (cycle length + 2)",
    },
    Param {
        key: "rtprop_window",
        kind: Kind::Span(Span::from_millis(100), Span::from_secs(3600)),
        default: "10s",
        unit: "",
        help: "how long a minimum RTT is believed",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "probe_rtt",
        kind: Kind::Span(Span::from_millis(1), Span::from_secs(10)),
        default: "200ms",
        unit: "",
        help: "how long PROBE_RTT keeps the pipe nearly empty",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "full_growth",
        kind: Kind::Number(1.01, 10.0),
        default: "1.25",
        unit: "",
        help: "bandwidth growth per round below which the pipe seems full",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "full_rounds",
        kind: Kind::Integer(1, 100),
        default: "3",
        unit: "rounds",
        help: "rounds without that growth before STARTUP ends",
        source: "BBR (ACM Queue 2016)",
    },
    Param {
        key: "quanta",
        kind: Kind::Integer(0, 100),
        default: "3",
        unit: "",
        help: "sending quanta added to the window for delayed and bundled acks",
        source: "Linux 4.9",
    },
    Param {
        key: "policer",
        kind: Kind::Bool,
        default: "true",
        unit: "",
        help: "recognise a policer by steady loss and pace at the rate it lets through",
        source: "Linux 4.9 (long-term bandwidth)",
    },
    Param {
        key: "aggregation",
        kind: Kind::Bool,
        default: "false",
        unit: "",
        help: "widen the window by what arrives at once beyond the bandwidth",
        source: "Linux 5.1",
    },
    Param {
        key: "margin",
        kind: Kind::Number(0.0, 0.5),
        default: "0",
        unit: "",
        help: "fraction by which the pacing rate stays below the bandwidth (Linux has 0.01)",
        source: "Linux, later than 4.9",
    },
    Param {
        key: "phase_quanta",
        kind: Kind::Bool,
        default: "false",
        unit: "",
        help: "count the quanta of the window also in the flight that ends DRAIN and the phases",
        source: "Linux 4.9",
    },
];

/// The parameters as the algorithm uses them, windows in packets.
#[derive(Debug, Clone)]
pub(super) struct Config {
    pub(super) init_cwnd: u64,
    pub(super) min_cwnd: u64,
    pub(super) startup_gain: f64,
    pub(super) cwnd_gain: f64,
    /// One pacing gain per phase of PROBE_BW.
    pub(super) cycle: [f64; 8],
    pub(super) bw_window: u64,
    pub(super) rtprop_window: Span,
    pub(super) probe_rtt: Span,
    pub(super) full_growth: f64,
    pub(super) full_rounds: u64,
    pub(super) quanta: u64,
    pub(super) policer: bool,
    pub(super) aggregation: bool,
    pub(super) margin: f64,
    pub(super) phase_quanta: bool,
}

impl Config {
    pub(super) fn new(args: &Args, mss: u64) -> Self {
        let packets =
            |key: &str| (args.window(key).bytes(mss) / mss.max(1)).clamp(1, super::Bbr::MAX_WINDOW);
        let (up, down) = (args.number("up_gain"), args.number("down_gain"));
        Self {
            init_cwnd: packets("init_cwnd"),
            min_cwnd: packets("min_cwnd"),
            startup_gain: args.number("startup_gain"),
            cwnd_gain: args.number("cwnd_gain"),
            cycle: [up, down, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0],
            bw_window: args.integer("bw_window"),
            rtprop_window: args.span("rtprop_window"),
            probe_rtt: args.span("probe_rtt"),
            full_growth: args.number("full_growth"),
            full_rounds: args.integer("full_rounds"),
            quanta: args.integer("quanta"),
            policer: args.flag("policer"),
            aggregation: args.flag("aggregation"),
            margin: args.number("margin"),
            phase_quanta: args.flag("phase_quanta"),
        }
    }
}
