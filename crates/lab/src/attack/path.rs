//! One path of an attack: how it is drawn, changed, simplified and written.

use std::fmt::Write;

use cellpace_base::{Random, Rate, Span, format_bytes};
use serde::Serialize;

use super::bounds::{AttackBounds, GRAIN_MS, LevelRange, rounded};

/// A part of the run during which nothing changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
pub struct AttackStep {
    /// How long it takes, in ms.
    pub length_ms: u64,
    /// The rate of the link.
    pub rate_kbps: u64,
    /// The RTT without queueing.
    pub rtt_ms: u64,
    /// The share of packets lost at random, in hundredths of a percent.
    pub loss_hundredths: u64,
}

/// Steps of a path one after the other, and its buffer.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct AttackPath {
    /// The steps, at least one.
    pub steps: Vec<AttackStep>,
    /// The drop-tail buffer in front of the link.
    pub buffer_kb: u64,
}

/// What of a step can change.
#[derive(Debug, Clone, Copy)]
enum Quantity {
    Rate,
    Rtt,
    Loss,
}

const QUANTITIES: [Quantity; 3] = [Quantity::Rate, Quantity::Rtt, Quantity::Loss];

impl Quantity {
    fn of(self, step: &AttackStep) -> u64 {
        match self {
            Self::Rate => step.rate_kbps,
            Self::Rtt => step.rtt_ms,
            Self::Loss => step.loss_hundredths,
        }
    }

    fn set(self, step: &mut AttackStep, value: u64) {
        match self {
            Self::Rate => step.rate_kbps = value,
            Self::Rtt => step.rtt_ms = value,
            Self::Loss => step.loss_hundredths = value,
        }
    }

    fn range(self, bounds: &AttackBounds) -> LevelRange {
        match self {
            Self::Rate => bounds.rate,
            Self::Rtt => bounds.rtt,
            Self::Loss => bounds.loss,
        }
    }

    fn written(self, value: u64) -> String {
        match self {
            Self::Rate => Rate::from_bps(value * 1000).to_string(),
            Self::Rtt => Span::from_millis(value).to_string(),
            Self::Loss => format!("{}%", value as f64 / 100.0),
        }
    }
}

impl AttackPath {
    /// A path anywhere within the bounds.
    pub(super) fn draw(bounds: &AttackBounds, random: &mut Random) -> Self {
        let grains = bounds.length_ms() / GRAIN_MS;
        let count = (1 + random.below(bounds.steps as u64)).min(grains);
        let mut cuts: Vec<u64> = (1..count).map(|_| 1 + random.below(grains - 1)).collect();
        cuts.push(grains);
        cuts.sort_unstable();
        // Two cuts at one place would be a step of no length, which the text of a scenario cannot
        // have.
        cuts.dedup();
        let mut before = 0;
        let mut step = |end: u64| {
            let length_ms = (end - before) * GRAIN_MS;
            before = end;
            AttackStep {
                length_ms,
                rate_kbps: bounds.rate.draw(random),
                rtt_ms: bounds.rtt.draw(random),
                loss_hundredths: bounds.loss.draw(random),
            }
        };
        let steps = cuts.into_iter().map(&mut step).collect();
        Self { steps, buffer_kb: bounds.buffer.draw(random) }
    }

    /// The same path with one change, as long as before.
    pub(super) fn changed(&self, bounds: &AttackBounds, random: &mut Random) -> Self {
        let mut path = self.clone();
        let at = random.below(path.steps.len() as u64) as usize;
        let quantity = QUANTITIES[random.below(3) as usize];
        let range = quantity.range(bounds);
        match random.below(8) {
            0 => path.buffer_kb = bounds.buffer.near(path.buffer_kb, random),
            1 => quantity.set(&mut path.steps[at], range.draw(random)),
            // Without a change of this quantity.
            2 => {
                let value = quantity.of(&path.steps[at]);
                path.steps.iter_mut().for_each(|step| quantity.set(step, value));
            }
            3 => path.split(at, bounds, random),
            4 => path.join(at),
            5 => path.shift(at, random),
            _ => {
                let value = quantity.of(&path.steps[at]);
                quantity.set(&mut path.steps[at], range.near(value, random));
            }
        }
        path
    }

    /// The first part of this path, up to a time drawn, and the rest of another.
    pub(super) fn crossed(&self, other: &Self, bounds: &AttackBounds, random: &mut Random) -> Self {
        // At least 2, or there would be nothing to draw: a path of one grain is cut at its end,
        // which leaves it as it is.
        let grains = (self.length_ms() / GRAIN_MS).max(2);
        let at = (1 + random.below(grains - 1)) * GRAIN_MS;
        let mut steps = self.between(0, at);
        steps.extend(other.between(at, u64::MAX));
        let path = Self { steps, buffer_kb: other.buffer_kb };
        // Halves of two paths may have too many steps together; then the parent goes on alone.
        if path.steps.len() > bounds.steps { self.clone() } else { path }
    }

    /// The steps between two times in ms.
    fn between(&self, from: u64, to: u64) -> Vec<AttackStep> {
        let mut start = 0;
        let part = |step: &AttackStep| {
            let (low, high) = (start.max(from), (start + step.length_ms).min(to));
            start += step.length_ms;
            (low < high).then(|| AttackStep { length_ms: high - low, ..*step })
        };
        self.steps.iter().filter_map(part).collect()
    }

    fn split(&mut self, at: usize, bounds: &AttackBounds, random: &mut Random) {
        let step = self.steps[at];
        let grains = step.length_ms / GRAIN_MS;
        if grains < 2 || self.steps.len() >= bounds.steps {
            return;
        }
        let first = (1 + random.below(grains - 1)) * GRAIN_MS;
        self.steps[at].length_ms = first;
        let mut second = AttackStep { length_ms: step.length_ms - first, ..step };
        for quantity in QUANTITIES {
            // Near the first part, so that a cut alone changes the path only a little.
            quantity.set(&mut second, quantity.range(bounds).near(quantity.of(&step), random));
        }
        self.steps.insert(at + 1, second);
    }

    /// Gives the time of a step to the one in front of it.
    fn join(&mut self, at: usize) {
        if at > 0 {
            let step = self.steps.remove(at);
            self.steps[at - 1].length_ms += step.length_ms;
        }
    }

    /// Moves the boundary between two steps.
    fn shift(&mut self, at: usize, random: &mut Random) {
        if at > 0 {
            let grains = (self.steps[at - 1].length_ms + self.steps[at].length_ms) / GRAIN_MS;
            // Each of the two steps has a grain or more, so there are at least two to share out.
            let first = 1 + random.below(grains - 1);
            self.steps[at - 1].length_ms = first * GRAIN_MS;
            self.steps[at].length_ms = (grains - first) * GRAIN_MS;
        }
    }

    /// How long the run is, in ms.
    pub(super) fn length_ms(&self) -> u64 {
        self.steps.iter().map(|step| step.length_ms).sum()
    }

    /// What a reader has to take in: changes first, then significant digits and values that are not zero, then time.
    pub(super) fn complexity(&self) -> (usize, usize, u64) {
        let changes = |quantity: Quantity| {
            let same = |pair: &&[AttackStep]| quantity.of(&pair[0]) != quantity.of(&pair[1]);
            self.steps.windows(2).filter(same).count()
        };
        let digits = |value: u64| usize::from(value > 0) + usize::from(rounded(value, 1) != value);
        let of_step =
            |step: &AttackStep| QUANTITIES.map(|q| digits(q.of(step))).iter().sum::<usize>();
        let numbers = digits(self.buffer_kb) + self.steps.iter().map(of_step).sum::<usize>();
        let joints = self.steps.len() - 1;
        (joints + QUANTITIES.map(changes).iter().sum::<usize>(), numbers, self.length_ms())
    }

    /// Paths that are simpler in one respect, within the bounds.
    pub(super) fn simpler(&self, bounds: &AttackBounds) -> Vec<Self> {
        let mut paths = Vec::new();
        let mut with = |change: &dyn Fn(&mut Self)| {
            let mut path = self.clone();
            change(&mut path);
            // A change may make neighbours alike, whose boundary is then none.
            path.merge_alike();
            let is_long = path.length_ms() >= bounds.least_ms();
            // Strictly simpler, or shrinking could go round in a circle.
            if is_long && path.complexity() < self.complexity() && !paths.contains(&path) {
                paths.push(path);
            }
        };
        for at in 0..self.steps.len() {
            if self.steps.len() > 1 {
                with(&|path| {
                    path.steps.remove(at);
                });
            }
            with(&|path| path.join(at));
            with(&|path| path.halve(at));
            for quantity in QUANTITIES {
                let value = quantity.of(&self.steps[at]);
                let round = quantity.range(bounds).nearest(rounded(value, 1));
                let least = quantity.range(bounds).nearest(0);
                with(&|path| quantity.set(&mut path.steps[at], round));
                with(&|path| path.steps.iter_mut().for_each(|step| quantity.set(step, value)));
                // Only loss: without any a path is simpler, and the least rate or RTT is as long to
                // read as another.
                if matches!(quantity, Quantity::Loss) {
                    with(&|path| quantity.set(&mut path.steps[at], least));
                }
                for other in [at.checked_sub(1), Some(at + 1)].into_iter().flatten() {
                    let Some(neighbour) = self.steps.get(other) else { continue };
                    with(&|path| quantity.set(&mut path.steps[at], quantity.of(neighbour)));
                }
            }
        }
        let round = bounds.buffer.nearest(rounded(self.buffer_kb, 1));
        with(&|path| path.buffer_kb = round);
        paths
    }

    fn halve(&mut self, at: usize) {
        let grains = self.steps[at].length_ms / GRAIN_MS;
        self.steps[at].length_ms = (grains / 2).max(1) * GRAIN_MS;
    }

    /// Makes one step of neighbours that are the same.
    fn merge_alike(&mut self) {
        self.steps.dedup_by(|next, step| {
            let is_alike = AttackStep { length_ms: step.length_ms, ..*next } == *step;
            step.length_ms += if is_alike { next.length_ms } else { 0 };
            is_alike
        });
    }

    /// The fields of the path in a scenario file.
    pub(super) fn fields(&self) -> String {
        let [trace, rtt, loss] = QUANTITIES.map(|quantity| self.written(quantity));
        // A lone RTT or loss is written as it is in a scenario, and a lone rate is no trace by
        // itself.
        let trace = if trace.starts_with("step:") { trace } else { format!("constant:{trace}") };
        let queue = format_bytes(self.buffer_kb * 1000);
        let mut text = format!("trace = \"{trace}\"\nrtt = \"{rtt}\"\n");
        if loss != "0%" {
            let _ = writeln!(text, "loss = \"{loss}\"");
        }
        let _ = writeln!(text, "queue = \"droptail:{queue}\"");
        let _ = writeln!(text, "duration = \"{}\"", Span::from_millis(self.length_ms()));
        text
    }

    /// One quantity over time: a value, or steps that end with the run.
    fn written(&self, quantity: Quantity) -> String {
        let mut levels: Vec<(u64, u64)> = Vec::new();
        for step in &self.steps {
            match levels.last_mut().filter(|(value, _)| *value == quantity.of(step)) {
                Some((_, length)) => *length += step.length_ms,
                None => levels.push((quantity.of(step), step.length_ms)),
            }
        }
        if let [(value, _)] = levels[..] {
            return quantity.written(value);
        }
        let level = |(value, length): &(u64, u64)| {
            format!("{}/{}", quantity.written(*value), Span::from_millis(*length))
        };
        format!("step:{}", levels.iter().map(level).collect::<Vec<_>>().join(","))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(length_ms: u64, rate_kbps: u64, rtt_ms: u64, loss_hundredths: u64) -> AttackStep {
        AttackStep { length_ms, rate_kbps, rtt_ms, loss_hundredths }
    }

    fn is_within(path: &AttackPath, bounds: &AttackBounds) -> bool {
        let is_valid = |step: &AttackStep| {
            let in_range = |q: Quantity| q.range(bounds).nearest(q.of(step)) == q.of(step);
            step.length_ms >= GRAIN_MS && QUANTITIES.into_iter().all(in_range)
        };
        (1..=bounds.steps).contains(&path.steps.len()) && path.steps.iter().all(is_valid)
    }

    #[test]
    fn whatever_is_done_to_a_path_it_stays_within_the_bounds() {
        let (bounds, mut random) = (AttackBounds::default(), Random::seeded(3, 3));
        let mut path = AttackPath::draw(&bounds, &mut random);
        for _ in 0..2000 {
            let other = AttackPath::draw(&bounds, &mut random);
            path = path.crossed(&other, &bounds, &mut random).changed(&bounds, &mut random);
            assert!(is_within(&path, &bounds), "{path:?}");
            assert_eq!(path.length_ms(), 30_000);
            for simpler in path.simpler(&bounds) {
                assert!(simpler.complexity() < path.complexity());
                assert!(is_within(&simpler, &bounds), "{simpler:?}");
                assert!(simpler.length_ms() >= bounds.least_ms());
            }
        }
    }

    #[test]
    fn a_path_is_written_as_the_fields_of_a_scenario() {
        let steps = vec![step(5000, 12_000, 40, 0), step(25_000, 1500, 40, 50)];
        let path = AttackPath { steps, buffer_kb: 150 };
        assert_eq!(
            path.fields(),
            "trace = \"step:12mbit/5s,1500kbit/25s\"\nrtt = \"40ms\"\nloss = \"step:0%/5s,0.5%/25s\"\n\
             queue = \"droptail:150kB\"\nduration = \"30s\"\n"
        );
        let path = AttackPath { steps: vec![step(9000, 800, 7, 0)], buffer_kb: 2000 };
        assert_eq!(
            path.fields(),
            "trace = \"constant:800kbit\"\nrtt = \"7ms\"\nqueue = \"droptail:2MB\"\nduration = \"9s\"\n"
        );
    }

    #[test]
    fn the_simplest_path_has_nothing_simpler() {
        let path = AttackPath { steps: vec![step(11_300, 50_000, 200, 0)], buffer_kb: 10 };
        assert_eq!(path.simpler(&AttackBounds::default()), []);
    }
}
