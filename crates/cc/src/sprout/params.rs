//! Sprout's parameters.

use cellpace_base::{Args, Kind, Param};

use crate::{PeerCost, Span};

use super::model::{Grid, Model, ModelSpec};

pub(super) static PARAMS: &[Param] = &[
    Param {
        key: "tick",
        kind: Kind::Span(Span::from_millis(5), Span::from_millis(100)),
        default: "20ms",
        unit: "",
        help: "time step of the inference, of the forecast and of the reports",
        source: "Sprout (NSDI'13) section 3",
    },
    Param {
        key: "max_rate",
        kind: Kind::Text,
        default: "1000",
        unit: "pkt/s",
        help: "the fastest link of the model, 100 to 16000 (a flow gets no more: 1000 are 12 Mbit/s), \
               or auto: start at 1000 and double when the estimate leans on it",
        source: "Sprout section 3.1 has 1000 (11.5 Mbit/s); auto is ours",
    },
    Param {
        key: "sigma",
        kind: Kind::Number(1.0, 10_000.0),
        default: "200",
        unit: "pkt/s/sqrt(s)",
        help: "how fast the link's rate wanders (Brownian motion)",
        source: "Sprout section 3.1",
    },
    Param {
        key: "escape",
        kind: Kind::Number(0.001, 100.0),
        default: "1",
        unit: "1/s",
        help: "rate at which outages end",
        source: "Sprout section 3.1, lambda_z",
    },
    Param {
        key: "confidence",
        kind: Kind::Fraction,
        default: "0.05",
        unit: "",
        help: "risk that less is delivered than forecast, 0.1% to 99%; 25% and 50% trade delay for \
               throughput",
        source: "Sprout sections 3.3 and 5.5",
    },
    Param {
        key: "look_ahead",
        kind: Kind::Integer(1, 7),
        default: "5",
        unit: "ticks",
        help: "what is sent now should have left the queue after this many ticks",
        source: "Sprout section 3.5: 100 ms",
    },
    Param {
        key: "observation",
        kind: Kind::Word(&["censored", "exact"]),
        default: "censored",
        unit: "",
        help: "take what arrives in ticks in which the sender paused as a lower bound of the rate, or \
               as the rate: then what the sender leaves out makes it send less",
        source: "censored is ours; exact is the original program",
    },
    Param {
        key: "outage_row",
        kind: Kind::Word(&["original", "normalised"]),
        default: "original",
        unit: "",
        help: "whether staying in an outage is as unlikely as in the original program, whose row of \
               the matrix sums to 0.55, or as likely as in the paper",
        source: "the original program; Sprout section 3.1",
    },
    Param {
        key: "joint",
        kind: Kind::Bool,
        default: "false",
        unit: "",
        help: "forecast along paths of the rate, a little more cautiously, in place of ticks that are \
               independent of each other",
        source: "ours; independent ticks are the original program's",
    },
];

/// The parameters, read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Config {
    pub(super) tick: Span,
    pub(super) model: ModelSpec,
    /// Whether the grid may grow.
    pub(super) grows: bool,
    pub(super) confidence: f64,
    pub(super) look_ahead: usize,
    pub(super) censored: bool,
}

impl Config {
    pub(super) fn new(args: &Args) -> Self {
        let tick = args.span("tick");
        let max_rate = MaxRate::read(args.text("max_rate")).unwrap_or(MaxRate::Auto);
        let model = ModelSpec {
            tick,
            max_rate: match max_rate {
                MaxRate::Auto => Grid::SMALLEST_AUTO,
                MaxRate::Fixed(rate) => rate,
            },
            sigma: args.number("sigma"),
            escape: args.number("escape"),
            normalised_outage: args.word("outage_row") == "normalised",
            joint: args.flag("joint"),
        };
        Self {
            tick,
            model,
            grows: max_rate == MaxRate::Auto,
            confidence: args.number("confidence"),
            look_ahead: args.integer("look_ahead") as usize,
            censored: args.word("observation") == "censored",
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum MaxRate {
    Auto,
    /// Packets per second.
    Fixed(u32),
}

impl MaxRate {
    fn read(text: Option<&str>) -> Option<Self> {
        match text? {
            "auto" => Some(Self::Auto),
            number => {
                let rate: u32 = number.parse().ok()?;
                (100..=Grid::LARGEST).contains(&rate).then_some(Self::Fixed(rate))
            }
        }
    }
}

/// What the table of parameters cannot say.
pub(super) fn check(args: &Args) -> Result<(), String> {
    if MaxRate::read(args.text("max_rate")).is_none() {
        return Err(format!(
            "max_rate={} should be auto or 100 to {} packets per second",
            args.text("max_rate").unwrap_or(""),
            Grid::LARGEST
        ));
    }
    let confidence = args.number("confidence");
    if !(0.001..=0.99).contains(&confidence) {
        return Err(format!("confidence={confidence} should be 0.1% to 99%"));
    }
    Ok(())
}

/// What a receiver half costs that a peer asks for: the time and memory are this side's, so its
/// tables are of ordinary size. The largest that are allowed are those of
/// `max_rate=2000,sigma=400,joint=true`.
pub(super) fn peer_cost(args: &Args) -> Result<PeerCost, String> {
    /// In packets per second: 24 Mbit/s.
    const MAX_RATE: u32 = 2000;
    const MAX_SIGMA: f64 = 400.0;
    const MIN_TICK: Span = Span::from_millis(20);
    /// Packets that the fastest link delivers in a tick.
    const MAX_PER_TICK: f64 = 40.0;
    let Config { model, grows, .. } = Config::new(args);
    if model == Config::new(&Args::defaults(PARAMS)).model {
        // All sizes of the automatic grid are computed once, and then there.
        return Ok(PeerCost::Shared);
    }
    if grows {
        let others = "tick, sigma, escape, outage_row and joint";
        return Err(format!("max_rate=auto goes with the defaults of {others}"));
    }
    if model.max_rate > MAX_RATE {
        return Err(format!("max_rate={} should be {MAX_RATE} or less, or auto", model.max_rate));
    }
    let per_tick = f64::from(model.max_rate) * model.tick.as_secs_f64();
    if model.tick < MIN_TICK || per_tick > MAX_PER_TICK {
        return Err(format!(
            "tick={} should be {MIN_TICK} or more, and max_rate times tick {MAX_PER_TICK} or less",
            model.tick
        ));
    }
    if model.sigma > MAX_SIGMA {
        return Err(format!("sigma={} should be {MAX_SIGMA} or less", model.sigma));
    }
    Model::peer_cost(&model)
}
