//! The delay profile: what delay came with which window, and the curve through it.

use cellpace_base::{Span, Time, words};

use super::spline::{MIN_NODES, Spline};

/// The largest window the profile knows (docs/spec/verus.md 4: 40000 exclusive).
pub(super) const MAX_WINDOW: u32 = 39_999;

/// Windows per node of the curve to begin with (original code).
const WINDOWS_PER_NODE: u32 = 15;

/// The most nodes of the curve: fits take time with their third power.
const MAX_NODES: u32 = 128;

/// Weight of the old value when a window is visited again (original code).
pub(super) const EWMA: f64 = 0.875;

/// The least slope with which a monotone curve goes on to the right, in ms per packet.
const MIN_SLOPE: f64 = 0.01;

words! {
    /// How a curve that falls somewhere is made to rise, so that a delay belongs to one window.
    pub(crate) enum Repair {
        /// The highest rising curve that is nowhere above it: a point is no higher than any to its
        /// right. High points at small windows, left from a time when the link was slow, then do
        /// not count as soon as larger windows fare better. With the running maximum they would lift
        /// the whole curve to their right, the window would jump between one packet and the far end
        /// of the bump, and the windows between, never visited, could not correct it.
        Low = "low",
        /// The running maximum.
        High = "high",
        /// None.
        Off = "off",
    }
}

words! {
    /// How a repaired curve goes on beyond the largest measured window.
    pub(crate) enum Extension {
        /// At least as steep as on a link whose BDP is the largest window measured: there the delay
        /// grows by one base delay per BDP. While the profile is still flat that is the steepest it
        /// can turn out to be, so the window explores by doublings. Otherwise a profile of a few
        /// small windows, all at the base delay, sends it to thousands of packets before the first
        /// of them is acked, and their delays stay in the profile for good.
        Bdp = "bdp",
        /// With the end slope or the mean slope.
        Mean = "mean",
    }
}

/// How the curve is made from the points.
#[derive(Debug, Clone)]
pub(super) struct FitSettings {
    /// Whether a lowered number of windows per node stays for later fits.
    pub(super) sticky: bool,
    /// Decimal logarithm of the penalty.
    pub(super) rho: f64,
    /// How the curve is made to rise everywhere and, unless off, without end.
    pub(super) repair: Repair,
    /// How a repaired curve goes on to the right.
    pub(super) extension: Extension,
    /// Points not visited for this long are dropped.
    pub(super) age: Option<Span>,
}

/// Measured points, and the curve fitted to them last.
#[derive(Debug, Clone)]
pub(super) struct DelayProfile {
    settings: FitSettings,
    /// Delay in ms by window, up to the largest that was visited; meaningful where `populated` has
    /// the window's bit.
    delays: Vec<f64>,
    /// When each point was visited last; empty when points do not age.
    visited: Vec<Time>,
    /// One bit for each of `delays`.
    populated: Vec<u64>,
    windows_per_node: u32,
    spline: Spline,
    /// When the next fit is due.
    pub(super) fit_at: Time,
    /// The base delay with which the points, as they are, were fitted.
    fitted_with: Option<f64>,
    /// Points from this window on are dropped at the next fit.
    curve_stop: Option<u32>,
    curve: Option<ProfileCurve>,
    /// The tables of the curve before, to fill again.
    spare: ProfileCurve,
}

/// The curve, tabulated over the windows: index w holds f(w), index 0 nothing.
#[derive(Debug, Clone, Default)]
struct ProfileCurve {
    /// f itself.
    level: Vec<f64>,
    /// The largest f so far: the first window above a delay is found in it by binary search.
    rising: Vec<f64>,
    /// ms per packet beyond the table.
    slope: f64,
    monotone: bool,
}

/// What a fit was made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Fit {
    pub(super) points: u32,
    pub(super) nodes: u32,
}

impl DelayProfile {
    pub(super) fn new(settings: FitSettings) -> Self {
        Self {
            delays: Vec::new(),
            visited: Vec::new(),
            populated: Vec::new(),
            windows_per_node: WINDOWS_PER_NODE,
            spline: Spline::default(),
            fit_at: Time::ZERO,
            fitted_with: None,
            curve_stop: None,
            curve: None,
            spare: ProfileCurve::default(),
            settings,
        }
    }

    /// Takes a delay in ms measured with `window`.
    pub(super) fn record(&mut self, now: Time, window: u32, delay: f64) {
        let slot = window.clamp(1, MAX_WINDOW) as usize;
        let (word, bit) = (slot / 64, 1 << (slot % 64));
        if word >= self.populated.len() {
            self.make_room(word + 1);
        }
        self.delays[slot] = if self.populated[word] & bit == 0 {
            delay
        } else {
            EWMA * self.delays[slot] + (1.0 - EWMA) * delay
        };
        self.populated[word] |= bit;
        self.fitted_with = None;
        if let Some(visited) = self.visited.get_mut(slot) {
            *visited = now;
        }
    }

    /// Room for the windows of `words` words of `populated`. The vectors double, so few acks do this.
    fn make_room(&mut self, words: usize) {
        self.populated.resize(words, 0);
        self.delays.resize(words * 64, 0.0);
        if self.settings.age.is_some() {
            self.visited.resize(words * 64, Time::ZERO);
        }
    }

    /// The delay in ms measured at `window` itself.
    #[cfg(test)]
    pub(super) fn point(&self, window: u32) -> Option<f64> {
        let slot = window as usize;
        let word = self.populated.get(slot / 64)?;
        (word >> (slot % 64) & 1 == 1).then(|| self.delays[slot])
    }

    /// All points, windows rising.
    pub(super) fn points(&self) -> impl Iterator<Item = (f64, f64)> + Clone {
        self.windows().map(|window| (f64::from(window), self.delays[window as usize]))
    }

    /// How many windows have been visited.
    pub(super) fn len(&self) -> u32 {
        self.populated.iter().map(|word| word.count_ones()).sum()
    }

    /// Forgets the points from `window` on.
    fn forget_from(&mut self, window: u32) {
        let slot = window as usize;
        let word = slot / 64;
        if word >= self.populated.len() {
            return;
        }
        self.populated[word] &= (1 << (slot % 64)) - 1;
        self.populated[word + 1..].fill(0);
    }

    /// Forgets points and curve.
    pub(super) fn clear(&mut self) {
        self.populated.fill(0);
        self.fitted_with = None;
        self.curve_stop = None;
        if let Some(curve) = self.curve.take() {
            self.spare = curve;
        }
    }

    /// The next fit is due at once.
    pub(super) fn fit_soon(&mut self) {
        self.fit_at = Time::ZERO;
    }

    /// The next fit begins by dropping the points from `window` on.
    pub(super) fn forget_from_at_next_fit(&mut self, window: u32) {
        self.curve_stop = Some(window);
        self.fitted_with = None;
    }

    /// Whether a fit is due; the one after it follows an `interval` later.
    pub(super) fn is_fit_due(&mut self, now: Time, interval: Span) -> bool {
        let is_due = now >= self.fit_at;
        if is_due {
            self.fit_at = now + interval;
        }
        is_due
    }

    /// Whether another fit, knowing the base delay `base` in ms, would find the same curve, now and
    /// later.
    pub(super) fn is_fitted(&self, base: f64) -> bool {
        self.settings.age.is_none() && self.fitted_with == Some(base)
    }

    /// Whether there is a curve.
    pub(super) fn has_curve(&self) -> bool {
        self.curve.is_some()
    }

    /// Fits the curve anew, knowing the base delay `base` in ms. `None` when the points do not
    /// carry one; then the curve of before stays, if there is one.
    pub(super) fn refit(&mut self, now: Time, base: f64) -> Option<Fit> {
        if let Some(stop) = self.curve_stop.take() {
            self.forget_from(stop);
        }
        self.fitted_with = Some(base);
        self.drop_aged(now);
        let last = self.last_window()?;
        let start = if self.settings.sticky { self.windows_per_node } else { WINDOWS_PER_NODE };
        let plan = NodePlan::new(last, start)?;
        self.windows_per_node = plan.windows_per_node;
        let nodes = plan.nodes.min(MAX_NODES) as usize;
        let mut spline = std::mem::take(&mut self.spline);
        let fitted = spline.fit(self.points(), nodes, self.settings.rho);
        self.spline = spline;
        if !fitted {
            return None;
        }
        let mut curve = self.curve.take().unwrap_or_else(|| std::mem::take(&mut self.spare));
        curve.tabulate(&self.spline, last, self.settings.repair);
        if curve.monotone && self.settings.extension == Extension::Bdp {
            curve.slope = curve.slope.max(base / f64::from(last));
        }
        self.curve = Some(curve);
        Some(Fit { points: self.len(), nodes: self.spline.nodes() as u32 })
    }

    /// The delay in ms at window `w`: from the curve, or before there is one, from the nearest
    /// point at or below. `None` if there is no such point.
    pub(super) fn delay_at(&self, w: f64) -> Option<f64> {
        if let Some(curve) = &self.curve {
            return Some(curve.at(w));
        }
        let window = self.visited_at_or_below((w.max(0.0) as u32).min(MAX_WINDOW))?;
        Some(self.delays[window as usize])
    }

    /// The largest window whose successors all the way up to the first one above `delay` ms do
    /// not exceed it: one less than the first window, from 2, with more delay. `None` when there
    /// is no curve or, unless the curve is monotone, when it stays below `delay`.
    pub(super) fn window_for(&self, delay: f64) -> Option<u32> {
        self.curve.as_ref()?.inverse(delay)
    }

    /// The curve over the measured windows.
    pub(super) fn curve(&self) -> Vec<(f64, f64)> {
        let Some(curve) = &self.curve else { return Vec::new() };
        curve.level.iter().enumerate().skip(1).map(|(w, delay)| (w as f64, *delay)).collect()
    }

    fn windows(&self) -> impl Iterator<Item = u32> + Clone {
        self.populated.iter().enumerate().flat_map(|(index, word)| {
            let mut bits = *word;
            std::iter::from_fn(move || {
                let bit = (bits != 0).then(|| bits.trailing_zeros())?;
                bits &= bits - 1;
                Some(index as u32 * 64 + bit)
            })
        })
    }

    fn last_window(&self) -> Option<u32> {
        self.visited_at_or_below(MAX_WINDOW)
    }

    fn visited_at_or_below(&self, window: u32) -> Option<u32> {
        let (own, mask) = (window as usize / 64, u64::MAX >> (63 - window % 64));
        let up_to = |index: usize, word: u64| if index == own { word & mask } else { word };
        let words = self.populated.iter().enumerate().take(own + 1).rev();
        words
            .map(|(index, word)| (index, up_to(index, *word)))
            .find(|(_, word)| *word != 0)
            .map(|(index, word)| index as u32 * 64 + 63 - word.leading_zeros())
    }

    fn drop_aged(&mut self, now: Time) {
        let Some(age) = self.settings.age else { return };
        for (index, word) in self.populated.iter_mut().enumerate() {
            let mut bits = *word;
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                bits &= bits - 1;
                if now.since(self.visited[index * 64 + bit]) > age {
                    *word &= !(1 << bit);
                }
            }
        }
    }
}

/// docs/spec/verus.md 8.2: one node per so many windows, fewer windows where that
/// gives less than five nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct NodePlan {
    windows_per_node: u32,
    nodes: u32,
}

impl NodePlan {
    fn new(last_window: u32, windows_per_node: u32) -> Option<Self> {
        let least = MIN_NODES as u32;
        // The largest number of windows per node that leaves the least number of nodes.
        let windows_per_node = windows_per_node.min(last_window / least);
        (windows_per_node > 0)
            .then(|| Self { windows_per_node, nodes: last_window / windows_per_node })
    }
}

impl ProfileCurve {
    fn tabulate(&mut self, spline: &Spline, last: u32, repair: Repair) {
        let monotone = repair != Repair::Off;
        self.monotone = monotone;
        self.level.clear();
        self.level.push(0.0);
        self.level.extend((1..=last).map(|w| spline.at(f64::from(w))));
        if repair == Repair::Low {
            for w in (1..last as usize).rev() {
                self.level[w] = self.level[w].min(self.level[w + 1]);
            }
        }
        self.rising.clear();
        self.rising.extend_from_slice(&self.level);
        self.slope = spline.end_slope();
        // Without repair the search starts at window 2, so what f(1) is must not matter.
        for w in if monotone { 2 } else { 3 }..self.rising.len() {
            self.rising[w] = self.rising[w].max(self.rising[w - 1]);
        }
        if monotone {
            self.level.copy_from_slice(&self.rising);
            let rise = self.level[last as usize] - self.level[1];
            let mean_slope = rise / f64::from(last.saturating_sub(1).max(1));
            self.slope = self.slope.max(mean_slope).max(MIN_SLOPE);
        }
    }

    fn last(&self) -> usize {
        self.level.len() - 1
    }

    fn at(&self, w: f64) -> f64 {
        let last = self.last();
        let w = w.max(1.0);
        if w >= last as f64 {
            return self.level[last] + self.slope * (w - last as f64);
        }
        let below = w as usize;
        let part = w - below as f64;
        self.level[below] + part * (self.level[below + 1] - self.level[below])
    }

    fn inverse(&self, delay: f64) -> Option<u32> {
        let last = self.last();
        let within = 1 + self.rising[2..].partition_point(|level| *level <= delay);
        if within < last {
            return Some(within as u32);
        }
        if self.slope <= 0.0 {
            return None;
        }
        let beyond = last as f64 + ((delay - self.level[last]) / self.slope).max(0.0).floor();
        if beyond < f64::from(MAX_WINDOW) {
            return Some(beyond as u32);
        }
        self.monotone.then_some(MAX_WINDOW)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const REPAIRS: [Repair; 3] = [Repair::Low, Repair::High, Repair::Off];

    fn settings() -> FitSettings {
        FitSettings {
            sticky: false,
            rho: 2.0,
            repair: Repair::Low,
            extension: Extension::Bdp,
            age: None,
        }
    }

    fn learnt(settings: FitSettings, last: u32, delay: impl Fn(f64) -> f64) -> DelayProfile {
        let mut profile = DelayProfile::new(settings);
        for window in 1..=last {
            profile.record(Time::ZERO, window, delay(f64::from(window)));
        }
        profile
    }

    fn fitted(settings: FitSettings, last: u32, delay: impl Fn(f64) -> f64) -> DelayProfile {
        let mut profile = learnt(settings, last, delay);
        profile.refit(Time::ZERO, 0.0).unwrap();
        profile
    }

    #[test]
    fn verus_t1_a_point_is_a_moving_average() {
        let mut profile = DelayProfile::new(settings());
        let mut after = |delay| {
            profile.record(Time::ZERO, 9, delay);
            profile.point(9)
        };
        assert_eq!([after(40.0), after(80.0), after(80.0)], [Some(40.0), Some(45.0), Some(49.375)]);
    }

    #[test]
    fn verus_t6_node_counts() {
        let plan = |last| NodePlan::new(last, 15).map(|plan| (plan.windows_per_node, plan.nodes));
        assert_eq!(plan(300), Some((15, 20)));
        assert_eq!(plan(1000), Some((15, 66)));
        assert_eq!(plan(75), Some((15, 5)));
        assert_eq!(plan(74), Some((14, 5)));
        assert_eq!(plan(20), Some((4, 5)));
        assert_eq!(plan(5), Some((1, 5)));
        assert_eq!(plan(4), None);
        assert_eq!(DelayProfile::new(settings()).refit(Time::ZERO, 0.0), None);
        assert_eq!(learnt(settings(), 4, |w| w).refit(Time::ZERO, 0.0), None);
    }

    #[test]
    fn verus_t7_line() {
        for repair in REPAIRS {
            let line = fitted(FitSettings { repair, ..settings() }, 75, |w| 20.0 + 0.5 * w);
            for (w, delay) in [(1.0, 20.5), (40.0, 40.0), (100.0, 70.0), (1000.0, 520.0)] {
                assert!((line.delay_at(w).unwrap() - delay).abs() < 1e-4, "{w}");
            }
            let windows = [40.2, 70.2, 5.0, 20.2].map(|delay| line.window_for(delay).unwrap());
            assert_eq!(windows, [40, 100, 1, 1]);
        }
    }

    #[test]
    fn verus_t8_knee() {
        let knee = |w: f64| 30.0 + 2.0 * (w - 40.0).max(0.0);
        for repair in REPAIRS {
            let low = fitted(FitSettings { repair, ..settings() }, 75, knee);
            assert_eq!(
                [30.0, 60.0, 100.0].map(|delay| low.window_for(delay).unwrap()),
                [19, 52, 92]
            );
            assert!((low.delay_at(100.0).unwrap() - 107.851).abs() < 0.01);
        }
        let sharp = fitted(FitSettings { rho: -4.0, repair: Repair::Off, ..settings() }, 75, knee);
        for (w, delay) in [(20.0, 30.401), (40.0, 33.17), (75.0, 99.907)] {
            assert!((sharp.delay_at(w).unwrap() - delay).abs() < 0.01, "{w}");
        }
    }

    #[test]
    fn a_falling_curve_is_unmappable_only_without_monotone_repair() {
        let falling = |w: f64| 100.0 - 0.5 * w;
        let faithful = FitSettings { repair: Repair::Off, ..settings() };
        assert_eq!(fitted(faithful, 100, falling).window_for(200.0), None);
        for (repair, least) in [(Repair::Low, 100), (Repair::High, 1)] {
            let repaired = fitted(FitSettings { repair, ..settings() }, 100, falling);
            assert!(repaired.window_for(99.0).unwrap() >= least);
            assert!(repaired.window_for(200.0).unwrap() > 100);
            assert_eq!(repaired.window_for(1e9), Some(MAX_WINDOW));
        }
    }

    #[test]
    fn stale_delays_at_small_windows_lift_the_curve_only_with_the_running_maximum() {
        // Learnt on a slow link up to 10 packets, on a fast one from there on.
        let stale = |w: f64| if w <= 10.0 { 150.0 } else { 40.0 + 0.8 * w };
        let with = |repair| fitted(FitSettings { rho: -2.0, repair, ..settings() }, 120, stale);
        assert_eq!(with(Repair::High).window_for(100.0), Some(1));
        let low = with(Repair::Low).window_for(100.0).unwrap();
        assert!((70..=80).contains(&low), "{low}");
    }

    #[test]
    fn a_flat_profile_of_small_windows_explores_by_doublings() {
        let beyond = |extension| {
            let mut profile = learnt(FitSettings { extension, ..settings() }, 8, |_| 40.0);
            profile.refit(Time::ZERO, 40.0).unwrap();
            profile.window_for(80.0).unwrap()
        };
        assert_eq!(beyond(Extension::Bdp), 16);
        assert_eq!(beyond(Extension::Mean), 4008);
    }

    #[test]
    fn without_a_curve_the_nearest_lower_point_answers() {
        let mut profile = DelayProfile::new(settings());
        assert_eq!(profile.delay_at(50.0), None);
        profile.record(Time::ZERO, 3, 30.0);
        profile.record(Time::ZERO, 200, 90.0);
        let delays = [2.0, 3.0, 199.9, 200.0, 1e9].map(|w| profile.delay_at(w));
        assert_eq!(delays, [None, Some(30.0), Some(30.0), Some(90.0), Some(90.0)]);
        assert_eq!(profile.window_for(40.0), None);
    }

    #[test]
    fn forgetting_cuts_exactly_from_the_window_on() {
        for cut in [1, 63, 64, 65, 100, 128, MAX_WINDOW] {
            let mut profile = learnt(settings(), 300, |w| w);
            profile.forget_from(cut);
            assert_eq!(profile.len(), (cut - 1).min(300));
            assert!(profile.point(cut).is_none());
        }
    }

    #[test]
    fn many_windows_do_not_make_more_nodes_than_the_cap() {
        let mut profile = learnt(settings(), MAX_WINDOW, |w| 20.0 + 0.01 * w);
        let fit = profile.refit(Time::ZERO, 0.0).unwrap();
        assert_eq!(fit, Fit { points: MAX_WINDOW, nodes: 128 });
        assert!((profile.delay_at(20_000.0).unwrap() - 220.0).abs() < 0.01);
    }

    #[test]
    fn windows_per_node_recover_unless_they_are_sticky() {
        for (sticky, nodes) in [(false, 20), (true, 128)] {
            let mut profile = learnt(FitSettings { sticky, ..settings() }, 7, |w| w);
            assert_eq!(profile.refit(Time::ZERO, 0.0).unwrap().nodes, 7);
            for window in 8..=300 {
                profile.record(Time::ZERO, window, f64::from(window));
            }
            assert_eq!(profile.refit(Time::ZERO, 0.0).unwrap().nodes, nodes);
        }
    }

    #[test]
    fn aged_points_go_and_the_last_curve_stays() {
        let settings = FitSettings { age: Some(Span::from_secs(10)), ..settings() };
        let mut profile = fitted(settings, 50, |w| 20.0 + w);
        profile.record(Time::from_secs(9), 3, 23.0);
        assert_eq!(profile.refit(Time::from_secs(11), 0.0), None);
        assert_eq!(profile.len(), 1);
        assert!((profile.delay_at(30.0).unwrap() - 50.0).abs() < 1e-3);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The binary search finds what a scan over the windows finds, which is what is defined.
        #[test]
        fn the_inverse_is_the_first_crossing(
            delays in prop::collection::vec(1.0..300.0_f64, 5..200),
            rho in -3.0..3.0_f64,
            repair in prop::sample::select(REPAIRS.to_vec()),
            asked in prop::collection::vec(-10.0..600.0_f64, 20),
        ) {
            let last = delays.len() as u32;
            let profile = fitted(FitSettings { rho, repair, ..settings() }, last, |w| delays[w as usize - 1]);
            for delay in asked {
                let scanned = (2..=MAX_WINDOW)
                    .find(|w| profile.delay_at(f64::from(*w)).unwrap() > delay)
                    .map(|w| w - 1);
                match profile.window_for(delay) {
                    Some(MAX_WINDOW) if scanned.is_none() => prop_assert!(repair != Repair::Off),
                    // Right on a crossing, rounding may decide either way.
                    found => if found != scanned {
                        let (found, scanned) = (found.unwrap(), scanned.unwrap());
                        let gap = profile.delay_at(f64::from(found.max(scanned))).unwrap() - delay;
                        prop_assert!(found.abs_diff(scanned) == 1 && gap.abs() < 1e-6);
                    },
                }
            }
        }
    }
}
