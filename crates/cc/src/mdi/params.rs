//! The parameters, and how a model file becomes a table.

use std::sync::Arc;

use cellpace_base::{Args, Kind, Param, Span};
use cellpace_mdi::{
    Counts, Empty, Flat, Model, OutOfRange, Sampler, Shape, States, Table, built_in,
};

use crate::{ControllerSpec, ReadFile};

/// The controller's name in the registry.
pub(super) const NAME: &str = "mdi";

pub(super) static PARAMS: &[Param] = &[
    Param {
        key: "model",
        kind: Kind::Text,
        default: "",
        unit: "",
        help: "the file with the model, as `cellpace mdi train` writes it; unset: the built-in one",
        source: "MDI paper section 4",
    },
    Param {
        key: "users",
        kind: Kind::Word(&["all", "adapt", "1", "2", "3", "4", "5", "6", "7", "8"]),
        default: "all",
        unit: "",
        help: "what was learnt with all numbers of users together, with the one that fits, or with this",
        source: "MDI paper sections 6.3 to 6.5",
    },
    Param {
        key: "sampler",
        kind: Kind::Word(&["cdf", "closest"]),
        default: "cdf",
        unit: "",
        help: "draw windows by their counts, or the one whose probability is nearest to a draw",
        source: "2021 code; MDI paper section 3.2",
    },
    Param {
        key: "empty",
        kind: Kind::Word(&["near", "paper", "code"]),
        default: "near",
        unit: "",
        help: "for transitions never seen: nearest known state, smaller window only, any row above",
        source: "docs/spec/mdi.md 7; MDI paper section 5.1; 2021 code",
    },
    Param {
        key: "prune",
        kind: Kind::Fraction,
        default: "",
        unit: "",
        help: "leave out windows rarer than this; unset: 2 % for relative states, else 0",
        source: "2021 code",
    },
    Param {
        key: "oor_mult",
        kind: Kind::Number(0.0, 1.0),
        default: "0.975",
        unit: "",
        help: "factor on the window per epoch where the delay rises by more than the table knows",
        source: "2021 code, cellular links",
    },
    Param {
        key: "oor_add",
        kind: Kind::Number(0.0, 1000.0),
        default: "21",
        unit: "pkt",
        help: "added to the window where the delay falls by more than the table knows",
        source: "2021 code, rapidly changing links",
    },
    Param {
        key: "loss",
        kind: Kind::Word(&["cut", "ignore"]),
        default: "cut",
        unit: "",
        help: "what a loss does to the window, once per round trip",
        source: "docs/spec/mdi.md 8; MDI paper section 5",
    },
    Param {
        key: "m",
        kind: Kind::Number(0.1, 1.0),
        default: "0.7",
        unit: "",
        help: "what a loss leaves of the window at which the packet was sent",
        source: "2021 code; Eq. 6, Verus",
    },
    Param {
        key: "start",
        kind: Kind::Word(&["table", "slow"]),
        default: "table",
        unit: "",
        help: "walk from the first ack on, or only after a slow start like Verus' own",
        source: "MDI paper section 5; slow: Verus, section 5.1",
    },
];

/// What the flows of one controller string share.
pub(super) struct Learnt {
    /// With `users=adapt` one per number of users, else one.
    pub(super) tables: Vec<Arc<Table>>,
    /// Their numbers of users; 0: several or unknown.
    pub(super) users: Vec<u32>,
    pub(super) epoch: Span,
    /// As on the command line; may be empty.
    teacher: String,
}

impl Learnt {
    /// The same for all tables.
    pub(super) fn states(&self) -> &States {
        self.tables[0].states()
    }
}

/// Epochs shorter than this would be spent on nothing else.
const SHORTEST_EPOCH_US: u32 = 100;

pub(super) fn load(args: &mut Args, read: &mut ReadFile<'_>) -> Result<(), String> {
    let name = args.text("model").unwrap_or("the built-in model").to_owned();
    let wrong = |reason: &dyn std::fmt::Display| format!("{name}: {reason}");
    let model = match (args.text("model"), args.word("users")) {
        (Some(file), _) => Model::read(&read(file)?),
        (None, "all") => Model::read(built_in::VERUS),
        (None, _) => Model::read(built_in::VERUS_BY_USERS),
    };
    let model = model.map_err(|error| wrong(&error))?;
    if !(SHORTEST_EPOCH_US..=10_000_000).contains(&model.about.epoch_us) {
        return Err(wrong(&"its epoch is not between 100 us and 10 s"));
    }
    let relative = matches!(model.states, States::Relative(_));
    let shape = Shape {
        sampler: match args.word("sampler") {
            "closest" => Sampler::ClosestMatch,
            _ => Sampler::Cumulative,
        },
        prune: args.optional_number("prune").unwrap_or(if relative { 0.02 } else { 0.0 }),
    };
    let table = |counts: &Counts| Arc::new(Table::new(model.states, counts, shape));
    let (tables, users) = match args.word("users") {
        "all" => (vec![table(&model.combined())], vec![0]),
        // A model without parts has nothing to choose from.
        "adapt" if model.parts.is_empty() => (vec![table(&Counts::default())], vec![0]),
        "adapt" => model.parts.iter().map(|part| (table(&part.counts), part.users)).unzip(),
        number => {
            let part = model.parts.iter().find(|part| part.users.to_string() == number);
            let known: Vec<_> = model.parts.iter().map(|part| part.users.to_string()).collect();
            let part = part.ok_or_else(|| {
                wrong(&format!(
                    "nothing was learnt with {number} users, but with {}",
                    known.join(", ")
                ))
            })?;
            (vec![table(&part.counts)], vec![part.users])
        }
    };
    let epoch = Span::from_micros(u64::from(model.about.epoch_us));
    args.load(Arc::new(Learnt { tables, users, epoch, teacher: model.about.teacher }));
    Ok(())
}

/// Table and rules of an `mdi` string for other runtimes; `None` for any other controller, for
/// several tables among which the walk chooses, and for a slow start in front of it.
pub fn flat(spec: &ControllerSpec) -> Option<Flat> {
    flat_and_start(spec).and_then(|(flat, slow_start)| (!slow_start).then_some(flat))
}

/// The same for runtimes that have a slow start: also whether there is one in front of the walk.
pub fn flat_and_start(spec: &ControllerSpec) -> Option<(Flat, bool)> {
    if spec.info().name != NAME {
        return None;
    }
    let settings = Settings::new(spec.args());
    let [table] = &settings.learnt.tables[..] else { return None };
    let flat = Flat {
        table: Table::clone(table),
        epoch_us: u32::try_from(settings.learnt.epoch.as_nanos() / 1000).unwrap_or(u32::MAX),
        empty: settings.empty,
        out_of_range: settings.out_of_range,
        loss_factor: settings.loss_factor,
    };
    Some((flat, settings.slow_start))
}

/// From whom the table of an `mdi` string was learnt, as on the command line; empty where the model
/// does not say. `None` for any other controller.
pub fn teacher(spec: &ControllerSpec) -> Option<String> {
    let is_mdi = spec.info().name == NAME;
    is_mdi.then(|| Settings::new(spec.args()).learnt.teacher.clone())
}

pub(super) struct Settings {
    pub(super) learnt: Arc<Learnt>,
    pub(super) empty: Empty,
    pub(super) out_of_range: OutOfRange,
    /// What a loss leaves of the window, in 1/65536; 65536: all of it, and losses are ignored.
    pub(super) loss_factor: u32,
    pub(super) slow_start: bool,
}

impl Settings {
    pub(super) fn new(args: &Args) -> Self {
        Self {
            learnt: args.loaded(),
            empty: match args.word("empty") {
                "paper" => Empty::Paper,
                "code" => Empty::Code,
                _ => Empty::Near,
            },
            out_of_range: OutOfRange {
                factor: (args.number("oor_mult") * 65_536.0).round() as u32,
                add: (args.number("oor_add") * 65_536.0).round() as u32,
            },
            loss_factor: match args.word("loss") {
                "cut" => (args.number("m") * 65_536.0).round() as u32,
                _ => 65_536,
            },
            slow_start: args.word("start") == "slow",
        }
    }
}
