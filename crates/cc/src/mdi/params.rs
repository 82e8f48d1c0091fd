//! The parameters, and how a model file becomes a table.

use std::sync::Arc;

use cellpace_base::{ParamKind, ParamValue, QuantityError, Span, params, words};
use cellpace_mdi::{
    Counts, Empty, Flat, Model, OutOfRange, States, Table, TableShape, WindowSampler, built_in,
};

use crate::{MarkovWalk, ReadFile};

params! {
    /// MDI's parameters.
    pub(crate) struct MdiParams {
        /// The file with the model, as `cellpace mdi train` writes it; unset: the built-in one
        model: Option<String> = "", from "MDI paper section 4";
        /// What was learnt with all numbers of users together, with the one that fits, or with this
        users: UserTables = "all", from "MDI paper sections 6.3 to 6.5";
        /// Walk through the table from the first ack on, or only after a slow start like Verus' own
        start: MdiStart = "table", from "MDI paper section 5; slow: Verus, section 5.1";
    }
    expert {
        /// Draw windows by their counts, or the one whose probability is nearest to a draw
        sampler: SamplerChoice = "cdf", from "2021 code; MDI paper section 3.2";
        /// For transitions never seen: nearest known state, smaller window only, any row above
        empty: EmptyChoice = "near", from "docs/spec/mdi.md 7; MDI paper section 5.1; 2021 code";
        /// Leave out windows rarer than this; unset: 2 % for relative states, else 0
        prune: Option<f64> = "" in 0.0..=1.0, from "2021 code";
        /// What a loss does to the window, once per round trip
        loss: LossAnswer = "cut", from "docs/spec/mdi.md 8; MDI paper section 5";
        /// What a loss leaves of the window at which the packet was sent
        loss_factor: f64 = "0.7" in 0.1..=1.0, from "2021 code; Eq. 6, Verus";
    }
}

words! {
    /// How windows are drawn.
    pub(crate) enum SamplerChoice {
        Cumulative = "cdf",
        Closest = "closest",
    }
}

words! {
    /// Where to look when nothing was ever seen to lead from a state to a delay.
    pub(crate) enum EmptyChoice {
        Near = "near",
        Paper = "paper",
        Code = "code",
    }
}

words! {
    /// What a loss does to the window.
    pub(crate) enum LossAnswer {
        Cut = "cut",
        Ignore = "ignore",
    }
}

words! {
    /// How a flow begins.
    pub(crate) enum MdiStart {
        /// With the walk.
        Table = "table",
        /// With a slow start.
        Slow = "slow",
    }
}

/// Which parts of a model become tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum UserTables {
    /// All of them in one table.
    All,
    /// Each its own, and the walk chooses.
    Adapt,
    /// The one that was learnt with this number of users.
    Number(u32),
}

impl ParamValue for UserTables {
    type Bounds = ();

    fn kind((): &()) -> ParamKind {
        ParamKind::Word(&["all", "adapt", "1", "2", "3", "4", "5", "6", "7", "8"])
    }

    fn read(text: &str, (): &()) -> Result<Option<Self>, QuantityError> {
        Ok(match text {
            "all" => Some(Self::All),
            "adapt" => Some(Self::Adapt),
            number => number.parse().ok().filter(|users| (1..=8).contains(users)).map(Self::Number),
        })
    }
}

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

/// Shorter epochs would take all of the processor.
const MIN_EPOCH_US: u32 = 100;

impl MdiParams {
    /// Makes tables of the model.
    pub(super) fn load(&self, read: &mut ReadFile<'_>) -> Result<MdiRules, String> {
        let name = self.model.as_deref().unwrap_or("the built-in model");
        let wrong = |reason: &dyn std::fmt::Display| format!("{name}: {reason}");
        let model = match (&self.model, self.users) {
            (Some(file), _) => Model::from_bytes(&read(file)?),
            (None, UserTables::All) => Model::from_bytes(built_in::VERUS),
            (None, _) => Model::from_bytes(built_in::VERUS_BY_USERS),
        };
        let model = model.map_err(|error| wrong(&error))?;
        if !(MIN_EPOCH_US..=10_000_000).contains(&model.about.epoch_us) {
            return Err(wrong(&"its epoch is not between 100 us and 10 s"));
        }
        let (tables, users) = self.tables(&model).map_err(|reason| wrong(&reason))?;
        let epoch = Span::from_micros(u64::from(model.about.epoch_us));
        let learnt = Learnt { tables, users, epoch, teacher: model.about.teacher };
        Ok(MdiRules {
            learnt: Arc::new(learnt),
            empty: match self.empty {
                EmptyChoice::Near => Empty::Near,
                EmptyChoice::Paper => Empty::Paper,
                EmptyChoice::Code => Empty::Code,
            },
            loss_factor: match self.loss {
                LossAnswer::Cut => (self.loss_factor * 65_536.0).round() as u32,
                LossAnswer::Ignore => 65_536,
            },
            slow_start: self.start == MdiStart::Slow,
        })
    }

    /// Returns the tables and their numbers of users.
    fn tables(&self, model: &Model) -> Result<(Vec<Arc<Table>>, Vec<u32>), String> {
        let relative = matches!(model.states, States::Relative(_));
        let shape = TableShape {
            sampler: match self.sampler {
                SamplerChoice::Cumulative => WindowSampler::Cumulative,
                SamplerChoice::Closest => WindowSampler::ClosestMatch,
            },
            prune: self.prune.unwrap_or(if relative { 0.02 } else { 0.0 }),
        };
        let table = |counts: &Counts| Arc::new(Table::new(model.states, counts, shape));
        Ok(match self.users {
            UserTables::All => (vec![table(&model.combined())], vec![0]),
            // A model without parts has nothing to choose from.
            UserTables::Adapt if model.parts.is_empty() => {
                (vec![table(&Counts::default())], vec![0])
            }
            UserTables::Adapt => {
                model.parts.iter().map(|part| (table(&part.counts), part.users)).unzip()
            }
            UserTables::Number(users) => {
                let part = model.parts.iter().find(|part| part.users == users);
                let part = part.ok_or_else(|| {
                    let known = model.parts.iter().map(|part| part.users.to_string());
                    let known = known.collect::<Vec<_>>().join(", ");
                    format!("nothing was learnt with {users} users, but with {known}")
                })?;
                (vec![table(&part.counts)], vec![users])
            }
        })
    }
}

/// The tables of a model, and how the walk goes over them.
#[derive(Clone)]
pub(super) struct MdiRules {
    pub(super) learnt: Arc<Learnt>,
    pub(super) empty: Empty,
    /// What a loss leaves of the window, in 1/65536; 65536: all of it, and losses are ignored.
    pub(super) loss_factor: u32,
    pub(super) slow_start: bool,
}

impl MdiRules {
    /// Returns table and rules for other runtimes; `None` for several tables among which the walk
    /// chooses.
    pub(super) fn markov_walk(&self) -> Option<MarkovWalk> {
        let [table] = &self.learnt.tables[..] else { return None };
        let flat = Flat {
            table: Table::clone(table),
            epoch_us: u32::try_from(self.learnt.epoch.as_nanos() / 1000).unwrap_or(u32::MAX),
            empty: self.empty,
            out_of_range: OutOfRange::default(),
            loss_factor: self.loss_factor,
        };
        let teacher = self.learnt.teacher.clone();
        Some(MarkovWalk { flat, slow_start: self.slow_start, teacher })
    }
}
