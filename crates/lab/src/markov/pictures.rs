//! Pictures of a Markov table: figures 5 and 6 of the paper for any table.

use cellpace_mdi::{States, TransitionMatrix};
use cellpace_report::{Heatmap, HeatmapAxis, HeatmapCell, short};

/// Delays of the first picture, as in the paper.
const DELAYS: u32 = 10;

/// The largest number of states of a matrix that is shown whole.
const SMALL: u32 = 380;

/// A model to be drawn.
#[derive(Debug, Clone, Copy)]
pub struct ModelPictures<'a> {
    /// Its name in titles.
    pub name: &'a str,
    /// Its states.
    pub states: States,
    /// Its transitions.
    pub matrix: &'a TransitionMatrix,
}

/// Neighbouring delays: the first one and how many.
#[derive(Debug, Clone, Copy)]
struct DelayRange {
    first: u32,
    count: u32,
}

impl ModelPictures<'_> {
    /// Returns the transitions among all delays of a small matrix, else among the first ten, and
    /// those within one delay: the one in which `zoom` lies (ms or change), else the one with the
    /// most cells.
    pub fn overview_and_zoom(&self, zoom: Option<f64>) -> [Heatmap; 2] {
        let delays = self.states.delays();
        let count = if self.is_small() { delays } else { DELAYS.min(delays) };
        let shown = DelayRange { first: 0, count };
        let zoomed = zoom.map_or_else(|| self.fullest(shown), |value| self.delay_at(value));
        [self.overview(shown), self.zoom(zoomed)]
    }

    /// Returns the whole matrix, if [`overview_and_zoom`](Self::overview_and_zoom) leaves out any of
    /// it.
    pub fn whole(&self) -> Option<Heatmap> {
        let all = DelayRange { first: 0, count: self.states.delays() };
        (!self.is_small()).then(|| self.overview(all))
    }

    fn is_small(&self) -> bool {
        self.states.len() <= SMALL
    }

    /// The delay in which `value` lies, the nearest if none.
    fn delay_at(&self, value: f64) -> u32 {
        let above = |delay: &u32| self.states.delay_value(*delay) <= value;
        match self.states {
            States::Absolute(_) | States::Levels(_) => {
                // These values are lower ends of ranges, and changes are middles.
                (0..self.states.delays()).take_while(above).last().unwrap_or(0)
            }
            _ => {
                let far = |delay: u32| (self.states.delay_value(delay) - value).abs();
                let all = 0..self.states.delays();
                all.min_by(|a, b| far(*a).total_cmp(&far(*b))).unwrap_or(0)
            }
        }
    }

    /// The delay of `among` with the most cells that lead back to it.
    fn fullest(&self, among: DelayRange) -> u32 {
        let size = |delay: u32| {
            let one = DelayRange { first: delay, count: 1 };
            self.cells(one).len()
        };
        let delays = among.first..among.first + among.count;
        // The first of several.
        delays.rev().max_by_key(|delay| size(*delay)).unwrap_or(among.first)
    }

    /// The transitions among some delays (figures 5a and 6a of the paper).
    fn overview(&self, delays: DelayRange) -> Heatmap {
        let windows = self.states.windows();
        let title = match delays.count == self.states.delays() {
            true => format!("{}: transitions", self.name),
            false => {
                let DelayRange { first, count } = delays;
                let [from, to] = [first, first + count - 1].map(|delay| self.delay_text(delay));
                format!("{}: transitions among delays {from} to {to}", self.name)
            }
        };
        let [low, high] = [0, windows - 1].map(|window| short(self.states.window_value(window)));
        let axis = |title: String| HeatmapAxis {
            title,
            len: delays.count * windows,
            labels: (0..delays.count)
                .map(|delay| {
                    let middle = (f64::from(delay) + 0.5) * f64::from(windows);
                    (middle, short(self.states.delay_value(delays.first + delay)))
                })
                .collect(),
            lines: (1..delays.count).map(|delay| delay * windows).collect(),
        };
        Heatmap {
            title,
            unit: "probability".to_owned(),
            columns: axis(format!(
                "to: {}, in each the windows {low} to {high}",
                self.delay_unit()
            )),
            rows: axis(format!("from: {}", self.delay_unit())),
            cells: self.cells(delays),
        }
    }

    /// The transitions within one delay (figures 5b and 6b of the paper).
    fn zoom(&self, delay: u32) -> Heatmap {
        let axis = |way: &str| HeatmapAxis {
            title: format!("{way}: {}", self.window_unit()),
            len: self.states.windows(),
            labels: self.window_labels(),
            lines: Vec::new(),
        };
        let from_to = match self.states {
            States::Absolute(_) | States::Levels(_) => {
                format!("the delay stays at {}", self.delay_text(delay))
            }
            _ => format!("the delay's change stays {}", self.delay_text(delay)),
        };
        Heatmap {
            title: format!("Zoom: {from_to}"),
            unit: "probability".to_owned(),
            columns: axis("to"),
            rows: axis("from"),
            cells: self.cells(DelayRange { first: delay, count: 1 }),
        }
    }

    /// Returns where the chain is in the long run, from the share of time of each state.
    pub fn distribution(&self, shares: &[f64]) -> Heatmap {
        // What a distribution has of nearly nothing everywhere would use up the scale.
        let least = shares.iter().copied().fold(0.0, f64::max) / 1e6;
        let shares = shares.iter().enumerate().filter(|(_, share)| **share > least);
        let delays = self.states.delays();
        let cell = |(state, share): (usize, &f64)| HeatmapCell {
            row: self.states.delay_of(state as u32),
            column: self.states.window_of(state as u32),
            value: *share,
        };
        Heatmap {
            title: "Stationary distribution".to_owned(),
            unit: "share".to_owned(),
            columns: HeatmapAxis {
                title: self.window_unit().to_owned(),
                len: self.states.windows(),
                labels: self.window_labels(),
                lines: Vec::new(),
            },
            rows: HeatmapAxis {
                title: self.delay_unit().to_owned(),
                len: delays,
                labels: (0..delays)
                    .map(|delay| (f64::from(delay) + 0.5, short(self.states.delay_value(delay))))
                    .collect(),
                lines: Vec::new(),
            },
            cells: shares.map(cell).collect(),
        }
    }

    fn cells(&self, delays: DelayRange) -> Vec<HeatmapCell> {
        let windows = self.states.windows();
        let (first, end) = (delays.first * windows, (delays.first + delays.count) * windows);
        let row = |from: u32| {
            let inside =
                self.matrix.row(from).iter().filter(move |(to, _)| (first..end).contains(to));
            inside.map(move |&(to, value)| HeatmapCell {
                row: from - first,
                column: to - first,
                value,
            })
        };
        (first..end).flat_map(row).collect()
    }

    fn window_labels(&self) -> Vec<(f64, String)> {
        // Half a cell on: axes count from the edge of a cell, and a label stands at its middle.
        let label = |window| (f64::from(window) + 0.5, short(self.states.window_value(window)));
        (0..self.states.windows()).map(label).collect()
    }

    fn delay_unit(&self) -> &'static str {
        match self.states {
            States::Absolute(_) => "delay [ms]",
            States::Levels(_) => "delay / base delay",
            _ => "change of the delay",
        }
    }

    fn window_unit(&self) -> &'static str {
        match self.states {
            States::Absolute(_) => "window [packets]",
            _ => "change of the window",
        }
    }

    fn delay_text(&self, delay: u32) -> String {
        delay_text(&self.states, delay)
    }
}

/// A delay as people read it.
fn delay_text(states: &States, delay: u32) -> String {
    let value = states.delay_value(delay);
    match states {
        States::Absolute(s) if s.quantization > 1 => {
            // The last bin may be wider than what is left of the range.
            let last = (value + f64::from(s.quantization) - 1.0).min(s.d_max.into());
            format!("{}..{} ms", short(value), short(last))
        }
        States::Absolute(_) => format!("{} ms", short(value)),
        States::Levels(_) => format!("{value:.2} x base"),
        _ => signed(value),
    }
}

fn signed(change: f64) -> String {
    if change > 0.0 { format!("+{}", short(change)) } else { short(change) }
}
