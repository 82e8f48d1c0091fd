//! What the records of an experiment say: arms compared by a bootstrap over slots or clients.
//!
//! Connections of one slot, or of one client, are alike, so intervals over connections would be far too
//! narrow: whole slots or clients are drawn again, each with all its connections. The percentiles are
//! expanded for few of them (Hesterberg, "What Teachers Should Know About the Bootstrap", 2015, section
//! 5.3).

use std::collections::{BTreeMap, BTreeSet};

use cellpace_base::Random;
use serde::Serialize;
use statrs::distribution::{ContinuousCDF, Normal, StudentsT};

use crate::config::AssignBy;
use crate::figure::{Figure, FigureKind};
use crate::record::{ConnectionRecord, ExperimentRecords, ExperimentStart, GuardLook};

/// The schema's name and version. Fields are only added within a version.
pub const EXPERIMENT_RESULT_SCHEMA: &str = "cellpace.experiment.result/1";

/// How often slots or clients are drawn again.
const RESAMPLES: usize = 1000;
/// Slots or clients of each arm without which there is no interval.
const MIN_UNITS: usize = 4;
/// Levels of the distributions that are shown, in percent.
pub const LEVELS: [u8; 7] = [1, 5, 25, 50, 75, 95, 99];

/// Bounds of the groups of transfers, in bytes, with the group that ends at each.
const SIZES: [(f64, &str); 3] =
    [(1e5, "below 100 kB"), (1e6, "100 kB to 1 MB"), (f64::INFINITY, "1 MB and more")];
/// The same of the smallest RTT, in ms.
const BASE_RTTS: [(f64, &str); 4] = [
    (20.0, "below 20 ms"),
    (50.0, "20 to 50 ms"),
    (100.0, "50 to 100 ms"),
    (f64::INFINITY, "100 ms and more"),
];

/// What came out of an experiment.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ExperimentResult {
    /// [`EXPERIMENT_RESULT_SCHEMA`].
    pub schema: &'static str,
    /// The experiment's name.
    pub experiment: String,
    /// How connections were assigned.
    pub start: ExperimentStart,
    /// What is drawn again for the intervals: `slots` or `clients`.
    pub units: &'static str,
    /// How many there were of each arm; the control is the first.
    pub arms: Vec<ArmCounts>,
    /// Each other arm beside the control.
    pub comparisons: Vec<ArmComparison>,
    /// What the guard found.
    pub looks: Vec<GuardLook>,
}

/// How much an arm had.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct ArmCounts {
    /// Its name.
    pub arm: String,
    /// Connections that count.
    pub connections: usize,
    /// Clients' networks.
    pub clients: usize,
    /// Slots.
    pub slots: usize,
    /// Acknowledged bytes.
    pub acked_bytes: u64,
    /// Connections that are kept apart because they went on into another slot.
    pub crossed: usize,
    /// Those that began in a washout.
    pub washout: usize,
}

/// An arm beside the control.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmComparison {
    /// Its name.
    pub arm: String,
    /// All connections, and those of each size and base RTT.
    pub groups: Vec<GroupComparison>,
}

/// A group of connections of both arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct GroupComparison {
    /// `all`, `size` or `base RTT`.
    pub by: &'static str,
    /// Which.
    pub group: &'static str,
    /// Connections of the control and of the arm.
    pub connections: [usize; 2],
    /// The figures that there are.
    pub figures: Vec<FigureComparison>,
}

/// A figure of both arms.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct FigureComparison {
    /// Its name.
    pub figure: &'static str,
    /// Its unit.
    pub unit: &'static str,
    /// Of the control.
    pub control: ArmFigure,
    /// Of the arm.
    pub arm: ArmFigure,
    /// The arm's less the control's, in the unit.
    pub difference: Estimate,
    /// The arm's in relation to the control's, less 1, in percent; none of a control of 0.
    pub relative: Option<Estimate>,
}

/// A figure of an arm.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ArmFigure {
    /// The figure.
    pub value: f64,
    /// The connections' own values at [`LEVELS`]; empty of a share.
    pub levels: Vec<f64>,
}

/// An estimate with its interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The estimate.
    pub value: f64,
    /// The interval that holds the truth in 95 of 100 experiments; none of too few slots or clients.
    pub interval: Option<[f64; 2]>,
}

impl Estimate {
    /// Whether there is a difference, at 95 %.
    pub fn differs(&self) -> bool {
        self.interval.is_some_and(|[low, high]| low > 0.0 || high < 0.0)
    }
}

impl ExperimentResult {
    /// Compares the arms of an experiment.
    pub fn of(records: &ExperimentRecords) -> Self {
        let names: Vec<&str> = records.start.arms.iter().map(|arm| arm.name.as_str()).collect();
        let assign = records.start.assign;
        let compare = |arm: &&str| {
            let mut groups = groups(&records.connections, [names[0], arm], assign);
            groups[0].figures.extend(processor_time(records, [names[0], arm]));
            ArmComparison { arm: (*arm).to_owned(), groups }
        };
        Self {
            schema: EXPERIMENT_RESULT_SCHEMA,
            experiment: records.name.clone(),
            start: records.start.clone(),
            units: if assign == AssignBy::Time { "slots" } else { "clients" },
            arms: names.iter().map(|name| counts(&records.connections, name)).collect(),
            comparisons: names.iter().skip(1).map(compare).collect(),
            looks: records.looks.clone(),
        }
    }

    /// What one experiment cannot say, by the way in which it assigned; empty where it can.
    pub fn caveat(&self) -> &'static str {
        match self.start.assign {
            AssignBy::Time => "",
            AssignBy::Client => {
                "Clients of both arms may have shared bottlenecks: what one arm took there, the other lacked."
            }
            AssignBy::Connection => {
                "Connections of both arms shared bottlenecks, so this is what some connections gain beside \
                 others. It cannot tell what all would gain: that may be less, nothing, or the opposite. \
                 assign = \"time\" can."
            }
        }
    }
}

fn counts(records: &[ConnectionRecord], arm: &str) -> ArmCounts {
    let of_arm = || records.iter().filter(|record| record.arm == arm);
    let counted = || of_arm().filter(|record| record.counts());
    ArmCounts {
        arm: arm.to_owned(),
        connections: counted().count(),
        clients: counted().map(|record| &record.client).collect::<BTreeSet<_>>().len(),
        slots: counted().map(|record| record.slot).collect::<BTreeSet<_>>().len(),
        acked_bytes: counted().map(|record| record.acked_bytes).sum(),
        crossed: of_arm().filter(|record| record.crossed).count(),
        washout: of_arm().filter(|record| record.washout && !record.crossed).count(),
    }
}

/// All connections of both arms, and those of each size and base RTT.
fn groups(records: &[ConnectionRecord], arms: [&str; 2], assign: AssignBy) -> Vec<GroupComparison> {
    let both = arms.map(|arm| {
        records.iter().filter(|record| record.counts() && record.arm == arm).collect::<Vec<_>>()
    });
    let size = |record: &ConnectionRecord| Some(record.acked_bytes as f64);
    let base_rtt = |record: &ConnectionRecord| record.min_rtt_ms;
    let mut groups = vec![compare("all", "all", &both, assign)];
    groups.extend(split("size", &SIZES, &both, size, assign));
    groups.extend(split("base RTT", &BASE_RTTS, &both, base_rtt, assign));
    groups
}

/// Groups by a value of connections; those that one arm lacks are left out, and so is a division in
/// which all are in one group.
fn split(
    by: &'static str,
    bounds: &[(f64, &'static str)],
    both: &[Vec<&ConnectionRecord>; 2],
    value: impl Fn(&ConnectionRecord) -> Option<f64>,
    assign: AssignBy,
) -> Vec<GroupComparison> {
    let place = |record: &ConnectionRecord| {
        let value = value(record)?;
        bounds.iter().position(|(end, _)| value < *end)
    };
    let groups = bounds.iter().enumerate().map(|(at, (_, name))| {
        let group = both.each_ref().map(|records| {
            let of_group = records.iter().filter(|record| place(record) == Some(at));
            of_group.copied().collect::<Vec<_>>()
        });
        (*name, group)
    });
    let has_both = |group: &[Vec<&ConnectionRecord>; 2]| group.iter().all(|one| !one.is_empty());
    let groups: Vec<_> = groups.filter(|(_, group)| has_both(group)).collect();
    if groups.len() < 2 {
        return Vec::new();
    }
    groups.iter().map(|(name, group)| compare(by, name, group, assign)).collect()
}

fn compare(
    by: &'static str,
    group: &'static str,
    both: &[Vec<&ConnectionRecord>; 2],
    assign: AssignBy,
) -> GroupComparison {
    let figures = Figure::ALL.into_iter().filter_map(|figure| compare_figure(figure, both, assign));
    GroupComparison {
        by,
        group,
        connections: [both[0].len(), both[1].len()],
        figures: figures.collect(),
    }
}

fn compare_figure(
    figure: Figure,
    both: &[Vec<&ConnectionRecord>; 2],
    assign: AssignBy,
) -> Option<FigureComparison> {
    let mut units = Units::new(assign);
    let samples = both.each_ref().map(|records| Sample::of(figure, records, &mut units));
    compare_samples(figure, &samples, &units)
}

/// Of slots that ended, with the bytes of all connections that began in them: those that are kept apart took
/// time, too.
fn processor_time(records: &ExperimentRecords, arms: [&str; 2]) -> Option<FigureComparison> {
    let mut units = Units::new(AssignBy::Time);
    let samples = arms.map(|arm| {
        let slots = records.slots.iter().filter(|slot| slot.arm == arm);
        let mut sums: BTreeMap<u64, (f64, f64)> = BTreeMap::new();
        for slot in slots {
            sums.entry(slot.slot).or_default().0 += slot.processor_s;
        }
        for record in records.connections.iter().filter(|record| record.arm == arm) {
            if let Some(sum) = sums.get_mut(&record.slot) {
                sum.1 += (record.acked_bytes + record.received_bytes) as f64 * 1e-9;
            }
        }
        let parts = sums.into_iter().map(|(slot, sum)| (sum, units.numbered(slot.to_string())));
        Sample::new(Figure::ProcessorTime.kind(), parts.collect())
    });
    compare_samples(Figure::ProcessorTime, &samples, &units)
}

fn compare_samples(
    figure: Figure,
    [control, arm]: &[Sample; 2],
    units: &Units,
) -> Option<FigureComparison> {
    let (of_control, of_arm) = (control.figure(None)?, arm.figure(None)?);
    let pairs = resampled(control, arm, units);
    let interval = |of: &dyn Fn(&(f64, f64)) -> f64| {
        let level = tail(control.units.len().min(arm.units.len()))?;
        let mut values: Vec<f64> = pairs.iter().map(of).collect();
        // Without those that divide by 0 the others would look certain.
        if values.iter().any(|value| !value.is_finite()) {
            return None;
        }
        values.sort_by(f64::total_cmp);
        let at =
            |level: f64| values.get((level * (values.len().max(1) - 1) as f64).round() as usize);
        Some([*at(level)?, *at(1.0 - level)?])
    };
    let relative = |(control, arm): &(f64, f64)| (arm / control - 1.0) * 100.0;
    Some(FigureComparison {
        figure: figure.name(),
        unit: figure.unit(),
        control: ArmFigure { value: of_control, levels: control.levels() },
        arm: ArmFigure { value: of_arm, levels: arm.levels() },
        difference: Estimate {
            value: of_arm - of_control,
            interval: interval(&|(control, arm)| arm - control),
        },
        relative: (of_control > 0.0).then(|| Estimate {
            value: relative(&(of_control, of_arm)),
            interval: interval(&relative),
        }),
    })
}

/// The level at which a percentile of the bootstrap bounds an interval of 95 %; `None` of too few units.
fn tail(units: usize) -> Option<f64> {
    if units < MIN_UNITS {
        return None;
    }
    let count = units as f64;
    let student = StudentsT::new(0.0, 1.0, count - 1.0).ok()?;
    let far = (count / (count - 1.0)).sqrt() * student.inverse_cdf(0.975);
    Some(Normal::standard().cdf(-far))
}

/// The numbers of slots or clients.
struct Units {
    by_time: bool,
    /// A unit may have connections of both arms, and is drawn for both.
    are_joint: bool,
    numbers: BTreeMap<String, u32>,
}

impl Units {
    fn new(assign: AssignBy) -> Self {
        let by_time = assign == AssignBy::Time;
        Self { by_time, are_joint: assign == AssignBy::Connection, numbers: BTreeMap::new() }
    }

    fn number(&mut self, record: &ConnectionRecord) -> u32 {
        self.numbered(if self.by_time { record.slot.to_string() } else { record.client.clone() })
    }

    fn numbered(&mut self, unit: String) -> u32 {
        let next = self.numbers.len() as u32;
        *self.numbers.entry(unit).or_insert(next)
    }
}

/// What the connections of an arm add to a figure.
struct Sample {
    kind: FigureKind,
    /// The parts of connections with their units; sorted where a quantile is wanted.
    parts: Vec<((f64, f64), u32)>,
    /// The units that there are.
    units: Vec<u32>,
}

impl Sample {
    fn of(figure: Figure, records: &[&ConnectionRecord], units: &mut Units) -> Self {
        let part = |record: &&ConnectionRecord| Some((record.part(figure)?, units.number(record)));
        let parts = records.iter().filter_map(part).collect();
        Self::new(figure.kind(), parts)
    }

    fn new(kind: FigureKind, mut parts: Vec<((f64, f64), u32)>) -> Self {
        let present: BTreeSet<u32> = parts.iter().map(|(_, unit)| *unit).collect();
        match kind {
            FigureKind::Quantile(_) => parts.sort_by(|one, other| one.0.0.total_cmp(&other.0.0)),
            FigureKind::Share | FigureKind::Rate => parts = summed(&parts),
        }
        Self { kind, parts, units: present.into_iter().collect() }
    }

    /// The figure, with each unit as often as `weights` say; `None` without connections.
    fn figure(&self, weights: Option<&[u32]>) -> Option<f64> {
        let weight = |unit: u32| weights.map_or(1.0, |weights| f64::from(weights[unit as usize]));
        match self.kind {
            FigureKind::Share | FigureKind::Rate => {
                let add = |(part, all): (f64, f64), ((of, whole), unit): &((f64, f64), u32)| {
                    (part + of * weight(*unit), all + whole * weight(*unit))
                };
                self.kind.of_sums(self.parts.iter().fold((0.0, 0.0), add))
            }
            FigureKind::Quantile(level) => {
                let total: f64 = self.parts.iter().map(|(_, unit)| weight(*unit)).sum();
                let mut left = level * total;
                let reached = self.parts.iter().find(|(_, unit)| {
                    left -= weight(*unit);
                    weight(*unit) > 0.0 && left <= 0.0
                });
                reached.map(|((value, _), _)| *value)
            }
        }
    }

    fn levels(&self) -> Vec<f64> {
        if !matches!(self.kind, FigureKind::Quantile(_)) || self.parts.is_empty() {
            return Vec::new();
        }
        let last = self.parts.len() - 1;
        let at = |level: u8| (f64::from(level) / 100.0 * last as f64).round() as usize;
        LEVELS.iter().map(|level| self.parts[at(*level)].0.0).collect()
    }
}

/// One part for each unit: of a share nothing else counts.
fn summed(parts: &[((f64, f64), u32)]) -> Vec<((f64, f64), u32)> {
    let mut sums: BTreeMap<u32, (f64, f64)> = BTreeMap::new();
    for ((part, all), unit) in parts {
        let sum = sums.entry(*unit).or_default();
        *sum = (sum.0 + part, sum.1 + all);
    }
    sums.into_iter().map(|(unit, sum)| (sum, unit)).collect()
}

/// The figure of both arms, of units drawn again and again.
fn resampled(control: &Sample, arm: &Sample, units: &Units) -> Vec<(f64, f64)> {
    let mut random = Random::seeded(1, 0);
    let mut weights = vec![0_u32; units.numbers.len()];
    let all: Vec<u32> = (0..units.numbers.len() as u32).collect();
    let once = |_| {
        weights.fill(0);
        if units.are_joint {
            draw(&all, &mut weights, &mut random);
        } else {
            draw(&control.units, &mut weights, &mut random);
            draw(&arm.units, &mut weights, &mut random);
        }
        Some((control.figure(Some(&weights))?, arm.figure(Some(&weights))?))
    };
    (0..RESAMPLES).filter_map(once).collect()
}

fn draw(units: &[u32], weights: &mut [u32], random: &mut Random) {
    for _ in units {
        let drawn = units[random.below(units.len() as u64) as usize];
        weights[drawn as usize] += 1;
    }
}
